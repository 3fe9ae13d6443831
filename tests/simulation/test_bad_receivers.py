"""Webhooks against receivers that fail, hang, lie and come back; the campaign is a command."""

import asyncio

import pytest
from tests.simulation.bad_receivers import Findings, _compare, live


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_no_event_is_lost_or_out_of_order_whatever_the_receiver_does() -> None:
    findings = asyncio.run(live(15, seed=3))
    assert findings.problems == []
    assert findings.posts > findings.events > 100
    assert len(findings.answers) > 3 and findings.crashes


@pytest.mark.parametrize(
    ("arrived", "problem"),
    [
        ([("a", b"1"), ("c", b"3")], "lost"),
        ([("b", b"2"), ("a", b"1"), ("c", b"3")], "out of order"),
        ([("a", b"1"), ("b", b"2"), ("a", b"x"), ("c", b"3")], "two bodies"),
        ([("a", b"1"), ("b", b"2"), ("c", b"3"), ("d", b"4")], "never were"),
    ],
)
def test_the_comparison_tells_what_is_wrong(arrived: list[tuple[str, bytes]], problem: str) -> None:
    findings = Findings()
    _compare(["a", "b", "c"], arrived, findings)
    assert problem in findings.problems[0]
    again = Findings()
    _compare(["a", "b"], [("a", b"1"), ("a", b"1"), ("b", b"2"), ("a", b"1")], again)
    assert again.problems == []
