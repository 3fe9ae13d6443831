"""Judging runs of submissions in the rank lists themselves, from columns to columns.

The outcome of a submission is defined by ``model.submission.judge`` and ``model.order.Order``. A
rank list does the same in C, once a board's rule, directions, bounds and tie-break are put into
plain numbers; that is done here. So are the things a list knows nothing of: how many lists hold
each player, the metadata of an entry, and the segments it is in. No object is made per submission.

A run takes two steps. The first checks it, and changes nothing if it fails; after it only a lack of
memory can stop the second, and then midway.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import repeat
from typing import NamedTuple

from rankd.adapters.memory.index_state import Entries, IndexState
from rankd.model.board import Board, ScoreRule, TieBreak
from rankd.model.order import Order
from rankd.model.standing import TieRule
from rankd.ports import COUNTED, HELD, OUT_OF_BOUNDS, Ranking, Run, SegmentChange, Verdicts
from rankd.rank.rules import BEST, DENSE, FIRST, LATEST, ORDINAL, STANDARD, SUM, Rules

_RULES = {
    ScoreRule.BEST: BEST,
    ScoreRule.LATEST: LATEST,
    ScoreRule.SUM: SUM,
    ScoreRule.FIRST: FIRST,
}

RULES_MAX = 1024
"""Boards whose rules are cached."""

_TIES = {TieRule.ORDINAL: ORDINAL, TieRule.STANDARD: STANDARD, TieRule.DENSE: DENSE}


_BARRED = bytes(0 if verdict < OUT_OF_BOUNDS else max(verdict, HELD) for verdict in range(256))
"""A table from the verdicts in one ranking to the rows that are barred in one that follows it."""


class JudgedRanking(NamedTuple):
    """A run that can be judged: its rankings found, its players numbered."""

    run: Run
    rankings: Sequence[Entries]
    numbers: "array[int]"
    rules: Rules


def rules_of(board: Board) -> Rules:
    """Return a board's rules in the form that a rank list takes."""
    return Rules(
        _RULES[board.rule],
        Order.of(board).masks,
        0 if board.tie_break is TieBreak.PLAYER else 1,
        board.score_low,
        board.score_high,
        _TIES[board.ties],
    )


# ------------------------------------------------------------------------- before it


def prepare(state: IndexState, runs: Sequence[Run]) -> list[JudgedRanking]:
    """Rule out all that can be wrong with the runs, and give their players numbers."""
    found = [_expect(state, run) for run in runs]
    if len(runs) > 1:
        rankings = [ranking for run in runs for ranking in run.rankings]
        assert len(set(rankings)) == len(rankings), "two runs have a ranking in common"
    cases: list[JudgedRanking] = []
    try:
        for run, entries in zip(runs, found, strict=True):
            numbers = state.players.intern_many(run.players)
            _make_countable(state, numbers)
            cases.append(JudgedRanking(run, entries, numbers, _rules_in(state, run.board)))
    except BaseException:
        _forget_new(state, runs)
        raise
    return cases


def _expect(state: IndexState, run: Run) -> list[Entries]:
    """Return a run's rankings, having made sure that its columns fit them and one another."""
    board, count = run.board, len(run.players)
    assert len(run.scores) == count * board.width, "each submission has a score for each column"
    assert len(run.positions) == count, "each submission has a position"
    assert not count or run.positions[0] > 0, "positions begin at 1"
    assert run.metadata is None or len(run.metadata) == count, "metadata, or None, for each"
    assert run.segments is None or len(run.segments) == count, "segments for each"
    assert run.barred is None or len(run.barred) == count, "each submission is barred or is not"
    if run.deltas is not None:
        assert len(run.deltas) == count, "each submission is a delta or is not"
        assert board.rule is not ScoreRule.FIRST or not any(run.deltas), f"{board.name}: no deltas"
    found: list[Entries] = []
    for ranking in run.rankings:
        entries = state.rankings.get(ranking)
        assert entries is not None, f"{ranking} was never opened"
        assert not entries.draft, f"{ranking} is a draft, which nobody submits to"
        key_bytes = 8 * board.width + 8
        assert entries.ranks.width == key_bytes, f"{ranking} has no keys of {key_bytes} bytes"
        dense = board.ties is not TieRule.DENSE or entries.ranks.dense
        assert dense, f"{ranking} does not count distinct scores"
        found.append(entries)
    return found


