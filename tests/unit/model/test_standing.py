"""Ranks, pages and neighbourhoods, by examples a person can check; the rest is in property/."""

import base64
import struct
from zlib import crc32

import pytest

from rankd.errors import InvalidCursor, InvalidPage
from rankd.model.facts import Position
from rankd.model.standing import (
    CURSOR_LENGTH_MAX,
    NEIGHBOURS_DEFAULT,
    NEIGHBOURS_MAX,
    PAGE_LIMIT_DEFAULT,
    PAGE_LIMIT_MAX,
    Cursor,
    Offset,
    Rank,
    Standing,
    TieRule,
    Way,
    neighbourhood,
    page_bounds,
    percentile,
    ranks_of_page,
    stamp,
)

R = Rank


@pytest.mark.parametrize(
    ("rank", "total", "expected"),
    [(1, 1, 100.0), (1, 1000, 100.0), (1000, 1000, 0.1), (42, 1_000_000, 100.0), (2, 3, 66.67)],
)
def test_a_percentile_is_the_share_at_or_below(rank: int, total: int, expected: float) -> None:
    assert percentile(R(rank), total) == expected
    standing = Standing(R(rank), "p", (5,), total, Position(9))
    assert standing.percentile == expected


@pytest.mark.parametrize(("rank", "total"), [(0, 10), (11, 10), (1, 0)])
def test_nobody_stands_outside_a_ranking(rank: int, total: int) -> None:
    with pytest.raises(AssertionError):
        percentile(R(rank), total)


# -------------------------------------------------------------------------- shown ranks


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (TieRule.ORDINAL, [1, 2, 3, 4]),
        (TieRule.STANDARD, [1, 2, 2, 4]),
        (TieRule.DENSE, [1, 2, 2, 3]),
    ],
)
def test_equal_scores_share_ranks_as_the_rule_says(rule: TieRule, expected: list[int]) -> None:
    shown = ranks_of_page(rule, [b"9", b"5", b"5", b"1"], ordinal=R(1), shown=R(1))
    assert shown == expected


@pytest.mark.parametrize(
    ("rule", "shown", "expected"),
    [
        (TieRule.ORDINAL, 12, [12, 13, 14]),
        (TieRule.STANDARD, 10, [10, 10, 14]),
        (TieRule.DENSE, 4, [4, 4, 5]),
    ],
)
def test_a_page_may_begin_inside_a_tie(rule: TieRule, shown: int, expected: list[int]) -> None:
    prefixes = [b"5", b"5", b"1"]
    assert ranks_of_page(rule, prefixes, ordinal=R(12), shown=R(shown)) == expected


def test_an_empty_page_shows_no_ranks() -> None:
    assert ranks_of_page(TieRule.DENSE, [], ordinal=R(1), shown=R(1)) == []


def test_no_rank_is_shown_past_the_place_it_is_for() -> None:
    with pytest.raises(AssertionError):
        ranks_of_page(TieRule.STANDARD, [b"5"], ordinal=R(3), shown=R(4))


# ------------------------------------------------------------------------------- pages


def test_a_page_is_the_top_ten_unless_told_otherwise() -> None:
    assert page_bounds(total=1_000_000) == (1, PAGE_LIMIT_DEFAULT)


@pytest.mark.parametrize(
    ("total", "limit", "offset", "from_rank", "expected"),
    [
        (2000, 101, None, 1000, (1000, 101)),
        (2000, 101, 999, None, (1000, 101)),
        (2000, 10, 0, None, (1, 10)),
        (2000, PAGE_LIMIT_MAX, None, 1, (1, PAGE_LIMIT_MAX)),
        (15, 10, 10, None, (11, 5)),
        (15, 10, None, 15, (15, 1)),
        (15, 10, None, 16, (16, 0)),
        (15, 10, 10**12, None, (10**12 + 1, 0)),
        (0, 10, None, None, (1, 0)),
    ],
)
def test_a_page_begins_at_a_rank_or_an_offset_and_ends_with_the_ranking(
    total: int,
    limit: int,
    offset: int | None,
    from_rank: int | None,
    expected: tuple[int, int],
) -> None:
    bounds = page_bounds(
        total=total,
        limit=limit,
        offset=None if offset is None else Offset(offset),
        from_rank=None if from_rank is None else R(from_rank),
    )
    assert bounds == expected


def test_everything_wrong_with_a_page_is_named_at_once() -> None:
    with pytest.raises(InvalidPage) as caught:
        page_bounds(total=5, limit=PAGE_LIMIT_MAX + 1, offset=Offset(-1), from_rank=R(0))
    assert [error.field for error in caught.value.errors] == [
        "limit",
        "from_rank",
        "offset",
        "from_rank",
    ]
    assert "1 and 1000" in caught.value.errors[0].message


@pytest.mark.parametrize("limit", [0, -1])
def test_a_page_holds_something(limit: int) -> None:
    with pytest.raises(InvalidPage):
        page_bounds(total=5, limit=limit)


# ---------------------------------------------------------------------- neighbourhoods


