"""A whole service: what its process does before it answers."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from rankd.app import service
from rankd.embedded import WallClock
from rankd.errors import InvalidSetting
from rankd.settings import Settings

LOOK = """
import gc
import rankd.app as serving
serving.settle_down()
print(gc.get_freeze_count() > 10_000, gc.isenabled(), gc.get_threshold()[0])
"""


def test_what_is_there_at_the_start_is_not_searched_for_garbage_again() -> None:
    """In a process of its own, as a service is: what it does holds for the whole process."""
    done = subprocess.run(
        [sys.executable, "-c", LOOK], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["True", "True", "10000"]


def served(settings: Settings) -> None:
    def unexpected(*_: object) -> None:
        raise AssertionError("it serves")

    asyncio.run(service(settings, clock=WallClock(), tell=unexpected, ready=unexpected))


@pytest.mark.parametrize("role", ["query", "manager"])
def test_a_node_that_takes_no_scores_is_not_started_where_nobody_else_can(
    role: str, tmp_path: Path
) -> None:
    """It has the folder to itself, so nothing would ever be in it that is not there already."""
    with pytest.raises(InvalidSetting, match="nodes that share a ledger") as refused:
        served(Settings(role=role, data=str(tmp_path / "data"), port=0))
    assert refused.value.setting == "role"
    assert list(tmp_path.iterdir()) == []


def test_a_role_that_there_is_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="must be one of all, api, query"):
        served(Settings(role="reader", data=str(tmp_path / "data"), port=0))
