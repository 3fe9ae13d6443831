"""Response templates: JSON with placeholders, rendered once for each row of some columns.

Most responses differ in a few numbers and a name only. The rest is encoded once: a template is a
schema of ``rankd.schemas`` with placeholders in it, and rendering costs only the values.

The native templates are used if they were built. Otherwise, or with RANKD_PURE=1, those in Python
are, which behave the same and are the reference in tests.
"""

import os
from typing import TYPE_CHECKING

from rankd.templates.placeholders import Placeholder, PlaceholderKind, parts_of, placeholder

if TYPE_CHECKING:
    from rankd.templates._native import Form, enclose

    NATIVE: bool
elif os.environ.get("RANKD_PURE", "") not in ("", "0"):
    NATIVE = False
else:
    try:
        from rankd.templates._native import Form, enclose

        NATIVE = True
    except ImportError:
        NATIVE = False

if not TYPE_CHECKING and not NATIVE:
    from rankd.templates.pure_python import Form, enclose

__all__ = ["NATIVE", "Form", "Placeholder", "PlaceholderKind", "enclose", "parts_of", "placeholder"]
