"""What a submission may ask, and what judging decides, by examples; the model is in property/."""

import json
from decimal import Decimal
from typing import Any

import pytest

from rankd.errors import FieldError, Invalid, InvalidSubmission, ScoreOutOfBounds
from rankd.model.board import SCORE_MAX, SCORE_MIN, Board
from rankd.model.facts import ScoreSubmitted, decode, encode
from rankd.model.json_values import JSON_DEPTH_MAX
from rankd.model.submission import (
    ATTRIBUTE_TEXT_BYTES_MAX,
    ATTRIBUTES_MAX,
    BUILD_BYTES_MAX,
    COLUMNS_CHANGED,
    DELTA_UNSUPPORTED,
    METADATA_BYTES_MAX,
    OUT_OF_BOUNDS,
    OVERFLOW,
    PLAYER_ID_BYTES_MAX,
    SUBMISSION_KEY_BYTES_MAX,
    Counted,
    Held,
    NotBetter,
    PlainFields,
    Submission,
    judge,
    read_facts,
    read_plain,
    read_plain_batch,
    takes_plain,
    valid_player,
)

PLAIN = Board.define("global", {})
RUN = Board.define(
    "run", {"columns": [{"name": "points"}, {"name": "time_ms", "direction": "lower"}]}
)


def board(**definition: object) -> Board:
    return Board.define("b", definition)


def submission(on: Board = PLAIN, /, **body: object) -> Submission:
    return Submission.of(on, {"player": "p42", **body})


def faults(on: Board = PLAIN, /, **body: object) -> dict[str, str]:
    """Submit what cannot be, and return what is wrong with each field."""
    with pytest.raises(InvalidSubmission) as caught:
        Submission.of(on, {"player": "p42", **body})
    return dict(caught.value.errors)


# ------------------------------------------------------------------------- what it asks


def test_a_player_and_a_score_are_enough() -> None:
    asked = submission(score=4500)
    assert asked == Submission(board="global", player="p42", scores=(4500,), delta=None)


def test_zero_is_a_score() -> None:
    assert submission(score=0).scores == (0,)
    assert submission(score="0").scores == (0,)
    assert submission(delta=0).delta == 0
    assert submission(RUN, score=0, columns={"time_ms": 0}).scores == (0, 0)


def test_every_field_is_read() -> None:
    asked = submission(
        board="global",
        score=4500,
        key="m:9981",
        metadata={"b": [1, 2.5, None], "a": "é"},
        attributes={"region": "eu", "level": 7, "vip": True},
        build="1.2",
        at="2026-11-14T09:30:00Z",
    )
    assert asked.key == "m:9981"
    assert asked.metadata == '{"a":"é","b":[1,2.5,null]}'.encode()
    assert asked.attributes == {"level": 7, "region": "eu", "vip": True}
    assert asked.build == "1.2"
    assert asked.at == 1794648600000000


def test_null_means_not_given() -> None:
    names = ("delta", "key", "columns", "metadata", "attributes", "build", "at", "board")
    nothing = dict.fromkeys((*names, "run", "signature"))
    assert submission(score=1, **nothing) == submission(score=1)


@pytest.mark.parametrize("value", ["bogus", "", 7, {}])
def test_runs_and_signatures_are_not_ignored(value: object) -> None:
    """A sender of either believes that a forged one would be refused."""
    not_a_run = {"run": "must be a run just as it was handed out"}
    assert faults(score=1, run=value) == not_a_run
    assert faults(score=1, signature=value) == {"signature": "goes into the header Rankd-Signature"}


def test_scores_are_in_the_unit_of_the_board() -> None:
    assert submission(board(decimals=2), score="12.34").scores == (1234,)
    assert submission(board(decimals=2), delta=-0.5).delta == -50


@pytest.mark.parametrize(
    "body",
    [
        {"score": 7, "columns": {"time_ms": 900}},
        {"columns": {"points": 7, "time_ms": 900}},
        {"columns": {"time_ms": "900", "points": "7"}},
    ],
)
def test_every_column_is_given_once_the_first_perhaps_as_the_score(body: dict[str, Any]) -> None:
    assert submission(RUN, **body).scores == (7, 900)


