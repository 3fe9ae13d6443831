"""The native rank list, under any history, agrees with the oracle in every answer.

Method: the same calls to both, and a comparison of what each returns or raises; after every step
the native structures check their own invariants, and what was touched is read back.

Two machines. The small one has few players, few scores and the extreme ones, so that ties,
collisions and numbers used again are the rule, and several lists of every width share one table.
The deep one moves hundreds of entries a step, so that the tree has three levels and its inner
nodes split, lend and merge; a test proves that it gets there.
"""

import random
import re
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.standins import NO_NATIVE_PART, PURE, native_part

from rankd.rank import oracle

if PURE:
    pytest.skip(NO_NATIVE_PART, allow_module_level=True)

native: Any = native_part("rankd.rank._ranklist")

TOP = 2**64 - 1
WIDTHS = [16, 24, 32, 40, 48]

# Prefixes of one another, characters of every width, ids stored in the record and apart from it.
IDS = st.sampled_from(
    ["a", "aa", "a\0", "b", "é", "\ufffd", "😀", "x" * 22, "x" * 23, "x" * 22 + "y", "z" * 256]
) | st.text(min_size=1, max_size=30).filter(lambda id: _is_utf8(id))
# What a signed 64-bit score becomes in a key, at both ends and around its sign; and a few that tie.
WORDS = st.sampled_from([0, 1, 2, 3, 2**63 - 1, 2**63, TOP - 1, TOP]) | st.integers(0, TOP)

SEEDS = st.integers(0, 2**32 - 1)  # of dice for what needs thousands of throws


def _is_utf8(id: str) -> bool:
    return not any(0xD800 <= ord(character) < 0xE000 for character in id)


