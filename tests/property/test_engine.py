"""The whole engine, under any history, agrees with a list of submissions folded from scratch.

Method: submissions of every kind to a board of any rules, while a simulated clock goes forward,
sometimes over the end of a window and sometimes back; attributes change, keys are repeated, and the
engine is closed and opened again on the same ledger. After every step each open window and segment
is read and compared with what a dozen obvious lines make of the history: no index, no order key,
no batches. Few players and few scores, so that ties are the rule.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from rankd.adapters.memory.index import NativeIndex
from rankd.adapters.memory.ledger import MemoryLedger
from rankd.core.assembly import running
from rankd.core.recovery import IndexHome
from rankd.core.writer import WriteResult
from rankd.errors import SubmissionKeyReused

if TYPE_CHECKING:
    from rankd.core.engine import Engine

PLAYERS = st.sampled_from(["ann", "bob", "cyd", "dee", "eve"])
SCORES = st.integers(-2, 3)
REGIONS = st.sampled_from(["eu", "us"])
DAY = 86_400_000_000
START = int(datetime(2026, 11, 14, 12, tzinfo=UTC).timestamp()) * 1_000_000


@dataclass
class SetClock:
    time: int = START

    def now(self) -> int:
        return self.time


@dataclass
class Said:
    """One submission that was accepted, and when."""

    at: int
    player: str
    score: int | None
    delta: int | None


@dataclass
class Model:
    """What should be true, worked out from scratch each time it is asked."""

    definition: dict[str, Any]
    said: list[Said] = field(default_factory=list)
    regions: dict[str, str] = field(default_factory=dict)
    time: int = START

    def counted(self, day: int | None) -> dict[str, tuple[int, int]]:
        """Each player's score and the place in history where it was reached."""
        held: dict[str, tuple[int, int]] = {}
        for place, one in enumerate(self.said):
            if day is not None and one.at // DAY != day:
                continue
            before = held.get(one.player)
            after = self.combine(before[0] if before else None, one)
            if before is None or after != before[0]:
                held[one.player] = (after, place)
        return held

    def combine(self, before: int | None, one: Said) -> int:
        if one.delta is not None:
            return (before or 0) + one.delta
        assert one.score is not None
        if before is None:
            return one.score
        better = max if self.definition["direction"] == "higher" else min
        return {
            "best": better(before, one.score),
            "latest": one.score,
            "sum": before + one.score,
            "first": before,
        }[self.definition["rule"]]

    def ranked(self, day: int | None, region: str | None) -> list[tuple[int, str, int]]:
        """Rank, player and score, best first."""
        sign = -1 if self.definition["direction"] == "higher" else 1
        tie = {"first": 1, "latest": -1, "player": 0}[self.definition["tie_break"]]
        held = {
            player: (score, place)
            for player, (score, place) in self.counted(day).items()
            if region is None or self.regions.get(player) == region
        }
        order = sorted(held, key=lambda p: (sign * held[p][0], tie * held[p][1], p))
        scores = [held[player][0] for player in order]
        return [(self.shown(scores, n), player, scores[n]) for n, player in enumerate(order)]

    def shown(self, scores: list[int], n: int) -> int:
        match self.definition["ties"]:
            case "standard":
                return scores.index(scores[n]) + 1
            case "dense":
                return len(set(scores[: scores.index(scores[n])])) + 1
            case _:
                return n + 1


