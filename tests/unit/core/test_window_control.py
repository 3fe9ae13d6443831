"""The life of a window: its grace, and the steps that operators take."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from tests.unit.core.doubles import DAY, HOUR, FaultyLedger, SetClock, engine

from rankd.adapters.memory.index import NativeIndex
from rankd.core import mass_retraction
from rankd.core.board_state import SealedWindow, exact_id
from rankd.core.certificates import Certificate, certificate_of, check_certificate
from rankd.core.engine import Engine
from rankd.core.recovery import IndexHome
from rankd.core.state_codec import Heading, read_notes, take_notes
from rankd.core.window_control import WINDOW_TEXT_LENGTH_MAX
from rankd.core.window_schedule import coming_steps
from rankd.errors import (
    CertificateDiffers,
    FrozenWindow,
    InvalidRequest,
    NotSettled,
    UnknownWindow,
    WrongWindowState,
)
from rankd.model.facts import (
    Position,
    WindowOpened,
    WindowSealed,
    WindowSettled,
    is_submission,
)
from rankd.model.window import WindowState

pytestmark = pytest.mark.anyio
GRACE = {"name": "daily", "grace": "2h"}
TODAY, TOMORROW = "daily:2026-11-14", "daily:2026-11-15"


def why(window: str, reason: str = "a test") -> dict[str, str]:
    return {"window": window, "reason": reason}


def states(rankd: Engine) -> dict[str, str]:
    return {one.id: one.state for one in rankd.state.page("b").listed(rankd.ledger_time)}


async def score(rankd: Engine, player: str, points: int) -> set[str]:
    """Submit; return the ids of the windows that counted."""
    (answer,) = await rankd.submit("b", [(player, points)])
    assert answer.receipt is not None
    if answer.receipt.rejected:
        raise rankd.rejection(answer.receipt)
    return {one.window for one in answer.receipt.windows.values()}


async def scores(rankd: Engine, window: str) -> dict[str, int]:
    page = await rankd.reader.page("b", window=window, limit=100)
    return {player: one[0] for player, one in zip(page.players, page.scores, strict=True)}


async def check(rankd: Engine) -> None:
    """Compare the index with the ledger, and the state with what a snapshot tells of it."""
    async for _ in rankd.verify():
        pass
    heading = Heading(1, rankd.position, 0, b"", Position(0), {})
    noted = read_notes(list(take_notes(rankd.state, heading))).state
    page, read = rankd.state.boards["b"], noted.boards["b"]
    for id, sealed in page.sealed.items():
        assert read.sealed[id]._replace(terms=sealed.terms) == sealed
    assert (read.sealed.unsealed, read.sealed.early) == (page.sealed.unsealed, page.sealed.early)


async def facts(ledger: FaultyLedger, kind: type) -> list[Any]:
    every = await ledger.read(after=Position(0), limit=1000)
    return [one.fact for one in every if type(one.fact) is kind]


# ------------------------------------------------------------------------------- grace


async def test_a_window_waits_in_its_grace_while_the_next_one_counts() -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", {"windows": [GRACE]})
        await score(rankd, "ann", 5)
        clock.time += 13 * HOUR
        assert await score(rankd, "ann", 3) == {TOMORROW}
        assert states(rankd) == {TODAY: "grace", TOMORROW: "open"}
        assert await scores(rankd, TODAY) == {"ann": 5}
        page = await rankd.reader.page("b", window="daily:-1")
        assert page.state is WindowState.GRACE
        clock.time += HOUR
        assert await score(rankd, "bob", 3) == {TOMORROW}
        assert states(rankd) == {TODAY: "sealed", TOMORROW: "open"}
        await check(rankd)


async def test_a_retraction_in_the_grace_makes_no_edition_and_a_later_one_does() -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", {"windows": [GRACE]})
        await score(rankd, "ann", 5)
        await score(rankd, "ann", 9)
        clock.time += 13 * HOUR
        await score(rankd, "bob", 1)
        await rankd.corrections.retract("b", {"position": 3})
        assert await scores(rankd, TODAY) == {"ann": 5}
        assert rankd.state.edition("b", TODAY) == 1
        clock.time += HOUR
        await rankd.sealer.turn()
        await rankd.corrections.retract("b", {"position": 2})
        assert await scores(rankd, TODAY) == {}
        assert rankd.state.edition("b", TODAY) == 2
        await check(rankd)


async def test_a_service_that_slept_past_the_grace_seals_at_once() -> None:
    clock, ledger = SetClock(), FaultyLedger()
    async with engine(ledger, clock) as rankd:
        await rankd.define("b", {"windows": [GRACE]})
        clock.time += 2 * DAY
        await rankd.sealer.turn()
        assert states(rankd) == {TODAY: "sealed", "daily:2026-11-16": "open"}


async def test_a_window_after_a_reset_goes_on_when_it_is_put_back() -> None:
    """Only a freeze or a settlement closes it for good."""
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", {"windows": ["all", "daily"]})
        await score(rankd, "ann", 5)
        await rankd.reset_window("b", why("all"))
        assert await score(rankd, "ann", 4) == {"all~2", TODAY}
        await rankd.redefine("b", {"windows": ["daily"]})
        clock.time += HOUR
        await score(rankd, "bob", 3)
        preview = await rankd.preview("b", {"windows": ["daily", "all"]})
        assert [(one.window, one.total_after) for one in preview.windows] == [("all", 2)]
        await rankd.redefine("b", {"windows": ["daily", "all"]})
        assert states(rankd) == {"all": "sealed", TODAY: "open", "all~2": "open"}
        assert await scores(rankd, "all") == {"ann": 4, "bob": 3}
        await rankd.freeze_window("b", why("all"))
        await rankd.redefine("b", {"windows": ["daily"]})
        await rankd.redefine("b", {"windows": ["daily", "all"]})
        assert states(rankd)["all~2"] == "frozen"
        await check(rankd)


@pytest.mark.parametrize("windows", [["all"], ["all", {"name": "daily", "at": "05:00"}]])
async def test_a_frozen_window_that_the_definition_left_out_is_not_reset(windows: Any) -> None:
    """No window of its time would follow, or it would take the place of another one."""
    clock = SetClock()
    async with engine(ledger := FaultyLedger(), clock) as rankd:
        await rankd.define("b", {"windows": ["all", "daily"]})
        await score(rankd, "ann", 5)
        await rankd.freeze_window("b", why(TODAY))
        await rankd.redefine("b", {"windows": windows})
        before, position = states(rankd), rankd.position
        with pytest.raises(WrongWindowState):
            await rankd.reset_window("b", why(exact_id(TODAY), "another"))
        assert (states(rankd), rankd.position) == (before, position)
        assert not await facts(ledger, WindowSealed)
        await check(rankd)


async def test_a_window_is_reset_at_the_instant_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one begins a microsecond later: a refold can tell the two apart."""
    monkeypatch.setattr(mass_retraction, "REFOLDED_PLAYERS_MAX", 0)
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", {"windows": ["daily"], "rule": "sum"})
        clock.time += 12 * HOUR
        await score(rankd, "ann", 5)
        await rankd.reset_window("b", why("daily"))
        await score(rankd, "ann", 3)
        await rankd.submit("b", [{"player": "ann", "score": 9, "build": "bad"}])
        await rankd.corrections.retract("b", {"build": "bad"})
        assert await scores(rankd, exact_id(TOMORROW)) == {"ann": 5}
        assert await scores(rankd, "daily") == {"ann": 3}
        await rankd.redefine("b", {"windows": ["daily"], "rule": "latest"})
        assert await scores(rankd, "daily") == {"ann": 3}
        await check(rankd)


