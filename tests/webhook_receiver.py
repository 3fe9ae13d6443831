"""A receiver of the requests that the service makes: it answers as a test tells it to, or lies."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple


class Got(NamedTuple):
    """A request as it arrived."""

    path: str
    headers: dict[str, str]
    body: bytes


Respond = Callable[[Got], Awaitable[bytes | None] | AsyncIterator[bytes] | bytes | None]
"""Returns the bytes of a response, or pieces of it; None to end the connection without one."""


def response(status: int = 200, body: bytes = b"", *more: str) -> bytes:
    """Return the bytes of a response with further header lines."""
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}", *more, "", ""]
    return "\r\n".join(lines).encode() + body


class Receiver:
    """Where the receiver listens, and what it got."""

    def __init__(self, respond: Respond) -> None:
        self.respond = respond
        self.got: list[Got] = []
        self.url = ""
        self.port = 0
        self._serving: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        task = asyncio.ensure_future(self._answer(reader, writer))
        self._serving.add(task)
        await asyncio.wait([task])
        self._serving.discard(task)
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)

    async def stop(self) -> None:
        """Break off the requests that are not answered yet."""
        for task in self._serving:
            task.cancel()
        while self._serving:  # noqa: ASYNC110 - tasks that are about to end
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            line, *fields = head.split("\r\n")[:-2]
            pairs = (field.split(": ", 1) for field in fields)
            headers = {name.lower(): value for name, value in pairs}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            got = Got(line.split(" ")[1], headers, body)
            self.got.append(got)
            answer = self.respond(got)
            if isinstance(answer, AsyncIterator):
                async for piece in answer:
                    writer.write(piece)
                    await writer.drain()
                return
            if answer is not None and not isinstance(answer, bytes):
                answer = await answer
            writer.write(answer or b"")
            await writer.drain()
        except (OSError, EOFError):
            pass


@asynccontextmanager
async def receiving(
    respond: Respond = lambda _: response(), *, tls: ssl.SSLContext | None = None, port: int = 0
) -> AsyncIterator[Receiver]:
    """Listen on a port of this machine, any free one unless it is given."""
    receiver = Receiver(respond)
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", port, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    receiver.url = f"{'https' if tls else 'http'}://127.0.0.1:{receiver.port}/hook"
    try:
        yield receiver
    finally:
        server.close()
        await receiver.stop()
