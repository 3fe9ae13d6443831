"""Facts of one player, found by runs, by the tail in memory, and else by reading blocks.

Runs say where a player's facts are, up to some tens of thousands before the ledger's end; the tail
says it for the rest. The rest is scanned: a ledger whose runs are not built yet, or the range of a
run that was damaged. The tail reads each fact once, by the first question after its append. So
every answer is complete, and only its time depends on the runs.

It works on a thread of its own, which the first question starts: no other read waits for a scan.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import apsw

from rankd.adapters.sqlite.blocks import pages_after, pages_before, recorded_at
from rankd.adapters.sqlite.database import DatabaseThread
from rankd.adapters.sqlite.player_entries import (
    ENTRY_BYTES,
    POSITION_MAX,
    SEED_BYTES,
    PlayerQuestion,
    entries_of,
    find,
    hash_of_player,
)
from rankd.adapters.sqlite.player_runs import PlayerRun, PlayerRuns, RunDamaged
from rankd.adapters.sqlite.queries import QUERIES, fetch
from rankd.errors import LedgerUnavailable
from rankd.model.facts import Position, Recorded

TAIL_FACTS_MAX = 131_072
"""Facts at the end that are held: 1.6 MB. Two ranges, because one may be on its way into a run."""

_SEED = bytes(SEED_BYTES)
"""No secret: ids that share a hash in the tail cost a part of a scan, and only for a while."""


class PlayerTail:
    """Entries of the last facts. For one thread."""

    def __init__(self) -> None:
        self.after = Position(0)
        """The facts after this position are held."""
        self._through = Position(0)
        self._entries = bytearray()

    def cover(self, database: apsw.Connection, after: Position, head: Position) -> None:
        """Hold the facts after a position, as far as that is allowed, up to the head."""
        wanted = Position(max(after, head - TAIL_FACTS_MAX))
        if wanted >= self._through or wanted < self.after:
            self.after = self._through = wanted
            self._entries.clear()
        for page in pages_after(database, self._through, head):
            parts = [entries_of(block, _SEED) for block in page]
            self._entries += b"".join(parts)
            self._through = page[-1].last
        self._forget(wanted)

    def _forget(self, through: Position) -> None:
        """Drop the entries that a run covers, once they are half of all."""
        gone = through - self.after
        if gone * 2 < self._through - self.after or not gone:
            return
        places = range(0, len(self._entries), ENTRY_BYTES)
        kept = next((at for at in places if self._position(at) > through), len(self._entries))
        del self._entries[:kept]
        self.after = through

    def _position(self, at: int) -> int:
        return int.from_bytes(self._entries[at + 5 : at + 10], "big")

    def find(self, asked: PlayerQuestion) -> Iterator[list[int]]:
        """Yield the positions of a player's facts, at once, oldest first."""
        wanted = hash_of_player(_SEED, asked.player, asked.board)
        found = find(self._entries, *wanted)
        yield [position for position in found if asked.after < position < asked.before]


_log = logging.getLogger(__name__)


def question(
    player: str,
    board: str | None,
    after: Position | None,
    before: Position | None,
    *,
    newest_first: bool,
) -> PlayerQuestion:
    """Return a question, with the ledger's ends where no position is given."""
    end = Position(POSITION_MAX) if before is None else before
    return PlayerQuestion(player, board, after or Position(0), end, newest_first)


