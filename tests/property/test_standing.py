"""Shown ranks, neighbourhoods and cursors, against models too plain to be wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankd.errors import InvalidCursor
from rankd.model.standing import (
    Cursor,
    Rank,
    TieRule,
    Way,
    neighbourhood,
    page_bounds,
    percentile,
    ranks_of_page,
)

RANKINGS = st.lists(st.sampled_from([b"a", b"b", b"c", b"d"]), min_size=1, max_size=12).map(sorted)


def shown_rank(rule: TieRule, ranking: list[bytes], place: int) -> int:
    """Return the rank of the entry at this place by counting everybody, as the definition says."""
    own = ranking[place - 1]
    if rule is TieRule.ORDINAL:
        return place
    better = [prefix for prefix in ranking if prefix < own]
    return 1 + len(better if rule is TieRule.STANDARD else set(better))


@given(st.data(), RANKINGS, st.sampled_from(TieRule))
def test_any_page_of_a_ranking_shows_what_counting_everybody_gives(
    data: st.DataObject, ranking: list[bytes], rule: TieRule
) -> None:
    first = data.draw(st.integers(1, len(ranking)))
    last = data.draw(st.integers(first, len(ranking)))
    shown = ranks_of_page(
        rule,
        ranking[first - 1 : last],
        ordinal=Rank(first),
        shown=Rank(shown_rank(rule, ranking, first)),
    )
    assert shown == [shown_rank(rule, ranking, place) for place in range(first, last + 1)]


@given(st.integers(1, 30), st.integers(0, 12), st.integers(0, 12), st.data())
def test_a_neighbourhood_is_the_nearest_full_stretch_that_holds_the_player(
    total: int, above: int, below: int, data: st.DataObject
) -> None:
    rank = data.draw(st.integers(1, total))
    first, count = neighbourhood(Rank(rank), total=total, above=above, below=below)
    last = first + count - 1
    assert count == min(above + 1 + below, total)
    assert 1 <= first <= rank <= last <= total
    # As many above as were asked for, unless an edge is in the way.
    if first != rank - above:
        assert first == 1 or last == total


@given(st.integers(0, 50), st.integers(1, 20), st.integers(0, 60))
def test_pages_by_offset_are_slices(total: int, limit: int, offset: int) -> None:
    everybody = range(1, total + 1)
    first, count = page_bounds(total=total, limit=limit, from_rank=Rank(offset + 1))
    assert list(range(first, first + count)) == list(everybody[offset : offset + limit])


@given(st.integers(1, 10**9), st.data())
def test_a_better_rank_never_has_a_lower_percentile(total: int, data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, total))
    assert 0 <= percentile(Rank(rank), total) <= percentile(Rank(1), total) == 100
    if rank < total:
        assert percentile(Rank(rank), total) >= percentile(Rank(rank + 1), total)


CURSORS = st.builds(
    Cursor,
    st.sampled_from([16, 24, 32, 40]).flatmap(lambda n: st.binary(min_size=n, max_size=n)),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=64),
    st.sampled_from(Way),
)


@given(CURSORS, st.text(st.characters(exclude_categories=["Cs"])))
def test_a_cursor_survives_its_journey(cursor: Cursor, ranking: str) -> None:
    token = cursor.encode(ranking)
    assert Cursor.decode(token, ranking, key_bytes=len(cursor.order_key)) == cursor
    assert token.replace("-", "").replace("_", "").isalnum()  # Nothing a URL would escape.


@given(CURSORS, st.data())
def test_a_cursor_with_one_letter_changed_is_refused(cursor: Cursor, data: st.DataObject) -> None:
    token = cursor.encode("r")
    place = data.draw(st.integers(0, len(token) - 1))
    letter = data.draw(st.characters().filter(lambda other: other != token[place]))
    damaged = token[:place] + letter + token[place + 1 :]
    with pytest.raises(InvalidCursor):
        Cursor.decode(damaged, "r", key_bytes=len(cursor.order_key))


@given(st.text())
def test_any_text_is_a_cursor_or_refused(text: str) -> None:
    with pytest.raises(InvalidCursor):
        Cursor.decode(text, "r", key_bytes=16)
