"""Reviews over HTTP: the list, one with its evidence, and decisions."""

from typing import Any

import pytest
from tests.unit.api.handling import Working, working

from rankd.api.messages import refusal
from rankd.errors import RuleBroken, UnknownBoard, UnknownReview

pytestmark = pytest.mark.anyio
RULES = [
    {"rule": "gain_per_minute", "max": "50.0", "then": "hold"},
    {"rule": "seconds_between", "min": 0.5, "then": "flag"},
    {"rule": "submissions_per_minute", "max": 9, "then": "refuse"},
]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def scores(at: Working) -> dict[str, Any]:
    page = await at.told("list_standings", {"board": "b"})
    return {one["player"]: str(one["score"]) for one in page["standings"]}


async def held(at: Working) -> Any:
    await at.define(decimals=1, rules=RULES)
    await at.submit("ann", "10.0")
    at.clock.time += 250_000
    await at.submit("ann", "12.5")
    at.clock.time += 2_000_000
    response = await at.ask("submit_score", {"board": "b"}, {"player": "ann", "score": "99.5"})
    assert response.status == 202
    return await at.submit("ann", "99.5", key="k")


async def test_a_held_submission_is_answered_with_its_review() -> None:
    async with working() as at:
        answer = await held(at)
        assert (answer["verdict"], answer["review"]) == ("held", str(answer["position"]))
        assert str(answer["score"]) == "12.5"
        again = await at.submit("ann", "99.5", key="k")
        assert again == {**answer, "duplicate": True}
        batch = {"scores": [{"board": "b", "player": "ann", "score": "99.5"}] * 2}
        results = (await at.told("submit_scores", {}, batch))["results"]
        assert [one["verdict"] for one in results] == ["held", "held"]
        assert results[0]["review"] == str(results[0]["position"])


async def test_reviews_are_listed_and_shown_with_their_evidence() -> None:
    async with working() as at:
        id = (await held(at))["review"]
        listed = await at.told("list_reviews")
        assert [one["state"] for one in listed["reviews"]] == ["held", "held", "flagged"]
        assert (listed["open"], listed["next_before"]) == (2, None)
        flagged = listed["reviews"][-1]
        assert flagged["reasons"] == [
            {"rule": "seconds_between", "observed": flagged["reasons"][0]["observed"], "limit": 0.5}
        ]
        assert str(flagged["reasons"][0]["observed"]) == "0.25"
        page = await at.told("list_reviews", limit=1)
        assert page["next_before"] == int(id)
        rest = await at.told("list_reviews", limit=2, before=page["next_before"], state="held")
        assert [one["state"] for one in rest["reviews"]] == ["held"]
        assert (await at.told("list_reviews", board="b", state="approved"))["reviews"] == []
        with pytest.raises(UnknownBoard):
            await at.ask("list_reviews", board="nowhere")

        one = await at.told("get_review", {"review": id})
        assert str(one["score"]) == "99.5" and one["history"] == "/v1/boards/b/history/ann"
        assert [str(each["score"]) for each in one["evidence"]] == ["99.5", "99.5", "12.5", "10.0"]
        assert {reason["rule"]: str(reason["observed"]) for reason in one["reasons"]} == {
            "gain_per_minute": "89.5",
            "seconds_between": "0",
        }
        for wrong in ("x", "1", "9" * 30):
            with pytest.raises(UnknownReview):
                await at.ask("get_review", {"review": wrong})


async def test_a_decision_tells_its_effect_and_the_first_one_stays() -> None:
    async with working() as at:
        review = {"review": (await held(at))["review"]}
        done = await at.told("approve_review", review, {"reason": "it was filmed"})
        assert (done["state"], done["reason"]) == ("approved", "it was filmed")
        assert [str(one["score"]) for one in done["changes"]] == ["99.5"]
        assert await scores(at) == {"ann": "99.5"}
        again = await at.told("reject_review", review)
        assert (again["state"], again["changes"]) == ("approved", [])
        assert await scores(at) == {"ann": "99.5"}
        with pytest.raises(UnknownReview):
            await at.ask("approve_review", {"review": "1"})


async def test_a_broken_rule_is_named_with_its_numbers() -> None:
    async with working() as at:
        await at.define(rules=[{"rule": "first_score", "max": 5, "then": "refuse"}])
        with pytest.raises(RuleBroken) as refusal:
            await at.submit("ann", 9, key="k")
        (reason,) = refusal.value.reasons
        assert reason[:3] == ("first_score", 9, 5)
        with pytest.raises(RuleBroken, match="first_score is 9, more than 5"):
            await at.submit("ann", 9, key="k")
        batch = {"scores": [{"board": "b", "player": "ann", "score": 9}]}
        (result,) = (await at.told("submit_scores", {}, batch))["results"]
        assert (result["code"], result["applied"]) == ("rule_broken", "no")
        assert result["errors"] == [
            {
                "field": "score",
                "message": "first_score is 9, more than 5",
                "rule": "first_score",
                "observed": 9,
                "limit": 5,
            }
        ]


async def test_a_refusal_has_its_numbers_as_numbers() -> None:
    """As in a batch, in reviews, and in everything else that shows scores."""
    async with working() as at:
        rules = [{"rule": "first_score", "max": 5, "then": "refuse"}]
        await at.define(decimals=1, rules=rules)
        with pytest.raises(RuleBroken) as refused:
            await at.submit("ann", "9.5")
        problem = refusal(refused.value, request_id="r")
        assert b'"observed":9.5,"limit":5.0' in problem.body


async def test_rules_are_previewed_without_a_change() -> None:
    async with working() as at:
        await at.define(decimals=1)
        await at.submit("ann", "9.5")
        definition = {"decimals": 1, "rules": [{"rule": "first_score", "max": 5, "then": "hold"}]}
        head = at.service.rankd.position
        found = await at.told("put_board", {"board": "b"}, definition, preview="rules")
        assert (found["submissions"], found["caught"], found["through"]) == (1, 1, head)
        (rule,) = found["rules"]
        assert (rule["rule"], rule["then"], rule["caught"]) == ("first_score", "hold", 1)
        (example,) = rule["examples"]
        assert (example["player"], str(example["observed"])) == ("ann", "9.5")
        assert at.service.rankd.position == head
        with pytest.raises(UnknownBoard):
            await at.ask("put_board", {"board": "new"}, definition, preview="rules")
