"""Standings from the command line: the top, a player's own, the players around, and a live view."""

import contextlib
import queue
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from rankd.cli.options import (
    Target,
    count_option,
    is_past,
    json_option,
    reaching,
    which_moment,
    which_ranking,
)
from rankd.cli.output import (
    console,
    heading,
    plain,
    print_json,
    print_tables,
    scores,
    stale,
    standings_table,
)

if TYPE_CHECKING:
    from rankd import schemas
    from rankd.client import Client, LiveBoard
    from rankd.client.calls import Call
    from rankd.http_client import HttpResponse

NEIGHBOURS_MAX = 100

edition_option = click.option(
    "--edition",
    type=click.IntRange(min=1),
    help="A closed window as it was before later corrections, counted from 1.",
)


@click.command()
@click.argument("board")
@count_option("--count", "--limit", "count", default=10)
@click.option("--from-rank", type=click.IntRange(min=1), help="Begin at this rank instead of 1.")
@click.option("--score-min", metavar="SCORE", help="Only players with this score or more.")
@click.option("--score-max", metavar="SCORE", help="Only players with this score or less.")
@edition_option
@which_ranking
@which_moment
@json_option
@reaching()
def top(
    reach: Target,
    board: str,
    count: int,
    as_json: bool,
    **given: Any,
) -> None:
    """Show the best players of a board."""
    with reach.client(past=is_past(given)) as client:
        page = client.page(board, limit=count, **given)
    if as_json:
        print_json(page)
        return
    click.echo(heading(page))
    print_tables(standings_table(page.standings, marks=changes(page.standings)))


@click.command()
@click.argument("board")
@click.argument("player")
@edition_option
@which_ranking
@which_moment
@json_option
@reaching()
def standing(reach: Target, board: str, player: str, as_json: bool, **given: Any) -> None:
    """Show a player's rank and score."""
    with reach.client(past=is_past(given)) as client:
        found = client.standing(board, player, **given)
    if as_json:
        print_json(found)
        return
    name = f" ({plain(found.name)})" if found.name else ""
    click.echo(
        f"{plain(found.player)}{name}: rank {found.rank:,} of {found.total:,}, "
        f"{scores(found)}, percentile {found.percentile:g}{stale(found.stale)}"
    )


@click.command()
@click.argument("board")
@click.argument("player")
@click.option(
    "--above",
    type=click.IntRange(0, NEIGHBOURS_MAX),
    default=5,
    show_default=True,
    help="How many better players.",
)
@click.option(
    "--below",
    type=click.IntRange(0, NEIGHBOURS_MAX),
    default=5,
    show_default=True,
    help="How many worse players.",
)
@click.option(
    "--absent",
    type=click.Choice(["top", "bottom"]),
    help="For a player without a score: this end of the ranking.",
)
@which_ranking
@which_moment
@json_option
@reaching()
def around(reach: Target, board: str, player: str, as_json: bool, **given: Any) -> None:
    """Show a player's neighbours."""
    with reach.client(past=is_past(given)) as client:
        page = client.around(board, player, **given)
    if as_json:
        print_json(page)
        return
    click.echo(heading(page))
    print_tables(standings_table(page.standings, me=player, marks=changes(page.standings)))


WATCHED_MAX = 200
"""More does not fit a terminal."""

EVERY_SECONDS_MIN = 0.1
EVERY_SECONDS_MAX = 3600.0

LOOK_SECONDS = 0.05
"""How often the keyboard and the stream are looked at."""

Draw = Callable[["schemas.Page | None", str], None]
Wait = Callable[[float], bool]
"""Waits for a number of seconds; returns whether to end."""


@click.command()
@click.argument("board")
@count_option("--count", "--limit", "count", default=20, most=WATCHED_MAX)
@click.option(
    "--every",
    type=click.FloatRange(EVERY_SECONDS_MIN, EVERY_SECONDS_MAX),
    default=EVERY_SECONDS_MIN,
    show_default=True,
    metavar="SECONDS",
    help="Least time between two drawings.",
)
@click.option(
    "--changes", type=click.IntRange(min=1), metavar="N", help="End once it was drawn N times."
)
@which_ranking
@json_option
@reaching(data=False)
def watch(reach: Target, board: str, every: float, changes: int | None, **given: Any) -> None:
    """Watch the best players of a board change. q or ctrl-c ends it.

    Marks show the moves since the last change of the list. With --json, or without a terminal, each
    changed list is one line of JSON. A service that was away is waited for.
    """
    as_json = given.pop("as_json") or not sys.stdout.isatty()
    drawn = contextlib.nullcontext(_print) if as_json else _drawn_live()
    ended = contextlib.suppress(KeyboardInterrupt)
    with reach.client(patient=True) as client, ended, drawn as draw, _key_q() as wait:
        _follow(client, board, given, draw, wait, every=every, changes=changes)


