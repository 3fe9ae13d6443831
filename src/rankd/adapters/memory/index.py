"""The index in this process: rankings as native rank lists over one table of players.

A player costs its id once, however many rankings it is in, and 4 bytes to count those: when the
last one lets go of it, the id goes too. A ranking that is dropped may hold millions, and forgetting
them at once would stop everything for seconds. So the ranking vanishes at once, and its players
follow, some with each apply and some while the writer rests; one that comes back meanwhile is
simply held once more.

A draft differs from a ranking only by its name: it holds its players from the first move on, so
adopting it is a change of names, O(1).

A ranking of a sealed window may be archived: then its entries are in a file, and only those that
corrections changed since are in memory (``archived_ranking``). Reads and moves do not tell.

No call suspends, so no reader sees half an apply. A failure before the first move changes nothing.
A later failure, which only a lack of memory can cause, leaves an index that refuses every call: it
is thrown away and rebuilt from a snapshot or the ledger.
"""

from array import array
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate, chain, pairwise, repeat
from types import MappingProxyType
from typing import ClassVar, NamedTuple

from rankd.adapters.memory import archived_rankings, bulk_judge
from rankd.adapters.memory.archive_store import ArchiveStore
from rankd.adapters.memory.archived_ranking import ArchivedRanking
from rankd.adapters.memory.index_state import Entries, IndexState, count_before, is_draft
from rankd.adapters.memory.snapshot_save import DirtySet
from rankd.errors import IndexForgot
from rankd.model.facts import Position
from rankd.model.order import TIE_BREAK_BYTES, score_part
from rankd.model.standing import Offset, Rank, TieRule
from rankd.ports import (
    STAY,
    EntryColumns,
    EntryRange,
    Move,
    Moved,
    Placed,
    Places,
    Ranked,
    Ranking,
    RankingShape,
    Run,
    SegmentChange,
    Verdicts,
)
from rankd.rank import NO_PLAYER, PlayerTable, RankList

MOVES_TOGETHER_MIN = 24
"""From so many moves on, sorting them by ranking spares more than it costs. Measured: from 12 if
all are of one ranking, 28 of three, 60 of eight; three are the windows of a usual board."""

PLAYERS_RELEASED_PER_APPLY = 4096
"""A pause of about a millisecond, no longer than an apply of a thousand moves takes itself."""

_NOTHING: Mapping[Ranking, RankingShape] = MappingProxyType({})
_NONE: Mapping[Ranking, Entries] = MappingProxyType({})
_NO_DRAFTS: Mapping[Ranking, Ranking] = MappingProxyType({})
_NOWHERE = Moved(None, None, 0)

# In C throughout: calling the class costs twice as much, and there is one for every move.
_moved: Callable[[tuple[int | None, int | None, int]], Moved] = partial(tuple.__new__, Moved)
_ranked: Callable[[tuple[int, bytes, bytes | None, int, int]], Ranked]
_ranked = partial(tuple.__new__, Ranked)
_placed: Callable[[tuple[str, bytes, bytes | None]], Placed] = partial(tuple.__new__, Placed)

_Take = Callable[[], list[Moved]]
"""The second half of an apply, after all moves were checked."""

_Placing = tuple[Entries, int, bytes | None, bytes | None, TieRule]
"""A move with its ranking and its player found; NO_PLAYER for a player without an entry."""


class _Group(NamedTuple):
    """The checked moves of one ranking, in order."""

    entries: Entries
    places: Sequence[int]
    """Where each stands in the apply."""
    numbers: "array[int]"
    """NO_PLAYER where an unknown player is to leave."""
    keys: Sequence[bytes | None]
    metadata: Sequence[bytes | None] | None
    """None if no move has any."""


def _apart(move: Move) -> bool:
    """Whether a move asks for more than a batch can tell."""
    return move.order_key == STAY or move.ties is not TieRule.ORDINAL


