"""The tree of errors is what its drawing says, and each leaf speaks for itself."""

from decimal import Decimal

import pytest

from rankd import errors
from rankd.errors import (
    FIELD_ERRORS_MAX,
    Corrupt,
    FieldError,
    Invalid,
    InvalidBoard,
    InvalidCursor,
    RankdError,
    RateLimited,
    Refused,
    RequestTimeout,
    ScoreOutOfBounds,
    Unavailable,
    UnknownFact,
    UnreadableFact,
    count,
)


def drawn_tree() -> dict[str, str]:
    """Read the drawing at the top of the module: each name with the name it hangs from."""
    assert errors.__doc__ is not None
    lines = errors.__doc__.splitlines()
    parents = {}
    path: list[str] = []
    for line in lines[lines.index("RankdError") :]:
        if not line:
            break
        name = line.replace("│", " ").replace("├──", "   ").replace("└──", "   ").split()[0]
        depth = line.index(name) // 4
        path = [*path[:depth], name]
        if depth:
            parents[name] = path[depth - 1]
    return parents


def classes_under(parent: type[RankdError]) -> list[type[RankdError]]:
    children = [child for child in parent.__subclasses__() if child.__module__ == errors.__name__]
    return [found for child in children for found in (child, *classes_under(child))]


def test_the_drawing_is_the_tree() -> None:
    assert drawn_tree() == {
        found.__name__: found.__bases__[0].__name__ for found in classes_under(RankdError)
    }


def test_every_error_is_refused_unavailable_or_corrupt() -> None:
    """A caller has one question, whether to try again, and each branch answers it."""
    for found in classes_under(RankdError):
        assert issubclass(found, Refused | Unavailable | Corrupt)


def test_every_leaf_has_a_code_of_its_own() -> None:
    leaves = [found for found in classes_under(RankdError) if not classes_under(found)]
    codes = [found.code for found in leaves if found is not Unavailable]
    assert len(set(codes)) == len(codes) > 0


def test_a_code_cannot_be_taken_twice() -> None:
    with pytest.raises(AssertionError, match="invalid_board"):
        type("Twin", (Refused,), {"code": "invalid_board"})


def test_an_invalid_request_names_every_wrong_field() -> None:
    wrong = [FieldError("a.b", "must be 1"), FieldError("", "must be an object")]
    error = InvalidBoard(wrong)
    assert error.errors == tuple(wrong)
    assert str(error) == "a.b must be 1; must be an object"


def test_the_list_of_wrong_fields_is_bounded() -> None:
    error = Invalid([FieldError(str(n), "is unknown") for n in range(10 * FIELD_ERRORS_MAX)])
    assert len(error.errors) == FIELD_ERRORS_MAX


def test_an_invalid_request_has_at_least_one_wrong_field() -> None:
    with pytest.raises(AssertionError):
        Invalid([])


def test_a_score_out_of_bounds_tells_the_bounds_as_people_write_them() -> None:
    error = ScoreOutOfBounds(board="global", low=Decimal("0E-9"), high=10)
    assert (error.board, error.low, error.high) == ("global", 0, 10)
    assert error.errors == (FieldError("score", "must lie between 0.000000000 and 10"),)


def test_errors_carry_fields_besides_their_prose() -> None:
    assert InvalidCursor("is damaged").problem == "is damaged"
    assert UnknownFact("x.9").kind == "x.9"
    unreadable = UnreadableFact("x.1", "truncated")
    assert (unreadable.kind, unreadable.problem) == ("x.1", "truncated")
    assert "x.1" in str(unreadable)


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (0, "0 facts"),
        (1, "1 fact"),
        (2_000, "2,000 facts"),
        (1.0, "1 fact"),
        (0.5, "0.5 facts"),
    ],
)
def test_a_count_has_the_number_of_its_noun(number: float, told: str) -> None:
    assert count(number, "fact") == told


def test_waits_are_told_with_the_number_of_their_noun() -> None:
    assert str(RateLimited(retry_after_seconds=1)) == "try again in 1 second"
    assert str(RequestTimeout(seconds_max=30.0)).endswith("within 30 seconds")
