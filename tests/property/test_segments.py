"""Segments of many boards hold exactly the players whose attributes say so, under any history.

Method: boards with the same segments, with others, with none; players that are on some of them.
Attributes come with submissions and with profiles, change, stay as they are and are forgotten;
boards gain and lose segments, are retired and defined anew; the engine is closed and opened again,
from its ledger and from a snapshot, also from one without ``player_boards``. After every step each
segment of each board is compared with two dictionaries: scores by board, attributes by player.
"""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.unit.core.doubles import SetClock, engine, kept_in

from rankd.adapters.memory.ledger import MemoryLedger
from rankd.core.player_boards import PlayerBoards

NAMES = [f"board-{number}" for number in range(8)]
BOARDS = st.integers(0, len(NAMES) - 1)
"""One of the boards there are, counted round."""
PLAYERS = st.sampled_from(["ann", "bob", "cyd"])
SEGMENTS = st.sampled_from([(), ("region",), ("league",), ("region", "league"), ("league", "vip")])
VALUES: dict[str, tuple[str | int | bool, ...]] = {
    "region": ("eu", "us"),
    "league": ("1", 1, 2),
    "vip": (True, False, 1),
    "unused": (0, 1),
}
ATTRIBUTES = st.fixed_dictionaries(
    {}, optional={name: st.sampled_from(values) for name, values in VALUES.items()}
)


def shown(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class SegmentsMachine(RuleBasedStateMachine):
    @initialize(boards=st.lists(st.tuples(SEGMENTS, st.sets(PLAYERS)), min_size=4, max_size=8))
    def begin(self, boards: list[tuple[tuple[str, ...], set[str]]]) -> None:
        self.folder = TemporaryDirectory()
        self.ledger = MemoryLedger()
        self.runner = asyncio.Runner()
        self.segments: dict[str, tuple[str, ...]] = {}
        self.scores: dict[str, dict[str, int]] = {}
        self.attributes: dict[str, dict[str, str | int | bool]] = {}
        self.open()
        for name, (segments, players) in zip(NAMES, boards, strict=False):
            self.define(name, segments)
            for player in sorted(players):
                self.submit(name, [(player, 1, {})])

    def open(self) -> None:
        self.stack = AsyncExitStack()
        self.rankd = self.runner.run(
            self.stack.enter_async_context(
                engine(self.ledger, SetClock(), kept_in(Path(self.folder.name)))
            )
        )

    def define(self, board: str, segments: tuple[str, ...]) -> None:
        definition = {"rule": "latest", "windows": ["all", "daily"], "segments": list(segments)}
        doing = self.rankd.redefine if board in self.segments else self.rankd.define
        self.runner.run(doing(board, definition))
        self.segments[board] = segments
        self.scores.setdefault(board, {})

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            self.runner.run(self.stack.aclose())
            self.runner.close()
            self.folder.cleanup()

    # ------------------------------------------------------------------------- rules

    def name_of(self, number: int) -> str:
        return NAMES[number % len(self.segments)]

    @rule(
        number=BOARDS,
        items=st.lists(st.tuples(PLAYERS, st.integers(0, 9), ATTRIBUTES), min_size=1, max_size=5),
    )
    def submit_to(self, number: int, items: list[tuple[str, int, dict[str, Any]]]) -> None:
        self.submit(self.name_of(number), items)

    def submit(self, board: str, items: list[tuple[str, int, dict[str, Any]]]) -> None:
        self.runner.run(
            self.rankd.submit(
                board, [{"player": p, "score": s, "attributes": said} for p, s, said in items]
            )
        )
        for player, score, said in items:
            self.scores[board][player] = score
            self.attributes[player] = {**self.attributes.get(player, {}), **said}

    @rule(player=PLAYERS, said=ATTRIBUTES)
    def profile(self, player: str, said: dict[str, Any]) -> None:
        self.runner.run(self.rankd.profile(player, {"attributes": said}))
        self.attributes[player] = said

    @rule(player=PLAYERS)
    def erase(self, player: str) -> None:
        self.runner.run(self.rankd.erase(player))
        self.attributes.pop(player, None)

    @rule(number=BOARDS, segments=SEGMENTS)
    def redefine(self, number: int, segments: tuple[str, ...]) -> None:
        self.define(self.name_of(number), segments)

    @rule(number=BOARDS, segments=SEGMENTS)
    def renew(self, number: int, segments: tuple[str, ...]) -> None:
        board = self.name_of(number)
        self.runner.run(self.rankd.retire(board))
        del self.segments[board], self.scores[board]
        self.define(board, segments)

    @rule(saved=st.booleans(), traced=st.booleans())
    def restart(self, saved: bool, traced: bool) -> None:
        if not traced:
            for page in self.rankd.state.boards.values():
                page.traced = False
            self.rankd.state.player_boards = PlayerBoards()
            self.rankd.state.forget_segmented()
        if saved:
            self.runner.run(self.rankd.save())
        self.runner.run(self.stack.aclose())
        self.open()

    # -------------------------------------------------------------------- comparing

    @invariant()
    def segments_hold_who_belongs_there(self) -> None:
        for board, segments in getattr(self, "segments", {}).items():
            for name in segments:
                for text in {shown(value) for value in VALUES[name]}:
                    for window in ("all", "daily"):
                        page = self.runner.run(
                            self.rankd.reader.page(board, window=window, segment=f"{name}:{text}")
                        )
                        found = {one.player: one.scores[0] for one in page.standings}
                        assert found == self.members(board, name, text), (board, name, text)

    def members(self, board: str, name: str, text: str) -> dict[str, int]:
        return {
            player: score
            for player, score in self.scores[board].items()
            if name in self.attributes.get(player, {})
            and shown(self.attributes[player][name]) == text
        }

    @invariant()
    def index_is_sound(self) -> None:
        if hasattr(self, "rankd"):
            index: Any = self.rankd.reader.projector.index
            index.check()
            rankings = index.state.rankings.items()
            assert all(len(one.ranks) for name, one in rankings if name.segment is not None)


TestSegments = SegmentsMachine.TestCase
TestSegments.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
