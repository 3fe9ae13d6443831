"""Receipts of keyed submissions, from the fold until the ledger has stored them.

A receipt enters by ``add`` and leaves by ``stored``. This node's own receipts travel with its next
append. The receipts of other nodes' submissions, and those that came too late for their callers,
are stored by ``store_missing``: their own node mostly stores them first.

A receipt lost in a crash is made again by folding its facts.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from rankd.model.facts import Position
from rankd.ports import Ledger, StoredReceipt

OTHERS_MAX = 131_072
"""Receipts of other nodes' submissions in memory: some 50 MB. The oldest are dropped first: their
node has had the most time to store them."""

STORED_TOGETHER_MAX = 1_000
"""Receipts per call of the ledger, of those that another node may have stored."""

Collect = Callable[[Mapping[Position, bytes]], None]
"""Where a fold puts the receipts of keyed submissions."""


class ReceiptBuffer:
    """The receipts of keyed submissions that the ledger may lack, by position."""

    def __init__(
        self, own: Mapping[Position, bytes] | None = None, *, others_max: int = OTHERS_MAX
    ) -> None:
        self._own: dict[Position, bytes] = dict(own or {})
        """At most those of one append: the next one takes all of them."""
        self._others: dict[Position, bytes] = {}
        self._others_max = others_max

    def __iter__(self) -> Iterator[tuple[Position, bytes]]:
        """Yield all positions and receipts."""
        yield from (self._others | self._own).items()

    @property
    def due(self) -> bool:
        """Whether there are receipts for the next append."""
        return bool(self._own)

    @property
    def crowded(self) -> bool:
        """Whether more than half of the room for others' receipts is taken."""
        return 2 * len(self._others) > self._others_max

    def add(self, receipts: Mapping[Position, bytes]) -> None:
        """Add receipts that the next append is to store."""
        self._own.update(receipts)

    def add_others(self, receipts: Mapping[Position, bytes]) -> None:
        """Add receipts that another node may store; drop the oldest ones if there is no room."""
        others = self._others
        others.update(receipts)
        for position in list(islice(others, max(0, len(others) - self._others_max))):
            del others[position]

    def find(self, position: Position) -> bytes | None:
        """Return the receipt of a position."""
        return self._own.get(position) or self._others.get(position)

    def outgoing(self) -> list[StoredReceipt]:
        """Return the receipts for the next append, which remain until they are ``stored``."""
        return [StoredReceipt(position, receipt) for position, receipt in self._own.items()]

    def others(self) -> list[Position]:
        """Return the positions of the receipts that another node may store, oldest first."""
        return list(self._others)

    def stored(self, positions: Iterable[Position]) -> None:
        """Forget receipts that the ledger has."""
        own, others = self._own, self._others
        for position in positions:
            own.pop(position, None)
            others.pop(position, None)

    async def store_missing(self, ledger: Ledger, positions: Iterable[Position]) -> None:
        """Store those of the receipts that the ledger lacks. Raises LedgerUnavailable."""
        left = iter(positions)
        while some := list(islice(left, STORED_TOGETHER_MAX)):
            lacking = await ledger.lacking_receipts(some)
            missing = [
                StoredReceipt(position, receipt)
                for position in lacking
                if (receipt := self.find(position)) is not None
            ]
            if missing:
                await ledger.keep_receipts(missing)
            self.stored(some)
