"""A folder without a service: the same commands, care of it, and its keys."""

import json
from pathlib import Path

from tests.cli.running import run, serving

from rankd.client import Client


def test_a_folder_is_filled_verified_backed_up_and_restored(tmp_path: Path) -> None:
    def do(*args: object) -> str:
        done = run(*args)
        assert done.code == 0, done.err
        return done.out

    do("board", "apply", "global", "--set", "rule=sum", "--data", "d")
    (tmp_path / "s.csv").write_text("player,score\nann,10\nbob,20\nann,15\n")
    do("import", "s.csv", "--board", "global", "--data", "d")
    before = do("top", "global", "--json", "--data", "d")
    assert [row["player"] for row in json.loads(before)["standings"]] == ["ann", "bob"]

    assert "is whole" in do("verify", "--data", "d")
    do("backup", "b", "--data", "d")
    do("restore", "b", "--data", "e")
    do("rebuild", "--data", "e")
    assert "is whole" in do("verify", "--data", "e")
    assert do("top", "global", "--json", "--data", "e") == before

    again = run("restore", "b", "--data", "e")
    assert again.code == 1
    assert "holds a ledger already" in again.err


def test_a_folder_with_nothing_in_it_is_not_made_into_one(tmp_path: Path) -> None:
    for command in (["verify"], ["top", "global"], ["board", "apply", "b", "--dry-run"]):
        done = run(*command, "--data", "nowhere")
        assert done.code == 1
        assert "holds no data" in done.err
        assert not (tmp_path / "nowhere").exists()


def test_damage_is_found(tmp_path: Path) -> None:
    assert run("board", "apply", "b", "--data", "d").code == 0
    ledger = tmp_path / "d" / "ledger.db"
    data = bytearray(ledger.read_bytes())
    data[4096:] = bytes(len(data) - 4096)
    ledger.write_bytes(data)
    done = run("verify", "--data", "d")
    assert done.code == 1
    assert "Traceback" not in done.err


def test_a_key_made_offline_is_asked_for_online_and_shown_once(tmp_path: Path) -> None:
    made = run("keys", "create", "--scope", "admin", "--data", "data")
    assert made.code == 0, made.err
    key = made.out.strip()
    assert made.out.count("\n") == 1
    assert key not in made.err
    with serving(tmp_path) as served:
        where = {"RANKD_URL": served.url}
        stranger = run("board", "list", **where)
        assert stranger.code == 1
        assert "RANKD_KEY" in stranger.err

        known = {**where, "RANKD_KEY": key}
        listed = run("keys", "list", "--json", **known)
        assert listed.code == 0, listed.err
        assert key not in listed.out + listed.err
        assert [each["scopes"] for each in json.loads(listed.out)["keys"]] == [["admin"]]

        with Client(served.url, key) as client:
            reader = client.create_key(["read"], title="page")
            assert len(client.keys().keys) == 2
        env = {**where, "RANKD_KEY": str(reader.key)}
        weak = run("board", "apply", "b", **env)
        assert weak.code == 1
        assert "admin" in weak.err
        assert str(reader.key) not in weak.err

        assert run("keys", "revoke", reader.id, **known).code == 0
        assert run("board", "list", **env).code == 1
        assert key not in served.log.read_text()


def test_the_doctor_looks_at_the_folder_and_leaves_nothing(tmp_path: Path) -> None:
    done = run("doctor", "--data", ".")
    lines = {line.split(maxsplit=2)[1]: line for line in done.out.splitlines()}
    assert {"Python", "SQLite", "durability", "disk", "clock"} <= set(lines)
    assert lines["durability"].startswith("ok")
    assert "WAL" in lines["durability"]
    assert done.code == any(line.startswith("warn") for line in lines.values())
    assert list(tmp_path.iterdir()) == []


def test_the_bench_measures_and_leaves_nothing(tmp_path: Path) -> None:
    done = run(*("bench", "--players", 100, "--seconds", 0.01, "--folder", "."))
    assert done.code == 0, done.err
    assert "ranks of a player" in done.out
    assert list(tmp_path.iterdir()) == []
