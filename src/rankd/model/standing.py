"""Where a player stands: ranks, the ways to share them, and the pages they are read by.

An index keeps entries in order and can count. Everything a reader sees beyond that is arithmetic
on those counts, and it is done here, once, so that the native list, Redis and an archive show
the same rank for the same entry.

Two bases of counting meet in this file and nowhere else: a ``Rank`` counts from 1 and is shown to
people, an ``Offset`` counts from 0 and is a distance. They are different types because the mistake
of one for the other is silent and always off by one player.

Receipts and pages are stored as columns, in smallest units, for speed. ``ReprMixin`` gives them a
``repr`` that shows ranks and scores instead, and costs nothing until it is called.
"""

import binascii
import struct
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Context, Decimal
from enum import Enum, StrEnum
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NewType, overload
from zlib import crc32

import msgspec

from rankd.errors import FieldError, InvalidCursor, InvalidPage
from rankd.model.facts import Position
from rankd.model.window import Instant

Words = Iterator[tuple[str, Any] | tuple[str, Any, Any]]
"""Each word and its value; a third is the value that goes without saying."""


class ReprMixin:
    """Adds a ``repr`` of the class name and ``_words()``, also for rich."""

    __slots__ = ()

    def _words(self) -> Words:
        raise NotImplementedError

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [(word, value) for word, value, *default in self._words() if [value] != default]

    def __repr__(self) -> str:
        said = ", ".join(f"{word}={value!r}" for word, value in self.__rich_repr__())
        return f"{type(self).__name__}({said})"


Rank = NewType("Rank", int)
"""A place in a ranking, counted from 1."""

Offset = NewType("Offset", int)
"""A distance from the first entry, counted from 0."""

PAGE_LIMIT_DEFAULT = 10
"""Most readers want a top ten."""

PAGE_LIMIT_MAX = 1000
"""About 100 KB of answer: large enough to walk a board, small enough to build in one turn."""

NEIGHBOURS_DEFAULT = 5
"""Either side: eleven rows fill a phone."""

NEIGHBOURS_MAX = 100
"""Either side. Longer lists are read as pages."""

assert PAGE_LIMIT_DEFAULT <= PAGE_LIMIT_MAX
assert NEIGHBOURS_DEFAULT <= NEIGHBOURS_MAX < PAGE_LIMIT_MAX


class TieRule(StrEnum):
    """How entries with equal scores share ranks when they are shown."""

    ORDINAL = "ordinal"
    """1 2 3 4: they do not; the tie-break decides."""
    STANDARD = "standard"
    """1 2 2 4: they share the best of their ranks, and the next rank is skipped."""
    DENSE = "dense"
    """1 2 2 3: they share a rank, and none is skipped."""


class Standing(ReprMixin, msgspec.Struct, frozen=True, gc=False):
    """An entry with its rank, true at the position ``as_of``."""

    rank: Rank
    player: str
    scores: tuple[int, ...]
    total: int
    """How many entries the ranking had."""
    as_of: Position
    decimals: int = 0
    """Of the board's scores."""
    name: str | None = None
    """The player's current display name, from its profile."""
    metadata_json: bytes | None = None
    """The metadata of the counted submission, as JSON."""
    place: Rank | None = None
    """The rank among the players of one lookup."""
    stale: bool = False
    """Whether it was read without the index, and may be older than earlier answers."""
    ordinal: Rank | None = None
    """Its unique place, every entry counted; None on boards whose ranks are unique anyway."""
    raw: int | None = None
    """On boards with decay the score as it was recorded, in smallest units."""
    at: Instant | None = None
    """On boards with decay the instant whose score it shows, in microseconds since 1970."""
    previous_rank: int | None = None
    """The rank at the baseline, 0 for none; None or -1 if that is not known."""

    @property
    def raw_score(self) -> int | Decimal | None:
        """On boards with decay the score as it was recorded; else None."""
        return None if self.raw is None else shown_score(self.raw, self.decimals)

    @property
    def rank_change(self) -> int | None:
        """How many ranks the player has risen since the baseline; None where that is not known."""
        before = self.previous_rank
        return before - self.rank if before is not None and before > 0 else None

    @property
    def new(self) -> bool:
        """Whether the player had no rank at the baseline."""
        return self.previous_rank == 0

    @property
    def score(self) -> int | Decimal:
        """The first column as people see it."""
        return shown_score(self.scores[0], self.decimals)

    @property
    def metadata(self) -> Any:
        """The metadata of the counted submission; None if it had none."""
        return None if self.metadata_json is None else msgspec.json.decode(self.metadata_json)

    @property
    def percentile(self) -> float:
        """The share of the ranking that is at or below this rank, in percent."""
        return percentile(self.rank, self.total)

    def _words(self) -> Words:
        yield "rank", self.rank
        yield "ordinal", self.ordinal, None
        yield "place", self.place, None
        yield "player", self.player
        yield "name", self.name, None
        yield "score", self.score
        yield "raw_score", self.raw_score, None
        yield "scores", self.scores, self.scores[:1]
        yield "total", self.total
        yield "percentile", self.percentile
        yield "metadata", self.metadata, None
        yield "rank_change", self.rank_change, None
        yield "new", self.new, False
        yield "as_of", self.as_of
        yield "stale", self.stale, False


