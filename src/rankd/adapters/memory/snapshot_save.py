"""A save of an index that goes on changing: reading it, and the files of the save.

The index is read step by step, so that the result is consistent. Each step is short, and the index
may change between two of them. The players are read by their numbers, each ranking in its order,
going on behind the last entry seen. A player touched meanwhile may be met twice, or not at all, or
with an old key; but the touch is noted, and the player's last state is written behind the rest.
While that is being written others are touched, fewer each time; and when only few are left, the
last step takes them, the checkpoint and the notes together, between two applies. The files then
describe that one moment:

1. A player not touched in a ranking stayed in one place of it throughout, and was met there once.
2. The last state of a touched player was written after its last touch.
3. A player in a ranking has the number it had then. Either both were so throughout, or the player
   was put there meanwhile, which is a touch, and records the number too; or a draft brought it,
   whose players are written as it is read.

The files::

    folder/
        current             names the save that counts, and the SHA-256 of its contents
        5f0c…/              one save, under a name that was never used before
            contents        checkpoint, rankings, size and SHA-256 of each other file
            base            players and entries, read while the index went on
            touched         the last state of every player touched meanwhile
            notes           the core's own state, beside the index
        archives/           entries of sealed windows, which no save repeats (`archive_store`)

``base``, ``touched`` and ``notes`` are rows of frames, each 4 bytes of length (little-endian) and
so many bytes. Those of the first two are MessagePack. Players come first in ``base``, then one
ranking after another, each in its order. In ``touched`` a later frame outdoes an earlier one, and
all outdo ``base``. Rankings go by the place they were given in this save, players by the numbers
they had in it. Rankings that the contents do not name are ignored.
"""

import hashlib
import os
import re
import secrets
import shutil
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import IO, NamedTuple

import msgspec

from rankd.adapters import sync_folder
from rankd.adapters.memory.archive_format import ArchiveHead
from rankd.adapters.memory.archive_store import ArchiveStore
from rankd.adapters.memory.archived_ranking import ArchivedRanking, ChangedPlayer
from rankd.adapters.memory.index_state import Entries, IndexState, count_through, little_endian
from rankd.errors import SnapshotDamaged
from rankd.model.facts import Position
from rankd.ports import Progress, Ranking

VERSION = 3

VERSIONS_READ = (2, 3)
"""Before 3 there were no archived rankings."""

FRAME_BYTES_MAX = 1 << 28
"""A damaged length must not ask for all memory; a step's entries and their metadata are less."""

READ_BYTES = 1 << 20
"""So much is hashed at once."""

CURRENT, CONTENTS, BASE, TOUCHED, NOTES = "current", "contents", "base", "touched", "notes"
MARK = re.compile(r"[0-9a-f]{32}")

HEAD_BYTES = 4
"""The length of a frame, little-endian."""


class CurrentSave(msgspec.Struct, forbid_unknown_fields=True):
    """Which save counts."""

    version: int
    mark: str
    sha256: str


class SavedRanking(msgspec.Struct, array_like=True):
    """A ranking that was saved."""

    place: int
    ranking: Ranking
    key_bytes: int
    dense: bool
    count: int


