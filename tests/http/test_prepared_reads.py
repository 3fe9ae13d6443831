"""What was made ready for a read answers the next as its handler would, or not at all.

The fast lane keeps what a request meant and answers the next one that differs in its player without
reading it anew: for every kind of board and headers, and for nobody whom it only resembles.
"""

import json
from typing import Any
from urllib.parse import quote

import pytest
from tests.http.lanes import (
    AROUND,
    BOARD,
    HEADERS,
    NOT_AT_ONCE,
    RICH,
    STANDING,
    fill,
    get,
    request,
    served,
    status,
    told,
)
from tests.http.running import run

from rankd.api import standings
from rankd.api.app import GZIP_BYTES_MIN
from rankd.api.messages import Request

ASKED = [
    *(STANDING, AROUND, "{}?window=daily", "{}?window=daily:2026-11-14", "{}?segment=region:eu"),
    *("{}/around?window=daily&above=1&below=0", "{}/around?segment=region:eu&above=0"),
    *("{}?window=all&segment=region:eu", "{}?", "{}/around?below=100&above=100"),
    "{}/around?absent=bottom",
]


@pytest.mark.parametrize("name", HEADERS)
@pytest.mark.parametrize("ask", ASKED)
def test_the_next_answer_is_the_handlers_and_the_other_lanes(ask: str, name: str) -> None:
    async def compare() -> None:
        async with served(RICH) as service:
            await fill(service.rankd)
            headers = HEADERS[name]
            line = await service.know(get("p1", ask, **headers))
            for player in ("p1", "p3", "p5", "p11"):
                sent, before = get(player, ask, **headers), service.looked.total()
                answer = await line.ask(sent)
                assert (service.looked.total() == before) is (name not in NOT_AT_ONCE)
                assert answer == await service.other.ask(sent)
                assert status(answer) == 200
            assert service.looked.total() > 0

    run(compare())


DEFINITIONS: dict[str, dict[str, object]] = {
    "plain": {},
    "decimals": {"decimals": 3},
    "lower": {"direction": "lower"},
    "latest": {"tie_break": "latest", "rule": "latest"},
    "columns": {"columns": [{"name": "a"}, {"name": "b", "direction": "lower"}]},
    "sum": {"rule": "sum", "tie_break": "player"},
    "standard": {"ties": "standard"},
    "dense": {"ties": "dense"},
}


@pytest.mark.parametrize("ask", [STANDING, "{}/around?above=2&below=1"])
@pytest.mark.parametrize("name", DEFINITIONS)
def test_every_kind_of_board_is_shown_as_its_handler_shows_it(name: str, ask: str) -> None:
    async def compare() -> None:
        async with served(DEFINITIONS[name]) as service:
            more: dict[str, Any] = {"columns": {"b": 7}} if name == "columns" else {}
            await fill(service.rankd, **more)
            await service.know(get("p0", ask))
            for player in ("p0", "p3", "p4", "p11"):
                assert await service.at_once(get(player, ask))

    run(compare())


@pytest.mark.parametrize("name", DEFINITIONS)
def test_lookups_at_once_are_those_of_the_handler(name: str) -> None:
    async def compare() -> None:
        async with served(DEFINITIONS[name]) as service:
            more: dict[str, Any] = {"columns": {"b": 7}} if name == "columns" else {}
            await fill(service.rankd, **more)
            for players in (["p3", "p1", "p3", "nobody", "p11"], ["p0"], ["nobody"], []):
                body = json.dumps({"players": players}).encode()
                query = {"window": None, "segment": None, "min_position": None}
                headers = {b"content-type": b"application/json", b"host": b"localhost"}
                asked = Request("POST", "/", {"board": "b"}, query, headers, body)
                right = await standings.lookup_standings(service.service, asked)
                quick = standings.lookup_now(service.service, asked)
                if quick is None:
                    assert name in ("decimals", "columns")
                else:
                    assert quick.body == right.body

    run(compare())


@pytest.mark.parametrize("ask", [STANDING, AROUND])
def test_who_is_not_ranked_is_told_so_and_the_next_who_is_gets_its_answer(ask: str) -> None:
    async def compare() -> None:
        async with served() as service:
            await fill(service.rankd)
            await service.know(get("p1", ask))
            for player in ("nobody", "p12", "P1", "x" * 256, "~", "-._~"):
                answer = await service.same(get(player, ask))
                assert (status(answer), told(answer)["code"]) == (404, "not_ranked")
                assert await service.at_once(get("p2", ask))

    run(compare())


@pytest.mark.parametrize("ask", [STANDING, AROUND])
def test_players_of_any_length_are_found_by_a_line_however_long(ask: str) -> None:
    async def compare() -> None:
        async with served() as service:
            players = ["a", "x" * 255, "x" * 256, "0", "-._~"]
            await service.rankd.submit("b", [(player, 5) for player in players])
            await service.know(get("a", ask))
            for player in players:
                assert await service.at_once(get(player, ask))

    run(compare())


