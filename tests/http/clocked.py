"""The real program under a clock that a test sets, in one process or in several.

    python -m tests.http.clocked serve --data FOLDER --port 0 --workers 2

is ``rankd serve`` with one difference: every process of it reads the time from the file that
``CLOCK_VARIABLE`` names, so that a year of windows passes in a test.
"""

import os
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.standins import fresh_environment

import rankd
from rankd.model.window import Instant

CLOCK_VARIABLE = "RANKD_TEST_CLOCK"
PATIENCE_SECONDS = 100
"""Nothing takes this long unless it would take for ever."""

READY = "rankd ready on http://127.0.0.1:"
_TIME = struct.Struct("<q")


class FileClock:
    """A clock in a file: one process sets it, any number read it."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or Path(os.environ[CLOCK_VARIABLE])

    def now(self) -> Instant:
        return _TIME.unpack(self._path.read_bytes())[0]  # type: ignore[no-any-return]

    def set(self, now: int) -> None:
        beside = self._path.with_suffix(".new")  # A reader meets the whole of one time.
        beside.write_bytes(_TIME.pack(now))
        beside.replace(self._path)


class Served(NamedTuple):
    """A service that answers."""

    port: int
    process: subprocess.Popen[str]
    log: Path

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Tell it to stop, and return its exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_SECONDS)


def environment(**more: str) -> dict[str, str]:
    """Return what a fresh shell would have, and where our sources are."""
    source = Path(rankd.__file__).parents[1]
    paths = [str(source), str(Path(__file__).parents[2])]
    return {**fresh_environment(), "PYTHONPATH": os.pathsep.join(paths), **more}


@contextmanager
def serving(
    home: Path,
    *options: str,
    clock: Path | None = None,
    module: str = "rankd",
    env: Mapping[str, str] | None = None,
) -> Iterator[Served]:
    """Serve ``home/data`` on a free port until the block ends; by a clock that is given, if any."""
    log, more = home / "service.log", dict(env or {})
    if clock is not None:
        module, more = "tests.http.clocked", {**more, CLOCK_VARIABLE: str(clock)}
    with log.open("a") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", module, "serve", "--data", str(home / "data"), *options],
            cwd=home,
            env=environment(**more),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=err,
            text=True,
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith(READY), line + log.read_text()
        yield Served(int(line.removeprefix(READY)), process, log)
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(PATIENCE_SECONDS)
        finally:
            process.kill()
            process.stdout.close()


def main() -> None:
    import rankd.embedded
    from rankd.api import workers

    rankd.embedded.WallClock = FileClock  # type: ignore[misc, assignment]
    workers.WORKER_MODULE = "tests.http.clocked"
    if workers.WORKER_VARIABLE in os.environ:
        from rankd.worker import main as begin
    else:
        from rankd.cli import main as begin
    begin()


if __name__ == "__main__":
    main()
