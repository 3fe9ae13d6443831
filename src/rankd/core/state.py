"""The state of boards, windows, players and keys at a position.

The small half of the fold's result. The large half, the entries of every ranking, is the index.
Both are folded from the same facts in the same order, but the state is small enough for every
process, and quick enough to be read for every submission. It decides nothing: it only records the
content of facts.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from copy import copy
from dataclasses import replace
from datetime import timedelta
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from rankd.core.attempts import AttemptCounts
from rankd.core.corrections import (
    PlayerState,
    PlayerStates,
    PositionLog,
    Retraction,
    state_on,
    states_after,
)
from rankd.core.living_scores import LivingScores
from rankd.core.player_boards import PlayerBoards
from rankd.core.reviews import Barred, BarredRows, JudgedColumns, Reviews, barred_by, columns_of
from rankd.core.used_runs import UsedRuns
from rankd.errors import UnknownBoard, UnknownWindow
from rankd.model.board import Board, Scores
from rankd.model.facts import (
    NO_PROFILE,
    Attributes,
    BoardDefined,
    BoardExpired,
    BoardRedefined,
    BoardRetired,
    ClosedWindow,
    Edition,
    ExpiringKeyCreated,
    ExpiringScoreSubmitted,
    Fact,
    FactsRedacted,
    KeyCreated,
    KeyRevoked,
    KeysUsed,
    OpenWindow,
    PersonErased,
    PlayerStateSet,
    Position,
    Profile,
    ProfileChange,
    Recorded,
    RetractionUndone,
    ReviewDecided,
    ScoresExpired,
    ScoresRetracted,
    ScoreSubmitted,
    SigningKeyCreated,
    TimeCorrected,
    WindowDropped,
    WindowEnded,
    WindowFrozen,
    WindowOpened,
    WindowsCorrected,
    WindowSealed,
    WindowSettled,
    WrongTime,
)
from rankd.model.order import Order
from rankd.model.standing import TieRule
from rankd.model.submission import PLAYER_BANNED
from rankd.model.window import (
    UNSEALED,
    Instant,
    ListedWindow,
    Recurrence,
    Window,
    WindowState,
    show_instant,
)
from rankd.ports import REFUSED, Ranking, RankingShape
from rankd.rules import RuleState

RUN_KEYS_MAX = 4
"""How many keys check the tokens of runs: the newest one signs, the others were replaced."""

NO_WINDOWS: frozenset[str] = frozenset()

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
    def shown(self) -> Window:
        """The window, with the end that an operator put to it."""
        return self.window if self.closed is None else replace(self.window, end=self.closed)

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
        self.pop(id, None)
        super().__setitem__(id, sealed)
        self.changes += 1
        if sealed.closed is not None:
            self.early[id] = None
        if sealed.state in UNSEALED:
            self.unsealed[id] = None
        else:
            closings = self._closings.setdefault(sealed.window.name, [])
            insort(closings, (sealed.at, sealed.through, id))
        self._starts.setdefault((sealed.window.name, sealed.window.start), []).append(id)

    def pop(self, id: str, *default: SealedWindow | None) -> SealedWindow | None:  # type: ignore[override]
        """Take a window out and return it."""
        sealed = self.get(id)
        if sealed is None:
            return super().pop(id, *default)
        self.changes += 1
        name, start = sealed.window.name, sealed.window.start
        self.early.pop(id, None)
        if id in self.unsealed:
            del self.unsealed[id]
        else:
            closings = self._closings[name]
            del closings[bisect_left(closings, (sealed.at, sealed.through, id))]
        self._starts[name, start].remove(id)
        if not self._starts[name, start]:
            del self._starts[name, start]
        return super().pop(id)

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
    WindowOpened | WindowEnded | WindowFrozen | WindowSealed | WindowSettled | WindowDropped
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
        "_schedule",
        "alias",
        "corrected_at",
        "default",
        "defined_at",
        "earlier",
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
        self.sealed = SealedWindows()
        """The closed ones, by id, oldest first."""
        self._schedule: _Schedule | None = None
        self.traced = True
        """Whether every player with an entry is in ``State.player_boards``. False if entries were
        made while the board had no segments, or are of a snapshot that kept no player_boards."""
        self.corrected_at = Position(0)
        """Where its windows were corrected last, because the time had been wrong."""
        self.adopt(board, position)

    def adopt(self, board: Board, position: Position) -> None:
        """Go by a definition from here on."""
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
    def board(self) -> Board:
        """The definition in force."""
        return self.terms.board

    def copy(self) -> "BoardState":
        """Return the page as it is: nothing that is noted in one of the two is in the other."""
        page = copy(self)
        page.earlier, page.sealed = list(self.earlier), self.sealed.copy()
        page.windows = dict(self.windows)
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
        self.corrected_at = position

    def redefine(self, board: Board, fact: BoardDefined, recorded: Recorded) -> None:
        """Adopt a new definition, and seal the windows that do not go on under it."""
        going_on = {window.window for window in fact.windows}
        for window, *_ in list(self.windows.values()):
            if window.id not in going_on:
                self._close(window.id, recorded, WindowState.SEALED)
        self.earlier.append((self.defined_at, self.board))
        self.traced = self.traced and bool(self.board.segments)
        self.adopt(board, recorded.position)

    def open_defined(self, fact: BoardDefined) -> None:
        """Have the open windows that a definition tells."""
        windows = [self.opened(window) for window in fact.windows]
        self.windows = {opened.window.name: opened for opened in windows}
        for opened in windows:
            self.sealed.pop(opened.window.id, None)  # Taken out earlier, and put back now.

    def turn(self, fact: WindowTurn, recorded: Recorded) -> None:
        """Take a step in the life of one window."""
        match fact:
            case WindowOpened():
                self._open(fact)
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
            begins = min((one.window.start or 0 for one in coming), default=None)
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
            yield ListedWindow(window.name, window.id, window.start, window.end, one.state)

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
        if current is not None and current.window.start == window.start:
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
        one window of a recurrence that has no other needs no such witness.
        """
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
            coming.window.name: show_instant(coming.window.start)
            for coming in self.scheduled(now)
            if coming.window.start is not None
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


