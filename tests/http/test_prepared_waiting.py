"""A known submission waits for its commit: what comes, goes and changes meanwhile.

It was taken without a handler, and a callback answers it. Until then its sender may ask on, go away
or half-close, its board and its key may change, and the server may be told to stop.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.http.lanes import (
    PLAIN,
    get,
    keyed,
    new_key,
    post,
    ranking,
    request,
    served,
    status,
    told,
)
from tests.http.running import run
from tests.http.wire import from_the_loop

from rankd.api.connection import DEAD
from rankd.core.engine import Engine

# ---------------------------------------------------------------------------- connections


def test_what_comes_while_a_submission_is_under_way_waits_its_turn() -> None:
    async def crowd() -> None:
        async with served() as service:
            sent = post(PLAIN)
            line = await service.know(sent)
            before, appends = service.looked["submit_score"], service.ledger.begun
            service.ledger.hold()
            await line.send(sent)
            await service.ledger.asked(appends + 1)
            await from_the_loop(line.protocol.data_received, get("p1") + sent)
            assert not line.readable.is_set()
            assert service.looked["submit_score"] == before
            service.ledger.release()
            statuses = [status(await line.answer()) for _ in range(3)]
            assert statuses == [200, 200, 200]
            assert line.readable.is_set()

    run(crowd())


def test_submissions_of_many_connections_share_a_commit() -> None:
    async def crowd() -> None:
        async with served() as service:
            lines = [await service.know(post(PLAIN)) for _ in range(8)]
            appends = service.ledger.begun
            service.ledger.hold()
            await lines[0].send(post(PLAIN))
            await service.ledger.asked(appends + 1)
            for number, line in enumerate(lines[1:], start=1):
                await line.send(post({"player": f"p{number}", "score": 9}))
            service.ledger.release()
            answers = [told(await line.answer()) for line in lines]
            assert [answer["player"] for answer in answers] == [
                "p1",
                *(f"p{number}" for number in range(1, 8)),
            ]
            assert service.ledger.begun == appends + 2
            assert service.looked["submit_score"] == 1

    run(crowd())


def test_who_goes_away_before_the_answer_takes_nothing_along() -> None:
    async def leave() -> None:
        async with served() as service:
            sent = keyed("p1", 5)
            line, other = await service.know(post(PLAIN)), await service.know(post(PLAIN))
            await line.ask(keyed("p0", 4, "j"))
            appends, taken = service.ledger.begun, service.looked["submit_score"]
            service.ledger.hold()
            await line.send(sent)
            await other.send(post({"player": "p2", "score": 7}))
            await service.ledger.asked(appends + 1)
            line.close()
            await line.lost.wait()
            service.ledger.release()
            assert told(await other.answer())["rank"] == 1
            assert service.looked["submit_score"] == taken
            assert (bytes(line.sent).count(b"HTTP/1.1"), line.protocol.phase) == (2, DEAD)
            retried = told(await other.ask(sent))
            assert (retried["duplicate"], retried["player"]) == (True, "p1")

    run(leave())


def test_who_half_closes_gets_the_answer_and_then_the_end() -> None:
    async def end() -> None:
        async with served() as service:
            line = await service.know(post(PLAIN))
            appends = service.ledger.begun
            service.ledger.hold()
            await line.send(post(PLAIN))
            await service.ledger.asked(appends + 1)
            assert await from_the_loop(line.protocol.eof_received)
            service.ledger.release()
            assert status(await line.answer()) == 200
            await line.lost.wait()

    run(end())


def test_a_server_that_stops_answers_what_it_took_and_closes() -> None:
    async def stop() -> None:
        answers = []
        for first_time in (True, False):
            async with served() as service:
                await service.rankd.submit("b", [("p1", 1)])
                line = service.fast.connect() if first_time else await service.know(post(PLAIN))
                if first_time:
                    await service.rankd.submit("b", [("p1", 5)])
                appends = service.ledger.begun
                service.ledger.hold()
                await line.send(post(PLAIN))
                await service.ledger.asked(appends + 1)
                await from_the_loop(line.protocol.shutdown)
                service.ledger.release()
                answers.append(await line.answer())
                assert line.ended or line.is_closing()
                line.close()
                await line.lost.wait()
        assert answers[0] == answers[1]
        assert b"\r\nconnection: close\r\n" in answers[1]

    run(stop())


# ------------------------------------------------------------------------------ overtaken

OVERTAKING: dict[str, tuple[Callable[[Engine], Awaitable[object]], int]] = {
    "redefined": (lambda rankd: rankd.redefine("b", {"decimals": 2}), 200),
    "bounded": (
        lambda rankd: rankd.redefine("b", {"limits": {"score_max": 4}}, drop_scores=True),
        422,
    ),
    "retired": (lambda rankd: rankd.retire("b"), 404),
}


@pytest.mark.parametrize("then", ["waits", "asks on", "half-closes", "goes away", "stops"])
@pytest.mark.parametrize("name", OVERTAKING)
def test_a_submission_that_was_overtaken_is_looked_at_again(name: str, then: str) -> None:
    async def overtake() -> None:
        change, expected = OVERTAKING[name]
        async with served() as service:
            await service.rankd.define("c", {})
            await service.rankd.submit("c", [("q", 1)])
            line, score = await service.know(post(PLAIN)), post({"player": "p1", "score": 7})
            handled, appends = service.looked["submit_score"], service.ledger.begun
            service.ledger.hold()
            changing = asyncio.ensure_future(change(service.rankd))
            await service.ledger.asked(appends + 1)
            await line.send(score)
            assert service.looked["submit_score"] == handled
            behind = request("GET", "/v1/boards/c/standings/q")
            if then == "asks on":
                await from_the_loop(line.protocol.data_received, behind)
            elif then == "half-closes":
                assert await from_the_loop(line.protocol.eof_received)
            elif then == "goes away":
                line.close()
                await line.lost.wait()
            elif then == "stops":
                await from_the_loop(line.protocol.shutdown)
            service.ledger.release()
            await changing
            if then == "goes away":
                assert await line.answer() == b""
            else:
                answer = await line.answer()
                assert status(answer) == expected
                assert (b"\r\nconnection: close\r\n" in answer) is (then == "stops")
            if then == "asks on":
                assert await line.answer() == await service.other.ask(behind)
            if then == "half-closes":
                await line.lost.wait()
            if then in ("waits", "asks on"):
                assert await line.ask(behind) == await service.other.ask(behind)
                assert line.readable.is_set()
            line.close()
            await line.lost.wait()
            (counted,) = await service.rankd.submit("c", [("q", 9)])  # The engine goes on.
            assert counted.receipt is not None
            assert service.rankd.failure is None
            if expected == 200 and then != "goes away":
                assert [each[1:] for each in await ranking(service)] == [(1, "p1", (700,))]

    run(overtake())


def test_a_submission_overtaken_by_the_end_of_its_key_is_refused_and_stops_nobody() -> None:
    async def overtake() -> None:
        async with served() as service:
            _, admin = await new_key(service.rankd, "admin")
            id, shown = await new_key(service.rankd, "submit")
            sent = post(PLAIN, authorization=shown)
            line, appends = await service.know(sent), service.ledger.begun
            service.ledger.hold()
            revoking = asyncio.ensure_future(service.rankd.revoke_key(id))
            await service.ledger.asked(appends + 1)
            changing = asyncio.ensure_future(service.rankd.redefine("b", {"decimals": 2}))
            await asyncio.sleep(0)
            await line.send(sent)
            service.ledger.release()
            await asyncio.gather(revoking, changing)
            assert status(await line.answer()) in (200, 401)  # As their turns came.
            assert status(await line.ask(sent)) == 401
            assert status(await line.ask(post(PLAIN, authorization=admin))) == 200

    run(overtake())
