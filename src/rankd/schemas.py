"""The JSON schemas of the API: every response, field by field.

There is no logic here. The HTTP and WebSocket handlers fill these schemas in, the OpenAPI document
is generated from them, and the client decodes them. Fields are only ever added; names and meanings
never change.

Scores are whole numbers, or numbers with exactly the decimals that their board declares. The latter
are Decimals here and are written digit for digit.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

Score = int | Decimal

encode = msgspec.json.Encoder(decimal_format="number").encode
"""Return a schema's JSON."""


class OptionalFields(Struct, gc=False):
    """A schema with fields that may be absent (UNSET)."""

    def __repr__(self) -> str:
        """Return the fields that are set."""
        values = ((name, getattr(self, name)) for name in self.__struct_fields__)
        said = (f"{name}={value!r}" for name, value in values if value is not UNSET)
        return f"{type(self).__name__}({', '.join(said)})"


class Read(OptionalFields, gc=False, kw_only=True):
    """The fields of every response to a read."""

    as_of: int
    """The position at which it is true."""
    exactness: str = "exact"
    stale: bool = False


class Row(OptionalFields, gc=False):
    """A standing in a list."""

    rank: int
    player: str | None
    """Null for a player that is hidden to the reader."""
    name: str | None
    score: Score
    rank_change: int | None
    """Against a baseline in time; null while there is none."""
    metadata: Any
    """The metadata of the submission that counts."""
    new: bool | UnsetType = UNSET
    """True for a player that had no rank at the baseline."""
    columns: dict[str, Score] | UnsetType = UNSET
    """Every column by its name, on boards with more than one."""
    place: int | UnsetType = UNSET
    """The rank among the players of the same request."""
    ordinal: int | UnsetType = UNSET
    """Its unique place, every entry counted, on boards with shared ranks."""
    anonymous: bool | UnsetType = UNSET
    """True for a player that is hidden to the reader."""
    raw_score: Score | UnsetType = UNSET
    """The score as it was recorded, on boards with decay."""


class Page(OptionalFields, gc=False):
    """Consecutive standings of one ranking."""

    board: str
    window: str
    segment: str | None
    total: int
    as_of: int
    exactness: str
    stale: bool
    standings: list[Row]
    next_cursor: str | None
    prev_cursor: str | None
    state: str = "open"
    """``scheduled``, ``open``, ``grace``, ``frozen``, ``sealed`` or ``final``: of the window."""
    opens_at: str | UnsetType = UNSET
    """The start of a scheduled window."""
    count: int | UnsetType = UNSET
    """How many entries the requested range of scores has; ``total`` is that of the ranking."""
    edition: int | UnsetType = UNSET
    """The edition of a closed window, if one was requested."""
    server_time: str | UnsetType = UNSET
    """The time whose scores are shown, on boards with decay."""


class StreamState(OptionalFields, gc=False, kw_only=True):
    """The first event of a stream, ``state``: all that it shows."""

    position: int
    resumed: bool = False
    """Always false: it replaces the earlier rows of the client."""
    board: str
    window: str
    segment: str | None
    top: int
    player: str | UnsetType = UNSET
    around: int | UnsetType = UNSET
    total: int
    as_of: int
    exactness: str = "exact"
    stale: bool
    standings: list[Row]
    """The best ``top``; behind them the player and its neighbours, if one is followed."""
    state: str = "open"
    """Of the window, as in a page."""
    opens_at: str | UnsetType = UNSET


class StreamChange(OptionalFields, gc=False, kw_only=True):
    """An event ``change``: the standings that changed or entered, and the players that left.

    Rows of hidden players have no id: each change has all of them, in place of those before.
    """

    position: int
    total: int
    stale: bool = False
    rows: list[Row]
    left: list[str]


class Overtaken(Struct, gc=False):
    """An event ``overtaken``: the followed player has a worse rank, by no score of its own."""

    position: int
    player: str
    by: str | None
    """The player that passed it last; null if that one is hidden, or it is not known."""
    rank: int
    """The player's rank now."""


class WindowChanged(OptionalFields, gc=False):
    """An event ``window``: a window has another state than before."""

    position: int
    board: str
    window: str
    state: str
    opens_at: str | None = None


class StreamError(Struct, gc=False):
    """A message ``error`` of a WebSocket: a request failed, or a subscription has ended."""

    position: int | None
    status: int
    code: str
    detail: str