class SavedArchive(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A ranking whose entries are in an archive, with the changes since."""

    ranking: Ranking
    name: str
    """Of the file of the archive; empty if its bytes are here."""
    size: int
    head: ArchiveHead
    body: bytes | None
    changed: list[ChangedPlayer]

    @classmethod
    def of(cls, ranking: Ranking, archived: ArchivedRanking) -> "SavedArchive":
        """Return an archived ranking as it is now."""
        stored = archived.archive
        return cls(
            ranking, stored.name, stored.size, stored.head, stored.body, archived.changed_entries()
        )

    def archived(self, store: ArchiveStore) -> ArchivedRanking:
        """Return the ranking. Raises WindowArchiveDamaged."""
        if self.body is not None:
            return ArchivedRanking(store.in_memory(self.body), self.changed)
        return ArchivedRanking(store.open(self.name, self.size, self.head), self.changed)


class FileDigest(msgspec.Struct, array_like=True):
    """The size and digest that a sound file has."""

    size: int
    sha256: bytes


class Contents(msgspec.Struct, forbid_unknown_fields=True):
    """The checkpoint, rankings and files of one save."""

    mark: str
    checkpoint: int
    rankings: list[SavedRanking]
    files: dict[str, FileDigest]
    archived: list[SavedArchive] = []


class IdFrame(msgspec.Struct, tag="named", array_like=True):
    """Players: numbers, 4 bytes each; lengths of ids, 2 bytes each; ids end to end."""

    numbers: bytes
    lengths: bytes
    text: bytes


class EntryFrame(msgspec.Struct, tag="piece", array_like=True):
    """Entries of one ranking, and the metadata of some of them."""

    place: int
    numbers: bytes
    keys: bytes
    shown: list[int]
    values: list[bytes]


class RemovedFrame(msgspec.Struct, tag="gone", array_like=True):
    """Players without an entry in a ranking."""

    place: int
    numbers: bytes


Frame = IdFrame | EntryFrame | RemovedFrame

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Frame).decode


def packed(numbers: "array[int]") -> bytes:
    """Return numbers as files have them."""
    return little_endian(numbers).tobytes()


def unpacked(typecode: str, raw: bytes) -> "array[int]":
    """Return the numbers that were packed."""
    numbers = array(typecode)
    numbers.frombytes(raw)
    return little_endian(numbers)


# ------------------------------------------------------------------------------ writing


PRIVATE_FILE = 0o600
"""The mode of every file: its owner's alone."""

SYNCED_TOGETHER_BYTES = 4 << 20
"""Files are synced after each of so many bytes: one sync at the end would keep the disk busy for as
long as a second, and every commit of the ledger waits behind it."""


class FrameFile:
    """A file of frames that is being written."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("xb", buffering=0)
        path.chmod(PRIVATE_FILE)
        self._digest, self._size, self._synced = hashlib.sha256(), 0, 0

    def write(self, bodies: Iterable[bytes]) -> None:
        """Write frames, one after another.

        All in one call: each call lets other threads run, and waits until they let this one.
        """
        parts: list[bytes] = []
        for body in bodies:
            assert len(body) <= FRAME_BYTES_MAX, f"a frame of {len(body)} bytes"
            parts += (len(body).to_bytes(HEAD_BYTES, "little"), body)
        if parts:
            self._append(b"".join(parts))

    def _append(self, data: bytes) -> None:
        self._digest.update(data)
        self._size += len(data)
        rest = memoryview(data)
        while rest:  # A disk that is nearly full takes what it can.
            rest = rest[self._file.write(rest) :]
        if self._size - self._synced >= SYNCED_TOGETHER_BYTES:
            os.fdatasync(self._file.fileno())
            self._synced = self._size

    def finish(self) -> FileDigest:
        """Sync the file, and return its size and digest."""
        os.fsync(self._file.fileno())
        self._file.close()
        return FileDigest(self._size, self._digest.digest())

    def close(self) -> None:
        """Let go of the file, finished or not. Safe to repeat."""
        self._file.close()


def write_synced(path: Path, body: bytes) -> None:
    """Write a whole file to the disk."""
    with path.open("wb") as file:
        path.chmod(PRIVATE_FILE)
        file.write(body)
        file.flush()
        os.fsync(file.fileno())


# ------------------------------------------------------------------------------ reading


def check(path: Path, written: FileDigest, tell: Callable[[int], None]) -> None:
    """Raise SnapshotDamaged unless a file has its size and digest; report the bytes read."""
    if path.stat().st_size != written.size:
        raise SnapshotDamaged(f"{path} has another size than when it was saved")
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(READ_BYTES):
            digest.update(part)
            tell(len(part))
    if digest.digest() != written.sha256:
        raise SnapshotDamaged(f"{path} is not what was saved")


def frames(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the frames of a file."""
    while head := file.read(HEAD_BYTES):
        length = int.from_bytes(head, "little") if len(head) == HEAD_BYTES else FRAME_BYTES_MAX + 1
        body = file.read(length) if length <= FRAME_BYTES_MAX else b""
        if len(body) != length:
            raise SnapshotDamaged(f"{file.name} is damaged or cut short at byte {file.tell()}")
        yield body


class DirtySet:
    """The players touched since a save began and not written since; the unread rankings.

    Nothing else needs to be noted: an untouched player stayed in one place throughout, under one
    number. Noting must cost an apply next to nothing, so a touch is a number put behind others,
    which is a copy of memory for a whole batch. A player touched twice is noted twice; the save
    removes the repetition.
    """

    def __init__(self, rankings: Iterable[Entries]) -> None:
        self.unread = dict.fromkeys(entries for entries in rankings if not entries.draft)
        """Rankings to be read from beginning to end, in this order."""
        self.adoptions: set[Entries] = set()
        """Adopted drafts, whose players' numbers were not noted."""
        self.players = array("I")
        """Players that may have got a number."""
        self._notes: dict[Entries, array[int]] = {}
        self._count = 0
        """How many numbers the notes have."""

    @property
    def waiting(self) -> int:
        """How many touches were not taken yet."""
        return max(self._count, len(self.players))

    def touched(self, entries: Entries, numbers: Iterable[int]) -> None:
        """Note that these were put into a ranking, moved in it, taken out, or shown otherwise.

        Cheapest with an ``array("I")``. NO_PLAYER must not be among them.
        """
        if entries.draft:  # It is not saved; if it is adopted, it is read as a whole.
            return
        notes = self._notes.get(entries)
        if notes is None:
            notes = self._notes[entries] = array("I")
        before = len(notes)
        notes.extend(numbers)
        self._count += len(notes) - before
        self.players += notes[before:]

    def adopted(self, entries: Entries) -> None:
        """Note that a draft became a ranking."""
        self.unread[entries] = None
        self.adoptions.add(entries)

    def dropped(self, entries: Entries) -> None:
        """Note that a ranking is gone."""
        self.unread.pop(entries, None)
        self._count -= len(self._notes.pop(entries, ()))

    def take(self, count: int, cost: int) -> Iterator[tuple[Entries, set[int]]]:
        """Yield up to so many touches that were not taken yet, each number of a ranking once.

        A ranking costs as much as so many touches more.
        """
        while count > 0 and self._notes:
            entries, notes = self._notes.popitem()
            some = notes[-count:]
            del notes[-count:]  # From the end: what is left need not move.
            if notes:
                self._notes[entries] = notes
            self._count -= len(some)
            count -= len(some) + cost
            yield entries, set(some)

    def take_players(self, count: int) -> set[int]:
        """Return up to so many players that may have got a number."""
        some = self.players[-count:]
        del self.players[-count:]
        return set(some)


STEP_ENTRIES = 1 << 13
"""A few milliseconds of work, and enough to be worth handing to a thread."""

RANKING_ENTRIES = 1 << 4
"""The cost of a ranking by itself, even empty, counted in entries: there may be very many."""

STEP_TOUCHES = 1 << 12
"""Fewer than entries: each is looked up by itself, and so is its player."""

LAST_TOUCHES_MAX = 1 << 12
"""So few are left to the last step."""

PASSES_MAX = 8
"""Each pass is over the entries touched during the one before. Where the disk is slow and the
applies are many they may not become shorter, so their steps become longer; and the rest after so
many passes is left to the last step: a pause, but a true save."""


class ScanStep(NamedTuple):
    """The entries read at one moment."""

    base: list[Frame]
    touched: list[Frame]


class ScanEnd(NamedTuple):
    """The rest, read at the last moment, which is the moment of the whole save."""

    step: ScanStep
    checkpoint: Position
    rankings: list[SavedRanking]
    archived: list[SavedArchive]
    notes: Iterable[bytes]


class Scan:
    """The reading of one index, from the first step to the last."""

    def __init__(self, state: Callable[[], IndexState], touched: DirtySet) -> None:
        self._state, self._touched = state, touched
        self._places: dict[Entries, int] = {}
        self._reading: Entries | None = None
        """The ranking that was read last, if not to its end."""
        self._last: tuple[bytes, str] = (b"", "")
        """The last entry read of it."""
        entries = sum(len(entries.ranks) for entries in touched.unread)
        self._done, self._total = 0, len(state().held) + entries

    @property
    def progress(self) -> Progress:
        """How far it has come; touches are not counted, since their number is unknown."""
        return Progress(min(self._done, self._total), self._total, "reading", "standing")

    def steps(self) -> Iterator[ScanStep]:
        """Yield step after step until few touches are left: then the last pass follows."""
        for base in chain(self._table(), self._lists()):
            # Also before the end, so that the notes of a long save stay small.
            full = self._touched.waiting >= STEP_TOUCHES
            yield ScanStep(base, self._touches(STEP_TOUCHES) if full else [])
        for longer in range(1, PASSES_MAX):
            yield from self._pass(longer)

    def last_pass(self) -> Iterator[ScanStep]:
        """Yield steps over the changes meanwhile: then ``ending`` must follow at once."""
        yield from self._pass(1)

    def _pass(self, longer: int) -> Iterator[ScanStep]:
        """Yield steps over the entries touched until now, unless they are few, or adopted."""
        if self._touched.waiting > LAST_TOUCHES_MAX:
            for _ in range(0, self._touched.waiting, STEP_TOUCHES * longer):
                yield ScanStep([], self._touches(STEP_TOUCHES * longer))
        yield from (ScanStep(base, []) for base in self._lists())

    def ending(self, notes: Callable[[], Iterable[bytes]]) -> ScanEnd:
        """Read all that is left."""
        assert not self._touched.unread, "the steps end when every ranking was read"
        step = ScanStep([], [])
        while self._touched.waiting:
            step.touched.extend(self._touches(self._touched.waiting))
        state = self._state()
        rankings = [
            SavedRanking(self._place(entries), ranking, *entries.shape, len(entries.ranks))
            for ranking, entries in state.rankings.items()
            if not entries.draft
        ]
        archived = [SavedArchive.of(*item) for item in state.archived.items()]
        return ScanEnd(step, state.checkpoint, rankings, archived, notes())

    def _place(self, entries: Entries) -> int:
        return self._places.setdefault(entries, len(self._places))

    # -- players --

    def _table(self) -> Iterator[list[Frame]]:
        first = 0
        while first < (end := len(self._state().held)):
            last = min(first + STEP_ENTRIES, end)
            self._done += last - first
            named = self._named(range(first, last))
            first = last
            yield named

    def _named(self, numbers: Iterable[int]) -> list[Frame]:
        """Return the ids of these numbers. Free numbers are in no ranking."""
        players = self._state().players
        known = array("I", [number for number in numbers if number in players])
        if not known:
            return []
        ids = [id.encode() for id in players.ids_of(known)]
        return [IdFrame(packed(known), packed(array("H", map(len, ids))), b"".join(ids))]

    # -- entries --

    def _lists(self) -> Iterator[list[Frame]]:
        while self._touched.unread:
            yield self._pieces()

    def _pieces(self) -> list[Frame]:
        """Go on reading where the last step ended, and into the next rankings if there is time."""
        pieces: list[Frame] = []
        time = STEP_ENTRIES
        while time > 0 and (entries := next(iter(self._touched.unread), None)) is not None:
            keys, numbers = self._read(entries, time)
            if len(numbers) < time:
                del self._touched.unread[entries]
                self._reading = None
            if numbers:
                shown, values = _beside(entries, numbers)
                pieces.append(
                    EntryFrame(self._place(entries), packed(numbers), keys, shown, values)
                )
            if entries in self._touched.adoptions:
                self._touched.players += numbers
            self._done += len(numbers)
            time -= len(numbers) + RANKING_ENTRIES
        return pieces

    def _read(self, entries: Entries, count: int) -> tuple[bytes, "array[int]"]:
        """Read on behind the last entry seen, wherever its place is now."""
        ranks, players = entries.ranks, self._state().players
        before = 0
        if entries is self._reading:
            before = count_through(players, ranks, *self._last)
        keys, numbers = ranks.read(before + 1, count)
        if numbers:
            self._reading = entries
            self._last = keys[-ranks.width :], players.id_of(numbers[-1])
        return keys, numbers

    # -- touches --

    def _touches(self, count: int) -> list[Frame]:
        """Return the last state of so many touched players, at least one."""
        touches: list[Frame] = []
        for entries, numbers in self._touched.take(count, RANKING_ENTRIES):
            touches += self._touch(entries, numbers)
        return touches + self._named(self._touched.take_players(count))

    def _touch(self, entries: Entries, numbers: set[int]) -> Iterator[Frame]:
        place, key_of = self._place(entries), entries.ranks.key_of
        keys = {number: key for number in numbers if (key := key_of(number)) is not None}
        if keys:
            shown, values = _beside(entries, keys.keys())
            kept = packed(array("I", keys))
            yield EntryFrame(place, kept, b"".join(keys.values()), shown, values)
        if len(keys) < len(numbers):
            yield RemovedFrame(place, packed(array("I", numbers - keys.keys())))


def _beside(entries: Entries, numbers: Collection[int]) -> tuple[list[int], list[bytes]]:
    beside = entries.metadata
    shown = [number for number in numbers if number in beside] if beside else []
    return shown, [beside[number] for number in shown]


class SaveFolder:
    """The folder of one save while it is being written: it counts when it is complete, or vanishes.

    A save writes a new folder beside the old one and everything in it to the disk. Then a single
    rename of ``current`` decides, and only after it does the old one go. So whenever the power
    fails, ``current`` names a folder that is complete.

    All of it blocks, so it happens on a thread, one call after another.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._mark = folder, secrets.token_hex(16)
        self._path = folder / self._mark
        self._files: dict[str, FrameFile] = {}
        self._counts = False
        """Whether ``current`` may name it."""

    def begin(self) -> None:
        """Make the folder and the files that steps go to."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path.mkdir(mode=0o700)
        for name in (BASE, TOUCHED, NOTES):
            self._files[name] = FrameFile(self._path / name)

    def write(self, step: ScanStep) -> None:
        """Write the entries of one step."""
        self._files[BASE].write(map(encode, step.base))
        self._files[TOUCHED].write(map(encode, step.touched))

    def finish(self, ending: ScanEnd) -> None:
        """Write the rest, bring it to the disk, and let this save be the one that counts."""
        self.write(ending.step)
        for (
            frame
        ) in ending.notes:  # Making one holds the interpreter; others run while it is written.
            self._files[NOTES].write((frame,))
        written = {name: file.finish() for name, file in self._files.items()}
        contents = Contents(
            self._mark, ending.checkpoint, ending.rankings, written, ending.archived
        )
        body = encode(contents)
        write_synced(self._path / CONTENTS, body)
        sync_folder(self._path)
        sync_folder(self._folder)
        self._decide(hashlib.sha256(body).hexdigest())
        self._clear_others()

    def _decide(self, sha256: str) -> None:
        current = CurrentSave(VERSION, self._mark, sha256)
        path = self._folder / CURRENT
        unfinished = path.with_name(f".{path.name}.unfinished")
        write_synced(unfinished, msgspec.json.encode(current))
        self._counts = True  # From here on nobody knows, until the names are on the disk.
        unfinished.replace(path)
        sync_folder(self._folder)

    def _clear_others(self) -> None:
        for other in self._folder.iterdir():
            if other != self._path and MARK.fullmatch(other.name):
                shutil.rmtree(other, ignore_errors=True)

    def end(self) -> None:
        """Let go of the files, and of the folder if it does not count. Safe to repeat."""
        for file in self._files.values():
            file.close()
        if not self._counts:
            shutil.rmtree(self._path, ignore_errors=True)
