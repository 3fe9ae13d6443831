"""Steps of the machine with runs: tokens that are good for one submission within their time."""

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from tests.property.embedded_model import SECOND, Definition, World
from tests.property.embedded_strategies import MAIN, SIDE, bodies, players

from rankd.errors import PlayerBanned

RUNS_TRIED = 6
"""So many of the last runs are used again."""


class PlaySteps(RuleBasedStateMachine):
    """The part of a machine that plays in runs."""

    world: World
    boards: Any
    figures: Any
    clock: Any

    def _submit(self, name: str, body: Definition) -> None:
        raise NotImplementedError

    def _record_something(self) -> None:
        raise NotImplementedError

    @rule(player=players, name=st.sampled_from([MAIN, MAIN, SIDE]))
    def start_run(self, player: str, name: str) -> None:
        self._record_something()
        if self.world.state_of(player, name) == "banned":
            with pytest.raises(PlayerBanned):
                self.boards[name].start_run(player)
            return
        started = self.boards[name].start_run(player)
        run = self.world.start_run(name, player, started.run)
        assert (started.not_before, started.expires_at) == (run.not_before, run.expires)
        assert len(bytes.fromhex(started.seed)) == 8
        self.figures["runs started"] += 1

    @precondition(lambda self: self.world.runs)
    @rule(data=st.data(), wait=st.sampled_from([0, 0, 31, 3600]), other=st.integers(0, 7))
    def play_a_run(self, data: st.DataObject, wait: int, other: int) -> None:
        """Submit with a run: once it counts, and never again; nor of another player or board."""
        known = list(self.world.runs.values())[-RUNS_TRIED:]
        run = data.draw(st.sampled_from(known), "run")
        name = run.board if other != 0 else {MAIN: SIDE, SIDE: MAIN}[run.board]
        body = data.draw(bodies(self.world.boards[name].rules), "body")
        if other != 1:
            body["player"] = run.player
        self.clock.time += wait * SECOND
        self._submit(name, {**body, "run": run.token})
        self._record_something()
        self.figures["runs played"] += 1
