"""Corrections through an engine: retractions, adjustments, states of players, metadata."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.core.callers import scores, submit
from tests.unit.core.doubles import DAY, NOON, SetClock, engine

from rankd.adapters.memory.ledger import MemoryLedger
from rankd.adapters.sqlite.ledger import SQLiteLedger
from rankd.core import corrector, mass_retraction
from rankd.core.corrections import Retraction, RetractionFilter
from rankd.core.engine import Engine
from rankd.errors import (
    InvalidPage,
    InvalidRequest,
    PlayerBanned,
    ScoreOutOfBounds,
    UnknownRetraction,
    UnknownSubmission,
)
from rankd.model.facts import Position, ScoresRetracted, ScoreSubmitted
from rankd.model.standing import Rank

pytestmark = pytest.mark.anyio

BEST = {"rule": "best", "windows": ["all", "daily"], "segments": ["region"]}


@pytest.fixture
async def rankd() -> AsyncIterator[Engine]:
    async with engine(MemoryLedger()) as rankd:
        yield rankd


async def test_the_earlier_best_returns_in_every_window(rankd: Engine) -> None:
    await rankd.define("b", BEST)
    await submit(rankd, "ann", 10)
    await submit(rankd, "bob", 15)
    cheat = await submit(rankd, "ann", 99)
    assert await scores(rankd) == {"ann": 99, "bob": 15}

    effect = await rankd.corrections.retract("b", {"position": cheat.position}, actor="mod")
    assert await scores(rankd) == {"bob": 15, "ann": 10}
    assert (effect.submissions, effect.players, effect.more) == (1, 1, 0)
    assert {one.window.partition(":")[0] for one in effect.changes} == {"all", "daily"}
    (change, _) = effect.changes
    assert (change.previous_scores, change.scores) == ((99,), (10,))
    assert (change.previous_rank, change.rank) == (1, 2)

    again = await rankd.corrections.retract("b", {"position": cheat.position})
    assert (again.position, again.submissions) == (None, 0), "it counts no more already"
    assert effect.position is not None
    back = await rankd.corrections.undo_retraction("b", effect.position, reason="it was honest")
    assert await scores(rankd) == {"ann": 99, "bob": 15}
    assert back.submissions == 1
    assert (await rankd.corrections.undo_retraction("b", effect.position)).position is None
    with pytest.raises(UnknownRetraction):
        await rankd.corrections.undo_retraction("b", Position(1))


async def test_a_dry_run_changes_nothing(rankd: Engine) -> None:
    await rankd.define("b", BEST)
    await submit(rankd, "ann", 10)
    head = rankd.position
    effect = await rankd.corrections.retract("b", {"player": "ann"}, dry_run=True)
    assert (effect.submissions, effect.position, effect.dry_run) == (1, None, True)
    assert [one.scores for one in effect.changes] == [None, None]
    assert rankd.position == head
    assert await scores(rankd) == {"ann": 10}


async def test_a_build_and_a_time_select_submissions_of_many_players() -> None:
    clock = SetClock()
    async with engine(MemoryLedger(), clock=clock) as rankd:
        await rankd.define("b", {**BEST, "rule": "sum"})
        for build, at in (("good", NOON), ("bad", NOON + 1_000_000), ("good", NOON + 2_000_000)):
            clock.time = at
            for player in ("ann", "bob"):
                await rankd.submit("b", [{"player": player, "score": 1, "build": build}])
        await rankd.corrections.retract("b", {"build": "bad"})
        assert await scores(rankd) == {"ann": 2, "bob": 2}
        since = {"since": "2026-11-14T12:00:02Z", "player": "ann"}
        await rankd.corrections.retract(None, since)
        assert await scores(rankd) == {"bob": 2, "ann": 1}
        with pytest.raises(InvalidRequest):
            await rankd.corrections.retract("b", {})
        with pytest.raises(UnknownSubmission):
            await rankd.corrections.retract("b", {"key": "never used"})


async def test_a_closed_window_gets_another_edition() -> None:
    clock = SetClock()
    async with engine(MemoryLedger(), clock=clock) as rankd:
        await rankd.define("b", BEST)
        await submit(rankd, "ann", 10)
        cheat = await submit(rankd, "bob", 99)
        clock.time += DAY
        await submit(rankd, "ann", 1)
        yesterday = "daily:2026-11-14"
        assert rankd.state.edition("b", yesterday) == 1
        await rankd.corrections.retract("b", {"position": cheat.position})
        page = await rankd.reader.page("b", window=yesterday)
        assert list(page.players) == ["ann"]
        assert rankd.state.edition("b", yesterday) == 2


async def test_a_closed_window_shows_ties_as_it_did_when_it_closed() -> None:
    clock = SetClock()
    async with engine(MemoryLedger(), clock=clock) as rankd:
        await rankd.define("b", {**BEST, "ties": "ordinal"})
        await submit(rankd, "ann", 10)
        clock.time += DAY
        await rankd.redefine("b", {**BEST, "ties": "dense"})
        effect = await rankd.corrections.retract("b", {"player": "ann"})
        assert effect.submissions == 1
        assert await scores(rankd) == {}


@pytest.mark.parametrize("players_max", [1_000, 0])
async def test_a_closed_window_has_the_segments_of_its_time(
    players_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever has become of the player's attributes, and where it had none."""
    monkeypatch.setattr(mass_retraction, "REFOLDED_PLAYERS_MAX", players_max)
    clock = SetClock()
    async with engine(MemoryLedger(), clock=clock) as rankd:
        await rankd.define("b", BEST)
        bodies = [
            {"player": "ann", "score": 3, "attributes": {"region": "eu"}},
            {"player": "bob", "score": 2},
            {"player": "bob", "score": 1, "build": "good"},
        ]
        await rankd.submit("b", [{"build": "bad", **body} for body in bodies])
        clock.time += DAY
        for player in ("ann", "bob"):
            await rankd.profile(player, {"attributes": {"region": "us"}})
        await submit(rankd, "cyd", 1)
        effect = await rankd.corrections.retract("b", {"build": "bad"})
        assert effect.position is not None
        await rankd.corrections.undo_retraction("b", effect.position)
        for segment, expected in (
            (None, ["ann", "bob"]),
            ("region:eu", ["ann"]),
            ("region:us", []),
        ):
            page = await rankd.reader.page("b", window="daily:2026-11-14", segment=segment)
            assert list(page.players) == expected, segment


