"""A small, rich history over HTTP, and the reads that are asked of it.

Nothing here imports rankd: the same requests are made of any version. Times are seconds after
``BEGINNING``, so that every day and week that turns is known.
"""

import http.client
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple, Self
from urllib.parse import quote

PATIENCE_SECONDS = 100
HOUR = 3_600
DAY = 24 * HOUR

BEGINNING = int(datetime(2026, 10, 24, 20, tzinfo=UTC).timestamp())
"""A Saturday evening: clocks are set back in Berlin that night, and a week ends the next."""

SNAPSHOT_AT = 30 * HOUR
END = 4 * DAY
NEXT_DAY = END + DAY

PLAYERS = ("ada", "bob", "cyd", "dan", "eve", "p:42", "user@eu", "Ünï", "1007", "ghost", "zoë")
QUIET = ("quiet", "calm")
"""Players who submit once, at first, so that only what is stored tells which boards they are on."""

PLAIN = (
    *("late", "turned", "finer", "grown", "cropped", "tied", "zoned"),
    *("renewed", "gone", "early"),
)
"""Boards that begin alike, until they are redefined, retired or both."""

REGIONS = ("eu", "us", "asia")
ABSENT = "never-seen"


class Answer(NamedTuple):
    """A request, and the answer: the body as its text, so that no digit is lost."""

    method: str
    path: str
    body: Any
    status: int
    text: str

    @property
    def content(self) -> Any:
        """The body; numbers with a point as they were written."""
        return json.loads(self.text, parse_float=Decimal) if self.text else None


class PinnedClock:
    """A clock that stands still until it is set. It has no counter, so it is believed."""

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds

    def now(self) -> int:
        return (BEGINNING + self.seconds) * 1_000_000


