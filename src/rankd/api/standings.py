"""Reading: who is where."""

from collections.abc import Callable
from hashlib import blake2b
from typing import Any

from rankd import wire
from rankd.api import shown
from rankd.api.body import decode_body
from rankd.api.exchange import Request, Response
from rankd.api.routes import Prepared
from rankd.api.service import MIN_POSITION_SECONDS_MAX, Service
from rankd.core.reader import LOOKUP_PLAYERS_MAX, Where
from rankd.core.reader import Page as FoundPage
from rankd.errors import FieldError, InvalidPage, InvalidRequest, NotRanked
from rankd.model.facts import Position
from rankd.model.standing import Offset, Rank
from rankd.ports import Ranked

PAGE_CACHE = b"public, max-age=1, stale-while-revalidate=5"
"""A browser may show a list that is a second old; whoever needs to know asks for no cache."""

SURROGATE = (b"surrogate-control", b"max-age=1, stale-while-revalidate=5")
"""The same for a content delivery network, which keeps this header to itself."""


async def _admitted(service: Service, request: Request) -> dict[str, Any]:
    """Return which ranking is asked for, once the asker may know and the position is there."""
    query = request.query
    service.gate.admit(request, "read", request.params.get("board"))
    if query.get("min_position") is not None:
        await _reached(service, query["min_position"])
    return {"window": query.get("window"), "segment": query.get("segment")}


async def _reached(service: Service, position: int) -> None:
    await service.rankd.reached(Position(position), within_seconds=MIN_POSITION_SECONDS_MAX)


def _response(service: Service, body: Any) -> Response:
    """Answer with a read, which says so if it may be old."""
    if service.rankd.stale:
        body.stale = True
    return Response(wire.encode(body))


async def get_standing(service: Service, request: Request) -> Response:
    """Return one player's standing."""
    params, query = request.params, request.query
    board, player = params["board"], params["player"]
    service.gate.admit(request, "read", board)
    if query["min_position"] is not None:
        await _reached(service, query["min_position"])
    reader = service.rankd.reader
    where = reader.where(board, query["window"], query["segment"])
    standing = await reader.standing_in(where, player)
    if standing is None:
        raise NotRanked(board=board, window=where.ranking.window, player=player)
    return _response(service, shown.one(standing, where.ranking, where.terms.board))


def standing_now(service: Service, request: Request) -> Response | None:
    """Return one player's standing, where nobody has to wait for it."""
    params, query, reader = request.params, request.query, service.rankd.reader
    if query["min_position"] is not None or not reader.immediate:
        return None
    board, player = params["board"], params["player"]
    service.gate.admit(request, "read", board)
    where = reader.where(board, query["window"], query["segment"])
    found = reader.ranked_now(where, player)
    if found is None:
        raise NotRanked(board=board, window=where.ranking.window, player=player)
    return _response(service, shown.ranked(found, where, player, reader.name(player)))


def prepare_standing(service: Service, request: Request) -> Prepared | None:
    """Return what tells the standing of any player in the ranking that is asked for."""
    encode, show, profiles = wire.encode, shown.ranked, service.rankd.book.profiles

    def answer(player: str, found: Ranked, where: Where) -> bytes:
        known = profiles.get(player)
        return encode(show(found, where, player, None if known is None else known.name))

    return _prepare(service, request, answer)


def prepare_around(service: Service, request: Request) -> Prepared | None:
    """Return what tells the neighbourhood of any player in the ranking that is asked for."""
    above, below = request.query["above"], request.query["below"]
    encode, show, around = wire.encode, shown.page, service.rankd.reader.around_now

    def answer(player: str, found: Ranked, where: Where) -> bytes:
        return encode(show(around(where, found, above=above, below=below), where.terms.board))

    return _prepare(service, request, answer)


def _prepare(
    service: Service, request: Request, answer: Callable[[str, Ranked, Where], bytes]
) -> Prepared | None:
    """Return what finds players until the book changes, and then has them answered."""
    view, query = service.rankd, request.query
    projector, book, revision = view.projector, view.book, view.book.revision
    if query["min_position"] is not None or view.stale or not service.gate.lasts(request):
        return None
    if ":-" in (query["window"] or ""):
        return None  # Which window that is, the clock decides.
    where = view.reader.where(request.params["board"], query["window"], query["segment"])
    seek = view.reader.seeker(where)
    if seek is None:
        return None

    def prepared(player: str) -> bytes | None:
        if book.revision != revision or view.projector is not projector:
            return None
        found = seek(player)
        return None if found is None else answer(player, found, where)

    return prepared


async def list_standings(service: Service, request: Request) -> Response:
    """Return a page: by offset, by rank, or on from a cursor."""
    which = await _admitted(service, request)
    board, query = request.params["board"], request.query
    offset, from_rank = query["offset"], query["from_rank"]
    rankd = service.rankd
    at = _moment(service)
    where = rankd.reader.where(board, **which)
    page = await rankd.reader.page(
        board,
        limit=query["limit"],
        offset=None if offset is None else Offset(offset),
        from_rank=None if from_rank is None else Rank(from_rank),
        cursor=query["cursor"],
        **which,
    )
    response = _ready_made(page, where.terms.board, stale=rankd.stale)
    if page.as_of == rankd.position:
        service.pages.keep(at, _asked(request), response)
    return _unless_known(request, response)


