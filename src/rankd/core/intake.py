"""The way in: many callers, one writer, one commit for all that has gathered.

Callers put their facts in a bounded queue and wait. One task, which belongs to nobody's request,
takes everything that is there, appends it as one, has it folded, and answers each. While a commit
is on its way to the disk the next batch gathers, so the busier it gets the more share a commit.

A caller that goes away takes nothing with it: its facts are appended and folded all the same, and
a retry with the same key gets the answer it did not wait for.

When the ledger fails the intake stops for good. Whether the last commit is on the disk can only be
told by opening the ledger anew; until then every further call is refused with a certain ``no``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rankd.core.book import BoardPage, Book
from rankd.errors import LedgerUnavailable, Overloaded, RankdError, SubmissionKeyReused
from rankd.model.facts import (
    Fact,
    Position,
    Recorded,
    ScoreSubmitted,
    WindowOpened,
    WindowSealed,
    fingerprint,
)
from rankd.model.receipt import Receipt
from rankd.model.window import Instant
from rankd.ports import Appended, Clock, FirstUse, Kept, Ledger

WAITING_FACTS_MAX = 65_536
"""What may wait: some tens of milliseconds of work. More would only wait longer."""

BATCH_FACTS_MAX = 8_192
"""What shares one commit: enough to make the disk's part small, few enough to answer soon."""

NEVER: Instant = 2**63 - 1

