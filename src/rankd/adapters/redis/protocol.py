"""Protocol of a partition: names of its keys, queries, and replies as of an earlier position.

Arguments and replies of the scripts are few values, because redis-py spends time on each. Numbers
and text are sent as MessagePack. Its decoder in Redis has no type for bytes, so byte strings are
concatenated in one argument of their own, with a list of their lengths.

A partition answers as of any position it remembers: it returns the current entries, and those that
were different at that position. This module combines the two.

The hash of a player's id selects its partition and its bucket. The generation's random name is part
of the hash, so that clients cannot choose ids that fall into one bucket.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha1
from typing import Any, NamedTuple

import msgspec

from rankd.ports import DRAFT, Ranking, RankingShape

LAYOUT = 1
"""Version of the key and value layout. An index with another number cannot be read."""


class Generation(NamedTuple):
    """One generation of the index, from its empty beginning until it is dropped."""

    id: str
    partitions: int

    def __str__(self) -> str:
        return f"{LAYOUT}:{self.id}:{self.partitions}"

    @staticmethod
    def read(text: str) -> "Generation | None":
        """Parse the value of a pointer; None if it has another layout."""
        layout, _, rest = text.partition(":")
        id, _, partitions = rest.partition(":")
        if layout != str(LAYOUT) or not id or not partitions.isdigit():
            return None
        return Generation(id, int(partitions))


class PlayerPartition(NamedTuple):
    """Partition of a player, and the hash that selects its bucket."""

    partition: int
    hash: int
    """The bucket is chosen by this hash."""


def home_of(generation: Generation, player: str) -> PlayerPartition:
    """Return the partition and hash of a player. ``grow`` in apply.lua computes the same hash."""
    digest = sha1((generation.id + player).encode(), usedforsecurity=False).digest()
    partition = int.from_bytes(digest[:4], "big") % generation.partitions
    return PlayerPartition(partition, int.from_bytes(digest[4:8], "big"))


def partition_of_score(generation: Generation, score: bytes) -> int:
    """Return the partition that counts a distinct score of a dense ranking: one for all players."""
    if generation.partitions == 1:
        return 0
    digest = sha1(generation.id.encode() + b"/" + score, usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big") % generation.partitions


def partition_key(prefix: str, generation: Generation, partition: int) -> bytes:
    """Return the key passed to a partition's scripts, which derive all other keys from it."""
    return f"{{{prefix}:{generation.id}:{partition}}}m".encode()


def name_of(ranking: Ranking) -> str:
    """Return the name of a ranking within its board: window and segment."""
    mark = "-" if ranking.segment is None else "+" + ranking.segment
    return f"{ranking.window}\0{mark}"


def ranking_of(board: str, name: str) -> Ranking:
    """Undo ``name_of``."""
    window, _, mark = name.partition("\0")
    return Ranking(board, window, mark[1:] if mark.startswith("+") else None)


def shape_text(shape: RankingShape) -> str:
    """Return a shape as the scripts parse it."""
    return f"{shape.key_bytes}:{int(shape.dense)}"


def shape_of(value: str) -> RankingShape:
    """Return the shape in the stored value of a ranking: ``generation:key bytes:dense``."""
    _, width, dense = value.split(":")
    return RankingShape(int(width), dense == "1")


def is_draft(ranking: Ranking) -> bool:
    """Whether a ranking belongs to a board rebuild, which only its own node reads."""
    return ranking.board.startswith(DRAFT)


def private(ranking: Ranking, owner: str) -> Ranking:
    """Return a rebuilt ranking under its owner's name: two nodes may rebuild the same board."""
    if not is_draft(ranking):
        return ranking
    return Ranking(private_board(ranking.board, owner), ranking.window, ranking.segment)


def private_board(board: str, owner: str) -> str:
    """Return the name of a rebuilt board with its owner's in it; any other board unchanged."""
    return f"{DRAFT}{owner}{board}" if board.startswith(DRAFT) else board


_encode = msgspec.msgpack.Encoder().encode
_numbers = msgspec.msgpack.Decoder(list[int]).decode

ABSENT = -1
"""Length that stands for an absent string."""


class ScriptArgs(NamedTuple):
    """The arguments of a script."""

    head: bytes
    strings: bytes


def pack(head: Sequence[Any], strings: Sequence[bytes] = ()) -> ScriptArgs:
    """Encode a script's arguments."""
    return ScriptArgs(_encode([*head, [*map(len, strings)]]), b"".join(strings))


class ScriptReply(NamedTuple):
    """Reply of a script. Its numbers and strings are consumed in the order of the query."""

    status: str
    at: int
    """Position of the partition."""
    pending: int | None
    """Target position of an apply that is partly taken; None if there is none."""
    numbers: Iterator[int]
    strings: Iterator[bytes | None]
    reason: str = ""


