"""Checks of this machine and of the servers: a line for each, with advice."""

import asyncio
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from rankd.cli.options import NATIVE, ChosenLedger, data_option, json_option
from rankd.cli.output import CommandFailed, plain, print_json
from rankd.errors import RankdError
from rankd.ports import Finding

DISK_BYTES_MIN = 1 << 30
"""A gigabyte holds some ten million facts."""

FILES_MIN = 4096
"""Each connection is an open file."""

CLOCK_MIN = 1_760_000_000
"""October 2025: a correct clock is later."""

CLOCK_AHEAD_SECONDS_MAX = 60.0
"""Seconds that a file's modification time may be later than now."""


@click.command()
@json_option
@data_option
def doctor(at: ChosenLedger, as_json: bool) -> None:
    """Check this machine, and report anything that would be a problem.

    Exits 1 if anything should be fixed. A scratch ledger is made in the data folder and removed.
    For a ledger in PostgreSQL and an index in Redis the servers are checked instead, and nothing is
    written there.
    """
    findings = list(examine(at))
    wrong = sum(bool(each.advice) for each in findings)
    if as_json:
        print_json({"well": not wrong, "findings": [each._asdict() for each in findings]})
    else:
        _show(findings)
    if wrong:
        raise CommandFailed(f"{wrong} of {len(findings)} should be looked after, as said above")


def _show(findings: list[Finding]) -> None:
    for each in findings:
        mark = click.style("warn", fg="yellow") if each.advice else click.style("ok", fg="green")
        advice = f": {each.advice}" if each.advice else ""
        pad = " " * (4 - (4 if each.advice else 2))
        click.echo(f"{mark}{pad}  {each.what:<12} {plain(each.found)}{advice}")


def examine(at: ChosenLedger) -> Iterator[Finding]:
    """Yield the result of each check."""
    data = Path(at.data)
    yield _python()
    if at.elsewhere or at.index != NATIVE:
        yield from _servers(at)
        yield from _native()
    else:
        yield from _ledger(data)
        yield from _native()
        yield _disk(data)
    yield _files()
    yield _clock(data)
    yield from _ledger_time(at)


def _ledger_time(at: ChosenLedger) -> Iterator[Finding]:
    """Compare the time of the last fact with the clock, and the clock with the server's."""
    from rankd.bootstrap import EngineConfig, times_of
    from rankd.core.steady_clock import STEP_MICROSECONDS, shown_span

    try:
        place = EngineConfig(None, at.ledger) if at.elsewhere else EngineConfig(Path(at.data))
        times = asyncio.run(times_of(place))
    except RankdError:
        return  # Reported above.
    now = time.time_ns() // 1000
    if times.server is not None:
        apart = f"{shown_span(now - times.server)} against the server's"
        wrong = abs(now - times.server) > STEP_MICROSECONDS
        yield Finding("server time", apart, "set this machine's clock (NTP)" if wrong else "")
        now = times.server
    if times.recorded is not None:
        ahead = times.recorded - now
        found = f"the last fact is {shown_span(ahead)} against the clock"
        yield Finding("ledger time", found, _advice_on_time(ahead))


def _advice_on_time(ahead: int) -> str:
    """Return advice on a last fact so far ahead of the clock, or behind it."""
    from rankd.core.steady_clock import AHEAD_MICROSECONDS, STEP_MICROSECONDS

    if ahead > STEP_MICROSECONDS:
        return (
            "windows stand still until the clock is there: set it if it is wrong; if the ledger "
            "is, start the service and correct it: rankd clock correct"
        )
    if -ahead > AHEAD_MICROSECONDS:
        return "set the clock if the ledger did not rest so long: a start believes the clock"
    return ""


def _servers(at: ChosenLedger) -> Iterator[Finding]:
    """Check that the shared servers are configured as the ports require."""
    from rankd.bootstrap import EngineConfig, examined

    asked = {
        "ledger": EngineConfig(None, ledger=at.ledger),
        "index": EngineConfig(None, index=at.index),
    }
    for what, place in asked.items():
        try:
            yield from asyncio.run(examined(place))
        except RankdError as exc:
            yield Finding(what, str(exc), "see that it runs, and can be reached from here")


def _python() -> Finding:
    found = f"{platform.python_implementation()} {platform.python_version()}"
    old = sys.version_info < (3, 11)
    return Finding("Python", found, "rankd needs 3.11 or later" if old else "")


def _ledger(data: Path) -> Iterator[Finding]:
    """Make a ledger in the data folder, and read SQLite's settings there."""
    from rankd.bootstrap import examine_folder

    try:
        examine_folder(data)
    except RankdError as exc:
        yield Finding("data folder", str(exc), "no command works on it as it is")
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
    from rankd.bootstrap import EngineConfig, engine
    from rankd.embedded import WallClock

    opening = engine(
        EngineConfig.of(folder), clock=WallClock(), reading=nullcontext(), tell=lambda _: None
    )
    async with opening as opened:
        return opened.ledger.durability  # type: ignore[attr-defined]


def _native() -> Iterator[Finding]:
    """Check whether the native modules are in use; each is built separately."""
    import rankd.bootstrap  # Loads the rank list of an engine.
    import rankd.templates

    slow = "unset RANKD_PURE; or install a C compiler and reinstall rankd"
    if "rankd.rank._ranklist" in sys.modules:
        yield Finding("rank list", "native")
    else:
        yield Finding("rank list", "plain Python, far slower", slow)
    if rankd.templates.NATIVE:
        yield Finding("answers", "written natively")
    else:
        yield Finding("answers", "written in plain Python, slower", slow)


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
