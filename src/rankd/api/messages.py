"""The request a handler receives and the response it returns.

Plain values, independent of the lane: a handler cannot tell which lane called it. Sockets, parsers
and ASGI stay outside.
"""

import secrets
from collections.abc import Mapping
from typing import Any

import msgspec

JSON = b"application/json"
PROBLEM_JSON = b"application/problem+json"
HTML = b"text/html; charset=utf-8"

NO_STORE = b"no-store"
"""The default cache-control: a rank is outdated when it is read."""

Header = tuple[bytes, bytes]


def new_request_id() -> str:
    """Return a unique id: 64 random bits."""
    return secrets.token_hex(8)


class Request(msgspec.Struct, gc=False):
    """One complete request: head parsed, body read, query validated."""

    method: str
    """The method as sent: ``HEAD`` where a route declares ``GET``."""
    path: str
    """Without the query, still percent-encoded."""
    params: Mapping[str, str]
    """The values of the template's parameters, percent-decoded once."""
    query: Mapping[str, Any]
    """Every parameter the route declares, of the type it declares, or its default."""
    headers: Mapping[bytes, bytes]
    """By name in lower case. A header that was repeated is joined with commas."""
    body: bytes = b""
    client: str = ""
    """The address at the other end of the connection; a proxy's, if there is one."""
    _request_id: str = ""
    counted: bool = False
    """Whether rate limits have counted it already."""

    @property
    def request_id(self) -> str:
        """The id of this request in responses and logs, generated at first use."""
        if not self._request_id:
            self._request_id = new_request_id()
        return self._request_id


class Response(msgspec.Struct, frozen=True, gc=False):
    """One response. The lane adds its length, the date and the common headers.

    Frozen, so that a handler may cache and return it again.
    """

    body: bytes = b""
    status: int = 200
    content_type: bytes = JSON
    cache_control: bytes = NO_STORE
    headers: tuple[Header, ...] = ()
    """More headers, names in lower case. Names and values come from the handler, never from a
    client."""


def squeezed_tag(etag: bytes) -> bytes:
    """Return the ETag of the compressed body. A tag stands for exact bytes: RFC 9110, 8.8.3."""
    return etag[:-1] + b'-gzip"'


def known_tag(request: Request, etag: bytes) -> bytes | None:
    """Return the ETag with which the client has this body cached, plain or compressed; else None.

    ``etag`` is the tag of the uncompressed body in the requested form.
    """
    shown = request.headers.get(b"if-none-match")
    if shown is None:
        return None
    tags = [tag.strip().removeprefix(b"W/") for tag in shown.split(b",")]
    if etag in tags or b"*" in tags:
        return etag
    squeezed = squeezed_tag(etag)
    return squeezed if squeezed in tags else None


_encode = msgspec.json.Encoder().encode


def json_response(value: object, *, status: int = 200) -> Response:
    """Return a response with this value as JSON."""
    return Response(_encode(value), status)
