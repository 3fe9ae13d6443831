"""The requests of corrections: adjustments, retractions, metadata, states of players, reviews.

A retraction may take long. It is sent with ``Prefer: respond-async``, so that no connection is
silent for long, and asked for again until it is done: a ``LongCall``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from rankd import schemas
from rankd.client.calls import Call, Score, new_key
from rankd.client.serialization import body_of, encoded, path_of, reader_of
from rankd.errors import InvalidSubmission
from rankd.http_client import HttpResponse
from rankd.schemas import CorrectionResult, RunningOperation

WAIT_SECONDS = 2
"""How long the service waits for the result of one request, before it tells the progress."""

T = TypeVar("T")

TellOperation = Callable[[RunningOperation], object] | None
"""Called with the progress of a request."""


@dataclass(frozen=True, slots=True)
class LongCall(Generic[T]):
    """A call whose result may have to be asked for again."""

    first: Call[T | RunningOperation]
    following: Callable[[RunningOperation], Call[T | RunningOperation]]
    """Returns the call that asks again."""
    tell: TellOperation

    def again(self, found: T | RunningOperation) -> Call[T | RunningOperation] | None:
        """Return the call that asks again; None if this is the result. Tells the progress."""
        if not isinstance(found, RunningOperation):
            return None
        if self.tell is not None:
            self.tell(found)
        return self.following(found)

    def result(self, found: T | RunningOperation) -> T:
        """Return the result, which has been found."""
        assert not isinstance(found, RunningOperation)
        return found


def _read_result(answer: HttpResponse) -> CorrectionResult | RunningOperation:
    return _read_running(answer) if answer.status == 202 else _read_effect(answer)


_read_running = reader_of(RunningOperation)
_read_effect = reader_of(CorrectionResult)
_read_receipt = reader_of(schemas.Receipt)
_read_metadata = reader_of(schemas.MetadataBody)
_read_log = reader_of(schemas.CorrectionLog)
_read_state = reader_of(schemas.PlayerStateBody)
_read_review = reader_of(schemas.ReviewItem)
_read_reviews = reader_of(schemas.ReviewsPage)


def _long(
    method: str, path: str, body: bytes | None, tell: TellOperation, **names: object
) -> LongCall[CorrectionResult]:
    def following(running: RunningOperation) -> Call[CorrectionResult | RunningOperation]:
        again = path_of("/v1/operations/{}:wait", running.operation, seconds=WAIT_SECONDS)
        return Call(method="POST", path=again, read=_read_result, names=names)

    first: Call[CorrectionResult | RunningOperation] = Call(
        method=method,
        path=path,
        body=body,
        read=_read_result,
        headers={"prefer": f"respond-async, wait={WAIT_SECONDS}"},
        names=names,
        repeatable=False,  # The second answer would tell that nothing was left to do.
    )
    return LongCall(first, following, tell)


def adjust(  # noqa: PLR0913 - the fields of an adjustment
    board: str,
    player: str,
    score: Score | None = None,
    *,
    delta: Score | None = None,
    key: str | None = None,
    columns: Mapping[str, Score] | None = None,
    metadata: object = None,
    reason: str | None = None,
) -> Call[schemas.Receipt]:
    """Set or shift a player's score in every open window, under any rule of the board.

    It counts once, however often it was sent: without a ``key`` it gets a random one.
    """
    key = new_key() if key is None else key
    body = body_of(
        InvalidSubmission,
        player=player,
        score=score,
        delta=delta,
        key=key,
        columns=columns,
        metadata=metadata,
        reason=reason,
    )
    return Call(
        method="POST",
        path=path_of("/v1/boards/{}/adjustments", board),
        body=body,
        read=_read_receipt,
        names={"board": board, "player": player, "key": key},
    )


def retract(  # noqa: PLR0913 - the conditions of a retraction
    board: str | None = None,
    *,
    position: int | None = None,
    positions: Sequence[int] | None = None,
    key: str | None = None,
    player: str | None = None,
    players: Sequence[str] | None = None,
    build: str | None = None,
    since: str | None = None,
    until: str | None = None,
    score_min: Score | None = None,
    score_max: Score | None = None,
    window: str | None = None,
    reason: str | None = None,
    dry_run: bool = False,
    progress: TellOperation = None,
) -> LongCall[CorrectionResult]:
    """Have submissions to a board, or to all, count no more; return the effect.

    All conditions must hold. ``since`` (inclusive) and ``until`` (exclusive) are RFC 3339 times of
    recording; ``score_min`` and ``score_max`` mean the players whose entries in ``window`` lie
    between them now. With ``dry_run`` nothing is changed.
    """
    body = body_of(
        position=position,
        positions=None if positions is None else list(positions),
        key=key,
        player=player,
        players=None if players is None else list(players),
        build=build,
        since=since,
        until=until,
        score_min=score_min,
        score_max=score_max,
        window=window,
        reason=reason,
    )
    if board is None:
        path = path_of("/v1/retractions", dry_run=dry_run or None)
    else:
        path = path_of("/v1/boards/{}/retractions", board, dry_run=dry_run or None)
    return _long("POST", path, body, progress, board=board, named="these conditions")


def undo_retraction(
    position: int,
    *,
    board: str | None = None,
    reason: str | None = None,
    dry_run: bool = False,
    progress: TellOperation = None,
) -> LongCall[CorrectionResult]:
    """Take a retraction back; a second time nothing is changed. Raises UnknownRetraction.

    With ``board`` only one on this board.
    """
    query = {"reason": reason, "dry_run": dry_run or None}
    if board is None:
        path = path_of("/v1/retractions/{}", position, **query)
    else:
        path = path_of("/v1/boards/{}/retractions/{}", board, position, **query)
    return _long("DELETE", path, None, progress, board=board, position=position)


def remove(
    board: str,
    player: str,
    *,
    reason: str | None = None,
    dry_run: bool = False,
    progress: TellOperation = None,
) -> LongCall[CorrectionResult]:
    """Retract all submissions of a player to a board. Later ones count."""
    query = {"reason": reason, "dry_run": dry_run or None}
    path = path_of("/v1/boards/{}/standings/{}", board, player, **query)
    return _long("DELETE", path, None, progress, board=board, player=player)


def set_metadata(board: str, player: str, metadata: object) -> Call[schemas.MetadataBody]:
    """Put other metadata beside a player's entries in the open windows; None removes it.

    Raises NotRanked for a player without an entry.
    """
    return Call(
        method="PATCH",
        path=path_of("/v1/boards/{}/standings/{}", board, player),
        body=encoded({"metadata": metadata}, InvalidSubmission),
        read=_read_metadata,
        names={"board": board, "player": player},
    )


def board_corrections(
    board: str, *, after: int | None = None, limit: int | None = None
) -> Call[schemas.CorrectionLog]:
    """Return the corrections of a board, oldest first, without the players concerned.

    Readers may list those of a board with ``public_corrections``.
    """
    path = path_of("/v1/boards/{}/corrections", board, after=after, limit=limit)
    return Call(method="GET", path=path, read=_read_log, names={"board": board})


def ban(
    player: str,
    *,
    reason: str | None = None,
    until: str | None = None,
    boards: Sequence[str] | None = None,
) -> Call[schemas.PlayerStateBody]:
    """Remove a player from the rankings and refuse its submissions, as PlayerBanned."""
    return _state(player, "ban", reason, until, boards)


def hide(
    player: str,
    *,
    reason: str | None = None,
    until: str | None = None,
    boards: Sequence[str] | None = None,
) -> Call[schemas.PlayerStateBody]:
    """Remove a player from the rankings; its submissions go on counting unseen."""
    return _state(player, "hide", reason, until, boards)


def shadow(
    player: str,
    *,
    reason: str | None = None,
    until: str | None = None,
    boards: Sequence[str] | None = None,
) -> Call[schemas.PlayerStateBody]:
    """Hide a player from all but its own token, which sees its standing as before."""
    return _state(player, "shadow", reason, until, boards)


def restore(
    player: str, *, reason: str | None = None, boards: Sequence[str] | None = None
) -> Call[schemas.PlayerStateBody]:
    """Take back a ban, a hiding or a shadowing, with the scores counted meanwhile."""
    return _state(player, "restore", reason, None, boards)


def _state(
    player: str, verb: str, reason: str | None, until: str | None, boards: Sequence[str] | None
) -> Call[schemas.PlayerStateBody]:
    named = None if boards is None else list(boards)
    return Call(
        method="POST",
        path=path_of(f"/v1/players/{{}}:{verb}", player),
        body=body_of(reason=reason, until=until, boards=named),
        read=_read_state,
        names={"player": player},
    )


# ----------------------------------------------------------------------------- reviews


def reviews(
    *,
    board: str | None = None,
    state: str | None = None,
    limit: int | None = None,
    before: int | None = None,
) -> Call[schemas.ReviewsPage]:
    """Return held and flagged submissions, newest first."""
    path = path_of("/v1/reviews", board=board, state=state, limit=limit, before=before)
    return Call(method="GET", path=path, read=_read_reviews, names={"board": board})


def review(id: str) -> Call[schemas.ReviewItem]:
    """Return one review, with the player's last submissions up to it."""
    path = path_of("/v1/reviews/{}", id)
    return Call(method="GET", path=path, read=_read_review, names={"id": id})


def approve_review(id: str, *, reason: str | None = None) -> Call[schemas.ReviewItem]:
    """Have a held submission count, at its original position."""
    return _decided("approve", id, reason)


def reject_review(id: str, *, reason: str | None = None) -> Call[schemas.ReviewItem]:
    """Have a held submission never count, or retract a flagged one."""
    return _decided("reject", id, reason)


def _decided(verb: str, id: str, reason: str | None) -> Call[schemas.ReviewItem]:
    path, body = f"{path_of('/v1/reviews/{}', id)}:{verb}", body_of(reason=reason)
    return Call(method="POST", path=path, body=body, read=_read_review, names={"id": id})
