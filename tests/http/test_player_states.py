"""Players that are banned, hidden or shadowed: what others are shown of them, and what they are.

Method: three worlds with the same facts at the same positions. In one a player has a state, in one
it was active all the time, and in one it never played: facts about a bystander are in the places of
those that are missing. Every read of the route table is then asked by everybody who may, in both
lanes and again from what was prepared for it, and answers are compared byte for byte:

- others are shown what they are shown where the player never played;
- a shadowed player is shown what it is shown where it was active;
- a banned or hidden player is shown what others are.
"""

import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Literal

import pytest
from tests.http.lanes import Served, get, new_key, post, request, served, status, told
from tests.http.running import run
from tests.unit.core.doubles import DAY

from rankd import schemas
from rankd.api.auth import Actor
from rankd.api.routes import ROUTES
from rankd.api.routing import Route
from rankd.errors import Unauthenticated

World = Literal["banned", "hidden", "shadowed", "active", "never"]

PLAYERS = {b"one.of.eve": "eve", b"one.of.ann": "ann"}
EVE, ANN = ({"authorization": f"Bearer one.of.{player}"} for player in ("eve", "ann"))

BOARDS = ("b", "global")
PAGE = "/v1/boards/b/standings"
HISTORY = "/v1/boards/b/history/eve"
PATHS = {
    "board": BOARDS,
    "player": ("eve", "ann", "nobody"),
    "player_id": ("eve", "ann", "nobody"),
    "rank": ("1", "4"),
    "n": ("9",),
    "window": ("daily:-1",),
}
"""Values for the parameters of paths."""

QUERIES: dict[str, tuple[str, ...]] = {
    "window": ("daily", "daily:-1", "daily:-2"),
    "period": ("daily",),
    "segment": ("region:eu",),
    "numbers": ("string",),
    "limit": ("2",),
    "offset": ("1",),
    "from_rank": ("3",),
    "score_min": ("20",),
    "score_max": ("30",),
    "above": ("1",),
    "below": ("0",),
    "absent": ("top", "bottom"),
    "range": ("1",),
    "score": ("25",),
    "rank": ("2",),
    "percentile": ("50",),
    "query": ("e", "E", "a"),
    "after": ("a",),
    "type": ("b",),
    "leaderboard_type": ("b",),
    "n": ("3",),
    "k": ("3",),
    "before": ("12",),
    "since": ("2026-11-15T00:00:00Z",),
    "until": ("2026-11-15T00:00:00Z",),
}
"""Values for those of queries; others are left out."""

BODIES = {schemas.Lookup: [{"players": ["bob", "eve", "ann", "nobody"]}]}


def tokens(shown: bytes) -> Actor:
    if shown not in PLAYERS:
        raise Unauthenticated
    return Actor(f"player:{PLAYERS[shown]}", PLAYERS[shown])


def readable(route: Route) -> bool:
    """Whether a route has one answer. ``stream_game`` judges streams in the same worlds."""
    own = ("stream_board", "open_socket", "create_ticket")
    return route.scope == "read" and not route.writes and route.operation not in own


def requests(route: Route) -> Iterator[tuple[str, str, Any]]:
    """Yield method, target and body of some requests to a route, for each parameter some."""
    names = [part.strip("{}") for part in route.path.split("/") if part.startswith("{")]
    missing = [name for name in names if name not in PATHS]
    assert not missing, f"{route.operation}: give PATHS values of {missing}"
    assert route.body is None or route.body in BODIES, f"{route.operation}: give BODIES one"
    needed = [param.name for param in route.params if param.required]
    base = "&".join(f"{name}={QUERIES[name][0]}" for name in needed)
    queries = [base] + [
        "&".join([*filter(None, [base if name not in needed else ""]), f"{name}={value}"])
        for name in (param.name for param in route.params)
        for value in QUERIES.get(name, ())
    ]
    if {"window", "segment"} <= {param.name for param in route.params}:
        queries += [f"{one}&window=daily:-1&segment=region:eu".lstrip("&") for one in queries[:1]]
    for values in itertools.product(*(PATHS[name] for name in names)):
        path = route.path.format(**dict(zip(names, values, strict=True)))
        for query, body in itertools.product(queries, BODIES.get(route.body, [None])):
            yield route.method, f"{path}?{query}" if query else path, body


def sent(method: str, target: str, body: Any, shown: dict[str, str] | str) -> bytes:
    headers = {"authorization": shown} if isinstance(shown, str) else shown
    if body is None:
        return request(method, target, None, **headers)
    return post(body, target, **headers)


READS = [(route, *one) for route in ROUTES if readable(route) for one in requests(route)]
WRITES = [
    ("/v1/boards/b/scores", lambda player, score: {"player": player, "score": score}),
    (
        "/v1/scores:batch",
        lambda player, score: {
            "scores": [{"board": board, "player": player, "score": score} for board in BOARDS]
        },
    ),
    ("/api/v1/leaderboard/score", lambda player, score: {"player_id": player, "score": score}),
    ("/ingest/score", lambda player, score: {"player_id": player, "score": score}),
]


