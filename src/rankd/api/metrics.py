"""Metrics for Prometheus: of this process, and merged over all processes of the service."""

import os
import resource
from collections.abc import Iterator, Sequence

from rankd._version import __version__
from rankd.api import exposition
from rankd.api.context import ServiceContext
from rankd.api.exposition import Family, label, one
from rankd.core.supervisor import ManagerState


async def scrape(service: ServiceContext) -> bytes:
    """Return the metrics of all processes; in a worker those that it has without the writer."""
    if service.engine is None:
        return exposition.render(exposition.partial(list(collect(service))))
    workers = await service.workers()
    return exposition.render(exposition.merge(list(collect(service)), workers))


def collect(service: ServiceContext) -> Iterator[Family]:
    """Yield the current metrics of this process."""
    yield Family("rankd_info", "gauge", "each", "The processes that serve.", {_labels(service): 1})
    yield from _engine(service)
    yield from _spool(service)
    yield from _managers(list(service.rankd.supervisor.states()))
    yield from _process()


def _engine(service: ServiceContext) -> Iterator[Family]:
    rankd = service.rankd
    boards, profiles = len(rankd.state.boards), len(rankd.state.profiles)
    ledger_up, index_up = rankd.ledger_failure is None, rankd.index_failure is None
    offset = round(rankd.clock_offset / 1_000_000, 3)
    yield one("rankd_position", "counter", "writer", "The last position folded.", rankd.position)
    yield one("rankd_boards", "gauge", "writer", "Boards that are defined.", boards)
    yield one("rankd_profiles", "gauge", "writer", "Players with a profile.", profiles)
    yield one("rankd_up", "gauge", "min", "1 while scores are taken.", int(service.writable))
    help = "1 while the ledger can be reached."
    yield one("rankd_ledger_up", "gauge", "min", help, int(ledger_up))
    yield one("rankd_index_up", "gauge", "min", "1 while the index is there.", int(index_up))
    help = "Facts that wait for a commit."
    yield one("rankd_waiting_facts", "gauge", "writer", help, rankd.waiting)
    yield one("rankd_commits_total", "counter", "writer", "Appends to the ledger.", rankd.commits)
    yield one("rankd_unsaved_facts", "gauge", "writer", "A start folds so many.", rankd.unsaved)
    help = "Ledger time minus this machine's clock."
    yield one("rankd_clock_offset_seconds", "gauge", "writer", help, offset)


def _spool(service: ServiceContext) -> Iterator[Family]:
    waiting, taken, handed_in, dropped = service.rankd.spooled or (0, 0, 0, 0)
    yield one("rankd_spooled_facts", "gauge", "writer", "Scores that wait on disk.", waiting)
    help = "Scores that had to wait on disk."
    yield one("rankd_spooled_total", "counter", "writer", help, taken)
    yield one("rankd_handed_in_total", "counter", "writer", "Scores that wait no more.", handed_in)
    help = "Of these, those that count nowhere."
    yield one("rankd_dropped_total", "counter", "writer", help, dropped)


def _managers(states: Sequence[ManagerState]) -> Iterator[Family]:
    names = [label(manager=state.name) for state in states]
    up = dict(zip(names, [int(state.failure is None) for state in states], strict=True))
    restarts = dict(zip(names, [state.restarts for state in states], strict=True))
    help = "0 while a background loop fails."
    yield Family("rankd_manager_up", "gauge", "min", help, up)
    help = "Restarts of background loops that failed."
    yield Family("rankd_manager_restarts_total", "counter", "sum", help, restarts)


def _process() -> Iterator[Family]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    cpu = round(usage.ru_utime + usage.ru_stime, 2)
    yield one("process_cpu_seconds_total", "counter", "sum", "Processor time.", cpu)
    help = "Most memory ever held."
    peak = usage.ru_maxrss * 1024
    yield one("process_resident_memory_max_bytes", "gauge", "sum", help, peak)


def _labels(service: ServiceContext) -> str:
    return label(
        version=__version__,
        node=service.node,
        role=service.role,
        process=service.process,
        pid=str(os.getpid()),
    )
