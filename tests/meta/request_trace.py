"""A service that records which modules of the package each request enters.

``python -m tests.meta.request_trace FILE ARGUMENTS`` runs ``rankd ARGUMENTS``. At SIGUSR1 it writes
the modules entered since the last one into the file, as lines, and begins anew. Native code is not
seen.
"""

import signal
import sys
import threading
from pathlib import Path
from types import FrameType

import rankd
from rankd.cli import main

PACKAGE = str(Path(rankd.__file__).parent) + "/"


def run(target: Path, arguments: list[str]) -> None:
    """Run the command line under a profiler."""
    entered: set[str] = set()

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            entered.add(frame.f_code.co_filename.removeprefix(PACKAGE).removesuffix(".py"))

    def write(_: int, __: object) -> None:
        text = "\n".join(sorted(entered))
        entered.clear()
        partly = target.with_suffix(".part")
        partly.write_text(text)
        partly.rename(target)

    signal.signal(signal.SIGUSR1, write)
    threading.setprofile(profile)
    sys.setprofile(profile)
    main(arguments)


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2:])
