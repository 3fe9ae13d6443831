"""Last uses of keys: noted in memory by the Authenticator, recorded as facts at intervals.

A fact for each request would cost as much as a score. Once a minute, if a key has a use that is
unrecorded, or ``key_use_seconds`` later than the recorded one, one fact records the uses of all
keys since. With steady use that is a fact an hour, however many requests, processes and nodes there
are. Workers report their uses to the writer.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

from rankd.api.auth import Authenticator
from rankd.core.engine import Engine
from rankd.errors import RankdError
from rankd.model.window import Instant

LOOK_SECONDS = 60.0
"""The interval at which uses are checked."""


async def record_uses(auth: Authenticator, rankd: Engine, behind_seconds: int) -> None:
    """Record last uses until cancelled, in the writer; 0 disables it."""
    while behind_seconds:
        await asyncio.sleep(LOOK_SECONDS)
        used = uses_to_record(auth.used, rankd.state.keys_used, behind_seconds)
        if used:
            with suppress(RankdError):  # The next iteration retries.
                await rankd.note_key_uses(used)


async def hand_on_uses(
    auth: Authenticator, hand_on: Callable[[Mapping[str, Instant]], None]
) -> None:
    """Report last uses to the writer until cancelled, in a worker."""
    told: Mapping[str, Instant] = {}
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        used = dict(auth.used)
        if used != told:
            hand_on(used)
            told = used


def uses_to_record(
    used: Mapping[str, Instant], recorded: Mapping[str, Instant], behind_seconds: int
) -> dict[str, Instant]:
    """Return all unrecorded uses if a key's is its first or ``behind_seconds`` later; else none."""
    later = {id: at for id, at in used.items() if at > recorded.get(id, -1)}
    overdue = behind_seconds * 1_000_000
    if any(id not in recorded or at - recorded[id] >= overdue for id, at in later.items()):
        return later
    return {}
