"""docs/reference/metrics.md, made from the table of metrics.

``python -m tests.meta.metrics_reference`` writes it; test_metrics_reference.py compares.
"""

from pathlib import Path

from rankd.api.exposition import Merge, Metric
from rankd.api.metrics import METRICS

PAGE = Path(__file__).parents[2] / "docs/reference/metrics.md"

HEAD = """# Metrics

Every metric of `GET /metrics`, in the text format of Prometheus. The page is made from
`src/rankd/api/metrics.py` by `python -m tests.meta.metrics_reference`. Which of them are worth an
alarm: [Watching nodes](../operating/watching.md#metrics-worth-an-alarm).

With `--workers` one scrape covers all processes of a node, whichever of them answers it. The column
*processes* says how their values become one:

| processes | value |
| --- | --- |
| writer | that of the process that writes |
| sum | the sum over all processes, those that ended included |
| worst | the least over all processes that answer |
| each | one sample for each process, told apart by labels |

A worker that does not answer within half a second counts as down: its part of the sums stays as it
was. While the process that writes does not answer, a worker returns only the metrics of *worst* and
*each*, so no counter appears to go back.

| metric | type | labels | processes | meaning |
| --- | --- | --- | --- | --- |
"""

PROCESSES: dict[Merge, str] = {"writer": "writer", "sum": "sum", "min": "worst", "each": "each"}


def render() -> str:
    """Return the whole page."""
    return HEAD + "".join(map(_row, METRICS))


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{name}`" for name in metric.labels)
    cells = (f"`{metric.name}`", metric.kind, labels, PROCESSES[metric.merge], metric.help)
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    PAGE.write_text(render())
