"""What a board may be, what it may not, and that a refusal names everything at once."""

import json
from datetime import timedelta
from decimal import Decimal, localcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankd.errors import FIELD_ERRORS_MAX, InvalidBoard
from rankd.model.board import (
    ATTEMPTS_MAX,
    BOARD_NAME_LENGTH_MAX,
    COLUMN_NAME_LENGTH_MAX,
    COLUMNS_MAX,
    DECIMALS_MAX,
    SCORE_MAX,
    SCORE_MIN,
    SEGMENT_NAME_LENGTH_MAX,
    SEGMENTS_MAX,
    TITLE_LENGTH_MAX,
    WINDOWS_MAX,
    Board,
    Column,
    Direction,
    FieldChange,
    Limits,
    ScoreRule,
    TieBreak,
    Writes,
)
from rankd.model.decay import HalfLife, LinearDecay
from rankd.model.rules import SUBMISSIONS_PER_MINUTE_MAX
from rankd.model.standing import TieRule

EVERYTHING: dict[str, Any] = {
    "title": "Global",
    "direction": "higher",
    "rule": "best",
    "decimals": 0,
    "columns": [
        {"name": "score", "direction": "higher"},
        {"name": "time_ms", "direction": "lower"},
    ],
    "ties": "standard",
    "tie_break": "latest",
    "windows": [
        "all",
        "daily",
        "weekly",
        "monthly",
        {"name": "season", "every": "4w", "gap": "2d", "start": "2026-11-02T00:00:00Z"},
        {"name": "cup", "start": "2026-11-02T00:00:00Z", "end": "2026-12-02T00:00:00Z"},
        {"name": "shift", "cron": "0 5 * * *"},
    ],
    "time_zone": "Europe/Berlin",
    "segments": ["region", "level_band"],
    "limits": {
        "score_min": 0,
        "score_max": 1000000,
        "gain_per_minute_max": 5000,
        "submissions_per_minute_max": 60,
    },
    "rules": [
        {"rule": "first_score", "max": 900, "then": "hold"},
        {"rule": "outlier_self", "times": 8, "then": "flag"},
    ],
    "writes": "signed",
    "prize": True,
    "retention": {"daily": "30d", "weekly": "26w"},
    "expires": "2026-12-31T00:00:00Z",
}


def board(**definition: object) -> Board:
    return Board.define("b", definition)


def faults(name: object = "b", **definition: object) -> dict[str, str]:
    """Define a board that cannot be, and return what is wrong with each field."""
    with pytest.raises(InvalidBoard) as caught:
        Board.define(name, definition)  # type: ignore[arg-type]
    return dict(caught.value.errors)


# ------------------------------------------------------------------------- what it is


def test_a_board_needs_nothing_but_a_name() -> None:
    plain = Board.define("global", {})
    assert plain.name == "global"
    assert plain.title is None
    assert plain.columns == (Column("score", Direction.HIGHER),)
    assert plain.rule is ScoreRule.BEST
    assert plain.decimals == 0
    assert plain.ties is TieRule.ORDINAL
    assert plain.tie_break is TieBreak.FIRST
    assert [recurrence.name for recurrence in plain.windows] == ["all"]
    assert plain.time_zone == "UTC"
    assert plain.segments == ()
    assert plain.decay is None
    assert plain.limits == Limits()
    assert plain.rules == plain.rules_in_force == ()
    assert plain.writes is Writes.SERVER
    assert plain.prize is False
    assert plain.retention == {}
    assert plain.expires is None


def test_null_means_the_default() -> None:
    assert Board.define("b", dict.fromkeys(EVERYTHING)) == board()
    assert board(limits={"score_min": None}) == board()


