"""Rankd: the assembled whole. Opening recovers, closing leaves nothing undone.

submit ─▶ writer ─▶ ledger ─▶ projector ─▶ index ◀─ reader ◀─ standing, page, around
"""

import asyncio
import logging
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any, Protocol, TypeVar

from rankd.core.board_rebuild import BoardRebuild, days_of
from rankd.core.board_state import BoardState
from rankd.core.corrections import PlayerState
from rankd.core.corrector import Corrector
from rankd.core.erasure import Eraser
from rankd.core.living_scores import LIVING_SCORES_MAX
from rankd.core.managers import (
    Snapshotter,
    WindowSealer,
)
from rankd.core.projector import Projector, Tell
from rankd.core.read_engine import NO_CHANGE, Preview, ReadEngine, Spooled, preview
from rankd.core.recovery import (
    Build,
    IdleProjector,
    IndexHome,
    compare,
    fold_shadow,
    folded,
    recover,
)
from rankd.core.rewards import (
    REWARDS_LISTED_DEFAULT,
    REWARDS_LISTED_MAX,
    Claim,
    RewardClaims,
    RewardFilter,
    RewardPage,
    list_rewards,
)
from rankd.core.rolling_windows import RollingPreparer
from rankd.core.rule_past import RulePast
from rankd.core.rule_preview import RuleReplay, RulesPreview
from rankd.core.runs import Runs
from rankd.core.steady_clock import ClockOffset
from rankd.core.time_correction import Corrected, TimeCorrector
from rankd.core.verifiers import VerifierLoop
from rankd.core.webhook_delivery import EventCallbacks, WebhookDelivery
from rankd.core.window_archiver import WindowArchiver
from rankd.core.window_control import WindowControl, WindowRequest, WindowResult
from rankd.core.window_schedule import windows_at
from rankd.core.writer import DefinitionChanged, HandedIn, Writer, WriteResult
from rankd.errors import (
    BoardDiffers,
    DropsScores,
    FieldError,
    Invalid,
    InvalidBoard,
    InvalidRequest,
    LedgerUnavailable,
    PlayerBanned,
    RankdError,
    Refused,
    TooManyLivingScores,
    TooManySegmentValues,
    UnknownKey,
)
from rankd.model.board import Board
from rankd.model.facts import (
    Attributes,
    AttributesSet,
    BoardDefined,
    BoardRedefined,
    BoardRelearned,
    BoardRetired,
    ExpiringScoreSubmitted,
    Fact,
    FriendsSet,
    KeyCreated,
    KeyRevoked,
    KeysUsed,
    NameSet,
    OpenWindow,
    PersonErased,
    PlayerProfiled,
    Position,
    Profile,
    ScoreSubmitted,
    SigningKeyCreated,
    VisibilitySet,
    is_submission,
)
from rankd.model.profile import (
    ProfileUpdate,
    check_new_player,
    check_player,
    read_friends,
    read_merge,
    read_profile,
    read_reason,
    read_visibility,
)
from rankd.model.redefinition import check_redefinition, new_columns, refolded
from rankd.model.submission import Item, at_item, read_facts
from rankd.model.window import Instant, show_instant
from rankd.ports import (
    Clock,
    Ledger,
    LedgerReader,
    Progress,
)

DRAFT_BEHIND_MAX = 1_000
"""How near a draft comes to the head before the writer waits for it."""

DRAFT_PASSES_MAX = 50
"""How often a draft goes after a head that runs ahead of it. Then the writer waits all the same."""

MERGE_TRIES_MAX = 100
"""How often a profile is merged while other nodes append all the time."""

DEFINITION_TRIES_MAX = 100
"""How often a definition is tried while other nodes append all the time."""

Submit = Callable[[Sequence[ScoreSubmitted], HandedIn], None]
"""Submits facts to one board, and passes their results to a callback."""

T = TypeVar("T")
_log = logging.getLogger(__name__)


def _definition(
    page: BoardState | None,
    board: Board,
    actor: str | None,
    windows: tuple[OpenWindow, ...],
    redefined: type[BoardRedefined],
) -> BoardDefined:
    """Return the fact of a definition with the windows that are open from then on."""
    if page is None:
        return BoardDefined(board.name, board.definition(), actor, windows)
    before, after = page.window_ids.values(), [one.window for one in windows]
    return redefined(
        board.name,
        board.definition(),
        actor,
        windows,
        opened=tuple(one for one in after if one not in before),
        closed=tuple(one for one in before if one not in after),
    )


