"""Whatever path facts take through the fold, the rules reach the same verdicts.

Method: Hypothesis makes up a history of submissions, decisions, retractions and redefinitions on
boards with rules, and an engine records it. The ledger is then folded again: in place and in moves,
in parts of other sizes, without an index, through a snapshot, and with a savepoint that is undone.
All must have the same entries, reviews and state of rules. A model of some lines says which.

RANKD_HYPOTHESIS=long looks at many more, and at others each time.
"""

import asyncio
import os
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.core.doubles import MovesIndex, SetClock, digest_of, engine, facts_of

from rankd.adapters.memory.index import NativeIndex
from rankd.adapters.memory.ledger import MemoryLedger
from rankd.core.cluster.shared_projector import note_all
from rankd.core.engine import Engine
from rankd.core.projector import Projector
from rankd.core.rule_past import learn_past, parts_with_past
from rankd.core.state import Savepoint, State
from rankd.core.state_codec import VERSION, Heading, read_notes, take_notes
from rankd.errors import Refused
from rankd.model.board import Board
from rankd.model.facts import (
    BoardDefined,
    BoardRelearned,
    Position,
    Recorded,
    ReviewDecided,
    ScoresRetracted,
    ScoreSubmitted,
    is_definition,
)
from rankd.model.rules import Consequence, Rule
from rankd.ports import RankIndex
from rankd.rules import CONSEQUENCES, oracle

LONG = os.environ.get("RANKD_HYPOTHESIS") == "long"
EXAMPLES = 3_000 if LONG else 100
PLAYERS = ("ann", "bob", "cyd")
THEN = st.sampled_from(["flag", "hold", "refuse"])

rules = st.lists(
    st.one_of(
        st.fixed_dictionaries(
            {"rule": st.just("gain_per_minute"), "max": st.integers(1, 60), "then": THEN}
        ),
        st.fixed_dictionaries(
            {"rule": st.just("submissions_per_minute"), "max": st.integers(1, 4), "then": THEN}
        ),
        st.fixed_dictionaries(
            {"rule": st.just("seconds_between"), "min": st.sampled_from([1, 5]), "then": THEN}
        ),
        st.fixed_dictionaries(
            {"rule": st.just("first_score"), "max": st.integers(-5, 40), "then": THEN}
        ),
        st.fixed_dictionaries(
            {
                "rule": st.just("outlier_self"),
                "times": st.just(2),
                "after": st.integers(1, 3),
                "then": THEN,
            }
        ),
        st.fixed_dictionaries(
            {
                "rule": st.just("outlier_field"),
                "quantile": st.just(0.5),
                "times": st.just(1.5),
                "after": st.integers(1, 3),
                "then": THEN,
            }
        ),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda rule: (rule["rule"], rule["then"]),
)
definitions = st.fixed_dictionaries(
    {
        "rule": st.sampled_from(["best", "latest", "sum"]),
        "direction": st.sampled_from(["higher", "lower"]),
        "rules": rules,
        "windows": st.sampled_from([["all"], ["all", "daily"]]),
    }
)
items = st.fixed_dictionaries(
    {"player": st.sampled_from(PLAYERS)},
    optional={"metadata": st.just({"car": 1}), "attributes": st.just({"region": "eu"})},
).flatmap(
    lambda body: st.one_of(
        st.integers(-10, 100).map(lambda score: {**body, "score": score}),
        st.integers(-10, 60).map(lambda delta: {**body, "delta": delta}),
    )
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.lists(items, min_size=1, max_size=6)),
        st.tuples(st.just("submit"), st.lists(items, min_size=1, max_size=6)),
        st.tuples(st.just("pass"), st.sampled_from([500_000, 2_000_000, 20_000_000, 90_000_000])),
        st.tuples(st.just("decide"), st.tuples(st.integers(0, 20), st.booleans())),
        st.tuples(st.just("decide"), st.tuples(st.integers(0, 20), st.just(False))),
        st.tuples(st.just("retract"), st.integers(0, 20)),
        st.tuples(st.just("then"), THEN),
        st.tuples(st.just("rules"), rules),
        st.tuples(st.just("ban"), st.tuples(st.sampled_from(PLAYERS), st.booleans())),
    ),
    min_size=4,
    max_size=20,
)


