"""The player table: each id once, as a number, in both implementations."""

from array import array
from types import ModuleType
from typing import Any

import pytest

LONGEST = 256  # bytes of UTF-8
SHORT = 22  # bytes: a longer id is stored apart from its record


@pytest.fixture
def table(rank: ModuleType) -> Any:
    return rank.PlayerTable()


def packed(*ids: str) -> tuple[bytes, "array[int]"]:
    texts = [id.encode() for id in ids]
    return b"".join(texts), array("H", map(len, texts))


# ---- Numbers -----------------------------------------------------------------------------------


def test_an_id_keeps_the_number_it_was_given(table: Any) -> None:
    assert [table.intern(id) for id in ("ann", "bob", "ann", "cyd", "bob")] == [0, 1, 0, 2, 1]
    assert len(table) == 3
    table.check()


def test_finding_gives_no_number(table: Any) -> None:
    assert table.find("ann") is None
    assert len(table) == 0
    number = table.intern("ann")
    assert table.find("ann") == number
    assert table.find("an") is None
    assert table.find("anna") is None


def test_a_number_leads_back_to_its_id(table: Any) -> None:
    ids = ["ann", "Zoë", "日本語", "😀" * 64, "\0", "a\0b", "x" * LONGEST]
    numbers = table.intern_many(ids)
    assert [table.id_of(number) for number in numbers] == ids
    assert table.ids_of(numbers) == ids
    table.check()


def test_a_number_nobody_has_is_a_key_error(table: Any, rank: ModuleType) -> None:
    table.intern("ann")
    for number in (1, -1, rank.NO_PLAYER, rank.NO_PLAYER - 1, 2**32, 2**64, -(2**64)):
        assert number not in table
        with pytest.raises(KeyError):
            table.id_of(number)
        with pytest.raises(KeyError):
            table.remove(number)
    assert 0 in table
    with pytest.raises(KeyError):
        table.ids_of(array("I", [0, 1]))


def test_ids_that_differ_only_in_their_form_are_different(table: Any) -> None:
    """No normalisation: an id is its bytes."""
    ids = ["é", "e\u0301", "A", "a", "a ", " a"]
    assert len(set(table.intern_many(ids))) == len(ids)


# ---- Limits ------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 2, SHORT - 1, SHORT, SHORT + 1, LONGEST - 1, LONGEST])
def test_ids_of_every_allowed_length_are_kept_apart(table: Any, length: int) -> None:
    ids = ["a" * length, "a" * (length - 1) + "b", "b" + "a" * (length - 1)]
    ids = list(dict.fromkeys(ids))
    numbers = table.intern_many(ids)
    assert list(numbers) == list(range(len(ids)))
    assert table.ids_of(numbers) == ids
    assert list(table.find_many(ids)) == list(numbers)
    table.check()


@pytest.mark.parametrize(
    "id",
    ["", "a" * 257, "é" * 129, "日" * 86, "😀" * 65, "a" * 255 + "é"],
    ids=["empty", "bytes", "of two", "of three", "of four", "last cut"],
)
def test_an_id_has_1_to_256_bytes_of_utf8(table: Any, id: str) -> None:
    for call in (table.intern, table.find):
        with pytest.raises(ValueError, match="1 to 256 bytes"):
            call(id)
    for call in (table.intern_many, table.find_many):
        with pytest.raises(ValueError, match="1 to 256 bytes"):
            call([id])
    assert len(table) == 0


@pytest.mark.parametrize("id", ["é" * 128, "日" * 85 + "x", "😀" * 64, "a" * 254 + "é"])
def test_the_longest_ids_of_wide_characters_are_taken(table: Any, id: str) -> None:
    assert len(id.encode()) == LONGEST
    assert table.id_of(table.intern(id)) == id


@pytest.mark.parametrize("id", ["\ud800", "a\udfffb", "\ud83d"])
def test_a_lone_surrogate_is_refused(table: Any, id: str) -> None:
    for call in (table.intern, table.find):
        with pytest.raises(UnicodeEncodeError):
            call(id)
    assert len(table) == 0