async def test_retracting_many_players_comes_to_the_same_as_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = []
    for players_max in (1_000, 0):
        monkeypatch.setattr(mass_retraction, "REFOLDED_PLAYERS_MAX", players_max)
        clock, ledger = SetClock(), MemoryLedger()
        async with engine(ledger, clock=clock) as rankd:
            await rankd.define("b", {**BEST, "rule": "sum"})
            for _ in range(3):
                for number in range(20):
                    player, build = f"p{number % 7}", ("good", "bad")[number % 3 == 0]
                    region = {"region": ("eu", "us")[number % 2]}
                    item = {"player": player, "score": number, "build": build}
                    await rankd.submit("b", [{**item, "attributes": region}])
                clock.time += DAY
            await rankd.corrections.set_player_state("p3", "hidden", {})
            steps = [await rankd.corrections.retract("b", {"build": "bad"}, dry_run=True)]
            steps.append(await rankd.corrections.retract("b", {"build": "bad"}))
            states = [await everything(rankd)]
            assert steps[1].position is not None
            steps.append(await rankd.corrections.undo_retraction("b", steps[1].position))
            states.append(await everything(rankd))
            async for _ in rankd.verify():
                pass
        found.append(([effect._replace(changes=()) for effect in steps], states))
        found[-1][1].append([sorted(effect.changes) for effect in steps])
    assert found[0] == found[1]


async def everything(rankd: Engine) -> list[object]:
    index = rankd.projector.index
    rankings = sorted(await index.rankings("b"), key=str)
    return [
        (ranking, list((await index.read(ranking, first=Rank(1), limit=1_000)).entries))
        for ranking in rankings
    ]


