"""The request that the running task works for, which the writer records with administrative facts.

A handler need not pass it through every call: the tasks that it starts inherit it. Plain
submissions have no field for it, so it is not even asked for them.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from rankd.model.facts import Fact, RequestOrigin, ScoreSubmitted

FindOrigin = Callable[[], RequestOrigin]
"""Returns the origin of a request, once it is needed."""

current_origin: ContextVar[FindOrigin | None] = ContextVar("request_origin", default=None)
"""Of the request that the running task works for; None for work of the process itself."""


@contextmanager
def working_for(find: FindOrigin) -> Iterator[None]:
    """Let the facts that are recorded within have the origin of a request."""
    token = current_origin.set(find)
    try:
        yield
    finally:
        current_origin.reset(token)


@contextmanager
def without_address() -> Iterator[None]:
    """Let the facts that are recorded within have the request's id, and no address."""
    find = current_origin.get()
    if find is None:
        yield
        return
    with working_for(lambda: find()._replace(address=None)):
        yield


def with_origin(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Return facts with the request that they came with, as far as their kinds tell of one."""
    find = current_origin.get()
    if find is None or all(type(fact) is ScoreSubmitted for fact in facts):
        return facts
    origin = find()
    return [fact.requested_by(origin) for fact in facts]
