"""Whoever asks too often is told so, and when to come again."""

from tests.http.whole import run, whole


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
