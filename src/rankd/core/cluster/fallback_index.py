"""Read-only fallback for a lost index.

Archived windows (complete) and top lists (as of an earlier position), both stored beside the
ledger. Any other read is refused, and so is the answer that a player is not ranked where it would
have no position.

Players that were banned, hidden or shadowed since are left out of both.

A top list is used only if it was taken under the definition in force: under another one its keys
would have another meaning, or its board be another of the same name.

Values from there are cached for a moment, so that many readers share one fetch. The cache bounds
its size, the number of concurrent fetches, the number of waiting readers, and the time of a fetch.
Failures are cached too: of a thousand reads of a lost server, one waits for it.
"""

import asyncio
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

from rankd.core.board_state import BoardState, SealedWindow
from rankd.core.overlay import EntryChange, Overlay
from rankd.core.state import State
from rankd.errors import IndexForgot, IndexUnavailable, NotKept, RankdError
from rankd.model.facts import Position
from rankd.model.order import TIE_BREAK_BYTES, score_part
from rankd.model.standing import Offset, Rank
from rankd.ports import Archive, EntryRange, Placed, Ranked, Ranking, SealedRow, TopList, TopLists

WEIGHT_MAX = 100_000
"""How many entries of rankings are held, of all that was fetched: some twenty megabytes, unless
much is shown beside them."""

MOMENT_SECONDS = 1.0
"""How long a value that may change is used."""

FETCH_SECONDS_MAX = 2.0
"""How long a reader waits for a fetch."""

FETCHES_AT_ONCE = 2
"""So few that folding, which reads on the same connection, hardly waits."""

WAITING_MAX = 256
"""How many wait for a fetch; one more is refused at once."""


class _Cached(NamedTuple):
    value: Any
    weight: int
    until: float
    """By the clock of the event loop."""
    failure: IndexUnavailable | None = None


class FetchCache:
    """Values by their keys, some for good and some for a moment."""

    def __init__(self) -> None:
        self.fetches = 0
        """How many there were."""
        self._known: OrderedDict[Hashable, _Cached] = OrderedDict()
        self._weight = 0
        self._turns = asyncio.Semaphore(FETCHES_AT_ONCE)
        self._waiting = 0

    async def get(
        self,
        key: Hashable,
        fetch: Callable[[], Awaitable[Any]],
        *,
        weigh: Callable[[Any], int],
        lasts: Callable[[Any], bool],
    ) -> Any:
        """Return a value that is known, or fetch it. Raises IndexUnavailable.

        If the fetch fails, an outdated value is returned where there is one.
        """
        known = self._fresh(key)
        if known is None:
            known = await self._in_turn(key, fetch, weigh, lasts)
        if known.failure is not None:
            raise IndexUnavailable(known.failure.problem) from known.failure
        return known.value

    async def _in_turn(
        self,
        key: Hashable,
        fetch: Callable[[], Awaitable[Any]],
        weigh: Callable[[Any], int],
        lasts: Callable[[Any], bool],
    ) -> _Cached:
        if self._waiting >= WAITING_MAX:
            raise IndexUnavailable(
                "the index is out of reach, and too many ask for what is kept of it"
            )
        self._waiting += 1
        try:
            async with self._turns:
                known = self._fresh(key)  # Whoever was before may have fetched it.
                if known is None:
                    known = await self._fetched(key, fetch, weigh, lasts)
                    self._remember(key, known)
                return known
        finally:
            self._waiting -= 1

    async def _fetched(
        self,
        key: Hashable,
        fetch: Callable[[], Awaitable[Any]],
        weigh: Callable[[Any], int],
        lasts: Callable[[Any], bool],
    ) -> _Cached:
        self.fetches += 1
        try:
            async with asyncio.timeout(FETCH_SECONDS_MAX):
                value = await fetch()
        except (RankdError, TimeoutError) as exc:
            before, until = self._known.get(key), _now() + MOMENT_SECONDS
            if before is not None and before.failure is None:
                return before._replace(until=until)
            why = "it took too long" if isinstance(exc, TimeoutError) else str(exc)
            problem = f"the index is out of reach, and so is what is kept of it: {why}"
            return _Cached(None, 1, until, IndexUnavailable(problem))
        until = float("inf") if lasts(value) else _now() + MOMENT_SECONDS
        return _Cached(value, 1 + weigh(value), until)

    def _fresh(self, key: Hashable) -> _Cached | None:
        known = self._known.get(key)
        if known is None or known.until <= _now():
            return None
        self._known.move_to_end(key)
        return known

    def _remember(self, key: Hashable, known: _Cached) -> None:
        before = self._known.pop(key, None)
        self._weight += known.weight - (0 if before is None else before.weight)
        self._known[key] = known
        while self._weight > WEIGHT_MAX and len(self._known) > 1:
            _, oldest = self._known.popitem(last=False)
            self._weight -= oldest.weight


