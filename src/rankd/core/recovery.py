"""From a ledger to a projector that is up to date: at a start, for a check, to begin anew.

A snapshot spares most of the folding where there is one that can be believed: it is whole, its
notes can be read, and the ledger's hash chain at its checkpoint is the one that was noted. Anything
else is told and left aside: the ledger has everything.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import NamedTuple

from rankd.core.index_rebuild import IndexRebuilder, IndexTooLarge, RebuildRunning, Turn
from rankd.core.projector import FACTS_TOGETHER_MAX, Projector, Tell
from rankd.core.shared_projector import PATIENCE_SECONDS, OtherLedger, SharedProjector
from rankd.core.state import State
from rankd.core.state_codec import DecodedState, read_notes
from rankd.core.state_snapshots import newest_copy
from rankd.errors import IndexUnavailable, InvalidSetting, SnapshotDamaged
from rankd.model.facts import Position
from rankd.model.standing import Rank
from rankd.ports import LedgerReader, Progress, RankIndex, SharedIndex, Snapshots, StateSnapshots

FILLED_ENTRIES_MAX = 10_000_000
"""Some gigabyte in memory, while an index is filled."""

NOTHING_LINKED = b""
"""The link of the hash chain of an empty ledger."""

BUSY_SECONDS = 0.25
"""How often to look whether another node has filled the index."""

TRACED_TOGETHER = 4_096
"""How many entries are read at once to find the players of a board."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class IndexHome:
    """An index, and where it is kept between two lives, if anywhere."""

    index: RankIndex
    snapshots: Snapshots | None


Build = Callable[[], IndexHome]


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


class Recovered(NamedTuple):
    """The engine's state as the ledger has it."""

    home: IndexHome
    projector: Projector
    saved: Position
    """The position of the last snapshot; 0 without one."""
    unstored: dict[Position, bytes]
    """Receipts of submissions with a key that the ledger does not keep yet."""
    link: bytes


async def recover(
    ledger: LedgerReader, build: Build, tell: Tell, *, shared: SharedHome | None = None
) -> Recovered:
    """Return the state at the ledger's head, over an index of one's own or one that is shared."""
    kept = await ledger.receipts_through()
    if shared is not None:
        shared_projector = await _shared_projector(ledger, build, shared)
        rebuilder = filling(shared_projector, ledger, build, shared, turn=nullcontext)
        return await _join(ledger, shared_projector, rebuilder, kept, tell)
    home = build()
    noted = await _load(ledger, home, tell)
    head = await ledger.head()  # Only now: another process may have saved past an earlier one.
    if noted is None:
        home = build()
        projector, unstored, saved = folded(ledger, home), {}, Position(0)
    else:
        heading = noted.heading
        saved = heading.checkpoint
        projector = Projector(
            ledger=ledger,
            index=home.index,
            state=noted.state,
            checkpoint=heading.checkpoint,
            at=heading.at,
        )
        unstored = {Position(at): body for at, body in heading.unstored.items() if at > kept}
        await find_entrants(noted.state, home.index)
    await projector.catch_up(through=head, tell=tell, receipts_after=kept, receipts=unstored)
    link = await ledger.link_at(head) or NOTHING_LINKED
    return Recovered(home, projector, saved, unstored, link)


async def _shared_projector(
    ledger: LedgerReader, build: Build, shared: SharedHome
) -> SharedProjector:
    copies = shared.copies
    if shared.spare:  # What it folds needs every fact, and so the state may as well have them.
        spare = build().index
        return SharedProjector(ledger=ledger, index=shared.index, spare=spare, copies=copies)
    begin = await newest_copy(copies, ledger, through=await ledger.head())
    return SharedProjector(ledger=ledger, index=shared.index, copies=copies, begin=begin)


def filling(
    shared_projector: SharedProjector,
    ledger: LedgerReader,
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


async def _join(
    ledger: LedgerReader,
    shared_projector: SharedProjector,
    rebuilder: IndexRebuilder,
    kept: Position,
    tell: Tell,
) -> Recovered:
    """Return the state at the ledger's head, beside an index that others fold into."""
    unstored: dict[Position, bytes] = {}
    head = await ledger.head()
    with suppress(IndexUnavailable):  # Whoever folds will hear of it.
        await _insist_on_ours(shared_projector)
        if await shared_projector.hopeless(head):
            shared_projector.leave("the index lacks most of the ledger; it is filled")
    await shared_projector.catch_up(through=head, tell=tell, receipts_after=kept, receipts=unstored)
    if shared_projector.failure is not None:
        await _fill(shared_projector, rebuilder, tell)
    await shared_projector.arrive()
    shared_projector.patience_seconds = PATIENCE_SECONDS
    link = await ledger.link_at(head) or NOTHING_LINKED
    return Recovered(
        IndexHome(shared_projector.shared, None), shared_projector, head, unstored, link
    )


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


def folded(ledger: LedgerReader, home: IndexHome) -> Projector:
    """Return a projector that knows nothing yet."""
    return Projector(ledger=ledger, index=home.index, state=State())


async def find_entrants(state: State, index: RankIndex) -> None:
    """Note the players of the index on boards whose players the state does not all know."""
    for page in [page for page in state.segmented.values() if not page.traced]:
        for opened in page.windows.values():
            first, total = 1, 1
            while first <= total:
                entries, total, _ = await index.read(
                    opened.ranking, first=Rank(first), limit=TRACED_TOGETHER
                )
                for entry in entries:
                    state.enter(page, entry.player)
                first += TRACED_TOGETHER
        state.trace(page)


async def _load(ledger: LedgerReader, home: IndexHome, tell: Tell) -> DecodedState | None:
    if home.snapshots is None:
        return None
    try:
        frames = await home.snapshots.load(tell)
        if frames is None:
            return None
        noted = read_notes(frames)
        heading = noted.heading
        if heading.checkpoint != await home.index.checkpoint():
            raise SnapshotDamaged("the notes beside the index are of another moment")
        link = await ledger.link_at(heading.checkpoint) or NOTHING_LINKED
        if heading.checkpoint > await ledger.head() or link != heading.link:
            raise SnapshotDamaged("the snapshot is of another ledger")
    except (SnapshotDamaged, OSError) as exc:
        _log.warning("the saved index cannot be used; everything is folded again: %s", exc)
        return None
    return noted
