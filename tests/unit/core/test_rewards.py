"""Rewards: given by a settlement, claimed once, and settled again after a correction."""

from typing import Any

import msgspec
import pytest
from tests.unit.core.doubles import DAY, FaultyLedger, SetClock, engine
from tests.unit.core.test_window_control import check, score, why

from rankd.adapters.memory.index import NativeIndex
from rankd.core import settlement
from rankd.core.certificates import certificate_of, check_certificate
from rankd.core.engine import Engine
from rankd.core.recovery import IndexHome
from rankd.core.reward_rows import RewardId
from rankd.core.state_codec import Heading, read_notes, take_notes
from rankd.errors import (
    CertificateDiffers,
    InvalidCursor,
    InvalidRequest,
    PlayerBanned,
    RewardWithdrawn,
    TooManyRewards,
    UnknownReward,
)
from rankd.model.facts import Position

pytestmark = pytest.mark.anyio

TODAY = "daily:2026-11-14"
BANDS: list[dict[str, Any]] = [
    {"ranks": [1, 1], "give": {"cup": "gold"}},
    {"ranks": [2, 3], "give": {"gems": 50}},
    {"top_percent": 20, "give": "a frame", "window": "daily"},
]
BOARD = {"windows": ["all", "daily"], "rewards": BANDS}
PLAYERS = ["ann", "bob", "cid", "dan", "eve"]


async def played(rankd: Engine, clock: SetClock, **definition: Any) -> None:
    """Have a day on which each player scores less than the one before, and end it."""
    await rankd.define("b", BOARD | definition)
    for number, player in enumerate(PLAYERS):
        await score(rankd, player, 100 - number)
    clock.time += DAY
    await rankd.sealer.turn()


async def listed(rankd: Engine, **chosen: Any) -> list[tuple[str, int, int, str]]:
    page = await rankd.rewards("b", TODAY, **chosen)
    return [(one.player, one.rank, one.band, one.state) for one in page.rewards]


FIRST = [
    ("ann", 1, 0, "given"),
    ("bob", 2, 1, "given"),
    ("cid", 3, 1, "given"),
    ("ann", 1, 2, "given"),
]


async def test_a_settlement_gives_each_player_one_reward_a_band() -> None:
    clock, ledger = SetClock(), FaultyLedger()
    async with engine(ledger, clock) as rankd:
        await played(rankd, clock)
        assert await listed(rankd) == []
        assert (await rankd.settle_window("b", why(TODAY))).changed
        assert await listed(rankd) == FIRST
        assert not (await rankd.settle_window("b", why(TODAY))).changed
        page = await rankd.rewards("b", "daily:-1", limit=3)
        assert (page.total, page.withdrawn, page.window) == (4, 0, TODAY)
        assert [one.give for one in page.rewards] == [{"cup": "gold"}, {"gems": 50}, {"gems": 50}]
        rest = await rankd.rewards("b", TODAY, limit=3, cursor=page.next_cursor)
        assert [(one.player, one.band) for one in rest.rewards] == [("ann", 2)]
        assert rest.next_cursor is None
        assert await listed(rankd, player="ann") == [FIRST[0], FIRST[3]]
        assert await listed(rankd, player="nobody") == []
        await check(rankd)
    async with engine(ledger, clock) as rankd:
        assert await listed(rankd) == FIRST


async def test_the_definition_of_the_window_decides_not_a_later_one() -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await played(rankd, clock)
        await rankd.redefine("b", BOARD | {"rewards": []})
        await rankd.settle_window("b", why(TODAY))
        assert await listed(rankd) == FIRST


