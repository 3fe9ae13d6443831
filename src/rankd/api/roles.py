"""Roles of a node: the routes that it serves.

With several nodes, those that take scores, those that serve reads and the one with the background
work can be deployed and scaled separately. Every role serves the routes without a scope, such as
health and metrics.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NoReturn

from rankd.api.messages import Request
from rankd.api.routing import Route
from rankd.errors import Misdirected

ALL, API, QUERY, INGEST, MANAGER = "all", "api", "query", "ingest", "manager"
ROLES = (ALL, API, QUERY, INGEST, MANAGER)

MANAGING = (ALL, MANAGER)
"""Roles that roll windows over on time and store receipts that other nodes left behind."""


def routes_of(role: str, routes: Iterable[Route]) -> tuple[Route, ...]:
    """Return the routes of a node; those outside its role raise Misdirected."""
    return tuple(route if _answers(role, route) else _left(role, route) for route in routes)


def _answers(role: str, route: Route) -> bool:
    if route.scope is None or role in (ALL, API):
        return True
    return (role == QUERY and not route.writes) or (role == INGEST and route.writes)


def _left(role: str, route: Route) -> Route:
    async def handler(_service: Any, _request: Request) -> NoReturn:
        raise Misdirected(role)

    return replace(route, handler=handler, hot=False, quick=None, plan=None)
