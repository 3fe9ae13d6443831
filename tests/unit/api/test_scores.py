"""Submitting: keys in headers, batches, and whom a player's token submits for."""

from typing import Any

import pytest
from tests.unit.api.handling import Working, working

from rankd.api import scores
from rankd.api.auth import Actor, Authenticator
from rankd.errors import (
    Forbidden,
    InvalidRequest,
    InvalidSubmission,
    RankdError,
    SubmissionKeyReused,
    SubmissionRejected,
    UnknownBoard,
)

pytestmark = pytest.mark.anyio
B = {"board": "b"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def batch(at: Working, *items: Any) -> list[Any]:
    results: list[Any] = (await at.told("submit_scores", None, {"scores": items}))["results"]
    return results


# ------------------------------------------------------------------------------- keys


@pytest.mark.parametrize("header", ["k", '"k"'])
async def test_a_key_in_the_header_is_the_key_of_the_body(header: str) -> None:
    async with working() as at:
        await at.define(rule="sum")
        body, headers = {"player": "p", "score": 1}, {"Idempotency-Key": header}
        first = await at.told("submit_score", B, body, headers)
        assert "duplicate" not in first
        for repeated in (
            await at.told("submit_score", B, body, headers),
            await at.told("submit_score", B, {**body, "key": "k"}),
            await at.told("submit_score", B, {**body, "key": "k"}, headers),
            await at.told("submit_score", B, {**body, "score": "1"}, headers),
        ):
            assert repeated == {**first, "duplicate": True}
        with pytest.raises(SubmissionKeyReused):
            await at.ask("submit_score", B, {**body, "score": 2}, headers)


async def test_two_keys_for_one_submission_are_refused() -> None:
    async with working() as at:
        await at.define()
        with pytest.raises(InvalidRequest) as refused:
            await at.ask(
                "submit_score",
                B,
                {"player": "p", "score": 1, "key": "k"},
                {"Idempotency-Key": "other"},
            )
        assert [wrong.field for wrong in refused.value.errors] == ["key"]
        with pytest.raises(InvalidSubmission):
            await at.ask("submit_score", B, {"player": "p", "score": 1}, {"Idempotency-Key": '""'})
        assert at.service.rankd.position == 1


# ------------------------------------------------------------------------- refusals


async def test_what_counts_nowhere_is_refused_with_the_reason_in_words() -> None:
    async with working() as at:
        await at.define(rule="sum", limits={"score_max": 10})
        with pytest.raises(SubmissionRejected) as refused:
            await at.submit("p", 11)
        assert refused.value.reason == "score_out_of_bounds"
        with pytest.raises(UnknownBoard):
            await at.submit("p", 1, "none")


async def test_a_batch_answers_each_in_its_place() -> None:
    async with working() as at:
        await at.define(rule="sum", limits={"score_max": 10})
        results = await batch(
            at,
            {"board": "b", "player": "p", "score": 4, "key": "k"},
            {"board": "none", "player": "p", "score": 4},
            {"board": 5, "player": "p", "score": 4},
            {"player": "p", "score": 4},
            {"board": "b", "player": "", "score": "x"},
            {"board": "b", "player": "p", "score": 7},
            {"board": "b", "player": "p", "score": 4, "key": "k"},
            {"board": "b", "player": "p", "score": 5, "key": "k"},
            {"board": "b", "player": "p", "score": 6},
        )
        said = [each.get("code", each["verdict"]) for each in results]
        assert said == [
            "counted",
            "unknown_board",
            "unknown_board",
            "unknown_board",
            "invalid_submission",
            "submission_rejected",
            "counted",
            "key_reused",
            "counted",
        ]
        assert results[6] == {**results[0], "duplicate": True}
        assert results[8]["score"] == 10
        wrong = [error["field"] for error in results[4]["errors"]]
        assert sorted(wrong) == ["player", "score"]
        assert all(each["applied"] == "no" for each in results if each["verdict"] == "refused")


@pytest.mark.parametrize("count", [0, 3])
async def test_a_batch_has_so_many_at_least_and_at_most(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scores, "BATCH_SCORES_MAX", 2)
    async with working() as at:
        await at.define()
        item = {"board": "b", "player": "p", "score": 1}
        with pytest.raises(InvalidRequest) as refused:
            await batch(at, *[item] * count)
        assert [wrong.field for wrong in refused.value.errors] == ["scores"]
        assert len(await batch(at, item, item)) == 2


# ------------------------------------------------------------------------------ players


async def test_a_token_submits_for_its_player_alone_and_where_clients_may() -> None:
    async with working() as at:
        await at.define("open", writes="client")
        await at.define("closed")
        state = at.service.rankd.state
        token = {"authorization": "Bearer a.b.c"}
        at.service.auth = Authenticator(
            lambda: state, loopback=True, token=lambda _: Actor("player:p", player="p")
        )

        async def refused(board: str, player: str) -> type[RankdError] | None:
            body = {"player": player, "score": 1}
            try:
                await at.ask("submit_score", {"board": board}, body, token)
                items = {"scores": [{"board": board, **body}]}
                await at.ask("submit_scores", None, items, token)
            except RankdError as error:
                single = type(error)
                with pytest.raises(single):
                    items = {"scores": [{"board": board, **body}]}
                    await at.ask("submit_scores", None, items, token)
                return single
            return None

        assert await refused("open", "p") is None
        assert await refused("open", "q") is Forbidden
        assert await refused("closed", "p") is Forbidden
        both = {"scores": [{"board": "open", "player": who, "score": 1} for who in ("p", "q")]}
        with pytest.raises(Forbidden):
            await at.ask("submit_scores", None, both, token)
        assert (await at.told("list_standings", {"board": "open"}))["total"] == 1
