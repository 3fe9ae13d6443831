"""What a changed definition means for what was recorded before it.

A fact keeps the scores as they were submitted, in the unit and the columns of the definition of
its time. When a board is redefined its windows are folded again from the facts, and each fact is
first put into the terms of the new definition: scaled to its decimals, its columns found again by
their names.

Under the same rule, bounds are those of both definitions: wider ones are for submissions from then
on. Under another rule they bound something else, a sum or its parts, and what was admitted is
judged anew. What was refused stays refused under any definition (``core.admission``).
"""

from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter

import msgspec

from rankd.errors import FieldError, InvalidBoard
from rankd.model.board import SCORE_MAX, SCORE_MIN, Board
from rankd.model.facts import Position, ScoreSubmitted
from rankd.model.standing import TieRule

Translation = Callable[[ScoreSubmitted], ScoreSubmitted | None]
"""A fact in the terms of another definition; None where it cannot be said in them."""

_DECIDES_ENTRIES = attrgetter(
    "columns", "rule", "decimals", "tie_break", "segments", "score_low", "score_high"
)


def check_redefinition(before: Board, after: Board) -> None:
    """Refuse what would change scores rather than rules. Raises InvalidBoard."""
    if after.decimals < before.decimals:
        message = f"cannot be fewer than {before.decimals}: recorded scores would be rounded"
        raise InvalidBoard([FieldError("decimals", message)])


def changes_entries(before: Board, after: Board) -> bool:
    """Whether entries of one definition are no entries of the other: they are folded again."""
    dense = (before.ties is TieRule.DENSE) != (after.ties is TieRule.DENSE)
    return dense or _DECIDES_ENTRIES(before) != _DECIDES_ENTRIES(after)


def refolded(before: Board, after: Board) -> frozenset[str]:
    """Return the names of the windows that a new definition makes it necessary to fold again."""
    if changes_entries(before, after):
        return frozenset(recurrence.name for recurrence in after.windows)
    known = {recurrence.name: recurrence for recurrence in before.windows}
    return frozenset(
        recurrence.name for recurrence in after.windows if known.get(recurrence.name) != recurrence
    )


def judging(before: Board, after: Board) -> Board:
    """Return what facts recorded under ``before`` are judged by under ``after``."""
    if before.rule is not after.rule or before.columns[0].name != after.columns[0].name:
        return after
    factor = scale(before, after)
    low = max(after.score_low, before.score_low * factor)
    high = min(after.score_high, before.score_high * factor)
    if (low, high) == (after.score_low, after.score_high):
        return after
    return replace(after, limits=replace(after.limits, score_min=low, score_max=high))


def translation(before: Board, after: Board) -> Translation:
    """Return how facts recorded under ``before`` are read under ``after``."""
    factor = scale(before, after)
    names = [column.name for column in before.columns]
    places = [
        names.index(column.name) if column.name in names else None for column in after.columns
    ]
    if factor == 1 and places == list(range(before.width)):
        return _as_it_is

    def translate(fact: ScoreSubmitted) -> ScoreSubmitted | None:
        scores, delta = fact.scores, fact.delta
        if scores is not None:
            found = [None if place is None else scores[place] for place in places]
            scaled = tuple(score * factor for score in found if score is not None)
            if len(scaled) < len(found) or not _fits(scaled):
                return None
            return msgspec.structs.replace(fact, scores=scaled)
        assert delta is not None, "a submission has scores or a delta"
        if places[0] != 0 or not _fits((delta * factor,)):
            return None  # What it was added to is no longer what the board is ordered by.
        return msgspec.structs.replace(fact, delta=delta * factor)

    return translate


class Translator:
    """Facts of a board, in ledger order, in the terms of one definition of it."""

    def __init__(self, board: Board) -> None:
        self._target = board
        self._translate: Translation | None = None
        self._earlier: dict[Position | None, Translation] = {}
        """By where each definition came into force: a fact may have been read under an older."""
        self.board = board
        """The definition to judge by: its bounds are never wider than those in force."""

    def define(self, position: Position, board: Board) -> None:
        """Follow the ledger to where another definition came into force."""
        self.board = judging(board, self._target)
        self._translate = self._earlier[position] = translation(board, self._target)

    def translate(self, fact: ScoreSubmitted) -> ScoreSubmitted | None:
        """Return a submission in these terms; None where it cannot be said in them."""
        assert self._translate is not None, "a board is defined before it is submitted to"
        return self._earlier.get(fact.defined, self._translate)(fact)


def scale(before: Board, after: Board) -> int:
    """Return the factor between the smallest units of two definitions."""
    return int(10 ** (after.decimals - before.decimals))


def _as_it_is(fact: ScoreSubmitted) -> ScoreSubmitted:
    return fact


def _fits(scores: tuple[int, ...]) -> bool:
    return min(scores) >= SCORE_MIN and max(scores) <= SCORE_MAX