# ---- Many at once ------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 63, 64, 65, 1000])
def test_many_at_once_are_the_same_as_one_by_one(rank: ModuleType, count: int) -> None:
    ids = [f"player-{i * 7 % max(count - 3, 1)}" * (1 + i % 3) for i in range(count)]
    together, one_by_one = rank.PlayerTable(), rank.PlayerTable()
    from_text = rank.PlayerTable()
    numbers = [one_by_one.intern(id) for id in ids]
    assert list(together.intern_many(ids)) == numbers
    assert list(together.intern_many(tuple(ids))) == numbers
    assert list(from_text.intern_packed(*packed(*ids))) == numbers
    assert list(together.find_many(ids)) == numbers
    assert together.ids_of(array("I", numbers)) == ids
    together.check()
    from_text.check()


def test_an_id_twice_in_one_batch_has_one_number(table: Any) -> None:
    assert list(table.intern_many(["ann", "ann", "bob", "ann"])) == [0, 0, 1, 0]


def test_those_not_found_are_nobody(table: Any, rank: ModuleType) -> None:
    table.intern("ann")
    assert list(table.find_many(["bob", "ann"])) == [rank.NO_PLAYER, 0]


def test_packed_ids_must_fill_the_text(table: Any) -> None:
    for lengths in ([3], [2, 1], [5]):
        with pytest.raises(ValueError, match="add up"):
            table.intern_packed(b"anna", array("H", lengths))
    with pytest.raises(ValueError, match="1 to 256 bytes"):
        table.intern_packed(b"anna", array("H", [0, 4]))
    with pytest.raises(ValueError, match="1 to 256 bytes"):
        table.intern_packed(b"a" * 257, array("H", [257]))
    assert len(table) == 0


@pytest.mark.parametrize(
    ("text", "lengths"),
    [
        ("é".encode(), [1, 1]),
        (b"\xff", [1]),
        (b"\xed\xa0\x80", [3]),
        (b"\xc0\x80", [2]),
        ("日".encode(), [2, 1]),
        (b"\xc3", [1]),
    ],
    ids=["cut in a character", "no UTF-8", "surrogate", "overlong", "cut late", "unfinished"],
)
def test_packed_ids_must_each_be_utf8(table: Any, text: bytes, lengths: list[int]) -> None:
    with pytest.raises(ValueError, match=r"utf-8|character"):
        table.intern_packed(text, array("H", lengths))
    assert len(table) == 0
    table.check()


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, lambda text: array("B", text)])
def test_text_may_come_in_any_buffer(table: Any, wrap: Any) -> None:
    text, lengths = packed("ann", "bob")
    assert list(table.intern_packed(wrap(text), lengths)) == [0, 1]
    assert list(table.intern_packed(wrap(text), memoryview(lengths))) == [0, 1]


# ---- Removal -----------------------------------------------------------------------------------


def test_a_removed_id_is_gone_and_its_number_given_again(table: Any) -> None:
    table.intern_many(["ann", "bob", "cyd"])
    table.remove(1)
    assert table.find("bob") is None
    assert 1 not in table
    assert len(table) == 2
    with pytest.raises(KeyError):
        table.remove(1)
    assert table.intern("dee") == 1
    assert table.intern("eve") == 3
    assert table.ids_of(array("I", [0, 1, 2, 3])) == ["ann", "dee", "cyd", "eve"]
    table.check()


@pytest.mark.parametrize("long", [False, True])
def test_numbers_are_reused_before_new_ones_are_issued(table: Any, long: bool) -> None:
    ids = [f"{i}" * (30 if long else 1) for i in range(1, 1000)]
    numbers = table.intern_many(ids)
    for number in numbers[::3]:
        table.remove(number)
    table.check()
    again = table.intern_many([f"new-{i}" for i in range(len(numbers[::3]))])
    assert set(again) == set(numbers[::3])
    table.check()
    assert table.intern("one more") == len(ids)


