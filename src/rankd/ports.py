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

    async def kept_receipts(self, *, after: Position, limit: int) -> Sequence[Kept]:
        """Return up to ``limit`` receipts of positions after ``after``, in their order."""

    def verify(self) -> AsyncIterator["Progress"]:
        """Check the hash chain, every fact's bytes and every key. Raises LedgerCorrupt."""

    async def close(self) -> None:
        """Let go of everything. Safe to repeat."""


@runtime_checkable
class ReopenableLedger(Protocol):
    """A ledger of one process that goes on after its disk failed, once it is opened anew."""

    failure: RankdError | None
    """Why it takes no facts until then, if that is so."""

    async def reopen(self) -> None:
        """Open it anew, if it holds all that was acknowledged; perhaps one more append.

        That one is the last, of which the outcome was unknown. Raises LedgerUnavailable while the
        disk takes no writes, and LedgerCorrupt if facts are missing or others: then for good.
        """


class SharedLedger(Ledger, Protocol):
    """A ledger that says ``shared``: it may be lost, and come back by itself."""

    async def lost(self) -> LedgerUnavailable:
        """Wait until the ledger is out of reach, and return why; at once while it is.

        One that has not answered for a while is out of reach. An append that was not begun by then
        is refused at once, with a certain ``no``.
        """

    async def regained(self) -> None:
        """Wait until the ledger is within reach; at once while it is."""


@runtime_checkable
class TimeServer(Protocol):
    """A ledger on a server whose clock all nodes can ask."""

    async def server_time(self) -> Instant:
        """Return the time on the server. Raises LedgerUnavailable."""


class CopyTarget(Ledger, Protocol):
    """A ledger that another one is copied into, some facts at a time.

    1. Facts that are taken over have the position, the time and the key that they had.
    2. What is taken over at a time is taken over whole, its receipts included, or not at all.
    3. From ``begin_copy`` to ``end_copy``, however often it is broken off meanwhile, nobody can
       open it but to go on: whoever tries is told where from.
    """

    async def begin_copy(self, source: str) -> None:
        """Note, durably, that facts are being copied. Safe to repeat."""

    async def take_over(self, facts: Sequence[Recorded], *, receipts: Sequence[Kept] = ()) -> None:
        """Append facts of another ledger as they are recorded there, right behind the head.

        Raises LedgerNotCopied, and changes nothing, where they cannot be as they were; and
        UnicodeError for text that this ledger cannot keep.
        """

    async def end_copy(self) -> None:
        """Let everybody open it: the copy is whole."""


class SealedRow(NamedTuple):
    """An entry in the final standings of a closed window."""

    place: int
    """Counted from 1, every entry before it counted."""
    rank: int
    """As the board shows it: those who tie may share it."""
    player: str
    order_key: bytes
    scores: tuple[int, ...]
    metadata: bytes | None


class SealedName(NamedTuple):
    """Which closed window rows are of."""

    board: str
    window: str
    since: Position
    """Where it was closed."""


class Archive(Protocol):
    """Where the final standings of closed windows are kept, for whoever asks with SQL.

    And for readers, while the index is out of reach. ``since`` is where the window was closed: one
    that is put back and closed again has rows of its own.

    1. What is kept of a window never changes, until it is dropped.
    2. Rows are kept from the first place on, and no place is left out.
    3. No question costs more than the rows it is answered with, however many a window has.
    """

    async def kept_standings(self, board: str, window: str, *, since: Position) -> int:
        """Return how many rows of a closed window are kept."""

    async def keep_standings(
        self, board: str, window: str, rows: Sequence[SealedRow], *, since: Position
    ) -> None:
        """Keep some rows. What is kept already stays as it is."""

    async def finish_standings(
        self, board: str, window: str, total: int, *, since: Position
    ) -> None:
        """Note that all rows of a closed window are kept, and how many they are."""

    async def sealed_windows(self) -> Sequence[SealedName]:
        """Return the windows of which anything is kept."""

    async def drop_standings(self, board: str, window: str, *, since: Position) -> None:
        """Forget a closed window whose time is over. Safe to repeat, and to break off."""

    async def sealed_total(self, board: str, window: str, *, since: Position) -> int | None:
        """Return how many rows a closed window has, None unless all of them are kept."""

    async def sealed_rows(
        self, board: str, window: str, *, since: Position, first: Rank, limit: int
    ) -> Sequence[SealedRow]:
        """Return up to ``limit`` rows from a place on."""

    async def sealed_players(
        self, board: str, window: str, players: Sequence[str], *, since: Position
    ) -> Mapping[str, SealedRow]:
        """Return the rows of those players who have one."""

    async def sealed_behind(
        self, board: str, window: str, order_key: bytes, player: str, *, since: Position
    ) -> SealedRow | None:
        """Return the first row that does not come before this place; None if all do."""


