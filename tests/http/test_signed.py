"""Runs, signatures and ``writes`` over HTTP: every combination of what a submission comes with.

The table is that of docs/keys.md. Each cell is asked in both lanes, and every counted submission is
sent a second time: a run and a signature count once.
"""

import asyncio
import json
import logging
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx
import pytest
from tests.http.test_authorisation import reader, token
from tests.http.whole import NOON, Whole, run, whole

from rankd.api.messages import Request
from rankd.api.scores import plan_submission
from rankd.signatures import SigningKey, new_private_key, public_key_of

if TYPE_CHECKING:
    from collections.abc import Mapping

SECONDS = NOON // 1_000_000
PATH = "/v1/boards/{}/scores"
LANES = pytest.mark.parametrize("fast_lane", [True, False], ids=["fast", "asgi"])
WRITES = ("server", "signed", "client")


class Signer(NamedTuple):
    """A signing key, and the service it is for."""

    service: Whole
    key: SigningKey
    id: str

    async def send(
        self,
        body: Any,
        *,
        board: str = "b",
        path: str | None = None,
        at: int = SECONDS,
        sent: bytes | None = None,
        bearer: str | None = None,
        **headers: str,
    ) -> httpx.Response:
        """Send a signed submission; ``sent`` is a body other than the one that was signed."""
        path = path or PATH.format(board)
        content = json.dumps(body).encode()
        more = {
            "content-type": "application/json",
            "rankd-signature": self.key.header("POST", path, content, time=at),
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        if bearer is not None:
            more["authorization"] = f"Bearer {bearer}"
        return await self.service.http.post(path, content=sent or content, headers=more)


async def signer(service: Whole, admin: str | None, algorithm: str = "hmac", **more: Any) -> Signer:
    private = new_private_key()
    asked = {"signing": algorithm, **more}
    if algorithm == "ed25519":
        asked["public_key"] = public_key_of(private)
    made = await service.told("POST", "/v1/keys", asked, key=admin)
    secret = private if algorithm == "ed25519" else made["key"]
    return Signer(service, SigningKey(made["id"], secret), made["id"])


async def boards(service: Whole, admin: str | None, **definition: Any) -> None:
    for writes in WRITES:
        body = {"writes": writes, "rule": "sum"} | definition
        await service.told("PUT", f"/v1/boards/{writes}", body, key=admin)


def code_of(answer: httpx.Response) -> str:
    told: Mapping[str, Any] = answer.json()
    assert answer.is_success == ("code" not in told), answer.text
    return "" if answer.is_success else f"{answer.status_code} {told['code']}"


NO, UNKNOWN, BAD = "403 forbidden", "401 unauthenticated", "401 bad_signature"
USED, WRONG_RUN, EXPIRED, EARLY = (
    "409 run_used",
    "422 run_invalid",
    "422 run_expired",
    "422 run_too_early",
)

TABLE: dict[str, tuple[str, str, str]] = {
    "key": ("", "", ""),
    "key, run": ("", "", ""),
    "key, signature": ("", "", ""),
    "key, revoked signature": (BAD, BAD, BAD),
    "key, used run": (USED, USED, USED),
    "key for another board": (NO, NO, NO),
    "revoked key": (UNKNOWN, UNKNOWN, UNKNOWN),
    "revoked key, signature": (UNKNOWN, UNKNOWN, UNKNOWN),
    "token": (NO, NO, ""),
    "token of another": (NO, NO, NO),
    "token of another, run": (NO, NO, NO),
    "token of another, signature": (NO, NO, NO),
    "expired token, run": (UNKNOWN, UNKNOWN, UNKNOWN),
    "token, run": (NO, "", ""),
    "token, used run": (NO, USED, USED),
    "token, expired run": (NO, EXPIRED, EXPIRED),
    "token, early run": (NO, EARLY, EARLY),
    "token, run of another board": (NO, WRONG_RUN, WRONG_RUN),
    "token, run of another player": (NO, WRONG_RUN, WRONG_RUN),
    "token, signature": (NO, "", ""),
    "token, ed25519 signature": (NO, "", ""),
    "token, signature of another body": (NO, BAD, BAD),
    "token, old signature": (NO, BAD, BAD),
    "token, signature from the future": (NO, BAD, BAD),
    "token, revoked signature": (NO, BAD, BAD),
    "token, expired signature": (NO, BAD, BAD),
    "token, signature for another board": (NO, BAD, BAD),
    "run alone": (UNKNOWN, UNKNOWN, UNKNOWN),
    "signature alone": (UNKNOWN, UNKNOWN, UNKNOWN),
}


class Cell:
    """A submission to one board, with everything it may come with."""

    def __init__(self, service: Whole, admin: str, board: str) -> None:
        self.service, self.admin, self.board = service, admin, board
        self.body: dict[str, Any] = {"player": "p1", "score": 1}

    async def send(self, how: str) -> httpx.Response:
        with_, _, by = how.partition(", ")
        bearer = await self.bearer(with_)
        signed = with_ if with_.startswith("signature") else by if "signature" in by else ""
        if "run" in (by if by else with_):
            self.body["run"] = await self.run(by or with_)
        if not signed:
            return await self.service.ask("POST", PATH.format(self.board), self.body, key=bearer)
        return await self.signed(signed, bearer)

    async def bearer(self, with_: str) -> str | None:
        if "token" in with_:
            player = "p2" if "another" in with_ else "p1"
            return token(player, **({"exp": 1} if "expired" in with_ else {}))
        if "key" not in with_:
            return None
        board = "elsewhere" if "another" in with_ else self.board
        made = await self.service.new_key("submit", boards=[board], key=self.admin)
        if "revoked" in with_:
            await self.service.told("DELETE", f"/v1/keys/{made['id']}", key=self.admin)
        return str(made["key"])

    async def run(self, by: str) -> str:
        board = "other" if "another board" in by else self.board
        player = "p3" if "another player" in by else "p1"
        path = f"/v1/boards/{board}/runs"
        started = await self.service.told("POST", path, {"player": player}, key=self.admin)
        clock = self.service.clock
        if "early" not in by:
            clock.instant += 10_000_000
        if "expired" in by:
            clock.instant += 60_000_000
        run: str = started["run"]
        if "used" in by:
            body = {**self.body, "run": run}
            await self.service.told("POST", PATH.format(self.board), body, key=self.admin)
        return run

    async def signed(self, by: str, bearer: str | None) -> httpx.Response:
        more: dict[str, Any] = {}
        if "another board" in by:
            more["boards"] = ["other"]
        if "expired" in by:
            more["expires"] = "1d"
        algorithm = "ed25519" if "ed25519" in by else "hmac"
        one = await signer(self.service, self.admin, algorithm, **more)
        if "revoked" in by:
            await self.service.told("DELETE", f"/v1/keys/{one.id}", key=self.admin)
        now = self.service.clock.instant // 1_000_000
        if "expired" in by:
            self.service.clock.instant += 86_400_000_000
            now += 86_400
        at = now - 301 if "old" in by else now + 301 if "future" in by else now
        sent = b'{"player": "p1", "score": 9}' if "body" in by else None
        return await one.send(self.body, board=self.board, at=at, sent=sent, bearer=bearer)


@LANES
@pytest.mark.parametrize("how", TABLE)
def test_every_combination_is_answered_as_the_table_says(how: str, fast_lane: bool) -> None:
    async def test() -> None:
        async with whole(token=reader().read, fast_lane=fast_lane) as service:
            admin = (await service.new_key("admin"))["key"]
            await boards(service, admin, runs={"seconds_min": 10, "seconds_max": 60})
            other = {"runs": {"seconds_min": 10, "seconds_max": 60}}
            await service.told("PUT", "/v1/boards/other", other, key=admin)
            for board, expected in zip(WRITES, TABLE[how], strict=True):
                before = service.rankd.position
                answer = await Cell(service, admin, board).send(how)
                assert code_of(answer) == expected, (how, board, answer.text)
                if expected and "run" not in how:
                    assert answer.json()["applied"] == "no"
                if expected[:3] in ("401", "403", "422") and "run" not in how:
                    facts = await service.rankd._ledger.read(after=before, limit=100)
                    kinds = {one.fact.kind for one in facts}
                    assert "score_submitted.1" not in kinds, "it is not recorded"

    run(test())


# -------------------------------------------------------------------------------- replays


@LANES
@pytest.mark.parametrize("algorithm", ["hmac", "ed25519"])
@pytest.mark.parametrize("key", [None, "k"])
def test_a_signed_request_that_is_sent_again_counts_once(
    algorithm: str, key: str | None, fast_lane: bool
) -> None:
    async def test() -> None:
        async with whole(fast_lane=fast_lane) as service:
            await boards(service, None)
            one = await signer(service, None, algorithm)
            body = {"player": "p", "score": 5, **({"key": key} if key else {})}
            first = (await one.send(body, board="signed")).json()
            service.clock.instant += 300_000_000
            for _ in range(3):
                again = (await one.send(body, board="signed")).json()
                assert again == {**first, "duplicate": True}
            service.clock.instant += 1_000_000
            assert code_of(await one.send(body, board="signed")) == BAD
            resigned = await one.send(body, board="signed", at=SECONDS + 301)
            counted = 5 if key else 10
            page = await service.told("GET", "/v1/boards/signed/standings")
            assert [row["score"] for row in page["standings"]] == [counted]
            assert ("duplicate" in resigned.json()) == bool(key)

    run(test())


@LANES
def test_a_replay_with_another_idempotency_key_is_refused(fast_lane: bool) -> None:
    async def test() -> None:
        async with whole(fast_lane=fast_lane) as service:
            await boards(service, None)
            one = await signer(service, None)
            for path, name in ((PATH.format("signed"), "player"), ("/ingest/score", "player_id")):
                body = {name: "p", "score": 5}
                if name == "player_id":
                    body["leaderboard_type"] = "signed"
                assert (await one.send(body, path=path)).is_success
                answer = await one.send(body, path=path, idempotency_key="another")
                assert code_of(answer) == "422 invalid"
                assert "signed" in answer.json()["errors"][0]["message"]
            body = {"player": "p", "score": 5, "key": "k"}
            for _ in range(2):
                answer = await one.send(body, board="signed", idempotency_key="k")
                assert answer.is_success
            page = await service.told("GET", "/v1/boards/signed/standings")
            assert [row["score"] for row in page["standings"]] == [15]

    run(test())


@LANES
def test_a_batch_is_signed_as_a_whole(fast_lane: bool) -> None:
    async def test() -> None:
        async with whole(token=reader().read, fast_lane=fast_lane) as service:
            admin = (await service.new_key("admin"))["key"]
            await boards(service, admin, rule="latest")
            one = await signer(service, admin, boards=["signed", "client"])
            scores = [
                {"board": board, "player": "p1", "score": 2**n}
                for n, board in enumerate(("signed", "client", "signed"))
            ]
            batch, path = {"scores": scores}, "/v1/scores:batch"
            mine = token("p1")
            assert (await service.ask("POST", path, batch, key=mine)).status_code == 403
            for _ in range(2):
                answer = await one.send(batch, path=path, bearer=mine)
                assert [item["score"] for item in answer.json()["results"]] == [1, 2, 4]
            wrong = {"scores": [*scores, {"board": "server", "player": "p1", "score": 1}]}
            assert (await one.send(wrong, path=path, bearer=admin)).status_code == 401
            tampered = json.dumps({"scores": scores[:1]}).encode()
            answer = await one.send(batch, path=path, sent=tampered, bearer=admin)
            assert code_of(answer) == BAD

    run(test())


@LANES
def test_a_signed_request_like_many_plain_ones_is_checked(fast_lane: bool) -> None:
    """What answers plain submissions without their handler must not overlook the header."""

    async def test() -> None:
        async with whole(fast_lane=fast_lane) as service:
            await service.told("PUT", "/v1/boards/b", {})
            one = await signer(service, None)
            body = {"player": "p", "score": 1}
            content = json.dumps(body).encode()
            for _ in range(4):
                for _ in range(3):
                    await service.told("POST", PATH.format("b"), body)
                assert code_of(await one.send(body, sent=content + b" ")) == BAD
                assert (await one.send(body)).is_success, "counts at the first turn only"
                answer = await service.ask(
                    "POST", PATH.format("b"), body, rankd_signature="nonsense"
                )
                assert code_of(answer) == BAD
            history = await service.told("GET", "/v1/boards/b/history/p")
            assert len(history["facts"]) == 4 * 3 + 1

    run(test())


def test_two_signatures_are_none() -> None:
    async def test() -> None:
        async with whole() as service:
            await service.told("PUT", "/v1/boards/b", {})
            one = await signer(service, None)
            body = b'{"player": "p", "score": 1}'
            header = one.key.header("POST", PATH.format("b"), body, time=SECONDS)
            answer = await service.http.post(
                PATH.format("b"),
                content=body,
                headers=[
                    ("content-type", "application/json"),
                    ("rankd-signature", header),
                    ("rankd-signature", header),
                ],
            )
            assert code_of(answer) == "400 malformed"

    run(test())


def test_the_log_says_why_a_signature_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def test() -> None:
        async with whole() as service:
            await service.told("PUT", "/v1/boards/b", {})
            one = await signer(service, None)
            body = {"player": "p", "score": 1}
            for made, why in (
                (one.send(body, at=SECONDS - 301), "another time"),
                (one.send(body, sent=b"{}"), "does not fit"),
                (one.send(body, rankd_signature="x"), "is not written"),
            ):
                answer = await made
                assert code_of(answer) == BAD
                assert why not in answer.text
                assert why in caplog.text

    run(test())


# ----------------------------------------------------------------------------------- runs


@LANES
def test_a_player_starts_runs_for_itself_where_players_may_submit(fast_lane: bool) -> None:
    async def test() -> None:
        async with whole(token=reader().read, fast_lane=fast_lane) as service:
            admin = (await service.new_key("admin"))["key"]
            await boards(service, admin)

            async def start(board: str, player: Any, **more: Any) -> str:
                path = f"/v1/boards/{board}/runs"
                answer = await service.ask("POST", path, {"player": player}, **more)
                return code_of(answer)

            mine = token("p1")
            assert [await start(board, "p1", key=mine) for board in WRITES] == [NO, "", ""]
            assert [await start(board, "p2", key=mine) for board in WRITES] == [NO, NO, NO]
            assert [await start(board, "p2", key=admin) for board in WRITES] == ["", "", ""]
            assert await start("nowhere", "p1", key=admin) == "404 unknown_board"
            assert await start("signed", "", key=admin) == "422 invalid_profile"
            assert await start("signed", 7, key=admin) == "422 invalid"
            assert await start("signed", "p1") == UNKNOWN

    run(test())


def test_a_run_has_its_token_its_seed_and_its_times() -> None:
    async def test() -> None:
        async with whole() as service:
            await service.told("PUT", "/v1/boards/b", {"runs": {"seconds_min": 30}})
            told = await service.told("POST", "/v1/boards/b/runs", {"player": "p"})
            assert set(told) == {"run", "seed", "not_before", "expires_at"}
            assert told["not_before"] == "2026-11-16T12:00:30Z"
            assert told["expires_at"] == "2026-11-16T13:00:00Z"
            board = await service.told("GET", "/v1/boards/b")
            assert board["definition"]["runs"] == {
                "seconds_min": 30,
                "seconds_max": 3600,
                "required": False,
            }

    run(test())


@LANES
def test_a_run_that_races_counts_once(fast_lane: bool) -> None:
    async def test() -> None:
        async with whole(fast_lane=fast_lane) as service:
            await service.told("PUT", "/v1/boards/b", {"rule": "sum"})
            run = (await service.told("POST", "/v1/boards/b/runs", {"player": "p"}))["run"]
            body = {"player": "p", "score": 1, "run": run}
            answers = await asyncio.gather(
                *(service.ask("POST", PATH.format("b"), body) for _ in range(20))
            )
            codes = [code_of(answer) for answer in answers]
            assert sorted(codes) == [""] + 19 * [USED]
            again = await service.ask("POST", PATH.format("b"), body)
            assert again.json()["applied"] == "no"

    run(test())


# ----------------------------------------------------------------------------------- keys


def test_signing_keys_are_made_listed_and_revoked() -> None:
    async def test() -> None:
        async with whole() as service:
            hmac = await service.told("POST", "/v1/keys", {"signing": "hmac", "title": "match"})
            assert hmac["key"].startswith("rks_") and hmac["scopes"] == []
            public = public_key_of(new_private_key())
            asked = {"signing": "ed25519", "public_key": public, "boards": ["b"]}
            ed = await service.told("POST", "/v1/keys", asked)
            assert "key" not in ed and ed["public_key"] == public
            assert (await service.ask("GET", "/v1/boards")).status_code == 200, "it opens nothing"
            answer = await service.ask("GET", "/v1/boards", key=hmac["key"])
            assert answer.status_code == 401
            listed = (await service.told("GET", "/v1/keys"))["keys"]
            assert [one["signing"] for one in listed] == ["hmac", "ed25519"]
            assert hmac["key"] not in json.dumps(listed)
            facts = await service.told("GET", "/v1/facts")
            assert hmac["key"][4:12] not in json.dumps(facts)
            await service.told("PUT", "/v1/boards/b", {})
            one = Signer(service, SigningKey(hmac["id"], hmac["key"]), hmac["id"])
            assert (await one.send({"player": "p", "score": 1})).is_success
            listed = (await service.told("GET", "/v1/keys"))["keys"]
            assert listed[0]["last_used"] == "2026-11-16T12:00:00Z"
            await service.told("DELETE", f"/v1/keys/{hmac['id']}")
            assert code_of(await one.send({"player": "p", "score": 1})) == BAD
            assert (await service.ask("DELETE", f"/v1/keys/{hmac['id']}")).status_code == 404

    run(test())


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"signing": "rsa"}, "signing"),
        ({"signing": "run"}, "signing"),
        ({"signing": "hmac", "scopes": ["submit"]}, "scopes"),
        ({"signing": "hmac", "public_key": "A" * 43}, "public_key"),
        ({"signing": "ed25519"}, "public_key"),
        ({"signing": "ed25519", "public_key": "A" * 42}, "public_key"),
        ({"scopes": ["admin"], "public_key": "A" * 43}, "public_key"),
        ({"scopes": []}, "scopes"),
        ({}, "scopes"),
    ],
)
def test_a_wrong_signing_key_is_told(asked: dict[str, Any], field: str) -> None:
    async def test() -> None:
        async with whole() as service:
            answer = await service.ask("POST", "/v1/keys", asked)
            assert code_of(answer) == "422 invalid"
            assert [one["field"] for one in answer.json()["errors"]] == [field]

    run(test())


