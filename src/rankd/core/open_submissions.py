"""The submissions of a player to a board that retractions may still select, found by position.

Submissions that a retraction selects for good are removed: later retractions do not meet them.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from rankd.core.corrections import Retraction
from rankd.model.facts import Position, ScoreSubmitted


class OpenSubmissions:
    """Positions of submissions in order, all of them and by build."""

    def __init__(self) -> None:
        self._all: list[Position] = []
        self._builds: dict[Position, str | None] = {}
        self._by_build: dict[str | None, list[Position]] = {}

    def add(self, position: Position, fact: ScoreSubmitted) -> None:
        """Add a submission behind all others."""
        self._all.append(position)
        self._builds[position] = fact.build
        self._by_build.setdefault(fact.build, []).append(position)

    def selected_by(self, retraction: Retraction) -> list[Position]:
        """Return those that a retraction of the player selects, in order."""
        fact = retraction.fact
        first = fact.first or Position(0)
        last = Position(retraction.position - 1)
        if fact.last is not None:
            last = min(last, fact.last)
        if fact.positions:
            return [
                one
                for one in sorted(set(fact.positions))
                if first <= one <= last
                and one in self._builds
                and fact.build in (None, self._builds[one])
            ]
        known = self._all if fact.build is None else self._by_build.get(fact.build, [])
        return known[bisect_left(known, first) : bisect_right(known, last)]

    def remove(self, positions: Iterable[Position]) -> None:
        """Remove submissions, given in order."""
        for position in reversed(list(positions)):
            for several in (self._all, self._by_build[self._builds.pop(position)]):
                del several[bisect_left(several, position)]