def test_every_field_is_read() -> None:
    full = Board.define("global", EVERYTHING)
    assert full.title == "Global"
    assert full.columns[1] == Column("time_ms", Direction.LOWER)
    assert full.ties is TieRule.STANDARD
    assert full.tie_break is TieBreak.LATEST
    names = [recurrence.name for recurrence in full.windows]
    assert names == ["all", "daily", "weekly", "monthly", "season", "cup", "shift"]
    assert full.time_zone == "Europe/Berlin"
    assert full.segments == ("region", "level_band")
    assert full.limits == Limits(
        score_min=0,
        score_max=1000000,
        gain_per_minute_max=5000,
        submissions_per_minute_max=60,
    )
    assert [(rule.rule, rule.then) for rule in full.rules_in_force] == [
        ("first_score", "hold"),
        ("outlier_self", "flag"),
        ("gain_per_minute", "refuse"),
        ("submissions_per_minute", "refuse"),
    ]
    assert full.rules == full.rules_in_force[:2]
    assert full.writes is Writes.SIGNED
    assert full.prize is True
    assert full.retention == {"daily": timedelta(days=30), "weekly": timedelta(weeks=26)}
    assert full.expires == 1_798_675_200_000_000


@pytest.mark.parametrize(
    ("whole", "own", "expected"),
    [
        ("lower", [None, None], "lower lower"),
        ("lower", ["lower", None], "lower lower"),
        ("lower", [None, "higher"], "lower higher"),
        ("higher", [None, "lower"], "higher lower"),
        (None, [None, "lower"], "higher lower"),
        (None, ["lower", None], "lower higher"),
    ],
)
def test_a_column_without_a_direction_has_that_of_its_board(
    whole: str | None, own: list[str | None], expected: str
) -> None:
    columns = [{"name": f"c{n}", "direction": way} for n, way in enumerate(own)]
    given = board(direction=whole, columns=columns)
    assert " ".join(given.directions) == expected
    assert Board.define("b", given.definition()) == given
    bare = [{name: said for name, said in each.items() if said} for each in columns]
    assert board(direction=whole, columns=bare) == given


def test_a_direction_alone_means_one_column_named_score() -> None:
    assert board(direction="lower").columns == (Column("score", Direction.LOWER),)


def test_what_the_hot_path_asks_for_is_worked_out_beforehand() -> None:
    full = Board.define("global", EVERYTHING)
    assert full.width == 2
    assert full.directions == (Direction.HIGHER, Direction.LOWER)
    assert (full.score_low, full.score_high) == (0, 1000000)
    assert (board().score_low, board().score_high) == (SCORE_MIN, SCORE_MAX)


@pytest.mark.parametrize(
    ("directions", "scores", "than", "expected"),
    [
        (["higher"], (2,), (1,), True),
        (["higher"], (1,), (1,), False),
        (["lower"], (1,), (2,), True),
        (["lower"], (2,), (1,), False),
        (["lower", "lower"], (1, 1), (1, 2), True),
        (["higher", "lower"], (1, 5), (1, 6), True),
        (["higher", "lower"], (1, 6), (1, 5), False),
        (["higher", "lower"], (1, 5), (1, 5), False),
        (["higher", "lower"], (2, 9), (1, 0), True),
        (["lower", "higher"], (2, 9), (1, 0), False),
    ],
)
def test_better_is_told_by_the_first_column_that_differs(
    directions: list[str], scores: tuple[int, ...], than: tuple[int, ...], expected: bool
) -> None:
    columns = [{"name": f"c{n}", "direction": way} for n, way in enumerate(directions)]
    assert board(columns=columns).is_better(scores, than) is expected


def test_a_board_is_frozen_and_can_be_a_key() -> None:
    with pytest.raises(AttributeError):
        board().rule = ScoreRule.SUM  # type: ignore[misc]
    assert len({board(), board(), board(retention={}), board(rule="sum")}) == 2


