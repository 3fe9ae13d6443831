"""The fold: facts in, moves in the index out, and the receipts that tell what became of each.

A batch of facts is folded in three steps, so that an index across a network is asked twice and
not a thousand times: what the entries are that the batch may touch; then, without waiting for
anybody, every fact judged in order against those entries and what earlier facts of the batch made
of them; then all moves as one.

Invariants:

1. Facts are folded in order of position, each exactly once: an index takes a batch only if it
   follows its checkpoint.
2. What a fact means depends on the facts before it and on nothing else: no clock, no random
   number, no order of dictionaries that differs between processes.
3. All rankings that a submission belongs to change together: a reader sees all of it or none.
4. An entry's order key changes only when its scores do.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rankd.core.book import BoardPage, Book, segments_of
from rankd.model.board import Scores
from rankd.model.facts import (
    Attributes,
    PlayerErased,
    PlayerProfiled,
    Position,
    Recorded,
    ScoreSubmitted,
    WindowOpened,
)
from rankd.model.receipt import InWindow, Receipt, VerdictName
from rankd.model.standing import TieRule
from rankd.model.submission import Counted, Held, NotBetter, Rejected, Verdict, judge
from rankd.model.window import Instant, Window
from rankd.ports import STAY, Ledger, Move, Moved, Progress, RankIndex, Ranking, Shape

BATCH_FACTS_MAX = 1000
"""How many facts are folded at once while catching up: enough to be quick, few enough that other
work gets its turn."""

Place = tuple[Ranking, str]


class Recovered(NamedTuple):
    """Where the ledger ended when it was opened."""

    checkpoint: Position
    at: Instant
    owed: dict[Position, bytes]
    """The receipts of submissions with a key, folded again."""


class _Outcome(NamedTuple):
    """What judging decided in one window, and which move tells the rest."""

    window: Window
    verdict: Verdict
    before: Scores | None
    after: Scores | None
    move: int


class _Judged(NamedTuple):
    page: BoardPage
    fact: ScoreSubmitted
    position: Position
    outcomes: dict[str, _Outcome]


@dataclass(slots=True)
class _Batch:
    """What folding a batch has come to so far."""

    entries: dict[Place, bytes | None]
    """The order keys as the batch has made them."""
    moves: list[Move] = field(default_factory=list)
    opened: dict[Ranking, Shape] = field(default_factory=dict)
    judged: dict[int, _Judged] = field(default_factory=dict)
    """By the fact's place in the batch."""

    def put(
        self,
        place: Place,
        order_key: bytes | None,
        metadata: bytes | None = None,
        ties: TieRule = TieRule.ORDINAL,
    ) -> int:
        """Move a player; return which move it is."""
        self.entries[place] = order_key
        self.moves.append(Move(*place, order_key, metadata, ties))
        return len(self.moves) - 1

    def ask(self, place: Place, ties: TieRule) -> int:
        """Ask for a player's rank at this moment; return which move tells it."""
        self.moves.append(Move(*place, STAY, None, ties))
        return len(self.moves) - 1


