"""Top lists: the first entries of rankings, copied to where they can be read without the index.

They are not read while the index answers. They cost some reads of the index and some writes beside
the ledger, every few seconds and only for boards that have changed; all of it is bounded here.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from rankd.core.cluster.shared_projector import SharedProjector
from rankd.errors import IndexForgot, IndexUnavailable, RankdError
from rankd.model.facts import Position
from rankd.model.standing import PAGE_LIMIT_MAX, Rank
from rankd.ports import Placed, Ranking, TopList, TopListAge, TopLists

LISTS_MAX = 1_000
"""The number of rankings with a stored top list: whole boards first, then segments, then closed
windows. With a thousand entries in each that is some 50 MB."""

LISTS_AT_A_TIME = 200
"""How many are taken before the next pause."""

LISTS_TOGETHER = 16
"""How many are written at once."""

SLACK = 0.9
"""The share of its time after which a list is old: one clock may run slower than another."""

LIST_BYTES_MAX = 512 * 1024
"""Of one list; where much is shown beside entries, it has fewer of them."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TopListSettings:
    """Where top lists are kept, how long they are and how old they may become."""

    lists: TopLists
    entries_max: int
    seconds: float


class TopListWriter:
    """Copies the first entries of rankings to where they can be read without the index.

    Several nodes may run it: the first one to find an old list of a changed board refreshes it, and
    the others skip it. Everything it does at a time is bounded; where there is more to do, the
    oldest lists come first.
    """

    def __init__(self, projector: SharedProjector, listing: TopListSettings) -> None:
        self._projector = projector
        self._lists, self._entries_max, self._seconds = (
            listing.lists,
            listing.entries_max,
            listing.seconds,
        )
        self._began = projector.checkpoint
        self._segments: dict[str, tuple[Position, list[Ranking]]] = {}
        """The rankings of segments that each board had, and up to where that is known."""

    async def run(self) -> None:
        """Look again and again until the engine stops."""
        while True:
            try:
                await self.copy()
            except RankdError as exc:
                _log.debug("top lists cannot be kept now: %s", exc)
            await asyncio.sleep(self._seconds)

    async def copy(self) -> None:
        """Take the lists that are due, as many as there is time for, and drop those of the past."""
        if self._projector.failure is not None:
            return
        kept = await self._lists.lists_kept()
        wanted = await self._wanted(kept)
        await self._lists.drop_lists(
            [
                ranking
                for ranking, known in kept.items()
                if ranking not in wanted and known.as_of <= self._projector.checkpoint
            ]
        )
        due = [ranking for ranking, since in wanted.items() if self._is_due(kept, ranking, since)]
        due.sort(key=lambda ranking: kept[ranking].as_of if ranking in kept else 0)
        loop = asyncio.get_running_loop()
        until = loop.time() + self._seconds / 2
        for start in range(0, min(len(due), LISTS_AT_A_TIME), LISTS_TOGETHER):
            some = due[start : min(start + LISTS_TOGETHER, LISTS_AT_A_TIME)]
            await self._lists.keep_lists([await self._taken(ranking) for ranking in some])
            if loop.time() >= until:
                break

    def _is_due(
        self, kept: Mapping[Ranking, TopListAge], ranking: Ranking, since: Position
    ) -> bool:
        known = kept.get(ranking)
        old = self._seconds * SLACK
        return known is None or (known.as_of < since and known.seconds >= old)

    # ...... which

    async def _wanted(self, kept: Mapping[Ranking, TopListAge]) -> dict[Ranking, Position]:
        """Return of which rankings there should be lists, and as of which position at least."""
        boards, touched = self._projector.state.boards, self._projector.touched
        for name in [name for name in touched if name is not None and name not in boards]:
            del touched[name]
        self._segments = {name: some for name, some in self._segments.items() if name in boards}
        wanted: dict[Ranking, Position] = {}
        for name, page in list(boards.items()):
            for opened in page.windows.values():
                wanted[opened.ranking] = self._touched(name)
        for name, page in list(boards.items()):
            if page.board.segments and len(wanted) < LISTS_MAX:
                there = {opened.ranking.window for opened in page.windows.values()}
                for ranking in await self._in_segments(name):
                    if ranking.window in there:
                        wanted[ranking] = self._touched(name, None)
        wanted.update(self._closed(kept))
        return dict(list(wanted.items())[:LISTS_MAX])

    def _touched(self, *names: str | None) -> Position:
        touched = self._projector.touched
        return max(touched.get(name, self._began) for name in names)

    async def _in_segments(self, board: str) -> list[Ranking]:
        since = self._touched(board, None)
        known = self._segments.get(board)
        if known is not None and known[0] >= since:
            return known[1]
        projector, floor = self._projector, self._projector.floor
        as_of = await projector.shared.checkpoint()
        there = await projector.shared.rankings(board)
        await projector.check_fresh(None, floor)  # One that was emptied has none.
        found = sorted((one for one in there if one.segment and one.readable), key=str)
        self._segments[board] = (as_of, found)
        return found

    def _closed(self, kept: Mapping[Ranking, TopListAge]) -> Iterator[tuple[Ranking, Position]]:
        """Yield the rankings of closed windows that a list is kept of, the newest first."""
        state = self._projector.state
        boards, corrected = state.boards, state.last_correction
        for ranking in sorted(kept, key=lambda one: kept[one].as_of, reverse=True):
            page = boards.get(ranking.board)
            sealed = None if page is None else page.sealed.get(ranking.window)
            if sealed is not None:
                yield ranking, max(sealed.through, corrected)

    # ...... what

    async def _taken(self, ranking: Ranking) -> TopList:
        """Read the first entries of a ranking, all as of one position."""
        index, floor, most = self._projector.shared, self._projector.floor, self._entries_max
        begun = await index.read(ranking, first=Rank(1), limit=min(most, PAGE_LIMIT_MAX))
        if begun.as_of < floor:
            raise IndexUnavailable(f"the index fell back from {floor} to {begun.as_of}")
        entries, total, as_of = list(begun.entries), begun.total, begun.as_of
        with suppress(IndexForgot):  # Then it is shorter than it might be.
            while len(entries) < min(most, total):
                limit = min(most - len(entries), PAGE_LIMIT_MAX)
                first = Rank(len(entries) + 1)
                more = await index.read(ranking, first=first, limit=limit, at=as_of)
                if not more.entries:
                    break
                entries += more.entries
        return TopList(ranking, _within_bytes(entries), total, as_of)


def _within_bytes(entries: Sequence[Placed]) -> Sequence[Placed]:
    """Return as many of the first entries as a list may have bytes."""
    size = 0
    for place, (player, order_key, metadata) in enumerate(entries):
        size += len(player.encode()) + len(order_key) + len(metadata or b"")
        if size > LIST_BYTES_MAX:
            return entries[:place]
    return entries
