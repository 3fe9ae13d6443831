"""What is this machine like, and is anything of it in the way? A line each, and what to do."""

import asyncio
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import click

from rankd.cli.failing import Failed, plain
from rankd.cli.reaching import data_option
from rankd.errors import RankdError

DISK_BYTES_MIN = 1 << 30
"""A gigabyte holds some ten million facts."""

FILES_MIN = 4096
"""Each connection is an open file."""

CLOCK_MIN = 1_760_000_000
"""October 2025: no clock that is right says less."""

CLOCK_AHEAD_SECONDS_MAX = 60.0
"""How much later than now a file of the folder may have been written."""


class Finding(NamedTuple):
    """One thing that was looked at."""

    what: str
    found: str
    advice: str = ""
    """What to do; empty if it is well."""


@click.command()
@data_option
def doctor(data: str) -> None:
    """Look at this machine, and say what would be in the way.

    Exits 1 if anything should be mended. A scratch ledger is made in the data folder and removed.
    """
    findings = list(examine(Path(data)))
    for each in findings:
        mark = click.style("warn", fg="yellow") if each.advice else click.style("ok", fg="green")
        advice = f": {each.advice}" if each.advice else ""
        pad = " " * (4 - (4 if each.advice else 2))
        click.echo(f"{mark}{pad}  {each.what:<12} {plain(each.found)}{advice}")
    wrong = sum(bool(each.advice) for each in findings)
    if wrong:
        raise Failed(f"{wrong} of {len(findings)} should be looked after, as said above")


def examine(data: Path) -> Iterator[Finding]:
    """Yield what is found."""
    yield _python()
    yield from _ledger(data)
    yield _native()
    yield _disk(data)
    yield _files()
    yield _clock(data)


def _python() -> Finding:
    found = f"{platform.python_implementation()} {platform.python_version()}"
    old = sys.version_info < (3, 11)
    return Finding("Python", found, "rankd needs 3.11 or later" if old else "")


def _ledger(data: Path) -> Iterator[Finding]:
    """Make a ledger where the data is, and read back what SQLite does there."""
    there = next((folder for folder in (data, *data.absolute().parents) if folder.is_dir()), data)
    try:
        with tempfile.TemporaryDirectory(dir=there, prefix=".rankd-doctor-") as scratch:
            found = asyncio.run(_durability(scratch))
    except (RankdError, OSError) as exc:
        said = exc.strerror or str(exc) if isinstance(exc, OSError) else str(exc)
        yield Finding("ledger", f"{there}: {said}", "name a folder on a local disk one may write")
        return
    yield Finding("SQLite", found.sqlite)
    safe = (found.journal_mode, found.synchronous) == ("WAL", "FULL")
    shown = f"journal {found.journal_mode}, synchronous {found.synchronous} in {there}"
    yield Finding("durability", shown, "" if safe else "a commit may be lost: use a local disk")


async def _durability(folder: str) -> Any:
    from rankd.embedded import WallClock
    from rankd.wiring import Place, engine

    opening = engine(
        Place.of(folder), clock=WallClock(), reading=nullcontext(), tell=lambda _: None
    )
    async with opening as opened:
        return opened.ledger.durability  # type: ignore[attr-defined]


def _native() -> Finding:
    """The engine was opened just now, so the list it uses is loaded."""
    if "rankd.rank._ranklist" in sys.modules:
        return Finding("rank list", "native")
    advice = "unset RANKD_PURE; or install a C compiler and reinstall rankd"
    return Finding("rank list", "plain Python, far slower", advice)


def _disk(data: Path) -> Finding:
    there = next(folder for folder in (data, *data.absolute().parents) if folder.exists())
    free = shutil.disk_usage(there).free
    advice = "make room: a ledger only grows" if free < DISK_BYTES_MIN else ""
    return Finding("disk", f"{free / (1 << 30):,.1f} GiB free", advice)


def _files() -> Finding:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    shown = "no limit" if soft == resource.RLIM_INFINITY else f"{soft:,} (hard limit {hard:,})"
    low = soft != resource.RLIM_INFINITY and soft < FILES_MIN
    return Finding("open files", shown, f"raise it: ulimit -n {FILES_MIN}" if low else "")


def _clock(data: Path) -> Finding:
    now = time.time()
    shown = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
    newest = max((path.stat().st_mtime for path in data.glob("*")), default=0.0)
    if now < CLOCK_MIN:
        return Finding("clock", shown, "it is years slow: set it, and keep it set (NTP)")
    if newest > now + CLOCK_AHEAD_SECONDS_MAX:
        return Finding("clock", shown, "files of the folder are of the future: set it (NTP)")
    return Finding("clock", shown)
