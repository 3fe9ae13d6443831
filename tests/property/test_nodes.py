"""Several engines over one ledger come to the same, whoever appends what and when.

Method: three nodes with clocks that disagree append to one ledger in memory, often at the same
moment: submissions with and without keys, definitions that contradict each other, profiles, and
whatever windows their clocks say are over. Appends fail before and after they happened, reads fail
for a while, nodes are closed and opened again. In the end every node has the index and the state
that folding the ledger from scratch gives, no window was left out or counted twice, and a key that
is sent again to any node gets the first answer.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import pytest

from rankd.adapters.memory.archive import MemoryStateSnapshots
from rankd.adapters.memory.index import NativeIndex
from rankd.adapters.memory.ledger import MemoryLedger
from rankd.adapters.memory.shared_index import MemorySharedIndex, SharedMemory
from rankd.adapters.sqlite.spool import SpoolFile
from rankd.core.assembly import running
from rankd.core.cluster.managers import SpoolSender, StateSnapshotter
from rankd.core.cluster.recovery import SharedHome
from rankd.core.cluster.shared_projector import LOOK_SECONDS, SharedProjector
from rankd.core.engine import Engine
from rankd.core.player_boards import PlayerBoards
from rankd.core.projector import Projector
from rankd.core.recovery import IndexHome, folded
from rankd.core.state import State
from rankd.core.state_codec import VERSION, Heading, take_notes
from rankd.errors import (
    BoardDiffers,
    IndexUnavailable,
    LedgerUnavailable,
    PlayerBanned,
    Refused,
    SubmissionKeyReused,
    UnknownBoard,
)
from rankd.model.facts import (
    Fact,
    PlayerStanding,
    PlayerStateSet,
    Position,
    Recorded,
    ScoreSubmitted,
    WindowOpened,
    WindowSealed,
)
from rankd.model.standing import Rank
from rankd.model.window import Instant
from rankd.ports import Appended, Move, Moved, Progress, RankIndex, StoredReceipt

if TYPE_CHECKING:
    from rankd.model.receipt import Receipt

NODES = 3
STEPS = 60
DAY = 86_400_000_000
NOON = Instant(datetime(2026, 11, 14, 12, tzinfo=UTC).timestamp()) * 1_000_000

DEFINITIONS: list[dict[str, Any]] = [
    {"windows": ["all", "daily"], "segments": ["region"]},
    {"windows": ["daily", "all"], "segments": ["region"], "rule": "latest"},
    {"windows": ["all"], "direction": "lower"},
]

JUDGED: list[dict[str, Any]] = [
    {
        "windows": ["all", "daily"],
        "segments": ["region"],
        "limits": {"attempts_max": 5},
        "rules": [
            {"rule": "submissions_per_minute", "max": 2, "then": "hold"},
            {"rule": "first_score", "max": 3, "then": "flag"},
            {"rule": "gain_per_minute", "max": 3, "then": "refuse"},
        ],
    },
]
"""With corrections only: what they hold is decided about."""


class SharedLedger(MemoryLedger):
    """A ledger that several engines append to. Each opens a door of its own (Door)."""

    shared: ClassVar[bool] = True

    async def receipts_through(self) -> Position:
        positions = [one.position for one in self._recorded]
        lacking = await self.lacking_receipts(positions)
        return Position(lacking[0] - 1 if lacking else len(positions))

    async def lost(self) -> LedgerUnavailable:
        return await asyncio.Future()  # Never: one append fails, and the next may not.

    async def regained(self) -> None:
        pass


class Door:
    """One node's way to the ledger, which may fail while the ledger itself does not."""

    durable: ClassVar[bool] = False
    shared: ClassVar[bool] = True

    def __init__(self, ledger: SharedLedger) -> None:
        self._ledger = ledger
        self.plan: list[tuple[Literal["no", "unknown"], bool]] = []
        """How the next appends fail, and whether they happen all the same."""
        self.blind = False
        """Whether reads fail."""
        self.read_from: Position | None = None
        """The lowest position that was read on from."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def append(
        self,
        facts: Sequence[Fact],
        *,
        now: Instant,
        receipts: Sequence[StoredReceipt] = (),
        after: Position | None = None,
    ) -> Appended | None:
        await asyncio.sleep(0)  # Others get in between.
        applied, done = self.plan.pop() if self.plan else (None, True)
        found = None
        if done:
            found = await self._ledger.append(facts, now=now, receipts=receipts, after=after)
        if applied is not None:
            raise LedgerUnavailable("injected", applied=applied)
        return found

    async def read(self, *, after: Position, limit: int) -> Sequence[Recorded]:
        await asyncio.sleep(0)
        if self.blind:
            raise LedgerUnavailable("injected", applied="no")
        if limit > 1:  # The first one alone says which ledger this is.
            self.read_from = after if self.read_from is None else min(after, self.read_from)
        return await self._ledger.read(after=after, limit=limit)


class IndexDoor:
    """One node's way to the index that all share. It may fail, before or after what was asked."""

    immediate: ClassVar[bool] = False
    judges: ClassVar[bool] = False
    shared: ClassVar[bool] = True
    replicas: ClassVar[None] = None
    notes: ClassVar[tuple[str, ...]] = ()

    def __init__(self, cluster: "Cluster", inner: MemorySharedIndex | None = None) -> None:
        self._cluster = cluster
        self._inner = inner or MemorySharedIndex(cluster.memory)
        self.plan: list[bool] = []
        """How the next applies fail: whether they happen all the same."""
        self.cut = False

    def __getattr__(self, name: str) -> Any:
        async def asked(*args: Any, **named: Any) -> Any:
            await self._reach()
            return await getattr(self._inner, name)(*args, **named)

        return asked

    async def _reach(self) -> None:
        for _ in range(self._cluster.delays.randrange(4)):
            await asyncio.sleep(0)
        if self.cut:
            raise IndexUnavailable("injected")

    async def apply(self, moves: Sequence[Move], **named: Any) -> Sequence[Moved] | None:
        await self._reach()
        happens = self.plan.pop() if self.plan else None
        if happens is False:
            raise IndexUnavailable("injected")
        found = await self._inner.apply(moves, **named)
        if happens is True:
            raise IndexUnavailable("injected")
        return found

    async def beside(self) -> "Beside":
        await self._reach()
        return Beside(self, await self._inner.beside())

    async def claim(self, *, seconds: float) -> bool:
        """Let everybody fill at once: nothing may rest on it."""
        del seconds
        await self._reach()
        return True

    async def sweep(self, *, at_once: bool = False) -> int:
        """Drop nothing that may still be filled: everybody fills at once."""
        del at_once
        return await self._inner.sweep()


