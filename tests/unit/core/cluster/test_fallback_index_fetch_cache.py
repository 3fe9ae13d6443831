"""What was fetched is kept for a moment: one fetches for many, and nothing grows without end."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rankd.core.cluster import fallback_index
from rankd.core.cluster.fallback_index import FetchCache
from rankd.errors import IndexUnavailable, LedgerUnavailable

pytestmark = pytest.mark.anyio


class Source:
    """Where values are fetched from; each time another one."""

    def __init__(self) -> None:
        self.asked = 0
        self.most_at_once = 0
        self._at_once = 0
        self.failure: Exception | None = None
        self.open = asyncio.Event()
        self.open.set()

    async def fetch(self) -> int:
        self.asked += 1
        asked = self.asked
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            await self.open.wait()
            if self.failure is not None:
                raise self.failure
            return asked
        finally:
            self._at_once -= 1


async def get(
    known: FetchCache,
    key: object,
    fetch: Callable[[], Awaitable[Any]],
    *,
    weight: int = 0,
    lasts: bool = False,
) -> Any:
    return await known.get(key, fetch, weigh=lambda _: weight, lasts=lambda _: lasts)


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def forgets_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fallback_index, "MOMENT_SECONDS", 0.0)


@pytest.fixture
def never_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fallback_index, "MOMENT_SECONDS", 3_600.0)


@pytest.mark.usefixtures("never_forgets")
async def test_of_many_who_ask_at_once_one_fetches(source: Source) -> None:
    known = FetchCache()
    source.open.clear()
    asking = [asyncio.create_task(get(known, "a", source.fetch)) for _ in range(100)]
    await asyncio.sleep(0)
    source.open.set()
    assert len(set(await asyncio.gather(*asking))) <= fallback_index.FETCHES_AT_ONCE
    assert source.asked <= fallback_index.FETCHES_AT_ONCE
    before = source.asked
    assert await get(known, "a", source.fetch) in range(1, before + 1)
    assert source.asked == before


@pytest.mark.usefixtures("forgets_at_once")
async def test_what_may_change_is_fetched_again_and_what_lasts_is_not(source: Source) -> None:
    known = FetchCache()
    assert [await get(known, "a", source.fetch) for _ in range(3)] == [1, 2, 3]
    assert [await get(known, "b", source.fetch, lasts=True) for _ in range(3)] == [4, 4, 4]


@pytest.mark.usefixtures("forgets_at_once")
async def test_few_fetch_at_once_and_not_too_many_wait(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fallback_index, "WAITING_MAX", 10)
    known = FetchCache()
    source.open.clear()
    asking = [asyncio.create_task(get(known, key, source.fetch)) for key in range(10)]
    await asyncio.sleep(0)
    with pytest.raises(IndexUnavailable, match="too many"):
        await get(known, "one more", source.fetch)
    source.open.set()
    await asyncio.gather(*asking)
    assert source.most_at_once == fallback_index.FETCHES_AT_ONCE
    assert await get(known, "one more", source.fetch) == 11


@pytest.mark.usefixtures("never_forgets")
async def test_a_failure_is_found_out_by_one(source: Source) -> None:
    known = FetchCache()
    source.failure = LedgerUnavailable("gone", applied="no")
    for _ in range(5):
        with pytest.raises(IndexUnavailable, match="so is what is kept of it: gone"):
            await get(known, "a", source.fetch)
    assert source.asked == 1


@pytest.mark.usefixtures("forgets_at_once")
async def test_what_was_known_last_is_better_than_nothing(source: Source) -> None:
    known = FetchCache()
    assert await get(known, "a", source.fetch) == 1
    source.failure = LedgerUnavailable("gone", applied="no")
    assert await get(known, "a", source.fetch) == 1
    source.failure = None
    assert await get(known, "a", source.fetch) == 3


@pytest.mark.usefixtures("forgets_at_once")
async def test_a_fetch_that_takes_too_long_is_given_up(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fallback_index, "FETCH_SECONDS_MAX", 0.001)
    known = FetchCache()
    source.open.clear()
    with pytest.raises(IndexUnavailable, match="took too long"):
        await get(known, "a", source.fetch)


@pytest.mark.usefixtures("never_forgets")
async def test_it_holds_so_much_and_forgets_what_was_asked_for_longest_ago(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fallback_index, "WEIGHT_MAX", 30)
    known = FetchCache()
    for key in ("a", "b", "c"):
        await get(known, key, source.fetch, weight=9)
    assert await get(known, "a", source.fetch) == 1
    await get(known, "d", source.fetch, weight=9)
    assert await get(known, "a", source.fetch) == 1
    assert await get(known, "b", source.fetch, weight=9) == 5
    assert await get(known, "large", source.fetch, weight=99) == 6
    assert await get(known, "large", source.fetch, weight=99) == 6
    assert await get(known, "a", source.fetch) == 7
