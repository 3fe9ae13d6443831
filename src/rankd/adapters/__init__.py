"""One folder per vendor; each keeps the promises of a port and translates its vendor's errors.

Those of SQL databases keep their statements in files: queries by name, and migrations by schema
version. They are read by the functions here. Those that write files use ``sync_folder``.
"""

import os
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from rankd.errors import LedgerCorrupt

_NAME = re.compile(r"^-- (\w+) --\n", re.MULTILINE)


def read_queries(package: str) -> dict[str, str]:
    """Return the statements of ``sql/queries.sql`` by their names, which are unique."""
    _, *parts = _NAME.split(read_sql(package, "queries.sql"))
    names, statements = parts[::2], parts[1::2]
    assert len(set(names)) == len(names), "a query's name is taken"
    return dict(zip(names, statements, strict=True))


def read_migrations(package: str) -> dict[int, str]:
    """Return the migrations by the schema version they lead to, from 1 on without a gap."""
    folder = files(package) / "sql" / "migrations"
    names = sorted(file.name for file in folder.iterdir() if file.name.endswith(".sql"))
    migrations = {int(name[:4]): read_sql(package, f"migrations/{name}") for name in names}
    assert list(migrations) == list(range(1, len(migrations) + 1)), "a migration is missing"
    return migrations


def read_sql(package: str, name: str) -> str:
    """Return the text of a file in the folder ``sql``."""
    return files(package).joinpath("sql", name).read_text(encoding="utf-8")


def sync_folder(folder: Path) -> None:
    """Make names that were added to a folder as durable as the files they name."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    finally:
        os.close(number)


EDITED_COMMITS_SHOWN_MAX = 20
"""Commits that the error of a broken hash chain names; of the others it tells how many."""


def broken_chain(commits: Sequence[tuple[int, int]]) -> LedgerCorrupt:
    """Return the error for commits, by first and last position, whose links do not fit."""
    shown = [
        f"{first:,}" if first == last else f"{first:,} to {last:,}"
        for first, last in commits[:EDITED_COMMITS_SHOWN_MAX]
    ]
    if len(commits) > len(shown):
        shown.append(f"{len(commits) - len(shown):,} more commits")
    named = shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
    problem = f"the hash chain is broken: edited since they were written are the facts {named}"
    return LedgerCorrupt(problem, position=commits[0][0])
