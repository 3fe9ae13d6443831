"""Who may ask, how often, and what is noted of it, is looked at with each request, known or not."""

import math
from collections import Counter
from typing import Any

import pytest
from tests.http.lanes import (
    AROUND,
    BOARD,
    PLAIN,
    SCORES,
    STANDING,
    fill,
    get,
    new_key,
    post,
    served,
    status,
)
from tests.http.running import run

from rankd.api import auth, fast_lane
from rankd.api.auth import Actor
from rankd.errors import Unauthenticated

# ----------------------------------------------------------------- limits, the log, tokens


@pytest.mark.parametrize("limit", ["rate_per_address", "rate_per_player", "rate_per_key"])
def test_requests_answered_by_a_plan_are_counted_and_refused(limit: str) -> None:
    async def hurry() -> None:
        limits: dict[str, Any] = {limit: 0.5, "rate_burst": 3}
        async with served(**limits) as service:
            await service.rankd.submit("b", [("p1", 5)])
            _, key = await new_key(service.rankd, "admin")
            line = service.fast.connect()
            reads = [status(await line.ask(get("p1", authorization=key))) for _ in range(5)]
            assert service.looked["get_standing"] == 1
            score = post({"player": "p1", "score": 6}, authorization=key)
            writes = [status(await line.ask(score)) for _ in range(5)]
            per_player = limit == "rate_per_player"
            assert service.looked["submit_score"] == (1 if per_player else 5)
            assert reads == [200] * 5 if per_player else [200, 200, 200, 429, 429]
            assert writes == [200, 200, 200, 429, 429] if per_player else [429] * 5

    run(hurry())


def test_each_request_is_logged_where_that_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    async def ask() -> None:
        async with served(access_log=True) as service:
            await service.rankd.submit("b", [("p1", 5)])
            line = service.fast.connect()
            for _ in range(3):
                await line.ask(get("p1"))
                await line.ask(get("p1", AROUND))
                await line.ask(post({"player": "p1", "score": 6}))

    run(ask())
    lines = [
        f"127.0.0.1 GET {BOARD}/standings/p1 200",
        f"127.0.0.1 GET {BOARD}/standings/p1/around 200",
        f"127.0.0.1 POST {SCORES} 200",
    ]
    errors = capsys.readouterr().err.splitlines()
    told = [line.partition(" rankd.access: ")[2] for line in errors if "rankd.access" in line]
    assert [line.rpartition(" ")[0] for line in told] == lines * 3
    assert len({line.rpartition(" ")[2] for line in told}) == len(told), "each has a name"


class Tokens:
    """Players' tokens as a reader of them has them: good until they are not."""

    def __init__(self) -> None:
        self.good = {b"one.of.p1": "p1", b"one.of.p2": "p2"}
        self.verified: Counter[bytes] = Counter()

    def __call__(self, shown: bytes) -> Actor:
        if shown not in self.good:
            raise Unauthenticated("the token is over")
        self.verified[shown] += 1
        player = self.good[shown]
        return Actor(f"player:{player}", player, until=EXPIRES if player == "p1" else math.inf)


EXPIRES = 2_000_000.0


def test_plans_answer_a_token_until_it_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [EXPIRES - 1]
    for module in (auth, fast_lane):
        monkeypatch.setattr(module, "time", lambda: now[0])

    async def expire() -> None:
        tokens = Tokens()
        async with served({"writes": "client"}, tokens) as service:
            await service.rankd.submit("b", [("p1", 5), ("p2", 6)])
            line = service.fast.connect()
            one, two = {"authorization": "Bearer one.of.p1"}, {"authorization": "Bearer one.of.p2"}
            own = {"player": "p1", "score": 10}
            for _ in range(3):
                for headers in (one, two):
                    assert status(await line.ask(get("p1", **headers))) == 200
                    assert await service.at_once(get("p1", **headers))
                assert status(await line.ask(post(own, **one))) == 200
                assert status(await line.ask(post(own, **two))) == 403
            assert service.looked["submit_score"] == 6
            assert set(tokens.verified.values()) == {1}
            del tokens.good[b"one.of.p1"]
            now[0] = EXPIRES
            for sent in (get("p1", **one), get("p1", AROUND, **one), post(own, **one)):
                assert status(await line.ask(sent)) == 401
            assert status(await line.ask(get("p1", **two))) == 200

    run(expire())


def test_a_key_with_two_points_is_read_as_a_token_only_where_there_are_tokens() -> None:
    async def ask() -> None:
        async with served() as service:
            await service.rankd.submit("b", [("p1", 5)])
            sent = get("p1", authorization="Bearer one.of.p1")
            for _ in range(3):
                assert status(await service.same(sent)) == 401

    run(ask())


# ----------------------------------------------------------------------------------- keys


def test_a_revoked_key_opens_nothing_from_the_next_request_on() -> None:
    async def revoke() -> None:
        async with served() as service:
            await fill(service.rankd)
            _, kept = await new_key(service.rankd, "admin")
            id, shown = await new_key(service.rankd, "read")
            line = service.fast.connect()
            asked = [get("p1", ask, authorization=shown) for ask in (STANDING, AROUND)]
            for sent in asked:
                assert status(await line.ask(sent)) == 200
                assert await service.at_once(sent)
            assert not await service.at_once(get("p1", authorization=f"{shown}x"))
            assert status(await line.ask(get("p1"))) == 401
            await service.rankd.revoke_key(id)
            for sent in asked:
                assert status(await line.ask(sent)) == 401
                assert await service.same(sent)
            assert status(await line.ask(get("p1", authorization=kept))) == 200

    run(revoke())


def test_a_key_is_the_actor_of_what_is_taken_with_it() -> None:
    async def compare() -> None:
        async with served() as service:
            id, shown = await new_key(service.rankd, "submit")
            line = service.fast.connect()
            for number in range(3):
                score = post({"player": "p1", "score": number}, authorization=shown)
                assert status(await line.ask(score)) == 200
            assert service.looked["submit_score"] == 1
            facts = await service.ledger.read(after=service.rankd.position - 3, limit=3)  # type: ignore[arg-type]
            assert [one.fact.actor for one in facts] == [id] * 3  # type: ignore[attr-defined]

    run(compare())


def test_who_may_not_submit_is_told_so_however_often() -> None:
    async def refuse() -> None:
        async with served() as service:
            _, admin = await new_key(service.rankd, "admin")
            id, submits = await new_key(service.rankd, "submit")
            _, reads = await new_key(service.rankd, "read")
            line = service.fast.connect()

            async def statuses(**headers: str) -> list[int]:
                sent = post(PLAIN, **headers)
                assert await service.other.ask(sent) == await line.ask(sent)
                return [status(await line.ask(sent)) for _ in range(2)]

            for _ in range(2):
                assert await statuses() == [401, 401]
                assert await statuses(authorization="Bearer none") == [401, 401]
                assert await statuses(authorization=reads) == [403, 403]
            sent = post(PLAIN, authorization=submits)
            assert [status(await line.ask(sent)) for _ in range(3)] == [200] * 3
            await service.rankd.revoke_key(id)
            assert await statuses(authorization=submits) == [401, 401]
            assert status(await line.ask(post(PLAIN, authorization=admin))) == 200

    run(refuse())


def test_the_first_key_ends_what_anybody_could_submit() -> None:
    async def lock() -> None:
        async with served() as service:
            line = await service.know(post(PLAIN))
            assert status(await line.ask(post(PLAIN))) == 200
            await new_key(service.rankd, "admin")
            assert [status(await line.ask(post(PLAIN))) for _ in range(2)] == [401, 401]

    run(lock())
