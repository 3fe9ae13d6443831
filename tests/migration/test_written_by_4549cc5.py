"""What commit 4549cc5 wrote opens with today's code, and every answer is as it was.

Method: ``written_by_4549cc5`` has a data folder, a database of PostgreSQL, an index in Redis and a
spool with one rich history in them, and the answers of that version to thousands of requests:
reads, keys repeated, a day of further writes, and the reads again. The same requests are made here.
An answer may have the fields in ``ADDED``, and differ as the functions below it say; ``write.py``
there is the program that wrote all this.
"""

import asyncio
import json
import lzma
import re
import shutil
import tarfile
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest
from redis import Redis
from tests.cli.running import run
from tests.http.api_facade import same
from tests.http.backends import Node, serving_node
from tests.http.test_workers import until
from tests.migration.erasures import Erasures
from tests.migration.written_by_4549cc5.history import (
    END,
    NEXT_DAY,
    SPOOLED,
    Answer,
    Caller,
    PinnedClock,
    score_round,
    write_more,
)
from tests.simulation.nodes_world import redis_machine
from tests.simulation.postgres_servers import new_ledger

from rankd.adapters.postgres import PostgresLedger
from rankd.core.cluster.shared_projector import newest_copy
from rankd.testing.servers import PostgresServer, RedisServer, redis_server

DATA = Path(__file__).parent / "written_by_4549cc5"
SHARED = "/v1/boards/(early|golf|last|race|renewed|tied|total)"
"""The boards whose ranks are shared; no other has ordinals."""

ADDED = (
    (r"/v1/boards", {"boards[].since"}),
    (r"/v1/boards/[^/]+", {"since", "position", "drops"}),
    (r"/v1/boards/[^/]+/(standings.*|around/.*|friends/.*|projection)", {"state"}),
    (r"/v1/boards/[^/]+/windows", {"windows[].edition"}),
    (r"/v1/players/[^/]+", {"reason", "state", "states"}),
    (r"/v1/players/[^/]+(/friends)?", {"visibility"}),
    (r"/v1/facts", {"facts[].request_id", "facts[].address"}),
    (r"/v1/players/[^/]+/standings", {"standings[].state", "standings[].ordinal"}),
    (rf"{SHARED}/standings/[^/]+", {"ordinal"}),
    (rf"{SHARED}/(standings|standings/[^/]+/around|around/.*)", {"standings[].ordinal"}),
    (rf"{SHARED}/(standings:lookup|friends/.*)", {"standings[].ordinal"}),
    (SHARED, {"windows[].top[].ordinal", "windows[].top_after[].ordinal"}),
    (
        r"/v1/boards/[^/]+/(standings(:lookup|/[^/]+/around)?|around/.*|friends/.*)",
        {"standings[].rank_change", "standings[].new"},
    ),
    (r"/v1/boards/[^/]+/standings/[^/]+", {"rank_change", "new"}),
    (r"/v1/boards/[^/]+", {"windows[].top[].rank_change", "windows[].top[].new"}),
    (r"/v1/facts", {"facts[].address", "facts[].request_id"}),
    (r"/v1/keys", {"keys[].created", "keys[].expires", "keys[].last_used"}),
)
"""Fields that answers have had only since: by the path of a request, where they are in its body.

Some were null. The movement of players is told once it is ready; another test verifies its values.
"""

DEFAULTS: dict[str, Any] = {
    "expires": None,
    "public_corrections": False,
    "rewards": [],
    "rules": [],
    "runs": None,
    "verifier": None,
}
"""Fields that definitions have had only since, with their defaults."""

SOME = 4
"""Of the reads one in so many is asked where all are asked of another way to the same answers."""

NONE = Erasures()
"""Before something was erased again."""

TEXTS = ("detail", "message", "request_id")
"""Fields for people, which are worded better now, and the one that is made up for each request."""


@cache
def recorded() -> dict[str, Any]:
    answers: dict[str, Any] = json.loads(lzma.decompress((DATA / "answers.json.xz").read_bytes()))
    return answers


def of_phase(phase: str, *, servers: bool = False) -> list[Answer]:
    """The answers of that version in a phase, from its folder or from its servers."""
    rows = list(recorded()[phase])
    if servers:
        for place, row in recorded()["servers"][phase].items():
            rows[int(place)] = row
    return [Answer(*row) for row in rows]


