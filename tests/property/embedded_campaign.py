"""The engine in a program against its model, for as long as there is time.

    python -m tests.property.embedded_campaign --seconds 600 --seed 1

Each round has a seed of its own, counted up from the one given; a failing one is printed with what
leads to it, and is repeated by giving its seed and a second.
"""

import argparse
import sys
import time

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.property.test_embedded_api import EmbeddedMachine

EXAMPLES_PER_ROUND = 10
STEPS_PER_EXAMPLE = 60


def play(number: int, *, shrink: bool) -> None:
    """One round. Raises what differs, after making it as short as it gets if that is asked for."""
    phases = (Phase.generate, Phase.shrink) if shrink else (Phase.generate,)
    run_state_machine_as_test(
        seed(number)(EmbeddedMachine),
        settings=settings(
            max_examples=EXAMPLES_PER_ROUND,
            stateful_step_count=STEPS_PER_EXAMPLE,
            database=None,
            deadline=None,
            phases=phases,
            print_blob=False,
            suppress_health_check=list(HealthCheck),
        ),
    )


def campaign(seconds: float, first_seed: int, *, shrink: bool = True) -> int:
    """Play rounds until the time is over; return the seed after the last."""
    until = time.monotonic() + seconds
    number = first_seed
    while time.monotonic() < until:
        try:
            play(number, shrink=shrink)
        except BaseException:
            sys.stderr.write(f"seed {number} differs: --seconds 1 --seed {number} repeats it\n")
            raise
        number += 1
    return number


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-shrink", action="store_true", help="stop at the first difference")
    asked = parser.parse_args()
    last = campaign(asked.seconds, asked.seed, shrink=not asked.no_shrink)
    told = ", ".join(f"{count:,} {what}" for what, count in sorted(EmbeddedMachine.figures.items()))
    sys.stdout.write(f"seeds {asked.seed} to {last - 1}: {told}; 0 differences\n")


if __name__ == "__main__":
    main()
