"""Queries of ``sql/queries.sql`` by name, how to run them, and the migrations."""

from typing import Any

import apsw

from rankd.adapters import read_migrations, read_queries, read_sql

_PACKAGE = "rankd.adapters.sqlite"

QUERIES = read_queries(_PACKAGE)
SCHEMA = read_sql(_PACKAGE, "schema.sql")
MIGRATIONS = read_migrations(_PACKAGE)
SCHEMA_VERSION = max(MIGRATIONS)


def fetch(database: apsw.Connection, query: str, **bindings: object) -> list[tuple[Any, ...]]:
    """Return all rows of a query. An open cursor would keep the WAL from being emptied."""
    return database.execute(query, bindings).fetchall()
