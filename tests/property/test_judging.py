"""Runs judged in place do what folding them one by one does, under any history.

Method: the same submissions to an index of native lists, to one of the plain lists that judge
these or stand in for them, and to a fold that keeps a dictionary for each ranking, asks
``model.judge`` and ``model.Order`` about one submission at a time and finds ranks by counting.
After every run all three say the same of every submission, hold the same entries in the same order,
and have forgotten whoever has none.

Few scores and the extreme ones, so that ties and overflows are the rule; few players, so that one
comes several times in the few dozen submissions that are judged side by side. A second test throws
hundreds of players into lists of several nodes, where searches that were begun together are
overtaken by nodes that split and merge.
"""

import asyncio
import random
from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.standins import PURE, native_part

from rankd.adapters.memory.index import NativeIndex
from rankd.model.board import SCORE_MAX, SCORE_MIN, Board, Scores
from rankd.model.facts import Position, ScoreSubmitted
from rankd.model.order import Order
from rankd.model.standing import Rank, TieRule
from rankd.model.submission import OUT_OF_BOUNDS as REJECTED_BY_BOUNDS
from rankd.model.submission import OVERFLOW as REJECTED_BY_OVERFLOW
from rankd.model.submission import Counted, NotBetter, Verdict, judge
from rankd.ports import (
    COUNTED,
    NOT_BETTER,
    OUT_OF_BOUNDS,
    OVERFLOW,
    Placed,
    Ranking,
    RankingShape,
    Run,
    Verdicts,
)
from rankd.rank import oracle

LISTS: list[Any] = [oracle] if PURE else [native_part("rankd.rank._ranklist"), oracle]
RULES = ["best", "latest", "sum", "first"]
WAYS = ["higher", "lower"]
TIE_BREAKS = ["first", "latest", "player"]
BOUNDS = [(None, None), (None, 2), (-2, None), (-2, 2), (SCORE_MIN + 1, SCORE_MAX - 1)]
EXTREMES = [SCORE_MIN, SCORE_MIN + 1, SCORE_MAX - 1, SCORE_MAX]
COLUMNS_MAX = 4

SCORE = st.integers(-3, 3) | st.sampled_from(EXTREMES)
PLAYERS = st.sampled_from(["a", "aa", "b", "é", "\ufffd", "😀", "x" * 23])
METADATA = st.none() | st.sampled_from([b"1", b"2"])


TIES = ("ordinal", "standard", "dense")
SEGMENTS: tuple[Sequence[str], ...] = ((), ("region",), ("region", "team"))


class Sent(NamedTuple):
    """One submission; a delta has one score, whatever the board."""

    player: str
    scores: Scores
    delta: bool = False
    metadata: bytes | None = None


class Row(NamedTuple):
    """What one submission did in one ranking. Scores are None where there is no entry."""

    verdict: int
    scores: Scores | None
    previous_scores: Scores | None
    rank: int
    previous_rank: int
    total: int


def board_of(
    rule: str,
    ways: Sequence[str],
    tie_break: str,
    bounds: tuple[int | None, int | None],
    ties: str,
    segments: Sequence[str],
) -> Board:
    return Board.define(
        f"{rule}-{'-'.join(ways)}",
        {
            "columns": [{"name": f"c{n}", "direction": way} for n, way in enumerate(ways)],
            "rule": rule,
            "tie_break": tie_break,
            "limits": {"score_min": bounds[0], "score_max": bounds[1]},
            "ties": ties,
            "segments": segments,
        },
    )


def boards(rules: Sequence[str] = RULES) -> st.SearchStrategy[Board]:
    return st.builds(
        board_of,
        st.sampled_from(rules),
        st.lists(st.sampled_from(WAYS), min_size=1, max_size=COLUMNS_MAX),
        st.sampled_from(TIE_BREAKS),
        st.sampled_from(BOUNDS),
        st.sampled_from(TIES),
        st.sampled_from(SEGMENTS),
    )


def segments_of(board: Board, player: str) -> list[str]:
    """The segments of a player, which never change: one of three players is in none."""
    group = sum(player.encode()) % 3
    return [f"{name}:{group}" for name in board.segments] if group else []


@st.composite
def submissions(draw: st.DrawFn, board: Board, size: int = 40) -> list[Sent]:
    scores = st.tuples(*[SCORE] * board.width)
    sent = st.builds(Sent, PLAYERS, scores, st.just(False), METADATA)
    if board.rule.value != "first":
        sent |= st.builds(Sent, PLAYERS, st.tuples(SCORE), st.just(True), METADATA)
    return draw(st.lists(sent, max_size=size))


