"""What submissions did, as the wire shows it.

A receipt that an index told as columns (``core.told``) is shown straight from them: of the objects
in between, several for each window, nobody would see any.
"""

from collections.abc import Sequence

from msgspec import UNSET

from rankd import wire
from rankd.core.intake import Answer
from rankd.core.told import VERDICT_NAMES, Row, Told
from rankd.model.facts import Position, ScoreSubmitted
from rankd.model.receipt import InWindow, Receipt
from rankd.model.standing import Rank, percentile


def receipt(told: Receipt) -> wire.Receipt:
    """Show what a submission did."""
    if type(told.windows) is Row and not told.decimals and not told.duplicate:
        return _of_row(told, *told.windows.told)
    speaks = told.first
    return wire.Receipt(
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
        {name: _in_window(told, each) for name, each in told.windows.items()},
        True if told.duplicate else UNSET,
    )


def receipts(answers: Sequence[Answer]) -> list[wire.Receipt | wire.Refusal] | None:
    """Show what many submissions did, of which none was refused or came before; None otherwise."""
    shown: list[wire.Receipt | wire.Refusal] = []
    start = 0
    while start < len(answers):
        receipt = answers[start].receipt
        if receipt is None or type(receipt.windows) is not Row or receipt.decimals:
            return None
        told, row = receipt.windows.told
        if told.rejected():
            return None
        count = min(len(told.run.players) - row, len(answers) - start)
        some = answers[start : start + count]
        if any(map(_came_before, some)) or not _in_a_row(some, told, row):
            return None
        shown += _of_rows(told, row, row + count)
        start += count
    return shown


def _came_before(answer: Answer) -> bool:
    return answer.duplicate or answer.receipt is None


def _in_a_row(answers: Sequence[Answer], told: Told, first: int) -> bool:
    """Whether these are the answers of consecutive rows: their positions tell."""
    positions = told.run.positions[first : first + len(answers)]
    return [answer.position for answer in answers] == positions.tolist()


def _of_row(receipt: Receipt, told: Told, row: int) -> wire.Receipt:
    """Show what ``_of_rows`` does of one row: most submissions come alone."""
    at, windows = row * told.width, []
    for id, each in zip(told.ids, told.verdicts, strict=True):
        rank, previous = each.ranks[row] or None, each.previous_ranks[row] or None
        windows.append(
            wire.InWindow(
                id,
                each.scores[at] if rank else None,
                rank,
                previous,
                previous - rank if rank and previous else None,
                each.totals[row],
                VERDICT_NAMES[each.verdicts[row]],
            )
        )
    first = windows[told.speaks]
    before = told.verdicts[told.speaks].previous_scores[at] if first.previous_rank else None
    return _shown(receipt.player, receipt.position, before, windows, told)


def _of_rows(told: Told, start: int, end: int) -> list[wire.Receipt]:
    """Show what ``receipt`` does, straight from the columns that an index answers with."""
    width = told.width
    rows = slice(start, end)
    windows: list[list[wire.InWindow]] = []
    for id, each in zip(told.ids, told.verdicts, strict=True):
        scores = each.scores[start * width : end * width : width]
        columns = zip(
            scores,
            each.ranks[rows],
            each.previous_ranks[rows],
            each.totals[rows],
            each.verdicts[rows],
            strict=True,
        )
        windows.append(
            [
                wire.InWindow(
                    id,
                    score if rank else None,
                    rank or None,
                    previous or None,
                    previous - rank if rank and previous else None,
                    total,
                    VERDICT_NAMES[verdict],
                )
                for score, rank, previous, total, verdict in columns
            ]
        )
    before = told.verdicts[told.speaks].previous_scores[start * width : end * width : width]
    rows_of = zip(
        told.run.players[rows],
        told.run.positions[rows],
        before,
        windows[told.speaks],
        zip(*windows, strict=True),
        strict=True,
    )
    return [
        _shown(player, position, score if first.previous_rank else None, by_window, told)
        for player, position, score, first, by_window in rows_of
    ]


def _shown(
    player: str,
    position: int,
    before: int | None,
    windows: Sequence[wire.InWindow],
    told: Told,
) -> wire.Receipt:
    first = windows[told.speaks]
    rank, total = first.rank, first.total
    return wire.Receipt(
        told.run.board.name,
        player,
        first.verdict,
        first.score,
        before,
        rank,
        first.previous_rank,
        first.rank_change,
        total,
        percentile(Rank(rank), total) if rank else None,
        position,
        dict(zip(told.names, windows, strict=True)),
    )


def _in_window(told: Receipt, each: InWindow) -> wire.InWindow:
    return wire.InWindow(
        each.window,
        told.shown(each.scores),
        each.rank,
        each.previous_rank,
        each.rank_change,
        each.total,
        each.verdict,
    )


def accepted(fact: ScoreSubmitted, position: Position, *, duplicate: bool) -> wire.Receipt:
    """Show a submission that is recorded, and of which nobody can tell yet what it did."""
    return wire.Receipt(
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
