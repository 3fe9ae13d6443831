"""Request logging: enough to find a request, and no secrets.

An error response has a ``request_id``, under which the log has the request. The log has the
operation and the error code, never input of the client: headers, queries and bodies contain keys,
tokens and names. Paths are logged only in the access log, with substrings masked that look like a
key, a token or a password, because clients do put them there.

A client can cause refusals at any rate, so a bounded number is logged per second. The number of
omitted ones is logged with the next.

The access log has a line for every request. A record of ``logging`` costs more than an answer, so
its lines are written to standard error in the same format, together, at the end of the loop
iteration.
"""

import asyncio
import logging
import re
import secrets
import sys
from collections.abc import Callable, Iterator
from time import localtime, monotonic, strftime, time
from urllib.parse import quote, unquote

from rankd.api.messages import Request
from rankd.api.rate_limits import Network, client_of
from rankd.api.request_head import RequestHead

REFUSALS_PER_SECOND_MAX = 20
"""Enough to diagnose; a flood of refusals would fill the disk."""

ROUTINE_CODES = frozenset({"not_ranked", "unknown_player"})
"""Codes of ordinary negative answers to whether a player exists: logged at DEBUG."""

_SECRET = re.compile(
    r"rk_[\w-]+"  # A key.
    r"|eyJ[\w-]*(?:\.[\w-]*)+"  # A token: base64 of {" to begin with.
    r"|(?<=//)[^/@]+(?=@)"  # The credentials in a URL.
)
STRUCK_OUT = "***"

LINE = "%(asctime)s %(levelname)s %(name)s: %(message)s"
"""The format of a log line, in every process of a service."""

ACCESS = " INFO rankd.access: "
"""The text between the time and the message of an access log line."""

PIPE_BYTES = 4096
"""PIPE_BUF: writes up to this size to a pipe are atomic, so lines of several processes stay whole.
"""

ID_BYTES = 8
IDS = 512
"""Request ids drawn at once."""

log = logging.getLogger("rankd.api")


class AccessLog:
    """Lines of requests, written together."""

    def __init__(self, write: Callable[[str], object] | None = None) -> None:
        self._write = write
        self._lines: list[str] = []
        self._second, self._time = 0, ""
        self._ids = _request_ids()

    def add(self, client: str, method: str, path: str, status: int, request_id: str = "") -> None:
        """Write a line at the end of this loop iteration; at once without a running loop."""
        now = time()
        second = int(now)
        if second != self._second:
            self._second, self._time = second, strftime("%Y-%m-%d %H:%M:%S", localtime(second))
        millisecond = int((now - second) * 1000)
        request_id = request_id or next(self._ids)
        self._lines.append(
            f"{self._time},{millisecond:03d}{ACCESS}"
            f"{client} {method} {path} {status} {request_id}\n"
        )
        if len(self._lines) == 1:
            try:
                asyncio.get_running_loop().call_soon(self.flush)
            except RuntimeError:
                self.flush()

    def flush(self) -> None:
        """Write the buffered lines, in pieces of up to PIPE_BYTES."""
        lines, self._lines = self._lines, []
        write = self._write or sys.stderr.write
        size, together = 0, list[str]()
        for line in lines:
            if size + len(line) > PIPE_BYTES and together:
                write("".join(together))
                size, together = 0, []
            together.append(line)
            size += len(line)
        if together:
            write("".join(together))


def _request_ids() -> Iterator[str]:
    """Yield ids like ``new_request_id``, drawn many at a time."""
    while True:
        drawn = secrets.token_hex(IDS * ID_BYTES)
        for at in range(0, len(drawn), 2 * ID_BYTES):
            yield drawn[at : at + 2 * ID_BYTES]


class RequestLog:
    """The request log of one application."""

    def __init__(
        self,
        *,
        every: bool,
        proxies: tuple[Network, ...] = (),
        now: Callable[[], float] = monotonic,
        access: AccessLog | None = None,
    ) -> None:
        self.every = every
        """Whether every request is logged: the access log."""
        self._access = access or AccessLog()
        self._proxies = proxies
        """Trusted proxies, whose X-Forwarded-For is used."""
        self._now = now
        self._second = 0
        self._logged = self._left_out = 0

    def answered(self, request: Request, status: int) -> None:
        """Log a request if the access log is on, without its query, which may hold names."""
        if self.every:
            forwarded_for = request.headers.get(b"x-forwarded-for")
            client = client_of(request.client, forwarded_for, self._proxies)
            path = without_secrets(request.path)
            self._access.add(client, request.method, path, status, request.request_id)

    def answered_head(self, client: str, head: RequestHead, status: int) -> None:
        """Log an answered request of which only the head was parsed."""
        client = client_of(client, head.forwarded_for, self._proxies)
        self._access.add(client, head.method, without_secrets(head.path), status)

    def refused(
        self, request_id: str, *, status: int, code: str, what: str, why: str | None = None
    ) -> None:
        """Log a refusal, up to REFUSALS_PER_SECOND_MAX.

        ``what`` is the operation or method, ``why`` the reason: neither contains input of the
        client.
        """
        level = logging.WARNING if status >= 500 else logging.INFO
        if code in ROUTINE_CODES:
            level = logging.DEBUG
        elif not self._may_log():
            return
        asked = what if why is None else f"{what}: {why}"
        log.log(level, "request %s refused: %d %s, %s", request_id, status, code, asked)

    def _may_log(self) -> bool:
        second = int(self._now())
        if second != self._second:
            if self._left_out:
                log.info("%d more requests were refused and not logged", self._left_out)
            self._second, self._logged, self._left_out = second, 0, 0
        if self._logged >= REFUSALS_PER_SECOND_MAX:
            self._left_out += 1
            return False
        self._logged += 1
        return True


def without_secrets(path: str) -> str:
    """Return a path with substrings masked that look like a key, a token or a password."""
    if "%" in path:  # Encoding may hide one.
        path = quote(unquote(path), safe="/:@")
    if "rk_" in path or "eyJ" in path or "//" in path:
        return _SECRET.sub(STRUCK_OUT, path)
    return path
