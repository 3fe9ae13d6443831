"""Applies: moves cut into pieces, and the partitions' replies turned into ranks.

An apply is cut into pieces of bounded length. Every partition takes a piece atomically, and the
last piece advances the position. If a piece moves a player several times, only the last move is
written; the ranks in between are computed (`BatchRanks`).

With several partitions the first one decides: the apply that advances its position has won, and is
only then sent to the others. If the process dies in between, a process that repeats the apply
completes it, because partitions that have taken it return the stored reply. Ranks are counted in
all partitions and need the entries' previous order keys, so these are read first, unless the call
before has read them.
"""

import asyncio
from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from rankd.adapters.redis.generations import Partitions, together
from rankd.adapters.redis.protocol import (
    PlayerPartition,
    ScriptArgs,
    ScriptReply,
    name_of,
    pack,
    partition_of_score,
    shape_text,
)
from rankd.adapters.redis.reads import PartitionReader, Place, PositionForgotten, place_of
from rankd.model.order import TIE_BREAK_BYTES, score_part
from rankd.model.standing import Rank, TieRule
from rankd.ports import APPLIES_REMEMBERED, STAY, Move, Moved, Ranking, RankingShape

_LOWEST_TIE = bytes(TIE_BREAK_BYTES)


def floor_of(order_key: bytes) -> bytes:
    """Return the first place of this key's score: after all better entries, before its own."""
    return score_part(order_key) + _LOWEST_TIE


class DistinctScore(NamedTuple):
    """A distinct score in the state before the piece."""

    better: int
    """Number of better distinct scores."""
    entries: int
    """Number of entries with this score."""


class BatchRanks:
    """Ranks of one ranking while the moves of a piece are replayed in order.

    Redis counts once, in the state before a piece of an apply: for each place that a move leaves or
    takes, the number of entries before it. The changes made by earlier moves of the same piece are
    tracked here. The rank at a move is therefore the count, plus the places taken before it, minus
    the places left before it.
    """

    def __init__(
        self,
        total: int,
        entries: Mapping[str, bytes | None],
        counts: Mapping[bytes, int],
        scores: Mapping[bytes, DistinctScore],
    ) -> None:
        self._total = total
        self._now = dict(entries)
        self._counts = counts
        self._scores = scores
        self._there = {place_of(key, player) for player, key in entries.items() if key is not None}
        """Places held before the piece by the players that it moves."""
        self._come: list[bytes] = []
        self._gone: list[bytes] = []
        self._having = {score: known.entries for score, known in scores.items()}
        self._new_scores: list[bytes] = []
        self._lost_scores: list[bytes] = []

    def take(self, move: Move) -> Moved:
        """Replay a move; return its ranks before and after, and the total."""
        _, player, new, _, ties = move
        old, id = self._now[player], player.encode()
        before = None if old is None else self._rank(old, id, ties)
        if new == STAY:
            return Moved(before, before, self._total)
        if old != new:
            if old is not None:
                self._leave(old, id)
            if new is not None:
                self._join(new, id)
            self._now[player] = new
        after = None if new is None else self._rank(new, id, ties)
        return Moved(before, after, self._total)

    def _rank(self, key: bytes, id: bytes, ties: TieRule) -> Rank:
        if ties is TieRule.DENSE:
            return self._dense(score_part(key))
        place = key + id if ties is TieRule.ORDINAL else floor_of(key)
        come, gone = bisect_left(self._come, place), bisect_left(self._gone, place)
        return Rank(self._counts[place] + come - gone + 1)

    def _dense(self, score: bytes) -> Rank:
        new = bisect_left(self._new_scores, score)
        lost = bisect_left(self._lost_scores, score)
        return Rank(self._scores[score].better + new - lost + 1)

    def _leave(self, key: bytes, id: bytes) -> None:
        place = key + id
        if place in self._there:
            insort(self._gone, place)
        else:
            _remove(self._come, place)
        self._total -= 1
        if self._scores:
            self._change_score(score_part(key), -1)

    def _join(self, key: bytes, id: bytes) -> None:
        place = key + id
        if place in self._there:
            _remove(self._gone, place)
        else:
            insort(self._come, place)
        self._total += 1
        if self._scores:
            self._change_score(score_part(key), +1)

    def _change_score(self, score: bytes, by: int) -> None:
        had = self._having[score]
        self._having[score] = has = had + by
        if (had > 0) == (has > 0):
            return
        was_there = self._scores[score].entries > 0
        if was_there:
            insort(self._lost_scores, score) if not has else _remove(self._lost_scores, score)
        else:
            insort(self._new_scores, score) if has else _remove(self._new_scores, score)


