"""The made-up kind of fact of docs/adding-a-fact.md, in an engine and after a restart."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.core.callers import scores, submit
from tests.unit.core.doubles import engine

from rankd.adapters.sqlite.ledger import SQLiteLedger
from rankd.core import fold_handlers
from rankd.core import state as state_module
from rankd.core.state import Savepoint
from rankd.model import facts as facts_module
from rankd.model.facts import Fact, Position, Recorded
from rankd.testing.contracts.ledger import NOW

pytestmark = pytest.mark.anyio
PAGE = Path(__file__).parents[3] / "docs" / "adding-a-fact.md"


@pytest.fixture
def doubled(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Fact]]:
    """Run the example of the page, and forget its kind afterwards."""
    monkeypatch.setattr(state_module, "_HANDLERS", dict(state_module._HANDLERS))
    monkeypatch.setattr(fold_handlers, "_HANDLERS", dict(fold_handlers._HANDLERS))
    monkeypatch.setattr(facts_module.CODEC, "_decoders", dict(facts_module.CODEC._decoders))
    example = PAGE.read_text().partition("```python\n")[2].partition("```")[0]
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(example, str(PAGE), "exec"), names)
    yield names["ScoreDoubled"]


async def test_new_kind_moves_entries_and_changes_the_state(
    doubled: type[Fact], tmp_path: Path
) -> None:
    async with SQLiteLedger.open(tmp_path) as ledger, engine(ledger) as rankd:
        await rankd.define("b", {"rule": "sum", "windows": ["all", "daily"], "ties": "dense"})
        await submit(rankd, "ann", 10)
        await submit(rankd, "bob", 15)
        await rankd._put(doubled("b", "ann"))
        await rankd._put(doubled("b", "unknown"))
        assert await scores(rankd) == {"ann": 20, "bob": 15}
        assert (await rankd.reader.page("b", window="daily")).standings[0].player == "ann"
        assert rankd.state.doubled == 2  # type: ignore[attr-defined]


async def test_new_kind_is_read_again_after_a_restart(doubled: type[Fact], tmp_path: Path) -> None:
    async with SQLiteLedger.open(tmp_path) as ledger, engine(ledger) as rankd:
        await rankd.define("b", {"rule": "best", "windows": ["all"], "segments": ["region"]})
        await rankd.submit("b", [{"player": "ann", "score": 10, "attributes": {"region": "eu"}}])
        await rankd._put(doubled("b", "ann"))
    async with SQLiteLedger.open(tmp_path) as ledger, engine(ledger) as rankd:
        page = await rankd.reader.page("b", segment="region:eu")
        assert [one.scores for one in page.standings] == [(20,)]
        async for _ in ledger.verify():
            pass


async def test_new_kind_is_undone_by_a_savepoint(doubled: type[Fact]) -> None:
    state = state_module.State()
    mark = Savepoint(state)
    state.note(Recorded(Position(1), NOW, doubled("b", "ann")))
    mark.go_back()
    assert not hasattr(state, "doubled")
