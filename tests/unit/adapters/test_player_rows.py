"""Rows of players are folded from changes of their profiles."""

from rankd.adapters.player_rows import StoredPlayer, fold
from rankd.model.facts import Position, Profile, ProfileChange


def folded(*changes: ProfileChange) -> dict[str, StoredPlayer]:
    players: dict[str, StoredPlayer] = {}
    fold(players, [(Position(place), change) for place, change in enumerate(changes, 1)])
    return players


def test_a_row_has_the_profile_and_the_position_of_its_last_change() -> None:
    changes = ProfileChange("p", True, "Ada", {"vip": True, "level": 3}, friends=("q", "r"))
    profile = Profile("Ada", {"level": 3, "vip": True}, ("q", "r"))
    row = StoredPlayer("p", "Ada", '{"level":3,"vip":true}', '["q","r"]', Position(7))
    assert folded(ProfileChange("p", erases=True), changes) == {
        "p": row._replace(position=Position(2))
    }
    assert row.profile() == profile


def test_changes_are_folded_in_order() -> None:
    named = ProfileChange("p", names=True, name="Ada")
    merged = ProfileChange("p", attributes={"level": 1}, merges=True)
    assert folded(named, merged, ProfileChange("q", friends=("p",))) == {
        "p": ("p", "Ada", '{"level":1}', "[]", 2),
        "q": ("q", None, "{}", '["p"]', 3),
    }
    assert folded(named, ProfileChange("p", erases=True)) == {}


def test_a_change_that_leaves_the_profile_as_it_is_leaves_the_row() -> None:
    one = ProfileChange("p", attributes={"level": 1}, merges=True)
    assert folded(one, one)["p"].position == 1
    true = ProfileChange("p", attributes={"level": True}, merges=True)
    assert folded(one, true)["p"].position == 2
