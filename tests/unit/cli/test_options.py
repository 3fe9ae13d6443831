"""Every command finds the ledger and the service that `rankd serve` would start here."""

from pathlib import Path

import pytest

from rankd.cli.options import ChosenLedger, choose, in_force, url_of
from rankd.settings import Settings

POSTGRES = "postgresql://rankd:secret@db/ranks"


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("DATA", "LEDGER", "INDEX", "HOST", "PORT"):
        monkeypatch.delenv(f"RANKD_{name}", raising=False)


def chosen(
    data: str | None = None, ledger: str | None = None, index: str | None = None
) -> ChosenLedger:
    return choose(None, data, ledger, index)


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert chosen() == ChosenLedger("rankd-data")
    (tmp_path / "rankd.toml").write_text('data = "of-the-file"\n')
    assert chosen() == ChosenLedger("of-the-file")
    monkeypatch.setenv("RANKD_DATA", "of-the-environment")
    assert chosen() == ChosenLedger("of-the-environment")
    assert chosen("named") == ChosenLedger("named")
    other = tmp_path / "other.toml"
    other.write_text('ledger = "postgresql://other/ranks"\n')
    assert choose(other, None, None, None).ledger == "postgresql://other/ranks"


def test_a_ledger_elsewhere_is_found_where_the_service_finds_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RANKD_LEDGER", POSTGRES)
    monkeypatch.setenv("RANKD_INDEX", "redis://r")
    assert chosen() == ChosenLedger("rankd-data", POSTGRES, "redis://r")
    assert chosen(index="native") == ChosenLedger("rankd-data", POSTGRES)
    place = chosen().place()
    assert (place.folder, place.ledger, place.index) == (None, POSTGRES, "redis://r")


def test_what_is_named_on_the_command_line_is_named_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of backups is looked into by `--data`, whatever the service of this machine uses."""
    monkeypatch.setenv("RANKD_LEDGER", POSTGRES)
    monkeypatch.setenv("RANKD_INDEX", "redis://r")
    assert chosen("backup") == ChosenLedger("backup")
    assert chosen("backup").place().folder == Path("backup")
    assert chosen("postgresql://other/x") == ChosenLedger("rankd-data", "postgresql://other/x")
    assert chosen(ledger="postgresql://other/x").index == "native"
    assert chosen("d", ledger="postgresql://o/x", index="redis://s") == ChosenLedger(
        "d", "postgresql://o/x", "redis://s"
    )


def test_a_place_is_shown_without_its_password() -> None:
    assert ChosenLedger("d", POSTGRES).shown == "postgresql://db/ranks"
    assert ChosenLedger("d").shown == "d"


@pytest.mark.parametrize(
    ("host", "port", "url"),
    [
        ("127.0.0.1", 8700, "http://127.0.0.1:8700"),
        ("0.0.0.0", 80, "http://127.0.0.1:80"),
        ("::", 80, "http://[::1]:80"),
        ("fd00::1", 80, "http://[fd00::1]:80"),
        ("game.internal", 80, "http://game.internal:80"),
        ("127.0.0.1", 0, "http://127.0.0.1:8700"),
    ],
)
def test_a_service_is_spoken_to_where_it_listens(host: str, port: int, url: str) -> None:
    assert url_of(Settings(host=host, port=port)) == url


def test_the_service_is_that_of_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rankd.toml").write_text("port = 9001\n")
    assert url_of(in_force(None)) == "http://127.0.0.1:9001"
    monkeypatch.setenv("RANKD_PORT", "9002")
    assert url_of(in_force(None)) == "http://127.0.0.1:9002"
