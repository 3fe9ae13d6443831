"""An archive has every fact once, with the outcome that its client was answered with."""

import asyncio
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.analytics.played import Game

import rankd
from rankd import bootstrap
from rankd.analytics import archive as module
from rankd.analytics.archive import ArchiveResult
from rankd.analytics.files import ArchiveFiles
from rankd.analytics.tables import facts_table
from rankd.errors import ArchiveDamaged, ArchiveOfAnotherLedger, ArchiveUnavailable
from rankd.model.facts import Fact, KeyCreated, Position, Recorded, decode


def archived(folder: Path, target: Path, state: Path | None = None) -> ArchiveResult:
    return asyncio.run(bootstrap.archive(folder, str(target), state=state, tell=lambda _: None))


def rows(target: Path, table: str, order: str = "position") -> list[dict[str, Any]]:
    manifests = ArchiveFiles(str(target)).manifests()
    paths = [
        str(target / file.path)
        for manifest in manifests
        for file in manifest.files
        if file.table == table
    ]
    tables = [pq.read_table(pa.BufferReader(Path(path).read_bytes())) for path in paths]
    found: list[dict[str, Any]] = pa.concat_tables(tables).to_pylist()
    return sorted(found, key=lambda row: row[order])


@pytest.fixture(scope="module")
def game(tmp_path_factory: pytest.TempPathFactory) -> Game:
    game = Game(tmp_path_factory.mktemp("game"))
    game.play(3)
    return game


def test_every_submission_has_the_outcome_it_was_answered_with(game: Game, tmp_path: Path) -> None:
    archived(game.folder, tmp_path / "a")
    found = rows(tmp_path / "a", "submissions")
    assert len(found) == len(game.receipts)
    for row, (day, receipt) in zip(found, game.receipts, strict=True):
        assert (row["position"], row["board"], row["player"]) == (
            receipt.position,
            receipt.board,
            receipt.player,
        )
        assert row["verdict"] == receipt.verdict
        assert (row["rank"], row["previous_rank"]) == (receipt.rank, receipt.previous_rank)
        assert row["total"] == receipt.total
        score = None if receipt.score is None else Decimal(receipt.score)
        assert row["score"] == score
        assert row["day"] == day
        outcomes = {one["name"]: (one["window_id"], one["rank"]) for one in row["outcomes"]}
        windows = receipt.windows.items()
        assert outcomes == {name: (one.window, one.rank) for name, one in windows}


def test_attributes_are_those_of_the_moment(tmp_path: Path) -> None:
    with rankd.open(tmp_path / "l") as ranks:
        board = ranks.board("b", segments=["region"])
        board.submit("ann", 1)
        board.submit("ann", 2, attributes={"region": "eu", "pro": True})
        ranks.profile("ann", attributes={"region": "us"})
        board.submit("ann", 3)
    archived(tmp_path / "l", tmp_path / "a")
    found = rows(tmp_path / "a", "submissions")
    assert [row["region"] for row in found] == [None, "eu", "us"]
    assert [dict(row["attributes"]) for row in found] == [
        {},
        {"region": "eu", "pro": "true"},
        {"region": "us"},
    ]


def test_closed_windows_are_there_as_they_ended(game: Game, tmp_path: Path) -> None:
    archived(game.folder, tmp_path / "a")
    found = rows(tmp_path / "a", "standings", "place")
    with rankd.open(game.folder, clock=game.clock) as ranks:
        for name in ("arena", "golf"):
            for window in ("daily:2026-11-01", "daily:2026-11-02"):
                there = [row for row in found if (row["board"], row["window_id"]) == (name, window)]
                expected = ranks.board(name).page(window=window, limit=1000)
                assert [(row["rank"], row["player"], row["score"]) for row in there] == [
                    (one.rank, one.player, Decimal(one.score)) for one in expected
                ]
                assert {row["edition"] for row in there} == {1}


