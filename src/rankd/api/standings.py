"""Handlers of standings: one player, pages, neighbours, lookups and projections."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import msgspec

from rankd import schemas
from rankd.api import render
from rankd.api.auth import Actor
from rankd.api.context import MIN_POSITION_SECONDS_MAX, ServiceContext
from rankd.api.messages import Request, Response, decode_body, known_tag
from rankd.api.render import BY_ACCEPT, text_tag, wants_text
from rankd.api.routing import Answered, PagePlan, RemotePlan, RouteAnswering, WordPlan
from rankd.core.editions import edition_reader
from rankd.core.movement import Found
from rankd.core.reader import (
    LOOKUP_PLAYERS_MAX,
    Projected,
    RankingView,
    Reader,
    check_players,
)
from rankd.core.reader import Page as FoundPage
from rankd.errors import (
    FieldError,
    IndexBehind,
    InvalidPage,
    InvalidRequest,
    NotRanked,
    RankdError,
    count,
)
from rankd.model.facts import Position
from rankd.model.standing import Offset, Rank, Standing, read_absent
from rankd.ports import Places, Ranked, Ranking

T = TypeVar("T")

PAGE_CACHE = b"public, max-age=1, stale-while-revalidate=5"
"""A browser may show a list that is a second old; a client can ask for no cache."""

PRIVATE_CACHE = PAGE_CACHE.replace(b"public", b"private")
"""The same for requests with a key or a token: no shared cache may store it."""

SURROGATE = (b"surrogate-control", b"max-age=1, stale-while-revalidate=5")
"""The same for a content delivery network, which does not pass this header on."""


async def _admitted(service: ServiceContext, request: Request) -> tuple[Actor, dict[str, Any]]:
    """Return the actor, window and segment of a read, once ``min_position`` is reached."""
    query = request.query
    board = request.params.get("board")
    actor = service.auth.admit(request, "read", board)
    head = await service.wait_for_head(board)
    if head is not None:
        query = request.query = {**query, "min_position": max(head, query.get("min_position") or 0)}
    if query.get("min_position") is not None:
        await _reached(service, request)
    return actor, {"window": query.get("window"), "segment": query.get("segment")}


async def _reached(service: ServiceContext, request: Request) -> None:
    query, board = request.query, request.params.get("board")

    def ranking() -> Ranking:
        where = service.rankd.reader.where(board or "", query["window"], query["segment"])
        return where.ranking

    await service.rankd.reached(
        Position(query["min_position"]),
        within_seconds=MIN_POSITION_SECONDS_MAX,
        ranking=None if board is None else ranking,
    )


def _refuse_if_behind(request: Request, as_of: int) -> None:
    """Raise IndexBehind if the index was lost after it had reached ``min_position``."""
    position = request.query.get("min_position")
    if position is not None and as_of < position:
        raise IndexBehind(position=position, checkpoint=as_of)


def _response(service: ServiceContext, request: Request, body: Any) -> Response:
    """Return the response of a read, marked stale if it may be."""
    if not _is_past(request):
        _refuse_if_behind(request, body.as_of)
        if service.rankd.stale:
            body.stale = True
    return Response(schemas.encode(body))


def _is_past(request: Request) -> bool:
    """Whether a request asks for standings as they were."""
    query = request.query
    return query.get("as_of") is not None or query.get("at") is not None


def _is_special(request: Request) -> bool:
    """Whether a request names an edition, a baseline, or a past moment."""
    query = request.query
    named = query.get("edition") is not None or query.get("baseline") is not None
    return named or _is_past(request)


async def _compared(
    service: ServiceContext, request: Request, reader: Reader, where: RankingView, found: Found
) -> Found:
    """Return standings with the movement since the baseline that a request names, if it does."""
    baseline = request.query.get("baseline")
    if baseline is None:
        return found
    return await service.rankd.movement.compared(reader, where.ranking, found, baseline)


async def _reader_for(
    service: ServiceContext, request: Request, actor: Actor, *, of_replica: bool = False
) -> Reader:
    """Return the reader of a request: of the present, or as of the moment that it asks for."""
    board, query = request.params["board"], request.query
    if not _is_past(request):
        rankd = service.rankd
        return rankd.reader_of(board, query["min_position"]) if of_replica else rankd.reader
    if query.get("edition") is not None:
        raise InvalidRequest([FieldError("edition", "cannot be combined with as_of or at")])
    past = service.rankd.past
    service.rankd.state.page(board)  # For its opinion of the name.
    moment = await past.moment(query["as_of"], query["at"])
    return await past.reader(
        board,
        moment,
        window=query["window"],
        segment=query["segment"],
        viewer=service.viewer(actor),
        itself=actor.player,
    )


async def _read_as(
    service: ServiceContext,
    actor: Actor,
    where: RankingView,
    read: Callable[[Reader], Awaitable[T]],
    *,
    reader: Reader,
) -> T:
    """Return a read of one ranking as an actor sees it; a past reader knows its actor."""
    if reader.past:
        return await read(reader)
    return await service.read_as(actor, where, read, reader=reader)


async def get_standing(service: ServiceContext, request: Request) -> Response:
    """Return one player's standing."""
    params = request.params
    board, player = params["board"], params["player"]
    actor, which = await _admitted(service, request)
    reader = await _reader_for(service, request, actor, of_replica=True)
    where, edition = reader.where(board, **which), request.query["edition"]
    if edition is not None:
        seen = reader.seen_by(service.viewer(actor))
        earlier = await edition_reader(seen, where, edition)
        standing = await earlier.standing_in(where, player)
    else:
        standing = await _read_as(
            service, actor, where, lambda reader: reader.standing_in(where, player), reader=reader
        )
    if standing is None:
        raise NotRanked(board=board, window=where.ranking.window, player=player)
    standing = await _compared(service, request, reader, where, standing)
    shown = render.one(standing, where)
    if edition is not None:
        shown.edition = edition
    return _response(service, request, shown)


