"""Every fault once under three nodes that serve, and proof that the judge would tell.

The whole campaign is a command of its own (nodes_faults.py). Nothing here depends on when a fault
strikes: each is waited for until nodes have felt it, and what was under way is judged by what was
said of it.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from tests.simulation.nodes_faults import chosen, live
from tests.simulation.nodes_judge import Judge
from tests.simulation.nodes_load import BOARDS, Deed, Diary, Read, Told, mark, mark_of, scattered
from tests.simulation.nodes_rounds import PLAIN, Findings, Plan
from tests.simulation.nodes_strikes import FAULTS
from tests.simulation.nodes_world import Heard

from rankd.model.board import Board
from rankd.model.facts import BoardDefined, Fact, Position, Recorded, ScoreSubmitted, WindowOpened

SEED = 1
"""The same each time; what is under way when a fault strikes differs all the same."""

OF_REDIS = [name for name in FAULTS if name.startswith("redis-")]
OF_POSTGRES = [name for name in FAULTS if name.startswith("pg-")]
OF_OTHERS = [
    name for name in FAULTS if FAULTS[name].world == PLAIN and name not in OF_REDIS + OF_POSTGRES
]
OF_WORLDS = ["sentinel", "cluster-flush", "roles-kill", "spool"]
"""One of each world of its own; the rest of them takes longer, and is left to the campaign."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "faults",
    [OF_OTHERS, OF_POSTGRES, OF_REDIS, *([name] for name in OF_WORLDS)],
    ids=["others", "postgres", "redis", *OF_WORLDS],
)
def test_no_fault_makes_nodes_break_their_word(faults: list[str]) -> None:
    findings = asyncio.run(live(faults, SEED, Plan(hurried=True)))
    assert not findings.problems, "\n".join([f"seed {SEED}", *findings.problems])
    assert findings.rounds == Counter(faults)
    assert findings.tally["applied yes"] and findings.tally["reads 200"]


def test_every_fault_is_among_them_and_equally_often_in_a_campaign() -> None:
    assert (len(OF_REDIS), len(OF_POSTGRES)) == (5, 7)
    left = {"cluster-pause", "cluster-failover", "roles-flush"}
    assert {*OF_OTHERS, *OF_POSTGRES, *OF_REDIS, *OF_WORLDS, *left} == set(FAULTS)
    assert {FAULTS[name].world for name in OF_WORLDS} | {PLAIN} == {
        fault.world for fault in FAULTS.values()
    }
    assert set(Counter(chosen(3 * len(FAULTS), 1, None)).values()) == {3}
    assert chosen(2, 1, "both") == ["both", "both"]


# -------------------------------------------------------------------- the judge would tell


def judge_of(facts: Sequence[Fact]) -> Judge:
    judge = Judge(Counter())
    judge.facts.add([Recorded(Position(at), 0, fact) for at, fact in enumerate(facts, start=1)])
    return judge


def deed(number: int, *told: Told, key: str | None = None) -> Deed:
    body: dict[str, Any] = {"player": "p", "score": scattered(number), "key": key}
    return Deed(number, "sum", body, list(told))


def told(applied: Any, position: int | None = None, **more: Any) -> Told:
    receipt = None if position is None else {"position": position, "verdict": "accepted", **more}
    return Told("n0", applied, 200 if applied == "yes" else 503, 0.0, 0.0, receipt)


def fact(number: int) -> ScoreSubmitted:
    return ScoreSubmitted("sum", "p", scores=(scattered(number),))


@pytest.mark.parametrize(
    ("tries", "there", "wrong"),
    [
        (["yes"], 1, False),
        (["yes"], 0, True),
        (["yes"], 2, True),
        (["no"], 0, False),
        (["no"], 1, True),
        (["unknown"], 0, False),
        (["unknown"], 1, False),
        (["unknown"], 2, True),
        (["unknown", "no"], 1, False),
        (["no", "yes"], 0, True),
        (["unknown", "yes"], 1, False),
    ],
)
def test_what_was_said_is_compared_with_what_is_there(
    tries: list[str], there: int, wrong: bool
) -> None:
    judge = judge_of([fact(1)] * there)
    diary = Diary(deeds=[deed(1, *map(told, tries))])
    assert bool(judge.presence(diary)) is wrong


