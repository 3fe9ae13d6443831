"""Positions of the facts that are few, by kind, board and actor.

Submissions and profiles are as many as scores and players, all other facts are few. So the audit
trail finds the few without reading the many: 20 bytes of memory for each, in every process that
folds the ledger.
"""

from array import array
from bisect import bisect_right
from collections.abc import Container, Iterator

import msgspec

from rankd.model.facts import Position, Recorded

ROWS_PER_PIECE = 32_768
"""Some 600 kilobytes of a snapshot."""

_NOWHERE = Position(0)


class AuditPiece(msgspec.Struct, frozen=True, array_like=True):
    """A part of an index for a snapshot."""

    since: Position
    names: list[str]
    """All names, in the first piece only."""
    positions: bytes
    kinds: bytes
    boards: bytes
    actors: bytes


class AuditIndex:
    """Positions in the order of the ledger, which only grow at their end, with numbers of names."""

    __slots__ = ("_actors", "_boards", "_kinds", "_names", "_numbers", "_positions", "since")

    def __init__(self, since: Position = _NOWHERE) -> None:
        self.since = since
        """No fact up to here is in it: a snapshot of an older version had none."""
        self._positions = array("Q")
        self._kinds, self._boards, self._actors = array("I"), array("I"), array("I")
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}
        """From 1 on; 0 stands for a fact without a board or an actor."""

    def __len__(self) -> int:
        return len(self._positions)

    def add(self, recorded: Recorded) -> None:
        """Add a fact behind all others; one that is there already is not added again."""
        if self._positions and recorded.position <= self._positions[-1]:
            return
        fact = recorded.fact
        self._positions.append(recorded.position)
        self._kinds.append(self._number(fact.kind.partition(".")[0]))
        self._boards.append(self._number(getattr(fact, "board", None)))
        self._actors.append(self._number(getattr(fact, "actor", None)))

    def _number(self, name: str | None) -> int:
        if name is None:
            return 0
        number = self._numbers.get(name)
        if number is None:
            self._names.append(name)
            number = self._numbers[name] = len(self._names)
        return number

    def find(
        self,
        *,
        after: Position,
        kinds: Container[str] | None = None,
        boards: Container[str | None] | None = None,
        actor: str | None = None,
    ) -> Iterator[Position]:
        """Yield the positions after one of the facts of these kinds, boards and this actor."""
        names = [None, *self._names]
        is_kind = [kinds is None or name in kinds for name in names]
        is_board = [boards is None or name in boards for name in names]
        is_actor = [actor is None or name == actor for name in names]
        first = bisect_right(self._positions, after)
        columns = (self._kinds, self._boards, self._actors)
        rows = zip(self._positions[first:], *(column[first:] for column in columns), strict=True)
        for position, kind, board, by in rows:
            if is_kind[kind] and is_board[board] and is_actor[by]:
                yield Position(position)

    def truncate(self, length: int) -> None:
        """Forget the facts after the first ``length``, and names that no other has."""
        columns = (self._positions, self._kinds, self._boards, self._actors)
        for column in columns:
            del column[length:]
        known = max((number for column in columns[1:] for number in column), default=0)
        for name in self._names[known:]:
            del self._numbers[name]
        del self._names[known:]

    def copy(self) -> "AuditIndex":
        """Return the same facts, to be added to on their own."""
        other = AuditIndex(self.since)
        for piece in self.pieces():
            other.extend(piece)
        return other

    def pieces(self) -> Iterator[AuditPiece]:
        """Yield the parts of it, at least one."""
        columns = (self._positions, self._kinds, self._boards, self._actors)
        for start in range(0, max(len(self), 1), ROWS_PER_PIECE):
            rows = (column[start : start + ROWS_PER_PIECE].tobytes() for column in columns)
            yield AuditPiece(self.since, [] if start else list(self._names), *rows)

    def extend(self, piece: AuditPiece) -> None:
        """Add the facts of a part."""
        self.since = piece.since
        for name in piece.names:
            self._number(name)
        self._positions.frombytes(piece.positions)
        self._kinds.frombytes(piece.kinds)
        self._boards.frombytes(piece.boards)
        self._actors.frombytes(piece.actors)
