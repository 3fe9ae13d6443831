"""What was made ready for requests like an earlier one answers as the handler would, or not at all.

The fast lane keeps what a request meant and answers the next one that differs in its player, or in
its body, without reading it anew. So each test here asks the same more than once: first the handler
answers, then what it prepared, and the other lane says what is right. Answers are compared byte for
byte; a count of the handlers' calls tells which of them answered.
"""

import asyncio
import json
import logging
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.http.running import run
from tests.http.wire import DATE, Wire, from_the_loop, without_what_varies
from tests.unit.core.doubles import DAY, FaultyLedger, SetClock, engine
from uvicorn.server import ServerState

from rankd.api import fastlane, scores
from rankd.api.access import Actor, Gate, ReadToken
from rankd.api.app import GZIP_BYTES_MIN, App
from rankd.api.connection import DEAD, Connection
from rankd.api.exchange import Request, Response
from rankd.api.keys import NewKey, make_key
from rankd.api.limits import limits_of
from rankd.api.routes import Route, Router
from rankd.api.server import protocol_config
from rankd.api.service import Service
from rankd.api.table import ROUTES
from rankd.core.intake import Answer, HandedIn
from rankd.core.service import Rankd
from rankd.errors import RankdError, Unauthenticated
from rankd.model.facts import Position
from rankd.settings import Settings

ORIGIN = "https://game.example"
BOARD = "/v1/boards/b"
SCORES = f"{BOARD}/scores"


# --------------------------------------------------------------------------- the harness


class Line(Wire):
    """A connection that waits for its answers."""

    def __init__(self, protocol: Connection) -> None:
        super().__init__(protocol)
        self._news = asyncio.Event()
        self._read = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        super().write(data)
        self._news.set()

    def _lose(self) -> None:
        super()._lose()
        self._news.set()

    async def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            await self.readable.wait()
            await from_the_loop(self.protocol.data_received, piece)

    async def answer(self) -> bytes:
        """Return the next answer, or what came of it before the connection was lost."""
        while (end := self._end()) is None and not self.lost.is_set():
            self._news.clear()
            await self._news.wait()
        begin, self._read = self._read, len(self.sent) if end is None else end
        return without_what_varies(bytes(self.sent[begin : self._read]))

    def _end(self) -> int | None:
        """Return where the next answer ends, if all of it is there."""
        head = self.sent.find(b"\r\n\r\n", self._read)
        length = re.search(rb"\r\ncontent-length: (\d+)", self.sent[self._read : head])
        end = head + 4 + (int(length[1]) if length is not None else 0)
        return end if head >= 0 and end <= len(self.sent) else None

    async def ask(self, *pieces: bytes) -> bytes:
        await self.send(*pieces)
        return await self.answer()

    async def rest(self) -> bytes:
        """End, and return everything that is still answered."""
        if not self.is_closing() and not await from_the_loop(self.protocol.eof_received):
            self.close()
        await self.lost.wait()
        return without_what_varies(bytes(self.sent[self._read :]))


class Lane:
    """One lane to a service, without a socket."""

    def __init__(self, service: Service, given: Settings, routes: Sequence[Route] = ROUTES) -> None:
        self._config = protocol_config(App(Router(routes), service, given))
        self._config.load()
        self.state = ServerState()
        self.state.default_headers = [DATE]

    def connect(self) -> Line:
        make: Any = self._config.http_protocol_class
        protocol = make(config=self._config, server_state=self.state, app_state={})
        line = Line(protocol)
        protocol.connection_made(line)
        return line

    async def ask(self, *pieces: bytes) -> bytes:
        """Ask on a connection of its own."""
        return await self.connect().ask(*pieces)


class Served(NamedTuple):
    """A service with both lanes to it, and how often a handler was asked in the fast one."""

    rankd: Rankd
    service: Service
    clock: SetClock
    ledger: FaultyLedger
    fast: Lane
    other: Lane
    looked: Counter[str]

    async def know(self, sent: bytes) -> Line:
        """Return a connection on which this was asked already."""
        line = self.fast.connect()
        await line.ask(sent)
        return line

    async def same(self, sent: bytes) -> bytes:
        """Ask both lanes; return what both say."""
        fast, other = await self.fast.ask(sent), await self.other.ask(sent)
        assert fast == other
        return fast

    async def at_once(self, sent: bytes) -> bool:
        """Whether the next answer to this comes without a handler; it must be right anyway."""
        before = self.looked.total()
        await self.same(sent)
        return self.looked.total() == before


def counted(routes: Sequence[Route], looked: Counter[str]) -> list[Route]:
    def watch(route: Route, call: Any) -> Any:
        def watched(*given: Any) -> Any:
            looked[route.operation] += 1
            return call(*given)

        return call and watched

    return [
        replace(route, handler=watch(route, route.handler), quick=watch(route, route.quick))
        for route in routes
    ]


@asynccontextmanager
async def served(
    definition: Mapping[str, object] | None = None, token: ReadToken | None = None, **given: Any
) -> AsyncIterator[Served]:
    """Run an engine in memory with a board ``b``, and both lanes to it."""
    clock, ledger, looked = SetClock(), FaultyLedger(), Counter[str]()
    own = Settings(cors_origins=(ORIGIN,), **given)
    async with engine(ledger, clock) as rankd:
        await rankd.define("b", definition or {})
        gate = Gate(
            lambda: rankd.book,
            loopback=True,
            token=token,
            limits=limits_of(own, now=lambda: 0.0),
        )
        service = Service(rankd, ledger, gate, clock, False, rankd)
        fast = Lane(service, own, counted(ROUTES, looked))
        other = Lane(service, replace(own, fast_lane=False))
        yield Served(rankd, service, clock, ledger, fast, other, looked)


