"""Keys: handlers that create, list and revoke them, and the record of their last uses.

The Authenticator notes uses in memory; a fact for each would cost as much as a score. Once a
minute, if a key has a use that is unrecorded, or ``key_use_seconds`` later than the recorded one,
one fact records the uses of all keys since. With steady use that is a fact an hour, however many
requests, processes and nodes there are. Workers report their uses to the writer.
"""

import asyncio
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, time
from hashlib import sha256
from typing import Any

import msgspec

from rankd import schemas
from rankd.api.auth import Actor, Authenticator
from rankd.api.context import ServiceContext, show_time
from rankd.api.messages import Request, Response, decode_body
from rankd.api.routing import Route
from rankd.core.engine import Engine
from rankd.errors import FieldError, InvalidRequest, RankdError, UnknownKey
from rankd.model.board import BOARD_NAME_LENGTH_MAX, NAME, UNPRINTABLE
from rankd.model.facts import (
    ExpiringKeyCreated,
    KeyCreated,
    Position,
    SigningAlgorithm,
    SigningKeyCreated,
)
from rankd.model.submission import read_instant
from rankd.model.window import Instant, parse_duration
from rankd.signatures import (
    new_hmac_secret,
    new_webhook_secret,
    public_key_text,
    read_public_key,
)

SCOPES = ("read", "submit", "moderate", "admin")
"""The scopes of keys; ``admin`` includes the others."""

KEY_BYTES = 32
"""256 random bits: a key cannot be guessed."""

KEYS_MAX = 10_000
"""More than any game has servers."""

KEY_BOARDS_MAX = 100
TITLE_LENGTH_MAX = 100

EXPIRES_LENGTH_MAX = 40
"""An RFC 3339 time with a fraction and an offset is shorter."""

KEY_PREFIX = "rk_"
"""Makes a leaked key recognizable, to people and to secret scanners."""


_NEW_SECRETS: Mapping[str, Callable[[], str | None]] = {
    "hmac": new_hmac_secret,
    "webhook": new_webhook_secret,
}
_ALGORITHMS: Mapping[str, SigningAlgorithm] = {
    "hmac": "hmac",
    "ed25519": "ed25519",
    "webhook": "webhook",
}
"""The kinds of signing keys that can be created."""


class NewKey(msgspec.Struct, forbid_unknown_fields=True):
    """The scopes, boards and expiry of a new key; or the algorithm of one that signs."""

    scopes: list[str] = []
    boards: list[str] | None = None
    title: str | None = None
    expires: str | None = None
    """A duration from now, a date or a time."""
    signing: str | None = None
    """hmac or ed25519: the key signs submissions, and opens nothing. webhook: the service signs
    its requests to a verifier with it."""
    public_key: str | None = None
    """Of ed25519: the 32 bytes of the public key, as base64url."""


class Key(msgspec.Struct, omit_defaults=True):
    """A key as listed."""

    id: str
    scopes: list[str]
    boards: list[str] | None
    title: str | None
    created: str | None
    """Null for a key created before this was recorded, until the index is rebuilt."""
    last_used: str | None
    """May be an hour behind; null if it was not used yet."""
    expires: str | None
    """From this time on it is refused; null if it does not expire."""
    key: str | None = None
    """The key itself: returned once, on creation, and stored nowhere."""
    position: int | None = None
    """The position of its creation; returned with the key."""
    signing: str | None = None
    """hmac or ed25519 for a key that signs submissions; run for one that signs runs; webhook for
    one that signs requests of the service."""
    public_key: str | None = None
    """The public key of ed25519, as base64url."""


class Keys(msgspec.Struct):
    """All keys."""

    keys: list[Key]


def make_key(asked: NewKey, *, actor: str | None, now: Instant) -> tuple[KeyCreated, str]:
    """Return the fact that creates a key, and the key. Raises InvalidRequest."""
    _check(asked)
    expires = None if asked.expires is None else _read_expiry(asked.expires, now)
    secret = KEY_PREFIX + secrets.token_urlsafe(KEY_BYTES)
    fields = (
        secrets.token_hex(6),
        sha256(secret.encode()).digest(),
        tuple(scope for scope in SCOPES if scope in asked.scopes),
        None if asked.boards is None else tuple(dict.fromkeys(asked.boards)),
        asked.title,
        actor,
    )
    if expires is None:
        return KeyCreated(*fields), secret
    return ExpiringKeyCreated(*fields, expires), secret


