"""Previews: the effect of a changed definition, shown before it is applied."""

from collections.abc import Sequence

import msgspec

from rankd.core.book import BoardPage
from rankd.core.draft import Draft
from rankd.core.reader import Reader, Where
from rankd.model.board import Change
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

    changes: tuple[Change, ...]
    windows: Sequence[WindowPreview]
    """Those that would be folded again."""
    drops: tuple[str, ...] = ()
    """Those with scores that cannot be ranked any more: that has to be agreed to."""


NOTHING = Preview((), ())
"""The preview of the definition in force."""


async def preview(reader: Reader, page: BoardPage, draft: Draft) -> Preview:
    """Compare a board with a draft of it."""
    windows = []
    for name, ranking in draft.windows():
        after = await reader.top_of(Where(draft.page().terms, ranking), PAGE_LIMIT_DEFAULT)
        before = None
        if (opened := page.windows.get(name)) is not None:
            before = await reader.top_of(Where(opened.terms, opened.ranking), PAGE_LIMIT_DEFAULT)
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
