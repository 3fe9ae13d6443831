"""Handlers of streams: server-sent events, tickets for browsers, and the route of WebSocket."""

import asyncio
import math
from collections.abc import Mapping
from functools import partial
from time import time
from typing import Any

import msgspec

from rankd import schemas
from rankd.api.auth import Actor, Permit
from rankd.api.context import ServiceContext, show_time
from rankd.api.messages import NO_STORE, Header, Request, Response, decode_body
from rankd.api.routing import NUMBERS, Param, Route
from rankd.api.streams import Credential, StreamRequest
from rankd.api.tickets import Ticket, new_ticket, opened, sealed
from rankd.errors import (
    FieldError,
    IndexBehind,
    InvalidPage,
    InvalidRequest,
    LedgerUnavailable,
    TooManyStreams,
    Unauthenticated,
    UnknownBoard,
    UnknownWindow,
    UpgradeRequired,
)
from rankd.model.standing import NEIGHBOURS_MAX, PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX
from rankd.model.submission import valid_player

EVENT_STREAM = b"text/event-stream"

SOCKET_PATH = "/v1/stream"

NOT_BUFFERED: tuple[Header, ...] = ((b"x-accel-buffering", b"no"),)
"""Tells nginx to pass each event on at once."""

KEY_LOOKS = 20
KEY_LOOK_SECONDS = 0.05
"""How often, and how soon, a process looks again for the key of a ticket that another one signed.
"""

_HEADERS_HELD = (b"authorization", b"host", b"x-forwarded-for", b"forwarded")
"""Headers that identify a client."""


async def stream_board(service: ServiceContext, request: Request) -> Response:
    """Send the state of a part of a ranking, and then each change, as server-sent events."""
    board, query = request.params["board"], request.query
    credential = await credential_of(service, request, query["ticket"], board)
    await service.wait_for_head(board)
    subscription = await service.streams.subscribe(
        stream_request(board, query), credential, since=_last_event(request)
    )
    return Response(
        b"",
        content_type=EVENT_STREAM,
        cache_control=NO_STORE,
        headers=NOT_BUFFERED,
        stream=subscription,
    )


def stream_request(board: str, given: Mapping[str, Any]) -> StreamRequest:
    """Return the parameters of a stream. Raises InvalidRequest."""
    player, around = given["player"], given["around"]
    if player is not None and not valid_player(player):
        raise InvalidRequest([FieldError("player", "is not the id of a player")])
    if around is not None and player is None:
        raise InvalidRequest([FieldError("around", "needs a player")])
    text = given["numbers"] == "string"
    window, segment = given["window"], given["segment"]
    return StreamRequest(board, window, segment, given["top"], player, around, text)


def _last_event(request: Request) -> int | None:
    """Return the position after which a stream goes on. One that is not a number is not known."""
    text = request.headers.get(b"last-event-id")
    if text is None:
        given: int | None = request.query["last_event_id"]
        return given
    return int(text) if text.isdigit() and len(text) <= 19 else None


async def credential_of(
    service: ServiceContext, request: Request, ticket: str | None, board: str | None
) -> Credential:
    """Return the credential of a stream, counted as a read if its board is known already.

    Raises Unauthenticated, Forbidden and RateLimited.
    """
    if ticket is not None:
        return await _redeemed(service, ticket)
    auth = service.auth
    if board is not None:
        auth.admit(request, "read", board)
    else:
        auth.hold(request, None)
    held = {name: request.headers[name] for name in _HEADERS_HELD if name in request.headers}
    stub = Request(request.method, request.path, {}, {}, held, b"", request.client)
    return Credential(partial(auth.hold, stub), tuple(sorted(held.items())))


# ------------------------------------------------------------------------------- tickets


async def create_ticket(service: ServiceContext, request: Request) -> Response:
    """Return a ticket for one stream, with the rights of the client."""
    asked = decode_body(request, schemas.TicketRequest) if request.body else None
    service.auth.admit(request, "read", None if asked is None else asked.board)
    permit = service.auth.hold(request, None)
    engine = service.engine
    if engine is None:
        raise LedgerUnavailable("the process that signs tickets does not answer", applied="no")
    key = await engine.runs.signing_key()
    expires = time() + service.settings.ticket_seconds
    text = sealed(new_ticket(permit, expires=expires), key)
    return Response(schemas.encode(schemas.TicketBody(text, show_time(int(expires * 1e6)))))


