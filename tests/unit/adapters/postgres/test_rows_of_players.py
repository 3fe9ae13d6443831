"""Changes of players: the server applies them as the model does, and knows no kinds of facts."""

import asyncio
from random import Random
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import msgspec
import pytest
from tests.simulation.postgres_servers import new_ledger

from rankd.adapters.player_rows import StoredPlayer, fold
from rankd.adapters.postgres import PostgresLedger
from rankd.adapters.postgres.database import PostgresAddress
from rankd.adapters.postgres.rows import as_stored, change_text
from rankd.model.facts import (
    AttributesSet,
    Fact,
    FriendsSet,
    NameSet,
    PlayerErased,
    PlayerProfiled,
    Position,
    ProfileChange,
    ScoreSubmitted,
)
from rankd.model.window import Instant
from rankd.testing.servers import PostgresServer

pytestmark = pytest.mark.anyio
NOW = Instant(1_763_000_000_000_000)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (None, None),
        (ProfileChange("p"), "{}"),
        (ProfileChange("p", erases=True), '{"erased":true}'),
        (ProfileChange("p", names=True), '{"name":null}'),
        (ProfileChange("p", name="Eve"), "{}"),
        (ProfileChange("p", attributes={"a": 1}), '{"attributes":{"a":1}}'),
        (ProfileChange("p", attributes={"a": 1}, merges=True), '{"merged":{"a":1}}'),
        (ProfileChange("p", friends=("q",)), '{"friends":["q"]}'),
        (ProfileChange("p", names=True, name="A\0"), '{"name":"A\\ufffd"}'),
    ],
)
def test_a_change_is_sent_without_what_stays(
    change: ProfileChange | None, text: str | None
) -> None:
    assert change_text(change) == text


def test_text_that_the_table_cannot_hold_is_stored_as_it_is_sent() -> None:
    plain = ProfileChange("p", attributes={"a": 1}, friends=("q",))
    assert as_stored(plain) is plain
    nul = ProfileChange("p", names=True, name="A\0", attributes={"a": "\0", "b": True})
    assert as_stored(nul) == nul._replace(name="A\ufffd", attributes={"a": "\ufffd", "b": True})


def any_fact(random: Random) -> Fact:
    player = f"p{random.randrange(5)}"
    values: list[str | int | bool] = [1, 2, True, "x", 2**63 - 1]
    attributes = {name: random.choice(values) for name in random.sample("abc", random.randrange(3))}
    match random.randrange(7):
        case 0:
            return PlayerProfiled(player, random.choice([None, "Ada", "\0"]), attributes or None)
        case 1:
            return NameSet(player, random.choice([None, "Ada", "Eve"]))
        case 2:
            return AttributesSet(player, attributes=attributes)
        case 3:
            return FriendsSet(player, tuple(random.sample("qrs", random.randrange(3))))
        case 4:
            return PlayerErased(player)
        case _:
            return ScoreSubmitted("b", player, scores=(1,), attributes=attributes or None)


async def table(url: str) -> dict[str, StoredPlayer]:
    address = PostgresAddress.parse(url)
    connection = await asyncpg.connect(address.url)
    try:
        rows: list[Any] = await connection.fetch(address.sql("SELECT * FROM rankd.players"))
    finally:
        await connection.close()
    return {
        row["player"]: StoredPlayer(
            row["player"],
            row["name"],
            canonical(row["attributes"]),
            canonical(row["friends"]),
            row["position"],
        )
        for row in rows
    }


def canonical(text: str) -> str:
    return msgspec.json.encode(msgspec.json.decode(text), order="deterministic").decode()


async def test_the_server_and_the_model_come_to_the_same(server: PostgresServer) -> None:
    url, random = new_ledger(server.url), Random(12)
    async with (
        PostgresLedger.open(url, node="one") as one,
        PostgresLedger.open(url, node="two") as two,
    ):
        for _ in range(30):
            await asyncio.gather(
                *(
                    ledger.append(
                        [any_fact(random) for _ in range(random.randrange(1, 6))], now=NOW
                    )
                    for ledger in (one, two)
                )
            )
        expected: dict[str, StoredPlayer] = {}
        for recorded in await one.read(after=Position(0), limit=1_000):
            change = recorded.fact.profile_change()
            if change is not None:
                fold(expected, [(recorded.position, as_stored(change))])
        assert expected
        assert await table(url) == expected
        async for _ in two.verify():
            pass
