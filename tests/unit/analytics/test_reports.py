"""Reports say what a walk over the receipts says, and both engines say the same."""

import asyncio
import importlib.util
import os
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from datetime import date, timedelta
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from tests.not_tested import not_tested
from tests.unit.analytics.played import FIRST_DAY, Game

from rankd import bootstrap
from rankd.analytics.page import html_page
from rankd.analytics.query_engines import Range
from rankd.analytics.reports import REPORTS, report, reports, shown_rows
from rankd.errors import ArchiveUnavailable, InvalidRequest

DAYS = 5

SPARK = Path(sys.prefix) / "spark"
"""Where ``make test`` unpacks Spark, if the machine has Java."""


@pytest.fixture(scope="module")
def game(tmp_path_factory: pytest.TempPathFactory) -> Game:
    game = Game(tmp_path_factory.mktemp("game"))
    game.play(DAYS)
    return game


@pytest.fixture(scope="module")
def archive(game: Game, tmp_path_factory: pytest.TempPathFactory) -> str:
    target = str(tmp_path_factory.mktemp("archive"))
    asyncio.run(bootstrap.archive(game.folder, target, state=None, tell=lambda _: None))
    return target


def days_of(game: Game, board: str) -> dict[str, list[date]]:
    """The days on which each player submitted, in order."""
    found: dict[str, list[date]] = defaultdict(list)
    for day, receipt in game.receipts:
        if receipt.board == board:
            found[receipt.player].append(day)
    return found


def test_activity(game: Game, archive: str) -> None:
    rows = {(row["board"], row["day"]): row for row in report("activity", archive).to_pylist()}
    assert len(rows) == 2 * DAYS
    for (board, day), row in rows.items():
        some = [one for at, one in game.receipts if (one.board, at) == (board, day)]
        verdicts = Counter(one.verdict for one in some)
        firsts = [player for player, days in days_of(game, board).items() if days[0] == day]
        assert row["submissions"] == len(some)
        assert row["players"] == len({one.player for one in some})
        assert row["new_players"] == len(firsts)
        for verdict in ("counted", "not_better", "held", "rejected"):
            assert row[verdict] == verdicts[verdict], verdict
    assert sum(row["held"] for row in rows.values()) > 0


def test_retention(game: Game, archive: str) -> None:
    for row in report("retention", archive).to_pylist():
        days = days_of(game, row["board"])
        cohort = {player: some for player, some in days.items() if some[0] == row["cohort"]}
        assert row["players"] == len(cohort)
        for later in (1, 3, 7, 30):
            back = [p for p, some in cohort.items() if row["cohort"] + timedelta(later) in some]
            assert row[f"day_{later}"] == len(back)


