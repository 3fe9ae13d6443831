"""Honest players and six kinds of cheats under the rules of a board: who is caught, and by which.

    python -m tests.simulation.cheats --players 2000 --cheats 100

Honest players have a skill, learn, have good and bad days, and play some runs a day for ten days.
Each kind of cheat plays the same and cheats in its way. All submissions are judged by rules that
only flag, so that each rule is seen by itself. Prints, for each rule, the share of honest
submissions and players that it hits, and the share of the players of each kind.
"""

import argparse
import sys
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import NamedTuple

from rankd.core.reviews import rule_state
from rankd.model.board import Board
from rankd.rules import RuleState

SECOND = 1_000_000
DAY = 86_400 * SECOND
DAYS = 10
TYPICAL = 2_000
"""The median score of a first run."""

RUN_SECONDS = 90

RULES = [
    {"rule": "submissions_per_minute", "max": 6, "then": "refuse"},
    {"rule": "seconds_between", "min": 5, "then": "flag"},
    {"rule": "first_score", "max": 10 * TYPICAL, "then": "hold"},
    {"rule": "gain_per_minute", "max": 8 * TYPICAL, "then": "hold"},
    {"rule": "outlier_self", "times": 20, "after": 3, "then": "flag"},
    {"rule": "outlier_field", "quantile": 0.99, "times": 2, "then": "hold"},
    {"rule": "per_second_of_run", "max": 10 * TYPICAL // RUN_SECONDS, "then": "hold"},
]
"""The defaults that docs/keeping-it-honest.md recommends, for a game of these runs."""


class Play(NamedTuple):
    """A submission: its time, its score, and how long its run took, in microseconds."""

    at: int
    score: int
    elapsed: int


Cheat = Callable[[Random, Sequence[Play]], list[Play]]


def honest(dice: Random) -> list[Play]:
    """Return the submissions of a player that only plays."""
    skill = dice.lognormvariate(0, 0.5) * TYPICAL
    learning, plays = dice.uniform(0, 0.08), list[Play]()
    for day in range(DAYS):
        if plays and dice.random() < 0.3:
            continue
        now = day * DAY + dice.randrange(DAY // 2)
        form = dice.lognormvariate(0, 0.1) * (1 + learning * day)
        for _ in range(dice.randint(2, 8)):
            seconds = dice.lognormvariate(0, 0.4) * RUN_SECONDS
            score = skill * form * dice.lognormvariate(0, 0.3) * (seconds / RUN_SECONDS) ** 0.8
            now += round((seconds + dice.expovariate(1 / 15) + 3) * SECOND)
            plays.append(Play(now, round(score), round(seconds * SECOND)))
    return plays


def inflated(dice: Random, plays: Sequence[Play]) -> list[Play]:
    """Edit the score of some late runs in memory, by ten to a hundred times."""
    late = len(plays) * 2 // 3
    return [
        one._replace(score=one.score * dice.randint(10, 100))
        if place >= late and dice.random() < 0.3
        else one
        for place, one in enumerate(plays)
    ]


def replayed(dice: Random, plays: Sequence[Play]) -> list[Play]:
    """Send the request of a good run again and again, with a new key each time."""
    best = max(plays, key=lambda one: one.score)
    again = [
        best._replace(at=best.at + dice.randint(1, 3) * SECOND * n, score=best.score + n)
        for n in range(1, 12)
    ]
    return [*plays, *again]


def scripted(dice: Random, plays: Sequence[Play]) -> list[Play]:
    """Let a script play all night: a run every fifteen seconds, each a little better."""
    start, score = plays[-1].at + 3_600 * SECOND, max(one.score for one in plays)
    made = list(plays)
    for n in range(600):
        score += max(1, round(score * dice.uniform(0.001, 0.004)))
        made.append(Play(start + n * 15 * SECOND, score, 14 * SECOND))
    return made


def shared(dice: Random, plays: Sequence[Play]) -> list[Play]:
    """Two more people play on the account, at the same hours, one of them very well."""
    others = [honest(dice), [one._replace(score=4 * one.score) for one in honest(dice)]]
    shift = [plays[0].at - other[0].at + dice.randrange(60 * SECOND) for other in others]
    moved = (
        one._replace(at=one.at + by)
        for other, by in zip(others, shift, strict=True)
        for one in other
    )
    return [*plays, *moved]


def sped(dice: Random, plays: Sequence[Play]) -> list[Play]:
    """Slow the clock of the device: a run scores as if it had lasted four to eight times longer."""
    return [
        one._replace(score=round(one.score * dice.uniform(4, 8))) if dice.random() < 0.5 else one
        for one in plays
    ]


def creeping(dice: Random, plays: Sequence[Play]) -> list[Play]:
    """Edit every score a little more than the one before, up to five times."""
    return [
        one._replace(score=round(one.score * (1 + 4 * place / len(plays))))
        for place, one in enumerate(plays)
    ]


CHEATS: dict[str, Cheat] = {
    "inflated": inflated,
    "replayed": replayed,
    "scripted": scripted,
    "shared": shared,
    "sped up": sped,
    "creeping": creeping,
}


def players(dice: Random, count: int, cheats: int) -> Iterator[tuple[str, str, list[Play]]]:
    """Yield players with their kind and what they submit."""
    for number in range(count):
        yield "honest", f"honest-{number}", honest(dice)
    for kind, cheat in CHEATS.items():
        for number in range(cheats):
            yield kind, f"{kind}-{number}", cheat(dice, honest(dice))


class Caught(NamedTuple):
    """Whom each rule hit."""

    submissions: dict[str, dict[str, int]]
    """By rule and kind."""
    players: dict[str, dict[str, set[str]]]
    totals: dict[str, int]
    """Submissions by kind."""


def judge(dice: Random, count: int, cheats: int) -> Caught:
    """Judge all submissions in the order of their times."""
    board = Board.define("arena", {"rules": RULES})
    flags = [{**rule, "then": "flag"} for rule in RULES]
    state = rule_state(board, Board.define("arena", {"rules": flags}).rules)
    found = Caught(defaultdict(lambda: defaultdict(int)), defaultdict(lambda: defaultdict(set)), {})
    rows = [
        (play, kind, player)
        for kind, player, plays in players(dice, count, cheats)
        for play in plays
    ]
    for play, kind, player in sorted(rows):
        found.totals[kind] = found.totals.get(kind, 0) + 1
        for rule in judged(state, player, play):
            found.submissions[rule][kind] += 1
            found.players[rule][kind].add(player)
            found.players["any"][kind].add(player)
    return found


def judged(state: RuleState, player: str, play: Play) -> list[str]:
    """Return the names of the rules that a submission breaks."""
    columns = [array("q", [one]) for one in (play.score, play.at, play.elapsed)]
    if state.judge([player], columns[0], None, columns[1], columns[2]) is None:
        return []
    return [RULES[place]["rule"] for place, _, _ in state.reasons(0)]  # type: ignore[misc]


def report(found: Caught, count: int, cheats: int) -> list[str]:
    """Return the table as lines of Markdown."""
    head = ["rule", "honest submissions", "honest players", *CHEATS]
    lines = [f"| {' | '.join(head)} |", f"| --- | {' | '.join(['--:'] * (len(head) - 1))} |"]
    for rule in [*(str(rule["rule"]) for rule in RULES), "any"]:
        hit = found.players[rule]
        false = found.submissions[rule]["honest"] / found.totals["honest"]
        cells = ["" if rule == "any" else f"{false:.3%}", f"{len(hit['honest']) / count:.2%}"]
        cells += [f"{len(hit[kind]) / cheats:.0%}" for kind in CHEATS]
        lines.append(f"| {rule} | {' | '.join(cells)} |")
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    """Print who is caught; 1 if rules that refuse or hold hit more than 2 % of honest players."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--players", type=int, default=2_000)
    parser.add_argument("--cheats", type=int, default=100, help="players of each kind")
    parser.add_argument("--seed", type=int, default=2026)
    options = parser.parse_args(argv)
    found = judge(Random(options.seed), options.players, options.cheats)
    table = "\n".join(report(found, options.players, options.cheats))
    strict = [str(rule["rule"]) for rule in RULES if rule["then"] != "flag"]
    wrongly = set().union(*(found.players[rule]["honest"] for rule in strict))
    share = len(wrongly) / options.players
    sys.stdout.write(f"{table}\n\nheld or refused: {share:.2%} of honest players\n")
    return int(len(wrongly) > options.players * 0.02)


if __name__ == "__main__":
    sys.exit(main())
