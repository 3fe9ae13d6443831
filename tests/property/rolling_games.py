"""Games on boards with rolling windows, against standings worked out from the ledger.

    python -m tests.property.rolling_games --games 2000 --seed 0
    python -m tests.property.rolling_games --games 200 --nodes
    python -m tests.property.rolling_games --games 200 --redis

A game lasts some days or weeks, in one of twelve time zones: scores, totals, deltas, metadata and
segments, and now and then a retraction, a state of a player, an adjustment, a decision about a held
score, a score with a term, another definition, a day without any process, or a restart, with a
saved index or none. Time often stands right at a midnight, or a microsecond before or after it.

The judge reads the facts of the ledger and nothing else of the engine: for each player and window
it goes through all submissions, asks of each whether its day is one of the window's, and judges
those that count, from scratch, also to find out which were refused when their turn came. Today's
window, tomorrow's, which is prepared, and the closed ones that are kept must have the entries,
in the order, that it comes to; and the index must be the one that the ledger folds to.
"""

import argparse
import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    suppress,
)
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple, Protocol
from unittest import mock

from tests.unit.core.doubles import (
    DAY,
    HOUR,
    SetClock,
    SharedLedger,
    bare,
    bare_in_moves,
    engine,
    facts_of,
    kept_in,
    verified,
)

from rankd.adapters.memory.ledger import MemoryLedger
from rankd.adapters.memory.shared_index import MemorySharedIndex, SharedMemory
from rankd.adapters.redis import RedisIndex
from rankd.core import mass_retraction
from rankd.core.board_state import OpenedWindow, SealedWindow
from rankd.core.cluster.recovery import SharedHome
from rankd.core.engine import Engine
from rankd.core.rolling_windows import RollingDrafts
from rankd.errors import Refused
from rankd.model.board import Board, Scores
from rankd.model.facts import (
    AttributesSet,
    BoardDefined,
    Fact,
    MetadataSet,
    Position,
    Recorded,
    RetractionUndone,
    ReviewDecided,
    ScoresExpired,
    ScoresRetracted,
    ScoreSubmitted,
    is_submission,
)
from rankd.model.order import Order
from rankd.model.standing import Rank
from rankd.model.submission import Counted, Rejected, judge
from rankd.model.window import Instant, Recurrence
from rankd.ports import Ranking, SharedIndex
from rankd.testing.servers import redis_server

ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/Sao_Paulo",
    "America/St_Johns",
    "America/Havana",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "Asia/Tehran",
    "Africa/Casablanca",
    "Pacific/Apia",
    "Pacific/Chatham",
    "America/Santiago",
)
PLAYERS = ("ann", "bob", "cyd", "dee", "eve")
REGIONS = ("eu", "us")
STEPS = 45
STARTS = (
    datetime(2018, 10, 30, 12, tzinfo=UTC),
    datetime(2020, 10, 29, tzinfo=UTC),
    datetime(2010, 11, 3, tzinfo=UTC),
    datetime(2011, 12, 24, tzinfo=UTC),
    datetime(2026, 3, 26, tzinfo=UTC),
    datetime(2026, 11, 19, tzinfo=UTC),
)
Kind = Literal["place", "moves"]


# ------------------------------------------------------------------------------- the judge


@dataclass(slots=True)
class Submitted:
    """A submission, and what became of it."""

    position: Position
    day: date
    fact: ScoreSubmitted | MetadataSet
    held: bool = False
    never: bool = False
    """Whether every window refused it, or a rule or its player's state did."""
    refused_in: set[str] = field(default_factory=set)
    attempted_in: set[str] = field(default_factory=set)
    retracted_by: set[Position] = field(default_factory=set)
    expired: bool = False

    @property
    def counts(self) -> bool:
        return not (self.held or self.never or self.retracted_by or self.expired)


class Entry(NamedTuple):
    """A player's entry."""

    scores: Scores
    order_key: bytes
    metadata: bytes | None


