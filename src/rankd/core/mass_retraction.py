"""A retraction of many players' submissions: the windows that it touches, folded again beside.

To fold each player by its own facts costs some reads a player. Where there are thousands, one pass
over the ledger is quicker, and it need not hold up traffic: as for a redefinition, the windows are
folded into drafts while traffic goes on, and one apply puts them in their place. It touches no
entry, so readers do not wait for it.

The earlier entries of closed windows are kept as an edition, as for a retraction of one player:
it is staged in rankings of the draft, and adopted with them.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import NamedTuple

import msgspec

from rankd.core.board_rebuild import CorrectedWindows
from rankd.core.board_state import BoardState
from rankd.core.corrections import Retraction, RetractionFilter
from rankd.core.move_batch import MoveBatch
from rankd.core.player_history import Stretches
from rankd.core.refold import FACTS_TOGETHER, BoardPlayer, recorded_window
from rankd.core.state import State
from rankd.model.facts import (
    ClosedWindow,
    Edition,
    Fact,
    OpenWindow,
    Position,
    Recorded,
    RetractionUndone,
    ScoresRetracted,
    WindowsCorrected,
    is_submission,
    right_time,
)
from rankd.model.window import Instant
from rankd.ports import LedgerReader, Move, Progress, RankIndex, Ranking

ALL_AFTER = Position(2**63 - 1)
"""The position of a retraction that is not recorded yet: it selects from all facts so far."""

ENTRIES_TOGETHER = 1_000
"""Entries of an edition that are compared and staged at once."""


REFOLDED_PLAYERS_MAX = 1_000
"""Up to so many players are folded one by one, each by its own facts."""

Tell = Callable[[Progress], None]


class Selected(NamedTuple):
    """The submissions of a retraction, as a scan of the ledger found them."""

    players: dict[BoardPlayer, None]
    windows: dict[str, dict[str, None]]
    """By board the ids of the windows that the submissions fell in."""
    submissions: int
    """How many of them no other retraction selects."""
    through: Position
    """Up to where the ledger was scanned."""

    @property
    def are_many(self) -> bool:
        """Whether windows are folded beside, and not players one by one."""
        return len(self.players) > REFOLDED_PLAYERS_MAX

    def players_on(self, board: str) -> list[str]:
        """Return the players with selected submissions to a board."""
        return [player for name, player in self.players if name == board]


async def scan(  # noqa: PLR0913 - where to look, for what, how far
    ledger: LedgerReader,
    state: State,
    fact: ScoresRetracted,
    *,
    through: Position,
    known: Selected | None = None,
    undone: Retraction | None = None,
    tell: Tell = lambda _: None,
) -> Selected:
    """Find the submissions that a retraction selects, up to a position; go on from ``known``.

    ``undone`` is the retraction itself, if it is to be taken back.
    """
    found = known or Selected({}, {}, 0, Position((fact.first or 1) - 1))
    players, windows, count, after = found
    counters: dict[str, _Counter] = {}
    until = through if fact.last is None else min(through, fact.last)
    while after < until:
        some = await ledger.read(after=after, limit=min(FACTS_TOGETHER, until - after))
        some = [recorded for recorded in some if recorded.position <= until]
        if not some:
            break
        for recorded in filter(fact.selects, some):
            selected = recorded.fact
            assert is_submission(selected)
            page = state.boards.get(selected.board)
            if page is None or recorded.position < page.since:
                continue
            if state.counts(recorded.position):
                counter = counters.get(selected.board)
                if counter is None:
                    counter = counters[selected.board] = _Counter(state, page, undone)
                players[selected.board, selected.player] = None
                count += not counter.retracted.selects(recorded)
                windows.setdefault(selected.board, {}).update(counter.windows_of(recorded))
        after = some[-1].position
        tell(Progress(after, until, "looking for submissions", "fact"))
        await asyncio.sleep(0)
    return Selected(players, windows, count, max(after, through))


class _Counter:
    """The windows of a board, and the retractions in force on it."""

    def __init__(self, state: State, page: BoardState, undone: Retraction | None) -> None:
        self._stretches = Stretches(page)
        self._wrong_times = state.wrong_times
        others = [one for one in state.retractions.values() if one != undone]
        self.retracted = RetractionFilter(others, page.board.name)

    def windows_of(self, recorded: Recorded) -> dict[str, None]:
        """Return the ids of the windows that a submission fell in, or may have.

        A window that a later definition added was folded from earlier submissions too.
        """
        at = right_time(recorded, self._wrong_times)
        found = self._stretches.at(self._stretches.names, recorded.position, at)
        return dict.fromkeys(stretch.id for stretch in found)


class Place(NamedTuple):
    """Where an entry is, and its order key; None for no entry."""

    ranking: Ranking
    player: str
    order_key: bytes | None


class ChangedEntry(NamedTuple):
    """An entry before a mass retraction, and in its draft."""

    page: BoardState
    player: str
    window: str
    before: Place
    after: Place


class MassRetraction:
    """The drafts of one retraction, or of its undoing."""

    def __init__(
        self,
        ledger: LedgerReader,
        index: RankIndex,
        state: State,
        fact: ScoresRetracted,
        selected: Selected,
        *,
        undone: Retraction | None = None,
    ) -> None:
        """Begin one; ``undone`` is the retraction that is to be taken back, if one is."""
        self.fact = fact
        self.selected = selected
        self.position = Position(0)
        """Up to where all of it is folded."""
        self.undone = undone
        self.editions: dict[Edition, None] = {}
        """The closed windows that change."""
        self._ledger, self._index, self._state = ledger, index, state
        self._drafts: dict[str, CorrectedWindows] = {}
        self._made_for: object = None
        self._limit = ALL_AFTER if undone is None else undone.position

    def is_for(self, fact: Fact) -> bool:
        """Whether these are the drafts of a recorded fact."""
        if self.undone is not None:
            return isinstance(fact, RetractionUndone) and fact.retraction == self.undone.position
        return isinstance(fact, ScoresRetracted) and _selection(fact) == _selection(self.fact)

    def _is_current(self) -> bool:
        """Whether the boards have the windows that the drafts were made for."""
        return self._made_for in (None, self._windows()) and all(
            drafts.is_current for drafts in self._drafts.values()
        )

    def _windows(self) -> object:
        pages = self._state.boards
        return {
            name: (
                list(ids),
                list(pages[name].sealed),
                [*pages[name].windows],
                [one.window.id for one in pages[name].prepared.values()],
            )
            for name, ids in self.selected.windows.items()
            if name in pages
        }

    async def catch_up(self, *, through: Position, tell: Tell = lambda _: None) -> None:
        """Scan and fold everything up to a position."""
        last = min(through, Position(self._limit - 1))
        self.selected = await scan(
            self._ledger,
            self._state,
            self.fact,
            through=last,
            known=self.selected,
            undone=self.undone,
            tell=tell,
        )
        if not self._is_current() or self._made_for is None:
            await self.discard()
            self._made_for = self._windows()
            for name in self.selected.windows:
                if name in self._state.boards:
                    self._drafts[name] = await self._begun(self._state.boards[name])
        for drafts in self._drafts.values():
            await drafts.catch_up(through=through, tell=tell)
        self.position = through

    async def _begun(self, page: BoardState) -> CorrectedWindows:
        touched = self.selected.windows[page.board.name]
        opened = [one.window for one in page.counting]
        closed = [sealed for id, sealed in page.sealed.items() if id in touched]
        fact = WindowsCorrected(
            page.board.name,
            page.since,
            0,
            tuple(OpenWindow(one.id, one.start, one.end) for one in opened),
            tuple(one.id for one in opened if one.id not in touched),
            tuple(
                ClosedWindow(one.window.id, one.window.start, one.window.end, one.through, one.at)
                for one in closed
            ),
        )
        if self.undone is None:
            coming = Retraction(ALL_AFTER, self.fact)
        else:
            coming = self.undone._replace(undone=ALL_AFTER)
        return await CorrectedWindows.begun(
            self._ledger, self._index, self._state, fact, coming=[coming]
        )

    # -------------------------------------------------------------------------- its end

    async def changes(self, changes_max: int) -> tuple[list[ChangedEntry], int]:
        """Return the first entries that change, and how many others do."""
        shown: list[ChangedEntry] = []
        more = 0
        for name, drafts in self._drafts.items():
            page, players = self._state.boards[name], self.selected.players_on(name)
            for id in self.selected.windows[name]:
                if page.is_prepared(id):
                    continue
                window = recorded_window(page, id)
                async for some in self._compared(page, window.ranking, drafts, players):
                    for player, before, after in some:
                        if len(shown) < changes_max:
                            shown.append(ChangedEntry(page, player, id, before, after))
                        else:
                            more += 1
        return shown, more

    async def _compared(
        self, page: BoardState, ranking: Ranking, drafts: CorrectedWindows, players: Sequence[str]
    ) -> AsyncIterator[list[tuple[str, Place, Place]]]:
        """Yield the players whose entry in a ranking changes, with both places, in parts."""
        for start in range(0, len(players), ENTRIES_TOGETHER):
            some = players[start : start + ENTRIES_TOGETHER]
            here = [(self._home(page, ranking, player), player) for player in some]
            there = [(drafts.drafted(home) or home, player) for home, player in here]
            keys = await self._index.order_keys(here), await self._index.order_keys(there)
            yield [
                (player, Place(*old, before), Place(*new, after))
                for player, old, new, before, after in zip(some, here, there, *keys, strict=True)
                if before != after
            ]
            await asyncio.sleep(0)

    def _home(self, page: BoardState, ranking: Ranking, player: str) -> Ranking:
        unseen = self._state.player_state(player, page.board.name) is not None
        return ranking.unseen if unseen else ranking

    async def stage_editions(self) -> None:
        """Stage the earlier entries of closed windows beside the drafts."""
        self.editions = {}
        for name, drafts in self._drafts.items():
            page, players = self._state.boards[name], self.selected.players_on(name)
            for ranking in await self._index.rankings(name):
                closed = page.has_editions(ranking.window)
                if closed and ranking.readable and ranking.window in self.selected.windows[name]:
                    await self._stage_edition(page, ranking, drafts, players)

    async def _stage_edition(
        self, page: BoardState, ranking: Ranking, drafts: CorrectedWindows, players: Sequence[str]
    ) -> None:
        number = self._state.edition(page.board.name, ranking.window)
        shape = page.sealed[ranking.window].terms.shape
        draft = drafts.drafted(ranking)
        assert draft is not None, "it is folded again"
        kept, added = draft.replaced(number), draft.added(number)
        await self._index.stage([], dropped=[kept, added])
        async for some in self._compared(page, ranking, drafts, players):
            moves = []
            for player, before, _ in some:
                if before.order_key is None:
                    moves.append(Move(added, player, bytes(shape.key_bytes)))
                else:
                    (metadata,) = await self._index.metadata([(before.ranking, player)])
                    moves.append(Move(kept, player, before.order_key, metadata))
            if moves:
                self.editions[Edition(page.board.name, ranking.window)] = None
                opened = dict.fromkeys((move.ranking for move in moves), shape)
                await self._index.stage(moves, opened=opened)

    async def adopt(self, begun: MoveBatch, at: Instant) -> None:
        """Let a batch put the drafts in place of the windows that they were made of."""
        for name, drafts in self._drafts.items():
            touched = self.selected.windows[name]
            for ranking in await self._index.rankings(name):
                if ranking.window in touched and (ranking.readable or ranking.seen is not None):
                    begun.dropped.append(ranking)
            await drafts.replace(begun, at)

    async def discard(self) -> None:
        """Forget all drafts."""
        for drafts in self._drafts.values():
            await drafts.discard()
        self._drafts = {}


def _selection(fact: ScoresRetracted) -> ScoresRetracted:
    """Return a retraction without its effect and the request that it came with."""
    return msgspec.structs.replace(fact, editions=(), request_id=None, address=None)
