"""The native rank list for as long as one likes, each answer judged. A command, not a test.

    python tests/property/rank_soak.py [--seconds N] [--operations N] [--seed N]

Two phases take turns until the time or the operations are used up; every entry put, removed or
asked for is one operation.

small   Lists of every width, dense or not, over a player table whose numbers are used again. Every
        receipt of every batch is compared with the oracle's, also those from the middle of it.
large   One list of up to a million entries. Batches of moves go in; then all entries are sorted
        from scratch, with nothing kept from before, and everything the list says is compared:
        each entry in its place, the rank of every player, counts below keys that are there and
        keys that are not, distinct scores, and the last receipt of every player who moved last.

Only what has been judged is counted, so a run may go a few seconds beyond its time. A difference
ends it with exit status 1 and the command that repeats it.
"""

import argparse
import random
import sys
import time
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from rankd.rank import oracle
from rankd.rank._ranklist import NO_PLAYER, PlayerTable, RankList

WIDTHS = (16, 24, 32, 40)
TOP = 2**64 - 1


class Difference(AssertionError):
    """The native list said something else than its judge."""


def same(got: object, expected: object, what: str) -> None:
    if got != expected:
        raise Difference(what)


# ---- Small lists, every receipt ----------------------------------------------------------------


def small_phase(dice: random.Random) -> Iterator[int]:
    """Yield the number of operations of each step."""
    tables = PlayerTable(dice.getrandbits(64)), oracle.PlayerTable()
    pairs = [
        (
            RankList(width, players=tables[0], dense=dense),
            oracle.RankList(width, players=tables[1], dense=dense),
        )
        for width, dense in ((dice.choice(WIDTHS), dice.random() < 0.5) for _ in range(3))
    ]
    for _ in range(12):
        yield intern_some(dice, tables)
        known = [number for numbers, _, _ in tables[1].blocks() for number in numbers]
        for native, judge in pairs:
            yield put_some(dice, native, judge, known)
            yield ask_some(dice, native, judge, known)
            yield remove_some(dice, native, judge)
        yield forget_some(dice, tables, pairs)


def some_id(dice: random.Random) -> str:
    return dice.choice("abcdé日😀") * dice.choice((1, 1, 2, 5, 22, 23, 60)) + str(
        dice.randrange(40)
    )


def intern_some(dice: random.Random, tables: tuple[PlayerTable, oracle.PlayerTable]) -> int:
    ids = [some_id(dice) for _ in range(dice.randrange(1, 400))]
    same(tables[0].intern_many(ids), tables[1].intern_many(ids), "intern_many")
    same(tables[0].find_many(ids), tables[1].find_many(ids), "find_many")
    tables[0].check()
    return 2 * len(ids)


