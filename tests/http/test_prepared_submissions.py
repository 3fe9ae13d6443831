"""A submission whose head is known is answered as the other lane answers it.

Its body is read by a strict type, without a handler; one that says anything but a player, a score
and a key is left to it. What the board, the writer and the ledger refuse is told as ever. A twin
of the service is asked in the other lane, since nothing can be submitted twice.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest
from tests.http.lanes import (
    ORIGIN,
    PLAIN,
    SCORES,
    alike,
    get,
    keyed,
    post,
    ranking,
    request,
    served,
    status,
    told,
)
from tests.http.running import run

from rankd.api import plans


class Case(NamedTuple):
    """Requests that follow one another, and how many of them need no handler."""

    asked: Sequence[bytes]
    taken: int
    definition: Mapping[str, object] = {}


def twice(body: object, taken: int = 0, /, **definition: object) -> Case:
    return Case([post(body), post(body)], taken, definition)


BOUNDED = {"limits": {"score_min": 0, "score_max": 9}}
TWO = {"columns": [{"name": "a"}, {"name": "b"}]}

CASES: dict[str, Case] = {
    "plain": twice(PLAIN, 1),
    "better and worse": Case([post({"player": "p", "score": n}) for n in (5, 7, 3, 9)], 3),
    "white space": twice(b' {\n"score" : 5 ,\t"player":"p1" } ', 1),
    "letters of all kinds": twice('{"player":"é😀","score":5}'.encode(), 1),
    "the largest": twice({"player": "p", "score": 2**63 - 1}, 1),
    "the smallest": twice({"player": "p", "score": -(2**63)}, 1),
    "a whole number with a point": twice(b'{"player":"p","score":5.0}', 1),
    "a power of ten": twice(b'{"player":"p","score":5e2}', 1),
    "minus zero": twice(b'{"player":"p","score":-0}', 1),
    "retry": Case([keyed("p1", 5), keyed("p1", 5), keyed("p1", 5)], 2),
    "key reused": Case([keyed("p1", 5), keyed("p1", 6), keyed("p2", 5)], 2),
    "other keys": Case([keyed("p1", n, f"k{n}") for n in (3, 5, 4, 5)], 3),
    "many windows": Case([post(PLAIN)] * 3, 2, {"windows": ["daily", "all", "weekly"]}),
    "no window of all time": Case([post(PLAIN)] * 3, 2, {"windows": ["weekly", "daily"]}),
    "first": Case([post(PLAIN)] * 3, 2, {"rule": "first"}),
    "latest": Case([post({"player": "p", "score": n}) for n in (5, 3, 3)], 2, {"rule": "latest"}),
    "lower": Case(
        [post({"player": "p", "score": n}) for n in (5, 3, 7)], 2, {"direction": "lower"}
    ),
    "ties": Case([post({"player": p, "score": 5}) for p in "abcd"], 3, {"ties": "standard"}),
    "dense": Case([post({"player": p, "score": 5}) for p in "abcd"], 3, {"ties": "dense"}),
    "segments": Case([post(PLAIN)] * 3, 2, {"segments": ["region"]}),
    "bounds kept": twice({"player": "p", "score": 9}, 1, **BOUNDED),
    "too high": twice({"player": "p", "score": 10}, **BOUNDED),
    "too low": twice({"player": "p", "score": -1}, **BOUNDED),
    "past 64 bits": twice({"player": "p", "score": 2**63}),
    "far past 64 bits": twice({"player": "p", "score": 10**30}),
    "half a point": twice(b'{"player":"p","score":1.5}'),
    "text": twice({"player": "p", "score": "5"}),
    "null": twice({"player": "p", "score": None}),
    "true": twice({"player": "p", "score": True}),
    "no score": twice({"player": "p"}),
    "no player": twice({"score": 5}),
    "a number for a player": twice({"player": 7, "score": 5}),
    "an empty player": twice({"player": "", "score": 5}),
    "a player too long": twice({"player": "x" * 257, "score": 5}),
    "not printable": twice(b'{"player":"a\x7fb","score":5}'),
    "not utf-8": twice(b'{"player":"\xff","score":5}'),
    "escapes": twice(b'{"player":"\\u0061","score":5}'),
    "an escaped name": twice(b'{"pl\\u0061yer":"a","score":5}'),
    "a surrogate": twice(b'{"player":"\\ud800","score":5}'),
    "player twice": twice(b'{"player":"a","player":"b","score":5}'),
    "score twice": twice(b'{"player":"a","score":4,"score":5}'),
    "key twice": twice(b'{"player":"a","score":4,"key":"k","key":"l"}'),
    "key twice, once null": twice(b'{"player":"a","score":4,"key":"k","key":null}'),
    "key null": twice(b'{"player":"a","score":4,"key":null}'),
    "key empty": twice({**PLAIN, "key": ""}),
    "key a number": twice({**PLAIN, "key": 7}),
    "key too long": twice({**PLAIN, "key": "k" * 129}),
    "unknown field": twice({**PLAIN, "more": 1}),
    "its board": twice({**PLAIN, "board": "b"}),
    "another board": twice({**PLAIN, "board": "c"}),
    "metadata": twice({**PLAIN, "metadata": {"car": "red", "laps": [1, 2.50, None, True]}}, 1),
    "metadata and key": Case([post({**PLAIN, "metadata": [1], "key": k}) for k in "klk"], 2),
    "metadata null": twice({**PLAIN, "metadata": None}),
    "metadata twice": twice(b'{"player":"a","score":4,"metadata":{"a":1},"metadata":{"a":2}}'),
    "metadata's key twice": twice(b'{"player":"a","score":4,"metadata":{"a":1,"a":2}}'),
    "metadata of a large number": twice({**PLAIN, "metadata": 10**30}),
    "metadata not a number": twice(b'{"player":"a","score":4,"metadata":NaN}'),
    "metadata too deep": twice(
        b'{"player":"a","score":4,"metadata":' + b"[" * 32 + b"]" * 32 + b"}"
    ),
    "metadata nearly too deep": twice(
        b'{"player":"a","score":4,"metadata":' + b"[" * 31 + b"]" * 31 + b"}", 1
    ),
    "metadata too large": twice({**PLAIN, "metadata": "x" * 5000}),
    "attributes": twice({**PLAIN, "attributes": {"region": "eu"}}, 1, segments=["region"]),
    "attributes of several kinds": twice({**PLAIN, "attributes": {"region": "eu", "level": 7}}),
    "no attributes": twice({**PLAIN, "attributes": {}}),
    "null for attributes": twice({**PLAIN, "attributes": None}),
    "an attribute twice": twice(
        b'{"player":"p1","score":5,"attributes":{"region":"eu","region":"us"}}'
    ),
    "attributes twice": twice(
        b'{"player":"p1","score":5,"attributes":{"a":"b"},"attributes":{"a":"b"}}'
    ),
    "an attribute without text": twice({**PLAIN, "attributes": {"region": ""}}),
    "an attribute with a wrong name": twice({**PLAIN, "attributes": {"re gion": "eu"}}),
    "attributes beyond the bound": twice(
        {**PLAIN, "attributes": {f"a{number}": "b" for number in range(100)}}
    ),
    "delta": twice({"player": "p1", "delta": 5}),
    "trailing bytes": twice(b'{"player":"p1","score":5}x'),
    "trailing brace": twice(b'{"player":"p1","score":5}}'),
    "cut off": twice(b'{"player":"p1","score":5'),
    "a leading zero": twice(b'{"player":"p1","score":05}'),
    "not a number": twice(b'{"player":"p1","score":NaN}'),
    "a list": twice([PLAIN]),
    "nothing": twice(b""),
    "null alone": twice(b"null"),
    "deep": twice(b'{"player":"p1","score":' + b"[" * 9000),
    "deep unknown": twice(b'{"more":' + b"[" * 9000),
    "a mark before it": twice(b'\xef\xbb\xbf{"player":"p1","score":5}'),
    "sum": Case([post(PLAIN)] * 3, 0, {"rule": "sum"}),
    "decimals": Case([post(PLAIN)] * 3, 0, {"decimals": 2}),
    "columns": Case([post({**PLAIN, "columns": {"b": 2}})] * 2, 0, TWO),
    "columns missing": Case([post(PLAIN)] * 2, 0, TWO),
    "json by another name": Case([post(PLAIN, content_type="application/x+json")] * 2, 0),
    "key in the header": Case([post(PLAIN, idempotency_key='"k"')] * 3, 0),
    "other key in the header": Case([post(PLAIN, idempotency_key=k) for k in "klk"], 0),
    "signature": Case([post(PLAIN), post(PLAIN, rankd_signature="t=1"), post(PLAIN)], 1),
    "both keys": Case([keyed("p1", 5, "k", idempotency_key=key) for key in "kkll"], 0),
    "origin": Case([post(PLAIN, origin=ORIGIN)] * 2, 0),
    "no such board": Case([post(PLAIN, "/v1/boards/none/scores")] * 2, 0),
    "large head": Case([post(PLAIN, accept="a;" + "x" * plans.KEY_BYTES_MAX)] * 2, 0),
    "closing": Case([post(PLAIN), post(PLAIN, connection="close")], 0),
    "query": Case([post(PLAIN, f"{SCORES}?more=1")] * 2, 0),
}
EITHER_WAY = {"a whole number with a point", "a power of ten", "json by another name"}
"""Whether these are read by the handler or without it is nobody's business."""


