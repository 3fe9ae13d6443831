"""A simulated game, for ``rankd demo``: many players, a past, and scores that keep coming.

Players, names and skills are made up from one seed; the ranks are not made up. A new board first
gets a past: what was scored last week, yesterday and today, so that its windows differ from the
beginning. Then the game goes on at a steady rate. Most scores come from the crowd, some from the
players at the top, who have better and worse spells, and now and then somebody from further down
has a run of luck and climbs. The game plays for the players that it made up, and for nobody else:
whoever submits a score for another finds that score, and no more.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from heapq import nlargest
from itertools import accumulate
from random import Random
from string import ascii_lowercase

from rankd.core.service import Rankd
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
"""Facts put in at once while filling: half of what shares a commit, so that two overlap."""

TICK_SECONDS = 0.1
"""How often the game scores: more often than a page looks."""

CONTENDERS = 60
"""How many at the top play by turns: more than a page shows, so that some come and go."""

CONTENDERS_PER_SECOND = 12.0
"""Scores of contenders: a page of 25 rows changes a few of them each second, not all."""

LOOKED_SECONDS = 2.0
"""How often it is looked up who the contenders are."""

LUCK_SECONDS = 25.0
"""How long somebody's luck lasts; then it is somebody else's turn."""

LUCK_FROM = 200
"""The rank from which the lucky ones climb."""

LUCKY_PER_SECOND = 1.5

DAY: Instant = 86_400_000_000

CHAPTERS = ((9 * DAY, 1.0, 1.0), (DAY, 0.1, 0.12), (0, 0.08, 0.05))
"""The past: how long ago, what share of the players scored, and how much of their skill.

The last is today, so that the clock is right again.
"""

NAMED = 5_000
"""How many of the best have a name; it would take as long again to give everybody one."""

SKILL_MEAN, SKILL_SPREAD, SKILL_MIN = 12_000.0, 2_500.0, 500.0
"""Points that a player has from before. The best of a normal spread lie close together."""

REGIONS = {"eu": 30, "asia": 28, "na": 22, "latam": 11, "africa": 6, "oceania": 3}
"""Regions, and how many of a hundred players live there."""

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
"""What ids begin with, before the player's number."""

log = logging.getLogger(__name__)

Tell = Callable[[Progress], None]


class TimeLapse:
    """A clock that can be set back, to give a board a past. It runs like the one behind it."""

    def __init__(self, clock: Clock) -> None:
        self.behind: Instant = 0
        self._clock = clock

    def now(self) -> Instant:
        """Return the time it is in the game."""
        return self._clock.now() - self.behind


