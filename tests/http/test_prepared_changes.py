"""What was made ready before a change does not answer after it.

A board that is defined anew, a window that turned, an index that was rebuilt, a day that is over:
whatever an answer depends on is as it is now, from the next request on.
"""

from typing import TYPE_CHECKING

import pytest
from tests.http.changes import CHANGES, moved, turned
from tests.http.lanes import (
    AROUND,
    PLAIN,
    RICH,
    STANDING,
    alike,
    fill,
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
from tests.unit.core.doubles import DAY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rankd.core.engine import Engine

# ---------------------------------------------------------------------------------- reads

NO_LONGER = {
    ("another segment", "{}?segment=region:eu"),
    ("erased", "{}?segment=region:eu"),
    ("turned", "{}?window=daily"),
    ("turned", "{}/around?window=daily"),
}
"""Whom a change leaves unranked in what is asked for."""


@pytest.mark.parametrize(
    "ask",
    [STANDING, AROUND, "{}?window=daily", "{}/around?window=daily", "{}?segment=region:eu"],
)
@pytest.mark.parametrize("name", CHANGES)
def test_what_was_prepared_before_a_change_does_not_answer_after_it(name: str, ask: str) -> None:
    async def change() -> None:
        change, expected = CHANGES[name]
        async with served(RICH) as service:
            await fill(service.rankd)
            sent = get("p1", ask)
            line = await service.know(sent)
            before = await line.ask(sent)
            await change(service)
            after = await line.ask(sent)
            assert after == await service.other.ask(sent)
            assert status(after) == (404 if (name, ask) in NO_LONGER else expected)
            assert after != before
            for player in ("p1", "p3"):
                await service.same(get(player, ask))
            await service.rankd.submit("b", [("p3", 5000)]) if name != "retired" else None
            for player in ("p1", "p3"):
                await service.same(get(player, ask))

    run(change())


def test_each_answer_is_as_of_the_last_submission() -> None:
    async def follow() -> None:
        async with served() as service:
            await fill(service.rankd)
            line = await service.know(get("p1"))
            await line.ask(get("p1", AROUND))
            before = service.looked["get_standing"], service.looked["around_player"]
            for number in range(10):
                player = f"p{number}"
                (counted,) = await service.rankd.submit("b", [(player, 100 + number)])
                found = told(await line.ask(get(player)))
                assert (found["as_of"], found["rank"]) == (counted.position, 1)
                near = told(await line.ask(get(player, AROUND)))
                assert (near["as_of"], near["standings"][0]["player"]) == (counted.position, player)
            assert before == (service.looked["get_standing"], service.looked["around_player"])

    run(follow())


def test_a_window_that_closed_is_read_as_it_was_sealed() -> None:
    async def seal() -> None:
        async with served(RICH) as service:
            await fill(service.rankd)
            asked = [get("p1", f"{{}}?window=daily{which}") for which in ("", ":2026-11-14", ":-1")]
            for sent in asked:
                await service.know(sent)
            await turned(service)
            await moved(service)
            for sent in asked:
                for _ in range(3):
                    answer = await service.same(sent)
                    assert status(answer) == 200
            assert told(await service.same(asked[0]))["window"] == "daily:2026-11-15"
            assert told(await service.same(asked[1]))["window"] == "daily:2026-11-14"
            assert told(await service.same(asked[2]))["window"] == "daily:2026-11-14"
            await turned(service)
            assert told(await service.same(asked[2]))["window"] == "daily:2026-11-15"

    run(seal())


SEASON = {"name": "season", "every": "1d", "gap": "1d", "start": "2026-11-20T00:00:00Z"}
SEASON_READS = [
    request("GET", "/v1/boards/b"),
    request("GET", "/v1/boards/b/windows"),
    request("GET", "/v1/boards/b/standings"),
    request("GET", "/v1/boards/b/standings?window=season&limit=5"),
    request("GET", "/v1/boards/b/around/3"),
    request("GET", "/v1/boards/b/friends/p1"),
    request("GET", "/v1/boards/b/projection?rank=1"),
    post({"players": ["p1"]}, "/v1/boards/b/standings:lookup"),
]


def test_a_window_before_its_start_is_told_alike_by_both_lanes_until_it_opens() -> None:
    async def open_it() -> None:
        async with served({"windows": [SEASON]}) as service:
            opening = ("scheduled", "2026-11-20T00:00:00Z", 0)
            for state, opens_at, total in (opening, ("open", None, 12)):
                for sent in SEASON_READS:
                    await service.same(sent)
                    found = told(await service.same(sent))
                    (shown,) = found.get("windows", [found])
                    assert (shown["state"], shown.get("opens_at")) == (state, opens_at)
                    assert (shown["window"], shown["total"]) == ("season:1", total)
                    assert len(found.get("standings", [])) <= total
                for ask in (STANDING, AROUND):
                    answer = await service.same(get("p1", ask))
                    assert status(answer) == (200 if total else 404)
                service.clock.time += 6 * DAY
                await fill(service.rankd)

    run(open_it())


def test_a_submission_before_the_start_is_told_alike_when_that_is() -> None:
    async def submit() -> None:
        definition = {"windows": [SEASON]}
        async with served(definition) as one, served(definition) as twin:
            assert await alike(one, twin, post(PLAIN), keyed("p1", 5), keyed("p1", 5)) == [422] * 3
            refused = told(await one.fast.ask(post(PLAIN)))
            opening = "when it came; season opens at 2026-11-20T00:00:00Z"
            assert refused["detail"] == f"no window of the board was open {opening}"
            assert refused["applied"] == "no"
            one.clock.time += 6 * DAY
            assert status(await one.fast.ask(post(PLAIN))) == 200
            again = told(await one.fast.ask(keyed("p1", 5)))
            assert again["detail"] == "no window of the board was open when it came"

    run(submit())


def test_how_long_ago_is_counted_from_now_though_no_window_was_turned() -> None:
    async def wait() -> None:
        async with served(RICH) as service:
            await fill(service.rankd)
            sent = get("p1", "{}?window=daily:-1")
            for expected in (404, 200, 404):
                for _ in range(2):
                    assert status(await service.same(sent)) == expected
                service.clock.time += DAY

    run(wait())


def test_an_answer_that_was_prepared_has_the_date_of_its_day() -> None:
    async def wait() -> None:
        async with served() as service:
            line = await service.know(post(PLAIN))
            await line.ask(get("p1"))
            service.fast.state.default_headers = [(b"date", b"Tue, 17 Nov 2026 00:00:00 GMT")]
            for sent in (get("p1"), post(PLAIN)):
                before = len(line.sent)
                await line.ask(sent)
                assert b"\r\ndate: Tue, 17 Nov 2026" in line.sent[before:]
            assert (service.looked["get_standing"], service.looked["submit_score"]) == (1, 1)

    run(wait())


# ---------------------------------------------------------------------------- submissions


@pytest.mark.parametrize("name", ["redefined", "retitled", "retired", "anew", "bounded"])
def test_a_board_that_changed_between_two_submissions_is_met_as_it_is(name: str) -> None:
    changes: dict[str, tuple[Callable[[Engine], Awaitable[object]], int]] = {
        "redefined": (lambda rankd: rankd.redefine("b", {"decimals": 2}), 200),
        "retitled": (lambda rankd: rankd.redefine("b", {"title": "B"}), 200),
        "retired": (lambda rankd: rankd.retire("b"), 404),
        "anew": (lambda rankd: rankd.retire("b"), 200),
        "bounded": (
            lambda rankd: rankd.redefine("b", {"limits": {"score_max": 4}}, drop_scores=True),
            422,
        ),
    }

    async def change() -> None:
        async with served() as one, served() as twin:
            both = [post(PLAIN), keyed("p2", 5)]
            assert await alike(one, twin, *both, *both) == [200] * 4
            for each in (one, twin):
                await changes[name][0](each.rankd)
                if name == "anew":
                    await each.rankd.define("b", {})
            expected = changes[name][1]
            retried = expected if name == "retired" else 200
            for _ in range(2):
                assert await alike(one, twin, *both) == [expected, retried]
                assert await alike(one, twin, keyed("p2", 6)) == [404 if retried == 404 else 422]
            if name != "retired":
                assert await ranking(one) == await ranking(twin)

    run(change())


def test_a_rebuilt_index_gets_the_next_submission() -> None:
    async def rebuild() -> None:
        async with served() as one, served() as twin:
            await alike(one, twin, post(PLAIN), post(PLAIN))
            for each in (one, twin):
                async for _ in each.rankd.rebuild():
                    pass
            for score in (7, 8):
                assert await alike(one, twin, post({"player": "p1", "score": score})) == [200]
            assert await ranking(one) == await ranking(twin)
            assert (await ranking(one))[0][-1] == (8,)

    run(rebuild())


def test_a_window_that_is_over_turns_before_what_is_taken_counts() -> None:
    async def turn() -> None:
        definition = {"windows": ["daily"]}
        async with served(definition) as one, served(definition) as twin:
            await alike(one, twin, post(PLAIN), post(PLAIN))
            for each in (one, twin):
                each.clock.time += DAY
            assert await alike(one, twin, post({"player": "p1", "score": 3})) == [200]
            assert [each[1:] for each in await ranking(one)] == [(1, "p1", (3,))]

    run(turn())
