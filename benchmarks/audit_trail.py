"""What does a page of the audit trail cost, by each of its filters?

    python -m benchmarks.audit_trail [--facts N] [--commit F] [--folder F]

A ledger in SQLite is filled with submissions, one in ten thousand of which is a decision about a
player instead, made by one of ten moderators. Then pages of ten are asked for as a service answers
them, and the whole trail of each filter, page after page.
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from urllib.parse import urlencode

from rankd.adapters.sqlite import SQLiteLedger
from rankd.cli.folder import FolderTransport, opened
from rankd.http_client import HttpRequest
from rankd.model.board import Board
from rankd.model.facts import (
    BoardDefined,
    Fact,
    OpenWindow,
    PlayerStateSet,
    ScoreAdjusted,
    ScoreSubmitted,
)
from rankd.model.window import Instant

BOARD = "arena"
RARE = 10_000
TRIES = 20
FILTERS: tuple[dict[str, object], ...] = (
    {},
    {"kind": "score_submitted"},
    {"kind": "player_state_set"},
    {"kind": "score_adjusted", "board": BOARD},
    {"administrative": "true"},
    {"administrative": "true", "actor": "mod-3"},
    {"administrative": "true", "actor": "nobody"},
    {"player": "player-000000001"},
    {"actor": "game"},
    {"actor": "mod-3"},
)


def facts(many: int) -> Iterator[Fact]:
    """Yield the facts of a ledger."""
    board = Board.define(BOARD, {"windows": ["all"], "public_corrections": True})
    yield BoardDefined(BOARD, board.definition(), "admin", (OpenWindow("all"),))
    for number in range(1, many):
        player, moderator = f"player-{number % 100_000:09d}", f"mod-{number // RARE % 10}"
        if number % (2 * RARE) == 0:
            yield PlayerStateSet(player, "hidden", actor=moderator, reason="to measure")
        elif number % RARE == 0:
            yield ScoreAdjusted(BOARD, player, delta=1, actor=moderator, reason="to measure")
        else:
            yield ScoreSubmitted(BOARD, player, scores=(number,), actor="game")


async def fill(folder: Path, many: int, commit: int) -> None:
    """Append all facts."""
    async with SQLiteLedger.open(folder) as ledger:
        coming = facts(many)
        while batch := [fact for fact, _ in zip(coming, range(commit), strict=False)]:
            await ledger.append(batch, now=Instant(time.time_ns() // 1_000))


def ask(folder: FolderTransport, path: str, **query: object) -> tuple[float, int, int | None]:
    """Ask for a page; return the milliseconds, the facts, and where the next page begins."""
    begun = time.perf_counter()
    answer = folder.send(HttpRequest("GET", f"{path}?{urlencode(query)}", {}))
    milliseconds = (time.perf_counter() - begun) * 1e3
    body = json.loads(answer.body)
    assert answer.status == 200, body
    return milliseconds, len(body.get("facts", body.get("corrections"))), body["next_after"]


def measure(folder: FolderTransport, path: str, query: dict[str, object]) -> None:
    """Print the time of the first page, and of all pages up to the end of the ledger or 50."""
    page = median(ask(folder, path, limit=10, **query)[0] for _ in range(TRIES))
    after: int | None = 0
    spent, found, pages = 0.0, 0, 0
    while after is not None and pages < 50:
        milliseconds, several, after = ask(folder, path, limit=100, after=after, **query)
        spent, found, pages = spent + milliseconds, found + several, pages + 1
    name = urlencode(query) or "everything"
    print(f"{path} {name}: {page:.1f} ms; {found} facts in {pages} pages, {spent:.0f} ms")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--facts", type=int, default=1_000_000)
    parser.add_argument("--commit", type=int, default=1_000, help="facts in each append")
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        asyncio.run(fill(Path(folder), given.facts, given.commit))
        with opened(folder) as transport:
            for query in FILTERS:
                measure(transport, "/v1/facts", query)
            measure(transport, f"/v1/boards/{BOARD}/corrections", {})


if __name__ == "__main__":
    main()
