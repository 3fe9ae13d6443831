"""The codec of the state, which a snapshot stores beside the index.

The state is taken between two batches and written while work goes on, so it is copied first, and
the copy never changes: boards are few, and of players a copy of the dictionary is enough, for
profiles are replaced, never changed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from rankd.core.attempts import AttemptCounts
from rankd.core.audit_index import AuditIndex, AuditPiece
from rankd.core.board_state import BoardState, OpenedWindow, SealedWindow, Terms
from rankd.core.corrections import PlayerState, Retraction
from rankd.core.living_scores import LivingScore
from rankd.core.player_boards import PlayerBoards
from rankd.core.reviews import Decision, Review, Reviews, rule_state, saved_rules
from rankd.core.reward_rows import RewardRows
from rankd.core.state import State
from rankd.core.webhooks import Lease, Webhook
from rankd.errors import SnapshotDamaged
from rankd.model.board import Board
from rankd.model.facts import (
    SHARED_ATTRIBUTES_MAX,
    DeliveryRecord,
    ExpiringKeyCreated,
    KeyCreated,
    OpenWindow,
    Position,
    Profile,
    ScoresRetracted,
    SigningKeyCreated,
    Visibility,
    WindowSettled,
    WrongTime,
)
from rankd.model.window import Instant, Window, WindowState
from rankd.ports import Ranking
from rankd.rules import RuleState

VERSION = 1
_UNKNOWN = Position(-1)

POSITIONS_PER_FRAME = 65_536
"""Half a megabyte."""

RUNS_PER_FRAME = 16_384
"""Some 400 kilobytes."""

REWARDS_PER_FRAME = 64
"""Facts that gave rewards: at most half a megabyte."""

PLAYERS_PER_FRAME = 4_096
"""Encoding so many holds the interpreter for about a millisecond."""


class Heading(msgspec.Struct, tag="heading", array_like=True):
    """Which moment of which ledger is noted."""

    version: int
    checkpoint: Position
    at: Instant
    link: bytes
    """The ledger's hash chain there: a snapshot of another ledger is told by it."""
    profiled_at: Position
    unstored: dict[int, bytes]


class KeysFrame(msgspec.Struct, tag="keys", array_like=True):
    """The keys."""

    keys: list[KeyCreated]
    locked: bool
    created: dict[str, Instant] = {}
    used: dict[str, Instant] = {}


class ExpiringKeysFrame(msgspec.Struct, tag="expiring_keys", array_like=True):
    """Keys that expire.

    A frame of its own, and only where there are any: a version that knows no expiry must not read
    past it.
    """

    keys: list[ExpiringKeyCreated]


class SealedFrame(msgspec.Struct, array_like=True):
    """A closed window."""

    window: str
    name: str
    start: Instant | None
    end: Instant | None
    definition: dict[str, Any]
    through: Position
    at: Instant
    state: WindowState = WindowState.SEALED
    sealed: Position | None = None
    """None in snapshots of older versions: where it was closed."""
    reason: str | None = None
    closed: Instant | None = None
    settled: WindowSettled | None = None


class BoardFrame(msgspec.Struct, tag="board", array_like=True):
    """A page of the state."""

    name: str
    definition: dict[str, Any]
    since: Position
    defined_at: Position
    windows: list[OpenWindow]
    sealed: list[SealedFrame]
    earlier: list[tuple[Position, dict[str, Any]]]
    traced: bool = False
    corrected_at: Position = Position(0)
    prepared: list[OpenWindow] = []


class NotedWrongTimes(msgspec.Struct, tag="wrong_times", array_like=True):
    """The stretches of the ledger whose times were corrected."""

    stretches: tuple[WrongTime, ...]


class CorrectionsFrame(msgspec.Struct, tag="corrections", array_like=True):
    """Retractions, reviews, states of players, and editions of closed windows."""

    retractions: list[tuple[Position, ScoresRetracted, Position | None]]
    reviews: list[Any]
    """Empty: see ``ReviewsFrame``."""
    player_states: dict[str, tuple[PlayerState, ...]]
    editions: list[tuple[str, str, tuple[Position, ...]]]
    last_correction: Position
    restored: list[tuple[str | None, Position]] = []


