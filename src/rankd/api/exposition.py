"""Metric families, merged over the processes of a service, in Prometheus's text format.

Each scrape asks every worker over its connection to the writer. A worker that does not answer in
time is shown as down, with the counters it reported last. The counters of an ended process are
stored and added to those of its successor, so no counter decreases.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Literal

import msgspec

WRITER = "writer"
"""The label ``process`` of the writer process; workers are ``worker-1`` and so on."""

Kind = Literal["counter", "gauge"]
Merge = Literal["sum", "min", "writer", "each"]
"""How samples of several processes with the same labels are merged: their sum, their minimum, the
writer's only, or not at all because labels distinguish the processes."""


class Metric(msgspec.Struct, frozen=True):
    """The definition of one metric."""

    name: str
    kind: Kind
    merge: Merge
    help: str
    labels: tuple[str, ...] = ()

    def family(self, samples: Mapping[str, int | float]) -> "Family":
        """Return samples of this metric by their rendered labels."""
        return Family(self.name, self.kind, self.merge, self.help, samples)

    def sample(self, value: int | float) -> "Family":
        """Return the one sample of a metric without labels."""
        return self.family({"": value})


class Family(msgspec.Struct, array_like=True, frozen=True):
    """All samples of one name."""

    name: str
    kind: Kind
    merge: Merge
    help: str
    samples: Mapping[str, int | float]
    """Values by rendered labels, ``{manager="sealer"}``; an empty string for none."""


class WorkerFigures(msgspec.Struct, frozen=True):
    """The metrics of one worker."""

    process: str
    up: bool
    """Whether it answered this scrape."""
    families: Sequence[Family] = ()
    """As of its last answer; empty while it is not connected."""
    retired: Sequence[Family] = ()
    """Counters of ended processes that it replaced."""


def label(**values: str) -> str:
    """Return labels as they are rendered."""
    shown = ",".join(f'{name}="{_escape(value)}"' for name, value in values.items())
    return f"{{{shown}}}"


def _escape(value: str) -> str:
    for mark, instead in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n")):
        value = value.replace(mark, instead)
    return value


# ------------------------------------------------------------------------------- merging


def merge(writer: Sequence[Family], workers: Sequence[WorkerFigures]) -> list[Family]:
    """Return the metrics of the whole service."""
    up = {WRITER: True} | {worker.process: worker.up for worker in workers}
    merged = {family.name: family for family in writer}
    for worker in workers:
        for family in (*worker.families, *worker.retired):
            if worker.up or family.merge != "min":  # A down worker's last value may be outdated.
                _add(merged, family)
    return [*merged.values(), process_up(up)]


def _add(merged: dict[str, Family], family: Family) -> None:
    known = merged.get(family.name)
    merged[family.name] = family if known is None else _merged(known, family)


def _merged(known: Family, other: Family) -> Family:
    samples = dict(known.samples)
    for labels, value in other.samples.items():
        if labels not in samples:
            samples[labels] = value
        elif known.merge == "sum":
            samples[labels] += value
        elif known.merge == "min":
            samples[labels] = min(samples[labels], value)
    return msgspec.structs.replace(known, samples=samples)


def partial(own: Sequence[Family]) -> list[Family]:
    """Return the metrics of a worker that cannot reach the writer process.

    Sums and the writer's metrics are left out: counters of one process would look like a reset.
    """
    known = [family for family in own if family.merge in ("min", "each")]
    return [*known, process_up({WRITER: False})]


def retire(families: Iterable[Family], retired: Sequence[Family]) -> list[Family]:
    """Return the counters of an ended process, added to those of its predecessors."""
    merged = {family.name: family for family in retired}
    for family in families:
        if family.kind == "counter" and family.merge == "sum":
            _add(merged, family)
    return list(merged.values())


PROCESS_UP = Metric("rankd_process_up", "gauge", "each", "1 while a process answers.", ("process",))


def process_up(up: Mapping[str, bool]) -> Family:
    """Return the samples of ``PROCESS_UP``."""
    return PROCESS_UP.family({label(process=name): int(up[name]) for name in up})


# ------------------------------------------------------------------------------- rendering


def render(families: Iterable[Family]) -> bytes:
    """Return families in the text format."""
    return "".join(line for family in families for line in _lines(family)).encode()


def _lines(family: Family) -> Iterator[str]:
    yield f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n"
    for labels, value in family.samples.items():
        shown = f"{value:.15g}" if isinstance(value, float) else value
        yield f"{family.name}{labels} {shown}\n"


ANSWER_SECONDS_MAX = 0.5
"""Time for the workers to answer a scrape; a slower process counts as down."""

Ask = Callable[[int], None]
"""Asks a worker for its metrics, with a number that its answer repeats."""


class WorkerSession:
    """One connected worker process."""

    def __init__(self, name: str, ask: Ask) -> None:
        self.name = name
        self._ask = ask
        self._awaited: dict[int, asyncio.Future[None]] = {}
        self.families: Sequence[Family] = ()
        """The metrics it reported last."""

    def take(self, number: int, families: Sequence[Family]) -> None:
        """Store an answer."""
        self.families = families
        if (answer := self._awaited.get(number)) is not None and not answer.done():
            answer.set_result(None)

    async def answers(self, number: int) -> bool:
        """Ask for metrics; return whether they arrive in time."""
        self._awaited[number] = answer = asyncio.get_running_loop().create_future()
        self._ask(number)
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                await answer
        except TimeoutError:
            return False
        finally:
            del self._awaited[number]
        return True


class WorkerMetrics:
    """The last metrics of each worker, by its name."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._sessions: dict[str, WorkerSession | None] = dict.fromkeys(names)
        self._retired: dict[str, Sequence[Family]] = {}
        self._numbers = count()

    def join(self, name: str, ask: Ask) -> WorkerSession:
        """Begin the session of a worker process that accepts connections."""
        if (before := self._sessions.get(name)) is not None:
            self.leave(before)
        self._sessions[name] = session = WorkerSession(name, ask)
        return session

    def leave(self, session: WorkerSession) -> None:
        """End a session and store its counters; nothing if it was replaced before."""
        name = session.name
        if self._sessions[name] is session:
            self._retired[name] = retire(session.families, self._retired.get(name, ()))
            self._sessions[name] = None

    async def collect(self) -> Sequence[WorkerFigures]:
        """Ask all workers, and return their metrics within ANSWER_SECONDS_MAX."""
        number, asked = next(self._numbers), dict(self._sessions)
        answers = await asyncio.gather(*(_answers(each, number) for each in asked.values()))
        return [
            self._figures(name, up=up and self._sessions[name] is session)
            for (name, session), up in zip(asked.items(), answers, strict=True)
        ]

    def _figures(self, name: str, *, up: bool) -> WorkerFigures:
        session = self._sessions[name]
        families = () if session is None else session.families
        return WorkerFigures(name, up, families, self._retired.get(name, ()))


async def _answers(session: WorkerSession | None, number: int) -> bool:
    return session is not None and await session.answers(number)
