"""Small disks that really fill, or stand still: a few bytes, mounted for one test.

Only a process that may mount has them (root, or the root of a namespace of its own). Tests that
must run everywhere use ``faults.py``, which gives SQLite the same errors.
"""

import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FILLER = "filler"
"""The file that takes up the rest of a disk."""

_CHUNK_BYTES = 64 << 10
_FREEZE, _THAW = 0xC0045877, 0xC0045878
"""The requests of Linux, FIFREEZE and FITHAW."""


class CannotMount(Exception):
    """This process may not mount a disk."""


@contextmanager
def small_disk(folder: Path, size_bytes: int) -> Iterator[Path]:
    """Mount a disk of so many bytes at a folder, which is made. Raises CannotMount."""
    folder.mkdir(exist_ok=True)
    options = f"size={size_bytes},mode=0700"
    _run("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder))
    try:
        yield folder
    finally:
        _run("umount", "--lazy", str(folder))


@contextmanager
def freezable_disk(folder: Path, size_bytes: int) -> Iterator[Path]:
    """Mount a disk at a folder, which is made, that can stand still. Raises CannotMount."""
    image = folder.with_suffix(".image")
    folder.mkdir(exist_ok=True)
    with image.open("wb") as file:
        file.truncate(size_bytes)
    _run("mkfs.ext4", "-q", str(image))
    _run("mount", "-o", "loop", str(image), str(folder))
    try:
        yield folder
    finally:
        _run("umount", "--lazy", str(folder))


@contextmanager
def standstill(disk: Path) -> Iterator[None]:
    """Let no write to a disk end meanwhile: writers wait, as for a disk that hangs."""
    folder = os.open(disk, os.O_RDONLY)
    try:
        fcntl.ioctl(folder, _FREEZE, 0)
        try:
            yield
        finally:
            fcntl.ioctl(folder, _THAW, 0)
    finally:
        os.close(folder)


def fill(disk: Path) -> None:
    """Take up all that is left on a disk."""
    with (disk / FILLER).open("ab", buffering=0) as file:
        for size in (_CHUNK_BYTES, 4_096, 1):
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError:
                continue


def empty(disk: Path) -> None:
    """Free the space that ``fill`` took."""
    (disk / FILLER).unlink(missing_ok=True)


def make_read_only(disk: Path, *, read_only: bool = True) -> None:
    """Let a mounted disk be read only, or written again. Raises CannotMount."""
    _run("mount", "-o", f"remount,{'ro' if read_only else 'rw'}", str(disk))


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as exc:
        raise CannotMount(str(exc)) from exc
    if done.returncode:
        raise CannotMount(done.stderr.strip())