class StreamSubscribe(Struct, forbid_unknown_fields=True, kw_only=True):
    """A subscription over WebSocket. Its fields are the parameters of a stream."""

    id: str
    board: str
    top: int | None = None
    player: str | None = None
    around: int | None = None
    window: str | None = None
    segment: str | None = None
    numbers: str | None = None
    last_event_id: int | None = None


class StreamCommand(OptionalFields, forbid_unknown_fields=True):
    """A message of a client over WebSocket."""

    subscribe: StreamSubscribe | UnsetType = UNSET
    unsubscribe: str | UnsetType = UNSET


class TicketRequest(Struct, forbid_unknown_fields=True):
    """A request for a ticket. A key that is for some boards names one of them."""

    board: str | None = None


class TicketBody(Struct, gc=False):
    """A ticket for one stream."""

    ticket: str
    expires_at: str | None


class Standing(OptionalFields, gc=False):
    """One player's standing."""

    board: str
    window: str
    segment: str | None
    player: str
    name: str | None
    rank: int
    score: Score
    rank_change: int | None
    percentile: float
    total: int
    metadata: Any
    as_of: int
    exactness: str = "exact"
    stale: bool = False
    columns: dict[str, Score] | UnsetType = UNSET
    state: str = "open"
    """The window's state."""
    new: bool | UnsetType = UNSET
    """True for a player that had no rank at the baseline."""
    ordinal: int | UnsetType = UNSET
    """Its unique place, every entry counted, on boards with shared ranks."""
    edition: int | UnsetType = UNSET
    """The edition of a closed window, if one was requested."""
    raw_score: Score | UnsetType = UNSET
    """The score as it was recorded, on boards with decay."""
    server_time: str | UnsetType = UNSET
    """The time whose score is shown, on boards with decay."""


class LookupResult(Read, gc=False, kw_only=True):
    """Some players' standings, ranked among themselves."""

    board: str
    window: str
    segment: str | None
    total: int
    standings: list[Row]
    not_found: list[str]
    state: str = "open"
    opens_at: str | UnsetType = UNSET
    server_time: str | UnsetType = UNSET
    """The time whose scores are shown, on boards with decay."""


class Lookup(Struct, forbid_unknown_fields=True):
    """The players to look up."""

    players: list[str]


class Projection(Read, gc=False, kw_only=True):
    """A rank and the score that belongs to it, in the present ranking."""

    board: str
    window: str
    segment: str | None
    total: int
    rank: int | None
    score: Score | None
    percentile: float | None
    columns: dict[str, Score] | UnsetType = UNSET
    state: str = "open"
    opens_at: str | UnsetType = UNSET
    server_time: str | UnsetType = UNSET
    """The time whose scores are counted, on boards with decay."""


class ScoreRange(Struct):
    """A range of scores, both ends inclusive, and how many players have one of them."""

    score_min: Score
    score_max: Score
    count: int


class Distribution(Read, gc=False, kw_only=True):
    """The scores of a ranking as a histogram, the lowest first, and their quantiles."""

    board: str
    window: str
    segment: str | None
    total: int
    score_min: Score | None
    """The lowest and the highest score; null where no player is ranked."""
    score_max: Score | None
    buckets: list[ScoreRange]
    quantiles: dict[str, Score]
    """By the share of the players, as text, the score that so many do not exceed."""
    state: str = "open"
    opens_at: str | UnsetType = UNSET
    server_time: str | UnsetType = UNSET
    """The time whose scores are counted, on boards with decay."""


class OnBoard(OptionalFields, gc=False):
    """A player's standing on one of the boards."""

    board: str
    window: str
    rank: int
    score: Score
    percentile: float
    total: int
    state: str = "open"
    """The window's state."""
    ordinal: int | UnsetType = UNSET
    """Its unique place, every entry counted, on boards with shared ranks."""
    raw_score: Score | UnsetType = UNSET
    """The score as it was recorded, on boards with decay."""
    server_time: str | UnsetType = UNSET
    """The time whose score is shown, on boards with decay."""


class Everywhere(Read, gc=False, kw_only=True):
    """One player on every board."""

    player: str
    name: str | None
    standings: list[OnBoard]


class InWindow(OptionalFields, gc=False):
    """The effect of a submission in one window."""

    window: str
    score: Score | None
    rank: int | None
    previous_rank: int | None
    rank_change: int | None
    total: int
    verdict: str
    columns: Mapping[str, Score | None] | UnsetType = UNSET
    """Every column by its name, on boards with more than one; null where there is no entry."""
    raw_score: Score | UnsetType = UNSET
    """The score as it was recorded, on boards with decay."""


