"""A disk that fails once, at every write and every sync of a ledger's life.

One rule: what was acknowledged is there once; what was answered ``no`` is not there; what was
answered ``unknown`` is there once or not at all, and whoever repeats it with its key is counted
once. A ledger that said ``unknown`` says nothing else until it is opened anew.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import apsw
import pytest

from rankd.adapters.sqlite import SQLiteLedger
from rankd.adapters.sqlite import ledger as adapter
from rankd.errors import LedgerUnavailable
from rankd.model.facts import Attributes, Position, ScoreSubmitted
from rankd.model.window import Instant
from rankd.testing.faults import FailAt, disk_full, io_error, watched_disk

pytestmark = pytest.mark.anyio
NOW = Instant(1_763_000_000_000_000)
APPENDS = 8
NEVER = -1


@pytest.fixture(autouse=True)
def _frequent_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "WAL_PAGES_MAX", 8)


@dataclass
class Client:
    """Sends submissions with keys, and remembers what it was told of each."""

    acknowledged: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)

    async def send(self, ledger: SQLiteLedger, number: int) -> None:
        keys = {f"{number}/{n}" for n in range(3)}
        told: Attributes = {"append": number}
        facts = [
            ScoreSubmitted("b", "p", scores=(number,), key=key, attributes=told)
            for key in sorted(keys)
        ]
        try:
            await ledger.append(facts, now=NOW)
        except LedgerUnavailable as exc:
            assert exc.applied in ("no", "unknown")
            (self.refused if exc.applied == "no" else self.unknown).update(keys)
            if exc.applied == "unknown":
                await refuses_everything(ledger)
        else:
            self.acknowledged |= keys


async def refuses_everything(ledger: SQLiteLedger) -> None:
    with pytest.raises(LedgerUnavailable) as refusal:
        await ledger.append([ScoreSubmitted("b", "p", scores=(0,))], now=NOW)
    assert refusal.value.applied == "no"
    with pytest.raises(LedgerUnavailable):
        await ledger.read(after=Position(0), limit=1)
    with pytest.raises(LedgerUnavailable):
        await ledger.head()


async def live(folder: Path, fault: FailAt, client: Client) -> None:
    """Append through the fault, without repeating anything."""
    with watched_disk(fault) as disk:
        try:
            async with SQLiteLedger.open(folder, vfs=disk) as ledger:
                for number in range(APPENDS):
                    await client.send(ledger, number)
                    if client.unknown:
                        break
        except LedgerUnavailable as exc:
            assert exc.applied == "no"  # It could not be opened.


async def judge(folder: Path, client: Client) -> None:
    async with SQLiteLedger.open(folder) as ledger:
        async for _ in ledger.verify():
            pass
        found = [entry.fact for entry in await ledger.read(after=Position(0), limit=1_000)]
        keys = [fact.key for fact in found if isinstance(fact, ScoreSubmitted)]
        assert len(set(keys)) == len(keys)
        assert client.acknowledged <= set(keys)
        assert not client.refused & set(keys)
        assert client.unknown & set(keys) in (set(), client.unknown)
        again = [ScoreSubmitted("b", "p", scores=(0,), key=key) for key in sorted(client.unknown)]
        for _ in range(2):
            await ledger.append(again, now=NOW)
        for key in client.unknown | client.acknowledged:
            assert await ledger.first_use(board="b", key=key) is not None
        assert await ledger.head() == len(set(keys) | client.unknown)


@pytest.mark.parametrize("error", [io_error, disk_full])
@pytest.mark.parametrize("done", [False, True], ids=["not done", "done"])
@pytest.mark.parametrize("for_good", [False, True], ids=["once", "for good"])
async def test_no_answer_is_wrong_wherever_the_disk_fails(
    scratch: Path, error: Callable[[], apsw.Error], done: bool, for_good: bool
) -> None:
    unharmed = FailAt(NEVER)
    await live(scratch / "unharmed", unharmed, Client())
    assert unharmed.seen > 40
    outcomes = {"refused": 0, "unknown": 0, "unnoticed": 0}
    for number in range(unharmed.seen):
        folder, client = scratch / str(number), Client()
        fault = FailAt(number, error, done=done, for_good=for_good)
        await live(folder, fault, client)
        assert fault.failed
        outcomes["unknown" if client.unknown else "refused" if client.refused else "unnoticed"] += 1
        await judge(folder, client)
    assert outcomes["unknown"] >= APPENDS  # Each commit has a write and a sync at least.


async def test_a_commit_whose_confirmation_was_lost_may_be_there(scratch: Path) -> None:
    """Why it is ``unknown`` and not ``no``: both outcomes do happen."""
    unharmed = FailAt(NEVER)
    await live(scratch / "unharmed", unharmed, Client())
    there = set()
    for number in range(unharmed.seen):
        folder, client = scratch / str(number), Client()
        await live(folder, FailAt(number, done=True), client)
        if client.unknown:
            async with SQLiteLedger.open(folder) as ledger:
                there.add(await ledger.head() > len(client.acknowledged))
    assert there == {True, False}


async def test_a_busy_file_is_a_certain_no_and_passes(scratch: Path) -> None:
    async with SQLiteLedger.open(scratch) as ledger:
        other = apsw.Connection(str(scratch / "ledger.db"))
        try:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(LedgerUnavailable) as refusal:
                await ledger.append([ScoreSubmitted("b", "p", scores=(1,))], now=NOW)
            assert refusal.value.applied == "no"
            assert await ledger.head() == 0
            other.execute("ROLLBACK")
        finally:
            other.close()
        await ledger.append([ScoreSubmitted("b", "p", scores=(1,))], now=NOW)
        assert await ledger.head() == 1