class Days:
    """The days of a time zone."""

    def __init__(self, zone: str) -> None:
        self._daily = Recurrence.parse("daily", time_zone=zone)

    def of(self, at: Instant) -> date:
        window = self._daily.window_at(at)
        assert window is not None
        return date.fromisoformat(window.id.partition(":")[2])

    def end(self, at: Instant) -> Instant:
        window = self._daily.window_at(at)
        assert window is not None and window.end is not None
        return window.end


def span_of(recurrence: Recurrence) -> int | None:
    """Return how many days a window of a recurrence has; None for one without an end."""
    shown = recurrence.definition()
    if isinstance(shown, Mapping):
        return int(str(shown["rolling"]).removesuffix("d"))
    return 1 if shown == "daily" else None


class Judge:
    """The submissions to a board, as the facts of a ledger say."""

    def __init__(self, rankd: Engine, facts: Sequence[Recorded], zone: str) -> None:
        self._state = rankd.state
        self._days = Days(zone)
        self._submitted: list[Submitted] = []
        self._board: Board | None = None
        self.attributes: dict[str, Mapping[str, object]] = {}
        for recorded in facts:
            self._take(recorded)

    def _take(self, recorded: Recorded) -> None:
        match recorded.fact:
            case BoardDefined(board, definition):
                self._define(Board.define(board, definition))
            case AttributesSet(player=player, attributes=attributes):
                self.attributes[player] = {**self.attributes.get(player, {}), **(attributes or {})}
            case MetadataSet() as fact:
                self._submitted.append(
                    Submitted(recorded.position, self._days.of(recorded.at), fact)
                )
            case fact if is_submission(fact):
                self._submit(recorded, fact)
            case fact:
                for one in self._submitted:
                    _correct(one, fact, recorded.position)

    def _define(self, board: Board) -> None:
        known = () if self._board is None else self._board.windows
        self._board = board
        bounded = board.limits.attempts_max is not None
        names = {one.name for one in board.windows if one in known} if bounded else set()
        for one in self._submitted:
            one.attempted_in &= names

    def _submit(self, recorded: Recorded, fact: ScoreSubmitted) -> None:
        assert self._board is not None
        one = Submitted(recorded.position, self._days.of(recorded.at), fact)
        if fact.attributes:
            self.attributes[fact.player] = {
                **self.attributes.get(fact.player, {}),
                **fact.attributes,
            }
        if recorded.position in self._state.refused:
            one.never = True
            self._submitted.append(one)
            return
        self._attempt(one, fact, self._board)
        approvals = self._state.reviews.approvals([recorded.position])
        one.held = recorded.position in approvals
        names = {recurrence.name for recurrence in self._board.windows}
        for recurrence in self._board.windows if not one.held else ():
            if recurrence.name not in one.refused_in:
                before = self.entry(fact.player, recurrence, one.day)
                verdict = judge(self._board, fact, None if before is None else before.scores)
                if isinstance(verdict, Rejected):
                    one.refused_in.add(recurrence.name)
        one.never = not one.held and one.refused_in == names
        self._submitted.append(one)

    def _attempt(self, one: Submitted, fact: ScoreSubmitted, board: Board) -> None:
        limit = board.limits.attempts_max
        if limit is None or fact.overrides:
            return
        for recurrence in board.windows:
            made = sum(
                recurrence.name in earlier.attempted_in
                for earlier in self._of(fact.player)
                if _is_within(earlier.day, one.day, span_of(recurrence))
            )
            (one.refused_in if made >= limit else one.attempted_in).add(recurrence.name)

    def _of(self, player: str) -> list[Submitted]:
        return [one for one in self._submitted if one.fact.player == player]

    def entry(self, player: str, recurrence: Recurrence, last_day: date) -> Entry | None:
        """Return a player's entry in the window that ends with a day."""
        assert self._board is not None
        entry: Entry | None = None
        order, span = Order.of(self._board), span_of(recurrence)
        for one in self._of(player):
            if not _is_within(one.day, last_day, span) or recurrence.name in one.refused_in:
                continue
            if isinstance(one.fact, MetadataSet):
                entry = entry and entry._replace(metadata=one.fact.metadata)
                continue
            if not one.counts:
                continue
            verdict = judge(self._board, one.fact, None if entry is None else entry.scores)
            if isinstance(verdict, Counted):
                metadata = one.fact.metadata
                if one.fact.overrides and metadata is None and entry is not None:
                    metadata = entry.metadata
                key = None if entry is None or verdict.moved else entry.order_key
                key = key or order.key(verdict.scores, one.position)
                entry = Entry(verdict.scores, key, metadata)
        return entry

    def entries(self, recurrence: Recurrence, last_day: date) -> dict[str, Entry]:
        """Return the entries of all players that are ranked."""
        assert self._board is not None
        found: dict[str, Entry] = {}
        for player in dict.fromkeys(one.fact.player for one in self._submitted):
            entry = self.entry(player, recurrence, last_day)
            if entry is not None and self._state.player_state(player, self._board.name) is None:
                found[player] = entry
        return found


