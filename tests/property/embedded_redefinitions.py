"""Redefinitions that the machines draw: changed rules, and the words that ask for them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from tests.property.embedded_model import Definition, Rules
from tests.property.embedded_strategies import (
    attempts,
    graces,
    kept_days,
    other_limits,
    other_runs,
    some_checks,
    ways,
    window_names,
)

Draw = Callable[..., Any]
Changes = dict[str, Any]

score_rules = st.sampled_from(["best", "latest", "sum", "first"])
titles = st.sampled_from([None, "Main", "The main board"])
ties = st.sampled_from(["ordinal", "standard", "dense"])
tie_breaks = st.sampled_from(["first", "latest", "player"])
more_segments = st.lists(st.sampled_from(["region", "vip", "level"]), unique=True)


def _way(draw: Draw, rules: Rules) -> Changes:
    return {"columns": tuple((name, draw(ways)) for name, _ in rules.columns)}


def _windows(draw: Draw, rules: Rules) -> Changes:
    windows = tuple(draw(window_names))
    kept, waits = draw(kept_days).items(), draw(graces).items()
    return {
        "windows": windows,
        "kept_days": tuple(each for each in kept if each[0] in windows),
        "graces": tuple(each for each in waits if each[0] in windows),
    }


def _segments(draw: Draw, rules: Rules) -> Changes:
    return {"segments": tuple(dict.fromkeys([*rules.segments, *draw(more_segments)]))}


def _one(name: str, strategy: st.SearchStrategy[Any]) -> Callable[[Draw, Rules], Changes]:
    return lambda draw, rules: {name: draw(strategy)}


CHANGES: dict[str, tuple[tuple[str, ...], Callable[[Draw, Rules], Changes]]] = {
    "rule": (("rule",), _one("rule", score_rules)),
    "way": (("columns",), _way),
    "decimals": (("decimals",), lambda draw, rules: {"decimals": min(rules.decimals + 1, 2)}),
    "limits": (
        ("limits",),
        lambda draw, rules: dict(zip(("low", "high"), draw(other_limits), strict=True)),
    ),
    "windows": (("windows", "retention"), _windows),
    "segments": (("segments",), _segments),
    "ties": (
        ("ties", "tie_break"),
        lambda draw, rules: {"ties": draw(ties), "tie_break": draw(tie_breaks)},
    ),
    "title": (("title",), _one("title", titles)),
    "checks": (("rules",), _one("checks", some_checks)),
    "attempts": (("limits",), _one("attempts", attempts)),
    "runs": (("runs",), _one("runs", other_runs)),
    "verified": (("verifier",), _one("verified", st.booleans())),
}
"""What can be changed: the words of a definition for it, and how it is drawn."""


@st.composite
def redefinitions(draw: Draw, rules: Rules) -> tuple[Rules, Definition]:
    """Changed rules, and the words that ask for them."""
    chosen = draw(st.sets(st.sampled_from(sorted(CHANGES)), min_size=1, max_size=2))
    changes: Changes = {}
    words: list[str] = []
    for name in sorted(chosen):
        named, change = CHANGES[name]
        words += named
        changes |= change(draw, rules)
    changed = replace(rules, **changes)
    definition = changed.definition()
    given = {word: definition[word] for word in words}
    if "columns" in given and rules.columns[1:] == changed.columns[1:]:
        del given["columns"]
        given["direction"] = changed.columns[0][1]
    return changed, given
