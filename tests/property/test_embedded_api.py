"""The engine in a program, under any history, says what a list folded from scratch says.

Method: everything a caller can do through ``rankd.open`` is done to an engine in a folder and to a
model (``embedded_model``), in any order, under a clock that goes forward over the ends of windows,
stands still and goes back. Every receipt is compared field by field in every window; after every
step every window and segment of every board is read whole and compared, and one read of each kind
is made with random bounds. Few players, few scores and few keys, so that ties, repeats and changes
of mind are the rule.

A window turns with whatever is recorded after its end, or when the engine wakes up by itself. Both
do the same at the same time of the clock, so each step that moves the clock records something
before anything is compared: nobody has to wait for the engine.

``python -m tests.property.embedded_campaign`` looks further than a commit does.
"""

import copy
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.property.embedded_corrections import REASON, CorrectionSteps, shown_reason
from tests.property.embedded_judge import same_reasons
from tests.property.embedded_lives import WindowSteps
from tests.property.embedded_model import (
    DAY,
    VERIFIER,
    Definition,
    Ranking,
    Row,
    Rules,
    Told,
    World,
    loses_large_scores,
    next_start,
    ranking,
    window_at,
)
from tests.property.embedded_play import PlaySteps, Replays, VerifierSteps
from tests.property.embedded_redefinitions import redefinitions
from tests.property.embedded_strategies import (
    MAIN,
    NO_PLAYER,
    PLAYERS,
    SEGMENTS,
    SIDE,
    START,
    attributes,
    bodies,
    bodies_beyond,
    numbers_of,
    players,
    rounds,
    rules_of_a_board,
    shares,
    some_players,
    steps,
)
from tests.simulation.power_loss import scratch_folder

import rankd
from rankd.core import mass_retraction, steady_clock, verifiers
from rankd.core.read_engine import WindowPreview
from rankd.embedded import Board, Ranks
from rankd.errors import (
    DropsScores,
    InvalidBoard,
    InvalidPage,
    InvalidSubmission,
    NotRanked,
    PlayerBanned,
    RankdError,
    RuleBroken,
    SubmissionRejected,
    UnknownBoard,
    UnknownWindow,
)
from rankd.model.receipt import Receipt
from rankd.model.standing import Standing

EXAMPLES = 32
STEPS = 30
"""What a commit looks at: about fifteen seconds of one core."""


@dataclass
class SetClock:
    time: int = START

    def now(self) -> int:
        return self.time


