"""One save while it is being written: a folder that counts when it is complete, or vanishes.

A save writes a new folder beside the old one and everything in it to the disk. Then a single
rename of ``current`` decides, and only after it does the old one go. So whenever the power fails,
``current`` names a folder that is complete.

All of it blocks, so it happens on a thread, one call after another.
"""

import hashlib
import secrets
import shutil
from pathlib import Path

import msgspec

from rankd.adapters.memory import snapshot_format
from rankd.adapters.memory.snapshot_scan import ScanEnd, ScanStep


class SaveFolder:
    """The folder of one save."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._mark = folder, secrets.token_hex(16)
        self._path = folder / self._mark
        self._files: dict[str, snapshot_format.FrameFile] = {}
        self._counts = False
        """Whether ``current`` may name it."""

    def begin(self) -> None:
        """Make the folder and the files that steps go to."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path.mkdir(mode=0o700)
        for name in (snapshot_format.BASE, snapshot_format.TOUCHED, snapshot_format.NOTES):
            self._files[name] = snapshot_format.FrameFile(self._path / name)

    def write(self, step: ScanStep) -> None:
        """Write the entries of one step."""
        self._files[snapshot_format.BASE].write(map(snapshot_format.encode, step.base))
        self._files[snapshot_format.TOUCHED].write(map(snapshot_format.encode, step.touched))

    def finish(self, ending: ScanEnd) -> None:
        """Write the rest, bring it to the disk, and let this save be the one that counts."""
        self.write(ending.step)
        self._files[snapshot_format.NOTES].write(ending.notes)
        written = {name: file.finish() for name, file in self._files.items()}
        contents = snapshot_format.Contents(self._mark, ending.checkpoint, ending.rankings, written)
        body = snapshot_format.encode(contents)
        snapshot_format.write_synced(self._path / snapshot_format.CONTENTS, body)
        snapshot_format.sync_names(self._path)
        snapshot_format.sync_names(self._folder)
        self._decide(hashlib.sha256(body).hexdigest())
        self._clear_others()

    def _decide(self, sha256: str) -> None:
        current = snapshot_format.CurrentSave(snapshot_format.VERSION, self._mark, sha256)
        path = self._folder / snapshot_format.CURRENT
        unfinished = path.with_name(f".{path.name}.unfinished")
        snapshot_format.write_synced(unfinished, msgspec.json.encode(current))
        self._counts = True  # From here on nobody knows, until the names are on the disk.
        unfinished.replace(path)
        snapshot_format.sync_names(self._folder)

    def _clear_others(self) -> None:
        for other in self._folder.iterdir():
            if other != self._path and snapshot_format.MARK.fullmatch(other.name):
                shutil.rmtree(other, ignore_errors=True)

    def end(self) -> None:
        """Let go of the files, and of the folder if it does not count. Safe to repeat."""
        for file in self._files.values():
            file.close()
        if not self._counts:
            shutil.rmtree(self._path, ignore_errors=True)