def unpack(reply: Sequence[Any]) -> ScriptReply:
    """Decode a reply."""
    status = reply[0].decode()
    at = int(reply[1]) if len(reply) > 1 else 0
    if status not in ("ok", "again"):
        reason = reply[2].decode() if len(reply) > 2 else ""
        return ScriptReply(status, at, None, iter(()), iter(()), reason)
    pending = int(reply[5]) if len(reply) > 5 and reply[5] else None
    strings = _parted(reply[4], _numbers(reply[3]))
    return ScriptReply(status, at, pending, iter(_numbers(reply[2])), strings)


def _parted(joined: bytes, lengths: Sequence[int]) -> Iterator[bytes | None]:
    start = 0
    for length in lengths:
        if length == ABSENT:
            yield None
        else:
            yield joined[start : start + length]
            start += length


Beside = bytes | None


class Sampled(NamedTuple):
    """Some entries between two places, with the number of entries before each."""

    before_low: int
    before_high: int
    places: Sequence[bytes]
    counts: Sequence[int]


@dataclass(slots=True, kw_only=True)
class PartitionQuery:
    """A query to one partition about one ranking."""

    ranking: Ranking
    players: Sequence[str] = ()
    shown: bool = False
    """Whether metadata is requested."""
    ranked: bool = False
    """Whether the rank of each player within the partition is requested."""
    places: Sequence[bytes] = ()
    scores: Sequence[bytes] = ()
    first: int | None = None
    """Offset at which a page begins."""
    start: bytes | None = None
    """Place at which a page begins."""
    limit: int = 0
    samples: int = 0
    low: bytes = b""
    high: bytes = b""
    """Empty for the end of the ranking."""

    def head(self, home: Callable[[str], PlayerPartition]) -> list[Any]:
        """Return the numbers and text of the query."""
        return [
            self.ranking.board,
            name_of(self.ranking),
            list(self.players),
            [home(player)[1] for player in self.players],
            self.shown,
            self.ranked,
            len(self.places),
            len(self.scores),
            -1 if self.first is None else self.first,
            self.start is not None,
            self.limit,
            self.samples,
        ]

    def strings(self) -> Iterator[bytes]:
        """Yield the byte strings of the query."""
        yield from self.places
        yield from self.scores
        if self.start is not None:
            yield self.start
        if self.samples:
            yield self.low
            yield self.high


NOBODY_ASKED: Sequence[PartitionQuery] = ()


def ask(
    home: Callable[[str], PlayerPartition],
    asked: Sequence[PartitionQuery] = NOBODY_ASKED,
    *,
    at: int | None = None,
    whereto: int | None = None,
    boards: Sequence[str] | bool = (),
) -> ScriptArgs:
    """Return the arguments of read.lua."""
    return pack(
        [
            "" if at is None else str(at),
            "" if whereto is None else str(whereto),
            boards if isinstance(boards, bool) else list(boards),
            [each.head(home) for each in asked],
        ],
        [text for each in asked for text in each.strings()],
    )


class PartitionEntry(NamedTuple):
    """Entry of one player in one ranking."""

    order_key: bytes
    metadata: Beside
    before: int | None
    """Number of the partition's entries before it; None if not requested."""


@dataclass(slots=True)
class PositionDelta:
    """Changes of a ranking's entries on one partition since the requested position."""

    entries: dict[str, tuple[bytes | None, Beside]] = field(default_factory=dict)
    """Order key and metadata, at that position, of each player moved since."""
    old: list[bytes] = field(default_factory=list)
    """Places of these players at that position, sorted."""
    new: list[bytes] = field(default_factory=list)
    """Current places of these players, sorted."""
    scores: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    """Number of entries with a score, at that position and now."""

    def __bool__(self) -> bool:
        return bool(self.entries or self.scores)

    def count(self, place: bytes, now: int) -> int:
        """Return the number of entries before a place at that position."""
        return now + bisect_left(self.old, place) - bisect_left(self.new, place)

    def total(self, now: int) -> int:
        """Return the number of entries at that position."""
        return now + len(self.old) - len(self.new)

    def distinct(self, score: bytes, now: int) -> int:
        """Return the number of better distinct scores at that position."""
        for other, (then, since) in self.scores.items():
            if other < score:
                now += (then > 0) - (since > 0)
        return now


@dataclass(slots=True)
class PartitionReply:
    """Reply of one partition about one ranking, as of the requested position."""

    shape: RankingShape | None
    """None if the ranking did not exist."""
    total: int = 0
    entries: list[PartitionEntry | None] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    scores: list[int] = field(default_factory=list)
    page: list[tuple[bytes, Beside]] = field(default_factory=list)
    """Places with their metadata."""
    end: bytes | None = None
    """The page is complete up to this place; None if it reaches the end of the ranking."""
    sampled: Sampled | None = None
    touched: bool = False
    """Whether the ranking has changed since that position."""


def listed(answer: ScriptReply, board: str) -> list[tuple[Ranking, RankingShape]]:
    """Read the rankings of a board."""
    found = []
    for _ in range(next(answer.numbers)):
        name, value = _text(answer), _text(answer)
        found.append((ranking_of(board, name), shape_of(value)))
    return found


