"""Previews: the effect of a changed definition, shown before it is applied."""

from collections.abc import Sequence

import msgspec

from rankd.core.board_rebuild import BoardRebuild
from rankd.core.reader import RankingView, Reader
from rankd.core.state import BoardState
from rankd.model.board import FieldChange
from rankd.model.standing import PAGE_LIMIT_DEFAULT, Standing


class WindowPreview(msgspec.Struct, frozen=True):
    """One window as it is and as it would be."""

    window: str
    """The name of its recurrence."""
    total: int
    total_after: int
    top: Sequence[Standing]
    top_after: Sequence[Standing]


class Preview(msgspec.Struct, frozen=True):
    """What would change."""

    changes: tuple[FieldChange, ...]
    windows: Sequence[WindowPreview]
    """Those that would be folded again."""
    drops: tuple[str, ...] = ()
    """Those with scores that cannot be ranked any more: that has to be agreed to."""


NOTHING = Preview((), ())
"""The preview of the definition in force."""


async def preview(reader: Reader, page: BoardState, draft: BoardRebuild) -> Preview:
    """Compare a board with a draft of it."""
    windows = []
    for name, ranking in draft.windows():
        after = await reader.top_of(RankingView(draft.page().terms, ranking), PAGE_LIMIT_DEFAULT)
        before = None
        if (opened := page.windows.get(name)) is not None:
            before = await reader.top_of(
                RankingView(opened.terms, opened.ranking), PAGE_LIMIT_DEFAULT
            )
        windows.append(
            WindowPreview(
                name,
                0 if before is None else before.total,
                after.total,
                () if before is None else before.standings,
                after.standings,
            )
        )
    drops = await draft.dropped_windows(page)
    return Preview(page.board.changes(draft.board), windows, drops)
