"""Assembly of an engine: recovery, the writer, and the background loops under one supervisor.

The only module of the core beside ``core.cluster`` that knows of nodes which share an index.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any, cast

from rankd.core.cluster.managers import (
    IndexRepair,
    LedgerHealth,
    LedgerTail,
    ReceiptRepair,
    SpoolSender,
    StateSnapshotter,
)
from rankd.core.cluster.recovery import SharedHome, filling, join
from rankd.core.cluster.replicas import Replicas
from rankd.core.cluster.shared_projector import SharedProjector
from rankd.core.cluster.shared_writer import SharedWriter
from rankd.core.cluster.top_lists import TopListSettings, TopListWriter
from rankd.core.engine import Engine
from rankd.core.managers import SAVE_AT_CLOSE_FACTS, Archiver, LedgerReopener
from rankd.core.projector import Tell
from rankd.core.recovery import Build, recover
from rankd.core.rolling_windows import RollingDrafts
from rankd.core.segment_values import SEGMENT_VALUES_MAX
from rankd.core.steady_clock import LASTING_SECONDS, ClockMonitor, SteadyClock, note_start
from rankd.core.supervisor import Supervisor
from rankd.core.writer import Writer
from rankd.errors import (
    RankdError,
)
from rankd.ports import (
    Archive,
    Clock,
    Ledger,
    Loop,
    MessageSender,
    ProfileTable,
    ReopenableLedger,
    SharedLedger,
    Spool,
    Verifier,
)

_log = logging.getLogger(__name__)


@asynccontextmanager
async def running(  # noqa: PLR0913 - what it is put together from
    *,
    ledger: Ledger,
    build: Build,
    clock: Clock,
    reading: AbstractContextManager[Any],
    tell: Tell = lambda _: None,
    shared: SharedHome | None = None,
    spool: Spool | None = None,
    archive: Archive | None = None,
    listing: TopListSettings | None = None,
    manages: bool = True,
    supervisor: Supervisor | None = None,
    verifiers: Mapping[str, Verifier] | None = None,
    sender: MessageSender | None = None,
    lasting_seconds: float = LASTING_SECONDS,
    segment_values_max: int = SEGMENT_VALUES_MAX,
    silence_seconds: float | None = None,
) -> AsyncIterator[Engine]:
    """Recover from the ledger, serve, and stop once everything accepted has been answered.

    With a ``shared`` index, the index of ``build`` is only for comparison. A node that does not
    ``manage`` leaves work that is needed once to other nodes. ``supervisor`` runs the background
    loops; that of the ledger, where it has some. A ledger on a disk counts as lost when an append
    takes longer than ``silence_seconds``.
    """
    joined = None if shared is None else await join(ledger, build, tell, shared)
    found = joined or await recover(ledger, build, tell)
    supervisor = supervisor or Supervisor()
    recorded = found.projector.at
    steady = SteadyClock(clock, lasting_seconds=lasting_seconds, recorded=recorded)
    server = cast("SharedLedger", ledger) if ledger.shared else None
    parts: dict[str, Any] = {
        "projector": found.projector,
        "clock": steady,
        "reading": reading,
        "receipts": found.receipts,
        "segment_values_max": segment_values_max,
        "silence_seconds": silence_seconds,
    }
    writer = (
        Writer(ledger=ledger, **parts)
        if server is None
        else SharedWriter(ledger=server, spool=spool, supervisor=supervisor, **parts)
    )
    writer.link = found.link
    rankd = Engine(
        ledger=ledger,
        writer=writer,
        clock=steady,
        build=build,
        home=found.home,
        saved=found.saved,
        reading=reading,
    )
    if shared is not None and shared.index.replicas is not None:
        rankd.replicas = Replicas(shared.index.replicas, shared.replicated)
    rankd.supervisor = supervisor
    rankd.state.reviews.broken.clear()  # Those of facts that were folded again.
    monitor = ClockMonitor(steady, ledger, writer.now)
    await monitor.look()
    note_start(steady, recorded)
    if isinstance(ledger, ProfileTable):
        ledger.compare_profiles(writer.known_profiles)
    loops: dict[str, Loop] = {
        "snapshotter": rankd.snapshotter.run,
        "clock": monitor.run,
        "movement": rankd.movement.run,
        "window_archiver": rankd.archiver.run,
    }
    if isinstance(ledger, ReopenableLedger):
        loops["reopener"] = LedgerReopener(writer, ledger).run
        if ledger.failure is not None:
            writer.pause(ledger.failure)
    loops |= _outgoing(rankd, sender, verifiers or {}, manages=manages)
    if manages:
        loops["sealer"] = rankd.sealer.run
        loops["rolling_windows"] = rankd.rolling.run
        loops["eraser"] = rankd.eraser.run
    elif not found.projector.index.shared:
        loops["rolling_windows"] = RollingDrafts(ledger, lambda: rankd.projector).run
    if shared is not None and joined is not None:
        rebuilder = filling(joined.projector, ledger, build, shared, turn=writer.turn)
        rankd.rebuilder = rebuilder
        loops["index_repair"] = IndexRepair(writer, joined.projector, rebuilder).run
        if shared.copies is not None:
            loops["state_snapshotter"] = StateSnapshotter(writer, ledger, shared.copies).run
    if spool is not None:
        rankd.spool_sender = SpoolSender(writer, spool)
        loops["spool_sender"] = rankd.spool_sender.run
    if server is not None:
        tail = LedgerTail(writer, ledger)
        health = LedgerHealth(writer, server)
        # The tail reads all the time, and knows the reason of this moment.
        rankd.ledger_watches = tail, health
        loops["ledger_tail"], loops["ledger_health"] = tail.run, health.run
        loops["receipt_repair"] = ReceiptRepair(found.receipts, ledger).run
    if archive is not None:
        projector = None if joined is None else joined.projector
        loops |= _archiving(rankd, projector, archive, listing, manages=manages)
    writer_task = supervisor.start("writer", writer.run)
    managers = [supervisor.start(name, run) for name, run in loops.items()]
    try:
        yield rankd
    finally:
        await _stop(rankd, writer, writer_task, managers)


def _outgoing(
    rankd: Engine,
    sender: MessageSender | None,
    verifiers: Mapping[str, Verifier],
    *,
    manages: bool,
) -> dict[str, Loop]:
    """Return the loops that call functions and post messages."""
    rankd.webhooks.sender = rankd.verification.sender = sender
    rankd.verification.verifiers, rankd.verification.takes_over = verifiers, manages
    loops: dict[str, Loop] = {"callbacks": rankd.callbacks.run}
    if verifiers or sender is not None:
        loops["verifiers"] = rankd.verification.run
    if manages and sender is not None:
        loops["webhooks"] = rankd.webhooks.run
    return loops


def _archiving(
    rankd: Engine,
    projector: SharedProjector | None,
    archive: Archive,
    listing: TopListSettings | None,
    *,
    manages: bool,
) -> dict[str, Loop]:
    """Let reads fall back to an archive, and return the loops that write to it."""
    loops: dict[str, Loop] = {}
    if manages:
        loops["archiver"] = Archiver(rankd.reader, archive).run
    if projector is not None:
        projector.set_fallback(archive, None if listing is None else listing.lists)
        if listing is not None and manages:
            loops["top_list_writer"] = TopListWriter(projector, listing).run
    return loops


async def _stop(
    rankd: Engine,
    writer: Writer,
    writer_task: asyncio.Task[None],
    managers: Sequence[asyncio.Task[None]],
) -> None:
    await rankd.past.close()
    for manager in managers:
        manager.cancel()
    await asyncio.gather(*managers, return_exceptions=True)
    await rankd.finish()
    writer.close()
    await rankd.supervisor.finish(writer_task)
    await writer.finish()
    snapshotter = rankd.snapshotter
    due = snapshotter.unsaved >= SAVE_AT_CLOSE_FACTS or snapshotter.outdated_at
    if writer.failure is None and due:
        try:
            await rankd.save()
        except (RankdError, OSError) as exc:
            _log.error("the index could not be saved: %s", exc)
