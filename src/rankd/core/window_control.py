"""Steps in the life of a window that an operator takes: reset, freeze and settle.

A step is recorded only as the next fact after the head that it was decided at, so of several nodes
and operators that ask at once, one is heard, and the others find it done. A request that finds its
step taken changes nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal, NamedTuple

from rankd.core.board_state import BoardState, OpenedWindow, SealedWindow, exact_id
from rankd.core.reader import Reader
from rankd.core.settlement import settle_rewards
from rankd.core.state import State
from rankd.core.writer import Writer
from rankd.errors import FieldError, InvalidRequest, LedgerUnavailable, WrongWindowState
from rankd.model.board import shown_name
from rankd.model.certificate import StandingsDigest
from rankd.model.facts import (
    Fact,
    Position,
    WindowFrozen,
    WindowOpened,
    WindowSealed,
    WindowSettled,
    is_submission,
)
from rankd.model.profile import read_reason
from rankd.model.standing import PAGE_LIMIT_MAX, Rank
from rankd.model.window import UNSEALED, Instant, ListedWindow, Window, WindowState
from rankd.ports import Ledger, LedgerReader

TRIES_MAX = 100
"""How often a step is tried while other nodes append all the time."""

FACTS_TOGETHER = 8_192
"""Facts read at once while submissions are counted."""

WINDOW_TEXT_LENGTH_MAX = 128
"""Of the id of a window in a request: names have 32 characters, and times and editions follow."""

WindowStep = Literal["reset", "freeze", "settle"]


class WindowRequest(NamedTuple):
    """A request for a step: the window, by id or name, the reason, and its author."""

    window: str
    reason: str
    actor: str | None

    @classmethod
    def read(cls, body: object, actor: str | None) -> "WindowRequest":
        """Return the request in a body. Raises InvalidRequest, InvalidProfile."""
        given = body if isinstance(body, Mapping) else {}
        errors = [
            FieldError(shown_name(name), "is not a field of this request; it has window, reason")
            for name in given
            if name not in ("window", "reason")
        ]
        window = given.get("window")
        if not isinstance(window, str) or not 0 < len(window) <= WINDOW_TEXT_LENGTH_MAX:
            errors.append(FieldError("window", "must be a window of the board, such as daily"))
            window = ""
        if given.get("reason") is None:
            errors.append(FieldError("reason", "must be given: it is kept with the step"))
        if errors:
            raise InvalidRequest(errors)
        return cls(window, read_reason(given["reason"]) or "", actor)


class WindowResult(NamedTuple):
    """The result of a step."""

    position: Position
    """Where it is recorded, or the head if nothing changed."""
    changed: bool
    window: ListedWindow
    """The window after the step."""
    opened: ListedWindow | None
    """The window that a reset has opened in its place."""


class _Decided(NamedTuple):
    """The facts of a step; none if it was taken before."""

    facts: list[Fact]
    id: str
    """Of the window that the request means."""
    opened: str | None = None
    at: Instant = 0
    """The ledger's time from which the step is recorded, if it is later than that of now."""


