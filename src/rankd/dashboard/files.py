"""The page and its files, read once, and the rows of the table of routes that answer with them.

Each file is served under a name that holds a hash of what is in it, so that a browser may keep it
for good and never shows the page of one version with the style of another. Only the page itself
is asked for anew, and answered 304 where the browser has it.
"""

from functools import cache
from hashlib import blake2b
from importlib.resources import files
from types import MappingProxyType

from rankd.api.exchange import HTML, Request, Response
from rankd.api.routes import Route
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
"""What a file is, by the end of its name. A file of another kind is not served."""

KEPT = b"public, max-age=31536000, immutable"
"""A year, the most that is honoured: a file that changes gets another name."""

ASKED_ANEW = b"no-cache"
"""Kept, but shown only after asking whether it is still the page."""

KEPT_A_DAY = b"public, max-age=86400"
"""For a file whose name is always the same."""

HASH_BYTES = 8
"""Tells apart versions of one file, not files of strangers."""


def _hash(content: bytes) -> str:
    return blake2b(content, digest_size=HASH_BYTES).hexdigest()


@cache
def _folder() -> dict[str, bytes]:
    """Return what is in the folder of the page, by name."""
    found = files("rankd.dashboard").joinpath("page").iterdir()
    return {file.name: file.read_bytes() for file in found if file.is_file()}


@cache
def _assets() -> dict[str, Response]:
    """Return the answer for each file, by the name it is served under."""
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
    """Return the page's tag, the page, and the answer to whoever has it."""
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
    """Return the icon, which browsers ask for by this name where a page names none."""
    del service, request
    return Response(_folder()[ICON], content_type=KINDS[".svg"], cache_control=KEPT_A_DAY)


ROUTES = (
    Route(method="GET", path="/", operation="show_page", handler=show_page, any_query=True),
    Route(method="GET", path="/assets/{file}", operation="show_asset", handler=show_asset),
    Route(method="GET", path="/favicon.ico", operation="show_icon", handler=show_icon),
)
