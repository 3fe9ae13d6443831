"""The lives of windows over HTTP: steps of operators, in both lanes, and the steps to come."""

from typing import Any

from tests.http.lanes import Served, post, request, served, status, told
from tests.http.running import run
from tests.unit.core.doubles import DAY, HOUR

TODAY, TOMORROW = "daily:2026-11-14", "daily:2026-11-15"
BOARD = {"windows": [{"name": "daily", "grace": "2h"}, "all"], "rule": "sum"}


async def ask(service: Served, method: str, path: str, body: Any = None) -> Any:
    """Return the answer, which for reads both lanes give alike; of a refusal its problem."""
    path = f"/v1/boards/b{path}"
    sent = request(method, path) if body is None else post(body, path)
    answer = await service.fast.ask(sent)
    if method == "GET":
        assert answer == await service.other.ask(sent)
    found = told(answer)
    return found if status(answer) == 200 else {**found, "status": status(answer)}


async def step(service: Served, verb: str, window: str, reason: str = "a test") -> Any:
    return await ask(service, "POST", f":{verb}", {"window": window, "reason": reason})


async def submit(service: Served, points: int) -> Any:
    """Submit in one lane or the other, by turns."""
    sent = post({"player": "ann", "score": points})
    lane = service.fast if points % 2 else service.other
    answer = await lane.ask(sent)
    return {"status": status(answer), **told(answer)}


async def listed(service: Served) -> dict[str, str]:
    found = await ask(service, "GET", "/windows")
    return {one["window"]: one["state"] for one in found["windows"]}


def test_a_frozen_window_is_left_out_and_shown_so_everywhere() -> None:
    async def live() -> None:
        async with served(BOARD) as service:
            assert set((await submit(service, 1))["windows"]) == {"daily", "all"}
            before = await ask(service, "GET", "/standings?window=daily")
            done = await step(service, "freeze", "daily")
            assert (done["state"], done["changed"], done["window"]) == ("frozen", True, TODAY)
            assert not (await step(service, "freeze", "daily"))["changed"]
            for points in (2, 3):
                assert set((await submit(service, points))["windows"]) == {"all"}
            page = await ask(service, "GET", "/standings?window=daily")
            assert page["state"] == "frozen"
            assert page["standings"] == before["standings"]
            for path in ("/standings/ann", "/projection?rank=1&", "/standings/ann/around"):
                path += "" if path.endswith("&") else "?"
                assert (await ask(service, "GET", f"{path}window=daily"))["state"] == "frozen"
            board = await ask(service, "GET", "")
            assert [one["state"] for one in board["windows"]] == ["frozen", "open"]
            assert await listed(service) == {"all": "open", TODAY: "frozen"} | {
                TOMORROW: "scheduled"
            }

    run(live())


def test_a_score_for_frozen_windows_alone_is_refused_in_both_lanes() -> None:
    async def live() -> None:
        async with served({"windows": ["all"]}) as service:
            await submit(service, 1)
            await step(service, "freeze", "all")
            for points in (2, 3):
                refused = await submit(service, points)
                assert (refused["status"], refused["code"]) == (409, "window_frozen")
                assert refused["applied"] == "no"
            batch = {"scores": [{"board": "b", "player": "bob", "score": 5}]}
            answer = await service.fast.ask(post(batch, "/v1/scores:batch"))
            (one,) = told(answer)["results"]
            assert (one["code"], one["applied"]) == ("window_frozen", "no")
            reset = await step(service, "reset", "all")
            assert (reset["state"], reset["opened"]["window"]) == ("sealed", "all~2")
            for points in (2, 3):
                assert (await submit(service, points))["status"] == 200
            first = await ask(service, "GET", "/standings?window=all~1")
            assert [row["score"] for row in first["standings"]] == [1]

    run(live())


def test_a_window_lives_from_its_opening_to_its_settlement() -> None:
    async def live() -> None:
        async with served(BOARD) as service:
            await submit(service, 1)
            service.clock.time += 13 * HOUR
            await submit(service, 2)
            assert (await listed(service))[TODAY] == "grace"
            service.clock.time += 2 * HOUR
            await submit(service, 3)
            assert (await listed(service))[TODAY] == "sealed"
            done = await step(service, "settle", TODAY)
            assert (done["state"], done["opened"]) == ("final", None)
            page = await ask(service, "GET", f"/standings?window={TODAY}")
            assert (page["state"], page["total"]) == ("final", 1)
            refused = await step(service, "reset", TODAY, "too late")
            assert (refused["status"], refused["code"]) == (409, "window_state")
            assert refused["applied"] == "no"
            service.clock.time += DAY

    run(live())


def test_a_reset_shows_where_one_window_ended_and_the_other_began() -> None:
    async def live() -> None:
        async with served(BOARD) as service:
            await submit(service, 1)
            done = await step(service, "reset", "daily")
            windows = (await ask(service, "GET", "/windows"))["windows"]
            spans = {one["window"]: (one["start"], one["end"]) for one in windows}
            assert spans[TODAY][1] == spans[f"{TODAY}~2"][0] == done["opened"]["start"]
            again = await step(service, "reset", "daily")
            assert (again["changed"], again["opened"]["window"]) == (False, f"{TODAY}~2")
            assert (await submit(service, 2))["windows"]["daily"]["window"] == f"{TODAY}~2"

    run(live())


def test_a_step_that_is_not_in_order_names_the_fields() -> None:
    async def live() -> None:
        async with served(BOARD) as service:
            refused = await ask(service, "POST", ":freeze", {"window": "daily", "why": "x"})
            assert refused["status"] == 422
            assert {one["field"] for one in refused["errors"]} == {"why", "reason"}
            assert (await step(service, "reset", "weekly"))["code"] == "unknown_window"

    run(live())


def test_the_schedule_tells_both_times_across_daylight_saving() -> None:
    async def live() -> None:
        berlin = {"windows": ["monthly", {"name": "daily", "at": "02:30"}]}
        async with served({**berlin, "time_zone": "Europe/Berlin"}) as service:
            service.clock.time += 133 * DAY + 12 * HOUR
            await submit(service, 1)
            found = await ask(service, "GET", "/schedule?next=6")
            assert found["time_zone"] == "Europe/Berlin"
            daily = [one for one in found["schedule"] if one["name"] == "daily"]
            assert [(one["step"], one["local"]) for one in daily] == [
                ("closes", "2027-03-28T03:00:00+02:00"),
                ("opens", "2027-03-28T03:00:00+02:00"),
                ("closes", "2027-03-29T02:30:00+02:00"),
                ("opens", "2027-03-29T02:30:00+02:00"),
                ("closes", "2027-03-30T02:30:00+02:00"),
                ("opens", "2027-03-30T02:30:00+02:00"),
            ]
            assert daily[0]["at"] == "2027-03-28T01:00:00Z"
            for wrong in ("0", "101", "x"):
                assert (await ask(service, "GET", f"/schedule?next={wrong}"))["status"] == 422

    run(live())


def test_a_board_before_its_start_is_scheduled() -> None:
    async def live() -> None:
        cup = {"name": "cup", "start": "2027-01-01T00:00:00Z", "end": "2027-02-01T00:00:00Z"}
        async with served({"windows": [cup]}) as service:
            page = await ask(service, "GET", "/standings")
            assert (page["state"], page["standings"]) == ("scheduled", [])
            assert page["opens_at"] == "2027-01-01T00:00:00Z"
            assert page["total"] == 0

    run(live())
