"""The format of an archive file: one ranking of a sealed window, read-only, readable in parts.

The file, from its beginning to its end::

    blocks      BLOCK_ENTRIES entries each, in order, compressed with zlib: order keys end to end;
                the ends of the ids, 2 bytes each; ids end to end; metadata, if any, as MessagePack
    directory   a row for each block: offset, length and CRC-32 of its bytes, the number of distinct
                scores before it, and its first order key
    lookup      the slots of ``rank/lookup.h``: from a player's id to its row
    head        MessagePack: the sizes and places of the parts
    tail        length and CRC-32 of the head, 4 bytes each; MAGIC

Directory and lookup are cut into pages of PAGE_BYTES, each with its CRC-32 at the end. So every
byte is checked when it is read. A read of one entry costs a few pages in a ranking of any size.
All numbers are little-endian.
"""

import struct
import sys
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from rankd.errors import WindowArchiveDamaged
from rankd.rank import fill_lookup, lookup_hash

VERSION = 1
MAGIC = b"rankdarc"

BLOCK_ENTRIES = 128
"""Entries of a block. More compress better, and cost a read of one entry more."""

PAGE_BYTES = 4096
PAGE_BODY = PAGE_BYTES - 4
SLOTS_TOGETHER = PAGE_BODY // 4

SLOTS_FOR_THREE = 4
"""Slots for three ids: three quarters full, a search looks at two or three of them."""

SLOT_EMPTY = 2**32 - 1

_ROW = struct.Struct("<QIIQ")
_TAIL = struct.Struct("<II8s")
_LEVEL = 1  # The quickest: a higher one takes twice as long and saves a tenth.

T = TypeVar("T")


