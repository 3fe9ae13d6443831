"""Boards with decay against their judge, for as many games as are wanted.

    python -m tests.property.decay_campaign --games 2000 --seed 1 [--redis]

Each game has a seed of its own, counted up from the one given; the seed of one that differs is
printed and repeats it.
"""

import argparse
import asyncio
import sys
from collections import Counter
from contextlib import ExitStack

from tests.property.decay_games import Game
from tests.property.test_decay import shared_game

from rankd.testing.servers import redis_server

STEPS = 40


def play(seed: int, url: str | None, figures: Counter[str]) -> None:
    """Play one game. Raises AssertionError where it differs."""
    try:
        asyncio.run(
            Game(seed, figures).play(STEPS) if url is None else shared_game(seed, url, figures)
        )
    except BaseException:
        sys.stderr.write(f"seed {seed} differs: --games 1 --seed {seed} repeats it\n")
        raise
    figures["games"] += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--redis", action="store_true", help="with the index in a Redis")
    asked = parser.parse_args()
    figures = Counter[str]()
    with ExitStack() as stack:
        url = stack.enter_context(redis_server()).url if asked.redis else None
        for seed in range(asked.seed, asked.seed + asked.games):
            play(seed, url, figures)
    told = ", ".join(f"{number:,} {what}" for what, number in sorted(figures.items()))
    sys.stdout.write(f"{told}; 0 differences\n")


if __name__ == "__main__":
    main()
