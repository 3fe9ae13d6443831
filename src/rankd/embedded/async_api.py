"""The engine's operations as coroutines, for an index across a network.

Over an index in this process a read never suspends; there ``boards`` runs it as a plain call.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self, Unpack

from msgspec import UNSET, UnsetType

from rankd.bootstrap import Folder
from rankd.core.distribution import BUCKETS_DEFAULT, ScoreDistribution
from rankd.core.editions import edition_reader
from rankd.core.movement import Found
from rankd.core.rank_history import GRAIN_DEFAULT, RankHistory
from rankd.core.read_engine import FoundPlayer, Preview
from rankd.core.reader import FoundStandings, Page, Projected, Reader
from rankd.core.rule_preview import RulesPreview
from rankd.core.runs import StartedRun
from rankd.core.time_correction import Corrected
from rankd.core.webhook_delivery import Callback
from rankd.core.window_control import WindowResult
from rankd.core.window_schedule import (
    SCHEDULE_LENGTH_DEFAULT,
    SCHEDULE_LENGTH_MAX,
    PlannedStep,
    coming_steps,
)
from rankd.core.writer import BATCH_FACTS_MAX, WriteResult
from rankd.embedded.corrections import BoardCorrector, RanksCorrector
from rankd.embedded.handles import BoardHandle, BoardRef, receipt_of
from rankd.embedded.moments import Compared, Then, past_reader
from rankd.embedded.rewards import BoardRewards
from rankd.errors import (
    FieldError,
    InvalidPage,
    NothingToBackUp,
    Refused,
    Unavailable,
)
from rankd.model.board import Board as Definition
from rankd.model.facts import Position, Visibility
from rankd.model.profile import check_player
from rankd.model.receipt import Receipt
from rankd.model.standing import (
    NEIGHBOURS_DEFAULT,
    PAGE_LIMIT_DEFAULT,
    Offset,
    Rank,
    Standing,
    read_absent,
)
from rankd.model.submission import Item
from rankd.model.window import ListedWindow
from rankd.ports import Ranking
from rankd.progress import Show, showing


class BoardWriter(BoardCorrector, BoardRewards):
    """The writes of a board, all awaited. Awaiting the handle defines a missing board."""

    def __await__(self) -> Generator[Any, None, Self]:
        yield from self._wanted.made().__await__()
        return self

    # ---------------------------------------------------------------------- submitting

    async def submit(  # noqa: PLR0913 - the fields of a submission
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
        run: str | None = None,
        lives: str | None = None,
    ) -> Receipt:
        """Submit a score and return its receipt. Raises Refused and Unavailable.

        On return it is on stable storage. With a ``key`` it is safe to repeat: it counts once.
        With ``lives``, such as ``24h``, it counts for so long.
        """
        body: dict[str, object] = {"player": player, "score": score, "delta": delta}
        more = {
            "key": key,
            "columns": columns,
            "metadata": metadata,
            "attributes": attributes,
            "build": build,
            "at": at,
            "run": run,
            "lives": lives,
        }
        body |= {name: value for name, value in more.items() if value is not None}
        rankd = await self._wanted.made()
        (answer,) = await rankd.submit(self.name, [body])
        return receipt_of(answer, self.name, rankd)

    async def start_run(self, player: str) -> StartedRun:
        """Start a run: return a token that one submission of this player may use in its time."""
        return await (await self._wanted.made()).runs.start(self.name, player)

    async def submit_many(self, items: Iterable[Item]) -> list[Receipt]:
        """Submit many scores, one commit for each BATCH_FACTS_MAX; return their receipts.

        If one is malformed, nothing of its commit is recorded; the error names the item. If one is
        refused when it is judged, or reuses a key, the others still count and the first refusal is
        raised.
        """
        bodies = items if isinstance(items, list) else list(items)
        rankd = await self._wanted.made()
        answers: list[WriteResult] = []
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
        """Return the changes that ``redefine`` would make, without making them."""
        rankd = self._wanted.there()
        return await rankd.preview(self.name, self._changed(definition))

    async def preview_rules(self, *, progress: Show = None, **definition: object) -> RulesPreview:
        """Return the past submissions that the rules of a changed definition would have caught.

        Without a definition, those that the rules in force would have. Nothing is changed.
        """
        rankd = self._wanted.there()
        with showing(progress) as tell:
            return await rankd.preview_rules(self.name, self._changed(definition), tell=tell)

    async def redefine(
        self, *, drop_scores: bool = False, progress: Show = None, **definition: object
    ) -> None:
        """Change the given fields of the board's definition; the others stay.

        The windows it affects are folded again from the ledger while reads and writes continue, and
        are then replaced atomically. Raises DropsScores if scores can no longer be ranked, for
        example because of a new column, unless ``drop_scores`` is set.
        """
        rankd = await self._wanted.made()
        with showing(progress) as tell:
            changed = self._changed(definition)
            await rankd.redefine(self.name, changed, drop_scores=drop_scores, tell=tell)

    async def retire(self, *, reason: str | None = None) -> None:
        """Take the board out of use. Its facts stay in the ledger."""
        rankd = await self._wanted.made()
        await rankd.retire(self.name, reason=reason)

    async def reset_window(self, window: str, *, reason: str) -> WindowResult:
        """Close a window now, and open the next one at the same position.

        A second call with the same window and reason changes nothing. Raises WrongWindowState.
        """
        rankd = await self._wanted.made()
        return await rankd.reset_window(self.name, {"window": window, "reason": reason})

    async def freeze_window(self, window: str, *, reason: str) -> WindowResult:
        """Let a window take no more scores until its time is over. Raises WrongWindowState."""
        rankd = await self._wanted.made()
        return await rankd.freeze_window(self.name, {"window": window, "reason": reason})

    async def settle_window(self, window: str, *, reason: str) -> WindowResult:
        """Declare the standings of a window final, sealing it first. Raises WrongWindowState."""
        rankd = await self._wanted.made()
        return await rankd.settle_window(self.name, {"window": window, "reason": reason})

    def _changed(self, definition: Mapping[str, object]) -> dict[str, object]:
        known = self._wanted.there().state.page(self.name).board.definition()
        if "direction" in definition and "columns" not in definition:
            # It applies to the first column; the others keep theirs, and all keep their names.
            known["columns"][0]["direction"] = definition["direction"]
        elif "columns" in definition and "direction" not in definition:
            del known["direction"]
        return {**known, **definition}


class AwaitedBoard(BoardHandle):
    """The standings of a board, whose reads are awaited."""

    _then: Mapping[str, object] = MappingProxyType({})
    """The past moment of all reads; empty for the present."""

    @property
    def _reader(self) -> Reader:
        return self._wanted.there().reader

    def past(self, **then: Unpack[Compared]) -> "AwaitedBoard":
        """Return the board as it was at a position or a time; its reads are awaited.

        With ``baseline``, a position, a duration or a window, they tell the movement since then.
        """
        past = AwaitedBoard(self._wanted)
        past._then = MappingProxyType(dict(then))
        return past

    async def top(
        self,
        count: int = PAGE_LIMIT_DEFAULT,
        *,
        window: str | None = None,
        segment: str | None = None,
        **then: Unpack[Compared],
    ) -> list[Standing]:
        """Return the best standings."""
        reader = await self._reader_of(then, window, segment)
        page = await reader.page(self.name, limit=count, window=window, segment=segment)
        return (await self._compared(then, reader, page)).standings

    async def page(  # noqa: PLR0913 - which part of which ranking
        self,
        *,
        limit: int = PAGE_LIMIT_DEFAULT,
        offset: int | None = None,
        from_rank: int | None = None,
        cursor: str | None = None,
        score_min: object = None,
        score_max: object = None,
        window: str | None = None,
        segment: str | None = None,
        edition: int | None = None,
        **then: Unpack[Compared],
    ) -> Page:
        """Return a page that begins at a rank, an offset or a cursor.

        With ``score_min`` or ``score_max``, both inclusive, it is one of the entries whose first
        column lies between them; its ``in_range`` tells how many these are. ``edition``, counted
        from 1, names an earlier edition of a closed window.
        """
        reader = await self._reader_of(then, window, segment, edition)
        page = await reader.page(
            self.name,
            limit=limit,
            offset=None if offset is None else Offset(offset),
            from_rank=None if from_rank is None else Rank(from_rank),
            cursor=cursor,
            score_min=score_min,
            score_max=score_max,
            window=window,
            segment=segment,
        )
        return await self._compared(then, reader, page)

    async def _compared(
        self, then: Compared, reader: Reader, found: Found, ranking: Ranking | None = None
    ) -> Found:
        """Return standings with the movement since a baseline, if one is named."""
        baseline = {**self._then, **then}.get("baseline")
        if baseline is None:
            return found
        if ranking is None:
            assert not isinstance(found, Standing), "it does not tell its ranking"
            ranking = found.ranking
        return await self._wanted.there().movement.compared(reader, ranking, found, str(baseline))

    async def _reader_of(
        self,
        then: Then | Compared,
        window: str | None,
        segment: str | None,
        edition: int | None = None,
    ) -> Reader:
        """Return a reader of the present, a past moment, or an edition. Raises InvalidPage."""
        moment = {**self._then, **then}
        if any(moment.get(name) is not None for name in ("as_of", "at")):
            if edition is not None:
                raise InvalidPage([FieldError("edition", "cannot be combined with as_of or at")])
            return await past_reader(self._wanted.there(), self.name, moment, window, segment)
        reader = self._reader
        if edition is None:
            return reader
        return await edition_reader(reader, reader.where(self.name, window, segment), edition)

    async def standing(
        self,
        player: str,
        *,
        window: str | None = None,
        segment: str | None = None,
        edition: int | None = None,
        **then: Unpack[Compared],
    ) -> Standing | None:
        """Return a player's standing, also in an earlier edition; None if it is not ranked."""
        reader = await self._reader_of(then, window, segment, edition)
        found = await reader.standing(self.name, player, window=window, segment=segment)
        if found is None:
            return None
        ranking = reader.where(self.name, window, segment).ranking
        return await self._compared(then, reader, found, ranking)

    async def ranks(
        self,
        players: Sequence[str],
        *,
        window: str | None = None,
        segment: str | None = None,
        **then: Unpack[Then],
    ) -> list[Rank | None]:
        """Return the ranks of many players; None for each that is not ranked."""
        reader = await self._reader_of(then, window, segment)
        return await reader.ranks(self.name, players, window=window, segment=segment)

    async def around(
        self,
        player: str,
        *,
        above: int = NEIGHBOURS_DEFAULT,
        below: int = NEIGHBOURS_DEFAULT,
        absent: str | None = None,
        window: str | None = None,
        segment: str | None = None,
        **then: Unpack[Compared],
    ) -> list[Standing]:
        """Return a player's neighbourhood, filled up at the edges.

        A player without an entry raises NotRanked or, with ``absent`` ``top`` or ``bottom``, gets
        the neighbourhood of the first or the last one.
        """
        reader = await self._reader_of(then, window, segment)
        page = await reader.around(
            self.name,
            player,
            above=above,
            below=below,
            absent=read_absent(absent),
            window=window,
            segment=segment,
        )
        return (await self._compared(then, reader, page)).standings

    async def around_rank(
        self,
        rank: int,
        *,
        reach: int = NEIGHBOURS_DEFAULT,
        window: str | None = None,
        segment: str | None = None,
        **then: Unpack[Compared],
    ) -> list[Standing]:
        """Return the standings from ``rank - reach`` to ``rank + reach``."""
        reader = await self._reader_of(then, window, segment)
        page = await reader.around_rank(
            self.name, Rank(rank), reach=reach, window=window, segment=segment
        )
        return (await self._compared(then, reader, page)).standings

    async def lookup(
        self,
        players: Sequence[str],
        *,
        window: str | None = None,
        segment: str | None = None,
        **then: Unpack[Compared],
    ) -> FoundStandings:
        """Return some players' standings, best first, and the players that are not ranked."""
        reader = await self._reader_of(then, window, segment)
        found = await reader.lookup(self.name, players, window=window, segment=segment)
        return await self._compared(then, reader, found)

    async def friends(
        self,
        player: str,
        *,
        window: str | None = None,
        segment: str | None = None,
        **then: Unpack[Compared],
    ) -> FoundStandings:
        """Return a player and its friends, ranked among themselves."""
        reader = await self._reader_of(then, window, segment)
        found = await reader.friends(self.name, player, window=window, segment=segment)
        return await self._compared(then, reader, found)

    async def rank_for(
        self,
        score: object = None,
        *,
        columns: Sequence[object] | None = None,
        window: str | None = None,
        segment: str | None = None,
        **then: Unpack[Then],
    ) -> Projected:
        """Return the rank that a new player with this score would get now."""
        reader = await self._reader_of(then, window, segment)
        board = reader.projector.state.page(self.name).board
        scores = _read_scores(board, [score] if columns is None else columns)
        return await reader.rank_for(self.name, scores, window=window, segment=segment)

    async def score_for(
        self,
        *,
        rank: int | None = None,
        percentile: float | None = None,
        window: str | None = None,
        segment: str | None = None,
        **then: Unpack[Then],
    ) -> Projected:
        """Return the scores that hold a rank now, or the last rank of a percentile."""
        if (rank is None) == (percentile is None):
            raise InvalidPage([FieldError("rank", "or else percentile must be given")])
        reader = await self._reader_of(then, window, segment)
        return await reader.scores_for(
            self.name,
            rank=None if rank is None else Rank(rank),
            percentile=percentile,
            window=window,
            segment=segment,
        )

    async def distribution(
        self,
        *,
        buckets: int = BUCKETS_DEFAULT,
        window: str | None = None,
        segment: str | None = None,
        **then: Unpack[Then],
    ) -> ScoreDistribution:
        """Return the scores as a histogram with counts and quantiles, in smallest units."""
        reader = await self._reader_of(then, window, segment)
        return await reader.distribution(self.name, buckets=buckets, window=window, segment=segment)