class Game:
    """One world: a service, and the facts that it lacks of others."""

    def __init__(self, service: Served, world: World) -> None:
        self.service, self.world = service, world
        self.read_key = ""
        self._missing = 0

    async def fill(self, **definition: Any) -> None:
        """Play for three days; eve has the state of this world from the second on."""
        rankd, clock = self.service.rankd, self.service.clock
        await rankd.define("global", definition)
        _, self.read_key = await new_key(rankd, "read")
        await new_key(rankd, "moderate")
        friends = {"eve": ["ann", "bob"], "ann": ["eve", "bob"], "bob": ["eve"]}
        for player, several in friends.items():
            region = {"region": "eu" if player != "bob" else "us"}
            body = {"name": player.title(), "attributes": region, "friends": several}
            await rankd.profile(player, body)
        scores = [("ann", 20), ("eve", 20), ("bob", 30), ("eve", 30), ("cyd", 10), ("dee", 30)]
        await self.play(scores)
        clock.time += DAY
        await self.play([("eve", 40), *scores[:4]])
        if self.world in ("active", "never"):
            await self.stand_in()
        else:
            await rankd.corrections.set_player_state("eve", self.world, {})  # type: ignore[arg-type]
        await self.play(scores[:3])
        clock.time += DAY
        await self.play([*scores, ("eve", 25)])

    async def play(self, scores: list[tuple[str, int]]) -> None:
        for (player, score), board in itertools.product(scores, BOARDS):
            unseen = self.world == "banned" and self.service.rankd.state.player_states
            if player == "eve" and (self.world == "never" or unseen):
                await self.stand_in()
                continue
            item = {"player": player, "score": score, "metadata": {"of": player}}
            await self.service.rankd.submit(board, [item])

    async def stand_in(self) -> None:
        """Record a fact that is about nobody here."""
        self._missing += 1
        await self.service.rankd.set_friends("zed", [f"x{self._missing}"])

    async def asked(self, *of: bytes) -> list[bytes]:
        """Return the answers to requests, which both lanes give, and again once they know them."""
        answers = [await self.service.same(one) for one in of]
        for one, answer in zip(of, answers, strict=True):
            assert await self.service.same(one) == answer, one
        return answers


BOARD = {"windows": ["all", "daily"], "segments": ["region"], "writes": "client"}


@asynccontextmanager
async def worlds(*names: World, **definition: Any) -> AsyncIterator[list[Game]]:
    async with AsyncExitStack() as stack:
        games = []
        for name in names:
            board = {**BOARD, **definition}
            service = await stack.enter_async_context(served(board, tokens))
            games.append(Game(service, name))
            await games[-1].fill(**board)
        yield games


PAST = ("player_ranks",)
"""Reads of the past: they show the board as everybody saw it then, with the player in it."""


async def differences(
    one: Game, other: Game, headers: dict[str, str] | str, but: tuple[str, ...] = ()
) -> list[bytes]:
    """Return the requests that two worlds answer differently."""
    found = []
    for route, method, target, body in READS:
        if route.operation in but:
            continue
        here, there = (
            sent(method, target, body, game.read_key if headers == "key" else headers)
            for game in (one, other)
        )
        if await one.asked(here) != await other.asked(there):
            found.append(here)
    return found


@pytest.mark.parametrize(
    ("state", "ties"),
    [
        ("banned", "ordinal"),
        ("hidden", "dense"),
        ("shadowed", "ordinal"),
        ("shadowed", "standard"),
        ("shadowed", "dense"),
    ],
)
def test_others_are_shown_what_they_are_where_the_player_never_played(
    state: World, ties: str
) -> None:
    async def compare() -> None:
        async with worlds(state, "never", ties=ties) as (game, never):
            assert await differences(game, never, ANN, but=PAST) == []
            assert await differences(game, never, "key", but=PAST) == []
            if state == "shadowed":  # Nor does what it is shown itself change that.
                await differences(game, game, EVE)
                assert await differences(game, never, ANN, but=PAST) == []
            else:
                assert await differences(game, never, EVE, but=("player_history", *PAST)) == []

    run(compare())


@pytest.mark.parametrize(
    ("ties", "rule"), [("ordinal", "latest"), ("standard", "best"), ("dense", "sum")]
)
def test_a_shadowed_player_is_shown_what_it_is_where_it_is_active(ties: str, rule: str) -> None:
    async def compare() -> None:
        async with worlds("shadowed", "active", ties=ties, rule=rule) as (game, active):
            page = told(await game.service.fast.ask(request("GET", PAGE, None, **EVE)))
            assert "eve" in [one["player"] for one in page["standings"]]
            assert await differences(game, active, EVE) == []
            await differences(game, game, ANN)  # Plans and pages of others.
            assert await differences(game, active, EVE) == []

    run(compare())