def test_a_board_of_one_column_may_be_given_it_by_name() -> None:
    assert submission(columns={"score": 5}).scores == (5,)


def test_a_delta_asks_for_the_first_column_alone() -> None:
    asked = submission(RUN, delta=-5)
    assert (asked.scores, asked.delta) == (None, -5)


def test_the_fact_remembers_all_of_it_and_who_wrote_it() -> None:
    asked = submission(score=4500, key="k", metadata={}, build="1")
    fact = asked.fact(actor="game-server")
    assert fact == ScoreSubmitted(
        "global", "p42", (4500,), key="k", metadata=b"{}", build="1", actor="game-server"
    )
    assert decode(*encode(fact)) == fact


# -------------------------------------------------------------------- what is refused


def test_a_submission_is_an_object() -> None:
    with pytest.raises(InvalidSubmission) as caught:
        Submission.of(PLAIN, [1])  # type: ignore[arg-type]
    assert caught.value.errors == (FieldError("", "must be an object"),)


def test_every_wrong_field_is_named_at_once() -> None:
    wrong = faults(
        player="",
        score="x",
        delta=True,
        columns=5,
        key="",
        metadata={"x": float("nan")},
        attributes={"a b": [], "c": 2**63},
        build=7,
        at="yesterday",
        run="\n",
        signature=b"s",
        board="other",
        surprise=1,
    )
    assert sorted(wrong) == sorted(
        [
            "player",
            "delta",
            "score",
            "columns",
            "key",
            "metadata",
            "attributes.?",
            "attributes.c",
            "build",
            "at",
            "run",
            "signature",
            "board",
            "surprise",
        ]
    )


@pytest.mark.parametrize(
    ("on", "body", "field", "accepted"),
    [
        (PLAIN, {}, "score", "given, or else delta"),
        (PLAIN, {"score": True}, "score", "number"),
        (PLAIN, {"score": 1.5}, "score", "whole"),
        (PLAIN, {"score": ""}, "score", "digits"),
        (PLAIN, {"score": False}, "score", "number"),
        (PLAIN, {"score": []}, "score", "number"),
        (PLAIN, {"score": 2**63}, "score", "larger"),
        (PLAIN, {"delta": 2**63}, "delta", "larger"),
        (PLAIN, {"score": 1, "delta": 1}, "score", "combined with delta"),
        (RUN, {"delta": 1, "columns": {"time_ms": 1}}, "columns", "combined with delta"),
        (board(rule="first"), {"delta": 1}, "delta", "first score"),
        (PLAIN, {"score": 1, "columns": {"other": 1}}, "columns.other", "not a column"),
        (RUN, {"score": 1, "columns": {"time_ms": 1, "points": 1}}, "columns.points", "already"),
        (PLAIN, {"score": 1, "columns": []}, "columns", "object"),
        (RUN, {"score": 1}, "columns.time_ms", "given"),
        (RUN, {"columns": {"time_ms": 1}}, "columns.points", "given"),
        (RUN, {"score": 1, "columns": {"time_ms": None}}, "columns.time_ms", "given"),
        (RUN, {"score": 1, "columns": {"time_ms": "x"}}, "columns.time_ms", "digits"),
        (PLAIN, {"score": 1, "board": "other"}, "board", "submitted to"),
        (PLAIN, {"score": 1, "scores": [1]}, "scores", "unknown"),
        (PLAIN, {"score": 1, "attributes": []}, "attributes", "object"),
        (PLAIN, {"score": 1, "attributes": {"a": ""}}, "attributes.a", "1 to 128"),
        (PLAIN, {"score": 1, "attributes": {"a": None}}, "attributes.a", "1 to 128"),
        (PLAIN, {"score": 1, "attributes": {"a": 1.5}}, "attributes.a", "integer"),
        (PLAIN, {"score": 1, "attributes": {"x" * 33: 1}}, "attributes." + "x" * 33, "1 to 32"),
        (PLAIN, {"score": 1, "attributes": {5: 1}}, "attributes.?", "1 to 32"),
    ],
)
def test_a_refusal_says_which_field_and_what_it_accepts(
    on: Board, body: dict[str, Any], field: str, accepted: str
) -> None:
    wrong = faults(on, **body)
    assert list(wrong) == [field]
    assert accepted in wrong[field]


