"""A submission: a request that a score be counted; and ``judge``, which decides its outcome.

The two halves stand on either side of the ledger.

Before it, ``Submission.of`` checks everything that needs no knowledge of the board's entries: the
shape of the request, and bounds that no history can change. An invalid request is refused and not
recorded.

Behind it, ``judge`` decides while facts are folded in order. It is pure, so every node that folds
the same ledger reaches the same verdict, today and in a rebuild years from now. And it never
raises: the fact is in the ledger, and a fold that stumbled over it would stumble for ever. A
submission that cannot count gets a verdict with the reason, even where the board's rules have
changed since the fact was recorded.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Protocol, TypeGuard

import msgspec

from rankd.errors import (
    AttemptsExhausted,
    FieldError,
    Invalid,
    InvalidSubmission,
    RunExpired,
    RunUsed,
    ScoreOutOfBounds,
)
from rankd.model.board import (
    NAME,
    SCORE_MAX,
    SCORE_MIN,
    SEGMENT_NAME_LENGTH_MAX,
    TURNING,
    UNPRINTABLE,
    Board,
    ScoreRule,
    Scores,
    shown_name,
)
from rankd.model.decay import Amount, Decay
from rankd.model.facts import Attributes, ExpiringScoreSubmitted, ScoreSubmitted, shared_attributes
from rankd.model.graphemes import is_visible
from rankd.model.json_values import encode_json, json_form
from rankd.model.rules import VERIFIER
from rankd.model.runs import read_run_token
from rankd.model.window import Instant, parse_duration

PLAYER_ID_BYTES_MAX = 256
"""Holds any account id in use, e-mail addresses and two UUIDs included; it is kept per entry."""

SUBMISSION_KEY_BYTES_MAX = 128
"""Holds a match id with a prefix and a UUID. Every key is kept for the ledger's life."""

METADATA_BYTES_MAX = 2048
"""As JSON. A few facts about the run, shown with it; replays belong in a store of their own."""

ATTRIBUTES_MAX = 16
"""Twice the segments of a board, so that a game may send one set to all its boards."""

ATTRIBUTE_TEXT_BYTES_MAX = 128
"""An attribute names a part of the players: a region, a platform, a guild."""

LIVES_DAYS_MAX = 3_660
"""Ten years. A score that is to count longer than that counts for ever."""

BUILD_BYTES_MAX = 64
"""A version, a channel and a commit hash."""


class Submission(msgspec.Struct, frozen=True, gc=False):
    """A request that a score be counted, checked against its board. Made by ``Submission.of``."""

    board: str
    player: str
    scores: Scores | None
    """One for each column, in smallest units. Exactly one of this and ``delta`` is given."""
    delta: int | None
    """Added to the first column of the player's entry, or to 0 without an entry."""
    key: str | None = None
    metadata: bytes | None = None
    """JSON with its keys sorted, so that the same content is the same bytes."""
    attributes: Attributes | None = None
    build: str | None = None
    at: Instant | None = None
    """When the client says it happened. Kept as data, never used for order."""
    run: str | None = None
    """The token of a run, not yet checked: the engine, which has the keys, records its id."""
    lives: int | None = None
    """Microseconds after which its effect ends; None if it does not."""
    overrides: ClassVar[bool] = False
    """An adjustment alone does."""

    @staticmethod
    def of(board: Board, body: Mapping[str, object]) -> "Submission":
        """Return the submission a request asks for.

        Raises InvalidSubmission, naming every field that is wrong, or ScoreOutOfBounds.
        """
        return _read_submission(board, body)

    def fact(self, *, actor: str | None = None) -> ScoreSubmitted:
        """Return the fact that records it, with its actor."""
        said = (
            *(self.board, self.player, self.scores, self.delta, self.key, self.metadata),
            *(self.attributes, self.build, self.at, self.run, actor),
        )
        if self.lives is None:
            return ScoreSubmitted(*said)
        return ExpiringScoreSubmitted(*said, lives=self.lives)


# ---------------------------------------------------------------------------- verdicts


class Counted(msgspec.Struct, frozen=True, gc=False):
    """The submission counts, and these are the entry's scores now."""

    scores: Scores
    moved: bool
    """Whether they differ from those before. If not, the entry keeps its order key: a place among
    equals is lost by scoring otherwise, not by scoring the same again."""


class NotBetter(msgspec.Struct, frozen=True, gc=False):
    """Understood and kept out: the entry stays at these scores."""

    scores: Scores