def all_boards(answer: ScriptReply) -> list[str]:
    """Read the names of all boards. A name may appear twice."""
    return [_text(answer) for _ in range(next(answer.numbers))]


def followed_by(answer: ScriptReply) -> tuple[int, str] | None:
    """Read the target position and mark of the requested apply; None if there was none."""
    who = next(answer.strings)
    if who is None:
        return None
    through, _, mark = who.decode().partition(" ")
    return int(through), mark


def told(answer: ScriptReply, asked: Sequence[PartitionQuery]) -> list[PartitionReply]:
    """Read the replies to some queries, in the order of the queries."""
    return [_told(answer, each) for each in asked]


def _told(answer: ScriptReply, asked: PartitionQuery) -> PartitionReply:
    numbers = answer.numbers
    if not next(numbers):
        nothing = PartitionReply(None, entries=[None] * len(asked.players))
        nothing.counts = [0] * len(asked.places)
        nothing.scores = [0] * len(asked.scores)
        nothing.sampled = Sampled(0, 0, [], []) if asked.samples else None
        return nothing
    total, width, dense = next(numbers), next(numbers), next(numbers)
    then = _difference(answer)
    said = PartitionReply(RankingShape(width, bool(dense)), then.total(total), touched=bool(then))
    shown = asked.shown and bool(next(numbers))
    said.entries = [_entry(answer, asked, shown, then, player) for player in asked.players]
    said.counts = [then.count(place, next(numbers)) for place in asked.places]
    said.scores = [then.distinct(score, next(numbers)) for score in asked.scores]
    if asked.first is not None:
        said.page = _page(answer, shown)
    if asked.start is not None:
        page = _page(answer, shown)
        said.end = page[-1][0] if page and len(page) == asked.limit else None
        said.page = _page_then(page, asked.start, said.end, then, width)
    if asked.samples:
        said.sampled = _samples(answer, asked, then)
    return said


def _difference(answer: ScriptReply) -> PositionDelta:
    then = PositionDelta()
    now: dict[str, bytes | None] = {}
    for _ in range(next(answer.numbers)):
        player, old, new, beside = _text(answer), *(next(answer.strings) for _ in range(3))
        then.entries.setdefault(player, (old, beside))
        now[player] = new
    for player, (order_key, _) in then.entries.items():
        id, new = player.encode(), now[player]
        if order_key is not None:
            then.old.append(order_key + id)
        if new is not None:
            then.new.append(new + id)
    then.old.sort()
    then.new.sort()
    for _ in range(next(answer.numbers)):
        score = next(answer.strings)
        assert score is not None
        had, has = next(answer.numbers), next(answer.numbers)
        then.scores[score] = then.scores.get(score, (had, 0))[0], has
    return then


def _entry(
    answer: ScriptReply, asked: PartitionQuery, shown: bool, then: PositionDelta, player: str
) -> PartitionEntry | None:
    order_key = next(answer.strings)
    found = None
    if order_key is not None:
        beside = next(answer.strings) if shown else None
        found = PartitionEntry(order_key, beside, next(answer.numbers) if asked.ranked else None)
    if player not in then.entries:
        return found
    order_key, beside = then.entries[player]
    return (
        None
        if order_key is None
        else PartitionEntry(order_key, beside if asked.shown else None, None)
    )


def _page(answer: ScriptReply, shown: bool) -> list[tuple[bytes, Beside]]:
    page = []
    for _ in range(next(answer.numbers)):
        place = next(answer.strings)
        assert place is not None
        page.append((place, next(answer.strings) if shown else None))
    return page


def _page_then(
    page: list[tuple[bytes, Beside]],
    start: bytes,
    end: bytes | None,
    then: PositionDelta,
    width: int,
) -> list[tuple[bytes, Beside]]:
    """Remove entries that were not on a page at that position, and insert those that were.

    Entries after the end are not in the reply, so the page says nothing about them.
    """
    if not then.entries:
        return page
    stayed = [each for each in page if each[0][width:].decode() not in then.entries]
    back = [
        (order_key + player.encode(), beside)
        for player, (order_key, beside) in then.entries.items()
        if order_key is not None
    ]
    there = [one for one in back if one[0] >= start and (end is None or one[0] <= end)]
    return sorted(stayed + there, key=_place)


def _place(entry: tuple[bytes, Beside]) -> bytes:
    return entry[0]


def _samples(answer: ScriptReply, asked: PartitionQuery, then: PositionDelta) -> Sampled:
    before_low = then.count(asked.low, next(answer.numbers))
    beyond = next(answer.numbers)
    before_high = then.count(asked.high, beyond) if asked.high else then.total(beyond)
    places, counts = [], []
    for _ in range(next(answer.numbers)):
        count, place = next(answer.numbers), next(answer.strings)
        assert place is not None
        places.append(place)
        counts.append(then.count(place, count))
    return Sampled(before_low, before_high, places, counts)


def _text(answer: ScriptReply) -> str:
    text = next(answer.strings)
    assert text is not None
    return text.decode()
