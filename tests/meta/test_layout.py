"""The shape of the tree: names that say something, files that say why, rooms that are known."""

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.standins import PURE, STRICT

ROOT = Path(__file__).parents[2]
PYTHON = sorted(
    path
    for folder in ("src", "tests", "benchmarks", "examples")
    for path in (ROOT / folder).rglob("*.py")
)
SOURCES = [*PYTHON, *sorted((ROOT / "src").rglob("*.pyx")), *sorted((ROOT / "src").rglob("*.pyi"))]
NAMELESS = {"utils", "util", "helpers", "helper", "common", "base", "misc", "shared"}


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_a_file_begins_by_saying_what_it_is_for(path: Path) -> None:
    text = path.read_text()
    if path.suffix == ".pyx":
        assert re.match(r'(#[^\n]*\n|\s)*r?"""\w', text)
    elif text.strip():  # An empty __init__.py of a test folder has nothing to say.
        assert ast.get_docstring(ast.parse(text))


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_a_module_is_named_after_a_noun(path: Path) -> None:
    assert not NAMELESS & {part.strip("_") for part in path.relative_to(ROOT).with_suffix("").parts}


def test_unit_tests_mirror_the_package() -> None:
    """tests/unit/a/test_b.py tests src/rankd/a/b.py, or a part of it: test_b_something.py."""
    unit = ROOT / "tests" / "unit"
    for path in unit.rglob("test_*.py"):
        room = ROOT / "src" / "rankd" / path.parent.relative_to(unit)
        subject = path.stem.removeprefix("test_")
        modules = {module.stem.strip("_") for module in room.glob("*") if module.suffix != ".so"}
        assert any(subject == name or subject.startswith(f"{name}_") for name in modules), path


def test_the_native_list_its_stub_and_its_oracle_have_the_same_names() -> None:
    stub = ast.parse((ROOT / "src" / "rankd" / "rank" / "_ranklist.pyi").read_text())
    for described in [node for node in stub.body if isinstance(node, ast.ClassDef)]:
        names = {
            item.name if isinstance(item, ast.FunctionDef) else ast.unparse(item.target)
            for item in described.body
            if isinstance(item, ast.FunctionDef | ast.AnnAssign)
        }
        wanted = {name for name in names if not name.startswith("_")}
        for module in ["oracle"] if PURE else ["_ranklist", "oracle"]:
            made = vars(importlib.import_module(f"rankd.rank.{module}"))[described.name]()
            assert {name for name in dir(made) if not name.startswith("_")} == wanted, module


def test_native_rules_their_stub_and_their_oracle_have_the_same_names() -> None:
    stub = ast.parse((ROOT / "src" / "rankd" / "rules" / "_native.pyi").read_text())
    (described,) = [node for node in stub.body if isinstance(node, ast.ClassDef)]
    names = {
        item.name if isinstance(item, ast.FunctionDef) else ast.unparse(item.target)
        for item in described.body
        if isinstance(item, ast.FunctionDef | ast.AnnAssign)
    }
    wanted = {name for name in names if not name.startswith("_")}
    for kind in ["oracle"] if PURE else ["_native", "oracle"]:
        made = importlib.import_module(f"rankd.rules.{kind}").RuleState((), "best", True)
        assert {name for name in dir(made) if not name.startswith("_")} == wanted, kind


def test_native_templates_their_stub_and_the_python_ones_have_the_same_names() -> None:
    stub = ast.parse((ROOT / "src" / "rankd" / "templates" / "_native.pyi").read_text())
    kinds = ["pure_python"] if PURE else ["_native", "pure_python"]
    modules = [importlib.import_module(f"rankd.templates.{kind}") for kind in kinds]
    for module in modules:
        assert {"enclose"} < vars(module).keys()
    for described in [node for node in stub.body if isinstance(node, ast.ClassDef)]:
        names = {item.name for item in described.body if isinstance(item, ast.FunctionDef)}
        wanted = {name for name in names if not name.startswith("_")}
        for module in modules:
            made = vars(module)[described.name]
            assert {name for name in dir(made) if not name.startswith("_")} == wanted, module


def test_the_lock_covers_what_the_project_declares() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for group, wanted in project["dependency-groups"].items():
        lock = (ROOT / "requirements" / f"{group}.txt").read_text().lower()
        named = [one for one in wanted if isinstance(one, str)]  # The rest are other groups.
        for requirement in [*named, *project["project"]["dependencies"]]:
            name = re.split(r"[<>=~!\[ ]", requirement, maxsplit=1)[0].lower()
            assert re.search(rf"^{re.escape(name)}==", lock, re.MULTILINE), (group, name)


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=named)
def test_examples_run(example: Path) -> None:
    done = subprocess.run(
        [sys.executable, *STRICT, str(example), "--players", "2000", "--seconds", "0.3"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
