"""What an answer means: the error of its code, another attempt, and never wrongly "not applied"."""

from typing import Any

import msgspec
import pytest

from rankd import errors
from rankd.api.messages import KINDS, refusal
from rankd.client import calls
from rankd.client.responses import (
    RETRY_AFTER_SECONDS_MAX,
    Attempts,
    RetryPolicy,
    UnansweredCall,
    Unreachable,
    error_of,
    service_error,
)
from rankd.errors import Corrupt, NotRanked, RankdError, Refused, Unavailable
from rankd.http_client import HttpResponse

READ, WRITE = calls.standing("b", "p", window="daily"), calls.submit("b", "p", 1)
ONCE = calls.create_key(["read"])
DONE = HttpResponse(200, {}, b'{"position":3}')
BUSY = HttpResponse(503, {"retry-after": "1"}, b"")
LOST, NEVER_SENT = UnansweredCall("cut off", sent=True), UnansweredCall("refused", sent=False)


def answered(status: int, code: str, **more: Any) -> HttpResponse:
    body = {"status": status, "detail": "so it is", "code": code, "request_id": "r1", **more}
    return HttpResponse(status, {}, msgspec.json.encode(body))


@pytest.mark.parametrize("code", sorted(RankdError._taken))
def test_every_code_becomes_the_error_of_that_code(code: str) -> None:
    error = error_of(answered(422, code, errors=[{"field": "f", "message": "m"}]), WRITE)
    assert type(error) is RankdError._taken[code]
    assert str(error) == "so it is"
    assert service_error(error).request_id == "r1"


def test_what_the_service_sends_is_what_the_client_reads() -> None:
    """Through the service's own table of problems, so that the two cannot drift apart."""
    sent = errors.InvalidSubmission([errors.FieldError("score", "must be given")])
    response = refusal(sent, request_id="r7", writes=True)
    error = error_of(HttpResponse(response.status, {}, response.body), WRITE)
    assert isinstance(error, errors.InvalidSubmission)
    assert error.errors == sent.errors
    assert service_error(error) == ("invalid_submission", 422, "r7", "no")


def test_an_error_knows_what_was_asked() -> None:
    error = error_of(answered(404, "not_ranked"), READ)
    assert isinstance(error, NotRanked)
    assert (error.board, error.player, error.window) == ("b", "p", "daily")


def test_a_field_that_nobody_told_is_none_rather_than_missing() -> None:
    error = error_of(answered(422, "submission_rejected"), WRITE)
    assert isinstance(error, errors.SubmissionRejected)
    assert error.reason is None


@pytest.mark.parametrize(
    ("status", "branch"),
    [
        (400, Refused),
        (404, Refused),
        (301, Refused),
        (429, Unavailable),
        (502, Unavailable),
        (503, Unavailable),
        (504, Unavailable),
        (408, Unavailable),
        (500, Corrupt),
    ],
)
def test_an_unknown_code_becomes_the_branch_of_its_status(
    status: int, branch: type[RankdError]
) -> None:
    for answer in (answered(status, "from_the_future"), HttpResponse(status, {}, b"<html>proxy")):
        assert type(error_of(answer, READ)) is branch
    assert (
        service_error(error_of(answered(status, "from_the_future"), READ)).code == "from_the_future"
    )


def test_the_statuses_of_the_service_lead_to_the_branches_of_its_errors() -> None:
    for kind, row in KINDS.items():
        branch = next(b for b in (Refused, Unavailable, Corrupt) if issubclass(kind, b))
        assert type(error_of(HttpResponse(row.status, {}, b""), READ)) is branch


# ---------------------------------------------------------------------------- attempts


def attempt(call: Any, *outcomes: HttpResponse | UnansweredCall, retries: int = 3) -> list[float]:
    """Give outcomes one after another; return the waits between them."""
    attempts: Attempts[Any] = Attempts(call, RetryPolicy(retries_max=retries))
    waits = []
    for outcome in outcomes:
        wait = attempts.judge(outcome)
        if wait is None:
            break
        waits.append(wait)
    return waits


