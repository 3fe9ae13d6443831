"""The part of the ledger that was seen: it only grows, and each server is compared with it."""

from types import SimpleNamespace
from typing import Any

import pytest

from rankd.adapters.postgres.connection import AppendEnd, LedgerHistory
from rankd.adapters.postgres.database import PostgresAddress
from rankd.adapters.postgres.rows import GENESIS
from rankd.errors import LedgerUnavailable
from rankd.model.facts import Position

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def test_what_was_seen_never_gets_less() -> None:
    history = LedgerHistory()
    assert (history.append, history.position) == (AppendEnd(Position(0), GENESIS), 0)
    history.note(Position(5), b"five")
    history.note(Position(3), b"three")
    history.note_fact(Position(4))
    assert (history.append, history.position) == (AppendEnd(Position(5), b"five"), 5)
    history.note_fact(Position(9))
    assert (history.append, history.position) == (AppendEnd(Position(5), b"five"), 9)


@pytest.mark.parametrize(
    ("head", "link", "said"),
    [
        (9, b"five", None),
        (12, b"five", None),
        (8, b"five", "ends at 8"),
        (0, None, "ends at 0"),
        (9, b"other", "another ledger"),
        (9, None, "another ledger"),
    ],
)
async def test_a_server_is_the_right_one_if_it_has_what_was_seen(
    head: int, link: bytes | None, said: str | None
) -> None:
    history = LedgerHistory()
    history.note(Position(5), b"five")
    history.note_fact(Position(9))

    async def fetchrow(_query: str, last: int, **_: Any) -> dict[str, Any]:
        assert last == 5
        return {"head": head, "link": link}

    server: Any = SimpleNamespace(fetchrow=fetchrow)
    comparing = history.compare(server, PostgresAddress(""), seconds_max=1.0)
    if said is None:
        await comparing
        return
    with pytest.raises(LedgerUnavailable, match=said) as refusal:
        await comparing
    assert refusal.value.applied == "no"