async def test_states_of_players_hold_at_once_on_every_window(rankd: Engine) -> None:
    await rankd.define("b", BEST)
    await rankd.submit("b", [{"player": "ann", "score": 10, "attributes": {"region": "eu"}}])
    await submit(rankd, "bob", 5)
    board, revision = rankd.state.page("b").board, rankd.state.revision
    heard: list[object] = []
    await rankd.corrections.set_player_state("ann", "banned", {"reason": "a bot"}, actor="mod")
    assert await scores(rankd) == {"bob": 5}
    assert not (await rankd.reader.page("b", segment="region:eu")).players
    with pytest.raises(PlayerBanned):
        await submit(rankd, "ann", 11)
    assert rankd.state.revision > revision, "a plan of before does not submit any more"
    with pytest.raises(PlayerBanned):
        rankd.submitter_of(board)([ScoreSubmitted("b", "ann", (11,))], heard.append)
    await rankd.corrections.set_player_state("ann", "active", {})
    assert await scores(rankd) == {"ann": 10, "bob": 5}
    assert list((await rankd.reader.page("b", segment="region:eu")).players) == ["ann"]

    await rankd.corrections.set_player_state("ann", "hidden", {})
    unseen = await submit(rankd, "ann", 20)
    assert unseen.receipt is not None
    assert (unseen.receipt.verdict, unseen.receipt.rank, unseen.receipt.total) == (
        "counted",
        None,
        1,
    )
    assert await scores(rankd) == {"bob": 5}
    await rankd.corrections.set_player_state("ann", "shadowed", {})
    unseen = await submit(rankd, "ann", 30)
    assert unseen.receipt is not None
    assert (unseen.receipt.rank, unseen.receipt.previous_rank, unseen.receipt.total) == (1, 1, 2)
    assert await scores(rankd) == {"bob": 5}
    await rankd.corrections.set_player_state("ann", "active", {})
    assert await scores(rankd) == {"ann": 30, "bob": 5}


async def test_a_state_ends_when_its_time_is_over() -> None:
    clock = SetClock()
    async with engine(MemoryLedger(), clock=clock) as rankd:
        await rankd.define("b", BEST)
        await submit(rankd, "ann", 10)
        until = {"until": "2026-11-14T13:00:00Z"}
        await rankd.corrections.set_player_state("ann", "banned", until)
        assert await scores(rankd) == {}
        clock.time = NOON + 3_600_000_000
        await rankd.sealer.turn()
        assert await scores(rankd) == {"ann": 10}
        await submit(rankd, "ann", 11)


async def test_an_adjustment_counts_whatever_the_rule(rankd: Engine) -> None:
    await rankd.define("b", BEST)
    await submit(rankd, "ann", 10)
    answer = await rankd.corrections.adjust("b", {"player": "ann", "score": 4, "reason": "typo"})
    assert await scores(rankd) == {"ann": 4}
    await rankd.corrections.adjust("b", {"player": "ann", "delta": -1, "key": "once"})
    await rankd.corrections.adjust("b", {"player": "ann", "delta": -1, "key": "once"})
    assert await scores(rankd) == {"ann": 3}
    await rankd.corrections.retract("b", {"position": answer.position})
    assert await scores(rankd) == {"ann": 9}


async def test_metadata_is_set_without_a_score(rankd: Engine) -> None:
    await rankd.define("b", BEST)
    await submit(rankd, "ann", 10)
    await rankd.corrections.set_metadata("b", "ann", {"car": "red"})
    standing = await rankd.reader.standing("b", "ann", window="daily")
    assert standing is not None
    assert standing.metadata == {"car": "red"}


async def test_corrections_are_there_after_a_restart(tmp_path: Path) -> None:
    async with SQLiteLedger.open(tmp_path) as ledger, engine(ledger) as rankd:
        await rankd.define("b", BEST)
        await submit(rankd, "ann", 10)
        cheat = await submit(rankd, "ann", 99)
        await submit(rankd, "bob", 50)
        await rankd.corrections.retract("b", {"position": cheat.position})
        await rankd.corrections.set_player_state("bob", "hidden", {})
    async with SQLiteLedger.open(tmp_path) as ledger, engine(ledger) as rankd:
        assert await scores(rankd) == {"ann": 10}
        async for _ in rankd.verify():
            pass
        await rankd.corrections.set_player_state("bob", "active", {})
        assert await scores(rankd) == {"bob": 50, "ann": 10}


async def test_a_redefinition_folds_what_counts(rankd: Engine) -> None:
    await rankd.define("b", BEST)
    await submit(rankd, "ann", 10)
    cheat = await submit(rankd, "ann", 99)
    await submit(rankd, "bob", 50)
    await submit(rankd, "cyd", 60)
    await rankd.corrections.retract("b", {"position": cheat.position})
    await rankd.corrections.adjust("b", {"player": "cyd", "delta": 5})
    await rankd.corrections.set_player_state("bob", "hidden", {})
    await rankd.redefine("b", {**BEST, "rule": "sum"})
    assert await scores(rankd) == {"cyd": 65, "ann": 10}
    await rankd.corrections.set_player_state("bob", "active", {})
    assert await scores(rankd) == {"cyd": 65, "bob": 50, "ann": 10}
    async for _ in rankd.verify():
        pass


