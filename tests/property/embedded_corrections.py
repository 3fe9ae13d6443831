"""Steps of the machine that correct what was said: adjustments, retractions, reviews, states.

A correction is first made to a copy of the model. The entries that differ between both are what a
dry run and the correction itself have to tell, with the ranks before and after.
"""

import copy
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.property.embedded_judge import Reason, same_reasons
from tests.property.embedded_model import HOUR, SECOND, Change, Definition, Said, World
from tests.property.embedded_strategies import (
    MAIN,
    PLAYERS,
    SIDE,
    STATES,
    bodies,
    metadata,
    numbers_of,
    players,
)

from rankd.core import mass_retraction
from rankd.errors import InvalidPage, NotRanked

REASON = "a test"
ADJUSTED = ("player", "score", "delta", "columns", "key", "metadata")


class CorrectionSteps(RuleBasedStateMachine):
    """The part of a machine that corrects."""

    figures: ClassVar[Counter[str]]
    world: World
    ranks: Any
    boards: Any
    walk: Any
    last_position: int
    bounds: ClassVar[tuple[int, ...]] = (mass_retraction.REFOLDED_PLAYERS_MAX, 0, 2)
    """Up to so many players a retraction folds one by one; beyond, windows are folded beside."""
    refolded_max: int

    def _submit(self, name: str, body: Definition) -> None:
        raise NotImplementedError

    def _record_something(self) -> None:
        raise NotImplementedError

    def _advanced(self, position: int) -> None:
        raise NotImplementedError

    # ---------------------------------------------------------------- states of players

    @rule(
        player=st.sampled_from(PLAYERS[1:]),
        state=st.sampled_from(["ban", "hide", "shadow", "shadow", "restore", "restore"]),
        boards=st.sampled_from([None, None, [MAIN], [SIDE, "later"], [MAIN, SIDE]]),
        hours=st.sampled_from([None, None, 1, 12, 36]),
    )
    def set_state(
        self, player: str, state: str, boards: list[str] | None, hours: int | None
    ) -> None:
        """Of anybody but ann, whose submissions turn windows."""
        self._record_something()
        until = None
        if hours is not None and state != "restore":
            until = self.world.time + hours * HOUR
        given: dict[str, Any] = {} if boards is None else {"boards": boards}
        if until is not None:
            given["until"] = text_at(until)
            until = until // SECOND * SECOND
        position = getattr(self.ranks, state)(player, reason=REASON, **given)
        if state == "restore" and self.world.is_active(player, boards):
            assert position == self.ranks.position == self.last_position, "nothing is recorded"
            return
        self._advanced(position)
        self.figures["player states"] += 1
        self.world.set_state(player, STATES[state], boards, until)
        self.walk = None

    # ---------------------------------------------------------- adjustments and metadata

    @rule(data=st.data(), name=st.sampled_from([MAIN, MAIN, SIDE]))
    def adjust(self, data: st.DataObject, name: str) -> None:
        body = data.draw(bodies(self.world.boards[name].rules), "body")
        body = {field: value for field, value in body.items() if field in ADJUSTED}
        self._submit(name, {**body, "adjusts": True})
        self.figures["adjustments"] += 1

    @rule(player=players, said=metadata, name=st.sampled_from([MAIN, MAIN, SIDE]))
    def set_metadata(self, player: str, said: Any, name: str) -> None:
        self._record_something()
        rankings = [self.world.ranking(name, window) for window in self.world.boards[name].open]
        if not any(each is not None and each.row(player) for each in rankings):
            with pytest.raises(NotRanked):
                self.boards[name].set_metadata(player, said)
            return
        self._advanced(self.boards[name].set_metadata(player, said))
        self.world.set_metadata(name, player, said)
        self.figures["metadata set"] += 1

    # ---------------------------------------------------------------------- retractions

    @rule(player=players)
    def retract(self, player: str) -> None:
        """All that a player has sent to the main board, or nothing if none of it counts."""
        self._retract([MAIN], {"player": player}, {"players": [player]})

    @rule(data=st.data(), everywhere=st.booleans())
    def retract_many(self, data: st.DataObject, everywhere: bool) -> None:
        """By build, by some players, by a range of time, or by all of these."""
        asked: dict[str, Any] = {}
        where: dict[str, Any] = {}
        some = data.draw(
            st.sets(st.sampled_from(["build", "players", "since", "until"]), min_size=1), "by"
        )
        if "build" in some:
            asked["build"] = where["build"] = data.draw(st.sampled_from(["good", "bad"]))
        if "players" in some:
            chosen = data.draw(st.sets(players, min_size=1, max_size=3), "players")
            asked["players"] = where["players"] = sorted(chosen)
        times = sorted({said.at // SECOND * SECOND for said in self.world.boards[SIDE].history})
        for bound in sorted(some & {"since", "until"}):
            where[bound] = data.draw(st.sampled_from(times[-6:]), bound)
            asked[bound] = text_at(where[bound])
        self._retract([MAIN, SIDE] if everywhere else [MAIN], asked, where)

    @rule(data=st.data())
    def retract_one(self, data: st.DataObject) -> None:
        """By its position, or by its key."""
        board = self.world.boards[MAIN]
        mine = {said.number for said in board.history if said.kind != "metadata"}
        known = [number for number in self.world.positions if number in mine]
        by_key = {
            key: first.told.number
            for (name, key), first in self.world.keys.items()
            if name == MAIN and first.board is board
        }
        named = data.draw(st.booleans(), "by key")
        if by_key and named:
            key = data.draw(st.sampled_from(sorted(by_key)), "key")
            self._retract([MAIN], {"key": key}, {"numbers": [by_key[key]]})
        elif known:
            number = data.draw(st.sampled_from(known), "number")
            position = self.world.positions[number]
            self._retract([MAIN], {"position": position}, {"numbers": [number]})

    @rule(data=st.data())
    def retract_a_range(self, data: st.DataObject) -> None:
        """The players whose entries in a window lie between two scores."""
        self._record_something()
        board = self.world.boards[MAIN]
        windows = [*board.open, *(each.window.exact for each in board.closed)]
        if not windows:
            return
        window = data.draw(st.sampled_from(windows), "window")
        found = self.world.ranking(MAIN, window)
        assert found is not None
        low, high = sorted(data.draw(numbers_of(found.rules), name) for name in ("low", "high"))
        asked = {"score_min": low, "score_max": high, "window": window}
        chosen = self.world.in_range(MAIN, window, low, high)
        if not chosen:
            try:
                effect = self.boards[MAIN].retract(**asked, reason=REASON)
            except InvalidPage:
                return
            assert (effect.position, effect.submissions) == (None, 0)
            return
        self._retract([MAIN], asked, {"players": chosen})

    def _retract(self, names: list[str], asked: dict[str, Any], where: dict[str, Any]) -> None:
        self._record_something()
        handle = self.ranks if len(names) > 1 else self.boards[MAIN]
        selected = self.world.selected(names, **where)
        broad = not asked.keys() & {"player", "players", "position", "key", "score_min"}
        mass = broad and len(self.world.players_of(selected)) > self.refolded_max
        out = self.world.newly_out(selected, refused_too=mass)
        after = copy.deepcopy(self.world)
        if out:
            after.retract(selected, 0)
        changes = self.world.changes(after)
        dry = handle.retract(**asked, reason=REASON, dry_run=True)
        assert dry.position is None
        self._compare_effect(dry, out, changes)
        effect = handle.retract(**asked, reason=REASON)
        self._compare_effect(effect, out, changes)
        assert (effect.position is None) == (not out)
        if effect.position is not None:
            self._advanced(effect.position)
            self.world.retract(selected, effect.position, broad=broad)
            self.figures["retractions"] += 1
        self.walk = None

    @precondition(lambda self: any(one.retracted for one in self.world.boards.values()))
    @rule(data=st.data())
    def undo_a_retraction(self, data: st.DataObject) -> None:
        self._record_something()
        places = [
            (one.position, name)
            for name, board in self.world.boards.items()
            for one in board.retracted
        ]
        position = data.draw(st.sampled_from(sorted({at for at, _ in places})), "position")
        after = copy.deepcopy(self.world)
        after.undo_retraction(position)
        selected = self.world.selected_by(position)
        many = len(self.world.players_of(selected)) > self.refolded_max
        mass = many and self.world.is_broad(position)
        back = after.newly_out(selected, refused_too=mass)
        handle = self.ranks if self.world.is_everywhere(position) else self.boards[MAIN]
        effect = handle.undo_retraction(position)
        self._compare_effect(effect, back, self.world.changes(after))
        assert effect.position is not None
        self._advanced(effect.position)
        self.world = after
        self.figures["retractions undone"] += 1
        self.walk = None

    def _compare_effect(self, effect: Any, concerned: Iterable[Said], changes: set[Change]) -> None:
        several = list(concerned)
        assert effect.submissions == len(several), (effect, several)
        found = {Change(*change[:7]) for change in effect.changes}
        assert found == changes, (found - changes, changes - found)
        assert len(effect.changes) == len(found)
        assert effect.more == 0

    # -------------------------------------------------------------------------- reviews

    @precondition(lambda self: self._open_reviews())
    @rule(data=st.data(), approved=st.booleans())
    def decide_a_review(self, data: st.DataObject, approved: bool) -> None:
        self._record_something()
        review = data.draw(st.sampled_from(self._open_reviews()), "review")
        after = copy.deepcopy(self.world)
        after.decide(review, 0, approved=approved)
        changes = self.world.changes(after)
        decide = self.ranks.approve_review if approved else self.ranks.reject_review
        effect = decide(str(self.world.positions[review.number]), reason=REASON)
        assert {Change(*change[:7]) for change in effect.changes} == changes
        position = self.ranks.position if effect.position is None else effect.position
        self._advanced(position)
        self.world.decide(review, position, approved=approved)
        self.figures["reviews decided"] += 1
        self.walk = None

    def _open_reviews(self) -> list[Any]:
        return [
            one
            for one in self.world.reviews
            if one.is_open
            and one.number in self.world.positions
            and one.said in self.world.boards[one.board].history
        ]

    @invariant()
    def every_review_agrees(self) -> None:
        for name in self.world.boards:
            expected = [one for one in reversed(self.world.reviews) if one.board == name]
            found = self._seen_reviews(name)
            assert len(found) == len(expected)
            for seen, one in zip(found, expected, strict=True):
                player, state, reasons, position = seen
                assert (player, state) == (one.said.player, one.state)
                assert position == self.world.positions.get(one.number, position)
                decimals = one.said.rules.decimals
                broken = [shown_reason(each, decimals) for each in one.reasons]
                assert same_reasons(reasons, broken), (reasons, broken)

    def _seen_reviews(self, name: str) -> list[tuple[str, str, list[Any], int]]:
        """Player, state, reasons and position of the reviews of a board, the newest first."""
        return [
            (
                one.player,
                one.state,
                [(each.rule, *each.shown(one.decimals)) for each in one.reasons],
                one.position,
            )
            for one in self.ranks.reviews(name)
        ]


def text_at(time: int) -> str:
    return datetime.fromtimestamp(time // SECOND, UTC).isoformat()


def shown_reason(reason: Reason, decimals: int) -> tuple[str, int | Decimal, int | Decimal]:
    """A rule with the numbers as people see them: scores, submissions, or seconds."""
    rule_name, *numbers = reason
    if rule_name == "submissions_per_minute":
        return reason
    factor = SECOND if rule_name == "seconds_between" else 10**decimals
    observed, limit = (Decimal(number) / factor for number in numbers)
    return rule_name, observed, limit
