"""Steps of the machine with runs, and with a verifier that answers when it is told to."""

import asyncio
import time
from collections import Counter
from concurrent.futures import Future
from typing import Any, ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from tests.property.embedded_model import SECOND, Definition, Review, World
from tests.property.embedded_strategies import MAIN, SIDE, bodies, players

from rankd.errors import PlayerBanned
from rankd.ports import HeldSubmission

RUNS_TRIED = 6
"""So many of the last runs are used again."""


class PlaySteps(RuleBasedStateMachine):
    """The part of a machine that plays in runs."""

    world: World
    boards: Any
    figures: ClassVar[Counter[str]]
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


PATIENCE_SECONDS = 60


class Replays:
    """A verifier that has no answer until a step gives it."""

    def __init__(self) -> None:
        self.asked: dict[str, Future[tuple[bool, str]]] = {}

    async def verify(self, held: HeldSubmission) -> tuple[bool, str]:
        answer: Future[tuple[bool, str]] = Future()
        self.asked[held.id] = answer
        return await asyncio.wrap_future(answer)

    def forget(self) -> None:
        """Forget what was asked: another engine asks again, about some of it."""
        self.asked.clear()

    def answer(self, id: str, *, approved: bool) -> None:
        """Answer as soon as it is asked."""
        until = time.monotonic() + PATIENCE_SECONDS
        while id not in self.asked:
            assert time.monotonic() < until, f"the verifier is not asked about {id}"
            time.sleep(0.001)
        self.asked[id].set_result((approved, "played again"))


class VerifierSteps(RuleBasedStateMachine):
    """The part of a machine whose boards may have a verifier."""

    world: World
    ranks: Any
    figures: ClassVar[Counter[str]]
    replays: Replays
    opened_with: int
    """The number of the last submission before the engine was opened."""

    def _record_something(self) -> None:
        raise NotImplementedError

    def _advanced(self, position: int) -> None:
        raise NotImplementedError

    def _verifiable(self) -> list[Review]:
        """The open reviews that the verifier is asked about at once: those recorded here."""
        return [
            one
            for one in self.world.reviews
            if one.is_open
            and any(reason[0] == "verifier" for reason in one.reasons)
            and one.number > self.opened_with
            and one.number in self.world.positions
            and self.world.boards[one.board].rules.verified
            and one.said in self.world.boards[one.board].history
        ]

    @precondition(lambda self: self._verifiable())
    @rule(data=st.data(), approved=st.booleans())
    def verifier_answers(self, data: st.DataObject, approved: bool) -> None:
        self._record_something()
        if not (several := self._verifiable()):
            return
        review = data.draw(st.sampled_from(several), "review")
        id = str(self.world.positions[review.number])
        self.replays.answer(id, approved=approved)
        until = time.monotonic() + PATIENCE_SECONDS
        while (self._review(id).decided_at or self.ranks.position + 1) > self.ranks.position:
            assert time.monotonic() < until, "no decision was recorded"
            time.sleep(0.001)
        found = self._review(id)
        assert (found.decided_by, found.why) == ("verifier:replay", "played again")
        self._advanced(found.decided_at)
        self.world.decide(review, found.decided_at, approved=approved)
        self.figures["answers of the verifier"] += 1

    def _review(self, id: str) -> Any:
        (found,) = [one for one in self.ranks.reviews(MAIN) if one.id == id]
        return found
