"""An overlay answers as an index that really holds its entries.

Method: a random ranking and random changes of it; one index with the ranking as it was, under an
overlay, and another of the same kind with the changes made. Every read of a reader is asked of
both. Few scores, so that ties and shared scores are the rule; bounds are made small, so that pages
are sought among the changes as they are among thousands.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple
from unittest import mock

import hypothesis.strategies as st
import msgspec
from hypothesis import given
from tests.unit.core.doubles import FarIndex, SetClock, engine

from rankd.adapters.memory.index import NativeIndex
from rankd.adapters.memory.ledger import MemoryLedger
from rankd.adapters.memory.shared_index import MemorySharedIndex, SharedMemory
from rankd.core import overlay as module
from rankd.core.overlay import EntryChange, Overlay
from rankd.core.projector import Projector
from rankd.core.reader import Page, Reader
from rankd.core.state import State
from rankd.errors import RankdError
from rankd.model.facts import Position
from rankd.model.order import Order
from rankd.model.standing import Absent, Rank
from rankd.ports import Move, Placed, RankIndex, Ranking

AT = Position(1_000_000)
"""Where both indexes are."""

COLUMNS: Sequence[Sequence[Mapping[str, object]]] = [
    [{"name": "a"}],
    [{"name": "a", "direction": "lower"}, {"name": "b", "direction": "higher"}],
    [{"name": "a"}, {"name": "b"}, {"name": "c", "direction": "lower"}],
]
NAMES = [f"p{number:03}" for number in range(320)] + ["é", "\uffff", "\U00010000", "p0010"]
Entries = Mapping[str, Placed]


class Case(NamedTuple):
    """A ranking before and after some changes."""

    state: State
    ranking: Ranking
    order: Order
    before: Entries
    after: Entries

    @property
    def changes(self) -> dict[str, EntryChange]:
        differing = self.before.items() ^ self.after.items()
        players = {player for player, _ in differing}
        return {one: EntryChange(self.before.get(one), self.after.get(one)) for one in players}


@cache
def state_of(ties: str, tie_break: str, columns: int) -> State:
    """Return a state with one board."""

    async def define() -> State:
        async with engine(MemoryLedger(), SetClock()) as rankd:
            definition = {
                "rule": "latest",
                "windows": ["all"],
                "ties": ties,
                "tie_break": tie_break,
                "columns": COLUMNS[columns],
                "segments": ["region"],
            }
            await rankd.define("b", definition)
            await rankd.profile("p001", {"friends": NAMES[:40:3], "name": "One"})
            return rankd.state

    return asyncio.run(define())


def case_of(state: State, segment: str | None, sizes: tuple[int, int], seed: int) -> Case:
    """Return a case with so many entries and changes."""
    chance = random.Random(seed)
    terms = state.boards["b"].windows["all"].terms
    window = state.boards["b"].windows["all"].ranking.window
    order = terms.order
    spread = chance.choice([1, 3, 30, 300])
    extremes = [-(2**63), 2**63 - 1] if chance.random() < 0.1 else []
    positions = iter(chance.sample(range(1, AT), sum(sizes)))

    def entry(player: str) -> Placed:
        scores = tuple(
            chance.choice([*extremes, chance.randrange(spread)]) for _ in order.directions
        )
        beside = chance.choice([None, None, b"{}", b'{"x": 1}'])
        return Placed(player, order.key(scores, Position(next(positions))), beside)

    names = chance.sample(NAMES, sizes[0])
    before = {player: entry(player) for player in names}
    after = dict(before)
    near = chance.random() < 0.3  # All of one stretch, else anywhere.
    pool = sorted(before, key=lambda player: before[player][1]) if near else NAMES
    start = chance.randrange(max(1, len(pool) - sizes[1] + 1))
    some = pool[start : start + sizes[1]] if near else chance.sample(NAMES, sizes[1])
    for player in some:
        known = before.get(player)
        if known is None or chance.random() < 0.4:
            after[player] = entry(player)
        elif chance.random() < 0.2:
            after[player] = known._replace(metadata=b"1")
        else:
            del after[player]
    return Case(state, Ranking("b", window, segment), order, before, after)


async def reader_over(index: RankIndex, case: Case, entries: Entries) -> Reader:
    """Return a reader of an index that gets some entries."""
    moves = [Move(case.ranking, *one) for one in entries.values()]
    shape = case.state.boards["b"].windows["all"].terms.shape
    opened = {case.ranking: shape} if moves or case.ranking.segment is None else {}
    await index.apply(moves, after=Position(0), through=AT, opened=opened)
    clock = SetClock()
    projector = Projector(
        ledger=MemoryLedger(), index=index, state=case.state, checkpoint=AT, at=clock.now()
    )
    return Reader(projector=projector, clock=clock)


Ask = Callable[[Reader], Awaitable[Any]]


async def outcome(asking: Awaitable[Any]) -> object:
    """Return an answer in a form to be compared, or the error."""
    try:
        answer = await asking
    except RankdError as exc:
        return repr(exc)
    return _plain(answer) if isinstance(answer, Page) else answer


def _plain(page: Page) -> object:
    """Return a page with its columns as lists: indexes differ in their types."""
    metadata = page.metadata if any(page.metadata or ()) else None
    columns = {
        "ranks": list(page.ranks),
        "players": list(page.players),
        "names": list(page.names),
        "metadata": None if metadata is None else list(metadata),
        "ordinals": None if page.ordinals is None else list(page.ordinals),
    }
    return msgspec.structs.asdict(page) | columns


def reads_of(case: Case, seed: int) -> list[Ask]:
    """Return reads of every kind, at places of every kind."""
    chance = random.Random(seed)
    total = len(case.after)
    segment = case.ranking.segment
    players = chance.sample(NAMES, 6) + chance.sample(
        sorted(case.changes), min(4, len(case.changes))
    )
    ranks = [1, max(total, 1), total + 1, *(chance.randint(1, total + 3) for _ in range(3))]
    limits = [1, 2, 7, 1000]
    whole: Any = {"segment": segment}

    def scores() -> tuple[int, ...]:
        entries = [*case.before.values(), *case.after.values()]
        if entries and chance.random() < 0.8:
            return case.order.scores(chance.choice(entries).order_key)
        return tuple(chance.randrange(-2, 40) for _ in case.order.directions)

    reads: list[Ask] = [
        lambda read: read.page("b", **whole, limit=1000),
        lambda read: read.count(case.ranking),
        lambda read: read.ranks("b", NAMES, **whole),
        lambda read: read.lookup("b", players, **whole),
        lambda read: read.lookup("b", ["nobody"], **whole),
        lambda read: read.friends("b", "p001", **whole),
        lambda read: read.around("b", "nobody", above=2, below=2, absent=Absent.TOP, **whole),
        lambda read: read.around("b", "nobody", above=2, below=2, absent=Absent.BOTTOM, **whole),
    ]
    for player in players:
        reads += [
            lambda read, player=player: read.standing("b", player, **whole),  # type: ignore[misc]
            lambda read, player=player: read.around(  # type: ignore[misc]
                "b", player, above=3, below=2, **whole
            ),
            lambda read, player=player: read.standings(player),  # type: ignore[misc]
        ]
    for rank in map(Rank, ranks):
        limit, percentile = chance.choice(limits), chance.choice([0.1, 50, 99.9, 100])
        wanted = scores()
        low, high = sorted((scores()[0], scores()[0]))
        reads += [
            lambda read, rank=rank, limit=limit: read.page(  # type: ignore[misc]
                "b", **whole, from_rank=rank, limit=limit
            ),
            lambda read, rank=rank: read.around_rank("b", rank, reach=2, **whole),  # type: ignore[misc]
            lambda read, rank=rank: read.scores_for("b", rank=rank, **whole),  # type: ignore[misc]
            lambda read, percentile=percentile: read.scores_for(  # type: ignore[misc]
                "b", percentile=percentile, **whole
            ),
            lambda read, wanted=wanted: read.rank_for("b", wanted, **whole),  # type: ignore[misc]
            lambda read, low=low, high=high, limit=limit, rank=rank: read.page(  # type: ignore[misc]
                "b", **whole, score_min=low, score_max=high, limit=limit, offset=rank - 1
            ),
        ]
    return reads


async def compare(overlaid: Reader, real: Reader, case: Case, seed: int) -> None:
    """Ask both everything, and follow the cursors of one by the other."""
    for number, ask in enumerate(reads_of(case, seed)):
        assert await outcome(ask(overlaid)) == await outcome(ask(real)), number
    limit = random.Random(seed).choice([1, 5, 40])
    cursor: str | None = None
    paged: list[str] = []
    while True:
        page = await overlaid.page("b", segment=case.ranking.segment, limit=limit, cursor=cursor)
        again = await real.page("b", segment=case.ranking.segment, limit=limit, cursor=cursor)
        assert _plain(page) == _plain(again)
        if page.prev_cursor is not None and len(paged) < 5 * limit:
            there = {"segment": case.ranking.segment, "limit": limit, "cursor": page.prev_cursor}
            assert await outcome(overlaid.page("b", **there)) == await outcome(  # type: ignore[arg-type]
                real.page("b", **there)  # type: ignore[arg-type]
            )
        paged += page.players
        cursor = page.next_cursor
        if cursor is None:
            break
    order = sorted(case.after.values(), key=lambda one: (one.order_key, one.player))
    assert paged == [one.player for one in order]


async def compare_index(view: Overlay, real: RankIndex, case: Case) -> None:
    """Compare the calls that a reader does not need."""
    places = [(case.ranking, player) for player in NAMES[::7]]
    for at in (None, AT):
        assert await view.order_keys(places, at) == await real.order_keys(places, at)
        assert await view.metadata(places, at) == await real.metadata(places, at)
    assert await view.checkpoint() == await real.checkpoint()
    if case.after:
        assert {*await view.rankings("b")} == {*await real.rankings("b")}
        there, expected = await view.shapes(), await real.shapes()
        assert there[case.ranking].key_bytes == expected[case.ranking].key_bytes


MAKE: Mapping[str, Callable[[], Any]] = {
    "native": NativeIndex,
    "shared": lambda: MemorySharedIndex(SharedMemory()),
    "far": FarIndex,
}

SIZES = st.one_of(
    st.tuples(st.integers(0, 8), st.integers(0, 6)),
    st.tuples(st.integers(0, 60), st.integers(0, 20)),
    st.tuples(st.integers(0, 300), st.integers(0, 50)),
)


@given(
    kind=st.sampled_from(sorted(MAKE)),
    ties=st.sampled_from(["ordinal", "standard", "dense"]),
    tie_break=st.sampled_from(["first", "latest", "player"]),
    columns=st.integers(0, len(COLUMNS) - 1),
    segment=st.sampled_from([None, "region:eu"]),
    sizes=SIZES,
    unplaced=st.sampled_from([1, 2, 5, module.UNPLACED_MAX]),
    seed=st.integers(0, 2**32),
)
def test_an_overlay_reads_as_an_index_with_its_entries(
    kind: str,
    ties: str,
    tie_break: str,
    columns: int,
    segment: str | None,
    sizes: tuple[int, int],
    unplaced: int,
    seed: int,
) -> None:
    case = case_of(state_of(ties, tie_break, columns), segment, sizes, seed)

    async def run() -> None:
        plain = await reader_over(MAKE[kind](), case, case.before)
        real = await reader_over(MAKE[kind](), case, case.after)
        view = Overlay(plain.projector.index, case.ranking, case.changes)
        over = Reader(projector=plain.projector, clock=SetClock(), index=view)
        await compare(over, real, case, seed)
        await compare_index(view, real.projector.index, case)

    with mock.patch.object(module, "UNPLACED_MAX", unplaced):
        asyncio.run(run())
