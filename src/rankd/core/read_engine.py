"""The read half of an engine: rankings, search for players, previews of changed definitions.

The ledger is written by this process or by another.

A search looks at every player for each page: no index of names is kept, which each new player would
have to pay for. A slice of them is looked at between two chances for others, and one search at a
time.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

import msgspec

from rankd.core.board_rebuild import BoardRebuild
from rankd.core.board_state import BoardState
from rankd.core.movement import Movement
from rankd.core.past import PastLimits, PastRankings
from rankd.core.projector import Projector
from rankd.core.rank_history import RankHistories
from rankd.core.reader import RankingView, Reader
from rankd.core.state import State
from rankd.core.steady_clock import clock_problem, steady
from rankd.core.supervisor import Supervisor
from rankd.core.visibility import Viewer
from rankd.errors import (
    AttemptsExhausted,
    BrokenRule,
    FieldError,
    FrozenWindow,
    IndexBehind,
    InvalidPage,
    Overloaded,
    PlayerBanned,
    RankdError,
    Refused,
    RuleBroken,
    RunExpired,
    RunUsed,
    SubmissionRejected,
)
from rankd.model.board import FieldChange
from rankd.model.facts import Position
from rankd.model.receipt import Receipt
from rankd.model.rules import Reason
from rankd.model.standing import PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX, Standing
from rankd.model.submission import PLAYER_BANNED
from rankd.model.window import Instant
from rankd.ports import Clock, LedgerReader, RankIndex, Ranking

LOOK_SECONDS = 0.05
"""How often a waiting read checks the position of a fallback ranking, and the index."""


class Spooled(NamedTuple):
    """Counts of this node's spooled submissions since its start."""

    waiting: int
    """Now, also from before the start."""
    taken: int
    handed_in: int
    """All that left the disk."""
    dropped: int
    """Of these, those that count nowhere: their key was used for another, or their board is gone.
    Their clients were answered ``accepted``."""


class BoardReplicas(Protocol):
    """Replicas of a shared index, from which some boards may be read."""

    def may_serve(self, board: str) -> bool:
        """Whether this board may be read from them."""

    def reader_of(self, page: BoardState, primary: Reader) -> Reader | None:
        """Return a reader of one board's replicas; None if the primary has to be read."""


