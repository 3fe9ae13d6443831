"""Past standings against what was read when they were the present ones, while there is time.

    python -m tests.property.past_campaign --seconds 600 --seed 1

Each round has a seed of its own, counted up from the one given, and one kind of index after the
other; a failing one is repeated by giving its seed.
"""

import argparse
import asyncio
import sys
import time
from unittest import mock

from tests.property.past_model import LASTING, WINDOWS, compare_past
from tests.property.past_worlds import KINDS, lived, made_by_copy

from rankd.testing.servers import RedisServer, redis_server

STEPS = 60


async def _nothing(*_: object) -> int:
    return 0


async def round_of(seed: int, redis: RedisServer) -> tuple[int, int]:
    """Play one history; return how many rankings were compared, and how many of them copied."""
    kind, corrected = KINDS[seed % len(KINDS)], bool(seed % 2)
    windows = WINDOWS if corrected else LASTING
    world = lived(kind, seed, redis, windows=windows, steps=STEPS, corrected=corrected)
    async with world as history:
        with mock.patch("rankd.core.past.copy_cost", _nothing):
            compared = await compare_past(history)
        return compared, made_by_copy(history)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    seed, until = asked.seed, time.monotonic() + asked.seconds
    compared = copied = 0
    with redis_server() as redis:
        while time.monotonic() < until:
            try:
                some = asyncio.run(round_of(seed, redis))
            except BaseException:
                sys.stderr.write(f"seed {seed} differs: --seconds 1 --seed {seed} repeats it\n")
                raise
            compared, copied, seed = compared + some[0], copied + some[1], seed + 1
    sys.stdout.write(
        f"seeds {asked.seed} to {seed - 1}: {compared:,} past rankings compared, "
        f"{copied:,} of them copied; 0 differences\n"
    )


if __name__ == "__main__":
    main()
