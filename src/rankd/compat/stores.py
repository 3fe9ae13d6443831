"""Boards of an engine in this process, or of a service: the calls that the interfaces need."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from rankd.client import Client
from rankd.client.calls import Item
from rankd.embedded import Ranks
from rankd.errors import UnknownBoard

TOGETHER_MAX = 1_000
"""Entries read, players looked up, and submissions sent in one call."""

Number = Any
"""A score as an answer has it: an integer, or a Decimal on boards with decimals."""


class Member(NamedTuple):
    """A member of a leaderboard: a player with its standing."""

    player: str
    score: Number
    rank: int
    place: int
    """Its unique rank."""
    data: Any
    """Its metadata."""


class BoardStore(Protocol):
    """The boards of an engine or a service. Reads of a missing board raise UnknownBoard."""

    def definition(self, board: str) -> Mapping[str, Any]:
        """Return the definition of a board."""

    def define(self, board: str, definition: Mapping[str, object]) -> None:
        """Define a board that is not there."""

    def change(self, board: str, **fields: Any) -> None:
        """Change fields of a board's definition."""

    def retire(self, board: str) -> None:
        """Take a board out of use."""

    def page(self, board: str, offset: int, limit: int) -> tuple[Sequence[Member], int]:
        """Return at most TOGETHER_MAX entries from an offset on, and how many there are."""

    def between(
        self, board: str, low: Number, high: Number, offset: int, limit: int
    ) -> tuple[Sequence[Member], int]:
        """Do the same with the entries of a range of scores; None is no bound."""

    def find(self, board: str, players: Sequence[str]) -> Iterable[Member]:
        """Return the entries of some players, at most TOGETHER_MAX."""

    def submit(self, board: str, items: Sequence[Item]) -> None:
        """Submit at most TOGETHER_MAX scores in one commit."""

    def remove(self, board: str, players: Sequence[str], reason: str) -> None:
        """Retract all submissions of some players to a board."""

    def set_data(self, board: str, player: str, data: object) -> None:
        """Put other metadata beside a player's entry; None removes it."""


class EngineStore:
    """The boards of an engine in this process."""

    def __init__(self, ranks: Ranks) -> None:
        self._ranks = ranks

    def definition(self, board: str) -> Mapping[str, Any]:
        """Return the definition of a board."""
        if board not in self._ranks.boards():
            raise UnknownBoard(board)
        return self._ranks.board(board).definition

    def define(self, board: str, definition: Mapping[str, object]) -> None:
        """Define a board that is not there."""
        self._ranks.board(board, **definition)

    def change(self, board: str, **fields: Any) -> None:
        """Change fields of a board's definition."""
        self._ranks.board(board).redefine(**fields)

    def retire(self, board: str) -> None:
        """Take a board out of use."""
        self._ranks.board(board).retire()

    def page(self, board: str, offset: int, limit: int) -> tuple[Sequence[Member], int]:
        """Return at most TOGETHER_MAX entries from an offset on, and how many there are."""
        found = self._ranks.board(board).page(offset=offset, limit=limit)
        return [_of_standing(one) for one in found], found.total

    def between(
        self, board: str, low: Number, high: Number, offset: int, limit: int
    ) -> tuple[Sequence[Member], int]:
        """Do the same with the entries of a range of scores; None is no bound."""
        found = self._ranks.board(board).page(
            offset=offset, limit=limit, score_min=low, score_max=high
        )
        return [_of_standing(one) for one in found], found.in_range or 0

    def find(self, board: str, players: Sequence[str]) -> Iterable[Member]:
        """Return the entries of some players, at most TOGETHER_MAX."""
        return [_of_standing(one) for one in self._ranks.board(board).lookup(players)]

    def submit(self, board: str, items: Sequence[Item]) -> None:
        """Submit at most TOGETHER_MAX scores in one commit."""
        self._ranks.board(board).submit_many(list(items))

    def remove(self, board: str, players: Sequence[str], reason: str) -> None:
        """Retract all submissions of some players to a board."""
        for start in range(0, len(players), TOGETHER_MAX):
            some = players[start : start + TOGETHER_MAX]
            self._ranks.board(board).retract(players=some, reason=reason)

    def set_data(self, board: str, player: str, data: object) -> None:
        """Put other metadata beside a player's entry; None removes it."""
        self._ranks.board(board).set_metadata(player, data)


class ServiceStore:
    """The boards of a service."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._position = 0
        """Of the last write, which later reads wait for."""

    def definition(self, board: str) -> Mapping[str, Any]:
        """Return the definition of a board."""
        return self._client.board(board).definition

    def define(self, board: str, definition: Mapping[str, object]) -> None:
        """Define a board that is not there."""
        self._client.define(board, definition, apply=True)

    def change(self, board: str, **fields: Any) -> None:
        """Change fields of a board's definition."""
        known = dict(self.definition(board))
        if "direction" in fields:
            del known["columns"]  # The one column takes the board's.
        self.define(board, {**known, **fields})

    def retire(self, board: str) -> None:
        """Take a board out of use."""
        self._client.retire(board)

    def page(self, board: str, offset: int, limit: int) -> tuple[Sequence[Member], int]:
        """Return at most TOGETHER_MAX entries from an offset on, and how many there are."""
        found = self._client.page(
            board, offset=offset, limit=limit, min_position=self._position or None
        )
        return [_of_row(row) for row in found.standings], found.total

    def between(
        self, board: str, low: Number, high: Number, offset: int, limit: int
    ) -> tuple[Sequence[Member], int]:
        """Do the same with the entries of a range of scores; None is no bound."""
        if low is None and high is None:
            return self.page(board, offset, limit)
        found = self._client.page(
            board,
            offset=offset,
            limit=limit,
            score_min=low,
            score_max=high,
            min_position=self._position or None,
        )
        return [_of_row(row) for row in found.standings], found.count or 0

    def find(self, board: str, players: Sequence[str]) -> Iterable[Member]:
        """Return the entries of some players, at most TOGETHER_MAX."""
        found = self._client.lookup(board, players, min_position=self._position or None)
        return [_of_row(row) for row in found.standings]

    def submit(self, board: str, items: Sequence[Item]) -> None:
        """Submit at most TOGETHER_MAX scores in one commit."""
        for result in self._client.submit_batch(items, board=board):
            self._note(result)

    def remove(self, board: str, players: Sequence[str], reason: str) -> None:
        """Retract all submissions of some players to a board."""
        for start in range(0, len(players), TOGETHER_MAX):
            some = players[start : start + TOGETHER_MAX]
            self._note(self._client.retract(board, players=some, reason=reason))

    def set_data(self, board: str, player: str, data: object) -> None:
        """Put other metadata beside a player's entry; None removes it."""
        self._note(self._client.set_metadata(board, player, data))

    def _note(self, answer: Any) -> None:
        """Have later reads wait for a write."""
        self._position = max(self._position, getattr(answer, "position", None) or 0)


def _of_standing(standing: Any) -> Member:
    place = standing.ordinal or standing.rank
    return Member(standing.player, standing.score, standing.rank, place, standing.metadata)


def _of_row(row: Any) -> Member:
    return Member(row.player, row.score, row.rank, row.ordinal or row.rank, row.metadata)