def test_a_fact_is_where_it_was_said_to_be_and_somebody_sent_it() -> None:
    facts = [fact(1), fact(2)]
    sent = [deed(1, told("yes", 1)), deed(2, told("yes", 2))]
    assert not judge_of(facts).presence(Diary(deeds=sent))
    assert judge_of(facts).presence(Diary(deeds=[sent[0], deed(2, told("yes", 1))]))
    assert judge_of(facts).presence(Diary(deeds=sent[:1]))
    spooled = deed(2, Told("n0", "yes", 202, 0.0, 0.0, {"position": None, "verdict": "accepted"}))
    assert not judge_of(facts).presence(Diary(deeds=[sent[0], spooled]))
    assert judge_of(facts[:1]).presence(Diary(deeds=[sent[0], spooled]))


def test_a_fact_is_known_by_its_mark() -> None:
    tied = Deed(7, "tied", {"player": "p"})
    said = ScoreSubmitted("tied", "p", scores=(3,), metadata=b'{"number": 7}')
    assert mark(tied) == mark_of(said)
    added = ScoreSubmitted("sum", "p", delta=scattered(3))
    assert mark(deed(3)) == mark_of(fact(3)) == mark_of(added)


LEDGER: list[Fact] = [
    BoardDefined("sum", Board.define("sum", BOARDS["sum"]).definition()),
    WindowOpened("sum", "all"),
    ScoreSubmitted("sum", "p", scores=(10,)),
    ScoreSubmitted("sum", "q", scores=(20,)),
]


def page(as_of: int, *rows: tuple[int, str, int], least: int | None = None, **more: Any) -> Read:
    standings = [{"rank": rank, "player": player, "score": score} for rank, player, score in rows]
    body = {"as_of": as_of, "stale": False, "window": "all", "total": len(rows)} | more
    body["standings"] = standings
    return Read("n0", "sum", "all", None, None, 0, least, Heard(200, body))


def absent(player: str, least: int | None) -> Read:
    return Read("n0", "sum", "all", None, player, 0, least, Heard(404, {}))


BEFORE, AFTER = [(1, "p", 10)], [(1, "q", 20), (2, "p", 10)]


@pytest.mark.parametrize(
    ("read", "wrong"),
    [
        (page(3, *BEFORE), False),
        (page(4, *AFTER), False),
        (page(4, *AFTER, least=4), False),
        (page(4, *BEFORE), True),
        (page(3, *AFTER), True),
        (page(4, *BEFORE, stale=True), True),
        (page(3, *BEFORE, total=2), True),
        (page(3, *BEFORE, least=4), True),
        (page(3, *BEFORE, least=4, stale=True), False),
        (page(5, *AFTER), True),
        (page(0), False),
        (page(0, *BEFORE), True),
        (page(3), True),
        (absent("q", 3), False),
        (absent("q", 4), True),
        (absent("q", None), False),
        (absent("q", None)._replace(floor=4), True),
        (page(3, *BEFORE)._replace(floor=3), False),
        (page(3, *BEFORE)._replace(floor=4), True),
        (page(3, *BEFORE, stale=True)._replace(floor=4), False),
    ],
)
def test_an_answer_is_compared_with_what_was_true_there(read: Read, wrong: bool) -> None:
    problems, _ = asyncio.run(judge_of(LEDGER).answers(Diary(reads=[read])))
    assert bool(problems) is wrong, problems


def test_a_receipt_is_compared_with_that_of_the_fold() -> None:
    _, scratch = asyncio.run(judge_of(LEDGER).answers(Diary()))
    assert sorted(scratch.receipts) == [3, 4]
    wrong = deed(1, told("yes", 4, verdict="counted", rank=2))
    problems, _ = asyncio.run(judge_of(LEDGER).answers(Diary(deeds=[wrong])))
    assert problems
    only_accepted = deed(1, told("yes", 4))
    problems, _ = asyncio.run(judge_of(LEDGER).answers(Diary(deeds=[only_accepted])))
    assert not problems


def test_what_is_odd_is_a_problem_and_findings_say_what_they_found() -> None:
    problems, _ = asyncio.run(judge_of(LEDGER).answers(Diary(odd=["it said 500"])))
    assert problems == ["it said 500"]
    lines = Findings(Counter(both=2), Counter({"applied yes": 3}), [0.001], [0.2]).lines()
    assert any("both" in line for line in lines) and any("median 1.0 ms" in line for line in lines)
