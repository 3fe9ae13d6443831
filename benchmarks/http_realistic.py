"""What is left of the plain path's speed under the traffic that a product really gets?

Each realistic trait of requests, settings or boards is a case of its own, measured in turns with
the plain case in the same run and told as a share of it. A case that falls far below one is a
cliff: its users would never see the published speed.

Requests are made before the clock starts, as many and of the same kind for every case, and wrk
sends them in turn. So the load costs the same on both sides of a share.
"""

import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import jwt

import rankd
from benchmarks.figures import Goal, quotient
from benchmarks.http_load import HOST, read_wrk, require_wrk, started_service, started_wrk
from benchmarks.machine import cpu_seconds
from benchmarks.progress import tell
from benchmarks.questions import Asked, answer, find, judged, row
from rankd.core.managers import SAVE_AT_CLOSE_FACTS, SAVE_EVERY_FACTS

NAME = "http_realistic"
QUESTION = "What is left of the plain path's speed under realistic traffic?"
ROUNDS = 3
SECONDS = 3
BATCH = 8_192
READS = 50_000
"""Requests that are made for a case of reads; wrk begins again at the end."""
WRITES = 200_000
"""Requests that are made for a case of submissions: more than are sent, so no key comes twice."""
BATCHES = 40
ADDRESSES = 5_000
NAMED = 10_000
"""Players with a profile."""
SECRET = "a secret of thirty-two bytes or more"
REGIONS = ("eu", "na", "sa", "as", "af")
PLATFORMS = ("ios", "android", "web")
AGENTS = tuple(
    f"Game/{major}.{minor} ({system}; build {major * 100 + minor})"
    for major in range(1, 6)
    for minor in range(20)
    for system in ("iPhone; iOS 17.4", "Android 14; Pixel 8")
)

_LUA = """
local file = io.open("%s", "rb")
local requests, text = {}, file:read("*a")
file:close()
for one in text:gmatch("([^%%z]+)") do requests[#requests + 1] = one end
local turn, count = 0, #requests
request = function()
  turn = turn %% count + 1
  return requests[turn]
end
"""


class World(NamedTuple):
    """The players with their credentials, and a source of chance that is the same in every run."""

    players: int
    dice: random.Random
    key: str = ""
    tokens: tuple[str, ...] = ()

    def player(self) -> str:
        return f"player-{self.dice.randrange(self.players):09d}"

    def platform_player(self) -> str:
        return f"steam:{self.dice.randrange(self.players):09d}@eu"

    def named_player(self) -> str:
        return f"player-{self.dice.randrange(min(NAMED, self.players)):09d}"

    def score(self) -> int:
        return self.dice.randrange(10**8, 10**9)


Headers = Callable[[World], str]
Rest = Callable[[World, str], str]
"""Further fields of a player's submission, as JSON."""


class Figure(NamedTuple):
    """A load, and the processor time that the service spent on each request of it."""

    per_second: float
    p99_ms: float
    cpu_us: float


class Case(NamedTuple):
    """One trait of real traffic."""

    name: str
    requests: Callable[[World], Iterable[str]]
    of: str
    goal: float
    service: str = "open"
    connections: int = 32


# ----------------------------------------------------------------------------- requests


def no_headers(_: World) -> str:
    return ""


def nothing_else(_: World, _player: str) -> str:
    return ""


def differing_headers(world: World) -> str:
    """Headers of an app: no two requests have the same."""
    mark = f"{world.dice.getrandbits(128):032x}"
    return (
        f"user-agent: {world.dice.choice(AGENTS)}\r\naccept: application/json\r\n"
        f"accept-language: en-GB,en;q=0.8\r\nx-request-id: {mark[:16]}\r\n"
        f"traceparent: 00-{mark}-{mark[8:24]}-01\r\n"
    )


def proxy_headers(world: World) -> str:
    place = world.dice.randrange(ADDRESSES)
    address = f"203.{place // 65536 + 1}.{place // 256 % 256}.{place % 256}"
    return (
        f"x-forwarded-for: {address}\r\nx-forwarded-proto: https\r\n"
        f"x-forwarded-host: board.example\r\n"
    )


def key_header(world: World) -> str:
    return f"authorization: Bearer {world.key}\r\n"


def token_header(world: World) -> str:
    return f"authorization: Bearer {world.dice.choice(world.tokens)}\r\n"


def joined(*headers: Headers) -> Headers:
    return lambda world: "".join(some(world) for some in headers)


def _get(path: str, headers: str) -> str:
    return f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n{headers}\r\n"


def _post(path: str, headers: str, body: str) -> str:
    return (
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n{headers}"
        f"content-type: application/json\r\ncontent-length: {len(body.encode())}\r\n\r\n{body}"
    )


