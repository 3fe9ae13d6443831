"""Translation of errors of PostgreSQL, its driver and the network.

The decisive question is whether an append was applied. An ERROR means that the server has rolled
the transaction back. Any other error, FATAL included, only means that the connection is gone: the
transaction may have been committed just before.
"""

from typing import Literal

import asyncpg  # type: ignore[import-untyped]

from rankd.errors import LedgerCorrupt, LedgerUnavailable, RankdError

VENDOR = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,  # Includes TimeoutError.
)
"""Every error that a call of the driver raises, except programming errors."""

_RETRIED = frozenset({"40001", "40P01", "55P03"})
"""Serialization failure, deadlock, lock time-out: a retry may succeed."""

# Errors that may pass if the caller waits, or the operator repairs the server: by class, and by
# code. Any other means that the tables are not ours, or are damaged.
_PASSING_CLASSES = frozenset({"08", "25", "28", "3D", "40", "53", "55", "57", "58"})
_PASSING_CODES = frozenset({"42501"})


def is_certain(error: BaseException) -> bool:
    """Whether the server reports that nothing was applied."""
    if not isinstance(error, asyncpg.PostgresError):
        return False
    return _severity(error) == "ERROR" and _code(error)[:2] != "08"


def is_retried(error: BaseException) -> bool:
    """Whether an immediate retry of the same statement may succeed."""
    return is_certain(error) and _code(error) in _RETRIED


def translated(
    error: BaseException, *, where: str = "", applied: Literal["no", "unknown"] = "no"
) -> RankdError:
    """Translate an error into one of rankd's; ``where`` names the server it came from."""
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
    # The second is in the server's language; poolers send only that one.
    return getattr(error, "severity_en", None) or getattr(error, "severity", None)


def said(error: BaseException) -> str:
    """Return the first line of an error, or its type: further lines may repeat the data sent."""
    return str(error).partition("\n")[0] or type(error).__name__
