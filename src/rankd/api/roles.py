"""What a node answers: everything, or the part that its role leaves to it.

Where there are several nodes, those that take scores, those that answer reads and the one that does
the chores can be set up and scaled apart. Every role answers who asks how it is doing.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NoReturn

from rankd.api.exchange import Request
from rankd.api.routes import Route
from rankd.errors import Misdirected

ALL, API, QUERY, INGEST, MANAGER = "all", "api", "query", "ingest", "manager"
ROLES = (ALL, API, QUERY, INGEST, MANAGER)

MANAGING = (ALL, MANAGER)
"""Those who turn windows on time and keep receipts that others left behind."""


def routes_of(role: str, routes: Iterable[Route]) -> tuple[Route, ...]:
    """Return the routes of a node: those that its role leaves to others say so."""
    return tuple(route if _answers(role, route) else _left(role, route) for route in routes)


def _answers(role: str, route: Route) -> bool:
    if route.scope is None or role in (ALL, API):
        return True
    return (role == QUERY and not route.writes) or (role == INGEST and route.writes)


def _left(role: str, route: Route) -> Route:
    async def handler(_service: Any, _request: Request) -> NoReturn:
        raise Misdirected(role)

    return replace(route, handler=handler, hot=False, quick=None, plan=None)
