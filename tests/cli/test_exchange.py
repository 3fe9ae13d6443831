"""In and out: an import counts once, and what was exported can be imported again."""

import csv
import io
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

from tests.cli.running import Ran

from rankd.client import Client
from rankd.testing.servers import redis_server

Run = Callable[..., Ran]

ROWS = 5000


def test_an_import_that_is_repeated_counts_once(ask: Run, client: Client, tmp_path: Path) -> None:
    client.define("steps", {"rule": "sum"})
    lines = [f"p{n % 700},{n}" for n in range(ROWS)]
    (tmp_path / "steps.csv").write_text("player,score\n" + "\n".join(lines) + "\n")
    first = ask("import", "steps.csv", "--board", "steps")
    assert first.code == 0, first.err
    assert first.out == f"{ROWS:,} rows: {ROWS:,} counted\n"
    once = [(row.player, row.score) for row in client.walk("steps")]
    assert sum(score for _, score in once) == sum(range(ROWS))

    second = ask("import", "steps.csv", "--board", "steps", "--batch", 512)
    assert second.out == f"{ROWS:,} rows: {ROWS:,} seen before\n"
    assert [(row.player, row.score) for row in client.walk("steps")] == once


def test_what_was_exported_as_csv_can_be_imported(ask: Run, client: Client, tmp_path: Path) -> None:
    client.define("from", {"decimals": 2})
    client.define("to", {"decimals": 2})
    odd = ["=1+1", "+x", "-x", "@x", "'=y", "a,b", 'say "hi"', "ü", "plain"]
    for number, player in enumerate(odd):
        client.submit("from", player, f"-{number}.50", metadata={"lap": number})
    assert ask("export", "from", "--output", "from.csv").code == 0
    rows = list(csv.reader(io.StringIO((tmp_path / "from.csv").read_text())))
    players = [row[1] for row in rows[1:]]
    assert players[:5] == ["'=1+1", "'+x", "'-x", "'@x", "''=y"]
    assert rows[1][3] == "-0.50"

    assert ask("import", "from.csv", "--board", "to").code == 0
    assert [(row.player, row.score, row.metadata) for row in client.walk("to")] == [
        (player, Decimal(f"-{number}.50"), {"lap": number}) for number, player in enumerate(odd)
    ]


def test_several_columns_go_out_as_json_lines_and_come_back(
    ask: Run, client: Client, tmp_path: Path
) -> None:
    columns = [
        {"name": "kills", "direction": "higher"},
        {"name": "time", "direction": "lower"},
    ]
    client.define("duel", {"columns": columns})
    client.define("again", {"columns": columns})
    for number in range(5):
        client.submit("duel", f"p{number}", columns={"kills": 7, "time": 90 - number})
    done = ask("export", "duel", "--format", "jsonl")
    (tmp_path / "duel.jsonl").write_text(done.out)
    assert [json.loads(line)["rank"] for line in done.out.splitlines()] == [1, 2, 3, 4, 5]
    assert ask("import", "duel.jsonl", "--board", "again").code == 0
    shown = [(row.rank, row.player, row.columns) for row in client.walk("duel")]
    assert [(row.rank, row.player, row.columns) for row in client.walk("again")] == shown


def test_a_row_that_is_refused_is_named_and_the_others_count(
    ask: Run, client: Client, tmp_path: Path
) -> None:
    client.define("some")
    (tmp_path / "some.txt").write_text("ann;10\nbob;many\ncid;30\n")
    done = ask(
        *("import", "some.txt", "--board", "some", "--format", "csv"),
        *("--columns", "player,score", "--delimiter", ";"),
    )
    assert done.code == 1
    assert "row 2: score" in done.err
    assert done.out == "3 rows: 2 counted, 1 refused\n"
    assert [row.player for row in client.walk("some")] == ["cid", "ann"]


def test_a_sorted_set_of_redis_is_imported_once(ask: Run, client: Client) -> None:
    client.define("zset", {"rule": "sum"})
    with redis_server() as redis:
        from rankd.cli import resp

        place = resp.place_of(f"redis://{redis.host}:{redis.port}/2/old scores")
        with resp.connected(place) as connection:
            for number in range(300):
                connection.ask("ZADD", place.key, str(number * 10), f"p{number}")
        url = f"redis://{redis.host}:{redis.port}/2/old scores"
        assert ask("import", url, "--board", "zset").out == "300 rows: 300 counted\n"
        assert ask("import", url, "--board", "zset").out == "300 rows: 300 seen before\n"
    assert client.top("zset").standings[0].score == 2990
    assert client.top("zset").total == 300