class Caller:
    """Makes requests of a service, with a key once there is one, and remembers the answers."""

    def __init__(self, port: int, key: str | None = None) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
        self.key = key
        self.answers: list[Answer] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.key is not None:
            sent["authorization"] = f"Bearer {self.key}"
        content = None
        if body is not None:
            content, sent["content-type"] = json.dumps(body).encode(), "application/json"
        self._connection.request(method, quote(path, safe="/?&=:%,+"), content, sent)
        reply = self._connection.getresponse()
        answer = Answer(method, path, body, reply.status, reply.read().decode())
        assert answer.status < 500, answer
        self.answers.append(answer)
        return answer

    def get(self, path: str) -> Answer:
        return self.ask("GET", path)

    def done(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Make a request that has to succeed."""
        answer = self.ask(method, path, body, **headers)
        assert answer.status < 300, answer
        return answer.content

    def board(self, name: str, **definition: Any) -> None:
        self.done("PUT", f"/v1/boards/{name}", definition)

    def redefine(self, name: str, **changes: Any) -> None:
        """Change a definition in some fields; the others stay."""
        known = self.get(f"/v1/boards/{name}").content["definition"]
        known.pop("direction")  # It is that of the first column.
        self.ask("PUT", f"/v1/boards/{name}", {**known, **changes})
        applied = self.done("PUT", f"/v1/boards/{name}?apply=true", {**known, **changes})
        assert applied["definition" if "definition" in applied else "applied"]

    def submit(self, board: str, player: str, score: Any = None, **more: Any) -> Answer:
        body = {"player": player, **({} if score is None else {"score": score}), **more}
        return self.ask("POST", f"/v1/boards/{board}/scores", body)


# ----------------------------------------------------------------------------- the history


def define(caller: Caller) -> None:
    """Define a board of every rule, direction, way of ties and kind of window."""
    caller.board(
        "arena", title="The Arena", windows=["all", "daily", "weekly"], segments=["region"]
    )
    caller.board(
        "golf",
        direction="lower",
        decimals=2,
        ties="standard",
        tie_break="latest",
        windows=["all", {"name": "shift", "cron": "0 5,17 * * *"}],
    )
    caller.board(
        "race",
        columns=[
            {"name": "laps", "direction": "higher"},
            {"name": "time_ms", "direction": "lower"},
        ],
        ties="dense",
        tie_break="player",
        windows=["all", {"name": "season", "every": "1d", "gap": "6h", "start": "2026-10-24"}],
    )
    caller.board("last", rule="latest", ties="standard", windows=["all", "daily"])
    caller.board(
        "total",
        rule="sum",
        decimals=3,
        ties="dense",
        limits={"score_min": -10, "score_max": 100},
        windows=["daily", "all"],
        time_zone="Europe/Berlin",
        segments=["region", "platform"],
    )
    caller.board("once", rule="first", tie_break="latest", windows=["all", "monthly"])
    cup = {"name": "cup", "start": "2026-10-25T06:00:00Z", "end": "2026-10-26T06:00:00Z"}
    caller.board("cup", windows=[cup])
    caller.board("trial", windows=[cup])
    caller.board("still", windows=["all", "weekly"], segments=["region"])
    caller.board(
        "brief",
        windows=[
            "all",
            {"name": "daily", "at": "05:00"},
            {"name": "hours", "every": "8h", "start": "2026-10-24"},
        ],
        retention={"hours": "1d", "daily": "2d"},
    )
    caller.board("clients", writes="client")
    caller.board("large", windows=["weekly"])
    for name in PLAIN:
        caller.board(name, windows=["all", "daily"])
    caller.board("bounded", windows=["all"], rule="sum", limits={"score_max": 100})


def score_round(caller: Caller, number: int) -> None:
    """Submit to every board; which players and scores follow from the number of the round."""
    for place, player in enumerate(PLAYERS[:9]):
        value = (place * 7 + number * 5) % 11
        region = REGIONS[(place + number // 3) % 3]
        caller.submit("arena", player, 100 + value, attributes={"region": region})
        caller.submit(
            "golf", player, f"{70 + value % 4}.{25 * (value % 3):02d}", key=f"g{number}-{place}"
        )
        if place % 2 == number % 2:
            caller.submit(
                "race", player, columns={"laps": value % 4, "time_ms": 60_000 - value * 10}
            )
            caller.submit("once", player, value, build=f"1.{number}")
            caller.submit("brief", player, value * 3)
    caller.submit("last", "ada", 10 + number, metadata={"round": number, "name": 'Ωmega "q"'})
    caller.submit("last", "bob", 12, metadata=[number, None, True, 1.5])
    caller.submit("last", "cyd", -number)
    caller.submit("last", "dan", delta=3)
    for player, step in (("ada", "2.125"), ("bob", -3), ("cyd", "40.5"), ("p:42", "0.001")):
        attributes = {"region": REGIONS[number % 3], "platform": "pc" if number % 2 else "phone"}
        caller.submit("total", player, step, attributes=attributes, key=f"t{number}-{player}")
    caller.submit("cup", "ada", number)
    caller.submit("cup", "eve", number + 1, key=f"cup-{number}")
    caller.submit("trial", "ada", -number, key=f"trial-{number}")
    caller.submit("large", "eve", 2**62 + number)
    caller.submit("large", "dan", -(2**62))
    batch = [
        {"board": board, "player": player, "score": number * 3 + place, "key": f"b{number}{player}"}
        for board in PLAIN
        for place, player in enumerate(("ada", "bob", "cyd", "zoë"))
    ]
    batch += [{"board": "missing", "player": "ada", "score": 1}, {"board": "arena", "player": ""}]
    caller.done("POST", "/v1/scores:batch", {"scores": batch})
    caller.submit("bounded", "ada", 60, key=f"ada-{number}")
    caller.submit("bounded", "bob", 30, key=f"bob-{number}")


def describe_players(caller: Caller) -> None:
    """Name players, give them attributes and friends, and forget one."""
    caller.done(
        "PUT", "/v1/players/ada", {"name": "Ada", "attributes": {"region": "eu", "level": 7}}
    )
    caller.done("PUT", "/v1/players/bob", {"name": "Bob 🏴󠁧󠁢󠁳󠁣󠁴󠁿", "friends": ["ada", "cyd", ABSENT]})
    caller.done("PUT", "/v1/players/p:42", {"name": "=SUM(A1)", "attributes": {"vip": True}})
    caller.done("PUT", "/v1/players/eve", {"name": "Eve", "attributes": {"region": "us"}})
    caller.done("PUT", "/v1/players/eve/friends", {"friends": ["ada", "bob", "Ünï"]})
    caller.done("PUT", "/v1/players/ghost", {"name": "Ghost", "attributes": {"region": "asia"}})
    caller.submit("arena", "ghost", 500, attributes={"region": "asia"}, metadata={"g": 1})
    caller.done("DELETE", "/v1/players/ghost?reason=asked")
    caller.done("PUT", "/v1/players/ada", {"name": "Ada Lovelace"})
    caller.done("PUT", "/v1/players/p:42", {"name": None})


def repeat_keys(caller: Caller) -> None:
    """Send keys again: as they were, with another time, and with another body."""
    caller.submit("golf", "ada", "70.00", key="again", at="2026-10-24T20:00:00Z")
    caller.submit("golf", "ada", "70.00", key="again", at="2026-10-25T20:00:00Z")
    caller.submit("golf", "ada", "70.01", key="again")
    path, body = "/v1/boards/arena/scores", {"player": "bob", "score": 7}
    caller.ask("POST", path, body, Idempotency_Key="header")
    caller.ask("POST", path, body, Idempotency_Key="header")
    caller.ask("POST", path, {**body, "score": 8}, Idempotency_Key="header")
    for number in range(3):
        caller.submit("total", "cyd", "40.5", key=f"t{number}-cyd", attributes={"region": "eu"})
        caller.submit("bounded", "ada", 60, key=f"ada-{number}")
        caller.submit("cup", "eve", number + 1, key=f"cup-{number}")


def change_definitions(caller: Caller) -> None:
    """Redefine boards in every way that changes what counts or how it is ranked."""
    caller.redefine("early", tie_break="latest", windows=["all", "daily", "monthly"])
    caller.redefine("turned", columns=[{"name": "score", "direction": "lower"}])
    caller.redefine("late", rule="latest", windows=["all", "daily", "weekly"])
    caller.redefine("finer", decimals=2, title="Finer")
    caller.redefine("cropped", windows=["daily"], limits={"score_max": 1_000})
    caller.redefine("tied", ties="dense", tie_break="player")
    caller.redefine("zoned", time_zone="America/New_York", segments=["region"])
    caller.redefine("bounded", limits={"score_max": 1_000}, tie_break="latest")
    caller.redefine("trial", windows=["all"])
    caller.redefine("last", retention={"daily": "30d"})
    caller.redefine("total", rule="best", ties="standard")
    added = [{"name": "score", "direction": "higher"}, {"name": "time", "direction": "lower"}]
    caller.ask(
        "PUT", "/v1/boards/grown?apply=true", {"columns": added, "windows": ["all", "daily"]}
    )
    caller.submit("grown", "ada", columns={"score": 3, "time": 9})


def retire_and_renew(caller: Caller) -> None:
    """Retire two boards, and define one of them anew."""
    caller.done("DELETE", "/v1/boards/gone?reason=over")
    caller.done("DELETE", "/v1/boards/renewed")
    caller.submit("renewed", "ada", 1)
    caller.board("renewed", rule="sum", windows=["all", "daily"], ties="standard")
    caller.submit("renewed", "ada", 5, key="b0ada")
    caller.submit("renewed", "bob", 5)


def make_keys(caller: Caller) -> None:
    """End the open time: an administrator, a reader of one board, and one that is revoked."""
    made = caller.done("POST", "/v1/keys", {"scopes": ["admin"], "title": "operator"})
    caller.key = made["key"]
    caller.done("POST", "/v1/keys", {"scopes": ["read"], "boards": ["arena"], "title": "reader"})
    lost = caller.done("POST", "/v1/keys", {"scopes": ["submit", "moderate"]})
    caller.done("DELETE", f"/v1/keys/{lost['id']}")


def write_until_snapshot(caller: Caller, clock: PinnedClock) -> None:
    """Write the first half, after which an index may be saved."""
    define(caller)
    score_round(caller, 0)
    describe_players(caller)
    for player in QUIET:  # Of these boards the second is never redefined.
        for board in ("arena", "still"):
            caller.submit(board, player, 104, attributes={"region": "eu"})
    clock.seconds = 11 * HOUR  # The cup is open.
    make_keys(caller)
    caller.redefine("early", rule="sum", decimals=1, ties="standard", segments=["region"])
    score_round(caller, 1)
    repeat_keys(caller)
    clock.seconds = SNAPSHOT_AT
    score_round(caller, 2)
    retire_and_renew(caller)


def write_after_snapshot(caller: Caller, clock: PinnedClock) -> None:
    """Write the second half."""
    change_definitions(caller)
    caller.done("PUT", "/v1/players/quiet", {"attributes": {"region": "asia"}})
    score_round(caller, 3)
    clock.seconds = 2 * DAY + 3 * HOUR  # The cup is over, and a week has begun.
    score_round(caller, 4)
    caller.done("POST", "/v1/keys", {"scopes": ["read", "submit"], "title": "late"})
    caller.done("POST", "/api/v1/leaderboard/score", {"player_id": 12345, "score": 1500})
    caller.done("POST", "/api/v1/leaderboard/score/increment", {"player_id": 7, "score_delta": 5})
    caller.redefine("arena", segments=["region", "level"])
    caller.redefine("golf", ties="dense")
    clock.seconds = END - HOUR
    score_round(caller, 5)
    caller.redefine("tied", rule="sum")
    clock.seconds = END
    score_round(caller, 6)


SPOOLED = (
    ("once", {"player": "spooled", "score": 4, "key": "s1"}),
    ("brief", {"player": "spooled", "score": 50, "key": "s2", "metadata": {"spooled": True}}),
    ("golf", {"player": "spooled", "score": "69.50"}),
)
"""Scores that wait in a spool, of boards whose definition stays."""


def write_to_spool(caller: Caller) -> None:
    """Submit while the ledger is lost."""
    for board, body in SPOOLED:
        assert caller.ask("POST", f"/v1/boards/{board}/scores", body).status == 202


def repeat(caller: Caller, written: list[Answer]) -> None:
    """Send every submission that had a key once more."""
    for answer in written:
        items = (answer.body or {}).get("scores", [answer.body or {}])
        if any("key" in item for item in items):
            caller.ask(answer.method, answer.path, answer.body)


def write_more(caller: Caller, clock: PinnedClock) -> None:
    """Go on where the history ended: repeat keys, then the same day, then the next."""
    repeat_keys(caller)
    score_round(caller, 6)
    score_round(caller, 7)
    describe_players(caller)
    caller.done("PUT", "/v1/players/calm", {"attributes": {"region": "us"}})
    clock.seconds = NEXT_DAY
    score_round(caller, 8)
    caller.redefine("zoned", time_zone="Asia/Kolkata", rule="sum")
    lower = [{"name": "score", "direction": "lower"}]
    caller.redefine("late", columns=lower)
    score_round(caller, 9)


# ------------------------------------------------------------------------------- the reads


def read_all(caller: Caller) -> None:
    """Ask everything that can be asked of what was recorded."""
    boards = caller.get("/v1/boards").content["boards"]
    for board in [*(board["name"] for board in boards), "gone", "missing"]:
        read_board(caller, board)
    for player in (*PLAYERS, *QUIET, ABSENT):
        caller.get(f"/v1/players/{player}")
        caller.get(f"/v1/players/{player}/standings")
    after: int | None = 0
    while after is not None:
        after = caller.get(f"/v1/facts?after={after}&limit=500").content["next_after"]
    caller.get("/v1/facts?kind=score_submitted&player=ada&board=race")
    caller.get("/v1/keys")
    caller.get("/api/v1/leaderboard/top?n=3&type=global&period=daily")
    caller.get("/api/v1/leaderboard/rank/12345?type=global")
    caller.get("/rank/7?window=weekly")
    caller.get("/top/2")


def read_board(caller: Caller, board: str) -> None:
    """Ask for a board's definition, windows, histories and rankings."""
    definition = (caller.get(f"/v1/boards/{board}").content or {}).get("definition", {})
    listed = caller.get(f"/v1/boards/{board}/windows").content.get("windows", [])
    columns = len(definition.get("columns", ()))
    names = dict.fromkeys(row["name"] for row in listed)
    windows = dict.fromkeys([*names, *(row["window"] for row in listed)])
    windows |= dict.fromkeys(f"{name}:-1" for name in names)
    for player in ("ada", "bob", "cyd", "eve", ABSENT):
        caller.get(f"/v1/boards/{board}/history/{player}?limit=7")
    for window in windows:
        read_ranking(caller, board, f"window={window}", "3,7" if columns > 1 else "71")
        for which in segments_of(definition):
            read_top(caller, board, f"window={window}&segment={which}")


def segments_of(definition: Any) -> Iterator[str]:
    values = {"region": REGIONS, "platform": ("pc", "phone"), "level": ("7",)}
    for segment in definition.get("segments", ()):
        for value in (*values[segment], "none"):
            yield f"{segment}:{value}"


def read_ranking(caller: Caller, board: str, which: str, score: str) -> None:
    """Ask for pages, standings, neighbours, look-ups and projections of one ranking."""
    read_top(caller, board, which)
    path = f"/v1/boards/{board}"
    page = caller.get(f"{path}/standings?{which}&limit=3").content
    while page.get("next_cursor"):
        page = caller.get(f"{path}/standings?{which}&limit=3&cursor={page['next_cursor']}").content
    caller.get(f"{path}/standings?{which}&from_rank=3&limit=2")
    caller.get(f"{path}/standings?{which}&offset=1&limit=2")
    for player in ("ada", "zoë", "p:42", ABSENT):
        caller.get(f"{path}/standings/{player}?{which}")
        caller.get(f"{path}/standings/{player}/around?{which}&above=1&below=2")
    caller.get(f"{path}/around/3?{which}&range=1")
    caller.ask("POST", f"{path}/standings:lookup?{which}", {"players": [*PLAYERS, ABSENT]})
    for player in ("bob", "eve"):
        caller.get(f"{path}/friends/{player}?{which}")
    for asked in (f"score={score}", "rank=2", "percentile=50", "rank=99"):
        caller.get(f"{path}/projection?{which}&{asked}")


def read_top(caller: Caller, board: str, which: str) -> None:
    caller.get(f"/v1/boards/{board}/standings?{which}&limit=1000")
