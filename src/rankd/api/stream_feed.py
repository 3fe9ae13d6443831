"""Feeds: one ranking that is watched, and the views of it.

A feed reads its ranking once for all of its views: the top of the longest, and the neighbourhoods
of all players that are followed, in one batch.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rankd import schemas
from rankd.api import render
from rankd.api.context import show_time
from rankd.api.stream_events import (
    RowKey,
    StreamEvent,
    Version,
    ViewHead,
    keyed_rows,
    split_rows,
)
from rankd.core.changes import EVERY_BOARD, RankingChanges
from rankd.core.overtakers import FollowedPlace, overtakers
from rankd.core.own_view import read_as_ranked
from rankd.core.reader import Page, RankingView, Reader
from rankd.core.stream_samples import (
    LiveSample,
    Neighbours,
    hidden_players,
    live_sample,
    masked_page,
)
from rankd.core.visibility import Viewer
from rankd.errors import RankdError
from rankd.model.facts import Position
from rankd.model.standing import TieRule
from rankd.model.window import WindowState

if TYPE_CHECKING:
    from rankd.api.context import ServiceContext
    from rankd.api.streams import Subscription

HISTORY_VERSIONS = 64
"""Versions of a view that are remembered to resume from: some seconds of a busy board."""

PLAYERS_TOGETHER = 128
"""Players of one feed that are looked up between two chances for others."""


class FeedKey(NamedTuple):
    """A ranking as a client names it."""

    board: str
    window: str | None
    segment: str | None
    own: str | None
    """A shadowed player, to which the ranking is shown with it in it; None for all others."""


class ViewKey(NamedTuple):
    """A part of a ranking, and how it is shown."""

    top: int
    player: str | None
    around: int | None
    text: bool
    viewer: str | None
    """The player that looks, empty for the public; None where all see the same."""


class View:
    """The content that some subscriptions share."""

    def __init__(self, feed: "Feed", key: ViewKey, viewer: Viewer | None) -> None:
        self.feed = feed
        self.key = key
        self.viewer = viewer
        self.version: Version | None = None
        self.overtaken: StreamEvent | None = None
        """The last event of its kind."""
        self.subscriptions: set[Subscription] = set()
        self.is_new = True
        """Whether there is something that its subscriptions were not sent."""
        self._history: deque[Version] = deque(maxlen=HISTORY_VERSIONS)
        self._place: FollowedPlace | None = None

    @property
    def position(self) -> Position:
        """Where it was read last."""
        return Position(0) if self.version is None else self.version.through

    @property
    def neighbours(self) -> Neighbours | None:
        """The neighbourhood that it shows."""
        player = self.key.player
        return None if player is None else Neighbours(player, self.key.around or 0)

    def publish(self, version: Version) -> None:
        """Take a new version, unless it shows the same as the last one."""
        last = self.version
        if last is not None:
            if version.position < last.through:
                if not version.stale or last.stale:
                    return
                version = _stale(last)  # Read elsewhere, as of an earlier position.
            elif version.equals(last):
                last.through = version.position
                return
            last.forget_changes()
            self._history.append(last)
        self.version, self.is_new = version, True

    def version_at(self, position: Position, log: RankingChanges) -> Version | None:
        """Return the version that was shown at a position; None if that is not known."""
        last = self.version
        if last is None:
            return None
        for version in (last, *reversed(self._history)):
            if version.holds_at(position):
                return version
        unchanged = log.since <= position and log.is_unchanged(self.feed.key.board, position)
        return last if position <= last.position and unchanged else None

    def move(self, place: FollowedPlace | None) -> FollowedPlace | None:
        """Note the place of the player; return the one before if it was overtaken since."""
        before, self._place = self._place, place
        if before is None or place is None or before.order_key != place.order_key:
            return None
        return before if place.rank > before.rank else None


def _stale(version: Version) -> Version:
    through = version.through
    return Version(through, version.head, version.total, version.rows, stale=True)


class OvertakenView(NamedTuple):
    """A view whose player was overtaken."""

    view: View
    before: FollowedPlace
    place: FollowedPlace
    since: Position
    """Where the place was looked up before."""

    @property
    def player(self) -> str:
        """The player."""
        return self.view.key.player or ""


class Feed:
    """One ranking, for one kind of client."""

    def __init__(self, service: "ServiceContext", key: FeedKey) -> None:
        self._service = service
        self.key = key
        self.views: dict[ViewKey, View] = {}
        self.position = Position(0)
        """Where it was read last."""
        self.due = True
        """Whether it is to be read though its board did not change."""
        self.window_events: tuple[StreamEvent, ...] = ()
        """The last change of its window."""
        self._window: tuple[str, WindowState] | None = None
        self._top_page: Page | None = None
        self._top: dict[tuple[frozenset[str], bool], Mapping[RowKey, bytes]] = {}
        """The rows of that page, by the players hidden in it and the form of scores."""

    @property
    def is_watched(self) -> bool:
        """Whether any view has a subscription."""
        return any(view.subscriptions for view in self.views.values())

    @property
    def follows_players(self) -> bool:
        """Whether any view follows a player."""
        return any(key.player is not None for key in self.views)

    def view(self, key: ViewKey, viewer: Viewer | None) -> View:
        """Return the view with a key."""
        found = self.views.get(key)
        if found is None:
            found = self.views[key] = View(self, key, viewer)
        return found

    def forget(self, view: View) -> None:
        """Drop a view."""
        self.views.pop(view.key, None)

    def is_due(self, changed: set[str | None]) -> bool:
        """Whether it has to be read again."""
        if self.due or self.key.board in changed or EVERY_BOARD in changed:
            return True
        return self._stale() != self._was_stale or self._turned()

    def take_news(self) -> Iterator[View]:
        """Yield the views with something new."""
        for view in list(self.views.values()):
            if view.is_new:
                view.is_new = False
                yield view

    # ------------------------------------------------------------------------ reading

    _was_stale = False

    def _stale(self) -> bool:
        return self._service.rankd.stale

    def _where(self) -> RankingView:
        board, window, segment, _ = self.key
        return self._service.rankd.reader.where(board, window, segment)

    def _turned(self) -> bool:
        try:
            where = self._where()
        except RankdError:
            return True
        return (where.ranking.window, where.state) != self._window

    async def refresh(self, views: Sequence[View], log: RankingChanges) -> None:
        """Read the ranking, and give each view its version. Raises UnknownBoard and the like."""
        self.due = False
        where, self._was_stale = self._where(), self._stale()
        plain = [view for view in views if view.key.player is None]
        following = [view for view in views if view.key.player is not None]
        for first in range(0, max(len(following), 1), PLAYERS_TOGETHER):
            some = following[first : first + PLAYERS_TOGETHER]
            if not first:
                some = [*plain, *some]
            if some:
                await self._refresh(where, some, log)
        self._note_window(where)

    async def _refresh(
        self, where: RankingView, views: Sequence[View], log: RankingChanges
    ) -> None:
        top = max(view.key.top for view in views)
        wanted = {one: None for view in views if (one := view.neighbours) is not None}
        sample = await self._read(where, lambda one: live_sample(one, where, top, list(wanted)))
        self.position = max(self.position, sample.top.as_of)
        overtaken = []
        for view in views:
            since = view.position
            view.publish(self._version(where, view, sample))
            if view.key.player is not None:
                place = _place_of(sample, view)
                before = view.move(place)
                if before is not None and place is not None:
                    overtaken.append(OvertakenView(view, before, place, since))
        if overtaken:
            await self._tell_overtaken(where, overtaken, log)

    async def _read(
        self, where: RankingView, read: Callable[[Reader], Awaitable[LiveSample]]
    ) -> LiveSample:
        reader = self._service.rankd.reader
        if self.key.own is None:
            return await read(reader)
        return await read_as_ranked(reader, where, self.key.own, read)

    def _version(self, where: RankingView, view: View, sample: LiveSample) -> Version:
        reader = self._service.rankd.reader.seen_by(view.viewer)
        page = sample.top
        rows = dict(list(self._top_rows(reader, where, view, page).items())[: view.key.top])
        near = view.neighbours
        own = None if near is None else sample.neighbours.get(near)
        if own is not None and near is not None and not _is_hidden(view, near.player):
            for place, (key, row) in zip(
                _places(own), self._rows(reader, where, own, view.key.text).items(), strict=True
            ):
                if place > view.key.top:
                    rows[key] = row
        where = where.holding(page.total)
        head = ViewHead(
            self.key.board,
            where.ranking.window,
            where.ranking.segment,
            view.key.top,
            view.key.player,
            view.key.around if view.key.player is not None else None,
            where.state,
            show_time(where.opens_at),
        )
        stale = page.stale or self._was_stale
        return Version(page.as_of, head, page.total, rows, stale=stale)

    def _top_rows(
        self, reader: Reader, where: RankingView, view: View, page: Page
    ) -> Mapping[RowKey, bytes]:
        """Return the rows of the top, rendered once for all that see the same of it."""
        if self._top_page is not page:
            self._top_page, self._top = page, {}
        hidden: frozenset[str] = frozenset()
        if view.viewer is not None:
            hidden = hidden_players(reader, page.players)
        known = self._top.get((hidden, view.key.text))
        if known is None:
            known = self._rows(reader, where, page, view.key.text)
            self._top[hidden, view.key.text] = known
        return known

    def _rows(
        self, reader: Reader, where: RankingView, page: Page, text: bool
    ) -> Mapping[RowKey, bytes]:
        page = masked_page(reader, where, page)
        array = render.rows_of(page, where.terms.board)
        rows = split_rows(render.convert(array) if text else array)
        return keyed_rows(page.players, _places(page), rows)

    # ------------------------------------------------------------------------- windows

    def _note_window(self, where: RankingView) -> None:
        """Make events of a window that closed, or opened, since the last look."""
        before, self._window = self._window, (where.ranking.window, where.state)
        if before is None or before == self._window:
            return
        events = []
        if before[0] != where.ranking.window:
            events.append(self._window_event(before[0], self._state_of(before[0]), None))
        opens_at = show_time(where.opens_at)
        events.append(self._window_event(where.ranking.window, where.state, opens_at))
        self.window_events = tuple(events)
        for view in self.views.values():
            view.is_new = True

    def _state_of(self, window: str) -> WindowState:
        """Return the state of a window that closed. One that is not kept any more was sealed."""
        page = self._service.rankd.state.boards.get(self.key.board)
        closed = None if page is None else page.sealed.get(window)
        return WindowState.SEALED if closed is None else closed.state

    def _window_event(self, window: str, state: WindowState, opens_at: str | None) -> StreamEvent:
        shape = schemas.WindowChanged(self.position, self.key.board, window, state, opens_at)
        return StreamEvent("window", self.position, schemas.encode(shape))

    # ----------------------------------------------------------------------- overtaken

    async def _tell_overtaken(
        self, where: RankingView, overtaken: Sequence[OvertakenView], log: RankingChanges
    ) -> None:
        reader, page = self._service.rankd.reader, self._service.rankd.state.boards.get
        found = await overtakers(reader, where, overtaken, log, page(self.key.board))
        dense = where.terms.board.ties is TieRule.DENSE
        for (view, _, place, _), by in zip(overtaken, found, strict=True):
            if by is None and dense:
                continue  # A tie that parts makes a rank worse, and none has passed.
            shown = None if by is None or _is_hidden(view, by) else by
            shape = schemas.Overtaken(self.position, view.key.player or "", shown, place.rank)
            view.overtaken = StreamEvent("overtaken", self.position, schemas.encode(shape))
            view.is_new = True


def _is_hidden(view: View, player: str) -> bool:
    return view.viewer is not None and view.viewer.hides(player)


def _places(page: Page) -> Sequence[int]:
    """Return the unique places of a page's entries."""
    return page.ranks if page.ordinals is None else page.ordinals


def _place_of(sample: LiveSample, view: View) -> FollowedPlace | None:
    near = view.neighbours
    page = None if near is None else sample.neighbours.get(near)
    if near is None or page is None or near.player not in page.players:
        return None
    row, width = list(page.players).index(near.player), page.order.key_bytes
    key = page.order_keys[row * width :][:width]
    return FollowedPlace(page.ranks[row], _places(page)[row], key)
