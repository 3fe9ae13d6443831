"""What an engine does, as coroutines: those of an index across a network are awaited to the end.

Over an index in this process a read never suspends; there ``answered`` runs it where it is asked.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from msgspec import UNSET, UnsetType

from rankd.core.intake import BATCH_FACTS_MAX, Answer
from rankd.core.preview import Preview
from rankd.core.reader import Found, Page, Projected, Reader
from rankd.core.search import FoundPlayer
from rankd.core.view import View
from rankd.embedded.opening import Opened
from rankd.embedded.wanted import Wanted
from rankd.errors import (
    FieldError,
    IndexUnavailable,
    InvalidPage,
    NothingToBackUp,
    RankdError,
    Refused,
    Unavailable,
    UnknownBoard,
)
from rankd.model.board import Board as Definition
from rankd.model.facts import Position
from rankd.model.printed import Printed, Words
from rankd.model.profile import check_player
from rankd.model.receipt import Receipt
from rankd.model.standing import (
    NEIGHBOURS_DEFAULT,
    PAGE_LIMIT_DEFAULT,
    Offset,
    Rank,
    Standing,
)
from rankd.model.submission import Item
from rankd.model.window import ListedWindow
from rankd.terminal import Show, showing
from rankd.wiring import Folder


class BoardHandle:
    """A board, by its name."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted

    @property
    def name(self) -> str:
        """What the board is called."""
        return self._wanted.name

    @property
    def definition(self) -> dict[str, object]:
        """What the board is defined as, with every default written out."""
        return self._wanted.there().book.page(self.name).board.definition()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class BoardWriter(BoardHandle):
    """What is done to a board, each call awaited. Awaited itself, it is defined if it is not."""

    def __await__(self) -> Generator[Any, None, Self]:
        yield from self._wanted.made().__await__()
        return self

    # ---------------------------------------------------------------------- submitting

    async def submit(  # noqa: PLR0913 - what a submission may say
        self,
        player: str,
        score: object = None,
        *,
        delta: object = None,
        key: str | None = None,
        columns: Mapping[str, object] | None = None,
        metadata: object = None,
        attributes: Mapping[str, str | int | bool] | None = None,
        build: str | None = None,
        at: str | None = None,
    ) -> Receipt:
        """Have a score counted; return what it did. Raises Refused and Unavailable.

        It is on stable storage by then. A ``key`` makes it safe to send again: it counts once.
        """
        body: dict[str, object] = {"player": player, "score": score, "delta": delta}
        more = {
            "key": key,
            "columns": columns,
            "metadata": metadata,
            "attributes": attributes,
            "build": build,
            "at": at,
        }
        body |= {name: value for name, value in more.items() if value is not None}
        rankd = await self._wanted.made()
        (answer,) = await rankd.submit(self.name, [body])
        return receipt_of(answer, self.name, rankd)

    async def submit_many(self, items: Iterable[Item]) -> list[Receipt]:
        """Have many scores counted, one commit for each BATCH_FACTS_MAX; return what each did.

        If one is malformed, none of its commit is recorded; the error names the item. If one is
        refused when its turn comes, or reuses a key, the others count all the same and the first
        refusal is raised.
        """
        bodies = items if isinstance(items, list) else list(items)
        rankd = await self._wanted.made()
        answers: list[Answer] = []
        for first in range(0, len(bodies), BATCH_FACTS_MAX):
            some = bodies[first : first + BATCH_FACTS_MAX]
            try:
                answers += await rankd.submit(self.name, some, first=first or None)
            except (Refused, Unavailable) as exc:
                if first:
                    exc.add_note(f"the first {first} of {len(bodies)} submissions were recorded")
                raise
        return [receipt_of(answer, self.name, rankd) for answer in answers]

    # ------------------------------------------------------------------------- changing

    async def preview(self, **definition: object) -> Preview:
        """Return what ``redefine`` with the same words would change. Nothing is changed."""
        rankd = self._wanted.there()
        return await rankd.preview(self.name, self._changed(definition))

    async def redefine(
        self, *, drop_scores: bool = False, progress: Show = None, **definition: object
    ) -> None:
        """Change the board's definition in what is given; the rest stays.

        Windows that it changes are folded again from the ledger while everything goes on, and
        then switched at one moment. Raises DropsScores if scores cannot be ranked any
        more, as where a column is new, unless ``drop_scores`` agrees to that.
        """
        rankd = await self._wanted.made()
        with showing(progress) as tell:
            changed = self._changed(definition)
            await rankd.redefine(self.name, changed, drop_scores=drop_scores, tell=tell)

    async def retire(self, *, reason: str | None = None) -> None:
        """Take the board out of use. Its facts stay in the ledger."""
        rankd = await self._wanted.made()
        await rankd.retire(self.name, reason=reason)

    def _changed(self, definition: Mapping[str, object]) -> dict[str, object]:
        known = self._wanted.there().book.page(self.name).board.definition()
        if "direction" in definition and "columns" not in definition:
            # Of the first column; the others keep theirs, and all keep their names.
            known["columns"][0]["direction"] = definition["direction"]
        elif "columns" in definition and "direction" not in definition:
            del known["direction"]
        return {**known, **definition}


