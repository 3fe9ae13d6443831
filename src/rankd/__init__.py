"""rankd: a real-time leaderboard engine and service."""

from rankd._version import __version__
from rankd.embedded import aopen, open, restore

__all__ = ["__version__", "aopen", "open", "restore"]
