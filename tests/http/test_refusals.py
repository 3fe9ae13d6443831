"""What is refused says so in words of ours, with the status described, and what was done."""

from typing import Any
from urllib.parse import quote

import pytest
from tests.http.whole import Whole, run, whole

from rankd.model.facts import PlayerProfiled, ScoreSubmitted

EVIL = "<script>alert(1)</script>"


async def refused(
    service: Whole, method: str, path: str, body: Any = None, **headers: str
) -> dict[str, Any]:
    """Return the problem that a request is answered with."""
    answer = await service.ask(method, path, body, **headers)
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    told: dict[str, Any] = answer.json()
    assert told["status"] == answer.status_code
    return told


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/v1/players/nobody", "unknown_player"),
        ("DELETE", "/v1/keys/nope", "unknown_key"),
        ("GET", "/v1/boards/none", "unknown_board"),
        ("GET", "/v1/boards/b/standings?window=hourly", "unknown_window"),
        ("GET", "/v1/boards/b/standings/nobody", "not_ranked"),
    ],
)
def test_what_is_not_there_is_answered_404_and_says_what_is_missing(
    method: str, path: str, code: str
) -> None:
    async def test() -> None:
        async with whole() as service:
            await service.told("PUT", "/v1/boards/b", {})
            told = await refused(service, method, path)
            assert (told["status"], told["code"]) == (404, code)
            assert told["title"].lower().replace(" ", "_") == code
            assert "understood" not in told["detail"]

    run(test())


@pytest.mark.parametrize("fast_lane", [True, False], ids=["fast", "asgi"])
@pytest.mark.parametrize("window", ["hourly", "daily:2001-02-03", "daily:-400", quote(EVIL)])
@pytest.mark.parametrize("path", ["standings", "standings/p", "projection"])
def test_whoever_asks_for_a_window_that_is_not_there_hears_which_are(
    path: str, window: str, fast_lane: bool
) -> None:
    async def test() -> None:
        async with whole(fast_lane=fast_lane) as service:
            await service.told("PUT", "/v1/boards/b", {"windows": ["daily", "weekly"]})
            query = f"window={window}" + ("&score=1" if path == "projection" else "")
            told = await refused(service, "GET", f"/v1/boards/b/{path}?{query}")
            assert (told["status"], told["code"]) == (404, "unknown_window")
            assert told["detail"].endswith("its windows are daily, weekly")
            assert "script" not in repr(told)

    run(test())


def test_a_refusal_in_a_batch_repeats_nothing_that_was_sent() -> None:
    async def test() -> None:
        async with whole() as service:
            await service.told("PUT", "/v1/boards/b", {})
            scores = [
                {"board": EVIL, "player": "p", "score": 1},
                {"board": "b", "player": "p", "score": 1, "key": EVIL},
                {"board": "b", "player": "p", "score": 2, "key": EVIL},
                {"board": "b", "player": "p", "score": EVIL, EVIL: 1},
            ]
            answer = await service.ask("POST", "/v1/scores:batch", {"scores": scores})
            results = answer.json()["results"]
            assert [each.get("code") for each in results] == [
                "unknown_board",
                None,
                "key_reused",
                "invalid_submission",
            ]
            assert "script" not in answer.text
            assert results[2]["errors"][0]["field"] == "key"

    run(test())


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/scores:batch", {"scores": [{"board": "b", "player": "p", "score": 1}]}),
        ("/v1/keys", {"scopes": ["admin"]}),
    ],
)
def test_a_key_in_a_header_that_cannot_keep_its_promise_is_refused(path: str, body: Any) -> None:
    async def test() -> None:
        async with whole() as service:
            await service.told("PUT", "/v1/boards/b", {})
            told = await refused(service, "POST", path, body, idempotency_key="k")
            assert (told["status"], told["applied"]) == (422, "no")
            assert [wrong["field"] for wrong in told["errors"]] == ["Idempotency-Key"]
            assert service.rankd.position == 1

    run(test())