class AwaitedBoard(BoardWriter):
    """One board of an engine whose index is across a network: reads are awaited too."""

    @property
    def _reader(self) -> Reader:
        return self._wanted.there().reader

    async def top(
        self,
        count: int = PAGE_LIMIT_DEFAULT,
        *,
        window: str | None = None,
        segment: str | None = None,
    ) -> list[Standing]:
        """Return the best standings."""
        page = await self._reader.page(self.name, limit=count, window=window, segment=segment)
        return page.standings

    async def page(
        self,
        *,
        limit: int = PAGE_LIMIT_DEFAULT,
        offset: int | None = None,
        from_rank: int | None = None,
        cursor: str | None = None,
        window: str | None = None,
        segment: str | None = None,
    ) -> Page:
        """Return a page, begun at a rank, an offset or a cursor."""
        return await self._reader.page(
            self.name,
            limit=limit,
            offset=None if offset is None else Offset(offset),
            from_rank=None if from_rank is None else Rank(from_rank),
            cursor=cursor,
            window=window,
            segment=segment,
        )

    async def standing(
        self, player: str, *, window: str | None = None, segment: str | None = None
    ) -> Standing | None:
        """Return where a player stands, None where it does not."""
        return await self._reader.standing(self.name, player, window=window, segment=segment)

    async def ranks(
        self, players: Sequence[str], *, window: str | None = None, segment: str | None = None
    ) -> list[Rank | None]:
        """Return the ranks of many players, None for who has none."""
        return await self._reader.ranks(self.name, players, window=window, segment=segment)

    async def around(
        self,
        player: str,
        *,
        above: int = NEIGHBOURS_DEFAULT,
        below: int = NEIGHBOURS_DEFAULT,
        window: str | None = None,
        segment: str | None = None,
    ) -> list[Standing]:
        """Return a player's neighbourhood, the edges made up. Raises NotRanked."""
        page = await self._reader.around(
            self.name, player, above=above, below=below, window=window, segment=segment
        )
        return page.standings

    async def around_rank(
        self,
        rank: int,
        *,
        reach: int = NEIGHBOURS_DEFAULT,
        window: str | None = None,
        segment: str | None = None,
    ) -> list[Standing]:
        """Return the standings from ``rank - reach`` to ``rank + reach``."""
        page = await self._reader.around_rank(
            self.name, Rank(rank), reach=reach, window=window, segment=segment
        )
        return page.standings

    async def lookup(
        self, players: Sequence[str], *, window: str | None = None, segment: str | None = None
    ) -> Found:
        """Return some players' standings, best first, and who has none."""
        return await self._reader.lookup(self.name, players, window=window, segment=segment)

    async def friends(
        self, player: str, *, window: str | None = None, segment: str | None = None
    ) -> Found:
        """Return a player and its friends, ranked among themselves."""
        return await self._reader.friends(self.name, player, window=window, segment=segment)

    async def rank_for(
        self,
        score: object = None,
        *,
        columns: Sequence[object] | None = None,
        window: str | None = None,
        segment: str | None = None,
    ) -> Projected:
        """Return the rank that a newcomer with this score would get now."""
        board = self._wanted.there().book.page(self.name).board
        scores = _read_scores(board, [score] if columns is None else columns)
        return await self._reader.rank_for(self.name, scores, window=window, segment=segment)

    async def score_for(
        self,
        *,
        rank: int | None = None,
        percentile: float | None = None,
        window: str | None = None,
        segment: str | None = None,
    ) -> Projected:
        """Return the scores that hold a rank now, or the last rank of a percentile."""
        if (rank is None) == (percentile is None):
            raise InvalidPage([FieldError("rank", "or else percentile must be given")])
        return await self._reader.scores_for(
            self.name,
            rank=None if rank is None else Rank(rank),
            percentile=percentile,
            window=window,
            segment=segment,
        )

    async def windows(self) -> list[ListedWindow]:
        """Return the sealed windows, oldest first, then the open ones, then the scheduled ones."""
        rankd = self._wanted.there()
        return list(rankd.book.page(self.name).listed(rankd.ledger_time))


