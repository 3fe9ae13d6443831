"""The port of verifiers: programs that look at a held submission and decide whether it counts."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple, Protocol


class HeldSubmission(NamedTuple):
    """A submission that waits for its verifier, with scores as people see them."""

    id: str
    """The id of its review."""
    board: str
    player: str
    columns: Mapping[str, int | Decimal] | None
    """The score of each column by name; None for a delta."""
    delta: int | Decimal | None
    key: str | None
    metadata: Any
    """Decoded from its JSON."""
    build: str | None
    seed: str | None
    """The seed of its run; None without one."""
    run_seconds: float | None
    """The seconds from the start of its run until it was recorded; None without a run."""
    run: str | None = None
    """The id of its run."""

    @property
    def score(self) -> int | Decimal | None:
        """The score of the first column; None for a delta."""
        return None if self.columns is None else next(iter(self.columns.values()))


class Verification(NamedTuple):
    """The answer of a verifier."""

    approved: bool
    reason: str | None = None
    """Kept in the review."""


class Verifier(Protocol):
    """Decides about held submissions."""

    async def verify(self, submission: HeldSubmission) -> Verification:
        """Return the decision. It may be asked more than once, and may raise: it is asked again."""
