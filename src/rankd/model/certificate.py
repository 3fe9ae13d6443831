"""The digests in the certificate of a settled window, computable by any reader of its standings.

``standings_digest`` is the SHA-256 of one line for each standing, best first: a JSON array of the
rank, the player's id and the scores as whole numbers (of a board with decimals, in its smallest
unit), without spaces, and a line feed. ``definition_digest`` is the SHA-256 of the board's
definition as JSON with sorted keys, without spaces, and without ``rewards`` if there are none.
``rewards_digest`` is the SHA-256 of one line for each reward in force, band by band, best first: a
JSON array of the band's place in the definition counted from 0, the player's id, and its amount in
the smallest unit or null.
"""

from collections.abc import Iterable, Sequence
from hashlib import sha256

import msgspec

from rankd.model.board import Board
from rankd.model.rewards import Allotted

_encode = msgspec.json.Encoder(order="deterministic").encode


class StandingsDigest:
    """The digest of standings, taken in parts."""

    def __init__(self) -> None:
        self.players = 0
        self._hash = sha256()

    def add(self, rows: Iterable[tuple[int, str, Sequence[int]]]) -> None:
        """Take more standings: rank, player and scores of each."""
        for rank, player, scores in rows:
            self._hash.update(_encode([rank, player, list(scores)]) + b"\n")
            self.players += 1

    def digest(self) -> bytes:
        """Return the digest of all standings taken."""
        return self._hash.digest()


def definition_digest(board: Board) -> bytes:
    """Return the digest of a board's definition."""
    definition = board.definition()
    if not board.rewards:  # Boards had none when the first certificates were made.
        del definition["rewards"]
    return sha256(_encode(definition)).digest()


class RewardsDigest:
    """The digest of the rewards in force, taken in parts."""

    def __init__(self) -> None:
        self.rewards = 0
        self._hash = sha256()

    def add(self, rewards: Iterable[Allotted]) -> None:
        """Take more rewards."""
        for band, player, _, amount in rewards:
            self._hash.update(_encode([band, player, amount]) + b"\n")
            self.rewards += 1

    def digest(self) -> bytes:
        """Return the digest of all rewards taken; nothing if there were none."""
        return self._hash.digest() if self.rewards else b""
