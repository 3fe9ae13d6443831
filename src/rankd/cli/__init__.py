"""The command line. ``rankd --help`` lists the commands; docs/cli.md describes them.

Commands start quickly: a module that is slow to import (httptools, rich, the engine, the server) is
imported inside the function that needs it.
"""

import click

from rankd._version import __version__
from rankd.cli.archive import archive
from rankd.cli.bench import bench
from rankd.cli.board import board
from rankd.cli.corrections import adjust, retract
from rankd.cli.distribution import distribution
from rankd.cli.doctor import doctor
from rankd.cli.export import export
from rankd.cli.keys import keys
from rankd.cli.maintenance import backup, rebuild, restore, verify
from rankd.cli.output import FailingGroup
from rankd.cli.player import history, player
from rankd.cli.report import report
from rankd.cli.review import review
from rankd.cli.scores import import_, submit
from rankd.cli.serve import demo, serve
from rankd.cli.standings import around, standing, top, watch
from rankd.cli.status import clock, status
from rankd.cli.webhook import webhook
from rankd.cli.window import window

__all__ = ["main"]

_SECTIONS = {
    "Service": (serve, demo, status, doctor, bench, clock),
    "Boards and scores": (board, window, submit, top, standing, around, distribution, watch),
    "Players": (player, history),
    "Corrections": (adjust, retract, review),
    "In and out": (import_, export),
    "Analytics": (archive, report),
    "Care of a data folder": (verify, rebuild, backup, restore),
    "Access": (keys,),
    "Events": (webhook,),
}


class CommandGroup(FailingGroup):
    """All commands, listed by section."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List each section with its commands."""
        width = max(len(command.name or "") for command in self.commands.values())
        for title, commands in _SECTIONS.items():
            with formatter.section(title):
                room = formatter.width - width - 6
                rows = [
                    ((one.name or "").ljust(width), one.get_short_help_str(room))
                    for one in commands
                ]
                formatter.write_dl(rows)


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="rankd", message="%(prog)s %(version)s")
def main() -> None:
    """Exact ranks for every player, as they change.

    `rankd serve` starts the service. The other commands call it: at --url (or RANKD_URL), or at the
    host and port of the settings, by default http://127.0.0.1:8700, with the key in RANKD_KEY. With
    --data they open a data folder themselves, which no service may have open meanwhile.
    """


for _commands in _SECTIONS.values():
    for _command in _commands:
        main.add_command(_command)
