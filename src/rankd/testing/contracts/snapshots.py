"""The contracts of Snapshots, StateSnapshots, Archive and TopLists. Subclass, and provide fixtures.

``kept`` makes an empty index and its Snapshots; each finds the saves of the one before. ``files``
returns the files, so that a test can damage them. Steps must be small enough for a hundred entries
to take several: tests change the index before each of them.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Protocol, cast

import pytest

from rankd.errors import SnapshotDamaged
from rankd.model.facts import Position
from rankd.model.standing import Rank
from rankd.ports import (
    COPIES_KEPT,
    DRAFT,
    Archive,
    Move,
    Placed,
    Progress,
    RankIndex,
    Ranking,
    RankingShape,
    SealedRow,
    Snapshots,
    StateSnapshots,
    TopList,
    TopLists,
)
from rankd.testing.contracts.index_reads import (
    DAILY,
    FOREVER,
    OTHER,
    PLAIN,
    fold,
    key,
    left,
    placed,
)

Kept = Callable[[], tuple[RankIndex, Snapshots]]
Files = Callable[[], Sequence[Path]]
Seen = dict[Ranking, list[Placed]]

REDONE = Ranking(DRAFT + "race", "forever")
BOARDS = ("race", "other", REDONE.board)


def crowd(count: int, *, at: Ranking = FOREVER, first: int = 0) -> list[Move]:
    """Return moves of as many players, some with metadata."""
    return [
        placed(f"p{n:03}", n % 7, at=at, beside=b"%d" % n if n % 3 == 0 else None)
        for n in range(first, first + count)
    ]


async def seen(index: RankIndex) -> Seen:
    """Return everything that can be read of an index."""
    return {
        ranking: list((await index.read(ranking, first=Rank(1), limit=10_000)).entries)
        for board in BOARDS
        for ranking in await index.rankings(board)
    }


def save(snapshots: Snapshots, *notes: bytes) -> AsyncGenerator[Progress, None]:
    """Begin to save, as a generator that can be closed."""
    return cast("AsyncGenerator[Progress, None]", snapshots.save(lambda: notes))


async def save_all(snapshots: Snapshots, *notes: bytes) -> int:
    """Save, and return how many steps it took."""
    return len([progress async for progress in snapshots.save(lambda: notes)])


def unheard(_: Progress) -> None:
    """Ignore the progress."""


def now(call: object) -> object:
    """Return the result of a call that does not suspend."""
    try:
        call.send(None)  # type: ignore[attr-defined]
    except StopIteration as done:
        return done.value
    raise AssertionError("the call suspended")


@pytest.mark.anyio
class SnapshotsContract:
    """The promises of ``rankd.ports.Snapshots``, by their numbers."""

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    # ------------------------------------------------------------ (1) what comes back

    async def test_where_nothing_was_saved_nothing_is_loaded(self, kept: Kept) -> None:
        index, snapshots = kept()
        assert await snapshots.load(unheard) is None
        assert await index.checkpoint() == 0

    async def test_an_index_comes_back_as_it_was_and_the_notes_beside_it(self, kept: Kept) -> None:
        index, snapshots = kept()
        opened = {FOREVER: PLAIN, DAILY: PLAIN, OTHER: RankingShape(40, True)}
        wide = [Move(OTHER, f"p{n:03}", key(n % 5, n, width=40)) for n in range(40)]
        await fold(index, *crowd(60), *wide, opened=opened)
        await fold(index, left("p001"), left("p002"))
        await save_all(snapshots, b"one", b"", b"three" * 1000)
        again, others = kept()
        assert list(await others.load(unheard) or ()) == [b"one", b"", b"three" * 1000]
        assert await again.checkpoint() == 2
        assert await seen(again) == await seen(index)
        assert await again.scores_below(OTHER, key(3, width=40)) == 3

    async def test_an_empty_index_can_be_saved(self, kept: Kept) -> None:
        await save_all(kept()[1])
        again, others = kept()
        assert list(await others.load(unheard) or ()) == []
        assert await seen(again) == {}

    async def test_what_was_loaded_goes_on_like_what_was_saved(self, kept: Kept) -> None:
        index, snapshots = kept()
        await fold(index, *crowd(60), *crowd(60, at=DAILY, first=30), opened=[FOREVER, DAILY])
        await fold(index, dropped=[DAILY])
        await save_all(snapshots)
        again, others = kept()
        await others.load(unheard)
        for each in (index, again):
            await fold(each, *crowd(5, first=95), left("p000"), placed("p001", 0), opened=[OTHER])
        assert await seen(again) == await seen(index)
        assert await again.checkpoint() == await index.checkpoint()

    async def test_the_last_save_counts_whole(self, kept: Kept) -> None:
        index, snapshots = kept()
        await fold(index, *crowd(60), opened=[FOREVER])
        await save_all(snapshots, b"first")
        await fold(index, *(left(f"p{n:03}") for n in range(40)), opened=[DAILY])
        await save_all(snapshots, b"second")
        again, others = kept()
        assert list(await others.load(unheard) or ()) == [b"second"]
        assert await seen(again) == await seen(index)

    async def test_drafts_are_left_out(self, kept: Kept) -> None:
        index, snapshots = kept()
        await fold(index, *crowd(20), opened=[FOREVER])
        before = await seen(index)
        await index.stage(crowd(60, at=REDONE), opened={REDONE: PLAIN})
        await save_all(snapshots)
        again, others = kept()
        await others.load(unheard)
        assert await seen(again) == before

    # -------------------------------------------------- (2) beside reads and applies

    async def test_it_is_the_index_at_the_moment_of_the_notes(self, kept: Kept) -> None:
        """The index goes on before every step; one change adds metadata and the next removes it."""
        index, snapshots = kept()
        await fold(index, *crowd(60), *crowd(60, at=DAILY), opened=[FOREVER, DAILY])
        moments: list[tuple[Seen, object]] = []

        def notes() -> Iterable[bytes]:
            moment = now(seen(index)) if index.immediate else {}
            moments.append((cast("Seen", moment), now(index.checkpoint())))
            return [b"noted"]

        turn = 0
        async for _ in snapshots.save(notes):
            turn += 1
            await fold(
                index,
                placed(f"p{turn * 7 % 60:03}", turn % 5, beside=b"turn %d" % turn),
                placed(f"p{(turn - 2) * 7 % 60:03}", 4),
                placed(f"p{turn * 11 % 60:03}", 8, at=DAILY),
                placed(f"new{turn}", 3),
                left(f"p{turn * 13 % 60:03}"),
                left(f"new{turn - 3}"),
            )
        assert turn > 5, "the save took too few steps to tell"
        ((expected, checkpoint),) = moments
        again, others = kept()
        assert list(await others.load(unheard) or ()) == [b"noted"]
        assert await again.checkpoint() == checkpoint
        assert await seen(again) == expected

    async def test_notes_are_taken_while_the_index_is_held_still(self, kept: Kept) -> None:
        index, snapshots = kept()
        await fold(index, *crowd(40), *crowd(40, at=DAILY, first=20), opened=[FOREVER, DAILY])
        await index.stage(crowd(30, at=REDONE, first=50), opened={REDONE: PLAIN})
        expected, held = Seen(), False

        @asynccontextmanager
        async def still() -> AsyncIterator[None]:
            nonlocal expected, held
            expected = await self._disturb(index)  # More than the last step reads by itself.
            held = True
            yield
            held = False
            await fold(index, placed("late", 9))

        def notes() -> Iterable[bytes]:
            return [b"held" if held else b"not held"]

        async for _ in snapshots.save(notes, still=still()):
            pass
        again, others = kept()
        assert list(await others.load(unheard) or ()) == [b"held"]
        assert await seen(again) == expected

    async def test_what_happens_at_any_one_step_is_saved(self, kept: Kept) -> None:
        """Moves forward and back, leaving and returning, opening, dropping and adopting."""
        at = 0
        while at < (await self._disturbed(kept, at)) - 1:
            at += 1

    async def _disturbed(self, kept: Kept, at: int) -> int:
        index, snapshots = kept()
        await fold(index, *crowd(40), *crowd(40, at=DAILY, first=20), opened=[FOREVER, DAILY])
        await index.stage(crowd(30, at=REDONE, first=50), opened={REDONE: PLAIN})
        steps, expected = 0, await seen(index)
        saving = save(snapshots)
        async with aclosing(saving):
            async for _ in saving:
                if steps == at:
                    expected = await self._disturb(index)
                steps += 1
        if at >= steps - 2:  # The moment had passed.
            return steps
        again, others = kept()
        await others.load(unheard)
        assert await seen(again) == expected, f"disturbed at step {at}"
        return steps

    async def _disturb(self, index: RankIndex) -> Seen:
        await fold(index, *(placed(f"p{n:03}", 9) for n in range(5)), dropped=[DAILY])
        await fold(index, left("p030"), left("p031"), placed("p005", 0, beside=b"first"))
        await index.stage(crowd(10, at=REDONE, first=90))
        await fold(
            index,
            *crowd(3, at=DAILY, first=200),
            placed("p030", 4),
            opened=[DAILY],
            adopted={REDONE: OTHER},
        )
        await fold(index, placed("p095", 0, at=OTHER), left("p091", at=OTHER))
        found = await seen(index)
        return {ranking: entries for ranking, entries in found.items() if ranking != REDONE}

    async def test_others_have_their_turns_while_it_goes_on(self, kept: Kept) -> None:
        index, snapshots = kept()
        await fold(index, *crowd(60), opened=[FOREVER])
        saving = asyncio.create_task(save_all(snapshots))
        turns = 0
        while not saving.done():
            assert await index.count(FOREVER) == 60
            turns += 1
            await asyncio.sleep(0)
        assert turns >= await saving

    # ------------------------------------------------------------- (3) broken off

    async def test_a_save_that_is_broken_off_leaves_the_one_before(
        self, kept: Kept, files: Files
    ) -> None:
        """At each step; and the index can be saved again."""
        index, snapshots = kept()
        await fold(index, *crowd(40), opened=[FOREVER])
        steps = await save_all(snapshots, b"before")
        expected, there = await seen(index), files()
        await fold(index, *crowd(10, first=80))
        for after in range(1, steps):
            saving = save(snapshots, b"broken")
            for _ in range(after):
                await anext(saving)
            await saving.aclose()
            assert files() == there
        again, others = kept()
        assert list(await others.load(unheard) or ()) == [b"before"]
        assert await seen(again) == expected
        await save_all(snapshots, b"after")
        assert list(await kept()[1].load(unheard) or ()) == [b"after"]

    async def test_a_save_that_fails_leaves_the_one_before(self, kept: Kept, files: Files) -> None:
        index, snapshots = kept()
        await fold(index, *crowd(40), opened=[FOREVER])
        await save_all(snapshots, b"before")
        there = files()

        def refused() -> Iterable[bytes]:
            raise RuntimeError("no notes today")

        def broken() -> Iterable[bytes]:
            yield b"some"
            raise RuntimeError("no more notes today")

        for notes in (refused, broken):
            with pytest.raises(RuntimeError, match="notes today"):
                async for _ in snapshots.save(notes):
                    pass
            assert files() == there
        assert list(await kept()[1].load(unheard) or ()) == [b"before"]

    async def test_a_cancelled_save_leaves_the_one_before_or_itself(self, kept: Kept) -> None:
        index, snapshots = kept()
        await fold(index, *crowd(40), opened=[FOREVER])
        await save_all(snapshots, b"before")
        for timeouts in range(40):
            saving = asyncio.create_task(save_all(snapshots, b"cancelled"))
            for _ in range(timeouts):
                await asyncio.sleep(0)
            saving.cancel()
            await asyncio.wait([saving])
            again, others = kept()
            assert list(await others.load(unheard) or ()) in ([b"before"], [b"cancelled"])
            assert await seen(again) == await seen(index)

    # ------------------------------------------------------------------ (4) damage

    async def test_damage_is_found_and_never_loaded(self, kept: Kept, files: Files) -> None:
        index, snapshots = kept()
        await fold(index, *crowd(10), opened=[FOREVER])
        saving = save(snapshots, b"note")
        async with aclosing(saving):
            async for _ in saving:
                await fold(index, placed("p001", 3))
        for path in files():
            sound = path.read_bytes()
            middle = len(sound) // 2
            flipped = sound[:middle] + bytes([sound[middle] ^ 1]) + sound[middle + 1 :]
            for spoiled in (flipped, sound[:-1], sound[:middle], sound + b"\0", b""):
                path.write_bytes(spoiled)
                again, others = kept()
                with pytest.raises(SnapshotDamaged):
                    await others.load(unheard)
                assert await seen(again) == {}
                assert await again.checkpoint() == 0
            path.write_bytes(sound)
        assert list(await kept()[1].load(unheard) or ()) == [b"note"]


FRAMES = (b"heading", b"", b"\x00\xff" * 100_000, *(b"%d" % number for number in range(40)))
"""Of several sizes, and more than one call brings."""

NEVER_BEFORE = Position(0)


class CopiesContract:
    """The promises of Copies, by number."""

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def copies(self) -> StateSnapshots:
        raise NotImplementedError

    async def test_1_what_is_loaded_is_what_was_kept(self, copies: StateSnapshots) -> None:
        assert await copies.keep(Position(7), iter(FRAMES), unless_after=NEVER_BEFORE)
        assert await copies.keep(Position(9), [b"other"], unless_after=Position(7))
        assert list(await copies.load(Position(7))) == list(FRAMES)
        assert list(await copies.load(Position(9))) == [b"other"]

    async def test_1_what_is_not_there_is_told(self, copies: StateSnapshots) -> None:
        with pytest.raises(SnapshotDamaged):
            await copies.load(Position(7))

    async def test_2_what_is_broken_off_is_not_kept(self, copies: StateSnapshots) -> None:
        def broken() -> Iterator[bytes]:
            yield b"heading"
            raise ZeroDivisionError

        await copies.keep(Position(7), [b"whole"], unless_after=NEVER_BEFORE)
        with pytest.raises(ZeroDivisionError):
            await copies.keep(Position(9), broken(), unless_after=Position(7))
        assert list(await copies.kept()) == [7]
        with pytest.raises(SnapshotDamaged):
            await copies.load(Position(9))
        assert list(await copies.load(Position(7))) == [b"whole"]

    async def test_3_the_newest_few_are_kept(self, copies: StateSnapshots) -> None:
        assert list(await copies.kept()) == []
        positions = [Position(number * 10) for number in range(1, COPIES_KEPT + 3)]
        for position in positions:
            frame = b"%d" % position
            assert await copies.keep(position, [frame], unless_after=Position(position - 10))
        assert list(await copies.kept()) == positions[: -COPIES_KEPT - 1 : -1]
        for position in await copies.kept():
            assert list(await copies.load(position)) == [b"%d" % position]
        with pytest.raises(SnapshotDamaged):
            await copies.load(positions[0])

    async def test_4_where_one_is_new_enough_no_other_is_kept(self, copies: StateSnapshots) -> None:
        assert await copies.keep(Position(7), [b"first"], unless_after=NEVER_BEFORE)
        for position, unless_after in ((7, 0), (7, 7), (9, 6)):
            frames = [b"second"]
            kept = await copies.keep(
                Position(position), frames, unless_after=Position(unless_after)
            )
            assert not kept, (position, unless_after)
        assert list(await copies.kept()) == [7]
        assert list(await copies.load(Position(7))) == [b"first"]
        assert await copies.keep(Position(9), [b"third"], unless_after=Position(7))


BOARD, WINDOW, SINCE = "b", "daily:2026-11-14", Position(7)
NAMES = ("ann", "Ann", "änn", "anna", "~", "z")
"""By their bytes another order than by any language's rules."""