def exact_id(id: str) -> str:
    """Return the text that means the window with this id, also where the id is a name."""
    return id if EDITION in id else f"{id}{_FIRST}"


def name_of_window(text: str) -> str:
    """Return the name of the recurrence that a window's id, or a reader's word for it, is of."""
    return text.partition(":")[0].partition(EDITION)[0]


class State:
    """All boards, keys, and players with a profile."""

    def __init__(self) -> None:
        self.boards: dict[str, BoardState] = {}
        self.profiles: dict[str, Profile] = {}
        self.names: dict[str, str] = {}
        """Display names, of the players that have one: a page looks up a hundred."""
        self.player_boards = PlayerBoards()
        self._segmented: dict[Position, BoardState] | None = None
        """The boards with segments, by the position of their first definition; None until needed,
        and after a change of boards."""
        self._untraced: list[BoardState] = []
        """Those of them on which any player may have an entry."""
        self.keys: dict[bytes, KeyCreated] = {}
        """The keys that were not revoked, by their digests."""
        self.keys_created: dict[str, Instant] = {}
        """When keys were made, by their ids; not of those in a snapshot of an older version."""
        self.keys_used: dict[str, Instant] = {}
        """When keys were used last, as far as that is recorded, by their ids."""
        self.signing_keys: dict[str, SigningKeyCreated] = {}
        """The keys of signatures and runs that were not revoked, by their ids."""
        self.locked = False
        """Whether there was ever a key: revoking the last one opens nothing."""
        self.player_states: dict[str, PlayerStates] = {}
        """Of the players that are banned, hidden or shadowed somewhere."""
        self.players_timed: dict[str, None] = {}
        """Those of them with a state that ends by itself."""
        self.retractions: dict[Position, Retraction] = {}
        """In the order of the ledger, those that were taken back included."""
        self.reviews = Reviews()
        """The state of rules, and the submissions that they held or flagged."""
        self.last_correction = Position(0)
        """Where the last retraction, approval, state or erasure of a player was recorded."""
        self.restored: dict[str | None, Position] = {}
        """Where a player was ranked again last, by board; None for every board."""
        self.used_runs = UsedRuns()
        self.attempts = AttemptCounts()
        self.living = LivingScores()
        self.erased: dict[str, Position] = {}
        """Of players that were erased, where last: earlier facts count without personal data."""
        self.unredacted: dict[str, Position] = {}
        """Those of them whose facts are not all redacted yet."""
        self.redacted_at = Position(0)
        """Where the redaction of a player was complete last: snapshots before it are replaced."""
        self.refused = PositionLog()
        """The submissions that a rule, or the state of their player, refused."""
        self.editions: dict[tuple[str, str], tuple[Position, ...]] = {}
        """By board and closed window, the corrections that made another edition of it."""
        self.profiled_at = Position(0)
        """The position of the last profile change, for caches of display names."""
        self.wrong_times: tuple[WrongTime, ...] = ()
        """The stretches of the ledger whose times were corrected, in the order of that."""
        self.journal: Journal | None = None
        """The values before the changes since the last savepoint; None if there is none."""
        self.revision = 0
        """Grows with every fact noted that is not about a player, and when reads begin or end to be
        stale: plans of requests go by it."""

    def copy(self) -> "State":
        """Return the state as it is: nothing that is noted in one of the two is in the other."""
        state = copy(self)
        state.boards = {name: page.copy() for name, page in self.boards.items()}
        state.profiles, state.player_boards = dict(self.profiles), self.player_boards.copy()
        state.keys = dict(self.keys)
        state.names = dict(self.names)
        state.keys_created, state.keys_used = dict(self.keys_created), dict(self.keys_used)
        state.player_states, state.editions = dict(self.player_states), dict(self.editions)
        state.players_timed, state.restored = dict(self.players_timed), dict(self.restored)
        state.retractions, state.reviews = dict(self.retractions), self.reviews.copy()
        state.refused = self.refused.copy()
        state.used_runs = self.used_runs.copy()
        state.signing_keys = dict(self.signing_keys)
        state.attempts, state.living = self.attempts.copy(), self.living.copy()
        state.erased, state.unredacted = dict(self.erased), dict(self.unredacted)
        state.journal = None
        state.forget_segmented()
        return state

    def page(self, board: str) -> BoardState:
        """Return a board's page. Raises UnknownBoard."""
        page = self.boards.get(board)
        if page is None:
            raise UnknownBoard(board)
        return page

    def profile(self, player: str) -> Profile:
        """Return a player's profile; most players have an empty one."""
        return self.profiles.get(player, NO_PROFILE)

    def segments(self, page: BoardState, player: str) -> list[str]:
        """Return the segments of a board that a player is in."""
        if not page.board.segments or player not in self.profiles:
            return []
        return segments_of(page.board, self.profiles[player].attributes)

    @property
    def segmented(self) -> Mapping[Position, BoardState]:
        """The boards with segments, by the position of their first definition, in that order."""
        if self._segmented is None:
            pages = self.boards.values()
            self._segmented = {page.since: page for page in pages if page.board.segments}
            self._untraced = [page for page in self._segmented.values() if not page.traced]
        return self._segmented

    def forget_segmented(self) -> None:
        """Have the boards with segments found again, after a change of boards."""
        self._segmented = None

    def trace(self, page: BoardState) -> None:
        """Note that every player with an entry on a board is among the player_boards."""
        page.traced = True
        self.forget_segmented()

    def enter(self, page: BoardState, player: str) -> None:
        """Note that a player submits to a board, if the board has segments."""
        if page.board.segments:
            self.player_boards.add(player, page.since)

    def sweep_entrants(self) -> None:
        """Forget some players of retired boards. Only when no fact is to be taken back."""
        if self.player_boards.unswept:
            self.player_boards.sweep({page.since for page in self.boards.values()})

    def concerned(self, player: str, changed: Set[str]) -> list[BoardState]:
        """Return the boards, in their order, on which changed attributes may move a player."""
        boards = self.segmented
        entered = [
            boards[since] for since in self.player_boards.boards_of(player) if since in boards
        ]
        pages = {page.since: page for page in (*entered, *self._untraced)}
        return [
            page for _, page in sorted(pages.items()) if not changed.isdisjoint(page.board.segments)
        ]

    def knows(self, player: str, attributes: Attributes) -> bool:
        """Whether a submission's attributes are the known ones of its player."""
        known = self.profiles.get(player, NO_PROFILE).attributes
        if known is attributes:
            return True
        if len(attributes) == len(known) and attributes == known:
            return [*map(type, attributes.values())] == [*map(type, map(known.get, attributes))]
        return not any(differs(known, name, value) for name, value in attributes.items())

    def note(self, recorded: Recorded) -> None:
        """Apply a fact, by the handler of its kind. Kinds without one do not change the state."""
        fact = recorded.fact
        self.revision += not fact.about_player
        if (change := fact.profile_change()) is not None and fact.about_player:
            self.change_profile(change, recorded.position)
        if (handler := _HANDLERS.get(type(fact))) is not None:
            handler(self, fact, recorded)
        board = getattr(fact, "board", None)
        if board is not None and self.attempts.has(board):
            self._settle_attempts(board)

    # ...... attempts

    def attempt(self, page: BoardState, fact: ScoreSubmitted) -> frozenset[str]:
        """Count a submission that is judged; return the windows whose attempts are exhausted."""
        limit = page.board.limits.attempts_max
        if limit is None or fact.overrides:
            return NO_WINDOWS
        board, player = page.board.name, fact.player
        return self.attempts.take(board, page.window_ids, player, limit, self.journal)

    def note_term(self, fact: ScoreSubmitted, recorded: Recorded) -> Instant | None:
        """Note the term of a submission that is judged; return when it is over, None for never."""
        if not isinstance(fact, ExpiringScoreSubmitted):
            return None
        self.living.add(recorded, fact, self.journal)
        return self.living.due_of(recorded.position)

    def _settle_attempts(self, board: str) -> None:
        """Forget the attempts in windows that are not open, or not bounded any more."""
        page = self.boards.get(board)
        bounded = page is not None and page.board.limits.attempts_max is not None
        windows = page.window_ids if page is not None and bounded else {}
        self.attempts.keep_open(board, windows, self.journal)

    # ...... runs

    def run_key(self) -> SigningKeyCreated | None:
        """Return the newest key of runs, which signs them; None if there is none."""
        keys = self.run_keys()
        return keys[-1] if keys else None

    def run_keys(self) -> list[SigningKeyCreated]:
        """Return the keys of runs, oldest first."""
        keys = (key for key in self.signing_keys.values() if key.algorithm == "run")
        return sorted(keys, key=lambda key: (self.keys_created[key.id], key.id))

    # ...... corrections

    def player_state(self, player: str, board: str) -> PlayerState | None:
        """Return the state of a player on a board; None for an active player."""
        states = self.player_states.get(player)
        return None if states is None else state_on(states, board)

    def is_shadowed(self, player: str, board: str) -> bool:
        """Whether a player sees itself on a board as if it were ranked."""
        state = self.player_state(player, board) if self.player_states else None
        return state is not None and state.state == "shadowed"

    def sees_itself(self, player: str) -> bool:
        """Whether a player is shadowed somewhere."""
        return any(one.state == "shadowed" for one in self.player_states.get(player, ()))

    def unranked_on(self, board: str) -> list[str]:
        """Return the players that are banned, hidden or shadowed on a board."""
        return [player for player in self.player_states if self.player_state(player, board)]

    def restored_on(self, board: str) -> Position:
        """Return where a player was ranked again last on a board, 0 if none was."""
        return max(self.restored.get(name, Position(0)) for name in (board, None))

    def timed_states(self) -> list[tuple[str, PlayerState]]:
        """Return the states of players that end by themselves."""
        timed = (
            (player, one) for player in self.players_timed for one in self.player_states[player]
        )
        return [(player, one) for player, one in timed if one.until is not None]

    def admit(self, page: BoardState, fact: ScoreSubmitted, recorded: Recorded) -> Barred | None:
        """Return why a submission does not count, None if it does. Once for each, in order.

        Rules and the states of players decide it, and neither depends on an index. ``fact`` is in
        terms of the definition in force.
        """
        state = self.player_state(fact.player, fact.board) if self.player_states else None
        if state is not None and state.state == "banned" and not fact.overrides:
            self._refuse(recorded.position)
            return Barred(PLAYER_BANNED)
        if fact.run is not None:
            unusable = self.used_runs.use(fact.run, recorded.at, self.journal)
            if unusable is not None:
                self._refuse(recorded.position)
                return Barred(unusable)
        if fact.overrides and page.windows:
            self.reviews.count(fact, self.journal, replaces=True)
        if fact.overrides or not page.windows:
            return None
        barred = self._barred_by_rules(page, fact, recorded)
        if barred is None and page.board.verifier is not None:
            return self.reviews.hold(page.board, recorded, self.journal)
        return barred

    def _barred_by_rules(
        self, page: BoardState, fact: ScoreSubmitted, recorded: Recorded
    ) -> Barred | None:
        columns = columns_of(fact) if fact.board in self.reviews.rules else None
        if columns is None:
            return None
        return barred_by(self.judge_by_rules(page, columns, [recorded]))

    def judge_by_rules(
        self, page: BoardState, columns: JudgedColumns, facts: Sequence[Recorded]
    ) -> BarredRows | None:
        """Judge submissions to one board by its rules; None if all of them count."""
        if page.board.name not in self.reviews.rules:
            return None
        found = self.reviews.judge(page.board, columns, facts, self.journal)
        for row, verdict in enumerate(() if found is None else found.barred):
            if verdict == REFUSED:
                self._refuse(facts[row].position)
        return found

    def counts(self, position: Position) -> bool:
        """Whether a submission was neither refused by a rule or its player's state, nor is held."""
        return position not in self.refused and not self.reviews.is_out(position)

    def corrected(self, board: str) -> bool:
        """Whether submissions to a board were retracted, or held and approved."""
        retracted = any(one.fact.board in (None, board) for one in self.retractions.values())
        return retracted or self.reviews.approved_on(board)

    def edition(self, board: str, window: str) -> int:
        """Return the number of the present edition of a closed window, counted from 1."""
        return 1 + len(self.editions.get((board, window), ()))

    def _refuse(self, position: Position) -> None:
        if self.journal is not None:
            self.journal.keep_length(self.refused)
        self.refused.add(position)

    def add_editions(self, editions: Iterable[Edition], position: Position) -> None:
        """Note the closed windows that a correction changes."""
        for board, window in ((one.board, one.window) for one in editions):
            self.put(
                "editions", (board, window), (*self.editions.get((board, window), ()), position)
            )
            page = self.change_board(board)
            known = None if page is None else page.sealed.get(window)
            if page is not None and known is not None and known.state is WindowState.FINAL:
                page.sealed[window] = known._replace(state=WindowState.SEALED)

    # ...... changes, which a savepoint undoes

    def change_profile(self, change: ProfileChange, position: Position | None = None) -> None:
        """Apply the effect of a fact on a profile; ``position`` if its name may change."""
        player, profile = change.player, change.applied(self.profiles.get(change.player))
        name = None if profile is None else profile.name
        if profile is None:
            self.remove("profiles", player)
        else:
            self.put("profiles", player, profile)
        if name is not None:
            self.put("names", player, name)
        elif player in self.names:
            self.remove("names", player)
        if position is not None and change.friends is None:
            self.assign("profiled_at", position)

    def change_board(self, name: str) -> BoardState | None:
        """Return a board's page to be changed; None if there is no such board."""
        page = self.boards.get(name)
        if page is not None and self.journal is not None:
            self.journal.keep_page(self.boards, name, page)
        return page

    def put(self, table: str, key: Hashable, value: object) -> None:
        """Set an item of one of the dictionaries."""
        rows = getattr(self, table)
        if self.journal is not None:
            self.journal.keep(rows, key)
        rows[key] = value

    def remove(self, table: str, key: Hashable) -> None:
        """Remove an item of one of the dictionaries, if it is there."""
        rows = getattr(self, table)
        if self.journal is not None:
            self.journal.keep(rows, key)
        rows.pop(key, None)

    def assign(self, name: str, value: object) -> None:
        """Set an attribute."""
        if self.journal is not None:
            self.journal.keep(vars(self), name)
        setattr(self, name, value)


