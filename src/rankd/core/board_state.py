"""The state of one board: its definitions, and its windows.

Open windows count scores, closed ones are readable as long as they are kept. Nothing here reads a
clock: windows turn by facts.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import replace
from datetime import timedelta
from itertools import chain
from typing import NamedTuple

from rankd.errors import UnknownWindow
from rankd.model.board import Board, Scores
from rankd.model.facts import (
    BoardDefined,
    BoardExpired,
    BoardRetired,
    ClosedWindow,
    OpenWindow,
    Position,
    Recorded,
    WindowDropped,
    WindowEnded,
    WindowFrozen,
    WindowOpened,
    WindowPrepared,
    WindowsCorrected,
    WindowSealed,
    WindowSettled,
)
from rankd.model.order import Order
from rankd.model.redefinition import refolded
from rankd.model.standing import TieRule
from rankd.model.window import (
    UNSEALED,
    Instant,
    ListedWindow,
    Recurrence,
    Window,
    WindowState,
    show_instant,
)
from rankd.ports import Ranking, RankingShape

AttemptWindows = Mapping[str, tuple[str, ...]]
"""By the name of a recurrence, the ids that attempts in its open window are counted under."""

EDITION = "~"
"""Parts a window's id from the number of its edition, where the id was used before."""

_FIRST = f"{EDITION}1"
"""After an id without a number: ``all`` is the window that is open now, ``all~1`` the first."""


class Terms:
    """The definition that a window's entries were made under, and the order of their keys."""

    __slots__ = ("board", "order", "shape")

    def __init__(self, board: Board) -> None:
        self.board = board
        self.order = Order.of(board)
        self.shape = RankingShape(self.order.key_bytes, dense=board.ties is TieRule.DENSE)

    def scores(self, order_key: bytes | None) -> Scores | None:
        """Return the scores of an entry, None where there is none."""
        return None if order_key is None else self.order.scores(order_key)

    def shown(self, order_key: bytes | None, at: Instant) -> Scores | None:
        """Return the scores of an entry to show at an instant, None where there is none."""
        return None if order_key is None else self.order.shown(self.order.scores(order_key), at)


class OpenedWindow(NamedTuple):
    """A window that counts scores."""

    window: Window
    ranking: Ranking
    """The ranking of all players."""
    terms: Terms

    @property
    def state(self) -> WindowState:
        """Always open."""
        return WindowState.OPEN

    @property
    def decays_until(self) -> Instant | None:
        """When its scores stop to decay; None for never."""
        return self.window.end


class SealedWindow(NamedTuple):
    """A closed window, readable as long as it is kept."""

    window: Window
    ranking: Ranking
    terms: Terms
    through: Position
    """Where it was closed, by any fact: no later one is in it."""
    at: Instant
    """When it took the last step of its life, by the ledger's time."""
    state: WindowState = WindowState.SEALED
    sealed: Position = Position(0)
    """Where it was sealed; 0 before that, in its grace or frozen."""
    reason: str | None = None
    """Why an operator closed it; None if its time was over, or a definition left it out."""
    closed: Instant | None = None
    """When an operator closed it, by the ledger's time; None if none did."""
    settled: WindowSettled | None = None
    """The last settlement of it."""

    @property
    def decays_until(self) -> Instant:
        """When its scores stopped to decay: at its end, or when it was closed before that."""
        if self.closed is not None:
            return self.closed
        return self.at if self.window.end is None else min(self.at, self.window.end)

    @property
    def shown(self) -> Window:
        """The window, with the end that an operator put to it."""
        return self.window if self.closed is None else replace(self.window, end=self.closed)

    @property
    def kept_from(self) -> Instant:
        """The time from which its retention counts: of one that was closed early, its own end.

        Dropped before, it would open again.
        """
        return self.at if self.closed is None else max(self.at, self.window.end or self.at)

    def sealed_by(self, recorded: Recorded, reason: str | None) -> "SealedWindow":
        """Return a frozen window, or one in its grace, once it is sealed."""
        if self.state not in UNSEALED:
            return self
        state, reason = WindowState.SEALED, reason or self.reason
        return self._replace(state=state, sealed=recorded.position, at=recorded.at, reason=reason)


