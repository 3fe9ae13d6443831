"""Who may do what: keys of programs, tokens of players, and nobody at all while trying it out.

A key is shown as ``Authorization: Bearer``. It is looked up by its SHA-256, so the place in memory
where it is found tells nothing of the key. With no key created, and only on a loopback address,
everybody may do everything: the first key that is created ends that at once.
"""

import hmac
from collections.abc import Callable
from hashlib import sha256

import msgspec

from rankd.api.exchange import Request
from rankd.api.routes import Scope
from rankd.core.book import Book
from rankd.errors import Forbidden, Unauthenticated

AUTHORIZATION_BYTES_MAX = 4096
"""A token of a few claims with the largest signature in use; more is not looked at."""

_BEARER = b"bearer "


class Actor(msgspec.Struct, frozen=True, gc=False):
    """Who asks."""

    name: str | None
    """What facts say of who wrote them; None while the service is open."""
    player: str | None = None
    """The player whose token it is; it may act for nobody else."""


ANYBODY = Actor(None)

ReadToken = Callable[[bytes], Actor]
"""Returns the player whose token it is. Raises Unauthenticated."""


class Gate:
    """Lets requests in, or not."""

    def __init__(
        self, book: Callable[[], Book], *, loopback: bool, token: ReadToken | None = None
    ) -> None:
        self._book = book
        self._loopback = loopback
        self._token = token

    @property
    def open(self) -> bool:
        """Whether anybody may do anything: no key yet, and nobody else can reach the address."""
        return self._loopback and not self._book().keys

    def admit(self, request: Request, scope: Scope, board: str | None = None) -> Actor:
        """Return who asks. Raises Unauthenticated and Forbidden."""
        book = self._book()
        shown = request.headers.get(b"authorization")
        if shown is None:
            if self._loopback and not book.keys:
                return ANYBODY
            raise Unauthenticated
        secret = _bearer(shown)
        if self._token is not None and secret.count(b".") == 2:
            return self._admit_player(self._token(secret), scope)
        digest = sha256(secret).digest()
        key = book.keys.get(digest)
        if key is None or not hmac.compare_digest(key.digest, digest):
            raise Unauthenticated("the key is unknown or was revoked")
        if scope not in key.scopes and "admin" not in key.scopes:
            raise Forbidden(f"the key does not have the scope {scope}")
        if key.boards is not None and (board is None or board not in key.boards):
            raise Forbidden("the key is not for this board")
        return Actor(key.id)

    def _admit_player(self, actor: Actor, scope: Scope) -> Actor:
        if scope not in ("read", "submit"):
            raise Forbidden(f"a player's token does not have the scope {scope}")
        return actor


def _bearer(shown: bytes) -> bytes:
    if len(shown) > AUTHORIZATION_BYTES_MAX or shown[:7].lower() != _BEARER:
        raise Unauthenticated
    return shown[7:].strip()
