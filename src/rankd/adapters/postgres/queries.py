"""Queries of ``sql/queries.sql`` by name, and the migrations.

The files call the schema ``rankd``, so that they can be read and run as they are. For a schema with
another name, it is replaced.
"""

import re
from functools import cache

from rankd.adapters.sql_files import read_migrations, read_queries

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