def _correct(one: Submitted, fact: Fact, position: Position) -> None:
    """Have a correction change what becomes of an earlier submission."""
    match fact:
        case ScoresRetracted():
            if fact.selects(Recorded(one.position, 0, one.fact)):
                one.retracted_by.add(position)
        case RetractionUndone(retraction=undone):
            one.retracted_by.discard(undone)
        case ReviewDecided(submission=submission, approved=True):
            one.held = one.held and one.position != submission
        case ReviewDecided(submission=submission) if submission == one.position and not one.held:
            one.retracted_by.add(position)
        case ScoresExpired(positions=positions):
            one.expired = one.expired or one.position in positions


def _is_within(day: date, last_day: date, span: int | None) -> bool:
    return day <= last_day and (span is None or day > last_day - timedelta(days=span))


# ------------------------------------------------------------------------------- the game


class World(Protocol):
    """Where engines run: they are started again and again over one ledger."""

    clock: SetClock

    def start(self, kind: Kind) -> Any:
        """Start the engines."""


class MemoryWorld:
    """One engine at a time over a ledger in memory; its index may be saved in a folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self.clock = SetClock()
        self._ledger = MemoryLedger()
        self._folder = folder

    @asynccontextmanager
    async def start(self, kind: Kind) -> AsyncIterator[list[Engine]]:
        build = bare_in_moves if kind == "moves" else bare
        if self._folder is not None and kind != "moves":
            build = kept_in(self._folder)
        async with engine(self._ledger, self.clock, build) as rankd:
            yield [rankd]


class NodesWorld:
    """Two nodes over one ledger: each with its own index, or with one that they share."""

    def __init__(
        self, index: Callable[[], AbstractAsyncContextManager[SharedIndex]] | None
    ) -> None:
        self.clock = SetClock()
        self._ledger, self._index = SharedLedger(), index

    @asynccontextmanager
    async def start(self, kind: Kind) -> AsyncIterator[list[Engine]]:
        del kind
        async with AsyncExitStack() as stack:
            engines: list[Engine] = []
            for _ in range(2):
                home = None
                if self._index is not None:
                    home = SharedHome(await stack.enter_async_context(self._index()))
                node = engine(self._ledger, self.clock, shared=home)
                engines.append(await stack.enter_async_context(node))
            yield engines


class Found(NamedTuple):
    """What games came to."""

    games: int
    submissions: int
    windows: int
    entries: int


class Game:
    """One board through some days."""

    def __init__(self, world: World, seed: int) -> None:
        self.rng = Random(seed)
        self.world = world
        self.zone = ZONES[seed % len(ZONES)]
        start = self.rng.choice(STARTS)
        world.clock.time = Instant(start.timestamp()) * 1_000_000
        self.days = Days(self.zone)
        self.submissions = self.windows = self.entries = 0
        self.plain = self.rng.random() < 0.5
        """Whether closed windows are compared: nothing that is not in them for good comes later."""
        self.definition = self._definition()

    def _definition(self) -> dict[str, Any]:
        rng = self.rng
        names = {"last": f"{rng.choice((1, 2, 3, 7))}d"}
        if rng.random() < 0.4:
            names["long"] = f"{rng.choice((5, 14, 30))}d"
        windows: list[Any] = [{"name": name, "rolling": days} for name, days in names.items()]
        windows += rng.sample(["all", "daily"], k=rng.randrange(3))
        rng.shuffle(windows)
        definition: dict[str, Any] = {
            "windows": windows,
            "time_zone": self.zone,
            "rule": rng.choice(("best", "sum", "latest", "first")),
            "direction": rng.choice(("higher", "lower")),
            "ties": rng.choice(("ordinal", "dense", "standard")),
        }
        if rng.random() < 0.4:
            definition["segments"] = ["region"]
        if rng.random() < 0.25:
            definition["limits"] = {"attempts_max": rng.randrange(2, 8)}
        elif rng.random() < 0.4:
            definition["limits"] = {"score_max": 60, "score_min": -20}
        if rng.random() < 0.3:
            definition["rules"] = [{"rule": "first_score", "max": 25, "then": "hold"}]
        if rng.random() < 0.5:
            definition["retention"] = {"last": rng.choice(("2d", "5d", "60d"))}
        return definition

    async def play(self) -> None:
        """Play to the end, in engines that are restarted now and then."""
        left = STEPS
        while left > 0:
            kind: Kind = self.rng.choice(("place", "place", "moves"))
            async with self.world.start(kind) as engines:
                rankd = engines[0]
                if "b" not in rankd.state.boards:
                    await rankd.define("b", self.definition)
                for _ in range(min(left, self.rng.randrange(1, 20))):
                    self.leap(rankd)
                    await self.act(self.rng.choice(engines))
                    if self.rng.random() < 0.3:
                        await self.rng.choice(engines).rolling.look()
                    left -= 1
                    if self.rng.random() < 0.3:
                        await self.check(engines)
                await self.check(engines)
                for one in engines:
                    await verified(one)
                if self.rng.random() < 0.5:
                    with suppress(AttributeError):
                        await rankd.save()

    def leap(self, rankd: Engine) -> None:
        """Let time pass: mostly within a day, often to a midnight, now and then for days."""
        clock, rng = self.world.clock, self.rng
        now = max(clock.time, rankd.ledger_time)
        if rng.random() < 0.3:
            clock.time = self.days.end(now) + rng.choice((-1, 0, 0, 1))
        else:
            clock.time = now + rng.choice(
                (-HOUR, 0, 1, HOUR, 5 * HOUR, 9 * HOUR, DAY, rng.randrange(2, 5) * DAY)
            )

    async def act(self, rankd: Engine) -> None:
        rng, act = self.rng, self.rng.random()
        with suppress(Refused):
            if act < 0.6:
                await self.submit(rankd)
            elif act < 0.72:
                await rankd.sealer.turn()
            elif act < 0.8:
                await self.retract(rankd)
            elif act < 0.84:
                await self.review(rankd)
            elif act < 0.88:
                await rankd.corrections.set_metadata("b", rng.choice(PLAYERS), {"n": rng.random()})
            elif act < 0.91:
                await self.adjust(rankd)
            elif act < 0.94:
                await rankd.merge_profile(
                    rng.choice(PLAYERS), {"attributes": {"region": rng.choice(REGIONS)}}
                )
            elif not self.plain and act < 0.97:
                states: tuple[Any, ...] = ("hidden", "shadowed", "active", "banned")
                body = {"reason": "because"}
                await rankd.corrections.set_player_state(
                    rng.choice(PLAYERS), rng.choice(states), body
                )
            elif not self.plain:
                await self.redefine(rankd)

    async def submit(self, rankd: Engine) -> None:
        """Submit one score or several at once: those are folded in place."""
        rng, items = self.rng, []
        for _ in range(rng.choice((1, 1, 2, 5))):
            item: dict[str, Any] = {"player": rng.choice(PLAYERS)}
            item["score"] = rng.randrange(-10, 30)
            if rng.random() < 0.2 and self.definition["rule"] != "first":
                item["delta"] = item.pop("score")
            if rng.random() < 0.2:
                item["metadata"] = {"at": rng.randrange(100)}
            if rng.random() < 0.15:
                item["attributes"] = {"region": rng.choice(REGIONS)}
            if rng.random() < 0.1 and not self.plain and "score" in item:
                item["lives"] = rng.choice(("1h", "1d", "4d"))
            items.append(item)
        self.submissions += len(await rankd.submit("b", items))

    async def retract(self, rankd: Engine) -> None:
        facts = await facts_of(rankd._ledger)
        positions = [one.position for one in facts if is_submission(one.fact)]
        known = list(rankd.state.retractions)
        if known and self.rng.random() < 0.3:
            await rankd.corrections.undo_retraction("b", self.rng.choice(known))
        elif positions:
            position, reason = self.rng.choice(positions), {"reason": "cheats"}
            several: dict[str, Any] = {"position": position} | reason
            if self.rng.random() < 0.3:
                several = {"from_position": position, "to_position": position + 9} | reason
            await rankd.corrections.retract("b", several)

    async def review(self, rankd: Engine) -> None:
        held = [one for one in rankd.state.reviews.listed.values() if one.state == "held"]
        if held:
            await rankd.corrections.decide_review(
                self.rng.choice(held).id, approved=self.rng.random() < 0.8, reason="seen"
            )

    async def adjust(self, rankd: Engine) -> None:
        player, number = self.rng.choice(PLAYERS), self.rng.randrange(-5, 20)
        kind = self.rng.choice(("score", "delta"))
        await rankd.corrections.adjust("b", {"player": player, kind: number, "reason": "owed"})

    async def redefine(self, rankd: Engine) -> None:
        """Change what windows there are, or how scores are judged."""
        given = dict(self.definition)
        if self.rng.random() < 0.5:
            given["windows"] = self._definition()["windows"]
            names = {one["name"] for one in given["windows"] if isinstance(one, dict)}
            kept = given.get("retention", {})
            given["retention"] = {name: kept[name] for name in kept if name in names}
        elif "limits" not in given:
            given["rule"] = self.rng.choice(("best", "sum", "latest"))
        await rankd.redefine("b", given, drop_scores=True)
        self.definition = given

    # .......................................................................... checks

    async def check(self, engines: Sequence[Engine]) -> None:
        """Compare every rolling window with the judge's."""
        for rankd in engines:
            async with rankd._writer.turn():
                await rankd._writer.catch_up_others()
            await rankd.sealer.turn()
        for rankd in engines:
            async with rankd._writer.turn():
                await rankd._writer.catch_up_others()
            await self.compare(rankd, Judge(rankd, await facts_of(rankd._ledger), self.zone))

    async def compare(self, rankd: Engine, judge: Judge) -> None:
        page = rankd.state.page("b")
        today = self.days.of(rankd.ledger_time)
        for recurrence in page.board.windows:
            if span_of(recurrence) is None:
                continue
            opened = page.windows[recurrence.name]
            assert opened.window.id.partition("~")[0] == f"{recurrence.name}:{today}"
            await self.same(rankd, judge, recurrence, today, opened)
        for prepared in page.prepared.values():
            recurrence = next(one for one in page.rolling if one.name == prepared.window.name)
            assert prepared.window.end is not None
            day = self.days.of(prepared.window.end - 1)
            await self.same(rankd, judge, recurrence, day, prepared)
        for sealed in page.sealed.values() if self.plain else ():
            for recurrence in page.rolling:
                if recurrence.name == sealed.window.name:
                    day = date.fromisoformat(sealed.window.id.partition(":")[2])
                    await self.same(rankd, judge, recurrence, day, sealed)

    async def same(
        self,
        rankd: Engine,
        judge: Judge,
        recurrence: Recurrence,
        day: date,
        window: OpenedWindow | SealedWindow,
    ) -> None:
        expected = judge.entries(recurrence, day)
        ordered = sorted(expected, key=lambda player: (expected[player].order_key, player.encode()))
        wanted = [(player, *expected[player][1:]) for player in ordered]
        index, ranking = rankd.projector.readable, window.ranking
        found = await index.read(ranking, first=Rank(1), limit=100)
        assert [tuple(one) for one in found.entries] == wanted, (window.window.id, wanted)
        self.windows += 1
        self.entries += len(wanted)
        if window.terms.board.segments and isinstance(window, OpenedWindow):
            for region in REGIONS:
                segment = Ranking(ranking.board, ranking.window, f"region:{region}")
                there = await index.read(segment, first=Rank(1), limit=100)
                known = judge.attributes
                of_it = [one for one in wanted if known.get(one[0], {}).get("region") == region]
                assert [tuple(one) for one in there.entries] == of_it, (window.window.id, region)


