"""A simulated game, for ``rankd demo``: many players, a past, and a steady rate of scores.

Players, names and skills are drawn from one seed; the ranks are real. A new board first gets scores
of nine days ago, of yesterday and of today, so that its windows differ from the beginning. Then
scores come at a steady rate: most from all players, some from the players at the top, whose form
varies, and some for one lucky player further down, until another is chosen. The game submits scores
only for the players that it made up. A player added by a user keeps its own scores.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from heapq import nlargest
from itertools import accumulate
from random import Random
from string import ascii_lowercase

from rankd.core.engine import Engine
from rankd.errors import InvalidSetting, Overloaded, RankdError
from rankd.model.window import Instant
from rankd.ports import Clock, Progress

BOARD = "arena"
DEFINITION = {
    "title": "Arena",
    "rule": "sum",
    "windows": ["all", "daily", "weekly"],
    "segments": ["region"],
}

BATCH = 4_096
"""Facts per call while filling: half of a full commit, so that two overlap."""

TICK_SECONDS = 0.1
"""The interval between two submissions: shorter than a page's refresh."""

CONTENDERS = 60
"""Players at the top that score often: more than a page shows, so that rows enter and leave it."""

CONTENDERS_PER_SECOND = 12.0
"""Scores of contenders: a page of 25 rows changes a few of them each second, not all."""

LOOKED_SECONDS = 2.0
"""The interval at which the contenders are read from the ranking."""

LUCK_SECONDS = 25.0
"""Seconds for which one lucky player climbs; then another is chosen."""

LUCK_FROM = 200
"""The number of first ranks among which lucky players are chosen."""

LUCKY_PER_SECOND = 1.5

DAY: Instant = 86_400_000_000

CHAPTERS = ((9 * DAY, 1.0, 1.0), (DAY, 0.1, 0.12), (0, 0.08, 0.05))
"""The past: microseconds ago, the share of players that scored, the share of their skill.

The last one is today, which leaves the clock at the real time.
"""

NAMED = 5_000
"""The number of best players with a name; naming all would double the time to fill the board."""

SKILL_MEAN, SKILL_SPREAD, SKILL_MIN = 12_000.0, 2_500.0, 500.0
"""Points that a player has from the past. The best of a normal distribution are close together."""

REGIONS = {"eu": 30, "asia": 28, "na": 22, "latam": 11, "africa": 6, "oceania": 3}
"""Regions, and the percentage of players in each."""

GIVEN = """
Ada Aiko Alma Amara Anouk Arjun Ayla Bao Bea Björn Camila Chidi Dalia Dario Diego Elif Emeka Enzo
Farah Finn Freya Goran Hana Hugo Ife Ines Isla Ivan Jonas Jun Kaito Kofi Lars Lea Lina Luca Luz Maia
Malik Mateo Mei Mila Mira Nadia Nia Noor Oskar Otto Priya Rafa Ravi Rosa Sami Sana Sofía Tariq Theo
Tuva Uma Vera Wen Yara Yusuf Zoë
"""

FAMILY = """
Abara Adeyemi Almeida Andersen Bauer Becker Bianchi Castillo Chen Costa Demir Diallo Dubois Eriksen
Farouk Ferreira Fischer García Haddad Hansen Horvat Ito Ivanova Jensen Kaya Khan Kim Kimura Kovač
Kowalski Laurent Lindqvist López Mbeki Mensah Moreau Morgan Nakamura Novák Nowak Okafor Okoye
Oliveira Osei Park Patel Petrov Quispe Rahman Rivera Rossi Sato Schmidt Silva Singh Suzuki Tanaka
Torres Vargas Virtanen Walsh Weber Zhang
"""

HANDLES = [name.lower().translate(str.maketrans("öíë", "oie")) for name in GIVEN.split()]
"""The prefixes of ids, before the player's number."""

log = logging.getLogger(__name__)

Tell = Callable[[Progress], None]


