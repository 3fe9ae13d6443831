"""Corrections through the handles: adjustments, retractions, metadata, and states of players.

The asynchronous classes await the engine; their synchronous twins pass the same calls to the
engine's thread.
"""

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from rankd.core.corrections import PlayerState
from rankd.core.corrector import CorrectionEffect
from rankd.core.reviews import Review, ReviewState
from rankd.embedded.handles import BoardHandle, RanksHandle, receipt_of
from rankd.model.facts import PlayerStanding, Position
from rankd.model.receipt import Receipt
from rankd.progress import Show, showing

T = TypeVar("T")


def _given(**fields: object) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}


class BoardCorrector(BoardHandle):
    """The corrections of a board, all awaited."""

    async def adjust(  # noqa: PLR0913 - the fields of an adjustment
        self,
        player: str,
        score: object = None,
        *,
        delta: object = None,
        key: str | None = None,
        columns: Mapping[str, object] | None = None,
        metadata: object = None,
        reason: str | None = None,
    ) -> Receipt:
        """Set or shift a player's score in every open window, under any rule of the board."""
        rankd = await self._wanted.made()
        body = _given(score=score, delta=delta, key=key, columns=columns, metadata=metadata)
        body |= {"player": player, "reason": reason}
        answer = await rankd.corrections.adjust(self.name, body)
        return receipt_of(answer, self.name, rankd)

    async def set_metadata(self, player: str, metadata: object) -> Position:
        """Put other metadata beside a player's entries in the open windows; None removes it.

        Raises NotRanked for a player without an entry.
        """
        rankd = await self._wanted.made()
        return await rankd.corrections.set_metadata(self.name, player, metadata)

    async def retract(  # noqa: PLR0913 - the conditions of a retraction
        self,
        *,
        position: int | None = None,
        positions: Sequence[int] | None = None,
        key: str | None = None,
        player: str | None = None,
        players: Sequence[str] | None = None,
        build: str | None = None,
        since: str | None = None,
        until: str | None = None,
        score_min: object = None,
        score_max: object = None,
        window: str | None = None,
        reason: str | None = None,
        dry_run: bool = False,
        progress: Show = None,
    ) -> CorrectionEffect:
        """Have submissions count no more, as if they had never been made; return the effect.

        All conditions must hold. ``since`` (inclusive) and ``until`` (exclusive) are RFC 3339 times
        of recording; ``score_min`` and ``score_max`` mean the players whose entries in ``window``
        lie between them now. With ``dry_run`` nothing is changed. Raises UnknownSubmission.
        """
        rankd = await self._wanted.made()
        body = _given(
            position=position,
            positions=positions,
            key=key,
            player=player,
            players=players,
            build=build,
            since=since,
            until=until,
            score_min=score_min,
            score_max=score_max,
            window=window,
            reason=reason,
        )
        with showing(progress) as tell:
            return await rankd.corrections.retract(self.name, body, dry_run=dry_run, tell=tell)

    async def remove(
        self, player: str, *, reason: str | None = None, dry_run: bool = False
    ) -> CorrectionEffect:
        """Retract all submissions of a player to this board. Later ones count."""
        return await BoardCorrector.retract(self, player=player, reason=reason, dry_run=dry_run)

    async def undo_retraction(
        self,
        position: int,
        *,
        reason: str | None = None,
        dry_run: bool = False,
        progress: Show = None,
    ) -> CorrectionEffect:
        """Take a retraction on this board back; a second time nothing is changed.

        Raises UnknownRetraction.
        """
        rankd = await self._wanted.made()
        with showing(progress) as tell:
            return await rankd.corrections.undo_retraction(
                self.name, Position(position), reason=reason, dry_run=dry_run, tell=tell
            )


