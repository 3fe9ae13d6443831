"""Metrics of the workers, collected by the writer process.

Each scrape asks every worker over its connection to the writer. A worker that does not answer in
time is shown as down, with the counters it reported last. The counters of an ended process are
stored and added to those of its successor, so no counter decreases.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from itertools import count

from rankd.api.exposition import Family, WorkerFigures, retire

ANSWER_SECONDS_MAX = 0.5
"""Time for the workers to answer a scrape; a slower process counts as down."""

Ask = Callable[[int], None]
"""Asks a worker for its metrics, with a number that its answer repeats."""


class WorkerSession:
    """One connected worker process."""

    def __init__(self, name: str, ask: Ask) -> None:
        self.name = name
        self._ask = ask
        self._awaited: dict[int, asyncio.Future[None]] = {}
        self.families: Sequence[Family] = ()
        """The metrics it reported last."""

    def take(self, number: int, families: Sequence[Family]) -> None:
        """Store an answer."""
        self.families = families
        if (answer := self._awaited.get(number)) is not None and not answer.done():
            answer.set_result(None)

    async def answers(self, number: int) -> bool:
        """Ask for metrics; return whether they arrive in time."""
        self._awaited[number] = answer = asyncio.get_running_loop().create_future()
        self._ask(number)
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                await answer
        except TimeoutError:
            return False
        finally:
            del self._awaited[number]
        return True


class WorkerMetrics:
    """The last metrics of each worker, by its name."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._sessions: dict[str, WorkerSession | None] = dict.fromkeys(names)
        self._retired: dict[str, Sequence[Family]] = {}
        self._numbers = count()

    def join(self, name: str, ask: Ask) -> WorkerSession:
        """Begin the session of a worker process that accepts connections."""
        if (before := self._sessions.get(name)) is not None:
            self.leave(before)
        self._sessions[name] = session = WorkerSession(name, ask)
        return session

    def leave(self, session: WorkerSession) -> None:
        """End a session and store its counters; nothing if it was replaced before."""
        name = session.name
        if self._sessions[name] is session:
            self._retired[name] = retire(session.families, self._retired.get(name, ()))
            self._sessions[name] = None

    async def collect(self) -> Sequence[WorkerFigures]:
        """Ask all workers, and return their metrics within ANSWER_SECONDS_MAX."""
        number, asked = next(self._numbers), dict(self._sessions)
        answers = await asyncio.gather(*(_answers(each, number) for each in asked.values()))
        return [
            self._figures(name, up=up and self._sessions[name] is session)
            for (name, session), up in zip(asked.items(), answers, strict=True)
        ]

    def _figures(self, name: str, *, up: bool) -> WorkerFigures:
        session = self._sessions[name]
        families = () if session is None else session.families
        return WorkerFigures(name, up, families, self._retired.get(name, ()))


async def _answers(session: WorkerSession | None, number: int) -> bool:
    return session is not None and await session.answers(number)