class Journal:
    """The values that changes of a state replaced, oldest first."""

    def __init__(self) -> None:
        self._before: list[tuple[dict[Any, Any], Hashable, object]] = []
        self._pages: set[str] = set()
        self._lengths: dict[int, tuple[PositionLog, int]] = {}
        self._rules: dict[int, RuleState] = {}

    def keep(self, rows: dict[Any, Any], key: Hashable) -> None:
        """Keep an item, or its absence, before it is changed."""
        self._before.append((rows, key, rows.get(key, _ABSENT)))

    def keep_page(self, boards: dict[str, BoardState], name: str, page: BoardState) -> None:
        """Keep a copy of a page, the first time it is to be changed."""
        if name not in self._pages:
            self._pages.add(name)
            self._before.append((boards, name, page.copy()))

    def keep_length(self, log: PositionLog) -> None:
        """Keep the length of a log, the first time it is to grow."""
        self._lengths.setdefault(id(log), (log, len(log)))

    def keep_rules(self, rules: RuleState) -> None:
        """Have the state of a board's rules keep its changes, from the first time on."""
        if id(rules) not in self._rules:
            self._rules[id(rules)] = rules
            rules.savepoint()

    def release(self) -> None:
        """Keep no changes of rules any more."""
        for rules in self._rules.values():
            rules.release()
        self._rules.clear()

    def undo(self) -> None:
        """Put all values back, newest first."""
        for rules in self._rules.values():
            rules.rollback()
        self._rules.clear()
        for log, length in self._lengths.values():
            log.truncate(length)
        for rows, key, value in reversed(self._before):
            if value is _ABSENT:
                rows.pop(key, None)
            else:
                rows[key] = value


