"""Status of services and of a folder: what is shown, and the code it ends with."""

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from tests.cli.running import Served, run

HEALTH = {
    "status": "unavailable",
    "position": 7,
    "durable": True,
    "problem": "the ledger is lost",
    "notes": ["a note"],
}


class Unready(BaseHTTPRequestHandler):
    """Answers as a node that takes no requests."""

    seen: list[str | None]

    def do_GET(self) -> None:
        body = json.dumps(HEALTH).encode()
        type(self).seen.append(self.headers.get("authorization"))
        self.send_response(503)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def unready() -> Iterator[str]:
    Unready.seen = []
    with HTTPServer(("127.0.0.1", 0), Unready) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def away() -> Iterator[str]:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # Taken, so that nobody else listens there either.
        yield f"http://127.0.0.1:{nobody.getsockname()[1]}"


def test_a_service_that_is_ready_is_shown(service: Served) -> None:
    done = run("status", RANKD_URL=service.url)
    heads, row = done.out.splitlines()
    assert (done.code, done.err) == (0, "")
    assert heads.split() == ["node", "status", "position", "durable"]
    assert row.split()[0::3] == [service.url, "yes"]
    (node,) = json.loads(run("status", "--url", service.url, "--json").out)["nodes"]
    assert (node["place"], node["status"], node["problem"]) == (service.url, "ready", None)


def test_several_nodes_are_asked_and_one_that_is_away_fails(
    service: Served, unready: str, away: str
) -> None:
    done = run("status", service.url, unready, away, RANKD_KEY="rk_secret")
    assert done.code == 1
    assert done.err == f"rankd: requests are not taken by {unready}, {away}\n"
    heads, *rows = done.out.splitlines()
    assert heads.split() == ["node", "status", "position", "behind", "durable"]
    assert [row.split()[:2] for row in rows[:3]] == [
        [service.url, "ready"],
        [unready, "unavailable"],
        [away, "unreachable"],
    ]
    assert rows[3:5] == [f"{unready}: the ledger is lost", f"{unready}: a note"]
    assert rows[5].startswith(f"{away} does not answer")
    assert Unready.seen == [None], "asked once, and shown no key"


def test_a_folder_is_shown_like_a_service() -> None:
    assert run("board", "apply", "b", "--data", "folder").code == 0
    done = run("status", "--data", "folder")
    assert done.out.splitlines()[1].split() == ["folder", "ready", "1", "yes"]
    assert run("status", "--data", "nowhere").code == 1
    assert run("status", "http://127.0.0.1:1", "--data", "folder").code == 2
    assert run("status", "not-a-url").code == 2


@pytest.mark.parametrize(
    "words",
    [
        ("status", "--url", "http://127.0.0.1:1", "--url", "http://127.0.0.1:2"),
        ("status", "http://127.0.0.1:1", "--url", "http://127.0.0.1:2"),
        ("top", "b", "--url", "http://127.0.0.1:1", "--url", "http://127.0.0.1:2"),
    ],
)
def test_no_service_that_is_named_is_passed_over(words: tuple[str, ...]) -> None:
    done = run(*words)
    assert done.code == 2
    assert "rankd status URL URL" in done.err
