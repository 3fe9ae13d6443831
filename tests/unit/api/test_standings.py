"""Reading: entity tags, ready-made pages, and what cannot be asked."""

from contextlib import nullcontext
from typing import Any, cast

import pytest
from tests.unit.api.handling import BY_OPERATION, Working, working
from tests.unit.core.doubles import FarIndex, SetClock, SharedLedger, bare

from rankd.adapters.memory.archive import MemoryArchive
from rankd.api import context as bounds
from rankd.api import standings
from rankd.api.auth import Authenticator
from rankd.api.context import ServiceContext
from rankd.api.messages import Request, Response
from rankd.core.assembly import running
from rankd.core.cluster import managers as cluster_managers
from rankd.core.cluster.recovery import SharedHome
from rankd.core.cluster.top_lists import TopListSettings, TopListWriter
from rankd.core.reader import LOOKUP_PLAYERS_MAX
from rankd.errors import (
    IndexBehind,
    InvalidPage,
    InvalidRequest,
    NotRanked,
    Unauthenticated,
    UnknownWindow,
)

pytestmark = pytest.mark.anyio
B = {"board": "b"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def page(at: Working, known: str | None = None, **query: Any) -> Response:
    headers = None if known is None else {"if-none-match": known}
    return await at.ask("list_standings", B, None, headers, **query)


def tag(response: Response) -> str:
    return dict(response.headers)[b"etag"].decode()


# ------------------------------------------------------------------- what is known already


async def test_who_has_the_page_is_told_so() -> None:
    async with working() as at:
        await at.define()
        await at.submit("p", 1)
        first = await page(at)
        mine = tag(first)
        assert (first.status, first.cache_control) == (200, standings.PAGE_CACHE)
        for known in (mine, f"W/{mine}", f'"x", {mine}', f'W/"x",W/{mine} , "y"', "*"):
            again = await page(at, known)
            assert (again.status, again.body, tag(again)) == (304, b"", mine)
            assert again.cache_control == standings.PAGE_CACHE
        for other in ('"x"', mine.strip('"'), f'W/"{mine[1:5]}"', ""):
            assert (await page(at, other)).body == first.body


async def test_a_tag_stays_while_nobody_can_see_a_difference_and_not_longer() -> None:
    async with working() as at:
        await at.define()
        await at.define("other")
        await at.submit("p", 1)
        before = await page(at)
        await at.submit("q", 1, "other")
        elsewhere = await page(at)
        assert tag(elsewhere) == tag(before)
        assert elsewhere.body != before.body, "as_of goes on"
        tags = {tag(before)}
        for change in (
            at.submit("p", 2),
            at.ask("put_player", {"player": "p"}, {"name": "Ann"}),
            at.submit("q", 1),
        ):
            await change
            tags.add(tag(await page(at)))
        assert len(tags) == 4
        assert len({tag(await page(at, limit=1)), tag(await page(at, limit=1, offset=1))}) == 2


async def test_a_page_is_the_same_until_a_name_changes() -> None:
    async with working() as at:
        await at.define()
        await at.submit("p", 1)
        first = await page(at)
        assert await page(at) == first
        await at.ask("put_player", {"player": "p"}, {"name": "Ann"})
        assert b'"Ann"' in (await page(at)).body
        await at.ask("erase_player", {"player": "p"})
        assert b'"Ann"' not in (await page(at)).body


# --------------------------------------------------------------------- what cannot be asked


@pytest.mark.parametrize("text", ["0", "-1", "1.0", "x", "", "²", "9" * 19, "+1", "1_0"])
async def test_only_a_rank_has_neighbours(text: str) -> None:
    async with working() as at:
        await at.define()
        with pytest.raises(InvalidPage) as refused:
            await at.ask("around_rank", {**B, "rank": text})
        assert [wrong.field for wrong in refused.value.errors] == ["rank"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"score": "1", "rank": 1}, "rank"),
        ({"rank": 1, "percentile": "5"}, "percentile"),
        ({"score": "x"}, "score"),
        ({"score": "1,2"}, "score"),
        ({"score": ""}, "score"),
        ({"score": "0.5"}, "score"),
        ({"percentile": "x"}, "percentile"),
        ({"percentile": "nan"}, "percentile"),
        ({"percentile": "inf"}, "percentile"),
        ({"percentile": "0"}, "percentile"),
        ({"percentile": "100.01"}, "percentile"),
    ],
)
async def test_a_projection_is_of_one_thing_that_can_be(query: dict[str, Any], field: str) -> None:
    async with working() as at:
        await at.define()
        await at.submit("p", 1)
        with pytest.raises((InvalidRequest, InvalidPage)) as refused:
            await at.ask("get_projection", B, **query)
        assert [wrong.field for wrong in refused.value.errors] == [field]


async def test_a_projection_says_what_it_may_be_of() -> None:
    async with working() as at:
        await at.define()
        nothing = "^score must be given, or else rank or percentile$"
        with pytest.raises(InvalidRequest, match=nothing):
            await at.ask("get_projection", B)
        combined = "^rank cannot be combined with score; percentile cannot be combined with score$"
        with pytest.raises(InvalidRequest, match=combined):
            await at.ask("get_projection", B, score="1", rank=1, percentile="5")


