"""Logarithms in whole numbers, as both states of rules compute them."""

from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankd.rules.oracle import bucket_of, logarithm, power_of_two
from rankd.rules.state_format import BUCKETS

LARGEST = 2**63 - 1


@given(st.integers(1, LARGEST))
def test_a_logarithm_is_rounded_down_and_its_power_back(number: int) -> None:
    power = logarithm(number)
    assert abs(log2(number) - power / 256) <= 1 / 256 + 1e-9
    assert power_of_two(power) <= number <= power_of_two(power + 1)


@pytest.mark.parametrize("whole", range(63))
def test_powers_of_two_are_exact(whole: int) -> None:
    assert logarithm(2**whole) == 256 * whole
    assert power_of_two(256 * whole) == 2**whole


def test_the_largest_number_has_the_last_bucket() -> None:
    assert bucket_of(LARGEST) == BUCKETS - 1
    assert power_of_two(logarithm(LARGEST) + 1) == LARGEST
    assert [bucket_of(number) for number in (-1, 0, 1, 2)] == [0, 0, 1, 17]
