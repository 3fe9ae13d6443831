"""A folder of snapshots: one save at a time, nothing left behind, and the disk's errors told."""

import asyncio
import errno
import os
import threading
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from rankd.adapters.memory import snapshot_save
from rankd.adapters.memory.index import NativeIndex
from rankd.adapters.memory.snapshot_folder import SnapshotFolder
from rankd.model.facts import Position
from rankd.ports import Move, Progress, Ranking, RankingShape

pytestmark = pytest.mark.anyio

FOREVER = Ranking("b", "forever")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def index(monkeypatch: pytest.MonkeyPatch) -> NativeIndex:
    monkeypatch.setattr(snapshot_save, "STEP_ENTRIES", 3)
    index = NativeIndex()
    await add(index, 10, opened={FOREVER: RankingShape(16, False)})
    return index


@pytest.fixture
def snapshots(index: NativeIndex, tmp_path: Path) -> SnapshotFolder:
    return SnapshotFolder(tmp_path, index)


async def add(index: NativeIndex, count: int, **rest: Any) -> None:
    after = await index.checkpoint()
    moves = [Move(FOREVER, f"p{after}/{n}", n.to_bytes(16, "big")) for n in range(count)]
    await index.apply(moves, after=after, through=Position(after + 1), **rest)


async def move(index: NativeIndex, turn: int) -> None:
    after = await index.checkpoint()
    moves = [Move(FOREVER, f"p0/{n}", bytes([n + turn % 5] * 16), b"run") for n in range(4)]
    await index.apply(moves, after=after, through=Position(after + 1))


def begin(snapshots: SnapshotFolder) -> AsyncGenerator[Progress, None]:
    return cast("AsyncGenerator[Progress, None]", snapshots.save(list))


async def saved(snapshots: SnapshotFolder) -> list[Progress]:
    return [progress async for progress in snapshots.save(list)]


async def loaded(folder: Path) -> NativeIndex:
    index = NativeIndex()
    assert await SnapshotFolder(folder, index).load(lambda _: None) == []
    index.check()
    return index


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# ---- Saving ------------------------------------------------------------------------------------


async def test_each_note_is_written_before_the_next_is_made(
    index: NativeIndex, tmp_path: Path
) -> None:
    sizes: list[int] = []

    def notes() -> Iterator[bytes]:
        for _ in range(3):
            (file,) = tmp_path.glob(f"*/{snapshot_save.NOTES}")
            sizes.append(file.stat().st_size)
            yield b"note"

    async for _ in SnapshotFolder(tmp_path, index).save(notes):
        pass
    frame = snapshot_save.HEAD_BYTES + len(b"note")
    assert sizes == [0, frame, 2 * frame]


async def test_a_save_tells_how_far_it_is(snapshots: SnapshotFolder) -> None:
    told = await saved(snapshots)
    assert [each.done for each in told] == [3, 6, 9, 10, 13, 16, 19, 20, 20, 20]
    assert {each.total for each in told} == {20}
    assert [each.stage for each in told[-3:]] == ["reading", "writing", "saved"]


async def test_one_save_at_a_time(snapshots: SnapshotFolder, index: NativeIndex) -> None:
    """Also while the first one only waits for the disk."""
    first = begin(snapshots)
    while (await anext(first)).stage == "reading":
        with pytest.raises(AssertionError, match="already"):
            await anext(begin(snapshots))
        with pytest.raises(AssertionError, match="already"):
            await anext(begin(SnapshotFolder(Path("elsewhere"), index)))
    with pytest.raises(AssertionError, match="already"):
        await anext(begin(snapshots))
    await first.aclose()
    await saved(snapshots)


async def test_an_end_that_comes_late_does_not_end_another_save(
    snapshots: SnapshotFolder, index: NativeIndex, tmp_path: Path
) -> None:
    first, second = begin(snapshots), begin(SnapshotFolder(tmp_path / "other", index))
    while (await anext(first)).stage == "reading":
        pass
    while (await anext(second)).done < 20:  # All were read, so only a note can tell of a change.
        pass
    await first.aclose()
    await move(index, 1)
    assert [progress async for progress in second]
    assert (await loaded(tmp_path / "other")).digest() == index.digest()


async def test_an_index_that_failed_is_not_saved(
    snapshots: SnapshotFolder, index: NativeIndex, tmp_path: Path
) -> None:
    save = begin(snapshots)
    await anext(save)
    index._failure = RuntimeError("broken")
    with pytest.raises(AssertionError, match="refuses everything"):
        await anext(save)
    assert names(tmp_path) == set()


