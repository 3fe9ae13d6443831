"""The ports: the protocols between the core and its adapters, with their numbered contracts.

    writer ──append──▶ Ledger ──read──▶ projector ──apply──▶ RankIndex ◀──read── reader
                                                    Clock

Each numbered rule has a test in ``rankd.testing.contracts``. An adapter is a class that passes them
and raises only errors of ``rankd.errors``, never those of its driver.

Calls are asynchronous because a ledger waits for a disk and an index may be across a network. They
take batches because a round trip costs the same for one item as for a thousand. An adapter with
``immediate`` set never suspends, and callers rely on that.
"""

from asyncio import Task
from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, overload, runtime_checkable

import msgspec

from rankd.errors import LedgerUnavailable, RankdError
from rankd.model.board import Board
from rankd.model.facts import Fact, Position, Recorded
from rankd.model.standing import Offset, Rank, TieRule
from rankd.model.window import Instant

if TYPE_CHECKING:
    from array import array

# ------------------------------------------------------------------------------ ledger


class FirstUse(NamedTuple):
    """The first fact of a board that used a submission key."""

    position: Position
    fingerprint: bytes
    receipt: bytes | None
    """The stored receipt; None until the projector has passed it to the ledger."""


class Appended(NamedTuple):
    """The result of one append, in the order of its facts."""

    positions: Sequence[Position]
    """Each fact's position: a new one or, if its key was used already, that of the first use."""
    first_uses: Mapping[int, FirstUse]
    """By index into the call's facts: the earlier use of each fact that was left out."""
    at: Instant
    """The ledger time of this append."""
    link: bytes = b""
    """The hash-chain link after it: ledgers with equal links agree in every fact up to here."""


class StoredReceipt(NamedTuple):
    """The receipt of a submission with a key, returned again when the submission is repeated."""

    position: Position
    receipt: bytes


class LedgerReader(Protocol):
    """The reading half of a ledger, enough for a process that follows another one's writes."""

    async def read(self, *, after: Position, limit: int) -> Sequence[Recorded]:
        """Return up to ``limit`` facts after ``after``, oldest first. Empty at the head."""

    async def head(self) -> Position:
        """Return the last committed position, or 0 for an empty ledger."""

    async def first_use(self, *, board: str, key: str) -> FirstUse | None:
        """Return the first use of a key on this board; None if it is unused."""

    async def receipts_through(self) -> Position:
        """Return the highest P such that every keyed submission at or below P has a stored receipt.

        0 if there is none. With one appending process that is the last stored receipt, because
        receipts are stored with the append after the one they belong to. With several processes it
        is derived from the first missing receipt.
        """

    async def lacking_receipts(self, positions: Sequence[Position]) -> Sequence[Position]:
        """Return those of the positions that are keyed submissions without a stored receipt.

        In the given order. A node that folded another node's facts uses it to store the receipts
        that the other node did not.
        """

    async def link_at(self, position: Position) -> bytes | None:
        """Return the hash-chain link after this position; None if no append ended there."""

    async def changed(self, *, after: Position, within_seconds: float) -> None:
        """Return as soon as the head is past ``after``, or after ``within_seconds``.

        This only wakes a reader up. It never raises for an unreachable ledger: the read that
        follows does.
        """