async def test_windows_stay_in_their_order_whatever_is_settled() -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", {"windows": ["daily"]})
        for _ in range(3):
            await score(rankd, "ann", 5)
            clock.time += DAY
        await rankd.sealer.turn()
        before = list(states(rankd))
        await rankd.settle_window("b", why(TODAY))
        assert list(states(rankd)) == before
        await rankd.corrections.retract("b", {"player": "ann"})
        assert list(states(rankd)) == before


@pytest.mark.parametrize("step", ["freeze_window", "settle_window"])
async def test_retention_waits_for_the_end_of_a_window_that_was_closed_early(step: str) -> None:
    """Dropped before, it would open again and count scores that an operator kept out."""
    clock = SetClock()
    cup = {"name": "cup", "start": "2026-11-14T00:00:00Z", "end": "2026-11-18T00:00:00Z"}
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", {"windows": [cup], "retention": {"cup": "1d"}})
        await score(rankd, "ann", 5)
        await getattr(rankd, step)("b", why("cup"))
        clock.time += 2 * DAY
        with pytest.raises(FrozenWindow):
            await score(rankd, "ann", 6)
        assert states(rankd) == {"cup": "final" if step == "settle_window" else "frozen"}
        for _ in range(2):  # Its end, and a day behind that.
            clock.time += 3 * DAY
            await rankd.sealer.turn()
        assert states(rankd) == {}
        await check(rankd)


