"""The queries of ``sql/queries.sql`` by their names, and the schema's history.

The files call the schema ``rankd``, so that they can be read and tried as they are. Where it has
another name, that is put in its place.
"""

import re
from functools import cache
from importlib.resources import files

SCHEMA = "rankd"
"""What the schema is called in the files, and by default."""

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
"""Each leads to the schema version it is numbered with."""

SCHEMA_VERSION = max(MIGRATIONS)
assert sorted(MIGRATIONS) == list(range(1, SCHEMA_VERSION + 1)), "a migration is missing"


@cache
def in_schema(statement: str, schema: str) -> str:
    """Return a statement of the files for a schema of another name. The name must be checked."""
    if schema == SCHEMA:
        return statement
    return _QUALIFIED.sub(f'"{schema}".', statement).replace(f"'{SCHEMA}'", f"'{schema}'")