WHOLE = {
    "title": "Global",
    "direction": "higher",
    "rule": "best",
    "decimals": 0,
    "columns": [
        {"name": "score", "direction": "higher"},
        {"name": "time_ms", "direction": "lower"},
    ],
    "ties": "ordinal",
    "tie_break": "first",
    "windows": [
        *("all", "daily", "weekly", "monthly"),
        {"name": "season", "every": "4w", "gap": "2d", "start": "2026-11-02T00:00:00Z"},
        {"name": "cup", "start": "2026-11-02T00:00:00Z", "end": "2026-12-02T00:00:00Z"},
        {"name": "shift", "cron": "0 5 * * *"},
    ],
    "time_zone": "UTC",
    "segments": ["region", "level_band"],
    "decay": {"half_life": "7d"},
    "limits": {
        "score_min": 0,
        "score_max": 1000000,
        "gain_per_minute_max": 5000,
        "submissions_per_minute_max": 60,
    },
    "writes": "server",
    "prize": False,
    "retention": {"daily": "30d", "weekly": "26w"},
}


@pytest.mark.parametrize(
    ("changed", "fields"),
    [
        ({}, ["decay"]),
        ({"rule": "worst"}, ["rule", "decay"]),
        ({"decay": {"half_life": "soon"}}, ["decay", "decay.half_life"]),
        ({"prize": True, "writes": "client"}, ["decay", "writes"]),
        (
            {"limits": {"gain_per_minute_max": "x", "score_min": "y"}},
            ["limits.score_min", "limits.gain_per_minute_max", "decay"],
        ),
        ({"limits": 5}, ["limits", "decay"]),
        ({"prize": "yes", "decay": None, "limits": None}, ["prize"]),
    ],
)
def test_a_definition_is_told_at_once_all_that_is_wrong_with_it(
    changed: dict[str, Any], fields: list[str]
) -> None:
    """One round of mending is enough: here scores decay on a board of two columns."""

    async def test() -> None:
        async with whole() as service:
            told = await refused(service, "PUT", "/v1/boards/b", {**WHOLE, **changed})
            assert (told["status"], told["code"]) == (422, "invalid_board")
            assert [wrong["field"] for wrong in told["errors"]] == fields

    run(test())


@pytest.mark.parametrize("fast_lane", [True, False], ids=["fast", "asgi"])
@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("run", "must be a run just as it was handed out"),
        ("signature", "goes into the header Rankd-Signature"),
    ],
)
def test_a_score_with_a_proof_that_is_none_is_refused(
    field: str, message: str, fast_lane: bool
) -> None:
    async def test() -> None:
        async with whole(fast_lane=fast_lane) as service:
            await service.told("PUT", "/v1/boards/b", {})
            body = {"player": "s", "score": 1, field: "bogus"}
            told = await refused(service, "POST", "/v1/boards/b/scores", body)
            assert (told["status"], told["code"]) == (422, "invalid_submission")
            assert told["errors"] == [{"field": field, "message": message}]
            batch = {"scores": [{"board": "b", **body}, {"board": "b", "player": "s", "score": 2}]}
            results = (await service.told("POST", "/v1/scores:batch", batch))["results"]
            assert [each["verdict"] for each in results] == ["refused", "counted"]
            body[field] = None
            await service.told("POST", "/v1/boards/b/scores", body)

    run(test())


def test_what_is_no_object_is_refused_in_its_place_and_the_others_count() -> None:
    async def test() -> None:
        async with whole() as service:
            await service.told("PUT", "/v1/boards/b", {})
            good = {"board": "b", "player": "p", "score": 1}
            scores = [5, good, None, "p", [good], {**good, "player": "q"}]
            told = await service.told("POST", "/v1/scores:batch", {"scores": scores})
            verdicts = [each["verdict"] for each in told["results"]]
            assert verdicts == ["refused", "counted", "refused", "refused", "refused", "counted"]
            assert told["results"][0]["code"] == "invalid_submission"

    run(test())


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/scores:batch", {"scores": [{"board": "b", "player": "p", "score": 1}], EVIL: 1}),
        ("/v1/boards/b/standings:lookup", {"players": ["p"], EVIL: 1}),
    ],
)
def test_an_unknown_field_of_a_body_is_refused_and_not_repeated(path: str, body: Any) -> None:
    async def test() -> None:
        async with whole() as service:
            await service.told("PUT", "/v1/boards/b", {})
            told = await refused(service, "POST", path, body)
            assert told["status"] == 422
            assert "script" not in repr(told)
            assert service.rankd.position == 1

    run(test())


