"""Streams of several processes and nodes: whoever answers, the rows are those of the page.

Method: one writer submits to the nodes in turn, and notes the whole ranking after each submission.
Subscribers open streams at any node, read some events, go away and resume at any other. After each
event what they put together must be the page that was noted for its position.

    python -m tests.http.stream_nodes --backend redis --nodes 3 --steps 2000
"""

import argparse
import asyncio
import random
import tempfile
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import ExitStack, aclosing
from pathlib import Path
from typing import Any

from tests.http.backends import INDEXES, Backend, Servers, serving_nodes

from rankd.client import AsyncClient, LiveBoard
from rankd.client.calls import Call
from rankd.client.stream_transport import AsyncStream
from rankd.client.streams import EventParser, place_of, resumed, stream
from rankd.embedded import WallClock
from rankd.http_client import Endpoint, HttpRequest
from rankd.schemas import Row

PLAYERS = [f"p{number}" for number in range(30)]
SILENCE_SECONDS = 100.0


class Game:
    """A board over some services, with the writes to it and the reads of it."""

    def __init__(self, urls: Sequence[str], seed: int) -> None:
        self.urls = urls
        self.random = random.Random(seed)
        self.positions: list[int] = []
        self.pages: list[list[Row]] = []
        self.noted = asyncio.Condition()
        self.judged = self.resumed = 0
        self.is_over = False

    async def play(self, steps: int, subscribers: int) -> None:
        async with AsyncClient(self.urls[0]) as client:
            await client.define("b", {"rule": "latest"})
        for url in self.urls:
            async with AsyncClient(url) as client:
                while not (await client.boards()).boards:  # noqa: ASYNC110 - it follows
                    await asyncio.sleep(0.01)
        async with asyncio.TaskGroup() as group:
            for number in range(subscribers):
                group.create_task(self.subscribe(number))
            await self.write(steps)
            self.is_over = True

    async def write(self, steps: int) -> None:
        clients = [AsyncClient(url) for url in self.urls]
        for number in range(steps):
            client = clients[number % len(clients)]
            player, score = self.random.choice(PLAYERS), self.random.randrange(100)
            receipt = await client.submit("b", player, score)
            assert receipt.position is not None
            page = await client.page("b", limit=1000, min_position=receipt.position)
            async with self.noted:
                self.positions.append(receipt.position)
                self.pages.append(list(page.standings))
                self.noted.notify_all()
        for client in clients:
            await client.close()

    async def subscribe(self, number: int) -> None:
        chosen = random.Random(number)
        player = chosen.choice([None, *PLAYERS[:3]])
        around = 2 if player else None
        call, live = (
            stream("b", top=chosen.choice((3, 10)), player=player, around=around),
            LiveBoard(),
        )
        while not self.is_over or self.judged < 10:
            states = await self.read_some(call, live, player, chosen)
            self.resumed += live.position is not None and not states
            await asyncio.sleep(chosen.random() * 0.05)

    async def read_some(
        self, call: Call[Any], live: LiveBoard, player: str | None, chosen: random.Random
    ) -> int:
        """Read some events, and judge each; return how many states there were."""
        endpoint = Endpoint(chosen.choice(self.urls), {})
        wanted = resumed(call, live.position)
        sent = HttpRequest("GET", wanted.path, wanted.headers)
        opened, parser = await AsyncStream.open(endpoint, sent, SILENCE_SECONDS), EventParser()
        left, states = chosen.randrange(1, 6), 0
        assert opened.head.status == 200, opened.head
        async with aclosing(opened.parts()) as parts:
            async for part in parts:
                for event in parser.feed(part):
                    before = live.position or 0
                    assert event.position >= before
                    states += type(event).__name__ == "StreamState"
                    if live.apply(event):
                        await self.judge(live, player)
                        left -= 1
                if left <= 0 or self.is_over:
                    break
        return states

    async def judge(self, live: LiveBoard, player: str | None) -> None:
        position = live.position or 0
        async with self.noted:
            async with asyncio.timeout(SILENCE_SECONDS):
                await self.noted.wait_for(lambda: self.is_known(position))
        rows = self.pages_at(position)
        assert live.total == len(rows), (position, live.total, len(rows))
        assert live.rows == expected(rows, live.top, player), position
        self.judged += 1

    def is_known(self, position: int) -> bool:
        return self.is_over or (bool(self.positions) and self.positions[-1] >= position)

    def pages_at(self, position: int) -> list[Row]:
        place = bisect_right(self.positions, position)
        return self.pages[place - 1] if place else []


def expected(rows: Sequence[Row], top: int, player: str | None, around: int = 2) -> list[Row]:
    """Return the rows of a view, made from the whole ranking."""
    places = {place_of(row): row for row in rows[:top]}
    own = next((place_of(row) for row in rows if row.player == player), None)
    if own is not None:
        count = min(2 * around + 1, len(rows))
        first = min(max(own - around, 1), len(rows) - count + 1)
        places |= {place_of(row): row for row in rows[first - 1 : first - 1 + count]}
    return [places[place] for place in sorted(places)]


def play(urls: Sequence[str], *, seed: int, steps: int, subscribers: int = 4) -> Game:
    """Play a game; raise AssertionError if a subscriber has anything else than the page."""

    async def played() -> Game:
        game = Game(urls, seed)
        await game.play(steps, subscribers)
        return game

    return asyncio.run(played())


def play_nodes(backend: Backend, servers: Servers, folder: Path, *, seed: int, steps: int) -> Game:
    """Play over the nodes of a backend."""
    kept = backend.keep(servers)
    with serving_nodes(kept, folder, WallClock(), backend.nodes) as nodes:
        urls = [f"http://127.0.0.1:{node.port}" for node in nodes]
        return play(urls, seed=seed, steps=steps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", choices=INDEXES, default="native")
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    backend = Backend(index=given.backend, nodes=given.nodes)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = stack.enter_context(Servers())
        game = play_nodes(backend, servers, folder, seed=given.seed, steps=given.steps)
    print(f"{given.steps} submissions, {game.judged} events judged, {game.resumed} resumed")  # noqa: T201


if __name__ == "__main__":
    main()