class UnrecordedWindow(NamedTuple):
    """A window without a fact of its own: it has not begun, or nothing ran while it lasted."""

    window: Window
    ranking: Ranking
    terms: Terms
    state: WindowState

    @property
    def decays_until(self) -> Instant | None:
        """When its scores stop to decay; None for never."""
        return self.window.end


class SealedWindows(dict[str, SealedWindow]):
    """The closed windows of a board by id, oldest first.

    Also in the order of their closing by recurrence, and by their start: finding the due windows,
    or one window, costs O(log n). Change it by item and by ``pop`` only.
    """

    def __init__(self) -> None:
        super().__init__()
        self.changes = 0
        """Grows with every change."""
        self.unsealed: dict[str, None] = {}
        """The ids of those in their grace, or frozen."""
        self.early: dict[str, None] = {}
        """The ids of those that an operator closed."""
        self._closings: dict[str, list[tuple[Instant, Position, str]]] = {}
        self._starts: dict[tuple[str, Instant | None], list[str]] = {}

    def __setitem__(self, id: str, sealed: SealedWindow) -> None:
        if id in self:
            self._unlist(self[id])
        super().__setitem__(id, sealed)  # One that is there keeps its place.
        self.changes += 1
        if sealed.closed is not None:
            self.early[id] = None
        if sealed.state in UNSEALED:
            self.unsealed[id] = None
        else:
            closings = self._closings.setdefault(sealed.window.name, [])
            insort(closings, (sealed.kept_from, sealed.through, id))
        self._starts.setdefault((sealed.window.name, sealed.window.start), []).append(id)

    def pop(self, id: str, *default: SealedWindow | None) -> SealedWindow | None:  # type: ignore[override]
        """Take a window out and return it."""
        if id in self:
            self._unlist(self[id])
        return super().pop(id, *default)

    def _unlist(self, sealed: SealedWindow) -> None:
        """Take a window out of the lists of closings and starts."""
        id, name, start = sealed.window.id, sealed.window.name, sealed.window.start
        self.changes += 1
        self.early.pop(id, None)
        if id in self.unsealed:
            del self.unsealed[id]
        else:
            closings = self._closings[name]
            del closings[bisect_left(closings, (sealed.kept_from, sealed.through, id))]
        self._starts[name, start].remove(id)
        if not self._starts[name, start]:
            del self._starts[name, start]

    def copy(self) -> "SealedWindows":
        """Return the same windows, to be changed on their own."""
        twin = SealedWindows()
        dict.update(twin, self)
        twin.unsealed, twin.early = dict(self.unsealed), dict(self.early)
        twin._closings = {name: list(closings) for name, closings in self._closings.items()}
        twin._starts = {start: list(ids) for start, ids in self._starts.items()}
        return twin

    def first_closing(self, name: str) -> Instant | None:
        """Return when the oldest one of a recurrence was closed; None if there is none."""
        closings = self._closings.get(name)
        return closings[0][0] if closings else None

    def closed_by(self, name: str, at: Instant) -> Iterator[str]:
        """Yield the ids of those of a recurrence that were closed by then, oldest first."""
        for closed_at, _, id in self._closings.get(name, ()):
            if closed_at > at:
                return
            yield id

    def oldest_first(self, name: str) -> Iterator[SealedWindow]:
        """Yield those of a recurrence, in the order of their closing."""
        for _, _, id in self._closings.get(name, ()):
            yield self[id]

    def starting(self, name: str, start: Instant | None) -> list[SealedWindow]:
        """Return those of a recurrence that start then: editions of one window, oldest first."""
        return [self[id] for id in self._starts.get((name, start), ())]


