"""The write path: many callers, one writer task, one commit for all gathered facts.

Callers put their facts in a bounded queue and wait. One task, independent of any request, takes all
queued facts, appends them as one, folds them, and answers each caller. While a commit is on its way
to the disk the next batch gathers, so a commit is shared by more facts under load.

A caller that goes away takes nothing with it: its facts are appended and folded all the same, and
a retry with the same key gets the answer it did not wait for.

When the ledger fails the writer pauses: every further call is refused with a certain ``no``.
Whether the last commit is on the disk can only be told by opening the ledger anew. If that finds
all that was acknowledged, the writer goes on; if not, or if a fold fails, it has stopped for good.
A service treats a disk that does not answer for a while as one that failed.

A ledger to which other nodes append as well has a writer of its own, in ``core.cluster``.
"""

import asyncio
import logging
from collections import deque
from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from typing import Any, ClassVar, NamedTuple, overload

import msgspec

from rankd.core.projector import Projector, keyed
from rankd.core.receipts import ReceiptBuffer, Receipts
from rankd.core.request_origin import current_origin, with_origin
from rankd.core.segment_values import SEGMENT_VALUES_MAX, SegmentValues
from rankd.core.steady_clock import steady
from rankd.core.window_schedule import Schedule
from rankd.errors import (
    LedgerUnavailable,
    Overloaded,
    RankdError,
    SubmissionKeyReused,
    TooManySegmentValues,
)
from rankd.model.board import Board
from rankd.model.facts import (
    Fact,
    PlayerStateSet,
    Position,
    Recorded,
    ScoreSubmitted,
    is_submission,
)
from rankd.model.receipt import Receipt
from rankd.model.window import Instant
from rankd.ports import (
    Appended,
    Clock,
    FirstUse,
    Ledger,
    PlayersWithNews,
    ReopenableLedger,
    Spool,
    StoredReceipt,
)

_log = logging.getLogger(__name__)

WAITING_FACTS_MAX = 65_536
"""The length of the queue: some tens of milliseconds of work. More would only wait longer."""

BATCH_FACTS_MAX = 8_192
"""The facts of one commit: enough to make the disk's share small, few enough to answer soon."""

SILENCE_PARTS = 4
"""A wait for the disk is made in parts: an event loop that was held up for long, or a process that
was stopped, then finds the answer that came meanwhile, and does not take it for silence."""

TOLD_TOGETHER_MAX = 64
"""How many callers are answered in one iteration of the loop. The others wait for the next, so that
reads and the next commit do not wait for all of them."""


class DefinitionChanged(Exception):
    """The board was redefined or retired after the submissions were checked: check them again."""


class WriteResult(msgspec.Struct, frozen=True, gc=False):
    """The result of writing one fact."""

    position: Position
    receipt: Receipt | None
    """Only submissions have one, and of those not the ones whose board was retired meanwhile."""
    duplicate: bool = False
    """Whether its key was used before: the receipt is that of the first time."""
    error: RankdError | None = None
    pending: ScoreSubmitted | None = None
    """The submission, if it is recorded and its outcome is not known yet: the index is out of
    reach, or another node folded it and has not stored the receipt."""


class WriteResults(Sequence[WriteResult]):
    """The results of facts that were all new, each built on access."""

    def __init__(self, positions: Sequence[Position], receipts: Receipts) -> None:
        self.positions = positions
        self.receipts = receipts
        """Of these and perhaps of others."""

    def __len__(self) -> int:
        return len(self.positions)

    @overload
    def __getitem__(self, place: int) -> WriteResult: ...
    @overload
    def __getitem__(self, place: slice) -> "WriteResults": ...
    def __getitem__(self, place: int | slice) -> "WriteResult | WriteResults":
        if isinstance(place, slice):
            return WriteResults(self.positions[place], self.receipts)
        position = self.positions[place]
        return WriteResult(position, self.receipts.get(position))


HandedIn = Callable[[Sequence[WriteResult] | Exception], None]
"""A callback with the results of the facts, or the error. It must not raise or block."""


class PendingWrite(NamedTuple):
    """Facts that wait for a commit, with the callback of their caller."""

    facts: Sequence[Fact]
    boards: Sequence[Board]
    tell: HandedIn


