"""Players from the command line: found, shown and changed, with a service and with a folder."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.cli.running import Ran, Served, run

Ask = Callable[..., Ran]


@pytest.fixture(params=["service", "folder"])
def at(request: pytest.FixtureRequest, service: Served) -> Ask:
    """A command that goes to a service, or to a data folder."""
    if request.param == "folder":
        assert run("board", "apply", "first", "--data", "people").code == 0
        return lambda *args: run(*args, "--data", "people")
    return lambda *args: run(*args, RANKD_URL=service.url)


def told(done: Ran) -> dict[str, Any]:
    assert (done.code, done.err) == (0, ""), done
    found: dict[str, Any] = json.loads(done.out)
    return found


def defined(at: Ask, board: str) -> None:
    fields = ("--set", "windows=all,daily", "--set", "segments=region")
    assert at("board", "apply", board, *fields, "--yes").code == 0


def test_a_player_is_changed_and_shown(at: Ask) -> None:
    defined(at, "shown")
    assert at("submit", "shown", "zoe", 40, "--attribute", "region=eu").code == 0
    changed = told(at("player", "set", "zoe", "--attribute", "level=7", "--name", "Zoë", "--json"))
    assert changed["attributes"] == {"level": 7, "region": "eu"}
    assert told(at("top", "shown", "--segment", "region:eu", "--json"))["total"] == 1

    shown = told(at("player", "show", "zoe", "--json"))
    assert (shown["name"], shown["attributes"]) == ("Zoë", {"level": 7, "region": "eu"})
    assert ("shown", 1) in [(one["board"], one["rank"]) for one in shown["standings"]]
    lines = at("player", "show", "zoe", "--window", "daily").out.splitlines()
    assert lines[0].startswith("zoe (Zoë) · as of ")
    assert {"level   7", "region  eu"} <= set(lines)
    assert [line.split()[0:3:2] for line in lines if line.startswith("shown ")] == [["shown", "1"]]

    again = at("player", "set", "zoe", "--remove", "level", "--friend", "yan", "--friend", "xi")
    assert again.out.splitlines()[2:] == ["region   eu", "friends  yan, xi"]
    assert told(at("top", "shown", "--segment", "region:eu", "--json"))["total"] == 1


def test_a_visibility_is_set_and_shown_in_tables(at: Ask) -> None:
    defined(at, "private")
    for player, score in (("una", 40), ("ugo", 30)):
        assert at("submit", "private", player, score).code == 0
    done = at("player", "set", "una", "--visibility", "anonymous")
    assert done.out.splitlines()[2:] == ["visibility  anonymous"]
    top = at("top", "private").out
    assert told(at("top", "private", "--json"))["total"] == 2
    exported = at("export", "private").out
    if "(anonymous)" in top:  # A service without keys shows it to others.
        assert "una" not in top + exported and exported.splitlines()[1].startswith("1,,,40")
        assert at("standing", "private", "una").code == 1
    else:
        assert "una" in top and "una" in exported
        assert told(at("player", "show", "una", "--json"))["visibility"] == "anonymous"
    assert told(at("player", "set", "una", "--visibility", "public", "--json"))["visibility"] == (
        "public"
    )
    assert "una" in at("top", "private").out
    assert at("player", "set", "una", "--visibility", "none").code == 2


def test_values_are_numbers_truths_and_text(at: Ask) -> None:
    given = ("a=7", "b=true", 'c="7"', "d=1.5", "e=null", "f=x=y", "g=-3")
    options = [part for text in given for part in ("--attribute", text)]
    found = told(at("player", "set", "vic", *options, "--json"))["attributes"]
    expected = {"a": 7, "b": True, "c": "7", "d": "1.5", "e": "null", "f": "x=y", "g": -3}
    assert found == expected
    assert [type(found[name]) for name in expected] == [type(one) for one in expected.values()]


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ((), "nothing to set"),
        (("--attribute", "region"), "--attribute takes NAME=VALUE, such as region=eu"),
        (("--attribute", "a=1", "--remove", "a"), "--attribute and --remove both name a"),
    ],
)
def test_a_change_in_another_form_is_wrong_usage(args: tuple[str, ...], why: str) -> None:
    done = run("player", "set", "zoe", *args)
    assert (done.code, done.out) == (2, "")
    assert why in done.err


def test_players_are_found_page_by_page(at: Ask) -> None:
    defined(at, "found")
    for player in ("wim", "wil", "wolf"):
        assert at("submit", "found", player, 1).code == 0
    assert at("player", "set", "u1", "--name", "WILMA", "--attribute", "region=eu").code == 0
    page = told(at("player", "find", "wi", "--json"))
    assert [one["player"] for one in page["players"]] == ["u1", "wil", "wim"]
    first = at("player", "find", "wi", "-n", "1")
    assert first.out.splitlines() == ["player  name   attributes", "u1      WILMA  region=eu"]
    assert first.err == "there are more: --after u1\n"
    rest = told(at("player", "find", "wi", "--after", "u1", "--json"))
    assert [one["player"] for one in rest["players"]] == ["wil", "wim"]


def test_a_player_of_whom_only_scores_are_known_is_shown(at: Ask) -> None:
    defined(at, "plain")
    assert at("submit", "plain", "sam", 3).code == 0
    assert told(at("player", "show", "sam", "--json"))["attributes"] == {}
    assert at("player", "show", "sam", "--window", "hourly").out.startswith("sam · as of ")
    unknown = at("player", "show", "nobody-at-all")
    assert (unknown.code, unknown.out) == (1, "")
    assert "`rankd player find`" in unknown.err


def test_a_history_is_shown_newest_first(at: Ask) -> None:
    defined(at, "told")
    assert at("submit", "told", "tom", 30, "--key", f"t1-{id(at)}").code == 0
    assert at("submit", "told", "tom", -5, "--delta").code == 0
    found = told(at("history", "told", "tom", "--json"))
    assert [(one.get("score"), one.get("delta")) for one in found["facts"]] == [
        (None, -5),
        (30, None),
    ]
    lines = at("history", "told", "tom").out.splitlines()
    assert lines[0].startswith("told · tom · as of ")
    assert lines[1].split() == ["position", "at", "score", "delta", "key"]
    assert [line.split()[2] for line in lines[2:]] == ["-5", "30"]
    page = at("history", "told", "tom", "--limit", "1")
    before = found["facts"][0]["position"]
    assert page.err == f"there may be more: --before {before}\n"
    older = told(at("history", "told", "tom", "--before", before, "--json"))
    assert [one["score"] for one in older["facts"]] == [30]
    at_first = found["facts"][1]["at"]
    assert told(at("history", "told", "tom", "--until", at_first, "--json"))["facts"] == []
    since = told(at("history", "told", "tom", "--since", at_first, "--json"))
    assert len(since["facts"]) == 2
    wrong = at("history", "told", "tom", "--since", "yesterday")
    assert wrong.code == 1
    assert "since must be a time such as" in wrong.err


def test_a_history_of_several_columns_names_each(at: Ask) -> None:
    columns = 'columns=[{"name": "wins"}, {"name": "minutes", "direction": "lower"}]'
    assert at("board", "apply", "columns", "--set", columns).code == 0
    assert at("submit", "columns", "uma", 3, "--column", "minutes=12").code == 0
    assert "wins 3, minutes 12" in at("history", "columns", "uma").out
