"""Rewards through the handles of a board: list and claim them."""

from rankd.core.reward_rows import RewardState
from rankd.core.rewards import REWARDS_LISTED_DEFAULT, Claim, RewardPage
from rankd.embedded.corrections import EngineCaller
from rankd.embedded.handles import BoardHandle


class BoardRewards(BoardHandle):
    """The rewards of a board's settled windows, all awaited."""

    async def rewards(
        self,
        window: str,
        *,
        player: str | None = None,
        state: RewardState | None = None,
        cursor: str | None = None,
        limit: int = REWARDS_LISTED_DEFAULT,
    ) -> RewardPage:
        """Return the rewards of a settled window, band by band, the best first.

        ``cursor`` is the ``next_cursor`` of the page before. A window that is not settled has none.
        """
        return await self._wanted.there().rewards(
            self.name, window, player=player, state=state, cursor=cursor, limit=limit
        )

    async def claim_reward(self, window: str, id: str) -> Claim:
        """Claim a reward. A second time nothing changes.

        Raises UnknownReward and RewardWithdrawn.
        """
        rankd = await self._wanted.made()
        return await rankd.claim_reward(self.name, window, id)


class BlockingBoardRewards:
    """The rewards of a board for programs without an event loop."""

    def __init__(self, caller: EngineCaller, rewards: BoardRewards) -> None:
        self._caller = caller
        self._rewards = rewards

    def rewards(
        self,
        window: str,
        *,
        player: str | None = None,
        state: RewardState | None = None,
        cursor: str | None = None,
        limit: int = REWARDS_LISTED_DEFAULT,
    ) -> RewardPage:
        """Return the rewards of a settled window, band by band, the best first.

        ``cursor`` is the ``next_cursor`` of the page before. A window that is not settled has none.
        """
        return self._caller.write(
            self._rewards.rewards(window, player=player, state=state, cursor=cursor, limit=limit)
        )

    def claim_reward(self, window: str, id: str) -> Claim:
        """Claim a reward. A second time nothing changes.

        Raises UnknownReward and RewardWithdrawn.
        """
        return self._caller.write(self._rewards.claim_reward(window, id))
