"""Scores as text: every digit, on every route, the same in both lanes."""

import json
import types
from collections.abc import Iterator
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import pytest
from tests.http.lanes import BOARD, Served, get, post, request, served, status, told
from tests.http.running import run
from tests.http.test_caching import LARGE, tag_of

from rankd import schemas
from rankd.api.render import SCORES, convert
from rankd.api.routes import ROUTES
from rankd.api.routing import NUMBERS, Route

SAFE = 2**53
"""Up to here a JavaScript number is exact. In these tests every score is beyond it, and no other
number is: that is how a test knows a score."""

BIG = 2**63 - 1_000

TEXT = "application/json; numbers=string"
TEXTS = (TEXT, 'text/html, APPLICATION/JSON ;q=0.9;Numbers="string" , */*')
NUMBERED = ("*/*", "application/json", "application/json; numbers=strings", "x; numbers=string")

SAYS_JSON = {"content_type": "application/json"}

WINDOWS = [
    {"name": name, "every": "4w", "start": "2026-11-02T00:00:00Z"}
    for name in ("score", "attributes")
]
DEFINITION = {
    "columns": [{"name": "score"}, {"name": "metadata", "direction": "lower"}],
    "windows": ["all", *WINDOWS],
    "limits": {"score_min": -BIG, "score_max": BIG},
}
"""Names that boards choose are no fields of ours."""

METADATA = b'{"columns":[1.5,-2],"score":9223372036854775000,"windows":{"delta":0.1}}'


async def play(service: Served) -> None:
    for number in range(4):
        columns = {"score": BIG - number, "metadata": number - BIG}
        text = json.dumps({"player": f"p{number}", "columns": columns})[:-1].encode()
        text += b', "metadata": ' + METADATA + b"}"
        assert status(await service.other.ask(post(text))) == 200
    await service.rankd.profile("p1", {"attributes": {"score": 7, "region": "eu"}})
    await service.rankd.profile("p1", {"friends": ["p2"]})


def leaves(value: Any, way: tuple[object, ...] = ()) -> Iterator[tuple[tuple[object, ...], Any]]:
    match value:
        case dict():
            for name, inner in value.items():
                yield from leaves(inner, (*way, name))
        case list():
            for number, inner in enumerate(value):
                yield from leaves(inner, (*way, number))
        case _:
            yield way, value


def assert_only_scores_became_text(plain: bytes, text: bytes) -> None:
    assert plain.count(METADATA) == text.count(METADATA), "to the byte"
    before, after = (
        dict(leaves(told(answer.replace(METADATA, b"null")))) for answer in (plain, text)
    )
    assert list(before) == list(after)
    scores = {way for way, one in before.items() if type(one) is int and abs(one) > SAFE}
    assert scores
    for way, value in before.items():
        assert after[way] == (str(value) if way in scores else value), way


READS = [
    *(f"{BOARD}/standings", f"{BOARD}/standings?window=score&limit=2", f"{BOARD}/standings/p1"),
    *(f"{BOARD}/standings/p1/around", f"{BOARD}/around/2", f"{BOARD}/friends/p1"),
    *(f"{BOARD}/projection?rank=2", f"{BOARD}/projection?score={BIG},{-BIG}"),
    *(f"{BOARD}/history/p1", "/v1/players/p1/standings", "/v1/facts", "/v1/boards", BOARD),
    *("/api/v1/leaderboard/top?type=b", "/api/v1/leaderboard/top?type=b&k=2"),
    *("/api/v1/leaderboard/rank/p1?type=b", "/api/v1/leaderboard/around/2?type=b"),
    *("/api/v1/leaderboard/nearby?type=b&rank=2", "/rank/p1?type=b", "/nearby/p1?type=b"),
    "/top/3?type=b",
]


@pytest.mark.parametrize("path", READS)
def test_reads_show_scores_as_text_where_asked(path: str) -> None:
    async def test() -> None:
        async with served(DEFINITION) as service:
            await play(service)
            queried = f"{path}{'&' if '?' in path else '?'}numbers=string"
            plain = await service.same(request("GET", path))
            assert status(plain) == 200
            text = await service.same(request("GET", queried))
            assert_only_scores_became_text(plain, text)
            for accept in TEXTS * 2:
                assert await service.same(request("GET", path, None, accept=accept)) == text
            for accept in NUMBERED:
                assert await service.same(request("GET", path, None, accept=accept)) == plain
            numbers = request("GET", queried.replace("=string", "=number"), None, accept=TEXT)
            assert await service.same(numbers) == plain, "the query goes first"

    run(test())