def ranks(
    board: str = "arena",
    headers: Headers = no_headers,
    player: Callable[[World], str] = World.player,
) -> Callable[[World], Iterator[str]]:
    """Requests for one player's standing."""

    def made(world: World) -> Iterator[str]:
        for _ in range(READS):
            yield _get(f"/v1/boards/{board}/standings/{player(world)}", headers(world))

    return made


def escaped_player(world: World) -> str:
    return world.platform_player().replace(":", "%3A").replace("@", "%40")


def pages(world: World) -> Iterator[str]:
    """Pages of 100 that begin anywhere."""
    for _ in range(READS):
        offset = world.dice.randrange(world.players - 100)
        yield _get(f"/v1/boards/arena/standings?limit=100&offset={offset}", "")


def lookups(world: World) -> Iterator[str]:
    """Lookups of 50 players."""
    for _ in range(READS // 5):
        body = json.dumps({"players": [world.player() for _ in range(50)]})
        yield _post("/v1/boards/arena/standings:lookup", "", body)


def submissions(
    board: str = "arena",
    headers: Headers = no_headers,
    player: Callable[[World], str] = World.player,
    rest: Rest = nothing_else,
) -> Callable[[World], Iterator[str]]:
    """Requests that submit one score each."""

    def made(world: World) -> Iterator[str]:
        for _ in range(WRITES):
            who = player(world)
            body = f'{{"player":"{who}","score":{world.score()}{rest(world, who)}}}'
            yield _post(f"/v1/boards/{board}/scores", headers(world), body)

    return made


def submission_key(world: World, _: str) -> str:
    return f',"key":"match-{world.dice.getrandbits(64):016x}"'


def metadata(world: World, _: str) -> str:
    return (
        f',"metadata":{{"level":{world.dice.randrange(90)},"hero":"mage",'
        f'"replay":"r/{world.dice.getrandbits(48):012x}","moves":{world.dice.randrange(999)}}}'
    )


def attributes_of(number: int) -> dict[str, str]:
    return {
        "region": REGIONS[number % len(REGIONS)],
        "platform": PLATFORMS[number // 7 % len(PLATFORMS)],
    }


def attributes(world: World, player: str) -> str:
    """The attributes that the player has; one time in a hundred it plays from another place."""
    moved = world.dice.random() < 0.01
    shown = attributes_of(int(player.removeprefix("player-")) + moved)
    return ',"attributes":{{"region":"{region}","platform":"{platform}"}}'.format(**shown)


def batches(rest: Rest = nothing_else) -> Callable[[World], Iterator[str]]:
    """Requests that submit a thousand scores each."""

    def made(world: World) -> Iterator[str]:
        for _ in range(BATCHES):
            scores = ",".join(
                f'{{"board":"arena","player":"{who}","score":{world.score()}{rest(world, who)}}}'
                for who in (world.player() for _ in range(1000))
            )
            yield _post("/v1/scores:batch", "", f'{{"scores":[{scores}]}}')

    return made


# -------------------------------------------------------------------------------- cases

RANK = "one rank"
WRITE = "one submission"
MANY = "a batch of 1,000"
SENT_MAX = {RANK: 0, WRITE: WRITES, MANY: SAVE_EVERY_FACTS}
"""The most scores that a case sends, by what it is a share of."""

PROXIES = ("--trusted-proxies", "127.0.0.1")
LIMITS = tuple(
    word
    for who in ("key", "player", "address")
    for word in (f"--rate-per-{who}", "1000000", "--rate-burst", "1000000")
)
TOKENS = ("--jwt-algorithm", "HS256", "--jwt-issuer", "login", "--jwt-audience", "game")
LOG = ("--access-log",)

SERVICES: dict[str, tuple[str, ...]] = {
    "open": (),
    "proxies": PROXIES,
    "limited": LIMITS,
    "logged": LOG,
    "keys": (),
    "tokens": TOKENS,
    "all": (*PROXIES, *LIMITS, *LOG),
}
"""Services by name, with the flags each is started with."""
KEYED = ("keys", "proxies", "tokens", "all")
"""Services that let nobody in without a key or a token."""

proxied = joined(key_header, proxy_headers)
everything = joined(key_header, differing_headers, proxy_headers)


def cases() -> list[Case]:
    """Return every case, the plain ones first."""
    return [*_read_cases(), *_write_cases(), *_batch_cases()]


def _read_cases() -> list[Case]:
    def case(name: str, requests: Any, goal: float = 0.7, service: str = "open") -> Case:
        return Case(f"{RANK}, {name}", requests, RANK, goal, service)

    return [
        Case(RANK, ranks(), RANK, 1),
        case("ids with : and @", ranks("platforms", player=World.platform_player)),
        case("ids with escapes", ranks("platforms", player=escaped_player)),
        case("headers that differ", ranks(headers=differing_headers)),
        case("proxy headers of 5,000 addresses", ranks(headers=proxied), service="proxies"),
        case("API key", ranks(headers=key_header), service="keys"),
        case("player tokens", ranks(headers=token_header), service="tokens"),
        case("rate limits", ranks(), service="limited"),
        case("access log", ranks(), service="logged"),
        case("metrics scraped each second", ranks(), service="scraped"),
        case("dense board", ranks("dense")),
        case("standard board", ranks("standard")),
        case("decimals", ranks("decimals")),
        case("profile names", ranks("named", player=World.named_player)),
        case(
            "key, limits, log, proxy and differing headers", ranks(headers=everything), 0.5, "all"
        ),
        Case("page of 100 at a random offset", pages, RANK, 0.15),
        Case("lookup of 50 players", lookups, RANK, 0.12),
    ]


def _write_cases() -> list[Case]:
    def case(name: str, requests: Any, goal: float = 0.7, service: str = "open") -> Case:
        return Case(f"{WRITE}, {name}", requests, WRITE, goal, service, 256)

    return [
        Case(WRITE, submissions(), WRITE, 1, connections=256),
        case("ids with : and @", submissions("platforms", player=World.platform_player)),
        case("headers that differ", submissions(headers=differing_headers)),
        case(
            "proxy headers of 5,000 addresses",
            submissions(headers=proxied),
            service="proxies",
        ),
        case("API key", submissions(headers=key_header), service="keys"),
        case("rate limits", submissions(), service="limited"),
        case("access log", submissions(), service="logged"),
        case("submission key", submissions(rest=submission_key), 0.65),
        case("dense board", submissions("dense")),
        case("standard board", submissions("standard")),
        case("all rules", submissions("rules"), 0.75),
        case("metadata", submissions(rest=metadata), 0.6),
        case("three windows", submissions("windows"), 0.75),
        case("three windows and two segments", submissions("segments", rest=attributes), 0.4),
        case(
            "key, limits, log, proxy and differing headers",
            submissions(headers=everything),
            0.5,
            "all",
        ),
    ]


def _batch_cases() -> list[Case]:
    return [
        Case(MANY, batches(), MANY, 1, connections=4),
        Case(f"{MANY}, attributes", batches(attributes), MANY, 0.5, connections=4),
    ]


# ------------------------------------------------------------------------------ running


def run(asked: Asked) -> dict[str, Any]:
    """Measure every case, and judge by the goals."""
    require_wrk()
    figures: dict[str, list[Figure]] = {case.name: [] for case in cases()}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        _fill(folder / "open", asked.players)
        shutil.copytree(folder / "open", folder / "keyed")
        key, tokens = _make_key(folder / "keyed"), _make_tokens()
        for number in range(1, ROUNDS + 1):
            world = World(asked.players, random.Random(number), key, tokens)
            for case, figure in _round(folder, world):
                told = f"{figure.per_second:,.0f}/s, {figure.cpu_us:.1f} us of the processor each"
                tell(f"http_realistic: round {number}: {case.name}: {told}")
                figures[case.name].append(figure)
    result = answer(NAME, QUESTION, asked, list(_rows(figures)))
    return judged(result, [_goal(result, case) for case in cases() if case.name != case.of])


def _rows(figures: dict[str, list[Figure]]) -> Iterator[dict[str, Any]]:
    medians = {
        name: Figure(*(statistics.median(column) for column in zip(*some, strict=True)))
        for name, some in figures.items()
    }
    for case in cases():
        figure, plain = medians[case.name], medians[case.of]
        yield row(
            case.name,
            figure.per_second,
            "/s",
            share=figure.per_second / plain.per_second,
            of=case.of,
            p99_ms=figure.p99_ms,
            cpu_us=figure.cpu_us,
        )


def _goal(result: dict[str, Any], case: Case) -> Goal:
    def share() -> float | None:
        return quotient(find(result, case.name), find(result, case.of))

    return Goal("P14", f"{case.name}, of {case.of}", "", "at least", case.goal, share)


def _round(folder: Path, world: World) -> Iterator[tuple[Case, Figure]]:
    for service in (*SERVICES, "scraped"):
        for some in between_saves([case for case in cases() if case.service == service]):
            with _started(folder, service) as (port, process):
                for case in some:
                    yield case, _measure(port, process.pid, case, world)


def between_saves(some: Sequence[Case]) -> Iterator[list[Case]]:
    """Yield as many cases at a time as send too few scores for the index to be saved meanwhile.

    A save takes seconds of processor time, and would fall on the same case in every round.
    """
    together: list[Case] = []
    sent = 0
    for case in some:
        if together and sent + SENT_MAX[case.of] > SAVE_EVERY_FACTS - SAVE_AT_CLOSE_FACTS:
            yield together
            together, sent = [], 0
        together.append(case)
        sent += SENT_MAX[case.of]
    yield together


@contextmanager
def _started(folder: Path, service: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    data = folder / ("keyed" if service in KEYED else "open")
    flags = SERVICES.get(service, ())
    if service == "tokens":
        secret = folder / "secret"
        secret.write_text(SECRET)
        flags = (*flags, "--jwt-key-file", str(secret))
    with (
        started_service(data, *flags, log=folder / "log") as (port, process),
        _scraping(port) if service == "scraped" else nullcontext(),
    ):
        yield port, process


@contextmanager
def _scraping(port: int) -> Iterator[None]:
    """Scrape the metrics each second meanwhile."""
    stopped = threading.Event()

    def scrape() -> None:
        while not stopped.wait(1):
            with urllib.request.urlopen(f"{HOST}:{port}/metrics") as response:
                response.read()

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def _measure(port: int, pid: int, case: Case, world: World) -> Figure:
    with tempfile.NamedTemporaryFile("w", suffix=".requests") as file:
        file.write("\0".join(case.requests(world)))
        file.flush()
        before = cpu_seconds(pid)
        with started_wrk(
            port, _LUA % file.name, connections=case.connections, seconds=SECONDS
        ) as process:
            load = read_wrk(process)
        spent = cpu_seconds(pid) - before
        return Figure(load.per_second, load.p99_ms, spent / (load.per_second * SECONDS) * 1e6)


# ------------------------------------------------------------------------------ filling

ALL_RULES = [
    {"rule": "gain_per_minute", "max": 10**15, "then": "hold"},
    {"rule": "submissions_per_minute", "max": 10**6, "then": "refuse"},
    {"rule": "seconds_between", "min": 0.001, "then": "flag"},
    {"rule": "first_score", "max": 10**10, "then": "hold"},
    {"rule": "outlier_self", "times": 10**6, "then": "flag"},
    {"rule": "outlier_field", "times": 10**3, "then": "flag"},
    {"rule": "per_second_of_run", "max": 10**9, "then": "refuse"},
]
"""Each is judged, and none is broken: honest traffic breaks few."""

BOARDS: dict[str, dict[str, Any]] = {
    "arena": {},
    "platforms": {},
    "dense": {"ties": "dense"},
    "standard": {"ties": "standard"},
    "decimals": {"decimals": 2},
    "rules": {"rules": ALL_RULES},
    "named": {},
    "windows": {"windows": ["all", "daily", "weekly"]},
    "segments": {
        "windows": ["all", "daily", "weekly"],
        "segments": ["region", "platform"],
    },
}


def _fill(folder: Path, players: int) -> None:
    """Fill every board with all players, and give some of them profiles."""
    world = World(players, random.Random(5))
    with rankd.open(folder) as ranks:
        for name, definition in BOARDS.items():
            tell(f"http_realistic: filling {name} with {players:,} players")
            board = ranks.board(name, **definition)
            for first in range(0, players, BATCH):
                some = range(first, min(first + BATCH, players))
                board.submit_many([_submission(name, number, world.score()) for number in some])
        for number in range(min(NAMED, players)):
            ranks.profile(
                f"player-{number:09d}",
                name=f"Player {number} the Brave",
                attributes=attributes_of(number),
            )
        ranks.save()


def _submission(board: str, number: int, score: int) -> Any:
    """A score for each player, on the board with segments with its attributes."""
    if not BOARDS[board].get("segments"):
        return _id(board, number), score
    return {"player": _id(board, number), "score": score, "attributes": attributes_of(number)}


def _id(board: str, number: int) -> str:
    return f"steam:{number:09d}@eu" if board == "platforms" else f"player-{number:09d}"


def _make_key(folder: Path) -> str:
    command = [sys.executable, "-m", "rankd", "keys", "create", "--scope", "admin", "--json"]
    told = subprocess.run(
        [*command, "--data", str(folder)], capture_output=True, text=True, check=True
    )
    return str(json.loads(told.stdout)["key"])


def _make_tokens() -> tuple[str, ...]:
    claims = {"exp": int(time.time()) + 86_400, "iss": "login", "aud": "game"}
    return tuple(
        jwt.encode({**claims, "sub": f"player-{number:09d}"}, SECRET, "HS256")
        for number in range(ADDRESSES)
    )
