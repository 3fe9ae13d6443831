"""The settings in force, for every command alike: the command line, the environment, rankd.toml.

A command that looks at a service, or into its ledger, has to find the one that `rankd serve` would
start here. If it read other places than `serve` does, it would look into another, find it empty,
and call it whole.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from ipaddress import ip_address
from os import environ
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rankd.cli.failing import Failed
from rankd.settings import Settings, resolve, shown_place

if TYPE_CHECKING:
    from rankd.wiring import Place

CONFIG_DEFAULT = "rankd.toml"

SQLITE, NATIVE = "sqlite", "native"
"""A ledger in the data folder, and an index in this process."""

Command = Callable[..., Any]


def config_option(command: Command) -> Command:
    """Let a command be told which file has the settings."""
    return click.option(
        "--config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help=f"The file of settings. [default: {CONFIG_DEFAULT} if it is there]",
    )(command)


def in_force(config: Path | None, **command_line: Any) -> Settings:
    """Return the settings in force. Raises InvalidSetting."""
    return resolve(
        command_line=command_line, environment=environ, file=config or Path(CONFIG_DEFAULT)
    )


def url_of(settings: Settings) -> str:
    """Return where the service of these settings is spoken to from this machine."""
    host, port = settings.host, settings.port or Settings().port
    try:
        address = ip_address(host)
        if address.is_unspecified:  # It listens on all of them, and one is sure to be there.
            host = "127.0.0.1" if address.version == 4 else "::1"
    except ValueError:
        pass  # A name.
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@dataclass(frozen=True, slots=True)
class Chosen:
    """The ledger that a command works on, and the index that goes with it."""

    data: str
    """The folder; also where the ledger is elsewhere, for what else is kept there."""
    ledger: str = SQLITE
    index: str = NATIVE

    @property
    def elsewhere(self) -> bool:
        """Whether the ledger is not in the folder."""
        return self.ledger != SQLITE

    @property
    def shown(self) -> str:
        """How it is called, where it may be printed: without a password."""
        return shown_place(self.ledger if self.elsewhere else self.data)

    def place(self) -> "Place":
        """Return where an engine finds it. The folder of a service that may run is left alone."""
        from rankd.wiring import Place

        if not self.elsewhere and self.index == NATIVE:
            return Place.of(self.data)
        settings = Settings(data=self.data, ledger=self.ledger, index=self.index)
        chosen = Place.chosen(settings)
        return Place(None if self.elsewhere else chosen.folder, chosen.ledger, chosen.index)

    def insist(self) -> None:
        """Refuse a folder with nothing in it: opening it would only make an empty ledger."""
        if not self.elsewhere:
            insist_on_data(self.data)


def choose(config: Path | None, data: str | None, ledger: str | None, index: str | None) -> Chosen:
    """Return what a command works on.

    A folder or a URL that is named on the command line is named whole: what the environment and
    the file say of a ledger elsewhere, or of an index, goes with the folder that they name.
    """
    if data is not None and "://" in data:
        ledger, data = ledger or data, None
    if data is not None or ledger is not None:
        ledger, index = ledger or SQLITE, index or NATIVE
    settings = in_force(config, data=data, ledger=ledger, index=index)
    return Chosen(settings.data, settings.ledger, settings.index)


def data_option(command: Command) -> Command:
    """Give a command the ledger it works on, as ``at``."""

    @click.option(
        "--data",
        metavar="DIR",
        help="The data folder, or a ledger as postgresql://…",
    )
    @click.option("--ledger", metavar="URL", help="The ledger, if it is not in the folder.")
    @click.option("--index", metavar="URL", help="The index, if nodes share one.")
    @config_option
    @wraps(command)
    def chosen(
        *args: Any,
        config: Path | None,
        data: str | None,
        ledger: str | None,
        index: str | None,
        **given: Any,
    ) -> Any:
        return command(*args, at=choose(config, data, ledger, index), **given)

    return chosen


def insist_on_data(folder: str) -> None:
    """Refuse a folder with nothing in it: opening it would only make an empty ledger."""
    if "://" in folder:
        return  # Of a ledger elsewhere, which tells itself if it is not there.
    path = Path(folder)
    if not path.is_dir() or not any(path.iterdir()):
        raise Failed(f"{folder} holds no data; name the folder that `rankd serve` uses with --data")
