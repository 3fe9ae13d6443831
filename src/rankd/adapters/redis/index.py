"""RankIndex in Redis or Valkey, shared by several nodes.

Every node may fold. When several make the same apply, one is first and the others get the same
reply: Redis remembers the last applies, their replies and the previous entries. So a node can still
compute the receipts of its facts when another node has folded them.

The ledger is the truth, not the index. A Redis that was emptied, or restored from an older copy,
has a lower checkpoint, which every reply includes; the folding node continues from there.
"""

import asyncio
import hashlib
import logging
import secrets
import sys
from array import array
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from types import MappingProxyType
from typing import ClassVar, NamedTuple, TypeVar

import msgspec

from rankd.adapters.redis.bulk_load import copy
from rankd.adapters.redis.client import RedisAddress, RedisClient
from rankd.adapters.redis.doctor import spread
from rankd.adapters.redis.generations import EPOCH_TRIES, GenerationGone, Generations, Partitions
from rankd.adapters.redis.protocol import Generation, is_draft, private, private_board
from rankd.adapters.redis.reads import (
    IndexPosition,
    PartitionReader,
    PartitionsTorn,
    PositionForgotten,
    PositionsDiffer,
    place_of,
)
from rankd.adapters.redis.writes import NOTHING_KNOWN, Apply, ApplyRequest, KnownEntries
from rankd.errors import IndexForgot, IndexUnavailable, InvalidSetting
from rankd.model.facts import Position
from rankd.model.order import score_part
from rankd.model.standing import Offset, Rank
from rankd.ports import (
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

T = TypeVar("T")

READ_TRIES = 6
"""Times that a read is repeated because the partitions advance too fast for it."""

RANKS_TOGETHER_MAX = 512
"""Ranks per call, of those requested in the same iteration of the event loop."""

RANK_CALLS_MAX = 3
"""Concurrent calls of this kind; requests made meanwhile are gathered for the next one."""

CHECK_SECONDS = 30.0
"""Interval of the server checks: the operator may have reconfigured it."""

RANKS_WAITING_MAX = 100_000
"""Rank requests that may wait in one process."""

DIGEST_BLOCK_ENTRIES = 4096
"""Entries per block of a digest; part of its definition, here and in the native index."""

_NOTHING: Mapping[Ranking, RankingShape] = MappingProxyType({})
_NO_DRAFTS: Mapping[Ranking, Ranking] = MappingProxyType({})
_CLOSED = IndexUnavailable("the index was closed while it was asked")
_log = logging.getLogger(__name__)


class _RankRequest(NamedTuple):
    """A rank request, with its callback."""

    ranking: Ranking
    player: str
    tell: Callable[[Ranked | BaseException | None], None]


class RedisIndex:
    """RankIndex in Redis, made by ``RedisIndex.open``."""

    immediate: ClassVar[bool] = False
    judges: ClassVar[bool] = False
    shared: ClassVar[bool] = True

    def __init__(
        self,
        link: RedisClient,
        generation: Generation,
        *,
        lives: bool = True,
        replica: bool = False,
    ) -> None:
        self.notes: list[str] = []
        """Warnings about this Redis, as sentences."""
        self._link = link
        self._generations = Generations(link)
        self._filling = Partitions(link, generation)
        self._lives = lives
        """Whether it follows the pointer; a generation that is being filled does not."""
        self._instead_of: Generation | None = None
        """The generation that this one is to replace."""
        self._moving = asyncio.Lock()
        self._replica = replica
        """Whether it reads from replicas: then it lags, and writes nothing."""
        self.replicas: RedisIndex | None = None
        """The same index read from replicas, if requested."""
        self._owner = secrets.token_hex(4)
        """Name under which this node's board rebuilds are stored, apart from those of other
        nodes."""
        self._staged: dict[Ranking, str] = {}
        """Rankings of its board rebuilds, with the generation they were staged in."""
        self._known = NOTHING_KNOWN
        """Result of the last ``order_keys``: mostly an apply of the same entries follows."""
        self._check_at = 0.0
        """Time of the next server check, by the loop's clock."""
        self._wanted: deque[_RankRequest] = deque()
        self._gathering = False
        self._calls: set[asyncio.Task[Sequence[Ranked | None]]] = set()

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str, *, replica_reads: bool = False) -> "AsyncIterator[RedisIndex]":
        """Connect to the live index at a URL (`RedisAddress`); begin one if there is none.

        With ``replica_reads`` the index has ``replicas``, which reads from the replicas of a
        sentinel service or cluster, as of the position they have reached. Raises InvalidSetting if
        that Redis is unfit for an index, IndexUnavailable.
        """
        link = RedisClient(RedisAddress.read(url), replica_reads=replica_reads)
        try:
            notes = await link.check()
            index = cls(link, await Generations(link).living())
            if replica_reads:
                index.replicas = cls(link, index._filling.generation, replica=True)
            index._note(notes)
            index._check_at = asyncio.get_running_loop().time() + CHECK_SECONDS
            try:
                yield index
            finally:
                for one in (index, index.replicas):
                    if one is not None:
                        await one._finish()
        finally:
            await link.close()

    def _note(self, notes: Sequence[str]) -> None:
        """Store the warnings, and log those that are new."""
        differs = spread(self._filling.count, self._link.address.partitions)
        noted = [*notes, differs] if differs else list(notes)
        for note in noted:
            if note not in self.notes:
                _log.warning("%s: %s", self._link.address, note)
        self.notes = noted

    async def look_again(self) -> None:
        """Follow the pointer, and check the server when due, or at once after a lost connection.

        The address may be another server after that. Problems found now become warnings, not
        errors.
        """
        await self._follow_pointer()
        now = asyncio.get_running_loop().time()
        if not self._link.lost and now < self._check_at:
            return
        self._link.lost, self._check_at = False, now + CHECK_SECONDS
        try:
            self._note(await self._link.check())
        except InvalidSetting as exc:
            self._note([f"this Redis {exc.problem}"])
        except IndexUnavailable:
            self._link.lost = True
            raise

    async def _follow_pointer(self) -> None:
        """Leave a generation that is no longer live, even if all of it still exists.

        A missing pointer was evicted, perhaps with other keys, so a new generation is begun.
        """
        filling = self._filling
        if await self._generations.pointed() != filling.generation:
            await self._move_on(filling)

    async def belongs(self, ledger: str) -> bool:
        """Record the ledger this index is built from; False if it is built from another."""
        return await self._generations.belong(ledger)

    async def _finish(self) -> None:
        """Cancel the calls under way, and drop board rebuilds that were not adopted."""
        while self._wanted:
            _fail(self._wanted.popleft(), _CLOSED)
        for call in list(self._calls):
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)
        try:
            if self._staged:
                await self.stage([], dropped=list(self._staged))
        except IndexUnavailable as exc:
            _log.warning("drafts were left behind, which a sweep will not find: %s", exc)

    # --------------------------------------------------------------------------- generations

    async def _on_living(self, call: Callable[[Partitions], Awaitable[T]]) -> T:
        """Call with the live generation; if it is gone, follow the pointer and call again."""
        for _ in range(EPOCH_TRIES):
            filling = self._filling
            try:
                return await call(filling)
            except GenerationGone:
                await self._move_on(filling)
            except PositionsDiffer:
                continue  # Reads of a rebuilt ranking during an apply, which does not change it.
        raise IndexUnavailable(f"{self._link.address}: the index does not stand still")

    async def _move_on(self, gone: Partitions) -> None:
        async with self._moving:
            if self._filling is not gone:
                return  # Another task did while this one waited.
            if not self._lives:
                raise IndexUnavailable("the index that was being filled is gone: begin again")
            living = await self._generations.pointed()
            if self._replica and (living is None or living == gone.generation):
                raise IndexUnavailable(f"{self._link.address}: a replica lacks the index")
            if living is None or living == gone.generation:
                living = await self._generations.replace(living)
                if living != gone.generation:
                    await self._generations.drop(gone.generation)
            self._enter(living)

    def _enter(self, generation: Generation) -> None:
        self._filling = Partitions(self._link, generation)
        self._known = NOTHING_KNOWN

    async def beside(self) -> "RedisIndex":
        """Return an empty index beside the live one, to be filled, compared, or to take over."""
        living = self._filling.generation
        index = RedisIndex(self._link, await self._generations.begin(), lives=False)
        index._instead_of = living
        index.notes = list(self.notes)
        return index

    async def fill(self, source: RankIndex) -> AsyncIterator[Progress]:
        """Copy all rankings and the checkpoint of an index, which must not change meanwhile.

        Only into an empty index made with ``beside``.
        """
        assert not self._lives, "the living index is not filled: fill one beside it"
        try:
            async for progress in copy(source, self._filling):
                yield progress
        except GenerationGone:
            raise IndexUnavailable("the index that was being filled is gone: begin again") from None
        if at := await source.checkpoint():
            assert await self.apply([], after=Position(0), through=at) is not None

    async def take_over(self) -> bool:
        """Make this index live instead of the one it was made beside, for all nodes at once.

        The old one is dropped, a few keys per call. Returns False if it was not live any more,
        because another took its place: then this one is dropped.
        """
        assert not self._lives, "this index lives already"
        old, new = self._instead_of, self._filling.generation
        assert old is not None, "it was made beside another"
        living = await self._generations.point(of=old, to=new)
        taken = living == new
        await self._generations.drop(old if taken else new)
        self._lives = True
        self._enter(living)
        return taken

    async def drop(self) -> None:
        """Delete an index made beside the live one that is not to take over."""
        assert not self._lives, "the living index is not dropped"
        await self._generations.drop(self._filling.generation)

    async def claim(self, *, seconds: float) -> bool:
        """Take or renew this node's lease to rebuild the index; False if another node has it."""
        return await self._generations.claim(self._owner, seconds=seconds)

    async def release(self) -> None:
        """Give the lease up."""
        await self._generations.release(self._owner)

    async def sweep(self, *, at_once: bool = False) -> int:
        """Drop generations left behind by crashed rebuilds; return their number.

        One that has grown since the last sweep may still be being filled: it is skipped unless
        ``at_once``.
        """
        return len(await self._generations.sweep(at_once=at_once))

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
        assert through > after, f"an apply after {after} leads past it, not to {through}"
        for ranking in (*opened, *dropped, *{move.ranking for move in moves}):
            assert not is_draft(ranking), f"{ranking} is a draft, which is staged"
        work = ApplyRequest(moves, opened, dropped, self._drafts(adopted))
        known = self._known

        async def make(filling: Partitions) -> list[Moved] | None:
            if not self._are_here(adopted, filling):
                raise IndexForgot(position=after, checkpoint=after)
            applying = Apply(filling, work, after=after, through=through)
            moved = await applying.apply(known)
            if moved is not None and adopted:
                if applying.repeated:  # Another node's rebuild was adopted; drop this node's.
                    await self._stage(filling, ApplyRequest([], {}, list(work.adopted), {}))
                for draft in adopted:
                    self._staged.pop(draft, None)
            return moved

        return await self._on_living(make)

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
        for ranking in (*opened, *dropped, *{move.ranking for move in moves}):
            assert is_draft(ranking), f"{ranking} is no draft, and is not staged"
        owner = self._owner
        work = ApplyRequest(
            [move._replace(ranking=private(move.ranking, owner)) for move in moves],
            {private(ranking, owner): shape for ranking, shape in opened.items()},
            [private(ranking, owner) for ranking in dropped],
            {},
        )
        staged = {move.ranking for move in moves} - set(opened)

        async def make(filling: Partitions) -> list[Moved]:
            if not self._are_here(staged, filling):
                raise IndexUnavailable("a draft is gone with the index it was staged in")
            moved = await self._stage(filling, work)
            self._staged |= dict.fromkeys(opened, filling.generation.id)
            for ranking in dropped:
                self._staged.pop(ranking, None)
            return moved

        return await self._on_living(make)

    @staticmethod
    async def _stage(filling: Partitions, work: ApplyRequest) -> list[Moved]:
        moved = await Apply(filling, work, after=None, through=0).apply()
        assert moved is not None, "staging waits for no turn"
        return moved

    def _drafts(self, adopted: Mapping[Ranking, Ranking]) -> dict[Ranking, Ranking]:
        for draft, name in adopted.items():
            assert is_draft(draft), f"{draft} is no draft"
            assert not is_draft(name), f"{name} is the name of a draft"
        assert len(set(adopted.values())) == len(adopted), "two drafts adopted as one ranking"
        return {private(draft, self._owner): name for draft, name in adopted.items()}

    def _are_here(
        self, drafts: "Mapping[Ranking, Ranking] | set[Ranking]", filling: Partitions
    ) -> bool:
        """Whether rankings are in the generation they were staged in: another may be live since."""
        here = filling.generation.id
        return all(self._staged.get(draft, here) == here for draft in drafts)

    # -------------------------------------------------------------------------- reading

    async def _read(self, call: Callable[[PartitionReader], Awaitable[T]]) -> T:
        """Read; repeat a few times if the partitions advance too fast."""

        async def make(filling: Partitions) -> T:
            for turn in range(READ_TRIES):
                try:
                    return await call(PartitionReader(filling, replica=self._replica))
                except (PositionsDiffer, PartitionsTorn):
                    pass
                if turn == READ_TRIES - 2:
                    await self._look(filling)  # The partitions may be torn.
            raise IndexUnavailable(
                f"{self._link.address}: the partitions of the index moved on too fast to be read"
            )

        return await self._on_living(make)

    async def _look(self, filling: Partitions) -> IndexPosition:
        """Return the position of the index; replace an index whose partitions are torn."""
        try:
            return await PartitionReader(filling, replica=self._replica).whereabouts()
        except PartitionsTorn:
            if self._lives and not self._replica:
                _log.warning(
                    "%s: the partitions of the index have fallen apart; it is filled anew",
                    self._link.address,
                )
                await self._generations.replace(filling.generation)
            raise GenerationGone from None

    async def checkpoint(self) -> Position:
        return (await self._on_living(self._look)).position

    async def unfinished(self) -> tuple[Position, Position] | None:
        return (await self._on_living(self._look)).unfinished

    async def order_keys(
        self, entries: Sequence[tuple[Ranking, str]], at: Position | None = None
    ) -> Sequence[bytes | None]:
        places = [(private(ranking, self._owner), player) for ranking, player in entries]
        try:
            found = await self._read(lambda reading: reading.entries(places, shown=False, at=at))
        except PositionForgotten as exc:
            assert at is not None
            raise IndexForgot(position=at, checkpoint=exc.at) from None
        keys = [None if entry is None else entry.order_key for entry in found.entries]
        self._known = KnownEntries(
            found.at, dict(zip(places, keys, strict=True)), found.shapes, found.quiet
        )
        return keys

    async def step_after(self, position: Position) -> Position | None:
        try:
            steps = await self._read(lambda reading: reading.followers(position))
        except PositionForgotten as exc:
            raise IndexForgot(position=position, checkpoint=exc.at) from None
        if len(steps) > 1:
            raise IndexUnavailable(f"{self._link.address}: the partitions do not fit together")
        return Position(next(iter(steps))[0]) if steps else None

    async def metadata(
        self, entries: Sequence[tuple[Ranking, str]], at: Position | None = None
    ) -> Sequence[bytes | None]:
        places = [(private(ranking, self._owner), player) for ranking, player in entries]
        try:
            found = await self._read(lambda reading: reading.entries(places, shown=True, at=at))
        except PositionForgotten as exc:
            assert at is not None
            raise IndexForgot(position=at, checkpoint=exc.at) from None
        return [None if entry is None else entry.metadata for entry in found.entries]

    async def rank(
        self, ranking: Ranking, player: str, at: Position | None = None
    ) -> Ranked | None:
        if at is not None:
            return (await self.ranks(ranking, [player], at))[0]
        told: asyncio.Future[Ranked | None] = asyncio.get_running_loop().create_future()

        def tell(found: Ranked | BaseException | None) -> None:
            if told.done():
                return  # The caller was cancelled.
            if isinstance(found, BaseException):
                told.set_exception(found)
            else:
                told.set_result(found)

        if not self._want(_RankRequest(ranking, player, tell)):
            raise IndexUnavailable(f"{RANKS_WAITING_MAX} ranks are waited for already")
        return await told

    def ask_rank(
        self, ranking: Ranking, player: str, tell: Callable[[Ranked | None], None]
    ) -> bool:
        def tell_if_found(found: Ranked | BaseException | None) -> None:
            tell(None if isinstance(found, BaseException) else found)

        return self._want(_RankRequest(ranking, player, tell_if_found))

    def _want(self, wanted: _RankRequest) -> bool:
        """Queue a rank request for the next joint call; False if too many are waiting."""
        if len(self._wanted) >= RANKS_WAITING_MAX:
            return False
        self._wanted.append(wanted)
        if not self._gathering and len(self._calls) < RANK_CALLS_MAX:
            self._gathering = True
            asyncio.get_running_loop().call_soon(self._ask_together)
        return True

    def _ask_together(self) -> None:
        """Send all rank requests of this iteration of the event loop."""
        self._gathering = False
        while self._wanted and len(self._calls) < RANK_CALLS_MAX:
            some = [
                self._wanted.popleft() for _ in range(min(len(self._wanted), RANKS_TOGETHER_MAX))
            ]
            call = asyncio.get_running_loop().create_task(self._ranks(some))
            self._calls.add(call)
            call.add_done_callback(partial(self._tell, some))

    async def _ranks(self, some: Sequence[_RankRequest]) -> Sequence[Ranked | None]:
        places = [(private(one.ranking, self._owner), one.player) for one in some]
        return await self._read(lambda reading: reading.ranks(places))

    def _tell(
        self, some: Sequence[_RankRequest], call: "asyncio.Task[Sequence[Ranked | None]]"
    ) -> None:
        """Answer the requests of a call. Runs even if the call is cancelled before it begins."""
        self._calls.discard(call)
        failure = _CLOSED if call.cancelled() else call.exception()
        if failure is None:
            for one, ranked in zip(some, call.result(), strict=True):
                _tell(one, ranked)
        else:
            for one in some:
                _fail(one, failure)
        if self._wanted:
            self._ask_together()

    async def ranks(
        self, ranking: Ranking, players: Sequence[str], at: Position | None = None
    ) -> Sequence[Ranked | None]:
        there = private(ranking, self._owner)
        wanted = [(there, one) for one in players]
        return await self._as_of(at, lambda reading: reading.ranks(wanted, at))

    async def count(self, ranking: Ranking, at: Position | None = None) -> int:
        there = private(ranking, self._owner)
        return await self._as_of(at, lambda reading: reading.total(there, at))

    def player_ids(self, count: int) -> Iterator[Sequence[str]]:
        """Yield nothing: entries are spread over as many hashes as there are rankings."""
        del count
        return iter(())

    async def count_below(
        self, ranking: Ranking, order_key: bytes, player: str = "", at: Position | None = None
    ) -> Offset:
        there, place = private(ranking, self._owner), place_of(order_key, player)
        return await self._as_of(at, lambda reading: reading.count_below(there, place, at))

    async def scores_below(
        self, ranking: Ranking, order_key: bytes, at: Position | None = None
    ) -> Offset:
        there, score = private(ranking, self._owner), score_part(order_key)
        return await self._as_of(at, lambda reading: reading.scores_below(there, score, at))

    async def read(
        self, ranking: Ranking, *, first: Rank, limit: int, at: Position | None = None
    ) -> EntryRange:
        there = private(ranking, self._owner)
        return await self._as_of(at, lambda reading: reading.page(there, first - 1, limit, at))

    async def _as_of(
        self, at: Position | None, call: Callable[[PartitionReader], Awaitable[T]]
    ) -> T:
        """Read as of a position, if it is remembered. Raises IndexForgot."""

        async def ask(reading: PartitionReader) -> T:
            try:
                return await call(reading)
            except PositionsDiffer:
                if at is None:
                    raise
                raise PositionForgotten(at) from None

        try:
            return await self._read(ask)
        except PositionForgotten as exc:
            raise IndexForgot(position=at or 0, checkpoint=exc.at) from None

    def free_dropped(self) -> bool:
        return False  # Applies and sweeps free them.

    async def rankings(self, board: str) -> Sequence[Ranking]:
        there = private_board(board, self._owner)
        found = await self._read(lambda reading: reading.rankings(there))
        return [Ranking(board, ranking.window, ranking.segment) for ranking in found]

    async def shapes(self) -> Mapping[Ranking, RankingShape]:
        async def ask(reading: PartitionReader) -> Mapping[Ranking, RankingShape]:
            return await reading.shapes((await reading.whereabouts()).position)

        found = await self._read(ask)
        return {ranking: shape for ranking, shape in found.items() if not is_draft(ranking)}

    # --------------------------------------------------------------------------- digest

    async def digest(self) -> bytes:
        """Return a digest that is equal for two indexes that folded the same facts. O(n).

        It is the native index's digest. Raises IndexUnavailable if the index meanwhile advances
        further than it remembers.
        """
        return await self._read(self._digest)

    async def _digest(self, reading: PartitionReader) -> bytes:
        digest = hashlib.sha256()
        at = (await reading.whereabouts()).position
        shapes = await reading.shapes(at)
        for ranking in sorted(shapes, key=_by_name):
            if is_draft(ranking):
                continue
            entries = await reading.everybody(ranking, at)
            if ranking.segment is not None and not entries:
                continue
            for part in _parts(ranking, shapes[ranking], entries):
                digest.update(len(part).to_bytes(8, "little"))
                digest.update(part)
        return digest.digest()


