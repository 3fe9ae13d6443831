"""Between the processes of a service: whole, in any order, bounded, and honest when one is gone."""

import asyncio
import contextlib
import shutil
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import msgspec
import pytest
from tests.unit.core.doubles import FaultyLedger, engine

from rankd import schemas
from rankd.api import workers
from rankd.api.messages import Request, Response
from rankd.api.routing import Route
from rankd.api.workers import FRAME_BYTES_MAX, WorkerEnd, WriterEnd
from rankd.core.supervisor import Supervisor
from rankd.errors import LedgerUnavailable, NotRanked, Overloaded, RankdError, RequestTooLarge
from rankd.model.facts import Position

pytestmark = pytest.mark.anyio
PATIENCE_SECONDS = 60.0


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Handlers:
    """What the writer does; requests whose path names a auth wait for it."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}

    async def write(self, _service: Any, request: Request) -> Response:
        self.begun.append(request.path)
        if (auth := self.gates.get(request.path)) is not None:
            await auth.wait()
        headers = {name.decode(): value.decode() for name, value in request.headers.items()}
        said = {
            "method": request.method,
            "path": request.path,
            "params": dict(request.params),
            "query": dict(request.query),
            "headers": headers,
            "body": request.body.decode(),
            "client": request.client,
        }
        return Response(schemas.encode(said), 202)

    async def refuse(self, _service: Any, request: Request) -> Response:
        raise NotRanked(board="b", window="all", player="p")

    async def fail(self, _service: Any, request: Request) -> Response:
        raise RuntimeError("a mistake of our own")

    async def large(self, _service: Any, request: Request) -> Response:
        self.begun.append(request.path)
        return Response(b"x" * (1 << 20), headers=((b"etag", b'"1"'),))

    async def read(self, _service: Any, request: Request) -> Response:
        return Response(b"{}")

    def routes(self) -> list[Route]:
        return [
            Route(method="POST", path=f"/{name}", operation=name, handler=handler, writes=writes)
            for name, handler, writes in (
                ("write", self.write, True),
                ("refuse", self.refuse, True),
                ("fail", self.fail, True),
                ("large", self.large, True),
                ("read", self.read, False),
            )
        ]


class Worker(NamedTuple):
    """One worker's side, and what it would do with a request."""

    forwarder: WorkerEnd
    routes: dict[str, Route]

    async def ask(self, operation: str, path: str = "/", **more: Any) -> Response:
        return await self.routes[operation].handler(
            SimpleNamespace(), Request("POST", path, {}, {}, {}, **more)
        )


class Heard:
    """A follower that notes what it is told, and can be slow to follow."""

    def __init__(self) -> None:
        self.positions: list[int] = []
        self.failures: list[str] = []
        """What the writer said last of itself, each once; nothing if it takes writes."""
        self.loop_problems: list[str] = []
        self.missed: list[RankdError] = []
        self.followed: list[int] = []
        self.may_follow = asyncio.Event()
        self.may_follow.set()
        self.supervisor = Supervisor()

    def hear(
        self,
        position: Position,
        failure: str = "",
        clock_confirmations: int = 0,
        *,
        ended: bool = False,
        loop_problems: Sequence[str] = (),
    ) -> None:
        self.loop_problems = list(loop_problems)
        self.positions.append(position)
        if self.failures[-1:] != [failure]:
            self.failures.append(failure)

    def miss(self, failure: RankdError) -> None:
        self.missed.append(failure)

    async def follow_to(self, position: Position) -> None:
        self.followed.append(position)
        await self.may_follow.wait()


class Writer(NamedTuple):
    """The writer's side over an engine."""

    rankd: Any
    handlers: Handlers
    receiver: WriterEnd
    listened: list[int]

    @contextlib.asynccontextmanager
    async def worker(
        self, heard: Heard | None = None, silence_seconds: float = PATIENCE_SECONDS
    ) -> AsyncIterator[Worker]:
        address, heard = await self.receiver.address(), heard or Heard()
        async with workers.forwarding(address, heard, silence_seconds) as forwarder:
            routes = {route.operation: route for route in forwarder.routes(self.handlers.routes())}
            met = self.listened[0]
            forwarder.say_listening("worker-1")
            await until(lambda: self.listened[0] > met)
            yield Worker(forwarder, routes)


@pytest.fixture
async def writer() -> AsyncIterator[Writer]:
    async with engine(FaultyLedger()) as rankd:
        handlers, listened = Handlers(), [0]
        service: Any = SimpleNamespace(rankd=rankd)
        receiver = WriterEnd(handlers.routes(), service)

        def note() -> None:
            listened[0] += 1

        async with receiver.listening(note):
            yield Writer(rankd, handlers, receiver, listened)
            for auth in handlers.gates.values():
                auth.set()  # What a test that failed left waiting would be waited for.


