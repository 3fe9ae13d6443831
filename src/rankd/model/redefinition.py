"""Redefinition: facts recorded under one definition, read under another.

A fact keeps the scores as they were submitted, in the unit and the columns of the definition of
its time. When a board is redefined its windows are folded again from the facts, and each fact is
first put into the terms of the new definition: scaled to its decimals, its columns found again by
their names.

Under the same rule, bounds are those of both definitions: wider ones are for submissions from then
on. Under another rule they bound something else, a sum or its parts, and admitted submissions are
judged anew. Refused ones stay refused under any definition (``core.admission``).
"""

from dataclasses import replace
from operator import attrgetter

import msgspec

from rankd.errors import FieldError, InvalidBoard
from rankd.model.board import SCORE_MAX, SCORE_MIN, Board
from rankd.model.facts import Position, ScoreSubmitted
from rankd.model.standing import TieRule

_DECIDES_ENTRIES = attrgetter(
    "columns", "rule", "decimals", "tie_break", "segments", "score_low", "score_high", "decay"
)


def check_redefinition(before: Board, after: Board) -> None:
    """Refuse a redefinition that would change recorded scores. Raises InvalidBoard."""
    if after.decimals < before.decimals:
        message = f"cannot be fewer than {before.decimals}: recorded scores would be rounded"
        raise InvalidBoard([FieldError("decimals", message)])


def new_columns(before: Board, after: Board) -> tuple[str, ...]:
    """Return the columns that no score recorded under ``before`` has."""
    known = {column.name for column in before.columns}
    return tuple(column.name for column in after.columns if column.name not in known)


def changes_columns(before: Board, after: Board) -> bool:
    """Whether submissions that ``before`` can read may lack columns of ``after``."""
    first = before.columns[0].name != after.columns[0].name
    return first or bool(new_columns(before, after))


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
        recurrence.name
        for recurrence in after.windows
        if not recurrence.has_windows_of(known.get(recurrence.name))
    )


def judging(before: Board, after: Board) -> Board:
    """Return the board by which facts recorded under ``before`` are judged under ``after``."""
    if before.rule is not after.rule or before.columns[0].name != after.columns[0].name:
        return after
    factor = scale(before, after)
    low = max(after.score_low, before.score_low * factor)
    high = min(after.score_high, before.score_high * factor)
    if (low, high) == (after.score_low, after.score_high):
        return after
    return replace(after, limits=replace(after.limits, score_min=low, score_max=high))


class Translation:
    """How facts recorded under ``before`` are read under ``after``."""

    __slots__ = ("_as_it_is", "_factor", "_places")

    def __init__(self, before: Board, after: Board) -> None:
        names = [column.name for column in before.columns]
        self._factor = scale(before, after)
        self._places = [
            names.index(column.name) if column.name in names else None for column in after.columns
        ]
        self._as_it_is = self._factor == 1 and self._places == list(range(before.width))

    def __call__(self, fact: ScoreSubmitted) -> ScoreSubmitted | None:
        """Return a fact in the terms of the other definition; None where it cannot be said."""
        if self._as_it_is:
            return fact
        scaled = self._scaled(fact)
        if scaled is None or not _fits(scaled):
            return None
        if fact.scores is not None:
            return msgspec.structs.replace(fact, scores=scaled)
        return msgspec.structs.replace(fact, delta=scaled[0])

    def outgrows(self, fact: ScoreSubmitted) -> bool:
        """Whether a fact has every column, and is too large in the unit of the other definition."""
        scaled = None if self._as_it_is else self._scaled(fact)
        return scaled is not None and not _fits(scaled)

    def _scaled(self, fact: ScoreSubmitted) -> tuple[int, ...] | None:
        """Return its numbers in the unit of the other definition; None if a column is missing."""
        if fact.scores is None:
            assert fact.delta is not None, "a submission has scores or a delta"
            # None if what it was added to is no longer what the board is ordered by.
            return (fact.delta * self._factor,) if self._places[0] == 0 else None
        found = [fact.scores[place] for place in self._places if place is not None]
        if len(found) < len(self._places):
            return None
        return tuple(score * self._factor for score in found)


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
        self._translate = self._earlier[position] = Translation(board, self._target)

    def translate(self, fact: ScoreSubmitted) -> ScoreSubmitted | None:
        """Return a submission in these terms; None where it cannot be said in them."""
        return self._translation(fact)(fact)

    def outgrows(self, fact: ScoreSubmitted) -> bool:
        """Whether a submission cannot be said in these terms because it is too large in them."""
        return self._translation(fact).outgrows(fact)

    def _translation(self, fact: ScoreSubmitted) -> Translation:
        assert self._translate is not None, "a board is defined before it is submitted to"
        return self._earlier.get(fact.defined, self._translate)


def scale(before: Board, after: Board) -> int:
    """Return the factor between the smallest units of two definitions."""
    return int(10 ** (after.decimals - before.decimals))


def _fits(scores: tuple[int, ...]) -> bool:
    return min(scores) >= SCORE_MIN and max(scores) <= SCORE_MAX
