"""The whole HTTP API, under any history, says what a list folded from scratch says.

Method: the machine that drives the engine in a program (``tests.property.test_embedded_api``)
drives a service over real sockets instead, through a facade that holds every answer to the
documented shapes (``api_facade``). What only HTTP has is added: batches with wrong items, receipts
as they are sent, profiles, histories, the audit trail, windows and boards as they are shown, tags.

The same runs are made three times: with the fast lane, without it, and against a service of two
processes, where any of them answers and each is asked for the position of the last write.

``python -m tests.http.api_campaign`` looks further than a commit does.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.http.api_facade import (
    READ,
    Api,
    HttpRanks,
    broken_rules,
    check,
    percentile_of,
    same,
    shown,
)
from tests.http.clocked import PATIENCE_SECONDS, FileClock, serving
from tests.property.embedded_corrections import shown_reason
from tests.property.embedded_judge import same_reasons
from tests.property.embedded_model import (
    DAY,
    Board,
    Definition,
    Rules,
    Said,
    Scores,
    Told,
    Window,
    World,
    next_start,
    ranking,
    scores_of,
)
from tests.property.embedded_strategies import MAIN, NO_PLAYER, PLAYERS, SIDE, bodies
from tests.property.test_embedded_api import EmbeddedMachine, SetClock

from rankd.api.server import new_event_loop
from rankd.app import service
from rankd.errors import RankdError, RuleBroken, UnknownPlayer
from rankd.settings import Settings

SEED = 16
EXAMPLES = 5
STEPS = 20
"""What a commit looks at, of each way to serve: some ten seconds."""

EXAMPLES_OF_PROCESSES = 3
"""To start several processes takes as long as all that is done with them. The first run of a seed
is always the simplest there is."""


# ------------------------------------------------------------------------------ serving


@contextmanager
def serving_here(folder: Path, clock: SetClock, **given: Any) -> Iterator[int]:
    """Serve a folder from a thread of this process, as the program does; yield the port."""
    loop = new_event_loop()
    stop, ready = asyncio.Event(), threading.Event()
    ports: list[int] = []

    def tell(_host: str, port: int) -> None:
        ports.append(port)
        ready.set()

    def run() -> None:
        wanted = Settings(data=str(folder), port=0, **given)
        try:
            loop.run_until_complete(
                service(wanted, clock=clock, tell=lambda _: None, ready=tell, stop=stop)
            )
        finally:
            ready.set()

    thread = threading.Thread(target=run, name="service")
    thread.start()
    try:
        assert ready.wait(PATIENCE_SECONDS)
        (port,) = ports
        yield port
    finally:
        if thread.is_alive():
            loop.call_soon_threadsafe(stop.set)
        thread.join(PATIENCE_SECONDS)
        loop.close()


class SharedClock(SetClock):
    """The machine's clock, in a file that other processes read."""

    def __init__(self, path: Path) -> None:
        self._file = FileClock(path)
        super().__init__()

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "time":
            self._file.set(value)


# ---------------------------------------------------------------------------- the model


@dataclass
class Sent:
    """A submission that was recorded, as it was sent."""

    said: Said
    rules: Rules
    body: Definition
    position: int | None = None
    """None where the answer did not tell: it counts nowhere."""


