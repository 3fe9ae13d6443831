"""The fold of a node whose index is shared and across a network.

There are two states. The one for readers is at the position up to which the node has read the
ledger: it needs no index, so it advances while the index is unreachable, and windows roll over on
time. The other one, behind it, is at the checkpoint of the index: the effect of a fact on the index
depends on the boards and players of *its* position.

Every node may fold every fact, and one is first. A node folds its own facts at once, and so gets
their receipts; the facts of others it leaves to them for a moment. The second one learns the steps
of the first, repeats the same applies, and gets the same results: so colliding nodes lose nothing
but a call or two. Only where the index remembers a step no longer are its facts noted without a
receipt.

There is one way to recover from every fault: the state behind is rebuilt from the ledger, up to the
checkpoint of the index, and folding goes on from there. So an index that was emptied, or fell back
to an older copy of itself, is filled again by the first node to notice.

A node that starts reads on from the newest copy of the state. Without one it reads every fact from
the first on, only to know boards, windows and players. A copy is believed if it is whole and the
ledger's hash chain at its position is the one that was noted with it; any other is told and left
aside: the ledger has everything.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from hashlib import blake2b
from typing import Any, ClassVar, NamedTuple, NoReturn

import msgspec

from rankd.core.cluster.fallback_index import FallbackIndex
from rankd.core.fold import counts_on, in_terms_of
from rankd.core.move_batch import MoveBatch
from rankd.core.projector import BEGINNING, FACTS_TOGETHER_MAX, UNREAD, Ask, Projector, Tell, keyed
from rankd.core.receipts import Collect, ReceiptBuffer, Receipts, encoded, joined
from rankd.core.rule_past import learn_past, parts_with_past
from rankd.core.state import Savepoint, State
from rankd.core.state_codec import DecodedState, placeholder, read_notes
from rankd.errors import IndexForgot, IndexUnavailable, LedgerUnavailable, SnapshotDamaged
from rankd.model.facts import (
    Fact,
    Position,
    Recorded,
    WindowPrepared,
    encode,
    is_audited,
    is_submission,
)
from rankd.model.submission import Rejected
from rankd.model.window import Instant
from rankd.ports import (
    Archive,
    LedgerReader,
    Progress,
    Ranked,
    RankIndex,
    Ranking,
    SharedIndex,
    StateSnapshots,
    TopLists,
)

_log = logging.getLogger(__name__)


async def newest_copy(
    copies: StateSnapshots | None, ledger: LedgerReader, *, through: Position
) -> DecodedState:
    """Return the state as of the newest copy up to a position; a blank one if there is none."""
    if copies is None:
        return placeholder()
    for position in await copies.kept():
        if position > through:
            continue
        try:
            return await _believed(copies, ledger, position)
        except SnapshotDamaged as exc:
            _log.warning("a copy of the state cannot be used: %s", exc.problem)
    return placeholder()


async def _believed(
    copies: StateSnapshots, ledger: LedgerReader, position: Position
) -> DecodedState:
    noted = read_notes(await copies.load(position))
    if noted.heading.checkpoint != position:
        raise SnapshotDamaged(f"the copy at {position} is of another position")
    if noted.heading.link != await ledger.link_at(position):
        raise SnapshotDamaged(f"the copy at {position} is of another ledger")
    return noted


PATIENCE_SECONDS = 0.1
"""How long the node that appended facts has to fold them before another does."""

LOOK_SECONDS = 0.002
"""How often to look whether it has."""

FOLDED_IN_FACTS = 20_000
"""Up to so many facts are always folded into the index: that takes a second."""

FACT_FOLDED_IN_MICROSECONDS = 45
FACT_READ_MICROSECONDS = 4
ENTRY_COPIED_MICROSECONDS = 5
"""Measured costs: folding a fact into an index in Redis, reading and folding a fact in this
process, and copying an entry to Redis. Of a node without a copy of its own, which does not know the
entries, each fact counts as one."""

PASSED_FACTS = 2_000
"""So far behind an index, facts of others are applied to the state only: their clients were
answered, and reading entries as of so many applies ago is expensive."""

FOLLOWED_FACTS_MAX = 2 * FACTS_TOGETHER_MAX
"""How many facts of another node's apply are folded again to get its results: more than a node
folds at once. An index that was copied came there in one."""


class _UnknownApply(NamedTuple):
    """An apply with an unknown outcome."""

    begun: MoveBatch
    after: Position
    facts: Sequence[Recorded]
    mark: Savepoint
    """Where the state behind goes back to if it came to nothing."""


class OtherLedger(IndexUnavailable):
    """The index is made from another ledger."""

    def __init__(self) -> None:
        super().__init__(
            "it is the index of another ledger: give this one another prefix, redis://…?prefix=NAME"
        )


class UnreachableIndex:
    """Stands for an index that cannot be reached: its calls fail at once."""

    immediate: ClassVar[bool] = False
    judges: ClassVar[bool] = False
    shared: ClassVar[bool] = True

    def __init__(self, problem: str) -> None:
        self._problem = problem

    def __getattr__(self, _name: str) -> Callable[..., Awaitable[NoReturn]]:
        async def refuse(*_args: object, **_named: object) -> NoReturn:
            raise IndexUnavailable(self._problem)

        return refuse


class SharedProjector(Projector):
    """A projector over an index that other nodes fold into, too."""

    def __init__(
        self,
        *,
        ledger: LedgerReader,
        index: SharedIndex,
        receipts: ReceiptBuffer,
        spare: RankIndex | None = None,
        copies: StateSnapshots | None = None,
        begin: DecodedState | None = None,
    ) -> None:
        begin = begin or placeholder()
        super().__init__(
            ledger=ledger,
            index=index,
            state=begin.state,
            checkpoint=begin.heading.checkpoint,
            at=begin.heading.at,
        )
        self.shared = index
        self._copies = copies
        if spare is not None:
            self.spare = Projector(ledger=ledger, index=spare, state=State())
            self.spare.at_a_stretch = True
        self.spare_waits = False
        """Whether the copy stands still for a while: it is being copied."""
        self.fallback = spare
        self.touched: dict[str | None, Position] = {}
        """Where a fact spoke of each board last, as far as this node read; None stands for facts
        about players, which may concern every segment."""
        self.receipts = receipts
        """Gets those that came too late for their callers."""
        self.patience_seconds = 0.0
        self._behind: Projector | None = None
        """With the state behind; None while it is to be made again."""
        self._left: _UnknownApply | None = None
        self._ahead: Receipts = {}
        """Receipts of facts after those that are being folded: another node took them together."""
        self._floor = Position(0)
        self._origin = ""
        """The id of the ledger; empty as long as it has no fact."""
        self._is_ours = False
        """Whether the index is known to be made from it."""

    async def fallback_moment(self, index: RankIndex, ranking: Ranking) -> Position | None:
        """Return the position at which a fallback index knows a ranking; None for other indexes."""
        return await index.moment(ranking) if isinstance(index, FallbackIndex) else None

    def asker(self, ranking: Ranking) -> Ask | None:
        """Return a function that asks the index for places; None while another one is read."""
        if self.readable is not self.shared:
            return None
        since = self.state.boards[ranking.board].turned_since

        def ask(player: str, tell: Callable[[Ranked | None], None]) -> bool:
            floor = max(self._floor, since)

            def judge(found: Ranked | None) -> None:
                # What lost what it had must not be believed; the reader sees to it that it is said.
                tell(found if found is not None and found.as_of >= floor else None)

            return self.shared.ask_rank(ranking, player, judge)

        return ask

    def set_fallback(self, archive: Archive, lists: TopLists | None) -> None:
        """Answer reads from the fallback index, unless this node has a copy of its own."""
        if self.spare is None:
            kept = FallbackIndex(
                archive, lists, state=lambda: self.state, position=lambda: self.checkpoint
            )
            self.fallback = kept  # type: ignore[assignment]  # It is only read from.

    async def fold(
        self, facts: Sequence[Recorded], *, reading: AbstractContextManager[Any] = UNREAD
    ) -> Receipts:
        """Note facts that follow those before and, if the index can be reached, fold them.

        Receipts are missing where it cannot, or where another node was quicker and forgot. While
        the index is known to be unreachable, no call is tried: see ``repair``.
        """
        with reading:
            told = await self._tried(facts, await self._note(facts))
        self._note_changes(facts, told)
        return told

    def _note_changes(self, facts: Sequence[Recorded], receipts: Receipts) -> None:
        if self.changes is not None:
            self.changes.note(facts, receipts)

    async def _tried(
        self, facts: Sequence[Recorded], spared: Receipts, *, of_others: bool = False
    ) -> Receipts:
        """Fold facts into the index, if it can be reached.

        Otherwise store the receipts of the node's own copy: an index that is filled from that copy
        does not return them again.
        """
        if self.failure is None:
            try:
                return await self._fold_behind(facts, of_others=of_others)
            except IndexUnavailable as exc:
                self._fail(exc)
            finally:
                self._tell_those_who_wait()
        self.receipts.add_others(keyed(facts, spared))
        return {}

    def _fail(self, failure: IndexUnavailable | None) -> None:
        if failure is not None and self.failure is None:
            _log.warning("the index is out of reach: %s", failure)
        if (failure is None) != (self.failure is None):
            self.state.revision += 1  # Answers say from now on that they are stale, or no longer.
        self.failure = failure
        if failure is None:
            self.readable = self.shared
        elif self.fallback is not None:
            self.readable = self.fallback
        else:
            self.readable = UnreachableIndex(failure.problem)  # type: ignore[assignment]

    @property
    def floor(self) -> Position:
        """Where the index was once, as far as this node saw; less than that, and it fell back."""
        return self._floor

    @property
    def shown_to(self) -> Position:
        """Up to where both the state and the index are."""
        return min(self.checkpoint, self._floor) if self.failure is None else self._floor

    async def shown_in(self, ranking: Ranking) -> Position:
        """Up to where readers of one ranking see: they may be kept as of different positions."""
        if isinstance(self.readable, FallbackIndex):
            return await self.readable.moment(ranking)
        return self.shown_to

    @property
    def notes(self) -> Sequence[str]:
        return self.shared.notes

    async def check_fresh(self, as_of: Position | None, floor: Position) -> None:
        """Raise IndexUnavailable for an answer of an index that has lost entries."""
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
        receipts_after: Position = BEGINNING,
        collect: Collect | None = None,
    ) -> None:
        """Read the facts of others, and make sure that one node folds them."""
        while self.checkpoint < through:
            limit = min(FACTS_TOGETHER_MAX, through - self.checkpoint)
            facts = await self._read(self.checkpoint, limit, through)
            if not facts:
                break
            spared = await self._note(facts)
            await self._wait_for_others(facts[-1].position)
            told = await self._tried(facts, spared, of_others=True)
            self._note_changes(facts, told)
            if collect is not None:
                collect(keyed(facts, told, after=receipts_after))
            tell(Progress(self.checkpoint, through, "folding", "fact"))

    async def arrive(self) -> None:
        """See that the index has come as far as the state, which may have begun from a copy."""
        if self.failure is None:
            try:
                await self._catch_up_behind(await self._restored(), self.checkpoint)
            except IndexUnavailable as exc:
                self._fail(exc)

    async def lost(self) -> bool:
        """Whether the index answers and is behind, or could not be reached and now answers.

        Raises IndexUnavailable while it does not.
        """
        floor = self._floor
        try:
            await self.insist_on_ours()
            position = await self.shared.checkpoint()
        except IndexUnavailable as exc:
            self._fail(exc)
            raise
        if position < floor:
            self._fail(_fallen(floor, position))
        return self.failure is not None

    async def insist_on_ours(self) -> None:
        """Raise NotOurs for an index that is made from another ledger, or IndexUnavailable."""
        self._origin = self._origin or await _origin_of(self._ledger)
        if not await self.shared.belongs(self._origin):
            raise OtherLedger
        self._is_ours = bool(self._origin)

    async def repair(self, facts_max: int) -> bool:
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

    async def hopeless(self, through: Position | None = None) -> bool:
        """Whether the index lacks so much that filling another one is quicker than folding it in.

        ``through`` is how far it should be, if not where the state is. Raises IndexUnavailable.
        """
        through = self.checkpoint if through is None else through
        lacking = through - await self.shared.checkpoint()
        if lacking <= FOLDED_IN_FACTS:
            return False
        if self.spare is not None:
            needed = await self.spare.count_entries() * ENTRY_COPIED_MICROSECONDS
        else:
            needed = through * (FACT_READ_MICROSECONDS + ENTRY_COPIED_MICROSECONDS)
        return lacking * FACT_FOLDED_IN_MICROSECONDS > needed

    def leave(self, problem: str) -> None:
        """Fold nothing into the index until it was rebuilt."""
        self._fail(IndexUnavailable(problem))

    async def replace(self, other: SharedIndex, tail: Projector) -> bool:
        """Make a rebuilt index live. The writer must be held.

        ``tail`` was folded to where it is. False if another one has become live meanwhile.
        """
        self._behind = self._left = None
        if not await other.take_over():
            return False
        self._behind = self._projecting(tail.state, tail.checkpoint, tail.at)
        self._floor = max(self._floor, tail.checkpoint)
        self._fail(None)
        self._tell_those_who_wait()
        return True

    def _projecting(self, state: State, checkpoint: Position, at: Instant) -> Projector:
        behind = Projector(
            ledger=self._ledger, index=self.shared, state=state, checkpoint=checkpoint, at=at
        )
        behind.drafts, behind.corrections = self.drafts, self.corrections
        behind.retractions, behind.rolling = self.retractions, self.rolling
        return behind

    async def _note(self, facts: Sequence[Recorded]) -> Receipts:
        """Apply facts to the state, and fold them into the node's own copy; return its receipts."""
        for part in parts_with_past(facts):
            await learn_past(self.state, self._ledger, part[0])
            note_all(self.state, part)
            self._touch(part)
            self.checkpoint, self.at = part[-1].position, part[-1].at
        self.state.sweep_entrants()
        if self.spare is not None and not self.spare_waits:
            with suppress(LedgerUnavailable):  # It goes on from where it is another time.
                return await self.spare.catch_up_with(facts)
        return {}

    def _touch(self, facts: Sequence[Recorded]) -> None:
        for recorded in facts:
            fact, position = recorded.fact, recorded.position
            for board in self._boards_of(fact):
                self.touched[board] = position
            if getattr(fact, "attributes", None):
                self.touched[None] = position

    def _boards_of(self, fact: Fact) -> Iterable[str | None]:
        """Return the boards that a fact is about; None is any, by the attributes of players."""
        board: str | None = getattr(fact, "board", None)
        if board is not None or not fact.correction:
            return (board,)
        return getattr(fact, "boards", None) or list(self.state.boards)

    async def _read(self, after: Position, limit: int, through: Position) -> Sequence[Recorded]:
        facts = await self._ledger.read(after=after, limit=limit)
        return [recorded for recorded in facts if recorded.position <= through]

    async def _wait_for_others(self, position: Position) -> None:
        """Leave the facts of others to them, for a moment."""
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

    async def _fold_behind(self, facts: Sequence[Recorded], *, of_others: bool) -> Receipts:
        behind = await self._restored()
        await self._catch_up_behind(behind, Position(facts[0].position - 1))
        if of_others:
            await self._pass_long_folded(behind, facts[-1].position)
        receipts = await self._take_all(behind, facts)
        return joined([receipts, self._caught_up(facts[-1].position)])

    def _caught_up(self, position: Position) -> Receipts:
        """Return the receipts of facts that the state has reached now."""
        reached = {at: one for at, one in self._ahead.items() if at <= position}
        self._ahead = {at: one for at, one in self._ahead.items() if at > position}
        return reached

    async def _catch_up_behind(self, behind: Projector, through: Position) -> None:
        if behind.checkpoint < through:
            await self._pass_long_folded(behind, through)
        while behind.checkpoint < through:
            facts = await self._read(behind.checkpoint, FACTS_TOGETHER_MAX, through)
            if not facts:
                break
            self.receipts.add_others(keyed(facts, await self._take_all(behind, facts)))

    async def _pass_long_folded(self, behind: Projector, through: Position) -> None:
        """Apply facts to the state, if the index is far ahead.

        No caller of this node waits for them.
        """
        position = await self.shared.checkpoint()
        if position - behind.checkpoint >= PASSED_FACTS:
            await self._note_behind(behind, min(position, through))

    async def _take_all(self, behind: Projector, facts: Sequence[Recorded]) -> Receipts:
        taken: list[Receipts] = []
        for part in behind.parted(facts):
            while rest := [one for one in part.facts if one.position > behind.checkpoint]:
                taken.append(await self._take(behind, rest))
        return joined(taken)

    async def _take(self, behind: Projector, facts: Sequence[Recorded]) -> Receipts:
        """Fold facts into the index: one apply, of some of them or of more.

        Another node may have been quicker, with the same facts or some of them. Then its apply is
        repeated, with the same results. A window that another node has prepared need not be folded
        for that: nothing waits for its results.
        """
        if is_prepared(facts) and await self.shared.checkpoint() >= facts[-1].position:
            return await self._pass_over(behind, facts[-1].position)
        receipts = await self._try(behind, facts)
        if receipts is not None:
            return receipts
        try:
            through = await self.shared.step_after(behind.checkpoint)
        except IndexForgot:
            return await self._pass_over(behind, await self.shared.checkpoint())
        if through is None:
            raise self._lost_track(behind, "took nothing that follows, and has nothing")
        return await self._follow(behind, facts, through)

    async def _try(self, behind: Projector, facts: Sequence[Recorded]) -> Receipts | None:
        """Fold facts into the index; None if it is not their turn, and then none is noted."""
        after, mark = behind.checkpoint, Savepoint(behind.state)
        try:
            entries = await behind.entries_of(facts, after=after)
            begun = await behind.begin(facts, entries, after=after)
        except IndexForgot:
            mark.go_back()
            return None
        except BaseException:
            mark.go_back()
            raise
        self._left = _UnknownApply(begun, after, facts, mark)
        return await self._finish(behind)

    async def _finish(self, behind: Projector) -> Receipts | None:
        """Make an apply, perhaps for the second time."""
        assert self._left is not None
        begun, after, facts, mark = self._left
        try:
            receipts = await behind.apply(begun, after=after, through=facts[-1].position)
        except IndexForgot:  # Its drafts are gone: another index lives since they were staged.
            receipts = None
        self._left = None
        if receipts is None:
            mark.go_back()
        else:
            mark.release()
            self._reach_behind(behind, facts[-1])
        return receipts

    async def _follow(
        self, behind: Projector, facts: Sequence[Recorded], through: Position
    ) -> Receipts:
        """Fold as another node did, up to where it did in one apply."""
        last, receipts = facts[-1].position, None
        if through != last and through - behind.checkpoint <= FOLLOWED_FACTS_MAX:
            receipts = await self._try(behind, await self._facts_to(facts, through))
        if receipts is not None:
            ahead = {at: one for at, one in receipts.items() if at > last}
            self._ahead = joined([self._ahead, ahead])
            return receipts
        if await self.shared.checkpoint() < through:
            raise self._lost_track(behind, f"waits for another apply to {through}")
        return await self._pass_over(behind, through)

    async def _facts_to(self, facts: Sequence[Recorded], through: Position) -> Sequence[Recorded]:
        last = facts[-1].position
        if last < through:
            return [*facts, *await self._read(last, through - last, through)]
        return [recorded for recorded in facts if recorded.position <= through]

    async def _pass_over(self, behind: Projector, position: Position) -> Receipts:
        """Apply to the state the facts that the index is past. Their receipts are not available."""
        before = behind.checkpoint
        await self._note_behind(behind, position)
        if behind.checkpoint == before:
            raise self._lost_track(behind, f"is at {position}")
        return {}

    async def _note_behind(self, behind: Projector, through: Position) -> None:
        while behind.checkpoint < through:
            facts = await self._read(behind.checkpoint, FACTS_TOGETHER_MAX, through)
            if not facts:
                break
            for part in parts_with_past(facts):
                await learn_past(behind.state, self._ledger, part[0])
                note_all(behind.state, part)
                self._reach_behind(behind, part[-1])

    def _lost_track(self, behind: Projector, what: str) -> IndexUnavailable:
        """Have the state behind made again, for an index that is not where it was."""
        self._behind = None
        return IndexUnavailable(f"the index was at {behind.checkpoint}, and {what}; it is mended")

    def _reach_behind(self, behind: Projector, last: Recorded) -> None:
        behind.checkpoint, behind.at = last.position, last.at
        behind.state.sweep_entrants()
        self._floor = max(self._floor, last.position)

    async def _restored(self) -> Projector:
        """Return the state behind, with every begun apply completed."""
        if not self._is_ours:
            await self.insist_on_ours()
        if self._behind is None:
            self._left = None
            self._behind = await self._made_again()
            await self._complete(self._behind)
        if self._left is not None:
            begun = self._left.begun
            told = await self._finish(self._behind) or {}
            unstored = [judged.position for judged in begun.judged if judged.fact.key is not None]
            self.receipts.add_others(
                encoded(told, [position for position in unstored if position in told])
            )
        return self._behind

    async def _made_again(self) -> Projector:
        """Make the state as it was where the index is."""
        position = await self.shared.checkpoint()
        if position > await self._ledger.head():  # It is of another ledger, or of one since lost.
            other = await self.shared.beside()
            await other.take_over()
            position, self._floor = await self.shared.checkpoint(), Position(0)
        begin = await newest_copy(self._copies, self._ledger, through=position)
        behind = self._projecting(begin.state, begin.heading.checkpoint, begin.heading.at)
        await self._note_behind(behind, position)
        self._floor = max(self._floor, behind.checkpoint)
        return behind

    async def _complete(self, behind: Projector) -> None:
        """Repeat an apply that a node began and did not end: until then no other is accepted."""
        unfinished = await self.shared.unfinished()
        if unfinished is None:
            return
        _, through = unfinished
        count = through - behind.checkpoint
        if count > 0:
            facts = await self._read(behind.checkpoint, count, through)
            self.receipts.add_others(keyed(facts, await self._take(behind, facts)))


