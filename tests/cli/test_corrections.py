"""Corrections from the command line, with a service and with a data folder alike."""

import json
from collections.abc import Callable
from getpass import getuser
from typing import Any

import pytest
from tests.cli.running import Ran, Served, run

from rankd.cli.folder import opened
from rankd.http_client import HttpRequest

Ask = Callable[..., Ran]


@pytest.fixture(params=["service", "folder"])
def at(request: pytest.FixtureRequest, service: Served) -> Ask:
    """A command that goes to a service, or to a data folder."""
    if request.param == "folder":
        assert run("board", "apply", "first", "--data", "corrected").code == 0
        return lambda *args, **more: run(*args, "--data", "corrected", **more)
    return lambda *args, **more: run(*args, RANKD_URL=service.url, **more)


def told(done: Ran) -> dict[str, Any]:
    assert (done.code, done.err) == (0, ""), done
    found: dict[str, Any] = json.loads(done.out)
    return found


def top(at: Ask, board: str) -> dict[str, int]:
    return {one["player"]: one["score"] for one in told(at("top", board, "--json"))["standings"]}


def filled(at: Ask, board: str) -> None:
    assert at("board", "apply", board, "--set", "windows=all", "--yes").code == 0
    for player, score in (("ann", 10), ("bob", 15), ("ann", 99)):
        assert at("submit", board, player, score).code == 0


def test_a_retraction_shows_its_changes_and_asks_first(at: Ask) -> None:
    filled(at, "asked")
    shown = at("retract", "asked", "--score-min", 50, "--dry-run")
    assert shown.code == 0
    assert [line.split() for line in shown.out.splitlines()[:2]] == [
        ["board", "player", "window", "score", "before", "rank", "was"],
        ["asked", "ann", "all", "-", "99", "1"],
    ]
    last = "2 submissions of 1 player would be retracted; nothing was changed"
    assert shown.out.splitlines()[-1] == last
    refused = at("retract", "asked", "--score-min", 50, stdin="n\n")
    assert (refused.code, "Retract 2 submissions of 1 player?" in refused.err) == (1, True)
    assert top(at, "asked") == {"ann": 99, "bob": 15}
    agreed = at("retract", "asked", "--score-min", 50, "--reason", "a bot", stdin="y\n")
    assert (agreed.code, top(at, "asked")) == (0, {"bob": 15})
    position = int(agreed.out.rpartition("--undo ")[2].split()[0])
    nothing = at("retract", "asked", "--player", "ann", "--yes")
    assert nothing.out == "nothing to do: no submission that is selected would change\n"
    undone = told(at("retract", "asked", "--undo", position, "--yes", "--json"))
    assert (undone["submissions"], top(at, "asked")) == (2, {"ann": 99, "bob": 15})


def test_a_command_in_a_folder_records_its_user_and_no_address() -> None:
    def at(*args: Any, **more: Any) -> Ran:
        return run(*args, "--data", "audited", **more)

    filled(at, "audited")
    assert at("player", "ban", "ann", "--reason", "a bot").code == 0
    with opened("audited") as folder:
        answer = folder.send(HttpRequest("GET", "/v1/facts", {}, None))
    facts = json.loads(answer.body)["facts"]
    actors = {fact["kind"]: fact["actor"] for fact in facts}
    user = f"cli:{getuser()}"
    assert (actors["board_defined"], actors["player_state_set"]) == (user, user)
    assert (actors["score_submitted"], {fact["address"] for fact in facts}) == (None, {None})


def test_what_corrections_left_out_is_shown_in_the_history_and_listed(at: Ask) -> None:
    filled(at, "listed")
    plain = at("history", "listed", "ann")
    assert "status" not in plain.out
    assert at("retract", "listed", "--score-min", 50, "--reason", "a bot", "--yes").code == 0
    ban = at("player", "ban", "bob", "--board", "listed", "--reason", "threats")
    assert (ban.code, at("submit", "listed", "ann", 7).code) == (0, 0)
    assert [
        one.get("status", "recorded")
        for one in told(at("history", "listed", "ann", "--json"))["facts"]
    ] == ["recorded", "retracted", "retracted"]
    assert at("history", "listed", "ann").out.count("retracted") == 2
    listed = at("board", "corrections", "listed")
    assert (listed.code, {"ann", "bob"} & set(listed.out.split())) == (0, set())
    assert [line.split()[2:] for line in listed.out.splitlines()[1:]] == [
        ["scores_retracted", "a", "bot"],
        ["player_state_set", "(banned)", "threats"],
    ]
    first = at("board", "corrections", "listed", "--limit", 1)
    rest = at("board", "corrections", "listed", *first.err.strip().split()[-2:])
    pages = [*first.out.splitlines()[1:], *rest.out.splitlines()[1:]]
    assert [one.split() for one in pages] == [one.split() for one in listed.out.splitlines()[1:]]


