"""Who may do what: keys of programs, tokens of players, and nobody at all while trying it out.

A key is shown as ``Authorization: Bearer``. It is looked up by its SHA-256, so the place in memory
where it is found tells nothing of the key, and what the book says at that moment counts: a key
opens from the request after its creation and no more from the one after its revocation, nor from
the time on at which it expires.

A key that is limited to boards opens what belongs to one of them, and nothing that is about
players, about all boards or about the service.

A player's token reads what a ``read`` key may, and submits for that player alone, to boards that
take scores from clients. It creates nothing.

With no key created, and only on a loopback address, everybody may do everything: the first key
that is created ends that at once. Being reached over loopback proves little if something forwards
to it, so a request that says it was forwarded, or that was sent to another name, is not let in.
"""

import hmac
import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import sha256
from time import time
from typing import NamedTuple

import msgspec

from rankd.api.exchange import Request
from rankd.api.limits import Limits, players_of
from rankd.api.routes import Scope
from rankd.core.book import Book
from rankd.errors import Forbidden, RankdError, Unauthenticated
from rankd.model.board import Writes
from rankd.model.facts import KeyCreated, expiry_of
from rankd.model.window import Instant

AUTHORIZATION_BYTES_MAX = 4096 + len(b"bearer ")
"""A token of the largest size that is read; more is not looked at."""

LOOPBACK_NAMES = frozenset((b"localhost", b"127.0.0.1", b"[::1]"))
"""What a browser on this machine calls it. A page elsewhere can give it another name, no other."""

_BEARER = b"bearer "


class Actor(msgspec.Struct, frozen=True, gc=False):
    """Who asks."""

    name: str | None
    """What facts say of who wrote them; None while the service is open."""
    player: str | None = None
    """The player whose token it is; it may act for nobody else."""
    limited: bool = False
    """Whether it is a key for some boards only."""
    until: float = math.inf
    """When its token expires, by the clock of the system, in seconds."""

    @property
    def may_create(self) -> bool:
        """Whether a first score may bring its board into being: not for players, nor one board."""
        return self.player is None and not self.limited

    @property
    def may_profile(self) -> bool:
        """Whether it may say what a player is, which every board with segments goes by."""
        return self.player is None and not self.limited


ANYBODY = Actor(None)


class Admission(NamedTuple):
    """The right to ask something again, for as long as boards and keys stay as they are."""

    actor: Actor
    until: float
    """By the clock of the system, in seconds."""
    key: str | None = None
    """The id of the key, which rate limits count."""


ReadToken = Callable[[bytes], Actor]
"""Returns the player whose token it is. Raises Unauthenticated."""

VERIFIED_TOKENS_MAX = 10_000
"""Tokens remembered as verified; all are forgotten when there are more."""

VERIFIED_BYTES_MAX = 1024
"""A longer token is verified each time, so that the memory has a bound."""

VERIFIED_SECONDS_MAX = 60.0
"""A token is verified again after this time: its key may have been withdrawn."""


KEY_SECONDS_MAX = 60.0
"""A key that is shown again and again is looked at after this time, and its last use noted."""


