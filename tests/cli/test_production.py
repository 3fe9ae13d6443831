"""The configurations of deploy/, whole: from the first key through traffic to a clean stop.

Settings come from the files themselves. What a file leaves to its operator is set here as well: a
rate limit, an access log, and keys that may do one thing each.
"""

import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import yaml  # type: ignore[import-untyped]
from tests.cli.running import PATIENCE_SECONDS, Served, run, serving

from rankd.testing.servers import PostgresServer, postgres_server, redis_server

DEPLOY = Path(__file__).parents[2] / "deploy"
CLIENT = "203.0.113.7"
PROXY = "127.0.0.1"
RATE = {"RANKD_RATE_PER_KEY": "1", "RANKD_RATE_BURST": "30", "RANKD_ACCESS_LOG": "true"}


class Deployed(NamedTuple):
    """What a file of deploy/ sets."""

    settings: dict[str, str]
    options: tuple[str, ...] = ()


def compose(file: str, service: str) -> Deployed:
    found = yaml.safe_load((DEPLOY / file).read_text())["services"][service]
    given = found.get("environment", {}).items()
    settings = {name: str(value) for name, value in given if name.startswith("RANKD_")}
    return Deployed(settings, tuple(found.get("command", ["serve"])[1:]))


def systemd() -> Deployed:
    found = tomllib.loads((DEPLOY / "systemd" / "rankd.toml").read_text())
    settings = {f"RANKD_{name.upper()}": _text(value) for name, value in found.items()}
    own = (DEPLOY / "systemd" / "a.env").read_text().splitlines()
    settings |= dict(line.split("=", 1) for line in own if line.startswith("RANKD_"))
    del settings["RANKD_PORT"]
    return Deployed(settings)


def _text(value: Any) -> str:
    return ",".join(value) if isinstance(value, list) else str(value).lower()


DEPLOYED: dict[str, Callable[[], Deployed]] = {
    "compose.one.yml": lambda: compose("compose.one.yml", "rankd"),
    "compose.nodes.yml": lambda: compose("compose.nodes.yml", "node1"),
    "systemd": systemd,
    "systemd with workers": lambda: Deployed(systemd().settings, ("--workers", "2")),
}


class Running(NamedTuple):
    """A service, its keys, and the PostgreSQL behind it if there is one."""

    served: Served
    admin: str
    player: str
    lose_postgres: Callable[[], None]

    def ask(self, method: str, path: str, body: Any = None, key: str = "") -> httpx.Response:
        headers = {"authorization": f"Bearer {key or self.admin}", "x-forwarded-for": CLIENT}
        return httpx.request(method, self.served.url + path, json=body, headers=headers)

    def submit(self, player: str, score: int) -> httpx.Response:
        body = {"player": player, "score": score, "key": f"{player}-{score}"}
        return self.ask("POST", "/v1/boards/arena/scores", body, key=self.player)


@contextmanager
def running(home: Path, deployed: Deployed) -> Iterator[Running]:
    with ExitStack() as stack:
        servers = stack.enter_context(ExitStack())
        settings = {**deployed.settings, **RATE, "RANKD_TRUSTED_PROXIES": PROXY}
        settings["RANKD_HOST"] = "127.0.0.1"
        data = str(home / "data")
        if settings.get("RANKD_LEDGER", "sqlite") != "sqlite":
            server: PostgresServer = servers.enter_context(postgres_server(durable=True))
            settings["RANKD_LEDGER"] = data = server.url
        if settings.get("RANKD_INDEX", "native") != "native":
            settings["RANKD_INDEX"] = stack.enter_context(redis_server()).url
        admin = run("keys", "create", "--scope", "admin", "--data", data)
        player = run("keys", "create", "--scope", "submit", "--scope", "read", "--data", data)
        admin_key, player_key = (made.out.split()[-1] for made in (admin, player))
        served = stack.enter_context(serving(home, *deployed.options, env=settings))
        yield Running(served, admin_key, player_key, servers.close)


@pytest.fixture(params=DEPLOYED)
def deployed(request: pytest.FixtureRequest) -> Deployed:
    return DEPLOYED[request.param]()


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.02)


def log_of_clean_stop(running: Running) -> str:
    """Stop the service; return its log, in which nothing has gone wrong."""
    assert running.served.stop() == 0, running.served.log.read_text()
    log = running.served.log.read_text()
    assert "Traceback" not in log and " ERROR " not in log, log
    return log


def use(running: Running) -> None:
    """Ask for what a game asks for, with keys that may do it and with one that may not."""
    assert running.ask("PUT", "/v1/boards/arena", {"rule": "best"}).status_code == 201
    assert running.ask("PUT", "/v1/boards/arena", {}, key=running.player).status_code == 403
    assert running.ask("GET", "/v1/boards/arena/standings", key="rk_no").status_code == 401
    for score in range(5):
        assert running.submit("ada", score).status_code in (200, 201)
    standing = running.ask("GET", "/v1/boards/arena/standings/ada", key=running.player)
    assert standing.json()["score"] == 4
    statuses = {running.submit("ada", 9).status_code for _ in range(60)}
    assert 429 in statuses, "the rate limit holds"
    assert running.ask("GET", "/readyz").json()["status"] == "ready"


def test_service_of_deploy_files_serves_and_stops_cleanly(
    tmp_path: Path, deployed: Deployed
) -> None:
    with running(tmp_path, deployed) as service:
        use(service)
        log = log_of_clean_stop(service)
        assert f"{CLIENT} " in log, "the access log has the address that the proxy tells"
        assert "stopped: all " in log
        assert "the spool" not in log


@pytest.mark.parametrize("name", ["compose.nodes.yml", "systemd"])
def test_service_stops_cleanly_while_scores_wait_in_the_spool(tmp_path: Path, name: str) -> None:
    with running(tmp_path, DEPLOYED[name]()) as service:
        assert service.ask("PUT", "/v1/boards/arena", {"rule": "best"}).status_code == 201
        service.lose_postgres()
        until(lambda: service.submit("ada", 7).status_code == 202)
        log = log_of_clean_stop(service)
        assert "scores that wait in the spool: 1" in log


def test_files_switch_on_what_they_recommend() -> None:
    """Otherwise the tests above would prove less than they say."""
    settings: list[Mapping[str, str]] = [made().settings for made in DEPLOYED.values()]
    assert [each.get("RANKD_SPOOL") for each in settings] == [None, "true", "true", "true"]
