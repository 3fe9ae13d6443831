"""What is not written down does not exist: versions, public names and errors."""

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import rankd
from rankd.errors import Corrupt, RankdError, Refused, Unavailable

ROOT = Path(__file__).parents[2]
ERRORS = (ROOT / "docs" / "reference" / "errors.md").read_text()
MODULES = sorted(
    found.name
    for found in pkgutil.walk_packages(rankd.__path__, "rankd.")
    if not found.name.endswith("__main__")
)
BRANCHES = {branch.__name__ for branch in (Refused, Unavailable, Corrupt)}
OWN_ERRORS = {code: kind for code, kind in RankdError._taken.items() if "rankd" in kind.__module__}


def test_the_version_is_the_newest_of_the_changelog() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text()
    newest = re.search(
        r"^## \[(.+?)\] - (not released|\d{4}-\d{2}-\d{2})$", changelog, re.MULTILINE
    )
    assert newest is not None
    assert newest[1] == rankd.__version__
    assert (newest[2] == "not released") == ("dev" in rankd.__version__)


def test_public_names_are_sorted_and_present() -> None:
    assert rankd.__all__ == sorted(rankd.__all__)
    for name in rankd.__all__:
        thing = getattr(rankd, name)
        if inspect.isclass(thing) or inspect.isroutine(thing):
            assert inspect.getdoc(thing), name


@pytest.mark.parametrize("name", MODULES)
def test_every_module_imports_and_exports_what_it_says(name: str) -> None:
    module = importlib.import_module(name)
    exported = getattr(module, "__all__", [])
    assert len(set(exported)) == len(exported)
    assert [missing for missing in exported if not hasattr(module, missing)] == []


@pytest.mark.parametrize("code", sorted(OWN_ERRORS))
def test_every_error_code_has_a_way_out(code: str) -> None:
    _, found, rest = ERRORS.partition(f"\n### `{code}`\n")
    assert found, f"docs/reference/errors.md has no section for {code}"
    assert "**Remedy.**" in re.split(r"^##", rest, maxsplit=1, flags=re.MULTILINE)[0]


@pytest.mark.parametrize("code", sorted(OWN_ERRORS))
def test_every_error_code_is_explained_with_its_class(code: str) -> None:
    """Programs in Python catch the class; who only knows the code has to find it there."""
    kind = OWN_ERRORS[code]
    (above,) = (base.__name__ for base in kind.__bases__)
    line = ERRORS.partition(f"\n### `{code}`\n\n")[2].partition("\n")[0]
    named = re.fullmatch(r"Raised as `(\w+)`(?:, an? `(\w+)`)?\.", line)
    assert named is not None, line
    assert named[1] == kind.__name__
    assert named[2] == (None if above in BRANCHES else above)


@pytest.mark.parametrize("branch", [Refused, Unavailable, Corrupt])
def test_an_error_is_explained_under_its_branch(branch: type[RankdError]) -> None:
    section = ERRORS.split(f"\n## {branch.__name__}\n", 1)[1].split("\n## ", 1)[0]
    explained = set(re.findall(r"^### `(\w+)`$", section, re.MULTILINE))
    assert explained == {code for code, kind in OWN_ERRORS.items() if issubclass(kind, branch)}


def test_the_tree_drawn_in_errors_names_every_error() -> None:
    import rankd.errors

    drawn = set(re.findall(r"[├└]── (\w+)", rankd.errors.__doc__ or "")) | {"RankdError"}
    kinds = {
        name
        for name, thing in vars(rankd.errors).items()
        if inspect.isclass(thing) and issubclass(thing, RankdError)
    }
    assert drawn == kinds
