"""Standings as of a past position: a ranking as it was then, made when it is read.

The ledger has every fact, so the standings at any position follow from it: the facts of the board
up to there, folded into an index of their own (``past_replay``). Where the position is near the
head, a copy of the present ranking with later changes taken back costs less (``past_copy``). Both
are exact, and tell the knowledge of that position: a submission that was retracted later counts, a
window that was closed later is open.

A snapshot of the index is no third way: it has all boards, so that loading it costs more than to
copy one ranking, and the present is never further from a past position than a snapshot is.

The result is cached, so that the next page of the same moment costs as much as a present one. They
are made one at a time, in slices with pauses of the same length between them: a reader of the
present waits for one slice at most.

Names, friends and visibility are those of the present: an erased name stays erased. A player that
is banned, hidden or shadowed now keeps its rank then, and is not named to others.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import NamedTuple, Protocol

from rankd.core.past_copy import Copy, CopyWanted, copy_cost, is_open_still, page_before
from rankd.core.past_replay import PastRanking, PastTooLarge, Replay, Slices, Stops, replay
from rankd.core.projector import Projector, Tell
from rankd.core.reader import Reader
from rankd.core.state import State
from rankd.core.visibility import PastViewer, Viewer
from rankd.errors import FieldError, InvalidPage, Overloaded, PastOutOfReach, TooOld
from rankd.model.facts import Position, right_time
from rankd.model.window import Instant
from rankd.ports import LedgerReader, Progress, RankIndex, Ranking

PAST_FACTS_MAX = 1_000_000
"""Facts that a request may have folded again: some seconds of work."""

PAST_ENTRIES_MAX = 1_000_000
"""Entries of past rankings in memory, at about a hundred bytes each."""

WAITING_MAX = 16
"""Past rankings that are waited for; a further one is refused at once."""

BOARDS_MAX = 64
"""Past boards in the cache: also empty ones take some memory."""

PAUSE_PER_WORK = 1.0
"""Seconds of pause for each second of work, while readers of the present are served."""


class PastLimits(NamedTuple):
    """The work and the memory that past standings may take; None for any."""

    facts: int | None = PAST_FACTS_MAX
    entries: int | None = PAST_ENTRIES_MAX


PAST_LIMITS = PastLimits()


class Moment(NamedTuple):
    """A past position, and the time that readers of it go by."""

    position: Position
    at: Instant

    def now(self) -> Instant:
        """Return the time, as a clock."""
        return self.at


class PastView(Protocol):
    """The engine whose past is read."""

    projector: Projector
    reader: Reader

    @property
    def state(self) -> State:
        """The present state."""

    @property
    def ledger_time(self) -> Instant:
        """The present time."""


class PastBoard:
    """The rankings of one board at one past position, as far as they were made."""

    def __init__(self, state: State | None, erased: Mapping[str, Position]) -> None:
        self.state = state
        """That of the board then, if its rankings can be copied; None if they are replayed."""
        self.erased = erased
        """The players that were erased when this was made."""
        self.whole: PastRanking | None = None
        """All rankings, once they were replayed."""
        self.copies: dict[Ranking, PastRanking] = {}

    @property
    def entries(self) -> int:
        """How many entries it has."""
        made = [*self.copies.values(), *([] if self.whole is None else [self.whole])]
        return sum(past.entries for past in made)


PastKey = tuple[str, Position]
"""A board, and a position."""


class PastRankings:
    """The past rankings of an engine: made when they are read, and cached."""

    def __init__(
        self, view: PastView, ledger: LedgerReader, make_index: Callable[[], RankIndex]
    ) -> None:
        self.limits = PAST_LIMITS
        self.pause_per_work = PAUSE_PER_WORK
        self.tell: Tell = _say_nothing
        self._view = view
        self._ledger = ledger
        self._make_index = make_index
        self._boards: OrderedDict[PastKey, PastBoard] = OrderedDict()
        """The least recently read first."""
        self._tasks: dict[object, asyncio.Task[PastRanking]] = {}
        self._alone = asyncio.Lock()
        self._replays = 0
        """How many replays with stops wait or are under way."""

    @property
    def entries(self) -> int:
        """How many entries are cached."""
        return sum(past.entries for past in self._boards.values())

    async def close(self) -> None:
        """Make nothing more."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # ------------------------------------------------------------------------- moments

    async def moment(self, as_of: int | None, at: Instant | None) -> Moment:
        """Return the moment of a position, or the last position at a time.

        Raises InvalidPage unless it is one of the two, and not in the future.
        """
        if as_of is not None and at is not None:
            raise InvalidPage([FieldError("at", "cannot be combined with as_of")])
        head = await self._ledger.head()
        if as_of is None:
            assert at is not None, "a position or a time is given"
            return await self._moment_at(at, head)
        if not 0 <= as_of <= head:
            message = f"must be from 0 to {head}, the last position so far"
            raise InvalidPage([FieldError("as_of", message)])
        return Moment(Position(as_of), await self.time_of(Position(as_of)))

    async def _moment_at(self, at: Instant, head: Position) -> Moment:
        if at > self._view.ledger_time:
            raise InvalidPage([FieldError("at", "must not be in the future")])
        return Moment(await self.position_at(at, head), at)

    async def position_at(self, at: Instant, head: Position, *, before: bool = False) -> Position:
        """Return the last position whose fact was recorded by a time, or ``before`` it; 0 if none.

        O(log n) reads of the ledger, whose time never goes back.
        """
        low, high = Position(0), head
        while low < high:
            middle = Position((low + high + 1) // 2)
            time = await self.time_of(middle)
            if time < at or (time == at and not before):
                low = middle
            else:
                high = Position(middle - 1)
        return low

    async def time_of(self, position: Position) -> Instant:
        """Return when a position was recorded; of one without a fact, when the next one was."""
        after = Position(max(position - 1, 0))
        found = await self._ledger.read(after=after, limit=1)
        return right_time(found[0], self._view.state.wrong_times) if found else 0

    # ------------------------------------------------------------------------- readers

    async def reader(
        self,
        board: str,
        moment: Moment,
        *,
        window: str | None = None,
        segment: str | None = None,
        viewer: Viewer | None = None,
        itself: str | None = None,
    ) -> Reader:
        """Return a reader of one ranking as it was.

        ``itself`` is the player that reads, if it is one: a shadowed player is shown itself.
        Raises TooOld, PastOutOfReach, Overloaded and the errors of ``Reader.where``.
        """
        past = await self.ranking(board, moment, window=window, segment=segment)
        present, state = self._view.state, past.projector.state
        state.names, state.profiles = present.names, present.profiles
        state.visibility = present.visibility
        reader = Reader(projector=past.projector, clock=moment)
        reader.past = True
        if viewer is None and not present.player_states:
            return reader
        return reader.seen_by(PastViewer(present, board, viewer, itself))

    async def ranking(
        self, board: str, moment: Moment, *, window: str | None = None, segment: str | None = None
    ) -> PastRanking:
        """Return one ranking as it was, or all of the board if these cost less."""
        self._view.state.page(board)
        self._forget_erased()
        past = await self._board(board, moment.position)
        if past.whole is not None:
            return past.whole
        ranking = None
        if past.state is not None:
            ranking = _where(past.state, moment, board, window, segment)
        if ranking in past.copies:
            return past.copies[ranking]
        return await asyncio.shield(self._task(past, (board, moment.position), ranking))

    async def replay_through(self, board: str, position: Position, stops: Stops) -> None:
        """Fold a board up to a position, with stops. Raises PastOutOfReach and Overloaded."""
        facts_max = self.limits.facts
        if facts_max is not None and position > facts_max:
            problem = f"it takes as long as {position:,} facts"
            raise PastOutOfReach(board=board, position=position, problem=problem)
        if self._replays >= WAITING_MAX:
            raise Overloaded(waiting_max=WAITING_MAX)
        self._replays += 1
        try:
            async with self._alone:
                slices, erased = Slices(self.pause_per_work), self._view.state.erased
                entries_max = self.limits.entries
                wanted = Replay(board, position, erased, entries_max, slices, self.tell)
                await replay(self._ledger, self._make_index(), wanted, stops)
        except PastTooLarge as exc:
            raise PastOutOfReach(board=board, position=position, problem=str(exc)) from None
        finally:
            self._replays -= 1

    async def _board(self, board: str, position: Position) -> PastBoard:
        key = board, position
        if key in self._boards:
            self._boards.move_to_end(key)
            return self._boards[key]
        state = await page_before(self._view, self._ledger, board, position)
        made = PastBoard(state, dict(self._view.state.erased))
        return self._boards.setdefault(key, made)

    def _task(
        self, past: PastBoard, key: PastKey, ranking: Ranking | None
    ) -> "asyncio.Task[PastRanking]":
        name = key, ranking
        making = self._tasks.get(name)
        if making is None:
            if len(self._tasks) >= WAITING_MAX:
                raise Overloaded(waiting_max=WAITING_MAX)
            making = asyncio.get_running_loop().create_task(self._make(past, key, ranking))
            self._tasks[name] = making
            making.add_done_callback(lambda _: self._tasks.pop(name, None))
        return making

    async def _make(self, past: PastBoard, key: PastKey, ranking: Ranking | None) -> PastRanking:
        async with self._alone:
            made = await self._replayed_or_copied(past, *key, ranking)
        self._keep_within()
        return made

    async def _replayed_or_copied(
        self, past: PastBoard, board: str, position: Position, ranking: Ranking | None
    ) -> PastRanking:
        """Make a past ranking in the way that costs less, or else in the other."""
        if past.whole is not None:
            return past.whole
        costs: dict[Ranking | None, int] = {None: position}
        if ranking is not None and is_open_still(self._view, ranking):
            costs[ranking] = await copy_cost(self._view, ranking, position)
        problem = ""
        for copied, cost in sorted(costs.items(), key=itemgetter(1)):
            if self.limits.facts is not None and cost > self.limits.facts:
                problem = problem or f"it takes as long as {cost:,} facts"
                continue
            try:
                return await self._made(past, board, position, copied)
            except PastTooLarge as exc:
                problem = problem or str(exc)
        raise PastOutOfReach(board=board, position=position, problem=problem)

    async def _made(
        self, past: PastBoard, board: str, position: Position, ranking: Ranking | None
    ) -> PastRanking:
        slices = Slices(self.pause_per_work)
        if ranking is not None and past.state is not None:
            wanted = CopyWanted(ranking, position, self.limits.entries, slices, self.tell)
            index = self._make_index()
            copy = Copy(self._view, self._ledger, index, past.state, wanted)
            past.copies[ranking] = await copy.make()
            return past.copies[ranking]
        erased = self._view.state.erased
        wanted_all = Replay(board, position, erased, self.limits.entries, slices, self.tell)
        whole = await replay(self._ledger, self._make_index(), wanted_all)
        if board not in whole.projector.state.boards:
            raise TooOld(board=board, position=position)
        past.whole = whole
        past.copies.clear()
        return whole

    def _keep_within(self) -> None:
        """Forget the boards that were not read for the longest time, as long as there are many."""
        entries_max = self.limits.entries
        while len(self._boards) > BOARDS_MAX or (
            entries_max is not None and self.entries > entries_max and len(self._boards) > 1
        ):
            self._boards.popitem(last=False)

    def forget_all(self) -> None:
        """Forget all past rankings but those that are being made."""
        self._boards.clear()

    def _forget_erased(self) -> None:
        """Forget boards made before a player was erased: they may have personal data of it."""
        erased = self._view.state.erased
        for key in [key for key, past in self._boards.items() if past.erased != erased]:
            del self._boards[key]


def _where(
    state: State, moment: Moment, board: str, window: str | None, segment: str | None
) -> Ranking | None:
    """Return the ranking that a reader means; None if it was not recorded then."""
    page = state.boards[board]
    found = page.find_window(window, moment.at)
    if not page.is_recorded(found.window.id):
        return None
    return Ranking(board, found.window.id, segment)


def _say_nothing(_progress: Progress) -> None:
    pass
