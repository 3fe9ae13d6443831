"""Decay in every answer, in both lanes: the score of that moment, and the recorded one."""

import json
from typing import Any

import pytest
from tests.http.lanes import Served, request, served, status, told
from tests.http.whole import run

DAY = 86_400_000_000
HALF_LIFE = {"decay": {"half_life": "1d"}, "windows": ["all", "daily"], "segments": ["region"]}
LINEAR = {**HALF_LIFE, "decay": {"linear": {"points": 10, "per": "1d"}, "floor": 0}}


def sending(method: str, path: str, body: Any, **headers: str) -> bytes:
    if body is None:
        return request(method, path, None, **headers)
    return request(method, path, json.dumps(body).encode(), content_type="application/json")


async def ask(service: Served, path: str, body: Any = None) -> Any:
    """Return an answer that both lanes give, also when a plan of it is there."""
    sent = sending("GET" if body is None else "POST", path, body)
    line = service.fast.connect()
    answers = [await line.ask(sent), await line.ask(sent), await service.other.ask(sent)]
    assert answers[0] == answers[1] == answers[2]
    assert status(answers[0]) == 200, answers[0]
    return told(answers[0])


async def fill(service: Served) -> None:
    """Have ann score 100 and, a day and a half later, bob 70 and eve 20."""
    await service.rankd.submit("b", [{"player": "ann", "score": 100}])
    service.clock.time += DAY * 3 // 2
    await service.rankd.sealer.turn()
    bodies = [{"player": "bob", "score": 70}, {"player": "eve", "score": 20}]
    await service.rankd.submit("b", bodies)


def rows_of(body: Any) -> list[tuple[str, int, int]]:
    return [(row["player"], row["score"], row["raw_score"]) for row in body["standings"]]


@pytest.mark.parametrize(
    ("definition", "early", "late"),
    [
        (HALF_LIFE, [70, 35, 20], [35, 18, 10]),
        (LINEAR, [85, 70, 20], [75, 60, 10]),
    ],
    ids=["half_life", "linear"],
)
def test_every_read_shows_the_score_of_its_time(
    definition: dict[str, Any], early: list[int], late: list[int]
) -> None:
    async def compare() -> None:
        async with served(definition) as service:
            await fill(service)
            order = [("bob", 70), ("ann", 100), ("eve", 20)]
            if early[0] == 85:
                order = [("ann", 100), ("bob", 70), ("eve", 20)]
            for scores in (early, late):
                expected = [
                    (one, score, raw) for (one, raw), score in zip(order, scores, strict=True)
                ]
                await compare_reads(service, expected)
                service.clock.time += DAY

    run(compare())


async def compare_reads(service: Served, expected: list[tuple[str, int, int]]) -> None:
    """Compare all reads with these rows; each of them tells the time that it is of."""
    b, (first, second, third) = "/v1/boards/b", expected
    lookup = {"players": ["eve", "ann", "bob"]}
    bodies = [
        *[await ask(service, f"{b}/standings{query}") for query in ("", "?limit=3")],
        await ask(service, f"{b}/standings/{first[0]}/around"),
        await ask(service, f"{b}/around/2"),
        await ask(service, f"{b}/standings:lookup", lookup),
    ]
    assert all(rows_of(body) == expected for body in bodies)
    offset = await ask(service, f"{b}/standings?offset=1&limit=1")
    within = await ask(service, f"{b}/standings?score_min={second[1]}&score_max={second[1]}")
    assert rows_of(offset) == rows_of(within) == [second]
    for player, score, raw in expected:
        one = await ask(service, f"{b}/standings/{player}")
        assert (one["score"], one["raw_score"]) == (score, raw)
        (everywhere,) = (await ask(service, f"/v1/players/{player}/standings"))["standings"]
        assert (everywhere["score"], everywhere["raw_score"]) == (score, raw)
        friends = await ask(service, f"{b}/friends/{player}")
        assert rows_of(friends) == [(player, score, raw)]
        bodies += [one, everywhere, friends]
    projections = [
        await ask(service, f"{b}/projection?score={second[1] + 1}"),
        await ask(service, f"{b}/projection?rank=2"),
        await ask(service, f"{b}/projection?percentile=60"),
    ]
    assert [one["rank"] for one in projections] == [2, 2, 2]
    assert [one["score"] for one in projections] == [second[1] + 1, second[1], second[1]]
    times = {body["server_time"] for body in [*bodies, offset, within, *projections]}
    assert times == {(await ask(service, b))["server_time"]}
    as_text = await ask(service, f"{b}/standings/{third[0]}?numbers=string")
    assert (as_text["score"], as_text["raw_score"]) == (str(third[1]), str(third[2]))