def _rules_in(state: IndexState, board: Board) -> Rules:
    known = state.rules.get(board.name)
    if known is None or known[0] is not board:
        if len(state.rules) >= RULES_MAX:
            state.rules.clear()
        known = state.rules[board.name] = board, rules_of(board)
    return known[1]


def _make_countable(state: IndexState, numbers: "array[int]") -> None:
    missing = max(numbers, default=-1) + 1 - len(state.held)
    if missing > 0:
        state.held.frombytes(bytes(missing * state.held.itemsize))


def _forget_new(state: IndexState, runs: Sequence[Run]) -> None:
    """Forget the players that came before the runs were refused."""
    held = state.held
    for run in runs:
        for player in run.players:
            with suppress(ValueError, TypeError):  # Perhaps this very id is why.
                number = state.players.find(player)
                if number is not None and not (number < len(held) and held[number]):
                    state.players.remove(number)


# ------------------------------------------------------------------------ judging


def judge(state: IndexState, cases: Sequence[JudgedRanking]) -> list[list[Verdicts]]:
    """Judge the runs, and move the counted entries. A failure leaves some of it done."""
    told = [_judge_in_all(state, case) for case in cases]
    # Only now: a number that became free between two runs could mean two players.
    for case, verdicts in zip(cases, told, strict=True):
        if not verdicts or any(map(_some_kept_out, verdicts)):
            _forget_strangers(state, case.numbers)
    return told


def _judge_in_all(state: IndexState, case: JudgedRanking) -> list[Verdicts]:
    run, earlier = case.run, dict(case.run.follows)
    told: list[Verdicts] = []
    for number, entries in enumerate(case.rankings):
        barred = run.barred
        if number in earlier and _some_kept_out(before := told[earlier[number]]):
            barred = before.verdicts.translate(_BARRED)
        told.append(_judge_in(state, case, entries, barred))
    return told


def _judge_in(
    state: IndexState, case: JudgedRanking, entries: Entries, barred: bytes | None
) -> Verdicts:
    run, numbers, ranks = case.run, case.numbers, entries.ranks
    total = len(ranks)
    told = Verdicts(
        *ranks.judge_many(numbers, run.scores, run.positions, run.deltas, barred, rules=case.rules)
    )
    if len(ranks) > total:
        _hold_new(state, numbers, told)
    if run.metadata is not None or entries.metadata:
        brought = repeat(None, len(numbers)) if run.metadata is None else run.metadata
        _show(entries, numbers, told.verdicts, brought)
    return told


def _hold_new(state: IndexState, numbers: "array[int]", told: Verdicts) -> None:
    held = state.held
    for number, before, now in zip(numbers, told.previous_ranks, told.ranks, strict=True):
        if now and not before:
            held[number] += 1


def _show(
    entries: Entries, numbers: Iterable[int], verdicts: bytes, metadata: Iterable[bytes | None]
) -> None:
    """Let the metadata of each entry be that of the last submission that counted."""
    beside = entries.metadata
    for number, verdict, value in zip(numbers, verdicts, metadata, strict=True):
        if verdict != COUNTED:
            continue
        if value is None:
            beside.pop(number, None)
        else:
            beside[number] = value


# ----------------------------------------------------------------------- segments