STANDINGS = "/v1/boards/b/standings"
SCORES = "/v1/boards/b/scores"


@pytest.mark.parametrize(
    ("asked", "field", "hint"),
    [
        (("GET", f"{STANDINGS}?size=5"), "size", "there are: window, segment"),
        (("GET", f"{STANDINGS}?{quote(EVIL)}=5"), "?", "there are: window, segment"),
        (("GET", "/healthz?limit=5"), "limit", "there are: none"),
        (("POST", f"{STANDINGS}:lookup", {"ids": ["p"]}), "ids", "known are players"),
        (("POST", "/v1/scores:batch", {"items": []}), "items", "known are scores"),
        (("POST", SCORES, {"score": 1}), "player", "is missing"),
        (("POST", SCORES, {"player": None, "score": 1}), "player", "is missing"),
        (("POST", SCORES, {"player": "", "score": 1}), "player", "must be text of 1 to"),
        (("POST", SCORES, {"player": "p", "score": 1, "region": "eu"}), "region", "attributes"),
        (("PUT", "/v1/players/p", {"region": "eu"}), "region", "attributes"),
        (
            ("POST", SCORES, {"player": "p", "score": 58.1 + 0.2}),
            "score",
            "after the point: round it",
        ),
    ],
)
@pytest.mark.parametrize("fast_lane", [True, False], ids=["fast", "asgi"])
def test_a_refusal_names_what_is_wrong_and_says_what_would_be_right(
    asked: Any, field: str, hint: str, fast_lane: bool
) -> None:
    async def test() -> None:
        async with whole(fast_lane=fast_lane) as service:
            await service.told("PUT", "/v1/boards/b", {"decimals": 3})
            told = await refused(service, *asked)
            wrong = told["errors"][0]
            assert (told["status"], wrong["field"]) == (422, field)
            assert hint in wrong["message"]
            assert "script" not in repr(told)

    run(test())


@pytest.mark.parametrize("fast_lane", [True, False], ids=["fast", "asgi"])
def test_who_posts_a_board_is_told_to_put_it(fast_lane: bool) -> None:
    async def test() -> None:
        async with whole(fast_lane=fast_lane) as service:
            told = await refused(service, "POST", "/v1/boards", {"name": "b"})
            assert (told["status"], told["applied"]) == (405, "no")
            assert "PUT /v1/boards/{board}" in told["detail"]

    run(test())


def test_a_kind_of_fact_that_there_is_not_is_refused_with_those_there_are() -> None:
    async def test() -> None:
        async with whole() as service:
            await service.told("PUT", "/v1/boards/b", {})
            told = await refused(service, "GET", f"/v1/facts?kind={quote(EVIL)}")
            (wrong,) = told["errors"]
            assert (told["status"], wrong["field"]) == (422, "kind")
            assert "board_defined" in wrong["message"] and "script" not in repr(told)
            (fact,) = (await service.told("GET", "/v1/facts?kind=board_defined"))["facts"]
            assert fact["kind"] == "board_defined"

    run(test())


def test_what_is_kept_of_somebody_who_was_forgotten_is_what_is_documented() -> None:
    """Neither answers about players and rankings nor the audit trail know anything more."""

    async def test() -> None:
        async with whole() as service:
            await service.told("PUT", "/v1/boards/b", {})
            await service.told("PUT", "/v1/players/p", {"name": "Ann", "friends": ["q"]})
            body = {"player": "p", "score": 1, "metadata": {"city": "Ulm"}}
            await service.told("POST", "/v1/boards/b/scores", body)
            await service.told("DELETE", "/v1/players/p")
            for path in ("standings", "standings/p", "friends/p"):
                assert "Ann" not in repr(await service.told("GET", f"/v1/boards/b/{path}"))
            assert "Ulm" not in repr(await service.told("GET", "/v1/boards/b/history/p"))
            trail = repr(await service.told("GET", "/v1/facts"))
            assert "Ann" not in trail and "Ulm" not in trail

    run(test())


