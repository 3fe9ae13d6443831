"""What people say of a player: a name to show, attributes to rank by, friends to compare with."""

import re
import unicodedata
from collections.abc import Mapping, Sequence

from rankd.errors import FieldError, InvalidProfile
from rankd.model.board import UNPRINTABLE, shown_name
from rankd.model.facts import Attributes
from rankd.model.submission import (
    PLAYER_ID_BYTES_MAX,
    Errors,
    read_attributes,
    valid_player,
)

NAME_GRAPHEMES_MAX = 32
"""What a row of a list has room for, counted as people count letters."""

NAME_BYTES_MAX = 512
"""A letter can carry any number of accents; a row cannot."""

FRIENDS_MAX = 999
"""With the player, as many as one look-up holds."""

REASON_LENGTH_MAX = 500
"""A sentence or two for whoever reads the audit trail."""

_DIRECTION = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Characters that turn the text after them around, that of other rows included."""

_ZERO_WIDTH_JOINER = "\u200d"
_REGIONAL = range(0x1F1E6, 0x1F200)
_SKIN_TONES = range(0x1F3FB, 0x1F400)


def read_profile(body: object) -> tuple[str | None, Attributes]:
    """Return the name and the attributes of a profile. Raises InvalidProfile."""
    errors: Errors = []
    if not isinstance(body, Mapping):
        raise InvalidProfile([FieldError("", "must be an object")])
    for field in body:
        if field not in ("name", "attributes", "friends"):
            errors.append(FieldError(shown_name(field), "is unknown"))
    name = body.get("name")
    if name is not None:
        name = _read_name(name, errors)
    attributes: Attributes = {}
    if body.get("attributes") is not None:
        attributes = read_attributes(body["attributes"], "attributes", errors)
    if errors:
        raise InvalidProfile(errors)
    return name, attributes


def read_friends(friends: object, *, player: str) -> tuple[str, ...]:
    """Return a player's friends, each once and not itself. Raises InvalidProfile."""
    if not isinstance(friends, Sequence) or isinstance(friends, str | bytes):
        raise InvalidProfile([FieldError("friends", "must be a list of players")])
    if len(friends) > FRIENDS_MAX:
        raise InvalidProfile([FieldError("friends", f"must be at most {FRIENDS_MAX} players")])
    accepted = f"must be text of 1 to {PLAYER_ID_BYTES_MAX} bytes, all printable"
    errors = [
        FieldError(f"friends[{place}]", accepted)
        for place, friend in enumerate(friends)
        if not valid_player(friend)
    ]
    if errors:
        raise InvalidProfile(errors)
    return tuple(friend for friend in dict.fromkeys(friends) if friend != player)


def check_player(player: object) -> str:
    """Return a player's id. Raises InvalidProfile where it cannot be one."""
    if not valid_player(player):
        message = f"must be text of 1 to {PLAYER_ID_BYTES_MAX} bytes, all printable"
        raise InvalidProfile([FieldError("player", message)])
    assert isinstance(player, str)
    return player


def read_reason(reason: object) -> str | None:
    """Return why something is done, as its author says. Raises InvalidProfile."""
    if reason is None:
        return None
    if isinstance(reason, str) and 0 < len(reason) <= REASON_LENGTH_MAX and _is_plain(reason):
        return reason
    message = f"must be printable text of 1 to {REASON_LENGTH_MAX} characters"
    raise InvalidProfile([FieldError("reason", message)])


def _read_name(name: object, errors: Errors) -> str:
    if isinstance(name, str) and 0 < len(name) <= NAME_BYTES_MAX and _is_plain(name):
        composed = unicodedata.normalize("NFC", name).strip()
        fits = len(composed.encode()) <= NAME_BYTES_MAX
        if composed and fits and count_graphemes(composed) <= NAME_GRAPHEMES_MAX:
            return composed
    accepted = f"must be 1 to {NAME_GRAPHEMES_MAX} letters without control or direction characters"
    errors.append(FieldError("name", accepted))
    return ""


def _is_plain(text: str) -> bool:
    return not UNPRINTABLE.search(text) and not _DIRECTION.search(text)


def count_graphemes(text: str) -> int:
    """Count what people see as letters: marks, joined emoji and halves of flags count for none.

    A few scripts join more than this knows of, and are counted with a letter too many.
    """
    count, joined, flag = 0, False, False
    for letter in text:
        point = ord(letter)
        if letter == _ZERO_WIDTH_JOINER:
            joined = True
            continue
        extends = unicodedata.category(letter) in ("Mn", "Me", "Mc") or point in _SKIN_TONES
        second_half = point in _REGIONAL and flag
        if not (extends or joined or second_half):
            count += 1
        if not extends:
            joined = False
            flag = point in _REGIONAL and not second_half
    return count