async def play(world: World, seed: int) -> Game:
    """Play a game; what fails has its seed."""
    game = Game(world, seed)
    few = 0 if seed % 3 == 0 else mass_retraction.REFOLDED_PLAYERS_MAX
    with (
        mock.patch.object(mass_retraction, "REFOLDED_PLAYERS_MAX", few),
        mock.patch.object(RollingDrafts, "run", _for_ever),
    ):
        try:
            await game.play()
        except BaseException as exc:
            exc.add_note(f"seed {seed}, in {game.zone}: {game.definition}")
            raise
    return game


async def _for_ever(_drafts: RollingDrafts) -> None:
    """Leave it to the game when windows are prepared."""
    await asyncio.Event().wait()


def simulate(games: int, seed: int, worlds: Callable[[int, Path], World]) -> Found:
    """Play so many games, each in a world of its own."""
    played: list[Game] = []
    for number in range(seed, seed + games):
        with TemporaryDirectory() as folder:
            played.append(asyncio.run(play(worlds(number, Path(folder)), number)))
    return found_in(played)


def in_memory(number: int, folder: Path) -> World:
    """Return one process at a time; every other one saves its index."""
    return MemoryWorld(folder if number % 2 else None)


def on_nodes(number: int, _folder: Path) -> World:
    """Return two nodes; every other pair shares an index."""
    memory = SharedMemory()
    return NodesWorld(partial(_shared, memory) if number % 2 else None)