class Ledger(LedgerReader, Protocol):
    """The durable, totally ordered record of every fact. The only source of truth.

    1. An acknowledged append survives the death of this process and of its host.
    2. Positions grow in commit order: a reader that has seen position n never meets a *new* fact at
       or below n. They begin at 1 and are never used twice. Gaps are allowed.
    3. An append is atomic: all of its facts are there or none is. A fact whose key its board has
       used already is left out and reported; the others are appended.
    4. Keys are remembered for the ledger's life. Of two facts with one key in one append the first
       wins.
    5. Ledger time never goes back: an append's ``at`` is no earlier than any before it, even if the
       clock goes back. Only an append that begins with TimeCorrected has the time it is given.
    6. LedgerUnavailable has the outcome of the append: ``no`` only if it certainly was not applied.
       After ``unknown`` a ledger that is not shared refuses every call until it is reopened.
    7. A fact is always read back byte for byte as first read; ``verify`` finds any changed byte.

    Not promised: that a reader sees an append at once. Call ``head()``.
    """

    durable: ClassVar[bool]
    """False only for the ledger in memory: the command line warns of it."""
    shared: ClassVar[bool]
    """Whether other nodes append to it, too. Such a ledger recovers from failures by itself: after
    an append with an unknown outcome, reading on shows whether its facts are there."""

    @overload
    async def append(
        self,
        facts: Sequence[Fact],
        *,
        now: Instant,
        receipts: Sequence[StoredReceipt] = ...,
        after: None = ...,
    ) -> Appended: ...

    @overload
    async def append(
        self,
        facts: Sequence[Fact],
        *,
        now: Instant,
        receipts: Sequence[StoredReceipt] = ...,
        after: Position | None,
    ) -> Appended | None: ...

    async def append(
        self,
        facts: Sequence[Fact],
        *,
        now: Instant,
        receipts: Sequence[StoredReceipt] = (),
        after: Position | None = None,
    ) -> Appended | None:
        """Append the facts atomically, and store the receipts of earlier appends.

        Receipts are stored late because no client waits for that: one lost in a crash is folded
        again from its facts, and a second receipt for a position is ignored.

        With ``after``, append only if that is still the head. Otherwise another process has
        appended: return None and change nothing.
        """

    async def keep_receipts(self, receipts: Sequence[StoredReceipt]) -> None:
        """Store receipts now, before a snapshot passes the facts they are folded from."""

    async def kept_receipts(self, *, after: Position, limit: int) -> Sequence[StoredReceipt]:
        """Return up to ``limit`` receipts of positions after ``after``, by position."""

    def verify(self) -> AsyncIterator["Progress"]:
        """Check the hash chain, every fact's bytes and every key. Raises LedgerCorrupt."""

    async def close(self) -> None:
        """Release all resources. Safe to repeat."""


@runtime_checkable
class ReopenableLedger(Protocol):
    """A ledger of one process that can be reopened after its disk failed."""

    failure: RankdError | None
    """The error for which it refuses facts until it is reopened; None if it accepts them."""

    async def reopen(self) -> None:
        """Reopen it, if it still holds every acknowledged append.

        It may hold one more: the last append, whose outcome was unknown. Raises LedgerUnavailable
        while the disk takes no writes, and LedgerCorrupt, which is final, if facts are missing or
        differ.
        """


class SharedLedger(Ledger, Protocol):
    """A ledger with ``shared`` set: its server may be lost, and it reconnects by itself."""

    async def lost(self) -> LedgerUnavailable:
        """Wait until the ledger is out of reach, and return the error; at once if it is.

        A server that has not answered for a while counts as out of reach. Appends that have not
        begun by then are refused at once, with the outcome ``no``.
        """

    async def regained(self) -> None:
        """Wait until the ledger is within reach; return at once if it is."""


@runtime_checkable
class TimeServer(Protocol):
    """A ledger on a server whose clock all nodes can read."""

    async def server_time(self) -> Instant:
        """Return the server's time. Raises LedgerUnavailable."""


class CopyTarget(Ledger, Protocol):
    """A ledger that another one is copied into, batch by batch.

    1. Copied facts have the position, time and key of their originals.
    2. A batch is copied atomically, its receipts included.
    3. Between ``begin_copy`` and ``end_copy`` the ledger opens only to continue the copy, across
       interruptions; any other attempt raises an error with the position to continue from.
    """

    async def begin_copy(self, source: str) -> None:
        """Record, durably, that a copy has begun. Safe to repeat."""

    async def take_over(
        self, facts: Sequence[Recorded], *, receipts: Sequence[StoredReceipt] = ()
    ) -> None:
        """Append facts of another ledger unchanged, directly after the head.

        Raises LedgerNotCopied, and changes nothing, if a position, time or key would differ, and
        UnicodeError for text that this ledger cannot store.
        """

    async def end_copy(self) -> None:
        """Record that the copy is complete: the ledger can be opened normally."""


class SealedRow(NamedTuple):
    """An entry in the final standings of a closed window."""

    place: int
    """Ordinal, counted from 1."""
    rank: int
    """The rank shown, by the board's tie rule: equal scores may share it."""
    player: str
    order_key: bytes
    scores: tuple[int, ...]
    metadata: bytes | None


class SealedName(NamedTuple):
    """The identity of a closed window in the archive."""

    board: str
    window: str
    since: Position
    """The position at which it was closed."""


