"""Streams over real sockets: server-sent events and WebSocket, tickets, limits, slow readers.

The WebSocket is spoken by wsproto, which is not ours; server-sent events are read by the client of
the package. ``stream_game`` judges what subscribers put together.
"""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.http.stream_game import play
from tests.http.test_authorisation import reader, token
from tests.http.whole import Whole, run, whole
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    CloseConnection,
    Ping,
    Pong,
    RejectConnection,
    RejectData,
    Request,
    TextMessage,
)

from rankd.api.streams import StreamHub
from rankd.client import AsyncClient, Client, LiveBoard
from rankd.client.streams import Event
from rankd.errors import Forbidden, TooManyStreams, Unauthenticated, UnknownBoard
from rankd.schemas import Overtaken, StreamChange, StreamState, WindowChanged

BOARD = "/v1/boards/b"
DEFINITION = {"windows": ["all", "daily"], "writes": "client"}
QUICK = {"stream_interval": 0.01}


@asynccontextmanager
async def playing(**given: Any) -> AsyncIterator[Whole]:
    async with whole(**{**QUICK, **given}) as service:
        await service.told("PUT", BOARD, DEFINITION)
        for number in range(1, 6):
            await submit(service, f"p{number}", 10 * number)
        yield service


async def submit(service: Whole, player: str, score: int, **more: Any) -> Any:
    return await service.told("POST", f"{BOARD}/scores", {"player": player, "score": score}, **more)


async def top(service: Whole, count: int = 3, **more: Any) -> list[Any]:
    page = await service.told("GET", f"{BOARD}/standings?limit={count}", **more)
    return [(row["rank"], row["player"], row["score"]) for row in page["standings"]]


def rows(live: LiveBoard) -> list[Any]:
    return [(row.rank, row.player, row.score) for row in live.standings]


async def follow(
    events: AsyncIterator[Event], live: LiveBoard, until: Callable[[], bool]
) -> list[Event]:
    """Take events until something holds."""
    seen = []
    while not until():
        event = await anext(events)
        seen.append(event)
        live.apply(event)
    return seen


# ------------------------------------------------------------------------------ the model


@pytest.mark.parametrize("seed", range(1, 9))
def test_what_a_subscriber_put_together_is_the_page_at_its_position(seed: int) -> None:
    played = play(seed, steps=60)
    assert played.resumed and any(watcher.states for watcher in played.watchers)


# -------------------------------------------------------------------- server-sent events


def test_a_stream_has_the_state_and_then_each_change_as_text() -> None:
    async def test() -> None:
        path = f"{BOARD}/stream?top=3"
        async with playing() as service, service.http.stream("GET", path) as answer:
            assert answer.headers["content-type"] == "text/event-stream"
            lines = answer.aiter_lines()
            first = [await anext(lines) for _ in range(4)]
            assert first[:2] == ["id: 6", "event: state"] and first[3] == ""
            state = json.loads(first[2].removeprefix("data: "))
            assert [row["player"] for row in state["standings"]] == ["p5", "p4", "p3"]
            assert (state["position"], state["resumed"], state["total"]) == (6, False, 5)
            await submit(service, "p1", 45)
            change = [await anext(lines) for _ in range(4)]
            assert change[:2] == ["id: 7", "event: change"]
            told = json.loads(change[2].removeprefix("data: "))
            assert told["left"] == ["p3"] and told["total"] == 5
            assert [(row["rank"], row["player"]) for row in told["rows"]] == [
                (2, "p1"),
                (3, "p4"),
            ]

    run(test())