async def _redeemed(service: ServiceContext, text: str) -> Credential:
    """Take a ticket; return its credential. Raises Unauthenticated."""
    ticket = await _opened(service, text)
    if not await service.use_ticket(ticket.nonce, ticket.expires):
        raise Unauthenticated("the ticket was used before")
    return Credential(partial(_check_ticket, service, ticket), ticket.nonce)


async def _opened(service: ServiceContext, text: str) -> Ticket:
    id = text.partition(".")[0]
    for _ in range(KEY_LOOKS if len(id) == 12 else 0):
        if id in service.rankd.state.signing_keys:
            break
        await asyncio.sleep(KEY_LOOK_SECONDS)
    return opened(text, service.rankd.state)


def _check_ticket(service: ServiceContext, ticket: Ticket, board: str) -> Permit:
    auth = service.auth
    if ticket.key is not None:
        return auth.hold_key(ticket.key, board)
    if ticket.player is not None:
        return auth.hold_player(Actor(None, ticket.player, until=ticket.until or math.inf))
    return auth.hold_open()


async def use_ticket(service: ServiceContext, request: Request) -> Response:
    """Take a ticket for a worker of this node."""
    nonce, expires = msgspec.msgpack.decode(request.body, type=tuple[bytes, float])
    return Response(b"true" if service.used_tickets.use(nonce, expires) else b"false")


async def open_socket(service: ServiceContext, request: Request) -> Response:
    """Become a WebSocket, for many subscriptions: see *Live* in the documentation."""
    if request.query["ticket"] is None:
        service.auth.admit(request, "read")
    raise UpgradeRequired


TICKET = Param(name="ticket", length_max=1024, doc="from POST /v1/tickets, instead of a key")

USE_TICKET = Route(
    method="POST", path="/ticket", operation="use_ticket", handler=use_ticket, gathers=True
)
"""Not served: workers hand it to the process that writes."""

_ERRORS = (UnknownBoard, UnknownWindow, InvalidPage, IndexBehind, TooManyStreams)

ROUTES = (
    Route(
        method="GET",
        path="/v1/boards/{board}/stream",
        operation="stream_board",
        handler=stream_board,
        scope="read",
        hot=True,
        params=(
            Param(
                name="top",
                kind=int,
                default=PAGE_LIMIT_DEFAULT,
                low=1,
                high=PAGE_LIMIT_MAX,
                doc="how many of the best",
            ),
            Param(name="player", doc="a player that is shown too, and told when it is overtaken"),
            Param(
                name="around",
                kind=int,
                low=0,
                high=NEIGHBOURS_MAX,
                doc="how many neighbours of the player either side; only the player if absent",
            ),
            Param(name="window", doc="all, daily (today's, then tomorrow's), daily:2026-11-14"),
            Param(name="segment", doc="an attribute and its value, as region:eu"),
            Param(
                name="last_event_id",
                kind=int,
                low=0,
                high=2**63 - 1,
                doc="as the header Last-Event-ID, which wins",
            ),
            TICKET,
            NUMBERS,
        ),
        responses={
            200: (
                schemas.StreamState,
                schemas.StreamChange,
                schemas.Overtaken,
                schemas.WindowChanged,
            )
        },
        errors=_ERRORS,
    ),
    Route(
        method="GET",
        path=SOCKET_PATH,
        operation="open_socket",
        handler=open_socket,
        scope="read",
        params=(TICKET,),
        responses={101: None},
        errors=(UpgradeRequired,),
    ),
    Route(
        method="POST",
        path="/v1/tickets",
        operation="create_ticket",
        handler=create_ticket,
        scope="read",
        gathers=True,
        body=schemas.TicketRequest,
        responses={200: schemas.TicketBody},
    ),
)
