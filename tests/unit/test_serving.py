"""A whole service: what its process does before it answers."""

import subprocess
import sys

LOOK = """
import gc
import rankd.serving as serving
serving.settle_down()
print(gc.get_freeze_count() > 10_000, gc.isenabled(), gc.get_threshold()[0])
"""


def test_what_is_there_at_the_start_is_not_searched_for_garbage_again() -> None:
    """In a process of its own, as a service is: what it does holds for the whole process."""
    done = subprocess.run(
        [sys.executable, "-c", LOOK], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["True", "True", "10000"]
