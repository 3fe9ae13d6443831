"""The context of handlers: the engine, the Authenticator, the cache of pages and configuration."""

from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

from rankd.api.auth import Actor, Authenticator
from rankd.api.exposition import WRITER, WorkerFigures
from rankd.api.messages import Request, Response
from rankd.api.operations import Operations
from rankd.api.rate_limits import Network, client_of
from rankd.api.tickets import UsedTickets
from rankd.core.engine import Engine
from rankd.core.own_view import read_as_ranked
from rankd.core.read_engine import PlayerSearch, ReadEngine
from rankd.core.reader import RankingView, Reader
from rankd.core.request_origin import working_for
from rankd.core.visibility import Viewer
from rankd.model.facts import Position, RequestOrigin
from rankd.model.window import Instant
from rankd.ports import Clock, LedgerReader
from rankd.settings import Settings

if TYPE_CHECKING:
    from rankd.api.streams import StreamHub

T = TypeVar("T")

PAGES_MAX = 4096
"""Cached pages; of a hundred rows each that is some 40 MB."""


class PageCache:
    """Rendered pages of the latest position, which are read thousands of times until the next.

    The key has all that a page depends on: the ranking, its offset and length, its position, and
    the position of the last profile change. At a later position the key differs, so a cached page
    is never stale.
    """

    __slots__ = ("_at", "_pages")

    def __init__(self) -> None:
        self._at: Hashable = None
        self._pages: dict[Hashable, Response] = {}

    def find(self, at: Hashable, what: Hashable) -> Response | None:
        """Return a page as of the moment ``at``, if cached."""
        return self._pages.get(what) if at == self._at else None

    def keep(self, at: Hashable, what: Hashable, page: Response) -> None:
        """Cache a page; drop all pages of an earlier moment."""
        if at != self._at or len(self._pages) >= PAGES_MAX:
            self._at, self._pages = at, {}
        self._pages[what] = page


MIN_POSITION_SECONDS_MAX = 5.0
"""The longest wait of a read for its ``min_position``."""

EVERY_BOARD = "*"


async def _no_workers() -> Sequence[WorkerFigures]:
    return ()


@dataclass(slots=True)
class ServiceContext:
    """One running service."""

    rankd: ReadEngine
    """The read side."""
    ledger: LedgerReader
    auth: Authenticator
    clock: Clock
    durable: bool
    engine: Engine | None = None
    """The write side; None in a worker, which forwards writes."""
    pages: PageCache = field(default_factory=PageCache)
    operations: Operations = field(default_factory=Operations)
    search: PlayerSearch = field(init=False)
    public_pages: tuple[str, ...] = ()
    """Boards whose pages any cache may store, even if reading them needs a key."""
    stopping: Callable[[], bool] = lambda: False
    node: str = ""
    """The name of this node."""
    role: str = "all"
    """The role of this node."""
    process: str = WRITER
    """The name of this process within the node."""
    workers: Callable[[], Awaitable[Sequence[WorkerFigures]]] = _no_workers
    """Returns the metrics of the workers."""
    spools: bool = False
    """In a worker: whether the writer spools scores on disk while the ledger is lost."""
    proxies: tuple[Network, ...] = ()
    """Trusted proxies, whose X-Forwarded-For tells the address of a client."""
    audit_addresses: bool = True
    """Whether administrative facts are recorded with the address of the client."""
    settings: Settings = field(default_factory=Settings)
    used_tickets: UsedTickets = field(default_factory=UsedTickets)
    hand_on_ticket: Callable[[bytes, float], Awaitable[bool]] | None = None
    """In a worker: has the process that writes take a ticket, once for all workers."""
    _streams: "StreamHub | None" = None

    def __post_init__(self) -> None:
        self.search = PlayerSearch(self.rankd)

    @property
    def writer(self) -> Engine:
        """The write side. Handlers of routes that write run only where it exists."""
        assert self.engine is not None, "writes are handed on"
        return self.engine

    @property
    def streams(self) -> "StreamHub":
        """The subscriptions of this process."""
        if self._streams is None:
            from rankd.api.streams import StreamHub  # It renders, and so needs this module.

            self._streams = StreamHub(self)
        return self._streams

    async def use_ticket(self, nonce: bytes, expires: float) -> bool:
        """Take a ticket; False if it was taken before. Raises LedgerUnavailable in a worker."""
        if self.hand_on_ticket is not None:
            return await self.hand_on_ticket(nonce, expires)
        return self.used_tickets.use(nonce, expires)

    async def stop_streams(self) -> None:
        """End all streams."""
        if self._streams is not None:
            await self._streams.stop()

    def origin_of(self, request: Request) -> RequestOrigin:
        """Return the origin that administrative facts of a request are recorded with."""
        if not self.audit_addresses:
            return RequestOrigin(request.request_id)
        forwarded_for = request.headers.get(b"x-forwarded-for")
        address = client_of(request.client, forwarded_for, self.proxies)
        return RequestOrigin(request.request_id, address or None)

    @property
    def writable(self) -> bool:
        """Whether submissions are accepted, at least into the spool."""
        spools = self.engine is None and self.spools and self.rankd.writer_answers
        return self.rankd.writable or spools

    async def wait_for_head(self, board: str | None) -> Position | None:
        """Wait until reads of a prize board show every write that was answered before now.

        Return the position to read at; None for other boards.
        Raises LedgerUnavailable and IndexBehind.
        """
        if not self.rankd.awaits_head(board):
            return None
        head = await self.ledger.head()
        await self.rankd.reached(head, within_seconds=MIN_POSITION_SECONDS_MAX)
        return head

    def sees_itself(self, actor: Actor, board: str) -> bool:
        """Whether an actor is a shadowed player, which sees a board as if it were ranked there."""
        return actor.player is not None and self.rankd.state.is_shadowed(actor.player, board)

    def viewer(self, actor: Actor) -> Viewer | None:
        """Return an actor as a viewer; None for one that is shown every player."""
        state = self.rankd.state
        return None if actor.is_game or not state.visibility else Viewer(state, actor.player)

    def sees_alike(self, actor: Actor, board: str | None) -> bool:
        """Whether an actor is shown the same of a board as the game: then a plan may answer."""
        itself = board is not None and self.sees_itself(actor, board)
        return not itself and self.viewer(actor) is None

    async def read_as(
        self,
        actor: Actor,
        where: RankingView,
        read: Callable[[Reader], Awaitable[T]],
        *,
        reader: Reader | None = None,
    ) -> T:
        """Return a read of one ranking as an actor sees it."""
        viewer = self.viewer(actor)
        if not self.sees_itself(actor, where.ranking.board):
            return await read((reader or self.rankd.reader).seen_by(viewer))
        assert actor.player is not None
        own = self.rankd.reader.seen_by(viewer)
        return await read_as_ranked(own, where, actor.player, read)

    def is_public(self, board: str) -> bool:
        """Whether a shared cache may serve the pages of a board to any client."""
        return board in self.public_pages or EVERY_BOARD in self.public_pages


def recorded_with(service: ServiceContext, request: Request) -> AbstractContextManager[None]:
    """Let the administrative facts that a handler records have the origin of its request."""
    return working_for(lambda: service.origin_of(request))


_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - shown with a Z of ours


def show_time(instant: Instant | None) -> str | None:
    """Return a time as RFC 3339 in UTC; None for None and outside the years 1 to 9999."""
    if instant is None:
        return None
    try:
        return f"{(_EPOCH + timedelta(microseconds=instant)).isoformat()}Z"
    except OverflowError:  # A client's time, hours before the year 1 or after 9999.
        return None
