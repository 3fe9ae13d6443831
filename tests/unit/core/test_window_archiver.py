"""Sealed windows are archived: they leave memory, read as before, and follow corrections."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.unit.core.callers import submit
from tests.unit.core.doubles import DAY, SetClock, digest_of, engine, verified

from rankd.adapters.memory import archive_store
from rankd.adapters.memory.archive_store import ArchiveStore
from rankd.adapters.memory.index import NativeIndex
from rankd.adapters.memory.ledger import MemoryLedger
from rankd.bootstrap import building
from rankd.core import window_archiver
from rankd.core.editions import edition_reader
from rankd.core.engine import Engine
from rankd.core.read_engine import PlayerSearch
from rankd.core.recovery import Build, IndexHome, folded
from rankd.errors import IndexDiffers, WindowArchiveDamaged
from rankd.model.facts import Position
from rankd.model.standing import Rank
from rankd.ports import Ranking

pytestmark = pytest.mark.anyio

SEGMENTED = {
    "rule": "best",
    "ties": "dense",
    "windows": ["all", "daily"],
    "segments": ["region"],
    "retention": {"daily": "3d"},
}
CLOSED = "daily:2026-11-14"
PLAYERS = [f"p{n}" for n in range(40)]


@pytest.fixture(autouse=True)
def _all_in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let also the smallest archive be a file, and no loop run by itself."""
    monkeypatch.setattr(archive_store, "IN_MEMORY_BYTES_MAX", 0)
    monkeypatch.setattr(window_archiver, "ARCHIVE_SECONDS", 3600.0)


@pytest.fixture
def ledger() -> MemoryLedger:
    return MemoryLedger()


STORES: list[ArchiveStore] = []


@pytest.fixture(autouse=True)
def _all_closed() -> Iterator[None]:
    yield
    while STORES:
        STORES.pop().close()


def saved_in(folder: Path) -> Build:
    STORES.append(ArchiveStore(folder / "archives", own=folder / "archives"))
    return building(folder, STORES[-1])


def index_of(rankd: Engine) -> NativeIndex:
    index = rankd.projector.index
    assert isinstance(index, NativeIndex)
    return index


def archived(rankd: Engine) -> list[str]:
    """Return the archived rankings."""
    return sorted(map(str, index_of(rankd).state.archived))


def files(folder: Path) -> list[Path]:
    return sorted((folder / "archives").glob("??/*"))


async def play(rankd: Engine, clock: SetClock, *, days: int = 1) -> None:
    """Have forty players in two regions on each of some days, and a few on the day after."""
    await rankd.define("b", SEGMENTED)
    for n, player in enumerate(PLAYERS):
        await rankd.profile(player, {"attributes": {"region": "eu" if n % 3 else "us"}})
    for day in range(days):
        items = [{"player": p, "score": (n * 7 + day) % 20} for n, p in enumerate(PLAYERS)]
        items[3]["metadata"] = {"ship": "x"}
        await rankd.submit("b", items)
        clock.time += DAY
    await submit(rankd, "p1", 1)


async def reads(rankd: Engine, window: str = CLOSED) -> Sequence[object]:
    """Return the answers to every kind of read of a window, but for its editions."""
    read, found = rankd.reader, list[object]()
    for segment in (None, "region:eu", "region:us"):
        where: dict[str, Any] = {"window": window, "segment": segment}
        pages = [await read.page("b", from_rank=Rank(n), limit=7, **where) for n in (1, 9, 41)]
        found += [page.standings for page in pages] + [pages[0].total]
        for player in ("p3", "p39", "nobody"):
            found.append(await read.standing("b", player, **where))
        there = "p3" if segment == "region:us" else "p5"
        found.append((await read.around("b", there, **where)).standings)
        found.append((await read.around_rank("b", Rank(20), **where)).standings)
        found.append(await read.lookup("b", ["p7", "p1", "none"], **where))
        found.append(await read.friends("b", "p2", **where))
        found.append((await read.rank_for("b", (12,), **where)).rank)
        found.append((await read.scores_for("b", rank=Rank(9), **where)).scores)
    return found


async def edition(rankd: Engine, number: int, window: str = CLOSED) -> list[object]:
    where = rankd.reader.where("b", window=window)
    page = await (await edition_reader(rankd.reader, where, number)).page("b", window=window)
    return list(page.standings)


