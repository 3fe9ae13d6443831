"""A ranking as of a past position: a copy of the present one, with later changes taken back.

A player without facts since the position has the entry that it had. These entries are copied while
the present goes on: in the order of keys, so that none is missed however others move. A player with
facts since is left out of the copy, and folded from its own facts up to the position.

This is exact where the facts since are submissions, metadata, profiles and windows: no correction,
no state of a player, no definition. The window has to be open then and now.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from rankd.core.past_replay import PastRanking, PastTooLarge, Slices
from rankd.core.player_history import PlayerHistory, corrections_of, facts_of_player
from rankd.core.projector import Projector, Tell
from rankd.core.refold import attributes_at
from rankd.core.state import State, segments_of
from rankd.errors import IndexForgot, IndexUnavailable
from rankd.model.facts import FEW, Position
from rankd.model.standing import Rank
from rankd.ports import DRAFT, LedgerReader, Move, Placed, Progress, RankIndex, Ranking

TOGETHER = 1_024
"""Facts that are read, or entries that are copied, at a stretch."""

PLAYERS_TOGETHER = 16
"""Players that are folded at a stretch."""

FACTS_PER_PLAYER = 600
"""How many facts are folded in the time that it takes to fold one player by its own facts: 1.5 ms
on SQLite, against 2.5 us."""

ENTRIES_PER_FACT = 1
"""How many entries are copied in the time that it takes to fold one fact."""

MOMENTS_MAX = 20
"""How often the same entries of a shared index are read until it counts as too busy."""

_HARMLESS = frozenset(
    (
        *("window_opened", "window_sealed", "window_ended", "window_frozen", "window_settled"),
        "window_prepared",
        *("score_adjusted", "facts_redacted", "key_created", "keys_used", "key_revoked"),
        *("signing_key_created", "webhook_set", "webhook_removed", "webhook_rewound"),
        "webhooks_sent",
    )
)
"""The few kinds of facts that a copy may be taken back over."""

_OF_WINDOWS = frozenset(
    (
        *("board_defined", "board_retired", "time_corrected", "windows_corrected"),
        *("window_opened", "window_sealed", "window_dropped", "window_ended", "window_frozen"),
        *("window_settled", "window_prepared"),
    )
)
"""The kinds of facts that make the state of a board, without its players."""


class Present(Protocol):
    """The present that is copied."""

    projector: Projector

    @property
    def state(self) -> State:
        """The present state."""


async def page_before(
    present: Present, ledger: LedgerReader, board: str, position: Position
) -> State | None:
    """Return the state of a board at a position, without players; None if it cannot be copied."""
    audit = present.state.audit
    of_board = {board, None}
    since = audit.find(after=position, kinds=FEW - _HARMLESS, boards=of_board)
    if audit.since or next(since, None) is not None:
        return None
    state = State()
    found = audit.find(after=Position(0), kinds=_OF_WINDOWS, boards=of_board)
    positions = [one for one in found if one <= position]
    for start in range(0, len(positions), TOGETHER):
        for recorded in await ledger.read_at(positions[start : start + TOGETHER]):
            state.note(recorded)
    return state if board in state.boards else None


def is_open_still(present: Present, ranking: Ranking) -> bool:
    """Whether the window of a ranking is open now."""
    page = present.state.boards.get(ranking.board)
    return page is not None and ranking.readable and ranking.window in page.window_ids.values()


async def copy_cost(present: Present, ranking: Ranking, position: Position) -> int:
    """Return the cost of a copy as a number of folded facts, at most."""
    since = present.projector.checkpoint - position
    entries = await present.projector.readable.count(ranking)
    return since * (1 + FACTS_PER_PLAYER) + entries // ENTRIES_PER_FACT


class CopyWanted(NamedTuple):
    """The ranking and the position of a copy, with the bounds of the work."""

    ranking: Ranking
    position: Position
    entries_max: int | None
    slices: Slices
    tell: Tell


class Copy:
    """The copy of one ranking, while it is made."""

    def __init__(
        self,
        present: Present,
        ledger: LedgerReader,
        index: RankIndex,
        state: State,
        wanted: CopyWanted,
    ) -> None:
        self._present, self._ledger, self._index, self._state = present, ledger, index, state
        self._ranking, self._position, self._entries_max, self._slices, self._tell = wanted
        ranking = self._ranking
        self._page = state.boards[ranking.board]
        self._draft = Ranking(f"{DRAFT}{ranking.board}", ranking.window, ranking.segment)
        opened = self._page.recorded(ranking.window)
        self._opened = {self._draft: opened.terms.shape}
        self._scanned = self._position
        self._changed: dict[str, None] = {}
        """The players with facts since the position."""

    async def make(self) -> PastRanking:
        """Make the copy. Raises PastTooLarge, IndexUnavailable and LedgerUnavailable."""
        await self._index.stage([], opened=self._opened)
        await self._scan()
        await self._copy_entries()
        await self._scan()  # What others appended while entries were copied.
        await self._take_back()
        entries = await self._index.count(self._draft)
        adopted = {self._draft: self._ranking}
        await self._index.apply([], after=Position(0), through=self._position, adopted=adopted)
        projector = Projector(
            ledger=self._ledger,
            index=self._index,
            state=self._state,
            checkpoint=self._position,
        )
        return PastRanking(projector, entries)

    async def _scan(self) -> None:
        """Note the players with facts since the position."""
        board, segmented = self._ranking.board, self._ranking.segment is not None
        while self._scanned < self._present.projector.checkpoint:
            facts = await self._ledger.read(after=self._scanned, limit=TOGETHER)
            if not facts:
                return
            for fact in (recorded.fact for recorded in facts):
                moves = getattr(fact, "board", None) == board
                if moves or (segmented and fact.profile_change() is not None):
                    player = getattr(fact, "player", None)
                    if player is not None:
                        self._changed[player] = None
            self._scanned = facts[-1].position
            await self._slices.rest()

    async def _copy_entries(self) -> None:
        last: Placed | None = None
        copied = 0
        while True:
            entries, total = await self._entries_behind(last)
            if self._entries_max is not None and total > self._entries_max:
                raise PastTooLarge(total)
            if not entries:
                return
            await self._stage(
                Move(self._draft, one.player, one.order_key, one.metadata)
                for one in entries
                if one.player not in self._changed
            )
            last, copied = entries[-1], copied + len(entries)
            self._tell(Progress(copied, max(copied, total), "copying", "standing"))
            await self._slices.rest()

    async def _entries_behind(self, last: Placed | None) -> tuple[Sequence[Placed], int]:
        """Return the next entries behind one, in the order of their keys, and the total."""
        index = self._present.projector.readable
        for _ in range(MOMENTS_MAX):
            try:
                at = None if index.immediate else await index.checkpoint()
                first = Rank(1)
                if last is not None:
                    place = (last.order_key, f"{last.player}\0")  # No id lies between the two.
                    first = Rank(await index.count_below(self._ranking, *place, at) + 1)
                found = await index.read(self._ranking, first=first, limit=TOGETHER, at=at)
            except IndexForgot:
                continue
            return found.entries, found.total
        raise IndexUnavailable("the index moves on too fast to be copied")

    async def _stage(self, moves: Iterable[Move]) -> None:
        some = list(moves)
        if some:
            await self._index.stage(some)
            # The last player that leaves a segment takes it along.
            await self._index.stage([], opened=self._opened)

    async def _take_back(self) -> None:
        """Give the players with facts since the position the entries that they had at it."""
        changed = list(self._changed)
        for start in range(0, len(changed), PLAYERS_TOGETHER):
            some = changed[start : start + PLAYERS_TOGETHER]
            await self._stage([await self._move_of(player) for player in some])
            done = Progress(start + len(some), len(changed), "taking changes back", "player")
            self._tell(done)
            await self._slices.rest()

    async def _move_of(self, player: str) -> Move:
        state, page, ranking = self._present.state, self._page, self._ranking
        entry = None
        if state.player_state(player, ranking.board) is None and await self._is_member(player):
            facts = await facts_of_player(
                self._ledger, page, player, state.erased, through=self._position
            )
            corrections = corrections_of(state, page, facts)
            history = PlayerHistory(page, facts, corrections, state.wrong_times)
            entry = history.entries.get(ranking.window)
        if entry is None:
            return Move(self._draft, player, None)
        return Move(self._draft, player, entry.order_key, entry.metadata)

    async def _is_member(self, player: str) -> bool:
        """Whether a player was in the segment that is copied, if it is one."""
        if self._ranking.segment is None:
            return True
        before, erased = Position(self._position + 1), self._present.state.erased
        attributes = await attributes_at(self._ledger, player, before, erased)
        return self._ranking.segment in segments_of(self._page.board, attributes)
