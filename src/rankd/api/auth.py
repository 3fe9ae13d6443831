"""Authentication and authorization: keys of programs, tokens of players, and the open mode.

A key is sent as ``Authorization: Bearer``. It is looked up by its SHA-256, so lookup timing reveals
nothing about the key. The current state decides: a key is valid from the request after its creation
until its revocation or expiry.

A key limited to boards may be used for requests about one of those boards only, not for requests
about players, about all boards or about the service.

A player's token may read like a ``read`` key, and submit scores for that player only, to boards
that take scores from players; where ``writes`` is ``signed``, with a run or a signature. It creates
no boards.

Open mode: while no key exists, and only on a loopback address, every request is allowed. The first
key ends it at once. A proxy on the same machine also connects over loopback, so open mode refuses a
request that has forwarding headers or a Host other than a loopback name.
"""

import hmac
import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import sha256
from time import time
from typing import NamedTuple

import msgspec

from rankd.api.messages import Request
from rankd.api.rate_limits import RateLimits, players_of
from rankd.api.routing import Scope
from rankd.core.board_state import BoardState
from rankd.core.state import State
from rankd.errors import Forbidden, RankdError, Unauthenticated
from rankd.model.board import Writes
from rankd.model.facts import KeyCreated
from rankd.model.window import Instant

AUTHORIZATION_BYTES_MAX = 4096 + len(b"bearer ")
"""The longest Authorization header that is read: ``Bearer`` and a token of 4096 bytes."""

LOOPBACK_NAMES = frozenset((b"localhost", b"127.0.0.1", b"[::1]"))
"""Host names accepted in open mode. DNS rebinding can point another name here, but not these."""

_BEARER = b"bearer "


class Actor(msgspec.Struct, frozen=True, gc=False):
    """The authenticated client: a key, a player's token, or open mode."""

    name: str | None
    """The actor recorded in facts; None in open mode."""
    player: str | None = None
    """The player of the token, the only one it may act for; None for a key."""
    limited: bool = False
    """Whether it is a key limited to some boards."""
    is_game: bool = False
    """Whether every player is shown to it: to a key that does more than read."""
    until: float = math.inf
    """Expiry of its token, in seconds since 1970 by the system clock."""

    @property
    def may_create(self) -> bool:
        """Whether its first score may create a board: not with a token or a limited key."""
        return self.player is None and not self.limited

    @property
    def may_profile(self) -> bool:
        """Whether it may write player profiles, which segments of all boards depend on."""
        return self.player is None and not self.limited


ANYBODY = Actor(None)

SERVERS_ONLY = "this board takes scores from servers only"


def check_writes(actor: Actor, page: BoardState | None, *, vouched: bool) -> None:
    """Raise Forbidden if a board does not take a score from this actor.

    Keys submit to every board. ``vouched`` if the submission has a run, or its request a signature
    that was checked.
    """
    if actor.player is None or page is None or page.board.writes is Writes.CLIENT:
        return
    if page.board.writes is Writes.SERVER:
        raise Forbidden(SERVERS_ONLY)
    if not vouched:
        raise Forbidden("this board takes a player's scores with a run or a signature only")


class Permit(NamedTuple):
    """An authorization that a plan may reuse until it expires or boards or keys change."""

    actor: Actor
    until: float
    """In seconds since 1970 by the system clock."""
    key: str | None = None
    """The key's id, for rate limits; None for a token and in open mode."""


ReadToken = Callable[[bytes], Actor]
"""Returns the actor of a token. Raises Unauthenticated."""

VERIFIED_TOKENS_MAX = 10_000
"""Cached verified tokens; the cache is cleared when it is full."""

VERIFIED_BYTES_MAX = 1024
"""A longer token is verified at each request, which bounds the memory of the cache."""

VERIFIED_SECONDS_MAX = 60.0
"""A token is verified again after this many seconds: its signing key may have been withdrawn."""


KEY_SECONDS_MAX = 60.0
"""A key's permit is renewed after this many seconds, which also records the key's last use."""