class RanksCorrector(RanksHandle):
    """The corrections of an engine, all awaited."""

    async def retract(  # noqa: PLR0913 - the conditions of a retraction
        self,
        *,
        position: int | None = None,
        positions: Sequence[int] | None = None,
        player: str | None = None,
        players: Sequence[str] | None = None,
        build: str | None = None,
        since: str | None = None,
        until: str | None = None,
        reason: str | None = None,
        dry_run: bool = False,
        progress: Show = None,
    ) -> CorrectionEffect:
        """Have submissions to every board count no more; return the effect."""
        body = _given(
            position=position,
            positions=positions,
            player=player,
            players=players,
            build=build,
            since=since,
            until=until,
            reason=reason,
        )
        corrections = self._opened.rankd.corrections
        with showing(progress) as tell:
            return await corrections.retract(None, body, dry_run=dry_run, tell=tell)

    async def undo_retraction(
        self,
        position: int,
        *,
        reason: str | None = None,
        dry_run: bool = False,
        progress: Show = None,
    ) -> CorrectionEffect:
        """Take any retraction back, also one on every board. Raises UnknownRetraction."""
        corrections = self._opened.rankd.corrections
        with showing(progress) as tell:
            return await corrections.undo_retraction(
                None, Position(position), reason=reason, dry_run=dry_run, tell=tell
            )

    async def ban(
        self,
        player: str,
        *,
        reason: str | None = None,
        until: str | None = None,
        boards: Sequence[str] | None = None,
    ) -> Position:
        """Remove a player from the rankings and refuse its submissions, as PlayerBanned."""
        return await self._set_state(player, "banned", reason, until, boards)

    async def hide(
        self,
        player: str,
        *,
        reason: str | None = None,
        until: str | None = None,
        boards: Sequence[str] | None = None,
    ) -> Position:
        """Remove a player from the rankings; its submissions go on counting unseen."""
        return await self._set_state(player, "hidden", reason, until, boards)

    async def shadow(
        self,
        player: str,
        *,
        reason: str | None = None,
        until: str | None = None,
        boards: Sequence[str] | None = None,
    ) -> Position:
        """Hide a player from all but itself: its receipts show a world in which it is ranked."""
        return await self._set_state(player, "shadowed", reason, until, boards)

    async def restore(
        self, player: str, *, reason: str | None = None, boards: Sequence[str] | None = None
    ) -> Position:
        """Take back a ban, a hiding or a shadowing, with the scores counted meanwhile."""
        return await self._set_state(player, "active", reason, None, boards)

    async def player_states(self, player: str) -> Sequence[PlayerState]:
        """Return the states of a player, the newest last; none for an active player."""
        return self._opened.rankd.state.player_states.get(player, ())

    async def reviews(
        self, board: str | None = None, *, state: ReviewState | None = None
    ) -> list[Review]:
        """Return the submissions that rules held or flagged, newest first."""
        found = self._opened.rankd.state
        if board is not None:
            found.page(board)
        return found.reviews.select(board, state)

    async def approve_review(self, id: str, *, reason: str | None = None) -> CorrectionEffect:
        """Have a held submission count, at its original position. Raises UnknownReview."""
        corrections = self._opened.rankd.corrections
        return await corrections.decide_review(id, approved=True, reason=reason)

    async def reject_review(self, id: str, *, reason: str | None = None) -> CorrectionEffect:
        """Have a held submission never count, or retract a flagged one. Raises UnknownReview."""
        corrections = self._opened.rankd.corrections
        return await corrections.decide_review(id, approved=False, reason=reason)

    async def _set_state(
        self,
        player: str,
        state: PlayerStanding,
        reason: str | None,
        until: str | None,
        boards: Sequence[str] | None,
    ) -> Position:
        named = None if boards is None else list(boards)
        body = _given(reason=reason, until=until, boards=named)
        return await self._opened.rankd.corrections.set_player_state(player, state, body)


# ---------------------------------------------------------------------- synchronous twins


