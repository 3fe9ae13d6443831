"""A game under streams, and the judge of them: a board put together from events is the page.

Method: an engine in memory and its hub, ticked by hand, so that every step is the same for a seed.
Steps are submissions, corrections, states of players, profiles, windows that close, definitions.
Subscribers come and go, stop reading and read again, and resume. After each tick every subscriber
that reads must have exactly the rows that the pages of the API have at this position.

    python -m tests.http.stream_game --games 1000     # further than a commit looks
"""

import argparse
import asyncio
import json
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import inf
from typing import Any

import msgspec
from tests.http.lanes import Served, request, served, status
from tests.http.running import run
from tests.unit.core.doubles import DAY

from rankd.api import render
from rankd.api.auth import ANYBODY, Actor, Permit
from rankd.api.stream_events import StreamEvent
from rankd.api.streams import Credential, StreamRequest, Subscription
from rankd.client.streams import EventParser, LiveBoard
from rankd.core.reader import Page, Reader
from rankd.errors import NotRanked, RankdError
from rankd.model.standing import Rank
from rankd.schemas import Overtaken, StreamChange, StreamState, WindowChanged

PLAYERS = [f"p{number}" for number in range(12)]
REGIONS = ("eu", "us")
DEFINITIONS: tuple[dict[str, Any], ...] = (
    {"rule": "best", "windows": ["all", "daily"], "segments": ["region"]},
    {"rule": "latest", "windows": ["all", "daily"], "segments": ["region"], "ties": "dense"},
    {"rule": "sum", "windows": ["all", "daily"], "segments": ["region"], "ties": "standard"},
    {
        "rule": "best",
        "windows": ["daily", "all"],
        "segments": ["region"],
        "columns": [
            {"name": "points", "direction": "higher"},
            {"name": "ms", "direction": "lower"},
        ],
    },
)
ACTORS = (
    Actor("game", is_game=True),
    Actor("reader"),
    ANYBODY,
    *(Actor(f"player:{player}", player) for player in PLAYERS[:4]),
)


