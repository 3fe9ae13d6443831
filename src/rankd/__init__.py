"""rankd: a real-time leaderboard engine and service.

What is offered here is imported when it is first used: the engine, and httpx under the clients,
take a while, and hardly a program needs both.
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
