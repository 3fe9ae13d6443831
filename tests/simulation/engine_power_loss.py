"""Power fails at every moment of a whole engine's life: the ledger and the saved index together.

    python -m tests.simulation.engine_power_loss [--images N] [--seed S]

Two lives of one engine are recorded, with all that they ask of the disk: SQLite through a file
system of ours (rankd.testing.faults), and the files of the saved index through the functions of
Python that make, write, sync, rename and remove them. Then the power fails: at each moment, so that
nothing but what was synced is left, and in random manners. What a power cut may leave of the index:
of each file what was synced, and of the writes since then any part; of each folder's names those
that were synced, and of the changes since then any first part.

Each time an engine is opened on what is left, and judged: every call that was acknowledged is
there, at the positions that were told; the call under way is there whole or not at all, and counts
once when it is sent again; the index and the state are those of the ledger folded from the
beginning, whatever snapshot was found; and a save that had ended is the one that is found.
"""

import argparse
import asyncio
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from random import Random
from typing import Any, BinaryIO, NamedTuple
from unittest.mock import patch

from tests.simulation.power_loss import _hold_checkpoints, scratch_folder

from rankd.adapters.memory.index import NativeIndex
from rankd.adapters.memory.snapshot_folder import SnapshotFolder
from rankd.adapters.sqlite import SQLiteLedger, recent_keys
from rankd.adapters.sqlite import ledger as adapter
from rankd.bootstrap import INDEX
from rankd.core.assembly import running
from rankd.core.engine import Engine
from rankd.core.recovery import IndexHome, recover
from rankd.errors import RankdError
from rankd.model.facts import Position
from rankd.testing.faults import (
    _MANNERS,
    Acknowledged,
    Crash,
    Kind,
    Operation,
    Recorder,
    _apply,
    watched_disk,
)

NOON = 1_794_657_600_000_000
HOUR = 3_600_000_000
WAL_PAGES = 12
"""So few that checkpoints happen among the appends."""


class SetClock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.time = NOON

    def now(self) -> int:
        return self.time


# --------------------------------------------------------------------- what was asked for


class Change(Enum):
    """What was asked of the folders of the saved index."""

    MADE = "made"
    """A folder."""
    BEGUN = "begun"
    """A file, empty, or emptied."""
    WROTE = "wrote"
    SYNCED = "synced"
    """A file's bytes, or a folder's names."""
    MOVED = "moved"
    REMOVED = "removed"
    """A name; of a folder, with everything in it."""


class Asked(NamedTuple):
    """One thing asked of them."""

    change: Change
    path: tuple[str, ...]
    """Beginning in the folder of the saved index."""
    offset: int = 0
    data: bytes = b""
    to: tuple[str, ...] = ()


class Saved(NamedTuple):
    """In a record: from here on, this save is the one that must be found."""

    position: Position


PROMISES = (Acknowledged, Saved)


class _Written:
    """A file of the saved index, while it is being written."""

    def __init__(self, file: BinaryIO, watch: "Watch", path: tuple[str, ...]) -> None:
        self._file, self._watch, self._path, self._offset = file, watch, path, 0
        watch.files[file.fileno()] = path

    def write(self, data: Any) -> int:
        written = self._file.write(data)
        body = bytes(data[:written])
        self._watch.note(Asked(Change.WROTE, self._path, self._offset, body))
        self._offset += written
        return written

    def __enter__(self) -> "_Written":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if not self._file.closed:
            self._watch.files.pop(self._file.fileno(), None)
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


_open, _mkdir, _replace = Path.open, Path.mkdir, Path.replace
_fsync, _os_open, _rmtree = os.fsync, os.open, shutil.rmtree


