"""A whole engine is killed under load, again and again on one folder, and keeps every promise.

    python -m tests.simulation.engine_kills [--kills N] [--seed S] [--boards N]

A child runs an engine on a folder: submissions with and without keys, deltas, batches, boards that
are redefined, retired and defined anew, windows that turn every few milliseconds, profiles,
attributes that move players between segments of many boards, saves, all at once. It writes a diary
to a pipe, which outlives it: before each call what it is about to do, after it what it was told.
Its parent reads along and kills it somewhere, opens what is left and judges it by one rule: what
was acknowledged is there once, where it was said to be; what was refused is not there; what nobody
heard of is there whole or not at all, and sent again with its key it counts once. Then the sums are
right, and so are the segments (``segment_model``), and the engine agrees with its ledger. The next
life goes on with the same folder.

Every call bears a mark of its own, as the name of who made it, so that its facts can be told.

The parent forks, so this is a program of its own, with a single thread when it does.
"""

import argparse
import asyncio
import os
import select
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from tests.simulation.power_loss import scratch_folder
from tests.simulation.segment_model import wrong_segments

from rankd.adapters.sqlite import recent_keys
from rankd.bootstrap import EngineConfig, RunningEngine, engine
from rankd.core import fold_parts
from rankd.core.engine import Engine
from rankd.core.writer import WriteResult
from rankd.errors import LedgerUnavailable, RankdError, Refused, Unavailable
from rankd.model.facts import Fact, Position, Recorded, ScoreSubmitted

START = 1_794_657_600_000_000
"""Noon of a day in 2026, in microseconds."""
LIFE = 30 * 86_400_000_000
"""How much later each life begins."""
SPEED = 20_000
"""Of the child's clock: an hour passes in 180 milliseconds."""
WORKERS = 8
LINES_MAX = 150
"""Of a diary, after which its writer is killed at the latest."""
WAIT_SECONDS_MAX = 100.0
"""A child that has written nothing for so long hangs: that is a finding too."""
REPEATED = 20
"""How many acknowledged submissions of a life are sent again."""

SHIFT = {"name": "shift", "start": "2026-11-14T00:00:00Z", "every": "1h"}
BOARDS: dict[str, list[dict[str, Any]]] = {
    "sum": [
        {"rule": "sum", "windows": ["all"]},
        {"rule": "sum", "windows": ["all"], "tie_break": "latest"},
    ],
    "shifts": [
        {"rule": "sum", "windows": ["all", SHIFT], "retention": {"shift": "3h"}},
        {"rule": "sum", "windows": [SHIFT, "all"], "ties": "dense", "retention": {"shift": "2h"}},
    ],
    "regions": [
        {"rule": "best", "windows": ["all", "daily"], "segments": ["region"]},
        {"rule": "latest", "windows": ["all", "daily"], "ties": "standard"},
    ],
    "brief": [{"rule": "best", "windows": ["all"], "limits": {"score_max": 50}}],
}
SEGMENTS = ((), ("region",), ("league",), ("region", "league"))
CROWD_BOARDS = 300
"""Many boards whose segments are made of the same attributes."""
SUMS = ("sum", "shifts")
"""Boards of which a dictionary and a plus sign know the right answer."""


def crowd(boards: int) -> dict[str, list[dict[str, Any]]]:
    """Return so many boards; ``segment_model`` knows the right answers."""
    windows = ["all", "daily"]
    return {
        f"crowd-{number}": [
            {"rule": "best", "windows": windows, "segments": list(SEGMENTS[number % 4])},
            {"rule": "best", "windows": windows, "segments": ["region", "league"]},
        ]
        for number in range(boards)
    }


# ------------------------------------------------------------------------------ the diary


class Intent(msgspec.Struct, tag="intent"):
    """What is about to be done."""

    mark: str
    facts: int
    """How many facts it is, if it is done."""
    board: str | None = None
    items: list[dict[str, Any]] = []
    """Submissions, to be sent again: such as have keys and nothing wrong with them."""


class Told(msgspec.Struct, tag="told"):
    """What came of it."""

    mark: str
    applied: str
    """yes, no or unknown."""
    positions: list[int] = []
    receipts: list[str | None] = []
    """A digest of each."""