class _News(queue.SimpleQueue[Any]):
    """Events of a stream, the reason why it was lost, or the error that ended it."""


def _follow(
    client: "Client",
    board: str,
    which: dict[str, Any],
    draw: Draw,
    wait: Wait,
    *,
    every: float,
    changes: int | None,
) -> None:
    from rankd.client import streams

    news = _News()
    wanted = streams.stream(board, top=which.pop("count"), **which)
    listener = threading.Thread(target=_listen, args=(client, wanted, news), daemon=True)
    listener.start()
    try:
        _show_news(board, news, draw, wait, every=every, changes=changes)
    finally:
        client.close()
        listener.join()


def _show_news(
    board: str, news: _News, draw: Draw, wait: Wait, *, every: float, changes: int | None
) -> None:
    from rankd.client import LiveBoard

    live, left, since = LiveBoard(), changes, time.monotonic() - every
    while True:
        changed, note = _apply(live, news)
        if note:
            draw(None, f"away: {note}")
        if changed:
            time.sleep(max(0.0, since + every - time.monotonic()))
            since = time.monotonic()
            draw(_page(board, live), "")
            if left is not None and (left := left - 1) == 0:
                return
        if wait(LOOK_SECONDS):
            return


def _listen(client: "Client", wanted: "Call[HttpResponse]", news: _News) -> None:
    try:
        for event in client.events(wanted, news.put):
            news.put(event)
    except Exception as exc:
        news.put(exc)


def _apply(live: "LiveBoard", news: _News) -> tuple[bool, str]:
    """Take all news; return whether the list differs, and why the stream is lost, if it is.

    Raises the error that ended the stream.
    """
    changed, note = False, ""
    with contextlib.suppress(queue.Empty):
        while True:
            one = news.get_nowait()
            if isinstance(one, Exception):
                raise one
            if isinstance(one, str):
                note = one
            else:
                changed, note = live.apply(one) or changed, ""
    return changed, note


def _page(board: str, live: "LiveBoard") -> "schemas.Page":
    """Return the list as a page of the service."""
    from rankd import schemas

    rows, position = live.standings, live.position or 0
    window, segment = live.window, live.segment
    fields = (live.total, position, "exact", live.stale, rows, None, None, live.state)
    return schemas.Page(board, window, segment, *fields)


def _print(page: "schemas.Page | None", _note: str) -> None:
    if page is not None:
        print_json(page)
        sys.stdout.flush()


@contextlib.contextmanager
def _drawn_live() -> Iterator[Draw]:
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    with Live(console=console(), auto_refresh=False, screen=True) as live:
        last: schemas.Page | None = None
        marks: list[str] = []
        noted = ""

        def draw(page: "schemas.Page | None", note: str) -> None:
            nonlocal last, marks, noted
            if page is not None:
                marks = movements(last.standings if last else None, page.standings)
                last = page
            if last is None or (page is None and note == noted):
                return
            noted = note
            foot = Text(plain(note) or "q ends", style="red" if note else "dim")
            table = standings_table(last.standings, marks=marks)
            live.update(Group(Text(heading(last), style="bold"), table, foot), refresh=True)

        yield draw


def changes(rows: Sequence["schemas.Row"]) -> list[str] | None:
    """Return a mark for each standing by its movement since the baseline; None if none is known."""
    if all(row.rank_change is None and row.new is not True for row in rows):
        return None
    marks = []
    for row in rows:
        before = None if row.rank_change is None else row.rank + row.rank_change
        known = before is not None or row.new is True
        marks.append(_mark(before, row.rank) if known else "")
    return marks


def movements(before: Sequence["schemas.Row"] | None, now: Sequence["schemas.Row"]) -> list[str]:
    """Return a mark for each standing: the ranks it has moved, or "new"."""
    if before is None:
        return [""] * len(now)
    ranks = {row.player: row.rank for row in before}
    return ["" if row.player is None else _mark(ranks.get(row.player), row.rank) for row in now]


def _mark(before: int | None, rank: int) -> str:
    if before is None:
        return "new"
    if before == rank:
        return ""
    return f"▲{before - rank}" if before > rank else f"▼{rank - before}"


@contextlib.contextmanager
def _key_q() -> Iterator[Wait]:
    """Let the key q end the command, if there is a keyboard; restore the terminal in any case."""
    if not sys.stdin.isatty():
        yield _sleep
        return
    import termios
    import tty

    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    tty.setcbreak(number)

    def wait(seconds: float) -> bool:
        readable, _, _ = select.select([number], [], [], seconds)
        return bool(readable) and sys.stdin.read(1) in {"q", "Q", ""}

    try:
        yield wait
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False