async def test_retention_waits_for_the_grace() -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", {"windows": [GRACE], "retention": {"daily": "1h"}})
        clock.time += 13 * HOUR + HOUR // 2
        await rankd.sealer.turn()
        assert states(rankd)[TODAY] == "grace"
        clock.time += HOUR
        await rankd.sealer.turn()
        assert states(rankd)[TODAY] == "sealed"


# ------------------------------------------------------------------------------- reset


async def test_a_reset_closes_a_window_and_opens_the_next_at_the_same_position() -> None:
    clock, ledger = SetClock(), FaultyLedger()
    async with engine(ledger, clock) as rankd:
        await rankd.define("b", {"windows": ["all", "daily"], "rule": "sum"})
        await score(rankd, "ann", 5)
        clock.time += HOUR
        done = await rankd.reset_window("b", why("daily"), actor="root")
        assert (done.changed, done.window.id, done.window.state) == (True, TODAY, "sealed")
        assert done.opened is not None and done.opened.id == f"{TODAY}~2"
        assert done.window.end == done.opened.start == clock.time
        assert await score(rankd, "ann", 1) == {"all", f"{TODAY}~2"}
        assert await scores(rankd, "daily") == {"ann": 1}
        assert await scores(rankd, TODAY) == {"ann": 5}
        assert await scores(rankd, "all") == {"ann": 6}
        (sealed,) = await facts(ledger, WindowSealed)
        assert (sealed.actor, sealed.reason) == ("root", "a test")
        await check(rankd)
        clock.time += 12 * HOUR
        assert await score(rankd, "ann", 2) == {"all", TOMORROW}
        assert states(rankd)[f"{TODAY}~2"] == "sealed"


async def test_the_same_reset_again_changes_nothing() -> None:
    clock, ledger = SetClock(), FaultyLedger()
    async with engine(ledger, clock) as rankd:
        await rankd.define("b", {"windows": ["all"]})
        first = await rankd.reset_window("b", why("all"))
        position = rankd.position
        for name in ("all", "all"):
            again = await rankd.reset_window("b", why(name))
            assert (again.changed, again.opened, again.window) == (
                False,
                first.opened,
                first.window,
            )
        assert rankd.position == position
        other = await rankd.reset_window("b", why("all", "another"))
        assert other.changed and other.opened is not None and other.opened.id == "all~3"
        assert len(await facts(ledger, WindowOpened)) == 2
        await check(rankd)


async def test_the_reset_of_a_window_that_is_over_is_refused() -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        cup = {"name": "cup", "start": "2027-01-01", "end": "2027-02-01"}
        await rankd.define("b", {"windows": ["daily", cup]})
        clock.time += DAY
        for window in (TODAY, "cup"):
            for step in (rankd.reset_window, rankd.freeze_window):
                with pytest.raises(WrongWindowState):
                    await step("b", why(window))
        with pytest.raises(UnknownWindow):
            await rankd.reset_window("b", why("weekly"))
        with pytest.raises(WrongWindowState):
            await rankd.settle_window("b", why("cup"))


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, {"window", "reason"}),
        ({"window": "all"}, {"reason"}),
        ({"window": "", "reason": "x"}, {"window"}),
        ({"window": 3, "reason": "x"}, {"window"}),
        ({"window": "a" * (WINDOW_TEXT_LENGTH_MAX + 1), "reason": "x"}, {"window"}),
        ({"window": "all", "reason": "x", "more": 1}, {"more"}),
        ([], {"window", "reason"}),
    ],
)
async def test_a_step_names_its_window_and_its_reason(body: Any, fields: set[str]) -> None:
    async with engine(FaultyLedger(), SetClock()) as rankd:
        await rankd.define("b", {})
        with pytest.raises(InvalidRequest) as refusal:
            await rankd.freeze_window("b", body)
        assert {wrong.field for wrong in refusal.value.errors} == fields


# ------------------------------------------------------------------------------ freeze