class Projector:
    """Applies facts to an index and a book, in order."""

    def __init__(self, *, ledger: Ledger, index: RankIndex, book: Book) -> None:
        self._ledger = ledger
        self._index = index
        self._book = book

    async def fold(
        self, batch: Sequence[Recorded], *, after: Position
    ) -> Mapping[Position, Receipt]:
        """Fold facts that follow ``after``; return the receipts of the submissions among them."""
        begun = _Batch(await self._entries_of(batch))
        for number, recorded in enumerate(batch):
            await self._fold_one(begun, number, recorded)
        moved = await self._index.apply(
            begun.moves, after=after, through=batch[-1].position, opened=begun.opened
        )
        assert moved is not None, f"somebody else moved the index past {after}"
        return {judged.position: _receipt(judged, moved) for judged in begun.judged.values()}

    async def recover(self, progress: Callable[[Progress], None]) -> "Recovered":
        """Fold everything the ledger holds into an empty index and book."""
        head = await self._ledger.head()
        checkpoint, at = Position(0), 0
        owed: dict[Position, bytes] = {}
        while batch := await self._ledger.read(after=checkpoint, limit=BATCH_FACTS_MAX):
            receipts = await self.fold(batch, after=checkpoint)
            checkpoint, at = batch[-1].position, batch[-1].at
            for one in batch:
                if isinstance(one.fact, ScoreSubmitted) and one.fact.key is not None:
                    owed[one.position] = receipts[one.position].encode()
            progress(Progress(checkpoint, max(head, checkpoint)))
        return Recovered(checkpoint, at, owed)

    # ------------------------------------------------------------------ what it touches

    async def _entries_of(self, batch: Sequence[Recorded]) -> dict[Place, bytes | None]:
        """Fetch at once the entries that submissions of the batch are most likely to touch."""
        likely: dict[Place, None] = {}
        for recorded in batch:
            fact = recorded.fact
            if isinstance(fact, ScoreSubmitted) and fact.board in self._book.boards:
                page = self._book.boards[fact.board]
                for window in page.windows.values():
                    likely[page.ranking(window), fact.player] = None
        places = list(likely)
        return dict(zip(places, await self._index.order_keys(places), strict=True))

    async def _entry(self, begun: _Batch, place: Place) -> bytes | None:
        if place not in begun.entries:
            (begun.entries[place],) = await self._index.order_keys([place])
        return begun.entries[place]

    # ------------------------------------------------------------------- one at a time

    async def _fold_one(self, begun: _Batch, number: int, recorded: Recorded) -> None:
        fact = recorded.fact
        if isinstance(fact, ScoreSubmitted):
            begun.judged[number] = await self._submit(begun, fact, recorded.position)
        elif isinstance(fact, PlayerProfiled):
            await self._change_segments(begun, fact.player, fact.attributes or {})
            self._book.note(recorded)
        elif isinstance(fact, PlayerErased):
            await self._change_segments(begun, fact.player, {})
            self._book.note(recorded)
        else:
            self._book.note(recorded)
            if isinstance(fact, WindowOpened):
                page = self._book.page(fact.board)
                begun.opened[Ranking(fact.board, fact.window)] = page.shape

    async def _submit(self, begun: _Batch, fact: ScoreSubmitted, position: Position) -> _Judged:
        page = self._book.page(fact.board)
        if fact.attributes:
            merged = {**self._book.profile(fact.player).attributes, **fact.attributes}
            await self._change_segments(begun, fact.player, merged)
            self._book.note_attributes(fact.player, fact.attributes)
        segments = self._book.segments(page, fact.player)
        outcomes: dict[str, _Outcome] = {}
        for name, window in page.windows.items():
            outcomes[name] = await self._judge(begun, page, fact, position, window, segments)
        return _Judged(page, fact, position, outcomes)

    async def _judge(
        self,
        begun: _Batch,
        page: BoardPage,
        fact: ScoreSubmitted,
        position: Position,
        window: Window,
        segments: Sequence[str],
    ) -> _Outcome:
        place = (page.ranking(window), fact.player)
        order_key = await self._entry(begun, place)
        before = page.scores(order_key)
        verdict = judge(page.board, fact, before)
        if not isinstance(verdict, Counted):
            asked = begun.ask(place, page.board.ties)
            return _Outcome(window, verdict, before, before, asked)
        if verdict.moved or order_key is None:
            order_key = page.key(verdict.scores, position)
        move = begun.put(place, order_key, fact.metadata, page.board.ties)
        for segment in segments:
            self._put_in_segment(begun, page, window, segment, fact.player, order_key)
        return _Outcome(window, verdict, before, verdict.scores, move)

    def _put_in_segment(
        self,
        begun: _Batch,
        page: BoardPage,
        window: Window,
        segment: str,
        player: str,
        order_key: bytes,
    ) -> None:
        ranking = page.ranking(window, segment)
        begun.opened[ranking] = page.shape
        begun.put((ranking, player), order_key)

    async def _change_segments(self, begun: _Batch, player: str, attributes: Attributes) -> None:
        """Move a player from the segments it was in to those it is in now, in every open window."""
        before = self._book.profile(player).attributes
        for page in self._book.boards.values():
            old, new = segments_of(page.board, before), segments_of(page.board, attributes)
            if old == new:
                continue
            for window in page.windows.values():
                order_key = await self._entry(begun, (page.ranking(window), player))
                if order_key is None:
                    continue
                for segment in old:
                    if segment not in new:
                        begun.put((page.ranking(window, segment), player), None)
                for segment in new:
                    if segment not in old:
                        self._put_in_segment(begun, page, window, segment, player, order_key)


def _receipt(judged: _Judged, moved: Sequence[Moved]) -> Receipt:
    windows = {
        name: _in_window(outcome, moved[outcome.move]) for name, outcome in judged.outcomes.items()
    }
    return Receipt(
        judged.fact.board,
        judged.fact.player,
        judged.position,
        judged.page.board.decimals,
        windows,
    )


def _in_window(outcome: _Outcome, moved: Moved) -> InWindow:
    name, code, message = _named(outcome.verdict)
    return InWindow(
        outcome.window.id,
        name,
        outcome.after,
        outcome.before,
        moved.rank,
        moved.previous_rank,
        moved.total,
        code,
        message,
    )


def _named(verdict: Verdict) -> tuple[VerdictName, str | None, str | None]:
    match verdict:
        case Counted():
            return "counted", None, None
        case NotBetter():
            return "not_better", None, None
        case Held(reason):
            return "held", reason, None
        case Rejected(code, message):
            return "rejected", code, message
