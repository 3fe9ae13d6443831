"""Streams: subscriptions to rankings, and the hub that renders them.

Subscriptions that see the same share a *view*; the views of one ranking are read together by its
*feed*. A tick every ``interval`` reads the feeds of boards that changed, and makes a new version of
each view that differs from its last one. Every subscription remembers the version that it has, and
is sent the difference to the newest: encoded once for all that have the same. So the work for an
update does not grow with the subscriptions that see the same, and a subscription whose connection
cannot take more holds nothing but its place: when it can, it gets one event for all it missed.

The fold itself is the bus: the index of every process comes to the same positions.
"""

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterable, Sequence
from time import monotonic, time
from typing import TYPE_CHECKING, NamedTuple, Protocol

from rankd.api.auth import Permit
from rankd.api.stream_events import EventName, StreamEvent, Version
from rankd.api.stream_feed import Feed, FeedKey, View, ViewKey
from rankd.core.changes import EVERY_BOARD, RankingChanges
from rankd.errors import RankdError, Stopping, TooManyStreams, Unavailable
from rankd.model.facts import Position

if TYPE_CHECKING:
    from rankd.api.context import ServiceContext
    from rankd.core.projector import Projector

DELIVERIES_TOGETHER = 256
"""Events written between two chances for others: a millisecond or two."""

SAMPLED_TOGETHER = 32
"""Feeds of a shared index that are read at once."""

RESUME_SECONDS = 60.0
"""How long a view is remembered after its last subscription, so that it can be resumed."""

CATCH_UP_SECONDS = 1.0
"""How long a resumed subscription waits for a position that another process has shown."""

IDLE_VIEWS_MAX = 10_000
"""Views without a subscription that are remembered; the oldest are dropped first."""

_log = logging.getLogger(__name__)


class StreamRequest(NamedTuple):
    """The ranking, and the part of it, that a subscription is to."""

    board: str
    window: str | None = None
    segment: str | None = None
    top: int = 10
    player: str | None = None
    around: int | None = None
    text: bool = False
    """Whether scores are sent as text."""


class Credential(NamedTuple):
    """The credential of a subscriber, checked again while the subscription lasts."""

    check: Callable[[str], Permit]
    """Returns the permit to read a board. Raises Unauthenticated and Forbidden."""
    key: Hashable
    """Equal for credentials that are checked alike."""


class Sink(Protocol):
    """A connection that takes the events of subscriptions."""

    @property
    def ready(self) -> bool:
        """Whether it can take an event now; it calls ``Subscription.resume`` once it can again."""

    def send(self, subscription: "Subscription", event: StreamEvent) -> None:
        """Send an event."""

    def end(self, subscription: "Subscription", error: RankdError) -> None:
        """End a subscription for a reason."""

    def confirm(self, subscription: "Subscription") -> None:
        """Tell that a subscription was resumed, and nothing has changed."""

    def keep_alive(self) -> None:
        """Send something without a meaning."""

    def stop(self) -> None:
        """End the connection: the service stops."""