class Authenticator:
    """Authenticates and authorizes requests, and counts them against rate limits."""

    def __init__(
        self,
        state: Callable[[], State],
        *,
        loopback: bool,
        token: ReadToken | None = None,
        limits: RateLimits | None = None,
    ) -> None:
        self._state = state
        self._loopback = loopback
        self._token = token
        self._limits = limits
        self._verified: dict[bytes, Permit] = {}
        self._used: dict[str, Instant] = {}

    @property
    def counts(self) -> bool:
        """Whether requests are counted against rate limits."""
        return self._limits is not None

    @property
    def open(self) -> bool:
        """Whether open mode holds: no key exists and the address is loopback."""
        return self._loopback and not self._state().locked

    def check_known(self, request: Request) -> None:
        """Raise Unauthenticated before the body is decoded, where the body names the board.

        Tokens are not verified here, and nothing is counted; ``admit`` does both.
        """
        shown = request.headers.get(b"authorization")
        if shown is None:
            if not self.open:
                raise Unauthenticated
        elif self._token is None or shown.count(b".") != 2:
            self._find(_bearer(shown))

    def admits_plainly(self, request: Request) -> bool:
        """Whether only a key decides: there are no rate limits and the request has no token."""
        shown = request.headers.get(b"authorization", b"")
        return self._limits is None and (self._token is None or shown.count(b".") != 2)

    def admit(self, request: Request, scope: Scope, board: str | None = None) -> Actor:
        """Return the actor of a request. Raises Unauthenticated, Forbidden and RateLimited.

        ``board`` is the board of the request; a request about several boards is admitted, and
        counted, once for each. Scores submitted with a player's token are counted by
        ``count_scores``.
        """
        limits = None if request.counted else self._limits
        if limits is not None:
            limits.take_address(request.client, request.headers.get(b"x-forwarded-for"))
        found = self._identify(request)
        if limits is not None and found is not None:
            if not isinstance(found, Permit):
                limits.take_key(found.id)
            elif scope != "submit":
                limits.take_player(found.actor.player or "")
        actor = self._authorize(found, scope, board)
        if limits is not None and scope == "submit" and actor.player is None:
            limits.take_players(players_of(request.body, board))
        return actor

    def hold(self, request: Request, board: str | None) -> Permit:
        """Return a permit to read a board for as long as it may last, without counting.

        Without a board the client is authenticated only. Raises Unauthenticated and Forbidden.
        """
        found = self._identify(request)
        if board is not None:
            self._authorize(found, "read", board)
        return _permit_of(found)

    def hold_key(self, id: str, board: str) -> Permit:
        """Return the same for a key by its id. Raises Unauthenticated and Forbidden."""
        key = next((one for one in self._state().keys.values() if one.id == id), None)
        if key is None or time() >= _end_of(key):
            raise Unauthenticated("the key was revoked, or has expired")
        self._authorize(key, "read", board)
        return _permit_of(key)

    def hold_player(self, actor: Actor) -> Permit:
        """Return the same for the player of a token. Raises Unauthenticated."""
        if time() >= actor.until:
            raise Unauthenticated("the token has expired")
        return Permit(actor, actor.until)

    def hold_open(self) -> Permit:
        """Return the same in open mode. Raises Unauthenticated."""
        if not self.open:
            raise Unauthenticated
        return Permit(ANYBODY, math.inf)

    def admit_claim(self, request: Request, board: str) -> Actor:
        """Return the actor of a claim: a key that submits, or the token of any player.

        A token claims on boards that take scores from servers only, too.
        """
        shown = request.headers.get(b"authorization", b"")
        is_token = self._token is not None and shown.count(b".") == 2
        return self.admit(request, "read" if is_token else "submit", board)

    def admission(self, request: Request, scope: Scope, board: str | None = None) -> Permit | None:
        """Return a permit for repetitions of a request, without counting; None if refused.

        None also for a shadowed player: a plan answers all alike, and it sees a world of its own.
        """
        try:
            found = self._identify(request)
            actor = self._authorize(found, scope, board)
        except RankdError:
            return None  # The key may have been revoked while the first request was answered.
        if actor.player is not None and self._state().sees_itself(actor.player):
            return None
        if isinstance(found, Permit):
            return found
        if found is None:
            return Permit(actor, math.inf)
        return Permit(actor, min(_end_of(found), time() + KEY_SECONDS_MAX), found.id)

    @property
    def used(self) -> Mapping[str, Instant]:
        """Last use of each existing key by id, in this process and those that reported to it."""
        state = self._state()
        ids = {key.id for key in state.keys.values()} | state.signing_keys.keys()
        self._used = {id: at for id, at in self._used.items() if id in ids}
        return self._used

    def note_uses(self, used: Mapping[str, Instant]) -> None:
        """Merge the last uses that another process reported."""
        for id, at in used.items():
            self._used[id] = max(at, self._used.get(id, at))

    def count_again(
        self, admission: Permit, client: str, forwarded_for: bytes | None, player: str | None
    ) -> None:
        """Count a request made under a permit, as ``admit`` does. Raises RateLimited.

        ``player`` is the player whose score is submitted; None if the request reads.
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

    def _identify(self, request: Request) -> KeyCreated | Permit | None:
        """Return the key or the permit of the token; None in open mode. Raises Unauthenticated."""
        state = self._state()
        shown = request.headers.get(b"authorization")
        if shown is None:
            if state.locked or not self._loopback:
                raise Unauthenticated
            _check_local(request)
            return None
        secret = _bearer(shown)
        if self._token is not None and secret.count(b".") == 2:
            return self._verify(self._token, secret)
        return self._find(secret)

    def _find(self, secret: bytes) -> KeyCreated:
        digest, now = sha256(secret).digest(), time()
        key = self._state().keys.get(digest)
        if key is None or not hmac.compare_digest(key.digest, digest):
            raise Unauthenticated("the key is unknown or was revoked")
        if now >= _end_of(key):
            raise Unauthenticated("the key has expired")
        self._used[key.id] = int(now * 1_000_000)
        return key

    def _verify(self, read: ReadToken, token: bytes) -> Permit:
        """Return a token's permit, verified at most VERIFIED_SECONDS_MAX ago."""
        now = time()
        known = self._verified.get(token)
        if known is not None and now < known.until:
            return known
        actor = read(token)
        found = Permit(actor, min(actor.until, now + VERIFIED_SECONDS_MAX))
        if len(token) <= VERIFIED_BYTES_MAX:
            if len(self._verified) >= VERIFIED_TOKENS_MAX:
                self._verified.clear()
            self._verified[token] = found
        return found

    def _authorize(
        self, found: KeyCreated | Permit | None, scope: Scope, board: str | None
    ) -> Actor:
        """Return the actor if it has this scope on this board. Raises Forbidden."""
        if found is None:
            return ANYBODY
        if isinstance(found, Permit):
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
        page = self._state().boards.get(board)
        if page is not None and page.board.writes is Writes.SERVER:
            raise Forbidden(SERVERS_ONLY)
        return actor


