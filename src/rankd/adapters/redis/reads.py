"""Reads over all partitions, as of one position.

Each partition answers atomically, with the position of its answer. During an apply the positions
differ: then the partitions that are ahead are queried again as of the lowest position. They
remember it, so a steady writer never blocks a read; it takes one more round.

    checkpoint, order keys, counts   1 round, 2 during an apply
    ranks                            1 round over one partition; else 2, or 3
    pages                            1 round over one partition or near the top; else one for each
                                     factor of a hundred in the number of entries, and the page
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rankd.adapters.redis.generations import Partitions, together
from rankd.adapters.redis.protocol import (
    PartitionEntry,
    PartitionQuery,
    PartitionReply,
    Sampled,
    ScriptReply,
    all_boards,
    ask,
    followed_by,
    listed,
    told,
)
from rankd.model.facts import Position
from rankd.model.standing import Offset, Rank
from rankd.ports import EntryRange, Placed, Ranked, Ranking, RankingShape

SAMPLES = 48
"""Samples that each partition returns per round."""

NEAR_ENOUGH = 128
"""Entries before the wanted one that may be read with it, from each partition."""

TOP_ENTRIES = 512
"""Pages that end before this offset are read without a search."""

ROUNDS_MAX = 8
"""Enough for more than 2**32 entries. A search cut short is still exact: it reads more entries."""


class SearchBounds(NamedTuple):
    """Two places with the wanted entry between them.

    Each partition returns evenly spaced samples of its entries between two places, with the number
    of entries before each. The gaps between the samples of a partition are equally long, so the
    number of entries before any sample, over all partitions, is known to within one gap per
    partition. The search continues between the last sample that is certainly not after the rank and
    the first that certainly is: 2 / (samples + 1) of the length, for any number of partitions. A
    hundred million entries are narrowed down in five rounds to a range that is read with the page.
    """

    low: bytes
    """At most as many entries come before it as before the wanted one."""
    high: bytes
    """More entries come before it than before the wanted one; empty for the end of the ranking."""


EVERYWHERE = SearchBounds(b"", b"")


def before(sampled: Sequence[Sampled]) -> int:
    """Return the number of entries before the low place, over all partitions."""
    return sum(each.before_low for each in sampled)


def narrowed(between: SearchBounds, sampled: Sequence[Sampled], offset: int) -> SearchBounds:
    """Return narrower bounds for the entry that has ``offset`` entries before it."""
    places = sorted({place for each in sampled for place in each.places})
    # Both bounds grow along the places, so each is found by halving.
    lows = bisect_right(places, offset, key=lambda place: _bounds(sampled, place)[1])
    highs = bisect_right(places, offset, key=lambda place: _bounds(sampled, place)[0])
    low = places[lows - 1] if lows else between.low
    high = places[highs] if highs < len(places) else between.high
    return SearchBounds(low, high)


def _bounds(sampled: Sequence[Sampled], place: bytes) -> tuple[int, int]:
    """Return the least and the greatest possible number of entries before a place."""
    at_least = at_most = 0
    for each in sampled:
        following = bisect_right(each.places, place)
        if following and each.places[following - 1] == place:
            at_least += each.counts[following - 1]
            at_most += each.counts[following - 1]
            continue
        at_least += each.counts[following - 1] if following else each.before_low
        at_most += each.counts[following] if following < len(each.places) else each.before_high
    return at_least, at_most


ENTRIES_TOGETHER_MAX = 2_000
"""Entries that one script looks up: it blocks Redis for some milliseconds."""

PAGE_SLACK = 32
"""Extra entries read with a page, to replace those that were not there at its position."""

LOOKS_MAX = 4
"""Times that the positions are read before the partitions are declared torn."""

Place = tuple[Ranking, str]


def place_of(order_key: bytes, player: str) -> bytes:
    """Return the sort key of an entry: its order key, then its player."""
    return order_key + player.encode()


class PositionsDiffer(Exception):
    """The partitions cannot answer as of one position: some have advanced too far meanwhile."""


class PositionForgotten(Exception):
    """A requested position is no longer remembered, or not reached yet."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


