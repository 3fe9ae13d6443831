"""Webhooks: each event is posted at least once and in order, whatever the receiver does."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook
from tests.unit.core.doubles import DAY, FaultyLedger, SetClock, SharedLedger, bare, kept_in
from tests.webhook_receiver import Got, Receiver, receiving, response

from rankd.adapters.http_sender import HttpSender
from rankd.core import events as events_module
from rankd.core import state as state_module
from rankd.core import webhook_delivery as module
from rankd.core import webhooks as webhooks_module
from rankd.core.assembly import running
from rankd.core.engine import Engine
from rankd.core.recovery import Build
from rankd.core.webhooks import EVENTS
from rankd.core.window_control import WindowRequest
from rankd.errors import InvalidRequest, UnknownWebhook
from rankd.model.facts import Position, WebhooksSent
from rankd.ports import Ledger

pytestmark = pytest.mark.anyio

SECOND = 1_000_000
CUPS = {"windows": ["all", {"name": "cup", "start": "2020-01-01T00:00:00Z"}]}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(module, "RETRY_SECONDS_MIN", 0.01)
    monkeypatch.setattr(module, "RETRY_SECONDS_MAX", 0.02)
    monkeypatch.setattr(module, "RECORD_SECONDS", 0.05)
    monkeypatch.setattr(module, "RECORD_SECONDS_MIN", 0.02)


def clock_now() -> SetClock:
    return SetClock(int(time.time()) * SECOND)


@asynccontextmanager
async def engine(
    ledger: Ledger | None = None,
    clock: SetClock | None = None,
    build: Build = bare,
    **given: Any,
) -> AsyncIterator[Engine]:
    async with running(
        ledger=ledger or FaultyLedger(),
        build=build,
        clock=clock or clock_now(),
        reading=nullcontext(),
        sender=HttpSender(private_addresses=True),
        **given,
    ) as rankd:
        yield rankd


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - state, which tells nobody
            await asyncio.sleep(0.005)


async def put(rankd: Engine, receiver: Receiver, **given: Any) -> str:
    asked = {"events": EVENTS, **given}
    _, secret = await rankd.webhooks.set("hook", url=receiver.url, **asked)
    assert secret is not None
    return secret


async def turn(rankd: Engine, clock: SetClock, days: int = 1) -> None:
    """Let so many days end, each with an event for its end and one for the next."""
    for _ in range(days):
        clock.time += DAY
        await rankd.sealer.turn()


def ids(receiver: Receiver) -> list[int]:
    return [int(got.headers["webhook-id"].split("_")[1]) for got in receiver.got]


def bodies(receiver: Receiver) -> list[dict[str, Any]]:
    return [json.loads(got.body) for got in receiver.got]


async def events_of(rankd: Engine) -> list[int]:
    """Return the places of all events in the ledger."""
    facts = await rankd._ledger.read(after=Position(0), limit=10_000)
    held = rankd.state.reviews.held
    kinds = tuple(webhooks_module.WINDOW_EVENTS)
    return [one.position for one in facts if isinstance(one.fact, kinds) or one.position in held]


def delivered(rankd: Engine) -> Callable[[], bool]:
    return lambda: not rankd.webhooks.is_waiting(rankd.state.webhooks["hook"])


async def test_events_are_posted_in_order_and_signed() -> None:
    clock = clock_now()
    clock.time -= DAY
    async with receiving() as receiver, engine(clock=clock) as rankd:
        definition = {"windows": ["daily"], "rules": [{"rule": "first_score", "max": 9}]}
        definition["rules"][0]["then"] = "hold"  # type: ignore[index]
        await rankd.define("b", definition)
        secret = await put(rankd, receiver)
        await rankd.submit("b", [("ann", 5), ("bob", 50)])
        await turn(rankd, clock)
        (window,) = rankd.state.boards["b"].sealed
        await rankd._windows.settle("b", WindowRequest(window, "paid", None))
        await until(lambda: len(receiver.got) == 4)
        assert ids(receiver) == await events_of(rankd)
        held, sealed, opened, final = bodies(receiver)
        last = receiver.got[-1]
        assert Webhook(secret).verify(last.body, last.headers) == final
        names = [one["type"] for one in (held, sealed, opened, final)]
        assert names == ["review.held", "window.sealed", "window.opened", "window.final"]
        data = held["data"]
        assert (data["board"], data["player"], data["score"]) == ("b", "bob", 50)
        assert (data["review"], data["rules"]) == (str(data["position"]), ["first_score"])
        assert sealed["data"]["window"] == window == final["data"]["window"]
        assert final["data"]["players"] == 1 and final["data"]["edition"] == 1
        assert opened["data"]["start"] == sealed["timestamp"][:10] + "T00:00:00Z"


async def test_only_chosen_events_of_chosen_boards_are_posted() -> None:
    clock = clock_now()
    async with receiving() as receiver, engine(clock=clock) as rankd:
        for board in ("a", "b"):
            await rankd.define(board, {"windows": ["daily"]})
        await put(rankd, receiver, events=["window.opened"], boards=["a"])
        await turn(rankd, clock, 3)
        await until(delivered(rankd))
        found = {(one["type"], one["data"]["board"]) for one in bodies(receiver)}
        assert (len(receiver.got), found) == (3, {("window.opened", "a")})


@pytest.mark.parametrize(
    "lie",
    [
        response(500),
        response(199),
        response(302, b"", "location: https://game.example/"),
        response(200, b"x" * 200_000),
        b"no http\r\n\r\n",
        None,
    ],
    ids=["500", "199", "redirect", "huge", "no http", "closed"],
)
async def test_an_event_is_tried_until_it_is_taken(lie: bytes | None) -> None:
    """0 lost, the order kept, and duplicates have the same id."""
    clock, tries = clock_now(), [0]

    def respond(_got: Got) -> bytes | None:
        tries[0] += 1
        return response() if tries[0] % 3 == 0 else lie

    async with receiving(respond) as receiver, engine(clock=clock) as rankd:
        await rankd.define("b", {"windows": ["daily"]})
        await put(rankd, receiver)
        await turn(rankd, clock, 4)
        await until(delivered(rankd))
        expected = await events_of(rankd)
        assert ids(receiver) == [one for one in expected for _ in range(3)]
        assert len(expected) == 8
        deliveries = rankd.webhooks.deliveries("hook")
        assert [one.event.position for one in deliveries] == expected[::-1]
        assert {(one.state, one.attempts, one.problem) for one in deliveries} == {
            ("delivered", 3, None)
        }


async def test_a_receiver_that_hangs_is_given_up_and_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "SEND_SECONDS_MAX", 0.05)
    clock, tries = clock_now(), [0]

    async def respond(_got: Got) -> bytes:
        tries[0] += 1
        if tries[0] == 1:
            await asyncio.sleep(60)
        return response()

    async with receiving(respond) as receiver, engine(clock=clock) as rankd:
        await rankd.define("b", {"windows": ["daily"]})
        await put(rankd, receiver)
        await turn(rankd, clock)
        await until(delivered(rankd))
        first, *others = ids(receiver)
        assert others == await events_of(rankd) and first == others[0]


async def test_nothing_is_lost_while_the_receiver_is_down() -> None:
    clock = clock_now()
    async with receiving() as down:
        pass
    async with engine(clock=clock) as rankd:
        await rankd.define("b", {"windows": ["daily"]})
        await put(rankd, down)
        await turn(rankd, clock, 3)
        await until(lambda: rankd.webhooks.failed > 2)
        (delivery,) = rankd.webhooks.deliveries("hook")
        assert delivery.state == "retrying" and delivery.problem and delivery.next_try
        await until(lambda: rankd.state.webhooks["hook"].failing_since is not None)
        async with receiving(port=down.port) as receiver:
            await until(delivered(rankd))
            await until(lambda: rankd.state.webhooks["hook"].failing_since is None)
        assert ids(receiver) == await events_of(rankd)


@pytest.mark.parametrize("saved", [True, False], ids=["from a snapshot", "from the ledger"])
async def test_delivery_goes_on_after_a_restart(tmp_path: Path, saved: bool) -> None:
    ledger, clock = FaultyLedger(), clock_now()
    async with receiving() as receiver:
        async with engine(ledger, clock, kept_in(tmp_path)) as rankd:
            await rankd.define("b", {"windows": ["daily"]})
            await put(rankd, receiver)
            await turn(rankd, clock, 2)
            await until(delivered(rankd))
        async with engine(ledger, clock, kept_in(tmp_path), manages=False) as rankd:
            await turn(rankd, clock, 2)
            if saved:
                await rankd.save()
        assert len(receiver.got) == 4, "a node of another role delivers nothing"
        async with engine(ledger, clock, kept_in(tmp_path)) as rankd:
            await until(delivered(rankd))
            assert ids(receiver) == await events_of(rankd), "none twice after a clean stop"


async def test_after_a_crash_events_may_come_twice_and_none_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ledger, clock = FaultyLedger(), clock_now()
    async with receiving() as receiver:
        with monkeypatch.context() as crash:
            crash.setattr(module, "RECORD_SECONDS_MIN", 1e9)
            crash.setattr(module, "RECORD_SECONDS", 1e9)

            async def nothing(_self: object) -> None: ...

            crash.setattr(module.WebhookDelivery, "_release", nothing)
            async with engine(ledger, clock) as rankd:
                await rankd.define("b", {"windows": ["daily"]})
                await put(rankd, receiver)
                await turn(rankd, clock, 2)
                await until(delivered(rankd))
        async with engine(ledger, clock) as rankd:
            await until(lambda: len(receiver.got) == 8)
            assert ids(receiver) == 2 * await events_of(rankd)


async def test_progress_is_recorded_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RECORD_SECONDS", 1e9)
    clock = clock_now()
    async with receiving() as receiver, engine(clock=clock) as rankd:
        await rankd.define("b", {"windows": ["daily"]})
        await put(rankd, receiver)
        await turn(rankd, clock, 30)
        await until(delivered(rankd))
        await asyncio.sleep(0.3)
        facts = await rankd._ledger.read(after=Position(0), limit=10_000)
        assert sum(isinstance(one.fact, WebhooksSent) for one in facts) <= 2
        assert rankd.state.webhooks["hook"].cursor == (await events_of(rankd))[-1]


async def test_a_webhook_is_given_up_after_three_days_until_it_is_set_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, well = clock_now(), [False]
    respond = lambda _: response(200 if well[0] else 500)  # noqa: E731
    ledger = FaultyLedger()
    async with receiving(respond) as receiver:
        async with engine(ledger, clock) as rankd:
            await rankd.define("b", {"windows": ["daily"]})
            await put(rankd, receiver)
            await turn(rankd, clock)
            await until(lambda: rankd.webhooks.failed > 1)
            clock.time += 2 * DAY
            before = rankd.webhooks.failed
            await until(lambda: rankd.webhooks.failed > before)
            assert not rankd.state.webhooks["hook"].stopped
            clock.time += 2 * DAY
            with caplog.at_level(logging.ERROR):
                await until(lambda: rankd.state.webhooks["hook"].stopped)
            assert "webhook hook is given up" in caplog.text
            assert rankd.webhooks.deliveries("hook")[0].state == "stopped"
        well[0] = True
        async with engine(ledger, clock) as rankd:
            tries = len(receiver.got)
            await asyncio.sleep(0.1)
            assert len(receiver.got) == tries and rankd.state.webhooks["hook"].stopped
            await rankd.webhooks.set("hook", url=receiver.url, events=EVENTS)
            await until(delivered(rankd))
            taken = ids(receiver)[tries:]
            assert taken == await events_of(rankd)


async def test_events_are_replayed_from_a_position() -> None:
    clock = clock_now()
    async with receiving() as receiver, engine(clock=clock) as rankd:
        await rankd.define("b", {"windows": ["daily"]})
        await turn(rankd, clock, 3)
        await put(rankd, receiver)
        await turn(rankd, clock, 1)
        await until(delivered(rankd))
        expected = await events_of(rankd)
        assert ids(receiver) == expected[-2:], "from its creation on"
        await rankd.webhooks.rewind("hook", Position(0))
        await until(lambda: len(receiver.got) == 3 + len(expected))
        assert ids(receiver) == [*expected[-2:], 1, *expected], "that of the definition, too"
        await until(delivered(rankd))
        with pytest.raises(UnknownWebhook):
            await rankd.webhooks.rewind("other", Position(0))


async def test_events_that_are_no_longer_in_the_state_are_found_in_the_ledger(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(state_module, "EVENTS_KEPT_MAX", 5)
    monkeypatch.setattr(state_module, "EVENTS_DROPPED", 2)
    monkeypatch.setattr(events_module, "FACTS_TOGETHER", 3)
    clock = clock_now()
    async with receiving() as receiver, engine(clock=clock) as rankd:
        rules = [{"rule": "first_score", "max": 9, "then": "hold"}]
        await rankd.define("b", {"windows": ["daily"], "rules": rules})
        await put(rankd, receiver)
        for number in range(6):
            await rankd.submit("b", [(f"p{number}", 50)])
            await turn(rankd, clock)
        await until(delivered(rankd))
        await rankd.webhooks.rewind("hook", Position(0))
        before = len(receiver.got)
        await until(lambda: len(receiver.got) == before + 19)
        assert len(rankd.state.window_events) <= 5 and rankd.state.window_events_from
        assert ids(receiver)[before:] == [1, *await events_of(rankd)]


def keys(receiver: Receiver) -> list[str]:
    return [got.headers["webhook-id"] for got in receiver.got]


async def test_windows_that_a_definition_opens_and_closes_have_events() -> None:
    clock = clock_now()
    async with receiving() as receiver, engine(clock=clock) as rankd:
        await put(rankd, receiver, events=["window.opened", "window.sealed"])
        await rankd.define("b", {"windows": ["all", "daily"]})
        await rankd.redefine("b", {"windows": ["all", "weekly", "monthly"]})
        await rankd.redefine("b", {"windows": ["all", "weekly", "monthly"], "title": "T"})
        await until(delivered(rankd))
        found = [(one["type"], one["data"]["window"].split(":")[0]) for one in bodies(receiver)]
        opened, closed = "window.opened", "window.sealed"
        first = [(opened, "all"), (opened, "daily")]
        assert found == [*first, (closed, "daily"), (opened, "weekly"), (opened, "monthly")]
        assert keys(receiver) == ["evt_2_0", "evt_2_1", "evt_3_0", "evt_3_1", "evt_3_2"]
        assert all(one["data"]["end"] for one in bodies(receiver)[3:])


REWARDED = {"windows": ["daily"], "rewards": [{"top_percent": 100, "give": {"gems": 5}}]}
PLAYERS = [f"p{number}" for number in range(7)]


async def rewarded(rankd: Engine, clock: SetClock) -> str:
    """Settle a window with a reward for each player; return its id."""
    await rankd.define("b", REWARDED)
    await rankd.submit("b", [(player, 9) for player in PLAYERS])
    await turn(rankd, clock)
    (window,) = rankd.state.boards["b"].sealed
    await rankd.settle_window("b", {"window": window, "reason": "paid"})
    return window


async def test_each_reward_has_an_event_in_order() -> None:
    clock = clock_now()
    seen: list[dict[str, Any]] = []
    async with receiving() as receiver, engine(clock=clock) as rankd:
        rankd.callbacks.add("reward.given", lambda event: seen.append(dict(event)))
        await put(rankd, receiver, events=["reward.given", "window.final", "reward.withdrawn"])
        window = await rewarded(rankd, clock)
        await until(delivered(rankd))
        final, *given = bodies(receiver)
        listed = (await rankd.rewards("b", window)).rewards
        assert final["data"]["rewards"] == 7
        assert [one["data"]["player"] for one in given] == PLAYERS
        assert [one["data"]["reward"] for one in given] == [one.id for one in listed]
        place = {"window": window, "edition": 1, "rank": 1, "band": 0, "board": "b"}
        shown = given[0]["data"]
        assert {**shown, **place, "give": {"gems": 5}, "amount": None} == shown
        await until(lambda: len(seen) == 7)
        assert [one.pop("id") for one in seen] == keys(receiver)[1:]
        assert seen == given
        await rankd.claim_reward("b", window, listed[1].id)
        for player in PLAYERS[:2]:
            await rankd.corrections.retract("b", {"player": player})
        await rankd.settle_window("b", {"window": window, "reason": "cheats"})
        await until(delivered(rankd))
        void = [one["data"] for one in bodies(receiver) if one["type"] == "reward.withdrawn"]
        expected = [("p0", False, listed[0].id), ("p1", True, listed[1].id)]
        assert [(one["player"], one["claimed"], one["reward"]) for one in void] == expected


@pytest.mark.parametrize("crash", [False, True])
async def test_a_receiver_that_fails_amid_the_rewards_gets_each_once(
    monkeypatch: pytest.MonkeyPatch, crash: bool
) -> None:
    """Also across a restart; only the event that was not taken comes twice."""
    ledger, clock, tries = FaultyLedger(), clock_now(), [0]

    def respond(_got: Got) -> bytes:
        tries[0] += 1
        return response(500 if tries[0] == 4 else 200)

    async with receiving(respond) as receiver:
        async with engine(ledger, clock) as rankd:
            await put(rankd, receiver, events=["reward.given"])
            if crash:
                monkeypatch.setattr(module, "RETRY_SECONDS_MIN", 1e6)
                monkeypatch.setattr(module, "RETRY_SECONDS_MAX", 1e6)
            await rewarded(rankd, clock)
            await until((lambda: rankd.webhooks.failed == 1) if crash else delivered(rankd))
        if crash:
            monkeypatch.setattr(module, "RETRY_SECONDS_MAX", 0.01)
            async with engine(ledger, clock) as rankd:
                assert rankd.state.webhooks["hook"].part[1] == 3
                await until(delivered(rankd))
    players = [one["data"]["player"] for one in bodies(receiver)]
    assert players == [*PLAYERS[:4], *PLAYERS[3:]]
    assert keys(receiver)[3] == keys(receiver)[4]


async def test_every_node_lists_deliveries() -> None:
    ledger, clock = SharedLedger(), clock_now()
    async with (
        receiving(lambda _: response(503)) as receiver,
        engine(ledger, clock, manages=False) as other,
        engine(ledger, clock) as one,
    ):
        await one.define("b", {"windows": ["daily"]})
        await put(one, receiver)
        await turn(one, clock)
        await until(lambda: one.webhooks.failed > 1)

        async def told() -> bool:
            await other._writer.see_others()
            return bool(other.webhooks.deliveries("hook"))

        async with asyncio.timeout(60):
            while not await told():  # noqa: ASYNC110 - another node's, which tells nobody
                await asyncio.sleep(0.01)
        (delivery,) = other.webhooks.deliveries("hook")
        (mine,) = one.webhooks.deliveries("hook")
        assert (delivery.event, delivery.status, delivery.state) == (mine.event, 503, "retrying")
        assert delivery.attempts >= 1


async def test_one_node_delivers_and_another_takes_over_when_it_dies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ledger, clock = SharedLedger(), clock_now()

    async def nothing(_self: object) -> None: ...

    async with (
        receiving() as receiver,
        engine(ledger, clock) as other,
        engine(ledger, clock) as one,
    ):
        await one.define("b", {"windows": ["daily"]})
        await put(one, receiver)
        await turn(one, clock)
        await until(lambda: len(receiver.got) == 2)
        await asyncio.sleep(0.1)
        assert len(receiver.got) == 2, "the other one posts nothing"
        lease = one.state.webhook_lease
        assert lease is not None
        first, second = (one, other) if lease.node == one.webhooks.node else (other, one)
        first.webhooks.sender = None  # Dead: its next try fails, and it renews no more.
        monkeypatch.setattr(first.webhooks, "_step", nothing.__get__(first.webhooks))
        monkeypatch.setattr(first.webhooks, "_release", nothing.__get__(first.webhooks))
        clock.time += int(module.LEASE_SECONDS + 1) * SECOND
        await turn(second, clock, 2)
        await until(lambda: len(receiver.got) >= 6)
        assert ids(receiver) == await events_of(second)
        lease = second.state.webhook_lease
        assert lease is not None and lease.node == second.webhooks.node


async def test_a_node_without_the_lease_records_nothing() -> None:
    ledger, clock = SharedLedger(), clock_now()
    async with engine(ledger, clock, manages=False) as rankd:
        until_then = clock.time + 30 * SECOND
        for node in ("one", "other"):
            await rankd._put(WebhooksSent(node, until_then))
        assert rankd.state.webhook_lease == ("one", until_then)
        clock.time = until_then
        await rankd._put(WebhooksSent("other", until_then + 30 * SECOND))
        assert rankd.state.webhook_lease is not None
        assert rankd.state.webhook_lease.node == "other"


async def test_a_webhook_is_changed_and_removed() -> None:
    clock = clock_now()
    async with receiving() as receiver, engine(clock=clock) as rankd:
        await rankd.define("b", {"windows": ["daily"]})
        await put(rankd, receiver, events=["window.sealed"])
        position = rankd.position
        same = await rankd.webhooks.set("hook", url=receiver.url, events=["window.sealed"])
        assert same[1] is None and rankd.position == position, "nothing to record"
        changed, secret = await rankd.webhooks.set(
            "hook", url=receiver.url + "/new", events=EVENTS, boards=["b", "b"]
        )
        assert secret is None and changed.boards == ("b",) and changed.secret
        await turn(rankd, clock)
        await until(delivered(rankd))
        assert {got.path for got in receiver.got} == {"/hook/new"}
        await rankd.webhooks.remove("hook")
        await turn(rankd, clock)
        await asyncio.sleep(0.1)
        assert len(receiver.got) == 2
        with pytest.raises(UnknownWebhook):
            await rankd.webhooks.remove("hook")


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"url": "game.example"}, "url"),
        ({"url": "ftp://game.example/"}, "url"),
        ({"url": "http://1.1.1.1/"}, "url"),
        ({"events": []}, "events"),
        ({"events": ["reward.lost"]}, "events"),
        ({"events": ["player.overtaken"]}, "events"),
        ({"events": "window.opened"}, "events"),
        ({"boards": []}, "boards"),
        ({"boards": ["a b"]}, "boards"),
        ({"boards": ["b"] * 101}, "boards"),
        ({"name": "a/b"}, "name"),
        ({"name": "a" * 65}, "name"),
    ],
)
async def test_a_wrong_webhook_is_told(given: Any, field: str) -> None:
    asked = {"url": "https://game.example/", "events": ["window.opened"], **given}
    async with engine() as rankd:
        with pytest.raises(InvalidRequest) as told:
            await rankd.webhooks.set(asked.pop("name", "hook"), **asked)
        assert [error.field for error in told.value.errors] == [field]


async def test_webhooks_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WEBHOOKS_MAX", 1)
    async with engine() as rankd:
        asked: Any = {"url": "https://game.example/", "events": ["window.opened"]}
        await rankd.webhooks.set("one", **asked)
        with pytest.raises(InvalidRequest):
            await rankd.webhooks.set("other", **asked)
        await rankd.webhooks.set("one", **asked)


async def test_deliveries_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DELIVERIES_KEPT_MAX", 3)
    clock = clock_now()
    async with receiving() as receiver, engine(clock=clock) as rankd:
        await rankd.define("b", {"windows": ["daily"]})
        await put(rankd, receiver)
        await turn(rankd, clock, 4)
        await until(delivered(rankd))
        assert len(rankd.webhooks.deliveries("hook")) == 3


async def test_functions_are_called_in_order_until_they_are_taken_out() -> None:
    clock = clock_now()
    seen: list[tuple[str, str]] = []

    async def later(event: Any) -> None:
        seen.append(("later", event["data"]["window"]))
        raise ValueError("a fault of the function")

    async with engine(clock=clock, manages=False) as rankd:
        await rankd.define("b", {"windows": ["daily"]})
        await turn(rankd, clock)
        end = rankd.callbacks.add("window.opened", later)
        stop = rankd.callbacks.add(
            "window.sealed", lambda event: seen.append(("sealed", event["data"]["window"]))
        )
        await turn(rankd, clock, 2)
        await until(lambda: len(seen) == 4)
        assert [name for name, _ in seen] == ["sealed", "later"] * 2
        end()
        stop()
        await turn(rankd, clock)
        await asyncio.sleep(0.05)
        assert len(seen) == 4
        with pytest.raises(ValueError, match=r"window\.opened"):
            rankd.callbacks.add("reward.lost", later)
