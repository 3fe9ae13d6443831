"""Redaction: the personal data of an erased player, taken out of facts that are written.

An append keeps its link, which is made over the facts as they were, so the chain after it holds.
``FactsRedacted``, a fact in that same chain, has a digest of its present facts, over the
link before it, its own link, its place and its facts. So a later change of any of these is found.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from typing import NamedTuple

from rankd.adapters.postgres.batch import as_instant
from rankd.adapters.postgres.database import QUERIES, DriverConnection, PostgresAddress
from rankd.adapters.postgres.rows import GENESIS, digest, link, row_of
from rankd.errors import Corrupt, LedgerCorrupt, LedgerUnavailable
from rankd.model.facts import CODEC, Fact, FactsRedacted, Position, RedactedPart, decode


class _Redacted(NamedTuple):
    """A fact whose row is to be replaced."""

    position: Position
    kind: str
    body: bytes
    fact: Fact


class _AppendPart(NamedTuple):
    """The facts of an append as they will be."""

    at: datetime
    part: RedactedPart
    changed: Sequence[_Redacted]


async def parts_with(
    connection: DriverConnection,
    address: PostgresAddress,
    positions: Sequence[Position],
    player: str,
    through: Position,
) -> tuple[RedactedPart, ...]:
    """Return the appends with some facts of a player, as they will be."""
    found: list[RedactedPart] = []
    for position in sorted(positions):
        if not found or position > found[-1].last:
            found.append((await _part(connection, address, position, player, through)).part)
    return tuple(found)


async def redact(
    connection: DriverConnection, address: PostgresAddress, fact: FactsRedacted
) -> None:
    """Rewrite the parts that a fact tells, in the transaction of the fact."""
    for told in fact.parts:
        part = await _part(connection, address, told.last, fact.player, fact.through)
        if part.part != told:
            raise LedgerUnavailable("the facts to be redacted were changed meanwhile", applied="no")
        for row in part.changed:
            details = row_of(row.fact).details
            given = (part.at, row.position, row.kind, row.body, details)
            await connection.execute(address.sql(QUERIES["redact_fact"]), *given)
            if (name := row.fact.identity()) is not None:
                used = (*name, row.position, row.fact.fingerprint())
                await connection.execute(address.sql(QUERIES["redact_key"]), *used)
    if fact.complete:
        for board, window, since in await connection.fetch(
            address.sql(QUERIES["archived_windows"])
        ):
            place = (board, window, since, fact.player)
            await connection.execute(address.sql(QUERIES["redact_standing"]), *place)
        await connection.execute(address.sql(QUERIES["redact_lists"]), fact.player)
        await connection.execute(address.sql(QUERIES["redact_books"]), fact.through)


async def _part(
    connection: DriverConnection,
    address: PostgresAddress,
    position: Position,
    player: str,
    through: Position,
) -> _AppendPart:
    found = await connection.fetchrow(address.sql(QUERIES["append_with"]), position)
    if found is None:
        raise LedgerCorrupt("a redacted fact is not there", position=position)
    first, last, at, own, previous = found
    rows = await connection.fetch(address.sql(QUERIES["facts_of_append"]), at, first, last)
    kinds, bodies = [row["kind"] for row in rows], [row["body"] for row in rows]
    changed: list[_Redacted] = []
    named = player.encode()
    for place, row in enumerate(rows):
        if row["position"] <= through and named in row["body"]:
            fact = decode(row["kind"], row["body"])
            if fact.is_about(player) and fact.redacted() is not fact:
                kind, body = CODEC.redacted(row["kind"], row["body"])
                kinds[place], bodies[place] = kind, body
                changed.append(_Redacted(row["position"], kind, body, fact.redacted()))
    facts, before = digest(kinds, bodies), previous or GENESIS
    now = link(before, first=first, last=last, at=as_instant(at), facts=facts)
    digested = sha256(own + now).digest()
    return _AppendPart(at, RedactedPart(last, own, digested), changed)


class RedactedAppends:
    """The appends that differ from their links, each as its last redaction tells."""

    def __init__(self, connection: DriverConnection, address: PostgresAddress) -> None:
        self._connection, self._address = connection, address
        self._told: dict[Position, RedactedPart] = {}
        """By last position, the last redaction of each append."""
        self._explained: set[Position] = set()
        self._scanned = Position(0)

    async def explain(self, last: Position) -> bool:
        """Whether an append that differs from its link is as the last redaction tells."""
        async with self._connection.transaction(isolation="repeatable_read", readonly=True):
            await self._scan()
            part = self._told.get(last)
            explained = part is not None and await self._present(last) == part
        self._explained.update([last] if explained else [])
        return explained

    async def check(self) -> None:
        """Check that each append is as the last redaction of it tells. Raises LedgerCorrupt."""
        async with self._connection.transaction(isolation="repeatable_read", readonly=True):
            await self._scan()
            for part in self._told.values():
                if part.last in self._explained:
                    continue
                present = await self._present(part.last)
                # With another link it is a fact that was copied from another ledger.
                if present.link == part.link and present.digest != part.digest:
                    raise LedgerCorrupt("erased data is back", position=part.last)

    async def _present(self, last: Position) -> RedactedPart:
        found = await _part(self._connection, self._address, last, "", Position(0))
        return found.part

    async def _scan(self) -> None:
        """Read the redactions recorded since the last scan."""
        rows = await self._connection.fetch(
            self._address.sql(QUERIES["redactions_after"]), self._scanned, FactsRedacted.kind
        )
        for row in rows:
            self._scanned = row["position"]
            with suppress(Corrupt):  # It is found when its turn comes.
                fact = decode(row["kind"], row["body"])
                assert isinstance(fact, FactsRedacted)
                for part in fact.parts:
                    self._told[part.last] = part
                    self._explained.discard(part.last)
