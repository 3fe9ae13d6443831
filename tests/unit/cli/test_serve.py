"""Every setting is an option, and the command line wins."""

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from rankd.cli.serve import announce, serve, settings_of
from rankd.errors import InvalidSetting
from rankd.settings import TABLE


def given(*args: str) -> dict[str, Any]:
    context = serve.make_context("serve", list(args))
    return context.params


def test_every_setting_is_an_option() -> None:
    options = {option for parameter in serve.params for option in parameter.opts}
    assert {"--" + row.name.replace("_", "-") for row in TABLE} <= options
    assert {"--data", "--host", "--port", "--workers", "--ledger", "--index", "--bus"} <= options


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rankd.toml").write_text("port = 1\nbacklog_max = 1\nrequest_headers_max = 10\n")
    monkeypatch.setenv("RANKD_PORT", "2")
    monkeypatch.setenv("RANKD_BACKLOG_MAX", "2")
    settings = settings_of(given("--port", "3", "--access-log", "--no-fast-lane"))
    assert (settings.port, settings.backlog_max, settings.request_headers_max) == (3, 2, 10)
    assert (settings.access_log, settings.fast_lane) == (True, False)


def test_another_file_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text("port = 7\n")
    assert settings_of(given("--config", str(tmp_path / "other.toml"))).port == 7


def test_a_wrong_value_is_wrong_usage() -> None:
    done = CliRunner().invoke(serve, ["--config", "/nowhere/rankd.toml"])
    assert done.exit_code == 2
    with pytest.raises(click.UsageError):
        given("--nonsense")


@pytest.mark.parametrize("place", ["the command line", "the environment", "the file"])
def test_a_bus_that_is_not_there_yet_is_refused_wherever_it_is_named(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def named(bus: str) -> str:
        options = []
        if place == "the file":
            (tmp_path / "rankd.toml").write_text(f'bus = "{bus}"\n')
        elif place == "the environment":
            monkeypatch.setenv("RANKD_BUS", bus)
        else:
            options = ["--bus", bus]
        return settings_of(given(*options)).bus

    assert named("memory") == "memory"
    with pytest.raises(InvalidSetting, match="not supported yet"):
        named("kafka://elsewhere")


def test_an_address_of_ipv6_is_written_so_that_it_can_be_used(
    capsys: pytest.CaptureFixture[str],
) -> None:
    announce("::1", 80)
    announce("127.0.0.1", 81)
    assert capsys.readouterr().out == (
        "rankd ready on http://[::1]:80\nrankd ready on http://127.0.0.1:81\n"
    )
