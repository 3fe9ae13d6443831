"""Queries of ``sql/queries.sql`` by name, and the migrations.

The files call the schema ``rankd``, so that they can be read and run as they are. For a schema with
another name, it is replaced.
"""

import re
from functools import cache
from importlib.resources import files

SCHEMA = "rankd"
"""Name of the schema in the files, and by default."""

_SQL = files("rankd.adapters.postgres") / "sql"
_NAME = re.compile(r"^-- (\w+) --\n", re.MULTILINE)
_QUALIFIED = re.compile(rf"\b{SCHEMA}\.(?=\w)")


def _named(text: str) -> dict[str, str]:
    _, *parts = _NAME.split(text)
    names, statements = parts[::2], parts[1::2]
    assert len(set(names)) == len(names), "a query's name is taken"
    return dict(zip(names, statements, strict=True))


QUERIES = _named((_SQL / "queries.sql").read_text(encoding="utf-8"))

MIGRATIONS: dict[int, str] = {
    int(file.name[:4]): file.read_text(encoding="utf-8")
    for file in sorted((_SQL / "migrations").iterdir(), key=lambda file: file.name)
    if file.name.endswith(".sql")
}
"""Migrations by the schema version they lead to."""

SCHEMA_VERSION = max(MIGRATIONS)
assert sorted(MIGRATIONS) == list(range(1, SCHEMA_VERSION + 1)), "a migration is missing"


@cache
def in_schema(statement: str, schema: str) -> str:
    """Return a statement for a schema of another name, which the caller has validated."""
    if schema == SCHEMA:
        return statement
    return _QUALIFIED.sub(f'"{schema}".', statement).replace(f"'{SCHEMA}'", f"'{schema}'")
