"""The port of outgoing requests: messages that the service posts to addresses of others."""

from typing import NamedTuple, Protocol


class Message(NamedTuple):
    """A JSON text for one address, with its id, by which a receiver knows it again."""

    url: str
    id: str
    """The same at each try."""
    body: bytes
    secret: str | None
    """By which it is signed (Standard Webhooks); None to send it unsigned."""


class SendResult(NamedTuple):
    """The answer to a message; or the reason why there was none."""

    status: int | None
    """None without a complete answer."""
    body: bytes = b""
    problem: str | None = None
    """Why there was none, in a sentence without its full stop."""


class MessageSender(Protocol):
    """Posts messages.

    1. It does not raise: each failure is a result with a ``problem``.
    2. Unless it was made to, it connects to no private, loopback or link-local address, also not
       for a name that resolves to one; and http is for such addresses alone.
    3. It follows no redirects.
    4. Within ``seconds_max`` there is a result, and its body has a bound.
    """

    def problem(self, url: str) -> str | None:
        """Return why an address will always be refused; None if that depends on its name."""

    async def send(self, message: Message, *, time: int, seconds_max: float) -> SendResult:
        """Post a message; ``time`` is its timestamp in seconds since 1970."""
