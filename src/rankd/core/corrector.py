"""Corrections by an operator: adjustments, retractions, decisions on reviews, states of players.

A retraction, its undoing and an approval tell their effect: the entries that change, before and
after. It is computed from the histories of the players concerned, in the writer's turn, and the
fact is recorded only if no other fact came between. A dry run stops before the fact is recorded.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from rankd.core.board_state import BoardState, OpenedWindow, SealedWindow, Terms
from rankd.core.corrections import Retraction, is_active
from rankd.core.mass_retraction import MassRetraction, Place, Selected, Tell, scan
from rankd.core.overlay import EntryChange, Overlay
from rankd.core.player_history import (
    Corrections,
    Entry,
    PlayerHistory,
    corrections_of,
    facts_of_player,
)
from rankd.core.reader import RankingView, Reader
from rankd.core.refold import BoardPlayer, recorded_window, selected_players
from rankd.core.reviews import Review, find_review
from rankd.core.state import State, retraction_of_flagged
from rankd.core.writer import DefinitionChanged, Writer, WriteResult
from rankd.errors import (
    FieldError,
    Invalid,
    InvalidRequest,
    InvalidSubmission,
    LedgerUnavailable,
    NotRanked,
    Unavailable,
    UnknownRetraction,
    UnknownSubmission,
)
from rankd.model.correction import (
    RETRACTED_PLAYERS_MAX,
    Selection,
    read_adjustment,
    read_selection,
    read_state,
)
from rankd.model.facts import (
    Edition,
    Fact,
    MetadataSet,
    PlayerStanding,
    PlayerStateSet,
    Position,
    RetractionUndone,
    ReviewDecided,
    ScoreAdjusted,
    ScoresRetracted,
    is_submission,
)
from rankd.model.profile import check_player, read_reason
from rankd.model.standing import Rank, Standing
from rankd.model.submission import read_metadata
from rankd.model.window import Instant
from rankd.ports import Ledger, Placed, Ranking

TRIES_MAX = 100
"""How often a correction is tried while other nodes append all the time."""

DRAFT_BEHIND_MAX, DRAFT_PASSES_MAX = 1_000, 50
"""How near drafts come to the head before the writer waits for them, and how often they try."""

CHANGES_SHOWN_MAX = 100
"""Changed entries that an answer lists; of the others it tells how many there are."""


ONE_BOARD = "is of one board: name the board"

T = TypeVar("T")


class Own(Protocol):
    """Runs a coroutine to its end, also if its caller is cancelled."""

    async def __call__(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of the coroutine."""


class ScoreChange(NamedTuple):
    """An entry before and after a correction."""

    board: str
    player: str
    window: str
    """The id of the window."""
    scores: tuple[int, ...] | None
    previous_scores: tuple[int, ...] | None
    rank: Rank | None
    previous_rank: Rank | None
    decimals: int


class CorrectionEffect(NamedTuple):
    """The effect of a correction."""

    position: Position | None
    """Where it is recorded; None for a dry run, and if there was nothing to do."""
    dry_run: bool
    submissions: int
    """How many of them it concerns."""
    players: int
    changes: Sequence[ScoreChange]
    """The first CHANGES_SHOWN_MAX."""
    more: int
    """How many other entries change."""


class _Changed(NamedTuple):
    page: BoardState
    player: str
    window: str
    before: Entry | None
    after: Entry | None


class _Computed(NamedTuple):
    """A correction that is ready to be recorded."""

    fact: Fact | None
    submissions: int
    players: int
    changed: Sequence[_Changed]


Alter = Callable[[Corrections], Corrections]
"""Returns the corrections of a player's submissions after one more."""


