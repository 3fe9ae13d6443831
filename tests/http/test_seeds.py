"""Clients written from the well-known texts work unchanged: each request they print is replayed.

What a text prints as an answer is compared field by field, and type by type. The figures of the
texts (rank 5,000,000 of ten million) cannot be had in a test; those of a smaller board, computed
by hand, stand for them.
"""

from typing import Any

import pytest
from tests.http.whole import Whole, run, whole

INCREMENT = {
    "user_id": "12345",
    "score_delta": 50,
    "leaderboard_type": "global",
    "timestamp": "2025-11-15T10:30:00Z",
}


def shape(value: Any) -> Any:
    """What a value is made of: its fields and their types."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items()}
    return type(value)


def has(answer: dict[str, Any], printed: dict[str, Any]) -> None:
    """The answer has every field that is printed, with a value of the same type."""
    wanted, there = shape(printed), shape(answer)
    assert {name: there.get(name) for name in wanted} == wanted


async def filled(service: Whole, count: int = 20) -> None:
    """Players 1 to ``count`` with a hundred times their number."""
    for number in range(1, count + 1):
        body = {"player_id": number, "score": number * 100}
        await service.told("POST", "/api/v1/leaderboard/score", body)


# ----------------------------------------------------- the text with numbers for players


def test_a_score_tells_the_rank_and_how_far_the_player_rose() -> None:
    async def test() -> None:
        async with whole() as service:
            await filled(service)
            body = {
                "player_id": 12345,
                "score": 950,
                "leaderboard_type": "global",
                "game_id": "abc123",
            }
            first = await service.told("POST", "/api/v1/leaderboard/score", body)
            assert first == {
                "player_id": 12345,
                "score": 950,
                "rank": 12,
                "rank_change": 0,
                "percentile": 47.62,
            }
            again = await service.told(
                "POST",
                "/api/v1/leaderboard/score",
                {**body, "score": 1450, "timestamp": "2024-01-15T10:30:00Z"},
            )
            assert again == {
                "player_id": 12345,
                "score": 1450,
                "rank": 7,
                "rank_change": 5,
                "percentile": 71.43,
            }

    run(test())


def test_an_increment_adds_to_the_score() -> None:
    async def test() -> None:
        async with whole() as service:
            path = "/api/v1/leaderboard/score/increment"
            for total in (100, 200):
                told = await service.told("POST", path, {"player_id": 12345, "score_delta": 100})
                assert (told["player_id"], told["score"], told["rank"]) == (12345, total, 1)
            refused = await service.ask("POST", path, {"player_id": 12345, "score": 100})
            assert refused.status_code == 422
            assert refused.json()["errors"][0]["field"] == "score_delta"

    run(test())


def test_the_top_n_are_players() -> None:
    async def test() -> None:
        async with whole() as service:
            await filled(service)
            await service.told("PUT", "/v1/players/20", {"name": "ProGamer"})
            top = await service.told(
                "GET", "/api/v1/leaderboard/top?n=100&type=global&period=daily"
            )
            assert top["players"][0] == {
                "rank": 1,
                "player_id": 20,
                "player_name": "ProGamer",
                "score": 2000,
                "rank_change": 0,
            }
            assert [row["rank"] for row in top["players"]] == list(range(1, 21))
            del top["players"]
            assert top == {"leaderboard_type": "global", "period": "daily", "total_players": 20}

    run(test())


def test_a_rank_is_told_in_the_words_of_both_texts() -> None:
    async def test() -> None:
        async with whole() as service:
            await filled(service)
            await service.told("PUT", "/v1/players/15", {"name": "ElitePlayer"})
            told = await service.told("GET", "/api/v1/leaderboard/rank/15?type=global")
            assert told == {
                "player_id": 15,
                "user_id": "15",
                "username": "ElitePlayer",
                "rank": 6,
                "score": 1500,
                "total_players": 20,
                "total_users": 20,
                "percentile": 75.0,
            }

    run(test())


def test_players_around_a_rank() -> None:
    async def test() -> None:
        async with whole() as service:
            await filled(service)
            told = await service.told("GET", "/api/v1/leaderboard/around/10?range=2")
            assert told == {
                "center_rank": 10,
                "players": [
                    {"rank": rank, "player_id": 21 - rank, "score": (21 - rank) * 100}
                    for rank in (8, 9, 10, 11, 12)
                ],
            }
            edge = await service.told("GET", "/api/v1/leaderboard/around/1?range=50")
            assert [row["rank"] for row in edge["players"]] == list(range(1, 21))

    run(test())


# --------------------------------------------------------- the text with texts for users


def test_an_increment_of_a_user_tells_the_rank_before() -> None:
    async def test() -> None:
        async with whole() as service:
            await filled(service)
            first = await service.told("POST", "/api/v1/scores", INCREMENT)
            assert first == {"user_id": "12345", "new_score": 50, "rank": 21, "previous_rank": None}
            again = await service.told("POST", "/api/v1/scores", {**INCREMENT, "score_delta": 1500})
            assert again == {"user_id": "12345", "new_score": 1550, "rank": 6, "previous_rank": 21}

    run(test())


def test_the_top_k_are_users() -> None:
    async def test() -> None:
        async with whole() as service:
            for user, score in (("67890", 9850), ("12345", 9720)):
                body = {"user_id": user, "score_delta": score, "leaderboard_type": "global"}
                await service.told("POST", "/api/v1/scores", body)
            await service.told(
                "PUT", "/v1/players/67890", {"name": "ProGamer99", "attributes": {"country": "KR"}}
            )
            top = await service.told("GET", "/api/v1/leaderboard/top?k=100&type=global")
            assert top == {
                "leaderboard_type": "global",
                "total_users": 2,
                "top_users": [
                    {
                        "rank": 1,
                        "user_id": "67890",
                        "username": "ProGamer99",
                        "score": 9850,
                        "country": "KR",
                    },
                    {
                        "rank": 2,
                        "user_id": "12345",
                        "username": None,
                        "score": 9720,
                        "country": None,
                    },
                ],
                "as_of": "2026-11-16T12:00:00Z",
            }

    run(test())


def test_users_around_a_rank() -> None:
    async def test() -> None:
        async with whole() as service:
            await filled(service)
            told = await service.told(
                "GET", "/api/v1/leaderboard/nearby?rank=10&range=1&type=global"
            )
            assert told == {
                "leaderboard_type": "global",
                "center_rank": 10,
                "users": [
                    {"rank": rank, "user_id": str(21 - rank), "score": (21 - rank) * 100}
                    for rank in (9, 10, 11)
                ],
            }
            assert (await service.ask("GET", "/api/v1/leaderboard/nearby")).status_code == 422

    run(test())


# ------------------------------------------------------------------ the text with matches

MATCH = {"player_id": "p:42", "score": 4500, "match_id": "m:9981", "ts": 1743120000}


@pytest.mark.parametrize("path", ["/ingest/score", "/scores"])
def test_a_match_counts_once_for_each_player(path: str) -> None:
    async def test() -> None:
        async with whole() as service:
            first = await service.told("POST", path, MATCH)
            assert first == {
                "player_id": "p:42",
                "score": 4500,
                "rank": 1,
                "total_players": 1,
                "match_id": "m:9981",
                "duplicate": False,
            }
            again = await service.told("POST", path, MATCH)
            assert again == {**first, "duplicate": True}
            other = await service.told("POST", path, {**MATCH, "player_id": "p:7", "score": 9})
            assert (other["duplicate"], other["rank"]) == (False, 2)
            changed = await service.ask("POST", path, {**MATCH, "score": 4501})
            assert (changed.status_code, changed.json()["code"]) == (422, "key_reused")
            without = {name: value for name, value in MATCH.items() if name != "ts"}
            for retry in ({**MATCH, "ts": MATCH["ts"] + 1}, without):  # type: ignore[operator]
                assert await service.told("POST", path, retry) == again, "each try is stamped anew"

    run(test())


@pytest.mark.parametrize("window", ["", "?window=all-time", "?window=all_time", "?window=all"])
def test_a_rank_is_told_with_the_total(window: str) -> None:
    async def test() -> None:
        async with whole() as service:
            await service.told("POST", "/ingest/score", MATCH)
            told = await service.told("GET", f"/rank/p:42{window}")
            has(told, {"rank": 5000000, "score": 4500, "total": 10000000})
            has(told, {"player_id": "p:42", "rank": 1, "score": 4500, "total_players": 1})
            assert (told["player_id"], told["rank"], told["total_players"]) == ("p:42", 1, 1)

    run(test())


def test_the_top_is_a_bare_list() -> None:
    async def test() -> None:
        async with whole() as service:
            await filled(service, 3)
            assert await service.told("GET", "/top/2") == [
                {"rank": 1, "player_id": "3", "score": 300},
                {"rank": 2, "player_id": "2", "score": 200},
            ]
            assert len(await service.told("GET", "/top/100")) == 3
            for wrong in ("0", "1001", "x", "-1", "%201", "99999999999999999999"):
                assert (await service.ask("GET", f"/top/{wrong}")).status_code == 422

    run(test())


def test_neighbours_are_five_above_and_five_below_and_fewer_at_an_edge() -> None:
    async def test() -> None:
        async with whole() as service:
            await filled(service)
            near = await service.told("GET", "/nearby/10?window=weekly&range=5")
            assert [row["rank"] for row in near] == list(range(6, 17))
            assert [row["player_id"] for row in near if row["is_current_player"]] == ["10"]
            has(near[0], {"rank": 1, "player_id": "15", "score": 1, "is_current_player": False})
            edge = await service.told("GET", "/nearby/20")
            assert [row["rank"] for row in edge] == list(range(1, 7))

    run(test())


# ----------------------------------------------------------------------------- all of them


@pytest.mark.parametrize(
    "path",
    ["/api/v1/leaderboard/rank/nobody", "/rank/nobody", "/nearby/nobody"],
)
def test_a_player_without_a_score_is_not_found_and_never_rank_0(path: str) -> None:
    async def test() -> None:
        async with whole() as service:
            await filled(service, 2)
            answer = await service.ask("GET", path)
            assert answer.status_code == 404
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["code"] == "not_ranked"

    run(test())


@pytest.mark.parametrize(
    ("word", "period"),
    [
        *(("all-time", "all_time"), ("all_time", "all_time"), ("all", "all_time")),
        *(("daily", "daily"), ("today", "daily"), ("weekly", "weekly"), ("monthly", "monthly")),
    ],
)
def test_windows_go_by_the_words_of_the_texts(word: str, period: str) -> None:
    async def test() -> None:
        async with whole() as service:
            await filled(service, 2)
            for name in ("period", "window"):
                top = await service.told("GET", f"/api/v1/leaderboard/top?{name}={word}")
                assert (top["period"], top["total_players"]) == (period, 2)
            past = await service.told("GET", "/api/v1/leaderboard/top?period=daily:2026-11-16")
            assert past["total_players"] == 2
            empty = await service.told("GET", "/api/v1/leaderboard/top?period=daily:2026-11-20")
            assert (empty["total_players"], empty["players"]) == (0, [])
            unknown = await service.ask("GET", "/api/v1/leaderboard/top?period=yearly")
            assert (unknown.status_code, unknown.json()["code"]) == (404, "unknown_window")

    run(test())


def test_the_first_score_brings_its_board_into_being_and_reading_does_not() -> None:
    async def test() -> None:
        async with whole() as service:
            missing = await service.ask("GET", "/top/10")
            assert (missing.status_code, missing.json()["code"]) == (404, "unknown_board")
            body = {"player_id": 1, "score": 5, "leaderboard_type": "regional"}
            await service.told("POST", "/api/v1/leaderboard/score", body)
            made = await service.told("GET", "/v1/boards/regional")
            assert made["definition"]["windows"] == ["all", "daily", "weekly", "monthly"]
            assert [board["name"] for board in (await service.told("GET", "/v1/boards"))["boards"]]
            top = await service.told("GET", "/api/v1/leaderboard/top?leaderboard_type=regional")
            assert (top["leaderboard_type"], top["total_players"]) == ("regional", 1)

    run(test())


def test_a_board_that_is_defined_keeps_its_own_rules() -> None:
    async def test() -> None:
        async with whole() as service:
            await service.told("PUT", "/v1/boards/global", {"rule": "latest", "windows": ["all"]})
            for score in (10, 3):
                await service.told("POST", "/ingest/score", {"player_id": "a", "score": score})
            assert (await service.told("GET", "/rank/a"))["score"] == 3

    run(test())


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"score": 1}, "player_id"),
        ({"player_id": 1, "user_id": "1", "score": 1}, "user_id"),
        ({"player_id": True, "score": 1}, "player_id"),
        ({"player_id": 1.5, "score": 1}, "player_id"),
        ({"player_id": "", "score": 1}, "player_id"),
        ({"player_id": 2**63, "score": 1}, "player_id"),
        ({"player_id": 1}, "score"),
        ({"player_id": 1, "score": 1, "score_delta": 1}, "score"),
        ({"player_id": 1, "score": "many"}, "score"),
        ({"player_id": 1, "score_delta": "many"}, "score_delta"),
        ({"player_id": 1, "score": 1, "leaderboard_type": "a/b"}, "leaderboard_type"),
        ({"player_id": 1, "score": 1, "leaderboard_type": ".."}, "leaderboard_type"),
        ({"player_id": 1, "score": 1, "timestamp": "yesterday"}, "timestamp"),
        ({"player_id": 1, "score": 1, "ts": -1}, "timestamp"),
        ({"player_id": 1, "score": 1, "match_id": ""}, "match_id"),
        ({"player_id": 1, "score": 1, "game_id": "x" * 3000}, "game_id"),
        ({"player_id": 1, "score": 1, "more": 1}, "more"),
    ],
)
def test_what_is_wrong_is_named_in_the_words_it_came_in(body: dict[str, Any], field: str) -> None:
    async def test() -> None:
        async with whole() as service:
            answer = await service.ask("POST", "/api/v1/leaderboard/score", body)
            assert answer.status_code == 422, answer.text
            assert [wrong["field"] for wrong in answer.json()["errors"]] == [field]
            assert answer.json()["applied"] == "no"

    run(test())


def test_an_idempotency_key_counts_once_too() -> None:
    async def test() -> None:
        async with whole() as service:
            for _ in range(2):
                told = await service.told(
                    "POST", "/api/v1/scores", INCREMENT, idempotency_key="once"
                )
                assert told["new_score"] == 50

    run(test())
