"""From a path to its route and values, and from a query to what was declared."""

import dataclasses

import pytest

from rankd.api.messages import Request, Response
from rankd.api.routes import ROUTES
from rankd.api.routing import Param, Route, Router
from rankd.dashboard import ROUTES as PAGE_ROUTES
from rankd.errors import InvalidRequest, MalformedRequest, MethodNotAllowed, NotFound


async def handler(_service: object, _request: Request) -> Response:
    return Response()


def route(method: str, path: str, *params: Param) -> Route:
    return Route(
        method=method, path=path, operation=f"{method} {path}", handler=handler, params=params
    )


LOOKUP = "/v1/boards/{board}/standings:lookup"
STANDING = "/v1/boards/{board}/standings/{player}"
AROUND = "/v1/boards/{board}/around/{rank}"

ROUTER = Router(
    route(method, path)
    for method, path in [
        ("GET", "/"),
        ("GET", "/healthz"),
        ("POST", "/v1/scores:batch"),
        ("GET", "/v1/boards"),
        ("GET", "/v1/boards/{board}"),
        ("PUT", "/v1/boards/{board}"),
        ("POST", "/v1/boards/{board}:reset"),
        ("POST", "/v1/boards/{board}:freeze"),
        ("GET", "/v1/boards/{board}/standings"),
        ("POST", LOOKUP),
        ("GET", STANDING),
        ("GET", AROUND),
        ("GET", "/v1/boards/{board}/standings/{player}/around"),
        ("GET", "/v1/boards/{board}/windows/{window}/certificate"),
        ("POST", "/v1/players/{player}:ban"),
        ("GET", "/v1/players/{player}"),
        ("GET", "/v1/players/me"),
    ]
)


@pytest.mark.parametrize(
    ("method", "path", "template", "params"),
    [
        ("GET", "/", "/", {}),
        ("GET", "/healthz", "/healthz", {}),
        ("HEAD", "/healthz", "/healthz", {}),
        ("POST", "/v1/scores:batch", "/v1/scores:batch", {}),
        ("GET", "/v1/boards/g", "/v1/boards/{board}", {"board": "g"}),
        ("PUT", "/v1/boards/g", "/v1/boards/{board}", {"board": "g"}),
        ("POST", "/v1/boards/g:reset", "/v1/boards/{board}:reset", {"board": "g"}),
        ("POST", "/v1/boards/a:b:freeze", "/v1/boards/{board}:freeze", {"board": "a:b"}),
        ("POST", "/v1/boards/a%3Areset:freeze", "/v1/boards/{board}:freeze", {"board": "a:reset"}),
        ("GET", "/v1/players/a:ban", "/v1/players/{player}", {"player": "a:ban"}),
        ("GET", "/v1/boards/g:no-verb", "/v1/boards/{board}", {"board": "g:no-verb"}),
        ("POST", "/v1/boards/g/standings:lookup", LOOKUP, {"board": "g"}),
        ("GET", "/v1/boards/g/standings/p", STANDING, {"board": "g", "player": "p"}),
        ("GET", "/v1/boards/g/around/7", AROUND, {"board": "g", "rank": "7"}),
        ("GET", "/v1/boards/around/around/x", AROUND, {"board": "around", "rank": "x"}),
        ("GET", "/v1/boards/a%2Fb/standings/%C3%A9", STANDING, {"board": "a/b", "player": "é"}),
        ("GET", "/v1/boards/%2541", "/v1/boards/{board}", {"board": "%41"}),
        ("GET", "/v1/b%6Fards/g", "/v1/boards/{board}", {"board": "g"}),
        ("GET", "/v1/boards/a+b", "/v1/boards/{board}", {"board": "a+b"}),
        ("GET", "/v1/players/me", "/v1/players/me", {}),
        ("GET", "/v1/players/m%65", "/v1/players/me", {}),
        ("GET", "/v1/players/you", "/v1/players/{player}", {"player": "you"}),
    ],
)
def test_a_path_leads_to_its_route(
    method: str, path: str, template: str, params: dict[str, str]
) -> None:
    found = ROUTER.find(method, path)
    assert (found.route.path, found.params) == (template, params)


