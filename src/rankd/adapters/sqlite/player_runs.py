"""Runs of a ledger: the folder with them, the ranges that they cover, and which are merged next.

The folder lies beside the ledger's file and can be deleted at any time: it is built again from the
facts. A run appears under its name when it is complete. The runs that were merged into another are
deleted after that one has its name, so each range is covered at every moment, or by two.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

import apsw

from rankd.adapters.sqlite.database import PLAYERS
from rankd.adapters.sqlite.player_run import SUFFIX, PlayerRun, RunDamaged
from rankd.adapters.sqlite.queries import QUERIES, fetch
from rankd.model.facts import Position

RANGE_FACTS = 65_536
"""Facts of the smallest runs. Up to so many at the ledger's end are in no run."""

MERGED_RUNS = 8
"""Runs of one size that become one. So a fact is written once for each eightfold of the ledger, and
a question looks into seven runs of each size at most."""

LEVEL_MAX = 4
"""Largest runs: 268 million facts, 3.2 GB. Merging them takes as much free disk for a while."""

_LOOKS_MAX = 3

_NAME = re.compile(r"(\d{13,})-(\d{13,})" + re.escape(SUFFIX))


class PlayerRuns:
    """The usable runs of one ledger, open for reading. For one thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / PLAYERS
        self._open: dict[tuple[str, int], PlayerRun] = {}
        """By name and inode: a run that was damaged and rebuilt has the same name."""
        self._bad: set[tuple[str, int]] = set()

    def refresh(self, database: apsw.Connection) -> Sequence[PlayerRun]:
        """Return the runs that are there now and belong to this ledger, oldest first.

        No two of them overlap. There may be gaps, and the facts at the end are in none.
        """
        for _ in range(_LOOKS_MAX):
            with suppress(FileNotFoundError):  # It was merged meanwhile: look again.
                return self._chosen(database)
        return self._chosen(database, missing_is_gap=True)

    def _chosen(
        self, database: apsw.Connection, *, missing_is_gap: bool = False
    ) -> Sequence[PlayerRun]:
        found = self._listed()
        self._bad.intersection_update(found)
        for name in self._open.keys() - set(found):
            self._open.pop(name).close()
        chosen: list[PlayerRun] = []
        for name in found:
            if chosen and _range_of(name[0])[0] <= chosen[-1].range.last:
                continue  # It was merged into the one before.
            try:
                if (run := self._opened(database, name)) is not None:
                    chosen.append(run)
            except FileNotFoundError:
                if not missing_is_gap:
                    raise
        return chosen

    def _listed(self) -> list[tuple[str, int]]:
        """Return names and inodes by their first position, of two the longer one first."""
        try:
            with os.scandir(self.folder) as entries:
                names = [(one.name, one.inode()) for one in entries if _NAME.fullmatch(one.name)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(names, key=lambda name: (_range_of(name[0])[0], -_range_of(name[0])[1]))

    def _opened(self, database: apsw.Connection, name: tuple[str, int]) -> PlayerRun | None:
        if name in self._bad:
            return None
        if name not in self._open:
            try:
                self._open[name] = _opened(database, self.folder / name[0])
            except FileNotFoundError:
                raise
            except (RunDamaged, OSError):
                self._bad.add(name)
                return None
        return self._open[name]

    def discard(self, path: Path) -> None:
        """Use a damaged run no more."""
        for name in [name for name in self._open if name[0] == path.name]:
            self._open.pop(name).close()
            self._bad.add(name)

    def delete_useless(self, used: Sequence[PlayerRun]) -> None:
        """Delete all files that are no run in use: merged, damaged, unfinished, of others."""
        kept = {run.path.name for run in used}
        with suppress(FileNotFoundError), os.scandir(self.folder) as entries:
            for entry in entries:
                if entry.name not in kept:
                    Path(entry.path).unlink(missing_ok=True)

    def close(self) -> None:
        """Close all files."""
        for run in self._open.values():
            run.close()
        self._open.clear()


def _range_of(name: str) -> tuple[int, int]:
    first, last = name.removesuffix(SUFFIX).split("-")
    return int(first), int(last)


def _opened(database: apsw.Connection, path: Path) -> PlayerRun:
    run = PlayerRun(path)
    links = fetch(database, QUERIES["read_link"], position=run.range.last)
    if not links or links[0][0] != run.range.link:
        run.close()
        raise RunDamaged(path, "it belongs to another ledger")
    return run


def first_gap(runs: Sequence[PlayerRun], head: Position) -> tuple[Position, Position]:
    """Return the first range of facts that no run covers; its end is the head for the last one."""
    last = Position(0)
    for run in runs:
        if run.range.first > last + 1:
            return Position(last + 1), Position(run.range.first - 1)
        last = run.range.last
    return Position(last + 1), head


def level_of(run: PlayerRun) -> int:
    """Return how often the facts of a run were merged: 0 for the smallest."""
    ranges = (run.range.last + 1 - run.range.first) // RANGE_FACTS
    return next(level for level in count() if ranges < MERGED_RUNS ** (level + 1))


def due_for_merge(runs: Sequence[PlayerRun]) -> Sequence[PlayerRun]:
    """Return neighbouring runs to be merged into one; none if the runs are few enough.

    Enough of one size, and the smaller ones between them, which a run that was lost has left.
    """
    for start, end in _stretches(runs):
        return runs[start:end]
    return ()


def _stretches(runs: Sequence[PlayerRun]) -> Iterator[tuple[int, int]]:
    levels = [level_of(run) for run in runs]
    for start, level in enumerate(levels):
        alike = 0
        for place in range(start, len(runs)):
            adjoins = place == start or runs[place - 1].range.last + 1 == runs[place].range.first
            if level >= LEVEL_MAX or levels[place] > level or not adjoins:
                break
            alike += levels[place] == level
            if alike == MERGED_RUNS:
                yield start, place + 1
                break