class Held(msgspec.Struct, frozen=True, gc=False):
    """Not counted until a moderator has decided."""

    reason: str


class Rejected(msgspec.Struct, frozen=True, gc=False):
    """Recorded, and cannot count on this board. The code is for programs and never changes."""

    code: str
    message: str


Verdict = Counted | NotBetter | Held | Rejected

OUT_OF_BOUNDS = Rejected(
    ScoreOutOfBounds.code, "the resulting score lies outside the bounds of the board"
)
OVERFLOW = Rejected("score_overflow", "the resulting score does not fit 64 bits")
COLUMNS_CHANGED = Rejected(
    "columns_changed", "the submission was made when the board had other columns"
)
ATTEMPTS_EXHAUSTED = Rejected(
    AttemptsExhausted.code, "the player has made all attempts that the window takes"
)
PLAYER_BANNED = Rejected("player_banned", "the player is banned from the board")
RULE_BROKEN = Rejected("rule_broken", "the submission breaks a rule of the board")
IN_REVIEW = Held("rule_broken")
IN_VERIFICATION = Held(VERIFIER)
RUN_USED = Rejected(RunUsed.code, str(RunUsed()))
RUN_EXPIRED = Rejected(RunExpired.code, str(RunExpired()))
DELTA_UNSUPPORTED = Rejected(
    "delta_unsupported", "a board that keeps the first score takes no delta"
)


# A member looked up on its class costs more than all else that judging does.
_BEST, _LATEST, _SUM, _FIRST = ScoreRule.BEST, ScoreRule.LATEST, ScoreRule.SUM, ScoreRule.FIRST


class Submitted(Protocol):
    """The fields that ``judge`` reads, of a Submission or of its fact."""

    @property
    def scores(self) -> Scores | None:
        """The scores submitted, one for each column."""

    @property
    def delta(self) -> int | None:
        """The amount to add to the first column."""

    @property
    def overrides(self) -> bool:
        """Whether it sets or shifts the entry under any rule of the board."""


def judge(board: Board, submitted: Submitted, current: Scores | None, at: Instant = 0) -> Verdict:
    """Decide the outcome of a submission for a player's entry in one ranking. Never raises.

    ``current`` holds the entry's scores, None where there is no entry; each window has its own, and
    so its own verdict. Under decay these, and those of the verdict, are an Amount, and ``at`` is
    the instant of the submission. O(columns).
    """
    if board.decay is not None:
        entry = None if current is None else Amount(*current)
        return _judge_decaying(board, board.decay, submitted, entry, at)
    scores = submitted.scores
    if scores is None:
        if board.rule is _FIRST and not submitted.overrides:
            return DELTA_UNSUPPORTED
        return _judge_delta(board, submitted.delta or 0, current)
    if len(scores) != board.width:
        return COLUMNS_CHANGED
    rule = _LATEST if submitted.overrides else board.rule
    if rule is _SUM and current is not None:
        return _judge_total(board, _sum(scores, current), current)
    if not board.score_low <= scores[0] <= board.score_high:
        return OUT_OF_BOUNDS
    if current is None:
        return Counted(scores, True)
    if rule is _BEST:
        return Counted(scores, True) if board.is_better(scores, current) else NotBetter(current)
    if rule is _LATEST:
        return Counted(scores, scores != current)
    return NotBetter(current)


def _judge_delta(board: Board, delta: int, current: Scores | None) -> Verdict:
    if current is None:
        return _judge_total(board, (delta,) + (0,) * (board.width - 1), None)
    return _judge_total(board, (current[0] + delta, *current[1:]), current)


def _sum(scores: Scores, current: Scores) -> Scores:
    if len(scores) == 1:
        return (scores[0] + current[0],)
    return tuple(map(int.__add__, scores, current))


def _judge_total(board: Board, total: Scores, current: Scores | None) -> Verdict:
    """Judge a sum: the bounds apply to the total, not to its parts."""
    if board.score_low <= total[0] <= board.score_high and (len(total) == 1 or _fits(total)):
        return Counted(total, total != current)
    return OUT_OF_BOUNDS if _fits(total) else OVERFLOW


def _fits(scores: Scores) -> bool:
    return min(scores) >= SCORE_MIN and max(scores) <= SCORE_MAX