@dataclass(eq=False)
class Watcher:
    """A client, which puts a board together from the events that it is sent."""

    request: StreamRequest
    actor: Actor
    ready: bool = True
    live: LiveBoard = field(default_factory=LiveBoard)
    subscription: Subscription | None = None
    states: int = 0
    overtaken: list[Overtaken] = field(default_factory=list)
    windows: list[WindowChanged] = field(default_factory=list)
    ended: RankdError | None = None

    def send(self, subscription: Subscription, event: StreamEvent) -> None:
        assert subscription is self.subscription
        ((shown),) = EventParser().feed(event.text)
        assert shown.position == event.position
        assert self.live.position is None or shown.position >= self.live.position
        self.live.apply(shown)
        if isinstance(shown, StreamState):
            self.states += 1
        elif isinstance(shown, Overtaken):
            self.overtaken.append(shown)
        elif isinstance(shown, WindowChanged):
            self.windows.append(shown)
        else:
            assert isinstance(shown, StreamChange)

    def confirm(self, subscription: Subscription) -> None:
        assert subscription.version is subscription.view.version

    def end(self, subscription: Subscription, error: RankdError) -> None:
        assert subscription is self.subscription
        self.ended, self.subscription = error, None

    def keep_alive(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def leave(self) -> None:
        if self.subscription is not None:
            self.subscription.hub.remove_sink(self)
            self.subscription.cancel()
            self.subscription = None


class Game:
    """One game, and its subscribers."""

    def __init__(self, service: Served, seed: int) -> None:
        self.service = service
        self.hub = service.service.streams
        self.hub.run = asyncio.Event().wait  # type: ignore[method-assign, assignment]
        self.random = random.Random(seed)
        self.watchers: list[Watcher] = []
        self.resumed = 0
        self.overtaken = 0

    @property
    def ties(self) -> str:
        return self.service.rankd.state.boards["b"].board.ties

    # ------------------------------------------------------------------------- steps

    async def ask(self, method: str, path: str, body: Any = None) -> int:
        text = None if body is None else json.dumps(body).encode()
        more = {} if body is None else {"content_type": "application/json"}
        return status(await self.service.fast.ask(request(method, path, text, **more)))

    async def step(self) -> str:
        """Do something; return what."""
        kinds = (self.submit, self.submit_many, self.correct, self.set_state, self.set_profile)
        steps = (*kinds, self.turn_window, self.redefine)
        (one,) = self.random.choices(steps, weights=(30, 8, 4, 4, 6, 2, 1))
        await one()
        return one.__name__

    def score(self) -> dict[str, Any]:
        chosen = self.random
        columns = self.service.rankd.state.boards["b"].board.width > 1
        scores = {"points": chosen.randrange(40), "ms": chosen.randrange(9)}
        sent: dict[str, Any] = (
            {"score": chosen.randrange(40)} if not columns else {"columns": scores}
        )
        if not columns and chosen.random() < 0.2:
            sent = {"delta": chosen.randrange(-15, 15)}
        if chosen.random() < 0.3:
            sent["metadata"] = {"run": chosen.randrange(5)}
        return sent

    async def submit(self) -> None:
        player = self.random.choice(PLAYERS)
        await self.ask("POST", "/v1/boards/b/scores", {"player": player, **self.score()})

    async def submit_many(self) -> None:
        scores = [
            {"board": "b", "player": player, **self.score()}
            for player in self.random.choices(PLAYERS, k=self.random.randrange(2, 20))
        ]
        await self.ask("POST", "/v1/scores:batch", {"scores": scores})

    async def correct(self) -> None:
        player = self.random.choice(PLAYERS)
        if self.random.random() < 0.5 and self.service.rankd.state.boards["b"].board.width == 1:
            body = {"player": player, "delta": self.random.randrange(-9, 9), "reason": "a test"}
            await self.ask("POST", "/v1/boards/b/adjustments", body)
        else:
            await self.ask("POST", "/v1/boards/b/retractions", {"player": player, "reason": "x"})

    async def set_state(self) -> None:
        verb = self.random.choice(("ban", "hide", "shadow", "restore", "restore"))
        path = f"/v1/players/{self.random.choice(PLAYERS)}:{verb}"
        await self.ask("POST", path, {"reason": "a test"})

    async def set_profile(self) -> None:
        player, chosen = self.random.choice(PLAYERS), self.random
        body: dict[str, Any] = {}
        if chosen.random() < 0.5:
            body["name"] = f"Name {chosen.randrange(5)}"
        if chosen.random() < 0.5:
            body["attributes"] = {"region": chosen.choice(REGIONS)}
        if chosen.random() < 0.3:
            body["visibility"] = chosen.choice(("public", "public", "friends", "anonymous"))
        if chosen.random() < 0.3:
            body["friends"] = chosen.sample([one for one in PLAYERS if one != player], 3)
        await self.ask("PATCH", f"/v1/players/{player}", body)

    async def turn_window(self) -> None:
        body = {"window": self.random.choice(("all", "daily")), "reason": "a test"}
        if self.random.random() < 0.5:
            self.service.clock.time += DAY
        else:
            await self.ask("POST", "/v1/boards/b:reset", body)

    async def redefine(self) -> None:
        body = self.random.choice(DEFINITIONS)
        await self.ask("PUT", "/v1/boards/b?apply=true&drop_scores=true", body)

    # ---------------------------------------------------------------------- watchers

    def wanted(self) -> StreamRequest:
        chosen = self.random
        player = chosen.choice(PLAYERS) if chosen.random() < 0.6 else None
        return StreamRequest(
            "b",
            chosen.choice((None, "all", "daily")),
            chosen.choice((None, None, "region:eu")),
            chosen.choice((1, 3, 10)),
            player,
            chosen.choice((None, 0, 1, 3)) if player else None,
            chosen.random() < 0.2,
        )

    async def attach(self, watcher: Watcher, since: int | None = None) -> None:
        actor = watcher.actor
        credential = Credential(lambda _board: Permit(actor, inf), actor)
        states = watcher.states
        watcher.subscription = await self.hub.subscribe(watcher.request, credential, since=since)
        watcher.subscription.attach(watcher)
        self.resumed += since is not None and watcher.states == states

    async def come_and_go(self) -> None:
        chosen = self.random
        if len(self.watchers) < 8 and chosen.random() < 0.3:
            watcher = Watcher(self.wanted(), chosen.choice(ACTORS))
            self.watchers.append(watcher)
            await self.attach(watcher)
        for watcher in list(self.watchers):
            if chosen.random() < 0.03:
                watcher.leave()
                self.watchers.remove(watcher)
            elif chosen.random() < 0.1 and watcher.subscription is not None:
                watcher.leave()
            elif watcher.subscription is None and chosen.random() < 0.3:
                watcher.ready = True
                await self.attach(watcher, watcher.live.position)
            elif chosen.random() < 0.2 and watcher.subscription is not None:
                watcher.ready = not watcher.ready
                watcher.subscription.resume()

    # ------------------------------------------------------------------------- judge

    async def expected(self, watcher: Watcher) -> tuple[int, list[Any]]:
        """Return the total and the rows that the pages of the API have."""
        service, wanted = self.service.service, watcher.request
        where = service.rankd.reader.where("b", wanted.window, wanted.segment)
        which = {"window": wanted.window, "segment": wanted.segment}

        async def top(reader: Reader) -> Page:
            return await reader.page("b", limit=wanted.top, **which)  # type: ignore[arg-type]

        async def near(reader: Reader) -> Page:
            around = wanted.around or 0
            return await reader.around(
                "b",
                wanted.player or "",
                above=around,
                below=around,
                **which,  # type: ignore[arg-type]
            )

        page = await service.read_as(watcher.actor, where, top)
        found = {row_place(row): row for row in _rows(page, where.terms.board)}
        if wanted.player is not None:
            try:
                own = await service.read_as(watcher.actor, where, near)
            except NotRanked:
                pass
            else:
                found |= {row_place(row): row for row in _rows(own, where.terms.board)}
        return page.total, [found[place] for place in sorted(found)]

    async def judge(self) -> None:
        for watcher in self.watchers:
            if watcher.subscription is None or not watcher.ready:
                continue
            total, rows = await self.expected(watcher)
            assert watcher.live.total == total, (watcher, total, self.service.rankd.position)
            shown = [msgspec.json.decode(msgspec.json.encode(row)) for row in watcher.live.rows]
            if watcher.request.text:
                assert all(isinstance(row["score"], str) for row in shown)
                rows = [
                    msgspec.json.decode(render.convert(msgspec.json.encode(row))) for row in rows
                ]
            has, wants = [*map(_bare, shown)], [*map(_bare, rows)]
            assert has == wants, f"{watcher.request} of {watcher.actor}: {has} is not {wants}"
            assert (watcher.live.position or 0) <= self.service.rankd.position

    async def order(self) -> Mapping[str, tuple[Rank, Any]]:
        page = await self.service.rankd.reader.page("b", limit=100, window="all")
        return {row.player: (row.rank, row.scores) for row in page.standings}

    async def play(self, steps: int) -> None:
        for _ in range(steps):
            before = await self.order()
            kind = await self.step()
            for watcher in self.watchers:
                watcher.overtaken.clear()
            await self.hub.tick()
            await self.judge()
            if kind in ("submit", "submit_many"):
                self.judge_overtaken(before, await self.order(), many=kind == "submit_many")
            await self.come_and_go()
            await self.judge()

    def judge_overtaken(
        self, before: Mapping[str, Any], after: Mapping[str, Any], *, many: bool
    ) -> None:
        """Who was passed by submissions alone is told so, and by whom."""
        for watcher in self.watchers:
            player, live = watcher.request.player or "", watcher.subscription is not None
            if player not in before or player not in after or not (live and watcher.ready):
                continue
            if watcher.request.segment:
                continue
            if watcher.actor is not ACTORS[0] or watcher.request.window != "all":
                continue
            was, now = before[player], after[player]
            ahead = {one for one, (rank, _) in before.items() if rank < was[0]}
            passers = {one for one, (rank, _) in after.items() if rank < now[0]} - ahead
            passed = was[1] == now[1] and now[0] > was[0]
            if self.ties == "dense":  # A tie that parts makes a rank worse, and nobody passes.
                passed = passed and (bool(passers) or bool(many and watcher.overtaken))
                passed = passed and not (many and not watcher.overtaken)
            assert len(watcher.overtaken) == passed or was[1] != now[1], (watcher.overtaken, passed)
            if passed:
                (event,) = watcher.overtaken
                assert event.player == player and event.rank == now[0]
                if event.by is None:  # Of shared ranks after many moves it is not always known.
                    assert many and self.ties != "ordinal"
                    continue
                assert after[event.by][0] < now[0]
                # Of many one may have fallen behind before it passed again, by a lower score.
                never_lower = self.service.rankd.state.boards["b"].board.width > 1
                assert (many and not never_lower) or event.by in passers
                self.overtaken += 1


def row_place(row: Mapping[str, Any]) -> int:
    place: int = row.get("ordinal", row["rank"])
    return place


def _rows(page: Page, board: Any) -> list[Any]:
    rows: list[Any] = msgspec.json.decode(render.rows_of(page, board))
    return rows


def _bare(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


@asynccontextmanager
async def game(seed: int) -> AsyncIterator[Game]:
    async with served(DEFINITIONS[seed % len(DEFINITIONS)]) as service:
        playing = Game(service, seed)
        try:
            yield playing
        finally:
            await service.service.stop_streams()


def play(seed: int, steps: int) -> Game:
    """Play one game; raise AssertionError if a subscriber has anything else than the page."""

    async def played() -> Game:
        async with game(seed) as one:
            await one.play(steps)
            return one

    return run(played())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", type=int, default=100)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    resumed = overtaken = 0
    for seed in range(given.seed, given.seed + given.games):
        try:
            played = play(seed, given.steps)
        except BaseException:
            print(f"python -m tests.http.stream_game --seed {seed} --games 1")  # noqa: T201
            raise
        resumed, overtaken = resumed + played.resumed, overtaken + played.overtaken
    print(f"{given.games} games, {resumed} resumed, {overtaken} overtaken")  # noqa: T201


if __name__ == "__main__":
    main()
