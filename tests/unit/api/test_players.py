"""Profiles, friends, and being forgotten, as handlers answer it."""

import asyncio
from typing import Any

import pytest
from tests.unit.api.handling import working

from rankd.core.reader import LOOKUP_PLAYERS_MAX
from rankd.errors import InvalidPage, InvalidProfile, UnknownPlayer

pytestmark = pytest.mark.anyio
P = {"player": "p"}
MODERATED: dict[str, Any] = {"state": "active", "reason": None, "states": []}
"""Shown of a player without a state: nobody needs a key here, so everybody moderates."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_what_is_not_named_of_a_profile_stays_and_null_forgets_it() -> None:
    async with working() as at:
        said = {"name": "Ann", "attributes": {"region": "eu", "level": 3}, "friends": ["q", "q"]}
        told = await at.told("put_player", P, said)
        assert told == {
            "player": "p",
            "name": "Ann",
            "attributes": {"level": 3, "region": "eu"},
            "friends": ["q"],
            "visibility": "public",
            "as_of": 2,
            "exactness": "exact",
            "stale": False,
        }
        assert await at.told("get_player", P) == {**told, **MODERATED}

        async def after(**said: Any) -> tuple[Any, ...]:
            told = await at.told("put_player", P, said)
            known = await at.told("get_player", P)
            assert known == {**told, **MODERATED}, "the answer shows the profile after it"
            return told["name"], told["attributes"], told["friends"]

        assert await after(name="Eve") == ("Eve", {"region": "eu", "level": 3}, ["q"])
        assert await after(attributes={"vip": True}) == ("Eve", {"vip": True}, ["q"])
        assert await after(friends=["r"]) == ("Eve", {"vip": True}, ["r"])
        assert await after(name=None) == (None, {"vip": True}, ["r"])
        assert await after(name="Ann", friends=None) == ("Ann", {"vip": True}, [])
        assert await after(attributes=None) == ("Ann", {}, [])
        assert await after(name="Bo", attributes={"a": 1}) == ("Bo", {"a": 1}, [])
        before = at.service.rankd.position
        assert await after() == ("Bo", {"a": 1}, [])
        assert at.service.rankd.position == before, "nothing was said"


async def test_a_new_name_leaves_a_player_in_its_segments() -> None:
    async with working() as at:
        await at.define(segments=["region"])
        await at.submit("p", 5, attributes={"region": "eu"})
        await at.told("put_player", P, {"name": "Ann"})

        async def found(segment: str) -> list[tuple[str, str]]:
            page = await at.told("list_standings", {"board": "b"}, segment=segment)
            return [(row["player"], row["name"]) for row in page["standings"]]

        assert await found("region:eu") == [("p", "Ann")]
        await at.told("put_player", P, {"attributes": {"region": "us"}})
        assert (await found("region:eu"), await found("region:us")) == ([], [("p", "Ann")])
        await at.told("put_player", P, {"attributes": None})
        assert (await found("region:us"), (await at.told("get_player", P))["name"]) == ([], "Ann")


async def test_parts_of_profiles_mean_the_same_when_all_is_folded_again() -> None:
    async with working() as at:
        await at.define()
        for player in ("p", "q"):
            await at.submit(player, 5)
        await at.told("put_player", P, {"name": "Ann", "attributes": {"region": "us"}})
        await at.told("put_player", P, {"attributes": {"region": "eu"}})
        await at.told("put_player", {"player": "q"}, {"attributes": {"region": "eu"}})
        await at.told("put_player", {"player": "q"}, {"name": "Bob"})
        await at.told("put_board", {"board": "b"}, {"segments": ["region"]}, apply=True)
        page = await at.told("list_standings", {"board": "b"}, segment="region:eu")
        assert [row["name"] for row in page["standings"]] == ["Ann", "Bob"]
        async for _ in at.service.writer.verify():
            pass
        async for _ in at.service.writer.rebuild():
            pass
        again = await at.told("list_standings", {"board": "b"}, segment="region:eu")
        assert again["standings"] == page["standings"]


async def test_who_says_one_thing_does_not_undo_what_another_says_at_the_same_time() -> None:
    """All three are on their way before any is counted."""
    async with working() as at:
        await at.define(segments=["region"])
        at.ledger.hold()
        asked = [
            asyncio.create_task(at.told("put_player", P, {"name": "Ann"})),
            asyncio.create_task(at.submit("p", 5, attributes={"region": "eu"})),
            asyncio.create_task(at.told("put_player", P, {"friends": ["q"]})),
        ]
        for _ in range(5):
            await asyncio.sleep(0)
        at.ledger.release()
        await asyncio.gather(*asked)
        told = await at.told("get_player", P)
        assert (told["name"], told["attributes"], told["friends"]) == (
            "Ann",
            {"region": "eu"},
            ["q"],
        )


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
        ("patch_player", {"attributes": {"level": 1.5}}, "attributes.level"),
        ("patch_player", {"friends": 5, "attributes": {}}, "friends"),
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
        assert done == {"position": at.service.rankd.position - 2}, "two facts redact the others"
        with pytest.raises(UnknownPlayer):
            await at.ask("get_player", P)
        row = await at.told("get_standing", {"board": "b", "player": "p"})
        assert (row["rank"], row["score"], row["name"]) == (1, 5, None)


async def test_of_whom_nothing_is_known_nothing_is_recorded_by_forgetting_it() -> None:
    async with working() as at:
        await at.define()
        before = at.service.rankd.position
        done = await at.told("erase_player", P, reason="asked to")
        assert done == {"position": before}
        with pytest.raises(InvalidProfile):
            await at.ask("erase_player", P, reason="")
        await at.ask("put_friends", P, {"friends": ["q"]})
        erased = await at.told("erase_player", P)
        assert await at.told("erase_player", P) == erased == {"position": before + 2}
        await at.submit("p", 5, metadata={"note": "hidden"})
        assert (await at.told("erase_player", P))["position"] > before + 2, "it has metadata again"


async def test_a_merge_leaves_a_player_in_the_segments_it_does_not_name() -> None:
    async with working() as at:
        await at.define(segments=["region", "guild"])
        await at.submit("p", 5, attributes={"region": "eu", "guild": "x"})
        told = await at.told("patch_player", P, {"attributes": {"guild": "y"}, "name": "Ann"})
        assert (told["name"], told["attributes"]) == ("Ann", {"guild": "y", "region": "eu"})
        for segment, total in (("region:eu", 1), ("guild:x", 0), ("guild:y", 1)):
            page = await at.told("list_standings", {"board": "b"}, segment=segment)
            assert page["total"] == total, segment
        told = await at.told("patch_player", P, {"attributes": {"guild": None}})
        assert told["attributes"] == {"region": "eu"}
        async for _ in at.service.writer.verify():
            pass


async def test_a_merge_that_changes_nothing_records_nothing() -> None:
    async with working() as at:
        await at.told("patch_player", P, {"name": "Ann", "attributes": {"vip": True}})
        before = at.service.rankd.position
        await at.told("patch_player", P, {"name": "Ann", "attributes": {"vip": True}})
        await at.told("patch_player", P, {"attributes": {"gone": None}})
        await at.told("patch_player", P, {})
        assert at.service.rankd.position == before
        told = await at.told("patch_player", P, {"attributes": {"vip": 1}})
        assert told["attributes"]["vip"] is not True
        assert at.service.rankd.position == before + 1


async def test_merges_at_the_same_time_all_count() -> None:
    async with working() as at:
        asked = [
            asyncio.create_task(at.told("patch_player", P, {"attributes": {f"a{n}": n}}))
            for n in range(8)
        ]
        await asyncio.gather(*asked)
        told = await at.told("get_player", P)
        assert told["attributes"] == {f"a{n}": n for n in range(8)}


async def test_players_are_looked_up_in_the_order_asked_for() -> None:
    async with working() as at:
        await at.told("put_player", P, {"name": "Ann", "attributes": {"region": "eu"}})
        found = await at.told("lookup_players", {}, {"players": ["nobody", "p"]})
        assert found["players"] == [
            {"player": "nobody", "name": None, "attributes": {}},
            {"player": "p", "name": "Ann", "attributes": {"region": "eu"}},
        ]
        assert (found["as_of"], found["next_after"]) == (at.service.rankd.position, None)
        assert (await at.told("lookup_players", {}, {"players": []}))["players"] == []
        for wrong in ([""], ["p"] * (LOOKUP_PLAYERS_MAX + 1)):
            with pytest.raises(InvalidPage):
                await at.ask("lookup_players", {}, {"players": wrong})


async def test_players_are_found_by_the_beginning_of_a_name_or_an_id() -> None:
    async with working() as at:
        await at.define()
        for player in ("ann", "anton", "bob", "zed"):
            await at.submit(player, 1)
        await at.told("put_player", {"player": "zed"}, {"name": "ANTONIA"})
        await at.told("put_player", {"player": "x1"}, {"name": "Änne", "attributes": {"a": 1}})
        await at.told("put_friends", {"player": "lonely"}, {"friends": ["ann"]})

        async def found(query: str, **more: Any) -> list[str]:
            told = await at.told("find_players", query=query, **more)
            return [one["player"] for one in told["players"]]

        assert await found("an") == ["ann", "anton", "zed"]
        assert await found("än") == ["x1"]
        assert await found("AN") == ["zed"]
        assert await found("lone") == ["lonely"]
        assert await found("nobody") == []
        told = await at.told("find_players", query="x")
        assert told["players"] == [{"player": "x1", "name": "Änne", "attributes": {"a": 1}}]
        page = await at.told("find_players", query="an", limit=2)
        assert page["next_after"] == "anton"
        assert await found("an", limit=2, after="anton") == ["zed"]
        assert (await at.told("find_players", query="an", limit=3))["next_after"] is None
        with pytest.raises(InvalidPage):
            await at.ask("find_players", query="")
        await at.ask("erase_player", {"player": "x1"})
        assert await found("x") == []
