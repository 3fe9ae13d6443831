"""A folder without a service: the same commands, care of it, and its keys."""

import json
import re
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.cli.running import run, serving
from tests.disks import small_disk

import rankd
from rankd.client import Client
from rankd.embedded import WallClock
from rankd.errors import LedgerNotCopied, NoLedger, Unauthenticated
from rankd.model.window import Instant
from rankd.testing.faults import make_read_only


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


def content(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return all that a write would change: names, modes, times and bytes."""
    found = {}
    for path in [folder, *folder.rglob("*")]:
        stat = path.stat()
        data = path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(folder))] = (stat.st_mode, stat.st_mtime_ns, data)
    return found


def test_verify_writes_nothing(tmp_path: Path) -> None:
    with rankd.open("d") as ranks:
        ranks.board("b").submit("ann", 5)
        ranks.save()
        shutil.copytree("d", "killed")  # As a process leaves it that is killed now, with a WAL.
        ranks.backup("copy")
    for folder in ("d", "killed", "copy"):
        (tmp_path / folder).chmod(0o755)
        before = content(tmp_path / folder)
        done = run("verify", "--data", folder)
        assert done.code == 0, done.err
        assert f"{folder} is whole: 2 facts, and the index agrees" in done.out
        assert content(tmp_path / folder) == before
    assert (tmp_path / "killed" / "ledger.db-wal").stat().st_size


def test_a_backup_on_a_disk_that_can_only_be_read_is_verified(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 8 << 20) as disk:
        with rankd.open("d") as ranks:
            ranks.board("b").submit("ann", 5)
            ranks.backup(disk / "copy")
            shutil.copytree("d", disk / "killed")
        make_read_only(disk)
        for folder in ("copy", "killed"):
            done = run("verify", "--data", disk / folder, "--json")
            assert done.code == 0, done.err
            assert json.loads(done.out)["position"] == 2
        assert run("restore", disk / "copy", "--data", "again").code == 0
    assert "again is whole: 2 facts" in run("verify", "--data", "again").out


COMMANDS = (
    ["verify"],
    ["rebuild"],
    ["backup", "elsewhere"],
    ["serve", "--port", "0"],
    ["board", "list"],
    ["board", "apply", "b", "--yes"],
    ["keys", "create", "--scope", "admin"],
    ["top", "b"],
    ["submit", "b", "ann", "5"],
    ["export", "b"],
    ["import", "scores.csv", "--board", "b"],
    ["doctor"],
)


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("ledger.db.part", "repeat it, or remove the folder"),
        ("ledger.copying", "repeat the `rankd restore` that began it"),
        ("ledger.db-wal", "holds no ledger"),
        ("thesis.tex", "name the folder of a ledger, or an empty one"),
        ("index/current", "holds no ledger"),
    ],
)
def test_every_command_refuses_a_part_of_a_ledger_and_other_content(
    tmp_path: Path, file: str, said: str
) -> None:
    (tmp_path / "scores.csv").write_text("player,score\nann,10\n")
    (tmp_path / "d" / file).parent.mkdir(parents=True)
    (tmp_path / "d" / file).write_text("something")
    before = content(tmp_path / "d")
    for command in COMMANDS:
        done = run(*command, "--data", "d")
        assert done.code == 1, command
        told = done.out if command == ["doctor"] else done.err
        assert said in told, command
    with pytest.raises((LedgerNotCopied, NoLedger), match="d"):
        rankd.open("d")
    found = content(tmp_path / "d")
    del before["."], found["."]  # The doctor makes a scratch ledger there, and removes it.
    assert found == before


@pytest.mark.parametrize("name", [".gitkeep", "lost+found", "rankd.toml", "ledger.lock"])
def test_a_folder_of_no_content_is_empty(tmp_path: Path, name: str) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / name).touch()
    assert run("verify", "--data", "d").code == 1
    assert [path.name for path in (tmp_path / "d").iterdir()] == [name]
    with rankd.open("d") as ranks:
        ranks.board("b").submit("ann", 5)
    assert run("verify", "--data", "d").code == 0


class Minutes:
    """A clock that can be told to go on by minutes."""

    def __init__(self, now: Instant) -> None:
        self._now = now

    def now(self) -> Instant:
        return self._now

    def go_on(self) -> None:
        self._now = Instant(self._now + 60_000_000)


def test_windows_that_are_closed_are_listed_and_can_be_asked_for() -> None:
    now, closed = WallClock().now(), 25
    clock = Minutes(Instant(now - (closed + 2) * 60_000_000))
    minute = {"name": "minute", "every": "1m", "start": "2026-01-01T00:00:00Z"}
    with rankd.open("d", clock=clock) as ranks:
        board = ranks.board("sprint", windows=["all", minute])
        for number in range(closed):
            clock.go_on()
            board.submit("ann", number)
    shown = run("board", "show", "sprint", "--data", "d")
    assert shown.code == 0, shown.err
    listed = re.findall(r"^minute:\d+", shown.out, re.MULTILINE)
    assert len(listed) == 1 + 10, "the open one, and the last that are closed"
    assert listed == sorted(listed, reverse=True)
    assert re.search(r"The last 10 of \d+ that are closed", shown.out)

    every = json.loads(run("board", "windows", "sprint", "--data", "d", "--json").out)["windows"]
    names = [window["window"] for window in every]
    assert len(names) >= 1 + closed and set(listed) < set(names)
    lines = run("board", "windows", "sprint", "--data", "d").out.splitlines()
    states = {line.split()[0]: line.split()[1] for line in lines[1:]}
    assert states.keys() >= set(names), "another minute may have begun"
    assert (states["all"], states[names[-1]]) == ("open", "sealed")
    assert "ann" in run("top", "sprint", "--window", names[-2], "--data", "d").out

    unknown = run("top", "sprint", "--window", "minute:-500", "--data", "d")
    assert unknown.code == 1 and "`rankd board windows` lists" in unknown.err


def test_windows_are_listed_to_the_second_if_one_has_seconds() -> None:
    sprint = {"name": "sprint", "every": "1m", "gap": "1d", "start": "2999-01-01T00:00:30Z"}
    season = {"name": "season", "every": "4w", "start": "2999-01-01T00:00:00Z"}
    with rankd.open("d") as ranks:
        ranks.board("fine", windows=["all", sprint, season])
        ranks.board("coarse", windows=["all", season])
    fine = run("board", "windows", "fine", "--data", "d").out
    assert "sprint:1  scheduled  2999-01-01 00:00:30Z  2999-01-01 00:01:30Z" in fine
    assert "season:1  scheduled  2999-01-01 00:00:00Z  2999-01-29 00:00:00Z" in fine
    coarse = run("board", "windows", "coarse", "--data", "d").out
    assert "season:1  scheduled  2999-01-01 00:00Z  2999-01-29 00:00Z" in coarse
    assert "season:1  scheduled" in run("board", "show", "coarse", "--data", "d").out
    top = run("top", "coarse", "--window", "season", "--data", "d")
    assert top.out == "coarse · season:1 · opens at 2999-01-01T00:00:00Z\nrank  player  score\n"


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


def test_a_key_expires_on_every_process_of_a_service(tmp_path: Path) -> None:
    admin = run("keys", "create", "--scope", "admin", "--data", "data").out.strip()
    with serving(tmp_path, "--workers", "2") as served, Client(served.url, admin) as client:
        client.define("arena")
        soon = datetime.now(UTC) + timedelta(seconds=5)
        made = client.create_key(["read"], expires=soon.isoformat())
        with Client(served.url, made.key) as reader:
            with pytest.raises(Unauthenticated, match="the key has expired"):
                while True:
                    reader.top("arena")
            assert datetime.now(UTC) >= soon
        for _ in range(10):  # Each connection meets another process, or the same.
            with Client(served.url, made.key) as reader, pytest.raises(Unauthenticated):
                reader.top("arena")

        known = {"RANKD_URL": served.url, "RANKD_KEY": admin}
        heads, first, second = run("keys", "list", **known).out.splitlines()
        assert heads.split("  ")[-1].strip() == "expires"
        assert "last used" in heads
        assert str(soon.year) in first
        assert soon.strftime("%Y-%m-%d") in second
        wrong = run("keys", "create", "--scope", "read", "--expires", "soon", **known)
        assert wrong.code == 1
        assert "expires must be a duration such as 90d" in wrong.err


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


@pytest.mark.parametrize("place", ["the environment", "the file", "the command line"])
def test_every_command_finds_the_folder_and_the_service_where_serve_does(
    place: str, tmp_path: Path
) -> None:
    with serving(tmp_path) as served:
        port = served.url.rpartition(":")[2]
        env, options = {}, []
        if place == "the file":
            (tmp_path / "rankd.toml").write_text(f'port = {port}\ndata = "data"\n')
        elif place == "the environment":
            env = {"RANKD_PORT": port, "RANKD_DATA": "data"}
        else:
            (tmp_path / "s.toml").write_text(f'port = {port}\ndata = "data"\n')
            options = ["--config", "s.toml"]
        assert run("board", "apply", "b", *options, **env).code == 0
        assert run("submit", "b", "ann", "5", *options, **env).code == 0
        assert "ann" in run("top", "b", *options, **env).out
        served.stop()
    assert run("verify", *options, **env).out.startswith("data is whole")
    assert run("rebuild", *options, **env).code == 0
    assert run("backup", "copy", *options, **env).code == 0
    assert run("doctor", *options, **env).out.count("in data") == 1
    assert run("verify", "--data", "copy", *options, **env).out.startswith("copy is whole")


def test_programs_read_what_is_found(tmp_path: Path) -> None:
    assert run("board", "apply", "b", "--data", "d").code == 0
    done = run("verify", "--data", "d", "--json")
    found = {"place": "d", "whole": True, "position": 1, "index_compared": True}
    assert json.loads(done.out) == found
    assert done.err == "", "bars are for terminals"
    found = json.loads(run("doctor", "--data", "d", "--json").out)
    assert {each["what"] for each in found["findings"]} >= {"Python", "SQLite", "disk", "clock"}
    assert found["well"] == (not any(each["advice"] for each in found["findings"]))
    done = run("bench", "--players", "10", "--seconds", "0.01", "--json")
    measured = json.loads(done.out)["measured"]
    assert len(measured) == 4 and all(one["rate"] > 0 for one in measured)
