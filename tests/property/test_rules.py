"""The native state of rules is the one in Python, over any history of submissions."""

from array import array
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.standins import native_part
from tests.unit.rules.conftest import Declared
from tests.unit.rules.test_native import content

from rankd.rules import oracle
from rankd.rules.conditions import KINDS, SCORE_RULES, UNBOUNDED

LARGEST = 2**63 - 1
NUMBERS = st.one_of(
    st.integers(-5, 20),
    st.integers(0, 10_000),
    st.integers(-(2**63), LARGEST),
    st.sampled_from([-(2**63), -(2**63) + 1, 2**16, 2**32, LARGEST - 1, LARGEST]),
)
LIMITS = st.one_of(
    st.integers(1, 20),
    st.integers(1, LARGEST),
    st.sampled_from([2**16 - 2, 2**16 - 1, 2**32 - 1, LARGEST]),
)
PLAYERS = st.sampled_from([*"abcdefg", "é", "x" * 23, "y" * 256])
WAITS = st.one_of(
    st.integers(0, 3),
    st.integers(0, 70_000_000),
    st.sampled_from([-1, -20_000_000, 10_000_000, 60_000_000, 2**62]),
)
RUNS = st.one_of(st.just(0), st.integers(-1, 3), st.integers(1, 10**8), st.just(LARGEST))


@st.composite
def rules(draw: st.DrawFn) -> Declared:
    rule = draw(
        st.sampled_from(
            [
                *("gain_per_minute", "submissions_per_minute", "seconds_between", "first_score"),
                *("outlier_self", "outlier_field", "per_second_of_run"),
            ]
        )
    )
    then = draw(st.sampled_from(["flag", "hold", "refuse"]))
    if rule.startswith("outlier"):
        limit = draw(st.one_of(st.integers(1, 3_000), st.just(10**9), st.just(LARGEST)))
        return Declared(rule, then, limit, draw(st.integers(1, 9_999)), draw(st.integers(0, 10)))
    return Declared(rule, then, draw(NUMBERS if rule == "first_score" else LIMITS))


SUBMISSIONS = st.lists(st.tuples(PLAYERS, NUMBERS, st.booleans(), WAITS, RUNS), max_size=25)
STEPS = st.one_of(
    SUBMISSIONS.map(lambda run: ("judge", run)),
    SUBMISSIONS.map(lambda run: ("judge", run)),
    PLAYERS.map(lambda player: ("forget", player)),
    st.tuples(PLAYERS, NUMBERS, st.sampled_from(KINDS)).map(lambda one: ("count", one)),
    st.sampled_from(["savepoint", "rollback", "release", "copy", "save"]).map(lambda s: (s, None)),
    st.tuples(st.lists(rules(), max_size=5), st.sampled_from([1, 1, 10, 10**9])).map(
        lambda new: ("redefine", new)
    ),
)


class Pair:
    """A native state and its twin, which do the same."""

    def __init__(
        self,
        native: Any,
        declared: list[Declared],
        rule: str,
        higher: bool,
        bounds: tuple[int, int] = UNBOUNDED,
    ) -> None:
        self.states = [kind.RuleState(declared, rule, higher, bounds) for kind in (native, oracle)]
        self.saving = False
        self.now = 0

    def both(self, method: str, *given: Any) -> Any:
        first, second = [getattr(state, method)(*given) for state in self.states]
        assert first == second
        return first

    def judge(self, run: list[tuple[str, int, bool, int, int]]) -> None:
        times = array("q")
        for _, _, _, wait, _ in run:
            self.now = max(-(2**62), min(2**62, self.now + wait))
            times.append(self.now)
        deltas = bytes(delta for _, _, delta, _, _ in run)
        runs = array("q", [elapsed for *_, elapsed in run])
        self.both(
            "judge",
            [player for player, *_ in run],
            array("q", [score for _, score, *_ in run]),
            deltas if any(deltas) else None,
            times,
            runs if any(runs) else None,
        )
        for place in range(len(run) + 1):
            self.both("reasons", place)

    def step(self, name: str, given: Any) -> None:
        match name:
            case "judge":
                self.judge(given)
            case "forget":
                self.both("forget", given)
            case "count":
                self.both("count", *given)
            case "savepoint" | "release" | "rollback":
                if name != "rollback" or self.saving:
                    self.both(name)
                self.saving = name == "savepoint"
            case _:
                self.states = self.others(name, given)
                self.saving = False

    def others(self, name: str, given: Any) -> list[Any]:
        if name == "copy":
            return [state.copy() for state in self.states]
        if name == "redefine":
            return [state.redefined(*given) for state in self.states]
        # Each loads the bytes of the other.
        made = [type(s)(s.rules, s.rule_of_board, s.higher_wins, s.bounds) for s in self.states]
        for state, other in zip(made, reversed(self.states), strict=True):
            state.load(other.save())
        return made

    def check(self) -> None:
        for state in self.states:
            state.check()
        native, twin = self.states
        assert content(native) == content(twin)
        assert len(native) == len(twin)


@given(
    st.lists(rules(), max_size=8),
    st.sampled_from(SCORE_RULES),
    st.booleans(),
    st.sampled_from([UNBOUNDED, (0, 10), (-5, 2**62)]),
    st.lists(STEPS, max_size=12),
)
@settings(deadline=None)
def test_the_native_state_is_the_one_in_python(
    declared: list[Declared],
    rule: str,
    higher: bool,
    bounds: tuple[int, int],
    steps: list[tuple[str, Any]],
) -> None:
    pair = Pair(native_part("rankd.rules._native"), declared, rule, higher, bounds)
    for name, given_to_it in steps:
        pair.step(name, given_to_it)
        pair.check()


@given(
    st.lists(rules(), min_size=1, max_size=8),
    st.sampled_from(SCORE_RULES),
    st.lists(SUBMISSIONS, min_size=1, max_size=4),
    st.lists(SUBMISSIONS, min_size=1, max_size=4),
)
@settings(deadline=None)
def test_a_rollback_leaves_no_trace(
    declared: list[Declared], rule: str, kept: list[Any], undone: list[Any]
) -> None:
    pair = Pair(native_part("rankd.rules._native"), declared, rule, True)
    for run in kept:
        pair.judge(run)
    before = content(pair.states[0])
    pair.step("savepoint", None)
    for run in undone:
        pair.judge(run)
        pair.both("forget", run[0][0] if run else "a")
        pair.both("count", run[0][0] if run else "a", 7, "score")
    pair.step("rollback", None)
    pair.check()
    assert content(pair.states[0]) == before


@given(
    st.lists(rules(), min_size=1, max_size=8),
    st.sampled_from(SCORE_RULES),
    SUBMISSIONS,
    st.integers(0, 25),
)
@settings(deadline=None)
def test_verdicts_do_not_depend_on_how_a_history_is_cut(
    declared: list[Declared], rule: str, run: list[Any], cut: int
) -> None:
    native = native_part("rankd.rules._native")
    whole, parts = (Pair(native, declared, rule, True) for _ in range(2))
    whole.judge(run)
    parts.judge(run[:cut])
    parts.judge(run[cut:])
    assert content(whole.states[0]) == content(parts.states[0])
