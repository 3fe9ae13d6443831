"""A service under a steady load for an hour: memory, descriptors, disk and latency level off.

    python -m tests.simulation.endurance [--minutes 60] [--workers 2]

Method: the real program serves with several processes. Half a million submissions fill the memory
that its ledger is allowed, which takes a minute or two and is not judged. Then boards are made and
retired, windows turn, attributes take values that never come again, scores are submitted and read
at a steady rate (``endurance_load``). Every few seconds the resident memory and the open
descriptors of all processes, the size of the data folder and the latency are sampled and printed.
At the end each slope is told, and one that does not level off (``endurance_samples`` has the
bounds) is an error; so is a process that ended. ``--leak`` plants a leak, which must be found.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.http.clocked import Served, serving
from tests.simulation.endurance_load import FILL_SUBMISSIONS, Load, Plan
from tests.simulation.endurance_samples import (
    QUANTITIES,
    Sample,
    disk_mib,
    judge,
    open_descriptors,
    percentile,
    processes,
    resident_mib,
)
from tests.simulation.leaking import LEAK_VARIABLE, LEAKS

from rankd.client import AsyncClient

OPTIONS = ("--port", "0", "--clock-step-seconds", "2")
"""A clock that has run for two seconds is believed: until then nothing is dropped."""

HEADING = (
    f"{'time':>8}{'facts':>10}{'boards':>8}{'req/s':>8}{'503':>6}"
    f"{'MiB':>9}{'fds':>6}{'disk MiB':>10}{'p50 ms':>8}{'p99 ms':>8}"
)


class ProcessEnded(AssertionError):
    """A process of the service is another than at the start."""


@dataclass(frozen=True, slots=True)
class Run:
    """A service under load, sampled."""

    served: Served
    folder: Path
    plan: Plan
    sample_seconds: float

    async def samples(self) -> list[Sample]:
        """Load and sample until the time is over."""
        url = f"http://127.0.0.1:{self.served.port}"
        load, found = Load(url, self.plan), list[Sample]()
        await load.prepare()
        pids, loading = processes(self.served.process.pid), asyncio.create_task(load.run())
        begun = time.monotonic()
        say(HEADING)
        async with AsyncClient(url) as client:
            while (elapsed := time.monotonic() - begun) < self.plan.seconds:
                await asyncio.wait([loading], timeout=self.sample_seconds)
                if loading.done():
                    loading.result()
                found.append(await self._sample(client, load, pids, begun))
                say(shown(found[-1], time.monotonic() - begun - elapsed))
        loading.cancel()
        with suppress(asyncio.CancelledError):
            await loading
        return found

    async def _sample(
        self, client: AsyncClient, load: Load, pids: Sequence[int], begun: float
    ) -> Sample:
        if (now := processes(self.served.process.pid)) != pids:
            raise ProcessEnded(f"processes {pids} became {now}")
        position = (await client.health()).position
        tally = load.take_tally()
        return Sample(
            seconds=time.monotonic() - begun,
            facts=position,
            boards=load.boards,
            requests=len(tally.latencies),
            refused=tally.refused,
            memory=resident_mib(pids),
            descriptors=open_descriptors(pids),
            disk=disk_mib(self.folder),
            p50=percentile(tally.latencies, 0.5),
            p99=percentile(tally.latencies, 0.99),
        )


def shown(sample: Sample, seconds: float) -> str:
    """Return a row of the table."""
    minutes, rest = divmod(int(sample.seconds), 60)
    return (
        f"{f'{minutes}:{rest:02}':>8}{sample.facts:>10,}{sample.boards:>8,}"
        f"{sample.requests / seconds:>8,.0f}{sample.refused:>6,}{sample.memory:>9,.1f}"
        f"{sample.descriptors:>6}{sample.disk:>10,.1f}{sample.p50:>8.1f}{sample.p99:>8.1f}"
    )


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def options() -> argparse.Namespace:
    """Return what the command was given."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--workers", type=int, default=2, help="processes of the service")
    parser.add_argument("--boards", type=int, default=200, help="at a time")
    parser.add_argument("--players", type=int, default=200)
    parser.add_argument("--rate", type=float, default=100.0, help="requests a second")
    parser.add_argument("--window-seconds", type=int, default=60)
    parser.add_argument("--sample-seconds", type=float, default=5.0)
    parser.add_argument("--fill", type=int, default=FILL_SUBMISSIONS, help="submissions before")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--leak", choices=sorted(LEAKS), help="plant one in the service")
    named = [quantity.name for quantity in QUANTITIES]
    parser.add_argument("--only", choices=named, nargs="+", default=named, help="to be judged")
    return parser.parse_args()


def main() -> int:
    """Run, and return 1 if something does not level off."""
    given = options()
    plan = Plan(
        seconds=60 * given.minutes,
        boards=given.boards,
        players=given.players,
        rate=given.rate,
        window_seconds=given.window_seconds,
        fill=given.fill,
        seed=given.seed,
    )
    module = "tests.simulation.leaking" if given.leak else "rankd"
    planted = {LEAK_VARIABLE: given.leak} if given.leak else {}
    command = (*OPTIONS, "--workers", str(given.workers))
    with (
        tempfile.TemporaryDirectory() as home,
        serving(Path(home), *command, module=module, env=planted) as served,
    ):
        run = Run(served, Path(home) / "data", plan, given.sample_seconds)
        samples = asyncio.run(run.samples())
    verdicts = [verdict for verdict in judge(samples) if verdict.name in given.only]
    for verdict in verdicts:
        say(str(verdict))
    return 0 if all(verdict.levels_off for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
