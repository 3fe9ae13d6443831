"""Which implementation serves, and that one is told when it is the slow one."""

import os
import subprocess
import sys
from types import ModuleType

import pytest

SAY = "import rankd.rank as r; print(r.NATIVE, r.RankList.__module__, r.PlayerTable.__module__)"
HIDDEN = "import sys; sys.modules['rankd.rank._ranklist'] = None; "
WARNING = "RuntimeWarning: rankd runs without its native rank list"


def run(code: str, *options: str, pure: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run in a fresh interpreter: this one has made its choice already."""
    environment = {name: value for name, value in os.environ.items() if name != "RANKD_PURE"}
    if pure is not None:
        environment["RANKD_PURE"] = pure
    return subprocess.run(
        [sys.executable, *options, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment,
    )


@pytest.mark.parametrize("pure", [None, "", "0"])
def test_the_native_list_serves_without_a_word(native: ModuleType, pure: str | None) -> None:
    done = run(SAY, "-W", "error", pure=pure)
    assert done.stdout.split() == ["True", "rankd.rank._ranklist", "rankd.rank._ranklist"]
    assert done.stderr == ""


def test_these_tests_judge_compiled_code(native: ModuleType) -> None:
    assert native.__file__ is not None
    assert native.__file__.endswith(".so")
    assert native.RankList.__module__ == "rankd.rank._ranklist"
    before = native.bytes_in_use()
    ranks = native.RankList()
    ranks.put(1, bytes(16))
    assert native.bytes_in_use() > before


def test_rankd_pure_serves_the_oracle_and_warns() -> None:
    done = run(SAY, pure="1")
    assert done.stdout.split() == ["False", "rankd.rank.oracle", "rankd.rank.oracle"]
    assert WARNING in done.stderr


def test_without_the_extension_the_oracle_serves_and_warns() -> None:
    done = run(HIDDEN + SAY)
    assert done.stdout.split() == ["False", "rankd.rank.oracle", "rankd.rank.oracle"]
    assert WARNING in done.stderr
    assert "install a C compiler" in done.stderr


def test_both_agree_on_their_limits(native: ModuleType, oracle: ModuleType) -> None:
    assert native.NO_PLAYER == oracle.NO_PLAYER == 2**32 - 1
    assert native.ID_BYTES_MAX == oracle.ID_BYTES_MAX == 256


@pytest.mark.parametrize("name", ["PlayerTable", "RankList"])
def test_both_have_the_same_methods(native: ModuleType, oracle: ModuleType, name: str) -> None:
    def public(module: ModuleType) -> set[str]:
        return {method for method in vars(getattr(module, name)) if not method.startswith("_")}

    assert public(native) - {"width", "players", "dense"} == public(oracle)