def keys(width: int) -> st.SearchStrategy[bytes]:
    words = st.lists(WORDS, min_size=width // 8, max_size=width // 8)
    return words.map(lambda all: b"".join(word.to_bytes(8, "big") for word in all))


def outcome(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """What a call returns, or the kind of error it raises."""
    try:
        return call(*arguments, **options)
    except (ValueError, KeyError) as error:
        return type(error)


class Pair:
    """A native list and an oracle that are told the same and must answer the same."""

    def __init__(self, width: int, *, dense: bool, tables: tuple[Any, Any] | None) -> None:
        self.width, self.dense = width, dense
        self.tables = tables or (None, None)
        self.native = native.RankList(width, players=self.tables[0], dense=dense)
        self.oracle = oracle.RankList(width, players=self.tables[1], dense=dense)

    def shared_tables(self) -> tuple[Any, Any] | None:
        """Return them, or None. An empty table is false, so a condition on it would mislead."""
        return None if self.tables[0] is None else self.tables

    def ask(self, name: str, *arguments: Any, **options: Any) -> Any:
        got = outcome(getattr(self.native, name), *arguments, **options)
        expected = outcome(getattr(self.oracle, name), *arguments, **options)
        assert got == expected, f"{name}{arguments}: {got} where the oracle says {expected}"
        return got

    def compare(self) -> None:
        assert len(self.native) == len(self.oracle)
        self.ask("read", 1, len(self.oracle) + 1)
        self.native.check()


class SmallMachine(RuleBasedStateMachine):
    """Every call there is, on four lists that share a table and one that has none."""

    @initialize(seed=st.integers(0, TOP), dense=st.lists(st.booleans(), min_size=5, max_size=5))
    def begin(self, seed: int, dense: list[bool]) -> None:
        self.tables = (native.PlayerTable(seed), oracle.PlayerTable())
        self.pairs = [
            Pair(width, dense=counts, tables=self.tables)
            for width, counts in zip(WIDTHS, dense, strict=False)
        ]
        self.pairs.append(Pair(16, dense=dense[4], tables=None))

    # -- players --

    @rule(id=IDS)
    def intern(self, id: str) -> None:
        self._ask_tables("intern", id)
        self._ask_tables("find", id)

    @rule(ids=st.lists(IDS, max_size=40))
    def intern_many(self, ids: list[str]) -> None:
        self._ask_tables("find_many", ids)
        numbers = self._ask_tables("intern_many", ids)
        assert self._ask_tables("ids_of", numbers) == ids

    @rule(ids=st.lists(IDS, max_size=40))
    def intern_packed(self, ids: list[str]) -> None:
        texts = [id.encode() for id in ids]
        self._ask_tables("intern_packed", b"".join(texts), array("H", map(len, texts)))

    @precondition(lambda self: len(self.tables[1]) > 0)
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(self._numbers()))
        for pair in self.pairs[:-1]:
            pair.ask("remove", number)
        self._ask_tables("remove", number)
        self._ask_tables("remove", number)
        self._ask_tables("id_of", number)

    @rule(number=st.integers(0, 30) | st.sampled_from([-1, native.NO_PLAYER, 2**40]))
    def look_up(self, number: int) -> None:
        self._ask_tables("id_of", number)
        assert (number in self.tables[0]) == (number in self.tables[1])

    # -- entries --

    @rule(data=st.data())
    def place(self, data: st.DataObject) -> None:
        pair = self._pair(data)
        pair.ask("put", self._player(data, pair), data.draw(keys(pair.width)))

    @rule(data=st.data())
    def put_where_another_is(self, data: st.DataObject) -> None:
        """Equal keys: only ids decide."""
        pair = self._pair(data)
        if len(pair.oracle):
            rank = data.draw(st.integers(1, len(pair.oracle)))
            pair.ask("put", self._player(data, pair), pair.oracle.read(rank, 1)[0])

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        pair = self._pair(data)
        pair.ask("remove", self._player(data, pair))

    @rule(data=st.data(), ranks=st.booleans(), tied=st.booleans(), count=st.integers(0, 120))
    def put_many(self, data: st.DataObject, ranks: bool, tied: bool, count: int) -> None:
        pair = self._pair(data)
        dice = random.Random(data.draw(SEEDS))
        among = self._numbers() if pair.shared_tables() else [*range(150), native.NO_PLAYER - 1]
        if not among:
            return
        few = [data.draw(keys(pair.width)) for _ in range(1 if tied else 4)]
        if not tied:
            few += [dice.randbytes(pair.width) for _ in range(60)]
        players = array("I", dice.choices(among, k=count))
        pair.ask("put_many", players, b"".join(dice.choices(few, k=count)), ranks=ranks)

    @rule(data=st.data())
    def put_many_with_a_stranger(self, data: st.DataObject) -> None:
        """A batch stops where the table lacks a player; what came before is put."""
        pair = self._pair(data)
        if pair.shared_tables():
            players = array("I", [*self._numbers(), 10**6, *self._numbers()])
            assert pair.ask("put_many", players, bytes(pair.width) * len(players)) is KeyError

    # -- answers --

    @rule(data=st.data())
    def ask_of_one(self, data: st.DataObject) -> None:
        pair = self._pair(data)
        player = self._player(data, pair)
        pair.ask("rank_of", player)
        pair.ask("key_of", player)
        assert (player in pair.native) == (player in pair.oracle)

    @rule(data=st.data(), stranger=IDS)
    def locate(self, data: st.DataObject, stranger: str) -> None:
        pair = self._pair(data)
        known = self.tables[1].ids_of(array("I", self._numbers()))
        pair.ask("locate", data.draw(st.sampled_from([*known, stranger])))

    @rule(data=st.data())
    def count(self, data: st.DataObject) -> None:
        """Keys that are there, their neighbours, and keys that are not."""
        pair = self._pair(data)
        there = [key for key, _ in pair.oracle][:20]
        drawn = data.draw(st.lists(keys(pair.width), max_size=5))
        for key in there + drawn:
            pair.ask("count_below", key)
            pair.ask("scores_below", key)
            pair.ask("count_below", key[:-1] + bytes([key[-1] ^ 1]))

    @rule(data=st.data())
    def rank_many(self, data: st.DataObject) -> None:
        pair = self._pair(data)
        players = data.draw(st.lists(st.integers(0, 200), max_size=40))
        pair.ask("rank_many", array("I", [*players, native.NO_PLAYER]))

    @rule(data=st.data(), first=st.integers(-1, 200), count=st.integers(-1, 200))
    def read(self, data: st.DataObject, first: int, count: int) -> None:
        pair = self._pair(data)
        pair.ask("read", first, count)

    @rule(data=st.data(), size=st.integers(1, 90))
    def iterate(self, data: st.DataObject, size: int) -> None:
        pair = self._pair(data)
        assert list(pair.native) == list(pair.oracle)
        assert list(pair.native.blocks(size)) == list(pair.oracle.blocks(size))

    # -- from pieces --

    @rule(data=st.data(), size=st.integers(1, 90))
    def reload(self, data: st.DataObject, size: int) -> None:
        """Each from the other's pieces; from here on the loaded ones go on."""
        pair = self._pair(data)
        again = Pair(pair.width, dense=pair.dense, tables=pair.shared_tables())
        again.native.load(pair.oracle.blocks(size))
        again.oracle.load(pair.native.blocks(size))
        self._replace(pair, again)

    @rule(data=st.data())
    def load_disorder(self, data: st.DataObject) -> None:
        """A load that is refused is refused by both, and leaves both empty."""
        pair = Pair(16, dense=True, tables=self.tables)
        entries = data.draw(st.lists(st.tuples(keys(16), st.integers(0, 12)), max_size=6))
        block = b"".join(key for key, _ in entries), array("I", [player for _, player in entries])
        pair.ask("load", [block])
        pair.compare()

    @invariant()
    def they_agree(self) -> None:
        self.tables[0].check()
        assert len(self.tables[0]) == len(self.tables[1])
        for pair in self.pairs:
            pair.compare()

    def _ask_tables(self, name: str, *arguments: Any) -> Any:
        got, expected = (outcome(getattr(table, name), *arguments) for table in self.tables)
        assert got == expected, f"{name}{arguments}: {got} where the oracle says {expected}"
        return got

    def _numbers(self) -> list[int]:
        return [number for numbers, _, _ in self.tables[1].blocks() for number in numbers]

    def _pair(self, data: st.DataObject) -> Pair:
        return self.pairs[data.draw(st.integers(0, len(self.pairs) - 1))]

    def _player(self, data: st.DataObject, pair: Pair) -> int:
        """Mostly one who may be ranked, sometimes one who may not."""
        known = self._numbers() if pair.shared_tables() else list(range(20))
        strange = st.sampled_from([-1, native.NO_PLAYER, 10**6, 2**40])
        often = st.sampled_from(known or [0])
        player: int = data.draw(often | often | often | strange)
        return player

    def _replace(self, pair: Pair, again: Pair) -> None:
        self.pairs[self.pairs.index(pair)] = again


TestSmall = SmallMachine.TestCase
TestSmall.settings = settings(max_examples=100, stateful_step_count=40)


# ---- Deep --------------------------------------------------------------------------------------


def node_sizes() -> tuple[int, int]:
    """Entries in a full leaf and children of a full inner node, as nodes.h has them."""
    source = Path(native.__file__).with_name("nodes.h")
    if not source.exists():
        return 63, 64
    steps = dict(re.findall(r"#define (LEAF|INNER)_STEPS (\d+)", source.read_text()))
    return (1 << int(steps["LEAF"])) - 1, 1 << int(steps["INNER"])


def levels(count: int) -> int:
    """How many levels a tree of so many entries has at the least: all its nodes full."""
    leaf_max, inner_max = node_sizes()
    height, room = 1, leaf_max
    while room < count:
        height, room = height + 1, room * inner_max
    return height


class Judge:
    """A list so plain that thousands of entries cost nothing: sorted afresh after every step."""

    def __init__(self) -> None:
        self.keys: dict[int, bytes] = {}

    def entries(self) -> list[tuple[bytes, int]]:
        return sorted((key, player) for player, key in self.keys.items())


class DeepMachine(RuleBasedStateMachine):
    """Hundreds of entries a step, placed where they make nodes split, lend and merge."""

    entries_most = 0

    @initialize(
        width=st.sampled_from(WIDTHS),
        dense=st.booleans(),
        count=st.integers(4100, 9000),
        players=st.sampled_from([(6000, 1), (20_000, 1), (20_000, 3), (20_000, 200_000)]),
    )
    def begin(self, width: int, dense: bool, count: int, players: tuple[int, int]) -> None:
        """Players' numbers close together or far apart: their keys are kept in different ways."""
        self.width = width
        self.players_max, self.stride = players
        self.ranks = native.RankList(width, dense=dense)
        self.judge = Judge()
        self.put(count, seed=count, spread=10**6)

    @rule(
        count=st.integers(1, 3000),
        seed=SEEDS,
        spread=st.sampled_from([1, 3, 1000, 10**6]),
    )
    def put(self, count: int, seed: int, spread: int) -> None:
        """Anyone, anywhere: moves and new ones mixed."""
        dice = random.Random(seed)
        players = [dice.randrange(self.players_max) for _ in range(count)]
        self._put(players, [self._key(dice.randrange(spread), dice.randrange(4)) for _ in players])

    @rule(count=st.integers(1, 1500), seed=SEEDS)
    def put_in_one_place(self, count: int, seed: int) -> None:
        """All between two neighbours: one leaf splits again and again."""
        dice = random.Random(seed)
        at, up = dice.choice([dice.randrange(10**6), self._top]), dice.random() < 0.5
        players = dice.sample(range(self.players_max), count)
        ties = range(10, 10 + count) if up else range(10 + count, 10, -1)
        self._put(players, [self._key(at, tie) for tie in ties])

    @rule(count=st.integers(1, 500), seed=SEEDS)
    def put_at_the_very_end(self, count: int, seed: int) -> None:
        """The greatest key there can be, which also marks what is unused."""
        players = random.Random(seed).sample(range(self.players_max), count)
        self._put(players, [b"\xff" * self.width] * count)

    @rule(size=st.floats(0.02, 0.7), seed=SEEDS)
    def remove_a_stretch(self, size: float, seed: int) -> None:
        """Whole subtrees go, from the left, from the right or at random."""
        dice = random.Random(seed)
        entries = self.judge.entries()
        count = int(len(entries) * size)
        first = dice.randrange(len(entries) - count + 1)
        gone = entries[first : first + count]
        order = dice.randrange(3)
        if order == 1:
            gone.reverse()
        elif order == 2:
            dice.shuffle(gone)
        for _, player in gone:
            self.ranks.remove(player)
            del self.judge.keys[player]

    @rule(every=st.integers(2, 40))
    def thin_out(self, every: int) -> None:
        """Every leaf loses entries: all of them come down to half full, and merge."""
        for _, player in self.judge.entries()[::every]:
            self.ranks.remove(player)
            del self.judge.keys[player]

    @rule(size=st.integers(1, 5000))
    def reload(self, size: int) -> None:
        again = native.RankList(self.width, dense=self.ranks.dense)
        again.load(self.ranks.blocks(size))
        self.ranks = again

    @invariant()
    def agrees_with_sorting(self) -> None:
        entries = self.judge.entries()
        self.ranks.check()
        read_keys, read_players = self.ranks.read(1, len(entries) + 1)
        assert read_keys == b"".join(key for key, _ in entries)
        assert list(read_players) == [player for _, player in entries]
        assert list(self.ranks.rank_many(read_players)) == list(range(1, len(entries) + 1))
        below, previous = [], (b"", 0)
        for offset, (key, _) in enumerate(entries):
            previous = previous if previous[0] == key else (key, offset)
            below.append(previous[1])
        assert [self.ranks.count_below(key) for key, _ in entries] == below
        if self.ranks.dense:
            scores = {key[:-8] for key, _ in entries}
            assert self.ranks.scores_below(b"\xff" * self.width) == len(
                scores - {b"\xff" * (self.width - 8)}
            )
        DeepMachine.entries_most = max(DeepMachine.entries_most, len(entries))

    @property
    def _top(self) -> int:
        return (1 << (8 * self.width - 64)) - 1

    def _key(self, score: int, tie: int) -> bytes:
        return score.to_bytes(self.width - 8, "big") + tie.to_bytes(8, "big")

    def _put(self, chosen: list[int], placed: list[bytes]) -> None:
        players = [number * self.stride for number in chosen]
        before, after = self.ranks.put_many(array("I", players), b"".join(placed), ranks=True)
        seen: set[int] = set()
        for player, was in zip(players, before, strict=True):
            known = player in self.judge.keys or player in seen
            assert (was > 0) == known
            seen.add(player)
        self.judge.keys.update(zip(players, placed, strict=True))
        assert len(self.ranks) == len(self.judge.keys)
        last = players[-1]
        assert after[-1] == self.ranks.rank_of(last), "nothing came after the last"


def test_a_deep_tree_agrees_with_sorting() -> None:
    """Three levels are more than the machine's every list has, and some lists have them."""
    DeepMachine.entries_most = 0
    # Thousands of entries do not shrink in any useful time: the steps and their seeds must do.
    no_shrinking = [Phase.explicit, Phase.reuse, Phase.generate]
    run_state_machine_as_test(
        DeepMachine,
        settings=settings(max_examples=40, stateful_step_count=12, phases=no_shrinking),
    )
    assert levels(DeepMachine.entries_most) >= 3, DeepMachine.entries_most
