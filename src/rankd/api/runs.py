"""The handler that starts runs: signed tokens for players that are about to play."""

import msgspec

from rankd import schemas
from rankd.api.context import ServiceContext, show_time
from rankd.api.messages import Request, Response, decode_body
from rankd.api.routing import Route
from rankd.errors import (
    Forbidden,
    InvalidProfile,
    RunExpired,
    RunInvalid,
    RunRequired,
    RunTooEarly,
    RunUsed,
    UnknownBoard,
)


class NewRun(msgspec.Struct, forbid_unknown_fields=True):
    """The player that is about to play."""

    player: str


async def start_run(service: ServiceContext, request: Request) -> Response:
    """Start a run: return a token that one submission of this player may use within its time.

    A key with the scope submit starts runs for any player; a player's token for that player, on
    boards that take scores from players. Nothing is recorded.
    """
    board = request.params["board"]
    actor = service.auth.admit(request, "submit", board)
    service.auth.count_scores(actor)
    player = decode_body(request, NewRun).player
    if actor.player is not None and actor.player != player:
        raise Forbidden("a player's token starts runs for that player only")
    started = await service.writer.runs.start(board, player)
    body = schemas.RunBody(
        started.run,
        started.seed,
        show_time(started.not_before) or "",
        show_time(started.expires_at) or "",
    )
    return Response(schemas.encode(body))


ERRORS = (RunInvalid, RunRequired, RunTooEarly, RunExpired, RunUsed)
"""Errors of submissions with a run, or without one where it is required."""

ROUTES = (
    Route(
        method="POST",
        path="/v1/boards/{board}/runs",
        operation="start_run",
        handler=start_run,
        scope="submit",
        body=NewRun,
        writes=True,
        responses={200: schemas.RunBody},
        errors=(UnknownBoard, InvalidProfile),
    ),
)