class Beside(IndexDoor):
    """An index that is filled beside the one that lives, and may come to live instead."""

    def __init__(self, door: IndexDoor, inner: MemorySharedIndex) -> None:
        super().__init__(door._cluster, inner)
        self._door = door

    async def _reach(self) -> None:
        await self._door._reach()

    async def fill(self, source: RankIndex) -> AsyncIterator[Progress]:
        async for progress in self._inner.fill(source):
            await self._reach()
            yield progress

    async def take_over(self) -> bool:
        await self._reach()
        taken = await self._inner.take_over()
        self._cluster.switches += taken
        return taken


class Skewed:
    """A clock that is off by so much."""

    def __init__(self, skew: int) -> None:
        self.time = NOON
        self.skew = skew

    def now(self) -> Instant:
        return Instant(self.time + self.skew)


class Cluster:
    """The nodes, and what they were told."""

    def __init__(self, dice: random.Random, *, shares: bool, applies_remembered: int = 3) -> None:
        self.dice = dice
        self.shares = shares
        """Whether they share one index; otherwise each has its own."""
        self.delays = random.Random(0)
        """Who comes when to the index: others get in between."""
        self.memory = SharedMemory(applies_remembered=applies_remembered)
        self.indexes = [IndexDoor(self) for _ in range(NODES)]
        self.copies = MemoryStateSnapshots()
        self.ledger = SharedLedger()
        self.doors = [Door(self.ledger) for _ in range(NODES)]
        self.clocks = [Skewed(skew) for skew in (0, 3_000_000, -2_000_000)]
        self.nodes: list[Engine] = []
        self.stacks = [AsyncExitStack() for _ in range(NODES)]
        self.receipts: dict[str, Receipt] = {}
        """The first answer that anybody got, by key."""
        self.bodies: dict[str, dict[str, Any]] = {}
        self.acknowledged: list[Position] = []
        self.switches = 0
        """How often an index took another's place."""
        self.fills = False
        """Whether nodes make the index anew now and then."""
        self.corrects = False
        """Whether there are corrections and states of players."""
        self.untold = 0
        """How many were told that their score is recorded, and not what it did."""

    async def open(self, number: int) -> Engine:
        """Open a node, or open it again."""
        await self.stacks[number].aclose()
        self.doors[number].blind, self.doors[number].plan = False, []
        node = await self.stacks[number].enter_async_context(
            running(
                ledger=self.doors[number],  # type: ignore[arg-type]
                build=lambda: IndexHome(NativeIndex(), None),
                clock=self.clocks[number],
                reading=nullcontext(),
                shared=self.shared_index(number),
            )
        )
        if isinstance(node.projector, SharedProjector):
            node.projector.patience_seconds = LOOK_SECONDS
        return node

    def shared_index(self, number: int) -> SharedHome | None:
        if not self.shares:
            return None
        self.indexes[number].cut, self.indexes[number].plan = False, []
        return SharedHome(self.indexes[number], number == 0, self.copies)

    # -- what happens --

    async def submit(self, number: int) -> None:
        dice = self.dice
        key = f"k{dice.randrange(40)}" if dice.random() < 0.5 else None
        body: dict[str, Any] = {"player": f"p{dice.randrange(6)}"}
        body |= (
            {"delta": dice.randrange(3)} if dice.random() < 0.2 else {"score": dice.randrange(5)}
        )
        if dice.random() < 0.1:
            body["attributes"] = {"region": dice.choice(["eu", "us"])}
        if dice.random() < 0.3:
            body["metadata"] = {"hero": dice.choice(["fox", "owl"])}
        if self.corrects and dice.random() < 0.4:
            body["build"] = dice.choice(["good", "bad"])
        if key is not None:
            body = self.bodies.setdefault(key, {**body, "key": key})
        try:
            (answer,) = await self.nodes[number].submit("b", [body])
        except (UnknownBoard, LedgerUnavailable, PlayerBanned):
            return
        if answer.error is not None:
            assert isinstance(answer.error, SubmissionKeyReused)
            return
        self.acknowledged.append(answer.position)
        self.untold += answer.pending is not None
        if key is not None and answer.receipt is not None:
            first = self.receipts.setdefault(key, answer.receipt)
            assert answer.receipt == first, f"two answers for {key}"

    async def define(self, number: int) -> None:
        definition = self.dice.choice(DEFINITIONS + JUDGED if self.corrects else DEFINITIONS)
        node = self.nodes[number]
        try:
            if self.dice.random() < 0.5:
                await node.define("b", definition)
            else:
                await node.redefine("b", definition)
        except (BoardDiffers, UnknownBoard, LedgerUnavailable, IndexUnavailable):
            pass

    async def state(self, number: int) -> None:
        """Ban, hide, shadow or restore a player, on some boards or on all, for a while or for good.

        The board may be one that is not defined yet.
        """
        dice, node = self.dice, self.nodes[number]
        body: dict[str, Any] = {}
        if dice.random() < 0.3:
            body["boards"] = dice.choice([["b"], ["c"], ["b", "c"]])
        if dice.random() < 0.3:
            body["until"] = at(node.ledger_time + dice.choice([30_000_000, DAY // 4, 2 * DAY]))
        states: tuple[PlayerStanding, ...] = ("banned", "hidden", "shadowed", "active", "active")
        with suppress(LedgerUnavailable, IndexUnavailable):
            player = f"p{dice.randrange(6)}"
            await node.corrections.set_player_state(player, dice.choice(states), body)

    async def decide(self, number: int) -> None:
        """Approve or reject a submission that rules held or flagged."""
        dice, reviews = self.dice, self.nodes[number].state.reviews
        waiting = [one for one in reviews.listed.values() if reviews.is_open(one.position)]
        if waiting:
            id, approved = dice.choice(waiting).id, dice.random() < 0.5
            with suppress(LedgerUnavailable, IndexUnavailable, Refused):
                await self.nodes[number].corrections.decide_review(id, approved=approved)

    async def correct(self, number: int) -> None:
        """Adjust a score, retract submissions of one player or of many, or take that back."""
        dice, node = self.dice, self.nodes[number]
        player, undone = f"p{dice.randrange(6)}", list(node.state.retractions)
        with suppress(LedgerUnavailable, IndexUnavailable, Refused):
            if dice.random() < 0.3:
                delta = {"player": player, "delta": dice.randrange(-3, 3)}
                await node.corrections.adjust("b", delta)
            elif dice.random() < 0.3 and undone:
                await node.corrections.undo_retraction("b", dice.choice(undone))
            elif dice.random() < 0.5:
                await node.corrections.retract("b", {"player": player})
            else:
                await node.corrections.retract("b", {"build": dice.choice(["good", "bad"])})

    async def profile(self, number: int) -> None:
        player = f"p{self.dice.randrange(6)}"
        attributes = {"region": self.dice.choice(["eu", "us"])}
        with suppress(LedgerUnavailable):
            await self.nodes[number].profile(player, {"name": "x", "attributes": attributes})

    async def copy(self, number: int) -> None:
        """Keep a copy of the state, as often as there is anything new."""
        node, door = self.nodes[number], self.doors[number]
        state_snapshotter = StateSnapshotter(node._writer, door, self.copies, every_facts=1)  # type: ignore[arg-type]
        with suppress(LedgerUnavailable):
            await state_snapshotter.copy()

    async def fill(self, number: int) -> None:
        """Have a node make the index anew, from its own copy or from the ledger."""
        rebuilder, projector = self.nodes[number].rebuilder, self.nodes[number].projector
        assert rebuilder is not None

        async def always(_through: Position | None = None) -> bool:
            return True

        projector.hopeless = always  # type: ignore[attr-defined]
        try:
            with suppress(IndexUnavailable, LedgerUnavailable):
                await rebuilder.refill(lambda _: None, anew=self.dice.random() < 0.5)
        finally:
            vars(projector).pop("hopeless", None)

    FAILURES: ClassVar[list[tuple[Literal["no", "unknown"], bool]]] = [
        ("no", False),
        ("unknown", False),
        ("unknown", True),
    ]

    async def step(self) -> None:
        dice = self.dice
        chance = dice.random()
        if chance < 0.06:
            for clock in self.clocks:
                clock.time += dice.choice([DAY // 2, DAY, 60_000_000])
        elif chance < 0.12:
            door = dice.choice(self.doors)
            door.plan.append(dice.choice(self.FAILURES))
        elif chance < 0.16:
            door = dice.choice(self.doors)
            door.blind = not door.blind
        elif chance < 0.19:
            number = dice.randrange(NODES)
            self.nodes[number] = await self.open(number)
        if self.shares and dice.random() < 0.1:
            index = dice.choice(self.indexes)
            if dice.random() < 0.3:
                index.cut = not index.cut
            elif dice.random() < 0.1:
                self.memory.empty()
            else:
                index.plan.append(dice.random() < 0.5)
        deeds = [self.submit] * 8 + [self.define, self.profile]
        if self.shares:
            deeds.append(self.copy)
        if self.fills:
            deeds += [self.fill] * 3
        if self.corrects:
            deeds += [self.state, self.state, self.correct, self.decide]
        some = [dice.choice(deeds)(dice.randrange(NODES)) for _ in range(dice.randrange(1, 6))]
        await asyncio.gather(*some)

    # -- what must be true in the end --

    async def settle(self) -> None:
        """Let every node see everything."""
        for number, node in enumerate(self.nodes):
            self.doors[number].blind, self.doors[number].plan = False, []
            self.indexes[number].cut, self.indexes[number].plan = False, []
            async with node._writer.turn():
                await node._writer.catch_up_others()
                if isinstance(node.projector, SharedProjector):
                    await mended(node.projector)

    async def scratch(self) -> Projector:
        projector = folded(self.ledger, IndexHome(NativeIndex(), None))
        await projector.catch_up(through=await self.ledger.head())
        return projector


def at(time: Instant) -> str:
    return datetime.fromtimestamp(time / 1_000_000, UTC).isoformat()


async def mended(projector: SharedProjector) -> None:
    for _ in range(5):  # Each failure that is noticed takes one.
        with suppress(IndexUnavailable):
            if await projector.repair(1_000_000):
                return
    assert await projector.repair(1_000_000)


def seen(projector: Projector, index: Any) -> tuple[bytes, list[bytes]]:
    heading = Heading(VERSION, projector.checkpoint, projector.at, b"", Position(0), {})
    state = projector.state.copy()
    state.player_boards = PlayerBoards()  # These need only be enough: see `entrants_are_complete`.
    for page in state.boards.values():
        page.traced = True
    return index.digest(), list(take_notes(state, heading))


async def entrants_are_complete(state: State, index: Any) -> None:
    """Make sure that whoever has an entry is looked for when its attributes change."""
    for page in state.segmented.values():
        for opened in page.windows.values() if page.traced else ():
            entries, _, _ = await index.read(opened.ranking, first=Rank(1), limit=1_000)
            for entry in entries:
                assert page.since in state.player_boards.boards_of(entry.player)


async def live(
    seed: int, *, shares: bool = False, fills: bool = False, corrects: bool = False
) -> Cluster:
    cluster = Cluster(random.Random(seed), shares=shares)
    cluster.fills, cluster.corrects = fills, corrects
    try:
        cluster.nodes = [await cluster.open(number) for number in range(NODES)]
        await cluster.nodes[0].define("b", DEFINITIONS[0])
        for _ in range(STEPS):
            await cluster.step()
        if shares and seed % 3 == 0:
            cluster.memory.empty()  # Nobody has noticed.
        await cluster.settle()
        await agree(cluster)
        await repeat_keys(cluster)
    finally:
        for stack in cluster.stacks:
            await stack.aclose()
    return cluster


async def agree(cluster: Cluster) -> None:
    """Make sure that every node has what the ledger says, in the index and in each state."""
    scratch = await cluster.scratch()
    for node in cluster.nodes:
        projector = node.projector
        index = cluster.memory.live if cluster.shares else projector.index
        found = seen(projector, index)
        assert found == seen(scratch, scratch.index), "a node sees something else"
        await entrants_are_complete(projector.state, index)
        if isinstance(projector, SharedProjector):
            assert projector._behind is not None
            behind = seen(projector._behind, index)
            assert sorted(behind[1]) == sorted(found[1]), "the book behind is another"
            await entrants_are_complete(projector._behind.state, index)
            if projector.spare is not None:
                spare = projector.spare
                assert seen(spare, spare.index) == found, "its copy is another"


async def repeat_keys(cluster: Cluster) -> None:
    """Send every key again, everywhere: each node gives the answer that was given first."""
    head = await cluster.ledger.head()
    for key, first in cluster.receipts.items():
        if "b" not in cluster.nodes[0].state.boards:
            return
        for node in cluster.nodes:
            try:
                (answer,) = await node.submit("b", [cluster.bodies[key]])
            except PlayerBanned:
                continue
            if answer.error is not None:
                continue  # Read under another definition, it may say something else.
            assert answer.duplicate
            assert answer.receipt == first or (cluster.shares and answer.receipt is None)
    facts = await cluster.ledger.read(after=head, limit=10)
    by_time = WindowOpened | WindowSealed | PlayerStateSet
    assert all(isinstance(one.fact, by_time) for one in facts), "a key counted twice"


@pytest.mark.parametrize("shares", [False, True], ids=["own", "shared"])
@pytest.mark.parametrize("seed", range(12))
def test_every_node_comes_to_what_the_ledger_says(seed: int, shares: bool) -> None:
    cluster = asyncio.run(live(seed, shares=shares))
    assert cluster.acknowledged
    positions = [one.position for one in asyncio.run(everything(cluster.ledger))]
    assert set(cluster.acknowledged) <= set(positions), "an acknowledged submission is lost"


@pytest.mark.parametrize("index", ["own", "shared", "made anew"])
@pytest.mark.parametrize("seed", range(8))
def test_every_node_comes_to_the_same_corrections(seed: int, index: str) -> None:
    cluster = asyncio.run(
        live(seed, shares=index != "own", fills=index == "made anew", corrects=True)
    )
    assert cluster.acknowledged
    kinds = {type(one.fact) for one in asyncio.run(everything(cluster.ledger))}
    assert PlayerStateSet in kinds


LOST_DRAFT = 1288584275
"""A draft goes with the index before, and must not be taken for an empty one."""


@pytest.mark.parametrize("seed", [*range(12), LOST_DRAFT])
def test_an_index_may_be_made_anew_at_any_moment_by_several_at_once(seed: int) -> None:
    cluster = asyncio.run(live(seed, shares=True, fills=True))
    assert cluster.switches, "none took another's place"
    positions = [one.position for one in asyncio.run(everything(cluster.ledger))]
    assert set(cluster.acknowledged) <= set(positions), "an acknowledged submission is lost"


@pytest.mark.parametrize("seed", range(12))
def test_nodes_that_get_in_each_others_way_tell_every_receipt(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = asyncio.run(contend(seed))
    assert cluster.acknowledged
    assert cluster.untold == 0, "a receipt was lost though nothing failed"
    assert not caplog.records, "something failed"


async def lived() -> Cluster:
    """Return nodes without faults that have a history, and then a copy of the state."""
    cluster = Cluster(random.Random(5), shares=True)
    cluster.nodes = [await cluster.open(number) for number in range(NODES)]
    await cluster.nodes[0].define("b", DEFINITIONS[0])
    for _ in range(8):
        await asyncio.gather(*(cluster.submit(number) for number in range(NODES)))
        await cluster.profile(1)
    await cluster.settle()
    await cluster.copy(1)
    assert await cluster.copies.kept()
    return cluster


@pytest.mark.parametrize("more", [0, 3])
def test_a_node_begins_from_the_newest_copy_of_the_book_and_reads_on(more: int) -> None:
    async def begin() -> None:
        cluster = await lived()
        (kept,) = await cluster.copies.kept()
        for _ in range(more):
            await cluster.submit(1)
        cluster.doors[2].read_from = None
        cluster.nodes[2] = await cluster.open(2)
        door = cluster.doors[2]
        assert door.read_from is None or door.read_from >= kept, "facts were read again"
        shared_projector = cluster.nodes[2].projector
        assert isinstance(shared_projector, SharedProjector)
        async with cluster.nodes[2]._writer.turn():
            shared_projector._behind = None  # As after anything that went wrong.
        await cluster.settle()
        assert door.read_from is None or door.read_from >= kept, "facts were read again"
        await agree(cluster)
        for stack in cluster.stacks:
            await stack.aclose()

    asyncio.run(begin())


def test_a_node_that_begins_from_a_copy_fills_an_index_that_is_behind_it() -> None:
    async def begin() -> None:
        cluster = await lived()
        for stack in cluster.stacks:
            await stack.aclose()
        cluster.memory.empty()  # While no node was there.
        node = await cluster.open(2)
        assert await cluster.memory.live.checkpoint() == node.position
        scratch = await cluster.scratch()
        assert cluster.memory.live.digest() == scratch.index.digest()  # type: ignore[attr-defined]
        await cluster.stacks[2].aclose()

    asyncio.run(begin())


async def contend(seed: int) -> Cluster:
    """Let nodes fold the same facts at the same moments, parted at other places by each."""
    cluster = Cluster(random.Random(seed), shares=True, applies_remembered=1_000)
    cluster.delays.seed(seed)
    dice = cluster.dice
    try:
        cluster.nodes = [await cluster.open(number) for number in range(NODES)]
        for node in cluster.nodes:
            assert isinstance(node.projector, SharedProjector)
            node.projector.patience_seconds = 0.0  # Nobody leaves anything to others.
        await cluster.nodes[0].define("b", DEFINITIONS[0])
        for _ in range(STEPS):
            if dice.random() < 0.1:
                for clock in cluster.clocks:
                    clock.time += DAY // 2
            if dice.random() < 0.05:
                await cluster.define(dice.randrange(NODES))
            deeds = [cluster.submit] * 5 + [cluster.profile]
            some = [dice.choice(deeds)(dice.randrange(NODES)) for _ in range(9)]
            await asyncio.gather(*some)
        await cluster.settle()
        await agree(cluster)
    finally:
        for stack in cluster.stacks:
            await stack.aclose()
    return cluster


async def everything(ledger: MemoryLedger) -> Sequence[Recorded]:
    return await ledger.read(after=Position(0), limit=1_000_000)


def test_no_window_is_opened_or_closed_twice() -> None:
    cluster = asyncio.run(live(99))
    facts = [one.fact for one in asyncio.run(everything(cluster.ledger))]
    for kind in (WindowOpened, WindowSealed):
        turned = [(one.window, one.since) for one in facts if isinstance(one, kind)]
        assert len(turned) == len(set(turned))


@pytest.mark.parametrize("late", [("no", False), ("unknown", False), ("unknown", True)])
def test_what_waits_on_a_nodes_disk_is_counted_once(
    late: tuple[Literal["no", "unknown"], bool], tmp_path: Path
) -> None:
    async def wait() -> None:
        ledger = SharedLedger()
        door = Door(ledger)
        async with (
            SpoolFile.open(tmp_path) as spool,
            running(
                ledger=door,  # type: ignore[arg-type]
                build=lambda: IndexHome(NativeIndex(), None),
                clock=Skewed(0),
                reading=nullcontext(),
                spool=spool,
            ) as node,
        ):
            await node.define("b", {"rule": "sum", "windows": ["all"]})
            spool_sender = SpoolSender(node._writer, spool)
            door.plan = [late, ("no", False), ("no", False)]  # The last first.
            for body in ({"player": "ann", "score": 5}, {"player": "bob", "score": 7, "key": "k"}):
                (answer,) = await node.submit("b", [body])
                assert answer.pending is not None and answer.receipt is None
                assert answer.position == 0
            assert spool.waiting == 2 or not door.plan  # Its own spool_sender may have been at it.
            while spool.waiting:
                with suppress(LedgerUnavailable):
                    await spool_sender.hand_in()
            (again,) = await node.submit("b", [{"player": "bob", "score": 7, "key": "k"}])
            assert again.duplicate and again.receipt is not None
            page = await node.reader.page("b")
            assert [(one.player, one.score) for one in page.standings] == [("bob", 7), ("ann", 5)]
            with pytest.raises(LedgerUnavailable):
                door.plan = [("no", False)]
                await node.profile("ann", {"name": "Ann"})  # Only scores wait.
            with pytest.raises(LedgerUnavailable):
                door.plan = [("unknown", False)]
                await node.submit("b", [{"player": "ann", "score": 1}])

    asyncio.run(wait())


def test_a_node_that_closes_leaves_the_answers_to_its_keys_behind() -> None:
    async def close() -> None:
        ledger = SharedLedger()
        async with running(
            ledger=Door(ledger),  # type: ignore[arg-type]
            build=lambda: IndexHome(NativeIndex(), None),
            clock=Skewed(0),
            reading=nullcontext(),
        ) as node:
            await node.define("b", {"windows": ["all"]})
            told: list[Any] = []
            for n in range(3):
                fact = ScoreSubmitted("b", "p", (n,), key=f"k{n}")
                node._writer.hand_in((fact,), told.append)
            node._writer.close()  # What waits is served, and nothing comes behind it.
        assert len(told) == 3
        uses = [await ledger.first_use(board="b", key=f"k{n}") for n in range(3)]
        assert all(use is not None and use.receipt is not None for use in uses)

    asyncio.run(close())
