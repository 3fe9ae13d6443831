"""Defining, previewing, changing and retiring boards, as handlers answer it."""

from decimal import Decimal
from typing import Any

import pytest
from tests.unit.api.handling import working
from tests.unit.core.doubles import DAY

from rankd.errors import (
    DropsScores,
    InvalidBoard,
    MalformedRequest,
    NotRanked,
    UnknownBoard,
    UnknownWindow,
)

pytestmark = pytest.mark.anyio
B = {"board": "b"}
P = {"player": "p"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_a_board_is_created_once_and_the_same_again_changes_nothing() -> None:
    async with working() as at:
        created = await at.ask("put_board", B, {"rule": "sum"})
        position = at.service.rankd.position
        again = await at.ask("put_board", B, {"rule": "sum"})
        assert (created.status, again.status) == (201, 200)
        assert created.body == again.body
        assert at.service.rankd.position == position


async def test_a_board_that_another_node_defined_meanwhile_is_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with working() as at:
        define = at.service.writer.define

        async def define_second(name: str, definition: Any, **named: Any) -> Any:
            await define(name, {"rule": "sum"})
            return await define(name, definition, **named)

        monkeypatch.setattr(at.service.writer, "define", define_second)
        told = await at.told("put_board", B, {"rule": "latest"}, apply=True)
        assert (told["applied"], [change["field"] for change in told["changes"]]) == (
            True,
            ["rule"],
        )


SEASON = {
    "name": "season",
    "every": "1d",
    "gap": "1d",
    "start": "2026-11-20T00:00:00Z",
}


async def test_a_board_before_its_start_is_scheduled_on_every_read_route() -> None:
    opening = ("scheduled", "2026-11-20T00:00:00Z", 0)
    async with working() as at:
        await at.define(windows=[SEASON])
        answers = [
            await at.told("list_standings", B),
            await at.told("list_standings", B, window="season:2"),
            await at.told("around_rank", {**B, "rank": "1"}),
            await at.told("lookup_standings", B, {"players": ["p"]}),
            await at.told("list_friends", {**B, "player": "p"}),
            await at.told("get_projection", B, rank=1),
        ]
        opens = [(one["state"], one["opens_at"], one["total"]) for one in answers]
        assert opens.pop(1) == ("scheduled", "2026-11-22T00:00:00Z", 0)
        assert opens == [opening] * 5
        assert all(one.get("standings", []) == [] for one in answers)
        for operation in ("get_standing", "around_player"):
            with pytest.raises(NotRanked):
                await at.ask(operation, {**B, "player": "p"})
        for told in (await at.told("get_board", B), await at.told("list_windows", B)):
            (window,) = told["windows"]
            assert (window["state"], window["opens_at"], window["total"]) == opening
        assert (await at.told("get_board", B))["next_reset"] == "2026-11-20T00:00:00Z"


async def test_a_window_is_scheduled_again_between_two_of_them() -> None:
    async with working() as at:
        await at.define(windows=["all", SEASON])
        at.clock.time += 6 * DAY  # The 20th.
        await at.submit("p", 1)
        opened = await at.told("list_standings", B, window="season")
        assert (opened["state"], opened["total"], "opens_at" in opened) == ("open", 1, False)
        at.clock.time += DAY
        await at.submit("p", 1)
        paused = await at.told("list_standings", B, window="season")
        assert (paused["state"], paused["opens_at"]) == ("scheduled", "2026-11-22T00:00:00Z")
        ended = await at.told("list_standings", B, window="season:-1")
        assert (ended["state"], ended["total"]) == ("sealed", 1)
        one = await at.told("get_standing", {**B, "player": "p"}, window="season:-1")
        (everywhere,) = (await at.told("player_standings", P, window="season:-1"))["standings"]
        for told in (one, everywhere):
            assert (told["window"], told["state"], told["rank"]) == ("season:1", "sealed", 1)


async def test_a_past_window_in_which_nothing_ran_has_no_standings() -> None:
    async with working() as at:
        await at.define(windows=["daily"])
        await at.submit("p", 1)
        at.clock.time += 2 * DAY
        await at.submit("p", 1)
        missed = await at.told("list_standings", B, window="daily:-1")
        assert (missed["window"], missed["state"]) == ("daily:2026-11-15", "sealed")
        assert (missed["total"], missed["standings"]) == (0, [])
        with pytest.raises(UnknownWindow):  # Before the board was there.
            await at.ask("list_standings", B, window="daily:2026-11-13")


async def test_a_board_needs_no_words() -> None:
    async with working() as at:
        assert (await at.ask("put_board", B)).status == 201
        assert (await at.told("get_board", B))["definition"]["rule"] == "best"


async def test_a_board_is_not_changed_by_a_body_that_was_lost() -> None:
    async with working() as at:
        await at.define(rule="sum")
        position = at.service.rankd.position
        with pytest.raises(MalformedRequest, match=r"definition as the body; \{\} means"):
            await at.ask("put_board", B, apply=True)
        assert at.service.rankd.position == position
        assert not (await at.told("put_board", B))["applied"]
        assert (await at.told("put_board", B, {}, apply=True))["applied"]
        assert (await at.told("get_board", B))["definition"]["rule"] == "best"


async def test_preview_and_apply_fold_the_board_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    async with working() as at:
        await at.define(rule="sum")
        for score in (3, 5):
            await at.submit("p", score)
        read: list[int] = []
        ledger_read = at.ledger.read

        async def read_and_note(**asked: Any) -> Any:
            facts = await ledger_read(**asked)
            read.extend(recorded.position for recorded in facts)
            return facts

        monkeypatch.setattr(at.ledger, "read", read_and_note)
        preview = await at.told("put_board", B, {"rule": "best"})
        assert (preview["applied"], read) == (False, [1, 2, 3])
        read.clear()
        applied = await at.told("put_board", B, {"rule": "best"}, apply=True)
        assert (applied["applied"], read) == (True, [1, 2, 3])
        assert applied["windows"] == preview["windows"]


async def test_a_preview_names_the_columns_of_each_side_as_that_side_does() -> None:
    columns = [{"name": "score"}, {"name": "time", "direction": "lower"}]
    async with working() as at:
        await at.define(columns=columns)
        await at.told("submit_score", B, {"player": "p", "score": 5, "columns": {"time": 60}})
        changed = {"columns": [*reversed(columns)]}
        previewed = await at.told("put_board", B, changed)
        applied = await at.told("put_board", B, changed, apply=True)
        assert (previewed["applied"], applied["applied"]) == (False, True)
        for told in (previewed, applied):
            (window,) = told["windows"]
            assert window["top"][0]["columns"] == {"score": 5, "time": 60}
            assert window["top"][0]["score"] == 5
            assert window["top_after"][0]["columns"] == {"time": 60, "score": 5}
            assert window["top_after"][0]["score"] == 60
        assert previewed["changes"] == applied["changes"] != []


async def test_a_preview_shows_each_side_with_its_decimals() -> None:
    async with working() as at:
        await at.define()
        await at.submit("p", 7)
        told = await at.told("put_board", B, {"decimals": 2})
        (window,) = told["windows"]
        assert str(window["top"][0]["score"]) == "7"
        assert str(window["top_after"][0]["score"]) == "7.00"
        assert isinstance(window["top_after"][0]["score"], Decimal)


async def test_what_cannot_be_is_refused_and_nothing_is_changed() -> None:
    async with working() as at:
        await at.define(decimals=2)
        position = at.service.rankd.position
        for definition in ({"decimals": 1}, {"decimals": 2, "rule": "other"}):
            for apply in (False, True):
                with pytest.raises(InvalidBoard):
                    await at.ask("put_board", B, definition, apply=apply)
        assert at.service.rankd.position == position


async def test_scores_are_dropped_only_where_that_is_agreed_to() -> None:
    changed = {"columns": [{"name": "points"}]}
    async with working() as at:
        await at.define()
        await at.submit("p", 7)
        previewed = await at.told("put_board", B, changed)
        assert (previewed["drops"], previewed["applied"]) == (["all"], False)
        position = at.service.rankd.position
        with pytest.raises(DropsScores, match=r"no column points; .* only with drop_scores"):
            await at.ask("put_board", B, changed, apply=True)
        assert at.service.rankd.position == position
        assert not (await at.told("put_board", B, changed, drop_scores=True))["applied"]
        applied = await at.told("put_board", B, changed, apply=True, drop_scores=True)
        assert (applied["drops"], applied["applied"]) == (["all"], True)
        assert applied["position"] == position + 1
        assert (await at.told("get_board", B))["total"] == 0


async def test_decimals_that_a_score_does_not_fit_are_refused() -> None:
    async with working() as at:
        await at.define()
        await at.submit("p", 10**18)
        for apply in (False, True):
            with pytest.raises(InvalidBoard, match="64 bits"):
                await at.ask("put_board", B, {"decimals": 1}, apply=apply)


async def test_windows_are_told_open_ones_first_and_then_the_latest() -> None:
    async with working() as at:
        await at.define(windows=["daily", "all"])
        await at.submit("p", 1)
        for _ in range(2):
            at.clock.time += DAY
            await at.submit("p", 1)
        told = (await at.told("list_windows", B))["windows"]
        assert [(each["window"], each["state"], each["total"]) for each in told] == [
            ("daily:2026-11-16", "open", 1),
            ("all", "open", 1),
            ("daily:2026-11-15", "sealed", 1),
            ("daily:2026-11-14", "sealed", 1),
        ]
        board = await at.told("get_board", B)
        assert board["next_reset"] == "2026-11-17T00:00:00Z"
        assert board["server_time"] == "2026-11-16T12:00:00Z"
        assert (await at.told("list_boards"))["boards"] == [board]


async def test_a_board_that_is_retired_is_there_no_more() -> None:
    async with working() as at:
        await at.define()
        done = await at.told("retire_board", B, reason="over")
        assert done == {"position": at.service.rankd.position}
        for operation in ("get_board", "list_windows", "retire_board"):
            with pytest.raises(UnknownBoard):
                await at.ask(operation, B)
        assert (await at.told("list_boards"))["boards"] == []
