"""Drafts: a board redefined is the board it would have been, had it been defined so at once."""

import asyncio
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.unit.core.doubles import DAY, FaultyLedger, SetClock, digest_of, engine, verified

from rankd.adapters.memory.index import NativeIndex
from rankd.core import board_rebuild as module
from rankd.core import engine as engine_module
from rankd.core.engine import Engine
from rankd.core.recovery import IndexHome
from rankd.errors import DropsScores, InvalidBoard, LedgerUnavailable
from rankd.model.board import Board
from rankd.model.facts import Position
from rankd.ports import Move, Moved, Ranking, RankingShape

pytestmark = pytest.mark.anyio
WAYS: list[dict[str, Any]] = [
    {"rule": rule, "windows": ["all", "daily"], **more}
    for rule in ("best", "sum", "latest", "first")
    for more in (
        {},
        {"direction": "lower", "tie_break": "latest"},
        {"segments": ["region"], "ties": "dense"},
        {"limits": {"score_max": 3}},
    )
]
SUBMISSIONS = st.lists(
    st.tuples(
        st.sampled_from(["ann", "bob", "cyd"]),
        st.integers(-3, 3),
        st.none() | st.sampled_from(["eu", "us"]),
        st.integers(0, 7),
    ),
    max_size=20,
)


async def told(rankd: Engine, definition: dict[str, Any]) -> list[Any]:
    segments = [None, "region:eu", "region:us"] if "segments" in definition else [None]
    pages = [
        await rankd.reader.page("b", window=window, segment=segment)
        for window in ("all", "daily")
        for segment in segments
    ]
    return [
        [(one.rank, one.player, one.scores, one.metadata) for one in page.standings]
        for page in pages
    ]


async def lived(
    first: dict[str, Any], then: dict[str, Any] | None, submissions: list[Any]
) -> list[Any]:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", first)
        for player, score, region, hours in submissions:
            clock.time += hours * 3_600_000_000
            body: dict[str, Any] = {"player": player, "score": score, "metadata": {"s": score}}
            if region is not None:
                body["attributes"] = {"region": region}
            await rankd.submit("b", [body])
        if then is not None:
            await rankd.redefine("b", then, drop_scores=True)
            await verified(rankd)
        digest_of(rankd.projector.index)
        return await told(rankd, then or first)


@given(st.sampled_from(WAYS), st.sampled_from(WAYS), SUBMISSIONS)
def test_a_redefined_board_is_what_it_would_have_been(
    first: dict[str, Any], then: dict[str, Any], submissions: list[Any]
) -> None:
    """But for bounds, which under one rule are those of both, and for what they refused."""
    assume(first["rule"] == then["rule"] or first["rule"] != "sum" or "limits" not in first)
    bounds = first.get("limits") if first["rule"] == then["rule"] else None
    alike = {**then, "limits": bounds} if bounds else then
    assert asyncio.run(lived(first, then, submissions)) == asyncio.run(
        lived(alike, None, submissions)
    )


async def test_what_was_rejected_by_the_bounds_of_its_time_stays_rejected() -> None:
    """Its sender was told that it counts nowhere. Wider bounds are for what comes after them."""
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {"rule": "sum", "limits": {"score_max": 100}})
        for delta in (50, 60, 40):
            await rankd.submit("b", [{"player": "ann", "delta": delta}])
        assert await scores(rankd) == [("ann", (90,))]
        wider = {"rule": "sum", "limits": {"score_max": 1000}, "windows": ["all", "weekly"]}
        await rankd.redefine("b", {**wider, "decimals": 1})
        assert await scores(rankd) == await scores(rankd, "weekly") == [("ann", (900,))]
        await rankd.submit("b", [{"player": "ann", "delta": 60}])
        assert await scores(rankd) == [("ann", (1500,))]
        await verified(rankd)

        await rankd.redefine("b", {**wider, "decimals": 1, "limits": {"score_max": 60}})
        assert await scores(rankd) == [("ann", (500,))], "narrower ones are for all there is"
        await rankd.redefine("b", {**wider, "decimals": 1})
        assert await scores(rankd) == [("ann", (1500,))], "and what counted once counts again"
        await verified(rankd)


