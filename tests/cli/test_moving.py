"""From a folder to PostgreSQL by the command: everything is there, and nobody begins without it."""

import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from tests.cli.running import process, run, serving
from tests.simulation.postgres_servers import new_ledger

from rankd.adapters.postgres import PostgresLedger
from rankd.client import Client
from rankd.errors import LedgerUnavailable
from rankd.model.facts import Recorded
from rankd.ports import StoredReceipt
from rankd.testing.servers import PostgresServer

pytestmark = pytest.mark.timeout(120)

DEFINITION = [
    "--set",
    "rule=sum",
    "--set",
    'windows=["all","daily"]',
    "--set",
    'segments=["region"]',
]


@pytest.fixture
def ledger(shared_postgres: PostgresServer) -> str:
    return new_ledger(shared_postgres.url)


def do(*args: object, **env: str) -> str:
    done = run(*args, **env)
    assert done.code == 0, done.err
    return done.out


def fill(folder: str) -> None:
    """Make a folder of some facts."""
    do("board", "apply", "b", *DEFINITION, "--data", folder)
    rows = [f"p{n % 7},{n},{'eu' if n % 2 else 'us'},key-{n}" for n in range(50)]
    Path("s.csv").write_text("\n".join(["player,score,region,key", *rows]))
    do("import", "s.csv", "--board", "b", "--data", folder)


def standings(place: str) -> list[str]:
    asked: list[list[str]] = [[], ["--segment", "region:eu"]]
    return [do("top", "b", "--json", *more, "--data", place) for more in asked]


def failing_at(position: int) -> Callable[..., Awaitable[None]]:
    """Return what takes facts over until it comes to one."""
    take_over = PostgresLedger.take_over

    async def taking(
        ledger: PostgresLedger, facts: Sequence[Recorded], *, receipts: Sequence[StoredReceipt] = ()
    ) -> None:
        if facts[0].position >= position:
            raise LedgerUnavailable("the power is gone", applied="unknown")
        await take_over(ledger, facts, receipts=receipts)

    return taking


def test_a_service_moves_to_postgresql_with_everything_it_knows(
    tmp_path: Path, ledger: str
) -> None:
    key = do("keys", "create", "--scope", "admin", "--data", "data").strip()
    fill("data")
    with serving(tmp_path) as one, Client(one.url, key) as client:
        told = client.submit("b", "ada", 4800, key="match-1", attributes={"region": "eu"})
        client.set_profile("ada", name="Ada")
        page = client.page("b", limit=3)
    do("backup", "copy", "--data", "data")
    assert "is restored from copy, and whole" in do("restore", "copy", "--data", ledger)
    assert standings(ledger) == standings("data")
    assert "is whole" in do("verify", "--data", ledger)

    (tmp_path / "node").mkdir()
    with serving(tmp_path / "node", "--ledger", ledger) as node, Client(node.url, key) as client:
        again = client.submit("b", "ada", 4800, key="match-1", attributes={"region": "eu"})
        assert again.duplicate
        assert (again.position, again.rank) == (told.position, told.rank)
        assert client.page("b", limit=3, cursor=page.next_cursor).standings[0].rank == 4
        assert client.profile("ada").name == "Ada"
        fresh = client.submit("b", "bob", 9000, key="match-2")
        assert told.position is not None
        assert fresh.position == told.position + 2
    with serving(tmp_path, "--ledger", ledger) as old, Client(old.url, key) as client:
        assert client.standing("b", "bob").rank == 1  # Not as the index saved there has it.


def test_there_is_a_way_back(tmp_path: Path, ledger: str) -> None:
    fill("data")
    do("restore", "data", "--data", ledger)
    do("submit", "b", "ada", 4800, "--data", ledger)
    assert "is restored from postgresql://" in do("restore", ledger, "--data", "back")
    assert standings("back") == standings(ledger)
    assert "is whole: 52 facts" in do("verify", "--data", "back")
    do("restore", ledger, "--data", "data")  # What that folder holds is the beginning of it.
    assert standings("data") == standings(ledger)
    do("submit", "b", "bob", 1, "--data", "data")
    refused = run("restore", ledger, "--data", "data")
    assert refused.code == 1
    assert "1 that came since" in refused.err


def test_a_node_does_not_start_empty_beside_a_folder_with_facts(
    tmp_path: Path, ledger: str
) -> None:
    fill("data")
    refused = process("serve", "--data", "data", "--ledger", ledger, "--port", 0, cwd=tmp_path)
    assert refused.code == 1
    assert "data holds a ledger of 51 facts" in refused.err
    assert "rankd restore data --data 'postgresql://" in refused.err
    assert "Traceback" not in refused.err

    do("restore", "data", "--data", ledger)
    with serving(tmp_path, "--ledger", ledger) as node, Client(node.url) as client:
        assert client.submit("b", "ada", 1).position == 52
    with serving(tmp_path, "--ledger", ledger):
        pass  # Though the folder has less by now.
    refused = run("restore", "data", "--data", ledger)
    assert refused.code == 1
    assert "1 that came since" in refused.err


def test_a_node_over_facts_of_its_own_ignores_the_folder(tmp_path: Path, ledger: str) -> None:
    do("board", "apply", "other", "--data", ledger)
    fill("data")
    with serving(tmp_path, "--ledger", ledger) as node, Client(node.url) as client:
        assert [board.name for board in client.boards().boards] == ["other"]
    other = tmp_path / "other"
    (other / "data").mkdir(parents=True)
    (other / "data" / "ledger.db").write_bytes(b"nothing that anybody can read")
    with serving(other, "--ledger", ledger):
        pass
    refused = run("restore", "data", "--data", ledger)
    assert refused.code == 1
    assert "holds facts already, and not those of data" in refused.err
    assert "?schema=" in refused.err


def test_a_copy_that_was_broken_off_serves_nobody_and_goes_on(
    tmp_path: Path, ledger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill("data")
    with monkeypatch.context() as patched:
        patched.setattr("rankd.core.transfer.PAGE_FACTS", 10)
        patched.setattr(PostgresLedger, "take_over", failing_at(21))
        broken = run("restore", "data", "--data", ledger)
    assert broken.code == 1
    assert "the power is gone; repeat the command" in broken.err
    for command in (["verify"], ["top", "b"], ["submit", "b", "ann", "5"]):
        refused = run(*command, "--data", ledger)
        assert refused.code == 1
        assert "a copy of data into this ledger was not finished" in refused.err
    do("restore", "data", "--data", ledger)
    assert json.loads(do("verify", "--json", "--data", ledger))["position"] == 51
    assert standings(ledger) == standings("data")


def test_what_is_no_ledger_is_not_made_into_one(tmp_path: Path, ledger: str) -> None:
    (tmp_path / "empty").mkdir()
    refused = run("restore", "empty", "--data", ledger)
    assert refused.code == 1
    assert "empty holds no ledger" in refused.err
    assert list((tmp_path / "empty").iterdir()) == []
    refused = run("restore", "empty", "--data", "mysql://there/is")
    assert refused.code == 1 and "ledger must be" in refused.err
    refused = run("restore", "mysql://there/is", "--data", "d")
    assert refused.code == 1 and "postgresql://" in refused.err
    assert not (tmp_path / "d").exists()


def test_a_folder_that_is_served_is_not_copied(tmp_path: Path, ledger: str) -> None:
    with serving(tmp_path):
        refused = run("restore", "data", "--data", ledger)
    assert refused.code == 1
    assert "stop it first" in refused.err
