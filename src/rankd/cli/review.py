"""List, show, approve and reject the submissions that rules held or flagged."""

from typing import TYPE_CHECKING

import click

from rankd.cli.options import Target, count_option, json_option, reaching
from rankd.cli.output import FailingGroup, add, plain, print_json, print_tables, score, table

if TYPE_CHECKING:
    from rankd import schemas

STATES = ("held", "flagged", "approved", "rejected")

reason_option = click.option("--reason", metavar="TEXT", help="Kept in the audit trail.")


@click.group(cls=FailingGroup)
def review() -> None:
    """List held and flagged submissions, and decide about them.

    A held submission counts once it is approved, at its original position. A flagged one counts
    already; to reject it is to retract it.
    """


@review.command("list")
@click.option("--board", metavar="BOARD", help="Of this board only.")
@click.option("--state", type=click.Choice(STATES), help="In this state only.")
@count_option("--limit", default=20)
@click.option("--before", type=click.IntRange(min=1), metavar="ID", help="Older than this one.")
@json_option
@reaching()
def list_reviews(
    reach: Target,
    board: str | None,
    state: str | None,
    limit: int,
    before: int | None,
    as_json: bool,
) -> None:
    """List reviews, newest first."""
    with reach.client() as client:
        found = client.reviews(board=board, state=state, limit=limit, before=before)
    if as_json:
        print_json(found)
        return
    shown = table(
        *("id", "board", "player", "score", "at", "state", "reasons"),
        right=["id", "score"],
        whole=["id", "player"],
    )
    for one in found.reviews:
        reasons = ", ".join(reason.rule for reason in one.reasons)
        add(shown, one.id, one.board, one.player, _score(one), one.at, one.state, reasons)
    print_tables(shown)
    click.echo(f"{found.open:,} wait for a decision", err=True)
    if found.next_before is not None:
        click.echo(f"there are more: --before {found.next_before}", err=True)


@review.command()
@click.argument("id")
@json_option
@reaching()
def show(reach: Target, id: str, as_json: bool) -> None:
    """Show a review.

    The rules that the submission broke, and the player's submissions up to it.
    """
    with reach.client() as client:
        found = client.review(id)
    if as_json:
        print_json(found)
        return
    _print_review(found)


@review.command()
@click.argument("id")
@reason_option
@json_option
@reaching()
def approve(reach: Target, id: str, reason: str | None, as_json: bool) -> None:
    """Have a held submission count, at its original position."""
    with reach.client() as client:
        decided = client.approve_review(id, reason=reason)
    _print_decided(decided, as_json)


@review.command()
@click.argument("id")
@reason_option
@json_option
@reaching()
def reject(reach: Target, id: str, reason: str | None, as_json: bool) -> None:
    """Have a held submission never count, or retract a flagged one."""
    with reach.client() as client:
        decided = client.reject_review(id, reason=reason)
    _print_decided(decided, as_json)


def _score(one: "schemas.ReviewItem") -> str:
    if one.columns:
        return ", ".join(f"{name} {score(value)}" for name, value in one.columns.items())
    return f"{one.delta:+}" if one.score is None and one.delta is not None else score(one.score)


def _print_review(found: "schemas.ReviewItem") -> None:
    click.echo(
        f"review {plain(found.id)}: {plain(found.player)} on {plain(found.board)}, "
        f"{_score(found)} at {found.at}"
    )
    by = f" by {plain(found.decided_by)}" if found.decided_by else ""
    why = f": {plain(found.reason)}" if found.reason else ""
    click.echo(f"{found.state}{by}{why}")
    broken = table("rule", "observed", "limit", right=["observed", "limit"], whole=["rule"])
    for reason in found.reasons:
        add(broken, reason.rule, score(reason.observed), score(reason.limit))
    evidence = table("position", "at", "score", "delta", right=["position", "score", "delta"])
    for fact in found.evidence or ():
        add(evidence, fact.position, fact.at, score(fact.score), score(fact.delta))
    print_tables("", broken, "", evidence)


def _print_decided(decided: "schemas.ReviewItem", as_json: bool) -> None:
    if as_json:
        print_json(decided)
        return
    changed = len(decided.changes or ()) + (decided.more or 0)
    noun = "entry" if changed == 1 else "entries"
    click.echo(f"review {plain(decided.id)} is {decided.state}: {changed:,} {noun} changed")
