"""A SharedIndex in this process, for several nodes that run in it.

``SharedMemory`` stands for the server, and each node opens it with an index of its own. A
generation is a native index that remembers its last applies and the entries before them. It makes
each apply at once, so that none is ever unfinished.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from itertools import count
from types import MappingProxyType
from typing import ClassVar, NamedTuple

from rankd.adapters.memory.index import NativeIndex
from rankd.adapters.memory.index_state import is_draft
from rankd.errors import IndexForgot, IndexUnavailable
from rankd.model.facts import Position
from rankd.model.standing import Offset, Rank
from rankd.ports import (
    APPLIES_REMEMBERED,
    DRAFT,
    EntryRange,
    Move,
    Moved,
    Progress,
    Ranked,
    RankIndex,
    Ranking,
    RankingShape,
    Run,
    SegmentChange,
    Verdicts,
)

FILLED_TOGETHER = 1_000
"""Entries that are copied before others get their turn."""

_NOTHING: Mapping[Ranking, RankingShape] = MappingProxyType({})
_NO_DRAFTS: Mapping[Ranking, Ranking] = MappingProxyType({})

Place = tuple[Ranking, str]
Entry = tuple[bytes | None, bytes | None]
"""An order key and metadata; both None without an entry."""

_ABSENT: Entry = (None, None)


class _Apply(NamedTuple):
    """A remembered apply."""

    after: Position
    through: Position
    work: object
    """All that distinguishes it from others at the same positions."""
    moved: Sequence[Moved]
    entries: Mapping[Place, Entry]
    """The moved entries, as they were before it."""
    rankings: Mapping[Ranking, Mapping[str, Entry]]
    """The dropped and replaced rankings, as they were before it."""

    def before(self, place: Place) -> Entry | None:
        """Return an entry as it was before the apply; None if the apply did not touch it."""
        if (ranking := self.rankings.get(place[0])) is not None:
            return ranking.get(place[1], _ABSENT)
        return self.entries.get(place)


class MemoryGeneration(NativeIndex):
    """One index of those that a shared memory holds."""

    immediate: ClassVar[bool] = False
    judges: ClassVar[bool] = False
    shared: ClassVar[bool] = True

    def __init__(self, applies_remembered: int) -> None:
        super().__init__()
        self.changes = 0
        """Grows with every apply, staging and copied page."""
        self._applies: deque[_Apply] = deque(maxlen=applies_remembered)

    async def apply(
        self,
        moves: Sequence[Move],
        *,
        after: Position,
        through: Position,
        opened: Mapping[Ranking, RankingShape] = _NOTHING,
        dropped: Sequence[Ranking] = (),
        adopted: Mapping[Ranking, Ranking] = _NO_DRAFTS,
    ) -> Sequence[Moved] | None:
        replaced = {*adopted.values()}
        work = list(moves), dict(opened), {*dropped}, replaced
        for known in self._applies:
            if (known.after, known.through, known.work) == (after, through, work):
                return known.moved
        places = [(move.ranking, move.player) for move in moves]
        entries = dict(zip(places, await self._entries(places), strict=True))
        rankings = {ranking: await self._all_entries(ranking) for ranking in (*dropped, *replaced)}
        moved = await super().apply(
            moves, after=after, through=through, opened=opened, dropped=dropped, adopted=adopted
        )
        if moved is not None:
            self.changes += 1
            self._applies.append(_Apply(after, through, work, moved, entries, rankings))
        return moved

    async def stage(
        self,
        moves: Sequence[Move],
        *,
        opened: Mapping[Ranking, RankingShape] = _NOTHING,
        dropped: Sequence[Ranking] = (),
    ) -> Sequence[Moved]:
        self.changes += 1
        return await super().stage(moves, opened=opened, dropped=dropped)

    async def step_after(self, position: Position) -> Position | None:
        """Return the ``through`` of the apply that follows a position. Raises IndexForgot."""
        since = self._since(position)
        return since[0].through if since else None

    async def entries_at(self, places: Sequence[Place], at: Position | None) -> list[Entry]:
        """Return entries as of the checkpoint or of a remembered apply. Raises IndexForgot."""
        found, since = await self._entries(places), self._since(at)
        return [
            next((entry for one in since if (entry := one.before(place)) is not None), now)
            for place, now in zip(places, found, strict=True)
        ]

    def _since(self, at: Position | None) -> list[_Apply]:
        """Return the applies since a position, oldest first. Raises IndexForgot."""
        here = self._sound().checkpoint
        if at is None or at == here:
            return []
        since = [one for one in self._applies if one.after >= at]
        if not since or since[0].after != at:
            raise IndexForgot(position=at, checkpoint=here)
        return since

    async def _entries(self, places: Sequence[Place]) -> list[Entry]:
        keys, beside = await super().order_keys(places), await super().metadata(places)
        return list(zip(keys, beside, strict=True))

    async def _all_entries(self, ranking: Ranking) -> dict[str, Entry]:
        total = await self.count(ranking)
        page = await self.read(ranking, first=Rank(1), limit=total)
        return {player: (key, beside) for player, key, beside in page.entries}


class SharedMemory:
    """The memory that the indexes of several nodes share."""

    def __init__(self, *, applies_remembered: int = APPLIES_REMEMBERED) -> None:
        self._applies_remembered = applies_remembered
        self.empty()

    def empty(self) -> None:
        """Lose everything, as a server does that is emptied."""
        self.live = self.generation()
        self.beside: dict[MemoryGeneration, int] = {}
        """The generations that are being filled, with their changes at the last sweep."""
        self.ledger = ""
        """The ledger that the index is made from."""
        self.claim: tuple[int, float] | None = None
        """The owner and the end of the claim to rebuild the index, by the loop's clock."""

    def generation(self) -> MemoryGeneration:
        """Return a new, empty generation."""
        return MemoryGeneration(self._applies_remembered)


