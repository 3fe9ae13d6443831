"""Figures for Prometheus, in its text format."""

import os
import resource
from collections.abc import Iterator

from rankd._version import __version__
from rankd.api.service import Service
from rankd.errors import IndexUnavailable


def render(service: Service) -> bytes:
    """Return every figure as it is now."""
    return "".join(_lines(service)).encode()


def _lines(service: Service) -> Iterator[str]:
    rankd = service.rankd
    usage = resource.getrusage(resource.RUSAGE_SELF)
    yield _one("rankd_info", "gauge", "Which process this is.", 1, _who(service))
    yield _one("rankd_position", "counter", "The last position folded.", rankd.position)
    yield _one("rankd_boards", "gauge", "Boards that are defined.", len(rankd.book.boards))
    yield _one("rankd_profiles", "gauge", "Players with a profile.", len(rankd.book.profiles))
    lost = rankd.failure
    index_up = not isinstance(lost, IndexUnavailable)
    yield _one("rankd_up", "gauge", "1 while writes are taken.", int(lost is None or not index_up))
    yield _one("rankd_index_up", "gauge", "1 while the index can be reached.", int(index_up))
    yield _one("rankd_waiting_facts", "gauge", "Facts that wait for a commit.", rankd.waiting)
    yield _one("rankd_spooled_facts", "gauge", "Scores that wait on disk.", rankd.spooled)
    yield _one("rankd_commits_total", "counter", "Appends to the ledger.", rankd.commits)
    yield _one("rankd_unsaved_facts", "gauge", "A start folds so many.", rankd.unsaved)
    cpu = usage.ru_utime + usage.ru_stime
    yield _one("process_cpu_seconds_total", "counter", "Processor time.", f"{cpu:.2f}")
    peak = usage.ru_maxrss * 1024
    yield _one("process_resident_memory_max_bytes", "gauge", "Most memory ever held.", peak)


def _who(service: Service) -> str:
    """Say whose figures these are: of several processes, the system chooses which one answers."""
    role = "worker" if service.engine is None else "writer"
    return f'{{version="{__version__}",role="{role}",pid="{os.getpid()}"}}'


def _one(name: str, kind: str, help: str, value: object, labels: str = "") -> str:
    return f"# HELP {name} {help}\n# TYPE {name} {kind}\n{name}{labels} {value}\n"
