"""schema.sql is what the migrations, applied in order, come to."""

from collections.abc import Iterable

import apsw

from rankd.adapters.sqlite.queries import MIGRATIONS, SCHEMA, SCHEMA_VERSION


def described(statements: Iterable[str]) -> dict[str, object]:
    """Everything SQLite knows of each table and index but the layout of its text."""
    database = apsw.Connection(":memory:")
    try:
        for statement in statements:
            database.execute(statement)
        made = database.execute("SELECT type, name, tbl_name FROM sqlite_schema").fetchall()
        return {
            f"{kind} {name} on {table}": (
                database.execute("SELECT * FROM pragma_table_xinfo(?)", (name,)).fetchall(),
                database.execute("SELECT * FROM pragma_index_xinfo(?)", (name,)).fetchall(),
                database.execute("SELECT * FROM pragma_table_list(?)", (name,)).fetchall(),
            )
            for kind, name, table in made
        }
    finally:
        database.close()


def test_the_schema_equals_the_sum_of_its_migrations() -> None:
    migrated = described(MIGRATIONS[version] for version in range(1, SCHEMA_VERSION + 1))
    assert described([SCHEMA]) == migrated
    assert any(name.startswith("table block") for name in migrated)


def test_a_difference_between_the_two_would_be_seen() -> None:
    changed = SCHEMA.replace("at    INTEGER NOT NULL", "at    INTEGER")
    assert changed != SCHEMA
    assert described([changed]) != described([SCHEMA])