def _judge_decaying(
    board: Board, decay: Decay, submitted: Submitted, current: Amount | None, at: Instant
) -> Verdict:
    """Judge by the values at the instant of the submission, or of the entry if that is later."""
    scores = submitted.scores
    at = at if current is None else max(at, current.at)
    if scores is None:
        return _judge_increase(board, decay, submitted.delta or 0, current, at)
    if len(scores) != 1:
        return COLUMNS_CHANGED
    rule = _LATEST if submitted.overrides else board.rule
    if rule is _SUM and current is not None:
        return _judge_increase(board, decay, scores[0], current, at)
    if not board.score_low <= scores[0] <= board.score_high:
        return OUT_OF_BOUNDS
    entry = decay.entry(scores[0] * decay.scale, at)
    if current is None:
        return Counted(entry, True)
    word, before = decay.word(entry), decay.word(current)
    if rule is _LATEST:
        return Counted(entry, True) if word != before else Counted(current, False)
    return Counted(entry, True) if word > before else NotBetter(current)


def _judge_increase(
    board: Board, decay: Decay, added: int, current: Amount | None, at: Instant
) -> Verdict:
    """Judge an increase of the value at an instant, or of 0 where there is no entry."""
    scale, before = decay.scale, 0 if current is None else decay.amount(current, at)
    total = before + added * scale
    if not board.score_low * scale <= total <= board.score_high * scale:
        fits = SCORE_MIN * scale <= total <= SCORE_MAX * scale
        return OUT_OF_BOUNDS if fits else OVERFLOW
    if current is not None and not added:
        return Counted(current, False)
    return Counted(decay.entry(total, at), True)


# --------------------------------------------------------------------- reading many

Item = tuple[str, object] | Mapping[str, object]
"""A player with a score, or a mapping as a request has it."""

_PLAIN = frozenset({"board", "player", "score", "key", "attributes"})


def read_facts(
    board: Board, items: Sequence[Item], *, actor: str | None = None, first: int | None = None
) -> list[ScoreSubmitted]:
    """Return the facts that record some submissions to one board.

    Raises InvalidSubmission, naming the first item that is wrong, or ScoreOutOfBounds. ``first`` is
    the place of the first item where these are a part of many; None where they are all there are.
    """
    facts: list[ScoreSubmitted] = []
    add, name = facts.append, board.name
    low, high = board.score_low, board.score_high
    plain = takes_plain(board)
    for item in items:
        if type(item) is tuple and len(item) == 2:
            player, score = item
            if (
                plain
                and type(score) is int
                and low <= score <= high
                and type(player) is str
                and 0 < len(player) <= PLAYER_ID_BYTES_MAX
                and player.isascii()
                and player.isprintable()
                and not player.isspace()
            ):
                add(
                    ScoreSubmitted(
                        name, player, (score,), None, None, None, None, None, None, None, actor
                    )
                )
                continue
            item = {"player": player, "score": score}
        elif plain and type(item) is dict and item.keys() <= _PLAIN:
            fact = _read_plain(item, board, actor)
            if fact is not None:
                add(fact)
                continue
        try:
            add(Submission.of(board, _as_body(item)).fact(actor=actor))
        except Invalid as exc:
            if len(items) == 1 and first is None:
                raise
            raise at_item((first or 0) + len(facts), exc) from exc
    return facts


def takes_plain(board: Board) -> bool:
    """Whether a board has the commonest shape: one column of whole numbers, without runs required.

    Its bounds apply to each submission and not to a total.
    """
    whole = board.width == 1 and board.decimals == 0 and board.rule is not _SUM
    return whole and not board.run_options.required and board.verifier is None


def _read_plain(
    item: Mapping[str, object], board: Board, actor: str | None
) -> ScoreSubmitted | None:
    if item.get("board", board.name) != board.name:
        return None
    plain = PlainFields(
        item.get("player"), item.get("score"), item.get("key"), item.get("attributes")
    )
    return read_plain(board, plain, actor=actor)


class PlainSubmission(Protocol):
    """The fields of nearly every submission, and no others, as they were sent."""

    @property
    def player(self) -> object:
        """The player's id."""

    @property
    def score(self) -> object:
        """The score, in whole numbers."""

    @property
    def key(self) -> object:
        """The submission key."""

    @property
    def attributes(self) -> object:
        """The player's attributes."""

    @property
    def metadata(self) -> object:
        """The metadata of the entry."""


class PlainFields(NamedTuple):
    """A plain submission made of its fields."""

    player: object
    score: object
    key: object = None
    attributes: object = None
    metadata: object = None


