"""An index kept in a folder between two lives: saved while it goes on, loaded before it is used.

A save is read on the event loop, a little at a time, and written on a thread meanwhile
(`snapshot_save`). A load happens on a thread as a whole, and gives the index exactly as it was at
its checkpoint. The files are those of `snapshot_save`.

Each file is hashed before a byte of it is used. Then the players are read; touched ones come last,
so that of two players with one number the later one has it. They get new numbers in the order of
the files, which are the old ones if no player left. Then each ranking is loaded in one go without
its touched players, which may be in it twice, and these are added after it. Players in no ranking
had left, or were a draft's, and are forgotten.
"""

import asyncio
import hashlib
from array import array
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from functools import partial
from itertools import chain, compress, groupby, islice
from operator import attrgetter, itemgetter
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

import msgspec

from rankd.adapters.memory import snapshot_save
from rankd.adapters.memory.archive_store import ArchiveStore
from rankd.adapters.memory.archived_rankings import ArchivedRankings
from rankd.adapters.memory.index import NativeIndex
from rankd.adapters.memory.index_state import Entries, IndexState
from rankd.adapters.memory.snapshot_save import (
    Contents,
    EntryFrame,
    Frame,
    IdFrame,
    RemovedFrame,
    SavedRanking,
    SaveFolder,
    Scan,
    unpacked,
)
from rankd.errors import SnapshotDamaged, WindowArchiveDamaged
from rankd.model.facts import Position
from rankd.ports import NOTHING_HELD, Progress
from rankd.rank import PlayerTable, RankList

PUT_TOGETHER = 1 << 14
"""So many touched entries are put in at once."""

Tell = Callable[[Progress], None]

_DAMAGE = (msgspec.MsgspecError, ValueError, LookupError, OverflowError)
_MISSING = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


def load(
    folder: Path,
    *,
    make_players: Callable[[], PlayerTable],
    make_list: Callable[..., RankList],
    archives: ArchiveStore,
    tell: Tell,
) -> tuple[IndexState, list[bytes]] | None:
    """Return the saved state in a folder and its notes, None if there is none. O(n).

    Raises SnapshotDamaged.
    """
    try:
        body = (folder / snapshot_save.CURRENT).read_bytes()
    except FileNotFoundError:
        return None
    with _damage(folder):
        current = _current(folder, body)
        home = folder / current.mark
        contents = _contents(home, current)
        sizes = {name: written.size for name, written in contents.files.items()}
        told = _LoadProgress(tell, checked=sum(sizes.values()), read=sizes[snapshot_save.BASE])
        for name in (snapshot_save.BASE, snapshot_save.TOUCHED, snapshot_save.NOTES):
            snapshot_save.check(home / name, contents.files[name], told.checked)
        loading = _Loader(contents, make_players(), make_list, archives)
        with (
            (home / snapshot_save.BASE).open("rb") as base,
            (home / snapshot_save.TOUCHED).open("rb") as touched,
        ):
            state = loading.state(
                told.read(snapshot_save.frames(base)), snapshot_save.frames(touched)
            )
        with (home / snapshot_save.NOTES).open("rb") as notes:
            return state, list(snapshot_save.frames(notes))


@contextmanager
def _damage(folder: Path) -> Iterator[None]:
    """Raise SnapshotDamaged for any fault of the files; errors of the disk pass through."""
    try:
        yield
    except (*_DAMAGE, *_MISSING, WindowArchiveDamaged) as exc:
        raise SnapshotDamaged(f"{folder} does not hold what was saved: {exc}") from exc


def _current(folder: Path, body: bytes) -> snapshot_save.CurrentSave:
    current = msgspec.json.decode(body, type=snapshot_save.CurrentSave)
    if current.version not in snapshot_save.VERSIONS_READ:
        raise SnapshotDamaged(
            f"{folder} has version {current.version}, not {snapshot_save.VERSION}"
        )
    if not snapshot_save.MARK.fullmatch(current.mark):
        raise SnapshotDamaged(f"{folder} names a save that cannot be one")
    return current