TURNED, UNSEEN = "\u202egnorw", "\u200b"
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"


@pytest.mark.parametrize(
    ("beside", "field"),
    [
        ({"metadata": {"a": 2**64}}, "metadata"),
        ({"metadata": ["\0"]}, "metadata"),
        ({"attributes": {"level": 2**63}}, "attributes.level"),
        ({"attributes": {"region": "e\0u"}}, "attributes.region"),
        ({"player": TURNED}, "player"),
        ({"player": UNSEEN}, "player"),
        ({"player": "\u00ad\ufeff"}, "player"),
        ({"player": "  "}, "player"),
        ({"player": "a\0b"}, "player"),
    ],
)
@pytest.mark.parametrize("fast_lane", [True, False], ids=["fast", "asgi"])
def test_what_readers_would_read_differently_is_refused(
    beside: dict[str, Any], field: str, fast_lane: bool
) -> None:
    async def test() -> None:
        async with whole(fast_lane=fast_lane) as service:
            await service.told("PUT", "/v1/boards/b", {})
            await service.told("POST", "/v1/boards/b/scores", {"player": "p", "score": 1})
            body = {"player": "p", "score": 1, **beside}
            told = await refused(service, "POST", "/v1/boards/b/scores", body)
            assert (told["status"], told["errors"][0]["field"]) == (422, field)
            batch = {"scores": [{"board": "b", **body}]}
            (told,) = (await service.told("POST", "/v1/scores:batch", batch))["results"]
            assert told["errors"][0]["field"] == field

    run(test())


@pytest.mark.parametrize("player", [TURNED, UNSEEN, " "], ids=ascii)
def test_a_player_from_before_is_read_for_ever(player: str) -> None:
    """Nobody gets such an id today, and ledgers hold some."""

    async def test() -> None:
        async with whole() as service:
            await service.told("PUT", "/v1/boards/b", {})
            old = [ScoreSubmitted("b", player, (5,), None), PlayerProfiled(player, "Ann")]
            await service.rankd._writer.put(old)
            (row,) = (await service.told("GET", "/v1/boards/b/standings"))["standings"]
            assert (row["player"], row["name"]) == (player, "Ann")
            path = f"/v1/boards/b/standings/{quote(player)}"
            assert (await service.told("GET", path))["rank"] == 1
            found = await service.told(
                "POST", "/v1/boards/b/standings:lookup", {"players": [player]}
            )
            assert found["not_found"] == []
            history = await service.told("GET", f"/v1/boards/b/history/{quote(player)}")
            assert len(history["facts"]) == 1
            mine = f"/v1/players/{quote(player)}"
            await service.told("PUT", mine, {"name": "Eve"})
            await service.told("PUT", f"{mine}/friends", {"friends": ["p"]})
            assert (await service.told("GET", mine))["name"] == "Eve"
            await service.told("DELETE", mine)
            assert (await service.told("GET", path))["name"] is None

    run(test())


def test_nobody_begins_with_an_id_or_a_name_that_cannot_be_seen() -> None:
    async def test() -> None:
        async with whole() as service:
            for player in (UNSEEN, "\u00ad", "\ufeff", " ", TURNED):
                for path, body in (("", {"name": "Ann"}), ("/friends", {"friends": ["p"]})):
                    there = f"/v1/players/{quote(player)}{path}"
                    told = await refused(service, "PUT", there, body)
                    assert [wrong["field"] for wrong in told["errors"]] == ["player"]
            for name in (UNSEEN, "\u00ad\u00ad", "\ufeff", "\u2800", FAMILY * 33):
                told = await refused(service, "PUT", "/v1/players/p", {"name": name})
                assert [wrong["field"] for wrong in told["errors"]] == ["name"]
            assert service.rankd.position == 0
            for name in (FAMILY * 24, FAMILY * 32):
                told = await service.told("PUT", "/v1/players/p", {"name": name})
                assert told["name"] == name

    run(test())
