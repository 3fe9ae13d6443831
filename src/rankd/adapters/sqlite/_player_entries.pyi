"""Native entries of players; see player_entries.py."""

def siphash(seed: bytes, data: bytes) -> int:
    """Return SipHash-1-3 of some bytes under a seed of 16."""

def scan(
    bodies: bytes | memoryview, board_field: int, player_field: int, first: int, seed: bytes
) -> bytes:
    """Return the entries of a MessagePack array of bodies, by the places of their fields."""

def sort(entries: bytes | bytearray | memoryview) -> bytes:
    """Return entries in order; those of one player must be in the order of positions already."""

def find(entries: bytes | bytearray | memoryview, wanted: bytes, tag: bytes | None) -> list[int]:
    """Return the positions of entries with a hash and, if one is given, a board's tag."""