def _contents(home: Path, current: snapshot_save.CurrentSave) -> Contents:
    body = (home / snapshot_save.CONTENTS).read_bytes()
    if hashlib.sha256(body).hexdigest() != current.sha256:
        raise SnapshotDamaged(f"{home / snapshot_save.CONTENTS} is not what was saved")
    contents = msgspec.msgpack.decode(body, type=Contents)
    if contents.mark != current.mark:
        raise SnapshotDamaged(f"{home} holds the contents of another save")
    return contents


class _LoadProgress:
    """How far the files have come: each is hashed once, and the long one is read once more."""

    def __init__(self, tell: Tell, *, checked: int, read: int) -> None:
        self._tell, self._to_check, self._to_read = tell, checked, read
        self._checked = 0

    def checked(self, size: int) -> None:
        self._checked += size
        self._tell(Progress(self._checked, self._to_check, "checking", "byte"))

    def read(self, bodies: Iterable[bytes]) -> Iterator[bytes]:
        done = 0
        for body in bodies:
            yield body
            done += len(body) + snapshot_save.HEAD_BYTES
            self._tell(Progress(done, self._to_read, "loading", "byte"))


class _Numbers:
    """The numbers that players have now, by those they had in the save."""

    def __init__(self, players: PlayerTable) -> None:
        self._players = players
        self._now: array[int] | None = None
        """None while all have the numbers they had."""

    def add(self, named: IdFrame) -> None:
        """Give numbers to players; of several with one number the last one keeps it."""
        then = unpacked("I", named.numbers)
        now = self._players.intern_packed(named.text, unpacked("H", named.lengths))
        if len(now) != len(then) or not then:
            raise ValueError("each player needs one number")
        if self._now is None:
            if now == then:
                return
            self._now = array("I", range(len(self._players)))
        missing = max(then) + 1 - len(self._now)
        if missing > 0:
            self._now.frombytes(b"\xff" * (missing * self._now.itemsize))  # NO_PLAYER
        for number, new in zip(then, now, strict=True):
            self._now[number] = new

    def of(self, then: "array[int]") -> "array[int]":
        """Return the numbers that players have now. LookupError if one was never heard of."""
        if (now := self._now) is None:
            return then
        return array("I", [now[number] for number in then])


class _DirtyEntries:
    """The last state of the touched players of one ranking."""

    def __init__(self) -> None:
        self.keys: dict[int, bytes | None] = {}
        """None for players that left."""
        self.beside: dict[int, bytes] = {}

    def add(self, frame: EntryFrame | RemovedFrame) -> None:
        numbers = unpacked("I", frame.numbers)
        if self.beside:
            for number in numbers:
                self.beside.pop(number, None)
        if isinstance(frame, RemovedFrame):
            self.keys.update(dict.fromkeys(numbers))
        else:
            self.keys.update(zip(numbers, _split(frame.keys, len(numbers)), strict=True))
            self.beside.update(zip(frame.shown, frame.values, strict=True))

    def kept(self) -> Iterator[tuple[int, bytes]]:
        """Yield the players that did not leave, in key order, which makes adding them quicker."""
        kept = [(number, key) for number, key in self.keys.items() if key is not None]
        kept.sort(key=itemgetter(1))
        return iter(kept)


def _piece(frame: Frame) -> EntryFrame:
    if not isinstance(frame, EntryFrame):
        raise ValueError("behind the players come entries")
    return frame


def _split(keys: bytes, count: int) -> list[bytes]:
    width = len(keys) // count
    return [keys[at : at + width] for at in range(0, len(keys), width)]


