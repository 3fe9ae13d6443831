"""Forms: JSON with blanks, filled in once for each row of some columns.

Most answers differ from one another in a few numbers and a name. The rest is written once: a form
is a shape of ``wire`` with blanks in it, and to fill it in costs what the numbers cost.

The native forms serve when they were built. Otherwise, or with RANKD_PURE=1, the plain ones do,
which say the same in Python and are what the tests compare with.
"""

import os
from typing import TYPE_CHECKING

from rankd.forms.blanks import Blank, Kind, blank, parts_of

if TYPE_CHECKING:
    from rankd.forms._native import Form, enclose

    NATIVE: bool
elif os.environ.get("RANKD_PURE", "") not in ("", "0"):
    NATIVE = False
else:
    try:
        from rankd.forms._native import Form, enclose

        NATIVE = True
    except ImportError:
        NATIVE = False

if not TYPE_CHECKING and not NATIVE:
    from rankd.forms.plain import Form, enclose

__all__ = ["NATIVE", "Blank", "Form", "Kind", "blank", "enclose", "parts_of"]
