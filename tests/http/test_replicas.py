"""Boards that may be read from replicas say so where a replica is behind, and never go back."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.http.api_facade import asked, connections
from tests.http.backends import serving_node
from tests.http.clocked import PATIENCE_SECONDS

from rankd.bootstrap import EngineConfig
from rankd.embedded import WallClock
from rankd.errors import InvalidSetting
from rankd.settings import Settings
from rankd.testing.redis_servers import WatchedRedis, catch_up, say, watched_redis
from rankd.testing.servers import RedisServer

FAST, EXACT = "fast", "exact"


@pytest.mark.parametrize("index", ["native", "redis://cache", "rediss://cache"])
def test_an_index_without_replicas_is_not_read_from_them(index: str) -> None:
    with pytest.raises(InvalidSetting, match="replica_reads"):
        EngineConfig.chosen(Settings(index=index, replica_reads=("*",)))
    chosen = EngineConfig.chosen(Settings(index="redis+cluster://cache", replica_reads=("*",)))
    assert chosen.replica_reads == ("*",)


class Caller:
    """Asks one node, which must not refuse."""

    def __init__(self, port: int) -> None:
        (self._connection,) = connections(port, 1)

    def close(self) -> None:
        self._connection.close()

    def ask(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        answer = asked(self._connection, method, f"/v1/boards/{path}", body)
        assert answer.status in {200, 201}, (path, answer)
        told: dict[str, Any] = answer.body
        return told

    def submit(self, board: str, player: str, score: int) -> int:
        told = self.ask("POST", f"{board}/scores", {"player": player, "score": score})
        return int(told["position"])

    def page(self, board: str, **asked_for: int) -> tuple[list[str], bool, int]:
        """Return who is there, whether that may be old, and as of when it is."""
        query = "&".join(f"{name}={value}" for name, value in asked_for.items())
        told = self.ask("GET", f"{board}/standings?{query}")
        return [one["player"] for one in told["standings"]], told["stale"], told["as_of"]


def cut_off(watched: WatchedRedis) -> None:
    """Let the replica hear nothing more of its master."""
    say(watched.master, "ACL", "SETUSER", "default", "-psync", "-sync")
    say(watched.master, "CLIENT", "KILL", "TYPE", "replica")


def scripts_run_on(server: RedisServer) -> int:
    stats = say(server, "INFO", "commandstats").splitlines()
    lines = [line for line in stats if line.startswith(("cmdstat_eval:", "cmdstat_evalsha:"))]
    return sum(int(line.split("calls=")[1].split(",")[0]) for line in lines)


def test_a_replica_that_lags_answers_for_boards_that_may_be_and_is_called_stale(
    tmp_path: Path,
) -> None:
    with (
        watched_redis() as watched,
        serving_node(
            tmp_path,
            WallClock(),
            index=f"{watched.url}?timeout={PATIENCE_SECONDS}",
            replica_reads=(FAST,),
        ) as node,
        closing(Caller(node.port)) as caller,
    ):
        for board in (FAST, EXACT):
            caller.ask("PUT", board, {"rule": "best", "windows": ["all"]})
        before = [caller.submit(board, "ann", 10) for board in (FAST, EXACT)][-1]
        catch_up(watched.replica, with_master=watched.master)
        run = scripts_run_on(watched.replica)
        assert caller.page(FAST) == (["ann"], False, before)
        assert scripts_run_on(watched.replica) > run

        cut_off(watched)
        after = [caller.submit(board, "bob", 20) for board in (EXACT, FAST)][-1]
        assert caller.page(FAST) == (["ann"], True, before)
        for path in (f"{FAST}/standings/ann", f"{FAST}/standings/ann/around"):
            told = caller.ask("GET", path)
            assert (told["stale"], told["as_of"], told["total"]) == (True, before, 1)
        assert caller.page(EXACT) == (["bob", "ann"], False, after)
        assert caller.page(FAST, min_position=after) == (["bob", "ann"], False, after)
        assert caller.ask("GET", f"{FAST}/standings/bob")["rank"] == 1, "it is not absent"

        caller.ask("PUT", f"{FAST}?apply=true", {"windows": ["all"], "direction": "lower"})
        players, stale, as_of = caller.page(FAST)
        assert (players, stale) == (["ann", "bob"], False) and as_of > after


def test_a_hidden_player_is_hidden_on_replicas(tmp_path: Path) -> None:
    with (
        watched_redis() as watched,
        serving_node(
            tmp_path,
            WallClock(),
            index=f"{watched.url}?timeout={PATIENCE_SECONDS}",
            replica_reads=(FAST,),
        ) as node,
        closing(Caller(node.port)) as caller,
        closing(connections(node.port, 1)[0]) as connection,
    ):
        caller.ask("PUT", FAST, {"rule": "best", "windows": ["all"]})
        for player, score in (("ann", 10), ("bob", 20)):
            caller.submit(FAST, player, score)
        body = {"visibility": "anonymous"}
        assert asked(connection, "PATCH", "/v1/players/ann", body).status == 200
        catch_up(watched.replica, with_master=watched.master)
        run = scripts_run_on(watched.replica)
        assert caller.page(FAST)[0] == ["bob", None]
        assert scripts_run_on(watched.replica) > run
        for path in ("ann", "ann/around"):
            answer = asked(connection, "GET", f"/v1/boards/{FAST}/standings/{path}")
            assert (answer.status, answer.body["code"]) == (404, "not_ranked")
        cut_off(watched)
        assert caller.page(FAST)[0] == ["bob", None]
