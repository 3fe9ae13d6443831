"""Submitting: one score, or many at once."""

from hashlib import blake2b
from typing import Any
from urllib.parse import quote

from rankd import wire
from rankd.api import shown
from rankd.api.access import ANYBODY, Actor
from rankd.api.body import decode_body
from rankd.api.exchange import Request, Response
from rankd.api.service import Service
from rankd.core.intake import Answer
from rankd.errors import (
    FieldError,
    Forbidden,
    InvalidRequest,
    RankdError,
    Refused,
    SubmissionRejected,
    UnknownBoard,
)
from rankd.model.board import Writes
from rankd.model.submission import SUBMISSION_KEY_BYTES_MAX

BATCH_SCORES_MAX = 8_192
"""As many as share a commit."""


async def submit_score(service: Service, request: Request) -> Response:
    """Have one score counted."""
    board = request.params["board"]
    actor = service.gate.admit(request, "submit", board)
    body = _with_key(decode_body(request, dict[str, Any]), request)
    body = _of_actor(service, actor, board, body)
    (answer,) = await service.writer.submit(board, [body], actor=actor.name)
    told = _told(answer, board)
    if isinstance(told, RankdError):
        raise told
    return Response(wire.encode(told), 202 if told.verdict == "held" else 200)


async def submit_scores(service: Service, request: Request) -> Response:
    """Have many scores counted, each judged for itself, in one commit."""
    service.gate.check_known(request)
    batch = decode_body(request, wire.Batch)
    if not 0 < len(batch.scores) <= BATCH_SCORES_MAX:
        message = f"must be 1 to {BATCH_SCORES_MAX} submissions"
        raise InvalidRequest([FieldError("scores", message)])
    bodies = [_parted(body) for body in batch.scores]
    actor = ANYBODY
    for name in {name for name, _ in bodies}:
        actor = service.gate.admit(request, "submit", name)
    if actor.player is not None:
        bodies = [(name, _of_actor(service, actor, name, body)) for name, body in bodies]
    answers = await service.writer.submit_each(bodies, actor=actor.name)
    results: list[wire.Receipt | wire.Refusal] = []
    for (name, _), answer in zip(bodies, answers, strict=True):
        told = answer if isinstance(answer, Refused) else _told(answer, name)
        results.append(shown.refusal(told) if isinstance(told, RankdError) else told)
    return Response(wire.encode(wire.Results(results, service.rankd.position)))


def _parted(body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    name = body.get("board")
    return (name if isinstance(name, str) else ""), body


def _with_key(body: dict[str, Any], request: Request) -> dict[str, Any]:
    """Take the submission key from its header, unless the body has it."""
    shown_key = request.headers.get(b"idempotency-key")
    if shown_key is None:
        return body
    key = shown_key.decode("latin-1").strip('"')
    if body.get("key") not in (None, key):
        raise InvalidRequest([FieldError("key", "differs from the header Idempotency-Key")])
    return {**body, "key": key}


def _of_actor(service: Service, actor: Actor, name: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return what a player may submit: for itself alone, and only where its board allows that.

    Its keys are its own: nobody can use up a key that another player was going to use.
    """
    if actor.player is None:
        return body
    page = service.rankd.book.boards.get(name)
    if page is not None and page.board.writes is not Writes.CLIENT:
        raise Forbidden("this board takes scores from servers only")
    if body.get("player") != actor.player:
        raise Forbidden("a player's token submits for that player only")
    key = body.get("key")
    return {**body, "key": own_key("own", key, actor.player)} if isinstance(key, str) else body


def own_key(kind: str, key: str, player: str) -> str:
    """Return the submission key that one player has of its own under a name that many use.

    The name is percent-encoded, so that no name and player make the key of two others.
    """
    own = f"{kind}/{quote(key, safe=':')}/{player}"
    if len(own.encode()) <= SUBMISSION_KEY_BYTES_MAX:
        return own
    return f"{kind}/{blake2b(own.encode(), digest_size=32).hexdigest()}"


def _told(answer: Answer, board: str) -> wire.Receipt | RankdError:
    if answer.error is not None:
        return answer.error
    if answer.receipt is None:
        return UnknownBoard(board)
    if answer.receipt.rejected:
        why = answer.receipt.first
        return SubmissionRejected(reason=why.code or "", message=why.message or "")
    return shown.receipt(answer.receipt)
