"""Runs: tokens that players get before they play, each good for one submission within its time.

A token is ``KEY.ID.MAC``: the id of the key that signed it, the id of the run, and HMAC-SHA256 over
the run, its board and its player. The id of a run holds its times, so starting one records nothing,
and any node that has the key checks a token by itself. A submission is recorded with the id alone:
that it is used once is decided in the fold, and needs neither key nor token.
"""

import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from hashlib import sha256
from struct import Struct
from typing import NamedTuple, Protocol

from rankd.model.window import Instant

RUN_SECONDS_MAX = 86_400
"""A day: the ids of used runs are remembered until their time is over."""

RUN_SECONDS_DEFAULT = 3_600
"""How long a run lasts on boards that do not say it."""

RUN_LATE_SECONDS = 3_600
"""How long after its expiry a submission that was accepted in time may be recorded: it waits in a
queue, or in a spool while the ledger is lost. After that the fold refuses its run."""

NONCE_BYTES = 8

_FIELDS = Struct(">QII8s")
RUN_BYTES = _FIELDS.size
"""The bytes of a run's id: 24, which are 32 characters."""

_ID = re.compile(r"[A-Za-z0-9_-]{32}", re.ASCII)
_TOKEN = re.compile(r"([0-9a-f]{12})\.([A-Za-z0-9_-]{32})\.([A-Za-z0-9_-]{43})", re.ASCII)
_DOMAIN = b"rankd.run.1"
_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How long runs on a board last, and whether a submission needs one."""

    seconds_min: int = 0
    seconds_max: int = RUN_SECONDS_DEFAULT
    required: bool = False

    def definition(self) -> dict[str, object]:
        """Return the options as a definition spells them."""
        return {
            "seconds_min": self.seconds_min,
            "seconds_max": self.seconds_max,
            "required": self.required,
        }


DEFAULT_RUNS = RunOptions()
"""The options of a board that declares none."""


class RunId(NamedTuple):
    """The id of a run, taken apart: its start and its times."""

    started: Instant
    seconds_min: int
    seconds_max: int
    nonce: bytes

    @classmethod
    def unpacked(cls, data: bytes) -> "RunId":
        """Return the id that ``packed`` made these bytes of."""
        return cls(*_FIELDS.unpack(data))

    @property
    def packed(self) -> bytes:
        """Its RUN_BYTES."""
        return _FIELDS.pack(*self)

    @property
    def text(self) -> str:
        """The id as facts have it, of 32 characters."""
        return urlsafe_b64encode(self.packed).decode()

    @property
    def not_before(self) -> Instant:
        """The first instant at which a submission may use it."""
        return self.started + self.seconds_min * _SECOND

    @property
    def expires(self) -> Instant:
        """The first instant at which no submission may use it any more."""
        return self.started + self.seconds_max * _SECOND

    @property
    def seed(self) -> str:
        """A random number for the game, in hex: it follows from the id alone."""
        return sha256(b"rankd.seed.1\0" + self.packed).hexdigest()[:16]


class RunToken(NamedTuple):
    """A token taken apart; nothing of it is checked yet."""

    key: str
    run: RunId
    mac: bytes

    def is_signed(self, secret: bytes, *, board: str, player: str) -> bool:
        """Whether this key signed it, for this board and player. In constant time."""
        return hmac.compare_digest(self.mac, _mac(self.run, secret, board=board, player=player))


class WithRun(Protocol):
    """The field of a submission that names its run."""

    @property
    def run(self) -> str | None:
        """The id of the run; None without one."""


def run_token(run: RunId, *, key: str, secret: bytes, board: str, player: str) -> str:
    """Return the token of a run."""
    mac = _mac(run, secret, board=board, player=player)
    return f"{key}.{run.text}.{urlsafe_b64encode(mac).decode().rstrip('=')}"


def read_run_token(text: str) -> RunToken | None:
    """Return the parts of a token; None if it is none, or is not written as ``run_token`` does."""
    parts = _TOKEN.fullmatch(text)
    if parts is None:
        return None
    mac = urlsafe_b64decode(parts[3] + "=")
    if urlsafe_b64encode(mac).decode().rstrip("=") != parts[3]:
        return None  # Bits that decoding drops: one token must have one spelling.
    run = read_run_id(parts[2])
    return None if run is None else RunToken(parts[1], run, mac)


def read_run_id(text: str) -> RunId | None:
    """Return the parts of a run's id; None if the text is none."""
    if not _ID.fullmatch(text):
        return None
    return RunId.unpacked(urlsafe_b64decode(text))


def elapsed_of_run(fact: WithRun, at: Instant) -> int | None:
    """Return the microseconds from the start of a submission's run until ``at``.

    None if it names no run. At least 1: rates are divided by it.
    """
    run = None if fact.run is None else read_run_id(fact.run)
    return None if run is None else max(1, at - run.started)


def _mac(run: RunId, secret: bytes, *, board: str, player: str) -> bytes:
    # Neither a board nor a player can hold the separator.
    signed = b"\0".join((_DOMAIN, board.encode(), player.encode(), run.packed))
    return hmac.digest(secret, signed, "sha256")


# ------------------------------------------------------------------------------ used runs

HOUR = 3_600 * _SECOND


def hour_of(run: RunId) -> int:
    """Return the hour, since 1970, in which a run expires: used runs are forgotten by it."""
    return run.expires // HOUR


def forgotten_before(at: Instant) -> int:
    """Return the first hour of expiry whose runs may still be recorded at a time."""
    return (at - RUN_LATE_SECONDS * _SECOND) // HOUR
