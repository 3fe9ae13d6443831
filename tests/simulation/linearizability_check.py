"""The check of a history: whether calls of many clients look as if each took place in a moment.

Each call has a start, an end, and a position: that of the write, or the one that a read was true
at. A history is linearizable in the order of the ledger if

1. a read shows exactly the writes up to its position,
2. no call is before one that had ended when it started: a later read has no lower position, and a
   later write a higher one; nor does a read show a write that started after the read had ended,
3. a write that was acknowledged is in the ledger, once, with what was sent; one that was refused
   is not there; one without an answer may be, once.

Then the calls, put in the order of their positions, reads behind the write of theirs, are the order
in which they seem to have happened.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

PAGE_LENGTH = 10
"""Rows of a page that clients ask for."""

Outcome = Literal["done", "refused", "unknown"]


@dataclass(slots=True)
class Write:
    """A score that a client added to a player's sum, with a key of its own."""

    key: str
    player: str
    delta: int
    start: int
    end: int = 0
    """By one clock for all; of several tries the start of the first and the end of the last."""
    outcome: Outcome = "unknown"
    position: int = 0
    score: int = 0
    """The sum in the answer."""


class Row(NamedTuple):
    """A row of an answer."""

    rank: int
    player: str
    score: int


@dataclass(slots=True)
class Read:
    """Standings that a client was shown."""

    start: int
    end: int
    position: int
    total: int
    rows: Sequence[Row]
    player: str | None = None
    """The player asked for; None for the top of the board."""


class LedgerWrite(NamedTuple):
    """A write as the ledger has it."""

    position: int
    key: str
    player: str
    delta: int


@dataclass(slots=True)
class History:
    """The calls of some clients to one board, and its writes in the ledger."""

    writes: list[Write]
    reads: list[Read]
    ledger: list[LedgerWrite]


def violations(history: History) -> list[str]:
    """Return what is wrong with a history."""
    ledger = sorted(history.ledger)
    return [
        *_wrong_writes(history.writes, ledger),
        *_wrong_answers(history, ledger),
        *_wrong_order(history, {one.key: one.position for one in ledger}),
    ]


def _wrong_writes(writes: Iterable[Write], ledger: Sequence[LedgerWrite]) -> Iterator[str]:
    """Yield writes that are not in the ledger as their clients were told."""
    there: defaultdict[str, list[LedgerWrite]] = defaultdict(list)
    for found in ledger:
        there[found.key].append(found)
    for one in writes:
        places = there.pop(one.key, [])
        if len(places) > 1:
            yield f"{one.key} is in the ledger {len(places)} times"
        elif one.outcome == "done" and not places:
            yield f"{one.key} was acknowledged at {one.position} and is lost"
        elif one.outcome == "refused" and places:
            yield f"{one.key} was refused and is at {places[0].position}"
        elif places and places[0][2:] != (one.player, one.delta):
            yield f"{one.key} is another write at {places[0].position}"
        elif one.outcome == "done" and places[0].position != one.position:
            yield f"{one.key} was said to be at {one.position} and is at {places[0].position}"
    for key in there:
        yield f"{key} is in the ledger, and nobody sent it"


def _wrong_answers(history: History, ledger: Sequence[LedgerWrite]) -> Iterator[str]:
    """Yield answers that do not show exactly the writes up to their position."""
    sums: dict[str, int] = {}
    reached: dict[str, int] = {}
    """Where each player came to its sum: the first is ahead among equals."""
    calls: list[tuple[int, int, Write | Read]] = [(one.position, 1, one) for one in history.reads]
    calls += [(one.position, 0, one) for one in history.writes if one.outcome == "done"]
    calls.sort(key=lambda call: call[:2])
    place = 0
    for position, _, call in calls:
        while place < len(ledger) and ledger[place].position <= position:
            found = ledger[place]
            sums[found.player] = sums.get(found.player, 0) + found.delta
            reached[found.player] = found.position
            place += 1
        if isinstance(call, Write):
            if sums.get(call.player) != call.score:
                yield f"{call.key} at {position} was answered {call.score}: {sums.get(call.player)}"
            continue
        order = sorted(sums, key=lambda player: (-sums[player], reached[player]))
        every = [Row(rank, player, sums[player]) for rank, player in enumerate(order, 1)]
        expected = [row for row in every if call.player in (None, row.player)]
        shown = expected[:PAGE_LENGTH]
        if call.total != len(every) or list(call.rows) != shown:
            yield f"a read at {position} showed {call.rows} of {call.total}: not {shown}"


def _wrong_order(history: History, places: Mapping[str, int]) -> Iterator[str]:
    """Yield calls that are before others which had ended when they started."""
    calls: list[tuple[int, int | None, int, bool, str]] = [
        (one.start, one.end, one.position, False, f"a read at {one.position}")
        for one in history.reads
    ]
    for one in history.writes:
        position = places.get(one.key, 0)
        if one.outcome == "done":
            calls.append((one.start, one.end, position, True, f"{one.key} at {position}"))
        elif position:  # It took place, at some time after it was sent.
            calls.append((one.start, None, position, True, f"{one.key} at {position}"))
    ended = sorted((end, position) for _, end, position, _, _ in calls if end is not None)
    highest, place = 0, 0
    for start, _, position, writes, told in sorted(calls, key=lambda call: call[0]):
        while place < len(ended) and ended[place][0] < start:
            highest = max(highest, ended[place][1])
            place += 1
        if position < highest or (writes and position == highest):
            yield f"{told} started when a call at {highest} had ended"