class TimeLapse:
    """A clock that can be set back, to give a board a past. It runs at the speed of another."""

    def __init__(self, clock: Clock) -> None:
        self.behind: Instant = 0
        self._clock = clock

    def now(self) -> Instant:
        """Return the game's time."""
        return self._clock.now() - self.behind


class Game:
    """The players, their skills, and the scores they submit."""

    def __init__(self, players: int, *, seed: int = 1) -> None:
        self._random = Random(seed)
        given, family = GIVEN.split(), FAMILY.split()
        regions = list(REGIONS)
        draw = self._random
        self.skills: list[float] = []
        self.ids: list[str] = []
        """Readable and unique."""
        self.names: list[str] = []
        self.regions = draw.choices(regions, weights=list(REGIONS.values()), k=players)
        for number in range(1, players + 1):
            first = draw.randrange(len(given))
            self.ids.append(f"{HANDLES[first]}{number}")
            self.names.append(f"{given[first]} {draw.choice(family)}")
            self.skills.append(max(SKILL_MIN, draw.gauss(SKILL_MEAN, SKILL_SPREAD)))
        self._eagerness = list(accumulate(self.skills))
        self._spells: dict[str, float] = {}
        self._lucky: str | None = None
        self._ticks = 0

    def owns(self, player: str) -> bool:
        """Whether the game made up this player."""
        number = player.lstrip(ascii_lowercase)
        if not number.isdecimal() or len(number) > len(str(len(self.ids))):
            return False
        return self.ids[int(number) - 1] == player if 0 < int(number) <= len(self.ids) else False

    def best(self, count: int) -> list[int]:
        """Return the numbers of the most skilled players."""
        return nlargest(count, range(len(self.skills)), key=self.skills.__getitem__)

    def past(self, share: float, part: float) -> Iterator[dict[str, object]]:
        """Yield past scores of a share of the players, each a part of the player's skill."""
        for number, skill in enumerate(self.skills):
            if self._random.random() < share:
                scored = {"player": self.ids[number], "score": self._points(skill * part, 0.85)}
                yield scored | {"attributes": {"region": self.regions[number]}}

    # ---------------------------------------------------------------------- going on

    def tick(self, ranked: Sequence[str], rate: float) -> list[tuple[str, int]]:
        """Return the scores of the next TICK_SECONDS. ``ranked`` has the first players by rank."""
        due = rate * TICK_SECONDS
        of_contenders = min(CONTENDERS_PER_SECOND * TICK_SECONDS, due / 3)
        of_lucky = min(LUCKY_PER_SECOND * TICK_SECONDS, due / 12)
        scores = self._contend(ranked[:CONTENDERS], self._about(of_contenders))
        scores += self._be_lucky(ranked[CONTENDERS:], self._about(of_lucky))
        return scores + self._crowd(self._about(due - of_contenders - of_lucky))

    def _about(self, expected: float) -> int:
        """Return a whole number whose mean is ``expected``."""
        return int(expected + self._random.random())

    def _crowd(self, count: int) -> list[tuple[str, int]]:
        """Return scores of random players; the skilled play more often, and score more."""
        everybody = range(len(self.skills))
        numbers = self._random.choices(everybody, cum_weights=self._eagerness, k=count)
        return [(self.ids[n], self._points(self.skills[n] / 500, 0.3)) for n in numbers]

    def _contend(self, top: Sequence[str], count: int) -> list[tuple[str, int]]:
        """Return scores of players at the top, whose form varies."""
        if not top:
            return []
        self._spells = {player: self._spell(player) for player in top}
        players = self._random.choices(top, weights=list(self._spells.values()), k=count)
        return [(player, self._points(100 * self._spells[player], 0.25)) for player in players]

    def _spell(self, player: str) -> float:
        """Return a player's next form: a random walk that reverts to 1, within 0.2 and 2.5."""
        before = self._spells.get(player, 1.0)
        after = 1.0 + 0.99 * (before - 1.0) + self._random.gauss(0, 0.08)
        return min(2.5, max(0.2, after))

    def _be_lucky(self, further_down: Sequence[str], count: int) -> list[tuple[str, int]]:
        """Return scores of one player further down, chosen anew every LUCK_SECONDS."""
        self._ticks += 1
        if further_down and self._ticks % round(LUCK_SECONDS / TICK_SECONDS) == 1:
            self._lucky = self._random.choice(further_down)
        if self._lucky is None:
            return []
        return [(self._lucky, self._points(240, 0.3)) for _ in range(count)]

    def _points(self, best: float, worst: float) -> int:
        return 1 + int(best * self._random.uniform(worst, 1.0))


