"""The rewards of a settlement: worked out from the standings, and compared with those in force.

The standings of a sealed window are walked from the first rank to the last that any band is for. If
an earlier edition was settled before, rewards that are as they were keep their ids: only the
difference is recorded. Memory and time follow the number of rewards, not that of players.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import groupby, islice
from typing import NamedTuple

from rankd.core.board_state import SealedWindow, exact_id
from rankd.core.reader import Page, Reader
from rankd.core.reward_rows import RewardId
from rankd.core.state import State
from rankd.errors import TooManyRewards
from rankd.model.certificate import RewardsDigest
from rankd.model.facts import Position, RewardsGiven, RewardsWithdrawn
from rankd.model.rewards import REWARDS_MAX, Allotment, Allotted, RewardBand, TiedGroup
from rankd.model.standing import PAGE_LIMIT_MAX, Rank, TieRule
from rankd.ports import LedgerReader

REWARDS_PER_FACT = 500
"""Some twelve kilobytes with short ids. Each fact has an identity, and each is an event's place."""


class RewardFacts(NamedTuple):
    """The facts of a settlement beside WindowSettled, and its claims about them."""

    given: Sequence[RewardsGiven] = ()
    withdrawn: Sequence[RewardsWithdrawn] = ()
    rewards: int = 0
    """How many are in force with them."""
    digest: bytes = b""


class _InForce(NamedTuple):
    """A reward of an earlier settlement."""

    id: RewardId
    amount: int | None
    gift: tuple[bytes | None, int]


async def allot(reader: Reader, board: str, sealed: SealedWindow) -> list[list[Allotted]]:
    """Return the rewards of a sealed window, by band. Raises TooManyRewards."""
    bands, window = sealed.terms.board.rewards, sealed.window
    allotted: list[list[Allotted]] = [[] for _ in bands]
    if not any(band.window in (None, window.name) for band in bands):
        return allotted
    ties, count = sealed.terms.board.ties, 0
    allotment: Allotment | None = None
    async for group, total in _groups(reader, board, window.id, ties):
        if allotment is None:
            allotment = Allotment(bands, window.name, ties, total)
        if allotment.is_past(group):
            break
        for reward in allotment.rewards_of(group):
            allotted[reward.band].append(reward)
            count += 1
            if count > REWARDS_MAX:
                raise TooManyRewards(window=window.id, rewards_max=REWARDS_MAX)
    return allotted


async def _groups(
    reader: Reader, board: str, id: str, ties: TieRule
) -> AsyncIterator[tuple[TiedGroup, int]]:
    """Yield the entries of a window in groups of one rank, each with the number of all entries."""
    open_group: TiedGroup | None = None
    place, total = 1, 0
    while True:
        page = await reader.page(
            board, window=exact_id(id), from_rank=Rank(place), limit=PAGE_LIMIT_MAX
        )
        total = page.total
        for group in _groups_of(page, place, ties):
            if open_group is not None and open_group.rank == group.rank:
                group = open_group._replace(players=[*open_group.players, *group.players])
                if len(group.players) > REWARDS_MAX:
                    raise TooManyRewards(window=id, rewards_max=REWARDS_MAX)
            elif open_group is not None:
                yield open_group, total
            open_group = group
        place += len(page.players)
        if len(page.players) < PAGE_LIMIT_MAX:
            break
        await asyncio.sleep(0)
    if open_group is not None:
        yield open_group, total


def _groups_of(page: Page, place: int, ties: TieRule) -> Iterator[TiedGroup]:
    if ties is TieRule.ORDINAL:
        for rank, player in zip(page.ranks, page.players, strict=True):
            yield TiedGroup(rank, rank, (player,))
        return
    rows = zip(page.ranks, page.players, strict=True)
    for rank, some in groupby(rows, key=lambda row: row[0]):
        players = [player for _, player in some]
        yield TiedGroup(place, rank, players)
        place += len(players)


async def rewards_digest_of(reader: Reader, board: str, sealed: SealedWindow) -> RewardsDigest:
    """Return the digest of the rewards that follow from the standings of a window."""
    digest = RewardsDigest()
    for some in await allot(reader, board, sealed):
        digest.add(some)
    return digest


async def settle_rewards(
    reader: Reader,
    ledger: LedgerReader,
    state: State,
    sealed: SealedWindow,
    since: Position,
) -> RewardFacts:
    """Return the facts by which a window gives its rewards. Raises TooManyRewards."""
    board, window = sealed.terms.board, sealed.window.id
    allotted = await allot(reader, board.name, sealed)
    in_force = await _in_force(ledger, state, board.name, window)
    if not in_force and not any(allotted):
        return RewardFacts()
    edition, digest = state.edition(board.name, window), RewardsDigest()
    given: list[RewardsGiven] = []
    for number, some in enumerate(allotted):
        digest.add(some)
        fresh = iter(_fresh(some, in_force, board.rewards[number]))
        while rows := list(islice(fresh, REWARDS_PER_FACT)):
            gift = _Gift(board.name, window, edition, len(given), since)
            given.append(gift.fact(number, board.rewards[number], rows))
        await asyncio.sleep(0)
    void = _withdrawn([one.id for one in in_force.values()])
    withdrawn = [
        RewardsWithdrawn(board.name, window, edition, position, rows, since)
        for position, rows in void
    ]
    return RewardFacts(given, withdrawn, digest.rewards, digest.digest())


class _Gift(NamedTuple):
    """The part of a fact that does not depend on its players."""

    board: str
    window: str
    edition: int
    number: int
    since: Position

    def fact(self, place: int, band: RewardBand, rows: Sequence[Allotted]) -> RewardsGiven:
        return RewardsGiven(
            self.board,
            self.window,
            self.edition,
            self.number,
            place,
            tuple(row.player for row in rows),
            tuple(row.rank for row in rows),
            band.give,
            tuple(row.amount for row in rows if row.amount is not None),
            band.decimals,
            self.since,
        )


async def _in_force(
    ledger: LedgerReader, state: State, board: str, window: str
) -> dict[tuple[int, str], _InForce]:
    """Return the rewards of earlier settlements that are not withdrawn, by band and player."""
    found: dict[tuple[int, str], _InForce] = {}
    for rows in state.rewards.get((board, window), ()):
        (recorded,) = await ledger.read_at([rows.given])
        fact = recorded.fact
        assert isinstance(fact, RewardsGiven)
        gift = fact.give, fact.decimals
        for row, player in enumerate(fact.players):
            if not rows.is_withdrawn(row):
                amount = fact.amounts[row] if fact.amounts else None
                one = _InForce(RewardId(rows.given, row), amount, gift)
                found[fact.band, player] = one
    return found


def _fresh(
    allotted: Sequence[Allotted], in_force: dict[tuple[int, str], _InForce], band: RewardBand
) -> Iterator[Allotted]:
    """Yield the rewards that are not in force yet; take those out that go on as they are."""
    for one in allotted:
        known = in_force.get((one.band, one.player))
        as_before = (one.amount, (band.give, band.decimals))
        if known is not None and (known.amount, known.gift) == as_before:
            del in_force[one.band, one.player]
        else:
            yield one


def _withdrawn(ids: Sequence[RewardId]) -> Iterator[tuple[Position, tuple[int, ...]]]:
    """Yield the rows to withdraw, by the position of the fact that gave them."""
    for position, some in groupby(sorted(ids), key=lambda one: one.given):
        yield position, tuple(one.row for one in some)