async def test_bounds_of_single_scores_do_not_bound_their_sum() -> None:
    """Under another rule bounds mean something else, and everything is judged anew."""
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {"rule": "best", "limits": {"score_max": 3}})
        for score in (3, 2, 1):
            await rankd.submit("b", [{"player": "ann", "score": score}])
        assert await scores(rankd) == [("ann", (3,))]
        await rankd.redefine("b", {"rule": "sum"})
        assert await scores(rankd) == [("ann", (6,))]
        await verified(rankd)


async def scores(rankd: Engine, window: str = "all") -> list[Any]:
    page = await rankd.reader.page("b", window=window)
    return [(one.player, one.scores) for one in page.standings]


async def test_scores_are_put_into_the_unit_of_the_new_definition() -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {"rule": "sum", "windows": ["all"]})
        await rankd.submit("b", [{"player": "p", "score": 7}])
        await rankd.redefine("b", {"rule": "sum", "windows": ["all"], "decimals": 2})
        await rankd.submit("b", [{"player": "p", "score": "0.25"}])
        (standing,) = (await rankd.reader.page("b")).standings
        assert standing.scores == (725,)
        with pytest.raises(InvalidBoard):
            await rankd.redefine("b", {"rule": "sum", "windows": ["all"], "decimals": 1})
        await verified(rankd)


async def test_traffic_goes_on_while_a_draft_is_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FACTS_TOGETHER_MAX", 3)
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {"rule": "sum", "windows": ["all"]})
        for number in range(30):
            await rankd.submit("b", [{"player": f"p{number % 4}", "score": number}])

        async def traffic() -> None:
            for number in range(30):
                await rankd.submit("b", [{"player": f"p{number % 4}", "score": number}])

        await asyncio.gather(rankd.redefine("b", {"rule": "best", "windows": ["all"]}), traffic())
        page = await rankd.reader.page("b")
        assert [one.scores for one in page.standings] == [(29,), (28,), (27,), (26,)]
        await verified(rankd)


async def test_facts_of_a_board_that_was_retired_are_not_its_successors() -> None:
    async with engine(FaultyLedger()) as rankd:
        for score in (5, 1):
            await rankd.define("b", {"rule": "sum", "windows": ["all"]})
            await rankd.submit("b", [{"player": "p", "score": score}])
            if score == 5:
                await rankd.retire("b")
        await rankd.redefine("b", {"rule": "best", "windows": ["all"], "segments": ["region"]})
        (standing,) = (await rankd.reader.page("b")).standings
        assert standing.scores == (1,)
        await verified(rankd)


async def test_a_window_of_the_draft_that_is_over_is_not_taken_for_the_next() -> None:
    """Nothing was recorded since: only the redefinition itself tells what time it is."""
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", {"rule": "sum", "windows": ["all"]})
        await rankd.submit("b", [{"player": "p", "score": 1}])
        clock.time += DAY
        await rankd.redefine("b", {"rule": "sum", "windows": ["all", "daily"]})
        assert (await rankd.reader.page("b", window="daily")).total == 0
        assert (await rankd.reader.page("b", window="all")).total == 1
        await verified(rankd)


async def test_a_draft_that_is_not_adopted_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "DRAFT_BEHIND_MAX", 0)
    ledger = FaultyLedger()
    async with engine(ledger) as rankd:
        await rankd.define("b", {"rule": "sum", "windows": ["all"]})
        await rankd.submit("b", [{"player": "p", "score": 1}])
        ledger.fail(applied="no")
        with pytest.raises(LedgerUnavailable):
            await rankd.redefine("b", {"rule": "best", "windows": ["all"]})
        digest_of(rankd.projector.index)  # Which sees drafts.
        assert not rankd.projector.drafts


# ------------------------------------------------------------------------------- losses

LARGE = 10**17
"""A score that fits with one decimal and not with two."""


async def test_decimals_are_not_raised_while_a_counted_score_would_not_fit() -> None:
    ledger = FaultyLedger()
    async with engine(ledger) as rankd:
        await rankd.define("b", {"windows": ["all", "daily"]})
        await rankd.submit("b", [{"player": "ann", "score": LARGE}, {"player": "bob", "score": 5}])
        head = await ledger.head()
        for change in (rankd.preview, rankd.redefine):
            with pytest.raises(InvalidBoard, match="'ann' in all would not fit 64 bits") as refusal:
                await change("b", {"windows": ["all", "daily"], "decimals": 2})
            assert [error.field for error in refusal.value.errors] == ["decimals"]
        assert await ledger.head() == head
        digest_of(rankd.projector.index)  # Which sees drafts.
        await rankd.redefine("b", {"windows": ["all", "daily"], "decimals": 1})
        assert await scores(rankd) == [("ann", (10 * LARGE,)), ("bob", (50,))]
        await verified(rankd)


