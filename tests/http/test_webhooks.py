"""Webhooks over HTTP: set, delivered, replayed and removed, on both lanes, workers and nodes."""

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from standardwebhooks import Webhook
from tests.cli.running import Served, serving
from tests.http.test_signed import LANES
from tests.http.whole import IN_MEMORY, PLACE, run, whole
from tests.simulation.postgres_servers import new_ledger
from tests.webhook_receiver import Got, Receiver, receiving, response

from rankd.bootstrap import EngineConfig
from rankd.client import AsyncClient
from rankd.core import webhook_delivery as module
from rankd.core.webhooks import EVENTS
from rankd.testing.servers import PostgresServer

PATH = "/v1/webhooks/hook"
BOARD = {"windows": ["all", "daily"]}
RESETS = 12


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(module, "RETRY_SECONDS_MIN", 0.01)


def _allowing() -> EngineConfig:
    return replace(IN_MEMORY, webhook_private_addresses=True)


@LANES
def test_a_webhook_gets_events_until_it_is_removed(fast_lane: bool) -> None:
    async def test() -> None:
        PLACE.set(_allowing)
        async with receiving() as receiver, whole(fast_lane=fast_lane) as service:
            await service.told("PUT", "/v1/boards/b", BOARD)
            asked = {"url": receiver.url, "events": list(EVENTS), "boards": ["*"]}
            made = await service.ask("PUT", PATH, asked)
            assert made.status_code == 201
            secret = made.json().pop("secret")
            Webhook(secret)
            again = await service.ask("PUT", PATH, asked)
            assert again.status_code == 200 and "secret" not in again.json()
            assert again.json() == await service.told("GET", PATH)
            assert await service.told("GET", "/v1/webhooks") == {"webhooks": [again.json()]}
            assert again.json()["boards"] == ["*"] and again.json()["state"] == "delivering"

            await service.told("POST", "/v1/boards/b:reset", {"window": "daily", "reason": "x"})
            items: list[Any] = []
            while len(items) < 2:
                items = (await service.told("GET", f"{PATH}/deliveries"))["deliveries"]
                await asyncio.sleep(0.01)
            assert [one["type"] for one in items] == ["window.opened", "window.sealed"]
            assert items[0]["id"] == receiver.got[1].headers["webhook-id"]
            assert (items[0]["state"], items[0]["status"]) == ("delivered", 200)

            await service.told("POST", f"{PATH}:replay", {"from": 1})
            await until(lambda: len(receiver.got) == 6)
            first, second = receiver.got[:2], receiver.got[4:]
            assert all(b"window.opened" in one.body for one in receiver.got[2:4]), "of its start"
            assert [one.body for one in first] == [one.body for one in second]
            facts = await service.told("GET", "/v1/facts?kind=webhook_set")
            assert secret not in json.dumps(facts)
            await service.told("DELETE", PATH)
            for method, path, body in (
                ("GET", PATH, None),
                ("DELETE", PATH, None),
                ("GET", f"{PATH}/deliveries", None),
                ("POST", f"{PATH}:replay", {"from": 1}),
            ):
                answer = await service.ask(method, path, body)
                assert answer.json()["code"] == "unknown_webhook", answer
                assert answer.status_code == 404

    run(test())


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"url": "http://127.0.0.1/"}, "url"),
        ({"url": "https://127.0.0.1/"}, "url"),
        ({"url": "https://[fd00::1]/"}, "url"),
        ({"url": "https://game.example/#x"}, "url"),
        ({"events": ["reward.lost"]}, "events"),
        ({"events": []}, "events"),
        ({"boards": [".."]}, "boards"),
    ],
)
def test_a_wrong_webhook_is_answered_422(body: dict[str, Any], field: str) -> None:
    async def test() -> None:
        async with whole() as service:
            asked = {"url": "https://game.example/", "events": ["window.opened"], **body}
            answer = await service.ask("PUT", PATH, asked)
            assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
            (error,) = answer.json()["errors"]
            assert error["field"] == field
            if field == "events":
                assert all(event in error["message"] for event in EVENTS)
            for wrong in (0, 10**6):
                answer = await service.ask("POST", f"{PATH}:replay", {"from": wrong})
                assert (answer.status_code, answer.json()["code"]) == (422, "invalid")

    run(test())


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not holds():  # noqa: ASYNC110 - a receiver, which tells nobody
            await asyncio.sleep(0.02)


