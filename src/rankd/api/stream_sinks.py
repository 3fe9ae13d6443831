"""Connections that take the events of one subscription as server-sent text.

``ChunkedSink`` writes to the transport of a connection of the fast lane: no task and no queue for a
subscriber. ``AsgiSink`` serves requests that came through uvicorn's parser.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from starlette.types import Receive, Send

from rankd.api.stream_events import KEEP_ALIVE, LAST_CHUNK, StreamEvent, chunk
from rankd.errors import RankdError

if TYPE_CHECKING:
    from rankd.api.connection import BoundedConnection
    from rankd.api.streams import Subscription

RESUMED = b": resumed\n\n"
"""A comment: the client has everything."""

_CONFIRMED = chunk(RESUMED)

SLOT_EVENTS_MAX = 8
"""Events of one delivery that wait for a task to send them."""


class ChunkedSink:
    """A connection of the fast lane that has become a stream."""

    __slots__ = ("_connection", "_is_paused", "_is_stopped", "_subscription")

    def __init__(self, connection: "BoundedConnection", subscription: "Subscription") -> None:
        self._connection = connection
        self._subscription = subscription
        self._is_paused = self._is_stopped = False

    @property
    def ready(self) -> bool:
        """Whether the client reads its events."""
        return not (self._is_paused or self._is_stopped)

    def send(self, subscription: "Subscription", event: StreamEvent) -> None:
        """Write an event."""
        del subscription
        self._connection.transport.write(event.chunk)

    def confirm(self, subscription: "Subscription") -> None:
        """Tell that nothing has changed."""
        del subscription
        self._connection.transport.write(_CONFIRMED)

    def end(self, subscription: "Subscription", error: RankdError) -> None:
        """End the stream. The client meets the error when it connects again."""
        del subscription, error
        self.stop()

    def keep_alive(self) -> None:
        """Write a comment."""
        self._connection.transport.write(KEEP_ALIVE)

    def stop(self) -> None:
        """End the response, and close the connection."""
        if not self._is_stopped:
            self._is_stopped = True
            self._connection.transport.write(LAST_CHUNK)
            self._connection.close()

    def pause(self) -> None:
        """Send no more: too much is unread."""
        self._is_paused = True

    def resume(self) -> None:
        """Send the missing events, now that the client reads again."""
        self._is_paused = False
        self._subscription.resume()

    def lose(self) -> None:
        """Forget the subscription: the connection is gone."""
        hub = self._subscription.hub
        hub.dropped += self._is_paused
        hub.remove_sink(self)
        self._subscription.cancel()


class AsgiSink:
    """A response of an ASGI server."""

    def __init__(self, subscription: "Subscription", send: Send) -> None:
        self._subscription = subscription
        self._send = send
        self._waiting: list[bytes] = []
        self._woken = asyncio.Event()
        self._ended = False

    @property
    def ready(self) -> bool:
        """Whether the last events were sent."""
        return not self._ended and not self._waiting

    def send(self, subscription: "Subscription", event: StreamEvent) -> None:
        """Have an event sent by the task of the response."""
        del subscription
        self._put(event.text)

    def confirm(self, subscription: "Subscription") -> None:
        """Tell that nothing has changed."""
        del subscription
        self._put(RESUMED)

    def keep_alive(self) -> None:
        """Have a comment sent."""
        self._put(b":\n")

    def _put(self, data: bytes) -> None:
        if len(self._waiting) < SLOT_EVENTS_MAX:
            self._waiting.append(data)
            self._woken.set()

    def end(self, subscription: "Subscription", error: RankdError) -> None:
        """End the stream."""
        del subscription, error
        self.stop()

    def stop(self) -> None:
        """End the response."""
        self._ended = True
        self._woken.set()

    async def run(self, receive: Receive) -> None:
        """Send events until the stream ends, or the client is gone."""
        gone = asyncio.ensure_future(_disconnected(receive, self.stop))
        self._subscription.attach(self)
        try:
            while not self._ended:
                await self._woken.wait()
                self._woken.clear()
                for data in self._waiting:
                    await self._send(
                        {"type": "http.response.body", "body": data, "more_body": True}
                    )
                self._waiting.clear()
                self._subscription.resume()
        finally:
            gone.cancel()
            self._subscription.hub.remove_sink(self)
            self._subscription.cancel()
        await self._send({"type": "http.response.body", "body": b""})


async def _disconnected(receive: Receive, then: Callable[[], None]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    then()
