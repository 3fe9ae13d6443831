"""Commands against a real service: what they print, and the code they end with."""

import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.running import Ran, Served, process, run

from rankd.client import Client
from rankd.signatures import new_private_key, public_key_of

Run = Callable[..., Ran]


def parsed(done: Ran) -> dict[str, object]:
    assert (done.code, done.err) == (0, ""), done
    shape: dict[str, object] = json.loads(done.out)
    return shape


def test_a_board_is_defined_shown_changed_and_retired(ask: Run, tmp_path: Path) -> None:
    (tmp_path / "cup.toml").write_text('rule = "sum"\nwindows = ["all", "daily"]\n')
    planned = ask("board", "apply", "cup.toml", "--dry-run")
    assert (planned.code, planned.out) == (0, "cup would be defined\n")
    assert ask("board", "show", "cup").code == 1

    assert ask("board", "apply", "cup.toml").out == "cup is defined\n"
    shown = parsed(ask("board", "show", "cup", "--json"))
    assert shown["definition"]["rule"] == "sum"  # type: ignore[index]
    assert "cup" in ask("board", "list").out
    lines = ask("board", "show", "cup").out.splitlines()
    assert [line for line in lines if line != line.rstrip()] == []
    fields = {" ".join(line.split()) for line in lines}
    assert {"rule sum", "windows all, daily", "prize false"} <= fields

    refused = ask("board", "apply", "cup", "--set", "windows=all,weekly", stdin="n\n")
    assert refused.code == 1
    assert "windows" in refused.out
    assert "--yes" not in refused.err  # Who says no needs no advice.
    for unasked in (("apply", "cup", "--set", "windows=all,weekly"), ("retire", "cup")):
        silent = ask("board", *unasked)
        assert silent.code == 1
        last = silent.err.splitlines()[-1]
        assert last == "rankd: nothing was changed: there is no terminal to answer on; --yes agrees"
    agreed = ask("board", "apply", "cup", "--set", "windows=all,weekly", stdin="y\n")
    assert agreed.code == 0
    assert "cup is changed" in agreed.out
    definition = parsed(ask("board", "show", "cup", "--json"))["definition"]
    assert (definition["windows"], definition["rule"]) == (["all", "weekly"], "sum")  # type: ignore[index]

    assert ask("board", "retire", "cup", "--yes").code == 0
    assert "cup" not in ask("board", "list").out


@pytest.mark.parametrize("algorithm", ["hmac", "ed25519"])
def test_a_signed_score_is_sent_from_the_command_line(
    ask: Run, tmp_path: Path, algorithm: str
) -> None:
    assert ask("board", "apply", "cup").code == 0
    made = ask("keys", "create", "--signing", algorithm, "--board", "cup")
    assert made.code == 0 and "not shown again" in made.err
    (tmp_path / "sign.key").write_text(made.out)
    submitted = [
        ask("submit", "cup", "ada", "5", "--sign-key", key, "--key", "k")
        for key in (f"@{tmp_path / 'sign.key'}", made.out.strip())
    ]
    assert [done.code for done in submitted] == [0, 0], submitted
    assert "seen before" in submitted[1].out
    id = made.out.partition(":")[0]
    assert f"signs: {algorithm}" in ask("keys", "list").out
    ask("keys", "revoke", id)
    refused = ask("submit", "cup", "ada", "6", "--sign-key", made.out.strip())
    assert refused.code == 1 and "signature is not valid" in refused.err
    wrong = ask("submit", "cup", "ada", "6", "--sign-key", "nonsense")
    assert wrong.code == 2 and "nonsense" not in wrong.err
    missing = ask("submit", "cup", "ada", "6", "--sign-key", "@nowhere")
    assert missing.code == 2 and "cannot be read" in missing.err


def test_a_signing_key_of_ones_own_is_made_with_its_public_half(ask: Run) -> None:
    public = public_key_of(new_private_key())
    made = ask("keys", "create", "--signing", "ed25519", "--public-key", public)
    assert (made.code, made.out) == (0, "") and "private key of yours" in made.err
    for wrong in (
        ("--signing", "hmac", "--public-key", public),
        ("--scope", "read", "--signing", "hmac"),
        (),
    ):
        assert ask("keys", "create", *wrong).code == 2


def test_a_run_is_used_once_from_the_command_line(ask: Run, service: Served) -> None:
    assert ask("board", "apply", "cup").code == 0
    with Client(service.url) as client:
        run = client.start_run("cup", "ada").run
    assert ask("submit", "cup", "ada", "5", "--run", run).code == 0
    again = ask("submit", "cup", "ada", "5", "--run", run)
    assert again.code == 1 and "used before" in again.err