def test_an_earlier_edition_of_a_closed_window_is_shown(at: Ask) -> None:
    assert at("board", "apply", "closed", "--set", "windows=all,daily", "--yes").code == 0
    for player, score in (("ann", 99), ("bob", 15)):
        assert at("submit", "closed", player, score).code == 0
    assert at("window", "reset", "closed", "daily", "--reason", "over", "--yes").code == 0
    windows = told(at("board", "windows", "closed", "--json"))["windows"]
    (sealed,) = (one["window"] for one in windows if one["state"] == "sealed")
    assert at("retract", "closed", "--player", "ann", "--yes").code == 0
    now = told(at("top", "closed", "--window", sealed, "--json"))["standings"]
    then = told(at("top", "closed", "--window", sealed, "--edition", 1, "--json"))["standings"]
    assert [one["player"] for one in now] == ["bob"]
    assert [one["player"] for one in then] == ["ann", "bob"]
    ranked = at("standing", "closed", "bob", "--window", sealed, "--edition", 1)
    assert "rank 2 of 2" in ranked.out


def test_a_position_is_retracted_on_every_board(at: Ask) -> None:
    filled(at, "everywhere")
    found = told(at("history", "everywhere", "ann", "--json"))["facts"]
    best = found[0]["position"]
    effect = told(
        at("retract", "--all-boards", "--position", best, "--yes", "--json", "--reason", "typo")
    )
    assert (effect["submissions"], effect["changes"][0]["score"]) == (1, 10)
    assert top(at, "everywhere") == {"bob": 15, "ann": 10}
    assert at("retract", "--all-boards", "--undo", effect["position"], "--yes").code == 0
    assert top(at, "everywhere") == {"ann": 99, "bob": 15}


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (("b",), "say which submissions"),
        (("--player", "ann"), "name one BOARD, or --all-boards"),
        (("b", "--all-boards", "--player", "ann"), "name one BOARD, or --all-boards"),
        (("b", "--undo", 3, "--player", "ann"), "say which submissions"),
    ],
)
def test_a_retraction_in_another_form_is_wrong_usage(args: tuple[Any, ...], why: str) -> None:
    done = run("retract", *args, "--data", "nowhere")
    assert (done.code, why in done.err) == (2, True), done


def test_a_score_is_adjusted(at: Ask) -> None:
    filled(at, "adjusted")
    done = at("adjust", "adjusted", "ann", -5, "--delta", "--key", "once", "--reason", "typo")
    assert done.code == 0
    assert done.out.endswith(": rank 1 of 2, score 94\n")
    assert told(at("adjust", "adjusted", "ann", 3, "--json"))["score"] == 3
    assert top(at, "adjusted") == {"bob": 15, "ann": 3}


def test_a_player_is_banned_shown_and_restored(at: Ask) -> None:
    filled(at, "banned")
    done = at("player", "ban", "ann", "--reason", "a bot", "--board", "banned")
    assert done.out.startswith("ann is banned on banned as of ")
    assert top(at, "banned") == {"bob": 15}
    refused = at("submit", "banned", "ann", 1)
    assert (refused.code, "banned" in refused.err) == (1, True)
    lines = [line.split() for line in at("player", "show", "ann").out.splitlines()]
    assert ["banned", "banned", "a", "bot"] in [line[:4] for line in lines]
    for verb, state in (("hide", "hidden"), ("shadow", "shadowed")):
        shown = told(at("player", verb, "ann", "--until", "2099-01-01T00:00:00Z", "--json"))
        assert (shown["state"], shown["states"][-1]["until"]) == (state, "2099-01-01T00:00:00Z")
    assert at("player", "restore", "ann").out.startswith("ann is active on every board as of ")
    assert top(at, "banned") == {"ann": 99, "bob": 15}