class ErasedFrame(msgspec.Struct, tag="erased", array_like=True):
    """Players that were erased, and those whose facts are not all redacted yet."""

    erased: dict[str, Position]
    unredacted: dict[str, Position]
    redacted_at: Position


class VisibilityFrame(msgspec.Struct, tag="visibility", array_like=True):
    """The visibility of some players that are not public."""

    players: dict[str, Visibility]


class RefusedFrame(msgspec.Struct, tag="refused", array_like=True):
    """Positions of submissions that were refused, eight bytes each."""

    positions: bytes


class ReviewsFrame(msgspec.Struct, tag="reviews", array_like=True):
    """Reviews, and decisions about held submissions."""

    listed: list[Review]
    decisions: list[tuple[Position, tuple[str, bool, Position]]]


class HeldFrame(msgspec.Struct, tag="held", array_like=True):
    """Positions of submissions that were held, eight bytes each."""

    positions: bytes


class RulesFrame(msgspec.Struct, tag="rules", array_like=True):
    """A piece of the state of a board's rules, behind the pieces before it."""

    board: str
    saved: bytes


class SigningKeysFrame(msgspec.Struct, tag="signing_keys", array_like=True):
    """The keys of signatures and of runs."""

    keys: list[SigningKeyCreated]


class WebhooksFrame(msgspec.Struct, tag="webhooks", array_like=True):
    """The webhooks, and the last events of windows."""

    webhooks: list[Webhook]
    lease: Lease | None
    events: dict[Position, tuple[str, str]]
    events_from: Position
    deliveries: dict[str, tuple[DeliveryRecord, ...]] = {}


class RewardsFrame(msgspec.Struct, tag="rewards", array_like=True):
    """Some rewards of one window, behind those before them."""

    board: str
    window: str
    rewards: list[RewardRows]


class UsedRunsFrame(msgspec.Struct, tag="used_runs", array_like=True):
    """Some of the used runs, and the times by which the others are refused."""

    forgotten: int
    void_before: Instant
    void_hour: int
    runs: bytes


class LivingScoresFrame(msgspec.Struct, tag="living", array_like=True):
    """Submissions with a term; and by board, where one ended last."""

    scores: list[tuple[Position, LivingScore]]
    ends: list[tuple[str, Position]] = []


class AttemptsFrame(msgspec.Struct, tag="attempts", array_like=True):
    """The attempts of some players in one window."""

    board: str
    window: str
    players: dict[str, int]


class ProfilesFrame(msgspec.Struct, tag="profiles", array_like=True):
    """Some players' profiles, or some players and the boards with segments they submitted to.

    Or a part of the index of the audit trail. They share a frame so that an older version, which
    knows neither player_boards nor audit, reads past them.
    """

    profiles: list[tuple[str, str | None, dict[str, str | int | bool]]]
    player_boards: list[tuple[str, tuple[Position, ...]]] = []
    audit: AuditPiece | None = None


class FriendsFrame(msgspec.Struct, tag="friends", array_like=True):
    """Some players' friends."""

    friends: list[tuple[str, tuple[str, ...]]]


Frame = (
    Heading
    | KeysFrame
    | ExpiringKeysFrame
    | BoardFrame
    | NotedWrongTimes
    | CorrectionsFrame
    | RefusedFrame
    | ReviewsFrame
    | HeldFrame
    | RulesFrame
    | SigningKeysFrame
    | WebhooksFrame
    | RewardsFrame
    | UsedRunsFrame
    | LivingScoresFrame
    | AttemptsFrame
    | ErasedFrame
    | VisibilityFrame
    | ProfilesFrame
    | FriendsFrame
)
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Frame).decode


class DecodedState(msgspec.Struct):
    """A decoded state, and its heading."""

    heading: Heading
    state: State


def placeholder() -> DecodedState:
    """Return an empty state, before the first fact."""
    return DecodedState(Heading(VERSION, Position(0), Instant(0), b"", Position(0), {}), State())