class RanksHandle(Printed):
    """An engine, and where it has come to."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened

    @property
    def position(self) -> Position:
        """The position that reads are true at."""
        return self._opened.engine.rankd.position

    @property
    def durable(self) -> bool:
        """Whether anything outlives the process."""
        return self._opened.engine.durable

    @property
    def clock_problem(self) -> str | None:
        """How ledger time and the clock differ and what to do; None if they agree."""
        return self._opened.engine.rankd.clock_problem

    def _words(self) -> Words:
        yield "boards", list(self._opened.engine.rankd.book.boards)
        yield "position", self.position
        yield "durable", self.durable, True
        yield "closed", self._opened.closed, False


class RanksWriter(RanksHandle):
    """What is done to an engine, each call awaited. ``async with`` closes it at its end."""

    async def __aenter__(self) -> Self:
        self._opened.refuse_if_closed()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the engine and free its folder; nothing if it is closed already.

        Waits for submissions under way. Calls that come later raise LedgerUnavailable.
        """
        self._opened.stop()
        await self._opened.running.join()

    # -------------------------------------------------------------------------- players

    async def profile(
        self,
        player: str,
        *,
        name: str | UnsetType | None = UNSET,
        attributes: Mapping[str, str | int | bool] | UnsetType | None = UNSET,
    ) -> Position:
        """Set what a player is called or what it is ranked by, all of that.

        What is not given stays as it is; None forgets it.
        """
        given = {"name": name, "attributes": attributes}
        said = {field: value for field, value in given.items() if value is not UNSET}
        return await self._opened.rankd.profile(player, said)

    async def merge_profile(
        self,
        player: str,
        *,
        name: str | UnsetType | None = UNSET,
        attributes: Mapping[str, str | int | bool | None] | UnsetType | None = UNSET,
    ) -> Position:
        """Change a player's name or some of its attributes; those that are not named stay.

        An attribute that is None is forgotten. A call that changes nothing records nothing.
        """
        given = {"name": name, "attributes": attributes}
        said = {field: value for field, value in given.items() if value is not UNSET}
        return await self._opened.rankd.merge_profile(player, said)

    async def players(
        self, query: str, *, limit: int = PAGE_LIMIT_DEFAULT, after: str | None = None
    ) -> list[FoundPlayer]:
        """Return players whose name or id begins so, in the order of their ids.

        ``after`` is the last id of the page before. Raises InvalidPage.
        """
        self._opened.refuse_if_closed()
        found = await self._opened.search.find(query, after=after, limit=limit)
        return found.players

    async def set_friends(self, player: str, friends: Sequence[str]) -> Position:
        """Set a player's friends, all of them."""
        return await self._opened.rankd.set_friends(player, friends)

    async def erase(self, player: str, *, reason: str | None = None) -> Position:
        """Forget a person: the profile and the friends go, entries stay without a name."""
        return await self._opened.rankd.erase(player, reason=reason)

    # ---------------------------------------------------------------------------- clock

    async def confirm_clock(self) -> float | None:
        """Believe a step of the clock now instead of once it has lasted.

        Return its seconds; None if there is no step that is being doubted.
        """
        step = self._opened.rankd.confirm_clock()
        return None if step is None else step.offset / 1_000_000

    # ----------------------------------------------------------------------------- care

    async def save(self, *, progress: Show = None) -> Position:
        """Save the index, so that the next start is quick; return the position it is saved at."""
        with showing(progress) as tell:
            return await self._opened.rankd.save(tell)

    async def verify(self, *, progress: Show = None) -> None:
        """Check every fact, and the index against all of them. Raises Corrupt."""
        with showing(progress) as tell:
            async for step in self._opened.rankd.verify():
                tell(step)

    async def rebuild(self, *, progress: Show = None) -> None:
        """Fold the whole ledger into a new index, and go on with that."""
        with showing(progress) as tell:
            async for step in self._opened.rankd.rebuild():
                tell(step)

    async def backup(self, folder: Folder, *, progress: Show = None) -> None:
        """Copy the ledger into an empty folder while everything goes on, and verify the copy."""
        self._opened.refuse_if_closed()
        copy = self._opened.engine.backup
        if copy is None:
            raise NothingToBackUp
        with showing(progress) as tell:
            async for step in copy(Path(folder)):
                tell(step)


