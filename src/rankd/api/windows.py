"""Handlers of the lives of windows: reset, freeze, settle, and the steps to come."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec

from rankd import schemas
from rankd.api import render
from rankd.api.context import ServiceContext, show_time
from rankd.api.messages import Request, Response, decode_body
from rankd.api.routing import NUMBERS, Param, Route
from rankd.core.board_state import exact_id
from rankd.core.certificates import TOP_LENGTH, certificate_of
from rankd.core.engine import Engine
from rankd.core.window_control import WindowResult
from rankd.core.window_schedule import (
    SCHEDULE_LENGTH_DEFAULT,
    SCHEDULE_LENGTH_MAX,
    PlannedStep,
    coming_steps,
)
from rankd.errors import (
    InvalidProfile,
    InvalidRequest,
    NotSettled,
    TooManyRewards,
    UnknownBoard,
    UnknownWindow,
    WrongWindowState,
)
from rankd.model.window import ListedWindow, show_local

Step = Callable[..., Awaitable[WindowResult]]


async def reset_window(service: ServiceContext, request: Request) -> Response:
    """Close a window now, and open the next one at the same position."""
    return await _step(service, request, Engine.reset_window)


async def freeze_window(service: ServiceContext, request: Request) -> Response:
    """Let a window take no more scores until its time is over."""
    return await _step(service, request, Engine.freeze_window)


async def settle_window(service: ServiceContext, request: Request) -> Response:
    """Declare the standings of a window final, sealing it first if need be."""
    return await _step(service, request, Engine.settle_window)


async def _step(service: ServiceContext, request: Request, step: Step) -> Response:
    board = request.params["board"]
    actor = service.auth.admit(request, "admin", board)
    body = decode_body(request, dict[str, Any])
    done = await step(service.writer, board, body, actor=actor.name)
    window = done.window
    shown = schemas.WindowStep(
        board=board,
        window=window.id,
        state=window.state,
        changed=done.changed,
        position=done.position,
        opened=None if done.opened is None else await _window(service, board, done.opened),
    )
    return Response(schemas.encode(shown))


async def _window(service: ServiceContext, board: str, window: ListedWindow) -> schemas.Window:
    where = service.rankd.reader.where(board, exact_id(window.id))
    total = await service.rankd.reader.count(where.ranking)
    start, end = show_time(window.start), show_time(window.end)
    opens_at = render.opening(window.opens_at)
    return schemas.Window(window.id, window.name, start, end, window.state, total, opens_at)


async def get_schedule(service: ServiceContext, request: Request) -> Response:
    """Return the coming openings and closings of a board's windows, the earliest first."""
    board = request.params["board"]
    service.auth.admit(request, "read", board)
    view = service.rankd
    page = view.state.page(board)
    zone = page.board.time_zone
    coming = coming_steps(page, view.ledger_time, request.query["next"])
    shown = schemas.WindowSchedule(
        board=board,
        time_zone=zone,
        schedule=[_coming(one, zone) for one in coming],
        server_time=show_time(service.clock.now()) or "",
        as_of=view.position,
        stale=view.stale,
    )
    return Response(schemas.encode(shown))


async def get_certificate(service: ServiceContext, request: Request) -> Response:
    """Return the certificate of a settled window, with its first standings."""
    board, window = request.params["board"], request.params["window"]
    actor = service.auth.admit(request, "read", board)
    await service.wait_for_head(board)
    view = service.rankd
    claims = certificate_of(view.state.page(board), window, view.ledger_time)
    where = view.reader.where(board, exact_id(claims.window))
    page = await view.reader.seen_by(service.viewer(actor)).top_of(where, TOP_LENGTH)
    terms = where.terms.board
    shown = schemas.CertificateBody(
        **msgspec.structs.asdict(claims),
        top=[render.row(standing, terms) for standing in page.standings],
        as_of=page.as_of,
        stale=view.stale,
    )
    return Response(schemas.encode(shown))


def _coming(one: PlannedStep, zone: str) -> schemas.ComingStep:
    return schemas.ComingStep(
        at=show_time(one.at) or "",
        local=show_local(one.at, zone),
        step=one.step,
        window=one.window.id,
        name=one.window.name,
    )


_ONE = "/v1/boards/{board}"


def _operator_route(verb: str, handler: Callable[..., Coroutine[Any, Any, Response]]) -> Route:
    return Route(
        method="POST",
        path=f"{_ONE}:{verb}",
        operation=f"{verb}_window",
        handler=handler,
        scope="admin",
        body=dict,
        writes=True,
        responses={200: schemas.WindowStep},
        errors=(
            UnknownBoard,
            UnknownWindow,
            WrongWindowState,
            TooManyRewards,
            InvalidRequest,
            InvalidProfile,
        ),
    )


ROUTES = (
    _operator_route("reset", reset_window),
    _operator_route("freeze", freeze_window),
    _operator_route("settle", settle_window),
    Route(
        method="GET",
        path=f"{_ONE}/windows/{{window}}/certificate",
        operation="get_certificate",
        handler=get_certificate,
        scope="read",
        params=(NUMBERS,),
        responses={200: schemas.CertificateBody},
        errors=(UnknownBoard, UnknownWindow, NotSettled),
    ),
    Route(
        method="GET",
        path=f"{_ONE}/schedule",
        operation="get_schedule",
        handler=get_schedule,
        scope="read",
        params=(
            Param(
                name="next",
                kind=int,
                default=SCHEDULE_LENGTH_DEFAULT,
                low=1,
                high=SCHEDULE_LENGTH_MAX,
                doc="how many steps",
            ),
        ),
        responses={200: schemas.WindowSchedule},
        errors=(UnknownBoard,),
    ),
)
