"""The shapes of the wire: what every JSON answer looks like, field by field.

Nothing here computes. The doors fill these shapes in, the documentation is made from them, and the
client reads them back. A field is only ever added; its name and meaning stay.

Scores are whole numbers, or numbers with exactly the decimals their board declares: they are
Decimals here and are written digit for digit.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

Score = int | Decimal

encode = msgspec.json.Encoder(decimal_format="number").encode
"""Return a shape as JSON."""

decode_any = msgspec.json.Decoder(float_hook=Decimal).decode
"""Return JSON as plain values, numbers with a point exactly as they were written."""


class Shape(Struct, gc=False):
    """A shape that may have fields which an answer has only sometimes."""

    def __repr__(self) -> str:
        """Return what it says, and nothing of what it does not say."""
        values = ((name, getattr(self, name)) for name in self.__struct_fields__)
        said = (f"{name}={value!r}" for name, value in values if value is not UNSET)
        return f"{type(self).__name__}({', '.join(said)})"


class Read(Shape, gc=False, kw_only=True):
    """What every answer to a read carries."""

    as_of: int
    """The position at which it is true."""
    exactness: str = "exact"
    stale: bool = False


class Row(Shape, gc=False):
    """A standing in a list."""

    rank: int
    player: str
    name: str | None
    score: Score
    rank_change: int | None
    """Against a baseline in time; null while there is none."""
    metadata: Any
    """What came with the run that counts."""
    columns: dict[str, Score] | UnsetType = UNSET
    """Every column by its name, on boards with more than one."""
    place: int | UnsetType = UNSET
    """The rank among those who were asked for together."""


class Page(Shape, gc=False):
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
    """Of the window: ``scheduled``, ``open`` or ``sealed``."""
    opens_at: str | UnsetType = UNSET
    """When a scheduled window begins."""


class Standing(Shape, gc=False):
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
    """Of the window."""


class Found(Read, gc=False, kw_only=True):
    """Some players' standings, ranked among themselves."""

    board: str
    window: str
    segment: str | None
    total: int
    standings: list[Row]
    not_found: list[str]
    state: str = "open"
    opens_at: str | UnsetType = UNSET


class Lookup(Struct, forbid_unknown_fields=True):
    """Who is asked for."""

    players: list[str]


class Projection(Read, gc=False, kw_only=True):
    """A rank and the score that goes with it, as things stand."""

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


class OnBoard(Struct, gc=False):
    """A player's standing on one of the boards."""

    board: str
    window: str
    rank: int
    score: Score
    percentile: float
    total: int
    state: str = "open"
    """Of the window."""


class Everywhere(Read, gc=False, kw_only=True):
    """One player on every board."""

    player: str
    name: str | None
    standings: list[OnBoard]


class InWindow(Shape, gc=False):
    """What a submission did in one window."""

    window: str
    score: Score | None
    rank: int | None
    previous_rank: int | None
    rank_change: int | None
    total: int
    verdict: str
    columns: Mapping[str, Score | None] | UnsetType = UNSET
    """Every column by its name, on boards with more than one; null where there is no entry."""


class Receipt(Shape, gc=False):
    """What a submission did.

    With the verdict ``accepted`` it is recorded and will be judged, and nobody can tell yet how:
    then all that would tell is null.
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
    """Null only for what waits on a node's own disk until the ledger can be reached."""
    windows: dict[str, InWindow]
    duplicate: bool | UnsetType = UNSET
    """True on the answer to a repeated key, which is otherwise the first answer."""
    columns: Mapping[str, Score | None] | UnsetType = UNSET
    """Those of the window that speaks for the whole, as it has them."""


class BatchItem(Struct):
    """One submission of a batch; what else it may say is what a single one may."""

    board: str
    player: str


class Batch(Struct, forbid_unknown_fields=True):
    """Many submissions, to any boards."""

    scores: list[Any]
    """Objects; of anything else it is said in its place that it is none."""


class WrongField(Struct):
    """One thing wrong with one field."""

    field: str
    message: str


class Refusal(Shape):
    """Why one submission of a batch was not counted."""

    code: str
    detail: str
    applied: str
    verdict: str = "refused"
    errors: list[WrongField] | UnsetType = UNSET


