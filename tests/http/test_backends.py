"""What the service says does not depend on where it keeps its ledger and its index.

Method: the runs that ``test_api_model`` makes against a folder are made over a real PostgreSQL and
a real Redis, alone, as a cluster and behind a sentinel, with one node and with three of which each
request meets another. After each run the ledger is folded from scratch into a native index, and
every node's index, or the one in Redis, must have the same digest: so the native index, the one in
Redis and the model are compared in one go.

``python -m tests.http.api_campaign --backend postgres+redis --nodes 3`` looks further than a
commit does.
"""

import asyncio
import http.client
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule
from tests.http import test_seeds
from tests.http.api_facade import Answer, HttpRanks, asked, connections
from tests.http.backends import (
    BACKENDS,
    Backend,
    Kept,
    Node,
    Servers,
    SpreadApi,
    digest_from_scratch,
    digest_in_redis,
    digest_of,
    head_of,
    pages_from_scratch,
    reach,
    serving_nodes,
)
from tests.http.clocked import PATIENCE_SECONDS
from tests.http.test_api_model import ApiMachine, WorkersMachine, play
from tests.http.test_workers import until
from tests.http.whole import PLACE
from tests.not_tested import not_tested
from tests.property.embedded_model import DAY
from tests.property.test_embedded_api import SetClock

from rankd.adapters.redis import RedisIndex
from rankd.api import keys
from rankd.bootstrap import EngineConfig
from rankd.core.cluster.managers import LedgerTail
from rankd.testing.servers import ServerMissing

pytestmark = pytest.mark.timeout(300)

SEED = 16
EXAMPLES = 2
STEPS = 8
"""What a commit looks at, of each backend: some ten seconds. The first run of a seed is always the
simplest there is."""

LOOKS_MAX = 20
"""How often a ledger may move under somebody who compares what was folded from it. It moves when
windows turn, and each of them does so once."""

NODES_ON = tuple(backend for backend in BACKENDS if backend.nodes > 1)
SHARED = (Backend(index="redis"), Backend(index="cluster"))


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    with Servers() as servers:
        yield servers


def started(request: pytest.FixtureRequest, servers: Servers) -> Backend:
    """Return a backend whose servers run: they are not started while a test is watched."""
    chosen: Backend = request.param
    try:
        chosen.start(servers)
    except ServerMissing as missing:
        not_tested(chosen.name, missing)
    return chosen


def name_of(backend: Backend) -> str:
    return backend.name


backend = pytest.fixture(scope="session", params=BACKENDS, ids=name_of)(started)
one_node = pytest.fixture(scope="session", params=BACKENDS[:2], ids=name_of)(started)
several = pytest.fixture(scope="session", params=NODES_ON, ids=name_of)(started)
shared = pytest.fixture(scope="session", params=SHARED, ids=name_of)(started)


# ------------------------------------------------------------------------ against the model


def compare_digests(kept: Kept, nodes: Sequence[Node]) -> None:
    """Every index has what folding the ledger from scratch gives."""
    for _ in range(LOOKS_MAX):
        head, expected = digest_from_scratch(kept)
        found = []
        for node in nodes:
            reach(node, head)
            found.append(digest_of(node))
        if kept.index != "native":
            found.append(digest_in_redis(kept))
        if head_of(kept) == head:  # Otherwise a node has turned a window meanwhile.
            assert set(found) == {expected}, "an index is not what its ledger says"
            return
    raise AssertionError("the ledger never comes to rest")


class BackendMachine(ApiMachine):
    """One node or several, each in a thread of this process."""

    servers: ClassVar[Servers]
    backend: ClassVar[Backend]

    def __init__(self) -> None:
        self.kept = self.backend.keep(self.servers)
        self.nodes: list[Node] = []
        super().__init__()

    def _open(self) -> Any:
        number = self.backend.nodes
        nodes = serving_nodes(self.kept, self.folder, self.clock, number, **self.given)
        self.nodes = self.opened.enter_context(nodes)
        patient = len(self.nodes) > 1 and self.backend.index != "native"
        api = SpreadApi([node.port for node in self.nodes], figures=self.figures, patient=patient)
        self.opened.callback(api.close)
        return HttpRanks(api)

    def _record_something(self) -> None:
        """By a node that knows what was said so far, and so what is due by it."""
        self.ranks.api.level()
        super()._record_something()

    @rule(step=st.sampled_from([0, 0, DAY]))
    def restart(self, step: int) -> None:
        """Each node first hands in what it owes: with a shared index nobody makes it again."""
        self.ranks.api.hand_in_receipts()
        super().restart(step=step)

    def teardown(self) -> None:
        try:
            self._compare_digests()
        finally:
            super().teardown()

    def _compare_digests(self) -> None:
        compare_digests(self.kept, self.nodes)
        self.figures["digests"] += len(self.nodes)