def standing_now(service: ServiceContext, request: Request) -> Response | None:
    """Return one player's standing if the index answers without waiting; else None."""
    params, query, reader = request.params, request.query, service.rankd.reader
    if query["min_position"] is not None or _is_special(request) or not reader.immediate:
        return None
    board, player = params["board"], params["player"]
    if service.rankd.awaits_head(board):
        return None
    actor = service.auth.admit(request, "read", board)
    if not service.sees_alike(actor, board):
        request.counted = True
        return None
    where = reader.where(board, query["window"], query["segment"])
    found = reader.ranked_now(where, player)
    if found is None:
        raise NotRanked(board=board, window=where.ranking.window, player=player)
    place, shared = found
    at, before = reader.shown_at(where), reader.rank_before(where, player)
    body = render.ranked(place, where, player, reader.name(player), shared, at, before)
    return _response(service, request, body)


def plan_standing(service: ServiceContext, request: Request) -> RouteAnswering | None:
    """Return a plan that answers for any player of the requested ranking."""
    known, reader = service.rankd.state.names, service.rankd.reader

    def telling(where: RankingView) -> Telling:
        form, rank = render.ranked_form(where), service.rankd.reader.ranker(where)
        moved, ranks_before = render.ranked_form(where, moved=True), reader.ranks_before

        def tell(players: Sequence[str], found: Places) -> list[bytes]:
            shared = None if rank is None else rank(found.order_keys)
            names = list(map(known.get, players)) if known else None
            before = ranks_before(where, players)
            if form is None or moved is None:
                at = reader.shown_at(where)
                return render.each_ranked(found, where, players, names, shared, at, before)
            columns = (players, names, *found, shared)
            if before is None:
                return form.fill_each(columns, 0, len(players))
            told = (*columns, list(before), render.standing_states(where, before))
            return moved.fill_each(told, 0, len(players))

        return tell

    return _plan_words(service, request, telling) or _plan_remote(service, request, telling)


def plan_around(service: ServiceContext, request: Request) -> WordPlan | None:
    """Return a plan that answers with the neighbours of any player of the ranking."""
    above, below = request.query["above"], request.query["below"]
    around = service.rankd.reader.around_now

    def telling(where: RankingView) -> Telling:
        board = where.terms.board

        def tell(_players: Sequence[str], found: Places) -> list[bytes]:
            return [
                render.page(around(where, rank, found.total, above=above, below=below), board)
                for rank in map(Rank, found.ranks)
            ]

        return tell

    return _plan_words(service, request, telling)