@pytest.mark.parametrize(
    "path",
    [
        *("", "//", "/nowhere", "/v1", "/v1/boards/", "/v1/boards//standings", "/V1/boards"),
        *("/v1/boards/g/standings/p/", "/v1/boards/g/standings/p/around/x", "/v1/players/"),
        *("/v1/boards/%/standings/p/around/x/y", "/healthz%2F", "healthz"),
    ],
)
def test_a_path_nobody_has_is_not_found(path: str) -> None:
    with pytest.raises((NotFound, MalformedRequest)):
        ROUTER.find("GET", path)


@pytest.mark.parametrize(
    "path", ["/v1/boards/%zz", "/v1/boards/%f", "/v1/boards/%ff", "/v1/%ED%A0%80/x"]
)
def test_a_path_that_cannot_be_decoded_is_malformed(path: str) -> None:
    with pytest.raises(MalformedRequest):
        ROUTER.find("GET", path)


def test_a_known_path_tells_which_methods_it_takes() -> None:
    with pytest.raises(MethodNotAllowed) as told:
        ROUTER.find("DELETE", "/v1/boards/g")
    assert told.value.allow == ("GET", "HEAD", "OPTIONS", "PUT")
    with pytest.raises(MethodNotAllowed) as told:
        ROUTER.find("DELETE", "/v1/boards/%67")
    assert told.value.allow == ("GET", "HEAD", "OPTIONS", "PUT")
    assert ROUTER.allowed("/v1/players/p:ban") == ("GET", "HEAD", "OPTIONS", "POST")
    assert ROUTER.allowed("/nowhere") == ()


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_a_verb_behind_a_name_takes_its_own_method_only(method: str) -> None:
    """No board has a colon in its name; a player may have one in its id."""
    with pytest.raises(MethodNotAllowed) as refusal:
        ROUTER.find(method, "/v1/boards/g:reset")
    assert refusal.value.allow == ROUTER.allowed("/v1/boards/g:reset") == ("OPTIONS", "POST")
    assert ROUTER.allowed("/v1/players/a:ban") == ("GET", "HEAD", "OPTIONS", "POST")


def test_who_posts_where_things_are_put_is_told_where() -> None:
    router = Router([route("GET", "/v1/boards"), route("PUT", "/v1/boards/{board}")])
    with pytest.raises(MethodNotAllowed, match=r"PUT /v1/boards/\{board\}"):
        router.find("POST", "/v1/boards")
    for method, path in (("DELETE", "/v1/boards"), ("POST", "/v1/boards/b")):
        with pytest.raises(MethodNotAllowed) as told:
            router.find(method, path)
        assert told.value.instead is None


def test_a_table_cannot_have_a_route_or_a_name_twice() -> None:
    with pytest.raises(AssertionError):
        Router([route("GET", "/a"), route("GET", "/a")])
    twin = Route(method="GET", path="/b", operation="GET /a", handler=handler)
    with pytest.raises(AssertionError):
        Router([route("GET", "/a"), twin])
    with pytest.raises(AssertionError):
        route("GET", "/a", Param(name="x"), Param(name="x"))
    with pytest.raises(AssertionError):
        route("HEAD", "/a")


PAGE = route(
    "GET",
    "/page",
    Param(name="limit", kind=int, default=10, low=1, high=1000),
    Param(name="window", default="all", length_max=8),
    Param(name="apply", kind=bool, default=False),
    Param(name="order", choices=("up", "down")),
)
NEEDY = route("GET", "/needy", Param(name="score", kind=int, required=True))


