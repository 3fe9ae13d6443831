"""A connection without a network: bytes are delivered in exactly the pieces a test chose.

Over a real socket the system decides how bytes are cut. Here a protocol of ours is given a
transport that hands over each piece as one read, keeps what is written, and behaves as a socket
does when either side closes.
"""

import asyncio
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from tests.http.corpus import LIMITS, PATIENT
from tests.http.toys import ROUTES, Service
from uvicorn.server import ServerState

from rankd.api.app import App
from rankd.api.connection import BoundedConnection
from rankd.api.routing import Router
from rankd.api.server import protocol_config
from rankd.settings import Settings

T = TypeVar("T")

DATE = (b"date", b"Mon, 16 Nov 2026 00:00:00 GMT")
_VARIES = re.compile(
    rb'(date: [^\r]+|"request_id":"[0-9a-f]{16}"|"id":"[0-9a-f]{12}"'
    rb'|"(secret|run|seed|chain)":"[0-9A-Za-z.+/=_-]+")'
)


class Wire(asyncio.Transport):
    """The transport: what was written is in ``sent``; ``lost`` is set when all is over."""

    def __init__(self, protocol: BoundedConnection) -> None:
        super().__init__()
        self.protocol = protocol
        self.sent = bytearray()
        self.lost = asyncio.Event()
        self.readable = asyncio.Event()
        self.readable.set()
        self.ended = False
        self._closing = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("127.0.0.1", 5), "sockname": ("127.0.0.1", 80)}.get(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.ended, "written after the end"
        if not self._closing:
            self.sent += data

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended = True

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            asyncio.get_running_loop().call_soon(self._lose)

    abort = close

    def _lose(self) -> None:
        self.protocol.connection_lost(None)
        self.lost.set()
        self.readable.set()

    def pause_reading(self) -> None:
        self.readable.clear()

    def resume_reading(self) -> None:
        self.readable.set()


class Side:
    """One lane of a server that has no socket."""

    def __init__(self, *, fast: bool, **settings: Any) -> None:
        self.service = Service()
        given = {"cors_origins": ("https://game.example",), **LIMITS, **PATIENT, **settings}
        self.settings = Settings(fast_lane=fast, **given)
        app = App(Router(ROUTES), self.service, self.settings)
        self._config = protocol_config(app)
        self._config.load()
        self.state = ServerState()
        self.state.default_headers = [DATE]

    def connect(self) -> Wire:
        make: Any = self._config.http_protocol_class
        protocol = make(config=self._config, server_state=self.state, app_state={})
        wire = Wire(protocol)
        protocol.connection_made(wire)
        return wire

    async def talk(self, pieces: Iterable[bytes]) -> bytes:
        """Send the pieces, then end, and return all that was answered."""
        wire = self.connect()
        for piece in pieces:
            await wire.readable.wait()
            if wire.lost.is_set():
                break
            if not wire.is_closing():
                await from_the_loop(wire.protocol.data_received, piece)
        await wire.readable.wait()
        if not wire.is_closing() and not await from_the_loop(wire.protocol.eof_received):
            wire.close()
        await wire.lost.wait()
        return bytes(wire.sent)


async def from_the_loop(call: Callable[..., T], *given: Any) -> T:
    """Call as the loop calls a protocol: outside of any task."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def calling() -> None:
        try:
            done.set_result(call(*given))
        except BaseException as exc:
            done.set_exception(exc)

    loop.call_soon(calling)
    return await done


def without_what_varies(answer: bytes) -> bytes:
    return _VARIES.sub(lambda found: b"-" * len(found[0]), answer)


def statuses(answers: bytes, *, heads: bool) -> tuple[int, ...]:
    """Return the statuses of answers that follow one another, each read by its length."""
    found, at = [], 0
    while at < len(answers):
        end = answers.find(b"\r\n\r\n", at)
        assert end > 0, "an answer was cut"
        head = answers[at:end]
        found.append(int(head.split(b" ")[1]))
        length = re.search(rb"\r\ncontent-length: (\d+)", head)
        at = end + 4 + (int(length[1]) if length is not None and not heads else 0)
    assert at == len(answers), "a body was cut"
    return tuple(found)
