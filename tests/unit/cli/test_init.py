"""The front of the command line: every command is listed, explained and quick to begin."""

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from rankd.cli import main, resp

SLOW = ("httptools", "rich", "uvicorn", "starlette", "apsw", "rankd.core", "rankd.embedded")


def commands(group: click.Group, above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for name, command in group.commands.items():
        found.append((*above, name))
        if isinstance(command, click.Group):
            found += commands(command, (*above, name))
    return found


def found(path: tuple[str, ...]) -> click.Command:
    command: click.Command = main
    for name in path:
        assert isinstance(command, click.Group)
        command = command.commands[name]
    return command


@pytest.mark.parametrize("path", commands(main), ids=" ".join)
def test_every_command_explains_itself_and_its_options(path: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main, [*path, "--help"])
    assert done.exit_code == 0
    command = found(path)
    assert command.help
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name


def test_every_command_is_listed() -> None:
    listed = CliRunner().invoke(main, ["--help"]).stdout
    assert [name for name in main.commands if f"\n  {name} " not in listed] == []


@pytest.mark.parametrize(
    "path",
    [(), *(path for path in commands(main) if isinstance(found(path), click.Group))],
    ids=" ".join,
)
def test_no_line_of_a_list_of_commands_is_cut_off(path: tuple[str, ...]) -> None:
    listed = CliRunner().invoke(main, [*path, "--help"], terminal_width=80).stdout
    assert [
        line for line in listed.splitlines() if line.endswith("...") and "Usage" not in line
    ] == []


def test_the_help_and_the_page_name_a_sorted_set_alike() -> None:
    told = CliRunner().invoke(main, ["import", "--help"]).stdout
    page = (Path(__file__).parents[3] / "docs" / "cli.md").read_text()
    assert resp.FORM in "".join(told.split())
    assert resp.FORM in page
    examples = re.findall(r"rankd import (redis://\S+)", page)
    assert [resp.place_of(url).source for url in examples] == examples


def test_help_and_import_load_nothing_that_is_slow() -> None:
    code = f"""
import sys, rankd
from rankd.cli import main
try:
    main(["--help"])
except SystemExit:
    pass
slow = [name for name in {SLOW!r} if name in sys.modules]
sys.exit(f"loaded: {{slow}}" if slow else 0)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_command_is_in_the_documentation() -> None:
    page = (Path(__file__).parents[3] / "docs" / "cli.md").read_text()
    missing = [
        " ".join(path)
        for path in commands(main)
        if not isinstance(found(path), click.Group) and f"`{' '.join(path)}`" not in page
    ]
    assert missing == []