class EngineCaller(Protocol):
    """Runs the engine's coroutines for programs without an event loop."""

    def write(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the engine's loop and wait for its result."""


class BlockingBoardCorrector:
    """The corrections of a board for programs without an event loop."""

    def __init__(self, caller: EngineCaller, corrector: BoardCorrector) -> None:
        self._caller = caller
        self._corrector = corrector

    def adjust(  # noqa: PLR0913 - the fields of an adjustment
        self,
        player: str,
        score: object = None,
        *,
        delta: object = None,
        key: str | None = None,
        columns: Mapping[str, object] | None = None,
        metadata: object = None,
        reason: str | None = None,
    ) -> Receipt:
        """Set or shift a player's score in every open window, under any rule of the board."""
        return self._caller.write(
            self._corrector.adjust(
                player,
                score,
                delta=delta,
                key=key,
                columns=columns,
                metadata=metadata,
                reason=reason,
            )
        )

    def set_metadata(self, player: str, metadata: object) -> Position:
        """Put other metadata beside a player's entries in the open windows; None removes it.

        Raises NotRanked for a player without an entry.
        """
        return self._caller.write(self._corrector.set_metadata(player, metadata))

    def retract(  # noqa: PLR0913 - the conditions of a retraction
        self,
        *,
        position: int | None = None,
        positions: Sequence[int] | None = None,
        key: str | None = None,
        player: str | None = None,
        players: Sequence[str] | None = None,
        build: str | None = None,
        since: str | None = None,
        until: str | None = None,
        score_min: object = None,
        score_max: object = None,
        window: str | None = None,
        reason: str | None = None,
        dry_run: bool = False,
        progress: Show = None,
    ) -> CorrectionEffect:
        """Have submissions count no more, as if they had never been made; return the effect.

        All conditions must hold. ``since`` (inclusive) and ``until`` (exclusive) are RFC 3339 times
        of recording; ``score_min`` and ``score_max`` mean the players whose entries in ``window``
        lie between them now. With ``dry_run`` nothing is changed. Raises UnknownSubmission.
        """
        return self._caller.write(
            self._corrector.retract(
                position=position,
                positions=positions,
                key=key,
                player=player,
                players=players,
                build=build,
                since=since,
                until=until,
                score_min=score_min,
                score_max=score_max,
                window=window,
                reason=reason,
                dry_run=dry_run,
                progress=progress,
            )
        )

    def remove(
        self, player: str, *, reason: str | None = None, dry_run: bool = False
    ) -> CorrectionEffect:
        """Retract all submissions of a player to this board. Later ones count."""
        return self._caller.write(self._corrector.remove(player, reason=reason, dry_run=dry_run))

    def undo_retraction(
        self,
        position: int,
        *,
        reason: str | None = None,
        dry_run: bool = False,
        progress: Show = None,
    ) -> CorrectionEffect:
        """Take a retraction on this board back; a second time nothing is changed.

        Raises UnknownRetraction.
        """
        return self._caller.write(
            self._corrector.undo_retraction(
                position, reason=reason, dry_run=dry_run, progress=progress
            )
        )


class BlockingRanksCorrector:
    """The corrections of an engine for programs without an event loop."""

    def __init__(self, caller: EngineCaller, corrector: RanksCorrector) -> None:
        self._caller = caller
        self._corrector = corrector

    def retract(  # noqa: PLR0913 - the conditions of a retraction
        self,
        *,
        position: int | None = None,
        positions: Sequence[int] | None = None,
        player: str | None = None,
        players: Sequence[str] | None = None,
        build: str | None = None,
        since: str | None = None,
        until: str | None = None,
        reason: str | None = None,
        dry_run: bool = False,
        progress: Show = None,
    ) -> CorrectionEffect:
        """Have submissions to every board count no more; return the effect."""
        return self._caller.write(
            self._corrector.retract(
                position=position,
                positions=positions,
                player=player,
                players=players,
                build=build,
                since=since,
                until=until,
                reason=reason,
                dry_run=dry_run,
                progress=progress,
            )
        )

    def undo_retraction(
        self,
        position: int,
        *,
        reason: str | None = None,
        dry_run: bool = False,
        progress: Show = None,
    ) -> CorrectionEffect:
        """Take any retraction back, also one on every board. Raises UnknownRetraction."""
        return self._caller.write(
            self._corrector.undo_retraction(
                position, reason=reason, dry_run=dry_run, progress=progress
            )
        )

    def ban(
        self,
        player: str,
        *,
        reason: str | None = None,
        until: str | None = None,
        boards: Sequence[str] | None = None,
    ) -> Position:
        """Remove a player from the rankings and refuse its submissions, as PlayerBanned."""
        return self._caller.write(
            self._corrector.ban(player, reason=reason, until=until, boards=boards)
        )

    def hide(
        self,
        player: str,
        *,
        reason: str | None = None,
        until: str | None = None,
        boards: Sequence[str] | None = None,
    ) -> Position:
        """Remove a player from the rankings; its submissions go on counting unseen."""
        return self._caller.write(
            self._corrector.hide(player, reason=reason, until=until, boards=boards)
        )

    def shadow(
        self,
        player: str,
        *,
        reason: str | None = None,
        until: str | None = None,
        boards: Sequence[str] | None = None,
    ) -> Position:
        """Hide a player from all but itself: its receipts show a world in which it is ranked."""
        return self._caller.write(
            self._corrector.shadow(player, reason=reason, until=until, boards=boards)
        )

    def restore(
        self, player: str, *, reason: str | None = None, boards: Sequence[str] | None = None
    ) -> Position:
        """Take back a ban, a hiding or a shadowing, with the scores counted meanwhile."""
        return self._caller.write(self._corrector.restore(player, reason=reason, boards=boards))

    def player_states(self, player: str) -> Sequence[PlayerState]:
        """Return the states of a player, the newest last; none for an active player."""
        return self._caller.write(self._corrector.player_states(player))

    def reviews(
        self, board: str | None = None, *, state: ReviewState | None = None
    ) -> list[Review]:
        """Return the submissions that rules held or flagged, newest first."""
        return self._caller.write(self._corrector.reviews(board, state=state))

    def approve_review(self, id: str, *, reason: str | None = None) -> CorrectionEffect:
        """Have a held submission count, at its original position. Raises UnknownReview."""
        return self._caller.write(self._corrector.approve_review(id, reason=reason))

    def reject_review(self, id: str, *, reason: str | None = None) -> CorrectionEffect:
        """Have a held submission never count, or retract a flagged one. Raises UnknownReview."""
        return self._caller.write(self._corrector.reject_review(id, reason=reason))
