"""The index in Redis, under any history, answers what the native index answers.

Method: two nodes share an index in Redis; the native one beside them is the judge. Random applies
go to either node: moves, stays, leaves, rankings opened and dropped, drafts staged and adopted,
ranks counted in all three ways. Now and then the process dies within an apply, before or after any
of its scripts was taken; then every read still has to tell of the position before, and whoever
makes the apply again completes it and gets the judge's answer. After each step every answer is
compared, and how entries were before one of the last applies. Bounds are made small, so that
applies are cut, buckets split, pages searched for and memory forgotten all the time.

RANKD_HYPOTHESIS=long looks at many more histories. A third opinion is in test_three_indexes.py.
"""

import asyncio
import os
import random
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from itertools import count
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from rankd.adapters.memory.index import NativeIndex
from rankd.adapters.redis import RedisIndex, reads, writes
from rankd.adapters.redis.generations import Partitions
from rankd.adapters.redis.protocol import ScriptArgs, ScriptReply
from rankd.errors import IndexForgot
from rankd.model.facts import Position
from rankd.model.standing import Rank, TieRule
from rankd.ports import DRAFT, STAY, Move, Moved, RankIndex, Ranking, RankingShape
from rankd.testing.servers import RedisServer

PLAYERS = ["ann", "ann2", "bob", "cyd", "dee", "é", "\uffff", "\U00010000", *"fghijklmnop"]
RANKINGS = [Ranking("b", "w"), Ranking("b", "w", "region:eu"), Ranking("b", ""), Ranking("c", "w")]
DRAFTS = [Ranking(DRAFT + "b", "w"), Ranking(DRAFT + "c", "w")]
REMEMBERED = 5
LONG = os.environ.get("RANKD_HYPOTHESIS") == "long"
STEPS = 100 if LONG else 16
_prefixes = count(1)


class Died(Exception):
    """The process is gone."""


class Deaths:
    """Lets a process die at one of the scripts that it is about to send, or has just sent."""

    def __init__(self) -> None:
        self.left: int | None = None
        """How many scripts are taken before."""
        self.late = False
        """Whether the fatal one is taken, too."""

    async def write(self, filling: Partitions, partition: int, packed: ScriptArgs) -> ScriptReply:
        if self.left is None:
            return await _write(filling, partition, packed)
        if self.left > 0:
            self.left -= 1
            return await _write(filling, partition, packed)
        if self.late:
            self.late = False
            await _write(filling, partition, packed)
        raise Died


_write = Partitions.write


def few_keys(width: int) -> list[bytes]:
    """Neighbours, one score with several ties, and both ends."""
    scores = [(1, 0), (1, 1), (1, 2), (2, 0), (3, 0), (256, 0)]
    keys = [score.to_bytes(width - 8, "big") + tie.to_bytes(8, "big") for score, tie in scores]
    return [*keys, bytes(width), b"\xff" * width]


