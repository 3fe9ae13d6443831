"""The ports of rank indexes, here or shared; rankings, and the moves of their entries."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

import msgspec

from rankd.model.board import Board
from rankd.model.facts import Position
from rankd.model.standing import Offset, Rank, TieRule
from rankd.ports.operations import Progress

if TYPE_CHECKING:
    from array import array


class Ranking(msgspec.Struct, frozen=True, gc=False):
    """The identity of one ranking: a board, one of its windows, and a segment or all players."""

    board: str
    window: str
    """The window's id, such as ``daily:2026-11-14``."""
    segment: str | None = None
    """An attribute and its value, ``region:eu``; None for all players."""

    @property
    def unseen(self) -> "Ranking":
        """The twin that holds the entries of players that are banned, hidden or shadowed."""
        return Ranking(self.board, self.window, f"{_UNSEEN}{self.segment or ''}")

    @property
    def seen(self) -> "Ranking | None":
        """The ranking that this is the unseen twin of; None for any other."""
        if self.segment is None or not self.segment.startswith(_UNSEEN):
            return None
        return Ranking(self.board, self.window, self.segment.removeprefix(_UNSEEN) or None)

    def replaced(self, edition: int) -> "Ranking":
        """Return the ranking of the entries that this one had in an edition and has no more."""
        return Ranking(self.board, self.window, f"{_EDITION}{edition}:{self.segment or ''}")

    def added(self, edition: int) -> "Ranking":
        """Return the ranking of the players that had no entry in an edition and have one now."""
        return Ranking(self.board, self.window, f"{_ADDED}{edition}:{self.segment or ''}")

    @property
    def closed_to_readers(self) -> "Ranking":
        """The ranking that readers get in place of this one while it is not open: it is empty."""
        return self.added(0)

    @property
    def shown_segment(self) -> str | None:
        """The segment that answers name."""
        if self.segment is None or self.readable:
            return self.segment
        return self.segment.partition(":")[2] or None

    @property
    def of_all(self) -> bool:
        """Whether it is of all players and no segment, also as a twin or a part of an edition."""
        kind, _, rest = (self.segment or "").partition(":")
        if f"{kind}:" in (_EDITION, _ADDED):
            rest = rest.partition(":")[2]
        return self.segment is None or (not self.readable and not rest)

    @property
    def readable(self) -> bool:
        """Whether readers can name it: neither unseen nor a part of an edition."""
        return self.segment is None or not self.segment.startswith(_INTERNAL)

    @property
    def identity(self) -> str:
        """The id in cursors and between nodes. Never change it: both outlive a version of rankd."""
        return f"{self.board}/{self.window}/{self.segment or ''}"

    def __str__(self) -> str:
        """Return the name shown to people, whose format may change."""
        everybody = f"{self.board}/{self.window}"
        return everybody if self.segment is None else f"{everybody}/{self.segment}"


class RankingShape(NamedTuple):
    """The parameters with which an index creates a ranking."""

    key_bytes: int
    dense: bool
    """Whether distinct scores are counted, for dense ranks."""


class Move(NamedTuple):
    """A player's new entry in one ranking, or its removal."""

    ranking: Ranking
    player: str
    order_key: bytes | None
    """None removes the player; STAY changes nothing and only returns its rank."""
    metadata: bytes | None = None
    """Shown beside the entry. It belongs to the submission that counts."""
    ties: TieRule = TieRule.ORDINAL
    """The tie rule for the ranks in ``Moved``. DENSE needs a dense ranking."""


STAY = b""
"""The player's present order key. No real order key is empty."""


_INTERNAL = "\x1f"  # No segment that readers can name begins with it.
_UNSEEN = f"{_INTERNAL}unseen:"
_EDITION = f"{_INTERNAL}edition:"
_ADDED = f"{_INTERNAL}added:"


DRAFT = "\x1f"
"""The prefix of the board's name in a draft ranking. No real board's name begins with it."""


class Moved(NamedTuple):
    """The result of a move. Ranks follow its tie rule; None where there is no entry."""

    previous_rank: Rank | None
    rank: Rank | None
    total: int


class Placed(NamedTuple):
    """An entry as an index stores it. Only the model interprets the order key."""

    player: str
    order_key: bytes
    metadata: bytes | None


class Ranked(NamedTuple):
    """One player's rank and entry in one ranking."""

    rank: Rank
    """Ordinal, counted from 1."""
    order_key: bytes
    metadata: bytes | None
    total: int
    as_of: Position


