"""A service of its own for each test of the page, and one browser for all of them."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from tests.browser.chromium import Page, browser
from tests.not_tested import not_tested

from rankd.testing.servers import ServerMissing, chromium_binary

READY = "rankd ready on "


class Site(NamedTuple):
    """A running service, and a way to speak to it beside the page."""

    url: str
    client: httpx.Client
    process: "subprocess.Popen[str]"

    def define(self, board: str, **definition: object) -> None:
        self.client.put(f"/v1/boards/{board}", json=definition).raise_for_status()

    def submit(self, board: str, player: str, score: object) -> None:
        sent = {"player": player, "score": score}
        self.client.post(f"/v1/boards/{board}/scores", json=sent).raise_for_status()


@contextmanager
def serving_site(folder: Path, *options: str) -> Iterator[Site]:
    """Serve a folder on a free port until the block ends."""
    command = [sys.executable, "-m", "rankd", "serve", "--port", "0", "--data", str(folder)]
    with subprocess.Popen(
        [*command, *options], stdout=subprocess.PIPE, text=True, cwd=folder
    ) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line.startswith(READY), line
            url = line.removeprefix(READY).strip()
            with httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
                yield Site(url, client, process)
        finally:
            process.terminate()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with serving_site(tmp_path) as served:
        yield served


@pytest.fixture(scope="package")
def chromium() -> Iterator[Page]:
    try:
        chromium_binary()
    except ServerMissing as missing:
        not_tested("the live page in a browser", missing)
    with browser() as page:
        yield page


@pytest.fixture
def page(chromium: Page) -> Iterator[Page]:
    """An empty page, on a wide and light screen, that has complained of nothing."""
    chromium.open("about:blank")
    chromium.wait_for("location.href === 'about:blank'")
    chromium.look_like(width=1200, height=900)
    chromium.complaints.clear()
    yield chromium
    chromium.open("about:blank")
    chromium.wait_for("location.href === 'about:blank'")
