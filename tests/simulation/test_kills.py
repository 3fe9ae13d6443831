"""The process is killed at each operation of its disk: a program of its own, because it forks."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
OPERATIONS_MIN = 40
"""Of one life: making the file, six commits, some checkpoints, closing."""


def test_no_kill_takes_what_was_acknowledged() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.kills"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    told = re.search(r"(\d+) kills, (\d+) problems", done.stdout)
    assert told, done.stderr
    assert int(told[1]) >= 2 * OPERATIONS_MIN
    assert done.returncode == 0, done.stdout