class AwaitedRanks(RanksWriter):
    """An open engine whose index is across a network: reads are awaited too."""

    def board(self, name: str, **definition: object) -> AwaitedBoard:
        """Get a board; define it first, with defaults for what is not said, if it is not there.

        Awaited, it is there, or its error was raised. Not awaited, it is defined before the first
        write to it, which raises BoardDiffers if it is there and defined otherwise. Until then it
        can be read if it is there, defined so.
        """
        return AwaitedBoard(Wanted(self._opened, name, definition))

    async def boards(self) -> list[str]:
        """Return the names of the boards there are."""
        return list(self._opened.rankd.book.boards)

    async def standings(self, player: str, *, window: str | None = None) -> dict[str, Standing]:
        """Return where a player stands, by the board's name, on every board with the window."""
        found = await self._opened.rankd.reader.standings(check_player(player), window)
        return {where.ranking.board: standing for where, standing in found}


def receipt_of(answer: Answer, board: str, rankd: View) -> Receipt:
    """Return an answer's receipt, or raise what it says."""
    error: RankdError | None = answer.error
    receipt = answer.receipt
    if answer.pending is not None:
        raise IndexUnavailable("the score is recorded, and nobody can tell its rank now")
    if error is None and receipt is None:
        error = UnknownBoard(board)
    elif receipt is not None and receipt.rejected:
        error = rankd.rejection(receipt)
    if error is not None:
        raise error
    assert receipt is not None
    return receipt


def _read_scores(board: Definition, values: Sequence[object]) -> tuple[int, ...]:
    if len(values) != board.width:
        message = f"must be given for each of the board's {board.width} columns"
        raise InvalidPage([FieldError("columns" if board.width > 1 else "score", message)])
    try:
        return tuple(board.parse_score(value) for value in values)
    except ValueError as exc:
        raise InvalidPage([FieldError("score", str(exc))]) from exc