WindowTurn = (
    WindowOpened
    | WindowPrepared
    | WindowEnded
    | WindowFrozen
    | WindowSealed
    | WindowSettled
    | WindowDropped
)
"""A step in the life of one window."""


class _Schedule(NamedTuple):
    """The next windows of a board, and the values they were computed from."""

    open: "Mapping[str, OpenedWindow]"
    defined_at: Position
    since: Instant
    until: Instant | None
    """When the first of them begins; None if none ever does."""
    coming: tuple[UnrecordedWindow, ...]

    def holds(self, page: "BoardState", now: Instant) -> bool:
        """Tell whether they still come next."""
        unchanged = self.open is page.windows and self.defined_at == page.defined_at
        return unchanged and self.since <= now and (self.until is None or now < self.until)


class BoardState:
    """One board's page of the state."""

    __slots__ = (
        "_attempt_windows",
        "_schedule",
        "alias",
        "board",
        "corrected_at",
        "default",
        "defined_at",
        "earlier",
        "prepared",
        "rolling",
        "sealed",
        "since",
        "terms",
        "traced",
        "windows",
    )

    def __init__(self, board: Board, position: Position, *, alias: str | None = None) -> None:
        self.since = position
        """Where a board of this name was defined first, since one was last retired."""
        self.alias = alias
        """The board name of its rankings while they are a draft."""
        self.earlier: list[tuple[Position, Board]] = []
        """The definitions before the present one, and where each came into force."""
        self.windows: dict[str, OpenedWindow] = {}
        """The open ones, by the name of their recurrence, in the order of the definition."""
        self.prepared: dict[str, OpenedWindow] = {}
        """The coming ones of rolling recurrences, by name: they count scores, and are not read."""
        self.sealed = SealedWindows()
        """The closed ones, by id, oldest first."""
        self._attempt_windows: tuple[Mapping[str, OpenedWindow], Position, AttemptWindows] | None
        self._attempt_windows = None
        self._schedule: _Schedule | None = None
        self.traced = True
        """Whether every player with an entry is in ``State.player_boards``. False if entries were
        made while the board had no segments, or are of a snapshot that kept no player_boards."""
        self.corrected_at = Position(0)
        """Where its windows were corrected last, because the time had been wrong."""
        self.adopt(board, position)

    def adopt(self, board: Board, position: Position) -> None:
        """Go by a definition from here on."""
        self.board = board
        self.rolling = tuple(recurrence for recurrence in board.windows if recurrence.rolls)
        self.terms = Terms(board)
        self.defined_at = position
        self.default = "all" if "all" in self.names else self.names[0]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the recurrences, in the order of the definition."""
        return tuple(recurrence.name for recurrence in self.board.windows)

    @property
    def window_ids(self) -> dict[str, str]:
        """The ids of the open windows, by the name of their recurrence."""
        return {name: opened.window.id for name, opened in self.windows.items()}

    @property
    def attempt_windows(self) -> AttemptWindows:
        """The ids that attempts in the open windows are counted under, by name, the newest first.

        Those of a rolling window are of its days: an attempt counts as long as its day does.
        """
        known = self._attempt_windows
        if known is None or known[0] is not self.windows or known[1] != self.defined_at:
            found = dict(map(self._attempt_ids, self.board.windows))
            ids = {name: found[name] for name in self.windows}
            known = self._attempt_windows = (self.windows, self.defined_at, ids)
        return known[2]

    def _attempt_ids(self, recurrence: Recurrence) -> tuple[str, tuple[str, ...]]:
        opened = self.windows.get(recurrence.name)
        if opened is None:
            return recurrence.name, ()
        if not recurrence.rolls:
            return recurrence.name, (opened.window.id,)
        day: Window | None = recurrence.window(base_id(opened.window.id))
        ids: list[str] = []
        span = f"{recurrence.definition()}{recurrence.time_zone}"  # Of another, all begins anew.
        while day is not None and (day.opening or 0) >= (opened.window.start or 0):
            ids.append(f"{day.id}+{span}")
            day = recurrence.previous(day)
        return recurrence.name, tuple(ids)

    @property
    def counting(self) -> list[OpenedWindow]:
        """The windows that a submission counts in: the open ones, and the prepared ones behind."""
        return [*self.windows.values(), *self.prepared.values()]

    def copy(self) -> "BoardState":
        """Return the page as it is: nothing that is noted in one of the two is in the other."""
        page = copy(self)
        page.earlier, page.sealed = list(self.earlier), self.sealed.copy()
        page.windows, page.prepared = dict(self.windows), dict(self.prepared)
        return page

    def board_at(self, position: Position) -> Board:
        """Return the definition that was in force at a position."""
        return self.definition_at(position)[1]

    def definition_at(self, position: Position) -> tuple[Position, Board]:
        """Return the definition that was in force at a position, behind where it was recorded."""
        for since, board in reversed([*self.earlier, (self.defined_at, self.board)]):
            if since <= position:
                return since, board
        return self.defined_at, self.board

    def opened(self, window: OpenWindow) -> OpenedWindow:
        """Return an open window of this board, under its present terms."""
        name = name_of_window(window.window)
        return OpenedWindow(
            Window(name, window.window, window.start, window.end),
            Ranking(self.alias or self.board.name, window.window),
            self.terms,
        )

    @property
    def turned_since(self) -> Position:
        """Distinguishes repetitions of a window made by another definition or time."""
        return max(self.defined_at, self.corrected_at)

    def is_retired_by(self, fact: BoardRetired) -> bool:
        """Whether a fact retires this board: an expiry does only under the definition it is of."""
        return not isinstance(fact, BoardExpired) or fact.since == self.defined_at

    def is_stale(self, fact: WindowTurn) -> bool:
        """Whether a turn was made by a node that had not heard of the last correction."""
        return fact.since < self.corrected_at

    def closed(
        self, window: ClosedWindow, fact: WindowsCorrected, position: Position
    ) -> SealedWindow:
        """Return a window that a correction closed, under the terms of its time.

        A window that had closed before the time was wrong, and was dropped by it, is unchanged. Of
        any other the correction is the closing: it may have been archived with other entries.
        """
        then = self.board_at(Position(window.through - 1))
        through = window.through if window.through < fact.since else position
        closed = SealedWindow(
            Window(name_of_window(window.window), window.window, window.start, window.end),
            Ranking(self.alias or self.board.name, window.window),
            self.terms if then is self.board else Terms(then),
            through,
            window.at,
            sealed=through,
        )
        end, over = window.end, seal_time(closed)
        if end is not None and over is not None and end <= fact.time < over:
            return closed._replace(state=WindowState.GRACE, sealed=Position(0))
        return closed

    def correct(self, fact: WindowsCorrected, position: Position) -> None:
        """Have the windows that a correction tells."""
        gone = {*fact.removed, *(window.window for window in fact.closed)}
        closed = [sealed for id, sealed in self.sealed.items() if id not in gone]
        closed += [self.closed(window, fact, position) for window in fact.closed]
        self.sealed = SealedWindows()
        for sealed in sorted(closed, key=lambda one: one.through):
            self.sealed[sealed.window.id] = sealed
        self.windows = {name_of_window(one.window): self.opened(one) for one in fact.windows}
        self.prepared = {}
        self.corrected_at = position

    def redefine(self, board: Board, fact: BoardDefined, recorded: Recorded) -> None:
        """Adopt a new definition, and seal the windows that do not go on under it."""
        going_on = {window.window for window in fact.windows}
        for window, *_ in list(self.windows.values()):
            if window.id not in going_on:
                self._close(window.id, recorded, WindowState.SEALED)
        again = refolded(self.board, board)
        still = {one.name for one in board.windows if one.rolls} - again
        self.earlier.append((self.defined_at, self.board))
        self.traced = self.traced and bool(self.board.segments)
        self.adopt(board, recorded.position)
        self.prepared = {
            name: prepared._replace(terms=self.terms)
            for name, prepared in self.prepared.items()
            if name in still
        }

    def open_defined(self, fact: BoardDefined) -> None:
        """Have the open windows that a definition tells."""
        windows = [self.opened(window) for window in fact.windows]
        self.windows = {opened.window.name: opened for opened in windows}
        for opened in windows:
            self.sealed.pop(opened.window.id, None)  # Taken out earlier, and put back now.
        self.prepared = {
            name: one
            for name, one in self.prepared.items()
            if not any(opened.window.id == one.window.id for opened in windows)
        }

    def turn(self, fact: WindowTurn, recorded: Recorded) -> None:
        """Take a step in the life of one window."""
        match fact:
            case WindowOpened():
                self._open(fact)
            case WindowPrepared():
                self._prepare(fact)
            case WindowEnded():
                self._end(fact, recorded)
            case WindowFrozen():
                self._close(fact.window, recorded, WindowState.FROZEN, fact.reason)
            case WindowSealed():
                self._close(fact.window, recorded, WindowState.SEALED, fact.reason)
                if (known := self.sealed.get(fact.window)) is not None:
                    self.sealed[fact.window] = known.sealed_by(recorded, fact.reason)
            case WindowSettled():
                known = self.sealed.get(fact.window)
                if known is not None and known.state not in UNSEALED:
                    final = known._replace(state=WindowState.FINAL, settled=fact)
                    self.sealed[fact.window] = final
            case WindowDropped():
                self.sealed.pop(fact.window, None)

    def _open(self, fact: WindowOpened) -> None:
        opened = self.opened(OpenWindow(fact.window, fact.start, fact.end))
        windows = {**self.windows, opened.window.name: opened}
        self.windows = {name: windows[name] for name in self.names if name in windows}

        self.prepared = {
            name: one for name, one in self.prepared.items() if name != opened.window.name
        }

    def takes(self, fact: WindowPrepared) -> bool:
        """Whether a window can be prepared: it was not before, and its recurrence rolls."""
        name = name_of_window(fact.window)
        known = self.prepared.get(name)
        rolls = any(recurrence.name == name for recurrence in self.rolling)
        return rolls and not self.is_recorded(fact.window) and not _is(known, fact.window)

    def _prepare(self, fact: WindowPrepared) -> None:
        if self.takes(fact):
            prepared = self.opened(OpenWindow(fact.window, fact.start, fact.end))
            self.prepared = {**self.prepared, prepared.window.name: prepared}

    def _end(self, fact: WindowEnded, recorded: Recorded) -> None:
        """Begin the grace of a window that is open or frozen."""
        self._close(fact.window, recorded, WindowState.GRACE)
        known = self.sealed.get(fact.window)
        if known is not None and known.state is WindowState.FROZEN:
            self.sealed[fact.window] = known._replace(state=WindowState.GRACE, at=recorded.at)

    def _close(
        self, id: str, recorded: Recorded, state: WindowState, reason: str | None = None
    ) -> None:
        """Take a window out of the open ones, if it is one of them."""
        name = name_of_window(id)
        if name not in self.windows or self.windows[name].window.id != id:
            return
        open_until_now = self.windows[name]
        self.windows = {key: value for key, value in self.windows.items() if key != name}
        position, at = recorded.position, recorded.at
        self.sealed[id] = SealedWindow(
            *open_until_now,
            position,
            at,
            state,
            Position(0) if state in UNSEALED else position,
            reason,
            None if reason is None else at,
        )

    def has_editions(self, id: str) -> bool:
        """Tell whether a correction of a window makes another edition of it: once it is sealed."""
        return id in self.sealed and id not in self.sealed.unsealed

    def unsealed(self) -> Iterator[SealedWindow]:
        """Yield the windows that are frozen, or in their grace."""
        for id in list(self.sealed.unsealed):
            yield self.sealed[id]

    def frozen(self, name: str) -> SealedWindow | None:
        """Return the frozen window of a recurrence, if there is one."""
        for one in self.unsealed():
            if one.state is WindowState.FROZEN and one.window.name == name:
                return one
        return None

    def shut(self, position: Position, now: Instant) -> tuple[str, ...]:
        """Return the windows that took no score at a position because an operator closed them."""
        return tuple(
            id
            for id, one in ((id, self.sealed[id]) for id in self.sealed.early)
            if one.through < position
            and (position < one.sealed or one.window.end is None or now < one.window.end)
            and not self.is_recorded(self.after_reset(one.window, now).window)
        )

    def is_under_way(self, name: str) -> bool:
        """Tell whether a recurrence has a window that is open or frozen."""
        return name in self.windows or self.frozen(name) is not None

    def closed_early(self, window: Window) -> bool:
        """Tell whether an operator closed a window of this time, under any definition."""
        return any(
            sealed.closed is not None and sealed.window.end == window.end
            for sealed in self.sealed.starting(window.name, window.start)
        )

    def is_due(self, window: Window, now: Instant) -> bool:
        """Tell whether the definition has this window, or the one it follows, at a time."""
        return window.name not in self.windows and any(
            due.end == window.end
            for recurrence in self.board.windows
            if recurrence.name == window.name and (due := recurrence.window_at(now)) is not None
        )

    def left_out_after_reset(self, window: Window) -> Window | None:
        """Return the last window after resets of one, if only a definition closed it."""
        last = self._sealed_at(window)
        return None if last is None or last.closed is not None else last.window

    def goes_on(self, opened: Window, window: Window) -> bool:
        """Tell whether an open window is that of a calendar, or follows a reset of it."""
        if (opened.start, opened.end) == (window.start, window.end):
            return True
        later = opened.start is not None and (window.start or 0) < opened.start
        return later and opened.end == window.end and EDITION in opened.id

    def after_reset(self, window: Window, at: Instant) -> OpenWindow:
        """Return the window that takes the place of one that is reset."""
        base, _, number = window.id.partition(EDITION)
        return OpenWindow(f"{base}{EDITION}{int(number or 1) + 1}", at, window.end)

    def reset_before(self, window: Window) -> SealedWindow | None:
        """Return the window whose reset opened another; None if it was not opened by a reset."""
        base, _, number = window.id.partition(EDITION)
        if not number:
            return None
        before = self.sealed.get(base if number == "2" else f"{base}{EDITION}{int(number) - 1}")
        if before is None or before.closed is None or before.window.end != window.end:
            return None
        return before

    def over(self, now: Instant) -> Iterator[Window]:
        """Yield the open windows whose time is over."""
        for window, *_ in self.windows.values():
            if window.end is not None and window.end <= now:
                yield window

    def next_drop(self) -> Instant | None:
        """Return when the first closed window is to be dropped; None if none ever is."""
        drops = [
            closing + _microseconds(kept)
            for name, kept in self.board.retention.items()
            if (closing := self.sealed.first_closing(name)) is not None
        ]
        return min(drops, default=None)

    def kept_enough(self, now: Instant) -> Iterator[str]:
        """Yield the ids of the closed windows that were kept as long as they were to be."""
        for name, kept in self.board.retention.items():
            yield from self.sealed.closed_by(name, now - _microseconds(kept))

    def edition(self, window: Window) -> OpenWindow:
        """Return the window to open: under its own id, or a new one if that was used.

        A window of the very same time was taken out of the definition and is put back.
        """
        id, number = window.id, 1
        while (known := self.sealed.get(id)) is not None and (
            (known.window.start, known.window.end) != (window.start, window.end)
        ):
            number += 1
            id = f"{window.id}{EDITION}{number}"
        return OpenWindow(id, window.start, window.end)

    def find_window(
        self, text: str | None, now: Instant
    ) -> OpenedWindow | SealedWindow | UnrecordedWindow:
        """Return the window a reader means: ``daily``, ``daily:-1``, ``daily:2026-11-14``.

        None is ``all`` or, on a board without it, the first window of its definition.
        """
        if text is None:
            text = self.default
        if text.endswith(_FIRST) and self.is_recorded(text.removesuffix(_FIRST)):
            return self.recorded(text.removesuffix(_FIRST))
        known: OpenedWindow | SealedWindow | None = (
            self.windows.get(text) or self.frozen(text) or self._open_by_id(text)
        )
        if known is None and text not in self.names:  # A name may be the id of the first one.
            known = self.sealed.get(text)
        return known if known is not None else self._resolve(text, now)

    def _open_by_id(self, id: str) -> OpenedWindow | None:
        opened = self.windows.get(name_of_window(id))
        return opened if opened is not None and opened.window.id == id else None

    def recorded(self, id: str) -> OpenedWindow | SealedWindow:
        """Return a window that a fact opened, by its id."""
        found = self.sealed.get(id) or self._open_by_id(id)
        assert found is not None, f"{id} is not recorded"
        return found

    def is_prepared(self, id: str) -> bool:
        """Tell whether a window with this id counts scores unseen."""
        return _is(self.prepared.get(name_of_window(id)), id)

    def is_recorded(self, id: str) -> bool:
        """Tell whether there is a window with this id that a fact opened."""
        return id in self.sealed or self._open_by_id(id) is not None

    def scheduled(self, now: Instant) -> tuple[UnrecordedWindow, ...]:
        """Return the next window of each recurrence that has none open.

        Kept until one of them begins: each refusal of a batch tells it.
        """
        known = self._schedule
        if known is None or not known.holds(self, now):
            coming = tuple(self._coming(now))
            begins = min((one.window.opening or 0 for one in coming), default=None)
            known = self._schedule = _Schedule(self.windows, self.defined_at, now, begins, coming)
        return known.coming

    def _coming(self, now: Instant) -> Iterator[UnrecordedWindow]:
        for recurrence in self.board.windows:
            if recurrence.name not in self.windows:
                coming = recurrence.window_at(now)
                if coming is None or self._recorded(coming) is not None:
                    coming = recurrence.next_opening(now)
                if coming is not None:
                    yield self._unrecorded(coming, WindowState.SCHEDULED)

    def listed(self, now: Instant) -> Iterator[ListedWindow]:
        """Yield the sealed windows, oldest first, then the open ones, then the scheduled ones."""
        recorded: Iterable[OpenedWindow | SealedWindow] = chain(
            self.sealed.values(), self.windows.values()
        )
        found: Iterable[OpenedWindow | SealedWindow | UnrecordedWindow] = chain(
            recorded, self.scheduled(now)
        )
        for one in found:
            window = one.shown if isinstance(one, SealedWindow) else one.window
            bounds = window.start, window.end
            yield ListedWindow(window.name, window.id, *bounds, one.state, opens=window.opens)

    def _resolve(self, text: str, now: Instant) -> OpenedWindow | SealedWindow | UnrecordedWindow:
        name = name_of_window(text)
        for recurrence in self.board.windows:
            if recurrence.name == name:
                found = self._window_of(recurrence, text, now)
                if found is not None:
                    return found
        raise self._unknown(text, now)

    def _window_of(
        self, recurrence: Recurrence, text: str, now: Instant
    ) -> OpenedWindow | SealedWindow | UnrecordedWindow | None:
        try:
            window = recurrence.resolve(text, now)
        except ValueError:  # Not an id of this recurrence, or none of its windows is now.
            coming = recurrence.next_opening(now) if text == recurrence.name else None
            if coming is None:
                return None
            window = coming
        recorded = self._recorded(window)
        if recorded is not None:
            return recorded
        if window.end is None or window.end > now:
            return self._unrecorded(window, WindowState.SCHEDULED)
        if self._passed_unrecorded(recurrence, window, now):
            return self._unrecorded(window, WindowState.SEALED)
        return None

    def _recorded(self, window: Window) -> OpenedWindow | SealedWindow | None:
        current = self.windows.get(window.name)
        if current is not None and _is_same(current.window, window):
            return current
        return self._sealed_at(window)

    def _unrecorded(self, window: Window, state: WindowState) -> UnrecordedWindow:
        """Return a window under the id it would be opened with: no other has entries under it."""
        window = replace(window, id=self.edition(window).window)
        ranking = Ranking(self.alias or self.board.name, window.id)
        return UnrecordedWindow(window, ranking, self.terms, state)

    def _passed_unrecorded(self, recurrence: Recurrence, window: Window, now: Instant) -> bool:
        """Tell whether a window without a fact passed while nothing ran.

        It did if a window before it is known, and if retention would have kept it until now. The
        one window of a recurrence that has no other needs no such witness. A rolling one would have
        the scores of the days before it, and was never folded.
        """
        if recurrence.rolls:
            return False
        kept = self.board.retention.get(window.name)
        if kept is not None and (window.end or 0) + _microseconds(kept) <= now:
            return False
        if window.id == window.name:
            return True
        oldest: OpenedWindow | SealedWindow | None = next(
            (
                sealed
                for sealed in self.sealed.oldest_first(window.name)
                if recurrence in sealed.terms.board.windows
            ),
            self.windows.get(window.name),
        )
        return oldest is not None and (oldest.window.start or 0) < (window.start or 0)

    def _unknown(self, text: str, now: Instant) -> UnknownWindow:
        return UnknownWindow(
            board=self.board.name, window=text, known=self.names, opens_at=self.openings(now)
        )

    def openings(self, now: Instant) -> dict[str, str]:
        """Return when the next window of each recurrence that has none open begins, by name."""
        return {
            coming.window.name: show_instant(coming.window.opening)
            for coming in self.scheduled(now)
            if coming.window.opening is not None
        }

    def _sealed_at(self, window: Window) -> SealedWindow | None:
        """Return the last edition of a closed window, or the last one after resets of it."""
        found = [
            sealed
            for sealed in self.sealed.starting(window.name, window.start)
            if sealed.window.id.partition(EDITION)[0] == window.id
        ]
        last = found[-1] if found else None
        while last is not None and last.closed is not None:
            after = self.sealed.get(self.after_reset(last.window, last.closed).window)
            if after is None or not self.goes_on(after.window, window):
                break
            last = after
        return last


def _microseconds(span: timedelta) -> int:
    return int(span.total_seconds() * 1_000_000)


def seal_time(closed: SealedWindow) -> Instant | None:
    """Return when a window in its grace is to be sealed, or a frozen one ends; None for never."""
    window = closed.window
    if closed.state is WindowState.FROZEN:
        return window.end
    for recurrence in closed.terms.board.windows:
        if recurrence.name == window.name:
            return recurrence.sealed_at(window)
    return window.end


def _is_same(recorded: Window, window: Window) -> bool:
    """Whether a recorded window is one of the calendar. Two rolling ones may start together."""
    rolling = window.opens is not None
    return recorded.start == window.start and not (rolling and recorded.end != window.end)


def _is(opened: OpenedWindow | None, id: str) -> bool:
    return opened is not None and opened.window.id == id


def base_id(id: str) -> str:
    """Return a window's id as its calendar has it, without the number of its edition."""
    return id.partition(EDITION)[0]


def exact_id(id: str) -> str:
    """Return the text that means the window with this id, also where the id is a name."""
    return id if EDITION in id else f"{id}{_FIRST}"


def name_of_window(text: str) -> str:
    """Return the name of the recurrence that a window's id, or a reader's word for it, is of."""
    return text.partition(":")[0].partition(EDITION)[0]
