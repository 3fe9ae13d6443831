"""The table of players is what the facts come to, whatever happened between them."""

import json
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import apsw
import pytest

from rankd.adapters.player_rows import Changes
from rankd.adapters.sqlite import SQLiteLedger, players
from rankd.adapters.sqlite import ledger as adapter
from rankd.adapters.sqlite.players import changes
from rankd.core.state import State
from rankd.model.facts import (
    AttributesSet,
    BoardRetired,
    Fact,
    FriendsSet,
    NameSet,
    PlayerErased,
    PlayerProfiled,
    Position,
    Recorded,
    ScoreSubmitted,
)
from rankd.model.window import Instant
from rankd.ports import PlayersWithNews

pytestmark = pytest.mark.anyio
NOW = Instant(1_763_000_000_000_000)
Rows = dict[str, tuple[Any, ...]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def scored(player: str, key: str | None = None, **attributes: Any) -> ScoreSubmitted:
    return ScoreSubmitted("b", player, scores=(1,), key=key, attributes=attributes or None)


def rows(folder: Path) -> Rows:
    """What an analyst sees."""
    file = apsw.Connection(str(folder / "ledger.db"), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        found = file.execute("SELECT player, name, attributes, friends, position FROM players")
        return {
            player: (name, json.loads(attributes), json.loads(friends), position)
            for player, name, attributes, friends, position in found
        }
    finally:
        file.close()


async def told(folder: Path, *appends: list[Fact]) -> Rows:
    """Append, verify, and return the table."""
    async with SQLiteLedger.open(folder) as ledger:
        for facts in appends:
            await ledger.append(facts, now=NOW)
        async for _ in ledger.verify():
            pass
        return rows(folder)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ([scored("p")], {}),
        ([PlayerProfiled("p", "Ada", {"region": "eu"})], {"p": ("Ada", {"region": "eu"}, [], 1)}),
        ([PlayerProfiled("p")], {"p": (None, {}, [], 1)}),
        ([FriendsSet("p", ("q", "r"))], {"p": (None, {}, ["q", "r"], 1)}),
        ([scored("p", region="eu", vip=True)], {"p": (None, {"region": "eu", "vip": True}, [], 1)}),
        (
            [scored("p", region="eu", level=1), scored("p", level=2), scored("p")],
            {"p": (None, {"region": "eu", "level": 2}, [], 2)},
        ),
        (
            [FriendsSet("p", ("q",)), PlayerProfiled("p", "Ada"), scored("p", level=2)],
            {"p": ("Ada", {"level": 2}, ["q"], 3)},
        ),
        (
            [PlayerProfiled("p", "Ada", {"level": 1}), PlayerProfiled("p", None, {"vip": False})],
            {"p": (None, {"vip": False}, [], 2)},
        ),
        (
            [PlayerProfiled("p", "Ada", {"a": 1}), NameSet("p", "Eve"), FriendsSet("p", ("q",))],
            {"p": ("Eve", {"a": 1}, ["q"], 3)},
        ),
        ([NameSet("p", "Ada"), NameSet("p"), NameSet("p")], {"p": (None, {}, [], 2)}),
        (
            [NameSet("p", "Ada"), scored("p", a=1), AttributesSet("p", attributes={"b": 2})],
            {"p": ("Ada", {"b": 2}, [], 3)},
        ),
        ([AttributesSet("p", attributes={})], {"p": (None, {}, [], 1)}),
        ([scored("p", level=1), scored("p", level=True)], {"p": (None, {"level": True}, [], 2)}),
        ([PlayerProfiled("p", "Ada"), PlayerErased("p")], {}),
        ([PlayerErased("p")], {}),
        (
            [PlayerProfiled("p", "Ada"), PlayerErased("p"), PlayerProfiled("p", "Ada")],
            {"p": ("Ada", {}, [], 3)},
        ),
        (
            [PlayerProfiled("p", "Ada"), PlayerErased("p"), scored("p", level=1)],
            {"p": (None, {"level": 1}, [], 3)},
        ),
        (
            [PlayerProfiled("é\x00ü", "A\x00b"), PlayerProfiled('"\\', "\u2028")],
            {"é\x00ü": ("A\x00b", {}, [], 1), '"\\': ("\u2028", {}, [], 2)},
        ),
    ],
)
async def test_a_row_is_what_the_facts_tell(
    tmp_path: Path, facts: list[Fact], expected: Rows
) -> None:
    assert await told(tmp_path / "together", facts) == expected
    assert await told(tmp_path / "singly", *([fact] for fact in facts)) == expected


