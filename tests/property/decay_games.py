"""Random histories of boards with decay, played on engines and compared with a judge.

Each game is of one seed: submissions of scores and deltas, alone and in batches, of few players and
few values; times that go on by whole, half and third parts of a period, by microseconds and not at
all; adjustments, retractions and their undoing; other definitions; restarts. Then every ranking of
every engine is read whole and compared row by row: rank, player, score at that time, raw score.
"""

import random
from collections import Counter
from contextlib import AsyncExitStack, nullcontext
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tests.property.decay_judge import DAY, Judge, Row, Rules, Said
from tests.unit.core.doubles import NOON, SetClock, SharedLedger

from rankd.adapters.memory.index import NativeIndex
from rankd.adapters.memory.ledger import MemoryLedger
from rankd.core.assembly import running
from rankd.core.cluster.recovery import SharedHome
from rankd.core.recovery import IndexHome
from rankd.core.writer import WriteResult
from rankd.model.facts import Position
from rankd.model.standing import Offset, Rank
from rankd.model.window import show_duration
from rankd.ports import SharedIndex

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankd.core.engine import Engine

PLAYERS = ["ann", "bob", "cyd", "dee", "eve", "fay"]
SPANS = [1, 60, 3_600, 86_400, 7 * 86_400, 86_400 * 30 + 1]
"""Half-lives and periods, in seconds."""
FAR = 2**62


def rules_of(dice: random.Random) -> Rules:
    """Return the rules of some board."""
    common: dict[str, Any] = {
        "rule": dice.choice(["best", "latest", "sum"]),
        "ties": dice.choice(["ordinal", "ordinal", "standard", "dense"]),
        "tie_break": dice.choice(["first", "latest", "player"]),
    }
    span = dice.choice(SPANS) * 1_000_000
    if dice.random() < 0.1:
        return Rules(**common)
    if dice.random() < 0.5:
        return Rules(**common, half_life=span)
    floor = dice.choice([None, 0, 0, -3, 5])
    return Rules(**common, points=dice.choice([1, 2, 3, 10]), per=span, floor=floor)


def definition_of(rules: Rules) -> dict[str, Any]:
    """Return the definition of a board with these rules."""
    decay: dict[str, Any] | None = None
    if rules.half_life is not None:
        decay = {"half_life": _shown(rules.half_life)}
    elif rules.decays:
        decay = {"linear": {"points": rules.points, "per": _shown(rules.per)}}
        if rules.floor is not None:
            decay["floor"] = rules.floor
    return {
        "rule": rules.rule,
        "ties": rules.ties,
        "tie_break": rules.tie_break,
        "decay": decay,
        "windows": ["all", "daily"],
        "segments": ["region"],
    }


def _shown(microseconds: int) -> str:
    return show_duration(timedelta(microseconds=microseconds))


