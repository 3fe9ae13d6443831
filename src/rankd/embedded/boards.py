"""The handles over an index in this process: ranks and boards whose reads are plain calls.

Such an index never suspends, so the coroutine of a read runs to its end in one step: directly in a
program with an event loop, and under the fold's lock in a program with threads. The writes of
`AsyncBoard` are awaited; those of `Board` block, and run on the engine's own thread.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar, Unpack

from msgspec import UNSET, UnsetType

from rankd.bootstrap import Folder
from rankd.core.distribution import BUCKETS_DEFAULT, ScoreDistribution
from rankd.core.rank_history import GRAIN_DEFAULT, RankHistory
from rankd.core.read_engine import FoundPlayer, Preview
from rankd.core.reader import FoundStandings, Page, Projected, at_once
from rankd.core.rule_preview import RulesPreview
from rankd.core.runs import StartedRun
from rankd.core.time_correction import Corrected
from rankd.core.webhook_delivery import Callback
from rankd.core.window_control import WindowResult
from rankd.core.window_schedule import SCHEDULE_LENGTH_DEFAULT, PlannedStep
from rankd.embedded.async_api import (
    AwaitedBoard,
    BoardWriter,
    RanksWriter,
    RemoteBoard,
    RemoteRanks,
)
from rankd.embedded.corrections import BlockingBoardCorrector, BlockingRanksCorrector
from rankd.embedded.handles import BoardHandle, BoardRef, OpenEngine, RanksHandle
from rankd.embedded.moments import Compared, Then
from rankd.embedded.rewards import BlockingBoardRewards
from rankd.errors import FieldError, InvalidPage, LedgerUnavailable
from rankd.model.facts import Position, Visibility
from rankd.model.receipt import Receipt
from rankd.model.standing import NEIGHBOURS_DEFAULT, PAGE_LIMIT_DEFAULT, Rank, Standing
from rankd.model.submission import Item
from rankd.model.window import ListedWindow
from rankd.progress import Show

T = TypeVar("T")


class Answer(Protocol):
    """A function that runs the coroutine of a read to its end."""

    def __call__(self, asked: Coroutine[Any, Any, T], /) -> T:
        """Return the coroutine's result."""


