"""In and out: an import counts once, and what was exported can be imported again."""

import csv
import io
import json
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.cli.running import Ran, run, serving

import rankd
from rankd.cli.export import LOOKUP_PLAYERS
from rankd.client import Client
from rankd.testing.servers import redis_server

Run = Callable[..., Ran]

ROWS = 5000


def read_parquet(path: Path) -> Any:
    """Read a file whole: pyarrow's own threads close one when they get to it."""
    from pyarrow import parquet  # type: ignore[import-untyped, unused-ignore]

    return parquet.read_table(io.BytesIO(path.read_bytes()))


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


@pytest.mark.parametrize("format", ["csv", "jsonl"])
@pytest.mark.parametrize("names", [("kills", "time"), ("kills", "score"), ("score", "time")])
def test_several_columns_go_out_and_come_back(
    ask: Run, client: Client, tmp_path: Path, format: str, names: tuple[str, str]
) -> None:
    first, second = names
    columns = [{"name": first}, {"name": second, "direction": "lower"}]
    duel, again = f"{format}-{first}-{second}", f"{format}-{first}-{second}-again"
    client.define(duel, {"columns": columns})
    client.define(again, {"columns": columns})
    for number in range(5):
        client.submit(duel, f"p{number}", columns={first: -7, second: 90 - number})
    file = f"duel.{format}"
    assert ask("export", duel, "--format", format, "--output", file).code == 0
    if format == "csv":
        head = (tmp_path / file).read_text().splitlines()[0]
        assert head == f"rank,player,name,{first},{second},metadata"
    assert ask("import", file, "--board", again).code == 0
    shown = [(row.rank, row.player, row.columns) for row in client.walk(duel)]
    assert len(shown) == 5
    assert [(row.rank, row.player, row.columns) for row in client.walk(again)] == shown


def test_a_column_whose_name_is_taken_goes_out_as_score(client: Client, ask: Run) -> None:
    client.define("taken", {"columns": [{"name": "player"}, {"name": "time"}]})
    head = ask("export", "taken").out
    assert head == "rank,player,name,score,time,metadata\n"


def test_what_was_exported_as_parquet_is_read_by_others(
    ask: Run, client: Client, tmp_path: Path
) -> None:
    """64-bit scores stay whole, decimals exact, names and metadata text."""
    client.define("great")
    greatest = {"max": 2**63 - 1, "min": -(2**63), "=1+1": 2**53 + 1, "ü": 0}
    for player, score in greatest.items():
        client.submit("great", player, score, metadata={"a": [1, "ü"]} if score == 0 else None)
    client.set_profile("max", name="Máx")
    done = ask("export", "great", "--format", "parquet", "--output", "great.parquet")
    assert done.code == 0, done.err
    read = read_parquet(tmp_path / "great.parquet").to_pylist()
    assert [(row["rank"], row["player"], row["score"]) for row in read] == [
        (row.rank, row.player, row.score) for row in client.walk("great")
    ]
    assert {row["player"]: row["score"] for row in read} == greatest
    assert [row["name"] for row in read] == ["Máx", None, None, None]
    assert [row["metadata"] and json.loads(row["metadata"]) for row in read][2] == {"a": [1, "ü"]}

    columns = [{"name": "time"}, {"name": "laps", "direction": "lower"}]
    client.define("exact", {"columns": columns, "decimals": 3})
    client.submit("exact", "p", columns={"time": "123456789.125", "laps": "0.001"})
    assert (
        ask(
            "export", "exact", "--format", "parquet", "--output", "exact.parquet", "--window", "all"
        ).code
        == 0
    )
    (row,) = read_parquet(tmp_path / "exact.parquet").to_pylist()
    assert (row["time"], row["laps"]) == (Decimal("123456789.125"), Decimal("0.001"))

    client.define("empty")
    assert ask("export", "empty", "--format", "parquet", "--output", "empty.parquet").code == 0
    assert read_parquet(tmp_path / "empty.parquet").num_rows == 0


