"""The tail holds the ledger's end, and no more than it may."""

from pathlib import Path

import apsw
import pytest
from tests.unit.adapters.sqlite.runs_building import NOW, facts, small_runs

from rankd.adapters.sqlite import SQLiteLedger
from rankd.adapters.sqlite.database import FILE
from rankd.adapters.sqlite.player_entries import POSITION_MAX, PlayerQuestion
from rankd.adapters.sqlite.player_facts import PlayerTail
from rankd.model.facts import Position

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def found_in(tail: PlayerTail, board: str | None, *, after: int = 0) -> list[int]:
    end = Position(POSITION_MAX)
    asked = PlayerQuestion("p1", board, Position(after), end, newest_first=False)
    return [position for page in tail.find(asked) for position in page]


async def test_it_follows_the_ledger_and_forgets_what_runs_cover(tmp_path: Path) -> None:
    async with SQLiteLedger.open(tmp_path) as ledger:
        database = apsw.Connection(str(tmp_path / FILE), flags=apsw.SQLITE_OPEN_READONLY)
        tail = PlayerTail()
        with small_runs(tail=40):
            for head in range(5, 400, 5):
                await ledger.append(facts(head - 5, 5), now=NOW)
                sealed = head - head % 30
                tail.cover(database, Position(sealed), Position(head))
                assert len(tail._entries) <= 12 * 2 * 40
                assert tail.after <= sealed
                found = found_in(tail, None, after=sealed)
                assert found == [at for at in range(sealed + 1, head + 1) if at % 5 == 2]
                on_one = [at for at in found_in(tail, None) if at % 2 == 0]
                assert found_in(tail, "c") == on_one
            tail.cover(database, Position(0), Position(395))
            assert tail.after == 355
        database.close()
