"""Receipts rendered as JSON.

A receipt in columns (``core.receipt_columns``) is rendered from them by a template, without the
objects in between, of which there are several for each window.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec import UNSET, UnsetType

from rankd import schemas
from rankd.api import render
from rankd.core.receipt_columns import VERDICT_NAMES, JudgedRun, ReceiptView, RunReceipts
from rankd.core.state import BoardState
from rankd.core.writer import WriteResult, WriteResults
from rankd.model.board import Board
from rankd.model.facts import Position, ScoreSubmitted
from rankd.model.receipt import InWindow, Receipt
from rankd.templates import Form, PlaceholderKind, parts_of, placeholder

FORMS_MAX = 1024
"""Cached templates, one for each board and set of open windows."""

SHOWN_TOGETHER = 64
"""Rows of a run rendered at once when one of them is read: the others soon will be."""


def receipt(told: Receipt, board: Board | None = None) -> schemas.Receipt:
    """Return a receipt for the wire; with ``board``, as defined at the time, also its columns."""
    speaks = told.first
    return schemas.Receipt(
        told.board,
        told.player,
        speaks.verdict,
        told.shown(speaks.scores),
        told.shown(speaks.previous_scores),
        speaks.rank,
        speaks.previous_rank,
        speaks.rank_change,
        speaks.total,
        speaks.percentile,
        told.position,
        {name: _in_window(told, each, board) for name, each in told.windows.items()},
        True if told.duplicate else UNSET,
        _columns_of(told, speaks, board),
    )


def is_final(told: Receipt) -> bool:
    """Whether the verdict is final, not held for review."""
    return type(told.windows) is ReceiptView or told.first.verdict != "held"


def as_json(told: Receipt, boards: Mapping[str, BoardState]) -> bytes:
    """Return a receipt as JSON."""
    if type(told.windows) is not ReceiptView or told.decimals or told.duplicate:
        return schemas.encode(receipt(told, _board_of(told, boards)))
    run, row = told.windows.told
    chunk, place = divmod(row, SHOWN_TOGETHER)
    some = run.shown.get(chunk)
    if some is None:
        start = chunk * SHOWN_TOGETHER
        end = min(start + SHOWN_TOGETHER, len(run.run.players))
        some = run.shown[chunk] = _form_of(run).fill_each(_columns(run), start, end)
    return some[place]


def all_as_json(answers: Sequence[WriteResult]) -> bytes | None:
    """Return many receipts as JSON, joined by commas; None if one is rejected or a duplicate."""
    if isinstance(answers, WriteResults) and isinstance(answers.receipts, RunReceipts):
        return _run_as_json(answers.receipts, answers.positions)
    runs: list[bytes] = []
    start = 0
    while start < len(answers):
        receipt = answers[start].receipt
        if receipt is None or type(receipt.windows) is not ReceiptView or receipt.decimals:
            return None
        told, row = receipt.windows.told
        if told.rejected():
            return None
        count = min(len(told.run.players) - row, len(answers) - start)
        some = answers[start : start + count]
        if any(map(_came_before, some)) or not _in_a_row(some, told, row):
            return None
        runs.append(_form_of(told).fill(_columns(told), row, row + count))
        start += count
    return b",".join(runs)


def each_as_json(answers: Sequence[WriteResult]) -> list[bytes] | None:
    """Return each receipt as JSON; None unless all are new, not rejected, and of one run."""
    if not (isinstance(answers, WriteResults) and isinstance(answers.receipts, RunReceipts)):
        return None
    rows = _rows(answers.receipts, answers.positions)
    if rows is None:
        return None
    told = answers.receipts.told
    return _form_of(told).fill_each(_columns(told), rows.start, rows.stop)


def _run_as_json(receipts: RunReceipts, positions: Sequence[Position]) -> bytes | None:
    """Return the receipts of one run, joined by commas, without building an object for any."""
    rows = _rows(receipts, positions)
    if rows is None:
        return None
    return _form_of(receipts.told).fill(_columns(receipts.told), rows.start, rows.stop)


def _rows(receipts: RunReceipts, positions: Sequence[Position]) -> range | None:
    """Return the rows of a run at these positions; None if a template cannot render them."""
    told = receipts.told
    if not positions or told.rejected() or told.run.board.decimals:
        return None
    try:
        first = receipts.row_of(positions[0])
    except KeyError:
        return None
    rows = range(first, first + len(positions))
    found = told.run.positions[rows.start : rows.stop].tolist()
    return rows if found == list(positions) else None


def _came_before(answer: WriteResult) -> bool:
    return answer.duplicate or answer.receipt is None


def _in_a_row(answers: Sequence[WriteResult], told: JudgedRun, first: int) -> bool:
    """Whether these are the results of consecutive rows, by their positions."""
    positions = told.run.positions[first : first + len(answers)]
    return [answer.position for answer in answers] == positions.tolist()


# ---------------------------------------------------------------------------- templates


def _columns(told: JudgedRun) -> tuple[Any, ...]:
    """Return a run's columns: player, position, six for each window, further scores.

    The scores of a row are adjacent, so a further column is the same array from a later start.
    """
    further = [
        verdicts.scores[column:] for verdicts in told.verdicts for column in range(1, told.width)
    ]
    return (*told.columns(), *further)


def _form_of(told: JudgedRun) -> Form:
    board = told.run.board
    columns = tuple(column.name for column in board.columns)
    return _form(board.name, told.names, told.ids, told.speaks, columns)


@lru_cache(maxsize=FORMS_MAX)
def _form(
    board: str, names: Sequence[str], ids: Sequence[str], speaks: int, columns: Sequence[str]
) -> Form:
    """Return the template of a board's receipts for one set of open windows."""
    width = len(columns)
    windows = [
        _window_form(id, place, columns, further=_places_of(len(ids)).start + place * (width - 1))
        for place, id in enumerate(ids)
    ]
    first = windows[speaks]
    _, _, before, rank, previous, total = _places_of(speaks)
    shape = schemas.Receipt(
        board,
        placeholder(PlaceholderKind.TEXT, 0),
        first.verdict,
        first.score,
        placeholder(PlaceholderKind.GUARDED, before, other=previous, every=width),
        first.rank,
        first.previous_rank,
        first.rank_change,
        first.total,
        placeholder(PlaceholderKind.SHARE, rank, other=total),
        placeholder(PlaceholderKind.NUMBER, 1),
        dict(zip(names, windows, strict=True)),
        columns=first.columns,
    )
    return Form(parts_of(shape))