class Watch:
    """Notes what is asked of one folder, by way of the functions that ask it."""

    def __init__(self, folder: Path, record: list[Any], *, syncs: bool = True) -> None:
        self.files: dict[int, tuple[str, ...]] = {}
        """What is open, by its number."""
        self._folder, self._record, self._syncs = folder, record, syncs

    def note(self, asked: Asked) -> None:
        self._record.append(asked)

    def _within(self, path: Any) -> tuple[str, ...] | None:
        place = Path(path)
        if place == self._folder or self._folder in place.parents:
            return place.relative_to(self._folder.parent).parts
        return None

    @contextmanager
    def watching(self) -> Iterator[None]:
        with ExitStack() as stack:
            for name, instead in (
                ("pathlib.Path.open", lambda *args, **named: self._opened(*args, **named)),
                ("pathlib.Path.mkdir", lambda *args, **named: self._made(*args, **named)),
                ("pathlib.Path.replace", lambda *args: self._replaced(*args)),
                ("os.open", self._opened_by_number),
                ("os.fsync", self._synced),
                ("shutil.rmtree", self._removed),
            ):
                stack.enter_context(patch(name, instead))
            yield

    def _opened(self, path: Path, mode: str = "r", *args: Any, **named: Any) -> Any:
        inside = self._within(path) if "w" in mode or "x" in mode else None
        file = _open(path, mode, *args, **named)
        if inside is None:
            return file
        try:
            self.note(Asked(Change.BEGUN, inside))
        except BaseException:
            file.close()
            raise
        return _Written(file, self, inside)  # type: ignore[arg-type]

    def _made(self, path: Path, *args: Any, **named: Any) -> None:
        new = not path.exists()
        _mkdir(path, *args, **named)
        if new and (inside := self._within(path)) is not None:
            self.note(Asked(Change.MADE, inside))

    def _replaced(self, path: Path, target: Path) -> Path:
        done = _replace(path, target)
        if (inside := self._within(path)) is not None:
            self.note(Asked(Change.MOVED, inside, to=self._within(target) or ()))
        return done

    def _opened_by_number(self, path: Any, *args: Any, **named: Any) -> int:
        number = _os_open(path, *args, **named)
        if "dir_fd" not in named and (inside := self._within(path)) is not None:
            self.files[number] = inside
        return number

    def _synced(self, number: int) -> None:
        _fsync(number)
        if self._syncs and (inside := self.files.get(number)) is not None:
            self.note(Asked(Change.SYNCED, inside))

    def _removed(self, path: Any, *args: Any, **named: Any) -> None:
        _rmtree(path, *args, **named)
        if (inside := self._within(path)) is not None:
            self.note(Asked(Change.REMOVED, inside))


# ----------------------------------------------------------------------- what may be left


@dataclass(eq=False)
class _File:
    durable: bytearray = field(default_factory=bytearray)
    pending: list[Operation] = field(default_factory=list)

    def sync(self) -> None:
        for operation in self.pending:
            _apply(self.durable, operation)
        self.pending.clear()


@dataclass(eq=False)
class _Folder:
    names: dict[str, "_File | _Folder"] = field(default_factory=dict)
    """As the program sees them."""
    durable: dict[str, "_File | _Folder"] = field(default_factory=dict)
    pending: list[tuple[str, "_File | _Folder | None"]] = field(default_factory=list)

    def put(self, name: str, what: "_File | _Folder | None") -> None:
        if what is None:
            self.names.pop(name, None)
        else:
            self.names[name] = what
        self.pending.append((name, what))

    def settled(self, many: int) -> dict[str, "_File | _Folder"]:
        names = dict(self.durable)
        for name, what in self.pending[:many]:
            if what is None:
                names.pop(name, None)
            else:
                names[name] = what
        return names

    def sync(self) -> None:
        self.durable = self.settled(len(self.pending))
        self.pending.clear()


Keep = Callable[[list[Any]], int]
"""How many changes of a folder's names are kept."""
Mend = Callable[[list[Operation]], list[Operation]]
"""Which writes to a file are kept."""


class IndexCrash:
    """The folders of the saved index when the power fails."""

    def __init__(self, record: list[Any]) -> None:
        self._root = _Folder()
        for entry in record:
            if isinstance(entry, Asked):
                self._happen(entry)

    def _find(self, path: tuple[str, ...]) -> "_File | _Folder":
        found: _File | _Folder = self._root
        for name in path:
            assert isinstance(found, _Folder)
            found = found.names[name]
        return found

    def _folder(self, path: tuple[str, ...]) -> _Folder:
        found = self._find(path)
        assert isinstance(found, _Folder)
        return found

    def _happen(self, asked: Asked) -> None:
        *_, name = asked.path
        holder = self._folder(asked.path[:-1])
        match asked.change:
            case Change.MADE:
                holder.put(name, _Folder())
                if holder is self._root:
                    holder.sync()  # The data folder itself is not at issue.
            case Change.BEGUN:
                holder.put(name, _File())
            case Change.WROTE:
                file = self._find(asked.path)
                assert isinstance(file, _File)
                file.pending.append(Operation(Kind.WRITE, name, asked.offset, asked.data))
            case Change.SYNCED:
                self._find(asked.path).sync()
            case Change.MOVED:
                what = self._find(asked.path)
                holder.put(name, None)
                self._folder(asked.to[:-1]).put(asked.to[-1], what)
            case Change.REMOVED:
                gone = holder.names.get(name)
                if isinstance(gone, _Folder):
                    for inner in list(gone.names):
                        gone.put(inner, None)
                holder.put(name, None)

    def write(self, folder: Path, keep: Keep, repair: Mend) -> None:
        """Make the files that are left."""
        self._write(self._root, folder, keep, repair)

    def _write(self, what: _Folder, folder: Path, keep: Keep, repair: Mend) -> None:
        folder.mkdir(exist_ok=True)
        for name, inner in what.settled(keep(what.pending)).items():
            if isinstance(inner, _Folder):
                self._write(inner, folder / name, keep, repair)
                continue
            data = bytearray(inner.durable)
            for operation in repair(inner.pending):
                _apply(data, operation)
            (folder / name).write_bytes(data)


