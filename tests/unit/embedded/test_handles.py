"""The life of an open engine: with and without ``with``, closed, forgotten, forked."""

import asyncio
import gc
import re
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest

import rankd
from rankd.embedded import AsyncRanks
from rankd.errors import LedgerInUse, LedgerUnavailable

pytestmark = pytest.mark.anyio

GONE_SECONDS = 60
"""Far more than a forgotten engine takes to close."""


def scores(folder: Path) -> list[object]:
    with rankd.open(folder) as ranks:
        return [standing.score for standing in ranks.board("arena").top()]


def wait_for_engine_threads() -> None:
    for thread in threading.enumerate():
        if thread.name == "rankd":
            thread.join(GONE_SECONDS)


# ------------------------------------------------------------------------ without an event loop


def test_engine_opens_without_with_and_closes(tmp_path: Path) -> None:
    ranks = rankd.open(tmp_path)
    assert ranks.board("arena").submit("ann", 7).rank == 1
    ranks.close()
    assert scores(tmp_path) == [7]


def test_engine_in_memory_opens_without_with() -> None:
    with pytest.warns(RuntimeWarning, match="memory"):
        ranks = rankd.open()
    assert ranks.board("arena").submit("ann", 7).rank == 1
    ranks.close()


def test_with_takes_an_engine_that_is_open_and_closes_it(tmp_path: Path) -> None:
    ranks = rankd.open(tmp_path)
    with ranks as same:
        assert same is ranks
        ranks.board("arena").submit("ann", 7)
    with pytest.raises(LedgerUnavailable, match="closed"):
        ranks.boards()
    with pytest.raises(LedgerUnavailable, match="closed"), ranks:
        pass
    assert scores(tmp_path) == [7]


def test_closing_again_changes_nothing(tmp_path: Path) -> None:
    with rankd.open(tmp_path) as ranks:
        ranks.close()
    ranks.close()


def test_opening_fails_where_the_error_is_raised(tmp_path: Path) -> None:
    with rankd.open(tmp_path), pytest.raises(LedgerInUse):
        rankd.open(tmp_path)


def test_threads_that_still_write_are_told_that_it_is_closed(tmp_path: Path) -> None:
    """Each submission was acknowledged and is there, or was refused and is not."""
    ranks = rankd.open(tmp_path)
    board = ranks.board("arena", rule="sum")
    acknowledged, refused, begun = [], [], threading.Barrier(5)

    def play(player: str) -> None:
        begun.wait()
        for _ in range(100_000):
            try:
                board.submit(player, 1)
                acknowledged.append(player)
            except LedgerUnavailable as exc:
                refused.append(exc.applied)
                return

    players = [threading.Thread(target=play, args=(f"p{n}",)) for n in range(4)]
    for player in players:
        player.start()
    begun.wait()
    while len(acknowledged) < 50:
        pass
    ranks.close()
    for player in players:
        player.join()
    assert refused == ["no"] * 4
    assert sum(map(int, map(str, scores(tmp_path)))) == len(acknowledged)


def test_work_under_way_is_answered_when_the_engine_is_closed(tmp_path: Path) -> None:
    ranks = rankd.open(tmp_path)
    ranks.board("arena").submit_many([(f"p{n}", n) for n in range(100)])
    begun, closing = threading.Event(), threading.Event()
    answers: list[object] = []

    def stand_still(_progress: object) -> None:
        begun.set()
        closing.wait()

    def verify() -> None:
        try:
            ranks.verify(progress=stand_still)
            answers.append("verified")
        except LedgerUnavailable as exc:
            answers.append(exc)

    thread = threading.Thread(target=verify)
    thread.start()
    begun.wait()
    threading.Timer(0.05, closing.set).start()  # Most likely after the stop; right in any order.
    ranks.close()
    thread.join()
    assert len(answers) == 1


# ----------------------------------------------------------------------------------- forgotten


def forget_engine(folder: Path) -> int:
    ranks = rankd.open(folder)
    ranks.board("arena").submit("ann", 7)
    return sys._getframe().f_lineno - 2


