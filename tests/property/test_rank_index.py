"""The index in this process, under any history, agrees with a dictionary and ``sorted``.

Method: apply random moves to the index and to the model, in batches of one and of many, sometimes
repeating an old apply as a restarted projector would; open, drop, stage and adopt rankings; save,
while all of that goes on between any two steps of the save, and go on with what was loaded; and
compare every answer after every step. Few players, few keys and few rankings,
so that ties, repeats and returning players are the rule. Bounds are made small, so that dropped
rankings wait and small batches are put together, as large ones are. Rankings are archived, changed
there, archived anew and loaded again.
"""

import asyncio
import random
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from contextlib import nullcontext
from copy import deepcopy
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, cast
from unittest import mock

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from rankd.adapters.memory import (
    archive_format,
    archive_store,
    archived_ranking,
    index_archives,
    snapshot_folder,
    snapshot_save,
)
from rankd.adapters.memory import index as module
from rankd.adapters.memory.archive_store import ArchiveStore
from rankd.adapters.memory.index import NativeIndex
from rankd.adapters.memory.index_archives import IndexArchives
from rankd.adapters.memory.snapshot_folder import SnapshotFolder
from rankd.model.facts import Position
from rankd.model.standing import Rank, TieRule
from rankd.ports import DRAFT, EntryRange, Move, Moved, Placed, Ranked, Ranking, RankingShape
from rankd.rank import oracle

T = TypeVar("T")

PLAYERS = ["ann", "ann2", "bob", "cyd", "dee", "é", "\uffff", "\U00010000"]
RANKINGS = [Ranking("b", "w"), Ranking("b", "w", "region:eu"), Ranking("b", ""), Ranking("c", "w")]
DRAFTS = [Ranking(DRAFT + "b", "w"), Ranking(DRAFT + "c", "w")]
SHAPES = st.builds(RankingShape, st.sampled_from([16, 24]), st.booleans())
METADATA = st.sampled_from([None, None, b"", b"x", b"other"])
SEEDS = st.integers(0, 2**32)

Entry = tuple[bytes, bytes | None]


def now(call: Coroutine[Any, Any, T]) -> T:
    """Return a call's answer, which must not make us wait."""
    try:
        call.send(None)
    except StopIteration as done:
        answer: T = done.value
        return answer
    raise AssertionError("the call suspended")


def few_keys(width: int) -> list[bytes]:
    """Neighbours, one score with two ties, and both ends."""
    scores = [(1, 0), (1, 1), (2, 0), (256, 0)]
    keys = [score.to_bytes(width - 8, "big") + tie.to_bytes(8, "big") for score, tie in scores]
    return [*keys, bytes(width), b"\xff" * width]


class Model:
    """What an index means, without any thought of speed."""

    def __init__(self) -> None:
        self.checkpoint = 0
        self.shapes: dict[Ranking, RankingShape] = {}
        self.entries: dict[Ranking, dict[str, Entry]] = {}
        self.left: set[Ranking] = set()

    def open(self, opened: Mapping[Ranking, RankingShape]) -> None:
        for ranking, shape in opened.items():
            self.shapes[ranking] = shape
            self.entries.setdefault(ranking, {})

    def open_rankings(self) -> list[Ranking]:
        """Return those that an apply may move in."""
        return sorted((each for each in self.shapes if each not in DRAFTS), key=str)

    def order(self, ranking: Ranking) -> list[str]:
        entries = self.entries.get(ranking, {})
        return sorted(entries, key=lambda player: (entries[player][0], player.encode()))

    def take(self, move: Move) -> Moved:
        entries = self.entries[move.ranking]
        previous = self.rank(move.ranking, move.player)
        if move.order_key is None:
            if entries.pop(move.player, None) is not None:
                self.left.add(move.ranking)
        else:
            entries[move.player] = (move.order_key, move.metadata)
        return Moved(previous, self.rank(move.ranking, move.player), len(entries))

    def rank(self, ranking: Ranking, player: str) -> Rank | None:
        order = self.order(ranking)
        return Rank(order.index(player) + 1) if player in order else None

    def drop(self, ranking: Ranking) -> None:
        self.shapes.pop(ranking, None)
        self.entries.pop(ranking, None)

    def drop_emptied(self) -> None:
        for ranking in self.left:
            if ranking.segment is not None and not self.entries[ranking]:
                self.drop(ranking)
        self.left.clear()

    def adopt(self, draft: Ranking, name: Ranking) -> None:
        self.shapes[name] = self.shapes.pop(draft)
        self.entries[name] = self.entries.pop(draft)


