"""The contents of an index in this process: players, rankings, and their checkpoint.

Invariants, asserted by ``IndexState.check``:

1. Every player of the table is held by as many lists as ``held`` says, and by at least one; free
numbers are held by none. A list that was dropped holds its players until they are released.
2. Metadata is kept for entries that are there, and only where there is some.
3. Every list orders the players of the one table.
4. A ranking is a draft if its name says so, and only then.
5. A ranking is in memory or archived, never both, and drafts are in memory.
"""

import hashlib
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from rankd.adapters.memory.archived_ranking import ArchivedRanking
from rankd.adapters.memory.archived_rankings import ArchivedRankings
from rankd.model.board import Board
from rankd.model.facts import Position
from rankd.ports import DRAFT, Ranking, RankingShape
from rankd.rank import PlayerTable, RankList
from rankd.rank.rules import Rules

NOTHING_APPLIED = Position(0)

DIGEST_BLOCK_ENTRIES = 4096
"""Part of the digest's definition: changing it changes every digest."""


class Entries:
    """One ranking: its list, and the metadata of some of its entries, by player number."""

    __slots__ = ("draft", "gone", "metadata", "ranks")

    def __init__(
        self, ranks: RankList, metadata: dict[int, bytes] | None = None, *, draft: bool = False
    ) -> None:
        self.ranks = ranks
        self.draft = draft
        """Until it is adopted."""
        self.gone = False
        """Whether it was dropped, or archived."""
        self.metadata: dict[int, bytes] = {} if metadata is None else metadata

    @property
    def shape(self) -> RankingShape:
        """The shape it was opened with."""
        return RankingShape(self.ranks.width, self.ranks.dense)


@dataclass(slots=True)
class IndexState:
    """All that an index holds."""

    players: PlayerTable
    checkpoint: Position = NOTHING_APPLIED
    rankings: dict[Ranking, Entries] = field(default_factory=dict)
    held: "array[int]" = field(default_factory=lambda: array("I"))
    """By player number: how many lists the player is in."""
    archived: ArchivedRankings = field(default_factory=ArchivedRankings)
    """Rankings of sealed windows, whose entries are not in memory."""
    rules: dict[str, tuple[Board, Rules]] = field(default_factory=dict)
    """A cache: the rules of boards as rank lists take them, by name."""

    def digest(self) -> bytes:
        """Return a digest that is equal for indexes that folded the same facts. O(n).

        Players count by their ids: their numbers depend on the order in which they came. Drafts do
        not count: their progress differs between nodes. Nor do empty segments: an index may drop
        them or not, and they read alike.
        """
        digest = hashlib.sha256()
        for ranking in sorted({*self.rankings, *self.archived}, key=_by_name):
            for part in self._digested(ranking):
                digest.update(len(part).to_bytes(8, "little"))
                digest.update(part)
        return digest.digest()

    def _digested(self, ranking: Ranking) -> Iterable[bytes]:
        """Return a ranking's bytes, none if it does not count."""
        archived = self.archived.get(ranking)
        if archived is not None:
            return _archived_parts(ranking, archived)
        entries = self.rankings[ranking]
        if entries.draft or (ranking.segment is not None and not len(entries.ranks)):
            return ()
        return self._parts(ranking, entries)

    def _parts(self, ranking: Ranking, entries: Entries) -> Iterator[bytes]:
        """Yield a ranking's bytes in an order from which it could be read back."""
        yield msgspec.json.encode((ranking, entries.shape, len(entries.ranks)))
        beside = entries.metadata
        for keys, numbers in entries.ranks.blocks(DIGEST_BLOCK_ENTRIES):
            ids = [id.encode() for id in self.players.ids_of(numbers)]
            yield keys
            yield little_endian(array("H", map(len, ids))).tobytes()
            yield b"".join(ids)
            if beside:
                shown = [(at, beside[n]) for at, n in enumerate(numbers) if n in beside]
                yield msgspec.msgpack.encode(shown)

    def check(self, leaving: "array[int]") -> None:
        """Assert the invariants, given the players that dropped lists still hold. O(n)."""
        self.players.check()
        held = array("I", bytes(4 * len(self.held)))
        for number in leaving:
            held[number] += 1
        assert self.archived.keys().isdisjoint(self.rankings), "(5)"
        assert not any(map(is_draft, self.archived)), "(5)"
        for ranking, entries in self.rankings.items():
            assert entries.draft is is_draft(ranking), "(4)"
            entries.ranks.check()
            assert entries.ranks.players is self.players, "(3)"
            for _, number in entries.ranks:
                held[number] += 1
            assert all(number in entries.ranks for number in entries.metadata), "(2)"
        assert held == self.held, "(1)"
        assert len(held) - held.count(0) == len(self.players), "(1)"
        assert all(number in self.players for number, times in enumerate(held) if times), "(1)"


def is_draft(ranking: Ranking) -> bool:
    """Whether a ranking is a draft, which readers do not see."""
    return ranking.board.startswith(DRAFT)


def _archived_parts(ranking: Ranking, archived: ArchivedRanking) -> Iterator[bytes]:
    """Yield an archived ranking's bytes, as if it were in memory."""
    if ranking.segment is not None and not len(archived):
        return
    yield msgspec.json.encode((ranking, archived.shape, len(archived)))
    shows = archived.has_metadata
    for keys, text, lengths, beside in archived.columns(DIGEST_BLOCK_ENTRIES):
        yield keys
        yield little_endian(lengths).tobytes()
        yield text
        if shows:
            yield msgspec.msgpack.encode(list(beside.items()))


def _by_name(ranking: Ranking) -> tuple[str, str, bool, str]:
    return ranking.board, ranking.window, ranking.segment is not None, ranking.segment or ""


def count_before(players: PlayerTable, ranks: RankList, key: bytes, player: str) -> int:
    """Count the entries before a place, which may be free. O(log² n).

    Among those with this very key, by halving: all may have one key.
    """
    below = ranks.count_below(key)
    if not player:
        return below
    following = _following(key)
    end = len(ranks) if following is None else ranks.count_below(following)

    def id_at(offset: int) -> str:
        return players.id_of(ranks.read(offset + 1, 1)[1][0])

    # Strings compare by code points, which is how their UTF-8 compares byte by byte.
    return below + bisect_left(range(below, end), player, key=id_at)


def count_through(players: PlayerTable, ranks: RankList, key: bytes, player: str) -> int:
    """Count the entries before a place, and the entry at it."""
    return count_before(players, ranks, key, player + "\0")  # No id lies between the two.


def _following(key: bytes) -> bytes | None:
    """Return the least key that is greater, if there is one."""
    number = int.from_bytes(key, "big") + 1
    return number.to_bytes(len(key), "big") if number < 1 << (8 * len(key)) else None


def little_endian(numbers: "array[int]") -> "array[int]":
    """Return the numbers as files and digests have them: mostly as they are."""
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers
