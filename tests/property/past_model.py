"""Random histories of a board, with all its rankings written down at every position.

The judge of past standings: each ranking as readers saw it when it was the present one.
"""

from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any, NamedTuple

from tests.unit.core.doubles import DAY, HOUR, SetClock

from rankd.core.engine import Engine
from rankd.core.reader import Page, Reader
from rankd.core.visibility import ANONYMOUS
from rankd.errors import RankdError
from rankd.model.facts import PlayerStanding, Position
from rankd.model.standing import Rank

PLAYERS = [f"p{number}" for number in range(12)]
SEGMENTS = (None, "region:eu", "region:us")
WINDOWS = ("all", "daily", {"name": "hourly", "cron": "0 * * * *"})
LASTING = ("all", {"name": "season", "start": "2026-11-01T00:00:00Z", "every": "52w"})
"""Windows that stay open for all of a history."""
DEFINITION: dict[str, object] = {
    "rule": "best",
    "segments": ["region"],
    "rules": [{"rule": "first_score", "max": 90, "then": "hold"}],
}


class SeenRanking(NamedTuple):
    """A ranking as a page of all of it shows it."""

    rows: list[tuple[int, str, tuple[int, ...], bytes | None, int | None]]
    total: int
    as_of: Position
    state: str


Where = tuple[str, str | None]
Seen = dict[Where, SeenRanking]


async def seen_by(reader: Reader, window: str, segment: str | None) -> SeenRanking:
    """Return a ranking, after every kind of read of it was compared with the page."""
    page = await reader.page("b", limit=1000, window=window, segment=segment)
    await compare_reads(reader, page, window, segment)
    nothing = [None] * len(page)
    rows = zip(
        page.ranks,
        page.players,
        page.scores,
        page.metadata or nothing,
        page.ordinals or nothing,
        strict=True,
    )
    return SeenRanking(list(rows), page.total, page.as_of, str(page.state))


async def compare_reads(reader: Reader, page: Page, window: str, segment: str | None) -> None:
    """Compare one standing, lookups, neighbours and projections with the page."""
    which: dict[str, Any] = {"window": window, "segment": segment}
    named = {one.player: one for one in page.standings if one.player != ANONYMOUS}
    found = await reader.lookup("b", PLAYERS, **which)
    assert {one.player: (one.rank, one.scores) for one in found.standings} == {
        player: (one.rank, one.scores) for player, one in named.items()
    }
    assert found.as_of == page.as_of
    for player in PLAYERS:
        one = await reader.standing("b", player, **which)
        assert (one and one.rank) == ((player in named and named[player].rank) or None)
    if named:
        player = next(iter(named))
        around = await reader.around("b", player, above=1, below=1, **which)
        assert [one.rank for one in around.standings if one.player == player] == [
            named[player].rank
        ]
        middle = await reader.around_rank("b", Rank(1), reach=2, **which)
        assert middle.standings == page.standings[:3]
        held = await reader.scores_for("b", rank=Rank(1), **which)
        assert held.scores == page.scores[0]
        assert held.as_of == page.as_of


