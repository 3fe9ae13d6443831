"""A board of a million simulated players, changing while you watch. `make run` starts it.

Everything is in this process: no server, no database. The scores are made up; the ranks are not.
"""

import argparse
import random
import shutil
import sys
import time
from array import array
from collections.abc import Iterator

from rankd.model.board import Board
from rankd.model.facts import Position
from rankd.model.order import Order
from rankd.rank import PlayerTable, RankList

BATCH = 5_000
FRAME_SECONDS = 0.2
FRAMES_WITHOUT_TERMINAL = 3
BAR_WIDTH = 28

MANNERS = ("brave", "calm", "clever", "daring", "gentle", "lucky", "merry", "quick", "sly", "swift")
ANIMALS = ("badger", "crane", "falcon", "fox", "heron", "lynx", "otter", "owl", "raven", "wolf")


class Arena:
    """One board, its players and their scores."""

    def __init__(self, players: int) -> None:
        self.board = Board.define("arena", {"title": "Arena", "rule": "best"})
        self.order = Order.of(self.board)
        self.table = PlayerTable()
        self.ranking = RankList(self.order.key_bytes, players=self.table)
        self.scores = array("q")
        self.position = 0
        self.you = 0

        numbers = self.table.intern_many(["you", *(name(n) for n in range(1, players))])
        for first in range(0, players, BATCH):
            chosen = numbers[first : first + BATCH]
            self.scores.extend(int(random.expovariate(1 / 20_000)) for _ in chosen)
            self.record(chosen)

    def record(self, players: "array[int]") -> None:
        """Put each player where its score belongs; the earlier of two equals is ahead."""
        keys = bytearray()
        for player in players:
            self.position += 1
            keys += self.order.key((self.scores[player],), Position(self.position))
        self.ranking.put_many(players, keys)

    def play(self) -> int:
        """Let some random players, a few of the best, and you, score again."""
        players = random.choices(range(len(self.scores)), k=BATCH)
        leaders = random.choices(self.ranking.read(1, 15)[1], k=2)
        for player in players:
            self.scores[player] += int(random.expovariate(1 / 40))
        for player in leaders:
            self.scores[player] += int(random.expovariate(1 / 500))
        self.scores[self.you] += min(self.scores[self.you] // 200, 40)
        players += [*leaders, self.you]
        self.record(array("I", players))
        return len(players)

    def top(self, count: int) -> Iterator[tuple[int, str, int]]:
        players = self.ranking.read(1, count)[1]
        for rank, (player, number) in enumerate(
            zip(self.table.ids_of(players), players, strict=True), start=1
        ):
            yield rank, player, self.scores[number]

    def microseconds_per_rank(self) -> float:
        sample = random.choices(range(len(self.scores)), k=500)
        started = time.perf_counter()
        for player in sample:
            self.ranking.rank_of(player)
        return (time.perf_counter() - started) / len(sample) * 1e6


def name(number: int) -> str:
    manner, animal = MANNERS[number % len(MANNERS)], ANIMALS[number // 10 % len(ANIMALS)]
    return f"{manner}-{animal}-{number}"


def frame(arena: Arena, *, climbed: int, updates_per_second: float) -> list[str]:
    total = len(arena.ranking)
    used = (arena.ranking.bytes_used + arena.table.bytes_used) / total
    yours = arena.ranking.rank_of(arena.you)
    assert yours is not None
    top = list(arena.top(10))
    unit = max(score for _, _, score in top) / BAR_WIDTH or 1
    lines = [f"  {arena.board.title}: {total:,} players, {used:.0f} bytes each, ids included", ""]
    for rank, player, score in top:
        lines.append(f"  {rank:>4}  {player:<22} {score:>9,}  {'█' * int(score / unit)}")
    rise = f", up {climbed:,}" if climbed > 0 else ""
    score, ahead = arena.scores[arena.you], (total - yours) / total
    cost = arena.microseconds_per_rank()
    return [
        *lines,
        f"  {'':>4}  …",
        f"  you: rank {yours:,} with {score:,}, ahead of {ahead:.1%}{rise}",
        "",
        f"  {updates_per_second:,.0f} updates/s; asking for a rank takes {cost:.1f} µs",
    ]


def show(lines: list[str], *, again: bool) -> None:
    """Print a frame; on a terminal, over the one before."""
    if not sys.stdout.isatty():
        print("\n".join(lines), end="\n\n", flush=True)
        return
    width = shutil.get_terminal_size().columns - 1
    up = f"\x1b[{len(lines)}F" if again else ""
    print(up + "\n".join(f"\x1b[2K{line[:width]}" for line in lines), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--players", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()

    print(f"Filling a board with {options.players:,} players ...", flush=True)
    started = time.perf_counter()
    arena = Arena(options.players)
    print(f"... took {time.perf_counter() - started:.1f} s.\n", flush=True)

    pause = FRAME_SECONDS if sys.stdout.isatty() else options.seconds / FRAMES_WITHOUT_TERMINAL
    end = time.perf_counter() + options.seconds
    shown = 0
    before = arena.ranking.rank_of(arena.you) or 0
    while time.perf_counter() < end:
        began, updates = time.perf_counter(), 0
        while (elapsed := time.perf_counter() - began) < pause:
            updates += arena.play()
        rank = arena.ranking.rank_of(arena.you) or 0
        show(
            frame(arena, climbed=before - rank, updates_per_second=updates / elapsed),
            again=shown > 0,
        )
        before, shown = rank, shown + 1


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print()