class BackendWorkersMachine(WorkersMachine):
    """One service of several processes."""

    servers: ClassVar[Servers]
    backend: ClassVar[Backend]

    def __init__(self) -> None:
        self.kept = self.backend.keep(self.servers)
        super().__init__()

    def _options(self) -> tuple[str, ...]:
        place = ("--ledger", self.kept.ledger, "--index", self.kept.index)
        return (*super()._options(), *place)


def machine_over(backend: Backend, servers: Servers) -> type[ApiMachine]:
    """Return the machine that drives services over a backend, with figures of its own."""
    kind = BackendMachine if backend.workers == 1 else BackendWorkersMachine
    own = {"servers": servers, "backend": backend, "figures": Counter()}
    return type("MachineOverServers", (kind,), {**own, "processes": backend.workers})


def test_the_service_says_what_the_model_says(backend: Backend, servers: Servers) -> None:
    machine = machine_over(backend, servers)
    play(machine, SEED, examples=EXAMPLES, steps=STEPS, shrink=False)
    assert machine.figures["receipts"] > EXAMPLES, "the runs did something"
    assert machine.figures["pages known again"] > EXAMPLES


# ------------------------------------------------------------------------------- the seeds


@pytest.fixture
def kept_on_servers(one_node: Backend, servers: Servers) -> Iterator[None]:
    """Every service of a test keeps what it has in a place of its own, on servers."""

    def place() -> EngineConfig:
        kept = one_node.keep(servers)
        return EngineConfig(None, kept.ledger, kept.index, node="n1")

    token = PLACE.set(place)
    yield
    PLACE.reset(token)


@pytest.mark.usefixtures("kept_on_servers")
class TestTheSeeds:
    """What the well-known texts print is answered from PostgreSQL and Redis as from memory."""


REFUSED_AT_THE_DOOR = "test_what_is_wrong_is_named_in_the_words_it_came_in"
"""Nothing of it comes as far as a ledger."""

for _name, _test in vars(test_seeds).items():
    if _name.startswith("test_") and _name != REFUSED_AT_THE_DOOR:
        setattr(TestTheSeeds, _name, staticmethod(_test))


# ------------------------------------------------------------------------------ three nodes

Connection = http.client.HTTPConnection


