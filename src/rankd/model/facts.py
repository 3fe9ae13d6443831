"""Facts: the records of the ledger, their versions, and their bytes.

A fact is written once and read for ever, by programs not yet written. Three things follow.

*A fact records a request, not its outcome.* A submission is recorded before it is judged; verdicts,
ranks and standings are folded from facts and can be thrown away.

*Its bytes never change meaning.* A kind is a name and a version, ``score_submitted.1``, kept
beside the body. The body is a MessagePack array of the fields in the order written here: no
field names, so a plain submission takes some thirty bytes. So the order of fields is part of
the format. It is pinned by golden bytes in the tests.

*Old facts are read as if they were new.* How a kind grows:

- A field that an older reader may safely ignore goes last, with a default: same version. Old
  bytes, being shorter, decode to the default.
- Any other change is a new version. Change the class and its ``kind``, and add an upcaster from
  the old kind: a function from the old list of fields to the new one. Upcasters chain, so each
  is written once, against the version that followed its own, and never touched again.
- A new kind is a new class, listed in ``FACTS`` at the end of this file.

A class declares everything that ledgers need to know of its kind: the identity under which it is
taken once, its fingerprint, its effect on a player's profile. So no ledger asks for a class. The
effects of a kind on state and rankings are handlers, registered in ``rankd.core``.

Times are ``Instant``: whole microseconds since 1970, UTC, which every store can keep and compare
without a library for dates.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from operator import attrgetter
from typing import Any, ClassVar, Literal, NamedTuple, NewType, Self, TypeGuard

import msgspec

from rankd.errors import UnknownFact, UnreadableFact
from rankd.model.window import Instant

Position = NewType("Position", int)
"""A fact's place in the ledger's one order. Grows, never repeats; the first is 1."""

Attributes = dict[str, str | int | bool]
"""Attributes of a player: region, level, platform. Segments rank players by them."""

FINGERPRINT_BYTES = 16
"""Wide enough that no two bodies under one key will ever agree by chance."""


class RequestOrigin(NamedTuple):
    """The request that a change came with."""

    request_id: str | None
    address: str | None = None
    """The client's address; None where addresses are not recorded."""


class Identity(NamedTuple):
    """A board and a key under which the board takes a fact only once."""

    board: str
    key: str


SHARED_ATTRIBUTES_MAX = 16_384
"""Attributes of which one object serves all players. Games have few: regions and platforms."""


def shared_attributes(attributes: Attributes) -> Attributes:
    """Return one object for all attributes of text that are equal, others as they are.

    So they are stored once, and most are compared by identity. They must not be changed.
    """
    return attributes if _has_others(attributes) else _share(tuple(attributes.items())).attributes


def _has_others(attributes: Attributes) -> bool:
    """Whether a value is not text: True equals 1."""
    return any(type(value) is not str for value in attributes.values())


class Profile(NamedTuple):
    """A player's display name, attributes to rank by, and friends."""

    name: str | None
    attributes: Attributes
    friends: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, name: str | None, attributes: Attributes, friends: tuple[str, ...] = ()
    ) -> "Profile":
        """Return a profile, of which one object may serve all players with the same attributes."""
        if name is None and not friends and not _has_others(attributes):
            return _share(tuple(attributes.items()))
        return cls(name, shared_attributes(attributes), friends)


@lru_cache(maxsize=SHARED_ATTRIBUTES_MAX)
def _share(items: tuple[tuple[str, str | int | bool], ...]) -> Profile:
    return Profile(None, dict(items))


NO_PROFILE = Profile(None, {})
"""The profile of most players."""


class ProfileChange(NamedTuple):
    """The effect of a fact on its player's profile. Fields that it leaves out stay."""

    player: str
    names: bool = False
    """Whether ``name`` replaces the name."""
    name: str | None = None
    attributes: Attributes | None = None
    merges: bool = False
    """Whether other attributes stay beside ``attributes``."""
    friends: tuple[str, ...] | None = None
    erases: bool = False
    """Whether nothing is left of the profile."""

    def applied(self, profile: Profile | None) -> Profile | None:
        """Return the profile after the change, of the one before it; None for none."""
        if self.erases:
            return None
        name, attributes, friends = NO_PROFILE if profile is None else profile
        if self.names:
            name = self.name
        if self.attributes is not None:
            attributes = {**attributes, **self.attributes} if self.merges else self.attributes
        if self.friends is not None:
            friends = self.friends
        return Profile.of(name, attributes, friends)

    def attributes_after(self, known: Attributes) -> Attributes:
        """Return the attributes after the change, of those before it."""
        profile = self.applied(Profile(None, known))
        return {} if profile is None else profile.attributes