@pytest.mark.parametrize(
    ("rule", "submitted", "fits"),
    [
        ("latest", [LARGE, 7], True),
        ("first", [LARGE, 7], False),
        ("first", [7, LARGE], True),
        ("best", [7, LARGE], False),
        ("sum", [LARGE, -LARGE, 7], True),
        ("sum", [LARGE, -LARGE // 2, -LARGE // 2], False),
        ("sum", [LARGE // 2, LARGE // 2], False),
    ],
    ids=str,
)
async def test_a_score_that_does_not_fit_matters_where_the_entry_stands_on_it(
    rule: str, submitted: list[int], fits: bool
) -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {"rule": rule})
        for score in submitted:
            await rankd.submit("b", [{"player": "ann", "score": score}])
        if not fits:
            with pytest.raises(InvalidBoard, match="64 bits"):
                await rankd.redefine("b", {"rule": rule, "decimals": 2})
            return
        await rankd.redefine("b", {"rule": rule, "decimals": 2})
        assert await scores(rankd) == [("ann", (700,))]
        await verified(rankd)


async def test_a_score_of_a_window_that_is_over_need_not_fit() -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", {"windows": ["daily"]})
        await rankd.submit("b", [{"player": "ann", "score": LARGE}])
        clock.time += DAY
        await rankd.submit("b", [{"player": "ann", "score": 7}])
        await rankd.redefine("b", {"windows": ["daily"], "decimals": 2})
        assert await scores(rankd, "daily") == [("ann", (700,))]
        await verified(rankd)


async def test_a_score_that_arrives_while_a_draft_is_folded_has_to_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "FACTS_TOGETHER_MAX", 3)
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {})
        for number in range(30):
            await rankd.submit("b", [{"player": f"p{number}", "score": number}])
        redefining = asyncio.create_task(rankd.redefine("b", {"decimals": 2}))
        await asyncio.sleep(0)
        await rankd.submit("b", [{"player": "ann", "score": LARGE}])
        with pytest.raises(InvalidBoard, match="'ann' in all"):
            await redefining
        assert (await scores(rankd))[0] == ("ann", (LARGE,))
        await verified(rankd)


async def test_beyond_the_bound_misfits_are_refused_without_a_comparison(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MISFITS_MAX", 2)
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {"rule": "latest"})
        for fits, player in enumerate(["ann", "bob", "cyd"]):
            for score in (LARGE, 7):
                await rankd.submit("b", [{"player": player, "score": score}])
            if fits < 2:
                await rankd.preview("b", {"rule": "latest", "decimals": 2})
        with pytest.raises(InvalidBoard, match="64 bits"):
            await rankd.preview("b", {"rule": "latest", "decimals": 2})


POINTS, TIME = {"name": "points"}, {"name": "ms", "direction": "lower"}


@pytest.mark.parametrize(
    ("columns", "lacked"),
    [([POINTS, TIME], ("ms",)), ([{"name": "wins"}], ("wins",))],
    ids=["added", "renamed"],
)
async def test_a_column_that_scores_lack_needs_an_agreement_of_its_own(
    columns: list[dict[str, str]], lacked: tuple[str, ...]
) -> None:
    ledger = FaultyLedger()
    async with engine(ledger) as rankd:
        await rankd.define("b", {"columns": [POINTS], "windows": ["all", "daily"]})
        then = {"columns": columns, "windows": ["all", "daily"]}
        assert (await rankd.preview("b", then)).drops == ()
        await rankd.submit("b", [{"player": "ann", "score": 5}])
        head = await ledger.head()
        assert (await rankd.preview("b", then)).drops == ("all", "daily")
        with pytest.raises(DropsScores, match=f"no column {lacked[0]}") as refusal:
            await rankd.redefine("b", then)
        assert (refusal.value.windows, refusal.value.columns) == (("all", "daily"), lacked)
        assert await ledger.head() == head
        digest_of(rankd.projector.index)  # Which sees drafts.
        assert (await rankd.redefine("b", then, drop_scores=True)).drops == ("all", "daily")
        assert await scores(rankd) == []
        await verified(rankd)
        await rankd.redefine("b", {"columns": [POINTS], "windows": ["all", "daily"]})
        assert await scores(rankd) == [("ann", (5,))], "the ledger has them still"


async def test_scores_dropped_once_are_not_asked_about_again() -> None:
    two: dict[str, Any] = {"columns": [POINTS, TIME]}
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {"columns": [POINTS]})
        await rankd.submit("b", [{"player": "ann", "score": 5}])
        await rankd.redefine("b", two, drop_scores=True)
        await rankd.submit("b", [{"player": "bob", "columns": {"points": 5, "ms": 90}}])
        await rankd.redefine("b", {**two, "ties": "dense"})
        assert await scores(rankd) == [("bob", (5, 90))]