def make_signing_key(
    asked: NewKey, *, actor: str | None, now: Instant
) -> tuple[SigningKeyCreated, str | None]:
    """Return the fact that creates a signing key, and its secret if it was made here.

    Raises InvalidRequest.
    """
    _check(asked)
    expires = None if asked.expires is None else _read_expiry(asked.expires, now)
    boards = None if asked.boards is None else tuple(dict.fromkeys(asked.boards))
    algorithm: SigningAlgorithm = _ALGORITHMS[asked.signing or ""]
    secret = _NEW_SECRETS.get(algorithm, lambda: None)()
    material = read_public_key(asked.public_key or "") if secret is None else secret.encode()
    id = secrets.token_hex(6)
    fact = SigningKeyCreated(id, algorithm, material, boards, asked.title, actor, expires)
    return fact, secret


def _signing_errors(asked: NewKey) -> Iterator[FieldError]:
    if asked.signing not in _ALGORITHMS:
        yield FieldError("signing", f"must be {' or '.join(_ALGORITHMS)}")
    if asked.scopes:
        yield FieldError("scopes", "must be absent: a key that signs opens nothing")
    if asked.signing == "ed25519":
        try:
            read_public_key(asked.public_key or "")
        except ValueError:
            yield FieldError("public_key", "must be the 32 bytes of a public key, as base64url")
    elif asked.public_key is not None:
        yield FieldError("public_key", "is for ed25519")


def _check(asked: NewKey) -> None:
    errors: list[FieldError] = []
    if asked.signing is not None:
        errors += _signing_errors(asked)
    elif asked.public_key is not None:
        errors.append(FieldError("public_key", "is for signing: ed25519"))
    elif not asked.scopes or not set(asked.scopes) <= set(SCOPES):
        errors.append(FieldError("scopes", f"must be some of {', '.join(SCOPES)}"))
    if asked.boards is not None and not _are_boards(asked.boards):
        message = f"must be 1 to {KEY_BOARDS_MAX} names of boards, or absent"
        errors.append(FieldError("boards", message))
    if asked.title is not None and not _is_title(asked.title):
        message = f"must be printable text of 1 to {TITLE_LENGTH_MAX} characters"
        errors.append(FieldError("title", message))
    if errors:
        raise InvalidRequest(errors)


def _read_expiry(text: str, now: Instant) -> Instant:
    try:
        expires = _instant(text[:EXPIRES_LENGTH_MAX], now)
    except (ValueError, OverflowError):
        message = "must be a duration such as 90d, a date, or a time such as 2027-01-01T00:00:00Z"
        raise InvalidRequest([FieldError("expires", message)]) from None
    if expires <= now:
        raise InvalidRequest([FieldError("expires", "must be in the future")])
    return expires


def _instant(text: str, now: Instant) -> Instant:
    if "T" in text.upper():
        return read_instant(text)
    if "-" in text:
        midnight = datetime.combine(date.fromisoformat(text), time(), UTC)
        return int(midnight.timestamp()) * 1_000_000
    return now + int(parse_duration(text).total_seconds()) * 1_000_000


def _are_boards(names: list[str]) -> bool:
    """Whether these are valid board names. The boards need not exist yet."""
    return 0 < len(names) <= KEY_BOARDS_MAX and all(
        len(name) <= BOARD_NAME_LENGTH_MAX and NAME.fullmatch(name) for name in names
    )


def _is_title(title: str) -> bool:
    return 0 < len(title) <= TITLE_LENGTH_MAX and not UNPRINTABLE.search(title)


def _opens_all(key: KeyCreated) -> bool:
    """Whether this key can create and revoke others, on all boards and without expiry."""
    return "admin" in key.scopes and key.boards is None and key.expiry is None


def show_signing_key(
    service: ServiceContext,
    key: SigningKeyCreated,
    secret: str | None = None,
    position: Position | None = None,
) -> Key:
    """Return a signing key as listed."""
    public = public_key_text(key.material) if key.algorithm == "ed25519" else None
    return Key(
        key.id,
        [],
        None if key.boards is None else list(key.boards),
        key.title,
        show_time(service.rankd.state.keys_created.get(key.id)),
        _last_use(service, key.id),
        show_time(key.expires),
        secret,
        position,
        key.algorithm,
        public,
    )


def _last_use(service: ServiceContext, id: str) -> str | None:
    uses = [used[id] for used in (service.rankd.state.keys_used, service.auth.used) if id in used]
    return show_time(max(uses, default=None))


def show_key(
    service: ServiceContext,
    key: KeyCreated,
    secret: str | None = None,
    position: Position | None = None,
) -> Key:
    """Return a key as listed."""
    return Key(
        key.id,
        list(key.scopes),
        None if key.boards is None else list(key.boards),
        key.title,
        show_time(service.rankd.state.keys_created.get(key.id)),
        _last_use(service, key.id),
        show_time(key.expiry),
        secret,
        position,
    )


