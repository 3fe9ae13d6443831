"""Ready-made pages: the same top list is asked for thousands of times between two changes.

A page is kept as the bytes that were sent, under all that it depends on: the ranking, where it
begins and how long it is, the position it is true at and the last one at which a name changed. A
page that is asked for at a later position is therefore never found, and so never stale.
"""

from collections.abc import Hashable

from rankd.api.exchange import Response

PAGES_MAX = 4096
"""Kept at once; of a hundred rows each that is some 40 MB."""


class Pages:
    """Pages of the position reached last."""

    __slots__ = ("_at", "_pages")

    def __init__(self) -> None:
        self._at: Hashable = None
        self._pages: dict[Hashable, Response] = {}

    def find(self, at: Hashable, what: Hashable) -> Response | None:
        """Return a page as it is at a moment, if it was made already."""
        return self._pages.get(what) if at == self._at else None

    def keep(self, at: Hashable, what: Hashable, page: Response) -> None:
        """Keep a page for as long as nothing changes."""
        if at != self._at or len(self._pages) >= PAGES_MAX:
            self._at, self._pages = at, {}
        self._pages[what] = page
