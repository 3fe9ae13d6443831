"""The handler of a player's rank over time."""

from rankd import schemas
from rankd.api.audit import shows_history
from rankd.api.context import MIN_POSITION_SECONDS_MAX, ServiceContext, show_time
from rankd.api.messages import Request, Response
from rankd.core.rank_history import RankHistory, RankPoint
from rankd.core.reader import Reader
from rankd.model.facts import Position
from rankd.model.profile import check_player
from rankd.model.standing import shown_score


async def player_ranks(service: ServiceContext, request: Request) -> Response:
    """Return a player's rank at the ends of hours, days or weeks, and now.

    A player that is not ranked is shown its points itself, and to moderators.
    """
    board, player = request.params["board"], check_player(request.params["player"])
    query, rankd = request.query, service.rankd
    actor = service.auth.admit(request, "read", board)
    where = rankd.reader.where(board, query["window"])
    shown = shows_history(service, request, actor, board, player)
    position = max(await service.wait_for_head(board) or 0, query["min_position"] or 0)
    if position:
        await rankd.reached(Position(position), within_seconds=MIN_POSITION_SECONDS_MAX)

    async def read(reader: Reader) -> RankHistory:
        return await rankd.rank_histories.history(
            reader,
            board,
            player,
            window=where.ranking.window,
            grain=query["grain"],
            itself=actor.player,
        )

    found = await service.read_as(actor, where, read)
    body = schemas.RanksOverTime(
        board=board,
        window=found.ranking.window,
        player=player,
        grain=found.grain,
        points=[_shown(point, shown=shown) for point in found.points],
        as_of=found.as_of,
        stale=rankd.stale,
    )
    return Response(schemas.encode(body))


def _shown(point: RankPoint, *, shown: bool) -> schemas.RankAt:
    scores = point.scores if shown else None
    return schemas.RankAt(
        show_time(point.at) or "",
        point.rank if shown else None,
        None if scores is None else shown_score(scores[0], point.decimals),
        point.total,
        point.as_of,
    )
