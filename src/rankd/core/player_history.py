"""One player's submissions to a board, judged again: its entries, and which windows refused each.

A retraction, and the approval of a held submission, change the past of one player and of no
other: entries do not depend on one another. So the player's own facts are folded again, in order,
and the result is compared with the index. The cost is that of these facts, not of the board.

The rules are those of the living fold and of a board rebuild:

1. A fact counts in the window that was open at its position, for each recurrence of the board.
2. It is judged by the definition in force, in terms of which it is read. A redefinition judges the
   earlier facts of the windows that it changes again, by the narrower of both bounds.
3. A refusal is final: a submission that a window refused at its own position never counts there,
   also when a retraction would have made room for it since.
4. A retracted submission counts until it is retracted; from there on everything is as if it had
   never counted, but for refusals. A retraction that is taken back is undone in the same way.
5. A held submission counts from its approval on, at its own position.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

import msgspec

from rankd.core.board_state import BoardState, name_of_window
from rankd.core.corrections import Retraction
from rankd.core.open_submissions import OpenSubmissions
from rankd.core.state import State
from rankd.model.board import Board, Scores
from rankd.model.facts import (
    MetadataSet,
    Position,
    Recorded,
    ScoresExpired,
    ScoreSubmitted,
    WrongTime,
    as_erased,
    is_definition,
    is_submission,
    right_time,
)
from rankd.model.order import Order
from rankd.model.redefinition import Translation, judging, refolded, scale
from rankd.model.submission import Counted, Rejected, judge
from rankd.model.window import Instant, Recurrence, Window
from rankd.ports import LedgerReader

FACTS_TOGETHER = 1_000
"""Facts of a player read at once."""


class WindowRefusal(NamedTuple):
    """Which windows refused a submission when its turn came."""

    everywhere: bool
    """Whether all of those open did, or none was open: it was answered ``applied: "no"``."""
    windows: frozenset[str] = frozenset()
    """The names of those that did."""

    def holds_in(self, window: str) -> bool:
        """Whether the submission never counts in a window of this name."""
        return self.everywhere or window in self.windows


NOT_REFUSED = WindowRefusal(False)
REFUSED = WindowRefusal(True)


class Entry(NamedTuple):
    """A player's entry in one window."""

    scores: Scores
    order_key: bytes
    metadata: bytes | None


class Corrections(NamedTuple):
    """The decisions about a player's submissions that say, beside the definition, which count."""

    retractions: Sequence[Retraction]
    refused: frozenset[Position]
    """Submissions of the player that a rule or the player's state refused."""
    held: Mapping[Position, Position | None]
    """Submissions of the player that were held, and where each was approved; None if it was not."""


class FoldedFacts(NamedTuple):
    """A player's facts on one board, oldest first, with the board's definitions."""

    player: str
    facts: Sequence[Recorded]
    finals: Mapping[Position, bool]
    """Whether refusals before a definition stay in force under it, by its position."""


async def facts_of_player(
    ledger: LedgerReader,
    page: BoardState,
    player: str,
    erased: Mapping[str, Position],
    *,
    through: Position,
) -> FoldedFacts:
    """Read the facts of a player that may change its entries on a board."""
    facts: list[Recorded] = []
    after = Position(page.since - 1)
    while True:
        some = await ledger.facts_of(
            board=page.board.name,
            player=player,
            after=after,
            before=Position(through + 1),
            limit=FACTS_TOGETHER,
            newest_first=False,
        )
        facts += [one for one in as_erased(some, erased) if _is_folded(page, one)]
        if len(some) < FACTS_TOGETHER:
            break
        after = some[-1].position
    return FoldedFacts(player, facts, await _finals(ledger, page))


def _is_folded(page: BoardState, recorded: Recorded) -> bool:
    fact = recorded.fact
    if is_submission(fact):
        return (fact.defined or page.since) >= page.since
    return isinstance(fact, MetadataSet | ScoresExpired)


