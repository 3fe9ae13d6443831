"""From what the core knows to what the wire shows."""

import pytest
from msgspec import UNSET

from rankd.api import render
from rankd.core.board_state import Terms
from rankd.core.reader import Projected, RankingView
from rankd.errors import FieldError, InvalidSubmission, LedgerUnavailable, SubmissionRejected
from rankd.model.board import Board
from rankd.model.facts import Position
from rankd.model.standing import Rank, Standing
from rankd.ports import Ranking
from rankd.schemas import encode

ONE = Board.define("b", {})
TWO = Board.define("b", {"columns": [{"name": "score"}, {"name": "time", "direction": "lower"}]})
WHOLE = Ranking("b", "all")


def standing(scores: tuple[int, ...], decimals: int = 0) -> Standing:
    return Standing(Rank(2), "p", scores, 4, Position(9), decimals, "Ann", b'{"car": 1}')


def test_a_row_tells_the_columns_only_where_there_are_several() -> None:
    assert render.row(standing((5,)), ONE).columns is UNSET
    assert b"columns" not in encode(render.row(standing((5,)), ONE))
    assert render.row(standing((5, 60)), TWO).columns == {"score": 5, "time": 60}


def test_columns_of_another_definition_are_numbered_rather_than_named_wrongly() -> None:
    assert render.columns_of((5, 6, 7), TWO, 0) == {"column_1": 5, "column_2": 6, "column_3": 7}


def test_decimals_are_written_digit_for_digit_and_metadata_as_it_came() -> None:
    body = encode(render.one(standing((-(2**63),), decimals=9), RankingView(Terms(ONE), WHOLE)))
    assert b'"score":-9223372036.854775808,' in body
    assert b'"metadata":{"car": 1}' in body
    assert b'"percentile":75.0,' in body
    assert b'"exactness":"exact","stale":false,"state":"open"' in body


@pytest.mark.parametrize(
    ("rank", "total", "percentile"), [(1, 4, 100.0), (4, 4, 25.0), (5, 4, None), (1, 0, None)]
)
def test_only_a_rank_that_somebody_holds_has_a_percentile(
    rank: int, total: int, percentile: float | None
) -> None:
    projected = Projected(WHOLE, total, Position(1), Rank(rank), (1,), 0)
    assert render.projection(projected, ONE).percentile == percentile


def test_nothing_is_projected_where_nobody_is() -> None:
    told = render.projection(Projected(WHOLE, 0, Position(1), None, None, 0), TWO)
    assert (told.rank, told.score, told.percentile, told.columns) == (None, None, None, UNSET)


def test_a_refusal_tells_the_reason_the_fields_and_what_is_known() -> None:
    rejected = render.refusal(SubmissionRejected(reason="score_overflow", message="too much"))
    assert (rejected.code, rejected.applied, rejected.verdict) == (
        "submission_rejected",
        "no",
        "refused",
    )
    assert encode(rejected.errors) == b'[{"field":"score","message":"does not count: too much"}]'
    invalid = render.refusal(InvalidSubmission([FieldError("score", "must be given")]))
    assert invalid.code == "invalid_submission"
    assert encode(invalid.errors) == b'[{"field":"score","message":"must be given"}]'
    unknown = render.refusal(LedgerUnavailable("the disk", applied="unknown"))
    assert (unknown.code, unknown.applied) == ("ledger_unavailable", "unknown")
