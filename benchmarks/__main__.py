"""python -m benchmarks: measure, print tables, write JSON and plots into benchmarks/results."""

import argparse
import datetime
import sys
from pathlib import Path

try:
    from benchmarks import (
        archives,
        attributes,
        clients,
        closing,
        embedded,
        http,
        http_realistic,
        integrity,
        nodes,
        postgres_ledger,
        published,
        questions,
        questions_plot,
        rank_list,
        rank_list_plot,
        redis_index,
        start,
        streams,
    )
    from benchmarks import rank_list_tables as tables
except ModuleNotFoundError as error:
    sys.exit(f"{error}: `make bench` installs what the benchmarks need (requirements/bench.txt)")

_RESULTS = Path(__file__).with_name("results")

OTHERS = {
    embedded.NAME: (embedded.run, 1_000_000),
    start.NAME: (start.run, 10_000_000),
    archives.NAME: (archives.run, 10_000_000),
    closing.NAME: (closing.run, 10_000_000),
    integrity.NAME: (integrity.run, 10_000_000),
    attributes.NAME: (attributes.run, 1),
    http.NAME: (http.run, 1_000_000),
    http_realistic.NAME: (http_realistic.run, 1_000_000),
    clients.NAME: (clients.run, 10_000),
    nodes.NAME: (nodes.run, 1_000_000),
    redis_index.NAME: (redis_index.run, 1_000_000),
    postgres_ledger.NAME: (postgres_ledger.run, 100_000),
    streams.NAME: (streams.run, 10_000),
}
"""Questions beside the rank list's, and how many players each is asked with."""


def main() -> None:
    """Read the command line and answer every question that is asked."""
    options = _options()
    asked = options.questions or [rank_list.NAME, *OTHERS]
    for name in asked:
        if name == rank_list.NAME:
            _rank_list(options)
        else:
            _other(name, options)
    if options.results == _RESULTS:
        published.main()


def _rank_list(options: argparse.Namespace) -> None:
    saved = options.results / f"{rank_list.NAME}.json"
    if options.show:
        results = rank_list.Results.read(saved)
    else:
        results = rank_list.run(
            rank_list.Options(
                sizes=options.sizes or rank_list.SIZES,
                seconds=options.seconds,
                repetitions=options.repetitions,
                redis=not options.no_redis,
                date=options.date,
                results=options.results,
            )
        )
    print(tables.tables(results))
    written = rank_list_plot.draw(results, options.results)
    print("\nWritten:", *(path for path in (saved, *written)))


def _other(name: str, options: argparse.Namespace) -> None:
    run, players = OTHERS[name]
    if options.sizes:
        players = max(options.sizes)
    result = run(questions.Asked(players, options.date, redis=not options.no_redis))
    print(questions.shown(result))
    written = (
        questions.write(result, options.results),
        questions_plot.draw(result, options.results),
    )
    print("\nWritten:", *(path for path in written if path is not None))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    add("sizes", nargs="*", type=_size, metavar="PLAYERS", help="100000 1000000 10000000 if none")
    names = [rank_list.NAME, *OTHERS]
    add("--questions", nargs="+", choices=names, help="which to answer; all if none is given")
    add("--seconds", type=float, default=1.5, help="how long one measurement lasts, at least")
    add("--repetitions", type=int, default=3, help="how often each is made")
    add("--no-redis", action="store_true", help="measure rankd alone")
    add("--date", default=_today(), help="the date to write down; today if not given")
    add("--results", type=Path, default=_RESULTS, metavar="FOLDER", help="where to write")
    add("--show", action="store_true", help="measure nothing: print and draw what was written")
    return parser.parse_args()


def _size(text: str) -> int:
    size = int(text)
    if not rank_list.PLAYERS_MIN <= size <= rank_list.PLAYERS_MAX:
        raise argparse.ArgumentTypeError(
            f"{size}: a list has {rank_list.PLAYERS_MIN} to {rank_list.PLAYERS_MAX} players here"
        )
    return size


def _today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


if __name__ == "__main__":
    main()
