"""A game of some days in a data folder, and the receipts its submissions were answered with."""

import random
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import rankd
from rankd.model.receipt import Receipt

FIRST_DAY = date(2026, 11, 1)
HOUR = 3_600_000_000


class SetClock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        start = datetime(FIRST_DAY.year, FIRST_DAY.month, FIRST_DAY.day, tzinfo=UTC)
        self.time = int(start.timestamp()) * 1_000_000

    def now(self) -> int:
        return self.time


@dataclass
class Game:
    """What was played, as the players saw it."""

    folder: Path
    clock: SetClock = field(default_factory=SetClock)
    receipts: list[tuple[date, Receipt]] = field(default_factory=list)

    @property
    def today(self) -> date:
        return FIRST_DAY + timedelta(days=(self.clock.time - SetClock().time) // (24 * HOUR))

    def play(self, days: int, *, seed: int = 1, players: int = 30) -> None:
        """Play on for some days, with a scripted cheat and one with a score out of this world."""
        dice = random.Random(seed)
        with rankd.open(self.folder, clock=self.clock) as ranks:
            arena = ranks.board(
                "arena",
                rule="sum",
                decimals=1,
                windows=["all", "daily"],
                segments=["region"],
                rules=[{"rule": "first_score", "max": 5000, "then": "hold"}],
            )
            golf = ranks.board("golf", direction="lower", ties="dense", windows=["daily"])
            for _ in range(days):
                for _ in range(4):
                    self._some(arena, golf, dice, players)
                    self.clock.time += 6 * HOUR

    def _some(self, arena: Any, golf: Any, dice: random.Random, players: int) -> None:
        items = [
            {
                "player": f"p{dice.randrange(players)}",
                "score": dice.randrange(1, 999) / 10,
                "attributes": {"region": dice.choice(["eu", "us"])},
            }
            for _ in range(20)
        ]
        items += [{"player": "robot", "score": 50} for _ in range(8)]
        items += [{"player": "giant", "score": 99_999}, {"player": "p1", "delta": -3.5}]
        self._note(arena.submit_many(items))
        self._note(
            golf.submit_many(
                [(f"p{dice.randrange(players)}", dice.randrange(40, 90)) for _ in range(15)]
            )
        )

    def _note(self, receipts: list[Receipt]) -> None:
        self.receipts += [(self.today, receipt) for receipt in receipts]