def _remove(ordered: list[bytes], value: bytes) -> None:
    at = bisect_left(ordered, value)
    assert ordered[at] == value, "a place is given up that nobody took"
    del ordered[at]


MOVES_TOGETHER_MAX = 500
"""Moves per script: it blocks Redis for some milliseconds."""

REMEMBERED_BYTES_MAX = 4 * 2**20
"""Bytes of past applies that a partition remembers; the last apply is kept at any size."""

KEYS_RELEASED_PER_APPLY = 256
"""Buckets of dropped rankings freed with each piece: some 0.2 ms."""

PLAYERS_PER_BUCKET = 64
"""On average. Few enough to be searched quickly; twice as many still stay packed with Redis's
default hash-max-listpack-entries of 512. Ids longer than 64 bytes never stay packed."""

_STAYS, _PUT, _LEAVES = range(3)
_PLACE, _FLOOR, _SCORE = 1, 2, 4

_encode = msgspec.msgpack.Encoder().encode


def _cut(moves: Sequence[Move]) -> Iterator[Sequence[Move]]:
    """Yield the moves of each piece.

    An entry that comes and leaves again at once, of a player that is not ranked, does so within a
    piece: between two of them it would be seen.
    """
    start = 0
    while start < len(moves) or not start:
        end = min(start + MOVES_TOGETHER_MAX, len(moves))
        for coming in range(end, min(end + _MOVES_OF_A_VISIT - 1, len(moves))):
            if moves[coming][:2] != moves[end - 1][:2]:
                break
            if moves[coming].order_key is None:
                end = coming + 1
                break
        yield moves[start:end]
        start = max(end, 1)


_MOVES_OF_A_VISIT = 3
"""An entry comes, may change, and leaves."""


class InvalidApply(AssertionError):
    """An apply that no index could take: a programming error."""


class KnownEntries(NamedTuple):
    """Order keys of some entries at a position."""

    at: int
    order_keys: Mapping[Place, bytes | None]
    shapes: Mapping[Ranking, RankingShape]
    quiet: bool
    """Whether no partition had passed that position, or begun an apply after it."""


NOTHING_KNOWN = KnownEntries(-1, {}, {}, quiet=False)


@dataclass(frozen=True, slots=True)
class ApplyRequest:
    """Moves and changes of rankings that an apply or a staging makes."""

    moves: Sequence[Move]
    opened: Mapping[Ranking, RankingShape]
    dropped: Sequence[Ranking]
    adopted: Mapping[Ranking, Ranking]

    def mark(self) -> str:
        """Return a digest that distinguishes applies with the same positions.

        Names of rebuilt rankings are left out: every node makes its own.
        """
        numbers: dict[Ranking, int] = {}
        moves = [
            (numbers.setdefault(ranking, len(numbers)), player, key, metadata, ties)
            for ranking, player, key, metadata, ties in self.moves
        ]
        opened = sorted((ranking.identity, shape) for ranking, shape in self.opened.items())
        dropped = sorted(ranking.identity for ranking in self.dropped)
        adopted = sorted(ranking.identity for ranking in self.adopted.values())
        names = [ranking.identity for ranking in numbers]
        whole = _encode((moves, names, opened, dropped, adopted))
        return blake2b(whole, digest_size=8).hexdigest()

    def places(self) -> list[Place]:
        """Return the entries that it moves, each once."""
        return list(dict.fromkeys((move.ranking, move.player) for move in self.moves))

    def expected(self) -> list[Any]:
        """Return the rankings that must exist, as apply.lua checks them."""
        widths: dict[Ranking, int] = {}
        dense: set[Ranking] = set()
        for ranking, _, key, _, ties in self.moves:
            width = len(key) if key else 0
            known = widths.get(ranking, 0)
            assert not (width and known and width != known), f"keys of {ranking} differ in length"
            widths[ranking] = width or known
            if ties is TieRule.DENSE:
                dense.add(ranking)
        flat: list[Any] = []
        for ranking, width in widths.items():
            flat += (ranking.board, name_of(ranking), width, ranking in dense)
        return flat

    def left(self) -> list[str]:
        """Return the segments that players leave: those that are empty then are dropped."""
        segments = {
            move.ranking: None
            for move in self.moves
            if move.order_key is None and move.ranking.segment is not None
        }
        return [text for ranking in segments for text in (ranking.board, name_of(ranking))]