async def test_uses_of_keys_reach_the_writer(writer: Writer) -> None:
    heard: dict[str, int] = {}
    writer.receiver._service.auth = SimpleNamespace(note_uses=heard.update)  # type: ignore[assignment]
    async with writer.worker() as worker:
        worker.forwarder.tell_uses({"k": 5})
        await until(lambda: heard == {"k": 5})
    worker.forwarder.gone.set()
    worker.forwarder.tell_uses({"k": 6})  # There is nobody to tell.


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not holds():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)


async def a_while() -> None:
    """Give what must not happen every opportunity to happen."""
    for _ in range(100):
        await asyncio.sleep(0.001)


# ------------------------------------------------------------------------------- whole


async def test_the_writer_is_given_the_request_as_it_came(writer: Writer) -> None:
    async with writer.worker() as worker:
        request = Request(
            "POST",
            "/v1/b%20c",
            {"board": "b c"},
            {"limit": 5, "apply": True, "window": None},
            {b"authorization": b"Bearer x"},
            b'{"player":"\xc3\xa9"}',
            "10.0.0.7",
        )
        response = await worker.routes["write"].handler(SimpleNamespace(), request)
    assert response.status == 202
    assert msgspec.json.decode(response.body) == {
        "method": "POST",
        "path": "/v1/b%20c",
        "params": {"board": "b c"},
        "query": {"limit": 5, "apply": True, "window": None},
        "headers": {"authorization": "Bearer x"},
        "body": '{"player":"é"}',
        "client": "10.0.0.7",
    }


async def test_what_only_reads_is_not_handed_on(writer: Writer) -> None:
    async with writer.worker() as worker:
        assert worker.routes["read"].handler == writer.handlers.read
        assert worker.routes["write"].handler != writer.handlers.write


async def test_refusals_and_mistakes_come_back_as_the_writer_answers_them(writer: Writer) -> None:
    async with writer.worker() as worker:
        refused, failed = await worker.ask("refuse"), await worker.ask("fail")
        large = await worker.ask("large")
    problems = [msgspec.json.decode(answer.body) for answer in (refused, failed)]
    assert [(each["status"], each["code"], each["applied"]) for each in problems] == [
        (404, "not_ranked", "no"),
        (500, "internal", "unknown"),
    ]
    assert refused.content_type == b"application/problem+json"
    assert (len(large.body), large.headers) == (1 << 20, ((b"etag", b'"1"'),))


async def test_each_gets_its_own_answer_in_whatever_order_they_come(writer: Writer) -> None:
    gates = writer.handlers.gates = {f"/{number}": asyncio.Event() for number in range(10)}
    async with writer.worker() as one, writer.worker() as other:
        asked = [
            asyncio.create_task((one, other)[number % 2].ask("write", f"/{number}"))
            for number in range(10)
        ]
        await until(lambda: len(writer.handlers.begun) == 10)
        asked[4].cancel()  # Its client went away: nobody else may get its answer.
        for number in reversed(range(10)):
            gates[f"/{number}"].set()
        answers = await asyncio.gather(*asked, return_exceptions=True)
        for number, answer in enumerate(answers):
            if number == 4:
                assert isinstance(answer, asyncio.CancelledError)
            else:
                assert isinstance(answer, Response)
                assert msgspec.json.decode(answer.body)["path"] == f"/{number}"


async def test_the_writer_hears_who_takes_connections(writer: Writer) -> None:
    async with writer.worker() as one:
        assert writer.listened == [1]
        one.forwarder.say_listening("worker-1")
        await until(lambda: writer.listened == [2])


# ------------------------------------------------------------------- how far the ledger is


async def test_workers_are_told_of_every_commit_also_once_the_index_was_replaced(
    writer: Writer,
) -> None:
    one, other = Heard(), Heard()
    async with writer.worker(one) as _, writer.worker(other) as _:
        await writer.rankd.define("b", {"rule": "sum"})
        for each in (one, other):
            await until(lambda each=each: 1 in each.positions)  # type: ignore[misc]
        async for _progress in writer.rankd.rebuild():
            pass
        await writer.rankd.submit("b", [{"player": "p", "score": 1}])
        for each in (one, other):
            await until(lambda each=each: 2 in each.positions)  # type: ignore[misc]
            assert each.positions == sorted(each.positions)


async def test_an_answer_is_handed_on_once_the_worker_reads_what_was_written(
    writer: Writer,
) -> None:
    heard = Heard()
    heard.may_follow.clear()
    async with writer.worker(heard) as worker:
        await writer.rankd.define("b", {"rule": "sum"})
        asked = asyncio.create_task(worker.ask("write"))
        await until(lambda: heard.followed == [1])
        await a_while()
        assert not asked.done()
        heard.may_follow.set()
        assert (await asked).status == 202


