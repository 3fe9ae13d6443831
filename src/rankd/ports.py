"""The seams: what the core relies on, and what every adapter promises.

    intake ──append──▶ Ledger ──read──▶ projector ──apply──▶ RankIndex ◀──read── reader
                                                    Clock

Each promise is numbered, and ``rankd.testing.contracts`` has a test for each. An adapter is a class
that keeps them; it translates every error of its vendor into ours before it leaves.

The calls are asynchronous because a ledger waits for a disk and an index may be across a network,
and they take many things at once because a round trip costs the same for one as for a thousand.
An adapter that never waits (the native index) never suspends either, and a caller may rely on
that where ``immediate`` says so.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, overload

import msgspec

from rankd.model.board import Board
from rankd.model.facts import Fact, Position, Recorded
from rankd.model.standing import Offset, Rank, TieRule
from rankd.model.window import Instant

if TYPE_CHECKING:
    from array import array

# ------------------------------------------------------------------------------ ledger


class FirstUse(NamedTuple):
    """Where a key was used first, and for what."""

    position: Position
    fingerprint: bytes
    receipt: bytes | None
    """The answer given then; None while the projector has not handed it in."""


class Appended(NamedTuple):
    """What became of the facts of one append, in their order."""

    positions: Sequence[Position]
    """Where each fact is: its new position or, where its key was used already, the first one."""
    first_uses: Mapping[int, FirstUse]
    """For each fact that was left out, by its place in the call: who was first."""
    at: Instant
    """The ledger's time of this append."""
    link: bytes = b""
    """The hash chain behind it: two ledgers that agree in it agree in every fact before."""


class Kept(NamedTuple):
    """The answer to a submission with a key, to be given again to whoever repeats it."""

    position: Position
    receipt: bytes


class LedgerReader(Protocol):
    """The half of a ledger that a process needs which follows another's writes."""

    async def read(self, *, after: Position, limit: int) -> Sequence[Recorded]:
        """Return up to ``limit`` facts after ``after``, oldest first. Empty at the head."""

    async def head(self) -> Position:
        """Return the last committed position, or 0 for an empty ledger."""

    async def first_use(self, *, board: str, key: str) -> FirstUse | None:
        """Return where this board used the key, if it did."""

    async def receipts_through(self) -> Position:
        """Return up to where every submission with a key has its receipt kept; 0 if none has.

        Where one process appends, the last kept one tells: receipts are handed in with the append
        after the one that earned them. Where several do, the first that is missing tells.
        """

    async def lacking_receipts(self, positions: Sequence[Position]) -> Sequence[Position]:
        """Return which of these are submissions with a key and no receipt kept, in their order.

        Whoever has folded what another appended hands in what that other never did.
        """

    async def link_at(self, position: Position) -> bytes | None:
        """Return the hash-chain link behind this position, None if no append ended there."""

    async def changed(self, *, after: Position, within_seconds: float) -> None:
        """Return as soon as the head is past ``after``, or when the time is over.

        It only wakes a reader up, and never fails for a ledger that cannot be reached: whoever
        reads then hears of it.
        """


class Ledger(LedgerReader, Protocol):
    """The durable, totally ordered record of every fact. The only source of truth.

    1. An acknowledged append survives the death of this process and of its host.
    2. Positions grow in commit order: a reader that has seen position n never meets a *new* fact
       at or below n. They begin at 1 and are never used twice. Gaps are allowed.
    3. An append is whole: all of its facts are there or none is. A fact whose key its board has
       used already is left out and reported; the others are appended all the same.
    4. Keys are remembered for the ledger's life, and of two facts with one key in one append the
       first wins.
    5. Ledger time never goes back: an append's ``at`` is no earlier than any before it, whatever
       the clock says.
    6. LedgerUnavailable says whether the append was applied: ``no`` only if it certainly was not.
       After ``unknown`` a ledger that is not shared refuses everything; open it anew.
    7. What was read once is read again, byte for byte; any other byte is found by ``verify``.

    Not promised: that a reader sees an append at once. Ask ``head()``.
    """

    durable: ClassVar[bool]
    """False only for the ledger in memory: the command line warns of it."""
    shared: ClassVar[bool]
    """Whether other nodes append to it, too. Then it goes on by itself after any failure: what an
    append with an unknown outcome came to is read like everything that others append."""

    @overload
    async def append(
        self,
        facts: Sequence[Fact],
        *,
        now: Instant,
        receipts: Sequence[Kept] = ...,
        after: None = ...,
    ) -> Appended: ...

    @overload
    async def append(
        self,
        facts: Sequence[Fact],
        *,
        now: Instant,
        receipts: Sequence[Kept] = ...,
        after: Position | None,
    ) -> Appended | None: ...

    async def append(
        self,
        facts: Sequence[Fact],
        *,
        now: Instant,
        receipts: Sequence[Kept] = (),
        after: Position | None = None,
    ) -> Appended | None:
        """Append the facts as one, and keep receipts that earlier appends have earned.

        Receipts ride along because they are owed to nobody at once: one that is lost in a crash
        is folded again from the facts behind it; one that is handed in twice is kept as it was
        first.

        Given ``after``, append only if that is still the head: None if somebody else appended
        meanwhile, and nothing is changed.
        """

    async def keep_receipts(self, receipts: Sequence[Kept]) -> None:
        """Keep receipts now: before a snapshot forgets how to fold them again."""

    def verify(self) -> AsyncIterator["Progress"]:
        """Check the hash chain, every fact's bytes and every key. Raises LedgerCorrupt."""

    async def close(self) -> None:
        """Let go of everything. Safe to repeat."""