def _now() -> float:
    return asyncio.get_running_loop().time()


ROWS_TOGETHER = 1_000
"""How many rows of a closed window are fetched at once; a page has no more."""


class FallbackIndex:
    """The reads of an index, answered from the archive and the top lists.

    Rankings have different positions: ``moment`` returns that of one.
    """

    immediate: ClassVar[bool] = False
    judges: ClassVar[bool] = False
    shared: ClassVar[bool] = False

    def __init__(
        self,
        archive: Archive,
        lists: TopLists | None,
        *,
        state: Callable[[], State],
        position: Callable[[], Position],
    ) -> None:
        self._archive = archive
        self._lists = lists
        """None where none are taken."""
        self._state = state
        self._position = position
        """Where the state is: closed windows are as they are from their closing on."""
        self._memory = FetchCache()

    async def moment(self, ranking: Ranking) -> Position:
        """Return the position that a ranking is known at."""
        return (await self._source(ranking)).as_of

    async def rank(
        self, ranking: Ranking, player: str, at: Position | None = None
    ) -> Ranked | None:
        """Return a player's place, None where it has none."""
        source = await self._source(ranking, at)
        found = await (await self._reads(ranking, source)).rank(ranking, player)
        if found is None and at is None and not source.final:
            raise NotKept(
                f"the index is out of reach, and the player was not ranked at {source.as_of}, "
                "of which there is a list"
            )
        return found

    async def ranks(
        self, ranking: Ranking, players: Sequence[str], at: Position | None = None
    ) -> Sequence[Ranked | None]:
        """Return the places of many, all as of one position."""
        reads = await self._reads(ranking, await self._source(ranking, at))
        return await reads.ranks(ranking, players)

    async def count(self, ranking: Ranking, at: Position | None = None) -> int:
        """Return how many entries a ranking has."""
        reads = await self._reads(ranking, await self._source(ranking, at))
        return await reads.count(ranking)

    async def count_below(
        self, ranking: Ranking, order_key: bytes, player: str = "", at: Position | None = None
    ) -> Offset:
        """Return how many entries come before this place."""
        reads = await self._reads(ranking, await self._source(ranking, at))
        return await reads.count_below(ranking, order_key, player)

    async def scores_below(
        self, ranking: Ranking, order_key: bytes, at: Position | None = None
    ) -> Offset:
        """Return how many distinct scores are better than the key's."""
        reads = await self._reads(ranking, await self._source(ranking, at))
        return await reads.scores_below(ranking, order_key)

    async def read(
        self, ranking: Ranking, *, first: Rank, limit: int, at: Position | None = None
    ) -> EntryRange:
        """Return up to ``limit`` entries from a rank on, best first."""
        reads = await self._reads(ranking, await self._source(ranking, at))
        return await reads.read(ranking, first=first, limit=limit)

    async def order_keys(
        self, entries: Sequence[tuple[Ranking, str]], at: Position | None = None
    ) -> Sequence[bytes | None]:
        """Raise NotKept: of players that are not ranked, nothing is kept."""
        del at
        raise NotKept(f"the index is out of reach, and {len(entries)} entries are in it alone")

    async def checkpoint(self) -> Position:
        """Raise NotKept: there is not one position for all."""
        raise NotKept("the index is out of reach, and rankings are kept one by one")

    async def _reads(self, ranking: Ranking, source: "_Source") -> "_SourceReads | Overlay":
        """Return the reads of a ranking, without the players that are not ranked by now."""
        reads = _SourceReads(source)
        unranked = self._state().unranked_on(ranking.board)
        if not unranked:
            return reads
        changes = {
            entry.player: EntryChange(entry, None) for entry in await source.entries_of(unranked)
        }
        return Overlay(reads, ranking, changes) if changes else reads  # type: ignore[arg-type]

    # ----------------------------------------------------------------------- what is kept

    async def _source(self, ranking: Ranking, at: Position | None = None) -> "_Source":
        page = self._state().boards.get(ranking.board)
        sealed = None if page is None else page.sealed.get(ranking.window)
        source: _Source | None = None
        if sealed is not None and ranking.segment is None and self._is_archived(sealed):
            source = await self._archived(ranking, sealed, at)
        if source is None and page is not None:
            source = await self._listed(page, ranking, sealed)
        if source is None and page is not None and not page.is_recorded(ranking.window):
            source = _TopListSource(TopList(ranking, (), 0, self._position()), final=True)
        if source is None:
            raise NotKept("the index is out of reach, and nothing is kept of this ranking")
        if at is not None and source.as_of != at:
            raise IndexForgot(position=at, checkpoint=source.as_of)
        return source

    def _is_archived(self, sealed: SealedWindow) -> bool:
        """Whether a window is in the archive as it is, but for players that are not ranked now.

        Not once another edition was made of it, or a player was ranked again: the archive may have
        been made without that one.
        """
        state, board = self._state(), sealed.terms.board.name
        edited = (board, sealed.window.id) in state.editions
        return 0 < sealed.sealed >= state.restored_on(board) and not edited

    async def _archived(
        self, ranking: Ranking, sealed: SealedWindow, at: Position | None
    ) -> "_ArchiveSource | None":
        board, window, since = ranking.board, ranking.window, sealed.sealed
        total: int | None = await self._memory.get(
            ("total", board, window, since),
            lambda: self._archive.sealed_total(board, window, since=since),
            weigh=lambda _: 0,
            lasts=lambda total: total is not None,
        )
        if total is None:
            return None
        as_of = self._position() if at is None or at < since else at
        return _ArchiveSource(self._archive, self._memory, ranking, since, total, as_of)

    async def _listed(
        self, page: BoardState, ranking: Ranking, sealed: SealedWindow | None
    ) -> "_TopListSource | None":
        lists = self._lists
        if lists is None:
            return None

        async def fetch() -> _TopListSource | None:
            found = await lists.list_of(ranking)
            return None if found is None else _TopListSource(found)

        listed: _TopListSource | None = await self._memory.get(
            ("list", ranking),
            fetch,
            weigh=lambda found: 0 if found is None else len(found.entries),
            lasts=lambda _: False,
        )
        if listed is None or listed.as_of < _defined_at(page, sealed):
            return None
        return listed