class _Loader:
    """The making of a state from files that are known to be sound."""

    def __init__(
        self,
        contents: Contents,
        players: PlayerTable,
        make_list: Callable[..., RankList],
        archives: ArchiveStore,
    ) -> None:
        self._contents, self._make_list, self._archives = contents, make_list, archives
        self._players, self._numbers = players, _Numbers(players)
        self._touched: defaultdict[int, _DirtyEntries] = defaultdict(_DirtyEntries)

    def state(self, base_bodies: Iterable[bytes], touched_bodies: Iterable[bytes]) -> IndexState:
        saved = self._contents.rankings
        self._players.expect(max((each.count for each in saved), default=0))
        base = map(snapshot_save.decode, base_bodies)
        first = self._load_players(base)
        self._read_touched(map(snapshot_save.decode, touched_bodies))
        lists = self._load_lists(chain(first, base))
        rankings = {each.ranking: self._complete(each, lists) for each in saved}
        if len(rankings) != len(saved):
            raise ValueError("a ranking comes twice")
        held = _held(self._players, rankings.values())
        checkpoint = Position(self._contents.checkpoint)
        return IndexState(self._players, checkpoint, rankings, held, self._load_archived())

    def _load_archived(self) -> ArchivedRankings:
        """Find the archives. Only entries that changed since are looked up in them."""
        saved = self._contents.archived
        return ArchivedRankings({each.ranking: each.archived(self._archives) for each in saved})

    def _load_players(self, base: Iterator[Frame]) -> list[Frame]:
        """Load the players, and return the frame behind them."""
        for frame in base:
            if not isinstance(frame, IdFrame):
                return [frame]
            self._numbers.add(frame)
        return []

    def _read_touched(self, frames: Iterable[Frame]) -> None:
        for frame in frames:
            if isinstance(frame, IdFrame):
                self._numbers.add(frame)
            else:
                self._touched[frame.place].add(frame)

    # -- rankings --

    def _load_lists(self, base: Iterable[Frame]) -> dict[int, Entries]:
        """Load each ranking of the contents, without its touched players."""
        wanted = {saved.place: saved for saved in self._contents.rankings}
        lists: dict[int, Entries] = {}
        for place, pieces in groupby(map(_piece, base), key=attrgetter("place")):
            if place in lists:
                raise ValueError(f"{wanted[place].ranking} comes in two parts")
            if place in wanted:
                entries = lists[place] = self._empty(wanted[place])
                blocks = self._blocks(entries, pieces, self._touched[place])
                entries.ranks.load(blocks, expected=wanted[place].count)
        return lists

    def _empty(self, saved: SavedRanking) -> Entries:
        return Entries(self._make_list(saved.key_bytes, players=self._players, dense=saved.dense))

    def _blocks(
        self, entries: Entries, pieces: Iterable[EntryFrame], touched: _DirtyEntries
    ) -> Iterator[tuple[bytes, "array[int]"]]:
        for piece in pieces:
            numbers, keys = unpacked("I", piece.numbers), piece.keys
            if piece.shown:
                beside = zip(piece.shown, piece.values, strict=True)
                self._show(entries, {n: value for n, value in beside if n not in touched.keys})
            if not touched.keys.keys().isdisjoint(numbers):
                untouched = [number not in touched.keys for number in numbers]
                keys = b"".join(compress(_split(keys, len(numbers)), untouched))
                numbers = array("I", compress(numbers, untouched))
            if numbers:
                yield keys, self._numbers.of(numbers)

    def _show(self, entries: Entries, beside: dict[int, bytes]) -> None:
        entries.metadata.update(
            zip(self._numbers.of(array("I", beside)), beside.values(), strict=True)
        )

    def _complete(self, saved: SavedRanking, lists: dict[int, Entries]) -> Entries:
        """Add the touched players, and check the number of entries."""
        entries = lists.pop(saved.place, None) or self._empty(saved)
        touched = self._touched.pop(saved.place, None)
        if touched is not None:
            kept = touched.kept()
            while some := list(islice(kept, PUT_TOGETHER)):
                numbers = self._numbers.of(array("I", [number for number, _ in some]))
                entries.ranks.put_many(numbers, b"".join([key for _, key in some]))
            self._show(entries, touched.beside)
        if len(entries.ranks) != saved.count:
            raise ValueError(f"{saved.ranking} should have {saved.count} entries")
        return entries


