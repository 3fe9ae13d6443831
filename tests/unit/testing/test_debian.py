"""Programs from Debian's packages: which are asked for, where they go, what they run with."""

import os
import sys
from pathlib import Path

import pytest

from rankd.testing import debian
from rankd.testing.debian import PackagesUnavailable

APT = """#!/bin/sh
echo "apt-get $*" >> "$COMMANDS"
case " $* " in
*" update "*) touch "${COMMANDS}.updated" ;;
*" download "*) [ -z "$STALE" ] || [ -e "${COMMANDS}.updated" ] || exit 100; touch a.deb b.deb ;;
*) printf 'Inst %s (1)\\n' libfirst:amd64 libsecond perl fonts-plain; echo 'Conf perl (1)' ;;
esac
"""

DPKG = """#!/bin/sh
mkdir -p box/usr/bin box/usr/share/fonts && touch "box/usr/bin/$2"
"""


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The commands that stand-ins of apt-get and dpkg were given, one a line."""
    for name, text in {"apt-get": APT, "dpkg": DPKG}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("COMMANDS", str(tmp_path / "commands"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    return tmp_path / "commands"


def test_fetch_takes_along_libraries_and_fonts_the_machine_lacks(commands: Path) -> None:
    folder = debian.fetch("haproxy")
    assert commands.read_text().splitlines() == [
        "apt-get --simulate --no-install-recommends install haproxy",
        "apt-get --quiet download fonts-plain haproxy libfirst:amd64 libsecond",
    ]
    assert folder == debian.unpacked("haproxy")
    assert sorted(path.name for path in (folder / "usr/bin").iterdir()) == ["a.deb", "b.deb"]
    assert list(folder.parent.iterdir()) == [folder]
    assert f"<dir>{folder}/usr/share/fonts</dir>" in (folder / "fonts.conf").read_text()


def test_fetch_repeats_with_lists_of_its_own_if_those_of_the_machine_are_out_of_date(
    commands: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STALE", "1")
    debian.fetch("haproxy")
    *_, update, simulate, download = commands.read_text().splitlines()
    assert update.endswith(" --quiet update")
    assert "Dir::State::lists=" in simulate
    assert "Dir::State::lists=" in download


def test_fetch_leaves_nothing_where_packages_are_not_to_be_had(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    with pytest.raises(PackagesUnavailable, match="apt-get"):
        debian.fetch("chromium")
    assert list((tmp_path / "venv/servers").iterdir()) == []
    assert debian.main(["haproxy"]) == 1
    assert capsys.readouterr().out.startswith("no haproxy: ")


def test_an_unpacked_program_finds_its_libraries_and_fonts(tmp_path: Path) -> None:
    for path in ("usr/lib/x86_64-linux-gnu/libone.so.1", "lib/x86_64-linux-gnu/more/libtwo.so"):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).touch()
    (tmp_path / "fonts.conf").touch()
    folders = ("lib/x86_64-linux-gnu/more", "usr/lib/x86_64-linux-gnu")
    assert debian.environment(tmp_path / "usr/lib/chromium/chromium") == {
        "LD_LIBRARY_PATH": os.pathsep.join(str(tmp_path / folder) for folder in folders),
        "FONTCONFIG_FILE": str(tmp_path / "fonts.conf"),
    }


def test_an_installed_program_runs_as_it_is() -> None:
    assert debian.environment(Path("/usr/sbin/haproxy")) == {}
    assert debian.environment(Path("/opt/bin/haproxy")) == {}