def shown_ranks(keys: Sequence[bytes], ties: TieRule) -> list[int]:
    """Return the ranks of the entries of a ranking, where equal scores share one."""
    scores = [key[:-8] for key in keys]
    places = scores if ties is TieRule.STANDARD else sorted(set(scores))
    return [places.index(score) + 1 for score in scores]


class RankIndexMachine(RuleBasedStateMachine):
    make: Mapping[str, Any]

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.archives = self.make_archives(Path(self.folder.name))
        self.index = NativeIndex(**self.make, archives=self.archives)
        self.model = Model()
        self.history: list[tuple[Sequence[Move], dict[str, Any]]] = []
        self.loop = asyncio.new_event_loop()

    def make_archives(self, folder: Path) -> ArchiveStore:
        return ArchiveStore(folder, own=folder)

    def teardown(self) -> None:
        self.archives.close()
        self.folder.cleanup()
        self.loop.close()

    # -- applies --

    @rule(ranking=st.sampled_from(RANKINGS), shape=SHAPES)
    def open(self, ranking: Ranking, shape: RankingShape) -> None:
        """Perhaps it is open: then with the shape it has."""
        self._apply([], opened={ranking: self.model.shapes.get(ranking, shape)})

    @precondition(lambda self: self.model.open_rankings())
    @rule(data=st.data(), metadata=METADATA)
    def place(self, data: st.DataObject, metadata: bytes | None) -> None:
        ranking = data.draw(st.sampled_from(self.model.open_rankings()))
        key = data.draw(st.sampled_from(few_keys(self.model.shapes[ranking].key_bytes)))
        self._apply([Move(ranking, data.draw(st.sampled_from(PLAYERS)), key, metadata)])

    @precondition(lambda self: self.model.open_rankings())
    @rule(data=st.data(), player=st.sampled_from(PLAYERS), metadata=METADATA)
    def leave(self, data: st.DataObject, player: str, metadata: bytes | None) -> None:
        ranking = data.draw(st.sampled_from(self.model.open_rankings()))
        self._apply([Move(ranking, player, None, metadata)])

    @precondition(lambda self: self.model.open_rankings())
    @rule(
        seed=SEEDS,
        count=st.integers(2, 40),
        leaving=st.sampled_from([0.0, 0.0, 0.2, 0.9]),
        showing=st.sampled_from([0.0, 0.0, 0.5]),
        rankings=st.integers(1, 4),
        dropped=st.integers(0, 2),
    )
    def move_many(
        self, seed: int, count: int, leaving: float, showing: float, rankings: int, dropped: int
    ) -> None:
        """Of several rankings at once, some of them opened or dropped by the same apply."""
        dice = random.Random(seed)
        new = {
            ranking: RankingShape(dice.choice([16, 24]), dice.random() < 0.5)
            for ranking in RANKINGS
            if ranking not in self.model.shapes and dice.random() < 0.3
        }
        shapes = {**{each: self.model.shapes[each] for each in self.model.open_rankings()}, **new}
        among = dice.sample(sorted(shapes, key=str), min(rankings, len(shapes)))
        moves = []
        for _ in range(count):
            ranking = dice.choice(among)
            key = dice.choice(few_keys(shapes[ranking].key_bytes))
            moves.append(
                Move(
                    ranking,
                    dice.choice([*PLAYERS, f"p{dice.randrange(30)}"]),
                    None if dice.random() < leaving else key,
                    dice.choice([b"", b"m"]) if dice.random() < showing else None,
                )
            )
        self._apply(moves, opened=new, dropped=dice.sample(RANKINGS, dropped))

    @rule(ranking=st.sampled_from(RANKINGS))
    def drop(self, ranking: Ranking) -> None:
        """Its players go later, unless they come back."""
        self._apply([], dropped=[ranking])

    @precondition(lambda self: self.history)
    @rule(data=st.data())
    def replay(self, data: st.DataObject) -> None:
        """An apply that was made before changes nothing."""
        moves, rest = data.draw(st.sampled_from(self.history))
        assert now(self.index.apply(moves, **rest)) is None

    @rule(ahead=st.integers(1, 3))
    def run_ahead(self, ahead: int) -> None:
        after = Position(self.model.checkpoint + ahead)
        assert now(self.index.apply([], after=after, through=Position(after + 1))) is None

    @precondition(lambda self: self.model.open_rankings())
    @rule(data=st.data(), count=st.sampled_from([0, 5]))
    def mistake(self, data: st.DataObject, count: int) -> None:
        """Found before anything is changed, however late in the apply it comes."""
        ranking = self.model.open_rankings()[0]
        width = self.model.shapes[ranking].key_bytes
        good = [Move(ranking, f"new{n}", bytes(width)) for n in range(count)]
        bad, error = data.draw(
            st.sampled_from(
                [
                    (Move(Ranking("b", "never"), "ann", bytes(width)), AssertionError),
                    (Move(ranking, "ann", bytes(width + 8)), AssertionError),
                    (Move(ranking, "x" * 257, bytes(width)), ValueError),
                    (Move(ranking, "\ud800", bytes(width)), ValueError),
                ]
            )
        )
        after = Position(self.model.checkpoint)
        opened = {Ranking("b", "mistaken"): RankingShape(16, False)}
        with pytest.raises(error):
            now(
                self.index.apply(
                    [*good, bad], after=after, through=Position(after + 1), opened=opened
                )
            )

    # -- drafts --

    @rule(draft=st.sampled_from(DRAFTS), shape=SHAPES, seed=SEEDS, count=st.integers(0, 12))
    def stage(self, draft: Ranking, shape: RankingShape, seed: int, count: int) -> None:
        """However it goes on, no checkpoint moves and no ranking changes."""
        dice = random.Random(seed)
        opened = {draft: self.model.shapes.get(draft, shape)}
        self.model.open(opened)
        keys = few_keys(opened[draft].key_bytes)
        moves = [
            Move(
                draft,
                dice.choice([*PLAYERS, f"p{dice.randrange(30)}"]),
                dice.choice([None, *keys]),
                dice.choice([None, b"m"]),
            )
            for _ in range(count)
        ]
        dropped = [draft] if dice.random() < 0.2 else []
        expected = [self.model.take(move) for move in moves]
        self.model.drop_emptied()
        for each in dropped:
            self.model.drop(each)
        assert now(self.index.stage(moves, opened=opened, dropped=dropped)) == expected

    @precondition(lambda self: any(draft in self.model.shapes for draft in DRAFTS))
    @rule(data=st.data())
    def adopt(self, data: st.DataObject) -> None:
        """In place of a ranking that is there, or under a new name."""
        staged = [draft for draft in DRAFTS if draft in self.model.shapes]
        names = data.draw(st.permutations(RANKINGS))
        self._apply([], adopted=dict(zip(staged, names, strict=False)))

    # -- copies --

    @rule(seed=SEEDS, busy=st.sampled_from([0.0, 0.2, 0.5, 1.0]), goes_on=st.booleans())
    def save_and_load(self, seed: int, busy: float, goes_on: bool) -> None:
        """While anything happens between any two steps; what comes back is the noted moment.

        From here on either of the two goes on, the saved one or the one that was loaded.
        """
        dice = random.Random(seed)
        noted: list[tuple[bytes, Model, int]] = []

        def notes() -> list[bytes]:
            noted.append((self.index.digest(), deepcopy(self.model), len(self.history)))
            return [noted[0][0]]

        with tempfile.TemporaryDirectory() as name:
            folder = SnapshotFolder(Path(name), self.index)
            for _ in self._steps(folder.save(notes)):
                if dice.random() < busy:
                    self._disturb(dice)
            loaded = NativeIndex(**self.make, archives=self.archives)
            again = self.loop.run_until_complete(
                SnapshotFolder(Path(name), loaded).load(lambda _: None)
            )
        ((digest, model, happened),) = noted
        assert again == [digest]
        loaded.check()
        assert loaded.digest() == digest
        assert now(loaded.checkpoint()) == model.checkpoint
        if not goes_on:
            self.index, self.model = loaded, model
            del self.history[happened:]
            for draft in DRAFTS:
                self.model.drop(draft)

    @rule(seed=SEEDS, after=st.integers(1, 8))
    def break_off(self, seed: int, after: int) -> None:
        """A save that ends early leaves nothing, and the index can be saved again."""
        dice = random.Random(seed)
        with tempfile.TemporaryDirectory() as name:
            save = SnapshotFolder(Path(name), self.index).save(list)
            for _ in islice(self._steps(save), after):
                self._disturb(dice)
            self.loop.run_until_complete(cast("AsyncGenerator[object]", save).aclose())
            left = {path.name for path in Path(name).iterdir()} - {"current"}
            assert len(left) == (Path(name) / "current").exists()

    def _steps(self, save: AsyncIterator[object]) -> Iterator[object]:
        while (step := self.loop.run_until_complete(anext(save, None))) is not None:
            yield step

    def _disturb(self, dice: random.Random) -> None:
        """Let anything happen that is not itself a save."""
        ranking, shape = (
            dice.choice(RANKINGS),
            RankingShape(dice.choice([16, 24]), dice.random() < 0.5),
        )
        seed, leaving = dice.randrange(2**32), dice.choice([0.0, 0.2, 0.9])
        staged = [draft for draft in DRAFTS if draft in self.model.shapes]
        match dice.randrange(8):
            case 6:
                self.archive(ranking)
            case 7:
                self.renew(all_removed=dice.random() < 0.5)
            case 0:
                self.open(ranking, shape)
            case 1:
                self.drop(ranking)
            case 2:
                self.stage(dice.choice(DRAFTS), shape, seed, dice.randrange(12))
            case 3 if staged:
                self._apply([], adopted={dice.choice(staged): ranking})
            case _ if self.model.open_rankings():
                self.move_many(seed, dice.choice([1, 2, 9]), leaving, 0.3, 2, dice.randrange(2))

    @rule(seed=SEEDS)
    def rebuild(self, seed: int) -> None:
        """Whoever comes to the same entries by another way has the same digest."""
        dice = random.Random(seed)
        moves = [
            Move(ranking, player, key, metadata)
            for ranking, entries in self.model.entries.items()
            if ranking not in DRAFTS
            for player, (key, metadata) in entries.items()
        ]
        dice.shuffle(moves)
        shapes = [item for item in self.model.shapes.items() if item[0] not in DRAFTS]
        dice.shuffle(shapes)
        other = NativeIndex(**self.make)
        now(other.apply(moves, after=Position(0), through=Position(1), opened=dict(shapes)))
        assert other.digest() == self.index.digest()
        if moves:
            ranking, player, key, *_ = moves[0]
            move = Move(ranking, player, key, b"something else")
            now(other.apply([move], after=Position(1), through=Position(2)))
            assert other.digest() != self.index.digest()

    # -- archives --

    @rule(ranking=st.sampled_from(RANKINGS))
    def archive(self, ranking: Ranking) -> None:
        """It reads and moves as before."""
        archiving = IndexArchives(self.index).archive(
            ranking, reading=nullcontext(), wanted=lambda: True
        )
        here = ranking in self.index.state.rankings
        assert self.loop.run_until_complete(archiving) is here
        assert (ranking in self.index.state.archived) is (ranking in self.model.shapes)

    @rule(all_removed=st.booleans())
    def renew(self, all_removed: bool) -> None:
        renewing = IndexArchives(self.index).renew(reading=nullcontext(), all_removed=all_removed)
        self.loop.run_until_complete(renewing)

    @precondition(lambda self: self.index.state.archived)
    @rule(data=st.data())
    def load(self, data: st.DataObject) -> None:
        """As a window that is opened again."""
        archived = sorted(self.index.state.archived, key=str)
        self.index.load_archived(data.draw(st.sampled_from(archived)))

    # -- answers --

    @invariant()
    def agrees_with_the_model(self) -> None:
        self.index.check()
        assert now(self.index.checkpoint()) == self.model.checkpoint
        for board in ("b", "c"):
            expected = {ranking for ranking in self.model.shapes if ranking.board == board}
            assert set(now(self.index.rankings(board))) == expected
        for ranking in [*RANKINGS, *DRAFTS]:
            self._compare(ranking)

    def _compare(self, ranking: Ranking) -> None:
        order, entries = self.model.order(ranking), self.model.entries.get(ranking, {})
        page = now(self.index.read(ranking, first=Rank(1), limit=len(order) + 1))
        expected = [Placed(player, *entries[player]) for player in order]
        assert page == EntryRange(expected, len(order), Position(self.model.checkpoint))
        assert now(self.index.count(ranking)) == len(order)
        everybody = [*order, *(player for player in PLAYERS if player not in entries)]
        keys = now(self.index.order_keys([(ranking, player) for player in everybody]))
        shown = now(self.index.metadata([(ranking, player) for player in everybody]))
        ranks = now(self.index.ranks(ranking, everybody))
        for player, key, beside, found in zip(everybody, keys, shown, ranks, strict=True):
            assert now(self.index.rank(ranking, player)) == found
            rank = self.model.rank(ranking, player)
            if rank is None:
                assert (key, beside, found) == (None, None, None)
            else:
                assert (key, beside) == entries[player]
                assert found == Ranked(
                    rank, *entries[player], len(order), Position(self.model.checkpoint)
                )
        if ranking in self.model.shapes:
            self._compare_counts(ranking)
            self._compare_columns(ranking, everybody)

    def _compare_columns(self, ranking: Ranking, everybody: list[str]) -> None:
        """The reads of most requests, from every rank on, and the ranks that boards show."""
        seek = self.index.finder(ranking)
        assert seek is not None
        order, entries = self.model.order(ranking), self.model.entries[ranking]
        expected = [self.model.rank(ranking, player) or 0 for player in everybody]
        assert list(seek(everybody).ranks) == expected
        for first in range(1, len(order) + 2):
            page = self.index.read_now(ranking, first=Rank(first), limit=2)
            assert list(page.players) == order[first - 1 : first + 1]
        ties = [TieRule.ORDINAL, TieRule.STANDARD]
        for rule_for_ties in [*ties, TieRule.DENSE] if self.model.shapes[ranking].dense else ties:
            if rule_for_ties is not TieRule.ORDINAL:
                shown = self.index.ranker(ranking, rule_for_ties)
                keys = [entries[player][0] for player in order]
                assert list(shown(b"".join(keys))) == shown_ranks(keys, rule_for_ties)

    def _compare_counts(self, ranking: Ranking) -> None:
        shape, entries = self.model.shapes[ranking], self.model.entries[ranking]
        places = sorted((key, player.encode()) for player, (key, _) in entries.items())
        for key in few_keys(shape.key_bytes):
            for player in ("", "ann", "ann1", "é", "\uffff"):
                below = sum(place < (key, player.encode()) for place in places)
                assert now(self.index.count_below(ranking, key, player)) == below
            if shape.dense:
                scores = {each[:-8] for each, _ in places if each[:-8] < key[:-8]}
                assert now(self.index.scores_below(ranking, key)) == len(scores)

    def _apply(
        self,
        moves: Sequence[Move],
        *,
        opened: Mapping[Ranking, RankingShape] | None = None,
        dropped: Sequence[Ranking] = (),
        adopted: Mapping[Ranking, Ranking] | None = None,
    ) -> None:
        after = Position(self.model.checkpoint)
        rest: dict[str, Any] = {
            "after": after,
            "through": Position(after + 1 + len(moves)),
            "opened": opened or {},
            "dropped": dropped,
            "adopted": adopted or {},
        }
        self.history.append((moves, rest))
        self.model.open(rest["opened"])
        expected = [self.model.take(move) for move in moves]
        self.model.drop_emptied()
        for ranking in dropped:
            self.model.drop(ranking)
        for draft, name in rest["adopted"].items():
            self.model.adopt(draft, name)
        self.model.checkpoint = rest["through"]
        assert now(self.index.apply(moves, **rest)) == expected


