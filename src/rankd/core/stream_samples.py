"""Samples of one ranking for streams: the top and some players' neighbourhoods, at one position."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rankd.core.reader import Page, RankingView, Reader, _settled
from rankd.model.facts import Position
from rankd.model.standing import Rank, neighbourhood
from rankd.ports import Ranked


class Neighbours(NamedTuple):
    """A player, and how many entries either side of it are read."""

    player: str
    around: int


class LiveSample(NamedTuple):
    """The state of a ranking at one position."""

    top: Page
    neighbours: Mapping[Neighbours, Page]
    """Of the players that are ranked."""


@_settled
async def live_sample(
    reader: Reader, where: RankingView, top: int, wanted: Sequence[Neighbours]
) -> LiveSample:
    """Return the top of a ranking and the neighbourhoods of players, all at one position."""
    at = await reader._moment(where)
    page = await reader._read(where, Rank(1), top, at)
    if not wanted:
        return LiveSample(page, {})
    places = await reader._ranks(where, [one.player for one in wanted], at)
    pages = {}
    for one, place in zip(wanted, places, strict=True):
        if place is not None:
            pages[one] = await _neighbourhood(reader, where, place, one.around, at)
    return LiveSample(page, pages)


async def _neighbourhood(
    reader: Reader, where: RankingView, place: Ranked, around: int, at: Position | None
) -> Page:
    first, count = neighbourhood(place.rank, total=place.total, above=around, below=around)
    return await reader._read(where, first, count, at)


@_settled
async def ranks_now(
    reader: Reader, where: RankingView, players: Sequence[str]
) -> Mapping[str, Rank]:
    """Return the ordinal ranks of those players that are ranked."""
    found = await reader._ranks(where, players, await reader._moment(where))
    return {one: place.rank for one, place in zip(players, found, strict=True) if place}


def masked_page(reader: Reader, where: RankingView, page: Page) -> Page:
    """Return a page without the players that are hidden to the reader's viewer."""
    if reader.viewer is None or not page.players:
        return page
    return reader._masked(where, Rank(_first_place(page)), page)


def _first_place(page: Page) -> int:
    return page.ranks[0] if page.ordinals is None else page.ordinals[0]


def hidden_players(reader: Reader, players: Iterable[str]) -> frozenset[str]:
    """Return those of some players that are hidden to the reader's viewer."""
    return frozenset(player for player in players if reader._hides(player))
