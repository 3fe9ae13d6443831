"""Clients of several nodes: what they send, to whom, and what they were told.

A submission with a key is sent again after an error, to any node, a few times; one without a key is
sent once. Every submission bears a number of its own, which its fact shows, so that facts can
be told apart. Everything a client hears is written down, to be judged when the round is over.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal, NamedTuple

import msgspec
from tests.simulation.nodes_world import (
    PATIENCE_SECONDS,
    Heard,
    Line,
    Lost,
    Node,
    NotSent,
    TooLate,
    until,
)

from rankd.model.facts import ScoreSubmitted

CLIENTS = 6
PLAYERS = 60
TRIES = 4
"""Of one submission with a key, before its client gives up."""
PAUSE_SECONDS = 0.01
"""Between two of them."""
KEYED = 0.6
"""Of all submissions."""
READS = 0.35
"""Of everything that clients do."""

MINUTE = {"name": "minute", "start": "2026-11-14T00:00:00Z", "every": "1m"}
BOARDS: dict[str, dict[str, Any]] = {
    "best": {"rule": "best", "windows": ["all", "daily"], "segments": ["region"]},
    "sum": {"rule": "sum", "windows": ["all"]},
    "low": {"rule": "latest", "direction": "lower", "windows": ["all", MINUTE]},
    "tied": {"rule": "best", "windows": ["all"], "ties": "dense"},
}
REGIONS = ("eu", "us")
RANKINGS: tuple[tuple[str, str, str | None], ...] = (
    ("best", "all", None),
    ("best", "daily", None),
    ("best", "all", "region:eu"),
    ("best", "daily", "region:us"),
    ("sum", "all", None),
    ("low", "all", None),
    ("low", "minute", None),
    ("tied", "all", None),
)
"""Every ranking that is asked for: board, window, segment."""

Applied = Literal["yes", "no", "unknown"]


@dataclass
class Told:
    """What became of one try."""

    node: str
    applied: Applied
    status: int
    """Of HTTP; 0 where there was no answer."""
    began: float
    ended: float
    receipt: dict[str, Any] | None = None


@dataclass
class Deed:
    """One submission, and what was heard of it."""

    number: int
    board: str
    body: dict[str, Any]
    told: list[Told] = field(default_factory=list)

    @property
    def key(self) -> str | None:
        return self.body.get("key")

    @property
    def applied(self) -> Applied:
        """Return what must be true of it, after all tries."""
        heard = {one.applied for one in self.told}
        if "yes" in heard:
            return "yes"
        return "no" if heard == {"no"} else "unknown"

    def receipts(self) -> list[dict[str, Any]]:
        return [one.receipt for one in self.told if one.receipt is not None]


def mark_of(fact: ScoreSubmitted) -> tuple[str, int]:
    """Return by what a submission's fact is known."""
    if fact.board == "tied":
        assert fact.metadata is not None
        return fact.board, int(msgspec.json.decode(fact.metadata)["number"])
    number = fact.delta if fact.scores is None else fact.scores[0]
    assert number is not None
    return fact.board, number


def mark(deed: Deed) -> tuple[str, int]:
    """Return by what its fact is known."""
    return deed.board, deed.number if deed.board == "tied" else scattered(deed.number)


def scattered(number: int) -> int:
    """Return a score that no other number has, and that looks like any score."""
    return number * 2_654_435_761 % (1 << 32)


class Read(NamedTuple):
    """A question about standings, and its answer."""

    node: str
    board: str
    window: str
    segment: str | None
    player: str | None
    """Whose standing was asked for; None for a page."""
    offset: int
    min_position: int | None
    heard: Heard
    floor: int = 0
    """What the node had told the receipt of, when it was asked: it must be no older than that."""


@dataclass
class Diary:
    """What was sent and heard in one round."""

    deeds: list[Deed] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    acknowledged: Counter[str] = field(default_factory=Counter)
    """By node."""
    refused: Counter[str] = field(default_factory=Counter)
    floors: Counter[tuple[str, int]] = field(default_factory=Counter)
    """The last position of which each node, in each of its lives, told what it did."""
    odd: list[str] = field(default_factory=list)
    """Answers that nobody should get."""