Entry = Intent | Told
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Entry).decode


@dataclass
class Diary:
    """What the lives so far have said."""

    intents: dict[str, Intent] = field(default_factory=dict)
    told: dict[str, Told] = field(default_factory=dict)

    def read(self, text: bytes) -> None:
        """Read what a child wrote; of a torn last line nothing was said."""
        for line in text.split(b"\n")[:-1]:
            entry = _decode(line)
            if isinstance(entry, Intent):
                self.intents[entry.mark] = entry
            else:
                self.told[entry.mark] = entry

    def applied(self, mark: str) -> str:
        told = self.told.get(mark)
        return "unknown" if told is None else told.applied


def digest_of(answer: WriteResult) -> str | None:
    if answer.receipt is None:
        return None
    return blake2b(answer.receipt.encode(), digest_size=8).hexdigest()


# ------------------------------------------------------------------------------ the child


class SpedClock:
    """A clock that runs fast, from where it was set."""

    def __init__(self, start: int, speed: int = SPEED) -> None:
        self._start, self._speed, self._began = start, speed, time.monotonic_ns()

    def now(self) -> int:
        return self._start + (time.monotonic_ns() - self._began) * self._speed // 1_000


class Load:
    """Everything that callers do, at random, told to a pipe."""

    def __init__(self, rankd: Engine, life: int, seed: int, pipe: int, boards: int) -> None:
        self._rankd, self._life, self._pipe = rankd, life, pipe
        self._random = Random(f"{seed}/{life}")
        self._number = 0
        self._crowd = crowd(boards)
        self._boards = BOARDS | self._crowd
        self._turns = dict.fromkeys(self._boards, 0)
        self._redefining = asyncio.Lock()

    async def run(self) -> None:
        for name, definitions in self._boards.items():
            if name not in self._rankd.state.boards:
                await self._do(self._define(name, definitions[0]))
        await asyncio.gather(*[self._work() for _ in range(WORKERS)])

    async def _work(self) -> None:
        while True:
            doing = self._random.choices(
                (
                    self._submit,
                    self._profile,
                    self._erase,
                    self._save,
                    self._redefine,
                    self._renew,
                    self._turn,
                ),
                (60, 6, 1, 2, 2, 2, 4),
            )[0]
            await doing()

    # -- what it says --

    def _say(self, entry: Entry) -> None:
        os.write(self._pipe, _encode(entry) + b"\n")

    def _mark(self) -> str:
        self._number += 1
        return f"{self._life}.{self._number}"

    async def _do(self, call: tuple[Intent, Callable[[], Awaitable[Told]]]) -> None:
        intent, work = call
        self._say(intent)
        try:
            told = await work()
        except LedgerUnavailable as exc:
            told = Told(intent.mark, exc.applied)
        except (RankdError, Unavailable):
            told = Told(intent.mark, "no")
        self._say(told)

    # -- what it does --

    async def _submit(self) -> None:
        random, mark = self._random, self._mark()
        board = random.choice(tuple(random.choice((BOARDS, self._crowd))))
        many = random.choice((1, 1, 1, 2, 25))
        items = [self._item(f"{mark}/{place}") for place in range(many)]
        sound = all("key" in item for item in items)
        match random.randint(0, 30):
            case 0:  # None of them is recorded.
                items[-1]["player"], sound = "not a player\n", False
            case 1:  # Only the first of its life is.
                items, sound = (
                    [{"player": "p", "score": self._number, "key": f"{self._life}"}],
                    False,
                )

        async def work() -> Told:
            answers = await self._rankd.submit(board, items, actor=mark)
            return _told(mark, answers)

        await self._do((Intent(mark, len(items), board, items if sound else []), work))

    def _item(self, key: str) -> dict[str, Any]:
        random = self._random
        item: dict[str, Any] = {"player": f"p{random.randint(0, 30)}"}
        item["delta" if random.random() < 0.3 else "score"] = random.randint(-5, 60)
        if random.random() < 0.6:
            item["key"] = key
        if random.random() < 0.3:
            league = random.randint(1, 40)
            item["attributes"] = {"region": random.choice(("eu", "us")), "league": league}
        if random.random() < 0.2:
            item["metadata"] = {"at": key}
        return item

    async def _profile(self) -> None:
        mark, player = self._mark(), f"p{self._random.randint(0, 30)}"
        body = {"name": mark, "attributes": {"region": self._random.choice(("eu", "us"))}}

        async def work() -> Told:
            return Told(mark, "yes", [await self._rankd.profile(player, body, actor=mark)])

        await self._do((Intent(mark, 1), work))

    async def _erase(self) -> None:
        mark, player = self._mark(), f"p{self._random.randint(0, 30)}"

        async def work() -> Told:
            await self._rankd.erase(player, actor=mark)
            return Told(mark, "unknown")  # Of a player without a profile nothing is recorded.

        await self._do((Intent(mark, 1), work))

    async def _save(self) -> None:
        await self._rankd.save()

    async def _turn(self) -> None:
        await self._rankd.sealer.turn()

    async def _redefine(self) -> None:
        name = self._random.choice([name for name, ways in self._boards.items() if len(ways) > 1])
        self._turns[name] += 1
        ways = self._boards[name]
        mark, definition = self._mark(), ways[self._turns[name] % len(ways)]

        async def work() -> Told:
            async with self._redefining:  # Else another worker's change would be taken for ours.
                before = self._rankd.state.page(name).defined_at
                await self._rankd.redefine(name, definition, actor=mark)
                changed = self._rankd.state.page(name).defined_at > before
            return Told(mark, "yes" if changed else "unknown")  # It may be so defined already.

        await self._do((Intent(mark, 1), work))

    async def _renew(self) -> None:
        mark = self._mark()
        name = self._random.choice(("brief", self._random.choice(tuple(self._crowd))))

        async def work() -> Told:
            return Told(mark, "yes", [await self._rankd.retire(name, actor=mark)])

        async with self._redefining:  # Else a board could be gone before its change is looked at.
            await self._do((Intent(mark, 1), work))
        if name not in self._rankd.state.boards:
            await self._do(self._define(name, self._boards[name][0]))

    def _define(
        self, name: str, definition: dict[str, Any]
    ) -> tuple[Intent, Callable[[], Awaitable[Told]]]:
        mark = self._mark()

        async def work() -> Told:
            await self._rankd.define(name, definition, actor=mark)
            return Told(mark, "unknown")  # Another worker may have been first.

        return Intent(mark, 1), work