async def test_a_frozen_window_takes_no_scores_and_the_others_go_on() -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", {"windows": ["all", "daily"], "rule": "sum"})
        await score(rankd, "ann", 5)
        done = await rankd.freeze_window("b", why("daily"))
        assert (done.changed, done.window.id, done.window.state) == (True, TODAY, "frozen")
        assert not (await rankd.freeze_window("b", why("daily", "again"))).changed
        assert await score(rankd, "ann", 2) == {"all"}
        assert await scores(rankd, "daily") == {"ann": 5}
        page = await rankd.reader.page("b", window="daily")
        assert page.state is WindowState.FROZEN
        await check(rankd)
        clock.time += DAY
        assert await score(rankd, "ann", 2) == {"all", TOMORROW}
        assert states(rankd) == {"all": "open", TODAY: "sealed", TOMORROW: "open"}


async def test_where_every_window_is_frozen_a_submission_is_refused_by_name() -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", {"windows": ["daily"]})
        await score(rankd, "ann", 5)
        await rankd.freeze_window("b", why("daily"))
        with pytest.raises(FrozenWindow) as refusal:
            await score(rankd, "ann", 6)
        assert refusal.value.windows == (TODAY,)
        assert rankd.state.page("b").find_window(None, clock.time).state is WindowState.FROZEN
        everywhere = await rankd.reader.standings("ann")
        assert [one.scores for _, one in everywhere] == [(5,)]
        reset = await rankd.reset_window("b", why("daily"))
        assert (reset.window.state, reset.window.id) == ("sealed", TODAY)
        assert await score(rankd, "ann", 6) == {f"{TODAY}~2"}
        assert not (await rankd.reset_window("b", why(TODAY))).changed
        await check(rankd)


async def test_a_frozen_window_has_its_grace() -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", {"windows": [GRACE]})
        await rankd.freeze_window("b", why("daily"))
        clock.time += 13 * HOUR
        await rankd.sealer.turn()
        assert states(rankd) == {TODAY: "grace", TOMORROW: "open"}
        clock.time += HOUR
        await rankd.sealer.turn()
        assert states(rankd) == {TODAY: "sealed", TOMORROW: "open"}


# ------------------------------------------------------------------------------ settle


async def test_a_settled_window_is_final_until_a_correction() -> None:
    clock, ledger = SetClock(), FaultyLedger()
    async with engine(ledger, clock) as rankd:
        await rankd.define("b", {"windows": ["daily"]})
        for player, points in (("ann", 5), ("bob", 7), ("ann", 9)):
            await score(rankd, player, points)
        clock.time += DAY
        done = await rankd.settle_window("b", why(TODAY), actor="root")
        assert (done.changed, done.window.state) == (True, "final")
        assert not (await rankd.settle_window("b", why(TODAY, "again"))).changed
        await rankd.corrections.retract("b", {"position": 4})
        assert states(rankd)[TODAY] == "sealed"
        assert (await rankd.settle_window("b", why(TODAY))).changed
        first, second = await facts(ledger, WindowSettled)
        assert (first.edition, second.edition) == (1, 2)
        assert (first.submissions, first.players, first.actor) == (3, 2, "root")
        assert first.standings != second.standings
        assert first.chain == await ledger.link_at(first.last)
        await check(rankd)


async def test_an_open_window_is_closed_when_it_is_settled() -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", {"windows": ["daily"]})
        await score(rankd, "ann", 5)
        assert (await rankd.settle_window("b", why("daily"))).window.state == "final"
        with pytest.raises(FrozenWindow):
            await score(rankd, "ann", 6)
        await check(rankd)
        clock.time += DAY
        assert await score(rankd, "ann", 6) == {TOMORROW}


# ------------------------------------------------------------ redefinitions and corrections


