"""The rank list in plain Python: the judge of the native one, and its stand-in.

A sorted list and `bisect` say everything a ranking has to say. It is here to be obviously right:
the tests run it beside the native list and compare every answer. Where no C compiler was at hand
it serves in its place, with every insertion costing O(n).

The words of the interface are explained in _ranklist.pyi, which both implementations keep to.
"""

import struct
from array import array
from bisect import bisect_left, insort
from collections import Counter
from typing import TYPE_CHECKING

from rankd.rank.rules import (
    BEST,
    DENSE,
    FIRST,
    HELD,
    LATEST,
    ORDINAL,
    REFUSED,
    STANDARD,
    SUM,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rankd.rank._ranklist import Buffer, Outcomes
    from rankd.rank.rules import Rules

NO_PLAYER = 2**32 - 1
ID_BYTES_MAX = 256

_COUNTED, _NOT_BETTER, _OUT_OF_BOUNDS, _OVERFLOW = range(4)
_SCORE_MIN, _SCORE_MAX = -(2**63), 2**63 - 1
_WORD_MAX = 2**64 - 1
SLOT_EMPTY = 2**32 - 1


def _encoded(id: str) -> bytes:
    text = id.encode()
    if not 1 <= len(text) <= ID_BYTES_MAX:
        raise ValueError(f"a player id has 1 to {ID_BYTES_MAX} bytes of UTF-8, not {len(text)}")
    return text


def _unpacked(text: "Buffer", lengths: "Iterable[int]") -> "list[str]":
    raw, at, ids = bytes(text), 0, []
    for length in lengths:
        ids.append(raw[at : at + length].decode())
        at += length
    if at != len(raw):
        raise ValueError(f"the lengths add up to {at}, the text has {len(raw)} bytes")
    return ids


def _mixed(a: int, b: int) -> int:
    product = a * b
    return (product & _WORD_MAX) ^ (product >> 64)


def lookup_hash(seed: int, id: "Buffer") -> int:
    """Return the 64-bit hash of an id in a lookup table; the same on every machine."""
    text = bytes(id)
    state = seed ^ (len(text) * 0x9E3779B97F4A7C15 & _WORD_MAX)
    whole = len(text) // 8 * 8
    for at in range(0, whole, 8):
        word = int.from_bytes(text[at : at + 8], "little")
        state = _mixed(state ^ word, 0xE7037ED1A0B428DB ^ seed)
    return _mixed(state ^ int.from_bytes(text[whole:], "little"), 0x8EBC6AF09C88C6E3)


def fill_lookup(
    slots: "Buffer", row_bits: int, seed: int, first_row: int, text: "Buffer", lengths: "Buffer"
) -> None:
    """Put ids that lie end to end into the slots of lookup.h, from a row on."""
    ids, view = _unpacked(text, memoryview(lengths)), memoryview(slots)
    if not 1 <= row_bits <= 32 or not 0 <= first_row <= first_row + len(ids) < 1 << row_bits:
        raise ValueError(f"{len(ids)} rows from {first_row} on do not fit in {row_bits} bits")
    if first_row + len(ids) >= len(view):
        raise ValueError("each id needs a slot, and one stays empty")
    for row, id in enumerate(ids, start=first_row):
        hash = lookup_hash(seed, id.encode())
        slot = (hash >> 32) * len(view) >> 32
        while view[slot] != SLOT_EMPTY:
            slot = (slot + 1) % len(view)
        view[slot] = (hash << row_bits & 0xFFFFFFFF) | row


class PlayerTable:
    """Every player id once, as a number."""

    def __init__(self, seed: int | None = None) -> None:
        self._ids: list[str | None] = []
        self._numbers: dict[str, int] = {}
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, number: int) -> bool:
        return 0 <= number < len(self._ids) and self._ids[number] is not None

    def intern(self, id: str) -> int:
        """Return the id's number, given now if it has none."""
        _encoded(id)
        if id in self._numbers:
            return self._numbers[id]
        if self._free:
            number = self._free.pop()
        else:
            number = len(self._ids)
            self._ids.append(None)
        self._ids[number] = id
        self._numbers[id] = number
        return number

    def find(self, id: str) -> int | None:
        """Return the id's number, if it has one."""
        _encoded(id)
        return self._numbers.get(id)

    def intern_many(self, ids: "Sequence[str]") -> "array[int]":
        """Intern one after another."""
        return array("I", [self.intern(id) for id in ids])

    def find_many(self, ids: "Sequence[str]") -> "array[int]":
        """Find one after another; NO_PLAYER where there is none."""
        return array("I", [NO_PLAYER if (n := self.find(id)) is None else n for id in ids])

    def expect(self, count: int) -> None:
        """Make room in one go: there is nothing to make here."""

    def intern_packed(self, text: "Buffer", lengths: "Buffer") -> "array[int]":
        """Intern ids that lie end to end in one text."""
        return self.intern_many(_unpacked(text, memoryview(lengths).tolist()))

    def id_of(self, number: int) -> str:
        """Return the id that has this number."""
        id = self._ids[number] if number in self else None
        if id is None:
            raise KeyError(number)
        return id

    def ids_of(self, numbers: "Buffer") -> list[str]:
        """Return the ids that have these numbers."""
        return [self.id_of(number) for number in memoryview(numbers)]

    def pack_ids(self, numbers: "Buffer") -> "tuple[bytes, array[int]]":
        """Return the ids that have these numbers, end to end, and the length of each."""
        ids = [id.encode() for id in self.ids_of(numbers)]
        return b"".join(ids), array("H", map(len, ids))

    def remove(self, number: int) -> None:
        """Forget an id; its number may be given out again."""
        del self._numbers[self.id_of(number)]
        self._ids[number] = None
        self._free.append(number)

    def blocks(self, size: int = 4096) -> "Iterator[tuple[array[int], array[int], bytes]]":
        """Yield the table in pieces: numbers, lengths of ids, ids end to end."""
        if size < 1:
            raise ValueError("a block holds at least one player")
        return self._blocks(size)

    def _blocks(self, size: int) -> "Iterator[tuple[array[int], array[int], bytes]]":
        used = [number for number in range(len(self._ids)) if number in self]
        for first in range(0, len(used), size):
            piece = used[first : first + size]
            texts = [self.id_of(number).encode() for number in piece]
            yield array("I", piece), array("H", map(len, texts)), b"".join(texts)

    @property
    def bytes_used(self) -> int:
        """The approximate size of the table in memory."""
        return 200 * len(self._ids)

    def check(self) -> None:
        """Assert that the table agrees with itself."""
        used = {id: number for number, id in enumerate(self._ids) if id is not None}
        assert used == self._numbers
        assert len(used) + len(self._free) == len(self._ids)


