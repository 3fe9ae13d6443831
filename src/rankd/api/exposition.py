"""Metric families: merged over the processes of a service, rendered in Prometheus's text format."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

WRITER = "writer"
"""The label ``process`` of the process that writes; workers are ``worker-1`` and on."""

Kind = Literal["counter", "gauge"]
Merge = Literal["sum", "min", "writer", "each"]
"""How a sample of several processes becomes one: added, the least, that of the process that writes,
or not at all, because labels tell them apart."""


class Family(msgspec.Struct, array_like=True, frozen=True):
    """All samples of one name."""

    name: str
    kind: Kind
    merge: Merge
    help: str
    samples: Mapping[str, int | float]
    """Values by labels, as they are rendered: ``{manager="sealer"}``, or nothing."""


class WorkerFigures(msgspec.Struct, frozen=True):
    """The figures of one worker."""

    process: str
    up: bool
    """Whether it answered this scrape."""
    families: Sequence[Family] = ()
    """As of its last answer; empty while it is not connected."""
    retired: Sequence[Family] = ()
    """Counters of the processes that it replaced."""


def one(name: str, kind: Kind, merge: Merge, help: str, value: int | float) -> Family:
    """Return a family with one sample and no label."""
    return Family(name, kind, merge, help, {"": value})


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
    """Return the figures of the whole service."""
    up = {WRITER: True} | {worker.process: worker.up for worker in workers}
    merged = {family.name: family for family in writer}
    for worker in workers:
        for family in (*worker.families, *worker.retired):
            if worker.up or family.merge != "min":  # It may be well again.
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
    """Return the figures of a worker that cannot reach the process that writes.

    Sums and the writer's own figures are left out: counters of one process would look like a reset.
    """
    known = [family for family in own if family.merge in ("min", "each")]
    return [*known, process_up({WRITER: False})]


def retire(families: Iterable[Family], retired: Sequence[Family]) -> list[Family]:
    """Return the counters of a process that ended, added to those of the ones before it."""
    merged = {family.name: family for family in retired}
    for family in families:
        if family.kind == "counter" and family.merge == "sum":
            _add(merged, family)
    return list(merged.values())


def process_up(up: Mapping[str, bool]) -> Family:
    """Return the family that tells which processes answer."""
    samples = {label(process=name): int(up[name]) for name in up}
    return Family("rankd_process_up", "gauge", "each", "1 while a process answers.", samples)


# ------------------------------------------------------------------------------- rendering


def render(families: Iterable[Family]) -> bytes:
    """Return the text format."""
    return "".join(line for family in families for line in _lines(family)).encode()


def _lines(family: Family) -> Iterator[str]:
    yield f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n"
    for labels, value in family.samples.items():
        shown = f"{value:.15g}" if isinstance(value, float) else value
        yield f"{family.name}{labels} {shown}\n"
