"""rankd: a real-time leaderboard engine and service."""

from rankd._version import __version__

__all__ = ["__version__"]