class Standings(ReprMixin):
    """A sequence of standings, with attributes of its own."""

    __slots__ = ()

    @property
    def standings(self) -> Sequence[Standing]:
        """The list it is read like."""
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.standings)

    def __iter__(self) -> Iterator[Standing]:
        return iter(self.standings)

    def __reversed__(self) -> Iterator[Standing]:
        return reversed(self.standings)

    def __contains__(self, standing: object) -> bool:
        return standing in self.standings

    @overload
    def __getitem__(self, which: int) -> Standing: ...
    @overload
    def __getitem__(self, which: slice) -> Sequence[Standing]: ...
    def __getitem__(self, which: int | slice) -> Standing | Sequence[Standing]:
        return self.standings[which]

    def index(self, standing: object, *bounds: int) -> int:
        """Return where a standing is, counted from 0. Raises ValueError."""
        return self.standings.index(standing, *bounds)

    def count(self, standing: object) -> int:
        """Return how often a standing is in it."""
        return self.standings.count(standing)

    def __eq__(self, other: object) -> bool:
        """Whether the other is the same, or a list of the same standings."""
        return self.standings == other if isinstance(other, list) else super().__eq__(other)

    __hash__ = None  # type: ignore[assignment] # As of a list.


def shown_score(scaled: int, decimals: int) -> int | Decimal:
    """Return a score as people see it: an integer, or exactly so many decimals, never a float."""
    return scaled if decimals == 0 else Decimal(scaled).scaleb(-decimals, _EXACT)


_EXACT = Context(prec=28)  # Ours, whatever the program around us does to the thread's own.


def percentile(rank: Rank, total: int) -> float:
    """Return the share of ``total`` entries at or below ``rank``: 100.0 for the first of any."""
    assert 1 <= rank <= total, (rank, total)
    return round((total - rank + 1) / total * 100, 2)


# ------------------------------------------------------------------------ shown ranks


def ranks_of_page(
    rule: TieRule, prefixes: Iterable[bytes], *, ordinal: Rank, shown: Rank
) -> list[Rank]:
    """Return the rank to show for each of some consecutive entries.

    Args:
        rule: how equal scores share ranks.
        prefixes: the score part of each entry's order key, in order; equal bytes are equal scores.
        ordinal: the place of the first of them, every entry before it counted.
        shown: the rank of the first of them under ``rule``. It is less than ``ordinal`` when the
            page begins inside a tie, or, under dense ranks, after one.
    """
    assert 1 <= shown <= ordinal, (shown, ordinal)
    ranks: list[Rank] = []
    previous: bytes | None = None
    for place, prefix in enumerate(prefixes, start=ordinal):
        if previous is not None and (rule is TieRule.ORDINAL or prefix != previous):
            shown = Rank(shown + 1 if rule is TieRule.DENSE else place)
        ranks.append(shown)
        previous = prefix
    return ranks