def test_a_correction_of_a_closed_window_is_another_edition(tmp_path: Path) -> None:
    game = Game(tmp_path / "l")
    game.play(2)
    with rankd.open(game.folder, clock=game.clock) as ranks:
        ranks.board("arena").retract(player="robot", reason="a script")
    archived(game.folder, tmp_path / "a")
    editions: dict[int, set[str]] = {}
    for row in rows(tmp_path / "a", "standings", "place"):
        if (row["board"], row["window_id"]) == ("arena", "daily:2026-11-01"):
            editions.setdefault(row["edition"], set()).add(row["player"])
    assert editions[1] - editions[2] == {"robot"}


@pytest.mark.parametrize("state", [True, False])
def test_runs_one_after_the_other_add_up_to_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: bool
) -> None:
    monkeypatch.setattr(module, "PART_FACTS_MAX", 50)
    game, saved = Game(tmp_path / "l"), tmp_path / "s" if state else None
    for seed in range(3):
        game.play(1, seed=seed)
        result = archived(game.folder, tmp_path / "parts", saved)
        assert result.facts > 0
        assert archived(game.folder, tmp_path / "parts", saved).facts == 0
    archived(game.folder, tmp_path / "whole")
    for table, order in (("facts", "position"), ("submissions", "position")):
        assert rows(tmp_path / "parts", table, order) == rows(tmp_path / "whole", table, order)
    key = "place"
    parts, whole = (rows(tmp_path / name, "standings", key) for name in ("parts", "whole"))
    by_name = [
        sorted((row["board"], row["window_id"], row["place"], row["player"]) for row in some)
        for some in (parts, whole)
    ]
    assert by_name[0] == by_name[1]


def test_an_interrupted_run_leaves_nothing_that_is_counted(
    game: Game, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "a"
    monkeypatch.setattr(module, "PART_FACTS_MAX", 100)
    write, calls = ArchiveFiles._write, 0

    def failing(self: ArchiveFiles, path: str, body: bytes) -> None:
        nonlocal calls
        calls += 1
        if calls > 12:
            raise ArchiveUnavailable(self.target, "the disk is full")
        write(self, path, body)

    monkeypatch.setattr(ArchiveFiles, "_write", failing)
    with pytest.raises(ArchiveUnavailable):
        archived(game.folder, target)
    monkeypatch.setattr(ArchiveFiles, "_write", write)
    archived(game.folder, target)
    named = {file.path for one in ArchiveFiles(str(target)).manifests() for file in one.files}
    there = {str(path.relative_to(target)) for path in target.rglob("*.parquet")}
    assert there == named
    positions = [row["position"] for row in rows(target, "facts")]
    assert positions == list(range(1, len(positions) + 1))


def test_an_archive_of_another_ledger_is_refused(game: Game, tmp_path: Path) -> None:
    archived(game.folder, tmp_path / "a")
    other = Game(tmp_path / "other")
    other.play(4, seed=9)
    with pytest.raises(ArchiveOfAnotherLedger):
        archived(other.folder, tmp_path / "a")


def test_a_changed_file_is_found(game: Game, tmp_path: Path) -> None:
    target = tmp_path / "a"
    archived(game.folder, target)
    files = ArchiveFiles(str(target))
    assert len(list(files.check(files.manifests()))) > 0
    path = target / files.manifests()[0].files[0].path
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(ArchiveDamaged, match="was changed"):
        list(files.check(files.manifests()))
    next((target / "manifests").iterdir()).write_text("{}")
    with pytest.raises(ArchiveDamaged, match="cannot be read"):
        files.manifests()


def test_secrets_stay_in_the_ledger() -> None:
    made = KeyCreated("0123456789ab", bytes(32), ("read",))
    (row,) = facts_table([Recorded(Position(1), 0, made)]).to_pylist()
    assert row["kind"] == "key_created.1"
    assert row["body"] is None
    assert json.loads(row["fact"]) == {"id": "0123456789ab", "scopes": ["read"]}


def test_facts_are_there_byte_for_byte(game: Game, tmp_path: Path) -> None:
    archived(game.folder, tmp_path / "a")
    found = rows(tmp_path / "a", "facts")
    decoded = [decode(row["kind"], row["body"]) for row in found]

    async def recorded() -> list[Fact]:
        async with bootstrap.alone(game.folder) as ledger:
            facts = await ledger.read(after=Position(0), limit=len(found) + 1)
            return [one.fact for one in facts]

    assert decoded == asyncio.run(recorded())