class AnsweredBoard(BoardHandle):
    """The synchronous reads of a board."""

    def __init__(
        self, wanted: BoardRef, answer: Answer, reading: AbstractContextManager[Any]
    ) -> None:
        super().__init__(wanted)
        self._board = RemoteBoard(wanted)
        self._answer = answer
        self._reading = reading
        """Held by a read of an index in this process that runs without a coroutine."""

    def _answer_at(self, then: Then | Compared) -> Answer:
        """Return the function that runs reads of a moment; of the present if it is empty."""
        return self._answer_past if then else self._answer

    def _answer_past(self, asked: Coroutine[Any, Any, T], /) -> T:
        asked.close()
        problem = (
            "and baseline are awaited here: read board.past(as_of=…), or board.past(baseline=…)"
        )
        raise InvalidPage([FieldError("as_of", problem)])

    def top(
        self,
        count: int = PAGE_LIMIT_DEFAULT,
        *,
        window: str | None = None,
        segment: str | None = None,
        **then: Unpack[Compared],
    ) -> list[Standing]:
        """Return the best standings."""
        return self._answer_at(then)(self._board.top(count, window=window, segment=segment, **then))

    def page(  # noqa: PLR0913 - which part of which ranking
        self,
        *,
        limit: int = PAGE_LIMIT_DEFAULT,
        offset: int | None = None,
        from_rank: int | None = None,
        cursor: str | None = None,
        score_min: object = None,
        score_max: object = None,
        window: str | None = None,
        segment: str | None = None,
        edition: int | None = None,
        **then: Unpack[Compared],
    ) -> Page:
        """Return a page that begins at a rank, an offset or a cursor.

        With ``score_min`` or ``score_max``, both inclusive, it is one of the entries whose first
        column lies between them; its ``in_range`` tells how many these are. ``edition``, counted
        from 1, names an earlier edition of a closed window.
        """
        return self._answer_at(then)(
            self._board.page(
                limit=limit,
                offset=offset,
                from_rank=from_rank,
                cursor=cursor,
                score_min=score_min,
                score_max=score_max,
                window=window,
                segment=segment,
                edition=edition,
                **then,
            )
        )

    def standing(
        self,
        player: str,
        *,
        window: str | None = None,
        segment: str | None = None,
        edition: int | None = None,
        **then: Unpack[Compared],
    ) -> Standing | None:
        """Return a player's standing, also in an earlier edition; None if it is not ranked."""
        reader = self._wanted.there().reader
        if then or edition is not None or not reader.immediate:
            which = {"window": window, "segment": segment}
            return self._answer_at(then)(
                self._board.standing(player, **which, edition=edition, **then)
            )
        with self._reading:
            return reader.standing_now(reader.where(self.name, window, segment), player)

    def ranks(
        self,
        players: Sequence[str],
        *,
        window: str | None = None,
        segment: str | None = None,
        **then: Unpack[Then],
    ) -> list[Rank | None]:
        """Return the ranks of many players; None for each that is not ranked."""
        return self._answer_at(then)(
            self._board.ranks(players, window=window, segment=segment, **then)
        )

    def around(
        self,
        player: str,
        *,
        above: int = NEIGHBOURS_DEFAULT,
        below: int = NEIGHBOURS_DEFAULT,
        absent: str | None = None,
        window: str | None = None,
        segment: str | None = None,
        **then: Unpack[Compared],
    ) -> list[Standing]:
        """Return a player's neighbourhood, filled up at the edges.

        A player without an entry raises NotRanked or, with ``absent`` ``top`` or ``bottom``, gets
        the neighbourhood of the first or the last one.
        """
        return self._answer_at(then)(
            self._board.around(
                player,
                above=above,
                below=below,
                absent=absent,
                window=window,
                segment=segment,
                **then,
            )
        )

    def around_rank(
        self,
        rank: int,
        *,
        reach: int = NEIGHBOURS_DEFAULT,
        window: str | None = None,
        segment: str | None = None,
        **then: Unpack[Compared],
    ) -> list[Standing]:
        """Return the standings from ``rank - reach`` to ``rank + reach``."""
        return self._answer_at(then)(
            self._board.around_rank(rank, reach=reach, window=window, segment=segment, **then)
        )

    def lookup(
        self,
        players: Sequence[str],
        *,
        window: str | None = None,
        segment: str | None = None,
        **then: Unpack[Compared],
    ) -> FoundStandings:
        """Return some players' standings, best first, and the players that are not ranked."""
        return self._answer_at(then)(
            self._board.lookup(players, window=window, segment=segment, **then)
        )

    def friends(
        self,
        player: str,
        *,
        window: str | None = None,
        segment: str | None = None,
        **then: Unpack[Compared],
    ) -> FoundStandings:
        """Return a player and its friends, ranked among themselves."""
        return self._answer_at(then)(
            self._board.friends(player, window=window, segment=segment, **then)
        )

    def rank_for(
        self,
        score: object = None,
        *,
        columns: Sequence[object] | None = None,
        window: str | None = None,
        segment: str | None = None,
        **then: Unpack[Then],
    ) -> Projected:
        """Return the rank that a new player with this score would get now."""
        return self._answer_at(then)(
            self._board.rank_for(score, columns=columns, window=window, segment=segment, **then)
        )

    def score_for(
        self,
        *,
        rank: int | None = None,
        percentile: float | None = None,
        window: str | None = None,
        segment: str | None = None,
        **then: Unpack[Then],
    ) -> Projected:
        """Return the scores that hold a rank now, or the last rank of a percentile."""
        return self._answer_at(then)(
            self._board.score_for(
                rank=rank, percentile=percentile, window=window, segment=segment, **then
            )
        )

    def distribution(
        self,
        *,
        buckets: int = BUCKETS_DEFAULT,
        window: str | None = None,
        segment: str | None = None,
        **then: Unpack[Then],
    ) -> ScoreDistribution:
        """Return the scores as a histogram with counts and quantiles, in smallest units."""
        return self._answer_at(then)(
            self._board.distribution(buckets=buckets, window=window, segment=segment, **then)
        )

    def windows(self) -> list[ListedWindow]:
        """Return the sealed windows, oldest first, then the open ones, then the scheduled ones."""
        return self._answer(self._board.windows())

    def schedule(self, next: int = SCHEDULE_LENGTH_DEFAULT) -> list[PlannedStep]:
        """Return the coming openings and closings of the windows, the earliest first."""
        return self._answer(self._board.schedule(next))


