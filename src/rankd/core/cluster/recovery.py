"""From a ledger to a projector over a shared index that is up to date, at a start."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass

from rankd.core.cluster.index_rebuild import IndexRebuilder, IndexTooLarge, RebuildRunning, Turn
from rankd.core.cluster.shared_projector import PATIENCE_SECONDS, OtherLedger, SharedProjector
from rankd.core.cluster.state_snapshots import newest_copy
from rankd.core.projector import FACTS_TOGETHER_MAX, Tell
from rankd.core.receipts import ReceiptBuffer
from rankd.core.recovery import NOTHING_LINKED, Build, IndexHome, Recovered
from rankd.errors import IndexUnavailable, InvalidSetting
from rankd.model.facts import Position
from rankd.ports import Ledger, Progress, SharedIndex, StateSnapshots

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
