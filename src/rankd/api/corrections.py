"""Handlers of corrections: adjustments, retractions, metadata, and states of players."""

from collections.abc import Mapping
from typing import Any

from rankd import schemas
from rankd.api.audit import LedgerSpan
from rankd.api.auth import ANYBODY
from rankd.api.context import ServiceContext, show_time
from rankd.api.messages import Request, Response, decode_body
from rankd.api.operations import WAIT_SECONDS_MAX, Tell
from rankd.api.render import columns_of
from rankd.api.routing import NUMBERS, Param, Route
from rankd.api.scores import respond, with_key
from rankd.core.corrections import PlayerState
from rankd.core.corrector import CorrectionEffect, ScoreChange
from rankd.core.reviews import POSITION_DIGITS_MAX
from rankd.errors import (
    FieldError,
    InvalidPage,
    InvalidProfile,
    InvalidRequest,
    InvalidSubmission,
    NotFound,
    NotRanked,
    Overloaded,
    ScoreOutOfBounds,
    SubmissionKeyReused,
    UnknownBoard,
    UnknownOperation,
    UnknownRetraction,
    UnknownSubmission,
    UnknownWindow,
)
from rankd.model.correction import STATE_BOARDS_MAX
from rankd.model.facts import FACTS, PlayerStanding, Position, Recorded
from rankd.model.profile import REASON_LENGTH_MAX, read_reason
from rankd.model.standing import PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX, shown_score


async def adjust_score(service: ServiceContext, request: Request) -> Response:
    """Set or shift a player's score in every open window, under any rule of the board.

    It counts also if the result is worse than the score before, and no rule against cheating looks
    at it. Returns a receipt, as a submission does.
    """
    board = request.params["board"]
    actor = service.auth.admit(request, "moderate", board)
    body = with_key(decode_body(request, dict[str, Any]), request)
    answer = await service.writer.corrections.adjust(board, body, actor=actor.name)
    return respond(service, answer, board)


# ------------------------------------------------------------------------- retractions


async def retract_scores(service: ServiceContext, request: Request) -> Response:
    """Have submissions to a board count no more, as if they had never been made.

    The earlier best of each player returns in every window; a closed window gets another edition.
    All conditions of the body must hold. Readers see all of the change or nothing.
    """
    board = request.params["board"]
    actor = service.auth.admit(request, "moderate", board)
    body = decode_body(request, dict[str, Any])
    return await _retract(service, request, board, body, actor.name)


async def retract_everywhere(service: ServiceContext, request: Request) -> Response:
    """Have submissions to every board count no more.

    As on one board. A key and a range of scores are of one board, and refused here.
    """
    actor = service.auth.admit(request, "moderate")
    return await _retract(service, request, None, decode_body(request, dict[str, Any]), actor.name)


async def remove_player(service: ServiceContext, request: Request) -> Response:
    """Have all submissions of a player to a board count no more.

    A retraction by the player: later submissions count again, and it can be taken back.
    """
    board = request.params["board"]
    actor = service.auth.admit(request, "moderate", board)
    body = {"player": request.params["player"], "reason": request.query["reason"]}
    return await _retract(service, request, board, body, actor.name)


async def _retract(
    service: ServiceContext,
    request: Request,
    board: str | None,
    body: Mapping[str, Any],
    actor: str | None,
) -> Response:
    async def work(tell: Tell) -> Response:
        effect = await service.writer.corrections.retract(
            board, body, actor=actor, dry_run=request.query["dry_run"], tell=tell
        )
        return _effect(service, effect)

    return await service.operations.respond(request, board, work)


async def undo_retraction(service: ServiceContext, request: Request) -> Response:
    """Take a retraction on a board back: its submissions count again.

    A second time nothing is changed.
    """
    board = request.params["board"]
    actor = service.auth.admit(request, "moderate", board)
    return await _undo(service, request, board, actor.name)


async def undo_retraction_everywhere(service: ServiceContext, request: Request) -> Response:
    """Take any retraction back, also one on every board."""
    actor = service.auth.admit(request, "moderate")
    return await _undo(service, request, None, actor.name)


async def _undo(
    service: ServiceContext, request: Request, board: str | None, actor: str | None
) -> Response:
    shown, query = request.params["position"], request.query
    if not (shown.isascii() and shown.isdigit() and len(shown) <= POSITION_DIGITS_MAX):
        raise NotFound
    position, reason = Position(int(shown)), read_reason(query["reason"])

    async def work(tell: Tell) -> Response:
        effect = await service.writer.corrections.undo_retraction(
            board, position, actor=actor, reason=reason, dry_run=query["dry_run"], tell=tell
        )
        return _effect(service, effect)

    return await service.operations.respond(request, board, work)


async def wait_operation(service: ServiceContext, request: Request) -> Response:
    """Return the response of an operation or, while it is under way, 202 and its progress.

    The node that took the operation knows it, until it is restarted.
    """
    service.auth.check_known(request)
    operation = service.operations.find(request.params["operation"])
    service.auth.admit(request, "moderate", operation.board)
    return await operation.response(request.query["seconds"])


