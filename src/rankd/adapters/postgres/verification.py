"""Check that the tables hold exactly the data that was written to them.

The facts are read from the first to the last, some rows at a time. Checks:

1. Each append's link is the hash of the link before it and of its row, its facts included; or else
   its last redaction has the digest of its present facts.
2. Positions begin at 1 and have no holes; times go back only where they were corrected, and facts
   have that of their append.
3. Every body can be decoded as a fact of its kind, and the readable columns agree with it.
4. The table of keys has an entry for each fact with a key, and no other.
5. Every receipt has its checksum and belongs to a fact; each append counts the missing ones.
6. The table of players equals the fold of the facts.

No database can prove by itself that nothing was cut off its end: that takes the last link, stored
elsewhere.
"""

from collections import deque
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from rankd.adapters import broken_chain
from rankd.adapters.player_rows import StoredPlayer, fold
from rankd.adapters.postgres.batch import as_instant
from rankd.adapters.postgres.database import QUERIES, DriverConnection, PostgresAddress
from rankd.adapters.postgres.redaction import RedactedAppends
from rankd.adapters.postgres.rows import (
    GENESIS,
    AppendDigest,
    as_stored,
    checksum,
    link,
    row_of,
)
from rankd.errors import Corrupt, LedgerCorrupt
from rankd.model.facts import (
    Fact,
    Position,
    corrects_time,
    decode,
    is_submission,
)
from rankd.ports import Progress

PAGE_ROWS = 2_000
"""Facts, appends and receipts read per query: a few megabytes at most."""

PLAYERS_TOGETHER_MAX = 100_000
"""Players folded at a time; with more, the facts are read more than once."""

_BEGINNING = datetime(1, 1, 1, tzinfo=UTC)


async def verification(
    connection: DriverConnection, address: PostgresAddress, head: Position
) -> AsyncIterator[Progress]:
    """Check everything up to a position; yield the progress of each step. Raises LedgerCorrupt."""
    yield Progress(0, head, "facts", "fact")
    walk = _Walk(connection, address, head)
    while await walk.step():
        yield Progress(walk.reached, head, "facts", "fact")
    walk.finish()
    await walk.redacted.check()
    yield Progress(head, head, "facts", "fact")
    found = await connection.fetchval(address.sql(QUERIES["count_keys"]), head)
    if found != walk.keyed:
        raise LedgerCorrupt(f"{walk.keyed} facts have a key, the key table has {found}")
    yield Progress(found, found, "keys", "key")
    async for kept in _receipts(connection, address, head):
        yield Progress(kept, kept, "receipts", "receipt")
    async for progress in _players(connection, address):
        yield progress


# -------------------------------------------------------------------------------- facts


class _Append(NamedTuple):
    first: Position
    last: Position
    at: datetime
    link: bytes
    lacking: int
    kept: int


class _Walk:
    """Walk over facts and appends together, in order."""

    def __init__(
        self, connection: DriverConnection, address: PostgresAddress, head: Position
    ) -> None:
        self._connection, self._address, self._head = connection, address, head
        self.reached = Position(0)
        self.keyed = 0
        self._time = _BEGINNING
        self._corrections: deque[tuple[Position, datetime]] | None = None
        """The coming ones: where the time goes back, and to when."""
        self._corrected = Position(0)
        """The last one that was reached."""
        self._appends: deque[_Append] = deque()
        self._read = Position(0)
        """Last position of the appends read so far."""
        self._link = GENESIS
        self._digest = AppendDigest()
        self.redacted = RedactedAppends(connection, address)
        self._earning = 0
        """Submissions with a key in the current append."""
        self._edited: list[tuple[int, int]] = []
        """The first and last positions of appends whose links do not fit."""

    async def step(self) -> bool:
        """Check the next rows; return whether there were any."""
        until = await self._uncorrected_until()
        rows = await self._connection.fetch(
            self._address.sql(QUERIES["page_facts"]), self._time, self.reached, until, PAGE_ROWS
        )
        names = [await self._take(row) for row in rows]
        await self._check_keys([name for name in names if name is not None])
        return bool(rows)

    async def _uncorrected_until(self) -> Position:
        """Go back in time where that was corrected; return the position before the next one."""
        if self._corrections is None:
            found = await self._connection.fetch(self._address.sql(QUERIES["time_corrections"]))
            self._corrections = deque((row["position"], row["at"]) for row in found)
        if self._corrections and self._corrections[0][0] == self.reached + 1:
            self._corrected, self._time = self._corrections.popleft()
        coming = self._corrections[0][0] if self._corrections else self._head + 1
        return Position(min(self._head, coming - 1))

    def finish(self) -> None:
        """Raise LedgerCorrupt unless all facts were seen, and are those that were written."""
        if self._edited:
            raise broken_chain(self._edited)
        if self.reached != self._head:
            raise LedgerCorrupt(f"facts are missing up to {self._head}", position=self.reached + 1)

    async def _take(self, row: Any) -> tuple[Position, Fact] | None:
        position = row["position"]
        append = await self._append_of(position)
        if position != self.reached + 1 or row["at"] != append.at:
            raise LedgerCorrupt("the fact does not follow the one before", position=position)
        fact = _readable(row)
        if corrects_time([fact]) != (position == self._corrected):
            raise LedgerCorrupt("the time was not corrected there", position=position)
        self.reached, self._time = position, row["at"]
        self._digest.add(row["kind"], row["body"])
        name = fact.identity()
        if name is not None:
            self.keyed += 1
            self._earning += is_submission(fact)
        if position == append.last:
            await self._close(append)
        return None if name is None else (position, fact)

    async def _append_of(self, position: Position) -> _Append:
        if not self._appends:
            rows = await self._connection.fetch(
                self._address.sql(QUERIES["page_appends"]), self._read, PAGE_ROWS
            )
            if not rows:
                raise LedgerCorrupt("the fact belongs to no append", position=position)
            self._appends.extend(_Append(*row) for row in rows)
            self._read = self._appends[-1].last
        append = self._appends[0]
        if not append.first <= position <= append.last or append.first > self.reached + 1:
            raise LedgerCorrupt("the fact belongs to no append", position=position)
        return append

    async def _close(self, append: _Append) -> None:
        expected = link(
            self._link,
            first=append.first,
            last=append.last,
            at=as_instant(append.at),
            facts=self._digest.digest(),
        )
        if append.link != expected and not await self.redacted.explain(append.last):
            self._edited.append((append.first, append.last))
        elif append.lacking != max(self._earning - append.kept, 0):
            raise LedgerCorrupt("receipts are missing or too many", position=append.first)
        self._appends.popleft()
        self._link, self._digest, self._earning = append.link, AppendDigest(), 0

    async def _check_keys(self, keyed: Sequence[tuple[Position, Fact]]) -> None:
        """Check that each key is in the table of keys."""
        names = [fact.identity() for _, fact in keyed]
        boards, keys = [name[0] for name in names if name], [name[1] for name in names if name]
        rows = await self._connection.fetch(self._address.sql(QUERIES["find_uses"]), boards, keys)
        found = {row["place"] - 1: (row["first_at"], row["fingerprint"]) for row in rows}
        for place, (position, fact) in enumerate(keyed):
            first_at, kept = found.get(place, (None, None))
            if first_at != position or kept not in fact.fingerprints():
                raise LedgerCorrupt("the key is not in the key table", position=position)


