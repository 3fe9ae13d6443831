"""Boards: defining, changing, listing and retiring them."""

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rankd.cli.options import Target, count_option, json_option, reaching
from rankd.cli.output import (
    CommandFailed,
    FailingGroup,
    add,
    insist_on_yes,
    plain,
    print_json,
    print_tables,
    score,
    standings_table,
    table,
    written,
)
from rankd.errors import UnknownBoard, count

if TYPE_CHECKING:
    from rich.table import Table

    from rankd import schemas
    from rankd.client import Client

FILE_BYTES_MAX = 1 << 20
"""A definition is a page of text."""

CLOSED_SHOWN_MAX = 10
"""Closed windows shown with a board: a board with windows of minutes soon has thousands."""

CLOSED = frozenset({"sealed", "final"})
"""States of windows that are over."""

LISTS = frozenset({"windows", "segments"})
"""Fields whose values may be written as a,b,c."""


@click.group(cls=FailingGroup)
def board() -> None:
    """Define, change, list, show and retire boards; list windows."""


# -------------------------------------------------------------------------------- apply


@board.command()
@click.argument("what", metavar="FILE|NAME")
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="FIELD=VALUE",
    help="Set a field: rule=sum, windows=all,daily, limits.score_max=1000. May be repeated.",
)
@click.option("--name", help="The board's name, if the file does not say it and is not called so.")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option(
    "--preview-rules",
    is_flag=True,
    help="Show which past scores its rules would have caught, and change nothing.",
)
@click.option("--yes", is_flag=True, help="Change it without asking.")
@click.option(
    "--drop-scores", is_flag=True, help="Change it even if scores cannot be ranked any more."
)
@reaching()
def apply(
    reach: Target,
    what: str,
    sets: tuple[str, ...],
    name: str | None,
    dry_run: bool,
    preview_rules: bool,
    yes: bool,
    drop_scores: bool,
) -> None:
    """Define a board, or change it after showing the effects.

    FILE is JSON or TOML with the whole definition; NAME is a new or an existing board, of which
    only the fields given with --set change.
    """
    dry_run = dry_run or preview_rules
    if dry_run and yes:
        raise click.UsageError("--dry-run changes nothing: --yes has nothing to agree to")
    given = dict(_setting(text) for text in sets)
    file = _file_of(what)
    with reach.client(create=not dry_run) as client:
        if file is None:
            name = name or what
            known = _known(client, name)
            definition = changed(known.definition if known else {}, given)
        else:
            name, definition = _named(file, name)
            definition = changed(definition, given)
            known = _known(client, name)
        _check(name, definition)
        if preview_rules and known is not None:
            _show_caught(client.preview_rules(name, definition))
        elif known is None:
            _define(client, name, definition, dry_run=dry_run)
        else:
            _change(client, name, definition, dry_run=dry_run, yes=yes, drop_scores=drop_scores)


def _file_of(what: str) -> Path | None:
    path = Path(what)
    if path.suffix in {".json", ".toml"} or "/" in what:
        return path
    return path if path.is_file() else None


def read_definition(path: Path) -> dict[str, Any]:
    """Return the definition in a file. Raises CommandFailed if it cannot be read."""
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise CommandFailed(f"{path} has more than {FILE_BYTES_MAX} bytes: is it a board?")
        text = path.read_text(encoding="utf-8")
        found = tomllib.loads(text) if path.suffix == ".toml" else _read_json(text)
    except OSError as exc:
        raise CommandFailed(f"{path}: {exc.strerror}") from None
    except ValueError as exc:  # Of JSON, of TOML, and of UTF-8.
        raise CommandFailed(f"{path} cannot be read: {exc}") from None
    if not isinstance(found, dict):
        raise CommandFailed(f"{path} must hold one object, the definition of a board")
    return found


def _read_json(text: str) -> Any:
    """Return the value of a JSON text. Raises ValueError, also if an object has a field twice."""
    return json.loads(text, object_pairs_hook=_read_fields)


def _read_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"it has the field {plain(name)} twice")
        found[name] = value
    return found


def _named(path: Path, name: str | None) -> tuple[str, dict[str, Any]]:
    definition = read_definition(path)
    said = definition.pop("name", None)
    if said is not None and not isinstance(said, str):
        raise CommandFailed(f"{path}: name must be text")
    return name or said or path.stem, definition