class Archive(Protocol):
    """The final standings of closed windows, stored for SQL queries.

    Readers use them, too, while the index is out of reach. ``since`` is the position at which the
    window was closed: a window that is reopened and closed again has separate rows.

    1. Stored rows of a window never change until the window is dropped.
    2. Rows are stored from the first place on, without gaps.
    3. The cost of a call is bounded by the rows it returns, not by the size of the window.
    """

    async def kept_standings(self, board: str, window: str, *, since: Position) -> int:
        """Return the number of stored rows of a closed window."""

    async def keep_standings(
        self, board: str, window: str, rows: Sequence[SealedRow], *, since: Position
    ) -> None:
        """Store rows. Rows that are stored already stay unchanged."""

    async def finish_standings(
        self, board: str, window: str, total: int, *, since: Position
    ) -> None:
        """Record that all ``total`` rows of a closed window are stored."""

    async def sealed_windows(self) -> Sequence[SealedName]:
        """Return the windows with any stored data."""

    async def drop_standings(self, board: str, window: str, *, since: Position) -> None:
        """Delete a closed window past its retention. Safe to repeat and to interrupt."""

    async def sealed_total(self, board: str, window: str, *, since: Position) -> int | None:
        """Return the size of a closed window; None unless all of its rows are stored."""

    async def sealed_rows(
        self, board: str, window: str, *, since: Position, first: Rank, limit: int
    ) -> Sequence[SealedRow]:
        """Return up to ``limit`` rows from place ``first`` on."""

    async def sealed_players(
        self, board: str, window: str, players: Sequence[str], *, since: Position
    ) -> Mapping[str, SealedRow]:
        """Return the rows of the given players; a player without one is left out."""

    async def sealed_behind(
        self, board: str, window: str, order_key: bytes, player: str, *, since: Position
    ) -> SealedRow | None:
        """Return the first row at or after (``order_key``, ``player``); None if there is none."""


class TopList(NamedTuple):
    """The first entries of a ranking as they were at a position."""

    ranking: "Ranking"
    entries: "Sequence[Placed]"
    total: int
    """The size of the whole ranking."""
    as_of: Position

    @property
    def whole(self) -> bool:
        """Whether it has every entry of the ranking."""
        return len(self.entries) >= self.total


class TopListAge(NamedTuple):
    """The age of a stored top list."""

    as_of: Position
    seconds: float
    """Seconds since it was made, by the clock of the store."""


class TopLists(Protocol):
    """The first entries of rankings, stored to be read while the index is out of reach.

    1. There is at most one list per ranking; ``list_of`` returns one stored list, never a mixture.
    2. A list replaces an older one and never a newer one, whichever node stores it.
    """

    async def lists_kept(self) -> "Mapping[Ranking, TopListAge]":
        """Return the stored lists' ages by ranking."""

    async def keep_lists(self, lists: Sequence[TopList]) -> None:
        """Store the lists atomically."""

    async def drop_lists(self, rankings: "Sequence[Ranking]") -> None:
        """Delete the lists of rankings that are no longer read."""

    async def list_of(self, ranking: "Ranking") -> TopList | None:
        """Return the stored list of a ranking; None if there is none."""


class Spool(Protocol):
    """Submissions stored on this node's own disk while the ledger cannot be reached.

    1. Facts that were put survive the death of this process and of its host.
    2. They are returned in the order in which they were put, until they are dropped.
    """

    @property
    def waiting(self) -> int:
        """The number of waiting facts."""

    async def put(self, facts: Sequence[Fact]) -> None:
        """Store facts. Raises LedgerUnavailable; then none is stored."""

    async def first(self, limit: int) -> tuple[int, Sequence[Fact]]:
        """Return the ``through`` for ``drop``, and up to ``limit`` of the oldest facts."""

    async def drop(self, through: int) -> None:
        """Delete the facts up to ``through``, which the ledger has by now."""


class Finding(NamedTuple):
    """The result of one check of a machine or a server by ``rankd doctor``."""

    what: str
    found: str
    advice: str = ""
    """The advice to the operator; empty if the check passed."""


Loop = Callable[[], Coroutine[Any, Any, None]]
"""A background loop."""

StartLoop = Callable[[str, Loop], Task[None]]
"""Runs a background loop under a name, and restarts it if it fails. Cancelling the task ends it."""


class Progress(NamedTuple):
    """The progress of a long operation."""

    done: int
    total: int
    stage: str = ""
    """The name of the current stage, if there are several."""
    unit: str = ""
    """The unit of both counts, in the singular: fact, byte."""