class PlayerFactsReader:
    """Answers of one reader of a ledger."""

    def __init__(
        self,
        folder: Path,
        connect: Callable[[], Callable[[], apsw.Connection]],
        *,
        on_damage: Callable[[Path], None] | None = None,
    ) -> None:
        """``connect`` returns how to connect at this time; ``on_damage`` gets a damaged run."""
        self._folder, self._connect, self._on_damage = folder, connect, on_damage
        self._lane: DatabaseThread | None = None
        self._runs, self._tail = PlayerRuns(folder), PlayerTail()
        self._closed = False

    async def find(self, question: PlayerQuestion, limit: int) -> Sequence[Recorded]:
        """Return up to ``limit`` facts."""
        if self._closed:
            raise LedgerUnavailable("the ledger is closed", applied="no")
        if self._lane is None:
            self._lane = DatabaseThread("players")
            try:
                await self._lane.open(self._connect())
            except BaseException:
                self._lane = None
                raise
        return await self._lane.run(partial(self._find, question=question, limit=limit))

    async def close(self) -> None:
        """End the thread, for good."""
        self._closed = True
        await self.forget()

    async def forget(self) -> None:
        """Close everything; the next question begins anew."""
        lane, self._lane = self._lane, None
        if lane is not None:
            await lane.close(_leave_wal)
        self._runs.close()
        self._runs, self._tail = PlayerRuns(self._folder), PlayerTail()

    def _find(
        self, database: apsw.Connection, question: PlayerQuestion, limit: int
    ) -> list[Recorded]:
        while True:
            try:
                return self._found(database, question, limit)
            except RunDamaged as exc:  # Each one once: it is used no more.
                _log.warning("a run of players is damaged, and is built anew: %s", exc)
                self._runs.discard(exc.path)
                if self._on_damage is not None:
                    self._on_damage(exc.path)

    def _found(
        self, database: apsw.Connection, question: PlayerQuestion, limit: int
    ) -> list[Recorded]:
        found: list[Recorded] = []
        for positions in self._positions(database, question):
            for start in range(0, len(positions), max(limit, 1)):
                if len(found) >= limit:
                    return found[:limit]
                found += _read(database, question, positions[start : start + limit])
        return found[:limit]

    def _positions(
        self, database: apsw.Connection, question: PlayerQuestion
    ) -> Iterator[Sequence[int]]:
        """Yield positions of facts that may be the player's, in the order of the question."""
        head = _head(database)  # First: the runs may be further by then.
        runs = self._usable_runs(database)
        sealed = runs[-1].range.last if runs else Position(0)
        before = min(question.before, Position(head + 1))
        if before > sealed + 1 and head > question.after:
            self._tail.cover(database, sealed, head)
        asked = question._replace(before=before)
        segments = list(_segments(runs, self._tail, head))
        for first, last, source in reversed(segments) if asked.newest_first else segments:
            after, end = max(asked.after, first - 1), min(asked.before, last + 1)
            if end > after + 1:
                part = asked._replace(after=Position(after), before=Position(end))
                yield from _search(database, source, part)

    def _usable_runs(self, database: apsw.Connection) -> Sequence[PlayerRun]:
        try:
            return self._runs.refresh(database)
        except OSError as exc:
            _log.warning("runs of players cannot be read, so facts are scanned: %s", exc)
            return ()


_Segment = tuple[int, int, PlayerRun | PlayerTail | None]
"""First and last position, and the index of the players in between; None if there is none."""


def _segments(runs: Iterable[PlayerRun], tail: PlayerTail, head: Position) -> Iterator[_Segment]:
    """Yield parts of the ledger up to the head, oldest first, without a gap."""
    last = 0
    for run in runs:
        if run.range.first > last + 1:
            yield last + 1, run.range.first - 1, None
        yield run.range.first, run.range.last, run
        last = run.range.last
    if tail.after > last:
        yield last + 1, tail.after, None
    yield max(last, tail.after) + 1, max(head, last), tail


def _search(
    database: apsw.Connection, source: PlayerRun | PlayerTail | None, asked: PlayerQuestion
) -> Iterator[Sequence[int]]:
    pages = _scan(database, asked) if source is None else source.find(asked)
    for page in pages:
        yield page[::-1] if asked.newest_first else page


def _scan(database: apsw.Connection, asked: PlayerQuestion) -> Iterator[list[int]]:
    """Yield the positions of each block, oldest first within it."""
    wanted = hash_of_player(_SEED, asked.player, asked.board)
    pages = (
        pages_before(database, asked.before, asked.after)
        if asked.newest_first
        else pages_after(database, asked.after, Position(asked.before - 1))
    )
    for page in pages:
        for block in page:
            found = find(entries_of(block, _SEED), *wanted)
            yield [position for position in found if asked.after < position < asked.before]


def _read(
    database: apsw.Connection, question: PlayerQuestion, positions: Sequence[int]
) -> list[Recorded]:
    """Return the facts at some positions that are the player's, in the order of the question."""
    found = [
        recorded
        for recorded in recorded_at(database, sorted(positions))
        if recorded.fact.is_about(question.player, question.board)
    ]
    return found[::-1] if question.newest_first else found


def _head(database: apsw.Connection) -> Position:
    rows = fetch(database, QUERIES["last_block"])
    return Position(rows[0][0]) if rows else Position(0)


def _leave_wal(database: apsw.Connection) -> None:
    with suppress(apsw.Error):
        database.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