class TopList(NamedTuple):
    """The first entries of a ranking as they were at a position."""

    ranking: "Ranking"
    entries: "Sequence[Placed]"
    total: int
    """How many entries the whole ranking had."""
    as_of: Position

    @property
    def whole(self) -> bool:
        """Whether nobody is missing."""
        return len(self.entries) >= self.total


class ListKept(NamedTuple):
    """Of a list that is kept: how old it is."""

    as_of: Position
    seconds: float
    """Since it was taken, by the clock of whoever keeps it."""


class TopLists(Protocol):
    """Where the first entries of rankings are kept, to be read while the index is out of reach.

    1. Of each ranking there is at most one list, and what ``list_of`` returns is one that was kept,
       whole and unmixed.
    2. A list takes the place of an older one and never of a newer one, whoever keeps them.
    """

    async def lists_kept(self) -> "Mapping[Ranking, ListKept]":
        """Return of which rankings a list is kept."""

    async def keep_lists(self, lists: Sequence[TopList]) -> None:
        """Keep lists, all of them or none."""

    async def drop_lists(self, rankings: "Sequence[Ranking]") -> None:
        """Forget the lists of rankings that nobody asks for any more."""

    async def list_of(self, ranking: "Ranking") -> TopList | None:
        """Return the list that is kept of a ranking, None if none is."""


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


class Finding(NamedTuple):
    """One thing that was looked at, of a machine or a server."""

    what: str
    found: str
    advice: str = ""
    """What to do; empty if it is well."""


Loop = Callable[[], Coroutine[Any, Any, None]]
"""A background loop."""

StartLoop = Callable[[str, Loop], Task[None]]
"""Runs a background loop under a name, and again if it fails. Cancelling the task ends it."""


class Progress(NamedTuple):
    """How far long work has come."""

    done: int
    total: int
    stage: str = ""
    """What is being done, where the work has several parts."""
    unit: str = ""
    """What is counted, in the singular: fact, byte."""


# ------------------------------------------------------------------------------- index


class Ranking(msgspec.Struct, frozen=True, gc=False):
    """The name of one ranking: a board, one of its windows, and a segment or everybody."""

    board: str
    window: str
    """The window's id, such as ``daily:2026-11-14``."""
    segment: str | None = None
    """An attribute and its value, ``region:eu``; None is everybody."""

    @property
    def identity(self) -> str:
        """What cursors and nodes know it by. They outlive a version: never to be changed."""
        return f"{self.board}/{self.window}/{self.segment or ''}"

    def __str__(self) -> str:
        """Return its name for people, who may be told it another way tomorrow."""
        everybody = f"{self.board}/{self.window}"
        return everybody if self.segment is None else f"{everybody}/{self.segment}"


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


class Places(NamedTuple):
    """Where some players are in one ranking, as columns."""

    ranks: Sequence[int]
    """As ``Ranked`` has them; 0 for who is not ranked."""
    order_keys: bytes
    """End to end; zeros for who is not ranked."""
    metadata: Sequence[bytes | None] | None
    """None if no entry has any."""
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
        gets the answer of the first time, ``step_after`` tells where it led, and ``order_keys``
        and ``metadata`` tell, ``at`` its ``after``, how entries were before it. What is remembered
        no longer gets None, and raises IndexForgot. So does an apply that adopts drafts which went
        with another index, whose place this one has taken.
    12. A segment's ranking that its last player leaves is gone with that apply or staging, as if
        dropped: its memory is freed. An index over several partitions may keep its name.

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

    def free_dropped(self) -> bool:
        """Free some of what dropped rankings hold; return whether there is more. Not if shared."""

    async def order_keys(
        self, entries: Sequence[tuple[Ranking, str]], at: Position | None = None
    ) -> Sequence[bytes | None]:
        """Return the order key of each player in each ranking, None where it has no entry.

        ``at`` is the position to answer as of: the checkpoint or, where the index is shared, one
        that a remembered apply followed. Raises IndexForgot.
        """

    async def metadata(
        self, entries: Sequence[tuple[Ranking, str]], at: Position | None = None
    ) -> Sequence[bytes | None]:
        """Return what is shown beside each player in each ranking, ``at`` as with order keys."""

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

    def player_ids(self, count: int) -> Iterator[Sequence[str]]:
        """Yield the ids of players with an entry, about ``count`` at a time, in no order.

        The index may change in between. Nothing where an index is not walked by its players.
        """

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

    async def shapes(self) -> Mapping[Ranking, Shape]:
        """Return all rankings there are but drafts, and their shapes."""


