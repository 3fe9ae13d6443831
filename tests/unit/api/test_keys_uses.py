"""Last uses of keys: recorded seldom, never too late, and from every process."""

import asyncio
from collections.abc import Mapping
from hashlib import sha256

import pytest
from tests.unit.api.handling import Working, working

from rankd.api import keys
from rankd.api.keys import hand_on_uses, record_uses, uses_to_record
from rankd.errors import InvalidRequest, LedgerUnavailable
from rankd.model.facts import KeyCreated, KeysUsed, Position
from rankd.settings import Settings

pytestmark = pytest.mark.anyio
BEHIND_SECONDS = 3_600
HOUR = BEHIND_SECONDS * 1_000_000


@pytest.mark.parametrize(
    ("used", "recorded", "due"),
    [
        ({}, {"k": 5}, {}),
        ({"k": 5}, {}, {"k": 5}),
        ({"k": 5}, {"k": 5}, {}),
        ({"k": HOUR - 1}, {"k": 0}, {}),
        ({"k": HOUR}, {"k": 0}, {"k": HOUR}),
        ({"k": HOUR, "l": HOUR}, {"k": 0, "l": HOUR - 1}, {"k": HOUR, "l": HOUR}),
        ({"k": 4}, {"k": 5}, {}),
    ],
)
def test_a_use_is_recorded_once_it_is_new_or_an_hour_behind(
    used: Mapping[str, int], recorded: Mapping[str, int], due: Mapping[str, int]
) -> None:
    assert uses_to_record(used, recorded, BEHIND_SECONDS) == due


def test_the_bound_is_a_setting() -> None:
    assert Settings().key_use_seconds == BEHIND_SECONDS


async def create(at: Working, id: str = "k") -> None:
    key = KeyCreated(id, sha256(id.encode()).digest(), ("admin",))
    await at.service.writer.create_key(key)


async def test_uses_are_recorded_in_one_fact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "USES_SECONDS", 0.001)
    async with working() as at:
        await create(at)
        shown = {"authorization": "Bearer k"}
        recording = asyncio.create_task(
            record_uses(at.service.auth, at.service.writer, BEHIND_SECONDS)
        )
        for _ in range(100):
            await at.ask("list_keys", headers=shown)
        async with asyncio.timeout(30):
            while not at.service.rankd.state.keys_used:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.001)
        for _ in range(100):
            await at.ask("list_keys", headers=shown)
            await asyncio.sleep(0.001)
        recording.cancel()
        facts = await at.ledger.read(after=Position(0), limit=100)
        assert [type(recorded.fact) for recorded in facts] == [KeyCreated, KeysUsed]
        (listed,) = (await at.told("list_keys", headers=shown))["keys"]
        assert listed["last_used"] > listed["created"] == "2026-11-14T12:00:00Z"
        assert listed["expires"] is None


async def test_a_ledger_that_takes_nothing_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "USES_SECONDS", 0.001)
    async with working() as at:
        await create(at)
        at.service.auth.note_uses({"k": 5})
        note, refusals = at.service.writer.note_key_uses, [LedgerUnavailable("away", applied="no")]

        async def note_second(used: Mapping[str, int]) -> Position:
            if refusals:
                raise refusals.pop()
            return await note(used)

        monkeypatch.setattr(at.service.writer, "note_key_uses", note_second)
        recording = asyncio.create_task(
            record_uses(at.service.auth, at.service.writer, BEHIND_SECONDS)
        )
        async with asyncio.timeout(30):
            while at.service.rankd.state.keys_used != {"k": 5}:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.001)
        recording.cancel()


async def test_nothing_is_recorded_where_that_is_switched_off() -> None:
    async with working() as at:
        await record_uses(at.service.auth, at.service.writer, 0)


async def test_another_process_hands_its_uses_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "USES_SECONDS", 0.001)
    async with working() as at:
        await create(at)
        told: list[Mapping[str, int]] = []
        at.service.auth.note_uses({"k": 5})
        handing_on = asyncio.create_task(hand_on_uses(at.service.auth, told.append))
        async with asyncio.timeout(30):
            while not told:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.001)
            at.service.auth.note_uses({"k": 6})
            while len(told) < 2:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.001)
        handing_on.cancel()
        assert told == [{"k": 5}, {"k": 6}]


async def test_keys_are_listed_with_their_times() -> None:
    async with working() as at:
        made = await at.told("create_key", None, {"scopes": ["admin"]})
        shown = {"authorization": f"Bearer {made['key']}"}
        assert made["created"] == "2026-11-14T12:00:00Z"
        other = await at.told(
            "create_key", None, {"scopes": ["read"], "expires": "2027-01-01"}, shown
        )
        assert other["expires"] == "2027-01-01T00:00:00Z"
        first, second = (await at.told("list_keys", headers=shown))["keys"]
        assert (first["id"], second["id"]) == (made["id"], other["id"])
        assert first["last_used"] is not None and second["last_used"] is None
        assert second["expires"] == other["expires"]
        facts = (await at.told("list_facts", headers=shown))["facts"]
        assert facts[-1]["body"]["expires"] == other["expires"]


async def test_a_key_that_makes_others_is_always_left() -> None:
    async with working() as at:
        with pytest.raises(InvalidRequest, match="of the first key must be admin"):
            await at.ask("create_key", None, {"scopes": ["admin"], "expires": "1d"})
        made = await at.told("create_key", None, {"scopes": ["admin"]})
        shown = {"authorization": f"Bearer {made['key']}"}
        await at.ask("create_key", None, {"scopes": ["admin"], "expires": "1d"}, shown)
        with pytest.raises(InvalidRequest, match="that never expires: make another first"):
            await at.ask("revoke_key", {"key": made["id"]}, None, shown)