async def test_a_fact_that_changes_nothing_leaves_the_row_as_it_is(tmp_path: Path) -> None:
    same: list[Fact] = [
        PlayerProfiled("p", "Ada", {"region": "eu", "level": 3}),
        FriendsSet("p", ("q",)),
    ]
    found = await told(tmp_path, same, same, [scored("p", level=3)], [scored("p", region="eu")])
    assert found == {"p": ("Ada", {"region": "eu", "level": 3}, ["q"], 2)}


async def test_what_is_known_counts_where_it_was_changed_just_before(tmp_path: Path) -> None:
    there, back = scored("p", region="us"), scored("p", region="eu")
    found = await told(tmp_path, [back, scored("q", region="eu")], [back, there, back, back])
    assert found == {"p": (None, {"region": "eu"}, [], 5), "q": (None, {"region": "eu"}, [], 2)}


async def test_a_fact_that_was_left_out_tells_nothing(tmp_path: Path) -> None:
    first, again = scored("p", "k", region="eu"), scored("p", "k", region="us")
    expected: Rows = {"p": (None, {"region": "eu"}, [], 1)}
    assert await told(tmp_path, [first, again], [again, scored("q")]) == expected


async def test_an_append_that_fails_leaves_the_table_as_it_was(tmp_path: Path) -> None:
    async with SQLiteLedger.open(tmp_path) as ledger:
        await ledger.append([PlayerProfiled("p", "Ada")], now=NOW)
        with pytest.raises(UnicodeError):
            await ledger.append([PlayerErased("p"), scored("\ud800")], now=NOW)
        assert rows(tmp_path) == {"p": ("Ada", {}, [], 1)}


async def test_a_long_history_in_many_blocks_comes_to_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "BLOCK_FACTS_MAX", 7)
    random = Random(11)
    facts = [_any_fact(random) for _ in range(600)]
    appends = [facts[start : start + 31] for start in range(0, len(facts), 31)]
    assert await told(tmp_path, *appends) == _expected(facts)


class FollowingState:
    """A state that notes what is appended, as the writer's does, and may be some facts behind."""

    def __init__(self) -> None:
        self.state, self.at, self.asked = State(), Position(0), 0

    def known(self) -> tuple[Position, PlayersWithNews]:
        return self.at, self.players_with_news

    def players_with_news(self, facts: Iterable[Fact]) -> set[str]:
        self.asked += 1
        return self.state.players_with_news(facts)

    def note(self, facts: list[Fact]) -> None:
        for fact in facts:
            self.at = Position(self.at + 1)
            self.state.note(Recorded(self.at, NOW, fact))
            if type(fact) is ScoreSubmitted and (change := fact.profile_change()):
                self.state.change_profile(change)


@pytest.mark.parametrize("seed", range(4))
async def test_a_state_that_knows_profiles_leaves_the_table_as_it_is(
    tmp_path: Path, seed: int
) -> None:
    random, following = Random(seed), FollowingState()
    facts = [_any_fact(random) for _ in range(400)]
    async with SQLiteLedger.open(tmp_path) as ledger:
        ledger.compare_profiles(following.known)
        behind: list[Fact] = []
        for start in range(0, len(facts), 9):
            some = facts[start : start + 9]
            await ledger.append(some, now=NOW)
            behind += some
            if random.random() < 0.5:
                following.note(behind)
                behind = []
        async for _ in ledger.verify():
            pass
    assert rows(tmp_path) == _expected(facts)
    assert following.asked


