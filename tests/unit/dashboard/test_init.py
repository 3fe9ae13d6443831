"""The page's files: what they are served as, for how long they are kept, and what they load."""

import asyncio
import re
from collections.abc import Mapping
from importlib.resources import files

import pytest

from rankd.api.messages import HTML, Request, Response
from rankd.api.routing import Router
from rankd.dashboard import KINDS, PAGE, ROUTES
from rankd.errors import NotFound

FOLDER = files("rankd.dashboard").joinpath("page")
NAMES = sorted(file.name for file in FOLDER.iterdir())


def get(path: str, headers: Mapping[bytes, bytes] | None = None) -> Response:
    route, params = Router(ROUTES).find("GET", path)
    request = Request("GET", path, params, {}, headers or {})

    async def answer() -> Response:
        return await route.handler(None, request)

    return asyncio.run(answer())


def references() -> list[str]:
    return re.findall(r'(?:src|href)="([^"#]+)"', get("/").body.decode())


def test_every_file_is_of_a_kind_that_is_served() -> None:
    assert {name[name.rindex(".") :] for name in NAMES if name != PAGE} == set(KINDS)


def test_the_page_loads_every_file_under_a_name_that_changes_with_it() -> None:
    assets = {path for path in references() if path.startswith("/assets/")}
    assert len(assets) == len(NAMES) - 1
    for path in assets:
        assert re.fullmatch(r"/assets/\w+\.[0-9a-f]{16}\.(css|js|svg)", path)
        answer = get(path)
        name = re.sub(r"\.[0-9a-f]{16}", "", path.removeprefix("/assets/"))
        assert answer.body == FOLDER.joinpath(name).read_bytes()
        assert answer.content_type == KINDS[name[name.rindex(".") :]]
        assert b"immutable" in answer.cache_control


def test_the_page_is_asked_for_anew_and_not_sent_twice() -> None:
    answer = get("/")
    assert (answer.status, answer.content_type) == (200, HTML)
    assert answer.cache_control == b"no-cache"
    ((name, tag),) = answer.headers
    assert name == b"etag"
    for known in (tag, b"W/" + tag, b'"x", ' + tag):
        again = get("/", {b"if-none-match": known})
        assert (again.status, again.body, again.headers) == (304, b"", ((b"etag", tag),))
    assert get("/", {b"if-none-match": b'"x"'}).status == 200


def test_icon_has_the_name_that_browsers_ask_for() -> None:
    answer = get("/favicon.ico")
    assert (answer.status, answer.content_type) == (200, b"image/svg+xml")
    assert answer.body == FOLDER.joinpath("icon.svg").read_bytes()


@pytest.mark.parametrize("name", ["page.js", "index.html", "nothing.css", "..", "page.0.js"])
def test_nothing_else_is_served(name: str) -> None:
    with pytest.raises(NotFound):
        get(f"/assets/{name}")


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_loaded_from_elsewhere(name: str) -> None:
    text = FOLDER.joinpath(name).read_text()
    addresses = [
        found for found in re.findall(r"https?://[^\s\"']+", text) if "w3.org" not in found
    ]
    assert addresses == []
    assert "@import" not in text and "url(" not in text


def test_nothing_in_the_page_needs_leave_to_run() -> None:
    """The policy allows files only: no script, style or handler in the text itself."""
    text = FOLDER.joinpath(PAGE).read_text()
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", text) == []


def test_what_strangers_wrote_is_only_ever_put_in_as_text() -> None:
    text = FOLDER.joinpath("page.js").read_text()
    dangerous = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|Function\(|srcdoc"
    assert re.findall(dangerous, text) == []