# --------------------------------------------------------------------- what may be different


def differences(old: Any, new: Any, added: set[str], where: str = "") -> Iterator[str]:
    """Where two bodies differ beyond what was added, and texts for people."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in old.keys() | new.keys():
            inner = f"{where}.{name}".removeprefix(".")
            if name in TEXTS and name in old and name in new:
                continue
            if name not in old:
                default = where.endswith("definition") and name in DEFAULTS
                if inner not in added and not (default and DEFAULTS[name] == new[name]):
                    yield f"{inner} is new: {new[name]}"
            elif name not in new:
                yield f"{inner} is gone: {old[name]}"
            elif old[name] is not None or inner not in added:
                yield from differences(old[name], new[name], added, inner)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for one, other in zip(old, new, strict=True):
            yield from differences(one, other, added, f"{where}[]")
    elif not same(new, old):
        yield f"{where}: {old} is now {new}"


def as_today(path: str, body: Any) -> Any:
    """An answer of that version in today's words: a window that is over is sealed, not closed."""
    if re.fullmatch(r"/v1/boards/[^/]+/windows", path) and "windows" in body:
        for row in body["windows"]:
            row["state"] = {"closed": "sealed"}.get(row["state"], row["state"])
    return body


def without_scheduled(path: str, body: Any) -> Any:
    """An answer without the windows that have not begun: that version did not list them."""
    boards = body["boards"] if path == "/v1/boards" else [body]
    for board in boards if re.fullmatch(r"/v1/boards(/[^/]+(/windows)?)?", path) else ():
        if "windows" in board:
            begun = [row for row in board["windows"] if row.get("state") != "scheduled"]
            board["windows"] = [row for row in begun if "opens_at" not in row]
    return body


def is_empty_window(old: Answer, new: Answer) -> bool:
    """Whether a window in which nothing was recorded is empty now, where it was unknown then."""
    if old.status != 404 or old.content["code"] != "unknown_window":
        return False
    if new.status == 404:
        return bool(new.content["code"] == "not_ranked")
    state = new.content.get("state")
    return new.status == 200 and new.content["total"] == 0 and state in ("sealed", "scheduled")


def assert_as_then(old: Answer, new: Answer, erasures: Erasures = NONE) -> None:
    path = old.path.partition("?")[0]
    if is_empty_window(old, new):
        return
    assert new.status == old.status, (old, new)
    added = {name for pattern, names in ADDED if re.fullmatch(pattern, path) for name in names}
    before = as_today(path, erasures.body(old.content))
    found = list(differences(before, without_scheduled(path, new.content), added))
    assert not found, (old.method, old.path, old.body, found)


def is_trail(answer: Answer) -> bool:
    return answer.path.startswith("/v1/facts?after=")


def facts_of(trail: list[Answer]) -> list[dict[str, Any]]:
    return [fact for answer in trail for fact in answer.content["facts"]]


def unordered(facts: list[dict[str, Any]]) -> list[str]:
    """Facts of a trail, those of windows without position: several may turn at one moment."""
    for fact in facts:
        for name in ("request_id", "address"):
            fact.pop(name, None)  # As new as the request that is made again.
        if fact["kind"].startswith("window_"):
            fact["position"] = None
        for name in ("address", "request_id"):  # Later ones name their request.
            fact.pop(name, None)
            fact["body"].pop(name, None)
        for name in ("opened", "closed"):  # Of a definition, which they belong to since.
            fact["body"].pop(name, None)
        definition = fact["body"].get("definition", {})
        for name, default in DEFAULTS.items():
            if name in definition and definition[name] == default:
                del definition[name]
    return sorted(json.dumps(fact, sort_keys=True, default=str) for fact in facts)


# -------------------------------------------------------------------------------- asking


def caller_of(node: Node, *, servers: bool) -> Caller:
    """A caller with the administrator's key, which is another in each ledger."""
    return Caller(node.port, recorded()["servers"]["key"] if servers else recorded()["key"])


