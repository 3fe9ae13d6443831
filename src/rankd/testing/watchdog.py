"""Stops a server whose starter died without doing so. A script of its own: see servers.py.

A test run can end by ``kill -9``, and then no ``finally`` runs. So each server has this process
beside it, which waits for its standard input to end. The kernel ends it however the starter dies,
on every system and whichever thread had started the server; a parent-death signal can say neither.

Usage: watchdog.py FOLDER, and on standard input one line "PID SIGNAL" once the server runs, then
"done" if the starter has stopped it itself. FOLDER is removed with the server; "" keeps it.
"""

import os
import shutil
import signal
import sys
import time

_PATIENCE_SECONDS = 5.0  # As long as servers.py waits; a server slower than this is killed.


def stop_group(pid: int, number: int) -> None:
    """Ask the process group to end, wait a little, then insist."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    try:
        os.killpg(pid, number)
        while time.monotonic() < deadline:
            time.sleep(0.02)
            os.killpg(pid, 0)
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # macOS says the latter of a zombie.
        return


def main(folder: str) -> None:
    """Wait for the starter to go; stop the processes it left running."""
    lines = sys.stdin.read().splitlines()  # Until the starter is gone.
    if lines[-1:] == ["done"]:
        return
    for line in lines:
        pid, number = line.split()
        stop_group(int(pid), int(number))
    if folder:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1])
