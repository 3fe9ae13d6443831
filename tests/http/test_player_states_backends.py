"""States and visibility of players: two workers, two nodes, an index of each or a shared one.

A player is banned through one process, and another is asked until it answers so. What each of them
shows a shadowed player, and others, is compared between processes; so is what they show of a player
that is anonymous or shown to its friends.
"""

import http.client
import logging
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import jwt
import pytest
from tests.http.api_facade import asked, connections
from tests.http.backends import Backend, Kept, Servers, serving_nodes
from tests.http.clocked import FileClock, serving
from tests.property.embedded_model import instant
from tests.property.test_embedded_api import SetClock

pytestmark = pytest.mark.timeout(300)

START = instant(2026, 11, 14, 12)
BOARD = {"windows": ["all", "daily"], "segments": ["region"]}
SCORES = (("ann", 10), ("eve", 20), ("bob", 30))
BANS, SECONDS_MAX = 15, 1.0
SECRET = "a secret of the tests, thirty-two bytes or more"
ISSUER, AUDIENCE = "https://login.example", "rankd"

Connection = http.client.HTTPConnection
Connections = list[Connection]
_log = logging.getLogger(__name__)


def tokens_of(secret: Path) -> dict[str, str]:
    """Return the settings of a service that takes players' tokens."""
    given = {"algorithm": "HS256", "issuer": ISSUER, "audience": AUDIENCE}
    return {"jwt_key_file": str(secret), **{f"jwt_{name}": one for name, one in given.items()}}


def token(player: str) -> str:
    claims = {"sub": player, "iss": ISSUER, "aud": AUDIENCE, "exp": time.time() + 3600}
    return f"Bearer {jwt.encode(claims, SECRET, algorithm='HS256')}"


@pytest.fixture(scope="session", params=["native", "redis"])
def kept(request: pytest.FixtureRequest) -> Iterator[Kept]:
    """A ledger in PostgreSQL, whose servers run before a test is watched."""
    with Servers() as servers:
        yield Backend(index=request.param, nodes=2).keep(servers)


def done(connection: Connection, method: str, path: str, body: Any = None) -> Any:
    answer = asked(connection, method, path, body)
    assert answer.status in (200, 201), answer
    return answer.body


