"""The index in Redis or Valkey: a RankIndex that several nodes share.

Every node may fold. Of those that make the same apply one is first, and the others get its answer:
Redis remembers the last applies, what they answered and how entries were before them. So a node
whose facts another has folded can still tell its receipts.

Nothing here is the truth. A Redis that was emptied, or fell back to an older copy of itself, has
a lower checkpoint, and says so with every answer; whoever folds goes on from there.
"""

import asyncio
import hashlib
import logging
import secrets
import sys
from array import array
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import ClassVar, NamedTuple, TypeVar

import msgspec

from rankd.adapters.redis.address import Address
from rankd.adapters.redis.applying import NOTHING_KNOWN, Applying, Known, Work
from rankd.adapters.redis.copying import copy
from rankd.adapters.redis.epoch import EPOCH_TRIES, Epochs
from rankd.adapters.redis.filling import EpochGone, Filling
from rankd.adapters.redis.link import Link
from rankd.adapters.redis.names import Epoch, is_draft, private, private_board
from rankd.adapters.redis.reading import Forgotten, Reading, Torn, Unsettled, Whereabouts
from rankd.adapters.redis.tally import place_of
from rankd.errors import IndexForgot, IndexUnavailable
from rankd.model.facts import Position
from rankd.model.order import score_part
from rankd.model.standing import Offset, Rank
from rankd.ports import Move, Moved, Ranked, RankIndex, Ranking, Run, Shape, Stretch, Verdicts

T = TypeVar("T")

READ_TRIES = 6
"""How often a read begins anew while the partitions move on too fast for it."""

RANKS_TOGETHER_MAX = 512
"""How many ranks are asked for in one call, of those that were wanted in the same turn."""

RANK_CALLS_MAX = 3
"""How many such calls are under way at once; what is wanted meanwhile gathers for the next."""

RANKS_WAITING_MAX = 100_000
"""How many ranks may be waited for in one process."""

DIGEST_BLOCK_ENTRIES = 4096
"""Part of what a digest means, here and in the native index."""

_NOTHING: Mapping[Ranking, Shape] = MappingProxyType({})
_NO_DRAFTS: Mapping[Ranking, Ranking] = MappingProxyType({})
_CLOSED = IndexUnavailable("the index was closed while it was asked")
_log = logging.getLogger(__name__)


class _Wanted(NamedTuple):
    """A rank somebody waits for."""

    ranking: Ranking
    player: str
    told: "asyncio.Future[Ranked | None]"


