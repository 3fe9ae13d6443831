"""Every error has a status and a body that tells no more than it should."""

import inspect
from typing import Any

import msgspec
import pytest

from rankd import errors, schemas
from rankd.api import messages, render
from rankd.api.messages import PROBLEM_JSON
from rankd.errors import Corrupt, FieldError, RankdError, Refused, Unavailable

LEAVES = sorted(
    (kind for kind in vars(errors).values() if inspect.isclass(kind) and "code" in vars(kind)),
    key=lambda kind: kind.__name__,
)


def made(kind: type[RankdError]) -> RankdError:
    """One error of a kind, with something evil wherever a text goes."""
    if issubclass(kind, errors.Invalid) and kind is not errors.ScoreOutOfBounds:
        return kind([FieldError("score", "must be a number")])
    if kind is errors.RuleBroken:
        return kind(reasons=(errors.BrokenRule("first_score", 9, 5, "first_score is 9"),))
    given: dict[str, Any] = {}
    for name, parameter in inspect.signature(kind).parameters.items():
        note = str(parameter.annotation)
        if "applied" in name:
            given[name] = "unknown"
        elif "tuple" in note:
            given[name] = ("GET", "PUT")
        elif "int" in note or "float" in note:
            given[name] = 5
        else:
            given[name] = "<script>"
    return kind(**given)


@pytest.mark.parametrize("kind", LEAVES, ids=lambda kind: kind.__name__)
def test_every_error_is_answered_as_its_branch_demands(kind: type[RankdError]) -> None:
    response = messages.refusal(made(kind), request_id="r", writes=True)
    body = msgspec.json.decode(response.body)
    branch = next(b for b in (Refused, Unavailable, Corrupt) if issubclass(kind, b))
    allowed = {Refused: range(400, 500), Unavailable: (408, 429, 503), Corrupt: (500,)}
    assert response.status in allowed[branch]
    assert response.content_type == PROBLEM_JSON
    assert body["status"] == response.status
    assert (body["code"], body["request_id"]) == (kind.code, "r")
    assert body["type"] == f"urn:rankd:error:{kind.code}"
    assert body["applied"] in {"no", "unknown"}
    assert body["title"] and body["detail"]


@pytest.mark.parametrize("kind", LEAVES, ids=lambda kind: kind.__name__)
def test_every_error_with_a_code_has_a_row_of_its_own(kind: type[RankdError]) -> None:
    row = messages.KINDS.get(kind)
    assert row is not None, f"{kind.code} would be answered as {messages.kind_of(made(kind))}"
    told = msgspec.json.decode(messages.refusal(made(kind), request_id="r").body)["detail"]
    general = {messages.KINDS[branch].detail for branch in (Refused, Unavailable)}
    assert told not in general


OWN_WORDS = {
    errors.MalformedRequest,
    errors.UnsupportedMediaType,
    errors.Unauthenticated,
    errors.BadSignature,
    errors.Forbidden,
    errors.Misdirected,
    errors.SubmissionRejected,
    errors.AttemptsExhausted,
    errors.NotKept,
    errors.MethodNotAllowed,
}
"""Errors that are made with a sentence or a name of ours, and with nothing that was sent."""


@pytest.mark.parametrize(
    "kind", [kind for kind in LEAVES if kind not in OWN_WORDS], ids=lambda kind: kind.__name__
)
def test_an_answer_never_repeats_what_an_error_names(kind: type[RankdError]) -> None:
    assert b"script" not in messages.refusal(made(kind), request_id="r").body
    assert "script" not in repr(render.refusal(made(kind)))


@pytest.mark.parametrize("kind", LEAVES, ids=lambda kind: kind.__name__)
def test_a_refusal_in_a_batch_says_what_a_single_one_is_told(kind: type[RankdError]) -> None:
    error = made(kind)
    alone = msgspec.json.decode(messages.refusal(error, request_id="r", writes=True).body)
    among = msgspec.json.decode(schemas.encode(render.refusal(error)))
    assert among["detail"] == alone["detail"]
    assert among.get("errors") == alone.get("errors")


@pytest.mark.parametrize(
    ("error", "field"),
    [
        (errors.SubmissionKeyReused(board="<script>", key="<script>"), "key"),
        (errors.InvalidCursor("<script>"), "cursor"),
        (errors.SubmissionRejected(reason="score_overflow", message="it is too much"), "score"),
    ],
    ids=lambda given: getattr(given, "code", given),
)
def test_what_is_about_one_field_names_it(error: RankdError, field: str) -> None:
    body = msgspec.json.decode(messages.refusal(error, request_id="r").body)
    assert body["status"] == 422
    assert [wrong["field"] for wrong in body["errors"]] == [field]


def test_an_unknown_window_is_answered_with_those_there_are() -> None:
    error = errors.UnknownWindow(board="b", window="<script>", known=("all", "daily"))
    body = msgspec.json.decode(messages.refusal(error, request_id="r").body)
    assert body["detail"].endswith("; its windows are all, daily")
    assert "script" not in repr(body)


def test_wrong_fields_are_listed() -> None:
    error = errors.InvalidPage([FieldError("limit", "must be less"), FieldError("", "is odd")])
    body = msgspec.json.decode(messages.refusal(error, request_id="r").body)
    assert body["status"] == 422
    assert body["errors"] == [
        {"field": "limit", "message": "must be less"},
        {"field": "", "message": "is odd"},
    ]
    assert "applied" not in body


def test_whether_a_write_was_applied_is_what_the_error_says() -> None:
    def applied(error: RankdError) -> str:
        response = messages.refusal(error, request_id="r", writes=True)
        return str(msgspec.json.decode(response.body)["applied"])

    assert applied(errors.LedgerUnavailable("x", applied="unknown")) == "unknown"
    assert applied(errors.LedgerUnavailable("x", applied="no")) == "no"
    assert applied(errors.Overloaded(waiting_max=1)) == "no"
    assert applied(errors.UnknownBoard("x")) == "no"
    assert applied(errors.LedgerCorrupt("x")) == "unknown"


def test_headers_say_when_to_come_back_and_how() -> None:
    def headers(error: RankdError) -> dict[bytes, bytes]:
        return dict(messages.refusal(error, request_id="r").headers)

    assert headers(errors.RateLimited(retry_after_seconds=7)) == {b"retry-after": b"7"}
    assert headers(errors.Overloaded(waiting_max=1)) == {b"retry-after": b"1"}
    assert headers(errors.MethodNotAllowed(("GET", "PUT"))) == {b"allow": b"GET, PUT"}
    assert headers(errors.Unauthenticated()) == {b"www-authenticate": b"Bearer"}
    assert headers(errors.NotFound()) == {}


def test_a_mistake_of_our_own_leaves_the_outcome_open_and_explains_nothing() -> None:
    response = messages.internal(request_id="r", writes=True)
    body = msgspec.json.decode(response.body)
    assert (response.status, body["code"], body["applied"]) == (500, "internal", "unknown")


def test_an_error_without_a_row_takes_that_of_its_branch() -> None:
    class Unheard(Unavailable):
        """An error somebody adds and does not put into the table."""

    response = messages.refusal(Unheard("<script>"), request_id="r")
    assert response.status == 503
    assert b"script" not in response.body
