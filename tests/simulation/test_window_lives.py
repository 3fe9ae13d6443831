"""A short run of the simulation of windows' lives."""

import asyncio

import pytest
from tests.simulation.window_lives import ZONES, simulate


@pytest.mark.timeout(300)
def test_each_score_counts_once_and_each_step_is_taken_once() -> None:
    found = asyncio.run(simulate(years=len(ZONES), seed=1))
    assert found.scores > 250
    assert found.races > 50
