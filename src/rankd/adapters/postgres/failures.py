"""What errors of PostgreSQL, of its driver and of the network mean to a caller.

The one question that matters is whether an append was applied. An ERROR is the server's own word
that the transaction was rolled back. Anything else, a FATAL one included, says only that the
connection is gone: the transaction may have been committed a moment before.
"""

from typing import Literal

import asyncpg  # type: ignore[import-untyped]

from rankd.errors import LedgerCorrupt, LedgerUnavailable, RankdError

VENDOR = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,  # Also what a deadline raises.
)
"""Everything that can come out of a call of the driver but a mistake of ours."""

_RETRIED = frozenset({"40001", "40P01", "55P03"})
"""A conflict, a deadlock, a lock that was not to be had in time: another time it may work."""

# What may pass if the caller waits, or mends the server: by class, and by code. Anything else means
# that the tables are not those we made, or do not hold what we wrote.
_PASSING_CLASSES = frozenset({"08", "25", "28", "3D", "40", "53", "55", "57", "58"})
_PASSING_CODES = frozenset({"42501"})


def is_certain(error: BaseException) -> bool:
    """Return whether the server itself says that nothing was done."""
    if not isinstance(error, asyncpg.PostgresError):
        return False
    return _severity(error) == "ERROR" and _code(error)[:2] != "08"


def is_retried(error: BaseException) -> bool:
    """Return whether the same statement may work the next moment."""
    return is_certain(error) and _code(error) in _RETRIED


def translated(
    error: BaseException, *, where: str = "", applied: Literal["no", "unknown"] = "no"
) -> RankdError:
    """Return what an error means to a caller; ``where`` the server is that it came from."""
    server = f"PostgreSQL at {where}" if where else "PostgreSQL"
    if not isinstance(error, asyncpg.PostgresError):
        return LedgerUnavailable(f"{server} cannot be reached: {said(error)}", applied=applied)
    code = _code(error)
    problem = f"{server} says {code or 'nothing'}: {said(error)}"
    passing = code[:2] in _PASSING_CLASSES or code in _PASSING_CODES
    if applied == "unknown" or passing or _severity(error) != "ERROR":
        return LedgerUnavailable(problem, applied=applied)
    return LedgerCorrupt(problem)


def _code(error: asyncpg.PostgresError) -> str:
    return getattr(error, "sqlstate", None) or ""


def _severity(error: asyncpg.PostgresError) -> str | None:
    # The second is in the server's language; poolers send no other.
    return getattr(error, "severity_en", None) or getattr(error, "severity", None)


def said(error: BaseException) -> str:
    """Return the first line: what follows may repeat what was sent; of one without, its kind."""
    return str(error).partition("\n")[0] or type(error).__name__
