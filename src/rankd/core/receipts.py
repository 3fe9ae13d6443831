"""Receipts: lazy ones, over the columns of ``RankIndex.judge``, and a buffer of keyed ones.

Most receipts are read for their rank or not at all, so a receipt refers to a row of these columns,
and its values for a window are built on access.

Receipts of keyed submissions stay in the buffer from the fold until the ledger has stored them.
This node's own receipts travel with its next append. The receipts of other nodes' submissions, and
those that came too late for their callers, are stored by ``store_missing``: their own node mostly
stores them first. A receipt lost in a crash is made again by folding its facts.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache, partial
from itertools import islice
from typing import Any

import msgspec

from rankd.core.board_state import OpenedWindow
from rankd.model.facts import Position
from rankd.model.receipt import InWindow, Receipt, VerdictName
from rankd.model.rules import Reason
from rankd.model.standing import Rank
from rankd.model.submission import IN_REVIEW, OUT_OF_BOUNDS, OVERFLOW, RULE_BROKEN
from rankd.ports import OUT_OF_BOUNDS as OUT_OF_BOUNDS_SAID
from rankd.ports import Ledger, Run, StoredReceipt, Verdicts
from rankd.templates import Form, PlaceholderKind, parts_of, placeholder

_NAMES: tuple[tuple[VerdictName, str | None, str | None], ...] = (
    ("counted", None, None),
    ("not_better", None, None),
    ("rejected", OUT_OF_BOUNDS.code, OUT_OF_BOUNDS.message),
    ("rejected", OVERFLOW.code, OVERFLOW.message),
    ("held", IN_REVIEW.reason, None),
    ("rejected", RULE_BROKEN.code, RULE_BROKEN.message),
)
_NO_REASONS: Mapping[int, tuple[Reason, ...]] = {}
_REJECTED = frozenset(number for number, (name, *_) in enumerate(_NAMES) if name == "rejected")
VERDICT_NAMES = [name for name, *_ in _NAMES]
"""By the numbers in ``Verdicts``."""

ENCODED_TOGETHER = 64
"""Rows of a run that are written at once when one of them is asked for: the others soon will be."""

FORMS_MAX = 1024
"""Forms kept, one for each set of windows that were open together."""

Receipts = Mapping[Position, Receipt]


class JudgedRun:
    """The outcome of one run of submissions in each of its windows."""

    __slots__ = (
        "_filled",
        "ids",
        "names",
        "reasons",
        "run",
        "shown",
        "speaks",
        "verdicts",
        "width",
        "windows",
    )

    def __init__(
        self,
        windows: Mapping[str, OpenedWindow],
        run: Run,
        verdicts: Sequence[Verdicts],
        reasons: Mapping[int, tuple[Reason, ...]] = _NO_REASONS,
    ) -> None:
        self.names = tuple(windows)
        self.speaks = self.names.index("all") if "all" in windows else 0
        """Which window speaks for the whole, as ``Receipt.first`` does."""
        self.ids = tuple(opened.window.id for opened in windows.values())
        self.windows = {
            name: (opened.window.id, each)
            for (name, opened), each in zip(windows.items(), verdicts, strict=True)
        }
        self.run = run
        self.reasons = reasons
        """By row, the rules that bar it; of most runs none are."""
        self.verdicts = verdicts
        self.width = run.board.width
        self._filled: dict[int, list[bytes]] = {}
        self.shown: dict[int, list[bytes]] = {}
        """A cache of rendered rows, for renderers that render many at once."""

    def of(self, row: int, name: str) -> InWindow:
        """Return the outcome of a row's submission in a window."""
        id, verdicts = self.windows[name]
        verdict, code, message = _NAMES[verdicts.verdicts[row]]
        rank, previous = verdicts.ranks[row], verdicts.previous_ranks[row]
        return InWindow(
            id,
            verdict,
            self._scores(verdicts.scores, row) if rank else None,
            self._scores(verdicts.previous_scores, row) if previous else None,
            Rank(rank) if rank else None,
            Rank(previous) if previous else None,
            verdicts.totals[row],
            code,
            message,
        )

    def rejected(self) -> Set[int]:
        """Return the rows that every window rejects: mostly none."""
        first, *others = [each.verdicts for each in self.verdicts]
        if max(first) < OUT_OF_BOUNDS_SAID:
            return frozenset()
        return {
            row
            for row, verdict in enumerate(first)
            if verdict in _REJECTED and all(other[row] in _REJECTED for other in others)
        }

    @property
    def all_final(self) -> bool:
        """Whether no row was held or rejected, so that all are answered alike."""
        return not self.reasons and not self.rejected()

    def encoded(self, row: int) -> bytes:
        """Return the bytes to keep a row's receipt by."""
        if self.width > 1 or row in self.reasons:
            return RunReceipts(self)[Position(self.run.positions[row])].encode()
        chunk, place = divmod(row, ENCODED_TOGETHER)
        filled = self._filled.get(chunk)
        if filled is None:
            start, end = chunk * ENCODED_TOGETHER, len(self.run.players)
            filled = self._encode(start, min(start + ENCODED_TOGETHER, end))
            self._filled[chunk] = filled
        return filled[place]

    def all_encoded(self) -> list[bytes]:
        """Return the bytes to keep each row's receipt by."""
        rows = len(self.run.players)
        if self.width > 1 or self.reasons:
            return [self.encoded(row) for row in range(rows)]
        return self._encode(0, rows)

    def _encode(self, start: int, end: int) -> list[bytes]:
        board = self.run.board
        form = _stored_form(board.name, board.decimals, self.names, self.ids)
        return form.fill_each(self.columns(), start, end)

    def columns(self) -> tuple[Any, ...]:
        """Return the columns for templates: players, positions, and six columns for each window."""
        by_window = [column for verdicts in self.verdicts for column in verdicts]
        return (self.run.players, self.run.positions, *by_window)

    def _scores(self, column: Sequence[int], row: int) -> tuple[int, ...]:
        return tuple(column[row * self.width : (row + 1) * self.width])


