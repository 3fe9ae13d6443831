"""What rank_list.py found, as text."""

from collections.abc import Iterator

from benchmarks.figures import (
    TIMES,
    Measurement,
    count,
    cpu_ratio,
    fastest,
    number,
    quotient,
    ratio,
    table,
)
from benchmarks.rank_list import BATCH_SIZES, BATCHED, PAGES, SINGLE, Results
from benchmarks.rank_list_native import BATCH
from benchmarks.rank_list_native import SYSTEM as OURS
from benchmarks.rank_list_redis import SYSTEM as REDIS

# Redis has no update that returns ranks: both of ours are compared with the one it has.
_SAME_IN_REDIS = {"update without ranks": "update"}


def tables(results: Results) -> str:
    """Return everything: time at each size, ways of Redis, batches, memory, filling, goals."""
    parts = [_where(results)]
    parts += [_times(results, players) for players in results.sizes]
    parts += [*_ways(results), *_by_batch(results), _memory(results), _filling(results)]
    parts.append(_goals(results))
    parts += results.notes
    return "\n\n".join(part for part in parts if part)


def _where(results: Results) -> str:
    facts = results.machine
    redis = f"Redis {results.redis_version}" if results.redis_version else "no Redis"
    load = " ".join(f"{one:.1f}" for one in facts["load_average"])
    return (
        f"{facts['cpu']}, {facts['cores']} cores, {facts['memory_bytes'] / 2**30:.0f} GiB; "
        f"{facts['system']}, Python {facts['python']}, {redis}\n"
        f"commit {facts['commit']}, {results.date}; load before the run {load}"
    )


def _times(results: Results, players: int) -> str:
    def row(operation: str) -> list[str]:
        same = _SAME_IN_REDIS.get(operation, operation)
        found = results.measurements
        ours = fastest(found, players=players, system=OURS, operation=operation)
        redis = fastest(found, players=players, system=REDIS, operation=same)
        times = [number(ratio(redis, ours), TIMES), number(cpu_ratio(redis, ours), TIMES)]
        return [operation, *_three(ours), *_three(redis), *times, redis.way if redis else "-"]

    head = ["µs each", "rankd", "best", "cpu", "Redis", "best", "cpu", "ratio", "cpu"]
    body = [row(operation) for operation in (*BATCHED, *SINGLE, *PAGES)]
    title = f"{count(players)} players: rankd in batches of {BATCH}; median, best, processor time"
    return f"{title}\n\n{table([*head, 'Redis by'], body)}"


def _three(side: Measurement | None) -> list[str]:
    if side is None:
        return [number(None)] * 3
    return [number(one) for one in (side.median_us, side.best_us, side.median_cpu_us)]


def _ways(results: Results) -> Iterator[str]:
    for operation, command in (("update", "ZADD"), ("rank", "ZREVRANK")):
        found = [m for m in results.measurements if (m.system, m.operation) == (REDIS, operation)]
        if not found:
            continue
        ways = dict.fromkeys(m.way for m in found)
        by_place = {(m.way, m.players): m for m in found}
        body = [
            [way, *(cell for m in places for cell in _three(m)[::2])]
            for way in ways
            for places in [[by_place.get((way, players)) for players in results.sizes]]
        ]
        head = ["way", *(cell for players in results.sizes for cell in (count(players), "cpu"))]
        title = f"Redis, {command}: µs each and the server's processor time, by how it is sent"
        yield f"{title}\n\n{table(head, body)}"


def _by_batch(results: Results) -> Iterator[str]:
    found = {
        (m.system, m.operation, m.way): m
        for m in results.measurements
        if m.operation.endswith(" by batch")
    }
    if not found:
        return
    players = next(iter(found.values())).players

    def row(batch: int) -> list[str]:
        cells = [str(batch)]
        for operation in ("update", "rank"):
            ours = found.get((OURS, f"{operation} by batch", str(batch)))
            redis = found.get((REDIS, f"{operation} by batch", str(batch)))
            cells += [number(side.median_us if side else None) for side in (ours, redis)]
            cells.append(number(ratio(redis, ours), TIMES))
        return cells

    head = ["at once", "update", "ZADD", "ratio", "rank", "ZREVRANK", "ratio"]
    title = f"{count(players)} players: µs each, by how many are done in one call or one pipeline"
    yield f"{title}\n\n{table(head, [row(batch) for batch in BATCH_SIZES])}"


def _memory(results: Results) -> str:
    def per_player(players: int, system: str, state: str) -> float | None:
        return quotient(results.bytes(players, system, state), players)

    def own(players: int, system: str) -> float | None:
        fill = results.filled(players, system, "mixed")
        return fill["memory"]["own"] / players if fill else None

    def row(players: int) -> list[str]:
        ours = [per_player(players, OURS, state) for state in ("loaded", "mixed", "inserted")]
        redis = [per_player(players, REDIS, state) for state in ("loaded", "mixed", "inserted")]
        total = quotient(results.bytes(players, OURS, "mixed"), 1e9)
        cells = [*ours, own(players, OURS), *redis, own(players, REDIS)]
        return [
            count(players),
            *(number(one) for one in cells),
            number(quotient(redis[1], ours[1]), TIMES),
            number(total, "GB"),
        ]

    head = ["players", "loaded", "mixed", "inserted", "own count"]
    head += ["Redis: filled", "mixed", "inserted", "own count", "ratio", "rankd's total"]
    title = "Memory: bytes a player, 16-character ids included"
    return f"{title}\n\n{table(head, [row(players) for players in results.sizes])}"


def _filling(results: Results) -> str:
    def row(players: int) -> list[str]:
        ours = results.filled(players, OURS, "loaded") or {}
        inserted = results.filled(players, OURS, "inserted") or {}
        redis = results.filled(players, REDIS, "loaded") or {}
        redis_inserted = results.filled(players, REDIS, "inserted") or {}
        cells = [ours.get("intern_us"), ours.get("load_us"), inserted.get("us")]
        cells += [redis.get("us"), redis_inserted.get("us")]
        times = quotient(redis_inserted.get("us"), inserted.get("us"))
        return [count(players), *(number(one) for one in cells), number(times, TIMES)]

    head = ["players", "ids", "load", "insert", "Redis: best first", "random order", "ratio"]
    title = "Filling: µs a player"
    return f"{title}\n\n{table(head, [row(players) for players in results.sizes])}"


def _goals(results: Results) -> str:
    def row(goal: dict[str, object]) -> list[str]:
        verdict = {True: "reached", False: "NOT REACHED", None: "not measured"}
        figure, bound, unit = goal["figure"], goal["bound"], str(goal["unit"])
        assert isinstance(bound, int | float)
        assert figure is None or isinstance(figure, int | float)
        reached = goal["reached"]
        assert reached is None or isinstance(reached, bool)
        target = f"{goal['aim']} {bound:g} {unit}"
        return [str(goal["text"]), target, number(figure, unit), verdict[reached]]

    body = [row(goal.judged()) for goal in results.goals()]
    return f"Goals\n\n{table(['question', 'goal', 'figure', ''], body, left=2)}"