def test_distribution(game: Game, archive: str) -> None:
    scores: dict[str, dict[str, Decimal]] = defaultdict(dict)
    for _, receipt in game.receipts:
        if receipt.score is not None:
            scores[receipt.board][receipt.player] = Decimal(receipt.score)
    rows = report("distribution", archive).to_pylist()
    assert [row["board"] for row in rows] == sorted(scores)
    for row in rows:
        there = sorted(scores[row["board"]].values())
        assert (row["players"], row["lowest"], row["highest"]) == (len(there), there[0], there[-1])
        for percent in (1, 5, 10, 25, 50, 75, 90, 95, 99):
            enough = max(1, -(-percent * len(there) // 100))
            assert row[f"p{percent:02}"] == there[enough - 1]


def test_movement(game: Game, archive: str) -> None:
    for row in report("movement", archive).to_pylist():
        ranked = [
            one
            for _, one in game.receipts
            if (one.board, one.player) == (row["board"], row["player"]) and one.rank is not None
        ]
        assert row["submissions"] == len(ranked)
        assert row["rank_before"] == (ranked[0].previous_rank or ranked[0].rank)
        assert row["rank_after"] == ranked[-1].rank
        assert row["rank_change"] == row["rank_before"] - row["rank_after"] != 0


def test_windows(archive: str) -> None:
    rows = report("windows", archive).to_pylist()
    assert {row["window_id"] for row in rows if row["board"] == "golf"} == {
        f"daily:{FIRST_DAY + timedelta(day)}" for day in range(DAYS - 1)
    }
    assert all(row["first_score"] <= row["last_score"] for row in rows if row["board"] == "golf")
    assert all(row["first_player"] for row in rows)


def test_suspects(archive: str) -> None:
    found = {(row["board"], row["player"]): row for row in report("suspects", archive).to_pylist()}
    robot = found["arena", "robot"]
    assert (robot["per_minute"], robot["steady"]) == (1, 1)
    assert robot["reasons"] == sum(
        robot[name]
        for name in ("per_minute", "gain", "first_score", "outlier_self", "outlier_field", "steady")
    )
    assert not [player for board, player in found if board == "arena" and player.startswith("p2")]


def test_a_range_leaves_out_what_is_before_and_after(archive: str) -> None:
    day = FIRST_DAY + timedelta(1)
    span = Range("arena", day, day)
    for name, column in (("activity", "day"), ("retention", "cohort")):
        rows = report(name, archive, span=span).to_pylist()
        assert {(row["board"], row[column]) for row in rows} <= {("arena", day)}
    (whole,) = [
        row
        for row in report("activity", archive).to_pylist()
        if (row["board"], row["day"]) == ("arena", day)
    ]
    assert report("activity", archive, span=span).to_pylist() == [whole]


@pytest.mark.parametrize("board", ["'; DROP TABLE x --", "none", "a'b"])
def test_the_name_of_a_board_is_only_a_name(archive: str, board: str) -> None:
    for rows in reports(list(REPORTS), archive, span=Range(board)).values():
        assert rows.num_rows == 0


def test_wrong_questions_are_refused(archive: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="activity, retention"):
        report("profit", archive)
    with pytest.raises(InvalidRequest, match="duckdb, spark"):
        report("activity", archive, engine="excel")
    with pytest.raises(ArchiveUnavailable, match="is no archive"):
        report("activity", str(tmp_path / "none"))


class Tags(HTMLParser):
    """The tags and texts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]


@pytest.mark.parametrize("name", list(REPORTS))
def test_a_page_has_every_row_and_needs_no_network(archive: str, name: str) -> None:
    rows = report(name, archive)
    page = Tags(html_page(name, rows, "From <b>here</b>."))
    assert page.tags["tr"] == rows.num_rows + 1
    assert page.tags["svg"] == (2 if REPORTS[name].plot else 0)
    assert page.links == []
    assert page.tags["b"] == page.tags["script"] == 0


def test_shares_are_shown_in_percent(archive: str) -> None:
    columns, rows = shown_rows("retention", report("retention", archive))
    named: dict[str, Any] = dict(zip(columns, rows[0], strict=True))
    assert named["day_1 %"] == Decimal(named["day_1"] * 1000 // named["players"]) / 10


_FEW_TASKS = "spark.sql.shuffle.partitions=2"

_BOTH = """
import sys
from rankd.analytics.reports import REPORTS, reports
names = list(REPORTS)
ours, theirs = (reports(names, sys.argv[1], engine=engine) for engine in ("duckdb", "spark"))
for name in names:
    assert ours[name].num_rows > 0, name
    assert ours[name].schema == theirs[name].schema, (name, ours[name].schema, theirs[name].schema)
    assert ours[name].to_pylist() == theirs[name].to_pylist(), name
print("equal", len(names))
"""


@pytest.mark.timeout(600)  # A start of Java and six reports, beside other tests.
def test_spark_says_the_same_as_duckdb(archive: str) -> None:
    there = importlib.util.find_spec("pyspark") is not None or SPARK.is_dir()
    if not there or shutil.which("java") is None:
        not_tested("reports by Spark", "no pyspark, or no Java")
    paths = [str(SPARK), *filter(None, sys.path)]
    options = {
        "PYTHONPATH": os.pathsep.join(paths),
        "PYSPARK_SUBMIT_ARGS": f"--conf {_FEW_TASKS} --master local[2] pyspark-shell",
    }
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _BOTH, archive],
        env={**os.environ, **options},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout == f"equal {len(REPORTS)}\n", ran.stderr[-2000:]