@pytest.mark.parametrize("name", CASES)
def test_a_submission_is_answered_as_the_other_lane_answers_it(name: str) -> None:
    async def compare() -> None:
        case = CASES[name]
        async with served(case.definition) as one, served(case.definition) as twin:
            for sent in case.asked:
                assert await one.fast.ask(sent) == await twin.other.ask(sent)
            handled = one.looked["submit_score"]
            if name not in EITHER_WAY:
                routed = name not in {"no such board", "query", "closing"}
                assert handled == len(case.asked) - case.taken or not routed
            assert await ranking(one) == await ranking(twin)

    run(compare())


@pytest.mark.parametrize("content_type", ["text/plain", "", "application/json; charset=latin-1"])
def test_a_submission_of_another_type_is_refused_each_time(content_type: str) -> None:
    async def compare() -> None:
        async with served() as one, served() as twin:
            sent = post(PLAIN, content_type=content_type)
            assert await alike(one, twin, sent, sent, sent) == [415] * 3
            bare = request("POST", SCORES, b'{"player":"p1","score":5}')
            assert await alike(one, twin, bare, bare) == [415] * 2
            assert await ranking(one) == []

    run(compare())


def test_a_submission_that_is_said_to_be_compressed_is_refused_each_time() -> None:
    async def compare() -> None:
        async with served() as one, served() as twin:
            sent = post(PLAIN, content_encoding="gzip")
            assert await alike(one, twin, sent, sent, sent) == [415] * 3
            assert await ranking(one) == []
            same = post(PLAIN, content_encoding="identity")
            assert await alike(one, twin, same, same) == [200] * 2

    run(compare())