async def test_a_projection_of_several_columns_takes_as_many() -> None:
    async with working() as at:
        await at.define(columns=[{"name": "score"}, {"name": "time", "direction": "lower"}])
        body = {"player": "p", "score": 5, "columns": {"time": 60}}
        await at.ask("submit_score", B, body)
        for score, rank in (("5,61", 2), ("5,59", 1), ("6,99", 1)):
            told = await at.told("get_projection", B, score=score)
            assert told["rank"] == rank
            assert list(told["columns"].values()) == [int(text) for text in score.split(",")]
        with pytest.raises(InvalidRequest):
            await at.ask("get_projection", B, score="5")


async def test_an_empty_ranking_has_no_percentile_and_no_score_to_beat() -> None:
    async with working() as at:
        await at.define()
        told = [
            await at.told("get_projection", B, **query)
            for query in ({"rank": 1}, {"percentile": "50"}, {"score": "7"})
        ]
        assert [(each["rank"], each["score"], each["percentile"]) for each in told] == [
            (1, None, None),
            (None, None, None),
            (1, 7, None),
        ]


async def test_so_many_are_looked_up_at_once() -> None:
    async with working() as at:
        await at.define()
        await at.submit("p", 1)
        players = ["p", *(f"q{number}" for number in range(LOOKUP_PLAYERS_MAX - 1))]
        told = await at.told("lookup_standings", B, {"players": players})
        assert (len(told["standings"]), len(told["not_found"])) == (1, LOOKUP_PLAYERS_MAX - 1)
        with pytest.raises(InvalidRequest):
            await at.ask("lookup_standings", B, {"players": [*players, "one more"]})


async def test_whoever_has_no_entry_is_not_ranked_and_nobody_is_zero() -> None:
    async with working() as at:
        await at.define(windows=["all", "daily"])
        for operation in ("get_standing", "around_player"):
            with pytest.raises(NotRanked):
                await at.ask(operation, {**B, "player": "nobody"}, window="daily")
            with pytest.raises(UnknownWindow):
                await at.ask(operation, {**B, "player": "nobody"}, window="weekly")
        told = await at.told("player_standings", {"player": "nobody"})
        assert (told["standings"], told["name"]) == ([], None)


READS: list[tuple[str, dict[str, str], Any, dict[str, Any]]] = [
    ("list_standings", B, None, {}),
    ("get_standing", {**B, "player": "p"}, None, {}),
    ("around_player", {**B, "player": "p"}, None, {}),
    ("around_rank", {**B, "rank": "1"}, None, {}),
    ("lookup_standings", B, {"players": ["p"]}, {}),
    ("list_friends", {**B, "player": "p"}, None, {}),
    ("get_projection", B, None, {"rank": 1}),
    ("player_standings", {"player": "p"}, None, {}),
]


