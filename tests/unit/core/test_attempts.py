"""Boards that take a bounded number of submissions of a player in each window."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.unit.core.doubles import (
    DAY,
    NOON,
    FaultyLedger,
    MovesIndex,
    SetClock,
    SharedLedger,
    bare,
    engine,
    kept_in,
    verified,
)

from rankd.adapters.memory.index import NativeIndex
from rankd.adapters.memory.ledger import MemoryLedger
from rankd.adapters.memory.shared_index import MemorySharedIndex, SharedMemory
from rankd.core import mass_retraction
from rankd.core.assembly import running
from rankd.core.attempts import AttemptCounts
from rankd.core.cluster.recovery import SharedHome
from rankd.core.engine import Engine
from rankd.core.recovery import IndexHome
from rankd.core.state import Savepoint
from rankd.model.receipt import Receipt

pytestmark = pytest.mark.anyio

LIMIT = 3
WINDOWS = ["all", "daily"]
BOARD: dict[str, Any] = {"windows": WINDOWS, "limits": {"attempts_max": LIMIT}}


async def submit(rankd: Engine, player: str, score: int, **more: object) -> Receipt:
    (answer,) = await rankd.submit("b", [{"player": player, "score": score, **more}])
    assert answer.receipt is not None
    return answer.receipt


def codes(receipt: Receipt) -> list[str | None]:
    return [one.code for one in receipt.windows.values()]


@pytest.fixture(params=[NativeIndex, MovesIndex])
def index(request: pytest.FixtureRequest) -> Callable[[], IndexHome]:
    return lambda: IndexHome(request.param(), None)


# --------------------------------------------------------------------- which are taken


async def test_each_window_takes_so_many_submissions_of_a_player(
    index: Callable[[], IndexHome],
) -> None:
    clock, ledger = SetClock(), FaultyLedger()
    async with engine(ledger, clock, index) as rankd:
        await rankd.define("b", BOARD)
        for score in (5, 9, 7):
            assert codes(await submit(rankd, "ann", score)) == [None, None]
        late = await submit(rankd, "ann", 99)
        assert late.rejected
        assert codes(late) == ["attempts_exhausted"] * 2
        assert late.score == 9
        assert rankd.rejection(late).code == "attempts_exhausted"
        assert codes(await submit(rankd, "bob", 1)) == [None, None]
        clock.time += DAY
        today = await submit(rankd, "ann", 20)
        assert not today.rejected
        assert codes(today) == ["attempts_exhausted", None]
        assert [one.scores for one in today.windows.values()] == [(9,), (20,)]
        await verified(rankd)


async def test_an_attempt_too_many_is_named_though_a_rule_would_hold_it(
    index: Callable[[], IndexHome],
) -> None:
    async with engine(FaultyLedger(), SetClock(), index) as rankd:
        rules = [{"rule": "submissions_per_minute", "max": 1, "then": "hold"}]
        await rankd.define("b", {"limits": {"attempts_max": 1}, "windows": ["all"], "rules": rules})
        await submit(rankd, "ann", 5)
        late = await submit(rankd, "ann", 9)
        assert late.rejected
        assert rankd.rejection(late).code == "attempts_exhausted"


async def test_a_batch_is_cut_off_where_the_attempts_end(index: Callable[[], IndexHome]) -> None:
    async with engine(FaultyLedger(), SetClock(), index) as rankd:
        await rankd.define("b", BOARD)
        await rankd.define("free", {"windows": ["all"]})
        items = [{"player": f"p{n % 2}", "score": n} for n in range(10)]
        bodies = [(name, item) for item in items for name in ("b", "free")]
        answers = await rankd.submit_each(bodies)
        receipts = [one.receipt for one in answers]  # type: ignore[union-attr]
        assert [one.rejected for one in receipts if one and one.board == "b"] == (
            [False] * 6 + [True] * 4
        )
        assert not any(one.rejected for one in receipts if one and one.board == "free")
        page = await rankd.reader.page("b")
        assert [scores for (scores,) in page.scores] == [5, 4]
        await verified(rankd)


async def test_repetitions_adjustments_and_banned_players_make_no_attempt() -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", BOARD)
        for _ in range(5):
            assert not (await submit(rankd, "ann", 1, key="k")).rejected
        for _ in range(5):
            answer = await rankd.corrections.adjust(
                "b", {"player": "ann", "delta": 1, "reason": "x"}
            )
            assert answer.receipt is not None
            assert not answer.receipt.rejected
        assert not (await submit(rankd, "ann", 8)).rejected
        assert not (await submit(rankd, "ann", 9)).rejected
        assert (await submit(rankd, "ann", 10)).rejected
        adjusted = await rankd.corrections.adjust(
            "b", {"player": "ann", "score": 50, "reason": "the operator says so"}
        )
        assert adjusted.receipt is not None
        assert adjusted.receipt.score == 50
        await verified(rankd)


async def test_a_submission_that_a_rule_refuses_is_no_attempt_and_a_held_one_is(
    index: Callable[[], IndexHome],
) -> None:
    rules = [
        {"rule": "seconds_between", "min": 5, "then": "refuse"},
        {"rule": "first_score", "max": 50, "then": "hold"},
    ]
    clock = SetClock()
    async with engine(FaultyLedger(), clock, index) as rankd:
        await rankd.define("b", {**BOARD, "rules": rules})
        held = await submit(rankd, "ann", 60)
        assert held.verdict == "held"
        for _ in range(4):
            assert (await submit(rankd, "ann", 1)).rejected
        for score in (2, 3):
            clock.time += 6_000_000
            assert not (await submit(rankd, "ann", score)).rejected
        clock.time += 6_000_000
        assert codes(await submit(rankd, "ann", 4)) == ["attempts_exhausted"] * 2
        await rankd.corrections.decide_review(str(held.position), approved=True)
        standing = await rankd.reader.standing("b", "ann")
        assert standing is not None
        assert standing.scores == (60,)
        await rankd.redefine("b", {**BOARD, "rule": "sum", "rules": rules})
        standing = await rankd.reader.standing("b", "ann")
        assert standing is not None
        assert standing.scores == (65,)
        await verified(rankd)


async def test_a_retracted_submission_stays_an_attempt_and_a_refused_one_never_counts() -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", BOARD)
        for score in (5, 9, 7):
            await submit(rankd, "ann", score)
        await submit(rankd, "ann", 99)
        await rankd.corrections.retract("b", {"player": "ann"})
        assert await rankd.reader.standing("b", "ann") is None
        assert (await submit(rankd, "ann", 1)).rejected
        effect = await rankd.corrections.retract("b", {"player": "ann"})
        assert effect.submissions == 0
        await verified(rankd)


async def test_a_limit_counts_from_its_definition_and_lasts_through_others() -> None:
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {"windows": WINDOWS})
        for score in range(5):
            await submit(rankd, "ann", score)
        await rankd.redefine("b", BOARD)
        for score in (5, 9, 7):
            assert not (await submit(rankd, "ann", score)).rejected
        assert (await submit(rankd, "ann", 99)).rejected
        await rankd.redefine("b", {**BOARD, "rule": "sum"})
        standing = await rankd.reader.standing("b", "ann")
        assert standing is not None
        assert standing.scores == (31,)
        assert (await submit(rankd, "ann", 99)).rejected
        await rankd.redefine("b", {**BOARD, "rule": "sum", "limits": {"attempts_max": 4}})
        assert not (await submit(rankd, "ann", 1)).rejected
        assert (await submit(rankd, "ann", 1)).rejected
        await rankd.redefine("b", {"windows": WINDOWS, "rule": "sum"})
        assert not rankd.state.attempts.has("b") or not list(rankd.state.attempts.parts(10))
        await verified(rankd)


async def test_refusals_of_both_kinds_are_final() -> None:
    """A total that left its bounds is an attempt, and neither it nor one too many ever counts."""
    bounds = {"attempts_max": LIMIT, "score_max": 10}
    async with engine(FaultyLedger()) as rankd:
        await rankd.define("b", {"rule": "sum", "windows": WINDOWS, "limits": bounds})
        found = [codes(await submit(rankd, "ann", score))[0] for score in (6, 7, 3, 1)]
        assert found == [None, "score_out_of_bounds", None, "attempts_exhausted"]
        more = {**bounds, "attempts_max": LIMIT + 1}
        await rankd.redefine("b", {"rule": "sum", "windows": WINDOWS, "limits": more})
        assert codes(await submit(rankd, "ann", 1))[0] is None
        await rankd.redefine("b", {**BOARD, "rule": "sum"})
        for corrected in (False, True):
            standing = await rankd.reader.standing("b", "ann")
            assert standing is not None
            assert standing.scores == (10,)
            await verified(rankd)
            if not corrected:
                await submit(rankd, "bob", 1)
                await rankd.corrections.retract("b", {"player": "bob"})
                await rankd.redefine("b", {**BOARD, "rule": "best"})
                await rankd.redefine("b", {**BOARD, "rule": "sum"})


# --------------------------------------------------------------------- state of them


async def test_attempts_outlast_a_restart_with_and_without_a_snapshot(tmp_path: Path) -> None:
    clock, ledger = SetClock(), MemoryLedger()
    for build, save in ((kept_in(tmp_path), True), (kept_in(tmp_path), False), (bare, False)):
        async with engine(ledger, clock, build) as rankd:
            if not rankd.state.boards:
                await rankd.define("b", BOARD)
                for score in (1, 2, 3):
                    await submit(rankd, "ann", score)
            assert (await submit(rankd, "ann", 9)).rejected
            if save:
                await rankd.save()


async def test_closed_windows_leave_nothing_behind() -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", BOARD)
        for _ in range(5):
            await submit(rankd, "ann", 1)
            clock.time += DAY
        await rankd.sealer.turn()
        assert list(rankd.state.attempts.parts(10)) == [("b", "all", {"ann": 3})]
        await rankd.retire("b")
        assert not list(rankd.state.attempts.parts(10))


async def test_a_savepoint_takes_attempts_back() -> None:
    clock = SetClock()
    async with engine(FaultyLedger(), clock) as rankd:
        await rankd.define("b", BOARD)
        await submit(rankd, "ann", 1)
        before = list(rankd.state.attempts.parts(10))
        mark = Savepoint(rankd.state)
        await submit(rankd, "ann", 1)
        await submit(rankd, "bob", 1)
        clock.time += DAY
        await submit(rankd, "bob", 1)
        assert list(rankd.state.attempts.parts(10)) != before
        mark.go_back()
        assert list(rankd.state.attempts.parts(10)) == before


def test_counts_are_parted_and_put_together() -> None:
    attempts = AttemptCounts()
    for number in range(5):
        for _ in range(number + 1):
            attempts.take("b", {"all": ("all",)}, f"p{number}", 9, None)
    parts = list(attempts.parts(2))
    assert [len(players) for _, _, players in parts] == [2, 2, 1]
    again = AttemptCounts()
    for part in parts:
        again.extend(*part)
    assert again.most("b", {"all": ("all",)}, "p4") == 5
    assert again.most("b", {"daily": ("daily:1",)}, "p4") == again.most("c", {}, "p4") == 0


# ----------------------------------------------------------------- against a model


class Game:
    """A random game, and the entries that it should come to, from scratch."""

    def __init__(self, nodes: list[Engine], clock: SetClock, seed: int) -> None:
        self.nodes, self.clock, self.dice = nodes, clock, Random(seed)
        self.rule, self.limit = "best", LIMIT
        self.taken: list[tuple[int, str, str, int]] = []
        """Positions, windows, players and scores that count, retracted ones left out."""
        self.attempts: dict[tuple[str, str], int] = {}

    async def play(self, steps: int) -> None:
        for _ in range(steps):
            await self.dice.choices(
                [self.submit, self.pass_time, self.retract, self.redefine], [12, 1, 2, 1]
            )[0]()
        for node in self.nodes:
            await node._writer.see_others()
            for window in WINDOWS:
                page = await node.reader.page("b", window=window)
                found = dict(zip(page.players, (scores for (scores,) in page.scores), strict=True))
                assert found == self.expected(self.id_of(window)), (window, self.rule)

    def node(self) -> Engine:
        return self.dice.choice(self.nodes)

    def id_of(self, window: str) -> str:
        day = (self.clock.time - NOON) // DAY
        return window if window == "all" else f"daily:2026-11-{14 + day}"

    async def submit(self) -> None:
        count = self.dice.choice([1, 1, 2, 5])
        items = [
            {"player": self.dice.choice("abcd"), "score": self.dice.randint(1, 9)}
            for _ in range(count)
        ]
        answers = await self.node().submit("b", items)
        for item, answer in zip(items, answers, strict=True):
            assert answer.receipt is not None
            player, score = item["player"], item["score"]
            for window in WINDOWS:
                place = self.id_of(window), str(player)
                refused = self.attempts.get(place, 0) >= self.limit
                code = answer.receipt.windows[window].code
                assert code == ("attempts_exhausted" if refused else None)
                if not refused:
                    self.attempts[place] = self.attempts.get(place, 0) + 1
                    self.taken.append((answer.position, *place, int(str(score))))

    async def pass_time(self) -> None:
        self.clock.time += DAY
        await self.node().sealer.turn()

    async def retract(self) -> None:
        body: dict[str, Any] = {"player": self.dice.choice("abcd")}
        gone = {one[0] for one in self.taken if one[2] == body["player"]}
        if self.dice.random() < 0.5 and self.taken:
            body = {"since": "2026-11-14T00:00:00Z", "until": "2026-11-14T12:00:01Z"}
            today = self.id_of("daily")
            gone = set() if today != "daily:2026-11-14" else {one[0] for one in self.taken}
            if not gone:
                return
        await self.node().corrections.retract("b", body)
        self.taken = [one for one in self.taken if one[0] not in gone]

    async def redefine(self) -> None:
        self.rule = self.dice.choice(["best", "sum", "latest", "first"])
        self.limit = self.dice.choice([2, 3, 4])
        definition = {**BOARD, "rule": self.rule, "limits": {"attempts_max": self.limit}}
        await self.node().redefine("b", definition)

    def expected(self, window: str) -> dict[str, int]:
        scores: dict[str, list[int]] = {}
        for _, there, player, score in self.taken:
            if there == window:
                scores.setdefault(player, []).append(score)
        fold: dict[str, Callable[[list[int]], int]] = {
            "best": max,
            "sum": sum,
            "latest": lambda some: some[-1],
            "first": lambda some: some[0],
        }
        return {player: fold[self.rule](some) for player, some in scores.items()}


def node(ledger: SharedLedger, clock: SetClock, memory: SharedMemory | None) -> Any:
    home = None if memory is None else SharedHome(MemorySharedIndex(memory))
    opened: AbstractAsyncContextManager[Engine] = running(
        ledger=ledger, build=bare, clock=clock, reading=nullcontext(), shared=home
    )
    return opened


async def test_a_node_that_comes_later_knows_the_attempts() -> None:
    clock, ledger, memory = SetClock(), SharedLedger(), SharedMemory()
    async with node(ledger, clock, memory) as one:
        await one.define("b", BOARD)
        for score in (1, 2, 3):
            await submit(one, "ann", score)
        async with node(ledger, clock, memory) as other:
            assert (await submit(other, "ann", 9)).rejected
            assert list(other.state.attempts.parts(10)) == list(one.state.attempts.parts(10))


@pytest.mark.parametrize("mass", [False, True])
@pytest.mark.parametrize("seed", range(8))
async def test_one_process_agrees_with_the_model(
    seed: int, mass: bool, index: Callable[[], IndexHome], monkeypatch: pytest.MonkeyPatch
) -> None:
    if mass:
        monkeypatch.setattr(mass_retraction, "REFOLDED_PLAYERS_MAX", 0)
    clock = SetClock()
    async with engine(FaultyLedger(), clock, index) as rankd:
        await rankd.define("b", BOARD)
        await Game([rankd], clock, seed).play(40)
        await verified(rankd)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("seed", range(4))
async def test_several_nodes_agree_with_the_model(seed: int, shared: bool) -> None:
    clock, ledger = SetClock(), SharedLedger()
    memory = SharedMemory() if shared else None
    async with AsyncExitStack() as stack:
        nodes = [await stack.enter_async_context(node(ledger, clock, memory)) for _ in range(2)]
        await nodes[0].define("b", BOARD)
        await Game(nodes, clock, seed).play(30)
        for one in nodes:
            await verified(one)
