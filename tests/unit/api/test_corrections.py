"""Corrections over HTTP: adjustments, retractions, metadata, and states of players."""

import asyncio
import json
from decimal import Decimal
from typing import Any

import pytest
from tests.unit.api.handling import Working, working
from tests.unit.core.doubles import DAY

from rankd.api import audit, operations
from rankd.api.messages import Response
from rankd.api.operations import Operations
from rankd.core import editions
from rankd.errors import (
    InvalidPage,
    InvalidRequest,
    InvalidSubmission,
    NotFound,
    NotRanked,
    Overloaded,
    PlayerBanned,
    UnknownOperation,
    UnknownPlayer,
    UnknownRetraction,
    UnknownSubmission,
)
from rankd.model.facts import Position
from rankd.ports import Progress

pytestmark = pytest.mark.anyio
B = {"board": "b"}
P = {"board": "b", "player": "ann"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def scores(at: Working, board: str = "b", **query: Any) -> dict[str, Any]:
    page = await at.told("list_standings", {"board": board}, **query)
    return {one["player"]: one["score"] for one in page["standings"]}


async def test_an_adjustment_counts_under_any_rule_and_once_for_each_key() -> None:
    async with working() as at:
        await at.define(rule="best")
        await at.submit("ann", 50)
        body = {"player": "ann", "score": 7, "reason": "typo"}
        receipt = await at.told("adjust_score", B, body, {"Idempotency-Key": "once"})
        assert (receipt["verdict"], receipt["score"], receipt["previous_score"]) == (
            "counted",
            7,
            50,
        )
        again = await at.told("adjust_score", B, body, {"Idempotency-Key": "once"})
        assert (again["duplicate"], again["position"]) == (True, receipt["position"])
        assert await scores(at) == {"ann": 7}
        (fact,) = (await at.told("list_facts", kind="score_adjusted"))["facts"]
        assert fact["body"]["reason"] == "typo"
        with pytest.raises(InvalidSubmission):
            await at.ask("adjust_score", B, {"player": "ann", "score": 7, "build": "1"})


async def test_a_retraction_tells_its_effect_and_a_dry_run_the_same() -> None:
    async with working() as at:
        await at.define(rule="best", windows=["all"], decimals=1)
        await at.submit("ann", "1.5")
        await at.submit("bob", "3.0")
        cheat = (await at.submit("ann", "9.9"))["position"]
        change = {
            "board": "b",
            "player": "ann",
            "window": "all",
            "score": Decimal("1.5"),
            "previous_score": Decimal("9.9"),
            "rank": 2,
            "previous_rank": 1,
        }
        effect = {"position": None, "dry_run": True, "submissions": 1, "players": 1, "more": 0}
        selected = {"position": cheat, "reason": "a bot"}
        told = await at.told("retract_scores", B, selected, dry_run=True)
        assert told == {**effect, "changes": [change]}
        assert len(await scores(at)) == 2
        done = await at.told("retract_scores", B, selected)
        assert (done["position"], done["dry_run"]) == (at.service.writer.position, False)
        assert await scores(at) == {"bob": Decimal("3.0"), "ann": Decimal("1.5")}
        again = await at.told("retract_scores", B, selected)
        assert (again["position"], again["submissions"]) == (None, 0)


async def test_columns_of_a_changed_entry_are_shown_by_name() -> None:
    async with working() as at:
        columns = [{"name": "points", "direction": "higher"}, {"name": "ms", "direction": "lower"}]
        await at.define(windows=["all"], columns=columns)
        await at.submit("ann", None, columns={"points": 5, "ms": 70})
        done = await at.told("retract_scores", B, {"player": "ann"})
        (change,) = done["changes"]
        assert "columns" not in change
        assert change["previous_columns"] == {"points": 5, "ms": 70}


async def test_a_retraction_is_taken_back_on_the_board_it_was_made_on() -> None:
    async with working() as at:
        for board in ("b", "c"):
            await at.define(board, windows=["all"])
            await at.submit("ann", 5, board)
        one = (await at.told("retract_scores", B, {"player": "ann"}))["position"]
        every = (await at.told("retract_everywhere", {}, {"player": "ann"}))["position"]
        assert (await scores(at), await scores(at, "c")) == ({}, {})
        with pytest.raises(UnknownRetraction):
            await at.ask("undo_retraction", {**B, "position": str(every)})
        with pytest.raises(UnknownRetraction):
            await at.ask("undo_retraction", {"board": "c", "position": str(one)})
        for wrong in ("x", "1" * 19, "-1"):
            with pytest.raises(NotFound):
                await at.ask("undo_retraction", {**B, "position": wrong})
        undone = {"position": str(every)}
        assert (await at.told("undo_retraction_everywhere", undone))["players"] == 1
        assert (await scores(at), await scores(at, "c")) == ({}, {"ann": 5})
        back = await at.told("undo_retraction", {**B, "position": str(one)}, reason="honest")
        assert (back["submissions"], await scores(at)) == (1, {"ann": 5})
        (fact, last) = (await at.told("list_facts", kind="retraction_undone"))["facts"]
        assert (fact["body"]["retraction"], last["body"]["reason"]) == (every, "honest")


async def test_a_player_is_removed_and_may_come_back() -> None:
    async with working() as at:
        await at.define(windows=["all"])
        await at.submit("ann", 5)
        removed = await at.told("remove_player", P, reason="asked for it")
        assert (removed["submissions"], await scores(at)) == (1, {})
        assert (await at.told("remove_player", P))["submissions"] == 0
        await at.submit("ann", 3)
        assert await scores(at) == {"ann": 3}


async def test_a_range_of_scores_is_retracted_on_one_board() -> None:
    async with working() as at:
        await at.define(windows=["all"])
        for player, score in (("ann", 5), ("bob", 50), ("cyd", 500)):
            await at.submit(player, score)
        done = await at.told("retract_scores", B, {"score_min": 50})
        assert (done["players"], await scores(at)) == (2, {"ann": 5})
        with pytest.raises(InvalidRequest):
            await at.ask("retract_everywhere", {}, {"score_min": 1})


async def test_metadata_is_changed_without_a_score() -> None:
    async with working() as at:
        await at.define(windows=["all", "daily"])
        await at.submit("ann", 5, metadata={"car": "blue"})
        shown = await at.told("patch_standing", P, {"metadata": {"car": "red"}})
        assert shown == {**P, "metadata": {"car": "red"}, "position": at.service.writer.position}
        for window in ("all", "daily"):
            assert (await at.told("get_standing", P, window=window))["metadata"] == {"car": "red"}
        await at.ask("patch_standing", P, {"metadata": None})
        assert (await at.told("get_standing", P))["metadata"] is None
        with pytest.raises(NotRanked):
            await at.ask("patch_standing", {**B, "player": "bob"}, {"metadata": 1})
        for wrong in ({}, {"metadata": 1, "score": 2}):
            with pytest.raises(InvalidSubmission):
                await at.ask("patch_standing", P, wrong)


async def test_a_state_holds_until_it_is_restored_and_moderators_see_why() -> None:
    async with working() as at:
        await at.define(windows=["all"])
        await at.submit("ann", 5)
        assert (await scores(at)) == {"ann": 5}
        done = await at.told("ban_player", {"player": "ann"}, {"reason": "a bot"})
        assert (done["state"], done["reason"], await scores(at)) == ("banned", "a bot", {})
        with pytest.raises(PlayerBanned):
            await at.submit("ann", 6)
        known = await at.told("get_player", {"player": "ann"})
        assert (known["state"], known["reason"], known["name"]) == ("banned", "a bot", None)
        assert known["states"] == done["states"]
        restored = await at.told("restore_player", {"player": "ann"})
        assert (restored["state"], restored["states"], await scores(at)) == (
            "active",
            [],
            {"ann": 5},
        )
        with pytest.raises(UnknownPlayer):
            await at.ask("get_player", {"player": "ann"})
        await at.ask("hide_player", {"player": "ann"}, {"boards": ["b"]})
        await at.submit("ann", 8)
        assert await scores(at) == {}
        await at.ask("shadow_player", {"player": "ann"}, {"boards": ["b"]})
        assert (await at.told("get_player", {"player": "ann"}))["state"] == "shadowed"
        await at.ask("restore_player", {"player": "ann"})
        assert await scores(at) == {"ann": 8}


async def test_a_state_ends_by_itself() -> None:
    async with working() as at:
        await at.define(windows=["all"])
        await at.submit("ann", 5)
        until = {"until": "2026-11-15T12:00:00Z"}
        done = await at.told("ban_player", {"player": "ann"}, until)
        assert done["states"][0]["until"] == "2026-11-15T12:00:00Z"
        at.clock.time += DAY
        await at.service.writer.sealer.turn()
        assert await scores(at) == {"ann": 5}
        with pytest.raises(InvalidRequest):
            await at.ask("ban_player", {"player": "ann"}, until)


async def test_an_earlier_edition_of_a_closed_window_stays_readable() -> None:
    async with working() as at:
        await at.define(windows=["all", "daily"], segments=["region"])
        eu: dict[str, Any] = {"attributes": {"region": "eu"}}
        for player, score in (("ann", 10), ("bob", 90), ("cyd", 30), ("dee", 5)):
            await at.submit(player, score, metadata={"run": score}, **eu)
        at.clock.time += DAY
        await at.submit("ann", 1)
        closed: dict[str, Any] = {"window": "daily:2026-11-14"}
        first = {"bob": 90, "cyd": 30, "ann": 10, "dee": 5}
        assert await scores(at, **closed) == await scores(at, **closed, edition=1) == first
        gone = await at.told("remove_player", {"board": "b", "player": "bob"})
        second = {"cyd": 30, "ann": 10, "dee": 5}
        again = await at.told("remove_player", {"board": "b", "player": "cyd"})
        third = {"ann": 10, "dee": 5}
        await at.told("undo_retraction", {**B, "position": str(gone["position"])})
        fourth = {"bob": 90, "ann": 10, "dee": 5}
        await at.told("undo_retraction", {**B, "position": str(again["position"])})
        for number, known in enumerate((first, second, third, fourth, first), start=1):
            assert await scores(at, **closed, edition=number) == known
            assert await scores(at, **closed, edition=number, segment="region:eu") == known
            dee = await at.told("get_standing", {**B, "player": "dee"}, **closed, edition=number)
            assert (dee["rank"], dee["total"], dee["edition"]) == (len(known), len(known), number)
            assert dee["metadata"] == {"run": 5}
        assert await scores(at, **closed) == first
        page = await at.told("list_standings", B, **closed, edition=4, limit=1, offset=1)
        assert (page["edition"], page["total"], page["standings"][0]["player"]) == (4, 3, "ann")
        listed = (await at.told("list_windows", B))["windows"]
        assert {one["window"]: one.get("edition") for one in listed} == {
            "all": None,
            "daily:2026-11-15": None,
            "daily:2026-11-14": 5,
        }
        with pytest.raises(InvalidPage):
            await at.ask("list_standings", B, **closed, edition=6)
        with pytest.raises(InvalidPage):
            await at.ask("get_standing", P, edition=2)
        with pytest.raises(NotRanked):
            await at.ask("get_standing", {**B, "player": "cyd"}, **closed, edition=3)
        await at.ask("ban_player", {"player": "bob"})
        assert await scores(at, **closed, edition=1) == {"cyd": 30, "ann": 10, "dee": 5}


async def test_an_edition_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(editions, "EDITION_CHANGES_MAX", 2)
    monkeypatch.setattr(editions, "ENTRIES_TOGETHER", 1)
    async with working() as at:
        await at.define(windows=["daily"])
        for player in ("ann", "bob", "cyd"):
            await at.submit(player, 5)
        at.clock.time += DAY
        await at.submit("ann", 1)
        closed: dict[str, Any] = {"window": "daily:2026-11-14"}
        await at.told("retract_scores", B, {"players": ["ann", "bob"]})
        assert await scores(at, **closed, edition=1) == {"ann": 5, "bob": 5, "cyd": 5}
        await at.told("remove_player", {**B, "player": "cyd"})
        with pytest.raises(InvalidPage):
            await at.ask("list_standings", B, **closed, edition=1)
        assert await scores(at, **closed, edition=2) == {"cyd": 5}


async def test_the_log_of_a_board_names_no_player(monkeypatch: pytest.MonkeyPatch) -> None:
    async with working() as at:
        await at.define("other", windows=["all"])
        await at.define(windows=["daily"], public_corrections=True)
        await at.submit("ann", 5, build="1.2")
        at.clock.time += DAY
        await at.submit("ann", 5, "other")
        await at.told("retract_scores", {"board": "other"}, {"player": "ann", "reason": "theirs"})
        done = await at.told("retract_everywhere", {}, {"build": "1.2", "reason": "a bug"})
        await at.told("undo_retraction_everywhere", {"position": str(done["position"])})
        await at.told("adjust_score", B, {"player": "bob", "score": 3, "reason": "typo"})
        until = {"until": "2030-01-01T00:00:00Z", "reason": "a bot"}
        await at.told("ban_player", {"player": "ann"}, {**until, "boards": ["b"]})
        await at.told("hide_player", {"player": "ann"}, {"boards": ["other"]})
        log = await at.told("list_corrections", B)
        assert "'ann'" not in str(log)
        assert "'bob'" not in str(log)
        shown = [(one["kind"], one["reason"], one["state"]) for one in log["corrections"]]
        assert shown == [
            ("scores_retracted", "a bug", None),
            ("retraction_undone", None, None),
            ("score_adjusted", "typo", None),
            ("player_state_set", "a bot", "banned"),
        ]
        first, second, *_ = log["corrections"]
        assert (first["build"], first["windows"]) == ("1.2", ["daily:2026-11-14"])
        assert (second["retraction"], log["next_after"]) == (done["position"], None)
        monkeypatch.setattr(audit, "READ_FACTS", 1)
        monkeypatch.setattr(audit, "SCANNED_FACTS_MAX", 3)
        for since in (0, done["position"], at.service.rankd.position, 10**9):
            at.service.rankd.state.audit.since = Position(since)
            pages, after = [], 0
            while after is not None:
                page = await at.told("list_corrections", B, after=after, limit=2)
                pages += page["corrections"]
                after = page["next_after"]
            assert pages == log["corrections"]
        at.service.rankd.state.audit.since = Position(0)
        (fact, _) = (await at.told("list_facts", kind="player_state_set"))["facts"]
        assert fact["body"]["until"] == "2030-01-01T00:00:00Z"


# -------------------------------------------------------------------------- operations

LATER = {"Prefer": "respond-async"}


def id_of(asked: Response) -> str:
    """Return the id in an answer of 202."""
    assert asked.status == 202
    return str(json.loads(asked.body)["operation"])


async def test_a_long_retraction_is_asked_for_again() -> None:
    async with working() as at:
        await at.define(windows=["all"])
        await at.submit("ann", 5)
        asked = await at.ask("retract_scores", B, {"build": "x"}, LATER)
        assert asked.status == 202
        operation = {"operation": id_of(asked)}
        done = await at.ask("wait_operation", operation, seconds=30)
        assert (done.status, b'"submissions":0' in done.body) == (200, True)
        assert await at.ask("wait_operation", operation) == done
        in_time = await at.ask(
            "retract_scores", B, {"player": "ann"}, {"Prefer": "respond-async, wait=30"}
        )
        assert (in_time.status, b'"submissions":1' in in_time.body) == (200, True)
        with pytest.raises(UnknownOperation):
            await at.ask("wait_operation", {"operation": "x"})


async def test_an_operation_tells_its_progress_and_its_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    going_on = asyncio.Event()

    async def retract(*_: Any, tell: Any, **__: Any) -> None:
        tell(Progress(5, 10, "looking for submissions", "fact"))
        await going_on.wait()
        raise UnknownSubmission(board="b", named="key k")

    async with working() as at:
        await at.define(windows=["all"])
        monkeypatch.setattr(at.service.writer.corrections, "retract", retract)
        asked = await at.ask("retract_scores", B, {"key": "k"}, LATER)
        operation = {"operation": id_of(asked)}
        assert await at.told("wait_operation", operation) == {
            **operation,
            "state": "running",
            "stage": "looking for submissions",
            "done": 5,
            "total": 10,
            "unit": "fact",
        }
        going_on.set()
        for _ in range(2):
            with pytest.raises(UnknownSubmission):
                await at.ask("wait_operation", operation, seconds=30)


async def test_so_many_operations_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "OPERATIONS_MAX", 2)
    async with working() as at:
        await at.define(windows=["all"])
        ids = []
        for _ in range(3):
            asked = await at.ask("retract_scores", B, {"player": "ann"}, LATER)
            ids.append(id_of(asked))
            await at.ask("wait_operation", {"operation": ids[-1]}, seconds=30)
        with pytest.raises(UnknownOperation):
            await at.ask("wait_operation", {"operation": ids[0]})
        stuck = asyncio.Event()
        at.service.operations = Operations()

        async def retract(*_: Any, **__: Any) -> None:
            await stuck.wait()
            raise NotFound

        monkeypatch.setattr(at.service.writer.corrections, "retract", retract)
        for _ in range(2):
            await at.ask("retract_scores", B, {"player": "ann"}, LATER)
        with pytest.raises(Overloaded):
            await at.ask("retract_scores", B, {"player": "ann"}, LATER)
        stuck.set()
