"""The target of a command: a service, or a data folder that it opens itself."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from rankd.cli.options import config_option, in_force, insist_on_data, url_of

if TYPE_CHECKING:
    from rankd.client import Client

RETRIES_MAX = 2
"""A user at a terminal would rather know soon."""

TIMEOUT_SECONDS = 30.0
"""A user would rather wait than try again."""

BRIEF_SECONDS = 5.0
"""To check whether a service answers at all."""

Command = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Target:
    """The service or the folder of a command, and the key for it."""

    url: str
    key: str | None
    data: str | None

    @contextmanager
    def client(
        self, *, create: bool = False, patient: bool = False, brief: bool = False
    ) -> Iterator["Client"]:
        """Connect; with ``create``, to a data folder that may not exist yet.

        A ``patient`` client waits for a service that restarts; a ``brief`` one tries once.
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
        from rankd.cli.folder import opened

        with opened(self.data) as transport, Client("http://folder", transport=transport) as client:
            yield client


def reaching(
    *, key: tuple[str, ...] = ("--key", "--api-key"), data: bool = True
) -> Callable[[Command], Command]:
    """Add the options for a target; pass it to the command as ``reach``."""

    def decorate(command: Command) -> Command:
        @click.option(
            "--url",
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
            help="The key to show it.",
        )
        @config_option
        @wraps(command)
        @click.pass_context
        def reached(
            ctx: click.Context,
            /,
            *args: Any,
            url: str | None,
            api_key: str | None,
            config: Path | None,
            data_folder: str | None = None,
            **given: Any,
        ) -> Any:
            named = ctx.get_parameter_source("url") is ParameterSource.COMMANDLINE
            if named and data_folder is not None:
                raise click.UsageError("--url and --data are two places: name one of them")
            if url is None:
                url = "" if data_folder is not None else url_of(in_force(config))
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


def which_ranking(command: Command) -> Command:
    """Add the options for a ranking of a board."""
    command = click.option(
        "--segment", metavar="NAME:VALUE", help="Rank among these only, such as region:eu."
    )(command)
    return click.option(
        "--window", metavar="WINDOW", help="all, daily, daily:-1, daily:2026-11-14."
    )(command)


def json_option(command: Command) -> Command:
    """Add the option for JSON output."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, as the API has it.")(
        command
    )
