"""How a command fails: one line on stderr that says what to do, and an exit code.

0 is done, 1 is refused or failed, 2 is wrong usage.
"""

import errno
from typing import Any, TextIO

import click

from rankd.errors import InvalidSetting, RankdError

HINTS = {
    "unreachable": "is `rankd serve` running there? Name it with --url, or a folder with --data",
    "unauthenticated": "give a key with RANKD_KEY; `rankd keys create --data DIR` makes one",
    "forbidden": "use a key with that scope; `rankd keys list` shows which there are",
    "unknown_board": "`rankd board list` shows which there are, `rankd board apply` defines one",
    "unknown_window": "`rankd board show BOARD` lists its windows",
    "unknown_key": "`rankd keys list` shows the ids",
    "ledger_in_use": "stop it, or speak to its service with --url instead of --data",
    "ledger_corrupt": "stop, keep a copy of the folder, and restore the last backup",
    "index_differs": "`rankd rebuild` folds it anew from the ledger",
    "snapshot_damaged": "`rankd rebuild` folds the index anew",
    "key_reused": "use another submission key",
}
"""What to do about an error, by its code."""


def plain(text: str) -> str:
    """Return text in one line that can do nothing to a terminal."""
    return "".join(sign if sign.isprintable() else " " for sign in text)


class Failed(click.ClickException):
    """What was asked could not be done."""

    def show(self, file: TextIO | None = None) -> None:  # type: ignore[override]
        """Say so, in one line."""
        click.echo(f"rankd: {plain(self.format_message())}", file=file, err=file is None)


def failure(error: RankdError) -> click.ClickException:
    """Return how an error is told."""
    if isinstance(error, InvalidSetting) and error.source == "the command line":
        option = "--" + error.setting.replace("_", "-")
        return click.UsageError(f"{option} {error.problem}")
    code = getattr(error, "code", "")
    hint = HINTS.get(code)
    said = [str(error) or code, *getattr(error, "__notes__", ())]
    if hint is not None and hint not in said[0]:
        said.append(hint)
    return Failed("; ".join(said))


class Commands(click.Group):
    """A group whose commands fail the way this module says."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; turn errors of ours into lines."""
        try:
            return super().invoke(ctx)
        except RankdError as exc:
            raise failure(exc) from exc
        except OSError as exc:
            if exc.errno == errno.EPIPE:  # Whoever read our output has seen enough.
                raise
            where = f"{exc.filename}: " if exc.filename else ""
            raise Failed(f"{where}{exc.strerror or exc}") from exc