class Corrector:
    """Records corrections, and tells their effects."""

    def __init__(
        self,
        ledger: Ledger,
        writer: Writer,
        reader: Reader,
        *,
        page: Callable[[str], Awaitable[BoardState]],
        own: Own,
        alone: asyncio.Lock,
    ) -> None:
        self._ledger = ledger
        self._writer = writer
        self._reader = reader
        self._page = page
        """Returns a board's page, also if another node has just defined it."""
        self._own = own
        self._alone = alone
        """Held while boards are redefined: a rebuild would have to begin anew."""

    @property
    def _state(self) -> State:
        return self._writer.projector.state

    # ------------------------------------------------------------------------ requests

    async def adjust(
        self, name: str, body: Mapping[str, object], *, actor: str | None = None
    ) -> WriteResult:
        """Set or shift a player's entry in every open window, under any rule of the board.

        Raises InvalidSubmission and ScoreOutOfBounds.
        """
        while True:
            page = await self._page(name)
            fact = await self._read_adjustment(page, body, actor)
            try:
                (answer,) = await self._writer.put([fact], boards=(page.board,))
            except DefinitionChanged:
                continue
            return answer

    async def _read_adjustment(
        self, page: BoardState, body: Mapping[str, object], actor: str | None
    ) -> ScoreAdjusted:
        """Read an adjustment; a repeated one as the first time, so that it is known for the same.

        Raises InvalidSubmission and ScoreOutOfBounds.
        """
        key = body.get("key")
        if isinstance(key, str) and page.earlier:
            first = await self._ledger.first_use(board=page.board.name, key=key)
            if first is not None:
                with suppress(Invalid):  # Then it says something else than the first time.
                    return read_adjustment(page.board_at(first.position), body, actor=actor)
        return read_adjustment(page.board, body, actor=actor)

    async def set_metadata(
        self, name: str, player: str, metadata: object, *, actor: str | None = None
    ) -> Position:
        """Put other metadata beside a player's entries in the open windows; None removes it.

        Raises InvalidSubmission, and NotRanked for a player without an entry.
        """
        page = await self._page(name)
        errors: list[FieldError] = []
        encoded = None if metadata is None else read_metadata(metadata, "metadata", errors)
        if errors:
            raise InvalidSubmission(errors)
        where = [RankingView.of(opened, opened.ranking) for opened in page.windows.values()]
        if not [one for one in where if await self._reader.standing_in(one, player) is not None]:
            raise NotRanked(board=name, window=page.default, player=player)
        return await self._put(MetadataSet(name, player, encoded, actor))

    async def retract(
        self,
        name: str | None,
        body: Mapping[str, object],
        *,
        actor: str | None = None,
        dry_run: bool = False,
        tell: Tell = lambda _: None,
    ) -> CorrectionEffect:
        """Have submissions count no more, on a board or on all; return the effect.

        ``body`` selects them by position, key, player, build, a range of time, or by the players
        whose entries in a window lie in a range of scores; all conditions must hold. Raises
        InvalidRequest, UnknownSubmission and, for a range of scores, InvalidPage.
        """
        selection, reason = read_selection(body), read_reason(body.get("reason"))
        if name is not None:
            await self._page(name)
        fact = await self._selecting(name, selection, actor, reason)
        if selection.has_range:
            compute = partial(self._range_retraction, fact, selection)
            return await self._own(self._correct(compute, dry_run=dry_run))
        if fact.is_broad:
            head = self._writer.projector.checkpoint
            selected = await scan(self._ledger, self._state, fact, through=head, tell=tell)
            if selected.are_many:
                mass = self._mass(fact, selected, None)
                return await self._own(self._replace_windows(mass, fact, dry_run, tell))
        return await self._own(self._correct(partial(self._retraction, fact), dry_run=dry_run))

    async def _selecting(
        self, name: str | None, selection: Selection, actor: str | None, reason: str | None
    ) -> ScoresRetracted:
        """Return the fact of a retraction: keys and times as positions."""
        positions, player = selection.positions, selection.player
        if name is None and selection.has_range:
            raise InvalidRequest([FieldError("score_min", ONE_BOARD)])
        if selection.key is not None:
            if name is None:
                raise InvalidRequest([FieldError("key", ONE_BOARD)])
            use = await self._ledger.first_use(board=name, key=selection.key)
            if use is None or (positions and use.position not in positions):
                raise UnknownSubmission(board=name, named=f"key {selection.key!r}")
            positions = (use.position,)
        for position in positions:
            player = await self._player_at(name, position, selection.player, len(positions) == 1)
        first = last = None
        if selection.since is not None:
            first = await self._position_at(selection.since)
        if selection.until is not None:
            last = Position(await self._position_at(selection.until) - 1)
        given = positions, selection.build, first, last, actor, reason
        return ScoresRetracted(name, player, *given, players=selection.players)

    async def _player_at(
        self, name: str | None, position: Position, player: str | None, alone: bool
    ) -> str | None:
        """Return the player to record for a retracted position. Raises UnknownSubmission."""
        found = await self._ledger.read(after=Position(position - 1), limit=1)
        fact = found[0].fact if found and found[0].position == position else None
        if fact is None or not is_submission(fact) or name not in (None, fact.board):
            raise UnknownSubmission(board=name, named=f"position {position}")
        return fact.player if alone else player

    async def _position_at(self, at: Instant) -> Position:
        """Return the first position recorded at a time or later; past the head if none is."""
        low, high = Position(1), Position(await self._ledger.head() + 1)
        while low < high:
            middle = Position((low + high) // 2)
            found = await self._ledger.read(after=Position(middle - 1), limit=1)
            if found and found[0].at < at:
                low = Position(found[0].position + 1)
            else:
                high = middle
        return low

    async def undo_retraction(
        self,
        name: str | None,
        position: Position,
        *,
        actor: str | None = None,
        reason: str | None = None,
        dry_run: bool = False,
        tell: Tell = lambda _: None,
    ) -> CorrectionEffect:
        """Take a retraction back; return the effect. Raises UnknownRetraction.

        With a board, only one on this board; one on all boards is taken back without.
        """
        known = self._state.retractions.get(position)
        if known is not None and name not in (None, known.fact.board):
            known = None
        if known is not None and known.in_force and known.fact.is_broad:
            until = Position(position - 1)
            selected = await scan(
                self._ledger, self._state, known.fact, through=until, undone=known, tell=tell
            )
            if selected.are_many:
                mass = self._mass(known.fact, selected, known)
                undoing = RetractionUndone(
                    known.fact.board, position, None, actor, read_reason(reason)
                )
                return await self._own(self._replace_windows(mass, undoing, dry_run, tell))
        compute = partial(self._undoing, name, position, actor, read_reason(reason))
        return await self._own(self._correct(compute, dry_run=dry_run))

    async def decide_review(
        self,
        id: str,
        *,
        approved: bool,
        actor: str | None = None,
        reason: str | None = None,
    ) -> CorrectionEffect:
        """Approve or reject a held submission; return the effect. Raises UnknownReview."""
        review = await find_review(self._state, self._ledger, id)
        compute = partial(self._decision, review, approved, actor, read_reason(reason))
        return await self._own(self._correct(compute, dry_run=False))

    async def set_player_state(
        self,
        player: str,
        state: PlayerStanding,
        body: Mapping[str, object],
        *,
        actor: str | None = None,
    ) -> Position:
        """Ban, hide, shadow or restore a player; return the position from which it holds.

        Nothing is recorded where an active player is restored: the position is the present one.

        Raises InvalidProfile, InvalidRequest.
        """
        check_player(player)
        said = read_state(body, self._writer.now())
        fact = PlayerStateSet(player, state, said.boards, said.until, None, actor, said.reason)
        return await self._own(self._set_player_state(fact))

    async def _set_player_state(self, fact: PlayerStateSet) -> Position:
        async with self._alone:
            if fact.state == "active":
                await self._writer.see_others()
                known = self._state.player_states.get(fact.player, ())
                if is_active(known, fact.boards):
                    return self._writer.projector.checkpoint
            return await self._put(fact)

    async def _put(self, fact: Fact) -> Position:
        (answer,) = await self._writer.put([fact])
        return answer.position

    # ------------------------------------------------------- retractions of many players

    def _mass(
        self, fact: ScoresRetracted, selected: Selected, undone: Retraction | None
    ) -> MassRetraction:
        index = self._writer.projector.index
        return MassRetraction(self._ledger, index, self._state, fact, selected, undone=undone)

    async def _replace_windows(
        self,
        drafts: MassRetraction,
        fact: ScoresRetracted | RetractionUndone,
        dry_run: bool,
        tell: Tell,
    ) -> CorrectionEffect:
        """Fold windows beside the living ones, and put them in their place by a fact."""
        projector = self._writer.projector
        async with self._alone:
            try:
                for _ in range(DRAFT_PASSES_MAX):
                    await drafts.catch_up(through=projector.checkpoint, tell=tell)
                    if projector.checkpoint - drafts.position <= DRAFT_BEHIND_MAX:
                        break
                effect = await self._drafted_effect(drafts, dry_run)
                if dry_run or not (effect.submissions or drafts.undone):
                    return effect
                projector.retractions.append(drafts)
                return effect._replace(position=await self._record_drafts(drafts, fact))
            finally:
                if drafts in projector.retractions:
                    projector.retractions.remove(drafts)
                await drafts.discard()

    async def _record_drafts(
        self, drafts: MassRetraction, fact: ScoresRetracted | RetractionUndone
    ) -> Position:
        async with self._writer.turn():
            for _ in range(TRIES_MAX):
                await self._writer.catch_up_others()
                now = self._writer.now()
                await self._writer.record([], now=now)  # Windows that are over are closed.
                after = self._writer.projector.checkpoint
                await drafts.catch_up(through=after)
                await drafts.stage_editions()
                recorded = msgspec.structs.replace(fact, editions=tuple(drafts.editions))
                answers = await self._writer.record_after([recorded], now=now, after=after)
                if answers is not None:
                    return answers[0].position
        raise LedgerUnavailable("other nodes append all the time; try again", applied="no")

    async def _drafted_effect(self, drafts: MassRetraction, dry_run: bool) -> CorrectionEffect:
        changed, more = await drafts.changes(CHANGES_SHOWN_MAX)
        shown = []
        for one in changed:
            window = recorded_window(one.page, one.window)
            terms, at = window.terms, self._shown_at(window)
            ranks = [await self._rank_at(terms, place) for place in (one.after, one.before)]
            scores = [terms.shown(place.order_key, at) for place in (one.after, one.before)]
            name, decimals = one.page.board.name, terms.board.decimals
            entries = (scores[0], scores[1], ranks[0], ranks[1])
            shown.append(ScoreChange(name, one.player, one.window, *entries, decimals))
        selected = drafts.selected
        return CorrectionEffect(
            None, dry_run, selected.submissions, len(selected.players), shown, more
        )

    def _shown_at(self, window: OpenedWindow | SealedWindow) -> Instant:
        """Return the time whose scores are shown, under decay."""
        return self._reader.shown_at(RankingView.of(window, window.ranking)) or 0

    async def _rank_at(self, terms: Terms, place: Place) -> Rank | None:
        if not place.ranking.readable:
            return None
        where = RankingView(terms, place.ranking)
        return _rank_of(await self._reader.standing_in(where, place.player))

    # ----------------------------------------------------------------------- computing

    async def _retraction(self, fact: ScoresRetracted) -> _Computed:
        """Compute a retraction; nothing is to be recorded if it selects none that counts."""
        head = self._writer.projector.checkpoint
        coming = Retraction(Position(head + 1), fact)
        selected = await selected_players(self._ledger, fact, before=coming.position)
        count, players, changed = 0, 0, list[_Changed]()

        def alter(corrections: Corrections) -> Corrections:
            return corrections._replace(retractions=[*corrections.retractions, coming])

        for pair in selected:
            history = await self._altered(pair, alter, head)
            if history is not None and (some := history.newly_retracted(coming)):
                count, players = count + some, players + 1
                changed += history.changes()
        recorded = msgspec.structs.replace(fact, editions=_editions(changed))
        return _Computed(recorded if count else None, count, players, changed)

    async def _range_retraction(self, fact: ScoresRetracted, selection: Selection) -> _Computed:
        """Compute a retraction of the players whose entries lie in a range of scores now."""
        assert fact.board is not None
        page = await self._reader.page(
            fact.board,
            window=selection.window,
            score_min=selection.score_min,
            score_max=selection.score_max,
            limit=RETRACTED_PLAYERS_MAX,
        )
        if (page.in_range or 0) > RETRACTED_PLAYERS_MAX:
            message = f"has {page.in_range:,} players; at most {RETRACTED_PLAYERS_MAX:,} at once"
            raise InvalidRequest([FieldError("score_min", f"and score_max: the range {message}")])
        players = tuple(sorted(page.players))
        if not players:
            return _Computed(None, 0, 0, [])
        return await self._retraction(msgspec.structs.replace(fact, players=players))

    async def _undoing(
        self, board: str | None, position: Position, actor: str | None, reason: str | None
    ) -> _Computed:
        """Compute the undoing of a retraction; a second time there is nothing to record."""
        known = self._state.retractions.get(position)
        if known is None or board not in (None, known.fact.board):
            raise UnknownRetraction(board=board, position=position)
        if not known.in_force:
            return _Computed(None, 0, 0, [])
        head = self._writer.projector.checkpoint
        undone = known._replace(undone=Position(head + 1))
        selected = await selected_players(self._ledger, known.fact, before=known.position)
        count, players, changed = 0, 0, list[_Changed]()

        def alter(corrections: Corrections) -> Corrections:
            retractions = [
                undone if one.position == position else one for one in corrections.retractions
            ]
            return corrections._replace(retractions=retractions)

        for pair in selected:
            history = await self._altered(pair, alter, head)
            if history is not None and (some := history.newly_counted(known)):
                count, players = count + some, players + 1
                changed += history.changes()
        fact = RetractionUndone(
            known.fact.board, position, known.fact.player, actor, reason, _editions(changed)
        )
        return _Computed(fact, count, players, changed)

    async def _decision(
        self, review: Review, approved: bool, actor: str | None, reason: str | None
    ) -> _Computed:
        """Compute a decision on a review; only the first is recorded."""
        submission, board, player = review.position, review.board, review.player
        reviews = self._state.reviews
        if not reviews.is_open(submission):
            return _Computed(None, 0, 0, [])
        changed: list[_Changed] = []
        fact = ReviewDecided(board, player, submission, approved, actor, reason)
        if approved is (submission in reviews.held):
            alter = self._deciding(fact)
            history = await self._altered((board, player), alter, self._writer.projector.checkpoint)
            changed += [] if history is None else history.changes()
        fact = msgspec.structs.replace(fact, editions=_editions(changed))
        return _Computed(fact, 1, 1, changed)

    def _deciding(self, fact: ReviewDecided) -> Alter:
        """Return how a decision alters the corrections of its player."""
        coming = Position(self._writer.projector.checkpoint + 1)

        def alter(corrections: Corrections) -> Corrections:
            if fact.approved:
                held = {**corrections.held, fact.submission: coming}
                return corrections._replace(held=held)
            retraction = Retraction(coming, retraction_of_flagged(fact))
            return corrections._replace(retractions=[*corrections.retractions, retraction])

        return alter

    # ----------------------------------------------------------------------- recording

    async def _correct(
        self, compute: Callable[[], Awaitable[_Computed]], *, dry_run: bool
    ) -> CorrectionEffect:
        """Record a correction as of the head that it was computed at."""
        async with self._alone, self._writer.turn():
            for _ in range(TRIES_MAX):
                await self._writer.catch_up_others()
                now = self._writer.now()
                if not dry_run:
                    await self._writer.record([], now=now)  # Windows that are over are closed.
                after = self._writer.projector.checkpoint
                computed = await compute()
                changes = await self._shown(computed.changed)
                more = len(computed.changed) - len(changes)
                effect = CorrectionEffect(
                    None, dry_run, computed.submissions, computed.players, changes, more
                )
                if dry_run or computed.fact is None:
                    return effect
                answers = await self._writer.record_after([computed.fact], now=now, after=after)
                if answers is not None:
                    return effect._replace(position=answers[0].position)
        raise LedgerUnavailable("other nodes append all the time; try again", applied="no")

    async def _altered(self, pair: BoardPlayer, alter: Alter, head: Position) -> "_Altered | None":
        board, player = pair
        page = self._state.boards.get(board)
        if page is None:
            return None
        erased = self._state.erased
        facts = await facts_of_player(self._ledger, page, player, erased, through=head)
        known = corrections_of(self._state, page, facts)
        wrong_times = self._state.wrong_times
        before = PlayerHistory(page, facts, known, wrong_times)
        return _Altered(page, player, before, PlayerHistory(page, facts, alter(known), wrong_times))

    # ------------------------------------------------------------------------- effects

    async def _shown(self, changed: Sequence[_Changed]) -> list[ScoreChange]:
        """Return the first changes with the ranks before and after all of them."""
        views: dict[Ranking, Overlay] = {}
        shown = []
        for one in changed[:CHANGES_SHOWN_MAX]:
            window = recorded_window(one.page, one.window)
            board = one.page.board
            ranks: tuple[Rank | None, Rank | None] = (None, None)
            if self._state.player_state(one.player, board.name) is None:
                with suppress(Unavailable):
                    view = views.get(window.ranking)
                    if view is None:
                        view = views[window.ranking] = self._view(window.ranking, changed)
                    where = RankingView(window.terms, window.ranking)
                    ranks = await self._ranks(view, where, one.player)
            at = self._shown_at(window)
            after, before = (
                entry and window.terms.order.shown(entry.scores, at)
                for entry in (one.after, one.before)
            )
            decimals = window.terms.board.decimals
            shown.append(
                ScoreChange(board.name, one.player, one.window, after, before, *ranks, decimals)
            )
        return shown

    def _view(self, ranking: Ranking, changed: Sequence[_Changed]) -> Overlay:
        changes = {
            one.player: EntryChange(_placed(one.player, one.before), _placed(one.player, one.after))
            for one in changed
            if (one.page.board.name, one.window) == (ranking.board, ranking.window)
            and self._state.player_state(one.player, ranking.board) is None
        }
        return Overlay(self._writer.projector.index, ranking, changes)

    async def _ranks(
        self, view: Overlay, where: RankingView, player: str
    ) -> tuple[Rank | None, Rank | None]:
        after = await self._reader.over(view).standing_in(where, player)
        before = await self._reader.standing_in(where, player)
        return _rank_of(after), _rank_of(before)


class _Altered(NamedTuple):
    """A player's history as it is, and as it would be after a correction."""

    page: BoardState
    player: str
    before: PlayerHistory
    after: PlayerHistory

    def changes(self) -> list[_Changed]:
        """Return the windows in which the player's entry differs."""
        return [
            _Changed(self.page, self.player, window, entry, other)
            for window in self.before.windows
            if (entry := self.before.entries.get(window))
            != (other := self.after.entries.get(window))
            and not self.page.is_prepared(window)
        ]

    def newly_retracted(self, retraction: Retraction) -> int:
        """Return how many submissions it retracts that no other retraction does."""
        return sum(map(self.before.is_counted, self.after.selected_by(retraction)))

    def newly_counted(self, retraction: Retraction) -> int:
        """Return how many submissions count again once it is undone."""
        return sum(map(self.after.is_counted, self.before.selected_by(retraction)))


def _rank_of(standing: Standing | None) -> Rank | None:
    return None if standing is None else standing.rank


def _placed(player: str, entry: Entry | None) -> Placed | None:
    return None if entry is None else Placed(player, entry.order_key, entry.metadata)


def _editions(changed: Sequence[_Changed]) -> tuple[Edition, ...]:
    """Return the sealed windows among those that change."""
    closed = {
        (one.page.board.name, one.window): None
        for one in changed
        if one.page.has_editions(one.window)
    }
    return tuple(Edition(*place) for place in closed)