async def test_a_condition_beside_a_position_holds_also_in_a_redefinition(rankd: Engine) -> None:
    await rankd.define("b", BEST)
    item = {"player": "ann", "score": 10, "build": "good"}
    (good,) = await rankd.submit("b", [item])
    selecting = {"position": good.position, "build": "bad"}
    assert (await rankd.corrections.retract("b", selecting)).position is None
    retraction = Retraction(Position(99), ScoresRetracted("b", None, (good.position,), "bad"))
    (recorded,) = await rankd._ledger.read(after=Position(good.position - 1), limit=1)
    assert not RetractionFilter([retraction], "b").selects(recorded)


async def test_several_players_are_retracted_by_name_on_one_board_and_on_all(
    rankd: Engine,
) -> None:
    for board in ("b", "c"):
        await rankd.define(board, {**BEST, "rule": "sum"})
        for player in ("ann", "bob", "cyd"):
            await rankd.submit(board, [{"player": player, "score": 1}])
    effect = await rankd.corrections.retract("b", {"players": ["bob", "ann", "eve"]})
    assert (effect.submissions, effect.players) == (2, 2)
    assert await scores(rankd) == {"cyd": 1}
    everywhere = await rankd.corrections.retract(None, {"players": ["bob", "cyd"]})
    assert (everywhere.submissions, everywhere.players) == (3, 3)
    assert await scores(rankd, "c") == {"ann": 1}
    await rankd.redefine("b", {**BEST, "rule": "latest"})
    assert await scores(rankd) == {}
    assert everywhere.position is not None
    await rankd.corrections.undo_retraction(None, everywhere.position)
    assert (await scores(rankd), await scores(rankd, "c")) == (
        {"cyd": 1},
        {"ann": 1, "bob": 1, "cyd": 1},
    )
    async for _ in rankd.verify():
        pass