async def _finals(ledger: LedgerReader, page: BoardState) -> Mapping[Position, bool]:
    finals: dict[Position, bool] = {}
    for position in [*(at for at, _ in page.earlier[1:]), page.defined_at]:
        if page.earlier:
            (recorded,) = await ledger.read(after=Position(position - 1), limit=1)
            assert is_definition(recorded.fact)
            finals[position] = recorded.fact.refusals_final
    return finals


def corrections_of(state: State, page: BoardState, facts: FoldedFacts) -> Corrections:
    """Return the corrections that concern a player's submissions to a board."""
    positions = [recorded.position for recorded in facts.facts]
    return Corrections(
        [
            retraction
            for retraction in state.retractions.values()
            if retraction.concerns(page.board.name, facts.player)
        ],
        frozenset(at for at in positions if at in state.refused),
        state.reviews.approvals(positions),
    )


# ------------------------------------------------------------------------------ windows


class Stretch(NamedTuple):
    """A recorded window, as the positions and times that it covers."""

    name: str
    id: str
    start: Instant | None
    end: Instant | None
    through: Position | None
    """Where it was closed; None while it is open."""
    after: Position = Position(0)
    """Where the window before it was reset; 0 if it was not opened by a reset."""

    def covers(self, position: Position, at: Instant) -> bool:
        """Whether a fact at a position and time counts in it."""
        before_end = self.through is None or position < self.through
        return self.after < position and before_end and self.is_at(at)

    def is_at(self, at: Instant) -> bool:
        """Whether it has a time, by the calendar; it may have been closed before."""
        return (self.start is None or self.start <= at) and (self.end is None or at < self.end)


def _same(known: Sequence[Stretch], window: Window) -> Stretch | None:
    """Return the recorded one of a window's time, or else of its id."""
    found = [one for one in known if (one.start, one.end) == (window.start, window.end)]
    return next(iter(found or [one for one in known if one.id == window.id]), None)


class Stretches:
    """The recorded windows of a board, found by position and time."""

    def __init__(self, page: BoardState) -> None:
        self._by_name: dict[str, list[Stretch]] = {}
        boards = [page.board, *(board for _, board in page.earlier)]
        self._rolling = {one.name for board in boards for one in board.windows if one.rolls}
        for sealed in page.sealed.values():
            self._add(page, sealed.window, sealed.through)
        for opened in page.counting:
            self._add(page, opened.window, None)
        for several in self._by_name.values():
            several.sort(key=lambda one: (one.through is None, one.through or 0))

    def _add(self, page: BoardState, window: Window, through: Position | None) -> None:
        before = page.reset_before(window)
        after = Position(0) if before is None else before.sealed
        stretch = Stretch(window.name, window.id, window.start, window.end, through, after)
        self._by_name.setdefault(window.name, []).append(stretch)

    def has(self, stretch: Stretch) -> bool:
        """Whether a window is recorded and kept."""
        return stretch in self._by_name.get(stretch.name, ())

    def rolls(self, name: str) -> bool:
        """Whether windows of this name overlap, under any definition."""
        return name in self._rolling

    @property
    def names(self) -> Iterable[str]:
        """The names of the recurrences that it has windows of."""
        return self._by_name.keys()

    def at(self, names: Iterable[str], position: Position, at: Instant) -> Iterator[Stretch]:
        """Yield the windows of these recurrences that a fact counts in.

        Of a rolling one several: it counts in each whose days have its own.
        """
        for name in names:
            for stretch in self._by_name.get(name, ()):
                if stretch.covers(position, at):
                    yield stretch
                    if name not in self._rolling:
                        break

    def of_rolling(
        self, recurrence: Recurrence, position: Position, at: Instant, *, all_days: bool
    ) -> Iterator[Stretch]:
        """Yield the windows of a rolling recurrence that a fact counts in: its day's own first.

        That one alone refuses it. It may be kept no longer; so may be the other ones, which are
        left out without ``all_days``.
        """
        known = list(self.at([recurrence.name], position, at))
        windows = recurrence.covering(at)
        for window in windows if all_days else windows[:1]:
            found = _same(known, window)
            if found is not None:
                known.remove(found)
            yield found or Stretch(window.name, window.id, window.start, window.end, None)
        yield from known

    def dropped_at(self, recurrences: Iterable[Recurrence], at: Instant) -> Iterator[Stretch]:
        """Yield the windows of a time that are kept no longer, by the calendar.

        A submission that counted in one of them was not refused everywhere.
        """
        for recurrence in recurrences:
            window, known = recurrence.window_at(at), self._by_name.get(recurrence.name, ())
            if window is not None and not any(one.is_at(at) for one in known):
                yield Stretch(window.name, window.id, window.start, window.end, None)