class Heard(logging.Handler):
    """What the engine has complained of."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if record.name == steady_clock.__name__:
            return  # It rightly tells a clock that steps back from the ledger's time.
        if "writes nothing to disk" not in message:  # As the Redis of a test does.
            self.messages.append(message)


@dataclass
class Walk:
    """A reader on its way through a ranking, and the entry it saw last."""

    window: str
    segment: str | None
    cursor: str | None
    order: tuple[Any, ...]
    onwards: bool


class EmbeddedMachine(CorrectionSteps, PlaySteps, VerifierSteps, WindowSteps):
    figures: ClassVar[Counter[str]] = Counter()
    """What was done and compared, over all runs, for the campaign to print."""

    def __init__(self) -> None:
        super().__init__()
        self.figures["runs"] += 1
        self.clock = SetClock()
        self.world = World(START)
        self.boards: dict[str, Board] = {}
        self.last_position = 0
        self.walk: Walk | None = None
        self.around = ExitStack()
        self.folder = self.around.enter_context(scratch_folder())
        self.heard = Heard()
        logging.getLogger("rankd").addHandler(self.heard)
        self.around.callback(logging.getLogger("rankd").removeHandler, self.heard)
        self.patched = self.around.enter_context(pytest.MonkeyPatch.context())
        for bound in ("VERIFIED_TOGETHER_MAX", "CALLS_TOGETHER_MAX", "VERIFY_SECONDS_MAX"):
            self.patched.setattr(verifiers, bound, 100_000)
        self.replays = Replays()
        self.opened = ExitStack()
        self.ranks: Ranks = self._open()

    def _open(self) -> Ranks:
        self.replays.forget()
        self.opened_with = self.world.accepted
        asked = {VERIFIER: self.replays.verify}
        return self.opened.enter_context(rankd.open(self.folder, clock=self.clock, verifiers=asked))

    def teardown(self) -> None:
        self.opened.close()
        self.around.close()

    # --------------------------------------------------------------------------- boards

    @initialize(main=rules_of_a_board(), data=st.data())
    def define(self, main: Rules, data: st.DataObject) -> None:
        self.refolded_max = data.draw(st.sampled_from([*self.bounds]), "players folded one by one")
        self.patched.setattr(mass_retraction, "REFOLDED_PLAYERS_MAX", self.refolded_max)
        self._define(MAIN, main)
        self._define(SIDE, Rules(rule="latest", windows=("all", "daily"), segments=("region",)))
        for number, player in enumerate(PLAYERS):
            said: Definition = {"region": ("eu", "us")[number % 2], "vip": number > 2}
            self._submit(SIDE, {"player": player, "score": number // 2, "attributes": said})
            self.ranks.set_friends(player, PLAYERS[number:])
            self.world.set_friends(player, PLAYERS[number:])
        for body in data.draw(rounds(main), "bodies"):
            self._submit(MAIN, body)

    def _define(self, name: str, rules: Rules) -> None:
        self.boards[name] = self.ranks.board(name, **rules.definition())
        self.world.define(name, rules)

    @rule(main=rules_of_a_board(), data=st.data())
    def retire_and_define_anew(self, main: Rules, data: st.DataObject) -> None:
        old = self.boards[MAIN]
        old.retire(reason="a new season")
        self.world.retire(MAIN)
        assert self.ranks.boards() == [SIDE]
        for use in (old.top, old.windows, lambda: old.submit("ann", 1), lambda: old.definition):
            with pytest.raises(UnknownBoard):
                use()
        self._define(MAIN, main)
        self.walk = None
        for body in data.draw(rounds(main), "bodies"):
            self._submit(MAIN, body)

    @rule(data=st.data())
    def redefine(self, data: st.DataObject) -> None:
        """A preview tells what the redefinition then does."""
        rules = self.world.boards[MAIN].rules
        self._redefine(*data.draw(redefinitions(rules), "redefinition"))

    @rule(data=st.data())
    def redefine_after_refusals(self, data: st.DataObject) -> None:
        """A refused submission stays out, though it would fit the definition that follows."""
        rules = self.world.boards[MAIN].rules
        for body in data.draw(st.lists(bodies_beyond(rules), min_size=1, max_size=5), "bodies"):
            self._submit(MAIN, body)
        if data.draw(st.booleans(), "windows"):
            every = tuple(dict.fromkeys([*rules.windows, "all", "daily"]))
            windows = replace(rules, windows=every)
            return self._redefine(windows, {"windows": windows.definition()["windows"]})
        rule = data.draw(st.sampled_from(["best", "latest", "sum", "first"]), "rule")
        low, high = data.draw(st.sampled_from([(None, None), (-20, 20)]), "limits")
        wider = replace(rules, rule=rule, low=low, high=high)
        words = {word: wider.definition()[word] for word in ("rule", "limits")}
        return self._redefine(wider, words)

    def _redefine(self, changed: Rules, words: Definition) -> None:
        board = self.boards[MAIN]
        after = copy.deepcopy(self.world)
        after.redefine(MAIN, changed)
        before = board.definition
        if loses_large_scores(self.world.boards[MAIN], after.boards[MAIN]):
            for change in (board.preview, board.redefine):
                with pytest.raises(InvalidBoard) as refusal:
                    change(**words)
                assert [wrong.field for wrong in refusal.value.errors] == ["decimals"]
            return
        preview = board.preview(**words)
        assert board.definition == before, "a preview changes nothing"
        self._compare_preview(preview.windows, after)
        was, will = self.world.boards[MAIN], after.boards[MAIN]
        emptied = [
            each.window
            for each in preview.windows
            if each.window in was.open
            and was.entries(was.open[each.window])
            and not will.entries(will.open[each.window])
        ]
        assert list(preview.drops) == emptied, "no column is ever new here"
        if emptied:
            with pytest.raises(DropsScores):
                board.redefine(**words)
        board.redefine(drop_scores=bool(emptied), **words)
        now = board.definition
        assert {(each.field, str(each.before), str(each.after)) for each in preview.changes} == {
            (name, str(before[name]), str(now[name])) for name in now if now[name] != before[name]
        }
        self.world = after
        self.walk = None
        self._record_something()  # What is kept no longer goes with it.

    def _compare_preview(self, told: Sequence[WindowPreview], after: World) -> None:
        was, will = self.world.boards[MAIN], after.boards[MAIN]
        by_name = {each.window: each for each in told}
        assert len(by_name) == len(told)
        assert set(by_name) <= set(will.open)
        for name, window in will.open.items():
            then = ranking(was.rules, ())
            if name in was.open:
                entries = was.entries(was.open[name]).values()
                then = ranking(was.rules, self.world.ranked(MAIN, entries))
            now = ranking(will.rules, after.ranked(MAIN, will.entries(window).values()))
            if name not in by_name:
                assert [row.entry for row in now.rows] == [row.entry for row in then.rows]
                continue
            preview = by_name[name]
            assert (preview.total, preview.total_after) == (then.total, now.total)
            self._compare(preview.top, then, then.rows[:10])
            self._compare(preview.top_after, now, now.rows[:10])

    # ---------------------------------------------------------------------- submissions

    @rule(data=st.data(), name=st.sampled_from([MAIN, MAIN, SIDE]))
    def submit(self, data: st.DataObject, name: str) -> None:
        rules = self.world.boards[name].rules
        for body in data.draw(rounds(rules), "bodies"):
            self._submit(name, body)

    def _submit(self, name: str, body: Definition) -> None:
        if self._is_unanswerable(name, body):
            return
        arguments, board = dict(body), self.boards[name]
        player, score = arguments.pop("player"), arguments.pop("score", None)
        send = board.submit
        if arguments.pop("adjusts", False):
            send = partial(board.adjust, reason=REASON)
        self._expect(name, body, lambda: send(player, score, **arguments))

    def _expect(self, name: str, body: Definition, submit: Callable[[], Receipt]) -> None:
        self.figures["submissions"] += 1
        refusal = self._refusal(name, body)
        if refusal is not None:
            with pytest.raises(RankdError) as raised:
                submit()
            # Where both are wrong, either may be said.
            assert raised.value.code in {refusal, *self._said_instead(name, body)}
            return
        told, duplicate = self._told(name, body)
        if told.refused is None:
            self._compare_receipt(submit(), told, duplicate=duplicate)
            return
        with pytest.raises(RankdError) as rejected:
            submit()
        assert rejected.value.code == told.refusal_code, (rejected.value, told)
        if isinstance(rejected.value, SubmissionRejected):
            assert rejected.value.reason == told.refused, (rejected.value, told)
        if isinstance(rejected.value, RuleBroken):
            broken = [(one.rule, one.observed, one.limit) for one in rejected.value.reasons]
            reasons = [shown_reason(reason, told.decimals) for reason in told.reasons]
            assert same_reasons(broken, reasons), (broken, reasons)

    def _refusal(self, name: str, body: Definition) -> str | None:
        """The code of a refusal that leaves no trace."""
        first = self.world.keys.get((name, body.get("key", "")))
        repeated = first is not None and first.is_repeated_by(body)
        banned = self.world.is_banned(body["player"], name, self.clock.time)
        banned = banned and not body.get("adjusts")
        if repeated:  # Answered as it was, whatever the board has become.
            return "player_banned" if banned else None
        if (code := self.world.refusal_at_the_door(name, body)) is not None:
            return code
        if banned:
            return "player_banned"
        if (code := self.world.refusal_of_run(name, body, self.clock.time)) is not None:
            return code
        return None if first is None else "key_reused"

    def _said_instead(self, name: str, body: Definition) -> tuple[str, ...]:
        """What may be said of a submission that has another mistake, for its key was used."""
        if (name, body.get("key", "")) not in self.world.keys:
            return ()
        banned = self.world.is_banned(body["player"], name, self.clock.time)
        return ("key_reused", "invalid_submission", *(("player_banned",) if banned else ()))

    def _told(self, name: str, body: Definition) -> tuple[Told, bool]:
        first = self.world.keys.get((name, body.get("key", "")))
        if first is not None:
            return first.told, True
        self.world.tick(self.clock.time)
        return self.world.submit(name, body), False

    def _is_unanswerable(self, name: str, body: Definition) -> bool:
        """Whether its key was used on a board of this name that was retired, and was different.

        Keys are remembered for ever, but what was said to the one may make no sense to the other.
        """
        first = self.world.keys.get((name, body.get("key", "")))
        board = self.world.boards[name]
        if first is None or first.board is board:
            return False
        then, now = first.board.rules, board.rules
        if first.told.decimals != now.decimals or len(then.columns) != len(now.columns):
            return True
        return self.world.refusal_at_the_door(name, first.body) is not None

    def _compare_receipt(self, receipt: Receipt, told: Told, *, duplicate: bool) -> None:
        self.figures["receipts"] += 1
        assert receipt.duplicate is duplicate
        assert duplicate or self.last_position < receipt.position <= self.ranks.position
        self.last_position = max(self.last_position, receipt.position)
        assert (receipt.board, receipt.player) == (told.board, told.player)
        assert receipt.decimals == told.decimals
        assert list(receipt.windows) == list(told.windows)
        for name, expected in told.windows.items():
            found = receipt.windows[name]
            for fact in (
                "window",
                "verdict",
                "code",
                "scores",
                "previous_scores",
                "rank",
                "previous_rank",
                "total",
                "percentile",
                "rank_change",
            ):
                assert getattr(found, fact) == getattr(expected, fact), (name, fact)
            assert (found.message is None) == expected.is_unexplained
        assert told.first is not None
        first = told.windows[told.first]
        for fact in ("verdict", "rank", "previous_rank", "rank_change", "total", "percentile"):
            assert getattr(receipt, fact) == getattr(first, fact), fact
        assert receipt.score == shown(first.scores, told.decimals)
        assert receipt.previous_score == shown(first.previous_scores, told.decimals)
        reasons = [(one.rule, one.observed, one.limit) for one in receipt.reasons]
        assert same_reasons(reasons, told.reasons), (reasons, told)
        assert receipt.expires == told.expires
        if not duplicate:
            self.world.positions[told.number] = receipt.position

    @precondition(lambda self: self.world.keys)
    @rule(data=st.data())
    def repeat_a_key(self, data: st.DataObject) -> None:
        """Clients stamp each try anew: the time is data, and makes it no other submission."""
        name, key = data.draw(st.sampled_from(sorted(self.world.keys)), "key")
        at = data.draw(st.sampled_from([{}, {"at": "2026-11-14T09:30:00Z"}]), "at")
        body = self.world.keys[name, key].body
        self._submit(name, body if body.get("adjusts") else {**body, **at})

    @precondition(lambda self: self.world.keys)
    @rule(data=st.data(), other=st.sampled_from(["build", "metadata", "attributes", "player"]))
    def reuse_a_key_for_something_else(self, data: st.DataObject, other: str) -> None:
        name, key = data.draw(st.sampled_from(sorted(self.world.keys)), "key")
        changed: Definition = {
            "build": "1.2",
            "metadata": {"car": "green"},
            "attributes": {"region": "asia"},
            "player": "zoe",
        }
        body = self.world.keys[name, key].body
        if body.get("adjusts") and other != "player":
            other = "metadata"
        self._submit(name, {**body, other: changed[other]})

    @rule(data=st.data(), wrong=st.booleans())
    def submit_many(self, data: st.DataObject, wrong: bool) -> None:
        """One commit: each gets its own answer, or one refusal is raised and the others count."""
        rules = self.world.boards[MAIN].rules
        if rules.runs is not None and rules.runs[2]:
            return
        items = data.draw(st.lists(bodies(rules), min_size=1, max_size=5), "items")
        items = [item for item in items if not self._is_unanswerable(MAIN, item)]
        items = [item for item in items if not self._is_wrong_twice(item)]
        outside = [
            place
            for place, item in enumerate(items)
            if self._refusal(MAIN, item) in ("score_out_of_bounds", "invalid_submission")
        ]
        if wrong and not outside:
            place = data.draw(st.integers(0, len(items)), "place of the wrong one")
            self._submit_with_a_wrong_one(items, place)
            return
        if outside:
            with pytest.raises(RankdError) as raised:
                self.boards[MAIN].submit_many(as_items(items))
            code = self.world.refusal_at_the_door(MAIN, items[outside[0]])
            assert raised.value.code == (code if len(items) == 1 else "invalid_submission")
            return
        if "player_banned" in [self._refusal(MAIN, item) for item in items]:
            with pytest.raises(PlayerBanned):
                self.boards[MAIN].submit_many(as_items(items))
            return
        expected: list[tuple[Told, bool]] = []
        refusals: list[str] = []
        for item in items:
            refusal = self._refusal(MAIN, item)
            if refusal is None:
                told, duplicate = self._told(MAIN, item)
                expected.append((told, duplicate))
                refusal = told.refusal_code
            if refusal is not None:
                refusals.append(refusal)
        self.figures["submissions"] += len(items)
        if refusals:
            with pytest.raises(RankdError) as raised:
                self.boards[MAIN].submit_many(as_items(items))
            assert raised.value.code == refusals[0]
            return
        receipts = self.boards[MAIN].submit_many(as_items(items))
        assert len(receipts) == len(expected)
        for receipt, (told, duplicate) in zip(receipts, expected, strict=True):
            # The position that reads are true at is that of the last: compared one by one below.
            self._compare_receipt(receipt, told, duplicate=duplicate)

    def _is_wrong_twice(self, item: Definition) -> bool:
        """Whether it is out of bounds and reuses a key, of which either may be said.

        Only the one keeps the others out.
        """
        first = self.world.keys.get((MAIN, item.get("key", "")))
        reused = first is not None and not first.is_repeated_by(item)
        return reused and self.world.refusal_at_the_door(MAIN, item) is not None

    def _submit_with_a_wrong_one(self, items: list[Definition], place: int) -> None:
        with pytest.raises(InvalidSubmission) as raised:
            wrong: Definition = {"player": "", "score": 1}
            self.boards[MAIN].submit_many([*items[:place], wrong, *items[place:]])
        named = f"[{place}].player" if items else "player"
        assert named in [error.field for error in raised.value.errors]

    # -------------------------------------------------------------------------- players

    @rule(player=players, name=st.none() | st.sampled_from(["Ann", "Ëve"]), said=attributes)
    def set_profile(self, player: str, name: str | None, said: dict[str, Any]) -> None:
        self._advanced(self.ranks.profile(player, name=name, attributes=said or None))
        self.world.profile(player, name, said)

    @rule(player=players, friends=st.lists(st.sampled_from([*PLAYERS, NO_PLAYER]), max_size=4))
    def set_friends(self, player: str, friends: list[str]) -> None:
        self._advanced(self.ranks.set_friends(player, friends))
        self.world.set_friends(player, friends)

    @rule(player=players)
    def erase(self, player: str) -> None:
        position = self.ranks.erase(player, reason="asked to")
        # Whether that is recorded depends on who else writes; what is erased is told behind it.
        assert position <= self.ranks.position
        self.last_position = self.ranks.position
        self.world.erase(player)

    def _advanced(self, position: int) -> None:
        assert self.last_position < position == self.ranks.position
        self.last_position = position

    # ----------------------------------------------------------------------------- time

    @rule(data=st.data(), step=steps, days=st.integers(0, 3), to_midnight=st.booleans())
    def time_passes(self, data: st.DataObject, step: int, days: int, to_midnight: bool) -> None:
        """Often to the very moment at which windows end."""
        if to_midnight:
            step = DAY - self.world.time % DAY + days * DAY + self.world.time - self.clock.time
        self._move_clock(step, data)

    @rule(data=st.data(), step=steps)
    def clock_goes_back(self, data: st.DataObject, step: int) -> None:
        """The ledger's time does not."""
        self._move_clock(-step, data)

    def _move_clock(self, step: int, data: st.DataObject) -> None:
        self.clock.time += step
        if data.draw(st.booleans(), "submit to the main board"):
            for body in data.draw(rounds(self.world.boards[MAIN].rules), "bodies"):
                self._submit(MAIN, body)
        self._record_something()

    def _record_something(self) -> None:
        """Windows that have ended are turned by it, on every board."""
        self._submit(SIDE, {"player": "ann", "score": 1})

    # --------------------------------------------------------------------- second lives

    @rule(save=st.booleans(), step=st.sampled_from([0, 0, DAY]))
    def restart(self, save: bool, step: int) -> None:
        if save:
            assert self.ranks.save() == self.ranks.position
        self.opened.close()
        self.clock.time += step
        self.ranks = self._open()
        assert self.ranks.boards() == list(self.world.boards)
        self.boards = {name: self.ranks.board(name) for name in self.world.boards}
        self._record_something()

    @rule(care=st.sampled_from(["save", "verify", "rebuild"]))
    def take_care(self, care: str) -> None:
        if care == "save":
            assert self.ranks.save() == self.ranks.position
        elif care == "verify":
            self.ranks.verify()
        else:
            self.ranks.rebuild()

    # -------------------------------------------------------------------------- reading

    @invariant()
    def nothing_is_complained_of(self) -> None:
        """A saved index that cannot be used would be folded again, and only said so."""
        assert self.heard.messages == []

    @invariant()
    def every_ranking_agrees(self) -> None:
        assert self.ranks.boards() == list(self.world.boards)
        for name, model in self.world.boards.items():
            board = self.boards[name]
            self._compare_windows(name)
            for opened in model.open:
                self._compare_rankings(name, opened, model.rules)
            for archive in model.closed:
                self._compare_rankings(name, archive.window.exact, archive.rules)
            for absent in {"all", "daily", "weekly", "season"} - set(model.rules.windows):
                if self.world.ranking(name, absent) is None:
                    with pytest.raises(UnknownWindow):
                        board.top(window=absent)

    def _compare_windows(self, name: str) -> None:
        model = self.world.boards[name]
        listed = self.boards[name].windows()
        found = [(each.id, each.start, each.end) for each in listed if each.state != "scheduled"]
        if self.clock.time <= self.world.time:
            coming = [(each.id, each.start) for each in listed if each.state == "scheduled"]
            absent = [each for each in model.rules.windows if each not in model.open]
            expected_starts = [(each, next_start(each, self.world.time)) for each in absent]
            assert [(id.partition(":")[0], start) for id, start in coming] == [
                (each, start) for each, start in expected_starts if start is not None
            ]
        states = {each.window.id: each.state for each in model.closed}
        told = {each.id: each.state for each in listed[: len(model.closed)]}
        assert told == states, (told, states)
        assert all(each.state == "open" for each in listed[len(model.closed) : len(found)])
        opened = [(each.id, each.start, each.end) for each in model.open.values()]
        closed = [(each.window.id, each.window.start, each.shown_end) for each in model.closed]
        assert found[len(closed) :] == opened
        assert sorted(found[: len(closed)], key=str) == sorted(closed, key=str)
        for recurrence in ("daily", "weekly", "season"):
            mine = [start for id, start, _ in found if id.startswith(recurrence)]
            assert mine == sorted(mine, key=lambda start: start or 0), "oldest first"
        now = self.boards[name].definition
        expected = model.rules.definition()
        for field in ("rule", "columns", "decimals", "ties", "tie_break", "windows", "segments"):
            assert now[field] == expected[field], field

    def _compare_rankings(self, name: str, window: str, rules: Rules) -> None:
        names = [*rules.segments]
        for segment in [None, *(each for each in SEGMENTS if each.partition(":")[0] in names)]:
            expected = self.world.ranking(name, window, segment)
            assert expected is not None
            page = self.boards[name].page(limit=1000, window=window, segment=segment)
            where = (name, window, segment, expected.players(), page)
            assert (page.total, page.as_of) == (expected.total, self.ranks.position), where
            assert (page.next_cursor, page.prev_cursor) == (None, None)
            self._compare(page.standings, expected, expected.rows)

    def _compare(
        self,
        found: Sequence[Standing],
        expected: Ranking,
        rows: Sequence[Row],
        *,
        places: bool = False,
    ) -> None:
        self.figures["standings"] += len(rows)
        expected_players = [row.entry.player for row in rows]
        assert [each.player for each in found] == expected_players, (found, rows)
        for place, (each, row) in enumerate(zip(found, rows, strict=True), start=1):
            assert (each.rank, each.scores) == (row.rank, row.entry.scores), each.player
            assert (each.total, each.as_of) == (expected.total, self.ranks.position)
            assert each.decimals == expected.rules.decimals
            assert each.score == shown(row.entry.scores, expected.rules.decimals)
            assert each.percentile == expected.percentile(row)
            assert each.name == self.world.names.get(each.player)
            assert each.metadata == row.entry.metadata
            assert each.place == (place if places else None)
            assert each.ordinal == expected.ordinal(row)

    def _chosen(self, data: st.DataObject) -> tuple[Board, str | None, str | None, Ranking] | None:
        """A window and a segment that can be read, and what should be in it."""
        model = self.world.boards[MAIN]
        readable = list(model.open)
        readable += [each.window.exact for each in model.closed]
        choices: list[str | None] = [*readable]
        if model.default_window in model.open:
            choices.append(None)
        if not choices:
            return None
        # Most have nobody in them yet: one such is enough.
        choices.sort(key=lambda each: -self._total(each or model.default_window))
        crowded = [each for each in choices if self._total(each or model.default_window) > 1]
        window = data.draw(st.sampled_from(choices[: len(crowded) + 1]), "window")
        rules = model.rules
        for archive in model.closed:
            if archive.window.exact == window and window not in model.open:
                rules = archive.rules
        known = [each for each in SEGMENTS if each.partition(":")[0] in rules.segments]
        segment = data.draw(st.none() | st.sampled_from(known) if known else st.none(), "segment")
        expected = self.world.ranking(MAIN, window or model.default_window, segment)
        assert expected is not None
        return self.boards[MAIN], window, segment, expected

    def _total(self, window: str) -> int:
        found = self.world.ranking(MAIN, window)
        return 0 if found is None else found.total

    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        """Every kind of read, with any bounds, is a part of the whole."""
        for read in (
            self._read_parts,
            self._read_some,
            self._read_range,
            self._project,
            self._walk_there_and_back,
        ):
            read(data)
        for recurrence in ("daily", "weekly"):
            self._read_back_in_time(data.draw(st.integers(1, 3), "steps back"), recurrence)

    def _read_parts(self, data: st.DataObject) -> None:
        if (chosen := self._chosen(data)) is None:
            return
        board, window, segment, expected = chosen
        which: dict[str, Any] = {"window": window, "segment": segment}
        rows = expected.rows
        limit, first = data.draw(st.integers(1, 4), "limit"), data.draw(st.integers(1, 6), "first")
        reach, below = data.draw(st.integers(0, 3), "reach"), data.draw(st.integers(0, 3), "below")
        self._compare(board.top(limit, **which), expected, rows[:limit])
        part = rows[first - 1 : first - 1 + limit]
        by_rank = board.page(limit=limit, from_rank=first, **which)
        self._compare(by_rank.standings, expected, part)
        by_offset = board.page(limit=limit, offset=first - 1, **which)
        assert by_offset == by_rank
        assert (by_rank.next_cursor is None) == (first - 1 + limit >= len(rows))
        assert (by_rank.prev_cursor is None) == (first == 1 or not rows)
        if rows and not part:
            last = board.page(limit=limit, cursor=by_rank.prev_cursor, **which)
            self._compare(last.standings, expected, rows[-limit:])
        near = rows[max(first - reach, 1) - 1 : first + reach]
        self._compare(board.around_rank(first, reach=reach, **which), expected, near)
        player = data.draw(st.sampled_from([*PLAYERS, NO_PLAYER]), "player")
        self._compare_one(board, player, expected, reach, below, which)

    def _compare_one(
        self,
        board: Board,
        player: str,
        expected: Ranking,
        above: int,
        below: int,
        which: dict[str, Any],
    ) -> None:
        row = expected.row(player)
        standing = board.standing(player, **which)
        if row is None:
            assert standing is None
            with pytest.raises(NotRanked):
                board.around(player, above=above, below=below, **which)
            for absent in ("top", "bottom"):
                end = board.around(player, above=above, below=below, absent=absent, **which)
                self._compare(end, expected, expected.end(absent, above + 1 + below))
            return
        assert standing is not None
        self._compare([standing], expected, [row])
        for end_if_absent in (None, "top"):
            near = board.around(player, above=above, below=below, absent=end_if_absent, **which)
            self._compare(near, expected, expected.around(player, above, below))

    def _read_some(self, data: st.DataObject) -> None:
        asked, player = data.draw(some_players, "asked"), data.draw(players, "player")
        if (chosen := self._chosen(data)) is None:
            return
        board, window, segment, expected = chosen
        which: dict[str, Any] = {"window": window, "segment": segment}
        found_rows = [expected.row(each) for each in asked]
        assert board.ranks(asked, **which) == [row and row.rank for row in found_rows]
        self._compare_found(board.lookup(asked, **which), expected, asked)
        circle = [player, *self.world.friends.get(player, ())]
        self._compare_found(board.friends(player, **which), expected, circle)

    def _compare_found(self, found: Any, expected: Ranking, asked: Sequence[str]) -> None:
        rows = [row for row in expected.rows if row.entry.player in asked]
        assert (found.total, found.as_of) == (expected.total, self.ranks.position)
        self._compare(found.standings, expected, rows, places=True)
        ranked = expected.players()
        assert list(found.not_found) == [
            each for each in dict.fromkeys(asked) if each not in ranked
        ]

    def _read_range(self, data: st.DataObject) -> None:
        """A range of scores, whole, from any place in it, and page after page there and back."""
        if (chosen := self._chosen(data)) is None:
            return
        board, window, segment, expected = chosen
        rules = expected.rules
        low, high = [data.draw(st.none() | numbers_of(rules), name) for name in ("low", "high")]
        limit, place = data.draw(st.integers(1, 4), "limit"), data.draw(st.integers(1, 6), "place")
        which: dict[str, Any] = {"window": window, "segment": segment}
        which |= {"score_min": low, "score_max": high}
        least, most = [None if each is None else rules.scaled(each) for each in (low, high)]
        if least is not None and most is not None and least > most:
            with pytest.raises(InvalidPage):
                board.page(**which)
            return
        rows = expected.within(least, most)
        in_range = None if low is high is None else len(rows)

        def read(**how: Any) -> Any:
            page = board.page(**how, **which)
            assert (page.in_range, page.total) == (in_range, expected.total)
            return page

        self._compare(read(limit=1000).standings, expected, rows)
        by_offset = read(limit=limit, offset=place - 1)
        self._compare(by_offset.standings, expected, rows[place - 1 :][:limit])
        assert (by_offset.next_cursor is None) == (place - 1 + limit >= len(rows))
        assert (by_offset.prev_cursor is None) == (place == 1 or not rows)
        if rows and place > len(rows):
            last = read(limit=limit, cursor=by_offset.prev_cursor)
            self._compare(last.standings, expected, rows[-limit:])
        by_rank = read(limit=limit, from_rank=place)
        behind = [row for row in rows if row.place >= place]
        self._compare(by_rank.standings, expected, behind[:limit])
        self._compare(self._walked(read, limit), expected, rows)

    def _walked(self, read: Callable[..., Any], limit: int) -> list[Standing]:
        """All that is read, page after page; the same as by the cursors back."""
        page = read(limit=limit)
        assert page.prev_cursor is None
        there = list(page.standings)
        while page.next_cursor is not None:
            page = read(limit=limit, cursor=page.next_cursor)
            there += page.standings
            self.figures["pages walked"] += 1
        back = list(page.standings)
        while page.prev_cursor is not None:
            page = read(limit=limit, cursor=page.prev_cursor)
            back = [*page.standings, *back]
            self.figures["pages walked"] += 1
        assert back == there
        return there

    def _project(self, data: st.DataObject) -> None:
        rank, percentile = data.draw(st.integers(1, 6), "rank"), data.draw(shares, "percentile")
        if (chosen := self._chosen(data)) is None:
            return
        board, window, segment, expected = chosen
        which: dict[str, Any] = {"window": window, "segment": segment}
        held = {row.place: (row.rank, row.entry.scores) for row in expected.rows}
        by_rank = board.score_for(rank=rank, **which)
        assert (by_rank.rank, by_rank.scores) == held.get(rank, (rank, None))
        by_share = board.score_for(percentile=percentile, **which)
        last = expected.place_at(percentile)
        assert (by_share.rank, by_share.scores) == held.get(last or 0, (None, None))
        rules = self.world.boards[MAIN].rules
        if expected.rules is not rules:
            return  # Scores are given in the board's unit of today.
        numbers = [data.draw(numbers_of(rules), "score") for _ in rules.columns]
        scores = tuple(rules.scaled(number) for number in numbers)
        told = board.rank_for(columns=numbers, **which)
        assert (told.rank, told.scores, told.total) == (
            expected.rank_for(scores),
            scores,
            expected.total,
        )

    @invariant()
    def every_player_agrees(self) -> None:
        """Where a player stands on every board, and among its friends."""
        for player in [*PLAYERS, NO_PLAYER]:
            self._compare_standings(player)
            whole = self.world.ranking(SIDE, "all")
            assert whole is not None
            circle = [player, *self.world.friends.get(player, ())]
            self._compare_found(self.boards[SIDE].friends(player), whole, circle)

    def _compare_standings(self, player: str) -> None:
        found = self.ranks.standings(player)
        expected: dict[str, tuple[Ranking, Row]] = {}
        for name, model in self.world.boards.items():
            if model.default_window not in model.open and not model.frozen(model.default_window):
                continue  # Between two seasons, or after the last.
            whole = self.world.ranking(name, model.default_window)
            if whole is not None and (row := whole.row(player)) is not None:
                expected[name] = (whole, row)
        assert list(found) == list(expected)
        for name, (whole, row) in expected.items():
            self._compare([found[name]], whole, [row])

    def _read_back_in_time(self, steps_back: int, recurrence: str) -> None:
        """``daily:-1`` is the day before the one that is open; unknown if it is not kept."""
        if recurrence not in self.world.boards[MAIN].rules.windows:
            return
        if self.clock.time != self.world.time:
            return
        length = DAY if recurrence == "daily" else 7 * DAY
        meant = window_at(recurrence, self.world.time - steps_back * length)
        assert meant is not None
        text = f"{recurrence}:-{steps_back}"
        last = self.world.boards[MAIN].last_of(meant)
        expected = None if last is None else self.world.ranking(MAIN, last.exact)
        if expected is None and self.world.passed_unrecorded(MAIN, meant):
            page = self.boards[MAIN].page(window=text)
            assert (page.total, list(page.standings)) == (0, [])
            return
        if expected is None:
            with pytest.raises(UnknownWindow):
                self.boards[MAIN].top(window=text)
            return
        self._compare(self.boards[MAIN].top(1000, window=text), expected, expected.rows)

    # -------------------------------------------------------------------------- walking

    def _walk_there_and_back(self, data: st.DataObject) -> None:
        """Page after page to the end, and by the cursors back to the beginning."""
        limit = data.draw(st.integers(1, 3), "limit")
        if (chosen := self._chosen(data)) is None:
            return
        board, window, segment, expected = chosen
        which: dict[str, Any] = {"window": window, "segment": segment}
        walked = self._walked(partial(board.page, **which), limit)
        self._compare(walked, expected, expected.rows)

    @rule(data=st.data(), limit=st.integers(1, 3))
    def begin_a_walk(self, data: st.DataObject, limit: int) -> None:
        model = self.world.boards[MAIN]
        if (chosen := self._chosen(data)) is None:
            return
        board, window, segment, expected = chosen
        name = window or model.default_window
        # By its id: the window that is open may turn under way.
        meant = model.open[name].exact if name in model.open else name
        page = board.page(limit=limit, window=meant, segment=segment)
        if page.standings and page.next_cursor is not None:
            order = expected.rows[limit - 1].entry.order(expected.rules)
            self.walk = Walk(meant, segment, page.next_cursor, order, onwards=True)

    @precondition(lambda self: self.walk is not None)
    @rule(limit=st.integers(1, 3), turn=st.booleans())
    def walk_on(self, limit: int, turn: bool) -> None:
        """Whatever has moved meanwhile: after the entry seen last come those behind it."""
        walk, self.walk = self.walk, None
        assert walk is not None
        expected = self.world.ranking(MAIN, walk.window, walk.segment)
        if expected is None:
            return
        board = self.boards[MAIN]
        page = board.page(limit=limit, cursor=walk.cursor, window=walk.window, segment=walk.segment)
        if walk.onwards:
            rows = expected.after(walk.order)[:limit]
        else:
            rows = expected.before(walk.order)[-limit:]
        self._compare(page.standings, expected, rows)
        self.figures["pages walked"] += 1
        if not rows:
            return
        onwards = walk.onwards is not turn
        cursor = page.next_cursor if onwards else page.prev_cursor
        edge = rows[-1] if onwards else rows[0]
        order = edge.entry.order(expected.rules)
        left = expected.after(order) if onwards else expected.before(order)
        assert (cursor is None) == (not left)
        if cursor is not None:
            self.walk = replace(walk, cursor=cursor, order=order, onwards=onwards)


def shown(scores: tuple[int, ...] | None, decimals: int) -> int | Decimal | None:
    """The first column as people see it."""
    if scores is None:
        return None
    return scores[0] if decimals == 0 else Decimal(scores[0]) / Decimal(10**decimals)


def as_items(bodies: Sequence[Definition]) -> list[Any]:
    """Items as a caller gives them: a pair where a pair says it all."""
    return [
        (body["player"], body["score"]) if set(body) == {"player", "score"} else body
        for body in bodies
    ]


@pytest.mark.timeout(300)
def test_the_engine_says_what_its_model_says() -> None:
    """The same runs every time: a commit is held up by what it broke, not by what it met first."""
    run_state_machine_as_test(
        EmbeddedMachine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            derandomize=True,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert EmbeddedMachine.figures["receipts"] > EXAMPLES, "the runs did something"
