"""Metrics for Prometheus: of this process, and merged over all processes of the service.

``METRICS`` defines each; docs/reference/metrics.md is made from it.
"""

import os
import resource
from collections.abc import Iterator, Sequence

from rankd._version import __version__
from rankd.api import exposition
from rankd.api.context import ServiceContext
from rankd.api.exposition import PROCESS_UP, Family, Metric, label
from rankd.core.supervisor import ManagerState

INFO = Metric(
    "rankd_info",
    "gauge",
    "each",
    "Always 1: a process that serves.",
    ("version", "node", "role", "process", "pid"),
)
POSITION = Metric("rankd_position", "counter", "writer", "The position of the last folded fact.")
BOARDS = Metric("rankd_boards", "gauge", "writer", "Boards that are defined.")
PROFILES = Metric("rankd_profiles", "gauge", "writer", "Players with a profile or friends.")
UP = Metric("rankd_up", "gauge", "min", "1 while scores are taken.")
LEDGER_UP = Metric("rankd_ledger_up", "gauge", "min", "1 while the ledger can be reached.")
INDEX_UP = Metric("rankd_index_up", "gauge", "min", "1 while the index is there.")
WAITING = Metric("rankd_waiting_facts", "gauge", "writer", "Facts that wait for a commit.")
COMMITS = Metric("rankd_commits_total", "counter", "writer", "Appends to the ledger.")
UNSAVED = Metric(
    "rankd_unsaved_facts",
    "gauge",
    "writer",
    "Facts since the last snapshot of the index, which a start folds again.",
)
CLOCK_OFFSET = Metric(
    "rankd_clock_offset_seconds", "gauge", "writer", "Ledger time minus this machine's clock."
)
REVIEWS_OPEN = Metric(
    "rankd_reviews_open", "gauge", "writer", "Held submissions that wait for a decision."
)
RULES = Metric(
    "rankd_rules_total",
    "counter",
    "writer",
    "Submissions that broke a rule of a board, by the consequence of the rule.",
    ("board", "rule", "then"),
)
WEBHOOKS_FAILING = Metric(
    "rankd_webhooks_failing", "gauge", "writer", "Webhooks whose last try failed, or given up."
)
WEBHOOK_DELIVERIES = Metric(
    "rankd_webhook_deliveries_total",
    "counter",
    "writer",
    "Events that a webhook took.",
)
WEBHOOK_FAILURES = Metric(
    "rankd_webhook_failures_total",
    "counter",
    "writer",
    "Tries to deliver an event that were not taken.",
)
STREAM_CONNECTIONS = Metric(
    "rankd_stream_connections", "gauge", "sum", "Connections that are streams."
)
STREAM_SUBSCRIPTIONS = Metric(
    "rankd_stream_subscriptions", "gauge", "sum", "Subscriptions of all streams."
)
STREAM_EVENTS = Metric(
    "rankd_stream_events_total", "counter", "sum", "Events sent on streams.", ("event",)
)
STREAM_DROPPED = Metric(
    "rankd_stream_dropped_total",
    "counter",
    "sum",
    "Streams that were closed because they were not read.",
)
STREAM_TICKS = Metric(
    "rankd_stream_ticks_total", "counter", "sum", "Looks at the rankings that are streamed."
)
STREAM_TICK_SECONDS = Metric(
    "rankd_stream_tick_seconds_total", "counter", "sum", "Time that these looks took."
)
SPOOLED = Metric("rankd_spooled_facts", "gauge", "writer", "Scores that wait in the spool.")
SPOOLED_TOTAL = Metric(
    "rankd_spooled_total", "counter", "writer", "Scores that were written into the spool."
)
HANDED_IN = Metric(
    "rankd_handed_in_total",
    "counter",
    "writer",
    "Scores from the spool that were handed in to the ledger.",
)
DROPPED = Metric(
    "rankd_dropped_total",
    "counter",
    "writer",
    "Scores from the spool that count nowhere: their key was used before, or their board is gone.",
)
MANAGER_UP = Metric(
    "rankd_manager_up", "gauge", "min", "0 while a background loop fails.", ("manager",)
)
MANAGER_RESTARTS = Metric(
    "rankd_manager_restarts_total",
    "counter",
    "sum",
    "Restarts of background loops that failed.",
    ("manager",),
)
CPU_SECONDS = Metric("process_cpu_seconds_total", "counter", "sum", "Processor time.")
PEAK_MEMORY = Metric(
    "process_resident_memory_max_bytes", "gauge", "sum", "Most memory ever held at once."
)

