"""A command that fails, or warns, says so in one line that can do nothing to a terminal."""

import re
import warnings

import click
import pytest
from click.testing import CliRunner

from rankd.cli import main
from rankd.cli.output import HINTS, CommandFailed, FailingGroup, failure
from rankd.errors import InvalidSetting, LedgerInUse, RankdError, UnknownBoard


def test_a_line_says_what_and_what_to_do() -> None:
    said = failure(UnknownBoard("x")).format_message()
    assert said.startswith("there is no board 'x'; ")
    assert HINTS["unknown_board"] in said


def test_hints_are_for_errors_there_are_and_name_commands_there_are() -> None:
    assert set(HINTS) - {"unreachable"} <= set(RankdError._taken)
    for hint in HINTS.values():
        for name in re.findall(r"`rankd (\w+)", hint):
            assert name in main.commands


def test_a_wrong_setting_on_the_command_line_is_wrong_usage() -> None:
    wrong = InvalidSetting(setting="idle_seconds_max", source="the command line", problem="takes 1")
    told = failure(wrong)
    assert isinstance(told, click.UsageError)
    assert told.format_message() == "--idle-seconds-max takes 1"
    elsewhere = InvalidSetting(setting="port", source="rankd.toml", problem="takes 1")
    assert failure(elsewhere).exit_code == 1


@pytest.mark.parametrize(
    "error",
    [LedgerInUse("a\x1b[31m\nb"), PermissionError(13, "denied", "a\nb"), CommandFailed("a\nb\x07")],
)
def test_whatever_happens_is_one_plain_line(error: Exception) -> None:
    @click.command()
    def fail() -> None:
        raise error

    group = FailingGroup(commands={"fail": fail})
    done = CliRunner().invoke(group, ["fail"])
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("rankd: ")
    assert done.stderr.endswith("\n")
    assert done.stderr[:-1].isprintable()


def test_a_mistake_of_ours_is_not_dressed_up() -> None:
    @click.command()
    def fail() -> None:
        raise AssertionError("a bug")

    done = CliRunner().invoke(FailingGroup(commands={"fail": fail}), ["fail"])
    assert isinstance(done.exception, AssertionError)


def test_a_warning_is_one_plain_line_and_names_no_line_of_ours() -> None:
    @click.command()
    def warn() -> None:
        warnings.simplefilter("default")
        warnings.warn("it is slow\x1b[31m\nhere", RuntimeWarning, stacklevel=1)
        click.echo("done")

    told = warnings.showwarning
    done = CliRunner().invoke(FailingGroup(commands={"warn": warn}), ["warn"])
    assert (done.exit_code, done.stdout) == (0, "done\n")
    assert done.stderr == "warning: it is slow [31m here\n"
    assert warnings.showwarning is told
