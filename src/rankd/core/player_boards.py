"""Entrants: the boards with segments that each player has submitted to.

A change of attributes moves a player between segments on the boards where it has an entry. An entry
needs a submission, so these are among the boards that the player has submitted to, and no other
board is looked at. Submissions to boards without segments are not noted.

A board is known by the position of its first definition: a retired board and a later one of the
same name differ.

Memory: about 100 bytes for each player of a board with segments.
"""

from collections.abc import Container, Iterable, Iterator

from rankd.model.facts import Position

Boards = tuple[Position, ...] | frozenset[Position]

SEARCHED_MAX = 16
"""Up to so many boards a tuple is searched as fast as a set, and takes a fifth of its memory."""

SWEPT_TOGETHER = 256
"""How many players are looked at, each time, for boards that are retired: some 50 microseconds."""


class PlayerBoards:
    """By player the boards it has submitted to, which include all on which it has an entry."""

    __slots__ = ("_again", "_boards", "_single", "unswept")

    def __init__(self, known: Iterable[tuple[str, Boards]] = ()) -> None:
        self._boards: dict[str, Boards] = dict(known)
        self._single: dict[Position, Boards] = {}
        """One tuple for all players of one board alone."""
        self.unswept: list[str] = []
        """Players that may still have a board that is retired."""
        self._again = False
        """Whether another board was retired while players were looked at."""

    def __len__(self) -> int:
        return len(self._boards)

    def __iter__(self) -> Iterator[tuple[str, tuple[Position, ...]]]:
        return ((player, tuple(boards)) for player, boards in self._boards.items())

    def copy(self) -> "PlayerBoards":
        """Return another that later additions to this one do not change."""
        return PlayerBoards(self._boards)  # type: ignore[arg-type]  # A dict of the same.

    def boards_of(self, player: str) -> Boards:
        """Return the boards of a player; retired ones may be among them."""
        return self._boards.get(player, ())

    def add(self, player: str, board: Position) -> None:
        """Note that a player submits to a board."""
        known = self._boards.get(player, ())
        if board not in known:
            self._boards[player] = self._packed((*known, board))

    def update(
        self, known: Iterable[tuple[str, tuple[Position, ...]]], living: Container[Position]
    ) -> None:
        """Take over the players of boards that are not retired."""
        for player, boards in known:
            if kept := tuple(board for board in boards if board in living):
                self._boards[player] = self._packed(kept)

    def _packed(self, boards: tuple[Position, ...]) -> Boards:
        if len(boards) == 1:
            return self._single.setdefault(boards[0], boards)
        return frozenset(boards) if len(boards) > SEARCHED_MAX else boards

    # ------------------------------------------------------------------- retired boards

    def retire(self, board: Position) -> None:
        """Have a retired board forgotten, some players at a time: see ``sweep``."""
        self._single.pop(board, None)
        if self.unswept:
            self._again = True
        else:
            self.unswept = list(self._boards)

    def sweep(self, living: Container[Position]) -> None:
        """Forget retired boards, and players that are on no other, among the next players."""
        for _ in range(min(SWEPT_TOGETHER, len(self.unswept))):
            player = self.unswept.pop()
            boards = self._boards[player]
            kept = tuple(board for board in boards if board in living)
            if not kept:
                del self._boards[player]
            elif len(kept) < len(boards):
                self._boards[player] = self._packed(kept)
        if not self.unswept and self._again:
            self.unswept, self._again = list(self._boards), False