def test_a_score_counts_for_as_long_as_it_is_to_live(ask: Run) -> None:
    assert ask("board", "apply", "cup").code == 0
    told = ask("submit", "cup", "ada", "5", "--lives", "24h")
    assert told.code == 0 and ", until 20" in told.out
    receipt = parsed(ask("submit", "cup", "ada", "6", "--lives", "1h", "--json"))
    assert str(receipt["expires_at"]).endswith("Z")
    wrong = ask("submit", "cup", "ada", "7", "--lives", "soon")
    assert wrong.code == 1 and "lives" in wrong.err
    assert "until" not in ask("submit", "cup", "ada", "8").out


def test_where_there_is_no_board_the_way_to_one_is_shown() -> None:
    assert run("keys", "create", "--scope", "admin", "--data", "folder").code == 0
    done = run("board", "list", "--data", "folder")
    assert (done.code, done.out) == (0, "")
    assert "`rankd board apply NAME` defines one" in done.err


def test_clock_is_shown_and_has_no_step_to_confirm(ask: Run) -> None:
    shown = parsed(ask("clock", "show", "--json"))
    assert (shown["step"], shown["problem"]) == (None, None)
    assert ask("clock", "show").out.startswith("ledger time    20")
    confirmed = ask("clock", "confirm")
    assert (confirmed.code, confirmed.err) == (0, "there is no step to confirm\n")


def test_dropping_scores_is_agreed_to_on_its_own(ask: Run, client: Client) -> None:
    client.define("arena")
    client.submit("arena", "ann", 5)
    rename = ("board", "apply", "arena", "--set", 'columns=[{"name": "points"}]')
    shown = ask(*rename, "--dry-run")
    assert "all: 1 → 0 players\n" in shown.out
    assert "warning: scores could not be ranked any more in all\n" in shown.err
    for done, advice in (
        (ask(*rename, stdin="y\n"), "there is no terminal to answer on; --drop-scores agrees"),
        (ask(*rename, "--drop-scores"), "there is no terminal to answer on; --yes agrees"),
        (ask(*rename, "--yes"), "`rankd board apply` does it with --drop-scores"),
    ):
        assert done.code == 1
        assert done.err.rstrip().endswith(advice)
    assert ask(*rename, stdin="y\nn\n").code == 1
    assert client.board("arena").total == 1

    assert ask(*rename, stdin="y\ny\n").code == 0
    assert client.board("arena").total == 0
    back = ask("board", "apply", "arena", "--set", 'columns=[{"name": "score"}]', "--yes")
    assert (back.code, back.out.splitlines()[-1]) == (0, "arena is changed")
    assert client.board("arena").total == 1
    done = ask(*rename, "--yes", "--drop-scores")
    assert (done.code, done.err, client.board("arena").total) == (0, "", 0)
    assert ask(*rename, "--yes").out == "arena is defined so already\n"


def test_time_that_is_right_is_not_corrected(ask: Run, client: Client) -> None:
    client.define("clocked", {"windows": ["daily"]})
    refused = ask("clock", "correct")
    assert refused.code == 1
    assert "no fact is later than the clock" in refused.err
    planned = ask("clock", "correct", "--from", 1, "--ahead", 0, "--dry-run")
    assert (planned.code, planned.out.splitlines()[0][:27]) == (0, "wrong from     position 1: ")
    silent = ask("clock", "correct", "--from", 1, "--ahead", 0)
    assert silent.err.endswith("there is no terminal to answer on; --yes agrees\n")


def test_scores_are_submitted_and_standings_read(ask: Run, client: Client) -> None:
    client.define("arena")
    first = parsed(ask("submit", "arena", "ann", 100, "--json"))
    assert (first["verdict"], first["rank"]) == ("counted", 1)
    assert "rank 1" in ask("submit", "arena", "ann", 50, "--delta", "--key", "k1").out
    again = ask("submit", "arena", "ann", 50, "--delta", "--key", "k1")
    assert "seen before" in again.out
    assert "score -5" in ask("submit", "arena", "bob", -5).out

    top = parsed(ask("top", "arena", "--json"))
    assert [row["player"] for row in top["standings"]] == ["ann", "bob"]  # type: ignore[attr-defined]
    assert "150" in ask("top", "arena").out
    ranged = ask("top", "arena", "--score-min", "150", "--score-max", "200").out
    assert "1 of 2 players" in ranged and "bob" not in ranged
    absent = ("around", "arena", "nobody", "--absent", "bottom", "--above", "0", "--below", "0")
    assert "bob" in ask(*absent).out
    assert ask("around", "arena", "nobody").code == 1
    assert parsed(ask("standing", "arena", "bob", "--json"))["rank"] == 2
    around = parsed(ask("around", "arena", "bob", "--above", 1, "--below", 0, "--json"))
    assert [row["player"] for row in around["standings"]] == ["ann", "bob"]  # type: ignore[attr-defined]

    watched = ask("watch", "arena", "--changes", 1, "--limit", 1)
    assert len(json.loads(watched.out)["standings"]) == 1
    assert json.loads(watched.out)["total"] == 2


COLUMNS = [{"name": "wins"}, {"name": "minutes", "direction": "lower"}]


