"""What is said of players is kept only if it can be shown to others without harm."""

import pytest

from rankd.errors import InvalidProfile
from rankd.model.profile import (
    FRIENDS_MAX,
    NAME_BYTES_MAX,
    NAME_GRAPHEMES_MAX,
    REASON_LENGTH_MAX,
    ProfileUpdate,
    check_new_player,
    check_player,
    read_friends,
    read_merge,
    read_profile,
    read_reason,
)
from rankd.model.submission import ATTRIBUTES_MAX

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
WAVE = "\U0001f44b\U0001f3fd"
KISS = "\U0001f469\U0001f3fb\u200d\u2764\ufe0f\u200d\U0001f48b\u200d\U0001f468\U0001f3ff"


def fields_of(refusal: pytest.ExceptionInfo[InvalidProfile]) -> list[str]:
    return [error.field for error in refusal.value.errors]


# ------------------------------------------------------------------------------ profiles


def test_a_profile_is_a_name_and_attributes_and_each_may_be_left_out() -> None:
    assert read_profile({}) == ProfileUpdate(frozenset(), None, {})
    assert read_profile({"friends": 5}) == ProfileUpdate(frozenset(), None, {})
    both = frozenset({"name", "attributes"})
    assert read_profile({"name": None, "attributes": None}) == ProfileUpdate(both, None, {})
    assert read_profile({"name": "Ann"}) == ProfileUpdate(frozenset({"name"}), "Ann", {})
    said = {"name": "Ann", "attributes": {"region": "eu", "level": 3, "vip": True}}
    assert read_profile(said) == ProfileUpdate(
        both, "Ann", {"level": 3, "region": "eu", "vip": True}
    )


def test_everything_that_is_wrong_is_named() -> None:
    with pytest.raises(InvalidProfile) as refusal:
        read_profile({"name": "", "colour": 1, "a b": 2, "attributes": {"x y": 1, "ok": 1.5}})
    assert fields_of(refusal) == ["colour", "?", "name", "attributes.?", "attributes.ok"]


@pytest.mark.parametrize("body", [None, [], "Ann", 5])
def test_a_profile_is_an_object(body: object) -> None:
    with pytest.raises(InvalidProfile, match="must be an object"):
        read_profile(body)


def test_a_name_is_composed_and_stripped() -> None:
    assert read_profile({"name": " E\u0301va "}).name == "\u00c9va"
    assert read_profile({"name": "\u65e5\u672c \u8a9e"}).name == "\u65e5\u672c \u8a9e"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "   ",
        "\u200b",
        "\u00ad \ufeff",
        "\u3164",
        5,
        True,
        ["Ann"],
        "a\x00b",
        "a\nb",
        "a\u202eb",
        "a\u2067b",
        "\u200fb",
        "a\u2028b",
        "\ud800",
        "x" * (NAME_GRAPHEMES_MAX + 1),
        FAMILY * (NAME_GRAPHEMES_MAX + 1),
        "x" + "\u0301" * NAME_BYTES_MAX,
        "x" * 10_000_000,
    ],
    ids=lambda name: repr(name)[:12],
)
def test_a_name_that_would_harm_a_list_is_refused_in_few_words(name: object) -> None:
    with pytest.raises(InvalidProfile) as refusal:
        read_profile({"name": name})
    assert fields_of(refusal) == ["name"]
    assert len(str(refusal.value)) < 120


@pytest.mark.parametrize("letter", ["x", "\u00e9", "\u65e5", WAVE, FAMILY, KISS], ids=ascii)
def test_a_name_may_be_as_long_as_people_count(letter: str) -> None:
    name = letter * NAME_GRAPHEMES_MAX
    assert read_profile({"name": name}).name == name
    with pytest.raises(InvalidProfile):
        read_profile({"name": name + letter})


# ------------------------------------------------------------------------------- friends


def test_friends_are_kept_once_each_in_order_and_without_oneself() -> None:
    assert read_friends(["cyd", "ann", "bob", "cyd"], player="ann") == ("cyd", "bob")
    assert read_friends((), player="ann") == ()


