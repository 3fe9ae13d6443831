"""When windows open, close and are dropped: the facts that are due, and when the next ones are.

A window turns by a fact with a key of its own, so it turns once, whoever noticed that it was time.
"""

from collections.abc import Iterator

from rankd.core.book import BoardPage, Book
from rankd.model.board import Board
from rankd.model.facts import (
    Fact,
    OpenWindow,
    Position,
    WindowDropped,
    WindowOpened,
    WindowSealed,
)
from rankd.model.window import Instant

NEVER: Instant = 2**63 - 1


def due_turns(book: Book, now: Instant) -> list[Fact]:
    """Return the facts that close what is over, open what begins and drop what was kept enough."""
    facts: list[Fact] = []
    for page in book.boards.values():
        facts += _turns_of(page, now)
    return facts


def _turns_of(page: BoardPage, now: Instant) -> Iterator[Fact]:
    # Not where the board was defined first: another definition may use an id again that was
    # dropped, and a key that was used is left out.
    name, since = page.board.name, page.defined_at
    ending = {window.name for window in page.over(now)}
    for window in page.over(now):
        yield WindowSealed(name, window.id, since=since)
    for recurrence in page.board.windows:
        if recurrence.name in page.windows and recurrence.name not in ending:
            continue
        window_now = recurrence.window_at(now)
        if window_now is None or _was_sealed(page, recurrence.name, window_now.start):
            continue
        opened = page.edition(window_now)
        yield WindowOpened(name, opened.window, opened.start, opened.end, since)
    for sealed in page.sealed.values():
        until = page.kept_until(sealed)
        if until is not None and until <= now:
            yield WindowDropped(name, sealed.window.id, since)


def _was_sealed(page: BoardPage, name: str, start: Instant | None) -> bool:
    """Whether this very window was closed early: then it stays closed."""
    return any(
        sealed.window.name == name
        and sealed.window.start == start
        and sealed.terms.board == page.board
        for sealed in page.sealed.values()
    )


def windows_at(page: BoardPage | None, board: Board, now: Instant) -> tuple[OpenWindow, ...]:
    """Return the windows that a board has open once it is defined so, at this time.

    A window that is open and of the same time goes on, under the id it has.
    """
    scratch = page or BoardPage(board, Position(0))
    windows: list[OpenWindow] = []
    for recurrence in board.windows:
        window = recurrence.window_at(now)
        if window is None:
            continue
        open_now = scratch.windows.get(recurrence.name)
        if open_now is not None and (open_now.window.start, open_now.window.end) == (
            window.start,
            window.end,
        ):
            windows.append(OpenWindow(open_now.window.id, window.start, window.end))
        else:
            windows.append(scratch.edition(window))
    return tuple(windows)


def next_turn_of(page: BoardPage, now: Instant) -> Instant | None:
    """Return when the next window of a board opens or closes; None if none ever does."""
    closing = [opened.window.end for opened in page.windows.values()]
    ends = [end for end in closing if end is not None]
    return min([*ends, *_openings(page, now)], default=None)


def next_turn(book: Book, now: Instant) -> Instant:
    """Return when the next window of any board closes, opens or is dropped."""
    return min((at for page in book.boards.values() for at in _coming(page, now)), default=NEVER)


def _openings(page: BoardPage, now: Instant) -> Iterator[Instant]:
    for recurrence in page.board.windows:
        if recurrence.name not in page.windows:
            coming = recurrence.next_opening(now)
            if coming is not None and coming.start is not None:
                yield coming.start


def _coming(page: BoardPage, now: Instant) -> Iterator[Instant]:
    yield from _openings(page, now)
    for opened in page.windows.values():
        if opened.window.end is not None:
            yield opened.window.end
    for sealed in page.sealed.values():
        if (until := page.kept_until(sealed)) is not None:
            yield until
