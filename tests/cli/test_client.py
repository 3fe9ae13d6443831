"""The client against a real service: every call, and retries that count once."""

import asyncio
import threading

import pytest
from tests.cli.proxy import cutting
from tests.cli.running import Served

from rankd.client import AsyncClient, Client, RetryPolicy, Unreachable, service_error
from rankd.errors import (
    Invalid,
    NotRanked,
    SubmissionKeyReused,
    UnknownBoard,
    UnknownKey,
    UnknownPlayer,
    UnknownWindow,
)
from rankd.schemas import BoardBody, Preview, Receipt, Refusal

SOON = RetryPolicy(retries_max=5, backoff_seconds=0.001)


SEASON = {"name": "season", "every": "1d", "gap": "1d", "start": "2999-01-01T00:00:00Z"}


def test_a_window_before_its_start_is_read_as_scheduled(client: Client) -> None:
    client.define("coming", {"windows": ["all", SEASON]})
    opening = ("scheduled", "2999-01-01T00:00:00Z")
    page = client.page("coming", window="season")
    found = client.lookup("coming", ["ann"], window="season")
    needed = client.projection("coming", rank=1, window="season")
    (coming,) = (one for one in client.windows("coming").windows if one.name == "season")
    for each in (page, found, needed, coming):
        assert (each.state, each.opens_at) == opening
    assert (page.standings, client.page("coming").state) == ([], "open")
    known = r"its windows are all, season \(opens at 2999-01-01T00:00:00Z\)$"
    with pytest.raises(UnknownWindow, match=known):
        client.page("coming", window="season:-1")


def test_every_call_is_answered(client: Client) -> None:
    made = client.define("all", {"windows": ["all", "daily"], "segments": ["region"]})
    assert isinstance(made, BoardBody)
    assert isinstance(client.define("all", {"rule": "sum"}), Preview)
    assert "all" in [board.name for board in client.boards().boards]
    assert client.board("all").total == 0
    assert [window.name for window in client.windows("all").windows] == ["all", "daily"]

    client.set_profile("ann", name="Ann", attributes={"region": "eu"}, friends=["bob"])
    receipt = client.submit("all", "ann", 10, metadata={"lap": 1}, build="1.0")
    some = client.submit_many(
        [("bob", 20), ("cid", "x"), {"player": "dee", "delta": 5}], board="all"
    )
    assert [type(each) for each in some] == [Receipt, Refusal, Receipt]

    position = client.health().position
    assert receipt.position is not None and position >= receipt.position
    assert client.ready().status == "ready"
    assert client.top("all", 2, min_position=position).standings[0].player == "bob"
    assert client.page("all", from_rank=2, limit=1).standings[0].name == "Ann"
    assert client.standing("all", "ann", segment="region:eu").rank == 1
    assert client.standing("all", "ann", window="daily").metadata == {"lap": 1}
    assert [row.rank for row in client.around("all", "ann", above=1, below=1).standings] == [
        1,
        2,
        3,
    ]
    assert [row.rank for row in client.around_rank("all", 2, reach=1).standings] == [1, 2, 3]
    found = client.lookup("all", ["dee", "ann", "nobody"])
    assert ([row.place for row in found.standings], found.not_found) == ([1, 2], ["nobody"])
    assert [row.player for row in client.friends("all", "ann").standings] == ["bob", "ann"]
    assert client.projection("all", score=15).rank == 2
    assert client.projection("all", rank=1).score == 20
    assert client.projection("all", percentile=100).score == 20
    assert client.standings("ann").name == "Ann"
    assert [one.window for one in client.standings("ann", window="daily").standings] == [
        client.standing("all", "ann", window="daily").window
    ]
    merged = client.merge_profile("ann", attributes={"guild": "x"})
    assert merged.attributes == {"guild": "x", "region": "eu"}
    assert [one.player for one in client.players("an").players] == ["ann"]
    assert [one.player for one in client.walk_players("an", limit=1)] == ["ann"]
    looked_up = client.lookup_players(["nobody", "ann"]).players
    assert [(one.player, one.name) for one in looked_up] == [("nobody", None), ("ann", "Ann")]
    assert [item.build for item in client.history("all", "ann").facts] == ["1.0"]
    assert [item.score for item in client.walk_history("all", "ann", limit=1)] == [10]
    assert [row.rank for row in client.walk("all", limit=1)] == [1, 2, 3]

    positions = [fact.position for fact in client.walk_facts(limit=2, board="all")]
    assert positions == sorted(set(positions))
    assert client.facts(limit=1).facts[0].position == 1

    assert client.set_friends("ann", ["dee"]).friends == ["dee"]
    assert client.profile("ann").friends == ["dee"]
    client.erase("ann", reason="asked")
    assert client.standing("all", "ann").name is None

    polled = client.poll("all", limit=3)
    assert polled.page is not None
    assert client.poll("all", limit=3, etag=polled.etag).page is None

    assert [key for key in client.keys().keys if key.signing is None] == []
    client.retire("all", reason="over")
    with pytest.raises(UnknownBoard):
        client.board("all")