class RankList:
    """One ranking, as a sorted list of (key, tie order, player)."""

    def __init__(
        self, width: int = 16, *, players: PlayerTable | None = None, dense: bool = False
    ) -> None:
        if width not in (16, 24, 32, 40, 48):
            raise ValueError(f"a key has 16, 24, 32, 40 or 48 bytes, not {width}")
        self.width, self.players, self.dense = width, players, dense
        self._entries: list[tuple[bytes, bytes, int]] = []
        self._keys: dict[int, bytes] = {}
        self._changes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, player: int) -> bool:
        return player in self._keys

    def _entry(self, player: int, key: bytes) -> tuple[bytes, bytes, int]:
        if self.players is None:
            return key, player.to_bytes(4, "big"), player
        return key, self.players.id_of(player).encode(), player

    def _checked(self, key: bytes) -> bytes:
        if type(key) is not bytes or len(key) != self.width:
            raise ValueError(f"keys of this list are {self.width} bytes")
        return key

    @staticmethod
    def _number(player: int) -> int:
        if not 0 <= player < NO_PLAYER:
            raise ValueError("a player's number is 0 to 4294967294")
        return player

    def put(self, player: int, key: bytes) -> tuple[int | None, int]:
        """Put a player where the key belongs, from wherever it was."""
        entry = self._entry(self._number(player), self._checked(key))
        previous = self.remove(player) if player in self else None
        insort(self._entries, entry)
        self._keys[player] = key
        self._changes += 1
        return previous, bisect_left(self._entries, entry) + 1

    def remove(self, player: int) -> int:
        """Take a player out; return the rank it had."""
        rank = self.rank_of(player)
        if rank is None:
            raise KeyError(player)
        del self._entries[rank - 1]
        del self._keys[player]
        self._changes += 1
        return rank

    def key_of(self, player: int) -> bytes | None:
        """Return the key a player has here, if any."""
        return self._keys.get(self._number(player))

    def rank_of(self, player: int) -> int | None:
        """Return a player's rank, if it has one."""
        key = self.key_of(player)
        if key is None:
            return None
        return bisect_left(self._entries, self._entry(player, key)) + 1

    def locate(self, id: str) -> tuple[int, bytes, int] | None:
        """Return rank, key and number of the player with an id, if it is here."""
        if self.players is None:
            raise ValueError("this list does not know its players by their ids")
        number = self.players.find(id)
        rank = None if number is None else self.rank_of(number)
        return None if number is None or rank is None else (rank, self._keys[number], number)

    def count_below(self, key: bytes) -> int:
        """Count the entries with a lesser key."""
        return bisect_left(self._entries, (self._checked(key),))

    def scores_below(self, key: bytes) -> int:
        """Count the distinct scores that are less than the key's."""
        if not self.dense:
            raise ValueError("this list does not count distinct scores: make it with dense=True")
        score = self._checked(key)[:-8]
        return len({k[:-8] for k in self._keys.values() if k[:-8] < score})

    def read(self, first_rank: int, count: int) -> "tuple[bytes, array[int]]":
        """Return the entries from a rank on: keys end to end, and players."""
        if first_rank < 1 or count < 0:
            raise ValueError("ranks count from 1")
        entries = self._entries[first_rank - 1 : first_rank - 1 + count]
        return b"".join(key for key, _, _ in entries), array("I", [p for _, _, p in entries])

    def __iter__(self) -> "Iterator[tuple[bytes, int]]":
        for keys, players in self.blocks():
            for i, player in enumerate(players):
                yield keys[i * self.width : (i + 1) * self.width], player

    def blocks(self, size: int = 4096) -> "Iterator[tuple[bytes, array[int]]]":
        """Yield all entries in pieces, as read() gives them."""
        if size < 1:
            raise ValueError("a block holds at least one entry")
        return self._blocks(size)

    def _blocks(self, size: int) -> "Iterator[tuple[bytes, array[int]]]":
        changes = self._changes
        for first_rank in range(1, len(self) + 1, size):
            if self._changes != changes:
                raise RuntimeError("the list changed while it was being read")
            yield self.read(first_rank, size)

    def _split(self, keys: "Buffer", count: int) -> list[bytes]:
        raw, width = bytes(keys), self.width
        if len(raw) != count * width:
            raise ValueError(f"{count} players need {count * width} bytes of keys, not {len(raw)}")
        return [raw[i * width : (i + 1) * width] for i in range(count)]

    def put_many(
        self, players: "Buffer", keys: "Buffer", *, ranks: bool = False
    ) -> "tuple[array[int], array[int]] | None":
        """Put one after another; with ranks, return those before and after each move."""
        previous, after = array("I"), array("I")
        numbers = memoryview(players).tolist()
        for player, key in zip(numbers, self._split(keys, len(numbers)), strict=True):
            try:
                was, now = self.put(player, key)
            except (KeyError, ValueError) as error:
                error.add_note(f"{len(after)} entries of the batch were put")
                raise
            previous.append(was or 0)
            after.append(now)
        return (previous, after) if ranks else None

    def rank_many(self, players: "Buffer") -> "array[int]":
        """Return each one's rank, 0 where it has none."""
        return array(
            "I", [self.rank_of(p) or 0 if p != NO_PLAYER else 0 for p in memoryview(players)]
        )

    def find_many(self, players: "Buffer") -> "tuple[array[int], bytes]":
        """Return each one's rank, and the keys end to end; 0 and zeros where it has none."""
        keys = [self._keys.get(player, bytes(self.width)) for player in memoryview(players)]
        return self.rank_many(players), b"".join(keys)

    def judge_many(
        self,
        players: "Buffer",
        scores: "Buffer",
        positions: "Buffer",
        deltas: "Buffer | None" = None,
        barred: "Buffer | None" = None,
        *,
        rules: "Rules",
    ) -> "Outcomes":
        """Judge submissions one after another, and move the counted entries."""
        columns = self.width // 8 - 1
        _check_rules(rules, columns + 1)
        if rules.ties == DENSE and not self.dense:
            raise ValueError("this list does not count distinct scores: make it with dense=True")
        numbers, given = memoryview(players).tolist(), memoryview(scores).tolist()
        marks = bytes(len(numbers)) if deltas is None else bytes(deltas)
        if len(given) != columns * len(numbers) or len(memoryview(positions)) != len(numbers):
            raise ValueError(f"{len(numbers)} players need {columns} scores and a position each")
        if len(marks) != len(numbers):
            raise ValueError(f"{len(numbers)} players need a mark each: is it a delta?")
        bars = bytes(len(numbers)) if barred is None else bytes(barred)
        if len(bars) != len(numbers):
            raise ValueError(f"{len(numbers)} players need a mark each: is it barred?")
        if not {0, HELD, REFUSED}.issuperset(bars):
            raise ValueError("a submission is held, refused or not barred")
        if rules.rule == FIRST and any(marks):
            raise ValueError("where the first scores stay there are no deltas")
        rows = zip(*[iter(given)] * columns, strict=True)
        outcomes = bytearray(), array("q"), array("q"), array("I"), array("I"), array("I")
        for place, (player, row, at) in enumerate(
            zip(numbers, rows, memoryview(positions), strict=True)
        ):
            adds = bool(marks[place]) or rules.rule == SUM
            try:
                told = self._judge(rules, player, row, at, adds=adds, barred=bars[place])
            except (KeyError, ValueError) as error:
                error.add_note(f"{len(outcomes[0])} entries of the batch were put")
                raise
            for column, values in zip(outcomes, told, strict=True):
                column.extend(values)
        return bytes(outcomes[0]), *outcomes[1:]

    def _judge(
        self,
        rules: "Rules",
        player: int,
        scores: tuple[int, ...],
        position: int,
        *,
        adds: bool,
        barred: int,
    ) -> "tuple[Sequence[int], ...]":
        """Judge one; return its row of each outcome."""
        key = self._keys.get(player)
        rank = 0 if key is None else self._shared_rank(rules.ties, player, key)
        before = (0,) * len(scores) if key is None else _scores_of(rules, key)
        verdict, wanted = (barred, before) if barred else _verdict(rules, scores, key, adds=adds)
        if verdict != _COUNTED or (key is not None and wanted == before):
            return (verdict,), before, before, (rank,), (rank,), (len(self),)
        key = _key_of(rules, wanted, position)
        self.put(player, key)
        now = self._shared_rank(rules.ties, player, key)
        return (verdict,), wanted, before, (now,), (rank,), (len(self),)

    def _shared_rank(self, ties: int, player: int, key: bytes) -> int:
        if ties == ORDINAL:
            return self.rank_of(player) or 0
        if ties == DENSE:
            return self.scores_below(key) + 1
        return self.count_below(key[:-8] + bytes(8)) + 1

    def load(self, blocks: "Iterable[tuple[Buffer, Buffer]]", *, expected: int = 0) -> None:
        """Fill an empty list with sorted entries, as blocks() gives them."""
        del expected
        entries: list[tuple[bytes, bytes, int]] = []
        for keys, players in blocks:
            numbers = memoryview(players).tolist()
            for player, key in zip(numbers, self._split(keys, len(numbers)), strict=True):
                if self.players is not None and player not in self.players:
                    raise ValueError("a player is not in the player table")
                entry = self._entry(player, key)
                if entries and entry <= entries[-1]:
                    raise ValueError("the entries of a bulk load must increase")
                entries.append(entry)
        if any(times > 1 for times in Counter(p for _, _, p in entries).values()):
            raise ValueError("a player comes twice")
        if self._entries:
            raise ValueError("only an empty list can be loaded")
        self._entries = entries
        self._keys = {player: key for key, _, player in entries}
        self._changes += 1

    @property
    def changes(self) -> int:
        """A number that grows with every change."""
        return self._changes

    @property
    def bytes_used(self) -> int:
        """The approximate size of the list in memory."""
        return 250 * len(self._entries)

    def check(self) -> None:
        """Assert that the list agrees with itself."""
        assert self._entries == sorted(self._entries)
        assert {player: key for key, _, player in self._entries} == self._keys


