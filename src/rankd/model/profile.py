"""Profiles: a player's display name, attributes to rank by, friends and visibility."""

import unicodedata
from collections.abc import Mapping, Sequence
from typing import NamedTuple, get_args

from rankd.errors import FieldError, InvalidProfile
from rankd.model.board import TURNING, UNPRINTABLE, shown_name
from rankd.model.facts import Attributes, Visibility
from rankd.model.graphemes import count_letters, is_visible
from rankd.model.submission import (
    ATTRIBUTES_MAX,
    NEW_PLAYER,
    Errors,
    read_attributes,
    valid_new_player,
    valid_player,
)

NAME_GRAPHEMES_MAX = 32
"""The room in a row of a list, in graphemes."""

NAME_BYTES_MAX = 1_280
"""Forty for each: the longest emoji, a kiss of two people with skin tones, takes 35. Without a
bound a letter could carry any number of accents."""

FRIENDS_MAX = 999
"""With the player, as many as one look-up holds."""

REASON_LENGTH_MAX = 500
"""A sentence or two for readers of the audit trail."""

_FIELDS = ("name", "attributes", "friends", "visibility")
VISIBILITIES: tuple[Visibility, ...] = get_args(Visibility)
_UNKNOWN = f"is unknown; known are {', '.join(_FIELDS)}"


_PLAYER = f"must be {NEW_PLAYER}"
"""The message for every refused id. Some places also accept older ids that do not meet it."""


class ProfileUpdate(NamedTuple):
    """The profile fields of a request body."""

    fields: frozenset[str]
    """Those that it names: ``name``, ``attributes``. The others are to stay as they are."""
    name: str | None
    attributes: Attributes
    removed: frozenset[str] = frozenset()
    """Attributes that are to go where the others are merged."""

    def merged(self, known: Mapping[str, str | int | bool]) -> Attributes:
        """Return the attributes after a merge. Raises InvalidProfile if there are too many."""
        left = {name: value for name, value in known.items() if name not in self.removed}
        merged = dict(sorted({**left, **self.attributes}.items()))
        if len(merged) > max(ATTRIBUTES_MAX, len(known)):
            message = f"come to more than {ATTRIBUTES_MAX} with those that are known"
            raise InvalidProfile([FieldError("attributes", message)])
        return merged


def read_profile(body: object) -> ProfileUpdate:
    """Return the profile fields of a body; null removes a field.

    Raises InvalidProfile. Of friends and visibility only that they may be there.
    """
    errors: Errors = []
    if not isinstance(body, Mapping):
        raise InvalidProfile([FieldError("", "must be an object")])
    for field in body:
        if field not in _FIELDS:
            errors.append(FieldError(shown_name(field), _UNKNOWN))
    name = body.get("name")
    if name is not None:
        name = _read_name(name, errors)
    attributes: Attributes = {}
    if body.get("attributes") is not None:
        attributes = read_attributes(body["attributes"], "attributes", errors)
    if errors:
        raise InvalidProfile(errors)
    return ProfileUpdate(frozenset(body) & {"name", "attributes"}, name, attributes)


def read_merge(body: object) -> ProfileUpdate:
    """Return the profile fields of a body to be merged; null removes an attribute.

    Raises InvalidProfile.
    """
    given = body.get("attributes") if isinstance(body, Mapping) else None
    if not isinstance(body, Mapping) or not isinstance(given, Mapping):
        return read_profile(body)
    kept = {name: value for name, value in given.items() if value is not None}
    said = read_profile({**body, "attributes": kept})
    return said._replace(removed=frozenset(given) - frozenset(kept))


def read_visibility(visibility: object) -> Visibility:
    """Return a player's visibility; null is public. Raises InvalidProfile."""
    if visibility is None:
        return "public"
    for known in VISIBILITIES:
        if visibility == known:
            return known
    message = f"must be one of {', '.join(VISIBILITIES)}"
    raise InvalidProfile([FieldError("visibility", message)])


def read_friends(friends: object, *, player: str) -> tuple[str, ...]:
    """Return a player's friends, each once and not itself. Raises InvalidProfile."""
    if not isinstance(friends, Sequence) or isinstance(friends, str | bytes):
        raise InvalidProfile([FieldError("friends", "must be a list of players")])
    if len(friends) > FRIENDS_MAX:
        raise InvalidProfile([FieldError("friends", f"must be at most {FRIENDS_MAX} players")])
    errors = [
        FieldError(f"friends[{place}]", _PLAYER)
        for place, friend in enumerate(friends)
        if not valid_player(friend)
    ]
    if errors:
        raise InvalidProfile(errors)
    return tuple(friend for friend in dict.fromkeys(friends) if friend != player)


def check_player(player: object) -> str:
    """Return a player's id. Raises InvalidProfile where it cannot be one."""
    if not valid_player(player):
        raise InvalidProfile([FieldError("player", _PLAYER)])
    assert isinstance(player, str)
    return player


def check_new_player(player: object) -> str:
    """Return a player id, checked by the rules for new ids. Raises InvalidProfile.

    Ledgers hold ids from before more was asked of them: those stay, and no more are added.
    """
    if not valid_new_player(player):
        raise InvalidProfile([FieldError("player", _PLAYER)])
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
        if fits and is_visible(composed) and count_letters(composed) <= NAME_GRAPHEMES_MAX:
            return composed
    accepted = f"1 to {NAME_GRAPHEMES_MAX} letters that can be seen, {NAME_BYTES_MAX} bytes at most"
    message = f"must be {accepted}, without control or direction characters"
    errors.append(FieldError("name", message))
    return ""


def _is_plain(text: str) -> bool:
    return not UNPRINTABLE.search(text) and not TURNING.search(text)
