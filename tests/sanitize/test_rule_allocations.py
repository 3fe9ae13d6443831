"""Memory that runs out changes no state of rules, whichever allocation is refused."""

import gc
from array import array
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.standins import NO_NATIVE_PART, PURE, native_part
from tests.unit.rules.conftest import Declared
from tests.unit.rules.test_native import ALL, content

if PURE:
    pytest.skip(NO_NATIVE_PART, allow_module_level=True)

native = native_part("rankd.rules._native")


@pytest.fixture(autouse=True)
def _no_refusal_is_left_over() -> Iterator[None]:
    yield
    native.fail_allocation(0)


def state_of(count: int) -> Any:
    state = native.RuleState([Declared(*rule) for rule in ALL], "best", True)
    submit(state, 0, count)
    return state


def submit(state: Any, first: int, count: int) -> None:
    players = [f"{'long ' * (number % 7)}{number}" for number in range(first, first + count)]
    scores = array("q", [900 + number % 300 for number in range(count)])
    state.judge(players, scores, None, array("q", range(count)))


def try_every_refusal(make: Callable[[], Any], operation: Callable[[Any], Any]) -> int:
    """Refuse each allocation in turn; return how many there were."""
    gc.collect()
    at_first = native.bytes_in_use()
    made = make()
    before = native.allocations()
    operation(made)
    count: int = native.allocations() - before
    expected = content(made)
    del made
    for k in range(1, count + 1):
        refuse(k, make(), operation, expected)
    gc.collect()
    assert native.bytes_in_use() == at_first, "something was leaked"
    return count


def refuse(k: int, made: Any, operation: Callable[[Any], Any], expected: Any) -> None:
    before = content(made)
    native.fail_allocation(k)
    try:
        operation(made)
    except MemoryError:
        native.fail_allocation(0)
        made.check()
        assert content(made) == before, f"refusal {k} changed something"
        operation(made)
    native.fail_allocation(0)
    made.check()
    assert content(made) == expected


@pytest.mark.parametrize("count", [0, 1, 16, 300])
@pytest.mark.parametrize("more", [1, 40, 700])
def test_judging(count: int, more: int) -> None:
    """New players and known ones; some of them break a rule, which takes memory too."""
    allocated = try_every_refusal(
        lambda: state_of(count), lambda state: submit(state, count // 2, more)
    )
    assert allocated >= 1


def test_judging_and_forgetting_after_a_savepoint() -> None:
    def saved() -> Any:
        state = state_of(50)
        state.savepoint()
        submit(state, 20, 40)
        state.forget("20")
        return state

    try_every_refusal(saved, lambda state: submit(state, 10, 200))
    try_every_refusal(saved, lambda state: [state.forget(f"{n}") for n in range(0, 50, 7)])


def test_going_back_needs_no_memory() -> None:
    for end in ("rollback", "release"):
        state = state_of(50)
        before = content(state)
        state.savepoint()
        submit(state, 20, 500)
        state.forget("21")
        native.fail_allocation(1)  # Slots that are given back may be moved first, but need not be.
        getattr(state, end)()
        native.fail_allocation(0)
        state.check()
        assert (content(state) == before) is (end == "rollback")


@pytest.mark.parametrize("count", [1, 20, 600])
def test_copies(count: int) -> None:
    data = state_of(count).save()
    try_every_refusal(lambda: state_of(0), lambda state: state.load(data))
    copies: list[Callable[[Any], Any]] = [
        lambda state: state.copy(),
        lambda state: state.redefined([Declared(*rule) for rule in ALL]),
    ]
    for copy in copies:
        assert try_every_refusal(lambda: state_of(count), copy) >= 3