@dataclass(slots=True)
class RankingMoves:
    """Moves of one ranking in one piece."""

    ranking: Ranking
    finals: dict[str, Move | None] = field(default_factory=dict)
    """Move to write for each player; None if the entry stays."""
    ties: set[TieRule] = field(default_factory=set)
    keys: dict[tuple[bytes, str], None] = field(default_factory=dict)
    """Places that the moves lead to, in order."""

    def add(self, move: Move) -> None:
        """Add a move."""
        self.ties.add(move.ties)
        if move.order_key == STAY:
            self.finals.setdefault(move.player, None)
            return
        self.finals[move.player] = move
        if move.order_key is not None:
            self.keys[move.order_key, move.player] = None

    @property
    def wants(self) -> int:
        """Return bits that select the counts of each previous entry, as apply.lua reads them."""
        wanted = {TieRule.ORDINAL: _PLACE, TieRule.STANDARD: _FLOOR, TieRule.DENSE: _SCORE}
        return sum(bit for ties, bit in wanted.items() if ties in self.ties)

    def places(self, before: Mapping[str, bytes | None]) -> list[bytes]:
        """Return the places to count entries before: the new and the previous ones of all moves."""
        keys = [*self.keys, *((key, player) for player, key in before.items() if key is not None)]
        places: dict[bytes, None] = {}
        if TieRule.ORDINAL in self.ties:
            places |= dict.fromkeys(place_of(key, player) for key, player in keys)
        if TieRule.STANDARD in self.ties:
            places |= dict.fromkeys(floor_of(key) for key, _ in keys)
        return list(places)

    def scores(self, before: Mapping[str, bytes | None]) -> list[bytes]:
        """Return the distinct scores to count; empty unless the ranking is dense."""
        if TieRule.DENSE not in self.ties:
            return []
        keys = [*(key for key, _ in self.keys), *(key for key in before.values() if key)]
        return list(dict.fromkeys(map(score_part, keys)))

    def changes(self, before: Mapping[str, bytes | None]) -> dict[bytes, int]:
        """Return by how much the number of entries with each score changes."""
        changes: dict[bytes, int] = {}
        for player, move in self.finals.items():
            if move is None or before[player] == move.order_key:
                continue
            for key, by in ((before[player], -1), (move.order_key, +1)):
                if key is not None:
                    score = score_part(key)
                    changes[score] = changes.get(score, 0) + by
        return {score: by for score, by in changes.items() if by}


def parts_of(moves: Sequence[Move]) -> list[RankingMoves]:
    """Group the moves of a piece by ranking."""
    parts: dict[Ranking, RankingMoves] = {}
    for move in moves:
        parts.setdefault(move.ranking, RankingMoves(move.ranking)).add(move)
    return list(parts.values())


@dataclass(slots=True)
class ApplyPiece:
    """Consecutive moves of an apply, and the previous order keys of their entries."""

    number: int
    last: bool
    moves: Sequence[Move]
    parts: list[RankingMoves]
    before: list[dict[str, bytes | None]]
    """Previous order keys for each part; empty with a single partition, which reads them itself."""
    places: list[list[bytes]] = field(init=False)
    scores: list[list[bytes]] = field(init=False)

    def __post_init__(self) -> None:
        pairs = list(zip(self.parts, self.before, strict=True))
        self.places = [part.places(before) for part, before in pairs]
        self.scores = [part.scores(before) for part, before in pairs]


