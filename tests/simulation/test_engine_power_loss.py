"""Power cuts under the whole engine at every moment of two lives, and proof that losses show."""

from pathlib import Path

import pytest
from tests.simulation.engine_power_loss import (
    Asked,
    Change,
    IndexCrash,
    after_a_lie,
    campaign,
    every_moment,
    lived,
)

from rankd.adapters.sqlite import database

pytestmark = pytest.mark.anyio
IMAGES = 60
SEED = 1
"""The same each time, so that one run says what all say; the long campaign draws its own."""
COMMAND = f"python -m tests.simulation.engine_power_loss --seed {SEED} --images {IMAGES}"


async def test_what_was_acknowledged_and_saved_was_synced_at_every_moment() -> None:
    findings = await every_moment()
    assert findings.images > 150
    assert findings.believed > 50
    assert not findings.problems


async def test_no_power_cut_parts_the_index_from_the_ledger() -> None:
    findings = await campaign(images=IMAGES, seed=SEED)
    assert findings.images == IMAGES
    assert not findings.problems, COMMAND


async def test_a_save_that_is_not_synced_is_lost_for_certain_and_its_loss_is_seen() -> None:
    """The control: of the index nothing is synced, so none of it is left."""
    findings = await every_moment(syncs=False, promises=True)
    assert findings.believed == 0
    assert {problem.partition(": ")[2].partition(" at")[0] for problem in findings.problems} == {
        "saved"
    }


async def test_a_save_that_is_not_whole_is_never_believed() -> None:
    findings = await after_a_lie()
    assert (findings.images, findings.believed) == (3, 0)
    assert not findings.problems


async def test_a_ledger_that_syncs_less_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: with synchronous=NORMAL commits are not synced, and must get lost here."""
    monkeypatch.setattr(database, "SYNCHRONOUS", "NORMAL")
    findings = await every_moment(promises=True)
    assert any("was acknowledged, 0 of" in problem for problem in findings.problems)


async def test_two_recordings_are_the_same_but_for_names(scratch: Path) -> None:
    """So the moments of one run are those of every run."""
    shapes = []
    for number in range(2):
        life = await lived(scratch / str(number))
        shapes.append([one.change if isinstance(one, Asked) else type(one) for one in life.record])
    assert shapes[0] == shapes[1]


def left(record: list[Asked], folder: Path, *, names: bool = False) -> dict[str, bytes]:
    IndexCrash(record).write(folder, lambda pending: len(pending) * names, lambda _: [])
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_of_the_index_what_was_not_synced_is_not_left(tmp_path: Path) -> None:
    made = Asked(Change.MADE, ("index",))
    begun, wrote = Asked(Change.BEGUN, ("index", "a")), Asked(Change.WROTE, ("index", "a"), 0, b"x")
    file, names = Asked(Change.SYNCED, ("index", "a")), Asked(Change.SYNCED, ("index",))
    moved = Asked(Change.MOVED, ("index", "a"), to=("index", "b"))
    assert left([made, begun, wrote], tmp_path / "1") == {}
    assert left([made, begun, wrote, file], tmp_path / "2") == {}
    assert left([made, begun, wrote, names], tmp_path / "3") == {"index/a": b""}
    assert left([made, begun, wrote, file, names], tmp_path / "4") == {"index/a": b"x"}
    synced = [made, begun, wrote, file, names, moved]
    assert left(synced, tmp_path / "5") == {"index/a": b"x"}
    assert left(synced, tmp_path / "6", names=True) == {"index/b": b"x"}
    assert left([*synced, names], tmp_path / "7") == {"index/b": b"x"}
    gone = Asked(Change.REMOVED, ("index", "b"))
    assert left([*synced, names, gone], tmp_path / "8") == {"index/b": b"x"}
    assert left([*synced, names, gone], tmp_path / "9", names=True) == {}