class RemoteBoard(AwaitedBoard, BoardWriter):
    """One board of an engine whose index is across a network: reads are awaited, too."""

    async def rank_history(
        self, player: str, *, window: str | None = None, grain: str = GRAIN_DEFAULT
    ) -> RankHistory:
        """Return a player's rank over time: at the end of each ``grain``, and now.

        A grain is an ``hour``, a ``day`` or a ``week``. Raises PastOutOfReach.
        """
        rankd = self._wanted.there()
        return await rankd.rank_histories.history(
            rankd.reader, self.name, check_player(player), window=window, grain=grain
        )

    async def windows(self) -> list[ListedWindow]:
        """Return the sealed windows, oldest first, then the open ones, then the scheduled ones."""
        rankd = self._wanted.there()
        return list(rankd.state.page(self.name).listed(rankd.ledger_time))

    async def schedule(self, next: int = SCHEDULE_LENGTH_DEFAULT) -> list[PlannedStep]:
        """Return the coming openings and closings of the windows, the earliest first."""
        if not 1 <= next <= SCHEDULE_LENGTH_MAX:
            message = f"must be from 1 to {SCHEDULE_LENGTH_MAX}"
            raise InvalidPage([FieldError("next", message)])
        rankd = self._wanted.there()
        return coming_steps(rankd.state.page(self.name), rankd.ledger_time, next)


