"""What handlers work with: the engine, the gate, and the bounds in force."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from rankd.api.access import Gate
from rankd.api.exposition import WRITER, WorkerFigures
from rankd.api.pages import Pages
from rankd.core.search import PlayerSearch
from rankd.core.service import Rankd
from rankd.core.view import View
from rankd.model.window import Instant
from rankd.ports import Clock, LedgerReader

MIN_POSITION_SECONDS_MAX = 5.0
"""How long a read waits for the position it asks for."""

EVERY_BOARD = "*"


async def _no_workers() -> Sequence[WorkerFigures]:
    return ()


@dataclass(slots=True)
class Service:
    """One running service."""

    rankd: View
    """What is read."""
    ledger: LedgerReader
    gate: Gate
    clock: Clock
    durable: bool
    engine: Rankd | None = None
    """What writes; None where another process does, and writes are handed on to it."""
    pages: Pages = field(default_factory=Pages)
    search: PlayerSearch = field(init=False)
    public_pages: tuple[str, ...] = ()
    """Boards whose pages any cache may keep, also where it takes a key to read them."""
    stopping: Callable[[], bool] = lambda: False
    node: str = ""
    """What this node is called."""
    role: str = "all"
    """What it does."""
    process: str = WRITER
    """What this process is called, among those of the node."""
    workers: Callable[[], Awaitable[Sequence[WorkerFigures]]] = _no_workers
    """Asks the processes beside the one that writes for their figures."""
    spools: bool = False
    """Whether the process that writes lets scores wait on disk, where this is another one."""

    def __post_init__(self) -> None:
        self.search = PlayerSearch(self.rankd)

    @property
    def writer(self) -> Rankd:
        """What writes. Routes that write are never handled where there is none."""
        assert self.engine is not None, "writes are handed on"
        return self.engine

    @property
    def writable(self) -> bool:
        """Whether submissions are taken here, though they may have to wait."""
        spools = self.engine is None and self.spools and self.rankd.writer_answers
        return self.rankd.writable or spools

    def is_public(self, board: str) -> bool:
        """Whether a cache may show the pages of a board to whoever asks it."""
        return board in self.public_pages or EVERY_BOARD in self.public_pages


_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - shown with a Z of ours


def show_time(instant: Instant | None) -> str | None:
    """Return a time as RFC 3339, in UTC; None for one that has no year of four digits there."""
    if instant is None:
        return None
    try:
        return f"{(_EPOCH + timedelta(microseconds=instant)).isoformat()}Z"
    except OverflowError:  # What a client said, hours before the year 1 or after 9999.
        return None