def assert_all_as_then(
    node: Node, clock: PinnedClock, *, servers: bool = False, step: int = 1
) -> None:
    """Ask all that was asked of the version that wrote this; of the reads one in each ``step``."""
    with caller_of(node, servers=servers) as caller:
        assert_repeated(caller, of_phase("reads", servers=servers)[::step])
        assert_repeated(caller, of_phase("repeated", servers=servers))
        caller.answers.clear()
        write_more(caller, clock)
        answers = list(caller.answers)
        erasures = erasures_since(caller)
        for old, new in zip(of_phase("more"), answers, strict=True):
            assert old[:2] == new[:2]
            assert not list(differences(old.body, new.body, set(), "definition"))
            assert_as_then(old, new, erasures)


def assert_reads_after_as_then(node: Node, *, servers: bool = False, step: int = 1) -> None:
    """Ask the reads that were asked after all writes, one in each ``step``."""
    old = of_phase("reads_after", servers=servers)
    with caller_of(node, servers=servers) as caller:
        erasures = erasures_since(caller)
        rankings = [answer for answer in old if not is_trail(answer)][::step]
        assert_repeated(caller, rankings, erasures)
        trail = [answer for answer in old if is_trail(answer)]
        facts = facts_of([caller.get(answer.path) for answer in trail])
        known = [fact for fact in facts if fact["kind"] != "facts_redacted"]
        assert unordered(known) == unordered(erasures.body(facts_of(trail)))


def erasures_since(caller: Caller) -> Erasures:
    """The erasures that were asked for since, which is one."""
    found = caller.get("/v1/facts?kind=facts_redacted&after=800&limit=500").content
    facts = found["facts"]
    assert {fact["player"] for fact in facts} == {"ghost"}
    return Erasures.of(facts)


def assert_repeated(caller: Caller, old: list[Answer], erasures: Erasures = NONE) -> None:
    """Make the same requests, and compare the answers."""
    assert old
    for answer in old:
        path = erasures.path(answer.path)
        assert_as_then(answer, caller.ask(answer.method, path, answer.body), erasures)


async def verify(node: Node) -> None:
    async for _ in node.rankd.verify():
        pass