class ImmediateIndex(RankIndex, Protocol):
    """An index that says ``immediate``: what is asked most it answers without being awaited."""

    def rank_now(self, ranking: Ranking, player: str) -> Ranked | None:
        """Return what ``rank`` does."""

    def seeker(self, ranking: Ranking) -> Callable[[Sequence[str]], Places] | None:
        """Return what finds players in one ranking, for whoever asks often; None if it is not.

        It tells of each what ``rank_now`` does, and is good for as long as no ranking is dropped
        or adopted.
        """

    def ranker(self, ranking: Ranking, ties: TieRule) -> Callable[[bytes], Sequence[int]]:
        """Return a function that ranks packed keys by a rule for ties; good as long as a seeker."""

    def read_now(self, ranking: Ranking, *, first: Rank, limit: int) -> Columns:
        """Return what ``read`` does, as columns."""


class SharedIndex(RankIndex, Protocol):
    """An index that says ``shared``: several nodes fold into it, whoever is first.

    Every call may raise IndexUnavailable. After one in ``apply`` nobody knows what was done; the
    same apply, made again, does what was not done and tells.
    """

    @property
    def notes(self) -> Sequence[str]:
        """What is worth knowing of where it is kept, in sentences that name nobody."""

    async def look_again(self) -> None:
        """Check now and then where it is kept, and note it: that may be another server by now.

        An index that took the place of this one unnoticed is gone over to.
        """

    async def belongs(self, ledger: str) -> bool:
        """Say which ledger this index is made from; False if it is made from another.

        What has no owner gets this one, but for "": a ledger without facts, which owns nothing.
        """

    @property
    def replicas(self) -> RankIndex | None:
        """The same index, only to be read and perhaps behind; None where it has no replicas."""

    async def step_after(self, position: Position) -> Position | None:
        """Return where the apply leads that follows a position, be it done or only begun.

        None if none does. Raises IndexForgot where the index is not there yet, was never there
        between two applies, or does not remember. Whoever makes the same apply is told what it did.
        """

    def ask_rank(
        self, ranking: Ranking, player: str, tell: Callable[[Ranked | None], None]
    ) -> bool:
        """Have ``tell`` told what ``rank`` returns, once, later and in this loop.

        None is told of who is not ranked, and whatever went wrong: ``rank`` says which. False if
        too many wait already; then nothing is told.
        """

    async def unfinished(self) -> tuple[Position, Position] | None:
        """Return the ``after`` and ``through`` of an apply that was begun and is not done.

        Its maker may have died, or may be at it. Until somebody makes the same one again, none
        other is taken.
        """

    async def beside(self) -> "SharedIndex":
        """Return an empty index beside this one, which nobody reads: to fill, and to compare."""

    def fill(self, source: RankIndex) -> AsyncIterator[Progress]:
        """Copy all rankings of an index that stands still meanwhile, and its checkpoint.

        Only into one that was made ``beside`` another and is empty: what a ledger is folded into
        in this process and then copied is there in a fraction of the time.
        """

    async def take_over(self) -> bool:
        """Let an index that was filled beside another live in its place, for all nodes at once.

        False if that one does not live any more: then another took its place, and of two that were
        filled beside one, one does. The one that does not live is dropped.
        """

    async def claim(self, *, seconds: float) -> bool:
        """Say that this node fills the index, for so long or until it says so again.

        False if another node said so. It spares others the same work; nothing else rests on it.
        """

    async def release(self) -> None:
        """Say that this node does not fill the index any more."""

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


COPIES_KEPT = 3
"""How many copies of the book are kept: one may be needed while the next is written, or damaged."""


class Copies(Protocol):
    """Where copies of the book are kept that every node over one ledger finds.

    1. What ``load`` returns is what was kept there, frame by frame. Damage is found and told:
       SnapshotDamaged, also for one that is there no longer.
    2. A copy is there whole or not at all: one that was broken off is not ``kept``.
    3. There are at most COPIES_KEPT: older ones make room.
    4. A copy that is kept is never written again; and of those who would keep one about the same
       time, one does, unless they come in the very same moment.
    """

    async def kept(self) -> Sequence[Position]:
        """Return where there are copies, the newest first."""

    async def keep(
        self, position: Position, frames: Iterable[bytes], *, unless_after: Position
    ) -> bool:
        """Keep a copy of a position, unless one after ``unless_after`` is kept or being written.

        Return whether it is kept. Frames are asked for one by one, while other work goes on.
        """

    async def load(self, position: Position) -> Sequence[bytes]:
        """Return the frames of the copy at a position."""


# ------------------------------------------------------------------------------- clock


class Clock(Protocol):
    """What time it is. The core asks nobody else, so a test can live through years."""

    def now(self) -> Instant:
        """Return the time. It may go back; the ledger's does not."""


@runtime_checkable
class CountingClock(Clock, Protocol):
    """A clock of a machine, which may be set, beside a counter of elapsed time, which may not."""

    def elapsed(self) -> int:
        """Return the microseconds since some moment, those in which the machine slept included."""
