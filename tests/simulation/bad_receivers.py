"""Receivers of webhooks that fail, hang, lie and come back, while the service crashes and restarts.

An engine over SQLite resets, settles and pays windows; a webhook posts each event to a receiver
that answers as it likes. Now and then the engine ends without recording what it delivered, and is
opened anew. In the end the receiver has got every event of the ledger, those of the board in order
if repetitions are left out, and all repetitions of one event have one id and one body.

    python -m tests.simulation.bad_receivers --days 1000
"""

import argparse
import asyncio
import contextlib
import hashlib
import logging
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from tests.webhook_receiver import Got, receiving, response

from rankd.bootstrap import EngineConfig, engine
from rankd.core import webhook_delivery
from rankd.core.engine import Engine
from rankd.core.webhooks import EVENTS
from rankd.embedded import WallClock
from rankd.model.facts import Position

PLAYERS = [f"p{number}" for number in range(5)]
BOARD = {"windows": ["daily"], "rewards": [{"top_percent": 100, "give": {"gems": 1}}]}
PATIENCE_SECONDS = 300.0
SEND_SECONDS = 0.3
"""How long an answer may take here."""

SPEED = {
    "LOOK_SECONDS": 0.005,
    "RETRY_SECONDS_MIN": 0.005,
    "RETRY_SECONDS_MAX": 0.02,
    "RECORD_SECONDS": 0.2,
    "RECORD_SECONDS_MIN": 0.05,
    "SEND_SECONDS_MAX": SEND_SECONDS,
}
"""The times of deliveries, so that a campaign needs no hours."""


@dataclass
class Findings:
    """What a campaign found."""

    problems: list[str] = field(default_factory=list)
    events: int = 0
    posts: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    crashes: int = 0


class BadReceiver:
    """Answers as the dice say, and remembers what it took."""

    def __init__(self, dice: random.Random, findings: Findings) -> None:
        self._dice, self._findings = dice, findings
        self.arrived: list[tuple[str, bytes]] = []
        """The id and a digest of the body of each message."""
        self.kind = True
        """Whether it only ever takes what comes."""

    async def answer(self, got: Got) -> AsyncIterator[bytes]:
        """Yield the bytes of an answer."""
        digest = hashlib.sha256(got.body).digest()
        self.arrived.append((got.headers["webhook-id"], digest))
        moods = ["take"] * 6 + ["fail", "hang", "redirect", "huge", "garbage", "close", "lost"]
        mood = "take" if self.kind else self._dice.choice(moods)
        self._findings.answers[mood] += 1
        async for piece in self._pieces(mood):
            yield piece

    async def _pieces(self, mood: str) -> AsyncIterator[bytes]:
        if mood == "take":
            yield response(self._dice.choice((200, 201, 204)))
        elif mood == "fail":
            yield response(self._dice.choice((100, 199, 304, 400, 410, 429, 500, 503)))
        elif mood == "hang":
            await asyncio.sleep(2 * SEND_SECONDS)
        elif mood == "redirect":
            yield response(302, b"", "location: http://127.0.0.1:9/elsewhere")
        elif mood == "huge":
            yield b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n" + b"x" * 100_000
        elif mood == "garbage":
            yield bytes(self._dice.randrange(256) for _ in range(64))


async def live(days: int, seed: int, tell: Callable[[str], object] = lambda _: None) -> Findings:
    """Live so many days, and compare what arrived with the ledger."""
    findings, dice = Findings(), random.Random(seed)
    bad = BadReceiver(dice, findings)
    with tempfile.TemporaryDirectory() as folder, _quick():
        place = EngineConfig(Path(folder), webhook_private_addresses=True)
        async with receiving(bad.answer) as receiver:
            done = 0
            while done < days:
                some = min(days - done, dice.randrange(1, 20))
                crash = done == 0 or dice.random() < 0.5
                async with _opened(place, crash=crash) as rankd:
                    if not done:
                        await rankd.define("b", BOARD)
                        await rankd.webhooks.set("hook", url=receiver.url, events=EVENTS)
                    bad.kind = False
                    for number in range(done, done + some):
                        await _day(rankd, dice, number)
                        await asyncio.sleep(dice.random() / 8)
                done, findings.crashes = done + some, findings.crashes + crash
                tell(f"{done} days, {len(bad.arrived)} posts, {findings.crashes} crashes")
            bad.kind = True
            async with _opened(place, crash=False) as rankd:
                await _delivered(rankd)
                expected = await _events(rankd)
    _compare(expected, bad.arrived, findings)
    return findings


async def _day(rankd: Engine, dice: random.Random, number: int) -> None:
    """Play, end a window, settle it and, now and then, correct and settle it again."""
    await rankd.submit("b", [(player, dice.randrange(100)) for player in PLAYERS])
    body = {"window": "daily", "reason": f"day {number}"}
    done = await rankd.reset_window("b", body)
    settling = {"window": done.window.id, "reason": "paid"}
    await rankd.settle_window("b", settling)
    if dice.random() < 0.3:
        await rankd.corrections.retract("b", {"position": int(rankd.position) - 8})
        await rankd.settle_window("b", settling)


async def _events(rankd: Engine) -> list[str]:
    """Return the ids of all events behind the webhook, as the ledger has them."""
    start = rankd.state.webhooks["hook"].created
    reader = rankd.webhooks.reader
    found, after = [], start
    while True:
        some, through = await reader.next(after, lambda *_: True)
        found += [one.event.id for one in some]
        if through == after:
            return found
        after = Position(through)


async def _delivered(rankd: Engine) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while rankd.webhooks.is_waiting(rankd.state.webhooks["hook"]):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def _compare(expected: list[str], arrived: list[tuple[str, bytes]], findings: Findings) -> None:
    """Note what was lost, out of order, or not the same each time."""
    findings.events, findings.posts = len(expected), len(arrived)
    order = list(dict.fromkeys(id for id, _ in arrived))
    if lost := set(expected) - set(order):
        findings.problems.append(f"{len(lost)} events are lost, such as {min(lost)}")
    if more := set(order) - set(expected):
        findings.problems.append(f"{len(more)} events never were, such as {min(more)}")
    if order != expected and not lost and not more:
        findings.problems.append("events came out of order")
    bodies: dict[str, bytes] = {}
    for id, digest in arrived:
        if bodies.setdefault(id, digest) != digest:
            findings.problems.append(f"{id} came with two bodies")


@contextlib.asynccontextmanager
async def _opened(place: EngineConfig, *, crash: bool) -> AsyncIterator[Engine]:
    async def nothing(_self: object, *_: object, **__: object) -> None:
        """Record nothing, as a process does that is killed."""

    with contextlib.ExitStack() as stack:
        async with engine(
            place, clock=WallClock(), reading=nullcontext(), tell=lambda _: None
        ) as running:
            yield running.rankd
            if crash:
                delivery = webhook_delivery.WebhookDelivery
                stack.enter_context(patch.object(delivery, "_release", nothing))


@contextlib.contextmanager
def _quick() -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for name, value in SPEED.items():
            stack.enter_context(patch.object(webhook_delivery, name, value))
        yield


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Run a campaign; end with an error if an event was lost or came out of order."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args()
    logging.disable(logging.ERROR)
    findings = asyncio.run(live(given.days, given.seed, _say))
    _say(
        f"seed {given.seed}: {findings.events} events, {findings.posts} posts, "
        f"{findings.crashes} crashes, answers {dict(findings.answers)}"
    )
    for problem in findings.problems[:20]:
        sys.stderr.write(f"{problem}\n")
    return 1 if findings.problems else 0


if __name__ == "__main__":
    sys.exit(main())