class Receipt(OptionalFields, gc=False):
    """The effect of a submission.

    With the verdict ``accepted`` it is recorded and not judged yet: every field that depends on the
    judgement is null.
    """

    board: str
    player: str
    verdict: str
    score: Score | None
    previous_score: Score | None
    rank: int | None
    previous_rank: int | None
    rank_change: int | None
    total: int | None
    percentile: float | None
    position: int | None
    """Null only for a submission in the node's spool, which waits for the ledger."""
    windows: dict[str, InWindow]
    duplicate: bool | UnsetType = UNSET
    """True if the key was used before; the rest is then the first response."""
    columns: Mapping[str, Score | None] | UnsetType = UNSET
    """Every column by its name, from the window that also gives ``score`` and ``rank``."""
    review: str | UnsetType = UNSET
    """The id of its review, if it is held."""
    expires_at: str | UnsetType = UNSET
    """When it counts no more, of a submission with ``lives``."""
    raw_score: Score | UnsetType = UNSET
    """The score as it was recorded, on boards with decay."""


class Batch(Struct, forbid_unknown_fields=True):
    """Many submissions, to any boards."""

    scores: list[Any]
    """Objects; each item that is not one is refused in its place."""


class WrongField(OptionalFields):
    """One error in one field; for a broken rule also its name, and the numbers compared."""

    field: str
    message: str
    rule: str | UnsetType = UNSET
    observed: Score | UnsetType = UNSET
    limit: Score | UnsetType = UNSET


class Refusal(OptionalFields):
    """The reason for which one submission of a batch was not counted."""

    code: str
    detail: str
    applied: str
    verdict: str = "refused"
    errors: list[WrongField] | UnsetType = UNSET


class Results(Struct):
    """One verdict for each submission of a batch, in its order: a Receipt or a Refusal."""

    results: list[Any]
    position: int
    """The position the node has reached, no lower than any position in these results."""


class Window(OptionalFields, gc=False):
    """A window of a board."""

    window: str
    name: str
    start: str | None
    end: str | None
    state: str
    """``scheduled``, ``open``, ``grace``, ``frozen``, ``sealed`` or ``final``."""
    total: int
    opens_at: str | UnsetType = UNSET
    """The start of a scheduled window."""
    edition: int | UnsetType = UNSET
    """Of a closed window: 1, and one more with each correction that changed its standings."""


class Windows(Read, gc=False, kw_only=True):
    """The windows of a board, newest first."""

    board: str
    windows: list[Window]


class WindowStep(Struct, kw_only=True):
    """A window after a step that an operator took."""

    board: str
    window: str
    state: str
    changed: bool
    """False if the step had been taken before."""
    position: int
    opened: Window | None
    """The window that a reset opened in its place."""


class CertificateBody(Read, gc=False, kw_only=True):
    """The certificate of a settled window. Digests and the chain are in hexadecimal."""

    board: str
    window: str
    edition: int
    definition_digest: str
    ledger_from: int
    ledger_to: int
    chain: str
    submissions: int
    players: int
    standings_digest: str
    rewards: int
    """How many it gave, those that are withdrawn by now not counted."""
    rewards_digest: str
    """Empty if there are none."""
    top: list[Row]


class Reward(OptionalFields, kw_only=True, gc=False):
    """A gift to a player of a settled window."""

    id: str
    board: str
    window: str
    player: str | None
    """null if the player is hidden to the reader."""
    name: str | None
    rank: int
    """At the settlement that gave it."""
    band: int
    """The place of its band in the definition, counted from 0."""
    edition: int
    """The edition of the window that gave it."""
    give: Any
    amount: str | None
    """With all of its digits."""
    state: str
    """``given``, ``claimed`` or ``withdrawn``."""
    claimed: bool
    claimed_at: str | None
    """Also of a reward that was withdrawn after its claim."""


class Rewards(Read, kw_only=True):
    """Rewards of a settled window, band by band, the best first."""

    board: str
    window: str
    state: str
    """That of the window."""
    total: int
    """All rewards of the window, those that are withdrawn included."""
    withdrawn: int
    rewards: list[Reward]
    next_cursor: str | None


