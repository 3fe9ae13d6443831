"""Handlers of boards and windows: define, change, list and retire."""

from contextlib import suppress
from typing import Any

from rankd import wire
from rankd.api import shown
from rankd.api.body import decode_body
from rankd.api.exchange import Request, Response
from rankd.api.service import Service, show_time
from rankd.core.book import BoardPage, Open, Sealed, Unrecorded
from rankd.core.preview import Preview
from rankd.core.turns import next_turn_of
from rankd.errors import BoardDiffers, MalformedRequest
from rankd.model.board import Board
from rankd.model.window import WindowState


async def put_board(service: Service, request: Request) -> Response:
    """Define a board, preview a changed definition, or apply it."""
    name, rankd = request.params["board"], service.writer
    actor = service.gate.admit(request, "admin", name)
    definition = _definition(request)
    if name not in rankd.book.boards:
        with suppress(BoardDiffers):  # Another node has defined it: change it instead.
            await rankd.define(name, definition, actor=actor.name)
            return Response(wire.encode(await _show(service, rankd.book.page(name))), 201)
    page = rankd.book.page(name)
    before = page.board
    applied = request.query["apply"]
    if applied:
        preview = await rankd.redefine(
            name, definition, actor=actor.name, drop_scores=request.query["drop_scores"]
        )
    else:
        preview = await rankd.preview(name, definition)
    if not preview.changes:
        return Response(wire.encode(await _show(service, page)))
    after = Board.define(name, definition)
    position = rankd.book.page(name).defined_at if applied else None
    return Response(wire.encode(_previewed(preview, before, after, position)))


def _definition(request: Request) -> dict[str, Any]:
    """Return the definition in the body; without a body all defaults, unless with ``apply``.

    With ``apply`` a lost body would reset a board that is in use: that raises MalformedRequest.
    """
    if request.body:
        return decode_body(request, dict[str, Any])
    if request.query["apply"]:
        raise MalformedRequest("apply needs a definition as the body; {} means all defaults")
    return {}


def _previewed(preview: Preview, before: Board, after: Board, position: int | None) -> wire.Preview:
    """Return the preview, rows before and after each rendered by their own definition."""
    return wire.Preview(
        before.name,
        position is not None,
        [wire.Change(*change) for change in preview.changes],
        [
            wire.WindowPreview(
                each.window,
                each.total,
                each.total_after,
                [shown.row(standing, before) for standing in each.top],
                [shown.row(standing, after) for standing in each.top_after],
            )
            for each in preview.windows
        ],
        position,
        list(preview.drops),
    )


async def get_board(service: Service, request: Request) -> Response:
    """Return a board: its definition, its windows and its next reset."""
    name = request.params["board"]
    service.gate.admit(request, "read", name)
    return Response(wire.encode(await _show(service, service.rankd.book.page(name))))


async def list_boards(service: Service, request: Request) -> Response:
    """Return every board."""
    service.gate.admit(request, "read")
    pages = list(service.rankd.book.boards.values())
    boards = [await _show(service, page) for page in pages]
    body = wire.Boards(
        boards=boards,
        as_of=service.rankd.position,
        server_time=show_time(service.clock.now()) or "",
        stale=service.rankd.stale,
    )
    return Response(wire.encode(body))


async def retire_board(service: Service, request: Request) -> Response:
    """Retire a board."""
    name = request.params["board"]
    actor = service.gate.admit(request, "admin", name)
    position = await service.writer.retire(name, actor=actor.name, reason=request.query["reason"])
    return Response(wire.encode(wire.Done(position)))


async def list_windows(service: Service, request: Request) -> Response:
    """Return a board's windows, scheduled, open and sealed, newest first."""
    name = request.params["board"]
    service.gate.admit(request, "read", name)
    page = service.rankd.book.page(name)
    sealed = list(reversed(page.sealed.values()))  # Copied now: a count may suspend.
    windows = _scheduled(service, page) + await _windows(service, page)
    closed = [await _window(service, one) for one in sealed]
    view = service.rankd
    body = wire.Windows(board=name, windows=windows + closed, as_of=view.position, stale=view.stale)
    return Response(wire.encode(body))


async def _windows(service: Service, page: BoardPage) -> list[wire.Window]:
    return [await _window(service, opened) for opened in page.windows.values()]


def _scheduled(service: Service, page: BoardPage) -> list[wire.Window]:
    return [_shown(one, total=0) for one in page.scheduled(service.rankd.ledger_time)]


async def _window(service: Service, found: Open | Sealed) -> wire.Window:
    return _shown(found, total=await service.rankd.reader.count(found.ranking))


def _shown(found: Open | Sealed | Unrecorded, *, total: int) -> wire.Window:
    window, state = found.window, found.state
    start, end = show_time(window.start), show_time(window.end)
    opens_at = shown.opening(window.start if state is WindowState.SCHEDULED else None)
    return wire.Window(window.id, window.name, start, end, state, total, opens_at)


async def _show(service: Service, page: BoardPage) -> wire.BoardBody:
    names = page.names
    windows = _scheduled(service, page) + await _windows(service, page)
    windows.sort(key=lambda window: names.index(window.name))
    now = service.clock.now()
    totals = {window.name: window.total for window in windows}
    return wire.BoardBody(
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
