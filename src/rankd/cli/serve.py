"""Start and stop the service."""

import asyncio
import logging
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import click

from rankd.cli.options import config_option, in_force
from rankd.settings import TABLE, Setting, Settings

if TYPE_CHECKING:
    from rankd.core.engine import Engine

FIRST = (
    "data",
    "host",
    "port",
    "workers",
    "ledger",
    "ledger_silence_seconds",
    "exit_on_ledger_failure",
    "index",
    "bus",
    "spare_index",
    "top_list_entries",
    "top_list_seconds",
    "replica_reads",
    "filled_entries_max",
    "spool",
    "role",
    "node",
)
"""Listed before the limits, which are rarely changed."""

Command = Callable[..., Any]


def _option(setting: Setting) -> Callable[[Command], Command]:
    name = "--" + setting.name.replace("_", "-")
    said = f"{setting.help} [default: {_default(setting)}]"
    if setting.kind is bool:
        off = "--no-" + setting.name.replace("_", "-")
        return click.option(f"{name}/{off}", setting.name, default=None, help=said)
    metavar = {int: "N", float: "X", str: "TEXT"}.get(setting.kind, "A,B,…")
    return click.option(name, setting.name, metavar=metavar, help=said)


def _default(setting: Setting) -> str:
    if isinstance(setting.default, bool):
        return "yes" if setting.default else "no"
    return "none" if setting.default in ((), "") else str(setting.default)


def settings_options(command: Command) -> Command:
    """Add an option for every setting."""
    rows = [row for name in FIRST for row in TABLE if row.name == name]
    rest = [row for row in TABLE if row.name not in FIRST]
    for row in reversed(rest):
        command = _option(row)(command)
    for row in reversed(rows):
        command = _option(row)(command)
    return config_option(command)


def settings_of(given: dict[str, Any]) -> Settings:
    """Return the settings in force. Raises InvalidSetting."""
    return in_force(given.pop("config"), **given)


@click.command()
@settings_options
def serve(**given: Any) -> None:
    """Start the service on a data folder.

    Prints `rankd ready on http://HOST:PORT` when it can answer, and runs until ctrl-c or SIGTERM.
    Every option is also a variable (RANKD_PORT) and a line of rankd.toml (port = 8700); the command
    line overrides the environment, which overrides the file.
    """
    settings = settings_of(given)
    from rankd.api.logs import LINE
    from rankd.api.server import new_event_loop

    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format=LINE)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(run_until_stopped(_serve(settings)))


def announce(host: str, port: int) -> None:
    """Print that the service is ready, with its URL."""
    shown = f"[{host}]" if ":" in host else host
    click.echo(f"rankd ready on http://{shown}:{port}")
    sys.stdout.flush()


async def _serve(settings: Settings) -> None:
    from rankd.app import service, settle_down
    from rankd.embedded import WallClock
    from rankd.progress import ProgressBar

    bar = ProgressBar()

    def ready(host: str, port: int) -> None:
        bar.tell(None)
        settle_down()
        announce(host, port)

    await service(settings, clock=WallClock(), tell=bar.tell, ready=ready, beside=calm_end)


async def run_until_stopped(serving: Coroutine[Any, Any, None]) -> None:
    """Run the service; a signal while it is still opening ends it, too, in order."""
    task = asyncio.ensure_future(serving)
    stopped = False

    def stop() -> None:
        nonlocal stopped
        stopped = True
        task.cancel()

    _on_signals(stop)
    try:
        await task
    except asyncio.CancelledError:
        if not stopped:
            raise


@asynccontextmanager
async def calm_end(_rankd: "Engine") -> AsyncIterator[None]:
    """Ignore further signals while the engine closes: it is stopping already."""
    try:
        yield
    finally:
        _on_signals(lambda: None)


def _on_signals(do: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, do)
