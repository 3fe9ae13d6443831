"""What is known of requests: what they meant, so much of it and no more."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from rankd.api import questions as known
from rankd.api.app import App
from rankd.api.exchange import Request, Response
from rankd.api.questions import NO_QUESTION, Questions
from rankd.api.routes import AllAnswered, Prepared, Route, Router, Take
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


def answer(players: Sequence[str]) -> list[bytes | None]:
    return [player.encode() for player in players]


def hand_in(given: list[bytes], answered: AllAnswered) -> bool:
    return True


TAKE = Take(bytes.upper, hand_in)


def ask(player: str, kind: str = "") -> bytes:
    return f"GET /a/b/c/{player} HTTP/1.1\r\nhost: h{kind}\r\n\r\n".encode()


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
    kept.prepare(ask("x"), route, asked())
    assert kept.find(ask("y")).word_in(ask("y")) == "y"
    assert kept.find(ask("y", "other")) is NO_QUESTION
    assert kept.find(b"POST " + ask("y")) is NO_QUESTION


@pytest.mark.parametrize(
    "data",
    [
        ask(""),
        ask("a b"),
        ask("a/b"),
        ask("a:b"),
        ask("%61"),
        ask("a\r\n"),
        ask("x") + ask("y"),
        ask("x") + b"\r\n",
        b"\r\n" + ask("x"),
        ask("x")[1:],
        ask("x")[:-1],
        ask("x", "more"),
        ask("a" * (known.WORD_BYTES_MAX + 1)),
        b"",
    ],
)
def test_bytes_that_are_not_one_request_of_the_kind_are_none_of_it(data: bytes) -> None:
    route = preparing(lambda: answer)
    kept = questions(route)
    kept.prepare(ask("x"), route, asked())
    question = kept.find(ask("x"))
    assert question.word_in(data) is None
    assert question.word_in(ask("a" * known.WORD_BYTES_MAX)) is not None


def test_what_cannot_be_prepared_any_more_is_forgotten() -> None:
    gives: list[Prepared | None] = [answer, None]
    route = preparing(lambda: gives.pop(0))
    kept = questions(route)
    kept.prepare(ask("x"), route, asked())
    before = kept.find(ask("x"))
    assert before.word_in(ask("x")) == "x"
    kept.prepare(ask("x"), route, asked())
    assert kept.find(ask("x")) is NO_QUESTION
    assert before.word_in(ask("x")) is None, "a connection that remembers it asks anew"


def test_what_cannot_be_taken_any_more_is_forgotten() -> None:
    gives: list[Take | None] = [TAKE, None]
    route = taking(lambda: gives.pop(0))
    kept = questions(preparing(lambda: None), route)
    first = asked(body=b"first")
    kept.prepare_taking(b"head", 7, route, first)
    heading = kept.heading(b"head")
    assert heading is not None
    assert (heading.read, heading.serve) == TAKE
    assert (heading.size, heading.route, heading.first) == (len(b"head") + 7, route, first)
    kept.prepare_taking(b"head", 7, route, asked())
    assert kept.heading(b"head") is None


def test_so_many_kinds_are_kept_and_no_large_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "QUESTIONS_MAX", 3)
    monkeypatch.setattr(known, "BLOCK_BYTES_MAX", len(ask("", "10")))
    reads, writes = preparing(lambda: answer), taking(lambda: TAKE)
    kept = questions(reads, writes)
    for number in range(20):
        data, head = ask("x", f"{number:02}"), b"%d" % number
        kept.prepare(data, reads, asked())
        kept.prepare_taking(head, 1, writes, asked())
        assert kept.find(data) is not NO_QUESTION and kept.heading(head) is not None
        assert 0 < len(kept._kept) <= 3 and 0 < len(kept._taken) <= 3
    for kind, there in (("10", True), ("100", False)):
        data, head = ask("x", kind), b"x" * len(ask("", kind))
        kept.prepare(data, reads, asked())
        kept.prepare_taking(head, 1, writes, asked())
        assert (kept.find(data) is not NO_QUESTION) is there
        assert (kept.heading(head) is not None) is there