Fold = Callable[..., Awaitable[Mapping[Position, Receipt]]]


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one fact."""

    position: Position
    receipt: Receipt | None
    """Only submissions have one."""
    duplicate: bool = False
    error: RankdError | None = None


@dataclass(slots=True)
class _Request:
    facts: Sequence[Fact]
    answers: "asyncio.Future[list[Answer]]"


@dataclass(slots=True)
class Intake:
    """Takes facts from many callers and hands them to the ledger and the fold, in one order."""

    ledger: Ledger
    fold: Fold
    book: Book
    clock: Clock
    checkpoint: Position
    owed: dict[Position, bytes] = field(default_factory=dict)
    """Receipts of submissions with a key that the ledger does not keep yet."""
    waiting_max: int = WAITING_FACTS_MAX
    batch_max: int = BATCH_FACTS_MAX
    last_at: Instant = 0
    _turn_at: Instant = 0
    """When the next window closes or opens: until then nobody need look."""
    _waiting: list[_Request] = field(default_factory=list)
    _waiting_facts: int = 0
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _closing: bool = False
    _failure: RankdError | None = None

    async def put(self, facts: Sequence[Fact]) -> list[Answer]:
        """Have facts recorded and folded; return what became of each, in order.

        Raises Overloaded at once when too many are waiting, and LedgerUnavailable.
        """
        if self._failure is not None or self._closing:
            raise LedgerUnavailable("the engine has stopped; open it anew", applied="no")
        if self._waiting_facts + len(facts) > self.waiting_max:
            raise Overloaded(waiting_max=self.waiting_max)
        answers: asyncio.Future[list[Answer]] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Request(facts, answers))
        self._waiting_facts += len(facts)
        self._wake.set()
        return await asyncio.shield(answers)

    async def run(self) -> None:
        """Serve until closed, then until nothing waits any more."""
        while not (self._closing and not self._waiting):
            if not self._waiting:
                self._wake.clear()
                await self._wake.wait()
                continue
            await self._serve(self._gather())

    def close(self) -> None:
        """Take nothing more; what waits is still served."""
        self._closing = True
        self._wake.set()

    def _gather(self) -> list[_Request]:
        """Take what waits, oldest first, up to a batch; a request is never parted."""
        count = facts = 0
        for request in self._waiting:
            if count and facts + len(request.facts) > self.batch_max:
                break
            count, facts = count + 1, facts + len(request.facts)
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        self._waiting_facts -= facts
        return taken

    async def _serve(self, requests: Sequence[_Request]) -> None:
        if self._failure is not None:
            _refuse(requests, LedgerUnavailable("the engine has stopped", applied="no"))
            return
        try:
            answers = iter(await self.record([f for r in requests for f in r.facts]))
        except RankdError as exc:
            self._failure = exc
            _refuse(requests, exc)
            return
        for request in requests:
            own = [next(answers) for _ in request.facts]
            if not request.answers.done():
                request.answers.set_result(own)

    async def record(self, facts: Sequence[Fact]) -> list[Answer]:
        """Append and fold facts, behind the turns of windows that are due."""
        now = max(self.clock.now(), self.last_at)
        turns = due_turns(self.book, now) if now >= self._turn_at else []
        batch = [*turns, *facts]
        owed = self.owed
        handed_in = [Kept(position, receipt) for position, receipt in owed.items()]
        appended = await self.ledger.append(batch, now=now, receipts=handed_in)
        self.owed = {}
        receipts = await self._fold(batch, appended)
        found = _Receipts(receipts, owed)
        return [
            _answer(fact, appended.positions[number], appended.first_uses.get(number), found)
            for number, fact in enumerate(batch)
            if number >= len(turns)
        ]

    async def _fold(self, batch: Sequence[Fact], appended: Appended) -> Mapping[Position, Receipt]:
        recorded = [
            Recorded(position, appended.at, fact)
            for number, (position, fact) in enumerate(zip(appended.positions, batch, strict=True))
            if number not in appended.first_uses
        ]
        if not recorded:
            return {}
        receipts = await self.fold(recorded, after=self.checkpoint)
        self.checkpoint, self.last_at = recorded[-1].position, appended.at
        if not all(isinstance(one.fact, ScoreSubmitted) for one in recorded):
            self._turn_at = next_turn(self.book, appended.at)
        for one in recorded:
            if isinstance(one.fact, ScoreSubmitted) and one.fact.key is not None:
                self.owed[one.position] = receipts[one.position].encode()
        return receipts


class _Receipts(NamedTuple):
    """Where the answer to a submission may be, if the ledger did not have it."""

    fresh: Mapping[Position, Receipt]
    handed_in: Mapping[Position, bytes]

    def find(self, first: FirstUse) -> Receipt | None:
        if (fresh := self.fresh.get(first.position)) is not None:
            return fresh
        kept = first.receipt or self.handed_in.get(first.position)
        return None if kept is None else Receipt.decode(kept)


def _answer(fact: Fact, position: Position, first: FirstUse | None, receipts: _Receipts) -> Answer:
    if first is None or not isinstance(fact, ScoreSubmitted):
        return Answer(position, receipts.fresh.get(position), duplicate=first is not None)
    assert fact.key is not None
    if first.fingerprint != fingerprint(fact):
        return Answer(position, None, error=SubmissionKeyReused(board=fact.board, key=fact.key))
    return Answer(position, receipts.find(first), duplicate=True)


def _refuse(requests: Sequence[_Request], error: RankdError) -> None:
    for request in requests:
        if not request.answers.done():
            request.answers.set_exception(error)


# ----------------------------------------------------------------------------- windows


def opening_facts(page: BoardPage, now: Instant) -> list[Fact]:
    """Return the facts that open what should be open and is not."""
    facts: list[Fact] = []
    for recurrence in page.board.windows:
        window = recurrence.window_at(now)
        open_now = page.windows.get(recurrence.name)
        if window is None or (open_now is not None and not _over(open_now.end, now)):
            continue
        if window.id not in page.sealed:
            facts.append(WindowOpened(page.board.name, window.id, window.start, window.end))
    return facts


def due_turns(book: Book, now: Instant) -> list[Fact]:
    """Return the facts that close windows whose time is over and open those whose time has come."""
    facts: list[Fact] = []
    for page in book.boards.values():
        facts += [WindowSealed(page.board.name, window.id) for window in page.recurrence_ends(now)]
        facts += opening_facts(page, now)
    return facts


def _over(end: Instant | None, now: Instant) -> bool:
    return end is not None and end <= now


def next_turn(book: Book, now: Instant) -> Instant:
    """Return when the next window of any board closes or opens."""
    turns = [NEVER]
    for page in book.boards.values():
        for recurrence in page.board.windows:
            open_now = page.windows.get(recurrence.name)
            if open_now is None:
                coming = recurrence.next_opening(now)
                turns.append(NEVER if coming is None or coming.start is None else coming.start)
            elif open_now.end is not None:
                turns.append(open_now.end)
    return min(turns)
