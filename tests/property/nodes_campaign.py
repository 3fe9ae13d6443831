"""Several engines over one ledger, from as many seeds as one likes (test_nodes.py says what of).

python -m tests.property.nodes_campaign [--seeds N] [--first S]
"""

import argparse
import asyncio
import logging
import sys
import time
import traceback
from itertools import product

from tests.property.test_nodes import everything, live


def lived(seed: int, *, shares: bool, fills: bool, corrects: bool) -> int:
    """Live through one seed; return how much was acknowledged. Raises AssertionError."""
    cluster = asyncio.run(live(seed, shares=shares, fills=fills, corrects=corrects))
    there = {one.position for one in asyncio.run(everything(cluster.ledger))}
    assert set(cluster.acknowledged) <= there, "an acknowledged submission is lost"
    return len(cluster.acknowledged)


def main() -> int:
    """Go through the seeds: an index for each node, one for all, and one that is made anew.

    Each without corrections and with them.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=time.time_ns() & 0xFFFF_FFFF)
    given = parser.parse_args()
    sys.stdout.write(
        f"python -m tests.property.nodes_campaign --seeds {given.seeds} --first {given.first}\n"
    )
    logging.disable(logging.ERROR)  # Everything it would say is meant to happen.
    begun, acknowledged, failed = time.monotonic(), 0, 0
    for seed in range(given.first, given.first + given.seeds):
        for (shares, fills), corrects in product(
            ((False, False), (True, False), (True, True)), (False, True)
        ):
            how = {"shares": shares, "fills": fills, "corrects": corrects}
            try:
                acknowledged += lived(seed, **how)
            except Exception:  # Whatever it is, it is a finding.
                failed += 1
                sys.stdout.write(f"seed {seed}, {how}:\n{traceback.format_exc()}\n")
    sys.stdout.write(
        f"{given.seeds} seeds in {time.monotonic() - begun:.0f} s: "
        f"{acknowledged:,} acknowledged, {failed} problems\n"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