class ReadEngine:
    """The readable half of an engine."""

    def __init__(
        self,
        projector: Projector,
        clock: Clock,
        ledger: LedgerReader,
        make_index: Callable[[], RankIndex],
    ) -> None:
        self.projector = projector
        self.clock = steady(clock)
        self.reader = Reader(projector=projector, clock=self.clock)
        self.past = PastRankings(self, ledger, make_index)
        days = PastRankings(self, ledger, make_index)
        self.movement = Movement(self, days, self.past)
        self.reader.movement = self.movement
        self.rank_histories = RankHistories(self, self.past)
        self.replicas: BoardReplicas | None = None
        """Of a shared index: some boards may be read from them."""
        self.supervisor = Supervisor()
        """Runs the background loops."""

    def grant(self, past: PastLimits, movement_entries: int) -> None:
        """Bound the work and the memory of past standings and of movement."""
        self.past.limits = past
        self.movement.grant(movement_entries)

    @property
    def state(self) -> State:
        """The state of boards, players and keys."""
        return self.projector.state

    @property
    def immediate(self) -> bool:
        """Whether no read ever suspends."""
        return self.projector.index.immediate

    def has_replicas(self, board: str) -> bool:
        """Whether a board may be read from replicas."""
        return self.replicas is not None and self.replicas.may_serve(board)

    def reader_of(self, board: str, least: int | None = None) -> Reader:
        """Return the reader of a board, at a position or later if one is given."""
        replicas, projector = self.replicas, self.projector
        page = projector.state.boards.get(board)
        if (
            replicas is None
            or page is None
            or least is not None
            or projector.readable is not projector.index
        ):
            return self.reader
        return replicas.reader_of(page, self.reader) or self.reader

    @property
    def position(self) -> Position:
        """The position that reads are true at."""
        return self.projector.checkpoint

    @property
    def ledger_time(self) -> Instant:
        """The ledger's time: the clock's, unless facts are later."""
        return max(self.clock.now(), self.projector.at)

    @property
    def clock_offset(self) -> int:
        """Ledger time minus the machine's clock, in microseconds."""
        return self.ledger_time - self.clock.wall.now()

    @property
    def clock_problem(self) -> str | None:
        """How ledger time and the clock differ, with a remedy; None if they agree."""
        return clock_problem(self.clock, self.ledger_time)

    def rejection(self, receipt: Receipt) -> Refused:
        """Return the error that a rejected submission is answered with.

        Where no window was open, it tells which are frozen, or when the next ones begin. A player
        may be banned by a fact that this node had not seen when it took the submission.
        """
        if receipt.first.code == PLAYER_BANNED.code:
            return PlayerBanned(board=receipt.board, player=receipt.player)
        if receipt.first.code == RuleBroken.code:
            return RuleBroken(
                reasons=tuple(_broken(one, receipt.decimals) for one in receipt.reasons)
            )
        why = receipt.first
        message = why.message or ""
        page = self.state.boards.get(receipt.board)
        if page is not None and not receipt.windows:
            frozen = page.shut(receipt.position, self.ledger_time)
            if frozen:
                return FrozenWindow(board=receipt.board, windows=frozen)
            openings = page.openings(self.ledger_time).items()
            message += "".join(f"; {name} opens at {at}" for name, at in openings)
        for named in (RunUsed, RunExpired):
            if why.code == named.code:
                return named()
        kind = AttemptsExhausted if why.code == AttemptsExhausted.code else SubmissionRejected
        return kind(reason=why.code or "", message=message)

    @property
    def failure(self) -> RankdError | None:
        """Why nothing new is seen or taken, if that is so."""
        return None

    @property
    def ledger_failure(self) -> RankdError | None:
        """Why nothing is read of the ledger, or taken, if that is so."""
        return self.failure

    @property
    def index_failure(self) -> RankdError | None:
        """Why the index cannot be asked, or is behind, if that is so."""
        return None

    @property
    def readable(self) -> bool:
        """Whether reads are answered, though they may be stale."""
        return True

    @property
    def writable(self) -> bool:
        """Whether submissions are taken, though they may have to wait."""
        return self.ledger_failure is None

    @property
    def sees_every_commit(self) -> bool:
        """Whether a read shows every write that was answered before it, by any process."""
        return False

    def awaits_head(self, board: str | None) -> bool:
        """Whether reads wait for the ledger's head: of a prize board; None is all boards."""
        if self.sees_every_commit:
            return False
        boards = self.state.boards
        pages = boards.values() if board is None else filter(None, [boards.get(board)])
        return any(page.board.prize for page in pages)

    @property
    def ended(self) -> bool:
        """Whether nothing more is taken for good."""
        return False

    @property
    def writer_answers(self) -> bool:
        """Whether the process that writes is heard of, where that is another one."""
        return True

    @property
    def loop_problems(self) -> list[str]:
        """Background loops that fail, each in a sentence."""
        return [state.problem for state in self.supervisor.states() if state.failure is not None]

    @property
    def stale(self) -> bool:
        """Whether there may be more in the ledger than is seen here, for longer than a moment."""
        return self.failure is not None

    @property
    def waiting(self) -> int:
        """How many facts wait for a commit."""
        return 0

    @property
    def spooled(self) -> Spooled | None:
        """Counts of spooled submissions; None without a spool."""
        return None

    @property
    def commits(self) -> int:
        """How many appends there were since the start."""
        return 0

    @property
    def unsaved(self) -> int:
        """How many positions a start would have to fold again."""
        return 0

    async def reached(
        self,
        position: Position,
        *,
        within_seconds: float,
        ranking: Callable[[], Ranking] | None = None,
    ) -> None:
        """Wait until reads are true at a position. Raises IndexBehind.

        ``ranking`` tells which one is to be read, once the position is known here: while the index
        is out of reach, each is kept as of a position of its own.
        """
        if self.projector.shown_to >= position and not self.stale:
            return
        here: Position | None = None
        try:
            async with asyncio.timeout(within_seconds):
                await self.projector.reach(position)
                while ranking is not None:
                    here = await self.projector.shown_in(ranking())
                    if here >= position:
                        return
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            here = self.projector.shown_to if here is None else here
            raise IndexBehind(position=position, checkpoint=here) from None


SLICE_PLAYERS = 2_048
"""Looked at in one go: one to two milliseconds."""

SEARCHES_MAX = 16
"""Under way, one at a time; one more is refused at once."""


class FoundPlayer(NamedTuple):
    """A player with its profile."""

    player: str
    name: str | None
    attributes: Mapping[str, str | int | bool]


class FoundPlayers(NamedTuple):
    """A page of players, in the order of their ids."""

    players: list[FoundPlayer]
    next_after: str | None
    """The last id of the page; None at the end."""


