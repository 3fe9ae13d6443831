"""The description of the API, as a document."""

import json
import re
from typing import Any

import pytest
from tests.unit.api.test_messages import made

from rankd.api import messages, request_schemas
from rankd.api.messages import KINDS
from rankd.api.openapi import PROBLEMS, document, refusals
from rankd.api.routes import ROUTES
from rankd.api.routing import Route

DOCUMENT = json.loads(document())
OPERATIONS = {
    operation["operationId"]: operation
    for methods in DOCUMENT["paths"].values()
    for operation in methods.values()
}


def references(value: Any) -> set[str]:
    if isinstance(value, list):
        return {found for inner in value for found in references(inner)}
    if not isinstance(value, dict):
        return set()
    mine = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
    return mine | {found for inner in value.values() for found in references(inner)}


def test_every_reference_leads_somewhere_and_every_shape_is_referred_to() -> None:
    there = {
        f"#/components/{kind}/{name}"
        for kind in ("schemas", "responses")
        for name in DOCUMENT["components"][kind]
    }
    assert references(DOCUMENT) == there


def test_every_shape_has_a_plain_name() -> None:
    """Two classes of one name would be told apart by their modules, which clients must not see."""
    names = DOCUMENT["components"]["schemas"]
    assert [name for name in names if not re.fullmatch("([A-Z][a-z]+)+", name)] == []


def test_every_route_is_described_once() -> None:
    assert len(OPERATIONS) == len(ROUTES)
    assert set(OPERATIONS) == {route.operation for route in ROUTES}
    tags = {tag["name"] for tag in DOCUMENT["tags"]}
    assert {tag for operation in OPERATIONS.values() for tag in operation["tags"]} == tags


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_every_parameter_says_what_it_accepts(name: str) -> None:
    for param in OPERATIONS[name]["parameters"]:
        schema = param["schema"]
        assert schema.get("description") or param.get("description"), param["name"]
        if schema["type"] == "integer":
            assert schema["minimum"] < schema["maximum"], param["name"]
        elif schema["type"] == "string":
            assert "maxLength" in schema or param["name"] in ("player", "player_id"), param["name"]
        else:
            assert schema["type"] == "boolean"


def test_every_route_that_reads_a_body_has_it_described() -> None:
    reading = {route.operation for route in ROUTES if route.body is not None}
    assert set(request_schemas.BY_OPERATION) == reading
    for operation in reading:
        shape = OPERATIONS[operation]["requestBody"]["content"]["application/json"]["schema"]
        assert shape == request_schemas.BY_OPERATION[operation]


def test_every_status_of_the_table_of_problems_that_a_route_can_meet_is_described() -> None:
    statuses = {kind.status for kind in KINDS.values()}
    # Told by "default": a node of another role, a request that does not arrive, a head without end,
    # damage.
    assert statuses - set(PROBLEMS) == {408, 421, 431, 500}
    for route in ROUTES:
        described = OPERATIONS[route.operation]["responses"]
        assert {str(status) for status in refusals(route)} <= set(described)
        assert {str(status) for status in route.responses} <= set(described)
        assert "default" in described


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.operation)
def test_what_a_route_refuses_with_has_the_status_that_is_described(route: Route) -> None:
    described = OPERATIONS[route.operation]
    for error in route.errors:
        status = str(messages.refusal(made(error), request_id="r").status)
        assert error.code in described["x-codes"][status]
        assert status in described["responses"]


READS = [route for route in ROUTES if route.path.startswith("/v1/") and not route.writes]


AS_THEY_ARE = {
    "list_keys",
    "get_clock",
    "get_review",
    "get_webhook",
    "list_webhooks",
    "list_deliveries",
    "open_socket",
    "create_ticket",
}
"""Reads of the service itself, which depend on no index."""


@pytest.mark.parametrize("route", READS, ids=lambda route: route.operation)
def test_every_read_says_when_it_is_true_and_how_far_it_can_be_believed(route: Route) -> None:
    if route.operation in AS_THEY_ARE:
        return
    kind = route.responses[200]
    kind = kind[0] if isinstance(kind, tuple) else kind  # A stream begins with its state.
    told = set(kind.__struct_fields__)
    assert {"as_of", "exactness", "stale"} <= told


def test_scores_are_numbers_as_they_are_sent_or_text_as_it_may_be_asked_for() -> None:
    assert '"format": "decimal"' not in document().decode()
    score = DOCUMENT["components"]["schemas"]["Row"]["properties"]["score"]
    ((shape,),) = score.values()
    assert shape["type"] == ["number", "string"]
    for text, right in {"9007199254740993": True, "-1.50": True, "": False, "1e3": False}.items():
        assert (re.search(shape["pattern"], text) is not None) == right


def test_every_example_of_a_body_has_the_fields_it_needs_and_no_others() -> None:
    for name, schema in request_schemas.COMPONENTS.items():
        for example in schema.get("examples", ()):
            assert set(example) <= set(schema["properties"]), name
            assert set(schema.get("required", ())) <= set(example), name


def test_patterns_compile_where_they_are_read_by_people_and_by_programs() -> None:
    patterns = set(re.findall(r'"pattern": "((?:[^"\\]|\\.)*)"', document().decode()))
    assert len(patterns) >= 4
    for pattern in patterns:
        re.compile(json.loads(f'"{pattern}"'))