@pytest.fixture
def place(several: Backend, servers: Servers) -> Kept:
    return several.keep(servers)


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes hear nothing of each other, but what they find out when they have to."""

    async def hear_nothing(_pursuer: LedgerTail) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(LedgerTail, "run", hear_nothing)


@contextmanager
def connected(nodes: Sequence[Node]) -> Iterator[list[Connection]]:
    with ExitStack() as stack:
        made = [connection for node in nodes for connection in connections(node.port, 1)]
        for connection in made:
            stack.callback(connection.close)
        yield made


def told(connection: Connection, method: str, path: str, body: Any = None) -> Any:
    """The body of an answer that must be a success."""
    answer = asked(connection, method, path, body)
    assert answer.status in (200, 201, 202), answer
    return answer.body


@pytest.mark.usefixtures("deaf")
def test_a_board_that_one_node_defines_takes_scores_on_every_other_at_once(
    place: Kept, several: Backend, tmp_path: Path
) -> None:
    with (
        serving_nodes(place, tmp_path, SetClock(), several.nodes) as nodes,
        connected(nodes) as (first, second, third),
    ):
        for name in ("b", "c"):
            told(first, "PUT", f"/v1/boards/{name}", {"rule": "sum"})
        ann = {"player": "ann", "score": 3, "key": "k"}
        receipt = told(second, "POST", "/v1/boards/b/scores", ann)
        assert (receipt["rank"], receipt["total"]) == (1, 1)
        bob = {"board": "b", "player": "bob", "score": 5}
        cyd = {"board": "c", "player": "cyd", "score": 1}
        results = told(third, "POST", "/v1/scores:batch", {"scores": [bob, cyd]})["results"]
        assert [(one["rank"], one["total"]) for one in results] == [(1, 2), (1, 1)]
        last = told(first, "POST", "/v1/boards/b/scores", {"player": "ann", "score": 4})
        assert (last["score"], last["rank"], last["previous_rank"]) == (7, 1, 2)


@pytest.mark.usefixtures("deaf")
def test_a_key_that_was_used_on_one_node_counts_on_no_other(
    place: Kept, several: Backend, tmp_path: Path
) -> None:
    """Where nodes share an index, the answer is known once its own node has appended again."""
    with (
        serving_nodes(place, tmp_path, SetClock(), several.nodes) as nodes,
        connected(nodes) as (first, second, third),
    ):
        told(first, "PUT", "/v1/boards/b", {"rule": "sum"})
        ann = {"player": "ann", "score": 3, "key": "k"}
        receipt = told(first, "POST", "/v1/boards/b/scores", ann)
        for node in (second, third):
            again = told(node, "POST", "/v1/boards/b/scores", ann)
            assert (again["duplicate"], again["position"]) == (True, receipt["position"])
            later = again["verdict"] == "accepted" and several.index != "native"
            assert later or again == {**receipt, "duplicate": True}
        told(first, "POST", "/v1/boards/b/scores", {"player": "bob", "score": 4})
        for node in (first, second, third):
            again = told(node, "POST", "/v1/boards/b/scores", ann)
            assert again == {**receipt, "duplicate": True}
            answer = asked(node, "POST", "/v1/boards/b/scores", {**ann, "score": 4})
            assert (answer.status, answer.body["code"]) == (422, "key_reused")
        last = told(third, "POST", "/v1/boards/b/scores", {"player": "ann", "score": 2})
        assert (last["score"], last["rank"], last["total"]) == (5, 1, 2)


def test_a_key_expires_on_every_node_and_each_tells_when_it_was_used(
    place: Kept, several: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "USES_SECONDS", 0.05)
    with (
        serving_nodes(place, tmp_path, SetClock(), several.nodes) as nodes,
        connected(nodes) as (first, second, third),
    ):
        admin = told(first, "POST", "/v1/keys", {"scopes": ["admin"]})
        known = {"authorization": f"Bearer {admin['key']}"}
        soon = datetime.now(UTC) + timedelta(seconds=4)
        asking = {"scopes": ["read"], "expires": soon.isoformat()}
        made = asked(first, "POST", "/v1/keys", asking, **known).body
        reader = {"authorization": f"Bearer {made['key']}"}
        until(lambda: asked(second, "GET", "/v1/boards", **reader).status == 200)

        def tells_use(connection: Connection) -> bool:
            answer = asked(connection, "GET", "/v1/keys", **known)
            listed = answer.body.get("keys", ())  # A node may not have heard of the first yet.
            return any(each["last_used"] for each in listed if each["id"] == made["id"])

        until(lambda: tells_use(first) and tells_use(third))
        until(lambda: datetime.now(UTC) >= soon)
        for connection in (first, second, third):
            refused = asked(connection, "GET", "/v1/boards", **reader)
            assert (refused.status, refused.body["detail"]) == (401, "the key has expired")
        facts = asked(first, "GET", "/v1/facts?kind=keys_used", **known).body["facts"]
        assert 1 <= len(facts) <= 2 * several.nodes, "not one for each request"


def test_a_read_waits_until_its_node_has_folded_what_another_took(
    place: Kept, several: Backend, tmp_path: Path
) -> None:
    """A node is held back; whoever asks it for a position is answered as of that, and no sooner."""
    with (
        serving_nodes(place, tmp_path, SetClock(), several.nodes) as nodes,
        connected(nodes) as (first, second, _),
    ):
        defined = told(first, "PUT", "/v1/boards/b", {"rule": "sum"})
        reach(nodes[1], defined["as_of"])
        for path in ("standings", "standings/ann", "around/1", "projection?rank=1"):
            with held(nodes[1]) as let_go:
                said = {"player": "ann", "score": 1}
                position = told(first, "POST", "/v1/boards/b/scores", said)["position"]
                mark = "&" if "?" in path else "?"
                asking = Asking(second, f"/v1/boards/b/{path}{mark}min_position={position}")
                until(partial(asking.is_answered_or_awaited, nodes[1]))
                let_go()
            assert asking.answer().body["as_of"] >= position


def test_a_node_that_joins_answers_as_of_what_was_written_before_it_came(
    place: Kept, several: Backend, tmp_path: Path
) -> None:
    """Nobody writes any more: what it knows, it knows from the ledger and the index as they are."""
    with serving_nodes(place, tmp_path, SetClock(), 1) as early:
        with connected(early) as (first,):
            told(first, "PUT", "/v1/boards/b", {"rule": "sum"})
            said = {"player": "ann", "score": 1}
            position = told(first, "POST", "/v1/boards/b/scores", said)["position"]
        with (
            serving_nodes(place, tmp_path / "late", SetClock(), 1) as late,
            connected(late) as (joined,),
        ):
            path = f"/v1/boards/b/standings/ann?min_position={position}"
            found = told(joined, "GET", path)
            assert (found["rank"], found["as_of"]) == (1, position)


class Asking:
    """A question that is asked meanwhile."""

    def __init__(self, connection: Connection, path: str) -> None:
        self.answers: list[Answer] = []
        self._thread = threading.Thread(
            target=lambda: self.answers.append(asked(connection, "GET", path))
        )
        self._thread.start()

    def is_answered_or_awaited(self, node: Node) -> bool:
        """Whether there is an answer, or somebody who waits for the node to fold."""
        return bool(self.answers or node.rankd.projector._awaited)

    def answer(self) -> Answer:
        self._thread.join(PATIENCE_SECONDS)
        (answer,) = self.answers
        assert answer.status == 200, answer
        return answer


@contextmanager
def held(node: Node) -> Iterator[Callable[[], None]]:
    """Keep a node from folding anything until it is let go."""
    holding, over = threading.Event(), asyncio.Event()

    async def hold() -> None:
        async with node.rankd._writer.turn():
            holding.set()
            await over.wait()

    def let_go() -> None:
        node.loop.call_soon_threadsafe(over.set)

    done = asyncio.run_coroutine_threadsafe(hold(), node.loop)
    assert holding.wait(PATIENCE_SECONDS)
    try:
        yield let_go
    finally:
        let_go()
        done.result(PATIENCE_SECONDS)


CLIENTS = 6
ROUNDS = 9
"""How often each client does everything once: some seconds of work for three nodes."""

DEFINITION = {"rule": "sum", "windows": ["all", "daily"], "segments": ["region"]}


def test_nodes_under_load_come_to_what_the_ledger_says(
    place: Kept, several: Backend, tmp_path: Path
) -> None:
    """Many write to all nodes at once, over changes of definition and of the day."""
    clock = SetClock()
    with serving_nodes(place, tmp_path, clock, several.nodes) as nodes:
        with connected(nodes[:1]) as (first,):
            told(first, "PUT", "/v1/boards/b", DEFINITION)
        clients = [Client(nodes, f"p{number}") for number in range(CLIENTS)]
        together([*clients, Changes(nodes, clock)])
        compare_digests(place, nodes)
        with connected(nodes) as all_nodes:
            for connection in all_nodes:
                check_scores(connection, head_of(place), clients)


def check_scores(connection: Connection, head: int, clients: Sequence["Client"]) -> None:
    path = f"/v1/boards/b/standings?limit=1000&min_position={head}"
    rows = told(connection, "GET", path)["standings"]
    assert {row["player"]: row["score"] for row in rows} == {
        each.player: each.sent for each in clients
    }


class Busy:
    """Something that is done over and over, to each node in turn, in a thread of its own."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.problem: BaseException | None = None
        self._nodes = nodes

    def run(self) -> None:
        try:
            with connected(self._nodes) as made:
                for number in range(ROUNDS):
                    self.once(number, made[number % len(made)], made[(number + 1) % len(made)])
        except BaseException as exc:
            self.problem = exc

    def once(self, number: int, one: Connection, other: Connection) -> None:
        raise NotImplementedError


