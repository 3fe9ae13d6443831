"""Checks of a PostgreSQL server before nodes use it, for ``rankd doctor``."""

import asyncpg  # type: ignore[import-untyped]

from rankd.adapters.postgres.database import (
    QUERIES,
    SCHEMA_VERSION,
    VENDOR,
    DriverConnection,
    PostgresAddress,
    connect,
    leave,
    problems,
    translated,
)
from rankd.errors import NoLedger
from rankd.model.window import Instant
from rankd.ports import Finding

SECONDS_MAX = 5.0
"""Limit for connecting, and for closing."""


async def examine(url: str) -> list[Finding]:
    """Inspect a server without changing it. Raises InvalidSetting, LedgerUnavailable."""
    address = PostgresAddress.parse(url)
    try:
        connection = await connect(address, node="doctor", pooled=True, seconds_max=SECONDS_MAX)
        try:
            return [*await _server(connection, address), await _schema(connection, address)]
        finally:
            await leave(connection, seconds_max=SECONDS_MAX)
    except asyncpg.InvalidAuthorizationSpecificationError as exc:
        refused = "it runs, and refused the role or its password: see PGPASSWORD, or PGPASSFILE"
        return [Finding("PostgreSQL", str(translated(exc, where=address.where)), refused)]
    except VENDOR as exc:
        raise translated(exc, where=address.where) from exc


async def times(url: str) -> tuple[Instant | None, Instant]:
    """Return the time of the last fact, None if there is none, and the server's time.

    Raises InvalidSetting, LedgerUnavailable.
    """
    address = PostgresAddress.parse(url)
    try:
        connection = await connect(address, node="doctor", pooled=True, seconds_max=SECONDS_MAX)
        try:
            now = await connection.fetchval(address.sql(QUERIES["server_time"]))
            found = await connection.fetchrow(address.sql(QUERIES["schema_exists"]))
            if not found["begun"]:
                return None, now
            return await connection.fetchval(address.sql(QUERIES["last_time"])), now
        finally:
            await leave(connection, seconds_max=SECONDS_MAX)
    except VENDOR as exc:
        raise translated(exc, where=address.where) from exc


async def insist_on_begun(url: str) -> None:
    """Raise NoLedger if there is no ledger at a URL. Changes nothing."""
    address = PostgresAddress.parse(url)
    try:
        connection = await connect(address, node="doctor", pooled=True, seconds_max=SECONDS_MAX)
        try:
            found = await connection.fetchrow(address.sql(QUERIES["schema_exists"]))
        finally:
            await leave(connection, seconds_max=SECONDS_MAX)
    except VENDOR as exc:
        raise translated(exc, where=address.where) from exc
    if not found["begun"]:
        raise NoLedger(f"the schema {address.schema} at {address.where} holds no ledger yet")


async def _server(connection: DriverConnection, address: PostgresAddress) -> list[Finding]:
    found = await connection.fetchrow(address.sql(QUERIES["server"]))
    shown = ", ".join(
        f"{name} {found[name]}" for name in ("fsync", "full_page_writes", "synchronous_commit")
    )
    if found["synchronous_commit"] == "off":
        shown += " (on for what rankd appends)"
    advice = "; ".join(problems(found))
    return [Finding("PostgreSQL", found["name"]), Finding("durability", shown, advice)]


async def _schema(connection: DriverConnection, address: PostgresAddress) -> Finding:
    found = await connection.fetchrow(address.sql(QUERIES["schema_exists"]))
    if not found["begun"]:
        strange = "it is of another program: name another with ?schema=" if found["strange"] else ""
        return Finding("schema", f"{address.schema}, with no ledger in it yet", strange)
    version: int = await connection.fetchval(address.sql(QUERIES["schema_version"]))
    shown = f"{address.schema}, version {version}"
    if version > SCHEMA_VERSION:
        return Finding("schema", shown, f"this rankd knows {SCHEMA_VERSION}: use a newer one")
    if version < SCHEMA_VERSION:
        shown += f", which the next node that starts makes {SCHEMA_VERSION}"
    return Finding("schema", shown)
