"""Events for webhooks and callbacks: found in the ledger, and shown as messages.

The state has the places of events, and the ledger their facts. One fact may have several: each
reward that it gives, each window that a definition opens. Then an event has a row, too, and its id
is made of both.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from rankd.core.reward_rows import RewardId
from rankd.core.state import State
from rankd.core.verifiers import held_submission
from rankd.core.webhooks import HELD_EVENT, PLACES, WINDOW_EVENTS, Event, turned_by
from rankd.model.facts import (
    BoardDefined,
    Fact,
    OpenWindow,
    Position,
    Recorded,
    RewardsGiven,
    RewardsWithdrawn,
    ScoreSubmitted,
    WindowOpened,
    WindowSealed,
    WindowSettled,
    as_erased,
)
from rankd.model.rewards import show_amount
from rankd.model.window import Instant, show_instant
from rankd.ports import Ledger

EVENTS_TOGETHER = 256
"""Events that are looked up at once, and after which the rest of a fact's are the last."""

FACTS_TOGETHER = 1_000
"""Facts read at once where events have to be looked for in the ledger."""

Wants = Callable[[str, str], bool]
"""Whether an event of a board is wanted."""


class Occurrence(NamedTuple):
    """An event, and the fact that it is about."""

    event: Event
    recorded: Recorded
    last: bool = True
    """Whether the fact has no wanted event behind it."""