class Client(Busy):
    """A player that adds to its score, in every way there is."""

    def __init__(self, nodes: Sequence[Node], player: str) -> None:
        super().__init__(nodes)
        self.player = player
        self.sent = 0

    def once(self, number: int, one: Connection, other: Connection) -> None:
        self._submit(one, {"score": 1})
        keyed = {"score": 2, "key": f"{self.player}/{number}"}
        self._submit(one, keyed)
        again = told(other, "POST", "/v1/boards/b/scores", {"player": self.player, **keyed})
        assert again["duplicate"] is True
        items = [{"board": "b", "player": self.player, "score": 3} for _ in range(4)]
        told(other, "POST", "/v1/scores:batch", {"scores": items})
        self.sent += 3 * len(items)
        region = {"attributes": {"region": ("eu", "us")[number % 2]}}
        told(one, "PUT", f"/v1/players/{self.player}", region)

    def _submit(self, connection: Connection, said: dict[str, Any]) -> None:
        told(connection, "POST", "/v1/boards/b/scores", {"player": self.player, **said})
        self.sent += said["score"]


class Changes(Busy):
    """Somebody who changes the board, and time that passes."""

    def __init__(self, nodes: Sequence[Node], clock: SetClock) -> None:
        super().__init__(nodes)
        self._clock = clock

    def once(self, number: int, one: Connection, other: Connection) -> None:
        if number % 3 == 0:
            self._clock.time += DAY
        changed = {**DEFINITION, "ties": ("standard", "dense", "ordinal")[number % 3]}
        changed["direction"] = ("lower", "higher")[number % 2]
        path = "/v1/boards/b?apply=true"
        answer = asked(one, "PUT", path, changed)
        while answer.status == 503:  # Others append all the time: it says so, and is asked again.
            answer = asked(other, "PUT", path, changed)
        assert answer.status == 200, answer


