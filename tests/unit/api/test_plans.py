"""Plans: kept by the keys of requests, bounded, and forgotten when they are out of date."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from rankd.api import plans
from rankd.api.app import App
from rankd.api.auth import ANYBODY, Permit
from rankd.api.messages import Request, Response
from rankd.api.plans import Plan, PlanCache
from rankd.api.request_head import RequestHead, parse_head
from rankd.api.routes import ROUTES
from rankd.api.routing import Route, RouteAnswering, Router, WordPlan
from rankd.settings import Settings

NOW, LATER = 100.0, 200.0


async def handler(service: Any, request: Request) -> Response:
    return Response(b"{}")


def route(path: str = "/v1/boards/{b}/c/{d}", **more: Any) -> Route:
    given = {"method": "GET", "operation": path, "handler": handler, "hot": True, "scope": "read"}
    return Route(path=path, **{**given, **more})


def cache(*routes: Route) -> PlanCache:
    return PlanCache(App(Router(routes), None, Settings()))


def head(target: str, *lines: str, method: str = "GET") -> RequestHead:
    text = "".join(f"{line}\r\n" for line in (f"{method} {target} HTTP/1.1", "host: h", *lines))
    found = parse_head(f"{text}\r\n".encode(), 65_536, 100)
    assert found is not None
    return found


class Gate:
    def __init__(self, until: float | None = LATER) -> None:
        self.until = until

    def admission(self, request: Request, scope: str, board: str | None) -> Permit | None:
        return None if self.until is None else Permit(ANYBODY, self.until)


class Answering:
    """Makes the same answering again and again, and ends it."""

    def __init__(self) -> None:
        self.lasts, self.made = True, 0

    def __call__(self, service: Any, request: Request) -> RouteAnswering | None:
        self.made += 1
        return WordPlan(lambda words: [b"{}"] * len(words), lambda: self.lasts)


def learnt(
    make: Callable[[Any, Request], RouteAnswering | None], auth: Gate, *shown: bytes | None
) -> Plan:
    found = cache(route(plan=make)).find(head("/v1/boards/b/c/x"))
    assert found is not None
    for credential in shown:
        found.learn(service_with(auth), Request("GET", "/", {}, {}, {}), credential)
    return found


def service_with(auth: Any) -> SimpleNamespace:
    """A service whose readers all see the same."""
    return SimpleNamespace(auth=auth, viewer=lambda _actor: None)


def test_requests_that_differ_in_their_word_have_one_plan() -> None:
    kept = cache(route())
    one, other = kept.find(head("/v1/boards/b/c/x")), kept.find(head("/v1/boards/b/c/y:z%20"))
    assert one is not None and one is other
    assert (one.word_name, len(kept)) == ("d", 1)
    request = one.request(head("/v1/boards/b/c/y%20"), b"body", "client", counted=True)
    assert request.params == {"b": "b", "d": "y "}
    assert (request.path, request.body, request.counted) == ("/v1/boards/b/c/y%20", b"body", True)
    assert kept.find(head("/v1/boards/other/c/x")) is not one


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/v1/boards/b/standings/p1:ban"),
        ("POST", "/v1/players/p1:erase"),
        ("GET", "/nowhere"),
        ("GET", "/v1/boards/b/standings/p1?nonsense=1"),
        ("GET", "/v1/boards/%zz/standings/p1"),
        ("DELETE", "/v1/boards/b"),
    ],
)
def test_requests_that_no_plan_is_for_are_left_to_the_other_lane(method: str, target: str) -> None:
    kept = cache(*ROUTES, route("/v1/boards/{b}/x/{player}:ban", method="POST"))
    assert kept.find(head(target, method=method)) is None


def test_word_of_a_literal_is_no_word() -> None:
    assert cache(route("/v1/boards/{b}/c/d")).find(head("/v1/boards/b/c/d")) is None


def test_literals_that_could_be_taken_for_words_are_refused() -> None:
    with pytest.raises(AssertionError, match="could be taken"):
        cache(route(), route("/v1/boards/{b}/c/top"))


def test_plans_have_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "PLANS_MAX", 3)
    kept = cache(route())
    for number in range(20):
        assert kept.find(head(f"/v1/boards/{number}/c/x")) is not None
        assert 0 < len(kept) <= 3
    before = len(kept)
    large = head(f"/v1/boards/{'b' * plans.KEY_BYTES_MAX}/c/x")
    assert kept.find(large) is not kept.find(large)
    assert len(kept) == before


def test_admissions_have_bounds_and_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "ADMISSIONS_MAX", 3)
    plan = learnt(Answering(), Gate(), *(b"k%d" % number for number in range(20)))
    assert 0 < len(plan._admissions) <= 3
    last = head("/v1/boards/b/c/x", "authorization: k19")
    assert plan.admission(last, NOW) == Permit(ANYBODY, LATER)
    assert plan.admission(last, LATER) is None
    assert plan.admission(head("/v1/boards/b/c/x"), NOW) is None


def test_nothing_is_learnt_from_requests_that_are_not_admitted() -> None:
    plan = learnt(Answering(), Gate(None), None)
    assert plan.answering is None
    plan = learnt(lambda service, request: None, Gate(), None)
    assert plan.admission(head("/v1/boards/b/c/x"), NOW) is None


def test_plans_out_of_date_are_made_anew_and_admit_nobody_from_before() -> None:
    make = Answering()
    plan = learnt(make, Gate(), b"a", b"b")
    assert (make.made, len(plan._admissions)) == (1, 2)
    make.lasts = False
    plan.learn(service_with(Gate()), Request("GET", "/", {}, {}, {}), b"c")
    assert (make.made, list(plan._admissions)) == (2, [b"c"])
    plan.forget()
    assert plan.answering is None and not plan._admissions
