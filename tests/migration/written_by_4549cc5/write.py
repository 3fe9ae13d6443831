"""The program that wrote this data, to be run with the code of the version that is to be kept.

    git worktree add --detach ../old 4549cc5
    (cd ../old && python setup.py build_ext --inplace)
    PYTHONPATH=../old/src:../old:$PWD python -m tests.migration.written_by_4549cc5.write OUT

It serves the history of ``history.py`` from a data folder, and again from PostgreSQL with an index
in Redis, reads everything, goes on for a day and reads everything again. Answers that are the same
from both are stored once; it prints the requests whose answers are not.
"""

import json
import lzma
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.http.backends import serving_node
from tests.http.test_without_redis import proxied
from tests.migration.written_by_4549cc5.history import (
    NEXT_DAY,
    Answer,
    Caller,
    PinnedClock,
    read_all,
    repeat,
    write_after_snapshot,
    write_more,
    write_to_spool,
    write_until_snapshot,
)
from tests.simulation.postgres_servers import postgres

from rankd.testing.servers import PostgresServer, postgres_programs, redis_server

if TYPE_CHECKING:
    from collections.abc import Callable

BACKGROUND_SECONDS = 8.0
"""Until receipts, archives, top lists and copies of the state are stored: no loop sleeps longer."""

PHASES = ("reads", "repeated", "more", "reads_after")

STATE_EVERY_FACTS = 300
"""How often the state is copied into PostgreSQL: once in each half."""


def main(out: Path) -> None:
    out.mkdir(exist_ok=True)
    from_folder = write_folder(out)
    from_servers = write_servers(out)
    differing = {}
    for phase in PHASES:
        pairs = enumerate(zip(from_folder[phase], from_servers[phase], strict=True))
        differing[phase] = {place: other for place, (one, other) in pairs if one != other}
        requests = " ".join(str(row[1]) for row in differing[phase].values())
        sys.stdout.write(f"{phase}: {len(from_folder[phase])}, not the same: {requests}\n")
    more = {name: from_servers[name] for name in ("key", "behind")}
    answers = {**from_folder, "servers": {**differing, **more}}
    store(out / "answers.json.xz", json.dumps(answers, ensure_ascii=False))
    sizes = {path.name: path.stat().st_size for path in sorted(out.glob("*.xz"))}
    sys.stdout.write(f"{sizes}, in all {sum(sizes.values())} bytes\n")


def write_folder(out: Path) -> dict[str, Any]:
    """Write a data folder, with a snapshot older than its head; return the answers."""
    clock = PinnedClock(0)
    with tempfile.TemporaryDirectory() as name:
        data = Path(name) / "data"
        with serving_node(data, clock) as node, Caller(node.port) as caller:
            write_until_snapshot(caller, clock)
            snapshot_at = node.run(node.rankd.save())
            write_after_snapshot(caller, clock)
            head = node.rankd.position
            shutil.copytree(data, Path(name) / "killed")
        pack(out / "folders.tar.xz", {"stopped": data, "killed": Path(name) / "killed"})
        return {"head": head, "snapshot_at": snapshot_at, **answers_of(data, clock, caller)}


def write_servers(out: Path) -> dict[str, Any]:
    """Write a ledger in PostgreSQL and an index in Redis; return the answers."""
    copy_state_often()
    clock = PinnedClock(0)
    with postgres() as database, redis_server() as redis, tempfile.TemporaryDirectory() as data:
        settings: dict[str, Any] = {
            "ledger": database.url,
            "index": redis.url,
            "node": "old",
            "top_list_seconds": 1.0,
            "ledger_silence_seconds": 60.0,
        }
        with serving_node(Path(data), clock, **settings) as node, Caller(node.port) as caller:
            write_until_snapshot(caller, clock)
            time.sleep(BACKGROUND_SECONDS)
            behind = node.rankd.position
            store(out / "redis-behind.json.xz", json.dumps(redis_commands(redis.port)))
            write_after_snapshot(caller, clock)
            time.sleep(BACKGROUND_SECONDS)
        store(out / "redis.json.xz", json.dumps(redis_commands(redis.port)))
        store(out / "postgres.sql.xz", dumped(database.url))
        answers = {"behind": behind, **answers_of(Path(data), clock, caller, **settings)}
        write_spool(out, database, caller.key)
        return answers


