"""Movement in standings, over both lanes: plans tell it as handlers do."""

from collections import Counter
from typing import Any

import pytest
from tests.http.lanes import BOARD, Served, fill, post, request, served, status, told
from tests.http.running import run
from tests.http.test_prepared_reads import DEFINITIONS
from tests.unit.core.doubles import DAY

from rankd.core.movement import MOVEMENT_ENTRIES_MAX

READS = [
    ("GET", "standings?limit=100"),
    ("GET", "standings?limit=3&offset=2"),
    ("GET", "standings/p3"),
    ("GET", "standings/new"),
    ("GET", "standings/p3/around?above=2&below=2"),
    ("GET", "around/2?range=1"),
    ("POST", "standings:lookup?"),
    ("GET", "friends/p3?"),
]


async def read(service: Served, method: str, path: str) -> Any:
    """Return an answer that both lanes give, also to one who asks again."""
    sent = request(method, f"{BOARD}/{path}", None)
    if method == "POST":
        sent = post({"players": ["p1", "p3", "new", "zed"]}, f"{BOARD}/{path}")
    line = service.fast.connect()
    answers = [await line.ask(sent), await line.ask(sent), await line.ask(sent)]
    assert {*answers, await service.other.ask(sent)} == {answers[0]}
    assert status(answers[0]) == 200, answers[0]
    return told(answers[0])


def rows_of(answer: Any) -> list[Any]:
    return list(answer["standings"]) if "standings" in answer else [answer]


async def moved(service: Served, more: dict[str, Any]) -> dict[str, int]:
    """Let a day pass, and two players move; return the ranks before."""
    service.rankd.movement.grant(MOVEMENT_ENTRIES_MAX)
    await fill(service.rankd, **more)
    before = await read(service, "GET", "standings?limit=100")
    service.clock.time += DAY
    for player in ("p3", "new"):
        item = {"player": player, "score": 45, "metadata": {"moved": True}, **more}
        await service.rankd.submit("b", [item])
    return {row["player"]: row["rank"] for row in before["standings"]}


def check(row: Any, before: dict[str, int]) -> str:
    """Check one row against the ranks before; return the kind of its movement."""
    if row["player"] not in before:
        assert (row["rank_change"], row["new"]) == (None, True)
        return "new"
    assert row["rank_change"] == before[row["player"]] - row["rank"]
    assert "new" not in row
    return "moved"


@pytest.mark.parametrize("name", DEFINITIONS)
def test_every_read_tells_the_movement_since_the_start_of_the_day(name: str) -> None:
    async def compare() -> None:
        async with served(DEFINITIONS[name]) as service:
            more: dict[str, Any] = {"columns": {"b": 7}} if name == "columns" else {}
            before = await moved(service, more)
            unknown = await read(service, "GET", "standings?limit=100")
            assert {row["rank_change"] for row in unknown["standings"]} == {None}
            assert not any("new" in row for row in unknown["standings"])
            await service.rankd.movement.catch_up()
            kinds = Counter[str]()
            for method, path in READS:
                answer = await read(service, method, path)
                kinds += Counter(check(row, before) for row in rows_of(answer))
            assert kinds["new"] >= 3
            assert kinds["moved"] >= 20

    run(compare())


@pytest.mark.parametrize("baseline", ["24h", "daily:-1", "14"])
def test_every_read_tells_the_movement_since_another_baseline(baseline: str) -> None:
    async def compare() -> None:
        async with served({"windows": ["all", "daily"]}) as service:
            before = await moved(service, {})
            kinds = Counter[str]()
            for method, path in READS:
                joint = "" if path.endswith("?") else "&" if "?" in path else "?"
                answer = await read(service, method, f"{path}{joint}baseline={baseline}")
                kinds += Counter(check(row, before) for row in rows_of(answer))
            assert min(kinds["new"], kinds["moved"]) >= 5

    run(compare())


def test_a_wrong_baseline_is_refused() -> None:
    async def refuse() -> None:
        async with served() as service:
            await fill(service.rankd)
            for baseline, code in (("1000", "invalid_page"), ("weekly:1", "unknown_window")):
                sent = request("GET", f"{BOARD}/standings?baseline={baseline}", None)
                assert told(await service.fast.connect().ask(sent))["code"] == code

    run(refuse())
