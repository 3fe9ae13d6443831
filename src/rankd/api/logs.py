"""What the log says of requests: enough to find one again, and nothing that was a secret.

An answer that refuses has a ``request_id``, and whoever asks about it is found under it here. The
log names the operation and the code of the error, which are ours, and not what was sent: headers,
queries and bodies hold keys, tokens and names. A path is logged only where an access log is wanted,
and what in it looks like a key, a token or a password is struck out: people do put them there.

Refusals are what a stranger can cause as often as he likes, so only so many of them are logged in a
second. How many were left out is told with the next.
"""

import logging
import re
from collections.abc import Callable
from time import monotonic
from urllib.parse import quote, unquote

from rankd.api.exchange import Request
from rankd.api.limits import Network, client_of

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

access_log = logging.getLogger("rankd.access")
log = logging.getLogger("rankd.api")


class RequestLog:
    """The log of one application's requests."""

    def __init__(
        self,
        *,
        every: bool,
        proxies: tuple[Network, ...] = (),
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._every = every
        """Whether each request is logged."""
        self._proxies = proxies
        """Whose word for a client's address is taken."""
        self._now = now
        self._second = 0
        self._logged = self._left_out = 0

    def answered(self, request: Request, status: int) -> None:
        """Note a request that was answered, if that is wanted. The query may hold names: not it."""
        if self._every:
            client = client_of(request, self._proxies)
            path, name = without_secrets(request.path), request.request_id
            access_log.info("%s %s %s %d %s", client, request.method, path, status, name)

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
    return _SECRET.sub(STRUCK_OUT, path)