@asynccontextmanager
async def playing(
    rankd: Engine, clock: TimeLapse, *, players: int, rate: int, tell: Tell
) -> AsyncIterator[None]:
    """Give a new board its past, then run the game while the context is open.

    On a board that has its past the game only continues. Raises InvalidSetting if the folder holds
    boards other than the demo's, and BoardDiffers if its arena has another definition.
    """
    boards = rankd.state.boards
    if boards and BOARD not in boards:
        problem = "holds boards that are not the demo's; name another folder, or none"
        raise InvalidSetting(setting="data", source="the command line", problem=problem)
    if not boards:
        await _fill(rankd, Game(players), clock, tell)
    else:
        await rankd.define(BOARD, DEFINITION)
        players = await _own_players(rankd)
    game = Game(players)
    task = rankd.supervisor.start("demo", lambda: _go_on(rankd, game, rate))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _own_players(rankd: Engine) -> int:
    """Return the number of players that the game made on a board: the highest in their ids."""
    total = (await rankd.reader.page(BOARD, limit=1)).total
    for number in range(total, 1, -1):  # Few players are not the game's.
        ids = [f"{handle}{number}" for handle in HANDLES]
        if (await rankd.reader.lookup(BOARD, ids)).standings:
            return number
    return 1


async def _fill(rankd: Engine, game: Game, clock: TimeLapse, tell: Tell) -> None:
    clock.behind = CHAPTERS[0][0]
    await rankd.define(BOARD, DEFINITION)
    await _name_the_best(rankd, game, tell)
    for behind, share, part in CHAPTERS:
        clock.behind = behind
        await _score(rankd, list(game.past(share, part)), _told(behind), tell)


async def _name_the_best(rankd: Engine, game: Game, tell: Tell) -> None:
    best = game.best(NAMED)
    for first in range(0, len(best), BATCH):
        some = best[first : first + BATCH]
        await asyncio.gather(*(_introduce(rankd, game, number) for number in some))
        tell(Progress(first + len(some), len(best), "names", "player"))


async def _introduce(rankd: Engine, game: Game, number: int) -> None:
    known = {"name": game.names[number], "attributes": {"region": game.regions[number]}}
    await rankd.profile(game.ids[number], known)


async def _score(
    rankd: Engine, scored: Sequence[dict[str, object]], stage: str, tell: Tell
) -> None:
    for first in range(0, len(scored), BATCH):
        some = scored[first : first + BATCH]
        await rankd.submit(BOARD, some)
        tell(Progress(first + len(some), len(scored), stage, "score"))


def _told(behind: Instant) -> str:
    days = behind // DAY
    return "today" if not days else "yesterday" if days == 1 else f"{days} days ago"


async def _go_on(rankd: Engine, game: Game, rate: float) -> None:
    """Score at a steady rate. Scores that are late are left out, not caught up."""
    loop = asyncio.get_running_loop()
    ranked: list[str] = []
    looked_at = due = loop.time() - LOOKED_SECONDS
    while True:
        due = max(due + TICK_SECONDS, loop.time() - TICK_SECONDS)
        await asyncio.sleep(due - loop.time())
        if due - looked_at >= LOOKED_SECONDS:
            looked_at = due
            page = await rankd.reader.page(BOARD, limit=LUCK_FROM)
            ranked = [each.player for each in page.standings if game.owns(each.player)]
        try:
            if batch := game.tick(ranked, rate):
                await rankd.submit(BOARD, batch)
        except Overloaded:
            continue
        except RankdError:
            log.exception("the game has ended")
            return