class Game:
    """One board, an engine and the judge."""

    def __init__(self, seed: int, figures: Counter[str], shared: SharedIndex | None = None) -> None:
        """Begin a game on the native index, or on an empty one that nodes share."""
        self.dice = random.Random(seed)
        self.figures, self.shared = figures, shared
        self.clock = SetClock()
        self.ledger = MemoryLedger() if shared is None else SharedLedger()
        self.time = NOON
        self.judge = Judge(rules_of(self.dice))
        self.regions: dict[str, str] = {}
        self.past: list[tuple[Position, list[Row]]] = []
        """Positions, and the standings of all time at these."""
        self.retractions: dict[int, int] = {}
        """By their positions, those of the submissions that they select."""
        self.stack = AsyncExitStack()
        self.engine: Engine

    async def play(self, steps: int) -> None:
        """Play a game of so many steps. Raises AssertionError where the judge differs."""
        await self._open()
        try:
            await self.engine.define("arena", definition_of(self.judge.rules))
            for _ in range(steps):
                await self._step()
                self._pass(self.dice.choice([0, 0, 1, 2]))
                await self._compare()
                await self._compare_past()
        finally:
            await self.stack.aclose()

    async def _open(self) -> None:
        self.engine = await self.stack.enter_async_context(
            running(
                ledger=self.ledger,
                build=lambda: IndexHome(NativeIndex(), None),
                clock=self.clock,
                reading=nullcontext(),
                shared=None if self.shared is None else SharedHome(self.shared),
            )
        )

    # ------------------------------------------------------------------------- steps

    async def _step(self) -> None:
        steps: Sequence[tuple[int, Any]] = (
            (12, self._submit),
            (2, self._adjust),
            (2, self._retract),
            (1, self._undo),
            (1, self._redefine),
            (1, self._restart),
        )
        weights, each = zip(*steps, strict=True)
        (step,) = self.dice.choices(each, weights)
        await step()

    def _pass(self, how: int) -> None:
        """Let time go on: by a part of a period, or by some microseconds."""
        rules = self.judge.rules
        span = rules.half_life or rules.per
        by = [0, self.dice.choice([span, span // 2, span // 3, 3 * span]), self.dice.randrange(9)]
        self.clock.time += min(by[how], 3 * DAY)

    def _score(self) -> int:
        """Most are small, so that they meet; powers of two meet after whole periods."""
        few = self.dice.choice([0, 1, 2, 3, 4, 8, 16, 40, 64, 80, -1, -8, 100])
        return self.dice.choice([few, few, few, self.dice.randrange(-(10**6), 10**6)])

    async def _submit(self) -> None:
        bodies = []
        for _ in range(self.dice.choice([1, 1, 1, 4])):
            player = self.dice.choice(PLAYERS)
            word = self.dice.choice(["score", "score", "score", "delta"])
            body: dict[str, Any] = {"player": player, word: self._score()}
            if self.dice.random() < 0.3:
                self.regions[player] = self.dice.choice(["eu", "us"])
                body["attributes"] = {"region": self.regions[player]}
            bodies.append(body)
        for body, answer in zip(bodies, await self.engine.submit("arena", bodies), strict=True):
            self._take(body, answer)

    async def _adjust(self) -> None:
        word = self.dice.choice(["score", "delta"])
        body = {"player": self.dice.choice(PLAYERS), word: self._score(), "reason": "a test"}
        self._take(body, await self.engine.corrections.adjust("arena", body), sets=word == "score")

    def _take(self, body: dict[str, Any], answer: WriteResult, *, sets: bool = False) -> None:
        """Give a submission to the judge, and compare what its receipt tells."""
        assert answer.receipt is not None, answer
        self.time = max(self.time, self.clock.time)
        player, score, delta = body["player"], body.get("score"), body.get("delta")
        said = Said(answer.receipt.position, self.time, player, score, delta, sets)
        before = self._row(player)
        self.judge.said.append(said)
        after, told = self._row(player), answer.receipt
        assert after is not None
        raw = told.score if told.raw_score is None else told.raw_score
        assert (told.rank, told.score, raw) == (after.rank, after.score, after.raw)
        assert (told.raw_score is not None) == self.judge.rules.decays
        assert told.previous_score == (before and before.score)
        self.figures["receipts"] += 1

    def _row(self, player: str) -> Row | None:
        rows = self.judge.rows(self.time)
        return next((row for row in rows if row.player == player), None)

    async def _retract(self) -> None:
        judge = self.judge
        there = [one.position for one in judge.said if one.position not in judge.retracted]
        if there:
            position = self.dice.choice(there)
            body = {"position": position, "reason": "a test"}
            effect = await self.engine.corrections.retract("arena", body)
            self._recorded()
            self.judge.retracted.add(position)
            assert effect.position is not None
            self.retractions[effect.position] = position

    async def _undo(self) -> None:
        if self.retractions:
            at = self.dice.choice(list(self.retractions))
            await self.engine.corrections.undo_retraction("arena", Position(at))
            self._recorded()
            self.judge.retracted.discard(self.retractions.pop(at))

    async def _redefine(self) -> None:
        rules = rules_of(self.dice)
        if self.dice.random() < 0.5:  # Another decay, and nothing else.
            same = self.judge.rules
            rules = replace(rules, rule=same.rule, ties=same.ties, tie_break=same.tie_break)
        self.judge.rules = rules
        await self.engine.redefine("arena", definition_of(rules))
        self._recorded()
        self.figures["redefinitions"] += 1

    async def _restart(self) -> None:
        await self.stack.aclose()
        self.stack = AsyncExitStack()
        await self._open()

    def _recorded(self) -> None:
        self.time = max(self.time, self.clock.time)

    # ---------------------------------------------------------------------- comparing

    async def _compare(self) -> None:
        await self.engine.sealer.turn()
        at = max(self.time, self.clock.time)
        windows = self.engine.state.page("arena").windows
        start = windows["daily"].window.start
        assert start is not None
        for window, day in (("all", None), ("daily", start // DAY)):
            for region in (None, "eu", "us"):
                members = {one for one, where in self.regions.items() if where == region}
                await self._compare_one(window, day, at, region, members)

    async def _compare_past(self) -> None:
        """Note the standings at the last position, and ask for those at one before."""
        (last,) = await self.ledger.read(after=Position(self.engine.position - 1), limit=1)
        self.past.append((last.position, self.judge.rows(last.at)))
        if self.dice.random() < 0.1:
            position, expected = self.dice.choice(self.past)
            moment = await self.engine.past.moment(position, None)
            reader = await self.engine.past.reader("arena", moment, window="all")
            page = await reader.page("arena", window="all")
            shown = [(row.rank, row.player, row.score) for row in page.standings]
            assert shown == [(row.rank, row.player, row.score) for row in expected], position
            self.figures["past"] += 1

    async def _compare_one(
        self, window: str, day: int | None, at: int, region: str | None, members: set[str]
    ) -> None:
        segment = None if region is None else f"region:{region}"
        which: dict[str, Any] = {"window": window, "segment": segment}
        reader = self.engine.reader
        expected = self.judge.rows(at, day, None if region is None else members)
        page = await reader.page("arena", **which)
        columns = zip(page.ranks, page.players, page.scores, page.raw_scores, strict=True)
        shown = [
            Row(rank, player, score, score if raw is None else raw)
            for rank, player, (score,), raw in columns
        ]
        assert shown == expected, (window, segment, self.judge.rules)
        self.figures["rows"] += len(shown)
        if expected and self.dice.random() < 0.3:
            await self._compare_parts(expected, which)

    async def _compare_parts(self, expected: list[Row], which: dict[str, Any]) -> None:
        """Compare one standing, a range of scores, and what a rank takes and a score gets."""
        reader, one = self.engine.reader, self.dice.choice(expected)
        standing = await reader.standing("arena", one.player, **which)
        assert standing is not None
        (score,), raw = standing.scores, standing.raw
        told = Row(standing.rank, standing.player, score, score if raw is None else raw)
        assert told == one
        low = self.dice.choice(expected).score + self.dice.choice([-1, 0, 0, 1])
        high = self.dice.choice([None, max(low, self.dice.choice(expected).score)])
        page = await reader.page("arena", score_min=low, score_max=high, **which)
        inside = [
            row.player
            for row in expected
            if row.score >= low and (high is None or row.score <= high)
        ]
        assert (list(page.players), page.in_range) == (inside, len(inside)), (low, high)
        place = expected.index(one)
        spread = (await reader.distribution("arena", buckets=4, **which)).histogram
        assert spread is not None
        scores = [row.score for row in expected]
        assert (spread.score_min, spread.score_max) == (min(scores), max(scores))
        for low, high, players in spread.buckets:
            assert players == sum(low <= score <= high for score in scores)
        needed = await reader.scores_for("arena", rank=Rank(place + 1), **which)
        assert (needed.rank, needed.score) == (one.rank, one.score)
        around = await reader.page("arena", offset=Offset(place), limit=1, **which)
        assert list(around.players) == [one.player]
        self.figures["parts"] += 1