@pytest.mark.parametrize("fast_lane", [True, False])
def test_a_client_follows_and_is_told_who_overtook_whom(fast_lane: bool) -> None:
    async def test() -> None:
        async with playing(fast_lane=fast_lane) as service, AsyncClient(service.address) as client:
            live, events = LiveBoard(), client.stream("b", top=2, player="p2", around=1)
            (state,) = await follow(events, live, lambda: live.position == 6)
            assert isinstance(state, StreamState)
            assert [row.player for row in live.rows] == ["p5", "p4", "p3", "p2", "p1"]
            await submit(service, "p1", 25)
            seen = await follow(events, live, lambda: live.position == 7)
            seen += await follow(events, live, lambda: False) if len(seen) > 2 else []
            if not any(isinstance(one, Overtaken) for one in seen):
                seen.append(await anext(events))
            (overtaken,) = [one for one in seen if isinstance(one, Overtaken)]
            assert (overtaken.player, overtaken.by, overtaken.rank) == ("p2", "p1", 5)
            assert [row.player for row in live.rows] == ["p5", "p4", "p3", "p1", "p2"]
            await events.aclose()  # type: ignore[attr-defined]

    run(test())


def test_a_window_that_turns_is_told_and_its_successor_followed() -> None:
    async def test() -> None:
        async with playing() as service, AsyncClient(service.address) as client:
            live, events = LiveBoard(), client.stream("b", window="daily", top=2)
            await follow(events, live, lambda: live.position is not None)
            before = live.window
            body = {"window": "daily", "reason": "a test"}
            await service.told("POST", f"{BOARD}:reset", body)
            seen = await follow(events, live, lambda: live.window != before)
            told = [(one.window, one.state) for one in seen if isinstance(one, WindowChanged)]
            assert told[0] == (before, "sealed") and told[1] == (live.window, "open")
            assert live.rows == [] and isinstance(seen[-1], StreamState)
            await events.aclose()  # type: ignore[attr-defined]

    run(test())


def test_a_stream_goes_on_after_the_last_event_or_says_that_it_cannot() -> None:
    async def test() -> None:
        async with playing() as service:

            async def first(since: str, path: str = f"{BOARD}/stream?top=2") -> Any:
                sent = {"last-event-id": since}
                async with service.http.stream("GET", path, headers=sent) as answer:
                    lines = answer.aiter_lines()
                    name = await anext(lines)
                    if name.startswith(":"):
                        return name, None
                    event, data = await anext(lines), await anext(lines)
                    return event, json.loads(data.removeprefix("data: "))

            await first("0")
            position = (await submit(service, "p3", 100))["position"]
            name, change = await first(str(position - 1))
            assert name == "event: change" and change["left"] == ["p4"]
            assert (await first(str(position)))[0] == ": resumed"
            for unknown in ("1", "99999", "x", "-1"):
                name, state = await first(unknown)
                assert (name, state["resumed"]) == ("event: state", False)
            name, _ = await first("x", f"{BOARD}/stream?top=2&last_event_id={position}")
            assert name == "event: state", "the header wins"

    run(test())


def test_a_stream_is_refused_as_a_read_is() -> None:
    async def test() -> None:
        async with playing() as service:
            for path, status in (
                ("/v1/boards/none/stream", 404),
                (f"{BOARD}/stream?window=never", 404),
                (f"{BOARD}/stream?segment=region:eu", 422),
                (f"{BOARD}/stream?top=0", 422),
                (f"{BOARD}/stream?top=1001", 422),
                (f"{BOARD}/stream?around=2", 422),
                (f"{BOARD}/stream?player=", 422),
                (f"{BOARD}/stream?ticket=x", 401),
            ):
                assert (await service.ask("GET", path)).status_code == status, path
            assert len(service_hub(service)) == 0

    run(test())


def test_a_client_survives_the_end_of_the_server_and_ends_with_a_refusal() -> None:
    async def test() -> None:
        async with playing() as service, AsyncClient(service.address) as client:
            events = client.stream("none")
            with pytest.raises(UnknownBoard):
                await anext(events)
            live, events = LiveBoard(), client.stream("b", top=2)
            await follow(events, live, lambda: live.position is not None)
            await service.told("DELETE", BOARD)
            with pytest.raises(UnknownBoard):
                await follow(events, live, lambda: False)

    run(test())


def test_threads_follow_until_their_client_is_closed() -> None:
    async def test() -> None:
        async with playing() as service:
            client = Client(service.address)
            loop, seen = asyncio.get_running_loop(), asyncio.Event()

            def listen() -> list[Event]:
                events = []
                for event in client.stream("b", top=2):
                    events.append(event)
                    loop.call_soon_threadsafe(seen.set)
                return events

            listening = loop.run_in_executor(None, listen)
            await seen.wait()
            await loop.run_in_executor(None, client.close)
            (state,) = await listening
            assert isinstance(state, StreamState)
            await loop.shutdown_default_executor()

    run(test())


