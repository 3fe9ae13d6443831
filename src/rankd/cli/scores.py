"""Submitting a score from the command line."""

from collections.abc import Iterable
from typing import Any

import click

from rankd.cli.output import print_json, scores
from rankd.cli.target import Target, json_option, reaching


# Otherwise -5 would be taken for an option; this way it is a score.
@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("board")
@click.argument("player")
@click.argument("score", required=False)
@click.option("--delta", is_flag=True, help="Add SCORE to the score there is.")
@click.option("--key", metavar="KEY", help="The submission's own key: with it, it counts once.")
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME=SCORE",
    help="A column of a board with several: minutes=12. SCORE is the first of them, unless it is "
    "named here too. May be repeated.",
)
@click.option(
    "--attribute",
    "attributes",
    multiple=True,
    metavar="NAME=VALUE",
    help="Where the player belongs, for the board's segments: region=eu. May be repeated.",
)
@json_option
@reaching(key=("--api-key",))
def submit(reach: Target, as_json: bool, **given: Any) -> None:
    """Submit a score.

    Prints the verdict, and the player's rank after it. SCORE may be negative.
    """
    what = _submitted(
        given["score"],
        pairs("--column", "minutes=12", given["columns"]),
        delta=given["delta"],
    )
    if attributes := pairs("--attribute", "region=eu", given["attributes"]):
        what["attributes"] = attributes
    with reach.client() as client:
        receipt = client.submit(given["board"], given["player"], key=given["key"], **what)
    if as_json:
        print_json(receipt)
        return
    if receipt.verdict == "accepted":
        click.echo("accepted: it is recorded, and will be ranked once the index is back")
        return
    moved = f" (was {receipt.previous_rank:,})" if receipt.previous_rank else ""
    again = ", seen before" if receipt.duplicate is True else ""
    place = "not ranked"
    if receipt.rank:
        place = f"rank {receipt.rank:,}{moved} of {receipt.total:,}, {scores(receipt)}"
    click.echo(f"{receipt.verdict}{again}: {place}")


def _submitted(score: str | None, columns: dict[str, str], *, delta: bool) -> dict[str, Any]:
    """Return the fields of the submission, by the names of the API."""
    if delta and columns:
        raise click.UsageError("--delta adds to a score: it takes no --column")
    if score is None and (delta or not columns):
        raise click.UsageError("SCORE is missing, or a --column for each that the board has")
    what: dict[str, Any] = {} if score is None else {"delta" if delta else "score": score}
    return {**what, "columns": columns} if columns else what


def pairs(option: str, example: str, given: Iterable[str]) -> dict[str, str]:
    """Return the NAME=VALUE pairs of an option. A name may occur once."""
    found: dict[str, str] = {}
    for text in given:
        name, _, value = text.partition("=")
        if not (name and value):
            raise click.UsageError(f"{option} takes NAME=VALUE, such as {example}")
        if name in found:
            raise click.UsageError(f"{option} names {name} twice")
        found[name] = value
    return found
