"""Histories of a prize board on three nodes, and proof that the check finds what is wrong."""

import asyncio
import random
from collections.abc import Callable
from copy import deepcopy

import pytest
from tests.simulation.linearizability import Plan, live
from tests.simulation.linearizability_check import (
    History,
    LedgerWrite,
    Read,
    Row,
    Write,
    violations,
)


def made_up(seed: int, calls: int = 60) -> History:
    """Return a history in which every call took place in a moment between its start and end."""
    dice = random.Random(seed)
    history, sums, reached, position = History([], [], []), dict[str, int](), dict[str, int](), 0
    for number in range(calls):
        start, end = 10 * number - dice.randrange(40), 10 * number + 1 + dice.randrange(40)
        if number == 0 or dice.random() < 0.5:
            position += dice.randrange(1, 3)
            player, delta = dice.choice("abcd"), dice.randrange(1, 9)
            sums[player] = sums.get(player, 0) + delta
            reached[player] = position
            write = Write(f"k{number}", player, delta, start, end, "done", position, sums[player])
            if dice.random() < 0.2:
                write.outcome, write.position, write.end = "unknown", 0, 0
            history.writes.append(write)
            history.ledger.append(LedgerWrite(position, write.key, player, delta))
            continue
        order = sorted(sums, key=lambda one: (-sums[one], reached[one]))
        rows = [Row(rank, one, sums[one]) for rank, one in enumerate(order, 1)]
        asked = dice.choice([None, *order])
        shown = [row for row in rows if asked in (None, row.player)]
        history.reads.append(Read(start, end, position, len(rows), shown, asked))
    return history


@pytest.mark.parametrize("seed", range(20))
def test_a_history_of_moments_is_right(seed: int) -> None:
    assert violations(made_up(seed)) == []


def stale_read(history: History) -> None:
    """The last read shows what an earlier one did."""
    early, late = history.reads[0], history.reads[-1]
    late.position, late.total, late.rows = early.position, early.total, early.rows
    late.player = early.player


def lost_write(history: History) -> None:
    gone = next(one for one in history.writes if one.outcome == "done")
    history.ledger = [one for one in history.ledger if one.key != gone.key]


def write_out_of_time(history: History) -> None:
    """A write takes its place before one that had ended long before."""
    first = next(one for one in history.writes if one.outcome == "done")
    last = next(one for one in reversed(history.writes) if one.outcome == "done")
    first.start, first.end = last.end + 1000, last.end + 1001


def read_of_the_future(history: History) -> None:
    last = history.reads[-1]
    last.start, last.end = -2000, -1999


def write_twice(history: History) -> None:
    first = history.ledger[0]
    history.ledger.append(first._replace(position=history.ledger[-1].position + 1))


def refused_and_there(history: History) -> None:
    history.writes[0].outcome = "refused"


def wrong_rank(history: History) -> None:
    read = next(one for one in history.reads if one.player is not None)
    read.rows = [row._replace(rank=row.rank + 1) for row in read.rows]


def wrong_answer_to_a_write(history: History) -> None:
    next(one for one in history.writes if one.outcome == "done").score += 1


def unsent_write(history: History) -> None:
    history.ledger.append(LedgerWrite(10_000, "nobody", "a", 1))


PLANTED = [
    stale_read,
    lost_write,
    write_out_of_time,
    read_of_the_future,
    write_twice,
    refused_and_there,
    wrong_rank,
    wrong_answer_to_a_write,
    unsent_write,
]


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
@pytest.mark.parametrize("seed", range(5))
def test_a_planted_violation_is_found(plant: Callable[[History], None], seed: int) -> None:
    history = deepcopy(made_up(seed))
    plant(history)
    assert violations(history)


@pytest.mark.servers
@pytest.mark.timeout(300)
def test_a_prize_board_on_three_nodes_is_linearizable_under_faults() -> None:
    plan = Plan(histories=1, operations=300, clients=8, seed=1, faults=("kill", "pause", "cut"))
    findings = asyncio.run(live(plan))
    assert findings.problems == []
    assert findings.writes and findings.reads and set(findings.struck) == {"kill", "pause", "cut"}