class RedisIndex:
    """A RankIndex in Redis. ``RedisIndex.open`` makes one."""

    immediate: ClassVar[bool] = False
    judges: ClassVar[bool] = False
    shared: ClassVar[bool] = True

    def __init__(
        self, link: Link, epoch: Epoch, *, lives: bool = True, replica_reads: bool = False
    ) -> None:
        self.notes: list[str] = []
        """What is worth knowing of this Redis, in sentences."""
        self._link = link
        self._epochs = Epochs(link)
        self._filling = Filling(link, epoch)
        self._lives = lives
        """Whether it follows the pointer; one that is being filled beside it does not."""
        self._moving = asyncio.Lock()
        self._replica_reads = replica_reads
        self._owner = secrets.token_hex(4)
        """What its drafts are called by: other nodes make their own."""
        self._staged: dict[Ranking, str] = {}
        """Its drafts, and in which epoch they are."""
        self._known = NOTHING_KNOWN
        """What ``order_keys`` told last: an apply mostly follows that moves just those entries."""
        self._wanted: deque[_Wanted] = deque()
        self._gathering = False
        self._calls: set[asyncio.Task[None]] = set()

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str, *, replica_reads: bool = False) -> "AsyncIterator[RedisIndex]":
        """Connect to the living index at a URL (address.py), and begin one if there is none.

        With ``replica_reads`` sentinels and clusters answer reads from replicas, as of what those
        have reached. Raises InvalidSetting where that Redis cannot keep an index, IndexUnavailable.
        """
        link = Link(Address.read(url), replica_reads=replica_reads)
        try:
            notes = await link.check()
            index = cls(link, await Epochs(link).living(), replica_reads=replica_reads)
            partitions = index._filling.count
            if partitions != link.address.partitions:
                notes.append(
                    f"the index has {partitions} partitions, not {link.address.partitions}: a "
                    "rebuilt one will"
                )
            index.notes = notes
            try:
                yield index
            finally:
                await index._finish()
        finally:
            await link.close()

    async def _finish(self) -> None:
        """Break off what is under way, and take back drafts that nobody adopted."""
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

    # --------------------------------------------------------------------------- epochs

    async def _on_living(self, call: Callable[[Filling], Awaitable[T]]) -> T:
        """Call, and where the epoch is gone follow to the one that took its place."""
        for _ in range(EPOCH_TRIES):
            filling = self._filling
            try:
                return await call(filling)
            except EpochGone:
                await self._move_on(filling)
            except Unsettled:
                continue  # A draft's entries, while others apply: they do not change by that.
        raise IndexUnavailable(f"{self._link.address}: the index does not stand still")

    async def _move_on(self, gone: Filling) -> None:
        async with self._moving:
            if self._filling is not gone:
                return  # Somebody did while we waited.
            if not self._lives:
                raise IndexUnavailable("the index that was being filled is gone: begin again")
            living = await self._epochs.pointed()
            if living is None or living == gone.epoch:
                living = await self._epochs.replace(living)
            self._enter(living)

    def _enter(self, epoch: Epoch) -> None:
        self._filling = Filling(self._link, epoch)
        self._known = NOTHING_KNOWN

    async def beside(self) -> "RedisIndex":
        """Return an empty index beside the living one, to be filled, compared, or to take over."""
        index = RedisIndex(self._link, await self._epochs.begin(), lives=False)
        index.notes = list(self.notes)
        return index

    async def fill(self, source: RankIndex, shapes: Mapping[Ranking, Shape]) -> None:
        """Copy rankings of an index that stands still meanwhile, and its checkpoint.

        Only into one that was made ``beside`` another and is empty.
        """
        assert not self._lives, "the living index is not filled: fill one beside it"
        try:
            at = await copy(source, shapes, self._filling)
        except EpochGone:
            raise IndexUnavailable("the index that was being filled is gone: begin again") from None
        if at:
            assert await self.apply([], after=Position(0), through=at) is not None

    async def take_over(self, *, of: "RedisIndex") -> bool:
        """Let this index live in the place of another, for all nodes at once.

        The other is dropped, a little at a time. False if it does not live any more: then this
        one is dropped.
        """
        assert not self._lives, "this index lives already"
        old = of._filling.epoch
        living = await self._epochs.point(of=old, to=self._filling.epoch)
        taken = living == self._filling.epoch
        await self._epochs.drop(old if taken else self._filling.epoch)
        self._lives = True
        self._enter(living)
        return taken

    async def drop(self) -> None:
        """Forget an index beside the living one, which is not to take over."""
        assert not self._lives, "the living index is not dropped"
        await self._epochs.drop(self._filling.epoch)

    async def sweep(self, *, at_once: bool = False) -> int:
        """Drop what crashed rebuilds left behind; return how many there were.

        One that has moved since the last sweep is left alone, for it may still be filled, unless
        it is to be done ``at_once``.
        """
        return len(await self._epochs.sweep(at_once=at_once))

    # -------------------------------------------------------------------------- writing

    async def apply(
        self,
        moves: Sequence[Move],
        *,
        after: Position,
        through: Position,
        opened: Mapping[Ranking, Shape] = _NOTHING,
        dropped: Sequence[Ranking] = (),
        adopted: Mapping[Ranking, Ranking] = _NO_DRAFTS,
    ) -> Sequence[Moved] | None:
        assert through > after, f"an apply after {after} leads past it, not to {through}"
        for ranking in (*opened, *dropped, *{move.ranking for move in moves}):
            assert not is_draft(ranking), f"{ranking} is a draft, which is staged"
        work = Work(moves, opened, dropped, self._drafts(adopted))
        known = self._known

        async def make(filling: Filling) -> list[Moved] | None:
            self._expect_here(adopted, filling)
            applying = Applying(filling, work, after=after, through=through)
            moved = await applying.apply(known)
            if moved is not None and adopted:
                if applying.repeated:  # Another's drafts were adopted, and ours are in the way.
                    await self._stage(filling, Work([], {}, list(work.adopted), {}))
                for draft in adopted:
                    self._staged.pop(draft, None)
            return moved

        return await self._on_living(make)

    async def judge(
        self, runs: Sequence[Run], *, after: Position, through: Position
    ) -> Sequence[Sequence[Verdicts]] | None:
        raise AssertionError("this index does not judge")

    async def stage(
        self,
        moves: Sequence[Move],
        *,
        opened: Mapping[Ranking, Shape] = _NOTHING,
        dropped: Sequence[Ranking] = (),
    ) -> Sequence[Moved]:
        for ranking in (*opened, *dropped, *{move.ranking for move in moves}):
            assert is_draft(ranking), f"{ranking} is no draft, and is not staged"
        owner = self._owner
        work = Work(
            [move._replace(ranking=private(move.ranking, owner)) for move in moves],
            {private(ranking, owner): shape for ranking, shape in opened.items()},
            [private(ranking, owner) for ranking in dropped],
            {},
        )
        staged = {move.ranking for move in moves} - set(opened)

        async def make(filling: Filling) -> list[Moved]:
            self._expect_here(staged, filling)
            moved = await self._stage(filling, work)
            self._staged |= dict.fromkeys(opened, filling.epoch.id)
            for ranking in dropped:
                self._staged.pop(ranking, None)
            return moved

        return await self._on_living(make)

    @staticmethod
    async def _stage(filling: Filling, work: Work) -> list[Moved]:
        moved = await Applying(filling, work, after=None, through=0).apply()
        assert moved is not None, "staging waits for no turn"
        return moved

    def _drafts(self, adopted: Mapping[Ranking, Ranking]) -> dict[Ranking, Ranking]:
        for draft, name in adopted.items():
            assert is_draft(draft), f"{draft} is no draft"
            assert not is_draft(name), f"{name} is the name of a draft"
        assert len(set(adopted.values())) == len(adopted), "two drafts adopted as one ranking"
        return {private(draft, self._owner): name for draft, name in adopted.items()}

    def _expect_here(
        self, drafts: "Mapping[Ranking, Ranking] | set[Ranking]", filling: Filling
    ) -> None:
        """Make sure that drafts are still where they were staged."""
        for draft in drafts:
            if self._staged.get(draft, filling.epoch.id) != filling.epoch.id:
                raise IndexUnavailable(f"{draft.board!r} is gone with the index it was staged in")

    # -------------------------------------------------------------------------- reading

    async def _read(
        self, call: Callable[[Reading], Awaitable[T]], *, where_written: bool = False
    ) -> T:
        """Read, anew where the partitions moved on too fast for it; a few times.

        Who folds asks where is written, and is not told of the past.
        """

        async def make(filling: Filling) -> T:
            for turn in range(READ_TRIES):
                # A replica may be behind for long, and an epoch late; whom it follows is not.
                replica = self._replica_reads and not where_written and turn < READ_TRIES // 2
                try:
                    return await call(Reading(filling, replica=replica))
                except (Unsettled, Torn):
                    pass
                except EpochGone:
                    if not replica:
                        raise
                if turn == READ_TRIES - 2:
                    await self._look(filling)  # They may belong together no more.
            raise IndexUnavailable(
                f"{self._link.address}: the partitions of the index moved on too fast to be read"
            )

        return await self._on_living(make)

    async def _look(self, filling: Filling) -> Whereabouts:
        """Return where the index is; one whose parts do not fit together is replaced."""
        try:
            return await Reading(filling).whereabouts()
        except Torn:
            if self._lives:
                _log.warning(
                    "%s: the partitions of the index have fallen apart; it is filled anew",
                    self._link.address,
                )
                await self._epochs.replace(filling.epoch)
            raise EpochGone from None

    async def checkpoint(self) -> Position:
        return (await self._on_living(self._look)).position

    async def unfinished(self) -> tuple[Position, Position] | None:
        return (await self._on_living(self._look)).unfinished

    async def order_keys(
        self, entries: Sequence[tuple[Ranking, str]], at: Position | None = None
    ) -> Sequence[bytes | None]:
        places = [(private(ranking, self._owner), player) for ranking, player in entries]
        try:
            found = await self._read(
                lambda reading: reading.entries(places, shown=False, at=at), where_written=True
            )
        except Forgotten as exc:
            assert at is not None
            raise IndexForgot(position=at, checkpoint=exc.at) from None
        keys = [None if entry is None else entry.order_key for entry in found.entries]
        self._known = Known(
            found.at, dict(zip(places, keys, strict=True)), found.shapes, found.quiet
        )
        return keys

    async def metadata(self, entries: Sequence[tuple[Ranking, str]]) -> Sequence[bytes | None]:
        places = [(private(ranking, self._owner), player) for ranking, player in entries]
        found = await self._read(
            lambda reading: reading.entries(places, shown=True), where_written=True
        )
        return [None if entry is None else entry.metadata for entry in found.entries]

    async def rank(
        self, ranking: Ranking, player: str, at: Position | None = None
    ) -> Ranked | None:
        if at is not None:
            return (await self.ranks(ranking, [player], at))[0]
        if len(self._wanted) >= RANKS_WAITING_MAX:
            raise IndexUnavailable(f"{RANKS_WAITING_MAX} ranks are waited for already")
        loop = asyncio.get_running_loop()
        wanted = _Wanted(ranking, player, loop.create_future())
        self._wanted.append(wanted)
        if not self._gathering and len(self._calls) < RANK_CALLS_MAX:
            self._gathering = True
            loop.call_soon(self._ask_together)
        return await wanted.told

    def _ask_together(self) -> None:
        """Ask for all ranks that were wanted in this turn of the loop."""
        self._gathering = False
        while self._wanted and len(self._calls) < RANK_CALLS_MAX:
            some = [
                self._wanted.popleft() for _ in range(min(len(self._wanted), RANKS_TOGETHER_MAX))
            ]
            call = asyncio.get_running_loop().create_task(self._tell(some))
            self._calls.add(call)
            call.add_done_callback(self._told)

    def _told(self, call: "asyncio.Task[None]") -> None:
        self._calls.discard(call)
        if self._wanted:
            self._ask_together()

    async def _tell(self, some: Sequence[_Wanted]) -> None:
        places = [(private(one.ranking, self._owner), one.player) for one in some]
        try:
            found = await self._read(lambda reading: reading.ranks(places))
        except BaseException as exc:
            for one in some:
                _fail(one, exc)
            if not isinstance(exc, Exception):
                raise
            return
        for one, ranked in zip(some, found, strict=True):
            if not one.told.done():
                one.told.set_result(ranked)

    async def ranks(
        self, ranking: Ranking, players: Sequence[str], at: Position | None = None
    ) -> Sequence[Ranked | None]:
        there = private(ranking, self._owner)
        wanted = [(there, one) for one in players]
        return await self._as_of(at, lambda reading: reading.ranks(wanted, at))

    async def count(self, ranking: Ranking, at: Position | None = None) -> int:
        there = private(ranking, self._owner)
        return await self._as_of(at, lambda reading: reading.total(there, at))

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
    ) -> Stretch:
        there = private(ranking, self._owner)
        return await self._as_of(at, lambda reading: reading.page(there, first - 1, limit, at))

    async def _as_of(self, at: Position | None, call: Callable[[Reading], Awaitable[T]]) -> T:
        """Read as of a position, if it is remembered. Raises IndexForgot."""

        async def ask(reading: Reading) -> T:
            try:
                return await call(reading)
            except Unsettled:
                if at is None:
                    raise
                raise Forgotten(at) from None

        try:
            return await self._read(ask)
        except Forgotten as exc:
            raise IndexForgot(position=at or 0, checkpoint=exc.at) from None

    async def rankings(self, board: str) -> Sequence[Ranking]:
        there = private_board(board, self._owner)
        found = await self._read(lambda reading: reading.rankings(there), where_written=True)
        return [Ranking(board, ranking.window, ranking.segment) for ranking in found]

    # --------------------------------------------------------------------------- digest

    async def digest(self) -> bytes:
        """Return what two indexes that folded the same facts have in common. O(n).

        It is the native index's digest. Raises IndexUnavailable if the index moves on meanwhile
        further than it remembers.
        """
        return await self._read(self._digest, where_written=True)

    async def _digest(self, reading: Reading) -> bytes:
        digest = hashlib.sha256()
        at = (await reading.whereabouts()).position
        shapes = await reading.shapes(at)
        for ranking in sorted(shapes, key=_by_name):
            if is_draft(ranking):
                continue
            entries = await reading.everybody(ranking, at)
            for part in _parts(ranking, shapes[ranking], entries):
                digest.update(len(part).to_bytes(8, "little"))
                digest.update(part)
        return digest.digest()


def _parts(
    ranking: Ranking, shape: Shape, entries: Sequence[tuple[bytes, bytes | None]]
) -> "list[bytes]":
    """Return a ranking's bytes, as adapters/memory/state.py has them."""
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


def _fail(wanted: _Wanted, exc: BaseException) -> None:
    """Tell one who waits: each gets an error of its own, with its own traceback."""
    if wanted.told.done():
        return
    if isinstance(exc, IndexUnavailable):
        exc = IndexUnavailable(exc.problem)
    elif not isinstance(exc, Exception):
        exc = IndexUnavailable(_CLOSED.problem)
    wanted.told.set_exception(exc)
