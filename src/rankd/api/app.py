"""The application behind both lanes: response headers, refusals, and the ASGI entry point.

``App`` has the routes, the service context of the handlers, and the settings. The fast lane calls
``finish`` and ``refuse``; uvicorn calls the ASGI application for all other requests. Headers are
decided in those two methods, so both lanes send the same.
"""

import asyncio
import gzip
import re
from contextlib import nullcontext
from typing import Any

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from rankd.api import messages
from rankd.api.context import recorded_with
from rankd.api.logs import RequestLog, log
from rankd.api.messages import HTML, NO_STORE, Header, Request, Response, squeezed_tag
from rankd.api.rate_limits import read_networks
from rankd.api.render import wants_text, with_text
from rankd.api.routing import Route, RouteMatch, Router
from rankd.api.stream_sinks import AsgiSink
from rankd.errors import (
    Corrupt,
    InvalidSetting,
    MalformedRequest,
    MethodNotAllowed,
    NotFound,
    RankdError,
    RequestTooLarge,
    Stopping,
)
from rankd.settings import Settings

GZIP_BYTES_MIN = 16 * 1024
"""Smaller bodies fit a few packets and cost more to compress than to send."""

GZIP_LEVEL = 1
"""JSON shrinks to a sixth at the fastest level; higher levels block the event loop for little gain.
"""

BY_ENCODING: Header = (b"vary", b"accept-encoding")
"""Sent with every cacheable response, because the next response to the same request may be large
enough to be compressed, and with large ``no-store`` responses."""

PREFLIGHT_SECONDS = b"600"
"""For how long a browser may cache a preflight response."""

ASKING = (
    b"authorization, content-type, idempotency-key, if-none-match, last-event-id, rankd-signature"
)
"""The headers that a page of another origin may send."""

EXPOSED = (b"access-control-expose-headers", b"etag, retry-after")
"""The response headers that a page of another origin may read."""

CSP = b"default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""For HTML: only files of this service, so that a player's name can never run as script."""

SINGLE_HEADERS = frozenset(
    (
        b"host",
        b"content-type",
        b"content-length",
        b"authorization",
        b"idempotency-key",
        b"rankd-signature",
        b"origin",
    )
)
"""Headers that may occur once only: with two values, proxies and this service might pick different
ones."""

WRITING = frozenset(("POST", "PUT", "PATCH", "DELETE"))
"""Methods that are taken to write when the route of a request is unknown."""

NO_CONTENT = frozenset((204, 304))
"""Statuses without a body, and so without a content-length."""

NO_HEADERS: dict[bytes, bytes] = {}


def gather_headers(pairs: list[Header]) -> dict[bytes, bytes]:
    """Return headers by name, repeated ones joined. Raises MalformedRequest for SINGLE_HEADERS."""
    headers: dict[bytes, bytes] = {}
    for name, padded in pairs:
        value = padded.strip(b" \t")
        if name not in headers:
            headers[name] = value
        elif name in SINGLE_HEADERS:
            raise MalformedRequest("a header is there twice that may be there once")
        else:
            headers[name] += b", " + value
    return headers


class Disconnected(Exception):
    """The client disconnected before its request was complete."""


_ORIGIN = re.compile(r"null|[a-z][a-z0-9+.-]*://[^/*\sA-Z]+")


def read_origin(text: str) -> bytes:
    """Return an allowed origin as browsers send it. Raises InvalidSetting if none sends it so."""
    if _ORIGIN.fullmatch(text) is None:
        raise InvalidSetting(
            setting="cors_origins",
            source="the settings",
            problem="takes origins as browsers send them, such as https://game.example: scheme and "
            "host in small letters, nothing behind the port; cors_reads_anywhere is for all",
        )
    return text.encode()