def _setting(text: str) -> tuple[str, Any]:
    field, found, value = text.partition("=")
    if not found or not field:
        raise click.UsageError("--set takes FIELD=VALUE")
    try:
        return field, _read_json(value)
    except ValueError:
        if field in LISTS:
            return field, [part for part in value.split(",") if part]
        return field, value


def changed(definition: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a definition with some fields set; ``limits.score_max`` is a field of a field."""
    made: dict[str, Any] = dict(definition)
    # The two are redundant; the one that is not given would contradict.
    if "direction" in given and "columns" not in given:
        made.pop("columns", None)
    elif "columns" in given and "direction" not in given:
        made.pop("direction", None)
    for field, value in given.items():
        outer, dot, inner = field.partition(".")
        if dot:
            within = made.get(outer)
            made[outer] = {**(within if isinstance(within, dict) else {}), inner: value}
        else:
            made[outer] = [value] if outer in LISTS and isinstance(value, str) else value
    return made


def _check(name: str, definition: Mapping[str, Any]) -> None:
    """Apply the service's checks here, so that a dry run has them, too."""
    from rankd.model.board import Board

    Board.define(name, definition)


def _known(client: "Client", name: str) -> "schemas.BoardBody | None":
    try:
        return client.board(name)
    except UnknownBoard:
        return None


def _define(client: "Client", name: str, definition: Mapping[str, Any], *, dry_run: bool) -> None:
    if dry_run:
        click.echo(f"{plain(name)} would be defined")
        return
    client.define(name, definition)
    click.echo(f"{plain(name)} is defined")


def _change(
    client: "Client",
    name: str,
    definition: Mapping[str, Any],
    *,
    dry_run: bool,
    yes: bool,
    drop_scores: bool,
) -> None:
    preview: Any = client.define(name, definition, apply=yes, drop_scores=drop_scores and yes)
    if not getattr(preview, "changes", None):
        click.echo(f"{plain(name)} is defined so already")
        return
    _show_changes(preview)
    if dry_run:
        return
    if not yes:
        _insist_on_change(preview, drop_scores=drop_scores)
        client.define(name, definition, apply=True, drop_scores=bool(preview.drops))
    click.echo(f"{plain(name)} is changed")


def _insist_on_change(preview: "schemas.Preview", *, drop_scores: bool) -> None:
    name = plain(preview.board)
    insist_on_yes(f"Change {name}?")
    if preview.drops and not drop_scores:
        insist_on_yes(f"Drop scores in {', '.join(preview.drops)}?", option="--drop-scores")


def _show_caught(found: "schemas.RulesPreviewed") -> None:
    """Show the submissions that rules would have caught: each rule, and its first examples."""
    shown = table("rule", "then", "caught", right=["caught"], whole=["rule"])
    for one in found.rules:
        add(shown, one.rule, one.then, one.caught)
    print_tables(shown)
    for one in found.rules:
        examples = table("position", "player", "observed", "limit", right=["position"])
        for each in one.examples:
            add(examples, each.position, each.player, score(each.observed), score(each.limit))
        if one.examples:
            print_tables("", f"{one.rule}, {one.then}:", examples)
    click.echo(f"{found.caught:,} of {found.submissions:,} submissions", err=True)


def _show_changes(preview: "schemas.Preview") -> None:
    shown = table("field", "now", "then")
    for change in preview.changes:
        add(shown, change.field, written(change.before), written(change.after))
    print_tables(shown)
    for window in preview.windows:
        if window.total != window.total_after or window.top != window.top_after:
            _show_window(window)
    if preview.drops and not preview.applied:
        windows = plain(", ".join(preview.drops))
        click.echo(f"warning: scores could not be ranked any more in {windows}", err=True)


def _show_window(window: "schemas.WindowPreview") -> None:
    players = f"{window.total:,} → {count(window.total_after, 'player')}"
    if not window.total_after:
        click.echo(f"{plain(window.window)}: {players}")
        return
    click.echo(f"{plain(window.window)}: {players}; the best would be")
    print_tables(standings_table(window.top_after))


# ------------------------------------------------------------------------------ the others


@board.command("list")
@json_option
@reaching()
def list_boards(reach: Target, as_json: bool) -> None:
    """List all boards."""
    with reach.client() as client:
        found = client.boards()
    if as_json:
        print_json(found)
        return
    if not found.boards:
        click.echo("no boards: `rankd board apply NAME` defines one", err=True)
        return
    shown = table("board", "rule", "players", "next reset", right=["players"], whole=["board"])
    times = _moments([one.next_reset for one in found.boards])
    for one, next_reset in zip(found.boards, times, strict=True):
        add(shown, one.name, one.definition["rule"], one.total, next_reset)
    print_tables(shown)


@board.command()
@click.argument("board")
@json_option
@reaching()
def show(reach: Target, board: str, as_json: bool) -> None:
    """Show a board: its definition and its windows.

    Of closed windows it lists the last ones; `rankd board windows` lists all. With --json it is the
    API's response, without closed windows.
    """
    with reach.client() as client:
        found = client.board(board)
        if as_json:
            print_json(found)
            return
        closed = [one for one in client.windows(board).windows if one.state in CLOSED]
    fields = table("", "")
    for name, value in found.definition.items():
        add(fields, name, written(value))
    print_tables(fields, "")
    print_tables(windows_table(found.windows, states=True))
    if closed:
        last = closed[:CLOSED_SHOWN_MAX]
        click.echo(f"\nThe last {len(last)} of {len(closed):,} that are closed:\n")
        print_tables(windows_table(last))
    if len(closed) > CLOSED_SHOWN_MAX:
        click.echo(f"\n`rankd board windows {plain(board)}` lists them all.")


@board.command()
@click.argument("board")
@json_option
@reaching()
def windows(reach: Target, board: str, as_json: bool) -> None:
    """List all windows of a board, newest first."""
    with reach.client() as client:
        found = client.windows(board)
    if as_json:
        print_json(found)
        return
    print_tables(windows_table(found.windows, states=True))


@board.command()
@click.argument("board")
@count_option("--limit", default=20)
@click.option("--after", type=click.IntRange(min=0), help="Only those after this position.")
@json_option
@reaching()
def corrections(reach: Target, board: str, limit: int, after: int | None, as_json: bool) -> None:
    """List the corrections of a board, without the players.

    Readers may list those of a board with public_corrections; of others it takes the scope
    moderate.
    """
    with reach.client() as client:
        found = client.board_corrections(board, limit=limit, after=after)
    if as_json:
        print_json(found)
        return
    shown = table("position", "at", "kind", "reason", "windows", right=["position"], whole=["at"])
    for one in found.corrections:
        kind = f"{one.kind} ({one.state})" if one.state else one.kind
        add(shown, one.position, one.at, kind, written(one.reason), ", ".join(one.windows))
    print_tables(shown)
    if found.next_after is not None:
        click.echo(f"there may be more: --after {found.next_after}", err=True)


def windows_table(windows: Iterable["schemas.Window"], *, states: bool = False) -> "Table":
    """Return a table of windows."""
    heads = ["window", *(["state"] if states else []), "from", "to", "players"]
    made = table(*heads, right=["players"], whole=["window", "state"])
    listed = list(windows)
    times = _moments([time for one in listed for time in (one.start, one.end)])
    for one, start, end in zip(listed, times[::2], times[1::2], strict=True):
        state = [one.state] if states else []
        add(made, one.window, *state, start, end, one.total)
    return made


def _moments(times: Sequence[str | None]) -> list[str]:
    """Return times to the minute, or all to the second if one has seconds.

    The space lets a narrow column break a time between its date and its hour.
    """
    to_the_minute = all(time is None or time.endswith(":00Z") for time in times)
    seconds = ":00Z" if to_the_minute else "Z"
    return [(time or "").replace("T", " ").replace(seconds, "Z") for time in times]


@board.command()
@click.argument("board")
@click.option("--reason", help="Kept in the audit trail.")
@click.option("--yes", is_flag=True, help="Retire it without asking.")
@reaching()
def retire(reach: Target, board: str, reason: str | None, yes: bool) -> None:
    """Take a board out of use. Its facts stay in the ledger."""
    with reach.client() as client:
        found = client.board(board)
        if not yes:
            insist_on_yes(f"Retire {plain(board)} with its {count(found.total, 'player')}?")
        client.retire(board, reason=reason)
    click.echo(f"{plain(board)} is retired")
