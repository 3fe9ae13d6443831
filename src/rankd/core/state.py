"""The state of boards, windows, players and keys at a position.

The small half of the fold's result. The large half, the entries of every ranking, is the index.
Both are folded from the same facts in the same order, but the state is small enough for every
process, and quick enough to be read for every submission. It decides nothing: it only records the
content of facts.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from copy import copy
from itertools import islice
from typing import Any, TypeVar

from rankd.core.attempts import AttemptCounts
from rankd.core.audit_index import AuditIndex
from rankd.core.board_state import (
    BoardState,
    WindowTurn,
)
from rankd.core.corrections import (
    PlayerState,
    PlayerStates,
    PositionLog,
    Retraction,
    state_on,
    states_after,
)
from rankd.core.living_scores import LivingScores
from rankd.core.player_boards import PlayerBoards
from rankd.core.reviews import Barred, BarredRows, JudgedColumns, Reviews, barred_by, columns_of
from rankd.core.reward_rows import REWARD_EVENTS, RewardFact, RewardRows, rows_after
from rankd.core.used_runs import UsedRuns
from rankd.core.webhooks import (
    EVENTS_DROPPED,
    EVENTS_KEPT_MAX,
    WINDOW_EVENTS,
    Lease,
    Webhook,
    deliveries_after,
    place_of,
)
from rankd.errors import UnknownBoard
from rankd.model.board import Board
from rankd.model.facts import (
    NO_PROFILE,
    Attributes,
    BoardDefined,
    BoardExpired,
    BoardRedefined,
    BoardRelearned,
    BoardRetired,
    DeliveryRecord,
    Edition,
    ExpiringKeyCreated,
    ExpiringScoreSubmitted,
    Fact,
    FactsRedacted,
    KeyCreated,
    KeyRevoked,
    KeysUsed,
    PersonErased,
    PlayerStateSet,
    Position,
    Profile,
    ProfileChange,
    Recorded,
    RetractionUndone,
    ReviewDecided,
    RewardClaimed,
    RewardsGiven,
    RewardsWithdrawn,
    ScoresExpired,
    ScoresRetracted,
    ScoreSubmitted,
    SigningKeyCreated,
    TimeCorrected,
    Visibility,
    VisibilitySet,
    WebhookRemoved,
    WebhookRewound,
    WebhookSet,
    WebhooksSent,
    WindowDropped,
    WindowEnded,
    WindowFrozen,
    WindowOpened,
    WindowPrepared,
    WindowsCorrected,
    WindowSealed,
    WindowSettled,
    WrongTime,
)
from rankd.model.submission import PLAYER_BANNED
from rankd.model.window import (
    Instant,
    WindowState,
)
from rankd.ports import REFUSED
from rankd.rules import RuleState

RUN_KEYS_MAX = 4
"""How many keys check the tokens of runs: the newest one signs, the others were replaced."""

NO_WINDOWS: frozenset[str] = frozenset()


class State:
    """All boards, keys, and players with a profile."""

    def __init__(self) -> None:
        self.boards: dict[str, BoardState] = {}
        self.profiles: dict[str, Profile] = {}
        self.names: dict[str, str] = {}
        """Display names, of the players that have one: a page looks up a hundred."""
        self.player_boards = PlayerBoards()
        self._segmented: dict[Position, BoardState] | None = None
        """The boards with segments, by the position of their first definition; None until needed,
        and after a change of boards."""
        self._untraced: list[BoardState] = []
        """Those of them on which any player may have an entry."""
        self.keys: dict[bytes, KeyCreated] = {}
        """The keys that were not revoked, by their digests."""
        self.keys_created: dict[str, Instant] = {}
        """When keys were made, by their ids; not of those in a snapshot of an older version."""
        self.keys_used: dict[str, Instant] = {}
        """When keys were used last, as far as that is recorded, by their ids."""
        self.signing_keys: dict[str, SigningKeyCreated] = {}
        """The keys of signatures and runs that were not revoked, by their ids."""
        self.webhooks: dict[str, Webhook] = {}
        """By their names."""
        self.deliveries: dict[str, tuple[DeliveryRecord, ...]] = {}
        """Of webhooks, by their names: the last tries that a node has recorded, oldest first."""
        self.webhook_lease: Lease | None = None
        self.window_events: dict[Position, tuple[str, str]] = {}
        """The last events of windows with their boards, in the order of the ledger."""
        self.rewards: dict[tuple[str, str], tuple[RewardRows, ...]] = {}
        """Those of settled windows, by board and window, in the order of the ledger."""
        self.window_events_from = Position(0)
        """Every later event of a window is in ``window_events``."""
        self.locked = False
        """Whether there was ever a key: revoking the last one opens nothing."""
        self.player_states: dict[str, PlayerStates] = {}
        """Of the players that are banned, hidden or shadowed somewhere."""
        self.players_timed: dict[str, None] = {}
        """Those of them with a state that ends by itself."""
        self.visibility: dict[str, Visibility] = {}
        """Of the players that are not public."""
        self.retractions: dict[Position, Retraction] = {}
        """In the order of the ledger, those that were taken back included."""
        self.reviews = Reviews()
        """The state of rules, and the submissions that they held or flagged."""
        self.last_correction = Position(0)
        """Where the last retraction, approval, state or erasure of a player was recorded."""
        self.restored: dict[str | None, Position] = {}
        """Where a player was ranked again last, by board; None for every board."""
        self.used_runs = UsedRuns()
        self.attempts = AttemptCounts()
        self.living = LivingScores()
        self.erased: dict[str, Position] = {}
        """Of players that were erased, where last: earlier facts count without personal data."""
        self.unredacted: dict[str, Position] = {}
        """Those of them whose facts are not all redacted yet."""
        self.redacted_at = Position(0)
        """Where the redaction of a player was complete last: snapshots before it are replaced."""
        self.audit = AuditIndex()
        self.refused = PositionLog()
        """The submissions that a rule, or the state of their player, refused."""
        self.editions: dict[tuple[str, str], tuple[Position, ...]] = {}
        """By board and closed window, the corrections that made another edition of it."""
        self.profiled_at = Position(0)
        """The position of the last profile change, for caches of display names."""
        self.wrong_times: tuple[WrongTime, ...] = ()
        """The stretches of the ledger whose times were corrected, in the order of that."""
        self.journal: Journal | None = None
        """The values before the changes since the last savepoint; None if there is none."""
        self.revision = 0
        """Grows with every fact noted that is not about a player, and when reads begin or end to be
        stale: plans of requests go by it."""

    def copy(self) -> "State":
        """Return the state as it is: nothing that is noted in one of the two is in the other."""
        state = copy(self)
        state.boards = {name: page.copy() for name, page in self.boards.items()}
        state.profiles, state.player_boards = dict(self.profiles), self.player_boards.copy()
        state.keys = dict(self.keys)
        state.names = dict(self.names)
        state.keys_created, state.keys_used = dict(self.keys_created), dict(self.keys_used)
        state.player_states, state.editions = dict(self.player_states), dict(self.editions)
        state.players_timed, state.restored = dict(self.players_timed), dict(self.restored)
        state.retractions, state.reviews = dict(self.retractions), self.reviews.copy()
        state.refused, state.audit = self.refused.copy(), self.audit.copy()
        state.used_runs = self.used_runs.copy()
        state.signing_keys = dict(self.signing_keys)
        state.deliveries = dict(self.deliveries)
        state.webhooks, state.window_events = dict(self.webhooks), dict(self.window_events)
        state.attempts, state.living = self.attempts.copy(), self.living.copy()
        state.rewards = dict(self.rewards)
        state.erased, state.unredacted = dict(self.erased), dict(self.unredacted)
        state.visibility = dict(self.visibility)
        state.journal = None
        state.forget_segmented()
        return state

    def page(self, board: str) -> BoardState:
        """Return a board's page. Raises UnknownBoard."""
        page = self.boards.get(board)
        if page is None:
            raise UnknownBoard(board)
        return page

    def profile(self, player: str) -> Profile:
        """Return a player's profile; most players have an empty one."""
        return self.profiles.get(player, NO_PROFILE)

    def segments(self, page: BoardState, player: str) -> list[str]:
        """Return the segments of a board that a player is in."""
        if not page.board.segments or player not in self.profiles:
            return []
        return segments_of(page.board, self.profiles[player].attributes)

    @property
    def segmented(self) -> Mapping[Position, BoardState]:
        """The boards with segments, by the position of their first definition, in that order."""
        if self._segmented is None:
            pages = self.boards.values()
            self._segmented = {page.since: page for page in pages if page.board.segments}
            self._untraced = [page for page in self._segmented.values() if not page.traced]
        return self._segmented

    def forget_segmented(self) -> None:
        """Have the boards with segments found again, after a change of boards."""
        self._segmented = None

    def trace(self, page: BoardState) -> None:
        """Note that every player with an entry on a board is among the player_boards."""
        page.traced = True
        self.forget_segmented()

    def enter(self, page: BoardState, player: str) -> None:
        """Note that a player submits to a board, if the board has segments."""
        if page.board.segments:
            self.player_boards.add(player, page.since)

    def sweep_entrants(self) -> None:
        """Forget some players of retired boards. Only when no fact is to be taken back."""
        if self.player_boards.unswept:
            self.player_boards.sweep({page.since for page in self.boards.values()})

    def concerned(self, player: str, changed: Set[str]) -> list[BoardState]:
        """Return the boards, in their order, on which changed attributes may move a player."""
        boards = self.segmented
        entered = [
            boards[since] for since in self.player_boards.boards_of(player) if since in boards
        ]
        pages = {page.since: page for page in (*entered, *self._untraced)}
        return [
            page for _, page in sorted(pages.items()) if not changed.isdisjoint(page.board.segments)
        ]

    def knows(self, player: str, attributes: Attributes) -> bool:
        """Whether a submission's attributes are the known ones of its player."""
        known = self.profiles.get(player, NO_PROFILE).attributes
        if known is attributes:
            return True
        if len(attributes) == len(known) and attributes == known:
            return [*map(type, attributes.values())] == [*map(type, map(known.get, attributes))]
        return not any(differs(known, name, value) for name, value in attributes.items())

    def players_with_news(self, facts: Iterable[Fact]) -> set[str]:
        """Return the players whose profiles some of the facts may change."""
        profile_of, news = self.profiles.get, set[str]()
        for fact in facts:
            if type(fact) is ScoreSubmitted:
                told, player = fact.attributes, fact.player
                same = not told or profile_of(player, NO_PROFILE).attributes is told
                if not same and not self.knows(player, fact.attributes or {}):
                    news.add(player)
            elif (change := fact.profile_change()) is not None:
                news.add(change.player)
        return news

    def note(self, recorded: Recorded) -> None:
        """Apply a fact, by the handler of its kind. Kinds without one do not change the state."""
        fact = recorded.fact
        self.index_fact(recorded)
        self.revision += not fact.about_player
        if (change := fact.profile_change()) is not None and fact.about_player:
            self.change_profile(change, recorded.position)
        if (handler := _HANDLERS.get(type(fact))) is not None:
            handler(self, fact, recorded)
        board = getattr(fact, "board", None)
        if board is not None and self.attempts.has(board):
            self._settle_attempts(board)

    def index_fact(self, recorded: Recorded) -> None:
        """Let the audit trail find a fact, unless there may be as many as scores or players."""
        if not recorded.fact.numerous:
            if self.journal is not None:
                self.journal.keep_length(self.audit)
            self.audit.add(recorded)

    # ...... attempts

    def attempt(self, page: BoardState, fact: ScoreSubmitted) -> frozenset[str]:
        """Count a submission that is judged; return the windows whose attempts are exhausted."""
        limit = page.board.limits.attempts_max
        if limit is None or fact.overrides:
            return NO_WINDOWS
        board, player = page.board.name, fact.player
        return self.attempts.take(board, page.attempt_windows, player, limit, self.journal)

    def note_term(self, fact: ScoreSubmitted, recorded: Recorded) -> Instant | None:
        """Note the term of a submission that is judged; return when it is over, None for never."""
        if not isinstance(fact, ExpiringScoreSubmitted):
            return None
        self.living.add(recorded, fact, self.journal)
        return self.living.due_of(recorded.position)

    def _settle_attempts(self, board: str) -> None:
        """Forget the attempts in windows that are not open, or not bounded any more."""
        page = self.boards.get(board)
        bounded = page is not None and page.board.limits.attempts_max is not None
        if page is None or not bounded:
            self.attempts.keep_open(board, set(), self.journal)
            return
        open_now = {id for ids in page.attempt_windows.values() for id in ids}
        # Between two windows of a rolling recurrence, days go on that both have in common.
        between = {one.name for one in page.rolling if one.name not in page.windows}
        self.attempts.keep_open(board, open_now, self.journal, between)

    # ...... runs

    def run_key(self) -> SigningKeyCreated | None:
        """Return the newest key of runs, which signs them; None if there is none."""
        keys = self.run_keys()
        return keys[-1] if keys else None

    def run_keys(self) -> list[SigningKeyCreated]:
        """Return the keys of runs, oldest first."""
        keys = (key for key in self.signing_keys.values() if key.algorithm == "run")
        return sorted(keys, key=lambda key: (self.keys_created[key.id], key.id))

    # ...... corrections

    def player_state(self, player: str, board: str) -> PlayerState | None:
        """Return the state of a player on a board; None for an active player."""
        states = self.player_states.get(player)
        return None if states is None else state_on(states, board)

    def is_shadowed(self, player: str, board: str) -> bool:
        """Whether a player sees itself on a board as if it were ranked."""
        state = self.player_state(player, board) if self.player_states else None
        return state is not None and state.state == "shadowed"

    def sees_itself(self, player: str) -> bool:
        """Whether a player is shadowed somewhere."""
        return any(one.state == "shadowed" for one in self.player_states.get(player, ()))

    def unranked_on(self, board: str) -> list[str]:
        """Return the players that are banned, hidden or shadowed on a board."""
        return [player for player in self.player_states if self.player_state(player, board)]

    def restored_on(self, board: str) -> Position:
        """Return where a player was ranked again last on a board, 0 if none was."""
        return max(self.restored.get(name, Position(0)) for name in (board, None))

    def timed_states(self) -> list[tuple[str, PlayerState]]:
        """Return the states of players that end by themselves."""
        timed = (
            (player, one) for player in self.players_timed for one in self.player_states[player]
        )
        return [(player, one) for player, one in timed if one.until is not None]

    def admit(self, page: BoardState, fact: ScoreSubmitted, recorded: Recorded) -> Barred | None:
        """Return why a submission does not count, None if it does. Once for each, in order.

        Rules and the states of players decide it, and neither depends on an index. ``fact`` is in
        terms of the definition in force.
        """
        state = self.player_state(fact.player, fact.board) if self.player_states else None
        if state is not None and state.state == "banned" and not fact.overrides:
            self._refuse(recorded.position)
            return Barred(PLAYER_BANNED)
        if fact.run is not None:
            unusable = self.used_runs.use(fact.run, recorded.at, self.journal)
            if unusable is not None:
                self._refuse(recorded.position)
                return Barred(unusable)
        if fact.overrides and page.windows:
            self.reviews.count(fact, self.journal, replaces=True)
        if fact.overrides or not page.windows:
            return None
        barred = self._barred_by_rules(page, fact, recorded)
        if barred is None and page.board.verifier is not None:
            return self.reviews.hold(page.board, recorded, self.journal)
        return barred

    def _barred_by_rules(
        self, page: BoardState, fact: ScoreSubmitted, recorded: Recorded
    ) -> Barred | None:
        columns = columns_of(fact) if fact.board in self.reviews.rules else None
        if columns is None:
            return None
        return barred_by(self.judge_by_rules(page, columns, [recorded]))

    def judge_by_rules(
        self, page: BoardState, columns: JudgedColumns, facts: Sequence[Recorded]
    ) -> BarredRows | None:
        """Judge submissions to one board by its rules; None if all of them count."""
        if page.board.name not in self.reviews.rules:
            return None
        found = self.reviews.judge(page.board, columns, facts, self.journal)
        for row, verdict in enumerate(() if found is None else found.barred):
            if verdict == REFUSED:
                self._refuse(facts[row].position)
        return found

    def counts(self, position: Position) -> bool:
        """Whether a submission was neither refused by a rule or its player's state, nor is held."""
        return position not in self.refused and not self.reviews.is_out(position)

    def corrected(self, board: str) -> bool:
        """Whether submissions to a board were retracted, or held and approved."""
        retracted = any(one.fact.board in (None, board) for one in self.retractions.values())
        return retracted or self.reviews.approved_on(board)

    def edition(self, board: str, window: str) -> int:
        """Return the number of the present edition of a closed window, counted from 1."""
        return 1 + len(self.editions.get((board, window), ()))

    def _refuse(self, position: Position) -> None:
        if self.journal is not None:
            self.journal.keep_length(self.refused)
        self.refused.add(position)

    def add_editions(self, editions: Iterable[Edition], position: Position) -> None:
        """Note the closed windows that a correction changes."""
        for board, window in ((one.board, one.window) for one in editions):
            self.put(
                "editions", (board, window), (*self.editions.get((board, window), ()), position)
            )
            page = self.change_board(board)
            known = None if page is None else page.sealed.get(window)
            if page is not None and known is not None and known.state is WindowState.FINAL:
                page.sealed[window] = known._replace(state=WindowState.SEALED)

    # ...... changes, which a savepoint undoes

    def change_profile(self, change: ProfileChange, position: Position | None = None) -> None:
        """Apply the effect of a fact on a profile; ``position`` if its name may change."""
        player, profile = change.player, change.applied(self.profiles.get(change.player))
        name = None if profile is None else profile.name
        if profile is None:
            self.remove("profiles", player)
        else:
            self.put("profiles", player, profile)
        if name is not None:
            self.put("names", player, name)
        elif player in self.names:
            self.remove("names", player)
        if position is not None and change.friends is None:
            self.assign("profiled_at", position)

    def forget_rewards(self, board: str, windows: Iterable[str] | None = None) -> None:
        """Forget the rewards of some windows; of all windows of a board without."""
        if windows is None:
            windows = [window for name, window in self.rewards if name == board]
        for window in windows:
            if (board, window) in self.rewards:
                self.remove("rewards", (board, window))

    def note_event(self, position: Position, event: str, board: str) -> None:
        """Note the place of events of a board's windows."""
        self.put("window_events", position, (event, board))
        self._drop_events()

    def _drop_events(self) -> None:
        """Drop the oldest events of windows if there are too many.

        A savepoint does not bring them back: they can be read from the ledger again.
        """
        if len(self.window_events) > EVENTS_KEPT_MAX:
            for position in list(islice(self.window_events, EVENTS_DROPPED)):
                del self.window_events[position]
                self.window_events_from = position

    def change_board(self, name: str) -> BoardState | None:
        """Return a board's page to be changed; None if there is no such board."""
        page = self.boards.get(name)
        if page is not None and self.journal is not None:
            self.journal.keep_page(self.boards, name, page)
        return page

    def put(self, table: str, key: Hashable, value: object) -> None:
        """Set an item of one of the dictionaries."""
        rows = getattr(self, table)
        if self.journal is not None:
            self.journal.keep(rows, key)
        rows[key] = value

    def remove(self, table: str, key: Hashable) -> None:
        """Remove an item of one of the dictionaries, if it is there."""
        rows = getattr(self, table)
        if self.journal is not None:
            self.journal.keep(rows, key)
        rows.pop(key, None)

    def assign(self, name: str, value: object) -> None:
        """Set an attribute."""
        if self.journal is not None:
            self.journal.keep(vars(self), name)
        setattr(self, name, value)


