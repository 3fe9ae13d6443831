"""Places: what is named together is refused where the parts do not fit."""

import pytest

from rankd.bootstrap import EngineConfig
from rankd.errors import InvalidSetting
from rankd.settings import Settings


@pytest.mark.parametrize("index", ["redis://cache", "redis+cluster://cache"])
def test_workers_are_refused_over_a_shared_index(index: str) -> None:
    """Each would keep an index of its own, and never ask the shared one."""
    with pytest.raises(InvalidSetting, match="start several nodes instead") as refused:
        EngineConfig.chosen(Settings(index=index, workers=2))
    assert refused.value.setting == "workers"
    assert EngineConfig.chosen(Settings(index=index, workers=1)).index == index
    assert EngineConfig.chosen(Settings(workers=2)).index == "native"


def test_how_large_an_index_is_made_in_memory_is_a_setting() -> None:
    assert EngineConfig.chosen(Settings(filled_entries_max=7)).filled_entries_max == 7
    assert EngineConfig.chosen(Settings(segment_values_max=7)).segment_values_max == 7


def test_an_index_that_there_is_not_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="or a URL of redis://"):
        EngineConfig.chosen(Settings(ledger="postgresql://db", index="memcached://cache"))