class KeepsStandings(Archive, TopLists, Protocol):
    """Both ports: one place keeps them."""


def rows(count: int) -> list[SealedRow]:
    """Return final standings in which every three share a rank, and players decide ties."""
    entries = sorted(
        ((place // 3).to_bytes(8, "big"), f"{NAMES[place % 6]}{place}".encode())
        for place in range(count)
    )
    return [
        SealedRow(
            place + 1,
            int.from_bytes(key, "big") + 1,
            player.decode(),
            key + bytes(8),
            (-place, place),
            b'{"run": [1,  2]}' if place % 2 else None,
        )
        for place, (key, player) in enumerate(entries)
    ]


def listed(segment: str | None = None, *, as_of: int, players: int = 3, more: int = 0) -> TopList:
    """Return a top list that differs from every other as of another position."""
    entries = [
        Placed(
            f"{as_of}/é{place}",
            place.to_bytes(16, "big"),
            b'{"name": "\\u0000",  "x": null}' if place % 2 else None,
        )
        for place in range(players)
    ]
    return TopList(Ranking(BOARD, "all", segment), entries, players + more, Position(as_of))


class StandingsContract:
    """One test for each promise of Archive and of TopLists."""

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def anyio_backend(self) -> str:
        """The engine is written for asyncio."""
        return "asyncio"

    # ------------------------------------------------------------------ closed windows

    async def test_rows_are_kept_once_and_stay(self, kept: KeepsStandings) -> None:
        some = rows(10)
        await kept.keep_standings(BOARD, WINDOW, some[:6], since=SINCE)
        other = [row._replace(scores=(0, 0), metadata=b"{}") for row in some[:6]]
        await kept.keep_standings(BOARD, WINDOW, [*other, *some[6:]], since=SINCE)
        await kept.keep_standings(BOARD, WINDOW, [], since=SINCE)
        assert await kept.kept_standings(BOARD, WINDOW, since=SINCE) == 10
        found = await kept.sealed_rows(BOARD, WINDOW, since=SINCE, first=Rank(1), limit=99)
        assert list(found) == some

    async def test_windows_are_kept_apart(self, kept: KeepsStandings) -> None:
        some = rows(3)
        await kept.keep_standings(BOARD, WINDOW, some, since=SINCE)
        for board, window, since in (
            ("c", WINDOW, SINCE),
            (BOARD, "daily:2026-11-15", SINCE),
            (BOARD, WINDOW, Position(8)),
        ):
            assert await kept.kept_standings(board, window, since=since) == 0
            found = await kept.sealed_rows(board, window, since=since, first=Rank(1), limit=9)
            assert list(found) == []
            players = [some[0].player]
            assert not await kept.sealed_players(board, window, players, since=since)
            behind = await kept.sealed_behind(board, window, b"", "", since=since)
            assert behind is None

    async def test_a_window_has_a_total_once_it_is_kept_whole(self, kept: KeepsStandings) -> None:
        await kept.keep_standings(BOARD, WINDOW, rows(3), since=SINCE)
        assert await kept.sealed_total(BOARD, WINDOW, since=SINCE) is None
        await kept.finish_standings(BOARD, WINDOW, 3, since=SINCE)
        await kept.finish_standings(BOARD, WINDOW, 3, since=SINCE)
        assert await kept.sealed_total(BOARD, WINDOW, since=SINCE) == 3
        assert await kept.sealed_total(BOARD, WINDOW, since=Position(8)) is None

    async def test_a_window_whose_time_is_over_is_forgotten_and_no_other(
        self, kept: KeepsStandings
    ) -> None:
        names = [
            (BOARD, WINDOW, SINCE),
            (BOARD, WINDOW, Position(8)),
            (BOARD, "daily:2026-11-15", SINCE),
            ("c", WINDOW, SINCE),
        ]
        for board, window, since in names:
            await kept.keep_standings(board, window, rows(10), since=since)
            await kept.finish_standings(board, window, 10, since=since)
        await kept.finish_standings("empty", WINDOW, 0, since=SINCE)
        await kept.keep_standings("unfinished", WINDOW, rows(2), since=SINCE)
        named = {*names, ("empty", WINDOW, SINCE), ("unfinished", WINDOW, SINCE)}
        assert set(map(tuple, await kept.sealed_windows())) == named

        for _ in range(2):
            await kept.drop_standings(BOARD, WINDOW, since=SINCE)
            assert await kept.kept_standings(BOARD, WINDOW, since=SINCE) == 0
            assert await kept.sealed_total(BOARD, WINDOW, since=SINCE) is None
        await kept.drop_standings("empty", WINDOW, since=SINCE)
        await kept.drop_standings("unfinished", WINDOW, since=SINCE)
        assert set(map(tuple, await kept.sealed_windows())) == set(names[1:])
        for board, window, since in names[1:]:
            assert await kept.kept_standings(board, window, since=since) == 10
            assert await kept.sealed_total(board, window, since=since) == 10

    async def test_pages_are_by_place(self, kept: KeepsStandings) -> None:
        some = rows(10)
        await kept.keep_standings(BOARD, WINDOW, some, since=SINCE)
        for first, limit in product((1, 2, 9, 10, 11, 2**40), (1, 3, 10, 1_000)):
            found = await kept.sealed_rows(
                BOARD, WINDOW, since=SINCE, first=Rank(first), limit=limit
            )
            assert list(found) == some[first - 1 : first - 1 + limit]

    async def test_players_are_found_by_their_ids(self, kept: KeepsStandings) -> None:
        some = rows(10)
        await kept.keep_standings(BOARD, WINDOW, some, since=SINCE)
        asked = [some[7].player, "nobody", some[0].player, "nul\0", some[7].player]
        found = await kept.sealed_players(BOARD, WINDOW, asked, since=SINCE)
        assert dict(found) == {row.player: row for row in (some[0], some[7])}

    async def test_the_row_behind_a_place_is_found_by_bytes(self, kept: KeepsStandings) -> None:
        some = rows(18)
        await kept.keep_standings(BOARD, WINDOW, some, since=SINCE)
        keys = sorted({row.order_key for row in some} | {bytes(15), b"\xff" * 16})
        players = ["", "\U0010ffff", *(row.player for row in some)]
        for order_key, player in product(keys, players):
            found = await kept.sealed_behind(BOARD, WINDOW, order_key, player, since=SINCE)
            place = (order_key, player.encode())
            expected = [row for row in some if (row.order_key, row.player.encode()) >= place]
            assert found == (expected[0] if expected else None)

    # ----------------------------------------------------------------------- top lists

    async def test_a_list_comes_back_as_it_was_kept(self, kept: KeepsStandings) -> None:
        for as_of, (players, more) in enumerate(((3, 0), (0, 0), (1, 2**40), (2_000, 5)), start=1):
            top = listed(as_of=as_of, players=players, more=more)
            await kept.keep_lists([top])
            found = await kept.list_of(top.ranking)
            assert found is not None
            assert found._replace(entries=list(found.entries)) == top
            assert found.whole is (more == 0)

    async def test_a_list_takes_the_place_of_an_older_one_only(self, kept: KeepsStandings) -> None:
        for as_of in (5, 4, 5, 6, 1):
            await kept.keep_lists([listed(as_of=as_of, players=as_of)])
        assert await kept.list_of(Ranking(BOARD, "all")) == listed(as_of=6, players=6)

    async def test_lists_are_of_one_ranking_each(self, kept: KeepsStandings) -> None:
        await kept.keep_lists([])
        lists = [listed(as_of=3), listed("region:eu", as_of=4), listed("region:us", as_of=2)]
        await kept.keep_lists(lists)
        assert await kept.list_of(Ranking(BOARD, "all", "region:eu")) == lists[1]
        assert await kept.list_of(Ranking(BOARD, "all", "region:nul\0")) is None
        assert await kept.list_of(Ranking(BOARD, "daily:2026-11-14")) is None
        assert await kept.list_of(Ranking("c", "all")) is None
        known = await kept.lists_kept()
        assert {ranking: one.as_of for ranking, one in known.items()} == {
            top.ranking: top.as_of for top in lists
        }
        assert all(one.seconds >= 0 for one in known.values())

    async def test_what_is_dropped_is_gone_and_nothing_else(self, kept: KeepsStandings) -> None:
        lists = [listed(as_of=3), listed("region:eu", as_of=4), listed("region:us", as_of=2)]
        await kept.keep_lists(lists)
        await kept.drop_lists([])
        await kept.drop_lists([lists[1].ranking, Ranking("c", "all")])
        assert set(await kept.lists_kept()) == {lists[0].ranking, lists[2].ranking}
        assert await kept.list_of(lists[1].ranking) is None