class Journal:
    """The values that changes of a state replaced, oldest first."""

    def __init__(self) -> None:
        self._before: list[tuple[dict[Any, Any], Hashable, object]] = []
        self._pages: set[str] = set()
        self._lengths: dict[int, tuple[PositionLog | AuditIndex, int]] = {}
        self._rules: dict[int, RuleState] = {}

    def keep(self, rows: dict[Any, Any], key: Hashable) -> None:
        """Keep an item, or its absence, before it is changed."""
        self._before.append((rows, key, rows.get(key, _ABSENT)))

    def keep_page(self, boards: dict[str, BoardState], name: str, page: BoardState) -> None:
        """Keep a copy of a page, the first time it is to be changed."""
        if name not in self._pages:
            self._pages.add(name)
            self._before.append((boards, name, page.copy()))

    def keep_length(self, log: PositionLog | AuditIndex) -> None:
        """Keep the length of a log, the first time it is to grow."""
        self._lengths.setdefault(id(log), (log, len(log)))

    def keep_rules(self, rules: RuleState) -> None:
        """Have the state of a board's rules keep its changes, from the first time on."""
        if id(rules) not in self._rules:
            self._rules[id(rules)] = rules
            rules.savepoint()

    def release(self) -> None:
        """Keep no changes of rules any more."""
        for rules in self._rules.values():
            rules.release()
        self._rules.clear()

    def undo(self) -> None:
        """Put all values back, newest first."""
        for rules in self._rules.values():
            rules.rollback()
        self._rules.clear()
        for log, length in self._lengths.values():
            log.truncate(length)
        for rows, key, value in reversed(self._before):
            if value is _ABSENT:
                rows.pop(key, None)
            else:
                rows[key] = value


