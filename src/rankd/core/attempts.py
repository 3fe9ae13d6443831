"""The attempts of players: how many submissions each open window took of them.

Only of boards with ``limits.attempts_max``; other boards cost nothing. An attempt is a submission
that is judged: neither a repetition of a key, nor refused by a rule or its player's state, nor an
adjustment. It stays an attempt if it is not better, held or retracted later. So the counts
follow from the facts and the state alone, and not from an index, and every node has the same.

They are kept in the state and not beside the entries, which not every node has: some 100 bytes a
player and window. They go when the window closes.
"""

from collections.abc import Hashable, Iterator, Mapping, Set
from itertools import islice
from typing import Any, Protocol

WindowIds = Mapping[str, tuple[str, ...]]
"""Under which ids the attempts in a board's open windows are counted, by the name of their
recurrence. Mostly one each; of a rolling window one for each of its days, the present one first."""


class ChangeLog(Protocol):
    """Remembers items before they change."""

    def keep(self, rows: dict[Any, Any], key: Hashable, /) -> None:
        """Remember an item, or its absence."""


def _made(counts: Mapping[str, Mapping[str, int]], ids: tuple[str, ...], player: str) -> int:
    return sum(counts[id].get(player, 0) for id in ids if id in counts)


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
        return max((_made(counts, ids, player) for ids in windows.values()), default=0)

    def take(
        self, board: str, windows: WindowIds, player: str, limit: int, journal: ChangeLog | None
    ) -> frozenset[str]:
        """Count an attempt; return the names of the windows that refuse it, which count none."""
        counts = self._counts.setdefault(board, {})
        refused = []
        for name, ids in windows.items():
            if _made(counts, ids, player) >= limit:
                refused.append(name)
                continue
            players = counts.setdefault(ids[0], {})
            if journal is not None:
                journal.keep(players, player)
            players[player] = players.get(player, 0) + 1
        return frozenset(refused)

    def keep_open(
        self,
        board: str,
        windows: Set[str],
        journal: ChangeLog | None,
        names: Set[str] = frozenset(),
    ) -> None:
        """Forget the windows of a board that are not among these, nor of recurrences so named."""
        counts = self._counts[board]
        gone = [id for id in counts if id not in windows and id.partition(":")[0] not in names]
        for id in gone:
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
