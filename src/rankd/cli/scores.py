"""Submitting a score from the command line."""

from typing import Any

import click

from rankd.cli.reaching import Reach, json_option, reaching
from rankd.cli.show import print_json, score


# Without interspersed options -5 would be an option; this way it is a score.
@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("board")
@click.argument("player")
@click.argument("score")
@click.option("--delta", is_flag=True, help="Add SCORE to the score there is.")
@click.option("--key", metavar="KEY", help="The submission's own key: with it, it counts once.")
@click.option(
    "--attribute",
    "attributes",
    multiple=True,
    metavar="NAME=VALUE",
    help="Where the player belongs, for the board's segments: region=eu. May be repeated.",
)
@json_option
@reaching(key=("--api-key",))
def submit(reach: Reach, as_json: bool, **given: Any) -> None:
    """Have a score counted.

    Prints the verdict, and the player's rank after it. SCORE may be negative.
    """
    what: dict[str, Any] = {"delta" if given["delta"] else "score": given["score"]}
    if given["attributes"]:
        what["attributes"] = dict(map(_attribute, given["attributes"]))
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
    place = f"rank {receipt.rank:,}{moved} of {receipt.total:,}" if receipt.rank else "not ranked"
    click.echo(f"{receipt.verdict}{again}: {place}, score {score(receipt.score)}")


def _attribute(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not (name and sign):
        raise click.UsageError("--attribute takes NAME=VALUE, such as region=eu")
    return name, value
