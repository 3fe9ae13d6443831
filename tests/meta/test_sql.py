"""Every named query is used, and every name that is used is defined."""

import re
from pathlib import Path

import pytest

ADAPTERS = Path(__file__).parents[2] / "src" / "rankd" / "adapters"
FOLDERS = sorted(path.parent.parent for path in ADAPTERS.glob("*/sql/queries.sql"))
DEFINED = re.compile(r"^-- (\w+) --$", re.MULTILINE)
USED = re.compile(r'QUERIES\[\s*"(\w+)"\s*\]')


def test_there_are_queries_to_look_at() -> None:
    assert "sqlite" in {folder.name for folder in FOLDERS}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_queries_and_their_names_belong_together(folder: Path) -> None:
    defined = DEFINED.findall((folder / "sql" / "queries.sql").read_text())
    used = {name for module in folder.glob("*.py") for name in USED.findall(module.read_text())}
    assert len(defined) == len(set(defined))
    assert set(defined) == used


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_query_says_what_it_is_for(folder: Path) -> None:
    text = (folder / "sql" / "queries.sql").read_text()
    names = DEFINED.findall(text)
    assert re.findall(r"^-- (\w+) --\n-- \w", text, re.MULTILINE) == names


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_migrations_are_numbered_one_after_another_and_named_at_their_top(folder: Path) -> None:
    """Two of one number are easily merged, and one of them would never be made."""
    files = sorted((folder / "sql" / "migrations").glob("*.sql"))
    assert [int(file.name[:4]) for file in files] == list(range(1, len(files) + 1))
    for file in files:
        assert file.read_text().startswith(f"-- {file.name}\n"), file.name
