"""Recovery of a shared index: from a ledger to a projector at a start, and the index's rebuild.

Folding a fact into an index across a network costs some hundred microseconds; folding in memory and
copying the final entries costs a tenth. So an index that lacks few facts catches up by folding
them; otherwise a complete index is built in this process, or taken from the node's own copy if
there is one, and copied as a new generation.

The live index stays as it is meanwhile, be it empty or, when an operator asked for a new one, in
use: writes go on, and reads are answered from the old one. Facts appended during the copy are
folded into the new one after it, the last few of them while the writer is held.

Nodes claim the rebuild, so that one runs and the others wait. Correctness does not depend on the
claim: two nodes at once fill two generations, the first one ready becomes live, and the second is
discarded, because the generation it was to replace is gone.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass

from rankd.core.cluster.shared_projector import (
    PATIENCE_SECONDS,
    OtherLedger,
    SharedProjector,
    newest_copy,
)
from rankd.core.projector import FACTS_TOGETHER_MAX, Projector, Tell
from rankd.core.receipts import ReceiptBuffer
from rankd.core.recovery import NOTHING_LINKED, Build, IndexHome, Recovered
from rankd.core.state import State
from rankd.errors import IndexUnavailable, InvalidSetting, LedgerUnavailable
from rankd.model.facts import Position
from rankd.ports import Ledger, Progress, RankIndex, SharedIndex, StateSnapshots

FOLDED_TOGETHER = 2_048
"""How many facts are folded here before others get their turn: some ten milliseconds."""

TAIL_FACTS_MAX = 500
"""How near the copy comes to the head before the writer waits for it: some 50 milliseconds."""

TAIL_PASSES_MAX = 50
"""How often the copy goes after a head that runs ahead of it. Then the writer waits for it."""

CLAIM_SECONDS = 10.0
"""How long the others wait for a node that said that it fills, and is not heard of again."""

CLAIM_TRIES = 10
CLAIM_AGAIN_SECONDS = 0.2
"""How often, and how soon again, an operator's command says so: a node that only tidies up does so
for a moment."""

Turn = Callable[[], AbstractAsyncContextManager[None]]


class RebuildRunning(IndexUnavailable):
    """Another node fills the index."""


class IndexTooLarge(Exception):
    """The index is larger than this node may hold in memory."""


class IndexRebuilder:
    """Fills a shared index that is behind, or is to be made anew."""

    def __init__(
        self,
        shared_projector: SharedProjector,
        *,
        ledger: Ledger,
        build: Callable[[], RankIndex],
        turn: Turn,
        entries_max: int,
    ) -> None:
        self._shared_projector = shared_projector
        self._ledger = ledger
        self._build = build
        self._turn = turn
        self._entries_max = entries_max
        self._alone = asyncio.Lock()
        """A node's own copy stands still for one at a time."""

    async def refill(self, tell: Tell, *, anew: bool = False) -> None:
        """Fill an index that is hopeless and let it live. Raises Busy, IndexUnavailable, TooLarge.

        ``anew`` rebuilds in any case, from the ledger alone, without the memory bound.
        """
        shared_projector = self._shared_projector
        tries = CLAIM_TRIES if anew else 1
        async with self._alone, self._claimed(tries):
            if not anew and not await shared_projector.hopeless():
                return  # Another node has filled it since this one looked.
            await shared_projector.shared.sweep(at_once=True)
            if shared_projector.spare is not None and not anew:
                async with self._standing_still(shared_projector.spare) as source:
                    await self._copy(source, source.state.copy(), tell)
            else:
                source = Projector(ledger=self._ledger, index=self._build(), state=State())
                await self._fold(source, None if anew else self._entries_max, tell)
                await self._copy(source, source.state, tell)

    async def tidy(self) -> None:
        """Drop generations that unfinished rebuilds left behind. Raises Busy."""
        async with self._alone, self._claimed():
            await self._shared_projector.shared.sweep(at_once=True)

    # -------------------------------------------------------------------------- sources

    async def _fold(self, source: Projector, entries_max: int | None, tell: Tell) -> None:
        """Fold the ledger here, as far as the node has read it."""
        shared_projector, kept = self._shared_projector, await self._ledger.receipts_through()
        while source.checkpoint < shared_projector.checkpoint:
            before = source.checkpoint
            through = min(shared_projector.checkpoint, Position(before + FOLDED_TOGETHER))
            await source.catch_up(
                through=through, receipts_after=kept, collect=shared_projector.receipts.add_others
            )
            if source.checkpoint == before:
                break
            await self._store_receipts()
            if entries_max is not None and await source.count_entries() > entries_max:
                raise IndexTooLarge(f"the index has more than {entries_max:,} entries")
            tell(Progress(source.checkpoint, shared_projector.checkpoint, "folding", "fact"))
            await asyncio.sleep(0)

    async def _store_receipts(self) -> None:
        """Make room for the receipts of the next facts."""
        receipts = self._shared_projector.receipts
        if receipts.crowded:
            await receipts.store_missing(self._ledger, receipts.others())

    @asynccontextmanager
    async def _standing_still(self, spare: Projector) -> AsyncIterator[Projector]:
        """Let the node's copy wait while it is copied; it goes on from there afterwards."""
        shared_projector = self._shared_projector
        async with self._turn():
            await spare.catch_up(
                through=shared_projector.checkpoint, collect=shared_projector.receipts.add_others
            )
            shared_projector.spare_waits = True
        try:
            yield spare
        finally:
            shared_projector.spare_waits = False
            with suppress(LedgerUnavailable):  # It goes on with the next facts.
                async with self._turn():
                    await spare.catch_up(through=shared_projector.checkpoint)

    # -------------------------------------------------------------------------- copying

    async def _copy(self, source: Projector, state: State, tell: Tell) -> None:
        """Copy an index that does not change, fold the facts since, and make the copy live."""
        other = await self._shared_projector.shared.beside()
        tail = Projector(
            ledger=self._ledger,
            index=other,
            state=state,
            checkpoint=source.checkpoint,
            at=source.at,
        )
        try:
            async for progress in other.fill(source.index):
                tell(progress)
            await self._follow(tail, tell)
        except BaseException:
            with suppress(IndexUnavailable):  # Then the next who fills sweeps it away.
                await other.drop()
            raise
        async with self._turn():
            await self._switch(tail, other)

    async def _follow(self, tail: Projector, tell: Tell) -> None:
        """Fold nearly all facts appended meanwhile."""
        shared_projector = self._shared_projector
        for _ in range(TAIL_PASSES_MAX):
            if shared_projector.checkpoint - tail.checkpoint <= TAIL_FACTS_MAX:
                break
            await tail.catch_up(
                through=shared_projector.checkpoint, collect=shared_projector.receipts.add_others
            )
            tell(Progress(tail.checkpoint, shared_projector.checkpoint, "catching up", "fact"))

    async def _switch(self, tail: Projector, other: SharedIndex) -> None:
        """Fold the last facts, and those that other nodes have folded; then make it live."""
        shared_projector = self._shared_projector
        reached = max(
            shared_projector.checkpoint,
            shared_projector.floor,
            await shared_projector.shared.checkpoint(),
        )
        await tail.catch_up(through=reached, collect=shared_projector.receipts.add_others)
        if not await shared_projector.replace(other, tail):
            raise IndexUnavailable("another index took the place of the one that lived; look again")

    # ------------------------------------------------------------------------- claiming

    @asynccontextmanager
    async def _claimed(self, tries: int = 1) -> AsyncIterator[None]:
        """Say that this node fills, as long as it does. Raises Busy."""
        shared = self._shared_projector.shared
        while not await shared.claim(seconds=CLAIM_SECONDS):
            tries -= 1
            if not tries:
                raise RebuildRunning("another node fills the index already")
            await asyncio.sleep(CLAIM_AGAIN_SECONDS)
        claiming = asyncio.create_task(self._claim_on())
        try:
            yield
        finally:
            claiming.cancel()
            await asyncio.gather(claiming, return_exceptions=True)
            with suppress(IndexUnavailable):  # Nobody waits longer than it takes to run out.
                await shared.release()

    async def _claim_on(self) -> None:
        while True:
            await asyncio.sleep(CLAIM_SECONDS / 4)
            with suppress(IndexUnavailable):
                await self._shared_projector.shared.claim(seconds=CLAIM_SECONDS)