_ABSENT = object()


class Savepoint:
    """A state as it was, as long as this is the last savepoint of that state.

    Its cost is that of the changes since: none for plain submissions, by far the most facts.
    """

    __slots__ = ("_journal", "_state")

    def __init__(self, state: State) -> None:
        self._state = state
        if state.journal is not None:
            state.journal.release()
        self._journal = state.journal = Journal()

    def go_back(self) -> None:
        """Undo the facts that were applied since."""
        state = self._state
        assert state.journal is self._journal, "another savepoint was made since"
        self._journal.undo()
        self.release()
        # A board that was retired is back, but at the end: boards are in the order of their start.
        state.boards = dict(sorted(state.boards.items(), key=lambda item: item[1].since))
        state.living.forget_order()
        state.forget_segmented()

    def release(self) -> None:
        """Keep the changes, and forget the values before them."""
        if self._state.journal is self._journal:
            self._journal.release()
            self._state.journal = None


# ---------------------------------------------------------------- handlers of fact kinds

StateHandler = Callable[[State, Any, Recorded], None]
"""Applies a fact to a state, by the methods of the state that a savepoint undoes."""

H = TypeVar("H", bound=StateHandler)
_HANDLERS: dict[type[Fact], StateHandler] = {}


def state_handler(*kinds: type[Fact]) -> Callable[[H], H]:
    """Register a function as the handler of some kinds of facts."""

    def register(handler: H) -> H:
        _HANDLERS.update(dict.fromkeys(kinds, handler))
        return handler

    return register


