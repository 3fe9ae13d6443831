"""The database: its address, connecting, durability checks, queries, schema upgrade and errors.

A URL names the database, as every tool of PostgreSQL takes it; ``?schema=`` names the schema, and
all other parameters are the driver's: ``postgresql://rankd@db/games?schema=rankd&sslmode=require``.

No session state is relied on, so that a pooler may assign another server connection to each
transaction (PgBouncer's transaction mode). Behind one, statements are not prepared under names, and
LISTEN does not work. A pooler is detected by the process id: a server reports its own to each
connection, and a pooler, which has chosen no server connection yet, invents one.

The files of SQL call the schema ``rankd``, so that they can be read and run as they are. For a
schema with another name, it is replaced.

Several processes may upgrade at once: the first one takes a lock that ends with its transaction,
and the others find the work done. All steps are one transaction, so that an interrupted upgrade
leaves no trace.

The decisive question about an error is whether an append was applied. An ERROR means that the
server has rolled the transaction back. Any other error, FATAL included, only means that the
connection is gone: the transaction may have been committed just before.
"""

import logging
import os
import re
from collections.abc import Awaitable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, NamedTuple, Protocol
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

import asyncpg  # type: ignore[import-untyped]

from rankd.adapters import read_migrations, read_queries
from rankd.errors import InvalidSetting, LedgerCorrupt, LedgerTooNew, LedgerUnavailable, RankdError

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


SCHEMA = "rankd"
"""Name of the schema in the files, and by default."""

_PACKAGE = "rankd.adapters.postgres"
_QUALIFIED = re.compile(rf"\b{SCHEMA}\.(?=\w)")

QUERIES = read_queries(_PACKAGE)
MIGRATIONS = read_migrations(_PACKAGE)
SCHEMA_VERSION = max(MIGRATIONS)


@cache
def in_schema(statement: str, schema: str) -> str:
    """Return a statement for a schema of another name, which the caller has validated."""
    if schema == SCHEMA:
        return statement
    return _QUALIFIED.sub(f'"{schema}".', statement).replace(f"'{SCHEMA}'", f"'{schema}'")


VERSION_MIN = 14
"""Oldest version that PostgreSQL's developers still support; ``extract`` is exact from it on."""

PORT = "5432"

STATEMENTS_MAX = 32
"""More than there are queries: each is prepared once per connection, and then costs one round
trip."""

_log = logging.getLogger(__name__)

_PORT = re.compile(r"[^:]:[0-9]+$")  # Not the end of an IPv6 address such as ::1.
_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,47}")  # "facts_2026_11" and a channel must fit.