class Load:
    """All clients of one world."""

    def __init__(self, nodes: Sequence[Node], random: Random) -> None:
        self.nodes = nodes
        self.diary = Diary()
        self._random = random
        self._number = 0
        self._ended = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    # -- its life --

    def begin(self) -> Diary:
        """Let the clients begin, with a new diary."""
        self.diary = Diary()
        self._ended.clear()
        self._tasks = [asyncio.create_task(self._live()) for _ in range(CLIENTS)]
        return self.diary

    async def end(self) -> None:
        """Let every client finish what it does. Raises TooLate for an answer that never comes."""
        self._ended.set()
        _, waiting = await asyncio.wait(self._tasks, timeout=PATIENCE_SECONDS)
        if waiting:
            self.hang_up()
        await asyncio.gather(*self._tasks)
        if waiting:
            raise TooLate(f"{len(waiting)} clients were never answered")

    def hang_up(self) -> None:
        """Let nobody wait for an answer any more."""
        for node in self.nodes:
            node.hung_up.set()

    async def more(self, count: int, nodes: Sequence[Node] | None = None) -> None:
        """Wait until each of these nodes has acknowledged so many more."""
        nodes, seen = self.nodes if nodes is None else nodes, self.diary.acknowledged
        goal = {node.name: seen[node.name] + count for node in nodes if node.takes}

        async def reached() -> bool:
            self._fail_early()
            return all(seen[name] >= least for name, least in goal.items())

        await until(reached, f"{', '.join(goal)} acknowledged {count} more")

    async def refusals(self, nodes: Sequence[Node], count: int = 3) -> None:
        """Wait until each of these nodes has refused so many."""
        seen = self.diary.refused
        goal = {node.name: seen[node.name] + count for node in nodes}

        async def reached() -> bool:
            self._fail_early()
            return all(seen[name] >= least for name, least in goal.items())

        await until(reached, f"{', '.join(goal)} refused {count} more")

    def _fail_early(self) -> None:
        for task in self._tasks:
            if task.done():
                task.result()

    async def _live(self) -> None:
        lines = {node.name: Line(node) for node in self.nodes}
        try:
            while not self._ended.is_set():
                if self._random.random() < READS:
                    await self._read(lines)
                else:
                    await self._submit(self.deed(), lines)
        finally:
            for line in lines.values():
                line.close()

    # -- submitting --

    def deed(self, player: str | None = None) -> Deed:
        """Make up a submission; one for a player of its own has a key."""
        random = self._random
        self._number += 1
        number, board = self._number, random.choice(tuple(BOARDS))
        body: dict[str, Any] = {"player": player or f"p{random.randrange(PLAYERS)}"}
        if board == "tied":
            body |= {"score": random.randrange(8), "metadata": {"number": number}}
        else:
            added = board == "sum" and random.random() < 0.3
            body["delta" if added else "score"] = scattered(number)
        if board == "best" and random.random() < 0.4:
            body["attributes"] = {"region": random.choice(REGIONS)}
        if player is not None or random.random() < KEYED:
            body["key"] = f"k{number}"
        made = Deed(number, board, body)
        self.diary.deeds.append(made)
        return made

    async def _submit(self, deed: Deed, lines: dict[str, Line]) -> None:
        for _ in range(TRIES if deed.key else 1):
            node = self._random.choice([node for node in self.nodes if node.takes])
            told = await self.send(deed, node, lines[node.name])
            if told.applied == "yes":
                return
            await asyncio.sleep(PAUSE_SECONDS)

    async def send(self, deed: Deed, node: Node, line: Line) -> Told:
        """Send a submission once, and write down what became of it."""
        began = time.monotonic()
        status, receipt, applied = 0, None, "unknown"
        try:
            heard = await line.ask("POST", f"/v1/boards/{deed.board}/scores", deed.body)
        except NotSent:
            applied = "no"
        except Lost:
            pass
        else:
            status, body = heard
            applied = "yes" if status in {200, 202} else body.get("applied", "unknown")
            receipt = body if applied == "yes" else None
            if status not in {200, 202, 503}:
                self.diary.odd.append(f"{node.name} answered {status} to a submission: {body}")
        told = Told(node.name, applied, status, began, time.monotonic(), receipt)  # type: ignore[arg-type]
        deed.told.append(told)
        if (
            receipt is not None
            and receipt["verdict"] != "accepted"
            and not receipt.get("duplicate")
        ):
            life = node.name, node.starts
            self.diary.floors[life] = max(self.diary.floors[life], receipt["position"])
        self.diary.acknowledged[node.name] += applied == "yes"
        self.diary.refused[node.name] += applied == "no" and status == 503
        return told

    # -- reading --

    async def _read(self, lines: dict[str, Line]) -> None:
        random = self._random
        node = random.choice([node for node in self.nodes if node.tells])
        board, window, segment = random.choice(RANKINGS)
        player, offset, least = None, 0, None
        if random.random() < 0.5:
            least = self._known_position(node)
        if random.random() < 0.5:
            player = f"p{random.randrange(PLAYERS)}"
        else:
            offset = random.choice((0, 0, random.randrange(PLAYERS)))
        await self.ask(lines[node.name], node, board, window, segment, player, offset, least)

    def _known_position(self, node: Node) -> int | None:
        """Return the position of something lately acknowledged by any node."""
        recent = self.diary.deeds[-30:]
        receipts = [one for deed in recent for one in deed.receipts()]
        known = [one["position"] for one in receipts if one["position"] is not None]
        return max(known, default=None)

    async def ask(
        self,
        line: Line,
        node: Node,
        board: str,
        window: str,
        segment: str | None,
        player: str | None,
        offset: int,
        least: int | None,
    ) -> Heard | None:
        """Ask for a standing or a page, and write down what came of it."""
        asked = f"?window={window}" + (f"&segment={segment}" if segment else "")
        asked += "" if least is None else f"&min_position={least}"
        path = f"/v1/boards/{board}/standings"
        path += f"/{player}{asked}" if player else f"{asked}&offset={offset}&limit=20"
        floor = self.diary.floors[node.name, node.starts]
        try:
            heard = await line.ask("GET", path)
        except (NotSent, Lost):
            await asyncio.sleep(PAUSE_SECONDS)
            return None
        if heard.status not in {200, 404, 503} or (heard.status == 404 and player is None):
            self.diary.odd.append(f"{node.name} answered {heard.status} to {path}: {heard.body}")
        read = Read(node.name, board, window, segment, player, offset, least, heard, floor)
        self.diary.reads.append(read)
        return heard
