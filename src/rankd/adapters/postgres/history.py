"""Part of the ledger that this process has seen, which every server must have.

The address may lead to another server from one connection to the next: a standby that lagged when
it was promoted, or a restored backup. An append there would assign positions a second time. So each
new connection is compared with the history before it is used, and each append once more, in its own
statement: behind a pooler a server is replaced under a connection.
"""

from typing import NamedTuple

from rankd.adapters.postgres.database import DriverConnection, PostgresAddress
from rankd.adapters.postgres.queries import QUERIES
from rankd.adapters.postgres.rows import GENESIS
from rankd.errors import LedgerUnavailable
from rankd.model.facts import Position

OTHER_HISTORY = ""
"""Reply of a server to an append if it lacks the last append seen."""


class AppendEnd(NamedTuple):
    """An append by its last position and its link, which covers everything up to it."""

    last: Position
    link: bytes


class LedgerHistory:
    """Highest append and highest fact that this process has seen."""

    def __init__(self) -> None:
        self.append = AppendEnd(Position(0), GENESIS)
        self.position = Position(0)
        """Position of the highest fact, which may be of a later append."""

    def note(self, last: Position, link: bytes) -> None:
        """Record an append that was made or found."""
        if last > self.append.last:
            self.append = AppendEnd(last, link)
        self.note_fact(last)

    def note_fact(self, position: Position) -> None:
        """Record that a fact was read."""
        self.position = max(self.position, position)

    async def compare(
        self, connection: DriverConnection, address: PostgresAddress, *, seconds_max: float
    ) -> None:
        """Raise LedgerUnavailable unless the server has the seen history."""
        seen, position = self.append, self.position
        found = await connection.fetchrow(
            address.sql(QUERIES["compare_history"]), seen.last, timeout=seconds_max
        )
        if found["head"] < position:
            raise LedgerUnavailable(
                f"the ledger of this PostgreSQL ends at {found['head']:,}, and this node has seen "
                f"position {position:,}: it is an older copy; {_REMEDY}",
                applied="no",
            )
        if seen.last and found["link"] != seen.link:
            raise LedgerUnavailable(
                f"this PostgreSQL has another ledger: it differs at or before position "
                f"{seen.last:,}; {_REMEDY}",
                applied="no",
            )


_REMEDY = "nothing is appended until the right one is back (to go on with this one, restart)"