async def create_key(service: ServiceContext, request: Request) -> Response:
    """Create a key. Only this response contains it.

    The key cannot be returned again, so the header Idempotency-Key is refused.
    """
    actor = service.auth.admit(request, "admin")
    if b"idempotency-key" in request.headers:
        message = "cannot be given: a key is shown once; revoke the unneeded one"
        raise InvalidRequest([FieldError("Idempotency-Key", message)])
    state = service.rankd.state
    if len(state.keys) + len(state.signing_keys) >= KEYS_MAX:
        raise InvalidRequest([FieldError("", f"there may be at most {KEYS_MAX} keys")])
    asked = decode_body(request, NewKey)
    if asked.signing is not None:
        return await _create_signing_key(service, asked, actor)
    fact, secret = make_key(asked, actor=actor.name, now=service.clock.now())
    if not state.keys and not _opens_all(fact):
        # It would end open mode, and no key could create the second.
        raise InvalidRequest(
            [FieldError("scopes", "of the first key must be admin, on all boards, for ever")]
        )
    position = await service.writer.create_key(fact)
    return Response(schemas.encode(show_key(service, fact, secret, position)), 201)


async def _create_signing_key(service: ServiceContext, asked: NewKey, actor: Actor) -> Response:
    key, secret = make_signing_key(asked, actor=actor.name, now=service.clock.now())
    position = await service.writer.create_key(key)
    return Response(schemas.encode(show_signing_key(service, key, secret, position)), 201)


async def list_keys(service: ServiceContext, request: Request) -> Response:
    """Return all keys, without their secrets."""
    service.auth.admit(request, "admin")
    state = service.rankd.state
    keys = sorted(state.keys.values(), key=lambda key: state.keys_created.get(key.id, 0))
    signing = sorted(state.signing_keys.values(), key=lambda key: state.keys_created.get(key.id, 0))
    known: list[Any] = [show_key(service, key) for key in keys]
    known += [show_signing_key(service, key) for key in signing]
    return Response(schemas.encode(Keys(known)))


async def revoke_key(service: ServiceContext, request: Request) -> Response:
    """Revoke a key. The last one with the scope admin that never expires cannot be revoked.

    Without it no key could create another, or, on loopback, every request would be allowed.
    """
    actor = service.auth.admit(request, "admin")
    left = [key.id for key in service.rankd.state.keys.values() if _opens_all(key)]
    if left == [request.params["key"]]:
        message = "is the last with the scope admin that never expires: make another first"
        raise InvalidRequest([FieldError("key", message)])
    position = await service.writer.revoke_key(request.params["key"], actor=actor.name)
    return Response(schemas.encode(schemas.Done(position)))


USES_SECONDS = 60.0
"""The interval at which last uses are checked."""


async def record_uses(auth: Authenticator, rankd: Engine, behind_seconds: int) -> None:
    """Record last uses until cancelled, in the writer; 0 disables it."""
    while behind_seconds:
        await asyncio.sleep(USES_SECONDS)
        used = uses_to_record(auth.used, rankd.state.keys_used, behind_seconds)
        if used:
            with suppress(RankdError):  # The next iteration retries.
                await rankd.note_key_uses(used)


async def hand_on_uses(
    auth: Authenticator, hand_on: Callable[[Mapping[str, Instant]], None]
) -> None:
    """Report last uses to the writer until cancelled, in a worker."""
    reported: Mapping[str, Instant] = {}
    while True:
        await asyncio.sleep(USES_SECONDS)
        used = dict(auth.used)
        if used != reported:
            hand_on(used)
            reported = used


def uses_to_record(
    used: Mapping[str, Instant], recorded: Mapping[str, Instant], behind_seconds: int
) -> dict[str, Instant]:
    """Return all unrecorded uses if a key's is its first or ``behind_seconds`` later; else none."""
    later = {id: at for id, at in used.items() if at > recorded.get(id, -1)}
    overdue = behind_seconds * 1_000_000
    if any(id not in recorded or at - recorded[id] >= overdue for id, at in later.items()):
        return later
    return {}


ROUTES = (
    Route(
        method="POST",
        path="/v1/keys",
        operation="create_key",
        handler=create_key,
        scope="admin",
        body=NewKey,
        writes=True,
        responses={201: Key},
    ),
    Route(
        method="GET",
        path="/v1/keys",
        operation="list_keys",
        handler=list_keys,
        scope="admin",
        responses={200: Keys},
    ),
    Route(
        method="DELETE",
        path="/v1/keys/{key}",
        operation="revoke_key",
        handler=revoke_key,
        scope="admin",
        writes=True,
        responses={200: schemas.Done},
        errors=(UnknownKey,),
    ),
)
