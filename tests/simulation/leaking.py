"""The real program with a leak planted in it, to prove that ``endurance`` finds one.

PLANTED_LEAK=memory python -m tests.simulation.leaking serve --data FOLDER --port 0
"""

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from rankd.adapters.sqlite.database import FILE

LEAK_VARIABLE = "PLANTED_LEAK"
PERIOD_SECONDS = 0.1
LEAKED_BYTES = 1 << 20
"""With each period: a run of seconds must show it."""

_held: list[object] = []


def leak_memory() -> None:
    """Keep memory that is in use."""
    _held.append(os.urandom(LEAKED_BYTES))


def leak_descriptors() -> None:
    """Keep a file open."""
    _held.append(os.open(os.devnull, os.O_RDONLY))


def leak_disk() -> None:
    """Make a file in the data folder longer."""
    folder = Path(sys.argv[sys.argv.index("--data") + 1])
    if not (folder / FILE).exists():
        return  # A folder with other content would be refused.
    with (folder / "leaked").open("ab") as leaked:
        leaked.write(bytes(LEAKED_BYTES))


LEAKS: dict[str, Callable[[], None]] = {
    "memory": leak_memory,
    "descriptors": leak_descriptors,
    "disk": leak_disk,
}


def _leak(once: Callable[[], None]) -> None:
    while True:
        time.sleep(PERIOD_SECONDS)
        once()


def main() -> None:
    """Begin to leak, and serve."""
    from rankd.cli import main as begin

    leak = LEAKS[os.environ[LEAK_VARIABLE]]
    threading.Thread(target=_leak, args=(leak,), daemon=True).start()
    begin()


if __name__ == "__main__":
    main()