async def test_players_whose_attributes_the_state_knows_are_not_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    following, looked_up = FollowingState(), list[str]()

    def project(database: apsw.Connection, changes: Changes) -> None:
        looked_up.extend(change.player for _, change in changes)
        original(database, changes)

    original = players.project
    monkeypatch.setattr(adapter, "project", project)
    facts: list[Fact] = [scored("p", region="eu"), scored("q", region="eu")]
    async with SQLiteLedger.open(tmp_path) as ledger:
        ledger.compare_profiles(following.known)
        await ledger.append(facts, now=NOW)
        await ledger.append(facts, now=NOW)
        assert looked_up == ["p", "q", "p", "q"], "the state is not at the head"
        following.note([*facts, *facts])
        await ledger.append([*facts, scored("q", region="us"), *facts], now=NOW)
        assert looked_up[4:] == ["q", "q", "q"]
        assert rows(tmp_path)["q"] == (None, {"region": "eu"}, [], 9)
        await ledger.append([scored("q", region="us")], now=NOW)
        await ledger.append(facts, now=NOW)
        assert rows(tmp_path)["q"] == (None, {"region": "eu"}, [], 12)


def _any_fact(random: Random) -> Fact:
    player = f"p{random.randrange(12)}"
    match random.randrange(8):
        case 0:
            return PlayerProfiled(player, f"name {random.randrange(3)}")
        case 1:
            return PlayerProfiled(player, attributes={"level": random.randrange(3)})
        case 2:
            return FriendsSet(player, tuple(f"f{n}" for n in range(random.randrange(3))))
        case 3:
            return PlayerErased(player)
        case 4:
            return NameSet(player, random.choice([None, "Ada", "Eve"]))
        case 5:
            return AttributesSet(player, attributes={"level": random.randrange(3)})
        case 6:
            return scored(player, level=random.randrange(3), region=random.choice("ab"))
        case _:
            return scored(player)


def _expected(facts: list[Fact]) -> Rows:
    """The same once more, as plainly as it can be said."""
    known: Rows = {}
    for position, fact in enumerate(facts, 1):
        before = known.get(getattr(fact, "player", ""), (None, {}, [], 0))
        name, attributes, friends, _ = before
        match fact:
            case PlayerErased():
                known.pop(fact.player, None)
                continue
            case AttributesSet():
                attributes = fact.attributes or {}
            case PlayerProfiled():
                name, attributes = fact.name, fact.attributes or {}
            case NameSet():
                name = fact.name
            case FriendsSet():
                friends = list(fact.friends)
            case ScoreSubmitted(attributes=None):
                continue
            case ScoreSubmitted():
                attributes = {**attributes, **(fact.attributes or {})}
        if (name, attributes, friends) != before[:3] or fact.player not in known:  # type: ignore[attr-defined]
            known[fact.player] = (name, attributes, friends, position)  # type: ignore[attr-defined]
    return known


async def test_verify_takes_in_what_is_appended_meanwhile(tmp_path: Path) -> None:
    async with SQLiteLedger.open(tmp_path) as ledger:
        await ledger.append([PlayerProfiled("p", "Ada"), PlayerProfiled("q")], now=NOW)
        stages = []
        async for progress in ledger.verify():
            stages.append(progress.stage)
            number = len(stages)
            meanwhile: list[Fact] = [PlayerProfiled("p", f"{number}"), PlayerErased("q")]
            await ledger.append([*meanwhile, scored("r", str(number), level=number)], now=NOW)
        assert list(dict.fromkeys(stages)) == ["facts", "keys", "players"]


def test_what_tells_nothing_of_players_is_not_looked_at_twice() -> None:
    plain: list[Fact] = [scored("p"), scored("q", "k")]
    assert not changes(plain, first=Position(1))
    assert not changes([*plain, BoardRetired("b")], first=Position(1))
    assert not changes([ScoreSubmitted("b", "p", scores=(1,), attributes={})], first=Position(1))
    friends = FriendsSet("p", ())
    assert list(changes([*plain, friends], first=Position(5))) == [(7, friends.profile_change())]
