"""The players that overtook others, found from the moves between two looks at a ranking.

A move has the ranks of a player before a submission and after it. Going back from the present rank
of a followed player, move by move, its rank at each of them is known, and so the last one that
passed it.
"""

from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple, Protocol

from rankd.core.board_state import BoardState
from rankd.core.changes import JudgedMove, RankingChanges
from rankd.core.reader import RankingView, Reader
from rankd.core.stream_samples import ranks_now
from rankd.model.facts import Position
from rankd.model.standing import Rank, TieRule
from rankd.ports import Ranking


class FollowedPlace(NamedTuple):
    """The place of a followed player."""

    rank: int
    ordinal: int
    order_key: bytes


class FollowedPlayer(Protocol):
    """A followed player whose rank got worse, though its score did not change."""

    @property
    def player(self) -> str: ...
    @property
    def place(self) -> FollowedPlace: ...
    @property
    def since(self) -> Position: ...


async def overtakers(
    reader: Reader,
    where: RankingView,
    overtaken: Sequence[FollowedPlayer],
    log: RankingChanges,
    page: BoardState | None,
) -> list[str | None]:
    """Return the player that passed each of some players last; None where that is not known.

    Players that are not ranked, and those of another segment, do not count.
    """
    moves = _moves(where, log, page, min(one.since for one in overtaken))
    if not moves:
        return [None] * len(overtaken)
    everybody = where._replace(ranking=Ranking(where.ranking.board, where.ranking.window))
    named = list(dict.fromkeys([move.player for move in moves]))
    followed = [one.player for one in overtaken]
    ranks = await ranks_now(reader, everybody, [*named, *followed])
    members: Mapping[str, Rank] = ranks
    if where.ranking.segment is not None:
        members = await ranks_now(reader, where, named)
    ties = where.terms.board.ties
    last_ranks = {move.player: move.rank for move in reversed(moves)}
    found, shared = [], ties is not TieRule.ORDINAL
    for one in overtaken:
        plain = where.ranking.segment is None
        rank = one.place.rank if plain else ranks.get(one.player, Rank(one.place.rank))
        known = [move for move in moves if move.player in ranks and move.player != one.player]
        # The entries that are strictly better: an equal one has not passed.
        end = one.place.rank if ties is TieRule.STANDARD else one.place.ordinal
        ahead = {player for player, at in members.items() if at < end}
        if ties is TieRule.DENSE:
            ahead = {player for player in ahead if last_ranks.get(player, rank) < rank}
        found.append(_last_passer(known, rank, one.since, ahead, shared=shared))
    return found


def _moves(
    where: RankingView, log: RankingChanges, page: BoardState | None, since: Position
) -> list[JudgedMove]:
    """Return the moves in the window of a ranking after a position, newest first."""
    for name, opened in {} if page is None else page.windows.items():
        if opened.ranking.window == where.ranking.window:
            return list(log.moves(where.ranking.board, name, since))
    return []


def _last_passer(
    moves: Sequence[JudgedMove],
    rank: int,
    since: Position,
    ahead: Set[str],
    *,
    shared: bool,
) -> str | None:
    """Return the player of the newest move that passed a rank and is ``ahead`` now.

    ``rank`` is the one after all of the moves. With shared ranks the two may have been equal.
    """
    for position, player, after, before in moves:
        if position <= since:
            break
        if after < rank and (before is None or before >= rank - shared):
            if player in ahead:
                return player
            rank -= 1
        elif before is not None and before <= rank < after:
            rank += 1
    return None