@state_handler(BoardDefined, BoardRedefined)
def _define(state: State, fact: BoardDefined, recorded: Recorded) -> None:
    board, position = Board.define(fact.board, fact.definition), recorded.position
    state.forget_segmented()
    page = state.change_board(fact.board)
    state.reviews.declare(board, None if page is None else page.board, state.journal)
    if page is None:
        page = BoardState(board, position)
        state.put("boards", fact.board, page)
    else:
        page.redefine(board, fact, recorded)
    page.open_defined(fact)


@state_handler(BoardRetired, BoardExpired)
def _retire(state: State, fact: BoardRetired, _recorded: Recorded) -> None:
    page = state.boards.get(fact.board)
    if page is not None and page.is_retired_by(fact):
        state.remove("boards", fact.board)
        state.reviews.retire(fact.board, state.journal)
        state.player_boards.retire(page.since)
        state.forget_segmented()


@state_handler(WindowOpened, WindowEnded, WindowFrozen, WindowSealed, WindowSettled, WindowDropped)
def _turn(state: State, fact: WindowTurn, recorded: Recorded) -> None:
    page = state.change_board(fact.board)
    if page is not None and not page.is_stale(fact):
        page.turn(fact, recorded)


@state_handler(WindowsCorrected)
def _correct_windows(state: State, fact: WindowsCorrected, recorded: Recorded) -> None:
    page = state.change_board(fact.board)
    if page is not None:
        page.correct(fact, recorded.position)


