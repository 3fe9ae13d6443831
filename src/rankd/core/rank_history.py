"""A player's rank over time: its standings at the ends of hours, days or weeks, and now.

The board is folded once up to the last of these moments, and looked at on the way. Each point tells
the knowledge of its moment, as past standings do, so it never changes: points are cached, and a
history that is read again costs a read of the present.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rankd.core.own_view import read_as_ranked
from rankd.core.past import Moment, PastRankings, PastView
from rankd.core.past_replay import Stops
from rankd.core.projector import Projector
from rankd.core.reader import RankingView, Reader
from rankd.errors import FieldError, InvalidPage
from rankd.model.board import Scores
from rankd.model.facts import Position
from rankd.model.standing import Rank, Standing
from rankd.model.window import Instant, Recurrence
from rankd.ports import Ranking

GRAINS: Mapping[str, str | Mapping[str, object]] = {
    "hour": {"name": "hour", "cron": "0 * * * *"},
    "day": "daily",
    "week": "weekly",
}
"""The grains of a history, and the recurrences whose windows they are."""

GRAIN_DEFAULT = "day"

POINTS_MAX = 400
"""The latest points of a history: more than a year of days."""

POINTS_CACHED_MAX = 100_000
"""Some hundred bytes each."""


class RankPoint(NamedTuple):
    """A player's standing at a moment; without rank and scores if it had none."""

    at: Instant
    as_of: Position
    rank: Rank | None
    scores: Scores | None
    total: int
    decimals: int

    @classmethod
    def of(
        cls, standing: Standing | None, at: Instant, as_of: Position, total: int, decimals: int
    ) -> "RankPoint":
        """Return the point of a standing; None for a player without one."""
        if standing is None:
            return cls(at, as_of, None, None, total, decimals)
        return cls(at, as_of, standing.rank, standing.scores, standing.total, standing.decimals)


class RankHistory(NamedTuple):
    """A player's points in one ranking, the oldest first; the last is of now, or of its end."""

    ranking: Ranking
    player: str
    grain: str
    as_of: Position
    points: Sequence[RankPoint]


PointKey = tuple[Ranking, Position, str, Instant, str | None]
"""A ranking, the first definition of its board, a player, a time, and a reader that is a player."""


class RankHistories:
    """The histories of an engine's players."""

    def __init__(self, view: PastView, past: PastRankings) -> None:
        self._view = view
        self._past = past
        self._known: OrderedDict[PointKey, RankPoint] = OrderedDict()

    async def history(
        self,
        reader: Reader,
        board: str,
        player: str,
        *,
        window: str | None = None,
        grain: str = GRAIN_DEFAULT,
        itself: str | None = None,
    ) -> RankHistory:
        """Return a player's rank over time, with a last point by a reader of the present.

        ``itself`` is the player that reads, if it is one: it is shown no time of being shadowed.

        Raises PastOutOfReach, Overloaded, InvalidPage and the errors of ``Reader.where``.
        """
        if grain not in GRAINS:
            raise InvalidPage([FieldError("grain", f"must be one of {', '.join(GRAINS)}")])
        where, now = reader.where(board, window), self._view.ledger_time
        page = self._view.state.page(board)
        found = page.find_window(window, now)
        begun = await self._past.time_of(page.since)
        start = max(begun, found.window.start or begun)
        end = min(now, found.window.end or now)
        standing = await reader.standing_in(where, player)
        total = await reader.index.count(where.ranking)
        as_of = self._view.projector.checkpoint if standing is None else standing.as_of
        decimals = where.terms.board.decimals
        last = RankPoint.of(standing, end, as_of, total, decimals)
        times = _ends(Recurrence.parse(GRAINS[grain], time_zone=page.board.time_zone), start, end)
        keys = [(where.ranking, page.since, player, at, itself) for at in times]
        if not all(key in self._known for key in keys):
            await self._look(keys)
        points = [self._known[key] for key in keys]
        return RankHistory(where.ranking, player, grain, as_of, [*points, last])

    async def _look(self, keys: Sequence[PointKey]) -> None:
        """Note the points of a player at some times, with one replay."""
        ranking, since, player, _, itself = keys[0]

        async def look(projector: Projector, at: Instant, position: Position) -> None:
            moment = Moment(position, at)
            point = await _point(projector, ranking, player, moment, itself)
            self._known[ranking, since, player, at, itself] = point

        times = [key[3] for key in keys]
        stops = Stops(times, look, self._view.state.wrong_times)
        head = self._view.projector.checkpoint
        through = await self._past.position_at(times[-1], head, before=True)
        while len(self._known) > POINTS_CACHED_MAX - len(times):
            self._known.popitem(last=False)
        await self._past.replay_through(ranking.board, through, stops)


async def _point(
    projector: Projector, ranking: Ranking, player: str, moment: Moment, itself: str | None
) -> RankPoint:
    """Return the point of a replay that has come to a time."""
    at, position, state = moment.at, moment.position, projector.state
    page = state.boards.get(ranking.board)
    if page is None or not page.is_recorded(ranking.window):
        return RankPoint(at, position, None, None, 0, 0)
    terms = page.recorded(ranking.window).terms
    where = RankingView(terms, ranking)

    async def read(reader: Reader) -> RankPoint:
        standing = await reader.standing_in(where, player)
        total = await reader.index.count(ranking)
        return RankPoint.of(standing, at, position, total, terms.board.decimals)

    reader = Reader(projector=projector, clock=moment)
    if itself is not None and state.is_shadowed(itself, ranking.board):
        return await read_as_ranked(reader, where, itself, read)
    return await read(reader)


def _ends(units: Recurrence, start: Instant, end: Instant) -> list[Instant]:
    """Return the last moments between two units of time, within a stretch, in order."""
    found: list[Instant] = []
    unit = units.window_at(end - 1) if end > start else None
    while unit is not None and unit.start is not None and unit.start > start:
        found.append(unit.start)
        if len(found) == POINTS_MAX - 1:
            break
        unit = units.previous(unit)
    return found[::-1]
