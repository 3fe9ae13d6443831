"""Players' tokens: JWTs signed by another service and verified here.

The settings fix one algorithm, one key type, one issuer and one audience, and nothing in a token
can change them. A token with another algorithm, or with its own key or key location (``jku``,
``x5u``, ``jwk``, ``x5c``), is refused before its claims are read.

The key comes from a file, or from a set of keys (JWKS) in a file or at a URL. A file is read at the
start; a URL is fetched in the background when the first token needs it, and authentication answers
503 until the keys are there, without waiting. A token with an unknown ``kid`` causes a reload, at
most once a minute however many such tokens come.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit

import jwt
import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from jwt.exceptions import InvalidSubjectError
from jwt.utils import base64url_decode

from rankd.api.auth import Actor, ReadToken
from rankd.errors import InvalidSetting, TokenKeysUnavailable, Unauthenticated
from rankd.http_client import AsyncTransport, Endpoint, HttpRequest, basic_authorization
from rankd.model.submission import valid_player
from rankd.settings import Settings

ALGORITHMS = ("HS256", "RS256", "EdDSA")
"""The supported algorithms; the settings choose one."""

TOKEN_BYTES_MAX = 4096
"""About four times the size of usual tokens."""

LEEWAY_SECONDS = 30
"""The tolerated difference between the issuer's clock and ours."""

SECRET_BYTES_MIN = 32
"""The size of the hash: a shorter secret can be found by search."""

RSA_BITS_MIN = 2048

KEY_FILE_BYTES_MAX = 16 * 1024
KEY_SET_BYTES_MAX = 64 * 1024
HEAD_BYTES_MAX = 16 * 1024
"""The limit of the response head when a JWKS is fetched."""
KEYS_MAX = 64
"""Keys of one set: an issuer has two or three, one of them about to be replaced."""

KID_LENGTH_MAX = 256

REFRESH_SECONDS_MIN = 60.0
"""The shortest interval between two reloads of a key set, whichever tokens arrive."""

FETCH_SECONDS_MAX = 5.0

REQUIRED_CLAIMS = ("exp", "iss", "aud", "sub")
TIMES = ("exp", "nbf", "iat")
"""Claims that must be numbers: seconds since 1970."""

_REFUSED_HEADERS = ("jku", "x5u", "jwk", "x5c", "crit")
_KEY_TYPES = {"RS256": "RSA", "EdDSA": "OKP"}
_LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")

log = logging.getLogger("rankd.api.jwt")

VerifyKey = bytes | RSAPublicKey | Ed25519PublicKey


class KeySource(Protocol):
    """A source of keys."""

    def find(self, kid: str | None) -> VerifyKey | None:
        """Return the key with this ``kid``; None if there is none. Raises TokenKeysUnavailable."""

    async def close(self) -> None:
        """Stop background work."""


class _Decoder(jwt.PyJWT):
    """A JWT decoder that refuses repeated claims, and times that are not numbers."""

    def _decode_payload(self, decoded: dict[str, Any]) -> dict[str, Any]:
        claims = _read_object(decoded["payload"])
        for name in TIMES:
            if type(claims.get(name, 0)) not in (int, float):
                raise jwt.DecodeError(f"{name} is no number")
        return claims


def _read_object(text: bytes) -> dict[str, Any]:
    """Return a JSON object without repeated names. Raises DecodeError."""
    try:
        found = json.loads(text, object_pairs_hook=_read_pairs)
    except (ValueError, RecursionError) as exc:
        raise jwt.DecodeError(str(exc)) from None
    if not isinstance(found, dict):
        raise jwt.DecodeError("no object")
    return found


def _read_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is there twice")
    return found


_decode_claims = _Decoder().decode