# ------------------------------------------------------------------------- lives of an engine

Work = Callable[[Engine, str], Awaitable[list[Position]]]


class Call(NamedTuple):
    """Something a caller asked for."""

    mark: str
    facts: int
    items: list[dict[str, Any]]
    """With keys throughout, to be sent again; empty if it cannot be."""


@dataclass
class Life:
    """All that was asked of an engine and of the disk."""

    record: list[Any] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    positions: dict[str, list[Position]] = field(default_factory=dict)


class Caller:
    """Asks an engine for one thing after another."""

    def __init__(self, life: Life, rankd: Engine, clock: SetClock, ledger: SQLiteLedger) -> None:
        self.life, self.rankd, self.clock = life, rankd, clock
        self._ledger, self._checkpoints = ledger, _hold_checkpoints(ledger)

    async def _call(self, facts: int, items: list[dict[str, Any]], work: Work) -> None:
        mark = f"m{len(self.life.calls)}"
        self.life.calls.append(Call(mark, facts, items))
        self.life.positions[mark] = await work(self.rankd, mark)
        self.life.record.append(Acknowledged(len(self.life.calls)))
        while self._checkpoints:
            await self._ledger._writer.run(self._checkpoints.pop())

    async def submit(self, many: int, *, keys: bool = True) -> None:
        number = len(self.life.calls)
        items: list[dict[str, Any]] = [
            {"player": f"p{(number * 7 + n) % 11}", "score": number + n, "metadata": {"n": n}}
            for n in range(many)
        ]
        if keys:
            items = [{**item, "key": f"{number}/{place}"} for place, item in enumerate(items)]

        async def work(rankd: Engine, mark: str) -> list[Position]:
            return [one.position for one in await rankd.submit("b", items, actor=mark)]

        await self._call(many, items if keys else [], work)

    async def define(self, **more: Any) -> None:
        definition = {"rule": "sum", "windows": ["all", "daily"], **more}

        async def work(rankd: Engine, mark: str) -> list[Position]:
            known = "b" in rankd.state.boards
            await (rankd.redefine if known else rankd.define)("b", definition, actor=mark)
            return [rankd.state.page("b").defined_at]

        await self._call(1, [], work)

    async def profile(self, player: str, region: str) -> None:
        async def work(rankd: Engine, mark: str) -> list[Position]:
            body = {"name": mark, "attributes": {"region": region}}
            return [await rankd.profile(player, body, actor=mark)]

        await self._call(1, [], work)

    async def save(self) -> None:
        position = await self.rankd.save()
        self.life.record.append(Saved(position))


async def first_life(caller: Caller) -> None:
    await caller.define()
    await caller.submit(3)
    await caller.save()
    await caller.submit(20, keys=False)
    await caller.profile("p1", "eu")
    await caller.submit(1)
    await caller.define(segments=["region"])
    await caller.submit(5)
    await caller.save()  # With receipts that are unstored.
    caller.clock.time += 24 * HOUR
    await caller.submit(2)
    await caller.submit(60)


async def second_life(caller: Caller) -> None:
    await caller.submit(2)
    await caller.profile("p2", "us")
    await caller.save()
    await caller.define(tie_break="latest")
    await caller.submit(1)


async def lived(folder: Path, *, syncs: bool = True) -> Life:
    """Record two lives in an empty folder."""
    life, recorder, clock = Life(), Recorder(), SetClock()
    recorder.record = life.record
    watch = Watch(folder / INDEX, life.record, syncs=syncs)
    measures = patch.object(adapter, "WAL_PAGES_MAX", WAL_PAGES)
    with watched_disk(recorder) as disk, measures, watch.watching():
        for story in (first_life, second_life):
            async with (
                SQLiteLedger.open(folder, vfs=disk) as ledger,
                engine_on(ledger, folder, clock) as rankd,
            ):
                await story(Caller(life, rankd, clock, ledger))
    return life