def take_notes(state: State, heading: Heading) -> Iterator[bytes]:
    """Return the frames of a state as it is now. They are encoded lazily, from copies."""
    few: list[Frame] = [
        *_note_keys(state),
        *map(_note_page, state.boards.values()),
    ]
    if state.wrong_times:
        few.append(NotedWrongTimes(state.wrong_times))
    few += _note_corrections(state)
    few += _note_reviews(state.reviews)
    few += _note_runs(state)
    few += _note_visibility(state)
    few += [ProfilesFrame([], [], piece) for piece in state.audit.pieces()]
    if state.webhooks or state.window_events:
        few.append(_note_webhooks(state))
    for place, given in state.rewards.items():
        parts = range(0, len(given), REWARDS_PER_FRAME)
        few += [RewardsFrame(*place, list(given[at : at + REWARDS_PER_FRAME])) for at in parts]
    rules = {board: one.copy() for board, one in state.reviews.rules.items()}
    copied = dict(state.profiles), state.player_boards.copy(), state.attempts.copy()
    if state.living.ends:
        few.append(LivingScoresFrame([], list(state.living.ends)))
    few += map(LivingScoresFrame, state.living.parts(PLAYERS_PER_FRAME))
    return _frames(heading, few, rules, *copied)


def _frames(
    heading: Heading,
    few: Sequence[Frame],
    rules: dict[str, RuleState],
    profiles: dict[str, Profile],
    player_boards: PlayerBoards,
    attempts: AttemptCounts,
) -> Iterator[bytes]:
    yield _encode(heading)
    yield from map(_encode, few)
    while rules:  # Each is let go once it is written.
        board, one = rules.popitem()
        for piece in saved_rules(one):
            yield _encode(RulesFrame(board, piece))
    noted = _note_profiles(profiles)
    while some := list(islice(noted, PLAYERS_PER_FRAME)):
        yield _encode(ProfilesFrame(some))
    circles = ((id, one.friends) for id, one in profiles.items() if one.friends)
    while several := list(islice(circles, PLAYERS_PER_FRAME)):
        yield _encode(FriendsFrame(several))
    for part in attempts.parts(PLAYERS_PER_FRAME):
        yield _encode(AttemptsFrame(*part))
    entered = iter(player_boards)
    while players := list(islice(entered, PLAYERS_PER_FRAME)):
        yield _encode(ProfilesFrame([], players))


def _note_profiles(profiles: Mapping[str, Profile]) -> Iterator[tuple[str, str | None, Any]]:
    """Yield profiles as frames have them. Attributes that players share are encoded once."""
    encoded: dict[int, msgspec.Raw] = {}  # By identity: the profiles keep their attributes alive.
    for player, (name, attributes, _) in profiles.items():
        shared = encoded.get(id(attributes))
        if shared is None:
            if len(encoded) >= SHARED_ATTRIBUTES_MAX:
                encoded.clear()
            shared = encoded[id(attributes)] = msgspec.Raw(_encode(dict(attributes)))
        yield player, name, shared


def _note_keys(state: State) -> list[Frame]:
    expiring = [key for key in state.keys.values() if isinstance(key, ExpiringKeyCreated)]
    others = [key for key in state.keys.values() if not isinstance(key, ExpiringKeyCreated)]
    noted = KeysFrame(others, state.locked, dict(state.keys_created), dict(state.keys_used))
    return [noted, ExpiringKeysFrame(expiring)] if expiring else [noted]


def _note_corrections(state: State) -> Iterator[Frame]:
    if state.last_correction:
        yield CorrectionsFrame(
            [(one.position, one.fact, one.undone) for one in state.retractions.values()],
            [],
            dict(state.player_states),
            [(*place, positions) for place, positions in state.editions.items()],
            state.last_correction,
            list(state.restored.items()),
        )
    if state.erased:
        yield ErasedFrame(dict(state.erased), dict(state.unredacted), state.redacted_at)
    yield from map(RefusedFrame, state.refused.frames(POSITIONS_PER_FRAME))


def _note_reviews(reviews: Reviews) -> Iterator[Frame]:
    if reviews.listed or reviews.decisions:
        decisions = [
            (at, (one.board, one.approved, one.at)) for at, one in reviews.decisions.items()
        ]
        yield ReviewsFrame(list(reviews.listed.values()), decisions)
    yield from map(HeldFrame, reviews.held.frames(POSITIONS_PER_FRAME))


