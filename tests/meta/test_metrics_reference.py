"""The page of metrics is that of this version, and of a running service."""

import re
from pathlib import Path

from tests.http.api_facade import asked
from tests.http.clocked import serving
from tests.http.test_workers import connect
from tests.meta.metrics_reference import PAGE, render

ROW = re.compile(r"^\| `(\w+)` \| (counter|gauge) \| ([^|]*) \|", re.MULTILINE)
SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? \S+$", re.MULTILINE)


def test_page_of_metrics_is_current() -> None:
    assert PAGE.read_text() == render(), "python -m tests.meta.metrics_reference writes it"


def test_a_running_service_has_every_metric_of_the_page_with_its_labels(tmp_path: Path) -> None:
    with serving(tmp_path, "--port", "0") as served:
        connection = connect(served.port)
        rules = [{"rule": "first_score", "max": 1, "then": "hold"}]
        asked(connection, "PUT", "/v1/boards/b", {"rules": rules})
        asked(connection, "POST", "/v1/boards/b/scores", {"player": "p", "score": 2})
        text = asked(connection, "GET", "/metrics").body.decode()
        connection.close()
    rows = ROW.findall(PAGE.read_text())
    assert len(rows) >= 20
    listed = {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
    kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))
    labels = {name: set(re.findall(r'(\w+)="', given)) for name, given in SAMPLE.findall(text)}
    assert {name: (kinds[name], labels[name]) for name in labels} == listed
