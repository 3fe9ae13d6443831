"""A minimal client of the Redis protocol, to read a sorted set.

It avoids a dependency: log in, select a database, and iterate over one key by ZSCAN. Errors of
Redis, and replies that are not Redis', become CommandFailed with the reason.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

from rankd.cli.output import CommandFailed

FORM = "redis://HOST:PORT/DATABASE/KEY"
"""The form of a sorted set's URL, for messages. The default database is 0."""

TIMEOUT_SECONDS = 30.0
SCAN_COUNT = 1000
"""Members per ZSCAN; Redis may return more or fewer."""

LINE_BYTES_MAX = 64 * 1024
BULK_BYTES_MAX = 64 << 20
ARRAY_LENGTH_MAX = 10_000_000

Value = bytes | int | None | list["Value"]


class RedisKey(NamedTuple):
    """A key in a Redis server."""

    host: str
    port: int
    database: int
    key: str
    user: str | None
    password: str | None
    tls: bool

    @property
    def source(self) -> str:
        """Its name for messages, without the password."""
        return f"redis://{self.host}:{self.port}/{self.database}/{self.key}"


def place_of(url: str) -> RedisKey:
    """Parse ``redis://[user:password@]host[:port]/[database/]KEY``. Raises CommandFailed."""
    parts = urlsplit(url)
    segments = parts.path.lstrip("/").split("/", 1)
    database = 0
    if len(segments) == 2 and segments[0].isdigit():
        database, key = int(segments[0]), segments[1]
    else:
        key = parts.path.lstrip("/")
    try:
        port = parts.port or 6379
    except ValueError:
        port = 0
    if not parts.hostname or not key or not port:
        raise CommandFailed(f"name a sorted set as {FORM}")
    return RedisKey(
        parts.hostname,
        port,
        database,
        unquote(key),
        unquote(parts.username) if parts.username else None,
        unquote(parts.password) if parts.password else None,
        parts.scheme == "rediss",
    )


class Stream(Protocol):
    """A buffered connection."""

    def readline(self, limit: int, /) -> bytes:
        """Return bytes up to the end of a line, at most ``limit``."""

    def read(self, size: int, /) -> bytes:
        """Return ``size`` bytes; fewer at the end."""

    def write(self, data: bytes, /) -> object:
        """Buffer bytes to be sent."""

    def flush(self) -> None:
        """Send the buffered bytes."""


class RespConnection:
    """One connection."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def ask(self, *words: str) -> Value:
        """Send a command, return its reply. Raises CommandFailed."""
        encoded = [word.encode("utf-8", "surrogateescape") for word in words]
        parts = [b"*%d\r\n" % len(encoded)]
        parts += [b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded]
        self._stream.write(b"".join(parts))
        self._stream.flush()
        return self._read()

    def _read(self) -> Value:
        line = self._stream.readline(LINE_BYTES_MAX)
        if not line.endswith(b"\r\n"):
            raise CommandFailed("RespConnection closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise CommandFailed(f"Redis refuses: {rest.decode(errors='replace')}")
        if kind == b"+":
            return rest
        if kind not in b":$*" or not rest.lstrip(b"-").isdigit():
            raise CommandFailed("the server there is not RespConnection")
        number = int(rest)
        if kind == b":":
            return number
        return self._read_bulk(number) if kind == b"$" else self._read_array(number)

    def _read_bulk(self, length: int) -> bytes | None:
        if length < 0:
            return None
        if length > BULK_BYTES_MAX:
            raise CommandFailed("RespConnection sends a value that is too large to be a member")
        data = self._stream.read(length + 2)
        if len(data) != length + 2:
            raise CommandFailed("RespConnection closed the connection")
        return data[:-2]

    def _read_array(self, length: int) -> list[Value]:
        if length > ARRAY_LENGTH_MAX:
            raise CommandFailed("RespConnection sends a list that is too long")
        return [self._read() for _ in range(length)]


@contextmanager
def connected(place: RedisKey) -> Iterator[RespConnection]:
    """Connect, log in and select the database. Raises CommandFailed."""
    try:
        plain = socket.create_connection((place.host, place.port), TIMEOUT_SECONDS)
    except OSError as exc:
        raise CommandFailed(f"no Redis at {place.host}:{place.port}: {exc}") from None
    with plain:
        made = plain
        if place.tls:
            import ssl

            made = ssl.create_default_context().wrap_socket(plain, server_hostname=place.host)
        with made, made.makefile("rwb") as stream:
            redis = RespConnection(stream)
            if place.password is not None:
                redis.ask("AUTH", *([place.user] if place.user else []), place.password)
            if place.database:
                redis.ask("SELECT", str(place.database))
            yield redis


def count(redis: RespConnection, key: str) -> int:
    """Return the size of a sorted set. Raises CommandFailed if it does not exist."""
    found = redis.ask("ZCARD", key)
    if not isinstance(found, int) or found == 0:
        raise CommandFailed(f"Redis has no sorted set {key!r} with anybody in it")
    return found


def members(redis: RespConnection, key: str) -> Iterator[tuple[bytes, bytes]]:
    """Yield each member and its score as Redis writes them; a member may come twice."""
    cursor = "0"
    while True:
        answer = redis.ask("ZSCAN", key, cursor, "COUNT", str(SCAN_COUNT))
        if not isinstance(answer, list) or len(answer) != 2 or not isinstance(answer[1], list):
            raise CommandFailed("the server there is not RespConnection")
        parts = [_bytes(part) for part in answer[1]]
        yield from zip(parts[::2], parts[1::2], strict=True)
        cursor = _bytes(answer[0]).decode(errors="replace")
        if cursor == "0":
            return


def _bytes(value: Value) -> bytes:
    if not isinstance(value, bytes):
        raise CommandFailed("the server there is not RespConnection")
    return value
