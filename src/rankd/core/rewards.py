"""Rewards in the state, the lists of them, and claims.

A reward's id is made of the position of the fact that gave it and of its row there. Players, ranks
and gifts are read from that fact.
"""

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from rankd.core.board_state import BoardState, SealedWindow
from rankd.core.reward_rows import REWARD_STATES, RewardId, RewardRows, RewardState, find_rows
from rankd.core.state import State
from rankd.core.writer import Writer
from rankd.errors import (
    FieldError,
    InvalidCursor,
    InvalidRequest,
    PlayerBanned,
    RewardWithdrawn,
    UnknownReward,
)
from rankd.model.facts import (
    Position,
    RewardClaimed,
    RewardsGiven,
)
from rankd.model.rewards import show_amount
from rankd.model.window import Instant, WindowState
from rankd.ports import LedgerReader

REWARDS_LISTED_MAX = 1000
REWARDS_LISTED_DEFAULT = 100
"""Rewards of one answer."""

# -------------------------------------------------------------------------------- reading


class GivenReward(NamedTuple):
    """A reward as it is now."""

    id: str
    board: str
    window: str
    player: str
    rank: int
    """At its settlement."""
    band: int
    """The place of its band in the definition, counted from 0."""
    edition: int
    """The edition of the window that gave it."""
    give_json: bytes | None
    """None if there is an amount only."""
    amount: str | None
    """With all of its digits; None if there is none."""
    state: RewardState
    claimed_at: Instant | None

    @property
    def give(self) -> Any:
        """The gift of the definition; None if there is an amount only."""
        return None if self.give_json is None else msgspec.json.decode(self.give_json)

    @classmethod
    def of(cls, fact: RewardsGiven, id: RewardId, rows: RewardRows) -> "GivenReward":
        """Return one of the rewards of a fact."""
        row = id.row
        amount = show_amount(fact.amounts[row], fact.decimals) if fact.amounts else None
        return cls(
            str(id),
            fact.board,
            fact.window,
            fact.players[row],
            fact.ranks[row],
            fact.band,
            fact.edition,
            fact.give,
            amount,
            rows.state_of(row),
            rows.claimed_at(row),
        )


class RewardPage(NamedTuple):
    """Some rewards of a window, in the order of their settlement: band by band, the best first."""

    window: str
    state: WindowState
    rewards: Sequence[GivenReward]
    total: int
    """All rewards of the window, those that are withdrawn included."""
    withdrawn: int
    next_cursor: str | None
    """The id of the last of these, if there are more."""


class RewardFilter(NamedTuple):
    """Which rewards of a window are meant."""

    player: str | None = None
    state: RewardState | None = None
    after: RewardId | None = None

    @classmethod
    def read(cls, player: str | None, state: str | None, cursor: str | None) -> "RewardFilter":
        """Return the filter of a request. Raises InvalidRequest, InvalidCursor."""
        after = None if cursor is None else RewardId.read(cursor)
        if cursor is not None and after is None:
            raise InvalidCursor("is damaged")
        chosen: RewardState | None = None
        if state is not None:
            if state not in REWARD_STATES:
                message = f"must be one of {', '.join(REWARD_STATES)}"
                raise InvalidRequest([FieldError("state", message)])
            chosen = state
        return cls(player, chosen, after)

    def ids(self, every: Sequence[RewardRows]) -> Iterator[tuple[RewardRows, int]]:
        """Yield the rows that may be meant: a checksum may be that of another player, too."""
        begin = self.after or RewardId(Position(0), -1)
        for rows in every[bisect_left(every, begin.given, key=lambda one: one.given) :]:
            first = begin.row + 1 if rows.given == begin.given else 0
            some = range(rows.size) if self.player is None else rows.rows_of(self.player)
            for row in some:
                if row >= first and self.state in (None, rows.state_of(row)):
                    yield rows, row