# ---------------------------------------------------------------------- a writer's silence


async def test_a_writer_is_heard_of_without_commits_and_tells_what_it_lacks(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "BEAT_SECONDS", 0.01)
    heard = Heard()
    async with writer.worker(heard):
        await until(lambda: len(heard.positions) > 3)
        lost = LedgerUnavailable("its disk hangs", applied="no")
        writer.rankd.ledger_watches = [SimpleNamespace(failure=lost)]
        await until(lambda: heard.failures == ["", "its disk hangs"])
        writer.rankd.ledger_watches = ()
        await until(lambda: heard.failures == ["", "its disk hangs", ""])


async def test_a_worker_hears_which_loops_of_the_writer_fail(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "BEAT_SECONDS", 0.01)
    heard = Heard()

    async def loop() -> None:
        raise ZeroDivisionError("planted")

    failing = writer.rankd.supervisor.start("planted", loop)
    async with writer.worker(heard):
        told = "planted fails (ZeroDivisionError: planted) and is restarted"
        await until(lambda: heard.loop_problems == [told])
    failing.cancel()


async def test_a_writer_that_falls_silent_is_missed_and_waited_for_no_longer(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "BEAT_SECONDS", 0.01)
    auth = writer.handlers.gates["/"] = asyncio.Event()
    heard, words = Heard(), asyncio.Event()
    words.set()
    mention = workers._mention

    def silenced(worker: asyncio.StreamWriter, frame: bytes) -> None:
        if words.is_set():
            mention(worker, frame)

    monkeypatch.setattr(workers, "_mention", silenced)
    async with writer.worker(heard, silence_seconds=0.05) as worker:
        asked = [asyncio.create_task(worker.ask("write")) for _ in range(3)]
        await until(lambda: len(writer.handlers.begun) == 3)
        assert heard.missed == []
        words.clear()
        for task in asked:
            with pytest.raises(LedgerUnavailable) as lost:
                await task
            assert lost.value.applied == "unknown"
        await until(lambda: heard.missed != [])
        with pytest.raises(LedgerUnavailable) as refused:
            await worker.ask("write")
        assert refused.value.applied == "no"
        assert len(writer.handlers.begun) == 3
        auth.set()
        words.set()
        heard.positions.clear()
        await until(lambda: heard.positions != [])
        assert (await worker.ask("write")).status == 202


async def test_a_worker_that_stood_still_itself_does_not_take_the_writer_for_silent(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "BEAT_SECONDS", 0.05)
    heard = Heard()
    async with writer.worker(heard, silence_seconds=0.2):
        for _ in range(3):
            time.sleep(0.5)  # noqa: ASYNC251 - as a long fold does
            await until(lambda: heard.positions != [])
            heard.positions.clear()
        assert heard.missed == []


async def test_a_worker_that_hears_nothing_is_told_nothing_more() -> None:
    """Words would pile up in the writer for as long as the worker hangs."""
    written: list[bytes] = []
    unheard, closing = 0, False
    deaf: Any = SimpleNamespace(
        is_closing=lambda: closing,
        write=written.append,
        transport=SimpleNamespace(get_write_buffer_size=lambda: unheard),
    )
    workers._mention(deaf, b"1")
    unheard = 1
    workers._mention(deaf, b"2")
    unheard, closing = 0, True
    workers._mention(deaf, b"3")  # A transport that is closed would raise.
    assert written == [b"1"]


# ------------------------------------------------------------------------------ bounds


async def test_a_worker_refuses_what_is_too_many_at_once(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "UNDERWAY_MAX", 3)
    auth = writer.handlers.gates["/"] = asyncio.Event()
    async with writer.worker() as worker:
        asked = [asyncio.create_task(worker.ask("write")) for _ in range(3)]
        await until(lambda: len(writer.handlers.begun) == 3)
        with pytest.raises(Overloaded):
            await worker.ask("write")
        auth.set()
        await asyncio.gather(*asked)
        await worker.ask("write")


async def test_the_writer_begins_only_so_many_for_a_worker_whatever_that_sends(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "UNDERWAY_MAX", 3)
    auth = writer.handlers.gates["/"] = asyncio.Event()
    async with writer.worker() as worker:
        # It was met under the bound of three.
        monkeypatch.setattr(workers, "UNDERWAY_MAX", 1000)
        asked = [asyncio.create_task(worker.ask("write")) for _ in range(10)]
        await until(lambda: len(writer.handlers.begun) == 3)
        await a_while()
        assert len(writer.handlers.begun) == 3
        auth.set()
        await asyncio.gather(*asked)
        assert len(writer.handlers.begun) == 10