def service_hub(service: Whole) -> StreamHub:
    return service.hub


# ------------------------------------------------------------------------ still allowed


def test_a_stream_ends_when_its_key_is_revoked() -> None:
    async def test() -> None:
        async with playing() as service:
            admin = (await service.new_key("admin"))["key"]
            key = await service.new_key("read", key=admin)
            async with AsyncClient(service.address, key["key"]) as client:
                live, events = LiveBoard(), client.stream("b")
                await follow(events, live, lambda: live.position is not None)
                await service.told("DELETE", f"/v1/keys/{key['id']}", key=admin)
                with pytest.raises(Unauthenticated):
                    await follow(events, live, lambda: False)

    run(test())


def test_a_ticket_is_good_once_and_for_its_client_alone() -> None:
    async def test() -> None:
        async with playing(token=reader().read) as service:
            admin = (await service.new_key("admin"))["key"]
            key = await service.new_key("read", boards=["b"], key=admin)
            made = await service.ask("POST", "/v1/tickets", {"board": "b"}, key=key["key"])
            ticket = made.json()["ticket"]
            assert (await service.ask("POST", "/v1/tickets", key=key["key"])).status_code == 403
            path = f"{BOARD}/stream?ticket={ticket}"
            async with service.http.stream("GET", path) as answer:
                assert answer.status_code == 200
                lines = answer.aiter_lines()
                assert await anext(lines) == f"id: {service.rankd.position}"
                assert (await service.ask("GET", path)).status_code == 401
                await service.told("DELETE", f"/v1/keys/{key['id']}", key=admin)
                with pytest.raises(StopAsyncIteration):
                    while True:
                        await anext(lines)
            changed = ticket[:-2] + ("AA" if ticket[-2:] != "AA" else "BB")
            for wrong in (changed, "x", f"{ticket}x", "a.b.c", ""):
                answer = await service.ask("GET", f"{BOARD}/stream?ticket={wrong}")
                assert answer.status_code == 401, wrong
            player = (await service.told("POST", "/v1/tickets", key=token("p1")))["ticket"]
            async with service.http.stream("GET", f"{BOARD}/stream?ticket={player}") as answer:
                assert answer.status_code == 200

    run(test())


def test_a_shadowed_player_sees_itself_and_no_other_stream_has_it() -> None:
    async def test() -> None:
        async with playing(token=reader().read) as service:
            admin = (await service.new_key("admin"))["key"]
            reading = (await service.new_key("read", key=admin))["key"]
            async with (
                AsyncClient(service.address, token("p5")) as own,
                AsyncClient(service.address, reading) as other,
            ):
                mine, others = LiveBoard(), LiveBoard()
                first = own.stream("b", top=2), other.stream("b", top=2, player="p4")
                await follow(first[0], mine, lambda: mine.position is not None)
                await follow(first[1], others, lambda: others.position is not None)
                await service.told("POST", "/v1/players/p5:shadow", {"reason": "x"}, key=admin)
                await follow(first[1], others, lambda: rows(others)[0][1] == "p4")
                await submit(service, "p5", 500, key=admin)
                await submit(service, "p3", 45, key=admin)
                seen = await follow(first[1], others, lambda: rows(others)[0][1] == "p3")
                seen += [await anext(first[1])] if not has_overtaken(seen) else []
                assert [one.by for one in seen if isinstance(one, Overtaken)] == ["p3"]
                await follow(first[0], mine, lambda: rows(mine)[:1] == [(1, "p5", 500)])
                assert "p5" not in json.dumps(rows(others))
                for events in first:
                    await events.aclose()  # type: ignore[attr-defined]

    run(test())


def has_overtaken(events: list[Event]) -> bool:
    return any(isinstance(one, Overtaken) for one in events)


# -------------------------------------------------------------------------- slow readers