Telling = Callable[[Sequence[str], Places], list[bytes]]
"""Renders found players as JSON."""


def _plan_words(
    service: ServiceContext, request: Request, telling: Callable[[RankingView], Telling]
) -> WordPlan | None:
    """Return a plan over the index of this process; None if it has none."""
    where = _lasting(service, request)
    seek = None if where is None else service.rankd.reader.finder(where)
    if where is None or seek is None:
        return None
    tell, in_force = telling(where), _in_force(service)

    def answer(players: Sequence[str]) -> Sequence[bytes | None] | None:
        if not in_force():
            return None
        found = seek(players)
        if 0 not in found.ranks:
            return tell(players, found)
        there = [player for player, rank in zip(players, found.ranks, strict=True) if rank]
        told = iter(tell(there, seek(there)) if there else ())
        return [next(told) if rank else None for rank in found.ranks]

    return WordPlan(answer, in_force)


def _plan_remote(
    service: ServiceContext, request: Request, telling: Callable[[RankingView], Telling]
) -> RemotePlan | None:
    """Return a plan over a remote index; None if it does not apply."""
    view, where = service.rankd, _lasting(service, request)
    ask = None if where is None else view.reader.asker(where)
    if where is None or ask is None or view.has_replicas(where.ranking.board):
        return None
    tell, in_force = telling(where), _in_force(service)

    def asking(player: str, answered: Answered) -> bool:
        def told(found: Ranked | None) -> None:
            response = None
            if found is not None and in_force() and not view.stale:
                with suppress(Exception):  # The handler meets the same error, and reports it.
                    rank, key, beside, total, as_of = found
                    (body,) = tell([player], Places([rank], key, [beside], total, as_of))
                    response = Response(body)
            answered(response)

        return in_force() and ask(player, told)

    return RemotePlan(asking, in_force)


def _in_force(service: ServiceContext) -> Callable[[], bool]:
    """Return a check that boards, keys and the projector have not changed since now."""
    view = service.rankd
    projector, state, revision = view.projector, view.state, view.state.revision
    return lambda: state.revision == revision and view.projector is projector


def _lasting(service: ServiceContext, request: Request) -> RankingView | None:
    """Return the ranking of all requests like this one, if it stays the same; else None."""
    view, query = service.rankd, request.query
    if query["min_position"] is not None or _is_special(request) or view.stale:
        return None
    if view.awaits_head(request.params["board"]):
        return None
    if ":-" in (query["window"] or ""):
        return None  # Which window that is depends on the time.
    try:
        return view.reader.where(request.params["board"], query["window"], query["segment"])
    except RankdError:
        return None  # The board may have been retired meanwhile.


async def list_standings(service: ServiceContext, request: Request) -> Response:
    """Return a page: by offset, by rank, or after a cursor."""
    actor, which = await _admitted(service, request)
    board, query = request.params["board"], request.query
    offset, from_rank = query["offset"], query["from_rank"]
    rankd = service.rankd
    reader = await _reader_for(service, request, actor, of_replica=True)
    at, shown_to = _moment(service), _readers(service, actor, board)
    where = reader.where(board, **which)

    def read(reader: Reader) -> Awaitable[FoundPage]:
        return reader.page(
            board,
            limit=query["limit"],
            offset=None if offset is None else Offset(offset),
            from_rank=None if from_rank is None else Rank(from_rank),
            cursor=query["cursor"],
            score_min=query["score_min"],
            score_max=query["score_max"],
            **which,
        )

    edition = query["edition"]
    if edition is not None:
        seen = reader.seen_by(service.viewer(actor))
        page = await read(await edition_reader(seen, where, edition))
        page = msgspec.structs.replace(page, edition=edition)
    else:
        page = await _read_as(service, actor, where, read, reader=reader)
    page = await _compared(service, request, reader, where, page)
    asked = _asked(service, request)
    private = bool(asked[0]) or not _may_share(service, shown_to)
    if reader.past:
        return _unless_known(
            request, _ready_made(page, where.terms.board, stale=False, private=private)
        )
    _refuse_if_behind(request, page.as_of)
    response = _ready_made(
        page, where.terms.board, stale=rankd.stale or page.stale, private=private
    )
    lasts = page.at is None and page.as_of == rankd.position and at == _moment(service)
    if lasts and shown_to is not None and query.get("baseline") is None:
        service.pages.keep(at, (shown_to, *asked), response)
    return _unless_known(request, response)