def engine_on(ledger: SQLiteLedger, folder: Path, clock: SetClock) -> Any:
    def build() -> IndexHome:
        index = NativeIndex()
        return IndexHome(index, SnapshotFolder(folder / INDEX, index))

    return running(ledger=ledger, build=build, clock=clock, reading=nullcontext())


# ------------------------------------------------------------------------------- judging


@dataclass
class Findings:
    """What a campaign came to."""

    moments: int = 0
    images: int = 0
    believed: int = 0
    """How many starts began from a snapshot."""
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.images:,} power cuts at {self.moments} moments, {len(self.problems)} problems; "
            f"{self.believed:,} starts from a snapshot"
        )


class Judge:
    """Opens what is left at one moment of a life."""

    def __init__(self, life: Life, moment: int, findings: Findings) -> None:
        self._life, self._findings, self._moment = life, findings, moment
        self._before = life.record[:moment]
        self.acknowledged = max(
            (one.facts for one in self._before if isinstance(one, Acknowledged)), default=0
        )
        self.saved = max(
            (one.position for one in self._before if isinstance(one, Saved)), default=0
        )

    async def worst(self, folder: Path) -> None:
        """Nothing but what was synced."""
        crash = self._crash()
        _write(crash.synced(), folder)
        IndexCrash(self._before).write(folder, lambda _: 0, lambda _: [])
        await self._judge(folder, f"moment {self._moment}, the worst", must_find=self.saved)

    async def named(self, folder: Path) -> None:
        """Of the ledger what was synced, and of the index all names and no more bytes."""
        _write(self._crash().synced(), folder)
        IndexCrash(self._before).write(folder, len, lambda _: [])
        await self._judge(folder, f"moment {self._moment}, all names", must_find=self.saved)

    async def placeholder(self, folder: Path) -> None:
        """A disk that lies: all names of the index are there, and zeros for its last writes."""
        _write(self._crash().synced(), folder)
        IndexCrash(self._before).write(folder, len, _blanked)
        await self._judge(folder, f"moment {self._moment}, blank", must_find=0)

    async def at_random(self, folder: Path, random: Random, name: str) -> None:
        """Some of the rest as well."""
        _write(self._crash().files(random), folder)
        manner = random.choice(_MANNERS)
        IndexCrash(self._before).write(
            folder,
            lambda pending: random.randint(0, len(pending)),
            lambda pending: manner(pending, random),
        )
        await self._judge(folder, name, must_find=0)

    def _crash(self) -> Crash:
        ledger = [one for one in self._before if isinstance(one, Operation | Acknowledged)]
        return Crash(ledger, after=len(ledger))

    async def _judge(self, folder: Path, name: str, *, must_find: int) -> None:
        self._findings.images += 1
        try:
            problems = await self._open(folder, must_find)
        except RankdError as exc:
            problems = [f"{type(exc).__name__}: {exc}"]
        finally:
            shutil.rmtree(folder)
        self._findings.problems += [f"{name}: {problem}" for problem in problems]

    async def _open(self, folder: Path, must_find: int) -> list[str]:
        async with (
            SQLiteLedger.open(folder) as ledger,
            engine_on(ledger, folder, SetClock()) as rankd,
        ):
            saved = rankd.snapshotter.saved
            self._findings.believed += saved > 0
            problems = await self._compare(ledger, rankd)
            if saved < must_find:
                problems.append(f"saved at {must_find}, but found at {saved}")
            problems += await self._send_again(rankd)
            async for _ in rankd.verify():
                pass
            return problems

    async def _compare(self, ledger: SQLiteLedger, rankd: Engine) -> list[str]:
        problems = []
        facts = await ledger.read(after=Position(0), limit=10_000)
        marks = Counter(getattr(one.fact, "actor", None) for one in facts)
        at = {one.position: getattr(one.fact, "actor", None) for one in facts}
        for number, call in enumerate(self._life.calls):
            under_way = number == self.acknowledged
            allowed = {call.facts} if number < self.acknowledged else {0, call.facts * under_way}
            if marks[call.mark] not in allowed:
                word = "was acknowledged" if number < self.acknowledged else "was not"
                problems.append(f"call {number} {word}, {marks[call.mark]} of {call.facts} there")
            elif number < self.acknowledged:
                told = self._life.positions[call.mark]
                if any(at.get(position) != call.mark for position in told):
                    problems.append(f"call {number} is not where it was said to be")
        again = (
            await recover(ledger, lambda: IndexHome(NativeIndex(), None), lambda _: None)
        ).projector
        if index_of(again.index).digest() != index_of(rankd.projector.index).digest():
            problems.append("the index is not that of the ledger")
        if again.state.profiles != rankd.state.profiles or pages(again.state) != pages(rankd.state):
            problems.append("the book is not that of the ledger")
        return problems

    async def _send_again(self, rankd: Engine) -> list[str]:
        """Repeat the last calls that were acknowledged, and the one under way."""
        problems = []
        if "b" not in rankd.state.boards:
            return []
        first = max(0, self.acknowledged - 3)
        for number, call in list(enumerate(self._life.calls))[first : self.acknowledged + 1]:
            if not call.items:
                continue
            heard = [await rankd.submit("b", call.items, actor=call.mark) for _ in range(2)]
            positions = [[one.position for one in answers] for answers in heard]
            known = number < self.acknowledged
            if known and positions[0] != self._life.positions[call.mark]:
                problems.append(f"call {number} was counted again")
            if positions[0] != positions[1] or any(one.receipt is None for one in heard[0]):
                problems.append(f"call {number} is answered differently each time")
        return problems


