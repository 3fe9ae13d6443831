"""Many boards with segments as a few dictionaries have them, to compare an engine with.

All are of the rule ``best`` without limits, with a window that lasts. The model reads the facts of
a ledger from first to last, and keeps of each board the scores, and of each player the attributes.
"""

from collections.abc import Iterable, Mapping, Sequence

from rankd.core.engine import Engine
from rankd.model.facts import (
    BoardDefined,
    BoardRetired,
    PlayerErased,
    PlayerProfiled,
    Recorded,
    ScoreSubmitted,
)

WINDOW = "all"
Rows = Sequence[tuple[str, int]]
"""Players and scores, best first."""


class SegmentModel:
    """The boards whose names begin alike, and the attributes of all players."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._segments: dict[str, Sequence[str]] = {}
        """Of the boards that live, also of other names."""
        self._attributes: dict[str, Mapping[str, object]] = {}
        self._entries: dict[str, dict[str, tuple[int, int]]] = {}
        """By board and player: the score, and the position that brought it."""

    def read(self, facts: Iterable[Recorded]) -> "SegmentModel":
        for recorded in facts:
            self._take(recorded)
        return self

    def boards(self) -> list[str]:
        return [name for name in self._segments if name.startswith(self._prefix)]

    def rankings(self, board: str) -> dict[str | None, Rows]:
        """Return everybody on a board, and those of each segment that has any."""
        rankings: dict[str | None, list[tuple[str, int]]] = {None: []}
        entries = self._entries.get(board, {})
        for player in sorted(entries, key=lambda one: (-entries[one][0], entries[one][1])):
            attributes = self._attributes.get(player, {})
            own = [
                f"{name}:{attributes[name]}" for name in self._segments[board] if name in attributes
            ]
            for segment in (None, *own):
                rankings.setdefault(segment, []).append((player, entries[player][0]))
        return dict(rankings)

    def _take(self, recorded: Recorded) -> None:
        match recorded.fact:
            case BoardDefined(board, definition):
                self._segments[board] = definition["segments"]
            case BoardRetired(board):
                self._segments.pop(board, None)
                self._entries.pop(board, None)
            case PlayerProfiled(player=player, attributes=attributes):
                self._attributes[player] = attributes or {}
            case PlayerErased(player):
                self._attributes.pop(player, None)
            case ScoreSubmitted() as fact if fact.board in self._segments:
                known = self._attributes.get(fact.player, {})
                self._attributes[fact.player] = {**known, **(fact.attributes or {})}
                self._submit(fact, recorded.position)

    def _submit(self, fact: ScoreSubmitted, position: int) -> None:
        entries = self._entries.setdefault(fact.board, {})
        score, since = entries.get(fact.player, (None, position))
        if fact.scores is None:
            new = (score or 0) + (fact.delta or 0)
        else:
            new = fact.scores[0] if score is None else max(score, fact.scores[0])
        entries[fact.player] = (new, since if new == score else position)


async def wrong_segments(rankd: Engine, facts: Iterable[Recorded], prefix: str) -> list[str]:
    """Return which rankings of boards whose names begin so differ from the model's."""
    model, problems = SegmentModel(prefix).read(facts), []
    there: dict[str, set[str | None]] = {}
    for ranking in await rankd.reader.projector.index.shapes():
        if ranking.window == WINDOW:
            there.setdefault(ranking.board, set()).add(ranking.segment)
    for board in model.boards():
        expected = model.rankings(board)
        if there.get(board, set()) != expected.keys():
            problems.append(f"{board}: has segments {there.get(board)}, not {expected.keys()}")
            continue
        for segment, rows in expected.items():
            page = await rankd.reader.page(board, window=WINDOW, segment=segment, limit=1_000)
            if [(one.player, one.scores[0]) for one in page.standings] != list(rows):
                problems.append(f"{board}: {segment or 'everybody'} is wrong")
    return problems