def follow(
    state: IndexState,
    case: JudgedRanking,
    verdicts: Sequence[Verdicts],
    segment_of: Callable[[Ranking, Entries], Entries],
) -> Iterator[tuple[Entries, "array[int]"]]:
    """Put counted entries into their players' segments; yield each with the players put there."""
    if case.run.segments is None:
        return
    last, segments = b"", dict[str, "array[int]"]()
    for ranking, entries, told in zip(case.run.rankings, case.rankings, verdicts, strict=True):
        if told.verdicts != last:  # Mostly a score counts in each window or in none.
            last, segments = told.verdicts, _by_segment(case, told.verdicts)
        for segment, numbers in segments.items():
            beside = segment_of(Ranking(ranking.board, ranking.window, segment), entries)
            _put_as_in(entries, beside, numbers, state.held)
            yield beside, numbers


def _by_segment(case: JudgedRanking, verdicts: bytes) -> dict[str, "array[int]"]:
    """Return the players of counted submissions by segment.

    Rows of players with the same attributes mostly share one list of segments.
    """
    assert case.run.segments is not None
    alike: dict[int, tuple[Sequence[str], array[int]]] = {}
    for number, verdict, segments in zip(case.numbers, verdicts, case.run.segments, strict=True):
        if verdict == COUNTED:
            if (known := alike.get(id(segments))) is None:
                known = alike[id(segments)] = segments, array("I")
            known[1].append(number)
    found: dict[str, array[int]] = {}
    for segments, numbers in alike.values():
        for segment in segments:
            if (together := found.get(segment)) is None:
                found[segment] = array("I", numbers)
            else:
                together.extend(numbers)
    return found


def change_segments(
    state: IndexState,
    changes: Sequence[SegmentChange],
    segment_of: Callable[[Ranking, Entries], Entries],
) -> Iterator[tuple[Entries, "array[int]"]]:
    """Move players between segments; yield each segment with the player that left or entered it."""
    for ranking, player, left, entered in changes:
        entries, number = state.rankings.get(ranking), state.players.find(player)
        if entries is None or number is None or number not in entries.ranks:
            continue
        alone = array("I", (number,))
        for segment in left:
            beside = state.rankings.get(Ranking(ranking.board, ranking.window, segment))
            if beside is not None and number in beside.ranks:
                beside.ranks.remove(number)
                beside.metadata.pop(number, None)
                state.held[number] -= 1  # Not to 0: the window holds it.
                yield beside, alone
        for segment in entered:
            beside = segment_of(Ranking(ranking.board, ranking.window, segment), entries)
            _put_as_in(entries, beside, alone, state.held)
            yield beside, alone


def left_segments(changes: Sequence[SegmentChange]) -> set[Ranking]:
    """Return the rankings of the segments that players leave."""
    return {
        Ranking(ranking.board, ranking.window, segment)
        for ranking, _, left, _ in changes
        for segment in left
    }


def _put_as_in(source: Entries, target: Entries, numbers: "array[int]", held: "array[int]") -> None:
    """Give players the keys and the metadata that they have in another ranking by now."""
    keys = b"".join(map(source.ranks.key_of, numbers))  # type: ignore[arg-type]  # All have one.
    total = len(target.ranks)
    before, _ = target.ranks.put_many(numbers, keys, ranks=True)
    if len(target.ranks) > total:
        for number, previous in zip(numbers, before, strict=True):
            held[number] += not previous
    if source.metadata or target.metadata:
        for number in numbers:
            value = source.metadata.get(number)
            if value is None:
                target.metadata.pop(number, None)
            else:
                target.metadata[number] = value


def _some_kept_out(told: Verdicts) -> bool:
    return max(told.verdicts, default=COUNTED) >= OUT_OF_BOUNDS


def _forget_strangers(state: IndexState, numbers: Iterable[int]) -> None:
    """Forget players with a number and no entry: none of their submissions counted."""
    held, players = state.held, state.players
    for number in set(numbers):
        if not held[number] and number in players:  # Another run may have had it, too.
            players.remove(number)