class Places(NamedTuple):
    """The ranks and entries of some players in one ranking, as columns."""

    ranks: Sequence[int]
    """As in ``Ranked``; 0 for a player without an entry."""
    order_keys: bytes
    """Concatenated; zeros for a player without an entry."""
    metadata: Sequence[bytes | None] | None
    """None if no entry has any."""
    total: int
    as_of: Position


class EntryRange(NamedTuple):
    """Consecutive entries of one ranking."""

    entries: Sequence[Placed]
    total: int
    """The size of the whole ranking."""
    as_of: Position


class EntryColumns(NamedTuple):
    """Consecutive entries as columns, to be rendered without an object for each."""

    players: Sequence[str]
    order_keys: bytes
    """Concatenated."""
    metadata: Sequence[bytes | None] | None
    """None if no entry has any."""
    total: int
    as_of: Position


class Run(NamedTuple):
    """Submissions to one board by position, for the index to judge in place."""

    board: Board
    rankings: Sequence[Ranking]
    """One for each open window; each is judged separately."""
    players: Sequence[str]
    scores: "array[int]"
    """Type ``q``: a value for each score column of each submission; a delta is padded with zeros.
    """
    deltas: bytes | None
    """For each submission 1 if it is a delta, else 0; None if none is."""
    positions: "array[int]"
    """Type ``Q``."""
    metadata: Sequence[bytes | None] | None
    """None if no submission has any."""
    segments: Sequence[Sequence[str]] | None = None
    """The segments of each submission's player, which its entries are in too; None if the board has
    none. Those that it is in after all runs."""
    barred: bytes | None = None
    """For each submission HELD or REFUSED if that is its verdict, so that it moves no entry, or 0.
    None if all are 0."""
    follows: Sequence[tuple[int, int]] = ()
    """Pairs of a ranking and an earlier one, by their numbers: a submission that the earlier one
    rejects does not count in the other."""


class SegmentChange(NamedTuple):
    """Segments of a window that a player leaves and enters, if it has an entry in the window."""

    ranking: Ranking
    """The window."""
    player: str
    left: Sequence[str]
    entered: Sequence[str]


COUNTED, NOT_BETTER, OUT_OF_BOUNDS, OVERFLOW, HELD, REFUSED = range(6)
"""The verdicts in ``Verdicts``: those of ``model.submission.judge``, and of barred submissions."""


class Verdicts(NamedTuple):
    """The results of a run in one ranking, as columns with a row for each submission."""

    verdicts: bytes
    scores: "array[int]"
    """The entry's scores afterwards, one for each score column; undefined where the rank is 0."""
    previous_scores: "array[int]"
    """The scores before; undefined where the previous rank is 0."""
    ranks: "array[int]"
    """By the board's tie rule; 0 without an entry."""
    previous_ranks: "array[int]"
    totals: "array[int]"


APPLIES_REMEMBERED = 64
"""The number of applies a shared index remembers; fewer if they reach its limit of bytes. At 300
applies a second it covers a node that paused for a fifth of a second."""