def request(method: str, path: str, body: bytes | None = None, /, **headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "host: localhost"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if body is not None:
        lines.append(f"content-length: {len(body)}")
    return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + (body or b"")


def get(player: str, ask: str = "{}", **headers: str) -> bytes:
    return request("GET", f"{BOARD}/standings/{ask.format(player)}", None, **headers)


def post(body: object, path: str = SCORES, **headers: str) -> bytes:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers.setdefault("content_type", "application/json")
    return request("POST", path, text, **headers)


def status(answer: bytes) -> int:
    return int(answer.split(b" ")[1])


def told(answer: bytes) -> Any:
    return json.loads(answer.partition(b"\r\n\r\n")[2].replace(b"," + b"-" * 31, b""))


async def new_key(rankd: Rankd, *scopes: str) -> tuple[str, str]:
    """Create a key; return its id and what to show."""
    fact, secret = make_key(NewKey(scopes=list(scopes)), actor=None)
    await rankd.create_key(fact)
    return fact.id, f"Bearer {secret}"


STANDING, AROUND = "{}", "{}/around"


# ------------------------------------------------------------------------------- reading

RICH = {"windows": ["all", "daily"], "segments": ["region"]}
ASKED = [
    *(STANDING, AROUND, "{}?window=daily", "{}?window=daily:2026-11-14", "{}?segment=region:eu"),
    *("{}/around?window=daily&above=1&below=0", "{}/around?segment=region:eu&above=0"),
    *("{}?window=all&segment=region:eu", "{}?", "{}/around?below=100&above=100"),
]
HEADERS: dict[str, dict[str, str]] = {
    "plain": {},
    "gzip": {"accept_encoding": "gzip, deflate", "user_agent": "game/1.0"},
    "known": {"if_none_match": '"an-etag"'},
    "origin": {"origin": ORIGIN},
    "foreign origin": {"origin": "https://elsewhere.example"},
    "large": {"x_more": "x" * fastlane.BLOCK_BYTES_MAX},
    "two lines": {"accept": "*/*", "connection": "keep-alive"},
}
NOT_AT_ONCE = {"origin", "foreign origin", "large"}


async def fill(rankd: Rankd, count: int = 12, **more: object) -> None:
    for number in range(count):
        regional = {"attributes": {"region": "eu"}} if number % 2 else {}
        beside = {"metadata": {"car": number}} if number % 3 == 0 else {}
        item = {"player": f"p{number}", "score": number // 2 * 10, **beside, **regional, **more}
        await rankd.submit("b", [item])
    await rankd.profile("p3", {"name": "Ann Ä", "attributes": {"region": "eu"}})


@pytest.mark.parametrize("name", HEADERS)
@pytest.mark.parametrize("ask", ASKED)
def test_the_next_answer_is_the_handlers_and_the_other_lanes(ask: str, name: str) -> None:
    async def compare() -> None:
        async with served(RICH) as service:
            await fill(service.rankd)
            headers = HEADERS[name]
            line = await service.know(get("p1", ask, **headers))
            for player in ("p1", "p3", "p5", "p11"):
                sent, before = get(player, ask, **headers), service.looked.total()
                answer = await line.ask(sent)
                assert (service.looked.total() == before) is (name not in NOT_AT_ONCE)
                assert answer == await service.other.ask(sent)
                assert status(answer) == 200
            assert service.looked.total() > 0

    run(compare())


DEFINITIONS: dict[str, tuple[dict[str, object], bool]] = {
    "plain": ({}, True),
    "decimals": ({"decimals": 3}, True),
    "lower": ({"direction": "lower"}, True),
    "latest": ({"tie_break": "latest", "rule": "latest"}, True),
    "columns": ({"columns": [{"name": "a"}, {"name": "b", "direction": "lower"}]}, True),
    "sum": ({"rule": "sum", "tie_break": "player"}, True),
    "standard": ({"ties": "standard"}, False),
    "dense": ({"ties": "dense"}, False),
}


@pytest.mark.parametrize("ask", [STANDING, "{}/around?above=2&below=1"])
@pytest.mark.parametrize("name", DEFINITIONS)
def test_every_kind_of_board_is_shown_as_its_handler_shows_it(name: str, ask: str) -> None:
    async def compare() -> None:
        definition, at_once = DEFINITIONS[name]
        async with served(definition) as service:
            more: dict[str, Any] = {"columns": {"b": 7}} if name == "columns" else {}
            await fill(service.rankd, **more)
            await service.know(get("p0", ask))
            for player in ("p0", "p3", "p4", "p11"):
                assert await service.at_once(get(player, ask)) is at_once

    run(compare())


@pytest.mark.parametrize("ask", [STANDING, AROUND])
def test_who_is_not_ranked_is_told_so_and_the_next_who_is_gets_its_answer(ask: str) -> None:
    async def compare() -> None:
        async with served() as service:
            await fill(service.rankd)
            await service.know(get("p1", ask))
            for player in ("nobody", "p12", "P1", "x" * 256, "~", "-._~"):
                answer = await service.same(get(player, ask))
                assert (status(answer), told(answer)["code"]) == (404, "not_ranked")
                assert await service.at_once(get("p2", ask))

    run(compare())


@pytest.mark.parametrize("ask", [STANDING, AROUND])
def test_players_of_any_length_are_found_by_a_line_however_long(ask: str) -> None:
    async def compare() -> None:
        async with served() as service:
            players = ["a", "x" * 255, "x" * 256, "0", "-._~"]
            await service.rankd.submit("b", [(player, 5) for player in players])
            await service.know(get("a", ask))
            for player in players:
                assert await service.at_once(get(player, ask))

    run(compare())


BESIDE = {
    **dict.fromkeys(["", "p1/", "p1/around/", "p1/aroun", "p1/around/p2", "/p1", "p1/p1"], 404),
    **dict.fromkeys(["p1?window=none", "p1/around?window=daily", "p1?window=all:1"], 404),
    **dict.fromkeys(["p1?segment=x:y", "p1?unknown=1", "p1?window=all&window=all"], 422),
    **dict.fromkeys(["p1/around?above=101", "p1/around?above", "p1?above=1"], 422),
    **dict.fromkeys(["p1?min_position=1", "p1?window=%61ll", "p1/around?above=%31"], 200),
    "p1#x": 200,
    "p%1": 400,
}


@pytest.mark.parametrize("target", BESIDE)
def test_a_target_beside_a_known_one_is_not_taken_for_it(target: str) -> None:
    async def compare() -> None:
        async with served() as service:
            await fill(service.rankd)
            for ask in (STANDING, AROUND):
                await service.know(get("p1", ask))
            for _ in range(3):
                assert status(await service.same(get("", target))) == BESIDE[target]

    run(compare())


@pytest.mark.parametrize("method", ["HEAD", "DELETE", "get", "OPTIONS", "POST"])
def test_another_method_is_not_taken_for_a_known_one(method: str) -> None:
    async def compare() -> None:
        async with served() as service:
            await fill(service.rankd)
            await service.know(get("p1"))
            for _ in range(2):
                lines = [lane.connect() for lane in (service.fast, service.other)]
                for line in lines:
                    await line.send(request(method, f"{BOARD}/standings/p1"))
                fast, other = [await line.rest() for line in lines]
                assert fast == other

    run(compare())


def test_an_answer_that_grew_large_goes_the_way_of_large_ones() -> None:
    """It may have to be squeezed, and says so."""

    async def grow() -> None:
        async with served() as service:
            ask = "{}/around?above=100&below=100"
            kinds = [get("p0", ask), get("p0", ask, accept_encoding="gzip")]
            await fill(service.rankd, 3)
            for sent in kinds:
                await service.know(sent)
                assert await service.at_once(sent)
            crowd: list[Any] = [(f"{number:0200}", number) for number in range(150)]
            await service.rankd.submit("b", crowd)
            plain, squeezed = [await service.same(sent) for sent in kinds]
            assert len(plain) > GZIP_BYTES_MIN
            assert b"\r\nvary: accept-encoding" in plain and b"\r\ncontent-encoding" not in plain
            assert b"\r\ncontent-encoding: gzip" in squeezed
            for sent in kinds:
                assert not await service.at_once(sent)
                assert not await service.at_once(sent)

    run(grow())


@pytest.mark.parametrize("ask", [STANDING, "{}/around?above=1"])
def test_a_known_request_may_come_cut_anywhere(ask: str) -> None:
    async def cut() -> None:
        async with served() as service:
            await fill(service.rankd)
            sent = get("p4", ask, accept="*/*")
            line = await service.know(sent)
            whole = await line.ask(sent)
            assert status(whole) == 200
            for at in range(1, len(sent)):
                assert await line.ask(sent[:at], sent[at:]) == whole, at
            assert await line.ask(*(bytes([byte]) for byte in sent)) == whole
            assert await line.ask(sent) == whole

    run(cut())


def test_what_is_asked_in_one_read_is_answered_in_order() -> None:
    async def crowd() -> None:
        async with served() as service:
            await fill(service.rankd)
            asked = [get(f"p{number % 14}", (STANDING, AROUND)[number % 2]) for number in range(80)]
            line = service.fast.connect()
            for sent in asked[:2]:
                await line.ask(sent)
            await line.send(b"".join(asked))
            answers = [await line.answer() for _ in asked]
            assert answers == [await service.other.ask(sent) for sent in asked]
            for sent in asked[:2]:  # And what comes alone behind all that.
                assert await line.ask(sent) == await service.other.ask(sent)

    run(crowd())


BLANKS = [b"\r", b"\n", b"\r\n", b"\r\n\r", b" "]
"""What may come before a request, and what may not."""


def test_half_a_request_is_not_completed_by_a_known_one() -> None:
    """Bytes that look like a whole request may be the rest of another one."""

    async def smuggle() -> None:
        async with served() as service:
            await fill(service.rankd)
            known, score = get("p1"), keyed("p1", 1)
            await service.other.ask(score)
            for begun, rest in (
                (b"GET /v1/boards/b/standings/p2 HTTP/1.1\r\nhost: localhost\r\nx-more: ", known),
                (b"GET /v1/boards/b/standings/p2 HTTP/1.1\r\nx-more: ", known),
                (post(b"x" * len(known))[: -len(known)], known),
                (post(b"x" * len(score))[: -len(score)], score),
                *((begun, rest) for begun in BLANKS for rest in (known, score)),
            ):
                line, other = service.fast.connect(), service.other.connect()
                for sent in (known, score):
                    await line.ask(sent)
                assert await line.ask(begun, rest) == await other.ask(begun, rest)

    run(smuggle())


def test_blank_lines_before_a_known_request_count_for_it_alone() -> None:
    """Whoever answers without the parser must leave to it what the parser has begun to count."""

    async def pad() -> None:
        async with served(request_head_bytes_max=1024) as service:
            known, score, blank = get("p1"), keyed("p1", 1), b"\r\n" * 100
            lines = [lane.connect() for lane in (service.fast, service.other)]
            for sent in (score, known):
                await lines[0].ask(sent)
            for sent in (score, known) * 4:
                fast, other = [await line.ask(blank, blank, sent) for line in lines]
                assert (fast, status(fast)) == (other, 200)

    run(pad())


def test_an_answer_that_was_prepared_has_the_date_of_its_day() -> None:
    async def wait() -> None:
        async with served() as service:
            line = await service.know(post(PLAIN))
            await line.ask(get("p1"))
            service.fast.state.default_headers = [(b"date", b"Tue, 17 Nov 2026 00:00:00 GMT")]
            for sent in (get("p1"), post(PLAIN)):
                before = len(line.sent)
                await line.ask(sent)
                assert b"\r\ndate: Tue, 17 Nov 2026" in line.sent[before:]
            assert (service.looked["get_standing"], service.looked["submit_score"]) == (1, 1)

    run(wait())


# ----------------------------------------------------------------------------- staleness

Change = Callable[[Served], Awaitable[object]]


async def renamed(service: Served) -> None:
    await service.rankd.profile("p1", {"name": "Bob", "attributes": {"region": "eu"}})


async def erased(service: Served) -> None:
    await service.rankd.erase("p1")


async def moved(service: Served) -> None:
    await service.rankd.submit("b", [("p1", 1000)])


async def elsewhere(service: Served) -> None:
    await service.rankd.define("c", {})


async def told_where_it_is(service: Served) -> None:
    attributes = {"region": "us"}
    await service.rankd.submit("b", [{"player": "p1", "score": 1, "attributes": attributes}])


async def turned(service: Served) -> None:
    service.clock.time += DAY
    await service.rankd.sealer.turn()


async def turned_by_a_write(service: Served) -> None:
    service.clock.time += DAY
    await moved(service)


async def redefined(service: Served) -> None:
    await service.rankd.redefine("b", {**RICH, "decimals": 2})


async def turned_round(service: Served) -> None:
    definition = json.dumps({**RICH, "direction": "lower"}).encode()
    put = request("PUT", f"{BOARD}?apply=true", definition, content_type="application/json")
    assert status(await service.fast.ask(put)) == 200


async def retitled(service: Served) -> None:
    await service.rankd.redefine("b", {**RICH, "title": "Best of all"})


async def retired(service: Served) -> None:
    await service.rankd.retire("b")


async def begun_anew(service: Served) -> None:
    await service.rankd.retire("b")
    await service.rankd.define("b", RICH)
    await service.rankd.submit("b", [{"player": "p1", "score": 7, "attributes": {"region": "eu"}}])


async def rebuilt(service: Served) -> None:
    async for _ in service.rankd.rebuild():
        pass
    await moved(service)


async def locked(service: Served) -> None:
    await new_key(service.rankd, "admin")


CHANGES: dict[str, tuple[Change, int]] = {
    "renamed": (renamed, 200),
    "erased": (erased, 200),
    "moved": (moved, 200),
    "elsewhere": (elsewhere, 200),
    "another segment": (told_where_it_is, 200),
    "turned": (turned, 200),
    "turned by a write": (turned_by_a_write, 200),
    "redefined": (redefined, 200),
    "turned round": (turned_round, 200),
    "retitled": (retitled, 200),
    "retired": (retired, 404),
    "begun anew": (begun_anew, 200),
    "rebuilt": (rebuilt, 200),
    "locked": (locked, 401),
}
NO_LONGER = {
    ("another segment", "{}?segment=region:eu"),
    ("erased", "{}?segment=region:eu"),
    ("turned", "{}?window=daily"),
    ("turned", "{}/around?window=daily"),
}
"""Whom a change leaves unranked in what is asked for."""


@pytest.mark.parametrize(
    "ask",
    [STANDING, AROUND, "{}?window=daily", "{}/around?window=daily", "{}?segment=region:eu"],
)
@pytest.mark.parametrize("name", CHANGES)
def test_what_was_prepared_before_a_change_does_not_answer_after_it(name: str, ask: str) -> None:
    async def change() -> None:
        change, expected = CHANGES[name]
        async with served(RICH) as service:
            await fill(service.rankd)
            sent = get("p1", ask)
            line = await service.know(sent)
            before = await line.ask(sent)
            await change(service)
            after = await line.ask(sent)
            assert after == await service.other.ask(sent)
            assert status(after) == (404 if (name, ask) in NO_LONGER else expected)
            assert after != before
            for player in ("p1", "p3"):
                await service.same(get(player, ask))
            await service.rankd.submit("b", [("p3", 5000)]) if name != "retired" else None
            for player in ("p1", "p3"):
                await service.same(get(player, ask))

    run(change())


def test_a_revoked_key_opens_nothing_from_the_next_request_on() -> None:
    async def revoke() -> None:
        async with served() as service:
            await fill(service.rankd)
            _, kept = await new_key(service.rankd, "admin")
            id, shown = await new_key(service.rankd, "read")
            line = service.fast.connect()
            asked = [get("p1", ask, authorization=shown) for ask in (STANDING, AROUND)]
            for sent in asked:
                assert status(await line.ask(sent)) == 200
                assert await service.at_once(sent)
            assert not await service.at_once(get("p1", authorization=f"{shown}x"))
            assert status(await line.ask(get("p1"))) == 401
            await service.rankd.revoke_key(id)
            for sent in asked:
                assert status(await line.ask(sent)) == 401
                assert await service.same(sent)
            assert status(await line.ask(get("p1", authorization=kept))) == 200

    run(revoke())


def test_each_answer_is_as_of_the_last_submission() -> None:
    async def follow() -> None:
        async with served() as service:
            await fill(service.rankd)
            line = await service.know(get("p1"))
            await line.ask(get("p1", AROUND))
            before = service.looked["get_standing"], service.looked["around_player"]
            for number in range(10):
                player = f"p{number}"
                (counted,) = await service.rankd.submit("b", [(player, 100 + number)])
                found = told(await line.ask(get(player)))
                assert (found["as_of"], found["rank"]) == (counted.position, 1)
                near = told(await line.ask(get(player, AROUND)))
                assert (near["as_of"], near["standings"][0]["player"]) == (counted.position, player)
            assert before == (service.looked["get_standing"], service.looked["around_player"])

    run(follow())


def test_a_window_that_closed_is_read_as_it_was_sealed() -> None:
    async def seal() -> None:
        async with served(RICH) as service:
            await fill(service.rankd)
            asked = [get("p1", f"{{}}?window=daily{which}") for which in ("", ":2026-11-14", ":-1")]
            for sent in asked:
                await service.know(sent)
            await turned(service)
            await moved(service)
            for sent in asked:
                for _ in range(3):
                    answer = await service.same(sent)
                    assert status(answer) == 200
            assert told(await service.same(asked[0]))["window"] == "daily:2026-11-15"
            assert told(await service.same(asked[1]))["window"] == "daily:2026-11-14"
            assert told(await service.same(asked[2]))["window"] == "daily:2026-11-14"
            await turned(service)
            assert told(await service.same(asked[2]))["window"] == "daily:2026-11-15"

    run(seal())


# ---------------------------------------------------- what has to be looked at each time


@pytest.mark.parametrize("limit", ["rate_per_address", "rate_per_player", "rate_per_key"])
def test_where_requests_are_counted_nothing_is_prepared(limit: str) -> None:
    async def hurry() -> None:
        limits: dict[str, Any] = {limit: 0.5, "rate_burst": 3}
        async with served(**limits) as service:
            await service.rankd.submit("b", [("p1", 5)])
            _, key = await new_key(service.rankd, "admin")
            line = service.fast.connect()
            reads = [status(await line.ask(get("p1", authorization=key))) for _ in range(5)]
            assert service.looked["get_standing"] >= 5
            score = post({"player": "p1", "score": 6}, authorization=key)
            writes = [status(await line.ask(score)) for _ in range(5)]
            assert service.looked["submit_score"] == 5
            per_player = limit == "rate_per_player"
            assert reads == [200] * 5 if per_player else [200, 200, 200, 429, 429]
            assert writes == [200, 200, 200, 429, 429] if per_player else [429] * 5

    run(hurry())


def test_each_request_is_logged_where_that_is_wanted(caplog: pytest.LogCaptureFixture) -> None:
    async def ask() -> None:
        async with served(access_log=True) as service:
            await service.rankd.submit("b", [("p1", 5)])
            line = service.fast.connect()
            for _ in range(3):
                await line.ask(get("p1"))
                await line.ask(get("p1", AROUND))
                await line.ask(post({"player": "p1", "score": 6}))

    with caplog.at_level(logging.INFO, "rankd.access"):
        run(ask())
    lines = [
        f"127.0.0.1 GET {BOARD}/standings/p1 200",
        f"127.0.0.1 GET {BOARD}/standings/p1/around 200",
        f"127.0.0.1 POST {SCORES} 200",
    ]
    assert [one.getMessage() for one in caplog.records if one.name == "rankd.access"] == lines * 3


class Tokens:
    """Players' tokens as a reader of them has them: good until they are not."""

    def __init__(self) -> None:
        self.good = {b"one.of.p1": "p1", b"one.of.p2": "p2"}

    def __call__(self, shown: bytes) -> Actor:
        if shown not in self.good:
            raise Unauthenticated("the token is over")
        return Actor(f"player:{self.good[shown]}", self.good[shown])


def test_a_players_token_is_looked_at_with_each_request() -> None:
    async def expire() -> None:
        tokens = Tokens()
        async with served({"writes": "client"}, tokens) as service:
            await service.rankd.submit("b", [("p1", 5), ("p2", 6)])
            line = service.fast.connect()
            one, two = {"authorization": "Bearer one.of.p1"}, {"authorization": "Bearer one.of.p2"}
            own = {"player": "p1", "score": 10}
            for _ in range(3):
                for headers in (one, two):
                    assert status(await line.ask(get("p1", **headers))) == 200
                    assert not await service.at_once(get("p1", AROUND, **headers))
                assert status(await line.ask(post(own, **one))) == 200
                assert status(await line.ask(post(own, **two))) == 403
            assert service.looked["submit_score"] == 6
            del tokens.good[b"one.of.p1"]
            for sent in (get("p1", **one), get("p1", AROUND, **one), post(own, **one)):
                assert status(await line.ask(sent)) == 401
            assert status(await line.ask(get("p1", **two))) == 200

    run(expire())


def test_a_key_with_two_points_is_read_as_a_token_only_where_there_are_tokens() -> None:
    async def ask() -> None:
        async with served() as service:
            await service.rankd.submit("b", [("p1", 5)])
            sent = get("p1", authorization="Bearer one.of.p1")
            for _ in range(3):
                assert status(await service.same(sent)) == 401

    run(ask())


# --------------------------------------------------------------------------- submissions


class Case(NamedTuple):
    """Requests that follow one another, and how many of them need no handler."""

    asked: Sequence[bytes]
    taken: int
    definition: Mapping[str, object] = {}


def twice(body: object, taken: int = 0, /, **definition: object) -> Case:
    return Case([post(body), post(body)], taken, definition)


def keyed(player: str, score: int, key: str = "k", **headers: str) -> bytes:
    return post({"player": player, "score": score, "key": key}, **headers)


PLAIN = {"player": "p1", "score": 5}
BOUNDED = {"limits": {"score_min": 0, "score_max": 9}}
TWO = {"columns": [{"name": "a"}, {"name": "b"}]}

CASES: dict[str, Case] = {
    "plain": twice(PLAIN, 1),
    "better and worse": Case([post({"player": "p", "score": n}) for n in (5, 7, 3, 9)], 3),
    "white space": twice(b' {\n"score" : 5 ,\t"player":"p1" } ', 1),
    "letters of all kinds": twice('{"player":"é😀","score":5}'.encode(), 1),
    "the largest": twice({"player": "p", "score": 2**63 - 1}, 1),
    "the smallest": twice({"player": "p", "score": -(2**63)}, 1),
    "a whole number with a point": twice(b'{"player":"p","score":5.0}', 1),
    "a power of ten": twice(b'{"player":"p","score":5e2}', 1),
    "minus zero": twice(b'{"player":"p","score":-0}', 1),
    "retry": Case([keyed("p1", 5), keyed("p1", 5), keyed("p1", 5)], 2),
    "key reused": Case([keyed("p1", 5), keyed("p1", 6), keyed("p2", 5)], 2),
    "other keys": Case([keyed("p1", n, f"k{n}") for n in (3, 5, 4, 5)], 3),
    "many windows": Case([post(PLAIN)] * 3, 2, {"windows": ["daily", "all", "weekly"]}),
    "no window of all time": Case([post(PLAIN)] * 3, 2, {"windows": ["weekly", "daily"]}),
    "first": Case([post(PLAIN)] * 3, 2, {"rule": "first"}),
    "latest": Case([post({"player": "p", "score": n}) for n in (5, 3, 3)], 2, {"rule": "latest"}),
    "lower": Case(
        [post({"player": "p", "score": n}) for n in (5, 3, 7)], 2, {"direction": "lower"}
    ),
    "ties": Case([post({"player": p, "score": 5}) for p in "abcd"], 3, {"ties": "standard"}),
    "dense": Case([post({"player": p, "score": 5}) for p in "abcd"], 3, {"ties": "dense"}),
    "segments": Case([post(PLAIN)] * 3, 2, {"segments": ["region"]}),
    "bounds kept": twice({"player": "p", "score": 9}, 1, **BOUNDED),
    "too high": twice({"player": "p", "score": 10}, **BOUNDED),
    "too low": twice({"player": "p", "score": -1}, **BOUNDED),
    "past 64 bits": twice({"player": "p", "score": 2**63}),
    "far past 64 bits": twice({"player": "p", "score": 10**30}),
    "half a point": twice(b'{"player":"p","score":1.5}'),
    "text": twice({"player": "p", "score": "5"}),
    "null": twice({"player": "p", "score": None}),
    "true": twice({"player": "p", "score": True}),
    "no score": twice({"player": "p"}),
    "no player": twice({"score": 5}),
    "a number for a player": twice({"player": 7, "score": 5}),
    "an empty player": twice({"player": "", "score": 5}),
    "a player too long": twice({"player": "x" * 257, "score": 5}),
    "not printable": twice(b'{"player":"a\x7fb","score":5}'),
    "not utf-8": twice(b'{"player":"\xff","score":5}'),
    "escapes": twice(b'{"player":"\\u0061","score":5}'),
    "an escaped name": twice(b'{"pl\\u0061yer":"a","score":5}'),
    "a surrogate": twice(b'{"player":"\\ud800","score":5}'),
    "player twice": twice(b'{"player":"a","player":"b","score":5}'),
    "score twice": twice(b'{"player":"a","score":4,"score":5}'),
    "key twice": twice(b'{"player":"a","score":4,"key":"k","key":"l"}'),
    "key twice, once null": twice(b'{"player":"a","score":4,"key":"k","key":null}'),
    "key null": twice(b'{"player":"a","score":4,"key":null}'),
    "key empty": twice({**PLAIN, "key": ""}),
    "key a number": twice({**PLAIN, "key": 7}),
    "key too long": twice({**PLAIN, "key": "k" * 129}),
    "unknown field": twice({**PLAIN, "more": 1}),
    "its board": twice({**PLAIN, "board": "b"}),
    "another board": twice({**PLAIN, "board": "c"}),
    "metadata": twice({**PLAIN, "metadata": {"car": "red"}}),
    "attributes": twice({**PLAIN, "attributes": {"region": "eu"}}, segments=["region"]),
    "delta": twice({"player": "p1", "delta": 5}),
    "trailing bytes": twice(b'{"player":"p1","score":5}x'),
    "trailing brace": twice(b'{"player":"p1","score":5}}'),
    "cut off": twice(b'{"player":"p1","score":5'),
    "a leading zero": twice(b'{"player":"p1","score":05}'),
    "not a number": twice(b'{"player":"p1","score":NaN}'),
    "a list": twice([PLAIN]),
    "nothing": twice(b""),
    "null alone": twice(b"null"),
    "deep": twice(b'{"player":"p1","score":' + b"[" * 9000),
    "deep unknown": twice(b'{"more":' + b"[" * 9000),
    "a mark before it": twice(b'\xef\xbb\xbf{"player":"p1","score":5}'),
    "sum": Case([post(PLAIN)] * 3, 0, {"rule": "sum"}),
    "decimals": Case([post(PLAIN)] * 3, 0, {"decimals": 2}),
    "columns": Case([post({**PLAIN, "columns": {"b": 2}})] * 2, 0, TWO),
    "columns missing": Case([post(PLAIN)] * 2, 0, TWO),
    "json by another name": Case([post(PLAIN, content_type="application/x+json")] * 2, 0),
    "key in the header": Case([post(PLAIN, idempotency_key='"k"')] * 3, 0),
    "other key in the header": Case([post(PLAIN, idempotency_key=k) for k in "klk"], 0),
    "both keys": Case([keyed("p1", 5, "k", idempotency_key=key) for key in "kkll"], 0),
    "origin": Case([post(PLAIN, origin=ORIGIN)] * 2, 0),
    "no such board": Case([post(PLAIN, "/v1/boards/none/scores")] * 2, 0),
    "large head": Case([post(PLAIN, x_more="x" * fastlane.BLOCK_BYTES_MAX)] * 2, 0),
    "closing": Case([post(PLAIN), post(PLAIN, connection="close")], 0),
    "query": Case([post(PLAIN, f"{SCORES}?more=1")] * 2, 0),
}
EITHER_WAY = {"a whole number with a point", "a power of ten", "json by another name"}
"""Whether these are read by the handler or without it is nobody's business."""


@pytest.mark.parametrize("name", CASES)
def test_a_submission_is_answered_as_the_other_lane_answers_it(name: str) -> None:
    async def compare() -> None:
        case = CASES[name]
        async with served(case.definition) as one, served(case.definition) as twin:
            for sent in case.asked:
                assert await one.fast.ask(sent) == await twin.other.ask(sent)
            handled = one.looked["submit_score"]
            if name not in EITHER_WAY:
                routed = name not in {"no such board", "query", "closing"}
                assert handled == len(case.asked) - case.taken or not routed
            assert await ranking(one) == await ranking(twin)

    run(compare())


async def ranking(service: Served) -> list[tuple[object, ...]]:
    """Return who is where by now, and by which submission."""
    page = await service.rankd.reader.page("b", limit=1000)
    return [(page.as_of, one.rank, one.player, one.scores) for one in page.standings]


def test_a_key_is_the_actor_of_what_is_taken_with_it() -> None:
    async def compare() -> None:
        async with served() as service:
            id, shown = await new_key(service.rankd, "submit")
            line = service.fast.connect()
            for number in range(3):
                score = post({"player": "p1", "score": number}, authorization=shown)
                assert status(await line.ask(score)) == 200
            assert service.looked["submit_score"] == 1
            facts = await service.ledger.read(after=service.rankd.position - 3, limit=3)  # type: ignore[arg-type]
            assert [one.fact.actor for one in facts] == [id] * 3  # type: ignore[attr-defined]

    run(compare())


def test_a_body_that_is_not_as_long_as_its_head_says_is_read_as_http_reads_it() -> None:
    async def compare() -> None:
        sent = post(PLAIN)
        async with served() as one, served() as twin:
            await one.know(sent)
            await twin.other.ask(sent)
            fast, other = one.fast.connect(), twin.other.connect()
            for line in (fast, other):
                await line.send(sent[:-1])
                await line.send(sent[-1:] + sent)
            assert [await fast.answer() for _ in range(2)] == [
                await other.answer() for _ in range(2)
            ]
            for line in (fast, other):
                await line.send(sent + b" ")
            assert await fast.rest() == await other.rest()
            assert await ranking(one) == await ranking(twin)

    run(compare())


def test_a_known_submission_may_come_cut_anywhere() -> None:
    async def cut() -> None:
        async with served() as service:
            sent = post({"player": "p1", "score": 5, "key": "k"})
            line = await service.know(sent)
            whole = await line.ask(sent)
            assert told(whole)["duplicate"] is True
            for at in range(1, len(sent)):
                assert await line.ask(sent[:at], sent[at:]) == whole, at
            assert await line.ask(sent) == whole

    run(cut())


def test_writes_and_reads_on_one_connection_are_answered_in_order() -> None:
    async def mix() -> None:
        async with served() as one, served() as twin:
            asked = [
                sent
                for number in range(20)
                for sent in (post({"player": "p1", "score": 10 + number}), get("p1"))
            ]
            fast, other = one.fast.connect(), twin.other.connect()
            for together in (1, 2, 3, 40):
                batches = [asked[at : at + together] for at in range(0, 40, together)]
                for line in (fast, other):
                    for some in batches:
                        await line.send(b"".join(some))
                answers = [await fast.answer() for _ in asked]
                assert answers == [await other.answer() for _ in asked]
                assert [told(answer)["player"] for answer in answers] == ["p1"] * 40
            assert one.looked["submit_score"] < 4 * 20

    run(mix())


def test_what_comes_while_a_submission_is_under_way_waits_its_turn() -> None:
    async def crowd() -> None:
        async with served() as service:
            sent = post(PLAIN)
            line = await service.know(sent)
            before, appends = service.looked["submit_score"], service.ledger.begun
            service.ledger.hold()
            await line.send(sent)
            await service.ledger.asked(appends + 1)
            await from_the_loop(line.protocol.data_received, get("p1") + sent)
            assert not line.readable.is_set()
            assert service.looked["submit_score"] == before
            service.ledger.release()
            statuses = [status(await line.answer()) for _ in range(3)]
            assert statuses == [200, 200, 200]
            assert line.readable.is_set()

    run(crowd())


def test_submissions_of_many_connections_share_a_commit() -> None:
    async def crowd() -> None:
        async with served() as service:
            lines = [await service.know(post(PLAIN)) for _ in range(8)]
            appends = service.ledger.begun
            service.ledger.hold()
            await lines[0].send(post(PLAIN))
            await service.ledger.asked(appends + 1)
            for number, line in enumerate(lines[1:], start=1):
                await line.send(post({"player": f"p{number}", "score": 9}))
            service.ledger.release()
            answers = [told(await line.answer()) for line in lines]
            assert [answer["player"] for answer in answers] == [
                "p1",
                *(f"p{number}" for number in range(1, 8)),
            ]
            assert service.ledger.begun == appends + 2
            assert service.looked["submit_score"] == 1

    run(crowd())


def test_who_goes_away_before_the_answer_takes_nothing_along() -> None:
    async def leave() -> None:
        async with served() as service:
            sent = keyed("p1", 5)
            line, other = await service.know(post(PLAIN)), await service.know(post(PLAIN))
            await line.ask(keyed("p0", 4, "j"))
            appends, taken = service.ledger.begun, service.looked["submit_score"]
            service.ledger.hold()
            await line.send(sent)
            await other.send(post({"player": "p2", "score": 7}))
            await service.ledger.asked(appends + 1)
            line.close()
            await line.lost.wait()
            service.ledger.release()
            assert told(await other.answer())["rank"] == 1
            assert service.looked["submit_score"] == taken
            assert (bytes(line.sent).count(b"HTTP/1.1"), line.protocol.phase) == (2, DEAD)
            retried = told(await other.ask(sent))
            assert (retried["duplicate"], retried["player"]) == (True, "p1")

    run(leave())


def test_who_half_closes_gets_the_answer_and_then_the_end() -> None:
    async def end() -> None:
        async with served() as service:
            line = await service.know(post(PLAIN))
            appends = service.ledger.begun
            service.ledger.hold()
            await line.send(post(PLAIN))
            await service.ledger.asked(appends + 1)
            assert await from_the_loop(line.protocol.eof_received)
            service.ledger.release()
            assert status(await line.answer()) == 200
            await line.lost.wait()

    run(end())


def test_a_server_that_stops_answers_what_it_took_and_closes() -> None:
    async def stop() -> None:
        answers = []
        for first_time in (True, False):
            async with served() as service:
                await service.rankd.submit("b", [("p1", 1)])
                line = service.fast.connect() if first_time else await service.know(post(PLAIN))
                if first_time:
                    await service.rankd.submit("b", [("p1", 5)])
                appends = service.ledger.begun
                service.ledger.hold()
                await line.send(post(PLAIN))
                await service.ledger.asked(appends + 1)
                await from_the_loop(line.protocol.shutdown)
                service.ledger.release()
                answers.append(await line.answer())
                assert line.ended or line.is_closing()
                line.close()
                await line.lost.wait()
        assert answers[0] == answers[1]
        assert b"\r\nconnection: close\r\n" in answers[1]

    run(stop())


async def alike(one: Served, twin: Served, *asked: bytes) -> list[int]:
    """Ask one in the fast lane and its twin in the other; return what both say, as statuses."""
    answers = [(await one.fast.ask(sent), await twin.other.ask(sent)) for sent in asked]
    for fast, other in answers:
        assert fast == other
    return [status(fast) for fast, _ in answers]


@pytest.mark.parametrize("name", ["redefined", "retitled", "retired", "anew", "bounded"])
def test_a_board_that_changed_between_two_submissions_is_met_as_it_is(name: str) -> None:
    changes: dict[str, tuple[Callable[[Rankd], Awaitable[object]], int]] = {
        "redefined": (lambda rankd: rankd.redefine("b", {"decimals": 2}), 200),
        "retitled": (lambda rankd: rankd.redefine("b", {"title": "B"}), 200),
        "retired": (lambda rankd: rankd.retire("b"), 404),
        "anew": (lambda rankd: rankd.retire("b"), 200),
        "bounded": (lambda rankd: rankd.redefine("b", {"limits": {"score_max": 4}}), 422),
    }

    async def change() -> None:
        async with served() as one, served() as twin:
            both = [post(PLAIN), keyed("p2", 5)]
            assert await alike(one, twin, *both, *both) == [200] * 4
            for each in (one, twin):
                await changes[name][0](each.rankd)
                if name == "anew":
                    await each.rankd.define("b", {})
            expected = changes[name][1]
            retried = expected if name == "retired" else 200
            for _ in range(2):
                assert await alike(one, twin, *both) == [expected, retried]
                assert await alike(one, twin, keyed("p2", 6)) == [404 if retried == 404 else 422]
            if name != "retired":
                assert await ranking(one) == await ranking(twin)

    run(change())


def test_a_repeat_is_known_for_one_whatever_the_board_is_now() -> None:
    async def change() -> None:
        first, other = {"rule": "sum"}, {"rule": "best", "limits": {"score_max": 5}}
        async with served(first) as one, served(first) as twin:
            assert await alike(one, twin, keyed("p1", 5)) == [200]
            for each in (one, twin):
                await each.rankd.redefine("b", other)
            assert await alike(one, twin, *[keyed("p1", 5)] * 3) == [200] * 3
            assert await alike(one, twin, *[keyed("p1", 5, "l")] * 3) == [200] * 3
            assert told(await one.fast.ask(keyed("p1", 5)))["duplicate"] is True
            body = {"scores": [item(player="p1", key="k"), item(player="p1", key="m")]}
            for _ in range(2):
                got = await outcome(scores.submit_scores(one.service, batch(body)))
                assert got == await outcome(scores._submit_each(twin.service, batch(body)))
                assert isinstance(got, bytes)
                assert json.loads(got)["results"][0]["duplicate"] is True

    run(change())


def test_a_rebuilt_index_gets_the_next_submission() -> None:
    async def rebuild() -> None:
        async with served() as one, served() as twin:
            await alike(one, twin, post(PLAIN), post(PLAIN))
            for each in (one, twin):
                async for _ in each.rankd.rebuild():
                    pass
            for score in (7, 8):
                assert await alike(one, twin, post({"player": "p1", "score": score})) == [200]
            assert await ranking(one) == await ranking(twin)
            assert (await ranking(one))[0][-1] == (8,)

    run(rebuild())


def test_a_window_that_is_over_turns_before_what_is_taken_counts() -> None:
    async def turn() -> None:
        definition = {"windows": ["daily"]}
        async with served(definition) as one, served(definition) as twin:
            await alike(one, twin, post(PLAIN), post(PLAIN))
            for each in (one, twin):
                each.clock.time += DAY
            assert await alike(one, twin, post({"player": "p1", "score": 3})) == [200]
            assert [each[1:] for each in await ranking(one)] == [(1, "p1", (3,))]

    run(turn())


def test_a_full_queue_refuses_what_is_known_as_it_refuses_what_is_not() -> None:
    async def crowd() -> None:
        async with served() as one, served() as twin:
            await alike(one, twin, post(PLAIN), post(PLAIN))
            for each in (one, twin):
                each.rankd._intake._waiting_max = 0
            assert await alike(one, twin, post(PLAIN), post(PLAIN)) == [503, 503]
            assert told(await one.fast.ask(post(PLAIN)))["code"] == "overloaded"
            for each in (one, twin):
                each.rankd._intake._waiting_max = 10
            assert await alike(one, twin, post(PLAIN), post(PLAIN)) == [200, 200]
            assert await ranking(one) == await ranking(twin)

    run(crowd())


@pytest.mark.parametrize("applied", ["no", "unknown"])
def test_a_ledger_that_fails_is_told_as_it_tells_it(applied: Any) -> None:
    async def fail() -> None:
        async with served() as one, served() as twin:
            await alike(one, twin, post(PLAIN), post(PLAIN))
            for each in (one, twin):
                each.ledger.fail(applied=applied)
            line, before = await one.know(get("p1")), one.looked["submit_score"]
            fast, other = await line.ask(post(PLAIN)), await twin.other.ask(post(PLAIN))
            assert one.looked["submit_score"] == before
            assert (status(fast), told(fast)["applied"]) == (503, applied)
            assert fast == other
            assert await alike(one, twin, post(PLAIN)) == [503]
            assert status(await line.ask(get("p1"))) == 200

    run(fail())


def test_what_is_accepted_and_not_counted_yet_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where others share the index, a fact may be recorded before it can be judged."""

    def record(facts: Sequence[Any], tell: HandedIn, *, boards: Sequence[Any] = ()) -> None:
        answers = [Answer(Position(9), None, pending=fact) for fact in facts]
        asyncio.get_running_loop().call_soon(tell, answers)

    async def accept() -> None:
        async with served() as one, served() as twin:
            await alike(one, twin, post(PLAIN), post(PLAIN))
            for each in (one, twin):
                monkeypatch.setattr(each.rankd._intake, "hand_in", record)
            before = one.looked["submit_score"]
            assert await alike(one, twin, post(PLAIN), post(PLAIN)) == [202, 202]
            assert one.looked["submit_score"] == before
            got = await outcome(scores.submit_scores(one.service, batch(BATCH)))
            assert got == await outcome(scores._submit_each(twin.service, batch(BATCH)))

    run(accept())


def test_an_engine_that_takes_nothing_more_says_so() -> None:
    async def close() -> None:
        async with served() as one, served() as twin:
            await alike(one, twin, post(PLAIN), post(PLAIN))
            for each in (one, twin):
                each.rankd._intake.close()
            assert await alike(one, twin, post(PLAIN), post(PLAIN)) == [503, 503]

    run(close())


# -------------------------------------------------------------------------------- batches

Item = dict[str, Any]
BATCH = {"scores": [{"board": "b", "player": f"p{n}", "score": n} for n in range(5)]}


def batch(body: object, **headers: str) -> Request:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {"content-type": "application/json", "host": "localhost", **headers}
    shown = {name.encode(): value.encode() for name, value in sent.items()}
    return Request("POST", "/v1/scores:batch", {}, {}, shown, text, "127.0.0.1")


async def outcome(answering: Awaitable[Response]) -> object:
    try:
        return (await answering).body
    except RankdError as error:
        return type(error), str(error), getattr(error, "errors", None)


@asynccontextmanager
async def twins() -> AsyncIterator[tuple[Served, Served]]:
    async with served() as one, served() as twin:
        for each in (one, twin):
            await each.rankd.define("c", {"windows": ["daily", "all"], "rule": "latest"})
            await each.rankd.define("low", {"limits": {"score_max": 3}})
            await each.rankd.define("sum", {"rule": "sum"})
            await each.rankd.define("old", {})
            await each.rankd.redefine("old", {"decimals": 1})
        yield one, twin


def item(board: str = "b", player: str = "p", score: object = 5, **more: object) -> Item:
    return {"board": board, "player": player, "score": score, **more}


BATCHES: dict[str, tuple[list[object], bool]] = {
    "plain": ([BATCH, BATCH], True),
    "one": ([{"scores": [item()]}], True),
    "mixed boards": ([{"scores": [item("bc"[n % 2], f"p{n}", n) for n in range(9)]}] * 2, True),
    "boards in rows": ([{"scores": [item("b"), item("b"), item("c"), item("c")]}] * 2, True),
    "keys": ([{"scores": [item(key="k"), item(key="l"), item("c", key="k")]}] * 2, True),
    "a key twice": ([{"scores": [item(key="k"), item(key="k"), item(score=6, key="k")]}], True),
    "some keys": ([{"scores": [item(), item(key="k"), item(score=9)]}] * 2, True),
    "to the bound": ([{"scores": [item("low", score=n) for n in (1, 3, 2)]}], True),
    "out of bounds": (
        [{"scores": [item(), item("low", score=4), item("low", score=3)]}] * 2,
        False,
    ),
    "a bad one": ([{"scores": [item(), item(player=""), item(score="x"), item()]}] * 2, False),
    "no such board": ([{"scores": [item(), item("none"), item("c")]}] * 2, False),
    "no board": ([{"scores": [item(), {"player": "p", "score": 1}]}], False),
    "sum": ([{"scores": [item(), item("sum"), item("sum")]}] * 2, False),
    "redefined": ([{"scores": [item("old", key="k"), item("old")]}] * 2, False),
    "delta": ([{"scores": [item(), {"board": "b", "player": "p", "delta": 1}]}], False),
    "metadata": ([{"scores": [item(), item(metadata={"car": 1})]}] * 2, False),
    "key null": ([{"scores": [item(key=None), item()]}], False),
    "none": ([{"scores": []}], False),
    "not a list": ([{"scores": {}}], False),
    "unknown field": ([{"scores": [item(more=1)]}, {"scores": [item()], "more": 1}], False),
    "twice in one": ([b'{"scores":[{"board":"b","player":"a","player":"b","score":1}]}'], False),
    "scores twice": ([b'{"scores":[],"scores":[{"board":"b","player":"a","score":1}]}'], False),
    "key twice": (
        [b'{"scores":[{"board":"b","player":"a","score":1,"key":"k","key":null}]}'],
        False,
    ),
    "escapes": ([b'{"scores":[{"board":"b","player":"\\u0061","score":1}]}'], False),
    "not utf-8": ([b'{"scores":[{"board":"b","player":"\xff","score":1}]}'], False),
    "trailing": ([b'{"scores":[{"board":"b","player":"a","score":1}]}x'], False),
    "deep": ([b'{"scores":' + b"[" * 9000], False),
    "half": ([b'{"scores":[{"board":"b","player":"a","score":1.5}]}'], False),
}


@pytest.mark.parametrize("name", BATCHES)
def test_a_batch_is_answered_as_each_of_it_would_be(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def compare() -> None:
        in_general, general = scores._submit_each, Counter[str]()

        async def watched(service: Service, request: Request) -> Response:
            general[name] += 1
            return await in_general(service, request)

        monkeypatch.setattr(scores, "_submit_each", watched)
        bodies, plain = BATCHES[name]
        async with twins() as (one, twin):
            for body in bodies:
                got = await outcome(scores.submit_scores(one.service, batch(body)))
                assert got == await outcome(in_general(twin.service, batch(body)))
            assert general.total() == (0 if plain else len(bodies))
            assert await ranking(one) == await ranking(twin)

    run(compare())


def test_a_batch_has_so_many_at_most_however_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    async def compare() -> None:
        async with twins() as (one, twin):
            for count in (3, 4):
                body = {"scores": [item(player=f"p{n}") for n in range(count)]}
                got = await outcome(scores.submit_scores(one.service, batch(body)))
                assert got == await outcome(scores._submit_each(twin.service, batch(body)))
                assert isinstance(got, bytes) is (count == 3)

    monkeypatch.setattr(scores, "BATCH_SCORES_MAX", 3)
    run(compare())


@pytest.mark.parametrize("content_type", ["text/plain", "", "application/json; charset=utf-8"])
def test_a_batch_of_another_type_is_read_in_general(content_type: str) -> None:
    async def compare() -> None:
        async with twins() as (one, twin):
            for _ in range(2):
                asked = batch(BATCH, **{"content-type": content_type})
                got = await outcome(scores.submit_scores(one.service, asked))
                assert got == await outcome(scores._submit_each(twin.service, asked))

    run(compare())


def test_a_batch_needs_the_right_to_each_of_its_boards() -> None:
    async def compare() -> None:
        async with twins() as (one, twin):
            got = []
            for each, handler in ((one, scores.submit_scores), (twin, scores._submit_each)):
                asked: NewKey = NewKey(scopes=["submit"], boards=["b"])
                fact, secret = make_key(asked, actor=None)
                await each.rankd.create_key(fact)
                for some in ([item()], [item(), item("c")]):
                    sent = batch({"scores": some}, authorization=f"Bearer {secret}")
                    got.append(await outcome(handler(each.service, sent)))
                stranger = batch({"scores": [item()]}, authorization="Bearer none")
                got.append(await outcome(handler(each.service, stranger)))
            assert got[:3] == got[3:]
            assert [isinstance(each, bytes) for each in got[:3]] == [True, False, False]
            facts = await one.ledger.read(after=one.rankd.position - 1, limit=1)  # type: ignore[arg-type]
            assert facts[0].fact.actor is not None  # type: ignore[attr-defined]

    run(compare())


def test_a_batch_that_was_overtaken_is_looked_at_again() -> None:
    async def overtake() -> None:
        async with twins() as (one, _):
            appends = one.ledger.begun
            one.ledger.hold()
            changing = asyncio.create_task(one.rankd.redefine("b", {"decimals": 2}))
            await one.ledger.asked(appends + 1)
            body = {"scores": [item(), item("c")]}
            answering = asyncio.create_task(outcome(scores.submit_scores(one.service, batch(body))))
            while one.rankd.waiting < 2:  # noqa: ASYNC110 - a queue has no event
                await asyncio.sleep(0)
            one.ledger.release()
            await changing
            got = await answering
            assert isinstance(got, bytes)
            assert [each["score"] for each in json.loads(got)["results"]] == [5.0, 5]
            assert [scores for *_, scores in await ranking(one)] == [(500,)]

    run(overtake())


ITEMS = st.builds(
    item,
    st.sampled_from(["b", "b", "c", "low"]),
    st.sampled_from(["p", "q", "é"]),
    st.integers(0, 4),
    key=st.sampled_from(["k", "l", "m"]),
) | st.builds(item, st.sampled_from(["b", "c"]), st.sampled_from(["p", "q"]), st.integers(0, 9))


@settings(derandomize=True, max_examples=30)
@given(st.lists(st.lists(ITEMS, min_size=1, max_size=8), min_size=1, max_size=4))
def test_any_batches_in_a_row_are_answered_as_each_of_them_would_be(
    batches: list[list[Item]],
) -> None:
    async def compare() -> None:
        async with twins() as (one, twin):
            for some in batches:
                asked = batch({"scores": some})
                got = await outcome(scores.submit_scores(one.service, asked))
                assert got == await outcome(scores._submit_each(twin.service, asked))

    run(compare())


# ------------------------------------------------------------ where a known kind must not reach


@pytest.mark.parametrize("ask", [STANDING, AROUND, "{}?window=all"])
@pytest.mark.parametrize(
    "player", ["a:b", "a b", "a%b", "aé", "é", "a+b", "a/b", "a@b", "a,", "a'b"]
)
def test_a_player_that_begins_like_another_is_not_taken_for_it(player: str, ask: str) -> None:
    async def compare() -> None:
        async with served() as service:
            await service.rankd.submit("b", [("a", 5), (player, 7), ("b", 6)])
            for shown in {quote(player, safe=""), quote(player, safe=":@+,'")}:
                for sent in (get(shown, ask), get("a", ask), get(shown, ask), get(shown, ask)):
                    assert status(await service.same(sent)) == 200
            assert not await service.at_once(get(quote(player, safe=""), ask))
            assert await service.at_once(get("b", ask))

    run(compare())


@pytest.mark.parametrize("ask", [STANDING, AROUND])
def test_an_id_that_nobody_can_have_ends_no_connection(ask: str) -> None:
    async def compare() -> None:
        async with served() as service:
            await fill(service.rankd)
            line = await service.know(get("p1", ask))
            sent = get("x" * 257, ask)
            answer = await line.ask(sent)
            assert (answer, status(answer)) == (await service.other.ask(sent), 404)
            assert status(await line.ask(get("p1", ask))) == 200

    run(compare())


@pytest.mark.parametrize("ask", [STANDING, AROUND])
def test_an_index_that_failed_is_told_as_the_handler_tells_it(ask: str) -> None:
    async def fail() -> None:
        async with served() as service:
            await fill(service.rankd)
            line = await service.know(get("p1", ask))
            service.rankd.projector.index._failure = MemoryError()  # type: ignore[attr-defined]
            assert status(await line.ask(get("p1", ask))) == 500
            assert status(await service.same(get("p1", ask))) == 500

    run(fail())


def test_how_long_ago_is_counted_from_now_though_no_window_was_turned() -> None:
    async def wait() -> None:
        async with served(RICH) as service:
            await fill(service.rankd)
            sent = get("p1", "{}?window=daily:-1")
            for expected in (404, 200, 404):
                for _ in range(2):
                    assert status(await service.same(sent)) == expected
                service.clock.time += DAY

    run(wait())


@pytest.mark.parametrize("content_type", ["text/plain", "", "application/json; charset=latin-1"])
def test_a_submission_of_another_type_is_refused_each_time(content_type: str) -> None:
    async def compare() -> None:
        async with served() as one, served() as twin:
            sent = post(PLAIN, content_type=content_type)
            assert await alike(one, twin, sent, sent, sent) == [415] * 3
            bare = request("POST", SCORES, b'{"player":"p1","score":5}')
            assert await alike(one, twin, bare, bare) == [415] * 2
            assert await ranking(one) == []

    run(compare())


def test_who_may_not_submit_is_told_so_however_often() -> None:
    async def refuse() -> None:
        async with served() as service:
            _, admin = await new_key(service.rankd, "admin")
            id, submits = await new_key(service.rankd, "submit")
            _, reads = await new_key(service.rankd, "read")
            line = service.fast.connect()

            async def statuses(**headers: str) -> list[int]:
                sent = post(PLAIN, **headers)
                assert await service.other.ask(sent) == await line.ask(sent)
                return [status(await line.ask(sent)) for _ in range(2)]

            for _ in range(2):
                assert await statuses() == [401, 401]
                assert await statuses(authorization="Bearer none") == [401, 401]
                assert await statuses(authorization=reads) == [403, 403]
            sent = post(PLAIN, authorization=submits)
            assert [status(await line.ask(sent)) for _ in range(3)] == [200] * 3
            await service.rankd.revoke_key(id)
            assert await statuses(authorization=submits) == [401, 401]
            assert status(await line.ask(post(PLAIN, authorization=admin))) == 200

    run(refuse())


def test_the_first_key_ends_what_anybody_could_submit() -> None:
    async def lock() -> None:
        async with served() as service:
            line = await service.know(post(PLAIN))
            assert status(await line.ask(post(PLAIN))) == 200
            await new_key(service.rankd, "admin")
            assert [status(await line.ask(post(PLAIN))) for _ in range(2)] == [401, 401]

    run(lock())


OVERTAKING: dict[str, tuple[Callable[[Rankd], Awaitable[object]], int]] = {
    "redefined": (lambda rankd: rankd.redefine("b", {"decimals": 2}), 200),
    "bounded": (lambda rankd: rankd.redefine("b", {"limits": {"score_max": 4}}), 422),
    "retired": (lambda rankd: rankd.retire("b"), 404),
}


@pytest.mark.parametrize("then", ["waits", "asks on", "half-closes", "goes away", "stops"])
@pytest.mark.parametrize("name", OVERTAKING)
def test_a_submission_that_was_overtaken_is_looked_at_again(name: str, then: str) -> None:
    async def overtake() -> None:
        change, expected = OVERTAKING[name]
        async with served() as service:
            await service.rankd.define("c", {})
            await service.rankd.submit("c", [("q", 1)])
            line, score = await service.know(post(PLAIN)), post({"player": "p1", "score": 7})
            handled, appends = service.looked["submit_score"], service.ledger.begun
            service.ledger.hold()
            changing = asyncio.ensure_future(change(service.rankd))
            await service.ledger.asked(appends + 1)
            await line.send(score)
            assert service.looked["submit_score"] == handled
            behind = request("GET", "/v1/boards/c/standings/q")
            if then == "asks on":
                await from_the_loop(line.protocol.data_received, behind)
            elif then == "half-closes":
                assert await from_the_loop(line.protocol.eof_received)
            elif then == "goes away":
                line.close()
                await line.lost.wait()
            elif then == "stops":
                await from_the_loop(line.protocol.shutdown)
            service.ledger.release()
            await changing
            if then == "goes away":
                assert await line.answer() == b""
            else:
                answer = await line.answer()
                assert status(answer) == expected
                assert (b"\r\nconnection: close\r\n" in answer) is (then == "stops")
            if then == "asks on":
                assert await line.answer() == await service.other.ask(behind)
            if then == "half-closes":
                await line.lost.wait()
            if then in ("waits", "asks on"):
                assert await line.ask(behind) == await service.other.ask(behind)
                assert line.readable.is_set()
            line.close()
            await line.lost.wait()
            (counted,) = await service.rankd.submit("c", [("q", 9)])  # The engine goes on.
            assert counted.receipt is not None
            assert service.rankd.failure is None
            if expected == 200 and then != "goes away":
                assert [each[1:] for each in await ranking(service)] == [(1, "p1", (700,))]

    run(overtake())


def test_a_submission_overtaken_by_the_end_of_its_key_is_refused_and_stops_nobody() -> None:
    async def overtake() -> None:
        async with served() as service:
            _, admin = await new_key(service.rankd, "admin")
            id, shown = await new_key(service.rankd, "submit")
            sent = post(PLAIN, authorization=shown)
            line, appends = await service.know(sent), service.ledger.begun
            service.ledger.hold()
            revoking = asyncio.ensure_future(service.rankd.revoke_key(id))
            await service.ledger.asked(appends + 1)
            changing = asyncio.ensure_future(service.rankd.redefine("b", {"decimals": 2}))
            await asyncio.sleep(0)
            await line.send(sent)
            service.ledger.release()
            await asyncio.gather(revoking, changing)
            assert status(await line.answer()) in (200, 401)  # As their turns came.
            assert status(await line.ask(sent)) == 401
            assert status(await line.ask(post(PLAIN, authorization=admin))) == 200

    run(overtake())