async def test_a_storm_of_touches_ends_with_the_last_pass(
    snapshots: SnapshotFolder,
    index: NativeIndex,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Four are touched during each step, and a step tells of one, or of two."""
    monkeypatch.setattr(snapshot_save, "STEP_TOUCHES", 1)
    monkeypatch.setattr(snapshot_save, "LAST_TOUCHES_MAX", 0)
    monkeypatch.setattr(snapshot_save, "PASSES_MAX", 2)
    steps, digest = 0, b""
    async for progress in snapshots.save(list):
        if progress.stage == "reading":
            steps += 1
            await move(index, steps)
            digest = index.digest()
    assert steps < 200
    assert (await loaded(tmp_path)).digest() == digest


async def test_what_others_keep_in_the_folder_stays(
    snapshots: SnapshotFolder, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    await saved(snapshots)
    assert "mine" in names(tmp_path)


async def test_what_a_dead_process_left_is_not_seen_and_cleared_away_by_the_next_save(
    snapshots: SnapshotFolder, index: NativeIndex, tmp_path: Path
) -> None:
    await saved(snapshots)
    (tmp_path / ("0" * 32)).mkdir()
    (tmp_path / ".current.unfinished").write_bytes(b'{"vers')
    assert (await loaded(tmp_path)).digest() == index.digest()
    await saved(snapshots)
    assert len(names(tmp_path)) == 2
    assert (await loaded(tmp_path)).digest() == index.digest()


# ---- Broken off --------------------------------------------------------------------------------


@pytest.mark.parametrize("sync", range(1, 9))
async def test_whichever_sync_fails_a_whole_save_counts(
    snapshots: SnapshotFolder,
    index: NativeIndex,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sync: int,
) -> None:
    """The old one, or from the last sync on perhaps the new one: both are there."""
    await saved(snapshots)
    before = index.digest()
    await add(index, 5)
    calls, fsync = 0, os.fsync

    def failing(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls == sync:
            raise OSError(errno.EIO, "input/output error")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(OSError, match="input/output"):
        await saved(snapshots)
    digest = (await loaded(tmp_path)).digest()
    assert digest == before if sync < 8 else digest in (before, index.digest())
    await saved(snapshots)
    assert (await loaded(tmp_path)).digest() == index.digest()


async def test_a_save_cancelled_while_it_decides_is_finished_first(
    snapshots: SnapshotFolder,
    index: NativeIndex,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Clearing away what the thread is about to name would leave nothing at all."""
    reached, allowed = asyncio.Event(), threading.Event()
    loop, write = asyncio.get_running_loop(), snapshot_save.write_synced

    def waiting(path: Path, body: bytes) -> None:
        loop.call_soon_threadsafe(reached.set)
        allowed.wait()
        write(path, body)

    monkeypatch.setattr(snapshot_save, "write_synced", waiting)
    saving = asyncio.create_task(saved(snapshots))
    await reached.wait()
    saving.cancel()
    await asyncio.sleep(0)
    saving.cancel()
    await asyncio.sleep(0)
    assert not saving.done()
    allowed.set()
    with pytest.raises(asyncio.CancelledError):
        await saving
    assert (await loaded(tmp_path)).digest() == index.digest()


# ---- Loading -----------------------------------------------------------------------------------


async def test_progress_of_a_load_is_told_on_the_event_loop_before_it_ends(
    snapshots: SnapshotFolder, tmp_path: Path
) -> None:
    await saved(snapshots)
    told: list[tuple[int, Progress]] = []
    await SnapshotFolder(tmp_path, NativeIndex()).load(
        lambda progress: told.append((threading.get_ident(), progress))
    )
    assert {thread for thread, _ in told} == {threading.get_ident()}
    assert told[-1][1].done == told[-1][1].total


async def test_a_load_that_is_cancelled_leaves_the_index_empty(
    snapshots: SnapshotFolder, tmp_path: Path
) -> None:
    await saved(snapshots)
    for timeouts in range(6):
        index = NativeIndex()
        loading = asyncio.create_task(SnapshotFolder(tmp_path, index).load(lambda _: None))
        for _ in range(timeouts):
            await asyncio.sleep(0)
        loading.cancel()
        await asyncio.wait([loading])
        assert loading.cancelled() == (not await index.count(FOREVER))


async def test_only_an_empty_index_is_filled(snapshots: SnapshotFolder) -> None:
    await saved(snapshots)
    with pytest.raises(AssertionError, match="not empty"):
        await snapshots.load(lambda _: None)
