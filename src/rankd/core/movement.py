"""The movement of players since the start of the day: their ranks then, beside those of now.

A baseline is a ranking as it was before the day began, in the zone of its board: a past ranking
(``past``) that is made in the background, once a day, for each open ranking that is read. Readers
look players up in it. Nothing is done for a submission, and an index anywhere may be the present.

While a baseline is not ready, or is larger than memory is granted, there is no movement to tell.
Nor is there in a window that was opened since, where every player would be new.

A reader may name another baseline: a position, a duration or a window. It is made at once, within
the bounds of past standings, and found in their cache.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import NamedTuple, TypeVar

import msgspec

from rankd.core.board_state import BoardState, Terms, exact_id
from rankd.core.past import Moment, PastLimits, PastRankings, PastView
from rankd.core.past_replay import PastRanking
from rankd.core.reader import FoundStandings, Page, RankingView, Reader
from rankd.core.visibility import ANONYMOUS
from rankd.errors import (
    FieldError,
    InvalidPage,
    PastOutOfReach,
    RankdError,
    TooOld,
    UnknownWindow,
)
from rankd.model.facts import Position
from rankd.model.standing import Standing, TieRule
from rankd.model.window import Instant, Recurrence, Window, WindowState, parse_duration
from rankd.ports import ImmediateIndex, Places, Ranking

MOVEMENT_ENTRIES_MAX = 1_000_000
"""Entries of baselines in memory, at about a hundred bytes each."""

POSITION_DIGITS_MAX = 18

LOOK_SECONDS = 0.25
"""How often the day is looked at, and the rankings that were read."""

PAUSE_PER_WORK = 3.0
"""Seconds of pause for each second of work: a quarter of a core at most."""

Found = TypeVar("Found", Page, FoundStandings, Standing)

_log = logging.getLogger(__name__)


class Baseline:
    """The ranks that players held at a past moment."""

    def __init__(self, made: PastRanking, ranking: Ranking, terms: Terms) -> None:
        index: ImmediateIndex = made.projector.index  # type: ignore[assignment]
        ties = terms.board.ties
        self.made: PastRanking | None = made
        self._seek: Callable[[Sequence[str]], Places] | None = index.finder(ranking)
        self._rank: Callable[[bytes], Sequence[int]] | None = None
        if ties is not TieRule.ORDINAL and self._seek is not None:
            self._rank = index.ranker(ranking, ties)

    @classmethod
    def empty(cls) -> "Baseline":
        """Return one in which no player has a rank."""
        baseline = cls.__new__(cls)
        baseline.made = baseline._seek = baseline._rank = None
        return baseline

    def ranks(self, players: Sequence[str]) -> Sequence[int]:
        """Return the rank of each player as the board showed it; 0 for none."""
        if self._seek is None:
            return [0] * len(players)
        found = self._seek(players)
        if self._rank is None:
            return found.ranks
        shown = self._rank(found.order_keys)
        return [rank if place else 0 for rank, place in zip(shown, found.ranks, strict=True)]


class _Known(NamedTuple):
    """A baseline of a day, for the board that was first defined at a position."""

    day: Instant
    since: Position
    baseline: Baseline | None
    """None if the ranking is younger than the day, or too large."""


class Movement:
    """The baselines of an engine's rankings."""

    def __init__(self, view: PastView, past: PastRankings, requested: PastRankings) -> None:
        self.entries_max = MOVEMENT_ENTRIES_MAX
        self.revision = 0
        """Grows whenever a baseline is ready, or is one no more: cached pages go by it."""
        self._view = view
        self._past, self._requested = past, requested
        past.limits = PastLimits(None, MOVEMENT_ENTRIES_MAX)
        past.pause_per_work = PAUSE_PER_WORK
        self._known: dict[Ranking, _Known] = {}
        self._wanted: dict[Ranking, None] = {}
        self._days: dict[str, Window] = {}
        """By zone, the present day."""

    def grant(self, entries_max: int) -> None:
        """Bound the memory; 0 for no movement."""
        self.entries_max = entries_max
        self._past.limits = PastLimits(None, entries_max)

    def find(self, where: RankingView) -> Baseline | None:
        """Return the baseline of an open ranking if it is ready; else have it made."""
        if where.state is not WindowState.OPEN or not self.entries_max:
            return None
        known, page = self._known.get(where.ranking), self._page(where.ranking)
        if known is not None and page is not None and known.since == page.since:
            return known.baseline
        self._wanted[where.ranking] = None
        return None

    async def run(self) -> None:
        """Make the baselines that readers lack, until the engine stops."""
        try:
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                await self.catch_up()
        finally:
            await self._past.close()

    async def catch_up(self) -> None:
        """Forget the baselines of days that are over, and make those that readers lack."""
        self._turn_days()
        while self._wanted:
            ranking = next(iter(self._wanted))
            try:
                await self._add(ranking)
            except RankdError as exc:  # The next reader asks for it again.
                _log.debug("no baseline of %s now: %s", ranking, exc)
            finally:
                self._wanted.pop(ranking, None)

    def _turn_days(self) -> None:
        now = self._view.ledger_time
        over = [zone for zone, day in self._days.items() if not day.contains(now)]
        for zone in over:
            del self._days[zone]
        if over:
            boards = self._view.state.boards
            zones = {name: page.board.time_zone for name, page in boards.items()}
            for ranking in list(self._known):
                if zones.get(ranking.board) not in self._days:
                    del self._known[ranking]
            self._past.forget_all()
            self.revision += 1

    def day_of(self, page: BoardState) -> Instant:
        """Return the start of the present day in the zone of a board."""
        zone = page.board.time_zone
        day = self._days.get(zone)
        if day is None:
            day = Recurrence.parse("daily", time_zone=zone).window_at(self._view.ledger_time)
            assert day is not None, "there is a day at all times"
            self._days[zone] = day
        assert day.start is not None, "a day has a start"
        return day.start

    def _page(self, ranking: Ranking) -> BoardState | None:
        return self._view.state.boards.get(ranking.board)

    async def _add(self, ranking: Ranking) -> None:
        page = self._page(ranking)
        if page is None or ranking.window not in page.window_ids.values():
            return
        day, since = self.day_of(page), page.since
        try:
            baseline = await self._baseline(page, ranking, day)
        except PastOutOfReach as exc:
            _log.info("players' movement in %s is not told today: %s", ranking, exc)
            baseline = None
        if self._entries(baseline) > self.entries_max:
            baseline = None
        if self.day_of(page) == day:
            self._known[ranking] = _Known(day, since, baseline)
            self.revision += 1

    def _entries(self, coming: Baseline | None) -> int:
        """Return how many entries the baselines have together with another one."""
        baselines = [coming, *(known.baseline for known in self._known.values())]
        made = {id(one.made): one.made for one in baselines if one is not None and one.made}
        return sum(past.entries for past in made.values())

    async def _baseline(self, page: BoardState, ranking: Ranking, day: Instant) -> Baseline | None:
        """Return the baseline of a day; None for a ranking that is younger."""
        head, window = self._view.projector.checkpoint, page.recorded(ranking.window).window
        position = await self._past.position_at(day, head, before=True)
        reset = page.reset_before(window)
        began = reset.sealed if reset is not None else page.since
        if began > position or (window.start is not None and window.start >= day):
            return None
        baseline = await self.baseline_at(page, ranking, Moment(position, day - 1), self._past)
        return None if baseline.made is None else baseline

    async def baseline_at(
        self, page: BoardState, ranking: Ranking, moment: Moment, past: PastRankings
    ) -> Baseline:
        """Return the baseline of a ranking at a moment. Raises PastOutOfReach."""
        if moment.position < page.since:
            return Baseline.empty()
        window = exact_id(ranking.window)
        try:
            made = await past.ranking(ranking.board, moment, window=window, segment=ranking.segment)
        except (TooOld, UnknownWindow):
            return Baseline.empty()
        then = made.projector.state.boards.get(ranking.board)
        if then is None or not then.is_recorded(ranking.window):
            return Baseline.empty()
        return Baseline(made, ranking, then.recorded(ranking.window).terms)

    # ------------------------------------------------------------------- other baselines

    async def compared(
        self, reader: Reader, ranking: Ranking, found: Found, baseline: str
    ) -> Found:
        """Return standings with their ranks at a baseline that a reader named.

        Raises InvalidPage, PastOutOfReach and UnknownWindow.
        """
        if isinstance(found, Page):
            before = await self._ranks_at(baseline, reader, ranking, found.players)
            return msgspec.structs.replace(found, ranks_before=before)
        if isinstance(found, Standing):
            (rank,) = await self._ranks_at(baseline, reader, ranking, [found.player])
            return msgspec.structs.replace(found, previous_rank=rank)
        players = [standing.player for standing in found.standings]
        before = await self._ranks_at(baseline, reader, ranking, players)
        standings = [
            msgspec.structs.replace(standing, previous_rank=rank)
            for standing, rank in zip(found.standings, before, strict=True)
        ]
        return msgspec.structs.replace(found, standings=standings)

    async def _ranks_at(
        self, text: str, reader: Reader, ranking: Ranking, players: Sequence[str]
    ) -> Sequence[int]:
        """Return the ranks of players at a baseline, 0 for none; -1 for players without an id."""
        named = [player for player in players if player != ANONYMOUS]
        moment = await self._moment_of(text)
        if moment is None:
            board, segment = ranking.board, ranking.segment
            ranks = await reader.ranks(board, named, window=text, segment=segment)
            found = iter([rank or 0 for rank in ranks])
        else:
            page = reader.projector.state.page(ranking.board)
            made = await self.baseline_at(page, ranking, moment, self._requested)
            found = iter(made.ranks(named))
        return [-1 if player == ANONYMOUS else next(found) for player in players]

    async def _moment_of(self, text: str) -> Moment | None:
        """Return the moment of a position or a duration; None for the name of a window."""
        if text.isascii() and text.isdigit() and len(text) <= POSITION_DIGITS_MAX:
            try:
                return await self._requested.moment(int(text), None)
            except InvalidPage as exc:
                raise InvalidPage([FieldError("baseline", exc.errors[0].message)]) from None
        try:
            ago = parse_duration(text)
        except ValueError:
            return None
        now = self._view.ledger_time
        return await self._requested.moment(None, now - ago // timedelta(microseconds=1))
