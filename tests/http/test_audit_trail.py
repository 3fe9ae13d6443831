"""The audit trail has the request and the address of each administrative change."""

import json
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.http.lanes import new_key
from tests.unit.core.doubles import FaultyLedger, SetClock, engine

from rankd.api.app import App
from rankd.api.auth import Authenticator
from rankd.api.context import ServiceContext
from rankd.api.messages import Request
from rankd.api.rate_limits import read_networks
from rankd.api.routes import ROUTES
from rankd.api.routing import Router
from rankd.core import corrector, mass_retraction, projector
from rankd.core.mass_retraction import MassRetraction
from rankd.settings import Settings

pytestmark = pytest.mark.anyio

PROXY, CLIENT = "192.0.2.1", "203.0.113.7"
BY_THE_CLOCK = {"score_submitted", "window_opened", "window_ended", "window_dropped"}


class Asked(App):
    """An application that is asked from an address, and tells the id of the last request."""

    last, key = "", ""

    def note(self, request: Request, status: int) -> None:
        self.last = request.request_id
        super().note(request, status)

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Return the body of an answer that must be a success."""
        path, _, query = path.partition("?")
        given = {"host": "localhost", "x-forwarded-for": CLIENT, **headers}
        given["authorization"] = self.key
        content = b"" if body is None else json.dumps(body).encode()
        if content:
            given["content-type"] = "application/json"
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
            "client": (PROXY, 40_000),
        }
        sent: list[MutableMapping[str, Any]] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": content, "more_body": False}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        await self(scope, receive, send)
        answer = b"".join(part.get("body", b"") for part in sent[1:])
        assert sent[0]["status"] < 300, answer
        return json.loads(answer) if answer else None

    async def recorded(self, method: str, path: str, body: Any = None, **headers: str) -> list[Any]:
        """Make a change; return the facts of it that people are responsible for."""
        before = (await self.ask("GET", "/v1/facts?limit=1"))["as_of"]
        await self.ask(method, path, body, **headers)
        request_id = self.last
        facts = (await self.ask("GET", f"/v1/facts?after={before}&limit=1000"))["facts"]
        found = [fact for fact in facts if fact["kind"] not in BY_THE_CLOCK]
        assert {fact["request_id"] for fact in found} == {request_id}, found
        return found

    async def addresses(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Make a change; return the kinds of its facts with the addresses that they have."""
        found = await self.recorded(method, path, body, **headers)
        return [(fact["kind"], fact["address"]) for fact in found]


@asynccontextmanager
async def asked(**settings: Any) -> AsyncIterator[Asked]:
    clock, ledger, given = SetClock(), FaultyLedger(), Settings(**settings)
    async with engine(ledger, clock) as rankd:
        service = ServiceContext(
            rankd,
            ledger,
            Authenticator(lambda: rankd.state, loopback=True),
            clock,
            False,
            rankd,
            proxies=read_networks(given.trusted_proxies),
            audit_addresses=given.audit_addresses,
        )
        app = Asked(Router(ROUTES), service, given)
        _, app.key = await new_key(rankd, "admin")
        yield app


BOARD = "/v1/boards/b"
DEFINITION = {"windows": ["all", "daily"], "rule": "best"}
HOLD = [{"rule": "first_score", "max": 100, "then": "hold"}]


async def test_each_administrative_change_has_its_request_and_address() -> None:
    reason = {"reason": "why"}
    async with asked(trusted_proxies=(PROXY,)) as at:
        assert await at.addresses("PUT", BOARD, DEFINITION) == [("board_defined", CLIENT)]
        ruled = {**DEFINITION, "rules": HOLD}
        assert await at.addresses("PUT", f"{BOARD}?apply=true", ruled) == [
            ("board_defined", CLIENT)
        ]
        first = await at.ask("POST", f"{BOARD}/scores", {"player": "ann", "score": 5})
        held = await at.ask("POST", f"{BOARD}/scores", {"player": "bob", "score": 500})
        (review,) = (await at.ask("GET", "/v1/reviews"))["reviews"]
        assert review["position"] == held["position"]
        steps: list[tuple[str, str, Any, str]] = [
            ("POST", f"/v1/reviews/{review['id']}:approve", reason, "review_decided"),
            ("POST", f"{BOARD}/adjustments", {"player": "ann", "delta": 3}, "score_adjusted"),
            (
                "POST",
                f"{BOARD}/retractions",
                {"position": first["position"], **reason},
                "scores_retracted",
            ),
            ("POST", "/v1/players/ann:ban", reason, "player_state_set"),
            ("POST", "/v1/players/ann:restore", None, "player_state_set"),
            ("PATCH", f"{BOARD}/standings/ann", {"metadata": {"a": 1}}, "metadata_set"),
            ("PUT", "/v1/players/ann", {"name": "Ann"}, "name_set"),
            ("PUT", "/v1/players/cy/friends", {"friends": ["ann"]}, "friends_set"),
            ("POST", f"{BOARD}:freeze", {"window": "daily", **reason}, "window_frozen"),
            ("POST", f"{BOARD}:reset", {"window": "daily", **reason}, "window_sealed"),
            ("DELETE", f"{BOARD}?reason=over", None, "board_retired"),
        ]
        for method, path, body, kind in steps:
            assert await at.addresses(method, path, body) == [(kind, CLIENT)], path