@pytest.mark.parametrize(
    ("decay", "expected"),
    [
        ({"half_life": "7d"}, HalfLife(timedelta(days=7))),
        ({"linear": {"points": 10, "per": "1d"}}, LinearDecay(1000, timedelta(days=1))),
        ({"linear": {"points": "0.5", "per": "12h"}}, LinearDecay(50, timedelta(hours=12))),
        (
            {"linear": {"points": 1, "per": "1d"}, "floor": "-2.5"},
            LinearDecay(100, timedelta(days=1), -250),
        ),
    ],
)
def test_scores_may_decay(decay: dict[str, object], expected: object) -> None:
    decaying = board(decay=decay, decimals=2)
    assert decaying.decay == expected
    assert Board.define("b", decaying.definition()) == decaying


# ------------------------------------------------------------------- what is refused


@pytest.mark.parametrize("name", ["a", "Global-2.0_x", "...", "x" * BOARD_NAME_LENGTH_MAX])
def test_a_name_is_made_of_letters_digits_and_three_signs(name: str) -> None:
    assert Board.define(name, {}).name == name


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a b", "a/b", "ä", "a\n", "x" * (BOARD_NAME_LENGTH_MAX + 1), 7, None]
)
def test_a_name_that_would_need_quoting_is_refused(name: object) -> None:
    assert list(faults(name)) == ["name"]


def test_a_definition_is_an_object() -> None:
    with pytest.raises(InvalidBoard) as caught:
        Board.define("b", ["rule"])  # type: ignore[arg-type]
    assert caught.value.errors == (("", "must be an object"),)


def test_every_wrong_field_is_named_at_once() -> None:
    wrong = faults(
        "..",
        surprise=1,
        title="",
        direction="up",
        rule="worst",
        decimals=10,
        columns=[{"name": "a", "size": 1}, {"name": "a", "direction": "down"}, "b"],
        ties="none",
        tie_break="last",
        windows=["all", 7, {"name": "season", "every": "soon", "start": "2026-11-02T00:00:00Z"}],
        time_zone="Mars/Olympus",
        segments=["region", "region", "a b"],
        decay={"half_life": "soon", "quarter_life": "7d"},
        limits={"score_min": "x", "score_max": [], "gain_per_minute_max": 0, "speed": 1},
        writes="anyone",
        prize="yes",
        retention={"daily": "30d", "all": "1d"},
    )
    assert sorted(wrong) == sorted(
        [
            "name",
            "surprise",
            "title",
            "direction",
            "rule",
            "decimals",
            "columns[0].size",
            "columns[1].name",
            "columns[1].direction",
            "columns[2]",
            "columns[2].name",
            "ties",
            "tie_break",
            "windows[1]",
            "windows[2].every",
            "time_zone",
            "segments[1]",
            "segments[2]",
            "decay",
            "decay.quarter_life",
            "decay.half_life",
            "limits.score_min",
            "limits.score_max",
            "limits.gain_per_minute_max",
            "limits.speed",
            "writes",
            "prize",
            "retention.daily",
            "retention.all",
        ]
    )