# ----------------------------------------------------------------- which ranks to read


def page_bounds(
    *,
    total: int,
    limit: int = PAGE_LIMIT_DEFAULT,
    offset: Offset | None = None,
    from_rank: Rank | None = None,
) -> tuple[Rank, int]:
    """Return the first rank of a page and how many entries it has: none when it lies past the end.

    Raises InvalidPage when the page is unbounded, empty by request, or begun in two places.
    """
    errors = _outside("limit", limit, low=1, high=PAGE_LIMIT_MAX)
    if offset is not None and from_rank is not None:
        errors.append(FieldError("from_rank", "cannot be combined with offset"))
    if offset is not None and offset < 0:
        errors.append(FieldError("offset", "must be 0 or more"))
    if from_rank is not None and from_rank < 1:
        errors.append(FieldError("from_rank", "must be 1 or more"))
    if errors:
        raise InvalidPage(errors)
    first = from_rank if from_rank is not None else Rank((offset or 0) + 1)
    return first, max(0, min(limit, total - first + 1))


def neighbourhood(
    rank: Rank,
    *,
    total: int,
    above: int = NEIGHBOURS_DEFAULT,
    below: int = NEIGHBOURS_DEFAULT,
) -> tuple[Rank, int]:
    """Return the first rank of a neighbourhood and how many entries it has.

    Neighbours missing at one edge are added at the other, so that the first of a board with two
    above and two below sees the first five, not the first three.

    Raises InvalidPage when more neighbours are asked for than anyone is given.
    """
    assert 1 <= rank <= total, (rank, total)
    if not (0 <= above <= NEIGHBOURS_MAX and 0 <= below <= NEIGHBOURS_MAX):
        errors = _outside("above", above, low=0, high=NEIGHBOURS_MAX)
        raise InvalidPage(errors + _outside("below", below, low=0, high=NEIGHBOURS_MAX))
    count = min(above + 1 + below, total)
    first = min(max(rank - above, 1), total - count + 1)
    return Rank(first), count


def stretch_around(rank: Rank, *, reach: int) -> tuple[Rank, int]:
    """Return the first rank within ``reach`` of a rank, and how many ranks there are at most.

    Raises InvalidPage. The edges are not made up here: exactly these ranks are returned.
    """
    errors = _outside("range", reach, low=0, high=NEIGHBOURS_MAX)
    if rank < 1:
        errors.append(FieldError("rank", "must be 1 or more"))
    if errors:
        raise InvalidPage(errors)
    first = max(rank - reach, 1)
    return Rank(first), rank + reach - first + 1


class Absent(StrEnum):
    """The end of a ranking that stands in for the neighbourhood of a player without an entry."""

    TOP = "top"
    BOTTOM = "bottom"


def read_absent(text: str | None) -> Absent | None:
    """Return the end of a ranking that a text names. Raises InvalidPage."""
    try:
        return None if text is None else Absent(text)
    except ValueError:
        message = f"must be one of {', '.join(Absent)}"
        raise InvalidPage([FieldError("absent", message)]) from None


def rank_at_percentile(share: float, *, total: int) -> Rank | None:
    """Return the last rank whose percentile is at least ``share``; None in an empty ranking.

    Raises InvalidPage unless the share lies above 0 and up to 100.
    """
    if not 0 < share <= 100:
        raise InvalidPage([FieldError("percentile", "must lie above 0 and be at most 100")])
    if total == 0:
        return None
    rank = Rank(min(max(int(total - share / 100 * total) + 1, 1), total))
    while rank > 1 and percentile(rank, total) < share:
        rank = Rank(rank - 1)
    while rank < total and percentile(Rank(rank + 1), total) >= share:
        rank = Rank(rank + 1)
    return rank


def _outside(field: str, value: int, *, low: int, high: int) -> list[FieldError]:
    if low <= value <= high:
        return []
    return [FieldError(field, f"must lie between {low} and {high}")]


# ----------------------------------------------------------------------------- cursors

