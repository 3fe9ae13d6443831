"""Profiles that are merged, players that are found, and ranges of time, in both lanes."""

import json
from typing import Any

import pytest
from tests.http.lanes import BOARD, alike, fill, get, post, request, served, status, told
from tests.http.running import run

from rankd.core.segment_values import SegmentValues

PLAYER = "/v1/players/p1"
JSON = "application/json"


def patch(body: object, path: str = PLAYER) -> bytes:
    return request("PATCH", path, json.dumps(body).encode(), content_type="application/json")


def test_a_merge_is_answered_alike_and_moves_between_segments() -> None:
    async def compare() -> None:
        definition = {"segments": ["region", "guild"]}
        async with served(definition) as one, served(definition) as twin:
            for each in (one, twin):
                await each.rankd.submit("b", [{"player": "p1", "score": 5}])
            asked = [
                patch({"attributes": {"region": "eu", "guild": "owls"}}),
                patch({"attributes": {"guild": "bats"}}),
                request("GET", PLAYER),
                get("p1", "{}?segment=region:eu"),
                get("p1", "{}?segment=guild:owls"),
                get("p1", "{}?segment=guild:bats"),
                patch({"attributes": {"region": None}}),
                get("p1", "{}?segment=region:eu"),
                patch({"attributes": {"level": 1.5}}),
                patch([]),
            ]
            statuses = await alike(one, twin, *asked)
            assert statuses == [200, 200, 200, 200, 404, 200, 200, 404, 422, 422]
            assert told(await one.fast.ask(asked[2]))["attributes"] == {"guild": "bats"}

    run(compare())


def test_players_are_looked_up_alike() -> None:
    async def compare() -> None:
        async with served() as one:
            await fill(one.rankd)
            for players, expected in ((["p3", "nobody"], 200), ([""], 422), ("p3", 422)):
                asked = post({"players": players}, "/v1/players:lookup")
                assert status(await one.same(asked)) == expected

    run(compare())


def test_values_beyond_the_bound_of_a_segment_are_refused_alike() -> None:
    async def compare() -> None:
        definition = {"segments": ["region"]}
        async with served(definition) as one, served(definition) as twin:
            for each in (one, twin):
                each.rankd._writer._segment_values = SegmentValues(1)
                await each.rankd.submit(
                    "b", [{"player": "p1", "score": 5, "attributes": {"region": "eu"}}]
                )
                await each.rankd.profile("p2", {"attributes": {"region": "us"}})
            scores = [{"board": "b", "player": f"p{n}", "score": n} for n in range(3)]
            asked = [
                patch({"attributes": {"region": "us"}}),
                request("PUT", PLAYER, b'{"attributes":{"region":"us"}}', content_type=JSON),
                post({"player": "p1", "score": 6, "attributes": {"region": "us"}}),
                post({"player": "p2", "score": 6}),
                post({"scores": scores}, "/v1/scores:batch"),
                post({"player": "p1", "score": 6}),
            ]
            statuses = await alike(one, twin, *asked)
            assert statuses == [409, 409, 409, 409, 200, 200]
            results = told(await one.fast.ask(asked[4]))["results"]
            codes = [each.get("code") for each in results]
            assert codes == [None, None, "too_many_segment_values"]

    run(compare())


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/v1/players?query=p1", 200),
        ("/v1/players?query=p&limit=1", 200),
        ("/v1/players?query=p&limit=1&after=p1", 200),
        ("/v1/players", 422),
        ("/v1/players?query=", 422),
        ("/v1/players?query=p&limit=1001", 422),
        (f"{PLAYER}/standings?window=all", 200),
        (f"{PLAYER}/standings?window=daily", 200),
        ("/v1/facts?since=2026-11-14T00:00:00Z&until=2026-11-15T00:00:00%2B01:00", 200),
        ("/v1/facts?since=yesterday", 422),
        (f"{BOARD}/history/p1?since=2026-11-14T00:00:00Z", 200),
        (f"{BOARD}/history/p1?until=2026-11-14", 422),
    ],
)
def test_reads_of_players_and_of_times_are_answered_alike(path: str, expected: int) -> None:
    async def compare() -> None:
        async with served() as one:
            await fill(one.rankd)
            assert status(await one.same(request("GET", path))) == expected

    run(compare())


def test_pages_of_players_go_on_where_the_last_one_ended() -> None:
    async def walk() -> None:
        async with served() as one:
            await one.rankd.submit("b", [{"player": f"q{n}", "score": n} for n in range(5)])
            found: list[str] = []
            body: dict[str, Any] = {"next_after": ""}
            while body["next_after"] is not None:
                path = f"/v1/players?query=q&limit=2&after={body['next_after']}"
                body = told(await one.same(request("GET", path)))
                found += [each["player"] for each in body["players"]]
            assert found == [f"q{n}" for n in range(5)]
            assert body["as_of"] == one.rankd.position

    run(walk())
