"""The engine for a program without an event loop: the same calls as the other, and each waits."""

import inspect
import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.core.doubles import DAY, NOON, MachineClock

import rankd
from rankd.core.engine import DRAFT_BEHIND_MAX
from rankd.core.reader import at_once
from rankd.embedded import AsyncBoard, AsyncRanks, Board, Ranks, RemoteBoard, RemoteRanks
from rankd.errors import (
    BoardDiffers,
    DropsScores,
    InvalidBoard,
    InvalidPage,
    InvalidProfile,
    InvalidSubmission,
    LedgerUnavailable,
    NothingToBackUp,
    UnknownBoard,
    UnknownWindow,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from rankd.ports import Progress


def public(kind: type) -> dict[str, Any]:
    return {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}


KINDS = [(Board, AsyncBoard, RemoteBoard), (Ranks, AsyncRanks, RemoteRanks)]
"""Without an event loop, with one, and with one over an index across a network."""

AT_ONCE = ("board", "on", "past")
"""Calls that no engine awaits."""

WHERE_AWAITED = {"past"}
"""Where nothing is awaited, the reads of the present take a moment, too."""

READS = {
    "around",
    "around_rank",
    "boards",
    "distribution",
    "friends",
    "lookup",
    "page",
    "rank_for",
    "ranks",
    "score_for",
    "standing",
    "standings",
    "top",
    "windows",
    "schedule",
}


# ------------------------------------------------------------------------ the same calls


@pytest.mark.parametrize("kinds", KINDS)
def test_all_engines_have_the_same_calls(kinds: tuple[type, type, type]) -> None:
    synchronous, asynchronous, awaited = map(public, kinds)
    assert set(synchronous) == set(asynchronous) - WHERE_AWAITED == set(awaited) - WHERE_AWAITED
    for name, member in awaited.items():
        if name in WHERE_AWAITED:
            continue
        at_once = isinstance(member, property) or name in AT_ONCE
        assert inspect.iscoroutinefunction(member) is not at_once, name
        assert not inspect.iscoroutinefunction(synchronous[name]), name
        waits = not at_once and name not in READS
        assert inspect.iscoroutinefunction(asynchronous[name]) is waits, name


@pytest.mark.parametrize("kinds", KINDS)
def test_every_call_takes_and_promises_the_same(kinds: tuple[type, type, type]) -> None:
    synchronous, *others = map(public, kinds)
    for name in synchronous:
        for ours, theirs in [(synchronous[name], other[name]) for other in others]:
            assert inspect.getdoc(ours), name
            if name != "board":  # Which can be had before it is there, where one may wait.
                assert inspect.getdoc(ours) == inspect.getdoc(theirs), name
            if isinstance(ours, property):
                assert isinstance(theirs, property)
                continue
            parameters = inspect.signature(ours).parameters
            assert parameters == inspect.signature(theirs).parameters, name
            assert returned(ours) == returned(theirs), name


def returned(call: Any) -> Any:
    """The annotation of what a call returns, any board being a board."""
    annotation = inspect.signature(call).return_annotation
    return {AsyncBoard: Board, RemoteBoard: Board}.get(annotation, annotation)


def test_a_standing_is_the_same_without_a_coroutine(tmp_path: Path) -> None:
    with rankd.open(tmp_path) as ranks:
        for ties in ("ordinal", "dense", "standard"):
            board = ranks.board(ties, ties=ties, segments=["region"], windows=["all", "daily"])
            for player, score in (("ann", 3), ("bob", 3), ("cyd", 1)):
                board.submit(player, score, attributes={"region": "eu"}, metadata={"level": score})
            for player in ("ann", "bob", "cyd", "unknown"):
                for segment in (None, "region:eu", "region:us"):
                    asked: dict[str, Any] = {"window": "daily", "segment": segment}
                    found = board._thread.read(board._board.standing(player, **asked))
                    assert board.standing(player, **asked) == found


def test_every_argument_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call of one engine makes the same call of the one that is awaited, with all it got."""
    for synchronous, asynchronous, awaited in KINDS:
        for name, member in public(awaited).items():
            if isinstance(member, property) or name in (*AT_ONCE, "close"):
                continue
            _check_handed_on(synchronous, awaited, name, monkeypatch)
            if name in READS:
                _check_handed_on(asynchronous, awaited, name, monkeypatch)


def _check_handed_on(kind: type, awaited: type, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    signature = inspect.signature(getattr(awaited, name))
    given = {
        parameter: object()
        for parameter, how in signature.parameters.items()
        if parameter != "self" and how.kind is not inspect.Parameter.VAR_KEYWORD
    }
    if "definition" in signature.parameters:
        given["rule"] = object()  # One of the words of a definition.
    if "then" in signature.parameters and not issubclass(kind, AsyncBoard):
        given["as_of"] = object()
    calls: list[dict[str, Any]] = []
    answer = object()

    async def record(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs).arguments
        words = bound.pop("definition", {})
        words |= bound.pop("then", {})
        calls.append({**bound, **words})
        return answer

    asked: Any = object.__new__(awaited)
    ours: Any = object.__new__(kind)
    ours._answer, ours._board, ours._ranks = at_once, asked, asked
    ours._thread = ours._caller = SimpleNamespace(write=at_once)
    ours._corrector = ours._rewards = asked
    remote = SimpleNamespace(reader=SimpleNamespace(immediate=False))
    ours._wanted = SimpleNamespace(there=lambda: remote)
    with monkeypatch.context() as patch:
        patch.setattr(awaited, name, record)
        told = getattr(ours, name)(**given)
    assert calls == [{"self": asked, **given}], name
    assert told is (None if signature.return_annotation is None else answer), name


# ----------------------------------------------------------------------------- its life


def test_a_closed_engine_refuses_every_call(tmp_path: Path) -> None:
    with rankd.open(tmp_path) as ranks:
        board = ranks.board("arena")
        board.submit("ann", 1)
    uses: list[Callable[[], object]] = [
        lambda: board.submit("ann", 2),
        lambda: board.submit_many([("ann", 2)]),
        lambda: board.standing("ann"),
        lambda: board.redefine(rule="sum"),
        lambda: board.preview(rule="sum"),
        board.windows,
        board.retire,
        ranks.boards,
        ranks.save,
        ranks.verify,
        ranks.rebuild,
        lambda: ranks.profile("ann"),
        lambda: ranks.merge_profile("ann"),
        lambda: ranks.players("ann"),
        lambda: ranks.erase("ann"),
        lambda: ranks.backup(tmp_path / "copy"),
    ]
    for use in uses:
        with pytest.raises(LedgerUnavailable, match="closed") as refusal:
            use()
        assert refusal.value.applied == "no"
    with rankd.open(tmp_path) as again:
        assert [each.score for each in again.board("arena").top()] == [1]


def test_memory_warns_and_has_nothing_to_back_up(tmp_path: Path) -> None:
    with pytest.warns(RuntimeWarning, match="memory"), rankd.open() as ranks:
        assert not ranks.durable
        ranks.board("arena").submit("ann", 1)
        ranks.verify()
        ranks.rebuild()
        with pytest.raises(NothingToBackUp, match="folder"):
            ranks.backup(tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []


def test_a_start_uses_the_index_that_was_saved(tmp_path: Path) -> None:
    with rankd.open(tmp_path) as ranks:
        assert ranks.durable
        board = ranks.board("arena")
        board.submit_many([(f"p{n}", n) for n in range(50)])
        assert ranks.save() == ranks.position
        board.submit("late", 60)
        position = ranks.position
    told: list[Progress] = []
    with rankd.open(tmp_path, progress=told.append) as ranks:
        assert ranks.position == position
        assert [each.player for each in ranks.board("arena").top(2)] == ["late", "p49"]
    folded = [step for step in told if step.stage == "folding"]
    loaded = [step for step in told if step.stage != "folding"]
    assert loaded, "the saved index was not read"
    assert len(folded) == 1, "and what came after it was folded"


# ------------------------------------------------------------------------------- caring


def _some(folder: Path) -> list[tuple[int, str, int]]:
    with rankd.open(folder) as ranks:
        ranks.board("arena").submit_many([(f"p{n}", n * 7 % 31) for n in range(40)])
        return _standings(ranks)


def _standings(ranks: Ranks) -> list[tuple[int, str, int]]:
    return [(each.rank, each.player, each.scores[0]) for each in ranks.board("arena").top(1000)]


def test_a_backup_is_restored_into_an_empty_folder(tmp_path: Path) -> None:
    before = _some(tmp_path / "a")
    told: list[Progress] = []
    with rankd.open(tmp_path / "a") as ranks:
        ranks.backup(tmp_path / "copy", progress=told.append)
        ranks.board("arena").submit("later", 99)
    _check_steps(told)
    told.clear()
    rankd.restore(tmp_path / "copy", tmp_path / "b", progress=told.append)
    _check_steps(told)
    with rankd.open(tmp_path / "b") as ranks:
        assert _standings(ranks) == before


def _check_steps(told: "list[Progress]") -> None:
    assert told
    for step in told:
        assert 0 <= step.done <= step.total
    assert told[-1].done == told[-1].total


@pytest.mark.parametrize("care", ["verify", "rebuild", "save"])
def test_care_tells_how_far_it_is_and_changes_nothing(tmp_path: Path, care: str) -> None:
    before = _some(tmp_path)
    told: list[Progress] = []
    with rankd.open(tmp_path) as ranks:
        getattr(ranks, care)(progress=told.append)
        assert _standings(ranks) == before
        assert ranks.board("arena").submit("p1", 1000).rank == 1
    _check_steps(told)


class Terminal(io.StringIO):
    """Where bars are redrawn."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("care", ["verify", "rebuild", "save"])
def test_progress_true_draws_a_bar(
    tmp_path: Path, care: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _some(tmp_path)
    with rankd.open(tmp_path) as ranks:
        monkeypatch.setattr(sys, "stderr", drawn := Terminal())
        getattr(ranks, care)(progress=True)
        monkeypatch.undo()
    assert "[##############################] 100%" in drawn.getvalue()
    assert drawn.getvalue().endswith("\n")


def test_redefining_tells_how_far_it_is(tmp_path: Path) -> None:
    """Where there is enough to fold again that somebody would wonder."""
    _some(tmp_path)
    told: list[Progress] = []
    with rankd.open(tmp_path) as ranks:
        board = ranks.board("arena")
        board.submit_many([(f"q{n}", 100 + n) for n in range(2 * DRAFT_BEHIND_MAX)])
        board.redefine(direction="lower", progress=told.append)
        assert (board.top(1)[0].player, board.page().total) == ("p0", 2 * DRAFT_BEHIND_MAX + 40)
    _check_steps(told)


# -------------------------------------------------------------------------- definitions


def test_a_new_direction_leaves_the_columns_alone(tmp_path: Path) -> None:
    with rankd.open(tmp_path) as ranks:
        columns = [{"name": "points", "direction": "higher"}, {"name": "ms", "direction": "lower"}]
        board = ranks.board("arena", columns=columns)
        board.submit("ann", 5, columns={"ms": 100})
        board.submit("bob", 4, columns={"ms": 90})
        board.redefine(direction="lower")
        assert board.definition["columns"] == [
            {"name": "points", "direction": "lower"},
            {"name": "ms", "direction": "lower"},
        ]
        assert [(each.player, each.scores) for each in board.top()] == [
            ("bob", (4, 90)),
            ("ann", (5, 100)),
        ]
        board.redefine(columns=columns)
        assert [each.player for each in board.top()] == ["ann", "bob"]
        with pytest.raises(InvalidBoard, match="direction"):
            board.redefine(direction="sideways")


def test_scores_are_dropped_only_where_that_is_agreed_to(tmp_path: Path) -> None:
    with rankd.open(tmp_path) as ranks:
        board = ranks.board("arena")
        board.submit("ann", 5)
        columns = [{"name": "points"}]
        assert board.preview(columns=columns).drops == ("all",)
        with pytest.raises(DropsScores):
            board.redefine(columns=columns)
        assert board.top()[0].score == 5
        board.redefine(columns=columns, drop_scores=True)
        assert board.top() == []


def test_what_is_not_redefined_stays(tmp_path: Path) -> None:
    with rankd.open(tmp_path) as ranks:
        board = ranks.board("arena", rule="sum", windows=["daily"], retention={"daily": "2d"})
        before = board.definition
        preview = board.preview(title="The arena")
        assert board.definition == before
        assert [(each.field, each.after) for each in preview.changes] == [("title", "The arena")]
        assert list(preview.windows) == []
        board.redefine(title="The arena")
        assert board.definition == {**before, "title": "The arena"}


def test_a_board_that_differs_is_not_changed_by_asking_for_it(tmp_path: Path) -> None:
    with rankd.open(tmp_path) as ranks:
        ranks.board("arena", rule="sum", decimals=2)
        assert ranks.board("arena").definition["rule"] == "sum"
        assert ranks.board("arena", rule="sum", decimals=2).name == "arena"
        with pytest.raises(BoardDiffers) as refusal:
            ranks.board("arena", rule="best", decimals=1)
        assert refusal.value.fields == ("rule", "decimals")
        assert ranks.board("arena").definition["rule"] == "sum"


def test_a_definition_is_plain_json(tmp_path: Path) -> None:
    with rankd.open(tmp_path) as ranks:
        limits = {"score_max": "9.5"}
        board = ranks.board("arena", decimals=1, limits=limits, retention={}, windows=["daily"])
        again = json.loads(json.dumps(board.definition))
        assert ranks.board("arena", **again).name == "arena"


def test_a_retired_board_is_gone_and_its_name_is_free(tmp_path: Path) -> None:
    with rankd.open(tmp_path) as ranks:
        old = ranks.board("arena", rule="sum")
        old.submit("ann", 5)
        old.retire(reason="the season is over")
        assert ranks.boards() == []
        for use in (old.top, old.retire, lambda: old.submit("ann", 1), lambda: old.definition):
            with pytest.raises(UnknownBoard):
                use()
        assert ranks.standings("ann") == {}
        assert ranks.board("arena", rule="best").top() == []


# -------------------------------------------------------------------------------- errors


@pytest.mark.parametrize("place", [0, 1, 2])
def test_submit_many_names_the_wrong_item(tmp_path: Path, place: int) -> None:
    with rankd.open(tmp_path) as ranks:
        board = ranks.board("arena", limits={"score_max": 10})
        for wrong, field in (
            (("", 1), "player"),
            (("eve", 11), "score"),
            (("eve", "ten"), "score"),
            ({"player": "eve", "score": 1, "colour": "red"}, "colour"),
        ):
            items: list[Any] = [("ann", 1), ("bob", 2)]
            items.insert(place, wrong)
            with pytest.raises(InvalidSubmission) as refusal:
                board.submit_many(items)
            assert [error.field for error in refusal.value.errors] == [f"[{place}].{field}"]
        assert board.top() == []


def test_an_unknown_window_lists_the_known_ones(tmp_path: Path) -> None:
    with rankd.open(tmp_path) as ranks:
        board = ranks.board("arena", windows=["daily", "weekly"])
        reads: list[Callable[..., object]] = [
            board.top,
            board.page,
            lambda **which: board.standing("ann", **which),
            lambda **which: board.ranks(["ann"], **which),
            lambda **which: board.around("ann", **which),
            lambda **which: board.around_rank(1, **which),
            lambda **which: board.lookup(["ann"], **which),
            lambda **which: board.friends("ann", **which),
            lambda **which: board.rank_for(1, **which),
            lambda **which: board.score_for(rank=1, **which),
        ]
        for read in reads:
            with pytest.raises(UnknownWindow, match="its windows are daily, weekly") as refusal:
                read(window="hourly")
            assert refusal.value.known == ("daily", "weekly")


def test_what_is_said_of_players_is_checked(tmp_path: Path) -> None:
    with rankd.open(tmp_path) as ranks:
        ranks.board("arena")
        before = ranks.position
        wrong: list[Callable[[], object]] = [
            lambda: ranks.profile(""),
            lambda: ranks.profile("ann", name="\u202eevil"),
            lambda: ranks.profile("ann", attributes={"a b": 1}),
            lambda: ranks.merge_profile(""),
            lambda: ranks.merge_profile("ann", attributes={"a b": 1}),
            lambda: ranks.set_friends("ann", "bob"),
            lambda: ranks.set_friends("ann", [""]),
            lambda: ranks.erase(""),
            lambda: ranks.erase("ann", reason=""),
            lambda: ranks.standings(""),
        ]
        for use in wrong:
            with pytest.raises(InvalidProfile):
                use()
        assert ranks.position == before


def test_step_of_the_clock_is_confirmed(tmp_path: Path) -> None:
    machine = MachineClock()
    with rankd.open(tmp_path, clock=machine) as ranks:
        assert (ranks.clock_problem, ranks.confirm_clock()) == (None, None)
        machine.step(DAY)
        assert "rankd clock confirm" in (ranks.clock_problem or "")
        assert ranks.confirm_clock() == 86_400
        assert ranks.clock_problem is None


def test_wrong_time_is_corrected(tmp_path: Path) -> None:
    machine = MachineClock(NOON + 400 * DAY)
    with rankd.open(tmp_path, clock=machine) as ranks:
        board = ranks.board("b", windows=["all", "daily"])
        board.submit("ann", 5)
        machine.step(-400 * DAY)
        ranks.confirm_clock()
        seen = ranks.correct_clock(dry_run=True)
        assert (seen.wrong.first, seen.submissions, seen.position) == (1, 1, None)
        assert ranks.correct_clock(ahead_seconds=400 * 86_400).position == ranks.position
        assert [window.id for window in board.windows()] == ["all", "daily:2026-11-14"]
        assert [row.player for row in board.top(window="daily")] == ["ann"]
        ranks.verify()


def test_earlier_editions_of_a_closed_window_are_read(tmp_path: Path) -> None:
    with rankd.open(tmp_path / "scores.rankd") as ranks:
        board = ranks.board("b", windows=["all", "daily"])
        board.submit_many([("ann", 99), ("bob", 15)])
        board.reset_window("daily", reason="over")
        closed = next(one for one in board.windows() if one.state == "sealed").id
        board.retract(player="ann")
        assert [one.player for one in board.page(window=closed)] == ["bob"]
        for edition, players in ((1, ["ann", "bob"]), (2, ["bob"])):
            page = board.page(window=closed, edition=edition)
            assert [one.player for one in page] == players
            found = board.standing("bob", window=closed, edition=edition)
            assert found is not None
            assert found.rank == len(players)
        for edition in (0, 3):
            with pytest.raises(InvalidPage):
                board.page(window=closed, edition=edition)


def test_a_past_moment_is_read_like_the_present(tmp_path: Path) -> None:
    clock = MachineClock()
    with rankd.open(tmp_path / "then", clock=clock) as ranks:
        board = ranks.board("b", windows=["all", "daily"], segments=["region"])
        for number in range(4):
            board.submit(f"p{number}", number * 10, attributes={"region": "eu"})
        which: dict[str, Any] = {"window": "daily", "segment": "region:eu"}

        def seen(**then: Any) -> list[Any]:
            return [
                board.top(2, **which, **then),
                board.page(from_rank=2, **which, **then),
                board.standing("p1", **which, **then),
                board.ranks(["p0", "p1"], **which, **then),
                board.around("p1", above=1, below=1, **which, **then),
                board.around_rank(2, reach=1, **which, **then),
                board.lookup(["p1", "zed"], **which, **then),
                board.friends("p1", **which, **then),
                board.rank_for(15, **which, **then),
                board.score_for(rank=2, **which, **then),
                board.distribution(buckets=2, **which, **then),
            ]

        before, time = seen(), "2026-11-14T12:00:00Z"
        position = board.page().as_of
        clock.run(DAY)
        board.submit("p1", 99, attributes={"region": "eu"})
        assert [repr(one) for one in seen(as_of=position)] == [repr(one) for one in before]
        assert [repr(one) for one in seen(at=time)] == [repr(one) for one in before]
        assert seen() != before
        wrongs: list[dict[str, Any]] = [{"as_of": True}, {"at": "noon"}, {"as_of": 1, "at": time}]
        for wrong in wrongs:
            with pytest.raises(InvalidPage):
                board.top(**wrong)
        with pytest.raises(InvalidPage, match="edition cannot be combined"):
            board.page(as_of=position, edition=1)
