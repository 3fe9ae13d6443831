"""The facts of one ledger in another: same positions, times, keys and receipts.

Positions stay valid, in cursors, ``as_of`` values and receipts. So nothing is renumbered; facts are
read in order and taken over as they are, some at a time.

1. The source is verified first: the copy would seal changes made there by hand.
2. A target may hold the beginning of the source, from a copy that was broken off or from an earlier
   one. It is compared fact by fact, and the copy goes on behind it. A target that holds anything
   else is refused, and left as it is.
3. Until the copy is complete, compared and verified, the target can be opened only to continue it.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple

from rankd.errors import Corrupt, LedgerNotCopied, LedgerUnavailable, NoLedger, count
from rankd.model.facts import Position, Recorded, encode
from rankd.ports import CopyTarget, Ledger, LedgerReader, Progress, StoredReceipt

PAGE_FACTS = 2_000
"""Read, and taken over, at a time: a few megabytes, and a fraction of a second."""


class Transfer:
    """One ledger on its way into another. The names are for people."""

    def __init__(self, source: Ledger, target: CopyTarget, *, named: str, into: str) -> None:
        self._source, self._target = source, target
        self._named, self._into = named, into

    async def run(self) -> AsyncIterator[Progress]:
        """Copy, compare and verify, and tell how far it is. Raises LedgerNotCopied."""
        head = await self._source.head()
        if not head:
            raise LedgerNotCopied(f"{self._named} holds no facts: there is nothing to copy")
        async for progress in self._source.verify():
            yield _of("source", progress)
        there = await self._target.head()
        async for progress in self._recognised(there, head):
            yield progress
        await self._target.begin_copy(self._named)
        async for progress in self._copied(there, head):
            yield progress
        async for page, lacking in self._compared(head):
            if lacking:  # They came since the facts were copied.
                await self._target.keep_receipts(lacking)
            yield Progress(page.last, head, "compared", "fact")
        async for progress in self._target.verify():
            yield _of("copy", progress)
        await self._target.end_copy()

    async def _recognised(self, there: Position, head: Position) -> AsyncIterator[Progress]:
        """Check that the facts in the target are the beginning of the source."""
        try:
            async for page, _ in self._compared(min(there, head)):
                yield Progress(page.last, min(there, head), "recognised", "fact")
        except LedgerNotCopied as exc:
            raise LedgerNotCopied(
                f"{self._into} holds facts already, and not those of {self._named} ({exc}): name "
                "an empty folder, database or schema (?schema=)"
            ) from exc
        if there > head:
            raise LedgerNotCopied(
                f"{self._into} holds all {count(head, 'fact')} of {self._named} and "
                f"{there - head:,} that came since: there is nothing to copy"
            )

    async def _copied(self, after: Position, head: Position) -> AsyncIterator[Progress]:
        yield Progress(after, head, "copied", "fact")
        async for page in _pages(self._source, after, head):
            try:
                await self._target.take_over(page.facts, receipts=page.receipts)
            except LedgerUnavailable as exc:
                exc.add_note("repeat the command, and the copy goes on where it ended")
                raise
            except UnicodeError as exc:
                raise LedgerNotCopied(
                    f"a fact at {page.facts[0].position} to {page.last} cannot be kept: {exc}"
                ) from exc
            yield Progress(page.last, head, "copied", "fact")

    async def _compared(
        self, through: Position
    ) -> AsyncIterator[tuple["_Page", Sequence[StoredReceipt]]]:
        """Read both; yield the equal pages, and the receipts that only the source has."""
        async for page in _pages(self._source, Position(0), through):
            copy = await _page(self._target, Position(page.facts[0].position - 1), page.last)
            for ours, theirs in zip(page.facts, copy.facts, strict=False):
                if not _same(ours, theirs):
                    raise LedgerNotCopied(f"they differ at position {ours.position}")
            if len(copy.facts) != len(page.facts):
                raise LedgerNotCopied(f"facts are missing up to position {page.last}")
            found = dict(copy.receipts)
            for position, receipt in page.receipts:
                if found.get(position, receipt) != receipt:
                    raise LedgerNotCopied(f"they differ in the receipt of position {position}")
            yield page, [kept for kept in page.receipts if kept.position not in found]


async def insist_on_copied(
    left: AbstractAsyncContextManager[LedgerReader],
    ledger: LedgerReader,
    *,
    named: str,
    into: str,
    command: str,
) -> None:
    """Refuse to begin with a ledger that lacks the facts of another, left in the data folder.

    A ledger of its own history is no business of that folder. Nor is one that cannot be read, if
    there are facts to go on with.
    """
    reached = await ledger.head()
    try:
        async with left as folder:
            head = await folder.head()
            if reached >= head or (reached and not await _agree(folder, ledger, reached)):
                return
    except NoLedger:
        return
    except (Corrupt, LedgerUnavailable, LedgerNotCopied):
        if not reached:
            raise
        return
    holds = f"only the first {reached:,} of them" if reached else "none of them"
    raise LedgerNotCopied(
        f"{named} holds a ledger of {count(head, 'fact')}, and {into} {holds}: copy them with "
        f"`{command}`, or name a data folder without a ledger"
    )


# -------------------------------------------------------------------------------- pages


class _Page(NamedTuple):
    facts: Sequence[Recorded]
    receipts: Sequence[StoredReceipt]

    @property
    def last(self) -> Position:
        return self.facts[-1].position


async def _pages(ledger: Ledger, after: Position, through: Position) -> AsyncIterator[_Page]:
    while after < through:
        page = await _page(ledger, after, through)
        if not page.facts:
            raise LedgerNotCopied(f"facts are missing up to position {through}")
        yield page
        after = page.last


async def _page(ledger: Ledger, after: Position, through: Position) -> _Page:
    """Return the next facts, and the receipts of these: no more, for each has one at most."""
    limit = min(PAGE_FACTS, through - after)
    facts = [one for one in await ledger.read(after=after, limit=limit) if one.position <= through]
    if not facts:
        return _Page((), ())
    kept = await ledger.kept_receipts(after=after, limit=len(facts))
    return _Page(facts, [one for one in kept if one.position <= facts[-1].position])


async def _agree(here: LedgerReader, there: LedgerReader, position: Position) -> bool:
    """Return whether both have the same fact at a position."""
    before = Position(position - 1)
    ours = await here.read(after=before, limit=1)
    theirs = await there.read(after=before, limit=1)
    return bool(ours and theirs) and _same(ours[0], theirs[0])


def _same(ours: Recorded, theirs: Recorded) -> bool:
    # By their bytes: to Python ``True`` and 1 are the same.
    if (ours.position, ours.at) != (theirs.position, theirs.at):
        return False
    return encode(ours.fact) == encode(theirs.fact)


def _of(whose: str, progress: Progress) -> Progress:
    return progress._replace(stage=f"{whose} {progress.stage}")