@pytest.mark.parametrize(("operation", "params", "body", "query"), READS)
async def test_every_read_waits_for_a_position_and_not_for_ever(
    operation: str,
    params: dict[str, str],
    body: Any,
    query: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(standings, "MIN_POSITION_SECONDS_MAX", 0.001)
    assert 0 < bounds.MIN_POSITION_SECONDS_MAX < 60
    async with working() as at:
        await at.define()
        position = (await at.submit("p", 1))["position"]
        told = await at.told(operation, params, body, min_position=position, **query)
        assert told["as_of"] == position
        with pytest.raises(IndexBehind):
            await at.ask(operation, params, body, min_position=position + 1, **query)


# ------------------------------------------------------------- what needs no waiting for


def asked(operation: str, params: dict[str, str], **query: Any) -> Request:
    route = BY_OPERATION[operation]
    values = {param.name: query.get(param.name, param.default) for param in route.params}
    return Request("GET", "/", params, values, {}, b"", "127.0.0.1")


@pytest.mark.parametrize("ties", ["ordinal", "standard", "dense"])
@pytest.mark.parametrize(
    "definition",
    [
        {"segments": ["region"]},
        {"decimals": 2, "direction": "lower"},
        {"columns": [{"name": "won"}, {"name": "lost", "direction": "lower"}]},
    ],
)
async def test_a_quick_answer_is_the_handlers_byte_for_byte(
    ties: str, definition: dict[str, Any]
) -> None:
    async with working() as at:
        await at.define(ties=ties, **definition)
        wide = "columns" in definition
        for player, score in (("a", 9), ("b", 7), ("c", 7), ("d", 7), ("e", 5)):
            scores = {"columns": {"won": score, "lost": 1}, "score": None} if wide else {}
            more = {"attributes": {"region": "eu"}} if "segments" in definition else {}
            body = {"score": score, "metadata": {"run": player}, **scores, **more}
            await at.told("submit_score", B, {"player": player, **body})
        await at.told("put_player", {"player": "c"}, {"name": "Cyd"})
        for player in "abcde":
            params = {"board": "b", "player": player}
            request = asked("get_standing", params)
            slow = await standings.get_standing(at.service, request)
            assert standings.standing_now(at.service, request) == slow


async def test_a_quick_page_is_the_one_that_was_made_and_never_an_old_one() -> None:
    async with working() as at:
        await at.define()
        await at.submit("a", 1)
        request = asked("list_standings", B, limit=2)
        assert standings.standings_now(at.service, request) is None
        made = await standings.list_standings(at.service, request)
        assert standings.standings_now(at.service, request) == made
        assert standings.standings_now(at.service, asked("list_standings", B, limit=3)) is None
        await at.submit("b", 2)
        assert standings.standings_now(at.service, request) is None


async def test_nothing_is_quick_that_has_to_wait_or_may_not_be_told() -> None:
    async with working() as at:
        await at.define()
        await at.submit("a", 1)
        player = {"board": "b", "player": "a"}
        await page(at)
        for quick, operation, params in (
            (standings.standing_now, "get_standing", player),
            (standings.standings_now, "list_standings", B),
        ):
            assert quick(at.service, asked(operation, params, min_position=1)) is None
        at.service.auth = Authenticator(lambda: at.service.rankd.state, loopback=False)
        with pytest.raises(Unauthenticated):
            standings.standings_now(at.service, asked("list_standings", B))
        for board in ("b", "nowhere"):  # A stranger does not learn which boards there are.
            with pytest.raises(Unauthenticated):
                standings.standing_now(
                    at.service, asked("get_standing", {"board": board, "player": "a"})
                )


# ------------------------------------------------------------------- without the index


async def test_an_answer_from_what_is_kept_says_so_and_is_as_new_as_was_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also if the index goes away after it had come far enough."""
    monkeypatch.setattr(cluster_managers, "MEND_SECONDS", 3_600.0)
    index, kept, clock, ledger = FarIndex(), MemoryArchive(), SetClock(), SharedLedger()
    async with running(
        ledger=ledger,
        build=bare,
        clock=clock,
        reading=nullcontext(),
        shared=SharedHome(cast("Any", index)),
        archive=kept,
        listing=(listing := TopListSettings(kept, 10, 3_600.0)),
        manages=False,
    ) as rankd:
        auth = Authenticator(lambda: rankd.state, loopback=True)
        at = Working(
            ServiceContext(rankd, ledger, auth, clock, False, rankd), clock, cast("Any", ledger)
        )
        await at.define()
        await at.submit("p", 1)
        await TopListWriter(cast("Any", rankd.projector), listing).copy()
        here = rankd.position
        await at.submit("q", 2)
        index.cut = True
        lookup = {"players": ["p"]}
        for operation, params, body in (
            ("get_standing", B | {"player": "p"}, None),
            ("list_standings", B, None),
            ("around_player", B | {"player": "p"}, None),
            ("around_rank", B | {"rank": "1"}, None),
            ("lookup_standings", B, lookup),
        ):
            told = await at.told(operation, params, body, min_position=here)
            assert (told["as_of"], told["stale"]) == (here, True), operation
            with pytest.raises(IndexBehind):
                await at.ask(operation, params, body, min_position=here + 1)
        projected = await at.told("get_projection", B, rank=1)
        assert (projected["as_of"], projected["stale"]) == (here, True)
        everywhere = await at.told("player_standings", {"player": "p"})
        assert (everywhere["as_of"], everywhere["stale"]) == (here, True)
        index.cut = False
        assert (await at.told("list_standings", B, min_position=here + 1))["stale"] is False


async def test_tag_changes_when_the_same_rows_become_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_managers, "MEND_SECONDS", 3_600.0)
    index, kept, clock, ledger = FarIndex(), MemoryArchive(), SetClock(), SharedLedger()
    async with running(
        ledger=ledger,
        build=bare,
        clock=clock,
        reading=nullcontext(),
        shared=SharedHome(cast("Any", index)),
        archive=kept,
        listing=(listing := TopListSettings(kept, 10, 3_600.0)),
        manages=False,
    ) as rankd:
        auth = Authenticator(lambda: rankd.state, loopback=True)
        at = Working(
            ServiceContext(rankd, ledger, auth, clock, False, rankd), clock, cast("Any", ledger)
        )
        await at.define()
        await at.submit("p", 1)
        await TopListWriter(cast("Any", rankd.projector), listing).copy()
        fresh = await page(at)
        index.cut = True
        stale = await page(at, tag(fresh), min_position=rankd.position)
        assert (stale.status, b'"stale":true' in stale.body) == (200, True)
        assert stale.body.replace(b'"stale":true', b'"stale":false') == fresh.body


async def test_tag_of_a_page_with_cursors_stays_while_other_boards_change() -> None:
    async with working() as at:
        await at.define()
        await at.submit("p", 2)
        await at.submit("q", 1)
        first = await page(at, limit=1)
        assert b'"next_cursor":"' in first.body
        await at.define("other")
        assert tag(await page(at, limit=1)) == tag(first)