def _held(players: PlayerTable, rankings: Iterable[Entries]) -> "array[int]":
    """Count how many lists hold each player, and forget players in none."""
    lists = [entries.ranks for entries in rankings]
    everywhere = sum(len(ranks) == len(players) for ranks in lists)
    held = array("I", [everywhere]) * len(players)
    for ranks in lists:
        if len(ranks) < len(players):
            for _, numbers in ranks.blocks():
                for number in numbers:
                    held[number] += 1
    if not everywhere:
        for number in [number for number, times in enumerate(held) if not times]:
            players.remove(number)
    return held


T = TypeVar("T")


class SnapshotFolder:
    """The Snapshots of a native index."""

    def __init__(self, folder: Path, index: NativeIndex) -> None:
        self._folder, self._index = folder, index
        self._busy = False

    async def save(
        self,
        notes: Callable[[], Iterable[bytes]],
        *,
        still: AbstractAsyncContextManager[Any] = NOTHING_HELD,
    ) -> AsyncIterator[Progress]:
        assert not self._busy, "a save goes on already"
        touched = self._index.begin_saving()
        self._busy = True
        home, thread = SaveFolder(self._folder), OneThread("snapshot")
        try:
            await thread.do(home.begin)
            survey = Scan(lambda: self._index.state, touched)
            for step in survey.steps():
                await thread.do(partial(home.write, step))
                yield survey.progress
            async with still:
                for step in survey.last_pass():
                    await thread.do(partial(home.write, step))
                    yield survey.progress
                # Nothing waits between the last step and this: no apply can come between.
                ending = survey.ending(notes)
                self._index.end_saving(touched)
            total = survey.progress.total
            yield Progress(total, total, "writing", "standing")
            await thread.do(partial(home.finish, ending))
            archives = self._index.archives
            archives.named = frozenset(each.name for each in ending.archived if each.name)
            await thread.do(archives.sweep)
            yield Progress(total, total, "saved", "standing")
        finally:
            self._index.end_saving(touched)
            try:
                await thread.do(home.end)
            finally:
                thread.end()
                self._busy = False

    async def load(self, tell: Callable[[Progress], None]) -> Sequence[bytes] | None:
        loop, abandoned, thread = asyncio.get_running_loop(), Event(), OneThread("snapshot")

        def told(progress: Progress) -> None:
            if abandoned.is_set():
                raise _Cancelled
            loop.call_soon_threadsafe(tell, progress)

        index = self._index
        work = partial(
            load,
            self._folder,
            make_players=index.make_players,
            make_list=index.make_list,
            archives=index.archives,
            tell=told,
        )
        try:
            loaded = await thread.do(work, abandoned.set)
        finally:
            thread.end()
        if loaded is None:
            return None
        state, notes = loaded
        index.fill(state)
        names = {archived.archive.name for archived in state.archived.values()}
        index.archives.named = frozenset(names - {""})
        return notes


class _Cancelled(Exception):
    """The load was cancelled."""


class OneThread:
    """A thread for one thing after another.

    A started call is finished before the caller goes on, also if the caller is cancelled: removing
    files that are still being written would be a race, and the last call decides which save counts.
    """

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def do(self, work: Callable[[], T], hurry: Callable[[], None] | None = None) -> T:
        """Do a piece of work; ``hurry`` is called if the caller is cancelled."""
        doing = asyncio.get_running_loop().run_in_executor(self._pool, work)
        try:
            return await asyncio.shield(doing)
        except asyncio.CancelledError:
            if hurry is not None:
                hurry()
            while not doing.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([doing])
            if not doing.cancelled():
                doing.exception()  # Whatever went wrong, nobody waits for it.
            raise

    def end(self) -> None:
        self._pool.shutdown()
