"""Players found by the beginning of a name or an id.

Every player is looked at for each page: no index of names is kept, which each new player would have
to pay for. A slice of them is looked at between two chances for others, and one search at a time.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import NamedTuple

from rankd.core.read_engine import ReadEngine
from rankd.errors import FieldError, InvalidPage, Overloaded
from rankd.model.standing import PAGE_LIMIT_MAX

SLICE_PLAYERS = 2_048
"""Looked at in one go: one to two milliseconds."""

SEARCHES_MAX = 16
"""Under way, one at a time; one more is refused at once."""


class FoundPlayer(NamedTuple):
    """A player with its profile."""

    player: str
    name: str | None
    attributes: Mapping[str, str | int | bool]


class FoundPlayers(NamedTuple):
    """A page of players, in the order of their ids."""

    players: list[FoundPlayer]
    next_after: str | None
    """The last id of the page; None at the end."""


class PlayerSearch:
    """Finds players in the order of their ids, which is the same in every process."""

    def __init__(self, view: ReadEngine) -> None:
        self._view = view
        self._turn = asyncio.Lock()
        self._underway = 0

    async def find(self, beginning: str, *, after: str | None, limit: int) -> FoundPlayers:
        """Return up to ``limit`` players behind ``after``. Raises InvalidPage and Overloaded."""
        _check(beginning, limit)
        found = await self._find_alone(beginning, after or "", limit + 1)
        page = [FoundPlayer(player, *self._view.state.profile(player)) for player in found[:limit]]
        return FoundPlayers(page, page[-1].player if len(found) > limit else None)

    async def _find_alone(self, beginning: str, after: str, limit: int) -> list[str]:
        if self._underway >= SEARCHES_MAX:
            raise Overloaded(waiting_max=SEARCHES_MAX)
        self._underway += 1
        try:
            async with self._turn:
                return await self._find(beginning, after, limit)
        finally:
            self._underway -= 1

    async def _find(self, beginning: str, after: str, limit: int) -> list[str]:
        found: set[str] = set()
        for matches in self._matches(beginning):
            found.update(player for player in matches if player > after)
            if len(found) > limit + SLICE_PLAYERS:
                found = set(sorted(found)[:limit])
            await asyncio.sleep(0)
        return sorted(found)[:limit]

    def _matches(self, beginning: str) -> Iterator[Sequence[str]]:
        """Yield whose id or name begins so, of one slice of players after another."""
        state, folded = self._view.state, beginning.casefold()
        for players in _sliced(state.profiles):
            names = [known and known.name for known in map(state.profiles.get, players)]
            yield [
                player
                for player, name in zip(players, names, strict=True)
                if player.startswith(beginning)
                or (name is not None and name.casefold().startswith(folded))
            ]
        ranked = self._view.projector.index.player_ids(SLICE_PLAYERS)
        for ids in chain(_sliced(state.friends), ranked):
            yield [player for player in ids if player.startswith(beginning)]


def _check(beginning: str, limit: int) -> None:
    if not beginning:
        raise InvalidPage([FieldError("query", "must be at least one character")])
    if not 1 <= limit <= PAGE_LIMIT_MAX:
        raise InvalidPage([FieldError("limit", f"must be from 1 to {PAGE_LIMIT_MAX}")])


def _sliced(players: Iterable[str]) -> Iterator[list[str]]:
    left = iter(list(players))  # A copy: others change it between two slices.
    while some := list(islice(left, SLICE_PLAYERS)):
        yield some
