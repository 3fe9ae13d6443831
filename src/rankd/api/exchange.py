"""What a handler is given and what it gives back: one request, one response.

Plain values without behaviour of either lane: a handler cannot tell which lane called it. Sockets,
parsers and ASGI stay outside.
"""

import secrets
from collections.abc import Mapping
from typing import Any

import msgspec

JSON = b"application/json"
PROBLEM_JSON = b"application/problem+json"
HTML = b"text/html; charset=utf-8"

NO_STORE = b"no-store"
"""What an answer says of caching unless its handler knows better: a rank is old when it is read."""

Header = tuple[bytes, bytes]


def new_request_id() -> str:
    """Return a name nobody has used: 64 random bits."""
    return secrets.token_hex(8)


class Request(msgspec.Struct, gc=False):
    """One request, complete: its head is parsed, its body is all there, its query is checked."""

    method: str
    """As it was sent, so ``HEAD`` where a route declares ``GET``."""
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
        """A name for this request in answers and logs. Made when first asked for."""
        if not self._request_id:
            self._request_id = new_request_id()
        return self._request_id


class Response(msgspec.Struct, frozen=True, gc=False):
    """One answer. The lane adds its length, the date and what every answer carries.

    Frozen, so that a handler may keep one and give it out again.
    """

    body: bytes = b""
    status: int = 200
    content_type: bytes = JSON
    cache_control: bytes = NO_STORE
    headers: tuple[Header, ...] = ()
    """More headers, names in lower case. Names and values are the handler's, never a stranger's."""


def squeezed_tag(etag: bytes) -> bytes:
    """Return the tag of a body squeezed. A tag stands for the very bytes: RFC 9110, 8.8.3."""
    return etag[:-1] + b'-gzip"'


def known_tag(request: Request, etag: bytes) -> bytes | None:
    """Return the tag by which the asker has this body already, as it is or squeezed.

    ``etag`` is the tag of the body in the form that is asked for.
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
    """Return the answer that carries this value as JSON."""
    return Response(_encode(value), status)
