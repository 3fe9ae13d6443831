"""Verification names the commits that were edited, all of them, and no other."""

from contextlib import closing
from pathlib import Path

import apsw
import pytest

from rankd.adapters import EDITED_COMMITS_SHOWN_MAX, broken_chain
from rankd.adapters.sqlite.ledger import SQLiteLedger
from rankd.errors import LedgerCorrupt
from rankd.model.facts import FriendsSet

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def filled(folder: Path) -> None:
    async with SQLiteLedger.open(folder) as ledger:
        for commit in range(6):
            facts = [FriendsSet(f"p{commit}", (f"q{number}",)) for number in range(commit + 1)]
            await ledger.append(facts, now=1_000 + commit)


def edit(folder: Path, first: int, change: str) -> None:
    with closing(apsw.Connection(str(folder / "ledger.db"))) as database:
        database.execute(f"UPDATE block SET {change} WHERE first = {first}")


async def problem(folder: Path) -> str:
    async with SQLiteLedger.open(folder) as ledger:
        with pytest.raises(LedgerCorrupt) as found:
            async for _ in ledger.verify():
                pass
    return str(found.value)


async def test_each_edited_commit_is_named(tmp_path: Path) -> None:
    await filled(tmp_path)
    edit(tmp_path, 2, "facts = CAST(facts || x'00' AS BLOB)")
    edit(tmp_path, 7, "at = at + 1")
    assert await problem(tmp_path) == (
        "at position 2: the hash chain is broken: edited since they were written are the facts "
        "2 to 3 and 7 to 10"
    )


async def test_an_edited_link_does_not_fit_those_on_either_side(tmp_path: Path) -> None:
    await filled(tmp_path)
    edit(tmp_path, 1, "link = zeroblob(length(link))")
    assert (await problem(tmp_path)).endswith("are the facts 1 and 2 to 3")


def test_so_many_edited_commits_are_named() -> None:
    many = [(number, number) for number in range(1, EDITED_COMMITS_SHOWN_MAX + 3)]
    assert str(broken_chain(many)).endswith("19, 20 and 2 more commits")
