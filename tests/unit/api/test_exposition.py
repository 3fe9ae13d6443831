"""Metric families: one sample of several processes, and the text of it."""

from rankd.api.exposition import (
    Family,
    Metric,
    WorkerFigures,
    label,
    merge,
    partial,
    render,
    retire,
)


def own(*, restarts: int, up: int, position: int) -> list[Family]:
    """Return a family of each way to merge."""
    pid = label(pid=str(position))
    return [
        Metric("restarts_total", "counter", "sum", "Restarts.").sample(restarts),
        Metric("bytes", "gauge", "sum", "Memory.").sample(10),
        Metric("up", "gauge", "min", "1 while it is.").sample(up),
        Metric("position", "counter", "writer", "Position.").sample(position),
        Family("info", "gauge", "each", "Processes.", {pid: 1}),
    ]


def samples(families: list[Family]) -> dict[str, float]:
    found = [(family.name + key, value) for family in families for key, value in samples_of(family)]
    assert len(dict(found)) == len(found)
    return dict(found)


def samples_of(family: Family) -> list[tuple[str, float]]:
    return list(family.samples.items())


def test_each_figure_is_merged_by_its_meaning() -> None:
    workers = [
        WorkerFigures("worker-1", True, own(restarts=2, up=1, position=8)),
        WorkerFigures("worker-2", True, own(restarts=0, up=0, position=9)),
    ]
    assert samples(merge(own(restarts=1, up=1, position=10), workers)) == {
        "restarts_total": 3,
        "bytes": 30,
        "up": 0,
        "position": 10,
        'info{pid="10"}': 1,
        'info{pid="8"}': 1,
        'info{pid="9"}': 1,
        'rankd_process_up{process="writer"}': 1,
        'rankd_process_up{process="worker-1"}': 1,
        'rankd_process_up{process="worker-2"}': 1,
    }


def test_a_process_that_does_not_answer_keeps_its_sums_and_nothing_that_may_have_changed() -> None:
    silent = WorkerFigures("worker-1", False, own(restarts=2, up=0, position=8))
    found = samples(merge(own(restarts=1, up=1, position=10), [silent]))
    assert (found["restarts_total"], found["bytes"], found["up"]) == (3, 20, 1)
    assert found['rankd_process_up{process="worker-1"}'] == 0


def test_labels_are_merged_each_for_itself() -> None:
    first = Family("restarts_total", "counter", "sum", "Restarts.", {label(manager="a"): 1})
    both = {label(manager="a"): 2, label(manager="b"): 3}
    second = Family("restarts_total", "counter", "sum", "Restarts.", both)
    found = samples(merge([first], [WorkerFigures("worker-1", True, [second])]))
    assert found['restarts_total{manager="a"}'] == 3
    assert found['restarts_total{manager="b"}'] == 3


def test_counters_of_processes_that_ended_add_up() -> None:
    once = retire(own(restarts=2, up=0, position=8), ())
    twice = retire(own(restarts=3, up=0, position=9), once)
    assert samples(twice) == {"restarts_total": 5}
    replaced = WorkerFigures("worker-1", True, own(restarts=1, up=1, position=9), twice)
    found = samples(merge(own(restarts=0, up=1, position=10), [replaced]))
    assert (found["restarts_total"], found["bytes"], found["up"]) == (6, 20, 1)


def test_a_worker_alone_tells_nothing_that_needs_the_others() -> None:
    assert samples(partial(own(restarts=2, up=0, position=8))) == {
        "up": 0,
        'info{pid="8"}': 1,
        'rankd_process_up{process="writer"}': 0,
    }


def test_numbers_are_written_as_they_are_meant() -> None:
    whole = Metric("position", "counter", "writer", "Position.").sample(2**53 + 1)
    parts = Metric("seconds", "gauge", "sum", "Seconds.").sample(0.1 + 0.2)
    assert render([whole, parts]) == (
        b"# HELP position Position.\n# TYPE position counter\nposition 9007199254740993\n"
        b"# HELP seconds Seconds.\n# TYPE seconds gauge\nseconds 0.3\n"
    )


def test_label_values_are_escaped() -> None:
    assert label(node='a "b"\n\\') == '{node="a \\"b\\"\\n\\\\"}'
