"""Histories of everything that can happen to an engine, drawn by Hypothesis and lived through.

Few boards, players and scores, so that whatever can meet does: ties, keys used again, a board that
is retired and defined anew, a window that turns while it is folded again. Definitions differ in
each thing that decides how facts are folded.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from tests.unit.core.doubles import HOUR, SetClock

from rankd.core.engine import Engine
from rankd.core.window_schedule import Schedule
from rankd.core.writer import WriteResult
from rankd.errors import Refused
from rankd.model.facts import Position

PLAYERS = st.sampled_from(["ann", "bob", "cyd", "dee"])
BOARDS = st.sampled_from(["arena", "race"])
SCORES = st.integers(-3, 3) | st.sampled_from([2**63 - 1, -(2**63)])
REGIONS = st.sampled_from(["eu", "us"])
KEYS = st.none() | st.sampled_from(["k1", "k2", "k3"])

EVERY_SIX_HOURS = {"name": "shift", "start": "2026-11-14T00:00:00Z", "every": "6h"}
WITH_A_GAP = {"name": "shift", "start": "2026-11-14T00:00:00Z", "every": "6h", "gap": "3h"}

Definition = dict[str, Any]

DEFINITIONS: list[Definition] = [
    {"rule": "best", "windows": ["all", "daily"]},
    {"rule": "best", "direction": "lower", "windows": ["daily", "all"], "tie_break": "latest"},
    {"rule": "sum", "windows": ["all"]},
    {"rule": "sum", "windows": ["all", EVERY_SIX_HOURS], "retention": {"shift": "6h"}},
    {"rule": "latest", "windows": [EVERY_SIX_HOURS], "segments": ["region"]},
    {"rule": "latest", "windows": [WITH_A_GAP], "retention": {"shift": "1h"}},
    {"rule": "first", "windows": ["all", "daily"], "segments": ["region"]},
    {"rule": "best", "windows": ["all", "daily"], "ties": "dense", "retention": {"daily": "12h"}},
    {"rule": "best", "windows": ["all", "daily"], "ties": "standard", "segments": ["region"]},
    {"rule": "best", "windows": ["daily"], "time_zone": "Asia/Tokyo", "retention": {"daily": "1h"}},
    {"rule": "best", "windows": ["daily"], "time_zone": "UTC", "retention": {"daily": "1h"}},
    {"rule": "sum", "decimals": 1, "windows": ["all", "daily"], "limits": {"score_max": 2}},
]

Step = tuple[str, tuple[Any, ...]]


def _step(name: str, *parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    return st.tuples(st.just(name), st.tuples(*parts))


_SUBMIT = _step(
    "submit",
    BOARDS,
    PLAYERS,
    SCORES,
    st.booleans(),
    KEYS,
    st.none() | REGIONS,
    st.none() | st.integers(0, 1),
)
_RARE = st.one_of(
    _step("profile", PLAYERS, st.none() | REGIONS),
    _step("erase", PLAYERS),
    _step("befriend", PLAYERS, PLAYERS),
    _step("define", BOARDS, st.sampled_from(DEFINITIONS)),
    _step("redefine", BOARDS, st.sampled_from(DEFINITIONS)),
    _step("retire", BOARDS),
)
_TIME = _step("pass", st.integers(-2, 30))
_FIRST = st.sampled_from(DEFINITIONS).map(lambda one: [("define", ("arena", one))])
_LATER = st.lists(
    st.one_of(_SUBMIT, _SUBMIT, _SUBMIT, _RARE, _TIME).map(lambda step: [step])
    | st.lists(_SUBMIT | _RARE, min_size=2, max_size=6),
    max_size=25,
)
STEPS = st.tuples(_FIRST, _LATER).map(lambda both: [both[0], *both[1]])
"""Steps one after another; those of an inner list at the same time, so that they share a batch."""


@dataclass
class History:
    """What was done to an engine, and what it answered."""

    rankd: Engine
    clock: SetClock
    receipts: dict[Position, bytes] = field(default_factory=dict)
    """By position, as the live engine told them."""

    async def live(self, steps: Sequence[Sequence[Step]]) -> None:
        for at_once in steps:
            await asyncio.gather(*[self._take(name, parts) for name, parts in at_once])

    async def _take(self, name: str, parts: tuple[Any, ...]) -> None:
        doing: Callable[..., Awaitable[None]] = getattr(self, f"_{name}")
        with suppress(Refused):  # A history need not make sense.
            await doing(*parts)

    async def _submit(
        self,
        board: str,
        player: str,
        score: int,
        delta: bool,
        key: str | None,
        region: str | None,
        metadata: int | None,
    ) -> None:
        body: dict[str, Any] = {"player": player, "delta" if delta else "score": score, "key": key}
        if region is not None:
            body["attributes"] = {"region": region}
        if metadata is not None:
            body["metadata"] = {"run": metadata}
        for answer in await self.rankd.submit(board, [body]):
            self._note(answer)

    def _note(self, answer: WriteResult) -> None:
        if answer.receipt is None:
            return
        told = answer.receipt.encode()
        before = self.receipts.setdefault(answer.position, told)
        assert before == told, "whoever repeats a submission gets the answer of the first time"

    async def _profile(self, player: str, region: str | None) -> None:
        attributes = {} if region is None else {"region": region}
        await self.rankd.profile(player, {"name": player.title(), "attributes": attributes})

    async def _erase(self, player: str) -> None:
        await self.rankd.erase(player)

    async def _befriend(self, player: str, friend: str) -> None:
        await self.rankd.set_friends(player, [friend])

    async def _define(self, board: str, definition: Definition) -> None:
        await self.rankd.define(board, definition)

    async def _redefine(self, board: str, definition: Definition) -> None:
        await self.rankd.redefine(board, definition, drop_scores=True)

    async def _retire(self, board: str) -> None:
        await self.rankd.retire(board)

    async def _pass(self, hours: int) -> None:
        """Let time pass, sometimes backwards; windows turn now, and not when the sealer wakes."""
        self.clock.time += hours * HOUR
        await self.rankd.sealer.turn()
        now = max(self.clock.time, self.rankd.reader.projector.at)
        assert not Schedule().due(self.rankd.state, now), (
            "what is due happens, and is not due again"
        )
