"""Requests that were read in one iteration are answered together, each as if it had come alone."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from uvicorn.server import ServerState

from rankd.api.app import App
from rankd.api.connection import ResponseHeads, ResponseWriter
from rankd.api.messages import Request, Response
from rankd.api.plans import PLAIN_BYTES_MAX, Batching, Outcome, Plan
from rankd.api.request_head import RequestHead, parse_head
from rankd.api.routing import AllAnswered, BodyPlan, Route, Router, WordPlan
from rankd.settings import Settings

pytestmark = pytest.mark.anyio


async def handler(service: Any, request: Request) -> Response:
    return Response(b"{}")


ROUTE = Route(method="GET", path="/v1/boards/{b}/c/{d}", operation="ask", handler=handler, hot=True)


def head(data: bytes = b"GET /v1/boards/b/c/x HTTP/1.1\r\nhost: h\r\n\r\n") -> RequestHead:
    found = parse_head(data, 65_536, 100)
    assert found is not None
    return found


HEAD = head()


class Asker:
    """Notes the answers it gets."""

    client_address = "192.0.2.1"

    def __init__(self, *, sends: bool = True, breaks: bool = False) -> None:
        self.sends, self.breaks = sends, breaks
        self.sent: list[bytes] = []
        self.answers: list[tuple[Outcome, Plan, bytes]] = []

    def send_plain(self, answer: bytes, idle_until: float) -> bool:
        assert idle_until > asyncio.get_running_loop().time()
        if self.breaks:
            raise OSError("injected")
        if self.sends:
            self.sent.append(answer)
        return self.sends

    def answer(self, outcome: Outcome, plan: Plan, head: RequestHead, data: bytes) -> None:
        assert head is HEAD
        self.answers.append((outcome, plan, data))


class Upper:
    """Answers at once, and notes the requests that were served together."""

    def __init__(self, make: Callable[[str], Any] = lambda word: word.upper().encode()) -> None:
        self.served: list[list[str]] = []
        self.lasts = True
        self._make = make
        self.plan = Plan(ROUTE, {}, {}, 0)
        self.plan.answering = BodyPlan(lambda *_: None, self._serve, lambda: self.lasts)

    def _serve(self, words: list[str], answered: AllAnswered) -> bool:
        self.served.append(words)
        if self.lasts:
            answered([self._make(word) for word in words])
        return self.lasts


def batching(**given: Any) -> Batching:
    app, state = App(Router([ROUTE]), None, Settings(**given)), ServerState()
    state.default_headers = [(b"date", b"today")]
    loop = asyncio.get_running_loop()
    return Batching(loop, ResponseWriter(loop), ResponseHeads(app), state, app.log)


def bodies(asker: Asker) -> list[bytes]:
    return [answer.partition(b"\r\n\r\n")[2] for answer in asker.sent]


async def test_requests_of_one_iteration_are_served_in_one_go_and_answered_in_place() -> None:
    together, one, other = batching(), Upper(), Upper()
    askers = [Asker() for _ in range(5)]
    for asker, word in zip(askers, "abcde", strict=True):
        together.add((other if word in "bd" else one).plan, asker, word, HEAD, b"")
    assert not one.served
    await asyncio.sleep(0)
    assert (one.served, other.served) == ([["a", "c", "e"]], [["b", "d"]])
    assert [bodies(asker) for asker in askers] == [[b"A"], [b"B"], [b"C"], [b"D"], [b"E"]]
    together.add(one.plan, askers[0], "f", HEAD, b"")
    await asyncio.sleep(0)
    assert one.served[1:] == [["f"]]
    assert bodies(askers[0]) == [b"A", b"F"]


async def test_answers_have_their_length_and_the_date_of_now() -> None:
    together, asker = batching(), Asker()
    for day in (b"today", b"tomorrow"):
        together._state.default_headers = [(b"date", day)]
        together.add(Upper().plan, asker, "word", HEAD, b"")
        await asyncio.sleep(0)
        first, _, body = asker.sent.pop().partition(b"\r\n\r\n")
        assert first.startswith(b"HTTP/1.1 200 OK\r\ndate: " + day)
        assert first.endswith(b"\r\ncontent-length: 4")
        assert body == b"WORD"


async def test_outcomes_that_are_not_plain_go_to_the_connection() -> None:
    problem, made = ValueError("x"), Response(b"", 202)
    large = b"x" * (PLAIN_BYTES_MAX + 1)
    outcomes: dict[str, Outcome] = {"a": problem, "b": made, "c": None, "d": large, "e": large[1:]}
    together, upper = batching(), Upper(outcomes.__getitem__)
    askers = {word: Asker() for word in outcomes}
    for word, asker in askers.items():
        together.add(upper.plan, asker, word, HEAD, word.encode())
    await asyncio.sleep(0)
    for word, outcome in outcomes.items():
        told = [] if word == "e" else [(outcome, upper.plan, word.encode())]
        assert askers[word].answers == told
    assert bodies(askers["e"]) == [large[1:]]


async def test_connections_that_cannot_send_are_answered_otherwise() -> None:
    together, upper, asker = batching(), Upper(), Asker(sends=False)
    together.add(upper.plan, asker, "a", HEAD, b"data")
    await asyncio.sleep(0)
    assert asker.answers == [(b"A", upper.plan, b"data")]


async def test_plans_out_of_date_are_forgotten_and_the_handlers_look() -> None:
    together, upper, askers = batching(), Upper(), [Asker(), Asker()]
    upper.lasts = False
    for asker in askers:
        together.add(upper.plan, asker, "a", HEAD, b"data")
    await asyncio.sleep(0)
    assert upper.plan.answering is None
    assert [asker.answers for asker in askers] == [[(None, upper.plan, b"data")]] * 2


async def test_plans_that_fail_leave_the_requests_to_their_handlers() -> None:
    def fail(words: Sequence[str]) -> list[bytes | None]:
        raise ZeroDivisionError("planted")

    together, asker, plan = batching(), Asker(), Plan(ROUTE, {}, {}, 0)
    plan.answering = WordPlan(fail, lambda: True)
    together.add(plan, asker, "a", HEAD, b"data")
    await asyncio.sleep(0)
    assert asker.answers == [(None, plan, b"data")]


async def test_a_mistake_with_one_leaves_no_other_waiting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    together, upper = batching(), Upper()
    askers = [Asker(), Asker(breaks=True), Asker()]
    for asker in askers:
        together.add(upper.plan, asker, "a", HEAD, b"")
    with caplog.at_level(logging.ERROR):
        await asyncio.sleep(0)
    assert [bodies(asker) for asker in askers] == [[b"A"], [], [b"A"]]
    assert "could not be answered" in caplog.text


async def test_requests_answered_later_are_answered_though_others_came_meanwhile() -> None:
    waiting: list[tuple[Sequence[str], AllAnswered]] = []

    def keep(words: list[str], answered: AllAnswered) -> bool:
        waiting.append((words, answered))
        return True

    together, plan, askers = batching(), Plan(ROUTE, {}, {}, 0), [Asker() for _ in range(4)]
    plan.answering = BodyPlan(lambda *_: None, keep, lambda: True)
    for number, asker in enumerate(askers):
        together.add(plan, asker, str(number), HEAD, b"")
        if number % 2:
            await asyncio.sleep(0)
    for words, answered in reversed(waiting):
        answered([word.encode() for word in words])
    assert [bodies(asker) for asker in askers] == [[b"0"], [b"1"], [b"2"], [b"3"]]


async def test_earlier_answers_go_first() -> None:
    together, asker = batching(), Asker()
    order: list[str] = []
    together._writer.flush = lambda: order.append("flushed")  # type: ignore[method-assign]
    together.add(Upper(lambda word: order.append("served")).plan, asker, "a", HEAD, b"")
    await asyncio.sleep(0)
    assert order == ["flushed", "served"]


async def test_each_answer_is_logged_where_that_is_wanted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    together, asker = batching(access_log=True), Asker()
    together.add(Upper().plan, asker, "a", HEAD, b"")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert " rankd.access: 192.0.2.1 GET /v1/boards/b/c/x 200 " in capsys.readouterr().err
