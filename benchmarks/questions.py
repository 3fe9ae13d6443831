"""What the questions have in common: how a result is kept, and how it is shown."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.figures import Goal, number, table


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for on the command line."""

    players: int
    date: str
    redis: bool = True


def answer(
    name: str, question: str, asked: Asked, rows: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Return a result: where and when it was measured, and what came out."""
    return {
        "name": name,
        "question": question,
        "date": asked.date,
        "players": asked.players,
        "machine": machine.facts(),
        "rows": list(rows),
    }


def row(what: str, figure: float, unit: str, **more: object) -> dict[str, Any]:
    """Return one figure of a result."""
    return {"what": what, "figure": figure, "unit": unit, **more}


def judged(result: dict[str, Any], goals: Sequence[Goal]) -> dict[str, Any]:
    """Add whether its goals are reached."""
    return {**result, "goals": [goal.judged() for goal in goals]}


def shown(result: dict[str, Any]) -> str:
    """Return a result as people read it."""
    head = f"{result['question']}\n({result['players']:,} players, {result['date']})\n"
    rows = [[one["what"], number(one["figure"], one["unit"])] for one in result["rows"]]
    goals = [
        [
            goal["question"],
            goal["text"],
            number(goal["figure"], goal["unit"]),
            f"{goal['aim']} {number(goal['bound'], goal['unit'])}",
            {True: "reached", False: "not reached", None: "not measured"}[goal["reached"]],
        ]
        for goal in result.get("goals", ())
    ]
    text = head + table(("what", "figure"), rows)
    if goals:
        text += "\n\n" + table(("", "goal", "figure", "bound", "state"), goals, left=2)
    return text


def write(result: dict[str, Any], folder: Path) -> Path:
    """Keep a result."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result['name']}.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    return path


def find(result: dict[str, Any], what: str) -> float | None:
    """Return the figure of a row, None if it was not measured."""
    return next((one["figure"] for one in result["rows"] if one["what"] == what), None)
