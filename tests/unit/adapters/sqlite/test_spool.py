"""What waits on a node's disk: kept, in order, once, and bounded."""

from pathlib import Path

import pytest

from rankd.adapters.sqlite import spool as module
from rankd.adapters.sqlite.spool import FILE, SpoolFile
from rankd.errors import LedgerInUse, LedgerUnavailable
from rankd.model.facts import ScoreSubmitted

pytestmark = pytest.mark.anyio


def submitted(number: int) -> ScoreSubmitted:
    return ScoreSubmitted("b", f"p{number}", (number,), key=f"k{number}")


async def test_what_was_put_is_given_out_in_order_until_it_is_dropped(tmp_path: Path) -> None:
    facts = [submitted(number) for number in range(5)]
    async with SpoolFile.open(tmp_path) as spool:
        assert spool.waiting == 0 and await spool.first(10) == (0, [])
        await spool.put(facts[:2])
        await spool.put(facts[2:])
        assert spool.waiting == 5
    async with SpoolFile.open(tmp_path) as spool:  # Another life.
        assert spool.waiting == 5
        through, some = await spool.first(3)
        assert list(some) == facts[:3]
        assert await spool.first(3) == (through, some)
        await spool.drop(through)
        assert spool.waiting == 2
        await spool.put([submitted(9)])
        assert list((await spool.first(10))[1]) == [*facts[3:], submitted(9)]


async def test_it_is_synced_and_belongs_to_one_process(tmp_path: Path) -> None:
    async with SpoolFile.open(tmp_path) as spool:
        level = await spool._lane.run(lambda database: database.pragma("synchronous"))
        mode = await spool._lane.run(lambda database: database.pragma("journal_mode"))
        assert (level, mode) == (2, "wal")
        with pytest.raises(LedgerInUse):
            async with SpoolFile.open(tmp_path):
                pass
    assert (tmp_path / FILE).exists()


async def test_more_than_may_wait_is_refused_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAITING_FACTS_MAX", 3)
    async with SpoolFile.open(tmp_path) as spool:
        await spool.put([submitted(1), submitted(2)])
        with pytest.raises(LedgerUnavailable) as refused:
            await spool.put([submitted(3), submitted(4)])
        assert refused.value.applied == "no"
        assert spool.waiting == 2 and len((await spool.first(10))[1]) == 2