def put_some(
    dice: random.Random, native: RankList, judge: oracle.RankList, known: list[int]
) -> int:
    count = dice.choice((1, 10, 33, 300, 1000))
    words = [0, 1, 2, TOP - 1, TOP, *(dice.getrandbits(64) for _ in range(dice.choice((0, 50))))]
    keys = b"".join(
        b"".join(dice.choice(words).to_bytes(8, "big") for _ in range(native.width // 8))
        for _ in range(count)
    )
    players = array("I", dice.choices(known, k=count))
    same(
        native.put_many(players, keys, ranks=True),
        judge.put_many(players, keys, ranks=True),
        "receipts of put_many",
    )
    native.check()
    return count


def ask_some(
    dice: random.Random, native: RankList, judge: oracle.RankList, known: list[int]
) -> int:
    size = len(judge)
    everyone = array("I", [*known, NO_PLAYER])
    same(native.rank_many(everyone), judge.rank_many(everyone), "rank_many")
    keys = judge.read(1, size)[0] + dice.randbytes(native.width * 20)
    for at in range(0, len(keys), native.width):
        key = keys[at : at + native.width]
        same(native.count_below(key), judge.count_below(key), "count_below")
    first, count = dice.randrange(1, size + 2), dice.randrange(size + 2)
    same(native.read(first, count), judge.read(first, count), "read")
    same(native.read(1, size + 1), judge.read(1, size + 1), "read of all")
    if native.dense:
        for _ in range(5):
            key = dice.randbytes(native.width)
            same(native.scores_below(key), judge.scores_below(key), "scores_below")
    return len(everyone) + size + 20 + count + size


def remove_some(dice: random.Random, native: RankList, judge: oracle.RankList) -> int:
    players = judge.read(1, len(judge))[1].tolist()
    gone = dice.sample(players, dice.randrange(len(players) + 1))
    for player in gone:
        same(native.remove(player), judge.remove(player), "remove")
    native.check()
    return len(gone)


def forget_some(
    dice: random.Random,
    tables: tuple[PlayerTable, oracle.PlayerTable],
    pairs: list[tuple[RankList, oracle.RankList]],
) -> int:
    known = [number for numbers, _, _ in tables[1].blocks() for number in numbers]
    gone = dice.sample(known, len(known) // 3)
    for number in gone:
        for native, judge in pairs:
            if number in judge:
                same(native.remove(number), judge.remove(number), "remove")
        tables[0].remove(number)
        tables[1].remove(number)
    tables[0].check()
    return len(gone)


# ---- Large lists, judged by sorting ------------------------------------------------------------

KEY = 16


@dataclass(frozen=True)
class Shape:
    """How the keys of a large list are thrown: which of their bytes vary, and between how many."""

    players: int
    batch: int
    score_bytes: int
    score_values: int
    tie_values: int


SHAPES = (
    Shape(players=200_000, batch=50_000, score_bytes=8, score_values=256, tie_values=1),
    Shape(players=200_000, batch=50_000, score_bytes=2, score_values=30, tie_values=50),
    Shape(players=60_000, batch=10_000, score_bytes=1, score_values=3, tie_values=2),
    Shape(players=60_000, batch=60_000, score_bytes=1, score_values=1, tie_values=1),
    Shape(players=1_000_000, batch=250_000, score_bytes=5, score_values=256, tie_values=4),
)
ENTRIES_PER_JUDGEMENT = 4  # put between two judgements, for each player there is
JUDGEMENTS = 3
PROBES = 2000


class Large:
    """A list, and beside it nothing but each player's key."""

    def __init__(self, dice: random.Random) -> None:
        self.dice, self.shape = dice, dice.choice(SHAPES)
        self.kept: dict[int, bytes] = {}
        self.stride = 1
        self.table: PlayerTable | None = None
        if dice.random() < 0.5:
            self.table = PlayerTable(dice.getrandbits(64))
            # Ids in the order of their numbers: so one way of sorting judges both kinds of list.
            self.table.intern_many([f"{player:07}" for player in range(self.shape.players)])
        else:
            self.stride = dice.choice((1, 1, 3, 50, 4000))
        self.ranks = RankList(KEY, players=self.table, dense=dice.random() < 0.3)

    def put(self) -> int:
        size, many = self.shape.batch, self.shape.players
        throws = array("I", self.dice.randbytes(4 * size))
        players = array("I", [throw % many * self.stride for throw in throws])
        keys = self._keys(size)
        before, after = self.ranks.put_many(players, keys, ranks=True)
        new = -len(self.kept)
        pieces = [keys[at : at + KEY] for at in range(0, size * KEY, KEY)]
        self.kept.update(zip(players, pieces, strict=True))
        new += len(self.kept)
        same(before.count(0), new, "how many of a batch were new")
        same(after[-1], self.ranks.rank_of(players[-1]), "the receipt of a batch's last entry")
        return size

    def _keys(self, count: int) -> bytes:
        keys = bytearray(KEY * count)
        values = bytes(value % self.shape.score_values for value in range(256))
        ties = bytes(value % self.shape.tie_values for value in range(256))
        # All in one place now and then: there the same nodes fill, split and lend.
        fixed = self.dice.randrange(8) if self.dice.random() < 0.25 else 0
        for column in range(8 - self.shape.score_bytes, 8):
            if column < fixed:
                keys[column::KEY] = self.dice.randbytes(1).translate(values) * count
            else:
                keys[column::KEY] = self.dice.randbytes(count).translate(values)
        keys[KEY - 1 :: KEY] = self.dice.randbytes(count).translate(ties)
        return bytes(keys)

    def judge(self) -> int:
        """Sort everything from scratch, and compare all the list can say."""
        entries = sorted([key + player.to_bytes(4, "big") for player, key in self.kept.items()])
        count = len(entries)
        keys = b"".join([entry[:KEY] for entry in entries])
        players = array("I", b"".join([entry[KEY:] for entry in entries]))
        if sys.byteorder == "little":
            players.byteswap()
        ranks = array("I", range(1, count + 1))
        same(len(self.ranks), count, "the number of entries")
        same(self.ranks.read(1, count + 1), (keys, players), "the entries in order")
        same(self.ranks.rank_many(players), ranks, "the rank of every player")
        same(self._below(keys), first_offsets(keys), "the count below every key")
        operations = 3 * count + self._judge_absent(entries) + self._judge_one_by_one(entries)
        if self.ranks.dense:
            operations += self._judge_scores(entries)
        self.ranks.check()
        return operations

    def _below(self, keys: bytes) -> "array[int]":
        below, starts = self.ranks.count_below, range(0, len(keys), KEY)
        return array("I", [below(keys[at : at + KEY]) for at in starts])

    def _judge_absent(self, entries: list[bytes]) -> int:
        probes = self._keys(PROBES) + self.dice.randbytes(KEY * PROBES)
        expected = [
            bisect_left(entries, probes[at : at + KEY]) for at in range(0, len(probes), KEY)
        ]
        same(self._below(probes).tolist(), expected, "the count below any key")
        many = self.shape.players
        everyone = range(0, many * self.stride, self.stride)
        absent = array("I", [player for player in everyone if player not in self.kept])
        absent.append(many * self.stride)
        same(set(self.ranks.rank_many(absent)), {0}, "the rank of those who are not in")
        return 2 * PROBES + len(absent)

    def _judge_one_by_one(self, entries: list[bytes]) -> int:
        for offset in (self.dice.randrange(len(entries)) for _ in range(PROBES)):
            key, player = entries[offset][:KEY], int.from_bytes(entries[offset][KEY:], "big")
            same(self.ranks.rank_of(player), offset + 1, "rank_of")
            same(self.ranks.key_of(player), key, "key_of")
            same(self.ranks.read(offset + 1, 1), (key, array("I", [player])), "read of one")
        return 3 * PROBES

    def _judge_scores(self, entries: list[bytes]) -> int:
        scores = sorted({entry[:8] for entry in entries})
        probes = self._keys(PROBES)
        for at in range(0, len(probes), KEY):
            expected = bisect_left(scores, probes[at : at + 8])
            same(self.ranks.scores_below(probes[at : at + KEY]), expected, "distinct scores below")
        return PROBES

    def thin_out(self) -> int:
        """Take out a stretch, or a part of each node; the last first, so that ranks are known."""
        _, players = self.ranks.read(1, len(self.ranks))
        count = len(players)
        if self.dice.random() < 0.5:
            first = self.dice.randrange(count)
            gone = range(first, min(count, first + count // 3))
        else:
            gone = range(0, count, self.dice.choice((2, 3, 20)))
        for offset in reversed(gone):
            player = players[offset]
            same(self.ranks.remove(player), offset + 1, "the rank of one who is removed")
            del self.kept[player]
        self.ranks.check()
        return len(gone)

    def reload(self) -> int:
        again = RankList(KEY, players=self.table, dense=self.ranks.dense)
        again.load(self.ranks.blocks(self.dice.choice((100, 4096))))
        self.ranks = again
        return len(again)


def first_offsets(keys: bytes) -> "array[int]":
    """For each of the sorted keys, how many are less: the place of the first that equals it."""
    offsets, previous, first = array("I"), b"", 0
    for offset, at in enumerate(range(0, len(keys), KEY)):
        key = keys[at : at + KEY]
        if key != previous:
            previous, first = key, offset
        offsets.append(first)
    return offsets


def large_phase(dice: random.Random) -> Iterator[int]:
    """Yield the number of operations of each step, once they have been judged."""
    large = Large(dice)
    batches = ENTRIES_PER_JUDGEMENT * large.shape.players // large.shape.batch
    for _ in range(JUDGEMENTS):
        yield sum(large.put() for _ in range(batches)) + large.judge()
        yield large.thin_out() + large.judge()
        if dice.random() < 0.3:
            yield large.reload() + large.judge()


# ---- The run -----------------------------------------------------------------------------------


def soak(seed: int, seconds: float, operations_max: int) -> tuple[int, int]:
    """Run until the first bound is met; return the operations and the differences found."""
    dice = random.Random(seed)
    started = told = time.monotonic()
    operations = 0
    try:
        while True:
            for phase in (small_phase, large_phase):
                for done in phase(dice):
                    operations += done
                    now = time.monotonic()
                    if now - started >= seconds or operations >= operations_max:
                        return operations, 0
                    if now - told >= 30:
                        told = now
                        say(f"  {operations:,} operations in {now - started:.0f} s")
    except AssertionError as difference:  # Also those of check().
        say(f"DIFFERENCE after {operations:,} operations: {difference}")
        return operations, 1


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description="Judge the native rank list for a long time.")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--operations", type=int, default=10**18)
    parser.add_argument("--seed", type=int, default=None)
    chosen = parser.parse_args()
    seed = random.SystemRandom().randrange(2**32) if chosen.seed is None else chosen.seed
    started = time.monotonic()
    operations, differences = soak(seed, chosen.seconds, chosen.operations)
    took = time.monotonic() - started
    say(
        f"{operations:,} operations, {differences} differences, seed {seed}, {took:.1f} s, "
        f"{operations / took:,.0f} operations/s"
    )
    if differences:
        say(f"repeat: python tests/property/rank_soak.py --seed {seed} --seconds 1000000")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