def test_a_refusal_is_the_error_it_would_be_in_the_engine(client: Client) -> None:
    client.define("refusing")
    client.submit("refusing", "ann", 1, key="k")
    with pytest.raises(NotRanked) as caught:
        client.standing("refusing", "bob")
    assert caught.value.player == "bob"
    assert service_error(caught.value).request_id
    with pytest.raises(Invalid) as invalid:
        client.submit("refusing", "ann", "x")
    assert [field for field, _ in invalid.value.errors] == ["score"]
    assert service_error(invalid.value).applied == "no"
    with pytest.raises(SubmissionKeyReused):
        client.submit("refusing", "ann", 2, key="k")
    with pytest.raises(UnknownWindow):
        client.top("refusing", window="yearly")
    with pytest.raises(UnknownPlayer):
        client.profile("..")
    with pytest.raises(UnknownKey):
        client.revoke_key("none")


def test_a_submission_whose_answer_was_cut_off_counts_once(service: Served, client: Client) -> None:
    client.define("cut", {"rule": "sum"})
    with cutting(service.url, cuts=2) as proxy, Client(proxy.url, policy=SOON) as rude:
        receipt = rude.submit("cut", "ann", delta=10)
        assert proxy.delivered == 3
        assert receipt.duplicate is True
    assert client.standing("cut", "ann").score == 10
    assert len(client.history("cut", "ann").facts) == 1


def test_a_batch_whose_answer_was_cut_off_counts_once(service: Served, client: Client) -> None:
    client.define("cuts", {"rule": "sum"})
    items = [(f"p{n}", n) for n in range(50)]

    async def submit(url: str) -> int:
        async with AsyncClient(url, policy=SOON) as rude:
            return len(await rude.submit_many(items, board="cuts", batch=20))

    with cutting(service.url, cuts=1) as proxy:
        assert asyncio.run(submit(proxy.url)) == 50
        assert proxy.delivered == 4
    assert {row.player: row.score for row in client.walk("cuts")} == dict(items)


def test_a_key_whose_answer_was_cut_off_is_not_made_twice(service: Served) -> None:
    """It may have been made: nobody knows, and the client says so."""
    with cutting(service.url, cuts=9) as proxy, Client(proxy.url, policy=SOON) as rude:
        with pytest.raises(Unreachable) as caught:
            rude.retire("never-there")
        assert proxy.delivered == 1
    assert service_error(caught.value).applied == "unknown"


def test_threads_share_a_client(client: Client) -> None:
    client.define("threads", {"rule": "sum"})

    def submit(name: int) -> None:
        for _ in range(10):
            client.submit("threads", f"p{name}", delta=1)

    threads = [threading.Thread(target=submit, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [row.score for row in client.walk("threads")] == [10] * 4