class Apply:
    """One apply, or one staging, on one generation."""

    def __init__(
        self, filling: Partitions, work: ApplyRequest, *, after: int | None, through: int
    ) -> None:
        self._filling = filling
        self._work = work
        self._after, self._through = after, through
        self._mark = "" if after is None else work.mark()
        self._expected = work.expected()
        self._alone = filling.count == 1
        self._left = work.left() if self._alone else []
        self._homes: dict[str, PlayerPartition] = {
            player: filling.home(player) for player in {move.player for move in work.moves}
        }
        self.repeated = False
        """Whether the index had this apply already."""

    async def apply(self, known: KnownEntries = NOTHING_KNOWN) -> list[Moved] | None:
        """Apply; None if the index is at another position. Raises InvalidApply."""
        if self._alone:
            pieces = list(self._pieces({}))
            shapes: Mapping[Ranking, RankingShape] = {}
        else:
            before = await self._known(known)
            if before is None:
                return None
            pieces, shapes = list(self._pieces(before.order_keys)), before.shapes
        answers = await self._send(pieces, shapes, 0)  # The first partition decides.
        if answers is None:
            return None
        others = [self._send(pieces, shapes, number) for number in range(1, self._filling.count)]
        all_answers = [answers]
        for followed in await together(others) if others else []:
            if followed is None:
                return None
            all_answers.append(followed)
        return self._moved(pieces, all_answers)

    # ------------------------------------------------------------------------- asking

    async def _known(self, known: KnownEntries) -> KnownEntries | None:
        """Return the previous order keys; None if this apply does not follow the index's position.

        The first partition decides, but not alone: if it has fallen back to an older state, the
        others still know the apply it had made, and only that one may be repeated.
        """
        places = self._work.places()
        if (
            known.quiet
            and known.at == self._after
            and all(place in known.order_keys for place in places)
        ):
            return known
        reading = PartitionReader(self._filling)
        try:
            if self._after is not None:
                followers = await reading.followers(self._after)
                if followers - {(self._through, self._mark)}:
                    return None
            found = await reading.entries(places, shown=False, at=self._after)
        except PositionForgotten:
            return None
        keys = [None if entry is None else entry.order_key for entry in found.entries]
        return KnownEntries(
            found.at, dict(zip(places, keys, strict=True)), found.shapes, found.quiet
        )

    def _pieces(self, order_keys: Mapping[Place, bytes | None]) -> Iterator[ApplyPiece]:
        now, several = dict(order_keys), list(_cut(self._work.moves))
        count = len(several)
        for number, some in enumerate(several, start=1):
            parts = parts_of(some)
            before: list[dict[str, bytes | None]] = [{} for _ in parts]
            if not self._alone:
                for part, entries in zip(parts, before, strict=True):
                    for player, move in part.finals.items():
                        entries[player] = now[part.ranking, player]
                        if move is not None:
                            now[part.ranking, player] = move.order_key
            yield ApplyPiece(number, number == count, some, parts, before)

    # ------------------------------------------------------------------------ sending

    async def _send(
        self, pieces: Sequence[ApplyPiece], shapes: Mapping[Ranking, RankingShape], partition: int
    ) -> list[ScriptReply] | None:
        answers = []
        packed = self._packed(pieces[0], shapes, partition)
        for following in (*pieces[1:], None):
            if following is None:
                answer = await self._filling.write(partition, packed)
            else:
                sent = asyncio.ensure_future(self._filling.write(partition, packed))
                try:
                    await asyncio.sleep(0)  # Send it: the next is packed while Redis works.
                    packed = self._packed(following, shapes, partition)
                finally:
                    answer = await sent
            if answer.status == "mistake":
                raise InvalidApply(f"a ranking of this apply {answer.reason}")
            if answer.status == "other":
                return None
            if partition == 0:
                self.repeated |= answer.status == "again"
            answers.append(answer)
        return answers

    def _packed(
        self, piece: ApplyPiece, shapes: Mapping[Ranking, RankingShape], partition: int
    ) -> ScriptArgs:
        work, first, last = self._work, piece.number == 1, piece.last
        opened: list[str] = []
        for ranking, shape in work.opened.items() if first else ():
            opened += (ranking.board, name_of(ranking), shape_text(shape))
        dropped = [text for ranking in work.dropped for text in (ranking.board, name_of(ranking))]
        adopted: list[str] = []
        for draft, ranking in work.adopted.items():
            adopted += (draft.board, name_of(draft), ranking.board, name_of(ranking))
        strings: list[bytes] = []
        rankings = [
            self._part(piece, number, shapes, partition, strings)
            for number in range(len(piece.parts))
        ]
        return pack(
            [
                "" if self._after is None else str(self._after),
                str(self._through),
                self._mark,
                piece.number,
                last,
                self._alone,
                APPLIES_REMEMBERED,
                REMEMBERED_BYTES_MAX,
                KEYS_RELEASED_PER_APPLY,
                PLAYERS_PER_BUCKET,
                opened,
                self._expected if first else [],
                dropped if last else [],
                adopted if last or first else [],
                rankings,
                self._left if last else [],
            ],
            strings,
        )

    def _part(
        self,
        piece: ApplyPiece,
        number: int,
        shapes: Mapping[Ranking, RankingShape],
        partition: int,
        strings: list[bytes],
    ) -> list[Any]:
        part, places, scores = piece.parts[number], piece.places[number], piece.scores[number]
        here = self._here(part, partition)
        moves = [part.finals[player] for player in here]
        shown = any(move is not None and move.metadata is not None for move in moves)
        actions = []
        for move in moves:
            if move is None or move.order_key is None:
                actions.append(_STAYS if move is None else _LEAVES)
                continue
            actions.append(_PUT)
            strings.append(move.order_key)
            if shown:
                strings.append(b"-" if move.metadata is None else b"+" + move.metadata)
        strings += places
        strings += scores
        changes = self._changes(piece, number, shapes, partition)
        strings += changes
        return [
            part.ranking.board,
            name_of(part.ranking),
            part.wants if self._alone else 0,
            here,
            [self._homes[player].hash for player in here],
            actions,
            shown,
            len(places),
            len(scores),
            list(changes.values()),
        ]

    def _here(self, part: RankingMoves, partition: int) -> list[str]:
        if self._alone:
            return list(part.finals)
        homes = self._homes
        return [player for player in part.finals if homes[player].partition == partition]

    def _changes(
        self, piece: ApplyPiece, number: int, shapes: Mapping[Ranking, RankingShape], partition: int
    ) -> dict[bytes, int]:
        """Return the changed scores that a partition counts; empty if it is the only one."""
        part = piece.parts[number]
        shape = shapes.get(part.ranking) or self._work.opened.get(part.ranking)
        if self._alone or shape is None or not shape.dense:
            return {}
        generation = self._filling.generation
        return {
            score: by
            for score, by in part.changes(piece.before[number]).items()
            if partition_of_score(generation, score) == partition
        }

    # ------------------------------------------------------------------------ reading

    def _moved(
        self, pieces: Sequence[ApplyPiece], answers: Sequence[Sequence[ScriptReply]]
    ) -> list[Moved]:
        moved: list[Moved] = []
        for piece, told in zip(pieces, zip(*answers, strict=True), strict=True):
            tallies = {
                part.ranking: self._tally(piece, number, told)
                for number, part in enumerate(piece.parts)
            }
            moved += [tallies[move.ranking].take(move) for move in piece.moves]
        return moved

    def _tally(self, piece: ApplyPiece, number: int, told: Sequence[ScriptReply]) -> BatchRanks:
        if self._alone:
            return self._tally_alone(piece, number, told[0])
        return self._tally_together(piece, number, told)

    @staticmethod
    def _tally_alone(piece: ApplyPiece, number: int, answer: ScriptReply) -> BatchRanks:
        """Build the ranks of one ranking from the only partition's reply."""
        part, numbers = piece.parts[number], answer.numbers
        total = next(numbers)
        entries: dict[str, bytes | None] = {}
        counts: dict[bytes, int] = {}
        scores: dict[bytes, DistinctScore] = {}
        for player in part.finals:
            entries[player] = key = next(answer.strings)
            if key is None:
                continue
            if TieRule.ORDINAL in part.ties:
                counts[place_of(key, player)] = next(numbers)
            if TieRule.STANDARD in part.ties:
                counts[floor_of(key)] = next(numbers)
            if TieRule.DENSE in part.ties:
                scores[score_part(key)] = DistinctScore(next(numbers), next(numbers))
        for place in piece.places[number]:
            counts[place] = next(numbers)
        for score in piece.scores[number]:
            scores[score] = DistinctScore(next(numbers), next(numbers))
        return BatchRanks(total, entries, counts, scores)

    def _tally_together(
        self, piece: ApplyPiece, number: int, told: Sequence[ScriptReply]
    ) -> BatchRanks:
        """Build the ranks of one ranking from the sum of all partitions' replies."""
        part, places, scores = piece.parts[number], piece.places[number], piece.scores[number]
        total, counts = 0, dict.fromkeys(places, 0)
        having = dict.fromkeys(scores, DistinctScore(0, 0))
        for partition, answer in enumerate(told):
            numbers = answer.numbers
            total += next(numbers)
            for _ in self._here(part, partition):
                next(answer.strings)  # Its order key, known already.
            for place in places:
                counts[place] += next(numbers)
            for score in scores:
                better, entries = having[score]
                having[score] = DistinctScore(better + next(numbers), entries + next(numbers))
        return BatchRanks(total, piece.before[number], counts, having)