def ids(receiver: Receiver) -> list[int]:
    return [int(got.headers["webhook-id"].removeprefix("evt_")) for got in receiver.got]


def once(positions: list[int]) -> list[int]:
    """Return positions in the order in which they came first."""
    return list(dict.fromkeys(positions))


async def events_in(url: str) -> list[int]:
    async with httpx.AsyncClient(base_url=url) as http:
        kinds = ("window_sealed", "window_opened")
        answers = [await http.get("/v1/facts", params={"kind": kind}) for kind in kinds]
    return sorted(fact["position"] for answer in answers for fact in answer.json()["facts"])


async def reset(url: str, number: int) -> None:
    async with AsyncClient(url) as client:
        await client.reset_window("b", "daily", reason=f"number {number}")


ALLOWED = ("--webhook-private-addresses",)


@pytest.mark.servers
@pytest.mark.timeout(300)
def test_a_killed_service_with_workers_goes_on_after_its_restart(tmp_path: Path) -> None:
    async def test() -> None:
        served = 0

        async def respond(_got: Got) -> bytes:
            nonlocal served
            served += 1
            await asyncio.sleep(0.02)
            return response(500 if served % 4 == 0 else 200)

        async with receiving(respond) as receiver:
            with serving(tmp_path, "--workers", "2", *ALLOWED) as service:
                async with AsyncClient(service.url) as client:
                    await client.define("b", BOARD)
                    await client.put_webhook("hook", receiver.url, EVENTS)
                for number in range(3):
                    await reset(service.url, number)
                service.stop(signal.SIGKILL)
            with serving(tmp_path, "--workers", "2", *ALLOWED) as service:
                for number in range(3, 6):
                    await reset(service.url, number)
                expected = await events_in(service.url)
                await until(lambda: len(set(ids(receiver))) == 12)
                assert once(ids(receiver)) == expected[-12:]
                async with httpx.AsyncClient(base_url=service.url) as http:
                    for _ in range(8):  # Of whichever process.
                        answer = (await http.get(f"{PATH}/deliveries")).json()
                        assert answer["deliveries"], answer

    asyncio.run(test())


@pytest.mark.servers
@pytest.mark.timeout(300)
def test_of_two_nodes_the_one_that_sends_is_killed(
    tmp_path: Path, shared_postgres: PostgresServer
) -> None:
    """No event is lost, and the order is kept, over PostgreSQL."""
    ledger = new_ledger(shared_postgres.url)

    async def sender_of(nodes: list[Served]) -> Served:
        while True:
            for node in nodes:
                async with httpx.AsyncClient(base_url=node.url) as http:
                    if (await http.get(f"{PATH}/deliveries")).json()["deliveries"]:
                        return node
            await asyncio.sleep(0.05)

    async def test() -> None:
        async def respond(_got: Got) -> bytes:
            await asyncio.sleep(0.02)
            return response()

        with contextlib.ExitStack() as stack:
            nodes = []
            for name in ("one", "other"):
                (tmp_path / name).mkdir()
                options = ("--ledger", ledger, "--node", name, *ALLOWED)
                nodes.append(stack.enter_context(serving(tmp_path / name, *options)))
            async with receiving(respond) as got:
                async with AsyncClient(nodes[0].url) as client:
                    await client.define("b", BOARD)
                    await client.put_webhook("hook", got.url, EVENTS)
                await reset(nodes[0].url, 0)
                sending = await sender_of(nodes)
                (left,) = (node for node in nodes if node is not sending)
                resets = [asyncio.create_task(reset(left.url, n)) for n in range(1, RESETS)]
                await asyncio.sleep(0.1)
                os.kill(sending.process.pid, signal.SIGKILL)
                await asyncio.gather(*resets)
                expected = await events_in(left.url)
                begun = time.monotonic()
                await until(lambda: set(ids(got)) == set(expected))
                assert once(ids(got)) == expected
                assert time.monotonic() - begun < module.LEASE_SECONDS + 30
                assert (await sender_of([left])) is left

    asyncio.run(test())
