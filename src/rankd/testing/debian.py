"""Programs of Debian's packages, unpacked into this environment without root.

``python -m rankd.testing.debian NAME...`` downloads a program, with the libraries and fonts it
needs and the machine lacks, into ``servers/NAME`` of this environment. Works on Debian and its
descendants; elsewhere it says why not and ends with code 1.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

PACKAGES = {
    "chromium": ("chromium-headless-shell", "chromium-common"),
    "haproxy": ("haproxy",),
    "pgbouncer": ("pgbouncer",),
}
"""Packages that are unpacked for a program, also where they are installed in another place."""

_FOUND_BY_PATH = ("lib", "fonts-", "fontconfig-", "xkb-data")
"""Beginnings of the names of needed packages that work without being installed."""

_FONTS = "fonts.conf"  # Debian's own names folders of the machine.
_FONTS_TEXT = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{box}/usr/share/fonts</dir><cachedir>{box}/var/cache/fontconfig</cachedir></fontconfig>
"""

_COMMAND_SECONDS_MAX = 600.0
"""A slow connection needs minutes for a browser."""


class PackagesUnavailable(RuntimeError):
    """A package could not be downloaded or unpacked. The end of the command's output tells why."""


def unpacked(program: str) -> Path:
    """Return the folder into which a program is unpacked, whether or not it is there."""
    return Path(sys.prefix) / "servers" / program


def environment(binary: Path) -> dict[str, str]:
    """Return the variables that an unpacked binary needs; none for an installed one."""
    box = next((above.parent for above in binary.parents if above.name == "usr"), Path("/"))
    if box == Path("/"):
        return {}
    libraries = {found.parent for found in box.glob("**/*-linux-gnu/**/lib*.so*")}
    found = {"LD_LIBRARY_PATH": os.pathsep.join(sorted(map(str, libraries)))} if libraries else {}
    if (box / _FONTS).is_file():
        found["FONTCONFIG_FILE"] = str(box / _FONTS)
    return found


def fetch(program: str) -> Path:
    """Unpack a program and return its folder. Raises PackagesUnavailable; then nothing is left.

    Package lists that are missing or out of date are fetched anew, into a folder of their own.
    """
    folder = unpacked(program)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as made:
        place = Path(made)
        try:
            _download(program, place, options=[])
        except PackagesUnavailable:
            _download(program, place, options=_fresh_lists(place))
        for package in place.glob("*.deb"):
            _run(["dpkg", "-x", package.name, "box"], place)
        if (place / "box/usr/share/fonts").is_dir():
            (place / "box" / _FONTS).write_text(_FONTS_TEXT.format(box=folder))
        shutil.rmtree(folder, ignore_errors=True)
        (place / "box").rename(folder)
    return folder


def _download(program: str, place: Path, options: Sequence[str]) -> None:
    packages = PACKAGES[program]
    simulated = ["apt-get", *options, "--simulate", "--no-install-recommends", "install"]
    steps = map(str.split, _run([*simulated, *packages], place).splitlines())
    missing = {step[1] for step in steps if step[:1] == ["Inst"]}
    needed = {name for name in missing if name.startswith(_FOUND_BY_PATH)}
    _run(["apt-get", *options, "--quiet", "download", *sorted({*packages, *needed})], place)


def _fresh_lists(place: Path) -> list[str]:
    """Fetch the package lists into ``place``; return the options with which they are used."""
    (place / "lists/partial").mkdir(parents=True)
    (place / "cache/archives/partial").mkdir(parents=True)
    places = {"Dir::State::lists": place / "lists", "Dir::Cache": place / "cache"}
    options = [word for name, path in places.items() for word in ("-o", f"{name}={path}")]
    _run(["apt-get", *options, "--quiet", "update"], place)
    return options


def _run(command: Sequence[str], place: Path) -> str:
    try:
        return subprocess.run(
            command,
            cwd=place,
            env={**os.environ, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_COMMAND_SECONDS_MAX,
            check=True,
        ).stdout
    except subprocess.CalledProcessError as failed:
        raise PackagesUnavailable(f"{command[0]}: {failed.stderr.strip()[-500:]}") from failed
    except (OSError, subprocess.TimeoutExpired) as failed:
        raise PackagesUnavailable(str(failed)) from failed


def main(programs: Sequence[str]) -> int:
    """Fetch programs. Exit code 1 if one of them is not to be had."""
    unavailable = 0
    for program in programs:
        try:
            sys.stdout.write(f"unpacked {fetch(program)}\n")
        except PackagesUnavailable as reason:
            sys.stdout.write(f"no {program}: {reason}\n")
            unavailable = 1
    return unavailable


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
