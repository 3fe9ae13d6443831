"""Every setting and every limit of the service: one table, three sources.

The command line overrides the environment (``RANKD_`` and the name in capitals), which overrides
``rankd.toml``. Values of all sources are checked before anything is opened, overridden ones
included: a mistake would otherwise appear only when the overriding value is removed.

To add a setting, add a field to ``Settings``: its name, its type, its default and a ``Doc``. The
table, the environment's names and the checks follow.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

from rankd.errors import InvalidSetting

ENVIRONMENT_PREFIX = "RANKD_"

OTHER_VARIABLES = frozenset(
    f"{ENVIRONMENT_PREFIX}{name}"
    for name in (
        *("URL", "KEY"),  # Of the clients.
        "WORKER",  # From the writing process to its workers.
        *("PURE", "DEBUG", "SANITIZE"),  # Of the build.
        *("HYPOTHESIS", "CHROMIUM", "TEST_CLOCK"),  # Of the tests.
    )
)
"""Variables with the prefix that are not settings."""

NAME_LENGTH_MAX = 64
"""Characters of an unknown name that an error repeats: more than any setting has."""

LISTED = "`rankd serve --help` lists what there is"

_OF_A_SERVICE = re.compile(
    rf"{ENVIRONMENT_PREFIX}(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)"
)
_ADDRESS = re.compile(r"(tcp|udp|sctp)://")
"""With _OF_A_SERVICE: the variables that Kubernetes sets in every container of a service, if it is
called rankd."""

_TRUTHS = {"true": True, "yes": True, "1": True, "on": True}
_LIES = {"false": False, "no": False, "0": False, "off": False}


class Doc(NamedTuple):
    """The help text of a setting, and the least and greatest value it may have."""

    help: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    """All values that a text may have; empty for any."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """The settings in force, all checked. Frozen, so they stay as they were checked."""

    host: Annotated[str, Doc("Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Doc("Port to listen on; 0 takes a free one.", 0, 65535)] = 8700
    data: Annotated[str, Doc("Folder that holds the ledger and its snapshots.")] = "rankd-data"

    ledger: Annotated[
        str, Doc("Where the ledger is: sqlite, in the data folder, or postgresql://USER@HOST/NAME.")
    ] = "sqlite"
    ledger_silence_seconds: Annotated[
        float,
        Doc("Time without an answer until PostgreSQL, a disk or the writer is lost.", 0.1, 60),
    ] = 1.0
    exit_on_ledger_failure: Annotated[
        bool, Doc("Whether the service exits when only a new start can let it write again.")
    ] = True
    index: Annotated[
        str, Doc("Where the index is: native, in this process, or redis://HOST shared by nodes.")
    ] = "native"
    bus: Annotated[
        str, Doc("The event transport: memory, so far nothing else.", choices=("memory",))
    ] = "memory"
    spare_index: Annotated[
        bool, Doc("Whether to keep a native copy of a shared index, to read from while it is lost.")
    ] = False
    top_list_entries: Annotated[
        int,
        Doc("Of each ranking, how many are kept in PostgreSQL while Redis is lost.", 0, 10_000),
    ] = 1_000
    top_list_seconds: Annotated[
        float, Doc("Age in seconds at which such a list is made anew.", 0.1, 3600)
    ] = 10.0
    replica_reads: Annotated[
        tuple[str, ...], Doc("Boards that may be read from replicas of Redis, * for all of them.")
    ] = ()
    filled_entries_max: Annotated[
        int,
        Doc("How large a lost index may be for this node to make it in memory.", 0, 1_000_000_000),
    ] = 10_000_000
    past_facts_max: Annotated[
        int,
        Doc("How many facts are folded again for one request of past standings.", 0, 10**12),
    ] = 1_000_000
    past_entries_max: Annotated[
        int,
        Doc("How many entries of past rankings each process has in memory.", 0, 10**9),
    ] = 1_000_000
    movement_entries_max: Annotated[
        int,
        Doc("How many entries of the start of the day are in memory, for rank_change.", 0, 10**9),
    ] = 1_000_000
    spool: Annotated[
        bool, Doc("Whether scores wait on this node's disk while PostgreSQL cannot be reached.")
    ] = False
    segment_values_max: Annotated[
        int,
        Doc("How many values a segment of a board may have, each with a ranking.", 1, 1_000_000),
    ] = 10_000
    clock_step_seconds: Annotated[
        float, Doc("How long a step of the clock must last before it is believed.", 0, 86_400)
    ] = 600.0
    key_use_seconds: Annotated[
        int, Doc("How far the recorded last use of a key may be behind; 0 records none.", 0, 86_400)
    ] = 3_600
    role: Annotated[str, Doc("The roles of this node: all, api, query, ingest or manager.")] = "all"
    node: Annotated[
        str, Doc("Name of this node in a ledger that several append to; the host's name if absent.")
    ] = ""
    workers: Annotated[int, Doc("Processes that answer; one of them also writes.", 1, 64)] = 1

    connections_max: Annotated[
        int, Doc("Connections open at once; one more is answered 503 and closed.", 1, 1_000_000)
    ] = 10_000
    backlog_max: Annotated[
        int, Doc("Connections the system may hold ready before they are accepted.", 1, 65535)
    ] = 2048
    request_head_bytes_max: Annotated[
        int, Doc("Size of a request's target and headers; beyond it 431.", 1024, 1 << 20)
    ] = 16 * 1024
    request_headers_max: Annotated[
        int, Doc("Headers of one request; beyond it 431.", 8, 10_000)
    ] = 100
    request_body_bytes_max: Annotated[
        int, Doc("Size of a request's body; beyond it 413.", 1024, 1 << 30)
    ] = 1 << 20
    request_seconds_max: Annotated[
        float, Doc("Time for a request to arrive whole, from its first byte; then 408.", 0.01, 3600)
    ] = 10.0
    idle_seconds_max: Annotated[
        float, Doc("Time a connection may stay open without a request.", 0.01, 86_400)
    ] = 75.0
    send_seconds_max: Annotated[
        float, Doc("Time a client may leave its answer unread; then it is cut off.", 0.01, 3600)
    ] = 30.0
    linger_seconds_max: Annotated[
        float, Doc("Time to go on reading after a refusal, so that it can be read.", 0.0, 60)
    ] = 2.0
    stop_seconds_max: Annotated[
        float, Doc("Time running requests get to finish when the service stops.", 0.0, 3600)
    ] = 30.0

    stream_interval: Annotated[
        float, Doc("Least time between two events of a subscription, in seconds.", 0.01, 60)
    ] = 0.1
    stream_subscriptions_max: Annotated[
        int, Doc("Subscriptions of one process; one more is answered 503.", 1, 1_000_000)
    ] = 20_000
    stream_connection_subscriptions_max: Annotated[
        int, Doc("Subscriptions of one WebSocket.", 1, 10_000)
    ] = 100
    stream_buffer_bytes: Annotated[
        int,
        Doc("Unread bytes of a stream at which nothing more is written to it.", 4096, 1 << 24),
    ] = 65_536
    stream_keepalive_seconds: Annotated[
        float, Doc("Time between two signs of life on a stream.", 0.1, 3600)
    ] = 15.0
    ticket_seconds: Annotated[
        float, Doc("Time in which a ticket for a stream has to be used.", 1, 3600)
    ] = 30.0

    webhook_private_addresses: Annotated[
        bool,
        Doc("Whether webhooks and verifiers may be at private addresses, also by http."),
    ] = False

    cors_origins: Annotated[
        tuple[str, ...], Doc("Origins whose pages may call everything: https://game.example.")
    ] = ()
    cors_reads_anywhere: Annotated[
        bool, Doc("Whether pages of any origin may read (GET), without credentials.")
    ] = False
    jwt_algorithm: Annotated[
        str, Doc("How players' tokens are signed: HS256, RS256 or EdDSA; no tokens if absent.")
    ] = ""
    jwt_key_file: Annotated[
        str, Doc("File with the secret (HS256) or the public key as PEM that checks tokens.")
    ] = ""
    jwt_jwks: Annotated[
        str, Doc("Instead of it: a set of public keys (JWKS), a file or an https address.")
    ] = ""
    jwt_issuer: Annotated[str, Doc("The iss that every token must have.")] = ""
    jwt_audience: Annotated[str, Doc("The aud that every token must have.")] = ""
    rate_per_key: Annotated[
        float, Doc("Requests a second with one key; beyond it 429; 0 for no bound.", 0, 1_000_000)
    ] = 0.0
    rate_per_player: Annotated[
        float, Doc("The same for a player, by its token or the player of a score.", 0, 1_000_000)
    ] = 0.0
    rate_per_address: Annotated[
        float, Doc("The same for an address, or for a /64 of IPv6.", 0, 1_000_000)
    ] = 0.0
    rate_burst: Annotated[
        int, Doc("Requests that may come at once before a rate holds.", 1, 1_000_000)
    ] = 20
    trusted_proxies: Annotated[
        tuple[str, ...], Doc("Addresses and networks whose X-Forwarded-For is trusted.")
    ] = ()
    public_pages: Annotated[
        tuple[str, ...],
        Doc("Boards whose pages shared caches may keep though reading takes a key; * for all."),
    ] = ()
    access_log: Annotated[bool, Doc("Whether each request is logged, with its status.")] = False
    audit_addresses: Annotated[
        bool,
        Doc("Whether the audit trail has the address from which an administrative change came."),
    ] = True
    fast_lane: Annotated[
        bool, Doc("Whether hot routes are answered on the spot; off only to compare.")
    ] = True


class Setting(NamedTuple):
    """One row of the table."""

    name: str
    kind: type
    default: Any
    help: str
    low: float | None
    high: float | None
    choices: tuple[str, ...] = ()

    @property
    def environment(self) -> str:
        """The name of its variable."""
        return ENVIRONMENT_PREFIX + self.name.upper()

    def accepts(self) -> str:
        """Return the accepted values, as the end of a sentence that begins with the name."""
        if self.kind is bool:
            return "takes true or false"
        if self.kind is tuple:
            return "takes a list of texts, separated by commas where it is one text"
        if self.choices:
            return f"takes {', '.join(self.choices)}; anything else is not supported yet"
        if self.kind is str:
            return "takes a text that is not empty"
        return f"takes {'a whole number' if self.kind is int else 'a number'} {self.range()}"

    def range(self) -> str:
        """Return the least and the greatest number, with every digit."""
        assert self.low is not None and self.high is not None
        low, high = (f"{bound:f}".rstrip("0").rstrip(".") for bound in (self.low, self.high))
        return f"from {low or '0'} to {high}"

    def read(self, given: Any, source: str) -> Any:
        """Return the parsed value. Raises InvalidSetting."""
        if given == self.default == "":  # Overrides a weaker source with "not set".
            return given
        value = _READERS[self.kind](given)
        below = self.low is not None and value is not None and value < self.low
        above = self.high is not None and value is not None and value > self.high
        strange = bool(self.choices) and value not in self.choices
        if value is None or below or above or strange:
            raise InvalidSetting(setting=self.name, source=source, problem=self.accepts())
        return value


def _read_text(given: Any) -> str | None:
    return given if isinstance(given, str) and given else None


def _read_int(given: Any) -> int | None:
    if isinstance(given, str) and given.isascii() and given.lstrip("-").isdigit():
        return int(given[:20])
    return given if isinstance(given, int) and not isinstance(given, bool) else None


def _read_float(given: Any) -> float | None:
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        return None
    try:
        number = float(given)
    except ValueError:
        return None
    return number if abs(number) < float("inf") else None


def _read_bool(given: Any) -> bool | None:
    if isinstance(given, str):
        return (_TRUTHS | _LIES).get(given.strip().lower())
    return given if isinstance(given, bool) else None


def _read_list(given: Any) -> tuple[str, ...] | None:
    if isinstance(given, str):
        return tuple(part.strip() for part in given.split(",") if part.strip())
    if isinstance(given, list | tuple) and all(isinstance(part, str) for part in given):
        return tuple(given)
    return None


_READERS: Mapping[type, Any] = {
    str: _read_text,
    int: _read_int,
    float: _read_float,
    bool: _read_bool,
    tuple: _read_list,
}


def _rows() -> list[Setting]:
    hints = get_type_hints(Settings, include_extras=True)
    rows = []
    for made in fields(Settings):
        kind, doc = get_args(hints[made.name])
        kind = get_origin(kind) or kind
        rows.append(Setting(made.name, kind, made.default, *doc))
    return rows


TABLE: tuple[Setting, ...] = tuple(_rows())
_BY_NAME = {row.name: row for row in TABLE}
_BY_VARIABLE = {row.environment: row for row in TABLE}


def resolve(
    *,
    command_line: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Settings:
    """Return the settings in force, each from the strongest source that has it.

    ``command_line`` has values by the setting's name; None means not given. A ``file`` that is None
    or missing sets nothing.
    """
    values: dict[str, Any] = {}
    if file is not None and file.exists():
        values |= _from_file(file)
    values |= _from_environment(environment or {})
    values |= _from_command_line(command_line or {})
    return Settings(**values)


def _from_file(file: Path) -> dict[str, Any]:
    try:
        given = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as exc:
        raise InvalidSetting(
            setting="the file", source=str(file), problem=f"cannot be read: {exc}"
        ) from None
    return {name: _known(name, str(file)).read(value, str(file)) for name, value in given.items()}


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    values = {}
    for variable, given in environment.items():
        if not variable.startswith(ENVIRONMENT_PREFIX) or _is_no_setting(variable, given):
            continue
        if variable not in _BY_VARIABLE:
            raise InvalidSetting(
                setting=variable[:NAME_LENGTH_MAX],
                source="the environment",
                problem=_unknown_variable(variable),
            )
        row = _BY_VARIABLE[variable]
        values[row.name] = row.read(given, f"the environment ({variable})")
    return values


def _is_no_setting(variable: str, given: str) -> bool:
    """Whether a variable is not meant as a setting: one of OTHER_VARIABLES, or from Kubernetes."""
    if variable in OTHER_VARIABLES or _OF_A_SERVICE.fullmatch(variable):
        return True
    return variable.endswith("_PORT") and _ADDRESS.match(given) is not None


def _unknown_variable(variable: str) -> str:
    cut = len(ENVIRONMENT_PREFIX)  # A common prefix would make all names similar.
    names = [known[cut:] for known in (*_BY_VARIABLE, *OTHER_VARIABLES)]
    return _unknown(variable[cut:], names, prefix=ENVIRONMENT_PREFIX)


def _unknown(name: str, names: Iterable[str], *, prefix: str = "") -> str:
    from difflib import get_close_matches  # Only needed after a mistake.

    near = get_close_matches(name[:NAME_LENGTH_MAX], names, n=1)
    meant = f"did you mean {prefix}{near[0]}?" if near else LISTED
    return f"is not a setting; {meant}"


def _from_command_line(given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _known(name, "the command line").read(value, "the command line")
        for name, value in given.items()
        if value is not None
    }


def _known(name: str, source: str) -> Setting:
    if name not in _BY_NAME:
        # An option's name has hyphens instead.
        problem = _unknown(name.replace("-", "_"), _BY_NAME)
        raise InvalidSetting(setting=name[:NAME_LENGTH_MAX], source=source, problem=problem)
    return _BY_NAME[name]


def shown_place(place: str) -> str:
    """Return a folder, or a URL without user, password and query, to be printed."""
    if "://" not in place:
        return place
    parts = urlsplit(place)
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=host, query="").geturl()
