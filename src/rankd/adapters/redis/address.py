"""Address of a Redis, parsed from a URL.

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

import re
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from rankd.errors import InvalidSetting

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
    """Address and options of a Redis."""

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
