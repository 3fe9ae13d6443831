"""Options of all commands: the settings in force, and the target, a service or a data folder.

The settings are those of the command line, the environment and rankd.toml. A command that calls a
service, or opens its ledger, must find the one that `rankd serve` would start here. If it read
other sources than `serve`, it would open another ledger, find it empty, and report it as valid.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from ipaddress import ip_address
from os import environ
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from rankd.cli.output import CommandFailed
from rankd.settings import Settings, resolve, shown_place

if TYPE_CHECKING:
    from rankd.bootstrap import EngineConfig
    from rankd.client import Client

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


RETRIES_MAX = 2
"""A user at a terminal would rather know soon."""

TIMEOUT_SECONDS = 30.0
"""A user would rather wait than try again."""

BRIEF_SECONDS = 5.0
"""To check whether a service answers at all."""


@dataclass(frozen=True, slots=True)
class Target:
    """The service or the folder of a command, and the key for it."""

    url: str
    key: str | None
    data: str | None

    @contextmanager
    def client(
        self,
        *,
        create: bool = False,
        patient: bool = False,
        brief: bool = False,
        past: bool = False,
    ) -> Iterator["Client"]:
        """Connect; with ``create``, to a data folder that may not exist yet.

        A ``patient`` client waits for a service that restarts; a ``brief`` one tries once. With
        ``past``, a data folder is only read, and past standings may take any amount of work.
        """
        from rankd.client import Client, RetryPolicy

        if self.data is None:
            try:
                retries = 0 if brief else RETRIES_MAX
                policy = RetryPolicy() if patient else RetryPolicy(retries_max=retries)
                timeout = BRIEF_SECONDS if brief else TIMEOUT_SECONDS
                client = Client(self.url, self.key, timeout=timeout, policy=policy)
            except ValueError as exc:
                raise click.UsageError(str(exc)) from None
            with client:
                yield client
            return
        if not create:
            insist_on_data(self.data)
        from rankd.cli.folder import opened, opened_past

        opening = opened_past(self.data) if past else opened(self.data)
        with opening as transport, Client("http://folder", transport=transport) as client:
            yield client


ONE_SERVICE = "--url names one service; `rankd status URL URL` takes several"


def is_on_command_line(name: str) -> bool:
    """Whether a parameter of the current command was given as an option or an argument."""
    source = click.get_current_context().get_parameter_source(name)
    return source is ParameterSource.COMMANDLINE


def reaching(
    *, key: tuple[str, ...] = ("--key", "--api-key"), data: bool = True
) -> Callable[[Command], Command]:
    """Add the options for a target; pass it to the command as ``reach``."""

    def decorate(command: Command) -> Command:
        @click.option(
            "--url",
            "urls_named",
            multiple=True,  # To refuse a second one, which would silently replace the first.
            envvar="RANKD_URL",
            show_envvar=True,
            metavar="URL",
            help="The service to speak to. [default: that of the settings, host and port]",
        )
        @click.option(
            *key,
            "api_key",
            envvar="RANKD_KEY",
            show_envvar=True,
            metavar="KEY",
            help="The API key that is sent.",
        )
        @config_option
        @wraps(command)
        def reached(
            *args: Any,
            urls_named: tuple[str, ...],
            api_key: str | None,
            config: Path | None,
            data_folder: str | None = None,
            **given: Any,
        ) -> Any:
            if len(urls_named) > 1:
                raise click.UsageError(ONE_SERVICE)
            if is_on_command_line("urls_named") and data_folder is not None:
                raise click.UsageError("--url and --data are two places: name one of them")
            url = urls_named[0] if urls_named else ""
            if not url and data_folder is None:
                url = url_of(in_force(config))
            return command(*args, reach=Target(url, api_key or None, data_folder), **given)

        if not data:
            return reached
        return click.option(
            "--data",
            "data_folder",
            metavar="DIR",
            help="Open this data folder instead of speaking to a service.",
        )(reached)

    return decorate


def which_moment(command: Command) -> Command:
    """Add the options for a moment in the past, and for the baseline of movement."""
    command = click.option(
        "--baseline",
        metavar="BASELINE",
        help="Show the movement since then: daily:-1, 24h or a position. [default: today's start]",
    )(command)
    command = click.option(
        "--at", metavar="TIME", help="The standings as they were at a time, 2026-11-14T09:30:00Z."
    )(command)
    return click.option(
        "--as-of",
        type=click.IntRange(min=0),
        metavar="POSITION",
        help="The standings as they were at a position. With --data any amount of work is done.",
    )(command)


def is_past(given: Mapping[str, Any]) -> bool:
    """Whether a command asks for standings as they were."""
    return given["as_of"] is not None or given["at"] is not None


def which_ranking(command: Command) -> Command:
    """Add the options for a ranking of a board."""
    command = click.option(
        "--segment", metavar="NAME:VALUE", help="Rank among these only, such as region:eu."
    )(command)
    return click.option(
        "--window", metavar="WINDOW", help="all, daily, daily:-1, daily:2026-11-14."
    )(command)


COUNT_MAX = 1000
"""Rows that a command shows at most."""


def count_option(*names: str, default: int, most: int = COUNT_MAX) -> Callable[[Command], Command]:
    """Return a decorator that adds the option ``-n``, also by other names."""
    kind = click.IntRange(1, most)
    return click.option(
        "-n", *names, type=kind, default=default, show_default=True, help="How many."
    )


def json_option(command: Command) -> Command:
    """Add the option for JSON output."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, as the API has it.")(
        command
    )