def test_long_and_short_ids_may_take_one_anothers_numbers(table: Any) -> None:
    for id in ("short", "l" * 200, "s", "m" * 23, "n" * 22):
        number = table.intern(id)
        assert number == 0
        assert table.id_of(number) == id
        table.check()
        table.remove(number)
    assert len(table) == 0


# ---- Pieces ------------------------------------------------------------------------------------


def filled(rank: ModuleType, count: int) -> Any:
    table = rank.PlayerTable()
    table.intern_many([f"{'Ω' * (i % 40)}{i}" for i in range(count)])
    for number in range(0, count, 5):
        table.remove(number)
    return table


@pytest.mark.parametrize("count", [0, 1, 2, 100, 5000])
@pytest.mark.parametrize("size", [1, 7, 4096, 10**9])
def test_pieces_hold_every_id_once(rank: ModuleType, count: int, size: int) -> None:
    table = filled(rank, count)
    ids: list[tuple[int, str]] = []
    for numbers, lengths, text in table.blocks(size):
        assert len(numbers) == len(lengths) <= size
        assert text == b"".join(id.encode() for id in table.ids_of(numbers))
        ids += zip(numbers, table.ids_of(numbers), strict=True)
    kept = [number for number in range(count) if number % 5]
    assert ids == [(number, table.id_of(number)) for number in kept]


# ---- Memory ------------------------------------------------------------------------------------


def test_bytes_used_grows_with_the_table(rank: ModuleType) -> None:
    table = rank.PlayerTable()
    assert table.bytes_used == 0
    table.intern("a")
    one = table.bytes_used
    table.intern_many([f"{i}" for i in range(1000)])
    assert one < table.bytes_used < 1000 * 300


def test_long_ids_are_counted_and_given_back(native: ModuleType) -> None:
    table = native.PlayerTable()
    table.intern("a")
    before, in_use = table.bytes_used, native.bytes_in_use()
    number = table.intern("b" * 200)
    assert table.bytes_used >= before + 200
    table.remove(number)
    assert table.bytes_used < before + 200
    assert native.bytes_in_use() == in_use


def test_a_table_gives_all_its_memory_back(native: ModuleType) -> None:
    before = native.bytes_in_use()
    table = filled(native, 5000)
    assert native.bytes_in_use() >= before + table.bytes_used
    del table
    assert native.bytes_in_use() == before


def test_coming_and_going_does_not_grow_the_table(native: ModuleType) -> None:
    table = native.PlayerTable(seed=1)
    for i in range(100):
        table.intern(f"player {i}")
    in_use = native.bytes_in_use()
    for i in range(100, 10_000):
        table.remove(table.find(f"player {i - 100}"))
        table.intern(f"player {i}")
    assert len(table) == 100
    assert native.bytes_in_use() <= in_use + 4096, "only segments of the hash may have grown"
    table.check()


def test_a_seed_makes_no_difference_to_what_is_kept(serving: ModuleType) -> None:
    ids = [f"p{i}" for i in range(500)]
    for seed in (None, 0, 1, -1, 2**64 - 1, 2**70):
        table = serving.PlayerTable(seed)
        assert list(table.intern_many(ids)) == list(range(500))
        table.check()


def test_all_ids_may_share_their_beginning(rank: ModuleType) -> None:
    """Ids of one maker often differ in their last bytes alone."""
    table = rank.PlayerTable()
    ids = [f"{'0' * 250}{i:06}" for i in range(3000)]
    assert list(table.intern_many(ids)) == list(range(3000))
    assert list(table.find_many(ids)) == list(range(3000))
    table.check()


@pytest.mark.parametrize("expected", [0, 1, 361, 5000, 200_000])
def test_what_a_table_expects_changes_nothing_but_its_speed(
    rank: ModuleType, expected: int
) -> None:
    players = rank.PlayerTable()
    players.expect(expected)
    players.check()
    ids = [f"p{n}" for n in range(5000)]
    numbers = players.intern_many(ids)
    players.expect(10)  # Too late, and no harm.
    players.check()
    assert list(players.find_many(ids)) == list(numbers) == list(range(5000))
    for number in numbers[::2]:
        players.remove(number)
    players.check()
    assert len(players) == 2500
