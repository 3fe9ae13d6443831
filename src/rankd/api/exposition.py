"""Metric families, merged over the processes of a service, in Prometheus's text format."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