_ABSENT = object()


class Savepoint:
    """A state as it was, as long as this is the last savepoint of that state.

    Its cost is that of the changes since: none for plain submissions, by far the most facts.
    """

    __slots__ = ("_journal", "_state")

    def __init__(self, state: State) -> None:
        self._state = state
        if state.journal is not None:
            state.journal.release()
        self._journal = state.journal = Journal()

    def go_back(self) -> None:
        """Undo the facts that were applied since."""
        state = self._state
        assert state.journal is self._journal, "another savepoint was made since"
        self._journal.undo()
        self.release()
        # A board that was retired is back, but at the end: boards are in the order of their start.
        state.boards = dict(sorted(state.boards.items(), key=lambda item: item[1].since))
        state.living.forget_order()
        state.forget_segmented()

    def release(self) -> None:
        """Keep the changes, and forget the values before them."""
        if self._state.journal is self._journal:
            self._journal.release()
            self._state.journal = None


# ---------------------------------------------------------------- handlers of fact kinds

StateHandler = Callable[[State, Any, Recorded], None]
"""Applies a fact to a state, by the methods of the state that a savepoint undoes."""

H = TypeVar("H", bound=StateHandler)
_HANDLERS: dict[type[Fact], StateHandler] = {}


def state_handler(*kinds: type[Fact]) -> Callable[[H], H]:
    """Register a function as the handler of some kinds of facts."""

    def register(handler: H) -> H:
        _HANDLERS.update(dict.fromkeys(kinds, handler))
        return handler

    return register


