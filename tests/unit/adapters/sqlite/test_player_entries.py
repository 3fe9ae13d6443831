"""Entries of players: the native ones are those in Python, and both are right."""

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.standins import PURE, native_part

from rankd.adapters.sqlite import player_entries as entries
from rankd.adapters.sqlite.blocks import GENESIS, seal
from rankd.errors import LedgerCorrupt
from rankd.model.facts import (
    BoardDefined,
    Fact,
    FriendsSet,
    NameSet,
    PlayerErased,
    Position,
    ScoreSubmitted,
    WindowOpened,
)
from rankd.model.window import Instant

SEED = bytes(range(16))
NATIVE = [] if PURE else [native_part("rankd.adapters.sqlite._player_entries")]
SCANS = [entries.scan_plain, *(part.scan for part in NATIVE)]
SORTS = [entries.sort_plain, *(part.sort for part in NATIVE)]
FINDS = [entries.find_plain, *(part.find for part in NATIVE)]
HASHES = [entries.siphash_plain, *(part.siphash for part in NATIVE)]

texts = st.text(max_size=40)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.binary(),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=20,
)
bodies = st.lists(
    st.tuples(texts | st.none(), texts | st.none(), values, values).map(list), max_size=20
)


@given(bodies, st.permutations(range(4)))
def test_every_body_is_read_by_the_places_of_its_fields(
    found: list[list[Any]], order: list[int]
) -> None:
    packed = msgspec.msgpack.encode([[body[place] for place in order] for body in found])
    board, player = order.index(0), order.index(1)
    answers = {scan(packed, board, player, 7, SEED) for scan in SCANS}
    assert len(answers) == 1
    (answer,) = answers
    assert len(answer) == 12 * sum(body[1] is not None for body in found)
    assert {scan(packed, -1, player, 7, SEED) for scan in SCANS} == {
        b"".join(answer[at : at + 10] + b"\0\0" for at in range(0, len(answer), 12))
    }


@pytest.mark.parametrize("scan", SCANS)
def test_what_is_cut_off_or_is_no_text_is_refused(scan: Callable[..., bytes]) -> None:
    long = ["b" * 300, "p" * 70_000, (1, -5, 2**40), None, {"a": [1.5, b"x" * 300]}]
    whole = msgspec.msgpack.encode([long, ["b", "p"]])
    assert len(scan(whole, 0, 1, 1, SEED)) == 24
    for end in [*range(400), *range(70_000, len(whole))]:
        with pytest.raises((ValueError, msgspec.DecodeError)):
            scan(whole[:end], 0, 1, 1, SEED)
    for wrong in ([1, 2], [[1, "p"]], [["b", 5]], [["b", ["p"]]], {"a": 1}, None):
        with pytest.raises((ValueError, msgspec.DecodeError)):
            scan(msgspec.msgpack.encode(wrong), 0, 1, 1, SEED)


def test_random_bytes_are_read_alike_or_refused() -> None:
    if PURE:
        return
    dice = random.Random(5)
    for _ in range(3_000):
        data = bytes([0x91, 0x92]) + dice.randbytes(dice.randrange(1, 30))
        try:
            expected = entries.scan_plain(data, 0, 1, 1, SEED)
        except (ValueError, msgspec.DecodeError):
            continue  # The native one is less strict: it skips what it does not need.
        assert entries.scan(data, 0, 1, 1, SEED) == expected


@given(st.lists(st.tuples(texts, st.integers(0, 2**40 - 1))), st.binary(min_size=16, max_size=16))
def test_entries_are_sorted_by_player_and_position(
    named: list[tuple[str, int]], seed: bytes
) -> None:
    made = b"".join(
        entries._entry(seed, player, None, position)
        for player, position in sorted(named, key=lambda one: one[1])
    )
    in_order = b"".join(sorted(made[at : at + 12] for at in range(0, len(made), 12)))
    assert {sort(made) for sort in SORTS} == {in_order}


@pytest.mark.parametrize("find", FINDS)
def test_entries_are_found_by_player_and_board(find: Callable[..., list[int]]) -> None:
    named = [("ann", "b", 1), ("bob", "b", 2), ("ann", None, 3), ("ann", "c", 2**40 - 1)]
    made = b"".join(entries._entry(SEED, player, board, at) for player, board, at in named)
    for player, board, found in [
        ("ann", None, [1, 3, 2**40 - 1]),
        ("ann", "b", [1]),
        ("ann", "c", [2**40 - 1]),
        ("bob", None, [2]),
        ("eve", None, []),
    ]:
        for kind in (bytes, bytearray, memoryview):
            wanted = entries.hash_of_player(SEED, player, board)
            assert find(kind(made), *wanted) == found


def test_the_hash_is_siphash() -> None:
    """The first vectors of its authors' for one and three rounds, and each length once."""
    assert {hashed(SEED, b"") for hashed in HASHES} == {0xABAC0158050FC4DC}
    for length in range(70):
        data = bytes(range(length))
        assert len({hashed(SEED, data) for hashed in HASHES}) == 1
    assert len({entries.siphash_plain(bytes([n]) * 16, b"ann") for n in range(99)}) == 99


def test_the_entries_of_a_block_are_those_of_its_facts() -> None:
    facts: list[Fact] = [
        BoardDefined("b", {"rule": "best"}),
        ScoreSubmitted("b", "ann", scores=(1,)),
        ScoreSubmitted("c", "bob", scores=(1, 2), metadata=b"{}", attributes={"a": 1}),
        NameSet("ann", "Ann"),
        FriendsSet("bob", ("ann",)),
        WindowOpened("b", "daily:2026-11-14", Instant(0), Instant(5)),
        PlayerErased("ann"),
        ScoreSubmitted("b", "ann", delta=-5),
    ]
    block = seal(facts, first=Position(100), at=Instant(0), previous_link=GENESIS)
    made = entries.entries_of(block, SEED)
    for player in ("ann", "bob", "eve"):
        for board in (None, "b", "c"):
            wanted = entries.hash_of_player(SEED, player, board)
            assert entries.find(made, *wanted) == [
                at for at, fact in enumerate(facts, 100) if fact.is_about(player, board)
            ]


def test_a_block_that_cannot_be_read_is_corrupt() -> None:
    facts = [ScoreSubmitted("b", "ann", scores=(1,)), NameSet("ann", "Ann")]
    block = seal(facts, first=Position(1), at=Instant(0), previous_link=GENESIS)
    for broken in (
        block._replace(facts=block.facts[:-3]),
        block._replace(facts=b""),
        block._replace(last=Position(3)),
        block._replace(facts=msgspec.msgpack.encode([("score_submitted.1", [[1, 2]]), ("x", [])])),
        block._replace(facts=msgspec.msgpack.encode([("score_submitted.1", "x")])),
    ):
        with pytest.raises(LedgerCorrupt):
            entries.entries_of(broken, SEED)