def standings_now(service: Service, request: Request) -> Response | None:
    """Return a page that was made already and is true still."""
    if request.query["min_position"] is not None:
        return None
    response = service.pages.find(_moment(service), _asked(request))
    if response is None:
        return None
    service.gate.admit(request, "read", request.params["board"])
    return _unless_known(request, response)


def _asked(request: Request) -> tuple[object, ...]:
    """Return the question, whoever asks it."""
    return (request.params["board"], *request.query.values())


def _moment(service: Service) -> tuple[int, int, bool]:
    """Return all that the answer to one question may change with."""
    view = service.rankd
    return view.projector.checkpoint, view.projector.book.profiled_at, view.stale


def _ready_made(page: FoundPage, board: Any, *, stale: bool) -> Response:
    filled = shown.page(page, board)
    filled.stale = stale
    # The position moves with every write anywhere; what people see of this page may not.
    seen = (filled.board, filled.window, filled.segment, filled.total, filled.standings)
    etag = b'"%s"' % blake2b(wire.encode(seen), digest_size=12).hexdigest().encode()
    return Response(
        wire.encode(filled),
        cache_control=PAGE_CACHE,
        headers=((b"etag", etag), SURROGATE),
    )


def _unless_known(request: Request, response: Response) -> Response:
    """Answer 304 where the asker has this very page."""
    known = request.headers.get(b"if-none-match")
    if known is None:
        return response
    etag = response.headers[0][1]
    tags = [tag.strip().removeprefix(b"W/") for tag in known.split(b",")]
    if etag not in tags and b"*" not in tags:
        return response
    return Response(b"", 304, content_type=b"", cache_control=PAGE_CACHE, headers=response.headers)


async def around_player(service: Service, request: Request) -> Response:
    """Return a player's neighbourhood."""
    which = await _admitted(service, request)
    board, query = request.params["board"], request.query
    page = await service.rankd.reader.around(
        board,
        request.params["player"],
        above=query["above"],
        below=query["below"],
        **which,
    )
    return _page(service, page, board, which)


async def around_rank(service: Service, request: Request) -> Response:
    """Return the standings around a rank."""
    which = await _admitted(service, request)
    board = request.params["board"]
    rank = _read_rank(request.params["rank"])
    page = await service.rankd.reader.around_rank(
        board, rank, reach=request.query["range"], **which
    )
    return _page(service, page, board, which)


def _read_rank(text: str) -> Rank:
    if not (text.isascii() and text.isdigit() and len(text) <= 18) or int(text) < 1:
        raise InvalidPage([FieldError("rank", "must be a whole number of 1 or more")])
    return Rank(int(text))


def _page(service: Service, page: FoundPage, board: str, which: dict[str, Any]) -> Response:
    where = service.rankd.reader.where(board, **which)
    return _response(service, shown.page(page, where.terms.board))


async def lookup_standings(service: Service, request: Request) -> Response:
    """Return the standings of some players, ranked among themselves."""
    which = await _admitted(service, request)
    players = decode_body(request, wire.Lookup).players
    if len(players) > LOOKUP_PLAYERS_MAX:
        raise InvalidRequest([FieldError("players", f"must be at most {LOOKUP_PLAYERS_MAX}")])
    board = request.params["board"]
    found = await service.rankd.reader.lookup(board, players, **which)
    where = service.rankd.reader.where(board, **which)
    return _response(service, shown.found(found, where.terms.board))


async def list_friends(service: Service, request: Request) -> Response:
    """Return a player and its friends, ranked among themselves."""
    which = await _admitted(service, request)
    board = request.params["board"]
    found = await service.rankd.reader.friends(board, request.params["player"], **which)
    where = service.rankd.reader.where(board, **which)
    return _response(service, shown.found(found, where.terms.board))


async def get_projection(service: Service, request: Request) -> Response:
    """Return the rank a score would get, or the score that a rank or a percentile needs."""
    which = await _admitted(service, request)
    board, query = request.params["board"], request.query
    given = [name for name in ("score", "rank", "percentile") if query[name] is not None]
    if len(given) != 1:
        message = "or rank or percentile must be given, and only one of them"
        raise InvalidRequest([FieldError("score", message)])
    reader = service.rankd.reader
    where = reader.where(board, **which)
    definition = where.terms.board
    if query["score"] is not None:
        texts = query["score"].split(",")
        if len(texts) != definition.width:
            message = f"must be {definition.width} scores, parted by commas"
            raise InvalidRequest([FieldError("score", message)])
        try:
            scores = tuple(definition.parse_score(text) for text in texts)
        except ValueError as exc:
            raise InvalidRequest([FieldError("score", str(exc))]) from None
        projected = await reader.rank_for(board, scores, **which)
    elif query["rank"] is not None:
        projected = await reader.scores_for(board, rank=Rank(query["rank"]), **which)
    else:
        share = _read_share(query["percentile"])
        projected = await reader.scores_for(board, percentile=share, **which)
    return _response(service, shown.projection(projected, definition))


def _read_share(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidRequest([FieldError("percentile", "must be a number")]) from None


async def player_standings(service: Service, request: Request) -> Response:
    """Return one player on every board."""
    await _admitted(service, request)
    player, rankd = request.params["player"], service.rankd
    found = await rankd.reader.standings(player)
    body = wire.Everywhere(
        player=player,
        name=rankd.book.profile(player).name,
        as_of=rankd.position,
        standings=[
            wire.OnBoard(
                ranking.board,
                ranking.window,
                standing.rank,
                standing.score,
                standing.percentile,
                standing.total,
            )
            for ranking, standing in found
        ],
    )
    return _response(service, body)
