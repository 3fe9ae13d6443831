"""Tell on stderr how far a long run is, so that nobody takes it for dead."""

import sys
import time
from collections.abc import Iterator
from typing import Any

_TELL_SECONDS = 10.0


def tell(stage: str) -> None:
    """Say what happens from now on."""
    print(f"{time.strftime('%H:%M:%S')}  {stage}", file=sys.stderr, flush=True)


def told(source: Iterator[tuple[Any, Any]], what: str, total: int) -> Iterator[tuple[Any, Any]]:
    """Yield the blocks of a source, and from time to time say how much of it is done."""
    done, said = 0, time.monotonic()
    for block in source:
        yield block
        done += len(block[0])
        if time.monotonic() - said >= _TELL_SECONDS:
            tell(f"    {what}: {done:,} of {total:,}")
            said = time.monotonic()
