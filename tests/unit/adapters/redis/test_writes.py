"""What an apply is known by: nodes that make the same one must agree on it."""

from dataclasses import replace

from rankd.adapters.redis.writes import ApplyRequest
from rankd.ports import Move, Ranking, RankingShape

ALL, EU = Ranking("b", "all"), Ranking("b", "all", "region:eu")
YESTERDAY = Ranking("b", "daily:2026-11-14")
WORK = ApplyRequest(
    moves=[Move(ALL, "ann", bytes(16)), Move(EU, "ann", bytes(16)), Move(ALL, "bob", None)],
    opened={EU: RankingShape(16, dense=False)},
    dropped=[YESTERDAY],
    adopted={},
)


def test_a_node_of_another_version_knows_an_apply_by_the_same_mark() -> None:
    """What one of them began, the other must be able to end."""
    assert WORK.mark() == "d4bd59feafe9918a"


def test_what_does_something_else_has_another_mark() -> None:
    others = [
        replace(WORK, moves=WORK.moves[:2]),
        replace(WORK, moves=[*WORK.moves[:2], Move(EU, "bob", None)]),
        replace(WORK, opened={ALL: RankingShape(16, dense=False)}),
        replace(WORK, dropped=[ALL]),
        replace(WORK, adopted={YESTERDAY: ALL}),
    ]
    assert len({WORK.mark(), *(other.mark() for other in others)}) == 6