@pytest.mark.parametrize(
    ("definition", "field", "accepted"),
    [
        ({"rule": "worst"}, "rule", "best, latest, sum, first"),
        ({"rule": True}, "rule", "best, latest, sum, first"),
        ({"rule": ["best"]}, "rule", "best, latest, sum, first"),
        ({"direction": "up"}, "direction", "higher, lower"),
        ({"ties": "x"}, "ties", "ordinal, standard, dense"),
        ({"tie_break": "x"}, "tie_break", "first, latest, player"),
        ({"writes": "x"}, "writes", "server, signed, client"),
        ({"surprise": 1}, "surprise", "known are title, direction"),
        ({"prize": 1}, "prize", "true or false"),
        ({"decimals": True}, "decimals", "0 to 9"),
        ({"decimals": 2.0}, "decimals", "0 to 9"),
        ({"decimals": -1}, "decimals", "0 to 9"),
        ({"decimals": DECIMALS_MAX + 1}, "decimals", "0 to 9"),
        ({"title": "x" * (TITLE_LENGTH_MAX + 1)}, "title", "1 to 128"),
        ({"title": "a\x00b"}, "title", "printable"),
        ({"title": "\ud800"}, "title", "printable"),
        ({"title": 5}, "title", "text"),
        ({"columns": []}, "columns", "1 to 4"),
        ({"columns": "score"}, "columns", "list"),
        ({"columns": [{"name": f"c{n}"} for n in range(COLUMNS_MAX + 1)]}, "columns", "1 to 4"),
        ({"columns": [{}]}, "columns[0].name", "1 to 32"),
        ({"columns": [{"name": "c" * (COLUMN_NAME_LENGTH_MAX + 1)}]}, "columns[0].name", "32"),
        (
            {"direction": "lower", "columns": [{"name": "a", "direction": "higher"}]},
            "direction",
            "first column",
        ),
        ({"windows": []}, "windows", "1 to 16"),
        ({"windows": ["all"] * (WINDOWS_MAX + 1)}, "windows", "1 to 16"),
        ({"windows": "all"}, "windows", "list"),
        ({"windows": ["all", "daily", "daily"]}, "windows[2]", "before it"),
        ({"windows": ["hourly"]}, "windows[0]", "daily"),
        ({"time_zone": 1}, "time_zone", "IANA"),
        ({"segments": ["s" * (SEGMENT_NAME_LENGTH_MAX + 1)]}, "segments[0]", "1 to 32"),
        ({"segments": [f"s{n}" for n in range(SEGMENTS_MAX + 1)]}, "segments", "0 to 8"),
        ({"segments": ["a", "a"]}, "segments[1]", "twice"),
        ({"decay": {}}, "decay", "half_life or linear"),
        ({"decay": "7d"}, "decay", "object"),
        (
            {"decay": {"half_life": "7d", "linear": {"points": 1, "per": "1d"}}},
            "decay",
            "half_life or linear",
        ),
        ({"decay": {"half_life": 7}}, "decay.half_life", "duration"),
        ({"decay": {"half_life": "0d"}}, "decay.half_life", "zero"),
        ({"decay": {"linear": {"per": "1d"}}}, "decay.linear.points", "given"),
        ({"decay": {"linear": {"points": -1, "per": "1d"}}}, "decay.linear.points", "more than 0"),
        ({"decay": {"linear": {"points": 1}}}, "decay.linear.per", "duration"),
        (
            {"decay": {"linear": {"points": 1, "per": "1d"}, "floor": "low"}},
            "decay.floor",
            "number",
        ),
        ({"decay": {"half_life": "7d", "floor": 0}}, "decay.floor", "needs linear"),
        ({"decay": {"half_life": "7d"}, "rule": "first"}, "decay", "rule first"),
        ({"decay": {"half_life": "7d"}, "direction": "lower"}, "decay", "higher wins"),
        (
            {"decay": {"half_life": "7d"}, "columns": [{"name": "a"}, {"name": "b"}]},
            "decay",
            "one column",
        ),
        ({"limits": {"score_min": 2, "score_max": 1}}, "limits.score_min", "score_max"),
        ({"limits": {"score_min": True}}, "limits.score_min", "number"),
        ({"limits": {"score_min": 0.5}}, "limits.score_min", "whole number"),
        ({"limits": {"score_max": 2**63}}, "limits.score_max", "larger"),
        ({"limits": {"gain_per_minute_max": 0}}, "limits.gain_per_minute_max", "more than 0"),
        (
            {"limits": {"submissions_per_minute_max": 0}},
            "limits.submissions_per_minute_max",
            "1 to 1000000",
        ),
        (
            {"limits": {"submissions_per_minute_max": SUBMISSIONS_PER_MINUTE_MAX + 1}},
            "limits.submissions_per_minute_max",
            "1 to 1000000",
        ),
        ({"limits": [1]}, "limits", "object"),
        ({"prize": True, "writes": "client"}, "writes", "prize board"),
        ({"retention": {"all": "3d"}}, "retention.all", "closes"),
        ({"retention": {"daily": "3d"}}, "retention.daily", "window of this board"),
        ({"windows": ["daily"], "retention": {"daily": 3}}, "retention.daily", "duration"),
        ({"limits": {"attempts_max": 0}}, "limits.attempts_max", "from 1 to 1000000"),
        ({"limits": {"attempts_max": ATTEMPTS_MAX + 1}}, "limits.attempts_max", "1000000"),
        ({"retention": "3d"}, "retention", "object"),
        ({"expires": "tomorrow"}, "expires", "2026-11-02T00:00:00Z"),
        ({"expires": 1_798_675_200}, "expires", "text"),
        ({"expires": "9999-01-01T00:00:00Z"}, "expires", "9000"),
    ],
)
def test_a_refusal_says_which_field_and_what_it_accepts(
    definition: dict[str, object], field: str, accepted: str
) -> None:
    wrong = faults(**definition)
    assert list(wrong) == [field]
    assert accepted in wrong[field]


