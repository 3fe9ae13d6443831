"""The bound on the values of a segment.

A segment has a ranking for each value of its attribute in each open window, so values that never
end, an id or a time in place of a region, would take memory without end. Before facts are recorded
the values they bring are counted, by board and segment, and those beyond the bound are refused.

Values are counted as they are brought, which never counts too few. At the bound, and when as many
were brought as there are, they are counted again in the index, which drops the segments that are
empty: so values that come and go take no memory either.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

from rankd.core.board_state import BoardState
from rankd.core.state import State, differing, value_text
from rankd.errors import IndexUnavailable, TooManySegmentValues
from rankd.model.facts import (
    Attributes,
    Fact,
    Position,
    ScoreSubmitted,
    is_submission,
)
from rankd.ports import RankIndex, Ranking

SEGMENT_VALUES_MAX = 10_000
"""Of one segment of one board; some 2 KB of memory each, in every open window."""

RECOUNT_SECONDS = 1.0
"""How often at most the values of a board at the bound are counted again."""

BROUGHT_VALUES_MIN = 4_096
"""So many values are brought, on all boards, before all are counted again; some 400 KB."""

CHECKED_TOGETHER_MAX = 4_096
"""How many facts and values are checked before others have their turn: some ten milliseconds."""

Values = dict[str, set[str]]
"""By segment, the values that it has."""


class SegmentValues:
    """Counts the values of segments."""

    def __init__(
        self,
        values_max: int = SEGMENT_VALUES_MAX,
        elapsed: Callable[[], float] = lambda: asyncio.get_running_loop().time(),
    ) -> None:
        self._values_max = values_max
        self._elapsed = elapsed
        self._values: dict[Position, Values] = {}
        """By the position of a board's first definition."""
        self._counted: dict[Position, float] = {}
        """When a board at the bound was counted again."""
        self._pending: dict[Position, Values] = {}
        """Values of the facts being checked: the index does not have them yet."""
        self._brought = 0
        """How many values were brought since all were counted in the index."""
        self._brought_max = 0
        """With how many they are counted again."""

    async def begin(self, state: State, index: RankIndex) -> "PendingValues":
        """Return a check of facts that are about to be recorded together."""
        self._pending = {}
        if self._brought >= self._brought_max:
            with suppress(IndexUnavailable):  # It is counted another time.
                self._values = _values_of(state, await index.shapes())
                here = sum(
                    len(values) for board in self._values.values() for values in board.values()
                )
                self._brought, self._brought_max = 0, max(here, BROUGHT_VALUES_MIN)
        return PendingValues(self, state, index)

    async def take(self, page: BoardState, segment: str, value: str, index: RankIndex) -> None:
        """Count a value. Raises TooManySegmentValues."""
        values = self._values.setdefault(page.since, {}).setdefault(segment, set())
        pending = self._pending.setdefault(page.since, {}).setdefault(segment, set())
        if value in values:
            pending.add(value)
            return
        if len(values) >= self._values_max and self._may_recount(page.since):
            values = await self._recount(page, segment, index)
        if value not in values and len(values) >= self._values_max:
            raise TooManySegmentValues(
                board=page.board.name, segment=segment, values_max=self._values_max
            )
        values.add(value)
        pending.add(value)
        self._brought += 1

    def has(self, page: BoardState, segment: str, value: str) -> bool:
        """Count a value that is there already; return False if it is not."""
        values = self._values.get(page.since, {}).get(segment, ())
        if value in values:
            self._pending.setdefault(page.since, {}).setdefault(segment, set()).add(value)
        return value in values

    def _may_recount(self, since: Position) -> bool:
        now = self._elapsed()
        if now - self._counted.get(since, -RECOUNT_SECONDS) < RECOUNT_SECONDS:
            return False
        self._counted[since] = now
        return True

    async def _recount(self, page: BoardState, segment: str, index: RankIndex) -> set[str]:
        with suppress(IndexUnavailable):  # Then those counted before stand.
            counted = _values_on(page, await index.rankings(page.board.name))
            for name, values in self._pending[page.since].items():
                counted.setdefault(name, set()).update(values)
            self._values[page.since] = counted
        return self._values[page.since].setdefault(segment, set())

    def forget_retired(self, state: State) -> None:
        """Forget boards that are retired, once they are more than the living."""
        if len(self._values) > 2 * len(state.boards) + 1:
            living = {page.since for page in state.boards.values()}
            self._values = {at: one for at, one in self._values.items() if at in living}
            self._counted = {at: one for at, one in self._counted.items() if at in living}


