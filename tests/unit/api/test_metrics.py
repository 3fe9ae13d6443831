"""Figures in the text format of Prometheus."""

import os
import re
from dataclasses import replace

import pytest
from tests.unit.api.handling import working

from rankd._version import __version__
from rankd.api.exposition import render
from rankd.api.metrics import collect
from rankd.errors import LedgerUnavailable

pytestmark = pytest.mark.anyio
SAMPLE = re.compile(r"(?P<name>[a-z_]+)(\{(?P<labels>[^}]*)\})? (?P<value>[0-9.]+)")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def samples(text: bytes) -> dict[str, float]:
    """Read the figures, those of a manager with its label; each family has its help and type."""
    found: dict[str, float] = {}
    families: set[str] = set()
    family = ""
    for line in text.decode().splitlines():
        if line.startswith("# HELP "):
            family = line.split()[2]
            assert family not in families and line.endswith(".")
            families.add(family)
        elif line.startswith("#"):
            assert line in (f"# TYPE {family} gauge", f"# TYPE {family} counter")
        else:
            match = SAMPLE.fullmatch(line)
            assert match is not None and match["name"] == family, line
            labels = match["labels"] or ""
            name = f"{family}{{{labels}}}" if labels.startswith(("manager=", "event=")) else family
            assert name not in found
            found[name] = float(match["value"])
    return found


async def test_figures_tell_how_the_engine_is() -> None:
    async with working() as at:
        await at.define()
        for score in range(3):
            await at.submit("p", score)
        await at.ask("put_player", {"player": "p"}, {"name": "Ann"})
        found = samples(render(collect(at.service)))
        assert found["rankd_position"] == at.service.rankd.position == 5
        assert (found["rankd_boards"], found["rankd_profiles"]) == (1, 1)
        assert (found["rankd_up"], found["rankd_waiting_facts"]) == (1, 0)
        assert found["rankd_commits_total"] >= 5
        assert found["rankd_unsaved_facts"] == 5
        assert found["process_resident_memory_max_bytes"] > 1 << 20


async def test_figures_tell_which_rules_are_broken() -> None:
    async with working() as at:
        await at.define(rules=[{"rule": "first_score", "max": 5, "then": "hold"}])
        await at.submit("p", 6)
        text = render(collect(at.service)).decode()
        labels = 'board="b",rule="first_score",then="hold"'
        assert f"\nrankd_rules_total{{{labels}}} 1\n" in text


async def test_an_engine_that_takes_no_more_says_so() -> None:
    async with working() as at:
        await at.define()
        at.ledger.fail(applied="unknown")
        with pytest.raises(LedgerUnavailable):
            await at.submit("p", 1)
        assert samples(render(collect(at.service)))["rankd_up"] == 0


async def test_figures_say_which_process_they_are_of() -> None:
    async with working() as at:
        for process in ("writer", "worker-1"):
            service = replace(at.service, process=process, node='a "b" \\', role="query")
            who = f'node="a \\"b\\" \\\\",role="query",process="{process}",pid="{os.getpid()}"'
            labels = f'version="{__version__}",{who}'
            assert f"\nrankd_info{{{labels}}} 1\n" in render(collect(service)).decode()