@pytest.mark.usefixtures("deaf")
def test_a_redefinition_on_one_node_holds_for_scores_on_another(
    place: Kept, several: Backend, tmp_path: Path
) -> None:
    with (
        serving_nodes(place, tmp_path, SetClock(), several.nodes) as nodes,
        connected(nodes) as (first, second, _),
    ):
        told(first, "PUT", "/v1/boards/b", {"rule": "latest"})
        told(second, "POST", "/v1/boards/b/scores", {"player": "ann", "score": 7})
        told(first, "PUT", "/v1/boards/b?apply=true", {"rule": "latest", "decimals": 2})
        receipt = told(second, "POST", "/v1/boards/b/scores", {"player": "bob", "score": 7})
        assert receipt["score"] == 7


def test_a_key_is_answered_as_before_by_a_node_that_was_closed_and_opened(
    one_node: Backend, servers: Servers, tmp_path: Path
) -> None:
    kept, clock = one_node.keep(servers), SetClock()
    ann = {"player": "ann", "score": 3, "key": "k"}
    with serving_nodes(kept, tmp_path, clock, 1) as nodes, connected(nodes) as (only,):
        told(only, "PUT", "/v1/boards/b", {})
        receipt = told(only, "POST", "/v1/boards/b/scores", ann)
    with serving_nodes(kept, tmp_path, clock, 1) as nodes, connected(nodes) as (only,):
        again = told(only, "POST", "/v1/boards/b/scores", ann)
        assert again == {**receipt, "duplicate": True}


Row = tuple[int, str, int]
"""A rank, who has it, and the score."""


