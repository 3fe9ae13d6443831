"""Errors and warnings of commands: one line on stderr with advice, and an exit code.

0 is success, 1 refused or failed, 2 wrong usage.
"""

import errno
import sys
import warnings
from typing import Any, TextIO

import click

from rankd.errors import InvalidSetting, RankdError

NEW_ENOUGH = "run a rankd at least as new as the one that wrote the ledger; nothing was changed"

HINTS = {
    "unreachable": "is `rankd serve` running there? Name it with --url, or a folder with --data",
    "unauthenticated": "give a key with RANKD_KEY; `rankd keys create` makes one, with an admin's "
    "key, or with --data FOLDER while the service is stopped",
    "forbidden": "use a key that has this scope, and this board; an admin's key sees all of them "
    "with `rankd keys list`",
    "unknown_board": "`rankd board list` shows which there are, `rankd board apply` defines one",
    "drops_scores": "`rankd board apply` does it with --drop-scores",
    "unknown_window": "`rankd board windows` lists its windows",
    "unknown_player": "`rankd player find` lists players by the beginning of a name or an id",
    "unknown_key": "`rankd keys list` shows the ids",
    "ledger_in_use": "stop it first, or work on a backup, which `rankd backup` makes meanwhile; "
    "what reads and submits can speak to its service with --url instead",
    "ledger_corrupt": "stop, keep a copy of the ledger as it is, and restore the last backup",
    "unknown_fact": NEW_ENOUGH,
    "ledger_too_new": NEW_ENOUGH,
    "index_differs": "`rankd rebuild` folds it anew from the ledger",
    "snapshot_damaged": "`rankd rebuild` folds the index anew",
    "key_reused": "use another submission key",
}
"""Advice by error code."""


def plain(text: str) -> str:
    """Return text in one line, without control characters for the terminal."""
    return "".join(sign if sign.isprintable() else " " for sign in text)


class CommandFailed(click.ClickException):
    """The command could not be carried out."""

    def show(self, file: TextIO | None = None) -> None:  # type: ignore[override]
        """Print the error in one line."""
        click.echo(f"rankd: {plain(self.format_message())}", file=file, err=file is None)


def insist_on_yes(question: str, *, option: str = "--yes") -> None:
    """Ask for confirmation. Without a terminal, fail and name the option that confirms."""
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        click.echo(err=True)  # Ends the line of the question.
        problem = f"nothing was changed: there is no terminal to answer on; {option} agrees"
        raise CommandFailed(problem) from None
    if not agreed:
        raise click.Abort


def failure(error: RankdError) -> click.ClickException:
    """Return the exception that shows an error to the user."""
    if isinstance(error, InvalidSetting) and error.source == "the command line":
        option = "--" + error.setting.replace("_", "-")
        return click.UsageError(f"{option} {error.problem}")
    code = getattr(error, "code", "")
    hint = HINTS.get(code)
    said = [str(error) or code, *getattr(error, "__notes__", ())]
    if hint is not None and hint not in said[0]:
        said.append(hint)
    return CommandFailed("; ".join(said))


def _warn(message: Warning | str, *_where: Any, **_more: Any) -> None:
    """Print a warning without its source line, which is of no use here."""
    click.echo(f"warning: {plain(str(message))}", err=True)


class FailingGroup(click.Group):
    """A group whose commands fail as this module defines."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; turn errors and warnings into lines."""
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            return self._invoke(ctx)

    def _invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except RankdError as exc:
            raise failure(exc) from exc
        except OSError as exc:
            if exc.errno == errno.EPIPE:  # The reader of the pipe has closed it.
                raise
            where = f"{exc.filename}: " if exc.filename else ""
            advice = "; choose another with --port" if exc.errno == errno.EADDRINUSE else ""
            raise CommandFailed(f"{where}{exc.strerror or exc}{advice}") from exc
