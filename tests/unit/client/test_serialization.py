"""What JSON cannot say is refused before it is sent, by the name of the field that says it."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from math import inf, nan
from typing import Any

import pytest
from tests.unit.client.stand_in import AsyncStandIn, StandIn

from rankd.client import AsyncClient, Client, calls, service_error
from rankd.client.calls import Call
from rankd.client.serialization import encoded
from rankd.errors import Invalid, InvalidBoard, InvalidProfile, InvalidRequest, InvalidSubmission
from rankd.http_client import HttpRequest, HttpResponse

WIDE: Any = {"metadata": {"a": [1, {"b": -inf}], "c": Decimal("NaN")}, "columns": {"kills": inf}}


@pytest.mark.parametrize(
    ("build", "kind", "fields"),
    [
        (lambda: calls.submit("b", "p", nan), InvalidSubmission, ["score"]),
        (lambda: calls.submit("b", "p", nan, delta=5), InvalidSubmission, ["score"]),
        (lambda: calls.submit("b", "p", delta=Decimal("-Infinity")), InvalidSubmission, ["delta"]),
        (
            lambda: calls.submit("b", "p", 1, **WIDE),
            InvalidSubmission,
            ["columns.kills", "metadata.a[1].b", "metadata.c"],
        ),
        (
            lambda: calls.submit_batch([("p", 1), {"player": "q", "score": inf}], board="b"),
            InvalidSubmission,
            ["scores[1].score"],
        ),
        (
            lambda: calls.define("b", {"limits": {"score_max": inf}}),
            InvalidBoard,
            ["limits.score_max"],
        ),
        (
            lambda: calls.set_profile("p", attributes={"level": nan}),  # type: ignore[dict-item]
            InvalidProfile,
            ["attributes.level"],
        ),
        (
            lambda: calls.lookup("b", ["p", nan]),  # type: ignore[list-item]
            InvalidRequest,
            ["players[1]"],
        ),
    ],
)
def test_what_is_no_number_is_named(
    build: Callable[[], Call[Any]], kind: type[Invalid], fields: list[str]
) -> None:
    with pytest.raises(Invalid, match="must be a finite number") as refused:
        build()
    assert type(refused.value) is kind
    assert [error.field for error in refused.value.errors] == fields
    assert service_error(refused.value).applied == "no"


@dataclass
class Lap:
    seconds: float


def test_it_is_found_in_whatever_can_be_sent() -> None:
    with pytest.raises(InvalidRequest) as refused:
        encoded({"metadata": {"laps": (Lap(1.5), Lap(nan))}})
    assert [error.field for error in refused.value.errors] == ["metadata.laps[1].seconds"]


@pytest.mark.parametrize("said", [{"x": None}, {"name": "NaN"}, {"null": "Infinity"}, {"x": 1e308}])
def test_what_only_looks_like_it_is_sent(said: dict[str, object]) -> None:
    assert calls.submit("b", "p", 1, metadata=said).body


def unasked(_: HttpRequest) -> HttpResponse:
    raise AssertionError("something was sent")


def test_of_a_list_nothing_is_sent_if_the_last_of_it_is_none() -> None:
    scores = [*(("p", n) for n in range(5)), ("q", nan)]
    with Client("http://rankd.test", transport=StandIn(unasked)) as ranks:
        with pytest.raises(InvalidSubmission) as refused:
            ranks.submit_many(scores, board="b", batch=2)
        with pytest.raises(InvalidSubmission):
            ranks.submit("b", "p", nan, delta=5)
    assert [error.field for error in refused.value.errors] == ["scores[5].score"]


def test_a_client_with_an_event_loop_does_the_same() -> None:
    async def submit() -> None:
        transport = AsyncStandIn(unasked)
        async with AsyncClient("http://rankd.test", transport=transport) as ranks:
            with pytest.raises(InvalidSubmission):
                await ranks.submit("b", "p", nan, delta=5)
            with pytest.raises(InvalidSubmission):
                await ranks.submit_many([("p", 1), ("p", inf)], board="b", batch=1)

    asyncio.run(submit())


def test_of_what_comes_one_by_one_the_place_is_told_from_its_beginning() -> None:
    def scores() -> Iterator[tuple[str, float]]:
        yield from (("p", 1), ("p", 2), ("q", nan))

    batches = calls.batches(scores(), board="b", batch=2)
    assert next(batches).body
    with pytest.raises(InvalidSubmission) as refused:
        next(batches)
    assert [error.field for error in refused.value.errors] == ["scores[2].score"]
