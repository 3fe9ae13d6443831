"""The rules of a board against cheating, judged over runs of submissions.

``RuleState`` is the state of one board's rules: a few bytes for each player, and one histogram. It
is a function of the submissions in their order, so that every fold of a ledger reaches the same
verdicts. It knows nothing of ledgers, indexes and requests.

The native state serves where it was built. Otherwise, or with RANKD_PURE=1, the one in Python does,
which behaves the same and is the reference in tests.
"""

import os
from typing import TYPE_CHECKING

from rankd.rules.conditions import CONSEQUENCES, DeclaredRule

if TYPE_CHECKING:
    from rankd.rules._native import RuleState

    NATIVE: bool
elif os.environ.get("RANKD_PURE", "") not in ("", "0"):
    NATIVE = False
else:
    try:
        from rankd.rules._native import RuleState

        NATIVE = True
    except ImportError:
        NATIVE = False

if not TYPE_CHECKING and not NATIVE:
    from rankd.rules.oracle import RuleState

__all__ = ["CONSEQUENCES", "NATIVE", "DeclaredRule", "RuleState"]