async def test_a_sealed_window_reads_as_in_memory(ledger: MemoryLedger, tmp_path: Path) -> None:
    clock = SetClock()
    async with engine(ledger, clock, saved_in(tmp_path)) as rankd:
        await play(rankd, clock)
        before, digest = await reads(rankd), digest_of(index_of(rankd))
        await rankd.archiver.tidy()
        assert archived(rankd) == [f"b/{CLOSED}{rest}" for rest in ("", "/region:eu", "/region:us")]
        assert all(ranking.window != CLOSED for ranking in index_of(rankd).state.rankings)
        assert await reads(rankd) == before
        assert digest_of(index_of(rankd)) == digest
        assert len(files(tmp_path)) == 3
        index_of(rankd).check()
        await verified(rankd)


async def test_a_window_stays_in_memory_until_it_is_sealed(ledger: MemoryLedger) -> None:
    clock = SetClock()
    async with engine(ledger, clock, building(None)) as rankd:
        grace = {"name": "daily", "grace": "2h"}
        await rankd.define("b", {"windows": [grace]})
        await submit(rankd, "ann", 1)
        clock.time += DAY - clock.time % DAY + 1_000_000
        await submit(rankd, "ann", 1)
        await rankd.archiver.tidy()
        assert archived(rankd) == []
        clock.time += DAY // 4
        await submit(rankd, "ann", 1)
        await rankd.archiver.tidy()
        assert archived(rankd) == [f"b/{CLOSED}"]


async def corrected(rankd: Engine, clock: SetClock, tidy: Callable[[], Any]) -> list[object]:
    """Correct a sealed window in every way; return what is read after each."""
    await rankd.define("b", SEGMENTED)
    cheat = await submit(rankd, "p5", 99)
    await play(rankd, clock)
    found: list[object] = []

    async def look() -> None:
        await tidy()
        await verified(rankd)
        present = rankd.state.edition("b", CLOSED)
        found.extend([await reads(rankd), [await edition(rankd, n + 1) for n in range(present)]])

    await look()
    gone = await rankd.corrections.retract("b", {"position": cheat.position})
    await look()
    await rankd.corrections.set_player_state("p6", "banned", {"reason": "a bot"})
    await look()
    await rankd.corrections.retract("b", {"player": "p7"})
    await look()
    await rankd.corrections.undo_retraction(
        "b", Position(gone.position or 0), reason="it was right"
    )
    await look()
    await rankd.corrections.set_player_state("p6", "active", {"reason": "no bot"})
    await look()
    return found


async def test_corrections_of_archived_windows_are_those_of_windows_in_memory(
    tmp_path: Path,
) -> None:
    async def nothing() -> None:
        pass

    clock = SetClock()
    async with engine(MemoryLedger(), clock) as rankd:
        expected = await corrected(rankd, clock, nothing)
    clock = SetClock()
    async with engine(MemoryLedger(), clock, saved_in(tmp_path)) as rankd:
        assert await corrected(rankd, clock, rankd.archiver.tidy) == expected
        assert archived(rankd)


async def test_a_window_that_is_put_back_is_in_memory_again(ledger: MemoryLedger) -> None:
    clock = SetClock()
    async with engine(ledger, clock, building(None)) as rankd:
        await play(rankd, clock)
        today = "daily:2026-11-15"
        without = {**SEGMENTED, "windows": ["all"], "retention": {}}
        await rankd.redefine("b", without)
        await rankd.archiver.tidy()
        assert f"b/{today}" in archived(rankd)
        await rankd.redefine("b", SEGMENTED)
        await rankd.submit("b", [{"player": "p2", "score": 17}, {"player": "new", "score": 1}])
        index_of(rankd).check()
        await verified(rankd)
        scores = {one.player: one.scores[0] for one in (await rankd.reader.page("b")).standings}
        assert scores["p2"] == 17


