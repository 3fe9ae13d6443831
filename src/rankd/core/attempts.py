"""The attempts of players: how many submissions each open window took of them.

Only of boards with ``limits.attempts_max``; other boards cost nothing. An attempt is a submission
that is judged: neither a repetition of a key, nor refused by a rule or its player's state, nor an
adjustment. It stays an attempt if it is not better, held or retracted later. So the counts
follow from the facts and the state alone, and not from an index, and every node has the same.

They are kept in the state and not beside the entries, which not every node has: some 100 bytes a
player and window. They go when the window closes.
"""

from collections.abc import Hashable, Iterator, Mapping
from itertools import islice
from typing import Any, Protocol

WindowIds = Mapping[str, str]
"""The ids of a board's open windows, by the name of their recurrence."""


class ChangeLog(Protocol):
    """Remembers items before they change."""

    def keep(self, rows: dict[Any, Any], key: Hashable, /) -> None:
        """Remember an item, or its absence."""


class AttemptCounts:
    """The attempts in all open windows of boards that bound them."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[str, dict[str, int]]] = {}
        """By board, window and player."""

    def has(self, board: str) -> bool:
        """Whether attempts are counted on a board."""
        return board in self._counts

    def most(self, board: str, windows: WindowIds, player: str) -> int:
        """Return how many attempts a player has made in the window where these are most."""
        counts = self._counts.get(board)
        if counts is None:
            return 0
        return max((counts.get(id, {}).get(player, 0) for id in windows.values()), default=0)

    def take(
        self, board: str, windows: WindowIds, player: str, limit: int, journal: ChangeLog | None
    ) -> frozenset[str]:
        """Count an attempt; return the names of the windows that refuse it, which count none."""
        counts = self._counts.setdefault(board, {})
        refused = []
        for name, id in windows.items():
            players = counts.setdefault(id, {})
            made = players.get(player, 0)
            if made >= limit:
                refused.append(name)
                continue
            if journal is not None:
                journal.keep(players, player)
            players[player] = made + 1
        return frozenset(refused)

    def keep_open(self, board: str, windows: WindowIds, journal: ChangeLog | None) -> None:
        """Forget the windows of a board that are not among these."""
        counts, open_now = self._counts[board], set(windows.values())
        for id in [id for id in counts if id not in open_now]:
            if journal is not None:
                journal.keep(counts, id)
            del counts[id]

    def copy(self) -> "AttemptCounts":
        """Return the same counts, to be changed on their own."""
        twin = AttemptCounts()
        twin._counts = {
            board: {id: dict(players) for id, players in counts.items()}
            for board, counts in self._counts.items()
        }
        return twin

    def parts(self, players_each: int) -> Iterator[tuple[str, str, dict[str, int]]]:
        """Yield boards, windows and some players' counts."""
        for board, counts in self._counts.items():
            for id, players in counts.items():
                rest = iter(players.items())
                while some := dict(islice(rest, players_each)):
                    yield board, id, some

    def extend(self, board: str, window: str, players: Mapping[str, int]) -> None:
        """Add some players' counts."""
        self._counts.setdefault(board, {}).setdefault(window, {}).update(players)