# ------------------------------------------------------------------------------ history


@dataclass(slots=True)
class _Submitted:
    """A submission, and its effect so far."""

    position: Position
    at: Instant
    fact: ScoreSubmitted | MetadataSet
    stretches: list[Stretch]
    """The windows that it counts in, also those that a later definition added."""
    counts: bool = True
    """Whether it is neither refused everywhere nor held."""
    beside: frozenset[str] = frozenset()
    """The ids of those that do not decide whether it is refused: of its later days, of rolling
    windows."""
    refused_in: set[str] = field(default_factory=set)
    """The names of the windows that refused it."""
    retractions: int = 0
    """How many retractions in force select it."""
    refusal: WindowRefusal | None = None
    """Where it was refused when its turn came; None if nowhere."""
    expired: Position | None = None
    """Where its term ended; None if it has none, or it has not."""
    is_lost: bool = False
    """Whether a retraction selects it that is never taken back."""

    def has_expired_in(self, stretch: Stretch) -> bool:
        """Whether its term ended before a window was sealed, if that is."""
        if self.expired is None:
            return False
        return stretch.through is None or self.expired < stretch.through

    @property
    def is_alive_somewhere(self) -> bool:
        """Whether its term is not over, or ended after a window that it counts in was closed."""
        return self.expired is None or any(
            stretch.name not in self.refused_in and not self.has_expired_in(stretch)
            for stretch in self.stretches
        )


class _DefinitionAt(NamedTuple):
    position: Position
    board: Board


def _may_refuse(definitions: Sequence[_DefinitionAt], facts: Sequence[Recorded]) -> bool:
    """Whether a rolling window may refuse a player's submission because of the earlier ones.

    Only where a total may leave its bounds. Then the windows of all days matter, also of those that
    are kept no longer.
    """
    if not any(one.rolls for _, board in definitions for one in board.windows):
        return False
    low = high = 0
    for number in _numbers(facts):
        low, high = low + min(number, 0), high + max(number, 0)
    factor = max(scale(definitions[0].board, board) for _, board in definitions)
    return any(
        low * factor < board.score_low or high * factor > board.score_high
        for _, board in definitions
    )


def _numbers(facts: Sequence[Recorded]) -> Iterator[int]:
    for recorded in facts:
        fact = recorded.fact
        if is_submission(fact):
            yield from fact.scores if fact.scores is not None else (fact.delta or 0,)


