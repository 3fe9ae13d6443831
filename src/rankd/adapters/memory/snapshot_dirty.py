"""The players that an index moved while it is being saved.

A save reads rankings a piece at a time, and they go on changing meanwhile. So every moved player is
noted here, and the save writes its last state at the end. Nothing else needs to be noted: an
untouched player stayed in one place throughout, under one number.

Noting must cost an apply next to nothing, so a touch is a number put behind others, which is a copy
of memory for a whole batch. A player touched twice is noted twice; the save removes the repetition.
"""

from array import array
from collections.abc import Iterable, Iterator

from rankd.adapters.memory.index_state import Entries


class DirtySet:
    """The players touched since a save began and not written since; the unread rankings."""

    def __init__(self, rankings: Iterable[Entries]) -> None:
        self.unread = dict.fromkeys(entries for entries in rankings if not entries.draft)
        """Rankings to be read from beginning to end, in this order."""
        self.adoptions: set[Entries] = set()
        """Adopted drafts, whose players' numbers were not noted."""
        self.players = array("I")
        """Players that may have got a number."""
        self._notes: dict[Entries, array[int]] = {}
        self._count = 0
        """How many numbers the notes have."""

    @property
    def waiting(self) -> int:
        """How many touches were not taken yet."""
        return max(self._count, len(self.players))

    def touched(self, entries: Entries, numbers: Iterable[int]) -> None:
        """Note that these were put into a ranking, moved in it, taken out, or shown otherwise.

        Cheapest with an ``array("I")``. NO_PLAYER must not be among them.
        """
        if entries.draft:  # It is not saved; if it is adopted, it is read as a whole.
            return
        notes = self._notes.get(entries)
        if notes is None:
            notes = self._notes[entries] = array("I")
        before = len(notes)
        notes.extend(numbers)
        self._count += len(notes) - before
        self.players += notes[before:]

    def adopted(self, entries: Entries) -> None:
        """Note that a draft became a ranking."""
        self.unread[entries] = None
        self.adoptions.add(entries)

    def dropped(self, entries: Entries) -> None:
        """Note that a ranking is gone."""
        self.unread.pop(entries, None)
        self._count -= len(self._notes.pop(entries, ()))

    def take(self, count: int, cost: int) -> Iterator[tuple[Entries, set[int]]]:
        """Yield up to so many touches that were not taken yet, each number of a ranking once.

        A ranking costs as much as so many touches more.
        """
        while count > 0 and self._notes:
            entries, notes = self._notes.popitem()
            some = notes[-count:]
            del notes[-count:]  # From the end: what is left need not move.
            if notes:
                self._notes[entries] = notes
            self._count -= len(some)
            count -= len(some) + cost
            yield entries, set(some)

    def take_players(self, count: int) -> set[int]:
        """Return up to so many players that may have got a number."""
        some = self.players[-count:]
        del self.players[-count:]
        return set(some)
