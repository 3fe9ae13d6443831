"""Figures for Prometheus, in its text format."""

import os
import resource
from collections.abc import Iterator, Sequence

from rankd._version import __version__
from rankd.api.service import Service
from rankd.core.supervisor import ManagerState


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
    ledger_up, index_up = rankd.ledger_failure is None, rankd.index_failure is None
    yield _one("rankd_up", "gauge", "1 while scores are taken.", int(service.writable))
    yield _one("rankd_ledger_up", "gauge", "1 while the ledger can be reached.", int(ledger_up))
    yield _one("rankd_index_up", "gauge", "1 while the index is there.", int(index_up))
    yield _one("rankd_waiting_facts", "gauge", "Facts that wait for a commit.", rankd.waiting)
    waiting, taken, handed_in, dropped = rankd.spooled or (0, 0, 0, 0)
    yield _one("rankd_spooled_facts", "gauge", "Scores that wait on disk.", waiting)
    yield _one("rankd_spooled_total", "counter", "Scores that had to wait on disk.", taken)
    yield _one("rankd_handed_in_total", "counter", "Scores that wait no more.", handed_in)
    yield _one("rankd_dropped_total", "counter", "Of these, those that count nowhere.", dropped)
    yield _one("rankd_commits_total", "counter", "Appends to the ledger.", rankd.commits)
    yield _one("rankd_unsaved_facts", "gauge", "A start folds so many.", rankd.unsaved)
    yield from _managers(list(rankd.supervisor.states()))
    offset = f"{rankd.clock_offset / 1_000_000:.3f}"
    help = "Ledger time minus this machine's clock."
    yield _one("rankd_clock_offset_seconds", "gauge", help, offset)
    cpu = usage.ru_utime + usage.ru_stime
    yield _one("process_cpu_seconds_total", "counter", "Processor time.", f"{cpu:.2f}")
    peak = usage.ru_maxrss * 1024
    yield _one("process_resident_memory_max_bytes", "gauge", "Most memory ever held.", peak)


def _managers(states: Sequence[ManagerState]) -> Iterator[str]:
    labels = [f'{{manager="{state.name}"}}' for state in states]
    up = [int(state.failure is None) for state in states]
    restarts = [state.restarts for state in states]
    shown = "0 while a background loop fails."
    yield _many("rankd_manager_up", "gauge", shown, labels, up)
    shown = "Restarts of background loops that failed."
    yield _many("rankd_manager_restarts_total", "counter", shown, labels, restarts)


def _who(service: Service) -> str:
    """Say whose figures these are: of several processes, the system chooses which one answers."""
    named = {
        "version": __version__,
        "node": service.node,
        "role": service.role,
        "process": "worker" if service.engine is None else "writer",
        "pid": str(os.getpid()),
    }
    shown = ",".join(f'{name}="{_escaped(value)}"' for name, value in named.items())
    return f"{{{shown}}}"


def _escaped(value: str) -> str:
    for mark, instead in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n")):
        value = value.replace(mark, instead)
    return value


def _one(name: str, kind: str, help: str, value: object, labels: str = "") -> str:
    return _many(name, kind, help, [labels], [value])


def _many(name: str, kind: str, help: str, labels: Sequence[str], values: Sequence[object]) -> str:
    lines = (f"{name}{one} {value}\n" for one, value in zip(labels, values, strict=True))
    return f"# HELP {name} {help}\n# TYPE {name} {kind}\n{''.join(lines)}"
