"""A cache of rendered pages: the same top list is read thousands of times between two changes.

The key has all that a page depends on: the ranking, its offset and length, its position, and the
position of the last profile change. At a later position the key differs, so a cached page is never
stale.
"""

from collections.abc import Hashable

from rankd.api.messages import Response

PAGES_MAX = 4096
"""Cached pages; of a hundred rows each that is some 40 MB."""


class PageCache:
    """Pages of the latest position."""

    __slots__ = ("_at", "_pages")

    def __init__(self) -> None:
        self._at: Hashable = None
        self._pages: dict[Hashable, Response] = {}

    def find(self, at: Hashable, what: Hashable) -> Response | None:
        """Return a page as of the moment ``at``, if cached."""
        return self._pages.get(what) if at == self._at else None

    def keep(self, at: Hashable, what: Hashable, page: Response) -> None:
        """Cache a page; drop all pages of an earlier moment."""
        if at != self._at or len(self._pages) >= PAGES_MAX:
            self._at, self._pages = at, {}
        self._pages[what] = page
