"""The dashboard: static files, read once, and the routes that serve them.

The page uses only the public API; nothing here depends on boards or players.

Each file is served under a name with a hash of its content, so that browsers may cache it forever
and never combine the page of one version with the style of another. Only the page itself is
requested again, and answered 304 if the browser has it.
"""

from functools import cache
from hashlib import blake2b
from importlib.resources import files
from types import MappingProxyType

from rankd.api.messages import HTML, Request, Response
from rankd.api.routing import Route
from rankd.errors import NotFound

PAGE = "index.html"
ICON = "icon.svg"

KINDS = MappingProxyType(
    {
        ".css": b"text/css; charset=utf-8",
        ".js": b"text/javascript; charset=utf-8",
        ".svg": b"image/svg+xml",
    }
)
"""Content types by suffix. A file with another suffix is not served."""

KEPT = b"public, max-age=31536000, immutable"
"""A year, the longest that caches honour: a file that changes gets another name."""

ASKED_ANEW = b"no-cache"
"""Cached, but shown only after checking that it is current."""

KEPT_A_DAY = b"public, max-age=86400"
"""For a file whose name never changes."""

HASH_BYTES = 8
"""Enough to distinguish versions of one file, none of which is hostile."""


def _hash(content: bytes) -> str:
    return blake2b(content, digest_size=HASH_BYTES).hexdigest()


@cache
def _folder() -> dict[str, bytes]:
    """Return the files of the page's folder, by name."""
    found = files("rankd.dashboard").joinpath("page").iterdir()
    return {file.name: file.read_bytes() for file in found if file.is_file()}


@cache
def _assets() -> dict[str, Response]:
    """Return the response for each file, by the name it is served under."""
    return {
        served: Response(
            content, content_type=KINDS[f".{name.rpartition('.')[2]}"], cache_control=KEPT
        )
        for name, content in _folder().items()
        if (served := _served_name(name)) is not None
    }


def _served_name(name: str) -> str | None:
    stem, _, kind = name.rpartition(".")
    if f".{kind}" not in KINDS:
        return None
    return f"{stem}.{_hash(_folder()[name])}.{kind}"


@cache
def _page() -> tuple[bytes, Response, Response]:
    """Return the page's ETag, the page, and the 304 for a browser that has it."""
    text = _folder()[PAGE].decode()
    for name in _folder():
        if (served := _served_name(name)) is not None:
            text = text.replace(f'"/assets/{name}"', f'"/assets/{served}"')
    body = text.encode()
    tag = b'"%s"' % _hash(body).encode()
    headers = ((b"etag", tag),)
    fresh = Response(body, content_type=HTML, cache_control=ASKED_ANEW, headers=headers)
    known = Response(b"", 304, content_type=b"", cache_control=ASKED_ANEW, headers=headers)
    return tag, fresh, known


async def show_page(service: object, request: Request) -> Response:
    """Return the live page: the top list of a board, as it changes."""
    del service
    tag, fresh, known = _page()
    told = request.headers.get(b"if-none-match", b"")
    return (
        known if tag in [each.strip().removeprefix(b"W/") for each in told.split(b",")] else fresh
    )


async def show_asset(service: object, request: Request) -> Response:
    """Return a file of the page."""
    del service
    found = _assets().get(request.params["file"])
    if found is None:
        raise NotFound
    return found


async def show_icon(service: object, request: Request) -> Response:
    """Return the icon under the name that browsers request by default."""
    del service, request
    return Response(_folder()[ICON], content_type=KINDS[".svg"], cache_control=KEPT_A_DAY)


ROUTES = (
    Route(method="GET", path="/", operation="show_page", handler=show_page, any_query=True),
    Route(method="GET", path="/assets/{file}", operation="show_asset", handler=show_asset),
    Route(method="GET", path="/favicon.ico", operation="show_icon", handler=show_icon),
)