@pytest.mark.parametrize(
    ("query", "values"),
    [
        ("", {}),
        ("&&", {}),
        ("limit=1000", {"limit": 1000}),
        ("limit=%31%30", {"limit": 10}),
        ("window=a+b", {"window": "a b"}),
        ("window=%2B%26%3D", {"window": "+&="}),
        ("window=", {"window": ""}),
        ("window", {"window": ""}),
        ("apply=true&order=down", {"apply": True, "order": "down"}),
        ("apply=false", {"apply": False}),
    ],
)
def test_a_query_gives_every_declared_parameter(query: str, values: dict[str, object]) -> None:
    defaults = {"limit": 10, "window": "all", "apply": False, "order": None}
    assert PAGE.read_query(query) == defaults | values


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ("limit=0", ["limit"]),
        ("limit=1001", ["limit"]),
        ("limit=", ["limit"]),
        ("limit=1.0", ["limit"]),
        ("limit=%D9%A1", ["limit"]),  # A digit, and not one of ours.
        ("limit=" + "9" * 5000, ["limit"]),
        ("window=" + "a" * 9, ["window"]),
        ("apply=yes", ["apply"]),
        ("order=sideways", ["order"]),
        ("limit=1&limit=1", ["limit"]),
        ("more=1", ["more"]),
        ("<evil>=1", ["?"]),
        ("evil" * 20 + "=1", ["?"]),
        ("%3Cevil%3E=1&limit=0&order=x", ["?", "limit", "order"]),
    ],
)
def test_what_is_wrong_with_a_query_is_all_named(query: str, fields: list[str]) -> None:
    with pytest.raises(InvalidRequest) as told:
        PAGE.read_query(query)
    assert [wrong.field for wrong in told.value.errors] == fields
    assert "evil" not in str(told.value)


def test_form_of_scores_may_be_named_where_there_are_none() -> None:
    """A client sends it with each of its requests."""
    assert PAGE.read_query("numbers=string&limit=3") == PAGE.read_query("limit=3")
    assert route("GET", "/x").read_query("numbers=number") == {}
    for query in ("numbers=text", "numbers=string&numbers=string"):
        with pytest.raises(InvalidRequest, match="numbers"):
            PAGE.read_query(query)


@pytest.mark.parametrize("query", ["", "score", "score=x"])
def test_a_required_parameter_must_be_there(query: str) -> None:
    with pytest.raises(InvalidRequest):
        NEEDY.read_query(query)
    assert NEEDY.read_query("score=-5") == {"score": -5}


@pytest.mark.parametrize("query", ["board=two", "utm_source=x&utm_source=y", "limit=0", "%zz=%ff"])
def test_a_page_takes_any_query_and_reads_none_of_it(query: str) -> None:
    linked = dataclasses.replace(PAGE, any_query=True)
    assert linked.read_query(query) == PAGE.read_query("")


def test_only_pages_take_any_query() -> None:
    table = (*ROUTES, *PAGE_ROUTES)
    assert {route.path for route in table if route.any_query} == {"/", "/console", "/docs"}


@pytest.mark.parametrize("query", ["window=%", "window=%ff", "%zz=1"])
def test_a_query_that_cannot_be_decoded_is_malformed(query: str) -> None:
    with pytest.raises(MalformedRequest):
        PAGE.read_query(query)


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("1970-01-01T00:00:01Z", 1_000_000),
        ("1970-01-01t01:00:00.000001%2B01:00", 1),
        ("1970-01-01", None),
        ("yesterday", None),
        ("2026-13-01T00:00:00Z", None),
    ],
)
def test_a_time_in_a_query_is_an_instant(text: str, instant: int | None) -> None:
    asked = route("GET", "/a", Param(name="since", time=True))
    if instant is None:
        with pytest.raises(InvalidRequest, match="must be a time such as 2026-11-14T09:30:00Z"):
            asked.read_query(f"since={text}")
    else:
        assert asked.read_query(f"since={text}")["since"] == instant