class App:
    """The routes, and the headers and refusals common to all of them. An ASGI application."""

    def __init__(
        self,
        router: Router,
        service: Any,
        settings: Settings,
        *,
        fallback: ASGIApp | None = None,
    ) -> None:
        self.router = router
        self.service = service
        self.settings = settings
        proxies = read_networks(settings.trusted_proxies)
        self.log = RequestLog(every=settings.access_log, proxies=proxies)
        self.fallback = fallback
        """The ASGI application for paths that no route matches: streams, pages and their files."""
        self._origins = frozenset(map(read_origin, settings.cors_origins))
        self._shares = bool(self._origins) or settings.cors_reads_anywhere
        self._always: tuple[Header, ...] = (
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"no-referrer"),
        )
        if self._origins:
            # A cache must not serve one origin the response that another was allowed to read.
            self._always += ((b"vary", b"origin"),)

    # ------------------------------------------------------------- shared by both lanes

    def headers_of(self, response: Response, length: int) -> list[Header]:
        """Return the headers of a response, its content-length last."""
        headers = [(b"content-type", response.content_type)] if response.content_type else []
        headers.append((b"cache-control", response.cache_control))
        if response.cache_control != NO_STORE:
            headers.append(BY_ENCODING)
        headers.extend(self._always)
        if response.content_type == HTML:
            headers.append((b"content-security-policy", CSP))
        headers.extend(response.headers)
        if response.status not in NO_CONTENT:
            headers.append((b"content-length", b"%d" % length))
        return headers

    def finish(self, request: Request, response: Response) -> Response:
        """Apply the request's headers: scores as text, CORS permission, gzip."""
        if wants_text(request.query, request.headers):
            response = with_text(response)
        body, headers = response.body, response.headers
        origin = request.headers.get(b"origin")
        if origin is not None and self._shares:
            headers += self._permission(request.method, origin)
        if len(body) >= GZIP_BYTES_MIN:
            if response.cache_control == NO_STORE:
                headers += (BY_ENCODING,)
            if _takes_gzip(request.headers.get(b"accept-encoding", b"")):
                body = gzip.compress(body, GZIP_LEVEL, mtime=0)
                headers = (*map(_squeezed, headers), (b"content-encoding", b"gzip"))
        if headers is response.headers:
            return response
        return msgspec.structs.replace(response, body=body, headers=headers)

    def _permission(self, method: str, origin: bytes) -> tuple[Header, ...]:
        if origin in self._origins:
            return (
                (b"access-control-allow-origin", origin),
                (b"access-control-allow-credentials", b"true"),
                EXPOSED,
            )
        if self.settings.cors_reads_anywhere and method in {"GET", "HEAD"}:
            return ((b"access-control-allow-origin", b"*"), EXPOSED)
        return ()

    def refuse(self, error: BaseException, request: Request, route: Route | None) -> Response:
        """Return the error response, and log the error under the response's request_id."""
        writes = request.method in WRITING if route is None else route.writes
        if isinstance(error, asyncio.CancelledError):  # Only a stop that timed out cancels.
            error = Stopping(applied="unknown")
        if isinstance(error, RankdError):
            return self._refusal(error, request, route, writes=writes)
        log.error("request %s failed", request.request_id, exc_info=error)
        return messages.internal(request_id=request.request_id, writes=writes)

    def _refusal(
        self, error: RankdError, request: Request, route: Route | None, *, writes: bool
    ) -> Response:
        response = messages.refusal(error, request_id=request.request_id, writes=writes)
        if isinstance(error, Corrupt):
            log.error("request %s: %s", request.request_id, error)
            return response
        what = request.method if route is None else route.operation
        code, why = messages.code_of(error), messages.reason_of(error)
        self.log.refused(request.request_id, status=response.status, code=code, what=what, why=why)
        return response

    def note(self, request: Request, status: int) -> None:
        """Log an answered request, if the access log is on."""
        self.log.answered(request, status)

    # --------------------------------------------------------------------- the ASGI lane

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request that the fast lane did not take."""
        if scope["type"] != "http":
            await self._pass_on(scope, receive, send)
            return
        found: RouteMatch | None = None
        request = _bare_request(scope)
        closing = False
        try:
            request.headers = gather_headers(scope["headers"])
            self._check_version(request, scope)
            try:
                found = self._find(request)
            except (NotFound, MethodNotAllowed):
                if self.fallback is not None and not self.router.allowed(request.path):
                    await self.fallback(scope, receive, send)
                    return
                closing = b"expect" in request.headers
                if not closing:
                    await self._read_body(request, receive, self.body_max(None))
                raise
            route = found.route if found else None
            request.body = await self._read_body(request, receive, self.body_max(route))
            response = await self._answer(request, found, scope["query_string"].decode("ascii"))
        except Disconnected:
            return
        except (RequestTooLarge, MalformedRequest) as exc:
            closing = True  # The rest of the body follows and is not read.
            response = self.refuse(exc, request, found.route if found else None)
        except RankdError as exc:
            response = self.refuse(exc, request, found.route if found else None)
        response = self.finish(request, response)
        if response.stream is not None:
            await self._send_stream(request, response, receive, send)
        else:
            await self._send(request, response, send, closing=closing)

    def _find(self, request: Request) -> RouteMatch | None:
        """Return the route; None for OPTIONS of a known path."""
        if request.method == "OPTIONS" and self.router.allowed(request.path):
            return None
        return self.router.find(request.method, request.path)

    async def _answer(self, request: Request, found: RouteMatch | None, query: str) -> Response:
        if found is None:
            return self._options(request)
        route, request.params = found
        try:
            request.query = route.read_query(query)
            response = None if route.quick is None else route.quick(self.service, request)
            if response is None:
                with recorded_with(self.service, request) if route.writes else nullcontext():
                    response = await route.handler(self.service, request)
            if type(response) is not Response:
                raise TypeError(f"{route.operation} answered no Response")
            return response
        except (Exception, asyncio.CancelledError) as exc:
            return self.refuse(exc, request, route)

    def _options(self, request: Request) -> Response:
        allow = self.router.allowed(request.path)
        headers: tuple[Header, ...] = ((b"allow", ", ".join(allow).encode()),)
        asked = request.headers.get(b"access-control-request-method", b"").decode("latin-1")
        origin = request.headers.get(b"origin", b"")
        if asked in allow and self._shares and self._permission(asked, origin):
            # finish() adds the permission of a configured origin.
            if origin not in self._origins:
                headers += self._permission(asked, origin)
            headers += (
                (b"access-control-allow-methods", ", ".join(allow).encode()),
                (b"access-control-allow-headers", ASKING),
                (b"access-control-max-age", PREFLIGHT_SECONDS),
            )
        return Response(status=204, content_type=b"", headers=headers)

    def _check_version(self, request: Request, scope: Scope) -> None:
        if b"host" not in request.headers and scope["http_version"] == "1.1":
            raise MalformedRequest("a request of HTTP/1.1 needs a Host header")
        if scope["http_version"] not in {"1.0", "1.1"}:
            raise MalformedRequest("this service speaks HTTP/1.1")

    def body_max(self, route: Route | None) -> int:
        """Return the largest body accepted on this route, in bytes."""
        own = route.body_bytes_max if route is not None else None
        return self.settings.request_body_bytes_max if own is None else own

    async def _read_body(self, request: Request, receive: Receive, bytes_max: int) -> bytes:
        """Return the whole body. Raises RequestTooLarge at the first byte beyond the bound."""
        if int(request.headers.get(b"content-length", b"0")) > bytes_max:
            raise RequestTooLarge(bytes_max)
        parts: list[bytes] = []
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Disconnected
            part = message.get("body", b"")
            size += len(part)
            if size > bytes_max:
                raise RequestTooLarge(bytes_max)
            parts.append(part)
            more = message.get("more_body", False)
        return b"".join(parts)

    async def _send(
        self, request: Request, response: Response, send: Send, *, closing: bool
    ) -> None:
        headers = self.headers_of(response, len(response.body))
        if closing:
            headers.append((b"connection", b"close"))
        self.note(request, response.status)
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        body = b"" if request.method == "HEAD" else response.body
        await send({"type": "http.response.body", "body": body})

    async def _send_stream(
        self, request: Request, response: Response, receive: Receive, send: Send
    ) -> None:
        headers = self.headers_of(response, 0)[:-1]
        self.note(request, response.status)
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        if request.method == "HEAD":
            response.stream.cancel()
            await send({"type": "http.response.body", "body": b""})
        else:
            await AsgiSink(response.stream, send).run(receive)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.fallback is not None:
            await self.fallback(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1000})


def _squeezed(header: Header) -> Header:
    """Return a header as sent with a compressed body."""
    name, value = header
    return (name, squeezed_tag(value)) if name == b"etag" else header


def _takes_gzip(accepted: bytes) -> bool:
    """Whether Accept-Encoding has gzip with a quality above 0."""
    for part in accepted.lower().split(b","):
        coding, _, quality = part.replace(b" ", b"").partition(b";")
        if coding == b"gzip":
            return quality not in {b"q=0", b"q=0.0", b"q=0.00", b"q=0.000"}
    return False


def _bare_request(scope: Scope) -> Request:
    """Return a request with only its method, path and client, before any check."""
    return Request(
        method=scope["method"],
        path=scope["raw_path"].decode("ascii"),
        params={},
        query={},
        headers=NO_HEADERS,
        client=scope["client"][0] if scope.get("client") else "",
    )
