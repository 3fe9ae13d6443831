"""Names and sentences of the package: nouns, used once, and prose that names its subjects.

The bounds may only fall. A name or sentence that breaks one is to be changed, not the bound.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "rankd"
VAGUE = re.compile(
    r"\b(what|whatever|who|whom|whoever|nobody|somebody|anybody|everybody)\b", re.IGNORECASE
)
PARTICIPLE = re.compile(r"(told|kept|shown|known|joint|[a-z]+(ing|ed))")
NOUNS = {"batching", "embedded", "routing", "standing", "testing"}
"""Module names that look like participles and are nouns of the field."""

VAGUE_SENTENCES_MAX = {"api": 1}
"""By room; in every other room there is none."""

MODULE_NAMES = frozenset(Path(__file__).with_name("module_names.txt").read_text().split())
"""A module with a name of its own adds it here, once a stranger has guessed its content from it."""

SHARED_CLASS_NAMES_MAX = 12
"""Twins of the wire: ``Standing`` as it is sent and as it is computed."""


def trees() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield str(path.relative_to(PACKAGE)), ast.parse(path.read_text())


def sentences(tree: ast.Module) -> Iterator[str]:
    """Yield the sentences of docstrings, those of attributes included."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for item in body if isinstance(body, list) else ():
            match item:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield from re.split(r"(?<=[.:;!?])\s+", " ".join(text.split()))


def test_modules_are_named_by_nouns() -> None:
    names = {path.stem for path in PACKAGE.rglob("*.py")}
    assert not [name for name in names - NOUNS if PARTICIPLE.fullmatch(name)]
    assert names == MODULE_NAMES, names ^ MODULE_NAMES


def test_class_names_are_unique() -> None:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for name, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found[node.name].add(name)
    shared = {name: sorted(files) for name, files in found.items() if len(files) > 1}
    assert len(shared) <= SHARED_CLASS_NAMES_MAX, shared


def test_sentences_name_their_subjects() -> None:
    vague: defaultdict[str, list[str]] = defaultdict(list)
    for name, tree in trees():
        some = [one for one in sentences(tree) if VAGUE.search(one) and len(one.split()) >= 4]
        vague[name.partition("/")[0]] += [f"{name}: {one}" for one in some]
    for room, found in vague.items():
        assert len(found) <= VAGUE_SENTENCES_MAX.get(room, 0), found
