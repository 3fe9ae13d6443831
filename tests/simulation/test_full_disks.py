"""A disk that fills and empties under load: no answer is wrong, and scores are taken again."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from tests.disks import mounted
from tests.simulation.full_disks import hurried, injected_disk, mounted_disk, simulate

pytestmark = pytest.mark.anyio
STRIKES = 25


@pytest.fixture(autouse=True)
def _hurried() -> Iterator[None]:
    with hurried():
        yield


@pytest.mark.parametrize("seed", range(2))
async def test_no_answer_is_wrong_while_a_disk_fills_and_empties(scratch: Path, seed: int) -> None:
    with mounted(mounted_disk(scratch)) as disk:
        told, problems = await simulate(disk, strikes=STRIKES, seed=seed)
    assert not problems
    assert told["yes"] > told["unknown"] > 0 and told["no"]


@pytest.mark.parametrize("seed", range(2))
async def test_no_answer_is_wrong_while_a_disk_fails_now_and_then(scratch: Path, seed: int) -> None:
    with injected_disk(scratch, Random(seed)) as disk:
        told, problems = await simulate(disk, strikes=STRIKES, seed=seed)
    assert not problems
    assert told["yes"] > told["unknown"] > 0 and told["no"]
