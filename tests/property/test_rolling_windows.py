"""Rolling windows are what a judge makes of the ledger by brute force.

Method: see rolling_games.py. A commit plays some games in one process, and a few on two nodes with
an index each, with one that they share, and with one in Redis. RANKD_HYPOTHESIS=long plays more;
the campaign is a command of its own.
"""

import os

import pytest
from tests.property.rolling_games import in_memory, in_redis, on_nodes, simulate

from rankd.core import fold
from rankd.core.rolling_draft import RollingDraft
from rankd.testing.servers import RedisServer

LONG = os.environ.get("RANKD_HYPOTHESIS") == "long"
GAMES, GAMES_ON_NODES = (400, 40) if LONG else (10, 2)

pytestmark = pytest.mark.timeout(3_600 if LONG else 300)


def test_games_in_one_process_are_as_the_judge_says() -> None:
    assert simulate(GAMES, 0, in_memory).windows > GAMES


def test_games_on_two_nodes_are_as_the_judge_says() -> None:
    assert simulate(GAMES_ON_NODES, 100, on_nodes).windows > GAMES_ON_NODES


def test_games_over_redis_are_as_the_judge_says(shared_redis: RedisServer) -> None:
    url = shared_redis.url
    found = simulate(GAMES_ON_NODES, 200, lambda number, folder: in_redis(url, number, folder))
    assert found.windows > GAMES_ON_NODES


def test_a_day_too_many_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: a window that is folded from the facts of one day more."""
    begun = RollingDraft.begun.__func__  # type: ignore[attr-defined]

    async def longer(cls: object, *given: object) -> RollingDraft:
        *others, window = given
        draft: RollingDraft = await begun(cls, *others, window)
        spans = draft._rebuild._rolling
        spans |= {id: type(one)(id, (one.start or 0) - DAY, one.end) for id, one in spans.items()}
        draft.window = next(iter(spans.values()))
        return draft

    monkeypatch.setattr(RollingDraft, "begun", classmethod(longer))
    with pytest.raises(AssertionError, match=r"last|long"):
        simulate(GAMES, 0, in_memory)


def test_scores_that_miss_the_prepared_window_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: a fold that leaves prepared windows out."""

    async def nothing(*_given: object) -> None:
        pass

    monkeypatch.setattr(fold.Fold, "_submit_unseen", nothing)
    with pytest.raises(AssertionError, match=r"last|long"):
        simulate(GAMES, 0, in_memory)


DAY = 24 * 3_600_000_000