_owners = count(1)


class MemorySharedIndex:
    """One node's index in a shared memory."""

    immediate: ClassVar[bool] = False
    judges: ClassVar[bool] = False
    shared: ClassVar[bool] = True
    replicas: ClassVar[None] = None
    notes: ClassVar[Sequence[str]] = ()

    def __init__(self, memory: SharedMemory) -> None:
        self.memory = memory
        self._owner = next(_owners)
        """Keeps this node's draft rankings apart from those of other nodes."""
        self._staged: dict[Ranking, MemoryGeneration] = {}
        """The draft rankings, and where they were staged."""
        self._beside: MemoryGeneration | None = None
        """The generation of an index that does not live; None follows the live one."""
        self._instead_of: MemoryGeneration | None = None

    @property
    def generation(self) -> MemoryGeneration:
        """The generation that this index reads and writes. Raises IndexUnavailable."""
        if self._beside is None:
            return self.memory.live
        if self._beside not in self.memory.beside:
            raise IndexUnavailable("the index that was being filled is gone: begin again")
        return self._beside

    # -------------------------------------------------------------------------- writing

    async def apply(
        self,
        moves: Sequence[Move],
        *,
        after: Position,
        through: Position,
        opened: Mapping[Ranking, RankingShape] = _NOTHING,
        dropped: Sequence[Ranking] = (),
        adopted: Mapping[Ranking, Ranking] = _NO_DRAFTS,
    ) -> Sequence[Moved] | None:
        generation = self.generation
        if not self._are_in(generation, adopted):
            raise IndexForgot(position=after, checkpoint=after)
        drafts = {self._private(draft): name for draft, name in adopted.items()}
        moved = await generation.apply(
            moves, after=after, through=through, opened=opened, dropped=dropped, adopted=drafts
        )
        if moved is not None and adopted:
            await generation.stage([], dropped=list(drafts))  # Where another node was first.
            for draft in adopted:
                self._staged.pop(draft, None)
        return moved

    async def judge(
        self,
        runs: Sequence[Run],
        *,
        after: Position,
        through: Position,
        changes: Sequence[SegmentChange] = (),
    ) -> Sequence[Sequence[Verdicts]] | None:
        raise AssertionError("this index does not judge")

    async def stage(
        self,
        moves: Sequence[Move],
        *,
        opened: Mapping[Ranking, RankingShape] = _NOTHING,
        dropped: Sequence[Ranking] = (),
    ) -> Sequence[Moved]:
        generation = self.generation
        if not self._are_in(generation, {move.ranking for move in moves} - set(opened)):
            raise IndexUnavailable("a draft is gone with the index it was staged in")
        moved = await generation.stage(
            [move._replace(ranking=self._private(move.ranking)) for move in moves],
            opened={self._private(ranking): shape for ranking, shape in opened.items()},
            dropped=[self._private(ranking) for ranking in dropped],
        )
        self._staged |= dict.fromkeys(opened, generation)
        for ranking in dropped:
            self._staged.pop(ranking, None)
        return moved

    def _are_in(
        self, generation: MemoryGeneration, drafts: Mapping[Ranking, Ranking] | set[Ranking]
    ) -> bool:
        return all(self._staged.get(draft, generation) is generation for draft in drafts)

    def _private(self, ranking: Ranking) -> Ranking:
        """Return a draft ranking under its owner's name; another one unchanged."""
        if not is_draft(ranking):
            return ranking
        return Ranking(self._private_board(ranking.board), ranking.window, ranking.segment)

    def _private_board(self, board: str) -> str:
        return f"{DRAFT}{self._owner}{board}" if board.startswith(DRAFT) else board

    def free_dropped(self) -> bool:
        return False  # Applies free them.

    # -------------------------------------------------------------------------- reading

    async def checkpoint(self) -> Position:
        return await self.generation.checkpoint()

    async def step_after(self, position: Position) -> Position | None:
        return await self.generation.step_after(position)

    async def unfinished(self) -> tuple[Position, Position] | None:
        self.generation  # noqa: B018 - raises if it is gone
        return None

    async def order_keys(
        self, entries: Sequence[Place], at: Position | None = None
    ) -> Sequence[bytes | None]:
        return [key for key, _ in await self._entries_at(entries, at)]

    async def metadata(
        self, entries: Sequence[Place], at: Position | None = None
    ) -> Sequence[bytes | None]:
        return [beside for _, beside in await self._entries_at(entries, at)]

    async def _entries_at(self, places: Sequence[Place], at: Position | None) -> list[Entry]:
        there = [(self._private(ranking), player) for ranking, player in places]
        return await self.generation.entries_at(there, at)

    async def rank(
        self, ranking: Ranking, player: str, at: Position | None = None
    ) -> Ranked | None:
        return await self.generation.rank(self._private(ranking), player, at)

    def ask_rank(
        self, ranking: Ranking, player: str, tell: Callable[[Ranked | None], None]
    ) -> bool:
        def ask() -> None:
            try:
                found = self.generation.rank_now(self._private(ranking), player)
            except IndexUnavailable:
                found = None
            tell(found)

        asyncio.get_running_loop().call_soon(ask)
        return True

    async def ranks(
        self, ranking: Ranking, players: Sequence[str], at: Position | None = None
    ) -> Sequence[Ranked | None]:
        return await self.generation.ranks(self._private(ranking), players, at)

    async def count(self, ranking: Ranking, at: Position | None = None) -> int:
        return await self.generation.count(self._private(ranking), at)

    def player_ids(self, count: int) -> Iterator[Sequence[str]]:
        del count
        return iter(())

    async def count_below(
        self, ranking: Ranking, order_key: bytes, player: str = "", at: Position | None = None
    ) -> Offset:
        return await self.generation.count_below(self._private(ranking), order_key, player, at)

    async def scores_below(
        self, ranking: Ranking, order_key: bytes, at: Position | None = None
    ) -> Offset:
        return await self.generation.scores_below(self._private(ranking), order_key, at)

    async def read(
        self, ranking: Ranking, *, first: Rank, limit: int, at: Position | None = None
    ) -> EntryRange:
        return await self.generation.read(self._private(ranking), first=first, limit=limit, at=at)

    async def rankings(self, board: str) -> Sequence[Ranking]:
        found = await self.generation.rankings(self._private_board(board))
        return [Ranking(board, ranking.window, ranking.segment) for ranking in found]

    async def shapes(self) -> Mapping[Ranking, RankingShape]:
        return await self.generation.shapes()

    def digest(self) -> bytes:
        """Return a digest that is equal for indexes that folded the same facts. O(n)."""
        return self.generation.digest()

    # ---------------------------------------------------------------------- generations

    async def look_again(self) -> None:
        """Do nothing: there is no server to check."""

    async def belongs(self, ledger: str) -> bool:
        memory = self.memory
        memory.ledger = memory.ledger or ledger
        return memory.ledger == ledger

    async def beside(self) -> "MemorySharedIndex":
        index = MemorySharedIndex(self.memory)
        index._instead_of = self.generation
        index._beside = self.memory.generation()
        self.memory.beside[index._beside] = -1  # No sweep has seen it.
        return index

    async def fill(self, source: RankIndex) -> AsyncIterator[Progress]:
        assert self._beside is not None, "the living index is not filled: fill one beside it"
        shapes, moves = await source.shapes(), list[Move]()
        total = sum([await source.count(ranking) for ranking in shapes])
        for ranking in shapes:
            first = 1
            while page := (
                await source.read(ranking, first=Rank(first), limit=FILLED_TOGETHER)
            ).entries:
                self.generation.changes += 1
                moves += [Move(ranking, *entry) for entry in page]
                first += len(page)
                yield Progress(len(moves), total, "copying", "standing")
        if at := await source.checkpoint():
            await self.apply(moves, after=Position(0), through=at, opened=shapes)

    async def take_over(self) -> bool:
        memory, generation = self.memory, self.generation
        assert self._beside is not None, "this index lives already"
        taken = memory.live is self._instead_of
        if taken:
            memory.live = generation
        await self.drop()
        self._beside = None
        return taken

    async def drop(self) -> None:
        assert self._beside is not None, "the living index is not dropped"
        self.memory.beside.pop(self._beside, None)

    async def claim(self, *, seconds: float) -> bool:
        now, held = asyncio.get_running_loop().time(), self.memory.claim
        if held is not None and held[0] != self._owner and now < held[1]:
            return False
        self.memory.claim = self._owner, now + seconds
        return True

    async def release(self) -> None:
        if self.memory.claim is not None and self.memory.claim[0] == self._owner:
            self.memory.claim = None

    async def sweep(self, *, at_once: bool = False) -> int:
        beside = self.memory.beside
        gone = [one for one, seen in beside.items() if at_once or one.changes == seen]
        for generation in gone:
            del beside[generation]
        for generation in beside:
            beside[generation] = generation.changes
        return len(gone)