@state_handler(TimeCorrected)
def _correct_time(state: State, fact: TimeCorrected, recorded: Recorded) -> None:
    state.assign("wrong_times", (*state.wrong_times, fact.wrong))
    state.living.correct(fact.wrong, state.journal)


@state_handler(ScoresExpired)
def _end_terms(state: State, fact: ScoresExpired, recorded: Recorded) -> None:
    state.living.end(fact, recorded.position, state.journal)
    state.used_runs.correct_time(recorded.at, state.journal)


@state_handler(KeyCreated, ExpiringKeyCreated)
def _create_key(state: State, fact: KeyCreated, recorded: Recorded) -> None:
    state.put("keys", fact.digest, fact)
    state.put("keys_created", fact.id, recorded.at)
    state.assign("locked", True)


@state_handler(KeysUsed)
def _use_keys(state: State, fact: KeysUsed, _recorded: Recorded) -> None:
    for id in (*(key.id for key in state.keys.values()), *state.signing_keys):
        if (used := fact.used.get(id)) is not None:
            state.put("keys_used", id, max(used, state.keys_used.get(id, used)))


@state_handler(SigningKeyCreated)
def _create_signing_key(state: State, fact: SigningKeyCreated, recorded: Recorded) -> None:
    state.put("signing_keys", fact.id, fact)
    state.put("keys_created", fact.id, recorded.at)
    for key in state.run_keys()[:-RUN_KEYS_MAX]:
        _forget_key(state, key.id)


