"""Visible text: whether a string shows anything, and how many graphemes it has.

Unicode has tables for this (its Annex 29) that Python does not carry. This module uses the
categories of characters, which Python has, and a few ranges that have not changed in years. The
count is right for most writing: accents, flags, and emoji put together of others count once. A few
scripts join more than this knows of, and are counted with a letter too many.
"""

import re
from unicodedata import category

_UNSEEN = frozenset(("Cc", "Cf", "Cs", "Me", "Mn", "Zl", "Zp", "Zs"))
"""Categories of characters that show nothing by themselves: a mark needs a letter to stand on."""

_BLANK = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters and symbols by category that are drawn as nothing."""

_MARKS = frozenset(("Mc", "Me", "Mn"))
_EXTENDING = re.compile(
    "[\u200c\uff9e\uff9f"  # A joiner that joins nothing; voiced sounds of narrow katakana.
    "\U0001f3fb-\U0001f3ff"  # Skin tones.
    "\U000e0020-\U000e007f]"  # What flags of regions are spelt with.
)
"""Characters other than marks that belong to the letter before them."""

_JOINER = "\u200d"
_PICTURE = re.compile(
    "[\u00a9\u00ae\u203c\u2049\u2122\u2139\u2194-\u21aa\u231a-\u23ff\u24c2\u25aa-\u27bf"
    "\u2934\u2935\u2b05-\u2b55\u3030\u303d\u3297\u3299\U0001f000-\U0001f1e5\U0001f200-\U0001faff]"
)
"""Characters that a joiner joins. Elsewhere it joins nothing, or a name could grow without end."""

_HALF_FLAG = re.compile("[\U0001f1e6-\U0001f1ff]")


def is_visible(text: str) -> bool:
    """Whether anything of a text can be seen."""
    first = text[:1]
    if first.isalnum() and first not in _BLANK:
        return True  # As nearly always, and in a fraction of the time.
    return any(category(letter) not in _UNSEEN and letter not in _BLANK for letter in text)


def count_letters(text: str) -> int:
    """Return how many letters people see. O(n)."""
    count = 0
    picture = joined = half = False
    for letter in text:
        if letter == _JOINER:
            joined = picture
            continue
        if category(letter) in _MARKS or _EXTENDING.match(letter):
            joined = False
            continue
        pictured = _PICTURE.match(letter) is not None
        flagged = _HALF_FLAG.match(letter) is not None
        if not ((joined and pictured) or (half and flagged)):
            count += 1
        half = flagged and not half
        picture, joined = pictured, False
    return count
