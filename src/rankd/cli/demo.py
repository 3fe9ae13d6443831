"""A service with a simulated game, to try rankd out."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from rankd.cli.serve import announce, calm_end, run_until_stopped
from rankd.settings import Settings, resolve

if TYPE_CHECKING:
    from rankd.core.engine import Engine

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
        _run(resolve(command_line={"port": port, "data": data}), players, rate, "")
        return
    with TemporaryDirectory(prefix="rankd-demo-") as folder:
        settings = resolve(command_line={"port": port, "data": folder})
        _run(settings, players, rate, " and removes everything")


def _run(settings: Settings, players: int, rate: int, afterwards: str) -> None:
    from rankd.api.server import new_event_loop

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(run_until_stopped(_serve(settings, players, rate, afterwards)))


async def _serve(settings: Settings, players: int, rate: int, afterwards: str) -> None:
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