class WindowControl:
    """Takes steps in the lives of windows."""

    def __init__(
        self,
        ledger: Ledger,
        writer: Writer,
        reader: Reader,
        *,
        page: Callable[[str], Awaitable[BoardState]],
        alone: asyncio.Lock,
    ) -> None:
        self._ledger = ledger
        self._writer = writer
        self._reader = reader
        self._page = page
        """Returns a board's page, also if another node has just defined it."""
        self._alone = alone
        """Held while boards are redefined: a rebuild would have to begin anew."""

    @property
    def _state(self) -> State:
        return self._writer.projector.state

    async def reset(self, board: str, asked: WindowRequest) -> WindowResult:
        """Close a window now, and open the next one at the same position.

        Raises UnknownWindow, WrongWindowState.
        """
        return await self._step(board, asked, _reset)

    async def freeze(self, board: str, asked: WindowRequest) -> WindowResult:
        """Let a window take no more scores until its time is over.

        Raises UnknownWindow, WrongWindowState.
        """
        return await self._step(board, asked, _freeze)

    async def settle(self, board: str, asked: WindowRequest) -> WindowResult:
        """Declare the standings of a window final; one that is not sealed yet is sealed first.

        Raises UnknownWindow, WrongWindowState.
        """
        sealed = await self._step(board, asked, _seal)
        return await self._settle(board, sealed.window.id, asked)

    async def _step(
        self,
        name: str,
        asked: WindowRequest,
        decide: Callable[[BoardState, WindowRequest, Instant], _Decided],
    ) -> WindowResult:
        await self._page(name)
        async with self._alone, self._writer.turn():
            for _ in range(TRIES_MAX):
                now = await self._at_head()
                after = self._writer.projector.checkpoint
                decided = decide(self._state.page(name), asked, now)
                if not decided.facts:
                    return self._result(name, decided, after, changed=False)
                at = max(now, decided.at)
                answers = await self._writer.record_after(decided.facts, now=at, after=after)
                if answers is not None:
                    return self._result(name, decided, answers[-1].position, changed=True)
        raise LedgerUnavailable("other nodes append all the time; try again", applied="no")

    async def _at_head(self) -> Instant:
        """Turn the windows that are due at the head; return the ledger's time."""
        await self._writer.catch_up_others()
        now = self._writer.now()
        await self._writer.record([], now=now)
        return now

    def _result(
        self, name: str, decided: _Decided, position: Position, *, changed: bool
    ) -> WindowResult:
        page = self._state.page(name)
        opened = None if decided.opened is None else listed_window(page, decided.opened)
        return WindowResult(position, changed, listed_window(page, decided.id), opened)

    # ---------------------------------------------------------------------- settlement

    async def _settle(self, name: str, id: str, asked: WindowRequest) -> WindowResult:
        """Record that the present edition of a sealed window is final."""
        for _ in range(TRIES_MAX):
            page, decided = self._state.page(name), _Decided([], id)
            sealed = _sealed(page, id)
            if sealed.state is WindowState.FINAL:
                position = self._writer.projector.checkpoint
                return self._result(name, decided, position, changed=False)
            corrected, since = self._state.last_correction, page.turned_since
            digest = await self._digest(name, id)
            rewards = await settle_rewards(self._reader, self._ledger, self._state, sealed, since)
            first = await self._first_position(page, sealed.window)
            submissions = await self._count(name, first, sealed.through)
            async with self._alone, self._writer.turn():
                now = await self._at_head()
                after = self._writer.projector.checkpoint
                page = self._state.page(name)
                as_before = page.turned_since == since and page.sealed.get(id) == sealed
                if self._state.last_correction != corrected or not as_before:
                    continue
                fact = WindowSettled(
                    name,
                    id,
                    self._state.edition(name, id),
                    first,
                    after,
                    self._writer.link,
                    submissions,
                    digest.players,
                    digest.digest(),
                    asked.actor,
                    asked.reason,
                    page.turned_since,
                    rewards=rewards.rewards,
                    rewards_digest=rewards.digest,
                )
                facts = [fact, *rewards.withdrawn, *rewards.given]
                answers = await self._writer.record_after(facts, now=now, after=after)
                if answers is not None:
                    return self._result(name, decided, answers[-1].position, changed=True)
        raise LedgerUnavailable("the window is corrected all the time; try again", applied="no")

    async def _digest(self, board: str, id: str) -> StandingsDigest:
        return await digest_of(self._reader, board, id)

    async def _first_position(self, page: BoardState, window: Window) -> Position:
        """Return the first position whose facts may be in a window."""
        if window.start is None or self._state.wrong_times:
            return page.since
        return max(page.since, await first_position_at(self._ledger, window.start))

    async def _count(self, board: str, first: Position, through: Position) -> int:
        return await count_submissions(self._ledger, board, first, through)


async def digest_of(reader: Reader, board: str, id: str) -> StandingsDigest:
    """Return the digest of all standings of a window."""
    digest, first = StandingsDigest(), Rank(1)
    while True:
        page = await reader.page(board, window=exact_id(id), from_rank=first, limit=PAGE_LIMIT_MAX)
        if not page.players:
            return digest
        digest.add(zip(page.ranks, page.players, page.scores, strict=True))
        first = Rank(first + len(page.players))
        await asyncio.sleep(0)