class TokenReader:
    """Verifies tokens against the settings."""

    def __init__(self, *, algorithm: str, issuer: str, audience: str, keys: KeySource) -> None:
        self._algorithm, self._issuer, self._audience = algorithm, issuer, audience
        self._keys = keys

    def read(self, token: bytes) -> Actor:
        """Return the actor of a token. Raises Unauthenticated and TokenKeysUnavailable."""
        if len(token) > TOKEN_BYTES_MAX:
            raise Unauthenticated("the token is longer than a token may be")
        key = self._keys.find(self._kid(token))
        if key is None:
            raise Unauthenticated("the token is signed with a key that is not known")
        expired = False
        try:
            claims = self._decode(token, key)
        except jwt.ExpiredSignatureError:
            expired, claims = True, self._decode(token, key, expired=True)
        player = claims["sub"]
        if not valid_player(player):
            raise Unauthenticated("the token's sub is not the id of a player")
        if expired:
            raise Unauthenticated("the token has expired")
        return Actor(f"player:{player}", player, until=claims["exp"] + LEEWAY_SECONDS)

    def _kid(self, token: bytes) -> str | None:
        """Return the ``kid`` of a token's header. Raises Unauthenticated for a refused header."""
        try:
            jwt.get_unverified_header(token)
            header = _read_object(base64url_decode(token.partition(b".")[0]))
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise Unauthenticated("the token cannot be read") from None
        if header.get("alg") != self._algorithm:
            raise Unauthenticated(f"the token is not signed with {self._algorithm}")
        if any(name in header for name in _REFUSED_HEADERS):
            raise Unauthenticated("the token's header brings its own key, or more than is known")
        kid = header.get("kid")
        if kid is not None and not (isinstance(kid, str) and len(kid) <= KID_LENGTH_MAX):
            raise Unauthenticated("the token cannot be read")
        return kid

    def _decode(self, token: bytes, key: VerifyKey, *, expired: bool = False) -> Mapping[str, Any]:
        """Return a token's verified claims; with ``expired``, without checking ``exp``.

        Raises Unauthenticated, or ExpiredSignatureError, after which other claims may be wrong as
        well.
        """
        try:
            return _decode_claims(
                token,
                key,
                algorithms=[self._algorithm],
                issuer=self._issuer,
                audience=self._audience,
                leeway=LEEWAY_SECONDS,
                options={"require": list(REQUIRED_CLAIMS), "verify_exp": not expired},
            )
        except jwt.ExpiredSignatureError:
            raise
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as exc:
            # Logged for the operator; in the response the exact reason would help a forger.
            problem = "the token is not valid here; the log of the service says why"
            raise Unauthenticated(problem, reason=f"the token {_fault(exc)}") from None


def _fault(error: Exception) -> str:
    """Return the fault of a token, without quoting any of it."""
    if isinstance(error, jwt.MissingRequiredClaimError):
        return f"has no {error.claim}"
    found = [said for kind, said in _FAULTS.items() if isinstance(error, kind)]
    return found[0] if found else "is none that can be checked"


_FAULTS: dict[type[Exception], str] = {
    jwt.InvalidIssuerError: "has another iss than jwt_issuer",
    jwt.InvalidAudienceError: "does not have jwt_audience in its aud",
    InvalidSubjectError: "has a sub that is no text",
    jwt.ImmatureSignatureError: "is not valid yet, by its nbf or iat",
    jwt.InvalidIssuedAtError: "has an iat that is no time",
    jwt.InvalidSignatureError: "is signed with another key, or was changed",
    jwt.DecodeError: "cannot be read, has a claim twice, or an exp, nbf or iat that is no time",
}
"""Checked in this order: some are subclasses of others."""


@asynccontextmanager
async def _reading(reader: TokenReader, keys: KeySource) -> Any:
    try:
        yield reader.read
    finally:
        await keys.close()


@asynccontextmanager
async def _reading_none() -> Any:
    yield None


def reading_tokens(
    settings: Settings, *, now: Callable[[], float]
) -> AbstractAsyncContextManager[ReadToken | None]:
    """Yield the configured token reader; None without one. Raises InvalidSetting."""
    given = {
        "jwt_algorithm": settings.jwt_algorithm,
        "jwt_issuer": settings.jwt_issuer,
        "jwt_audience": settings.jwt_audience,
        "jwt_key_file": settings.jwt_key_file or settings.jwt_jwks,
    }
    if not any(given.values()):
        return _reading_none()
    for name, value in given.items():
        if not value:
            more = " (or jwt_jwks)" if name == "jwt_key_file" else ""
            raise _wrong(name, f"{more} must be set too, or none of the jwt settings".strip())
    if settings.jwt_algorithm not in ALGORITHMS:
        raise _wrong("jwt_algorithm", f"takes one of {', '.join(ALGORITHMS)}")
    if settings.jwt_key_file and settings.jwt_jwks:
        raise _wrong("jwt_jwks", "cannot be combined with jwt_key_file")
    keys = _source(settings, now)
    reader = TokenReader(
        algorithm=settings.jwt_algorithm,
        issuer=settings.jwt_issuer,
        audience=settings.jwt_audience,
        keys=keys,
    )
    return _reading(reader, keys)