def test_a_board_of_several_columns_is_not_content_with_nothing() -> None:
    assert faults(RUN) == {"columns.points": "must be given", "columns.time_ms": "must be given"}


def test_a_refusal_never_repeats_what_a_stranger_wrote() -> None:
    marker = "<script>" * 50
    wrong = faults(
        RUN,
        columns={marker: 1},
        attributes={marker: marker},
        metadata=marker * 10,
        at=marker,
        key=marker,
        **{marker: 1},
    )
    assert "<script>" not in json.dumps(wrong)
    assert {"?", "columns.?", "attributes.?"} <= wrong.keys()


@pytest.mark.parametrize(
    ("field", "bytes_max"),
    [
        ("player", PLAYER_ID_BYTES_MAX),
        ("key", SUBMISSION_KEY_BYTES_MAX),
        ("build", BUILD_BYTES_MAX),
    ],
)
def test_texts_are_bounded_in_bytes_not_in_letters(field: str, bytes_max: int) -> None:
    for longest in ("x" * bytes_max, "é" * (bytes_max // 2)):
        assert getattr(submission(**{"score": 1, field: longest}), field) == longest
    for longer in ("x" * (bytes_max + 1), "é" * (bytes_max // 2) + "x"):
        assert list(faults(**{"score": 1, field: longer})) == [field]


@pytest.mark.parametrize(
    "player",
    ["p42", " 7", "42", "a/b?c=d", "名前", "👩‍🚀", "user@example.org", "'; DROP TABLE", "אבג"],
)
def test_a_player_is_any_printable_text(player: str) -> None:
    assert submission(player=player, score=1).player == player
    assert valid_player(player)


@pytest.mark.parametrize(
    "player",
    [
        *("\u202eabc", "a\u2066b", "\u200f", "é\u061c", "a\u200eb"),
        *(" ", "   ", "\u200b", "\u00ad", "\ufeff", "\u200b \u2060", "\u3164"),
    ],
    ids=ascii,
)
def test_who_cannot_be_seen_or_turns_text_around_submits_nothing_and_can_be_read(
    player: str,
) -> None:
    assert list(faults(player=player, score=1)) == ["player"]
    assert read_plain(PLAIN, PlainFields(player, 1), actor=None) is None
    with pytest.raises(InvalidSubmission):
        read_facts(PLAIN, [(player, 1)])
    assert valid_player(player), "ledgers may hold it"


@pytest.mark.parametrize(
    "player",
    [
        "",
        "\x00",
        "a\x00b",
        "é\x00",
        "a\n",
        "é\n",
        "\x7f",
        "é\x85",
        "\ud800",
        "é\udfff",
        42,
        None,
        b"p",
    ],
)
def test_a_player_is_not_what_no_store_can_keep(player: object) -> None:
    assert list(faults(player=player, score=1)) == ["player"]
    assert not valid_player(player)


@pytest.mark.parametrize(
    ("at", "microseconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-11-14T09:30:00Z", 1794648600000000),
        ("2026-11-14t09:30:00z", 1794648600000000),
        ("2026-11-14T10:30:00+01:00", 1794648600000000),
        ("2026-11-14T09:30:00.123456Z", 1794648600123456),
        ("2026-11-14T09:30:00.123456789Z", 1794648600123456),
        ("0001-01-01T00:00:00+23:59", -62135683140000000),
    ],
)
def test_a_time_is_kept_as_an_instant(at: str, microseconds: int) -> None:
    assert submission(score=1, at=at).at == microseconds


@pytest.mark.parametrize(
    "at",
    [
        "2026-11-14",
        "2026-11-14T09:30:00",
        "2026-11-14T09:30Z",
        "2026-13-14T09:30:00Z",
        "2026-11-14T24:30:00Z",
        "2026-11-14T09:30:00+25:00",
        "20261114T093000Z",
        "2026-W46-6T09:30:00Z",
        "٢٠٢٦-11-14T09:30:00Z",
        "",
        1794648600,
    ],
)
def test_a_time_without_a_zone_or_a_calendar_is_refused(at: object) -> None:
    assert list(faults(score=1, at=at)) == ["at"]


def nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("metadata", "encoded"),
    [
        ({}, b"{}"),
        ("text", b'"text"'),
        (False, b"false"),
        ({"b": 1, "a": {"d": 1, "c": 2}}, b'{"a":{"c":2,"d":1},"b":1}'),
        (Decimal("1.50"), b"1.50"),
        (2**64 - 1, b"18446744073709551615"),
        ([-(2**63)], b"[-9223372036854775808]"),
        ("x" * (METADATA_BYTES_MAX - 2), b'"' + b"x" * (METADATA_BYTES_MAX - 2) + b'"'),
    ],
)
def test_metadata_is_any_json_with_its_keys_sorted(metadata: object, encoded: bytes) -> None:
    assert submission(score=1, metadata=metadata).metadata == encoded


def endless() -> object:
    value: list[object] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    "metadata",
    [
        "x" * (METADATA_BYTES_MAX - 1),
        nested(JSON_DEPTH_MAX),
        nested(100_000),
        endless(),
        float("nan"),
        [float("inf")],
        Decimal("NaN"),
        {1: 2},
        {"a": b"bytes"},
        {"a": (1, 2)},
        {"a": {1, 2}},
        object(),
        "\ud800",
        2**64,
        {"a": [-(2**63) - 1]},
        10**30,
        "a\x00b",
        {"a": ["\x00"]},
        {"a\x00": 1},
    ],
    ids=str(list(range(19))).strip("[]").split(", "),
)
def test_metadata_that_json_cannot_say_or_nobody_should_read_is_refused(metadata: object) -> None:
    assert list(faults(score=1, metadata=metadata)) == ["metadata"]


def test_metadata_may_be_as_deep_as_its_bound() -> None:
    assert submission(score=1, metadata=nested(JSON_DEPTH_MAX - 1)).metadata is not None


def test_attributes_are_few_and_small() -> None:
    most: dict[str, Any] = {f"a{n}": "x" * ATTRIBUTE_TEXT_BYTES_MAX for n in range(ATTRIBUTES_MAX)}
    assert submission(score=1, attributes=most).attributes == most
    assert list(faults(score=1, attributes={**most, "more": 1})) == ["attributes"]
    longer = "x" * (ATTRIBUTE_TEXT_BYTES_MAX + 1)
    assert list(faults(score=1, attributes={"a": longer})) == ["attributes.a"]
    widest = {"low": SCORE_MIN, "high": SCORE_MAX}
    assert submission(score=1, attributes=widest).attributes == widest


# ----------------------------------------------------------------------------- bounds


@pytest.mark.parametrize("rule", ["best", "latest", "first"])
def test_a_score_that_can_never_count_is_refused_at_the_door(rule: str) -> None:
    bounded = board(rule=rule, decimals=1, limits={"score_min": 0, "score_max": 10})
    assert submission(bounded, score=0).scores == (0,)
    assert submission(bounded, score=10).scores == (100,)
    for score in (-0.1, 10.1):
        with pytest.raises(ScoreOutOfBounds) as caught:
            submission(bounded, score=score)
        assert (caught.value.board, caught.value.low, caught.value.high) == ("b", 0, 10)
        assert caught.value.errors == (("score", "must lie between 0.0 and 10.0"),)


def test_a_part_of_a_sum_may_be_out_of_bounds_for_the_sum_may_not() -> None:
    bounded = board(rule="sum", limits={"score_min": 0, "score_max": 10})
    assert submission(bounded, score=-5).scores == (-5,)
    assert submission(board(limits={"score_max": 10}), delta=50).delta == 50


# ------------------------------------------------------------------------ plain ones


@pytest.mark.parametrize(
    ("definition", "takes"),
    [
        ({}, True),
        ({"rule": "latest", "limits": {"score_max": 9}}, True),
        ({"rule": "first"}, True),
        ({"rule": "sum"}, False),
        ({"decimals": 1}, False),
        ({"columns": [{"name": "a"}, {"name": "b"}]}, False),
    ],
)
def test_a_board_takes_plain_scores_that_need_nothing_but_their_bounds(
    definition: dict[str, Any], takes: bool
) -> None:
    assert takes_plain(board(**definition)) is takes


BOUNDED = Board.define("b", {"limits": {"score_min": -5, "score_max": 10}})


@pytest.mark.parametrize("player", ["p", "é😀", "x" * PLAYER_ID_BYTES_MAX])
@pytest.mark.parametrize("score", [-5, 0, 10])
@pytest.mark.parametrize("key", [None, "k", "k" * SUBMISSION_KEY_BYTES_MAX])
def test_a_plain_submission_is_the_fact_that_care_would_make(
    player: str, score: int, key: str | None
) -> None:
    plain = read_plain(BOUNDED, PlainFields(player, score, key), actor="me")
    with_care = Submission.of(BOUNDED, {"player": player, "score": score, "key": key})
    assert plain == with_care.fact(actor="me")
    (read,) = read_facts(BOUNDED, [{"player": player, "score": score, "key": key}], actor="me")
    assert read == plain


@pytest.mark.parametrize(
    ("player", "score", "key"),
    [
        ("p", 11, None),
        ("p", -6, None),
        ("p", True, None),
        ("p", 1.0, None),
        ("p", "1", None),
        ("p", None, None),
        ("", 1, None),
        (None, 1, None),
        (7, 1, None),
        ("a\nb", 1, None),
        ("é\x85", 1, None),
        ("é" * (PLAYER_ID_BYTES_MAX // 2 + 1), 1, None),
        ("p", 1, ""),
        ("p", 1, 7),
        ("p", 1, "k" * (SUBMISSION_KEY_BYTES_MAX + 1)),
        ("p", 1, "a\x00"),
    ],
)
def test_what_has_to_be_looked_at_with_care_is_not_plain(
    player: object, score: object, key: object
) -> None:
    assert read_plain(BOUNDED, PlainFields(player, score, key), actor=None) is None


# ----------------------------------------------------------------------------- judging


@pytest.mark.parametrize(
    ("definition", "asked", "current", "verdict"),
    [
        # The first score of a player counts on any board, zero too.
        ({"rule": "best"}, {"score": 0}, None, Counted((0,), True)),
        ({"rule": "latest"}, {"score": 0}, None, Counted((0,), True)),
        ({"rule": "sum"}, {"score": 0}, None, Counted((0,), True)),
        ({"rule": "first"}, {"score": 0}, None, Counted((0,), True)),
        # best
        ({"rule": "best"}, {"score": 6}, (5,), Counted((6,), True)),
        ({"rule": "best"}, {"score": 5}, (5,), NotBetter((5,))),
        ({"rule": "best"}, {"score": 4}, (5,), NotBetter((5,))),
        ({"rule": "best", "direction": "lower"}, {"score": 4}, (5,), Counted((4,), True)),
        ({"rule": "best", "direction": "lower"}, {"score": 5}, (5,), NotBetter((5,))),
        ({"rule": "best"}, {"score": 0}, (-1,), Counted((0,), True)),
        # latest: the same again counts, and moves nobody
        ({"rule": "latest"}, {"score": 4}, (5,), Counted((4,), True)),
        ({"rule": "latest"}, {"score": 5}, (5,), Counted((5,), False)),
        # sum
        ({"rule": "sum"}, {"score": 4}, (5,), Counted((9,), True)),
        ({"rule": "sum"}, {"score": -4}, (5,), Counted((1,), True)),
        ({"rule": "sum"}, {"score": 0}, (5,), Counted((5,), False)),
        # first
        ({"rule": "first"}, {"score": 9}, (5,), NotBetter((5,))),
        # A delta adds on any rule, also when the result is worse.
        ({"rule": "best"}, {"delta": 5}, None, Counted((5,), True)),
        ({"rule": "best"}, {"delta": -1}, (5,), Counted((4,), True)),
        ({"rule": "latest"}, {"delta": 2}, (5,), Counted((7,), True)),
        ({"rule": "sum"}, {"delta": 2}, (5,), Counted((7,), True)),
        ({"rule": "best"}, {"delta": 0}, (5,), Counted((5,), False)),
        ({"rule": "best"}, {"delta": 0}, None, Counted((0,), True)),
    ],
)
def test_each_rule_combines_old_and_new_in_its_own_way(
    definition: dict[str, Any],
    asked: dict[str, Any],
    current: tuple[int, ...] | None,
    verdict: object,
) -> None:
    on = board(**definition)
    made = submission(on, **asked)
    assert judge(on, made, current) == verdict
    assert judge(on, made.fact(), current) == verdict  # The fold sees facts.


@pytest.mark.parametrize(
    ("rule", "asked", "current", "verdict"),
    [
        # The whole run is compared: a better time does not save fewer points.
        ("best", {"score": 6, "columns": {"time_ms": 9}}, (5, 1), Counted((6, 9), True)),
        ("best", {"score": 5, "columns": {"time_ms": 0}}, (5, 1), Counted((5, 0), True)),
        ("best", {"score": 5, "columns": {"time_ms": 1}}, (5, 1), NotBetter((5, 1))),
        ("best", {"score": 4, "columns": {"time_ms": 0}}, (5, 1), NotBetter((5, 1))),
        ("sum", {"score": 4, "columns": {"time_ms": 2}}, (5, 1), Counted((9, 3), True)),
        ("sum", {"score": 0, "columns": {"time_ms": 0}}, (5, 1), Counted((5, 1), False)),
        ("latest", {"score": 5, "columns": {"time_ms": 2}}, (5, 1), Counted((5, 2), True)),
        ("best", {"delta": -3}, (5, 1), Counted((2, 1), True)),
        ("best", {"delta": 3}, None, Counted((3, 0), True)),
    ],
)
def test_several_columns_are_judged_as_one(
    rule: str, asked: dict[str, Any], current: tuple[int, ...] | None, verdict: object
) -> None:
    columns = [{"name": "points"}, {"name": "time_ms", "direction": "lower"}]
    on = board(rule=rule, columns=columns)
    assert judge(on, submission(on, **asked), current) == verdict


@pytest.mark.parametrize(
    ("definition", "fact", "current", "verdict"),
    [
        ({"rule": "best", "limits": {"score_max": 10}}, {"scores": (11,)}, None, OUT_OF_BOUNDS),
        ({"rule": "best", "limits": {"score_min": 0}}, {"scores": (-1,)}, (5,), OUT_OF_BOUNDS),
        ({"rule": "sum", "limits": {"score_max": 10}}, {"scores": (6,)}, (5,), OUT_OF_BOUNDS),
        ({"rule": "sum", "limits": {"score_max": 10}}, {"scores": (11,)}, None, OUT_OF_BOUNDS),
        ({"rule": "best", "limits": {"score_min": 0}}, {"delta": -6}, (5,), OUT_OF_BOUNDS),
        ({"rule": "best", "limits": {"score_min": 0}}, {"delta": -6}, None, OUT_OF_BOUNDS),
        ({"rule": "sum"}, {"scores": (1,)}, (SCORE_MAX,), OVERFLOW),
        ({"rule": "sum"}, {"scores": (-1,)}, (SCORE_MIN,), OVERFLOW),
        ({"rule": "sum", "limits": {"score_max": 10}}, {"scores": (1,)}, (SCORE_MAX,), OVERFLOW),
        ({"rule": "best"}, {"delta": 1}, (SCORE_MAX,), OVERFLOW),
        ({"rule": "best"}, {"delta": -1}, (SCORE_MIN,), OVERFLOW),
        ({"rule": "best"}, {"scores": (1, 2)}, (5,), COLUMNS_CHANGED),
        ({"rule": "sum"}, {"scores": ()}, (5,), COLUMNS_CHANGED),
        ({"rule": "first"}, {"delta": 1}, None, DELTA_UNSUPPORTED),
        ({"rule": "first"}, {"delta": 1}, (5,), DELTA_UNSUPPORTED),
    ],
)
def test_a_recorded_fact_that_cannot_count_gets_a_verdict_not_an_exception(
    definition: dict[str, Any],
    fact: dict[str, Any],
    current: tuple[int, ...] | None,
    verdict: object,
) -> None:
    """Bounds may have been declared, or columns changed, after the fact was recorded."""
    assert judge(board(**definition), ScoreSubmitted("b", "p", **fact), current) is verdict


def test_no_column_of_a_sum_overflows() -> None:
    on = board(rule="sum", columns=[{"name": "a"}, {"name": "b"}])
    for change, current in ((1, SCORE_MAX), (-1, SCORE_MIN)):
        fact = ScoreSubmitted("b", "p", (0, change))
        assert judge(on, fact, (0, current)) is OVERFLOW
        assert judge(on, fact, (0, current - change)) == Counted((0, current), True)


def test_a_fact_that_asks_for_nothing_changes_nothing() -> None:
    """No door lets one in; a fold that met one all the same would go on."""
    assert judge(PLAIN, ScoreSubmitted("b", "p"), (5,)) == Counted((5,), False)


def test_the_codes_of_rejected_verdicts_never_change() -> None:
    codes = [rejected.code for rejected in (OUT_OF_BOUNDS, OVERFLOW)]
    codes += [rejected.code for rejected in (COLUMNS_CHANGED, DELTA_UNSUPPORTED)]
    assert codes == [
        "score_out_of_bounds",
        "score_overflow",
        "columns_changed",
        "delta_unsupported",
    ]


def test_a_held_submission_carries_its_reason() -> None:
    assert Held("gain_per_minute").reason == "gain_per_minute"


# ------------------------------------------------------------------------ plain batches

ITEMS: list[tuple[str, int, str | None, dict[Any, Any] | None]] = [
    ("ann", 1, None, None),
    ("p:42", 1_000_000, "k", None),
    ("zoë", 0, "k", None),
    ("a b", 7, None, None),
    (" ", 7, None, None),
    ("", 7, None, None),
    ("x" * 128, 7, None, None),
    ("x" * 1_000, 7, None, None),
    ("a\nb", 7, None, None),
    ("\u202eann", 7, None, None),
    ("\u200b", 7, None, None),
    ("ann", -1, None, None),
    ("ann", 1_000_001, None, None),
    ("ann", 7, "", None),
    ("ann", 7, "k" * 1_000, None),
    ("ann", 7, "k\n", None),
    ("ann", 7, None, {"region": "eu"}),
    ("ann", 7, None, {"region": "eu", "guild": "zoë"}),
    ("ann", 7, None, {"region": ""}),
    ("ann", 7, None, {"region": "e\nu"}),
    ("ann", 7, None, {"re gion": "eu"}),
    ("ann", 7, None, {"x" * 100: "eu"}),
    ("ann", 7, None, {"region": "e" * 1_000}),
    ("ann", 7, None, {f"a{n}": "b" for n in range(100)}),
]
NEED_CARE: list[dict[Any, Any]] = [
    {},
    {"level": 7},
    {"vip": True},
    {"region": None},
    {"region": []},
]
"""Attributes that are no plain ones, though some are valid."""


@pytest.mark.parametrize("item", ITEMS)
def test_plain_submissions_are_read_as_with_care(
    item: tuple[str, int, str | None, dict[Any, Any] | None],
) -> None:
    board = Board.define("b", {"limits": {"score_min": 0, "score_max": 1_000_000}})
    alone = read_plain(board, PlainFields(*item), actor="a")
    body = dict(zip(("player", "score", "key", "attributes"), item, strict=True))
    body = {name: value for name, value in body.items() if value is not None}
    if alone is None:
        with pytest.raises(Invalid):
            Submission.of(board, body)
    else:
        assert alone == Submission.of(board, body).fact(actor="a")
    first = read_plain(board, PlainFields("first", 3), actor="a")
    read = read_plain_batch(board, [("first", 3, None, None), item], actor="a")
    assert read == (None if alone is None else [first, alone])
    assert [*read_facts(board, [body], actor="a")] == [alone] if alone is not None else True


@pytest.mark.parametrize("attributes", NEED_CARE)
def test_attributes_that_are_no_text_are_read_with_care(attributes: dict[Any, Any]) -> None:
    board = Board.define("b", {})
    assert read_plain(board, PlainFields("ann", 7, None, attributes), actor=None) is None
    assert read_plain_batch(board, [("ann", 7, None, attributes)], actor=None) is None