def test_forgotten_engine_warns_where_it_was_opened_and_loses_nothing(tmp_path: Path) -> None:
    with pytest.warns(ResourceWarning, match="not closed") as warned:
        line = forget_engine(tmp_path)
    (one,) = warned
    assert (one.filename, one.lineno) == (__file__, line)
    wait_for_engine_threads()
    assert scores(tmp_path) == [7]


def test_engine_stays_open_for_as_long_as_a_board_is_used(tmp_path: Path) -> None:
    board = rankd.open(tmp_path).board("arena")
    gc.collect()
    assert board.submit("ann", 7).rank == 1
    with pytest.warns(ResourceWarning, match="not closed"):
        del board
    wait_for_engine_threads()


def test_closed_engine_warns_of_nothing(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ranks = rankd.open(tmp_path)
        ranks.close()
        del ranks
        gc.collect()


PROGRAM = """
import rankd
ranks = rankd.open({folder!r})
ranks.board("arena").submit("ann", 7)
"""


def test_program_that_ends_without_closing_warns_and_loses_nothing(tmp_path: Path) -> None:
    program = tmp_path / "game.py"
    program.write_text(PROGRAM.format(folder=str(tmp_path / "scores")))
    command = [sys.executable, "-W", "always::ResourceWarning", str(program)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=GONE_SECONDS)
    assert (ended.returncode, ended.stdout) == (0, "")
    assert f"{program}:3: ResourceWarning" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert scores(tmp_path / "scores") == [7]


def test_fork_that_ends_neither_warns_nor_closes(tmp_path: Path) -> None:
    script = f"""
import os, rankd
ranks = rankd.open({str(tmp_path)!r})
if (child := os.fork()) == 0:
    del ranks
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
ranks.board("arena").submit("ann", 7)
ranks.close()
"""
    command = [sys.executable, "-W", "error::ResourceWarning", "-c", script]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=GONE_SECONDS)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert scores(tmp_path) == [7]


# --------------------------------------------------------------------------- with an event loop


async def test_awaited_engine_is_open_until_it_is_closed(tmp_path: Path) -> None:
    ranks = await rankd.aopen(tmp_path)
    assert isinstance(ranks, AsyncRanks)
    board = await ranks.board("arena")
    assert (await board.submit("ann", 7)).rank == 1
    await ranks.close()
    await ranks.close()
    with pytest.raises(LedgerUnavailable, match="closed"):
        board.top()
    async with rankd.aopen(tmp_path) as again:
        assert [standing.score for standing in again.board("arena").top()] == [7]


async def test_async_with_takes_an_awaited_engine(tmp_path: Path) -> None:
    async with await rankd.aopen(tmp_path) as ranks:
        assert ranks.boards() == []
    with pytest.raises(LedgerUnavailable, match="closed"):
        async with ranks:
            pass


async def test_async_with_raises_why_it_cannot_be_opened(tmp_path: Path) -> None:
    async with rankd.aopen(tmp_path):
        with pytest.raises(LedgerInUse):
            await rankd.aopen(tmp_path)
        with pytest.raises(LedgerInUse):
            async with rankd.aopen(tmp_path):
                pass


