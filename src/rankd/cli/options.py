"""Options of all commands, and the settings in force: command line, environment, rankd.toml.

A command that calls a service, or opens its ledger, must find the one that `rankd serve` would
start here. If it read other sources than `serve`, it would open another ledger, find it empty, and
report it as valid.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from ipaddress import ip_address
from os import environ
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rankd.cli.errors import CommandFailed
from rankd.settings import Settings, resolve, shown_place

if TYPE_CHECKING:
    from rankd.bootstrap import EngineConfig

CONFIG_DEFAULT = "rankd.toml"

SQLITE, NATIVE = "sqlite", "native"
"""A ledger in the data folder, and an index in this process."""

Command = Callable[..., Any]


def config_option(command: Command) -> Command:
    """Add the option for the file of settings."""
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
    """Return the URL at which this machine reaches the service of these settings."""
    host, port = settings.host, settings.port or Settings().port
    try:
        address = ip_address(host)
        if address.is_unspecified:  # It listens on all; loopback always exists.
            host = "127.0.0.1" if address.version == 4 else "::1"
    except ValueError:
        pass  # A name.
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@dataclass(frozen=True, slots=True)
class ChosenLedger:
    """The ledger that a command works on, with its index."""

    data: str
    """The data folder. It is set for a ledger on a server, too, because other files are in it."""
    ledger: str = SQLITE
    index: str = NATIVE

    @property
    def elsewhere(self) -> bool:
        """Whether the ledger is not in the folder."""
        return self.ledger != SQLITE

    @property
    def shown(self) -> str:
        """Its name for messages, without a password."""
        return shown_place(self.ledger if self.elsewhere else self.data)

    def place(self) -> "EngineConfig":
        """Return the engine's configuration, without the folder that a running service may use."""
        from rankd.bootstrap import EngineConfig

        if not self.elsewhere and self.index == NATIVE:
            return EngineConfig.of(self.data)
        settings = Settings(data=self.data, ledger=self.ledger, index=self.index)
        chosen = EngineConfig.chosen(settings)
        return EngineConfig(None if self.elsewhere else chosen.folder, chosen.ledger, chosen.index)

    def insist(self) -> None:
        """Refuse an empty folder: opening it would only create an empty ledger."""
        if not self.elsewhere:
            insist_on_data(self.data)


def choose(
    config: Path | None, data: str | None, ledger: str | None, index: str | None
) -> ChosenLedger:
    """Return the ledger and the index that a command works on.

    A folder or a URL on the command line stands alone: a ledger or an index of the environment or
    the file belongs to the folder named there.
    """
    if data is not None and "://" in data:
        ledger, data = ledger or data, None
    if data is not None or ledger is not None:
        ledger, index = ledger or SQLITE, index or NATIVE
    settings = in_force(config, data=data, ledger=ledger, index=index)
    return ChosenLedger(settings.data, settings.ledger, settings.index)


def data_option(command: Command) -> Command:
    """Add the options for a ledger; pass the choice to the command as ``at``."""

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
    """Refuse an empty folder: opening it would only create an empty ledger."""
    if "://" in folder:
        return  # Opening a ledger on a server fails by itself.
    path = Path(folder)
    if not path.is_dir() or not any(path.iterdir()):
        raise CommandFailed(
            f"{folder} holds no data; name the folder that `rankd serve` uses with --data"
        )
