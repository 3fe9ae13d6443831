"""Tickets: a credential in a URL, for browsers, which cannot send headers with a stream.

A ticket is good for one connection, within seconds, with the rights of the client that asked for
it. It is signed with the key of runs, which all nodes have, so any of them takes it; and each node
takes it once. A key that is revoked meanwhile, or a token that expires, ends its streams too.
"""

import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from hashlib import sha256
from time import time

import msgspec

from rankd.api.auth import Permit
from rankd.core.state import State
from rankd.errors import TooManyStreams, Unauthenticated
from rankd.model.facts import SigningKeyCreated

TICKET_LENGTH_MAX = 1024
"""Longer ones are not read. An id of a player has at most 256 bytes."""

TICKETS_MAX = 100_000
"""Used tickets that one node remembers until they expire; no more are taken while it is full."""

NONCE_BYTES = 16

_DOMAIN = b"rankd.ticket.1"


class Ticket(msgspec.Struct, array_like=True, frozen=True):
    """The content of a ticket."""

    nonce: bytes
    expires: float
    key: str | None
    """The id of the key that asked for it."""
    player: str | None
    """The player of the token that asked for it."""
    until: float
    """When that token expires."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Ticket).decode


def new_ticket(permit: Permit, *, expires: float) -> Ticket:
    """Return a ticket with the rights of a permit; ``expires`` in seconds since 1970."""
    player = permit.actor.player
    nonce, until = secrets.token_bytes(NONCE_BYTES), permit.actor.until
    return Ticket(nonce, expires, permit.key, player, 0.0 if player is None else until)


def sealed(ticket: Ticket, key: SigningKeyCreated) -> str:
    """Return the text of a ticket."""
    content = urlsafe_b64encode(_encode(ticket)).rstrip(b"=").decode()
    return f"{key.id}.{content}.{_mac(content, key.material)}"


def opened(text: str, state: State) -> Ticket:
    """Return the ticket of a text that is signed and has not expired. Raises Unauthenticated."""
    id, _, rest = text.partition(".")
    content, _, mac = rest.partition(".")
    key = state.signing_keys.get(id)
    if len(text) > TICKET_LENGTH_MAX or key is None or key.algorithm != "run":
        raise Unauthenticated(UNKNOWN)
    if not hmac.compare_digest(_mac(content, key.material).encode(), mac.encode()):
        raise Unauthenticated(UNKNOWN)
    try:
        ticket = _decode(urlsafe_b64decode(content + "=" * (-len(content) % 4)))
    except (Error, ValueError, msgspec.MsgspecError):
        raise Unauthenticated(UNKNOWN) from None
    if time() >= ticket.expires:
        raise Unauthenticated("the ticket has expired")
    return ticket


UNKNOWN = "the ticket is unknown"


def _mac(content: str, secret: bytes) -> str:
    made = hmac.new(secret, _DOMAIN + content.encode(), sha256).digest()
    return urlsafe_b64encode(made).rstrip(b"=").decode()


class UsedTickets:
    """The tickets that a node has taken, until they expire."""

    def __init__(self, tickets_max: int = TICKETS_MAX) -> None:
        self._expiry: dict[bytes, float] = {}
        self._tickets_max = tickets_max

    def use(self, nonce: bytes, expires: float) -> bool:
        """Take a ticket; False if it was taken before. Raises TooManyStreams."""
        now = time()
        for known, until in list(self._expiry.items()):
            if until > now:
                break
            del self._expiry[known]
        if nonce in self._expiry:
            return False
        if len(self._expiry) >= self._tickets_max:
            raise TooManyStreams(streams_max=self._tickets_max)
        self._expiry[nonce] = expires
        return True
