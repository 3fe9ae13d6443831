"""The fold of a node whose index is shared and across a network.

There are two books. The one that everybody asks is at the position the node has read the ledger to:
it needs no index, so it goes on when the index cannot be reached, and windows turn on time. The
other one, behind it, is where the index is: what a fact means for the index depends on the boards
and players of *its* moment.

Every node may fold everything, and of those who try one is first. A node folds what it appended
itself, at once, and so gets its receipts; what others appended it leaves to them for a moment.
Where the index is past a fact already, the fact is only noted.

Whatever goes wrong, there is one way back: the book behind is made again from the ledger, up to
where the index says it is, and folding goes on from there. So an index that was emptied, or fell
back to an older copy of itself, is filled again by whoever notices first.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import ClassVar, NamedTuple, NoReturn

from rankd.core.book import Book
from rankd.core.fold import Batch, Receipts, counts_on
from rankd.core.projector import FACTS_TOGETHER_MAX, Projector, Tell, keyed
from rankd.errors import IndexForgot, IndexUnavailable, LedgerUnavailable
from rankd.model.facts import Position, Recorded, ScoreSubmitted
from rankd.ports import LedgerReader, Progress, RankIndex, SharedIndex

PATIENCE_SECONDS = 0.1
"""How long the node that appended facts has to fold them before another does."""

_log = logging.getLogger(__name__)

LOOK_SECONDS = 0.002
"""How often to look whether it has."""


class _Left(NamedTuple):
    """An apply that was begun, and nobody knows what it came to."""

    begun: Batch
    after: Position
    through: Recorded


class OutOfReach:
    """Stands for an index that cannot be reached: nobody waits to hear so again."""

    immediate: ClassVar[bool] = False
    judges: ClassVar[bool] = False
    shared: ClassVar[bool] = True

    def __init__(self, problem: str) -> None:
        self._problem = problem

    def __getattr__(self, _name: str) -> Callable[..., Awaitable[NoReturn]]:
        async def refuse(*_args: object, **_named: object) -> NoReturn:
            raise IndexUnavailable(self._problem)

        return refuse


class Joint(Projector):
    """A projector over an index that other nodes fold into, too."""

    def __init__(
        self, *, ledger: LedgerReader, index: SharedIndex, spare: RankIndex | None = None
    ) -> None:
        super().__init__(ledger=ledger, index=index, book=Book())
        self.shared = index
        self.spare = None if spare is None else Projector(ledger=ledger, index=spare, book=Book())
        """A copy of one's own, to read from while the index cannot be reached."""
        self.failure: IndexUnavailable | None = None
        """Why the index is behind the ledger, while that is so."""
        self.late: dict[Position, bytes] = {}
        """Receipts that came too late for whoever waited, of submissions with a key."""
        self.patience_seconds = 0.0
        self._behind: Projector | None = None
        """With the book behind; None while it is to be made again."""
        self._left: _Left | None = None
        self._floor = Position(0)

    async def fold(self, facts: Sequence[Recorded]) -> Receipts:
        """Note facts that follow those before and, if the index can be reached, fold them.

        Receipts are missing where it cannot, or where another node was quicker and forgot. While
        it is known that it cannot, nobody waits to hear so again: see ``mend``.
        """
        await self._note(facts)
        return await self._tried(facts)

    async def _tried(self, facts: Sequence[Recorded]) -> Receipts:
        if self.failure is not None:
            return {}
        try:
            return await self._fold_behind(facts)
        except IndexUnavailable as exc:
            self._fail(exc)
            return {}
        finally:
            self._tell_those_who_wait()

    def _fail(self, failure: IndexUnavailable | None) -> None:
        if failure is not None and self.failure is None:
            _log.warning("the index is out of reach: %s", failure)
        if (failure is None) != (self.failure is None):
            self.book.revision += 1  # Answers say from now on that they are stale, or no longer.
        self.failure = failure
        if failure is None:
            self.readable = self.shared
        elif self.spare is not None:
            self.readable = self.spare.index
        else:
            self.readable = OutOfReach(failure.problem)  # type: ignore[assignment]

    @property
    def floor(self) -> Position:
        """Where the index was once, as far as this node saw; less than that, and it fell back."""
        return self._floor

    @property
    def shown_to(self) -> Position:
        """Up to where both the book and the index are."""
        return min(self.checkpoint, self._floor) if self.failure is None else self._floor

    async def vouch(self, as_of: Position | None, floor: Position) -> None:
        """Raise IndexUnavailable for the answer of an index that has lost what it had."""
        if self.readable is not self.shared:
            return
        if as_of is None:
            as_of = await self.shared.checkpoint()
        if as_of < floor:
            self._fail(_fallen(floor, as_of))
            raise _fallen(floor, as_of)

    async def catch_up(
        self,
        *,
        through: Position,
        tell: Tell = lambda _: None,
        receipts_after: Position = Position(0),  # noqa: B008 - it is a number
        receipts: dict[Position, bytes] | None = None,
    ) -> None:
        """Read what others appended, and see that somebody folds it."""
        while self.checkpoint < through:
            limit = min(FACTS_TOGETHER_MAX, through - self.checkpoint)
            facts = await self._read(self.checkpoint, limit, through)
            if not facts:
                break
            await self._note(facts)
            await self._wait_for_others(facts[-1].position)
            told = await self._tried(facts)
            if receipts is not None:
                receipts.update(keyed(facts, told, after=receipts_after))
            tell(Progress(self.checkpoint, through, "folding"))

    async def lost(self) -> bool:
        """Whether the index answers and is behind, or could not be reached and now answers.

        Raises IndexUnavailable while it does not.
        """
        floor = self._floor
        try:
            position = await self.shared.checkpoint()
        except IndexUnavailable as exc:
            self._fail(exc)
            raise
        if position < floor:
            self._fail(_fallen(floor, position))
        return self.failure is not None

    async def mend(self, facts_max: int) -> bool:
        """Fold so many facts into an index that is behind; True once it is not.

        Raises IndexUnavailable.
        """
        try:
            if (
                self._behind is not None
                and await self.shared.checkpoint() < self._behind.checkpoint
            ):
                self._behind = None  # It was emptied, or fell back to an older copy of itself.
            behind = await self._restored()
            through = min(self.checkpoint, Position(behind.checkpoint + facts_max))
            await self._catch_up_behind(behind, through)
        except IndexUnavailable as exc:
            self._fail(exc)
            raise
        if behind.checkpoint < self.checkpoint:
            return False
        self._fail(None)
        self._tell_those_who_wait()
        return True

    async def replace(self, other: SharedIndex) -> None:
        """Let an index that was filled beside live instead. Only in the writer's turn."""
        await other.take_over(of=self.shared)
        self._behind = None

    async def _note(self, facts: Sequence[Recorded]) -> None:
        note_all(self.book, facts)
        self.checkpoint, self.at = facts[-1].position, facts[-1].at
        if self.spare is not None:
            with suppress(LedgerUnavailable):  # It goes on from where it is another time.
                await self.spare.catch_up_with(facts)

    async def _read(self, after: Position, limit: int, through: Position) -> Sequence[Recorded]:
        facts = await self._ledger.read(after=after, limit=limit)
        return [recorded for recorded in facts if recorded.position <= through]

    async def _wait_for_others(self, position: Position) -> None:
        """Leave what others appended to them, for a moment."""
        waited = 0.0
        with suppress(IndexUnavailable):  # Whoever folds will hear of it.
            while (
                self.failure is None
                and waited < self.patience_seconds
                and await self.shared.checkpoint() < position
            ):
                await asyncio.sleep(LOOK_SECONDS)
                waited += LOOK_SECONDS

    # -------------------------------------------------------------------- what is behind

    async def _fold_behind(self, facts: Sequence[Recorded]) -> Receipts:
        behind = await self._restored()
        await self._catch_up_behind(behind, Position(facts[0].position - 1))
        coming = [recorded for recorded in facts if recorded.position > behind.checkpoint]
        return await self._take_all(behind, coming)

    async def _catch_up_behind(self, behind: Projector, through: Position) -> None:
        while behind.checkpoint < through:
            facts = await self._read(behind.checkpoint, FACTS_TOGETHER_MAX, through)
            if not facts:
                break
            self.late |= keyed(facts, await self._take_all(behind, facts))

    async def _take_all(self, behind: Projector, facts: Sequence[Recorded]) -> Receipts:
        receipts: Receipts = {}
        for part in behind.parted(facts):
            receipts.update(await self._take(behind, part.facts))
        return receipts

    async def _take(self, behind: Projector, facts: Sequence[Recorded]) -> Receipts:
        """Fold facts into the index, or note them where it is past them."""
        after = behind.checkpoint
        try:
            entries = await behind.entries_of(facts, after=after)
        except IndexForgot as exc:
            return await self._pass_over(behind, facts, Position(exc.checkpoint))
        try:
            begun = await behind.begin(facts, entries, after=after)
        except IndexForgot as exc:
            self._behind = None
            raise IndexUnavailable("the index moved on while it was asked") from exc
        except BaseException:
            self._behind = None  # Some of it is noted, and some is not.
            raise
        self._left = _Left(begun, after, facts[-1])
        return await self._finish(behind)

    async def _pass_over(
        self, behind: Projector, facts: Sequence[Recorded], position: Position
    ) -> Receipts:
        """Note what the index is past, and fold the rest."""
        if position <= behind.checkpoint:
            here, self._behind = behind.checkpoint, None
            raise IndexUnavailable(f"the index is at {position} and not at {here}; it is filled")
        past = [recorded for recorded in facts if recorded.position <= position]
        note_all(behind.book, past)
        self._reach_behind(behind, past[-1])
        rest = facts[len(past) :]
        return await self._take(behind, rest) if rest else {}

    async def _finish(self, behind: Projector) -> Receipts:
        """Have the index take what was begun, perhaps for the second time."""
        assert self._left is not None
        begun, after, last = self._left
        receipts = await behind.apply(begun, after=after, through=last.position)
        self._left = None
        if receipts is None and await self.shared.checkpoint() < last.position:
            self._behind = None
            raise IndexUnavailable(f"the index is not at {after} any more; it is looked at again")
        self._reach_behind(behind, last)
        return receipts or {}

    def _reach_behind(self, behind: Projector, last: Recorded) -> None:
        behind.checkpoint, behind.at = last.position, last.at
        self._floor = max(self._floor, last.position)

    async def _restored(self) -> Projector:
        """Return what is behind, with nothing left undone."""
        if self._behind is None:
            self._left = None
            self._behind = await self._made_again()
            await self._complete(self._behind)
        if self._left is not None:
            begun = self._left.begun
            told = await self._finish(self._behind)
            self.late |= {
                judged.position: told[judged.position].encode()
                for judged in begun.judged
                if judged.fact.key is not None and judged.position in told
            }
        return self._behind

    async def _made_again(self) -> Projector:
        """Make the book as it was where the index is."""
        position = await self.shared.checkpoint()
        if position > await self._ledger.head():  # It is of another ledger, or of one since lost.
            other = await self.shared.beside()
            await other.take_over(of=self.shared)
            position, self._floor = await self.shared.checkpoint(), Position(0)
        behind = Projector(ledger=self._ledger, index=self.shared, book=Book())
        behind.drafts = self.drafts
        while behind.checkpoint < position:
            facts = await self._read(behind.checkpoint, FACTS_TOGETHER_MAX, position)
            if not facts:
                break
            note_all(behind.book, facts)
            behind.checkpoint, behind.at = facts[-1].position, facts[-1].at
        self._floor = max(self._floor, behind.checkpoint)
        return behind

    async def _complete(self, behind: Projector) -> None:
        """Make an apply again that somebody began and did not end: till then no other is taken."""
        unfinished = await self.shared.unfinished()
        if unfinished is None:
            return
        _, through = unfinished
        count = through - behind.checkpoint
        if count > 0:
            facts = await self._read(behind.checkpoint, count, through)
            self.late |= keyed(facts, await self._take(behind, facts))


def _fallen(floor: Position, position: Position) -> IndexUnavailable:
    return IndexUnavailable(f"the index fell back from {floor} to {position}; it is filled again")


def note_all(book: Book, facts: Sequence[Recorded]) -> None:
    """Note facts in a book as folding them does, without an index."""
    for recorded in facts:
        fact = recorded.fact
        if not isinstance(fact, ScoreSubmitted):
            book.note(recorded)
        elif fact.attributes and counts_on(book.boards.get(fact.board), fact):
            book.note_attributes(fact.player, fact.attributes)