def _places_of(window: int) -> range:
    """Return the column numbers of a window, in the order of ``Verdicts``."""
    return range(2 + 6 * window, 2 + 6 * (window + 1))


def _window_form(id: str, place: int, columns: Sequence[str], *, further: int) -> schemas.InWindow:
    """Return the template of one window; its further scores start at column ``further``."""
    verdict, score, _, rank, previous, total = _places_of(place)
    scores = [
        placeholder(PlaceholderKind.GUARDED, at, other=rank, every=len(columns))
        for at in (score, *range(further, further + len(columns) - 1))
    ]
    return schemas.InWindow(
        id,
        scores[0],
        placeholder(PlaceholderKind.OPTIONAL, rank),
        placeholder(PlaceholderKind.OPTIONAL, previous),
        placeholder(PlaceholderKind.CHANGE, previous, other=rank),
        placeholder(PlaceholderKind.NUMBER, total),
        placeholder(PlaceholderKind.CHOICE, verdict, texts=_VERDICTS),
        dict(zip(columns, scores, strict=True)) if len(columns) > 1 else UNSET,
    )


_VERDICTS = tuple(map(schemas.encode, VERDICT_NAMES))


# ------------------------------------------------------------------------------ objects


def _board_of(told: Receipt, boards: Mapping[str, BoardState]) -> Board | None:
    """Return the board as defined when the submission was judged."""
    if type(told.windows) is ReceiptView:
        run, _ = told.windows.told
        return run.run.board
    page = boards.get(told.board)
    return None if page is None else page.board_at(told.position)


def _columns_of(
    told: Receipt, each: InWindow, board: Board | None
) -> Mapping[str, schemas.Score | None] | UnsetType:
    if board is None:
        return UNSET
    if each.scores is not None:
        return render.columns_of(each.scores, board, told.decimals)
    return UNSET if board.width == 1 else dict.fromkeys(column.name for column in board.columns)


def _in_window(told: Receipt, each: InWindow, board: Board | None) -> schemas.InWindow:
    return schemas.InWindow(
        each.window,
        told.shown(each.scores),
        each.rank,
        each.previous_rank,
        each.rank_change,
        each.total,
        each.verdict,
        _columns_of(told, each, board),
    )


def accepted(fact: ScoreSubmitted, position: Position, *, duplicate: bool) -> schemas.Receipt:
    """Return the receipt of a recorded submission whose outcome is not known yet."""
    return schemas.Receipt(
        fact.board,
        fact.player,
        "accepted",
        None,
        None,
        None,
        None,
        None,
        None,
        None,
        position or None,
        {},
        True if duplicate else UNSET,
    )
