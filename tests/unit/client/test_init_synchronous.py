"""The client carries calls to the service and answers back, and adds only what it says."""

import inspect
from typing import Any

import msgspec
import pytest
from tests.unit.client.stand_in import Answer, StandIn, ok, sent_json

import rankd
from rankd import schemas
from rankd.client import Client, RetryPolicy, Unreachable, calls
from rankd.errors import Overloaded, RankdError
from rankd.http_client import HttpRequest, HttpResponse, TransportError

SOON = RetryPolicy(retries_max=3, backoff_seconds=0.001)
RECEIPT = schemas.Receipt("b", "p", "counted", 1, None, 1, None, None, 1, 100.0, 9, {})
PAGE = schemas.Page("b", "all", None, 1, 5, "exact", False, [], None, None)


def client(answer: Answer, **options: Any) -> Client:
    return Client(
        options.pop("url", "http://rankd.test"),
        policy=SOON,
        transport=StandIn(answer),
        **options,
    )


def test_a_request_carries_its_body_and_the_client_shows_no_key() -> None:
    seen: list[HttpRequest] = []

    def answer(request: HttpRequest) -> HttpResponse:
        seen.append(request)
        return ok(schemas.encode(RECEIPT))

    with client(answer, key="rk_secret", url="http://rankd.test/prefix/") as ranks:
        assert ranks.submit("b", "p", 1) == RECEIPT
        assert "rk_secret" not in repr(ranks)
    (request,) = seen
    assert (request.method, request.path) == ("POST", "/v1/boards/b/scores")
    assert request.headers["content-type"] == "application/json"


def test_a_retry_sends_the_same_key_again() -> None:
    keys: list[str] = []

    def answer(request: HttpRequest) -> HttpResponse:
        keys.append(msgspec.json.decode(sent_json(request))["key"])
        if len(keys) < 3:
            raise TransportError("cut off", sent=True)
        return ok(schemas.encode(RECEIPT))

    with client(answer) as ranks:
        ranks.submit("b", "p", delta=1)
    assert len(keys) == 3
    assert len(set(keys)) == 1


def test_a_service_that_stays_away_is_told_after_so_many_attempts() -> None:
    attempts = 0

    def answer(_: HttpRequest) -> HttpResponse:
        nonlocal attempts
        attempts += 1
        raise TransportError("connection refused", sent=False)

    with (
        client(answer) as ranks,
        pytest.raises(Unreachable, match=r"rankd\.test.*refused"),
    ):
        ranks.top("b")
    assert attempts == 1 + SOON.retries_max


def test_many_submissions_go_in_batches_and_a_failure_says_how_many_were_answered() -> None:
    requests = 0

    def answer(request: HttpRequest) -> HttpResponse:
        nonlocal requests
        requests += 1
        if requests > 2:
            body = {"status": 503, "detail": "full", "code": "overloaded", "applied": "no"}
            return ok(msgspec.json.encode(body), 503)
        count = len(msgspec.json.decode(sent_json(request))["scores"])
        return ok(schemas.encode(schemas.Results([RECEIPT] * count, 9)))

    with client(answer) as ranks:
        results = ranks.submit_many([("p", n) for n in range(5)], board="b", batch=3)
        assert results == [RECEIPT] * 5
        with pytest.raises(Overloaded) as caught:
            ranks.submit_many([("p", 1)], board="b")
    assert caught.value.__notes__ == ["answered before: 0 submissions"]


def test_a_walk_asks_for_the_next_page_only_when_it_is_needed() -> None:
    rows = [schemas.Row(n, f"p{n}", None, n, None, None) for n in range(1, 5)]
    asked = 0

    def answer(request: HttpRequest) -> HttpResponse:
        nonlocal asked
        asked += 1
        first = "cursor=" not in request.path
        page = msgspec.structs.replace(
            PAGE,
            standings=rows[:2] if first else rows[2:],
            next_cursor="c" if first else None,
        )
        return ok(schemas.encode(page))

    with client(answer) as ranks:
        walk = ranks.walk("b", limit=2)
        assert asked == 0
        assert [next(walk).player, next(walk).player] == ["p1", "p2"]
        assert asked == 1
        assert [row.player for row in walk] == ["p3", "p4"]


@pytest.mark.parametrize(
    "url",
    ["rankd.test", "ftp://rankd.test", "http://", "http://me:secret@rankd.test", "http://r.test?x"],
)
def test_an_address_that_is_none_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(ValueError, match="the address must") as caught:
        Client(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("key", ["", "with space", "line\nbreak", "ü"])
def test_a_key_that_cannot_be_sent_is_refused_without_repeating_it(key: str) -> None:
    with pytest.raises(ValueError, match="the key must be printable ASCII"):
        Client(key=key)


def test_methods_show_the_parameters_and_words_of_their_calls() -> None:
    for name in ("standing", "submit", "walk", "create_key"):
        made, build = getattr(Client, name), getattr(calls, name)
        assert made.__doc__ == build.__doc__
        shown = list(inspect.signature(made).parameters)
        assert shown == ["self", *inspect.signature(build).parameters]


def test_both_clients_have_the_same_methods() -> None:
    def names(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    assert names(rankd.Client) == names(rankd.AsyncClient)


def test_every_call_is_a_method() -> None:
    built = {
        name
        for name, thing in vars(calls).items()
        if inspect.isfunction(thing) and thing.__module__ == calls.__name__ and name[0] != "_"
    }
    assert built - {"batches", "new_key"} <= set(vars(Client))
    corrected = {"adjust", "retract", "undo_retraction", "remove", "set_metadata"}
    assert corrected | {"ban", "hide", "shadow", "restore"} <= set(vars(Client))


def test_a_long_call_is_asked_for_again_and_tells_how_far_it_is() -> None:
    paths: list[str] = []
    running = schemas.RunningOperation("abc", "running", "folding", 5, 10, "fact")
    effect = schemas.CorrectionResult(7, False, 3, 2, [], 0)

    def answer(request: HttpRequest) -> HttpResponse:
        paths.append(f"{request.method} {request.path}")
        if len(paths) < 3:
            return ok(schemas.encode(running), 202)
        return ok(schemas.encode(effect))

    told: list[schemas.RunningOperation] = []
    with client(answer) as ranks:
        assert ranks.retract("b", build="bad", progress=told.append) == effect
    assert told == [running, running]
    waiting = "POST /v1/operations/abc:wait?seconds=2"
    assert paths == ["POST /v1/boards/b/retractions", waiting, waiting]


def test_an_error_of_the_service_is_raised() -> None:
    body = {"status": 404, "detail": "none", "code": "unknown_board", "request_id": "r"}
    with (
        client(lambda _: ok(msgspec.json.encode(body), 404)) as ranks,
        pytest.raises(RankdError, match="none"),
    ):
        ranks.board("b")