class RewardClaim(Reward, kw_only=True, gc=False):
    """A reward after a claim."""

    changed: bool
    """False if it was claimed before."""
    position: int


class ComingStep(Struct, kw_only=True):
    """A step that a window is going to take by time."""

    at: str
    local: str
    """The same moment by the clocks of the board's time zone."""
    step: str
    """``opens``, ``closes``, or ``seals`` at the end of a grace."""
    window: str
    name: str


class WindowSchedule(Read, gc=False, kw_only=True):
    """The coming openings and closings of a board's windows."""

    board: str
    time_zone: str
    schedule: list[ComingStep]
    server_time: str


class BoardBody(Struct, kw_only=True):
    """A board: its definition, its windows and their totals."""

    name: str
    definition: dict[str, Any]
    windows: list[Window]
    next_reset: str | None
    total: int
    since: int = 0
    """The position of the board's first definition. A retired board of this name was another board.
    """
    as_of: int
    server_time: str
    exactness: str = "exact"
    stale: bool = False


class Boards(Struct, kw_only=True):
    """Every board."""

    boards: list[BoardBody]
    as_of: int
    server_time: str
    exactness: str = "exact"
    stale: bool = False


class RunBody(Struct):
    """A run that a player has started."""

    run: str
    """The token, which one submission of this player to this board may use."""
    seed: str
    """A random number for the game, in hex; it follows from the run."""
    not_before: str
    """The first moment at which the run can be used."""
    expires_at: str
    """The first moment at which it cannot be used any more."""


class Change(Struct):
    """One field in which two definitions differ."""

    field: str
    before: Any
    after: Any


class WindowPreview(Struct):
    """One window before and after a change of definition."""

    window: str
    total: int
    total_after: int
    top: list[Row]
    top_after: list[Row]


class Preview(Struct):
    """The changes that redefining a board would make or, if it was applied, has made."""

    board: str
    applied: bool
    changes: list[Change]
    windows: list[WindowPreview]
    position: int | None = None
    """Of the new definition; null if nothing was changed."""
    drops: list[str] = []
    """Windows with scores that can no longer be ranked; applying then needs ``drop_scores``, too.
    """


Visibility = Literal["public", "friends", "anonymous"]


class Profile(OptionalFields):
    """A player's name, attributes and friends."""

    player: str
    name: str | None
    attributes: dict[str, str | int | bool]
    friends: list[str]
    as_of: int
    visibility: Visibility = "public"
    """``public``; ``friends``, hidden to all others; or ``anonymous``, hidden to all."""
    exactness: str = "exact"
    stale: bool = False
    state: str | UnsetType = UNSET
    """``active``, ``banned``, ``hidden`` or ``shadowed``; shown with the
    scope ``moderate`` only, as the next two."""
    reason: str | UnsetType | None = UNSET
    """That of the newest state."""
    states: list["PlayerStateItem"] | UnsetType = UNSET
    """All states, the newest last; on each board the newest that covers it holds."""


class PlayerItem(Struct, gc=False):
    """A player in a list of players."""

    player: str
    name: str | None
    attributes: dict[str, str | int | bool]


class Players(Read, gc=False, kw_only=True):
    """Players whose name or id begins with the requested text, ordered by id."""

    players: list[PlayerItem]
    next_after: str | None
    """Pass it as ``after`` for the next page; null at the end."""


class ChangedStanding(OptionalFields):
    """An entry before and after a correction."""

    board: str
    player: str
    window: str
    """The id of the window."""
    score: Score | None
    """Null if the player has no entry there any more."""
    previous_score: Score | None
    rank: int | None
    """Null also if the ranks cannot be read now, and for a player that is hidden."""
    previous_rank: int | None
    columns: dict[str, Score] | UnsetType = UNSET
    previous_columns: dict[str, Score] | UnsetType = UNSET


class CaughtExample(Struct):
    """A submission that a rule would have caught."""

    position: int
    player: str
    observed: Score
    limit: Score


class RuleCaught(Struct):
    """The submissions that one rule would have caught."""

    rule: str
    then: str
    caught: int
    examples: list[CaughtExample]
    """The first ten."""


class RulesPreviewed(Struct):
    """The submissions of the past that the rules of a definition would have caught."""

    board: str
    submissions: int
    """How many were judged: those that count."""
    caught: int
    """How many of them break a rule."""
    through: int
    """The position up to which they were judged."""
    rules: list[RuleCaught]


