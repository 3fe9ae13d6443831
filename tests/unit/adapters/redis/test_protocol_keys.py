"""What things are called in Redis is never changed: what is written there has to be found again."""

import random

import pytest

from rankd.adapters.redis.protocol import (
    Generation,
    home_of,
    is_draft,
    name_of,
    partition_key,
    partition_of_score,
    private,
    ranking_of,
    shape_of,
    shape_text,
)
from rankd.ports import DRAFT, Ranking, RankingShape


@pytest.mark.parametrize("segment", [None, "", "region:eu", "-", "+", "a\0b"])
@pytest.mark.parametrize("window", ["forever", "", "daily:2026-11-14"])
def test_a_ranking_is_found_by_its_name(window: str, segment: str | None) -> None:
    ranking = Ranking("b", window, segment)
    assert ranking_of("b", name_of(ranking)) == ranking


def test_epochs_are_read_as_they_are_written_and_those_of_others_are_not() -> None:
    generation = Generation("ab12", 8)
    assert str(generation) == "1:ab12:8"
    assert Generation.read(str(generation)) == generation
    for other in ("", "2:ab12:8", "1:ab12", "1::8", "1:ab12:x"):
        assert Generation.read(other) is None


def test_homes_are_pinned() -> None:
    generation = Generation("ab12", 8)
    assert home_of(generation, "ann") == (3, 1583665902)
    assert home_of(generation, "\U00010000") == (3, 969573911)
    assert partition_of_score(generation, bytes(8)) == 4
    assert partition_key("p", generation, 3) == b"{p:ab12:3}m"


def test_players_and_scores_are_spread_evenly() -> None:
    generation = Generation("ab12", 4)
    homes = [home_of(generation, f"player-{n:09}") for n in range(4000)]
    scores = [partition_of_score(generation, n.to_bytes(8, "big")) for n in range(4000)]
    for partition in range(4):
        assert 900 < sum(home.partition == partition for home in homes) < 1100
        assert 900 < scores.count(partition) < 1100
    for bucket in range(4):
        assert 900 < sum(home.hash % 4 == bucket for home in homes) < 1100


def test_a_draft_bears_its_makers_name_and_a_ranking_nobodys() -> None:
    draft, ranking = Ranking(DRAFT + "b", "w", "s"), Ranking("b", "w", "s")
    assert is_draft(private(draft, "me"))
    assert private(draft, "me") != private(draft, "you")
    assert private(ranking, "me") == ranking


def test_a_shape_is_read_back() -> None:
    for shape in (RankingShape(16, False), RankingShape(40, True)):
        assert shape_of(f"{random.randrange(10)}:{shape_text(shape)}") == shape