class RankIndex(Protocol):
    """A projection of the ledger that finds ranks by player and entries by rank. Disposable.

    1. An apply is atomic: its moves, its new and dropped rankings, and its checkpoint. If it
       raises, it has changed nothing, or the index refuses every later call.
    2. An apply whose ``after`` is not the checkpoint changes nothing and returns None. That is how
       a repeated apply or a lost race ends; the caller then reads on. See 11 for a shared index.
    3. Entries are ordered by order key, byte by byte, then by player id as UTF-8.
    4. Moves of one apply take effect one after another; each ``Moved`` has the ranks and the total
       of its own moment.
    5. Reading a ranking that does not exist finds nothing and does not fail.
    6. Metadata is that of the last move: a move without metadata clears it, a removal deletes it.
    7. Ranks in ``Moved`` are counted by the move's tie rule. Scores are equal if their keys differ
       only in the last eight bytes. A move with STAY changes nothing, metadata included.
    8. Opening an open ranking and dropping a missing one change nothing. Opening it in another
       shape, and moves in a ranking that was not opened, are bugs: AssertionError.
    9. A draft ranking belongs to a board rebuild and is invisible to readers: its board's name
       begins with DRAFT, only ``stage`` moves entries in it, and the checkpoint does not cover it.
       ``apply`` adopts it: it replaces the ranking of the final name, atomically with the rest of
       that apply.
    10. With ``judges``, ``judge`` is to submissions as ``apply`` is to moves. Its verdicts, scores
        and ranks equal those of folding them one by one with ``model.judge``.
    11. A shared index remembers its last APPLIES_REMEMBERED applies, fewer if they are large.
        Repeating a remembered apply, with the same ``after`` and ``through``, changes nothing and
        returns the first result. ``step_after`` returns its ``through``, and ``order_keys`` and
        ``metadata`` with ``at`` equal to its ``after`` return the entries before it. For older
        applies ``apply`` returns None and the reads raise IndexForgot. An apply that adopts draft
        rankings raises IndexForgot, too, if they were lost with an index that this one replaced.
    12. When the last player leaves the ranking of a segment, that apply or staging drops it and
        frees its memory. An index over several partitions may keep its name.

    Not promised: durability. The ledger has it.
    """

    immediate: ClassVar[bool]
    """Whether no call ever suspends."""
    judges: ClassVar[bool]
    """Whether ``judge`` is supported."""
    shared: ClassVar[bool]
    """Whether several nodes fold into it and read from it; then it is a SharedIndex."""

    async def checkpoint(self) -> Position:
        """Return the last position applied; 0 for an empty index."""

    async def apply(
        self,
        moves: Sequence[Move],
        *,
        after: Position,
        through: Position,
        opened: Mapping[Ranking, RankingShape] = ...,
        dropped: Sequence[Ranking] = ...,
        adopted: Mapping[Ranking, Ranking] = ...,
    ) -> Sequence[Moved] | None:
        """Open rankings, apply the moves in order, drop rankings, then adopt draft rankings.

        Return None if ``after`` is not the checkpoint. ``adopted`` maps a draft ranking to its
        final name. ``through`` must be greater than ``after``, or a repeat would look like the
        first call.
        """

    async def judge(
        self,
        runs: Sequence[Run],
        *,
        after: Position,
        through: Position,
        changes: Sequence[SegmentChange] = ...,
    ) -> Sequence[Sequence[Verdicts]] | None:
        """Judge submissions and move those that count; return results by run and ranking.

        An entry that counts is also put into the segments of its player, which are opened for it.
        After all runs players change segments, of any window; an emptied segment is dropped.
        Return None if ``after`` is not the checkpoint. No two runs may share a ranking.
        """

    async def stage(
        self,
        moves: Sequence[Move],
        *,
        opened: Mapping[Ranking, RankingShape] = ...,
        dropped: Sequence[Ranking] = ...,
    ) -> Sequence[Moved]:
        """Do to draft rankings as ``apply`` does to others, independent of the checkpoint."""

    def free_dropped(self) -> bool:
        """Free some memory of dropped rankings; return whether more is left. Not if shared."""

    async def order_keys(
        self, entries: Sequence[tuple[Ranking, str]], at: Position | None = None
    ) -> Sequence[bytes | None]:
        """Return the order key of each player in each ranking; None without an entry.

        ``at`` is the position to answer as of: the checkpoint or, in a shared index, the ``after``
        of a remembered apply. Raises IndexForgot for any other.
        """

    async def metadata(
        self, entries: Sequence[tuple[Ranking, str]], at: Position | None = None
    ) -> Sequence[bytes | None]:
        """Return each player's metadata in each ranking; ``at`` is as for ``order_keys``."""

    # With ``at`` these answer as of that position: the checkpoint, or another one that a shared
    # index remembers. They raise IndexForgot for any other.

    async def rank(
        self, ranking: Ranking, player: str, at: Position | None = None
    ) -> Ranked | None:
        """Return a player's rank and entry; None without an entry."""

    async def ranks(
        self, ranking: Ranking, players: Sequence[str], at: Position | None = None
    ) -> Sequence[Ranked | None]:
        """Return the ranks and entries of many players, all as of one position."""

    async def count(self, ranking: Ranking, at: Position | None = None) -> int:
        """Return the number of entries."""

    def player_ids(self, count: int) -> Iterator[Sequence[str]]:
        """Yield the ids of players with an entry, about ``count`` at a time, in no order.

        The index may change between two steps. An id may come twice. Of players that are only in
        archived rankings, those in the ones archived last come, up to a bound. Yields nothing if
        the index has no list of players.
        """

    async def count_below(
        self, ranking: Ranking, order_key: bytes, player: str = "", at: Position | None = None
    ) -> Offset:
        """Return the number of entries before (``order_key``, ``player``), which need not exist."""

    async def scores_below(
        self, ranking: Ranking, order_key: bytes, at: Position | None = None
    ) -> Offset:
        """Return the number of distinct scores better than the key's. Only in a dense ranking."""

    async def read(
        self, ranking: Ranking, *, first: Rank, limit: int, at: Position | None = None
    ) -> EntryRange:
        """Return up to ``limit`` entries from rank ``first`` on, best first."""

    async def rankings(self, board: str) -> Sequence[Ranking]:
        """Return the rankings of a board, in any order."""

    async def shapes(self) -> Mapping[Ranking, RankingShape]:
        """Return all rankings with their shapes, without draft rankings."""