class History:
    """Both indexes, and what was done to them."""

    def __init__(self, nodes: Sequence[RedisIndex], deaths: Deaths, dice: random.Random) -> None:
        self.nodes, self.deaths, self.dice = nodes, deaths, dice
        self.judge = NativeIndex()
        self.shapes: dict[Ranking, RankingShape] = {}
        self.past: list[dict[tuple[Ranking, str], bytes | None]] = []
        """The entries before each apply, by position."""
        self.made: list[tuple[Any, Any, Sequence[Moved] | None]] = []

    def node(self) -> RedisIndex:
        return self.dice.choice(self.nodes)

    # -- what happens --

    async def step(self) -> None:
        match self.dice.randrange(10):
            case 0:
                await self.stage()
            case 1 if self.made:
                await self.repeat()
            case 2:
                await self.out_of_turn()
            case 3:
                await self.mistake()
            case _:
                await self.apply()

    async def apply(self) -> None:
        moves, rest = self.work()
        maker = self.node()
        if self.dice.random() < 0.5:  # As folding does; what it heard may be old by its next turn.
            await self.node().order_keys(list({(move.ranking, move.player) for move in moves}))
        adopted = rest["adopted"]
        if adopted:
            maker = self.nodes[0]  # Whoever made the drafts.
        before = await self.everything(self.judge)
        self.past.append(dict(before["keys"]))
        answer: Sequence[Moved] | None = None
        died = False
        if self.dice.random() < 0.5:
            self.deaths.left = self.dice.randrange(8)
            self.deaths.late = self.dice.random() < 0.5
        try:
            answer = await maker.apply(moves, **rest)
        except Died:
            died = True
        finally:
            self.deaths.left = None
        if died:
            await self.look_into_the_broken_one(before, rest)
            answer = await (maker if adopted else self.node()).apply(moves, **rest)
        expected = await self.judge.apply(moves, **rest)
        assert answer == expected
        self.made.append((moves, rest, expected))
        self.note(rest)

    async def look_into_the_broken_one(self, before: Mapping[str, Any], rest: Any) -> None:
        """Somebody died within an apply. It is as if nothing had been done, or all."""
        node = self.node()
        unfinished = await node.unfinished()
        position = await node.checkpoint()
        if unfinished is None:
            assert position in (rest["after"], rest["through"])
        else:
            assert (position, unfinished) == (rest["after"], (rest["after"], rest["through"]))
            other = await node.apply([], after=position, through=Position(position + 100))
            assert other is None
        if position == rest["after"]:
            assert await self.everything(node) == before

    async def stage(self) -> None:
        draft, dice = self.dice.choice(DRAFTS), self.dice
        shape = self.shapes.get(draft, RankingShape(dice.choice([16, 24]), dice.random() < 0.5))
        moves = self.moves([draft], {draft: shape})
        dropped = [draft] if dice.random() < 0.2 else []
        staged = await self.nodes[0].stage(moves, opened={draft: shape}, dropped=dropped)
        expected = await self.judge.stage(moves, opened={draft: shape}, dropped=dropped)
        assert list(staged) == list(expected)
        self.shapes[draft] = shape
        if dropped:
            del self.shapes[draft]

    async def repeat(self) -> None:
        """One that is remembered gets its answer again; one that is forgotten does not."""
        number = self.dice.randrange(max(0, len(self.made) - 2 * REMEMBERED), len(self.made))
        moves, rest, expected = self.made[number]
        remembered = number >= len(self.made) - REMEMBERED
        if rest["adopted"] and remembered:
            return
        assert await self.node().apply(moves, **rest) == (expected if remembered else None)

    async def out_of_turn(self) -> None:
        after = Position(await self.judge.checkpoint() + self.dice.randint(1, 3))
        assert await self.node().apply([], after=after, through=Position(after + 1)) is None

    async def mistake(self) -> None:
        """Found before anything is changed, however late in the apply it comes."""
        after, node = await self.judge.checkpoint(), self.node()
        there = [ranking for ranking in RANKINGS if ranking in self.shapes]
        good = self.moves(there, self.shapes) if there else []
        bad = [Move(Ranking("b", "never"), "ann", bytes(16))]
        if there:
            bad.append(Move(there[0], "ann", bytes(self.shapes[there[0]].key_bytes + 8)))
        with pytest.raises(AssertionError):
            await node.apply(
                [*good, self.dice.choice(bad)],
                after=after,
                through=Position(after + 1),
                opened={Ranking("b", "mistaken"): RankingShape(16, False)},
            )

    # -- made up --

    def work(self) -> tuple[list[Move], Any]:
        dice = self.dice
        opened = {
            ranking: RankingShape(dice.choice([16, 24]), dice.random() < 0.6)
            for ranking in RANKINGS
            if ranking not in self.shapes and dice.random() < 0.6
        }
        there = {ranking: self.shapes[ranking] for ranking in RANKINGS if ranking in self.shapes}
        staged = [draft for draft in DRAFTS if draft in self.shapes]
        adopted = {}
        if staged and dice.random() < 0.5:
            adopted = {dice.choice(staged): dice.choice(RANKINGS)}
        shapes = {**there, **opened}
        among = dice.sample(list(shapes), min(len(shapes), dice.randint(1, 3)))
        moves = self.moves(among, shapes) if among else []
        dropped = dice.sample(RANKINGS, dice.choice([0, 0, 0, 1]))
        after = Position(len(self.made))
        through = Position(after + 1)
        return moves, {
            "after": after,
            "through": through,
            "opened": opened,
            "dropped": dropped,
            "adopted": adopted,
        }

    def moves(self, among: Sequence[Ranking], shapes: Mapping[Ranking, RankingShape]) -> list[Move]:
        dice, moves = self.dice, []
        for _ in range(dice.choice([0, 1, 2, 5, 12])):
            ranking = dice.choice(among)
            keys = few_keys(shapes[ranking].key_bytes)
            ties = [TieRule.ORDINAL, TieRule.ORDINAL, TieRule.STANDARD]
            ties += [TieRule.DENSE] * shapes[ranking].dense
            key = dice.choice([None, STAY, *keys])
            metadata = dice.choice([None, None, b"", b"m", b"long" * 20])
            moves.append(Move(ranking, dice.choice(PLAYERS), key, metadata, dice.choice(ties)))
        return moves

    def note(self, rest: Any) -> None:
        self.shapes |= rest["opened"]
        for ranking in rest["dropped"]:
            self.shapes.pop(ranking, None)
        for draft, name in rest["adopted"].items():
            self.shapes[name] = self.shapes.pop(draft)

    # -- compared --

    async def compare(self) -> None:
        node = self.node()
        assert await self.everything(node) == await self.everything(self.judge)
        assert await node.digest() == self.judge.digest()
        for draft in DRAFTS:
            page = await self.nodes[0].read(draft, first=Rank(1), limit=50)
            assert page == await self.judge.read(draft, first=Rank(1), limit=50)
        await self.compare_the_past(node)

    async def compare_the_past(self, node: RedisIndex) -> None:
        entries = [(ranking, player) for ranking in RANKINGS for player in PLAYERS]
        if self.past:
            at = self.dice.randrange(max(0, len(self.past) - REMEMBERED), len(self.past))
            told = await node.order_keys(entries, at=Position(at))
            assert dict(zip(entries, told, strict=True)) == self.past[at]
        forgotten = len(self.past) - REMEMBERED - 1
        if forgotten >= 0:
            with pytest.raises(IndexForgot):
                await node.order_keys(entries, at=Position(forgotten))

    async def everything(self, index: RankIndex) -> dict[str, Any]:
        """All that can be asked of an index."""
        entries = [(ranking, player) for ranking in RANKINGS for player in PLAYERS]
        player = PLAYERS[len(self.made) % len(PLAYERS)]
        asked: dict[str, Any] = {
            "checkpoint": index.checkpoint(),
            "keys": index.order_keys(entries),
            "metadata": index.metadata(entries),
            "one": index.rank(RANKINGS[0], player),
            "another": index.rank(RANKINGS[0], "ann"),
        }
        for ranking in RANKINGS:
            asked[f"page {ranking}"] = index.read(ranking, first=Rank(1), limit=100)
            first = Rank(self.dice_of(ranking).randint(1, len(PLAYERS)))
            asked[f"from {first} {ranking}"] = index.read(ranking, first=first, limit=3)
            asked[f"ranks {ranking}"] = index.ranks(ranking, PLAYERS)
            asked[f"count {ranking}"] = index.count(ranking)
            shape = self.shapes.get(ranking, RankingShape(16, False))
            key = self.dice_of(ranking).choice(few_keys(shape.key_bytes))
            asked[f"below {ranking}"] = index.count_below(ranking, key, "cyd")
            if shape.dense:
                asked[f"scores {ranking}"] = index.scores_below(ranking, key)
        told = dict(zip(asked, await asyncio.gather(*asked.values()), strict=True))
        told["keys"] = list(zip(entries, told["keys"], strict=True))
        told["names"] = {board: set(await index.rankings(board)) for board in ("b", "c")}
        return {what: list(it) if isinstance(it, Sequence) else it for what, it in told.items()}

    def dice_of(self, ranking: Ranking) -> random.Random:
        """Return dice that fall alike for both indexes."""
        return random.Random(f"{len(self.made)}{ranking}")