class EngineMachine(RuleBasedStateMachine):
    @initialize(
        rule=st.sampled_from(["best", "latest", "sum", "first"]),
        direction=st.sampled_from(["higher", "lower"]),
        ties=st.sampled_from(["ordinal", "standard", "dense"]),
        tie_break=st.sampled_from(["first", "latest", "player"]),
    )
    def begin(self, **rules: str) -> None:
        self.definition = {**rules, "windows": ["all", "daily"], "segments": ["region"]}
        self.model = Model(self.definition)
        self.clock = SetClock()
        self.ledger = MemoryLedger()
        self.keys: dict[str, tuple[dict[str, Any], WriteResult]] = {}
        self.runner = asyncio.Runner()
        self.open()
        self.runner.run(self.rankd.define("arena", self.definition))

    def open(self) -> None:
        self.stack = AsyncExitStack()
        self.rankd: Engine = self.runner.run(
            self.stack.enter_async_context(
                running(
                    ledger=self.ledger,
                    build=lambda: IndexHome(NativeIndex(), None),
                    clock=self.clock,
                    reading=nullcontext(),
                )
            )
        )

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            self.runner.run(self.stack.aclose())
            self.runner.close()

    # ------------------------------------------------------------------------- rules

    @rule(player=PLAYERS, score=SCORES, region=st.none() | REGIONS)
    def submit(self, player: str, score: int, region: str | None) -> None:
        attributes = None if region is None else {"region": region}
        self.say([{"player": player, "score": score, "attributes": attributes}])

    @precondition(lambda self: self.definition["rule"] != "first")
    @rule(player=PLAYERS, delta=SCORES)
    def add(self, player: str, delta: int) -> None:
        self.say([{"player": player, "delta": delta}])

    @rule(items=st.lists(st.tuples(PLAYERS, SCORES), min_size=1, max_size=8))
    def submit_many(self, items: list[tuple[str, int]]) -> None:
        self.say([{"player": player, "score": score} for player, score in items])

    @rule(player=PLAYERS, score=SCORES, key=st.sampled_from(["a", "b", "c"]))
    def submit_once(self, player: str, score: int, key: str) -> None:
        body = {"player": player, "score": score, "key": key}
        if key not in self.keys:
            (self.keys[key],) = [(body, answer) for answer in self.say([body])]
            return
        first_body, first_answer = self.keys[key]
        self.a_fact_is_recorded()
        (answer,) = self.put([body])
        if body == first_body:
            assert (answer.duplicate, answer.receipt) == (True, first_answer.receipt)
            assert answer.receipt is not None
            assert answer.receipt.duplicate
        else:
            assert isinstance(answer.error, SubmissionKeyReused)

    @rule(player=PLAYERS, region=st.none() | REGIONS)
    def profile(self, player: str, region: str | None) -> None:
        attributes = {} if region is None else {"region": region}
        self.a_fact_is_recorded()
        self.runner.run(self.rankd.profile(player, {"attributes": attributes}))
        self.model.regions.pop(player, None)
        if region is not None:
            self.model.regions[player] = region

    @rule(hours=st.integers(-30, 30))
    def time_passes(self, hours: int) -> None:
        """It may also go back: the ledger's does not."""
        self.clock.time += hours * DAY // 24
        self.windows_turn()  # Now, and not whenever the sealer wakes.

    @rule()
    def restart(self) -> None:
        self.runner.run(self.stack.aclose())
        self.open()

    # -------------------------------------------------------------------- comparing

    def windows_turn(self) -> None:
        """The engine does this by itself, some time; then ledger time has come as far."""
        before = self.rankd.position
        self.runner.run(self.rankd.sealer.turn())
        if self.rankd.position > before:
            self.a_fact_is_recorded()

    def put(self, bodies: list[dict[str, Any]]) -> Sequence[WriteResult]:
        return self.runner.run(self.rankd.submit("arena", bodies))

    def a_fact_is_recorded(self) -> None:
        """Ledger time is the clock's, but never goes back."""
        self.model.time = max(self.model.time, self.clock.time)

    def say(self, bodies: list[dict[str, Any]]) -> Sequence[WriteResult]:
        self.a_fact_is_recorded()
        answers = self.put(bodies)
        for body, answer in zip(bodies, answers, strict=True):
            player, attributes = body["player"], body.get("attributes")
            if attributes:
                self.model.regions[player] = attributes["region"]
            before = self.standing_of(player)
            self.model.said.append(
                Said(self.model.time, player, body.get("score"), body.get("delta"))
            )
            after = self.standing_of(player)
            assert answer.receipt is not None
            for name, one in answer.receipt.windows.items():
                told = (one.previous_rank, one.rank, one.scores, one.total)
                assert told == (before[name][0], *after[name]), (name, body)
        return answers

    def standing_of(self, player: str) -> dict[str, Any]:
        """Rank, scores and total in each window, by the model."""
        found = {}
        for name, day in (("all", None), ("daily", self.model.time // DAY)):
            ranked = self.model.ranked(day, None)
            mine = [(rank, (score,)) for rank, who, score in ranked if who == player]
            found[name] = (*(mine[0] if mine else (None, None)), len(ranked))
        return found

    @invariant()
    def agrees_with_the_model(self) -> None:
        if not hasattr(self, "model"):
            return
        self.windows_turn()
        day = self.rankd.state.page("arena").windows["daily"]
        assert day.window.start is not None
        for name, which in (("all", None), ("daily", day.window.start // DAY)):
            for region in (None, "eu", "us"):
                segment = None if region is None else f"region:{region}"
                page = self.runner.run(
                    self.rankd.reader.page("arena", window=name, segment=segment)
                )
                shown = [(one.rank, one.player, one.scores[0]) for one in page.standings]
                assert shown == self.model.ranked(which, region), (name, region)


TestEngine = EngineMachine.TestCase
TestEngine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
