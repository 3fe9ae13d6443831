"""From what the core knows to what the wire shows."""

from collections.abc import Sequence

from msgspec import UNSET, Raw, UnsetType

from rankd import wire
from rankd.core.reader import Found, Page, Projected, Where
from rankd.errors import Invalid, RankdError, SubmissionRejected
from rankd.model.board import Board
from rankd.model.standing import Standing, percentile, shown_score
from rankd.ports import Ranked, Ranking


def row(standing: Standing, board: Board) -> wire.Row:
    """Show a standing in a list."""
    beside = standing.metadata_json
    return wire.Row(
        standing.rank,
        standing.player,
        standing.name,
        shown_score(standing.scores[0], standing.decimals),
        None,
        None if beside is None else Raw(beside),
        columns_of(standing.scores, board, standing.decimals),
        UNSET if standing.place is None else standing.place,
    )


def columns_of(
    scores: Sequence[int], board: Board, decimals: int
) -> dict[str, wire.Score] | UnsetType:
    """Show every column, where there are several."""
    if len(scores) == 1:
        return UNSET
    names = [column.name for column in board.columns]
    if len(names) != len(scores):  # A window that was closed under another definition.
        names = [f"column_{number}" for number in range(1, len(scores) + 1)]
    shown = [shown_score(score, decimals) for score in scores]
    return dict(zip(names, shown, strict=True))


def page(found: Page, board: Board) -> wire.Page:
    """Show a page."""
    ranking = found.ranking
    return wire.Page(
        ranking.board,
        ranking.window,
        ranking.segment,
        found.total,
        found.as_of,
        "exact",
        False,
        _rows(found, board),
        found.next_cursor,
        found.prev_cursor,
    )


def _rows(found: Page, board: Board) -> list[wire.Row]:
    """Show the entries of a page as ``row`` shows each, with less ado."""
    decimals = found.decimals
    beside: Sequence[Raw | None] = [None] * len(found.players)
    if found.metadata is not None:
        beside = [None if one is None else Raw(one) for one in found.metadata]
    columns = zip(found.ranks, found.players, found.names, found.scores, beside, strict=True)
    if decimals or (found.scores and len(found.scores[0]) > 1):
        return [
            wire.Row(
                rank,
                player,
                name,
                shown_score(scores[0], decimals),
                None,
                under,
                columns_of(scores, board, decimals),
            )
            for rank, player, name, scores, under in columns
        ]
    return [
        wire.Row(rank, player, name, score, None, under)
        for rank, player, name, (score,), under in columns
    ]


def one(standing: Standing, ranking: Ranking, board: Board) -> wire.Standing:
    """Show one player's standing."""
    beside = standing.metadata_json
    return wire.Standing(
        ranking.board,
        ranking.window,
        ranking.segment,
        standing.player,
        standing.name,
        standing.rank,
        shown_score(standing.scores[0], standing.decimals),
        None,
        standing.percentile,
        standing.total,
        None if beside is None else Raw(beside),
        standing.as_of,
        columns=columns_of(standing.scores, board, standing.decimals),
    )


def ranked(found: Ranked, where: Where, player: str, name: str | None) -> wire.Standing:
    """Show one player's place as the index tells it: what ``one`` shows, with less ado."""
    rank, order_key, beside, total, as_of = found
    terms, ranking = where
    board, scores = terms.board, terms.order.scores(order_key)
    decimals = board.decimals
    return wire.Standing(
        ranking.board,
        ranking.window,
        ranking.segment,
        player,
        name,
        rank,
        scores[0] if decimals == 0 else shown_score(scores[0], decimals),
        None,
        percentile(rank, total),
        total,
        None if beside is None else Raw(beside),
        as_of,
        "exact",
        False,
        UNSET if len(scores) == 1 else columns_of(scores, board, decimals),
    )


def found(some: Found, board: Board) -> wire.Found:
    """Show players who were asked for together."""
    return wire.Found(
        board=some.ranking.board,
        window=some.ranking.window,
        segment=some.ranking.segment,
        total=some.total,
        as_of=some.as_of,
        standings=[row(standing, board) for standing in some.standings],
        not_found=list(some.not_found),
    )


def projection(what: Projected, board: Board) -> wire.Projection:
    """Show a rank and the score that goes with it."""
    rank, scores, total = what.rank, what.scores, what.total
    held = rank is not None and rank <= total
    return wire.Projection(
        board=what.ranking.board,
        window=what.ranking.window,
        segment=what.ranking.segment,
        total=total,
        as_of=what.as_of,
        rank=rank,
        score=None if scores is None else shown_score(scores[0], what.decimals),
        percentile=percentile(rank, total) if held and rank is not None else None,
        columns=UNSET if scores is None else columns_of(scores, board, what.decimals),
    )


def refusal(error: RankdError) -> wire.Refusal:
    """Show why one submission of a batch was not counted."""
    wrong: list[wire.WrongField] | UnsetType = UNSET
    if isinstance(error, Invalid):
        wrong = [wire.WrongField(field, message) for field, message in error.errors]
    code = error.reason if isinstance(error, SubmissionRejected) else error.code
    return wire.Refusal(code, str(error), getattr(error, "applied", "no"), errors=wrong)