def _effect(service: ServiceContext, effect: CorrectionEffect) -> Response:
    body = schemas.CorrectionResult(
        effect.position,
        effect.dry_run,
        effect.submissions,
        effect.players,
        [shown_change(service, change) for change in effect.changes],
        effect.more,
    )
    return Response(schemas.encode(body))


def shown_change(service: ServiceContext, change: ScoreChange) -> schemas.ChangedStanding:
    """Return a changed entry for the wire."""
    page = service.rankd.state.boards.get(change.board)
    after, before = change.scores, change.previous_scores
    shown = schemas.ChangedStanding(
        change.board,
        change.player,
        change.window,
        None if after is None else shown_score(after[0], change.decimals),
        None if before is None else shown_score(before[0], change.decimals),
        change.rank,
        change.previous_rank,
    )
    if page is not None and after is not None:
        shown.columns = columns_of(after, page.board, change.decimals)
    if page is not None and before is not None:
        shown.previous_columns = columns_of(before, page.board, change.decimals)
    return shown


# ----------------------------------------------------------------------------- the log


async def list_corrections(service: ServiceContext, request: Request) -> Response:
    """Return the corrections of a board, oldest first, without the players concerned.

    Readers may list those of boards with `public_corrections`; of others it takes the scope
    moderate.
    """
    board, query = request.params["board"], request.query
    service.auth.admit(request, "read", board)
    page = service.rankd.state.page(board)
    if not page.board.public_corrections:
        request.counted = True
        service.auth.admit(request, "moderate", board)
    as_of = service.rankd.position
    span = LedgerSpan(service, Position(max(query["after"], page.since - 1)), as_of)
    found, following = await span.indexed(
        lambda fact: fact.corrects(board),
        query["limit"],
        kinds=_CORRECTIONS,
        boards=(None, board),
    )
    body = schemas.CorrectionLog(
        board=board,
        corrections=[_correction_item(one, board) for one in found],
        next_after=following,
        as_of=as_of,
        stale=service.rankd.stale,
    )
    return Response(schemas.encode(body))


_CORRECTIONS = frozenset(fact.kind.partition(".")[0] for fact in FACTS if fact.correction)


def _correction_item(recorded: Recorded, board: str) -> schemas.CorrectionItem:
    fact = recorded.fact
    editions = getattr(fact, "editions", ())
    return schemas.CorrectionItem(
        recorded.position,
        show_time(recorded.at) or "",
        fact.kind.partition(".")[0],
        getattr(fact, "reason", None),
        getattr(fact, "state", None),
        getattr(fact, "build", None),
        getattr(fact, "retraction", None),
        [one.window for one in editions if one.board == board],
    )


# -------------------------------------------------------------------------- metadata


async def patch_standing(service: ServiceContext, request: Request) -> Response:
    """Put other metadata beside a player's entries in the open windows, without a score.

    Null removes it.
    """
    board, player = request.params["board"], request.params["player"]
    actor = service.auth.admit(request, "moderate", board)
    body = decode_body(request, dict[str, Any])
    if set(body) != {"metadata"}:
        raise InvalidSubmission([FieldError("metadata", "must be given, and nothing else")])
    position = await service.writer.corrections.set_metadata(
        board, player, body["metadata"], actor=actor.name
    )
    shown = schemas.MetadataBody(board, player, body["metadata"], position)
    return Response(schemas.encode(shown))


# ------------------------------------------------------------------- states of players


async def ban_player(service: ServiceContext, request: Request) -> Response:
    """Remove a player from all rankings and refuse its submissions."""
    return await _set_state(service, request, "banned")


async def hide_player(service: ServiceContext, request: Request) -> Response:
    """Remove a player from all rankings; its submissions go on counting unseen."""
    return await _set_state(service, request, "hidden")


async def shadow_player(service: ServiceContext, request: Request) -> Response:
    """Hide a player from all but its own token, which sees its standing as before."""
    return await _set_state(service, request, "shadowed")


async def restore_player(service: ServiceContext, request: Request) -> Response:
    """Take a ban, a hiding or a shadowing back, with the scores that were counted meanwhile."""
    return await _set_state(service, request, "active")


async def _set_state(service: ServiceContext, request: Request, state: PlayerStanding) -> Response:
    service.auth.check_known(request)
    body: dict[str, Any] = decode_body(request, dict[str, Any]) if request.body else {}
    player, boards = request.params["player"], body.get("boards")
    named = boards[:STATE_BOARDS_MAX] if isinstance(boards, list) and boards else [None]
    actor = ANYBODY
    for board in named:
        actor = service.auth.admit(request, "moderate", board if isinstance(board, str) else None)
    position = await service.writer.corrections.set_player_state(
        player, state, body, actor=actor.name
    )
    states = shown_states(service.rankd.state.player_states.get(player, ()))
    shown = schemas.PlayerStateBody(player, state, body.get("reason"), position, states)
    return Response(schemas.encode(shown))


