"""A ledger as a list, without a disk. Nothing survives the process."""

import asyncio
import hashlib
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import ClassVar, overload

import msgspec

from rankd.errors import LedgerCorrupt
from rankd.model.facts import (
    Fact,
    FactsRedacted,
    Identity,
    Position,
    Recorded,
    RedactedPart,
    corrects_time,
    encode,
    is_submission,
)
from rankd.model.window import Instant
from rankd.ports import Appended, FirstUse, Progress, StoredReceipt

"""A board and one of its keys."""

_VERIFIED_PER_STEP = 10_000


class MemoryLedger:
    """A Ledger that forgets everything when it goes."""

    durable: ClassVar[bool] = False
    shared: ClassVar[bool] = False

    def __init__(self) -> None:
        self._recorded: list[Recorded] = []
        self._digests: list[bytes] = []
        """The digest of each fact as it was appended: facts hold dictionaries, which are
        mutable."""
        self._by_player: defaultdict[str, list[Position]] = defaultdict(list)
        """The positions of the facts about each player."""
        self._links: dict[Position, bytes] = {}
        """The hash chain's links, by the last position of each append."""
        self._chain = bytes(32)
        self._positions: dict[Identity, Position] = {}
        self._receipts: dict[Position, bytes] = {}
        self._receipts_through = Position(0)
        self._at = Instant(0)
        self._grown = asyncio.Event()
        """Set by the next append, for the tasks that wait for it."""

    @overload
    async def append(
        self,
        facts: Sequence[Fact],
        *,
        now: Instant,
        receipts: Sequence[StoredReceipt] = ...,
        after: None = ...,
    ) -> Appended: ...

    @overload
    async def append(
        self,
        facts: Sequence[Fact],
        *,
        now: Instant,
        receipts: Sequence[StoredReceipt] = ...,
        after: Position | None,
    ) -> Appended | None: ...

    async def append(
        self,
        facts: Sequence[Fact],
        *,
        now: Instant,
        receipts: Sequence[StoredReceipt] = (),
        after: Position | None = None,
    ) -> Appended | None:
        if after is not None and after != len(self._recorded):
            return None
        encoded = [_digest(fact) for fact in facts]  # All of them, before any is kept.
        self._at = now if corrects_time(facts) else max(self._at, now)
        positions: list[Position] = []
        first_uses: dict[int, FirstUse] = {}
        for place, (fact, digest) in enumerate(zip(facts, encoded, strict=True)):
            name = fact.identity()
            if name is not None and name in self._positions:
                first_uses[place] = self._first_use(name)
                positions.append(self._positions[name])
                continue
            position = Position(len(self._recorded) + 1)
            self._recorded.append(Recorded(position, self._at, fact))
            self._digests.append(digest)
            if (player := getattr(fact, "player", None)) is not None:
                self._by_player[player].append(position)
            positions.append(position)
            if name is not None:
                self._positions[name] = position
            if isinstance(fact, FactsRedacted):
                self._redact(fact)
        self._link()
        self._grown.set()
        self._grown = asyncio.Event()
        for kept in receipts:
            self._receipts.setdefault(kept.position, kept.receipt)
            self._receipts_through = max(self._receipts_through, kept.position)
        return Appended(positions, first_uses, self._at, self._chain)

    async def read(self, *, after: Position, limit: int) -> Sequence[Recorded]:
        return self._recorded[after : after + limit]

    async def read_at(self, positions: Sequence[Position]) -> Sequence[Recorded]:
        return [self._recorded[position - 1] for position in positions]

    async def facts_of(
        self,
        *,
        board: str | None,
        player: str,
        after: Position | None = None,
        before: Position | None,
        limit: int,
        newest_first: bool = True,
    ) -> Sequence[Recorded]:
        positions = self._by_player.get(player, ())
        start = bisect_right(positions, after or 0)
        end = len(positions) if before is None else bisect_left(positions, before)
        places = range(end - 1, start - 1, -1) if newest_first else range(start, end)
        recorded = (self._recorded[positions[place] - 1] for place in places)
        return list(islice((one for one in recorded if one.fact.is_about(player, board)), limit))

    async def head(self) -> Position:
        return Position(len(self._recorded))

    async def link_at(self, position: Position) -> bytes | None:
        return self._links.get(position)

    async def first_use(self, *, board: str, key: str) -> FirstUse | None:
        name = Identity(board, key)
        return self._first_use(name) if name in self._positions else None

    async def redacted_parts(
        self, positions: Sequence[Position], *, player: str, through: Position
    ) -> tuple[RedactedPart, ...]:
        ends = list(self._links)
        lasts = dict.fromkeys(ends[bisect_left(ends, position)] for position in sorted(positions))
        return tuple(RedactedPart(last, self._links[last], b"") for last in lasts)

    def _redact(self, fact: FactsRedacted) -> None:
        ends = list(self._links)
        for part in fact.parts:
            place = bisect_left(ends, part.last)
            for nth in range(ends[place - 1] if place else 0, part.last):
                kept = self._recorded[nth]
                if kept.position <= fact.through and kept.fact.is_about(fact.player):
                    redacted = msgspec.structs.replace(kept, fact=kept.fact.redacted())
                    self._recorded[nth], self._digests[nth] = redacted, _digest(redacted.fact)

    async def keep_receipts(self, receipts: Sequence[StoredReceipt]) -> None:
        await self.append((), now=self._at, receipts=receipts)

    async def receipts_through(self) -> Position:
        return self._receipts_through

    async def lacking_receipts(self, positions: Sequence[Position]) -> Sequence[Position]:
        return [
            position
            for position in positions
            if _has_key(self._recorded[position - 1].fact) and position not in self._receipts
        ]

    async def kept_receipts(self, *, after: Position, limit: int) -> Sequence[StoredReceipt]:
        kept = sorted(position for position in self._receipts if position > after)
        return [StoredReceipt(position, self._receipts[position]) for position in kept[:limit]]

    async def changed(self, *, after: Position, within_seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(within_seconds):
                while len(self._recorded) <= after:
                    await self._grown.wait()

    async def verify(self) -> AsyncIterator[Progress]:
        total = len(self._recorded)
        for start in range(0, total, _VERIFIED_PER_STEP):
            end = min(start + _VERIFIED_PER_STEP, total)
            for recorded, digest in zip(
                self._recorded[start:end], self._digests[start:end], strict=True
            ):
                if _digest(recorded.fact) != digest:
                    raise LedgerCorrupt("the fact was changed", position=recorded.position)
            yield Progress(end, total, "facts", "fact")

    async def close(self) -> None:
        """Nothing is held."""

    def _link(self) -> None:
        """Extend the chain over the facts since its last link, if there are any."""
        linked = next(reversed(self._links), 0)
        if linked == len(self._recorded):
            return
        place = f"{len(self._recorded)}:{self._at}:".encode()
        digests = b"".join(self._digests[linked:])
        self._chain = hashlib.sha256(self._chain + place + digests).digest()
        self._links[Position(len(self._recorded))] = self._chain

    def _first_use(self, name: Identity) -> FirstUse:
        position = self._positions[name]
        fact = self._recorded[position - 1].fact
        return FirstUse(position, fact.fingerprint(), self._receipts.get(position))


def _has_key(fact: Fact) -> bool:
    return is_submission(fact) and fact.key is not None


def _digest(fact: Fact) -> bytes:
    kind, body = encode(fact)
    return hashlib.sha256(kind.encode() + b"\x1f" + body).digest()
