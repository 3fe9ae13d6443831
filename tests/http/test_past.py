"""Standings as of a past position, over both lanes."""

from typing import Any

import pytest
from tests.http.lanes import BOARD, Served, fill, post, request, served, status, told
from tests.http.running import run

READS = [
    ("GET", "standings?limit=100"),
    ("GET", "standings?score_min=10&score_max=40"),
    ("GET", "standings/p3"),
    ("GET", "standings/p3/around?above=2&below=2"),
    ("GET", "around/2?range=1"),
    ("POST", "standings:lookup?"),
    ("GET", "friends/p3?"),
    ("GET", "projection?score=25"),
    ("GET", "projection?rank=2"),
    ("GET", "distribution?buckets=3"),
]


def sent_to(method: str, path: str) -> bytes:
    """Return a request to the board."""
    if method == "POST":
        return post({"players": ["p1", "p3", "zed"]}, f"{BOARD}/{path}")
    return request(method, f"{BOARD}/{path}", None)


async def ask(service: Served, method: str, path: str) -> bytes:
    """Return an answer that both lanes give, also to one who asks again."""
    sent = sent_to(method, path)
    line = service.fast.connect()
    answers = [await line.ask(sent), await line.ask(sent), await service.other.ask(sent)]
    assert answers[0] == answers[1] == answers[2]
    return answers[0]


async def read(service: Served, method: str, path: str) -> Any:
    answer = await ask(service, method, path)
    assert status(answer) == 200, answer
    return told(answer)


def then(path: str, moment: str) -> str:
    """Return a path with a moment in its query."""
    return f"{path}{'' if path.endswith('?') else '&' if '?' in path else '?'}{moment}"


@pytest.mark.parametrize(("method", "path"), READS)
def test_every_read_tells_what_it_told_then(method: str, path: str) -> None:
    async def compare() -> None:
        async with served() as service:
            await fill(service.rankd)
            before = await read(service, method, path)
            position = before["as_of"]
            assert position == service.rankd.position
            await service.rankd.submit("b", [{"player": "p3", "score": 99}])
            await service.rankd.submit("b", [{"player": "new", "score": 30}])
            assert await read(service, method, path) != before
            assert await read(service, method, then(path, f"as_of={position}")) == before

    run(compare())


def test_a_past_list_is_read_on_with_its_cursors() -> None:
    async def walk() -> None:
        async with served() as service:
            await fill(service.rankd)
            everybody = (await read(service, "GET", "standings?limit=100"))["standings"]
            query, found = f"as_of={service.rankd.position}&limit=3", []
            page = await read(service, "GET", f"standings?{query}")
            while page["next_cursor"] is not None:
                found += page["standings"]
                await service.rankd.submit("b", [{"player": f"n{len(found)}", "score": 50}])
                query_on = f"{query}&cursor={page['next_cursor']}"
                page = await read(service, "GET", f"standings?{query_on}")
            assert found + page["standings"] == everybody

    run(walk())


@pytest.mark.parametrize(
    ("moment", "code", "number"),
    [
        ("as_of=0", "too_old", 410),
        ("at=2020-01-01T00:00:00Z", "too_old", 410),
        ("as_of=1000000", "invalid_page", 422),
        ("at=2100-01-01T00:00:00Z", "invalid_page", 422),
        ("as_of=-1", "invalid", 422),
        ("as_of=two", "invalid", 422),
        ("at=yesterday", "invalid", 422),
        ("as_of=3&at=2100-01-01T00:00:00Z", "invalid_page", 422),
    ],
)
def test_other_moments_are_refused(moment: str, code: str, number: int) -> None:
    async def refuse() -> None:
        async with served() as service:
            await fill(service.rankd)
            for method, path in READS:
                sent = sent_to(method, then(path, moment))
                answer = await service.fast.connect().ask(sent)
                assert (status(answer), told(answer)["code"]) == (number, code), path

    run(refuse())


def test_an_edition_of_a_past_moment_is_refused() -> None:
    async def refuse() -> None:
        async with served() as service:
            await fill(service.rankd)
            for path in ("standings", "standings/p1"):
                sent = request("GET", f"/v1/boards/b/{path}?edition=1&as_of=2", None)
                answer = told(await service.fast.connect().ask(sent))
                assert answer["errors"][0]["field"] == "edition"

    run(refuse())


def test_more_work_than_granted_names_the_command() -> None:
    async def refuse() -> None:
        async with served() as service:
            await fill(service.rankd)
            head = service.rankd.position
            await service.rankd.submit("b", [{"player": "p3", "score": 99}])
            service.rankd.past.limits = service.rankd.past.limits._replace(facts=1)
            sent = request("GET", f"/v1/boards/b/standings?as_of={head}", None)
            answer = await service.fast.connect().ask(sent)
            assert (status(answer), told(answer)["code"]) == (503, "past_out_of_reach")
            assert "rankd top BOARD --as-of POSITION --data DIR" in told(answer)["detail"]
            assert b"\r\nretry-after: " in answer.lower()

    run(refuse())


def test_a_rank_over_time_ends_with_the_present() -> None:
    async def compare() -> None:
        async with served() as service:
            await fill(service.rankd)
            found = await read(service, "GET", "history/p3/ranks?grain=hour")
            now = await read(service, "GET", "standings/p3")
            assert (found["player"], found["window"], found["grain"]) == ("p3", "all", "hour")
            last = found["points"][-1]
            wanted = {name: now[name] for name in ("rank", "score", "total", "as_of")}
            assert {name: last[name] for name in wanted} == wanted
            moderated = {"reason": "a test"}
            await service.rankd.corrections.set_player_state("p3", "banned", moderated)
            hidden = await read(service, "GET", "history/p3/ranks?grain=hour")
            assert {point["rank"] for point in hidden["points"]} == {None}

    run(compare())
