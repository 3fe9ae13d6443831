"""What is said of players is kept only if it can be shown to others without harm."""

import pytest

from rankd.errors import InvalidProfile
from rankd.model.profile import (
    FRIENDS_MAX,
    NAME_BYTES_MAX,
    NAME_GRAPHEMES_MAX,
    REASON_LENGTH_MAX,
    check_player,
    count_graphemes,
    read_friends,
    read_profile,
    read_reason,
)

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
WAVE = "\U0001f44b\U0001f3fd"
GERMANY, FRANCE = "\U0001f1e9\U0001f1ea", "\U0001f1eb\U0001f1f7"


def fields_of(refusal: pytest.ExceptionInfo[InvalidProfile]) -> list[str]:
    return [error.field for error in refusal.value.errors]


# ------------------------------------------------------------------------------ profiles


def test_a_profile_is_a_name_and_attributes_and_each_may_be_left_out() -> None:
    assert read_profile({}) == (None, {})
    assert read_profile({"name": None, "attributes": None}) == (None, {})
    said = {"name": "Ann", "attributes": {"region": "eu", "level": 3, "vip": True}}
    assert read_profile(said) == ("Ann", {"level": 3, "region": "eu", "vip": True})


def test_everything_that_is_wrong_is_named() -> None:
    with pytest.raises(InvalidProfile) as refusal:
        read_profile({"name": "", "colour": 1, "a b": 2, "attributes": {"x y": 1, "ok": 1.5}})
    assert fields_of(refusal) == ["colour", "?", "name", "attributes.?", "attributes.ok"]


@pytest.mark.parametrize("body", [None, [], "Ann", 5])
def test_a_profile_is_an_object(body: object) -> None:
    with pytest.raises(InvalidProfile, match="must be an object"):
        read_profile(body)


def test_a_name_is_composed_and_stripped() -> None:
    assert read_profile({"name": " E\u0301va "})[0] == "\u00c9va"
    assert read_profile({"name": "\u65e5\u672c \u8a9e"})[0] == "\u65e5\u672c \u8a9e"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "   ",
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
    assert len(str(refusal.value)) < 100


@pytest.mark.parametrize("letter", ["x", "\u00e9", "\u65e5", WAVE])
def test_a_name_may_be_as_long_as_people_count(letter: str) -> None:
    name = letter * NAME_GRAPHEMES_MAX
    assert read_profile({"name": name})[0] == name


@pytest.mark.parametrize(
    ("text", "letters"),
    [
        ("", 0),
        ("Ann", 3),
        ("e\u0301", 1),
        ("\u00e9", 1),
        (FAMILY, 1),
        (WAVE, 1),
        (WAVE * 2, 2),
        (GERMANY, 1),
        (GERMANY + FRANCE, 2),
        (GERMANY + "x" + FRANCE, 3),
        ("\U0001f1e9", 1),
        ("a" + FAMILY + "b", 3),
        ("\u2764\ufe0f", 1),
        ("\u0915\u093f", 1),
    ],
    ids=ascii,
)
def test_letters_are_counted_as_people_see_them(text: str, letters: int) -> None:
    assert count_graphemes(text) == letters


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


# ----------------------------------------------------------------------- ids and reasons


def test_a_player_is_printable_text() -> None:
    assert check_player("p42") == "p42"
    assert check_player("\u00c9va@example.org") == "\u00c9va@example.org"
    for wrong in ("", "x" * 257, "a\tb", None, 5, b"p"):
        with pytest.raises(InvalidProfile) as refusal:
            check_player(wrong)
        assert fields_of(refusal) == ["player"]


def test_a_reason_is_a_sentence_or_nothing() -> None:
    assert read_reason(None) is None
    assert read_reason("asked to") == "asked to"
    assert read_reason("x" * REASON_LENGTH_MAX) == "x" * REASON_LENGTH_MAX
    for wrong in ("", "x" * (REASON_LENGTH_MAX + 1), "a\x00b", "a\u202eb", 5):
        with pytest.raises(InvalidProfile) as refusal:
            read_reason(wrong)
        assert fields_of(refusal) == ["reason"]
