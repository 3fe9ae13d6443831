"""Signatures of requests: the header ``Rankd-Signature``, made by senders, checked by the service.

The header is ``t=UNIX,kid=KEY,v1=HEX``: the sender's time in seconds since 1970, the id of the key,
and HMAC-SHA256 or an Ed25519 signature over ``t.METHOD.path.sha256(body)``. The path is as it is in
the request, percent-encoded and without its query; the digest of the body is in hex.

Requests that the service itself makes are signed by the Standard Webhooks specification.
"""

import hmac
import re
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field
from hashlib import sha256
from secrets import token_bytes
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

if TYPE_CHECKING:  # It takes a while to load, and a client that signs nothing has no use for it.
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

HEADER = "Rankd-Signature"

SIGNATURE_SECONDS_MAX = 300
"""How far the sender's clock may be from that of the service, either way."""

PUBLIC_KEY_BYTES = 32
"""An Ed25519 public key."""

SECRET_BYTES = 32

HMAC_PREFIX, ED25519_PREFIX = "rks_", "rke_"
"""Make a leaked secret recognizable, to people and to secret scanners."""

WEBHOOK_PREFIX = "whsec_"
"""Of the secrets of Standard Webhooks, which share 24 to 64 bytes as base64."""

Algorithm = Literal["hmac", "ed25519"]
ALGORITHMS: tuple[str, ...] = get_args(Algorithm)

_HEADER = re.compile(
    rb"t=(0|[1-9][0-9]{0,11}),kid=([0-9a-f]{12}),v1=([0-9a-f]{64}|[0-9a-f]{128})", re.ASCII
)
_KEY_ID = re.compile(r"[0-9a-f]{12}", re.ASCII)


class Signature(NamedTuple):
    """A signature taken apart; nothing of it is checked yet."""

    time: int
    """In seconds since 1970, by the sender's clock."""
    kid: str
    value: bytes


def read_signature(header: bytes) -> Signature | None:
    """Return the signature of a header; None unless it is written in the one way."""
    parts = _HEADER.fullmatch(header)
    if parts is None:
        return None
    return Signature(int(parts[1]), parts[2].decode(), bytes.fromhex(parts[3].decode()))


def signed_text(time: int, method: str, path: str, body: bytes) -> bytes:
    """Return the bytes that a signature is over."""
    return f"{time}.{method}.{path}.{sha256(body).hexdigest()}".encode()


def is_signed(value: bytes, text: bytes, *, algorithm: Algorithm, material: bytes) -> bool:
    """Whether this is the signature of a text, by a shared secret or a public key."""
    if algorithm == "hmac":
        return hmac.compare_digest(value, hmac.digest(material, text, "sha256"))
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(material).verify(value, text)
    except InvalidSignature:
        return False
    return True


def new_hmac_secret() -> str:
    """Return a new shared secret; its UTF-8 bytes are the key of the HMAC."""
    return HMAC_PREFIX + _encoded(token_bytes(SECRET_BYTES))


def new_webhook_secret() -> str:
    """Return a new secret of Standard Webhooks."""
    return WEBHOOK_PREFIX + b64encode(token_bytes(SECRET_BYTES)).decode()


def webhook_headers(id: str, time: int, body: bytes, *, secret: str | None) -> dict[str, str]:
    """Return the headers of a Standard Webhooks message; unsigned without a secret.

    ``time`` is in seconds since 1970.
    """
    headers = {"webhook-id": id, "webhook-timestamp": str(time)}
    if secret is not None:
        key = b64decode(secret.removeprefix(WEBHOOK_PREFIX))
        value = hmac.digest(key, f"{id}.{time}.".encode() + body, "sha256")
        headers["webhook-signature"] = f"v1,{b64encode(value).decode()}"
    return headers


def read_public_key(text: str) -> bytes:
    """Return an Ed25519 public key from its 32 bytes as base64url. Raises ValueError."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    raw = _decoded(text)
    if len(raw) != PUBLIC_KEY_BYTES or _encoded(raw) != text.rstrip("="):
        raise ValueError("no public key")
    Ed25519PublicKey.from_public_bytes(raw)
    return raw


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A key that signs requests: its id, and the shared secret or the private key as text."""

    id: str
    secret: str = field(repr=False)

    def __post_init__(self) -> None:
        if not _KEY_ID.fullmatch(self.id) or not self.secret.startswith(
            (HMAC_PREFIX, ED25519_PREFIX)
        ):
            raise ValueError("a signing key is ID:rks_… or ID:rke_…, as it was printed")
        if self.secret.startswith(ED25519_PREFIX):
            private_key_of(self.secret)

    @classmethod
    def parse(cls, text: str) -> "SigningKey":
        """Return the key that ``ID:SECRET`` names. Raises ValueError, which repeats none of it."""
        id, _, secret = text.strip().partition(":")
        return cls(id, secret)

    @property
    def text(self) -> str:
        """The key as ``parse`` reads it."""
        return f"{self.id}:{self.secret}"

    def header(self, method: str, path: str, body: bytes, *, time: int) -> str:
        """Return the value of the header for a request; the path without its query."""
        value = self._sign(signed_text(time, method, path.partition("?")[0], body))
        return f"t={time},kid={self.id},v1={value.hex()}"

    def _sign(self, text: bytes) -> bytes:
        if self.secret.startswith(HMAC_PREFIX):
            return hmac.digest(self.secret.encode(), text, "sha256")
        return private_key_of(self.secret).sign(text)


def new_private_key() -> str:
    """Return a new Ed25519 private key as text."""
    return ED25519_PREFIX + _encoded(token_bytes(SECRET_BYTES))


def private_key_of(secret: str) -> "Ed25519PrivateKey":
    """Return the Ed25519 private key of a text. Raises ValueError, which repeats none of it."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    raw = _decoded(secret.removeprefix(ED25519_PREFIX))
    if len(raw) != SECRET_BYTES:
        raise ValueError("the private key is not one that was printed here")
    return Ed25519PrivateKey.from_private_bytes(raw)


def public_key_of(secret: str) -> str:
    """Return the public key of a private one, both as text."""
    return _encoded(private_key_of(secret).public_key().public_bytes_raw())


def public_key_text(material: bytes) -> str:
    """Return an Ed25519 public key as ``read_public_key`` reads it."""
    return _encoded(material)


def _encoded(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    """Return the bytes of base64url, empty for any other text."""
    try:
        return urlsafe_b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4))
    except ValueError:
        return b""