SealedRow = tuple[int, str, tuple[int, ...], bytes | None]
"""A rank as the board shows it, a player, its scores, and what is shown beside it."""


class Archive(Protocol):
    """Where the final standings of closed windows are kept, for whoever asks with SQL."""

    async def kept_standings(self, board: str, window: str, *, since: Position) -> int:
        """Return how many rows of a closed window are kept; ``since`` is where it was closed."""

    async def keep_standings(
        self, board: str, window: str, rows: Sequence[SealedRow], *, since: Position
    ) -> None:
        """Keep some rows. What is kept already stays as it is."""


class Spool(Protocol):
    """Where submissions wait on this node's own disk while the ledger cannot be reached.

    1. What was put survives the death of this process and of its host.
    2. It is given out in the order in which it was put, again and again until it is dropped.
    """

    @property
    def waiting(self) -> int:
        """How many wait."""

    async def put(self, facts: Sequence[Fact]) -> None:
        """Keep facts. Raises LedgerUnavailable, and then none is kept."""

    async def first(self, limit: int) -> tuple[int, Sequence[Fact]]:
        """Return the first that wait, and up to where these are."""

    async def drop(self, through: int) -> None:
        """Forget what waits up to there: the ledger has it."""


class Progress(NamedTuple):
    """How far long work has come."""

    done: int
    total: int
    stage: str = ""
    """What is being done, where the work has several parts."""


# ------------------------------------------------------------------------------- index


class Ranking(msgspec.Struct, frozen=True, gc=False):
    """The name of one ranking: a board, one of its windows, and a segment or everybody."""

    board: str
    window: str
    """The window's id, such as ``daily:2026-11-14``."""
    segment: str | None = None
    """An attribute and its value, ``region:eu``; None is everybody."""

    def __str__(self) -> str:
        return f"{self.board}/{self.window}/{self.segment or ''}"


class Shape(NamedTuple):
    """What an index must know of a ranking to make room for it."""

    key_bytes: int
    dense: bool
    """Whether distinct scores are counted, for dense ranks."""


class Move(NamedTuple):
    """A player's new place in one ranking, or its leaving."""

    ranking: Ranking
    player: str
    order_key: bytes | None
    """None takes the player out; STAY changes nothing, and only tells its rank."""
    metadata: bytes | None = None
    """What is shown beside the entry; it belongs to the run that counts."""
    ties: TieRule = TieRule.ORDINAL
    """How the ranks that ``Moved`` tells are counted. Dense ones need a dense ranking."""


STAY = b""
"""No order key is empty: this one means whatever the player has."""

DRAFT = "\x1f"
"""No board's name begins with it."""


class Moved(NamedTuple):
    """Where a move took a player. Ranks are None where it has no entry."""

    previous_rank: Rank | None
    rank: Rank | None
    total: int


class Placed(NamedTuple):
    """An entry as an index keeps it: what its key means is the model's affair."""

    player: str
    order_key: bytes
    metadata: bytes | None


class Ranked(NamedTuple):
    """One player's place in one ranking."""

    rank: Rank
    """Ordinal: every entry before it counted."""
    order_key: bytes
    metadata: bytes | None
    total: int
    as_of: Position


class Stretch(NamedTuple):
    """Consecutive entries of one ranking."""

    entries: Sequence[Placed]
    total: int
    """How many entries the whole ranking has."""
    as_of: Position


class Columns(NamedTuple):
    """A stretch as columns, for whoever shows it in another form."""

    players: Sequence[str]
    order_keys: bytes
    """End to end."""
    metadata: Sequence[bytes | None] | None
    """None if no entry has any."""
    total: int
    as_of: Position


class Run(NamedTuple):
    """Submissions to one board in order of position, to be judged where its entries are."""

    board: Board
    rankings: Sequence[Ranking]
    """One for each open window; each is judged for itself."""
    players: Sequence[str]
    scores: "array[int]"
    """Type ``q``: one for each column of each submission; of a delta, it and zeros."""
    deltas: bytes | None
    """For each submission 1 if it is a delta, else 0; None if none is."""
    positions: "array[int]"
    """Type ``Q``."""
    metadata: Sequence[bytes | None] | None
    """None if no submission brings any."""