_GAME_SCOPES: frozenset[Scope] = frozenset(("submit", "moderate", "admin"))


def _authorize_key(key: KeyCreated, scope: Scope, board: str | None) -> Actor:
    if scope not in key.scopes and "admin" not in key.scopes:
        raise Forbidden(f"the key does not have the scope {scope}")
    is_game = not _GAME_SCOPES.isdisjoint(key.scopes)
    if key.boards is None:
        return Actor(key.id, is_game=is_game)
    if board is None or board not in key.boards:
        raise Forbidden("the key is not for this board")
    return Actor(key.id, limited=True, is_game=is_game)


def _permit_of(found: KeyCreated | Permit | None) -> Permit:
    if found is None:
        return Permit(ANYBODY, math.inf)
    if isinstance(found, Permit):
        return found
    is_game = not _GAME_SCOPES.isdisjoint(found.scopes)
    actor = Actor(found.id, limited=found.boards is not None, is_game=is_game)
    return Permit(actor, _end_of(found), found.id)


def _end_of(key: KeyCreated) -> float:
    """Return a key's expiry in seconds since 1970, infinity if it has none."""
    expires = key.expiry
    return math.inf if expires is None else expires / 1_000_000


def _bearer(shown: bytes) -> bytes:
    if len(shown) > AUTHORIZATION_BYTES_MAX or shown[:7].lower() != _BEARER:
        raise Unauthenticated
    return shown[7:].strip()


def _check_local(request: Request) -> None:
    """Raise Unauthenticated if a header shows that the request comes from another machine."""
    headers = request.headers
    if b"x-forwarded-for" in headers or b"forwarded" in headers:
        raise Unauthenticated("create a key first: requests are forwarded here from elsewhere")
    host = headers.get(b"host")
    # HTTP/1.0 without a Host is no browser, and DNS rebinding works through browsers only.
    if host is not None and _name_of(host) not in LOOPBACK_NAMES:
        raise Unauthenticated("create a key first, or ask for localhost: this is another name")


@lru_cache(maxsize=1024)
def _name_of(host: bytes) -> bytes:
    name, colon, port = host.rpartition(b":")
    return (name if colon and port.isdigit() else host).lower()
