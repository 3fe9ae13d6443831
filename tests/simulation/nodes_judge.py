"""Judges a round: what clients were told, against the ledger and a fold of it from scratch.

The fold is this process's own, over a native index, and stops at every position that an answer
names: what is said as of a position is compared with what was true there. A receipt is compared
with the one that the fold gives at its position.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from tests.simulation.nodes_load import Deed, Diary, Read, mark, mark_of

from rankd.adapters.memory.index import NativeIndex
from rankd.api import render as shown_receipts
from rankd.core.projector import Projector
from rankd.core.reader import Reader
from rankd.core.recovery import IndexHome, folded
from rankd.embedded import WallClock
from rankd.errors import UnknownBoard, UnknownWindow
from rankd.model.facts import Position, Recorded, ScoreSubmitted
from rankd.model.receipt import Receipt
from rankd.model.standing import Offset
from rankd.ports import LedgerReader

LASTING = "all"
"""The window that nobody leaves: who is ranked in it at a position is ranked ever after."""


class Facts:
    """What a ledger has, read once: enough of a LedgerReader to fold from."""

    def __init__(self) -> None:
        self.all: list[Recorded] = []
        self._positions: list[Position] = []

    @property
    def last(self) -> Position:
        return self._positions[-1] if self._positions else Position(0)

    async def follow(self, ledger: LedgerReader) -> None:
        """Read on, from where the last read ended."""
        while some := await ledger.read(after=self.last, limit=10_000):
            self.add(some)

    def add(self, some: Sequence[Recorded]) -> None:
        self.all += some
        self._positions += [one.position for one in some]

    def between(self, after: Position, through: int) -> list[Recorded]:
        return self.all[bisect_right(self._positions, after) : self.count_through(through)]

    def count_through(self, position: int) -> int:
        return bisect_right(self._positions, position)

    async def read(self, *, after: Position, limit: int) -> Sequence[Recorded]:
        return self.between(after, self.last)[:limit]


@dataclass
class Scratch:
    """A fold of everything from the beginning, as far as it was asked to go."""

    facts: Facts
    receipts: dict[Position, Receipt] = field(default_factory=dict)
    projector: Projector = field(init=False)
    reader: Reader = field(init=False)

    def __post_init__(self) -> None:
        home = IndexHome(NativeIndex(), None)
        self.projector = folded(self.facts, home)  # type: ignore[arg-type]
        self.reader = Reader(projector=self.projector, clock=WallClock())

    async def go_to(self, position: int) -> None:
        coming = self.facts.between(self.projector.checkpoint, position)
        if coming:
            self.receipts.update(await self.projector.fold(coming))

    def digest(self) -> bytes:
        index = self.projector.index
        assert isinstance(index, NativeIndex)
        return index.digest()


class Judge:
    """Compares what was said with what is there."""

    def __init__(self, tally: Counter[str]) -> None:
        self.tally = tally
        self.facts = Facts()
        self.deeds: dict[tuple[str, int], Deed] = {}
        """Every submission of this ledger's life, by its mark."""

    # -- submissions --

    def presence(self, diary: Diary) -> list[str]:
        """Return where the ledger does not have what was said of it."""
        self.deeds |= {mark(deed): deed for deed in diary.deeds}
        there: defaultdict[tuple[str, int], list[Position]] = defaultdict(list)
        for one in self.facts.all:
            if isinstance(one.fact, ScoreSubmitted):
                there[mark_of(one.fact)].append(one.position)
        strangers = there.keys() - self.deeds
        problems = [f"{name} is in the ledger and nobody sent it" for name in strangers]
        for name, deed in self.deeds.items():
            problems += _wrong_presence(deed, there.get(name, []))
        return problems

    def count(self, diary: Diary) -> None:
        for deed in diary.deeds:
            self.tally[f"applied {deed.applied}"] += 1
            self.tally["tries"] += len(deed.told)
            self.tally["accepted only"] += any(
                one["verdict"] == "accepted" for one in deed.receipts()
            )
        for read in diary.reads:
            stale = read.heard.body.get("stale")
            self.tally[f"reads {read.heard.status}{' stale' if stale else ''}"] += 1

    # -- answers --

    async def answers(self, diary: Diary) -> tuple[list[str], Scratch]:
        """Return which answers were wrong, and a fold of everything."""
        scratch, problems = Scratch(self.facts), [*diary.odd]
        reads = [read for read in diary.reads if read.heard.status == 200]
        absent = [read for read in diary.reads if read.heard.status == 404]
        stops: dict[int, list[Read]] = defaultdict(list)
        for read in reads:
            stops[read.heard.body["as_of"]].append(read)
        for read in absent:
            if read.window == LASTING and self._least(read):
                stops[self._least(read)].append(read)
        for position in sorted(stops):
            await scratch.go_to(position)
            for read in stops[position]:
                problems += await self._wrong_read(scratch, read)
        await scratch.go_to(self.facts.last)
        for deed in diary.deeds:
            problems += _wrong_receipts(scratch, deed)
        return problems, scratch

    def _least(self, read: Read) -> int:
        """Return the position that an answer is no older than, though it does not say which."""
        return max(read.min_position or 0, read.floor)

    async def _wrong_read(self, scratch: Scratch, read: Read) -> list[str]:
        body = read.heard.body
        if read.heard.status == 404:
            return await self._wrong_absence(scratch, read)
        as_of, stale = body["as_of"], body["stale"]
        where = f"{read.node} of {read.board}/{body['window']}/{read.segment or ''} as of {as_of}"
        where += f"{', stale' if stale else ''}, asked for {read.min_position}"
        if as_of > self.facts.last:
            return [f"{where}: that position is not there"]
        least = self._least(read)
        if as_of < least and not stale:
            return [f"{where}: it is older than {least}, and does not say so"]
        try:
            true: object = await _true_answer(scratch, read, body["window"])
        except (UnknownBoard, UnknownWindow):
            true = 0, []  # There was nothing yet.
        said = _said(body, read.player)
        if said != true:
            return [f"{where}: said {_brief(said)}, true is {_brief(true)}"]
        return []

    async def _wrong_absence(self, scratch: Scratch, read: Read) -> list[str]:
        assert read.player is not None
        found = await scratch.reader.standing(
            read.board, read.player, window=read.window, segment=read.segment
        )
        if found is None or read.segment is not None:  # Who leaves a region leaves its ranking.
            return []
        where = f"{read.node} of {read.board}, at {self._least(read)} or later"
        return [f"{where}: {read.player} is not ranked, it says, and is, there"]