class RanksWriter(RanksCorrector):
    """The writes of an engine, all awaited. ``async with`` closes it in the end."""

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
        """Close the engine and free its folder; do nothing if it is closed already.

        Waits for submissions in progress. Later calls raise LedgerUnavailable.
        """
        self._opened.stop()
        await self._opened.running.join()

    def on(self, event: str, function: Callback) -> Callable[[], None]:
        """Call a function for each event of a name from now on; return a function that ends it.

        It is passed the message of a webhook, with the ``id``, in the order of the ledger: on a
        thread, or in the loop of the program if it is ``async`` and there is one.
        """
        return self._opened.rankd.callbacks.add(event, function)

    # -------------------------------------------------------------------------- players

    async def profile(
        self,
        player: str,
        *,
        name: str | UnsetType | None = UNSET,
        attributes: Mapping[str, str | int | bool] | UnsetType | None = UNSET,
        visibility: Visibility | UnsetType | None = UNSET,
    ) -> Position:
        """Set a player's name, its visibility, or its attributes as a whole.

        An argument that is not given changes nothing; None deletes the value.
        """
        given = {"name": name, "attributes": attributes, "visibility": visibility}
        said = {field: value for field, value in given.items() if value is not UNSET}
        return await self._opened.rankd.profile(player, said)

    async def merge_profile(
        self,
        player: str,
        *,
        name: str | UnsetType | None = UNSET,
        attributes: Mapping[str, str | int | bool | None] | UnsetType | None = UNSET,
        visibility: Visibility | UnsetType | None = UNSET,
    ) -> Position:
        """Change a player's name, visibility or some attributes; the other attributes stay.

        An attribute that is None is deleted. A call that changes nothing records nothing.
        """
        given = {"name": name, "attributes": attributes, "visibility": visibility}
        said = {field: value for field, value in given.items() if value is not UNSET}
        return await self._opened.rankd.merge_profile(player, said)

    async def players(
        self, query: str, *, limit: int = PAGE_LIMIT_DEFAULT, after: str | None = None
    ) -> list[FoundPlayer]:
        """Return players whose name or id begins with ``query``, ordered by id.

        ``after`` is the last id of the previous page. Raises InvalidPage.
        """
        self._opened.refuse_if_closed()
        found = await self._opened.search.find(query, after=after, limit=limit)
        return found.players

    async def set_friends(self, player: str, friends: Sequence[str]) -> Position:
        """Replace a player's friends."""
        return await self._opened.rankd.set_friends(player, friends)

    async def erase(
        self,
        player: str,
        *,
        reason: str | None = None,
        unfriend: bool = False,
        progress: Show = None,
    ) -> Position:
        """Erase a player's data, from the ledger too; its entries keep their ranks, without a name.

        With ``unfriend`` other players' lists of friends name it no more. Returns once all is done.
        """
        with showing(progress) as tell:
            return await self._opened.rankd.erase(
                player, reason=reason, unfriend=unfriend, tell=tell
            )

    # ---------------------------------------------------------------------------- clock

    async def confirm_clock(self) -> float | None:
        """Accept a step of the clock now instead of after it has lasted.

        Return its seconds; None if no step is waiting to be accepted.
        """
        step = self._opened.rankd.confirm_clock()
        return None if step is None else step.offset / 1_000_000

    async def correct_clock(
        self,
        *,
        first: int | None = None,
        ahead_seconds: float | None = None,
        reason: str | None = None,
        dry_run: bool = False,
        progress: Show = None,
    ) -> Corrected:
        """Undo the effects of a wrong time on windows, from a position on; return what changes.

        Without ``first``, from the first fact that is later than the clock. ``ahead_seconds`` is
        the jump of the time there if it is not given. With ``dry_run`` nothing is changed.
        """
        position = None if first is None else Position(first)
        ahead = None if ahead_seconds is None else round(ahead_seconds * 1_000_000)
        rankd = self._opened.rankd
        if dry_run:
            return await rankd.preview_correction(first=position, ahead=ahead)
        with showing(progress) as tell:
            return await rankd.correct_time(first=position, ahead=ahead, reason=reason, tell=tell)

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
        """Fold the whole ledger into a new index, and replace the present one by it."""
        with showing(progress) as tell:
            async for step in self._opened.rankd.rebuild():
                tell(step)

    async def backup(self, folder: Folder, *, progress: Show = None) -> None:
        """Copy the ledger into an empty folder while it is in use, and verify the copy."""
        self._opened.refuse_if_closed()
        copy = self._opened.engine.backup
        if copy is None:
            raise NothingToBackUp
        with showing(progress) as tell:
            async for step in copy(Path(folder)):
                tell(step)