def test_an_etag_is_of_the_scores_that_are_shown() -> None:
    async def compare() -> None:
        async with served(HALF_LIFE) as service:
            await fill(service)
            page = "/v1/boards/b/standings"
            line, first = service.fast.connect(), await service.same(sending("GET", page, None))
            tag = first.partition(b"etag: ")[2].partition(b"\r\n")[0].decode()
            known = sending("GET", page, None, if_none_match=tag)
            assert status(await line.ask(known)) == 304
            service.clock.time += 1_000_000  # No score is another one a second later.
            assert status(await line.ask(known)) == 304
            service.clock.time += DAY
            answer = await line.ask(known)
            assert (status(answer), rows_of(told(answer))[0]) == (200, ("bob", 35, 70))
            assert b"max-age=1," in answer

    run(compare())


def test_receipts_tell_the_scores_of_their_moment_for_ever() -> None:
    async def compare() -> None:
        async with served({**HALF_LIFE, "rule": "sum"}) as service:
            path = "/v1/boards/b/scores"
            body = {"player": "ann", "score": 100, "key": "k"}
            first = told(await service.fast.ask(sending("POST", path, body)))
            assert (first["score"], first["raw_score"]) == (100, 100)
            service.clock.time += DAY
            added = told(
                await service.other.ask(sending("POST", path, {"player": "ann", "score": 5}))
            )
            assert (added["previous_score"], added["score"], added["raw_score"]) == (50, 55, 55)
            assert added["windows"]["daily"]["raw_score"] == 5
            again = await service.same(sending("POST", path, body))
            assert told(again) == {**first, "duplicate": True}
            batch = {"scores": [{"board": "b", "player": "ann", "delta": -60}]}
            answer = told(await service.fast.ask(sending("POST", "/v1/scores:batch", batch)))
            (last,) = answer["results"]
            assert (last["previous_score"], last["score"], last["raw_score"]) == (55, -5, -5)

    run(compare())


def test_a_closed_window_keeps_the_scores_of_its_end() -> None:
    async def compare() -> None:
        async with served(HALF_LIFE) as service:
            await service.rankd.submit("b", [{"player": "ann", "score": 64}])
            at_noon = (await ask(service, "/v1/boards/b"))["server_time"]
            assert at_noon.endswith("T12:00:00Z")
            service.clock.time += DAY // 2
            await service.rankd.sealer.turn()
            found = []
            for _ in range(3):
                page = await ask(service, "/v1/boards/b/standings?window=daily:-1")
                found.append((rows_of(page), page["server_time"]))
                service.clock.time += DAY // 5
            assert found[0][0] == [("ann", 45, 64)]  # 64 less half a half-life.
            assert all(one == found[0] for one in found)

    run(compare())


@pytest.mark.parametrize(
    ("more", "fields"),
    [
        ({"rule": "first"}, ["decay"]),
        ({"direction": "lower"}, ["decay"]),
        ({"columns": [{"name": "a"}, {"name": "b"}]}, ["decay"]),
        ({"decay": {"half_life": "7d", "floor": 0}}, ["decay.floor"]),
        ({"decay": {"linear": {"points": 0, "per": "1d"}}}, ["decay.linear.points"]),
        ({"decay": {"half_life": "1d", "linear": {"points": 1, "per": "1d"}}}, ["decay"]),
    ],
)
def test_a_decay_without_meaning_is_refused_with_its_field(
    more: dict[str, Any], fields: list[str]
) -> None:
    async def refuse() -> None:
        async with served() as service:
            sent = sending("PUT", "/v1/boards/c", {**HALF_LIFE, **more})
            answer = await service.same(sent)
            assert status(answer) == 422
            assert [wrong["field"] for wrong in told(answer)["errors"]] == fields

    run(refuse())