CHANGES: list[Mapping[str, Any]] = [
    {"rule": "best"},
    {"title": "Another"},
    {"windows": ["all", "daily", "weekly"]},
    {"segments": ["region"]},
    {"windows": ["all", {"name": "daily", "at": "05:00"}]},
    {"windows": ["all", GRACE]},
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("step", ["reset", "freeze", "settle", "freeze and reset"])
async def test_a_step_holds_under_another_definition(step: str, change: Mapping[str, Any]) -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        definition = {"windows": ["all", "daily"], "rule": "sum"}
        await rankd.define("b", definition)
        await score(rankd, "ann", 5)
        clock.time += HOUR
        if "freeze" in step:
            await rankd.freeze_window("b", why("daily"))
        if "reset" in step:
            await rankd.reset_window("b", why("daily"))
        if step == "settle":
            await rankd.settle_window("b", why("daily"))
        await score(rankd, "ann", 2)
        before, old = states(rankd), await scores(rankd, TODAY)
        await rankd.redefine("b", {**definition, **change}, drop_scores=True)
        assert old == await scores(rankd, TODAY)
        if change.get("windows", ["", "daily"])[1] in ("daily", GRACE):
            after = {id: state for id, state in states(rankd).items() if id in before}
            assert after == before
            assert await scores(rankd, "daily") == ({"ann": 2} if "reset" in step else {"ann": 5})
        await check(rankd)
        await score(rankd, "ann", 1)
        await rankd.corrections.retract("b", {"position": 2})
        await check(rankd)
        clock.time += DAY
        assert await score(rankd, "bob", 1)
        await check(rankd)


async def test_a_window_that_was_reset_is_corrected_in_its_own_part() -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", {"windows": ["all"], "rule": "sum"})
        for points in (1, 2):  # The clock stands still meanwhile.
            await score(rankd, "ann", points)
            await rankd.reset_window("b", why("all", f"{points}"))
        await score(rankd, "ann", 4)
        await score(rankd, "ann", 8)
        every = await rankd._ledger.read(after=Position(0), limit=9)
        first = next(one.position for one in every if is_submission(one.fact))
        await rankd.corrections.retract("b", {"position": first})
        assert await scores(rankd, "all~1") == {}
        assert [await scores(rankd, id) for id in ("all", "all~2")] == [{"ann": 12}, {"ann": 2}]
        settled = await rankd.settle_window("b", why("all~1"))
        assert (settled.window.id, settled.window.state) == ("all", "final")
        sealed = rankd.state.page("b").sealed["all"]
        assert isinstance(sealed, SealedWindow)
        assert sealed.settled is not None and sealed.settled.players == 0
        await check(rankd)


async def test_a_score_of_a_frozen_window_is_not_in_the_one_that_a_reset_opens() -> None:
    async with engine(FaultyLedger(), SetClock()) as rankd:  # The clock stands still.
        await rankd.define("b", {"windows": ["daily", "all"], "rule": "sum"})
        await score(rankd, "ann", 1)
        await rankd.freeze_window("b", why("daily"))
        assert await score(rankd, "ann", 2) == {"all"}
        await rankd.reset_window("b", why("daily"))
        await score(rankd, "ann", 4)
        await rankd.corrections.retract("b", {"position": 2})
        assert await scores(rankd, "daily") == {"ann": 4}
        assert await scores(rankd, "all") == {"ann": 6}
        await check(rankd)


async def test_settling_by_name_again_means_the_same_window() -> None:
    async with engine(FaultyLedger(), SetClock()) as rankd:
        await rankd.define("b", {"windows": ["all"]})
        await rankd.reset_window("b", why("all"))
        first, second = [await rankd.settle_window("b", why("all")) for _ in range(2)]
        assert (first.changed, second.changed) == (True, False)
        assert first.window.id == second.window.id == "all~2"


async def test_a_retraction_of_many_keeps_to_resets_freezes_and_graces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mass_retraction, "REFOLDED_PLAYERS_MAX", 0)
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        hour = {"name": "hour", "cron": "0 * * * *", "grace": "40m"}
        await rankd.define("b", {"windows": ["all", "daily", hour], "rule": "sum"})
        steps = [rankd.reset_window, None, rankd.freeze_window, rankd.reset_window, None, None]
        for number, step in enumerate(steps):
            for build in ("bad", "good"):
                item = {"player": "ann", "delta": 2**number, "build": build}
                await rankd.submit("b", [item, {**item, "player": "bob", "build": "good"}])
            clock.time += HOUR // 2
            if step is not None:
                for window in ("all", "daily"):
                    await step("b", why(window, f"{number}"))
        before = {exact_id(id): await scores(rankd, exact_id(id)) for id in states(rankd)}
        await rankd.corrections.retract("b", {"build": "bad"})
        for id, old in before.items():
            assert await scores(rankd, id) == {
                player: points // 2 if player == "ann" else points for player, points in old.items()
            }
        graces = [id for id, state in states(rankd).items() if state == "grace"]
        assert [rankd.state.edition("b", id) for id in graces] == [1]
        assert rankd.state.edition("b", TODAY) == 2
        await check(rankd)


