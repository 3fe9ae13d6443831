"""A picture of a result: each figure beside its goal, on one line that all of them should pass."""

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt

from benchmarks.figures import number

REACHED, MISSED, LINE = "#2a7f62", "#c8553d", "#333333"


def draw(result: dict[str, Any], folder: Path) -> Path | None:
    """Draw how near each figure comes to its goal; None if nothing was measured."""
    goals = [goal for goal in result.get("goals", ()) if goal["figure"]]
    if not goals:
        return None
    mpl.rcParams.update({"svg.hashsalt": "rankd", "font.size": 9})
    figure, axes = plt.subplots(figsize=(8, 0.42 * len(goals) + 1.2), layout="constrained")
    places = range(len(goals), 0, -1)
    shares = [_share(goal) for goal in goals]
    colours = [REACHED if goal["reached"] else MISSED for goal in goals]
    axes.barh(list(places), shares, color=colours, height=0.6)
    for place, share, goal in zip(places, shares, goals, strict=True):
        said = f"{number(goal['figure'], goal['unit'])} ({goal['aim']} {number(goal['bound'])})"
        axes.text(share, place, f" {said}", va="center", fontsize=8)
    axes.axvline(1, color=LINE, linewidth=1)
    axes.set_yticks(list(places), [f"{goal['question']}  {goal['text']}" for goal in goals])
    axes.set_xscale("log")
    axes.set_xlim(min(0.5, *shares) * 0.8, max(2.0, *shares) * 4)
    axes.set_xlabel("times the goal: right of the line it is reached")
    figure.suptitle(f"{result['question']}  ({result['players']:,} players, {result['date']})")
    axes.spines[["top", "right"]].set_visible(False)
    path = folder / f"{result['name']}.svg"
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    return path


def _share(goal: dict[str, Any]) -> float:
    share: float = goal["figure"] / goal["bound"]
    return 1 / share if goal["aim"] == "at most" else share
