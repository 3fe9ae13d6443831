"""The element ``<rankd-board>`` in a page of another origin: it shows, follows, and stays text."""

import functools
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.browser.chromium import Page
from tests.browser.conftest import Site, serving_site

HOSTILE = "<img src=x onerror=alert(1)>"
PAGE = """<!doctype html><html lang="en"><title>A game</title>
<script type="module" src="{service}/board.js"></script><body><h1>A game</h1>{body}</body></html>"""

ROWS = """[...document.querySelector('rankd-board').shadowRoot.querySelectorAll('tbody tr')]
    .map(row => [...row.children].map(cell => cell.textContent.trim()))"""


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, pages: dict[str, str], *args: Any) -> None:
        self.pages = pages
        super().__init__(*args)

    def do_GET(self) -> None:
        body = self.pages.get(self.path, "").encode()
        self.send_response(200 if body else 404)
        self.send_header("content-type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def another_site(pages: dict[str, str]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Handler, pages))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Site]:
    with serving_site(tmp_path, "--cors-reads-anywhere") as site:
        site.define("arena", title="Arena")
        for player, score in (("ada", 30), ("bob", 20), ("cyd", 10)):
            site.submit("arena", player, score)
        yield site


def rows(page: Page) -> Any:
    return page.evaluate(ROWS)


def shows(page: Page, *players: str) -> None:
    page.wait_for("Boolean(document.querySelector('rankd-board')?.shadowRoot)")
    wanted = json.dumps([*players], separators=(",", ":"))
    page.wait_for(f"JSON.stringify({ROWS}.map(row => row[2])) === '{wanted}'")


def test_it_follows_a_board_from_another_site(page: Page, shared: Site) -> None:
    pages: dict[str, str] = {}
    with another_site(pages) as other:
        pages["/"] = PAGE.format(service=shared.url, body='<rankd-board board="arena" top="2">')
        page.open(f"{other}/")
        shows(page, "ada", "bob")
        shared.submit("arena", "cyd", 1234567)
        shows(page, "cyd", "ada")
        assert rows(page)[0][0] == "1"
        assert rows(page)[0][3] == "1\u202f234\u202f567"
        assert rows(page)[1][1] == "▼1"
        title = "document.querySelector('rankd-board').shadowRoot.querySelector('h2').textContent"
        assert page.evaluate(title) == "Arena"
    assert page.complaints == []


def test_a_player_is_pinned_and_attributes_may_change(page: Page, shared: Site) -> None:
    shared.submit("arena", "dee", 5)
    pages: dict[str, str] = {}
    with another_site(pages) as other:
        body = '<rankd-board board="arena" top="1" player="dee" around="1">'
        pages["/"] = PAGE.format(service=shared.url, body=body)
        page.open(f"{other}/")
        shows(page, "ada", "bob", "cyd", "dee")  # The edge is made up.
        mine = "document.querySelector('rankd-board').shadowRoot.querySelector('.mine').textContent"
        assert "dee" in page.evaluate(mine)
        page.evaluate("document.querySelector('rankd-board').setAttribute('top', '2')")
        page.evaluate("document.querySelector('rankd-board').removeAttribute('player')")
        shows(page, "ada", "bob")
    assert page.complaints == []


def test_names_stay_text_and_mistakes_are_told(page: Page, shared: Site) -> None:
    shared.client.put("/v1/players/ada", json={"name": HOSTILE}).raise_for_status()
    pages: dict[str, str] = {}
    with another_site(pages) as other:
        pages["/"] = PAGE.format(service=shared.url, body='<rankd-board board="arena">')
        pages["/none"] = PAGE.format(service=shared.url, body='<rankd-board board="none">')
        page.open(f"{other}/")
        shows(page, HOSTILE, "bob", "cyd")
        images = "document.querySelector('rankd-board').shadowRoot.querySelectorAll('img').length"
        assert page.evaluate(images) == 0
        assert page.complaints == []
        page.open(f"{other}/none")
        note = (
            "document.querySelector('rankd-board')?.shadowRoot?.querySelector('.note').textContent"
        )
        page.wait_for(f"({note} ?? '').includes('no board')")


def test_it_survives_a_restart_of_the_service(page: Page, tmp_path: Path) -> None:
    pages: dict[str, str] = {}
    with another_site(pages) as other:
        with serving_site(tmp_path, "--cors-reads-anywhere") as site:
            port = site.url.rpartition(":")[2]
            site.define("arena")
            site.submit("arena", "ada", 1)
            pages["/"] = PAGE.format(service=site.url, body='<rankd-board board="arena">')
            page.open(f"{other}/")
            shows(page, "ada")
        with serving_site(tmp_path, "--cors-reads-anywhere", "--port", port) as site:
            site.submit("arena", "bob", 2)
            shows(page, "bob", "ada")
