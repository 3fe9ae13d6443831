"""Which routes a node answers, by its role."""

import asyncio

import pytest

from rankd.api.routes import ROUTES
from rankd.api.routing import ALL, API, INGEST, MANAGER, QUERY, routes_of
from rankd.errors import Misdirected


def answered(role: str) -> set[str]:
    """The operations whose handlers are their own."""
    own = {route.operation: route.handler for route in ROUTES}
    return {one.operation for one in routes_of(role, ROUTES) if one.handler is own[one.operation]}


EVERY = {route.operation for route in ROUTES}
PLAIN = {route.operation for route in ROUTES if route.scope is None}
WRITES = {route.operation for route in ROUTES if route.writes}


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        (ALL, EVERY),
        (API, EVERY),
        (QUERY, EVERY - WRITES),
        (INGEST, WRITES | PLAIN),
        (MANAGER, PLAIN),
    ],
)
def test_each_role_answers_its_part_and_how_it_is_doing(role: str, expected: set[str]) -> None:
    assert answered(role) == expected
    assert {"healthz", "readyz", "metrics"} <= answered(role)
    assert {"submit_score", "put_board"} <= WRITES and "get_standing" not in WRITES


@pytest.mark.parametrize("role", [QUERY, INGEST, MANAGER])
def test_what_is_left_to_others_says_so_in_every_lane(role: str) -> None:
    for route in routes_of(role, ROUTES):
        if route.operation in answered(role):
            continue
        assert not route.hot
        assert route.quick is route.plan is None
        with pytest.raises(Misdirected, match=role):
            asyncio.run(route.handler(None, None))  # type: ignore[arg-type]
