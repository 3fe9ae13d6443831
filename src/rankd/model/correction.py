"""Requests for corrections: adjustments, selections of submissions, and states of players."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from rankd.errors import FieldError, InvalidRequest, InvalidSubmission
from rankd.model.board import BOARD_NAME_LENGTH_MAX, NAME, Board, ScoreRule, shown_name
from rankd.model.facts import Position, ScoreAdjusted
from rankd.model.profile import read_reason
from rankd.model.submission import (
    A_TIME,
    BUILD_BYTES_MAX,
    SUBMISSION_KEY_BYTES_MAX,
    Submission,
    is_text,
    read_instant,
    valid_player,
)
from rankd.model.window import Instant

RETRACTED_POSITIONS_MAX = 1_000
"""Positions that one retraction names. For more there are players, builds and times."""

RETRACTED_PLAYERS_MAX = 1_000
"""Players that one retraction names, or that a range of scores may have."""

STATE_BOARDS_MAX = 100
"""Boards that one state of a player names."""

WINDOW_BYTES_MAX = 256
"""Of a window's name or id."""

_ADJUSTED = frozenset({"player", "score", "delta", "columns", "key", "metadata", "reason", "board"})
_SELECTED = (
    *("position", "positions", "key", "player", "players", "build", "since", "until"),
    *("score_min", "score_max"),
)
_ABOUT = ("reason", "window")
_NAMED = ("position", "positions", "key", "player", "players")


def read_adjustment(
    board: Board, body: Mapping[str, object], *, actor: str | None
) -> ScoreAdjusted:
    """Return the fact of an adjustment. Raises InvalidSubmission, ScoreOutOfBounds."""
    unknown = [
        FieldError(shown_name(name), "is not a field of an adjustment")
        for name in body
        if name not in _ADJUSTED
    ]
    if unknown:
        raise InvalidSubmission(unknown)
    reason = read_reason(body.get("reason"))
    rest = {name: value for name, value in body.items() if name != "reason"}
    # A board that keeps the first score takes no difference in a submission, but in a correction.
    parsed = board if board.rule is ScoreRule.SUM else replace(board, rule=ScoreRule.LATEST)
    fact = Submission.of(parsed, rest).fact(actor=actor)
    return ScoreAdjusted(
        board.name,
        fact.player,
        fact.scores,
        fact.delta,
        fact.key,
        fact.metadata,
        actor=actor,
        reason=reason,
    )


class Selection(NamedTuple):
    """The conditions of a retraction, all of which a submission has to meet."""

    positions: tuple[Position, ...] = ()
    key: str | None = None
    player: str | None = None
    build: str | None = None
    since: Instant | None = None
    until: Instant | None = None
    players: tuple[str, ...] = ()
    score_min: object = None
    score_max: object = None
    """Bounds of the entries whose players are meant, read by the terms of their window."""
    window: str | None = None
    """The window of these entries; the first of the board if absent."""

    @property
    def has_range(self) -> bool:
        """Whether it has a range of scores."""
        return self.score_min is not None or self.score_max is not None


def read_selection(body: Mapping[str, object]) -> Selection:
    """Return the conditions of a request. Raises InvalidRequest, also where there is none."""
    errors = [
        FieldError(shown_name(name), f"is unknown; known are {', '.join(_SELECTED + _ABOUT)}")
        for name in body
        if name not in _SELECTED + _ABOUT
    ]
    selection = Selection(
        _positions(body, errors),
        _text(body, "key", SUBMISSION_KEY_BYTES_MAX, errors),
        _player(body, errors),
        _text(body, "build", BUILD_BYTES_MAX, errors),
        _time(body, "since", errors),
        _time(body, "until", errors),
        _players(body, errors),
        body.get("score_min"),
        body.get("score_max"),
        _text(body, "window", WINDOW_BYTES_MAX, errors),
    )
    errors += _contradictions(body, selection)
    if not errors and selection._replace(window=None) == Selection():
        errors.append(FieldError("", f"must have one of {', '.join(_SELECTED)}"))
    if errors:
        raise InvalidRequest(errors)
    return selection