class Gate:
    """Lets requests in, or not."""

    def __init__(
        self,
        book: Callable[[], Book],
        *,
        loopback: bool,
        token: ReadToken | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._book = book
        self._loopback = loopback
        self._token = token
        self._limits = limits
        self._verified: dict[bytes, Admission] = {}
        self._used: dict[str, Instant] = {}

    @property
    def counts(self) -> bool:
        """Whether requests are counted against rate limits."""
        return self._limits is not None

    @property
    def open(self) -> bool:
        """Whether anybody may do anything: no key yet, and nobody else can reach the address."""
        return self._loopback and not self._book().locked

    def check_known(self, request: Request) -> None:
        """Raise Unauthenticated for a stranger, where the body has to be read to know the board.

        What is shown is looked at again, and counted, by ``admit``.
        """
        shown = request.headers.get(b"authorization")
        if shown is None:
            if not self.open:
                raise Unauthenticated
        elif self._token is None or shown.count(b".") != 2:
            self._find(_bearer(shown))

    def admits_plainly(self, request: Request) -> bool:
        """Whether admission depends on a key alone: nothing is counted, and no token is shown."""
        shown = request.headers.get(b"authorization", b"")
        return self._limits is None and (self._token is None or shown.count(b".") != 2)

    def admit(self, request: Request, scope: Scope, board: str | None = None) -> Actor:
        """Return who asks. Raises Unauthenticated, Forbidden and RateLimited.

        ``board`` is the board it is about; a request about several is admitted once for each, and
        counts once for each. The scores that a player's token submits count in ``count_scores``.
        """
        limits = None if request.counted else self._limits
        if limits is not None:
            limits.take_address(request.client, request.headers.get(b"x-forwarded-for"))
        found = self._identify(request)
        if limits is not None and isinstance(found, KeyCreated):
            limits.take_key(found.id)
        if limits is not None and isinstance(found, Admission) and scope != "submit":
            limits.take_player(found.actor.player or "")
        actor = self._authorize(found, scope, board)
        if limits is not None and scope == "submit" and actor.player is None:
            limits.take_players(players_of(request.body, board))
        return actor

    def admission(
        self, request: Request, scope: Scope, board: str | None = None
    ) -> Admission | None:
        """Return the right to ask the same again, without counting; None if there is none."""
        try:
            found = self._identify(request)
            actor = self._authorize(found, scope, board)
        except RankdError:
            return None  # The key may have been revoked while the first request was answered.
        if isinstance(found, Admission):
            return found
        if found is None:
            return Admission(actor, math.inf)
        return Admission(actor, min(_end_of(found), time() + KEY_SECONDS_MAX), found.id)

    @property
    def used(self) -> Mapping[str, Instant]:
        """When keys were last shown to this process, or to one that told it, by their ids."""
        ids = {key.id for key in self._book().keys.values()}
        self._used = {id: at for id, at in self._used.items() if id in ids}
        return self._used

    def note_uses(self, used: Mapping[str, Instant]) -> None:
        """Take over when keys were shown to another process."""
        for id, at in used.items():
            self._used[id] = max(at, self._used.get(id, at))

    def count_again(
        self, admission: Admission, client: str, forwarded_for: bytes | None, player: str | None
    ) -> None:
        """Count a request of an admission, as ``admit`` does. Raises RateLimited.

        ``player`` is the one a score is submitted for; None if the request reads.
        """
        limits = self._limits
        if limits is None:
            return
        limits.take_address(client, forwarded_for)
        if admission.key is not None:
            limits.take_key(admission.key)
        if player is not None:
            limits.take_players([player])
        elif admission.actor.player is not None:
            limits.take_player(admission.actor.player)

    def _identify(self, request: Request) -> KeyCreated | Admission | None:
        """Return the key or the token that is shown; None while anybody may ask."""
        book = self._book()
        shown = request.headers.get(b"authorization")
        if shown is None:
            if book.locked or not self._loopback:
                raise Unauthenticated
            _check_local(request)
            return None
        secret = _bearer(shown)
        if self._token is not None and secret.count(b".") == 2:
            return self._verify(self._token, secret)
        return self._find(secret)

    def _find(self, secret: bytes) -> KeyCreated:
        digest, now = sha256(secret).digest(), time()
        key = self._book().keys.get(digest)
        if key is None or not hmac.compare_digest(key.digest, digest):
            raise Unauthenticated("the key is unknown or was revoked")
        if now >= _end_of(key):
            raise Unauthenticated("the key has expired")
        self._used[key.id] = int(now * 1_000_000)
        return key

    def _verify(self, read: ReadToken, token: bytes) -> Admission:
        """Return the admission of a token, which is not verified again for a while."""
        now = time()
        known = self._verified.get(token)
        if known is not None and now < known.until:
            return known
        actor = read(token)
        found = Admission(actor, min(actor.until, now + VERIFIED_SECONDS_MAX))
        if len(token) <= VERIFIED_BYTES_MAX:
            if len(self._verified) >= VERIFIED_TOKENS_MAX:
                self._verified.clear()
            self._verified[token] = found
        return found

    def _authorize(
        self, found: KeyCreated | Admission | None, scope: Scope, board: str | None
    ) -> Actor:
        """Return the actor, if it may do this on this board. Raises Forbidden."""
        if found is None:
            return ANYBODY
        if isinstance(found, Admission):
            return self._authorize_player(found.actor, scope, board)
        return _authorize_key(found, scope, board)

    def count_scores(self, actor: Actor, scores: int = 1) -> None:
        """Count each score that a player's token submits. Raises RateLimited and InvalidRequest."""
        if self._limits is not None and actor.player is not None:
            self._limits.take_player(actor.player, scores)

    def _authorize_player(self, actor: Actor, scope: Scope, board: str | None) -> Actor:
        if scope == "read":
            return actor
        if scope != "submit" or board is None:
            raise Forbidden("a player's token reads, and submits scores; nothing else")
        page = self._book().boards.get(board)
        if page is not None and page.board.writes is not Writes.CLIENT:
            raise Forbidden("this board takes scores from servers only")
        return actor


def _authorize_key(key: KeyCreated, scope: Scope, board: str | None) -> Actor:
    if scope not in key.scopes and "admin" not in key.scopes:
        raise Forbidden(f"the key does not have the scope {scope}")
    if key.boards is None:
        return Actor(key.id)
    if board is None or board not in key.boards:
        raise Forbidden("the key is not for this board")
    return Actor(key.id, limited=True)


def _end_of(key: KeyCreated) -> float:
    """Return when a key expires, by the clock of the system, in seconds."""
    expires = expiry_of(key)
    return math.inf if expires is None else expires / 1_000_000


def _bearer(shown: bytes) -> bytes:
    if len(shown) > AUTHORIZATION_BYTES_MAX or shown[:7].lower() != _BEARER:
        raise Unauthenticated
    return shown[7:].strip()


def _check_local(request: Request) -> None:
    """Raise Unauthenticated unless nothing says that the request comes from elsewhere."""
    headers = request.headers
    if b"x-forwarded-for" in headers or b"forwarded" in headers:
        raise Unauthenticated("create a key first: requests are forwarded here from elsewhere")
    host = headers.get(b"host")
    # Whoever speaks HTTP/1.0 without a Host is no browser, and only browsers can be led here.
    if host is not None and _name_of(host) not in LOOPBACK_NAMES:
        raise Unauthenticated("create a key first, or ask for localhost: this is another name")


@lru_cache(maxsize=1024)
def _name_of(host: bytes) -> bytes:
    name, colon, port = host.rpartition(b":")
    return (name if colon and port.isdigit() else host).lower()
