"""A short run of the simulation of clocks that step."""

import pytest
from tests.simulation.clock_steps import run


@pytest.mark.timeout(120)
@pytest.mark.parametrize("nodes", [1, 3])
def test_steps_of_clocks_move_no_window(nodes: int) -> None:
    found = run(steps=40, nodes=nodes, seed=1)
    assert (found.moved, found.scores) == (0, 80)
