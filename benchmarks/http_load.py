"""A service in a process of its own, and wrk that loads it."""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

HOST = "http://127.0.0.1"
SECONDS = 5


class Load(NamedTuple):
    """The figures of one run of wrk."""

    per_second: float
    p99_ms: float


def require_wrk() -> None:
    """Exit with advice unless wrk is installed."""
    if shutil.which("wrk") is None:
        sys.exit("wrk is not installed: apt-get install wrk")


@contextmanager
def started_service(
    folder: Path, *flags: str, log: Path | None = None
) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """Start ``rankd serve`` on a free port; yield the port and the process."""
    command = [sys.executable, "-m", "rankd", "serve", "--port", "0", "--data", str(folder)]
    with (
        nullcontext() if log is None else log.open("a") as errors,
        subprocess.Popen(
            [*command, *flags], stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            yield int(line.rsplit(":", 1)[1]), process
        finally:
            process.terminate()


@contextmanager
def started_wrk(
    port: int, script: str, *, connections: int, seconds: int = SECONDS
) -> Iterator[subprocess.Popen[str]]:
    """Start wrk with a script."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(script)
        file.flush()
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}", "--latency", "-s", file.name]
        with subprocess.Popen(
            [*command, f"{HOST}:{port}"], stdout=subprocess.PIPE, text=True
        ) as process:
            yield process


def read_wrk(process: subprocess.Popen[str]) -> Load:
    """Wait for wrk to end and read its figures."""
    told = process.communicate()[0]
    assert "Non-2xx" not in told, told
    rate = re.search(r"Requests/sec:\s+([\d.]+)", told)
    p99 = re.search(r"99%\s+([\d.]+)(us|ms|s)", told)
    assert rate and p99, told
    return Load(float(rate[1]), float(p99[1]) * {"us": 1e-3, "ms": 1, "s": 1e3}[p99[2]])