class ArchiveHead(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Sizes and places of the parts of a file."""

    version: int
    key_bytes: int
    dense: bool
    count: int
    scores: int
    """Distinct scores."""
    shown: int
    """Entries with metadata."""
    directory: int
    """The offset of the directory."""
    lookup: int
    """The offset of the lookup."""
    slots: int
    row_bits: int
    seed: int

    @property
    def row_bytes(self) -> int:
        """The size of a row of the directory."""
        return _ROW.size + self.key_bytes

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return -(-self.count // BLOCK_ENTRIES)


class ArchiveBlock(NamedTuple):
    """Consecutive entries."""

    keys: bytes
    ends: "array[int]"
    text: bytes
    metadata: dict[int, bytes]
    """By place in the block."""

    def id(self, place: int) -> bytes:
        """Return the id of an entry."""
        return self.text[self.ends[place - 1] if place else 0 : self.ends[place]]


class DirectoryRow(NamedTuple):
    """A row of the directory."""

    offset: int
    length: int
    crc: int
    scores_before: int
    first_key: bytes


class ArchivePages(Protocol):
    """The bytes of one archive, through a cache."""

    def get(self, offset: int, length: int, decode: Callable[[bytes], T]) -> T:
        """Return decoded bytes. Raises WindowArchiveDamaged where they are not to be had."""


encode_head = msgspec.msgpack.Encoder().encode
decode_head = msgspec.msgpack.Decoder(ArchiveHead).decode
_encode_beside = msgspec.msgpack.Encoder().encode
_decode_beside = msgspec.msgpack.Decoder(dict[int, bytes]).decode


def _swapped(numbers: "array[int]") -> "array[int]":
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers


# ------------------------------------------------------------------------------ writing


class ArchiveWriter:
    """The bytes of an archive, made from its entries in order, part by part.

    ``add`` takes any number of entries and returns the bytes that follow those before; ``finish``
    returns the rest.
    """

    def __init__(self, *, count: int, key_bytes: int, dense: bool, seed: int) -> None:
        self._count, self._key_bytes, self._dense, self._seed = count, key_bytes, dense, seed
        self._row_bits = max((count + 1).bit_length(), 1)
        self._slots = array("I", [SLOT_EMPTY]) * (count * SLOTS_FOR_THREE // 3 + 1 if count else 0)
        self._rows: list[bytes] = []
        self._added = self._offset = self._scores = self._shown = 0
        self._last_score = b""

    def add(self, keys: bytes, ids: tuple[bytes, "array[int]"], beside: dict[int, bytes]) -> bytes:
        """Add entries: a whole number of blocks, except at the end. Metadata is by place."""
        text, lengths = ids
        assert self._added % BLOCK_ENTRIES == 0, "only the last entries may fill no block"
        if lengths:
            fill_lookup(self._slots, self._row_bits, self._seed, self._added, text, lengths)
        ends = [0, *accumulate(lengths)]
        written: list[bytes] = []
        for first in range(0, len(lengths), BLOCK_ENTRIES):
            last = min(first + BLOCK_ENTRIES, len(lengths))
            some = keys[first * self._key_bytes : last * self._key_bytes]
            shown = (
                {place - first: beside[place] for place in range(first, last) if place in beside}
                if beside
                else {}
            )
            written.append(self._block(some, ends[first : last + 1], text, shown))
        self._added += len(lengths)
        self._shown += len(beside)
        return b"".join(written)

    def _block(
        self, keys: bytes, ends: Sequence[int], text: bytes, beside: dict[int, bytes]
    ) -> bytes:
        start = ends[0]
        places = _swapped(array("H", [end - start for end in ends[1:]])).tobytes()
        body = [keys, places, text[start : ends[-1]]]
        if beside:
            body.append(_encode_beside(beside))
        packed = zlib.compress(b"".join(body), _LEVEL)
        before = self._count_scores(keys) if self._dense else 0
        row = _ROW.pack(self._offset, len(packed), zlib.crc32(packed), before)
        self._rows.append(row + keys[: self._key_bytes])
        self._offset += len(packed)
        return packed

    def _count_scores(self, keys: bytes) -> int:
        """Count the distinct scores of a block; return how many there were before it."""
        before, width = self._scores, self._key_bytes
        for at in range(0, len(keys), width):
            score = keys[at : at + width - 8]
            if score != self._last_score:
                self._scores, self._last_score = self._scores + 1, score
        return before

    def finish(self) -> Iterator[bytes]:
        """Yield the rest of the bytes, in parts of some hundred kilobytes."""
        assert self._added == self._count, f"{self._added} entries, not {self._count}"
        together = PAGE_BODY // (_ROW.size + self._key_bytes)
        directory = self._offset
        for first in range(0, len(self._rows), together):
            yield self._paged(b"".join(self._rows[first : first + together]))
        lookup = self._offset
        for first in range(0, len(self._slots), SLOTS_TOGETHER):
            slots = _swapped(self._slots[first : first + SLOTS_TOGETHER])
            yield self._paged(slots.tobytes())
        head = encode_head(
            ArchiveHead(
                VERSION,
                self._key_bytes,
                self._dense,
                self._count,
                self._scores,
                self._shown,
                directory,
                lookup,
                len(self._slots),
                self._row_bits,
                self._seed,
            )
        )
        yield head + _TAIL.pack(len(head), zlib.crc32(head), MAGIC)

    def _paged(self, body: bytes) -> bytes:
        body = body.ljust(PAGE_BODY, b"\0")
        self._offset += PAGE_BYTES
        return body + zlib.crc32(body).to_bytes(4, "little")


# ------------------------------------------------------------------------------ reading


def read_head(size: int, read: Callable[[int, int], bytes]) -> ArchiveHead:
    """Return the head of an archive, read by offset and length. Raises WindowArchiveDamaged."""
    tail = read(size - _TAIL.size, _TAIL.size) if size >= _TAIL.size else b""
    if len(tail) == _TAIL.size and tail.endswith(MAGIC):
        length, crc, _ = _TAIL.unpack(tail)
        if length <= size - _TAIL.size:
            body = read(size - _TAIL.size - length, length)
            if zlib.crc32(body) == crc:
                head = decode_head(body)
                if head.version == VERSION:
                    return head
    raise WindowArchiveDamaged("it does not end as an archive does")


class ArchiveReader:
    """The entries of one archive, by row and by player. A row is a rank less one.

    Every call may raise WindowArchiveDamaged.
    """

    __slots__ = ("_directory_rows", "_pages", "head")

    def __init__(self, head: ArchiveHead, pages: ArchivePages) -> None:
        self.head = head
        self._pages = pages
        self._directory_rows = PAGE_BODY // head.row_bytes

    def __len__(self) -> int:
        return self.head.count

    # -- parts of the file --

    def _page(self, offset: int) -> bytes:
        return self._pages.get(offset, PAGE_BYTES, _checked_page)

    def _row(self, block: int) -> DirectoryRow:
        page, place = divmod(block, self._directory_rows)
        body = self._page(self.head.directory + page * PAGE_BYTES)
        at = place * self.head.row_bytes
        offset, length, crc, scores = _ROW.unpack_from(body, at)
        first_key = body[at + _ROW.size : at + self.head.row_bytes]
        return DirectoryRow(offset, length, crc, scores, first_key)

    def block(self, number: int) -> ArchiveBlock:
        """Return a block."""
        row, head = self._row(number), self.head
        count = min(BLOCK_ENTRIES, head.count - number * BLOCK_ENTRIES)

        def decode(packed: bytes) -> ArchiveBlock:
            if zlib.crc32(packed) != row.crc:
                raise WindowArchiveDamaged(f"block {number} is not what was written")
            return _decoded(zlib.decompress(packed), count, head.key_bytes)

        return self._pages.get(row.offset, row.length, decode)

    # -- by row --

    def key(self, row: int) -> bytes:
        """Return the order key of a row."""
        keys, at = self.block(row // BLOCK_ENTRIES).keys, row % BLOCK_ENTRIES
        return keys[at * self.head.key_bytes : (at + 1) * self.head.key_bytes]

    def entry(self, row: int) -> tuple[bytes, bytes, bytes | None]:
        """Return order key, id and metadata of a row."""
        block, at = self.block(row // BLOCK_ENTRIES), row % BLOCK_ENTRIES
        width = self.head.key_bytes
        return block.keys[at * width : (at + 1) * width], block.id(at), block.metadata.get(at)

    def entries(self, first: int, last: int) -> Iterator[tuple[bytes, bytes, bytes | None]]:
        """Yield order key, id and metadata of the rows from one to before another."""
        width = self.head.key_bytes
        while first < last:
            number, start = divmod(first, BLOCK_ENTRIES)
            block = self.block(number)
            for at in range(start, min(len(block.ends), start + last - first)):
                yield (
                    block.keys[at * width : (at + 1) * width],
                    block.id(at),
                    block.metadata.get(at),
                )
            first = (number + 1) * BLOCK_ENTRIES

    # -- by player --

    def find(self, id: bytes) -> int | None:
        """Return the row of a player; None without an entry."""
        head = self.head
        if not head.slots:
            return None
        hash = lookup_hash(head.seed, id)
        tag, rows = hash << head.row_bits & SLOT_EMPTY, (1 << head.row_bits) - 1
        slot = (hash >> 32) * head.slots >> 32
        for _ in range(head.slots):
            found = self._slot(slot)
            if found == SLOT_EMPTY:
                return None
            if found & ~rows == tag and self._is_id(found & rows, id):
                return found & rows
            slot = slot + 1 if slot + 1 < head.slots else 0
        return None

    def _slot(self, slot: int) -> int:
        page, place = divmod(slot, SLOTS_TOGETHER)
        body = self._page(self.head.lookup + page * PAGE_BYTES)
        return int.from_bytes(body[4 * place : 4 * place + 4], "little")

    def _is_id(self, row: int, id: bytes) -> bool:
        return self.block(row // BLOCK_ENTRIES).id(row % BLOCK_ENTRIES) == id

    # -- by place --

    def count_before(self, key: bytes, id: bytes = b"") -> int:
        """Count the entries before a place, which may be free. O(log n)."""

        def after_block(number: int) -> bool:
            """Whether a block begins at the place or behind it."""
            first = self._row(number).first_key
            return first > key or (first == key and (not id or self.block(number).id(0) >= id))

        block = bisect_left(range(self.head.blocks), True, key=after_block) - 1
        if block < 0:
            return 0
        found = self.block(block)
        width = self.head.key_bytes

        def at_or_after(at: int) -> bool:
            there = found.keys[at * width : (at + 1) * width]
            return there > key or (there == key and (not id or found.id(at) >= id))

        count = len(found.ends)
        return block * BLOCK_ENTRIES + bisect_left(range(count), True, key=at_or_after)

    def scores_below(self, key: bytes) -> int:
        """Count the distinct scores that are less than the key's. O(log n)."""
        score, width = key[:-8], self.head.key_bytes
        rows = range(self.head.blocks)
        block = bisect_left(rows, score, key=lambda one: self._row(one).first_key[:-8]) - 1
        if block < 0:
            return 0
        keys = self.block(block).keys
        scores = [keys[at : at + width - 8] for at in range(0, len(keys), width)]
        below = bisect_left(scores, score)
        distinct = 1 + sum(one != other for one, other in pairwise(scores[:below]))
        return self._row(block).scores_before + distinct - self._goes_on(block, scores[0])

    def _goes_on(self, block: int, score: bytes) -> int:
        """Return 1 if the first score of a block is the last of the one before."""
        return int(bool(block) and self.key(block * BLOCK_ENTRIES - 1)[:-8] == score)


def _checked_page(body: bytes) -> bytes:
    if zlib.crc32(body[:PAGE_BODY]) != int.from_bytes(body[PAGE_BODY:], "little"):
        raise WindowArchiveDamaged("a page is not what was written")
    return body


def _decoded(body: bytes, count: int, key_bytes: int) -> ArchiveBlock:
    ends, start = array("H"), count * key_bytes
    ends.frombytes(body[start : start + 2 * count])
    ends = _swapped(ends)
    text_at = start + 2 * count
    beside_at = text_at + ends[-1]
    beside = _decode_beside(body[beside_at:]) if beside_at < len(body) else {}
    return ArchiveBlock(body[:start], ends, body[text_at:beside_at], beside)