SEGMENTED: tuple[dict[str, str | int | bool], ...] = (
    {"region": "eu", "level": 3},
    {"region": "=na", "pro": True},
    {},
    {"other": "x"},
)
"""What is known of some players."""


@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_where_players_belong_goes_out_of_a_folder_and_comes_back(
    format: str, tmp_path: Path
) -> None:
    names = ["region", "level", "pro", "name"]
    for folder in ("from", "to"):
        with rankd.open(tmp_path / folder) as ranks:
            board = ranks.board("b", segments=names)
            if folder == "from":
                for number, attributes in enumerate(SEGMENTED):
                    board.submit(f"p{number}", number, attributes=attributes)
    out = ("--format", format, "--output", f"b.{format}")
    done = run("export", "b", "--data", "from", *out)
    assert done.code == 0
    assert "without name: a column has that name already" in done.err
    done = run("import", f"b.{format}", "--board", "b", "--data", "to")
    assert done.code == 0, done.err
    assert "no row has name" in done.err
    for segment in ("region:eu", "region:=na", "level:3", "pro:true"):
        asked = ("top", "b", "--segment", segment, "--json", "--data")
        found = [json.loads(run(*asked, folder).out)["standings"] for folder in ("from", "to")]
        assert [row["player"] for row in found[0]] == [row["player"] for row in found[1]] != []


def test_where_players_belong_is_in_parquet_too(tmp_path: Path) -> None:
    with rankd.open(tmp_path / "d") as ranks:
        board = ranks.board("b", segments=["region", "level"])
        for number, attributes in enumerate(SEGMENTED):
            board.submit(f"p{number}", -number, attributes=attributes)
    out = ("--format", "parquet", "--output", "b.parquet")
    assert run("export", "b", "--data", "d", *out).code == 0
    rows = read_parquet(tmp_path / "b.parquet").to_pylist()
    assert [(row["region"], row["level"]) for row in rows[:3]] == [
        ("eu", "3"),
        ("=na", None),
        (None, None),
    ]


@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_where_players_belong_goes_out_of_a_service_and_comes_back(
    format: str, ask: Run, client: Client, tmp_path: Path
) -> None:
    board, players = f"out-{format}", 2 * LOOKUP_PLAYERS + 1
    client.define(board, {"segments": ["region"]})
    items = [
        {"player": f"s{n}", "score": n, "attributes": {"region": ("eu", "na", "sa")[n % 3]}}
        for n in range(players)
    ]
    assert all(each.verdict == "counted" for each in client.submit_many(items, board=board))
    out = ("--format", format, "--output", f"s.{format}")
    done = ask("export", board, *out)
    assert (done.code, done.err) == (0, f"{players:,} standings in s.{format}\n")
    with rankd.open(tmp_path / "to") as ranks:
        ranks.board("b", segments=["region"])
    assert run("import", f"s.{format}", "--board", "b", "--data", "to").code == 0
    with rankd.open(tmp_path / "to") as ranks:
        for segment in ("region:eu", "region:na", "region:sa"):
            there = client.page(board, segment=segment, limit=1000).standings
            here = ranks.board("b").page(segment=segment, limit=1000)
            assert [row.player for row in there] == [row.player for row in here] != []


def test_a_key_for_some_boards_exports_without_attributes_and_says_so(tmp_path: Path) -> None:
    with serving(tmp_path) as service, Client(service.url) as open_to_all:
        admin = open_to_all.create_key(["admin"]).key
        with Client(service.url, admin) as client:
            client.define("regions", {"segments": ["region"]})
            client.submit("regions", "ann", 1, attributes={"region": "eu"})
            limited = client.create_key(["read"], boards=["regions"]).key
        done = run("export", "regions", RANKD_URL=service.url, RANKD_KEY=limited or "")
        assert (done.code, done.out) == (0, "rank,player,name,score,metadata\n1,ann,,1,\n")
        assert done.err.startswith("without region: ")
        assert done.err.count("\n") == 1


