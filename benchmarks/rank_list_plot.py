"""What rank_list.py found, as a picture: time and memory against the number of players."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from benchmarks.figures import count, number
from benchmarks.rank_list import NAME, Results
from benchmarks.rank_list_native import BATCH
from benchmarks.rank_list_native import SYSTEM as OURS
from benchmarks.rank_list_redis import SYSTEM as REDIS

_COLOURS = {OURS: "#0b6e99", REDIS: "#b8442f"}
_INK, _QUIET, _FAINT = "#24292f", "#59636e", "#d8dee4"
_STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "axes.edgecolor": _FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": _FAINT,
    "grid.linewidth": 0.7,
    "axes.axisbelow": True,
    "svg.fonttype": "path",
    "svg.hashsalt": NAME,  # The same figures give the same file.
}


_LABEL_POINTS = 13.0  # Two labels nearer than this would touch.


@dataclass(frozen=True, slots=True)
class _Label:
    """The name of a line, written at its end, so that no legend is needed."""

    point: tuple[float, float]
    text: str
    colour: str


def draw(results: Results, folder: Path) -> list[Path]:
    """Write the picture as SVG, to be kept, and as PNG, to be looked at."""
    with matplotlib.rc_context(_STYLE):
        figure, (times, memory) = pyplot.subplots(
            1, 2, figsize=(9.6, 4.1), width_ratios=(1.25, 1), layout="constrained"
        )
        labels = {times: _draw_times(times, results), memory: _draw_memory(memory, results)}
        figure.supxlabel(_caption(results), x=0.01, ha="left", fontsize=8.5, color=_QUIET)
        figure.draw_without_rendering()  # Only now is it known how far apart the lines end.
        for axes, names in labels.items():
            _write(axes, names)
        svg, png = (folder / f"{NAME}.{kind}" for kind in ("svg", "png"))
        figure.savefig(svg, metadata={"Date": None})
        figure.savefig(png, dpi=160)
        pyplot.close(figure)
    return [svg, png]


def _draw_times(axes: Axes, results: Results) -> list[_Label]:
    labels = []
    for system in (OURS, REDIS):
        for operation in ("update", "rank"):
            known = [
                (players, us)
                for players in sorted(results.sizes)
                if (us := results.us(players, system, operation)) is not None
            ]
            if known:
                _line(axes, known, system, dashed=operation == "rank")
                text = f"{system} {operation}, {number(known[-1][1], 'µs')}"
                labels.append(_Label(known[-1], text, _COLOURS[system]))
    _lay_out(axes, results, "Time of one operation, µs")
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    ticks = [t for t in (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50) if low <= t <= high]
    axes.yaxis.set_major_locator(FixedLocator(ticks))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    return labels


def _draw_memory(axes: Axes, results: Results) -> list[_Label]:
    labels = []
    for system in (OURS, REDIS):
        known = [
            (players, total / players)
            for players in sorted(results.sizes)
            if (total := results.bytes(players, system, "mixed")) is not None
        ]
        if known:
            _line(axes, known, system)
            text = f"{system}, {number(known[-1][1], 'B')}"
            labels.append(_Label(known[-1], text, _COLOURS[system]))
    _lay_out(axes, results, "Memory of one player, bytes, id included")
    axes.set_ylim(bottom=0)
    return labels


def _line(
    axes: Axes, points: list[tuple[int, float]], system: str, *, dashed: bool = False
) -> None:
    axes.plot(
        *zip(*points, strict=True),
        color=_COLOURS[system],
        linestyle=(0, (4, 2)) if dashed else "solid",
        linewidth=1.8,
        marker="o",
        markersize=4.5,
    )


def _write(axes: Axes, labels: list[_Label]) -> None:
    """Write the labels from the lowest up, each at least a line of text above the last."""
    points_per_pixel = 72 / axes.figure.dpi
    floor = float("-inf")
    for label in sorted(labels, key=lambda label: label.point[1]):
        end = axes.transData.transform(label.point)[1] * points_per_pixel
        place = max(end, floor)
        floor = place + _LABEL_POINTS
        axes.annotate(
            label.text,
            label.point,
            xytext=(8, place - end),
            textcoords="offset points",
            color=label.colour,
            va="center",
            fontweight="bold" if label.text.startswith(OURS) else "normal",
            annotation_clip=False,
        )


def _caption(results: Results) -> str:
    load = results.machine["load_average"][0]
    machine = f"{results.machine['cpu']}, {results.machine['cores']} cores, load before {load:.1f}"
    repeated = max((len(m.wall_us) for m in results.measurements), default=0)
    if results.redis_version is None:
        return f"Median of {repeated}. rankd from Python in batches of {BATCH}. {machine}."
    return (
        f"Median of {repeated}. rankd from Python in batches of {BATCH}; "
        f"Redis {results.redis_version} by the fastest pipeline found. Same run, {machine}."
    )


def _lay_out(axes: Axes, results: Results, title: str) -> None:
    sizes = sorted(results.sizes)
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold", pad=10)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(sizes))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: count(round(value))))
    axes.set_xlabel("players")
    axes.tick_params(length=0)
    axes.margins(x=0.06, y=0.12)
