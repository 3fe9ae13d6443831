"""The live page: static files, and the two routes that serve them.

The page uses the public API like any stranger; nothing here knows a board or a player.
"""
