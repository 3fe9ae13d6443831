"""A service from the command line, with the game of a demonstration or without."""

import asyncio
import logging
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from rankd.cli.options import config_option, in_force
from rankd.settings import TABLE, Setting, Settings, resolve

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


PLAYERS_MAX = 5_000_000
"""Some minutes of filling, and a few gigabytes."""

RATE_MAX = 10_000
"""Scores a second that one process handles easily while it serves reads."""

TO_TRY = """
Open http://{at}/ in a browser, or try:

  curl 'http://{at}/v1/boards/arena/standings?limit=3'
  curl http://{at}/v1/boards/arena/scores -H 'content-type: application/json' \
-d '{{"player": "you", "score": 21000}}'
  curl 'http://{at}/v1/boards/arena/standings/you/around?above=2&below=2'

The arena adds scores up: send the second again, and `you` has 42,000. Nobody else plays as `you`.

Ctrl-C ends it{afterwards}.
"""


@click.command()
@click.option(
    "--players",
    type=click.IntRange(1, PLAYERS_MAX),
    default=100_000,
    show_default=True,
    help="How many play, on a new board.",
)
@click.option(
    "--rate",
    type=click.IntRange(0, RATE_MAX),
    default=300,
    show_default=True,
    help="Scores a second.",
)
@click.option("--port", metavar="N", help="Port to listen on; 0 takes a free one. [default: 8700]")
@click.option("--data", metavar="DIR", help="Folder to keep it in. [default: a temporary one]")
def demo(players: int, rate: int, port: str | None, data: str | None) -> None:
    """Serve a simulated game, with a live page.

    Fills a board named arena with players and their past, prints the address and three commands to
    try, and continues the game until ctrl-c.
    """
    from rankd.api.logs import LINE

    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format=LINE)
    if data is not None:
        # The environment and rankd.toml are those of a real service, whose folder must not be used.
        _run_demo(resolve(command_line={"port": port, "data": data}), players, rate, "")
        return
    with TemporaryDirectory(prefix="rankd-demo-") as folder:
        settings = resolve(command_line={"port": port, "data": folder})
        _run_demo(settings, players, rate, " and removes everything")


def _run_demo(settings: Settings, players: int, rate: int, afterwards: str) -> None:
    from rankd.api.server import new_event_loop

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(run_until_stopped(_serve_demo(settings, players, rate, afterwards)))


async def _serve_demo(settings: Settings, players: int, rate: int, afterwards: str) -> None:
    from rankd.app import service, settle_down
    from rankd.demo import TimeLapse, playing
    from rankd.embedded import WallClock
    from rankd.progress import ProgressBar

    bar = ProgressBar()
    clock = TimeLapse(WallClock())

    def ready(host: str, port: int) -> None:
        bar.tell(None)
        settle_down()
        announce(host, port)
        click.echo(TO_TRY.format(at=f"{host}:{port}", afterwards=afterwards))
        sys.stdout.flush()

    @asynccontextmanager
    async def beside(rankd: "Engine") -> AsyncIterator[None]:
        async with (
            calm_end(rankd),
            playing(rankd, clock, players=players, rate=rate, tell=bar.tell),
        ):
            yield

    await service(settings, clock=clock, tell=bar.tell, ready=ready, beside=beside)
