"""What the engine in a program should say, worked out from scratch each time it is asked.

The model keeps the list of everything that was accepted and when, and nothing else but what people
said of players and which windows were closed with what in them. A ranking is the list folded again,
sorted, numbered. It shares no code with the engine: it has its own calendar (UTC only), its own
judging, its own ways to count ties. Every answer takes a few obvious loops, over tens of facts.

Numbers are kept as they were sent and scaled to the board's decimals when they are folded, so that
a board whose decimals grow needs no translation here.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from tests.property.embedded_judge import Attempt, Check, Judge, Reason, Terms

SECOND = 1_000_000
HOUR = 3600 * SECOND
DAY = 24 * HOUR
EPOCH = date(1970, 1, 1)
SCORE_MIN, SCORE_MAX = -(2**63), 2**63 - 1

VERIFIER = "replay"
"""The name of the only verifier there is."""

Number = int | Decimal
Scores = tuple[int, ...]
Definition = dict[str, Any]


def instant(year: int, month: int, day: int, hour: int = 0) -> int:
    return int(datetime(year, month, day, hour, tzinfo=UTC).timestamp()) * SECOND


# --- the calendar -----------------------------------------------------------------------------

SEASON: Definition = {
    "name": "season",
    "every": "2d",
    "gap": "1d",
    "start": "2026-11-14T00:00:00Z",
}
SEASON_START, SEASON_EVERY, SEASON_GAP = instant(2026, 11, 14), 2 * DAY, DAY
CUP: Definition = {"name": "cup", "start": "2026-11-15T00:00:00Z", "end": "2026-11-18T00:00:00Z"}
CUP_START, CUP_END = instant(2026, 11, 15), instant(2026, 11, 18)


@dataclass(frozen=True)
class Window:
    name: str
    id: str
    start: int | None
    end: int | None
    after: int = 0
    """The number of the last submission before it, if it took the place of one that was reset."""

    def holds(self, at: int) -> bool:
        return (self.start is None or self.start <= at) and (self.end is None or at < self.end)

    def takes(self, said: "Said") -> bool:
        """Whether a submission may count in it, by its time and its place."""
        return self.after < said.number and self.holds(said.at)

    @property
    def exact(self) -> str:
        """The text that means this window: an id without a number may be a name, too."""
        return self.id if ":" in self.id or "~" in self.id else f"{self.id}~1"

    def reset(self, at: int, after: int) -> "Window":
        """The window that takes its place from now on."""
        base, _, number = self.id.partition("~")
        return Window(self.name, f"{base}~{int(number or 1) + 1}", at, self.end, after)


def name_of(window: str | Definition) -> str:
    return window if isinstance(window, str) else str(window["name"])


def window_at(name: str, at: int) -> Window | None:
    """The window of this name that holds the instant, if one does."""
    days = at // DAY
    day = EPOCH + timedelta(days=days)
    if name == "all":
        return Window("all", "all", None, None)
    if name == "daily":
        return Window("daily", f"daily:{day.isoformat()}", days * DAY, (days + 1) * DAY)
    if name == "weekly":
        year, week, weekday = day.isocalendar()
        monday = days - (weekday - 1)
        return Window("weekly", f"weekly:{year}-W{week:02}", monday * DAY, (monday + 7) * DAY)
    if name == "cup":
        found = Window("cup", "cup", CUP_START, CUP_END)
    else:
        assert name == "season", name
        if at < SEASON_START:
            return None
        turn = (at - SEASON_START) // (SEASON_EVERY + SEASON_GAP)
        start = SEASON_START + turn * (SEASON_EVERY + SEASON_GAP)
        found = Window("season", f"season:{turn + 1}", start, start + SEASON_EVERY)
    return found if found.holds(at) else None


def next_start(name: str, at: int) -> int | None:
    """When the next window of this name begins, if one does."""
    if name in ("all", "daily", "weekly"):
        now = window_at(name, at)
        return None if now is None else now.end
    if name == "cup":
        return CUP_START if at < CUP_START else None
    assert name == "season", name
    every = SEASON_EVERY + SEASON_GAP
    return SEASON_START + max(0, (at - SEASON_START) // every + 1) * every


# --- one board's rules ------------------------------------------------------------------------


@dataclass(frozen=True)
class Rules:
    """What a board is defined as, as far as the model knows boards."""

    rule: str = "best"
    columns: tuple[tuple[str, str], ...] = (("score", "higher"),)
    decimals: int = 0
    ties: str = "ordinal"
    tie_break: str = "first"
    windows: tuple[str, ...] = ("all",)
    segments: tuple[str, ...] = ()
    low: int | None = None
    high: int | None = None
    kept_days: tuple[tuple[str, int], ...] = ()
    """For how many days closed windows of a name are kept; for ever where it is not named."""
    graces: tuple[tuple[str, int], ...] = ()
    """For how many hours windows of a name wait before they are sealed."""
    title: str | None = None
    checks: tuple[Check, ...] = ()
    """Its rules against cheating."""
    attempts: int | None = None
    """How many submissions of a player each window takes."""
    runs: tuple[int, int, bool] | None = None
    """The seconds that runs last, at least and at most, and whether every submission needs one."""
    verified: bool = False
    """Whether a verifier has to see every submission."""

    def definition(self) -> Definition:
        """The words that define it."""
        ends = (
            ("score_min", self.low),
            ("score_max", self.high),
            ("attempts_max", self.attempts),
        )
        known: dict[str, Definition] = {"season": SEASON, "cup": CUP}
        words: dict[str, str | Definition] = {
            name: {**known.get(name, {"name": name}), "grace": f"{hours}h"}
            for name, hours in self.graces
        }
        return {
            "title": self.title,
            "rule": self.rule,
            "columns": [{"name": name, "direction": way} for name, way in self.columns],
            "decimals": self.decimals,
            "ties": self.ties,
            "tie_break": self.tie_break,
            "windows": [words.get(name, known.get(name, name)) for name in self.windows],
            "segments": list(self.segments),
            "limits": {name: end for name, end in ends if end is not None},
            "retention": {name: f"{days}d" for name, days in self.kept_days},
            "rules": [check.words() for check in self.checks],
            "runs": self.runs
            and dict(zip(("seconds_min", "seconds_max", "required"), self.runs, strict=True)),
            "verifier": {"name": VERIFIER} if self.verified else None,
        }

    @property
    def judged(self) -> Terms:
        """What the judge of its rules against cheating has to know."""
        low = SCORE_MIN if self.low is None else self.scaled(self.low)
        high = SCORE_MAX if self.high is None else self.scaled(self.high)
        higher_wins = self.columns[0][1] == "higher"
        return Terms(self.checks, self.rule, higher_wins, self.decimals, low, high)

    def scaled(self, number: Number) -> int:
        scaled = number * 10**self.decimals
        assert scaled == int(scaled)
        return int(scaled)

    def takes(self, number: Number) -> bool:
        """Whether it is a score in the board's unit at all: not too fine, not too large."""
        scaled = number * 10**self.decimals
        return bool(scaled == int(scaled) and SCORE_MIN <= scaled <= SCORE_MAX)

    def in_bounds(self, score: int) -> bool:
        above = self.low is None or score >= self.scaled(self.low)
        return above and (self.high is None or score <= self.scaled(self.high))

    def goodness(self, scores: Scores) -> tuple[int, ...]:
        """Smaller is better, column after column."""
        return tuple(
            -score if way == "higher" else score
            for score, (_, way) in zip(scores, self.columns, strict=True)
        )

    def grace(self, name: str) -> int:
        return next((hours * HOUR for named, hours in self.graces if named == name), 0)

    def kept(self, name: str) -> int | None:
        return next((days * DAY for kept, days in self.kept_days if kept == name), None)


