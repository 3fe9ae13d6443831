"""Ledger port in PostgreSQL, for several processes.

Each process has three connections: one that appends, one that reads, one that listens and checks
that the server replies. An append is one statement (``sql/migrations/0002_append.sql``), which
commits by itself. It locks the head, so that positions grow in the order of commits.

The meaning of an error depends on its source. After an ERROR of the server, nothing was applied. If
the connection is lost during an append, the outcome is unknown: then another connection looks the
append up by its id. Either it was applied, and its stored result is returned; or it was not, and a
tombstone under the same lock ensures that it never will be, however late it arrives, so that it may
be retried. Only if the server cannot be asked is the outcome ``unknown``: after a few seconds of a
server that does not reply, and a tenth of one after it is known to be gone. Later appends do not
depend on that outcome, since the server alone knows where the ledger ends: when it is back, they go
on.

A server that does not reply counts as gone long before that (``silence_seconds``): appends not sent
yet are refused, with a certain ``no``, until it replies.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, ClassVar, TypeVar, overload
from uuid import UUID

from rankd.adapters.postgres.archive import PostgresArchive, PostgresStateSnapshots
from rankd.adapters.postgres.batch import (
    AppendBatch,
    append_id,
    appended,
    as_instant,
    as_time,
    prepared,
    receipt_columns,
)
from rankd.adapters.postgres.bulk_append import BulkAppend, insist_on_places, takings_of, whole
from rankd.adapters.postgres.connection import (
    OTHER_HISTORY,
    AppendEnd,
    LedgerHistory,
    SerialConnection,
    ServerHealth,
    Timeouts,
    start_task,
)
from rankd.adapters.postgres.database import (
    QUERIES,
    VENDOR,
    DriverConnection,
    PostgresAddress,
    PostgresDurability,
    connect,
    durability,
    is_certain,
    is_retried,
    leave,
    migrate,
    said,
    translated,
)
from rankd.adapters.postgres.notifications import AppendSignal, Listener
from rankd.adapters.postgres.redaction import parts_with, redact
from rankd.adapters.postgres.rows import GENESIS
from rankd.adapters.postgres.verification import verification
from rankd.errors import (
    LedgerCorrupt,
    LedgerNotCopied,
    LedgerUnavailable,
    RankdError,
    Unavailable,
)
from rankd.model.facts import (
    Fact,
    FactsRedacted,
    Position,
    Recorded,
    RedactedPart,
    decode,
)
from rankd.model.window import Instant
from rankd.ports import Appended, FirstUse, Progress, StartLoop, StoredReceipt

TRIES_MAX = 4
"""Attempts of one append: after a conflict, a lock time-out, or a lost connection."""

PAUSE_SECONDS = 0.02
"""Base of the pause between attempts: doubled for the first pause, and for each further one."""

COVER_SECONDS = 6 * 3_600
"""Interval of the check that the coming months have partitions. Appends do not wait for it: some
exist ahead."""

POSITION_MAX = 2**63 - 1

DEFAULT_PATIENCE = Timeouts()

T = TypeVar("T")

_log = logging.getLogger(__name__)


class PostgresLedger(PostgresArchive):
    """Ledger in a schema of a PostgreSQL database, for any number of processes."""

    durable: ClassVar[bool] = True
    shared: ClassVar[bool] = True

    def __init__(
        self,
        address: PostgresAddress,
        *,
        node: str,
        durability: PostgresDurability,
        timeouts: Timeouts,
        start: StartLoop = start_task,
    ) -> None:
        self.durability = durability
        self._start = start
        self._address, self._node, self._timeouts = address, node, timeouts
        self._connect = partial(
            connect,
            address,
            node=node,
            pooled=durability.pooled,
            seconds_max=timeouts.connect_seconds,
        )
        self._presence, self._news, self._history = ServerHealth(), AppendSignal(), LedgerHistory()
        self._writer = SerialConnection(
            self._examined,
            timeouts,
            presence=self._presence,
            prove=self._prove,
            moved=lambda: self._news.moved_at,
            where=address.where,
            name="postgres-writer",
            start=start,
        )
        self._reader = SerialConnection(
            self._examined,
            timeouts,
            presence=self._presence,
            where=address.where,
            name="postgres-reader",
            start=start,
        )
        self._answered_at = 0.0
        """Time of the last reply to a read, by the loop's clock."""
        self.copies = PostgresStateSnapshots(node=node, read=self._rows, write=self._done)
        """State snapshots for nodes that start."""
        self._background: list[asyncio.Task[None]] = []
        self._under_way: set[asyncio.Task[Any]] = set()
        self._damage: LedgerCorrupt | None = None
        self._closed = False

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        url: str,
        *,
        node: str = "",
        timeouts: Timeouts = DEFAULT_PATIENCE,
        copying: bool = False,
        start: StartLoop = start_task,
    ) -> AsyncIterator["PostgresLedger"]:
        """Open the ledger at a URL, or begin one there. ``node`` names this process in its appends.

        ``start`` runs its background loops. Raises InvalidSetting, LedgerUnavailable, LedgerCorrupt
        for a schema of another program, and LedgerNotCopied for a copy that was not finished,
        unless it is opened for ``copying``.
        """
        address = PostgresAddress.parse(url)
        found = await _prepare(address, node, timeouts, copying=copying)
        ledger = cls(address, node=node, durability=found, timeouts=timeouts, start=start)
        try:
            await ledger._open()
            yield ledger
        finally:
            await ledger.close()

    async def _open(self) -> None:
        try:
            await self._writer.open()
            await self._reader.open()
        except VENDOR as exc:
            raise self._writer.translated(exc) from exc
        channel = None if self.durability.pooled else self._address.schema
        listener = Listener(
            self._connect,
            channel,
            self._news,
            self._timeouts,
            self,
            head=self._address.sql(QUERIES["last_append"]),
        )
        self._background = [
            self._start("postgres-partitions", self._keep_house),
            self._start("postgres-listening", listener.run),
        ]

    async def _examined(self) -> DriverConnection:
        """Connect and check the server: the address may lead to another one by now."""
        connection, timeouts = await self._connect(), self._timeouts
        try:
            found = await durability(
                connection, self._address, seconds_max=timeouts.connect_seconds
            )
            await self._history.compare(
                connection, self._address, seconds_max=timeouts.connect_seconds
            )
        except BaseException:
            connection.terminate()
            raise
        self.durability = found._replace(pooled=self.durability.pooled)
        return connection

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._under_way:  # Each ends by itself, within its time limit.
            await asyncio.wait(self._under_way)
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self._writer.close()
        await self._reader.close()
        self._news.tell()

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
        self._refuse_if_damaged()
        self._refuse_if_lost()
        batch = prepared(facts)
        asked = (as_time(now), after, *batch.columns, *receipt_columns(receipts))
        told = await self._finished(self._append(batch, asked))
        if told is None:
            return None
        answer = appended(batch, told)
        if facts:
            last = max(answer.positions)
            if len(answer.first_uses) < len(facts):
                self._history.note(last, answer.link)
            self._news.tell(last)
        return answer

    async def redacted_parts(
        self, positions: Sequence[Position], *, player: str, through: Position
    ) -> tuple[RedactedPart, ...]:
        self._refuse_if_damaged()
        return await self._finished(self._parts(positions, player, through))

    async def _parts(
        self, positions: Sequence[Position], player: str, through: Position
    ) -> tuple[RedactedPart, ...]:
        async def read(connection: DriverConnection) -> tuple[RedactedPart, ...]:
            return await parts_with(connection, self._address, positions, player, through)

        return await _again(self._reader, read)

    async def keep_receipts(self, receipts: Sequence[StoredReceipt]) -> None:
        if receipts:
            await self.append((), now=Instant(0), receipts=receipts)

    async def _finished(self, work: Coroutine[Any, Any, T]) -> T:
        """Complete a task even if its caller is cancelled."""
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._end)
        return await asyncio.shield(task)

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # Mark it as retrieved: the caller may have been cancelled.

    async def _append(self, batch: AppendBatch, asked: tuple[Any, ...]) -> str | None:
        async with self._writer.turn():
            self._refuse_if_damaged()
            for tries in range(1, TRIES_MAX + 1):
                connection = await self._writer.connection()
                name = append_id()
                try:
                    return self._taken(await self._ask_all(connection, name, batch, asked))
                except VENDOR as exc:
                    # After this block the append was not applied, and never will be.
                    if is_certain(exc):
                        if not is_retried(exc) or tries == TRIES_MAX:
                            raise self._note(self._writer.translated(exc)) from exc
                    elif (told := await self._settle(name, batch, exc)) is not None:
                        return told
                await asyncio.sleep(PAUSE_SECONDS * 2**tries)
            raise LedgerUnavailable(
                f"the connection to PostgreSQL was lost {TRIES_MAX} times", applied="no"
            )

    async def _ask_all(
        self, connection: DriverConnection, name: UUID, batch: AppendBatch, asked: tuple[Any, ...]
    ) -> str | None:
        """Append facts, and redact others as these tell, in one transaction."""
        redactions = [fact for fact in batch.facts if isinstance(fact, FactsRedacted)]
        if not redactions:
            return await self._ask(connection, name, asked)
        async with whole(connection):
            told = await self._ask(connection, name, asked)
            for fact in redactions if told not in (None, OTHER_HISTORY) else ():
                await redact(connection, self._address, fact)
        return told

    async def _ask(
        self, connection: DriverConnection, name: UUID, asked: tuple[Any, ...]
    ) -> str | None:
        asking = connection.fetchval(
            self._address.sql(QUERIES["append"]),
            name,
            self._node,
            _milliseconds(self._timeouts.lock_seconds),
            *asked,
            *self._history.append,
            timeout=self._timeouts.statement_seconds,
        )
        told: str | None = await self._writer.answer(asking)
        return told

    def _taken(self, told: str | None) -> str | None:
        """Return the reply to an append, unless it came from a server with another history."""
        if told != OTHER_HISTORY:
            return told
        self._writer.drop()
        raise LedgerUnavailable(
            "this PostgreSQL lacks what this node has seen of the ledger", applied="no"
        )

    async def _settle(self, name: UUID, batch: AppendBatch, problem: BaseException) -> str | None:
        """Find the outcome of an append: its reply, or None if it will never be applied."""
        _log.warning("an append's answer was lost, and is asked for: %s", said(problem))
        self._writer.drop()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeouts.settle_seconds
        while (left := deadline - loop.time()) > 0:
            connection = await self._writer.returned(left, once_gone=self._timeouts.doubt_seconds)
            if connection is None:
                break
            try:
                asking = connection.fetchval(
                    self._address.sql(QUERIES["settle"]),
                    name,
                    _milliseconds(min(left, self._timeouts.lock_seconds)),
                    batch.boards,
                    batch.keys,
                    timeout=left,
                )
                told: str | None = await self._writer.answer(asking)
            except VENDOR as exc:
                problem = exc
                if not is_certain(exc):
                    self._writer.drop()
                await asyncio.sleep(PAUSE_SECONDS)
            else:
                return told
        raise translated(problem, where=self._address.where, applied="unknown") from problem

    # ---------------------------------------------------------------------------- copy

    async def begin_copy(self, source: str) -> None:
        await self._done(QUERIES["begin_copy"], source)

    async def end_copy(self) -> None:
        await self._done(QUERIES["end_copy"])

    async def take_over(
        self, facts: Sequence[Recorded], *, receipts: Sequence[StoredReceipt] = ()
    ) -> None:
        self._refuse_if_damaged()
        self._refuse_if_lost()
        takings = takings_of(facts, receipts)
        if takings:
            await self._finished(self._take_over(takings))
            self._news.tell(takings[-1].last)

    async def _take_over(self, takings: Sequence[BulkAppend]) -> None:
        """Append all in one transaction. If the reply is lost, the caller reads the head again."""
        timeouts = _milliseconds(self._timeouts.lock_seconds)
        whatever = AppendEnd(Position(0), GENESIS)  # The caller has compared the ledgers itself.
        asked = [
            (append_id(), self._node, timeouts, *taking.asked, *whatever) for taking in takings
        ]
        async with self._writer.turn():
            self._refuse_if_damaged()
            connection = await self._writer.connection()
            try:
                async with whole(connection):
                    asking = connection.fetchmany(
                        self._address.sql(QUERIES["append"]),
                        asked,
                        timeout=self._timeouts.statement_seconds,
                    )
                    insist_on_places(takings, await self._writer.answer(asking))
            except VENDOR as exc:
                if is_certain(exc):
                    raise self._note(translated(exc)) from exc
                self._writer.drop()
                raise translated(exc, applied="unknown") from exc

    # ---------------------------------------------------------------------------- loss

    @property
    def loss(self) -> LedgerUnavailable | None:
        return self._presence.loss

    async def lost(self) -> LedgerUnavailable:
        return await self._presence.lost()

    async def regained(self) -> None:
        await self._presence.regained()

    def _refuse_if_lost(self) -> None:
        if (loss := self.loss) is not None:
            raise loss

    async def _prove(self, connection: DriverConnection) -> None:
        """Take the head's lock for a moment: a process that can lock and commit can append."""
        await connection.fetch(
            self._address.sql(QUERIES["lock_head"]), timeout=self._timeouts.silence_seconds
        )

    def silent(self, error: BaseException) -> None:
        """Mark the server as gone, so that no request waits to detect it by itself.

        A request already sent waits on, because its reply may come. If others got replies
        meanwhile, the server or a pooler is only busy.
        """
        since = asyncio.get_running_loop().time() - self._timeouts.silence_seconds
        if max(self._answered_at, self._news.moved_at) > since:
            return
        missing = self._reader.translated(error)
        self._presence.miss(self, missing)
        self._reader.miss(error)
        self._writer.refuse_waiting(lambda: LedgerUnavailable(str(missing), applied="no"))

    def heard(self) -> None:
        """Mark the server as reachable."""
        self._presence.find(self)

    @property
    def seen(self) -> Position:
        return self._history.position

    def fallen_back(self) -> None:
        """Reopen the connections, to compare histories: the server lacks a position seen here."""
        self._writer.drop()
        self._reader.drop()

    def _note(self, error: RankdError) -> RankdError:
        """Refuse further appends if the tables are damaged."""
        if isinstance(error, LedgerCorrupt):
            self._damage = error
        return error

    def _refuse_if_damaged(self) -> None:
        if self._closed:
            raise LedgerUnavailable("the ledger is closed", applied="no")
        if self._damage is not None:
            raise LedgerCorrupt(self._damage.problem) from self._damage

    # --------------------------------------------------------------------------- reads

    async def read(self, *, after: Position, limit: int) -> Sequence[Recorded]:
        return self._recorded(await self._rows(QUERIES["read"], after, limit))

    async def read_at(self, positions: Sequence[Position]) -> Sequence[Recorded]:
        return self._recorded(await self._rows(QUERIES["read_at"], list(positions)))

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
        if "\0" in player + (board or ""):  # PostgreSQL cannot store it: there is no such fact.
            return []
        end = POSITION_MAX if before is None else before
        asked = (player, board, after or 0, end, limit, newest_first)
        return self._recorded(await self._rows(QUERIES["facts_of"], *asked))

    def _recorded(self, rows: Sequence[Any]) -> Sequence[Recorded]:
        found: list[Recorded] = []
        time, at = None, Instant(0)
        for row in rows:
            position, row_time, kind, body = row
            if row_time != time:
                time, at = row_time, as_instant(row_time)
            found.append(Recorded(position, at, decode(kind, body)))
        if found:
            self._history.note_fact(max(found[0].position, found[-1].position))
        return found

    async def head(self) -> Position:
        last, _ = await self._last()
        return last

    async def server_time(self) -> Instant:
        rows = await self._rows(QUERIES["server_time"])
        return Instant(rows[0][0])

    async def _last(self) -> tuple[Position, bytes]:
        rows = await self._rows(QUERIES["last_append"])
        return (rows[0][0], rows[0][1]) if rows else (Position(0), GENESIS)

    async def link_at(self, position: Position) -> bytes | None:
        rows = await self._rows(QUERIES["read_link"], position)
        if rows:
            self._history.note(position, rows[0][0])
        return rows[0][0] if rows else None

    async def first_use(self, *, board: str, key: str) -> FirstUse | None:
        if "\0" in board + key:  # PostgreSQL cannot store it, so it was never used.
            return None
        rows = await self._rows(QUERIES["find_uses"], [board], [key])
        return FirstUse(*rows[0][1:]) if rows else None

    async def receipts_through(self) -> Position:
        rows = await self._rows(QUERIES["receipts_through"])
        return Position(rows[0][0])

    async def lacking_receipts(self, positions: Sequence[Position]) -> Sequence[Position]:
        rows = await self._rows(QUERIES["lacking_receipts"], positions)
        return [row[0] for row in rows]

    async def kept_receipts(self, *, after: Position, limit: int) -> Sequence[StoredReceipt]:
        rows = await self._rows(QUERIES["page_receipts"], after, POSITION_MAX, limit)
        return [StoredReceipt(row[0], row[1]) for row in rows]

    async def changed(self, *, after: Position, within_seconds: float) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_seconds
        while not self._closed and self._news.newest <= after:
            waiting = asyncio.ensure_future(self._news.wait(max(deadline - loop.time(), 0)))
            try:
                with suppress(Unavailable):  # The next read reports it.
                    if await self.head() > after:
                        return
                if loop.time() >= deadline:
                    return
                await waiting
            finally:
                waiting.cancel()

    async def _rows(self, query: str, *given: Any) -> Sequence[Any]:
        self._refuse_if_damaged()
        return await self._finished(self._fetch(self._address.sql(query), given))

    async def _fetch(self, query: str, given: tuple[Any, ...]) -> Sequence[Any]:
        async def fetch(connection: DriverConnection) -> Sequence[Any]:
            return await connection.fetch(query, *given, timeout=self._timeouts.read_seconds)

        rows = await _again(self._reader, fetch)
        self._answered_at = asyncio.get_running_loop().time()
        return rows

    async def verify(self) -> AsyncIterator[Progress]:
        """Check everything up to the current head, on a connection of its own."""
        head = await self.head()
        try:
            connection = await self._connect()
            try:
                async for progress in verification(connection, self._address, head):
                    yield progress
            finally:
                await leave(connection, seconds_max=self._timeouts.leave_seconds)
        except VENDOR as exc:
            raise self._reader.translated(exc) from exc

    # ---------------------------------------------------------------- beside the facts

    async def _archive(self, query: str, *given: Any) -> None:
        await self._written(self._writer, query, given)

    async def _keep_aside(self, query: str, *given: Any) -> None:
        await self._written(self._reader, query, given)

    async def _written(self, line: SerialConnection, query: str, given: tuple[Any, ...]) -> None:
        self._refuse_if_damaged()
        await self._finished(self._write(line, self._address.sql(query), given))

    async def _done(self, query: str, *given: Any) -> Sequence[Any]:
        """Run an idempotent write; return the rows of the statement."""
        self._refuse_if_damaged()
        return await self._finished(self._write(self._writer, self._address.sql(query), given))

    async def _write(
        self, line: SerialConnection, query: str, given: tuple[Any, ...]
    ) -> Sequence[Any]:
        async def write(connection: DriverConnection) -> Sequence[Any]:
            return await connection.fetch(query, *given, timeout=self._timeouts.statement_seconds)

        return await _again(line, write)

    async def _keep_house(self) -> None:
        """Create partitions for the coming months, periodically."""
        while True:
            await asyncio.sleep(COVER_SECONDS)
            try:
                await _again(
                    self._writer,
                    lambda connection: connection.execute(
                        self._address.sql(QUERIES["cover"]),
                        timeout=self._timeouts.statement_seconds,
                    ),
                )
            except RankdError as exc:
                _log.warning("the months ahead have no partition yet: %s", exc)


