"""Tests that a machine cannot run. They are skipped, and named at the end of every run.

A test that is skipped everywhere, such as one of a longer tier, uses ``pytest.skip`` itself.
"""

from collections.abc import Iterable
from typing import NoReturn

import pytest

MARK = "NOT TESTED"
"""How the reason begins; tests/conftest.py looks for it."""


def not_tested(subject: str, reason: object) -> NoReturn:
    """Skip a test for want of something that another machine may have."""
    pytest.skip(f"{MARK}, {subject}: {reason}")


def reasons(skipped: Iterable[pytest.TestReport]) -> list[str]:
    """Return the distinct reasons of reports of skipped tests that begin with the mark."""
    told = {str(report.longrepr[2]) for report in skipped if isinstance(report.longrepr, tuple)}
    return sorted(MARK + text.partition(MARK)[2] for text in told if MARK in text)
