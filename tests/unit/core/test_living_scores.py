"""Scores whose effect ends after a time: the entry goes, or falls back to the best still alive."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.unit.core.doubles import (
    DAY,
    HOUR,
    NOON,
    FaultyLedger,
    MovesIndex,
    SetClock,
    SharedLedger,
    bare,
    engine,
    facts_of,
    kept_in,
    verified,
)
from tests.unit.core.test_attempts import node

from rankd.adapters.memory.index import NativeIndex
from rankd.adapters.memory.ledger import MemoryLedger
from rankd.adapters.memory.shared_index import SharedMemory
from rankd.core import board_rebuild, mass_retraction
from rankd.core import engine as engine_module
from rankd.core import living_scores as module
from rankd.core.engine import Engine
from rankd.core.living_scores import LivingScores
from rankd.core.recovery import IndexHome
from rankd.core.state import Savepoint
from rankd.errors import InvalidSubmission, TooManyLivingScores
from rankd.model.facts import (
    ExpiringScoreSubmitted,
    Position,
    Recorded,
    ScoresExpired,
    WrongTime,
)
from rankd.model.receipt import Receipt
from rankd.model.window import show_instant

pytestmark = pytest.mark.anyio

WINDOWS = ["all", "daily"]


async def submit(rankd: Engine, player: str, score: int, **more: object) -> Receipt:
    (answer,) = await rankd.submit("b", [{"player": player, "score": score, **more}])
    assert answer.receipt is not None
    return answer.receipt


async def scores(rankd: Engine, window: str = "all") -> dict[str, int]:
    page = await rankd.reader.page("b", window=window)
    return dict(zip(page.players, (score for (score,) in page.scores), strict=True))


@pytest.fixture(params=[NativeIndex, MovesIndex])
def index(request: pytest.FixtureRequest) -> Callable[[], IndexHome]:
    return lambda: IndexHome(request.param(), None)


async def later(rankd: Engine, clock: SetClock, microseconds: int) -> None:
    clock.time += microseconds
    await rankd.sealer.turn()


# --------------------------------------------------------------------- what is left


async def test_a_score_whose_term_is_over_is_retracted_from_windows_closed_before(
    index: Callable[[], IndexHome],
) -> None:
    """It counts there for good, so a correction has to reach it."""
    clock = SetClock()
    async with engine(FaultyLedger(), clock, index) as rankd:
        await rankd.define("b", {"windows": WINDOWS})
        receipt = await submit(rankd, "p", 9, lives="24h")
        await submit(rankd, "q", 5)
        await later(rankd, clock, 2 * DAY)
        assert await scores(rankd) == {"q": 5}
        assert await scores(rankd, "daily:-2") == {"p": 9, "q": 5}
        effect = await rankd.corrections.retract("b", {"position": receipt.position})
        assert (effect.submissions, effect.players, len(effect.changes)) == (1, 1, 1)
        assert await scores(rankd, "daily:-2") == {"q": 5}
        assert effect.position is not None
        undone = await rankd.corrections.undo_retraction("b", effect.position)
        assert (undone.submissions, len(undone.changes)) == (1, 1)
        assert await scores(rankd, "daily:-2") == {"p": 9, "q": 5}
        page = rankd.state.page("b")
        assert rankd.state.edition("b", next(iter(page.sealed))) == 3
        await verified(rankd)


@pytest.mark.parametrize(
    ("rule", "before", "after"),
    [("best", 9, 5), ("latest", 9, 3), ("sum", 17, 8), ("first", 5, 5)],
)
async def test_an_entry_falls_back_to_what_is_alive(
    rule: str, before: int, after: int, index: Callable[[], IndexHome]
) -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock, index) as rankd:
        await rankd.define("b", {"rule": rule, "windows": WINDOWS})
        await submit(rankd, "ann", 5)
        await submit(rankd, "ann", 3)
        receipt = await submit(rankd, "ann", 9, lives="1h")
        await submit(rankd, "bob", 1, lives="2h")
        assert receipt.expires == NOON + HOUR
        assert await scores(rankd) == {"ann": before, "bob": 1}
        await later(rankd, clock, HOUR - 1)
        assert await scores(rankd) == {"ann": before, "bob": 1}
        await later(rankd, clock, 1)
        assert await scores(rankd) == await scores(rankd, "daily") == {"ann": after, "bob": 1}
        await later(rankd, clock, HOUR)
        assert await scores(rankd) == {"ann": after}
        assert not len(rankd.state.living)
        await verified(rankd)


@pytest.mark.parametrize("players_max", [1_000, 0])
async def test_a_closed_window_keeps_what_counted_when_it_closed(
    players_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mass_retraction, "REFOLDED_PLAYERS_MAX", players_max)
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", {"windows": WINDOWS})
        await submit(rankd, "ann", 5, lives="13h")
        await submit(rankd, "bob", 4, lives="11h")
        await submit(rankd, "bob", 1)
        for player in ("ann", "bob"):
            await submit(rankd, player, 9, build="cheat")
        await later(rankd, clock, 11 * HOUR)
        await later(rankd, clock, HOUR)
        yesterday = "daily:2026-11-14"
        assert await scores(rankd, yesterday) == {"ann": 9, "bob": 9}
        await later(rankd, clock, HOUR)
        await rankd.corrections.retract("b", {"build": "cheat"})
        assert await scores(rankd) == {"bob": 1}
        assert await scores(rankd, yesterday) == {"ann": 5, "bob": 1}
        await verified(rankd)


async def test_a_term_may_end_while_a_board_is_folded_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, catch_up = SetClock(), board_rebuild.BoardRebuild.catch_up
    ended: list[bool] = []
    async with engine(FaultyLedger(), clock) as rankd:

        async def end_meanwhile(draft: board_rebuild.BoardRebuild, **given: Any) -> None:
            await catch_up(draft, **given)
            if not ended:
                ended.append(True)
                await later(rankd, clock, HOUR)

        monkeypatch.setattr(board_rebuild.BoardRebuild, "catch_up", end_meanwhile)
        await rankd.define("b", {"windows": WINDOWS})
        await submit(rankd, "ann", 5, lives="1h")
        for score in range(1, 4):
            await submit(rankd, "ann", score)
        await rankd.redefine("b", {"windows": WINDOWS, "rule": "sum"})
        assert ended
        assert await scores(rankd) == {"ann": 6}
        await verified(rankd)


async def test_a_term_is_read_with_care() -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {})
        for wrong in ("soon", 24, "0h", "3661d", ""):
            with pytest.raises(InvalidSubmission, match="lives"):
                await rankd.submit("b", [{"player": "ann", "score": 1, "lives": wrong}])
        first = await submit(rankd, "ann", 1, lives="24h", key="k")
        again = await submit(rankd, "ann", 1, lives="24h", key="k")
        assert again.duplicate
        assert again == first
        assert again.expires == first.expires == NOON + DAY
        (answer,) = await rankd.submit("b", [{"player": "ann", "score": 1, "key": "k"}])
        assert answer.error is not None, "without a term it is another submission"


async def test_no_more_terms_are_taken_than_may_be_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "LIVING_SCORES_MAX", 2)
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", {})
        for player in ("ann", "bob"):
            await submit(rankd, player, 1, lives="1h")
        head = rankd.position
        with pytest.raises(TooManyLivingScores):
            await submit(rankd, "cyd", 1, lives="1h")
        assert rankd.position == head
        await submit(rankd, "cyd", 1)
        await later(rankd, clock, HOUR)
        await submit(rankd, "cyd", 2, lives="1h")
        assert await scores(rankd) == {"cyd": 2}


async def test_repetitions_of_an_end_change_nothing() -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", {"rule": "sum"})
        told = await submit(rankd, "ann", 5, lives="1h")
        await later(rankd, clock, HOUR)
        await submit(rankd, "ann", 2)
        await rankd._put(ScoresExpired("b", "ann", (told.position, Position(99))))
        assert await scores(rankd) == {"ann": 2}
        await verified(rankd)


async def test_a_retired_board_takes_its_terms_with_it() -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", {})
        await submit(rankd, "ann", 5, lives="1h")
        await rankd.retire("b")
        await rankd.define("b", {})
        await submit(rankd, "ann", 2)
        await later(rankd, clock, HOUR)
        assert await scores(rankd) == {"ann": 2}
        await verified(rankd)


# --------------------------------------------------------------------- the state of it


async def test_terms_outlast_a_restart_with_and_without_a_snapshot(tmp_path: Path) -> None:
    for build in (kept_in(tmp_path), bare):
        clock, ledger = SetClock(), MemoryLedger()
        async with engine(ledger, clock, build) as rankd:
            await rankd.define("b", {})
            await submit(rankd, "ann", 5, lives="1h")
            await submit(rankd, "bob", 4, lives="2h")
            await rankd.save()
        clock.time += HOUR
        async with engine(ledger, clock, build) as rankd:
            await rankd.sealer.turn()
            assert await scores(rankd) == {"bob": 4}
            await verified(rankd)


async def test_many_ends_come_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ENDED_TOGETHER_MAX", 3)
    clock, ledger = SetClock(), FaultyLedger()
    async with engine(ledger, clock) as rankd:
        await rankd.define("b", {})
        for number in range(8):
            await submit(rankd, f"p{number}", number, lives="1h")
            await submit(rankd, f"p{number}", number + 1, lives="1h")
        await later(rankd, clock, HOUR)
        while rankd._writer.turn_at <= clock.time:
            await rankd.sealer.turn()
        assert await scores(rankd) == {}
        ends = [one.fact for one in await facts_of(ledger) if isinstance(one.fact, ScoresExpired)]
        assert sorted(len(end.positions) for end in ends) == [2] * 8
        await verified(rankd)


def living(*terms: tuple[int, int, int]) -> LivingScores:
    """Return scores with a position, a time and a term each."""
    scores = LivingScores()
    for position, at, lives in terms:
        fact = ExpiringScoreSubmitted("b", f"p{position}", (1,), lives=lives)
        scores.add(Recorded(Position(position), at, fact), fact, None)
    return scores


def test_ends_are_found_in_order_and_again_until_they_are_recorded() -> None:
    scores = living((1, 10, 5), (2, 10, 1), (3, 30, 1))
    assert scores.next_due() == 11
    ended = scores.ended_by(15)
    assert [one.positions for one in ended] == [(2,), (1,)]
    assert scores.ended_by(15) == ended
    scores.end(ended[0], Position(9), None)
    assert (scores.next_due(), len(scores), scores.ended_at("b")) == (15, 2, 9)
    twin = living()
    for part in scores.parts(1):
        twin.extend(part, scores.ends)
    assert (twin.next_due(), len(twin), twin.has("b"), twin.has("c")) == (15, 2, True, False)


def test_a_corrected_time_moves_the_ends() -> None:
    scores = living((1, 10, 5), (5, 1_000, 5))
    scores.correct(WrongTime(Position(4), Position(9), 900, 50, 200), None)
    assert (scores.due_of(Position(1)), scores.due_of(Position(5))) == (15, 105)
    assert [one.positions for one in scores.ended_by(105)] == [(1,), (5,)]


async def test_a_savepoint_takes_terms_and_ends_back() -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", {})
        await submit(rankd, "ann", 5, lives="1h")
        state = rankd.state
        mark = Savepoint(state)
        await submit(rankd, "bob", 5, lives="30m")
        await later(rankd, clock, HOUR)
        assert state.living.next_due() is None
        mark.go_back()
        assert (state.living.next_due(), len(state.living)) == (NOON + HOUR, 1)


# ----------------------------------------------------------------- against a model


class Game:
    """A random game, and the entries that it should come to, from scratch."""

    def __init__(self, nodes: list[Engine], clock: SetClock, seed: int) -> None:
        self.nodes, self.clock, self.dice = nodes, clock, Random(seed)
        self.rule = "best"
        self.made: list[tuple[int, int, str, int, int, int | None]] = []
        """Positions, days, players, times, scores, and when they end."""

    async def play(self, steps: int) -> None:
        for _ in range(steps):
            await self.dice.choices(
                [self.submit, self.pass_time, self.retract, self.redefine], [9, 5, 1, 1]
            )[0]()
            for one in self.nodes:
                await one._writer.see_others()
                await one.sealer.turn()
            for one in self.nodes:
                await one._writer.see_others()
                for window in WINDOWS:
                    assert await scores(one, window) == self.expected(window), (window, self.rule)

    def node(self) -> Engine:
        return self.dice.choice(self.nodes)

    @property
    def day(self) -> int:
        return self.clock.time // DAY

    async def submit(self) -> None:
        hours = self.dice.choice([None, 1, 2, 5, 30])
        item: dict[str, Any] = {"player": self.dice.choice("abc"), "score": self.dice.randint(1, 9)}
        if hours is not None:
            item["lives"] = f"{hours}h"
        (answer,) = await self.node().submit("b", [item])
        ends = None if hours is None else self.clock.time + hours * HOUR
        made = (answer.position, self.day, item["player"], self.clock.time, item["score"], ends)
        self.made.append(made)

    async def pass_time(self) -> None:
        self.clock.time += self.dice.choice([1, 2, 7]) * HOUR
        await self.node().sealer.turn()

    async def retract(self) -> None:
        if not self.made:
            return
        position, _, _, at, *_ = self.dice.choice(self.made)
        selects: dict[str, Any] = {"position": position}
        gone = {position}
        if self.dice.random() < 0.6:
            until = at + HOUR
            selects = {"since": show_instant(at), "until": show_instant(until)}
            gone = {one[0] for one in self.made if at <= one[3] < until}
        await self.node().corrections.retract("b", selects)
        self.made = [one for one in self.made if one[0] not in gone]

    async def redefine(self) -> None:
        self.rule = self.dice.choice(["best", "sum", "latest", "first"])
        await self.node().redefine("b", {"rule": self.rule, "windows": WINDOWS})

    def expected(self, window: str) -> dict[str, int]:
        found: dict[str, list[int]] = {}
        for _, day, player, _, score, ends in self.made:
            alive = ends is None or ends > self.clock.time
            if alive and (window == "all" or day == self.day):
                found.setdefault(player, []).append(score)
        fold: dict[str, Callable[[list[int]], int]] = {
            "best": max,
            "sum": sum,
            "latest": lambda some: some[-1],
            "first": lambda some: some[0],
        }
        return {player: fold[self.rule](some) for player, some in found.items()}


@pytest.mark.parametrize("seed", range(10))
async def test_one_process_agrees_with_the_model(
    seed: int, index: Callable[[], IndexHome], monkeypatch: pytest.MonkeyPatch
) -> None:
    if seed % 2:
        monkeypatch.setattr(mass_retraction, "REFOLDED_PLAYERS_MAX", 0)
    clock = SetClock()
    async with engine(FaultyLedger(), clock, index) as rankd:
        await rankd.define("b", {"windows": WINDOWS})
        await Game([rankd], clock, seed).play(50)
        await verified(rankd)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("seed", range(4))
async def test_several_nodes_agree_with_the_model(seed: int, shared: bool) -> None:
    clock, ledger = SetClock(), SharedLedger()
    memory = SharedMemory() if shared else None
    async with AsyncExitStack() as stack:
        nodes = [await stack.enter_async_context(node(ledger, clock, memory)) for _ in range(2)]
        await nodes[0].define("b", {"windows": WINDOWS})
        await Game(nodes, clock, seed).play(30)
        for one in nodes:
            await verified(one)