class Game:
    """Who plays, how well, and who happens to be playing now."""

    def __init__(self, players: int, *, seed: int = 1) -> None:
        self._random = Random(seed)
        given, family = GIVEN.split(), FAMILY.split()
        regions = list(REGIONS)
        draw = self._random
        self.skills: list[float] = []
        self.ids: list[str] = []
        """Readable, and each nobody else's."""
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
        """Whether it has made up this player."""
        number = player.lstrip(ascii_lowercase)
        if not number.isdecimal() or len(number) > len(str(len(self.ids))):
            return False
        return self.ids[int(number) - 1] == player if 0 < int(number) <= len(self.ids) else False

    def best(self, count: int) -> list[int]:
        """Return the numbers of the most skilled."""
        return nlargest(count, range(len(self.skills)), key=self.skills.__getitem__)

    def past(self, share: float, part: float) -> Iterator[dict[str, object]]:
        """Yield what a share of the players scored in the past, each a part of its skill."""
        for number, skill in enumerate(self.skills):
            if self._random.random() < share:
                scored = {"player": self.ids[number], "score": self._points(skill * part, 0.85)}
                yield scored | {"attributes": {"region": self.regions[number]}}

    # ---------------------------------------------------------------------- going on

    def tick(self, ranked: Sequence[str], rate: float) -> list[tuple[str, int]]:
        """Return what is scored in the next TICK_SECONDS, given who is ranked first."""
        due = rate * TICK_SECONDS
        of_contenders = min(CONTENDERS_PER_SECOND * TICK_SECONDS, due / 3)
        of_lucky = min(LUCKY_PER_SECOND * TICK_SECONDS, due / 12)
        scores = self._contend(ranked[:CONTENDERS], self._about(of_contenders))
        scores += self._be_lucky(ranked[CONTENDERS:], self._about(of_lucky))
        return scores + self._crowd(self._about(due - of_contenders - of_lucky))

    def _about(self, expected: float) -> int:
        """Return a whole number that is this one on average."""
        return int(expected + self._random.random())

    def _crowd(self, count: int) -> list[tuple[str, int]]:
        """Players from anywhere; the skilled play more often, and score more."""
        everybody = range(len(self.skills))
        numbers = self._random.choices(everybody, cum_weights=self._eagerness, k=count)
        return [(self.ids[n], self._points(self.skills[n] / 500, 0.3)) for n in numbers]

    def _contend(self, top: Sequence[str], count: int) -> list[tuple[str, int]]:
        """Players at the top, who have better and worse spells."""
        if not top:
            return []
        self._spells = {player: self._spell(player) for player in top}
        players = self._random.choices(top, weights=list(self._spells.values()), k=count)
        return [(player, self._points(100 * self._spells[player], 0.25)) for player in players]

    def _spell(self, player: str) -> float:
        """How well it goes for a player: much as it went before, and drawn back towards one."""
        before = self._spells.get(player, 1.0)
        after = 1.0 + 0.99 * (before - 1.0) + self._random.gauss(0, 0.08)
        return min(2.5, max(0.2, after))

    def _be_lucky(self, further_down: Sequence[str], count: int) -> list[tuple[str, int]]:
        """Somebody from further down, for a while; then somebody else."""
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
    rankd: Rankd, clock: TimeLapse, *, players: int, rate: int, tell: Tell
) -> AsyncIterator[None]:
    """Give a new board its past, then let the game go on for as long as this is open.

    On a board that has its past the game only goes on. Raises InvalidSetting if the folder holds
    boards of somebody else, and BoardDiffers if its arena is not this one.
    """
    boards = rankd.book.boards
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


async def _own_players(rankd: Rankd) -> int:
    """Return how many players a board has from the game: the last number that one of them bears."""
    total = (await rankd.reader.page(BOARD, limit=1)).total
    for number in range(total, 1, -1):  # All but those of others, who are few.
        ids = [f"{handle}{number}" for handle in HANDLES]
        if (await rankd.reader.lookup(BOARD, ids)).standings:
            return number
    return 1


async def _fill(rankd: Rankd, game: Game, clock: TimeLapse, tell: Tell) -> None:
    clock.behind = CHAPTERS[0][0]
    await rankd.define(BOARD, DEFINITION)
    await _name_the_best(rankd, game, tell)
    for behind, share, part in CHAPTERS:
        clock.behind = behind
        await _score(rankd, list(game.past(share, part)), _told(behind), tell)


async def _name_the_best(rankd: Rankd, game: Game, tell: Tell) -> None:
    best = game.best(NAMED)
    for first in range(0, len(best), BATCH):
        some = best[first : first + BATCH]
        await asyncio.gather(*(_introduce(rankd, game, number) for number in some))
        tell(Progress(first + len(some), len(best), "names", "player"))


async def _introduce(rankd: Rankd, game: Game, number: int) -> None:
    known = {"name": game.names[number], "attributes": {"region": game.regions[number]}}
    await rankd.profile(game.ids[number], known)


async def _score(rankd: Rankd, scored: Sequence[dict[str, object]], stage: str, tell: Tell) -> None:
    for first in range(0, len(scored), BATCH):
        some = scored[first : first + BATCH]
        await rankd.submit(BOARD, some)
        tell(Progress(first + len(some), len(scored), stage, "score"))


def _told(behind: Instant) -> str:
    days = behind // DAY
    return "today" if not days else "yesterday" if days == 1 else f"{days} days ago"


async def _go_on(rankd: Rankd, game: Game, rate: float) -> None:
    """Score at a steady rate. What could not be done in time is left out, not made up for."""
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