def test_as_many_friends_as_a_look_up_holds() -> None:
    many = [f"p{n}" for n in range(FRIENDS_MAX)]
    assert read_friends(many, player="ann") == tuple(many)
    with pytest.raises(InvalidProfile, match=str(FRIENDS_MAX)):
        read_friends([*many, "one more"], player="ann")


@pytest.mark.parametrize("friends", ["bob", b"bob", None, {"bob"}, 5])
def test_friends_are_a_list(friends: object) -> None:
    with pytest.raises(InvalidProfile, match="list of players"):
        read_friends(friends, player="ann")


def test_every_friend_that_cannot_be_a_player_is_named() -> None:
    with pytest.raises(InvalidProfile) as refusal:
        read_friends(["bob", "", 5, "x" * 257, "a\x00"], player="ann")
    assert fields_of(refusal) == ["friends[1]", "friends[2]", "friends[3]", "friends[4]"]


def test_a_friend_is_told_of_in_the_words_that_a_player_is() -> None:
    with pytest.raises(InvalidProfile) as of_player:
        check_new_player("")
    for refused in (lambda: read_friends([""], player="ann"), lambda: check_player("")):
        with pytest.raises(InvalidProfile) as other:
            refused()
        assert other.value.errors[0].message == of_player.value.errors[0].message


# ----------------------------------------------------------------------- ids and reasons


def test_a_player_is_printable_text() -> None:
    assert check_player("p42") == "p42"
    assert check_player("\u00c9va@example.org") == "\u00c9va@example.org"
    for wrong in ("", "x" * 257, "a\tb", None, 5, b"p"):
        with pytest.raises(InvalidProfile) as refusal:
            check_player(wrong)
        assert fields_of(refusal) == ["player"]


def test_somebody_new_can_be_seen_and_turns_nothing_around() -> None:
    assert check_new_player("p 42\u200b") == "p 42\u200b"
    for wrong in ("\u200b", " ", "\u00ad\ufeff", "\u202eabc", "", "a\tb", None):
        with pytest.raises(InvalidProfile) as refusal:
            check_new_player(wrong)
        assert fields_of(refusal) == ["player"]
    assert check_player("\u200b") == "\u200b", "ledgers may hold it"


def test_a_reason_is_a_sentence_or_nothing() -> None:
    assert read_reason(None) is None
    assert read_reason("asked to") == "asked to"
    assert read_reason("x" * REASON_LENGTH_MAX) == "x" * REASON_LENGTH_MAX
    for wrong in ("", "x" * (REASON_LENGTH_MAX + 1), "a\x00b", "a\u202eb", 5):
        with pytest.raises(InvalidProfile) as refusal:
            read_reason(wrong)
        assert fields_of(refusal) == ["reason"]


# -------------------------------------------------------------------------------- merges


def test_a_merge_keeps_what_it_does_not_name_and_null_takes_away() -> None:
    said = read_merge({"attributes": {"region": "us", "guild": None}})
    assert said.merged({"guild": "x", "level": 3}) == {"level": 3, "region": "us"}
    assert said.merged({}) == {"region": "us"}
    assert read_merge({"attributes": None, "name": None}) == read_profile(
        {"attributes": None, "name": None}
    )


def test_a_merge_is_held_to_the_bound_of_attributes() -> None:
    known: dict[str, str | int | bool] = {f"a{n}": n for n in range(ATTRIBUTES_MAX)}
    assert len(read_merge({"attributes": {"a0": 5}}).merged(known)) == ATTRIBUTES_MAX
    with pytest.raises(InvalidProfile) as refused:
        read_merge({"attributes": {"more": 1}}).merged(known)
    assert fields_of(refused) == ["attributes"]
    assert "more" in read_merge({"attributes": {"more": 1, "a0": None}}).merged(known)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"attributes": {"level": 1.5, "x": None}}, "attributes.level"),
        ({"attributes": 5}, "attributes"),
        ({"nickname": "x", "attributes": {}}, "nickname"),
        ([], ""),
    ],
)
def test_a_merge_that_cannot_be_read_is_refused(body: object, field: str) -> None:
    with pytest.raises(InvalidProfile) as refused:
        read_merge(body)
    assert fields_of(refused) == [field]
