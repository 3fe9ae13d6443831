"""rankd: a real-time leaderboard engine and service.

The engine and the clients are imported when they are first used: each takes a while, and few
programs need both.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from rankd._version import __version__

if TYPE_CHECKING:
    from rankd.client import AsyncClient, Client
    from rankd.embedded import aopen, open, restore

__all__ = ["AsyncClient", "Client", "__version__", "aopen", "open", "restore"]

_ROOMS = {
    "AsyncClient": "rankd.client",
    "Client": "rankd.client",
    "aopen": "rankd.embedded",
    "errors": "rankd.errors",
    "open": "rankd.embedded",
    "restore": "rankd.embedded",
}


def __getattr__(name: str) -> object:
    if name not in _ROOMS:
        raise AttributeError(f"module 'rankd' has no attribute {name!r}")
    room = import_module(_ROOMS[name])
    return room if name == "errors" else getattr(room, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOMS})
