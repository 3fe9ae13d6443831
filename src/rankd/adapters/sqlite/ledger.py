"""Ledger port in SQLite, for one process.

It has two database threads (database.py), each with a connection: one appends and checkpoints, one
reads. The writer holds the tail of the ledger in memory (head, time and link), so an append reads
only the keys of its facts.

The meaning of an error depends on its time. Until COMMIT is called nothing can have been applied:
the transaction is rolled back and the outcome is a certain ``no``. After an error of COMMIT the
outcome is ``unknown``, for the commit may be on the disk without its confirmation. Then this object
refuses all calls until ``reopen``, which reads the file and succeeds only if it ends with the known
tail, with or without that append after it.

On a disk that takes no writes a ledger is opened read-only, until ``reopen`` succeeds.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cache, partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import ClassVar, NamedTuple, TypeVar, overload

import apsw
import msgspec

from rankd.adapters.player_rows import Changes
from rankd.adapters.sqlite.backup import RunningBackup
from rankd.adapters.sqlite.blocks import (
    BLOCK_FACTS_MAX,
    GENESIS,
    BlockReader,
    facts_at,
    recorded_at,
    seal,
)
from rankd.adapters.sqlite.database import (
    FILE,
    PART,
    DatabaseThread,
    FolderLock,
    SQLiteDurability,
    connect_closed,
    connect_reader,
    connect_writer,
    durability,
    holds_ledger,
    is_disk_failure,
    is_ledger,
    note_copy,
    prepare,
    probe,
    translated,
)
from rankd.adapters.sqlite.player_facts import PlayerFactsReader, question
from rankd.adapters.sqlite.player_runs import PlayerRunBuilder
from rankd.adapters.sqlite.players import changes, project
from rankd.adapters.sqlite.queries import QUERIES, fetch
from rankd.adapters.sqlite.recent_keys import RecentKeys, hash_of, identities_of, plain
from rankd.adapters.sqlite.redaction import parts_with, redact
from rankd.adapters.sqlite.verification import checksum, verification
from rankd.errors import LedgerCorrupt, LedgerNotCopied, LedgerUnavailable, RankdError
from rankd.model.facts import (
    Fact,
    FactsRedacted,
    Identity,
    Position,
    Recorded,
    RedactedPart,
    corrects_time,
    is_submission,
)
from rankd.model.window import Instant
from rankd.ports import Appended, FirstUse, KnownState, PlayersWithNews, Progress, StoredReceipt

WAL_PAGES_MAX = 1_000
"""Pages in the WAL that trigger a checkpoint, 4 MiB: with four times as many an append waits up to
40 ms behind it, with sixteen times 90, and nothing gets faster (docs/decisions/0004)."""

RECEIPTS_TOGETHER_MAX = 1_024
"""Receipts written by one statement, which has three values for each; SQLite takes 32,766."""

LOOK_SECONDS = 0.05
"""Poll interval while waiting for an append."""

T = TypeVar("T")

_log = logging.getLogger(__name__)


class _Tail(NamedTuple):
    """End of the ledger, from which the next append continues."""

    head: Position
    at: Instant
    link: bytes


class SQLiteLedger:
    """Ledger in one folder, for one process at a time."""

    durable: ClassVar[bool] = True
    shared: ClassVar[bool] = False

    def __init__(self, folder: Path, *, vfs: str | None = None, copying: str | None = None) -> None:
        self.folder = folder
        self._copying = copying
        self.durability: SQLiteDurability
        self._vfs = vfs
        self._writer, self._reader = DatabaseThread("writer"), DatabaseThread("reader")
        self._in_order = BlockReader()
        self._runs = PlayerRunBuilder(folder, partial(connect_reader, folder, vfs=vfs))
        self._players = PlayerFactsReader(folder, self._connect_reader, on_damage=self._runs.repair)
        self._recent = RecentKeys()
        self._known_state: KnownState | None = None
        self._lock: FolderLock | None = None
        self._tail = _Tail(Position(0), Instant(0), GENESIS)
        self._wal_pages = 0
        self.failure: RankdError | None = None
        self._uncertain = False
        """Whether the outcome of the last append is unknown, or the file is damaged."""
        self._read_only = False
        """Whether the disk took no writes when the folder was opened."""

    @classmethod
    @asynccontextmanager
    async def open(
        cls, folder: Path, *, vfs: str | None = None, copying: str | None = None
    ) -> AsyncIterator["SQLiteLedger"]:
        """Open the ledger in a folder, or begin one in an empty or absent folder.

        Raises LedgerInUse, NoLedger for a folder with other content, and LedgerNotCopied for a copy
        that was not finished, unless it is opened for ``copying`` from the ledger of that name. A
        ledger on a disk that takes no writes is opened read-only, with the reason in ``failure``.
        """
        ledger = cls(folder, vfs=vfs, copying=copying)
        await ledger._open()
        try:
            yield ledger
        finally:
            await ledger.close()

    async def _open(self) -> None:
        try:
            try:
                await self._open_to_write()
            except LedgerUnavailable as exc:
                if not await self._can_be_read():
                    raise
                self.failure = await self._reason(exc)
                await self._open_to_read()
        except BaseException:
            await self.close()
            raise

    async def _open_to_write(self) -> None:
        await self._writer.open(self._lock_and_connect)
        await self._reader.open(self._connect_reader())
        await self._writer.run(self._learn)
        self._wake_run_builder()

    async def _can_be_read(self) -> bool:
        """Whether there is a ledger, and this process has its lock."""
        if self._lock is None or self._copying is not None:
            return False
        return await asyncio.to_thread(is_ledger, self.folder / FILE)

    async def _reason(self, error: LedgerUnavailable) -> LedgerUnavailable:
        """Return the reason why the disk takes no writes; raise the error if it has another cause.

        SQLite often reports only that an operation failed.
        """
        try:
            await asyncio.to_thread(probe, self.folder)
            found = error
        except LedgerUnavailable as exc:
            found = exc
        if not is_disk_failure(found):
            raise error
        return found

    async def _open_to_read(self) -> None:
        await self._reader.close(_leave_wal)
        await self._writer.close(_leave_wal)
        self._writer, self._reader = DatabaseThread("writer"), DatabaseThread("reader")
        self._read_only = True
        await self._reader.open(self._connect_reader())
        self.durability = await self._reader.run(durability)
        self._tail = await self._reader.run(_tail_of)

    async def reopen(self) -> None:
        if isinstance(self.failure, LedgerCorrupt):
            raise LedgerCorrupt(self.failure.problem) from self.failure
        await asyncio.to_thread(probe, self.folder)
        await self._players.forget()  # They may know facts that are not there any more.
        if self._read_only:  # Such a reader must not see writes.
            await self._reader.close(_leave_wal)
        read_only = self._read_only
        try:
            await self._writer.reopen(self._reconnect, _leave_wal)
            if read_only:
                self._read_only, self._reader = False, DatabaseThread("reader")
                await self._reader.open(self._connect_reader())
            await self._writer.run(self._learn)
        except BaseException:
            if read_only:
                await self._open_to_read()
            raise
        self.failure, self._uncertain = None, False

    def _reconnect(self) -> apsw.Connection:
        """Open the file for writing, if it is the same ledger as before. Raises LedgerCorrupt."""
        if not holds_ledger(self.folder):
            raise self._corrupt("the ledger is gone")
        database = connect_writer(self.folder, vfs=self._vfs)
        try:
            head, known = last_position(database), self._tail
            rows = fetch(database, QUERIES["read_link"], position=known.head)
            if known.head and (not rows or rows[0][0] != known.link):
                raise self._corrupt(f"the ledger ends at {head}, and not with the same facts")
        except BaseException:
            database.close()
            raise
        self._recent.forget()
        return database

    def _corrupt(self, problem: str) -> LedgerCorrupt:
        head = self._tail.head
        self.failure = LedgerCorrupt(f"{problem}: facts up to {head} were acknowledged")
        return self.failure

    def _connect_reader(self) -> partial[apsw.Connection]:
        if self._read_only:
            return partial(connect_closed, self.folder / FILE)
        return partial(connect_reader, self.folder, vfs=self._vfs)

    def _lock_and_connect(self) -> apsw.Connection:
        copying = self._copying is not None
        if not holds_ledger(self.folder, copying=copying) and self._copying is not None:
            note_copy(self.folder, self._copying)
        self._lock = prepare(self.folder)
        holds_ledger(self.folder, copying=copying)  # A copy may have been made before the lock.
        return connect_writer(self.folder, vfs=self._vfs)

    def _learn(self, database: apsw.Connection) -> None:
        self.durability = durability(database)
        database.set_wal_hook(self._measure_wal)
        self._recent.load(database)
        self._tail = _tail_of(database)

    async def close(self) -> None:
        await self._runs.close()
        await self._players.close()
        # The reader first: the last connection to close removes the WAL, and only a writer can.
        await self._reader.close(_leave_wal)
        try:
            await self._writer.close(_leave_wal if self.failure else _empty_wal)
        finally:
            if self._lock is not None:
                self._lock.release()
                self._lock = None

    def compare_profiles(self, known: KnownState) -> None:
        self._known_state = known

    # -------------------------------------------------------------------------- append

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
        self._refuse_append()
        done = await self._writer.run(
            partial(self._append, facts=facts, now=now, receipts=receipts, after=after)
        )
        self._wake_run_builder()
        return done

    def _wake_run_builder(self) -> None:
        head = self._tail.head
        if head >= self._runs.waits_for:
            self._runs.wake(head)

    async def redacted_parts(
        self, positions: Sequence[Position], *, player: str, through: Position
    ) -> tuple[RedactedPart, ...]:
        return await self._read(
            partial(parts_with, positions=positions, player=player, through=through)
        )

    async def keep_receipts(self, receipts: Sequence[StoredReceipt]) -> None:
        await self.append((), now=Instant(0), receipts=receipts)

    def _append(
        self,
        database: apsw.Connection,
        *,
        facts: Sequence[Fact],
        now: Instant,
        receipts: Sequence[StoredReceipt],
        after: Position | None,
    ) -> Appended | None:
        self._refuse_append()
        if after is not None and after != self._tail.head:
            return None
        goes_back = now < self._tail.at and not corrects_time(facts)
        at = self._tail.at if goes_back else now
        with self._transaction(database):
            batch = self._numbered(database, facts, self._tail)
            tail = self._write(database, batch, self._tail._replace(at=at))
            self._recent.move(database, len(batch.hashes))
            _keep(database, receipts)
            complete = False
            if FactsRedacted in set(map(type, batch.fresh)):
                complete = redact(database, batch.fresh)
        self._tail = tail
        if complete:
            # It has the facts as they were. If readers are slow, it is emptied at the next start.
            _checkpoint(database, apsw.SQLITE_CHECKPOINT_TRUNCATE)
        self._checkpoint_if_due()
        return Appended(batch.positions, batch.first_uses, at, tail.link)

    def _numbered(
        self, database: apsw.Connection, facts: Sequence[Fact], tail: _Tail
    ) -> "_NewFacts":
        used = partial(used_before, database, self._recent, tail.head)
        news_in = None
        if self._known_state is not None:
            at, news_in_state = self._known_state()
            news_in = news_in_state if at == tail.head else None
        return _number(facts, tail.head, used, news_in)

    def _write(self, database: apsw.Connection, batch: "_NewFacts", tail: _Tail) -> _Tail:
        for start in range(0, len(batch.fresh), BLOCK_FACTS_MAX):
            end = start + BLOCK_FACTS_MAX
            block = seal(
                batch.fresh[start:end],
                first=Position(tail.head + 1),
                at=tail.at,
                previous_link=tail.link,
            )
            database.execute(QUERIES["add_block"], block._asdict())
            if batch.hashes:
                self._recent.add(database, batch.hashes[start:end], block.first)
            tail = tail._replace(head=block.last, link=block.link)
        if batch.changes:
            project(database, batch.changes)
        return tail

    # ---------------------------------------------------------------------------- copy

    async def begin_copy(self, source: str) -> None:
        await self._writer.run(lambda _: note_copy(self.folder, source))

    async def end_copy(self) -> None:
        await self._writer.run(lambda _: note_copy(self.folder, None))

    async def take_over(
        self, facts: Sequence[Recorded], *, receipts: Sequence[StoredReceipt] = ()
    ) -> None:
        await self._writer.run(partial(self._take_over, facts=facts, receipts=receipts))
        self._wake_run_builder()

    def _take_over(
        self,
        database: apsw.Connection,
        *,
        facts: Sequence[Recorded],
        receipts: Sequence[StoredReceipt],
    ) -> None:
        self._refuse_append()
        tail = self._tail
        with self._transaction(database):
            for _, run in groupby(facts, attrgetter("at")):
                tail = self._take(database, list(run), tail)
            self._recent.move(database, len(facts))
            _keep(database, receipts)
        self._tail = tail
        self._checkpoint_if_due()

    def _take(self, database: apsw.Connection, run: Sequence[Recorded], tail: _Tail) -> _Tail:
        """Write facts of one time with their original positions."""
        first, last, at = run[0].position, run[-1].position, run[0].at
        facts = [recorded.fact for recorded in run]
        batch = self._numbered(database, facts, tail)
        if batch.first_uses:
            raise LedgerNotCopied(f"a key at {first} to {last} was used before")
        goes_back = at < tail.at and not corrects_time(facts)
        if (tail.head + 1, tail.head + len(run)) != (first, last) or goes_back:
            raise LedgerNotCopied(
                f"the ledger has another place or a later time for the facts at {first} to {last}"
            )
        return self._write(database, batch, tail._replace(at=at))

    @contextmanager
    def _transaction(self, database: apsw.Connection) -> Iterator[None]:
        """Run the block in a transaction. Errors state whether it was applied."""
        try:
            self._recent.load(database)
            database.execute("BEGIN IMMEDIATE")
            yield
        except BaseException as exc:
            self._recent.forget()
            self._roll_back(database)
            if isinstance(exc, apsw.Error):
                raise self._note(translated(exc)) from exc
            raise
        try:
            database.execute("COMMIT")
        except apsw.Error as exc:
            raise self._break(exc) from exc

    def _roll_back(self, database: apsw.Connection) -> None:
        try:
            if database.in_transaction:  # Some errors roll back by themselves.
                database.execute("ROLLBACK")
        except apsw.Error as exc:
            raise self._break(exc) from exc

    def _break(self, error: apsw.Error) -> RankdError:
        self.failure, self._uncertain = translated(error, applied="unknown"), True
        return self.failure

    def _note(self, error: RankdError) -> RankdError:
        """Refuse further appends if the file is damaged."""
        if isinstance(error, LedgerCorrupt):
            self.failure, self._uncertain = error, True
        return error

    def _refuse_append(self) -> None:
        self._refuse_if_uncertain()
        if self.failure is not None:
            raise LedgerUnavailable(str(self.failure), applied="no") from self.failure

    def _refuse_if_uncertain(self) -> None:
        if self._uncertain and isinstance(self.failure, LedgerCorrupt):
            raise LedgerCorrupt(self.failure.problem) from self.failure
        if self._uncertain:
            raise LedgerUnavailable(
                "an earlier append may or may not have been applied; open the ledger anew",
                applied="no",
            ) from self.failure

    # --------------------------------------------------------------------------- reads

    async def read(self, *, after: Position, limit: int) -> Sequence[Recorded]:
        return await self._read(partial(self._in_order.read, after=after, limit=limit))

    async def read_at(self, positions: Sequence[Position]) -> Sequence[Recorded]:
        return await self._read(lambda database: list(recorded_at(database, positions)))

    async def facts_of(
        self,
        *,
        board: str | None,
        player: str,
        after: Position | None = None,
        before: Position | None,
        limit: int,
        newest_first: bool = True,
    ) -> Sequence[Recorded]:
        self._refuse_if_uncertain()
        asked = question(player, board, after, before, newest_first=newest_first)
        return await self._players.find(asked, limit)

    async def head(self) -> Position:
        self._refuse_if_uncertain()
        return self._tail.head

    async def link_at(self, position: Position) -> bytes | None:
        rows = await self._read(partial(fetch, query=QUERIES["read_link"], position=position))
        return rows[0][0] if rows else None

    async def first_use(self, *, board: str, key: str) -> FirstUse | None:
        names = {Identity(board, key): hash_of(board, key)}
        found = await self._read(
            partial(used_before, recent=self._recent, head=self._tail.head, names=names)
        )
        return found.get(Identity(board, key))

    async def receipts_through(self) -> Position:
        ((last,),) = await self._read(partial(fetch, query=QUERIES["last_receipt"]))
        return Position(last)

    async def lacking_receipts(self, positions: Sequence[Position]) -> Sequence[Position]:
        return await self._read(partial(lacking_receipts, positions=positions))

    async def kept_receipts(self, *, after: Position, limit: int) -> Sequence[StoredReceipt]:
        page = partial(fetch, query=QUERIES["page_receipts"], after=after, limit=limit)
        return [StoredReceipt(position, body) for position, body, _, _ in await self._read(page)]

    async def changed(self, *, after: Position, within_seconds: float) -> None:
        await look_for(self.head, after=after, within_seconds=within_seconds)

    async def _read(self, work: Callable[[apsw.Connection], T]) -> T:
        self._refuse_if_uncertain()
        return await self._reader.run(work)

    async def verify(self) -> AsyncIterator[Progress]:
        """Check everything up to the current head, on a thread of its own."""
        self._refuse_if_uncertain()
        async for progress in verifying(self._connect_reader(), self._tail.head):
            yield progress

    # -------------------------------------------------------------------------- backup

    async def backup(self, folder: Path) -> AsyncIterator[Progress]:
        """Copy the ledger into an empty folder during appends, and verify the copy."""
        self._refuse_if_uncertain()
        lane = self._reader if self._read_only else self._writer
        async for progress in backing_up(lane, folder):
            yield progress

    # ---------------------------------------------------------------------- checkpoint

    def _measure_wal(self, _database: apsw.Connection, _name: str, pages: int) -> int:
        self._wal_pages = pages
        return apsw.SQLITE_OK

    def _checkpoint_if_due(self) -> None:
        if self._wal_pages >= WAL_PAGES_MAX:
            self._wal_pages = 0
            self._writer.later(_checkpoint)


async def verifying(
    connect: Callable[[], apsw.Connection], head: Position | None, *, structures: bool = True
) -> AsyncIterator[Progress]:
    """Check a ledger on a connection of its own, up to a position, or all of it."""

    def verify(database: apsw.Connection) -> Iterator[Progress]:
        through = last_position(database) if head is None else head
        return verification(database, through, structures=structures)

    lane, steps = DatabaseThread("verifier"), list[Iterator[Progress]]()
    await lane.open(connect)
    try:
        await lane.run(lambda database: steps.append(verify(database)))
        while (progress := await lane.run(lambda _: next(steps[0], None))) is not None:
            yield progress
    finally:
        await lane.close()


async def backing_up(lane: DatabaseThread, folder: Path) -> AsyncIterator[Progress]:
    """Copy the ledger of a database thread into an empty folder; verify before the final rename."""
    running = await lane.run(lambda database: RunningBackup(database, folder))
    try:
        while (progress := await lane.run(lambda _: running.step())) is not None:
            yield progress
        async for progress in verifying(partial(connect_closed, folder / PART), None):
            yield progress
        await lane.run(lambda _: running.keep())
    finally:
        await lane.run(lambda _: running.close())


def last_position(database: apsw.Connection) -> Position:
    """Return the last position of a ledger; 0 if it is empty."""
    rows = fetch(database, QUERIES["last_block"])
    return Position(rows[0][0]) if rows else Position(0)


def _tail_of(database: apsw.Connection) -> _Tail:
    rows = fetch(database, QUERIES["last_block"])
    return _Tail(*rows[0]) if rows else _Tail(Position(0), Instant(0), GENESIS)


# ------------------------------------------------------------------ numbers, keys, rows


class _NewFacts(NamedTuple):
    """Facts of an append without those whose key was used before, and the result for all."""

    fresh: Sequence[Fact]
    hashes: Sequence[int | None]
    """Hash of the key of each fresh fact; empty if none has a key."""
    changes: Changes
    """Facts that may change players."""
    positions: Sequence[Position]
    first_uses: Mapping[int, FirstUse]


def _number(
    facts: Sequence[Fact],
    head: Position,
    used_before: Callable[[Mapping[Identity, int]], Mapping[Identity, FirstUse]],
    news_in: PlayersWithNews | None,
) -> _NewFacts:
    """Assign a position to each fact, unless its key was used before."""
    if plain(facts):
        return _NewFacts(facts, (), (), _positions(head, len(facts)), {})
    names = identities_of(facts)
    hashes = {name: hash_of(*name) for name in names if name is not None}
    uses = dict(used_before(hashes)) if hashes else {}
    if not uses and len(hashes) == len(names) - names.count(None):
        placed = [name and hashes[name] for name in names] if hashes else []
        changed = changes(facts, first=Position(head + 1), news_in=news_in)
        return _NewFacts(facts, placed, changed, _positions(head, len(facts)), {})
    return _number_with_care(facts, names, hashes, head, uses)


def _number_with_care(
    facts: Sequence[Fact],
    names: Sequence[Identity | None],
    hashes: Mapping[Identity, int],
    head: Position,
    uses: dict[Identity, FirstUse],
) -> _NewFacts:
    first = Position(head + 1)
    fresh: list[Fact] = []
    fresh_hashes: list[int | None] = []
    positions: list[Position] = []
    first_uses: dict[int, FirstUse] = {}
    for place, (fact, name) in enumerate(zip(facts, names, strict=True)):
        if name is not None and (use := uses.get(name)) is not None:
            first_uses[place] = use
            positions.append(use.position)
            continue
        head = Position(head + 1)
        fresh.append(fact)
        fresh_hashes.append(None if name is None else hashes[name])
        positions.append(head)
        if name is not None:
            uses[name] = FirstUse(head, fact.fingerprint(), None)
    return _NewFacts(fresh, fresh_hashes, changes(fresh, first=first), positions, first_uses)


def _positions(head: Position, count: int) -> Sequence[Position]:
    return range(head + 1, head + count + 1)  # type: ignore[return-value]


def used_before(
    database: apsw.Connection, recent: RecentKeys, head: Position, names: Mapping[Identity, int]
) -> Mapping[Identity, FirstUse]:
    """Return the keys used in the ledger up to a position, each with its first use.

    Later ones are not committed yet, though the writer holds them in memory.
    """
    hashes = list(names.values())
    found = {position for position in recent.find(database, hashes) if position <= head}
    listed = msgspec.json.encode(hashes).decode()
    found.update(position for (position,) in fetch(database, QUERIES["find_keys"], hashes=listed))
    return _first_uses(database, names, sorted(found)) if found else {}


def _first_uses(
    database: apsw.Connection, names: Mapping[Identity, int], positions: Sequence[Position]
) -> Mapping[Identity, FirstUse]:
    listed = msgspec.json.encode(positions).decode()
    receipts = dict(fetch(database, QUERIES["read_receipts"], positions=listed))
    uses: dict[Identity, FirstUse] = {}
    for position, fact in zip(positions, facts_at(database, positions), strict=True):
        name = fact.identity()
        if name is not None and name in names and name not in uses:
            uses[name] = FirstUse(position, fact.fingerprint(), receipts.get(position))
    return uses


def lacking_receipts(
    database: apsw.Connection, positions: Sequence[Position]
) -> Sequence[Position]:
    """Return the positions of submissions with a key and without a receipt, in their order."""
    ordered = sorted(set(positions))
    facts = dict(zip(ordered, facts_at(database, ordered), strict=True))
    listed = msgspec.json.encode(ordered).decode()
    kept = {at for (at,) in fetch(database, QUERIES["find_receipts"], positions=listed)}
    return [at for at in positions if at not in kept and _has_key(facts[at])]


def _has_key(fact: Fact) -> bool:
    return is_submission(fact) and fact.key is not None


async def look_for(
    head: Callable[[], Awaitable[Position]], *, after: Position, within_seconds: float
) -> None:
    """Return once the head is past a position, or when the time is over; polls.

    SQLite sends no notification of a commit. Within one process the writer signals its readers
    itself.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(within_seconds):
            while True:
                if await _is_past(head, after):
                    return
                await asyncio.sleep(LOOK_SECONDS)