# ---- One by one ----------------------------------------------------------------------------------


def code_of(verdict: Verdict) -> int:
    if isinstance(verdict, Counted | NotBetter):
        return COUNTED if isinstance(verdict, Counted) else NOT_BETTER
    assert verdict in (REJECTED_BY_BOUNDS, REJECTED_BY_OVERFLOW)
    return OUT_OF_BOUNDS if verdict == REJECTED_BY_BOUNDS else OVERFLOW


class Fold:
    """One ranking, kept as plainly as can be."""

    def __init__(self, board: Board) -> None:
        self.board, self.order = board, Order.of(board)
        self.entries: dict[str, tuple[bytes, bytes | None]] = {}

    def submit(self, sent: Sent, position: Position) -> Row:
        key, _ = self.entries.get(sent.player, (None, None))
        before, was = None if key is None else self.order.scores(key), self.rank(sent.player)
        fact = ScoreSubmitted(
            self.board.name,
            sent.player,
            None if sent.delta else sent.scores,
            sent.scores[0] if sent.delta else None,
        )
        verdict, after = judge(self.board, fact, before), before
        if isinstance(verdict, Counted):
            after = verdict.scores
            if key is None or verdict.moved:
                key = self.order.key(verdict.scores, position)
            self.entries[sent.player] = key, sent.metadata
        now = self.rank(sent.player)
        return Row(code_of(verdict), after, before, now, was, len(self.entries))

    def rank(self, player: str) -> int:
        if player not in self.entries:
            return 0
        own = self.entries[player][0], player.encode()
        if self.board.ties is TieRule.ORDINAL:
            return 1 + sum((key, id.encode()) < own for id, (key, _) in self.entries.items())
        better = [key[:-8] for key, _ in self.entries.values() if key[:-8] < own[0][:-8]]
        return 1 + len(better if self.board.ties is TieRule.STANDARD else set(better))

    def placed(self, segment: str | None = None) -> list[Placed]:
        placed = [
            Placed(player, *entry)
            for player, entry in self.entries.items()
            if segment is None or segment in segments_of(self.board, player)
        ]
        return sorted(placed, key=lambda each: (each.order_key, each.player.encode()))


# ---- Side by side --------------------------------------------------------------------------------


def run_of(board: Board, rankings: Sequence[Ranking], all_sent: list[Sent], first: int) -> Run:
    scores = array("q")
    for sent in all_sent:
        scores.extend(sent.scores)
        scores.extend((0,) * (board.width - len(sent.scores)))
    deltas = bytes(sent.delta for sent in all_sent)
    metadata = [sent.metadata for sent in all_sent]
    return Run(
        board,
        rankings,
        [sent.player for sent in all_sent],
        scores,
        deltas if any(deltas) else None,
        array("Q", range(first, first + len(all_sent))),
        metadata if any(metadata) else None,
        [segments_of(board, sent.player) for sent in all_sent] if board.segments else None,
    )


def rows(told: Verdicts, width: int) -> list[Row]:
    def scores(column: "array[int]", at: int, rank: int) -> Scores | None:
        return tuple(column[at * width : (at + 1) * width]) if rank else None

    numbers = zip(told.verdicts, told.ranks, told.previous_ranks, told.totals, strict=True)
    return [
        Row(
            verdict,
            scores(told.scores, at, rank),
            scores(told.previous_scores, at, was),
            rank,
            was,
            total,
        )
        for at, (verdict, rank, was, total) in enumerate(numbers)
    ]