async def test_steps_of_operators_are_void_where_the_time_was_wrong() -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", {"windows": ["all", "daily"], "rule": "sum"})
        await score(rankd, "ann", 1)
        await rankd.reset_window("b", why("all"))
        await score(rankd, "ann", 2)
        clock.time += 2 * DAY
        first = Position(rankd.position + 1)
        await score(rankd, "ann", 4)
        await rankd.reset_window("b", why("daily"))
        await rankd.freeze_window("b", why("all"))
        await score(rankd, "ann", 8)
        clock.time -= 2 * DAY
        await rankd.correct_time(first=first, ahead=2 * DAY)
        assert states(rankd) == {"all": "sealed", "all~2": "open", TODAY: "open"}
        assert await scores(rankd, "all~1") == {"ann": 1}
        assert await scores(rankd, "all") == await scores(rankd, "all~2") == {"ann": 14}
        assert await scores(rankd, "daily") == {"ann": 15}
        await check(rankd)


# ---------------------------------------------------------------------------- schedule


async def test_the_schedule_tells_openings_closings_and_seals() -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        cup = {"name": "cup", "start": "2026-11-15T01:00:00Z", "end": "2026-11-15T02:30:00Z"}
        await rankd.define("b", {"windows": ["all", GRACE, cup]})
        found = coming_steps(rankd.state.page("b"), clock.time, 7)
        assert [(one.step, one.window.id) for one in found] == [
            ("closes", TODAY),
            ("opens", TOMORROW),
            ("opens", "cup"),
            ("seals", TODAY),
            ("closes", "cup"),
            ("closes", TOMORROW),
            ("opens", "daily:2026-11-16"),
        ]
        assert [one.at for one in found] == sorted(one.at for one in found)


async def test_the_schedule_of_a_frozen_window_begins_with_its_end() -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", {"windows": [GRACE]})
        await rankd.freeze_window("b", why("daily"))
        steps = [one.step for one in coming_steps(rankd.state.page("b"), clock.time, 3)]
        assert steps == ["closes", "opens", "seals"]
        clock.time += 13 * HOUR
        await rankd.sealer.turn()
        steps = [one.step for one in coming_steps(rankd.state.page("b"), clock.time, 2)]
        assert steps == ["seals", "closes"]


# ------------------------------------------------------------------------- certificates


async def settled_window(rankd: Engine, clock: SetClock) -> Certificate:
    await rankd.define("b", {"windows": ["all", "daily"], "prize": True, "ties": "standard"})
    for number in range(30):
        await score(rankd, f"p{number}", number // 3)
    await rankd.reset_window("b", why("all"))
    clock.time += DAY
    await score(rankd, "p1", 100)
    await rankd.settle_window("b", why("daily:-1"))
    return certificate_of(rankd.state.page("b"), TODAY, clock.time)


def build() -> IndexHome:
    return IndexHome(NativeIndex(), None)


async def test_a_certificate_is_checked_against_the_ledger() -> None:
    clock, ledger = SetClock(), FaultyLedger()
    async with engine(ledger, clock) as rankd:
        claims = await settled_window(rankd, clock)
        assert (claims.submissions, claims.players, claims.edition) == (30, 30, 1)
        await score(rankd, "late", 1_000)
        await check_certificate(ledger, build, claims, lambda _: None)
        await rankd.settle_window("b", why("all~1"))
        first = certificate_of(rankd.state.page("b"), "all~1", clock.time)
        assert (first.window, first.players) == ("all", 30)
        await check_certificate(ledger, build, first, lambda _: None)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("board", "c"),
        ("window", TOMORROW),
        ("edition", 2),
        ("definition_digest", "00"),
        ("ledger_from", 9),
        ("ledger_to", 3),
        ("ledger_to", 10_000),
        ("chain", "00"),
        ("submissions", 31),
        ("players", 31),
        ("standings_digest", "00"),
    ],
)
async def test_a_certificate_that_was_changed_is_found(field: str, value: Any) -> None:
    clock, ledger = SetClock(), FaultyLedger()
    async with engine(ledger, clock) as rankd:
        claims = msgspec.structs.replace(await settled_window(rankd, clock), **{field: value})
        with pytest.raises(CertificateDiffers):
            await check_certificate(ledger, build, claims, lambda _: None)


async def test_a_correction_takes_the_certificate_away_until_it_is_settled_again() -> None:
    clock, ledger = SetClock(), FaultyLedger()
    async with engine(ledger, clock) as rankd:
        first = await settled_window(rankd, clock)
        await rankd.corrections.retract("b", {"player": "p29"})
        with pytest.raises(NotSettled):
            certificate_of(rankd.state.page("b"), TODAY, clock.time)
        await rankd.settle_window("b", why(TODAY))
        second = certificate_of(rankd.state.page("b"), TODAY, clock.time)
        assert (second.edition, second.players) == (2, 29)
        for claims in (first, second):
            await check_certificate(ledger, build, claims, lambda _: None)