def _contradictions(body: Mapping[str, object], selection: Selection) -> list[FieldError]:
    errors = []
    if selection.has_range:
        named = [name for name in _NAMED if body.get(name) is not None]
        errors += [FieldError(name, "cannot be combined with a range of scores") for name in named]
    elif selection.window is not None:
        errors.append(FieldError("window", "is that of score_min and score_max"))
    if selection.player is not None and selection.players:
        errors.append(FieldError("players", "cannot be combined with player"))
    return errors


def _players(body: Mapping[str, object], errors: list[FieldError]) -> tuple[str, ...]:
    given = body.get("players")
    if given is None:
        return ()
    if (
        isinstance(given, list | tuple)
        and 0 < len(given) <= RETRACTED_PLAYERS_MAX
        and all(map(valid_player, given))
    ):
        return tuple(sorted(set(given)))
    most = f"1 to {RETRACTED_PLAYERS_MAX:,} ids of players"
    errors.append(FieldError("players", f"must be {most}"))
    return ()


def _positions(body: Mapping[str, object], errors: list[FieldError]) -> tuple[Position, ...]:
    given = body.get("positions")
    if given is None and body.get("position") is None:
        return ()
    several: object = [body["position"]] if given is None else given
    if (
        isinstance(several, list | tuple)
        and 0 < len(several) <= RETRACTED_POSITIONS_MAX
        and all(type(one) is int and 0 < one < 2**63 for one in several)
    ):
        return tuple(sorted({Position(one) for one in several}))
    if given is None:
        errors.append(FieldError("position", "must be the position of a submission"))
    else:
        most = f"1 to {RETRACTED_POSITIONS_MAX:,} positions of submissions"
        errors.append(FieldError("positions", f"must be {most}"))
    return ()


def _text(
    body: Mapping[str, object], name: str, bytes_max: int, errors: list[FieldError]
) -> str | None:
    value = body.get(name)
    if value is None or is_text(value, bytes_max):
        return value
    errors.append(FieldError(name, f"must be text of 1 to {bytes_max} bytes, all printable"))
    return None


def _player(body: Mapping[str, object], errors: list[FieldError]) -> str | None:
    value = body.get("player")
    if value is None:
        return None
    if not valid_player(value):
        errors.append(FieldError("player", "must be the id of a player"))
        return None
    assert isinstance(value, str)
    return value


def _time(body: Mapping[str, object], name: str, errors: list[FieldError]) -> Instant | None:
    value = body.get(name)
    if value is None:
        return None
    try:
        if isinstance(value, str):
            return read_instant(value)
    except ValueError:
        pass
    errors.append(FieldError(name, f"must be {A_TIME}"))
    return None


class StateRequest(NamedTuple):
    """A state that a player is to have."""

    boards: tuple[str, ...] | None
    until: Instant | None
    reason: str | None


def read_state(body: Mapping[str, object], now: Instant) -> StateRequest:
    """Return the boards, the end and the reason of a request. Raises InvalidRequest."""
    errors = [
        FieldError(shown_name(name), "is unknown; known are boards, reason, until")
        for name in body
        if name not in ("boards", "reason", "until")
    ]
    boards, given = None, body.get("boards")
    if given is not None:
        if (
            isinstance(given, list)
            and 0 < len(given) <= STATE_BOARDS_MAX
            and all(isinstance(name, str) and _is_board_name(name) for name in given)
        ):
            boards = tuple(sorted(set(given)))
        else:
            errors.append(FieldError("boards", f"must be 1 to {STATE_BOARDS_MAX} names of boards"))
    until = _time(body, "until", errors)
    if until is not None and until <= now:
        errors.append(FieldError("until", "must be a time that is still to come"))
    if errors:
        raise InvalidRequest(errors)
    return StateRequest(boards, until, read_reason(body.get("reason")))


def _is_board_name(name: str) -> bool:
    """Whether a board can have this name; there need not be one."""
    return len(name) <= BOARD_NAME_LENGTH_MAX and NAME.fullmatch(name) is not None
