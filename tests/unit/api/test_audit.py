"""Histories and the audit trail."""

from decimal import Decimal
from hashlib import sha256
from typing import Any

import pytest
from tests.unit.api.handling import Working, working
from tests.unit.core.doubles import HOUR

from rankd.api import audit
from rankd.core.audit_index import AuditIndex
from rankd.errors import LedgerUnavailable, UnknownBoard
from rankd.model.facts import KeyCreated, Position, ScoreSubmitted
from rankd.model.window import Instant

pytestmark = pytest.mark.anyio
B = {"board": "b"}
P = {"board": "b", "player": "p"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def history(at: Working, **query: int) -> list[tuple[str, int]]:
    told = await at.told("player_history", P, **query)
    return [(str(item["score"]), item["position"]) for item in told["facts"]]


async def test_what_was_sent_under_another_definition_keeps_its_size() -> None:
    async with working() as at:
        await at.define(rule="latest")
        first = (await at.submit("p", 15))["position"]
        await at.told("put_board", B, {"rule": "latest", "decimals": 1}, apply=True)
        second = (await at.submit("p", "1.5"))["position"]
        assert await history(at) == [("1.5", second), ("15", first)]


async def test_what_a_retired_board_of_the_name_was_sent_is_not_this_ones() -> None:
    async with working() as at:
        await at.define(decimals=2)
        await at.submit("p", "9.99")
        await at.ask("retire_board", B)
        with pytest.raises(UnknownBoard):
            await at.ask("player_history", P)
        await at.define(rule="sum")
        mine = (await at.submit("p", 3))["position"]
        assert await history(at) == [("3", mine)]
        assert (await at.told("player_history", P))["next_before"] is None


async def test_a_history_goes_on_where_a_page_of_it_ended() -> None:
    async with working() as at:
        await at.define(rule="sum")
        for score in range(5):
            await at.submit("p", score)
            await at.submit("other", score)
        whole = await history(at)
        assert [score for score, _ in whole] == ["4", "3", "2", "1", "0"]
        first = await at.told("player_history", P, limit=2)
        assert first["next_before"] == whole[1][1]
        assert await history(at, before=first["next_before"]) == whole[2:]
        assert await history(at, before=1) == []
        assert await history(at, before=10**9) == whole


async def test_one_answer_looks_at_so_many_facts_and_the_next_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(audit, "SCANNED_FACTS_MAX", 4)
    monkeypatch.setattr(audit, "READ_FACTS", 2)
    async with working() as at:
        await at.define(rule="sum")
        rare = (await at.submit("p", 1))["position"]
        for _ in range(10):
            await at.submit("other", 1)
        await at.ask("put_player", {"player": "p"}, {"name": "Ann"})
        assert await facts_by_page(at, kind="score_submitted", actor="nobody") == [[], [], [], []]
        told = await at.told("player_history", P)
        assert [item["position"] for item in told["facts"]] == [rare]
        assert told["next_before"] is None


async def facts_by_page(at: Working, **query: Any) -> list[list[int]]:
    pages, after = [], 0
    while after is not None:
        told = await at.told("list_facts", after=after, **query)
        pages.append([fact["position"] for fact in told["facts"]])
        after = told["next_after"]
    return pages


async def test_only_a_players_own_facts_are_read_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with working() as at:
        await at.define(rule="sum")
        await at.define("c", rule="sum")
        for number in range(6):
            await at.submit("p", 1, "bc"[number % 2])
            await at.submit("other", 1)
        await at.ask("put_player", {"player": "p"}, {"name": "Ann"})

        async def refuse(**_: object) -> None:
            raise AssertionError("the ledger is read")

        monkeypatch.setattr(at.service.ledger, "read", refuse)
        assert len(await history(at)) == 3
        mine = [
            (await facts_by_page(at, player="p"))[0],
            (await facts_by_page(at, player="p", board="c"))[0],
        ]
        assert [len(found) for found in mine] == [7, 3]
        for limit in (1, 2, 3, 6, 7, 8):
            pages = await facts_by_page(at, player="p", limit=limit)
            assert [one for page in pages for one in page] == mine[0]
            assert all(len(page) == limit for page in pages[:-1])
        assert await facts_by_page(at, player="p", kind="name_set") == [mine[0][-1:]]
        assert await facts_by_page(at, player="nobody") == [[]]


ADMINISTRATIVE: tuple[dict[str, Any], ...] = (
    {"kind": "score_adjusted"},
    {"kind": "score_adjusted", "board": "c"},
    {"kind": "player_state_set"},
    {"kind": "board_defined", "board": "b"},
    {"administrative": True},
    {"administrative": True, "board": "b"},
    {"administrative": True, "actor": "nobody"},
)


async def begin_index(at: Working, since: int) -> None:
    """Have the index of the audit trail as after a snapshot of an older version."""
    index = AuditIndex(Position(since))
    for recorded in await at.ledger.inner.read(after=Position(since), limit=1_000):
        if not recorded.fact.numerous:
            index.add(recorded)
    at.service.rankd.state.audit = index


async def test_facts_that_are_few_are_found_without_reading_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with working() as at:
        await at.define()
        await at.define("c")
        for number in range(4):
            await at.submit("p", number)
            body = {"player": "p", "delta": 1, "key": f"k{number // 2}"}
            await at.told("adjust_score", {"board": "bc"[number % 2]}, body)
            await at.ask("hide_player", {"player": f"q{number}"}, {"boards": ["b"]})
            await at.ask("put_player", {"player": "p"}, {"name": "Ann"})
        whole = (await at.told("list_facts", limit=1000))["facts"]
        few = [one for one in whole if one["kind"] not in ("score_submitted", "name_set")]
        head = at.service.rankd.position

        async def pages(query: dict[str, Any]) -> list[Any]:
            found, after = [], 0
            while after is not None:
                told = await at.told("list_facts", after=after, limit=3, **query)
                found += told["facts"]
                after = told["next_after"]
            return found

        for query in ADMINISTRATIVE:
            names = {name: value for name, value in query.items() if name != "administrative"}
            expected = [one for one in few if {**one, **names} == one]
            for since in (0, 1, head // 2, head - 1, head, head + 9):
                await begin_index(at, since)
                assert await pages(query) == expected, (query, since)
        await begin_index(at, 0)

        async def refuse(**_: object) -> None:
            raise AssertionError("the ledger is scanned")

        monkeypatch.setattr(at.service.ledger, "read", refuse)
        assert await pages({"administrative": True}) == few
        assert len(await pages({"kind": "score_adjusted"})) == 4
        assert await pages({"kind": "window_sealed"}) == []


async def test_facts_are_told_by_what_is_asked_for() -> None:
    async with working() as at:
        await at.define()
        await at.define("c")
        await at.submit("p", 1)
        await at.submit("q", 1, "c")
        await at.ask("put_player", {"player": "p"}, {"name": "Ann"})

        async def told(**query: str) -> list[tuple[str, str, str]]:
            facts = (await at.told("list_facts", **query))["facts"]
            return [(fact["kind"], fact["board"], fact["player"]) for fact in facts]

        assert await told(player="p") == [
            ("score_submitted", "b", "p"),
            ("name_set", None, "p"),
        ]
        assert await told(kind="score_submitted", board="c") == [("score_submitted", "c", "q")]
        assert await told(kind="score_submitted.1") == []
        assert len(await told()) == at.service.rankd.position


async def bodies(at: Working, kind: str) -> list[Any]:
    return [fact["body"] for fact in (await at.told("list_facts", kind=kind))["facts"]]


async def test_facts_are_told_in_the_terms_of_their_board_and_not_of_the_ledger() -> None:
    async with working() as at:
        await at.define(decimals=2, rule="latest", windows=["all", "daily"])
        said = "2020-01-01T01:00:00.5+01:00"
        await at.submit("p", "1.25", at=said)
        await at.told("submit_score", B, {"player": "p", "delta": "-0.5"})
        one, other = await bodies(at, "score_submitted")
        assert (one["scores"], one["at"]) == ([Decimal("1.25")], "2020-01-01T00:00:00.500000Z")
        assert (other["delta"], "scores" in other, "at" in other) == (
            Decimal("-0.50"),
            False,
            False,
        )
        (defined,) = await bodies(at, "board_defined")
        today = {"start": "2026-11-14T00:00:00Z", "end": "2026-11-15T00:00:00Z"}
        assert defined["windows"] == [
            {"window": "all", "start": None, "end": None},
            {"window": "daily:2026-11-14", **today},
        ]
        at.clock.time = Instant(at.clock.time + 24 * 3_600_000_000)
        await at.submit("p", 1)
        (opened,) = await bodies(at, "window_opened")
        assert (opened["start"], opened["end"]) == (today["end"], "2026-11-16T00:00:00Z")


async def test_each_fact_is_told_in_the_terms_of_its_own_time() -> None:
    async with working() as at:
        await at.define(columns=[{"name": "a"}, {"name": "b"}], rule="latest")
        await at.submit("p", 15, columns={"b": 2})
        changed = {"columns": [{"name": "a"}, {"name": "b"}], "rule": "latest", "decimals": 1}
        await at.told("put_board", B, changed, apply=True)
        await at.submit("p", "1.5", columns={"b": 2})
        told = [body["scores"] for body in await bodies(at, "score_submitted")]
        assert told == [[15, 2], [Decimal("1.5"), Decimal("2.0")]]


async def test_a_number_whose_unit_nobody_knows_is_called_otherwise() -> None:
    """The definition of a board that was retired is in the ledger, and in no state."""
    async with working() as at:
        await at.define(decimals=2, rule="sum")
        await at.submit("p", "9.99")
        await at.told("submit_score", B, {"player": "p", "delta": 1})
        await at.ask("retire_board", B)
        for _ in range(2):
            one, other = (await bodies(at, "score_submitted"))[:2]
            assert (one["raw_scores"], "scores" in one) == ([999], False)
            assert (other["raw_delta"], "delta" in other) == (100, False)
            await at.define()  # Another of this name, with another unit.
            await at.submit("p", 3)
        assert (await bodies(at, "score_submitted"))[2]["scores"] == [3]


async def test_what_another_node_read_under_an_older_definition_keeps_its_size() -> None:
    """It may append before it hears of the new one, and says which it went by."""
    async with working() as at:
        await at.define(decimals=2, rule="latest")
        before = at.service.rankd.state.page("b").defined_at
        await at.told("put_board", B, {"rule": "latest", "decimals": 3}, apply=True)
        late = ScoreSubmitted("b", "p", (999,), defined=before)
        await at.service.writer.submit_read([late], [])
        assert [score for score, _ in await history(at)] == ["9.99"]
        assert (await bodies(at, "score_submitted"))[0]["scores"] == [Decimal("9.99")]
        await at.ask("retire_board", B)
        await at.define()
        await at.service.writer.submit_read([late], [])
        assert await history(at) == [], "it was made to the board before"
        assert (await bodies(at, "score_submitted"))[1]["raw_scores"] == [999]


async def test_a_history_tells_the_clients_time_beside_the_ledgers() -> None:
    async with working() as at:
        await at.define(rule="latest")
        await at.submit("p", 1, at="2020-01-01T00:00:00Z")
        await at.submit("p", 2)
        await at.submit("p", 3, at="0001-01-01T00:00:00+01:00")
        out, without, given = (await at.told("player_history", P))["facts"]
        assert (given["at"], given["client_at"]) == ("2026-11-14T12:00:00Z", "2020-01-01T00:00:00Z")
        assert "client_at" not in without
        assert "client_at" not in out, "it has no year there is a way to write"
        assert (await bodies(at, "score_submitted"))[2]["at"] is None


async def test_a_key_cannot_be_tried_with_what_is_told_of_it() -> None:
    async with working() as at:
        digest = sha256(b"secret").digest()
        key = KeyCreated("k1", digest, ("admin",), None, None, None)
        await at.service.writer.create_key(key)
        told = await at.told("list_facts", None, None, {"authorization": "Bearer secret"})
        (fact,) = told["facts"]
        assert fact["body"]["digest"] == digest.hex()[:8]
        assert digest.hex() not in str(told)


async def test_nothing_is_told_past_the_position_it_is_true_at() -> None:
    """The ledger may be further than what is folded: in a worker it often is."""
    async with working() as at:
        await at.define(rule="sum")
        await at.submit("p", 1)
        rankd = at.service.rankd
        await at.submit("p", 1)
        rankd.projector.checkpoint = Position(2)
        facts = await at.told("list_facts")
        mine = await at.told("player_history", P)
        rankd.projector.checkpoint = Position(3)
        assert facts["as_of"] == mine["as_of"] == 2
        assert [fact["position"] for fact in facts["facts"]] == [1, 2]
        assert facts["next_after"] is None
        assert [item["position"] for item in mine["facts"]] == [2]


async def test_a_ledger_that_cannot_be_read_is_told() -> None:
    async with working() as at:
        await at.define()
        at.ledger.read_failure = LedgerUnavailable("injected", applied="no")
        for operation, params in (("list_facts", None), ("player_history", P)):
            with pytest.raises(LedgerUnavailable):
                await at.ask(operation, params)


async def test_facts_and_histories_are_told_of_a_range_of_time() -> None:
    """From its first instant on, and before its last."""
    async with working() as at:
        await at.define(rule="sum")
        noon, recorded = at.clock.time, []
        for hours in range(6):
            at.clock.time = noon + hours * HOUR
            recorded.append((await at.submit("p", hours))["position"])
            await at.submit("other", hours)

        async def both(**query: Any) -> tuple[list[int], list[int]]:
            facts = await at.told("list_facts", player="p", **query)
            mine = await at.told("player_history", P, **query)
            assert (facts["next_after"], mine["next_before"]) == (None, None)
            told = (facts["facts"], reversed(mine["facts"]))
            first, second = ([item["position"] for item in each] for each in told)
            return first, second

        since, until = noon + 2 * HOUR, noon + 4 * HOUR
        assert await both(since=since) == (recorded[2:], recorded[2:])
        assert await both(until=until) == (recorded[:4], recorded[:4])
        assert await both(since=since, until=until) == (recorded[2:4], recorded[2:4])
        assert await both(since=since + 1, until=until + 1) == (recorded[3:5], recorded[3:5])
        assert await both(since=until, until=since) == ([], [])
        assert await both(since=noon - 1, until=noon) == ([], [])
        assert await both(since=noon + 6 * HOUR) == ([], [])
        page = await at.told("player_history", P, since=since, limit=2)
        assert [item["position"] for item in page["facts"]] == [recorded[5], recorded[4]]
        rest = await at.told("player_history", P, since=since, before=page["next_before"])
        assert [item["position"] for item in rest["facts"]] == [recorded[3], recorded[2]]


async def test_a_range_of_time_is_found_by_few_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    async with working() as at:
        await at.define()
        noon = at.clock.time
        for n in range(1_000):
            at.clock.time = noon + n
            await at.submit("p", n)
        read, reads = at.ledger.read, []

        async def counted(*, after: Position, limit: int) -> Any:
            reads.append(limit)
            return await read(after=after, limit=limit)

        monkeypatch.setattr(at.ledger, "read", counted)
        told = await at.told("list_facts", since=noon + 500, until=noon + 510)
        assert len(told["facts"]) == 10
        assert len(reads) <= 2 * 10 + 1