def test_a_slow_reader_gets_the_latest_state_and_keeps_nobody_waiting() -> None:
    async def test() -> None:
        async with playing(stream_buffer_bytes=4096) as service:
            hub = service_hub(service)
            slow = await raw_stream(service, f"{BOARD}/stream?top=1000", receive_bytes=4096)
            (sink,) = hub._sinks
            async with AsyncClient(service.address) as client:
                live, events = LiveBoard(), client.stream("b", top=3)
                behind = rounds = 0
                while behind < 5:
                    await crowd(service, rounds)
                    position = (await submit(service, "p1", 100 + rounds))["position"]
                    await follow(events, live, lambda at=position: live.position == at)  # type: ignore[misc]
                    rounds, behind = rounds + 1, behind + (not sink.ready)
                await events.aclose()  # type: ignore[attr-defined]
            told = await read_until(slow, f"id: {service.rankd.position}\n")
            slow.close()
            assert told.count("event: change") <= 2 * rounds - 6, "the last ones came as one"

    run(test())


async def crowd(service: Whole, score: int) -> None:
    """Have many new players submit, each of which changes most rows of a long list."""
    players = [f"n{score}-{number}" for number in range(200)]
    scores = [{"board": "b", "player": one, "score": score} for one in players]
    await service.told("POST", "/v1/scores:batch", {"scores": scores})


def test_a_reader_that_stays_away_is_dropped() -> None:
    async def test() -> None:
        given = {"stream_buffer_bytes": 4096, "send_seconds_max": 0.2}
        async with playing(**given) as service:
            slow = await raw_stream(service, f"{BOARD}/stream?top=1000", receive_bytes=4096)
            hub = service_hub(service)
            round_ = 0
            while len(hub):
                round_ += 1
                await crowd(service, round_)
            assert hub.dropped == 1
            text = (await service.ask("GET", "/metrics")).text
            assert "rankd_stream_dropped_total 1" in text
            slow.close()

    run(test())


async def raw_stream(service: Whole, path: str, *, receive_bytes: int) -> socket.socket:
    """Ask for a stream on a socket that takes little, and is not read."""
    loop, parts = asyncio.get_running_loop(), urlsplit(service.address)
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    connection.setblocking(False)
    await loop.sock_connect(connection, (parts.hostname, parts.port))
    await loop.sock_sendall(connection, f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
    while len(service_hub(service)) == 0:  # noqa: ASYNC110 - a hub has no event
        await asyncio.sleep(0.01)
    return connection


async def read_until(connection: socket.socket, text: str) -> str:
    loop, told = asyncio.get_running_loop(), ""
    while text not in told:
        part = await loop.sock_recv(connection, 1 << 20)
        assert part, "it ended before"
        told += part.decode()
    return told


def test_streams_have_a_limit() -> None:
    async def test() -> None:
        async with playing(stream_subscriptions_max=1) as service:
            async with AsyncClient(service.address, policy=None) as client:
                events = client.stream("b")
                await anext(events)
                answer = await service.ask("GET", f"{BOARD}/stream")
                assert (answer.status_code, answer.json()["code"]) == (503, TooManyStreams.code)
                assert "retry-after" in answer.headers
                await events.aclose()  # type: ignore[attr-defined]
            while len(service_hub(service)):  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.01)

    run(test())


# ----------------------------------------------------------------------------- WebSocket