METRICS = (
    INFO,
    POSITION,
    BOARDS,
    PROFILES,
    UP,
    LEDGER_UP,
    INDEX_UP,
    WAITING,
    COMMITS,
    UNSAVED,
    CLOCK_OFFSET,
    REVIEWS_OPEN,
    RULES,
    WEBHOOKS_FAILING,
    WEBHOOK_DELIVERIES,
    WEBHOOK_FAILURES,
    STREAM_CONNECTIONS,
    STREAM_SUBSCRIPTIONS,
    STREAM_EVENTS,
    STREAM_DROPPED,
    STREAM_TICKS,
    STREAM_TICK_SECONDS,
    SPOOLED,
    SPOOLED_TOTAL,
    HANDED_IN,
    DROPPED,
    MANAGER_UP,
    MANAGER_RESTARTS,
    CPU_SECONDS,
    PEAK_MEMORY,
    PROCESS_UP,
)
"""Every metric, in the order of the text."""


async def scrape(service: ServiceContext) -> bytes:
    """Return the metrics of all processes; in a worker those that it has without the writer."""
    if service.engine is None:
        return exposition.render(exposition.partial(list(collect(service))))
    workers = await service.workers()
    return exposition.render(exposition.merge(list(collect(service)), workers))


def collect(service: ServiceContext) -> Iterator[Family]:
    """Yield the current metrics of this process."""
    yield INFO.family({_labels(service): 1})
    yield from _engine(service)
    yield from _streams(service)
    yield from _spool(service)
    yield from _managers(list(service.rankd.supervisor.states()))
    yield from _process()


def _engine(service: ServiceContext) -> Iterator[Family]:
    rankd = service.rankd
    yield POSITION.sample(rankd.position)
    yield BOARDS.sample(len(rankd.state.boards))
    yield PROFILES.sample(len(rankd.state.profiles))
    yield UP.sample(int(service.writable))
    yield LEDGER_UP.sample(int(rankd.ledger_failure is None))
    yield INDEX_UP.sample(int(rankd.index_failure is None))
    yield WAITING.sample(rankd.waiting)
    yield COMMITS.sample(rankd.commits)
    yield UNSAVED.sample(rankd.unsaved)
    yield CLOCK_OFFSET.sample(round(rankd.clock_offset / 1_000_000, 3))
    yield REVIEWS_OPEN.sample(rankd.state.reviews.open_count)
    broken = rankd.state.reviews.broken.items()
    yield RULES.family({label(**one._asdict()): count for one, count in broken})
    failing = sum(hook.failing_since is not None for hook in rankd.state.webhooks.values())
    yield WEBHOOKS_FAILING.sample(failing)
    webhooks = None if service.engine is None else service.engine.webhooks
    yield WEBHOOK_DELIVERIES.sample(0 if webhooks is None else webhooks.delivered)
    yield WEBHOOK_FAILURES.sample(0 if webhooks is None else webhooks.failed)


def _streams(service: ServiceContext) -> Iterator[Family]:
    hub = service.streams
    yield STREAM_CONNECTIONS.sample(hub.connections)
    yield STREAM_SUBSCRIPTIONS.sample(len(hub))
    yield STREAM_EVENTS.family({label(event=name): sent for name, sent in hub.sent.items()})
    yield STREAM_DROPPED.sample(hub.dropped)
    yield STREAM_TICKS.sample(hub.ticks)
    yield STREAM_TICK_SECONDS.sample(round(hub.tick_seconds, 3))


def _spool(service: ServiceContext) -> Iterator[Family]:
    waiting, taken, handed_in, dropped = service.rankd.spooled or (0, 0, 0, 0)
    yield SPOOLED.sample(waiting)
    yield SPOOLED_TOTAL.sample(taken)
    yield HANDED_IN.sample(handed_in)
    yield DROPPED.sample(dropped)


def _managers(states: Sequence[ManagerState]) -> Iterator[Family]:
    names = [label(manager=state.name) for state in states]
    up = [int(state.failure is None) for state in states]
    restarts = [state.restarts for state in states]
    yield MANAGER_UP.family(dict(zip(names, up, strict=True)))
    yield MANAGER_RESTARTS.family(dict(zip(names, restarts, strict=True)))


def _process() -> Iterator[Family]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    yield CPU_SECONDS.sample(round(usage.ru_utime + usage.ru_stime, 2))
    yield PEAK_MEMORY.sample(usage.ru_maxrss * 1024)


def _labels(service: ServiceContext) -> str:
    return label(
        version=__version__,
        node=service.node,
        role=service.role,
        process=service.process,
        pid=str(os.getpid()),
    )
