"""Readers from which some players are hidden: a player is public, shown to friends, or anonymous.

The game itself sees every player. Any other reader is shown the entry of a hidden player at its
rank and with its score, without its id, name, metadata and attributes; asked for by its id, the
player is as one without an entry.
"""

from typing import NamedTuple

from rankd.core.state import State

ANONYMOUS = ""
"""In place of the id of a hidden player. No player has it."""


class Viewer(NamedTuple):
    """A reader that is not the game."""

    state: State
    player: str | None = None
    """The player that reads; None for one of the public."""

    def hides(self, player: str) -> bool:
        """Whether a player is hidden to this reader."""
        visibility = self.state.visibility.get(player)
        if visibility is None or player == self.player:
            return False
        return visibility == "anonymous" or self.player not in self.state.profile(player).friends

    def friends(self, player: str) -> tuple[str, ...]:
        """Return the friends of a player that this reader is shown."""
        if self.hides(player):
            return ()
        return tuple(one for one in self.state.profile(player).friends if not self.hides(one))


class PastViewer(NamedTuple):
    """A reader of past standings: banned, hidden and shadowed players are hidden to it, too."""

    state: State
    """The present one."""
    board: str
    viewer: Viewer | None
    """The reader, if others are hidden to it; None for the game."""
    player: str | None = None
    """The player that reads; None for any other reader."""

    def hides(self, player: str) -> bool:
        """Whether a player is hidden to this reader."""
        found = self.state.player_state(player, self.board)
        if found is not None and not (found.state == "shadowed" and player == self.player):
            return True
        return self.viewer is not None and self.viewer.hides(player)

    def friends(self, player: str) -> tuple[str, ...]:
        """Return the friends of a player that this reader is shown."""
        if self.viewer is not None:
            return self.viewer.friends(player)
        return self.state.profile(player).friends