def test_every_bound_itself_is_within() -> None:
    largest = board(
        title="x" * TITLE_LENGTH_MAX,
        decimals=DECIMALS_MAX,
        columns=[{"name": f"{n}" * COLUMN_NAME_LENGTH_MAX} for n in range(COLUMNS_MAX)],
        windows=[{"name": f"w{n}", "cron": f"{n} * * * *"} for n in range(WINDOWS_MAX)],
        segments=[f"{n}" * SEGMENT_NAME_LENGTH_MAX for n in range(SEGMENTS_MAX)],
        limits={
            "score_min": "5.000000001",
            "score_max": "5.000000001",
            "gain_per_minute_max": "0.000000001",
            "submissions_per_minute_max": SUBMISSIONS_PER_MINUTE_MAX,
            "attempts_max": ATTEMPTS_MAX,
        },
    )
    assert largest.width == COLUMNS_MAX
    assert Board.define("b", largest.definition()) == largest


def test_a_refusal_never_repeats_what_a_stranger_wrote() -> None:
    marker = "<script>" * 50
    wrong = faults(
        marker,
        title=marker + "\n",
        rule=marker,
        time_zone=marker,
        windows=[marker, {"name": marker}],
        segments=[marker],
        limits={marker: 1, "score_min": marker},
        retention={marker: "1d"},
        **{marker: 1},
    )
    assert "<script>" not in json.dumps(wrong)
    assert "limits.?" in wrong
    assert "?" in wrong


def test_a_refusal_has_a_bounded_size() -> None:
    with pytest.raises(InvalidBoard) as caught:
        Board.define("b", {f"x{n}": 1 for n in range(1000)})
    assert len(caught.value.errors) == FIELD_ERRORS_MAX


# -------------------------------------------------------------------- there and back

NAMES = st.text("abcXYZ019_.-", min_size=1, max_size=32)


