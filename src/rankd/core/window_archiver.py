"""The loop that archives sealed windows: their rankings leave memory, and stay readable.

A window is archived when it is sealed: from then on only corrections change it. Those are few, and
kept beside the archive; an archive that they changed much is written anew.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from rankd.core.state import State
from rankd.errors import WindowArchiveDamaged
from rankd.model.facts import Position
from rankd.model.window import UNSEALED
from rankd.ports import Progress, Ranking, RankingArchives

ARCHIVE_SECONDS = 5.0
"""How often sealed windows are looked for."""

RANKINGS_TOGETHER = 1_000
"""Rankings looked at before others get their turn: about a millisecond."""

UNREAD = nullcontext()
"""Held while reads are excluded: nothing, where all readers are of the same event loop."""

_log = logging.getLogger(__name__)

Repair = Callable[[], AsyncIterator[Progress]]


class WindowArchiver:
    """Archives the rankings of sealed windows of one index."""

    def __init__(
        self,
        archives: Callable[[], RankingArchives | None],
        state: Callable[[], State],
        *,
        reading: AbstractContextManager[Any] = UNREAD,
        repair: Repair | None = None,
        patience: float = 0.0,
    ) -> None:
        self._archives = archives
        self._state = state
        self._reading = reading
        self._repair = repair
        """Makes the index anew from the ledger."""
        self._patience = patience
        """Seconds that a window must have been sealed: another process may archive it first."""
        self._sealed_at: dict[Ranking, float] = {}
        """When rankings of sealed windows were seen first, by the loop's clock."""
        self._changes = -1
        self._scrubbed_at = Position(0)
        self._damage: str | None = None

    async def run(self) -> None:
        """Archive sealed windows until the engine stops."""
        while True:
            archives = self._archives()
            if archives is not None:
                try:
                    await self._archive_sealed(archives)
                    await archives.renew(reading=self._reading)
                    await self.scrub()
                except WindowArchiveDamaged as exc:
                    _log.debug("an archive cannot be written anew: %s", exc)
                except OSError as exc:
                    _log.error("a sealed window cannot be archived: %s", exc)
                await self.mend()
            await asyncio.sleep(ARCHIVE_SECONDS)

    async def tidy(self) -> None:
        """Archive the windows that were sealed since the last call: a fold makes very many."""
        archives = self._archives()
        changes = sum(page.sealed.changes for page in self._state().boards.values())
        if archives is not None and changes != self._changes:
            self._changes = changes
            await self._archive_sealed(archives)

    async def scrub(self) -> None:
        """Write archives anew that have data of persons erased since."""
        archives, redacted_at = self._archives(), self._state().redacted_at
        if archives is not None and redacted_at > self._scrubbed_at:
            await archives.renew(reading=self._reading, all_removed=True)
            await archives.sweep()
            self._scrubbed_at = redacted_at

    async def _archive_sealed(self, archives: RankingArchives) -> None:
        now = asyncio.get_running_loop().time()
        sealed: dict[Ranking, float] = {}
        for nth, ranking in enumerate(archives.in_memory(), start=1):
            if nth % RANKINGS_TOGETHER == 0:
                await asyncio.sleep(0)
            if self._is_sealed(ranking):
                sealed[ranking] = self._sealed_at.get(ranking, now)
        self._sealed_at = sealed
        for ranking in [one for one, since in sealed.items() if now - since >= self._patience]:
            await archives.archive(
                ranking, reading=self._reading, wanted=partial(self._is_sealed, ranking)
            )

    def _is_sealed(self, ranking: Ranking) -> bool:
        page = self._state().boards.get(ranking.board)
        sealed = None if page is None else page.sealed.get(ranking.window)
        return sealed is not None and sealed.state not in UNSEALED

    async def mend(self) -> None:
        """Make the index anew if an archive was found damaged."""
        archives = self._archives()
        damage = None if archives is None else archives.damage
        if archives is None or damage is None or (self._repair is None and damage == self._damage):
            return
        self._damage = damage
        _log.error("an archive file is damaged, and is rebuilt from the ledger: %s", damage)
        if self._repair is not None:
            async for _ in self._repair():
                pass
            archives.forget_damage()
            _log.info("the archive was rebuilt from the ledger")
