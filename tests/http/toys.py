"""A small table of routes with one of everything a lane can meet: what tests/http runs against.

The handlers do as real ones do, without an engine: they answer at once, wait for a future like a
write for its commit, refuse, decode bodies, and fail.
"""

import asyncio
from typing import Any

import msgspec

from rankd import schemas
from rankd.api.messages import Request, Response, decode_body
from rankd.api.request_head import SIGNIFICANT
from rankd.api.routing import Param, Route
from rankd.errors import LedgerUnavailable, NotRanked, Overloaded

SMALL = (
    b'{"board":"global","player":"p42","rank":42,"score":4500,'
    b'"total":1000000,"percentile":99.99,"ok":1}'
)
LARGE = b"[" + b",".join(b'{"rank":%d,"player":"p%d"}' % (n, n) for n in range(1000)) + b"]"


class Submission(msgspec.Struct, forbid_unknown_fields=True):
    player: str
    score: int


def json_response(value: object) -> Response:
    return Response(schemas.encode(value))


class Service:
    """What the toy handlers speak to: a count of writes, and a auth that holds them up."""

    def __init__(self) -> None:
        self.applied: list[str] = []
        self.auth: asyncio.Event | None = None
        self.entered = asyncio.Event()


async def standing(service: Service, request: Request) -> Response:
    if request.params["player"] == "nobody":
        raise NotRanked(board="global", window="all", player="nobody")
    return Response(SMALL)


async def page(service: Service, request: Request) -> Response:
    return json_response({"limit": request.query["limit"], "window": request.query["window"]})


async def large(service: Service, request: Request) -> Response:
    return Response(LARGE)


async def submit(service: Service, request: Request) -> Response:
    """Waits as a write does: once for the commit, and for the auth if there is one."""
    body = decode_body(request, Submission)
    commit: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(commit.set_result, None)
    await commit
    service.entered.set()
    if service.auth is not None:
        await service.auth.wait()
    service.applied.append(body.player)
    return json_response({"board": request.params["board"], "player": body.player})


async def echo(service: Service, request: Request) -> Response:
    return json_response(
        {
            "params": request.params,
            "query": request.query,
            "body": request.body.decode("latin-1"),
            "headers": {
                name.decode(): text.decode("latin-1")
                for name, text in sorted(request.headers.items())
                if name in SIGNIFICANT
            },
            "client": request.client,
        }
    )


async def ban(service: Service, request: Request) -> Response:
    return json_response({"banned": request.params["player"]})


async def broken(service: Service, request: Request) -> Response:
    raise RuntimeError("a mistake of our own")


async def broken_later(service: Service, request: Request) -> Response:
    await asyncio.sleep(0)
    raise LookupError("a mistake of our own, after waiting")


async def nothing(service: Service, request: Request) -> Response:
    return None  # type: ignore[return-value]


async def overloaded(service: Service, request: Request) -> Response:
    raise Overloaded(waiting_max=10)


async def unknown_outcome(service: Service, request: Request) -> Response:
    await asyncio.sleep(0)
    raise LedgerUnavailable("the disk is full", applied="unknown")


async def patient(service: Service, request: Request) -> Response:
    """Gives up waiting by asyncio.timeout, which needs a current task."""
    try:
        async with asyncio.timeout(0.01):
            await asyncio.get_running_loop().create_future()
    except TimeoutError:
        return json_response({"waited": True})
    raise AssertionError("nothing sets this future")


async def empty(service: Service, request: Request) -> Response:
    return Response(status=204, content_type=b"")


async def cached(service: Service, request: Request) -> Response:
    return Response(b"{}", cache_control=b"max-age=5", headers=((b"etag", b'"1"'),))


def route(method: str, path: str, handler: Any, **more: Any) -> Route:
    return Route(method=method, path=path, operation=handler.__name__, handler=handler, **more)


PAGE_PARAMS = (
    Param(name="limit", kind=int, default=10, low=1, high=1000),
    Param(name="window", default="all"),
)

ROUTES = (
    route("GET", "/v1/boards/{board}/standings/{player}", standing, scope="read", hot=True),
    route("GET", "/v1/boards/{board}/standings", page, hot=True, params=PAGE_PARAMS),
    route("GET", "/v1/large", large, hot=True),
    route("POST", "/v1/boards/{board}/scores", submit, hot=True, body=Submission, writes=True),
    route("POST", "/v1/players/{player}:ban", ban, hot=True, writes=True),
    route("POST", "/v1/echo/{what}", echo, hot=True, params=(Param(name="q"),)),
    route("GET", "/v1/broken", broken, hot=True),
    route("POST", "/v1/broken", broken_later, hot=True, writes=True),
    route("GET", "/v1/nothing", nothing, hot=True),
    route("POST", "/v1/overloaded", overloaded, hot=True, writes=True),
    route("POST", "/v1/unknown", unknown_outcome, hot=True, writes=True),
    route("GET", "/v1/patient", patient, hot=True),
    route("GET", "/v1/empty", empty, hot=True),
    route("GET", "/v1/cached", cached, hot=True),
    Route(
        method="PUT",
        path="/v1/cold/{what}",
        operation="echo_cold",
        handler=echo,
        body_bytes_max=64,
    ),
)
