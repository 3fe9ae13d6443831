"""Redis, PostgreSQL, the network and nodes themselves fail under several nodes that serve.

    python -m tests.simulation.nodes_faults [--rounds N] [--seed S] [--fault NAME] [--source FOLDER]

Three nodes over one ledger in PostgreSQL: two share an index in Redis, one of them keeping a copy,
and the third has an index of its own. Clients submit, repeat and read all the time, and in each
round (nodes_rounds.py) one fault strikes in the middle of it (nodes_strikes.py). Then, with no node
started again but the one that was killed, everything is judged (nodes_judge.py): acknowledged means
there once, refused means absent, unknown means either; a key that is sent again to every node gets
one answer; every answer was true as of the position it named; every node's standings, and the
digest of what is in Redis, are those of a fold from scratch; the hash chain holds.

Where PostgreSQL is lost, or only says nothing any more, it is judged besides how soon nodes say so,
and that whoever is refused from then on is refused within 250 ms.

Some faults have a world of their own: three nodes that all share a Redis behind sentinels, which
falls back to a replica that lagged, or a cluster of three, of which one part fails; nodes whose
roles are apart; nodes that spool while PostgreSQL is away.

``--source`` has the nodes run another copy of the program: one with a planted bug, for instance.
A round is made from the seed; what is under way when its fault strikes depends on the machine too.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from tests.simulation.nodes_rounds import Findings, Plan, World, world_of
from tests.simulation.nodes_strikes import FAULTS
from tests.simulation.nodes_world import SOURCE, TooLate
from tests.simulation.postgres_faults import machine

from rankd.errors import RankdError

FACTS_MAX = 40_000
"""A ledger is begun anew when it has so many: else each round would take longer than the last."""


async def live(
    faults: Sequence[str],
    seed: int,
    plan: Plan,
    *,
    say: Callable[[str], None] = lambda _: None,
) -> Findings:
    """Live through these faults, one after another, until something is wrong."""
    findings, random, left = Findings(), Random(seed), list(faults)
    with machine() as postgres:
        while left and not findings.problems:
            try:
                async with world_of(
                    postgres, findings, random, plan, kind=FAULTS[left[0]].world
                ) as world:
                    await _live_in(world, left, say)
                    findings.problems += await world.converge()
            except (TooLate, RankdError) as exc:
                findings.problems.append(f"{left[:1]}: {exc!r}")
    return findings


async def _live_in(world: World, left: list[str], say: Callable[[str], None]) -> None:
    """Go through faults as long as they are for this world, and take them from the list."""
    while left and not world.findings.problems:
        if FAULTS[left[0]].world != world.kind:
            return
        begun = time.monotonic()
        await world.round(left[0], FAULTS[left[0]])
        fault = left.pop(0)
        facts, taken = len(world.judge.facts.all), time.monotonic() - begun
        say(f"{sum(world.findings.rounds.values())} {fault}: {taken:.1f} s, {facts:,} facts")
        if FAULTS[fault].once or facts > FACTS_MAX:
            return


def chosen(rounds: int, seed: int, fault: str | None) -> list[str]:
    """Return the faults of a campaign: each as often as every other, in any order."""
    random = Random(f"{seed}/order")
    faults: list[str] = []
    while len(faults) < rounds:
        some = list(FAULTS) if fault is None else [fault]
        random.shuffle(some)
        faults += some
    return faults[:rounds]


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(args: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=2 * len(FAULTS))
    parser.add_argument("--seed", type=int, default=time.time_ns() & 0xFFFF_FFFF)
    parser.add_argument("--fault", choices=sorted(FAULTS))
    parser.add_argument("--source", type=Path, default=SOURCE)
    given: Any = parser.parse_args(args)
    only = f" --fault {given.fault}" if given.fault else ""
    command = f"python -m tests.simulation.nodes_faults --rounds {given.rounds} --seed {given.seed}"
    _say(command + only)
    begun = time.monotonic()
    faults = chosen(given.rounds, given.seed, given.fault)
    plan = Plan(given.source)
    findings = asyncio.run(live(faults, given.seed, plan, say=_say))
    for line in findings.lines():
        _say(line)
    for problem in findings.problems[:20]:
        _say(f"  seed {given.seed}: {problem}")
    _say(
        f"{sum(findings.rounds.values())} rounds in {time.monotonic() - begun:.0f} s: "
        f"{len(findings.problems)} problems"
    )
    return 1 if findings.problems else 0


if __name__ == "__main__":
    sys.exit(main())