@state_handler(BoardDefined, BoardRedefined, BoardRelearned)
def _define(state: State, fact: BoardDefined, recorded: Recorded) -> None:
    board, position = Board.define(fact.board, fact.definition), recorded.position
    state.forget_segmented()
    page = state.change_board(fact.board)
    if (place := place_of(fact, first=page is None)) is not None:
        state.note_event(position, place, fact.board)
    state.reviews.declare(board, None if page is None else page.board, state.journal)
    state.reviews.adopt_learned(board.name, position, state.journal)
    if page is None:
        page = BoardState(board, position)
        state.put("boards", fact.board, page)
    else:
        page.redefine(board, fact, recorded)
    page.open_defined(fact)


@state_handler(BoardRetired, BoardExpired)
def _retire(state: State, fact: BoardRetired, _recorded: Recorded) -> None:
    page = state.boards.get(fact.board)
    if page is not None and page.is_retired_by(fact):
        state.remove("boards", fact.board)
        state.reviews.retire(fact.board, state.journal)
        state.forget_rewards(fact.board)
        state.player_boards.retire(page.since)
        state.forget_segmented()


@state_handler(
    WindowOpened,
    WindowPrepared,
    WindowEnded,
    WindowFrozen,
    WindowSealed,
    WindowSettled,
    WindowDropped,
)
def _turn(state: State, fact: WindowTurn, recorded: Recorded) -> None:
    page = state.change_board(fact.board)
    if page is not None and not page.is_stale(fact):
        page.turn(fact, recorded)
        if (event := WINDOW_EVENTS.get(type(fact))) is not None:
            state.note_event(recorded.position, event, fact.board)
        if isinstance(fact, WindowDropped):
            state.forget_rewards(fact.board, [fact.window])


