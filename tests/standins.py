"""The native parts, where they are judged; and what is judged where they are not there.

With RANKD_PURE=1 the stand-ins in plain Python serve, and everything that holds of both must hold
of them alone. Without it a native part that is missing is a failure, not a reason to skip.
"""

import importlib
import os
from types import ModuleType

PURE = os.environ.get("RANKD_PURE", "") not in ("", "0")

NO_NATIVE_PART = "there is no native part"
"""Why something is skipped."""

WARNING = "rankd runs without its native"
"""How the one warning begins that is right then."""

STRICT = ("-W", "error", *(("-W", f"ignore:{WARNING}") if PURE else ()))
"""Options for an interpreter to which every other warning is an error."""


def native_part(name: str) -> ModuleType:
    """Return a native part, by its module; skip the test that would judge it if there is none."""
    if PURE:
        import pytest  # Not above: services that tests start need the rest of this, too.

        pytest.skip(NO_NATIVE_PART)
    return importlib.import_module(name)


def fresh_environment() -> dict[str, str]:
    """Return what a fresh shell would have: nothing of ours but which parts are to serve."""
    return {
        name: value
        for name, value in os.environ.items()
        if name == "RANKD_PURE" or not name.startswith("RANKD_")
    }
