"""Rewards of any ranking, against counting everybody; shared amounts add up to their pool."""

from decimal import Decimal
from fractions import Fraction
from itertools import groupby
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rankd.model.board import Board
from rankd.model.rewards import Allotment, Allotted, TiedGroup
from rankd.model.standing import TieRule

AMOUNTS = st.integers(1, 10**6).map(lambda cents: f"{Decimal(cents).scaleb(-2)}")
RANKS = st.tuples(st.integers(1, 9), st.integers(1, 9)).map(sorted)
PERCENTS = st.decimals(0, 100, places=2).filter(lambda percent: percent > 0).map(float)
BANDS = st.lists(
    st.fixed_dictionaries({"amount": AMOUNTS, "share": st.booleans()}).flatmap(
        lambda band: st.one_of(
            RANKS.map(lambda ranks: {**band, "ranks": ranks}),
            PERCENTS.map(lambda percent: {**band, "top_percent": percent}),
        )
    ),
    min_size=1,
    max_size=4,
)
SCORES = st.lists(st.integers(0, 4), min_size=1, max_size=14).map(lambda some: sorted(some)[::-1])


def groups_of(scores: list[int], ties: TieRule) -> list[TiedGroup]:
    """Return the groups of a ranking, whose players are named after their places."""
    if ties is TieRule.ORDINAL:
        return [TiedGroup(place, place, [str(place)]) for place in range(1, len(scores) + 1)]
    found, place = [], 1
    for number, (_, some) in enumerate(groupby(scores), 1):
        size = len(list(some))
        rank = number if ties is TieRule.DENSE else place
        found.append(TiedGroup(place, rank, [str(place + one) for one in range(size)]))
        place += size
    return found


def allotted(bands: list[dict[str, Any]], scores: list[int], ties: TieRule) -> list[Allotted]:
    read = Board.define("b", {"rewards": bands}).rewards
    allotment = Allotment(read, "all", ties, len(scores))
    found: list[Allotted] = []
    for group in groups_of(scores, ties):
        if allotment.is_past(group):
            assert not list(allotment.rewards_of(group))
        found += allotment.rewards_of(group)
    return found


def last_of(band: dict[str, Any], total: int) -> int:
    """Return the last place of a band, by counting."""
    if "ranks" in band:
        return int(band["ranks"][1])
    share = Fraction(str(band["top_percent"])) / 100
    return sum(Fraction(place - 1, total) < share for place in range(1, total + 1))


@given(BANDS, SCORES, st.sampled_from(TieRule))
def test_a_band_is_for_the_players_that_counting_finds(
    bands: list[dict[str, Any]], scores: list[int], ties: TieRule
) -> None:
    found = allotted(bands, scores, ties)
    assert len({(one.band, one.player) for one in found}) == len(found)
    for number, band in enumerate(bands):
        if band["share"]:
            continue
        first, last = band.get("ranks", [1])[0], last_of(band, len(scores))
        expected = set()
        for group in groups_of(scores, ties):
            rank = group.rank if "ranks" in band else group.place
            expected |= set(group.players) if first <= rank <= last else set()
        got = [one for one in found if one.band == number]
        assert {one.player for one in got} == expected
        assert {one.amount for one in got} <= {int(Decimal(band["amount"]).scaleb(2))}


@given(BANDS, SCORES, st.sampled_from(TieRule))
def test_shared_amounts_add_up_to_those_of_the_places(
    bands: list[dict[str, Any]], scores: list[int], ties: TieRule
) -> None:
    found = allotted(bands, scores, ties)
    total = len(scores)
    for number, band in enumerate(bands):
        if not band["share"]:
            continue
        first, last = band.get("ranks", [1])[0], last_of(band, total)
        groups = groups_of(scores, ties)
        dense = ties is TieRule.DENSE and "ranks" in band
        places = [one.rank for one in groups] if dense else list(range(1, total + 1))
        taken = [place for place in places if first <= place <= last]
        got = {one.player: one.amount or 0 for one in found if one.band == number}
        amount = int(Decimal(band["amount"]).scaleb(2))
        assert sum(got.values()) == amount * len(taken), "the whole pool, and no cent more"
        for group in groups:
            parts = [got[player] for player in group.players if player in got]
            assert len(parts) in (0, len(group.players))
            if parts:
                assert max(parts) - min(parts) <= 1
                assert parts == sorted(parts, reverse=True), "the first get what is left over"