class DriverConnection(Protocol):
    """Methods used of the driver's connection."""

    def fetch(self, query: str, *args: Any, timeout: float | None = None) -> Awaitable[list[Any]]:
        """Return all rows."""

    def fetchmany(
        self, query: str, args: Any, *, timeout: float | None = None
    ) -> Awaitable[list[Any]]:
        """Return all rows of a statement executed with many arguments, in one transaction."""

    def fetchrow(self, query: str, *args: Any, timeout: float | None = None) -> Awaitable[Any]:
        """Return the first row, None if there is none."""

    def fetchval(self, query: str, *args: Any, timeout: float | None = None) -> Awaitable[Any]:
        """Return the first value of the first row."""

    def execute(self, query: str, *args: Any, timeout: float | None = None) -> Awaitable[str]:
        """Execute, and return the command tag. Without arguments it may be several statements."""

    def transaction(self, *, isolation: str | None = None, readonly: bool = False) -> Any:
        """Return a context manager for a transaction."""

    def cursor(self, query: str, *args: Any, prefetch: int | None = None) -> Any:
        """Return rows to iterate over within a transaction, fetched in batches."""

    async def add_listener(self, channel: str, callback: Any) -> None:
        """Call a function for each notification."""

    def add_termination_listener(self, callback: Any) -> None:
        """Call a function when the connection is closed or lost."""

    def get_server_pid(self) -> int:
        """Return the server's process id, as reported on this connection."""

    def is_closed(self) -> bool:
        """Return whether the connection is closed or lost."""

    def close(self, *, timeout: float | None = None) -> Awaitable[None]:
        """Close the connection in order."""

    def terminate(self) -> None:
        """Abort the connection."""


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """URL and schema of a ledger."""

    url: str = field(repr=False)  # It may hold a password.
    schema: str = SCHEMA

    @classmethod
    def parse(cls, url: str) -> "PostgresAddress":
        """Parse a URL. Raises InvalidSetting."""
        try:
            parts = urlsplit(url)
        except ValueError:
            raise _invalid("is not a URL") from None
        if parts.scheme not in ("postgresql", "postgres"):
            raise _invalid("must begin with postgresql://")
        parameters = parse_qsl(parts.query, keep_blank_values=True)
        schemas = [value for name, value in parameters if name == "schema"] or [SCHEMA]
        reserved = schemas[0].startswith("pg_")
        if len(schemas) > 1 or reserved or not _SCHEMA_NAME.fullmatch(schemas[0]):
            raise _invalid(
                "must name one schema: small letters, digits and _, at most 48, not pg_ before them"
            )
        kept = urlencode([(name, value) for name, value in parameters if name != "schema"])
        return cls(urlunsplit(parts._replace(query=kept)), schemas[0])

    @property
    def where(self) -> str:
        """Return host and port for error messages, without secrets."""
        parts = urlsplit(self.url)
        asked = dict(parse_qsl(parts.query))
        hosts = parts.netloc.rpartition("@")[2] or asked.get("host") or os.environ.get("PGHOST")
        port = asked.get("port") or os.environ.get("PGPORT") or PORT
        named = [unquote(host) for host in (hosts or "localhost").split(",")]
        return ",".join(host if _PORT.search(host) else f"{host}:{port}" for host in named)

    def sql(self, statement: str) -> str:
        """Return a statement of the files for this schema."""
        return in_schema(statement, self.schema)


def _invalid(problem: str) -> InvalidSetting:
    return InvalidSetting(setting="ledger", source="the ledger's URL", problem=problem)


async def connect(
    address: PostgresAddress, *, node: str, pooled: bool, seconds_max: float
) -> DriverConnection:
    """Open a connection. Raises the driver's errors."""
    try:
        connection: DriverConnection = await asyncpg.connect(
            address.url,
            timeout=seconds_max,
            statement_cache_size=0 if pooled else STATEMENTS_MAX,
            server_settings={"application_name": f"rankd {node}".strip()},
        )
    except (ValueError, asyncpg.InterfaceError) as exc:
        if isinstance(exc, OSError | asyncpg.PostgresError):
            raise
        raise _invalid(f"cannot be used: {exc}") from None
    try:
        await _learn_types(connection, seconds_max)
    except BaseException:
        connection.terminate()
        raise
    return connection


_ARRAYS = "SELECT NULL::bigint[], NULL::boolean[], NULL::bytea[], NULL::text[]"


async def _learn_types(connection: DriverConnection, seconds_max: float) -> None:
    """Let the driver learn the array types used here, before an append waits for it.

    The driver queries the server when it first meets a type, and the query takes a second if the
    server compiles it (jit). The driver disables jit for its session; but behind a pooler each
    query is of another session, unless they are of one transaction.
    """
    # Not with the driver's context manager: it would wait for a silent server to roll back.
    await connection.execute("BEGIN; SET LOCAL jit = off", timeout=seconds_max)
    await connection.fetch(_ARRAYS, timeout=seconds_max)
    # The driver's setting would otherwise apply to the next user of the session.
    await connection.execute("RESET jit; COMMIT", timeout=seconds_max)


# --------------------------------------------------------------------------- durability


