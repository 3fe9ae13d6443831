"""Handlers of submissions: one score, or a batch."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from rankd import schemas
from rankd.api import render
from rankd.api.auth import ANYBODY, Actor, check_writes
from rankd.api.context import ServiceContext
from rankd.api.messages import DEPTH_MAX, JSON, Request, Response, decode_body
from rankd.api.routing import AllAnswered, BodyPlan
from rankd.api.signatures import HEADER as SIGNATURE_HEADER
from rankd.api.signatures import check_signature, refuse_unsigned_key, signed_key
from rankd.core.writer import DefinitionChanged, WriteResult
from rankd.errors import (
    FieldError,
    Forbidden,
    InvalidRequest,
    InvalidSubmission,
    PlayerBanned,
    RankdError,
    TooManySegmentValues,
    UnknownBoard,
)
from rankd.model.board import Board
from rankd.model.facts import ScoreSubmitted
from rankd.model.submission import (
    SUBMISSION_KEY_BYTES_MAX,
    read_plain,
    read_plain_batch,
    takes_plain,
)
from rankd.templates import Form, PlaceholderKind, parts_of, placeholder

BATCH_SCORES_MAX = 8_192
"""The most submissions of one commit."""


async def submit_score(service: ServiceContext, request: Request) -> Response:
    """Submit one score."""
    board = request.params["board"]
    actor = service.auth.admit(request, "submit", board)
    service.auth.count_scores(actor)
    signed = check_signature(service, request, [board])
    body = decode_body(request, dict[str, Any])
    refuse_unsigned_key(signed, request, body)
    body = _of_actor(service, actor, board, with_key(body, request), signed=signed is not None)
    body = _with_signed_key(body, signed_key(signed))
    (answer,) = await service.writer.submit(board, [body], actor=actor.name)
    return respond(service, answer, board)


def respond(service: ServiceContext, answer: WriteResult, board: str) -> Response:
    """Return the response of one submission, or raise its error."""
    shown = _shown(service, answer, board)
    if isinstance(shown, RankdError):
        raise shown
    return _response(answer, shown)


class _Plain(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """The fields of nearly every submission, and no others."""

    player: str
    score: int
    key: str | None = None
    metadata: Any = None
    attributes: dict[str, str] | None = None


_decode_plain = msgspec.json.Decoder(_Plain, float_hook=Decimal).decode
_QUOTES, _QUOTES_WITH_KEY, _METADATA_QUOTES, _FIELD_QUOTES = 6, 10, 2, 2
"""Quotes in a plain submission without escapes. With more, a field occurs twice."""


_UNPLANNED = frozenset((b"idempotency-key", SIGNATURE_HEADER))
"""Headers that concern one submission alone: the handler reads them."""


def plan_submission(service: ServiceContext, request: Request) -> BodyPlan | None:
    """Return a plan that takes plain submissions to one board, as ``submit_score`` does."""
    view = service.rankd
    projector, state, revision = view.projector, view.state, view.state.revision
    page = state.boards.get(request.params["board"])
    if page is None or not request.headers.keys().isdisjoint(_UNPLANNED):
        return None
    if not takes_plain(page.board) or not _says_json(request):
        return None
    board, keys_as_now = page.board, not page.earlier
    hand_in = service.writer.submitter_of(board)

    def read(body: bytes, actor: Actor) -> ScoreSubmitted | None:
        plain = _plain_of(body, actor)
        if plain is None or not (plain.key is None or keys_as_now):
            return None
        fact = read_plain(board, plain, actor=actor.name)
        return fact if fact is not None and body.count(b'"') == _quotes(fact) else None

    def in_force() -> bool:
        return state.revision == revision and view.projector is projector

    def submit(facts: list[ScoreSubmitted], answered: AllAnswered) -> bool:
        if not in_force():
            return False
        try:
            hand_in(facts, partial(_answer, service, answered, board.name, len(facts)))
        except RankdError:
            return False
        return True

    return BodyPlan(read, submit, in_force)


def _plain_of(body: bytes, actor: Actor) -> _Plain | None:
    """Return the fields of a plain submission; None if a handler has to read it, or refuse it."""
    if b"\\" in body or actor.player is not None:
        return None
    if body.count(b"{") + body.count(b"[") > DEPTH_MAX:
        return None
    try:
        plain = _decode_plain(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return plain if plain.attributes is None or actor.may_profile else None


def _quotes(fact: ScoreSubmitted) -> int:
    """Return the number of quotes in a body without escapes that has each field once."""
    quotes = _QUOTES if fact.key is None else _QUOTES_WITH_KEY
    if fact.metadata is not None:
        quotes += _METADATA_QUOTES + fact.metadata.count(b'"')
    return quotes + _quotes_of_attributes(fact.attributes)


def _quotes_of_attributes(attributes: Mapping[str, object] | None) -> int:
    return 0 if attributes is None else _FIELD_QUOTES + 2 * _FIELD_QUOTES * len(attributes)


def _answer(
    service: ServiceContext,
    answered: AllAnswered,
    board: str,
    count: int,
    results: Sequence[WriteResult] | Exception,
) -> None:
    """Answer a batch of submissions with their results."""
    if isinstance(results, Exception):
        # After these errors, handlers retry each by itself.
        alone = isinstance(results, DefinitionChanged | TooManySegmentValues)
        answered([None if alone else results] * count)
    else:
        alike = render.each_as_json(results)
        answered(alike or [_outcome(service, answer, board) for answer in results])


def _outcome(service: ServiceContext, answer: WriteResult, board: str) -> Response | RankdError:
    shown = _shown(service, answer, board)
    return shown if isinstance(shown, RankdError) else _response(answer, shown)


def _response(answer: WriteResult, receipt: bytes) -> Response:
    """Return the response of a receipt: 202 if its verdict is not final."""
    final = answer.receipt is not None and render.is_final(answer.receipt)
    return Response(receipt, 200 if final else 202)


async def submit_scores(service: ServiceContext, request: Request) -> Response:
    """Submit many scores in one commit, each judged separately.

    Each may have a `key` of its own. The header Idempotency-Key is for one submission, and refused.
    """
    service.auth.check_known(request)
    if b"idempotency-key" in request.headers:
        raise InvalidRequest([FieldError("Idempotency-Key", "is for one: give each score a key")])
    response = await _submit_plain(service, request)
    return response if response is not None else await _submit_each(service, request)


async def _submit_each(service: ServiceContext, request: Request) -> Response:
    batch = decode_body(request, schemas.Batch)
    if not 0 < len(batch.scores) <= BATCH_SCORES_MAX:
        message = f"must be 1 to {BATCH_SCORES_MAX} submissions"
        raise InvalidRequest([FieldError("scores", message)])
    bodies = [_parted(body) for body in batch.scores if isinstance(body, dict)]
    actor = ANYBODY
    for name in {name for name, _ in bodies} or {""}:
        actor = service.auth.admit(request, "submit", name)
    service.auth.count_scores(actor, len(batch.scores))
    signed = check_signature(service, request, {name for name, _ in bodies})
    vouched = signed is not None
    if not actor.may_profile:
        bodies = [
            (name, _of_actor(service, actor, name, body, signed=vouched)) for name, body in bodies
        ]
    if vouched:
        bodies = [
            (name, _with_signed_key(body, signed_key(signed, place)))
            for place, (name, body) in enumerate(bodies)
        ]
    answers = await service.writer.submit_each(bodies, actor=actor.name)
    shown = map(partial(_result, service), answers, [name for name, _ in bodies])
    each = (next(shown) if isinstance(body, dict) else _NO_OBJECT for body in batch.scores)
    return _results(service, b",".join(each))


_NO_OBJECT = schemas.encode(
    render.refusal(InvalidSubmission([FieldError("", "a submission must be an object")]))
)


def _result(service: ServiceContext, answer: WriteResult | RankdError, board: str) -> bytes:
    """Return the result of one submission of a batch."""
    shown = answer if isinstance(answer, RankdError) else _shown(service, answer, board)
    return schemas.encode(render.refusal(shown)) if isinstance(shown, RankdError) else shown


_RESULTS = Form(
    parts_of(
        schemas.Results(placeholder(PlaceholderKind.RAW, 0), placeholder(PlaceholderKind.NUMBER, 1))
    )
)


def _results(service: ServiceContext, results: bytes) -> Response:
    return Response(_RESULTS.fill_one((render.array_of(results), service.rankd.position)))


# ------------------------------------------------------------------- plain batches


class _PlainItem(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    board: str
    player: str
    score: int
    key: str | None = None
    attributes: msgspec.Raw = msgspec.Raw()
    metadata: None = None


class _PlainBatch(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    scores: list[_PlainItem]


_decode_attributes = msgspec.json.Decoder(dict[str, str]).decode
_decode_plain_batch = msgspec.json.Decoder(_PlainBatch).decode
_BOARD_QUOTES, _LIST_QUOTES = 4, 2
"""Quotes of an item's board and of the list's name."""

ATTRIBUTES_READ_MAX = 4_096
"""Attributes that are not read again, as clients wrote them: most submissions tell the same."""

ATTRIBUTES_BYTES_MAX = 1_024
"""Longer ones are read with care, which bounds the memory of those."""


class _PlainScores(NamedTuple):
    """The scores of a batch with only plain fields, and the attributes of each."""

    items: Sequence[_PlainItem]
    attributes: Sequence[dict[str, str] | None]


async def _submit_plain(service: ServiceContext, request: Request) -> Response | None:
    """Submit a batch of plain scores as ``_submit_each`` does; None if not all are plain.

    A batch is decoded and rendered in columns, without an object for each receipt.
    """
    scores = _plain_scores(service, request)
    if scores is None:
        return None
    items = scores.items
    names = {item.board for item in items}
    pages = [service.rankd.state.boards.get(name) for name in names]
    boards = {page.board.name: page.board for page in pages if page is not None}
    if len(boards) < len(names) or not all(map(takes_plain, boards.values())):
        return None
    if any(page is not None and page.earlier for page in pages):
        return None  # A key may refer to a submission under an earlier definition.
    actor = ANYBODY
    for name in names:
        actor = service.auth.admit(request, "submit", name)
    if not actor.may_profile and any(told is not None for told in scores.attributes):
        return None  # It is refused.
    facts = _plain_facts(boards, scores, actor.name)
    if facts is None:
        return None
    try:
        answers = await service.writer.submit_read(facts, list(boards.values()))
    except (DefinitionChanged, TooManySegmentValues, PlayerBanned):
        return None  # Each is answered for itself.
    results = render.all_as_json(answers, service.rankd.state.boards)
    if results is None:
        shown = map(partial(_result, service), answers, [item.board for item in items])
        results = b",".join(shown)
    return _results(service, results)


def _plain_facts(
    boards: Mapping[str, Board], scores: _PlainScores, actor: str | None
) -> list[ScoreSubmitted] | None:
    """Return the facts of plain items; None if one has to be read with care."""
    if len(boards) == 1:
        (board,) = boards.values()
        columns = [
            (item.player, item.score, item.key, told) for item, told in zip(*scores, strict=True)
        ]
        return read_plain_batch(board, columns, actor=actor)
    facts = [
        read_plain(
            boards[item.board], _Plain(item.player, item.score, item.key, None, told), actor=actor
        )
        for item, told in zip(*scores, strict=True)
    ]
    return None if None in facts else facts  # type: ignore[return-value]


def _plain_scores(service: ServiceContext, request: Request) -> _PlainScores | None:
    """Return the scores of a batch with only plain fields, each once; else None."""
    body = request.body
    if not _says_json(request) or b"\\" in body or SIGNATURE_HEADER in request.headers:
        return None
    if not service.auth.admits_plainly(request):
        return None  # Tokens have keys, rights and rate limits of their own.
    try:
        items = _decode_plain_batch(body).scores
        attributes = _attributes_of(items, body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    keys = sum(item.key is not None for item in items)
    quotes = _LIST_QUOTES + len(items) * (_QUOTES + _BOARD_QUOTES)
    quotes += keys * (_QUOTES_WITH_KEY - _QUOTES)
    quotes += sum(_quotes_of_attributes(told) for told in attributes if told is not None)
    if not 0 < len(items) <= BATCH_SCORES_MAX or body.count(b'"') != quotes:
        return None
    return _PlainScores(items, attributes)


def _attributes_of(items: Sequence[_PlainItem], body: bytes) -> list[dict[str, str] | None]:
    if b'"attributes"' not in body:
        return [None] * len(items)
    return [_read_attributes(bytes(item.attributes)) for item in items]


@lru_cache(maxsize=ATTRIBUTES_READ_MAX)
def _read_attributes(raw: bytes) -> dict[str, str] | None:
    """Return attributes, one object for all that are written alike. Raises MsgspecError."""
    if len(raw) > ATTRIBUTES_BYTES_MAX:
        raise msgspec.ValidationError("these are read with care")
    return _decode_attributes(raw) if raw else None


def _says_json(request: Request) -> bool:
    """Whether the content type is exactly JSON, without an encoding."""
    headers = request.headers
    return headers.get(b"content-type") == JSON and b"content-encoding" not in headers


def _parted(body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    name = body.get("board")
    return (name if isinstance(name, str) else ""), body


def with_key(body: dict[str, Any], request: Request) -> dict[str, Any]:
    """Use the Idempotency-Key header as submission key. Raises InvalidRequest if they differ."""
    shown_key = request.headers.get(b"idempotency-key")
    if shown_key is None:
        return body
    key = shown_key.decode("latin-1").strip('"')
    if body.get("key") not in (None, key):
        raise InvalidRequest([FieldError("key", "differs from the header Idempotency-Key")])
    return {**body, "key": key}


def _with_signed_key(body: dict[str, Any], key: str | None) -> dict[str, Any]:
    """Use a key made of the signature as submission key, if the body has none."""
    return body if key is None or body.get("key") is not None else {**body, "key": key}


def _of_actor(
    service: ServiceContext, actor: Actor, name: str, body: dict[str, Any], *, signed: bool
) -> dict[str, Any]:
    """Return the submission as a token or a limited key may make it. Raises Forbidden.

    A player submits only for itself, to boards that allow it, with submission keys in a namespace
    of its own. Attributes place a player in the segments of every board, so neither may set them.
    """
    if not actor.may_profile and body.get("attributes") is not None:
        raise Forbidden(_NO_ATTRIBUTES[actor.limited])
    if actor.player is None:
        return body
    vouched = signed or body.get("run") is not None
    check_writes(actor, service.rankd.state.boards.get(name), vouched=vouched)
    if body.get("player") != actor.player:
        raise Forbidden("a player's token submits for that player only")
    key = body.get("key")
    return {**body, "key": own_key("own", key, actor.player)} if isinstance(key, str) else body


_NO_ATTRIBUTES = (
    "a player's token does not set attributes",
    "a key for some boards does not set attributes: they count on every board",
)


def own_key(kind: str, key: str, player: str) -> str:
    """Return a submission key in a player's own namespace, for a name that many players use.

    The name is percent-encoded, so that two pairs of name and player never make the same key.
    """
    own = f"{kind}/{quote(key, safe=':')}/{player}"
    if len(own.encode()) <= SUBMISSION_KEY_BYTES_MAX:
        return own
    return f"{kind}/{blake2b(own.encode(), digest_size=32).hexdigest()}"


def _shown(service: ServiceContext, answer: WriteResult, board: str) -> bytes | RankdError:
    if answer.error is not None:
        return answer.error
    if answer.pending is not None:
        pending = render.accepted(answer.pending, answer.position, duplicate=answer.duplicate)
        return schemas.encode(pending)
    if answer.receipt is None:
        return UnknownBoard(board)
    if answer.receipt.rejected:
        return service.rankd.rejection(answer.receipt)
    return render.as_json(answer.receipt, service.rankd.projector.state.boards)
