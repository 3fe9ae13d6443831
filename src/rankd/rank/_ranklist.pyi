"""The native rank list, as Python sees it.

Players are numbers from a `PlayerTable` (or any numbers below NO_PLAYER, for a list made without
one). Keys are byte strings of the list's width, compared byte by byte: the lesser key is the
better. All bytes but the last eight are the score; equal scores are ordered by the last eight, and
equal keys by the players' ids. Ranks count from 1.

Every call is whole: when it raises, MemoryError included, nothing has changed. (A batch stops at
the entry that failed, and a note on the exception says how many were put.)
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeAlias, overload

from rankd.rank.rules import Rules

# Anything contiguous: `array("I")`, bytes, a memoryview, a numpy array. Players and ranks are
# unsigned 32-bit, lengths unsigned 16-bit, scores signed and positions unsigned 64-bit, keys and
# text plain bytes.
Buffer: TypeAlias = bytes | bytearray | memoryview | array[int]

# What judging did, a row for each submission: verdicts (0 counted, 1 not better, 2 out of bounds,
# 3 overflow), scores after and before, ranks just after and just before, totals. Ranks and scores
# are 0 where there is no entry.
Outcomes: TypeAlias = tuple[bytes, array[int], array[int], array[int], array[int], array[int]]

NO_PLAYER: int
ID_BYTES_MAX: int

def fail_allocation(k: int) -> None:
    """Let the k-th allocation from now fail, and no other; 0 lets none fail. For tests."""

def allocations() -> int:
    """How many allocations there have been. For tests."""

def bytes_in_use() -> int:
    """Bytes that all lists and tables of this process hold. For tests."""

def lookup_hash(seed: int, id: Buffer) -> int:
    """Return the 64-bit hash of an id in a lookup table; the same on every machine."""

def fill_lookup(
    slots: Buffer, row_bits: int, seed: int, first_row: int, text: Buffer, lengths: Buffer
) -> None:
    """Put ids that lie end to end into the slots of lookup.h, from a row on."""

class PlayerTable:
    """Every player id once, as a 32-bit number. Same behaviour as ``oracle.PlayerTable``, in C."""

    def __init__(self, seed: int | None = None) -> None: ...
    def __len__(self) -> int: ...
    def __contains__(self, number: int) -> bool: ...
    def intern(self, id: str) -> int:
        """Return the id's number, given now if it has none. O(1)."""

    def find(self, id: str) -> int | None:
        """Return the id's number, if it has one. O(1)."""

    def intern_many(self, ids: Sequence[str]) -> array[int]:
        """Intern one after another, several times faster than one by one.

        If one is refused, some of those before it may be interned: that does no harm.
        """

    def find_many(self, ids: Sequence[str]) -> array[int]:
        """Find one after another; NO_PLAYER where there is none."""

    def expect(self, count: int) -> None:
        """Make room for so many ids in one go, if the table is empty. A guess does no harm."""

    def intern_packed(self, text: Buffer, lengths: Buffer) -> array[int]:
        """Intern ids that lie end to end in one text, without a Python object for any."""

    def id_of(self, number: int) -> str:
        """Return the id that has this number; KeyError if none has. O(1)."""

    def ids_of(self, numbers: Buffer) -> list[str]:
        """Return the ids that have these numbers."""

    def pack_ids(self, numbers: Buffer) -> tuple[bytes, array[int]]:
        """Return the ids that have these numbers, end to end, and the length of each."""

    def remove(self, number: int) -> None:
        """Forget an id; its number may be given out again. KeyError if none has it. O(1).

        The caller has taken the player out of every list before.
        """

    def blocks(self, size: int = 4096) -> Iterator[tuple[array[int], array[int], bytes]]:
        """Yield the table in pieces: numbers, lengths of ids, ids end to end."""

    @property
    def bytes_used(self) -> int:
        """Bytes the table occupies, ids included."""

    def check(self) -> None:
        """Assert the invariants of players.h. O(n)."""

class RankList:
    """An ordered set of entries that knows ranks. Same behaviour as ``oracle.RankList``, in C."""

    width: int
    players: PlayerTable | None
    dense: bool

    def __init__(
        self, width: int = 16, *, players: PlayerTable | None = None, dense: bool = False
    ) -> None: ...
    def __len__(self) -> int: ...
    def __contains__(self, player: int) -> bool: ...
    def __iter__(self) -> Iterator[tuple[bytes, int]]: ...
    def put(self, player: int, key: bytes) -> tuple[int | None, int]:
        """Put a player where the key belongs, from wherever it was. O(log n).

        Return its rank before, None if it was not in, and after.
        """

    def remove(self, player: int) -> int:
        """Take a player out; return the rank it had. KeyError if it is not in. O(log n)."""

    def key_of(self, player: int) -> bytes | None:
        """Return the key a player has here, if any. O(1)."""

    def rank_of(self, player: int) -> int | None:
        """Return a player's rank, if it has one. O(log n)."""

    def locate(self, id: str) -> tuple[int, bytes, int] | None:
        """Return rank, key and number of the player with an id, if it is here."""

    def count_below(self, key: bytes) -> int:
        """Count the entries with a lesser key; the key need not be there. O(log n)."""

    def scores_below(self, key: bytes) -> int:
        """Count the distinct scores less than the key's. Only where dense. O(log n)."""

    def read(self, first_rank: int, count: int) -> tuple[bytes, array[int]]:
        """Return the entries from a rank on: keys end to end, and players. O(log n + count)."""

    def blocks(self, size: int = 4096) -> Iterator[tuple[bytes, array[int]]]:
        """Yield all entries in pieces, as read() gives them; RuntimeError if the list changes."""

    @overload
    def put_many(self, players: Buffer, keys: Buffer, *, ranks: Literal[False] = False) -> None: ...
    @overload
    def put_many(
        self, players: Buffer, keys: Buffer, *, ranks: Literal[True]
    ) -> tuple[array[int], array[int]]:
        """Put one after another, several times faster than one by one.

        With ranks, return those just before and just after each one's own move; 0 is "not in".
        """

    def rank_many(self, players: Buffer) -> array[int]:
        """Return each one's rank, 0 where it has none. Several times faster than one by one."""

    def find_many(self, players: Buffer) -> tuple[array[int], bytes]:
        """Return each one's rank, and the keys end to end; 0 and zeros where it has none."""

    def judge_many(
        self,
        players: Buffer,
        scores: Buffer,
        positions: Buffer,
        deltas: Buffer | None = None,
        barred: Buffer | None = None,
        *,
        rules: Rules,
    ) -> Outcomes:
        """Judge submissions one after another, and move what counts. Several times faster so.

        There are as many ``scores`` for each as a key has words of score. Where ``deltas`` has a 1
        they are added whatever the rule, which FIRST does not know. Sums are held to 64 bits, then
        to the bounds. A key changes only if its scores do. Where ``barred`` has HELD or REFUSED,
        that is the verdict, and the entry stays as it is.

        Should memory run out midway, a note tells how many were judged; they stay judged.
        """

    def load(self, blocks: Iterable[tuple[Buffer, Buffer]], *, expected: int = 0) -> None:
        """Fill an empty list with sorted entries, as blocks() gives them. All or nothing. O(n).

        It is quicker if one tells how many entries to expect; a wrong guess does no harm.
        """

    @property
    def changes(self) -> int:
        """A number that grows with every change."""

    @property
    def bytes_used(self) -> int:
        """Bytes the list occupies, the player table aside."""

    def check(self) -> None:
        """Assert the invariants of ranklist.h, tree.h and hash.h. O(n)."""
