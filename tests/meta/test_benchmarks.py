"""Every question that a benchmark answers can be asked by ``make bench``."""

import ast
from pathlib import Path

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def questions() -> set[str]:
    """Return the modules that answer one: they have its text, and measure when they are told."""
    found = set()
    for path in BENCHMARKS.glob("*.py"):
        tree = ast.parse(path.read_text())
        named = {
            target.id
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        measures = any(
            isinstance(node, ast.FunctionDef) and node.name == "run" for node in tree.body
        )
        if {"NAME", "QUESTION"} <= named and measures:
            found.add(path.stem)
    return found


def test_every_question_can_be_asked() -> None:
    listed = (BENCHMARKS / "__main__.py").read_text()
    asked = {name for name in questions() if f"    {name}.NAME: ({name}.run, " in listed}
    assert asked == questions() and {"redis_index", "postgres_ledger", "nodes"} <= asked