class IndexPosition(NamedTuple):
    """Position of an index, and its unfinished apply."""

    position: Position
    unfinished: tuple[Position, Position] | None
    """The apply that some partitions have taken completely and others have not."""


class PartitionsTorn(Exception):
    """The partitions have different histories, and no apply can reconcile them."""


@dataclass(slots=True)
class FoundEntries:
    """Entries found, as of one position."""

    at: int
    entries: list[PartitionEntry | None]
    shapes: dict[Ranking, RankingShape]
    totals: dict[Ranking, int]
    """Over the queried partitions."""
    touched: bool
    quiet: bool
    """Whether no partition has passed that position, or begun an apply after it."""


class PartitionReader:
    """Reads from the partitions of one generation."""

    def __init__(self, filling: Partitions, *, replica: bool = False) -> None:
        self._filling = filling
        self._replica = replica

    # ----------------------------------------------------------------- as of one position

    async def _ask(
        self,
        asked: Mapping[int, Sequence[PartitionQuery]],
        *,
        at: int | None = None,
        boards: Sequence[str] | bool = (),
        whereto: int | None = None,
    ) -> dict[int, ScriptReply]:
        filling, replica = self._filling, self._replica
        answers = await together(
            [
                filling.read(
                    partition,
                    ask(filling.home, some, at=at, boards=boards, whereto=whereto),
                    replica=replica,
                )
                for partition, some in asked.items()
            ]
        )
        return dict(zip(asked, answers, strict=True))

    async def _settled(
        self, asked: Mapping[int, Sequence[PartitionQuery]], *, boards: Sequence[str] | bool = ()
    ) -> tuple[int, dict[int, ScriptReply]]:
        """Query partitions; return a position and the replies as of it. Raises PositionsDiffer."""
        answers = await self._ask(asked, boards=boards)
        position = min(answer.at for answer in answers.values())
        ahead = {
            partition: asked[partition]
            for partition, answer in answers.items()
            if answer.at != position
        }
        if ahead:
            answers |= await self._at(ahead, position, boards=boards)
        return position, answers

    async def _at(
        self,
        asked: Mapping[int, Sequence[PartitionQuery]],
        position: int,
        *,
        boards: Sequence[str] | bool = (),
    ) -> dict[int, ScriptReply]:
        answers = await self._ask(asked, at=position, boards=boards)
        if any(answer.status != "ok" for answer in answers.values()):
            raise PositionsDiffer
        return answers

    def _everywhere(self, asked: Sequence[PartitionQuery]) -> dict[int, Sequence[PartitionQuery]]:
        return dict.fromkeys(range(self._filling.count), asked)

    async def _everybody_says(
        self, asked: PartitionQuery, at: int | None = None
    ) -> tuple[int, list[PartitionReply]]:
        """Query all partitions about one ranking."""
        everywhere = self._everywhere([asked])
        if at is None:
            at, answers = await self._settled(everywhere)
        else:
            answers = await self._at(everywhere, at)
        return at, [told(answer, [asked])[0] for answer in answers.values()]

    # ------------------------------------------------------------------------ where it is

    async def whereabouts(self) -> IndexPosition:
        """Return the position of the index. Raises PartitionsTorn."""
        before: int | None = None
        for _ in range(LOOKS_MAX):
            answers = await self._ask(self._everywhere([]))
            position = min(answer.at for answer in answers.values())
            ahead: dict[int, Sequence[PartitionQuery]] = {
                partition: []
                for partition, answer in answers.items()
                if answer.at != position or answer.pending is not None
            }
            if not ahead:
                return IndexPosition(Position(position), None)
            followed = {
                followed_by(answer) if answer.status == "ok" else None
                for answer in (await self._ask(ahead, whereto=position)).values()
            }
            if len(followed) == 1 and (apply := followed.pop()) is not None:
                return IndexPosition(Position(position), (Position(position), Position(apply[0])))
            if before == position:
                break  # The same twice: nothing moves, and the positions do not fit together.
            before = position
        raise PartitionsTorn

    async def rankings(self, board: str) -> list[Ranking]:
        """Return the rankings of a board."""
        # All partitions have all names, but they may differ during an apply.
        _, answers = await self._settled(self._everywhere([]), boards=[board])
        return [ranking for ranking, _ in listed(answers[0], board)]

    async def shapes(self, at: int) -> dict[Ranking, RankingShape]:
        """Return all rankings that existed at a position. Raises PositionsDiffer."""
        answers = await self._at({0: []}, at, boards=True)
        answer = answers[0]
        return {
            ranking: shape
            for board in all_boards(answer)
            for ranking, shape in listed(answer, board)
        }

    # -------------------------------------------------------------------------- entries

    async def entries(
        self, wanted: Sequence[Place], *, shown: bool, ranked: bool = False, at: int | None = None
    ) -> FoundEntries:
        """Return the entries of some players, now or at a position.

        Raises PositionsDiffer or, if a position was given, PositionForgotten.
        """
        if not wanted:
            _, found = await self._some_entries([], shown=shown, ranked=ranked, at=at)
            return found
        given, found = at, FoundEntries(-1, [], {}, {}, touched=False, quiet=True)
        for start in range(0, len(wanted), ENTRIES_TOGETHER_MAX):
            some = wanted[start : start + ENTRIES_TOGETHER_MAX]
            try:
                at, more = await self._some_entries(some, shown=shown, ranked=ranked, at=at)
            except PositionForgotten as exc:
                if given is None:
                    raise PositionsDiffer from exc
                raise
            found.at = at
            found.entries += more.entries
            found.shapes |= more.shapes
            found.totals |= more.totals
            found.touched |= more.touched
            found.quiet &= more.quiet
        return found

    async def _some_entries(
        self, wanted: Sequence[Place], *, shown: bool, ranked: bool, at: int | None
    ) -> tuple[int, FoundEntries]:
        asked, whose = self._by_partition(wanted, shown=shown, ranked=ranked)
        if at is None:
            at, answers = await self._settled(asked)
        else:
            answers = await self._remembered(asked, at)
        quiet = all(answer.at == at and answer.pending is None for answer in answers.values())
        found = FoundEntries(at, [None] * len(wanted), {}, {}, touched=False, quiet=quiet)
        for partition, answer in answers.items():
            self._note(found, asked[partition], told(answer, asked[partition]), whose[partition])
        return at, found

    async def _remembered(
        self, asked: Mapping[int, Sequence[PartitionQuery]], at: int, *, whereto: int | None = None
    ) -> dict[int, ScriptReply]:
        answers = await self._ask(asked, at=at, whereto=whereto)
        for partition, answer in answers.items():
            if answer.status != "ok" and (
                asked[partition] or partition == 0 or whereto is not None
            ):
                raise PositionForgotten(answer.at)
        return answers

    async def followers(self, at: int) -> set[tuple[int, str]]:
        """Return the applies after a position that partitions have made or begun.

        Each is its target position and its mark; one history has at most one. Raises
        PositionForgotten if a partition has not reached the position, or no longer remembers it.
        """
        answers = await self._remembered(self._everywhere([]), at, whereto=at)
        made = [followed_by(answer) for answer in answers.values()]
        return {apply for apply in made if apply is not None}

    def _by_partition(
        self, wanted: Sequence[Place], *, shown: bool, ranked: bool
    ) -> tuple[dict[int, list[PartitionQuery]], dict[int, list[list[int]]]]:
        """Return the queries for each partition, and the index in ``wanted`` of each reply."""
        home, count = self._filling.home, self._filling.count
        groups: list[dict[Ranking, tuple[list[str], list[int]]]] = [{} for _ in range(count)]
        for number, (ranking, player) in enumerate(wanted):
            groups_here = groups[home(player).partition] if count > 1 else groups[0]
            players, numbers = groups_here.setdefault(ranking, ([], []))
            players.append(player)
            numbers.append(number)
        asked = {
            partition: [
                PartitionQuery(ranking=ranking, players=players, shown=shown, ranked=ranked)
                for ranking, (players, _) in group.items()
            ]
            for partition, group in enumerate(groups)
        }
        whose = {
            partition: [numbers for _, numbers in group.values()]
            for partition, group in enumerate(groups)
        }
        return asked, whose

    @staticmethod
    def _note(
        found: FoundEntries,
        asked: Sequence[PartitionQuery],
        said: Sequence[PartitionReply],
        whose: Sequence[Sequence[int]],
    ) -> None:
        for question, one, numbers in zip(asked, said, whose, strict=True):
            for number, entry in zip(numbers, one.entries, strict=True):
                found.entries[number] = entry
            if one.shape is not None:
                found.shapes[question.ranking] = one.shape
            found.totals[question.ranking] = one.total
            found.touched |= one.touched

    async def ranks(self, wanted: Sequence[Place], at: int | None = None) -> list[Ranked | None]:
        """Return the ranks of some players, all as of one position."""
        alone = self._filling.count == 1 and at is None
        found = await self.entries(wanted, shown=True, ranked=alone, at=at)
        if alone and not found.touched and len(wanted) <= ENTRIES_TOGETHER_MAX:
            here, totals = Position(found.at), found.totals
            return [
                None
                if entry is None or entry.before is None
                else Ranked(Rank(entry.before + 1), entry[0], entry[1], totals[ranking], here)
                for (ranking, _), entry in zip(wanted, found.entries, strict=True)
            ]
        return await self._count_ranks(wanted, found)

    async def _count_ranks(
        self, wanted: Sequence[Place], found: FoundEntries
    ) -> list[Ranked | None]:
        """Count the entries before each entry, over all partitions, as of the entries' position."""
        places: dict[Ranking, dict[bytes, int]] = {}
        for (ranking, player), entry in zip(wanted, found.entries, strict=True):
            if entry is not None:
                places.setdefault(ranking, {})[place_of(entry.order_key, player)] = 0
        totals = dict.fromkeys(places, 0)
        asked = [
            PartitionQuery(ranking=ranking, places=list(some)) for ranking, some in places.items()
        ]
        if asked:
            for answer in (await self._at(self._everywhere(asked), found.at)).values():
                for question, one in zip(asked, told(answer, asked), strict=True):
                    totals[question.ranking] += one.total
                    counted = places[question.ranking]
                    for place, count in zip(question.places, one.counts, strict=True):
                        counted[place] += count
        return [
            None
            if entry is None
            else Ranked(
                Rank(places[ranking][place_of(entry.order_key, player)] + 1),
                entry.order_key,
                entry.metadata,
                totals[ranking],
                Position(found.at),
            )
            for (ranking, player), entry in zip(wanted, found.entries, strict=True)
        ]

    # --------------------------------------------------------------------------- counts

    async def total(self, ranking: Ranking, at: int | None = None) -> int:
        """Return the number of entries."""
        _, said = await self._everybody_says(PartitionQuery(ranking=ranking), at)
        return sum(one.total for one in said)

    async def count_below(self, ranking: Ranking, place: bytes, at: int | None = None) -> Offset:
        """Return the number of entries before a place."""
        _, said = await self._everybody_says(PartitionQuery(ranking=ranking, places=[place]), at)
        return Offset(sum(one.counts[0] for one in said))

    async def scores_below(self, ranking: Ranking, score: bytes, at: int | None = None) -> Offset:
        """Return the number of better distinct scores."""
        _, said = await self._everybody_says(PartitionQuery(ranking=ranking, scores=[score]), at)
        for one in said:
            dense = one.shape is None or one.shape.dense
            assert dense, f"{ranking} does not count distinct scores"
        return Offset(sum(one.scores[0] for one in said))

    # ---------------------------------------------------------------------------- pages

    async def page(
        self, ranking: Ranking, offset: int, limit: int, at: int | None = None
    ) -> EntryRange:
        """Return a page that begins at an offset."""
        if self._filling.count == 1:
            asked = PartitionQuery(ranking=ranking, first=offset, limit=limit, shown=True)
            here, (one,) = await self._everybody_says(asked, at)
            if not one.touched:
                return _stretch(one.page, one.shape, one.total, here)
        if offset + limit <= TOP_ENTRIES:
            at, said = await self._entries_from(ranking, b"", offset + limit, at)
        else:
            at, start, skipped = await self._seek(ranking, offset, at)
            need = offset - skipped + limit
            at, said = await self._entries_from(ranking, start, need, at)
            offset -= skipped
        entries = sorted((entry for one in said for entry in one.page), key=lambda entry: entry[0])
        shape = next((one.shape for one in said if one.shape is not None), None)
        total = sum(one.total for one in said)
        return _stretch(entries[offset : offset + limit], shape, total, at)

    async def _seek(self, ranking: Ranking, offset: int, at: int | None) -> tuple[int, bytes, int]:
        """Return the position, a place shortly before an offset, and the offset of that place."""
        between, skipped = EVERYWHERE, 0
        low = b""
        for _ in range(ROUNDS_MAX):
            low, high = between
            asked = PartitionQuery(ranking=ranking, samples=SAMPLES, low=low, high=high)
            at, said = await self._everybody_says(asked, at)
            sampled: list[Sampled] = [one.sampled for one in said if one.sampled is not None]
            skipped = before(sampled)
            if offset - skipped <= NEAR_ENOUGH:
                break
            closer = narrowed(between, sampled, offset)
            if closer == between:
                break
            between = closer
        assert at is not None
        return at, low, skipped

    async def _entries_from(
        self, ranking: Ranking, start: bytes, need: int, at: int | None = None
    ) -> tuple[int, list[PartitionReply]]:
        """Return ``need`` entries from a place on from each partition, or all that it has."""
        limit = need + PAGE_SLACK
        while True:
            asked = PartitionQuery(ranking=ranking, start=start, limit=limit, shown=True)
            at, said = await self._everybody_says(asked, at)
            if all(one.end is None or len(one.page) >= need for one in said):
                break
            limit *= 2  # Entries that were not there at that position left the page too short.
        for one in said:
            del one.page[need:]
        return at, said

    async def everybody(
        self, ranking: Ranking, at: int, *, together_max: int = ENTRIES_TOGETHER_MAX
    ) -> list[tuple[bytes, bytes | None]]:
        """Return all entries as of a position, best first. Raises PositionsDiffer."""
        entries: list[tuple[bytes, bytes | None]] = []
        for partition in range(self._filling.count):
            start: bytes | None = b""
            while start is not None:
                asked = PartitionQuery(ranking=ranking, start=start, limit=together_max, shown=True)
                answers = await self._at({partition: [asked]}, at)
                (said,) = told(answers[partition], [asked])
                entries += said.page
                start = None if said.end is None else said.end + b"\0"  # The next possible place.
        entries.sort(key=lambda entry: entry[0])
        return entries


def _stretch(
    entries: Sequence[tuple[bytes, bytes | None]], shape: RankingShape | None, total: int, at: int
) -> EntryRange:
    width = 0 if shape is None else shape.key_bytes
    placed = [Placed(place[width:].decode(), place[:width], beside) for place, beside in entries]
    return EntryRange(placed, total, Position(at))
