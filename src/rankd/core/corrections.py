"""The state of corrections: retractions, and states of players.

All of it follows from facts alone, so that every process that folds the same ledger has the same.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import product
from typing import NamedTuple

import msgspec

from rankd.model.facts import (
    PlayerStanding,
    PlayerStateSet,
    Position,
    Recorded,
    ScoresRetracted,
    ScoreSubmitted,
)
from rankd.model.window import Instant


class Retraction(NamedTuple):
    """A recorded retraction, and where it was taken back."""

    position: Position
    fact: ScoresRetracted
    undone: Position | None = None

    @property
    def in_force(self) -> bool:
        """Whether it was not taken back."""
        return self.undone is None

    def concerns(self, board: str, player: str) -> bool:
        """Whether it may select submissions of a player to a board."""
        return self.fact.board in (None, board) and self.fact.names(player)


class PositionRanges:
    """Positions as ranges in order that do not meet."""

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in sorted(ranges):
            if self._lasts and first <= self._lasts[-1]:
                self._lasts[-1] = max(self._lasts[-1], last)
            else:
                self._firsts.append(first)
                self._lasts.append(last)

    def __contains__(self, position: Position) -> bool:
        place = bisect_right(self._firsts, position) - 1
        return place >= 0 and position <= self._lasts[place]


class RetractionFilter:
    """Tells which submissions to a board the retractions in force select.

    In O(log R) of R retractions, however many of them concern one player.
    """

    def __init__(self, retractions: Iterable[Retraction], board: str) -> None:
        self._by_position: dict[Position, list[Retraction]] = {}
        ranges: dict[tuple[str | None, str | None], list[tuple[int, int]]] = {}
        for one in retractions:
            fact = one.fact
            if not one.in_force or fact.board not in (None, board):
                continue
            for position in fact.positions:
                self._by_position.setdefault(position, []).append(one)
            if not fact.positions:
                last = one.position - 1 if fact.last is None else min(one.position - 1, fact.last)
                for player in fact.players or (fact.player,):
                    ranges.setdefault((player, fact.build), []).append((fact.first or 0, last))
        self._ranges = {key: PositionRanges(several) for key, several in ranges.items()}
        """By player and build; None for any."""

    def selects(self, recorded: Recorded) -> bool:
        """Whether a submission counts no more."""
        fact, position = recorded.fact, recorded.position
        if not isinstance(fact, ScoreSubmitted):
            return False
        if self._ranges and any(
            position in self._ranges.get(key, ())
            for key in product((fact.player, None), {fact.build, None})
        ):
            return True
        return any(
            position < one.position and one.fact.selects(recorded)
            for one in self._by_position.get(position, ())
        )


class PositionLog:
    """Positions in the order of the ledger, eight bytes each, which only grows at its end."""

    __slots__ = ("_positions",)

    def __init__(self, positions: Iterable[int] = ()) -> None:
        self._positions = array("Q", positions)

    def __len__(self) -> int:
        return len(self._positions)

    def __contains__(self, position: object) -> bool:
        assert isinstance(position, int)
        place = bisect_left(self._positions, position)
        return place < len(self._positions) and self._positions[place] == position

    def add(self, position: Position) -> None:
        """Add a position behind all others."""
        assert not self._positions or self._positions[-1] < position, "positions grow"
        self._positions.append(position)

    def truncate(self, length: int) -> None:
        """Forget the positions after the first ``length``."""
        del self._positions[length:]

    def copy(self) -> "PositionLog":
        """Return the same positions, to be added to on their own."""
        return PositionLog(self._positions)

    def after(self, position: Position, limit: int) -> list[Position]:
        """Return up to ``limit`` of the positions after one, in order."""
        first = bisect_left(self._positions, position + 1)
        return [Position(one) for one in self._positions[first : first + limit]]

    def frames(self, positions_each: int) -> Iterable[bytes]:
        """Return the positions as bytes, so many at a time."""
        for start in range(0, len(self._positions), positions_each):
            yield self._positions[start : start + positions_each].tobytes()

    def extend(self, frame: bytes) -> None:
        """Add the positions of a frame."""
        self._positions.frombytes(frame)


class PlayerState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A state of a player, on some boards or on all, until it is restored or its time is over."""

    state: PlayerStanding
    since: Position
    boards: tuple[str, ...] | None = None
    until: Instant | None = None
    actor: str | None = None
    reason: str | None = None

    def covers(self, board: str) -> bool:
        """Whether it holds on a board."""
        return self.boards is None or board in self.boards


PlayerStates = tuple[PlayerState, ...]
"""The states of one player, the newest last: the newest that covers a board holds there."""


def states_after(before: PlayerStates, fact: PlayerStateSet, position: Position) -> PlayerStates:
    """Return a player's states after one was set."""
    if fact.ends is not None:
        return _settled(tuple(one for one in before if one.since != fact.ends))
    left = tuple(one for one in (_without(one, fact.boards) for one in before) if one is not None)
    new = PlayerState(fact.state, position, fact.boards, fact.until, fact.actor, fact.reason)
    return _settled((*left, new))


def state_on(states: PlayerStates, board: str) -> PlayerState | None:
    """Return the state that holds on a board; None for an active player."""
    for one in reversed(states):
        if one.covers(board):
            return None if one.state == "active" else one
    return None


def is_active(states: PlayerStates, boards: Sequence[str] | None) -> bool:
    """Whether a player is active on some boards, or on all of them."""
    if boards is None:
        return not states
    return all(state_on(states, board) is None for board in boards)


def _without(one: PlayerState, boards: Sequence[str] | None) -> PlayerState | None:
    """Return a state on the boards that another one does not replace; None if it has none left."""
    if boards is None:
        return None
    if one.boards is None:
        return one
    left = tuple(board for board in one.boards if board not in boards)
    return msgspec.structs.replace(one, boards=left) if left else None


def _settled(states: PlayerStates) -> PlayerStates:
    """Leave out states without effect: active ones with no other state below them."""
    while states and states[0].state == "active":
        states = states[1:]
    return states


TimedStates = Iterable[tuple[str, PlayerState]]
"""States that end by themselves, with their players."""


def next_end(timed: TimedStates) -> Instant | None:
    """Return when the first state is over; None if none ever is."""
    return min((one.until for _, one in timed if one.until is not None), default=None)


def ended_by(timed: TimedStates, now: Instant) -> list[PlayerStateSet]:
    """Return the facts that end the states whose time is over."""
    return [
        PlayerStateSet(player, "active", one.boards, ends=one.since, reason="its time is over")
        for player, one in timed
        if one.until is not None and one.until <= now
    ]
