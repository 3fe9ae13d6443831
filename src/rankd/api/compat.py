"""Compatibility routes: the well-known paths and field names of system-design texts.

A client written from such a text works unchanged. The texts agree on the operations but not on the
names: one has players with numeric ids, another has users with ids of text. So each route uses the
field names of the text that prints it, and the one path that two of them print
(``/api/v1/leaderboard/rank/{player_id}``) returns the fields of both.

Internally an id is text. A response to a submission repeats the id in the type in which it was
sent. In lists that type is unknown: there, routes of the text with numeric ids return an id as a
number if it is the canonical decimal form of a 64-bit integer.

The board is ``global`` unless ``type`` or ``leaderboard_type`` names another. A score for a missing
board creates it with the windows of these texts, if the client may create boards (see ``auth``),
because the texts have no step that defines one.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec

from rankd import schemas
from rankd.api.auth import Actor, check_writes
from rankd.api.context import ServiceContext, show_time
from rankd.api.messages import Request, Response, decode_body
from rankd.api.routing import NUMBERS, Handler, Param, Route
from rankd.api.scores import own_key
from rankd.api.signatures import check_signature, refuse_unsigned_key, signed_key
from rankd.core.reader import Page
from rankd.core.visibility import ANONYMOUS
from rankd.errors import (
    BoardDiffers,
    FieldError,
    Forbidden,
    IndexUnavailable,
    InvalidPage,
    InvalidRequest,
    InvalidSubmission,
    NotRanked,
    ScoreOutOfBounds,
    SubmissionKeyReused,
    SubmissionRejected,
    UnknownBoard,
    UnknownWindow,
)
from rankd.model.board import BOARD_NAME_LENGTH_MAX, NAME, shown_name
from rankd.model.receipt import Receipt
from rankd.model.standing import (
    NEIGHBOURS_DEFAULT,
    NEIGHBOURS_MAX,
    PAGE_LIMIT_DEFAULT,
    PAGE_LIMIT_MAX,
    Rank,
    Standing,
)
from rankd.model.submission import SUBMISSION_KEY_BYTES_MAX, valid_player
from rankd.schemas import Score

BOARD_DEFAULT = "global"
WINDOWS = ("all", "daily", "weekly", "monthly")
"""The windows of a board that a first score creates."""

CREATED_BOARDS_MAX = 1_000
"""With this many boards a first score creates no more: a wrong field could name a million."""

MATCH_ID_BYTES_MAX = 256

SPELLINGS = {
    **dict.fromkeys(("all-time", "all_time", "alltime", "all", "forever", "overall"), "all"),
    **dict.fromkeys(("daily", "today", "day"), "daily"),
    **dict.fromkeys(("weekly", "this_week", "week"), "weekly"),
    **dict.fromkeys(("monthly", "this_month", "month"), "monthly"),
}
"""Window names of the texts. Any other name is a window that the board defines."""

ALL_TIME = "all_time"
"""The name of the window ``all`` in responses."""

ID_MIN, ID_MAX = -(2**63), 2**63 - 1
"""The range of a BIGINT, the type of numeric ids."""

SECONDS_MAX = 253_402_300_799
"""The last second of the year 9999: the bound of a numeric timestamp."""

_CANONICAL = re.compile(r"0|-?[1-9][0-9]{0,18}")

Id = int | str
PLAYER, USER = "player_id", "user_id"


# ------------------------------------------------------------------------------ shapes


class Scored(msgspec.Struct):
    """The effect of a score."""

    player_id: Id
    score: Score | None
    rank: int | None
    rank_change: int
    """Ranks gained; 0 without a previous rank."""
    percentile: float | None


class Incremented(msgspec.Struct):
    """The effect of an increment."""

    user_id: Id
    new_score: Score | None
    rank: int | None
    previous_rank: int | None


class Ingested(msgspec.Struct):
    """The effect of a match's score."""

    player_id: Id
    score: Score | None
    rank: int | None
    total_players: int
    match_id: str | None
    duplicate: bool
    """Whether this match was counted before; the other fields are then those of the first time."""


