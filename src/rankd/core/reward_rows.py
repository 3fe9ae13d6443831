"""The rewards of settled windows in the state: which were claimed, and which are void.

For each fact that gave rewards there is a checksum of each player, of four bytes, by which one
player's rewards are found; and once some of its rewards were claimed, a time of eight bytes for
each. Everything else is read from the fact when it is asked for. So a hundred thousand rewards take
half a megabyte, and another one once all are claimed.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple
from zlib import crc32

from rankd.model.facts import (
    Position,
    Recorded,
    RewardClaimed,
    RewardsGiven,
    RewardsWithdrawn,
    WindowSettled,
)
from rankd.model.window import Instant

RewardState = Literal["given", "claimed", "withdrawn"]
REWARD_STATES: tuple[RewardState, ...] = ("given", "claimed", "withdrawn")

_CHECK_BYTES, _TIME_BYTES = 4, 8
_ID = re.compile(r"rwd_([1-9][0-9]{0,18})_(0|[1-9][0-9]{0,8})", re.ASCII)


def check_of(player: str) -> bytes:
    """Return the checksum by which a player's rewards are found."""
    return crc32(player.encode()).to_bytes(_CHECK_BYTES, "big")


class RewardId(NamedTuple):
    """The id of a reward: where it was given, and its row there."""

    given: Position
    row: int

    def __str__(self) -> str:
        return f"rwd_{self.given}_{self.row}"

    @classmethod
    def read(cls, text: str) -> "RewardId | None":
        """Return an id from its text; None if it is none."""
        found = _ID.fullmatch(text)
        return None if found is None else cls(Position(int(found[1])), int(found[2]))


class RewardRows(NamedTuple):
    """The rewards of one fact, by row."""

    given: Position
    checks: bytes
    """A checksum of each player."""
    claims: bytes = b""
    """When each was claimed, 0 for the others; empty while none was."""
    withdrawn: bytes = b""
    """1 for each that is void; empty while none is."""

    @property
    def size(self) -> int:
        """How many rewards there are."""
        return len(self.checks) // _CHECK_BYTES

    def claimed_at(self, row: int) -> Instant | None:
        """Return when a reward was claimed; None if it was not."""
        part = self.claims[row * _TIME_BYTES :][:_TIME_BYTES]
        return int.from_bytes(part, "big") or None

    def is_withdrawn(self, row: int) -> bool:
        """Whether a reward is void."""
        return bool(self.withdrawn) and self.withdrawn[row] == 1

    def state_of(self, row: int) -> RewardState:
        """Return the state of a reward. A void one is withdrawn, also if it was claimed before."""
        if self.is_withdrawn(row):
            return "withdrawn"
        return "given" if self.claimed_at(row) is None else "claimed"

    def rows_of(self, player: str) -> Iterator[int]:
        """Yield the rows that may be those of a player."""
        check = check_of(player)
        place = self.checks.find(check)
        while place >= 0:
            if place % _CHECK_BYTES == 0:
                yield place // _CHECK_BYTES
            place = self.checks.find(check, place + 1)

    def with_claim(self, row: int, at: Instant) -> "RewardRows":
        """Return them with one more claim."""
        before = self.claims or bytes(self.size * _TIME_BYTES)
        start = row * _TIME_BYTES
        after = before[:start] + at.to_bytes(_TIME_BYTES, "big") + before[start + _TIME_BYTES :]
        return self._replace(claims=after)

    def without(self, rows: Sequence[int]) -> "RewardRows":
        """Return them with some more that are void."""
        withdrawn = bytearray(self.withdrawn or bytes(self.size))
        for row in rows:
            withdrawn[row] = 1
        return self._replace(withdrawn=bytes(withdrawn))


def find_rows(every: Sequence[RewardRows], id: RewardId) -> int | None:
    """Return the place of the rows among which a reward is; None if there is no such reward."""
    place = bisect_left(every, id.given, key=lambda rows: rows.given)
    if place == len(every) or every[place].given != id.given or id.row >= every[place].size:
        return None
    return place


RewardFact = RewardsGiven | RewardsWithdrawn | RewardClaimed

REWARD_EVENTS: dict[type[RewardFact], str] = {
    RewardsGiven: "reward.given",
    RewardsWithdrawn: "reward.withdrawn",
}


def rows_after(
    every: tuple[RewardRows, ...], recorded: Recorded, settled: WindowSettled | None
) -> tuple[RewardRows, ...] | None:
    """Return the rewards of a window after a fact; None if it has no effect.

    ``settled`` is the settlement of the window that is in force.
    """
    fact, at = recorded.fact, recorded.at
    if isinstance(fact, RewardClaimed):
        place = find_rows(every, RewardId(fact.given, fact.row))
        if place is None or every[place].state_of(fact.row) != "given":
            return None
        return _replaced(every, place, every[place].with_claim(fact.row, at))
    assert isinstance(fact, RewardsGiven | RewardsWithdrawn)
    if settled is None or (settled.edition, settled.since) != (fact.edition, fact.since):
        return None
    if isinstance(fact, RewardsGiven):
        return (*every, RewardRows(recorded.position, b"".join(map(check_of, fact.players))))
    place = find_rows(every, RewardId(fact.given, max(fact.rows, default=0)))
    if place is None:
        return None
    return _replaced(every, place, every[place].without(fact.rows))


def _replaced(
    every: tuple[RewardRows, ...], place: int, rows: RewardRows
) -> tuple[RewardRows, ...]:
    return (*every[:place], rows, *every[place + 1 :])