@state_handler(RewardsGiven, RewardsWithdrawn, RewardClaimed)
def _change_rewards(state: State, fact: RewardFact, recorded: Recorded) -> None:
    place, page = (fact.board, fact.window), state.boards.get(fact.board)
    known = None if page is None else page.sealed.get(fact.window)
    final = known is not None and known.state is WindowState.FINAL
    settled = known.settled if known is not None and final else None
    rows = rows_after(state.rewards.get(place, ()), recorded, settled)
    if rows is not None:
        state.put("rewards", place, rows)
        if (event := REWARD_EVENTS.get(type(fact))) is not None:
            state.note_event(recorded.position, event, fact.board)


@state_handler(WindowsCorrected)
def _correct_windows(state: State, fact: WindowsCorrected, recorded: Recorded) -> None:
    page = state.change_board(fact.board)
    if page is not None:
        page.correct(fact, recorded.position)
        state.forget_rewards(fact.board, fact.removed)


@state_handler(TimeCorrected)
def _correct_time(state: State, fact: TimeCorrected, recorded: Recorded) -> None:
    state.assign("wrong_times", (*state.wrong_times, fact.wrong))
    state.living.correct(fact.wrong, state.journal)
    state.used_runs.correct_time(recorded.at, state.journal)


@state_handler(ScoresExpired)
def _end_terms(state: State, fact: ScoresExpired, recorded: Recorded) -> None:
    state.living.end(fact, recorded.position, state.journal)