# Layout of a token, before base64:
#
#     1  version
#     4  CRC-32 of everything after it
#     8  digest of the ranking's identity
#     1  the way: 0 towards worse, 1 towards better
#     1  length of the order key
#     n  the order key of the last entry seen
#     *  its player, UTF-8
#
# The checksum finds accidents, not forgers, and need not: a forged cursor is a valid place in a
# ranking that its maker may read anyway.

_VERSION = 1
_HEAD = struct.Struct(">BI")
_PLACE = struct.Struct(">8sBB")

_URL_SAFE = bytes.maketrans(b"+/", b"-_")

CURSOR_LENGTH_MAX = 512
"""Holds the longest order key and player id with room to spare; longer text is not decoded."""


class Way(Enum):
    """Which way a cursor goes on through a ranking."""

    NEXT = 0
    """Towards worse entries, as one reads down a board."""
    PREVIOUS = 1
    """Towards better ones."""


class Cursor(msgspec.Struct, frozen=True, gc=False):
    """A place between two entries of a ranking, and the way to read on from it.

    It remembers the entry last seen by its order key, not by its rank: while scores change, ranks
    shift under a reader's feet and pages by rank repeat some players and skip others. With a
    cursor, a player that did not move is met exactly once.
    """

    order_key: bytes
    player: str
    way: Way = Way.NEXT

    def encode(self, ranking: str) -> str:
        """Return the opaque token, fit for a URL, good for this ranking alone.

        ``ranking`` must name everything that makes order keys comparable: board, window and
        segment, and the order itself where a board can be redefined.
        """
        return stamp(ranking, self.way, len(self.order_key))(self.order_key, self.player)

    @classmethod
    def decode(cls, token: str, ranking: str, *, key_bytes: int) -> "Cursor":
        """Return the cursor, whose order key is as long as those of the ranking.

        Raises InvalidCursor if it is damaged, foreign or not one at all.
        """
        body = _checked_body(token)
        try:
            identity, way, length = _PLACE.unpack_from(body)
            order_key, player = body[_PLACE.size :][:length], body[_PLACE.size + length :]
            cursor = cls(order_key, player.decode(), Way(way))
        except (struct.error, ValueError) as exc:
            raise InvalidCursor("is damaged") from exc
        if identity != _identity(ranking):
            raise InvalidCursor("belongs to another ranking")
        if len(order_key) != key_bytes or not player:
            raise InvalidCursor("is damaged")
        return cursor


def stamp(ranking: str, way: Way, key_bytes: int) -> Callable[[bytes, str], str]:
    """Return an encoder of cursors in one ranking: every page has two of them."""
    place, pack = _PLACE.pack(_identity(ranking), way.value, key_bytes), _HEAD.pack
    checksum, as_base64 = crc32(place), binascii.b2a_base64

    def encode(order_key: bytes, player: str) -> str:
        entry = order_key + player.encode()
        raw = pack(_VERSION, crc32(entry, checksum)) + place + entry
        return as_base64(raw, newline=False).translate(_URL_SAFE, b"=").decode("ascii")

    return encode


def _as_text(raw: bytes) -> bytes:
    """Return bytes as letters that need no escaping in a URL."""
    return binascii.b2a_base64(raw, newline=False).translate(_URL_SAFE, b"=")


@lru_cache(maxsize=4096)
def _identity(ranking: str) -> bytes:
    return blake2b(ranking.encode(), digest_size=8).digest()


def _checked_body(token: str) -> bytes:
    if len(token) > CURSOR_LENGTH_MAX:
        raise InvalidCursor("is too long to be one")
    try:
        raw = b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        version, checksum = _HEAD.unpack_from(raw)
    except (binascii.Error, ValueError, struct.error) as exc:
        raise InvalidCursor("is damaged") from exc
    body = raw[_HEAD.size :]
    # Base64 has several spellings for some last bytes; only the one we wrote is ours.
    if checksum != crc32(body) or _as_text(raw) != token.encode():
        raise InvalidCursor("is damaged")
    if version != _VERSION:
        raise InvalidCursor("is of another version")
    return body