class World:
    """The indexes, and the fold that says what they should say."""

    def __init__(self, boards: Sequence[Board]) -> None:
        self.position = 1
        self.boards = boards
        self.folds: dict[Ranking, Fold] = {}
        self.indexes = [
            NativeIndex(make_list=lists.RankList, make_players=lists.PlayerTable) for lists in LISTS
        ]

    async def open(self, window: str) -> None:
        for board in self.boards:
            ranking = Ranking(board.name, window)
            self.folds[ranking] = Fold(board)
            shape = RankingShape(Order.of(board).key_bytes, board.ties is TieRule.DENSE)
            await self._apply(opened={ranking: shape})

    async def drop(self, window: str) -> None:
        gone = [ranking for ranking in self.folds if ranking.window == window]
        for ranking in gone:
            del self.folds[ranking]
        segments = [
            Ranking(ranking.board, window, f"{name}:{group}")
            for ranking in gone
            for name in ("region", "team")
            for group in (1, 2)
        ]
        await self._apply(dropped=[*gone, *segments])

    async def _apply(self, **what: Any) -> None:
        for index in self.indexes:
            moved = await index.apply([], after=self._after, through=self._next, **what)
            assert moved == []
        self.position += 1

    @property
    def _after(self) -> Position:
        return Position(self.position - 1)

    @property
    def _next(self) -> Position:
        return Position(self.position)

    async def judge(self, sent_to: Sequence[list[Sent]]) -> None:
        """Judge what was sent to each board, everywhere; the boards' positions follow another."""
        after, runs, expected = self._after, [], []
        for board, all_sent in zip(self.boards, sent_to, strict=True):
            rankings = [ranking for ranking in self.folds if ranking.board == board.name]
            runs.append(run_of(board, rankings, all_sent, self.position))
            places = [(sent, Position(self.position + at)) for at, sent in enumerate(all_sent)]
            expected.append(
                [[self.folds[ranking].submit(*place) for place in places] for ranking in rankings]
            )
            self.position += len(all_sent)
        self.position += 1
        for index in self.indexes:
            told = await index.judge(runs, after=after, through=self._after)
            assert told is not None
            for board, by_ranking, wanted in zip(self.boards, told, expected, strict=True):
                assert [rows(verdicts, board.width) for verdicts in by_ranking] == wanted
            await self.compare(index)

    async def compare(self, index: NativeIndex) -> None:
        index.check()  # Whoever has no entry has no number, either.
        assert await index.checkpoint() == self._after
        for ranking, fold in self.folds.items():
            segments = [f"{name}:{group}" for name in fold.board.segments for group in (1, 2)]
            for segment in (None, *segments):
                placed = fold.placed(segment)
                part = Ranking(ranking.board, ranking.window, segment)
                stretch = await index.read(part, first=Rank(1), limit=len(placed) + 1)
                assert list(stretch.entries) == placed


@given(st.data())
def test_any_run_does_what_folding_it_one_by_one_does(data: st.DataObject) -> None:
    """Two boards that share players, and two windows, one opened later than the other."""
    pair = [data.draw(boards()), data.draw(boards())]
    other = Board.define("other", pair[1].definition())
    world = World([pair[0], other])

    async def live() -> None:
        for window in ("forever", "daily:1"):
            await world.open(window)
            await world.judge([data.draw(submissions(board)) for board in world.boards])
        await world.drop("forever")
        await world.judge([data.draw(submissions(board, 10)) for board in world.boards])

    asyncio.run(live())


def throw(dice: random.Random, board: Board, players: int, count: int) -> list[Sent]:
    spread = dice.choice([3, 1000, 2**40])

    def score() -> int:
        return dice.choice(EXTREMES) if dice.random() < 0.02 else dice.randrange(-spread, spread)

    thrown: list[Sent] = []
    for _ in range(count):
        delta = board.rule.value != "first" and dice.random() < 0.2
        scores = tuple(score() for _ in range(1 if delta else board.width))
        beside = dice.choice([None, None, b"x"])
        thrown.append(Sent(f"player {dice.randrange(players)}", scores, delta, beside))
    return thrown


@settings(phases=[Phase.explicit, Phase.reuse, Phase.generate], max_examples=25)
@given(board=boards(), seed=st.integers(0, 2**32 - 1), players=st.sampled_from([20, 150, 600]))
def test_long_runs_overtake_their_own_searches(board: Board, seed: int, players: int) -> None:
    dice = random.Random(seed)
    world = World([board])

    async def live() -> None:
        for window in ("forever", "daily:1"):
            await world.open(window)
            await world.judge([throw(dice, board, players, 300)])

    asyncio.run(live())


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("width", range(1, COLUMNS_MAX + 1))
@pytest.mark.parametrize("tie_break", TIE_BREAKS)
def test_every_rule_direction_width_and_tie_break(
    rule: str, way: str, width: int, tie_break: str
) -> None:
    """Not left to chance: each is thrown at once, columns of the other direction among them."""
    dice = random.Random(f"{rule} {way} {width} {tie_break}")
    ways = [way, *(dice.choice(WAYS) for _ in range(width - 1))]
    ties, segments = dice.choice(TIES), dice.choice(SEGMENTS)
    world = World([board_of(rule, ways, tie_break, dice.choice(BOUNDS), ties, segments)])

    async def live() -> None:
        await world.open("forever")
        for _ in range(2):
            await world.judge([throw(dice, world.boards[0], 40, 100)])

    asyncio.run(live())