class NativeMachine(RankIndexMachine):
    make: Mapping[str, Any] = MappingProxyType({})


class OracleMachine(RankIndexMachine):
    make: Mapping[str, Any] = MappingProxyType(
        {"make_players": oracle.PlayerTable, "make_list": oracle.RankList}
    )


@pytest.mark.parametrize("machine", [NativeMachine, OracleMachine])
def test_an_index_agrees_with_a_dictionary_and_sorted(
    machine: type[RankIndexMachine],
) -> None:
    with (
        mock.patch.object(module, "PLAYERS_RELEASED_PER_APPLY", 1),
        mock.patch.object(module, "MOVES_TOGETHER_MIN", 4),
        mock.patch.multiple(
            snapshot_save, STEP_ENTRIES=3, STEP_TOUCHES=2, RANKING_ENTRIES=1, LAST_TOUCHES_MAX=1
        ),
        mock.patch.object(snapshot_folder, "PUT_TOGETHER", 2),
        mock.patch.object(archive_format, "BLOCK_ENTRIES", 2),
        mock.patch.object(archived_ranking, "BLOCK_ENTRIES", 2),
        mock.patch.multiple(index_archives, SLICE_ENTRIES=4, CHANGES_MAX=2, CHANGES_SHARE=8),
        mock.patch.multiple(archive_store, IN_MEMORY_BYTES_MAX=150, FILES_OPEN_MAX=1),
        mock.patch("os.fsync"),  # No power fails here, and the disk is slow.
    ):
        run_state_machine_as_test(machine, settings=settings(stateful_step_count=20))
