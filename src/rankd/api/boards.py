"""Handlers of boards and windows: define, change, list and retire."""

from contextlib import suppress
from typing import Any

from rankd import schemas
from rankd.api import render
from rankd.api.auth import Actor
from rankd.api.context import ServiceContext, show_time
from rankd.api.messages import Request, Response, decode_body
from rankd.api.operations import Tell
from rankd.core.board_state import BoardState, OpenedWindow, SealedWindow, UnrecordedWindow
from rankd.core.read_engine import Preview
from rankd.core.reader import RankingView
from rankd.core.window_schedule import next_turn_of
from rankd.errors import BoardDiffers, MalformedRequest, UnknownBoard
from rankd.model.board import Board
from rankd.model.window import WindowState


async def put_board(service: ServiceContext, request: Request) -> Response:
    """Define a board, preview a changed definition, or apply it."""
    name, rankd = request.params["board"], service.writer
    actor = service.auth.admit(request, "admin", name)
    definition = _definition(request)
    if name not in rankd.state.boards:
        if request.query["preview"] is not None:
            raise UnknownBoard(name)
        with suppress(BoardDiffers):  # Another node has defined it: change it instead.
            await rankd.define(name, definition, actor=actor.name)
            return Response(
                schemas.encode(await _show(service, rankd.state.page(name), actor)), 201
            )
    if request.query["preview"] is not None:
        return await _preview_rules(service, request, name, definition)
    page = rankd.state.page(name)
    before = page.board
    applied = request.query["apply"]
    if applied:
        preview = await rankd.redefine(
            name, definition, actor=actor.name, drop_scores=request.query["drop_scores"]
        )
    else:
        preview = await rankd.preview(name, definition)
    if not preview.changes:
        return Response(schemas.encode(await _show(service, page, actor)))
    after = Board.define(name, definition)
    position = rankd.state.page(name).defined_at if applied else None
    return Response(schemas.encode(_previewed(preview, before, after, position)))


async def _preview_rules(
    service: ServiceContext, request: Request, name: str, definition: dict[str, Any]
) -> Response:
    """Return the past submissions that the rules of a definition would have caught."""

    async def work(tell: Tell) -> Response:
        found = await service.writer.preview_rules(name, definition, tell=tell)
        decimals = found.board.decimals
        body = schemas.RulesPreviewed(
            name,
            found.submissions,
            found.caught,
            found.through,
            [
                schemas.RuleCaught(
                    one.rule.rule,
                    one.rule.then,
                    one.caught,
                    [
                        schemas.CaughtExample(
                            each.position, each.player, *each.reason.shown(decimals)
                        )
                        for each in one.examples
                    ],
                )
                for one in found.rules
            ],
        )
        return Response(schemas.encode(body))

    return await service.operations.respond(request, name, work)


def _definition(request: Request) -> dict[str, Any]:
    """Return the definition in the body; without a body all defaults, unless with ``apply``.

    With ``apply`` a lost body would reset a board that is in use: that raises MalformedRequest.
    """
    if request.body:
        return decode_body(request, dict[str, Any])
    if request.query["apply"]:
        raise MalformedRequest("apply needs a definition as the body; {} means all defaults")
    return {}


def _previewed(
    preview: Preview, before: Board, after: Board, position: int | None
) -> schemas.Preview:
    """Return the preview, rows before and after each rendered by their own definition."""
    return schemas.Preview(
        before.name,
        position is not None,
        [schemas.Change(*change) for change in preview.changes],
        [
            schemas.WindowPreview(
                each.window,
                each.total,
                each.total_after,
                [render.row(standing, before) for standing in each.top],
                [render.row(standing, after) for standing in each.top_after],
            )
            for each in preview.windows
        ],
        position,
        list(preview.drops),
    )


async def get_board(service: ServiceContext, request: Request) -> Response:
    """Return a board: its definition, its windows and its next reset."""
    name = request.params["board"]
    actor = service.auth.admit(request, "read", name)
    return Response(schemas.encode(await _show(service, service.rankd.state.page(name), actor)))


async def list_boards(service: ServiceContext, request: Request) -> Response:
    """Return every board."""
    actor = service.auth.admit(request, "read")
    pages = list(service.rankd.state.boards.values())
    boards = [await _show(service, page, actor) for page in pages]
    body = schemas.Boards(
        boards=boards,
        as_of=service.rankd.position,
        server_time=show_time(service.clock.now()) or "",
        stale=service.rankd.stale,
    )
    return Response(schemas.encode(body))


async def retire_board(service: ServiceContext, request: Request) -> Response:
    """Retire a board."""
    name = request.params["board"]
    actor = service.auth.admit(request, "admin", name)
    position = await service.writer.retire(name, actor=actor.name, reason=request.query["reason"])
    return Response(schemas.encode(schemas.Done(position)))


async def list_windows(service: ServiceContext, request: Request) -> Response:
    """Return a board's windows with their states, newest first."""
    name = request.params["board"]
    actor = service.auth.admit(request, "read", name)
    page = service.rankd.state.page(name)
    sealed = list(reversed(page.sealed.values()))  # Copied now: a count may suspend.
    windows = _scheduled(service, page) + await _windows(service, page, actor)
    closed = [await _window(service, one, actor) for one in sealed]
    view = service.rankd
    body = schemas.Windows(
        board=name, windows=windows + closed, as_of=view.position, stale=view.stale
    )
    return Response(schemas.encode(body))


async def _windows(service: ServiceContext, page: BoardState, actor: Actor) -> list[schemas.Window]:
    return [await _window(service, opened, actor) for opened in page.windows.values()]


def _scheduled(service: ServiceContext, page: BoardState) -> list[schemas.Window]:
    return [_shown(one, total=0) for one in page.scheduled(service.rankd.ledger_time)]


async def _window(
    service: ServiceContext, found: OpenedWindow | SealedWindow, actor: Actor
) -> schemas.Window:
    where = RankingView.of(found, found.ranking)
    total = await service.read_as(actor, where, lambda reader: reader.count(found.ranking))
    shown = _shown(found, total=total)
    if isinstance(found, SealedWindow):
        shown.edition = service.rankd.state.edition(found.ranking.board, found.window.id)
    return shown


def _shown(found: OpenedWindow | SealedWindow | UnrecordedWindow, *, total: int) -> schemas.Window:
    window, state = found.shown if isinstance(found, SealedWindow) else found.window, found.state
    start, end = show_time(window.start), show_time(window.end)
    opens_at = render.opening(window.opening if state is WindowState.SCHEDULED else None)
    return schemas.Window(window.id, window.name, start, end, state, total, opens_at)


async def _show(service: ServiceContext, page: BoardState, actor: Actor) -> schemas.BoardBody:
    names = page.names
    frozen = [one for name in names if (one := page.frozen(name)) is not None]
    windows = [await _window(service, one, actor) for one in frozen]
    shown = {window.name for window in windows}
    windows += [one for one in _scheduled(service, page) if one.name not in shown]
    windows += await _windows(service, page, actor)
    windows.sort(key=lambda window: names.index(window.name))
    now = service.clock.now()
    totals = {window.name: window.total for window in windows}
    return schemas.BoardBody(
        name=page.board.name,
        definition=page.board.definition(),
        windows=windows,
        next_reset=show_time(next_turn_of(page, now)),
        total=totals.get(page.default, 0),
        since=page.since,
        as_of=service.rankd.position,
        server_time=show_time(now) or "",
        stale=service.rankd.stale,
    )