# ------------------------------------------------------------------------------- index


class Ranking(msgspec.Struct, frozen=True, gc=False):
    """The identity of one ranking: a board, one of its windows, and a segment or all players."""

    board: str
    window: str
    """The window's id, such as ``daily:2026-11-14``."""
    segment: str | None = None
    """An attribute and its value, ``region:eu``; None for all players."""

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


APPLIES_REMEMBERED = 64
"""The number of applies a shared index remembers; fewer if they reach its limit of bytes. At 300
applies a second it covers a node that paused for a fifth of a second."""

COUNTED, NOT_BETTER, OUT_OF_BOUNDS, OVERFLOW = range(4)
"""The verdicts in ``Verdicts``, equal to those of ``model.submission.judge``."""


class Verdicts(NamedTuple):
    """The results of a run in one ranking, as columns with a row for each submission."""

    verdicts: bytes
    scores: "array[int]"
    """The entry's scores afterwards, one for each score column; undefined where the rank is 0."""
    previous_scores: "array[int]"
    """The scores before; undefined where the previous rank is 0."""
    ranks: "array[int]"
    """Ordinal; 0 without an entry."""
    previous_ranks: "array[int]"
    totals: "array[int]"


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
    """Whether ``judge`` is supported. It is called only for boards with ordinal ties."""
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
        self, runs: Sequence[Run], *, after: Position, through: Position
    ) -> Sequence[Sequence[Verdicts]] | None:
        """Judge submissions and move those that count; return results by run and ranking.

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

        The index may change between two steps. Yields nothing if the index has no list of players.
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


# --------------------------------------------------------------------------- snapshots

NOTHING_HELD = nullcontext()
"""The lock of a save whose state may be taken between any two applies."""


class Snapshots(Protocol):
    """An index of this process saved between runs, together with the core's encoded state.

    1. ``load`` restores the index as of the saved checkpoint and the state taken at the same
       moment; never a mixture of two saves.
    2. A save runs beside reads and applies, and delays neither by more than 50 ms.
    3. A save that is interrupted, by an error or the end of the process, leaves the previous one.
    4. Damage is detected and never loaded: SnapshotDamaged.
    """

    def save(
        self,
        notes: Callable[[], Iterable[bytes]],
        *,
        still: AbstractAsyncContextManager[Any] = NOTHING_HELD,
    ) -> AsyncIterator[Progress]:
        """Save the index as of the last step but one, without draft rankings.

        ``notes`` returns the encoded state. It is called once, between two applies and while
        ``still`` is held; the frames are read later, on another thread, so they must not refer to
        anything that changes.
        """

    async def load(self, tell: Callable[[Progress], None]) -> Sequence[bytes] | None:
        """Fill the empty index from the save and return the state's frames; None without a save."""


COPIES_KEPT = 3
"""The number of stored state snapshots: one may be in use or damaged while the next is written."""


class StateSnapshots(Protocol):
    """Snapshots of the core's state, available to every node over one ledger.

    1. ``load`` returns the frames as they were stored. A snapshot that is damaged or gone raises
       SnapshotDamaged.
    2. A snapshot is complete or absent: ``kept`` does not list one that was interrupted.
    3. There are at most COPIES_KEPT; the oldest are deleted.
    4. A stored snapshot is never rewritten. Of several nodes that would store one at about the same
       time one does, unless they start at the very same moment.
    """

    async def kept(self) -> Sequence[Position]:
        """Return the positions of the snapshots, the newest first."""

    async def keep(
        self, position: Position, frames: Iterable[bytes], *, unless_after: Position
    ) -> bool:
        """Store a snapshot, unless one after ``unless_after`` is stored or being written.

        Return whether it was stored. Frames are taken one by one, while other work goes on.
        """

    async def load(self, position: Position) -> Sequence[bytes]:
        """Return the frames of the snapshot at a position."""


# ------------------------------------------------------------------------------- clock


class Clock(Protocol):
    """The time. The core has no other source of it, so a test can simulate years."""

    def now(self) -> Instant:
        """Return the time. It may go back; ledger time does not."""


@runtime_checkable
class CountingClock(Clock, Protocol):
    """A machine's clock, which may be set, with a counter of elapsed time, which may not."""

    def elapsed(self) -> int:
        """Return microseconds since an arbitrary moment, including time the machine slept."""
