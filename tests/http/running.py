"""A server on a real socket, in the loop of the test, and a client that speaks bytes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any, NamedTuple, TypeVar

from tests.http.toys import ROUTES, Service

from rankd.api.server import new_event_loop, serve
from rankd.settings import Settings

T = TypeVar("T")

PATIENCE_SECONDS = 100
"""Nothing waits this long unless it would wait for ever: a hang becomes a failure."""


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run on the loop the service runs on."""

    async def within_reason() -> T:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await coroutine

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(within_reason())


class Running(NamedTuple):
    """A server that takes connections."""

    host: str
    port: int
    service: Service
    stop: asyncio.Event
    serving: "asyncio.Task[None]"

    async def connect(self) -> "Client":
        return Client(*await asyncio.open_connection(self.host, self.port))

    async def ask(self, sent: bytes) -> bytes:
        """Send, close for writing, and return everything until the server closes."""
        async with await self.connect() as client:
            client.send(sent)
            client.end()
            return await client.rest()


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def end(self) -> None:
        with contextlib.suppress(OSError, RuntimeError):  # The other end may have closed it.
            self.writer.write_eof()

    async def answer(self) -> bytes:
        """Return one answer that has a length."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(head.partition(b"\r\ncontent-length: ")[2].partition(b"\r\n")[0])
        return head + await self.reader.readexactly(length)

    async def rest(self) -> bytes:
        """Return everything until the server closes, in whatever way it does."""
        received = b""
        with contextlib.suppress(OSError):
            while part := await self.reader.read(1 << 16):
                received += part
        return received


@contextlib.asynccontextmanager
async def running(**settings: Any) -> AsyncIterator[Running]:
    """Serve on a free port until the block ends; stop whatever happens in it."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[tuple[str, int]] = loop.create_future()
    service, stop = Service(), asyncio.Event()

    def tell(host: str, port: int) -> None:
        ready.set_result((host, port))

    serving = asyncio.create_task(
        serve(ROUTES, service, Settings(port=0, **settings), ready=tell, stop=stop)
    )

    def failed(task: "asyncio.Task[None]") -> None:
        if not ready.done():
            ready.set_exception(task.exception() or RuntimeError("never ready"))

    serving.add_done_callback(failed)
    try:
        yield Running(*await ready, service, stop, serving)
    finally:
        stop.set()
        await serving
