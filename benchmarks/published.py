"""python -m benchmarks.published: let the pages say what was measured last.

The passages of README and docs that are figures stand between two marks, and are made here from
benchmarks/results/*.json; `make bench` does so when it has measured. A test compares them, so no
page can say what no run has found.
"""

import json
import re
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.figures import TIMES
from benchmarks.http import NAKAMA
from benchmarks.http_realistic import MANY, RANK, WRITE
from benchmarks.questions import find
from benchmarks.sizing import (
    GB,
    Figures,
    Load,
    Plan,
    Prices,
    cost,
    facts,
    folding_seconds,
    plans,
)

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).with_name("results")

PAGE_WIDTH = 140
"""How long the lines of our pages are."""

_PASSAGE = re.compile(r"(<!-- measured: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


class Measured:
    """What the runs found, row by row."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._results: dict[str, dict[str, Any]] = {}

    def result(self, name: str) -> dict[str, Any]:
        """Return what was answered to a question."""
        if name not in self._results:
            self._results[name] = json.loads((self.folder / f"{name}.json").read_text())
        return self._results[name]

    def of(self, name: str, what: str) -> float:
        """Return a figure that must be there."""
        found = find(self.result(name), what)
        if found is None:
            raise KeyError(f"{name}.json has no row {what!r}")
        return found


def rounded(figure: float) -> str:
    """Show a figure with as many digits as it is worth: three of a large one, two of a small."""
    if figure >= 1000:
        size = 10 ** (len(str(int(figure))) - 3)
        return f"{round(figure / size) * size:,}"
    return f"{figure:.0f}" if figure >= 100 else f"{figure:.2g}" if figure < 10 else f"{figure:.1f}"


def ratio(times: float) -> str:
    """Show how many times a figure is another: near one, a hundredth is worth saying."""
    return f"{times:.2f}" if times < 10 else f"{times:.0f}"


def paragraph(*words: str) -> str:
    """Return a text in lines as long as the others of a page."""
    return textwrap.fill("".join(words), PAGE_WIDTH, break_on_hyphens=False)


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Return a table as Markdown."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


# ------------------------------------------------------------------------------ passages


def machine(measured: Measured, name: str) -> str:
    """Return what a question was answered on."""
    facts, when = measured.result(name)["machine"], measured.result(name)["date"]
    cores = {2: "two cores"}.get(facts["cores"], f"{facts['cores']} cores")
    return f"{cores} of an {facts['cpu'].replace('(R)', '')}, {when}"


class Beside(NamedTuple):
    """A figure of the service, and those it stands beside."""

    shown: str
    ours: str
    ceiling: str | None = None
    redis: str | None = None
    nakama: str | None = None


_SERVICE = (
    Beside(
        "one rank, 32 connections",
        "one rank, 32 connections",
        "ceiling for it, 32 connections",
        "Redis ZREVRANK, 32 connections",
        "rank",
    ),
    Beside(
        "one rank, 256 connections",
        "one rank, 256 connections",
        "ceiling for it, 256 connections",
    ),
    Beside(
        "top 100",
        "top 100, 32 connections",
        "ceiling for its size, 32 connections",
        "Redis ZREVRANGE 0 99, 32 connections",
        "top",
    ),
    Beside("around a player, eleven rows", "around a player, 32 connections", nakama="around"),
    Beside(
        "durable submissions, one a request, 256 connections",
        "durable submissions, 256 connections",
        redis="Redis ZADD, durable, 256 connections",
        nakama="write",
    ),
    Beside(
        "the same, each with a key by which it counts once",
        "durable submissions with a key, 256 connections",
    ),
    Beside(
        "durable scores, a thousand a request, three windows",
        "durable scores in batches of 1,000",
    ),
)


def embedded(measured: Measured) -> str:
    """What the engine reaches inside a program."""

    def of(what: str) -> float:
        return measured.of("embedded", what)

    submissions, in_three = of("submissions, all"), of("submissions, all+daily+weekly")
    redis = of("Redis ZADD, durable, pipelines of 16")
    return paragraph(
        "The whole engine inside a program, one thread, a million players, everything on stable ",
        f"storage before it is acknowledged, on {machine(measured, 'embedded')} ",
        f"(`make bench QUESTIONS=embedded`): {rounded(submissions)} submissions a second by ",
        f"`submit_many`, {ratio(submissions / redis)} times as many as Redis takes in pipelines ",
        f"of 16 with its log synced; {rounded(in_three)} on a board with ",
        f"three windows, {rounded(of('submissions with a key'))} where each has a key by which it ",
        f"counts once. {rounded(of('ranks, by ranks()'))} ranks a second by `ranks`, ",
        f"{rounded(of('ranks, by standing()'))} standings one by one.",
    )


def service(measured: Measured) -> str:
    """What one process reaches over HTTP, beside others."""

    def http(what: str) -> float:
        return measured.of("http", what)

    def times(ours: float, other: float | None) -> str:
        return "" if other is None else f"{rounded(other)} ({ratio(ours / other)} {TIMES})"

    def row(one: Beside) -> tuple[str, ...]:
        ours = http(one.ours)
        others = [
            None if one.ceiling is None else http(one.ceiling),
            None if one.redis is None else http(one.redis),
            None if one.nakama is None else NAKAMA[one.nakama],
        ]
        return one.shown, f"**{rounded(ours)}**", *(times(ours, other) for other in others)

    head = ("a second", "rankd", "constant answer in Python", "Redis, its own protocol", "Nakama")
    before = paragraph(
        "One process over HTTP with a million players; wrk, or redis-benchmark, shares its ",
        f"{machine(measured, 'http')} (`make bench QUESTIONS=http`). Beside it a server ",
        "that parses each request with httptools and answers a constant of the same size; Redis, ",
        "one command a round trip, its log synced for durable ones; and Nakama 3.40, on another ",
        "machine. In brackets, how many times that rankd is.",
    )
    behind = paragraph(
        f"99 of 100 submissions are on disk and answered within {http('p99 of a submission'):.0f} ",
        f"ms, reads beside them within {http('p99 of a read beside'):.0f} ms. An empty service ",
        f"starts in {http('start of an empty service'):.1f} s and holds ",
        f"{http('memory, idle'):.0f} MB.",
    )
    return f"{before}\n\n{table(head, list(map(row, _SERVICE)))}\n\n{behind}"


def realistic(measured: Measured) -> str:
    """What is left of the plain path's speed under realistic traffic."""
    shares: dict[str, dict[str, str]] = {}
    plain = (RANK, WRITE, MANY)
    for case in measured.result("http_realistic")["rows"]:
        if case["what"] not in plain:
            trait = case["what"].removeprefix(f"{case['of']}, ")
            shares.setdefault(trait, {})[case["of"]] = f"{case['share']:.2f}"
    rows = [(trait, *(those.get(of, "") for of in plain)) for trait, those in shares.items()]
    figures = (rounded(measured.of("http_realistic", of)) for of in plain)
    before = paragraph(
        "Those are plain requests. Real ones carry headers that differ, keys and tokens, and ask ",
        "boards with more on them: the same service with them, as a share of the plain path in ",
        f"the same run ({machine(measured, 'http_realistic')}; `make bench ",
        "QUESTIONS=http_realistic`).",
    )
    head = ("share of the plain path", "one rank", "one submission", "a batch")
    first = ("plain, a second", *figures)
    return f"{before}\n\n{table(head, [first, *rows])}"


def nodes(measured: Measured) -> str:
    """What one process reaches over PostgreSQL and Redis."""

    def of(what: str) -> float:
        return measured.of("nodes", what)

    ours = [of(f"{what}, Redis, 256 connections") for what in _ASKED]
    native = [of(f"{what}, native, 256 connections") for what in _ASKED]
    plain = [of(f"plain calls, a {what}, 256 tasks") for what in ("submission", "rank")]
    return paragraph(
        f"Over PostgreSQL and Redis, with {measured.result('nodes')['players']:,} players and all ",
        "of them on the same two cores (`make bench QUESTIONS=nodes`): ",
        f"{rounded(ours[0])} durable submissions and {rounded(ours[1])} ranks a second, ",
        f"{ours[0] / plain[0]:.1f} and {ours[1] / plain[1]:.1f} times as many as plain calls ",
        f"of their drivers; with an index in each node, {rounded(native[0])} and ",
        f"{rounded(native[1])}.",
    )


_ASKED = ("submissions", "ranks")


def measured_on(measured: Measured) -> str:
    """Say where the figures of sizes are from."""
    return paragraph(
        f"On {machine(measured, 'http')}, with 24 GB; the load generator ran on the same cores, ",
        "so a server of its own reaches more.",
    )


def sizes_measured(measured: Measured) -> str:
    """What the model of sizes is made from."""

    def one(name: str, what: str) -> str:
        return rounded(measured.of(name, what))

    def many(name: str, *what: str) -> str:
        return " and ".join(f"{one(name, each)}/s" for each in what)

    http, nodes = "`make bench QUESTIONS=http`", "`make bench QUESTIONS=nodes`"
    start, redis = "`make bench QUESTIONS=start`", "`make bench QUESTIONS=redis_index`"
    here = "`python -m benchmarks.sizing --measure`"
    started = measured.result("start")["players"]
    fold = measured.of("start", "ready from the ledger") / started * 1e6
    bytes_of = "native: a player, with its first ranking"
    facts = "SQLite: a fact", "PostgreSQL: a fact"
    rows = [
        ("memory of an idle process", f"{one('http', 'memory, idle')} MB", http),
        (
            "memory of a player in the engine, id of 16 characters, first ranking",
            f"{one('sizing', bytes_of)} B",
            here,
        ),
        (
            "the same, each further ranking",
            f"{one('sizing', 'native: a further ranking of a player')} B",
            here,
        ),
        (
            "durable scores, one a request, one process",
            many("http", "durable submissions, 256 connections"),
            http,
        ),
        (
            "durable scores, a thousand a request, three windows",
            many("http", "durable scores in batches of 1,000"),
            http,
        ),
        ("one rank over HTTP, one process", many("http", "one rank, 256 connections"), http),
        ("top 100 over HTTP, one process", many("http", "top 100, 32 connections"), http),
        ("to read, decode and fold a fact from SQLite", f"{rounded(fold)} µs", start),
        (
            "the same from PostgreSQL, processor time of the node",
            f"{one('sizing', 'PostgreSQL: processor time to follow a fact')} µs",
            here,
        ),
        (
            "to read and note a fact that another node took, index in Redis, processor time",
            f"{one('sizing', 'Redis: processor time to follow a fact')} µs",
            here,
        ),
        *(
            (
                f"a fact in {fact.partition(':')[0]}, on disk; with a key and its receipt",
                f"{one('sizing', fact)} B; {one('sizing', f'{fact} with a key')} B",
                here,
            )
            for fact in facts
        ),
        (
            f"ready from a saved index, {started / 1e6:.0f} M players",
            f"{one('start', 'ready from the snapshot')} s",
            start,
        ),
        *(
            (
                f"scores and ranks of a node on PostgreSQL, index {where}",
                many("nodes", *(f"{what}, {index}, 256 connections" for what in _ASKED)),
                nodes,
            )
            for index, where in (("native", "in each node"), ("Redis", "in Redis"))
        ),
        *(
            (
                f"scores a thousand a request on PostgreSQL, three windows, index {where}",
                many("nodes", f"scores in batches of 1,000, {index}"),
                nodes,
            )
            for index, where in (("native", "in each node"), ("Redis", "in Redis"))
        ),
        (
            "memory of a player in Redis; in a plain sorted set",
            " B; ".join(one("redis_index", f"bytes a player{which}") for which in ("", ", plain"))
            + " B",
            redis,
        ),
        (
            "moves of an index in Redis, in applies of 256",
            many("redis_index", "moves in applies of 256"),
            redis,
        ),
        (
            "a million entries brought to an empty Redis",
            f"{one('redis_index', 'a million copied')} s",
            redis,
        ),
    ]
    return table(("figure", "", "command"), rows)


SIZES = (
    ("1 M", Load(players=1_000_000, scores=1_000, reads=10_000, rankings=3)),
    ("10 M", Load(players=10_000_000, scores=2_000, reads=20_000, rankings=3)),
    ("100 M", Load(players=100_000_000, scores=10_000, reads=50_000, rankings=3, batched=True)),
    ("1,000 M", Load(players=1_000_000_000, scores=1_000, reads=10_000, rankings=1)),
)


def sizes(measured: Measured) -> str:
    """What the model says of some sizes."""
    figures = Figures.read(measured.folder)
    rows = []
    for name, load in SIZES:
        scores = f"{load.scores:,.0f}{', in batches' if load.batched else ''}"
        told = [_plan(plan) for plan in plans(load, figures)]
        rows.append((name, scores, f"{load.reads:,.0f}", *told))
    return table(
        ("players", "scores/s", "reads/s", *(plan.layout for plan in plans(load, figures))), rows
    )


def folding(measured: Measured) -> str:
    """How long it takes to fold the ledger of a year, for those who have no saved index."""
    figures = Figures.read(measured.folder)
    rows = []
    for name, load in SIZES:
        hours = (folding_seconds(load, figures) or 0.0) / 3_600
        took = f"{rounded(hours)} hours" if hours < 48 else f"{rounded(hours / 24)} days"
        rows.append((name, f"{load.scores:,.0f}", f"{facts(load) / 1e9:,.1f} billion", took))
    return table(("players", "scores/s at the peak", "facts after a year", "to fold them"), rows)


def _plan(plan: Plan) -> str:
    if plan.processes is None or plan.process_bytes is None:
        return "not so: " + "; ".join(plan.notes)
    word = "process" if plan.layout.startswith("SQLite") else "node"
    some = word if plan.processes == 1 else f"{word}es" if word == "process" else f"{word}s"
    told = f"{plan.processes} {some} of {rounded(plan.process_bytes / GB)} GB"
    if plan.redis_bytes:
        servers = "" if plan.redis_cores == 1 else f" on {plan.redis_cores} servers"
        told += f", Redis {rounded(plan.redis_bytes / GB)} GB{servers}"
    price, disk = cost(plan, Prices()), plan.disk_bytes or 0.0
    return f"{told}; disk {rounded(disk / 1e12)} TB; {rounded(price or 0.0)} a month"


PAGES: Mapping[str, Mapping[str, Callable[[Measured], str]]] = {
    "README.md": {
        "embedded": embedded,
        "service": service,
        "realistic": realistic,
        "nodes": nodes,
    },
    "docs/operating/choosing-a-size.md": {
        "machine": lambda measured: (
            f"On {machine(measured, 'http')}, with 24 GB; the load generator ran on the"
            " same cores, so a server of its own reaches more."
        ),
        "figures": sizes_measured,
        "sizes": sizes,
        "folding": folding,
    },
}


def made(page: str, text: str, measured: Measured) -> str:
    """Return a page with its passages as they have to be."""
    passages = PAGES[page]
    missing = passages.keys() - {found[2] for found in _PASSAGE.finditer(text)}
    if missing:
        raise KeyError(f"{page} has no marks for {', '.join(sorted(missing))}")
    return _PASSAGE.sub(lambda found: f"{found[1]}{passages[found[2]](measured)}\n{found[3]}", text)


def main() -> None:
    """Write the pages."""
    measured = Measured(RESULTS)
    for page in PAGES:
        path = ROOT / page
        path.write_text(made(page, path.read_text(), measured))
        sys.stdout.write(f"Written: {path}\n")


if __name__ == "__main__":
    main()
