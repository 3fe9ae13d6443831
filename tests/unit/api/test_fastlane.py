"""What the fast lane keeps: what a request meant, so much of it and no more, and in what order."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from rankd.api import fastlane
from rankd.api.app import App
from rankd.api.connection import DEAD, IDLE
from rankd.api.exchange import Request, Response
from rankd.api.fastlane import Outbox, Questions
from rankd.api.routes import Answered, Prepared, Route, Router, Take
from rankd.api.table import ROUTES
from rankd.settings import Settings


async def handler(service: Any, request: Request) -> Response:
    return Response(b"{}")


def asked(**more: Any) -> Request:
    return Request("GET", "/", {}, {}, {}, **more)


def preparing(give: Callable[[], Prepared | None]) -> Route:
    return Route(
        method="GET",
        path="/a/{b}/c/{d}",
        operation="ask",
        handler=handler,
        hot=True,
        prepare=lambda service, request: give(),
    )


def taking(give: Callable[[], Take | None]) -> Route:
    return Route(
        method="POST",
        path="/a/{b}",
        operation="tell",
        handler=handler,
        hot=True,
        prepare_taking=lambda service, request: give(),
    )


def questions(*routes: Route) -> Questions:
    return Questions(App(Router(routes), None, Settings()))


def answer(player: str) -> bytes:
    return player.encode()


def take(body: bytes, answered: Answered) -> bool:
    return True


# ------------------------------------------------------------------------------- cutting

CUT = Questions(App(Router(ROUTES), None, Settings())).cut


@pytest.mark.parametrize(
    ("line", "player"),
    [
        (b"GET /v1/boards/b/standings/p1 HTTP/1.1", b"p1"),
        (b"GET /v1/boards/b/standings/p1/around HTTP/1.1", b"p1"),
        (b"GET /v1/boards/b/standings/p1?window=all HTTP/1.1", b"p1"),
        (b"GET /v1/boards/b/standings/p1/around?above=1 HTTP/1.1", b"p1"),
        (b"GET /v1/boards/a-B_9.~/standings/A-z_0.~ HTTP/1.1", b"A-z_0.~"),
    ],
)
def test_the_last_parameter_is_cut_out_of_a_line(line: bytes, player: bytes) -> None:
    cut = CUT(line)
    assert cut is not None
    assert cut[1] == player


@pytest.mark.parametrize(
    "line",
    [
        b"GET /v1/boards/b/standings/ HTTP/1.1",
        b"GET /v1/boards/b/standings HTTP/1.1",
        b"GET /v1/boards//standings/p1 HTTP/1.1",
        b"GET /v1/boards/b%20/standings/p1 HTTP/1.1",
        b"GET /v1/boards/b/standings/%61 HTTP/1.1",
        b"GET /v1/boards/b/friends/p1 HTTP/1.1",
        b"HEAD /v1/boards/b/standings/p1 HTTP/1.1",
        b" GET /v1/boards/b/standings/p1 HTTP/1.1",
        b"get /v1/boards/b/standings/p1 HTTP/1.1",
        b"GET  /v1/boards/b/standings/p1 HTTP/1.1",
        b"GET /V1/boards/b/standings/p1 HTTP/1.1",
    ],
)
def test_nothing_is_cut_out_of_a_line_of_another_kind(line: bytes) -> None:
    assert CUT(line) is None


# ------------------------------------------------------------------------- what is kept


def test_what_was_prepared_is_kept_for_its_kind_alone() -> None:
    route = preparing(lambda: answer)
    kept = questions(route)
    kept.prepare(b"one", route, asked())
    assert kept.get(b"one") is answer
    assert kept.get(b"other") is None


def test_what_cannot_be_prepared_any_more_is_forgotten() -> None:
    gives: list[Prepared | None] = [answer, None]
    route = preparing(lambda: gives.pop(0))
    kept = questions(route)
    for expected in (answer, None):
        kept.prepare(b"one", route, asked())
        assert kept.get(b"one") is expected


def test_what_cannot_be_taken_any_more_is_forgotten() -> None:
    gives: list[Take | None] = [take, None]
    route = taking(lambda: gives.pop(0))
    kept = questions(preparing(lambda: None), route)
    first = asked(body=b"first")
    kept.prepare_taking(b"head", 7, route, first)
    assert kept.taking(b"head") == (take, len(b"head") + 7, route, first)
    kept.prepare_taking(b"head", 7, route, asked())
    assert kept.taking(b"head") is None


def test_so_many_kinds_are_kept_and_no_large_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fastlane, "QUESTIONS_MAX", 3)
    monkeypatch.setattr(fastlane, "BLOCK_BYTES_MAX", 10)
    reads, writes = preparing(lambda: answer), taking(lambda: take)
    kept = questions(reads, writes)
    for number in range(20):
        kind = b"%d" % number
        kept.prepare(kind, reads, asked())
        kept.prepare_taking(kind, 1, writes, asked())
        assert kept.get(kind) is answer and kept.taking(kind) is not None
        assert 0 < len(kept._kept) <= 3 and 0 < len(kept._taken) <= 3
    for size, there in ((10, True), (11, False)):
        kept.prepare(b"x" * size, reads, asked())
        kept.prepare_taking(b"x" * size, 1, writes, asked())
        assert (kept.get(b"x" * size) is not None) is there
        assert (kept.taking(b"x" * size) is not None) is there


# ------------------------------------------------------------------------------- sending


class Connection:
    """What an outbox knows of a connection."""

    def __init__(self, written: list[bytes]) -> None:
        self.phase = IDLE
        self.transport = self
        self.write = written.append


def test_answers_go_out_together_at_the_end_of_a_turn_and_once() -> None:
    async def turn() -> None:
        written: list[bytes] = []
        one, other = Connection(written), Connection(written)
        outbox = Outbox(asyncio.get_running_loop())
        outbox.post(one, b"1")  # type: ignore[arg-type]
        outbox.post(other, b"2")  # type: ignore[arg-type]
        outbox.post(one, b"3")  # type: ignore[arg-type]
        assert written == []
        await asyncio.sleep(0)
        assert written == [b"1", b"2", b"3"]
        outbox.post(one, b"4")  # type: ignore[arg-type]
        outbox.send()  # Something else is about to be written.
        assert written[3:] == [b"4"]
        outbox.post(one, b"5")  # type: ignore[arg-type]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert written[4:] == [b"5"]

    asyncio.run(turn())


def test_nothing_is_written_to_who_is_gone() -> None:
    async def leave() -> None:
        written: list[bytes] = []
        here, gone = Connection(written), Connection(written)
        outbox = Outbox(asyncio.get_running_loop())
        for connection in (gone, here, gone):
            outbox.post(connection, b"%d" % (connection is here))  # type: ignore[arg-type]
        gone.phase = DEAD
        await asyncio.sleep(0)
        assert written == [b"1"]

    asyncio.run(leave())
