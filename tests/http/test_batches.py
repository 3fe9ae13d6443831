"""A batch is answered as each of its submissions would be alone.

A plain batch is read and shown as columns; where one of it needs more than that, each is looked at.
A twin of the service, which looks at each of every batch, says what is right.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.http.lanes import PLAIN, Served, alike, keyed, post, ranking, served, told
from tests.http.running import run

from rankd.api import scores
from rankd.api.context import ServiceContext
from rankd.api.keys import NewKey, make_key
from rankd.api.messages import Request, Response
from rankd.core.writer import HandedIn, WriteResult
from rankd.errors import RankdError, UnsupportedMediaType
from rankd.model.facts import Position

Item = dict[str, Any]
BATCH = {"scores": [{"board": "b", "player": f"p{n}", "score": n} for n in range(5)]}


def batch(body: object, **headers: str) -> Request:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {"content-type": "application/json", "host": "localhost", **headers}
    shown = {name.encode(): value.encode() for name, value in sent.items()}
    return Request("POST", "/v1/scores:batch", {}, {}, shown, text, "127.0.0.1")


async def outcome(answering: Awaitable[Response]) -> object:
    try:
        return (await answering).body
    except RankdError as error:
        return type(error), str(error), getattr(error, "errors", None)


@asynccontextmanager
async def twins() -> AsyncIterator[tuple[Served, Served]]:
    async with served() as one, served() as twin:
        for each in (one, twin):
            await each.rankd.define("c", {"windows": ["daily", "all"], "rule": "latest"})
            await each.rankd.define("low", {"limits": {"score_max": 3}})
            await each.rankd.define("sum", {"rule": "sum"})
            await each.rankd.define("old", {})
            await each.rankd.redefine("old", {"decimals": 1})
            await each.rankd.corrections.set_player_state("bot", "banned", {"boards": ["c"]})
        yield one, twin


def item(board: str = "b", player: str = "p", score: object = 5, **more: object) -> Item:
    return {"board": board, "player": player, "score": score, **more}


BATCHES: dict[str, tuple[list[object], bool]] = {
    "plain": ([BATCH, BATCH], True),
    "one": ([{"scores": [item()]}], True),
    "mixed boards": ([{"scores": [item("bc"[n % 2], f"p{n}", n) for n in range(9)]}] * 2, True),
    "boards in rows": ([{"scores": [item("b"), item("b"), item("c"), item("c")]}] * 2, True),
    "keys": ([{"scores": [item(key="k"), item(key="l"), item("c", key="k")]}] * 2, True),
    "a key twice": ([{"scores": [item(key="k"), item(key="k"), item(score=6, key="k")]}], True),
    "some keys": ([{"scores": [item(), item(key="k"), item(score=9)]}] * 2, True),
    "to the bound": ([{"scores": [item("low", score=n) for n in (1, 3, 2)]}], True),
    "out of bounds": (
        [{"scores": [item(), item("low", score=4), item("low", score=3)]}] * 2,
        False,
    ),
    "a bad one": ([{"scores": [item(), item(player=""), item(score="x"), item()]}] * 2, False),
    "a banned player": ([{"scores": [item("c"), item("c", "bot"), item("b", "bot")]}] * 2, False),
    "no such board": ([{"scores": [item(), item("none"), item("c")]}] * 2, False),
    "no board": ([{"scores": [item(), {"player": "p", "score": 1}]}], False),
    "sum": ([{"scores": [item(), item("sum"), item("sum")]}] * 2, False),
    "redefined": ([{"scores": [item("old", key="k"), item("old")]}] * 2, False),
    "delta": ([{"scores": [item(), {"board": "b", "player": "p", "delta": 1}]}], False),
    "metadata": ([{"scores": [item(), item(metadata={"car": 1})]}] * 2, False),
    "attributes": (
        [{"scores": [item(), item("c", attributes={"a": "b", "c": "d"}), item(score=7)]}] * 2,
        True,
    ),
    "attributes of several kinds": ([{"scores": [item(attributes={"a": 1})]}] * 2, False),
    "no attributes": ([{"scores": [item(attributes={})]}], False),
    "an attribute twice": (
        [b'{"scores":[{"board":"b","player":"a","score":1,"attributes":{"a":"b","a":"c"}}]}'],
        False,
    ),
    "attributes null": ([{"scores": [item(attributes=None), item()]}], False),
    "attributes of other players": (
        [{"scores": [item(player=f"p{n}", attributes={"a": "bc"[n % 2]}) for n in range(9)]}] * 2,
        True,
    ),
    "many attributes": (
        [{"scores": [item(attributes={f"a{n}": "b" * 99 for n in range(12)})]}] * 2,
        False,
    ),
    "attributes not utf-8": (
        [b'{"scores":[{"board":"b","player":"a","score":1,"attributes":{"a":"\xff"}}]}'],
        False,
    ),
    "attributes half": (
        [b'{"scores":[{"board":"b","player":"a","score":1,"attributes":{"a":}}]}'],
        False,
    ),
    "attributes are a list": ([{"scores": [item(attributes=["a"])]}], False),
    "a wrong attribute": ([{"scores": [item(), item(attributes={"a": ""})]}], False),
    "key null": ([{"scores": [item(key=None), item()]}], False),
    "none": ([{"scores": []}], False),
    "not a list": ([{"scores": {}}], False),
    "unknown field": ([{"scores": [item(more=1)]}, {"scores": [item()], "more": 1}], False),
    "twice in one": ([b'{"scores":[{"board":"b","player":"a","player":"b","score":1}]}'], False),
    "scores twice": ([b'{"scores":[],"scores":[{"board":"b","player":"a","score":1}]}'], False),
    "key twice": (
        [b'{"scores":[{"board":"b","player":"a","score":1,"key":"k","key":null}]}'],
        False,
    ),
    "escapes": ([b'{"scores":[{"board":"b","player":"\\u0061","score":1}]}'], False),
    "not utf-8": ([b'{"scores":[{"board":"b","player":"\xff","score":1}]}'], False),
    "trailing": ([b'{"scores":[{"board":"b","player":"a","score":1}]}x'], False),
    "deep": ([b'{"scores":' + b"[" * 9000], False),
    "half": ([b'{"scores":[{"board":"b","player":"a","score":1.5}]}'], False),
}


@pytest.mark.parametrize("name", BATCHES)
def test_a_batch_is_answered_as_each_of_it_would_be(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def compare() -> None:
        in_general, general = scores._submit_each, Counter[str]()

        async def watched(service: ServiceContext, request: Request) -> Response:
            general[name] += 1
            return await in_general(service, request)

        monkeypatch.setattr(scores, "_submit_each", watched)
        bodies, plain = BATCHES[name]
        async with twins() as (one, twin):
            for body in bodies:
                got = await outcome(scores.submit_scores(one.service, batch(body)))
                assert got == await outcome(in_general(twin.service, batch(body)))
            assert general.total() == (0 if plain else len(bodies))
            assert await ranking(one) == await ranking(twin)

    run(compare())


def test_a_batch_has_so_many_at_most_however_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    async def compare() -> None:
        async with twins() as (one, twin):
            for count in (3, 4):
                body = {"scores": [item(player=f"p{n}") for n in range(count)]}
                got = await outcome(scores.submit_scores(one.service, batch(body)))
                assert got == await outcome(scores._submit_each(twin.service, batch(body)))
                assert isinstance(got, bytes) is (count == 3)

    monkeypatch.setattr(scores, "BATCH_SCORES_MAX", 3)
    run(compare())


@pytest.mark.parametrize("content_type", ["text/plain", "", "application/json; charset=utf-8"])
def test_a_batch_of_another_type_is_read_in_general(content_type: str) -> None:
    async def compare() -> None:
        async with twins() as (one, twin):
            for _ in range(2):
                asked = batch(BATCH, **{"content-type": content_type})
                got = await outcome(scores.submit_scores(one.service, asked))
                assert got == await outcome(scores._submit_each(twin.service, asked))

    run(compare())


def test_a_batch_that_is_said_to_be_compressed_is_refused() -> None:
    async def compare() -> None:
        async with twins() as (one, _):
            asked = batch(BATCH, **{"content-encoding": "gzip"})
            got = await outcome(scores.submit_scores(one.service, asked))
            assert isinstance(got, tuple) and got[0] is UnsupportedMediaType

    run(compare())


def test_a_batch_needs_the_right_to_each_of_its_boards() -> None:
    async def compare() -> None:
        async with twins() as (one, twin):
            got = []
            for each, handler in ((one, scores.submit_scores), (twin, scores._submit_each)):
                asked: NewKey = NewKey(scopes=["submit"], boards=["b"])
                fact, secret = make_key(asked, actor=None, now=0)
                await each.rankd.create_key(fact)
                for some in ([item()], [item(), item("c")]):
                    sent = batch({"scores": some}, authorization=f"Bearer {secret}")
                    got.append(await outcome(handler(each.service, sent)))
                stranger = batch({"scores": [item()]}, authorization="Bearer none")
                got.append(await outcome(handler(each.service, stranger)))
            assert got[:3] == got[3:]
            assert [isinstance(each, bytes) for each in got[:3]] == [True, False, False]
            facts = await one.ledger.read(after=one.rankd.position - 1, limit=1)  # type: ignore[arg-type]
            assert facts[0].fact.actor is not None  # type: ignore[attr-defined]

    run(compare())


def test_a_batch_that_was_overtaken_is_looked_at_again() -> None:
    async def overtake() -> None:
        async with twins() as (one, _):
            appends = one.ledger.begun
            one.ledger.hold()
            changing = asyncio.create_task(one.rankd.redefine("b", {"decimals": 2}))
            await one.ledger.asked(appends + 1)
            body = {"scores": [item(), item("c")]}
            answering = asyncio.create_task(outcome(scores.submit_scores(one.service, batch(body))))
            while one.rankd.waiting < 2:  # noqa: ASYNC110 - a queue has no event
                await asyncio.sleep(0)
            one.ledger.release()
            await changing
            got = await answering
            assert isinstance(got, bytes)
            assert [each["score"] for each in json.loads(got)["results"]] == [5.0, 5]
            assert [scores for *_, scores in await ranking(one)] == [(500,)]

    run(overtake())


ITEMS = st.builds(
    item,
    st.sampled_from(["b", "b", "c", "low"]),
    st.sampled_from(["p", "q", "é"]),
    st.integers(0, 4),
    key=st.sampled_from(["k", "l", "m"]),
) | st.builds(item, st.sampled_from(["b", "c"]), st.sampled_from(["p", "q"]), st.integers(0, 9))


@settings(derandomize=True, max_examples=30)
@given(st.lists(st.lists(ITEMS, min_size=1, max_size=8), min_size=1, max_size=4))
def test_any_batches_in_a_row_are_answered_as_each_of_them_would_be(
    batches: list[list[Item]],
) -> None:
    async def compare() -> None:
        async with twins() as (one, twin):
            for some in batches:
                asked = batch({"scores": some})
                got = await outcome(scores.submit_scores(one.service, asked))
                assert got == await outcome(scores._submit_each(twin.service, asked))

    run(compare())


# ------------------------------------------------------------------- alone and in a batch


def test_a_repeat_is_known_for_one_whatever_the_board_is_now() -> None:
    async def change() -> None:
        first, other = {"rule": "sum"}, {"rule": "best", "limits": {"score_max": 5}}
        async with served(first) as one, served(first) as twin:
            assert await alike(one, twin, keyed("p1", 5)) == [200]
            for each in (one, twin):
                await each.rankd.redefine("b", other)
            assert await alike(one, twin, *[keyed("p1", 5)] * 3) == [200] * 3
            assert await alike(one, twin, *[keyed("p1", 5, "l")] * 3) == [200] * 3
            assert told(await one.fast.ask(keyed("p1", 5)))["duplicate"] is True
            body = {"scores": [item(player="p1", key="k"), item(player="p1", key="m")]}
            for _ in range(2):
                got = await outcome(scores.submit_scores(one.service, batch(body)))
                assert got == await outcome(scores._submit_each(twin.service, batch(body)))
                assert isinstance(got, bytes)
                assert json.loads(got)["results"][0]["duplicate"] is True

    run(change())


def test_what_is_accepted_and_not_counted_yet_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where others share the index, a fact may be recorded before it can be judged."""
    judged = True

    def record(
        hand_in: Callable[..., None],
        facts: Sequence[Any],
        tell: HandedIn,
        *,
        boards: Sequence[Any] = (),
    ) -> None:
        if judged:
            hand_in(facts, tell, boards=boards)
            return
        answers = [WriteResult(Position(9), None, pending=fact) for fact in facts]
        asyncio.get_running_loop().call_soon(tell, answers)

    async def accept() -> None:
        nonlocal judged
        async with served() as one, served() as twin:
            for each in (one, twin):  # Before there is a plan, which holds on to it.
                writer = each.rankd._writer
                monkeypatch.setattr(writer, "hand_in", partial(record, writer.hand_in))
            await alike(one, twin, post(PLAIN), post(PLAIN))
            judged = False
            before = one.looked["submit_score"]
            assert await alike(one, twin, post(PLAIN), post(PLAIN)) == [202, 202]
            assert one.looked["submit_score"] == before
            got = await outcome(scores.submit_scores(one.service, batch(BATCH)))
            assert got == await outcome(scores._submit_each(twin.service, batch(BATCH)))

    run(accept())