def _say_nothing(_progress: Progress) -> None:
    pass


class LedgerWatch(Protocol):
    """A loop that learns whether a ledger on a server can be reached."""

    failure: RankdError | None
    """Why it cannot, while that is so."""


class Rebuilder(Protocol):
    """Fills a shared index that is behind, or is to be made anew."""

    async def refill(self, tell: Tell, *, anew: bool = False) -> None:
        """Fill an index; ``anew`` in any case, from the ledger alone."""


class SpoolCounts(Protocol):
    """The counts of the loop that submits spooled submissions."""

    handed_in: int
    dropped: int


class Engine(ReadEngine):
    """A leaderboard engine: boards, submissions and standings over one ledger and one index."""

    def __init__(  # noqa: PLR0913 - what it is put together from
        self,
        *,
        ledger: Ledger,
        writer: Writer,
        clock: Clock,
        build: Build,
        home: IndexHome,
        saved: Position,
        reading: AbstractContextManager[Any],
    ) -> None:
        super().__init__(writer.projector, clock, ledger, lambda: build().index)
        self.sealer = WindowSealer(writer, self.clock)
        self.rolling = RollingPreparer(ledger, writer)
        self.archiver = WindowArchiver(
            lambda: self._home.archives, lambda: self.state, reading=reading, repair=self.rebuild
        )
        self.snapshotter = Snapshotter(
            writer, lambda: self._home.snapshots, saved, lambda: self._home.archives, self.archiver
        )
        self.ledger_watches: Sequence[LedgerWatch] = ()
        """The loops that learn whether a ledger on a server can be reached."""
        self._ledger = ledger
        self._writer = writer
        self._build = build
        self._home = home
        self._reading = reading
        self._defining = asyncio.Lock()
        self._corrector = TimeCorrector(ledger, writer, self.clock)
        self.corrections = Corrector(
            ledger, writer, self.reader, page=self._page, own=self._own, alone=self._defining
        )
        self.runs = Runs(ledger, writer, self._page)
        self.verification = VerifierLoop(
            ledger, lambda: self.state, writer.now, self.corrections.decide_review
        )
        self.webhooks = WebhookDelivery(ledger, writer)
        self.callbacks = EventCallbacks(self.webhooks.reader)
        self._windows = WindowControl(
            ledger, writer, self.reader, page=self._page, alone=self._defining
        )
        self._claims = RewardClaims(ledger, writer, page=self._page)
        self.eraser = Eraser(ledger, writer)
        self._owned: set[asyncio.Task[Any]] = set()
        self.rebuilder: Rebuilder | None = None
        """The rebuilder of a shared index; None over an index of this process."""
        self.spool_sender: SpoolCounts | None = None
        """The sender of spooled submissions; None without a spool."""

    @property
    def ledger_time(self) -> Instant:
        """The ledger's time: the clock's, unless facts are later."""
        return self._writer.now()

    @property
    def failure(self) -> RankdError | None:
        """Why the engine takes no writes, or does not see those of other nodes, if that is so."""
        return self.ledger_failure or self.index_failure

    @property
    def ledger_failure(self) -> RankdError | None:
        """Why the engine takes no writes, or does not see those of other nodes, if that is so."""
        failures = (watch.failure for watch in self.ledger_watches)
        return self._writer.failure or next(filter(None, failures), None)

    @property
    def index_failure(self) -> RankdError | None:
        """Why a shared index cannot be asked, or is behind, if that is so."""
        return self.projector.failure

    @property
    def readable(self) -> bool:
        """Whether reads are answered: from the index, a copy, or the fallback index."""
        if self.index_failure is None or self.projector.spare is not None:
            return True
        return self.projector.fallback is not None and self.ledger_failure is None

    @property
    def writable(self) -> bool:
        """Whether submissions are taken: by the ledger, or to wait on this node's disk."""
        return self.ledger_failure is None or (not self.ended and self._writer.spool is not None)

    @property
    def notes(self) -> Sequence[str]:
        """Remarks on the server of a shared index, in sentences."""
        return self.projector.notes

    @property
    def sees_every_commit(self) -> bool:
        """Whether a read shows every write that was answered before it."""
        return self._writer.alone and not self.projector.index.shared

    @property
    def ended(self) -> bool:
        """Whether it takes nothing more for good."""
        return self._writer.stopped.is_set()

    async def end(self) -> RankdError:
        """Wait until it takes nothing more for good; return why."""
        await self._writer.stopped.wait()
        assert self._writer.failure is not None, "it says why"
        return self._writer.failure

    @property
    def waiting(self) -> int:
        """How many facts wait for a commit."""
        return self._writer.waiting

    @property
    def spooled(self) -> Spooled | None:
        """Counts of spooled submissions; None without a spool."""
        spool, spool_sender = self._writer.spool, self.spool_sender
        if spool is None:
            return None
        handed_in, dropped = (
            (0, 0) if spool_sender is None else (spool_sender.handed_in, spool_sender.dropped)
        )
        return Spooled(spool.waiting, self._writer.spooled, handed_in, dropped)

    @property
    def commits(self) -> int:
        """How many appends there were since the start."""
        return self._writer.commits

    @property
    def unsaved(self) -> int:
        """How many positions a start would have to fold again."""
        return self.snapshotter.unsaved

    async def _own(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end, also if the caller is cancelled."""
        task = asyncio.ensure_future(work)
        self._owned.add(task)
        task.add_done_callback(self._owned.discard)
        return await asyncio.shield(task)

    async def finish(self) -> None:
        """Wait for the running operations."""
        while self._owned:
            await asyncio.wait(self._owned)

    # ------------------------------------------------------------------------- boards

    async def define(
        self, name: str, definition: Mapping[str, object], *, actor: str | None = None
    ) -> Board:
        """Define a board, or return it if it is defined just so. Raises BoardDiffers."""
        board = Board.define(name, definition)
        return await self._own(self._define(board, actor))

    def expect(self, name: str, definition: Mapping[str, object]) -> Board:
        """Return a board that is there, defined so. Raises UnknownBoard and BoardDiffers.

        An empty definition is any.
        """
        known = self.state.page(name).board
        if definition:
            _refuse_other(Board.define(name, definition), known)
        return known

    async def _define(self, board: Board, actor: str | None) -> Board:
        async with self._defining:
            while True:
                known = self.state.boards.get(board.name)
                if known is not None:
                    _refuse_other(board, known.board)
                if known is not None or await self._put_definition(board, actor, instead_of=None):
                    return self.state.page(board.name).board

    async def _put_definition(
        self,
        board: Board,
        actor: str | None,
        *,
        instead_of: Board | None,
        check: Callable[[BoardState, Instant], Awaitable[None]] | None = None,
    ) -> bool:
        """Record a definition with the windows that count from then on.

        ``check`` looks at a board that is redefined once nothing can be recorded before that any
        more. False if the one it was to be put in place of is no longer in force.
        """
        async with self._writer.turn():
            for _ in range(DEFINITION_TRIES_MAX):
                await self._writer.catch_up_others()
                now = self._writer.now()
                await self._writer.record([], now=now)  # Windows that are over must not go on.
                page = self.state.boards.get(board.name)
                if (None if page is None else page.board) is not instead_of:
                    return False
                _refuse_past_expiry(board, now)
                if page is not None and check is not None:
                    await check(page, now)
                windows = windows_at(page, board, now)
                after = self.position
                fact = _definition(page, board, actor, windows, self._kind_of_redefinition(after))
                if await self._writer.record_after([fact], now=now, after=after) is not None:
                    return True
        raise LedgerUnavailable("other nodes append all the time; try again", applied="no")

    def _kind_of_redefinition(self, after: Position) -> type[BoardRedefined]:
        """Return the kind of a definition: another one if its rules have learned the past."""
        learned = self.state.reviews.learned
        knows = learned is not None and learned.position == after + 1
        return BoardRelearned if knows else BoardRedefined

    async def preview(self, name: str, definition: Mapping[str, object]) -> Preview:
        """Return the changes that a redefinition would make.

        Nothing is changed. Raises the errors of ``redefine``, except DropsScores, which the preview
        reports.
        """
        board = Board.define(name, definition)
        async with self._defining:
            page = self.state.page(name)
            if not page.board.changes(board):
                return NO_CHANGE
            _refuse_past_expiry(board, self._writer.now())
            check_redefinition(page.board, board)
            draft = self._draft(page, board)
            try:
                await draft.catch_up(through=self.position)
                await _refuse_misfit(draft, page)
                return await preview(self.reader, page, draft)
            finally:
                await self._own(draft.discard())

    async def preview_rules(
        self, name: str, definition: Mapping[str, object], *, tell: Tell = _say_nothing
    ) -> RulesPreview:
        """Return the past submissions that the rules of a definition would have caught.

        Nothing is changed. Raises InvalidBoard and UnknownBoard.
        """
        board = Board.define(name, definition)
        page = self.state.page(name)
        check_redefinition(page.board, board)
        replay = RuleReplay(self._ledger, self.state, page, board)
        return await replay.preview(through=self.position, tell=tell)

    async def redefine(
        self,
        name: str,
        definition: Mapping[str, object],
        *,
        actor: str | None = None,
        drop_scores: bool = False,
        tell: Tell = _say_nothing,
    ) -> Preview:
        """Change a board's definition: fold the changed windows again, then switch in one apply.

        Return the changes. Raises InvalidBoard where a counted score would not fit, and DropsScores
        where scores could not be ranked any more, unless ``drop_scores`` agrees to it.
        """
        board = Board.define(name, definition)
        return await self._own(self._redefine(board, actor, drop_scores, tell))

    async def _redefine(
        self, board: Board, actor: str | None, drop_scores: bool, tell: Tell
    ) -> Preview:
        async with self._defining:
            while True:
                page = self.state.page(board.name)
                if not page.board.changes(board):
                    return NO_CHANGE
                check_redefinition(page.board, board)
                changed = await self._put_with_draft(page, board, actor, drop_scores, tell)
                if changed is not None:
                    return changed

    async def _put_with_draft(
        self, page: BoardState, board: Board, actor: str | None, drop_scores: bool, tell: Tell
    ) -> Preview | None:
        """Record a changed definition, once its windows are folded nearly to the head.

        None if the definition it was made against is no longer in force.
        """
        projector, before = self._writer.projector, page.board
        draft = self._draft(page, board)
        past = RulePast(self._ledger, self.state, page, board)

        async def check(page: BoardState, now: Instant) -> None:
            await past.prepare(self.position)
            await draft.catch_up(through=self.position)
            await draft.turn_windows(now)
            await _refuse_misfit(draft, page)
            if not drop_scores:
                await self._refuse_to_drop(page, draft)

        try:
            changed = await self._pursue_head(draft, page, tell)
            await past.read(self.position, tell)
        except BaseException:
            await draft.discard()
            raise
        if refolded(before, board):
            projector.drafts[board.name] = draft
        try:
            done = await self._put_definition(board, actor, instead_of=before, check=check)
        finally:
            if (left := projector.drafts.pop(board.name, None)) is not None:
                await left.discard()
        return changed if done else None

    async def _refuse_to_drop(self, page: BoardState, draft: BoardRebuild) -> None:
        if windows := await draft.dropped_windows(page):
            columns = new_columns(page.board, draft.board)
            raise DropsScores(board=page.board.name, windows=windows, columns=columns)

    async def _pursue_head(self, draft: BoardRebuild, page: BoardState, tell: Tell) -> Preview:
        """Fold a board rebuild nearly to the head; return its changes."""
        for _ in range(DRAFT_PASSES_MAX):
            await draft.catch_up(through=self.position, tell=tell)
            if draft.position >= self.position - DRAFT_BEHIND_MAX:
                break
        return await preview(self.reader, page, draft)

    def _draft(self, page: BoardState, board: Board) -> BoardRebuild:
        projector = self._writer.projector
        return BoardRebuild(
            self._ledger,
            projector.index,
            page,
            board,
            state=projector.state,
            rolling=days_of(page.board, board, self._writer.now()),
        )

    async def retire(
        self, name: str, *, actor: str | None = None, reason: str | None = None
    ) -> Position:
        """Take a board out of use. Its facts stay in the ledger."""
        reason = read_reason(reason)
        return await self._own(self._retire(name, actor, reason))

    async def _retire(self, name: str, actor: str | None, reason: str | None) -> Position:
        async with self._defining:
            self.state.page(name)
            return await self._put(BoardRetired(name, actor, reason))

    # ------------------------------------------------------------------------ windows

    async def reset_window(
        self, name: str, body: object, *, actor: str | None = None
    ) -> WindowResult:
        """Close a window now, and open the next one at the same position.

        Raises InvalidRequest, UnknownWindow, WrongWindowState.
        """
        return await self._own(self._windows.reset(name, WindowRequest.read(body, actor)))

    async def freeze_window(
        self, name: str, body: object, *, actor: str | None = None
    ) -> WindowResult:
        """Let a window take no more scores. Raises as ``reset_window`` does."""
        return await self._own(self._windows.freeze(name, WindowRequest.read(body, actor)))

    async def settle_window(
        self, name: str, body: object, *, actor: str | None = None
    ) -> WindowResult:
        """Declare the standings of a window final. Raises as ``reset_window`` does."""
        return await self._own(self._windows.settle(name, WindowRequest.read(body, actor)))

    async def rewards(
        self,
        name: str,
        window: str,
        *,
        player: str | None = None,
        state: str | None = None,
        cursor: str | None = None,
        limit: int = REWARDS_LISTED_DEFAULT,
    ) -> RewardPage:
        """Return a page of the rewards of a settled window. Raises UnknownWindow, InvalidRequest.

        ``state`` is ``given``, ``claimed`` or ``withdrawn``.
        """
        chosen = RewardFilter.read(player, state, cursor)
        if not 1 <= limit <= REWARDS_LISTED_MAX:
            message = f"must be from 1 to {REWARDS_LISTED_MAX}"
            raise InvalidRequest([FieldError("limit", message)])
        now = self.ledger_time
        return await list_rewards(self.state, self._ledger, name, window, now, chosen, limit)

    async def claim_reward(
        self,
        name: str,
        window: str,
        id: str,
        *,
        actor: str | None = None,
        player: str | None = None,
    ) -> Claim:
        """Claim a reward of a settled window once; ``player`` if that claims its own.

        Raises UnknownWindow, UnknownReward, RewardWithdrawn and PlayerBanned.
        """
        return await self._own(self._claims.claim(name, window, id, actor=actor, player=player))

    # -------------------------------------------------------------------- submissions

    async def submit(
        self,
        name: str,
        items: Sequence[Item],
        *,
        actor: str | None = None,
        first: int | None = None,
    ) -> Sequence[WriteResult]:
        """Have submissions to one board recorded, judged and counted, in one commit.

        Raises InvalidSubmission if one is malformed, and then nothing is recorded; its place is
        counted from ``first``, where these are a part of many.
        """
        while True:
            page = await self._page(name)
            board = page.board
            facts = (
                await self._read_as_then(page, items, actor, first)
                if page.earlier and any(map(_has_key, items))
                else read_facts(board, items, actor=actor, first=first)
            )
            self._refuse_banned(facts)
            checked = await self.runs.checked(facts, board)
            self.verification.check_room((board,))
            try:
                results = await self._writer.put(checked, boards=(board,))
            except DefinitionChanged:
                continue
            self.verification.notice(results, (board,))
            return results

    async def _page(self, name: str) -> BoardState:
        """Return a board's page, also if another node has defined it a moment ago."""
        if name not in self.state.boards:
            await self._writer.see_others()
        return self.state.page(name)

    def submitter_of(self, board: Board) -> Submit:
        """Return a function that does the same as ``submit`` with facts that its caller has read.

        It is good for one revision of the state: any fact about more than profiles, such as a ban,
        begins another. Its callback gets DefinitionChanged if the board was redefined meanwhile. It
        raises Overloaded, LedgerUnavailable and PlayerBanned at once. A fact with a key must have
        been read as ``submit`` reads it.
        """
        hand_in = partial(self._writer.hand_in, boards=(board,))

        def check_and_hand_in(facts: Sequence[ScoreSubmitted], tell: HandedIn) -> None:
            self._refuse_banned(facts)
            hand_in(facts, tell)

        return check_and_hand_in if self.state.player_states else hand_in

    async def submit_read(
        self, facts: Sequence[ScoreSubmitted], boards: Sequence[Board]
    ) -> Sequence[WriteResult]:
        """Do the same as ``submit`` with facts that the caller has read. Raises Overtaken."""
        self._refuse_banned(facts)
        return await self._writer.put(facts, boards=boards)

    async def _read_as_then(
        self,
        page: BoardState,
        items: Sequence[Item],
        actor: str | None,
        part_from: int | None = None,
    ) -> list[ScoreSubmitted]:
        """Read submissions to a board that was redefined.

        A repeated one is read as it was the first time, so that it is known for the same.
        """
        facts: list[ScoreSubmitted] = []
        for place, item in enumerate(items):
            key = item.get("key") if isinstance(item, Mapping) else None
            first = None
            if isinstance(key, str):
                first = await self._ledger.first_use(board=page.board.name, key=key)
            try:
                if first is not None:
                    with suppress(Invalid):  # Then it says something else than the first time.
                        then = page.board_at(first.position)
                        facts += read_facts(then, [item], actor=actor)
                        continue
                facts += read_facts(page.board, [item], actor=actor)
            except Invalid as exc:
                if len(items) == 1 and part_from is None:
                    raise
                raise at_item((part_from or 0) + place, exc) from exc
        return facts

    async def submit_each(
        self, bodies: Sequence[tuple[str, Mapping[str, object]]], *, actor: str | None = None
    ) -> list[WriteResult | Refused | LedgerUnavailable]:
        """Have submissions to any boards recorded, each judged for itself; one commit.

        A malformed submission, or one to an unknown board, gets an error in its place. So does one
        whose key only the ledger could resolve, where the others may be spooled.
        """
        refused: dict[int, Refused] = {}
        while True:
            checked = [
                refused.get(place) or await self._check(name, body, actor)
                for place, (name, body) in enumerate(bodies)
            ]
            facts = [fact for fact in checked if isinstance(fact, Fact) and is_submission(fact)]
            lost = next((one for one in checked if isinstance(one, LedgerUnavailable)), None)
            if lost is not None and not facts:
                raise lost
            boards = [self.state.page(name).board for name in {fact.board for fact in facts}]
            self.verification.check_room(boards)
            try:
                results = await self._writer.put(facts, boards=boards) if facts else []
            except DefinitionChanged:
                continue
            except TooManySegmentValues as exc:
                sent = [place for place, one in enumerate(checked) if isinstance(one, Fact)]
                refused |= {sent[place]: exc for place in exc.places}
                continue
            self.verification.notice(results, boards)
            answers = iter(results)
            return [next(answers) if isinstance(one, Fact) else one for one in checked]

    async def _check(
        self, name: str, body: Mapping[str, object], actor: str | None
    ) -> ScoreSubmitted | Refused | LedgerUnavailable:
        try:
            page = await self._page(name)
            if page.earlier:
                (fact,) = await self._read_as_then(page, [body], actor)
            else:
                (fact,) = read_facts(page.board, [body], actor=actor)
            self._refuse_banned([fact])
            (checked,) = await self.runs.checked([fact], page.board)
            return checked
        except (Refused, LedgerUnavailable) as refused:
            return refused

    def _refuse_banned(self, facts: Iterable[ScoreSubmitted]) -> None:
        """Raise PlayerBanned if a submission is of a banned player: it is not recorded.

        Nor is one with a term too many: TooManyLivingScores.
        """
        if len(self.state.living) >= LIVING_SCORES_MAX and any(
            isinstance(fact, ExpiringScoreSubmitted) for fact in facts
        ):
            raise TooManyLivingScores(scores_max=LIVING_SCORES_MAX)
        for fact in facts if self.state.player_states else ():
            state = self.state.player_state(fact.player, fact.board)
            if state is not None and state.state == "banned" and not self._is_over(state):
                raise PlayerBanned(board=fact.board, player=fact.player)

    def _is_over(self, state: PlayerState) -> bool:
        """Whether the time of a state has come: the fact that ends it goes before a submission."""
        return state.until is not None and state.until <= self._writer.now()

    # ------------------------------------------------------------------------ players

    async def profile(
        self, player: str, body: Mapping[str, object], *, actor: str | None = None
    ) -> Position:
        """Set the fields of a body: profile, friends and visibility; null removes a field.

        Fields that it does not name stay as they are.
        """
        self._check_player(player)
        facts = _profiled(player, read_profile(body), actor)
        facts += _beside_profile(player, body, actor)
        if not facts:
            return self.position
        return (await self._writer.put(facts))[-1].position

    async def merge_profile(
        self, player: str, body: Mapping[str, object], *, actor: str | None = None
    ) -> Position:
        """Do the same as ``profile``, but merge the attributes.

        Those not named stay, null removes one. A body that changes nothing is not recorded.
        """
        self._check_player(player)
        said, more = read_merge(body), _beside_profile(player, body, actor)
        if not isinstance(body.get("attributes"), Mapping):
            return await self.profile(player, body, actor=actor)
        return await self._own(self._merge(player, said, more, actor))

    async def _merge(
        self, player: str, said: ProfileUpdate, more: Sequence[Fact], actor: str | None
    ) -> Position:
        """Record attributes put together of those known at the head, and at no other position."""
        async with self._writer.turn():
            for _ in range(MERGE_TRIES_MAX):
                await self._writer.catch_up_others()
                known = self.state.profile(player)
                merged = said.merged(known.attributes)
                if not more and _says_nothing_new(said, merged, known):
                    return self.position
                facts = [*_profiled(player, said._replace(attributes=merged), actor), *more]
                await self._writer.check_values(facts)
                after, now = self.position, self._writer.now()
                answers = await self._writer.record_after(facts, now=now, after=after)
                if answers is not None:
                    return answers[-1].position
        raise LedgerUnavailable("other nodes append all the time; try again", applied="no")

    async def set_friends(
        self, player: str, friends: object, *, actor: str | None = None
    ) -> Position:
        """Set a player's friends, all of them."""
        self._check_player(player)
        return await self._put(FriendsSet(player, read_friends(friends, player=player), actor))

    def _check_player(self, player: str) -> None:
        """Raise InvalidProfile for an invalid id, or one not valid for a new player."""
        (check_player if self._is_known(player) else check_new_player)(player)

    def _is_known(self, player: str) -> bool:
        return player in self.state.profiles

    async def erase(
        self,
        player: str,
        *,
        actor: str | None = None,
        reason: str | None = None,
        unfriend: bool = False,
        tell: Tell = _say_nothing,
    ) -> Position:
        """Erase a person's data, from the ledger too; entries stay without a name.

        With ``unfriend`` other players' lists of friends name the player no more. Returns once all
        is done; an erasure that is interrupted is finished at the next start.
        """
        fact = PersonErased(check_player(player), actor, read_reason(reason))
        return await self._own(self.eraser.erase(fact, unfriend=unfriend, tell=tell))

    async def _put(self, fact: Fact) -> Position:
        (answer,) = await self._writer.put([fact])
        return answer.position

    # --------------------------------------------------------------------------- keys

    async def create_key(self, key: KeyCreated | SigningKeyCreated) -> Position:
        """Record a key, which is valid from then on."""
        return await self._put(key)

    async def note_key_uses(self, used: Mapping[str, Instant]) -> Position:
        """Record when keys were used last, by their ids."""
        return await self._put(KeysUsed(dict(used)))

    async def revoke_key(self, id: str, *, actor: str | None = None) -> Position:
        """Let a key open nothing any more. Raises UnknownKey."""
        known = id in self.state.signing_keys
        if not known and all(key.id != id for key in self.state.keys.values()):
            raise UnknownKey(id)
        return await self._put(KeyRevoked(id, actor))

    # -------------------------------------------------------------------------- clock

    def confirm_clock(self) -> ClockOffset | None:
        """Believe the step of the clock that is being doubted; return it, None if there is none.

        Windows turn with the next look. Retention still waits until time has lasted.
        """
        return self.clock.confirm()

    async def preview_correction(
        self, *, first: Position | None = None, ahead: int | None = None
    ) -> Corrected:
        """Return the changes that ``correct_time`` would make.

        Nothing is changed. Raises InvalidRequest.
        """
        async with self._defining:
            return await self._corrector.preview(first, ahead)

    async def correct_time(
        self,
        *,
        first: Position | None = None,
        ahead: int | None = None,
        actor: str | None = None,
        reason: str | None = None,
        tell: Tell = _say_nothing,
    ) -> Corrected:
        """Undo the effects of a wrong time, from a position on; the clock must be right again.

        ``first`` is the first fact later than the clock if it is not given, ``ahead`` (in
        microseconds) the jump of the time there. Raises InvalidRequest.
        """
        reason = read_reason(reason)
        return await self._own(self._correct_time(first, ahead, actor, reason, tell))

    async def _correct_time(
        self,
        first: Position | None,
        ahead: int | None,
        actor: str | None,
        reason: str | None,
        tell: Tell,
    ) -> Corrected:
        async with self._defining:
            return await self._corrector.correct(
                first, ahead, actor=actor, reason=reason, tell=tell
            )

    # -------------------------------------------------------------------------- care

    async def save(self, tell: Tell = _say_nothing) -> Position:
        """Save the index now; return the position it is saved at."""
        return await self._own(self.snapshotter.save(tell))

    async def verify(self) -> AsyncIterator[Progress]:
        """Check the ledger, fold all of it again and compare. Raises Corrupt; yields progress."""
        async for progress in self._ledger.verify():
            yield progress
        shadow = folded(self._ledger, self._build_bare())
        async for progress in fold_shadow(shadow, self._writer):
            yield progress
        async for progress in compare(shadow, self._writer):
            yield progress

    async def rebuild(self) -> AsyncIterator[Progress]:
        """Fold everything from the beginning into a new index, and go on with that."""
        if self.rebuilder is not None:
            async for progress in _told(partial(self.rebuilder.refill, anew=True)):
                yield progress
            return
        home = self._build()
        shadow = folded(self._ledger, home)
        async for progress in fold_shadow(shadow, self._writer):
            yield progress
        await self._own(self._replace(home, shadow))

    def _build_bare(self) -> IndexHome:
        return self._build().apart()

    async def _replace(self, home: IndexHome, shadow: Projector) -> None:
        async with self._writer.turn():
            await shadow.catch_up(through=self.position)
            shadow.follow(self._writer.projector)
            with self._reading:
                self._writer.projector = self.reader.projector = self.projector = shadow
                self._home = home


async def _told(work: Callable[[Tell], Coroutine[Any, Any, None]]) -> AsyncIterator[Progress]:
    """Do something that tells how far it is, and yield that."""
    told: asyncio.Queue[Progress | None] = asyncio.Queue()
    task = asyncio.create_task(work(told.put_nowait))
    task.add_done_callback(lambda _: told.put_nowait(None))
    try:
        while (progress := await told.get()) is not None:
            yield progress
        await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _has_key(item: Item) -> bool:
    return isinstance(item, Mapping) and item.get("key") is not None


def _says_nothing_new(said: ProfileUpdate, merged: Attributes, known: Profile) -> bool:
    """Whether a profile is as said already. By its text: to Python ``True`` and 1 are the same."""
    same_name = "name" not in said.fields or said.name == known.name
    return same_name and repr(merged) == repr(dict(sorted(known.attributes.items())))


def _beside_profile(player: str, body: Mapping[str, object], actor: str | None) -> list[Fact]:
    """Return the facts for friends and visibility in a body. Raises InvalidProfile."""
    facts: list[Fact] = []
    if "friends" in body:
        given = () if body["friends"] is None else body["friends"]
        facts.append(FriendsSet(player, read_friends(given, player=player), actor))
    if "visibility" in body:
        facts.append(VisibilitySet(player, read_visibility(body["visibility"]), actor))
    return facts


def _profiled(player: str, said: ProfileUpdate, actor: str | None) -> list[Fact]:
    """Return the facts for a change of a profile, with the changed fields only.

    A whole profile, made from this node's state, could undo a concurrent change by another node.
    """
    match "name" in said.fields, "attributes" in said.fields:
        case True, True:
            return [PlayerProfiled(player, said.name, said.attributes, actor)]
        case True, False:
            return [NameSet(player, said.name, actor)]
        case False, True:
            return [AttributesSet(player, None, said.attributes, actor)]
    return []


async def _refuse_misfit(draft: BoardRebuild, page: BoardState) -> None:
    misfit = await draft.misfit(page)
    if misfit is not None:
        window, player = misfit
        message = f"must be fewer: a score of {player!r} in {window} would not fit 64 bits"
        raise InvalidBoard([FieldError("decimals", message)])


def _refuse_past_expiry(board: Board, now: Instant) -> None:
    if board.expires is not None and board.expires <= now:
        message = f"must be later than now, {show_instant(now)}"
        raise InvalidBoard([FieldError("expires", message)])


def _refuse_other(board: Board, known: Board) -> None:
    if changes := known.changes(board):
        fields = tuple(change.field for change in changes)
        raise BoardDiffers(board=board.name, fields=fields)


async def verify_saved(ledger: LedgerReader, build: Build, tell: Tell) -> AsyncIterator[Progress]:
    """Compare the saved index of a ledger that is closed with its facts. Raises IndexDiffers."""
    found = IdleProjector((await recover(ledger, build, tell)).projector)
    shadow = folded(ledger, build().apart())
    async for progress in fold_shadow(shadow, found):
        yield progress
    async for progress in compare(shadow, found):
        yield progress