class ReceiptView(Mapping[str, InWindow]):
    """The outcome of one submission, by window."""

    __slots__ = ("_judged", "_row")

    def __init__(self, judged: JudgedRun, row: int) -> None:
        self._judged = judged
        self._row = row

    def __getitem__(self, name: str) -> InWindow:
        return self._judged.of(self._row, name)

    def encoded(self) -> bytes:
        """Return the bytes to keep the receipt by that this is a part of."""
        return self._judged.encoded(self._row)

    @property
    def source(self) -> tuple[JudgedRun, int]:
        """All windows as columns, and which row of them this is."""
        return self._judged, self._row

    def __iter__(self) -> Iterator[str]:
        return iter(self._judged.names)

    def __len__(self) -> int:
        return len(self._judged.names)

    def __repr__(self) -> str:
        return repr(dict(self))


class RunReceipts(Mapping[Position, Receipt]):
    """The receipts of one run by position, each built on access."""

    def __init__(self, judged: JudgedRun) -> None:
        run = judged.run
        self.judged = judged
        self._players, self._positions = run.players, run.positions
        self._board, self._decimals = run.board.name, run.board.decimals
        self._rejected = judged.rejected()

    def __getitem__(self, position: Position) -> Receipt:
        row = self.row_of(position)
        windows, player = ReceiptView(self.judged, row), self._players[row]
        rejected = row in self._rejected
        return Receipt(
            self._board,
            player,
            position,
            self._decimals,
            windows,
            rejected,
            reasons=self.judged.reasons.get(row, ()),
        )

    def __contains__(self, position: object) -> bool:
        try:
            return self.row_of(position) >= 0  # type: ignore[arg-type]
        except KeyError:
            return False

    def row_of(self, position: Position) -> int:
        """Return the row of a position. Raises KeyError."""
        positions = self._positions
        row = position - positions[0]  # Where nobody else's facts lie between, that is it.
        if not (0 <= row < len(positions) and positions[row] == position):
            row = bisect_left(positions, position)
            if row == len(positions) or positions[row] != position:
                raise KeyError(position)
        return row

    def __iter__(self) -> Iterator[Position]:
        return iter(self._positions)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self._positions)