class PlayerSearch:
    """Finds players in the order of their ids, which is the same in every process."""

    def __init__(self, view: ReadEngine) -> None:
        self._view = view
        self._turn = asyncio.Lock()
        self._underway = 0

    async def find(
        self,
        beginning: str,
        *,
        after: str | None,
        limit: int,
        viewer: str | None = None,
        hidden_to: Viewer | None = None,
    ) -> FoundPlayers:
        """Return up to ``limit`` players behind ``after``. Raises InvalidPage and Overloaded.

        A player that is known by its scores alone, and is not ranked with any of them, is found by
        itself as the ``viewer`` only; players that are ``hidden_to`` the client are not found.
        """
        _check(beginning, limit)
        found = await self._find_alone(
            _Sought(beginning, viewer, hidden_to), after or "", limit + 1
        )
        page = [
            FoundPlayer(player, *self._view.state.profile(player)[:2]) for player in found[:limit]
        ]
        return FoundPlayers(page, page[-1].player if len(found) > limit else None)

    async def _find_alone(self, sought: "_Sought", after: str, limit: int) -> list[str]:
        if self._underway >= SEARCHES_MAX:
            raise Overloaded(waiting_max=SEARCHES_MAX)
        self._underway += 1
        try:
            async with self._turn:
                return await self._find(sought, after, limit)
        finally:
            self._underway -= 1

    async def _find(self, sought: "_Sought", after: str, limit: int) -> list[str]:
        found: set[str] = set()
        unranked, hidden_to = self._view.state.player_states, sought.hidden_to
        for matches in self._matches(sought.beginning):
            for player in matches:
                if player <= after or (hidden_to is not None and hidden_to.hides(player)):
                    continue
                if player not in unranked or await self._is_shown(player, sought.viewer):
                    found.add(player)
            if len(found) > limit + SLICE_PLAYERS:
                found = set(sorted(found)[:limit])
            await asyncio.sleep(0)
        return sorted(found)[:limit]

    async def _is_shown(self, player: str, viewer: str | None) -> bool:
        state = self._view.state
        if player in state.profiles or (player == viewer and state.sees_itself(player)):
            return True
        pages = state.boards.values()
        opened = [one.ranking for page in pages for one in page.windows.values()]
        sealed = [one.ranking for page in pages for one in page.sealed.values()]
        places = [(ranking, player) for ranking in (*opened, *sealed)]
        keys = await self._view.projector.index.order_keys(places)
        return any(key is not None for key in keys)

    def _matches(self, beginning: str) -> Iterator[Sequence[str]]:
        """Yield whose id or name begins so, of one slice of players after another."""
        state, folded = self._view.state, beginning.casefold()
        for players in _sliced(state.profiles):
            names = [known and known.name for known in map(state.profiles.get, players)]
            yield [
                player
                for player, name in zip(players, names, strict=True)
                if player.startswith(beginning)
                or (name is not None and name.casefold().startswith(folded))
            ]
        ranked = self._view.projector.index.player_ids(SLICE_PLAYERS)
        for ids in ranked:
            yield [player for player in ids if player.startswith(beginning)]


class _Sought(NamedTuple):
    beginning: str
    viewer: str | None
    hidden_to: Viewer | None


def _check(beginning: str, limit: int) -> None:
    if not beginning:
        raise InvalidPage([FieldError("query", "must be at least one character")])
    if not 1 <= limit <= PAGE_LIMIT_MAX:
        raise InvalidPage([FieldError("limit", f"must be from 1 to {PAGE_LIMIT_MAX}")])


def _sliced(players: Iterable[str]) -> Iterator[list[str]]:
    left = iter(list(players))  # A copy: others change it between two slices.
    while some := list(islice(left, SLICE_PLAYERS)):
        yield some


class WindowPreview(msgspec.Struct, frozen=True):
    """One window as it is and as it would be."""

    window: str
    """The name of its recurrence."""
    total: int
    total_after: int
    top: Sequence[Standing]
    top_after: Sequence[Standing]


class Preview(msgspec.Struct, frozen=True):
    """What would change."""

    changes: tuple[FieldChange, ...]
    windows: Sequence[WindowPreview]
    """Those that would be folded again."""
    drops: tuple[str, ...] = ()
    """Those with scores that cannot be ranked any more: that has to be agreed to."""


def _broken(reason: Reason, decimals: int) -> BrokenRule:
    return BrokenRule(reason.rule, *reason.shown(decimals), reason.sentence(decimals))


NO_CHANGE = Preview((), ())
"""The preview of the definition in force."""


async def preview(reader: Reader, page: BoardState, draft: BoardRebuild) -> Preview:
    """Compare a board with a draft of it."""
    windows = []
    for name, ranking in draft.windows():
        after = await reader.top_of(RankingView(draft.page().terms, ranking), PAGE_LIMIT_DEFAULT)
        before = None
        if (opened := page.windows.get(name)) is not None:
            before = await reader.top_of(
                RankingView(opened.terms, opened.ranking), PAGE_LIMIT_DEFAULT
            )
        windows.append(
            WindowPreview(
                name,
                0 if before is None else before.total,
                after.total,
                () if before is None else before.standings,
                after.standings,
            )
        )
    drops = await draft.dropped_windows(page)
    return Preview(page.board.changes(draft.board), windows, drops)
