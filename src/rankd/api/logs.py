"""What the log says of requests: enough to find one again, and nothing that was a secret.

An answer that refuses has a ``request_id``, and whoever asks about it is found under it here. The
log names the operation and the code of the error, which are ours, and not what was sent: headers,
queries and bodies hold keys, tokens and names. A path is logged only where an access log is wanted,
and what in it looks like a key, a token or a password is struck out: people do put them there.

Refusals are what a stranger can cause as often as he likes, so only so many of them are logged in a
second. How many were left out is told with the next.

The access log has a line for every request, as many as there are answers. So its lines are not
records of ``logging``, each of which costs more than an answer: they are written to standard error
in the same layout, together, at the end of the loop's iteration.
"""

import asyncio
import logging
import re
import secrets
import sys
from collections.abc import Callable, Iterator
from time import localtime, monotonic, strftime, time
from urllib.parse import quote, unquote

from rankd.api.exchange import Request
from rankd.api.limits import Network, client_of
from rankd.api.request_head import RequestHead

REFUSALS_PER_SECOND_MAX = 20
"""Enough to see what is the matter; a flood of them would fill the disk of whoever is attacked."""

ROUTINE_CODES = frozenset({"not_ranked", "unknown_player"})
"""Ordinary answers to the question whether there is such a player: logged at DEBUG."""

_SECRET = re.compile(
    r"rk_[\w-]+"  # A key of ours.
    r"|eyJ[\w-]*(?:\.[\w-]*)+"  # A token: base64 of {" to begin with.
    r"|(?<=//)[^/@]+(?=@)"  # What stands before the host of a URL.
)
STRUCK_OUT = "***"

LINE = "%(asctime)s %(levelname)s %(name)s: %(message)s"
"""How a line of the log looks, in every process of a service."""

ACCESS = " INFO rankd.access: "
"""Stands between the time and the message of a line of the access log."""

PIPE_BYTES = 4096
"""Lines of several processes stay whole where each write to a pipe is no longer."""

ID_BYTES = 8
IDS = 512
"""Names of requests that are drawn at once."""

log = logging.getLogger("rankd.api")


class AccessLog:
    """Lines of requests, written together."""

    def __init__(self, write: Callable[[str], object] | None = None) -> None:
        self._write = write
        self._lines: list[str] = []
        self._second, self._time = 0, ""
        self._ids = _request_ids()

    def add(self, client: str, method: str, path: str, status: int, request_id: str = "") -> None:
        """Write a line at the end of this iteration of the loop; at once outside of one."""
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
        """Write the lines that wait."""
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
    """Yield names as ``new_request_id`` does, drawn many at a time."""
    while True:
        drawn = secrets.token_hex(IDS * ID_BYTES)
        for at in range(0, len(drawn), 2 * ID_BYTES):
            yield drawn[at : at + 2 * ID_BYTES]


class RequestLog:
    """The log of one application's requests."""

    def __init__(
        self,
        *,
        every: bool,
        proxies: tuple[Network, ...] = (),
        now: Callable[[], float] = monotonic,
        access: AccessLog | None = None,
    ) -> None:
        self.every = every
        """Whether each request is logged."""
        self._access = access or AccessLog()
        self._proxies = proxies
        """Whose word for a client's address is taken."""
        self._now = now
        self._second = 0
        self._logged = self._left_out = 0

    def answered(self, request: Request, status: int) -> None:
        """Note a request that was answered, if that is wanted. The query may hold names: not it."""
        if self.every:
            forwarded_for = request.headers.get(b"x-forwarded-for")
            client = client_of(request.client, forwarded_for, self._proxies)
            path = without_secrets(request.path)
            self._access.add(client, request.method, path, status, request.request_id)

    def answered_head(self, client: str, head: RequestHead, status: int) -> None:
        """Note a request of which only the head is at hand."""
        client = client_of(client, head.forwarded_for, self._proxies)
        self._access.add(client, head.method, without_secrets(head.path), status)

    def refused(
        self, request_id: str, *, status: int, code: str, what: str, why: str | None = None
    ) -> None:
        """Note a refusal, unless there were too many of late.

        ``what`` was asked and ``why`` it was refused are in our words.
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
    """Return a path with what looks like a key, a token or a password struck out."""
    if "%" in path:  # It may hide one.
        path = quote(unquote(path), safe="/:@")
    if "rk_" in path or "eyJ" in path or "//" in path:
        return _SECRET.sub(STRUCK_OUT, path)
    return path
