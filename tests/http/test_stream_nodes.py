"""Streams of several processes, and of several nodes over one ledger: ``stream_nodes`` judges."""

from pathlib import Path

import pytest
from tests.http.backends import Backend, Servers
from tests.http.clocked import serving
from tests.http.stream_nodes import play, play_nodes
from tests.not_tested import not_tested

from rankd.client import Client
from rankd.errors import Unauthenticated
from rankd.testing.servers import ServerMissing

pytestmark = [pytest.mark.timeout(240), pytest.mark.servers]

STEPS = 40


def test_every_worker_streams_the_page_and_resumes_what_another_began(tmp_path: Path) -> None:
    with serving(tmp_path, "--port", "0", "--workers", "2") as served:
        game = play([f"http://127.0.0.1:{served.port}"], seed=1, steps=STEPS)
    assert game.judged > 10 and game.resumed


@pytest.mark.parametrize("index", ["native", "redis"])
def test_every_node_streams_the_page_and_resumes_what_another_began(
    index: str, tmp_path: Path
) -> None:
    backend = Backend(index=index, nodes=2)
    try:
        with Servers() as servers:
            game = play_nodes(backend, servers, tmp_path, seed=2, steps=STEPS)
    except ServerMissing as missing:
        not_tested("streams of several nodes", missing)
    assert game.judged > 10


def test_a_ticket_is_taken_once_by_all_workers_together(tmp_path: Path) -> None:
    with serving(tmp_path, "--port", "0", "--workers", "2") as served:
        url = f"http://127.0.0.1:{served.port}"
        with Client(url) as client:
            client.define("b", {})
            admin = client.create_key(["admin"]).key
        with Client(url, admin) as client:
            for _ in range(8):
                with Client(url) as browser:
                    ticket = client.ticket().ticket
                    assert next(browser.stream("b", ticket=ticket)).position
                with Client(url) as browser, pytest.raises(Unauthenticated):
                    next(browser.stream("b", ticket=ticket))
