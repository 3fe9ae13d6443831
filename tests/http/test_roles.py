"""Nodes whose roles are apart are one service, and of chores that two do at once one comes.

Method: a node of each role over a real PostgreSQL, with an index of its own each or one in Redis
for all. Whatever is asked of the right one is answered as one node answers it; of another, it says
whose it is. Then two managers race: they are told of the same moment at the same time, over and
over, and the ledger must say that every window was closed once, and the archive what folding the
ledger from scratch says.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import wait
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.http.api_facade import asked
from tests.http.backends import (
    Backend,
    Kept,
    Node,
    Servers,
    pages_from_scratch,
    serving_node,
)
from tests.http.clocked import PATIENCE_SECONDS
from tests.http.test_backends import connected, name_of, servers, started, told
from tests.http.test_workers import until
from tests.property.embedded_model import DAY
from tests.property.test_embedded_api import SetClock

from rankd.adapters.postgres import PostgresLedger
from rankd.api.routing import API, INGEST, MANAGER, QUERY
from rankd.core import managers
from rankd.core.cluster import managers as cluster_managers
from rankd.model.facts import Position, WindowDropped, WindowOpened, WindowSealed
from rankd.ports import SealedName, SealedRow

pytestmark = pytest.mark.timeout(300)
__all__ = ["servers"]

KINDS = (Backend(), Backend(index="redis"))
kind = pytest.fixture(scope="session", params=KINDS, ids=name_of)(started)

DAYS = 4
RETENTION_DAYS = 2
BOARDS: dict[str, dict[str, Any]] = {
    "kept": {"windows": ["all", "daily"], "ties": "standard"},
    "brief": {"windows": ["daily"], "retention": {"daily": f"{RETENTION_DAYS}d"}},
}
PLAYERS = ("ann", "bob", "cyd")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(managers, "ARCHIVE_SECONDS", 0.02)
    monkeypatch.setattr(managers, "SLEEP_SECONDS_MAX", 0.02)
    monkeypatch.setattr(cluster_managers, "SLEEP_SECONDS_MAX", 0.02)


@contextmanager
def of_roles(
    kept: Kept, folder: Path, clock: SetClock, roles: Sequence[str]
) -> Iterator[list[Node]]:
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                serving_node(folder / name, clock, node=name, role=role, **kept.settings)
            )
            for role, name in ((role, f"{role}{place}") for place, role in enumerate(roles))
        ]


def in_ledger(kept: Kept, question: Any) -> Any:
    async def ask() -> Any:
        async with PostgresLedger.open(kept.ledger, node="judge") as ledger:
            return await question(ledger)

    return asyncio.run(ask())


def archived(kept: Kept) -> set[SealedName]:
    """The windows whose final standings are kept whole."""

    async def question(ledger: PostgresLedger) -> set[SealedName]:
        return {
            name
            for name in await ledger.sealed_windows()
            if await ledger.sealed_total(name.board, name.window, since=name.since) is not None
        }

    found: set[SealedName] = in_ledger(kept, question)
    return found


def test_a_node_of_each_role_is_one_service(
    kind: Backend, servers: Servers, tmp_path: Path
) -> None:
    kept, clock = kind.keep(servers), SetClock()
    roles = (API, QUERY, INGEST, MANAGER)
    with (
        of_roles(kept, tmp_path, clock, roles) as nodes,
        connected(nodes) as (api, query, ingest, manager),
    ):
        told(api, "PUT", "/v1/boards/kept", BOARDS["kept"])
        position = 0
        for place, player in enumerate(PLAYERS):
            said = {"player": player, "score": 10 - place, "key": player}
            writer = (ingest, api)[place % 2]
            receipt = told(writer, "POST", "/v1/boards/kept/scores", said)
            assert (receipt["verdict"], receipt["rank"]) == ("counted", place + 1)
            position = receipt["position"]
        page = f"/v1/boards/kept/standings?window=daily&min_position={position}"
        first, second = told(query, "GET", page), told(api, "GET", page)
        assert first == second
        assert [row["player"] for row in first["standings"]] == list(PLAYERS)

        one_more = {"player": "dee", "score": 1}
        for left, method, path, body in (
            (query, "POST", "/v1/boards/kept/scores", one_more),
            (query, "PUT", "/v1/boards/other", BOARDS["kept"]),
            (ingest, "GET", page, None),
            (manager, "POST", "/v1/boards/kept/scores", one_more),
            (manager, "GET", page, None),
        ):
            answer = asked(left, method, path, body)
            assert (answer.status, answer.body["code"]) == (421, "misdirected"), answer
        for each in (api, query, ingest, manager):
            assert told(each, "GET", "/readyz")["status"] == "ready"

        clock.time += DAY  # Nobody submits any more: it is the manager who turns the window.
        until(lambda: told(query, "GET", "/v1/boards/kept/standings?window=daily")["total"] == 0)
        before = told(query, "GET", "/v1/boards/kept/standings?window=daily:-1")
        assert before["standings"] == first["standings"]
        until(lambda: [name.window for name in archived(kept)] == [first["window"]])


def test_of_two_managers_who_do_the_same_at_once_one_has_done_it(
    kind: Backend, servers: Servers, tmp_path: Path
) -> None:
    kept, clock = kind.keep(servers), SetClock()
    with (
        of_roles(kept, tmp_path, clock, (API, MANAGER, MANAGER)) as (node, *managing),
        connected([node]) as (api,),
    ):
        for name, definition in BOARDS.items():
            told(api, "PUT", f"/v1/boards/{name}", definition)
        for day in range(DAYS):
            for name in BOARDS:
                for place, player in enumerate(PLAYERS):
                    said = {"player": player, "score": (day + place) % 3}
                    told(api, "POST", f"/v1/boards/{name}/scores", said)
            clock.time += DAY
            race(managing)
        until(lambda: len({name for name in archived(kept) if name.board == "kept"}) == DAYS)
        brief = node.rankd.state.boards["brief"]
        until(lambda: 0 < len(brief.sealed) <= RETENTION_DAYS)
        until(
            lambda: (
                {one.window for one in archived(kept) if one.board == "brief"} == {*brief.sealed}
            )
        )
    judge_facts(kept)
    judge_archive(kept)


def race(managing: Sequence[Node]) -> None:
    """Have every manager turn what is due, at once, beside its own loop that does so too."""
    turning = [
        asyncio.run_coroutine_threadsafe(node.rankd.sealer.turn(), node.loop) for node in managing
    ]
    done, _ = wait(turning, PATIENCE_SECONDS)
    assert [each.result() for each in done] == [None] * len(managing)


def judge_facts(kept: Kept) -> None:
    """Every window was opened, closed and dropped at most once."""
    facts = in_ledger(kept, lambda ledger: ledger.read(after=Position(0), limit=8_192))
    turns = Counter(
        (type(each.fact), each.fact.board, each.fact.window)
        for each in facts
        if isinstance(each.fact, WindowOpened | WindowSealed | WindowDropped)
    )
    assert set(turns.values()) == {1}
    closed = Counter(board for turn, board, _ in turns if turn is WindowSealed)
    assert closed == dict.fromkeys(BOARDS, DAYS)


def judge_archive(kept: Kept) -> None:
    """What is archived is what folding up to where a window was closed gives."""
    for name in archived(kept):
        rows: Sequence[SealedRow] = in_ledger(
            kept,
            lambda ledger, name=name: ledger.sealed_rows(
                name.board, name.window, since=name.since, first=1, limit=100
            ),
        )
        page = pages_from_scratch(kept, name.board, [name.since], name.window)[name.since]
        found = [(row.rank, row.player, row.scores) for row in rows]
        assert found == list(zip(page.ranks, page.players, page.scores, strict=True))
        assert [row.place for row in rows] == list(range(1, len(PLAYERS) + 1))
