"""When windows open, close and are dropped, boards expire and states of players end: due facts.

A window rolls over by a fact with a key of its own, so it does so once, on whichever node. The cost
follows the windows that are due: due times are in heaps, and only boards with changed windows are
computed again. Closing and opening go by ledger time. Dropping cannot be undone by waiting, so it
goes by time that has lasted.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from rankd.core.board_state import BoardState, WindowTurn, seal_time
from rankd.core.corrections import ended_by, next_end
from rankd.core.state import State
from rankd.core.steady_clock import CertainTime
from rankd.model.board import Board
from rankd.model.facts import (
    BoardExpired,
    Fact,
    OpenWindow,
    Position,
    WindowDropped,
    WindowEnded,
    WindowOpened,
    WindowPrepared,
    WindowSealed,
)
from rankd.model.window import Instant, Recurrence, Window, WindowState

NEVER: Instant = 2**63 - 1

EXPIRED = "its time is over"
"""The reason in the fact that retires a board which expires."""

HEAP_SLACK = 64
"""How many outlived times a heap holds beyond as many as there are boards."""


class _DueTimes:
    """When each board is due, the earliest first."""

    def __init__(self) -> None:
        self._times: dict[str, Instant] = {}
        self._heap: list[tuple[Instant, str]] = []

    def put(self, board: str, at: Instant | None) -> None:
        """Note when a board is due; None for never."""
        if at is None:
            self._times.pop(board, None)
        elif self._times.get(board) != at:
            self._times[board] = at
            heappush(self._heap, (at, board))
            if len(self._heap) > 2 * len(self._times) + HEAP_SLACK:
                self._heap = [(at, board) for board, at in self._times.items()]
                heapify(self._heap)

    def next(self) -> Instant:
        """Return when the first board is due."""
        while self._heap and self._times.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else NEVER

    def take(self, now: Instant) -> list[str]:
        """Return the boards that are due, and forget when they were."""
        boards = []
        while self.next() <= now:
            _, board = heappop(self._heap)
            del self._times[board]
            boards.append(board)
        return boards


class _Seen(NamedTuple):
    """The values that a board's due times were computed from."""

    page: BoardState
    windows: object
    defined_at: Position
    sealed_changes: int

    def is_of(self, page: BoardState) -> bool:
        """Whether nothing of a page has changed since."""
        return (
            self.page is page
            and self.windows is page.windows
            and self.defined_at == page.defined_at
            and self.sealed_changes == page.sealed.changes
        )


class Schedule:
    """When the windows of all boards turn."""

    def __init__(self) -> None:
        self._state: State | None = None
        self._seen: dict[str, _Seen] = {}
        self._turns, self._drops = _DueTimes(), _DueTimes()
        self._taken: set[str] = set()
        """Boards whose facts were returned as due: ``next`` works them out again."""

    def due(self, state: State, now: Instant, lasted: CertainTime | None = None) -> list[Fact]:
        """Return the facts that close, open and drop the windows that are due.

        They are returned again until ``next`` is asked.
        """
        through = now if lasted is None else lasted.through
        if state is not self._state:
            self._work_out(state, now, None)
        self._taken.update(self._turns.take(now), self._drops.take(through))
        facts: list[Fact] = []
        for page in filter(None, map(state.boards.get, sorted(self._taken))):
            if _is_over(page, now):
                expired = BoardExpired(page.board.name, reason=EXPIRED, since=page.defined_at)
                facts.append(expired)
            else:
                facts += [*turns_of(page, now), *_drops_of(page, through)]
        return [*facts, *ended_by(state.timed_states(), now), *state.living.ended_by(now)]

    def next(
        self,
        state: State,
        now: Instant,
        lasted: CertainTime | None = None,
        boards: Iterable[str] | None = None,
    ) -> Instant:
        """Return when the next window of any board closes, opens or is dropped.

        ``boards`` names those that facts were about since the last time; None is any.
        """
        self._work_out(state, now, boards)
        drop_at = self._drops.next()
        if drop_at != NEVER and lasted is not None:
            drop_at = max(drop_at, lasted.again_at)
        state_end = next_end(state.timed_states())
        ends = [end for end in (state_end, state.living.next_due()) if end is not None]
        return min(self._turns.next(), drop_at, *ends)

    def _work_out(self, state: State, now: Instant, boards: Iterable[str] | None) -> None:
        """Find out when the boards are due that have changed."""
        if state is not self._state or boards is None:
            boards = {*state.boards, *self._seen}
        self._state = state
        for board in {*boards, *self._taken}:
            page, seen = state.boards.get(board), self._seen.get(board)
            if page is None:
                self._forget(board)
            elif seen is None or board in self._taken or not seen.is_of(page):
                self._seen[board] = _Seen(page, page.windows, page.defined_at, page.sealed.changes)
                is_due = _is_over(page, now) or any(turns_of(page, now))
                self._turns.put(board, now if is_due else _next_due(page, now))
                self._drops.put(board, page.next_drop())
        self._taken.clear()

    def _forget(self, board: str) -> None:
        self._seen.pop(board, None)
        self._turns.put(board, None)
        self._drops.put(board, None)


def _is_over(page: BoardState, now: Instant) -> bool:
    return page.board.expires is not None and page.board.expires <= now


def _next_due(page: BoardState, now: Instant) -> Instant | None:
    """Return when a board's windows turn next, or it expires; None if neither ever happens."""
    times = (next_step_of(page, now), page.board.expires)
    return min((time for time in times if time is not None), default=None)