# ------------------------------------------------------------------------------ verifiers


@LANES
def test_a_program_verifies_scores_over_http(fast_lane: bool) -> None:
    async def test() -> None:
        async with whole(fast_lane=fast_lane) as service:
            await service.told("PUT", "/v1/boards/b", {"verifier": {"name": "replay"}})
            for number in range(3):
                body = {"player": f"p{number}", "score": number, "metadata": {"moves": [number]}}
                answer = await service.ask("POST", PATH.format("b"), body)
                assert (answer.status_code, answer.json()["verdict"]) == (202, "held")
            scores = [{"board": "b", "player": "p3", "score": 3}]
            batch = await service.told("POST", "/v1/scores:batch", {"scores": scores})
            assert [item["verdict"] for item in batch["results"]] == ["held"]
            page = await service.told("GET", "/v1/reviews?board=b&state=held")
            assert [row["reasons"][0]["rule"] for row in page["reviews"]] == ["verifier"] * 4
            for row in page["reviews"]:
                verb = "approve" if row["player"] in ("p1", "p3") else "reject"
                await service.told("POST", f"/v1/reviews/{row['id']}:{verb}", {"reason": "played"})
            standings = await service.told("GET", "/v1/boards/b/standings")
            assert [row["player"] for row in standings["standings"]] == ["p3", "p1"]

    run(test())


@pytest.mark.parametrize("header", [b"rankd-signature", b"idempotency-key"])
def test_no_plan_answers_a_request_with_a_header_for_one_submission(header: bytes) -> None:
    async def test() -> None:
        async with whole() as service:
            await service.told("PUT", "/v1/boards/b", {})
            context: Any = SimpleNamespace(rankd=service.rankd, writer=service.rankd)
            headers = {b"content-type": b"application/json"}
            asked = Request("POST", PATH.format("b"), {"board": "b"}, {}, headers)
            assert plan_submission(context, asked) is not None
            asked.headers = {**headers, header: b"t=1"}
            assert plan_submission(context, asked) is None

    run(test())