WRITES: list[tuple[str, dict[str, object]]] = [
    (f"{BOARD}/scores", {"player": "p9", "score": BIG}),
    (f"{BOARD}/scores", {"player": "p9", "score": BIG, "key": "k"}),
    ("/v1/scores:batch", {"scores": [{"board": "b", "player": "p9", "score": BIG}]}),
    ("/v1/scores:batch", {"scores": [{"board": "b", "player": "p9", "score": str(BIG)}, {}]}),
    (f"{BOARD}/standings:lookup", {"players": ["p1", "p8"]}),
    ("/api/v1/leaderboard/score", {"player_id": 9, "score": BIG, "type": "b"}),
    ("/api/v1/leaderboard/score/increment", {"player_id": "p1", "score_delta": 1, "type": "b"}),
    ("/api/v1/scores", {"user_id": "p1", "score_delta": 1, "type": "b"}),
    ("/ingest/score", {"player_id": 9, "score": BIG, "type": "b"}),
    ("/scores", {"player_id": 9, "score": BIG, "type": "b"}),
]


@pytest.mark.parametrize(("path", "body"), WRITES)
def test_receipts_and_lookups_show_scores_as_text_where_asked(
    path: str, body: dict[str, object]
) -> None:
    """Four services see the same: each lane is asked for numbers, and for text in both ways."""

    async def test() -> None:
        async with served() as plain, served() as accepted, served() as queried, served() as other:
            for service in (plain, accepted, queried, other):
                await service.rankd.submit("b", [("p1", BIG - 100), ("p2", BIG - 200)])
            for _ in range(3):
                numbers = await plain.fast.ask(post(body, path))
                asked = post(body, path, accept=TEXT)
                texts = {
                    await accepted.fast.ask(asked),
                    await queried.fast.ask(post(body, f"{path}?numbers=string")),
                    await other.other.ask(asked),
                }
                (text,) = texts
                assert status(numbers) == status(text) == 200
                assert_only_scores_became_text(numbers, text)

    run(test())


def test_a_definition_and_its_changes_show_limits_as_text_where_asked() -> None:
    async def test() -> None:
        async with served() as service:
            for limit in (BIG, BIG - 1):
                path = "/v1/boards/c?apply=true&numbers=string"
                text = json.dumps({"limits": {"score_max": limit}}).encode()
                answer = await service.other.ask(request("PUT", path, text, **SAYS_JSON))
                assert f'"score_max":"{limit}"'.encode() in answer, answer

    run(test())


def test_decimals_keep_their_places() -> None:
    async def test() -> None:
        async with served({"decimals": 3}) as service:
            await service.rankd.submit("b", [{"player": "p1", "score": "9007199254740993.500"}])
            text = await service.same(get("p1", "{}?numbers=string"))
            assert b'"score":"9007199254740993.500"' in text

    run(test())


def test_text_is_never_answered_by_what_was_made_ready_and_spoils_nothing() -> None:
    async def test() -> None:
        async with served() as service:
            await service.rankd.submit("b", [("p1", BIG), ("p2", BIG - 1)])
            for path in (f"{BOARD}/standings/p1", f"{BOARD}/standings"):
                for _ in range(3):
                    assert not await service.at_once(request("GET", path, None, accept=TEXT))
                    await service.same(request("GET", path))
                assert await service.at_once(request("GET", path))

    run(test())


