"""Restores and backups are killed at each step: a program of its own, because it forks."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
KILLS_MIN = 150
"""Four ways to copy, into a folder that is absent or empty, of about twenty-five steps each."""


def test_a_killed_copy_leaves_a_folder_that_is_refused_or_whole() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.copy_kills"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    told = re.search(r"(\d+) kills, (\d+) problems", done.stdout)
    assert told, done.stderr
    assert int(told[1]) >= KILLS_MIN
    assert done.returncode == 0, done.stdout
