"""What handlers work with."""

from dataclasses import replace

import pytest
from tests.unit.api.handling import working

from rankd.api.context import show_time


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize(
    ("instant", "shown"),
    [
        (None, None),
        (0, "1970-01-01T00:00:00Z"),
        (1, "1970-01-01T00:00:00.000001Z"),
        (1_794_830_400_000_000, "2026-11-16T12:00:00Z"),
        (1_794_830_399_999_999, "2026-11-16T11:59:59.999999Z"),
        (1_794_830_400_120_000, "2026-11-16T12:00:00.120000Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
        (-62_135_596_800_000_000, "0001-01-01T00:00:00Z"),
        (-62_135_596_800_000_001, None),
        (253_402_300_800_000_000, None),
    ],
)
def test_a_time_is_shown_to_the_microsecond_where_it_has_any(
    instant: int | None, shown: str | None
) -> None:
    assert show_time(instant) == shown


@pytest.mark.anyio
async def test_a_service_without_an_engine_does_not_write() -> None:
    async with working() as at:
        assert at.service.writer is at.service.engine
        with pytest.raises(AssertionError):
            _ = replace(at.service, engine=None).writer