@state_handler(KeyCreated, ExpiringKeyCreated)
def _create_key(state: State, fact: KeyCreated, recorded: Recorded) -> None:
    state.put("keys", fact.digest, fact)
    state.put("keys_created", fact.id, recorded.at)
    state.assign("locked", True)


@state_handler(KeysUsed)
def _use_keys(state: State, fact: KeysUsed, _recorded: Recorded) -> None:
    for id in (*(key.id for key in state.keys.values()), *state.signing_keys):
        if (used := fact.used.get(id)) is not None:
            state.put("keys_used", id, max(used, state.keys_used.get(id, used)))


@state_handler(SigningKeyCreated)
def _create_signing_key(state: State, fact: SigningKeyCreated, recorded: Recorded) -> None:
    state.put("signing_keys", fact.id, fact)
    state.put("keys_created", fact.id, recorded.at)
    for key in state.run_keys()[:-RUN_KEYS_MAX]:
        _forget_key(state, key.id)


@state_handler(WebhookSet)
def _set_webhook(state: State, fact: WebhookSet, recorded: Recorded) -> None:
    before = state.webhooks.get(fact.name)
    state.put("webhooks", fact.name, Webhook.of(fact, before, recorded.position))


@state_handler(WebhookRemoved)
def _remove_webhook(state: State, fact: WebhookRemoved, _recorded: Recorded) -> None:
    state.remove("webhooks", fact.name)
    state.remove("deliveries", fact.name)