def _defined_at(page: BoardState, sealed: SealedWindow | None) -> Position:
    """Return where the definition came into force that a window's entries are made under."""
    if sealed is None:
        return page.turned_since
    if sealed.through == page.corrected_at:
        return page.corrected_at
    definitions = [*(since for since, _ in page.earlier), page.defined_at]
    return max((since for since in definitions if since < sealed.through), default=page.since)


class _Source(Protocol):
    """One ranking, as of one position."""

    as_of: Position
    total: int
    final: bool
    """Whether it never changes again."""

    async def ranks(self, players: Sequence[str]) -> Sequence[Ranked | None]: ...

    async def entries_of(self, players: Sequence[str]) -> Sequence[Placed]:
        """Return the entries of those of some players that are known to have one."""
        ...

    async def below(self, order_key: bytes, player: str) -> int: ...

    async def scores_below(self, floor: bytes) -> int: ...

    async def read(self, first: Rank, limit: int) -> Sequence[Placed]: ...


class _SourceReads:
    """The reads of one source, as an index has them; its position is that of the source."""

    immediate: ClassVar[bool] = False
    judges: ClassVar[bool] = False
    shared: ClassVar[bool] = False

    def __init__(self, source: _Source) -> None:
        self._source = source

    async def rank(
        self, _ranking: Ranking, player: str, _at: Position | None = None
    ) -> Ranked | None:
        (found,) = await self._source.ranks([player])
        return found

    async def ranks(
        self, _ranking: Ranking, players: Sequence[str], _at: Position | None = None
    ) -> Sequence[Ranked | None]:
        return await self._source.ranks(players)

    async def count(self, _ranking: Ranking, _at: Position | None = None) -> int:
        return self._source.total

    async def count_below(
        self, _ranking: Ranking, order_key: bytes, player: str = "", _at: Position | None = None
    ) -> Offset:
        return Offset(await self._source.below(order_key, player))

    async def scores_below(
        self, _ranking: Ranking, order_key: bytes, _at: Position | None = None
    ) -> Offset:
        floor = score_part(order_key) + bytes(TIE_BREAK_BYTES)
        return Offset(await self._source.scores_below(floor))

    async def read(
        self, _ranking: Ranking, *, first: Rank, limit: int, at: Position | None = None
    ) -> EntryRange:
        del at
        source = self._source
        entries = await source.read(first, limit) if limit > 0 else ()
        return EntryRange(entries, source.total, source.as_of)