async def test_a_start_reads_no_archive(
    ledger: MemoryLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SetClock()
    async with engine(ledger, clock, saved_in(tmp_path)) as rankd:
        await play(rankd, clock, days=2)
        await rankd.archiver.tidy()
        await rankd.corrections.retract("b", {"player": "p7"})
        before, digest = await reads(rankd), digest_of(index_of(rankd))
        kept = archived(rankd)
        await rankd.save()
    with monkeypatch.context() as patched:
        patched.setattr(os, "pread", None)
        home = saved_in(tmp_path)()
        assert home.snapshots is not None
        with pytest.raises(TypeError):  # Only the changed entries are found again.
            await home.snapshots.load(lambda _: None)
    async with engine(ledger, clock, saved_in(tmp_path)) as rankd:
        assert archived(rankd) == kept
        assert await reads(rankd) == before
        assert digest_of(index_of(rankd)) == digest


async def test_a_long_fold_archives_as_it_goes(ledger: MemoryLedger, tmp_path: Path) -> None:
    clock = SetClock()
    async with engine(ledger, clock) as rankd:
        await play(rankd, clock, days=2)
    home = saved_in(tmp_path)()
    shadow = folded(ledger, home)
    await shadow.catch_up(through=await ledger.head())
    index = home.index
    assert isinstance(index, NativeIndex)
    assert len(index.state.archived) == 6
    assert all(ranking.window in ("all", "daily:2026-11-16") for ranking in index.state.rankings)


async def test_retention_removes_the_files(ledger: MemoryLedger, tmp_path: Path) -> None:
    clock = SetClock()
    async with engine(ledger, clock, saved_in(tmp_path)) as rankd:
        await play(rankd, clock, days=2)
        await rankd.archiver.tidy()
        await rankd.save()
        assert len(files(tmp_path)) == 6
        clock.time += 3 * DAY
        await rankd.sealer.turn()
        assert archived(rankd) == []
        home = rankd.archiver._archives()
        assert home is not None
        assert home.outdated
        await rankd.save()
        assert not home.outdated
        assert files(tmp_path) == []


async def test_erased_data_leaves_the_files(ledger: MemoryLedger, tmp_path: Path) -> None:
    clock = SetClock()
    async with engine(ledger, clock, saved_in(tmp_path)) as rankd:
        await play(rankd, clock)
        await rankd.archiver.tidy()
        await rankd.save()
        before = files(tmp_path)
        assert any(b"ship" in contents(path) for path in before)
        await rankd.erase("p3", reason="asked for it")
        await rankd.save()
        after = files(tmp_path)
        assert len(after) == len(before)
        assert all(b"ship" not in contents(path) for path in after)
        (us,) = [one for one in index_of(rankd).state.archived if one.segment == "region:us"]
        assert index_of(rankd).state.archived[us].archive.reader.find(b"p3") is None
        await verified(rankd)


def contents(path: Path) -> bytes:
    """Return all texts and metadata of an archive, decompressed."""
    with closing(ArchiveStore(path.parents[1])) as store:
        body = path.read_bytes()
        reader = store.in_memory(body).reader
        return b"".join(
            b"%b%b" % (id, beside or b"") for _, id, beside in reader.entries(0, len(reader))
        )


def damage(path: Path) -> None:
    """Change one byte in the middle of the first block."""
    body = bytearray(path.read_bytes())
    body[20] ^= 0xFF
    path.write_bytes(body)


async def test_a_damaged_file_is_never_read_and_rebuilt(
    ledger: MemoryLedger, tmp_path: Path
) -> None:
    clock = SetClock()
    async with engine(ledger, clock, saved_in(tmp_path)) as rankd:
        await play(rankd, clock)
        before = await reads(rankd)
        await rankd.archiver.tidy()
        for path in files(tmp_path):
            damage(path)
        for _ in range(2):
            with pytest.raises(WindowArchiveDamaged):
                await rankd.reader.page("b", window=CLOSED)
        archives = rankd.archiver._archives()
        assert archives is not None
        assert archives.damage is not None
        await rankd.archiver.mend()
        assert await reads(rankd) == before
        archives = rankd.archiver._archives()
        assert archives is not None
        assert archives.damage is None
        await verified(rankd)


@pytest.mark.parametrize("change", [damage, Path.unlink])
async def test_what_is_wrong_after_a_start_is_rebuilt(
    ledger: MemoryLedger, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    clock = SetClock()
    async with engine(ledger, clock, saved_in(tmp_path)) as rankd:
        await play(rankd, clock)
        before = await reads(rankd)
        await rankd.archiver.tidy()
        await rankd.save()
    for path in files(tmp_path):
        change(path)
    async with engine(ledger, clock, saved_in(tmp_path)) as rankd:
        if change is damage:
            with pytest.raises(WindowArchiveDamaged):
                await reads(rankd)
            await rankd.archiver.mend()
        assert await reads(rankd) == before


async def test_verification_finds_another_content(ledger: MemoryLedger, tmp_path: Path) -> None:
    """Of a file that is sound in itself, but has other entries than the ledger folds to."""
    clock = SetClock()
    async with engine(ledger, clock, saved_in(tmp_path)) as rankd:
        await play(rankd, clock, days=2)
        await rankd.archiver.tidy()
        there = index_of(rankd).state.archived
        there[Ranking("b", CLOSED)] = there[Ranking("b", "daily:2026-11-15")]
        with pytest.raises(IndexDiffers):
            await verified(rankd)


@pytest.mark.parametrize("nth", range(12))
async def test_a_crash_at_any_step_is_harmless(
    ledger: MemoryLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    """Each call that changes the disk may be the last one, while archiving and while saving."""
    clock, calls = SetClock(), 0
    async with engine(ledger, clock, saved_in(tmp_path)) as rankd:
        await play(rankd, clock)
        await rankd.archiver.tidy()
        await rankd.save()
        clock.time += DAY
        await submit(rankd, "p1", 2)
        before, digest = await reads(rankd), digest_of(index_of(rankd))

        def failing(real: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **given: Any) -> Any:
                nonlocal calls
                calls += 1
                if calls > nth:
                    raise OSError("the power is gone")
                return real(*args, **given)

            return call

        with monkeypatch.context() as patched:
            for name in ("write", "fsync", "fdatasync", "link"):
                patched.setattr(os, name, failing(getattr(os, name)))
            for name in ("replace", "unlink"):
                patched.setattr(Path, name, failing(getattr(Path, name)))
            with pytest.raises(OSError, match="power"):
                await rankd.archiver.tidy()
                await rankd.save()
                raise OSError("the power stayed")  # Every step was taken.
        assert await reads(rankd) == before
        assert digest_of(index_of(rankd)) == digest
    async with engine(ledger, clock, saved_in(tmp_path)) as rankd:
        assert await reads(rankd) == before
        assert digest_of(index_of(rankd)) == digest
        await rankd.archiver.tidy()
        await rankd.save()
        named = {one.archive.name for one in index_of(rankd).state.archived.values()}
        assert {path.name for path in files(tmp_path)} == named
        assert not list((tmp_path / "archives").glob("*.unfinished"))


def descriptors() -> int:
    """Return how many files this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_thousands_of_windows_need_few_files_open(
    ledger: MemoryLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_store, "FILES_OPEN_MAX", 3)
    clock = SetClock()
    build = saved_in(tmp_path)
    async with engine(ledger, clock, build) as rankd:
        await rankd.define("b", {"windows": [{"name": "hour", "cron": "0 * * * *"}]})
        open_before = descriptors()
        for hour in range(100):
            await submit(rankd, "ann", hour)
            clock.time += DAY // 24
        await rankd.sealer.turn()
        await rankd.archiver.tidy()
        assert len(index_of(rankd).state.rankings) == 1
        while index_of(rankd).free_dropped():
            pass
        assert len(index_of(rankd).state.players) == 0
        for sealed in list(rankd.state.boards["b"].sealed):
            assert await rankd.reader.standing("b", "ann", window=sealed) is not None
        assert descriptors() <= open_before + 3


async def test_homes_without_archives_have_none(ledger: MemoryLedger) -> None:
    clock = SetClock()
    async with engine(ledger, clock, lambda: IndexHome(NativeIndex(), None)) as rankd:
        await play(rankd, clock)
        await rankd.archiver.tidy()
        assert archived(rankd) == []


async def test_a_search_finds_players_of_archived_windows(ledger: MemoryLedger) -> None:
    clock = SetClock()
    async with engine(ledger, clock, building(None)) as rankd:
        await rankd.define("b", {"windows": ["daily"]})
        await submit(rankd, "only-then", 1)
        clock.time += DAY
        await submit(rankd, "now", 1)
        await rankd.archiver.tidy()
        while index_of(rankd).free_dropped():
            pass
        found = await PlayerSearch(rankd).find("only", after=None, limit=5)
        assert [one.player for one in found.players] == ["only-then"]
