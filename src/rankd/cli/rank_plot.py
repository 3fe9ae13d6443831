"""A player's rank over time as a plot in the terminal: better ranks are higher."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from rankd.cli.output import plain, print_json, score, stale

if TYPE_CHECKING:
    from rankd import schemas

HEIGHT = 8
"""Lines of the plot, each of eight steps."""

WIDTH_MAX = 60
"""The latest points that are drawn."""

_STEPS = " ▁▂▃▄▅▆▇█"


def show_ranks(found: "schemas.RanksOverTime", as_json: bool) -> None:
    """Print a history of ranks: the plot, its axes and the present standing."""
    if as_json:
        print_json(found)
        return
    where = f"{plain(found.board)} · {plain(found.window)} · {plain(found.player)}"
    click.echo(f"{where} · as of {found.as_of:,}{stale(found.stale)}")
    points = found.points[-WIDTH_MAX:]
    ranks = [point.rank for point in points]
    if not any(ranks):
        click.echo("not ranked at any of these times")
        return
    for line in plot(ranks):
        click.echo(line)
    click.echo(f"{points[0].at[:16]} to {points[-1].at[:16]}, by {found.grain}")
    last = points[-1]
    if last.rank is not None and last.score is not None:
        click.echo(f"now rank {last.rank:,} of {last.total:,}, score {score(last.score)}")


def plot(ranks: Sequence[int | None]) -> list[str]:
    """Return the lines of a plot, with the best and the worst rank beside the axis."""
    known = [rank for rank in ranks if rank is not None]
    best, worst = min(known), max(known)
    most = HEIGHT * (len(_STEPS) - 1)
    heights = [0 if rank is None else _height(rank, best, worst, most) for rank in ranks]
    labels = {0: f"{best:,}", HEIGHT - 1: f"{worst:,}"}
    width = max(map(len, labels.values()))
    lines = []
    for line in range(HEIGHT):
        floor = (HEIGHT - 1 - line) * (len(_STEPS) - 1)
        steps = (min(max(height - floor, 0), len(_STEPS) - 1) for height in heights)
        drawn = "".join(_STEPS[step] for step in steps)
        lines.append(f"{labels.get(line, ''):>{width}} ┤{drawn}".rstrip())
    lines.append(f"{'':>{width}} └{'─' * len(heights)}")
    return lines


def _height(rank: int, best: int, worst: int, most: int) -> int:
    """Return how high a rank is drawn, from 1 up to ``most``."""
    return most if worst == best else 1 + (worst - rank) * (most - 1) // (worst - best)