class TopPlayer(msgspec.Struct):
    """A player in a list; null in place of the id of one that is hidden to the reader."""

    rank: int
    player_id: Id | None
    player_name: str | None
    score: Score
    rank_change: int
    """Always 0: no earlier ranking is stored to compare with."""


class TopPlayers(msgspec.Struct):
    """The best players."""

    leaderboard_type: str
    period: str
    total_players: int
    players: list[TopPlayer]


class UserRow(msgspec.Struct):
    """A user in a list; null in place of the id of one that is hidden to the reader."""

    rank: int
    user_id: str | None
    username: str | None
    score: Score
    country: str | None


class TopUsers(msgspec.Struct):
    """The best users."""

    leaderboard_type: str
    total_users: int
    top_users: list[UserRow]
    as_of: str


class RankOfEither(msgspec.Struct):
    """One standing with the fields of both texts."""

    player_id: Id
    user_id: str
    username: str | None
    rank: int
    score: Score
    total_players: int
    total_users: int
    percentile: float


class ShortPlayer(msgspec.Struct):
    """A player in a short list."""

    rank: int
    player_id: Id | None
    score: Score


class ShortUser(msgspec.Struct):
    """A user in a short list."""

    rank: int
    user_id: str | None
    score: Score


class AroundPlayers(msgspec.Struct):
    """Players around a rank."""

    center_rank: int
    players: list[ShortPlayer]


class AroundUsers(msgspec.Struct):
    """Users around a rank."""

    leaderboard_type: str
    center_rank: int
    users: list[ShortUser]


class PlayerRank(msgspec.Struct):
    """One standing."""

    player_id: str
    rank: int
    score: Score
    total: int
    total_players: int


class Neighbour(msgspec.Struct):
    """A player in a neighbourhood."""

    rank: int
    player_id: str | None
    score: Score
    is_current_player: bool


class ListedPlayer(msgspec.Struct):
    """A player in a bare list."""

    rank: int
    player_id: str | None
    score: Score


# ---------------------------------------------------------------------------- writing


class CompatSubmission(msgspec.Struct):
    """A submission translated from a text's field names."""

    board: str
    id: Id
    body: dict[str, Any]
    """The submission in the fields of ``/v1``."""
    match_id: str | None = None


_OURS = {
    "player": PLAYER,
    "delta": "score_delta",
    "at": "timestamp",
    "key": "match_id",
    "metadata": "game_id",
}
"""Field names of the texts by those of ``/v1``, for error responses."""

_FIELDS = (
    *(PLAYER, USER, "score", "score_delta", "leaderboard_type", "type"),
    *("game_id", "match_id", "timestamp", "ts"),
)


def read_submission(given: Mapping[str, Any]) -> CompatSubmission:
    """Return the submission of a body. Raises InvalidRequest with every field that is wrong."""
    errors: list[FieldError] = []
    errors += [FieldError(shown_name(name), _UNKNOWN) for name in given if name not in _FIELDS]
    id = _only(given, (PLAYER, USER), errors, required=True)
    if id is not None and not _is_id(id):
        errors.append(FieldError(PLAYER, "must be a whole number, or text that is printable"))
    score, delta = given.get("score"), given.get("score_delta")
    if (score is None) == (delta is None):
        errors.append(FieldError("score", "or score_delta must be given, and only one of them"))
    board = _only(given, ("leaderboard_type", "type"), errors)
    if board is not None and not _is_board_name(board):
        errors.append(FieldError("leaderboard_type", "must be the name of a board"))
    body = {"player": str(id), "score": score, "delta": delta}
    body["at"] = _read_time(_only(given, ("timestamp", "ts"), errors), errors)
    match_id = _read_match(given.get("match_id"), errors)
    if match_id is not None:
        body["key"] = match_key(match_id, player=str(id))
    if given.get("game_id") is not None:
        body["metadata"] = {"game_id": given["game_id"]}
    if errors:
        raise InvalidRequest(errors)
    return CompatSubmission(board or BOARD_DEFAULT, id or "", body, match_id)


