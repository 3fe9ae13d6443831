"""Handlers of reviews: submissions that a rule held or flagged, and the decisions about them."""

from typing import Any
from urllib.parse import quote

from rankd import schemas
from rankd.api.audit import history_item
from rankd.api.context import ServiceContext, show_time
from rankd.api.corrections import shown_change
from rankd.api.messages import Request, Response, decode_body
from rankd.api.render import columns_of
from rankd.api.routing import NUMBERS, Param, Route
from rankd.core.reviews import REVIEWS_MAX, Review, find_review
from rankd.errors import InvalidProfile, UnknownBoard, UnknownReview
from rankd.model.facts import Position
from rankd.model.profile import read_reason
from rankd.model.standing import shown_score

REVIEWS_LIMIT_DEFAULT, REVIEWS_LIMIT_MAX = 100, 1_000

EVIDENCE_MAX = 10
"""Submissions of the player that are shown with a review: its own, and those before it."""


async def list_reviews(service: ServiceContext, request: Request) -> Response:
    """Return held and flagged submissions, newest first.

    The newest 10,000 of all boards are listed. With more, decided ones are left out first, then
    flagged ones; a held one can still be decided by its id, and `open` counts it.
    """
    query = request.query
    board, before = query["board"], query["before"]
    service.auth.admit(request, "moderate", board)
    if board is not None:
        service.rankd.state.page(board)
    reviews, limit = service.rankd.state.reviews, query["limit"]
    found = reviews.select(board, query["state"], before)
    body = schemas.ReviewsPage(
        reviews=[_shown(service, one) for one in found[:limit]],
        open=reviews.open_count,
        next_before=found[limit - 1].position if len(found) > limit else None,
        as_of=service.rankd.position,
        stale=service.rankd.stale,
    )
    return Response(schemas.encode(body))


async def get_review(service: ServiceContext, request: Request) -> Response:
    """Return one review, with the player's last submissions up to it as evidence."""
    review = await _find(service, request)
    service.auth.admit(request, "moderate", review.board)
    shown = _shown(service, review)
    page = service.rankd.state.boards.get(review.board)
    facts = await service.ledger.facts_of(
        board=review.board,
        player=review.player,
        before=Position(review.position + 1),
        limit=EVIDENCE_MAX,
    )
    items = (None if page is None else history_item(service, page, one) for one in facts)
    shown.evidence = [item for item in items if item is not None]
    return Response(schemas.encode(shown))


async def approve_review(service: ServiceContext, request: Request) -> Response:
    """Have a held submission count, at its original position. A flagged one goes on counting.

    Only the first decision about a review is taken; a later one returns it.
    """
    return await _decide(service, request, approved=True)


async def reject_review(service: ServiceContext, request: Request) -> Response:
    """Have a held submission never count. A flagged one is retracted.

    Only the first decision about a review is taken; a later one returns it.
    """
    return await _decide(service, request, approved=False)


async def _decide(service: ServiceContext, request: Request, *, approved: bool) -> Response:
    review = await _find(service, request)
    actor = service.auth.admit(request, "moderate", review.board)
    body: dict[str, Any] = decode_body(request, dict[str, Any]) if request.body else {}
    effect = await service.writer.corrections.decide_review(
        review.id, approved=approved, actor=actor.name, reason=read_reason(body.get("reason"))
    )
    shown = _shown(service, await _find(service, request))
    shown.changes = [shown_change(service, change) for change in effect.changes]
    shown.more = effect.more
    return Response(schemas.encode(shown))


async def _find(service: ServiceContext, request: Request) -> Review:
    """Return the review of a request. Raises UnknownReview, to keys that may moderate."""
    service.auth.check_known(request)
    try:
        return await find_review(service.rankd.state, service.ledger, request.params["review"])
    except UnknownReview:
        service.auth.admit(request, "moderate")
        raise


def _shown(service: ServiceContext, review: Review) -> schemas.ReviewItem:
    decimals, scores = review.decimals, review.scores
    page = service.rankd.state.boards.get(review.board)
    shown = schemas.ReviewItem(
        review.id,
        review.board,
        review.player,
        review.score,
        None if review.delta is None else shown_score(review.delta, decimals),
        review.position,
        show_time(review.at) or "",
        [schemas.ReviewReason(one.rule, *one.shown(decimals)) for one in review.reasons],
        review.state,
        review.decided_by,
        review.decided_at,
        review.why,
        f"/v1/boards/{review.board}/history/{quote(review.player, safe='')}",
    )
    if page is not None and scores is not None:
        shown.columns = columns_of(scores, page.board_at(review.position), decimals)
    return shown


_REVIEW = "/v1/reviews/{review}"


def _decision(verb: str, handler: Any) -> Route:
    return Route(
        method="POST",
        path=f"{_REVIEW}:{verb}",
        operation=f"{verb}_review",
        handler=handler,
        scope="moderate",
        params=(NUMBERS,),
        body=dict,
        writes=True,
        responses={200: schemas.ReviewItem},
        errors=(UnknownReview, InvalidProfile),
    )


ROUTES = (
    Route(
        method="GET",
        path="/v1/reviews",
        operation="list_reviews",
        handler=list_reviews,
        scope="moderate",
        params=(
            Param(name="board", doc="of one board only"),
            Param(
                name="state",
                choices=("held", "flagged", "approved", "rejected"),
                doc="in this state only",
            ),
            Param(
                name="limit",
                kind=int,
                default=REVIEWS_LIMIT_DEFAULT,
                low=1,
                high=REVIEWS_LIMIT_MAX,
                doc=f"how many, of the {REVIEWS_MAX} listed",
            ),
            Param(name="before", kind=int, low=1, doc="next_before of the page before"),
            NUMBERS,
        ),
        responses={200: schemas.ReviewsPage},
        errors=(UnknownBoard,),
    ),
    Route(
        method="GET",
        path=_REVIEW,
        operation="get_review",
        handler=get_review,
        scope="moderate",
        params=(NUMBERS,),
        responses={200: schemas.ReviewItem},
        errors=(UnknownReview,),
    ),
    _decision("approve", approve_review),
    _decision("reject", reject_review),
)
