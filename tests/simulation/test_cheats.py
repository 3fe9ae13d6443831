"""The recommended rules tell cheats from honest players, as the documentation says."""

from pathlib import Path
from random import Random

import pytest
from tests.simulation.cheats import CHEATS, RULES, Caught, judge, main, report

PAGE = Path(__file__).parents[2] / "docs" / "keeping-it-honest.md"


@pytest.fixture(scope="module")
def found() -> Caught:
    return judge(Random(2026), 2_000, 100)


def test_every_kind_of_cheat_is_caught_and_few_honest_players_are(found: Caught) -> None:
    hit = {kind: len(found.players["any"][kind]) for kind in CHEATS}
    assert min(hit.values()) >= 50, hit
    assert len(found.players["submissions_per_minute"]["replayed"]) == 100
    strict = [str(rule["rule"]) for rule in RULES if rule["then"] != "flag"]
    wrongly = set().union(*(found.players[rule]["honest"] for rule in strict))
    assert len(wrongly) <= 20


def test_the_table_in_the_documentation_is_that_of_the_program(
    found: Caught, capsys: pytest.CaptureFixture[str]
) -> None:
    page = PAGE.read_text()
    assert [line for line in report(found, 2_000, 100) if line not in page] == []
    assert main(["--players", "200", "--cheats", "2"]) == 0
    assert "of honest players" in capsys.readouterr().out
