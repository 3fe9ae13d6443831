"""The commands of windows, against a service and on a folder."""

import json
from pathlib import Path

from tests.cli.running import run, serving


def test_windows_are_listed_reset_frozen_and_settled(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        at = ("--url", served.url)
        run("board", "apply", "arena", "--set", "windows=all,daily", *at)
        run("submit", "arena", "ann", "5", *at)
        again = ("window", "reset", "arena", "daily", "--reason", "a bug", "--yes", *at)
        first, second = run(*again), run(*again)
        assert (first.code, second.code) == (0, 0)
        assert "is sealed, and daily:" in first.out
        assert second.out.endswith("it was before\n")
        assert (
            "is frozen"
            in run("window", "freeze", "arena", "daily", "--reason", "a bug", "--yes", *at).out
        )
        listed = json.loads(run("window", "list", "arena", "--json", *at).out)
        assert sorted(one["state"] for one in listed["windows"]) == [
            "frozen",
            "open",
            "scheduled",
            "sealed",
        ]
        refused = run("window", "reset", "arena", "weekly", "--reason", "x", "--yes", *at)
        assert refused.code == 1
        assert run("window", "reset", "arena", "daily", "--yes", *at).code == 2
        schedule = run("window", "schedule", "arena", "--next", "2", *at)
        assert [line.split()[-2] for line in schedule.out.splitlines()[-2:]] == ["closes", "opens"]
    here = ("--data", tmp_path / "data")
    settled = run("window", "settle", "arena", "all", "--reason", "over", "--yes", *here)
    assert settled.out == "all is final\n"
    shown = json.loads(run("window", "list", "arena", "--json", *here).out)
    assert "final" in {one["state"] for one in shown["windows"]}
