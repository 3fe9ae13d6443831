"""Building runs is cut short at each of its steps: a program of its own, because it forks."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
STEPS_MIN = 40


def test_no_kill_and_no_failure_hides_a_players_fact() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.player_run_kills"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = re.search(r"(\d+) kills, (\d+) failures", done.stdout)
    assert told
    assert int(told[1]) >= 2 * STEPS_MIN
    assert int(told[2]) >= STEPS_MIN