async def test_a_reward_is_claimed_once() -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await played(rankd, clock)
        await rankd.settle_window("b", why(TODAY))
        (bob,) = (await rankd.rewards("b", TODAY, player="bob")).rewards
        first = await rankd.claim_reward("b", TODAY, bob.id, actor="shop")
        at = clock.time
        clock.time += DAY
        again = await rankd.claim_reward("b", TODAY, bob.id, actor="shop")
        assert (first.changed, again.changed) == (True, False)
        assert first.reward == again.reward
        assert (again.reward.state, again.reward.claimed_at) == ("claimed", at)
        assert await listed(rankd, state="claimed") == [("bob", 2, 1, "claimed")]
        assert len(await listed(rankd, state="given")) == 3
        for wrong in ("rwd_1_0", f"{bob.id}9", "", "rwd_0_0", "rwd_9_-1"):
            with pytest.raises(UnknownReward):
                await rankd.claim_reward("b", TODAY, wrong)
        with pytest.raises(UnknownReward):
            await rankd.claim_reward("b", "daily", bob.id)
        with pytest.raises(InvalidCursor):
            await listed(rankd, cursor="x")
        for filters in ({"state": "lost"}, {"limit": 0}, {"limit": 1001}):
            with pytest.raises(InvalidRequest):
                await listed(rankd, **filters)


async def test_a_player_claims_its_own_rewards_unless_it_is_banned() -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await played(rankd, clock)
        await rankd.settle_window("b", why(TODAY))
        (bob,) = (await rankd.rewards("b", TODAY, player="bob")).rewards
        with pytest.raises(UnknownReward):
            await rankd.claim_reward("b", TODAY, bob.id, player="cid")
        await rankd.corrections.set_player_state("bob", "banned", {"reason": "x"})
        with pytest.raises(PlayerBanned):
            await rankd.claim_reward("b", TODAY, bob.id, player="bob")
        assert (await rankd.claim_reward("b", TODAY, bob.id)).changed


async def test_a_second_settlement_records_the_difference() -> None:
    clock, ledger = SetClock(), FaultyLedger()
    async with engine(ledger, clock) as rankd:
        await played(rankd, clock)
        await rankd.settle_window("b", why(TODAY))
        before = (await rankd.rewards("b", TODAY)).rewards
        cup, _bob, cid, frame = before
        await rankd.claim_reward("b", TODAY, cup.id)
        await rankd.corrections.retract("b", {"player": "ann"})
        await rankd.settle_window("b", why(TODAY))
        assert await listed(rankd) == [
            ("ann", 1, 0, "withdrawn"),
            ("bob", 2, 1, "withdrawn"),
            ("cid", 3, 1, "given"),
            ("ann", 1, 2, "withdrawn"),
            ("bob", 1, 0, "given"),
            ("dan", 3, 1, "given"),
            ("bob", 1, 2, "given"),
        ]
        page = await rankd.rewards("b", TODAY)
        assert (page.total, page.withdrawn) == (7, 3)
        assert page.rewards[2].id == cid.id
        assert (page.rewards[0].claimed_at, page.rewards[4].edition) == (clock.time, 2)
        with pytest.raises(RewardWithdrawn):
            await rankd.claim_reward("b", TODAY, frame.id)
        assert not (await rankd.claim_reward("b", TODAY, cup.id)).changed
        settled = rankd.state.page("b").sealed[TODAY].settled
        assert settled is not None and settled.rewards == 4
        await rankd.corrections.undo_retraction("b", settled.last)  # Nothing is retracted there.
    async with engine(ledger, clock) as rankd:
        assert (await rankd.rewards("b", TODAY)).withdrawn == 3
        await check(rankd)


async def test_a_claim_that_a_settlement_overtakes_is_refused() -> None:
    """The claim is in the ledger behind the withdrawal, and has no effect."""
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await played(rankd, clock)
        await rankd.settle_window("b", why(TODAY))
        cup = (await rankd.rewards("b", TODAY)).rewards[0]
        await rankd.corrections.retract("b", {"player": "ann"})
        put = rankd._writer.put

        async def late(*given: Any, **named: Any) -> Any:
            await rankd.settle_window("b", why(TODAY))
            return await put(*given, **named)

        rankd._writer.put = late  # type: ignore[method-assign]
        with pytest.raises(RewardWithdrawn):
            await rankd.claim_reward("b", TODAY, cup.id)
        assert (await listed(rankd))[0] == ("ann", 1, 0, "withdrawn")