def _readers(service: ServiceContext, actor: Actor, board: str) -> str | None:
    """Return the readers that share their pages with an actor; None if it shares them with none."""
    if service.sees_alike(actor, board):
        return _GAME
    return _PUBLIC if actor.player is None else None


_GAME, _PUBLIC = "game", "public"


def _may_share(service: ServiceContext, shown_to: str | None) -> bool:
    """Whether a shared cache may store a page: it serves it to the public."""
    return shown_to == _PUBLIC or (shown_to == _GAME and not service.rankd.state.visibility)


def standings_now(service: ServiceContext, request: Request) -> Response | None:
    """Return a cached page that is still current; else None."""
    board = request.params["board"]
    if request.query["min_position"] is not None or service.rankd.awaits_head(board):
        return None
    if _is_special(request):
        return None
    pages, at, asked = service.pages, _moment(service), _asked(service, request)
    if not any(pages.find(at, (readers, *asked)) for readers in (_GAME, _PUBLIC)):
        return None
    actor = service.auth.admit(request, "read", board)
    request.counted = True  # Also if the handler has to answer.
    response = pages.find(at, (_readers(service, actor, board), *asked))
    return None if response is None else _unless_known(request, response)


def plan_page(service: ServiceContext, request: Request) -> PagePlan | None:
    """Return a plan of pages: the cached one while it is current, or one for any offset."""
    query, where = request.query, _lasting(service, request)
    if where is None or b"if-none-match" in request.headers:
        return None
    if query["score_min"] is not None or query["score_max"] is not None:
        return None  # A range of scores is rarely requested again.
    if query["offset"]:
        return _plan_offsets(service, request, where)
    pages, in_force = service.pages, _in_force(service)
    asked = (_GAME, *_asked(service, request))

    def find(_offset: int) -> Response | None:
        return pages.find(_moment(service), asked) if in_force() else None

    return PagePlan(find, in_force)


def _plan_offsets(service: ServiceContext, request: Request, where: RankingView) -> PagePlan | None:
    """Return a plan that reads pages further down, which are rarely requested again."""
    view, limit, board = service.rankd, request.query["limit"], where.terms.board
    in_force, private = _in_force(service), bool(_asked(service, request)[0])
    private = private or not _may_share(service, _GAME)
    if view.reader.finder(where) is None:
        return None

    def find(offset: int) -> Response | None:
        if not offset or not in_force():
            return None
        page = view.reader.page_now(where, Rank(offset + 1), limit)
        return _ready_made(page, board, stale=view.stale, private=private)

    return PagePlan(find, in_force)


def _asked(service: ServiceContext, request: Request) -> tuple[object, ...]:
    """Return the cache key of a page: whether it is private, the board and the query."""
    board = request.params["board"]
    private = b"authorization" in request.headers and not service.is_public(board)
    return (private, board, *request.query.values())


def _moment(service: ServiceContext) -> tuple[int, int, bool, int]:
    """Return everything that a page may change with."""
    view = service.rankd
    projector = view.projector
    return projector.checkpoint, projector.state.profiled_at, view.stale, view.movement.revision


def _ready_made(page: FoundPage, board: Any, *, stale: bool, private: bool) -> Response:
    body, tag = render.page_and_tag(page, board, stale=stale)
    etag = b'"%b"' % tag
    return Response(
        body,
        cache_control=PRIVATE_CACHE if private else PAGE_CACHE,
        headers=((b"etag", etag), BY_ACCEPT, *(() if private else (SURROGATE,))),
    )


def _unless_known(request: Request, response: Response) -> Response:
    """Return 304 if the client has this page cached, in any encoding; else the response."""
    tag, *others = response.headers
    own = text_tag(tag[1]) if wants_text(request.query, request.headers) else tag[1]
    known = known_tag(request, own)
    if known is None:
        return response
    headers = ((tag[0], known), *others)
    cache_control = response.cache_control
    return Response(b"", 304, content_type=b"", cache_control=cache_control, headers=headers)