def _readable(row: Any) -> Fact:
    """Return the fact of a row, after a check that its columns agree with its bytes."""
    try:
        fact = decode(row["kind"], row["body"])
    except Corrupt as exc:
        raise LedgerCorrupt(str(exc), position=row["position"]) from exc
    scores = None if row["scores"] is None else tuple(row["scores"])
    shown = (row["board"], row["player"], row["key"], scores, row["delta"])
    if (*shown, row["window_id"], row["actor"], row["details"]) != tuple(row_of(fact)):
        raise LedgerCorrupt("the columns do not say what the fact does", position=row["position"])
    return fact


# ----------------------------------------------------------------------------- receipts


async def _receipts(
    connection: DriverConnection, address: PostgresAddress, head: Position
) -> AsyncIterator[int]:
    """Check receipts up to a position; of later ones, only that they belong to a fact."""
    stray = await connection.fetchval(address.sql(QUERIES["stray_receipt"]))
    if stray is not None:
        raise LedgerCorrupt("the receipt belongs to no fact", position=stray)
    after, kept = 0, 0
    query = address.sql(QUERIES["page_receipts"])
    while rows := await connection.fetch(query, after, head, PAGE_ROWS):
        for position, body, found in rows:
            if found != checksum(position, body):
                raise LedgerCorrupt("the receipt is not the one kept", position=position)
        after, kept = rows[-1]["position"], kept + len(rows)
        yield kept


# ------------------------------------------------------------------------------ players


async def _players(
    connection: DriverConnection, address: PostgresAddress
) -> AsyncIterator[Progress]:
    """Compare the table with the fold of the facts, a part of the players at a time."""
    many = await connection.fetchval(address.sql(QUERIES["count_players"]))
    parts = many // PLAYERS_TOGETHER_MAX + 1
    yield Progress(0, parts, "players", "part")
    for part in range(parts):
        # A snapshot: appends may go on meanwhile.
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            await _check_part(connection, address, parts, part)
        yield Progress(part + 1, parts, "players", "part")


async def _check_part(
    connection: DriverConnection, address: PostgresAddress, parts: int, part: int
) -> None:
    players: dict[str, StoredPlayer] = {}
    told = connection.cursor(
        address.sql(QUERIES["told_of_players"]), parts, part, prefetch=PAGE_ROWS
    )
    async for position, kind, body in told:
        if (change := decode(kind, body).profile_change()) is not None:
            fold(players, [(position, as_stored(change))])
    rows = connection.cursor(address.sql(QUERIES["read_players"]), parts, part, prefetch=PAGE_ROWS)
    async for player, name, attributes, friends, position in rows:
        found = StoredPlayer(player, name, _loaded(attributes), _loaded(friends), position)
        expected = players.pop(player, None)
        if expected != found:
            raise _wrong_player(expected or found)
    for missing in players.values():
        raise _wrong_player(missing)


def _loaded(text: str) -> str:
    """Return JSON in canonical form, independent of the stored order and spaces.

    As text, because in Python ``True`` equals 1.
    """
    return msgspec.json.encode(msgspec.json.decode(text), order="deterministic").decode()


def _wrong_player(player: StoredPlayer) -> LedgerCorrupt:
    return LedgerCorrupt("the player is not as the facts tell", position=player.position)
