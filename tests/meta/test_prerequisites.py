"""A machine that lacks a prerequisite is told which, before anything is fetched."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "requirements" / "prerequisites.py"


def check(**variables: str) -> subprocess.CompletedProcess[str]:
    """Run the check as it runs on a machine with these variables."""
    return subprocess.run(
        [sys.executable, str(SCRIPT)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def make_run(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run ``make run`` with an environment of its own."""
    given = {"VENV": str(folder / "env"), "PYTHON": sys.executable, **variables}
    return subprocess.run(
        ["make", "run", *(f"{name}={value}" for name, value in given.items())],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_machine_of_the_tests_lacks_nothing() -> None:
    done = check()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_missing_compiler_is_named() -> None:
    done = check(CC="no-such-compiler", RANKD_PURE="")
    assert done.returncode == 1
    assert "a C compiler (there is no no-such-compiler)" in done.stderr


def test_missing_headers_are_named(tmp_path: Path) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho 'fatal error: Python.h: No such file' >&2; exit 1\n")
    compiler.chmod(0o755)
    done = check(CC=str(compiler), RANKD_PURE="")
    assert done.returncode == 1
    assert "Python's headers for C (fatal error: Python.h: No such file)" in done.stderr


def test_pure_installation_needs_no_compiler() -> None:
    assert check(CC="no-such-compiler", RANKD_PURE="1").returncode == 0


def test_missing_venv_is_named(tmp_path: Path) -> None:
    """As on Debian, where ensurepip is in a package of its own."""
    (tmp_path / "ensurepip.py").write_text("raise ImportError('No module named ensurepip')")
    done = check(PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert "Python's venv (No module named ensurepip)" in done.stderr


def test_make_stops_before_it_fetches_anything(tmp_path: Path) -> None:
    done = make_run(tmp_path, CC="no-such-compiler", RANKD_PURE="")
    assert done.returncode == 2
    assert "a C compiler" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_make_names_an_interpreter_that_is_not_there(tmp_path: Path) -> None:
    done = make_run(tmp_path, PYTHON="no-such-python")
    assert done.returncode == 2
    assert "There is no no-such-python: rankd needs Python 3.11 or later" in done.stdout


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_pages_name_the_same_prerequisites(page: str) -> None:
    assert "Python 3.11 or later with its headers, a C compiler, `make` and `git`" in (
        ROOT / page
    ).read_text().replace("\n", " ")


def test_readme_shows_the_commands_that_the_check_advises() -> None:
    text = (ROOT / "README.md").read_text()
    names: dict[str, object] = {"__name__": "prerequisites"}
    exec(compile(SCRIPT.read_text(), str(SCRIPT), "exec"), names)
    packages = names["PACKAGES"]
    assert isinstance(packages, tuple)
    assert [command for _, command in packages if f"`{command}`" not in text] == []


def test_advised_packages_are_those_of_the_extras() -> None:
    """None advises to install rankd itself by name: there is no release."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [each for extra in project["optional-dependencies"].values() for each in extra]
    sources = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    advised = set(re.findall(r"pip install '?([\w\[\]-]+)", sources))
    assert advised == {each.partition(">")[0] for each in wanted if not each.startswith("rankd[")}
