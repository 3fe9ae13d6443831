"""A short run of the endurance command, and proof that it tells when something leaks."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.simulation.endurance_samples import (
    DISK_BYTES_PER_FACT_MAX,
    MIB,
    SAMPLES_MIN,
    Sample,
    judge,
    percentile,
)
from tests.simulation.leaking import LEAKS

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 110
SMALL = {
    "boards": "10",
    "players": "50",
    "rate": "50",
    "fill": "1000",
    "window-seconds": "2",
    "sample-seconds": "0.5",
}
STEADY = Sample(
    seconds=0.0,
    facts=0,
    boards=200,
    requests=500,
    refused=0,
    memory=100.0,
    descriptors=60,
    disk=10.0,
    p50=1.0,
    p99=10.0,
)


def run(*options: str) -> subprocess.CompletedProcess[str]:
    """Run the command at a small size. Latency is left out: it is the machine's as well."""
    small = [word for name, value in SMALL.items() for word in (f"--{name}", value)]
    judged = ("--only", "memory", "descriptors", "disk")
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation.endurance", *small, *judged, *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def test_a_service_levels_off() -> None:
    done = run("--minutes", "0.3")
    assert done.returncode == 0, done.stdout + done.stderr
    heading, *rows = done.stdout.splitlines()
    assert heading.split()[:3] == ["time", "facts", "boards"]
    table, told = rows[:-3], [row.split()[0] for row in rows[-3:]]
    assert told == ["memory", "descriptors", "disk"]
    assert len(table) >= SAMPLES_MIN
    assert int(table[-1].split()[2]) > int(SMALL["boards"]), "some boards were replaced"


@pytest.mark.parametrize("leak", sorted(LEAKS))
def test_a_planted_leak_is_found(leak: str) -> None:
    done = run("--minutes", "0.15", "--leak", leak)
    assert done.returncode == 1, done.stdout + done.stderr
    (found,) = [line for line in done.stdout.splitlines() if "DOES NOT LEVEL OFF" in line]
    assert found.split()[0] == leak


# ------------------------------------------------------------------------------ judging


def series(change: Callable[[Sample, int], Sample]) -> list[Sample]:
    """Return an hour of samples, each changed by its number."""
    return [change(replace(STEADY, seconds=36.0 * number), number) for number in range(100)]


def failing(samples: list[Sample]) -> set[str]:
    return {verdict.name for verdict in judge(samples) if not verdict.levels_off}


def test_steady_values_and_values_that_fall_level_off() -> None:
    assert failing(series(lambda sample, _: sample)) == set()
    assert failing(series(lambda s, n: replace(s, memory=300.0 - n, p99=300.0 - n))) == set()


def test_growth_in_the_first_half_is_no_leak() -> None:
    def warm_up(sample: Sample, number: int) -> Sample:
        grown = min(number, 45)
        return replace(
            sample, memory=50.0 + grown, descriptors=10 + grown, p50=float(grown), disk=grown
        )

    assert failing(series(warm_up)) == set()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("memory", lambda s, n: replace(s, memory=100 + 0.4 * n)),
        ("descriptors", lambda s, n: replace(s, descriptors=60 + n // 4)),
        ("disk", lambda s, n: replace(s, disk=10 + n)),
        ("p50", lambda s, n: replace(s, p50=1 + 0.3 * n)),
        ("p99", lambda s, n: replace(s, p99=10 + 4.0 * n)),
    ],
)
def test_growth_without_end_is_told(name: str, change: Callable[[Sample, int], Sample]) -> None:
    assert failing(series(change)) == {name}


def test_disk_may_grow_with_facts_and_no_faster() -> None:
    def grow(bytes_per_fact: int) -> Callable[[Sample, int], Sample]:
        return lambda s, n: replace(s, facts=1_000 * n, disk=10 + 1_000 * n * bytes_per_fact / MIB)

    assert failing(series(grow(DISK_BYTES_PER_FACT_MAX))) == set()
    assert failing(series(grow(2 * DISK_BYTES_PER_FACT_MAX))) == {"disk"}


def test_slopes_are_per_hour() -> None:
    verdicts = {verdict.name: verdict for verdict in judge(series(lambda s, n: replace(s, disk=n)))}
    assert verdicts["disk"].slope == pytest.approx(100.0)
    assert verdicts["disk"].growth == pytest.approx(49.0)
    assert "+100.0 MiB/h" in str(verdicts["disk"])


def test_too_few_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="samples"):
        judge(series(lambda sample, _: sample)[: SAMPLES_MIN - 1])


def test_percentiles() -> None:
    values = [float(number) for number in range(100)]
    assert (percentile(values, 0.5), percentile(values, 0.99)) == (50.0, 99.0)
    assert (percentile([3.0], 0.99), percentile([], 0.5)) == (3.0, 0.0)
