"""The commands for reviews, over a data folder."""

import json
from pathlib import Path

from click.testing import CliRunner, Result

import rankd
from rankd.cli import main


def run(folder: Path, *command: str) -> Result:
    name, verb, *rest = command
    return CliRunner().invoke(main, [name, verb, "--data", str(folder), *rest])


def test_a_review_is_listed_shown_and_decided(tmp_path: Path) -> None:
    rules = [{"rule": "first_score", "max": 5, "then": "hold"}]
    with rankd.open(tmp_path) as ranks:
        receipt = ranks.board("arena", rules=rules).submit("ann", 90)
        other = ranks.board("arena").submit("bob", 70)
        assert receipt.review is not None and other.review is not None
        assert [one.score for one in ranks.reviews("arena", state="held")] == [70, 90]
    listed = run(tmp_path, "review", "list")
    assert listed.exit_code == 0 and "first_score" in listed.stdout
    assert "2 wait for a decision" in listed.stderr
    found = json.loads(run(tmp_path, "review", "list", "--limit", "1", "--json").stdout)
    assert [one["id"] for one in found["reviews"]] == [other.review]
    shown = run(tmp_path, "review", "show", receipt.review).stdout
    assert "ann on arena, 90" in shown and "first_score" in shown
    done = run(tmp_path, "review", "approve", receipt.review, "--reason", "filmed")
    assert done.stdout == f"review {receipt.review} is approved: 1 entry changed\n"
    done = run(tmp_path, "review", "reject", other.review)
    assert done.stdout == f"review {other.review} is rejected: 0 entries changed\n"
    assert run(tmp_path, "review", "show", "1").exit_code == 1
    with rankd.open(tmp_path) as ranks:
        assert [one.player for one in ranks.board("arena").top()] == ["ann"]
        assert ranks.reviews(state="held") == []


def test_rules_are_tried_before_they_are_applied(tmp_path: Path) -> None:
    with rankd.open(tmp_path) as ranks:
        ranks.board("arena").submit("ann", 90)
        rules = [{"rule": "first_score", "max": 5, "then": "hold"}]
        found = ranks.board("arena").preview_rules(rules=rules)
        assert (found.caught, found.rules[0].examples[0].player) == (1, "ann")
    sets = ["--set", f"rules={json.dumps(rules)}"]
    command = ["board", "apply", "arena", "--data", str(tmp_path), *sets, "--preview-rules"]
    shown = CliRunner().invoke(main, command)
    assert shown.exit_code == 0, shown.output
    assert "first_score" in shown.stdout and "ann" in shown.stdout
    assert "1 of 1 submissions" in shown.stderr
    with rankd.open(tmp_path) as ranks:
        assert ranks.board("arena").definition["rules"] == []