# --- folding ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Said:
    """One submission that was accepted."""

    number: int
    """Its place among all that was accepted."""
    at: int
    """The ledger's time of it."""
    player: str
    scores: tuple[Number, ...] | None
    delta: Number | None
    metadata: Any
    rules: Rules
    """Of its time: as long as the rule is the same, it is held to the bounds of then, too."""
    refused: bool = False
    """Whether a rule against cheating refused it: then it never counts."""
    refused_everywhere: bool = False
    """Whether it was told that it counts nowhere, for whatever reason."""
    refused_in: frozenset[str] = frozenset()
    """The windows that told so for themselves."""
    kind: str = "submission"
    """Or an adjustment, or metadata without a score."""
    build: str | None = None
    dies: int | None = None
    """When its term is over, if it has one."""

    def is_over(self, time: int) -> bool:
        return self.dies is not None and self.dies <= time

    def may_count_in(self, window: str) -> bool:
        return not self.refused_everywhere and window not in self.refused_in


@dataclass(frozen=True)
class Entry:
    player: str
    scores: Scores
    reached: int
    """The number of the submission that brought it to its scores."""
    metadata: Any

    def differs(self, other: "Entry | None", rules: Rules) -> bool:
        """Whether a reader could tell."""
        mine = (self.order(rules), self.metadata)
        return other is None or mine != (other.order(rules), other.metadata)

    def order(self, rules: Rules) -> tuple[Any, ...]:
        """What entries are sorted by: scores, then whoever the tie-break puts ahead."""
        since = {"first": self.reached, "latest": -self.reached, "player": 0}[rules.tie_break]
        return (rules.goodness(self.scores), since, self.player.encode())


@dataclass(frozen=True)
class Judged:
    verdict: str
    entry: Entry | None
    """What the player has afterwards."""
    code: str | None = None


def judge(rules: Rules, entry: Entry | None, said: Said) -> Judged:
    """What one submission does to a player's entry in one window."""
    adjusts = said.kind == "adjustment"
    if said.delta is not None:
        if rules.rule == "first" and not adjusts:
            return Judged("rejected", entry, "delta_unsupported")
        before = entry.scores if entry else (0,) * len(rules.columns)
        return _reached(rules, entry, said, (before[0] + rules.scaled(said.delta), *before[1:]))
    assert said.scores is not None
    scores = tuple(rules.scaled(score) for score in said.scores)
    if rules.rule == "sum" and entry is not None and not adjusts:
        total = tuple(mine + more for mine, more in zip(entry.scores, scores, strict=True))
        return _reached(rules, entry, said, total)
    if not rules.in_bounds(scores[0]):
        return Judged("rejected", entry, "score_out_of_bounds")
    if entry is not None and not adjusts:
        worse = rules.goodness(scores) >= rules.goodness(entry.scores)
        if rules.rule == "first" or (rules.rule == "best" and worse):
            return Judged("not_better", entry)
    return _reached(rules, entry, said, scores)


def _reached(rules: Rules, entry: Entry | None, said: Said, scores: Scores) -> Judged:
    if not all(SCORE_MIN <= score <= SCORE_MAX for score in scores):
        return Judged("rejected", entry, "score_overflow")
    if not rules.in_bounds(scores[0]):
        return Judged("rejected", entry, "score_out_of_bounds")
    stays = entry is not None and entry.scores == scores
    reached = entry.reached if entry is not None and stays else said.number
    metadata = said.metadata
    if said.kind == "adjustment" and metadata is None and entry is not None:
        metadata = entry.metadata
    return Judged("counted", Entry(said.player, scores, reached, metadata))


def fits(rules: Rules, said: Said) -> bool:
    """Whether it can be said in the board's unit at all."""
    numbers = said.scores if said.scores is not None else (said.delta or 0,)
    return all(rules.takes(number) for number in numbers)


def held_to(rules: Rules, said: Said) -> Rules:
    """The rules, with bounds no wider than those of the time it was said."""
    if said.rules.rule != rules.rule:
        return rules
    lows = [low for low in (rules.low, said.rules.low) if low is not None]
    highs = [high for high in (rules.high, said.rules.high) if high is not None]
    return replace(rules, low=max(lows, default=None), high=min(highs, default=None))


def fold(rules: Rules, history: Iterable[Said], window: Window) -> dict[str, Entry]:
    """The entries of a window: every submission made in it, one after another."""
    entries: dict[str, Entry] = {}
    for said in history:
        if not window.takes(said) or not said.may_count_in(window.name):
            continue
        if said.kind == "metadata":
            if (entry := entries.get(said.player)) is not None:
                entries[said.player] = replace(entry, metadata=said.metadata)
        elif fits(rules, said):
            after = judge(held_to(rules, said), entries.get(said.player), said).entry
            if after is not None:
                entries[said.player] = after
    return entries