async def test_scores_that_are_lost_in_part_are_asked_about_too() -> None:
    """Deltas can be said with one column more, and what they were added to cannot."""
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {"columns": [POINTS]})
        await rankd.submit("b", [{"player": "ann", "score": 5}, {"player": "ann", "delta": 1}])
        assert (await rankd.preview("b", {"columns": [POINTS, TIME]})).drops == ("all",)


@pytest.mark.parametrize(
    ("first", "body", "then"),
    [
        ({"columns": [POINTS, TIME]}, {"delta": 1}, {"columns": [TIME, POINTS]}),
        ({"rule": "sum"}, {"delta": 1}, {"rule": "first"}),
        ({}, {"score": 9}, {"limits": {"score_max": 3}}),
    ],
    ids=["another column first", "first takes no deltas", "narrower bounds"],
)
async def test_a_window_left_empty_is_asked_about_whatever_empties_it(
    first: dict[str, Any], body: dict[str, Any], then: dict[str, Any]
) -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", first)
        await rankd.submit("b", [{"player": "ann", **body}])
        with pytest.raises(DropsScores):
            await rankd.redefine("b", then)
        await rankd.redefine("b", then, drop_scores=True)
        assert await scores(rankd) == []
        await verified(rankd)


async def test_entries_that_another_node_has_just_added_are_not_lost_scores() -> None:
    """A shared index is ahead of a node for a moment, and a rebuild is only where its node is."""
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {"rule": "best"})
        page = rankd.state.page("b")
        rebuild = rankd._draft(page, Board.define("b", {"rule": "latest"}))
        await rebuild.catch_up(through=rankd.position)
        ranking, index = Ranking("b", "all"), rankd.projector.index
        key = page.terms.order.key((5,), Position(2))
        after = await index.checkpoint()
        await index.apply([Move(ranking, "ann", key)], after=after, through=Position(after + 1))
        assert await index.count(ranking) == 1
        assert await rebuild.dropped_windows(page) == ()


async def test_what_is_changed_is_folded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = FaultyLedger()
    async with engine(ledger) as rankd:
        await rankd.define("b", {"rule": "sum"})
        for number in range(10):
            await rankd.submit("b", [{"player": "p", "score": number}])
        read: list[Position] = []
        reads = ledger.read

        async def counted(*, after: Position, limit: int) -> Any:
            facts = await reads(after=after, limit=limit)
            read.extend(recorded.position for recorded in facts)
            return facts

        monkeypatch.setattr(ledger, "read", counted)
        changed = await rankd.redefine("b", {"rule": "best"})
        assert read == list(range(1, 12))
        assert [window.top_after[0].scores for window in changed.windows] == [(9,)]


class StagingIndex(NativeIndex):
    """An index that tells how many moves are staged at once."""

    def __init__(self) -> None:
        super().__init__()
        self.most = 0

    async def stage(
        self,
        moves: Sequence[Move],
        *,
        opened: Mapping[Ranking, RankingShape] = MappingProxyType({}),
        dropped: Sequence[Ranking] = (),
    ) -> Sequence[Moved]:
        self.most = max(self.most, len(moves))
        return await super().stage(moves, opened=opened, dropped=dropped)


async def test_a_draft_stages_moves_of_bounded_number() -> None:
    index, many = StagingIndex(), 600
    dense = {"rule": "best", "windows": ["all", "daily", "weekly"], "ties": "dense"}
    async with engine(FaultyLedger(), build=lambda: IndexHome(index, None)) as rankd:
        await rankd.define("b", dense)
        await rankd.submit("b", [{"player": f"p{n}", "score": n} for n in range(many)])
        await rankd.redefine("b", {**dense, "rule": "latest"})
        assert module.STAGED_TOGETHER_MAX <= index.most < module.STAGED_TOGETHER_MAX + 3
        assert await index.count(Ranking("b", "all")) == many
