"""Standings: who is where, in which window and segment, as of which position.

Everything here is a question to the index and arithmetic from the model. A ranking that does not
exist yet has no entries; a window that never was is an error, because asking for it is a mistake.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from rankd.core.book import BoardPage, Book
from rankd.errors import FieldError, InvalidPage, NotRanked
from rankd.model.board import Scores
from rankd.model.facts import Position
from rankd.model.order import score_part
from rankd.model.standing import (
    NEIGHBOURS_DEFAULT,
    PAGE_LIMIT_DEFAULT,
    PAGE_LIMIT_MAX,
    Cursor,
    Offset,
    Rank,
    Standing,
    TieRule,
    Way,
    neighbourhood,
    page_bounds,
    ranks_of_page,
)
from rankd.ports import Clock, Placed, RankIndex, Ranking

LOOKUP_PLAYERS_MAX = 1000
"""As many as a page holds."""


class Page(msgspec.Struct, frozen=True):
    """A run of consecutive standings, and how to go on from it."""

    ranking: Ranking
    total: int
    as_of: Position
    standings: Sequence[Standing]
    next_cursor: str | None = None
    prev_cursor: str | None = None


class Found(NamedTuple):
    """Some players' standings, best first, with their places among themselves."""

    ranking: Ranking
    as_of: Position
    standings: Sequence[Standing]
    not_found: Sequence[str]


class _Where(NamedTuple):
    """A ranking, and the page of the book that explains its keys."""

    page: BoardPage
    ranking: Ranking