async def test_a_range_of_scores_selects_the_players_whose_entries_lie_in_it(
    rankd: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rankd.define("b", BEST)
    for player, score in (("ann", 10), ("bob", 20), ("cyd", 30), ("bob", 5), ("dee", 99)):
        await submit(rankd, player, score)
    effect = await rankd.corrections.retract("b", {"score_min": 20, "score_max": 30}, dry_run=True)
    assert (effect.submissions, effect.players) == (3, 2)
    assert await scores(rankd) == {"dee": 99, "cyd": 30, "bob": 20, "ann": 10}
    await rankd.corrections.retract("b", {"score_min": 20, "score_max": 30, "window": "daily"})
    assert await scores(rankd) == {"dee": 99, "ann": 10}
    nothing = await rankd.corrections.retract("b", {"score_min": 20, "score_max": 30})
    assert (nothing.position, nothing.submissions) == (None, 0)
    with pytest.raises(InvalidPage):
        await rankd.corrections.retract("b", {"score_min": 30, "score_max": 20})
    with pytest.raises(InvalidRequest):
        await rankd.corrections.retract(None, {"score_max": 20})
    monkeypatch.setattr(corrector, "RETRACTED_PLAYERS_MAX", 1)
    with pytest.raises(InvalidRequest):
        await rankd.corrections.retract("b", {"score_max": 100})
    assert await scores(rankd) == {"dee": 99, "ann": 10}


@pytest.mark.parametrize("players_max", [1_000, 0])
async def test_a_retraction_reaches_windows_that_a_redefinition_added(
    rankd: Engine, players_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were folded from submissions of before, too."""
    monkeypatch.setattr(mass_retraction, "REFOLDED_PLAYERS_MAX", players_max)
    await rankd.define("b", {"rule": "sum", "windows": ["all"]})
    await submit(rankd, "ann", 10)
    await rankd.submit("b", [{"player": "ann", "score": 90, "build": "bad"}])
    await submit(rankd, "bob", 50)
    await rankd.redefine("b", {"rule": "sum", "windows": ["all", "daily"]})
    effect = await rankd.corrections.retract("b", {"build": "bad"})
    assert len(effect.changes) == 2
    for window in ("all", "daily"):
        page = await rankd.reader.page("b", window=window)
        assert [(one.player, one.scores) for one in page.standings] == [
            ("bob", (50,)),
            ("ann", (10,)),
        ]
    async for _ in rankd.verify():
        pass


async def test_metadata_is_in_windows_that_a_redefinition_added(rankd: Engine) -> None:
    """They were folded from the facts of before, and a retraction comes to the same."""
    await rankd.define("b", {"windows": ["all"]})
    await submit(rankd, "ann", 10)
    await rankd.corrections.set_metadata("b", "ann", {"seen": 1})
    worse = await submit(rankd, "ann", 5)
    await rankd.redefine("b", {"windows": ["all", "daily"]})
    for retracts in (False, True):
        if retracts:
            await rankd.corrections.retract("b", {"position": worse.position})
        for window in ("all", "daily"):
            page = await rankd.reader.page("b", window=window)
            assert [one.metadata for one in page.standings] == [{"seen": 1}], (window, retracts)


async def test_attempts_begin_anew_in_a_window_that_comes_back(rankd: Engine) -> None:
    """A retraction knows of as many attempts as were counted when the submissions came."""
    first, limits = {"windows": ["all", "daily"]}, {"limits": {"attempts_max": 1}}
    await rankd.define("b", {**first, **limits})
    gone = await submit(rankd, "ann", 5)
    await rankd.redefine("b", {"windows": ["all"], **limits})
    await rankd.redefine("b", {**first, **limits})
    await submit(rankd, "ann", 7)
    for retracts in (False, True):
        if retracts:
            await rankd.corrections.retract("b", {"position": gone.position})
        page = await rankd.reader.page("b", window="daily")
        assert [one.scores for one in page.standings] == [(7,)], retracts


async def test_what_counted_in_windows_that_are_kept_no_longer_goes_on_counting() -> None:
    """In a window that a redefinition added, though none of its own time is known any more."""
    clock = SetClock()
    async with engine(MemoryLedger(), clock=clock) as rankd:
        await rankd.define("b", {"windows": ["daily"], "retention": {"daily": "1d"}})
        await submit(rankd, "ann", 10)
        clock.time += 2 * DAY
        await submit(rankd, "ann", 5)
        clock.time += 2 * DAY
        cheat = await submit(rankd, "ann", 5)
        assert "daily:2026-11-14" not in rankd.state.page("b").sealed
        await rankd.redefine("b", {"windows": ["all", "daily"], "retention": {"daily": "1d"}})
        assert await scores(rankd) == {"ann": 10}
        effect = await rankd.corrections.retract("b", {"position": cheat.position})
        assert await scores(rankd) == {"ann": 10}
        again = await rankd.corrections.retract("b", {"player": "ann"}, dry_run=True)
        assert (effect.submissions, again.submissions) == (1, 2)


@pytest.mark.parametrize("players_max", [1_000, 0])
async def test_a_retraction_is_taken_back_though_another_selects_the_same(
    rankd: Engine, players_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mass_retraction, "REFOLDED_PLAYERS_MAX", players_max)
    await rankd.define("b", BEST)
    await rankd.submit("b", [{"player": "ann", "score": 10, "build": "bad"}])
    first = await rankd.corrections.retract("b", {"build": "bad"})
    await rankd.submit("b", [{"player": "ann", "score": 5, "build": "bad"}])
    second = await rankd.corrections.retract("b", {"build": "bad"})
    assert first.position is not None and second.position is not None
    undone = await rankd.corrections.undo_retraction("b", first.position)
    assert (undone.submissions, await scores(rankd)) == (0, {})
    assert undone.position is not None
    await rankd.corrections.undo_retraction("b", second.position)
    assert await scores(rankd) == {"ann": 10}


async def test_to_restore_an_active_player_records_nothing(rankd: Engine) -> None:
    await rankd.define("b", BEST)
    await submit(rankd, "ann", 10)
    for boards in ({}, {"boards": ["b"]}):
        before = rankd.position
        assert await rankd.corrections.set_player_state("ann", "active", boards) == before
        assert rankd.position == before
    await rankd.corrections.set_player_state("ann", "banned", {"boards": ["b"]})
    before = rankd.position
    assert await rankd.corrections.set_player_state("ann", "active", {"boards": ["c"]}) == before
    assert await scores(rankd) == {}
    assert await rankd.corrections.set_player_state("ann", "active", {}) == before + 1
    assert await scores(rankd) == {"ann": 10}


async def test_an_adjustment_is_repeated_under_narrower_bounds(rankd: Engine) -> None:
    await rankd.define("b", {})
    body = {"player": "ann", "score": 50, "key": "k"}
    first = await rankd.corrections.adjust("b", body)
    await rankd.redefine("b", {"limits": {"score_max": 10}}, drop_scores=True)
    again = await rankd.corrections.adjust("b", body)
    assert (again.duplicate, again.position) == (True, first.position)
    with pytest.raises(ScoreOutOfBounds):
        await rankd.corrections.adjust("b", {**body, "key": "other"})
