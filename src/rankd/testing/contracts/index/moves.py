"""Rankings, keys and moves to apply to an index, and functions that read the result.

An order key is bytes, as it is to every index. Small scores and few players, because ties and
collisions are where indexes differ.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from rankd.model.facts import Position
from rankd.model.standing import Rank
from rankd.ports import DRAFT, Move, Moved, Placed, RankIndex, Ranking, RankingShape

DAILY = Ranking("race", "daily:2026-11-14")
FOREVER = Ranking("race", "forever")
EUROPE = Ranking("race", "forever", "region:eu")
OTHER = Ranking("other", "forever")
NOWHERE = Ranking("race", "nowhere")
REDONE = Ranking(DRAFT + "race", "forever")
REDONE_DAILY = Ranking(DRAFT + "race", "daily:2026-11-14")

PLAIN = RankingShape(key_bytes=16, dense=False)
DENSE = RankingShape(key_bytes=16, dense=True)

_NOBODY_ADOPTED: Mapping[Ranking, Ranking] = MappingProxyType({})


def key(score: int, tie: int = 0, *, width: int = 16) -> bytes:
    """Return a key; the lesser score is the better."""
    return score.to_bytes(width - 8, "big") + tie.to_bytes(8, "big")


def placed(player: str, score: int, *, at: Ranking = FOREVER, beside: bytes | None = None) -> Move:
    """Return a move to a score."""
    return Move(at, player, key(score), beside)


def left(player: str, *, at: Ranking = FOREVER) -> Move:
    """Return a move out."""
    return Move(at, player, None)


async def fold(
    index: RankIndex,
    *moves: Move,
    opened: Mapping[Ranking, RankingShape] | Sequence[Ranking] = (),
    dropped: Sequence[Ranking] = (),
    adopted: Mapping[Ranking, Ranking] = _NOBODY_ADOPTED,
) -> Sequence[Moved]:
    """Apply in turn, one position further."""
    if not isinstance(opened, Mapping):
        opened = dict.fromkeys(opened, PLAIN)
    after = await index.checkpoint()
    moved = await index.apply(
        moves,
        after=after,
        through=Position(after + 1),
        opened=opened,
        dropped=dropped,
        adopted=adopted,
    )
    assert moved is not None
    assert await index.checkpoint() == after + 1
    return moved


async def players(index: RankIndex, ranking: Ranking = FOREVER) -> list[str]:
    """Return all players, best first, read page by page."""
    found: list[Placed] = []
    while page := (await index.read(ranking, first=Rank(len(found) + 1), limit=100)).entries:
        found += page
    assert len(found) == await index.count(ranking)
    return [each.player for each in found]


async def metadata(index: RankIndex, ranking: Ranking = FOREVER) -> dict[str, bytes | None]:
    """Return the metadata of each player."""
    page = await index.read(ranking, first=Rank(1), limit=100)
    return {each.player: each.metadata for each in page.entries}