APPLIES_REMEMBERED = 64
"""How many applies a shared index remembers, unless they are so large that it bounds their bytes:
at three hundred a second, as many as a node makes up for that paused for a fifth of a second."""

COUNTED, NOT_BETTER, OUT_OF_BOUNDS, OVERFLOW = range(4)
"""What ``Verdicts`` says of a submission: what ``model.submission.judge`` would."""


class Verdicts(NamedTuple):
    """What a run did in one ranking, a column for each question, a row for each submission."""

    verdicts: bytes
    scores: "array[int]"
    """The entry's scores after it, as many as columns; meaningless where the rank is 0."""
    previous_scores: "array[int]"
    """Before it; meaningless where the previous rank is 0."""
    ranks: "array[int]"
    """Ordinal; 0 where there is no entry."""
    previous_ranks: "array[int]"
    totals: "array[int]"


class RankIndex(Protocol):
    """A projection that answers "what rank?" and "who is at rank n?". It can be thrown away.

    1. An apply is seen whole or not at all: its moves, its new and dropped rankings, and its
       checkpoint. One that raises has changed nothing, or the index refuses everything after it.
    2. An apply that does not follow the checkpoint changes nothing: ``after`` must equal it.
       Whoever repeats an apply, or loses a race, gets None and reads on; but see 11.
    3. Entries are ordered by their order keys, byte by byte, then by the players' ids as UTF-8.
    4. Moves of one apply take effect one after another; each ``Moved`` tells of its own moment.
    5. Reads of a ranking that does not exist find nothing; they do not fail.
    6. Metadata is that of the last move: a move without any clears it, leaving takes it along.
    7. Ranks in ``Moved`` are counted as their move asks, equal scores being equal but for the last
       eight bytes of the key; a move that stays changes nothing, metadata included.
    8. Opening what is open and dropping what is not there change nothing. Opening it in another
       shape, and moving where nothing was opened, are programming mistakes: AssertionError.
    9. A draft is a ranking that nobody reads: its board's name begins with DRAFT, ``stage`` alone
       moves in it, and no checkpoint counts for it. ``apply`` adopts it, under the name it is
       to be known by, in place of what had that name, at one moment with everything else.
    10. Where ``judges`` says so, ``judge`` is to submissions what ``apply`` is to moves, and its
        verdicts, scores and ranks are those of folding them one by one with ``model.judge``.
    11. A shared index remembers its last applies, APPLIES_REMEMBERED of them or fewer if they are
        large: the same one made again, with the same ``after`` and ``through``, changes nothing and
        gets the answer of the first time, and ``order_keys`` tells, ``at`` its ``after``, how
        entries were before it. What is remembered no longer gets None, and raises IndexForgot.

    Not promised: that the index survives anything. The ledger does.
    """

    immediate: ClassVar[bool]
    """Whether no call ever suspends."""
    judges: ClassVar[bool]
    """Whether it can judge in place. It is asked to only where ties are ordinal."""
    shared: ClassVar[bool]
    """Whether several nodes fold into it and read from it: then it is a SharedIndex."""

    async def checkpoint(self) -> Position:
        """Return the last position applied, 0 for an empty index."""

    async def apply(
        self,
        moves: Sequence[Move],
        *,
        after: Position,
        through: Position,
        opened: Mapping[Ranking, Shape] = ...,
        dropped: Sequence[Ranking] = ...,
        adopted: Mapping[Ranking, Ranking] = ...,
    ) -> Sequence[Moved] | None:
        """Make room, take the moves in order, forget what is dropped, then adopt drafts.

        None if out of turn. ``adopted`` tells by draft the ranking it becomes. ``through`` lies
        past ``after``: otherwise a repeat could not be told from its first time.
        """

    async def judge(
        self, runs: Sequence[Run], *, after: Position, through: Position
    ) -> Sequence[Sequence[Verdicts]] | None:
        """Judge and move what counts: for each run and each of its rankings, what it did.

        None if out of turn. No two runs have a ranking in common.
        """

    async def stage(
        self,
        moves: Sequence[Move],
        *,
        opened: Mapping[Ranking, Shape] = ...,
        dropped: Sequence[Ranking] = ...,
    ) -> Sequence[Moved]:
        """Do to drafts what ``apply`` does to rankings, whatever the checkpoint."""

    async def order_keys(
        self, entries: Sequence[tuple[Ranking, str]], at: Position | None = None
    ) -> Sequence[bytes | None]:
        """Return the order key of each player in each ranking, None where it has no entry.

        ``at`` is the position to answer as of: the checkpoint or, where the index is shared, one
        that a remembered apply followed. Raises IndexForgot.
        """

    async def metadata(self, entries: Sequence[tuple[Ranking, str]]) -> Sequence[bytes | None]:
        """Return what is shown beside each player in each ranking."""

    # Each of these answers as of ``at``, where that is given: the checkpoint, or another position
    # that a shared index remembers. Otherwise IndexForgot.

    async def rank(
        self, ranking: Ranking, player: str, at: Position | None = None
    ) -> Ranked | None:
        """Return a player's place, None where it has none."""

    async def ranks(
        self, ranking: Ranking, players: Sequence[str], at: Position | None = None
    ) -> Sequence[Ranked | None]:
        """Return the places of many, all as of one position."""

    async def count(self, ranking: Ranking, at: Position | None = None) -> int:
        """Return how many entries a ranking has."""

    async def count_below(
        self, ranking: Ranking, order_key: bytes, player: str = "", at: Position | None = None
    ) -> Offset:
        """Return how many entries come before this place, which nobody needs to hold."""

    async def scores_below(
        self, ranking: Ranking, order_key: bytes, at: Position | None = None
    ) -> Offset:
        """Return how many distinct scores are better than the key's. Only in a dense ranking."""

    async def read(
        self, ranking: Ranking, *, first: Rank, limit: int, at: Position | None = None
    ) -> Stretch:
        """Return up to ``limit`` entries from a rank on, best first."""

    async def rankings(self, board: str) -> Sequence[Ranking]:
        """Return the rankings there are of a board, in any order."""