@state_handler(WebhookRewound)
def _rewind_webhook(state: State, fact: WebhookRewound, recorded: Recorded) -> None:
    known = state.webhooks.get(fact.name)
    if known is not None:
        state.put("webhooks", fact.name, known.rewound(fact.after, recorded.position))


@state_handler(WebhooksSent)
def _note_sent(state: State, fact: WebhooksSent, recorded: Recorded) -> None:
    lease = state.webhook_lease
    if lease is not None and lease.node != fact.node and recorded.at < lease.until:
        return
    state.assign("webhook_lease", Lease(fact.node, fact.until))
    for name, progress in fact.progress.items():
        known = state.webhooks.get(name)
        if known is not None and known.changed == progress.changed:
            state.put("webhooks", name, known.advanced(progress))
    for name, tried in fact.deliveries.items():
        if name in state.webhooks:
            before = state.deliveries.get(name, ())
            state.put("deliveries", name, deliveries_after(before, tried))


@state_handler(KeyRevoked)
def _revoke_key(state: State, fact: KeyRevoked, _recorded: Recorded) -> None:
    left = {digest: key for digest, key in state.keys.items() if key.id != fact.id}
    state.assign("keys", left)
    _forget_key(state, fact.id)


def _forget_key(state: State, id: str) -> None:
    for table in ("signing_keys", "keys_created", "keys_used"):
        rows = getattr(state, table)
        if id in rows:  # A copy: put back by a savepoint, it would be the last one.
            state.assign(table, {known: row for known, row in rows.items() if known != id})