def small_bounds() -> ExitStack:
    bounds: list[tuple[Any, dict[str, Any]]] = [
        (writes, {"MOVES_TOGETHER_MAX": 3, "APPLIES_REMEMBERED": REMEMBERED}),
        (writes, {"PLAYERS_PER_BUCKET": 2, "KEYS_RELEASED_PER_APPLY": 3}),
        (reads, {"ENTRIES_TOGETHER_MAX": 7, "PAGE_SLACK": 1}),
        (reads, {"SAMPLES": 2, "NEAR_ENOUGH": 1, "TOP_ENTRIES": 1}),
    ]
    stack = ExitStack()
    for module, some in bounds:
        stack.enter_context(mock.patch.multiple(module, **some))
    return stack


async def live(shared_redis: RedisServer, partitions: int, seed: int) -> None:
    url = f"{shared_redis.url}?partitions={partitions}&prefix=q{next(_prefixes)}&timeout=60"
    deaths = Deaths()

    async def write(filling: Partitions, partition: int, packed: ScriptArgs) -> ScriptReply:
        return await deaths.write(filling, partition, packed)

    async with AsyncExitStack() as stack:
        nodes = [await stack.enter_async_context(RedisIndex.open(url)) for _ in range(2)]
        stack.enter_context(mock.patch.object(Partitions, "write", write))
        history = History(nodes, deaths, random.Random(seed))
        for _ in range(STEPS):
            await history.step()
            await history.compare()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("partitions", [1, 3])
def test_it_answers_what_the_native_index_answers(
    shared_redis: RedisServer, partitions: int, seed: int
) -> None:
    with small_bounds():
        asyncio.run(live(shared_redis, partitions, seed))


@pytest.mark.skipif(not LONG, reason="takes long: RANKD_HYPOTHESIS=long")
@pytest.mark.parametrize("partitions", [1, 2, 3, 8])
@settings(
    max_examples=50,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],  # A smaller seed is no simpler history.
)
@given(seed=st.integers(0, 2**64))
def test_it_does_so_under_many_histories(
    shared_redis: RedisServer, partitions: int, seed: int
) -> None:
    with small_bounds():
        asyncio.run(live(shared_redis, partitions, seed))