def read_plain(board: Board, plain: PlainSubmission, *, actor: str | None) -> ScoreSubmitted | None:
    """Return the fact of a plain submission, None where it has to be looked at with care.

    Only to a board that takes them.
    """
    player, score, key = plain.player, plain.score, plain.key
    if type(score) is not int or not board.score_low <= score <= board.score_high:
        return None
    if not valid_new_player(player):
        return None
    if key is not None and not is_text(key, SUBMISSION_KEY_BYTES_MAX):
        return None
    metadata = attributes = None
    if plain.metadata is not None:
        errors: Errors = []
        metadata = read_metadata(plain.metadata, "metadata", errors)
        if errors:
            return None
    if plain.attributes is not None and not (attributes := _plain_attributes(plain.attributes)):
        return None
    return ScoreSubmitted(
        board.name, player, (score,), None, key, metadata, attributes, None, None, None, actor
    )


def read_plain_batch(
    board: Board,
    items: Sequence[tuple[str, int, str | None, Mapping[str, str] | None]],
    *,
    actor: str | None,
) -> list[ScoreSubmitted] | None:
    """Return the facts of plain submissions, as ``read_plain`` does for one; None unless for all.

    An item is a player, a score, a key and attributes. Checks whole columns, at a third of the
    cost.
    """
    players, scores, keys, attributes = zip(*items, strict=True)
    if min(scores) < board.score_low or max(scores) > board.score_high:
        return None
    if not _are_plain_ids(players) and not all(map(valid_new_player, players)):
        return None
    if any(key is not None and not is_text(key, SUBMISSION_KEY_BYTES_MAX) for key in set(keys)):
        return None
    each = {id(some): some for some in attributes}  # Many may share one object.
    read = {one: None if some is None else _plain_attributes(some) for one, some in each.items()}
    told = [read[id(some)] for some in attributes]
    if told.count(None) != attributes.count(None):
        return None
    name = board.name
    return [
        ScoreSubmitted(name, player, (score,), None, key, None, some, None, None, None, actor)
        for player, score, key, some in zip(players, scores, keys, told, strict=True)
    ]


def _plain_attributes(attributes: object) -> Attributes | None:
    """Return attributes of text, sorted by name; None if they have to be looked at with care."""
    if type(attributes) is not dict or not 0 < len(attributes) <= ATTRIBUTES_MAX:
        return None
    try:
        return _read_plain_attributes(tuple(attributes.items()))
    except (TypeError, ValueError):  # A value that cannot be hashed is no text, either.
        return None


@lru_cache(maxsize=4096)
def _read_plain_attributes(items: tuple[tuple[object, object], ...]) -> Attributes:
    """Return the same of names and values, or raise ValueError. Most submissions tell the same few.

    Those that are none are not cached: they may be of any length.
    """
    found: dict[str, str | int | bool] = {}
    errors: Errors = []
    for name, value in items:
        if type(name) is not str or type(value) is not str:
            raise ValueError("attributes of text are plain, no others")
        _check_attribute(name, value, "", errors)
        found[name] = value
    if errors:
        raise ValueError("these are no attributes")
    return shared_attributes(dict(sorted(found.items())))


def _are_plain_ids(players: Sequence[str]) -> bool:
    """Whether all are ids of visible ASCII characters, without spaces."""
    together = "".join(players)
    if not (together.isascii() and together.isprintable()) or " " in together:
        return False
    sizes = [*map(len, players)]
    return min(sizes) > 0 and max(sizes) <= PLAYER_ID_BYTES_MAX


def _as_body(item: Item) -> Mapping[str, object]:
    if isinstance(item, tuple):
        raise InvalidSubmission([FieldError("", "must be a player and a score, or an object")])
    return item


def at_item(place: int, error: Invalid) -> InvalidSubmission:
    """Return the errors of one item, with its place in the batch."""
    return InvalidSubmission(
        [FieldError(f"[{place}].{field}".rstrip("."), said) for field, said in error.errors]
    )


# ----------------------------------------------------------------- reading a request

A_TIME = "a time such as 2026-11-14T09:30:00Z"
"""The expected format of a time, for error messages."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_RFC_3339 = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)

Errors = list[FieldError]


def _read_submission(board: Board, body: Mapping[str, object]) -> Submission:
    if type(body) is not dict and not isinstance(body, Mapping):
        raise InvalidSubmission([FieldError("", "must be an object")])
    errors: Errors = []
    scores = delta = None
    if body.get("delta") is not None:
        delta = _read_delta(board, body, errors)
    elif board.width == 1 and body.get("columns") is None:
        scores = _read_single(board, body.get("score"), errors)
    else:
        scores = _read_columns(board, body, errors)
    player = _read_player(body.get("player"), errors)
    optional = _read_optional(board, body, errors)
    if errors:
        raise InvalidSubmission(errors)
    if scores is not None and board.rule is not _SUM:
        _check_bounds(board, scores[0])
    return Submission(board.name, player, scores, delta, **optional)


def _check_bounds(board: Board, score: int) -> None:
    """Refuse a score that can never count. The bounds of a sum apply to its total, in ``judge``."""
    if not board.score_low <= score <= board.score_high:
        low, high = board.show_score(board.score_low), board.show_score(board.score_high)
        raise ScoreOutOfBounds(board=board.name, low=low, high=high)


def _read_optional(board: Board, body: Mapping[str, object], errors: Errors) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in body.items():
        if name in _READ_ELSEWHERE or value is None:
            continue
        if (read := _OPTIONAL.get(name)) is not None:
            found[name] = read(value, name, errors)
        elif name != "board":
            errors.append(FieldError(shown_name(name), _UNKNOWN))
        elif value != board.name:
            errors.append(FieldError("board", "must be the board it is submitted to"))
    return found


# ...... its scores


def _read_score(board: Board, value: object, path: str, errors: Errors) -> int:
    try:
        return board.parse_score(value)
    except ValueError as exc:
        errors.append(FieldError(path, str(exc)))
        return 0


def _read_single(board: Board, value: object, errors: Errors) -> Scores:
    if value is None:
        errors.append(FieldError("score", "must be given, or else delta"))
        return (0,)
    return (_read_score(board, value, "score", errors),)


def _read_delta(board: Board, body: Mapping[str, object], errors: Errors) -> int:
    if board.rule is _FIRST:
        errors.append(FieldError("delta", "cannot change a board that keeps the first score"))
    errors += [
        FieldError(other, "cannot be combined with delta")
        for other in ("score", "columns")
        if body.get(other) is not None
    ]
    return _read_score(board, body["delta"], "delta", errors)


def _read_columns(board: Board, body: Mapping[str, object], errors: Errors) -> Scores:
    """Read one score for each column: all by name, or the first as ``score``, the rest by name."""
    names = [column.name for column in board.columns]
    given = body.get("columns")
    if given is None:
        given = {}
    elif not isinstance(given, Mapping):
        errors.append(FieldError("columns", "must be an object of a score for each column"))
        given = {}
    errors += [
        FieldError(f"columns.{shown_name(name)}", "is not a column of this board")
        for name in given
        if name not in names
    ]
    values = {f"columns.{name}": given.get(name) for name in names}
    if (score := body.get("score")) is not None:
        first, *_ = values
        if values.pop(first) is not None:
            errors.append(FieldError(first, "is given as score already"))
        values = {"score": score, **values}
    return tuple(_read_needed(board, value, path, errors) for path, value in values.items())


def _read_needed(board: Board, value: object, path: str, errors: Errors) -> int:
    if value is None:
        errors.append(FieldError(path, "must be given"))
        return 0
    return _read_score(board, value, path, errors)


# ...... what comes with them


def valid_player(value: object) -> bool:
    """Whether this can be a player's id: 1 to PLAYER_ID_BYTES_MAX bytes of printable UTF-8.

    New ids must also be visible and must not change the direction of text (``valid_new_player``).
    Ledgers hold older ids without these properties, and their players stay readable.
    """
    return is_text(value, PLAYER_ID_BYTES_MAX)


NEW_PLAYER = (
    f"text of 1 to {PLAYER_ID_BYTES_MAX} bytes, all printable, some of it visible,"
    " none that turns text around"
)
"""The ids that ``valid_new_player`` accepts, in words."""


def valid_new_player(value: object) -> TypeGuard[str]:
    """Whether this can be the id of a new player."""
    if not is_text(value, PLAYER_ID_BYTES_MAX):
        return False
    if value.isascii():
        return not value.isspace()
    return not TURNING.search(value) and is_visible(value)


def _read_player(value: object, errors: Errors) -> str:
    if valid_new_player(value):
        return value
    if value is None:
        errors.append(FieldError("player", "is missing"))
        return ""
    errors.append(FieldError("player", f"must be {NEW_PLAYER}"))
    return ""


def is_text(value: object, bytes_max: int) -> TypeGuard[str]:
    """Whether this is printable text of 1 to ``bytes_max`` bytes of UTF-8."""
    if not isinstance(value, str) or not 0 < len(value) <= bytes_max:
        return False
    if value.isascii():
        return value.isprintable()
    return not UNPRINTABLE.search(value) and len(value.encode()) <= bytes_max


def _read_text(value: object, path: str, bytes_max: int, errors: Errors) -> str:
    if is_text(value, bytes_max):
        return value
    errors.append(FieldError(path, f"must be text of 1 to {bytes_max} bytes, all printable"))
    return ""


def _text_reader(bytes_max: int) -> Callable[[object, str, Errors], str]:
    return lambda value, path, errors: _read_text(value, path, bytes_max, errors)


def read_instant(text: str) -> Instant:
    """Return the instant that a time of RFC 3339 names. Raises ValueError."""
    if not _RFC_3339.fullmatch(text):
        raise ValueError("not a time of RFC 3339")
    return (datetime.fromisoformat(text.upper()) - _EPOCH) // _MICROSECOND


def _read_at(value: object, path: str, errors: Errors) -> Instant:
    try:
        if isinstance(value, str):
            return read_instant(value)
    except ValueError:
        pass
    errors.append(FieldError(path, f"must be {A_TIME}"))
    return 0


def _read_run(value: object, path: str, errors: Errors) -> str:
    if isinstance(value, str) and read_run_token(value) is not None:
        return value
    errors.append(FieldError(path, "must be a run just as it was handed out"))
    return ""


def _refuse_signature(_value: object, path: str, errors: Errors) -> None:
    """Refuse a field that clients expect to be checked: accepting it unread would mislead them."""
    errors.append(FieldError(path, "goes into the header Rankd-Signature"))


def _read_lives(value: object, path: str, errors: Errors) -> int:
    """Return microseconds."""
    try:
        lives = parse_duration(value if isinstance(value, str) else "")
        if lives > timedelta(days=LIVES_DAYS_MAX):
            errors.append(FieldError(path, f"must be at most {LIVES_DAYS_MAX}d"))
        return lives // _MICROSECOND
    except ValueError as exc:
        errors.append(FieldError(path, str(exc)))
        return 0


def read_metadata(value: object, path: str, errors: Errors) -> bytes:
    """Return metadata as JSON; add its faults to ``errors``."""
    encoded = encode_json(value, bytes_max=METADATA_BYTES_MAX)
    if encoded is None:
        errors.append(FieldError(path, json_form(METADATA_BYTES_MAX)))
    return encoded or b""


def read_attributes(value: object, path: str, errors: Errors) -> Attributes:
    """Return a player's attributes by name, sorted; add their faults to ``errors``."""
    if not isinstance(value, Mapping) or len(value) > ATTRIBUTES_MAX:
        errors.append(FieldError(path, f"must be an object of at most {ATTRIBUTES_MAX} attributes"))
        return {}
    for name, attribute in value.items():
        _check_attribute(name, attribute, path, errors)
    return {} if errors else dict(sorted(value.items()))


