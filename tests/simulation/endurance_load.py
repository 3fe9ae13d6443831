"""A steady load that should leave a service as it found it, but for facts in its ledger.

Players are a fixed number. A tenth of the boards lasts; each of the others is retired after a
quarter of the run, and another is made in its place. All have a short window whose closed ones are
dropped soon, and two segments: one of a few values, and one whose values are never seen again once
their time is over. Each client has one connection and sends at fixed moments.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random

from rankd.adapters.sqlite.recent_keys import GENERATION_KEYS
from rankd.client import AsyncClient
from rankd.errors import NotRanked, Unavailable, UnknownBoard, UnknownWindow

CLIENTS = 16
LASTING_SHARE = 0.1
"""Of the boards: those that are never retired."""

LIFETIMES = 4
"""As many times all other boards are replaced in a run."""

REGIONS = 5
CLANS = 10
"""Values of a segment at a time."""

BATCH = 20
"""Submissions sent together, now and then."""

BATCH_SHARE, SUBMIT_SHARE, PROFILE_SHARE = 0.02, 0.4, 0.05
"""Of the requests; the others read."""

Request = Callable[[], Awaitable[object]]

FILL_SUBMISSIONS = 4 * GENERATION_KEYS
"""Sent before the load: memory then has the recent keys and the pages that the ledger keeps there,
some 100 MiB, and levels off from then on. Under a steady load that would take hours."""

FILL_BATCH = 4_096

EXPECTED = (UnknownBoard, UnknownWindow, NotRanked)
"""What may become of a request for a board that was just retired, or a player not on it yet."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The size of a run."""

    seconds: float
    boards: int
    players: int
    rate: float
    """Requests a second."""
    window_seconds: int
    fill: int
    """Submissions before the load."""
    seed: int

    @property
    def lasting(self) -> int:
        """How many boards are never retired."""
        return max(1, round(self.boards * LASTING_SHARE))

    @property
    def turnover_seconds(self) -> float:
        """The time from one new board to the next."""
        return self.seconds / LIFETIMES / (self.boards - self.lasting)

    def definition(self) -> dict[str, object]:
        """Return the definition of every board."""
        window = f"{self.window_seconds}s"
        return {
            "windows": ["all", {"name": "short", "every": window, "start": "2026-01-01"}],
            "segments": ["region", "clan"],
            "retention": {"short": window},
        }


@dataclass
class Tally:
    """What happened since it was last taken."""

    refused: int = 0
    latencies: list[float] = field(default_factory=list)
    """Of requests, in milliseconds."""


class Load:
    """The clients of a service."""

    def __init__(self, url: str, plan: Plan) -> None:
        self._url = url
        self._plan = plan
        self._random = Random(plan.seed)
        self._lasting = [f"lasting-{number}" for number in range(plan.lasting)]
        self._passing: list[str] = []
        self._tally = Tally()
        self._begun = time.monotonic()
        self.boards = 0
        """That were ever made."""

    def take_tally(self) -> Tally:
        """Return what happened since the last call."""
        taken, self._tally = self._tally, Tally()
        return taken

    async def prepare(self) -> None:
        """Make the boards, and fill the ledger's memory."""
        async with AsyncClient(self._url) as client:
            for name in self._lasting:
                await self._define(client, name)
            while len(self._passing) < self._plan.boards - self._plan.lasting:
                await self._make(client)
            for first in range(0, self._plan.fill, FILL_BATCH):
                size = min(FILL_BATCH, self._plan.fill - first)
                await client.submit_batch(self._items(size), board=self._lasting[0])

    async def run(self) -> None:
        """Load until cancelled."""
        self._begun = time.monotonic()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._turn_over())
            for number in range(CLIENTS):
                group.create_task(self._send(number))

    # ------------------------------------------------------------------------- boards

    async def _define(self, client: AsyncClient, name: str) -> None:
        await client.define(name, self._plan.definition())
        self.boards += 1

    async def _make(self, client: AsyncClient) -> None:
        name = f"passing-{self.boards}"
        await self._define(client, name)
        self._passing.append(name)

    async def _turn_over(self) -> None:
        async def replace() -> None:
            await self._make(client)
            await client.retire(self._passing.pop(0))

        async with AsyncClient(self._url) as client:
            await self._repeat(self._plan.turnover_seconds, lambda: replace)

    # ----------------------------------------------------------------------- requests

    async def _send(self, number: int) -> None:
        await asyncio.sleep(number / self._plan.rate)
        async with AsyncClient(self._url) as client:
            await self._repeat(CLIENTS / self._plan.rate, lambda: self._choose(client))

    async def _repeat(self, period: float, choose: Callable[[], Request]) -> None:
        """Send at fixed moments; what is late is sent at once, and what was missed is not."""
        due = time.monotonic()
        while True:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            due = max(due + period, time.monotonic())
            await self._measured(choose())

    async def _measured(self, request: Request) -> None:
        begun = time.perf_counter()
        try:
            await request()
        except EXPECTED:
            pass
        except Unavailable:
            self._tally.refused += 1
        self._tally.latencies.append(1_000 * (time.perf_counter() - begun))

    def _choose(self, client: AsyncClient) -> Request:
        kind, board, player = self._random.random(), self._board(), self._player()
        if kind < BATCH_SHARE:
            items = self._items(BATCH)
            return lambda: client.submit_batch(items, board=board)
        if kind < BATCH_SHARE + SUBMIT_SHARE:
            attributes, score = self._attributes(), self._score()
            return lambda: client.submit(board, player, score, attributes=attributes)
        if kind < BATCH_SHARE + SUBMIT_SHARE + PROFILE_SHARE:
            attributes, name = self._attributes(), f"Name {self._score()}"
            return lambda: client.set_profile(player, name=name, attributes=attributes)
        return self._read(client, board, player)

    def _read(self, client: AsyncClient, board: str, player: str) -> Request:
        window = self._random.choice(("all", "short", "short:-1"))
        segment = self._random.choice((None, f"region:r{self._random.randrange(REGIONS)}"))
        return self._random.choice(
            (
                lambda: client.page(board, window=window, segment=segment),
                lambda: client.around(board, player, window=window),
                lambda: client.standing(board, player, window=window),
                lambda: client.standings(player),
            )
        )

    def _board(self) -> str:
        return self._random.choice(self._random.choice((self._lasting, self._passing)))

    def _player(self) -> str:
        return f"p{self._random.randrange(self._plan.players)}"

    def _items(self, count: int) -> list[tuple[str, int]]:
        return [(self._player(), self._score()) for _ in range(count)]

    def _score(self) -> int:
        return self._random.randrange(1_000_000)

    def _attributes(self) -> dict[str, str | int | bool]:
        """Return attributes of this time: clans of another window are others."""
        era = int((time.monotonic() - self._begun) / self._plan.window_seconds)
        clan = self._random.randrange(CLANS)
        return {"region": f"r{self._random.randrange(REGIONS)}", "clan": f"c{era}-{clan}"}
