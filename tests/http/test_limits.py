"""Whoever asks too often is told so, and when to come again."""

from typing import Any

import pytest
from tests.http.whole import run, whole

from rankd.api.auth import Actor


def test_too_many_requests_with_a_key_are_answered_429_until_time_has_passed() -> None:
    async def test() -> None:
        async with whole(rate_per_key=0.5, rate_burst=3) as service:
            key = (await service.new_key("admin"))["key"]
            answers = [await service.ask("GET", "/v1/boards", key=key) for _ in range(4)]
            assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
            refused = answers[-1]
            assert refused.headers["retry-after"] == "2"
            assert refused.headers["content-type"] == "application/problem+json"
            assert refused.json()["code"] == "rate_limited"
            assert (await service.ask("GET", "/healthz")).status_code == 200
            service.clock.seconds += 2
            assert (await service.ask("GET", "/v1/boards", key=key)).status_code == 200

    run(test())


def test_a_player_is_counted_whatever_route_its_scores_come_by() -> None:
    async def test() -> None:
        async with whole(rate_per_player=1, rate_burst=2) as service:
            await service.told("PUT", "/v1/boards/global", {})
            score = {"player": "p1", "score": 1}
            await service.told("POST", "/v1/boards/global/scores", score)
            await service.told(
                "POST", "/v1/scores:batch", {"scores": [{"board": "global", **score}]}
            )
            for path, body in (
                ("/v1/boards/global/scores", score),
                ("/v1/scores:batch", {"scores": [{"board": "global", **score}]}),
                ("/ingest/score", {"player_id": "p1", "score": 1}),
            ):
                answer = await service.ask("POST", path, body)
                assert (answer.status_code, answer.json()["applied"]) == (429, "no")
            other = {"player_id": "p2", "score": 1}
            assert (await service.ask("POST", "/ingest/score", other)).status_code == 200

    run(test())


def of_its_player(token: bytes) -> Actor:
    player = token.decode().partition(".")[0]
    return Actor(f"player:{player}", player)


@pytest.mark.parametrize("fast_lane", [True, False], ids=["fast", "asgi"])
def test_each_score_of_a_players_own_batch_is_counted(fast_lane: bool) -> None:
    """Otherwise a batch would be the way round the rate."""

    async def test() -> None:
        rates: dict[str, Any] = {"rate_per_player": 1, "rate_burst": 4, "fast_lane": fast_lane}
        async with whole(token=of_its_player, **rates) as service:
            for board in ("one", "two"):
                await service.told("PUT", f"/v1/boards/{board}", {"writes": "client"})
            before = service.rankd.position

            async def batch(count: int, player: str = "p1", by: str = "p1") -> Any:
                scores = [
                    {"board": ("one", "two")[number % 2], "player": player, "delta": 1}
                    for number in range(count)
                ]
                body = {"scores": scores}
                return await service.ask("POST", "/v1/scores:batch", body, key=f"{by}.x.y")

            answer = await batch(100)
            told = answer.json()
            assert (answer.status_code, told["applied"]) == (422, "no"), "no waiting would help"
            assert [wrong["field"] for wrong in told["errors"]] == ["scores"]
            assert service.rankd.position == before
            assert (await batch(3)).status_code == 200
            answer = await batch(4)
            assert (answer.status_code, answer.json()["applied"]) == (429, "no")
            assert answer.headers["retry-after"] == "3"
            assert service.rankd.position == before + 3
            assert (await batch(1)).status_code == 200, "nothing was taken for what was refused"
            classic = {"player_id": "p1", "score_delta": 1, "leaderboard_type": "one"}
            for path, body in (
                ("/v1/boards/one/scores", {"player": "p1", "delta": 1}),
                ("/ingest/score", classic),
                ("/scores", classic),
                ("/api/v1/scores", classic),
                ("/api/v1/leaderboard/score", classic),
                ("/api/v1/leaderboard/score/increment", classic),
            ):
                answer = await service.ask("POST", path, body, key="p1.x.y")
                assert (answer.status_code, answer.headers["retry-after"]) == (429, "1"), path
            service.clock.seconds += 4
            assert (await batch(4)).status_code == 200

    run(test())


def test_a_token_uses_up_nobody_elses_rate() -> None:
    async def test() -> None:
        async with whole(token=of_its_player, rate_per_player=1, rate_burst=1) as service:
            await service.told("PUT", "/v1/boards/one", {"writes": "client"})
            path, body = "/v1/boards/one/scores", {"player": "p1", "score": 1}
            answer = await service.ask("POST", path, body, key="p2.x.y")
            assert answer.status_code == 403
            assert (await service.ask("POST", path, body, key="p1.x.y")).status_code == 200

    run(test())


def test_behind_a_proxy_of_ours_each_client_is_counted_for_itself() -> None:
    async def test() -> None:
        async with whole(
            rate_per_address=1, rate_burst=2, trusted_proxies=("127.0.0.1",)
        ) as service:
            key = (await service.new_key("admin", key=None))["key"]

            async def status(client: str) -> int:
                answer = await service.ask("GET", "/v1/boards", key=key, x_forwarded_for=client)
                return answer.status_code

            assert [await status("198.51.100.1") for _ in range(3)] == [200, 200, 429]
            assert await status("198.51.100.2") == 200
            assert await status("198.51.100.2, 198.51.100.1") == 429

    run(test())