class RemoteRanks(RanksWriter):
    """An open engine whose index is across a network: reads are awaited, too."""

    def board(self, name: str, **definition: object) -> RemoteBoard:
        """Return a board; define it, with defaults for missing fields, if it does not exist.

        If awaited, it is defined now, and errors are raised. Otherwise it is defined before the
        first write to it, which raises BoardDiffers if it exists with another definition. Until
        then it can be read if it exists with this definition.
        """
        return RemoteBoard(BoardRef(self._opened, name, definition))

    async def boards(self) -> list[str]:
        """Return the names of the boards."""
        return list(self._opened.rankd.state.boards)

    async def standings(self, player: str, *, window: str | None = None) -> dict[str, Standing]:
        """Return a player's standings by board, on every board with the window."""
        found = await self._opened.rankd.reader.standings(check_player(player), window)
        return {where.ranking.board: standing for where, standing in found}


def _read_scores(board: Definition, values: Sequence[object]) -> tuple[int, ...]:
    if len(values) != board.width:
        message = f"must be given for each of the board's {board.width} columns"
        raise InvalidPage([FieldError("columns" if board.width > 1 else "score", message)])
    try:
        return tuple(board.parse_score(value) for value in values)
    except ValueError as exc:
        raise InvalidPage([FieldError("score", str(exc))]) from exc