def _source(settings: Settings, now: Callable[[], float]) -> KeySource:
    algorithm, address = settings.jwt_algorithm, settings.jwt_jwks
    if settings.jwt_key_file:
        return SingleKey(read_key_file(Path(settings.jwt_key_file), algorithm))
    if algorithm == "HS256":
        raise _wrong("jwt_jwks", "holds public keys: HS256 takes its secret from jwt_key_file")
    if "://" in address:
        _check_address(address)
        return JwksUrl(address, algorithm, now=now)
    return JwksFile(Path(address), algorithm, now=now)


def _check_address(address: str) -> None:
    """Raise InvalidSetting for a URL whose response could be tampered with in transit."""
    parts = urlsplit(address)
    local = parts.scheme == "http" and parts.hostname in _LOOPBACK_HOSTS
    if not parts.hostname or not (parts.scheme == "https" or local):
        raise _wrong("jwt_jwks", "takes a file, an https address, or http on this machine")


def _wrong(setting: str, problem: str) -> InvalidSetting:
    return InvalidSetting(setting=setting, source="the settings", problem=problem)


# ------------------------------------------------------------------------------- keys


def read_key_file(file: Path, algorithm: str) -> VerifyKey:
    """Return the secret or public key in a file. Raises InvalidSetting, quoting none of it."""
    text = _read_file(file, KEY_FILE_BYTES_MAX, "jwt_key_file")
    if algorithm == "HS256":
        secret = text.strip(b"\r\n")
        if len(secret) < SECRET_BYTES_MIN or secret.startswith(b"-----BEGIN"):
            # With a public key as the secret, any client could sign.
            wanted = f"must hold a secret of {SECRET_BYTES_MIN} bytes or more, unlike {file}"
            raise _wrong("jwt_key_file", wanted)
        return secret
    try:
        key = load_pem_public_key(text)
    except (ValueError, UnsupportedAlgorithm):
        raise _wrong("jwt_key_file", f"must hold a public key as PEM, unlike {file}") from None
    if not _fits(key, algorithm):
        wanted = f"must hold a key for {algorithm} ({_WANTED[algorithm]}), unlike {file}"
        raise _wrong("jwt_key_file", wanted)
    return key  # type: ignore[return-value]  # _fits checks


_WANTED = {"RS256": f"RSA of {RSA_BITS_MIN} bits or more", "EdDSA": "Ed25519"}


def _fits(key: object, algorithm: str) -> bool:
    if algorithm == "RS256":
        return isinstance(key, RSAPublicKey) and key.key_size >= RSA_BITS_MIN
    return isinstance(key, Ed25519PublicKey)


def _read_file(file: Path, bytes_max: int, setting: str) -> bytes:
    try:
        with file.open("rb") as opened:
            text = opened.read(bytes_max + 1)
    except OSError as exc:
        raise _wrong(setting, f"cannot be read: {file}: {exc.strerror}") from None
    if len(text) > bytes_max:
        raise _wrong(setting, f"must be a file of at most {bytes_max} bytes, unlike {file}")
    return text


def read_key_set(text: bytes, algorithm: str) -> dict[str | None, VerifyKey]:
    """Return the keys of a JWKS that are for this algorithm, by ``kid``. Raises ValueError.

    Keys of another type or use are skipped: a set may hold keys for other purposes. If one key is
    left, it also verifies tokens without a ``kid``.
    """
    decoded = msgspec.json.decode(text)
    listed = decoded.get("keys") if isinstance(decoded, dict) else None
    if not isinstance(listed, list) or len(listed) > KEYS_MAX:
        raise ValueError(f"not a set of at most {KEYS_MAX} keys")
    found: dict[str | None, VerifyKey] = {}
    for item in listed:
        if isinstance(item, dict) and _is_for(item, algorithm):
            key = _public_key(item, algorithm)
            if key is not None:
                found[item.get("kid")] = key
    if len(found) == 1:
        found[None] = next(iter(found.values()))
    else:
        found.pop(None, None)
    return found


