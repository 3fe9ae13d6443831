"""The check of a signed request, before any of its submissions is recorded.

A signature that was checked gives each submission of its request a key, if the body has none, made
of the text that was signed. So a request that is sent again, by anyone, counts no second time: in
the first 300 seconds it gets its first answer, later it is refused.
"""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

from rankd.api.context import ServiceContext
from rankd.api.messages import Request
from rankd.errors import BadSignature, FieldError, InvalidRequest
from rankd.model.facts import SigningKeyCreated
from rankd.model.window import Instant
from rankd.signatures import (
    ALGORITHMS,
    SIGNATURE_SECONDS_MAX,
    Signature,
    is_signed,
    read_signature,
    signed_text,
)

HEADER = b"rankd-signature"

PROBLEM = "the signature is not valid here; the log of the service says why"
"""More would help a forger."""


def check_signature(service: ServiceContext, request: Request, boards: Iterable[str]) -> str | None:
    """Return a digest of the signed text of a request; None for one without a signature.

    Raises BadSignature.
    """
    header = request.headers.get(HEADER)
    if header is None:
        return None
    signature, now = read_signature(header), service.clock.now()
    if signature is None:
        raise _bad("is not written as t=UNIX,kid=KEY,v1=HEX")
    if abs(now // 1_000_000 - signature.time) > SIGNATURE_SECONDS_MAX:
        raise _bad(f"is of another time: by more than {SIGNATURE_SECONDS_MAX} seconds")
    key = _key(service, signature, boards, now)
    text = signed_text(signature.time, request.method, request.path, request.body)
    assert key.algorithm != "run" and key.algorithm != "webhook"
    if not is_signed(signature.value, text, algorithm=key.algorithm, material=key.material):
        raise _bad("does not fit the request: its method, its path as sent, or its body")
    service.auth.note_uses({key.id: now})
    return sha256(key.id.encode() + b"." + text).hexdigest()


def _key(
    service: ServiceContext, signature: Signature, boards: Iterable[str], now: Instant
) -> SigningKeyCreated:
    key = service.rankd.state.signing_keys.get(signature.kid)
    if key is None or key.algorithm not in ALGORITHMS:
        raise _bad("names a key that is unknown or was revoked")
    if key.expires is not None and now >= key.expires:
        raise _bad("names a key that has expired")
    if key.boards is not None and not set(boards) <= set(key.boards):
        raise _bad("names a key for other boards")
    return key


def _bad(why: str) -> BadSignature:
    return BadSignature(PROBLEM, reason=f"the signature {why}")


def signed_key(digest: str | None, number: int | None = None) -> str | None:
    """Return the submission key that a signature gives to a submission without one.

    ``number`` is the place of the submission in a batch.
    """
    if digest is None:
        return None
    return f"signed/{digest}" if number is None else f"signed/{digest}/{number}"


def refuse_unsigned_key(digest: str | None, request: Request, body: Mapping[str, Any]) -> None:
    """Refuse the header Idempotency-Key of a signed request: the signature does not cover it.

    Another one would make the same submission count again. Raises InvalidRequest.
    """
    if digest is not None and b"idempotency-key" in request.headers and body.get("key") is None:
        message = "is not part of what was signed: put the key into the body"
        raise InvalidRequest([FieldError("Idempotency-Key", message)])
