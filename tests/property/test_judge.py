"""Judging agrees with a fold too plain to be wrong, over any history, and never raises.

Method: fold random histories of facts, of the board's making or from before its rules changed,
once through ``judge`` and once through a model that keeps a list of plain integers. Few scores, so
that equals are the rule; the extremes, because that is where overflows live.
"""

from hypothesis import given
from hypothesis import strategies as st

from rankd.model.board import SCORE_MAX, SCORE_MIN, Board, Direction, ScoreRule
from rankd.model.facts import ScoreSubmitted
from rankd.model.submission import Counted, NotBetter, Rejected, judge

SCORE = st.integers(-3, 3) | st.sampled_from([SCORE_MIN, SCORE_MIN + 1, SCORE_MAX - 1, SCORE_MAX])
Scores = tuple[int, ...]


@st.composite
def boards(draw: st.DrawFn) -> Board:
    ways = draw(st.lists(st.sampled_from(["higher", "lower"]), min_size=1, max_size=3))
    low, high = draw(
        st.sampled_from([(None, None), (None, 2), (-2, None), (-2, 2), (0, SCORE_MAX)])
    )
    return Board.define(
        "b",
        {
            "columns": [{"name": f"c{n}", "direction": way} for n, way in enumerate(ways)],
            "rule": draw(st.sampled_from(["best", "latest", "sum", "first"])),
            "limits": {"score_min": low, "score_max": high},
        },
    )


FACTS = st.builds(ScoreSubmitted, st.just("b"), st.just("p"), st.none(), SCORE) | st.builds(
    ScoreSubmitted,
    st.just("b"),
    st.just("p"),
    st.lists(SCORE, min_size=1, max_size=3).map(tuple),
)


def badness(board: Board, scores: Scores) -> list[int]:
    """Return numbers of which the smaller list is the better entry."""
    columns = zip(board.directions, scores, strict=True)
    return [-score if way is Direction.HIGHER else score for way, score in columns]


def wished(board: Board, fact: ScoreSubmitted, current: Scores | None) -> Scores | str:
    """Return the scores a fact asks for, bounds aside, or why it cannot ask."""
    if fact.scores is None:
        assert fact.delta is not None
        if board.rule is ScoreRule.FIRST:
            return "delta_unsupported"
        first, *others = current or [0] * board.width
        return (first + fact.delta, *others)
    if len(fact.scores) != board.width:
        return "columns_changed"
    if board.rule is ScoreRule.SUM and current is not None:
        return tuple(ours + theirs for ours, theirs in zip(fact.scores, current, strict=True))
    return fact.scores


def expected(board: Board, fact: ScoreSubmitted, current: Scores | None) -> tuple[str, object]:
    scores = wished(board, fact, current)
    if isinstance(scores, str):
        return "rejected", scores
    if any(not SCORE_MIN <= score <= SCORE_MAX for score in scores):
        return "rejected", "score_overflow"
    low, high = board.limits.score_min, board.limits.score_max
    if (low is not None and scores[0] < low) or (high is not None and scores[0] > high):
        return "rejected", "score_out_of_bounds"
    if current is not None and fact.delta is None:
        if board.rule is ScoreRule.FIRST:
            return "not_better", current
        if board.rule is ScoreRule.BEST and badness(board, scores) >= badness(board, current):
            return "not_better", current
    return "counted", (scores, scores != current)


@given(boards(), st.lists(FACTS, max_size=12))
def test_any_history_folds_as_the_model_says(board: Board, history: list[ScoreSubmitted]) -> None:
    current: Scores | None = None
    for fact in history:
        verdict = judge(board, fact, current)
        match verdict:
            case Counted(scores, moved):
                told: tuple[str, object] = ("counted", (scores, moved))
            case NotBetter(scores):
                told = ("not_better", scores)
            case Rejected(code):
                told = ("rejected", code)
            case _:
                raise AssertionError(verdict)
        assert told == expected(board, fact, current)
        if isinstance(verdict, Counted):
            current = verdict.scores


@given(boards(), st.lists(FACTS, max_size=12))
def test_what_has_counted_always_fits_the_board(
    board: Board, history: list[ScoreSubmitted]
) -> None:
    """So that an order key can be made of it, and no reader is shown what the board forbids."""
    current: Scores | None = None
    for fact in history:
        verdict = judge(board, fact, current)
        if isinstance(verdict, Counted):
            assert len(verdict.scores) == board.width
            assert all(SCORE_MIN <= score <= SCORE_MAX for score in verdict.scores)
            assert board.score_low <= verdict.scores[0] <= board.score_high
            assert verdict.moved or verdict.scores == current
            current = verdict.scores


@given(boards(), st.lists(FACTS, max_size=12))
def test_on_a_board_of_bests_only_a_delta_makes_worse(
    board: Board, history: list[ScoreSubmitted]
) -> None:
    current: Scores | None = None
    for fact in history:
        verdict = judge(board, fact, current)
        if not isinstance(verdict, Counted):
            continue
        if board.rule is ScoreRule.BEST and fact.delta is None and current is not None:
            assert badness(board, verdict.scores) < badness(board, current)
        current = verdict.scores