@state_handler(KeyRevoked)
def _revoke_key(state: State, fact: KeyRevoked, _recorded: Recorded) -> None:
    left = {digest: key for digest, key in state.keys.items() if key.id != fact.id}
    state.assign("keys", left)
    _forget_key(state, fact.id)


def _forget_key(state: State, id: str) -> None:
    for table in ("signing_keys", "keys_created", "keys_used"):
        rows = getattr(state, table)
        if id in rows:  # A copy: put back by a savepoint, it would be the last one.
            state.assign(table, {known: row for known, row in rows.items() if known != id})


@state_handler(PersonErased)
def _erase(state: State, fact: PersonErased, recorded: Recorded) -> None:
    state.put("erased", fact.player, recorded.position)
    state.put("unredacted", fact.player, recorded.position)
    state.assign("last_correction", recorded.position)


@state_handler(FactsRedacted)
def _redact(state: State, fact: FactsRedacted, recorded: Recorded) -> None:
    if fact.complete and state.unredacted.get(fact.player, fact.through + 1) <= fact.through:
        state.remove("unredacted", fact.player)
    if fact.complete:
        state.assign("redacted_at", recorded.position)


@state_handler(PlayerStateSet)
def _set_player_state(state: State, fact: PlayerStateSet, recorded: Recorded) -> None:
    before = state.player_states.get(fact.player, ())
    states = states_after(before, fact, recorded.position)
    state.assign("last_correction", recorded.position)
    if fact.state == "active":
        for board in (None,) if fact.boards is None else fact.boards:
            state.put("restored", board, recorded.position)
    if states:
        state.put("player_states", fact.player, states)
    else:
        state.remove("player_states", fact.player)
    if any(one.until is not None for one in states):
        state.put("players_timed", fact.player, None)
    else:
        state.remove("players_timed", fact.player)


