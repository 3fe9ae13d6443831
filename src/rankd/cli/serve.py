"""Starting the service, and stopping it."""

import asyncio
import logging
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from os import environ
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rankd.cli.failing import Failed
from rankd.settings import TABLE, Setting, Settings, resolve

if TYPE_CHECKING:
    from rankd.core.service import Rankd

CONFIG_DEFAULT = "rankd.toml"

FIRST = (
    "data",
    "host",
    "port",
    "workers",
    "ledger",
    "index",
    "spare_index",
    "spool",
    "role",
    "node",
)
"""Listed before the bounds that hardly anybody touches."""

UNBUILT = {
    "bus": ("memory", "What carries events: memory."),
}
"""Options that are promised, and so far take nothing but their default."""

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

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


def _unbuilt() -> list[tuple[str, tuple[str, str]]]:
    """Return what is not a setting yet."""
    known = {row.name for row in TABLE}
    return [(name, row) for name, row in UNBUILT.items() if name not in known]


def settings_options(command: Command) -> Command:
    """Give a command an option for every setting, and for what is promised."""
    rows = [row for name in FIRST for row in TABLE if row.name == name]
    rest = [row for row in TABLE if row.name not in FIRST]
    for row in reversed(rest):
        command = _option(row)(command)
    for name, (_, said) in reversed(_unbuilt()):
        command = click.option(f"--{name}", metavar="URL", help=said)(command)
    for row in reversed(rows):
        command = _option(row)(command)
    return click.option(
        "--config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help=f"The file of settings. [default: {CONFIG_DEFAULT} if it is there]",
    )(command)


def settings_of(given: dict[str, Any]) -> Settings:
    """Return the settings in force. Raises Failed for what is not built."""
    for name, (default, _) in _unbuilt():
        if given.pop(name) not in (None, default):
            raise Failed(f"--{name}: anything but {default} is not built yet; leave it out")
    config = given.pop("config") or Path(CONFIG_DEFAULT)
    return resolve(command_line=given, environment=environ, file=config)


@click.command()
@settings_options
def serve(**given: Any) -> None:
    """Start the service on a data folder.

    Prints `rankd ready on http://HOST:PORT` when it can answer, and runs until it is told to stop:
    ctrl-c, or SIGTERM. Every option is also a variable (RANKD_PORT) and a line of rankd.toml
    (port = 8700); the command line wins over the environment, which wins over the file.
    """
    settings = settings_of(given)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format=LOG_FORMAT)
    from rankd.api.server import new_event_loop

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(run_until_stopped(_serve(settings)))


def announce(host: str, port: int) -> None:
    """Say, to whoever started it, that it answers."""
    shown = f"[{host}]" if ":" in host else host
    click.echo(f"rankd ready on http://{shown}:{port}")
    sys.stdout.flush()


async def _serve(settings: Settings) -> None:
    from rankd.embedded import WallClock
    from rankd.serving import service
    from rankd.terminal import ProgressBar

    bar = ProgressBar()

    def ready(host: str, port: int) -> None:
        bar.tell(None)
        announce(host, port)

    await service(settings, clock=WallClock(), tell=bar.tell, ready=ready, beside=calm_end)


async def run_until_stopped(serving: Coroutine[Any, Any, None]) -> None:
    """Run the service; a signal that comes while it still opens ends it as well, in order."""
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
async def calm_end(_rankd: "Rankd") -> AsyncIterator[None]:
    """While the engine closes, another signal changes nothing: it is stopping already."""
    try:
        yield
    finally:
        _on_signals(lambda: None)


def _on_signals(do: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, do)
