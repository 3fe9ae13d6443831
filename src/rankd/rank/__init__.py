"""The rank list: an ordered set of entries that knows the rank of each.

It knows keys and numbers, nothing of boards. `RankList` is one ranking; `PlayerTable` gives the
players of all rankings their numbers.

The native list serves when it was built. Otherwise, or with RANKD_PURE=1, the oracle does, which
is the same list in plain Python: right, and for more than a few thousand players far too slow.
"""

import os
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rankd.rank._ranklist import (
        ID_BYTES_MAX,
        NO_PLAYER,
        PlayerTable,
        RankList,
        fill_lookup,
        lookup_hash,
    )

    NATIVE: bool
elif os.environ.get("RANKD_PURE", "") not in ("", "0"):
    NATIVE = False
else:
    try:
        from rankd.rank._ranklist import (
            ID_BYTES_MAX,
            NO_PLAYER,
            PlayerTable,
            RankList,
            fill_lookup,
            lookup_hash,
        )

        NATIVE = True
    except ImportError:
        NATIVE = False

if not TYPE_CHECKING and not NATIVE:
    from rankd.rank.oracle import (
        ID_BYTES_MAX,
        NO_PLAYER,
        PlayerTable,
        RankList,
        fill_lookup,
        lookup_hash,
    )

    warnings.warn(
        "rankd runs without its native rank list: every update costs time in proportion to the "
        "number of players. Unset RANKD_PURE, or install a C compiler and reinstall rankd.",
        RuntimeWarning,
        stacklevel=2,
    )

__all__ = [
    "ID_BYTES_MAX",
    "NATIVE",
    "NO_PLAYER",
    "PlayerTable",
    "RankList",
    "fill_lookup",
    "lookup_hash",
]
