"""Client of Redis: connections, scripts, time-outs, and translation of redis-py's errors.

A script is called by its hash, and sent whole if the server does not have it. Every call has a time
limit; exceeding it, and any error of Redis or the network, raises IndexUnavailable. Scripts are
safe to repeat, so a call on a dead connection is repeated once on a new one. redis-py's own retries
are switched off, because they have no time limit.
"""

import asyncio
import logging
import re
from dataclasses import dataclass, field
from hashlib import sha1
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from redis.asyncio import ConnectionPool, Redis, RedisCluster, SSLConnection
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.connection import Connection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff
from redis.cluster import LoadBalancingStrategy
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, RedisClusterException, RedisError, ResponseError

from rankd.errors import IndexUnavailable, InvalidSetting, count

Kind = Literal["single", "sentinel", "cluster"]

PARTITIONS_MAX = 256
"""Each takes part in every apply: more of them cost round trips and gain nothing."""

CALL_SECONDS_MAX = 2.0
"""Limit of one call to Redis, in seconds, unless the URL has another."""

PORT = 6379
SENTINEL_PORT = 26379

_KINDS: dict[str, tuple[Kind, bool]] = {
    "redis": ("single", False),
    "rediss": ("single", True),
    "redis+sentinel": ("sentinel", False),
    "redis+cluster": ("cluster", False),
}
_PARTITIONS: dict[Kind, int] = {"single": 1, "sentinel": 1, "cluster": 8}
_PREFIX = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_KNOWN = {"prefix", "partitions", "timeout", "tls", "tls_ca", "sentinel_password"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisAddress:
    """Address and options of a Redis, parsed from a URL.

        redis://[user:password@]host[:port][/db]
        rediss://...                                        the same over TLS
        redis+sentinel://host[:port],host[:port]/service[/db]
        redis+cluster://host[:port],host[:port]

    Options, after a question mark:

        prefix=NAME         prefix of all keys (rankd), so that several rankd can share one Redis
        partitions=N        number of partitions of a new index (1; on a cluster 8)
        timeout=SECONDS     limit of one call
        tls=true            TLS for sentinels and clusters too
        tls_ca=FILE         certificates to trust, if not the system's
        sentinel_password=  password of the sentinels, if it differs from the servers'
    """

    kind: Kind
    hosts: tuple[tuple[str, int], ...]
    tls: bool = False
    tls_ca: str | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    sentinel_password: str | None = field(default=None, repr=False)
    service: str = ""
    db: int = 0
    prefix: str = "rankd"
    partitions: int = 1
    call_seconds_max: float = CALL_SECONDS_MAX

    def __str__(self) -> str:
        """Return the hosts and the service, without secrets."""
        hosts = ",".join(f"{host}:{port}" for host, port in self.hosts)
        return f"Redis at {hosts}" + (f" ({self.service})" if self.service else "")

    @staticmethod
    def read(url: str) -> "RedisAddress":
        """Parse a URL. Raises InvalidSetting."""
        scheme, _, _ = url.partition("://")
        if scheme not in _KINDS:
            raise _wrong(f"must begin with one of {', '.join(f'{kind}://' for kind in _KINDS)}")
        kind, tls = _KINDS[scheme]
        parts = urlsplit(url)
        who, _, where = parts.netloc.rpartition("@")
        user, _, password = who.partition(":")
        options = _options(parts.query)
        service, db = _path(kind, parts.path)
        return RedisAddress(
            kind=kind,
            hosts=_hosts(where, SENTINEL_PORT if kind == "sentinel" else PORT, kind),
            tls=tls or options.get("tls", "false") == "true",
            tls_ca=options.get("tls_ca"),
            user=unquote(user) or None,
            password=unquote(password) or None,
            sentinel_password=options.get("sentinel_password"),
            service=service,
            db=db,
            prefix=_prefix(options.get("prefix", "rankd")),
            partitions=_partitions(options.get("partitions"), kind),
            call_seconds_max=_seconds(options.get("timeout")),
        )


def _wrong(problem: str) -> InvalidSetting:
    return InvalidSetting(setting="index", source="the URL of the index", problem=problem)


def _options(query: str) -> dict[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := sorted(set(options) - _KNOWN):
        raise _wrong(f"has options that are not known: {', '.join(unknown)[:200]}")
    if options.get("tls", "false") not in ("true", "false"):
        raise _wrong("has a tls that is neither true nor false")
    return options


def _hosts(text: str, port: int, kind: Kind) -> tuple[tuple[str, int], ...]:
    hosts = []
    for one in text.split(","):
        found = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::(\d{1,5}))?", one)
        if found is None:
            raise _wrong("must name a host, or several with commas between them")
        hosts.append((found[1].strip("[]"), int(found[2] or port)))
    if kind == "single" and len(hosts) > 1:
        raise _wrong("names several hosts, which only redis+sentinel:// and redis+cluster:// take")
    return tuple(hosts)


def _path(kind: Kind, path: str) -> tuple[str, int]:
    parts = [unquote(part) for part in path.split("/") if part]
    service = parts.pop(0) if kind == "sentinel" and parts else ""
    if kind == "sentinel" and not service:
        raise _wrong("must name the service that the sentinels watch: /service")
    db = parts.pop(0) if parts else "0"
    if parts or not db.isdigit():
        raise _wrong("must end with the number of a database, if with anything")
    if kind == "cluster" and db != "0":
        raise _wrong("names a database, and a cluster has only one")
    return service, int(db)


def _prefix(text: str) -> str:
    if not _PREFIX.fullmatch(text):
        raise _wrong("has a prefix of other characters than letters, digits and _ . : -")
    return text


def _partitions(text: str | None, kind: Kind) -> int:
    if text is None:
        return _PARTITIONS[kind]
    if not text.isdigit() or not 1 <= int(text) <= PARTITIONS_MAX:
        raise _wrong(f"must have 1 to {PARTITIONS_MAX} partitions")
    return int(text)


def _seconds(text: str | None) -> float:
    if text is None:
        return CALL_SECONDS_MAX
    if not re.fullmatch(r"\d{1,4}(\.\d{1,6})?", text) or not float(text):
        raise _wrong("has a timeout that is no number of seconds")
    return float(text)


CONNECTIONS_MAX = 32
"""Concurrent calls of one process; further ones wait."""

VERSION_MIN = (6, 2)
"""Oldest Redis that the tests cover."""

CLUSTER_TRIES = 3
"""Times that redis-py looks up the new node of a slot before it gives up."""

_REPLICAS = LoadBalancingStrategy.ROUND_ROBIN_REPLICAS
_LUA = Path(__file__).with_name("lua")
_log = logging.getLogger(__name__)

_Target = dict[str, Any]
"""redis-py's argument for the node of a cluster that gets a command; empty elsewhere."""


@dataclass(frozen=True)
class LuaScript:
    """A script of lua/, with its SHA-1."""

    name: str
    prelude: bool = True
    """Whether partition.lua is put before it."""
    text: bytes = field(init=False, repr=False)
    sha: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        text = (_LUA / f"{self.name}.lua").read_bytes()
        if self.prelude:
            text = (_LUA / "partition.lua").read_bytes() + text
        object.__setattr__(self, "text", text)
        digest = sha1(text, usedforsecurity=False).hexdigest()
        object.__setattr__(self, "sha", digest.encode())


APPLY, READ, DROP, FILL = (
    LuaScript("apply"),
    LuaScript("read"),
    LuaScript("drop"),
    LuaScript("fill"),
)
POINT = LuaScript("point", prelude=False)


class RedisClient:
    """Client of one Redis, sentinel service or cluster."""

    def __init__(self, address: RedisAddress, *, replica_reads: bool = False) -> None:
        self.address = address
        self.calls = 0
        """Number of commands sent, for measurements."""
        self.lost = False
        """Whether a connection was lost since the last check: the address may be another server
        now."""
        self._turns = asyncio.Semaphore(CONNECTIONS_MAX)
        self._sentinels: list[Sentinel] = []
        self._client = self._connect()
        self._replicas = self._connect(replicas=True) if replica_reads else None

    # ------------------------------------------------------------------------- calling

    async def run(self, script: LuaScript, key: bytes, *args: bytes, replica: bool = False) -> Any:
        """Run a script. Raises IndexUnavailable."""
        client = self._replicas if replica and self._replicas is not None else self._client
        target = self._node_of(client, key) if client is self._replicas else {}
        try:
            return await self._call(client, b"EVALSHA", script.sha, b"1", key, *args, **target)
        except IndexUnavailable as exc:
            if not isinstance(exc.__cause__, NoScriptError):
                raise
        return await self._call(client, b"EVAL", script.text, b"1", key, *args, **target)

    async def command(self, *words: Any, **target: Any) -> Any:
        """Send a plain command. Raises IndexUnavailable."""
        return await self._call(self._client, *words, **target)

    async def _call(self, client: Redis | RedisCluster, *words: Any, **target: Any) -> Any:
        seconds = self.address.call_seconds_max
        try:
            async with asyncio.timeout(seconds), self._turns:
                try:
                    return await self._send(client, words, target)
                except RedisConnectionError:
                    self.lost = True
                    if isinstance(client, RedisCluster):
                        raise  # redis-py has looked up the slot and retried already.
                    await client.connection_pool.disconnect(inuse_connections=False)
                    return await self._send(client, words, target)
        except TimeoutError as exc:
            self.lost = True
            raise IndexUnavailable(
                f"{self.address} did not answer within {count(seconds, 'second')}"
            ) from exc
        except (RedisError, RedisClusterException, OSError) as exc:
            raise IndexUnavailable(f"{self.address}: {_said(exc)}") from exc

    async def _send(
        self, client: Redis | RedisCluster, words: tuple[Any, ...], target: dict[str, Any]
    ) -> Any:
        self.calls += 1
        if isinstance(client, RedisCluster):
            # redis-py looks commands up by name, as text.
            words = (words[0].decode() if isinstance(words[0], bytes) else words[0], *words[1:])
        return await client.execute_command(*words, **target)

    # ---------------------------------------------------------------------- connecting

    def _connect(self, *, replicas: bool = False) -> Redis | RedisCluster:
        address = self.address
        common: dict[str, Any] = {
            "username": address.user,
            "password": address.password,
            "socket_timeout": None,  # Every call has a limit of its own.
            "socket_connect_timeout": address.call_seconds_max,
            "socket_keepalive": True,
            "protocol": 2,
        }
        tls: dict[str, Any] = {"ssl_ca_certs": address.tls_ca} if address.tls else {}
        if address.kind == "cluster":
            return RedisCluster(
                startup_nodes=[ClusterNode(*host) for host in address.hosts],
                retry=Retry(NoBackoff(), CLUSTER_TRIES),
                load_balancing_strategy=_REPLICAS if replicas else None,
                max_connections=CONNECTIONS_MAX,
                ssl=address.tls,
                **common,
                **tls,
            )
        common |= {"retry": Retry(NoBackoff(), 0), "db": address.db}
        if address.kind == "sentinel":
            return self._watched(common, tls, replicas=replicas)
        ((host, port),) = address.hosts
        pool = ConnectionPool(
            connection_class=SSLConnection if address.tls else Connection,
            host=host,
            port=port,
            max_connections=2 * CONNECTIONS_MAX,
            **common,
            **tls,
        )
        return Redis.from_pool(pool)

    def _watched(self, common: dict[str, Any], tls: dict[str, Any], *, replicas: bool) -> Redis:
        address = self.address
        asking = {
            "password": address.sentinel_password,
            "socket_timeout": address.call_seconds_max,
            "socket_connect_timeout": address.call_seconds_max,
            "retry": Retry(NoBackoff(), 0),
            "ssl": address.tls,
            **tls,
        }
        make: Any = Sentinel  # redis-py does not annotate its parameters.
        sentinel = make(list(address.hosts), sentinel_kwargs=asking)
        self._sentinels.append(sentinel)
        choose = sentinel.slave_for if replicas else sentinel.master_for
        found = choose(
            address.service,
            max_connections=2 * CONNECTIONS_MAX,
            **common,
            **({"ssl": True, **tls} if address.tls else {}),
        )
        return cast("Redis", found)

    def _node_of(self, client: Redis | RedisCluster | None, key: bytes) -> dict[str, Any]:
        """Return redis-py's argument that selects a replica of a key's slot in a cluster."""
        if not isinstance(client, RedisCluster) or not client.nodes_manager.slots_cache:
            return {}
        slot = client.keyslot(key)
        nodes = client.nodes_manager.slots_cache.get(slot, [])
        replicas = [node for node in nodes if node.server_type == "replica"]
        return {"target_nodes": replicas[0]} if replicas else {}

    async def close(self) -> None:
        """Close every connection. Safe to repeat."""
        for client in (self._client, self._replicas):
            if client is not None:
                await client.aclose()
                if isinstance(client, Redis):
                    await client.connection_pool.disconnect()
        for sentinel in self._sentinels:
            for asked in sentinel.sentinels:
                await asked.aclose()
                await asked.connection_pool.disconnect()

    # ------------------------------------------------------------------------- checking

    async def check(self) -> list[str]:
        """Check that this Redis is fit for an index; return warnings.

        Raises InvalidSetting, with a remedy, if it is not; IndexUnavailable.
        """
        try:
            everywhere = await self._infos()
        except IndexUnavailable as exc:
            if isinstance(exc.__cause__, RedisClusterException) and "not enabled" in str(exc):
                raise self._refused(
                    "is no cluster: write redis:// instead of redis+cluster://"
                ) from exc
            raise
        notes: list[str] = []
        for target, info in everywhere:
            self._check_server(info)
            await self._check_eviction(target, info)
            if info.get("aof_enabled") == "0" and await self._config(target, "save") == "":
                notes.append(
                    "this Redis writes nothing to disk: after a restart of it the index is filled "
                    "again from the ledger"
                )
        return list(dict.fromkeys(notes))

    async def described(self) -> tuple[list[str], list[str]]:
        """Return the distinct versions and eviction policies of all servers."""
        versions, policies = [], []
        for target, info in await self._infos():
            policy = info.get("maxmemory_policy") or await self._config(target, "maxmemory-policy")
            versions.append(info.get("valkey_version") or info.get("redis_version", "unknown"))
            policies.append(policy or "not told")
        return list(dict.fromkeys(versions)), list(dict.fromkeys(policies))

    async def _infos(self) -> list[tuple[_Target, dict[str, str]]]:
        """Return INFO of every primary server."""
        if self._replicas is not None:
            await self._call(self._replicas, "PING")
        targets: list[_Target] = [{}]
        if isinstance(self._client, RedisCluster):
            await self.command("PING")  # It finds the nodes.
            targets = [{"target_nodes": node} for node in self._client.get_primaries()]
        return [(target, _info(await self.command("INFO", **target))) for target in targets]

    def _check_server(self, info: dict[str, str]) -> None:
        version = tuple(int(part) for part in info.get("redis_version", "0").split(".")[:2])
        if version < VERSION_MIN:
            needed = ".".join(map(str, VERSION_MIN))
            raise self._refused(f"is version {info.get('redis_version')}; {needed} is needed")
        in_cluster = info.get("cluster_enabled") == "1"
        if in_cluster and self.address.kind != "cluster":
            raise self._refused("is part of a cluster: write redis+cluster:// in its URL")
        if info.get("role") == "slave" and self.address.kind == "single":
            raise self._refused(
                "is a replica, which cannot be written to: name the server it follows"
            )

    async def _check_eviction(self, target: _Target, info: dict[str, str]) -> None:
        policy = info.get("maxmemory_policy") or await self._config(target, "maxmemory-policy")
        if policy is None:
            _log.warning(
                "%s does not tell its maxmemory-policy: make sure that it is noeviction, or parts "
                "of rankings are deleted when memory runs out",
                self.address,
            )
        elif policy != "noeviction":
            raise self._refused(
                f"deletes keys when memory runs out (maxmemory-policy {policy}), and a ranking "
                "with it: set it to noeviction, with CONFIG SET maxmemory-policy noeviction and "
                "in its configuration"
            )

    async def _config(self, target: _Target, name: str) -> str | None:
        """Return a setting of a server; None if CONFIG is forbidden, as on a managed Redis."""
        try:
            reply = await self.command("CONFIG GET", name, **target)
        except IndexUnavailable as exc:
            if isinstance(exc.__cause__, ResponseError):
                return None
            raise
        if isinstance(reply, dict):
            reply = [part for pair in reply.items() for part in pair]
        if len(reply) < 2:
            return None
        return reply[1].decode() if isinstance(reply[1], bytes) else str(reply[1])

    def _refused(self, problem: str) -> InvalidSetting:
        return InvalidSetting(setting="index", source=str(self.address), problem=problem)


def _info(reply: Any) -> dict[str, str]:
    """Parse the reply of INFO, which redis-py may have parsed already."""
    if isinstance(reply, dict):
        if len(reply) == 1 and isinstance(next(iter(reply.values())), dict):
            reply = next(iter(reply.values()))
        return {str(name): str(value) for name, value in reply.items()}
    lines = (reply.decode() if isinstance(reply, bytes) else str(reply)).splitlines()
    parted = (line.partition(":") for line in lines)
    return {name: value for name, _, value in parted if value}


def _said(exc: BaseException) -> str:
    return (str(exc) or type(exc).__name__)[:200]
