"""Names of generations, partitions, rankings and players in Redis.

The hash of a player's id selects its partition and its bucket. The generation's random name is part
of the hash, so that clients cannot choose ids that fall into one bucket.
"""

from hashlib import sha1
from typing import NamedTuple

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