@pytest.mark.parametrize(
    ("rank", "total", "above", "below", "expected"),
    [
        (50, 100, 2, 2, (48, 5)),
        (1, 100, 2, 2, (1, 5)),
        (2, 100, 2, 2, (1, 5)),
        (100, 100, 2, 2, (96, 5)),
        (99, 100, 2, 2, (96, 5)),
        (2, 3, 5, 5, (1, 3)),
        (1, 1, 0, 0, (1, 1)),
        (7, 9, 0, 0, (7, 1)),
        (5, 9, 3, 0, (2, 4)),
        (1, 9, 3, 0, (1, 4)),
        (500, 1000, NEIGHBOURS_MAX, NEIGHBOURS_MAX, (400, 201)),
    ],
)
def test_what_one_edge_lacks_the_other_makes_up(
    rank: int, total: int, above: int, below: int, expected: tuple[int, int]
) -> None:
    assert neighbourhood(R(rank), total=total, above=above, below=below) == expected


def test_five_either_side_unless_told_otherwise() -> None:
    assert neighbourhood(R(50), total=100) == (45, 2 * NEIGHBOURS_DEFAULT + 1)


def test_nobody_is_given_more_neighbours_than_the_limit() -> None:
    with pytest.raises(InvalidPage) as caught:
        neighbourhood(R(1), total=5, above=-1, below=NEIGHBOURS_MAX + 1)
    assert [error.field for error in caught.value.errors] == ["above", "below"]


def test_only_who_is_ranked_has_neighbours() -> None:
    with pytest.raises(AssertionError):
        neighbourhood(R(6), total=5)


# ----------------------------------------------------------------------------- cursors

CURSOR = Cursor(b"\x7f" * 16, "p42", Way.PREVIOUS)
TOKEN = CURSOR.encode("global/all")


def forged(body: bytes, *, version: int = 1) -> str:
    raw = struct.pack(">BI", version, crc32(body)) + body
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def body_of(token: str) -> bytes:
    return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))[5:]


def test_a_cursor_written_once_stays_readable() -> None:
    """Readers keep tokens while we upgrade; an old one is read, or refused, never misread."""
    assert TOKEN == "AT8KJq3y22N_osjuvQEQf39_f39_f39_f39_f39_f3A0Mg"
    assert Cursor.decode(TOKEN, "global/all", key_bytes=16) == CURSOR


@pytest.mark.parametrize(
    ("token", "problem"),
    [
        ("", "damaged"),
        ("A", "damaged"),
        ("AYTH", "damaged"),
        ("not a token", "damaged"),
        ("é" * 20, "damaged"),
        (TOKEN[:-1], "damaged"),
        (TOKEN + "A", "damaged"),
        (TOKEN + "=", "damaged"),
        (TOKEN + "\n", "damaged"),
        (TOKEN[:-1] + "h", "damaged"),  # another spelling of the same last byte
        (forged(b"short"), "damaged"),
        (forged(body_of(TOKEN)[:8] + b"\x01\x18" + b"\x7f" * 24 + b"p"), "damaged"),
        (forged(body_of(TOKEN)[:8] + b"\x01\x08" + b"\x7f" * 8 + b"p"), "damaged"),
        (forged(body_of(TOKEN)[:8] + b"\x02\x10" + b"\x7f" * 16 + b"p"), "damaged"),
        (forged(body_of(TOKEN)[:8] + b"\x01\x10" + b"\x7f" * 16 + b"\xff"), "damaged"),
        (forged(body_of(TOKEN)[:8] + b"\x01\x10" + b"\x7f" * 16), "damaged"),
        (forged(body_of(TOKEN)[:8] + b"\x01\x10" + b"\x7f" * 15), "damaged"),
        (forged(body_of(TOKEN), version=2), "another version"),
        ("A" * (CURSOR_LENGTH_MAX + 1), "too long"),
    ],
)
def test_what_is_not_our_cursor_is_refused(token: str, problem: str) -> None:
    with pytest.raises(InvalidCursor, match=problem):
        Cursor.decode(token, "global/all", key_bytes=16)


def test_a_cursor_of_another_ranking_is_refused() -> None:
    with pytest.raises(InvalidCursor, match="another ranking"):
        Cursor.decode(TOKEN, "global/daily:2026-11-14", key_bytes=16)


def test_the_longest_cursor_is_short_enough() -> None:
    longest = Cursor(b"\xff" * 40, "p" * 256).encode("x" * 1000)
    assert len(longest) <= CURSOR_LENGTH_MAX
    assert Cursor.decode(longest, "x" * 1000, key_bytes=40).player == "p" * 256


@pytest.mark.parametrize("way", Way)
@pytest.mark.parametrize("key_bytes", [16, 40])
def test_what_stamps_a_ranking_makes_the_cursor_of_each_of_its_entries(
    way: Way, key_bytes: int
) -> None:
    encode = stamp("global/all", way, key_bytes)
    for number, player in enumerate(("a", "p42", "é😀", "p" * 256)):
        cursor = Cursor(bytes([number]) * key_bytes, player, way)
        token = encode(cursor.order_key, player)
        assert token == cursor.encode("global/all")
        assert Cursor.decode(token, "global/all", key_bytes=key_bytes) == cursor
    with pytest.raises(InvalidCursor, match="another ranking"):
        Cursor.decode(
            stamp("other", way, key_bytes)(b"k" * key_bytes, "p"), "global/all", key_bytes=key_bytes
        )