# ---- Judging -----------------------------------------------------------------------------------


def _check_rules(rules: "Rules", words: int) -> None:
    if rules.rule not in (BEST, LATEST, SUM, FIRST):
        raise ValueError(f"there is no rule {rules.rule}")
    if len(rules.masks) != words:
        raise ValueError(f"keys of this list need {words} masks")
    if rules.tie_factor not in (0, 1):
        raise ValueError("positions order equal scores or do not: 1 or 0")
    if rules.ties not in (ORDINAL, STANDARD, DENSE):
        raise ValueError(f"there are no ties {rules.ties}")
    if min(rules.low, rules.high) < _SCORE_MIN or max(rules.low, rules.high) > _SCORE_MAX:
        raise OverflowError("the bounds do not fit 64 bits")


def _key_of(rules: "Rules", scores: "Sequence[int]", position: int) -> bytes:
    numbers = (*(score & _WORD_MAX for score in scores), position * rules.tie_factor)
    words = [number ^ mask for number, mask in zip(numbers, rules.masks, strict=True)]
    return struct.pack(f">{len(words)}Q", *words)


def _scores_of(rules: "Rules", key: bytes) -> tuple[int, ...]:
    words = struct.unpack(f">{len(rules.masks)}Q", key)
    numbers = [word ^ mask for word, mask in zip(words, rules.masks, strict=True)][:-1]
    return tuple(number - (number >> 63 << 64) for number in numbers)


def _verdict(
    rules: "Rules", scores: tuple[int, ...], current: bytes | None, *, adds: bool
) -> tuple[int, tuple[int, ...]]:
    """Return the outcome of a submission, and its scores."""
    if adds and current is not None:
        scores = tuple(map(int.__add__, scores, _scores_of(rules, current)))
    if min(scores) < _SCORE_MIN or max(scores) > _SCORE_MAX:
        return _OVERFLOW, scores
    if not rules.low <= scores[0] <= rules.high:
        return _OUT_OF_BOUNDS, scores
    if current is None or adds or rules.rule == LATEST:
        return _COUNTED, scores
    better = _key_of(rules, scores, 0)[:-8] < current[:-8]
    return _COUNTED if rules.rule == BEST and better else _NOT_BETTER, scores
