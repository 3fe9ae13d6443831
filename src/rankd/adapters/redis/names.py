"""How rankings, players and epochs are called in Redis.

A player is on the partition, and in the bucket, that the hash of its id tells. The epoch goes into
the hash: its name is made up anew for each index, so nobody can choose ids that meet in one bucket.
"""

from hashlib import sha1
from typing import NamedTuple

from rankd.ports import DRAFT, Ranking, Shape

LAYOUT = 1
"""How keys and values are laid out. Another number is another index."""


class Epoch(NamedTuple):
    """One filling of an index, from empty to being dropped."""

    id: str
    partitions: int

    def __str__(self) -> str:
        return f"{LAYOUT}:{self.id}:{self.partitions}"

    @staticmethod
    def read(text: str) -> "Epoch | None":
        """Return the epoch that a pointer names; None if it is of another layout."""
        layout, _, rest = text.partition(":")
        id, _, partitions = rest.partition(":")
        if layout != str(LAYOUT) or not id or not partitions.isdigit():
            return None
        return Epoch(id, int(partitions))


class Home(NamedTuple):
    """Where a player is."""

    partition: int
    hash: int
    """What its bucket is chosen by."""


def home_of(epoch: Epoch, player: str) -> Home:
    """Return where a player is. ``grow`` in apply.lua works out the same hash."""
    digest = sha1((epoch.id + player).encode(), usedforsecurity=False).digest()
    partition = int.from_bytes(digest[:4], "big") % epoch.partitions
    return Home(partition, int.from_bytes(digest[4:8], "big"))


def partition_of_score(epoch: Epoch, score: bytes) -> int:
    """Return where a distinct score of a dense ranking is counted: at one place, whoever has it."""
    if epoch.partitions == 1:
        return 0
    digest = sha1(epoch.id.encode() + b"/" + score, usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big") % epoch.partitions


def partition_key(prefix: str, epoch: Epoch, partition: int) -> bytes:
    """Return the key that a partition's scripts are given; all others are made from it."""
    return f"{{{prefix}:{epoch.id}:{partition}}}m".encode()


def name_of(ranking: Ranking) -> str:
    """Return what a ranking is called among those of its board."""
    mark = "-" if ranking.segment is None else "+" + ranking.segment
    return f"{ranking.window}\0{mark}"


def ranking_of(board: str, name: str) -> Ranking:
    """Undo ``name_of``."""
    window, _, mark = name.partition("\0")
    return Ranking(board, window, mark[1:] if mark.startswith("+") else None)


def shape_text(shape: Shape) -> str:
    """Return a shape as scripts read it."""
    return f"{shape.key_bytes}:{int(shape.dense)}"


def shape_of(value: str) -> Shape:
    """Return the shape in what is kept of a ranking, which begins with its generation."""
    _, width, dense = value.split(":")
    return Shape(int(width), dense == "1")


def is_draft(ranking: Ranking) -> bool:
    """Whether nobody but its maker reads it."""
    return ranking.board.startswith(DRAFT)


def private(ranking: Ranking, owner: str) -> Ranking:
    """Return a draft's name with its maker's in it: two nodes may make drafts of one board."""
    if not is_draft(ranking):
        return ranking
    return Ranking(private_board(ranking.board, owner), ranking.window, ranking.segment)


def private_board(board: str, owner: str) -> str:
    """Return the same for a board's name."""
    return f"{DRAFT}{owner}{board}" if board.startswith(DRAFT) else board
