"""Prize boards: reads that show every answered write in any process, and certificates."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.running import run
from tests.http import lanes, running
from tests.http.api_facade import asked
from tests.http.clocked import FileClock, Served, serving
from tests.http.test_workers import START, connect, connected, submit, told

from rankd.api import context
from rankd.core.engine import Engine
from rankd.model.facts import Position

DAY = 86_400_000_000
ROUNDS = 150
TODAY = "daily:2026-11-14"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """Two processes, and a prize board."""
    clock = tmp_path / "clock"
    FileClock(clock).set(START)
    with serving(tmp_path, "--port", "0", "--workers", "2", clock=clock) as served:
        connection = connect(served.port)
        definition = {"rule": "sum", "windows": ["all", "daily"], "prize": True}
        definition["rewards"] = [{"ranks": [1, 1], "give": {"cup": 1}}]
        told(connection, "PUT", "/v1/boards/b", definition)
        connection.close()
        yield served


def test_every_process_shows_each_write_that_was_answered(served: Served) -> None:
    with connected(served.port) as by_pid:
        first, second = by_pid.values()
        for number in range(1, ROUNDS):
            position = submit(first, "ann", 1).body["position"]
            for path in ("standings/ann", "standings?limit=1", "standings/ann/around"):
                shown = told(second, "GET", f"/v1/boards/b/{path}")
                rows = shown.get("standings", [shown])
                assert (shown["as_of"] >= position, rows[0]["score"]) == (True, number), path
            found = told(second, "POST", "/v1/boards/b/standings:lookup", {"players": ["ann"]})
            assert found["standings"][0]["score"] == number
            classic = told(second, "GET", "/api/v1/leaderboard/rank/ann?type=b")
            assert classic["score"] == number


def test_a_prize_board_takes_no_scores_from_players(served: Served) -> None:
    with connected(served.port) as by_pid:
        definition = {"prize": True, "writes": "client"}
        refused = asked(next(iter(by_pid.values())), "PUT", "/v1/boards/c", definition)
        assert (refused.status, refused.body["errors"][0]["field"]) == (422, "writes")


def test_a_certificate_is_printed_and_verified(served: Served, tmp_path: Path) -> None:
    url = ("--url", f"http://127.0.0.1:{served.port}")
    with connected(served.port) as by_pid:
        first, second = by_pid.values()
        for player in ("ann", "bob"):
            submit(first, player, 7)
        early = asked(second, "GET", f"/v1/boards/b/windows/{TODAY}/certificate")
        assert (early.status, early.body["code"]) == (404, "not_settled")
        FileClock(tmp_path / "clock").set(START + DAY)
        step = {"window": "daily:-1", "reason": "the end"}
        assert told(second, "POST", "/v1/boards/b:settle", step)["state"] == "final"
        shown = told(second, "GET", f"/v1/boards/b/windows/{TODAY}/certificate")
        assert (shown["players"], shown["submissions"]) == (2, 2)
        assert [row["player"] for row in shown["top"]] == ["ann", "bob"]
        path = f"/v1/boards/b/windows/{TODAY}/rewards"
        (reward,) = told(second, "GET", path)["rewards"]
        assert (shown["rewards"], reward["player"], reward["claimed"]) == (1, "ann", False)
        for process, changed in ((second, True), (first, False)):
            claim = told(process, "POST", f"{path}/{reward['id']}:claim")
            assert (claim["changed"], claim["claimed"]) == (changed, True)
            assert told(process, "GET", f"{path}?state=given")["rewards"] == []
    printed = run("window", "certificate", "b", TODAY, *url).out
    assert json.loads(printed)["standings_digest"] == shown["standings_digest"]
    file, data = tmp_path / "certificate.json", tmp_path / "data"
    file.write_text(printed)
    agreed = run("verify", "--certificate", file, "--data", data)
    assert (agreed.code, agreed.out.endswith("as the certificate says\n")) == (0, True)
    file.write_text(json.dumps({**json.loads(printed), "players": 3}))
    differs = run("verify", "--certificate", file, "--data", data)
    assert differs.code == 1
    assert "players" in differs.err
    file.write_text("{}")
    assert run("verify", "--certificate", file, "--data", data).code == 1


READS = [
    ("GET", "standings/ann", None),
    ("GET", "standings", None),
    ("GET", "standings?offset=1", None),
    ("GET", "standings/ann/around", None),
    ("GET", "around/1", None),
    ("POST", "standings:lookup", {"players": ["ann"]}),
    ("GET", "friends/ann", None),
    ("GET", "projection?rank=1", None),
    ("GET", "distribution", None),
    ("GET", "history/ann/ranks", None),
    ("GET", "windows/all/certificate", None),
]
CLASSIC = ["top?type=b", "rank/ann?type=b", "around/1?type=b", "nearby?rank=1&type=b"]


@pytest.mark.parametrize("prize", [True, False])
def test_a_process_that_lags_behind_the_ledger_shows_no_prize_board(
    monkeypatch: pytest.MonkeyPatch, *, prize: bool
) -> None:
    monkeypatch.setattr(context, "MIN_POSITION_SECONDS_MAX", 0.01)

    async def ask_everything() -> None:
        async with lanes.served({"prize": prize}) as service:
            await lanes.fill(service.rankd)
            requests = [
                lanes.request(method, f"/v1/boards/b/{path}")
                if body is None
                else lanes.post(body, f"/v1/boards/b/{path}")
                for method, path, body in READS
            ]
            requests += [lanes.request("GET", f"/api/v1/leaderboard/{path}") for path in CLASSIC]
            requests.append(lanes.request("GET", "/v1/players/ann/standings"))
            before = [await lanes.alike(service, service, one, one) for one in requests]
            assert {status for both in before for status in both} == {200, 404}

            async def ahead() -> Position:
                return Position(service.rankd.position + 1)

            monkeypatch.setattr(Engine, "sees_every_commit", False)
            service.rankd.state.revision += 1  # Plans of before are of a process that never lags.
            for sent, known in zip(requests, before, strict=True):
                assert await lanes.alike(service, service, sent, sent) == known
            monkeypatch.setattr(service.ledger, "head", ahead)
            for sent, known in zip(requests, before, strict=True):
                answers = await lanes.alike(service, service, sent, sent)
                assert answers == ([503, 503] if prize else known), sent

    running.run(ask_everything())
