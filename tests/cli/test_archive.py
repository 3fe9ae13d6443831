"""The commands of archives and reports, beside a service and on ledgers of both kinds."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.running import run, serving
from tests.simulation.postgres_servers import new_ledger

from rankd.testing.servers import PostgresServer

SCORES = [("ann", 5), ("bob", 7), ("ann", 9)]


def test_an_archive_is_written_beside_a_service(tmp_path: Path) -> None:
    target, data = tmp_path / "archive", tmp_path / "data"
    with serving(tmp_path) as served:
        run("board", "apply", "arena", "--url", served.url)
        for player, score in SCORES:
            run("submit", "arena", player, score, "--url", served.url)
        written = run("archive", "--data", data, "--to", target, "--json")
        assert json.loads(written.out)["submissions"] == len(SCORES)
        run("submit", "arena", "cyd", 1, "--url", served.url)
        again = run("archive", "--data", data, "--to", target)
        assert "1 submission " in again.out
    assert "has everything" in run("archive", "--data", data, "--to", target).out
    checked = json.loads(run("archive", "--to", target, "--check", "--json").out)
    assert checked["whole"] is True
    assert checked["rows"]["submissions"] == len(SCORES) + 1


def test_a_report_comes_in_four_forms(tmp_path: Path) -> None:
    import rankd

    with rankd.open(tmp_path / "data") as ranks:
        ranks.board("arena").submit_many(SCORES)
    archive = ("--archive", tmp_path / "a")
    run("archive", "--data", tmp_path / "data", "--to", tmp_path / "a")
    shown = run("report", "distribution", *archive)
    assert shown.out.splitlines()[0].split()[:3] == ["board", "players", "lowest"]
    (row,) = json.loads(run("report", "distribution", *archive, "--format", "json").out)["rows"]
    assert (row["board"], row["players"], row["lowest"], row["highest"]) == ("arena", 2, 7, 9)
    page = tmp_path / "page.html"
    assert run("report", "activity", *archive, "--format", "html", "-o", page).code == 0
    assert "<svg" in page.read_text()
    file = tmp_path / "rows.parquet"
    assert run("report", "activity", *archive, "--format", "parquet", "-o", file).code == 0
    assert pq.read_table(pa.BufferReader(file.read_bytes())).num_rows == 1


def test_wrong_questions_say_what_to_do(tmp_path: Path) -> None:
    nowhere = run("report", "activity", "--archive", tmp_path / "none")
    assert nowhere.code == 1
    assert "`rankd archive --to` writes one" in nowhere.err
    assert run("report", "profit").code == 2
    assert run("report", "activity", "--format", "parquet").code == 2
    late = run("report", "activity", "--from", "2026-02-01", "--to", "2026-01-01")
    assert late.code == 2
    assert "--from is after --to" in late.err
    empty = run("archive", "--data", tmp_path / "none", "--to", tmp_path / "a")
    assert empty.code == 1
    unknown = run("archive", "--data", tmp_path, "--to", "ftp://host/archive")
    assert unknown.code == 1


@pytest.mark.servers
def test_a_ledger_in_postgresql_is_archived(
    shared_postgres: PostgresServer, tmp_path: Path
) -> None:
    at = ("--ledger", new_ledger(shared_postgres.url), "--index", "native")
    with serving(tmp_path, *at) as served:
        run("board", "apply", "arena", "--url", served.url)
        for player, score in SCORES:
            run("submit", "arena", player, score, "--url", served.url)
        written = run("archive", *at, "--to", tmp_path / "archive", "--json")
        assert json.loads(written.out)["submissions"] == len(SCORES)
    checked = json.loads(run("archive", "--to", tmp_path / "archive", "--check", "--json").out)
    assert checked["rows"]["submissions"] == len(SCORES)
