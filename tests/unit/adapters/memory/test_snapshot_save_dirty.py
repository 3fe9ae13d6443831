"""Who was touched while an index is saved: noted cheaply, told once each; of drafts nothing."""

from array import array

import pytest

from rankd.adapters.memory.index_state import Entries
from rankd.adapters.memory.snapshot_save import DirtySet
from rankd.rank import RankList


@pytest.fixture
def ranking() -> Entries:
    return Entries(RankList(16))


@pytest.fixture
def other() -> Entries:
    return Entries(RankList(16))


def test_all_rankings_but_drafts_are_to_be_read(ranking: Entries, other: Entries) -> None:
    other.draft = True
    assert list(DirtySet([ranking, other]).unread) == [ranking]


def test_touches_are_taken_a_few_at_a_time_each_number_once(ranking: Entries) -> None:
    touched = DirtySet([ranking])
    touched.touched(ranking, array("I", [1, 2, 3, 3, 3]))
    touched.touched(ranking, (4,))
    assert touched.waiting == 6
    assert list(touched.take(3, 0)) == [(ranking, {3, 4})]
    assert list(touched.take(9, 0)) == [(ranking, {1, 2, 3})]
    assert touched.take_players(99) == {1, 2, 3, 4}
    assert touched.waiting == 0
    assert list(touched.take(9, 0)) == []
    assert touched.take_players(9) == set()


def test_a_ranking_has_its_own_cost(ranking: Entries, other: Entries) -> None:
    touched = DirtySet([])
    for entries in (ranking, other):
        touched.touched(entries, (1, 2))
    assert len(list(touched.take(4, 2))) == 1
    assert len(list(touched.take(4, 2))) == 1
    assert list(touched.take(4, 2)) == []


def test_of_drafts_nothing_is_noted(ranking: Entries) -> None:
    """To make one takes millions of touches; and if it is adopted, it is read as a whole."""
    ranking.draft = True
    touched = DirtySet([ranking])
    touched.touched(ranking, (1, 2))
    assert touched.waiting == 0
    ranking.draft = False
    touched.adopted(ranking)
    assert list(touched.unread) == [ranking]
    touched.touched(ranking, (3,))
    assert touched.waiting == 1


def test_of_what_is_dropped_nothing_is_left(ranking: Entries, other: Entries) -> None:
    touched = DirtySet([ranking, other])
    touched.touched(ranking, (1, 2))
    touched.touched(other, (3,))
    touched.dropped(ranking)
    assert list(touched.unread) == [other]
    assert list(touched.take(9, 0)) == [(other, {3})]
    assert touched.take_players(9) == {1, 2, 3}
    assert touched.waiting == 0
