"""Rankd: the assembled whole. Opening recovers, closing leaves nothing undone.

submit ─▶ intake ─▶ ledger ─▶ projector ─▶ index ◀─ reader ◀─ standing, page, around
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from typing import Any, TypeVar

from rankd.core.book import BoardPage
from rankd.core.draft import Draft, refolded
from rankd.core.intake import Answer, HandedIn, Intake, Overtaken
from rankd.core.joint import Joint
from rankd.core.managers import (
    SAVE_AT_CLOSE_FACTS,
    Archiver,
    Drainer,
    Keeper,
    Mender,
    Pursuer,
    Sealer,
    Snapshotter,
)
from rankd.core.preview import Preview, preview
from rankd.core.projector import Projector, Tell
from rankd.core.recovery import Build, Home, Shared, folded, recover
from rankd.core.turns import windows_at
from rankd.core.view import View
from rankd.errors import (
    BoardDiffers,
    FieldError,
    IndexDiffers,
    Invalid,
    InvalidBoard,
    LedgerUnavailable,
    RankdError,
    Refused,
    UnknownKey,
)
from rankd.model.board import Board
from rankd.model.facts import (
    BoardDefined,
    BoardRetired,
    Fact,
    FriendsSet,
    KeyCreated,
    KeyRevoked,
    PlayerErased,
    PlayerProfiled,
    Position,
    ScoreSubmitted,
)
from rankd.model.profile import check_player, read_friends, read_profile, read_reason
from rankd.model.redefinition import check_redefinition
from rankd.model.standing import Rank
from rankd.model.submission import Item, at_item, read_facts
from rankd.ports import Archive, Clock, Ledger, Progress, Ranking, Spool

COMPARED_TOGETHER = 4_096
"""How many entries are compared before others get their turn: some ten milliseconds."""

DRAFT_BEHIND_MAX = 1_000
"""How near a draft comes to the head before the writer waits for it."""

DRAFT_PASSES_MAX = 50
"""How often a draft goes after a head that runs ahead of it. Then the writer waits all the same."""

DEFINITION_TRIES_MAX = 100
"""How often a definition is tried while other nodes append all the time."""

T = TypeVar("T")
_log = logging.getLogger(__name__)


def _say_nothing(_progress: Progress) -> None:
    pass


class Rankd(View):
    """A leaderboard engine: boards, submissions and standings over one ledger and one index."""

    def __init__(  # noqa: PLR0913 - what it is put together from
        self,
        *,
        ledger: Ledger,
        intake: Intake,
        clock: Clock,
        build: Build,
        home: Home,
        saved: Position,
        reading: AbstractContextManager[Any],
    ) -> None:
        super().__init__(intake.projector, clock)
        self.sealer = Sealer(intake, clock)
        self.snapshotter = Snapshotter(intake, lambda: self._home.snapshots, saved)
        self.pursuer = Pursuer(intake, ledger)
        self._ledger = ledger
        self._intake = intake
        self._build = build
        self._home = home
        self._reading = reading
        self._defining = asyncio.Lock()
        self._owned: set[asyncio.Task[Any]] = set()

    @property
    def failure(self) -> RankdError | None:
        """Why the engine takes no more, or sees nothing of what others append, if that is so."""
        failure = self._intake.failure or self.pursuer.failure
        if failure is None and isinstance(self.projector, Joint):
            return self.projector.failure
        return failure

    @property
    def ended(self) -> bool:
        """Whether it takes nothing more for good."""
        return self._intake.failure is not None

    @property
    def waiting(self) -> int:
        """How many facts wait for a commit."""
        return self._intake.waiting

    @property
    def spooled(self) -> int:
        """How many submissions wait on this node's disk for the ledger to be back."""
        return 0 if self._intake.spool is None else self._intake.spool.waiting

    @property
    def commits(self) -> int:
        """How many appends there were since the start."""
        return self._intake.commits

    @property
    def unsaved(self) -> int:
        """How many positions a start would have to fold again."""
        return self.snapshotter.unsaved

    async def _own(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something to its end, also if whoever asked for it goes away meanwhile."""
        task = asyncio.ensure_future(work)
        self._owned.add(task)
        task.add_done_callback(self._owned.discard)
        return await asyncio.shield(task)

    async def finish(self) -> None:
        """Wait for what is being done to its end."""
        while self._owned:
            await asyncio.wait(self._owned)

    # ------------------------------------------------------------------------- boards

    async def define(
        self, name: str, definition: Mapping[str, object], *, actor: str | None = None
    ) -> Board:
        """Define a board, or return it if it is defined just so. Raises BoardDiffers."""
        board = _read_board(name, definition)
        return await self._own(self._define(board, actor))

    async def _define(self, board: Board, actor: str | None) -> Board:
        async with self._defining:
            while True:
                known = self.book.boards.get(board.name)
                if known is not None and (changes := known.board.changes(board)):
                    fields = tuple(change.field for change in changes)
                    raise BoardDiffers(board=board.name, fields=fields)
                if known is not None or await self._put_definition(board, actor, instead_of=None):
                    return self.book.page(board.name).board

    async def _put_definition(
        self, board: Board, actor: str | None, *, instead_of: Board | None
    ) -> bool:
        """Record a definition with the windows that count from then on.

        False if the one it was to be put in place of is no longer in force.
        """
        async with self._intake.turn():
            for _ in range(DEFINITION_TRIES_MAX):
                await self._intake.pursue()
                now = self._intake.now()
                await self._intake.record([], now=now)  # Windows that are over must not go on.
                page = self.book.boards.get(board.name)
                if (None if page is None else page.board) is not instead_of:
                    return False
                windows = windows_at(page, board, now)
                fact = BoardDefined(board.name, board.definition(), actor, windows)
                after = self.position
                if await self._intake.record_after([fact], now=now, after=after) is not None:
                    return True
        raise LedgerUnavailable("other nodes append all the time; try again", applied="no")

    async def preview(self, name: str, definition: Mapping[str, object]) -> Preview:
        """Return what redefining a board would change. Nothing is changed."""
        board = _read_board(name, definition)
        async with self._defining:
            page = self.book.page(name)
            check_redefinition(page.board, board)
            draft = Draft(self._ledger, self._intake.projector.index, page, board)
            try:
                await draft.catch_up(through=self.position)
                return await preview(self.reader, page, draft)
            finally:
                await self._own(draft.discard())

    async def redefine(
        self,
        name: str,
        definition: Mapping[str, object],
        *,
        actor: str | None = None,
        tell: Tell = _say_nothing,
    ) -> Board:
        """Change a board's definition: fold again what it changes, then switch at one moment."""
        board = _read_board(name, definition)
        return await self._own(self._redefine(board, actor, tell))

    async def _redefine(self, board: Board, actor: str | None, tell: Tell) -> Board:
        async with self._defining:
            while True:
                page = self.book.page(board.name)
                if not page.board.changes(board):
                    return page.board
                check_redefinition(page.board, board)
                if await self._put_with_draft(page, board, actor, tell):
                    return self.book.page(board.name).board

    async def _put_with_draft(
        self, page: BoardPage, board: Board, actor: str | None, tell: Tell
    ) -> bool:
        """Record a changed definition, once what it changes is folded nearly to the head."""
        projector, before = self._intake.projector, page.board
        if refolded(page, board):
            draft = Draft(self._ledger, projector.index, page, board)
            try:
                for _ in range(DRAFT_PASSES_MAX):
                    if draft.position >= self.position - DRAFT_BEHIND_MAX:
                        break
                    await draft.catch_up(through=self.position, tell=tell)
            except BaseException:
                await draft.discard()
                raise
            projector.drafts[board.name] = draft
        try:
            return await self._put_definition(board, actor, instead_of=before)
        finally:
            if (left := projector.drafts.pop(board.name, None)) is not None:
                await left.discard()

    async def retire(
        self, name: str, *, actor: str | None = None, reason: str | None = None
    ) -> Position:
        """Take a board out of use. Its facts stay in the ledger."""
        reason = read_reason(reason)
        return await self._own(self._retire(name, actor, reason))

    async def _retire(self, name: str, actor: str | None, reason: str | None) -> Position:
        async with self._defining:
            self.book.page(name)
            return await self._put(BoardRetired(name, actor, reason))

    # -------------------------------------------------------------------- submissions

    async def submit(
        self, name: str, items: Sequence[Item], *, actor: str | None = None
    ) -> list[Answer]:
        """Have submissions to one board recorded, judged and counted, in one commit.

        Raises InvalidSubmission if one is malformed, and then nothing is recorded.
        """
        while True:
            page = await self._page(name)
            board = page.board
            facts = (
                await self._read_as_then(page, items, actor)
                if page.earlier and any(map(_has_key, items))
                else read_facts(board, items, actor=actor)
            )
            try:
                return await self._intake.put(facts, boards=(board,))
            except Overtaken:
                continue

    async def _page(self, name: str) -> BoardPage:
        """Return a board's page, also if another node has defined it a moment ago."""
        if name not in self.book.boards and self._ledger.shared:
            async with self._intake.turn():
                await self._intake.pursue()
        return self.book.page(name)

    def hand_in(self, fact: ScoreSubmitted, board: Board, tell: HandedIn) -> None:
        """Do what ``submit`` does for a caller who has read the fact, and is told later.

        It is told Overtaken if the board is another one by then. Raises Overloaded and
        LedgerUnavailable at once. A fact with a key must have been read as ``submit`` reads it.
        """
        self._intake.hand_in((fact,), tell, boards=(board,))

    async def submit_read(
        self, facts: Sequence[ScoreSubmitted], boards: Sequence[Board]
    ) -> list[Answer]:
        """Do what ``submit`` does with facts that the caller has read. Raises Overtaken."""
        return await self._intake.put(facts, boards=boards)

    async def _read_as_then(
        self, page: BoardPage, items: Sequence[Item], actor: str | None
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
                raise (exc if len(items) == 1 else at_item(place, exc)) from exc
        return facts

    async def submit_each(
        self, bodies: Sequence[tuple[str, Mapping[str, object]]], *, actor: str | None = None
    ) -> list[Answer | Refused]:
        """Have submissions to any boards recorded, each judged for itself; one commit.

        What is malformed, or made to a board that there is not, is told in its place.
        """
        while True:
            checked = [await self._check(name, body, actor) for name, body in bodies]
            facts = [fact for fact in checked if isinstance(fact, ScoreSubmitted)]
            boards = [self.book.page(name).board for name in {fact.board for fact in facts}]
            try:
                answers = iter(await self._intake.put(facts, boards=boards) if facts else [])
            except Overtaken:
                continue
            return [next(answers) if isinstance(one, Fact) else one for one in checked]

    async def _check(
        self, name: str, body: Mapping[str, object], actor: str | None
    ) -> ScoreSubmitted | Refused:
        try:
            page = await self._page(name)
            if page.earlier:
                return (await self._read_as_then(page, [body], actor))[0]
            return read_facts(page.board, [body], actor=actor)[0]
        except Refused as refused:
            return refused

    # ------------------------------------------------------------------------ players

    async def profile(
        self, player: str, body: Mapping[str, object], *, actor: str | None = None
    ) -> Position:
        """Set a player's profile, whole; friends only if they are given."""
        player = check_player(player)
        name, attributes = read_profile(body)
        facts: list[Fact] = [PlayerProfiled(player, name, attributes, actor)]
        if body.get("friends") is not None:
            friends = read_friends(body["friends"], player=player)
            facts.append(FriendsSet(player, friends, actor))
        return (await self._intake.put(facts))[-1].position

    async def set_friends(
        self, player: str, friends: object, *, actor: str | None = None
    ) -> Position:
        """Set a player's friends, all of them."""
        player = check_player(player)
        return await self._put(FriendsSet(player, read_friends(friends, player=player), actor))

    async def erase(
        self, player: str, *, actor: str | None = None, reason: str | None = None
    ) -> Position:
        """Forget a person: the profile and the friends go, entries stay without a name."""
        return await self._put(PlayerErased(check_player(player), actor, read_reason(reason)))

    async def _put(self, fact: Fact) -> Position:
        (answer,) = await self._intake.put([fact])
        return answer.position

    # --------------------------------------------------------------------------- keys

    async def create_key(self, key: KeyCreated) -> Position:
        """Let a key open what its scopes say."""
        return await self._put(key)

    async def revoke_key(self, id: str, *, actor: str | None = None) -> Position:
        """Let a key open nothing any more. Raises UnknownKey."""
        if all(key.id != id for key in self.book.keys.values()):
            raise UnknownKey(id)
        return await self._put(KeyRevoked(id, actor))

    # -------------------------------------------------------------------------- care

    async def save(self, tell: Tell = _say_nothing) -> Position:
        """Save the index now; return the position it is saved at."""
        return await self._own(self.snapshotter.save(tell))

    async def verify(self) -> AsyncIterator[Progress]:
        """Check the ledger, fold all of it again and compare. Raises Corrupt; yields progress."""
        async for progress in self._ledger.verify():
            yield progress
        shadow = folded(self._ledger, self._build_bare())
        async for progress in self._fold_shadow(shadow):
            yield progress
        async for progress in self._compare(shadow):
            yield progress

    async def rebuild(self) -> AsyncIterator[Progress]:
        """Fold everything from the beginning into a new index, and go on with that."""
        if isinstance(self.projector, Joint):
            async for progress in self._rebuild_shared(self.projector):
                yield progress
            return
        home = self._build()
        shadow = folded(self._ledger, home)
        async for progress in self._fold_shadow(shadow):
            yield progress
        await self._own(self._replace(home, shadow))

    async def _rebuild_shared(self, joint: Joint) -> AsyncIterator[Progress]:
        """Fill an index beside the one that lives, and let it live instead, for all nodes."""
        other = await joint.shared.beside()
        shadow = folded(self._ledger, Home(other, None))
        try:
            async for progress in self._fold_shadow(shadow):
                yield progress
            async with self._intake.turn():
                await shadow.catch_up(through=self.position)
                await joint.replace(other)
        except BaseException:
            await self._own(other.drop())
            raise

    def _build_bare(self) -> Home:
        return Home(self._build().index, None)

    async def _fold_shadow(self, shadow: Projector) -> AsyncIterator[Progress]:
        while shadow.checkpoint < self.position:
            through = min(self.position, Position(shadow.checkpoint + SHADOW_FACTS))
            await shadow.catch_up(through=through)
            yield Progress(shadow.checkpoint, self.position, "folding")
            await asyncio.sleep(0)
            if self.position - shadow.checkpoint <= SHADOW_BEHIND_MAX:
                break  # Writes go on meanwhile: who waits for the last of them waits for ever.

    async def _replace(self, home: Home, shadow: Projector) -> None:
        async with self._intake.turn():
            await shadow.catch_up(through=self.position)
            shadow.follow(self._intake.projector)
            with self._reading:
                self._intake.projector = self.reader.projector = self.projector = shadow
                self._home = home

    async def _compare(self, shadow: Projector) -> AsyncIterator[Progress]:
        done = 0
        for ranking in await self._rankings(shadow):
            first = 1
            while True:
                async with self._intake.turn():
                    await shadow.catch_up(through=self.position)
                    count, total = await self._compare_some(shadow, ranking, first)
                done, first = done + count, first + count
                yield Progress(done, max(done, done + total - first + 1), "comparing")
                if count == 0:
                    break

    async def _rankings(self, shadow: Projector) -> list[Ranking]:
        """Return the rankings that either side has."""
        async with self._intake.turn():
            await shadow.catch_up(through=self.position)
            both: dict[Ranking, None] = {}
            for projector in (self._intake.projector, shadow):
                for name in projector.book.boards:
                    both |= dict.fromkeys(await projector.index.rankings(name))
        return list(both)

    async def _compare_some(
        self, shadow: Projector, ranking: Ranking, first: int
    ) -> tuple[int, int]:
        ours, theirs = [
            await projector.index.read(ranking, first=Rank(first), limit=COMPARED_TOGETHER)
            for projector in (self._intake.projector, shadow)
        ]
        if ours.total != theirs.total or list(ours.entries) != list(theirs.entries):
            pairs = enumerate(zip(ours.entries, theirs.entries, strict=False))
            place = next((at for at, (one, other) in pairs if one != other), len(ours.entries))
            raise IndexDiffers(ranking=str(ranking), rank=first + place)
        return len(ours.entries), ours.total


SHADOW_BEHIND_MAX = 1_000
"""How near a shadow comes to the head before the writer waits for it."""

SHADOW_FACTS = 65_536
"""How many facts are folded between two words about progress."""


def _has_key(item: Item) -> bool:
    return isinstance(item, Mapping) and item.get("key") is not None


def _read_board(name: str, definition: Mapping[str, object]) -> Board:
    board = Board.define(name, definition)
    _refuse_unbuilt(board)
    return board


def _refuse_unbuilt(board: Board) -> None:
    """Refuse what a definition may say and this engine does not do: ignoring it would be a lie."""
    limits = board.limits
    asked = {
        "decay": board.decay is not None,
        "prize": board.prize,
        "limits.gain_per_minute_max": limits.gain_per_minute_max is not None,
        "limits.submissions_per_minute_max": limits.submissions_per_minute_max is not None,
    }
    errors = [FieldError(name, "is not supported yet") for name, given in asked.items() if given]
    if errors:
        raise InvalidBoard(errors)


@asynccontextmanager
async def running(  # noqa: PLR0913 - what it is put together from
    *,
    ledger: Ledger,
    build: Build,
    clock: Clock,
    reading: AbstractContextManager[Any],
    tell: Tell = _say_nothing,
    shared: Shared | None = None,
    spool: Spool | None = None,
    archive: Archive | None = None,
    manages: bool = True,
) -> AsyncIterator[Rankd]:
    """Recover from the ledger, serve, and stop once everything accepted has been answered.

    With a ``shared`` index, what ``build`` makes is only there to compare it with. A node that does
    not ``manage`` leaves to others what has to be done once, whoever does it.
    """
    found = await recover(ledger, build, tell, shared=shared)
    intake = Intake(
        ledger=ledger,
        projector=found.projector,
        clock=clock,
        reading=reading,
        owed=found.owed,
        spool=spool,
    )
    intake.link = found.link
    rankd = Rankd(
        ledger=ledger,
        intake=intake,
        clock=clock,
        build=build,
        home=found.home,
        saved=found.saved,
        reading=reading,
    )
    writer = asyncio.create_task(intake.run(), name="intake")
    loops = {"snapshotter": rankd.snapshotter.run()}
    if manages:
        loops["sealer"] = rankd.sealer.run()
    if found.home.index.shared:
        loops["mender"] = Mender(intake).run()
    if spool is not None:
        loops["drainer"] = Drainer(intake, spool).run()
    if ledger.shared:
        loops["pursuer"] = rankd.pursuer.run()
        loops["keeper"] = Keeper(intake, ledger).run()
    if archive is not None and manages:
        loops["archiver"] = Archiver(rankd.reader, archive).run()
    managers = [asyncio.create_task(loop, name=name) for name, loop in loops.items()]
    try:
        yield rankd
    finally:
        await _stop(rankd, intake, writer, managers)


async def _stop(
    rankd: Rankd, intake: Intake, writer: asyncio.Task[None], managers: Sequence[asyncio.Task[None]]
) -> None:
    for manager in managers:
        manager.cancel()
    await asyncio.gather(*managers, return_exceptions=True)
    await rankd.finish()
    intake.close()
    await writer
    await intake.finish()
    if intake.failure is None and rankd.snapshotter.unsaved >= SAVE_AT_CLOSE_FACTS:
        try:
            await rankd.save()
        except (RankdError, OSError) as exc:
            _log.error("the index could not be saved: %s", exc)