async def around_player(service: ServiceContext, request: Request) -> Response:
    """Return a player's neighbours."""
    actor, which = await _admitted(service, request)
    board, query = request.params["board"], request.query
    reader = await _reader_for(service, request, actor, of_replica=True)
    where = reader.where(board, **which)

    def read(reader: Reader) -> Awaitable[FoundPage]:
        return reader.around(
            board,
            request.params["player"],
            above=query["above"],
            below=query["below"],
            absent=read_absent(query["absent"]),
            **which,
        )

    page = await _read_as(service, actor, where, read, reader=reader)
    page = await _compared(service, request, reader, where, page)
    return _page(service, request, page, reader)


async def around_rank(service: ServiceContext, request: Request) -> Response:
    """Return the standings around a rank.

    Every entry counts, even if the board shows ties as shared ranks: rank 3 is the third entry.
    """
    actor, which = await _admitted(service, request)
    board, reach = request.params["board"], request.query["range"]
    rank = _read_rank(request.params["rank"])
    reader = await _reader_for(service, request, actor)
    page = await _read_as(
        service,
        actor,
        reader.where(board, **which),
        lambda reader: reader.around_rank(board, rank, reach=reach, **which),
        reader=reader,
    )
    page = await _compared(service, request, reader, reader.where(board, **which), page)
    return _page(service, request, page, reader)


def _read_rank(text: str) -> Rank:
    if not (text.isascii() and text.isdigit() and len(text) <= 18) or int(text) < 1:
        raise InvalidPage([FieldError("rank", "must be a whole number of 1 or more")])
    return Rank(int(text))


def _page(service: ServiceContext, request: Request, page: FoundPage, reader: Reader) -> Response:
    query = request.query
    where = reader.where(request.params["board"], query["window"], query["segment"])
    if not reader.past:
        _refuse_if_behind(request, page.as_of)
    stale = service.rankd.stale and not reader.past
    return Response(render.page(page, where.terms.board, stale=stale))


async def lookup_standings(service: ServiceContext, request: Request) -> Response:
    """Return the standings of some players, ranked among themselves."""
    actor, which = await _admitted(service, request)
    players = _lookup_players(request)
    check_players(players)
    board = request.params["board"]
    reader = await _reader_for(service, request, actor)
    found = await _read_as(
        service,
        actor,
        reader.where(board, **which),
        lambda reader: reader.lookup(board, players, **which),
        reader=reader,
    )
    where = reader.where(board, **which)
    found = await _compared(service, request, reader, where, found)
    return _response(service, request, render.found(found, where.terms.board))


def lookup_now(service: ServiceContext, request: Request) -> Response | None:
    """Return the standings of some players if the index answers without waiting; else None."""
    params, query, reader = request.params, request.query, service.rankd.reader
    if query["min_position"] is not None or not reader.immediate or service.rankd.stale:
        return None
    if _is_special(request):
        return None
    if service.rankd.awaits_head(params["board"]):
        return None
    actor = service.auth.admit(request, "read", params["board"])
    request.counted = True  # Also if the handler has to answer.
    if not service.sees_alike(actor, params["board"]):
        return None
    players = _lookup_players(request)
    check_players(players)
    where = reader.where(params["board"], query["window"], query["segment"])
    found = reader.lookup_now(where, players)
    if found is None:
        return None
    body = render.found_now(where, found)
    return None if body is None else Response(body)


def _lookup_players(request: Request) -> list[str]:
    players = decode_body(request, schemas.Lookup).players
    if len(players) > LOOKUP_PLAYERS_MAX:
        raise InvalidRequest([FieldError("players", f"must be at most {LOOKUP_PLAYERS_MAX}")])
    return players


