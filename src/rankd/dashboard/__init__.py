"""The dashboard: the live page, the console, their files, and the routes that serve them.

Both use only the public API; nothing here depends on boards or players.

Each file is served under a name with a hash of its content, so that browsers may cache it forever
and never combine the page of one version with the style of another. A script names the scripts that
it imports by those names, too. Only the pages themselves are requested again, and answered 304 if
the browser has them.
"""

from functools import cache
from hashlib import blake2b
from importlib.resources import files
from types import MappingProxyType

from rankd.api.messages import HTML, Request, Response
from rankd.api.routing import Route
from rankd.errors import NotFound

FOLDERS = ("page", "console")
PAGE = "index.html"
CONSOLE = "console.html"
ELEMENT = "board.js"
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

KEPT_AN_HOUR = b"public, max-age=3600"
"""For the element, which other sites load by one name."""

KEPT_A_DAY = b"public, max-age=86400"
"""For a file whose name never changes."""

HASH_BYTES = 8
"""Enough to distinguish versions of one file, none of which is hostile."""


def _hash(content: bytes) -> str:
    return blake2b(content, digest_size=HASH_BYTES).hexdigest()


@cache
def _folder() -> dict[str, bytes]:
    """Return the files of the page and the console, by name."""
    folders = [files("rankd.dashboard").joinpath(name) for name in FOLDERS]
    found = [file for folder in folders for file in folder.iterdir() if file.is_file()]
    return {file.name: file.read_bytes() for file in found}


@cache
def _served(name: str) -> tuple[str, bytes]:
    """Return the name that a file is served under, and its content."""
    stem, _, kind = name.rpartition(".")
    content = _linked(_folder()[name])
    return f"{stem}.{_hash(content)}.{kind}", content


def _linked(content: bytes) -> bytes:
    """Return a file with the assets that it links to under their served names."""
    for name in _folder():
        link = b'"/assets/%s"' % name.encode()
        if link in content:
            content = content.replace(link, b'"/assets/%s"' % _served(name)[0].encode())
    return content


@cache
def _assets() -> dict[str, Response]:
    """Return the response for each file, by the name it is served under."""
    found = {name: f".{name.rpartition('.')[2]}" for name in _folder()}
    return {
        _served(name)[0]: Response(_served(name)[1], content_type=KINDS[kind], cache_control=KEPT)
        for name, kind in found.items()
        if kind in KINDS
    }


@cache
def _page(name: str) -> tuple[bytes, Response, Response]:
    """Return a page's ETag, the page, and the 304 for a browser that has it."""
    body = _linked(_folder()[name])
    tag = b'"%s"' % _hash(body).encode()
    headers = ((b"etag", tag),)
    fresh = Response(body, content_type=HTML, cache_control=ASKED_ANEW, headers=headers)
    known = Response(b"", 304, content_type=b"", cache_control=ASKED_ANEW, headers=headers)
    return tag, fresh, known


def _shown(name: str, request: Request) -> Response:
    """Return a page, or 304 to a browser that has it."""
    tag, fresh, known = _page(name)
    told = request.headers.get(b"if-none-match", b"")
    return (
        known if tag in [each.strip().removeprefix(b"W/") for each in told.split(b",")] else fresh
    )


async def show_page(service: object, request: Request) -> Response:
    """Return the live page: the top list of a board, as it changes."""
    del service
    return _shown(PAGE, request)


async def show_console(service: object, request: Request) -> Response:
    """Return the console, in which operators see and steer the service."""
    del service
    return _shown(CONSOLE, request)


@cache
def _element() -> Response:
    """Return the element for other pages. Its name never changes."""
    body = files("rankd.dashboard").joinpath("element", ELEMENT).read_bytes()
    headers = ((b"etag", b'"%s"' % _hash(body).encode()),)
    return Response(body, content_type=KINDS[".js"], cache_control=KEPT_AN_HOUR, headers=headers)


async def show_element(service: object, request: Request) -> Response:
    """Return the script of the element ``<rankd-board>``, a live board for any page."""
    del service, request
    return _element()


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
    Route(
        method="GET",
        path="/console",
        operation="show_console",
        handler=show_console,
        any_query=True,
    ),
    Route(method="GET", path="/board.js", operation="show_element", handler=show_element),
    Route(method="GET", path="/assets/{file}", operation="show_asset", handler=show_asset),
    Route(method="GET", path="/favicon.ico", operation="show_icon", handler=show_icon),
)
