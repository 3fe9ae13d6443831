"""A ledger that a newer version has written to, opened and followed by this one."""

import hashlib
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from tests.cli.running import PATIENCE_SECONDS, environment, process, run, serving
from tests.simulation.postgres_servers import new_ledger, postgres

NEWER = """
import sys, rankd
from rankd.model import facts

facts.BoardRedefined.kind = "board_defined.99"
facts.CODEC._decoders["board_defined.99"] = facts.CODEC._decoders["board_defined.2"]
with rankd.open(sys.argv[1]) as ranks:
    ranks.board("arena").redefine(windows=["all", "daily"])
"""
"""A version that records redefinitions as a kind of fact that this one does not know."""


def redefine_by_newer_version(place: str) -> None:
    command = [sys.executable, "-c", NEWER, place]
    subprocess.run(command, check=True, env=environment(), timeout=PATIENCE_SECONDS)


@pytest.mark.parametrize("command", [("verify",), ("serve", "--port", "0"), ("board", "list")])
def test_ledger_of_a_newer_version_is_refused_and_left_alone(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    assert run("board", "apply", "arena", "--data", tmp_path / "data").code == 0
    redefine_by_newer_version(str(tmp_path / "data"))
    before = hashlib.sha256((tmp_path / "data/ledger.db").read_bytes()).digest()
    done = process(*command, "--data", tmp_path / "data", cwd=tmp_path)
    assert done.code == 1
    assert "unknown kind of fact 'board_defined.99'" in done.err
    assert "at least as new as the one that wrote" in done.err
    assert "Traceback" not in done.err
    assert hashlib.sha256((tmp_path / "data/ledger.db").read_bytes()).digest() == before


@pytest.mark.timeout(120)
def test_node_that_meets_a_fact_of_a_newer_version_tells_it_and_spoils_nothing(
    tmp_path: Path,
) -> None:
    with postgres() as server:
        ledger = new_ledger(server.url)
        with (
            serving(tmp_path, "--ledger", ledger) as older,
            httpx.Client(base_url=older.url, timeout=60, trust_env=False) as client,
        ):
            client.put("/v1/boards/arena").raise_for_status()
            first = client.post("/v1/boards/arena/scores", json={"player": "ada", "score": 5})
            first.raise_for_status()
            redefine_by_newer_version(ledger)
            _wait_until_not_ready(client)
            refused = client.post("/v1/boards/arena/scores", json={"player": "bob", "score": 6})
            assert refused.status_code >= 500
            assert "older than the ledger" in refused.json()["detail"]
            assert refused.json()["applied"] in ("no", "unknown")
            told = client.get("/readyz")
            assert told.status_code == 503
            assert "unknown kind of fact 'board_defined.99'" in told.json()["problem"]
            page = client.get("/v1/boards/arena/standings").json()
            assert page["stale"] is True
            assert [standing["player"] for standing in page["standings"]] == ["ada"]
            assert older.stop() == 0, "it served until it was told to stop"
        verified = NEWER.partition("with rankd.open")[0] + "from rankd.cli import main; main()"
        command = [sys.executable, "-c", verified, "verify", "--data", ledger]
        subprocess.run(command, check=True, env=environment(), timeout=PATIENCE_SECONDS)


def _wait_until_not_ready(client: httpx.Client) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while client.get("/readyz").status_code == 200:
        assert time.monotonic() < until
        time.sleep(0.05)