def turns_of(page: BoardState, now: Instant) -> Iterator[WindowTurn]:
    """Yield the facts that end, seal and open the due windows of a board."""
    # Not where the board was defined first: another definition may use an id again that was
    # dropped, and a key that was used is left out.
    name, since = page.board.name, page.turned_since
    ending = {window.name for window in page.over(now)}
    for window in page.over(now):
        yield _ending(page, window, page.board, now)
    for closed in page.unsealed():
        over = seal_time(closed)
        if over is not None and over <= now:
            if closed.state is WindowState.GRACE:
                yield WindowSealed(name, closed.window.id, since=since)
            else:
                yield _ending(page, closed.window, closed.terms.board, now)
    for recurrence in page.board.windows:
        if recurrence.name in page.windows and recurrence.name not in ending:
            continue
        window_now = recurrence.window_at(now)
        if window_now is None or _was_sealed(page, window_now):
            continue
        opened = page.edition(window_now)
        if recurrence.rolls and not page.is_prepared(opened.window):
            yield WindowPrepared(name, opened.window, opened.start, opened.end, since)
        yield WindowOpened(name, opened.window, opened.start, opened.end, since)


def _drops_of(page: BoardState, now: Instant) -> Iterator[Fact]:
    for window in page.kept_enough(now):
        yield WindowDropped(page.board.name, window, page.turned_since)


def _ending(
    page: BoardState, window: Window, terms: Board, now: Instant
) -> WindowEnded | WindowSealed:
    """Return the fact that begins the grace of a window, or seals it where that is over, too."""
    fact: type[WindowEnded] | type[WindowSealed] = WindowSealed
    for recurrence in terms.windows:
        sealed_at = recurrence.sealed_at(window) if recurrence.name == window.name else None
        if sealed_at is not None and sealed_at > now:
            fact = WindowEnded
    return fact(page.board.name, window.id, since=page.turned_since)


def _was_sealed(page: BoardState, window: Window) -> bool:
    """Whether this very window was closed early: then it stays closed."""
    return page.closed_early(window) or any(
        sealed.terms.board == page.board and sealed.window.end == window.end
        for sealed in page.sealed.starting(window.name, window.start)
    )


def windows_at(page: BoardState | None, board: Board, now: Instant) -> tuple[OpenWindow, ...]:
    """Return the windows that a board has open once it is defined so, at this time.

    A window that is open and of the same time goes on, under the id it has.
    """
    scratch = page or BoardState(board, Position(0))
    windows: list[OpenWindow] = []
    for recurrence in board.windows:
        window = recurrence.window_at(now)
        if window is None:
            continue
        open_now = scratch.windows.get(recurrence.name)
        if open_now is not None and scratch.goes_on(open_now.window, window):
            going_on = open_now.window
            windows.append(OpenWindow(going_on.id, going_on.start, going_on.end))
        elif not scratch.closed_early(window):
            windows.append(scratch.edition(window))
        elif (reset := scratch.left_out_after_reset(window)) is not None:
            windows.append(OpenWindow(reset.id, reset.start, reset.end))
    return tuple(windows)


def next_turn_of(page: BoardState, now: Instant) -> Instant | None:
    """Return when the next window of a board opens or closes; None if none ever does."""
    closing = [opened.window.end for opened in page.windows.values()]
    ends = [end for end in closing if end is not None]
    return min([*ends, *_openings(page, now)], default=None)


def next_step_of(page: BoardState, now: Instant) -> Instant | None:
    """Return when a window of a board takes its next step, the end of its grace included."""
    ends = [end for one in page.unsealed() if (end := seal_time(one)) is not None]
    turn = next_turn_of(page, now)
    return min(ends if turn is None else [*ends, turn], default=None)


def _openings(page: BoardState, now: Instant) -> Iterator[Instant]:
    for recurrence in page.board.windows:
        if recurrence.name not in page.windows:
            coming = recurrence.next_opening(now)
            if coming is not None and coming.opening is not None:
                yield coming.opening


SCHEDULE_LENGTH_MAX = 100
"""Coming openings and closings that one answer lists."""

SCHEDULE_LENGTH_DEFAULT = 10


class PlannedStep(NamedTuple):
    """A step that a window is going to take by time."""

    at: Instant
    step: str
    """``closes``, ``seals`` (at the end of a grace) or ``opens``."""
    window: Window


def coming_steps(page: BoardState, now: Instant, limit: int) -> list[PlannedStep]:
    """Return the next steps of a board's windows by time, the earliest first."""
    steps = [
        step for recurrence in page.board.windows for step in _steps(page, recurrence, now, limit)
    ]
    order = {"closes": 0, "seals": 1, "opens": 2}
    return sorted(steps, key=lambda one: (one.at, order[one.step]))[:limit]


def _steps(
    page: BoardState, recurrence: Recurrence, now: Instant, limit: int
) -> Iterator[PlannedStep]:
    """Yield the next steps of the windows of one recurrence, enough of them."""
    opened = page.windows.get(recurrence.name)
    if opened is not None:
        yield from _closing(recurrence, opened.window)
    for closed in page.unsealed():
        if closed.window.name == recurrence.name:
            steps = list(_closing(recurrence, closed.window))
            yield from steps if closed.state is WindowState.FROZEN else steps[1:]
    coming = recurrence.next_opening(now)
    for _ in range(limit):
        if coming is None or coming.opening is None:
            return
        window = replace(coming, id=page.edition(coming).window)
        yield PlannedStep(coming.opening, "opens", window)
        yield from _closing(recurrence, window)
        coming = recurrence.next_after(coming)


def _closing(recurrence: Recurrence, window: Window) -> Iterator[PlannedStep]:
    sealed_at = recurrence.sealed_at(window)
    if window.end is not None and sealed_at is not None:
        yield PlannedStep(window.end, "closes", window)
        if recurrence.grace:
            yield PlannedStep(sealed_at, "seals", window)