class PendingValues:
    """The values that facts bring which are recorded together and are not in the state yet."""

    def __init__(self, values: SegmentValues, state: State, index: RankIndex) -> None:
        self._values, self._state, self._index = values, state, index
        self._attributes: dict[str, Attributes] = {}
        self._entered: dict[str, dict[Position, BoardState]] = {}
        self._counted: dict[Position, dict[int, Attributes]] = {}
        """By board, attributes whose values are counted already, by their identity."""
        self._checked = 0
        """How many facts and values, since others had their turn."""
        values.forget_retired(state)

    def brings_nothing(self, facts: Iterable[Fact]) -> bool:
        """Whether no fact needs a ``check``, as most do not."""
        return all(map(self._brings_nothing, facts))

    async def check(self, facts: Sequence[Fact]) -> None:
        """Count the values that facts bring. Raises TooManySegmentValues with their places."""
        places: list[int] = []
        refused: TooManySegmentValues | None = None
        for place, fact in enumerate(facts):
            if self._brings_nothing(fact):
                continue
            try:
                await self._check_one(fact)
            except TooManySegmentValues as exc:
                refused = refused or exc
                places.append(place)
        if refused is not None:
            refused.places = tuple(places)
            raise refused

    def _brings_nothing(self, fact: Fact) -> bool:
        """Whether a submission tells known attributes of a player that is on the board, as most do.

        Its values are counted then.
        """
        if type(fact) is not ScoreSubmitted or fact.player in self._attributes:
            return False
        told, known = fact.attributes, self._state.profile(fact.player).attributes
        if told and told is not known and not self._state.knows(fact.player, told):
            return False
        page = self._state.boards.get(fact.board)
        if page is None or not page.board.segments:
            return True
        if page.since not in self._state.player_boards.boards_of(fact.player):
            return False
        return self._are_counted(page, known)

    def _are_counted(self, page: BoardState, known: Attributes) -> bool:
        """Whether the values of attributes that a profile has are counted on a board.

        Many profiles share one object. Counted values stay counted while facts are checked.
        """
        counted = self._counted.setdefault(page.since, {})
        if id(known) in counted:
            return True
        brought = _in_segments(page, page.board.segments, known)
        if not all(self._values.has(*value) for value in brought):
            return False
        counted[id(known)] = known
        return True

    async def _check_one(self, fact: Fact) -> None:
        self._checked += 1
        for page, segment, value in self._brought(fact):
            await self._values.take(page, segment, value, self._index)
            self._checked += 1
        if self._checked >= CHECKED_TOGETHER_MAX:
            self._checked = 0
            await asyncio.sleep(0)

    def _brought(self, fact: Fact) -> Iterator[tuple[BoardState, str, str]]:
        """Yield the boards, segments and values that a fact may place a player in."""
        change = fact.profile_change()
        if is_submission(fact):
            yield from self._entered_by(fact)
        if change is not None and change.attributes is not None:
            known = self._known(change.player)
            yield from self._changed(change.player, change.attributes_after(known))

    def _entered_by(self, fact: ScoreSubmitted) -> Iterator[tuple[BoardState, str, str]]:
        known = self._known(fact.player)
        page = self._state.boards.get(fact.board)
        if page is not None and page.board.segments:
            self._entered.setdefault(fact.player, {})[page.since] = page
            yield from _in_segments(page, page.board.segments, {**known, **(fact.attributes or {})})

    def _changed(
        self, player: str, attributes: Attributes
    ) -> Iterator[tuple[BoardState, str, str]]:
        changed = differing(self._known(player), attributes)
        self._attributes[player] = attributes
        if not changed:
            return
        entered = self._entered.get(player, {}).values()
        for page in (*self._state.concerned(player, changed), *entered):
            yield from _in_segments(page, changed.intersection(page.board.segments), attributes)

    def _known(self, player: str) -> Attributes:
        known = self._attributes.get(player)
        return self._state.profile(player).attributes if known is None else known


def _in_segments(
    page: BoardState, names: Iterable[str], attributes: Attributes
) -> Iterator[tuple[BoardState, str, str]]:
    return ((page, name, value_text(attributes[name])) for name in names if name in attributes)


def _values_of(state: State, rankings: Iterable[Ranking]) -> dict[Position, Values]:
    boards: dict[str, list[Ranking]] = {}
    for ranking in rankings:
        if ranking.segment is not None:
            boards.setdefault(ranking.board, []).append(ranking)
    return {
        state.boards[name].since: _values_on(state.boards[name], some)
        for name, some in boards.items()
        if name in state.boards
    }


def _values_on(page: BoardState, rankings: Iterable[Ranking]) -> Values:
    """Return the values that the segments of a board have in its open windows."""
    going_on = {opened.window.id for opened in page.windows.values()}
    values: Values = {}
    for ranking in rankings:
        seen = ranking if ranking.readable else ranking.seen
        if seen is not None and seen.segment is not None and ranking.window in going_on:
            name, _, value = seen.segment.partition(":")
            values.setdefault(name, set()).add(value)
    return values
