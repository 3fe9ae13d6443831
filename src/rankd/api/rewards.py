"""Handlers of rewards: list those of a settled window, and claim one."""

import msgspec

from rankd import schemas
from rankd.api.context import ServiceContext, show_time
from rankd.api.messages import Request, Response
from rankd.api.routing import Param, Route
from rankd.core.reward_rows import REWARD_STATES
from rankd.core.rewards import (
    REWARDS_LISTED_DEFAULT,
    REWARDS_LISTED_MAX,
    GivenReward,
    RewardFilter,
    list_rewards,
)
from rankd.core.state import State
from rankd.core.visibility import Viewer
from rankd.errors import (
    InvalidCursor,
    PlayerBanned,
    RewardWithdrawn,
    UnknownBoard,
    UnknownReward,
    UnknownWindow,
)
from rankd.model.submission import PLAYER_ID_BYTES_MAX


async def get_rewards(service: ServiceContext, request: Request) -> Response:
    """Return the rewards of a settled window, band by band, the best first.

    A window that is not settled has none. To go on, pass `next_cursor` as `cursor`.
    """
    board, query = request.params["board"], request.query
    actor = service.auth.admit(request, "read", board)
    await service.wait_for_head(board)
    view, viewer = service.rankd, service.viewer(actor)
    player = query["player"]
    chosen = RewardFilter.read(player, query["state"], query["cursor"])
    page = await list_rewards(
        view.state,
        service.ledger,
        board,
        request.params["window"],
        view.ledger_time,
        chosen,
        query["limit"],
    )
    hidden = player is not None and viewer is not None and viewer.hides(player)
    shown = schemas.Rewards(
        board=board,
        window=page.window,
        state=page.state,
        total=page.total,
        withdrawn=page.withdrawn,
        rewards=[] if hidden else [show_reward(one, view.state, viewer) for one in page.rewards],
        next_cursor=None if hidden else page.next_cursor,
        as_of=view.position,
        stale=view.stale,
    )
    return Response(schemas.encode(shown))


async def claim_reward(service: ServiceContext, request: Request) -> Response:
    """Claim a reward. A second time it answers the same, with `changed: false`.

    A key with the scope submit claims for any player; a player's token its own rewards, on
    every board.
    """
    board, window = request.params["board"], request.params["window"]
    actor = service.auth.admit_claim(request, board)
    claim = await service.writer.claim_reward(
        board, window, request.params["reward"], actor=actor.name, player=actor.player
    )
    shown = show_reward(claim.reward, service.rankd.state, None)
    body = schemas.RewardClaim(
        **msgspec.structs.asdict(shown), changed=claim.changed, position=claim.position
    )
    return Response(schemas.encode(body))


def show_reward(reward: GivenReward, state: State, viewer: Viewer | None) -> schemas.Reward:
    """Return a reward as answers show it; without its player if that is hidden to the reader."""
    hidden = viewer is not None and viewer.hides(reward.player)
    return schemas.Reward(
        id=reward.id,
        board=reward.board,
        window=reward.window,
        player=None if hidden else reward.player,
        name=None if hidden else state.names.get(reward.player),
        rank=reward.rank,
        band=reward.band,
        edition=reward.edition,
        give=None if reward.give_json is None else msgspec.Raw(reward.give_json),
        amount=reward.amount,
        state=reward.state,
        claimed=reward.claimed_at is not None,
        claimed_at=show_time(reward.claimed_at),
    )


_PATH = "/v1/boards/{board}/windows/{window}/rewards"

ROUTES = (
    Route(
        method="GET",
        path=_PATH,
        operation="list_rewards",
        handler=get_rewards,
        scope="read",
        params=(
            Param(name="player", length_max=PLAYER_ID_BYTES_MAX, doc="those of one player"),
            Param(name="state", choices=REWARD_STATES, doc="those in one state"),
            Param(name="cursor", doc="`next_cursor` of the page before"),
            Param(
                name="limit",
                kind=int,
                default=REWARDS_LISTED_DEFAULT,
                low=1,
                high=REWARDS_LISTED_MAX,
                doc="how many",
            ),
        ),
        responses={200: schemas.Rewards},
        errors=(UnknownBoard, UnknownWindow, InvalidCursor),
    ),
    Route(
        method="POST",
        path=f"{_PATH}/{{reward}}:claim",
        operation="claim_reward",
        handler=claim_reward,
        scope="submit",
        writes=True,
        responses={200: schemas.RewardClaim},
        errors=(UnknownBoard, UnknownWindow, UnknownReward, RewardWithdrawn, PlayerBanned),
    ),
)
