"""Corrections from the command line: adjustments, retractions, and states of players."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from rankd.cli.options import Target, json_option, reaching
from rankd.cli.output import (
    add,
    insist_on_yes,
    plain,
    print_json,
    print_tables,
    score,
    scores,
    table,
)
from rankd.cli.scores import pairs, submitted
from rankd.errors import count

if TYPE_CHECKING:
    from rankd import schemas
    from rankd.client import Client

_reason = click.option("--reason", metavar="TEXT", help="Kept in the audit trail.")


# Otherwise -5 would be taken for an option; this way it is a score.
@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("board")
@click.argument("player")
@click.argument("score", required=False)
@click.option("--delta", is_flag=True, help="Add SCORE to the score there is.")
@click.option("--key", metavar="KEY", help="A key of its own: with it, the adjustment counts once.")
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME=SCORE",
    help="A column of a board with several: minutes=12. May be repeated.",
)
@_reason
@json_option
@reaching(key=("--api-key",))
def adjust(reach: Target, as_json: bool, **given: Any) -> None:
    """Set or shift a player's score.

    It counts in every open window, under any rule of the board, also if the result is worse. SCORE
    may be negative.
    """
    columns = pairs("--column", "minutes=12", given["columns"])
    what = submitted(given["score"], columns, delta=given["delta"])
    with reach.client() as client:
        receipt = client.adjust(
            given["board"], given["player"], key=given["key"], reason=given["reason"], **what
        )
    if as_json:
        print_json(receipt)
        return
    place = "not ranked"
    if receipt.rank:
        place = f"rank {receipt.rank:,} of {receipt.total:,}, {scores(receipt)}"
    click.echo(f"adjusted at position {receipt.position:,}: {place}")


# -------------------------------------------------------------------------- retractions


@click.command()
@click.argument("board", required=False)
@click.option("--all-boards", is_flag=True, help="On every board.")
@click.option("--position", "positions", type=int, multiple=True, help="Of a submission.")
@click.option("--submission-key", metavar="KEY", help="The key of a submission.")
@click.option("--player", "players", multiple=True, metavar="PLAYER", help="May be repeated.")
@click.option("--build", help="Of this build of the game.")
@click.option("--since", metavar="TIME", help="Recorded then or later: 2026-11-14T09:30:00Z.")
@click.option("--until", metavar="TIME", help="Recorded before then.")
@click.option("--score-min", metavar="SCORE", help="Of players with this score or more.")
@click.option("--score-max", metavar="SCORE", help="Of players with this score or less.")
@click.option("--window", metavar="WINDOW", help="The window of --score-min and --score-max.")
@click.option("--undo", type=int, metavar="POSITION", help="Take back the retraction there.")
@_reason
@click.option("--dry-run", is_flag=True, help="Tell the effect, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@reaching()
def retract(
    reach: Target, board: str | None, all_boards: bool, dry_run: bool, as_json: bool, **given: Any
) -> None:
    """Have submissions to BOARD count no more.

    As if they had never been made: each player's earlier best returns, in closed windows too. All
    conditions that are given must hold. Prints the entries that change, and asks before it changes
    anything; `--undo POSITION` takes it back.
    """
    if (board is None) is not all_boards:
        raise click.UsageError("name one BOARD, or --all-boards")
    undone, yes, reason = given.pop("undo"), given.pop("yes"), given.pop("reason")
    what = _selected(given)
    if (undone is None) is (not what):
        raise click.UsageError("say which submissions: --position, --player, --build, … or --undo")
    with reach.client() as client:
        effect = None
        if dry_run or not yes:
            effect = _ask(client, board, what, undone, reason, dry_run=True)
        if not dry_run and (effect is None or effect.submissions):
            if effect is not None:
                if not as_json:
                    _print_effect(effect)
                insist_on_yes(_question(effect, undone))
            effect = _ask(client, board, what, undone, reason, dry_run=False)
    assert effect is not None
    if as_json:
        print_json(effect)
        return
    _print_effect(effect)
    click.echo(_outcome(effect, undone))


def _selected(given: dict[str, Any]) -> dict[str, Any]:
    """Return the conditions that are given, by the names of the API."""
    key = given.pop("submission_key")
    many = {name: list(given.pop(name)) for name in ("positions", "players")}
    what = {"key": key, **given, **many}
    if len(many["players"]) == 1:
        (what["player"],), what["players"] = many["players"], []
    return {name: value for name, value in what.items() if value not in (None, [])}


def _ask(
    client: "Client",
    board: str | None,
    what: dict[str, Any],
    undone: int | None,
    reason: str | None,
    *,
    dry_run: bool,
) -> "schemas.CorrectionResult":
    from rankd.ports import Progress
    from rankd.progress import ProgressBar

    bar = ProgressBar()

    def tell(running: "schemas.RunningOperation") -> None:
        bar.tell(Progress(running.done, running.total, running.stage, running.unit))

    try:
        if undone is not None:
            return client.undo_retraction(
                undone, board=board, reason=reason, dry_run=dry_run, progress=tell
            )
        return client.retract(board, reason=reason, dry_run=dry_run, progress=tell, **what)
    finally:
        bar.tell(None)


def _question(effect: "schemas.CorrectionResult", undone: int | None) -> str:
    what = f"{count(effect.submissions, 'submission')} of {count(effect.players, 'player')}"
    return f"Count {what} again?" if undone is not None else f"Retract {what}?"


def _outcome(effect: "schemas.CorrectionResult", undone: int | None) -> str:
    what = f"{count(effect.submissions, 'submission')} of {count(effect.players, 'player')}"
    if not effect.submissions:
        return "nothing to do: no submission that is selected would change"
    if effect.dry_run:
        would = "would count again" if undone is not None else "would be retracted"
        return f"{what} {would}; nothing was changed"
    did = "counted again" if undone is not None else "retracted"
    back = "" if undone is not None else f"; --undo {effect.position} takes it back"
    return f"{what} {did} at position {effect.position:,}{back}"


def _print_effect(effect: "schemas.CorrectionResult") -> None:
    if not effect.changes:
        return
    numbers = ("score", "before", "rank", "was")
    shown = table("board", "player", "window", *numbers, right=numbers, whole=["player"])
    for one in effect.changes:
        add(
            shown,
            one.board,
            one.player,
            one.window,
            _shown(one.score),
            _shown(one.previous_score),
            one.rank,
            one.previous_rank,
        )
    print_tables(shown)
    if effect.more:
        click.echo(f"and {effect.more:,} more entries")


def _shown(value: Any) -> str:
    return "-" if value is None else score(value)


# ------------------------------------------------------------------- states of players


def _state_command(verb: str, doc: str, *, ends: bool = True) -> click.Command:
    """Return the command that gives a player a state."""

    def command(
        reach: Target,
        player: str,
        reason: str | None,
        boards: Iterable[str],
        as_json: bool,
        until: str | None = None,
    ) -> None:
        named = list(boards) or None
        more = {"until": until} if ends else {}
        with reach.client() as client:
            done = getattr(client, verb)(player, reason=reason, boards=named, **more)
        if as_json:
            print_json(done)
            return
        where = "every board" if named is None else ", ".join(named)
        click.echo(plain(f"{done.player} is {done.state} on {where} as of {done.position:,}"))

    command.__doc__ = doc
    decorated = reaching()(command)
    decorated = json_option(decorated)
    decorated = click.option(
        "--board", "boards", multiple=True, metavar="BOARD", help="Only there; may be repeated."
    )(decorated)
    if ends:
        ending = click.option("--until", metavar="TIME", help="When it ends by itself.")
        decorated = ending(decorated)
    decorated = click.argument("player")(_reason(decorated))
    return click.command(verb)(decorated)


STATE_COMMANDS = (
    _state_command("ban", "Remove a player from the rankings and refuse its submissions."),
    _state_command("hide", "Remove a player from the rankings; its submissions count unseen."),
    _state_command("shadow", "Hide a player from all but itself."),
    _state_command("restore", "Take back a ban, a hiding or a shadowing.", ends=False),
)