def _is_for(item: Mapping[str, Any], algorithm: str) -> bool:
    kid = item.get("kid")
    return (
        item.get("kty") == _KEY_TYPES[algorithm]
        and item.get("use", "sig") == "sig"
        and item.get("alg", algorithm) == algorithm
        and (kid is None or (isinstance(kid, str) and len(kid) <= KID_LENGTH_MAX))
        and "d" not in item  # A published private key proves nothing.
    )


def _public_key(item: dict[str, Any], algorithm: str) -> VerifyKey | None:
    try:
        key = jwt.PyJWK(item, algorithm=algorithm).key
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    return key if _fits(key, algorithm) else None


class SingleKey:
    """The key of a file, used for every ``kid``."""

    def __init__(self, key: VerifyKey) -> None:
        self._key = key

    def find(self, kid: str | None) -> VerifyKey | None:
        """Return the key."""
        del kid
        return self._key

    async def close(self) -> None:
        """Do nothing."""


class JwksFile:
    """The keys of a JWKS file, reloaded when a key is missing."""

    def __init__(self, file: Path, algorithm: str, *, now: Callable[[], float]) -> None:
        self._file, self._algorithm, self._now = file, algorithm, now
        self._keys: dict[str | None, VerifyKey] = {}
        self._read()  # Reports a mistake at the start.

    def _read(self) -> None:
        self._read_at = self._now()
        text = _read_file(self._file, KEY_SET_BYTES_MAX, "jwt_jwks")
        try:
            self._keys = read_key_set(text, self._algorithm)
        except (ValueError, msgspec.MsgspecError):
            wanted = f"must hold a JWKS of at most {KEYS_MAX} keys, unlike {self._file}"
            raise _wrong("jwt_jwks", wanted) from None

    def find(self, kid: str | None) -> VerifyKey | None:
        """Return the key with this ``kid``, after a reload if it is missing and one is due."""
        if kid not in self._keys and self._now() - self._read_at >= REFRESH_SECONDS_MIN:
            try:
                self._read()
            except InvalidSetting as exc:
                log.warning("players' keys stay as they were: %s", exc)
        return self._keys.get(kid)

    async def close(self) -> None:
        """Do nothing."""


class JwksUrl:
    """The keys of a JWKS at a URL, fetched in the background."""

    def __init__(self, address: str, algorithm: str, *, now: Callable[[], float]) -> None:
        self._address, self._algorithm, self._now = address, algorithm, now
        self._keys: dict[str | None, VerifyKey] = {}
        self._asked_at: float | None = None
        self._asking: asyncio.Task[None] | None = None

    def find(self, kid: str | None) -> VerifyKey | None:
        """Return the key with this ``kid``. Raises TokenKeysUnavailable during a fetch."""
        key = self._keys.get(kid)
        if key is not None:
            return key
        if self._may_ask():
            self._asked_at = self._now()
            self._asking = asyncio.get_running_loop().create_task(self._fetch())
        if self._asking is not None or not self._keys:
            raise TokenKeysUnavailable
        return None

    def _may_ask(self) -> bool:
        if self._asking is not None:
            return False
        return self._asked_at is None or self._now() - self._asked_at >= REFRESH_SECONDS_MIN

    async def _fetch(self) -> None:
        try:
            async with asyncio.timeout(FETCH_SECONDS_MAX):
                self._keys = read_key_set(await _download(self._address), self._algorithm)
        except Exception as exc:  # After any error tokens are refused and the service goes on.
            log.warning("players' keys could not be fetched: %s", type(exc).__name__)
        finally:
            self._asking = None

    async def close(self) -> None:
        """Cancel a running fetch."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)


async def _download(address: str) -> bytes:
    """Return the document at a URL. Raises ValueError and TransportError."""
    parts = urlsplit(address)
    server = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    headers = {"accept": "application/json", "connection": "close"}
    if (known := basic_authorization(parts)) is not None:
        headers["authorization"] = known
    transport = AsyncTransport(
        Endpoint(server, headers, use_environment=False),
        timeout=FETCH_SECONDS_MAX,
        connections_max=1,
        response_bytes_max=KEY_SET_BYTES_MAX + HEAD_BYTES_MAX,
    )
    path = urlunsplit(("", "", parts.path or "/", parts.query, ""))
    answer = await transport.send(HttpRequest("GET", path, {}))
    if answer.status != 200:
        raise ValueError(f"the answer was {answer.status}")
    if len(answer.body) > KEY_SET_BYTES_MAX:
        raise ValueError("the answer is too large")
    return answer.body