class PlayerHistory:
    """The entries of a player on a board, folded from its own facts and the corrections of them."""

    def __init__(
        self,
        page: BoardState,
        facts: FoldedFacts,
        corrections: Corrections,
        wrong_times: Sequence[WrongTime] = (),
    ) -> None:
        self.entries: dict[str, Entry] = {}
        """By the id of the window."""
        self.windows: dict[str, None] = {}
        """The ids of the windows that its facts fell in."""
        self.refusals: dict[Position, WindowRefusal] = {}
        """By position, the windows that refused a submission, if any did."""
        self._page = page
        self._player = facts.player
        self._corrections = corrections
        self._stretches = Stretches(page)
        self._definitions = [
            _DefinitionAt(position, board)
            for position, board in [*page.earlier, (page.defined_at, page.board)]
        ]
        self._finals = facts.finals
        self._translations: dict[tuple[Position, Position], Translation] = {}
        self._orders: dict[Position, Order] = {}
        self._attempts: dict[str, int] = {}
        """By the ids of windows, while the board bounds them."""
        self._rolling_attempts: dict[str, list[Instant]] = {}
        """Their times, by the names of rolling windows, while the board bounds them."""
        self._all_days = _may_refuse(self._definitions, facts.facts)
        self._folded: list[_Submitted] = []
        self._by_position: dict[Position, _Submitted] = {}
        self._open = OpenSubmissions()
        self._selected: dict[Position, list[Position]] = {}
        """By the positions of retractions that are taken back later, the submissions selected."""
        self._by_stretch: dict[Stretch, list[_Submitted]] = {}
        """Those that may count in a window, in order."""
        self._stale: dict[Stretch, Position] = {}
        """The windows to fold again before they are read, and as of where."""
        self._replay(facts.facts, wrong_times)

    def _replay(self, facts: Sequence[Recorded], wrong_times: Sequence[WrongTime]) -> None:
        steps: list[tuple[Position, int, object]] = [
            (recorded.position, 0, recorded) for recorded in facts
        ]
        first = facts[0].position if facts else Position(0)
        steps += [(one.position, 1, one) for one in self._definitions[1:] if one.position > first]
        steps += self._correction_steps()
        for position, _, step in sorted(steps, key=itemgetter(0, 1)):
            match step:
                case Recorded(fact=ScoresExpired() as ended):
                    self._expire(ended, position)
                case Recorded():
                    self._take(step, right_time(step, wrong_times))
                case _DefinitionAt():
                    self._define(step)
                case (Retraction() as retraction, int(change)):
                    self._retract(retraction, change, position)
                case approved:
                    self._approve(approved, position)
        self._fold_stale(list(self._stale))
        for submitted in self._folded:
            if is_submission(submitted.fact) and submitted.refusal is not None:
                self.refusals[submitted.position] = submitted.refusal

    def _correction_steps(self) -> Iterator[tuple[Position, int, object]]:
        for retraction in self._corrections.retractions:
            yield retraction.position, 2, (retraction, 1)
            if retraction.undone is not None:
                yield retraction.undone, 2, (retraction, -1)
        for held, approved in self._corrections.held.items():
            if approved is not None:
                yield approved, 2, held

    # ...... one step each

    def _take(self, recorded: Recorded, at: Instant) -> None:
        fact, position = recorded.fact, recorded.position
        assert is_submission(fact) or isinstance(fact, MetadataSet)
        windows = self._definition_at(position).board.windows
        recurrences = [one for one in windows if not one.rolls]
        stretches = list(self._stretches.at([one.name for one in recurrences], position, at))
        self.windows |= dict.fromkeys(stretch.id for stretch in stretches)
        stretches += self._stretches.dropped_at(recurrences, at)
        beside: set[str] = set()
        for recurrence in (one for one in windows if one.rolls):
            rolling = list(
                self._stretches.of_rolling(recurrence, position, at, all_days=self._all_days)
            )
            self.windows |= dict.fromkeys(
                one.id for one in self._stretches.at([recurrence.name], position, at)
            )
            stretches += rolling
            beside.update(one.id for one in rolling[1:])
        submitted = _Submitted(position, at, fact, stretches, beside=frozenset(beside))
        self._folded.append(submitted)
        self._by_position[position] = submitted
        if isinstance(fact, ScoreSubmitted):
            self._open.add(position, fact)
        self._fold_stale(stretches)
        self._note_stretches(submitted)
        corrections = self._corrections
        if position not in corrections.refused:
            self._attempt(submitted)
        submitted.counts = position not in corrections.refused and position not in corrections.held
        if submitted.counts:
            for stretch in stretches:
                if stretch.name in submitted.refused_in:
                    continue
                refuses = self._count(submitted, stretch, position) is False
                if refuses and stretch.id not in submitted.beside:
                    submitted.refused_in.add(stretch.name)
            refused = frozenset(submitted.refused_in)
            everywhere = len(refused) == len({stretch.name for stretch in stretches})
            if refused or everywhere:
                submitted.refusal = WindowRefusal(everywhere, refused)
                submitted.counts = not everywhere

    def _attempt(self, submitted: _Submitted) -> None:
        """Count an attempt in each window that has one left; the others refuse the submission."""
        limit = self._definition_at(submitted.position).board.limits.attempts_max
        if limit is None or isinstance(submitted.fact, MetadataSet) or submitted.fact.overrides:
            return
        for stretch in submitted.stretches:
            if stretch.id in submitted.beside:
                continue
            made = self._attempts_in(stretch)
            if made >= limit:
                submitted.refused_in.add(stretch.name)
            elif self._stretches.rolls(stretch.name):
                self._rolling_attempts.setdefault(stretch.name, []).append(submitted.at)
            else:
                self._attempts[stretch.id] = made + 1

    def _attempts_in(self, stretch: Stretch) -> int:
        if not self._stretches.rolls(stretch.name):
            return self._attempts.get(stretch.id, 0)
        times = self._rolling_attempts.get(stretch.name, ())
        return sum(at >= (stretch.start or 0) for at in times)

    def _define(self, definition: _DefinitionAt) -> None:
        """Fold the windows again that are open then and that the definition changes."""
        self._fold_stale(list(self._stale))
        before = self._definition_at(Position(definition.position - 1)).board
        changed = refolded(before, definition.board)
        self._forget_attempts(before, definition.board)
        if not self._finals.get(definition.position, True):
            for submitted in self._folded:
                submitted.refused_in -= changed
                submitted.counts |= submitted.refusal is not None
        added = {one.name for one in definition.board.windows} - {
            one.name for one in before.windows
        }
        days = [one for one in definition.board.windows if one.rolls and one.name in changed]
        for submitted in self._folded:
            self._add_windows(submitted, added, definition.position)
            for recurrence in days if self._all_days else ():
                self._add_days(submitted, recurrence)
        self._by_stretch = {}
        for submitted in self._folded:
            self._note_stretches(submitted)
        for stretch in self._by_stretch:
            going_on = stretch.through is None or stretch.through > definition.position
            if stretch.name in changed and going_on:
                self._fold_again(stretch, definition.position)

    def _forget_attempts(self, before: Board, board: Board) -> None:
        """Forget those of windows that a definition leaves out, or bounds no more."""
        bounded = board.limits.attempts_max is not None
        names = {one.name for one in board.windows} if bounded else set()
        kept = {id: made for id, made in self._attempts.items() if name_of_window(id) in names}
        self._attempts = kept
        known = {one.name: one for one in before.windows}
        again = {one.name for one in board.windows if not one.has_windows_of(known.get(one.name))}
        times = self._rolling_attempts
        self._rolling_attempts = {name: times[name] for name in times if name in names - again}

    def _add_windows(self, submitted: _Submitted, names: Set[str], since: Position) -> None:
        """Have a submission count also in windows that a definition added, if it was made then."""
        for stretch in self._stretches.at(names, submitted.position, submitted.at):
            going_on = stretch.through is None or stretch.through > since
            if going_on and stretch not in submitted.stretches:
                submitted.stretches.append(stretch)
                self.windows[stretch.id] = None

    def _add_days(self, submitted: _Submitted, recurrence: Recurrence) -> None:
        """Have a submission count in the days of a changed rolling recurrence that are not kept."""
        name, known = recurrence.name, self._stretches
        gone = [one for one in submitted.stretches if one.name == name and not known.has(one)]
        for stretch in gone:
            self.entries.pop(stretch.id, None)
        stretches = [one for one in submitted.stretches if one not in gone]
        days = known.of_rolling(recurrence, submitted.position, submitted.at, all_days=True)
        submitted.stretches = list(dict.fromkeys([*stretches, *days]))

    def _retract(self, retraction: Retraction, change: int, position: Position) -> None:
        if change < 0:
            selected = self._selected.pop(retraction.position)
        else:
            selected = self._open.selected_by(retraction)
            if retraction.undone is None:
                self._open.remove(selected)
            else:
                self._selected[retraction.position] = selected
        changed = []
        for submitted in map(self._by_position.__getitem__, selected):
            was_retracted = submitted.retractions > 0
            submitted.retractions += change
            submitted.is_lost |= retraction.undone is None
            if was_retracted != (submitted.retractions > 0):
                changed.append(submitted)
        self._fold_windows_of(changed, position)

    def _expire(self, ended: ScoresExpired, position: Position) -> None:
        several = [self._by_position[one] for one in ended.positions if one in self._by_position]
        several = [submitted for submitted in several if submitted.expired is None]
        for submitted in several:
            submitted.expired = position
        self._fold_windows_of(several, position)

    def _approve(self, held: object, position: Position) -> None:
        submitted = self._by_position.get(held)  # type: ignore[call-overload]
        if submitted is not None:
            submitted.counts = True
            self._fold_windows_of([submitted], position)

    def _fold_windows_of(self, several: Sequence[_Submitted], position: Position) -> None:
        for submitted in several:
            self._stale |= dict.fromkeys(submitted.stretches, position)

    def _note_stretches(self, submitted: _Submitted) -> None:
        for stretch in dict.fromkeys(submitted.stretches):
            self._by_stretch.setdefault(stretch, []).append(submitted)

    # ...... judging

    def _fold_stale(self, stretches: Iterable[Stretch]) -> None:
        """Fold those of some windows again that corrections changed."""
        for stretch in stretches:
            position = self._stale.pop(stretch, None)
            if position is not None:
                self._fold_again(stretch, position)

    def _fold_again(self, stretch: Stretch, position: Position) -> None:
        """Fold a window from its first fact on, as of a position."""
        self.entries.pop(stretch.id, None)
        several = self._by_stretch[stretch]
        several[:] = [one for one in several if not one.is_lost and not one.has_expired_in(stretch)]
        for submitted in several:
            if (
                submitted.counts
                and not submitted.retractions
                and stretch.name not in submitted.refused_in
            ):
                self._count(submitted, stretch, position)

    def _count(self, submitted: _Submitted, stretch: Stretch, as_of: Position) -> bool | None:
        """Put a submission into an entry; return False if it is refused, None if not read."""
        before = self.entries.get(stretch.id)
        fact = submitted.fact
        if isinstance(fact, MetadataSet):
            if before is not None:
                self.entries[stretch.id] = before._replace(metadata=fact.metadata)
            return True
        at = as_of if stretch.through is None else min(as_of, Position(stretch.through - 1))
        defined_at, board = self._definition_at(at)
        then = self._definition_at(submitted.position)
        translated = self._translation(fact.defined or then.position, defined_at)(fact)
        if translated is None:
            if as_of > submitted.position:
                return None
            translated = msgspec.structs.replace(fact, scores=(), delta=None)
        if then.position != defined_at:
            board = judging(then.board, board)
        current = None if before is None else before.scores
        verdict = judge(board, translated, current, submitted.at)
        if isinstance(verdict, Counted):
            order_key = None if before is None or verdict.moved else before.order_key
            if order_key is None:
                order_key = self._order(defined_at).key(verdict.scores, submitted.position)
            keeps = fact.overrides and fact.metadata is None and before is not None
            metadata = before.metadata if keeps and before is not None else fact.metadata
            self.entries[stretch.id] = Entry(verdict.scores, order_key, metadata)
        return not isinstance(verdict, Rejected)

    def _definition_at(self, position: Position) -> _DefinitionAt:
        for definition in reversed(self._definitions):
            if definition.position <= position:
                return definition
        return self._definitions[0]

    def _translation(self, before: Position, after: Position) -> Translation:
        known = self._translations.get((before, after))
        if known is None:
            boards = self._definition_at(before).board, self._definition_at(after).board
            known = self._translations[before, after] = Translation(*boards)
        return known

    def _order(self, defined_at: Position) -> Order:
        known = self._orders.get(defined_at)
        if known is None:
            known = self._orders[defined_at] = Order.of(self._definition_at(defined_at).board)
        return known

    def selected_by(self, retraction: Retraction) -> list[Position]:
        """Return the positions of the submissions that a retraction selects."""
        return [
            submitted.position
            for submitted in self._folded
            if submitted.position < retraction.position
            and retraction.fact.selects(Recorded(submitted.position, 0, submitted.fact))
        ]

    def is_counted(self, position: Position) -> bool:
        """Whether a submission may count: neither retracted, nor refused everywhere, nor held.

        One whose term is over does in the windows that were closed before.
        """
        submitted = self._by_position[position]
        return submitted.counts and not submitted.retractions and submitted.is_alive_somewhere