async def _is_past(head: Callable[[], Awaitable[Position]], after: Position) -> bool:
    try:
        return await head() > after
    except RankdError:
        return False  # The next read reports it.


def _keep(database: apsw.Connection, receipts: Sequence[StoredReceipt]) -> None:
    """Write receipts with as few statements as possible.

    Each statement releases the GIL and waits to get it back: with one per receipt, the commit would
    also wait for the work that other threads do meanwhile.
    """
    for start in range(0, len(receipts), RECEIPTS_TOGETHER_MAX):
        some = receipts[start : start + RECEIPTS_TOGETHER_MAX]
        rows = 1 << (len(some) - 1).bit_length()  # So there are few statements to be prepared.
        values: list[int | bytes | None] = []
        for at, body in some:
            values += (at, body, checksum(at, body))
        values += (None,) * (3 * (rows - len(some)))
        database.execute(_statement_for(rows), values)


@cache
def _statement_for(rows: int) -> str:
    """Return the statement that adds so many receipts."""
    row = "(?, ?, ?)"
    return QUERIES["add_receipts"].replace(row, ", ".join([row] * rows))


def _checkpoint(database: apsw.Connection, mode: int = apsw.SQLITE_CHECKPOINT_PASSIVE) -> bool:
    """Copy the WAL into the file; return whether the disk allowed it."""
    try:
        database.wal_checkpoint(mode=mode)
        return True
    except apsw.Error as exc:
        # Nothing is lost: the rest stays in the WAL until the next checkpoint.
        _log.warning("the ledger's WAL could not be checkpointed: %s", exc)
        return False


def _empty_wal(database: apsw.Connection) -> None:
    if not _checkpoint(database, apsw.SQLITE_CHECKPOINT_TRUNCATE):
        _leave_wal(database)


def _leave_wal(database: apsw.Connection) -> None:
    """Skip the checkpoint on close: a disk that failed gets no further writes."""
    database.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
