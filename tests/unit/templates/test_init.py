"""Which forms serve."""

import os
import subprocess
import sys

from tests.standins import native_part

SAY = "import rankd.templates; print(rankd.templates.NATIVE, rankd.templates.Form.__module__)"
HIDDEN = "import sys; sys.modules['rankd.templates._native'] = None; "


def said(code: str, pure: str) -> list[str]:
    """Ask a fresh interpreter: this one has made its choice already."""
    environment = {**os.environ, "RANKD_PURE": pure}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=environment,
    )
    return done.stdout.split()


def test_native_forms_serve() -> None:
    assert said(SAY, "") == ["True", native_part("rankd.templates._native").__name__]


def test_without_them_the_plain_ones_do() -> None:
    assert said(SAY, "1") == ["False", "rankd.templates.pure_python"]
    assert said(HIDDEN + SAY, "") == ["False", "rankd.templates.pure_python"]
