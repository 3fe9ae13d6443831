"""``rankd demo`` as somebody meets it: it says where to look, and its three lines work."""

import json
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.standins import PURE, STRICT

COMMAND = [sys.executable, *STRICT, "-m", "rankd", "demo", "--port", "0"]
FEW = ["--players", "200", "--rate", "50"]


def lines_to_try(told: str) -> list[list[str]]:
    return [shlex.split(line) for line in told.splitlines() if line.startswith("  curl ")]


def asked(line: list[str]) -> Any:
    """Do what a line says: with curl where there is one, else as curl would."""
    if program := shutil.which("curl"):
        done = subprocess.run(
            [program, "-sS", "--noproxy", "*", "--fail", *line[1:]],
            capture_output=True,
            timeout=60,
            check=True,
        )
        return json.loads(done.stdout)
    url = next(part for part in line if part.startswith("http"))
    if "-d" not in line:
        return httpx.get(url, trust_env=False).raise_for_status().json()
    name, _, value = line[line.index("-H") + 1].partition(": ")
    body = line[line.index("-d") + 1]
    sent = httpx.post(url, content=body, headers={name: value}, trust_env=False)
    return sent.raise_for_status().json()


@pytest.mark.parametrize("kept", [True, False])
def test_it_serves_says_what_to_try_and_ends_cleanly(tmp_path: Path, kept: bool) -> None:
    where = ["--data", str(tmp_path / "kept")] if kept else []
    temporary = {"TMPDIR": str(tmp_path), "PYTHONPATH": ":".join(filter(None, sys.path))}
    if PURE:
        temporary["RANKD_PURE"] = "1"
    with subprocess.Popen(
        [*COMMAND, *FEW, *where],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=temporary,
        cwd=tmp_path,
    ) as process:
        assert process.stdout is not None
        told, answers, complaints = "", [], ""
        try:
            while "Ctrl-C" not in told:
                line = process.stdout.readline()
                assert line, "it ended"
                told += line
            answers = [asked(line) for line in lines_to_try(told)]
        finally:
            process.send_signal(signal.SIGINT)
            _, complaints = process.communicate(timeout=60)
    first, second, third = answers
    assert told.startswith("rankd ready on http://127.0.0.1:")
    assert [row["rank"] for row in first["standings"]] == [1, 2, 3]
    assert second["player"] == "you" and second["verdict"] == "counted"
    assert "you" in [row["player"] for row in third["standings"]]
    assert process.returncode == 0, complaints
    assert "Traceback" not in complaints
    assert [path.name for path in tmp_path.iterdir()] == (["kept"] if kept else [])


def test_what_cannot_be_asked_for_is_wrong_usage() -> None:
    for wrong in (["--players", "0"], ["--rate", "-1"], ["--port", "70000"]):
        done = subprocess.run([*COMMAND, *wrong], capture_output=True, timeout=60, check=False)
        assert done.returncode == 2, done.stderr