async def list_rewards(  # noqa: PLR0913 - which rewards, and their places
    state: State,
    ledger: LedgerReader,
    board: str,
    window: str,
    now: Instant,
    chosen: RewardFilter,
    limit: int = REWARDS_LISTED_DEFAULT,
) -> RewardPage:
    """Return a page of the rewards of a window; none if it is not settled.

    Costs the facts that the page is of, at most ``limit`` of them. Raises UnknownWindow.
    """
    found = state.page(board).find_window(window, now)
    id = found.window.id
    every = state.rewards.get((board, id), ())
    total, withdrawn = sum(one.size for one in every), sum(one.withdrawn.count(1) for one in every)
    candidates = chosen.ids(every)
    rewards: list[GivenReward] = []
    while some := list(islice(candidates, limit + 1 - len(rewards))):
        facts = await _facts(ledger, [rows.given for rows, _ in some])
        for rows, row in some:
            reward = GivenReward.of(facts[rows.given], RewardId(rows.given, row), rows)
            if chosen.player in (None, reward.player):
                rewards.append(reward)
        if len(rewards) > limit:
            break
    more = len(rewards) > limit
    shown = rewards[:limit]
    cursor = shown[-1].id if more else None
    return RewardPage(id, found.state, shown, total, withdrawn, cursor)


async def _facts(
    ledger: LedgerReader, positions: Sequence[Position]
) -> dict[Position, RewardsGiven]:
    facts = await ledger.read_at(list(dict.fromkeys(positions)))
    return {one.position: one.fact for one in facts if isinstance(one.fact, RewardsGiven)}


async def find_reward(
    state: State, ledger: LedgerReader, board: str, window: str, id: str
) -> GivenReward:
    """Return a reward of a window. Raises UnknownReward."""
    read = RewardId.read(id)
    every = state.rewards.get((board, window), ())
    place = None if read is None else find_rows(every, read)
    if read is None or place is None:
        raise UnknownReward(board=board, window=window, id=id)
    rows = every[place]
    facts = await _facts(ledger, [rows.given])
    return GivenReward.of(facts[rows.given], read, rows)


# --------------------------------------------------------------------------------- claims


class Claim(NamedTuple):
    """The result of a claim."""

    reward: GivenReward
    changed: bool
    """False if it was claimed before."""
    position: Position
    """Where the state is that shows it."""


class RewardClaims:
    """Records claims of rewards, each once."""

    def __init__(
        self,
        ledger: LedgerReader,
        writer: Writer,
        *,
        page: Callable[[str], Awaitable[BoardState]],
    ) -> None:
        self._ledger, self._writer = ledger, writer
        self._page = page
        """Returns a board's page, also if another node has just defined it."""

    @property
    def _state(self) -> State:
        return self._writer.projector.state

    async def claim(
        self, board: str, window: str, id: str, *, actor: str | None, player: str | None = None
    ) -> Claim:
        """Claim a reward once; a second time nothing is recorded. ``player`` claims its own only.

        Raises UnknownWindow, UnknownReward, RewardWithdrawn, and PlayerBanned where a banned
        player claims.
        """
        reward = await self._find(board, window, id)
        if player is not None and player != reward.player:
            raise UnknownReward(board=board, window=window, id=id)
        if reward.claimed_at is not None:
            return Claim(reward, False, self._writer.projector.checkpoint)
        if reward.state == "withdrawn":
            raise RewardWithdrawn(id)
        if player is not None:
            self._refuse_banned(board, player)
        known = RewardId.read(reward.id)
        assert known is not None, "it was found by it"
        fact = RewardClaimed(board, reward.player, reward.window, *known, actor)
        (answer,) = await self._writer.put([fact])
        while self._writer.projector.checkpoint < answer.position:
            await self._writer.see_others()  # The index is out of reach, or behind.
        reward = await find_reward(self._state, self._ledger, board, reward.window, id)
        if reward.claimed_at is None:  # Withdrawn by a settlement just before.
            raise RewardWithdrawn(id)
        return Claim(reward, not answer.duplicate, answer.position)

    async def _find(self, board: str, window: str, id: str) -> GivenReward:
        """Return a reward, also one that another node has just given."""
        await self._page(board)
        try:
            return await self._known(board, window, id)
        except UnknownReward:
            await self._writer.see_others()
        return await self._known(board, window, id)

    async def _known(self, board: str, window: str, id: str) -> GivenReward:
        found = self._state.page(board).find_window(window, self._writer.now())
        sealed = found.window.id if isinstance(found, SealedWindow) else ""
        return await find_reward(self._state, self._ledger, board, sealed, id)

    def _refuse_banned(self, board: str, player: str) -> None:
        known = self._state.player_state(player, board)
        if known is not None and known.state == "banned":
            raise PlayerBanned(player=player, board=board)
