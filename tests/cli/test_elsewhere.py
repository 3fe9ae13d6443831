"""Commands on a ledger in PostgreSQL and an index in Redis, found as the service finds them."""

from collections.abc import Iterator

import pytest
from tests.cli.running import run
from tests.simulation.postgres_servers import new_ledger, postgres

from rankd.testing.servers import redis_server


@pytest.fixture(scope="module")
def ledger() -> Iterator[str]:
    with postgres() as server:
        yield new_ledger(server.url)


@pytest.fixture(scope="module")
def index() -> Iterator[str]:
    with redis_server() as server:
        yield server.url


@pytest.mark.timeout(120)
def test_care_is_taken_of_the_ledger_and_the_index_that_the_settings_name(
    ledger: str, index: str
) -> None:
    env = {"RANKD_LEDGER": ledger, "RANKD_INDEX": index}
    assert run("board", "apply", "b", "--data", ledger).code == 0
    assert run("submit", "b", "ann", "5", "--data", ledger).code == 0
    done = run("verify", **env)
    assert "is whole: 2 facts" in done.out, done.err
    done = run("rebuild", **env)
    assert "is new as of 2" in done.out, done.err
    examined = run("doctor", **env).out
    assert "PostgreSQL" in examined
    assert "server time" in examined and "ledger time" in examined
    refused = run("backup", "copy", **env)
    assert refused.code == 1 and "pg_dump" in refused.err
    refused = run("restore", ".", **env)
    assert refused.code == 1 and "holds no ledger" in refused.err
