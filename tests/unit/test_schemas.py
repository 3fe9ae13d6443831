"""The shapes of the wire, as whoever reads them in a terminal sees them."""

from msgspec import UNSET

from rankd import schemas


def test_a_shape_prints_what_it_says_and_nothing_that_was_not_sent() -> None:
    row = schemas.Row(1, "ada", None, 5, None, None, place=2)
    assert repr(row) == (
        "Row(rank=1, player='ada', name=None, score=5, rank_change=None, metadata=None, place=2)"
    )
    assert row.columns is UNSET


def test_every_shape_with_a_field_that_may_be_missing_prints_without_it() -> None:
    shapes = [value for value in vars(schemas).values() if isinstance(value, type)]
    partly = [
        each for each in shapes if UNSET in (getattr(each, "__struct_defaults__", None) or ())
    ]
    assert len(partly) > 4
    assert [each for each in partly if not issubclass(each, schemas.OptionalFields)] == []
