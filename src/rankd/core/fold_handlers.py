"""Handlers: how each kind of facts is folded in moves."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from rankd.core.move_batch import MoveBatch
from rankd.model.facts import Fact, Recorded

Handle = Callable[[Any, MoveBatch, Any, Recorded], Awaitable[None]]
"""Adds the moves of a fact to a batch, and notes the fact in the state. The first argument is the
``Fold``."""


class FoldHandler(NamedTuple):
    """The effect of a kind of facts on the rankings."""

    fold: Handle
    barrier: bool
    """Whether it replaces or drops rankings, so that it is folded alone."""


_HANDLERS: dict[type[Fact], FoldHandler] = {}


def register_fold(*kinds: type[Fact], fold: Handle, barrier: bool = False) -> None:
    """Register how some kinds of facts are folded.

    Kinds without a handler move no entries, except between segments if they change a profile.
    """
    _HANDLERS.update(dict.fromkeys(kinds, FoldHandler(fold, barrier)))


def handler_of(fact: Fact) -> FoldHandler | None:
    """Return the handler of a fact's kind; None for a kind without one."""
    return _HANDLERS.get(type(fact))


def is_barrier(fact: Fact) -> bool:
    """Whether a fact is folded alone, because it replaces or drops rankings."""
    handler = handler_of(fact)
    return handler is not None and handler.barrier
