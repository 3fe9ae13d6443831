"""Ranges of scores, unique places and absent players, over both lanes."""

from typing import Any

import pytest
from tests.http.lanes import Served, fill, request, served, status, told
from tests.http.running import run
from tests.http.test_asked import served as served_far
from tests.http.test_prepared_reads import DEFINITIONS


async def read(service: Any, query: str, path: str = "standings") -> Any:
    """Return an answer that both lanes give, also to one who asks again."""
    sent = request("GET", f"/v1/boards/b/{path}?{query}", None)
    line = service.fast.connect()
    answers = [await line.ask(sent), await line.ask(sent), await service.other.ask(sent)]
    assert answers[0] == answers[1] == answers[2]
    assert status(answers[0]) == 200, answers[0]
    return told(answers[0])


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_range_of_scores_is_the_part_of_the_page_between_them(name: str) -> None:
    async def compare() -> None:
        async with served(DEFINITIONS[name]) as service:
            more: dict[str, Any] = {"columns": {"b": 7}} if name == "columns" else {}
            await fill(service.rankd, **more)
            everybody = (await read(service, "limit=100"))["standings"]
            for low, high in ((10, 40), (11, 39), (0, 0), (-5, 1_000), (60, 70)):
                right = [row for row in everybody if low <= row["score"] <= high]
                page = await read(service, f"limit=100&score_min={low}&score_max={high}")
                assert page["standings"] == right
                assert (page["count"], page["total"]) == (len(right), len(everybody))
                assert page["next_cursor"] is page["prev_cursor"] is None
                further = await read(service, f"offset=1&score_min={low}&score_max={high}")
                assert further["standings"] == right[1:11]
                beyond = f"offset={2**63 - 1}&score_min={low}&score_max={high}"
                behind = await read(service, beyond)
                assert (behind["standings"], behind["count"]) == ([], len(right))
                assert (behind["prev_cursor"] is None) == (not right)
            assert "count" not in await read(service, "")

    run(compare())


def test_a_range_is_read_on_with_its_cursors() -> None:
    async def walk() -> None:
        async with served() as service:
            await fill(service.rankd)
            found: list[str] = []
            query = "score_min=10&score_max=40&limit=3"
            page = await read(service, query)
            assert page["prev_cursor"] is None
            while True:
                found += [row["player"] for row in page["standings"]]
                if page["next_cursor"] is None:
                    break
                page = await read(service, f"{query}&cursor={page['next_cursor']}")
            everybody = (await read(service, "limit=100"))["standings"]
            assert found == [row["player"] for row in everybody if 10 <= row["score"] <= 40]
            before = await read(service, f"{query}&cursor={page['prev_cursor']}")
            assert [row["player"] for row in before["standings"]] == found[3:6]

    run(walk())


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("score_min=5&score_max=4", "score_min"),
        ("score_min=much", "score_min"),
        ("score_max=1.5", "score_max"),
        ("score_max=9223372036854775808", "score_max"),
        ("score_min=" + "9" * 33, "score_min"),
        ("score_max=1&score_max=2", "score_max"),
    ],
)
def test_a_range_that_is_none_is_refused_with_the_field(query: str, field: str) -> None:
    async def refuse() -> None:
        async with served() as service:
            answer = await service.same(request("GET", f"/v1/boards/b/standings?{query}", None))
            assert status(answer) == 422
            assert [error["field"] for error in told(answer)["errors"]] == [field]

    run(refuse())


def test_another_count_is_another_etag() -> None:
    async def compare() -> None:
        async with served() as service:
            await fill(service.rankd)
            tags = {await etag(service, "score_min=50&limit=1")}
            tags.add(await etag(service, "score_min=40&limit=1"))
            assert len(tags) == 2

    run(compare())


async def etag(service: Served, query: str) -> bytes:
    answer = await service.same(request("GET", f"/v1/boards/b/standings?{query}", None))
    return answer.partition(b"etag: ")[2].partition(b"\r\n")[0]


@pytest.mark.parametrize("name", DEFINITIONS)
def test_rows_tell_their_unique_place_where_ranks_are_shared_and_only_there(name: str) -> None:
    async def compare() -> None:
        async with served(DEFINITIONS[name]) as service:
            more: dict[str, Any] = {"columns": {"b": 7}} if name == "columns" else {}
            await fill(service.rankd, **more)
            shared = name in ("standard", "dense")
            rows = (await read(service, "limit=100"))["standings"]
            assert [row.get("ordinal") for row in rows] == (
                [*range(1, 13)] if shared else [None] * 12
            )
            assert all(("ordinal" in row) is shared for row in rows)
            for row in rows:
                alone = await read(service, "", f"standings/{row['player']}")
                assert alone.get("ordinal") == row.get("ordinal")
                assert ("ordinal" in alone) is shared
            around = await read(service, "above=1&below=1", "standings/p5/around")
            assert around["standings"] == [row for row in rows if row in around["standings"]]
            everywhere = request("GET", "/v1/players/p5/standings", None)
            (one,) = told(await service.same(everywhere))["standings"]
            assert one.get("ordinal") == {row["player"]: row.get("ordinal") for row in rows}["p5"]

    run(compare())


@pytest.mark.parametrize(("absent", "ranks"), [("top", [1, 2, 3]), ("bottom", [10, 11, 12])])
def test_an_absent_player_gets_an_end_of_the_ranking_if_asked(absent: str, ranks: Any) -> None:
    async def compare() -> None:
        async with served() as service:
            await fill(service.rankd)
            query = f"above=1&below=1&absent={absent}"
            await read(service, query, "standings/p5/around")
            page = await read(service, query, "standings/nobody/around")
            assert [row["rank"] for row in page["standings"]] == ranks
            wrong = request("GET", "/v1/boards/b/standings/nobody/around?absent=middle", None)
            assert status(await service.same(wrong)) == 422
            missing = request("GET", "/v1/boards/b/standings/nobody/around", None)
            assert status(await service.same(missing)) == 404

    run(compare())


def test_a_shared_index_answers_the_same() -> None:
    async def compare() -> None:
        async with served_far() as node:
            page = await read(node, "score_min=15&score_max=50&limit=3")
            assert [row["score"] for row in page["standings"]] == [50, 40, 30]
            assert (page["count"], page["total"]) == (4, 8)
            query = f"score_min=15&score_max=50&limit=3&cursor={page['next_cursor']}"
            rest = await read(node, query)
            assert [row["score"] for row in rest["standings"]] == [20]
            assert rest["next_cursor"] is None
            beyond = await read(node, f"score_min=15&score_max=50&offset={2**63 - 1}")
            assert (beyond["standings"], beyond["count"]) == ([], 4)
            nothing = await read(node, "score_min=51&score_max=54")
            assert (nothing["standings"], nothing["count"], nothing["total"]) == ([], 0, 8)
            end = await read(node, "above=0&below=1&absent=bottom", "standings/nobody/around")
            assert [row["rank"] for row in end["standings"]] == [7, 8]
            await node.rankd.define("c", {"ties": "dense"})
            await node.rankd.submit("c", [("a", 1), ("b", 1), ("c", 0)])
            tied = request("GET", "/v1/boards/c/standings", None)
            rows = told(await node.other.ask(tied))["standings"]
            assert [(row["rank"], row["ordinal"]) for row in rows] == [(1, 1), (1, 2), (2, 3)]

    run(compare())