def _note_runs(state: State) -> Iterator[Frame]:
    if state.signing_keys:
        yield SigningKeysFrame(list(state.signing_keys.values()))
    used = state.used_runs
    times = (used.forgotten, used.void_before, used.void_hour)
    if any(times) or used:
        yield UsedRunsFrame(*times, b"")
    yield from (UsedRunsFrame(*times, runs) for runs in used.frames(RUNS_PER_FRAME))


def _note_visibility(state: State) -> Iterator[Frame]:
    known = iter(state.visibility.items())
    while some := dict(islice(known, PLAYERS_PER_FRAME)):
        yield VisibilityFrame(some)


def _note_webhooks(state: State) -> Frame:
    return WebhooksFrame(
        list(state.webhooks.values()),
        state.webhook_lease,
        dict(state.window_events),
        state.window_events_from,
        dict(state.deliveries),
    )


def _note_page(page: BoardState) -> BoardFrame:
    return BoardFrame(
        page.board.name,
        page.board.definition(),
        page.since,
        page.defined_at,
        [OpenWindow(window.id, window.start, window.end) for window, *_ in page.windows.values()],
        [_note_sealed(sealed) for sealed in page.sealed.values()],
        [(position, board.definition()) for position, board in page.earlier],
        page.traced,
        page.corrected_at,
        [OpenWindow(one.id, one.start, one.end) for one, *_ in page.prepared.values()],
    )


def _note_sealed(sealed: SealedWindow) -> SealedFrame:
    window = sealed.window
    return SealedFrame(
        window.id,
        window.name,
        window.start,
        window.end,
        sealed.terms.board.definition(),
        sealed.through,
        sealed.at,
        sealed.state,
        sealed.sealed,
        sealed.reason,
        sealed.closed,
        sealed.settled,
    )


def read_notes(frames: Iterable[bytes]) -> DecodedState:
    """Return the state that was noted. Raises SnapshotDamaged."""
    heading: Heading | None = None
    state, rules = State(), dict[str, bytearray]()
    state.audit = AuditIndex(_UNKNOWN)
    try:
        for frame in map(_decode, frames):
            if isinstance(frame, Heading):
                heading = frame
            elif isinstance(frame, RulesFrame):
                rules.setdefault(frame.board, bytearray()).extend(frame.saved)
            else:
                _read_frame(state, frame)
    except msgspec.MsgspecError as exc:
        raise SnapshotDamaged(f"the notes beside the index cannot be read: {exc}") from exc
    _read_rules(state, rules)
    if heading is None or heading.version != VERSION:
        raise SnapshotDamaged("the notes beside the index are of another version")
    state.profiled_at = heading.profiled_at
    if state.audit.since == _UNKNOWN:  # Of an older version.
        state.audit.since = state.window_events_from = heading.checkpoint
    return DecodedState(heading, state)


def _read_frame(state: State, frame: Frame) -> None:
    match frame:
        case KeysFrame() | ExpiringKeysFrame() | SigningKeysFrame():
            _read_keys(state, frame)
        case BoardFrame():
            state.boards[frame.name] = _read_page(frame)
        case NotedWrongTimes(stretches):
            state.wrong_times = stretches
        case CorrectionsFrame() | RefusedFrame() | UsedRunsFrame() | ErasedFrame():
            _read_corrections(state, frame)
        case ReviewsFrame() | HeldFrame():
            _read_reviews(state.reviews, frame)
        case LivingScoresFrame(scores, ends):
            state.living.extend(scores, ends)
        case WebhooksFrame(webhooks, lease, events, events_from, deliveries):
            state.deliveries = deliveries
            state.webhooks = {one.name: one for one in webhooks}
            state.webhook_lease, state.window_events = lease, events
            state.window_events_from = events_from
        case RewardsFrame(board, window, rewards):
            state.rewards[board, window] = (*state.rewards.get((board, window), ()), *rewards)
        case AttemptsFrame(board, window, players):
            state.attempts.extend(board, window, players)
        case VisibilityFrame(not_public):
            state.visibility |= not_public
        case ProfilesFrame() | FriendsFrame():
            _read_profiles(state, frame)