@pytest.mark.parametrize("outcome", [LOST, NEVER_SENT, BUSY])
def test_what_may_succeed_later_is_tried_again(outcome: HttpResponse | UnansweredCall) -> None:
    assert len(attempt(calls.erase("p"), outcome, outcome, DONE)) == 2


def test_attempts_end() -> None:
    with pytest.raises(Unreachable, match="cut off"):
        attempt(READ, *[LOST] * 4, retries=3)


def test_what_is_refused_is_not_tried_again() -> None:
    with pytest.raises(NotRanked):
        attempt(READ, answered(404, "not_ranked"))


def test_what_must_not_be_done_twice_is_tried_again_only_if_it_was_surely_not_done() -> None:
    made = HttpResponse(201, {}, b'{"id":"i","scopes":[],"boards":null,"title":null}')
    assert len(attempt(ONCE, NEVER_SENT, made)) == 1
    assert len(attempt(ONCE, answered(503, "overloaded", applied="no"), made)) == 1
    for unsure in (LOST, answered(503, "ledger_unavailable", applied="unknown"), BUSY):
        with pytest.raises(Unavailable):
            attempt(ONCE, unsure, made)


def test_after_an_attempt_that_nobody_answered_no_refusal_says_it_was_not_applied() -> None:
    with pytest.raises(Refused) as caught:
        attempt(WRITE, LOST, answered(404, "unknown_board", applied="no"))
    assert service_error(caught.value).applied == "unknown"


@pytest.mark.parametrize(
    ("call", "outcome", "applied"),
    [(WRITE, LOST, "unknown"), (WRITE, NEVER_SENT, "no"), (READ, LOST, None)],
)
def test_an_unanswered_call_says_whether_it_may_have_been_done(
    call: Any, outcome: UnansweredCall, applied: str | None
) -> None:
    with pytest.raises(Unreachable) as caught:
        attempt(call, outcome, retries=0)
    assert service_error(caught.value).applied == applied
    assert service_error(caught.value).code == "unreachable"


def test_an_answer_that_cannot_be_read_is_told_and_not_tried_again() -> None:
    with pytest.raises(Refused, match="not rankd") as caught:
        attempt(WRITE, HttpResponse(200, {}, b"<html>hello"))
    assert service_error(caught.value).applied == "unknown"


def test_waits_grow_and_are_bounded() -> None:
    policy = RetryPolicy(backoff_seconds=0.1, backoff_seconds_max=1.0)
    for retry in range(60):
        longest = min(1.0, 0.1 * 2**retry)
        assert longest / 2 <= policy.wait_before(retry, 0.0) <= longest


def test_the_service_is_given_the_time_it_asks_for_within_reason() -> None:
    (wait,) = attempt(READ, BUSY._replace(headers={"retry-after": "2"}), retries=1)
    assert wait >= 2
    (wait,) = attempt(READ, BUSY._replace(headers={"retry-after": "99999"}), retries=1)
    assert wait <= RETRY_AFTER_SECONDS_MAX + RetryPolicy().backoff_seconds_max
    (wait,) = attempt(READ, BUSY._replace(headers={"retry-after": "soon"}), retries=1)
    assert wait <= RetryPolicy().backoff_seconds_max


def test_an_error_from_elsewhere_has_nothing_to_tell_but_its_code() -> None:
    assert service_error(errors.UnknownBoard("b")) == ("unknown_board", None, None, None)


def test_a_status_that_is_an_answer_is_read_and_not_raised() -> None:
    body = b'{"status":"unavailable","position":3,"durable":true,"problem":"lost"}'
    attempts = Attempts(calls.status(), RetryPolicy())
    assert attempts.judge(HttpResponse(503, {}, body)) is None
    assert attempts.result.problem == "lost"
    attempts = Attempts(calls.status(), RetryPolicy())
    with pytest.raises(Refused, match="not rankd"):
        attempts.judge(HttpResponse(503, {}, b"<html>"))