class Reads(Busy):
    """Somebody who reads all the while, and notes what was said."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        super().__init__(nodes)
        self.pages: list[tuple[int, int, list[Row]]] = []
        """As of which position, how many there are, and the rows."""

    def once(self, number: int, one: Connection, other: Connection) -> None:
        self._note(told(one, "GET", "/v1/boards/b/standings?limit=1000"))
        self._note(told(other, "GET", "/v1/boards/b/around/2?range=2"))
        answer = asked(one, "GET", "/v1/boards/b/standings/p1")
        if answer.status != 404:
            assert answer.status == 200, answer
            self._note({**answer.body, "standings": [answer.body]})

    def _note(self, body: dict[str, Any]) -> None:
        rows = [(row["rank"], row["player"], row["score"]) for row in body["standings"]]
        self.pages.append((body["as_of"], body["total"], rows))


@pytest.mark.parametrize("ties", ["ordinal", "standard", "dense"])
def test_reads_among_writes_are_true_at_the_position_they_name(
    several: Backend, place: Kept, tmp_path: Path, ties: str
) -> None:
    """Each answer, whoever wrote meanwhile, is what folding the ledger up to there gives."""
    with serving_nodes(place, tmp_path, SetClock(), several.nodes) as nodes:
        with connected(nodes[:1]) as (first,):
            defined = told(first, "PUT", "/v1/boards/b", {**DEFINITION, "ties": ties})
        for node in nodes:
            reach(node, defined["as_of"])
        readers = [Reads(nodes) for _ in range(2)]
        together([*(Client(nodes, f"p{number}") for number in range(4)), *readers])
    noted = [page for reader in readers for page in reader.pages]
    expected = pages_from_scratch(place, "b", (as_of for as_of, _, _ in noted))
    for as_of, total, rows in noted:
        page = expected[as_of]
        scores = [scores[0] for scores in page.scores]
        whole = list(zip(page.ranks, page.players, scores, strict=True))
        assert (page.total, [row for row in whole if row in rows]) == (total, rows)


ASKED_ONE_AFTER_ANOTHER = ("count_below", "scores_below", "count", "read", "rank", "ranks")
"""What a shared index is asked in the course of one read."""

READS = (
    "standings",
    "standings?limit=1&cursor=",
    "standings/ann",
    "standings/ann/around",
    "around/2",
    "projection?score=5",
    "distribution?buckets=3",
    "projection?percentile=50",
    "friends/ann",
)
CALLS_MAX = 3
"""So many calls an answer takes, or fewer."""

Deed = Callable[[], object]


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Deed]]:
    """What is done before each of the next calls to an index in Redis: one deed for each."""
    deeds: list[Deed] = []
    with ThreadPoolExecutor(1) as aside:

        def after_a_deed(ask: Any) -> Any:
            async def asked_after(index: RedisIndex, *args: Any, **named: Any) -> Any:
                if deeds:
                    loop = asyncio.get_running_loop()
                    await loop.run_in_executor(aside, deeds.pop(0))
                return await ask(index, *args, **named)

            return asked_after

        for name in ASKED_ONE_AFTER_ANOTHER:
            monkeypatch.setattr(RedisIndex, name, after_a_deed(getattr(RedisIndex, name)))
        yield deeds


def nothing() -> None:
    """Let a call be made without anything before it."""


@pytest.mark.parametrize("ties", ["standard", "dense"])
def test_a_write_between_the_calls_of_a_read_is_seen_in_all_of_it_or_in_none(
    shared: Backend, servers: Servers, tmp_path: Path, between: list[Deed], ties: str
) -> None:
    """Before each call in turn another node writes; what is told is true at one position."""
    overtaken = position = 0
    with (
        serving_nodes(shared.keep(servers), tmp_path, SetClock(), 2) as nodes,
        connected(nodes) as (writing, reading),
    ):
        told(writing, "PUT", "/v1/boards/b", {"ties": ties})
        told(writing, "PUT", "/v1/players/ann/friends", {"friends": ["bob"]})
        for player, score in (("ann", 3), ("bob", 3), ("cyd", 1)):
            position = submit(writing, player, score)
        for path in READS:
            if path.endswith("="):
                path += read_at(reading, "standings?limit=1", position)["next_cursor"]
            for place in range(CALLS_MAX):
                before = read_at(reading, path, position)
                ahead = partial(submit, writing, f"{overtaken} of {place}", 9 + overtaken)
                written: list[int] = []
                between[:] = [*[nothing] * place, lambda: written.append(ahead())]  # noqa: B023
                found = told(reading, "GET", f"/v1/boards/b/{path}")
                between.clear()
                if written:
                    overtaken += 1
                    (position,) = written
                seen = found["as_of"] == position
                assert found == (read_at(reading, path, position) if seen else before)
    assert overtaken > len(READS), "some reads take several calls"


def read_at(connection: Connection, path: str, position: int) -> Any:
    mark = "&" if "?" in path else "?"
    return told(connection, "GET", f"/v1/boards/b/{path}{mark}min_position={position}")


def submit(connection: Connection, player: str, score: int) -> int:
    """Submit; return the position."""
    said = {"player": player, "score": score}
    position: int = told(connection, "POST", "/v1/boards/b/scores", said)["position"]
    return position


def together(busy: Sequence[Busy]) -> None:
    """Have all of them at it at once, and each succeed."""
    threads = [threading.Thread(target=each.run) for each in busy]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert [each.problem for each in busy] == [None] * len(busy)