def _read_keys(state: State, noted: KeysFrame | ExpiringKeysFrame | SigningKeysFrame) -> None:
    if isinstance(noted, SigningKeysFrame):
        state.signing_keys = {key.id: key for key in noted.keys}
        return
    state.keys |= {key.digest: key for key in noted.keys}
    if isinstance(noted, KeysFrame):
        state.locked = noted.locked
        state.keys_created, state.keys_used = noted.created, noted.used


def _read_used_runs(state: State, noted: UsedRunsFrame) -> None:
    used = state.used_runs
    used.forgotten, used.void_before, used.void_hour, runs = msgspec.structs.astuple(noted)
    used.extend(runs)


def _read_profiles(state: State, noted: ProfilesFrame | FriendsFrame) -> None:
    if isinstance(noted, FriendsFrame):
        for id, several in noted.friends:
            state.profiles[id] = state.profile(id)._replace(friends=several)
        return
    if noted.audit is not None:
        state.audit.extend(noted.audit)
    state.profiles |= {id: Profile.of(name, known) for id, name, known in noted.profiles}
    state.names |= {id: name for id, name, _ in noted.profiles if name is not None}
    living = {page.since for page in state.boards.values()} if noted.player_boards else ()
    state.player_boards.update(noted.player_boards, living)


def _read_corrections(
    state: State, noted: CorrectionsFrame | RefusedFrame | UsedRunsFrame | ErasedFrame
) -> None:
    if isinstance(noted, ErasedFrame):
        state.erased, state.unredacted = noted.erased, noted.unredacted
        state.redacted_at = noted.redacted_at
        return
    if isinstance(noted, RefusedFrame):
        state.refused.extend(noted.positions)
        return
    if isinstance(noted, UsedRunsFrame):
        _read_used_runs(state, noted)
        return
    state.retractions = {at: Retraction(at, fact, undone) for at, fact, undone in noted.retractions}
    state.player_states = noted.player_states
    timed = (
        player
        for player, several in noted.player_states.items()
        if any(one.until for one in several)
    )
    state.players_timed = dict.fromkeys(timed)
    state.editions = {(board, window): at for board, window, at in noted.editions}
    state.last_correction, state.restored = noted.last_correction, dict(noted.restored)


def _read_reviews(reviews: Reviews, noted: ReviewsFrame | HeldFrame) -> None:
    if isinstance(noted, HeldFrame):
        reviews.held.extend(noted.positions)
        return
    reviews.listed = {review.position: review for review in noted.listed}
    decisions = ((at, Decision(*one)) for at, one in noted.decisions)
    reviews.decisions = dict(decisions)


def _read_rules(state: State, saved: Mapping[str, bytearray]) -> None:
    """Load the state of the rules of each board. Raises SnapshotDamaged."""
    for name, page in state.boards.items():
        if page.board.rules_in_force:
            rules = state.reviews.rules[name] = rule_state(page.board)
            try:
                rules.load(bytes(saved.get(name, b"")))
            except ValueError as exc:
                raise SnapshotDamaged(f"the rules of a board cannot be read: {exc}") from exc


def _read_page(noted: BoardFrame) -> BoardState:
    page = BoardState(Board.define(noted.name, noted.definition), noted.since)
    page.defined_at, page.traced = noted.defined_at, noted.traced
    page.corrected_at = noted.corrected_at
    page.earlier = [(at, Board.define(noted.name, before)) for at, before in noted.earlier]
    windows: list[OpenedWindow] = [page.opened(window) for window in noted.windows]
    page.windows = {opened.window.name: opened for opened in windows}
    prepared = [page.opened(window) for window in noted.prepared]
    page.prepared = {opened.window.name: opened for opened in prepared}
    for one in noted.sealed:
        window = Window(one.name, one.window, one.start, one.end)
        terms = page.terms
        if one.definition != noted.definition:
            terms = Terms(Board.define(noted.name, one.definition))
        ranking = Ranking(noted.name, one.window)
        page.sealed[one.window] = SealedWindow(
            window,
            ranking,
            terms,
            one.through,
            one.at,
            one.state,
            one.through if one.sealed is None else one.sealed,
            one.reason,
            one.closed,
            one.settled,
        )
    return page