class Fact(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Something that happened. Immutable, as the past is."""

    kind: ClassVar[str]
    about_player: ClassVar[bool] = False
    """Whether it leaves boards, windows and keys as they are."""
    correction: ClassVar[bool] = False
    """Whether it is a person's decision that changes the effect of earlier facts or of players."""
    numerous: ClassVar[bool] = False
    """Whether there may be as many as scores or players: no index of the audit trail has them."""
    hidden: ClassVar[frozenset[str]] = frozenset()
    """Fields of which the audit trail shows the first characters only."""
    personal: ClassVar[Mapping[str, Any]] = {}
    """Fields with data of the player that no rank follows from, and their values once erased."""

    def identity(self) -> Identity | None:
        """Return the board and key under which it is taken once; None if it may repeat."""
        return None

    def fingerprint(self) -> bytes:
        """Return a digest of its body, to tell two bodies under one key apart.

        Empty if its identity says all of it.
        """
        return b""

    def fingerprints(self) -> tuple[bytes, ...]:
        """Return every fingerprint that a ledger may keep of this body, today's first."""
        return (self.fingerprint(),)

    def profile_change(self) -> ProfileChange | None:
        """Return its effect on a player's profile; None if it has none."""
        return None

    def redacted(self) -> Self:
        """Return it without personal data; itself if it has none."""
        if all(getattr(self, name) == left for name, left in self.personal.items()):
            return self
        return msgspec.structs.replace(self, **self.personal)

    def corrects(self, board: str) -> bool:
        """Whether it is a correction that concerns a board."""
        return self.correction and getattr(self, "board", None) in (None, board)

    def requested_by(self, origin: RequestOrigin) -> Self:
        """Return it with the request that it came with; itself if its kind does not tell."""
        return self

    def is_about(self, player: str, board: str | None = None) -> bool:
        """Whether its ``player`` is this one and, if a board is given, its ``board`` that one."""
        return getattr(self, "player", None) == player and (
            board is None or getattr(self, "board", None) == board
        )


class AuditedFact(Fact, frozen=True, kw_only=True):
    """A change of other things than scores, with the request that it came with.

    Its two fields are the last of each kind, behind those of the class; a field that is added to
    such a kind later has to be ``kw_only`` as well, to come behind them.
    """

    request_id: str | None = None
    address: str | None = None
    """The client's address, as rate limits see it; absent where addresses are not recorded."""

    def requested_by(self, origin: RequestOrigin) -> Self:
        """Return it with the request that it came with."""
        return msgspec.structs.replace(self, request_id=origin.request_id, address=origin.address)


# ------------------------------------------------------------------------------- kinds


class ScoreSubmitted(Fact, frozen=True):
    """A request that a score be counted. The fold decides whether it counts.

    Scores are whole numbers in the unit of the definition it was read under. Exactly one of
    ``scores`` and ``delta`` is given.
    """

    kind = "score_submitted.1"
    numerous = True
    personal: ClassVar[Mapping[str, Any]] = {"metadata": None, "attributes": None, "at": None}
    overrides: ClassVar[bool] = False
    """Whether it sets or shifts the entry under any rule of the board."""

    board: str
    player: str
    scores: tuple[int, ...] | None = None
    """One for each of the board's columns."""
    delta: int | None = None
    """Added to the first column."""
    key: str | None = None
    metadata: bytes | None = None
    """JSON, kept as bytes because nothing between the client and the reader looks inside."""
    attributes: Attributes | None = None
    """The player's attributes as the game saw them at the time."""
    build: str | None = None
    at: Instant | None = None
    """When the client says it happened. Stored as data; the position alone decides which entry was
    first."""
    run: str | None = None
    """The id of the run it ends (``model/runs``); the fold sees to it that one is used once."""
    actor: str | None = None
    """Who wrote it: the name of a key, never the key."""
    defined: Position | None = None
    """Where the definition came into force that it was read under; None if no other can be in force
    at its own position. A node may append before it has read another node's definition."""

    def identity(self) -> Identity | None:
        """Return the board and the client's key, if there is one."""
        return None if self.key is None else Identity(self.board, self.key)

    def fingerprint(self) -> bytes:
        """Return a digest of the body.

        Absent fields leave no trace, so a field added in later years does not change the
        fingerprint of the bodies before it. The client's time is left out: it is data which decides
        nothing, and many a client stamps each try anew.
        """
        return _fingerprint(self if self.at is None else msgspec.structs.replace(self, at=None))

    def fingerprints(self) -> tuple[bytes, ...]:
        """Return today's fingerprint, and that of older versions, which included the time."""
        today = self.fingerprint()
        return (today,) if self.at is None else (today, _fingerprint(self))

    def profile_change(self) -> ProfileChange | None:
        """Merge the attributes into those that are known."""
        if not self.attributes:
            return None
        return ProfileChange(self.player, attributes=self.attributes, merges=True)


class ScoreAdjusted(ScoreSubmitted, frozen=True):
    """A correction of a player's entry in every open window: another score, or a difference.

    It counts under any rule of the board, and no rule against cheating looks at it.
    """

    kind = "score_adjusted.1"
    correction = True
    numerous = False
    overrides = True

    reason: str | None = None
    request_id: str | None = None
    """As AuditedFact has it."""
    address: str | None = None

    def requested_by(self, origin: RequestOrigin) -> Self:
        """Return it with the request that it came with."""
        return msgspec.structs.replace(self, request_id=origin.request_id, address=origin.address)

    def fingerprint(self) -> bytes:
        """Return a digest of the body, another one than that of a submission with the same body."""
        return blake2b(super().fingerprint(), person=b"adjusted", digest_size=16).digest()

    def fingerprints(self) -> tuple[bytes, ...]:
        """Return today's fingerprint."""
        return (self.fingerprint(),)


class ExpiringScoreSubmitted(ScoreSubmitted, frozen=True):
    """A submission whose effect ends after a time.

    A version of its own: a reader that ignored the field would count it for ever.
    """

    kind = "score_submitted.2"

    lives: int = 0
    """Microseconds from the time of this fact on."""

    def fingerprint(self) -> bytes:
        """Return a digest of the body and the term."""
        digest = super().fingerprint() + self.lives.to_bytes(8, "big")
        return blake2b(digest, person=b"expiring", digest_size=FINGERPRINT_BYTES).digest()

    def fingerprints(self) -> tuple[bytes, ...]:
        """Return today's fingerprint."""
        return (self.fingerprint(),)


class ScoresExpired(Fact, frozen=True):
    """The terms of some submissions of a player are over: they count no more from here on.

    Closed windows stay as they closed. Without effect on those that had ended before.
    """

    kind = "scores_expired.1"
    numerous = True

    board: str
    player: str
    positions: tuple[Position, ...]


class MetadataSet(AuditedFact, frozen=True):
    """The metadata of a player's entries in the open windows are these, without another score."""

    kind = "metadata_set.1"
    numerous = True
    personal = {"metadata": None, "address": None}

    board: str
    player: str
    metadata: bytes | None = None
    """JSON; absent to remove it."""
    actor: str | None = None


class Edition(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A closed window whose standings a correction changes: the next edition of it."""

    board: str
    window: str


class ScoresRetracted(AuditedFact, frozen=True):
    """Submissions count no more, as if they had never been made.

    Those recorded before this fact to which every given condition applies.
    """

    kind = "scores_retracted.1"
    correction = True

    board: str | None = None
    """Absent for every board."""
    player: str | None = None
    positions: tuple[Position, ...] = ()
    build: str | None = None
    first: Position | None = None
    last: Position | None = None
    """A range of positions, which a range of time was turned into."""
    actor: str | None = None
    reason: str | None = None
    editions: tuple[Edition, ...] = ()
    """The closed windows that it changes."""
    players: tuple[str, ...] = ()
    """Several players, in order; ``player`` is absent then."""

    @property
    def is_broad(self) -> bool:
        """Whether it may concern any player: it names neither players nor positions."""
        return self.player is None and not self.players and not self.positions

    def names(self, player: str) -> bool:
        """Whether submissions of a player may be among those retracted."""
        named = self.player is None or player == self.player
        return named and (not self.players or player in self.players)

    def selects(self, recorded: "Recorded") -> bool:
        """Whether a submission before this fact is one of those retracted."""
        fact, position = recorded.fact, recorded.position
        return (
            isinstance(fact, ScoreSubmitted)
            and (self.board is None or fact.board == self.board)
            and self.names(fact.player)
            and (not self.positions or position in self.positions)
            and (self.build is None or fact.build == self.build)
            and (self.first is None or self.first <= position)
            and (self.last is None or position <= self.last)
        )


class RetractionUndone(AuditedFact, frozen=True):
    """A retraction is taken back: its submissions count again."""

    kind = "retraction_undone.1"
    correction = True

    board: str | None
    """That of the retraction."""
    retraction: Position
    player: str | None = None
    """That of the retraction."""
    actor: str | None = None
    reason: str | None = None
    editions: tuple[Edition, ...] = ()
    """The closed windows that it changes."""


class ReviewDecided(AuditedFact, frozen=True):
    """A held submission counts at its own position from here on, or never will.

    A flagged one, which counts, is only marked as looked at.
    """

    kind = "review_decided.1"
    correction = True

    board: str
    player: str
    submission: Position
    approved: bool
    actor: str | None = None
    reason: str | None = None
    editions: tuple[Edition, ...] = ()
    """The closed windows that it changes."""


PlayerStanding = Literal["active", "banned", "hidden", "shadowed"]
"""How a player takes part: ranked; or not ranked and refused; or not ranked and counted unseen; or
the same, while the player itself sees a world in which it is ranked."""


class PlayerStateSet(AuditedFact, frozen=True):
    """A player is banned, hidden, shadowed, or active again; on some boards or on all of them."""

    kind = "player_state_set.1"
    correction = True

    player: str
    state: PlayerStanding
    boards: tuple[str, ...] | None = None
    """Absent for every board, present and future."""
    until: Instant | None = None
    """When it ends by itself: by another fact, once this time has come."""
    ends: Position | None = None
    """The state whose time is over, in the fact that ends it; without effect once there is another.
    """
    actor: str | None = None
    reason: str | None = None

    def corrects(self, board: str) -> bool:
        """Whether the state is for all boards, or for this one among others."""
        return self.boards is None or board in self.boards


class OpenWindow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A window that counts scores: its id and its time, as WindowOpened has them."""

    window: str
    start: Instant | None = None
    end: Instant | None = None


class BoardDefined(AuditedFact, frozen=True):
    """A board exists from here on, or from here on means something else."""

    kind = "board_defined.1"
    refusals_final: ClassVar[bool] = False
    """Whether submissions that were refused before it stay refused."""

    board: str
    definition: dict[str, Any]
    """The canonical definition with every default written out: a later default changes no past."""
    actor: str | None = None
    windows: tuple[OpenWindow, ...] = ()
    """The windows that count from here on, in the order of the definition: those that were open
    and go on, and those that open with it."""


class BoardRedefined(BoardDefined, frozen=True, kw_only=True):
    """A new definition of a board, under which earlier refusals stay in force.

    A version of its own, and no field: a second ``board_defined.1`` of a board, as older ledgers
    have it, counts refused submissions in the windows it folds again, and goes on to do so.
    """

    kind = "board_defined.2"
    refusals_final = True

    opened: tuple[str, ...] = ()
    """The ids of those of its windows that open with it."""
    closed: tuple[str, ...] = ()
    """The ids of the windows that it closes."""


class BoardRelearned(BoardRedefined, frozen=True, kw_only=True):
    """A new definition whose rules know of the submissions before it.

    A version of its own, and no field: under an older one new rules begin without the past.
    """

    kind = "board_defined.3"


class BoardRetired(AuditedFact, frozen=True):
    """A board takes no more submissions and is listed no more."""

    kind = "board_retired.1"

    board: str
    actor: str | None = None
    reason: str | None = None


class BoardExpired(BoardRetired, frozen=True):
    """A board is retired because the time came that its definition names. Recorded once.

    A version of its own: it has no effect once the board is defined otherwise.
    """

    kind = "board_retired.2"

    since: Position = Position(0)
    """Where that definition was recorded."""

    def identity(self) -> Identity | None:
        """Return a key for the definition."""
        return Identity(self.board, f"{_OURS}board_expired:{self.since}")


class WindowFact(Fact, frozen=True):
    """A step in the life of one window. Two managers that wake together record it once."""

    def identity(self) -> Identity | None:
        """Return a key for each window of a definition."""
        board, window, since = _turn_of(self)
        return Identity(board, f"{_OURS}{self.kind.partition('.')[0]}:{window}:{since}")


_OURS = "\x1f"  # A client's key holds no control character, so no client can take one of ours.
_turn_of = attrgetter("board", "window", "since")


class WindowOpened(WindowFact, frozen=True):
    """A window of a board counts scores from here on."""

    kind = "window_opened.1"

    board: str
    window: str
    """The window's id, such as ``daily:2026-11-14``."""
    start: Instant | None = None
    """The first instant in it; absent for a window that was always open."""
    end: Instant | None = None
    """The first instant no longer in it; absent for a window that never ends."""
    since: Position = Position(0)
    """Where the definition in force was recorded: under another, the same id may turn again."""


class WindowPrepared(WindowFact, frozen=True):
    """The coming window of a rolling recurrence, folded from the ledger, counts scores unseen.

    It takes the place of the open one by its ``WindowOpened``.
    """

    kind = "window_prepared.1"

    board: str
    window: str
    start: Instant | None = None
    end: Instant | None = None
    since: Position = Position(0)
    """As WindowOpened has it."""


class WindowSealed(WindowFact, AuditedFact, frozen=True):
    """A window of a board is closed for good: the standings before this position are final."""

    kind = "window_sealed.1"

    board: str
    window: str
    actor: str | None = None
    """Set when an operator sealed it early; absent when its time was over."""
    reason: str | None = None
    since: Position = Position(0)
    """As WindowOpened has it."""


class WindowDropped(WindowFact, frozen=True):
    """A closed window is kept no longer: its time of retention is over."""

    kind = "window_dropped.1"

    board: str
    window: str
    since: Position = Position(0)
    """As WindowOpened has it."""


class WindowEnded(WindowFact, frozen=True):
    """The time of a window is over and its grace begins: no later submission is in it."""

    kind = "window_ended.1"

    board: str
    window: str
    since: Position = Position(0)
    """As WindowOpened has it."""


class WindowFrozen(WindowFact, AuditedFact, frozen=True):
    """A window takes no more scores, though its time is not over."""

    kind = "window_frozen.1"

    board: str
    window: str
    start: Instant | None = None
    end: Instant | None = None
    actor: str | None = None
    reason: str | None = None
    since: Position = Position(0)
    """As WindowOpened has it."""


class SettledStandings(WindowFact, AuditedFact, frozen=True):
    """The fields of WindowSettled before those of rewards."""

    board: str
    window: str
    edition: int = 1
    first: Position = Position(0)
    """The first position whose facts may be in the window."""
    last: Position = Position(0)
    """The last position that these standings depend on: of the append before this fact."""
    chain: bytes = b""
    """The ledger's hash chain there."""
    submissions: int = 0
    """Recorded for the board from ``first`` until the window was closed."""
    players: int = 0
    standings: bytes = b""
    """The digest of all standings, see ``model.certificate``."""
    actor: str | None = None
    reason: str | None = None
    since: Position = Position(0)
    """As WindowOpened has it."""

    def identity(self) -> Identity | None:
        """Return a key for each edition of each window of a definition."""
        key = f"{_OURS}window_settled:{self.window}:{self.since}:{self.edition}"
        return Identity(self.board, key)


class WindowSettled(SettledStandings, frozen=True, kw_only=True):
    """The standings of a closed window are final, as an operator has declared them.

    A correction of them makes another edition, which may be settled again.
    """

    kind = "window_settled.1"

    rewards: int = 0
    """How many are in force from here on."""
    rewards_digest: bytes = b""
    """The digest of these, see ``model.certificate``."""


class RewardsGiven(WindowFact, frozen=True):
    """Players get one gift each: those of one band of a settled window, or some of them.

    Recorded in the append of WindowSettled, behind it. A reward's id is made of the position of
    this fact and the place of the player in it, counted from 0.
    """

    kind = "rewards_given.1"
    about_player = True

    board: str
    window: str
    edition: int
    """That of the settlement."""
    number: int
    """The place of this fact among those of the settlement, counted from 0."""
    band: int
    """The place of the band in the definition, counted from 0."""
    players: tuple[str, ...]
    ranks: tuple[int, ...]
    give: bytes | None = None
    """JSON; absent if the band has an amount only."""
    amounts: tuple[int, ...] = ()
    """For each player, in the smallest unit; empty if the band has no amount."""
    decimals: int = 0
    """Of the amounts."""
    since: Position = Position(0)
    """As WindowOpened has it."""

    def identity(self) -> Identity | None:
        """Return a key for each part of each settlement."""
        place = f"{self.window}:{self.since}:{self.edition}:{self.number}"
        return Identity(self.board, f"{_OURS}rewards_given:{place}")


class RewardsWithdrawn(WindowFact, frozen=True):
    """Rewards of an earlier settlement are void: another edition was settled that gives none.

    Recorded in the append of WindowSettled, behind it.
    """

    kind = "rewards_withdrawn.1"
    about_player = True

    board: str
    window: str
    edition: int
    """That of the settlement."""
    given: Position
    """Where they were given."""
    rows: tuple[int, ...]
    """Their places there, counted from 0."""
    since: Position = Position(0)
    """As WindowOpened has it."""

    def identity(self) -> Identity | None:
        """Return a key for each fact that gave rewards and each settlement."""
        place = f"{self.window}:{self.since}:{self.edition}:{self.given}"
        return Identity(self.board, f"{_OURS}rewards_withdrawn:{place}")


class RewardClaimed(AuditedFact, frozen=True):
    """A reward was handed out. Without effect where it was withdrawn before."""

    kind = "reward_claimed.1"
    about_player = True
    numerous = True
    personal: ClassVar[Mapping[str, Any]] = {"address": None}

    board: str
    player: str
    window: str
    given: Position
    row: int
    actor: str | None = None

    def identity(self) -> Identity | None:
        """Return a key for each reward."""
        return Identity(self.board, f"{_OURS}reward_claimed:{self.given}:{self.row}")


class WrongTime(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A stretch of the ledger that was recorded while the time was ahead, and its right time."""

    first: Position
    last: Position
    ahead: int
    """How far, in microseconds."""
    earliest: Instant
    """The right time of the last fact before the stretch."""
    latest: Instant
    """The right time at its end."""

    def right(self, at: Instant) -> Instant:
        """Return the time at which a fact of the stretch counts."""
        return max(self.earliest, min(at - self.ahead, self.latest))


class TimeCorrected(AuditedFact, frozen=True):
    """The time was wrong from a position on, and is right from here on.

    The one fact at which the ledger's time may go back: to the time of the append that begins
    with it.
    """

    kind = "time_corrected.1"

    wrong: WrongTime
    actor: str | None = None
    reason: str | None = None


class ClosedWindow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A closed window: its id and its time, and where and when it closed."""

    window: str
    start: Instant | None
    end: Instant | None
    through: Position
    at: Instant


class WindowsCorrected(AuditedFact, frozen=True):
    """A board's windows are from here on as they would be had the time been right.

    Rollovers by the wrong time count no longer. Windows that are neither ``kept`` nor closed
    unchanged are folded again from the ledger, by the right time of each fact.
    """

    kind = "windows_corrected.1"

    board: str
    since: Position
    """The first position with a wrong time."""
    time: Instant
    """The right time up to which turns are in this fact; later ones are facts of their own."""
    windows: tuple[OpenWindow, ...]
    """The windows that count from here on, in the order of the definition."""
    kept: tuple[str, ...] = ()
    """The ids of those whose entries stay as they are."""
    closed: tuple[ClosedWindow, ...] = ()
    """The closed windows that were missing, or had closed elsewhere."""
    removed: tuple[str, ...] = ()
    """The ids of closed windows that there never were."""
    actor: str | None = None


class PlayerProfiled(AuditedFact, frozen=True):
    """The whole profile of a player: fields absent here are removed."""

    kind = "player_profiled.1"
    numerous = True
    about_player = True
    personal: ClassVar[Mapping[str, Any]] = {
        "name": None,
        "attributes": None,
        "address": None,
    }

    player: str
    name: str | None = None
    attributes: Attributes | None = None
    actor: str | None = None

    def profile_change(self) -> ProfileChange | None:
        """Replace name and attributes."""
        attributes = self.attributes or {}
        return ProfileChange(self.player, names=True, name=self.name, attributes=attributes)


class AttributesSet(PlayerProfiled, frozen=True):
    """A player's attributes are now these and no others. Its name stays, and is absent here."""

    kind = "attributes_set.1"

    def profile_change(self) -> ProfileChange | None:
        """Replace the attributes."""
        return ProfileChange(self.player, attributes=self.attributes or {})


class NameSet(AuditedFact, frozen=True):
    """A player is called this now, or nothing if it is absent. Its attributes stay."""

    kind = "name_set.1"
    numerous = True
    about_player = True
    personal = {"name": None, "address": None}

    player: str
    name: str | None = None
    actor: str | None = None

    def profile_change(self) -> ProfileChange | None:
        """Replace the name."""
        return ProfileChange(self.player, names=True, name=self.name)


class FriendsSet(AuditedFact, frozen=True):
    """A player's friends are now these and no others."""

    kind = "friends_set.1"
    numerous = True
    about_player = True
    personal = {"friends": (), "address": None}

    player: str
    friends: tuple[str, ...]
    actor: str | None = None

    def profile_change(self) -> ProfileChange | None:
        """Replace the friends."""
        return ProfileChange(self.player, friends=self.friends)


Visibility = Literal["public", "friends", "anonymous"]
"""Which readers are shown a player's id, name and data beside its score: all; the player and its
friends; or the player alone."""


class VisibilitySet(AuditedFact, frozen=True):
    """A player's visibility is now this. Its ranks and those of others stay."""

    kind = "visibility_set.1"
    numerous = True
    personal = {"visibility": "public", "address": None}

    player: str
    visibility: Visibility = "public"
    actor: str | None = None


class PlayerErased(AuditedFact, frozen=True):
    """A person asked to be forgotten: profile and friends go, the entry stays without a name.

    As older ledgers have it: metadata stays, and so do closed windows and the facts before it.
    The address is not recorded: it may be the person's.
    """

    kind = "player_erased.1"
    about_player = True

    player: str
    actor: str | None = None
    reason: str | None = None

    def requested_by(self, origin: RequestOrigin) -> Self:
        """Return it with the id of its request."""
        return msgspec.structs.replace(self, request_id=origin.request_id)

    def profile_change(self) -> ProfileChange | None:
        """Remove the whole profile."""
        return ProfileChange(self.player, erases=True)


class RedactedPart(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A part of the ledger with one link, whose facts were redacted."""

    last: Position
    """Of its last fact."""
    link: bytes
    """Its link in the hash chain, which is made over the facts as they were."""
    digest: bytes
    """Over the link before it, its own, and the facts as they are now."""


class FactsRedacted(Fact, frozen=True):
    """Personal data of an erased player is no longer in earlier facts of the ledger.

    The facts about the player up to a position, in some parts of the ledger, have been replaced by
    ``redacted`` ones. ``verify`` accepts that those parts differ from their links, and only if they
    are as told here.
    """

    kind = "facts_redacted.1"
    about_player = True

    player: str
    through: Position
    """Where the player was erased."""
    parts: tuple[RedactedPart, ...] = ()
    complete: bool = False
    """Whether no fact of the player up to there has personal data any more."""
    actor: str | None = None


class PersonErased(PlayerErased, frozen=True):
    """A person's data goes from all entries and windows as well, and from the facts before it.

    A version of its own, since an index that was folded by an older version has other entries.
    """

    kind = "player_erased.2"


class KeyCreated(AuditedFact, frozen=True):
    """A key, which permits its holder the operations of its scopes."""

    kind = "key_created.1"
    hidden = frozenset({"digest"})

    id: str
    """The key's id in answers, logs and facts."""
    digest: bytes
    """SHA-256 of the key; the key itself is kept nowhere."""
    scopes: tuple[str, ...]
    boards: tuple[str, ...] | None = None
    """The boards it is for; absent for all."""
    title: str | None = None
    actor: str | None = None

    @property
    def expiry(self) -> Instant | None:
        """When it expires; None if it does not."""
        return None


class ExpiringKeyCreated(KeyCreated, frozen=True):
    """A key that opens nothing from a time on.

    A version of its own: a reader that ignored the field would accept the key after its expiry.
    """

    kind = "key_created.2"

    expires: Instant | None = None

    @property
    def expiry(self) -> Instant | None:
        """When it expires; None if it does not."""
        return self.expires


class KeysUsed(Fact, frozen=True):
    """Keys were shown, each last at a time. Recorded now and then, not for each request."""

    kind = "keys_used.1"

    used: dict[str, Instant]
    """By the ids of the keys."""


class KeyRevoked(AuditedFact, frozen=True):
    """A key opens nothing any more."""

    kind = "key_revoked.1"

    id: str
    actor: str | None = None


SigningAlgorithm = Literal["hmac", "ed25519", "run", "webhook"]
"""The two of signed requests; ``run``, by which the service signs the runs that it starts; and
``webhook``, by which it signs the requests that it makes."""


class SigningKeyCreated(AuditedFact, frozen=True):
    """A key by which requests, or runs, are signed from here on."""

    kind = "signing_key_created.1"
    hidden = frozenset({"material"})

    id: str
    """The key's id in signatures, answers, logs and facts."""
    algorithm: SigningAlgorithm
    material: bytes
    """The public key of ed25519. The secret of the others: to check a signature takes all of it."""
    boards: tuple[str, ...] | None = None
    """The boards it is for; absent for all."""
    title: str | None = None
    actor: str | None = None
    expires: Instant | None = None


class WebhookSet(AuditedFact, frozen=True):
    """Events of boards are posted to an address from here on; or to another one than before."""

    kind = "webhook_set.1"
    about_player = True
    hidden = frozenset({"secret"})

    name: str
    url: str
    events: tuple[str, ...]
    boards: tuple[str, ...] | None = None
    """Absent for every board, present and future."""
    secret: bytes | None = None
    """By which messages are signed. A webhook that is there keeps the one that it has."""
    actor: str | None = None


class WebhookRemoved(AuditedFact, frozen=True):
    """Nothing is posted for a webhook any more."""

    kind = "webhook_removed.1"
    about_player = True

    name: str
    actor: str | None = None


class WebhookRewound(AuditedFact, frozen=True):
    """The events after a position are posted again, and those that were given up."""

    kind = "webhook_rewound.1"
    about_player = True

    name: str
    after: Position
    actor: str | None = None


class WebhookProgress(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How far the events of a webhook were delivered."""

    changed: Position
    """Where the webhook was set or rewound last: after another change this has no effect."""
    cursor: Position
    """Every event up to here was delivered."""
    failing_since: Instant | None = None
    stopped: bool = False
    """Whether the event after the cursor was given up, with all that follow."""
    part: tuple[Position, int] = (Position(0), 0)
    """A position behind the cursor, and how many of its events were delivered."""


DeliveryState = Literal["delivered", "retrying", "stopped"]


class DeliveryRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The last try to deliver an event to a webhook."""

    position: Position
    """Of the event."""
    event: str
    board: str
    row: int | None
    """The place of the event among those of its fact; None if that has no other."""
    state: DeliveryState
    attempts: int
    status: int | None
    """The status of the answer; None if there was none."""
    problem: str | None
    tried_at: Instant
    next_try: Instant | None


class WebhooksSent(Fact, frozen=True):
    """How far a node delivered events. Recorded now and then, not for each event.

    It has no effect while another node has the lease.
    """

    kind = "webhooks_sent.1"
    about_player = True

    node: str
    until: Instant
    """The end of the node's lease."""
    progress: dict[str, WebhookProgress] = {}
    """By the names of the webhooks."""
    deliveries: dict[str, tuple[DeliveryRecord, ...]] = {}
    """The last tries since the fact before, by the names of the webhooks: other nodes list them."""


class Recorded(msgspec.Struct, frozen=True, gc=False):
    """A fact in its place: where the ledger put it, and when by the ledger's clock."""

    position: Position
    at: Instant
    fact: Fact


def corrects_time(facts: Sequence[Fact]) -> bool:
    """Whether an append of these facts may have an earlier time than the one before it."""
    return bool(facts) and type(facts[0]) is TimeCorrected


def right_time(recorded: Recorded, stretches: Sequence[WrongTime]) -> Instant:
    """Return when a fact happened; of stretches that overlap, the last to be corrected tells."""
    for stretch in reversed(stretches):
        if stretch.first <= recorded.position <= stretch.last:
            return stretch.right(recorded.at)
    return recorded.at


def as_erased(facts: Sequence[Recorded], erased: Mapping[str, Position]) -> Sequence[Recorded]:
    """Return facts without the personal data of players that were erased after them.

    ``erased`` tells by player where. The ledger has them so once they are redacted.
    """
    if not erased:
        return facts
    return [
        msgspec.structs.replace(recorded, fact=recorded.fact.redacted())
        if recorded.fact.personal and recorded.position <= erased.get(recorded.fact.player, 0)  # type: ignore[attr-defined]
        else recorded
        for recorded in facts
    ]


def is_submission(fact: Fact) -> TypeGuard[ScoreSubmitted]:
    """Whether a fact asks for a score to be counted. Such facts have receipts."""
    return isinstance(fact, ScoreSubmitted)


def is_audited(fact: Fact) -> TypeGuard[AuditedFact | ScoreAdjusted]:
    """Whether a fact of its kind has the request that it came with as its last two fields."""
    return isinstance(fact, AuditedFact | ScoreAdjusted)


def is_definition(fact: Fact) -> TypeGuard[BoardDefined]:
    """Whether a fact defines its board, for the first time or anew."""
    return isinstance(fact, BoardDefined)


# ------------------------------------------------------------------------- fingerprints


class _Body(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The part of a submission that makes it this submission: neither its key nor its actor."""

    board: str
    player: str
    scores: tuple[int, ...] | None = None
    delta: int | None = None
    metadata: bytes | None = None
    attributes: Attributes | None = None
    build: str | None = None
    at: Instant | None = None
    run: str | None = None


_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_body_of = attrgetter(*_Body.__struct_fields__)


def _fingerprint(fact: ScoreSubmitted) -> bytes:
    body = _Body(*_body_of(fact))
    return blake2b(_encode(body), digest_size=FINGERPRINT_BYTES).digest()


# ------------------------------------------------------------------------------- bytes

Fields = list[Any]
"""A fact's fields as its bytes hold them, before they are given a class."""


class Upcaster(msgspec.Struct, frozen=True):
    """How the fields of an outlived kind become those of the kind that followed it."""

    to: str
    upcast: Callable[[Fields], Fields]


class Codec:
    """Turns facts into bytes and back, old kinds included."""

    def __init__(
        self, facts: Iterable[type[Fact]], upcasters: Mapping[str, Upcaster] | None = None
    ) -> None:
        self._decoders: dict[str, msgspec.msgpack.Decoder[Fact]] = {}
        for fact in facts:
            self.add(fact)
        self._upcasters = dict(upcasters or {})
        for kind, step in self._upcasters.items():
            assert kind not in self._decoders, f"{kind} is current and needs no upcaster"
            assert step.to in self._decoders or step.to in self._upcasters, f"{kind} leads nowhere"
            assert _version(step.to) > _version(kind), f"{kind} leads backwards"

    def add(self, fact: type[Fact]) -> None:
        """Read one more kind."""
        self._decoders[fact.kind] = msgspec.msgpack.Decoder(fact)

    def encode(self, fact: Fact) -> tuple[str, bytes]:
        """Return the kind and the body, which the ledger keeps side by side."""
        return fact.kind, _encode(fact)

    def decode(self, kind: str, body: bytes) -> Fact:
        """Return the fact. Raises UnknownFact or UnreadableFact, both of which are Corrupt."""
        decoder = self._decoders.get(kind)
        try:
            if decoder is not None:
                return decoder.decode(body)
            return self._decode_outlived(kind, body)
        except (msgspec.DecodeError, UnicodeDecodeError) as exc:
            raise UnreadableFact(kind, str(exc)) from exc

    def redacted(self, kind: str, body: bytes) -> tuple[str, bytes]:
        """Return a fact's kind and body without personal data, and with as many fields.

        So a body never grows. That of an outlived kind becomes one of its last version.
        """
        decoder = self._decoders.get(kind)
        if decoder is None:
            return self.encode(self.decode(kind, body).redacted())
        fields = msgspec.msgpack.decode(body, type=Fields)
        names = decoder.type.__struct_fields__
        for name, left in decoder.type.personal.items():
            if (place := names.index(name)) < len(fields):
                fields[place] = left
        return kind, _encode(fields)

    def _decode_outlived(self, kind: str, body: bytes) -> Fact:
        if kind not in self._upcasters:
            raise UnknownFact(kind)
        fields = msgspec.msgpack.decode(body, type=Fields)
        while (step := self._upcasters.get(kind)) is not None:
            kind, fields = step.to, step.upcast(fields)
        return self._decoders[kind].decode(_encode(fields))


def _version(kind: str) -> int:
    return int(kind.rpartition(".")[2])


FACTS: tuple[type[Fact], ...] = (
    ScoreSubmitted,
    BoardDefined,
    BoardRetired,
    WindowOpened,
    WindowSealed,
    PlayerProfiled,
    FriendsSet,
    PlayerErased,
    WindowDropped,
    KeyCreated,
    KeyRevoked,
    NameSet,
    AttributesSet,
    BoardRedefined,
    BoardRelearned,
    ExpiringKeyCreated,
    KeysUsed,
    TimeCorrected,
    WindowsCorrected,
    ScoreAdjusted,
    MetadataSet,
    ScoresRetracted,
    RetractionUndone,
    ReviewDecided,
    PlayerStateSet,
    BoardExpired,
    SigningKeyCreated,
    WindowEnded,
    WindowFrozen,
    WindowSettled,
    FactsRedacted,
    PersonErased,
    ExpiringScoreSubmitted,
    ScoresExpired,
    VisibilitySet,
    WebhookSet,
    WebhookRemoved,
    WebhookRewound,
    WebhooksSent,
    RewardsGiven,
    RewardsWithdrawn,
    RewardClaimed,
    WindowPrepared,
)

KINDS: tuple[str, ...] = tuple(dict.fromkeys(fact.kind.partition(".")[0] for fact in FACTS))
"""The names of all fact kinds, without their versions."""

FEW: frozenset[str] = frozenset(KINDS) - {
    fact.kind.partition(".")[0] for fact in FACTS if fact.numerous
}
"""The names of the kinds that the index of the audit trail has."""

CODEC = Codec(FACTS)

encode = CODEC.encode
decode = CODEC.decode
