"""A short stretch of the power-loss campaign, and proof that it would find what it looks for."""

from random import Random

import pytest
from tests.simulation.power_loss import acknowledge_then_append, campaign, every_moment

from rankd.adapters.sqlite import database
from rankd.testing.faults import Acknowledged, Crash, Kind, Operation

pytestmark = pytest.mark.anyio
IMAGES = 500
SEED = 1
"""The same each time, so that one run says what all say; the long campaign draws its own."""
DRAWS = 10_000
"""So many that an outcome as rare as one in a hundred is drawn for certain, whatever the seed."""
COMMAND = f"python -m tests.simulation.power_loss --seed {SEED} --images {IMAGES}"


async def test_what_was_acknowledged_was_synced_at_every_moment() -> None:
    findings = await every_moment()
    assert findings.images > 100
    assert not findings.problems


async def test_no_power_cut_takes_what_was_acknowledged() -> None:
    findings = await campaign(images=IMAGES, seed=SEED)
    assert findings.images == IMAGES
    assert not findings.problems, COMMAND


async def test_a_ledger_that_syncs_less_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: with synchronous=NORMAL commits are not synced, and must get lost here."""
    monkeypatch.setattr(database, "SYNCHRONOUS", "NORMAL")
    findings = await every_moment()
    assert any("were acknowledged" in problem for problem in findings.problems)


async def test_a_ledger_that_acknowledges_before_its_commit_is_caught() -> None:
    findings = await every_moment(acknowledge_then_append)
    assert any("were acknowledged" in problem for problem in findings.problems)


def images(record: list[Operation | Acknowledged]) -> set[tuple[tuple[str, bytes], ...]]:
    crash, random = Crash(record, after=len(record)), Random(1)
    return {tuple(sorted(crash.files(random).items())) for _ in range(DRAWS)}


def created(name: str) -> list[Operation | Acknowledged]:
    return [Operation(Kind.CREATE, name), Operation(Kind.SYNC, name)]


def test_what_was_synced_is_never_forgotten() -> None:
    record = [*created("a"), Operation(Kind.WRITE, "a", 0, b"x" * 600), Operation(Kind.SYNC, "a")]
    assert images(record) == {(("a", b"x" * 600),)}
    assert Crash(record, after=4).synced() == {"a": b"x" * 600}
    assert Crash(record, after=3).synced() == {"a": b""}
    assert Crash(record, after=1).synced() == {}


def test_what_was_not_synced_may_be_there_in_part() -> None:
    found = images([*created("a"), Operation(Kind.WRITE, "a", 0, b"x" * 1_024)])
    assert {files[0][1] for files in found} == {
        b"",
        b"x" * 512,
        bytes(512) + b"x" * 512,
        b"x" * 1_024,
    }


def test_a_name_without_a_sync_may_be_missing_and_a_deleted_file_may_be_back() -> None:
    new: list[Operation | Acknowledged] = [Operation(Kind.CREATE, "a")]
    assert images(new) == {(), (("a", b""),)}
    assert images([*created("a"), Operation(Kind.DELETE, "a")]) == {(), (("a", b""),)}
