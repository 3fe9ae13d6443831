"""Standings as of a past position from the command line, with a service and with a data folder."""

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
        assert run("board", "apply", "first", "--data", "past").code == 0
        return lambda *args, **more: run(*args, "--data", "past", **more)
    return lambda *args, **more: run(*args, RANKD_URL=service.url, **more)


def told(done: Ran) -> dict[str, Any]:
    assert done.code == 0, done
    found: dict[str, Any] = json.loads(done.out)
    return found


def test_standings_are_shown_as_they_were(at: Ask) -> None:
    assert at("board", "apply", "then", "--set", "windows=all", "--yes").code == 0
    for player, score in (("ann", 10), ("bob", 15)):
        assert at("submit", "then", player, score).code == 0
    shown = {
        command: told(at(*command, "--json"))
        for command in [("top", "then"), ("standing", "then", "ann"), ("around", "then", "ann")]
    }
    position = shown["top", "then"]["as_of"]
    assert at("submit", "then", "ann", 99).code == 0
    for command, before in shown.items():
        assert told(at(*command, "--json")) != before
        assert told(at(*command, "--as-of", position, "--json")) == before
    refused = at("top", "then", "--at", "2020-01-01T00:00:00Z")
    assert (refused.code, "nothing is known so far back" in refused.err) == (1, True)
    assert at("top", "then", "--as-of", "-1").code == 2


def test_a_folder_in_use_is_read_without_bounds(service: Served) -> None:
    ask: Ask = lambda *args: run(*args, RANKD_URL=service.url)  # noqa: E731
    assert ask("board", "apply", "used", "--set", "windows=all", "--yes").code == 0
    assert ask("submit", "used", "ann", 10).code == 0
    before = told(ask("top", "used", "--json"))
    assert ask("submit", "used", "ann", 20).code == 0
    position = before["as_of"]
    folder = run("top", "used", "--as-of", position, "--data", service.folder, "--json")
    assert told(folder) == before


def test_a_rank_over_time_is_plotted(at: Ask) -> None:
    assert at("board", "apply", "plotted", "--set", "windows=all", "--yes").code == 0
    assert at("submit", "plotted", "ann", 10).code == 0
    shown = at("history", "plotted", "ann", "--ranks", "--grain", "hour")
    assert shown.code == 0
    assert "now rank 1 of 1, score 10" in shown.out
    assert "█" in shown.out
    found = told(at("history", "plotted", "ann", "--ranks", "--json"))
    assert found["points"][-1]["rank"] == 1
    nobody = at("history", "plotted", "nobody", "--ranks")
    assert nobody.out.endswith("not ranked at any of these times\n")
    assert at("history", "plotted", "ann", "--grain", "day").code == 2