@state_handler(ScoresRetracted)
def _retract(state: State, fact: ScoresRetracted, recorded: Recorded) -> None:
    state.put("retractions", recorded.position, Retraction(recorded.position, fact))
    state.assign("last_correction", recorded.position)
    state.add_editions(fact.editions, recorded.position)


@state_handler(RetractionUndone)
def _undo_retraction(state: State, fact: RetractionUndone, recorded: Recorded) -> None:
    retraction = state.retractions.get(fact.retraction)
    if retraction is not None and retraction.in_force:
        undone = retraction._replace(undone=recorded.position)
        state.put("retractions", fact.retraction, undone)
        state.assign("last_correction", recorded.position)
        state.add_editions(fact.editions, recorded.position)


@state_handler(ReviewDecided)
def _decide_review(state: State, fact: ReviewDecided, recorded: Recorded) -> None:
    if not state.reviews.is_open(fact.submission):
        return
    if not fact.approved and fact.submission not in state.reviews.held:
        retraction = Retraction(recorded.position, retraction_of_flagged(fact))
        state.put("retractions", recorded.position, retraction)
    state.reviews.decide(fact, recorded.position, state.journal)
    state.assign("last_correction", recorded.position)
    state.add_editions(fact.editions, recorded.position)


def retraction_of_flagged(fact: ReviewDecided) -> ScoresRetracted:
    """Return the retraction that the rejection of a flagged submission stands for."""
    submission, by = (fact.submission,), (fact.actor, fact.reason)
    return ScoresRetracted(fact.board, fact.player, submission, None, None, None, *by)


# -------------------------------------------------------------------------- attributes


def differs(known: Attributes, name: str, value: str | int | bool) -> bool:
    """Whether a value is another one than the known. True and 1 are two values."""
    before = known.get(name)
    return before != value or type(before) is not type(value)


def differing(before: Attributes, after: Attributes) -> set[str]:
    """Return the names of the attributes that differ, or that only one of the two has."""
    changed = {name for name, value in after.items() if differs(before, name, value)}
    return changed | (before.keys() - after.keys())


def segments_of(board: Board, attributes: Attributes) -> list[str]:
    """Return the segments of a board that a player with these attributes is in."""
    return [
        f"{name}:{value_text(attributes[name])}" for name in board.segments if name in attributes
    ]


def value_text(value: str | int | bool) -> str:
    """Return a value of an attribute as a segment is named by it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