class AnsweredRanks(RanksHandle):
    """The synchronous reads of an engine."""

    def __init__(self, opened: OpenEngine, answer: Answer) -> None:
        super().__init__(opened)
        self._ranks = RemoteRanks(opened)
        self._answer = answer

    def boards(self) -> list[str]:
        """Return the names of the boards."""
        return self._answer(self._ranks.boards())

    def standings(self, player: str, *, window: str | None = None) -> dict[str, Standing]:
        """Return a player's standings by board, on every board with the window."""
        return self._answer(self._ranks.standings(player, window=window))


class AsyncBoard(AnsweredBoard, BoardWriter):
    """One board of an open engine. Reads are plain calls; writes and previews are awaited."""

    def __init__(self, wanted: BoardRef) -> None:
        super().__init__(wanted, at_once, nullcontext())

    def past(self, **then: Unpack[Compared]) -> AwaitedBoard:
        """Return the board as it was at a position or a time; its reads are awaited.

        With ``baseline``, a position, a duration or a window, they tell the movement since then.
        """
        return self._board.past(**then)

    async def rank_history(
        self, player: str, *, window: str | None = None, grain: str = GRAIN_DEFAULT
    ) -> RankHistory:
        """Return a player's rank over time: at the end of each ``grain``, and now.

        A grain is an ``hour``, a ``day`` or a ``week``. Raises PastOutOfReach.
        """
        return await self._board.rank_history(player, window=window, grain=grain)


class AsyncRanks(AnsweredRanks, RanksWriter):
    """An open engine. Reads are plain calls; everything else is awaited."""

    def __init__(self, opened: OpenEngine) -> None:
        super().__init__(opened, at_once)

    def board(self, name: str, **definition: object) -> AsyncBoard:
        """Return a board; define it, with defaults for missing fields, if it does not exist.

        If awaited, it is defined now, and errors are raised. Otherwise it is defined before the
        first write to it, which raises BoardDiffers if it exists with another definition. Until
        then it can be read if it exists with this definition.
        """
        return AsyncBoard(BoardRef(self._opened, name, definition))


