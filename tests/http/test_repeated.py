"""A request that is the same to the byte as an earlier one gets its letter, while that is true."""

import pytest
from tests.http.changes import CHANGES
from tests.http.lanes import (
    BOARD,
    HEADERS,
    NOT_AT_ONCE,
    PLAIN,
    RICH,
    Line,
    fill,
    get,
    new_key,
    post,
    request,
    served,
    status,
    told,
)
from tests.http.running import run

from rankd.api.request_head import parse_head
from rankd.api.routing import PagePlan

PAGES = ("", "?limit=3", "?limit=4&window=daily", "?from_rank=2&limit=2&segment=region:eu")


def page(ask: str, **headers: str) -> bytes:
    return request("GET", f"{BOARD}/standings{ask}", None, **headers)


async def repeated(line: Line, sent: bytes) -> bool:
    """Whether the next answer to this is a page that was sent before."""
    head = parse_head(sent, 65536, 100)
    assert head is not None
    plan = line.protocol._plans.find(head)  # type: ignore[attr-defined]
    answering = plan.answering
    found = isinstance(answering, PagePlan) and answering.find(head.offset) is not None
    return found and plan.admission(head, 0.0) is not None


@pytest.mark.parametrize("name", HEADERS)
@pytest.mark.parametrize("ask", PAGES)
def test_a_page_that_is_asked_for_again_is_the_handlers_and_the_other_lanes(
    ask: str, name: str
) -> None:
    async def compare() -> None:
        async with served(RICH) as service:
            await fill(service.rankd)
            sent = page(ask, **HEADERS[name])
            line = await service.know(sent)
            for _ in range(3):
                at_once = name not in {*NOT_AT_ONCE, "known"}
                assert await repeated(line, sent) is at_once
                assert await line.ask(sent) == await service.other.ask(sent)

    run(compare())


@pytest.mark.parametrize("ask", PAGES)
@pytest.mark.parametrize("name", CHANGES)
def test_a_page_from_before_a_change_is_not_sent_after_it(name: str, ask: str) -> None:
    async def change() -> None:
        async with served(RICH) as service:
            await fill(service.rankd)
            sent = page(ask)
            line = await service.know(sent)
            before = await line.ask(sent)
            assert await repeated(line, sent)
            await CHANGES[name][0](service)
            after = await line.ask(sent)
            assert after == await service.other.ask(sent)
            assert after != before
            for _ in range(2):
                await service.same(sent)
            await service.rankd.submit("b", [("p3", 5000)]) if name != "retired" else None
            for _ in range(2):
                await service.same(sent)

    run(change())


OFFSETS = ("offset={}", "limit=3&offset={}", "offset={}&window=daily&limit=2")


@pytest.mark.parametrize("definition", [{}, {"ties": "dense"}, {"decimals": 2}])
@pytest.mark.parametrize("ask", OFFSETS)
def test_pages_at_any_offset_are_those_of_the_handler(
    ask: str, definition: dict[str, object]
) -> None:
    async def compare() -> None:
        async with served(RICH | definition) as service:
            await fill(service.rankd)
            line = await service.know(page("?" + ask.format(1)))
            for offset in (1, 2, 5, 11, 12, 13, 40, 999_999_999):
                sent = page("?" + ask.format(offset))
                assert await repeated(line, sent), "no plan answers it"
                assert await line.ask(sent) == await service.other.ask(sent)
            for other in ("0", "01", "-1", "x", "", "1000000000", "9" * 19, "3&offset=4"):
                sent = page("?" + ask.format(other))
                assert await line.ask(sent) == await service.other.ask(sent)
            await service.rankd.submit("b", [("p3", 5000)])
            for offset in (1, 3):
                await service.same(page("?" + ask.format(offset)))

    run(compare())


def test_a_large_page_at_an_offset_is_answered_by_its_plan_too() -> None:
    async def compare() -> None:
        async with served() as service:
            await service.rankd.submit("b", [(f"player-{n:04d}", n) for n in range(400)])
            for headers in ({}, {"accept_encoding": "gzip"}):
                small = page("?limit=200&offset=399", **headers)
                line = await service.know(small)
                assert await repeated(line, small)
                large = page("?limit=200&offset=20", **headers)
                answer = await line.ask(large)
                assert (b"content-encoding: gzip" in answer) is bool(headers)
                assert answer == await service.other.ask(large)
                known = page("?limit=200&offset=20", if_none_match="*", **headers)
                assert status(await line.ask(known)) == 304

    run(compare())


def test_a_page_that_is_sent_again_has_the_date_of_its_day() -> None:
    async def wait() -> None:
        async with served() as service:
            await fill(service.rankd)
            line = await service.know(page(""))
            for day in (b"Mon, 16 Nov 2026 00:00:00 GMT", b"Tue, 17 Nov 2026 00:00:00 GMT"):
                service.fast.state.default_headers = [(b"date", day)]
                before = len(line.sent)
                await line.ask(page(""))
                assert b"\r\ndate: " + day + b"\r\n" in line.sent[before:]

    run(wait())


def test_a_page_is_sent_again_only_to_who_shows_the_same_key() -> None:
    async def lock() -> None:
        async with served() as service:
            await fill(service.rankd)
            id, shown = await new_key(service.rankd, "read")
            await new_key(service.rankd, "admin")
            line = await service.know(page("", authorization=shown))
            assert await repeated(line, page("", authorization=shown))
            assert status(await line.ask(page(""))) == 401
            assert status(await line.ask(page("", authorization=f"{shown}x"))) == 401
            await service.rankd.revoke_key(id)
            assert status(await line.ask(page("", authorization=shown))) == 401

    run(lock())


def test_pages_ranks_and_scores_on_one_connection_are_answered_in_order() -> None:
    async def alternate() -> None:
        async with served() as service:
            await fill(service.rankd)
            asked = [page("?limit=3"), get("p1"), page("?limit=3"), post(PLAIN), page("?limit=3")]
            line = service.fast.connect()
            for _ in range(3):
                for sent in asked:
                    await line.send(sent)
                first, rank, again, receipt, last = [told(await line.answer()) for _ in asked]
                assert first == again and len(first["standings"]) == 3
                assert (rank["player"], rank["as_of"]) == ("p1", first["as_of"])
                assert receipt["verdict"] in ("counted", "not_better")
                assert last["as_of"] == receipt["position"] == first["as_of"] + 1

    run(alternate())


def test_a_page_that_others_had_made_anew_is_not_sent_to_who_may_not_see_it_any_more() -> None:
    async def revoke() -> None:
        async with served() as service:
            await fill(service.rankd)
            id, shown = await new_key(service.rankd, "read")
            _, others = await new_key(service.rankd, "read")
            line = await service.know(page("", authorization=shown))
            assert await repeated(line, page("", authorization=shown))
            await service.rankd.revoke_key(id)
            assert status(await service.fast.ask(page("", authorization=others))) == 200
            assert status(await line.ask(page("", authorization=shown))) == 401

    run(revoke())