# --- rankings ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One line of a ranking."""

    place: int
    """Everybody before it counted."""
    rank: int
    """As the board shows ties."""
    entry: Entry


@dataclass(frozen=True)
class Ranking:
    rules: Rules
    rows: tuple[Row, ...]

    @property
    def total(self) -> int:
        return len(self.rows)

    def ordinal(self, row: Row) -> int | None:
        """The place, which is told where the rank may be another."""
        return None if self.rules.ties == "ordinal" else row.place

    def within(self, low: int | None, high: int | None) -> list[Row]:
        """Those with a first column from one score to another."""
        return [
            row
            for row in self.rows
            if (low is None or row.entry.scores[0] >= low)
            and (high is None or row.entry.scores[0] <= high)
        ]

    def end(self, absent: str, count: int) -> Sequence[Row]:
        """So many of the first or of the last."""
        return self.rows[:count] if absent == "top" else self.rows[max(self.total - count, 0) :]

    def row(self, player: str) -> Row | None:
        return next((row for row in self.rows if row.entry.player == player), None)

    def percentile(self, row: Row) -> float:
        return round((self.total - row.rank + 1) / self.total * 100, 2)

    def players(self) -> list[str]:
        return [row.entry.player for row in self.rows]

    def around(self, player: str, above: int, below: int) -> Sequence[Row]:
        """So many on either side; what is missing at one edge is made up at the other."""
        row = self.row(player)
        assert row is not None
        count = min(above + 1 + below, self.total)
        first = max(row.place - above, 1)
        while first + count - 1 > self.total:
            first -= 1
        return self.rows[first - 1 : first - 1 + count]

    def after(self, order: tuple[Any, ...]) -> list[Row]:
        return [row for row in self.rows if row.entry.order(self.rules) > order]

    def before(self, order: tuple[Any, ...]) -> list[Row]:
        return [row for row in self.rows if row.entry.order(self.rules) < order]

    def rank_for(self, scores: Scores) -> int:
        """The rank of a newcomer: behind its equals, but ahead of them where the latest is."""
        mine = self.rules.goodness(scores)
        others = [self.rules.goodness(row.entry.scores) for row in self.rows]
        better = [other for other in others if other < mine]
        if self.rules.ties == "dense":
            return len(set(better)) + 1
        if self.rules.ties == "standard" or self.rules.tie_break == "latest":
            return len(better) + 1
        return len([other for other in others if other <= mine]) + 1

    def place_at(self, percentile: float) -> int | None:
        """The last place whose percentile is at least so high."""
        shares = [round((self.total - place) / self.total * 100, 2) for place in range(self.total)]
        return max((at for at, share in enumerate(shares, 1) if share >= percentile), default=None)


def ranking(rules: Rules, entries: Iterable[Entry]) -> Ranking:
    rows: list[Row] = []
    for place, entry in enumerate(sorted(entries, key=lambda each: each.order(rules)), start=1):
        rank = place
        if rows and rules.ties != "ordinal":
            if rows[-1].entry.scores == entry.scores:
                rank = rows[-1].rank
            elif rules.ties == "dense":
                rank = rows[-1].rank + 1
        rows.append(Row(place, rank, entry))
    return Ranking(rules, tuple(rows))


# --- boards -----------------------------------------------------------------------------------

Attributes = dict[str, str | int | bool]