_UNKNOWN = f"is unknown; known are {', '.join(_FIELDS)}"


def _only(
    given: Mapping[str, Any],
    names: tuple[str, ...],
    errors: list[FieldError],
    *,
    required: bool = False,
) -> Any:
    """Return the value of the one alias that is present; report an error for several."""
    there = [name for name in names if given.get(name) is not None]
    if len(there) > 1:
        errors.append(FieldError(there[1], f"cannot be combined with {there[0]}"))
    if required and not there:
        errors.append(FieldError(names[0], f"or {names[1]} must be given"))
    return given[there[0]] if there else None


def _is_id(id: object) -> bool:
    if isinstance(id, int) and not isinstance(id, bool):
        return ID_MIN <= id <= ID_MAX
    return valid_player(id)


def _is_board_name(name: object) -> bool:
    return (
        isinstance(name, str)
        and len(name) <= BOARD_NAME_LENGTH_MAX
        and NAME.fullmatch(name) is not None
        and name not in (".", "..")
    )


def _read_time(given: object, errors: list[FieldError]) -> str | None:
    """Return a time as text. The engine validates text; a number is converted here."""
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, bool) or not isinstance(given, int | Decimal):
        errors.append(FieldError("timestamp", "must be RFC 3339, or seconds since 1970"))
        return None
    if 0 <= given <= SECONDS_MAX:
        return datetime.fromtimestamp(float(given), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    errors.append(FieldError("timestamp", "must be RFC 3339, or seconds since 1970"))
    return None


def _read_match(given: object, errors: list[FieldError]) -> str | None:
    if given is None:
        return None
    if isinstance(given, int) and not isinstance(given, bool):
        given = str(given)
    if not valid_player(given):
        errors.append(FieldError("match_id", f"must be text of 1 to {MATCH_ID_BYTES_MAX} bytes"))
        return None
    assert isinstance(given, str)
    return given


def match_key(match_id: str, *, player: str) -> str:
    """Return the submission key of a player's score in a match: one per player and match."""
    return own_key("match", match_id, player)


async def _submit(
    service: ServiceContext, request: Request, *, relative: bool = False
) -> tuple[CompatSubmission, Receipt]:
    """Submit a score given in the field names of a text."""
    service.auth.check_known(request)
    asked = read_submission(decode_body(request, dict[str, Any]))
    actor = service.auth.admit(request, "submit", asked.board)
    service.auth.count_scores(actor)
    if actor.player is not None and actor.player != asked.body["player"]:
        raise Forbidden("a player's token submits for that player only")
    signed = check_signature(service, request, [asked.board])
    refuse_unsigned_key(signed, request, asked.body)
    check_writes(actor, service.rankd.state.boards.get(asked.board), vouched=signed is not None)
    if relative and asked.body["delta"] is None:
        raise InvalidRequest([FieldError("score_delta", "must be given")])
    header = request.headers.get(b"idempotency-key")
    if header is not None:
        _take_key(asked, header.decode("latin-1").strip('"'))
    if signed is not None and asked.body.get("key") is None:
        asked.body["key"] = signed_key(signed)
    if asked.board not in service.rankd.state.boards:
        await _create(service, asked.board, actor)
    return asked, await _count(service, asked, actor)


def _take_key(asked: CompatSubmission, key: str) -> None:
    """Use the Idempotency-Key header as submission key, unless the body has a match_id."""
    if not valid_player(key) or len(key.encode()) > SUBMISSION_KEY_BYTES_MAX:
        message = f"must be printable, of 1 to {SUBMISSION_KEY_BYTES_MAX} bytes"
        raise InvalidRequest([FieldError("Idempotency-Key", message)])
    if asked.match_id is None:
        asked.body["key"] = key


async def _create(service: ServiceContext, board: str, actor: Actor) -> None:
    """Define the board of a first score. Raises UnknownBoard if the actor may not create one."""
    if not actor.may_create or len(service.rankd.state.boards) >= CREATED_BOARDS_MAX:
        raise UnknownBoard(board)
    with suppress(BoardDiffers):  # Another client defined it meanwhile.
        await service.writer.define(board, {"windows": list(WINDOWS)}, actor=actor.name)


async def _count(service: ServiceContext, asked: CompatSubmission, actor: Actor) -> Receipt:
    try:
        (answer,) = await service.writer.submit(asked.board, [asked.body], actor=actor.name)
    except InvalidSubmission as exc:
        raise InvalidSubmission(
            [FieldError(_OURS.get(field, field), message) for field, message in exc.errors]
        ) from None
    if answer.error is not None:
        raise answer.error
    if answer.pending is not None:
        raise IndexUnavailable("the score is recorded, and its rank is not known now")
    if answer.receipt is None:
        raise UnknownBoard(asked.board)
    if answer.receipt.rejected:
        raise service.rankd.rejection(answer.receipt)
    return answer.receipt


async def classic_score(service: ServiceContext, request: Request) -> Response:
    """Submit a score; return the new rank and the ranks gained."""
    asked, told = await _submit(service, request)
    return _scored(asked, told)


async def classic_increment(service: ServiceContext, request: Request) -> Response:
    """Add to a player's score."""
    asked, told = await _submit(service, request, relative=True)
    return _scored(asked, told)


def _scored(asked: CompatSubmission, told: Receipt) -> Response:
    change = told.rank_change or 0
    return Response(
        schemas.encode(Scored(asked.id, told.score, told.rank, change, told.percentile))
    )


async def classic_user_score(service: ServiceContext, request: Request) -> Response:
    """Submit or add to a user's score; return the rank before and after."""
    asked, told = await _submit(service, request)
    answer = Incremented(asked.id, told.score, told.rank, told.previous_rank)
    return Response(schemas.encode(answer))


async def classic_ingest(service: ServiceContext, request: Request) -> Response:
    """Submit the score of a match, counted once for each player however often it is sent."""
    asked, told = await _submit(service, request)
    answer = Ingested(asked.id, told.score, told.rank, told.total, asked.match_id, told.duplicate)
    return Response(schemas.encode(answer))


# ---------------------------------------------------------------------------- reading


def _admitted(service: ServiceContext, request: Request) -> tuple[Actor, dict[str, Any]]:
    """Return the actor, board and window of a request that may read them."""
    query, errors = request.query, list[FieldError]()
    board = _only(query, ("type", "leaderboard_type"), errors) or BOARD_DEFAULT
    window = _only(query, ("period", "window"), errors)
    actor = service.auth.admit(request, "read", board)
    if errors:
        raise InvalidRequest(errors)
    return actor, {"board": board, "window": SPELLINGS.get(window, window)}


def number_or_text(player: str) -> Id:
    """Return an id as a number if it is the canonical decimal form of a 64-bit integer."""
    if _CANONICAL.fullmatch(player) and ID_MIN <= (number := int(player)) <= ID_MAX:
        return number
    return player


def _listed_id(player: str) -> Id | None:
    """Return an id of a list; None for a hidden player."""
    return None if player == ANONYMOUS else number_or_text(player)


async def classic_top(service: ServiceContext, request: Request) -> Response:
    """Return the top ``n`` players or ``k`` users, each with the fields of its text."""
    actor, which = _admitted(service, request)
    n, k = request.query["n"], request.query["k"]
    if n is not None and k is not None:
        raise InvalidRequest([FieldError("k", "cannot be combined with n")])
    page = await _top(service, actor, n or k or PAGE_LIMIT_DEFAULT, which)
    answer = _top_players(page) if k is None else _top_users(service, page)
    return Response(schemas.encode(answer))


async def _top(service: ServiceContext, actor: Actor, limit: int, which: dict[str, Any]) -> Page:
    await service.wait_for_head(which["board"])
    where = service.rankd.reader.where(**which)
    return await service.read_as(actor, where, lambda reader: reader.page(limit=limit, **which))


def _top_players(page: Page) -> TopPlayers:
    window = page.ranking.window.partition(":")[0]
    rows = [
        TopPlayer(one.rank, _listed_id(one.player), one.name, one.score, 0)
        for one in page.standings
    ]
    period = ALL_TIME if window == "all" else window
    return TopPlayers(page.ranking.board, period, page.total, rows)


def _top_users(service: ServiceContext, page: Page) -> TopUsers:
    now = service.clock.now()
    rows = [
        UserRow(one.rank, one.player or None, one.name, one.score, _country(service, one))
        for one in page.standings
    ]
    as_of = show_time(now - now % 1_000_000) or ""
    return TopUsers(page.ranking.board, page.total, rows, as_of)


def _country(service: ServiceContext, one: Standing) -> str | None:
    country = service.rankd.state.profile(one.player).attributes.get("country")
    return None if country is None else str(country)


async def classic_top_list(service: ServiceContext, request: Request) -> Response:
    """Return the top players as a bare list."""
    actor, which = _admitted(service, request)
    n = _read_number(request.params["n"], "n", high=PAGE_LIMIT_MAX)
    page = await _top(service, actor, n, which)
    return Response(
        schemas.encode(
            [ListedPlayer(one.rank, one.player or None, one.score) for one in page.standings]
        )
    )


async def _standing(service: ServiceContext, request: Request) -> Standing:
    actor, which = _admitted(service, request)
    await service.wait_for_head(which["board"])
    player, where = request.params["player_id"], service.rankd.reader.where(**which)
    standing = await service.read_as(actor, where, lambda reader: reader.standing_in(where, player))
    if standing is None:
        raise NotRanked(board=which["board"], window=where.ranking.window, player=player)
    return standing


async def classic_rank(service: ServiceContext, request: Request) -> Response:
    """Return one standing, with the fields of both texts that have this path."""
    one = await _standing(service, request)
    answer = RankOfEither(
        number_or_text(one.player),
        one.player,
        one.name,
        one.rank,
        one.score,
        one.total,
        one.total,
        one.percentile,
    )
    return Response(schemas.encode(answer))


async def classic_player_rank(service: ServiceContext, request: Request) -> Response:
    """Return one player's rank."""
    one = await _standing(service, request)
    return Response(
        schemas.encode(PlayerRank(one.player, one.rank, one.score, one.total, one.total))
    )


async def classic_around(service: ServiceContext, request: Request) -> Response:
    """Return the players around a rank."""
    actor, which = _admitted(service, request)
    rank = _read_number(request.params["rank"], "rank", high=ID_MAX)
    page = await _around(service, request, rank, actor, which)
    rows = [ShortPlayer(one.rank, _listed_id(one.player), one.score) for one in page.standings]
    return Response(schemas.encode(AroundPlayers(rank, rows)))


async def classic_nearby(service: ServiceContext, request: Request) -> Response:
    """Return the users around a rank."""
    actor, which = _admitted(service, request)
    rank = request.query["rank"]
    page = await _around(service, request, rank, actor, which)
    rows = [ShortUser(one.rank, one.player or None, one.score) for one in page.standings]
    return Response(schemas.encode(AroundUsers(which["board"], rank, rows)))


async def _around(
    service: ServiceContext, request: Request, rank: int, actor: Actor, which: dict[str, Any]
) -> Page:
    await service.wait_for_head(which["board"])
    reach, where = request.query["range"], service.rankd.reader.where(**which)
    return await service.read_as(
        actor, where, lambda reader: reader.around_rank(rank=Rank(rank), reach=reach, **which)
    )


async def classic_neighbours(service: ServiceContext, request: Request) -> Response:
    """Return a player and those just above and below it, fewer at an edge."""
    actor, which = _admitted(service, request)
    await service.wait_for_head(which["board"])
    player, reach = request.params["player_id"], request.query["range"]
    where = service.rankd.reader.where(**which)
    page = await service.read_as(
        actor,
        where,
        lambda reader: reader.around(player=player, above=reach, below=reach, **which),
    )
    players = [one.player for one in page.standings]
    at = players.index(player)
    near = page.standings[max(0, at - reach) : at + reach + 1]
    return Response(
        schemas.encode(
            [
                Neighbour(one.rank, one.player or None, one.score, one.player == player)
                for one in near
            ]
        )
    )


def _read_number(text: str, name: str, *, high: int) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 19 and 1 <= int(text) <= high:
        return int(text)
    raise InvalidRequest([FieldError(name, f"must be a whole number from 1 to {high}")])


# ------------------------------------------------------------------------------ routes

WHICH = (
    Param(name="type", length_max=BOARD_NAME_LENGTH_MAX, doc="the board; global if absent"),
    Param(name="leaderboard_type", length_max=BOARD_NAME_LENGTH_MAX, doc="the same as type"),
    Param(name="period", doc="daily, weekly, monthly, all_time; the last if absent"),
    Param(name="window", doc="the same as period"),
)
RANGE = Param(
    name="range",
    kind=int,
    default=NEIGHBOURS_DEFAULT,
    low=0,
    high=NEIGHBOURS_MAX,
    doc="how many either side",
)


def _how_many(name: str, what: str) -> Param:
    return Param(name=name, kind=int, low=1, high=PAGE_LIMIT_MAX, doc=f"how many {what}")


def _write(path: str, handler: Handler, answer: Any, operation: str | None = None) -> Route:
    return Route(
        method="POST",
        path=path,
        operation=operation or handler.__name__,
        handler=handler,
        params=(NUMBERS,),
        scope="submit",
        hot=True,
        body=dict,
        writes=True,
        responses={200: answer},
        errors=(
            UnknownBoard,
            UnknownWindow,
            InvalidSubmission,
            ScoreOutOfBounds,
            SubmissionRejected,
            SubmissionKeyReused,
        ),
    )


def _read(path: str, handler: Handler, answer: Any, *params: Param) -> Route:
    return Route(
        method="GET",
        path=path,
        operation=handler.__name__,
        handler=handler,
        scope="read",
        hot=True,
        params=(*WHICH, *params, NUMBERS),
        responses={200: answer},
        errors=(UnknownBoard, UnknownWindow, NotRanked, InvalidPage),
    )


_BASE = "/api/v1/leaderboard"

ROUTES = (
    _write(f"{_BASE}/score", classic_score, Scored),
    _write(f"{_BASE}/score/increment", classic_increment, Scored),
    _write("/api/v1/scores", classic_user_score, Incremented),
    _write("/ingest/score", classic_ingest, Ingested),
    _write("/scores", classic_ingest, Ingested, "classic_scores"),
    _read(
        f"{_BASE}/top",
        classic_top,
        (TopPlayers, TopUsers),
        _how_many("n", "players"),
        _how_many("k", "users"),
    ),
    _read(f"{_BASE}/rank/{{player_id}}", classic_rank, RankOfEither),
    _read(f"{_BASE}/around/{{rank}}", classic_around, AroundPlayers, RANGE),
    _read(
        f"{_BASE}/nearby",
        classic_nearby,
        AroundUsers,
        Param(name="rank", kind=int, required=True, low=1, high=ID_MAX, doc="in the middle"),
        RANGE,
    ),
    _read("/rank/{player_id}", classic_player_rank, PlayerRank),
    _read("/nearby/{player_id}", classic_neighbours, list[Neighbour], RANGE),
    _read("/top/{n}", classic_top_list, list[ListedPlayer]),
)
