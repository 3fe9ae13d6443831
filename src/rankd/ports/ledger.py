"""The ports of the record of facts: ledgers, copies of them, and the spool of one node."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence, Set
from typing import ClassVar, NamedTuple, Protocol, overload, runtime_checkable

from rankd.errors import LedgerUnavailable, RankdError
from rankd.model.facts import Fact, Position, Recorded, RedactedPart
from rankd.model.window import Instant
from rankd.ports.operations import Progress


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

    async def read_at(self, positions: Sequence[Position]) -> Sequence[Recorded]:
        """Return the facts at positions, which are in order and in the ledger."""

    async def facts_of(
        self,
        *,
        board: str | None,
        player: str,
        after: Position | None = ...,
        before: Position | None,
        limit: int,
        newest_first: bool = ...,
    ) -> Sequence[Recorded]:
        """Return up to ``limit`` facts about a player, between two positions, newest first.

        These are the facts whose ``player`` it is: submissions, profiles, friends, its erasure.
        With a board, only those whose ``board`` it is; a profile has none, so it is left out. Fewer
        than ``limit`` are all there are. To go on, pass the position of the last one as ``before``,
        or as ``after`` if the oldest come first. The cost is that of the player's own facts, not of
        the ledger.
        """

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
       But FactsRedacted replaces facts by ``redacted`` ones, in the transaction that appends it,
       and no byte of their personal data stays where the ledger is kept. ``verify`` finds any other
       change of these facts, too.
    8. ``facts_of`` returns the facts that ``read`` returns, at every moment: in copies, after a
       crash, and while an index that it uses is missing, damaged or behind. Only its time differs.

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

    async def redacted_parts(
        self, positions: Sequence[Position], *, player: str, through: Position
    ) -> tuple[RedactedPart, ...]:
        """Return the parts with these positions, for FactsRedacted about a player.

        An append of that fact with parts that have changed meanwhile is refused.
        """

    async def keep_receipts(self, receipts: Sequence[StoredReceipt]) -> None:
        """Store receipts now, before a snapshot passes the facts they are folded from."""

    async def kept_receipts(self, *, after: Position, limit: int) -> Sequence[StoredReceipt]:
        """Return up to ``limit`` receipts of positions after ``after``, by position."""

    def verify(self) -> AsyncIterator[Progress]:
        """Check the hash chain, every fact's bytes and every key. Raises LedgerCorrupt."""

    async def close(self) -> None:
        """Release all resources. Safe to repeat."""


PlayersWithNews = Callable[[Iterable[Fact]], Set[str]]
"""Returns the players whose profiles some of the facts may change."""

KnownState = Callable[[], tuple[Position, PlayersWithNews]]
"""Returns the position of a state, and a comparison with its profiles."""


@runtime_checkable
class ProfileTable(Protocol):
    """A ledger that stores profiles beside the facts, as of its head."""

    def compare_profiles(self, known: KnownState) -> None:
        """Look up no submission whose attributes a state at the head knows already."""


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
