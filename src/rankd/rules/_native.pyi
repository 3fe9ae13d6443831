"""The native state of rules, as Python sees it."""

from array import array
from collections.abc import Sequence

from rankd.rules.conditions import DeclaredRule, Layout

def fail_allocation(k: int) -> None:
    """Let the k-th allocation from now fail, and no other; 0 lets none fail. For tests."""

def allocations() -> int:
    """How many allocations there have been. For tests."""

def bytes_in_use() -> int:
    """Bytes that all states of this process hold. For tests."""

class RuleState:
    """The state of one board's rules. Same behaviour as ``oracle.RuleState``, in C.

    A call that raises has changed nothing, MemoryError included.
    """

    rules: tuple[DeclaredRule, ...]
    rule_of_board: str
    higher_wins: bool
    layout: Layout
    bounds: tuple[int, int]

    def __init__(
        self,
        rules: Sequence[DeclaredRule],
        rule_of_board: str,
        higher_wins: bool,
        bounds: tuple[int, int] = ...,
    ) -> None:
        """Begin without submissions. Scores beyond the ``bounds``, both included, count nowhere."""
    def __len__(self) -> int:
        """Return the number of players that have a row."""

    @property
    def memory(self) -> int:
        """Bytes that the state holds."""

    def judge(
        self,
        players: Sequence[str],
        scores: array[int],
        deltas: bytes | None,
        times: array[int],
        elapsed: array[int] | None = None,
    ) -> bytes | None:
        """Judge a run of submissions in order, and count them.

        ``scores`` are those of the first column, or deltas where ``deltas`` has a 1; ``times`` and
        ``elapsed`` (of the run; 0: none) are microseconds. Returns None if no rule was broken, else
        a byte each: the place in ``CONSEQUENCES`` of the strictest. O(rules) a submission.
        """

    def reasons(self, row: int) -> list[tuple[int, int, int]]:
        """Return the rules that a row of the last run broke: place in ``rules``, observed, limit.

        Both are in the unit of the rule: smallest units, submissions, or microseconds. For outliers
        the limit is the greatest gain, or score, that breaks nothing.
        """

    def count(self, player: str, number: int, kind: str) -> None:
        """Count a submission that is not judged, of a kind in ``KINDS``.

        It belongs to no minute and ends no pause. A score or delta is a gain and in the histogram;
        what replaces is neither. O(1).
        """

    def forget(self, player: str) -> bool:
        """Start a player anew. Returns whether it had a row. O(1)."""

    def savepoint(self) -> None:
        """Begin to remember changes; a savepoint before this one is released."""

    def rollback(self) -> None:
        """Undo the changes since the savepoint and end it. RuntimeError without one.

        O(changes); it needs no memory.
        """

    def release(self) -> None:
        """Keep the changes since the savepoint and end it, if there is one."""

    def copy(self) -> RuleState:
        """Return a copy without savepoint. O(players)."""

    def redefined(
        self, rules: Sequence[DeclaredRule], scale: int = 1, bounds: tuple[int, int] = ...
    ) -> RuleState:
        """Return the state for other rules of the same board, its score rule and direction kept.

        Players that counted keep that, and their score times ``scale``; all else of a row starts
        anew. The histogram stays where both have one and the scale is 1. O(players).
        """

    def save(self) -> bytes:
        """Return the state as bytes, in no particular order of players. O(players)."""

    def load(self, data: bytes) -> None:
        """Fill the state of a board without submissions with what ``save`` returned.

        Raises ValueError if the bytes are damaged, or were saved with rules that need other fields.
        """

    def check(self) -> None:
        """Assert the invariants of rules.h. O(players)."""
