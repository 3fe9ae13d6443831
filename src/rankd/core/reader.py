"""Reads of standings, by window and segment, as of a position.

Everything here is a question to the index and arithmetic from the model. A ranking that does not
exist yet has no entries; a window that never was is an error, because asking for it is a mistake.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from copy import copy
from decimal import Decimal
from functools import lru_cache, wraps
from typing import Any, NamedTuple, ParamSpec, Protocol, Self, TypeVar, overload

import msgspec

from rankd.core.board_state import BoardState, OpenedWindow, SealedWindow, Terms, UnrecordedWindow
from rankd.core.distribution import (
    BUCKETS_DEFAULT,
    ScoreDistribution,
    ShownOrder,
    check_buckets,
    histogram,
)
from rankd.core.overlay import Overlay
from rankd.core.projector import Projector
from rankd.core.state import State
from rankd.core.visibility import ANONYMOUS, PastViewer, Viewer
from rankd.errors import (
    FieldError,
    IndexForgot,
    IndexUnavailable,
    InvalidCursor,
    InvalidPage,
    NotRanked,
    UnknownWindow,
)
from rankd.model.board import Scores, TieBreak
from rankd.model.facts import Position
from rankd.model.order import Order, score_part
from rankd.model.standing import (
    NEIGHBOURS_DEFAULT,
    PAGE_LIMIT_DEFAULT,
    PAGE_LIMIT_MAX,
    Absent,
    Cursor,
    Offset,
    Rank,
    ReprMixin,
    Standing,
    Standings,
    TieRule,
    Way,
    Words,
    neighbourhood,
    page_bounds,
    rank_at_percentile,
    ranks_of_page,
    shown_score,
    stamp,
    stretch_around,
)
from rankd.model.submission import PLAYER_ID_BYTES_MAX, valid_player
from rankd.model.window import Instant, WindowState
from rankd.ports import (
    Clock,
    EntryColumns,
    ImmediateIndex,
    Places,
    Ranked,
    RankIndex,
    Ranking,
)

T = TypeVar("T")
P = ParamSpec("P")

MOMENTS_MAX = 5
"""How often a read of a shared index begins anew."""

DEFINED_SECONDS_MAX = 2.0
"""How long a read waits for a shared index to take a definition that the state has noted."""

LOOKUP_PLAYERS_MAX = 1000
"""As many as a page holds."""


class Page(Standings, msgspec.Struct, frozen=True, gc=False):
    """A run of consecutive standings, read like a list of them, and how to go on from it.

    Stored as columns, so that renderers need no ``Standing`` objects.
    """

    ranking: Ranking
    total: int
    as_of: Position
    ranks: Sequence[int]
    players: Sequence[str]
    order_keys: bytes
    """End to end."""
    names: Sequence[str | None]
    metadata: Sequence[bytes | None] | None
    """None if no entry has any."""
    decimals: int
    order: Order
    next_cursor: str | None = None
    prev_cursor: str | None = None
    stale: bool = False
    """Whether it was answered without the index, which may have told of more already."""
    state: WindowState = WindowState.OPEN
    """Of the window."""
    opens_at: Instant | None = None
    """When a scheduled window begins."""
    ordinals: Sequence[int] | None = None
    """The ordinal rank of each, on boards with shared ranks; None where ``ranks`` has these."""
    in_range: int | None = None
    """How many entries the requested range of scores has; None if none was requested."""
    edition: int | None = None
    """The edition of a closed window; None if none was requested."""
    hides_players: bool = False
    """Whether some of the players are ANONYMOUS."""
    at: Instant | None = None
    """The instant whose scores are shown; None if they do not depend on time."""
    ranks_before: Sequence[int] | None = None
    """The ranks at the baseline, 0 for none; None if they are not known."""

    @property
    def scores(self) -> list[Scores]:
        """The scores that the keys encode; under decay their values at ``at``."""
        if self.at is None:
            return self.order.scores_of(self.order_keys)
        return self.order.shown_of(self.order_keys, self.at)

    @property
    def raw_scores(self) -> Sequence[int | None]:
        """The scores as they were recorded; None on boards without decay."""
        if self.at is None:
            return [None] * len(self.players)
        return list(map(self.order.recorded, self.order.scores_of(self.order_keys)))

    @property
    def standings(self) -> list[Standing]:
        """Each entry with its rank."""
        total, as_of, decimals, stale = self.total, self.as_of, self.decimals, self.stale
        nothing: Sequence[None] = [None] * len(self.players)
        beside, places = self.metadata or nothing, self.ordinals or nothing
        before = nothing if self.ranks_before is None else self.ranks_before
        scores = zip(self.scores, self.raw_scores, strict=True)
        columns = (self.players, scores, self.names, beside, places, before)
        rows = zip(self.ranks, *columns, strict=True)
        return [
            Standing(
                Rank(rank),
                player,
                scores,
                total,
                as_of,
                decimals,
                name,
                data,
                None,
                stale,
                None if place is None else Rank(place),
                raw,
                self.at,
                previous,
            )
            for rank, player, (scores, raw), name, data, place, previous in rows
        ]

    def __len__(self) -> int:
        return len(self.players)

    @overload
    def __getitem__(self, which: int) -> Standing: ...
    @overload
    def __getitem__(self, which: slice) -> list[Standing]: ...
    def __getitem__(self, which: int | slice) -> Standing | list[Standing]:
        if isinstance(which, slice):
            return self.standings[which]
        row, width = range(len(self.players))[which], self.order.key_bytes
        scores = self.order.scores(self.order_keys[row * width :][:width])
        return Standing(
            Rank(self.ranks[row]),
            self.players[row],
            self.order.shown(scores, self.at or 0),
            self.total,
            self.as_of,
            self.decimals,
            self.names[row],
            None if self.metadata is None else self.metadata[row],
            None,
            self.stale,
            None if self.ordinals is None else Rank(self.ordinals[row]),
            self.order.recorded(scores),
            self.at,
            None if self.ranks_before is None else self.ranks_before[row],
        )

    def _words(self) -> Words:
        yield "ranking", self.ranking
        yield "total", self.total
        yield "in_range", self.in_range, None
        yield "as_of", self.as_of
        yield "standings", self.standings
        yield "stale", self.stale, False
        yield "state", str(self.state), "open"
        yield "opens_at", self.opens_at, None


class FoundStandings(Standings, msgspec.Struct, frozen=True, gc=False):
    """Some players' standings, best first, with their places among themselves.

    It is read like a list of them.
    """

    ranking: Ranking
    total: int
    as_of: Position
    standings: list[Standing]
    not_found: list[str]
    stale: bool = False
    state: WindowState = WindowState.OPEN
    opens_at: Instant | None = None
    at: Instant | None = None
    """The instant whose scores are shown; None if they do not depend on time."""

    def _words(self) -> Words:
        yield "ranking", self.ranking
        yield "total", self.total
        yield "as_of", self.as_of
        yield "standings", self.standings
        yield "not_found", self.not_found
        yield "stale", self.stale, False
        yield "state", str(self.state), "open"
        yield "opens_at", self.opens_at, None


Sequence.register(Page)
Sequence.register(FoundStandings)


class LookupColumns(NamedTuple):
    """Looked-up players as columns, in the order of the request."""

    players: list[str]
    names: Sequence[str | None]
    places: Places
    """With the ranks that the board shows."""
    rows: list[int]
    """The rows of ranked players, best first."""
    ordinals: Sequence[int] | None
    """The ordinal ranks if the board shares ranks, else None."""
    ranks_before: Sequence[int] | None = None
    """The ranks at the baseline, 0 for none; None if they are not known."""


class Projected(ReprMixin, msgspec.Struct, frozen=True, gc=False):
    """A rank and the scores that go with it, as things stand."""

    ranking: Ranking
    total: int
    as_of: Position
    rank: Rank | None
    """None for an empty ranking."""
    scores: Scores | None
    """None where the rank is free."""
    decimals: int
    stale: bool = False
    state: WindowState = WindowState.OPEN
    opens_at: Instant | None = None
    at: Instant | None = None
    """The instant whose scores are counted; None if they do not depend on time."""

    @property
    def score(self) -> int | Decimal | None:
        """The first column as people see it."""
        return None if self.scores is None else shown_score(self.scores[0], self.decimals)

    def _words(self) -> Words:
        yield "rank", self.rank
        yield "score", self.score
        yield "scores", self.scores, (self.scores or ())[:1] or None
        yield "total", self.total
        yield "ranking", self.ranking
        yield "as_of", self.as_of
        yield "stale", self.stale, False
        yield "state", str(self.state), "open"
        yield "opens_at", self.opens_at, None


class RankingView(NamedTuple):
    """A ranking, the terms that explain its keys, and the state of its window."""

    terms: Terms
    ranking: Ranking
    state: WindowState = WindowState.OPEN
    opens_at: Instant | None = None
    """When a scheduled window begins."""
    decays_until: Instant | None = None
    """When the window's scores stop to decay, because it is over."""

    @classmethod
    def of(
        cls, found: OpenedWindow | SealedWindow | UnrecordedWindow, ranking: Ranking
    ) -> "RankingView":
        """Return a ranking of a window."""
        scheduled = found.state is WindowState.SCHEDULED
        opens_at = found.window.opening if scheduled else None
        until = found.decays_until if found.terms.order.decays else None
        return cls(found.terms, ranking, found.state, opens_at, until)

    def holding(self, total: int) -> "RankingView":
        """Return it with the state that so many entries prove.

        A shared index may be ahead of the state, and have entries of a window that opened since.
        """
        if total and self.state is WindowState.SCHEDULED:
            return self._replace(state=WindowState.OPEN, opens_at=None)
        return self