def ban_and_watch(here: Connection, there: Connection) -> float:
    """Ban players in one process; return the most seconds until another one answered so."""
    done(here, "PUT", "/v1/boards/b", BOARD)
    taken = []
    for number in range(BANS):
        player = f"p{number}"
        receipt = done(here, "POST", "/v1/boards/b/scores", {"player": player, "score": number})
        path = f"/v1/boards/b/standings/{player}"
        done(there, "GET", f"{path}?min_position={receipt['position']}")
        begun = time.monotonic()
        done(here, "POST", f"/v1/players/{player}:ban", {"reason": "a bot"})
        while asked(there, "GET", path).status != 404:
            assert time.monotonic() < begun + 30, "it was never banned there"
        taken.append(time.monotonic() - begun)
        refused = asked(there, "POST", "/v1/boards/b/scores", {"player": player, "score": 1})
        assert refused.status == 403, refused
    taken.sort()
    median, longest = taken[len(taken) // 2], taken[-1]
    _log.info("a ban is seen after %.1f ms, %.1f at most", median * 1e3, longest * 1e3)
    return longest


def shadow_and_compare(opened: Connections) -> None:
    """Shadow a player, and compare what every process shows it and others."""
    first = opened[0]
    done(first, "PUT", "/v1/boards/b", BOARD)
    done(first, "PUT", "/v1/players/eve", {"attributes": {"region": "eu"}, "friends": ["ann"]})
    bodies = [{"player": one, "score": score} for one, score in SCORES]
    receipts = [done(first, "POST", "/v1/boards/b/scores", body) for body in bodies]
    before = shown(opened, receipts[-1]["position"], "eve")
    done(first, "POST", "/v1/players/eve:shadow", {"reason": "a bot"})
    own = done(first, "POST", "/v1/boards/b/scores", {"player": "eve", "score": 20})
    assert (own["rank"], own["total"]) == (2, 3)
    position = own["position"]
    assert shown(opened, position, "eve") == before
    others = shown(opened, position, "ann")
    assert [one[0] for one in others] == [200, 404, 404, 200, 200, 200, 200, 200]
    assert "eve" not in str(others[0]) and others != before
    own = done(opened[-1], "POST", "/v1/boards/b/scores", {"player": "eve", "score": 40})
    assert (own["rank"], own["previous_rank"]) == (1, 2)
    top = shown(opened, own["position"], "eve")[0][1]["standings"]
    assert [one["player"] for one in top] == ["eve", "bob", "ann"]
    restored = done(first, "POST", "/v1/players/eve:restore")
    assert shown(opened, restored["position"], "ann")[0][1]["standings"] == top


def hide_and_compare(opened: Connections) -> None:
    """Hide a player, and compare what every process shows of it."""
    first = opened[0]
    done(first, "PUT", "/v1/boards/b", BOARD)
    done(first, "PUT", "/v1/players/eve", {"attributes": {"region": "eu"}, "friends": ["ann"]})
    bodies = [{"player": one, "score": score} for one, score in SCORES]
    receipts = [done(first, "POST", "/v1/boards/b/scores", body) for body in bodies]
    public = shown(opened, receipts[-1]["position"], "ann")
    for visibility, seeing in (("anonymous", ("eve",)), ("friends", ("eve", "ann"))):
        profile = done(opened[-1], "PATCH", "/v1/players/eve", {"visibility": visibility})
        assert profile["visibility"] == visibility
        for player in ("ann", "bob", "eve"):
            answers = shown(opened, profile["as_of"], player)
            if player in seeing:
                assert answers == public
                continue
            assert [one[0] for one in answers] == [200, 404, 404, 200, 200, 200, 200, 200]
            for page, before in ((0, 0), (3, 3)):
                rows, full = answers[page][1]["standings"], public[before][1]["standings"]
                assert "eve" not in str(rows) and len(rows) == len(full)
                assert [one["rank"] for one in rows] == [one["rank"] for one in full]
                assert [one.get("anonymous", False) for one in rows] == [
                    one["player"] == "eve" for one in full
                ]
            assert answers[5] == public[5]
    profile = done(first, "PATCH", "/v1/players/eve", {"visibility": None})
    assert shown(opened, profile["as_of"], "bob") == public


def shown(opened: Connections, position: int, player: str) -> list[tuple[int, Any]]:
    """Return the answers that a player's token gets in each process, which must be the same."""
    board = "/v1/boards/b"
    paths = [
        f"{board}/standings?min_position={position}",
        f"{board}/standings/eve?min_position={position}",
        f"{board}/standings/eve/around?window=daily&min_position={position}",
        f"{board}/standings?segment=region:eu&min_position={position}",
        f"{board}/friends/eve?min_position={position}",
        f"{board}/projection?rank=1&min_position={position}",
        f"/v1/players/eve/standings?min_position={position}",
        f"{board}/windows",
    ]
    found = []
    for connection in opened:
        answers = [asked(connection, "GET", path, authorization=token(player)) for path in paths]
        found.append([(answer.status, timeless(answer.body)) for answer in answers])
    assert all(each == found[0] for each in found)
    return found[0]


def timeless(body: Any) -> Any:
    """Return a body without what grows with positions, and problems without their request."""
    if isinstance(body, dict):
        varies = ("as_of", "request_id", "next_cursor", "prev_cursor")
        return {name: timeless(one) for name, one in body.items() if name not in varies}
    return [timeless(one) for one in body] if isinstance(body, list) else body


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(SECRET)
    path.chmod(0o600)
    return path


def test_two_workers_agree_on_states(tmp_path: Path, secret: Path) -> None:
    clock = tmp_path / "clock"
    FileClock(clock).set(START)
    options = [
        part
        for name, value in tokens_of(secret).items()
        for part in (f"--{name.replace('_', '-')}", value)
    ]
    with serving(tmp_path, "--port", "0", "--workers", "2", *options, clock=clock) as served:
        opened = connections(served.port, 2)
        assert ban_and_watch(opened[0], opened[1]) <= SECONDS_MAX
        shadow_and_compare(opened)
        hide_and_compare(opened)
        for each in opened:
            each.close()


@pytest.mark.servers
def test_nodes_agree_on_states(kept: Kept, tmp_path: Path, secret: Path) -> None:
    with serving_nodes(kept, tmp_path, SetClock(START), 2, **tokens_of(secret)) as nodes:
        opened = [each for node in nodes for each in connections(node.port, 1)]
        with closing(opened[0]), closing(opened[1]):
            assert ban_and_watch(*opened) <= SECONDS_MAX
            shadow_and_compare(opened)
            hide_and_compare(opened)