@st.composite
def definitions(draw: st.DrawFn) -> dict[str, object]:
    """Draw a definition that holds together, each field there or not."""
    decimals = draw(st.integers(0, DECIMALS_MAX))
    names = draw(st.lists(NAMES, min_size=1, max_size=COLUMNS_MAX, unique=True))
    way = st.sampled_from(["higher", "lower"])
    columns = [{"name": name, "direction": draw(way)} for name in names]
    known = ["all", "daily", "weekly", "monthly"]
    windows = draw(st.lists(st.sampled_from(known), min_size=1, unique=True))
    low, high = sorted(draw(st.tuples(st.integers(-(10**9), 10**9), st.integers(-(10**9), 10**9))))
    rule = draw(st.sampled_from(["best", "latest", "sum"]))
    everything: dict[str, object] = {
        "title": draw(st.none() | st.text("abc é<", min_size=1)),
        "columns": columns,
        "decimals": decimals,
        "rule": rule,
        "ties": draw(st.sampled_from(["ordinal", "standard", "dense"])),
        "tie_break": draw(st.sampled_from(["first", "latest", "player"])),
        "windows": windows,
        "time_zone": draw(st.sampled_from(["UTC", "Europe/Berlin", "Pacific/Apia"])),
        "segments": draw(st.lists(NAMES, max_size=SEGMENTS_MAX, unique=True)),
        "limits": {"score_min": low, "score_max": high, "gain_per_minute_max": 5},
        "rules": [
            {"rule": "outlier_field", "quantile": 0.995, "then": "flag"},
            {"rule": "gain_per_minute", "max": 4, "then": "hold"},
            {"rule": "seconds_between", "min": 0.25, "then": "refuse"},
        ],
        "writes": draw(st.sampled_from(["server", "signed"])),
        "prize": draw(st.booleans()),
        "retention": {name: "90m" for name in windows if name != "all"},
    }
    if len(columns) == 1 and columns[0]["direction"] == "higher":
        linear = {"linear": {"points": 3, "per": "1w"}, "floor": -1}
        everything["decay"] = draw(st.sampled_from([None, {"half_life": "36h"}, linear]))
    left_out = draw(st.sets(st.sampled_from(sorted(everything.keys() - {"windows"}))))
    return {name: value for name, value in everything.items() if name not in left_out}


@given(definitions())
def test_a_definition_comes_back_through_json_as_the_same_board(
    definition: dict[str, object],
) -> None:
    made = Board.define("b", definition)
    again = Board.define("b", json.loads(json.dumps(made.definition())))
    assert again == made
    assert again.definition() == made.definition()
    assert made.changes(again) == ()


def test_a_canonical_definition_writes_every_default_out() -> None:
    assert board().definition() == {
        "title": None,
        "direction": "higher",
        "columns": [{"name": "score", "direction": "higher"}],
        "rule": "best",
        "decimals": 0,
        "ties": "ordinal",
        "tie_break": "first",
        "windows": ["all"],
        "time_zone": "UTC",
        "segments": [],
        "decay": None,
        "limits": {},
        "rules": [],
        "writes": "server",
        "runs": None,
        "verifier": None,
        "prize": False,
        "retention": {},
        "expires": None,
        "public_corrections": False,
        "rewards": [],
    }


def test_changes_are_listed_field_by_field() -> None:
    before = board(rule="best", segments=["region"], decimals=1)
    after = board(rule="sum", segments=["region"], decimals=1, limits={"score_min": 2})
    assert before.changes(after) == (
        FieldChange("rule", "best", "sum"),
        FieldChange("limits", {}, {"score_min": "2.0"}),
    )


# ------------------------------------------------------------------------------ scores


@pytest.mark.parametrize(
    ("decimals", "value", "scaled"),
    [
        (0, 4500, 4500),
        (0, -1, -1),
        (0, 0, 0),
        (0, SCORE_MAX, SCORE_MAX),
        (0, SCORE_MIN, SCORE_MIN),
        (0, "4500", 4500),
        (0, "-4500", -4500),
        (0, str(SCORE_MIN), SCORE_MIN),
        (0, "12.00", 12),
        (0, 12.0, 12),
        (0, Decimal("1E+3"), 1000),
        (0, Decimal("12.0"), 12),
        (2, 12, 1200),
        (2, 12.34, 1234),
        (2, "12.34", 1234),
        (2, "-0.05", -5),
        (2, Decimal("12.3400"), 1234),
        (2, 0.07, 7),
        (2, 1.1, 110),
        (2, "92233720368547758.07", SCORE_MAX),
        (2, Decimal("-92233720368547758.08"), SCORE_MIN),
        (9, 1e-9, 1),
        (9, "9223372036.854775807", SCORE_MAX),
        (1, 99999999999999.9, 999999999999999),
        (2, -0.0, 0),
    ],
)
def test_a_score_is_read_exactly(decimals: int, value: object, scaled: int) -> None:
    read = board(decimals=decimals).parse_score(value)
    assert (read, type(read)) == (scaled, int)