@asynccontextmanager
async def _shared(memory: SharedMemory) -> AsyncIterator[SharedIndex]:
    yield MemorySharedIndex(memory)


def in_redis(url: str, number: int, _folder: Path) -> World:
    """Return two nodes that share an index in Redis."""
    return NodesWorld(lambda: RedisIndex.open(f"{url}?prefix=rolling{number}"))


def found_in(played: Sequence[Game]) -> Found:
    return Found(
        len(played),
        sum(game.submissions for game in played),
        sum(game.windows for game in played),
        sum(game.entries for game in played),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--nodes", action="store_true", help="two nodes over one ledger")
    parser.add_argument("--redis", action="store_true", help="nodes over an index in Redis")
    given = parser.parse_args()
    logging.disable(logging.ERROR)  # Ledger time waits for the clock now and then.
    if given.redis:
        with redis_server() as server:
            places = partial(in_redis, server.url)
            found = simulate(given.games, given.seed, places)
    else:
        found = simulate(given.games, given.seed, on_nodes if given.nodes else in_memory)
    print(  # noqa: T201 - figures are what it is for
        f"{found.games:,} games from seed {given.seed}: {found.submissions:,} submissions, "
        f"{found.windows:,} windows with {found.entries:,} entries, no difference"
    )
    sys.exit(0)


if __name__ == "__main__":
    main()