class ImmediateIndex(RankIndex, Protocol):
    """An index with ``immediate`` set: the most frequent reads are plain functions."""

    def rank_now(self, ranking: Ranking, player: str) -> Ranked | None:
        """Return the same as ``rank``."""

    def finder(self, ranking: Ranking) -> Callable[[Sequence[str]], Places] | None:
        """Return a function that finds players in one ranking; None if it does not exist.

        For frequent reads. The function returns the same as ``rank_now`` for each player, and is
        valid until a ranking is dropped or adopted.
        """

    def ranker(self, ranking: Ranking, ties: TieRule) -> Callable[[bytes], Sequence[int]]:
        """Return a function from packed keys to ranks by a tie rule; valid as long as a finder."""

    def read_now(self, ranking: Ranking, *, first: Rank, limit: int) -> EntryColumns:
        """Return the same as ``read``, as columns."""


class SharedIndex(RankIndex, Protocol):
    """An index with ``shared`` set: several nodes fold into it, without a leader.

    Every call may raise IndexUnavailable. If ``apply`` does, its outcome is unknown; the same
    apply, repeated, completes it and returns its result.
    """

    @property
    def notes(self) -> Sequence[str]:
        """Warnings about the index's server, as sentences without names, safe to publish."""

    async def look_again(self) -> None:
        """Check the server again and update ``notes``: after a failover it may be another one.

        Called at intervals. It also switches to the index that has replaced this one, if any has.
        """

    async def belongs(self, ledger: str) -> bool:
        """Record the ledger that this index is made from; return False if it has another.

        An index without an owner gets this one, except for "", an empty ledger, which owns nothing.
        """

    @property
    def replicas(self) -> RankIndex | None:
        """The same index on its replicas, read-only and perhaps behind; None without replicas."""

    async def step_after(self, position: Position) -> Position | None:
        """Return the ``through`` of the apply that follows a position, be it done or only begun.

        None if none follows. Raises IndexForgot if the index has not reached the position, never
        stopped there between two applies, or no longer remembers it. A node that repeats that apply
        gets its result.
        """

    def ask_rank(
        self, ranking: Ranking, player: str, tell: Callable[[Ranked | None], None]
    ) -> bool:
        """Pass the result of ``rank`` to ``tell``, once, later, in this event loop.

        ``tell`` gets None for a player without an entry and after any error; call ``rank`` to learn
        which. Return False, and never call ``tell``, if too many calls wait already.
        """

    async def unfinished(self) -> tuple[Position, Position] | None:
        """Return the ``after`` and ``through`` of an apply that was begun and is not complete.

        Its node may have died or may still be at work. No other apply is accepted until a node
        repeats this one.
        """

    async def beside(self) -> "SharedIndex":
        """Return a new, empty index that no reader sees, to be filled or compared."""

    def fill(self, source: RankIndex) -> AsyncIterator[Progress]:
        """Copy all rankings and the checkpoint of an index that must not change meanwhile.

        Only into an empty index made by ``beside``. Folding a ledger in this process and copying
        the result takes a fraction of the time of folding into the shared index.
        """

    async def take_over(self) -> bool:
        """Put an index made by ``beside`` in place of the one it was made from, for all nodes.

        Return False if that one has been replaced already: of several indexes made from one, only
        the first succeeds. The index that is not live afterwards is dropped.
        """

    async def claim(self, *, seconds: float) -> bool:
        """Claim the rebuild of the index for this node, for ``seconds`` or until claimed again.

        Return False if another node holds the claim. It only avoids double work; correctness does
        not depend on it.
        """

    async def release(self) -> None:
        """Give up this node's claim."""

    async def drop(self) -> None:
        """Drop an index made by ``beside`` that is not to take over."""

    async def sweep(self, *, at_once: bool = False) -> int:
        """Drop the indexes that crashed rebuilds left behind; return how many there were.

        One that has changed since the last sweep may still be filled, and is left alone unless
        ``at_once`` is set.
        """
