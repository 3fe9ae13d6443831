"""A short run of hostile clients, all kinds of them, beside healthy ones."""

from pathlib import Path

import pytest
from tests.http.hostile import WAYS, attack


@pytest.mark.timeout(180)
def test_hostile_clients_are_shut_out_and_healthy_ones_served(tmp_path: Path) -> None:
    found = attack(tmp_path, clients=6 * len(WAYS), rounds=1)
    assert found.shut_out == {way.__name__: 6 for way in WAYS}
    assert found.healthy.served > 0