class JoinedReceipts(Mapping[Position, Receipt]):
    """The receipts of several runs or parts, each still built on access."""

    def __init__(self, parts: Iterable[Receipts]) -> None:
        self._parts = {position: part for part in parts for position in part}

    def __getitem__(self, position: Position) -> Receipt:
        return self._parts[position][position]

    def __iter__(self) -> Iterator[Position]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)


def joined(parts: Iterable[Receipts]) -> Receipts:
    """Return all receipts as one, in the order of the parts; a single part as it is."""
    some = [part for part in parts if part]
    return JoinedReceipts(some) if len(some) > 1 else some[0] if some else {}


def encoded(receipts: Receipts, positions: Sequence[Position]) -> dict[Position, bytes]:
    """Return the bytes to keep the receipts of some positions by, as ``Receipt.decode`` reads them.

    Receipts in columns are written from the columns.
    """
    if isinstance(receipts, RunReceipts):
        judged, row_of = receipts.judged, receipts.row_of
        if len(positions) == len(receipts):
            return dict(zip(positions, judged.all_encoded(), strict=True))
        return {position: judged.encoded(row_of(position)) for position in positions}
    return {position: _encoded(receipts[position]) for position in positions}


def _encoded(receipt: Receipt) -> bytes:
    windows = receipt.windows
    return windows.encoded() if type(windows) is ReceiptView else receipt.encode()


@lru_cache(maxsize=FORMS_MAX)
def _stored_form(board: str, decimals: int, names: Sequence[str], ids: Sequence[str]) -> Form:
    """Return the template of stored receipts of a board with one column."""
    windows = {
        name: _stored_in_window(id, 2 + 6 * place)
        for place, (name, id) in enumerate(zip(names, ids, strict=True))
    }
    shape = [
        board,
        placeholder(PlaceholderKind.TEXT, 0),
        placeholder(PlaceholderKind.NUMBER, 1),
        decimals,
        windows,
    ]
    return Form(parts_of(shape))


def _stored_in_window(id: str, first: int) -> list[Any]:
    verdict, score, before, rank, previous, total = range(first, first + 6)
    return [
        id,
        placeholder(PlaceholderKind.CHOICE, verdict, texts=_VERDICTS),
        [placeholder(PlaceholderKind.GUARDED, score, other=rank)],
        [placeholder(PlaceholderKind.GUARDED, before, other=previous)],
        placeholder(PlaceholderKind.OPTIONAL, rank),
        placeholder(PlaceholderKind.OPTIONAL, previous),
        placeholder(PlaceholderKind.NUMBER, total),
        placeholder(PlaceholderKind.CHOICE, verdict, texts=_CODES),
        placeholder(PlaceholderKind.CHOICE, verdict, texts=_MESSAGES),
    ]


_encode = msgspec.json.encode
_VERDICTS = [_encode(name) for name in VERDICT_NAMES]
_CODES = [_encode(code) for _, code, _ in _NAMES]
_MESSAGES = [_encode(message) for _, _, message in _NAMES]


OTHERS_MAX = 131_072
"""Receipts of other nodes' submissions in memory: some 50 MB. The oldest are dropped first: their
node has had the most time to store them."""

STORED_TOGETHER_MAX = 1_000
"""Receipts per call of the ledger, of those that another node may have stored."""

_stored: Callable[[tuple[Position, bytes]], StoredReceipt] = partial(tuple.__new__, StoredReceipt)

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
        return list(map(_stored, self._own.items()))

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
