"""The wheel has everything that the command needs: native parts, SQL, Lua, the page."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import urllib.request
import venv
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(600)

ROOT = Path(__file__).parents[2]
SOURCES = ("src", "setup.py", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in", "Makefile")
BUILT = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info")

CONTENTS = """
import json
from importlib.resources import files
import rankd
adapters = files("rankd.adapters")
print(json.dumps({
    "folder": rankd.__path__[0],
    "native": [
        str(__import__(name))
        for name in (
            "rankd.rank._ranklist", "rankd.templates._native", "rankd.api._request_head",
            "rankd.adapters.sqlite._player_entries", "rankd.rules._native",
        )
    ],
    "data": [
        len(list(folder.iterdir()))
        for folder in (
            adapters / "sqlite" / "sql" / "migrations",
            adapters / "postgres" / "sql" / "migrations",
            adapters / "redis" / "lua",
            files("rankd.dashboard") / "page",
        )
    ],
}))
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel in it, and the dependencies of this one beside."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / "source" / name, ignore=BUILT)
        else:
            shutil.copy(ROOT / name, folder / "source" / name)
    wheel = make_wheel(folder / "source", folder / "tools")
    venv.create(folder / "env", with_pip=False)
    (site,) = (folder / "env" / "lib").glob("python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("platlib"))
    install = [sys.executable, "-m", "pip", "--python", str(folder / "env"), "install", "--quiet"]
    subprocess.run([*install, "--no-deps", "--no-index", str(wheel)], check=True, timeout=100)
    return folder / "env" / "bin"


def make_wheel(source: Path, tools: Path) -> Path:
    """Run ``make wheel`` on a copy of the tree, with this interpreter in place of a new .venv."""
    (source / "requirements").mkdir()
    shutil.copy2(ROOT / "requirements" / "run.txt", source / "requirements")
    (tools / "bin").mkdir(parents=True)
    python = tools / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    for stamp in (".python", ".run"):
        (tools / stamp).touch()
    clean = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "RANKD_PURE")
    }
    command = ["make", "wheel", f"VENV={tools}"]
    subprocess.run(command, cwd=source, check=True, timeout=500, env=clean)
    (wheel,) = (source / "dist").glob("rankd-*.whl")
    return wheel


def run(environment: Path, *words: str) -> str:
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(environment / words[0]), *words[1:]],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=clean,
        cwd=environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_wheel_carries_native_parts_and_data_files(environment: Path) -> None:
    found = json.loads(run(environment, "python", "-c", CONTENTS))
    assert found["folder"].startswith(str(environment.parent))
    assert len(found["native"]) == 5
    assert all(count >= 3 for count in found["data"]), found["data"]


def test_installed_command_serves_and_counts(environment: Path, tmp_path: Path) -> None:
    assert run(environment, "rankd", "--version").startswith("rankd")
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(environment / "rankd"), "serve", "--port", "0", "--data", str(tmp_path / "d")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=clean) as service:
        try:
            assert service.stdout is not None
            url = service.stdout.readline().split()[-1]
            run(environment, "rankd", "board", "apply", "arena", "--url", url, "--yes")
            run(environment, "rankd", "submit", "arena", "ada", "7", "--url", url)
            assert "ada" in run(environment, "rankd", "top", "arena", "--url", url)
            with urllib.request.urlopen(f"{url}/") as page:
                assert b"<!doctype html>" in page.read()[:100].lower()
        finally:
            service.terminate()
