"""Both lanes say the same, byte for byte, however a request is cut into reads."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

import pytest
from tests.http.corpus import CORPUS
from tests.http.wire import Side, statuses, without_what_varies

from rankd.api.server import new_event_loop

T = TypeVar("T")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    async def within_reason() -> T:
        async with asyncio.timeout(100):  # Nothing here waits; a hang becomes a failure.
            return await coroutine

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(within_reason())


async def answer(side: Side, pieces: Iterable[bytes]) -> bytes:
    return without_what_varies(await side.talk(pieces))


@pytest.mark.parametrize("name", CORPUS)
def test_both_lanes_answer_alike_and_as_expected(name: str) -> None:
    async def compare() -> None:
        entry = CORPUS[name]
        fast = await answer(Side(fast=True), [entry.sent])
        other = await answer(Side(fast=False), [entry.sent])
        assert fast == other
        assert statuses(fast, heads=entry.heads) == entry.statuses

    run(compare())


@pytest.mark.parametrize("name", CORPUS)
def test_an_answer_does_not_depend_on_how_the_request_was_cut(name: str) -> None:
    async def compare() -> None:
        entry = CORPUS[name]
        fast, other = Side(fast=True), Side(fast=False)
        whole = await answer(fast, [entry.sent])
        for side in (fast, other):
            for cut in range(1, len(entry.sent)):
                halves = [entry.sent[:cut], entry.sent[cut:]]
                assert await answer(side, halves) == whole, (side.settings.fast_lane, cut)
            assert await answer(side, [bytes([byte]) for byte in entry.sent]) == whole

    run(compare())