class _TopListSource:
    """The first entries of a ranking."""

    def __init__(self, top: TopList, *, final: bool = False) -> None:
        self.final = final
        self.entries = top.entries
        self.total, self.as_of = top.total, top.as_of
        self._whole = top.whole
        self._places = {entry.player: place for place, entry in enumerate(top.entries)}
        self._order = [(entry.order_key, entry.player.encode()) for entry in top.entries]
        self._distinct = [0]
        """How many distinct scores there are among the first so many entries."""
        before = None
        for entry in top.entries:
            score = score_part(entry.order_key)
            self._distinct.append(self._distinct[-1] + (score != before))
            before = score

    async def ranks(self, players: Sequence[str]) -> Sequence[Ranked | None]:
        return [self._rank(player) for player in players]

    def _rank(self, player: str) -> Ranked | None:
        place = self._places.get(player)
        if place is None:
            if not self._whole:
                self._refuse()
            return None
        _, order_key, metadata = self.entries[place]
        return Ranked(Rank(place + 1), order_key, metadata, self.total, self.as_of)

    async def entries_of(self, players: Sequence[str]) -> Sequence[Placed]:
        there = map(self._places.get, players)
        return [self.entries[place] for place in there if place is not None]

    async def below(self, order_key: bytes, player: str) -> int:
        before = bisect_left(self._order, (order_key, player.encode()))
        if before == len(self.entries) and not self._whole:
            self._refuse()
        return before

    async def scores_below(self, floor: bytes) -> int:
        return self._distinct[await self.below(floor, "")]

    async def read(self, first: Rank, limit: int) -> Sequence[Placed]:
        if min(first + limit - 1, self.total) > len(self.entries) and first <= self.total:
            self._refuse()
        return self.entries[first - 1 : first - 1 + limit]

    def _refuse(self) -> None:
        raise NotKept(
            f"the index is out of reach, and only the first {len(self.entries):,} of "
            f"{self.total:,} are kept, as of {self.as_of}; this lies beyond them"
        )


class _ArchiveSource:
    """The final standings of a closed window."""

    final = True

    def __init__(
        self,
        archive: Archive,
        memory: FetchCache,
        ranking: Ranking,
        since: Position,
        total: int,
        as_of: Position,
    ) -> None:
        self.total, self.as_of = total, as_of
        self._archive, self._memory = archive, memory
        self._name = (ranking.board, ranking.window)
        self._since = since

    async def ranks(self, players: Sequence[str]) -> Sequence[Ranked | None]:
        asked = tuple(players)
        found: dict[str, SealedRow] = await self._memory.get(
            ("players", *self._name, self._since, asked),
            lambda: self._archive.sealed_players(*self._name, asked, since=self._since),
            weigh=lambda rows: len(asked) + len(rows),
            lasts=lambda _: True,
        )
        return [self._ranked(found.get(player)) for player in asked]

    async def entries_of(self, players: Sequence[str]) -> Sequence[Placed]:
        found = zip(players, await self.ranks(players), strict=True)
        return [Placed(player, one.order_key, one.metadata) for player, one in found if one]

    def _ranked(self, row: SealedRow | None) -> Ranked | None:
        if row is None:
            return None
        return Ranked(Rank(row.place), row.order_key, row.metadata, self.total, self.as_of)

    async def below(self, order_key: bytes, player: str) -> int:
        row = await self._behind(order_key, player)
        return self.total if row is None else row.place - 1

    async def scores_below(self, floor: bytes) -> int:
        """Only where ranks are dense: the rank that is shown counts distinct scores."""
        row = await self._behind(floor, "")
        if row is not None:
            return row.rank - 1
        last = await self._rows(Rank(self.total)) if self.total else ()
        return last[-1].rank if last else 0

    async def _behind(self, order_key: bytes, player: str) -> SealedRow | None:
        row: SealedRow | None = await self._memory.get(
            ("behind", *self._name, self._since, order_key, player),
            lambda: self._archive.sealed_behind(*self._name, order_key, player, since=self._since),
            weigh=lambda _: 1,
            lasts=lambda _: True,
        )
        return row

    async def read(self, first: Rank, limit: int) -> Sequence[Placed]:
        last = min(first + limit - 1, self.total)
        rows: list[SealedRow] = []
        while first + len(rows) <= last:
            rows += await self._rows(Rank(first + len(rows)))
        return [Placed(row.player, row.order_key, row.metadata) for row in rows[: last - first + 1]]

    async def _rows(self, first: Rank) -> Sequence[SealedRow]:
        """Return the rows from a place on, to the end of those that are fetched together."""
        start = first - (first - 1) % ROWS_TOGETHER
        rows: Sequence[SealedRow] = await self._memory.get(
            ("rows", *self._name, self._since, start),
            lambda: self._archive.sealed_rows(
                *self._name, since=self._since, first=Rank(start), limit=ROWS_TOGETHER
            ),
            weigh=len,
            lasts=lambda _: True,
        )
        if len(rows) <= first - start:
            raise NotKept("the index is out of reach, and the archive lacks rows")
        return rows[first - start :]