class ImmediateIndex(RankIndex, Protocol):
    """An index that says ``immediate``: what is asked most it answers without being awaited."""

    def rank_now(self, ranking: Ranking, player: str) -> Ranked | None:
        """Return what ``rank`` does."""

    def seeker(self, ranking: Ranking) -> Callable[[str], Ranked | None] | None:
        """Return what does ``rank_now`` in one ranking, for whoever asks often; None if it is not.

        It is good for as long as no ranking is dropped or adopted.
        """

    def read_now(self, ranking: Ranking, *, first: Rank, limit: int) -> Columns:
        """Return what ``read`` does, as columns."""


class SharedIndex(RankIndex, Protocol):
    """An index that says ``shared``: several nodes fold into it, whoever is first.

    Every call may raise IndexUnavailable. After one in ``apply`` nobody knows what was done; the
    same apply, made again, does what was not done and tells.
    """

    async def unfinished(self) -> tuple[Position, Position] | None:
        """Return the ``after`` and ``through`` of an apply that was begun and is not done.

        Its maker may have died, or may be at it. Until somebody makes the same one again, none
        other is taken.
        """

    async def beside(self) -> "SharedIndex":
        """Return an empty index beside this one, which nobody reads: to fill, and to compare."""

    async def fill(self, source: RankIndex, shapes: Mapping[Ranking, Shape]) -> None:
        """Copy rankings of an index that stands still meanwhile, and its checkpoint.

        Only into one that was made ``beside`` another and is empty: what a ledger is folded into
        in this process and then copied is there in a fraction of the time.
        """

    async def take_over(self, *, of: Any) -> bool:
        """Let an index that was filled beside another live in its place, for all nodes at once.

        False if that one does not live any more. The one that does not live is dropped.
        """

    async def drop(self) -> None:
        """Forget an index that was filled beside another and is not to take over."""

    async def sweep(self, *, at_once: bool = False) -> int:
        """Drop what crashed rebuilds left behind; return how many there were.

        One that has moved since the last sweep is left alone, for it may still be filled, unless
        it is to be done ``at_once``.
        """


# --------------------------------------------------------------------------- snapshots


class Snapshots(Protocol):
    """Where an index of this process is kept between two lives, the core's notes beside it.

    1. What ``load`` brings back is the index as it was at the saved checkpoint, and the notes that
       were asked for at that very moment; never a mixture of two saves.
    2. A save goes on beside reads and applies, and holds up neither for longer than 50 ms.
    3. A save that is broken off, by an error or the end of the process, leaves the one before.
    4. Damage is found and told, and never loaded: SnapshotDamaged.
    """

    def save(self, notes: Callable[[], Iterable[bytes]]) -> AsyncIterator[Progress]:
        """Save the index as it is when the last step but one is taken; drafts are left out.

        ``notes`` is called once, between two applies; what it returns is read later, on another
        thread, so it must not look at anything that changes.
        """

    async def load(self, tell: Callable[[Progress], None]) -> Sequence[bytes] | None:
        """Fill the empty index with what was saved and return the notes; None if nothing was."""


# ------------------------------------------------------------------------------- clock


class Clock(Protocol):
    """What time it is. The core asks nobody else, so a test can live through years."""

    def now(self) -> Instant:
        """Return the time. It may go back; the ledger's does not."""