def _shown(ranks: RankList, number: int, ties: TieRule) -> int | None:
    """Return a player's rank, counted as asked; None where it has none."""
    key = None if number == NO_PLAYER else ranks.key_of(number)
    if key is None:
        return None
    if ties is TieRule.ORDINAL:
        return ranks.rank_of(number)
    if ties is TieRule.DENSE:
        return ranks.scores_below(key) + 1
    return ranks.count_below(score_part(key) + bytes(TIE_BREAK_BYTES)) + 1


class NativeIndex:
    """A RankIndex of native rank lists, or of others that behave alike."""

    immediate: ClassVar[bool] = True
    judges: ClassVar[bool] = True
    shared: ClassVar[bool] = False

    def __init__(
        self,
        *,
        make_players: Callable[[], PlayerTable] = PlayerTable,
        make_list: Callable[..., RankList] = RankList,
        archives: ArchiveStore | None = None,
    ) -> None:
        self.make_players, self.make_list = make_players, make_list
        self.archives = archives or ArchiveStore()
        """Where the entries of archived rankings are."""
        self._hold(IndexState(make_players()))

    def _hold(self, state: IndexState) -> None:
        self._state = state
        self._players, self._rankings, self._held = state.players, state.rankings, state.held
        self._archived = state.archived
        self._idle: list[int] = []
        """Numbers of players that left a ranking in this apply, and may be in none now."""
        self._leaving: deque[Entries] = deque()
        """Dropped rankings that still hold players."""
        self._released = 0
        """How many players the first of those holds no longer."""
        self._failure: BaseException | None = None
        self._saving: DirtySet | None = None
        """Set during a save: code that moves entries, or changes their metadata, calls
        ``self._saving.touched(entries, numbers)`` before it yields to the loop."""

    # ------------------------------------------------------------------------ writing

    async def apply(
        self,
        moves: Sequence[Move],
        *,
        after: Position,
        through: Position,
        opened: Mapping[Ranking, RankingShape] = _NOTHING,
        dropped: Sequence[Ranking] = (),
        adopted: Mapping[Ranking, Ranking] = _NO_DRAFTS,
    ) -> Sequence[Moved] | None:
        if after != self._sound().checkpoint:
            return None
        assert through > after, f"an apply after {after} leads past it, not to {through}"
        if adopted:
            self._expect_drafts(adopted)
        moved = self._change(moves, opened, dropped, adopted, draft=False)
        self._state.checkpoint = through
        return moved

    async def judge(
        self,
        runs: Sequence[Run],
        *,
        after: Position,
        through: Position,
        changes: Sequence[SegmentChange] = (),
    ) -> Sequence[Sequence[Verdicts]] | None:
        state = self._sound()
        if after != state.checkpoint:
            return None
        assert through > after, f"runs after {after} lead past it, not to {through}"
        if self._archived:
            judged = [ranking for run in runs for ranking in run.rankings]
            judged += [change.ranking for change in changes]
            for ranking in self._archived.of_windows(judged):  # A redefinition opened it again.
                self.load_archived(ranking)
        cases = bulk_judge.prepare(state, runs)
        try:
            told = bulk_judge.judge(state, cases)
            touched = [(entries, case.numbers) for case in cases for entries in case.rankings]
            for case, verdicts in zip(cases, told, strict=True):
                touched += bulk_judge.follow(state, case, verdicts, self._segment)
            touched += bulk_judge.change_segments(state, changes, self._segment)
            if self._saving is not None:
                for entries, numbers in touched:
                    self._saving.touched(entries, numbers)
            for ranking in bulk_judge.left_segments(changes):
                self._drop_if_empty(ranking)
            if self._leaving:
                count = sum(len(numbers) for _, numbers in touched)
                self._release(max(count, PLAYERS_RELEASED_PER_APPLY))
        except BaseException as exc:
            self._failure = exc
            raise
        state.checkpoint = through
        return told

    def _segment(self, ranking: Ranking, beside: Entries) -> Entries:
        """Return the entries of a segment, opened in the shape of its window if it is new."""
        return self._rankings.get(ranking) or self._open({ranking: beside.shape})[ranking]

    async def stage(
        self,
        moves: Sequence[Move],
        *,
        opened: Mapping[Ranking, RankingShape] = _NOTHING,
        dropped: Sequence[Ranking] = (),
    ) -> Sequence[Moved]:
        self._sound()
        return self._change(moves, opened, dropped, _NO_DRAFTS, draft=True)

    def _change(
        self,
        moves: Sequence[Move],
        opened: Mapping[Ranking, RankingShape],
        dropped: Sequence[Ranking],
        adopted: Mapping[Ranking, Ranking],
        *,
        draft: bool,
    ) -> list[Moved]:
        for ranking in (*opened, *dropped):
            assert is_draft(ranking) is draft, f"{ranking} is staged if and only if it is a draft"
        new = self._open(opened) if opened else _NONE
        if self._archived and self._archived.any_of(move.ranking for move in moves):
            return self._change_archived(moves, new, dropped, adopted, draft=draft)
        try:
            few = len(moves) < MOVES_TOGETHER_MIN or any(map(_apart, moves))
            take = self._prepare_few(moves, draft) if few else self._prepare(moves, draft)
        except BaseException:
            self._undo(new, moves)
            raise
        try:
            moved = take()
            if self._idle:
                self._let_go_of_idle()
                self._drop_emptied(moves, moved)
            for ranking in dropped:
                self._drop(ranking)
            for ranking, name in adopted.items():
                self._adopt(ranking, name)
            if self._leaving:
                self._release(max(len(moves), PLAYERS_RELEASED_PER_APPLY))
        except BaseException as exc:
            self._failure = exc
            raise
        return moved

    def _change_archived(
        self,
        moves: Sequence[Move],
        new: Mapping[Ranking, Entries],
        dropped: Sequence[Ranking],
        adopted: Mapping[Ranking, Ranking],
        *,
        draft: bool,
    ) -> list[Moved]:
        """Move entries of archived rankings, and then the others, or none of them."""
        archived = self._archived
        try:
            assert not draft, "drafts move by stage, and other rankings do not"
            with archived.moved(moves) as told:
                others = [move for at, move in enumerate(moves) if at not in told]
                rest = iter(self._change(others, _NOTHING, (), _NO_DRAFTS, draft=draft))
        except BaseException:
            self._undo(new, ())
            raise
        for ranking in {moves[at].ranking for at, moved in told.items() if _is_last(moved)}:
            if ranking.segment is not None and not len(archived[ranking]):
                self._drop(ranking)
        self._change([], _NOTHING, dropped, adopted, draft=draft)
        return [told[at] if at in told else next(rest) for at in range(len(moves))]

    def _expect_drafts(self, adopted: Mapping[Ranking, Ranking]) -> None:
        for ranking, name in adopted.items():
            known = self._rankings.get(ranking)
            assert known is not None, f"{ranking} was never staged"
            assert known.draft, f"{ranking} is no draft"
            assert not is_draft(name), f"{name} is the name of a draft"
        assert len(set(adopted.values())) == len(adopted), "two drafts adopted as one ranking"

    def _sound(self) -> IndexState:
        """Return the contents of the index; raise if an apply has failed."""
        if self._failure is not None:
            kind = MemoryError if isinstance(self._failure, MemoryError) else AssertionError
            raise kind(
                "this index failed within an apply and refuses everything since: "
                "load it from a snapshot, or fold the ledger into a new one"
            ) from self._failure
        return self._state

    def _open(self, opened: Mapping[Ranking, RankingShape]) -> Mapping[Ranking, Entries]:
        """Make room for those that are not there yet, and return them."""
        new: dict[Ranking, Entries] = {}
        for ranking, shape in opened.items():
            if (known := self._rankings.get(ranking) or self._archived.get(ranking)) is not None:
                assert known.shape == shape, f"{ranking} is open as {known.shape}, not {shape}"
            else:
                ranks = self.make_list(shape.key_bytes, players=self._players, dense=shape.dense)
                new[ranking] = Entries(ranks, draft=is_draft(ranking))
        self._rankings.update(new)
        return new

    def _prepare_few(self, moves: Sequence[Move], draft: bool) -> _Take:
        """Check the moves, and return the function that makes them."""
        placings: list[_Placing] = []
        for ranking, player, key, metadata, ties in moves:
            entries = self._rankings.get(ranking)
            assert entries is not None, f"{ranking} was never opened"
            assert entries.draft is draft, f"{ranking} moves by stage if and only if it is a draft"
            if not key:  # It leaves, or stays as it is.
                found = self._players.find(player)
                number = NO_PLAYER if found is None else found
                placings.append((entries, number, key, None, ties))
                continue
            width = entries.ranks.width
            assert len(key) == width, f"keys of {ranking} have {width} bytes, not {len(key)}"
            number = self._players.intern(player)
            self._make_countable(number)
            placings.append((entries, number, key, metadata, ties))
        return partial(self._take_each, placings)

    def _prepare(self, moves: Sequence[Move], draft: bool) -> _Take:
        """Do the same for many at once, sorted by ranking: a third of the cost for each."""
        rankings, players, keys, metadata, _ = zip(*moves, strict=True)
        places: defaultdict[Ranking, list[int]] = defaultdict(list)
        for place, ranking in enumerate(rankings):
            places[ranking].append(place)
        found = [self._expect(ranking, draft, keys, where) for ranking, where in places.items()]
        numbers = self._numbers(players, keys)
        brought = metadata if metadata.count(None) < len(metadata) else None
        if len(found) == 1:
            return partial(
                self._take_group, _Group(found[0], range(len(moves)), numbers, keys, brought)
            )
        groups = [
            _Group(
                entries,
                where,
                array("I", [numbers[place] for place in where]),
                [keys[place] for place in where],
                None if brought is None else [brought[place] for place in where],
            )
            for entries, where in zip(found, places.values(), strict=True)
        ]
        return partial(self._take_groups, groups, len(moves))

    def _expect(
        self,
        ranking: Ranking,
        draft: bool,
        keys: Sequence[bytes | None],
        places: Sequence[int],
    ) -> Entries:
        """Return a ranking's entries, having made sure that its moves can be taken."""
        entries = self._rankings.get(ranking)
        assert entries is not None, f"{ranking} was never opened"
        assert entries.draft is draft, f"{ranking} moves by stage if and only if it is a draft"
        lengths = {len(key) for place in places if (key := keys[place]) is not None}
        width = entries.ranks.width
        assert lengths <= {width}, f"keys of {ranking} have {width} bytes, not {lengths}"
        return entries

    def _numbers(self, players: Sequence[str], keys: Sequence[bytes | None]) -> "array[int]":
        """Return the numbers of players, new ones where they are placed; NO_PLAYER if unknown."""
        if None not in keys:
            numbers = placed = self._players.intern_many(players)
        else:
            placed = self._players.intern_many(
                [player for player, key in zip(players, keys, strict=True) if key is not None]
            )
            numbers = self._players.find_many(players)
        if placed:
            self._make_countable(max(placed))
        return numbers

    def _make_countable(self, number: int) -> None:
        missing = number + 1 - len(self._held)
        if missing > 0:
            self._held.frombytes(bytes(missing * self._held.itemsize))

    def _undo(self, new: Mapping[Ranking, Entries], moves: Sequence[Move]) -> None:
        """Forget the rankings and the players that an apply brought before it was refused."""
        for ranking in new:
            del self._rankings[ranking]
        for move in moves:
            with suppress(ValueError, TypeError):  # Perhaps this very id is why.
                number = self._players.find(move.player)
                if number is not None and not (number < len(self._held) and self._held[number]):
                    self._players.remove(number)

    # -- moves --

    def _take_groups(self, groups: Sequence[_Group], count: int) -> list[Moved]:
        moved = [_NOWHERE] * count
        for group in groups:
            for place, each in zip(group.places, self._take_group(group), strict=True):
                moved[place] = each
        return moved

    def _take_group(self, group: _Group) -> list[Moved]:
        entries, _, numbers, keys, metadata = group
        brought = repeat(None, len(keys)) if metadata is None else metadata
        placed = [key for key in keys if key is not None]
        if len(placed) < len(keys):  # Somebody leaves, which is rare: no batch of its own for it.
            ordinal = repeat(TieRule.ORDINAL)
            return self._take_each(
                zip(repeat(entries), numbers, keys, brought, ordinal, strict=False)
            )
        moved = self._take_together(entries.ranks, numbers, placed)
        if metadata is not None or entries.metadata:
            _show(entries, numbers, brought)
        if self._saving is not None:
            self._saving.touched(entries, numbers)
        return moved

    def _take_each(self, placings: Iterable[_Placing]) -> list[Moved]:
        moved: list[Moved] = []
        for entries, number, key, metadata, ties in placings:
            ranks = entries.ranks
            previous = _shown(ranks, number, ties)
            if key == STAY:
                moved.append(_moved((previous, previous, len(ranks))))
                continue
            if self._saving is not None and number != NO_PLAYER:
                self._saving.touched(entries, (number,))
            if key is not None:
                ranks.put(number, key)
                self._held[number] += previous is None
            elif previous is not None:
                ranks.remove(number)
                self._held[number] -= 1
                self._idle.append(number)
            if metadata is not None and key is not None:
                entries.metadata[number] = metadata
            elif entries.metadata:
                entries.metadata.pop(number, None)
            moved.append(_moved((previous, _shown(ranks, number, ties), len(ranks))))
        return moved

    def _take_together(
        self, ranks: RankList, numbers: "array[int]", keys: Sequence[bytes]
    ) -> list[Moved]:
        held, total = self._held, len(ranks)
        before, after = ranks.put_many(numbers, b"".join(keys), ranks=True)
        if len(ranks) == total:  # Nobody is new: all in C.
            return list(map(_moved, zip(before, after, repeat(total))))
        moved: list[Moved] = []
        for number, previous, rank in zip(numbers, before, after, strict=True):
            if not previous:
                held[number] += 1
                total += 1
            moved.append(_moved((previous or None, rank, total)))
        return moved

    # -- leaving --

    def _let_go_of_idle(self) -> None:
        """Only now: a number that was free within an apply could mean two players in it."""
        for number in set(self._idle):
            if not self._held[number]:
                self._players.remove(number)
        self._idle.clear()

    def _drop_emptied(self, moves: Sequence[Move], moved: Sequence[Moved]) -> None:
        """Drop the segments that their last player has left."""
        left = {move.ranking for move, told in zip(moves, moved, strict=True) if _is_last(told)}
        for ranking in left:
            if ranking.segment is not None:
                self._drop_if_empty(ranking)

    def _drop_if_empty(self, ranking: Ranking) -> None:
        entries = self._rankings.get(ranking)
        if entries is not None and not len(entries.ranks):
            self._drop(ranking)

    def _drop(self, ranking: Ranking) -> None:
        entries = self._rankings.pop(ranking, None)
        if entries is None:
            self._archived.pop(ranking, None)
            return
        entries.gone = True
        if self._saving is not None:
            self._saving.dropped(entries)
        if len(entries.ranks):
            self._leaving.append(entries)

    def _adopt(self, draft: Ranking, name: Ranking) -> None:
        self._drop(name)
        entries = self._rankings.pop(draft)
        entries.draft = False
        self._rankings[name] = entries
        if self._saving is not None:
            self._saving.adopted(entries)

    def _release(self, count: int) -> None:
        """Let dropped rankings let go of at least so many players, if they hold so many.

        At least as many as there were moves: no more can be dropped than came, so the queue has
        an end however often rankings are dropped.
        """
        while self._leaving and count > 0:
            entries = self._leaving[0]
            _, numbers = entries.ranks.read(
                Rank(self._released + 1), min(count, PLAYERS_RELEASED_PER_APPLY)
            )
            self._let_go(entries, numbers)
            self._released += len(numbers)
            count -= len(numbers)
            if self._released == len(entries.ranks):
                self._leaving.popleft()
                self._released = 0

    def free_dropped(self) -> bool:
        self._sound()
        self._release(PLAYERS_RELEASED_PER_APPLY)
        return bool(self._leaving)

    def _let_go(self, entries: Entries, numbers: Iterable[int]) -> None:
        held, forget, beside = self._held, self._players.remove, entries.metadata
        for number in numbers:
            held[number] -= 1
            if not held[number]:
                forget(number)
            if beside:
                beside.pop(number, None)

    # -- archives --

    def archive(self, ranking: Ranking, archived: ArchivedRanking) -> None:
        """Have a ranking's entries in an archive of them, and free their memory by and by."""
        self._drop(ranking)
        self._archived[ranking] = archived

    def load_archived(self, ranking: Ranking) -> None:
        """Have the entries of an archived ranking in memory again. O(n)."""
        found = archived_rankings.loaded(self._archived[ranking], self._players, self.make_list)
        ranks, metadata, numbers = found
        if numbers:
            self._make_countable(max(numbers))
        for number in numbers:
            self._held[number] += 1
        del self._archived[ranking]
        entries = self._rankings[ranking] = Entries(ranks, metadata)
        if self._saving is not None:
            self._saving.adopted(entries)

    # ------------------------------------------------------------------------ reading

    async def checkpoint(self) -> Position:
        return self._sound().checkpoint

    async def order_keys(
        self, entries: Sequence[tuple[Ranking, str]], at: Position | None = None
    ) -> Sequence[bytes | None]:
        checkpoint = self._sound().checkpoint
        assert at in (None, checkpoint), f"this index knows how it is at {checkpoint}, not at {at}"
        if self._archived.any_of(ranking for ranking, _ in entries):
            return [None if one is None else one[0] for one in self._each_entry(entries)]
        numbers = self._players.find_many([player for _, player in entries])
        return [
            found.ranks.key_of(number)
            if number != NO_PLAYER and (found := self._rankings.get(ranking)) is not None
            else None
            for (ranking, _), number in zip(entries, numbers, strict=True)
        ]

    async def metadata(
        self, entries: Sequence[tuple[Ranking, str]], at: Position | None = None
    ) -> Sequence[bytes | None]:
        checkpoint = self._sound().checkpoint
        assert at in (None, checkpoint), f"this index knows how it is at {checkpoint}, not at {at}"
        if self._archived.any_of(ranking for ranking, _ in entries):
            return [None if one is None else one[1] for one in self._each_entry(entries)]
        numbers = self._players.find_many([player for _, player in entries])
        return [
            None if (found := self._rankings.get(ranking)) is None else found.metadata.get(number)
            for (ranking, _), number in zip(entries, numbers, strict=True)
        ]

    def _each_entry(
        self, entries: Sequence[tuple[Ranking, str]]
    ) -> Iterator[tuple[bytes, bytes | None] | None]:
        """Yield the order key and metadata of each entry, in rankings of any kind."""
        for ranking, player in entries:
            if (archived := self._archived.get(ranking)) is not None:
                yield archived.entry(player)
            else:
                found = self.rank_now(ranking, player)
                yield None if found is None else (found.order_key, found.metadata)

    # Nothing moves while somebody asks here, so whatever position is meant is this one.

    async def rank(
        self, ranking: Ranking, player: str, at: Position | None = None
    ) -> Ranked | None:
        self._expect_at(at)
        return self.rank_now(ranking, player)

    def _expect_at(self, at: Position | None) -> None:
        here = self._sound().checkpoint
        if at is not None and at != here:
            raise IndexForgot(position=at, checkpoint=here)

    def rank_now(self, ranking: Ranking, player: str) -> Ranked | None:
        """Return the same as ``rank``, without awaiting."""
        state = self._sound()
        entries = state.rankings.get(ranking)
        if entries is None:
            return state.archived.ranked(ranking, player, state.checkpoint)
        try:
            found = entries.ranks.locate(player)
        except ValueError:  # Nobody can have such an id.
            return None
        if found is None:
            return None
        rank, key, number = found
        beside = entries.metadata.get(number)
        return _ranked((rank, key, beside, len(entries.ranks), state.checkpoint))

    def finder(self, ranking: Ranking) -> Callable[[Sequence[str]], Places] | None:
        """Return a function that finds many players in one ranking in one call."""
        entries = self._sound().rankings.get(ranking)
        if entries is None:
            known = ranking in self._archived
            return partial(self._seek_archived, ranking) if known else None
        ranks, beside, sound = entries.ranks, entries.metadata, self._sound
        numbers_of = self._players.find_many

        def seek(players: Sequence[str]) -> Places:
            if entries.gone:  # It was archived.
                return self._seek_archived(ranking, players)
            state, numbers = sound(), numbers_of(players)
            found, keys = ranks.find_many(numbers)
            metadata = [beside.get(number) for number in numbers] if beside else None
            return Places(found, keys, metadata, len(ranks), state.checkpoint)

        return seek

    def _seek_archived(self, ranking: Ranking, players: Sequence[str]) -> Places:
        state = self._sound()
        if ranking in state.rankings and (seek := self.finder(ranking)) is not None:
            return seek(players)  # It was loaded again.
        return state.archived.places(ranking, players, state.checkpoint)

    def ranker(self, ranking: Ranking, ties: TieRule) -> Callable[[bytes], Sequence[int]]:
        """Return the ranks of packed keys, counted by a rule for ties."""
        entries = self._sound().rankings.get(ranking)
        if entries is None:
            return partial(self._rank_archived, ranking, ties)
        ranks = entries.ranks
        width, below = ranks.width, ranks.scores_below
        if ties is not TieRule.DENSE:
            zeros, count_below = bytes(TIE_BREAK_BYTES), ranks.count_below

            def below(key: bytes) -> int:
                return count_below(score_part(key) + zeros)

        def rank(keys: bytes) -> Sequence[int]:
            if entries.gone:  # It was archived.
                return self._rank_archived(ranking, ties, keys)
            return [below(keys[at : at + width]) + 1 for at in range(0, len(keys), width)]

        return rank

    def _rank_archived(self, ranking: Ranking, ties: TieRule, keys: bytes) -> Sequence[int]:
        state = self._sound()
        if ranking in state.rankings:  # It was loaded again.
            return self.ranker(ranking, ties)(keys)
        return state.archived.shown_ranks(ranking, ties, keys)

    async def ranks(
        self, ranking: Ranking, players: Sequence[str], at: Position | None = None
    ) -> Sequence[Ranked | None]:
        self._expect_at(at)
        state = self._sound()
        entries = state.rankings.get(ranking)
        if entries is None:
            return [self.rank_now(ranking, player) for player in players]
        ranks, beside = entries.ranks, entries.metadata
        key_of, total, as_of = ranks.key_of, len(ranks), state.checkpoint
        numbers = self._players.find_many(players)
        return [
            None
            if number == NO_PLAYER or (key := key_of(number)) is None
            else _ranked((rank, key, beside.get(number), total, as_of))
            for number, rank in zip(numbers, ranks.rank_many(numbers), strict=True)
        ]

    async def count(self, ranking: Ranking, at: Position | None = None) -> int:
        self._expect_at(at)
        entries = self._sound().rankings.get(ranking)
        return self._archived.count(ranking) if entries is None else len(entries.ranks)

    def player_ids(self, count: int) -> Iterator[Sequence[str]]:
        for _, lengths, text in self._players.blocks(count):
            ends = list(accumulate(lengths, initial=0))
            yield [text[start:end].decode() for start, end in pairwise(ends)]
        yield from self._archived.player_ids(count)

    async def count_below(
        self, ranking: Ranking, order_key: bytes, player: str = "", at: Position | None = None
    ) -> Offset:
        self._expect_at(at)
        entries = self._sound().rankings.get(ranking)
        if entries is None:
            return self._archived.count_before(ranking, order_key, player)
        return Offset(count_before(self._players, entries.ranks, order_key, player))

    async def scores_below(
        self, ranking: Ranking, order_key: bytes, at: Position | None = None
    ) -> Offset:
        self._expect_at(at)
        entries = self._sound().rankings.get(ranking)
        if entries is None:
            return self._archived.scores_below(ranking, order_key)
        assert entries.ranks.dense, f"{ranking} does not count distinct scores"
        return Offset(entries.ranks.scores_below(order_key))

    async def read(
        self, ranking: Ranking, *, first: Rank, limit: int, at: Position | None = None
    ) -> EntryRange:
        self._expect_at(at)
        players, packed, beside, total, as_of = self.read_now(ranking, first=first, limit=limit)
        width = len(packed) // len(players) if players else 1
        keys = [packed[at : at + width] for at in range(0, len(packed), width)]
        placed = map(_placed, zip(players, keys, beside or [None] * len(keys), strict=True))
        return EntryRange(list(placed), total, as_of)

    def read_now(self, ranking: Ranking, *, first: Rank, limit: int) -> EntryColumns:
        """Return the same as ``read``, as columns."""
        state = self._sound()
        entries = state.rankings.get(ranking)
        if entries is None:
            return state.archived.columns(ranking, first, limit, state.checkpoint)
        ranks, metadata = entries.ranks, entries.metadata
        keys, numbers = ranks.read(first, limit)
        beside = [metadata.get(number) for number in numbers] if metadata else None
        players = self._players.ids_of(numbers)
        return EntryColumns(players, keys, beside, len(ranks), state.checkpoint)

    async def rankings(self, board: str) -> Sequence[Ranking]:
        state = self._sound()
        every = chain(state.rankings, state.archived)
        return [ranking for ranking in every if ranking.board == board]

    async def shapes(self) -> Mapping[Ranking, RankingShape]:
        state = self._sound()
        here = {name: one.shape for name, one in state.rankings.items() if not is_draft(name)}
        return here | {name: one.shape for name, one in state.archived.items()}

    def digest(self) -> bytes:
        """Return a digest that is equal for indexes that folded the same facts. O(n)."""
        return self._sound().digest()

    def check(self) -> None:
        """Assert the invariants of state.py. O(n)."""
        leaving, first = array("I"), self._released + 1
        for entries in self._leaving:
            leaving += entries.ranks.read(first, len(entries.ranks))[1]
            first = 1
        self._sound().check(leaving)

    # ------------------------------------------------------------------------- saving

    @property
    def state(self) -> IndexState:
        """The contents of the index, read-only."""
        return self._sound()

    def begin_saving(self) -> DirtySet:
        """Record the players it moves until ``end_saving``. Only one save can run at a time."""
        assert self._saving is None, "this index is being saved already"
        self._saving = DirtySet(self._sound().rankings.values())
        return self._saving

    def end_saving(self, touched: DirtySet) -> None:
        """Note nothing any more for this saving. Safe to repeat."""
        if self._saving is touched:
            self._saving = None

    def fill(self, state: IndexState) -> None:
        """Take over a loaded state. The index must be empty."""
        assert not self._sound().rankings and not self._state.checkpoint, "this index is not empty"
        assert self._saving is None, "this index is being saved"
        self._hold(state)


def _is_last(moved: Moved) -> bool:
    """Return whether a move took the last player out of a ranking."""
    return not moved.total and moved.previous_rank is not None


def _show(entries: Entries, numbers: Iterable[int], metadata: Iterable[bytes | None]) -> None:
    """Let the metadata of each entry be that of its last move."""
    beside = entries.metadata
    for number, value in zip(numbers, metadata, strict=True):
        if value is None:
            beside.pop(number, None)
        else:
            beside[number] = value