def segment_value(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class Archive:
    """A closed window. Nothing changes it but corrections and erasures."""

    window: Window
    rules: Rules
    entries: tuple[Entry, ...]
    attributes: dict[str, Attributes]
    sealed_at: int | None
    """None while it is frozen, or in its grace."""
    through: int
    """The number of the last submission that could count in it: it may be closed early."""
    event: int
    """When it was closed, among all closings and ends of terms."""
    editions: tuple[tuple[Entry, ...], ...] = ()
    """What it had before each correction that changed it."""
    early: int | None = None
    """When an operator closed it, if one did."""
    reason: str | None = None
    """The reason of the operator."""
    sealed_after: int = 0
    """The number of the last submission before it was sealed."""
    is_frozen: bool = False
    is_final: bool = False

    @property
    def state(self) -> str:
        if self.sealed_at is None:
            return "frozen" if self.is_frozen else "grace"
        return "final" if self.is_final else "sealed"

    @property
    def shown_end(self) -> int | None:
        return self.window.end if self.early is None else self.early

    @property
    def kept_from(self) -> int | None:
        """The time from which on it is kept as long as it is to be: not before its own end."""
        if self.sealed_at is None or self.early is None:
            return self.sealed_at
        return max(self.sealed_at, self.window.end or 0)

    def keeps(self, said: Said, over: int) -> bool:
        """Whether a submission whose term is over since then counts in it all the same."""
        made_in_it = said.number <= self.through and self.window.takes(said)
        return made_in_it and over > self.event and said.may_count_in(self.window.name)


@dataclass(frozen=True)
class Retracted:
    """Submissions that were retracted."""

    position: int
    numbers: frozenset[int]
    everywhere: bool
    broad: bool
    """Whether it names no player: by build or time, from all of them."""


@dataclass
class Review:
    """A submission that rules held or flagged."""

    board: str
    number: int
    said: Said
    state: str
    reasons: list[Reason]
    was_held: bool

    @property
    def is_open(self) -> bool:
        return self.state in ("held", "flagged")


@dataclass(frozen=True)
class Change:
    """An entry that a correction changes, in a window of a board."""

    board: str
    player: str
    window: str
    scores: Scores | None
    previous_scores: Scores | None
    rank: int | None
    previous_rank: int | None


@dataclass(frozen=True)
class PlayerState:
    """A state of a player, on some boards or on all, until a time or for good."""

    player: str
    state: str
    boards: frozenset[str] | None
    until: int | None

    def covers(self, board: str) -> bool:
        return self.boards is None or board in self.boards


@dataclass
class Board:
    """One board, from its definition to its retirement."""

    name: str
    rules: Rules
    history: list[Said] = field(default_factory=list)
    open: dict[str, Window] = field(default_factory=dict)
    closed: list[Archive] = field(default_factory=list)
    retracted: list[Retracted] = field(default_factory=list)
    """Those that are in force."""
    held: set[int] = field(default_factory=set)
    """The numbers of submissions that wait for a decision, or were rejected."""
    expired: dict[int, int] = field(default_factory=dict)
    """The numbers of submissions whose term is over, and when that was, as for windows."""
    attempts: dict[str, dict[str, int]] = field(default_factory=dict)
    """By the ids of open windows, how many submissions they took of each player."""
    judge: Judge = field(init=False)

    def __post_init__(self) -> None:
        self.judge = Judge(self.rules.judged)

    @property
    def counting(self) -> list[Said]:
        """What was said to it, without what was retracted, is held, or is over."""
        return self._counting({*self.expired})

    def _counting(self, expired: set[int]) -> list[Said]:
        gone = {number for one in self.retracted for number in one.numbers} | self.held | expired
        return [said for said in self.history if said.number not in gone]

    def counting_somewhere(self, *, over_too: bool) -> list[Said]:
        """The same, with those whose term was over after a window with them was closed."""
        return [
            said
            for said in self._counting(set())
            if over_too
            or said.number not in self.expired
            or any(one.keeps(said, self.expired[said.number]) for one in self.closed)
        ]

    def past(self) -> Iterator[tuple[Attempt, bool]]:
        """All that counts or did, and is not held or retracted; and whether it adjusts."""
        for said in self._counting(set()):
            if said.kind != "metadata" and not said.refused and fits(self.rules, said):
                yield _attempt(self.rules, said), said.kind == "adjustment"

    def forget_attempts(self) -> None:
        """In windows that are open no more, or not bounded."""
        ids = {window.id for window in self.open.values()} if self.rules.attempts else set()
        self.attempts = {id: made for id, made in self.attempts.items() if id in ids}

    @property
    def default_window(self) -> str:
        return "all" if "all" in self.rules.windows else self.rules.windows[0]

    def closed_early(self, window: Window) -> bool:
        """Whether an operator closed a window of this time."""
        return any(
            one.early is not None
            and (one.window.name, one.window.start, one.window.end)
            == (window.name, window.start, window.end)
            for one in self.closed
        )

    def archive(self, id: str) -> Archive | None:
        return next((one for one in self.closed if one.window.id == id), None)

    def last_of(self, window: Window) -> Window | None:
        """The last window in the place of one of the calendar, after all resets of it."""
        found = next((one for one in self.closed if one.window.id == window.id), None)
        if found is None or (found.window.start, found.window.end) != (window.start, window.end):
            return None
        last = found.window
        while (after := self.archive(last.reset(0, 0).id)) is not None:
            if after.window.end != window.end:
                break
            last = after.window
        return last

    def left_out(self, window: Window) -> Window | None:
        """The last window after resets of one, if only a definition closed it."""
        last = self.last_of(window)
        archive = None if last is None else self.archive(last.id)
        return None if archive is None or archive.early is not None else last

    def frozen(self, name: str) -> Archive | None:
        frozen = [one for one in self.closed if one.state == "frozen"]
        return next((one for one in frozen if one.window.name == name), None)

    def entries(self, window: Window) -> dict[str, Entry]:
        return fold(self.rules, self.counting, window)

    def entries_of_closed(self, archive: Archive) -> dict[str, Entry]:
        """What a closed window has by what counts now, under the rules of when it was closed."""
        over = {number for number, event in self.expired.items() if event < archive.event}
        made_in_it = [said for said in self._counting(over) if said.number <= archive.through]
        return fold(archive.rules, made_in_it, archive.window)


def outgrown(rules: Rules, history: Iterable[Said], window: Window) -> set[str]:
    """Players of whom a submission, or what it came to, is too large in the board's unit."""
    entries: dict[str, Entry] = {}
    found: set[str] = set()
    for said in history:
        if not window.takes(said) or not said.may_count_in(window.name):
            continue
        if said.kind == "metadata":
            continue
        if not fits(rules, said):
            found.add(said.player)
            continue
        judged = judge(held_to(rules, said), entries.get(said.player), said)
        if judged.code == "score_overflow":
            found.add(said.player)
        if judged.entry is not None:
            entries[said.player] = judged.entry
    return found


def loses_large_scores(was: Board, will: Board) -> bool:
    """Whether an entry depends on a submission that finer decimals have no room for."""
    if will.rules.decimals == was.rules.decimals:
        return False
    factor = 10 ** (will.rules.decimals - was.rules.decimals)
    alike = (will.rules.rule, will.rules.columns) == (was.rules.rule, was.rules.columns)
    for name, window in will.open.items():
        found = outgrown(will.rules, will.counting, window)
        if found and (name not in was.open or not alike):
            return True
        before = was.entries(was.open[name]) if name in was.open else {}
        after = will.entries(window)
        if any(_scores(before, one, factor) != _scores(after, one) for one in found):
            return True
    return False


def _scores(entries: dict[str, Entry], player: str, factor: int = 1) -> Scores | None:
    entry = entries.get(player)
    return None if entry is None else tuple(score * factor for score in entry.scores)


@dataclass(frozen=True)
class ToldWindow:
    """What a receipt says of one window."""

    window: str
    verdict: str
    code: str | None
    scores: Scores | None
    previous_scores: Scores | None
    rank: int | None
    previous_rank: int | None
    total: int
    percentile: float | None

    @property
    def is_unexplained(self) -> bool:
        """Whether no message says why: it counts, or is held."""
        return self.code is None or self.verdict == "held"

    @property
    def rank_change(self) -> int | None:
        if self.rank is None or self.previous_rank is None:
            return None
        return self.previous_rank - self.rank


@dataclass(frozen=True)
class Told:
    """What a submission is answered."""

    board: str
    player: str
    decimals: int
    windows: dict[str, ToldWindow]
    first: str | None
    reasons: tuple[Reason, ...] = ()
    """The rules against cheating that hold or refuse it."""
    number: int = 0
    """Its place among all that was accepted."""
    expires: int | None = None
    """When it counts no more."""
    shut: bool = False
    """Whether windows would be open, if operators had not closed them."""

    @property
    def refused(self) -> str | None:
        """Why it counts nowhere, if it does not."""
        if self.first is None:
            return "no_window"
        if all(told.verdict == "rejected" for told in self.windows.values()):
            return self.windows[self.first].code
        return None

    @property
    def refusal_code(self) -> str | None:
        """The code of the error that says so."""
        if self.first is None and self.shut:
            return "window_frozen"
        own_codes = ("rule_broken", "attempts_exhausted", "run_used")
        return self.refused if self.refused in own_codes else self.refused and "submission_rejected"


@dataclass(frozen=True)
class FirstUse:
    """What a key was used for first, and on which board of that name."""

    body: Definition
    told: Told
    board: Board
    impersonal: bool = False
    """Whether its player was erased since: nothing but what ranks follow from is compared."""

    def is_repeated_by(self, body: Definition) -> bool:
        """Whether this is the same submission again. Its time is data, and makes it no other."""
        ignored = {"at", *(("metadata", "attributes") if self.impersonal else ())}
        mine, its = (
            {name: value for name, value in each.items() if name not in ignored}
            for each in (self.body, body)
        )
        return mine == its


@dataclass(frozen=True)
class Run:
    """A run that was started."""

    token: str
    board: str
    player: str
    not_before: int
    expires: int


@dataclass
class World:
    """Everything that was said to an engine."""

    time: int
    boards: dict[str, Board] = field(default_factory=dict)
    attributes: dict[str, Attributes] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    friends: dict[str, tuple[str, ...]] = field(default_factory=dict)
    keys: dict[tuple[str, str], FirstUse] = field(default_factory=dict)
    states: list[PlayerState] = field(default_factory=list)
    """The newest last."""
    accepted: int = 0
    positions: dict[int, int] = field(default_factory=dict)
    """Of what was accepted, by number, as far as answers told."""
    reviews: list[Review] = field(default_factory=list)
    runs: dict[str, Run] = field(default_factory=dict)
    """By token."""
    used_runs: set[str] = field(default_factory=set)
    events: int = 0
    """How many windows were closed and terms were over."""

    # ...... boards and windows

    def define(self, name: str, rules: Rules) -> None:
        self.boards[name] = Board(name, rules)
        self._open_windows(self.boards[name])

    def retire(self, name: str) -> None:
        del self.boards[name]

    def redefine(self, name: str, rules: Rules) -> None:
        board = self.boards[name]
        for window in [name for name in board.open if name not in rules.windows]:
            self.close(board, board.open.pop(window))
        board.rules = rules
        board.judge = board.judge.redefined(rules.judged) or Judge.learned(
            rules.judged, board.past()
        )
        self._open_windows(board, redefined=True)
        board.forget_attempts()

    def tick(self, clock: int) -> None:
        """Something is recorded at this time of the clock: windows that ended are turned."""
        self.time = max(self.time, clock)
        self.states = [one for one in self.states if not self._is_over(one, clock)]
        for board in self.boards.values():
            for window in list(board.open.values()):
                if not window.holds(self.time):
                    self.close(board, board.open.pop(window.name), by_time=True)
            board.closed = [self._turned(each) for each in board.closed]
            self._open_windows(board)
            board.forget_attempts()
            board.closed = [each for each in board.closed if self._is_kept(board, each, clock)]
        for board in self.boards.values():
            self._end_terms(board)

    def _end_terms(self, board: Board) -> None:
        """Have submissions count no more whose term is over; closed windows keep them."""
        for said in board.history:
            if said.number not in board.expired and said.is_over(self.time):
                self.events += 1
                board.expired[said.number] = self.events

    def _open_windows(self, board: Board, *, redefined: bool = False) -> None:
        """Open what can be, and list all in the order of the definition."""
        found: dict[str, Window] = {}
        for name in board.rules.windows:
            window = board.open.get(name) or window_at(name, self.time)
            if window is not None and name not in board.open and board.closed_early(window):
                window = board.left_out(window) if redefined else None
            if window is not None:
                found[name] = window
        board.open = found
        # One that was taken out and is put back in its time goes on: it is closed no longer.
        ids = [window.id for window in found.values()]
        board.closed = [each for each in board.closed if each.window.id not in ids]

    def close(self, board: Board, window: Window, *, by_time: bool = False) -> Archive:
        entries = tuple(board.entries(window).values())
        known = {player: dict(said) for player, said in self.attributes.items()}
        self.events += 1
        closed = Archive(window, board.rules, entries, known, None, self.accepted, self.events)
        closed = self._turned(closed) if by_time else self.sealed(closed)
        board.closed.append(closed)
        return closed

    def sealed(self, one: Archive) -> Archive:
        """A window once it is sealed now."""
        return replace(one, sealed_at=self.time, sealed_after=self.accepted, is_frozen=False)

    def _turned(self, one: Archive) -> Archive:
        """A closed window after the steps that its time brings."""
        end = one.window.end
        if one.sealed_at is not None or end is None or end > self.time:
            return one
        is_over = end + one.rules.grace(one.window.name) <= self.time
        return self.sealed(one) if is_over else replace(one, is_frozen=False)

    # ...... states of players

    def set_state(
        self, player: str, state: str, boards: Sequence[str] | None, until: int | None
    ) -> None:
        """Set a state; it takes the place of earlier ones on the same boards."""
        new = PlayerState(player, state, None if boards is None else frozenset(boards), until)
        self.states = [*filter(None, (_left(one, new) for one in self.states)), new]

    def _is_over(self, one: PlayerState, clock: int) -> bool:
        return one.until is not None and one.until <= max(self.time, clock)

    def states_of(self, player: str) -> list[PlayerState]:
        """The states of a player, from the first that is not active on."""
        mine = [one for one in self.states if one.player == player]
        while mine and mine[0].state == "active":
            mine = mine[1:]
        return mine

    def state_of(self, player: str, board: str) -> str:
        covering = [one.state for one in self.states_of(player) if one.covers(board)]
        return covering[-1] if covering else "active"

    def is_active(self, player: str, boards: Sequence[str] | None) -> bool:
        """Whether a player has no other state on these boards, or on any."""
        mine = self.states_of(player)
        if boards is None:
            return not mine
        return all(self.state_of(player, board) == "active" for board in boards)

    def is_banned(self, player: str, board: str, clock: int) -> bool:
        """Whether a submission at this time is refused."""
        left = [one for one in self.states_of(player) if not self._is_over(one, clock)]
        covering = [one.state for one in left if one.covers(board)]
        return bool(covering) and covering[-1] == "banned"

    def ranked(self, board: str, entries: Iterable[Entry], own: str | None = None) -> list[Entry]:
        """The entries that are ranked, and that of a player which sees itself."""
        return [
            one
            for one in entries
            if one.player == own or self.state_of(one.player, board) == "active"
        ]

    def _is_kept(self, board: Board, archive: Archive, clock: int) -> bool:
        """Whether a closed window is not dropped yet: that waits for a clock that went back."""
        kept, since = board.rules.kept(archive.window.name), archive.kept_from
        return kept is None or since is None or clock < since + kept

    def passed_unrecorded(self, name: str, window: Window) -> bool:
        """Whether nothing was recorded in a past window, though one before it is known."""
        board = self.boards[name]
        kept = board.rules.kept(window.name)
        assert window.start is not None and window.end is not None
        if kept is not None and window.end + kept <= self.time:
            return False
        grace = board.rules.grace(window.name)
        known = [
            *(
                each.window
                for each in board.closed
                if each.sealed_at is not None and each.rules.grace(window.name) == grace
            ),
            *board.open.values(),
        ]
        starts = [each.start for each in known if each.name == window.name]
        return any(start is not None and start < window.start for start in starts)

    def is_shut(self, board: Board, one: Archive) -> bool:
        """Whether a window that an operator closed is the reason that none is open of its time."""
        end = one.window.end
        after = one.window.reset(0, 0).id
        ids = [
            *(each.id for each in board.open.values()),
            *(each.window.id for each in board.closed),
        ]
        return one.early is not None and (end is None or self.time < end) and after not in ids

    # ...... corrections

    def selected(self, names: Iterable[str], **where: Any) -> dict[str, frozenset[int]]:
        """The numbers of submissions and adjustments to boards that a retraction selects."""
        return {
            name: frozenset(
                said.number
                for said in self.boards[name].history
                if said.kind != "metadata" and _is_selected(said, **where)
            )
            for name in names
        }

    def in_range(self, name: str, window: str, low: Number, high: Number) -> list[str]:
        """The players whose entries in a window lie between two scores."""
        found = self.ranking(name, window)
        assert found is not None
        rows = found.within(found.rules.scaled(low), found.rules.scaled(high))
        return [row.entry.player for row in rows]

    def newly_out(self, selected: dict[str, frozenset[int]], *, refused_too: bool) -> list[Said]:
        """Those selected that count so far, as far as it is for corrections.

        ``refused_too``: also those that all windows refused.
        """
        return [
            said
            for name, numbers in selected.items()
            for said in self.boards[name].counting_somewhere(over_too=refused_too)
            if said.number in numbers
            and not (said.refused if refused_too else said.refused_everywhere)
        ]

    def players_of(self, selected: dict[str, frozenset[int]]) -> set[tuple[str, str]]:
        """The players, by board, with selected submissions that no rule refused or held."""
        return {
            (name, said.player)
            for name, numbers in selected.items()
            for said in self.boards[name].history
            if said.number in numbers - self.boards[name].held and not said.refused
        }

    def selected_by(self, position: int) -> dict[str, frozenset[int]]:
        """The numbers that a retraction in force selected, by board."""
        return {
            name: one.numbers
            for name, board in self.boards.items()
            for one in board.retracted
            if one.position == position
        }

    def is_broad(self, position: int) -> bool:
        several = [one for board in self.boards.values() for one in board.retracted]
        return any(one.broad for one in several if one.position == position)

    def retract(
        self, selected: dict[str, frozenset[int]], position: int, *, broad: bool = False
    ) -> None:
        """Have submissions count no more, in closed windows neither."""
        for name, numbers in selected.items():
            everywhere = len(selected) > 1
            self.boards[name].retracted.append(Retracted(position, numbers, everywhere, broad))
            self._fold_closed(self.boards[name], edition=True)

    def is_everywhere(self, position: int) -> bool:
        """Whether a retraction is one on all boards."""
        several = [one for board in self.boards.values() for one in board.retracted]
        return any(one.everywhere for one in several if one.position == position)

    def undo_retraction(self, position: int) -> None:
        for board in self.boards.values():
            board.retracted = [one for one in board.retracted if one.position != position]
            self._fold_closed(board, edition=True)

    def decide(self, review: Review, position: int, *, approved: bool) -> None:
        """Approve or reject a held or flagged submission to a board that is still there."""
        review.state = "approved" if approved else "rejected"
        board = self.boards[review.board]
        if review.was_held and approved:
            board.held.discard(review.number)
            if all(reason[0] != "verifier" for reason in review.reasons):
                board.judge.count(_attempt(board.rules, review.said), replaces=False)
            self._fold_closed(board, edition=True)
        if not review.was_held and not approved:
            self.retract({review.board: frozenset([review.number])}, position)

    def status_of(self, name: str, said: Said) -> str | None:
        """Why a submission is left out, if it is for rules, reviews or corrections."""
        board = self.boards[name]
        if said.refused:
            return "refused"
        if said.number in board.held:
            (review,) = [one for one in self.reviews if one.number == said.number]
            return review.state
        gone = any(said.number in one.numbers for one in board.retracted)
        return "retracted" if gone else None

    def _fold_closed(self, board: Board, *, edition: bool) -> None:
        """Fold closed windows again: as another edition if they change, or as they are now."""
        for place, one in enumerate(board.closed):
            entries = tuple(board.entries_of_closed(one).values())
            editions = one.editions
            final = one.is_final
            differs = _differing(_by_player(entries), _by_player(one.entries), one.rules)
            if edition and differs and one.sealed_at is not None:
                editions, final = (*editions, one.entries), False
            after = replace(one, entries=entries, editions=editions, is_final=final)
            board.closed[place] = after

    def changes(self, after: "World") -> set[Change]:
        """The entries that are others in the world after a correction, in the same windows."""
        found: set[Change] = set()
        for name, board in self.boards.items():
            will = after.boards[name]
            for id, (mine, rules) in _windows_of(board).items():
                theirs = _windows_of(will)[id][0]
                ranks = [
                    ranking(rules, world.ranked(name, entries.values()))
                    for world, entries in ((after, theirs), (self, mine))
                ]
                for player in _differing(mine, theirs, rules):
                    rows = [each.row(player) for each in ranks]
                    now, then = theirs.get(player), mine.get(player)
                    scores = None if now is None else now.scores
                    before = None if then is None else then.scores
                    rank, rank_before = (None if row is None else row.rank for row in rows)
                    found.add(Change(name, player, id, scores, before, rank, rank_before))
        return found

    # ...... submissions

    def refusal_at_the_door(self, name: str, body: Definition) -> str | None:
        """The code of what is refused before it is recorded: it leaves no trace."""
        rules = self.boards[name].rules
        delta, adjusts = body.get("delta"), body.get("adjusts", False)
        scores = (delta,) if delta is not None else scores_of(rules, body)
        if not all(rules.takes(number) for number in scores):
            return "invalid_submission"
        if delta is not None:
            return "invalid_submission" if rules.rule == "first" and not adjusts else None
        if rules.rule != "sum" and not rules.in_bounds(rules.scaled(scores[0])):
            return "score_out_of_bounds"
        return None

    def start_run(self, name: str, player: str, token: str) -> Run:
        """Know of a run that a player was given now."""
        least, most, _ = self.boards[name].rules.runs or (0, 3600, False)
        run = Run(token, name, player, self.time + least * SECOND, self.time + most * SECOND)
        self.runs[token] = run
        return run

    def refusal_of_run(self, name: str, body: Definition, clock: int) -> str | None:
        """The code that a submission is refused with for its run, or for want of one."""
        run, now = body.get("run"), max(self.time, clock)
        if run is None:
            runs = self.boards[name].rules.runs
            needed = runs is not None and runs[2] and not body.get("adjusts")
            return "run_required" if needed else None
        known = self.runs.get(run)
        if known is None or (known.board, known.player) != (name, body["player"]):
            return "run_invalid"
        if now < known.not_before:
            return "run_too_early"
        return "run_expired" if now >= known.expires else None

    def submit(self, name: str, body: Definition) -> Told:
        """Accept a submission; return what it is to be answered."""
        board = self.boards[name]
        rules = board.rules
        before = {window: board.entries(found) for window, found in board.open.items()}
        self.accepted += 1
        delta = body.get("delta")
        scores = None if delta is not None else scores_of(rules, body)
        player, metadata = body["player"], body.get("metadata")
        kind = "adjustment" if body.get("adjusts") else "submission"
        said = Said(self.accepted, self.time, player, scores, delta, metadata, rules, kind=kind)
        said = replace(said, build=body.get("build"))
        used_up = body.get("run") in self.used_runs
        then, reasons = ("refuse", []) if used_up else self._judge_by_rules(board, said)
        if body.get("run") is not None:
            self.used_runs.add(body["run"])
        if body.get("lives") is not None and then != "refuse":
            said = replace(said, dies=self.time + int(body["lives"].removesuffix("h")) * HOUR)
        exhausted = frozenset() if then == "refuse" else self._attempt(board, said)
        refused_in = exhausted | frozenset(
            window
            for window, entries in before.items()
            if then != "hold" and judge(rules, entries.get(player), said).verdict == "rejected"
        )
        everywhere = then != "hold" and len(refused_in) == len(before)
        said = replace(
            said,
            refused=then == "refuse",
            refused_everywhere=then == "refuse" or everywhere,
            refused_in=refused_in,
        )
        board.history.append(said)
        if then in ("hold", "flag"):
            state = {"hold": "held", "flag": "flagged"}[then]
            self.reviews.append(Review(name, said.number, said, state, reasons, then == "hold"))
        barred = dict.fromkeys(exhausted, "attempts_exhausted")
        if then in ("hold", "refuse"):
            by_verifier = any(reason[0] == "verifier" for reason in reasons)
            why = "run_used" if used_up else "verifier" if by_verifier else "rule_broken"
            barred = dict.fromkeys(before, why) | barred
        windows = {
            window: self._told(board, found, said, before[window], barred.get(window), then)
            for window, found in board.open.items()
        }
        if body.get("attributes"):
            self.attributes[player] = {**self.attributes.get(player, {}), **body["attributes"]}
        first = "all" if "all" in windows else next(iter(windows), None)
        known = tuple(reasons) if then in ("hold", "refuse") else ()
        told = Told(name, player, rules.decimals, windows, first, known, said.number, said.dies)
        told = replace(told, shut=any(self.is_shut(board, one) for one in board.closed))
        if (key := body.get("key")) is not None:
            self.keys[name, key] = FirstUse(body, told, board)
        return told

    def _judge_by_rules(self, board: Board, said: Said) -> tuple[str | None, list[Reason]]:
        """What the rules against cheating say, which know of it from here on."""
        attempt = _attempt(board.rules, said)
        if not board.open:
            return None, []
        if said.kind == "adjustment":
            board.judge.count(attempt, replaces=said.delta is None)
            return None, []
        then, reasons = board.judge.judge(attempt)
        if board.rules.verified and then in (None, "flag"):
            then, reasons = "hold", [*reasons, ("verifier", 0, 0)]
        if then == "hold":
            board.held.add(said.number)
        return then, reasons

    def _attempt(self, board: Board, said: Said) -> frozenset[str]:
        """Take one of the attempts in each open window; return the windows that have none left."""
        limit, exhausted = board.rules.attempts, set()
        if limit is None or said.kind == "adjustment":
            return frozenset()
        for name, window in board.open.items():
            made = board.attempts.setdefault(window.id, {})
            if made.get(said.player, 0) >= limit:
                exhausted.add(name)
            else:
                made[said.player] = made.get(said.player, 0) + 1
        return frozenset(exhausted)

    def set_metadata(self, name: str, player: str, metadata: Any) -> None:
        """Put other metadata beside the entries in the windows of now."""
        board = self.boards[name]
        self.accepted += 1
        said = Said(self.accepted, self.time, player, None, None, metadata, board.rules)
        board.history.append(replace(said, kind="metadata"))

    def _told(
        self,
        board: Board,
        window: Window,
        said: Said,
        before: dict[str, Entry],
        barred: str | None,
        consequence: str | None,
    ) -> ToldWindow:
        own = said.player if self.state_of(said.player, board.name) == "shadowed" else None
        then_ranked = ranking(board.rules, self.ranked(board.name, before.values(), own))
        then = then_ranked.row(said.player)
        judged = judge(board.rules, before.get(said.player), said)
        if barred is not None:
            held = consequence == "hold" and barred != "attempts_exhausted"
            verdict = "held" if held else "rejected"
            judged = Judged(verdict, before.get(said.player), barred)
        after = board.entries(window)
        now_ranked = ranking(board.rules, self.ranked(board.name, after.values(), own))
        now = now_ranked.row(said.player)
        was, is_now = before.get(said.player), after.get(said.player)
        return ToldWindow(
            window=window.id,
            verdict=judged.verdict,
            code=judged.code,
            scores=is_now.scores if is_now else None,
            previous_scores=was.scores if was else None,
            rank=now.rank if now else None,
            previous_rank=then.rank if then else None,
            total=now_ranked.total,
            percentile=now_ranked.percentile(now) if now else None,
        )

    # ...... players

    def profile(self, player: str, name: str | None, attributes: Attributes) -> None:
        self.names.pop(player, None)
        if name is not None:
            self.names[player] = name
        self.attributes[player] = dict(attributes)

    def set_friends(self, player: str, friends: Sequence[str]) -> None:
        self.friends[player] = tuple(each for each in dict.fromkeys(friends) if each != player)

    def erase(self, player: str) -> None:
        """Have all that is about a person go: its profile, and what it said beside its scores.

        Its scores stay, in every window. Closed windows have it in no segment any more.
        """
        self.names.pop(player, None)
        self.attributes.pop(player, None)
        self.friends.pop(player, None)
        for board in self.boards.values():
            board.history = [_anonymous(said, player) for said in board.history]
            for archive in board.closed:
                archive.attributes.pop(player, None)
            self._fold_closed(board, edition=False)
            board.closed = [replace(one, editions=_stripped(one, player)) for one in board.closed]
        for where, first in self.keys.items():
            if first.body["player"] == player:
                self.keys[where] = replace(first, impersonal=True)

    # ...... rankings

    def ranking(self, name: str, window: str, segment: str | None = None) -> Ranking | None:
        """The ranking of a window by its id or its name; None if it is neither."""
        board = self.boards[name]
        found = self.find(board, window)
        if isinstance(found, Archive):
            entries, rules, known = found.entries, found.rules, found.attributes
        elif found is not None:
            entries, rules = tuple(board.entries(found).values()), board.rules
            known = self.attributes
        else:
            return None
        chosen = [each for each in self.ranked(name, entries) if within(known, each, segment)]
        return ranking(rules, chosen)

    def find(self, board: Board, text: str) -> Window | Archive | None:
        """The open or closed window that a text means; None if there is none."""
        if text in board.open:
            return board.open[text]
        if (frozen := board.frozen(text)) is not None:
            return frozen
        for opened in board.open.values():
            if text in (opened.id, opened.exact):
                return opened
        for closed in board.closed:
            if text == closed.window.exact:
                return closed
        if text in board.rules.windows:
            due = window_at(text, self.time)
            last = None if due is None else board.last_of(due)
            return None if last is None else board.archive(last.id)
        return board.archive(text)


def _anonymous(said: Said, player: str) -> Said:
    return replace(said, metadata=None) if said.player == player else said


def _stripped(archive: Archive, player: str) -> tuple[tuple[Entry, ...], ...]:
    """The earlier editions of a window without what a player said beside its scores."""
    return tuple(
        tuple(replace(one, metadata=None) if one.player == player else one for one in entries)
        for entries in archive.editions
    )


def _attempt(rules: Rules, said: Said) -> Attempt:
    number = said.scores[0] if said.scores is not None else said.delta or 0
    return Attempt(said.player, rules.scaled(number), said.scores is None, said.at)


def _is_selected(
    said: Said,
    *,
    players: Sequence[str] | None = None,
    numbers: Sequence[int] | None = None,
    build: str | None = None,
    since: int | None = None,
    until: int | None = None,
) -> bool:
    return (
        (players is None or said.player in players)
        and (numbers is None or said.number in numbers)
        and (build is None or said.build == build)
        and (since is None or said.at >= since)
        and (until is None or said.at < until)
    )


def _by_player(entries: Iterable[Entry]) -> dict[str, Entry]:
    return {one.player: one for one in entries}


def _differing(mine: dict[str, Entry], theirs: dict[str, Entry], rules: Rules) -> list[str]:
    """The players whose entries are others."""
    return [
        player
        for player in {*mine, *theirs}
        if player not in mine or mine[player].differs(theirs.get(player), rules)
    ]


def _windows_of(board: Board) -> dict[str, tuple[dict[str, Entry], Rules]]:
    """The entries of all windows by id, with the rules that order them."""
    opened = {each.id: (board.entries(each), board.rules) for each in board.open.values()}
    closed = {each.window.id: (_by_player(each.entries), each.rules) for each in board.closed}
    return {**closed, **opened}


def _left(one: PlayerState, new: PlayerState) -> PlayerState | None:
    """What is left of a state after another one was set."""
    if one.player != new.player:
        return one
    if new.boards is None:
        return None
    if one.boards is None:
        return one
    left = one.boards - new.boards
    return replace(one, boards=left) if left else None


def within(known: dict[str, Attributes], entry: Entry, segment: str | None) -> bool:
    if segment is None:
        return True
    name, _, value = segment.partition(":")
    mine = known.get(entry.player, {}).get(name)
    return mine is not None and segment_value(mine) == value


def scores_of(rules: Rules, body: Definition) -> tuple[Number, ...]:
    """The score of each column of a submission."""
    columns = body.get("columns") or {}
    first, *others = (name for name, _ in rules.columns)
    score = body.get("score")
    head: Number = columns[first] if score is None else score
    return (head, *(columns[name] for name in others))
