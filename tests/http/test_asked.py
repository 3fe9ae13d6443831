"""Known requests over a shared index: each is answered once, by the index or by its handler.

Where the index is across a network, what was made ready for requests like an earlier one asks it
and waits without a handler. Meanwhile everything may change that the answer depends on. So each
test holds the index's answer back, changes something, and lets it come; the other lane, which
knows nothing of all this, says what is right. A count of the handlers' calls tells who answered.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from typing import Any, cast

import pytest
from tests.http.lanes import Lane, Line, counted, get, new_key, request, status, told
from tests.http.running import run
from tests.http.wire import from_the_loop
from tests.unit.core.doubles import DAY, FarIndex, SetClock, SharedLedger, bare

from rankd.api import app, fast_lane
from rankd.api.auth import Authenticator
from rankd.api.connection import DEAD
from rankd.api.context import ServiceContext
from rankd.api.rate_limits import limits_of
from rankd.api.routes import ROUTES
from rankd.core.assembly import running
from rankd.core.cluster import managers as cluster_managers
from rankd.core.cluster.recovery import SharedHome
from rankd.core.engine import Engine
from rankd.errors import IndexUnavailable
from rankd.ports import Ranked, Ranking
from rankd.settings import Settings

Tell = Callable[[Ranked | None], None]
BOARD: dict[str, object] = {"windows": ["all", "daily"], "segments": ["region"]}


@pytest.fixture(autouse=True)
def _unmended(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is lost stays lost until the test is over."""
    monkeypatch.setattr(cluster_managers, "MEND_SECONDS", 3_600.0)


