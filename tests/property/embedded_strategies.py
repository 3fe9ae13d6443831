"""What the machines draw: boards, submissions and steps in time, few of each kind."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st
from tests.property.embedded_judge import Check
from tests.property.embedded_model import DAY, HOUR, SECOND, Definition, Rules, instant

START = instant(2026, 11, 14, 12)
MAIN, SIDE = "main", "side"
PLAYERS = ["ann", "bob", "cyd", "dee", "Éva"]
NO_PLAYER = "nobody"
STATES = {"ban": "banned", "hide": "hidden", "shadow": "shadowed", "restore": "active"}
SEGMENTS = ["region:eu", "region:us", "vip:true", "vip:false", "level:1", "level:2"]

players = st.sampled_from(PLAYERS)
some_players = st.lists(st.sampled_from([*PLAYERS, NO_PLAYER]), min_size=1, max_size=6)
attributes = st.fixed_dictionaries(
    {},
    optional={
        "region": st.sampled_from(["eu", "us"]),
        "vip": st.booleans(),
        "level": st.integers(1, 2),
    },
)
metadata = st.none() | st.sampled_from([{"car": "red"}, {"car": "blue", "laps": [1, 2]}, 0, "x"])
keys = st.sampled_from([*[None] * 8, "k1", "k2", "k3", "k4"])
steps = st.sampled_from(
    [0, 7 * SECOND, 45 * SECOND, HOUR, 12 * HOUR - 1, 12 * HOUR, DAY, 2 * DAY, 3 * DAY, 8 * DAY]
)
ways = st.sampled_from(["higher", "lower"])
shares = st.sampled_from([0.5, 20, 33.33, 40, 50, 60, 66.67, 75, 80, 100])
limits = st.sampled_from([(None, None), (None, None), (-1, None), (None, 3), (-2, 3), (-3, 5)])
other_limits = st.sampled_from([(None, None), (1, None), (None, 1), (0, 2)])
"""Such that they cut off some who are there, or let them in again."""
window_names = st.lists(
    st.sampled_from(["all", "daily", "weekly", "season", "cup"]),
    min_size=1,
    max_size=4,
    unique=True,
)
thens = st.sampled_from(["flag", "hold", "hold", "refuse"])
check = st.one_of(
    st.builds(Check, st.sampled_from(["gain_per_minute", "first_score"]), st.integers(1, 4), thens),
    st.builds(Check, st.just("submissions_per_minute"), st.integers(1, 3), thens),
    st.builds(Check, st.just("seconds_between"), st.sampled_from([5, 40]), thens),
    st.builds(Check, st.just("outlier_self"), st.integers(2, 3), thens, st.integers(1, 3)),
    st.builds(Check, st.just("outlier_field"), st.integers(1, 2), thens, st.integers(1, 4)),
)
some_checks = st.lists(
    check, min_size=1, max_size=3, unique_by=lambda one: (one.rule, one.then)
).map(tuple)
checks = st.one_of(st.just(()), some_checks, some_checks)
attempts = st.sampled_from([None, None, None, 2, 4])
some_runs = st.sampled_from([None, (0, 3600, False), (30, 86_400, False)])
other_runs = some_runs | st.just((0, 7200, True))
lives = st.sampled_from([*[None] * 5, "1h", "12h", "24h", "60h"])
builds = st.sampled_from([None, None, "good", "bad"])
kept_days = st.fixed_dictionaries(
    {}, optional={name: st.integers(1, 4) for name in ("daily", "season", "cup")}
)


graces = st.fixed_dictionaries(
    {}, optional={name: st.sampled_from([1, 12, 20]) for name in ("daily", "season", "cup")}
)


@st.composite
def rules_of_a_board(draw: Callable[..., Any]) -> Rules:
    windows = list(dict.fromkeys([*draw(window_names), *draw(st.sampled_from([["all"], []]))]))
    low, high = draw(limits)
    columns = [("score", draw(ways))]
    if draw(st.booleans()):
        columns.append(("time", draw(ways)))
    return Rules(
        rule=draw(st.sampled_from(["best", "latest", "sum", "first"])),
        columns=tuple(columns),
        decimals=draw(st.sampled_from([0, 0, 1])),
        ties=draw(st.sampled_from(["ordinal", "standard", "dense"])),
        tie_break=draw(st.sampled_from(["first", "latest", "player"])),
        windows=tuple(windows),
        segments=tuple(draw(st.lists(st.sampled_from(["region", "vip"]), unique=True))),
        low=low,
        high=high,
        checks=draw(checks),
        attempts=draw(attempts),
        runs=draw(some_runs),
        verified=draw(st.integers(0, 4)) == 0,
        graces=tuple((name, hours) for name, hours in draw(graces).items() if name in windows),
        kept_days=tuple((name, kept) for name, kept in draw(kept_days).items() if name in windows),
    )


@st.composite
def bodies(draw: Callable[..., Any], rules: Rules) -> Definition:
    """A submission that is well formed for this board; it may be out of its bounds."""
    body: Definition = {"player": draw(players)}
    body["metadata"] = draw(metadata)
    body["attributes"] = draw(st.none() | attributes)
    body["key"], body["build"], body["lives"] = draw(keys), draw(builds), draw(lives)
    numbers = numbers_of(rules)
    if draw(st.integers(0, 3)) == 0:
        body["delta"] = draw(numbers)
    elif len(rules.columns) == 1:
        body["score"] = draw(numbers)
    elif draw(st.booleans()):
        body["score"], body["columns"] = draw(numbers), {"time": draw(numbers)}
    else:
        body["columns"] = {name: draw(numbers) for name, _ in rules.columns}
    return {name: value for name, value in body.items() if value is not None}


@st.composite
def bodies_beyond(draw: Callable[..., Any], rules: Rules) -> Definition:
    """A submission that may leave narrow bounds, or the 64 bits, by what is there already."""
    body = {"player": draw(players), "key": draw(keys)}
    number = draw(st.sampled_from([4, 4, -3, 2**62]))
    if rules.rule == "first" or draw(st.integers(0, 3)) == 0:
        body |= {"columns": {name: number for name, _ in rules.columns}}
    else:
        body |= {"delta": number // 10**rules.decimals}
    return {name: value for name, value in body.items() if value is not None}


@st.composite
def rounds(draw: Callable[..., Any], rules: Rules) -> list[Definition]:
    """A submission of each of some players, in any order."""
    order = draw(st.permutations(PLAYERS))
    return [
        {**body, "player": player}
        for player, body in zip(
            order, draw(st.lists(bodies(rules), min_size=1, max_size=5)), strict=False
        )
    ]


def numbers_of(rules: Rules) -> st.SearchStrategy[int | Decimal]:
    """Few, so that many are equal; and the two that eight bytes just hold."""
    few = st.integers(-2, 4)
    if rules.decimals == 0:
        return few | few | few | st.sampled_from([-(2**63), 2**63 - 1])
    return few | st.integers(-4, 6).map(lambda halves: Decimal(halves) / 2)