class EventReader:
    """Finds events after a position: their places in the state, their facts in the ledger."""

    def __init__(
        self, ledger: Ledger, state: Callable[[], State], checkpoint: Callable[[], Position]
    ) -> None:
        self._ledger, self._state, self.checkpoint = ledger, state, checkpoint

    def has_more(self, after: Position, wants: Wants, boards: bool) -> bool:
        """Whether there may be events after a position; ``boards`` for any board."""
        state = self._state()
        if after < state.window_events_from or next(self._windows(after, wants), None) is not None:
            return True
        return boards and bool(state.reviews.held.after(after, 1))

    def _windows(self, after: Position, wants: Wants) -> Iterator[Position]:
        """Return the places of wanted events of windows, newest first."""
        for position, (place, board) in reversed(self._state().window_events.items()):
            if position <= after:
                return
            if any(wants(event, board) for event in PLACES.get(place, (place,))):
                yield position

    async def next(self, after: Position, wants: Wants) -> tuple[list[Occurrence], Position]:
        """Return some of the events after a position, and a position up to which they are all.

        All events of one fact are returned together.
        """
        state = self._state()
        if after < state.window_events_from:
            facts = await self._ledger.read(after=after, limit=FACTS_TOGETHER)
            facts = [one for one in facts if one.position <= state.window_events_from]
            through = facts[-1].position if facts else state.window_events_from
        else:
            places = [*self._windows(after, wants)][: -EVENTS_TOGETHER - 1 : -1]
            places += state.reviews.held.after(after, EVENTS_TOGETHER)
            places = sorted(places)[:EVENTS_TOGETHER]
            facts = [one for place in places for one in await self._fact(place)]
            through = places[-1] if places else after
        found: list[Occurrence] = []
        for one in as_erased(facts, state.erased):
            found += self._occurrences(one, wants)
            if len(found) >= EVENTS_TOGETHER:
                return found, one.position
        return found, through

    async def _fact(self, position: Position) -> Sequence[Recorded]:
        return await self._ledger.read(after=Position(position - 1), limit=1)

    def _occurrences(self, recorded: Recorded, wants: Wants) -> list[Occurrence]:
        """Return the wanted events of a fact."""
        fact = recorded.fact
        board: str = getattr(fact, "board", "")
        wanted = [
            Event(recorded.position, name, board, row)
            for name, row in self._names(fact, recorded.position)
            if wants(name, board)
        ]
        last = len(wanted) - 1
        return [Occurrence(event, recorded, place == last) for place, event in enumerate(wanted)]

    def _names(self, fact: Fact, position: Position) -> Iterator[tuple[str, int | None]]:
        """Yield the names of a fact's events; with their rows where it may have several."""
        if isinstance(fact, ScoreSubmitted):
            if position in self._state().reviews.held:
                yield HELD_EVENT, None
        elif isinstance(fact, RewardsGiven):
            yield from (("reward.given", row) for row in range(len(fact.players)))
        elif isinstance(fact, RewardsWithdrawn):
            yield from (("reward.withdrawn", place) for place in range(len(fact.rows)))
        elif isinstance(fact, BoardDefined):
            closed, opened = turned_by(fact)
            yield from (("window.sealed", row) for row in range(len(closed)))
            rows = range(len(closed), len(closed) + len(opened))
            yield from (("window.opened", row) for row in rows)
        elif (name := WINDOW_EVENTS.get(type(fact))) is not None:
            yield name, None

    # ---------------------------------------------------------------------- messages

    async def message(self, occurrence: Occurrence) -> dict[str, Any]:
        """Return an event as receivers get it."""
        event, recorded, _ = occurrence
        data = {"position": event.position, "board": event.board}
        return {
            "type": event.name,
            "timestamp": show_instant(recorded.at),
            "data": {**data, **await self._data(recorded, event.row or 0)},
        }

    async def _data(self, recorded: Recorded, row: int) -> dict[str, Any]:
        match recorded.fact:
            case WindowOpened(_, window, start, end):
                return _opened(OpenWindow(window, start, end))
            case WindowSealed(_, window, _, reason):
                return {"window": window, "reason": reason}
            case WindowSettled() as fact:
                counts = {"players": fact.players, "submissions": fact.submissions}
                place = {"window": fact.window, "edition": fact.edition}
                return {**place, **counts, "rewards": fact.rewards, "reason": fact.reason}
            case BoardDefined() as fact:
                closed, opened = turned_by(fact)
                if row < len(closed):
                    return {"window": closed[row], "reason": None}
                return _opened(opened[row - len(closed)])
            case RewardsGiven() as fact:
                return {**_reward(fact, recorded.position, row), "edition": fact.edition}
            case RewardsWithdrawn() as fact:
                return await self._withdrawn(fact, row)
            case ScoreSubmitted() as fact:
                return self._review(fact, recorded)
            case _:
                raise AssertionError(recorded.fact.kind)

    async def _withdrawn(self, fact: RewardsWithdrawn, row: int) -> dict[str, Any]:
        """Show a reward that is void, and whether it was claimed before."""
        (given,) = await self._fact(fact.given)
        assert isinstance(given.fact, RewardsGiven)
        every = self._state().rewards.get((fact.board, fact.window), ())
        rows = next((one for one in every if one.given == fact.given), None)
        claimed = rows is not None and rows.claimed_at(fact.rows[row]) is not None
        shown = _reward(given.fact, fact.given, fact.rows[row])
        return {**shown, "edition": fact.edition, "claimed": claimed}

    def _review(self, fact: ScoreSubmitted, recorded: Recorded) -> dict[str, Any]:
        state = self._state()
        page, review = state.boards.get(fact.board), state.reviews.listed.get(recorded.position)
        scores: dict[str, Any] = {"score": None, "delta": None}
        if page is not None:
            held = held_submission(recorded, page.board_at(recorded.position))
            scores = {"score": held.score, "delta": held.delta}
        return {
            "review": str(recorded.position),
            "player": fact.player,
            **scores,
            "rules": [] if review is None else [one.rule for one in review.reasons],
        }


def _opened(window: OpenWindow) -> dict[str, Any]:
    return {"window": window.window, "start": _show(window.start), "end": _show(window.end)}


def _reward(fact: RewardsGiven, given: Position, row: int) -> dict[str, Any]:
    amount = show_amount(fact.amounts[row], fact.decimals) if fact.amounts else None
    return {
        "window": fact.window,
        "reward": str(RewardId(given, row)),
        "player": fact.players[row],
        "rank": fact.ranks[row],
        "band": fact.band,
        "give": None if fact.give is None else msgspec.json.decode(fact.give),
        "amount": amount,
    }


def _show(instant: Instant | None) -> str | None:
    return None if instant is None else show_instant(instant)
