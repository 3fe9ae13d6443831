"""Profiles, friends, and being forgotten, as handlers answer it."""

from typing import Any

import pytest
from tests.unit.api.handling import working

from rankd.errors import InvalidProfile, UnknownPlayer

pytestmark = pytest.mark.anyio
P = {"player": "p"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_a_profile_is_set_whole_and_friends_only_if_given() -> None:
    async with working() as at:
        said = {"name": "Ann", "attributes": {"region": "eu", "level": 3}, "friends": ["q", "q"]}
        told = await at.told("put_player", P, said)
        assert told == {
            "player": "p",
            "name": "Ann",
            "attributes": {"level": 3, "region": "eu"},
            "friends": ["q"],
        }
        assert await at.told("get_player", P) == told
        told = await at.told("put_player", P, {"attributes": {"vip": True}})
        assert told == {
            "player": "p",
            "name": None,
            "attributes": {"vip": True},
            "friends": ["q"],
        }


async def test_friends_are_set_all_at_once() -> None:
    async with working() as at:
        assert (await at.told("put_friends", P, {"friends": ["a", "p", "b", "a"]}))["friends"] == [
            "a",
            "b",
        ]
        assert (await at.told("put_friends", P, {"friends": []}))["friends"] == []
        assert (await at.told("get_player", P))["friends"] == []


@pytest.mark.parametrize(
    ("operation", "body", "field"),
    [
        ("put_friends", {}, "friends"),
        ("put_friends", {"friends": [], "name": "x"}, "friends"),
        ("put_friends", {"friends": "q"}, "friends"),
        ("put_friends", {"friends": [""]}, "friends[0]"),
        ("put_player", {"friends": ["x", 5]}, "friends[1]"),
        ("put_player", {"nickname": "x"}, "nickname"),
        ("put_player", {"name": ""}, "name"),
        ("put_player", {"attributes": {"level": 1.5}}, "attributes.level"),
    ],
)
async def test_what_cannot_be_said_of_a_player_is_refused(
    operation: str, body: Any, field: str
) -> None:
    async with working() as at:
        with pytest.raises(InvalidProfile) as refused:
            await at.ask(operation, P, body)
        assert [wrong.field for wrong in refused.value.errors] == [field]
        assert at.service.rankd.position == 0


async def test_whoever_is_erased_is_unknown_and_its_entry_stays_without_a_name() -> None:
    async with working() as at:
        await at.define()
        with pytest.raises(UnknownPlayer):
            await at.ask("get_player", P)
        await at.ask("put_player", P, {"name": "Ann", "friends": ["q"]})
        await at.submit("p", 5)
        done = await at.told("erase_player", P, reason="asked to")
        assert done == {"position": at.service.rankd.position}
        with pytest.raises(UnknownPlayer):
            await at.ask("get_player", P)
        row = await at.told("get_standing", {"board": "b", "player": "p"})
        assert (row["rank"], row["score"], row["name"]) == (1, 5, None)