async def test_an_erasure_tells_no_address_anywhere() -> None:
    async with asked(trusted_proxies=(PROXY,)) as at:
        await at.ask("PUT", "/v1/players/ann", {"name": "Ann"})
        await at.ask("PUT", "/v1/players/cy/friends", {"friends": ["ann"]})
        before = (await at.ask("GET", "/v1/facts"))["as_of"]
        await at.ask("DELETE", "/v1/players/ann?unfriend=true")
        facts = (await at.ask("GET", "/v1/facts"))["facts"]
        later = [(fact["kind"], fact["address"]) for fact in facts if fact["position"] > before]
        assert ("friends_set", None) in later and ("player_erased", None) in later
        assert {address for _, address in later} == {None}
        assert next(fact["address"] for fact in facts if fact["player"] == "ann") is None
        assert next(fact["address"] for fact in facts if fact["player"] == "cy") == CLIENT


@pytest.mark.parametrize("wait", [{}, {"prefer": "respond-async, wait=20"}])
async def test_a_retraction_of_many_and_its_undoing_have_their_requests(
    monkeypatch: pytest.MonkeyPatch, wait: dict[str, str]
) -> None:
    monkeypatch.setattr(mass_retraction, "REFOLDED_PLAYERS_MAX", 1)
    made: list[MassRetraction] = []

    class Counted(MassRetraction):
        def __init__(self, *given: Any, **more: Any) -> None:
            super().__init__(*given, **more)
            made.append(self)

    monkeypatch.setattr(corrector, "MassRetraction", Counted)
    monkeypatch.setattr(projector, "MassRetraction", Counted)
    async with asked(trusted_proxies=(PROXY,)) as at:
        await at.ask("PUT", BOARD, DEFINITION)
        for number in range(5):
            body = {"player": f"p{number}", "score": number, "build": "1.2"}
            await at.ask("POST", f"{BOARD}/scores", body)
        one, *more = await at.recorded("POST", f"{BOARD}/retractions", {"build": "1.2"}, **wait)
        assert (one["kind"], one["address"], more) == ("scores_retracted", CLIENT, [])
        assert (await at.ask("GET", f"{BOARD}/standings"))["total"] == 0
        undo = f"{BOARD}/retractions/{one['position']}"
        assert await at.addresses("DELETE", undo) == [("retraction_undone", CLIENT)]
        assert (await at.ask("GET", f"{BOARD}/standings"))["total"] == 5
        assert len(made) == 2, "what was prepared was not taken for the fact"


async def test_keys_have_their_requests() -> None:
    async with asked(trusted_proxies=(PROXY,)) as at:
        made = {"scopes": ["read"]}
        (fact,) = await at.recorded("POST", "/v1/keys", made)
        assert (fact["kind"], fact["address"]) == ("key_created", CLIENT)
        assert await at.addresses("POST", "/v1/keys", {"signing": "hmac"}) == [
            ("signing_key_created", CLIENT)
        ]
        assert await at.addresses("DELETE", f"/v1/keys/{fact['body']['id']}") == [
            ("key_revoked", CLIENT)
        ]


async def test_a_proxy_that_is_not_trusted_is_the_address_itself() -> None:
    async with asked() as at:
        assert await at.addresses("PUT", BOARD, {}) == [("board_defined", PROXY)]


async def test_addresses_may_be_left_out() -> None:
    async with asked(trusted_proxies=(PROXY,), audit_addresses=False) as at:
        assert await at.addresses("PUT", BOARD, {}) == [("board_defined", None)]


async def test_submissions_and_what_the_clock_does_have_no_request() -> None:
    async with asked(trusted_proxies=(PROXY,)) as at:
        await at.ask("PUT", BOARD, {"windows": ["daily"]})
        await at.ask("POST", f"{BOARD}/scores", {"player": "ann", "score": 5})
        at.service.clock.time += 24 * 3_600_000_000
        await at.ask("PUT", "/v1/players/ann", {"name": "Ann"})  # After the turn of the window.
        facts = (await at.ask("GET", "/v1/facts"))["facts"]
        asked_for = {fact["kind"] for fact in facts if fact["request_id"]}
        assert asked_for == {"board_defined", "name_set"}
        assert {fact["kind"] for fact in facts} > asked_for


async def test_readers_of_the_public_log_see_neither_request_nor_address() -> None:
    async with asked() as at:
        await at.ask("PUT", BOARD, {"public_corrections": True})
        await at.ask("POST", f"{BOARD}/adjustments", {"player": "ann", "score": 3})
        (shown,) = (await at.ask("GET", f"{BOARD}/corrections"))["corrections"]
        assert not {"request_id", "address", "actor"} & shown.keys()