def _blanked(pending: list[Operation]) -> list[Operation]:
    """Zeros for what was written last, unless it is the file that says which save counts."""
    if pending and "current" in pending[-1].file:
        return pending
    return [*pending[:-1], *map(_zeros, pending[-1:])]


def _zeros(operation: Operation) -> Operation:
    return Operation(Kind.WRITE, operation.file, operation.offset, bytes(len(operation.data)))


def _write(files: dict[str, bytes], folder: Path) -> None:
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)


def index_of(index: object) -> NativeIndex:
    assert isinstance(index, NativeIndex)
    return index


def pages(state: Any) -> dict[str, Any]:
    return {
        name: (
            page.board.definition(),
            page.since,
            page.defined_at,
            [opened.window for opened in page.windows.values()],
            [(one.window, one.through, one.at) for one in page.sealed.values()],
        )
        for name, page in state.boards.items()
    }


# ------------------------------------------------------------------------------ campaigns


async def every_moment(*, syncs: bool = True, promises: bool = False) -> Findings:
    """Let the power fail once at each moment, and nothing remain but what was synced.

    With ``promises``, only right after each: when what is not synced is lost for certain.
    """
    findings = Findings()
    with scratch_folder() as scratch:
        life = await lived(scratch / "life", syncs=syncs)
        moments: Sequence[int] = range(len(life.record) + 1)
        if promises:
            moments = [n for n in moments[1:] if isinstance(life.record[n - 1], PROMISES)]
        findings.moments = len(moments)
        for moment in moments:
            judge = Judge(life, moment, findings)
            await judge.worst(scratch / "image")
            if moment and isinstance(life.record[moment - 1], Asked):
                await judge.named(scratch / "image")
    return findings


async def after_a_lie() -> Findings:
    """Let the disk say that it has synced the index when it has not, and fail after each save."""
    findings = Findings()
    with scratch_folder() as scratch:
        life = await lived(scratch / "life", syncs=False)
        for moment, entry in enumerate(life.record, start=1):
            if isinstance(entry, Saved):
                findings.moments += 1
                await Judge(life, moment, findings).placeholder(scratch / "image")
    return findings


async def campaign(*, images: int, seed: int, quiet: bool = True) -> Findings:
    """Let the power fail so often in random manners, at moments spread evenly over the lives."""
    findings, random = Findings(), Random(seed)
    with scratch_folder() as scratch:
        life = await lived(scratch / "life")
        findings.moments = len(life.record) + 1
        for number in range(images):
            moment = number * 7_919 % findings.moments  # A prime: each moment has its turn.
            name = f"seed {seed}, image {number}"
            await Judge(life, moment, findings).at_random(scratch / "image", random, name)
            if not quiet and (number + 1) % 1_000 == 0:
                _say(str(findings))
    return findings


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    recent_keys.GENERATION_KEYS = 8  # So that keys are on the move at all times.
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=time.time_ns() & 0xFFFF_FFFF)
    given = parser.parse_args()
    _say(
        f"python -m tests.simulation.engine_power_loss --images {given.images} --seed {given.seed}"
    )
    findings = asyncio.run(every_moment())
    at_random = asyncio.run(campaign(images=given.images, seed=given.seed, quiet=False))
    findings.images += at_random.images
    findings.believed += at_random.believed
    findings.problems += at_random.problems
    for problem in findings.problems[:20]:
        _say(problem)
    _say(str(findings))
    return 1 if findings.problems else 0


if __name__ == "__main__":
    sys.exit(main())