def test_a_full_queue_refuses_what_is_known_as_it_refuses_what_is_not() -> None:
    async def crowd() -> None:
        async with served() as one, served() as twin:
            await alike(one, twin, post(PLAIN), post(PLAIN))
            for each in (one, twin):
                each.rankd._writer._waiting_max = 0
            assert await alike(one, twin, post(PLAIN), post(PLAIN)) == [503, 503]
            assert told(await one.fast.ask(post(PLAIN)))["code"] == "overloaded"
            for each in (one, twin):
                each.rankd._writer._waiting_max = 10
            assert await alike(one, twin, post(PLAIN), post(PLAIN)) == [200, 200]
            assert await ranking(one) == await ranking(twin)

    run(crowd())


@pytest.mark.parametrize("applied", ["no", "unknown"])
def test_a_ledger_that_fails_is_told_as_it_tells_it(applied: Any) -> None:
    async def fail() -> None:
        async with served() as one, served() as twin:
            await alike(one, twin, post(PLAIN), post(PLAIN))
            for each in (one, twin):
                each.ledger.fail(applied=applied)
            line, before = await one.know(get("p1")), one.looked["submit_score"]
            fast, other = await line.ask(post(PLAIN)), await twin.other.ask(post(PLAIN))
            assert one.looked["submit_score"] == before
            assert (status(fast), told(fast)["applied"]) == (503, applied)
            assert fast == other
            assert await alike(one, twin, post(PLAIN)) == [503]
            assert status(await line.ask(get("p1"))) == 200

    run(fail())


def test_an_engine_that_takes_nothing_more_says_so() -> None:
    async def close() -> None:
        async with served() as one, served() as twin:
            await alike(one, twin, post(PLAIN), post(PLAIN))
            for each in (one, twin):
                each.rankd._writer.close()
            assert await alike(one, twin, post(PLAIN), post(PLAIN)) == [503, 503]

    run(close())