class Subscription:
    """One subscription, and the last events it was sent."""

    __slots__ = (
        "credential",
        "hub",
        "id",
        "overtaken",
        "permit",
        "request",
        "sink",
        "version",
        "view",
        "windows",
    )

    def __init__(
        self,
        hub: "StreamHub",
        request: StreamRequest,
        credential: Credential,
        permit: Permit,
        view: View,
    ) -> None:
        self.hub = hub
        self.request = request
        self.credential = credential
        self.permit = permit
        self.view = view
        self.id = b"null"
        """The id in messages, as JSON."""
        self.sink: Sink | None = None
        self.version: Version | None = None
        """The version that the client has."""
        self.overtaken = view.overtaken
        self.windows = view.feed.window_events

    def attach(self, sink: Sink) -> None:
        """Begin to send events: the state, or the change since the version to be resumed."""
        self.sink = sink
        self.hub.add_sink(sink)
        if self.version is self.view.version:
            sink.confirm(self)
        self.resume()

    def resume(self) -> None:
        """Send the missing events, in the order of their positions."""
        sink = self.sink
        if sink is None or not sink.ready:
            return
        news = self._news()
        if len(news) > 1:
            news.sort(key=_position)
        for event in news:
            self.hub.sent[event.name] += 1
            sink.send(self, event)

    def _news(self) -> list[StreamEvent]:
        """Return the events that the client does not have."""
        view, news = self.view, list[StreamEvent]()
        if self.windows is not view.feed.window_events:
            self.windows = view.feed.window_events
            news += self.windows
        version = view.version
        if version is not None and (change := version.event_since(self.version)) is not None:
            self.version = version
            news.append(change)
        if self.overtaken is not view.overtaken:
            self.overtaken = view.overtaken
            if self.overtaken is not None:
                news.append(self.overtaken)
        return news

    def cancel(self) -> None:
        """End it, because the client is gone or wants no more."""
        self.hub.remove(self)


def _position(event: StreamEvent) -> Position:
    return event.position