def text_of(instant: int | None) -> str | None:
    """A time as the API writes it."""
    if instant is None:
        return None
    whole = datetime.fromtimestamp(instant // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    micros = instant % 1_000_000
    return f"{whole}.{micros:06}Z" if micros else f"{whole}Z"


def score_of(scores: tuple[int, ...] | None, decimals: int) -> int | Decimal | None:
    return None if scores is None else shown(scores[0], decimals)


def columns_in(rules: Rules, scores: Scores | None) -> dict[str, Any]:
    """What a receipt says of a player's columns, on boards that have several."""
    names = [name for name, _ in rules.columns]
    if len(names) == 1:
        return {}
    numbers = [None] * len(names) if scores is None else scores
    shown_ones = [None if one is None else shown(one, rules.decimals) for one in numbers]
    return {"columns": dict(zip(names, shown_ones, strict=True))}


def receipt_of(told: Told, rules: Rules, position: int, *, duplicate: bool) -> dict[str, Any]:
    """The answer to a submission, field by field, on a board that had these rules."""
    assert told.first is not None
    first = told.windows[told.first]
    share = None if first.rank is None else percentile_of(first.rank, first.total)
    return {
        "board": told.board,
        "player": told.player,
        "verdict": first.verdict,
        "score": score_of(first.scores, told.decimals),
        "previous_score": score_of(first.previous_scores, told.decimals),
        "rank": first.rank,
        "previous_rank": first.previous_rank,
        "rank_change": first.rank_change,
        "total": first.total,
        "percentile": share,
        "position": position,
        "windows": {
            name: {
                "window": each.window,
                "score": score_of(each.scores, told.decimals),
                "rank": each.rank,
                "previous_rank": each.previous_rank,
                "rank_change": each.rank_change,
                "total": each.total,
                "verdict": each.verdict,
                **columns_in(rules, each.scores),
            }
            for name, each in told.windows.items()
        },
        **({"duplicate": True} if duplicate else {}),
        **({"review": str(position)} if first.verdict == "held" else {}),
        **({} if told.expires is None else {"expires_at": text_of(told.expires)}),
        **columns_in(rules, first.scores),
    }


@dataclass
class Awaited:
    """What a submission is to be answered."""

    codes: frozenset[str] = frozenset()
    """Why it leaves no trace, if it does not; where several things are wrong, either."""
    told: Told | None = None
    duplicate: bool = False
    sent: Sent | None = None


KEPT_IN_HISTORY: tuple[str, ...] = ("key", "build", "metadata")


def history_item(sent: Sent) -> dict[str, Any]:
    """What a player's history says of it, but for its position."""
    rules, body = sent.rules, sent.body
    kind = "score_adjusted" if sent.said.kind == "adjustment" else "score_submitted"
    item: dict[str, Any] = {"at": text_of(sent.said.at), "kind": kind}
    if "delta" in body:
        item["delta"] = shown(rules.scaled(body["delta"]), rules.decimals)
    else:
        scores = [shown(rules.scaled(each), rules.decimals) for each in scores_of(rules, body)]
        item["score"] = scores[0]
        if len(scores) > 1:
            names = [name for name, _ in rules.columns]
            item["columns"] = dict(zip(names, scores, strict=True))
    given: Definition = {name: body[name] for name in KEPT_IN_HISTORY if name in body}
    return {**item, **given}


def next_turn(world: World, name: str, now: int) -> int | None:
    """When the next window of a board opens or closes."""
    board = world.boards[name]
    turns = [window.end for window in board.open.values() if window.end is not None]
    absent = [each for each in board.rules.windows if each not in board.open]
    openings = [next_start(each, now) for each in absent]
    return min([*turns, *(start for start in openings if start is not None)], default=None)


# --------------------------------------------------------------------------- the machine

WRONG_ITEMS: list[tuple[Definition, str]] = [
    ({"board": "none", "player": "ann", "score": 1}, "unknown_board"),
    ({"board": "", "player": "ann", "score": 1}, "unknown_board"),
    ({"player": "ann", "score": 1}, "unknown_board"),
    ({"board": SIDE, "player": "", "score": 1}, "invalid_submission"),
    ({"board": SIDE, "player": "ann"}, "invalid_submission"),
    ({"board": SIDE, "player": "ann", "score": "1e"}, "invalid_submission"),
    ({"board": SIDE, "player": "ann", "score": True}, "invalid_submission"),
    ({"board": SIDE, "player": "ann", "score": 1, "delta": 1}, "invalid_submission"),
    ({"board": SIDE, "player": "ann", "score": 1, "other": 1}, "invalid_submission"),
    ({"board": SIDE, "player": "ann", "score": Decimal("0.5")}, "invalid_submission"),
]


def is_broken_by(told: Told, found: Sequence[Any]) -> bool:
    """Whether the rules named are those that a submission breaks, with their numbers."""
    return same_reasons(found, [shown_reason(each, told.decimals) for each in told.reasons])


WITHOUT_FIELDS = ("unknown_board", "player_banned", "window_frozen", "run_used")
"""Refusals that no field of a submission is the cause of."""


NO_MOVEMENT = {"movement_entries_max": 0}
"""The ranks of the start of the day are made beside the requests: two reads of one position could
differ by them. ``test_movement`` has them made between reads, and compares every one."""


class ApiMachine(EmbeddedMachine):
    """The fast lane, in this process."""

    ranks: Any
    boards: Any
    figures: ClassVar[Counter[str]] = Counter()
    processes: ClassVar[int] = 1
    given: ClassVar[dict[str, Any]] = NO_MOVEMENT

    def __init__(self) -> None:
        self.sent: dict[int, Sent] = {}
        self.restarts = 0
        super().__init__()

    def _open(self) -> Any:
        port = self.opened.enter_context(serving_here(self.folder, self.clock, **self.given))
        return self._reach(port)

    def _reach(self, port: int) -> HttpRanks:
        api = Api(port, processes=self.processes, figures=self.figures)
        self.opened.callback(api.close)
        return HttpRanks(api)

    take_care = None  # type: ignore[assignment]  # Nobody can ask for it over HTTP.
    verifier_answers = None  # type: ignore[assignment]  # No function is one there.

    @precondition(lambda self: self.processes == 1 or self.restarts == 0)
    @rule(step=st.sampled_from([0, 0, DAY]))
    def restart(self, step: int) -> None:
        self.restarts += 1
        super().restart(save=False, step=step)

    # ---------------------------------------------------------------------- submissions

    def _awaited(self, name: str, body: Definition) -> Awaited:
        """Submit to the model."""
        self.figures["submissions"] += 1
        first = self.world.keys.get((name, body.get("key", "")))
        refusal = self._refusal(name, body)
        if refusal is not None:
            return Awaited(codes=frozenset((refusal, *self._said_instead(name, body))))
        told, duplicate = self._told(name, body)
        if duplicate:
            assert first is not None
            return Awaited(told=told, duplicate=True, sent=self._first_sent(first.board, body))
        board = self.world.boards[name]
        sent = Sent(board.history[-1], board.rules, dict(body))
        self.sent[sent.said.number] = sent
        return Awaited(told=told, sent=sent)

    def _first_sent(self, board: Board, body: Definition) -> Sent:
        found = [self.sent[said.number] for said in board.history if said.kind != "metadata"]
        (first,) = [sent for sent in found if sent.body.get("key") == body["key"]]
        return first

    def _expect(self, name: str, body: Definition, submit: Any) -> None:
        awaited = self._awaited(name, body)
        if awaited.codes:
            with pytest.raises(RankdError) as raised:
                submit()
            assert raised.value.code in awaited.codes, (raised.value, awaited.codes)
            return
        assert awaited.told is not None
        if awaited.told.refused is None:
            self._compare_told(submit(), awaited)
            return
        with pytest.raises(RankdError) as rejected:  # Why is told in words only.
            submit()
        assert rejected.value.code == awaited.told.refusal_code
        if isinstance(rejected.value, RuleBroken):
            assert is_broken_by(awaited.told, rejected.value.reasons)

    def _compare_told(self, found: Any, awaited: Awaited) -> None:
        self.figures["receipts"] += 1
        position, sent = found["position"], awaited.sent
        assert sent is not None
        assert awaited.told is not None
        if awaited.duplicate:
            assert sent.position == position
        else:
            assert self.last_position < position <= self.ranks.position
            self.last_position = sent.position = position
            self.world.positions[sent.said.number] = position
        expected = receipt_of(awaited.told, sent.rules, position, duplicate=awaited.duplicate)
        assert same(found, expected), (found, expected)

    @rule(data=st.data(), wrong=st.lists(st.sampled_from(WRONG_ITEMS), max_size=2))
    def submit_many(self, data: st.DataObject, wrong: list[tuple[Definition, str]]) -> None:
        """One commit, each judged for itself; what is wrong is told in its place."""
        names = data.draw(st.lists(st.sampled_from([MAIN, MAIN, SIDE]), max_size=5), "boards")
        items: list[Definition] = []
        for name in names:
            body = data.draw(bodies(self.world.boards[name].rules), "item")
            if not self._is_unanswerable(name, body):
                items.append({"board": name, **body})
        codes: dict[int, str] = {}
        for item, code in wrong:
            place = data.draw(st.integers(0, len(items)), "place of a wrong one")
            codes = {at + (at >= place): what for at, what in codes.items()} | {place: code}
            items.insert(place, item)
        if items:
            self._submit_batch(items, codes)

    def _submit_batch(self, items: list[Definition], codes: dict[int, str]) -> None:
        awaited = []
        for place, item in enumerate(items):
            if place in codes:
                awaited.append(Awaited(codes=frozenset([codes[place]])))
            else:
                body = {name: value for name, value in item.items() if name != "board"}
                awaited.append(self._awaited(item["board"], body))
        results = self.ranks.batch(items)
        assert len(results) == len(items)
        for result, expected in zip(results, awaited, strict=True):
            told = expected.told
            if told is not None and told.refused is None:
                self._compare_told(result, expected)
                continue
            # As alone: why it was rejected is told in words only.
            allowed = expected.codes if told is None else {told.refusal_code}
            self.figures["refused in batches"] += 1
            shape = {"code": str, "detail": str, "applied": str, "verdict": str}
            check(result, shape, "errors")
            assert (result["verdict"], result["applied"]) == ("refused", "no")
            assert result["code"] in allowed
            assert ("errors" in result) == (result["code"] not in WITHOUT_FIELDS)
            if result["code"] == RuleBroken.code:
                assert told is not None
                assert is_broken_by(told, broken_rules(result["errors"]))

    # -------------------------------------------------------------------------- players

    @rule(
        player=st.sampled_from(PLAYERS),
        said=st.fixed_dictionaries(
            {},
            optional={
                "name": st.none() | st.sampled_from(["Ann", "Ëve"]),
                "attributes": st.none() | st.sampled_from([{}, {"region": "eu"}, {"level": 3}]),
                "friends": st.none() | st.lists(st.sampled_from(PLAYERS), max_size=3),
            },
        ).filter(bool),
    )
    def change_profile(self, player: str, said: dict[str, Any]) -> None:
        """What is not named stays."""
        self._advanced(self.ranks.change_profile(player, **said))
        world = self.world
        if "name" in said or "attributes" in said:
            name = said.get("name", world.names.get(player))
            known = said.get("attributes", world.attributes.get(player))
            world.profile(player, name, known or {})
        if "friends" in said:
            world.set_friends(player, said["friends"] or [])

    @rule(player=st.sampled_from(PLAYERS))
    def erase(self, player: str) -> None:
        super().erase(player)
        for sent in self.sent.values():
            if sent.said.player == player:
                sent.body.pop("metadata", None)

    @invariant()
    def every_profile_agrees(self) -> None:
        self.figures["steps"] += 1
        world = self.world
        for player in [*PLAYERS, NO_PLAYER]:
            states = world.states_of(player)
            profiled = player in world.names or player in world.attributes
            if profiled or player in world.friends or states:
                known = self.ranks.player(player)
                told = [
                    (one["state"], one["boards"] and sorted(one["boards"]), one["until"])
                    for one in known.pop("states")
                ]
                assert told == [
                    (
                        one.state,
                        None if one.boards is None else sorted(one.boards),
                        text_of(one.until),
                    )
                    for one in states
                ]
                assert {name: known[name] for name in known if name not in READ} == {
                    "state": states[-1].state if states else "active",
                    "reason": "a test" if states else None,
                    "player": player,
                    "name": world.names.get(player),
                    "attributes": world.attributes.get(player, {}),
                    "friends": list(world.friends.get(player, ())),
                    "visibility": "public",
                }
            else:
                with pytest.raises(UnknownPlayer):
                    self.ranks.player(player)

    def _seen_reviews(self, name: str) -> list[tuple[str, str, list[Any], int]]:
        return [
            (
                one["player"],
                one["state"],
                [(each["rule"], each["observed"], each["limit"]) for each in one["reasons"]],
                one["position"],
            )
            for one in self.ranks.reviews(name)
        ]

    # ----------------------------------------------------------------- boards and windows

    @invariant()
    def every_edition_agrees(self) -> None:
        """A closed window as it was before each correction that changed it."""
        for name, model in self.world.boards.items():
            for archive in model.closed:
                for number, entries in enumerate(archive.editions, start=1):
                    expected = ranking(archive.rules, self.world.ranked(name, entries))
                    page = self.boards[name].page(
                        limit=1000, window=archive.window.exact, edition=number
                    )
                    self._compare(page.standings, expected, expected.rows)
                    self.figures["editions"] += 1

    def _compare_windows(self, name: str) -> None:
        super()._compare_windows(name)
        board, model = self.boards[name], self.world.boards[name]
        told = board.told_windows()
        for each in told:
            exact = Window("", each["window"], None, None).exact
            if each["state"] == "scheduled":
                assert (each["total"], each["opens_at"]) == (0, each["start"])
            else:
                expected = self.world.ranking(name, exact)
                assert expected is not None
                assert each["total"] == expected.total
            assert each["name"] == each["window"].partition(":")[0].partition("~")[0]
        body = board.shown()
        frozen = [each for each in told if each["state"] == "frozen"]
        shown_before = {each["name"] for each in frozen}
        unsealed = [
            *frozen,
            *(
                each
                for each in told
                if each["state"] == "open"
                or (each["state"] == "scheduled" and each["name"] not in shown_before)
            ),
        ]
        unsealed.sort(key=lambda each: model.rules.windows.index(each["name"]))
        assert body["windows"] == unsealed
        assert body["server_time"] == text_of(self.clock.time)
        assert body["next_reset"] == text_of(next_turn(self.world, name, self.clock.time))
        default = self.world.ranking(name, model.default_window)
        under_way = model.default_window in model.open or model.frozen(model.default_window)
        is_open = default is not None and under_way
        assert body["total"] == (default.total if default is not None and is_open else 0)

    # ------------------------------------------------------------------- what was recorded

    @rule(player=st.sampled_from(PLAYERS), limit=st.integers(1, 4))
    def read_history(self, player: str, limit: int) -> None:
        """Everything the player sent to this board, as it was said, newest first."""
        every = self.world.boards[MAIN].history
        mine = [said for said in every if said.player == player and said.kind != "metadata"]
        found = self.boards[MAIN].history(player, limit=limit)
        assert len(found) == len(mine)
        positions = [item.pop("position") for item in found]
        assert positions == sorted(set(positions), reverse=True)
        for item, position, said in zip(found, positions, reversed(mine), strict=True):
            sent = self.sent[said.number]
            assert sent.position in (None, position)
            expected = history_item(sent)
            if (status := self.world.status_of(MAIN, said)) is not None:
                expected["status"] = status
            assert same(item, expected), (item, expected)
        self.figures["facts"] += len(found)

    @rule(limit=st.integers(2, 30), player=st.sampled_from(PLAYERS))
    def read_facts(self, limit: int, player: str) -> None:
        """Every submission that was recorded, in its order, and each part of them."""
        whole = self.ranks.facts(limit=1000)
        positions = [fact["position"] for fact in whole]
        assert positions == list(range(1, self.ranks.position + 1))
        kinds = ("score_submitted", "score_adjusted")
        submitted = [fact for fact in whole if fact["kind"] in kinds]
        assert [(fact["player"], fact["at"]) for fact in submitted] == [
            (sent.said.player, text_of(sent.said.at)) for sent in self.sent.values()
        ]
        for fact, sent in zip(submitted, self.sent.values(), strict=True):
            assert sent.position in (None, fact["position"])
            assert fact["body"].get("key") == sent.body.get("key")
        assert self.ranks.facts(limit=limit) == whole
        wanted = {"kind": "score_submitted", "board": SIDE, "player": player}
        assert self.ranks.facts(limit=limit, **wanted) == [
            fact for fact in whole if all(fact[name] == value for name, value in wanted.items())
        ]
        self.figures["facts"] += len(whole)


class SlowLaneMachine(ApiMachine):
    """Every route through the application."""

    given: ClassVar[dict[str, Any]] = {**NO_MOVEMENT, "fast_lane": False}


class WorkersMachine(ApiMachine):
    """Two processes, and connections to both."""

    processes: ClassVar[int] = 2
    bounds: ClassVar[tuple[int, ...]] = ApiMachine.bounds[:1]  # Those of other processes stay.

    def _options(self) -> tuple[str, ...]:
        """What else the program is told."""
        return ("--movement-entries-max", "0")

    def _open(self) -> Any:
        if not isinstance(self.clock, SharedClock):
            self.clock = SharedClock(self.folder / "clock")
        options = ("--port", "0", "--workers", str(self.processes), *self._options())
        served = serving(self.folder, *options, clock=self.folder / "clock")
        return self._reach(self.opened.enter_context(served).port)

    def teardown(self) -> None:
        self.opened.close()
        log = (self.folder / "service.log").read_text()
        self.around.close()
        assert "ERROR" not in log, log
        assert "Traceback" not in log, log


MACHINES = {"fast": ApiMachine, "slow": SlowLaneMachine, "workers": WorkersMachine}


def play(
    machine: type[ApiMachine], number: int, *, examples: int, steps: int, shrink: bool
) -> None:
    """Make the runs of a seed: the same ones for every way to serve."""
    phases = (Phase.generate, Phase.shrink) if shrink else (Phase.generate,)
    run_state_machine_as_test(
        seed(number)(machine),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            database=None,
            deadline=None,
            phases=phases,
            print_blob=False,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.timeout(300)
@pytest.mark.parametrize("way", MACHINES)
def test_the_service_says_what_the_model_says(way: str) -> None:
    """The same runs every time: a commit is held up by what it broke, not by what it met first."""
    machine = MACHINES[way]
    examples = EXAMPLES if machine.processes == 1 else EXAMPLES_OF_PROCESSES
    play(machine, SEED, examples=examples, steps=STEPS, shrink=False)
    assert machine.figures["receipts"] > examples, "the runs did something"
    assert machine.figures["pages known again"] > examples


# ------------------------------------------------------------------------------- digits

DIGITS = ["1234567890.123456789", "-9223372036.854775808", "9223372036.854775807", "0.1", "7"]


@pytest.mark.parametrize("fast", [True, False], ids=["fast", "slow"])
def test_no_digit_of_a_score_is_lost_however_it_is_sent(tmp_path: Path, fast: bool) -> None:
    """A double keeps fifteen digits; a score has nineteen, as a number as well as in text."""
    with serving_here(tmp_path, SetClock(), fast_lane=fast) as port:
        api = Api(port, processes=1, figures=Counter())
        try:
            api.write("PUT", "/v1/boards/b", {"decimals": 9, "rule": "latest"})
            for text in DIGITS:
                _send_and_read_back(api, text)
        finally:
            api.close()


def _send_and_read_back(api: Api, text: str) -> None:
    exact = Decimal(text).quantize(Decimal("1e-9"))
    for score in (Decimal(text), text):
        said = {"player": "p", "score": score, "metadata": {"seen": Decimal(text)}}
        receipt = api.write("POST", "/v1/boards/b/scores", said).body
        assert same(receipt["score"], exact)
        results = api.write("POST", "/v1/scores:batch", {"scores": [{"board": "b", **said}]})
        assert same(results.body["results"][0]["score"], exact)
        row = api.read("/v1/boards/b/standings/p", {}).body
        assert same(row["score"], exact)
        assert Decimal(row["metadata"]["seen"]) == Decimal(text)
        (fact, *_) = api.read_plain("/v1/boards/b/history/p", limit=1).body["facts"]
        assert same(fact["score"], exact)