@pytest.mark.parametrize(
    ("decimals", "value", "complaint"),
    [
        (0, True, "number"),
        (2, False, "number"),
        (0, None, "number"),
        (0, [1], "number"),
        (0, b"1", "number"),
        (0, "", "digits"),
        (0, "abc", "digits"),
        (0, " 1", "digits"),
        (0, "1\n", "digits"),
        (0, "+1", "digits"),
        (0, "01", "digits"),
        (0, "1.", "digits"),
        (0, "1e3", "digits"),
        (0, "1_000", "digits"),
        (0, "٣", "digits"),
        (0, "NaN", "digits"),
        (0, "0" * 1000, "digits"),
        (0, "9" * 33, "digits"),
        (0, float("nan"), "number"),
        (0, float("inf"), "number"),
        (0, Decimal("NaN"), "number"),
        (0, Decimal("sNaN"), "number"),
        (0, Decimal("-Infinity"), "number"),
        (0, 12.5, "whole number"),
        (0, "12.5", "whole number"),
        (0, "4.5", "must be a whole number: the board has no decimals"),
        (1, "0.25", "at most 1 digit after the point: round it"),
        (2, 12.345, "at most 2 digits after the point: round it"),
        (3, 58.1 + 0.2, "round it"),
        (2, Decimal("12.345"), "round it"),
        (2, Decimal("1E-400"), "at most 2 digits after"),
        (0, SCORE_MAX + 1, "larger"),
        (0, SCORE_MIN - 1, "larger"),
        (1, SCORE_MAX, "larger"),
        (0, str(SCORE_MAX + 1), "larger"),
        (0, "9" * 32, "larger"),
        (0, Decimal("1E+20"), "larger"),
        (0, Decimal("1E+999999"), "larger"),
        (0, 1e300, "larger"),
        (0, 1e15, "15 digits"),
        (2, 12345678901234.56, "15 digits"),
    ],
)
def test_what_is_not_exactly_a_score_is_refused_not_rounded(
    decimals: int, value: object, complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        board(decimals=decimals).parse_score(value)


@pytest.mark.parametrize(
    ("decimals", "scaled", "shown"),
    [
        (0, 4500, "4500"),
        (0, SCORE_MIN, "-9223372036854775808"),
        (2, 1234, "12.34"),
        (2, 1200, "12.00"),
        (2, -5, "-0.05"),
        (2, 0, "0.00"),
        (2, SCORE_MAX, "92233720368547758.07"),
        (9, SCORE_MIN, "-9223372036.854775808"),
    ],
)
def test_a_score_is_shown_with_exactly_the_declared_decimals(
    decimals: int, scaled: int, shown: str
) -> None:
    assert str(board(decimals=decimals).show_score(scaled)) == shown


def test_no_setting_of_the_program_around_us_rounds_a_score() -> None:
    precise = board(decimals=2)
    with localcontext() as context:
        context.prec = 3
        assert str(precise.show_score(123456789)) == "1234567.89"
        assert precise.parse_score("1234567.89") == 123456789


@given(st.integers(SCORE_MIN, SCORE_MAX), st.integers(0, DECIMALS_MAX))
def test_a_shown_score_reads_back_as_itself(scaled: int, decimals: int) -> None:
    precise = board(decimals=decimals)
    shown = precise.show_score(scaled)
    assert precise.parse_score(shown) == scaled
    assert precise.parse_score(f"{shown:f}" if decimals else str(shown)) == scaled


@given(st.integers(-(10**15) + 1, 10**15 - 1), st.integers(0, DECIMALS_MAX))
def test_a_score_survives_a_double_up_to_fifteen_digits(scaled: int, decimals: int) -> None:
    precise = board(decimals=decimals)
    assert precise.parse_score(float(precise.show_score(scaled))) == scaled
