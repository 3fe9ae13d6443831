"""The real program: the service in a process of its own, and commands that speak to it.

To start an interpreter takes longer than most commands do. So commands run in this process, from
their arguments to their exit code, and a few in processes of their own show that it is the same.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from click.testing import CliRunner
from tests.standins import fresh_environment

from rankd.cli import main

PATIENCE_SECONDS = 100
"""Nothing takes this long unless it would take for ever."""

READY = "rankd ready on "


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return what a fresh shell would have."""
    return {**fresh_environment(), "NO_COLOR": "1", **(more or {})}


class Ran(NamedTuple):
    """What a command came to."""

    code: int
    out: str
    err: str


def run(*args: object, stdin: str = "", **env: str) -> Ran:
    """Run a command in this process, in the folder it is in."""
    bare = {name: None for name in os.environ if name.startswith("RANKD_")}
    done = CliRunner(env={**bare, **env}).invoke(main, [*map(str, args)], input=stdin)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Ran(done.exit_code, done.stdout, done.stderr)


def process(*args: object, cwd: Path) -> Ran:
    """Run a command in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "rankd", *map(str, args)],
        cwd=cwd,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


class Served(NamedTuple):
    """A service that answers."""

    url: str
    process: subprocess.Popen[str]
    folder: Path
    log: Path

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Tell it to stop, and return its exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_SECONDS)


@contextmanager
def serving(home: Path, *options: str, env: Mapping[str, str] | None = None) -> Iterator[Served]:
    """Serve ``home/data`` on a free port until the block ends."""
    folder, log = home / "data", home / "service.log"
    command = [sys.executable, "-m", "rankd", "serve", "--data", str(folder), "--port", "0"]
    with log.open("a") as err:
        process = subprocess.Popen(
            [*command, *options],
            cwd=home,
            env=environment(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=err,
            text=True,
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith(READY), line + log.read_text()
        yield Served(line.removeprefix(READY).strip(), process, folder, log)
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(PATIENCE_SECONDS)
        process.stdout.close()
