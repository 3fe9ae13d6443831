"""Where a setting comes from, what it may be, and what is said when it may not."""

import re
from pathlib import Path

import pytest

from rankd.errors import InvalidSetting
from rankd.settings import OTHER_VARIABLES, TABLE, Settings, resolve, shown_place


def test_without_anything_given_the_defaults_are_in_force(tmp_path: Path) -> None:
    assert resolve() == Settings()
    assert resolve(file=tmp_path / "rankd.toml") == Settings()


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "rankd.toml"
    file.write_text('host = "file"\nport = 1\nidle_seconds_max = 3\n')
    environment = {"RANKD_HOST": "environment", "RANKD_PORT": "2", "UNRELATED": "x"}
    settings = resolve(
        command_line={"host": "line", "data": None}, environment=environment, file=file
    )
    assert (settings.host, settings.port, settings.idle_seconds_max) == ("line", 2, 3.0)
    assert settings.data == Settings().data


def test_every_setting_is_explained_and_its_default_is_one_it_takes() -> None:
    for row in TABLE:
        assert row.help.endswith("."), row.name
        assert row.read(row.default, "here") == row.default
        assert type(row.default) is row.kind
        if row.kind in (int, float):
            assert row.low is not None and row.high is not None, row.name


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("port", "0", 0),
        ("request_seconds_max", "0.5", 0.5),
        ("request_seconds_max", "3", 3.0),
        ("access_log", "Yes", True),
        ("access_log", "off", False),
        ("cors_origins", "https://a, https://b,", ("https://a", "https://b")),
        ("cors_origins", "", ()),
    ],
)
def test_a_text_of_the_environment_becomes_a_value(name: str, text: str, value: object) -> None:
    settings = resolve(environment={f"RANKD_{name.upper()}": text})
    assert getattr(settings, name) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("port", "65536"),
        ("port", "-1"),
        ("port", "eight"),
        ("port", ""),
        ("port", "8.0"),
        ("port", "9" * 5000),
        ("request_seconds_max", "nan"),
        ("request_seconds_max", "inf"),
        ("request_seconds_max", "0"),
        ("access_log", "maybe"),
        ("host", ""),
    ],
)
def test_a_bad_value_is_refused_with_its_name_its_place_and_what_is_taken(
    name: str, text: str
) -> None:
    variable = f"RANKD_{name.upper()}"
    with pytest.raises(InvalidSetting) as told:
        resolve(environment={variable: text})
    assert told.value.setting == name
    assert variable in told.value.source
    assert "takes" in str(told.value)


@pytest.mark.parametrize(
    "line",
    [
        "port = true",
        "port = 1.5",
        "access_log = 1",
        "host = 5",
        "cors_origins = [1]",
        "request_seconds_max = nan",
        "unknown = 1",
        "[server]\nport = 1",
        "port = ",
        "port = 1\nport = 2",
    ],
)
def test_a_mistake_in_the_file_is_told_even_if_something_stronger_hides_it(
    tmp_path: Path, line: str
) -> None:
    file = tmp_path / "rankd.toml"
    file.write_text(line)
    with pytest.raises(InvalidSetting) as told:
        resolve(command_line={"port": 5, "host": "h"}, file=file)
    assert str(file) in str(told.value)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("prot = 1", "prot is not a setting; did you mean port[?]"),
        (
            "idle-seconds-max = 1",
            "idle-seconds-max is not a setting; did you mean idle_seconds_max",
        ),
        ("[server]\nport = 1", "server is not a setting; `rankd serve --help` lists"),
    ],
)
def test_an_unknown_name_in_the_file_is_told_with_the_one_that_was_probably_meant(
    tmp_path: Path, line: str, why: str
) -> None:
    file = tmp_path / "rankd.toml"
    file.write_text(line)
    with pytest.raises(InvalidSetting, match=why) as told:
        resolve(file=file)
    assert len(str(told.value)) < len(str(file)) + 100
    with pytest.raises(InvalidSetting, match="the command line"):
        resolve(command_line={"prot": 1})


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("rankd-data", "rankd-data"),
        ("redis://:secret@r:1/0?password=secret", "redis://r:1/0"),
        ("postgresql://u:secret@[::1]:5432/db", "postgresql://[::1]:5432/db"),
    ],
)
def test_a_place_is_shown_without_its_password(place: str, shown: str) -> None:
    assert shown_place(place) == shown


@pytest.mark.parametrize(
    ("variable", "told"),
    [
        ("RANKD_PROT", "did you mean RANKD_PORT?"),
        ("RANKD_IDLE_SECOND_MAX", "did you mean RANKD_IDLE_SECONDS_MAX?"),
        ("RANKD_DB_PORT", "is not a setting"),
        ("RANKD_XYZ", "`rankd serve --help` lists"),
    ],
)
def test_a_variable_that_sets_nothing_is_refused(variable: str, told: str) -> None:
    """Whoever set it believes that it is in force."""
    with pytest.raises(InvalidSetting, match=re.escape(told)) as refusal:
        resolve(environment={variable: "1"})
    assert refusal.value.setting == variable


def test_what_kubernetes_tells_of_a_service_called_rankd_stops_nothing() -> None:
    """Nor of one that is called rankd-db. RANKD_PORT is ours too, and then not meant."""
    told = {
        "RANKD_SERVICE_HOST": "10.0.0.11",
        "RANKD_SERVICE_PORT": "8700",
        "RANKD_SERVICE_PORT_HTTP": "8700",
        "RANKD_PORT": "tcp://10.0.0.11:8700",
        "RANKD_PORT_8700_TCP": "tcp://10.0.0.11:8700",
        "RANKD_PORT_8700_TCP_PROTO": "tcp",
        "RANKD_PORT_8700_TCP_PORT": "8700",
        "RANKD_PORT_8700_TCP_ADDR": "10.0.0.11",
    }
    others = {name.replace("RANKD_", "RANKD_DB_"): value for name, value in told.items()}
    assert resolve(environment={**told, **others}) == Settings()
    assert resolve(environment={**others, "RANKD_PORT": "9"}).port == 9
    with pytest.raises(InvalidSetting, match="takes a whole number"):
        resolve(environment={"RANKD_PORT": "http://10.0.0.11:8700"})


def test_every_variable_that_the_project_reads_is_known() -> None:
    root, found = Path(__file__).parents[2], set[str]()
    for path in [
        *root.glob("*.py"),
        *(root / "src").rglob("*.py"),
        *(root / "tests").rglob("*.py"),
    ]:
        found |= set(re.findall(r'environ(?:\.get\(|\[)"(RANKD_\w+)', path.read_text()))
    assert {"RANKD_PURE", "RANKD_HYPOTHESIS"} <= found
    assert found <= OTHER_VARIABLES | {row.environment for row in TABLE}
    assert resolve(environment=dict.fromkeys(OTHER_VARIABLES, "x")) == Settings()


def test_bounds_are_told_digit_for_digit() -> None:
    for row in TABLE:
        if row.high is not None:
            assert row.accepts().endswith(f" to {row.high:.0f}"), row.name
    with pytest.raises(InvalidSetting, match=r"a whole number from 1024 to 1073741824$"):
        resolve(command_line={"request_body_bytes_max": "1"})
    with pytest.raises(InvalidSetting, match=r"a number from 0\.01 to 3600$"):
        resolve(command_line={"send_seconds_max": "0"})