def test_segments_that_no_row_speaks_of_are_named(ask: Run, client: Client, tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("player,score\nann,1\n")
    client.define("others", {"segments": ["region"]})
    done = ask("import", "r.csv", "--board", "others")
    assert (done.code, done.out) == (0, "1 row: 1 counted\n")
    assert "no row has region" in done.err
    client.define("plain")
    assert "without" not in ask("export", "plain", "--output", "p.csv").err
    assert "nothing" not in ask("import", "r.csv", "--board", "plain").err


def test_scores_come_in_by_a_pipe(ask: Run, client: Client) -> None:
    client.define("piped")
    options = "--board", "piped", "--format", "jsonl"
    lines = '{"player": "ann", "score": 1}\n{"player": "bob", "score": 2}\n'
    done = ask("import", "-", *options, stdin=lines)
    assert done.code == 1
    assert "say --source NAME" in done.err
    assert "2 counted" in ask("import", "-", *options, "--source", "monday", stdin=lines).out
    assert "2 seen before" in ask("import", "-", *options, "--source", "monday", stdin=lines).out
    typo = '{"player": "typo", "score": 0, "kye": "k1"}\n'
    done = ask("import", "-", *options, "--source", "typo", stdin=typo * 2)
    assert done.err == "left out: kye\n"
    assert "2 not better" in ask("import", "-", *options, "--source", "tuesday", stdin=lines).out
    assert ask("import", "-", "--board", "piped", "--source", "x", stdin=lines).code == 1
    assert [row.player for row in client.walk("piped")] == ["bob", "ann", "typo"]


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
    assert "line 2: score" in done.err
    assert done.out == "3 rows: 2 counted, 1 refused\n"
    assert [row.player for row in client.walk("some")] == ["cid", "ann"]


def test_what_is_refused_is_named_by_its_line_whatever_is_wrong_with_it(
    ask: Run, client: Client, tmp_path: Path
) -> None:
    """In CSV the header is a line too; in JSON lines an empty one is, and one that is broken."""
    client.define("lines")
    (tmp_path / "s.csv").write_text("player,score\nann,10\n\nbob,many\ncyd,1\n")
    assert "line 4: score" in ask("import", "s.csv", "--board", "lines").err
    lines = '{"player": "a", "score": 1}\n\n{"player":\n{"player": "b", "score": "x"}\n'
    (tmp_path / "s.jsonl").write_text(lines)
    done = ask("import", "s.jsonl", "--board", "lines")
    assert re.findall(r"^(?:line|row) \d+", done.err, re.MULTILINE) == ["line 3", "line 4"]


def test_a_file_that_is_not_there_is_told_before_anybody_is_asked() -> None:
    for name in ("s.txt", "s.csv", "s.parquet"):
        done = run("import", name, "--board", "b", "--url", "http://127.0.0.1:1")
        assert (done.code, done.err) == (1, f"rankd: there is no file {name}\n")


def test_a_line_that_is_broken_is_named_and_the_others_count(
    ask: Run, client: Client, tmp_path: Path
) -> None:
    client.define("torn", {"rule": "sum"})
    good = (
        '{"player": "ann", "score": 10}\n\n'
        '{"player": "bob", "score": %s\n'
        '{"player": "cyd", "score": 5}\n'
    )
    (tmp_path / "torn.jsonl").write_text(good % "7")
    done = ask("import", "torn.jsonl", "--board", "torn", "--batch", 1)
    assert done.code == 1
    assert "line 3: is not JSON" in done.err
    assert done.out == "3 rows: 2 counted, 1 refused\n"
    (tmp_path / "torn.jsonl").write_text(good % "7}")
    done = ask("import", "torn.jsonl", "--board", "torn")
    assert (done.code, done.out) == (0, "3 rows: 1 counted, 2 seen before\n")
    assert [(row.player, row.score) for row in client.walk("torn")] == [
        ("ann", 10),
        ("bob", 7),
        ("cyd", 5),
    ]


def test_parquet_of_an_empty_ranking_has_the_boards_decimals(
    client: Client, ask: Run, tmp_path: Path
) -> None:
    client.define("hollow", {"decimals": 3})
    assert ask("export", "hollow", "--format", "parquet", "--output", "h.parquet").code == 0
    assert str(read_parquet(tmp_path / "h.parquet").schema.field("score").type) == (
        "decimal128(38, 3)"
    )


def test_one_of_a_thing_is_told_as_one(client: Client, ask: Run) -> None:
    client.define("lone")
    client.submit("lone", "ann", 1)
    assert ask("export", "lone", "--output", "lone.csv").err == "1 standing in lone.csv\n"


def test_a_mended_import_counts_no_row_twice(ask: Run, client: Client, tmp_path: Path) -> None:
    client.define("mended", {"rule": "sum"})
    path = tmp_path / "mended.csv"
    path.write_text("player,score\nann,10\nann,10\nbob,many\ncyd,5\n")
    assert ask("import", "mended.csv", "--board", "mended").out == "4 rows: 3 counted, 1 refused\n"
    path.write_text("player,score\ncyd,5\nbob,7\n\nann,10\nann,10\n")
    done = ask("import", "mended.csv", "--board", "mended")
    assert (done.code, done.out) == (0, "4 rows: 1 counted, 3 seen before\n")
    assert [(row.player, row.score) for row in client.walk("mended")] == [
        ("ann", 20),
        ("bob", 7),
        ("cyd", 5),
    ]


def test_a_board_that_was_defined_anew_is_imported_into_anew(
    ask: Run, client: Client, tmp_path: Path
) -> None:
    (tmp_path / "anew.csv").write_text("player,score\nann,10\nbob,7\n")
    for _ in range(2):
        client.define("anew", {"rule": "sum"})
        done = ask("import", "anew.csv", "--board", "anew")
        assert (done.code, done.out) == (0, "2 rows: 2 counted\n")
        assert client.top("anew").total == 2
        client.retire("anew")


def test_keys_that_a_retired_board_has_used_are_refused_by_name(
    ask: Run, client: Client, tmp_path: Path
) -> None:
    """They are the caller's own, and count once in the life of a ledger."""
    (tmp_path / "own.csv").write_text("player,score,key\nann,10,k1\n")
    client.define("own")
    assert ask("import", "own.csv", "--board", "own").code == 0
    client.retire("own")
    client.define("own")
    done = ask("import", "own.csv", "--board", "own")
    assert (done.code, done.out) == (1, "1 row: 1 refused\n")
    assert "line 2: its key was used on a board of this name that was retired since" in done.err


def test_an_import_that_counts_nothing_says_so(ask: Run, client: Client, tmp_path: Path) -> None:
    client.define("twice")
    (tmp_path / "twice.csv").write_text("player,score\nann,10\n")
    assert "nothing new" not in ask("import", "twice.csv", "--board", "twice").err
    done = ask("import", "twice.csv", "--board", "twice")
    assert (done.code, done.out) == (0, "1 row: 1 seen before\n")
    assert done.err == "nothing new was counted: an earlier import had every row\n"


def test_a_member_of_redis_that_cannot_be_read_is_named_and_the_others_count(
    ask: Run, client: Client
) -> None:
    client.define("odd")
    with redis_server() as redis:
        from rankd.cli import resp

        url = f"redis://{redis.host}:{redis.port}/odd"
        place = resp.place_of(url)
        with resp.connected(place) as connection:
            for score, member in (("10", "ann"), ("inf", "end"), ("7", "bob"), ("2.5", "half")):
                connection.ask("ZADD", place.key, score, member)
            connection.ask("ZADD", place.key, "1", "\udcff\udcfe")
        done = ask("import", url, "--board", "odd")
    assert (done.code, done.out) == (1, "5 rows: 2 counted, 3 refused\n")
    assert "the member end has the score inf, which has no place in a ranking" in done.err
    assert r"the member \xff\xfe is not UTF-8" in done.err
    assert "the member half: score must be a whole number: the board has no decimals" in done.err
    assert done.err.endswith("import again: no row counts twice\n")
    assert [row.player for row in client.walk("odd")] == ["ann", "bob"]


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