async def test_rewards_go_with_their_window_and_their_board() -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await played(rankd, clock, retention={"daily": "2d"})
        await rankd.settle_window("b", why(TODAY))
        assert len(rankd.state.rewards) == 1
        clock.time += 3 * DAY
        await rankd.sealer.turn()
        assert rankd.state.rewards == {}
        await rankd.settle_window("b", why("all"))
        assert list(rankd.state.rewards) == [("b", "all")]
        await rankd.retire("b")
        assert rankd.state.rewards == {}


async def test_snapshots_have_rewards_and_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settlement, "REWARDS_PER_FACT", 2)
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await played(rankd, clock, rewards=[{"top_percent": 100, "give": 1}])
        await rankd.settle_window("b", why(TODAY))
        last = (await rankd.rewards("b", TODAY)).rewards[-1]
        await rankd.claim_reward("b", TODAY, last.id)
        heading = Heading(1, rankd.position, 0, b"", Position(0), {})
        noted = read_notes(list(take_notes(rankd.state, heading))).state
        assert noted.rewards == rankd.state.rewards != {}
        assert [rows.size for rows in noted.rewards["b", TODAY]] == [2, 2, 1]


async def test_bands_that_give_too_many_settle_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settlement, "REWARDS_MAX", 4)
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await played(rankd, clock, rewards=[{"top_percent": 100, "give": 1}])
        with pytest.raises(TooManyRewards):
            await rankd.settle_window("b", why(TODAY))
        assert rankd.state.page("b").sealed[TODAY].settled is None
        assert rankd.state.rewards == {}


async def test_tied_players_share_the_amounts_of_their_places() -> None:
    clock = SetClock()
    bands = [
        {"ranks": [number, number], "amount": amount, "share": True}
        for number, amount in enumerate(("100.00", "60.00", "40.01"), 1)
    ]
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", BOARD | {"rewards": bands, "ties": "standard"})
        for player, points in (("ann", 9), ("bob", 7), ("cid", 7), ("dan", 7), ("eve", 1)):
            await score(rankd, player, points)
        clock.time += DAY
        await rankd.settle_window("b", why(TODAY))
        found = (await rankd.rewards("b", TODAY)).rewards
        assert [(one.player, one.rank, one.amount) for one in found] == [
            ("ann", 1, "100.00"),
            ("bob", 2, "20.00"),
            ("cid", 2, "20.00"),
            ("dan", 2, "20.00"),
            ("bob", 2, "13.34"),
            ("cid", 2, "13.34"),
            ("dan", 2, "13.33"),
        ]


async def test_a_certificate_proves_its_rewards() -> None:
    clock, ledger = SetClock(), FaultyLedger()
    async with engine(ledger, clock) as rankd:
        await played(rankd, clock)
        await rankd.settle_window("b", why(TODAY))
        await rankd.corrections.retract("b", {"player": "bob"})
        await rankd.settle_window("b", why(TODAY))
        found = certificate_of(rankd.state.page("b"), TODAY, rankd.ledger_time)
        assert found.rewards == 4
        build = lambda: IndexHome(NativeIndex(), None)  # noqa: E731
        await check_certificate(ledger, build, found, lambda _: None)
        for wrong in ({"rewards": 5}, {"rewards_digest": "00"}):
            changed = msgspec.structs.replace(found, **wrong)
            with pytest.raises(CertificateDiffers) as caught:
                await check_certificate(ledger, build, changed, lambda _: None)
            assert caught.value.fields == tuple(wrong)


def test_an_id_is_read_as_it_is_written() -> None:
    id = RewardId(Position(81923), 4)
    assert (str(id), RewardId.read(str(id))) == ("rwd_81923_4", id)
