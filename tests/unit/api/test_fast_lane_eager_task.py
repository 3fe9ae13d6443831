"""A handler on a drive sees what it would see in a task."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from rankd.api.fast_lane import EagerTask


def drive(
    coroutine: Callable[[], Coroutine[Any, Any, Any]],
    meanwhile: Callable[[EagerTask], object] | None = None,
) -> tuple[EagerTask, bool]:
    """Run to the end; return the drive, and whether it was done at once."""

    async def to_the_end() -> tuple[EagerTask, bool]:
        loop = asyncio.get_running_loop()
        made, ended, started = EagerTask(loop), loop.create_future(), loop.create_future()

        def begin() -> None:  # By the loop, as a protocol is called: outside of any task.
            made.on_done = lambda _: ended.set_result(None)
            at_once = made.start(coroutine())
            if not at_once and meanwhile is not None:
                meanwhile(made)
            started.set_result(at_once)

        loop.call_soon(begin)
        at_once = await started
        if not at_once:
            await ended
        return made, at_once

    return asyncio.run(to_the_end())


async def quick() -> int:
    return 5


async def turning() -> int:
    await asyncio.sleep(0)
    await asyncio.sleep(0.001)
    return 6


async def nested() -> int:
    return await asyncio.create_task(turning()) + await turning()


async def in_a_group() -> int:
    async with asyncio.TaskGroup() as group:
        one = group.create_task(turning())
        two = group.create_task(turning())
    return one.result() + two.result()


async def out_of_time() -> str:
    try:
        async with asyncio.timeout(0.001):
            await asyncio.get_running_loop().create_future()
    except TimeoutError:
        return "out of time"
    return "never"


async def in_time() -> int:
    return await asyncio.wait_for(turning(), 60)


async def waits_for_ever() -> None:
    await asyncio.get_running_loop().create_future()


@pytest.mark.parametrize(
    ("coroutine", "result", "at_once"),
    [
        (quick, 5, True),
        (turning, 6, False),
        (nested, 12, False),
        (in_a_group, 12, False),
        (out_of_time, "out of time", False),
        (in_time, 6, False),
    ],
)
def test_a_coroutine_runs_to_its_end(
    coroutine: Callable[[], Coroutine[Any, Any, Any]], result: object, at_once: bool
) -> None:
    made, was_at_once = drive(coroutine)
    assert (made.result, made.error, was_at_once) == (result, None, at_once)


def test_it_is_the_current_task_while_it_runs_and_not_afterwards() -> None:
    seen: list[Any] = []

    async def look() -> None:
        seen.append(asyncio.current_task())
        await asyncio.sleep(0)
        seen.append(asyncio.current_task())

    made, _ = drive(look, meanwhile=lambda _: seen.append(asyncio.current_task()))
    assert seen == [made, None, made]


@pytest.mark.parametrize("later", [False, True])
def test_an_error_is_kept_for_whoever_answers(later: bool) -> None:
    async def fail() -> None:
        if later:
            await asyncio.sleep(0)
        raise LookupError

    made, at_once = drive(fail)
    assert isinstance(made.error, LookupError) and at_once is not later


def test_the_error_of_a_future_is_raised_where_it_is_awaited() -> None:
    async def wait() -> str:
        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.set_exception, LookupError())
        try:
            await future
        except LookupError:
            return "caught"
        return "missed"

    assert drive(wait)[0].result == "caught"


def test_cancelling_ends_what_waits() -> None:
    made, _ = drive(waits_for_ever, meanwhile=lambda one: one.cancel())
    assert isinstance(made.error, asyncio.CancelledError)


def test_cancelling_between_two_waits_ends_the_next() -> None:
    async def turn_then_wait() -> None:
        await asyncio.sleep(0)
        await waits_for_ever()

    made, _ = drive(turn_then_wait, meanwhile=lambda one: one.cancel())
    assert isinstance(made.error, asyncio.CancelledError)