class Results(Struct):
    """One verdict for each submission of a batch, in its order: a Receipt or a Refusal."""

    results: list[Any]
    position: int
    """How far the node has come, and so at least as far as what has a position of its own here."""


class Window(Shape, gc=False):
    """A window of a board."""

    window: str
    name: str
    start: str | None
    end: str | None
    state: str
    """``scheduled``, ``open`` or ``sealed``."""
    total: int
    opens_at: str | UnsetType = UNSET
    """When a scheduled window begins."""


class Windows(Read, gc=False, kw_only=True):
    """The windows of a board, newest first."""

    board: str
    windows: list[Window]


class BoardBody(Struct, kw_only=True):
    """A board: what it is defined as, and how it stands."""

    name: str
    definition: dict[str, Any]
    windows: list[Window]
    next_reset: str | None
    total: int
    since: int = 0
    """Where the board was defined first. A retired board of the same name was another board."""
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


class Change(Struct):
    """One field in which two definitions differ."""

    field: str
    before: Any
    after: Any


class WindowPreview(Struct):
    """One window as it is and as it would be."""

    window: str
    total: int
    total_after: int
    top: list[Row]
    top_after: list[Row]


class Preview(Struct):
    """What redefining a board would change, or has changed where it was applied."""

    board: str
    applied: bool
    changes: list[Change]
    windows: list[WindowPreview]
    position: int | None = None
    """Of the new definition; null where nothing was changed."""
    drops: list[str] = []
    """Windows with scores that cannot be ranked any more; applying needs ``drop_scores`` too."""


class Profile(Struct):
    """What is known of a player."""

    player: str
    name: str | None
    attributes: dict[str, str | int | bool]
    friends: list[str]
    as_of: int
    exactness: str = "exact"
    stale: bool = False


class PlayerItem(Struct, gc=False):
    """A player in a list of players."""

    player: str
    name: str | None
    attributes: dict[str, str | int | bool]


class Players(Read, gc=False, kw_only=True):
    """Players whose name or id begins as asked, in the order of their ids."""

    players: list[PlayerItem]
    next_after: str | None
    """Give it as ``after`` to go on; null at the end."""


class Done(Struct):
    """A write that leaves nothing to tell but where it was recorded."""

    position: int


class HistoryItem(Struct, omit_defaults=True):
    """One of a player's facts on a board.

    ``at`` is the ledger's time; ``client_at`` is what the submission said in its own ``at``.
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


class History(Read, gc=False, kw_only=True):
    """A player's facts on a board, newest first."""

    board: str
    player: str
    facts: list[HistoryItem]
    next_before: int | None
    """Give it as ``before`` to go on; null at the end."""


class FactItem(Struct):
    """One fact of the audit trail.

    ``at`` is the ledger's time; what a submission said in its own ``at`` is in its body. Scores
    and deltas are as their board shows them. Of a board that was retired since nobody knows the
    decimals: then they are ``raw_scores`` and ``raw_delta``, in its smallest unit.
    """

    position: int
    at: str
    kind: str
    board: str | None
    player: str | None
    actor: str | None
    body: dict[str, Any]


class Facts(Read, gc=False, kw_only=True):
    """A stretch of the audit trail, oldest first."""

    facts: list[FactItem]
    next_after: int | None
    """Give it as ``after`` to go on; null at the end."""


class ClockStep(Struct):
    """A step of the clock that ledger time does not follow yet."""

    offset_seconds: float
    """The clock minus the time counted on."""
    seen_seconds: float
    """How long ago it was first seen."""
    believed_after_seconds: float
    """How long it must last, unless it is confirmed."""


class ClockBody(Struct):
    """Ledger time beside the machine's clock."""

    ledger_time: str
    machine_time: str
    offset_seconds: float
    """Ledger time minus the machine's clock."""
    step: ClockStep | None
    problem: str | None
    """How the two differ and what to do; null if they agree."""
    confirmed_seconds: float | None = None
    """The step that this request confirmed; null if there was none."""


class Health(Struct):
    """Whether the service answers, and whether it should be asked."""

    status: str
    position: int
    durable: bool
    problem: str | None = None
    notes: list[str] | None = None
    """What is worth knowing of the servers behind it, and changes nothing."""