class EngineThread:
    """The thread that serves an engine, and the calls that are passed to it."""

    def __init__(
        self,
        opened: OpenEngine,
        thread: threading.Thread,
        reading: AbstractContextManager[Any],
    ) -> None:
        self.opened = opened
        self._thread = thread
        self.reading = reading
        """Held while the index is read on the thread of a caller."""
        self._handing = threading.RLock()
        """Held while a call is passed on, so that none comes after the stop and stays unanswered.
        """

    def write(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the engine's loop and wait. Raises LedgerUnavailable once closed."""
        with self._handing:
            self._refuse_if_closed(work)
            done = asyncio.run_coroutine_threadsafe(work, self.opened.running.loop)
        try:
            return done.result()
        except CancelledError:
            message = "the engine was closed meanwhile; open it anew"
            raise LedgerUnavailable(message, applied="unknown") from None

    def read(self, work: Coroutine[Any, Any, T], /) -> T:
        """Run a read on this thread, between two changes of the index.

        A read of an index across a network is passed to the engine's loop instead.
        """
        if not self.opened.immediate:
            return self.write(work)
        self._refuse_if_closed(work)
        with self.reading:
            return at_once(work)

    def close(self) -> None:
        """Close the engine and wait for the end of its thread."""
        with self._handing:
            self.opened.stop()
        self._thread.join()

    def _refuse_if_closed(self, work: Coroutine[Any, Any, T]) -> None:
        try:
            self.opened.refuse_if_closed()
        except LedgerUnavailable:
            work.close()
            raise


class Board(AnsweredBoard, BlockingBoardCorrector, BlockingBoardRewards):
    """One board of an open engine. Threads may share it."""

    def __init__(self, thread: EngineThread, wanted: BoardRef) -> None:
        AnsweredBoard.__init__(self, wanted, thread.read, thread.reading)
        BlockingBoardCorrector.__init__(self, thread, self._board)
        BlockingBoardRewards.__init__(self, thread, self._board)
        self._thread = thread

    def _answer_past(self, asked: Coroutine[Any, Any, T], /) -> T:
        return self._thread.write(asked)

    def rank_history(
        self, player: str, *, window: str | None = None, grain: str = GRAIN_DEFAULT
    ) -> RankHistory:
        """Return a player's rank over time: at the end of each ``grain``, and now.

        A grain is an ``hour``, a ``day`` or a ``week``. Raises PastOutOfReach.
        """
        return self._thread.write(self._board.rank_history(player, window=window, grain=grain))

    def submit(  # noqa: PLR0913 - the fields of a submission
        self,
        player: str,
        score: object = None,
        *,
        delta: object = None,
        key: str | None = None,
        columns: Mapping[str, object] | None = None,
        metadata: object = None,
        attributes: Mapping[str, str | int | bool] | None = None,
        build: str | None = None,
        at: str | None = None,
        run: str | None = None,
        lives: str | None = None,
    ) -> Receipt:
        """Submit a score and return its receipt. Raises Refused and Unavailable.

        On return it is on stable storage. With a ``key`` it is safe to repeat: it counts once.
        With ``lives``, such as ``24h``, it counts for so long.
        """
        return self._thread.write(
            self._board.submit(
                player,
                score,
                delta=delta,
                key=key,
                columns=columns,
                metadata=metadata,
                attributes=attributes,
                build=build,
                at=at,
                run=run,
                lives=lives,
            )
        )

    def start_run(self, player: str) -> StartedRun:
        """Start a run: return a token that one submission of this player may use in its time."""
        return self._thread.write(self._board.start_run(player))

    def submit_many(self, items: Iterable[Item]) -> list[Receipt]:
        """Submit many scores, one commit for each BATCH_FACTS_MAX; return their receipts.

        If one is malformed, nothing of its commit is recorded; the error names the item. If one is
        refused when it is judged, or reuses a key, the others still count and the first refusal is
        raised.
        """
        return self._thread.write(self._board.submit_many(items))

    def preview(self, **definition: object) -> Preview:
        """Return the changes that ``redefine`` would make, without making them."""
        return self._thread.write(self._board.preview(**definition))

    def preview_rules(self, *, progress: Show = None, **definition: object) -> RulesPreview:
        """Return the past submissions that the rules of a changed definition would have caught.

        Without a definition, those that the rules in force would have. Nothing is changed.
        """
        return self._thread.write(self._board.preview_rules(progress=progress, **definition))

    def redefine(
        self, *, drop_scores: bool = False, progress: Show = None, **definition: object
    ) -> None:
        """Change the given fields of the board's definition; the others stay.

        The windows it affects are folded again from the ledger while reads and writes continue, and
        are then replaced atomically. Raises DropsScores if scores can no longer be ranked, for
        example because of a new column, unless ``drop_scores`` is set.
        """
        self._thread.write(
            self._board.redefine(drop_scores=drop_scores, progress=progress, **definition)
        )

    def retire(self, *, reason: str | None = None) -> None:
        """Take the board out of use. Its facts stay in the ledger."""
        self._thread.write(self._board.retire(reason=reason))

    def reset_window(self, window: str, *, reason: str) -> WindowResult:
        """Close a window now, and open the next one at the same position.

        A second call with the same window and reason changes nothing. Raises WrongWindowState.
        """
        return self._thread.write(self._board.reset_window(window, reason=reason))

    def freeze_window(self, window: str, *, reason: str) -> WindowResult:
        """Let a window take no more scores until its time is over. Raises WrongWindowState."""
        return self._thread.write(self._board.freeze_window(window, reason=reason))

    def settle_window(self, window: str, *, reason: str) -> WindowResult:
        """Declare the standings of a window final, sealing it first. Raises WrongWindowState."""
        return self._thread.write(self._board.settle_window(window, reason=reason))


class Ranks(AnsweredRanks, BlockingRanksCorrector):
    """An open engine. Threads may share it. ``with`` closes it in the end."""

    def __init__(self, thread: EngineThread) -> None:
        AnsweredRanks.__init__(self, thread.opened, thread.read)
        BlockingRanksCorrector.__init__(self, thread, self._ranks)
        self._thread = thread

    def __enter__(self) -> Self:
        self._opened.refuse_if_closed()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the engine and free its folder; do nothing if it is closed already.

        Waits for submissions in progress. Later calls raise LedgerUnavailable.
        """
        self._thread.close()

    def board(self, name: str, **definition: object) -> Board:
        """Return a board; define it, with defaults for missing fields, if it does not exist.

        Raises BoardDiffers if it exists with another definition.
        """
        wanted = BoardRef(self._opened, name, definition)
        self._thread.write(wanted.made())
        return Board(self._thread, wanted)

    def on(self, event: str, function: Callback) -> Callable[[], None]:
        """Call a function for each event of a name from now on; return a function that ends it.

        It is passed the message of a webhook, with the ``id``, in the order of the ledger: on a
        thread, or in the loop of the program if it is ``async`` and there is one.
        """

        async def add() -> Callable[[], None]:
            return self._opened.rankd.callbacks.add(event, function)

        return self._thread.write(add())

    def profile(
        self,
        player: str,
        *,
        name: str | UnsetType | None = UNSET,
        attributes: Mapping[str, str | int | bool] | UnsetType | None = UNSET,
        visibility: Visibility | UnsetType | None = UNSET,
    ) -> Position:
        """Set a player's name, its visibility, or its attributes as a whole.

        An argument that is not given changes nothing; None deletes the value.
        """
        return self._thread.write(
            self._ranks.profile(player, name=name, attributes=attributes, visibility=visibility)
        )

    def merge_profile(
        self,
        player: str,
        *,
        name: str | UnsetType | None = UNSET,
        attributes: Mapping[str, str | int | bool | None] | UnsetType | None = UNSET,
        visibility: Visibility | UnsetType | None = UNSET,
    ) -> Position:
        """Change a player's name, visibility or some attributes; the other attributes stay.

        An attribute that is None is deleted. A call that changes nothing records nothing.
        """
        return self._thread.write(
            self._ranks.merge_profile(
                player, name=name, attributes=attributes, visibility=visibility
            )
        )

    def players(
        self, query: str, *, limit: int = PAGE_LIMIT_DEFAULT, after: str | None = None
    ) -> list[FoundPlayer]:
        """Return players whose name or id begins with ``query``, ordered by id.

        ``after`` is the last id of the previous page. Raises InvalidPage.
        """
        return self._thread.write(self._ranks.players(query, limit=limit, after=after))

    def set_friends(self, player: str, friends: Sequence[str]) -> Position:
        """Replace a player's friends."""
        return self._thread.write(self._ranks.set_friends(player, friends))

    def erase(
        self,
        player: str,
        *,
        reason: str | None = None,
        unfriend: bool = False,
        progress: Show = None,
    ) -> Position:
        """Erase a player's data, from the ledger too; its entries keep their ranks, without a name.

        With ``unfriend`` other players' lists of friends name it no more. Returns once all is done.
        """
        return self._thread.write(
            self._ranks.erase(player, reason=reason, unfriend=unfriend, progress=progress)
        )

    def confirm_clock(self) -> float | None:
        """Accept a step of the clock now instead of after it has lasted.

        Return its seconds; None if no step is waiting to be accepted.
        """
        return self._thread.write(self._ranks.confirm_clock())

    def correct_clock(
        self,
        *,
        first: int | None = None,
        ahead_seconds: float | None = None,
        reason: str | None = None,
        dry_run: bool = False,
        progress: Show = None,
    ) -> Corrected:
        """Undo the effects of a wrong time on windows, from a position on; return what changes.

        Without ``first``, from the first fact that is later than the clock. ``ahead_seconds`` is
        the jump of the time there if it is not given. With ``dry_run`` nothing is changed.
        """
        return self._thread.write(
            self._ranks.correct_clock(
                first=first,
                ahead_seconds=ahead_seconds,
                reason=reason,
                dry_run=dry_run,
                progress=progress,
            )
        )

    def save(self, *, progress: Show = None) -> Position:
        """Save the index, so that the next start is quick; return the position it is saved at."""
        return self._thread.write(self._ranks.save(progress=progress))

    def verify(self, *, progress: Show = None) -> None:
        """Check every fact, and the index against all of them. Raises Corrupt."""
        self._thread.write(self._ranks.verify(progress=progress))

    def rebuild(self, *, progress: Show = None) -> None:
        """Fold the whole ledger into a new index, and replace the present one by it."""
        self._thread.write(self._ranks.rebuild(progress=progress))

    def backup(self, folder: Folder, *, progress: Show = None) -> None:
        """Copy the ledger into an empty folder while it is in use, and verify the copy."""
        self._thread.write(self._ranks.backup(folder, progress=progress))
