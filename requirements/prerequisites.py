"""The machine's part of an installation: Python with venv and headers, and a C compiler.

The Makefile runs it with the interpreter that .venv is made of, before anything is fetched. It
prints what is missing and what to install, and ends with code 1. It also runs on versions of
Python that are too old for the rest.
"""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig

PYTHON_MIN = (3, 11)

PACKAGES = (
    ("apt-get", "apt install git curl gcc python3-dev python3-venv make"),
    ("dnf", "dnf install git gcc python3-devel make"),
    ("apk", "apk add git curl gcc musl-dev linux-headers python3-dev make"),
    ("xcode-select", "xcode-select --install"),
)
"""For each package manager the command that README.md shows."""


def missing() -> "list[str]":
    """Return a line for each prerequisite that this machine lacks."""
    if sys.version_info[:2] < PYTHON_MIN:
        return [f"Python 3.11 or later ({sys.executable} is older; make PYTHON=... takes another)"]
    return [line for line in (_venv(), _compiler()) if line is not None]


def _venv() -> "str | None":
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError as exc:
        return f"Python's venv ({exc})"
    return None


def _compiler() -> "str | None":
    """Compile one line against Python's headers, by the compiler that setuptools uses."""
    if os.environ.get("RANKD_PURE", "0") not in ("", "0"):
        return None
    command = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    if shutil.which(command[0]) is None:
        return f"a C compiler (there is no {command[0]})"
    command += ["-I" + sysconfig.get_path("include"), "-x", "c", "-c", "-o", os.devnull, "-"]
    done = subprocess.run(
        command, input="#include <Python.h>\n", capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return None
    said = done.stderr.strip().splitlines() or [f"it exits with code {done.returncode}"]
    return f"Python's headers for C ({said[0]})"


def main() -> int:
    """Print what is missing and the command that brings it; exit with code 1 if anything is."""
    lacking = missing()
    if not lacking:
        return 0
    print("rankd cannot be installed here yet. Missing:", file=sys.stderr)
    for line in lacking:
        print(f"  - {line}", file=sys.stderr)
    commands = [command for manager, command in PACKAGES if shutil.which(manager)]
    if commands:
        print(f"On this system: {commands[0]}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
