"""The engine for a program with an event loop: every call is awaited."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rankd.core.intake import BATCH_FACTS_MAX, Answer
from rankd.core.preview import Preview
from rankd.core.reader import Found, Page, Projected
from rankd.errors import (
    FieldError,
    IndexUnavailable,
    InvalidPage,
    NothingToBackUp,
    RankdError,
    Refused,
    SubmissionRejected,
    Unavailable,
    UnknownBoard,
)
from rankd.model.board import Board as Definition
from rankd.model.facts import Position
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
from rankd.model.window import Window
from rankd.terminal import Show, showing
from rankd.wiring import Engine, Folder


class AsyncBoard:
    """One board of an open engine."""

    def __init__(self, engine: Engine, name: str) -> None:
        self.name = name
        self._rankd = engine.rankd

    @property
    def definition(self) -> dict[str, object]:
        """What the board is defined as, with every default written out."""
        return self._rankd.book.page(self.name).board.definition()

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
        (answer,) = await self._rankd.submit(self.name, [body])
        return receipt_of(answer, self.name)

    async def submit_many(self, items: Iterable[Item]) -> list[Receipt]:
        """Have many scores counted, one commit for each BATCH_FACTS_MAX; return what each did.

        If one is malformed, none of its commit is recorded; the error names the item. If one is
        refused when its turn comes, or reuses a key, the others count all the same and the first
        refusal is raised.
        """
        wanted = items if isinstance(items, list) else list(items)
        answers: list[Answer] = []
        for first in range(0, len(wanted), BATCH_FACTS_MAX):
            some = wanted[first : first + BATCH_FACTS_MAX]
            try:
                answers += await self._rankd.submit(self.name, some)
            except (Refused, Unavailable) as exc:
                if first:
                    exc.add_note(f"the first {first} of {len(wanted)} submissions were recorded")
                raise
        return [receipt_of(answer, self.name) for answer in answers]

    # -------------------------------------------------------------------------- reading

    async def top(
        self,
        count: int = PAGE_LIMIT_DEFAULT,
        *,
        window: str | None = None,
        segment: str | None = None,
    ) -> Sequence[Standing]:
        """Return the best standings."""
        page = await self._rankd.reader.page(self.name, limit=count, window=window, segment=segment)
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
        return await self._rankd.reader.page(
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
        return await self._rankd.reader.standing(self.name, player, window=window, segment=segment)

    async def ranks(
        self, players: Sequence[str], *, window: str | None = None, segment: str | None = None
    ) -> list[Rank | None]:
        """Return the ranks of many players, None for who has none."""
        return await self._rankd.reader.ranks(self.name, players, window=window, segment=segment)

    async def around(
        self,
        player: str,
        *,
        above: int = NEIGHBOURS_DEFAULT,
        below: int = NEIGHBOURS_DEFAULT,
        window: str | None = None,
        segment: str | None = None,
    ) -> Sequence[Standing]:
        """Return a player's neighbourhood, the edges made up. Raises NotRanked."""
        page = await self._rankd.reader.around(
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
    ) -> Sequence[Standing]:
        """Return the standings from ``rank - reach`` to ``rank + reach``."""
        page = await self._rankd.reader.around_rank(
            self.name, Rank(rank), reach=reach, window=window, segment=segment
        )
        return page.standings

    async def lookup(
        self, players: Sequence[str], *, window: str | None = None, segment: str | None = None
    ) -> Found:
        """Return some players' standings, best first, and who has none."""
        return await self._rankd.reader.lookup(self.name, players, window=window, segment=segment)

    async def friends(
        self, player: str, *, window: str | None = None, segment: str | None = None
    ) -> Found:
        """Return a player and its friends, ranked among themselves."""
        return await self._rankd.reader.friends(self.name, player, window=window, segment=segment)

    async def rank_for(
        self,
        score: object = None,
        *,
        columns: Sequence[object] | None = None,
        window: str | None = None,
        segment: str | None = None,
    ) -> Projected:
        """Return the rank that a newcomer with this score would get now."""
        board = self._rankd.book.page(self.name).board
        scores = _read_scores(board, [score] if columns is None else columns)
        return await self._rankd.reader.rank_for(self.name, scores, window=window, segment=segment)

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
        return await self._rankd.reader.scores_for(
            self.name,
            rank=None if rank is None else Rank(rank),
            percentile=percentile,
            window=window,
            segment=segment,
        )

    async def windows(self) -> list[Window]:
        """Return the windows that can be read: the closed ones, oldest first, then the open."""
        page = self._rankd.book.page(self.name)
        closed = [sealed.window for sealed in page.sealed.values()]
        return closed + [opened.window for opened in page.windows.values()]

    # ------------------------------------------------------------------------- changing

    async def preview(self, **definition: object) -> Preview:
        """Return what ``redefine`` with the same words would change. Nothing is changed."""
        return await self._rankd.preview(self.name, self._changed(definition))

    async def redefine(self, *, progress: Show = None, **definition: object) -> None:
        """Change the board's definition in what is given; the rest stays.

        Windows that it changes are folded again from the ledger while everything goes on, and
        then switched at one moment.
        """
        with showing(progress) as tell:
            await self._rankd.redefine(self.name, self._changed(definition), tell=tell)

    async def retire(self, *, reason: str | None = None) -> None:
        """Take the board out of use. Its facts stay in the ledger."""
        await self._rankd.retire(self.name, reason=reason)

    def _changed(self, definition: Mapping[str, object]) -> dict[str, object]:
        known = self._rankd.book.page(self.name).board.definition()
        if "direction" in definition and "columns" not in definition:
            # Of the first column; the others keep theirs, and all keep their names.
            known["columns"][0]["direction"] = definition["direction"]
        elif "columns" in definition and "direction" not in definition:
            del known["direction"]
        return {**known, **definition}