class ReviewReason(Struct):
    """A rule that a submission broke: scores, submissions or seconds."""

    rule: str
    observed: Score
    limit: Score


class ReviewItem(OptionalFields):
    """A submission that a rule held or flagged."""

    id: str
    board: str
    player: str
    score: Score | None
    """Null where an amount to add was submitted."""
    delta: Score | None
    position: int
    at: str
    reasons: list[ReviewReason]
    state: str
    """``held``, ``flagged``, ``approved`` or ``rejected``."""
    decided_by: str | None
    """The id of the key; null if it is not decided."""
    decided_at: int | None
    """The position of the decision."""
    reason: str | None
    """That of the decision."""
    history: str
    """The path of the player's history."""
    columns: dict[str, Score] | UnsetType = UNSET
    evidence: list["HistoryItem"] | UnsetType = UNSET
    """The player's last submissions up to this one, newest first; with a single review only."""
    changes: list[ChangedStanding] | UnsetType = UNSET
    """Of a decision: the first hundred entries that it changed."""
    more: int | UnsetType = UNSET
    """How many other entries it changed."""


class ReviewsPage(Read, gc=False, kw_only=True):
    """Reviews, newest first."""

    reviews: list[ReviewItem]
    open: int
    """How many held submissions wait for a decision, on all boards."""
    next_before: int | None
    """Pass it as ``before`` for the next page; null at the end."""


class CorrectionResult(Struct):
    """The effect of a retraction, of its undoing, or of a dry run of one."""

    position: int | None
    """Where it is recorded; null for a dry run, and if there was nothing to do."""
    dry_run: bool
    submissions: int
    """How many submissions it concerns."""
    players: int
    changes: list[ChangedStanding]
    """The first hundred entries that change."""
    more: int
    """How many other entries change."""


class CorrectionItem(Struct):
    """One correction of a board, without the players concerned and without its actor."""

    position: int
    at: str
    kind: str
    """Such as ``scores_retracted``, ``score_adjusted`` or ``player_state_set``."""
    reason: str | None
    state: str | None
    """The state that a player was given, if it is one."""
    build: str | None
    """The build whose submissions were retracted, if it was named."""
    retraction: int | None
    """The position of the retraction that it takes back, if it is one."""
    windows: list[str]
    """The closed windows that got another edition."""


class CorrectionLog(Read, gc=False, kw_only=True):
    """The corrections of a board, oldest first."""

    board: str
    corrections: list[CorrectionItem]
    next_after: int | None
    """Pass it as ``after`` for the next page; null at the end."""


class RunningOperation(Struct):
    """A request that is under way, and its progress."""

    operation: str
    """Its id, for ``POST /v1/operations/{operation}:wait``."""
    state: str
    """``running``; once it is done, its response is there instead."""
    stage: str
    done: int
    total: int
    """0 while it is unknown."""
    unit: str


class MetadataBody(Struct):
    """The metadata that a player's entries in the open windows have now."""

    board: str
    player: str
    metadata: Any
    position: int


class PlayerStateItem(Struct):
    """A state of a player, on some boards or on all."""

    state: str
    """``active``, ``banned``, ``hidden`` or ``shadowed``."""
    reason: str | None
    boards: list[str] | None
    """Null for every board."""
    until: str | None
    """When it ends by itself."""
    actor: str | None
    since: int
    """The position of its fact."""


class PlayerStateBody(Struct):
    """The state that a request has set, and all states of the player."""

    player: str
    state: str
    reason: str | None
    position: int
    states: list[PlayerStateItem]
    """The newest last: on each board the newest that covers it holds."""


class Done(Struct):
    """The position of a write that has no other result."""

    position: int


class WebhookBody(OptionalFields, kw_only=True):
    """A webhook: an address that events are posted to."""

    name: str
    url: str
    events: list[str]
    boards: list[str]
    """``["*"]`` for all."""
    state: str
    """``delivering``; ``retrying`` while tries fail; ``failing`` once it was given up."""
    failing_since: str | None
    """When the first of the failed tries was, after which none succeeded."""
    delivered_through: int
    """The position up to which events were delivered, as far as that is recorded."""
    secret: str | UnsetType = UNSET
    """Signs the messages: returned once, on creation."""


class Webhooks(Struct):
    """All webhooks."""

    webhooks: list[WebhookBody]