# ------------------------------------------------------------------------ in a data folder


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    with tarfile.open(DATA / "folders.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def as_stopped(folders: Path) -> Path:
    return folders / "stopped"


def as_killed(folders: Path) -> Path:
    assert (folders / "killed" / "ledger.db-wal").stat().st_size > 0
    return folders / "killed"


def without_snapshot(folders: Path) -> Path:
    shutil.rmtree(folders / "stopped" / "index")
    return folders / "stopped"


@pytest.mark.parametrize("left", [as_stopped, as_killed, without_snapshot])
def test_data_folder_answers_as_then_and_goes_on(
    folders: Path, left: Callable[[Path], Path]
) -> None:
    data, clock = left(folders), PinnedClock(END)
    with serving_node(data, clock) as node:
        assert node.rankd.position == recorded()["head"]
        saved_at = 0 if left is without_snapshot else recorded()["snapshot_at"]
        assert node.rankd.position - node.rankd.unsaved == saved_at, "the saved index was not used"
        node.run(verify(node))
        step = 1 if left is as_stopped else SOME
        assert_all_as_then(node, clock, step=step)
        assert_reads_after_as_then(node, step=step)
        node.run(verify(node))
        written = node.run(node.rankd.save())
    assert run("verify", "--data", data).code == 0
    with serving_node(data, clock) as node:
        assert (node.rankd.position, node.rankd.unsaved) == (written, 0)


@pytest.mark.parametrize("left", [as_stopped, without_snapshot])
def test_refusals_of_that_version_are_final_when_a_board_is_redefined(
    folders: Path, left: Callable[[Path], Path]
) -> None:
    """The cup took scores for a day; before and after it they were refused."""
    with (
        serving_node(left(folders), PinnedClock(END)) as node,
        caller_of(node, servers=False) as caller,
    ):
        counted = caller.get("/v1/boards/cup/standings?window=cup").content["standings"]
        assert [(row["player"], row["score"]) for row in counted] == [("eve", 4), ("ada", 3)]
        caller.done("PUT", "/v1/boards/cup?apply=true", {"windows": ["all"]})
        assert caller.get("/v1/boards/cup/standings").content["standings"] == counted
        node.run(verify(node))


@pytest.mark.parametrize("left", [as_stopped, without_snapshot])
def test_movement_is_told_against_the_ranks_that_version_left(
    folders: Path, left: Callable[[Path], Path]
) -> None:
    clock = PinnedClock(END)
    with (
        serving_node(left(folders), clock) as node,
        caller_of(node, servers=False) as caller,
    ):
        paths = [answer.path for answer in of_phase("reads") if is_whole(answer)]
        before = {path: caller.get(path).content for path in paths}
        clock.seconds = NEXT_DAY
        score_round(caller, 8)
        node.run(node.rankd.movement.catch_up())  # Another day has begun.
        for path in paths:
            caller.get(path)
        node.run(node.rankd.movement.catch_up())
        moved = [moves_between(before[path], caller.get(path).content) for path in paths]
    assert sum(map(bool, moved)) > 20, "rankings in which movement is told"
    assert len({change for changes in moved for change in changes}) > 3


def is_whole(answer: Answer) -> bool:
    """Whether an answer is a whole ranking, of all players or of a segment."""
    return answer.status == 200 and answer.path.endswith("&limit=1000")


def moves_between(then: Any, now: Any) -> list[int | None]:
    """The changes of rank that a ranking tells, each as it was since; none if it tells none."""
    ranks = {row["player"]: row["rank"] for row in then.get("standings", ())}
    rows = now.get("standings", ())
    if all(row["rank_change"] is None and "new" not in row for row in rows):
        return []
    assert now["window"] == then["window"]
    for row in rows:
        rank = ranks.get(row["player"])
        assert row["rank_change"] == (None if rank is None else rank - row["rank"]), row
        assert row.get("new", False) is (rank is None), row
    return [row["rank_change"] for row in rows]


def test_data_folder_is_whole_before_anything_is_written(folders: Path) -> None:
    done = run("verify", "--data", as_stopped(folders))
    assert (done.code, f"{recorded()['head']} facts" in done.out) == (0, True), done


# -------------------------------------------------------------------- on several servers

_databases = count(1)


@pytest.fixture
def ledger(shared_postgres: PostgresServer) -> Iterator[str]:
    """The URL of a database that is as that version left it."""
    name = f"written_{next(_databases)}"
    in_database(shared_postgres.url, f"CREATE DATABASE {name}")
    url = shared_postgres.url.replace("/postgres", f"/{name}")
    in_database(url, lzma.decompress((DATA / "postgres.sql.xz").read_bytes()).decode())
    yield url
    in_database(shared_postgres.url, f"DROP DATABASE {name}")


def in_database(url: str, script: str) -> None:
    async def execute() -> None:
        connection = await asyncpg.connect(url)
        try:
            await connection.execute(script)
        finally:
            await connection.close()

    asyncio.run(execute())


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


def stored_in_redis(name: str) -> list[list[bytes]]:
    commands = json.loads(lzma.decompress((DATA / name).read_bytes()))
    return [[word.encode("latin-1") for word in command] for command in commands]


def fill(server: RedisServer, name: str) -> dict[bytes, bytes]:
    """Make the keys that are stored under a name; return the pointers to the live index."""
    commands = stored_in_redis(name)
    with Redis(port=server.port) as client:
        for command in commands:
            client.execute_command(*command)
    return {key: value for verb, key, *rest in commands if verb == b"SET" for value in rest}


def pointers(server: RedisServer, names: Iterable[bytes]) -> dict[bytes, bytes | None]:
    with Redis(port=server.port) as client:
        return {name: client.get(name) for name in names}


PATIENT = {"node": "new", "ledger_silence_seconds": 60.0}
"""A slow machine is no ledger that is lost."""


def test_database_answers_as_then_and_goes_on(tmp_path: Path, ledger: str) -> None:
    clock = PinnedClock(END)
    with serving_node(tmp_path, clock, ledger=ledger, **PATIENT) as node:
        assert node.rankd.position == recorded()["head"]
        node.run(verify(node))
        assert_all_as_then(node, clock, servers=True)
        node.run(verify(node))
    assert run("verify", "--data", ledger).code == 0


@pytest.mark.parametrize("stored", ["redis.json.xz", "redis-behind.json.xz"])
def test_index_in_redis_is_used_as_it_is_found(
    tmp_path: Path, ledger: str, redis: RedisServer, stored: str
) -> None:
    """The index, and the copy of the state beside it, which is not newer."""
    head = recorded()["head"]
    index_at = recorded()["servers"]["behind"] if "behind" in stored else head
    in_database(ledger, f"DELETE FROM rankd.books WHERE position > {index_at}")
    found, clock = fill(redis, stored), PinnedClock(END)
    assert found
    assert 0 < asyncio.run(copied_state(ledger)) <= index_at
    with serving_node(tmp_path, clock, ledger=ledger, index=redis.url, **PATIENT) as node:
        assert node.run(node.rankd.projector.index.checkpoint()) == head
        assert_all_as_then(node, clock, servers=True, step=SOME)
        assert_reads_after_as_then(node, servers=True, step=SOME)
        assert pointers(redis, found) == found, "the index was made anew"
    assert run("verify", "--data", ledger, "--index", redis.url).code == 0


async def copied_state(url: str) -> int:
    """The position of the copy of the state that a node begins with; 0 if it can read none."""
    async with PostgresLedger.open(url, node="judge") as ledger:
        copied = await newest_copy(ledger.copies, ledger, through=await ledger.head())
    return copied.heading.checkpoint


def test_standings_stored_in_the_database_answer_without_redis(tmp_path: Path, ledger: str) -> None:
    """Closed windows and first entries are read as that version stored them."""
    pages = [answer for answer in of_phase("reads") if is_stored(answer)]
    never = {"top_list_seconds": 1e9, **PATIENT}  # So that no list is stored anew.
    with redis_machine() as redis:
        fill(redis.server, "redis.json.xz")
        index, clock = redis.server.url, PinnedClock(END)
        with (
            serving_node(tmp_path, clock, ledger=ledger, index=index, **never) as node,
            caller_of(node, servers=True) as caller,
        ):
            redis.kill()
            for page in pages:
                assert_as_then(page, without_position(page, caller.get(page.path)))
    assert len(pages) > 100


def is_stored(answer: Answer) -> bool:
    """Whether an answer is a whole ranking that is stored beside the ledger."""
    return answer.path.endswith("&limit=1000") and "segment=" not in answer.path


def without_position(old: Answer, new: Answer) -> Answer:
    """An answer that admits to be stale, as if it were as of the position of the other."""
    if new.status != 200:
        return new
    assert new.content["stale"] is True
    fresh = new.text.replace('"stale":true', '"stale":false')
    as_of = old.content.get("as_of", 0)
    return new._replace(text=re.sub('"as_of":[0-9]+', f'"as_of":{as_of}', fresh))


def test_data_folder_is_restored_into_a_database(
    folders: Path, tmp_path: Path, shared_postgres: PostgresServer
) -> None:
    ledger, clock = new_ledger(shared_postgres.url), PinnedClock(END)
    done = run("restore", as_stopped(folders), "--data", ledger)
    assert done.code == 0, done
    with serving_node(tmp_path / "node", clock, ledger=ledger, **PATIENT) as node:
        assert_all_as_then(node, clock, step=SOME)


def test_database_is_restored_into_a_data_folder(tmp_path: Path, ledger: str) -> None:
    data, clock = tmp_path / "data", PinnedClock(END)
    done = run("restore", ledger, "--data", data)
    assert done.code == 0, done
    with serving_node(data, clock) as node:
        assert_all_as_then(node, clock, servers=True, step=SOME)


def test_scores_in_a_spool_are_counted_once(tmp_path: Path, ledger: str) -> None:
    with tarfile.open(DATA / "spool.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    clock = PinnedClock(NEXT_DAY)
    with serving_node(tmp_path, clock, ledger=ledger, spool=True, **PATIENT) as node:
        until(lambda: node.rankd.spooled is not None and node.rankd.spooled.waiting == 0)
        with caller_of(node, servers=True) as caller:
            for board, body in SPOOLED:
                found = caller.get(f"/v1/boards/{board}/standings/spooled")
                assert (found.status, str(found.content["score"])) == (200, str(body["score"]))
                again = caller.ask("POST", f"/v1/boards/{board}/scores", body)
                assert again.status == 200
                assert again.content.get("duplicate", False) is ("key" in body)
        node.run(verify(node))