async def test_the_writer_takes_no_more_from_a_worker_that_does_not_hear_its_answers(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "UNDERWAY_MAX", 4)
    reader, deaf = await asyncio.open_unix_connection(await writer.receiver.address())
    for number in range(50):
        handed = workers.ForwardedRequest(number, "large", "POST", "/", {}, {}, {}, b"", "")
        deaf.write(workers._frame(handed))
    await until(lambda: len(writer.handlers.begun) > 0)
    await a_while()
    assert len(writer.handlers.begun) < 20, "fifty megabytes would wait in memory"
    numbers: list[int] = []
    frames = workers._frames(reader)
    while len(numbers) < 50:
        answer = workers._to_worker(await anext(frames))
        assert isinstance(answer, workers.ForwardedResponse)
        numbers.append(answer.number)
    assert sorted(numbers) == list(range(50)), "all the same, none is lost"
    await frames.aclose()  # type: ignore[attr-defined]
    deaf.close()
    await deaf.wait_closed()


async def test_a_worker_refuses_what_a_writer_that_hangs_does_not_take(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with writer.worker() as worker:
        monkeypatch.setattr(WorkerEnd, "_unsent", lambda _: workers.UNSENT_BYTES_MAX + 1)
        with pytest.raises(Overloaded):
            await worker.ask("write")
    assert writer.handlers.begun == []


async def test_a_body_no_frame_can_carry_is_refused_and_the_next_is_served(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "BODY_BYTES_MAX", 10)
    async with writer.worker() as worker:
        with pytest.raises(RequestTooLarge):
            await worker.ask("write", body=b"12345678901")
        assert (await worker.ask("write", body=b"1234567890")).status == 202


async def test_whoever_sends_a_frame_too_large_is_cut_off_and_others_are_not(
    writer: Writer, caplog: pytest.LogCaptureFixture
) -> None:
    async with writer.worker() as worker:
        reader, stranger = await asyncio.open_unix_connection(await writer.receiver.address())
        stranger.write(workers._LENGTH.pack(FRAME_BYTES_MAX + 1) + b"...")
        assert await reader.read() == b""
        stranger.close()
        await stranger.wait_closed()
        assert (await worker.ask("write")).status == 202
    assert "a frame of" in caplog.text


# ---------------------------------------------------------------------------- who is gone


async def test_what_a_writer_took_and_never_answered_may_or_may_not_be_applied(
    writer: Writer,
) -> None:
    auth = writer.handlers.gates["/"] = asyncio.Event()
    async with writer.worker() as worker:
        asked = [asyncio.create_task(worker.ask("write")) for _ in range(3)]
        await until(lambda: len(writer.handlers.begun) == 3)
        for connection in writer.receiver._workers:
            connection.close()  # As if it had died between taking and answering.
        for task in asked:
            with pytest.raises(LedgerUnavailable) as lost:
                await task
            assert lost.value.applied == "unknown"
        assert worker.forwarder.gone.is_set()
        with pytest.raises(LedgerUnavailable) as refused:
            await worker.ask("write")
        assert refused.value.applied == "no"
        auth.set()


async def test_a_worker_that_dies_leaves_the_others_and_the_writer_as_they_are(
    writer: Writer,
) -> None:
    auth = writer.handlers.gates["/gone"] = asyncio.Event()
    async with writer.worker() as other:
        async with writer.worker() as worker:
            asked = asyncio.create_task(worker.ask("write", "/gone"))
            await until(lambda: writer.handlers.begun == ["/gone"])
            asked.cancel()
        auth.set()
        await until(lambda: len(writer.receiver._workers) == 1)
        assert (await other.ask("write")).status == 202
        await writer.rankd.define("b", {})
        await a_while()
        assert (await other.ask("write")).status == 202


async def test_whoever_comes_after_the_socket_was_tidied_away_is_given_another(
    writer: Writer,
) -> None:
    async with writer.worker() as before:
        first = await writer.receiver.address()
        assert await writer.receiver.address() == first
        shutil.rmtree(Path(first).parent)
        async with writer.worker() as after:
            assert (await after.ask("write")).status == 202
            assert (await before.ask("write")).status == 202
        addresses = await asyncio.gather(*(writer.receiver.address() for _ in range(3)))
        assert len({first, *addresses}) == 2


async def test_nothing_is_left_of_a_receiver_that_ended() -> None:
    service: Any = SimpleNamespace(rankd=None)
    async with engine(FaultyLedger()) as rankd:
        service.rankd = rankd
        receiver = WriterEnd([], service)
        async with receiver.listening(lambda: None):
            folder = Path(await receiver.address()).parent
            assert is_private(folder)
    assert is_absent(folder)


def is_private(folder: Path) -> bool:
    return folder.stat().st_mode & 0o777 == 0o700


def is_absent(folder: Path) -> bool:
    return not folder.exists()
