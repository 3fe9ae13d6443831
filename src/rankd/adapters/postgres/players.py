"""Changes of players as they are sent to the server, which merges them into its table.

No node knows the latest profile of a player while others append, so each sends changes, as JSON,
and the server applies them under the head's lock (``rankd.change_players``). It knows no kinds of
facts.
"""

from typing import Any

import msgspec

from rankd.model.facts import ProfileChange

_NUL, _SHOWN_NUL = b"\\u0000", b"\\ufffd"
_json = msgspec.json.Encoder(order="deterministic").encode
_change = msgspec.json.Decoder(ProfileChange).decode


def change_text(change: ProfileChange | None) -> str | None:
    """Return a change as JSON, without the fields that stay; None for no change."""
    if change is None:
        return None
    fields: dict[str, Any] = {}
    if change.erases:
        fields["erased"] = True
    if change.names:
        fields["name"] = change.name
    if change.attributes is not None:
        fields["merged" if change.merges else "attributes"] = change.attributes
    if change.friends is not None:
        fields["friends"] = change.friends
    return _json(fields).replace(_NUL, _SHOWN_NUL).decode()


def as_stored(change: ProfileChange) -> ProfileChange:
    """Return a change as the table shows it: PostgreSQL's text cannot hold U+0000."""
    text = _json(change)
    return _change(text.replace(_NUL, _SHOWN_NUL)) if _NUL in text else change