@state_handler(PersonErased)
def _erase(state: State, fact: PersonErased, recorded: Recorded) -> None:
    state.put("erased", fact.player, recorded.position)
    state.put("unredacted", fact.player, recorded.position)
    state.assign("last_correction", recorded.position)
    state.remove("visibility", fact.player)


@state_handler(VisibilitySet)
def _set_visibility(state: State, fact: VisibilitySet, _recorded: Recorded) -> None:
    if fact.visibility == "public":
        state.remove("visibility", fact.player)
    else:
        state.put("visibility", fact.player, fact.visibility)


@state_handler(FactsRedacted)
def _redact(state: State, fact: FactsRedacted, recorded: Recorded) -> None:
    if fact.complete and state.unredacted.get(fact.player, fact.through + 1) <= fact.through:
        state.remove("unredacted", fact.player)
    if fact.complete:
        state.assign("redacted_at", recorded.position)


@state_handler(PlayerStateSet)
def _set_player_state(state: State, fact: PlayerStateSet, recorded: Recorded) -> None:
    before = state.player_states.get(fact.player, ())
    states = states_after(before, fact, recorded.position)
    state.assign("last_correction", recorded.position)
    if fact.state == "active":
        for board in (None,) if fact.boards is None else fact.boards:
            state.put("restored", board, recorded.position)
    if states:
        state.put("player_states", fact.player, states)
    else:
        state.remove("player_states", fact.player)
    if any(one.until is not None for one in states):
        state.put("players_timed", fact.player, None)
    else:
        state.remove("players_timed", fact.player)


@state_handler(ScoresRetracted)
def _retract(state: State, fact: ScoresRetracted, recorded: Recorded) -> None:
    state.put("retractions", recorded.position, Retraction(recorded.position, fact))
    state.assign("last_correction", recorded.position)
    state.add_editions(fact.editions, recorded.position)


@state_handler(RetractionUndone)
def _undo_retraction(state: State, fact: RetractionUndone, recorded: Recorded) -> None:
    retraction = state.retractions.get(fact.retraction)
    if retraction is not None and retraction.in_force:
        undone = retraction._replace(undone=recorded.position)
        state.put("retractions", fact.retraction, undone)
        state.assign("last_correction", recorded.position)
        state.add_editions(fact.editions, recorded.position)


@state_handler(ReviewDecided)
def _decide_review(state: State, fact: ReviewDecided, recorded: Recorded) -> None:
    if not state.reviews.is_open(fact.submission):
        return
    if not fact.approved and fact.submission not in state.reviews.held:
        retraction = Retraction(recorded.position, retraction_of_flagged(fact))
        state.put("retractions", recorded.position, retraction)
    state.reviews.decide(fact, recorded.position, state.journal)
    state.assign("last_correction", recorded.position)
    state.add_editions(fact.editions, recorded.position)


def retraction_of_flagged(fact: ReviewDecided) -> ScoresRetracted:
    """Return the retraction that the rejection of a flagged submission stands for."""
    submission, by = (fact.submission,), (fact.actor, fact.reason)
    return ScoresRetracted(fact.board, fact.player, submission, None, None, None, *by)


# -------------------------------------------------------------------------- attributes


def differs(known: Attributes, name: str, value: str | int | bool) -> bool:
    """Whether a value is another one than the known. True and 1 are two values."""
    before = known.get(name)
    return before != value or type(before) is not type(value)


def differing(before: Attributes, after: Attributes) -> set[str]:
    """Return the names of the attributes that differ, or that only one of the two has."""
    changed = {name for name, value in after.items() if differs(before, name, value)}
    return changed | (before.keys() - after.keys())


def segments_of(board: Board, attributes: Attributes) -> list[str]:
    """Return the segments of a board that a player with these attributes is in."""
    return [
        f"{name}:{value_text(attributes[name])}" for name in board.segments if name in attributes
    ]


def value_text(value: str | int | bool) -> str:
    """Return a value of an attribute as a segment is named by it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