def _told(mark: str, answers: Sequence[WriteResult]) -> Told:
    """Say what submissions were told: those that reuse a key are sent alone."""
    if any(answer.error is not None or answer.duplicate for answer in answers):
        return Told(mark, "no")
    return Told(mark, "yes", [one.position for one in answers], [digest_of(one) for one in answers])


async def live(folder: Path, life: int, seed: int, pipe: int, boards: int) -> None:
    """The child's life; it ends by being killed."""
    clock = SpedClock(START + life * LIFE)
    async with opened(folder, clock) as running:
        await Load(running.rankd, life, seed, pipe, boards).run()


async def prepare(folder: Path, life: int, boards: int) -> None:
    """Make the many boards before the first life, which may be short."""
    async with opened(folder, SpedClock(START + life * LIFE, speed=1)) as running:
        for name, ways in crowd(boards).items():
            await running.rankd.define(name, ways[0])


def opened(folder: Path, clock: SpedClock) -> Any:
    return engine(EngineConfig(folder), clock=clock, reading=nullcontext(), tell=lambda _: None)


# ----------------------------------------------------------------------------- the parent


def kill_one(folder: Path, life: int, seed: int, random: Random, boards: int) -> bytes:
    """Let a child live, kill it somewhere, and return what it wrote."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        try:
            asyncio.run(live(folder, life, seed, theirs, boards))
        finally:
            os._exit(1)
    os.close(theirs)
    try:
        text = _read_lines(ours, random.choice((0, 1, random.randint(2, LINES_MAX))))
        time.sleep(random.random() * 0.02)  # So that it dies between two lines as well.
        os.kill(child, signal.SIGKILL)
        while part := os.read(ours, 1 << 16):
            text += part
    finally:
        os.close(ours)
        _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        raise AssertionError("the child failed by itself: what it said is above")
    return text


def _read_lines(pipe: int, lines: int) -> bytes:
    text = b""
    while text.count(b"\n") < lines:
        ready, _, _ = select.select([pipe], [], [], WAIT_SECONDS_MAX)
        part = os.read(pipe, 1 << 16) if ready else b""
        if not part:
            break  # It hangs, or has failed: whoever waits for its end will see.
        text += part
    return text


@dataclass
class Findings:
    """What a campaign came to."""

    kills: int = 0
    facts: int = 0
    acknowledged: int = 0
    refused: int = 0
    unknown: int = 0
    found: int = 0
    """Of the unknown, how many were there."""
    repeated: int = 0
    believed: int = 0
    """How many starts began from a snapshot."""
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.kills} kills, {len(self.problems)} problems; {self.facts:,} facts; "
            f"{self.acknowledged:,} acknowledged, {self.refused:,} refused, "
            f"{self.unknown:,} unknown of which {self.found:,} were there; "
            f"{self.repeated:,} sent again; {self.believed} starts from a snapshot"
        )


class Judge:
    """Compares what was said with what is there."""

    def __init__(self, findings: Findings, diary: Diary) -> None:
        self.findings, self.diary = findings, diary

    async def judge(self, folder: Path, life: int, recent_keys: Diary, random: Random) -> list[str]:
        """Open what is left, and return what is wrong with it."""
        try:
            async with opened(folder, SpedClock(START + (life + 1) * LIFE, speed=1)) as running:
                self.findings.believed += running.rankd.snapshotter.saved > 0
                problems = await self._judge(running, recent_keys, random)
                if random.random() < 0.3:
                    await running.rankd.save()
                return problems
        except RankdError as exc:
            return [f"{type(exc).__name__}: {exc}"]

    async def _judge(self, running: RunningEngine, recent_keys: Diary, random: Random) -> list[str]:
        facts = await everything(running)
        self.findings.facts = len(facts)
        problems = self.compare(facts)
        self._count(recent_keys, facts)
        again = self._to_be_sent_again(running.rankd, recent_keys, random)
        for intent in list(again):
            try:
                problems += await self._repeat(running.rankd, intent)
            except Refused as exc:  # As it would have been then: out of bounds.
                again.remove(intent)
                if self.diary.applied(intent.mark) == "yes":
                    problems.append(f"{intent.mark}: was taken, and is refused now: {exc}")
        facts = await everything(running)
        problems += self.compare(facts)
        marks = Counter(_actor(one.fact) for one in facts)
        for intent in again:
            if (there := marks[intent.mark]) != intent.facts:
                problems.append(f"{intent.mark}: sent again, {there} of {intent.facts} are there")
        problems += await wrong_sums(running.rankd, facts)
        problems += await wrong_segments(running.rankd, facts, "crowd-")
        async for _ in running.rankd.verify():
            pass
        return problems

    def compare(self, facts: list[Recorded]) -> list[str]:
        """Return where the ledger does not have what was said of it."""
        marks = Counter(_actor(one.fact) for one in facts)
        by_position = {one.position: one.fact for one in facts}
        problems = []
        for mark, intent in self.diary.intents.items():
            there, applied = marks[mark], self.diary.applied(mark)
            allowed = {"yes": {intent.facts}, "no": {0}, "unknown": {0, intent.facts}}[applied]
            if there not in allowed:
                problems.append(f"{mark}: applied {applied}, but {there} of {intent.facts} there")
            told = self.diary.told.get(mark)
            for position in told.positions if told is not None else ():
                fact = by_position.get(Position(position))
                if fact is None or _actor(fact) != mark:
                    problems.append(f"{mark}: is not at {position}")
        return problems

    def _count(self, recent_keys: Diary, facts: list[Recorded]) -> None:
        marks = {_actor(one.fact) for one in facts}
        for mark, intent in recent_keys.intents.items():
            applied = self.diary.applied(mark)
            self.findings.acknowledged += intent.facts * (applied == "yes")
            self.findings.refused += intent.facts * (applied == "no")
            self.findings.unknown += applied == "unknown"
            self.findings.found += applied == "unknown" and mark in marks

    def _to_be_sent_again(self, rankd: Engine, recent_keys: Diary, random: Random) -> list[Intent]:
        """Return all of the unknown, and some of the acknowledged, where their board still is."""
        keyed = [intent for intent in recent_keys.intents.values() if intent.items]
        unknown = [one for one in keyed if self.diary.applied(one.mark) == "unknown"]
        known = [one for one in keyed if self.diary.applied(one.mark) == "yes"]
        again = [*unknown, *random.sample(known, min(len(known), REPEATED))]
        again = [intent for intent in again if intent.board in rankd.state.boards]
        self.findings.repeated += len(again)
        return again

    async def _repeat(self, rankd: Engine, intent: Intent) -> list[str]:
        assert intent.board is not None
        told = self.diary.told.get(intent.mark)
        heard = [
            await rankd.submit(intent.board, intent.items, actor=intent.mark) for _ in range(2)
        ]
        first, again = [([a.position for a in one], [digest_of(a) for a in one]) for one in heard]
        problems = []
        if first != again or not all(answer.duplicate for answer in heard[1]):
            problems.append(f"{intent.mark}: two repeats were answered differently")
        if told is not None and told.applied == "yes" and (told.positions, told.receipts) != first:
            problems.append(f"{intent.mark}: was answered differently the first time")
        return problems


def _actor(fact: Fact) -> str | None:
    return getattr(fact, "actor", None)


async def everything(running: RunningEngine) -> list[Recorded]:
    facts: list[Recorded] = []
    while some := await running.ledger.read(
        after=facts[-1].position if facts else Position(0), limit=10_000
    ):
        facts += some
    return facts


async def wrong_sums(rankd: Engine, facts: list[Recorded]) -> list[str]:
    """Compare boards that add up with an addition."""
    problems = []
    for board in SUMS:
        if board not in rankd.state.boards:
            continue
        sums: Counter[str] = Counter()
        for one in facts:
            if isinstance(one.fact, ScoreSubmitted) and one.fact.board == board:
                added = one.fact.delta if one.fact.scores is None else one.fact.scores[0]
                sums[one.fact.player] += added or 0
        page = await rankd.reader.page(board, window="all", limit=1_000)
        if {one.player: one.scores[0] for one in page.standings} != dict(sums):
            problems.append(f"{board}: the sums are wrong")
    return problems


def campaign(
    *, kills: int, seed: int, folder: Path, boards: int = CROWD_BOARDS, quiet: bool = True
) -> Findings:
    """Kill so many lives on one folder, and say what was found."""
    findings, diary, random = Findings(), Diary(), Random(seed)
    judge = Judge(findings, diary)
    for life in range(kills):
        if not folder.exists():
            asyncio.run(prepare(folder, life, boards))
        text = kill_one(folder, life, seed, random, boards)
        recent_keys = Diary()
        for one in (diary, recent_keys):
            one.read(text)
        findings.kills += 1
        problems = asyncio.run(judge.judge(folder, life, recent_keys, random))
        findings.problems += [f"life {life}: {problem}" for problem in problems]
        if findings.problems:
            break
        if not quiet and (life + 1) % 100 == 0:
            _say(str(findings))
        if findings.facts > FACTS_MAX:
            shutil.rmtree(folder)
            diary.intents.clear()
            diary.told.clear()
    return findings


FACTS_MAX = 50_000
"""A folder is begun anew when it has so many: else each life would take longer than the last."""


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    recent_keys.GENERATION_KEYS = 8  # So that keys are on the move at all times.
    fold_parts.IN_MOVES_COST_MAX = 8  # So that a batch is folded in many parts.
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=time.time_ns() & 0xFFFF_FFFF)
    parser.add_argument("--boards", type=int, default=CROWD_BOARDS)
    given = parser.parse_args()
    said = f"--kills {given.kills} --seed {given.seed} --boards {given.boards}"
    _say(f"python -m tests.simulation.engine_kills {said}")
    with scratch_folder() as scratch:
        findings = campaign(
            kills=given.kills,
            seed=given.seed,
            folder=scratch / "engine",
            boards=given.boards,
            quiet=False,
        )
    for problem in findings.problems[:20]:
        _say(problem)
    _say(str(findings))
    return 1 if findings.problems else 0


if __name__ == "__main__":
    sys.exit(main())