class AsyncRanks:
    """An open engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._rankd = engine.rankd

    @property
    def position(self) -> Position:
        """The position that reads are true at."""
        return self._rankd.position

    @property
    def durable(self) -> bool:
        """Whether anything outlives the process."""
        return self._engine.durable

    async def board(self, name: str, **definition: object) -> AsyncBoard:
        """Get a board; define it first, with defaults for what is not said, if it is not there.

        Raises BoardDiffers if it is there and defined otherwise.
        """
        if definition or name not in self._rankd.book.boards:
            await self._rankd.define(name, definition)
        return AsyncBoard(self._engine, name)

    async def boards(self) -> list[str]:
        """Return the names of the boards there are."""
        return list(self._rankd.book.boards)

    # -------------------------------------------------------------------------- players

    async def profile(
        self,
        player: str,
        *,
        name: str | None = None,
        attributes: Mapping[str, str | int | bool] | None = None,
    ) -> Position:
        """Set what a player is called and what it is ranked by: all of it, whole."""
        return await self._rankd.profile(player, {"name": name, "attributes": attributes})

    async def set_friends(self, player: str, friends: Sequence[str]) -> Position:
        """Set a player's friends, all of them."""
        return await self._rankd.set_friends(player, friends)

    async def erase(self, player: str, *, reason: str | None = None) -> Position:
        """Forget a person: the profile and the friends go, entries stay without a name."""
        return await self._rankd.erase(player, reason=reason)

    async def standings(self, player: str) -> dict[str, Standing]:
        """Return where a player stands on every board, by the board's name."""
        found = await self._rankd.reader.standings(check_player(player))
        return {ranking.board: standing for ranking, standing in found}

    # ----------------------------------------------------------------------------- care

    async def save(self, *, progress: Show = None) -> Position:
        """Save the index, so that the next start is quick; return the position it is saved at."""
        with showing(progress) as tell:
            return await self._rankd.save(tell)

    async def verify(self, *, progress: Show = None) -> None:
        """Check every fact, and the index against all of them. Raises Corrupt."""
        with showing(progress) as tell:
            async for step in self._rankd.verify():
                tell(step)

    async def rebuild(self, *, progress: Show = None) -> None:
        """Fold the whole ledger into a new index, and go on with that."""
        with showing(progress) as tell:
            async for step in self._rankd.rebuild():
                tell(step)

    async def backup(self, folder: Folder, *, progress: Show = None) -> None:
        """Copy the ledger into an empty folder while everything goes on, and verify the copy."""
        if self._engine.backup is None:
            raise NothingToBackUp
        with showing(progress) as tell:
            async for step in self._engine.backup(Path(folder)):
                tell(step)


def receipt_of(answer: Answer, board: str) -> Receipt:
    """Return an answer's receipt, or raise what it says."""
    error: RankdError | None = answer.error
    receipt = answer.receipt
    if answer.pending is not None:
        raise IndexUnavailable("the score is recorded, and nobody can tell its rank now")
    if error is None and receipt is None:
        error = UnknownBoard(board)
    elif receipt is not None and receipt.rejected:
        why = receipt.first
        error = SubmissionRejected(reason=why.code or "", message=why.message or "")
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