class History:
    """A board that lives through random events, with all that was seen of it."""

    def __init__(
        self,
        rankd: Engine,
        clock: SetClock,
        random: Random,
        windows: Sequence[object] = WINDOWS,
    ) -> None:
        self.rankd, self.clock, self.random = rankd, clock, random
        self.seen: dict[Position, Seen] = {}
        self.times: dict[Position, int] = {}
        self.definition: dict[str, object] = {
            **DEFINITION,
            "windows": list(windows),
            "ties": random.choice(["ordinal", "standard", "dense"]),
        }
        self.submitted: list[Position] = []

    async def begin(self) -> None:
        """Define the board."""
        await self.rankd.define("other", {"rule": "sum"})
        await self.rankd.define("b", self.definition)
        await self.note()

    async def live(self, steps: int, *, corrected: bool = True) -> None:
        """Let random things happen; without ``corrected``, only what players do."""
        events: list[tuple[int, Callable[[], Awaitable[object]]]] = [
            (12, self._submit),
            (2, self._delta),
            (2, self._move_player),
            (2, self._pass_time),
            (1, self._submit_elsewhere),
        ]
        if corrected:
            events += [
                (2, self._retract),
                (2, self._set_state),
                (1, self._redefine),
                (1, self._decide),
                (1, self._reset),
            ]
        weights = [weight for weight, _ in events]
        for _ in range(steps):
            ((_, event),) = self.random.choices(events, weights)
            try:
                await event()
            except RankdError:
                continue
            await self.note()

    async def note(self) -> None:
        """Write down the present."""
        rankd = self.rankd
        seen = {
            (window, segment): await seen_by(rankd.reader, window, segment)
            for window in self._windows()
            for segment in SEGMENTS
        }
        self.seen[rankd.position] = seen
        self.times[rankd.position] = self.clock.time

    def _windows(self) -> list[str]:
        page = self.rankd.state.page("b")
        closed = list(page.sealed)[-3:]
        return [*page.windows, *closed]

    # ...... events

    async def _submit(self) -> None:
        player = self.random.choice(PLAYERS)
        item = {"player": player, "score": self.random.randint(1, 100)}
        if self.random.random() < 0.3:
            item["metadata"] = {"n": self.random.randint(1, 9)}
        if self.random.random() < 0.3:
            item["attributes"] = {"region": self.random.choice(["eu", "us"])}
        (answer,) = await self.rankd.submit("b", [item])
        if answer.receipt is not None:
            self.submitted.append(answer.position)

    async def _delta(self) -> None:
        item = {"player": self.random.choice(PLAYERS), "delta": self.random.randint(-20, 20)}
        await self.rankd.submit("b", [item])

    async def _submit_elsewhere(self) -> None:
        item = {"player": self.random.choice(PLAYERS), "score": 1}
        await self.rankd.submit("other", [item])

    async def _move_player(self) -> None:
        region = self.random.choice(["eu", "us", "asia"])
        player = self.random.choice(PLAYERS)
        await self.rankd.profile(player, {"attributes": {"region": region}})

    async def _pass_time(self) -> None:
        self.clock.time += self.random.choice([HOUR // 2, HOUR, DAY])
        await self._submit()

    async def _retract(self) -> None:
        if self.submitted:
            position = self.random.choice(self.submitted)
            await self.rankd.corrections.retract("b", {"position": position, "reason": "a test"})

    async def _set_state(self) -> None:
        states: list[PlayerStanding] = ["banned", "hidden", "shadowed", "active", "active"]
        state = self.random.choice(states)
        player = self.random.choice(PLAYERS)
        await self.rankd.corrections.set_player_state(player, state, {"reason": "a test"})

    async def _decide(self) -> None:
        reviews = self.rankd.state.reviews.select("b", "held")
        if reviews:
            review = self.random.choice(reviews)
            await self.rankd.corrections.decide_review(review.id, approved=True, reason="a test")

    async def _redefine(self) -> None:
        self.definition["rule"] = self.random.choice(["best", "latest", "sum"])
        self.definition["ties"] = self.random.choice(["ordinal", "standard", "dense"])
        await self.rankd.redefine("b", self.definition)

    async def _reset(self) -> None:
        await self.rankd.reset_window("b", {"window": "all", "reason": f"{self.random.random()}"})


def masked(seen: SeenRanking, hidden: set[str]) -> SeenRanking:
    """Return a ranking as it is shown later, when some players are ranked no more."""
    rows = [
        (rank, ANONYMOUS, scores, None, place) if player in hidden else row
        for row in seen.rows
        for rank, player, scores, _, place in [row]
    ]
    return seen._replace(rows=rows)


async def compare_past(history: History) -> int:
    """Compare every past position with what was seen at it; return how many rankings."""
    rankd, compared = history.rankd, 0
    hidden = set(rankd.state.unranked_on("b"))
    for position, seen in history.seen.items():
        moment = await rankd.past.moment(position, None)
        for (window, segment), expected in seen.items():
            reader = await rankd.past.reader("b", moment, window=window, segment=segment)
            found = await seen_by(reader, window, segment)
            assert found == masked(expected, hidden), (position, window, segment)
            compared += 1
    return compared