class AskedIndex(FarIndex):
    """An index across a network that tells ranks when a test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.full = False
        """Whether too many wait already."""
        self.asked = 0
        """How often it was asked by what was made ready."""
        self._held: deque[tuple[Ranking, str, Tell]] | None = None
        self._open = asyncio.Event()
        self._open.set()
        self.applies = asyncio.Event()
        """Whether it takes what is folded."""
        self.applies.set()
        self.asked_to_apply = asyncio.Event()

    def ask_rank(self, ranking: Ranking, player: str, tell: Tell) -> bool:
        if self.full:
            return False
        self.asked += 1
        wanted = ranking, player, tell
        if self._held is None:
            asyncio.get_running_loop().call_soon(self._tell, *wanted)
        else:
            self._held.append(wanted)
        return True

    def _tell(self, ranking: Ranking, player: str, tell: Tell) -> None:
        tell(None if self.cut else self.there.generation.rank_now(ranking, player))

    async def rank(self, *args: Any, **named: Any) -> Any:
        """What a handler asks."""
        await self._open.wait()
        await asyncio.sleep(0)
        if self.cut:
            raise IndexUnavailable("injected")
        return await self.there.rank(*args, **named)

    async def apply(self, *args: Any, **named: Any) -> Any:
        self.asked_to_apply.set()
        await self.applies.wait()
        return await self.there.apply(*args, **named)

    def hold(self) -> None:
        """Let whoever asks wait."""
        self._held = deque()
        self._open.clear()

    def release(self) -> None:
        """Let them be told, as things are now."""
        held, self._held = self._held or deque(), None
        self._open.set()
        for wanted in held:
            asyncio.get_running_loop().call_soon(self._tell, *wanted)


class Served:
    """A node with both lanes to it, and how often a handler was asked in the fast one."""

    def __init__(
        self, rankd: Engine, index: AskedIndex, service: ServiceContext, given: Settings
    ) -> None:
        self.rankd, self.index, self.service = rankd, index, service
        self.looked = Counter[str]()
        self.fast = Lane(service, given, counted(ROUTES, self.looked))
        self.other = Lane(service, replace(given, fast_lane=False))

    async def know(self, sent: bytes) -> Line:
        """Return a connection on which this was asked already, and is known since."""
        line = self.fast.connect()
        await line.ask(sent)
        return line

    async def at_once(self, line: Line, sent: bytes) -> bool:
        """Whether this is answered without a handler; it must be right anyway."""
        before = self.looked.total()
        assert await line.ask(sent) == await self.other.ask(sent)
        return self.looked.total() == before

    async def waiting(self, sent: bytes, kind: bytes | None = None) -> Line:
        """Return a connection on which a known request waits for the index."""
        line = await self.know(kind or sent)
        before = self.index.asked
        self.index.hold()
        await line.send(sent)
        assert self.index.asked == before + 1, "the request was not known"
        return line

    async def right(self, line: Line, sent: bytes) -> bytes:
        """Return the answer that comes now: what the other lane says, and only once."""
        self.index.release()
        answer = await line.answer()
        assert answer == await self.other.ask(sent)
        assert await line.rest() == b""
        return answer


@asynccontextmanager
async def served(*, spare: bool = False, **given: Any) -> AsyncIterator[Served]:
    index, ledger, clock = AskedIndex(), SharedLedger(), SetClock()
    own = Settings(idle_seconds_max=3_600, **given)  # Nobody is let go for having waited.
    async with running(
        ledger=ledger,
        build=bare,
        clock=clock,
        reading=nullcontext(),
        shared=SharedHome(cast("Any", index), spare),
    ) as rankd:
        auth = Authenticator(
            lambda: rankd.state, loopback=True, limits=limits_of(own, now=lambda: 0.0)
        )
        await rankd.define("b", BOARD)
        for number in range(8):
            await rankd.submit("b", [{"player": f"p{number}", "score": number * 10}])
        service = ServiceContext(rankd, cast("Any", ledger), auth, clock, False, rankd)
        yield Served(rankd, index, service, own)


@pytest.mark.parametrize("ask", ["{}", "{}?window=daily", "{}?window=daily:2026-11-14"])
def test_a_known_request_is_answered_by_the_index_alone(ask: str) -> None:
    async def compare() -> None:
        async with served() as node:
            line = await node.know(get("p1", ask))
            for player in ("p1", "p7", "p0"):
                assert await node.at_once(line, get(player, ask))

    run(compare())


def test_a_key_that_is_revoked_while_the_first_request_waits_opens_nothing_behind_it() -> None:
    async def revoke() -> None:
        async with served() as node:
            id, shown = await new_key(node.rankd, "read")
            await new_key(node.rankd, "admin")
            sent = get("p1", authorization=shown)
            node.index.hold()
            line = node.fast.connect()
            await line.send(sent)
            await node.rankd.revoke_key(id)
            node.index.release()
            assert status(await line.answer()) == 200  # It was admitted before.
            for _ in range(2):
                assert status(await line.ask(sent)) == 401

    run(revoke())


def test_a_board_that_is_retired_while_the_first_request_waits_breaks_nothing() -> None:
    """The state knows before the index does, so there may be an answer, but no more like it."""

    async def retire() -> None:
        broken: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, how: broken.append(how))
        async with served() as node:
            node.index.hold()
            node.index.applies.clear()
            node.index.asked_to_apply.clear()
            line = node.fast.connect()
            await line.send(get("p1"))
            retiring = asyncio.create_task(node.rankd.retire("b"))
            await node.index.asked_to_apply.wait()
            node.index.release()
            assert status(await line.answer()) == 200
            assert status(await line.ask(get("p1"))) == 404
            node.index.applies.set()
            await retiring
        assert not broken

    run(retire())


def test_a_place_that_cannot_be_shown_is_met_by_the_handler() -> None:
    """Whoever tells of it tells others, too, and must not hear of our mistakes."""

    async def spoil() -> None:
        async with served() as node:
            sent = get("p1")
            line = await node.waiting(sent)
            there = node.index.there
            right, node.index.there = there, cast("Any", Spoilt(there, order_key=b""))
            node.index.release()
            assert status(await line.answer()) == 500
            node.index.there = right
            assert status(await line.ask(sent)) == 200

    run(spoil())


class Spoilt:
    """An index whose answers are not what they were."""

    def __init__(self, index: Any, **spoilt: Any) -> None:
        self._index, self._spoilt = index.generation, spoilt
        self.generation = self

    def rank_now(self, ranking: Ranking, player: str) -> Any:
        return self._index.rank_now(ranking, player)._replace(**self._spoilt)

    async def rank(self, *args: Any) -> Any:
        return self.rank_now(*args)


# ----------------------------------------------------------------- what changes meanwhile


async def cut(node: Served) -> None:
    node.index.cut = True


async def empty(node: Served) -> None:
    node.index.empty()


async def fall_back(node: Served) -> None:
    """Let it be a copy of itself that was made earlier."""
    node.index.there = cast("Any", Spoilt(node.index.there, as_of=node.rankd.position - 1))


async def retire(node: Served) -> None:
    await node.rankd.retire("b")


async def redefine(node: Served) -> None:
    await node.rankd.redefine("b", {"direction": "lower"})


async def show_decimals(node: Served) -> None:
    await node.rankd.redefine("b", {"decimals": 2})


async def rename(node: Served) -> None:
    await node.rankd.profile("p1", {"name": 'Ann "Ä" \U0001f600'})


async def submit(node: Served) -> None:
    await node.rankd.submit("b", [{"player": "p1", "score": 10**9, "metadata": {"a": None}}])


async def lock(node: Served) -> None:
    await new_key(node.rankd, "read")


async def turn_the_day(node: Served) -> None:
    cast("SetClock", node.service.clock).time += DAY
    await node.rankd.submit("b", [("p2", 1)])


async def nothing(node: Served) -> None:
    pass


CHANGES = {
    "nothing": (nothing, 200),
    "submitted": (submit, 200),
    "renamed": (rename, 200),
    "redefined": (redefine, 200),
    "decimals": (show_decimals, 200),
    "retired": (retire, 404),
    "locked": (lock, 401),
    "cut": (cut, 503),
    "emptied": (empty, 503),
    "fallen back": (fall_back, 503),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_changes_while_a_known_request_waits_is_in_its_answer(name: str) -> None:
    async def meanwhile() -> None:
        async with served() as node:
            change, expected = CHANGES[name]
            sent = get("p1")
            line = await node.waiting(sent, get("p2"))
            await change(node)
            assert status(await node.right(line, sent)) == expected

    run(meanwhile())


@pytest.mark.parametrize("name", CHANGES)
def test_what_changed_before_a_known_request_is_in_its_answer(name: str) -> None:
    async def before() -> None:
        async with served() as node:
            change, expected = CHANGES[name]
            line = await node.know(get("p2"))
            await change(node)
            for _ in range(3):
                answer = await line.ask(get("p1"))
                assert status(answer) == expected
                assert answer == await node.other.ask(get("p1"))

    run(before())


@pytest.mark.parametrize("change", [{"direction": "lower"}, {"decimals": 2}], ids=str)
@pytest.mark.parametrize(
    "path", ["standings/p1", "standings", "standings/p1/around", "projection?rank=1"]
)
def test_keys_are_not_explained_by_a_definition_that_the_index_has_not_taken(
    path: str, change: dict[str, Any]
) -> None:
    """The state is ahead of a shared index: whoever asks waits for it, and is told the truth."""

    async def meanwhile() -> None:
        async with served() as node:
            sent = b"GET /v1/boards/b/%b HTTP/1.1\r\nHost: localhost\r\n\r\n" % path.encode()
            line = await node.know(sent)
            node.index.applies.clear()
            node.index.asked_to_apply.clear()
            redefining = asyncio.create_task(node.rankd.redefine("b", change))
            await node.index.asked_to_apply.wait()
            await line.send(sent)
            for _ in range(20):
                await asyncio.sleep(0)
            node.index.applies.set()
            await redefining
            answer = await line.answer()
            assert status(answer) == 200
            assert answer == await node.other.ask(sent)

    run(meanwhile())


@pytest.mark.parametrize("change", [cut, empty, fall_back])
def test_a_copy_answers_for_an_index_that_was_lost_meanwhile_and_says_so(change: Any) -> None:
    async def lose() -> None:
        async with served(spare=True) as node:
            sent = get("p1")
            line = await node.waiting(sent)
            await change(node)
            answer = await node.right(line, sent)
            assert (status(answer), told(answer)["stale"]) == (200, True)

    run(lose())


@pytest.mark.parametrize(("window", "expected"), [("daily", 404), ("daily:2026-11-14", 200)])
def test_a_window_that_turned_meanwhile_is_not_told_as_the_one_that_is_open(
    window: str, expected: int
) -> None:
    async def turn() -> None:
        async with served() as node:
            sent = get("p1", "{}?window=" + window)
            line = await node.waiting(sent)
            await turn_the_day(node)
            assert status(await node.right(line, sent)) == expected

    run(turn())


@pytest.mark.parametrize("player", ["nobody", "P1", "x" * 256, "~"])
def test_who_is_not_ranked_is_told_so_by_the_handler(player: str) -> None:
    async def ask() -> None:
        async with served() as node:
            line = await node.know(get("p1"))
            assert not await node.at_once(line, get(player))
            assert status(await line.ask(get(player))) == 404
            assert await node.at_once(line, get("p2"))

    run(ask())


def test_where_too_many_wait_already_the_handler_is_asked() -> None:
    async def crowd() -> None:
        async with served() as node:
            line = await node.know(get("p1"))
            node.index.full = True
            assert not await node.at_once(line, get("p2"))
            node.index.full = False
            assert await node.at_once(line, get("p2"))

    run(crowd())


NEVER = ["{}?min_position=3", "{}?window=daily:-1", "{}?window=daily:2026-11-14", "{}/around"]


@pytest.mark.parametrize("ask", NEVER)
def test_what_takes_more_than_a_look_is_never_asked_ahead(ask: str) -> None:
    async def look() -> None:
        async with served() as node:
            await turn_the_day(node)
            line = await node.know(get("p2", ask))
            assert not await node.at_once(line, get("p2", ask))
            assert node.index.asked == 0

    run(look())


@pytest.mark.parametrize(
    "given", [{"access_log": True}, {"rate_per_key": 1000.0}], ids=["log", "limit"]
)
def test_what_has_to_be_noted_or_counted_is_asked_ahead_too(given: dict[str, Any]) -> None:
    async def look() -> None:
        async with served(**given) as node:
            line = await node.know(get("p1"))
            await line.ask(get("p1"))
            assert node.index.asked == 1

    run(look())


# ------------------------------------------------------------------------ the connection


@pytest.mark.parametrize("change", [nothing, retire, lock, cut])
def test_what_comes_behind_a_request_that_waits_is_answered_behind_it(change: Any) -> None:
    async def pipeline() -> None:
        async with served() as node:
            asked = [get(f"p{number}") for number in (1, 2, 3)]
            asked[1:1] = [get("nobody"), request("GET", "/healthz"), get("p4", "{}/around")]
            line = await node.waiting(asked[0], get("p0"))
            for sent in asked[1:]:
                await from_the_loop(line.protocol.data_received, sent)
            await change(node)
            node.index.release()
            answers = [await line.answer() for _ in asked]
            assert answers == [await node.other.ask(sent) for sent in asked]
            assert await line.rest() == b""

    run(pipeline())


@pytest.mark.parametrize("change", [nothing, cut, rename])
def test_who_has_said_all_is_answered_and_then_let_go(change: Any) -> None:
    async def end() -> None:
        async with served() as node:
            sent = get("p1")
            line = await node.waiting(sent)
            assert await from_the_loop(line.protocol.eof_received)
            await change(node)
            node.index.release()
            assert await line.answer() == await node.other.ask(sent)
            await line.lost.wait()
            assert await line.answer() == b""

    run(end())


@pytest.mark.parametrize("change", [nothing, cut, rename])
def test_who_has_gone_is_told_nothing_and_others_are(change: Any) -> None:
    async def go() -> None:
        async with served() as node:
            sent = get("p1")
            lines = [await node.know(sent) for _ in range(3)]
            node.index.hold()
            for line in lines:
                await line.send(sent)
            lines[1].close()
            await lines[1].lost.wait()
            assert lines[1].protocol.phase is DEAD
            await change(node)
            node.index.release()
            answers = [await lines[number].answer() for number in (0, 2)]
            assert answers == [await node.other.ask(sent)] * 2
            assert (await lines[1].answer(), lines[1].protocol.phase) == (b"", DEAD)

    run(go())


def test_who_goes_before_the_handler_could_look_is_not_looked_after() -> None:
    async def go() -> None:
        async with served() as node:
            line = await node.waiting(get("p1"))
            before = node.looked.total()
            node.index.cut = True
            node.index.release()
            await from_the_loop(line.protocol.connection_lost, None)
            await from_the_loop(lambda: None)
            assert (node.looked.total(), line.protocol.phase) == (before, DEAD)

    run(go())


@pytest.mark.parametrize("change", [nothing, cut, rename])
def test_a_service_that_stops_answers_who_waits_and_closes(change: Any) -> None:
    async def stop() -> None:
        async with served() as node:
            sent = get("p1")
            line = await node.waiting(sent)
            await from_the_loop(line.protocol.shutdown)
            await change(node)
            node.index.release()
            answer, expected = await line.answer(), await node.other.ask(sent)
            assert answer.replace(b"\r\nconnection: close", b"") == expected
            assert b"\r\nconnection: close\r\n" in answer
            assert await line.rest() == b""

    run(stop())


@pytest.mark.parametrize("headers", [{}, {"accept_encoding": "gzip"}])
def test_an_answer_that_grew_large_goes_the_way_of_large_ones(
    headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (app, fast_lane):
        monkeypatch.setattr(module, "GZIP_BYTES_MIN", 1024)
    monkeypatch.setattr(fast_lane, "PLAIN_BYTES_MAX", 1023)

    async def grow() -> None:
        async with served() as node:
            sent = get("p1", **headers)
            line = await node.waiting(sent)
            item = {"player": "p1", "score": 10**6, "metadata": "x" * 1024}
            await node.rankd.submit("b", [item])
            answer = await node.right(line, sent)
            assert (b"\r\ncontent-encoding: gzip" in answer) is bool(headers)
            assert b"\r\nvary: accept-encoding" in answer

    run(grow())


def test_head_is_not_taken_for_a_known_request() -> None:
    async def head() -> None:
        async with served() as node:
            sent = request("HEAD", "/v1/boards/b/standings/p1")
            await node.know(get("p1"))
            lines = [lane.connect() for lane in (node.fast, node.other)]
            for line in lines:
                await line.send(sent)
            fast, other = [await line.rest() for line in lines]
            assert fast == other
            assert node.index.asked == 0

    run(head())
