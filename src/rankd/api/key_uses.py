"""Last uses of keys: noted by the gate, and recorded now and then.

A fact for each request would cost as much as a score. A key whose last use is not recorded, or was
recorded ``key_use_seconds`` before, has it recorded within a minute, and all others used since with
it: a fact an hour where keys are used steadily, whatever the number of requests, processes and
nodes. Other processes of a service hand their uses on to the one that writes.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

from rankd.api.access import Gate
from rankd.core.service import Rankd
from rankd.errors import RankdError
from rankd.model.window import Instant

LOOK_SECONDS = 60.0
"""How often uses are looked at."""


async def record_uses(gate: Gate, rankd: Rankd, behind_seconds: int) -> None:
    """Record last uses until cancelled, where facts are written; with 0 none."""
    while behind_seconds:
        await asyncio.sleep(LOOK_SECONDS)
        used = uses_to_record(gate.used, rankd.book.keys_used, behind_seconds)
        if used:
            with suppress(RankdError):  # The next round records them.
                await rankd.note_key_uses(used)


async def hand_on_uses(gate: Gate, hand_on: Callable[[Mapping[str, Instant]], None]) -> None:
    """Hand last uses on until cancelled, where another process writes."""
    told: Mapping[str, Instant] = {}
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        used = dict(gate.used)
        if used != told:
            hand_on(used)
            told = used


def uses_to_record(
    used: Mapping[str, Instant], recorded: Mapping[str, Instant], behind_seconds: int
) -> dict[str, Instant]:
    """Return the uses that are not recorded, once one of them has waited for so long."""
    later = {id: at for id, at in used.items() if at > recorded.get(id, -1)}
    overdue = behind_seconds * 1_000_000
    if any(id not in recorded or at - recorded[id] >= overdue for id, at in later.items()):
        return later
    return {}
