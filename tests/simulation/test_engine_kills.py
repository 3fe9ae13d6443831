"""A short stretch of the campaign of kills under the whole engine, and proof that it would tell."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.simulation.engine_kills import Diary, Findings, Intent, Judge, Told

from rankd.model.facts import Position, Recorded, ScoreSubmitted

ROOT = Path(__file__).parents[2]
CAMPAIGNS = [(30, 8), (8, 300)]
"""Kills, and boards with segments."""
SEED = 1
"""The same each time; what the child has done when it is killed differs all the same."""


@pytest.mark.parametrize(("kills", "boards"), CAMPAIGNS)
def test_no_kill_makes_the_engine_break_its_word(kills: int, boards: int) -> None:
    given = ["--kills", str(kills), "--seed", str(SEED), "--boards", str(boards)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.engine_kills", *given],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    told = re.search(r"(\d+) kills, (\d+) problems", done.stdout)
    assert told, done.stderr
    assert done.returncode == 0, done.stdout
    assert int(told[1]) == kills


def there(*marks: str) -> list[Recorded]:
    return [
        Recorded(Position(number), 0, ScoreSubmitted("b", "p", scores=(1,), actor=mark))
        for number, mark in enumerate(marks, start=1)
    ]


@pytest.mark.parametrize(
    ("applied", "facts", "wrong"),
    [
        ("yes", there("m", "m"), False),
        ("yes", there("m"), True),
        ("yes", there("m", "m", "m"), True),
        ("yes", [], True),
        ("no", [], False),
        ("no", there("m", "m"), True),
        ("unknown", [], False),
        ("unknown", there("m", "m"), False),
        ("unknown", there("m"), True),
        (None, there("m", "m"), False),
        (None, there("m", "x", "m", "m"), True),
    ],
)
def test_what_was_said_is_compared_with_what_is_there(
    applied: str | None, facts: list[Recorded], wrong: bool
) -> None:
    diary = Diary({"m": Intent("m", 2)}, {} if applied is None else {"m": Told("m", applied)})
    assert bool(Judge(Findings(), diary).compare(facts)) is wrong


def test_a_fact_is_where_it_was_said_to_be() -> None:
    diary = Diary({"m": Intent("m", 1)}, {"m": Told("m", "yes", [2])})
    assert not Judge(Findings(), diary).compare(there("x", "m"))
    assert Judge(Findings(), diary).compare(there("m", "x"))


def test_of_a_torn_line_nothing_was_said() -> None:
    diary = Diary()
    diary.read(b'{"type":"intent","mark":"m","facts":1}\n{"type":"told","mark":"m","appl')
    assert diary.applied("m") == "unknown"