FILLED_ENTRIES_MAX = 10_000_000
"""Some gigabyte in memory, while an index is filled."""

BUSY_SECONDS = 0.25
"""How often to look whether another node has filled the index."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SharedHome:
    """An index that several nodes fold into."""

    index: SharedIndex
    spare: bool = False
    """Whether this node keeps a copy of its own, to read from while that one is out of reach."""
    copies: StateSnapshots | None = None
    """Where copies of the state are, if anywhere."""
    replicated: Sequence[str] = ()
    """Boards that may be read from replicas of the index, which may be behind."""
    filled_entries_max: int = FILLED_ENTRIES_MAX
    """How large it may be for this node to make it in memory, when it has to be filled."""


async def join(
    ledger: Ledger, build: Build, tell: Tell, shared: SharedHome
) -> Recovered[SharedProjector]:
    """Return the state at the ledger's head, beside an index that other nodes fold into."""
    kept = await ledger.receipts_through()
    receipts = ReceiptBuffer()
    shared_projector = await _shared_projector(ledger, build, shared, receipts)
    rebuilder = filling(shared_projector, ledger, build, shared, turn=nullcontext)
    head = await _join_index(ledger, shared_projector, rebuilder, kept, tell)
    link = await ledger.link_at(head) or NOTHING_LINKED
    return Recovered(IndexHome(shared.index, None), shared_projector, head, receipts, link)