def write_spool(out: Path, database: PostgresServer, key: str | None) -> None:
    """Write a spool, and keep its folder as a kill leaves it."""
    with proxied(database.port) as proxy, tempfile.TemporaryDirectory() as name:
        data = Path(name)
        ledger = database.url.replace(str(database.port), str(proxy.port))
        settings: dict[str, Any] = {"ledger": ledger, "node": "old", "spool": True}
        clock = PinnedClock(NEXT_DAY)
        with serving_node(data, clock, **settings) as node, Caller(node.port, key) as caller:
            proxy.pause()
            time.sleep(BACKGROUND_SECONDS)  # Until the ledger counts as lost.
            write_to_spool(caller)
            pack(out / "spool.tar.xz", {"spool": data / "spool"})
            proxy.resume()
            time.sleep(BACKGROUND_SECONDS)  # It does not stop cleanly while scores wait.


def copy_state_often() -> None:
    """Have the state copied into PostgreSQL in a history as short as this one."""
    from rankd.core import managers

    managers.Copyist.__init__.__defaults__ = (STATE_EVERY_FACTS,)  # type: ignore[attr-defined]


def answers_of(data: Path, clock: PinnedClock, caller: Caller, **settings: Any) -> dict[str, Any]:
    """Return the answers to reads, to repeated and further writes, and to reads after these."""
    written = list(caller.answers)
    with (
        serving_node(data, clock, **settings) as node,
        Caller(node.port, caller.key) as asking,
    ):
        phases: dict[str, Callable[[], None]] = {
            "reads": lambda: read_all(asking),
            "repeated": lambda: repeat(asking, written),
            "more": lambda: write_more(asking, clock),
            "reads_after": lambda: read_all(asking),
        }
        answers: dict[str, Any] = {"key": caller.key}
        for name, ask in phases.items():
            asking.answers.clear()
            ask()
            answers[name] = shown(asking.answers)
        return answers


def shown(answers: list[Answer]) -> list[Any]:
    """Return answers without what is made up anew for each."""
    return [list(answer._replace(text=without_request(answer.text))) for answer in answers]


def without_request(text: str) -> str:
    head, found, tail = text.partition('"request_id":"')
    return head + found + tail[tail.find('"') :] if found else text


def dumped(url: str) -> str:
    """Return SQL that makes the database, as any client can execute it."""
    command = [
        str(postgres_programs() / "pg_dump"),
        "--inserts",
        "--rows-per-insert=50",
        "--no-owner",
        url,
    ]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    _settings, _create, statements = text.partition("CREATE ")
    lines = [line for line in f"CREATE {statements}".splitlines() if not line.startswith("\\")]
    return "\n".join(["SET check_function_bodies = false;", *lines])


def redis_commands(port: int) -> list[list[str]]:
    """Return commands that make all keys; bytes as the characters of Latin 1."""
    from redis import Redis

    client: Any = Redis(port=port)
    commands: list[list[bytes]] = []
    for key in sorted(client.keys()):
        kind = client.type(key)
        assert client.ttl(key) == -1, key
        if kind == b"string":
            commands.append([b"SET", key, client.get(key)])
        elif kind == b"hash":
            pairs = [word for pair in sorted(client.hgetall(key).items()) for word in pair]
            commands.append([b"HSET", key, *pairs])
        elif kind == b"list":
            commands.append([b"RPUSH", key, *client.lrange(key, 0, -1)])
        elif kind == b"set":
            commands.append([b"SADD", key, *sorted(client.smembers(key))])
        else:
            assert kind == b"zset", kind
            rows = client.zrange(key, 0, -1, withscores=True)
            assert all(score == 0 for _, score in rows)
            commands.append([b"ZADD", key, *(word for name, _ in rows for word in (b"0", name))])
    client.close()
    return [[word.decode("latin-1") for word in command] for command in commands]


def pack(path: Path, folders: dict[str, Path]) -> None:
    with tarfile.open(path, "w:xz", preset=9) as archive:
        for name, folder in folders.items():
            archive.add(folder, arcname=name)


def store(path: Path, text: str) -> None:
    path.write_bytes(lzma.compress(text.encode(), preset=9))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