class PostgresDurability(NamedTuple):
    """Settings in force, read back from the server."""

    postgres: str
    fsync: str
    full_page_writes: str
    synchronous_commit: str
    """In force for appends, independent of the role's default."""
    pooled: bool
    """Whether the connection leads through a pooler."""


async def durability(
    connection: DriverConnection, address: PostgresAddress, *, seconds_max: float
) -> PostgresDurability:
    """Check that the server is durable. Raises LedgerUnavailable if it is not."""
    found = await connection.fetchrow(address.sql(QUERIES["server"]), timeout=seconds_max)
    for problem in problems(found):
        raise LedgerUnavailable(problem, applied="no")
    commit = found["synchronous_commit"]
    if commit == "local":
        _log.warning("synchronous_commit = local: commits would not wait for a standby")
    return PostgresDurability(
        postgres=found["name"],
        fsync=found["fsync"],
        full_page_writes=found["full_page_writes"],
        synchronous_commit="on" if commit == "off" else commit,  # rankd.append_facts sets it.
        pooled=found["pid"] != connection.get_server_pid(),
    )


def problems(found: Any) -> list[str]:
    """Return the reasons why a server with these settings is unfit for a ledger."""
    version, isolation = found["version"], found["isolation"]
    wrong = {
        f"PostgreSQL {found['name']} is too old; rankd needs {VERSION_MIN} or later": (
            version < VERSION_MIN * 10_000
        ),
        "this PostgreSQL is a standby and takes no writes; name the primary": found["standby"],
        "this PostgreSQL has fsync = off and loses commits in a power cut; turn it on": (
            found["fsync"] != "on"
        ),
        "this PostgreSQL has full_page_writes = off and can be left torn by a power cut; "
        "turn it on": found["full_page_writes"] != "on",
        "commits wait for no standby, though synchronous_standby_names is set, and are lost when "
        "one takes over; set synchronous_commit = on": (
            found["synchronous_commit"] == "local" and found["standbys"] != ""
        ),
        "transactions are read-only by default here; set default_transaction_read_only = off": (
            found["read_only"] != "off"
        ),
        f"transactions are {isolation.upper()} by default here; rankd needs READ COMMITTED: "
        "set default_transaction_isolation": isolation != "read committed",
        f"the database is encoded in {found['encoding']}; rankd needs UTF8": (
            found["encoding"] != "UTF8"
        ),
    }
    return [problem for problem, is_so in wrong.items() if is_so]


async def leave(connection: DriverConnection, *, seconds_max: float) -> None:
    """Close a connection, and abort it if the server does not reply."""
    try:
        await connection.close(timeout=seconds_max)
    except VENDOR:
        connection.terminate()


async def migrate(connection: DriverConnection, address: PostgresAddress) -> None:
    """Upgrade the schema to the newest version.

    Raises LedgerCorrupt for a schema of another program, LedgerTooNew for a newer version.
    """
    async with connection.transaction():
        await connection.execute(address.sql(QUERIES["lock_migrations"]))
        for version in range(await _version(connection, address) + 1, SCHEMA_VERSION + 1):
            await connection.execute(address.sql(MIGRATIONS[version]))
            await connection.execute(address.sql(QUERIES["add_version"]), version)
        await connection.execute(address.sql(QUERIES["cover"]))


async def _version(connection: DriverConnection, address: PostgresAddress) -> int:
    found = await connection.fetchrow(address.sql(QUERIES["schema_exists"]))
    if not found["named"]:
        await connection.execute(f'CREATE SCHEMA "{address.schema}"')
    if not found["begun"]:
        if found["strange"]:
            raise LedgerCorrupt(f"the schema {address.schema} is of another program")
        return 0
    version: int = await connection.fetchval(address.sql(QUERIES["schema_version"]))
    if version > SCHEMA_VERSION:
        place = f"the ledger in {address.schema}"
        raise LedgerTooNew(place, schema=version, known=SCHEMA_VERSION)
    return version
