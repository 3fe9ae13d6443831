"""A disk that fails once, at every write and sync of a whole engine's life: never a wrong "no".

One rule: what was acknowledged is there once; what was answered ``no`` is not there; what was
answered ``unknown`` is there whole or not at all, and whoever repeats it with its key is counted
once. A save that fails takes nothing with it: the engine goes on, and a later start finds the
ledger's truth, from the save before or from none.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.simulation.engine_power_loss import Asked, SetClock, Watch, engine_on

from rankd.adapters.sqlite import SQLiteLedger
from rankd.adapters.sqlite import ledger as adapter
from rankd.bootstrap import INDEX
from rankd.core.engine import Engine
from rankd.errors import LedgerUnavailable, Refused
from rankd.model.facts import Position
from rankd.testing.faults import FailAt, disk_full, io_error, watched_disk

pytestmark = pytest.mark.anyio
NEVER = -1
BOARD: dict[str, Any] = {"rule": "sum", "windows": ["all", "daily"]}


@pytest.fixture(autouse=True)
def _frequent_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "WAL_PAGES_MAX", 8)


@dataclass
class Client:
    """Asks for one thing after another, and remembers what it was told of each."""

    facts: dict[str, int] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)
    items: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    saves_failed: int = 0

    async def live(self, rankd: Engine, clock: SetClock) -> None:
        """Go on whatever happens: whoever was refused asks again for something else."""
        await self._define(rankd, BOARD)
        await self._submit(rankd, 3)
        await self._save(rankd)
        await self._submit(rankd, 1)
        await self._define(rankd, {**BOARD, "rule": "best"})
        clock.time += 24 * 3_600_000_000
        await self._submit(rankd, 20)
        await self._save(rankd)
        await self._submit(rankd, 2)

    async def _submit(self, rankd: Engine, many: int) -> None:
        mark = f"m{len(self.facts)}"
        items = [
            {"player": f"p{place}", "score": place, "key": f"{mark}/{place}"}
            for place in range(many)
        ]
        self.items[mark] = items
        await self._call(mark, many, lambda: rankd.submit("b", items, actor=mark))

    async def _define(self, rankd: Engine, definition: dict[str, Any]) -> None:
        mark = f"m{len(self.facts)}"
        known = "b" in rankd.state.boards
        call = rankd.redefine if known else rankd.define
        await self._call(mark, 1, lambda: call("b", definition, actor=mark))

    async def _call(self, mark: str, facts: int, work: Callable[[], Any]) -> None:
        self.facts[mark] = facts
        try:
            await work()
        except LedgerUnavailable as exc:
            self.told[mark] = exc.applied
        except Refused:
            self.told[mark] = "no"  # The board could not be defined before.
        else:
            self.told[mark] = "yes"

    async def _save(self, rankd: Engine) -> None:
        try:
            await rankd.save()
        except (OSError, LedgerUnavailable):
            self.saves_failed += 1


async def live(folder: Path, fault: FailAt, client: Client) -> None:
    with watched_disk(fault) as disk:
        try:
            async with SQLiteLedger.open(folder, vfs=disk) as ledger:
                clock = SetClock()
                async with engine_on(ledger, folder, clock) as rankd:
                    await client.live(rankd, clock)
        except LedgerUnavailable as exc:
            assert exc.applied == "no"  # It could not be opened.
            assert not client.facts


async def judge(folder: Path, client: Client) -> None:
    async with SQLiteLedger.open(folder) as ledger, engine_on(ledger, folder, SetClock()) as rankd:
        await compare(ledger, client)
        for mark, items in client.items.items():
            if client.told[mark] != "no" and "b" in rankd.state.boards:
                for _ in range(2):
                    await rankd.submit("b", items, actor=mark)
                client.told[mark] = "yes"
        await compare(ledger, client)
        async for _ in rankd.verify():
            pass


async def compare(ledger: SQLiteLedger, client: Client) -> None:
    facts = await ledger.read(after=Position(0), limit=1_000)
    marks = Counter(getattr(one.fact, "actor", None) for one in facts)
    for mark, told in client.told.items():
        many = client.facts[mark]
        allowed = {"yes": {many}, "no": {0}, "unknown": {0, many}}[told]
        assert marks[mark] in allowed, (mark, told)


@pytest.mark.parametrize("error", [io_error, disk_full])
@pytest.mark.parametrize("done", [False, True], ids=["not done", "done"])
async def test_no_answer_is_wrong_wherever_the_ledgers_disk_fails(
    scratch: Path, error: Callable[[], apsw.Error], done: bool
) -> None:
    unharmed, client = FailAt(NEVER), Client()
    await live(scratch / "unharmed", unharmed, client)
    assert set(client.told.values()) == {"yes"}
    assert unharmed.seen > 30
    told: Counter[str] = Counter()
    for number in range(unharmed.seen):
        folder, client = scratch / str(number), Client()
        await live(folder, FailAt(number, error, done=done), client)
        await judge(folder, client)
        told.update(client.told.values())
    assert told["yes"] > told["no"] > 0


class FailingWatch(Watch):
    """Raises once, when something was done to the saved index."""

    def __init__(self, folder: Path, fails: int) -> None:
        super().__init__(folder, [])
        self.seen, self._fails = 0, fails

    def note(self, asked: Asked) -> None:
        self.seen += 1
        if self.seen - 1 == self._fails:
            raise OSError(5, "injected")


async def saved_through(folder: Path, watch: FailingWatch) -> Client:
    client = Client()
    with watch.watching():
        await live(folder, FailAt(NEVER), client)
    return client


async def test_a_save_that_fails_anywhere_takes_nothing_with_it(scratch: Path) -> None:
    folder = scratch / "unharmed"
    unharmed = FailingWatch(folder / INDEX, NEVER)
    assert (await saved_through(folder, unharmed)).saves_failed == 0
    assert unharmed.seen > 20
    for number in range(unharmed.seen):
        folder = scratch / str(number)
        client = await saved_through(folder, FailingWatch(folder / INDEX, number))
        assert set(client.told.values()) == {"yes"}
        assert client.saves_failed <= 1
        await judge(folder, client)