def shown_states(states: tuple[PlayerState, ...]) -> list[schemas.PlayerStateItem]:
    """Return the states of a player as moderators see them, the newest last."""
    return [
        schemas.PlayerStateItem(
            one.state,
            one.reason,
            None if one.boards is None else list(one.boards),
            show_time(one.until),
            one.actor,
            one.since,
        )
        for one in states
    ]


# ------------------------------------------------------------------------------ routes

_BOARD = "/v1/boards/{board}"
_PLAYER = "/v1/players/{player}"
_DRY_RUN = Param(name="dry_run", kind=bool, default=False, doc="tell the effect only")
_REASON = Param(name="reason", length_max=REASON_LENGTH_MAX, doc="kept in the audit trail")
_RESULT = {200: schemas.CorrectionResult, 202: schemas.RunningOperation}
_RETRACTING = (
    InvalidRequest,
    InvalidProfile,
    UnknownSubmission,
    Overloaded,
)


def _state_route(verb: str, handler: Any) -> Route:
    return Route(
        method="POST",
        path=f"{_PLAYER}:{verb}",
        operation=f"{verb}_player",
        handler=handler,
        scope="moderate",
        body=dict,
        writes=True,
        responses={200: schemas.PlayerStateBody},
        errors=(InvalidRequest, InvalidProfile),
    )


ROUTES = (
    Route(
        method="POST",
        path=f"{_BOARD}/adjustments",
        operation="adjust_score",
        handler=adjust_score,
        scope="moderate",
        params=(NUMBERS,),
        body=dict,
        writes=True,
        responses={200: schemas.Receipt, 202: schemas.Receipt},
        errors=(
            UnknownBoard,
            InvalidSubmission,
            InvalidProfile,
            ScoreOutOfBounds,
            SubmissionKeyReused,
        ),
    ),
    Route(
        method="GET",
        path=f"{_BOARD}/corrections",
        operation="list_corrections",
        handler=list_corrections,
        scope="read",
        params=(
            Param(name="after", kind=int, default=0, low=0, doc="the position before the first"),
            Param(
                name="limit",
                kind=int,
                default=PAGE_LIMIT_DEFAULT,
                low=1,
                high=PAGE_LIMIT_MAX,
                doc="how many",
            ),
        ),
        responses={200: schemas.CorrectionLog},
        errors=(UnknownBoard,),
    ),
    Route(
        method="POST",
        path=f"{_BOARD}/retractions",
        operation="retract_scores",
        handler=retract_scores,
        scope="moderate",
        params=(_DRY_RUN, NUMBERS),
        body=dict,
        writes=True,
        responses=_RESULT,
        errors=(*_RETRACTING, UnknownBoard, UnknownWindow, InvalidPage),
    ),
    Route(
        method="POST",
        path="/v1/retractions",
        operation="retract_everywhere",
        handler=retract_everywhere,
        scope="moderate",
        params=(_DRY_RUN, NUMBERS),
        body=dict,
        writes=True,
        responses=_RESULT,
        errors=_RETRACTING,
    ),
    Route(
        method="DELETE",
        path=f"{_BOARD}/retractions/{{position}}",
        operation="undo_retraction",
        handler=undo_retraction,
        scope="moderate",
        params=(_REASON, _DRY_RUN, NUMBERS),
        writes=True,
        responses=_RESULT,
        errors=(UnknownRetraction, InvalidProfile, Overloaded),
    ),
    Route(
        method="DELETE",
        path="/v1/retractions/{position}",
        operation="undo_retraction_everywhere",
        handler=undo_retraction_everywhere,
        scope="moderate",
        params=(_REASON, _DRY_RUN, NUMBERS),
        writes=True,
        responses=_RESULT,
        errors=(UnknownRetraction, InvalidProfile, Overloaded),
    ),
    Route(
        method="POST",
        path="/v1/operations/{operation}:wait",
        operation="wait_operation",
        handler=wait_operation,
        scope="moderate",
        params=(
            Param(
                name="seconds",
                kind=int,
                default=0,
                low=0,
                high=WAIT_SECONDS_MAX,
                doc="how many seconds to wait for the response",
            ),
            NUMBERS,
        ),
        writes=True,
        responses=_RESULT,
        errors=(UnknownOperation,),
    ),
    Route(
        method="PATCH",
        path=f"{_BOARD}/standings/{{player}}",
        operation="patch_standing",
        handler=patch_standing,
        scope="moderate",
        body=dict,
        writes=True,
        responses={200: schemas.MetadataBody},
        errors=(UnknownBoard, NotRanked, InvalidSubmission),
    ),
    Route(
        method="DELETE",
        path=f"{_BOARD}/standings/{{player}}",
        operation="remove_player",
        handler=remove_player,
        scope="moderate",
        params=(_REASON, _DRY_RUN, NUMBERS),
        writes=True,
        responses=_RESULT,
        errors=(*_RETRACTING, UnknownBoard),
    ),
    _state_route("ban", ban_player),
    _state_route("hide", hide_player),
    _state_route("shadow", shadow_player),
    _state_route("restore", restore_player),
)
