"""Queries of ``sql/queries.sql`` by name, how to run them, and the migrations."""

import re
from importlib.resources import files
from typing import Any

import apsw

_SQL = files("rankd.adapters.sqlite") / "sql"
_NAME = re.compile(r"^-- (\w+) --\n", re.MULTILINE)


def _named(text: str) -> dict[str, str]:
    _, *parts = _NAME.split(text)
    names, statements = parts[::2], parts[1::2]
    assert len(set(names)) == len(names), "a query's name is taken"
    return dict(zip(names, statements, strict=True))


QUERIES = _named((_SQL / "queries.sql").read_text(encoding="utf-8"))

SCHEMA = (_SQL / "schema.sql").read_text(encoding="utf-8")

MIGRATIONS: dict[int, str] = {
    int(file.name[:4]): file.read_text(encoding="utf-8")
    for file in sorted((_SQL / "migrations").iterdir(), key=lambda file: file.name)
    if file.name.endswith(".sql")
}
"""Migrations by the schema version they lead to."""

SCHEMA_VERSION = max(MIGRATIONS)
assert sorted(MIGRATIONS) == list(range(1, SCHEMA_VERSION + 1)), "a migration is missing"


def fetch(database: apsw.Connection, query: str, **bindings: object) -> list[tuple[Any, ...]]:
    """Return all rows of a query. An open cursor would keep the WAL from being emptied."""
    return database.execute(query, bindings).fetchall()