def _parts(
    ranking: Ranking, shape: RankingShape, entries: Sequence[tuple[bytes, bytes | None]]
) -> "list[bytes]":
    """Return a ranking's bytes, as adapters/memory/index_state.py has them."""
    width = shape.key_bytes
    parts = [msgspec.json.encode((ranking, shape, len(entries)))]
    any_beside = any(beside is not None for _, beside in entries)
    for start in range(0, len(entries), DIGEST_BLOCK_ENTRIES):
        block = entries[start : start + DIGEST_BLOCK_ENTRIES]
        lengths = array("H", [len(place) - width for place, _ in block])
        if sys.byteorder == "big":
            lengths.byteswap()
        parts.append(b"".join(place[:width] for place, _ in block))
        parts.append(lengths.tobytes())
        parts.append(b"".join(place[width:] for place, _ in block))
        if any_beside:
            shown = [(at, one) for at, (_, one) in enumerate(block) if one is not None]
            parts.append(msgspec.msgpack.encode(shown))
    return parts


def _by_name(ranking: Ranking) -> tuple[str, str, bool, str]:
    return ranking.board, ranking.window, ranking.segment is not None, ranking.segment or ""


def _fail(wanted: _RankRequest, exc: BaseException) -> None:
    """Fail one request, with an error of its own so that tracebacks do not mix."""
    if isinstance(exc, IndexUnavailable):
        exc = IndexUnavailable(exc.problem)
    _tell(wanted, exc)


def _tell(wanted: _RankRequest, told: Ranked | BaseException | None) -> None:
    """Call a request's callback. An error in one must not leave the others waiting."""
    try:
        wanted.tell(told)
    except Exception:
        _log.exception("somebody could not be told a rank")