class Socket:
    """A WebSocket client: wsproto over a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer
        self._protocol = WSConnection(ConnectionType.CLIENT)
        self._events: list[Any] = []

    @classmethod
    async def open(cls, service: Whole, query: str = "", **headers: str) -> "Socket":
        parts = urlsplit(service.address)
        opened = cls(*await asyncio.open_connection(parts.hostname, parts.port))
        more = [(name.encode(), value.encode()) for name, value in headers.items()]
        opened._send(Request(host=parts.netloc, target=f"/v1/stream{query}", extra_headers=more))
        return opened

    def _send(self, event: Any) -> None:
        self.writer.write(self._protocol.send(event))

    def send(self, message: Any) -> None:
        text = message if isinstance(message, str) else json.dumps(message)
        self._send(TextMessage(data=text))

    async def next(self) -> Any:
        while not self._events:
            data = await self._reader.read(1 << 16)
            self._protocol.receive_data(data or None)
            for event in self._protocol.events():
                if isinstance(event, Ping):
                    self._send(event.response())
                else:
                    self._events.append(event)
        return self._events.pop(0)

    async def message(self) -> Any:
        text = ""
        while True:
            event = await self.next()
            assert isinstance(event, TextMessage), event
            text += event.data
            if event.message_finished:
                return json.loads(text)

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


@asynccontextmanager
async def socket_to(service: Whole, query: str = "", **headers: str) -> AsyncIterator[Socket]:
    opened = await Socket.open(service, query, **headers)
    try:
        assert isinstance(await opened.next(), AcceptConnection)
        yield opened
    finally:
        await opened.close()


def test_one_socket_has_many_subscriptions() -> None:
    async def test() -> None:
        async with playing() as service, socket_to(service) as opened:
            await service.told("PUT", "/v1/boards/other", {})
            opened.send({"subscribe": {"id": "a", "board": "b", "top": 2}})
            state = await opened.message()
            assert (state["id"], state["event"], state["position"]) == ("a", "state", 7)
            assert [row["player"] for row in state["standings"]] == ["p5", "p4"]
            opened.send({"subscribe": {"id": 'ö"', "board": "other", "top": 1}})
            assert (await opened.message())["id"] == 'ö"'
            await submit(service, "p1", 90)
            change = await opened.message()
            assert (change["id"], change["event"]) == ("a", "change")
            assert [row["player"] for row in change["rows"]] == ["p1", "p5"]
            assert change["left"] == ["p4"]
            opened.send({"unsubscribe": "a"})
            body = {"player": "x", "score": 1}
            await service.told("POST", "/v1/boards/other/scores", body)
            assert (await opened.message())["id"] == 'ö"'
            opened.send({"subscribe": {"id": "a", "board": "b", "last_event_id": 8, "top": 2}})
            await submit(service, "p2", 95)
            change = await opened.message()
            assert (change["id"], change["event"]) == ("a", "change")

    run(test())


def test_a_wrong_message_gets_an_error_and_the_socket_stays() -> None:
    async def test() -> None:
        given = {"stream_connection_subscriptions_max": 2}
        async with playing(**given) as service, socket_to(service) as opened:
            good = {"subscribe": {"id": "a", "board": "b"}}
            opened.send(good)
            assert (await opened.message())["event"] == "state"
            for wrong, id, status, code in (
                ("{", None, 400, "malformed"),
                ({}, None, 422, "invalid"),
                ({**good, "unsubscribe": "a"}, None, 422, "invalid"),
                (good, "a", 422, "invalid"),
                ({"subscribe": {"id": "", "board": "b"}}, "", 422, "invalid"),
                ({"subscribe": {"id": "x"}}, None, 422, "invalid"),
                ({"subscribe": {"id": "x", "board": "no"}}, "x", 404, "unknown_board"),
                ({"subscribe": {"id": "x", "board": "b", "top": 0}}, "x", 422, None),
            ):
                opened.send(wrong)
                told = await opened.message()
                assert (told["id"], told["event"]) == (id, "error"), wrong
                assert told["status"] == status, wrong
                assert code is None or told["code"] == code, wrong
            opened.send({"subscribe": {"id": "2", "board": "b"}})
            assert (await opened.message())["event"] == "state"
            opened.send({"subscribe": {"id": "3", "board": "b"}})
            assert (await opened.message())["code"] == TooManyStreams.code
            await service.told("DELETE", BOARD)
            told = [await opened.message() for _ in range(2)]
            assert {(one["id"], one["code"]) for one in told} == {
                ("a", "unknown_board"),
                ("2", "unknown_board"),
            }

    run(test())


def test_who_may_not_read_opens_no_socket() -> None:
    async def test() -> None:
        async with playing(token=reader().read) as service:
            admin = (await service.new_key("admin"))["key"]
            key = (await service.new_key("read", boards=["b"], key=admin))["key"]
            refused = await Socket.open(service)
            rejected = await refused.next()
            assert isinstance(rejected, RejectConnection) and rejected.status_code == 401
            assert isinstance(await refused.next(), RejectData)
            await refused.close()
            async with socket_to(service, authorization=f"Bearer {key}") as opened:
                opened.send({"subscribe": {"id": "a", "board": "b"}})
                assert (await opened.message())["event"] == "state"
                opened.send({"subscribe": {"id": "b", "board": "other"}})
                assert (await opened.message())["code"] == Forbidden.code
            ticket = (await service.told("POST", "/v1/tickets", {"board": "b"}, key=key))["ticket"]
            foreign = {"origin": "https://elsewhere.example"}
            async with socket_to(service, f"?ticket={ticket}", **foreign) as opened:
                opened.send({"subscribe": {"id": "a", "board": "b"}})
                assert (await opened.message())["event"] == "state"
            hijack = await Socket.open(service, authorization=f"Bearer {key}", **foreign)
            rejected = await hijack.next()
            assert isinstance(rejected, RejectConnection) and rejected.status_code == 403
            await hijack.close()
            ended = await Socket.open(service, f"?ticket={ticket}")
            rejected = await ended.next()
            assert isinstance(rejected, RejectConnection) and rejected.status_code == 401
            await ended.close()

    run(test())


def test_a_socket_answers_pings_and_closes_as_asked() -> None:
    async def test() -> None:
        async with playing() as service, socket_to(service) as opened:
            opened._send(Ping(payload=b"there?"))
            pong = await opened.next()
            assert isinstance(pong, Pong) and pong.payload == b"there?"
            opened._send(CloseConnection(code=1000))
            closed = await opened.next()
            assert isinstance(closed, CloseConnection) and closed.code == 1000

    run(test())


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"\x81\x02{}", 1002),  # Without a mask.
        (b"\xc1\x80\0\0\0\0", 1002),  # A reserved bit.
        (b"\x82\x80\0\0\0\0", 1003),  # Binary.
        (b"\x83\x80\0\0\0\0", 1002),  # An unknown kind.
        (b"\x80\x80\0\0\0\0", 1002),  # The end of nothing.
        (b"\x09\x80\0\0\0\0", 1002),  # A ping in pieces.
        (b"\x89\xfe\0\x80\0\0\0\0", 1002),  # A long ping.
        (b"\x81\xfe\0\x01\0\0\0\0a", 1002),  # A length longer than needed.
        (b"\x81\xff" + struct.pack(">Q", 1 << 40) + b"\0\0\0\0", 1009),
        (b"\x81\x81\0\0\0\0\xff", 1007),
    ],
)
def test_a_socket_that_breaks_the_protocol_is_closed(sent: bytes, code: int) -> None:
    async def test() -> None:
        async with playing() as service, socket_to(service) as opened:
            opened.writer.write(sent)
            closed = await opened.next()
            assert isinstance(closed, CloseConnection) and closed.code == code

    run(test())


def test_streams_end_when_the_service_stops() -> None:
    async def test() -> None:
        async with playing() as service:
            opened = await Socket.open(service)
            assert isinstance(await opened.next(), AcceptConnection)
            opened.send({"subscribe": {"id": "a", "board": "b"}})
            assert (await opened.message())["event"] == "state"
            connection = await raw_stream(service, f"{BOARD}/stream", receive_bytes=1 << 16)
            await read_until(connection, "event: state")
        closed = await opened.next()
        assert isinstance(closed, CloseConnection) and closed.code == 1001
        await read_until(connection, "0\r\n\r\n")
        connection.close()
        await opened.close()

    run(test())


def test_no_stream_begins_while_the_service_stops() -> None:
    async def test() -> None:
        async with playing() as service:
            await service_hub(service).stop()
            answer = await service.ask("GET", f"{BOARD}/stream")
            assert (answer.status_code, answer.json()["code"]) == (503, "stopping")

    run(test())


def test_changes_are_typed() -> None:
    assert {StreamChange, StreamState} <= set(Event.__args__)