async def _shared_projector(
    ledger: Ledger, build: Build, shared: SharedHome, receipts: ReceiptBuffer
) -> SharedProjector:
    index, copies = shared.index, shared.copies
    if shared.spare:  # What it folds needs every fact, and so the state may as well have them.
        spare = build().index
        return SharedProjector(
            ledger=ledger, index=index, receipts=receipts, spare=spare, copies=copies
        )
    begin = await newest_copy(copies, ledger, through=await ledger.head())
    return SharedProjector(
        ledger=ledger, index=index, receipts=receipts, copies=copies, begin=begin
    )


def filling(
    shared_projector: SharedProjector,
    ledger: Ledger,
    build: Build,
    shared: SharedHome,
    *,
    turn: Turn,
) -> IndexRebuilder:
    """Return the rebuilder of a shared index."""
    return IndexRebuilder(
        shared_projector,
        ledger=ledger,
        build=lambda: build().index,
        turn=turn,
        entries_max=shared.filled_entries_max,
    )


async def _join_index(
    ledger: Ledger,
    shared_projector: SharedProjector,
    rebuilder: IndexRebuilder,
    kept: Position,
    tell: Tell,
) -> Position:
    """Bring the state to the ledger's head, and the index where it can be reached; return it."""
    head = await ledger.head()
    with suppress(IndexUnavailable):  # Whoever folds will hear of it.
        await _insist_on_ours(shared_projector)
        if await shared_projector.hopeless(head):
            shared_projector.leave("the index lacks most of the ledger; it is filled")
    await shared_projector.catch_up(
        through=head, tell=tell, receipts_after=kept, collect=shared_projector.receipts.add
    )
    if shared_projector.failure is not None:
        await _fill(shared_projector, rebuilder, tell)
    await shared_projector.arrive()
    shared_projector.patience_seconds = PATIENCE_SECONDS
    return head


async def _insist_on_ours(shared_projector: SharedProjector) -> None:
    """Raise InvalidSetting for an index of another ledger: the two would mix in it."""
    try:
        await shared_projector.insist_on_ours()
    except OtherLedger as exc:
        raise InvalidSetting(setting="index", source="the settings", problem=exc.problem) from None


async def _fill(shared_projector: SharedProjector, rebuilder: IndexRebuilder, tell: Tell) -> None:
    """Fill an index that lacks much, unless another node does; then wait for that."""
    try:
        while await shared_projector.hopeless():
            try:
                await rebuilder.refill(tell)
            except RebuildRunning:
                await asyncio.sleep(BUSY_SECONDS)
            except IndexTooLarge as exc:
                _log.warning("%s: what it lacks is folded in, fact by fact", exc)
                break
        while not await shared_projector.repair(FACTS_TOGETHER_MAX):
            tell(
                Progress(
                    await shared_projector.shared.checkpoint(),
                    shared_projector.checkpoint,
                    "folding",
                    "fact",
                )
            )
    except IndexUnavailable as exc:
        _log.warning("the index cannot be filled yet: %s", exc)
