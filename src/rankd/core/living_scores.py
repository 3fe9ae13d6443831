"""The living scores: submissions with a term, until it is over.

A manager records the end of each, once its time has come; until then it counts as any other. They
are kept in the state, by position, some 200 bytes each, and at most LIVING_SCORES_MAX.
"""

from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import NamedTuple

from rankd.core.attempts import ChangeLog
from rankd.model.facts import ExpiringScoreSubmitted, Position, Recorded, ScoresExpired, WrongTime
from rankd.model.window import Instant

LIVING_SCORES_MAX = 1_000_000
"""Submissions with a term that are alive at once: some 200 MB. One more is refused."""

ENDED_TOGETHER_MAX = 256
"""Players whose scores end with one append: each is folded again by its own facts."""


class LivingScore(NamedTuple):
    """A submission with a term."""

    due: Instant
    lives: int
    """Microseconds from its submission on."""
    board: str
    player: str


class LivingScores:
    """All submissions with a term that is not over."""

    def __init__(self) -> None:
        self._scores: dict[Position, LivingScore] = {}
        self._ends: dict[str, Position] = {}
        """By board that ever had one, where one ended last; 0 if none did."""
        self._heap: list[tuple[Instant, Position]] | None = None
        """Due times, some of them outlived; None until they are needed."""

    def __len__(self) -> int:
        return len(self._scores)

    def __contains__(self, position: object) -> bool:
        return position in self._scores

    def has(self, board: str) -> bool:
        """Whether a board ever had a score with a term."""
        return board in self._ends

    def due_of(self, position: Position) -> Instant | None:
        """Return when the term of a submission is over; None if it has none, or it is."""
        found = self._scores.get(position)
        return None if found is None else found.due

    # ........................................................................ changes

    def add(
        self, recorded: Recorded, fact: ExpiringScoreSubmitted, journal: ChangeLog | None
    ) -> None:
        """Note a submission with a term."""
        score = LivingScore(recorded.at + fact.lives, fact.lives, fact.board, fact.player)
        self._put(recorded.position, score, journal)
        if fact.board not in self._ends:
            if journal is not None:
                journal.keep(self._ends, fact.board)
            self._ends[fact.board] = Position(0)

    def _put(self, position: Position, score: LivingScore, journal: ChangeLog | None) -> None:
        if journal is not None:
            journal.keep(self._scores, position)
        self._scores[position] = score
        if self._heap is not None:
            heappush(self._heap, (score.due, position))

    def end(self, fact: ScoresExpired, position: Position, journal: ChangeLog | None) -> None:
        """Forget the submissions whose term is over."""
        for one in fact.positions:
            if one in self._scores:
                if journal is not None:
                    journal.keep(self._scores, one)
                    journal.keep(self._ends, fact.board)
                del self._scores[one]
                self._ends[fact.board] = position

    def correct(self, wrong: WrongTime, journal: ChangeLog | None) -> None:
        """Move the ends of those that were submitted while the time was wrong."""
        for position, score in list(self._scores.items()):
            if wrong.first <= position <= wrong.last:
                due = wrong.right(score.due - score.lives) + score.lives
                self._put(position, score._replace(due=due), journal)

    def forget_order(self) -> None:
        """Have the due times put in order again, after changes were taken back."""
        self._heap = None

    # ........................................................................ due times

    def next_due(self) -> Instant | None:
        """Return when the first term is over; None if none is alive."""
        heap = self._ordered()
        while heap and self.due_of(heap[0][1]) != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else None

    def _ordered(self) -> list[tuple[Instant, Position]]:
        if self._heap is None or len(self._heap) > 2 * len(self._scores) + ENDED_TOGETHER_MAX:
            self._heap = [(score.due, position) for position, score in self._scores.items()]
            heapify(self._heap)
        return self._heap

    def ended_by(self, now: Instant) -> list[ScoresExpired]:
        """Return the facts that end the terms which are over, of some players at once."""
        ended: dict[tuple[str, str], list[Position]] = {}
        taken: list[tuple[Instant, Position]] = []
        while (due := self.next_due()) is not None and due <= now:
            taken.append(heappop(self._ordered()))
            score = self._scores[taken[-1][1]]
            place = score.board, score.player
            if place not in ended and len(ended) == ENDED_TOGETHER_MAX:
                break
            ended.setdefault(place, []).append(taken[-1][1])
        for one in taken:
            heappush(self._ordered(), one)
        return [ScoresExpired(*place, tuple(sorted(some))) for place, some in ended.items()]

    # ........................................................................ snapshots

    def copy(self) -> "LivingScores":
        """Return the same scores, to be changed on their own."""
        twin = LivingScores()
        twin._scores, twin._ends = dict(self._scores), dict(self._ends)
        return twin

    def ended_at(self, board: str) -> Position:
        """Return where a term ended last on a board; 0 if none did."""
        return self._ends.get(board, Position(0))

    def parts(self, scores_each: int) -> Iterator[list[tuple[Position, LivingScore]]]:
        """Yield the scores, so many at a time."""
        rest = iter(self._scores.items())
        while some := list(islice(rest, scores_each)):
            yield some

    @property
    def ends(self) -> Sequence[tuple[str, Position]]:
        """The boards that ever had one, and where one ended last."""
        return list(self._ends.items())

    def extend(
        self,
        scores: Iterable[tuple[Position, LivingScore]],
        ends: Iterable[tuple[str, Position]],
    ) -> None:
        """Add some scores and boards."""
        self._scores.update(scores)
        self._ends.update(ends)
        self._heap = None