async def take(rankd: Engine, clock: SetClock, kind: str, about: Any) -> None:
    """Take a step; one that is refused leaves no fact."""
    reviews = rankd.state.reviews
    match kind:
        case "submit":
            await rankd.submit("b", about)
        case "pass":
            clock.time += about
        case "decide":
            place, approved = about
            if listed := list(reviews.listed.values()):
                id = listed[place % len(listed)].id
                await rankd.corrections.decide_review(id, approved=approved, actor="mod")
        case "retract":
            position = Position(2 + about % rankd.position)
            await rankd.corrections.retract("b", {"position": position})
        case "rules":
            definition = {**rankd.state.page("b").board.definition(), "rules": about}
            await rankd.redefine("b", definition)
        case "then":
            before = rankd.state.page("b").board.definition()
            named = {rule["rule"]: {**rule, "then": about} for rule in before["rules"]}
            await rankd.redefine("b", {**before, "rules": list(named.values())})
        case "ban":
            player, banned = about
            await rankd.corrections.set_player_state(player, "hidden" if banned else "active", {})


async def history(
    definition: Mapping[str, object], steps: Sequence[tuple[str, Any]]
) -> tuple[MemoryLedger, dict[str, object]]:
    """Return the ledger of an engine that took these steps, and what it knows in the end."""
    ledger, clock = MemoryLedger(), SetClock()
    async with engine(ledger, clock) as rankd:
        await rankd.define("b", definition)
        for kind, about in steps:
            try:
                await take(rankd, clock, kind, about)
            except Refused:
                continue
        return ledger, known(rankd.state, rankd.projector.index)


def known(state: State, index: RankIndex | None) -> dict[str, object]:
    """Return all that follows from rules."""
    reviews = state.reviews
    boards = {name: page.board for name, page in state.boards.items()}
    return {
        "held": [*reviews.held._positions],
        "refused": [*state.refused._positions],
        "listed": dict(sorted(reviews.listed.items())),
        "decisions": dict(reviews.decisions),
        "retractions": dict(state.retractions),
        "rules": {name: rows_of(boards[name], one) for name, one in reviews.rules.items()},
        "index": None if index is None else digest_of(index),
    }


def rows_of(board: Board, rules: Any) -> object:
    """Return what a state of rules knows, in an order that does not depend on its numbers."""
    rules.check()
    state = oracle.RuleState(rules.rules, rules.rule_of_board, rules.higher_wins)
    state.load(rules.save())
    return state._rows, state._histogram


async def refolded(
    ledger: MemoryLedger, facts: Sequence[Recorded], index: RankIndex, size: int
) -> dict[str, object]:
    projector = Projector(ledger=ledger, index=index, state=State())
    left = iter(facts)
    while some := list(islice(left, size)):
        await projector.fold(some)
    return known(projector.state, index)


async def note(state: State, ledger: MemoryLedger, facts: Sequence[Recorded]) -> None:
    """Apply facts to a state, as a node with a shared index does."""
    for part in parts_with_past(facts):
        await learn_past(state, ledger, part[0])
        note_all(state, part)


async def noted(ledger: MemoryLedger, facts: Sequence[Recorded]) -> State:
    state = State()
    for recorded in facts:
        await note(state, ledger, [recorded])
    return state


def through_snapshot(state: State, position: Position) -> State:
    heading = Heading(VERSION, position, 0, b"", Position(0), {})
    return read_notes(list(take_notes(state, heading))).state


async def with_undone(ledger: MemoryLedger, facts: Sequence[Recorded], at: int) -> State:
    """Note facts, the last ones twice: the first time is undone."""
    state = await noted(ledger, facts[:at])
    mark = Savepoint(state)
    await note(state, ledger, facts[at:])
    mark.go_back()
    await note(state, ledger, facts[at:])
    return state


async def with_snapshot(ledger: MemoryLedger, facts: Sequence[Recorded], at: int) -> State:
    """Note facts, the last ones on a state that was saved and loaded."""
    state = through_snapshot(await noted(ledger, facts[:at]), Position(at))
    await note(state, ledger, facts[at:])
    return state


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=not LONG,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(definitions, steps, st.integers(1, 9), st.integers(0, 60))
def test_every_path_through_the_fold_agrees(
    definition: Mapping[str, object], steps: Sequence[tuple[str, Any]], size: int, at: int
) -> None:
    ledger, told = asyncio.run(history(definition, steps))
    facts = asyncio.run(facts_of(ledger))
    assert asyncio.run(refolded(ledger, facts, NativeIndex(), size)) == told
    assert asyncio.run(refolded(ledger, facts, MovesIndex(), size)) == told

    beside, at = {**told, "index": None}, at % len(facts)
    assert known(asyncio.run(noted(ledger, facts)), None) == beside
    undone = asyncio.run(with_undone(ledger, facts, at))
    assert known(undone, None) == beside
    assert known(undone.copy(), None) == beside
    assert known(asyncio.run(with_snapshot(ledger, facts, at)), None) == beside
    assert told["held"] == [at for at, verdict in model(facts).items() if verdict == "hold"]
    assert told["refused"] == [at for at, verdict in model(facts).items() if verdict == "refuse"]


