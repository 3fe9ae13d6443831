"""Verifiers at an address: they are posted held submissions, and their answers decide."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import pytest
from standardwebhooks import Webhook
from tests.unit.core.doubles import FaultyLedger, SetClock, SharedLedger, bare, verified
from tests.unit.core.test_verifiers import SECOND, decided, scores, submit, until
from tests.webhook_receiver import Got, receiving, response

from rankd.adapters.http_sender import HttpSender
from rankd.api.keys import NewKey, make_signing_key
from rankd.core import verifiers as module
from rankd.core.assembly import running
from rankd.core.engine import Engine
from rankd.errors import InvalidBoard
from rankd.ports import Ledger

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(module, "RETRY_SECONDS_MIN", 0.01)
    monkeypatch.setattr(module, "RETRY_SECONDS_MAX", 0.02)


@asynccontextmanager
async def engine(
    ledger: Ledger | None = None, clock: SetClock | None = None, **given: Any
) -> AsyncIterator[Engine]:
    async with running(
        ledger=ledger or FaultyLedger(),
        build=bare,
        clock=clock or SetClock(int(time.time()) * SECOND),
        reading=nullcontext(),
        sender=HttpSender(private_addresses=True),
        **given,
    ) as rankd:
        yield rankd


def answering(approved: object, **more: Any) -> bytes:
    return response(200, json.dumps({"approved": approved, **more}).encode())


async def key_of(rankd: Engine, **given: Any) -> tuple[str, str]:
    asked = NewKey(signing="webhook", **given)
    fact, secret = make_signing_key(asked, actor=None, now=rankd.ledger_time)
    await rankd.create_key(fact)
    assert secret is not None
    return fact.id, secret


async def test_an_answer_decides_and_the_request_is_signed() -> None:
    def respond(got: Got) -> bytes:
        return answering(json.loads(got.body)["score"] < 10, reason="played again")

    async with receiving(respond) as receiver, engine() as rankd:
        id, secret = await key_of(rankd)
        await rankd.define("b", {"decimals": 1, "verifier": {"url": receiver.url, "key": id}})
        run = (await rankd.runs.start("b", "ann")).run
        more = {"metadata": {"moves": [1]}, "build": "1.2", "key": "k", "run": run}
        await submit(rankd, "ann", "5.5", **more)  # type: ignore[arg-type]
        await submit(rankd, "bob", 50)
        await until(decided(rankd, 2))
        assert await scores(rankd) == {"ann": 55}
        reviews = list(rankd.state.reviews.listed.values())
        assert {one.decided_by for one in reviews} == {f"verifier:127.0.0.1:{receiver.port}"}
        assert {one.why for one in reviews} == {"played again"}
        first = next(got for got in receiver.got if b'"ann"' in got.body)
        body = Webhook(secret).verify(first.body, first.headers)
        assert first.headers["webhook-id"] == f"review_{reviews[0].id}"
        assert body.pop("seed") and body.pop("run_seconds") >= 0
        assert body == {
            "id": reviews[0].id,
            "board": "b",
            "player": "ann",
            "score": 5.5,
            "columns": {"score": 5.5},
            "delta": None,
            **more,
            "run": run.split(".")[1],
        }
        await verified(rankd)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (response(500), "has the status 500, not 200"),
        (response(204), "has the status 204, not 200"),
        (response(307, b"", "location: http://127.0.0.1:1/"), "has the status 307, not 200"),
        (response(200, b"true"), "the answer is not like"),
        (response(200, b"{}"), "the answer is not like"),
        (answering("yes"), "the answer is not like"),
        (answering(1), "the answer is not like"),
        (response(200, b"\xff" * 9), "the answer is not like"),
        (answering(True, reason="x" * 100_000), "a response of over 65,536 bytes"),
        (None, "the connection was closed"),
    ],
)
async def test_anything_else_is_asked_again(
    answer: bytes | None, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    ids: list[str] = []

    def respond(got: Got) -> bytes | None:
        ids.append(got.headers["webhook-id"])
        return answer if len(ids) < 3 else answering(True)

    with caplog.at_level(logging.WARNING):
        async with receiving(respond) as receiver, engine() as rankd:
            await rankd.define("b", {"verifier": {"url": receiver.url}})
            await submit(rankd, "ann", 5)
            await until(decided(rankd, 1))
            assert await scores(rankd) == {"ann": 5}
    assert len(ids) == 3 and len(set(ids)) == 1, "the id tells a repetition"
    assert problem in caplog.text


async def test_a_reason_is_shortened_to_what_reviews_take() -> None:
    given = " a\n" + "b" * 600
    async with receiving(lambda _: answering(True, reason=given)) as receiver, engine() as rankd:
        await rankd.define("b", {"verifier": {"url": receiver.url}})
        await submit(rankd, "ann", 5)
        await until(decided(rankd, 1))
        (review,) = rankd.state.reviews.listed.values()
        assert review.why is not None and review.why.startswith("a b") and len(review.why) <= 500


async def test_a_verifier_that_hangs_does_not_hold_up_that_of_another_board(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def hang(got: Got) -> bytes:
        if got.path == "/hang":
            await asyncio.sleep(60)
        return answering(True)

    async with receiving(hang) as receiver, engine() as rankd:
        url = receiver.url
        await rankd.define("b", {"verifier": {"url": url.replace("/hook", "/hang")}})
        await rankd.define("c", {"verifier": {"url": url}})
        await rankd.submit("b", [(f"p{n}", n) for n in range(30)])
        await rankd.submit("c", [("ann", 1)])
        await until(decided(rankd, 1))
        assert len(receiver.got) == module.VERIFIED_TOGETHER_MAX + 1
        monkeypatch.setattr(module, "VERIFY_SECONDS_MAX", 0.01)


async def test_an_unusable_key_is_told_and_scores_wait(caplog: pytest.LogCaptureFixture) -> None:
    async with receiving(lambda _: answering(True)) as receiver, engine() as rankd:
        other, _ = await key_of(rankd, boards=["c"])
        id, _ = await key_of(rankd)
        await rankd.define("b", {"verifier": {"url": receiver.url, "key": other}})
        with caplog.at_level(logging.WARNING):
            await submit(rankd, "ann", 5)
            await until(lambda: "is for other boards" in caplog.text)
            await rankd.revoke_key(other)
            await until(lambda: f"there is no key {other}" in caplog.text)
        assert receiver.got == []
        await rankd.redefine("b", {"verifier": {"url": receiver.url, "key": id}})
        await until(decided(rankd, 1))


@pytest.mark.parametrize(
    ("verifier", "field"),
    [
        ({}, "verifier.name"),
        ({"url": "game.example"}, "verifier.url"),
        ({"url": 5}, "verifier.url"),
        ({"url": "https://a:b@game.example/"}, "verifier.url"),
        ({"url": "https://game.example/", "name": "x"}, "verifier.name"),
        ({"url": "https://game.example/", "key": "x"}, "verifier.key"),
        ({"name": "x", "key": "0123456789ab"}, "verifier.key"),
    ],
)
async def test_a_wrong_definition_is_told(verifier: Any, field: str) -> None:
    async with engine() as rankd:
        with pytest.raises(InvalidBoard) as told:
            await rankd.define("b", {"verifier": verifier})
        assert [error.field for error in told.value.errors] == [field]


async def test_the_node_that_recorded_it_posts_and_a_managing_one_takes_over() -> None:
    ledger, clock = SharedLedger(), SetClock(int(time.time()) * SECOND)
    hung = asyncio.Event()

    async def respond(got: Got) -> bytes:
        if not hung.is_set():
            hung.set()
            await asyncio.sleep(60)
        return answering(True)

    async with receiving(respond) as receiver, engine(ledger, clock) as manager:
        await manager.define("b", {"verifier": {"url": receiver.url}})
        async with engine(ledger, clock, manages=False) as dying:
            await submit(dying, "ann", 1)
            await hung.wait()
        async with engine(ledger, clock, manages=False):
            clock.time += int(module.TAKEOVER_SECONDS) * SECOND
            await until(decided(manager, 1))
        assert len(receiver.got) == 2
        assert receiver.got[0].headers["webhook-id"] == receiver.got[1].headers["webhook-id"]


async def test_a_private_address_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        async with receiving() as receiver, engine() as rankd:
            rankd.verification.sender = HttpSender()
            await rankd.define("b", {"verifier": {"url": receiver.url.replace("http", "https")}})
            await submit(rankd, "ann", 5)
            await until(lambda: "webhook_private_addresses does not allow" in caplog.text)
            assert receiver.got == []