def test_receipts_are_those_of_both_worlds() -> None:
    async def compare() -> None:
        async with worlds("shadowed", "active", "never") as games:
            shadowed, active, never = games
            for place, ((path, body), score) in enumerate(
                itertools.product(WRITES, (10, 41, 55, 56))
            ):
                for lane in ("fast", "other"):
                    own = post(body("eve", score + place), path, **EVE)
                    answers = [
                        await getattr(game.service, lane).ask(own) for game in (shadowed, active)
                    ]
                    assert answers[0] == answers[1] and status(answers[0]) == 200
                    for _ in range(len(BOARDS) if "batch" in path else 1):
                        await never.stand_in()
                    theirs = post(body("ann", score + place), path, **ANN)
                    answers = [
                        await getattr(game.service, lane).ask(theirs) for game in (shadowed, never)
                    ]
                    assert answers[0] == answers[1] and status(answers[0]) == 200
                    await getattr(active.service, lane).ask(theirs)
            assert await differences(shadowed, active, EVE) == []
            assert await differences(shadowed, never, ANN, but=PAST) == []

    run(compare())


@pytest.mark.parametrize("state", ["banned", "hidden", "shadowed"])
def test_moderators_and_the_player_itself_see_the_history(state: World) -> None:
    async def ask() -> None:
        async with worlds(state) as (game,):
            rankd = game.service.rankd
            _, moderates = await new_key(rankd, "read", "moderate")
            _, admin = await new_key(rankd, "admin")

            async def facts(authorization: str) -> int:
                asked = request("GET", HISTORY, None, authorization=authorization)
                return len(told((await game.asked(asked))[0])["facts"])

            assert await facts(game.read_key) == await facts(ANN["authorization"]) == 0
            for authorization in (moderates, admin, EVE["authorization"]):
                assert await facts(authorization) > 3
            await rankd.corrections.set_player_state("eve", "active", {})
            assert await facts(game.read_key) > 3

    run(ask())


def test_a_state_for_some_boards_holds_there_alone() -> None:
    async def ask() -> None:
        async with worlds("active") as (game,):
            rankd = game.service.rankd
            await rankd.corrections.set_player_state("eve", "shadowed", {"boards": ["b"]})
            for board, shown in (("b", False), ("global", True)):
                target = f"/v1/boards/{board}/standings/eve"
                for headers, ranked in ((ANN, shown), (EVE, True)):
                    (answer,) = await game.asked(request("GET", target, None, **headers))
                    assert status(answer) == (200 if ranked else 404)

    run(ask())


def test_pages_of_a_shadowed_player_are_stored_by_no_shared_cache() -> None:
    """Not even of a board whose pages any cache may store: they are its own."""

    async def ask() -> None:
        async with worlds("shadowed") as (game,):
            service = game.service.service
            service.public_pages = ("b",)
            pages = [await game.asked(request("GET", PAGE, None, **one)) for one in (ANN, EVE, ANN)]
            heads = [page.partition(b"\r\n\r\n")[0] for (page,) in pages]
            assert [b"cache-control: public" in head for head in heads] == [True, False, True]
            assert [b"surrogate-control" in head for head in heads] == [True, False, True]
            assert b"cache-control: private" in heads[1]
            tags = [_tag(head) for head in heads]
            assert tags[0] == tags[2] != tags[1]
            for headers, known, unchanged in (
                (ANN, tags[0], True),
                (EVE, tags[1], True),
                (ANN, tags[1], False),
                (EVE, tags[0], False),
            ):
                asked = request("GET", PAGE, None, **headers, if_none_match=known)
                assert status((await game.asked(asked))[0]) == (304 if unchanged else 200)

    run(ask())


def _tag(head: bytes) -> str:
    return head.partition(b"\r\netag: ")[2].partition(b"\r\n")[0].decode()


def test_plans_and_pages_of_before_end_with_a_state() -> None:
    async def ask() -> None:
        async with worlds("active") as (game,):
            service, rankd = game.service, game.service.rankd
            standing, page = get("eve", **ANN), request("GET", PAGE, None, **EVE)
            await game.asked(standing, page)
            assert await service.at_once(standing)
            for state, seen in (("shadowed", True), ("hidden", False), ("active", True)):
                await rankd.corrections.set_player_state("eve", state, {})  # type: ignore[arg-type]
                answer, own = await game.asked(standing, page)
                assert status(answer) == (200 if state == "active" else 404)
                players = [one["player"] for one in told(own)["standings"]]
                assert ("eve" in players) == seen

    run(ask())


def test_rate_limits_count_a_read_of_its_own_world_once() -> None:
    async def ask() -> None:
        async with served(BOARD, tokens, rate_per_player=0.5, rate_burst=3) as service:
            await new_key(service.rankd, "read")
            await service.rankd.submit("b", [("eve", 1), ("ann", 2)])
            await service.rankd.corrections.set_player_state("eve", "shadowed", {})
            lookup = post({"players": ["eve"]}, f"{PAGE}:lookup", **EVE)
            for asked in (get("eve", **EVE), request("GET", PAGE, None, **EVE), lookup):
                assert status(await service.fast.ask(asked)) == 200
            assert status(await service.fast.ask(lookup)) == 429

    run(ask())