async def _prepare(
    address: PostgresAddress, node: str, timeouts: Timeouts, *, copying: bool
) -> PostgresDurability:
    """Check that the server is fit, and migrate the schema."""
    try:
        # Connect as if behind a pooler: it is not known yet.
        connection = await connect(
            address, node=node, pooled=True, seconds_max=timeouts.connect_seconds
        )
        try:
            found = await durability(connection, address, seconds_max=timeouts.connect_seconds)
            await migrate(connection, address)
            source = await connection.fetchval(address.sql(QUERIES["copied_from"]))
            if source is not None and not copying:
                raise LedgerNotCopied(
                    f"a copy of {source} into this ledger was not finished; repeat the `rankd "
                    "restore` that began it, and it goes on where it ended"
                )
            return found
        finally:
            await leave(connection, seconds_max=timeouts.leave_seconds)
    except VENDOR as exc:
        raise translated(exc, where=address.where) from exc


async def _again(line: SerialConnection, work: Callable[[DriverConnection], Awaitable[T]]) -> T:
    """Run idempotent work with exclusive use of a connection; once more if that was lost."""
    async with line.turn():
        for tries_left in (1, 0):
            connection = await line.connection()
            try:
                return await work(connection)
            except VENDOR as exc:
                if is_certain(exc) or not tries_left:
                    raise line.translated(exc) from exc
                line.drop()
        raise AssertionError("unreachable")


def _milliseconds(seconds: float) -> str:
    return f"{max(1, round(seconds * 1_000))}ms"
