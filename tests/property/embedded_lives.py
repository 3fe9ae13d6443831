"""Steps of the machine in the lives of windows: reset, freeze and settle, as an operator asks.

What a step does to the model is worked out here: the windows of a board are an obvious list.
"""

from collections import Counter
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from tests.property.embedded_model import Archive, Board, Window, World, window_at
from tests.property.embedded_strategies import MAIN

from rankd.errors import UnknownWindow, WrongWindowState

STEPS = ("reset", "freeze", "settle")
REASONS = ("a broken build", "another one")


class Taken(NamedTuple):
    """A step that was taken, or had been before."""

    changed: bool
    id: str
    opened: str | None = None


class NotTaken(Exception):
    """A step from which the state of the window does not lead."""


def take(world: World, board: Board, verb: str, text: str, reason: str) -> Taken:
    """Take a step in the life of a window. Raises NotTaken."""
    found = world.find(board, text)
    if found is None:
        raise NotTaken
    if verb == "reset":
        return _reset(world, board, text, reason)
    return (
        _freeze(world, board, found, reason)
        if verb == "freeze"
        else _settle(world, board, found, reason)
    )


def _reset(world: World, board: Board, text: str, reason: str) -> Taken:
    found = world.find(board, text)
    assert found is not None
    if isinstance(found, Archive):
        if found.state != "frozen":
            after = found.window.reset(0, 0).id
            ids = {one.id for one in board.open.values()} | {one.window.id for one in board.closed}
            if found.reason != reason or after not in ids:
                raise NotTaken
            return Taken(False, found.window.id, after)
        due = window_at(found.window.name, world.time)
        if found.window.name not in board.rules.windows or due is None:
            raise NotTaken
        _move_on(world, found.window)
        sealed = replace(world.sealed(found), reason=reason)
        board.closed[board.closed.index(found)] = sealed
        window = found.window
    else:
        window = found
        before = _before(board, window.id)
        if text == window.name and before is not None and before.reason == reason:
            return Taken(False, before.window.id, window.id)
        _move_on(world, window)
        _close_early(world, board, window.name, reason, frozen=False)
    coming = window.reset(world.time, world.accepted)
    opened = {**board.open, window.name: coming}
    board.open = {name: opened[name] for name in board.rules.windows if name in opened}
    board.forget_attempts()
    return Taken(True, window.id, coming.id)


def _move_on(world: World, window: Window) -> None:
    """Two windows of one time begin one after the other."""
    world.time += window.start == world.time


def _before(board: Board, id: str) -> Archive | None:
    """The window whose reset opened another."""
    base, _, number = id.partition("~")
    if not number:
        return None
    found = board.archive(base if number == "2" else f"{base}~{int(number) - 1}")
    return found if found is not None and found.early is not None else None


def _close_early(world: World, board: Board, name: str, reason: str, *, frozen: bool) -> Archive:
    closed = world.close(board, board.open.pop(name))
    place = board.closed.index(closed)
    if frozen:
        closed = replace(closed, sealed_at=None, is_frozen=True)
    board.closed[place] = replace(closed, early=world.time, reason=reason)
    board.forget_attempts()
    return board.closed[place]


def _freeze(world: World, board: Board, found: Any, reason: str) -> Taken:
    if isinstance(found, Archive):
        if found.state != "frozen" and found.reason != reason:
            raise NotTaken
        return Taken(False, found.window.id)
    _close_early(world, board, found.name, reason, frozen=True)
    return Taken(True, found.id)


def _settle(world: World, board: Board, found: Any, reason: str) -> Taken:
    changed = False
    if not isinstance(found, Archive):
        found, changed = _close_early(world, board, found.name, reason, frozen=True), True
    place = board.closed.index(found)
    if found.sealed_at is None:
        found, changed = replace(world.sealed(found), reason=reason), True
    board.closed[place] = replace(found, is_final=True)
    return Taken(changed or not found.is_final, found.window.id)


class WindowSteps(RuleBasedStateMachine):
    """The part of a machine that operates windows."""

    world: World
    boards: Any
    ranks: Any
    figures: ClassVar[Counter[str]]
    walk: Any
    last_position: int

    def _record_something(self) -> None:
        raise NotImplementedError

    @rule(data=st.data(), verb=st.sampled_from(STEPS), reason=st.sampled_from(REASONS))
    def operate_a_window(self, data: st.DataObject, verb: str, reason: str) -> None:
        self._record_something()
        board = self.world.boards[MAIN]
        texts = [*board.rules.windows, *(one.exact for one in board.open.values())]
        texts += [one.window.exact for one in board.closed]
        text = data.draw(st.sampled_from(texts), "window")
        step = getattr(self.boards[MAIN], f"{verb}_window")
        try:
            taken = take(self.world, board, verb, text, reason)
        except NotTaken:
            with pytest.raises((WrongWindowState, UnknownWindow)):
                step(text, reason=reason)
            return
        done = step(text, reason=reason)
        found = board.archive(taken.id)
        assert found is not None
        assert done.changed is taken.changed, (done, taken)
        assert (done.window.id, done.window.state) == (taken.id, found.state)
        assert (None if done.opened is None else done.opened.id) == taken.opened
        if taken.changed:
            assert self.last_position < done.position == self.ranks.position
            self.last_position = done.position
            self.figures[f"windows {verb}"] += 1
        self.walk = None