def _readable(page: BoardState, ranking: Ranking) -> Ranking:
    """Return a ranking, or an empty one in place of one that is prepared and not open."""
    return ranking.closed_to_readers if page.is_prepared(ranking.window) else ranking


Read = Callable[..., Coroutine[Any, Any, T]]


def _settled(read: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Repeat a read if the index forgets its position before it is done.

    All calls of a read go to one index, or to the next one if that is gone.
    """

    @wraps(read)
    def settled(*args: P.args, **named: P.kwargs) -> Coroutine[Any, Any, T]:
        reader: Reader = args[0]  # type: ignore[assignment]
        if reader.immediate:
            return read(*args, **named)
        if reader.written is not None:
            return _from_replica(read, reader, reader.written, args[1:], named)
        return _fallen_back(read, reader, args[1:], named)

    return settled


async def _again(
    read: Read[T], reader: "Reader", args: tuple[Any, ...], named: Mapping[str, Any]
) -> T:
    for _ in range(MOMENTS_MAX):
        try:
            return await read(reader, *args, **named)
        except IndexForgot as exc:
            if exc.position > exc.checkpoint:
                await reader.reached(Position(exc.position))
    raise IndexUnavailable("the index moved on too fast to be read")


async def _fallen_back(
    read: Read[T], reader: "Reader", args: tuple[Any, ...], named: Mapping[str, Any]
) -> T:
    projector = reader.projector
    if isinstance(reader._index, Overlay):  # It has the changes of this one index, no other.
        return await _again(read, reader, args, named)
    index = projector.readable
    try:
        return await _again(read, reader.over(index), args, named)
    except IndexUnavailable:
        if index is not projector.index or projector.fallback is None:
            raise
    return await _again(read, reader.over(projector.fallback), args, named)


async def _from_replica(
    read: Read[T],
    reader: "Reader",
    written: "Reader",
    args: tuple[Any, ...],
    named: Mapping[str, Any],
) -> T:
    try:
        return await read(reader, *args, **named)
    except IndexForgot:
        pass
    except IndexUnavailable:
        reader.give_up()
    return await _fallen_back(read, written.seen_by(reader.viewer), args, named)


class Before(Protocol):
    """The ranks that players held before."""

    def ranks(self, players: Sequence[str]) -> Sequence[int]:
        """Return the rank of each player; 0 for none."""


class MovementSource(Protocol):
    """Finds the ranks of the start of the day."""

    def find(self, where: RankingView) -> Before | None:
        """Return those of a ranking; None if they are not known now."""


class Reader:
    """Answers questions about standings."""

    def __init__(
        self, *, projector: Projector, clock: Clock, index: RankIndex | Overlay | None = None
    ) -> None:
        self.projector = projector
        self._clock = clock
        self._only: RankIndex | None = index  # type: ignore[assignment]  # It is only read from.
        """The only index to read, if one was given."""
        self._only_base = index.base if isinstance(index, Overlay) else index

    def over(self, index: RankIndex | Overlay) -> "Reader":
        """Return a reader that asks no other index."""
        reader = Reader(projector=self.projector, clock=self._clock, index=index)
        if not isinstance(index, Overlay):
            reader.movement = self.movement
        return reader.seen_by(self.viewer)

    viewer: Viewer | PastViewer | None = None
    """The client, if players are hidden to it; None for the game."""

    movement: "MovementSource | None" = None
    """Where the ranks of the start of the day are found; None where no movement is told."""

    past: bool = False
    """Whether it reads past standings, which never are stale or behind."""

    def seen_by(self, viewer: Viewer | PastViewer | None) -> Self:
        """Return this reader without the players that are hidden to a client."""
        if viewer is None:
            return self
        reader = copy(self)
        reader.viewer = viewer
        return reader

    def _hides(self, player: str) -> bool:
        return self.viewer is not None and self.viewer.hides(player)

    written: "Reader | None" = None
    """The reader of the primary, if this one reads a replica."""

    def give_up(self) -> None:
        """Stop reading the replica for a while."""

    @property
    def _index(self) -> RankIndex:
        return self.projector.readable if self._only is None else self._only

    @property
    def index(self) -> RankIndex:
        """The index that is read."""
        return self._index

    @property
    def _base(self) -> RankIndex:
        """The index that positions come from: the base of an overlay."""
        return self.projector.readable if self._only_base is None else self._only_base

    @property
    def _state(self) -> State:
        return self.projector.state

    @property
    def time(self) -> Instant:
        """The ledger's time: the clock's, unless facts are later."""
        return max(self._clock.now(), self.projector.at)

    def shown_at(self, where: RankingView) -> Instant | None:
        """Return the instant whose scores an answer shows; None if they do not depend on time."""
        if not where.terms.order.decays:
            return None
        time = self.time
        return time if where.decays_until is None else min(time, where.decays_until)

    def _pinned(self, where: RankingView) -> RankingView:
        """Return a ranking whose scores are shown as of now in all of an answer."""
        at = self.shown_at(where)
        return where if at is None else where._replace(decays_until=at)

    def where(
        self, board: str, window: str | None = None, segment: str | None = None
    ) -> RankingView:
        """Return the ranking a reader means. Raises UnknownBoard, UnknownWindow, InvalidPage."""
        page = self.projector.state.page(board)
        # By far the most ask for a window by its name: nobody need look at the clock for that.
        found: OpenedWindow | SealedWindow | UnrecordedWindow | None
        found = page.windows.get(page.default if window is None else window)
        if found is None:
            found = page.find_window(window, self.time)
        elif segment is None and not found.terms.order.decays:
            return RankingView(found.terms, found.ranking)
        if segment is None:
            return RankingView.of(found, _readable(page, found.ranking))
        known = found.terms.board.segments
        if segment.partition(":")[0] not in known or ":" not in segment:
            there = ", ".join(known) or "none"
            message = f"must be a segment of the board and a value, as region:eu; it has {there}"
            raise InvalidPage([FieldError("segment", message)])
        ranking = Ranking(board, found.ranking.window, segment)
        return RankingView.of(found, _readable(page, ranking))

    # ---------------------------------------------------------------------- one player

    async def standing(
        self, board: str, player: str, *, window: str | None = None, segment: str | None = None
    ) -> Standing | None:
        """Return where a player stands, None where it does not."""
        return await self.standing_in(self.where(board, window, segment), player)

    @_settled
    async def standing_in(self, where: RankingView, player: str) -> Standing | None:
        """Return where a player stands in a ranking that is known already."""
        found = await self._rank(where, player)
        return None if found is None else await self._standing(where, player, found)

    async def _rank(self, where: RankingView, player: str) -> Ranked | None:
        floor = self.projector.floor
        found = await self._index.rank(where.ranking, player)
        await self._vouch(None if found is None else found.as_of, floor)
        if found is not None:
            self._expect_terms(where, found.as_of)
        return None if self._hides(player) else found

    def _expect_terms(self, where: RankingView, as_of: Position) -> None:
        """Raise IndexForgot unless a shared index was at the definition that explains its keys.

        The state may be ahead of it, and may have moved on while it was asked.
        """
        if self._base.immediate or self._base is not self.projector.index:
            return
        page = self._state.boards.get(where.ranking.board)
        for opened in () if page is None else page.windows.values():
            if page is not None and opened.ranking.window == where.ranking.window:
                if opened.terms is not where.terms:
                    raise IndexForgot(position=as_of, checkpoint=as_of)
                if as_of < page.turned_since:
                    raise IndexForgot(position=page.turned_since, checkpoint=as_of)

    async def reached(self, position: Position) -> None:
        """Wait a moment until the index is at a position. Raises IndexUnavailable."""
        try:
            async with asyncio.timeout(DEFINED_SECONDS_MAX):
                await self.projector.reach(position)
        except TimeoutError:
            problem = f"the index has not come to {position}, where the board was redefined"
            raise IndexUnavailable(problem) from None

    async def _vouch(self, as_of: Position | None, floor: Position) -> None:
        if self._base is self.projector.index:
            await self.projector.check_fresh(as_of, floor)

    async def _moment(self, where: RankingView) -> Position | None:
        """Return the position that all of an answer is to be as of, if it takes several calls.

        None where the index cannot change during a read.
        """
        if self.immediate:
            return None
        index = self._base
        moment = await self.projector.fallback_moment(index, where.ranking)
        if moment is not None:
            return moment
        floor, position = self.projector.floor, await index.checkpoint()
        await self._vouch(position, floor)
        self._expect_terms(where, position)
        return position

    def _is_stale(self, _as_of: Position) -> bool:
        """Whether an answer does not come from the index, which may have told of more already."""
        return self._base is not self.projector.index

    @property
    def immediate(self) -> bool:
        """Whether nothing here ever suspends."""
        return self._index.immediate

    def ranked_now(self, where: RankingView, player: str) -> tuple[Ranked, Rank | None] | None:
        """Return a player's place at once, and its rank on a board with shared ranks.

        None if it is not ranked. Only if immediate.
        """
        index: ImmediateIndex = self.projector.readable  # type: ignore[assignment]
        found = index.rank_now(where.ranking, player)
        if found is None:
            return None
        if where.terms.board.ties is TieRule.ORDINAL:
            return found, None
        return found, at_once(self._shown(where, found.rank, found.order_key))

    def standing_now(self, where: RankingView, player: str) -> Standing | None:
        """Return a player's standing at once; None if it is not ranked. Only if immediate."""
        found = self.ranked_now(where, player)
        return None if found is None else self._shown_standing(where, player, *found)

    def finder(self, where: RankingView) -> Callable[[Sequence[str]], Places] | None:
        """Return a function that finds players in one ranking as ``ranked_now`` does.

        It is valid until the state changes. None where that takes more than a look into the index,
        or depends on the time.
        """
        if not (self.immediate and self._lasts(where)):
            return None
        index: ImmediateIndex = self.projector.readable  # type: ignore[assignment]
        return index.finder(where.ranking)

    def lookup_now(self, where: RankingView, players: Sequence[str]) -> LookupColumns | None:
        """Return the places of some players; None if that takes more than a look into the index."""
        seek = self.finder(where)
        if seek is None:
            return None
        asked = list(dict.fromkeys(players))
        places = seek(asked)
        ranks = list(places.ranks)
        rows = sorted(range(len(asked)), key=ranks.__getitem__)
        if 0 in ranks:
            rows = rows[ranks.count(0) :]
        rank, before = self.ranker(where), self.ranks_before(where, asked)
        if rank is None:
            return LookupColumns(asked, self.names(asked), places, rows, None, before)
        shown = places._replace(ranks=rank(places.order_keys))
        return LookupColumns(asked, self.names(asked), shown, rows, ranks, before)

    def ranker(self, where: RankingView) -> Callable[[bytes], Sequence[int]] | None:
        """Return the ranks that the board shows of entries with some keys, packed end to end.

        None where these are the ranks that ``finder`` finds. Only if immediate.
        """
        ties = where.terms.board.ties
        if ties is TieRule.ORDINAL:
            return None
        index: ImmediateIndex = self.projector.readable  # type: ignore[assignment]
        return index.ranker(where.ranking, ties)

    def asker(
        self, where: RankingView
    ) -> Callable[[str, Callable[[Ranked | None], None]], bool] | None:
        """Return a function that reads places in one ranking of a shared index.

        It is valid until the state changes. Its callback gets the place, or None where
        ``standing_in`` has to be called; it returns False if the callback will not be called. None
        where the index alone does not give the answer.
        """
        if where.terms.board.ties is not TieRule.ORDINAL or not self._lasts(where):
            return None
        return None if self._only is not None else self.projector.asker(where.ranking)

    def _lasts(self, where: RankingView) -> bool:
        """Whether a place in a ranking is that of the index, until the state changes."""
        page = self.projector.state.boards.get(where.ranking.board)
        if page is None:
            return False
        window = where.ranking.window
        return any(opened.ranking.window == window for opened in page.windows.values())

    def ranks_before(self, where: RankingView, players: Sequence[str]) -> Sequence[int] | None:
        """Return the ranks of players at the start of the day, 0 for none; None if not known."""
        before = None if self.movement is None else self.movement.find(where)
        return None if before is None else before.ranks(players)

    def name(self, player: str) -> str | None:
        """Return a player's display name, None if it has none."""
        return self.projector.state.names.get(player)

    @_settled
    async def ranks(
        self,
        board: str,
        players: Sequence[str],
        *,
        window: str | None = None,
        segment: str | None = None,
    ) -> list[Rank | None]:
        """Return the ranks of many players, None for players without one."""
        check_players(players)
        where = self.where(board, window, segment)
        at = await self._moment(where)
        found = await self._ranks(where, players, at)
        if where.terms.board.ties is TieRule.ORDINAL:
            return [None if one is None else one.rank for one in found]
        return [
            None if one is None else await self._shown(where, one.rank, one.order_key, at)
            for one in found
        ]

    async def _ranks(
        self, where: RankingView, players: Sequence[str], at: Position | None
    ) -> Sequence[Ranked | None]:
        found = await self._index.ranks(where.ranking, players, at)
        if self.viewer is None:
            return found
        each = zip(players, found, strict=True)
        return [None if self._hides(player) else place for player, place in each]

    @_settled
    async def standings(
        self, player: str, window: str | None = None
    ) -> list[tuple[RankingView, Standing]]:
        """Return where a player stands on every board that has the window.

        None is each board's default window; a board between two seasons has none.
        """
        everywhere = []
        for where in self.views(window):
            found = await self._rank(where, player)
            if found is not None:
                standing = await self._standing(where, player, found)
                everywhere.append((where.holding(standing.total), standing))
        return everywhere

    def views(self, window: str | None = None) -> list[RankingView]:
        """Return the ranking of each board that has a window; None is each board's default."""
        views = []
        for name, page in list(self._state.boards.items()):
            if window is None and not page.is_under_way(page.default):
                continue
            with suppress(UnknownWindow):
                views.append(self.where(name, window))
        return views

    async def _standing(self, where: RankingView, player: str, found: Ranked) -> Standing:
        shared = None
        if where.terms.board.ties is not TieRule.ORDINAL:
            shared = await self._shown(where, found.rank, found.order_key, found.as_of)
        return self._shown_standing(where, player, found, shared)

    def _shown_standing(
        self, where: RankingView, player: str, found: Ranked, shared: Rank | None
    ) -> Standing:
        """Return the standing of an entry; ``shared`` is its rank if the board shares ranks."""
        place, order_key, metadata, total, as_of = found
        terms, at = where.terms, self.shown_at(where)
        scores = terms.order.scores(order_key)
        return Standing(
            place if shared is None else shared,
            player,
            terms.order.shown(scores, at or 0),
            total,
            as_of,
            terms.board.decimals,
            self.name(player),
            metadata,
            None,
            self._is_stale(as_of),
            None if shared is None else place,
            terms.order.recorded(scores),
            at,
            self.rank_before(where, player),
        )

    def rank_before(self, where: RankingView, player: str) -> int | None:
        """Return the rank of a player at the start of the day, 0 for none; None if not known."""
        before = self.ranks_before(where, (player,))
        return None if before is None else before[0]

    async def _shown(
        self, where: RankingView, ordinal: Rank, order_key: bytes, at: Position | None = None
    ) -> Rank:
        """Return the rank that the board's ties give an entry."""
        ties, order = where.terms.board.ties, where.terms.order
        if ties is TieRule.ORDINAL:
            return ordinal
        if ties is TieRule.DENSE:
            return Rank(await self._index.scores_below(where.ranking, order_key, at) + 1)
        floor = order.floor_of(order_key)
        return Rank(await self._index.count_below(where.ranking, floor, at=at) + 1)

    # --------------------------------------------------------------------------- pages

    @_settled
    async def page(  # noqa: PLR0913 - each says where a page begins, and one is given
        self,
        board: str,
        *,
        window: str | None = None,
        segment: str | None = None,
        limit: int = PAGE_LIMIT_DEFAULT,
        offset: Offset | None = None,
        from_rank: Rank | None = None,
        cursor: str | None = None,
        score_min: object = None,
        score_max: object = None,
    ) -> Page:
        """Return a page, begun at a rank, an offset or where a cursor points.

        With ``score_min`` or ``score_max``, both inclusive, only entries whose first column lies
        between them are on it, and an offset counts from the first of these.
        """
        where = self.where(board, window, segment)
        if cursor is not None and (offset is not None or from_rank is not None):
            raise InvalidPage([FieldError("cursor", "cannot be combined with another start")])
        first, limit = page_bounds(
            total=_EVERYBODY, limit=limit, offset=offset, from_rank=from_rank
        )
        where = self._pinned(where)
        span = _read_span(where.terms, score_min, score_max, where.decays_until or 0)
        if cursor is None and span is None:
            return await self._read(where, first, limit)
        at = await self._moment(where)
        within = _WHOLE if span is None else await self._stretch(where, span, at)
        if cursor is not None:
            first, limit = await self._after_cursor(where, cursor, limit, at, within)
        elif from_rank is None:
            first = Rank(first + within.before)
        if span is None:
            return await self._read(where, first, limit, at)
        return await self._page_within(where, within, first, limit, at)

    async def _stretch(
        self, where: RankingView, span: tuple[bytes, bytes], at: Position | None
    ) -> "_Stretch":
        """Return the ranks of the entries between two keys."""
        before, last = [await self._index.count_below(where.ranking, key, at=at) for key in span]
        return _Stretch(before, last)

    async def _page_within(
        self, where: RankingView, within: "_Stretch", first: Rank, limit: int, at: Position | None
    ) -> Page:
        """Return a page of some ranks, whose cursors lead no further than these."""
        first = Rank(min(max(first, within.before + 1), within.last + 1))
        count = max(0, min(limit, within.last + 1 - first))
        page = await self._read(where, first, count, at)
        prev_cursor = page.prev_cursor if count else _end_cursor(where)
        return msgspec.structs.replace(
            page,
            next_cursor=page.next_cursor if first + count <= within.last else None,
            prev_cursor=prev_cursor if first > within.before + 1 else None,
            in_range=within.last - within.before,
        )

    @_settled
    async def count(self, ranking: Ranking) -> int:
        """Return how many entries a ranking has."""
        return await self._index.count(ranking)

    @_settled
    async def top_of(self, where: RankingView, limit: int) -> Page:
        """Return the top of a ranking that is known already, a draft's too."""
        return await self._read(where, Rank(1), limit)

    async def _after_cursor(
        self,
        where: RankingView,
        token: str,
        limit: int,
        at: Position | None,
        within: "_Stretch",
    ) -> tuple[Rank, int]:
        """Return the first rank of a cursor's page, and how many entries it has at most."""
        cursor = Cursor.decode(token, _cursor_name(where), key_bytes=where.terms.order.key_bytes)
        before, passed = await self._cursor_place(where, cursor, at)
        if cursor.way is Way.PREVIOUS:
            end = min(before, within.last)
            first = max(end - limit, within.before) + 1
            return Rank(first), end - first + 1
        return Rank(before + 1 + passed), limit

    async def _cursor_place(
        self, where: RankingView, cursor: Cursor, at: Position | None
    ) -> tuple[int, bool]:
        """Return how many entries are before a cursor's entry, and whether this is still there."""
        if self.viewer is not None:
            return await self._viewer_place(where, cursor, at)
        index, player = self._index, cursor.player
        before = await index.count_below(where.ranking, cursor.order_key, player, at)
        if cursor.way is Way.PREVIOUS:
            return before, False
        there = await index.rank(where.ranking, player, at)
        return before, there is not None and there.order_key == cursor.order_key

    async def _viewer_place(
        self, where: RankingView, cursor: Cursor, at: Position | None
    ) -> tuple[int, bool]:
        """Return the same without a use of hidden ids, which forged cursors could find out.

        Where entries have keys of their own, the id is ignored. Where it breaks ties, only that of
        an entry which is there and not hidden counts; else all with the same scores are ahead.
        """
        player = _LAST if cursor.way is Way.NEXT else _FIRST
        passed = False
        if where.terms.board.tie_break is TieBreak.PLAYER:
            player = cursor.player
            if player[0] == _LAST and player[1:]:
                return _read_place(player[1:]) - 1, True
            there = await self._index.rank(where.ranking, player, at)
            passed = there is not None and there.order_key == cursor.order_key
            if not passed or self._hides(player):
                player, passed = _FIRST, False
        before = await self._index.count_below(where.ranking, cursor.order_key, player, at)
        return before, passed

    async def _read(
        self, where: RankingView, first: Rank, count: int, at: Position | None = None
    ) -> Page:
        columns = await self._columns(where, first, count, at)
        ties, order = where.terms.board.ties, where.terms.order
        if ties is TieRule.ORDINAL or not columns.players:
            return self._filled(where, first, columns)
        best = columns.order_keys[: order.key_bytes]
        shown = await self._shown(where, first, best, columns.as_of)
        scores = map(score_part, order.parted(columns.order_keys))
        ranks = ranks_of_page(ties, scores, ordinal=first, shown=shown)
        return self._filled(where, first, columns, ranks)

    def _filled(
        self,
        where: RankingView,
        first: Rank,
        columns: EntryColumns,
        ranks: Sequence[int] | None = None,
    ) -> Page:
        """Return a page of entries that were read, their ranks ordinal unless they are given."""
        players, keys, metadata, total, as_of = columns
        where = where.holding(total)
        order, decimals = where.terms.order, where.terms.board.decimals
        before, behind = _stamps(where)
        if not players:
            back = _end_cursor(where) if 0 < total < first else None
            stale = self._is_stale(as_of)
            return Page(
                where.ranking,
                total,
                as_of,
                (),
                (),
                b"",
                (),
                None,
                decimals,
                order,
                None,
                back,
                stale,
                where.state,
                where.opens_at,
                at=self.shown_at(where),
            )
        last, width = first + len(players) - 1, order.key_bytes
        page = Page(
            where.ranking,
            total,
            as_of,
            range(first, last + 1) if ranks is None else ranks,
            players,
            keys,
            self.names(players),
            metadata,
            decimals,
            order,
            behind(keys[-width:], players[-1]) if last < total else None,
            before(keys[:width], players[0]) if first > 1 else None,
            self._is_stale(as_of),
            where.state,
            None,
            None if ranks is None else range(first, last + 1),
            at=self.shown_at(where),
            ranks_before=self.ranks_before(where, players),
        )
        return page if self.viewer is None else self._masked(where, first, page)

    def _masked(self, where: RankingView, first: Rank, page: Page) -> Page:
        """Return a page without the ids, names and metadata that are hidden to the viewer."""
        hidden = [*map(self._hides, page.players)]
        if not any(hidden):
            return page
        metadata = page.metadata
        if metadata is not None:
            metadata = [None if h else one for h, one in zip(hidden, metadata, strict=True)]
        next_cursor, prev_cursor = page.next_cursor, page.prev_cursor
        before, behind = _stamps(where)
        width, by_player = page.order.key_bytes, where.terms.board.tie_break is TieBreak.PLAYER
        if next_cursor is not None and hidden[-1]:
            last = f"{_LAST}{first + len(hidden) - 1}" if by_player else _LAST
            next_cursor = behind(page.order_keys[-width:], last)
        if prev_cursor is not None and hidden[0]:
            prev_cursor = before(
                page.order_keys[:width], f"{_LAST}{first}" if by_player else _FIRST
            )
        return msgspec.structs.replace(
            page,
            players=[ANONYMOUS if h else one for h, one in zip(hidden, page.players, strict=True)],
            names=[None if h else one for h, one in zip(hidden, page.names, strict=True)],
            metadata=metadata,
            next_cursor=next_cursor,
            prev_cursor=prev_cursor,
            hides_players=True,
        )

    async def _columns(
        self, where: RankingView, first: Rank, count: int, at: Position | None
    ) -> EntryColumns:
        index = self._index
        if index.immediate:
            at_hand: ImmediateIndex = index  # type: ignore[assignment]
            return at_hand.read_now(where.ranking, first=first, limit=count)
        floor = self.projector.floor
        entries, total, as_of = await index.read(where.ranking, first=first, limit=count, at=at)
        if at is None:
            await self._vouch(as_of, floor)
            self._expect_terms(where, as_of)
        if not entries:
            return EntryColumns((), b"", None, total, as_of)
        players, keys, metadata = zip(*entries, strict=True)
        return EntryColumns(players, b"".join(keys), metadata, total, as_of)

    def names(self, players: Sequence[str]) -> list[str | None]:
        """Return players' display names, None for those that have none."""
        names = self._state.names
        return list(map(names.get, players)) if names else [None] * len(players)

    # ------------------------------------------------------------------- neighbourhoods

    @_settled
    async def around(  # noqa: PLR0913 - which part of which ranking
        self,
        board: str,
        player: str,
        *,
        above: int = NEIGHBOURS_DEFAULT,
        below: int = NEIGHBOURS_DEFAULT,
        absent: Absent | None = None,
        window: str | None = None,
        segment: str | None = None,
    ) -> Page:
        """Return a player's neighbourhood, the edges made up.

        For a player without an entry it is that of the first or the last one, as ``absent`` says.
        Raises NotRanked without it.
        """
        where = self.where(board, window, segment)
        found = await self._rank(where, player)
        if found is not None:
            return await self._around(where, found, above, below)
        neighbourhood(Rank(1), total=1, above=above, below=below)  # For its opinion of both.
        if absent is None:
            raise NotRanked(board=board, window=where.ranking.window, player=player)
        at = await self._moment(where)
        total = max(await self._index.count(where.ranking, at), 1)
        end = Rank(1 if absent is Absent.TOP else total)
        first, count = neighbourhood(end, total=total, above=above, below=below)
        return await self._read(where, first, count, at)

    async def _around(self, where: RankingView, found: Ranked, above: int, below: int) -> Page:
        first, count = neighbourhood(found.rank, total=found.total, above=above, below=below)
        return await self._read(where, first, count, None if self.immediate else found.as_of)

    def around_now(
        self, where: RankingView, rank: Rank, total: int, *, above: int, below: int
    ) -> Page:
        """Return the neighbourhood of a rank that a ``finder`` just found."""
        first, count = neighbourhood(rank, total=total, above=above, below=below)
        return self.page_now(where, first, count)

    def page_now(self, where: RankingView, first: Rank, limit: int) -> Page:
        """Return a page at once. Only if immediate."""
        index: ImmediateIndex = self.projector.readable  # type: ignore[assignment]
        columns = index.read_now(where.ranking, first=first, limit=limit)
        return self._filled(where, first, columns, self._ranks_now(where, first, columns))

    def _ranks_now(
        self, where: RankingView, first: Rank, columns: EntryColumns
    ) -> Sequence[int] | None:
        """Return the ranks of a page as the board shows them; None if they are ordinal."""
        rank, order = self.ranker(where), where.terms.order
        if rank is None or not columns.players:
            return None
        (shown,) = rank(columns.order_keys[: order.key_bytes])
        scores = map(score_part, order.parted(columns.order_keys))
        return ranks_of_page(where.terms.board.ties, scores, ordinal=first, shown=Rank(shown))

    @_settled
    async def around_rank(
        self,
        board: str,
        rank: Rank,
        *,
        reach: int = NEIGHBOURS_DEFAULT,
        window: str | None = None,
        segment: str | None = None,
    ) -> Page:
        """Return the standings from ``rank - reach`` to ``rank + reach``, as far as there are."""
        where = self.where(board, window, segment)
        first, count = stretch_around(rank, reach=reach)
        return await self._read(where, first, count)

    @_settled
    async def lookup(
        self,
        board: str,
        players: Sequence[str],
        *,
        window: str | None = None,
        segment: str | None = None,
    ) -> FoundStandings:
        """Return the standings of some players, best first, and the players without one."""
        check_players(players)
        where = self._pinned(self.where(board, window, segment))
        asked = list(dict.fromkeys(players))
        at = await self._moment(where)
        places = await self._ranks(where, asked, at)
        found = [(place, player) for player, place in zip(asked, places, strict=True) if place]
        found.sort(key=lambda pair: pair[0].rank)
        standings = [
            msgspec.structs.replace(await self._standing(where, player, place), place=Rank(number))
            for number, (place, player) in enumerate(found, start=1)
        ]
        missing = [player for player, place in zip(asked, places, strict=True) if place is None]
        total = found[0][0].total if found else await self._index.count(where.ranking, at)
        as_of = found[0][0].as_of if found else at or await self._index.checkpoint()
        where = where.holding(total)
        return FoundStandings(
            where.ranking,
            total,
            as_of,
            standings,
            missing,
            self._is_stale(as_of),
            where.state,
            where.opens_at,
            self.shown_at(where),
        )

    async def friends(
        self, board: str, player: str, *, window: str | None = None, segment: str | None = None
    ) -> FoundStandings:
        """Return a player and its friends, ranked among themselves."""
        known = self._state.profile(player).friends
        circle = [player, *(known if self.viewer is None else self.viewer.friends(player))]
        return await self.lookup(board, circle[:LOOKUP_PLAYERS_MAX], window=window, segment=segment)

    # -------------------------------------------------------------------------- what if

    @_settled
    async def rank_for(
        self, board: str, scores: Scores, *, window: str | None = None, segment: str | None = None
    ) -> Projected:
        """Return the rank that a newcomer with these scores would get now."""
        where = self._pinned(self.where(board, window, segment))
        order, ties = where.terms.order, where.terms.board.ties
        at = await self._moment(where)
        entry = order.entry(scores, self.shown_at(where) or 0)
        if ties is TieRule.DENSE:
            better = await self._index.scores_below(where.ranking, order.floor(entry), at)
        elif ties is TieRule.STANDARD:
            better = await self._index.count_below(where.ranking, order.floor(entry), at=at)
        else:
            better = await self._index.count_below(where.ranking, order.newcomer(entry), at=at)
        return await self._projected(where, Rank(better + 1), scores, at)

    @_settled
    async def scores_for(
        self,
        board: str,
        *,
        rank: Rank | None = None,
        percentile: float | None = None,
        window: str | None = None,
        segment: str | None = None,
    ) -> Projected:
        """Return the scores that hold a rank now, or the last rank of a percentile.

        Entries are counted one by one, as pages do; the rank that is told is the one that the
        board's ties give to the entry which is found there.
        """
        where = self.where(board, window, segment)
        at = await self._moment(where)
        if rank is None:
            assert percentile is not None, "a rank or a percentile is given"
            total = await self._index.count(where.ranking, at)
            rank = rank_at_percentile(percentile, total=total)
        elif rank < 1:
            raise InvalidPage([FieldError("rank", "must be 1 or more")])
        if rank is None:
            return await self._projected(where, None, None, at)
        entries = (await self._index.read(where.ranking, first=rank, limit=1, at=at)).entries
        if not entries:
            return await self._projected(where, rank, None, at)
        order_key = entries[0].order_key
        shown = await self._shown(where, rank, order_key, at)
        order, time = where.terms.order, self.shown_at(where)
        scores = order.scores(order_key)
        return await self._projected(where, shown, order.shown(scores, time or 0), at)

    @_settled
    async def distribution(
        self,
        board: str,
        *,
        buckets: int = BUCKETS_DEFAULT,
        window: str | None = None,
        segment: str | None = None,
    ) -> ScoreDistribution:
        """Return the distribution of the scores; the first column's where there are several."""
        check_buckets(buckets)
        where = self._pinned(self.where(board, window, segment))
        at, time = await self._moment(where), self.shown_at(where)
        total = await self._index.count(where.ranking, at)
        shown = ShownOrder(where.terms.order, time or 0)
        found = await histogram(
            self._index, where.ranking, shown, total=total, buckets=buckets, at=at
        )
        as_of = at or await self._index.checkpoint()
        where = where.holding(total)
        decimals, stale = where.terms.board.decimals, self._is_stale(as_of)
        return ScoreDistribution(
            where.ranking, total, as_of, found, decimals, stale, where.state, where.opens_at, time
        )

    async def _projected(
        self, where: RankingView, rank: Rank | None, scores: Scores | None, at: Position | None
    ) -> Projected:
        total = await self._index.count(where.ranking, at)
        as_of = at or await self._index.checkpoint()
        where = where.holding(total)
        decimals, stale = where.terms.board.decimals, self._is_stale(as_of)
        return Projected(
            where.ranking,
            total,
            as_of,
            rank,
            scores,
            decimals,
            stale,
            where.state,
            where.opens_at,
            self.shown_at(where),
        )


def at_once(asking: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never suspends."""
    try:
        asking.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    asking.close()
    raise AssertionError("an immediate index never suspends")


def _read_span(terms: Terms, low: object, high: object, at: Instant) -> tuple[bytes, bytes] | None:
    """Return the keys that bound a range of scores, None for no bounds. Raises InvalidPage."""
    if low is None and high is None:
        return None
    bounds: dict[str, int | None] = {}
    errors = []
    for name, given in (("score_min", low), ("score_max", high)):
        try:
            bounds[name] = None if given is None else terms.board.parse_score(given)
        except ValueError as exc:
            errors.append(FieldError(name, str(exc)))
    if errors:
        raise InvalidPage(errors)
    least, most = bounds.values()
    if least is not None and most is not None and least > most:
        raise InvalidPage([FieldError("score_min", "must not be greater than score_max")])
    return terms.order.span(least, most, at)


_EVERYBODY = 2**63
"""More than any ranking has: an index knows best where it ends."""


class _Stretch(NamedTuple):
    """Consecutive entries of a ranking."""

    before: int
    """How many entries are before the first."""
    last: int
    """The rank of the last; equal to ``before`` if there are none."""


_WHOLE = _Stretch(0, _EVERYBODY)


def check_players(players: Sequence[str]) -> None:
    """Refuse more players than are looked up at once, and ids that are none. Raises InvalidPage."""
    if len(players) > LOOKUP_PLAYERS_MAX:
        message = f"must be at most {LOOKUP_PLAYERS_MAX}"
        raise InvalidPage([FieldError("players", message)])
    together = "".join(players)
    if together.isascii() and together.isprintable() and players:
        sizes = [*map(len, players)]
        if min(sizes) > 0 and max(sizes) <= PLAYER_ID_BYTES_MAX:
            return
    errors = [
        FieldError(f"players[{place}]", "is not the id of a player")
        for place, player in enumerate(players)
        if not valid_player(player)
    ]
    if errors:
        raise InvalidPage(errors)


def _cursor_name(where: RankingView) -> str:
    order, decimals = where.terms.order, where.terms.board.decimals
    return f"{where.ranking.identity}/{order.identity}/{decimals}"


def _stamps(where: RankingView) -> tuple[Callable[[bytes, str], str], Callable[[bytes, str], str]]:
    """Return the encoders of a ranking's cursors: before an entry, and behind it."""
    return _stamps_of(where if where.decays_until is None else where._replace(decays_until=None))


@lru_cache(maxsize=1024)
def _stamps_of(
    where: RankingView,
) -> tuple[Callable[[bytes, str], str], Callable[[bytes, str], str]]:
    name, key_bytes = _cursor_name(where), where.terms.order.key_bytes
    return stamp(name, Way.PREVIOUS, key_bytes), stamp(name, Way.NEXT, key_bytes)


def _end_cursor(where: RankingView) -> str:
    """Return the cursor of the last page."""
    return _stamps(where)[0](b"\xff" * where.terms.order.key_bytes, _LAST)


_LAST = "\U0010ffff"
"""Sorts behind every player id: with the greatest order key, the end of any ranking. With a number
behind it, it stands for the id of a hidden player at this place."""

_FIRST = "\0"
"""Sorts before every player id."""

_PLACE_DIGITS_MAX = 18


def _read_place(text: str) -> Rank:
    """Return the place of a hidden player that a cursor names. Raises InvalidCursor."""
    if not (text.isascii() and text.isdigit() and len(text) <= _PLACE_DIGITS_MAX and int(text)):
        raise InvalidCursor("is damaged")
    return Rank(int(text))


assert LOOKUP_PLAYERS_MAX <= PAGE_LIMIT_MAX
