"""The HTTP API against its model, for as long as there is time.

    python -m tests.http.api_campaign --seconds 600 --seed 1 --workers 2
    python -m tests.http.api_campaign --backend postgres+redis --nodes 3

Each round has a seed of its own, counted up from the one given; a failing one is printed with what
leads to it, and is repeated by giving its seed and a second. One worker is a service in this
process; more are real processes, to each of which some connections lead. With a backend, the ledger
is in PostgreSQL, and the requests are spread over the nodes.
"""

import argparse
import sys
import time

from tests.http.backends import INDEXES, Backend, Servers
from tests.http.test_api_model import ApiMachine, SlowLaneMachine, WorkersMachine, play
from tests.http.test_backends import machine_over

EXAMPLES_PER_ROUND = 5
STEPS_PER_EXAMPLE = 50


def machine_for(workers: int, *, fast_lane: bool) -> type[ApiMachine]:
    """Return the machine that serves in this way."""
    if workers > 1:
        return type("ManyMachine", (WorkersMachine,), {"processes": workers})
    return ApiMachine if fast_lane else SlowLaneMachine


def campaign(machine: type[ApiMachine], seconds: float, first: int, *, shrink: bool) -> int:
    """Play rounds until the time is over; return the seed after the last."""
    until = time.monotonic() + seconds
    number = first
    while time.monotonic() < until:
        try:
            play(
                machine,
                number,
                examples=EXAMPLES_PER_ROUND,
                steps=STEPS_PER_EXAMPLE,
                shrink=shrink,
            )
        except BaseException:
            sys.stderr.write(f"seed {number} differs: --seconds 1 --seed {number} repeats it\n")
            raise
        number += 1
    return number


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--no-fast-lane", action="store_true")
    parser.add_argument("--backend", choices=[f"postgres+{index}" for index in INDEXES])
    parser.add_argument("--nodes", type=int, default=1, help="of a backend")
    parser.add_argument("--no-shrink", action="store_true", help="stop at the first difference")
    asked = parser.parse_args()
    with Servers() as servers:
        if asked.backend is None:
            machine = machine_for(asked.workers, fast_lane=not asked.no_fast_lane)
        else:
            index = asked.backend.removeprefix("postgres+")
            backend = Backend(index=index, nodes=asked.nodes, workers=asked.workers)
            machine = machine_over(backend, servers)
        last = campaign(machine, asked.seconds, asked.seed, shrink=not asked.no_shrink)
    told = ", ".join(f"{count:,} {what}" for what, count in sorted(machine.figures.items()))
    sys.stdout.write(f"seeds {asked.seed} to {last - 1}: {told}; 0 differences\n")


if __name__ == "__main__":
    main()