def test_an_answer_that_grew_large_goes_the_way_of_large_ones() -> None:
    """It may have to be squeezed, and says so."""

    async def grow() -> None:
        async with served() as service:
            ask = "{}/around?above=100&below=100"
            kinds = [get("p0", ask), get("p0", ask, accept_encoding="gzip")]
            await fill(service.rankd, 3)
            for sent in kinds:
                await service.know(sent)
                assert await service.at_once(sent)
            crowd: list[Any] = [(f"{number:0200}", number) for number in range(150)]
            await service.rankd.submit("b", crowd)
            plain, squeezed = [await service.same(sent) for sent in kinds]
            assert len(plain) > GZIP_BYTES_MIN
            assert b"\r\nvary: accept-encoding" in plain and b"\r\ncontent-encoding" not in plain
            assert b"\r\ncontent-encoding: gzip" in squeezed
            for sent in kinds:
                assert await service.at_once(sent)
                assert await service.at_once(sent)

    run(grow())


@pytest.mark.parametrize("ask", [STANDING, AROUND])
def test_an_index_that_failed_is_told_as_the_handler_tells_it(ask: str) -> None:
    async def fail() -> None:
        async with served() as service:
            await fill(service.rankd)
            line = await service.know(get("p1", ask))
            service.rankd.projector.index._failure = MemoryError()  # type: ignore[attr-defined]
            assert status(await line.ask(get("p1", ask))) == 500
            assert status(await service.same(get("p1", ask))) == 500

    run(fail())


# ------------------------------------------------------ where a known kind must not reach

BESIDE = {
    **dict.fromkeys(["", "p1/", "p1/around/", "p1/aroun", "p1/around/p2", "/p1", "p1/p1"], 404),
    **dict.fromkeys(["p1?window=none", "p1/around?window=daily", "p1?window=all:1"], 404),
    **dict.fromkeys(["p1?segment=x:y", "p1?unknown=1", "p1?window=all&window=all"], 422),
    **dict.fromkeys(["p1/around?above=101", "p1/around?above", "p1?above=1"], 422),
    **dict.fromkeys(["p1?min_position=1", "p1?window=%61ll", "p1/around?above=%31"], 200),
    "p1#x": 200,
    "p%1": 400,
}


@pytest.mark.parametrize("target", BESIDE)
def test_a_target_beside_a_known_one_is_not_taken_for_it(target: str) -> None:
    async def compare() -> None:
        async with served() as service:
            await fill(service.rankd)
            for ask in (STANDING, AROUND):
                await service.know(get("p1", ask))
            for _ in range(3):
                assert status(await service.same(get("", target))) == BESIDE[target]

    run(compare())


@pytest.mark.parametrize("method", ["HEAD", "PUT", "get", "OPTIONS", "POST"])
def test_another_method_is_not_taken_for_a_known_one(method: str) -> None:
    async def compare() -> None:
        async with served() as service:
            await fill(service.rankd)
            await service.know(get("p1"))
            for _ in range(2):
                lines = [lane.connect() for lane in (service.fast, service.other)]
                for line in lines:
                    await line.send(request(method, f"{BOARD}/standings/p1"))
                fast, other = [await line.rest() for line in lines]
                assert fast == other

    run(compare())


@pytest.mark.parametrize("ask", [STANDING, AROUND, "{}?window=all"])
@pytest.mark.parametrize(
    "player", ["a:b", "a b", "a%b", "aé", "é", "a+b", "a/b", "a@b", "a,", "a'b"]
)
def test_a_player_that_begins_like_another_is_not_taken_for_it(player: str, ask: str) -> None:
    async def compare() -> None:
        async with served() as service:
            await service.rankd.submit("b", [("a", 5), (player, 7), ("b", 6)])
            for shown in {quote(player, safe=""), quote(player, safe=":@+,'")}:
                for sent in (get(shown, ask), get("a", ask), get(shown, ask), get(shown, ask)):
                    assert status(await service.same(sent)) == 200
            assert await service.at_once(get(quote(player, safe=""), ask))
            assert await service.at_once(get("b", ask))

    run(compare())


@pytest.mark.parametrize("ask", [STANDING, AROUND])
def test_an_id_that_nobody_can_have_ends_no_connection(ask: str) -> None:
    async def compare() -> None:
        async with served() as service:
            await fill(service.rankd)
            line = await service.know(get("p1", ask))
            sent = get("x" * 257, ask)
            answer = await line.ask(sent)
            assert (answer, status(answer)) == (await service.other.ask(sent), 404)
            assert status(await line.ask(get("p1", ask))) == 200

    run(compare())