async def list_friends(service: ServiceContext, request: Request) -> Response:
    """Return a player and its friends, ranked among themselves."""
    actor, which = await _admitted(service, request)
    board, player = request.params["board"], request.params["player"]
    reader = await _reader_for(service, request, actor)
    found = await _read_as(
        service,
        actor,
        reader.where(board, **which),
        lambda reader: reader.friends(board, player, **which),
        reader=reader,
    )
    where = reader.where(board, **which)
    found = await _compared(service, request, reader, where, found)
    return _response(service, request, render.found(found, where.terms.board))


async def get_projection(service: ServiceContext, request: Request) -> Response:
    """Return the rank a score would get, or the score needed for a rank or a percentile."""
    actor, which = await _admitted(service, request)
    board, query = request.params["board"], request.query
    _check_given([name for name in ("score", "rank", "percentile") if query[name] is not None])
    reader = await _reader_for(service, request, actor)
    where = reader.where(board, **which)
    definition = where.terms.board
    ask: Callable[[Reader], Awaitable[Projected]]
    if query["score"] is not None:
        texts = query["score"].split(",")
        if len(texts) != definition.width:
            message = f"must be {count(definition.width, 'score')}, parted by commas"
            raise InvalidRequest([FieldError("score", message)])
        try:
            scores = tuple(definition.parse_score(text) for text in texts)
        except ValueError as exc:
            raise InvalidRequest([FieldError("score", str(exc))]) from None
        ask = partial(Reader.rank_for, board=board, scores=scores, **which)
    elif query["rank"] is not None:
        ask = partial(Reader.scores_for, board=board, rank=Rank(query["rank"]), **which)
    else:
        share = _read_share(query["percentile"])
        ask = partial(Reader.scores_for, board=board, percentile=share, **which)
    projected = await _read_as(service, actor, where, ask, reader=reader)
    return _response(service, request, render.projection(projected, definition))


async def get_distribution(service: ServiceContext, request: Request) -> Response:
    """Return the scores of a ranking as a histogram with counts and quantiles."""
    actor, which = await _admitted(service, request)
    board, buckets = request.params["board"], request.query["buckets"]
    reader = await _reader_for(service, request, actor)
    where = reader.where(board, **which)
    ask = partial(Reader.distribution, board=board, buckets=buckets, **which)
    found = await _read_as(service, actor, where, ask, reader=reader)
    return _response(service, request, render.distribution(found))


def _check_given(names: list[str]) -> None:
    if not names:
        message = "must be given, or else rank or percentile"
        raise InvalidRequest([FieldError("score", message)])
    first, *others = names
    if others:
        message = f"cannot be combined with {first}"
        raise InvalidRequest([FieldError(other, message) for other in others])


def _read_share(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidRequest([FieldError("percentile", "must be a number")]) from None


async def _everywhere(
    service: ServiceContext, actor: Actor, player: str, window: str | None
) -> list[tuple[RankingView, Standing]]:
    """Return a player's standings, as an actor sees them."""
    reader, state = service.rankd.reader, service.rankd.state
    if actor.player is None or not state.sees_itself(actor.player):
        return await reader.seen_by(service.viewer(actor)).standings(player, window)
    found = []
    for where in reader.views(window):
        ask = partial(Reader.standing_in, where=where, player=player)
        standing = await service.read_as(actor, where, ask)
        if standing is not None:
            found.append((where.holding(standing.total), standing))
    return found


async def player_standings(service: ServiceContext, request: Request) -> Response:
    """Return one player's standings on all boards, or all that have the given window."""
    actor, _ = await _admitted(service, request)
    player, rankd = request.params["player"], service.rankd
    found = await _everywhere(service, actor, player, request.query["window"])
    viewer = service.viewer(actor)
    hidden = viewer is not None and viewer.hides(player)
    body = schemas.Everywhere(
        player=player,
        name=None if hidden else rankd.state.profile(player).name,
        as_of=min([rankd.position, *(one.as_of for _, one in found if one.stale)]),
        stale=any(one.stale for _, one in found),
        standings=[
            schemas.OnBoard(
                where.ranking.board,
                where.ranking.window,
                standing.rank,
                standing.score,
                standing.percentile,
                standing.total,
                where.state,
                render.ordinal_of(standing),
                render.raw_of(standing.raw, standing.decimals),
                render.server_time(standing.at),
            )
            for where, standing in found
        ],
    )
    return _response(service, request, body)