class Writer:
    """Takes facts from many callers and hands them to the ledger and the fold, in one order."""

    alone: ClassVar[bool] = True
    """Whether no other node appends to the ledger."""

    def __init__(  # noqa: PLR0913 - what it is put together from
        self,
        *,
        ledger: Ledger,
        projector: Projector,
        clock: Clock,
        reading: AbstractContextManager[Any],
        receipts: ReceiptBuffer,
        waiting_max: int = WAITING_FACTS_MAX,
        batch_max: int = BATCH_FACTS_MAX,
        segment_values_max: int = SEGMENT_VALUES_MAX,
        silence_seconds: float | None = None,
    ) -> None:
        self.projector = projector
        self.receipts = receipts
        self.link = b""
        """The ledger's hash chain at the last append."""
        self.commits = 0
        """How many appends there were."""
        self.failure: RankdError | None = None
        """Why it takes nothing, if that is so."""
        self.stopped = asyncio.Event()
        """Set when that is for good: only a new start can help."""
        self.spool: Spool | None = None
        """Where submissions wait while the ledger cannot be reached, if that is wanted."""
        self.spooled = 0
        """How many were put there."""
        self._ledger = ledger
        self._clock = steady(clock)
        self._reading = reading
        self._waiting_max = waiting_max
        self._batch_max = batch_max
        self._segment_values = SegmentValues(segment_values_max)
        self._silence_seconds = silence_seconds
        """How long an append to a disk of this machine may take; None for as long as it does."""
        self._waiting: list[PendingWrite] = []
        self._waiting_facts = 0
        self._untold: deque[tuple[PendingWrite, Sequence[WriteResult] | Exception]] = deque()
        """Requests with results that were not delivered yet, in order."""
        self._wake = asyncio.Event()
        self._turn = asyncio.Lock()
        self._closing = False
        self._turn_at: Instant = 0
        self._schedule = Schedule()
        self._at: Instant = 0
        """The ledger's time at the last append, though it may have brought no new fact."""
        self._corrections = 0
        """How often the time had been corrected by then."""

    @property
    def turn_at(self) -> Instant:
        """When the next window opens, closes or is dropped."""
        return self._turn_at

    @property
    def waiting(self) -> int:
        """How many facts wait for a commit."""
        return self._waiting_facts

    # ------------------------------------------------------------------------- callers

    async def put(
        self, facts: Sequence[Fact], *, boards: Sequence[Board] = ()
    ) -> Sequence[WriteResult]:
        """Record and fold facts; return the result of each, in order.

        Raises Overloaded at once when too many are waiting, LedgerUnavailable, and Overtaken if
        ``boards``, which they were checked against, are no longer in force when their turn comes.
        """
        answers: asyncio.Future[Sequence[WriteResult]] = asyncio.get_running_loop().create_future()

        def tell(told: Sequence[WriteResult] | Exception) -> None:
            if answers.done():
                return  # Whoever asked has gone away.
            if isinstance(told, Exception):
                answers.set_exception(told)
            else:
                answers.set_result(told)

        self.hand_in(facts, tell, boards=boards)
        return await answers

    def hand_in(
        self, facts: Sequence[Fact], tell: HandedIn, *, boards: Sequence[Board] = ()
    ) -> None:
        """Do the same as ``put``, with a callback.

        Raises Overloaded and LedgerUnavailable at once; then the callback is not called.
        """
        self._refuse_if_stopped()
        if self._waiting_facts + len(facts) > self._waiting_max:
            raise Overloaded(waiting_max=self._waiting_max)
        if current_origin.get() is not None:
            facts = with_origin(facts)
        self._waiting.append(PendingWrite(facts, boards, tell))
        self._waiting_facts += len(facts)
        if len(self._waiting) == 1:
            self._rouse()

    def _rouse(self) -> None:
        """Wake the tasks that wait for requests."""
        self._wake.set()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Hold the writer between two batches, exclusively.

        Raises LedgerUnavailable rather than wait behind a write to a lost ledger.
        """
        self._refuse_if_stopped()  # The turn may be that of an attempt to open the ledger anew.
        await self._come()
        try:
            self._refuse_if_stopped()
            yield
        finally:
            self._turn.release()

    @property
    def standstill(self) -> AbstractAsyncContextManager[None]:
        """The writer between two batches, also of an writer that takes nothing any more.

        The projector is at the end of an append then, and ``link`` and ``receipts`` belong to it.
        """
        return self._turn

    async def _come(self) -> None:
        """Acquire the turn."""
        await self._turn.acquire()

    def _refuse_if_stopped(self) -> None:
        if self._closing:
            raise LedgerUnavailable("the engine has stopped; open it anew", applied="no")
        if self.failure is not None:
            raise self._refusal() from self.failure

    def _refusal(self) -> LedgerUnavailable:
        what = "has stopped; open it anew" if self.stopped.is_set() else "waits for its ledger"
        return LedgerUnavailable(f"the engine {what}: {self.failure}", applied="no")

    # -------------------------------------------------------------------------- writer

    async def run(self) -> None:
        """Serve until closed, then until nothing waits any more."""
        await self._write()

    async def _write(self) -> None:
        while not (self._closing and not self._waiting):
            if not self._waiting:
                self._wake.clear()
                await self._rest()
                await self._wake.wait()
                continue
            async with self._turn:
                with self._taken() as requests:
                    if requests:
                        await self._serve(requests)
        while self._untold:
            self._tell_some()

    async def _rest(self) -> None:
        """Free the memory of dropped rankings while no fact waits: no apply may follow."""
        index = self.projector.index
        while index.immediate and not (self._waiting or self._closing or self.failure):
            with self._reading:
                left = index.free_dropped()
            if not left:
                break
            await asyncio.sleep(0)

    @contextmanager
    def _taken(self) -> Iterator[Sequence[PendingWrite]]:
        """Take the waiting requests. Their callers are refused if the loop that took them fails."""
        requests = self._gather()
        try:
            yield requests
        except Exception as exc:
            self._refuse(requests, _broken(exc))
            raise

    async def finish(self) -> None:
        """Refuse the requests that are left, if the writer failed to the last."""
        stopped = LedgerUnavailable("the engine has stopped", applied="no")
        while requests := self._gather():
            self._refuse(requests, stopped)

    def close(self) -> None:
        """Accept no more requests; the waiting ones are still served."""
        self._closing = True
        self._wake.set()

    def _gather(self) -> list[PendingWrite]:
        """Take waiting requests, oldest first, up to a batch; a request is never split."""
        count = facts = 0
        for request in self._waiting:
            if count and facts + len(request.facts) > self._batch_max:
                break
            count, facts = count + 1, facts + len(request.facts)
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        self._waiting_facts -= facts
        return taken

    async def _serve(self, requests: Sequence[PendingWrite]) -> None:
        if self.failure is not None:
            self._refuse(requests, self._refusal())
            return
        requests = await self._within_bounds(self._current(requests))
        facts: list[Fact] = [fact for request in requests for fact in request.facts]
        try:
            answers = await self.record(self._ready(facts))
        except RankdError as exc:
            await self._turn_away(requests, exc)
            return
        told, start = [], 0
        for request in requests:
            end = start + len(request.facts)
            alone = end - start == 1
            told.append((request, [answers[start]] if alone else answers[start:end]))
            start = end
        self._tell(told)

    def _refuse(self, requests: Iterable[PendingWrite], error: Exception) -> None:
        self._tell((request, error) for request in requests)

    def _tell(self, told: Iterable[tuple[PendingWrite, Sequence[WriteResult] | Exception]]) -> None:
        """Have callers told, behind those before them."""
        all_told = not self._untold
        self._untold.extend(told)
        if all_told:
            self._tell_some()

    def _tell_some(self) -> None:
        """Deliver the first results, and the others in the next iterations of the loop."""
        untold = self._untold
        for _ in range(min(len(untold), TOLD_TOGETHER_MAX)):
            _tell(*untold.popleft())
        if untold:
            asyncio.get_running_loop().call_soon(self._tell_some)

    async def _turn_away(self, requests: Sequence[PendingWrite], error: RankdError) -> None:
        """Say why nothing was appended."""
        self._refuse(requests, error)

    def _ready(self, facts: Sequence[Fact]) -> Sequence[Fact]:
        """Return facts as they are appended."""
        return facts

    def _current(self, requests: Sequence[PendingWrite]) -> list[PendingWrite]:
        """Send those back whose board is another one now."""
        current = []
        for request in requests:
            if all(map(self._in_force, request.boards)):
                current.append(request)
            else:
                self._refuse([request], DefinitionChanged())
        return current

    async def _within_bounds(self, requests: Sequence[PendingWrite]) -> Sequence[PendingWrite]:
        """Refuse those that bring a segment more values than it may have."""
        if not any(map(_may_bring_values, requests)):
            return requests
        projector, within = self.projector, []
        bringing = await self._segment_values.begin(projector.state, projector.index)
        for request in requests:
            if bringing.brings_nothing(request.facts):
                within.append(request)
                continue
            try:
                await bringing.check(request.facts)
            except TooManySegmentValues as exc:
                self._refuse([request], exc)
            else:
                within.append(request)
        return within

    async def check_values(self, facts: Sequence[Fact]) -> None:
        """Make sure that facts may be recorded. Only in its turn. Raises TooManySegmentValues."""
        projector = self.projector
        bringing = await self._segment_values.begin(projector.state, projector.index)
        await bringing.check(facts)

    def _in_force(self, board: Board) -> bool:
        page = self.projector.state.boards.get(board.name)
        return page is not None and page.terms.board is board

    # ------------------------------------------------------------------------ recording

    def now(self) -> Instant:
        """Return the ledger's time: the clock's, unless that has gone back."""
        if (corrections := len(self.projector.state.wrong_times)) != self._corrections:
            # What was worked out by the wrong time is worked out again.
            self._at, self._turn_at, self._schedule = 0, 0, Schedule()
            self._corrections = corrections
        return max(self._clock.now(), self.projector.at, self._at)

    async def record(
        self, facts: Sequence[Fact], *, now: Instant | None = None
    ) -> Sequence[WriteResult]:
        """Append and fold facts, behind the turns of windows that are due. Only in its turn.

        A ledger that fails has the writer wait until it is open again, and a fold that fails stops
        it for good; but a ledger that is shared goes on by itself when it can.
        """
        answers = await self._guarded(facts, self.now() if now is None else now, after=None)
        assert answers is not None, "nothing was insisted on"
        return answers

    async def record_after(
        self, facts: Sequence[Fact], *, now: Instant, after: Position
    ) -> Sequence[WriteResult] | None:
        """Do the same as ``record`` if that is still the head.

        None if others appended meanwhile.
        """
        return await self._guarded(facts, now, after=after)

    async def catch_up_others(self, through: Position | None = None) -> None:
        """Fold the facts of other nodes, up to the head or a position. The writer must be held."""

    async def see_others(self) -> None:
        """Do the same, when the turn comes."""

    def known_profiles(self) -> tuple[Position, PlayersWithNews]:
        """Return the checkpoint, and a comparison of facts with the profiles there."""
        return self.projector.checkpoint, self.projector.state.players_with_news

    async def _guarded(
        self, facts: Sequence[Fact], now: Instant, *, after: Position | None
    ) -> Sequence[WriteResult] | None:
        try:
            turns = self._due_turns(now)
            if current_origin.get() is not None:
                facts = with_origin(facts)
            batch = [*turns, *facts] if turns else facts
            return await self._record(batch, now, skipped=len(turns), after=after)
        except BaseException as exc:
            if self._passes(exc):
                raise
            failure = exc if isinstance(exc, RankdError) else _broken(exc)
            if failure is not self.failure:  # Otherwise the ledger is waited for.
                self.stop(failure)
            if isinstance(exc, RankdError):
                raise
            raise failure from exc

    def _passes(self, _error: BaseException) -> bool:
        """Whether the writer goes on after an error of an append, without anything being done."""
        return False

    # ------------------------------------------------------------------- a ledger that fails

    def pause(self, failure: RankdError) -> None:
        """Take nothing until ``reopen`` succeeds."""
        if self.failure is None:
            _log.error("no fact is taken until the ledger is open again: %s", failure)
        self._note(failure)

    def stop(self, failure: RankdError) -> None:
        """Take nothing any more."""
        if not self.stopped.is_set():
            _log.critical("no fact is taken any more; start anew: %s", failure)
        self._note(failure)
        self.stopped.set()

    def _note(self, failure: RankdError | None) -> None:
        self.failure = failure
        self.projector.state.revision += 1  # Answers say from now on whether they are stale.

    async def reopen(self, ledger: ReopenableLedger) -> None:
        """Go on with a ledger that failed, and fold the append of unknown outcome if it is there.

        Raises LedgerUnavailable while it cannot be opened. Any other error stops the writer for
        good, as does a fold that fails.
        """
        async with self._turn:
            try:
                await ledger.reopen()
            except LedgerUnavailable:
                raise
            except RankdError as exc:
                self.stop(exc)
                raise
            try:
                await self._resume()
            except BaseException as exc:
                self.stop(_broken(exc))
                raise

    async def _resume(self) -> None:
        head = await self._ledger.head()
        with self._reading:
            await self.projector.catch_up(through=head, collect=self.receipts.add)
        self.link = await self._ledger.link_at(head) or b""
        self._look_ahead(self.now())
        self._note(None)
        _log.warning("facts are taken again; the ledger is open at %d", head)

    async def _record(
        self, batch: Sequence[Fact], now: Instant, *, skipped: int, after: Position | None
    ) -> Sequence[WriteResult] | None:
        sent = self.receipts.outgoing()
        if not batch and not sent:
            self._look_ahead(now, boards=())
            return []
        appended = await self._append(batch, self._appended_at(now), sent, after)
        if appended is None:
            return None
        self.commits += 1
        self._at = appended.at
        try:
            receipts = await self._fold(_recorded(batch, appended), appended)
        except LedgerUnavailable as exc:  # Out of a read: it does not know what is appended.
            raise _broken(exc) from exc
        self.link = appended.link
        now = max(now, appended.at)
        boards = _changed_boards(batch)
        if boards or now >= self._turn_at or _sets_states(batch):
            self._look_ahead(now, boards=boards)
            self._wake.set()  # Rankings may be dropped: see `_rest`.
        answers: Sequence[WriteResult]
        if not appended.first_uses:
            answers = WriteResults(appended.positions[skipped:], receipts)
        else:
            erased = self.projector.state.erased
            found = _Answers(receipts, self.receipts, erased)
            uses = appended.first_uses
            answers = [
                found.of(batch[place], appended.positions[place], uses.get(place))
                for place in range(skipped, len(batch))
            ]
        self.receipts.stored([position for position, _ in sent])
        return self._completed(answers, batch[skipped:])

    async def _append(
        self,
        batch: Sequence[Fact],
        now: Instant,
        receipts: Sequence[StoredReceipt],
        after: Position | None,
    ) -> Appended | None:
        append = self._ledger.append(batch, now=now, receipts=receipts, after=after)
        if not isinstance(self._ledger, ReopenableLedger):
            return await append
        try:
            return await self._answered(append)
        except LedgerUnavailable as exc:
            self.pause(exc)
            raise

    async def _answered(self, append: Coroutine[Any, Any, Appended | None]) -> Appended | None:
        """Wait for an append. Raises LedgerUnavailable once the disk has been silent too long.

        The append goes on: whether it is done is found when the ledger is opened anew behind it.
        """
        if (seconds := self._silence_seconds) is None:
            return await append
        appending = asyncio.ensure_future(append)
        try:
            for _ in range(SILENCE_PARTS):
                if (await asyncio.wait({appending}, timeout=seconds / SILENCE_PARTS))[0]:
                    return appending.result()
        except asyncio.CancelledError:
            appending.cancel()
            raise
        appending.add_done_callback(_retrieve)
        problem = f"the disk has not answered for {seconds:g} s"
        raise LedgerUnavailable(problem, applied="unknown")

    def _appended_at(self, now: Instant) -> Instant:
        """Return the time for an append."""
        return now

    def _completed(
        self, answers: Sequence[WriteResult], _facts: Sequence[Fact]
    ) -> Sequence[WriteResult]:
        """Return the answers to facts with all that is known of them."""
        return answers

    async def _fold(self, recorded: Sequence[Recorded], _appended: Appended) -> Receipts:
        """Fold the new facts of an append."""
        if not recorded:
            return {}
        # Readers of other threads wait for each part; an index in memory never does.
        receipts = await self.projector.fold(recorded, reading=self._reading)
        self.receipts.add(keyed(recorded, receipts))
        return receipts

    def _due_turns(self, now: Instant) -> Sequence[Fact]:
        if now < self._turn_at:
            return ()
        return self._schedule.due(self.projector.state, now, self._clock.lasted())

    def _look_ahead(self, now: Instant, *, boards: Iterable[str] | None = None) -> None:
        """Work out when the next window turns, after facts about these boards, or about any."""
        lasted = self._clock.lasted()
        self._turn_at = self._schedule.next(self.projector.state, now, lasted, boards)


def _may_bring_values(request: PendingWrite) -> bool:
    """Whether facts may place a player in a segment."""
    return any(board.segments for board in request.boards) or any(
        getattr(fact, "attributes", None) for fact in request.facts
    )


def _recorded(batch: Sequence[Fact], appended: Appended) -> list[Recorded]:
    """Return the facts of a batch that are new in the ledger."""
    at, first_uses = appended.at, appended.first_uses
    return [
        Recorded(position, at, fact)
        for place, (position, fact) in enumerate(zip(appended.positions, batch, strict=True))
        if place not in first_uses
    ]


def _changed_boards(batch: Sequence[Fact]) -> set[str]:
    """Return the boards whose windows or definitions the facts may change."""
    return {
        fact.board for fact in batch if type(fact) is not ScoreSubmitted and hasattr(fact, "board")
    }


def _sets_states(batch: Sequence[Fact]) -> bool:
    """Whether a fact may change when the state of a player ends."""
    return any(type(fact) is PlayerStateSet for fact in batch)


def _retrieve(done: "asyncio.Future[Any]") -> None:
    """Retrieve the error of an append that is not waited for, so that asyncio does not log it."""
    if not done.cancelled():
        done.exception()


def _broken(error: BaseException) -> RankdError:
    return LedgerUnavailable(f"the engine failed: {error!r}", applied="unknown")


class _Answers:
    """The results of facts, some of them recorded earlier."""

    def __init__(
        self, fresh: Receipts, buffer: ReceiptBuffer, erased: Mapping[str, Position]
    ) -> None:
        self._fresh = fresh
        self._buffer = buffer
        self._erased = erased

    def of(self, fact: Fact, position: Position, first: FirstUse | None) -> WriteResult:
        """Return the result of a fact, or of its first use."""
        if first is None or not is_submission(fact):
            return WriteResult(position, self._fresh.get(position), duplicate=first is not None)
        assert fact.key is not None
        if first.fingerprint not in self._fingerprints(fact, first):
            reused = SubmissionKeyReused(board=fact.board, key=fact.key)
            return WriteResult(position, None, error=reused)
        return WriteResult(position, self._first(first), duplicate=True)

    def _fingerprints(self, fact: ScoreSubmitted, first: FirstUse) -> Sequence[bytes]:
        """Return the fingerprints that a first use of the same body may have."""
        if first.position > self._erased.get(fact.player, 0):
            return fact.fingerprints()
        return (*fact.fingerprints(), fact.redacted().fingerprint())

    def _first(self, use: FirstUse) -> Receipt | None:
        found = self._fresh.get(use.position)
        if found is None:
            stored = use.receipt or self._buffer.find(use.position)
            found = None if stored is None else Receipt.decode(stored)
        return None if found is None else msgspec.structs.replace(found, duplicate=True)


def _tell(request: PendingWrite, told: Sequence[WriteResult] | Exception) -> None:
    """Tell a caller. A mistake of one must not end the writer of all."""
    try:
        request.tell(told)
    except Exception:
        _log.exception("a caller could not be told what became of its facts")
