"""Where a command goes: to a service, or into a data folder by itself."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click
from click.core import ParameterSource

from rankd.cli.failing import Failed

if TYPE_CHECKING:
    from rankd.client import Client

URL_DEFAULT = "http://127.0.0.1:8700"

DATA_DEFAULT = "rankd-data"
"""As `rankd serve` has it."""

RETRIES_MAX = 2
"""Who sits before a terminal would rather know now."""

TIMEOUT_SECONDS = 30.0
"""A person would rather wait than try again: a changed board may be folded anew."""

Command = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Reach:
    """Where to, and as whom."""

    url: str
    key: str | None
    data: str | None

    @contextmanager
    def client(self, *, create: bool = False, patient: bool = False) -> Iterator["Client"]:
        """Connect; with ``create``, to a data folder that may not be there yet.

        A ``patient`` one stays with a service that is being restarted.
        """
        from rankd.client import Client, Policy

        if self.data is None:
            try:
                policy = Policy() if patient else Policy(retries_max=RETRIES_MAX)
                client = Client(self.url, self.key, timeout=TIMEOUT_SECONDS, policy=policy)
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


def insist_on_data(folder: str) -> None:
    """Refuse a folder with nothing in it: opening it would only make an empty ledger."""
    if "://" in folder:
        return  # Of a ledger elsewhere, which tells itself if it is not there.
    path = Path(folder)
    if not path.is_dir() or not any(path.iterdir()):
        raise Failed(f"{folder} holds no data; name the folder that `rankd serve` uses with --data")


def shown_place(data: str) -> str:
    """Return the name of a folder or a ledger as it may be printed: without a password."""
    if "://" not in data:
        return data
    parts = urlsplit(data)
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=host, query="").geturl()


def reaching(
    *, key: tuple[str, ...] = ("--key", "--api-key"), data: bool = True
) -> Callable[[Command], Command]:
    """Give a command the options that say where it goes, and a ``reach`` made of them."""

    def decorate(command: Command) -> Command:
        @click.option(
            "--url",
            envvar="RANKD_URL",
            default=URL_DEFAULT,
            show_default=True,
            show_envvar=True,
            metavar="URL",
            help="The service to speak to.",
        )
        @click.option(
            *key,
            "api_key",
            envvar="RANKD_KEY",
            show_envvar=True,
            metavar="KEY",
            help="The key to show it.",
        )
        @wraps(command)
        @click.pass_context
        def reached(
            ctx: click.Context,
            /,
            *args: Any,
            url: str,
            api_key: str | None,
            data_folder: str | None = None,
            **given: Any,
        ) -> Any:
            named = ctx.get_parameter_source("url") is ParameterSource.COMMANDLINE
            if named and data_folder is not None:
                raise click.UsageError("--url and --data are two places: name one of them")
            return command(*args, reach=Reach(url, api_key or None, data_folder), **given)

        if not data:
            return reached
        return click.option(
            "--data",
            "data_folder",
            metavar="DIR",
            help="Open this data folder instead of speaking to a service.",
        )(reached)

    return decorate


def data_option(command: Command) -> Command:
    """Give a command the folder it works on."""
    return click.option(
        "--data",
        envvar="RANKD_DATA",
        default=DATA_DEFAULT,
        show_default=True,
        show_envvar=True,
        metavar="DIR",
        help="The data folder. No service may have it open.",
    )(command)


def which_ranking(command: Command) -> Command:
    """Give a command the options that say which ranking of a board."""
    command = click.option(
        "--segment", metavar="NAME:VALUE", help="Rank among these only, such as region:eu."
    )(command)
    return click.option(
        "--window", metavar="WINDOW", help="all, daily, daily:-1, daily:2026-11-14."
    )(command)


def json_option(command: Command) -> Command:
    """Give a command the switch for programs that read it."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, as the API has it.")(
        command
    )
