"""The archived rankings of an index: reads and moves, with the results of those in memory."""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from rankd.adapters.memory.archived_ranking import ArchivedRanking
from rankd.errors import WindowArchiveDamaged
from rankd.model.facts import Position
from rankd.model.standing import Offset, Rank, TieRule
from rankd.ports import EntryColumns, Move, Moved, Places, Ranked, Ranking
from rankd.rank import PlayerTable, RankList

PLAYERS_LISTED_MAX = 1_000_000
"""Archived entries of one search for players: a second of work, with turns for others."""

LOADED_TOGETHER = 4096
"""Entries that are put into a rank list at once."""


class ArchivedRankings(dict[Ranking, ArchivedRanking]):
    """Archived rankings by name. To read one that is not there finds nothing."""

    # ------------------------------------------------------------------------ reading

    def ranked(self, ranking: Ranking, player: str, as_of: Position) -> Ranked | None:
        """Return a player's rank and entry."""
        archived = self.get(ranking)
        found = None if archived is None else _found(archived, player)
        if archived is None or found is None:
            return None
        before, order_key, metadata = found
        return Ranked(Rank(before + 1), order_key, metadata, len(archived), as_of)

    def places(self, ranking: Ranking, players: Sequence[str], as_of: Position) -> Places:
        """Return the ranks and entries of some players, as columns."""
        archived = self.get(ranking)
        if archived is None:
            return Places([0] * len(players), b"", None, 0, as_of)
        found = [_found(archived, player) for player in players]
        nowhere = bytes(archived.shape.key_bytes)
        shows = archived.has_metadata
        return Places(
            [0 if one is None else one[0] + 1 for one in found],
            b"".join([nowhere if one is None else one[1] for one in found]),
            [None if one is None else one[2] for one in found] if shows else None,
            len(archived),
            as_of,
        )

    def shown_ranks(self, ranking: Ranking, ties: TieRule, keys: bytes) -> list[int]:
        """Return the ranks of packed keys, counted by a rule for ties."""
        archived = self.get(ranking)
        if archived is None:
            return []
        width = archived.shape.key_bytes
        every = [keys[at : at + width] for at in range(0, len(keys), width)]
        return [archived.shown_rank(key, archived.count_before(key), ties) for key in every]

    def columns(self, ranking: Ranking, first: Rank, limit: int, as_of: Position) -> EntryColumns:
        """Return consecutive entries from a rank on."""
        archived = self.get(ranking)
        if archived is None:
            return EntryColumns([], b"", None, 0, as_of)
        rows = list(archived.rows(first - 1, first - 1 + limit))
        return EntryColumns(
            [id.decode() for _, id, _ in rows],
            b"".join([key for key, _, _ in rows]),
            [metadata for _, _, metadata in rows] if archived.has_metadata else None,
            len(archived),
            as_of,
        )

    def count(self, ranking: Ranking) -> int:
        """Return the number of entries."""
        return len(self.get(ranking, ()))

    def count_before(self, ranking: Ranking, order_key: bytes, player: str) -> Offset:
        """Count the entries before a place, which may be free."""
        archived = self.get(ranking)
        return Offset(0 if archived is None else archived.count_before(order_key, player))

    def scores_below(self, ranking: Ranking, order_key: bytes) -> Offset:
        """Count the distinct scores that are less than the key's."""
        archived = self.get(ranking)
        if archived is None:
            return Offset(0)
        assert archived.shape.dense, f"{ranking} does not count distinct scores"
        return Offset(archived.scores_below(order_key))

    def player_ids(self, count: int) -> Iterator[list[str]]:
        """Yield the ids of players of whole windows, those archived last first, up to a bound."""
        left = PLAYERS_LISTED_MAX
        for archived in [self[one] for one in reversed(list(self)) if one.of_all and one.readable]:
            for first in range(0, min(len(archived), left), count):
                with suppress(WindowArchiveDamaged):
                    yield [id.decode() for _, id, _ in archived.rows(first, first + count)]
            left -= min(len(archived), left)

    def any_of(self, rankings: Iterable[Ranking]) -> bool:
        """Whether any of the rankings is archived."""
        return bool(self) and any(ranking in self for ranking in rankings)

    # ------------------------------------------------------------------------ changing

    @contextmanager
    def moved(self, moves: Sequence[Move]) -> Iterator[dict[int, Moved]]:
        """Make the moves of archived rankings; return their results by place among the moves.

        An error, also one that is raised inside, takes all of them back.
        """
        before = {one: self[one].savepoint() for one in {m.ranking for m in moves} if one in self}
        try:
            yield {
                at: self[ranking].move(player, order_key, metadata, ties)
                for at, (ranking, player, order_key, metadata, ties) in enumerate(moves)
                if ranking in before
            }
        except BaseException:
            for ranking, changes in before.items():
                self[ranking].restore(changes)
            raise

    def of_windows(self, rankings: Iterable[Ranking]) -> list[Ranking]:
        """Return all archived rankings of the windows of those that are archived."""
        windows = {(one.board, one.window) for one in rankings if one in self}
        return [one for one in self if (one.board, one.window) in windows] if windows else []


def _found(archived: ArchivedRanking, player: str) -> tuple[int, bytes, bytes | None] | None:
    try:
        return archived.find(player)
    except UnicodeEncodeError:  # Nobody can have such an id.
        return None


def loaded(
    archived: ArchivedRanking, players: PlayerTable, make_list: Callable[..., RankList]
) -> tuple[RankList, dict[int, bytes], "array[int]"]:
    """Return the entries in memory, their metadata, and the numbers of their players. O(n).

    Raises WindowArchiveDamaged, having interned nothing.
    """
    width, dense = archived.shape
    ranks = make_list(width, players=players, dense=dense)
    every, metadata = array("I"), dict[int, bytes]()
    parts = list(archived.columns(LOADED_TOGETHER))

    def blocks() -> Iterator[tuple[bytes, "array[int]"]]:
        for keys, text, lengths, beside in parts:
            numbers = players.intern_packed(text, lengths)
            every.extend(numbers)
            metadata.update({numbers[at]: value for at, value in beside.items()})
            yield keys, numbers

    ranks.load(blocks(), expected=len(archived))
    return ranks, metadata, every