async def test_error_within_async_with_is_raised_and_the_folder_is_free(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        async with rankd.aopen(tmp_path):
            raise ZeroDivisionError
    await (await rankd.aopen(tmp_path)).close()


async def test_cancelled_opening_leaves_the_folder_free(tmp_path: Path) -> None:
    for steps in range(8):
        opening = asyncio.ensure_future(rankd.aopen(tmp_path).__aenter__())
        for _ in range(steps):
            await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
    await (await rankd.aopen(tmp_path)).close()


async def test_cancelled_close_is_finished_all_the_same(tmp_path: Path) -> None:
    ranks = await rankd.aopen(tmp_path)
    closing = asyncio.ensure_future(ranks.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    await ranks.close()
    await (await rankd.aopen(tmp_path)).close()


def test_forgotten_async_engine_warns_and_loses_nothing(tmp_path: Path) -> None:
    async def play() -> int:
        ranks = await rankd.aopen(tmp_path)
        await ranks.board("arena").submit("ann", 7)
        return sys._getframe().f_lineno - 2

    with pytest.warns(ResourceWarning, match="not closed") as warned:
        line = asyncio.run(play())
    (one,) = warned
    assert (one.filename, one.lineno) == (__file__, line)
    assert scores(tmp_path) == [7]


def test_loop_that_ends_closes_the_engine(tmp_path: Path) -> None:
    kept: list[AsyncRanks] = []

    async def play() -> None:
        kept.append(await rankd.aopen(tmp_path))
        await kept[0].board("arena").submit("ann", 7)

    asyncio.run(play())
    assert scores(tmp_path) == [7]
    with pytest.raises(LedgerUnavailable, match="closed"):
        kept[0].boards()
    with pytest.warns(ResourceWarning, match="not closed"):
        kept.clear()


def test_engine_that_is_not_awaited_says_how_to_open_it(tmp_path: Path) -> None:
    opening = rankd.aopen(tmp_path)
    way = "`ranks = await rankd.aopen(...)`"
    for name in ("board", "submit", "boards", "position"):
        with pytest.raises(AttributeError, match=re.escape(f"no {name!r}: use {way}")):
            getattr(opening, name)
    assert way in repr(opening)
    assert not hasattr(opening, "__fspath__")
    assert not hasattr(opening, "_repr_html_")
    assert list(tmp_path.iterdir()) == [], "and leaves nothing behind"


# --------------------------------------------------------------------------------------- forked

SYNCHRONOUS = """
import os, sys
import rankd

def refusal(work):
    try:
        work()
    except rankd.errors.LedgerUnavailable as exc:
        return f"{exc.applied}: {exc}"

with rankd.open(sys.argv[1]) as ranks:
    board = ranks.board("b", rule="sum")
    board.submit("ann", 1)
    done, told = os.pipe()
    if not (child := os.fork()):
        for work in (
            lambda: board.submit("ann", 1), lambda: board.top(), lambda: ranks.board("c"),
            lambda: board.standing("ann"), lambda: ranks.verify(), lambda: ranks.save(),
        ):
            print(refusal(work), flush=True)
        os.close(told)
        os.read(done, 1)  # Until the parent has closed the folder, and opened it anew.
        os._exit(0)
    board.submit("ann", 1)
with rankd.open(sys.argv[1]) as ranks:
    score = ranks.board("b").submit("ann", 1).score
    os.write(told, b"x")
    status = os.waitpid(child, 0)[1]
    print("parent", score)
    print(status)
    ranks.verify()
"""

ASYNCHRONOUS = """
import asyncio, os, sys
import rankd

async def tried(board):
    try:
        await board.submit("ann", 1)
    except rankd.errors.LedgerUnavailable as exc:
        print(f"{exc.applied}: {exc}", flush=True)

async def main():
    async with rankd.aopen(sys.argv[1]) as ranks:
        board = await ranks.board("b", rule="sum")
        await board.submit("ann", 1)
        if not (child := os.fork()):
            asyncio.new_event_loop().run_until_complete(tried(board))
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        print("parent", (await board.submit("ann", 1)).score)

asyncio.run(main())
"""


def run(program: str, folder: Path) -> list[str]:
    command = [sys.executable, "-W", "ignore", "-c", program, str(folder)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=GONE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_forked_child_is_refused_and_parent_goes_on(tmp_path: Path) -> None:
    *refused, parent, status = run(SYNCHRONOUS, tmp_path / "d")
    assert len(refused) == 6 and len(set(refused)) == 1
    assert refused[0].startswith("no: ") and "after the fork" in refused[0]
    assert (parent, status) == ("parent 3", "0")


def test_forked_child_is_refused_by_an_asynchronous_engine(tmp_path: Path) -> None:
    refused, parent = run(ASYNCHRONOUS, tmp_path / "d")
    assert "after the fork" in refused
    assert parent == "parent 2"
