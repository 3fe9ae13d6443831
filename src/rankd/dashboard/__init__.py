"""The dashboard: static files, and the routes that serve them.

The page uses only the public API; nothing here depends on boards or players.
"""