def model(facts: Sequence[Recorded]) -> dict[Position, str]:
    """Return the strictest consequence for each submission, judged one by one by the oracle."""
    state: oracle.RuleState | None = None
    found: dict[Position, str] = {}
    submissions: dict[Position, ScoreSubmitted] = {}
    decided: set[Position] = set()
    for place, recorded in enumerate(facts):
        fact = recorded.fact
        if is_definition(fact):
            state = _defined(state, fact, facts[:place], found)
        elif isinstance(fact, ReviewDecided):
            if found.get(fact.submission) == "hold" and fact.submission not in decided:
                decided.add(fact.submission)
                if fact.approved and state is not None:
                    held = submissions[fact.submission]
                    kind = "delta" if held.scores is None else "score"
                    number = held.delta if held.scores is None else held.scores[0]
                    state.count(held.player, number or 0, kind)
        elif isinstance(fact, ScoreSubmitted):
            assert state is not None
            submissions[recorded.position] = fact
            found[recorded.position] = CONSEQUENCES[_judged(state, fact, recorded)]
    return found


def _defined(
    state: oracle.RuleState | None,
    fact: BoardDefined,
    before: Sequence[Recorded],
    verdicts: Mapping[Position, str],
) -> oracle.RuleState:
    """Return the state of rules under a definition, which knows the past if it needs another."""
    board = Board.define("b", fact.definition)
    made = _rule_state(board, board.rules_in_force)
    learns = state is not None and state.layout != made.layout
    assert isinstance(fact, BoardRelearned) == learns
    if learns:
        flagging = [replace(rule, then=Consequence.FLAG) for rule in board.rules_in_force]
        state = _rule_state(board, flagging)
        out = _left_out(before, verdicts)
        for recorded in before:
            if isinstance(recorded.fact, ScoreSubmitted) and recorded.position not in out:
                _judged(state, recorded.fact, recorded)
    if state is not None:
        made.load(state.save())
    return made


def _rule_state(board: Board, rules: Sequence[Rule]) -> oracle.RuleState:
    return oracle.RuleState(rules, board.rule.value, board.columns[0].direction == "higher")


def _judged(state: oracle.RuleState, fact: ScoreSubmitted, recorded: Recorded) -> int:
    number = fact.delta if fact.scores is None else fact.scores[0]
    deltas = b"\x01" if fact.scores is None else None
    columns = array("q", [number or 0]), deltas, array("q", [recorded.at])
    verdict = state.judge([fact.player], *columns)
    return 0 if verdict is None else verdict[0]


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=not LONG,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(definitions, steps)
def test_what_counts_is_what_the_verdicts_and_decisions_say(
    definition: Mapping[str, object], steps: Sequence[tuple[str, Any]]
) -> None:
    ledger, _ = asyncio.run(history(definition, steps))
    facts = asyncio.run(facts_of(ledger))
    assert asyncio.run(scores_of(ledger)) == expected(facts)


async def scores_of(ledger: MemoryLedger) -> dict[str, int]:
    async with engine(ledger) as rankd:
        for player in PLAYERS:
            await rankd.corrections.set_player_state(player, "active", {})
        page = await rankd.reader.page("b", window="all", limit=100)
        return {one.player: one.scores[0] for one in page.standings}


def _left_out(facts: Sequence[Recorded], verdicts: Mapping[Position, str]) -> set[Position]:
    """Return the submissions that do not count: barred and not approved, rejected or retracted."""
    out = {at for at, verdict in verdicts.items() if verdict in ("hold", "refuse")}
    open_reviews = {at for at, verdict in verdicts.items() if verdict in ("hold", "flag")}
    retracted: set[Position] = set()
    for recorded in facts:
        fact = recorded.fact
        if isinstance(fact, ReviewDecided) and fact.submission in open_reviews:
            open_reviews.remove(fact.submission)
            (out.discard if fact.approved else out.add)(fact.submission)
        elif isinstance(fact, ScoresRetracted):
            retracted |= set(fact.positions)
    return out | retracted


def expected(facts: Sequence[Recorded]) -> dict[str, int]:
    """Return each player's score: of the submissions that count, in the order of the ledger."""
    out = _left_out(facts, model(facts))
    found: dict[str, int] = {}
    board = None
    for recorded in facts:
        fact = recorded.fact
        if is_definition(fact):
            board = Board.define("b", fact.definition)
        elif isinstance(fact, ScoreSubmitted) and recorded.position not in out:
            assert board is not None
            found[fact.player] = after(board, found.get(fact.player), fact)
    return found


def after(board: Board, before: int | None, fact: ScoreSubmitted) -> int:
    number = fact.delta if fact.scores is None else fact.scores[0]
    assert number is not None
    if fact.scores is None or board.rule == "sum":
        return (before or 0) + number
    if before is None or board.rule == "latest":
        return number
    return number if board.is_better((number,), (before,)) else before