class StreamHub:
    """All subscriptions of one process."""

    def __init__(self, service: "ServiceContext") -> None:
        self._service = service
        self.settings = service.settings
        self.sent: dict[EventName, int] = dict.fromkeys(
            ("state", "change", "overtaken", "window", "error"), 0
        )
        """Events sent since the start, by name."""
        self.dropped = 0
        """Connections that were closed because they were not read."""
        self.ticks = 0
        self.tick_seconds = 0.0
        """Time spent in all ticks."""
        self._feeds: dict[FeedKey, Feed] = {}
        self._followed: set[str] = set()
        """Boards of which players are followed."""
        self._idle: dict[View, float] = {}
        self._subscriptions: set[Subscription] = set()
        self._sinks: dict[Sink, None] = {}
        self._to_keep_alive: list[Sink] = []
        self._kept_alive_at = 0.0
        self._task: asyncio.Task[None] | None = None
        self._reviewed: tuple[object, ...] = ()
        self._expiry = 0.0
        self._ended = False

    def __len__(self) -> int:
        return len(self._subscriptions)

    @property
    def connections(self) -> int:
        """How many connections have subscriptions."""
        return len(self._sinks)

    # ------------------------------------------------------------------ subscriptions

    async def subscribe(
        self, request: StreamRequest, credential: Credential, *, since: int | None = None
    ) -> Subscription:
        """Return a subscription, to be attached to a connection or cancelled.

        ``since`` is the position of the last event that the client has. Raises UnknownBoard,
        UnknownWindow, InvalidPage, IndexBehind, TooManyStreams, Stopping, and for the credential.
        """
        if self._ended:
            raise Stopping
        permit = credential.check(request.board)
        subscriptions_max = self.settings.stream_subscriptions_max
        if len(self._subscriptions) >= subscriptions_max:
            raise TooManyStreams(streams_max=subscriptions_max)
        self._service.rankd.reader.where(request.board, request.window, request.segment)
        log = self._log()
        view = self._view(request, permit)
        subscription = Subscription(self, request, credential, permit, view)
        self._add(subscription)
        try:
            if since is not None:
                await self._reach(Position(since))
            await view.feed.refresh([view], log)
            if since is not None:
                subscription.version = view.version_at(Position(since), log)
        except BaseException:
            subscription.cancel()
            raise
        return subscription

    async def _reach(self, position: Position) -> None:
        """Wait a moment for a position that the client has seen elsewhere. Raises IndexBehind."""
        rankd = self._service.rankd
        if position > rankd.projector.shown_to and position <= await self._service.ledger.head():
            await rankd.reached(position, within_seconds=CATCH_UP_SECONDS)

    def _view(self, request: StreamRequest, permit: Permit) -> View:
        """Return the view of a request as an actor sees it."""
        own = permit.actor.player
        if own is not None and not self._service.rankd.state.is_shadowed(own, request.board):
            own = None
        key = FeedKey(request.board, request.window, request.segment, own)
        feed = self._feeds.get(key)
        if feed is None:
            feed = self._feeds[key] = Feed(self._service, key)
        viewer = self._service.viewer(permit.actor)
        name = None if viewer is None else viewer.player or ""
        return feed.view(
            ViewKey(request.top, request.player, request.around, request.text, name), viewer
        )

    def _add(self, subscription: Subscription) -> None:
        self._subscriptions.add(subscription)
        if subscription.request.player is not None:
            self._followed.add(subscription.request.board)
        subscription.view.subscriptions.add(subscription)
        self._idle.pop(subscription.view, None)
        self._expiry = min(self._expiry or subscription.permit.until, subscription.permit.until)
        if self._task is None or self._task.done():
            self._task = self._service.rankd.supervisor.start("streams", self.run)

    def remove(self, subscription: Subscription) -> None:
        """Forget a subscription."""
        if subscription in self._subscriptions:
            self._subscriptions.discard(subscription)
            self._leave(subscription)

    def _leave(self, subscription: Subscription) -> None:
        view = subscription.view
        view.subscriptions.discard(subscription)
        if not view.subscriptions:
            self._idle[view] = monotonic() + RESUME_SECONDS
            if len(self._idle) > IDLE_VIEWS_MAX:
                self._forget(next(iter(self._idle)))

    def _forget(self, view: View) -> None:
        self._idle.pop(view, None)
        view.feed.forget(view)
        if not view.feed.views:
            self._feeds.pop(view.feed.key, None)

    def add_sink(self, sink: Sink) -> None:
        """Keep a connection alive while it has subscriptions."""
        self._sinks[sink] = None

    def remove_sink(self, sink: Sink) -> None:
        """Forget a connection."""
        self._sinks.pop(sink, None)

    # ------------------------------------------------------------------------ changes

    def _log(self) -> RankingChanges:
        """Return the log of the projector, which is noted while there are views."""
        projector: Projector = self._service.rankd.projector
        if projector.changes is None:
            projector.changes = RankingChanges(projector.checkpoint)
            projector.changes.watched = self._watches
        return projector.changes

    def _watches(self, board: str) -> bool:
        return any(
            feed.key.board == board and feed.follows_players for feed in self._feeds.values()
        )

    async def run(self) -> None:
        """Tick as long as there are views, and until cancelled."""
        self._kept_alive_at = monotonic()
        while self._feeds:
            began = monotonic()
            await self.tick()
            spent = monotonic() - began
            self.ticks += 1
            self.tick_seconds += spent
            await asyncio.sleep(max(self.settings.stream_interval - spent, 0.001))
        self._service.rankd.projector.changes = None
        self._followed.clear()

    async def tick(self) -> None:
        """Read the rankings that changed, and send the changes."""
        log = self._log()
        changed = log.take()
        if self._needs_review():
            self._review()
        feeds = [feed for feed in self._feeds.values() if feed.is_watched]
        due = [feed for feed in feeds if feed.is_due(changed)]
        if self._service.rankd.immediate:
            for feed in due:
                await self._refresh(feed, log)
                await asyncio.sleep(0)
        else:
            for first in range(0, len(due), SAMPLED_TOGETHER):
                some = due[first : first + SAMPLED_TOGETHER]
                await asyncio.gather(*(self._refresh(feed, log) for feed in some))
        self._forget_moves(log, changed)
        await self._deliver(feeds)
        self._keep_alive()
        self._sweep()

    async def _refresh(self, feed: Feed, log: RankingChanges) -> None:
        try:
            await feed.refresh([view for view in feed.views.values() if view.subscriptions], log)
        except Unavailable:
            feed.due = True  # The next tick tries again.
        except RankdError as exc:  # The board was retired, or its window dropped.
            for view in list(feed.views.values()):
                for subscription in list(view.subscriptions):
                    self._end(subscription, exc)

    def _forget_moves(self, log: RankingChanges, changed: set[str | None]) -> None:
        for board in changed:
            feeds = [feed for feed in self._feeds.values() if feed.key.board == board]
            if board is not None:
                through = min((feed.position for feed in feeds), default=log.last[board])
                log.forget_moves(board, through)

    async def _deliver(self, feeds: Iterable[Feed]) -> None:
        for feed in feeds:
            for view in feed.take_news():
                subscriptions = tuple(view.subscriptions)
                for first in range(0, len(subscriptions), DELIVERIES_TOGETHER):
                    self._deliver_some(view, subscriptions[first : first + DELIVERIES_TOGETHER])
                    await asyncio.sleep(0)

    def _deliver_some(self, view: View, subscriptions: Sequence[Subscription]) -> None:
        """Send the newest version to subscriptions, most of which have the same one."""
        version, before, change = view.version, None, None
        windows, overtaken = view.feed.window_events, view.overtaken
        for one in subscriptions:
            sink = one.sink
            if one.windows is not windows or one.overtaken is not overtaken or version is None:
                one.resume()
            elif one.version is not version and sink is not None and sink.ready:
                if change is None or one.version is not before:
                    before = one.version
                    change = version.event_since(before)
                one.version = version
                if change is not None:
                    self.sent[change.name] += 1
                    sink.send(one, change)

    # ------------------------------------------------------------------- still allowed

    def _needs_review(self) -> bool:
        """Whether keys, states or visibility changed, or a permit expired."""
        state = self._service.rankd.state
        before = self._reviewed
        self._reviewed = (id(state), state.revision, bool(state.visibility))
        return self._reviewed != before or time() >= self._expiry

    def _review(self) -> None:
        """Check all credentials again, and move subscriptions that see another world now."""
        known: dict[Hashable, Permit | RankdError] = {}
        self._expiry = float("inf")
        for subscription in list(self._subscriptions):
            credential, board = subscription.credential, subscription.request.board
            name = (credential.key, board)
            if name not in known:
                known[name] = _checked(credential, board)
            permit = known[name]
            if isinstance(permit, RankdError):
                self._end(subscription, permit)
                continue
            self._expiry = min(self._expiry, permit.until)
            subscription.permit = permit
            view = self._view(subscription.request, permit)
            if view is not subscription.view:
                self._leave(subscription)
                subscription.view = view
                subscription.overtaken, subscription.windows = (
                    view.overtaken,
                    view.feed.window_events,
                )
                view.subscriptions.add(subscription)
                self._idle.pop(view, None)
                view.feed.due = view.is_new = True

    def _end(self, subscription: Subscription, error: RankdError) -> None:
        self.remove(subscription)
        if subscription.sink is not None:
            self.sent["error"] += 1
            subscription.sink.end(subscription, error)

    # --------------------------------------------------------------------------- care

    def _keep_alive(self) -> None:
        """Send comments, some with each tick, so that they do not come all at once."""
        now, seconds = monotonic(), self.settings.stream_keepalive_seconds
        if not self._to_keep_alive and now - self._kept_alive_at >= seconds:
            self._to_keep_alive, self._kept_alive_at = list(self._sinks), now
        share = int(len(self._sinks) * 2 * self.settings.stream_interval / seconds) + 1
        some, self._to_keep_alive = self._to_keep_alive[:share], self._to_keep_alive[share:]
        for sink in some:
            if sink in self._sinks and sink.ready:
                sink.keep_alive()

    def _sweep(self) -> None:
        now = monotonic()
        for view, until in list(self._idle.items()):
            if now < until:
                break
            self._forget(view)

    async def stop(self) -> None:
        """End all connections: the service stops."""
        self._ended = True
        for sink in list(self._sinks):
            sink.stop()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._service.rankd.projector.changes = None


def _checked(credential: Credential, board: str) -> Permit | RankdError:
    try:
        return credential.check(board)
    except RankdError as exc:
        return exc


assert EVERY_BOARD is None, "is_due tests for it"