def _check_attribute(name: object, value: object, path: str, errors: Errors) -> None:
    if not isinstance(name, str) or len(name) > SEGMENT_NAME_LENGTH_MAX or not NAME.fullmatch(name):
        accepted = f"1 to {SEGMENT_NAME_LENGTH_MAX} of the characters A-Z a-z 0-9 _ . -"
        errors.append(FieldError(f"{path}.{shown_name(name)}", f"must have a name of {accepted}"))
    whole = isinstance(value, int) and SCORE_MIN <= value <= SCORE_MAX  # A boolean is one, too.
    if not whole and not is_text(value, ATTRIBUTE_TEXT_BYTES_MAX):
        accepted = f"text of 1 to {ATTRIBUTE_TEXT_BYTES_MAX} bytes"
        message = f"must be {accepted}, a 64-bit integer, true or false"
        errors.append(FieldError(f"{path}.{shown_name(name)}", message))


_UNKNOWN = "is unknown: what is known of a player goes in attributes, anything else in metadata"
_READ_ELSEWHERE = frozenset({"player", "score", "delta", "columns"})
_OPTIONAL: dict[str, Callable[[object, str, Errors], Any]] = {
    "key": _text_reader(SUBMISSION_KEY_BYTES_MAX),
    "metadata": read_metadata,
    "attributes": read_attributes,
    "build": _text_reader(BUILD_BYTES_MAX),
    "at": _read_at,
    "run": _read_run,
    "lives": _read_lives,
    "signature": _refuse_signature,
}
