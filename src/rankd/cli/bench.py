"""A quick benchmark of rankd on this machine."""

import random
import tempfile
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from rankd.cli.options import json_option
from rankd.cli.output import add, print_json, print_tables, table

if TYPE_CHECKING:
    from rankd.embedded import Board

PLAYERS_MAX = 10_000_000
SECONDS_MAX = 600.0
BATCH = 1000
SEED = 7
"""The same scores each time, so that results of two machines can be compared."""


class BenchResult(NamedTuple):
    """The number of operations of one kind, and their duration."""

    what: str
    times: int
    seconds: float

    @property
    def rate(self) -> float:
        """Operations a second."""
        return self.times / self.seconds if self.seconds else 0.0

    def told(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {**self._asdict(), "rate": round(self.rate, 1)}


@click.command()
@click.option(
    "--players",
    type=click.IntRange(10, PLAYERS_MAX),
    default=100_000,
    show_default=True,
    metavar="N",
    help="Players on the board.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0.01, SECONDS_MAX),
    default=2.0,
    show_default=True,
    metavar="S",
    help="How long each thing is done.",
)
@click.option(
    "--folder",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False),
    help="Where the temporary folder is made: the disk to measure.",
)
@json_option
def bench(players: int, seconds: float, folder: str | None, as_json: bool) -> None:
    """Measure submissions and ranks a second on this machine.

    It uses the embedded engine, in a temporary folder that is removed again; each submission is on
    stable storage before the next.
    """
    import rankd

    with (
        tempfile.TemporaryDirectory(dir=folder, prefix="rankd-bench-") as made,
        rankd.open(made) as ranks,
    ):
        measured = measure(ranks.board("bench"), players, seconds)
    if as_json:
        print_json({"players": players, "measured": [one.told() for one in measured]})
        return
    shown = table("what", "a second", "each", "done", right=("a second", "each", "done"))
    for one in measured:
        each = f"{one.seconds / one.times * 1e6:,.1f} µs"
        add(shown, one.what, f"{one.rate:,.0f}", each, one.times)
    print_tables(shown)


def measure(board: "Board", players: int, seconds: float) -> list[BenchResult]:
    """Fill a board, then measure writes and reads."""
    chance = random.Random(SEED)
    filled = _fill(board, players, chance)

    def submit() -> None:
        board.submit(f"p{chance.randrange(players)}", chance.randrange(1 << 30))

    def standing() -> None:
        board.standing(f"p{chance.randrange(players)}")

    def top() -> None:
        board.top(10)

    return [
        filled,
        _repeat("submissions, one by one", submit, seconds),
        _repeat("ranks of a player", standing, seconds),
        _repeat("top 10", top, seconds),
    ]


def _fill(board: "Board", players: int, chance: random.Random) -> BenchResult:
    begun = time.perf_counter()
    for first in range(0, players, BATCH):
        last = min(players, first + BATCH)
        board.submit_many([(f"p{n}", chance.randrange(1 << 30)) for n in range(first, last)])
    return BenchResult("submissions, 1,000 at once", players, time.perf_counter() - begun)


def _repeat(what: str, do: Callable[[], None], seconds: float) -> BenchResult:
    begun = time.perf_counter()
    count, passed = 0, 0.0
    while count == 0 or passed < seconds:
        do()
        count, passed = count + 1, time.perf_counter() - begun
    return BenchResult(what, count, passed)