def _wrong_presence(deed: Deed, positions: Sequence[Position]) -> list[str]:
    allowed = {"yes": {1}, "no": {0}, "unknown": {0, 1}}[deed.applied]
    problems = []
    if len(positions) not in allowed:
        problems.append(f"{deed.number}: applied {deed.applied}, and there {len(positions)} times")
    problems += [
        f"{deed.number}: is at {positions[0]}, not at {receipt['position']}"
        for receipt in deed.receipts()
        if positions and receipt["position"] not in (None, positions[0])  # None: spooled.
    ]
    return problems


def _wrong_receipts(scratch: Scratch, deed: Deed) -> list[str]:
    problems = []
    for said in deed.receipts():
        if said["verdict"] == "accepted":
            continue
        told = scratch.receipts.get(Position(said["position"]))
        true = None if told is None else msgspec.to_builtins(shown_receipts.receipt(told))
        if true != {name: value for name, value in said.items() if name != "duplicate"}:
            problems.append(f"{deed.number}: was told {_brief(said)}, true is {_brief(true)}")
    return problems


async def _true_answer(scratch: Scratch, read: Read, window: str) -> object:
    reader = scratch.reader
    if read.player is not None:
        found = await reader.standing(read.board, read.player, window=window, segment=read.segment)
        return found and (found.rank, found.player, found.scores[0], found.total)
    page = await reader.page(
        read.board, window=window, segment=read.segment, limit=20, offset=Offset(read.offset)
    )
    rows = [
        (rank, player, scores[0])
        for rank, player, scores in zip(page.ranks, page.players, page.scores, strict=True)
    ]
    return page.total, rows


def _said(body: dict[str, Any], player: str | None) -> object:
    if player is not None:
        return body["rank"], body["player"], body["score"], body["total"]
    rows = [(row["rank"], row["player"], row["score"]) for row in body["standings"]]
    return body["total"], rows


def _brief(what: object) -> str:
    return str(what)[:300]