def test_a_score_of_several_columns_is_submitted(ask: Run, client: Client, tmp_path: Path) -> None:
    client.define("matches", {"columns": COLUMNS})
    assert "rank 1 of 1" in ask("submit", "matches", "ann", 3, "--column", "minutes=-12").out
    by_name = ("--column", "wins=3", "--column", "minutes=11")
    assert "rank 2 of 2" in ask("submit", "matches", "bob", *by_name).out
    rows = client.top("matches").standings
    assert [row.columns for row in rows] == [
        {"wins": 3, "minutes": -12},
        {"wins": 3, "minutes": 11},
    ]
    heads = ["rank", "player", "wins", "minutes"]
    assert ask("top", "matches").out.splitlines()[1].split() == heads
    assert ask("around", "matches", "bob").out.splitlines()[1].split() == heads
    assert "wins 3, minutes 11, percentile" in ask("standing", "matches", "bob").out
    (tmp_path / "m.json").write_text(json.dumps({"columns": COLUMNS}))
    assert run("board", "apply", "m.json", "--data", "folder").code == 0
    done = run("submit", "m", "ann", 3, "--column", "minutes=12", "--data", "folder")
    assert done.out == "counted: rank 1 of 1, wins 3, minutes 12\n"
    refused = ask("submit", "matches", "ann", 3, "--column", "hours=1")
    assert refused.code == 1
    assert "columns.hours is not a column of this board" in refused.err


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (("3", "--column", "minutes"), "--column takes NAME=VALUE, such as minutes=12"),
        (("3", "--column", "=12"), "--column takes NAME=VALUE"),
        (("3", "--column", "minutes="), "--column takes NAME=VALUE"),
        (("3", "--column", "m=1", "--column", "m=2"), "--column names m twice"),
        (("3", "--delta", "--column", "m=1"), "--delta adds to a score: it takes no --column"),
        ((), "SCORE is missing"),
        (("--delta",), "SCORE is missing"),
        (("3", "--attribute", "region"), "--attribute takes NAME=VALUE, such as region=eu"),
    ],
)
def test_scores_in_another_form_are_wrong_usage(ask: Run, args: tuple[str, ...], why: str) -> None:
    done = ask("submit", "arena", "ann", *args)
    assert (done.code, done.out) == (2, "")
    assert why in done.err


def test_refusals_are_one_line_and_usage_is_another_code(ask: Run) -> None:
    unknown = ask("top", "nowhere")
    assert (unknown.code, unknown.out) == (1, "")
    assert unknown.err.startswith("rankd: ")
    assert unknown.err.count("\n") == 1
    assert "rankd board list" in unknown.err
    assert ask("top").code == 2
    assert ask("top", "b", "--url", "http://x", "--data", "y").code == 2
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # Taken, so that nobody else listens there either.
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        away = run("top", "b", "--url", url)
    assert away.code == 1
    assert f"{url} does not answer" in away.err


def test_what_a_player_is_called_cannot_touch_the_terminal(ask: Run, client: Client) -> None:
    client.define("names")
    client.submit("names", "[bold]p[/bold]", 1)
    shown = ask("top", "names")
    assert "[bold]p[/bold]" in shown.out
    assert "\x1b" not in shown.out


def test_a_process_of_its_own_does_the_same(
    service: Served, client: Client, tmp_path: Path
) -> None:
    client.define("process")
    client.submit("process", "ann", 1)
    done = process("top", "process", "--json", "--url", service.url, cwd=tmp_path)
    assert [row["player"] for row in json.loads(done.out)["standings"]] == ["ann"]
    assert (done.code, done.err) == (0, "")
    assert process("standing", "process", "bob", "--url", service.url, cwd=tmp_path).code == 1


@pytest.mark.parametrize("args", [["--help"], ["board", "apply", "--help"], ["--version"]])
def test_help_is_there(ask: Run, args: list[str]) -> None:
    done = ask(*args)
    assert done.code == 0
    assert done.out


def test_a_webhook_is_set_listed_replayed_and_removed(ask: Run) -> None:
    made = ask("webhook", "put", "hook", "https://game.example/", "--event", "window.sealed")
    assert made.code == 0 and made.out.startswith("whsec_")
    assert "is not shown again" in made.err
    again = ask("webhook", "put", "hook", "https://game.example/2", "--event", "review.held")
    assert (again.code, again.out) == (0, "webhook hook is set\n")
    (shown,) = json.loads(ask("webhook", "list", "--json").out)["webhooks"]
    assert (shown["url"], shown["events"]) == ("https://game.example/2", ["review.held"])
    assert "delivering" in ask("webhook", "list").out
    assert parsed(ask("webhook", "deliveries", "hook", "--json")) == {"deliveries": []}
    assert ask("webhook", "replay", "hook", "1").code == 0
    refused = ask("webhook", "put", "bad", "http://127.0.0.1/", "--event", "window.sealed")
    assert refused.code == 1 and "must begin with https" in refused.err
    assert ask("webhook", "remove", "hook").out == "removed hook\n"
    assert ask("webhook", "remove", "hook").code == 1