def test_text_has_a_tag_of_its_own_and_caches_are_told() -> None:
    async def test() -> None:
        async with served() as service:
            await service.rankd.submit("b", [(f"{number:064}", BIG) for number in range(300)])

            async def ask(**headers: str) -> bytes:
                await service.same(request("GET", LARGE, None, **headers))
                return await service.same(request("GET", LARGE, None, **headers))

            plain, text = await ask(), await ask(accept=TEXT)
            squeezed = await ask(accept=TEXT, accept_encoding="gzip")
            own, tag, short = tag_of(plain), tag_of(text), tag_of(squeezed)
            assert (tag, short) == (own[:-1] + '-text"', own[:-1] + '-text-gzip"')
            assert b"\r\ncontent-encoding: gzip\r\n" in squeezed
            for known in (tag, short, f'"x", W/{tag}'):
                answer = await ask(accept=TEXT, if_none_match=known)
                assert status(answer) == 304
                assert tag_of(answer) in known
                assert status(await ask(if_none_match=known)) == 200
            assert status(await ask(accept=TEXT, if_none_match=own)) == 200
            for answer in (plain, text, squeezed, await ask(accept=TEXT, if_none_match=tag)):
                assert b"\r\nvary: accept\r\n" in answer

    run(test())


def test_a_refusal_stays_as_it_is_and_another_word_is_refused() -> None:
    async def test() -> None:
        async with served() as service:
            for path in (f"{BOARD}/standings/nobody", f"{BOARD}/standings?offset=-1"):
                plain = await service.same(request("GET", path))
                assert await service.same(request("GET", path, None, accept=TEXT)) == plain
            refused = await service.same(request("GET", f"{BOARD}/standings?numbers=text"))
            assert status(refused) == 422
            assert told(refused)["errors"] == [
                {"field": "numbers", "message": "must be one of number, string"}
            ]

    run(test())


def test_routes_without_scores_answer_the_same() -> None:
    async def test() -> None:
        async with served(DEFINITION) as service:
            await play(service)
            for path in ("/v1/players/p1", "/v1/players?query=p", "/v1/keys", "/readyz"):
                plain = await service.same(request("GET", path))
                queried = f"{path}{'&' if '?' in path else '?'}numbers=string"
                assert await service.same(request("GET", queried)) == plain
                assert status(plain) == 200

    run(test())


# ------------------------------------------------------------------------- nothing is left out


def scored_fields(kind: Any, seen: set[Any]) -> Iterator[str]:
    """The fields of a shape, and of those inside it, that are declared to hold scores."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if kind not in seen:
            seen.add(kind)
            for name, hint in get_type_hints(kind).items():
                if schemas.Score in _parts(hint):
                    yield name
                else:
                    yield from scored_fields(hint, seen)
        return
    for part in get_args(kind):
        yield from scored_fields(part, seen)


def _parts(hint: Any) -> list[Any]:
    """A type and all that it is made of, where a union of numbers is a score."""
    if isinstance(hint, types.UnionType) or get_origin(hint) is not None:
        inner = list(get_args(hint))
        numbers = [schemas.Score] if set(get_args(schemas.Score)) <= set(inner) else []
        return [*numbers, *(part for one in inner for part in _parts(one))]
    return [hint]


def scores_of(route: Route) -> set[str]:
    kinds = [
        kind
        for answer in route.responses.values()
        for kind in (answer if isinstance(answer, tuple) else (answer,))
    ]
    return {name for kind in kinds for name in scored_fields(kind, set())}


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.operation)
def test_every_route_that_shows_scores_can_show_them_as_text(route: Route) -> None:
    found = scores_of(route)
    assert found <= SCORES
    told_by_hand = {"put_board", "list_boards", "get_board", "submit_scores", "list_facts"}
    expected = bool(found) or route.operation in told_by_hand
    assert (NUMBERS in route.params) == expected


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b'{"a":1.50,"score":-0.10}', b'{"a":1.50,"score":"-0.10"}'),
        (b'{"windows":{"metadata":{"score":1}}}', b'{"windows":{"metadata":{"score":"1"}}}'),
        (b'{"windows":[{"score":1}]}', b'{"windows":[{"score":"1"}]}'),
        (b'{"metadata":{"score":1 }}', b'{"metadata":{"score":1 }}'),
        (b'[{"columns":{"a":1,"b":null}},[],{}]', b'[{"columns":{"a":"1","b":null}},[],{}]'),
        (b'{"columns":[{"name":"a"}]}', b'{"columns":[{"name":"a"}]}'),
        (b"", b""),
    ],
)
def test_all_but_scores_stays_to_the_byte(body: bytes, shown: bytes) -> None:
    assert convert(body) == shown