class Reader:
    """Answers questions about standings."""

    def __init__(self, *, index: RankIndex, book: Book, clock: Clock) -> None:
        self._index = index
        self._book = book
        self._clock = clock

    def _where(self, board: str, window: str | None, segment: str | None) -> _Where:
        page = self._book.page(board)
        if segment is not None and segment.partition(":")[0] not in page.board.segments:
            message = "must be one of the board's segments and a value, such as region:eu"
            raise InvalidPage([FieldError("segment", message)])
        found = page.find_window(window, self._clock.now())
        return _Where(page, page.ranking(found, segment))

    # ---------------------------------------------------------------------- one player

    async def standing(
        self, board: str, player: str, *, window: str | None = None, segment: str | None = None
    ) -> Standing | None:
        """Return where a player stands, None where it does not."""
        where = self._where(board, window, segment)
        found = await self._index.rank(where.ranking, player)
        if found is None:
            return None
        ordinal, order_key, total = found
        rank = await self._shown(where, ordinal, order_key)
        as_of = await self._index.checkpoint()
        return Standing(
            rank,
            player,
            where.page.order.scores(order_key),
            total,
            as_of,
            where.page.board.decimals,
        )

    async def _shown(self, where: _Where, ordinal: Rank, order_key: bytes) -> Rank:
        """Return the rank that the board's ties give an entry."""
        ties = where.page.board.ties
        if ties is TieRule.ORDINAL:
            return ordinal
        if ties is TieRule.DENSE:
            return Rank(await self._index.scores_below(where.ranking, order_key) + 1)
        floor = where.page.order.floor(where.page.order.scores(order_key))
        return Rank(await self._index.count_below(where.ranking, floor) + 1)

    # --------------------------------------------------------------------------- pages

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
    ) -> Page:
        """Return a page, begun at a rank, an offset or where a cursor points."""
        where = self._where(board, window, segment)
        total = await self._index.count(where.ranking)
        if cursor is not None:
            if offset is not None or from_rank is not None:
                raise InvalidPage([FieldError("cursor", "cannot be combined with another start")])
            first, count = await self._after_cursor(where, cursor, total=total, limit=limit)
        else:
            first, count = page_bounds(total=total, limit=limit, offset=offset, from_rank=from_rank)
        return await self._read(where, first, count, total)

    async def _after_cursor(
        self, where: _Where, token: str, *, total: int, limit: int
    ) -> tuple[Rank, int]:
        page_bounds(total=total, limit=limit)  # For its opinion of the limit.
        ranking = _cursor_name(where)
        cursor = Cursor.decode(token, ranking, key_bytes=where.page.order.key_bytes)
        before = await self._index.count_below(where.ranking, cursor.order_key, cursor.player)
        if cursor.way is Way.PREVIOUS:
            first = max(1, before - limit + 1)
            return Rank(first), before - first + 1
        there = await self._index.rank(where.ranking, cursor.player)
        passed = there is not None and there[1] == cursor.order_key
        first = before + 1 + passed
        return Rank(first), max(0, min(limit, total - first + 1))

    async def _read(self, where: _Where, first: Rank, count: int, total: int) -> Page:
        placed = await self._index.read(where.ranking, first=first, limit=count) if count else []
        standings = await self._standings(where, placed, first=first, total=total)
        as_of = await self._index.checkpoint()
        last = first + len(placed) - 1
        return Page(
            where.ranking,
            total,
            as_of,
            standings,
            _token(where, placed[-1], Way.NEXT) if placed and last < total else None,
            _token(where, placed[0], Way.PREVIOUS) if placed and first > 1 else None,
        )

    async def _standings(
        self, where: _Where, placed: Sequence[Placed], *, first: Rank, total: int
    ) -> list[Standing]:
        if not placed:
            return []
        order = where.page.order
        shown = await self._shown(where, first, placed[0].order_key)
        ranks = ranks_of_page(
            where.page.board.ties,
            [score_part(entry.order_key) for entry in placed],
            ordinal=first,
            shown=shown,
        )
        as_of = await self._index.checkpoint()
        decimals = where.page.board.decimals
        return [
            Standing(rank, entry.player, order.scores(entry.order_key), total, as_of, decimals)
            for rank, entry in zip(ranks, placed, strict=True)
        ]

    # ------------------------------------------------------------------- neighbourhoods

    async def around(
        self,
        board: str,
        player: str,
        *,
        above: int = NEIGHBOURS_DEFAULT,
        below: int = NEIGHBOURS_DEFAULT,
        window: str | None = None,
        segment: str | None = None,
    ) -> Page:
        """Return a player's neighbourhood. Raises NotRanked."""
        where = self._where(board, window, segment)
        found = await self._index.rank(where.ranking, player)
        if found is None:
            raise NotRanked(board=board, window=where.ranking.window, player=player)
        rank, _, total = found
        first, count = neighbourhood(rank, total=total, above=above, below=below)
        return await self._read(where, first, count, total)

    async def lookup(
        self,
        board: str,
        players: Sequence[str],
        *,
        window: str | None = None,
        segment: str | None = None,
    ) -> Found:
        """Return the standings of some players, best first, and who has none."""
        if len(players) > LOOKUP_PLAYERS_MAX:
            message = f"must be at most {LOOKUP_PLAYERS_MAX}"
            raise InvalidPage([FieldError("players", message)])
        where = self._where(board, window, segment)
        found: list[tuple[Rank, Standing]] = []
        missing: list[str] = []
        for player in dict.fromkeys(players):
            entry = await self._index.rank(where.ranking, player)
            if entry is None:
                missing.append(player)
                continue
            ordinal, order_key, total = entry
            rank = await self._shown(where, ordinal, order_key)
            as_of = await self._index.checkpoint()
            scores = where.page.order.scores(order_key)
            decimals = where.page.board.decimals
            found.append((ordinal, Standing(rank, player, scores, total, as_of, decimals)))
        found.sort(key=lambda pair: pair[0])
        as_of = await self._index.checkpoint()
        standings = [
            msgspec.structs.replace(standing, place=Rank(place))
            for place, (_, standing) in enumerate(found, start=1)
        ]
        return Found(where.ranking, as_of, standings, missing)

    async def friends(
        self, board: str, player: str, *, window: str | None = None, segment: str | None = None
    ) -> Found:
        """Return a player and its friends, ranked among themselves."""
        circle = [player, *self._book.friends.get(player, ())][:LOOKUP_PLAYERS_MAX]
        return await self.lookup(board, circle, window=window, segment=segment)

    # -------------------------------------------------------------------------- what if

    async def rank_for(
        self, board: str, scores: Scores, *, window: str | None = None, segment: str | None = None
    ) -> Rank:
        """Return the rank that a newcomer with these scores would get now."""
        where = self._where(board, window, segment)
        order, ties = where.page.order, where.page.board.ties
        if ties is TieRule.DENSE:
            return Rank(await self._index.scores_below(where.ranking, order.floor(scores)) + 1)
        edge = order.ceiling(scores) if ties is TieRule.ORDINAL else order.floor(scores)
        return Rank(await self._index.count_below(where.ranking, edge) + 1)

    async def scores_at(
        self, board: str, rank: Rank, *, window: str | None = None, segment: str | None = None
    ) -> Scores | None:
        """Return the scores that hold a rank now, None where nobody does."""
        where = self._where(board, window, segment)
        placed = await self._index.read(where.ranking, first=rank, limit=1)
        return where.page.order.scores(placed[0].order_key) if placed else None


def _cursor_name(where: _Where) -> str:
    order = where.page.order
    return f"{where.ranking}/{','.join(order.directions)}/{order.tie_break}"


def _token(where: _Where, entry: Placed, way: Way) -> str:
    return Cursor(entry.order_key, entry.player, way).encode(_cursor_name(where))


assert LOOKUP_PLAYERS_MAX <= PAGE_LIMIT_MAX
