"""A test is skipped for the same reason on every machine, or named at the end of the run."""

import ast
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.not_tested import MARK
from tests.standins import NO_NATIVE_PART

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]

HOLD_ANYWHERE = {
    "NO_NATIVE_PART",  # RANKD_PURE=1 was asked for
    "takes long: RANKD_HYPOTHESIS=long",
    "this one is not shared",
    "this one waits",
}
"""Reasons that are the same on every machine."""


def skips(tree: ast.AST) -> Iterator[ast.expr]:
    """The reason of each pytest.skip(...) and pytest.mark.skipif(...)."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="pytest"), attr="skip")):
                yield node.args[0]
            case ast.Call(func=ast.Attribute(attr="skipif" | "skip")) if node.keywords:
                yield from (word.value for word in node.keywords if word.arg == "reason")


def text_of(reason: ast.expr) -> str:
    """What is known of a reason without running: a constant, a name, how an f-string begins."""
    match reason:
        case ast.Constant(value=str(text)) | ast.JoinedStr(values=[ast.Constant(text), *_]):
            return str(text)
        case _:
            return ast.unparse(reason)


SOURCES = [*ROOT.glob("tests/**/*.py"), *ROOT.glob("src/rankd/testing/**/*.py")]


def test_skips_for_want_of_something_are_marked() -> None:
    unmarked = {
        f"{path.relative_to(ROOT)}: {text_of(reason)}"
        for path in SOURCES
        if path.name != "not_tested.py"
        for reason in skips(ast.parse(path.read_text()))
        if text_of(reason) not in HOLD_ANYWHERE and not text_of(reason).startswith(MARK)
    }
    assert not unmarked
    assert NO_NATIVE_PART


def test_a_run_ends_by_naming_what_was_not_tested(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeconftest("from tests.conftest import pytest_terminal_summary")
    pytester.makepyfile(
        """
        import pytest
        from tests.not_tested import not_tested

        def test_first(): not_tested("the page", "no browser")
        def test_second(): not_tested("the page", "no browser")
        def test_third(): pytest.skip("takes long")
        """
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *filter(None, sys.path)]))
    shown = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider", "-n", "1").outlines
    begin = next(n for n, line in enumerate(shown) if "NOT TESTED on this machine" in line)
    assert shown[begin + 1 : -1] == ["NOT TESTED, the page: no browser"]
    assert "3 skipped" in shown[-1]