async def _origin_of(ledger: LedgerReader) -> str:
    """Return an id of a ledger that its copies share: the digest of its first fact."""
    first = await ledger.read(after=Position(0), limit=1)
    if not first:
        return ""
    ((position, at, fact),) = [(one.position, one.at, one.fact) for one in first]
    kind, body = encode(fact)
    if is_audited(fact) and fact.request_id is None:
        # As it was before such facts had a request: indexes have this digest.
        body = msgspec.msgpack.encode(msgspec.msgpack.decode(body)[:-2])
    said = msgspec.msgpack.encode((position, at, kind, body))
    return blake2b(said, digest_size=16).hexdigest()


def is_prepared(facts: Sequence[Recorded]) -> bool:
    """Whether all that facts do is to prepare a rolling window."""
    return len(facts) == 1 and isinstance(facts[0].fact, WindowPrepared)


def _fallen(floor: Position, position: Position) -> IndexUnavailable:
    return IndexUnavailable(f"the index fell back from {floor} to {position}; it is filled again")


def note_all(state: State, facts: Sequence[Recorded]) -> None:
    """Note facts in a state as folding them does, without an index."""
    for recorded in facts:
        fact = recorded.fact
        if not is_submission(fact):
            state.note(recorded)
            continue
        state.index_fact(recorded)
        page = state.boards.get(fact.board)
        if page is None or not counts_on(page, fact):
            continue
        state.enter(page, fact.player)
        barred = state.admit(page, in_terms_of(page, fact), recorded)
        if barred is None or not isinstance(barred.verdict, Rejected):
            state.attempt(page, fact)
            state.note_term(fact, recorded)
        change = fact.profile_change()
        if change is not None and not state.knows(fact.player, fact.attributes or {}):
            state.change_profile(change)