async def first_position_at(ledger: LedgerReader, at: Instant) -> Position:
    """Return the first position recorded at a time or later; past the head if none is."""
    low, high = Position(1), Position(await ledger.head() + 1)
    while low < high:
        middle = Position((low + high) // 2)
        found = await ledger.read(after=Position(middle - 1), limit=1)
        if found and found[0].at < at:
            low = Position(found[0].position + 1)
        else:
            high = middle
    return low


async def count_submissions(
    ledger: LedgerReader, board: str, first: Position, through: Position
) -> int:
    """Return how many submissions to a board are recorded from one position until another."""
    after, found = Position(first - 1), 0
    while after < through - 1:
        limit = min(FACTS_TOGETHER, through - 1 - after)
        facts = await ledger.read(after=after, limit=limit)
        if not facts:
            break
        found += sum(
            is_submission(one.fact) and one.fact.board == board and one.position < through
            for one in facts
        )
        after = facts[-1].position
        await asyncio.sleep(0)
    return found


def listed_window(page: BoardState, id: str) -> ListedWindow:
    """Return a recorded window of a board with its state."""
    found = page.recorded(id)
    window = found.shown if isinstance(found, SealedWindow) else found.window
    return ListedWindow(window.name, window.id, window.start, window.end, found.state)


# ------------------------------------------------------------------------------ the steps


def _recorded(
    page: BoardState, asked: WindowRequest, now: Instant, step: WindowStep
) -> OpenedWindow | SealedWindow:
    """Return the window that is meant. Raises UnknownWindow, WrongWindowState."""
    found = page.find_window(asked.window, now)
    if isinstance(found, OpenedWindow | SealedWindow):
        return found
    raise WrongWindowState(window=found.window.id, state=found.state, step=step)


def _sealed(page: BoardState, id: str) -> SealedWindow:
    sealed = page.sealed.get(id)
    if sealed is None or sealed.state in UNSEALED:
        state = WindowState.OPEN if sealed is None else sealed.state
        raise WrongWindowState(window=id, state=state, step="settle")
    return sealed


def _refuse_rolling(page: BoardState, name: str) -> None:
    """Raise InvalidRequest for a rolling window: scores of a day are in those of other days too."""
    if any(recurrence.name == name for recurrence in page.rolling):
        message = "must not be a rolling window, which ends with its day and by nothing else"
        raise InvalidRequest([FieldError("window", message)])


def _reset(page: BoardState, asked: WindowRequest, now: Instant) -> _Decided:
    found = _recorded(page, asked, now, "reset")
    window = found.window
    _refuse_rolling(page, window.name)
    if isinstance(found, OpenedWindow) and asked.window == window.name:
        before = page.reset_before(window)
        if before is not None and before.reason == asked.reason:
            return _Decided([], before.window.id, window.id)
    if isinstance(found, SealedWindow) and found.state is not WindowState.FROZEN:
        after = page.after_reset(window, now).window
        if found.reason != asked.reason or not page.is_recorded(after):
            raise WrongWindowState(window=window.id, state=found.state, step="reset")
        return _Decided([], window.id, after)
    if isinstance(found, SealedWindow) and not page.is_due(window, now):
        raise WrongWindowState(window=window.id, state=found.state, step="reset")
    at = now + (window.start == now)  # Two windows of one time begin one after the other.
    coming, board, since = page.after_reset(window, at), page.board.name, page.turned_since
    facts = [
        WindowSealed(board, window.id, asked.actor, asked.reason, since),
        WindowOpened(board, coming.window, coming.start, coming.end, since),
    ]
    return _Decided([*facts], window.id, coming.window, at)


def _freeze(page: BoardState, asked: WindowRequest, now: Instant) -> _Decided:
    found = _recorded(page, asked, now, "freeze")
    window, board, since = found.window, page.board.name, page.turned_since
    _refuse_rolling(page, window.name)
    if isinstance(found, SealedWindow):
        if found.state is not WindowState.FROZEN and found.reason != asked.reason:
            raise WrongWindowState(window=window.id, state=found.state, step="freeze")
        return _Decided([], window.id)
    frozen = WindowFrozen(
        board, window.id, window.start, window.end, asked.actor, asked.reason, since
    )
    return _Decided([frozen], window.id)


def _seal(page: BoardState, asked: WindowRequest, now: Instant) -> _Decided:
    """Seal a window that is to be settled, if it is not sealed yet."""
    found = _recorded(page, asked, now, "settle")
    window = found.window
    facts: list[Fact] = []
    if isinstance(found, OpenedWindow):
        facts += _freeze(page, asked, now).facts
    if found.state not in (WindowState.SEALED, WindowState.FINAL):
        board, since = page.board.name, page.turned_since
        facts.append(WindowSealed(board, window.id, asked.actor, asked.reason, since))
    return _Decided(facts, window.id)
