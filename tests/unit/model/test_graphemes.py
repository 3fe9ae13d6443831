"""Letters are counted as people see them, and what shows nothing is nobody's name."""

import pytest

from rankd.model.graphemes import count_letters, is_visible

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
WAVE = "\U0001f44b\U0001f3fd"
GERMANY, FRANCE = "\U0001f1e9\U0001f1ea", "\U0001f1eb\U0001f1f7"
ENGLAND = "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"


@pytest.mark.parametrize(
    ("text", "letters"),
    [
        ("", 0),
        ("Ann", 3),
        ("e\u0301", 1),
        ("\u00e9", 1),
        (FAMILY, 1),
        (FAMILY * 2, 2),
        (WAVE, 1),
        (WAVE * 2, 2),
        (GERMANY, 1),
        (GERMANY + FRANCE, 2),
        (GERMANY + "x" + FRANCE, 3),
        ("\U0001f1e9", 1),
        ("\U0001f1e9" * 3, 2),
        (ENGLAND, 1),
        (ENGLAND + GERMANY, 2),
        ("a" + FAMILY + "b", 3),
        ("\u2764\ufe0f", 1),
        ("\u2764\ufe0f\u200d\U0001f525", 1),
        ("\U0001f469\U0001f3fb\u200d\U0001f680", 1),
        ("1\ufe0f\u20e3", 1),
        ("\u0915\u093f", 1),
        ("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", 7),
        ("\u30ab\uff9e", 1),
        ("a\u200da\u200da", 3),  # A joiner joins pictures, and letters only to the eye of a font.
        ("\U0001f680\u200da", 2),
        ("a\u200d\U0001f680", 2),
        ("a\u200bb", 3),
    ],
    ids=ascii,
)
def test_letters_are_counted_as_people_see_them(text: str, letters: int) -> None:
    assert count_letters(text) == letters


@pytest.mark.parametrize(
    "text", ["a", "\u00a0a", "\u200bx", "\u65e5", "\U0001f680", "-", "\u0915\u093f", "\u200d\u263a"]
)
def test_one_letter_is_enough_to_be_seen(text: str) -> None:
    assert is_visible(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "\u00a0", "\u2003\u3000", "\u200b", "\u00ad", "\ufeff", "\u2060\u200d\u200c"),
        *("\u3164", "\u115f\u1160", "\uffa0", "\u2800", "\ufe0f", "\U000e0067", "\u0301", "\u034f"),
    ],
    ids=ascii,
)
def test_what_shows_nothing_is_not_seen(text: str) -> None:
    assert not is_visible(text)
