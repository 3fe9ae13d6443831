"""Erasure of persons: their data goes from state, index and ledger, and all ranks stay.

An erasure is one fact, ``PersonErased``, from which on answers show nothing of a person. Then the
facts before it are redacted: the ledger replaces fields that decide no rank by nothing, one part of
the ledger after the other, each with a fact of its own (``FactsRedacted``). So the work may end at
any moment, and goes on at the next start.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from rankd.core.request_origin import without_address
from rankd.core.writer import Writer
from rankd.errors import RankdError, Unavailable
from rankd.model.facts import (
    Fact,
    FactsRedacted,
    FriendsSet,
    PersonErased,
    Position,
    RedactedPart,
)
from rankd.ports import Ledger, Progress

FACTS_TOGETHER = 1_000
"""Facts of a player read at once."""

PARTS_TOGETHER = 64
"""Parts of the ledger that one fact redacts: some tens of milliseconds, for which appends wait."""

LISTS_TOGETHER = 1_000
"""Lists of friends changed by one append."""

LOOK_SECONDS = 1.0
"""How often redactions are looked for that are not complete."""

LOOKS_PATIENT = 5
"""So many looks find a player before its redaction counts as interrupted: another node may be at
it, and to redact twice would record twice as many facts."""

TRIES_MAX = 5
"""How often a redaction is tried while another node redacts the same part."""

_log = logging.getLogger(__name__)

Tell = Callable[[Progress], None]


class Eraser:
    """Erases persons, and finishes the erasures that were interrupted."""

    def __init__(self, ledger: Ledger, writer: Writer) -> None:
        self._ledger = ledger
        self._writer = writer
        self._redacting = asyncio.Lock()

    async def erase(
        self, fact: PersonErased, *, unfriend: bool = False, tell: Tell = lambda _: None
    ) -> Position:
        """Erase a person, and redact its facts; return the position of the erasure.

        With ``unfriend`` the lists of other players' friends name it no more. If the
        ledger has no facts of the player since its last erasure, none is added.
        """
        player, state = fact.player, self._writer.projector.state
        erased = state.erased.get(player, Position(0))
        if unfriend:
            with without_address():  # It may be the player's, and is not redacted in these facts.
                await self._unfriend(player, fact.actor)
        if await self._is_known(player, since=erased):
            (answer,) = await self._writer.put([fact])
            erased = answer.position
            while self._writer.projector.state.erased.get(player, 0) < erased:
                await self._writer.see_others()  # The index is out of reach, or behind.
                await asyncio.sleep(0)
        if self._pending(player) is not None:
            await self.redact(player, tell)
        return erased or self._writer.projector.checkpoint

    async def _is_known(self, player: str, *, since: Position) -> bool:
        if player in self._writer.projector.state.profiles:
            return True
        facts = await self._ledger.facts_of(
            board=None,
            player=player,
            after=since,
            before=None,
            limit=FACTS_TOGETHER,
            newest_first=False,
        )
        return any(not isinstance(one.fact, PersonErased | FactsRedacted) for one in facts)

    async def _unfriend(self, player: str, actor: str | None) -> None:
        """Take a player out of all lists of friends."""
        changed: list[Fact] = [
            FriendsSet(other, tuple(one for one in known.friends if one != player), actor)
            for other, known in self._writer.projector.state.profiles.items()
            if player in known.friends
        ]
        for start in range(0, len(changed), LISTS_TOGETHER):
            await self._writer.put(changed[start : start + LISTS_TOGETHER])

    def _pending(self, player: str) -> Position | None:
        return self._writer.projector.state.unredacted.get(player)

    async def redact(self, player: str, tell: Tell = lambda _: None) -> None:
        """Redact a player's facts before its erasure."""
        async with self._redacting:
            for tried in range(1, TRIES_MAX + 1):
                through = self._pending(player)
                if through is None:
                    return
                try:
                    await self._redact(player, through, tell)
                except Unavailable:
                    if tried == TRIES_MAX:
                        raise
                    await asyncio.sleep(0.01 * tried)

    async def _redact(self, player: str, through: Position, tell: Tell) -> None:
        after = Position(0)
        while True:
            facts = await self._ledger.facts_of(
                board=None,
                player=player,
                after=after,
                before=Position(through + 1),
                limit=FACTS_TOGETHER,
                newest_first=False,
            )
            personal = [one.position for one in facts if one.fact.redacted() is not one.fact]
            parts = await self._ledger.redacted_parts(personal, player=player, through=through)
            for start in range(0, len(parts), PARTS_TOGETHER):
                await self._put(player, through, parts[start : start + PARTS_TOGETHER])
            if len(facts) < FACTS_TOGETHER:
                break
            after = facts[-1].position
            tell(Progress(after, through, "redacting facts", "fact"))
        await self._put(player, through, (), complete=True)
        tell(Progress(through, through, "redacting facts", "fact"))

    async def _put(
        self,
        player: str,
        through: Position,
        parts: Sequence[RedactedPart],
        *,
        complete: bool = False,
    ) -> None:
        await self._writer.put([FactsRedacted(player, through, tuple(parts), complete)])

    async def run(self) -> None:
        """Finish interrupted erasures until the engine stops."""
        looks: dict[str, int] = {}
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            pending = self._writer.projector.state.unredacted
            looks = {player: looks.get(player, 0) + 1 for player in pending}
            for player, many in looks.items():
                if many >= LOOKS_PATIENT:
                    await self._take_up(player)

    async def _take_up(self, player: str) -> None:
        try:
            await self.redact(player)
        except RankdError as exc:
            _log.warning("facts of an erased player are not redacted yet: %s", exc)