class DeliveryItem(Struct, kw_only=True):
    """An event on its way to a webhook, or delivered."""

    id: str
    """The header ``webhook-id``, the same at each try."""
    type: str
    board: str
    position: int
    state: str
    """``delivered``, ``retrying``, or ``stopped`` if it was given up."""
    attempts: int
    status: int | None
    """The status of the last answer; null if there was none."""
    problem: str | None
    tried_at: str
    next_try: str | None


class Deliveries(Struct):
    """The last deliveries of a webhook, newest first."""

    deliveries: list[DeliveryItem]


SubmissionStatus = Literal["recorded", "refused", "held", "rejected", "retracted"]


class HistoryItem(Struct, omit_defaults=True):
    """One of a player's facts on a board.

    ``at`` is the ledger's time; ``client_at`` is the time given in the submission.
    """

    position: int
    at: str
    kind: str
    score: Score | None = None
    delta: Score | None = None
    columns: dict[str, Score] | None = None
    key: str | None = None
    build: str | None = None
    metadata: Any = None
    client_at: str | None = None
    status: SubmissionStatus = "recorded"
    """Why it counts nowhere; ``recorded`` unless a rule, a review, a state of the player or a
    correction is the reason."""


class History(Read, gc=False, kw_only=True):
    """A player's facts on a board, newest first."""

    board: str
    player: str
    facts: list[HistoryItem]
    next_before: int | None
    """Pass it as ``before`` for the next page; null at the end."""


class RankAt(Struct):
    """A player's standing at a moment."""

    at: str
    rank: int | None
    """Null where the player had no entry then, as the score."""
    score: Score | None
    total: int
    as_of: int
    """The position of the moment, at which ``as_of=`` reads the whole ranking."""


class RanksOverTime(Read, gc=False, kw_only=True):
    """A player's rank over time, oldest first; the last point is the present standing."""

    board: str
    window: str
    player: str
    grain: str
    points: list[RankAt]


class FactItem(Struct):
    """One fact of the audit trail.

    ``at`` is the ledger's time; the time given in a submission is in its body. Scores and deltas
    have their board's decimals. For a board that has been retired the decimals are unknown: its
    facts have ``raw_scores`` and ``raw_delta``, in its smallest unit.
    """

    position: int
    at: str
    kind: str
    board: str | None
    player: str | None
    actor: str | None
    request_id: str | None
    """Of the request that made an administrative change; null for submissions."""
    address: str | None
    """The client's address; null where it was not recorded, or was erased."""
    body: dict[str, Any]


class Facts(Read, gc=False, kw_only=True):
    """Consecutive facts of the audit trail, oldest first."""

    facts: list[FactItem]
    next_after: int | None
    """Pass it as ``after`` for the next page; null at the end."""


class ClockStep(Struct):
    """A step of the clock that ledger time does not follow yet."""

    offset_seconds: float
    """The clock minus the time counted on from before the step."""
    seen_seconds: float
    """Seconds since it was first seen."""
    believed_after_seconds: float
    """Seconds that it must last before ledger time follows it, unless it is confirmed."""


class ClockBody(Struct):
    """Ledger time and the machine's clock."""

    ledger_time: str
    machine_time: str
    offset_seconds: float
    """Ledger time minus the machine's clock."""
    step: ClockStep | None
    problem: str | None
    """The difference between the two and the advice to the operator; null if they agree."""
    confirmed_seconds: float | None = None
    """The step that this request confirmed; null if there was none."""


class CorrectedBoard(Struct):
    """The windows of a board before and after a correction of the time."""

    board: str
    opened: list[str]
    """Open from then on."""
    restored: list[str]
    """Closed windows that come back, or that closed at another time."""
    removed: list[str]
    """Windows that there never were."""


class Correction(Struct):
    """The effect of correcting the ledger's time."""

    dry_run: bool
    first: int
    """The first position with a wrong time."""
    first_time: str
    """The time that was recorded there."""
    previous_time: str | None
    """The time of the fact before it."""
    ahead_seconds: float
    """How far the time was ahead."""
    submissions: int
    """Recorded with a wrong time."""
    boards: list[CorrectedBoard]
    """Those whose windows change."""
    position: int | None
    """Where the last board was corrected; null for a dry run."""


class Health(Struct):
    """The health of the service, and whether it should get requests."""

    status: str
    position: int
    durable: bool
    problem: str | None = None
    notes: list[str] | None = None
    """Warnings about the servers behind it, without effect on the status."""
