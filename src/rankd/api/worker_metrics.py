"""Figures of the workers, asked for by the process that writes.

A worker is asked at each scrape, over the connection that it hands writes on by. One that does not
answer in time is shown as down, with the counters that it told last; so is one that ended, until
another has taken its place, and the counters of that one are added. So no counter goes back.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from itertools import count

from rankd.api.exposition import Family, WorkerFigures, retire

ANSWER_SECONDS_MAX = 0.5
"""Time for the workers to answer a scrape; a process that takes longer counts as down."""

Ask = Callable[[int], None]
"""Asks a worker for its figures, under a number that its answer repeats."""


class Session:
    """One connected worker process."""

    def __init__(self, name: str, ask: Ask) -> None:
        self.name = name
        self._ask = ask
        self._awaited: dict[int, asyncio.Future[None]] = {}
        self.families: Sequence[Family] = ()
        """As it told them last."""

    def take(self, number: int, families: Sequence[Family]) -> None:
        """Note an answer."""
        self.families = families
        if (answer := self._awaited.get(number)) is not None and not answer.done():
            answer.set_result(None)

    async def answers(self, number: int) -> bool:
        """Whether the process answers in time."""
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
    """The last figures of each worker, by its name."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._sessions: dict[str, Session | None] = dict.fromkeys(names)
        self._retired: dict[str, Sequence[Family]] = {}
        self._numbers = count()

    def join(self, name: str, ask: Ask) -> Session:
        """Return the session of a process that takes connections from now on."""
        if (before := self._sessions.get(name)) is not None:
            self.leave(before)
        self._sessions[name] = session = Session(name, ask)
        return session

    def leave(self, session: Session) -> None:
        """End the session of a process; one that was replaced has ended before."""
        name = session.name
        if self._sessions[name] is session:
            self._retired[name] = retire(session.families, self._retired.get(name, ()))
            self._sessions[name] = None

    async def collect(self) -> Sequence[WorkerFigures]:
        """Ask all workers, and return their figures within the time that they have."""
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


async def _answers(session: Session | None, number: int) -> bool:
    return session is not None and await session.answers(number)
