"""Where a benchmark ran, and how much memory it has: read from the system, not assumed."""

import ctypes
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[1]
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def facts() -> dict[str, Any]:
    """Return what someone needs in order to compare these figures with their own."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "commit": _commit(),
        "load_average": [round(load, 2) for load in os.getloadavg()],
    }


def available_bytes() -> int | None:
    """Return how much memory can be taken without swapping, where the system tells."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))


def resident_bytes(pid: int | None = None) -> int | None:
    """Return the memory a process really occupies, this one's by default; None if not told."""
    if pid is None:
        _return_free_memory()
    try:
        lines = Path(f"/proc/{pid or 'self'}/smaps_rollup").read_text().splitlines()
    except OSError:
        return None
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Rss:"))


def cpu_seconds(pid: int) -> float:
    """Return the processor time another process has used; 0 where the system does not tell."""
    try:
        # The name, in parentheses, may hold anything; user and system time are 12th and 13th after.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


def _return_free_memory() -> None:
    """Let malloc give back what was freed, so that it is not counted as in use."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):
        return  # Not glibc: what it keeps is counted.


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _commit() -> str:
    def git(*words: str) -> str:
        command = ["git", "-C", str(_ROOT), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", "src/rankd/rank", "benchmarks/*.py")
        return git("rev-parse", "--short=12", "HEAD") + (" and changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
