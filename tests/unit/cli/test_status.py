"""How the clock is shown to people."""

import pytest

from rankd import schemas
from rankd.cli.status import print_clock


def test_doubted_step_is_shown_with_its_age(capsys: pytest.CaptureFixture[str]) -> None:
    step = schemas.ClockStep(86_400.0, 5.0, 600.0)
    print_clock(
        schemas.ClockBody("2026-11-14T12:00:00Z", "2026-11-15T12:00:00Z", -86_400, step, "?")
    )
    shown = capsys.readouterr()
    assert shown.out.splitlines() == [
        "ledger time    2026-11-14T12:00:00Z",
        "machine clock  2026-11-15T12:00:00Z",
        "step           +86,400.0 s, seen for 5 s, believed after 600 s",
    ]
    assert shown.err == "?\n"
