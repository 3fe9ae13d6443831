"""Who may do what: every route by every method for everybody who could ask, each over HTTP.

The table below is written by hand, and says for each route what it needs. The routes themselves
come from the description of the API: one that has no row here fails.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jwt
import pytest
from tests.http.whole import Whole, run, whole

from rankd.api.jwt import SingleKey, TokenReader
from rankd.api.openapi import TAGS, describe
from rankd.api.routes import ROUTES

pytestmark = pytest.mark.timeout(600)

SECRET = b"a secret of the tests, thirty-two bytes or more"
ISSUER, AUDIENCE = "https://login.example", "rankd"
SCOPES = ("read", "submit", "moderate", "admin")


def token(player: str, **changed: Any) -> str:
    claims = {"sub": player, "iss": ISSUER, "aud": AUDIENCE, "exp": time.time() + 3600, **changed}
    return jwt.encode(claims, SECRET, algorithm="HS256")


def reader() -> TokenReader:
    return TokenReader(algorithm="HS256", issuer=ISSUER, audience=AUDIENCE, keys=SingleKey(SECRET))


class Row(NamedTuple):
    """What a route needs, and a request to it that is otherwise in order."""

    scope: str | None
    path: str
    body: Any = None
    on_board: bool = False
    """Whether it is about the board ``global``, and so open to a key for that board."""
    player: bool = False
    """Whether the token of p1 opens it."""
    success: int = 200


SCORE = {"player": "p1", "score": 1}
WEBHOOK = {"url": "https://game.example/hook", "events": ["window.final"], "boards": ["none"]}
CLASSIC = {"player_id": "p1", "score": 1}
DELTA = {"player_id": "p1", "score_delta": 1}
_BOARD, _PLAYER = "/v1/boards/global", "/v1/players/p1"
_OLD = "/api/v1/leaderboard"


def _on_board(path: str, body: Any = None, scope: str = "read", *, player: bool = True) -> Row:
    return Row(scope, path, body, on_board=True, player=player)


DEFINITION = {
    "writes": "client",
    "public_corrections": True,
    "windows": ["all", "daily", "weekly", "monthly"],
    "rewards": [{"ranks": [1, 1], "give": {"gold": 5}}],
    "rules": [{"rule": "first_score", "max": 10**6, "then": "hold"}],
}


def _step(verb: str, window: str) -> Row:
    """Return the row of a step that closes a window; ``all`` stays open, or opens again."""
    body = {"window": window, "reason": "a test"}
    return _on_board(f"{_BOARD}:{verb}", body, "admin", player=False)


ROWS: dict[str, Row] = {
    "put_board": _on_board(_BOARD, DEFINITION, "admin", player=False),
    "retire_board": _on_board(_BOARD, scope="admin", player=False),
    "list_boards": Row("read", "/v1/boards", player=True),
    "get_board": _on_board(_BOARD),
    "submit_score": _on_board(f"{_BOARD}/scores", SCORE, "submit"),
    "submit_scores": _on_board(
        "/v1/scores:batch", {"scores": [{"board": "global", **SCORE}]}, "submit"
    ),
    "start_run": _on_board(f"{_BOARD}/runs", {"player": "p1"}, "submit"),
    "list_standings": _on_board(f"{_BOARD}/standings"),
    "get_standing": _on_board(f"{_BOARD}/standings/p1"),
    "around_player": _on_board(f"{_BOARD}/standings/p1/around"),
    "around_rank": _on_board(f"{_BOARD}/around/1"),
    "lookup_standings": _on_board(f"{_BOARD}/standings:lookup", {"players": ["p1"]}),
    "stream_board": _on_board(f"{_BOARD}/stream"),
    "open_socket": Row("read", "/v1/stream", player=True, success=426),
    "create_ticket": Row("read", "/v1/tickets", player=True),
    "list_friends": _on_board(f"{_BOARD}/friends/p1"),
    "player_ranks": _on_board(f"{_BOARD}/history/ann/ranks"),
    "get_distribution": _on_board(f"{_BOARD}/distribution"),
    "get_projection": _on_board(f"{_BOARD}/projection?rank=1"),
    "list_windows": _on_board(f"{_BOARD}/windows"),
    "get_certificate": _on_board(f"{_BOARD}/windows/monthly/certificate"),
    "list_rewards": _on_board(f"{_BOARD}/windows/monthly/rewards"),
    "claim_reward": _on_board(f"{_BOARD}/windows/monthly/rewards/{{reward}}:claim", scope="submit"),
    "get_schedule": _on_board(f"{_BOARD}/schedule"),
    "reset_window": _step("reset", "all"),
    "freeze_window": _step("freeze", "daily"),
    "settle_window": _step("settle", "weekly"),
    "player_history": _on_board(f"{_BOARD}/history/p1"),
    "player_standings": Row("read", f"{_PLAYER}/standings", player=True),
    "put_player": Row("submit", _PLAYER, {"name": "Ada"}),
    "patch_player": Row("submit", _PLAYER, {"attributes": {"region": "eu"}}),
    "find_players": Row("read", "/v1/players?query=a", player=True),
    "lookup_players": Row("read", "/v1/players:lookup", {"players": ["p1"]}, player=True),
    "get_player": Row("read", _PLAYER, player=True),
    "erase_player": Row("moderate", _PLAYER),
    "put_friends": Row("submit", f"{_PLAYER}/friends", {"friends": ["p2"]}),
    "adjust_score": _on_board(
        f"{_BOARD}/adjustments", {"player": "p1", "delta": 1}, "moderate", player=False
    ),
    "list_corrections": _on_board(f"{_BOARD}/corrections"),
    "retract_scores": _on_board(
        f"{_BOARD}/retractions?dry_run=true", {"player": "p1"}, "moderate", player=False
    ),
    "retract_everywhere": Row("moderate", "/v1/retractions?dry_run=true", {"player": "p1"}),
    "undo_retraction": _on_board(
        f"{_BOARD}/retractions/{{retraction}}?dry_run=true", scope="moderate", player=False
    ),
    "undo_retraction_everywhere": Row("moderate", "/v1/retractions/{retraction}?dry_run=true"),
    "wait_operation": _on_board(
        "/v1/operations/{operation}:wait?seconds=5", None, "moderate", player=False
    ),
    "patch_standing": _on_board(
        f"{_BOARD}/standings/p1", {"metadata": {"car": "red"}}, "moderate", player=False
    ),
    "remove_player": _on_board(
        f"{_BOARD}/standings/p1?dry_run=true", None, "moderate", player=False
    ),
    "ban_player": _on_board("/v1/players/p9:ban", {"boards": ["global"]}, "moderate", player=False),
    "hide_player": Row("moderate", "/v1/players/p9:hide", {"reason": "a bot"}),
    "shadow_player": Row("moderate", "/v1/players/p9:shadow", {}),
    "restore_player": Row("moderate", "/v1/players/p9:restore"),
    "list_reviews": _on_board("/v1/reviews?board=global", scope="moderate", player=False),
    "get_review": _on_board("/v1/reviews/{review}", scope="moderate", player=False),
    "approve_review": _on_board("/v1/reviews/{review}:approve", scope="moderate", player=False),
    "reject_review": _on_board(
        "/v1/reviews/{review}:reject", {"reason": "a bot"}, "moderate", player=False
    ),
    "list_facts": Row("admin", "/v1/facts"),
    "create_key": Row("admin", "/v1/keys", {"scopes": ["read"]}, success=201),
    "list_keys": Row("admin", "/v1/keys"),
    "revoke_key": Row("admin", "/v1/keys/{spare}"),
    "put_webhook": Row("admin", "/v1/webhooks/hook", WEBHOOK),
    "get_webhook": Row("admin", "/v1/webhooks/hook"),
    "list_webhooks": Row("admin", "/v1/webhooks"),
    "list_deliveries": Row("admin", "/v1/webhooks/hook/deliveries"),
    "replay_webhook": Row("admin", "/v1/webhooks/hook:replay", {"from": 1}),
    "delete_webhook": Row("admin", "/v1/webhooks/hook"),
    "get_clock": Row("admin", "/v1/clock"),
    "confirm_clock": Row("admin", "/v1/clock:confirm"),
    "correct_clock": Row("admin", "/v1/clock:correct", {"first": 1, "dry_run": True}),
    "classic_score": _on_board(f"{_OLD}/score", CLASSIC, "submit"),
    "classic_increment": _on_board(f"{_OLD}/score/increment", DELTA, "submit"),
    "classic_user_score": _on_board("/api/v1/scores", CLASSIC, "submit"),
    "classic_ingest": _on_board("/ingest/score", CLASSIC, "submit"),
    "classic_scores": _on_board("/scores", CLASSIC, "submit"),
    "classic_top": _on_board(f"{_OLD}/top"),
    "classic_rank": _on_board(f"{_OLD}/rank/p1"),
    "classic_around": _on_board(f"{_OLD}/around/1"),
    "classic_nearby": _on_board(f"{_OLD}/nearby?rank=1"),
    "classic_player_rank": _on_board("/rank/p1"),
    "classic_neighbours": _on_board("/nearby/p1"),
    "classic_top_list": _on_board("/top/10"),
    "healthz": Row(None, "/healthz"),
    "readyz": Row(None, "/readyz"),
    "metrics": Row(None, "/metrics"),
    "openapi": Row(None, "/openapi.json"),
    "docs": Row(None, "/docs"),
    "docs_style": Row(None, "/docs.css"),
}

DESCRIBED = {
    operation["operationId"]: (path, method.upper(), operation)
    for path, methods in describe(ROUTES)["paths"].items()
    for method, operation in methods.items()
}


class Asker(NamedTuple):
    """Somebody who asks, and what the answer has to be."""

    name: str
    authorization: str | None
    expected: Callable[[Row], int]


def _always(status: int) -> Callable[[Row], int]:
    return lambda row: row.success if row.scope is None else status


def _with_scope(scope: str) -> Callable[[Row], int]:
    return lambda row: row.success if row.scope in (None, scope) or scope == "admin" else 403


def _if(allowed: Callable[[Row], bool]) -> Callable[[Row], int]:
    return lambda row: row.success if row.scope is None or allowed(row) else 403


async def askers(service: Whole, admin: str) -> list[Asker]:
    """Return everybody who could ask."""

    async def bearer(*scopes: str, **more: Any) -> str:
        return "Bearer " + str((await service.new_key(*scopes, key=admin, **more))["key"])

    revoked = await service.new_key("admin", key=admin)
    await service.told("DELETE", f"/v1/keys/{revoked['id']}", key=admin)
    forged = jwt.encode({"sub": "p1"}, b"another secret of thirty-two bytes or more")
    return [
        Asker("nobody", None, _always(401)),
        Asker("garbage", "Bearer nonsense", _always(401)),
        Asker("nothing but the scheme", "Bearer", _always(401)),
        Asker("another scheme", "Basic cmFua2Q6cmFua2Q=", _always(401)),
        Asker("revoked", f"Bearer {revoked['key']}", _always(401)),
        Asker("a forged token", f"Bearer {forged}", _always(401)),
        Asker("an expired token", f"Bearer {token('p1', exp=1)}", _always(401)),
        *[Asker(scope, await bearer(scope), _with_scope(scope)) for scope in SCOPES],
        Asker(
            "for another board", await bearer(*SCOPES, boards=["elsewhere"]), _if(lambda row: False)
        ),
        Asker(
            "for this board",
            await bearer(*SCOPES, boards=["elsewhere", "global"]),
            _if(lambda row: row.on_board),
        ),
        Asker("the player", f"Bearer {token('p1')}", _if(lambda row: row.player)),
    ]


NO_NAMES = dict.fromkeys(("spare", "retraction", "operation", "review", "reward"), "x")


async def prepare(service: Whole, admin: str) -> dict[str, str]:
    """Put in order what the request before may have undone.

    Return ids: of a spare key, a retraction, an operation, a review and a reward.
    """
    await service.told("PUT", "/v1/boards/global", DEFINITION, key=admin)
    await service.told("PUT", "/v1/players/p1", {"name": "Ada"}, key=admin)
    await service.told("POST", "/v1/boards/global/scores", SCORE, key=admin)
    await service.told("POST", "/v1/boards/global/scores", {**SCORE, "player": "p2"}, key=admin)
    spare = (await service.new_key("read", key=admin))["id"]
    retracting = "/v1/boards/global/retractions"
    retracted = await service.told("POST", retracting, {"player": "p2"}, key=admin)
    settling = {"window": "monthly", "reason": "a certificate"}
    await service.told("POST", "/v1/boards/global:settle", settling, key=admin)
    given = await service.told("GET", f"{_BOARD}/windows/monthly/rewards", key=admin)
    asked = await service.ask(
        "POST", f"{retracting}?dry_run=true", {"player": "p1"}, key=admin, prefer="respond-async"
    )
    operation = asked.json()["operation"]
    high = {"player": f"new-{spare}", "score": 10**9}
    held = await service.told("POST", "/v1/boards/global/scores", high, key=admin)
    await service.told("PUT", "/v1/webhooks/hook", WEBHOOK, key=admin)
    return {
        "spare": spare,
        "retraction": str(retracted["position"]),
        "operation": operation,
        "review": held["review"],
        "reward": given["rewards"][0]["id"],
    }


async def send(
    service: Whole, method: str, row: Row, asker: Asker, names: dict[str, str]
) -> tuple[int, bytes, Any]:
    headers = {} if asker.authorization is None else {"authorization": asker.authorization}
    path = row.path.format(**names)
    if path.endswith("/boards/global/stream") and method == "GET":
        async with service.http.stream(method, path, headers=headers) as stream:
            return stream.status_code, b"", stream.headers
    answer = await service.ask(method, path, row.body, **headers)
    return answer.status_code, answer.content, answer.headers


def test_every_route_has_a_row_and_every_row_a_route() -> None:
    assert set(ROWS) == set(DESCRIBED)


@pytest.mark.parametrize("operation", sorted(DESCRIBED))
def test_the_description_says_what_a_route_needs(operation: str) -> None:
    _, _, described = DESCRIBED[operation]
    row = ROWS[operation]
    assert described.get("x-scope") == row.scope
    shown = [name for one in described["security"] for name in one]
    assert shown == (["key"] if row.scope else []) + (["player"] if row.player else [])


@pytest.mark.parametrize("tag", TAGS)
def test_only_who_may_gets_in(tag: str) -> None:
    async def test() -> None:
        async with whole(token=reader().read) as service:
            admin = (await service.new_key("admin"))["key"]
            everybody = await askers(service, admin)
            for operation, (_, method, described) in DESCRIBED.items():
                if described["tags"] == [tag]:
                    for asker in everybody:
                        await check_cell(service, admin, operation, method, asker)

    run(test())


async def check_cell(service: Whole, admin: str, operation: str, method: str, asker: Asker) -> None:
    row, cell = ROWS[operation], (operation, asker.name)
    names = await prepare(service, admin)
    status, body, headers = await send(service, method, row, asker, names)
    assert status == asker.expected(row), (cell, status, body)
    assert (status == 401) == ("www-authenticate" in headers), cell
    if status in (401, 403):
        assert headers["content-type"] == "application/problem+json", cell
    if method == "GET":
        seen, nothing, _ = await send(service, "HEAD", row, asker, names)
        assert (seen, nothing) == (status, b""), cell


def test_asking_what_a_path_takes_and_other_methods_need_no_key_and_tell_no_more() -> None:
    async def test() -> None:
        async with whole(token=reader().read) as service:
            admin = (await service.new_key("admin"))["key"]
            everybody = await askers(service, admin)
            for operation, (path, _, _) in DESCRIBED.items():
                # p9:ban is a player's id, too.
                same = {path, path.partition(":")[0]} if "{player}:" in path else {path}
                mine = {method for there, method, _ in DESCRIBED.values() if there in same}
                takes = mine | {"OPTIONS"} | ({"HEAD"} if "GET" in mine else set())
                for asker in everybody:
                    if asker.name in ("nobody", "garbage", "read", "admin", "the player"):
                        await check_methods(service, ROWS[operation], takes, asker)

    run(test())


async def check_methods(service: Whole, row: Row, takes: set[str], asker: Asker) -> None:
    status, body, headers = await send(service, "OPTIONS", row, asker, NO_NAMES)
    assert (status, body) == (204, b""), (row.path, asker.name)
    assert set(headers["allow"].split(", ")) == takes
    for method in sorted({"PUT", "POST", "DELETE", "PATCH", "GET"} - takes):
        status, _, headers = await send(service, method, row, asker, NO_NAMES)
        assert status == 405, (row.path, asker.name, method)
        assert set(headers["allow"].split(", ")) == takes


# ------------------------------------------------------------ what a cell cannot show


def test_a_token_claims_its_own_rewards_on_any_board() -> None:
    async def test() -> None:
        async with whole(token=reader().read) as service:
            admin = (await service.new_key("admin"))["key"]
            reading = (await service.new_key("read", key=admin))["key"]
            definition = {"rewards": [{"ranks": [1, 2], "give": 1}], "prize": True}
            await service.told("PUT", "/v1/boards/shut", definition, key=admin)
            for player in ("p1", "p2"):
                body = {**SCORE, "player": player}
                await service.told("POST", "/v1/boards/shut/scores", body, key=admin)
            settling = {"window": "all", "reason": "the end"}
            await service.told("POST", "/v1/boards/shut:settle", settling, key=admin)
            path = "/v1/boards/shut/windows/all~1/rewards"
            mine, other = (await service.told("GET", path, key=token("p1")))["rewards"]

            async def claim(id: str, key: str) -> tuple[int, Any]:
                answer = await service.ask("POST", f"{path}/{id}:claim", key=key)
                told = answer.json()
                return answer.status_code, told.get("code", told.get("changed"))

            assert await claim(mine["id"], reading) == (403, "forbidden")
            assert await claim(other["id"], token("p1")) == (404, "unknown_reward")
            assert await claim(mine["id"], token("p1")) == (200, True)
            assert await claim(mine["id"], token("p1")) == (200, False)
            assert await claim(mine["id"], admin) == (200, False)

    run(test())


def test_a_token_submits_for_its_player_alone_and_where_players_may() -> None:
    async def test() -> None:
        async with whole(token=reader().read) as service:
            admin = (await service.new_key("admin"))["key"]
            await service.told("PUT", "/v1/boards/open", {"writes": "client"}, key=admin)
            await service.told("PUT", "/v1/boards/shut", {}, key=admin)
            mine = token("p1")

            async def status(path: str, body: Any) -> int:
                return (await service.ask("POST", path, body, key=mine)).status_code

            assert await status("/v1/boards/open/scores", SCORE) == 200
            assert await status("/v1/boards/open/scores", {"player": "p2", "score": 1}) == 403
            assert await status("/v1/boards/shut/scores", SCORE) == 403
            for item in ({"board": "shut", **SCORE}, {"board": "open", "player": "p2", "score": 1}):
                both = {"scores": [{"board": "open", **SCORE}, item]}
                assert await status("/v1/scores:batch", both) == 403
            for path in ("/ingest/score", "/scores", "/api/v1/scores", f"{_OLD}/score"):
                there = {"leaderboard_type": "open"}
                assert await status(path, {**CLASSIC, **there}) == 200
                assert await status(path, {**CLASSIC, "player_id": "p2", **there}) == 403
                assert await status(path, {**CLASSIC, "leaderboard_type": "shut"}) == 403
            page = await service.told("GET", "/v1/boards/open/standings", key=mine)
            assert [one["player"] for one in page["standings"]] == ["p1"]

    run(test())


@pytest.mark.parametrize("fast_lane", [True, False], ids=["fast", "asgi"])
def test_a_token_says_nothing_of_what_its_player_is(fast_lane: bool) -> None:
    """Otherwise a board for clients would move its player in the segments of all others."""

    async def test() -> None:
        async with whole(token=reader().read, fast_lane=fast_lane) as service:
            admin = (await service.new_key("admin"))["key"]
            await service.told("PUT", "/v1/boards/open", {"writes": "client"}, key=admin)
            await service.told("PUT", "/v1/boards/shut", {"segments": ["league"]}, key=admin)
            gold = {**SCORE, "attributes": {"league": "gold"}}
            await service.told("POST", "/v1/boards/shut/scores", gold, key=admin)
            before = service.rankd.position
            mine = token("p1")
            for attributes in ({"league": "bronze"}, {"other": 1}, {}):
                body = {**SCORE, "attributes": attributes}
                batch = {"scores": [{"board": "open", **SCORE}, {"board": "open", **body}]}
                for path, sent in (
                    ("/v1/boards/open/scores", body),
                    ("/v1/scores:batch", batch),
                ):
                    answer = await service.ask("POST", path, sent, key=mine)
                    told = answer.json()
                    assert (answer.status_code, told["code"]) == (403, "forbidden"), told
                    assert told["applied"] == "no"
            for path in ("/ingest/score", "/scores", "/api/v1/scores", f"{_OLD}/score"):
                there = {"leaderboard_type": "open", "attributes": {"league": "bronze"}}
                answer = await service.ask("POST", path, {**CLASSIC, **there}, key=mine)
                assert answer.status_code == 422, "these routes take none from anybody"
            assert service.rankd.position == before
            known = await service.told("GET", "/v1/players/p1", key=admin)
            assert known["attributes"] == {"league": "gold"}
            nothing = {**SCORE, "attributes": None}
            await service.told("POST", "/v1/boards/open/scores", nothing, key=mine)

    run(test())


@pytest.mark.parametrize("fast_lane", [True, False], ids=["fast", "asgi"])
def test_key_limited_to_boards_sets_no_attributes(fast_lane: bool) -> None:
    """PUT /v1/players refuses such a key, so a submission may not change segments elsewhere."""

    async def test() -> None:
        async with whole(fast_lane=fast_lane) as service:
            admin = (await service.new_key("admin"))["key"]
            for board in ("mine", "other"):
                definition = {"segments": ["league"]}
                await service.told("PUT", f"/v1/boards/{board}", definition, key=admin)
            gold = {**SCORE, "attributes": {"league": "gold"}}
            await service.told("POST", "/v1/boards/other/scores", gold, key=admin)
            before = service.rankd.position
            keys = [
                (await service.new_key(scope, boards=["mine"], key=admin))["key"]
                for scope in ("submit", "admin")
            ]
            for limited in keys:
                for attributes in ({"league": "bronze"}, {"other": 1}, {}):
                    item = {**SCORE, "attributes": attributes}
                    items = [{"board": "mine", **SCORE}, {"board": "mine", **item}]
                    for path, sent in (
                        ("/v1/boards/mine/scores", item),
                        ("/v1/scores:batch", {"scores": items}),
                    ):
                        answer = await service.ask("POST", path, sent, key=limited)
                        told = answer.json()
                        assert (answer.status_code, told["code"]) == (403, "forbidden"), told
                        assert told["applied"] == "no"
                        assert "attributes" in told["detail"]
            assert service.rankd.position == before + 2, "nothing but the two keys is recorded"
            nothing = {**SCORE, "attributes": None}
            await service.told("POST", "/v1/boards/mine/scores", nothing, key=keys[0])
            segment = "/v1/boards/other/standings?segment=league:gold"
            assert (await service.told("GET", segment, key=admin))["total"] == 1

    run(test())


def test_a_batch_over_several_boards_needs_a_key_for_all_of_them() -> None:
    async def test() -> None:
        async with whole() as service:
            admin = (await service.new_key("admin"))["key"]
            for board in ("one", "two"):
                await service.told("PUT", f"/v1/boards/{board}", {}, key=admin)
            limited = (await service.new_key("submit", boards=["one"], key=admin))["key"]

            async def status(*boards: Any) -> int:
                body = {"scores": [{"board": board, **SCORE} for board in boards]}
                answer = await service.ask("POST", "/v1/scores:batch", body, key=limited)
                return answer.status_code

            assert await status("one", "one") == 200
            assert await status("one", "two") == 403
            assert await status("one", None) == 403
            assert await status("one", ["one"]) == 403
            two = await service.told("GET", "/v1/boards/two/standings", key=admin)
            assert two["total"] == 0

    run(test())


def test_only_a_submit_key_for_all_boards_brings_a_board_into_being() -> None:
    async def test() -> None:
        async with whole(token=reader().read) as service:
            admin = (await service.new_key("admin"))["key"]
            limited = (await service.new_key("submit", boards=["new"], key=admin))["key"]
            reads = (await service.new_key("read", key=admin))["key"]
            body = {**CLASSIC, "leaderboard_type": "new"}
            for key, status in ((limited, 404), (token("p1"), 404), (reads, 403)):
                answer = await service.ask("POST", "/ingest/score", body, key=key)
                assert answer.status_code == status, answer.text
                assert (await service.ask("GET", "/v1/boards/new", key=admin)).status_code == 404
            submits = (await service.new_key("submit", key=admin))["key"]
            assert (await service.ask("POST", "/ingest/score", body, key=submits)).is_success
            assert (await service.ask("POST", "/ingest/score", body, key=limited)).is_success

    run(test())


def test_a_key_opens_from_its_creation_until_its_revocation() -> None:
    async def test() -> None:
        async with whole() as service:
            assert (await service.ask("GET", "/v1/boards")).status_code == 200
            first = await service.new_key("admin")
            assert (await service.ask("GET", "/v1/boards")).status_code == 401
            assert (await service.ask("GET", "/v1/boards", key=first["key"])).status_code == 200
            second = await service.new_key("read", key=first["key"])
            assert (await service.ask("GET", "/v1/boards", key=second["key"])).status_code == 200
            await service.told("DELETE", f"/v1/keys/{second['id']}", key=first["key"])
            assert (await service.ask("GET", "/v1/boards", key=second["key"])).status_code == 401

    run(test())


def test_nobody_is_locked_out_and_the_service_never_opens_again() -> None:
    async def test() -> None:
        async with whole() as service:
            for wrong in ({"scopes": ["read"]}, {"scopes": ["admin"], "boards": ["one"]}):
                assert (await service.ask("POST", "/v1/keys", wrong)).status_code == 422
            assert (await service.ask("GET", "/v1/boards")).status_code == 200
            first = await service.new_key("admin")
            await service.new_key("admin", boards=["one"], key=first["key"])
            path = f"/v1/keys/{first['id']}"
            assert (await service.ask("DELETE", path, key=first["key"])).status_code == 422
            second = await service.new_key("admin", key=first["key"])
            assert (await service.ask("DELETE", path, key=second["key"])).status_code == 200
            assert (await service.ask("GET", "/v1/boards")).status_code == 401

    run(test())


def test_revoking_the_last_key_opens_nothing() -> None:
    async def test() -> None:
        async with whole() as service:
            first = await service.new_key("admin")
            await service.rankd.revoke_key(first["id"])  # As the command line can, on a folder.
            assert (await service.ask("GET", "/v1/boards")).status_code == 401

    run(test())


def test_a_players_key_is_its_own() -> None:
    async def test() -> None:
        async with whole(token=reader().read) as service:
            admin = (await service.new_key("admin"))["key"]
            await service.told("PUT", "/v1/boards/open", {"writes": "client"}, key=admin)
            one = [("evil", 1), ("good", 9), ("good", 9)]
            told = [
                await service.told(
                    "POST",
                    "/v1/boards/open/scores",
                    {"player": player, "score": score, "key": "m1"},
                    key=token(player),
                )
                for player, score in one
            ]
            assert [each.get("duplicate", False) for each in told] == [False, False, True]

    run(test())


def test_a_strangers_batch_is_not_read() -> None:
    async def test() -> None:
        async with whole() as service:
            await service.new_key("admin")
            answer = await service.ask("POST", "/v1/scores:batch", {"scores": []})
            assert answer.status_code == 401

    run(test())


@pytest.mark.parametrize(
    "headers",
    [
        {"x_forwarded_for": "203.0.113.9"},
        {"forwarded": "for=203.0.113.9"},
        {"host": "game.example"},
        {"host": "game.example:8700"},
        {"host": "127.0.0.1.game.example"},
    ],
)
def test_while_open_nobody_gets_in_from_elsewhere(headers: dict[str, str]) -> None:
    async def test() -> None:
        async with whole() as service:
            assert (await service.ask("GET", "/v1/boards", **headers)).status_code == 401
            for host in ("localhost", "localhost:8700", "127.0.0.1:1", "[::1]:8700", "[::1]"):
                assert (await service.ask("GET", "/v1/boards", host=host)).status_code == 200
            key = (await service.new_key("admin"))["key"]
            assert (await service.ask("GET", "/v1/boards", key=key, **headers)).status_code == 200

    run(test())


def test_on_another_address_nothing_is_open_without_a_key() -> None:
    async def test() -> None:
        async with whole(loopback=False) as service:
            assert (await service.ask("GET", "/v1/boards")).status_code == 401
            assert (await service.ask("POST", "/v1/keys", {"scopes": ["admin"]})).status_code == 401

    run(test())


def test_corrections_are_listed_to_readers_where_the_board_says_so() -> None:
    async def test() -> None:
        async with whole(token=reader().read) as service:
            admin = (await service.new_key("admin"))["key"]
            await service.told("PUT", "/v1/boards/open", {"public_corrections": True}, key=admin)
            await service.told("PUT", "/v1/boards/shut", {}, key=admin)
            for scope, expected in (("read", 403), ("moderate", 403), ("admin", 200)):
                key = (await service.new_key(scope, key=admin))["key"]
                shut = await service.ask("GET", "/v1/boards/shut/corrections", key=key)
                assert shut.status_code == expected, scope
            both = (await service.new_key("read", "moderate", key=admin))["key"]
            await service.told("GET", "/v1/boards/shut/corrections", key=both)
            for key in (token("p1"), (await service.new_key("read", key=admin))["key"]):
                await service.told("GET", "/v1/boards/open/corrections", key=key)
            shut = await service.ask("GET", "/v1/boards/shut/corrections", key=token("p1"))
            assert shut.status_code == 403

    run(test())
