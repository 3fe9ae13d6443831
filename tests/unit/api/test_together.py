"""Requests that were read in one turn are answered together, each as if it had come alone."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from uvicorn.server import ServerState

from rankd.api.app import App
from rankd.api.exchange import Request, Response
from rankd.api.outbox import Heads, Outbox
from rankd.api.routes import AllAnswered, Route, Router
from rankd.api.together import PLAIN_BYTES_MAX, Kind, Outcome, Together
from rankd.settings import Settings

pytestmark = pytest.mark.anyio
FIRST = Request("GET", "/", {}, {}, {})


async def handler(service: Any, request: Request) -> Response:
    return Response(b"{}")


ROUTE = Route(method="GET", path="/{a}", operation="ask", handler=handler)


class Asker:
    """Notes what it is told."""

    def __init__(self, *, sends: bool = True, breaks: bool = False) -> None:
        self.sends, self.breaks = sends, breaks
        self.sent: list[bytes] = []
        self.told: list[tuple[Outcome, bytes, Kind]] = []

    def be_sent(self, letter: bytes, idle_until: float) -> bool:
        assert idle_until > asyncio.get_running_loop().time()
        if self.breaks:
            raise OSError("injected")
        if self.sends:
            self.sent.append(letter)
        return self.sends

    def be_answered(self, outcome: Outcome, data: bytes, kind: Kind) -> None:
        self.told.append((outcome, data, kind))


class Upper(Kind):
    """Answers at once, and notes who was served together."""

    def __init__(self, make: Callable[[str], Outcome] = lambda word: word.upper().encode()) -> None:
        super().__init__(self._serve, ROUTE, FIRST)
        self.served: list[list[str]] = []
        self.lasts, self.ended = True, 0
        self._make = make

    def _serve(self, words: list[str], answered: AllAnswered) -> bool:
        self.served.append(words)
        if self.lasts:
            answered([self._make(word) for word in words])
        return self.lasts

    def end(self) -> None:
        self.ended += 1


def gathering() -> Together:
    app, state = App(Router([ROUTE]), None, Settings()), ServerState()
    state.default_headers = [(b"date", b"today")]
    loop = asyncio.get_running_loop()
    return Together(loop, Outbox(loop), Heads(app), state)


def bodies(asker: Asker) -> list[bytes]:
    return [letter.partition(b"\r\n\r\n")[2] for letter in asker.sent]


async def test_what_comes_in_one_turn_is_served_in_one_go_and_told_in_its_place() -> None:
    together, kind, other = gathering(), Upper(), Upper()
    askers = [Asker() for _ in range(5)]
    for asker, word in zip(askers, "abcde", strict=True):
        together.gather(other if word in "bd" else kind, asker, word, b"")
    assert not kind.served
    await asyncio.sleep(0)
    assert (kind.served, other.served) == ([["a", "c", "e"]], [["b", "d"]])
    assert [bodies(asker) for asker in askers] == [[b"A"], [b"B"], [b"C"], [b"D"], [b"E"]]
    together.gather(kind, askers[0], "f", b"")
    await asyncio.sleep(0)
    assert kind.served[1:] == [["f"]]
    assert bodies(askers[0]) == [b"A", b"F"]


async def test_an_answer_says_its_length_under_the_date_of_now() -> None:
    together, asker = gathering(), Asker()
    for day in (b"today", b"tomorrow"):
        together._state.default_headers = [(b"date", day)]
        together.gather(Upper(), asker, "word", b"")
        await asyncio.sleep(0)
        head, _, body = asker.sent.pop().partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\ndate: " + day)
        assert head.endswith(b"\r\ncontent-length: 4")
        assert body == b"WORD"


async def test_what_is_not_plain_is_told_as_it_is() -> None:
    problem, made = ValueError("x"), Response(b"", 202)
    large = b"x" * (PLAIN_BYTES_MAX + 1)
    outcomes: dict[str, Outcome] = {"a": problem, "b": made, "c": None, "d": large, "e": large[1:]}
    together, kind = gathering(), Upper(outcomes.__getitem__)
    askers = {word: Asker() for word in outcomes}
    for word, asker in askers.items():
        together.gather(kind, asker, word, word.encode())
    await asyncio.sleep(0)
    for word, outcome in outcomes.items():
        told = [] if word == "e" else [(outcome, word.encode(), kind)]
        assert askers[word].told == told
    assert bodies(askers["e"]) == [large[1:]]


async def test_who_cannot_be_sent_a_letter_is_answered_otherwise() -> None:
    together, kind, asker = gathering(), Upper(), Asker(sends=False)
    together.gather(kind, asker, "a", b"data")
    await asyncio.sleep(0)
    assert asker.told == [(b"A", b"data", kind)]


async def test_what_does_not_answer_any_more_ends_and_the_handlers_look() -> None:
    together, kind, askers = gathering(), Upper(), [Asker(), Asker()]
    kind.lasts = False
    for asker in askers:
        together.gather(kind, asker, "a", b"data")
    await asyncio.sleep(0)
    assert kind.ended == 1
    assert [asker.told for asker in askers] == [[(None, b"data", kind)]] * 2


async def test_a_mistake_with_one_leaves_nobody_else_waiting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    together, kind = gathering(), Upper()
    askers = [Asker(), Asker(breaks=True), Asker()]
    for asker in askers:
        together.gather(kind, asker, "a", b"")
    with caplog.at_level(logging.ERROR):
        await asyncio.sleep(0)
    assert [bodies(asker) for asker in askers] == [[b"A"], [], [b"A"]]
    assert "could not be answered" in caplog.text


async def test_who_is_told_later_is_told_though_others_came_meanwhile() -> None:
    waiting: list[tuple[Sequence[str], AllAnswered]] = []

    def keep(words: list[str], answered: AllAnswered) -> bool:
        waiting.append((words, answered))
        return True

    together, kind, askers = gathering(), Kind(keep, ROUTE, FIRST), [Asker() for _ in range(4)]
    for number, asker in enumerate(askers):
        together.gather(kind, asker, str(number), b"")
        if number % 2:
            await asyncio.sleep(0)
    for words, answered in reversed(waiting):
        answered([word.encode() for word in words])
    assert [bodies(asker) for asker in askers] == [[b"0"], [b"1"], [b"2"], [b"3"]]


async def test_what_was_posted_before_goes_first() -> None:
    together, asker = gathering(), Asker()
    order: list[str] = []
    together._outbox.send = lambda: order.append("posted")  # type: ignore[method-assign]
    together.gather(Upper(lambda word: order.append("served")), asker, "a", b"")
    await asyncio.sleep(0)
    assert order == ["posted", "served"]
