"""Writing an archive: the facts that it lacks, folded with their outcomes, part by part."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pyarrow as pa

from rankd.analytics.files import ArchiveFiles, Manifest, PartFile
from rankd.analytics.outcomes import FactOutcomes, OutcomeFold, SealedEdition
from rankd.analytics.tables import (
    Outcome,
    StandingsOf,
    day_of,
    facts_table,
    standings_table,
    submissions_table,
)
from rankd.errors import ArchiveOfAnotherLedger
from rankd.model.board import Direction
from rankd.model.facts import Position, Recorded, is_submission
from rankd.ports import LedgerReader, Progress

PART_FACTS_MAX = 500_000
"""Facts in one part of a run: some 500 MB of memory while it is put together."""

Place = tuple[str, str, tuple[str, ...], str]
"""A table, a board or nothing, the folders below it, and a day."""


class ArchiveResult(NamedTuple):
    """The result of one run."""

    first: Position
    """The first position that it added; past ``last`` if there was none."""
    last: Position
    facts: int
    submissions: int
    windows: int
    """Editions of closed windows."""
    files: int


async def write_archive(
    ledger: LedgerReader,
    fold: OutcomeFold,
    files: ArchiveFiles,
    tell: Callable[[Progress], None],
) -> ArchiveResult:
    """Add to an archive the facts that it lacks. Raises ArchiveOfAnotherLedger, ArchiveDamaged.

    Repeated calls add nothing. After an interruption the next one goes on from the last whole part.
    """
    manifests = files.manifests()
    await _check_ledger(ledger, files, manifests)
    files.delete_unnamed(manifests)
    start = Position(manifests[-1].last if manifests else 0)
    head = await ledger.head()
    part, written = _RunPart(fold), []
    async for folded, sealed in fold.run(head, tell):
        if folded.facts[-1].position <= start:
            continue
        await part.add(folded, sealed, after=start)
        if part.facts >= PART_FACTS_MAX:
            written.append(await _write(ledger, files, part))
            part = _RunPart(fold)
    if part.facts:
        written.append(await _write(ledger, files, part))
    return _result(start, head, written)


async def _check_ledger(
    ledger: LedgerReader, files: ArchiveFiles, manifests: Sequence[Manifest]
) -> None:
    """Raise ArchiveOfAnotherLedger unless the archive was made of this ledger."""
    linked = [manifest for manifest in manifests if manifest.link]
    if linked:
        last = linked[-1]
        link = await ledger.link_at(Position(last.last))
        if link is None or link.hex() != last.link:
            raise ArchiveOfAnotherLedger(files.target, last.last)


async def _write(ledger: LedgerReader, files: ArchiveFiles, part: "_RunPart") -> Manifest:
    link = await ledger.link_at(part.last) or b""
    return files.write(part.first, part.last, link, part.at, part.files())


def _result(start: Position, head: Position, written: Sequence[Manifest]) -> ArchiveResult:
    named = [file for manifest in written for file in manifest.files]
    rows = {
        table: sum(file.rows for file in named if file.table == table)
        for table in ("facts", "submissions")
    }
    return ArchiveResult(
        Position(start + 1),
        max(head, start),
        rows["facts"],
        rows["submissions"],
        sum(file.table == "standings" for file in named),
        len(named),
    )


class _RunPart:
    """The rows of one part of a run, by the file that they go to."""

    def __init__(self, fold: OutcomeFold) -> None:
        self.facts = 0
        self.first = self.last = Position(0)
        self.at = 0
        self._fold = fold
        self._rows: dict[Place, list[pa.Table]] = {}

    async def add(
        self, folded: FactOutcomes, sealed: Sequence[SealedEdition], *, after: Position
    ) -> None:
        """Add folded facts behind a position, and the windows that they closed."""
        facts = [recorded for recorded in folded.facts if recorded.position > after]
        self.first = self.first or facts[0].position
        self.last, self.at = facts[-1].position, facts[-1].at
        self.facts += len(facts)
        self._add_facts(facts)
        self._add_submissions(folded, after)
        for window in sealed:
            await self._add_standings(window)

    def files(self) -> list[PartFile]:
        """Return the files of the part."""
        return [
            PartFile(table, board or None, folders, day, pa.concat_tables(rows))
            for (table, board, folders, day), rows in sorted(self._rows.items())
        ]

    def _put(self, table: str, board: str, day: str, rows: pa.Table) -> None:
        self._rows.setdefault((table, board, (f"day={day}",), day), []).append(rows)

    def _add_facts(self, facts: Sequence[Recorded]) -> None:
        found: dict[tuple[str, str], list[Recorded]] = {}
        for recorded in facts:
            place = getattr(recorded.fact, "board", None) or "", str(day_of(recorded.at))
            found.setdefault(place, []).append(recorded)
        for (board, day), some in found.items():
            self._put("facts", board, day, facts_table(some))

    def _add_submissions(self, folded: FactOutcomes, after: Position) -> None:
        boards, left = self._fold.projector.state.boards, iter(folded.attributes)
        found: dict[tuple[str, str], list[Outcome]] = {}
        for recorded in folded.facts:
            fact = recorded.fact
            if not is_submission(fact):
                continue
            attributes = next(left)
            if recorded.position <= after:
                continue
            page = boards.get(fact.board)
            decimals = 0 if page is None else page.board.decimals
            direction = Direction.HIGHER if page is None else page.board.directions[0]
            receipt = folded.receipts.get(recorded.position)
            outcome = Outcome(recorded, fact, receipt, attributes, decimals, direction)
            found.setdefault((fact.board, str(day_of(recorded.at))), []).append(outcome)
        for (board, day), some in found.items():
            self._put("submissions", board, day, submissions_table(some))

    async def _add_standings(self, sealed: SealedEdition) -> None:
        of = StandingsOf(sealed.board, sealed.window, sealed.edition, sealed.at)
        folders = (f"window={sealed.window}", f"edition={sealed.edition}")
        place = ("standings", sealed.board, folders, str(day_of(of.at)))
        async for page in self._fold.standings(sealed):
            self._rows.setdefault(place, []).append(standings_table(of, page))
