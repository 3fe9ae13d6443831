"""The calculator of sizes: its arithmetic by hand, its figures where they say they are."""

import json
import re
import shlex
from pathlib import Path

import pytest
from benchmarks import sizing
from benchmarks.sizing import (
    SOURCES,
    Figures,
    Load,
    Prices,
    cost,
    facts,
    folding_seconds,
    main,
    plans,
    shown,
)

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "operating" / "choosing-a-size.md"

ROUND = Figures(
    {
        "process bytes": 50e6,
        "player bytes": 100.0,
        "ranking bytes": 50.0,
        "score rate": 10_000.0,
        "batched score rate": 50_000.0,
        "read rate": 20_000.0,
        "replay seconds": 50.0,
        "replayed players": 10_000_000.0,
        "fact bytes": 40.0,
        "keyed fact bytes": 160.0,
        "PostgreSQL follow us": 10.0,
        "PostgreSQL fact bytes": 200.0,
        "PostgreSQL keyed fact bytes": 500.0,
        "PostgreSQL score rate": 5_000.0,
        "PostgreSQL read rate": 20_000.0,
        "PostgreSQL batched score rate": 25_000.0,
        "Redis follow us": 10.0,
        "Redis score rate": 4_000.0,
        "Redis batched score rate": 8_000.0,
        "Redis read rate": 10_000.0,
        "Redis player bytes": 180.0,
        "Redis move rate": 20_000.0,
    }
)


def test_memory_is_that_of_a_process_and_of_every_ranking_of_every_player() -> None:
    load = Load(players=1_000_000, scores=100, reads=100, rankings=3)
    one, native, redis = plans(load, ROUND)
    assert one.process_bytes == native.process_bytes == 50e6 + 1e6 * (100 + 2 * 50)
    assert redis.process_bytes == 50e6
    assert redis.redis_bytes == 1e6 * 3 * 180
    assert redis.memory_bytes == 2 * 50e6 + 1e6 * 3 * 180


def test_processes_share_reads_and_one_of_them_takes_all_scores() -> None:
    load = Load(players=1, scores=2_000, reads=12_000)
    one, _, _ = plans(load, ROUND)
    assert one.processes == 2  # 2,000 / 10,000 + 12,000 / 20,000 / 2 = 0.5
    one, _, _ = plans(Load(players=1, scores=6_000, reads=0), ROUND)
    assert one.processes is None
    assert "one process takes all scores" in one.notes[0]
    one, _, _ = plans(Load(players=1, scores=6_000, reads=0, batched=True), ROUND)
    assert one.processes == 1


def test_every_node_follows_everything_and_there_is_one_to_spare() -> None:
    _, native, _ = plans(Load(players=1, scores=10_000, reads=8_000), ROUND)
    assert native.processes == 7  # 0.1 + (2 + 0.4) / 6 = 0.5, and one more
    _, native, _ = plans(Load(players=1, scores=50_000, reads=0), ROUND)
    assert native.processes is None
    assert "every node follows all scores" in native.notes[0]
    _, _, redis = plans(Load(players=1, scores=8_000, reads=8_000), ROUND)
    assert redis.processes == 8  # 0.08 + (2 + 0.8) / 7 < 0.5, and one more
    _, _, redis = plans(Load(players=1, scores=60_000, reads=0), ROUND)
    assert redis.processes is None
    assert "every node follows all scores" in redis.notes[0]


def test_batches_are_cheaper_wherever_the_ledger_is() -> None:
    load = Load(players=1, scores=10_000, reads=0, batched=True)
    _, native, redis = plans(load, ROUND)
    assert native.processes == 2  # 0.1 + 0.4 = 0.5, and one more
    assert redis.processes == 5  # 0.1 + 1.25 / 4 < 0.5, and one more


def test_an_index_in_redis_is_moved_by_one_core_or_by_those_of_a_cluster() -> None:
    _, _, redis = plans(Load(players=1, scores=1_000, reads=2_300, rankings=3), ROUND)
    assert (redis.processes, redis.redis_cores) == (2, 1)  # 0.01 + 0.25 + 0.23, and one more
    _, _, redis = plans(Load(players=1, scores=4_000, reads=0, rankings=3), ROUND)
    assert redis.redis_cores == 2  # 12,000 moves/s, of which one takes 10,000 at half its time
    _, _, redis = plans(Load(players=1, scores=1e6, reads=0, rankings=3), ROUND)
    assert redis.processes is None
    assert "10,000 moves/s" in redis.notes[0]


def test_a_ledger_keeps_everything() -> None:
    load = Load(players=1, scores=100, reads=0, average=0.5, days=10)
    one, native, _ = plans(load, ROUND)
    facts = 100 * 0.5 * 86_400 * 10
    assert (one.disk_bytes, native.disk_bytes) == (facts * 160, facts * 500)
    bare, _, _ = plans(
        Load(players=1, scores=100, reads=0, average=0.5, days=10, keyed=False), ROUND
    )
    assert bare.disk_bytes == facts * 40


def test_without_a_saved_index_all_of_it_is_folded() -> None:
    load = Load(players=1, scores=100, reads=0, average=0.5, days=10)
    assert facts(load) == 100 * 0.5 * 86_400 * 10
    assert folding_seconds(load, ROUND) == facts(load) * 10 / 1e6
    assert folding_seconds(load, Figures({})) is None


def test_measuring_some_rows_anew_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    old = {"machine": "m", "rows": [{"what": "SQLite: a fact"}, {"what": "Redis: x", "figure": 1}]}
    monkeypatch.setattr(sizing, "_redis", lambda: [{"what": "Redis: x", "figure": 2}])
    found = sizing.measure(1, "Redis: ", old)
    assert found["machine"] == "m"
    assert found["rows"][0] == old["rows"][0]
    assert (found["rows"][1]["figure"], len(found["rows"])) == (2, 2)


def test_a_month_costs_cores_memory_and_disk() -> None:
    load = Load(players=1_000_000, scores=100, reads=100, rankings=1, average=1.0, days=1)
    prices = Prices(core=10, memory_gb=2, disk_gb=1, database_cores=4, database_gb=8)
    one, native, redis = plans(load, ROUND)
    facts = 100 * 86_400
    assert cost(one, prices) == pytest.approx(10 + 0.15 * 2 + facts * 160 / 1e9)
    assert cost(native, prices) == pytest.approx(60 + (2 * 0.15 + 8) * 2 + facts * 500 / 1e9)
    assert cost(redis, prices) == pytest.approx(70 + (0.1 + 0.18 + 8) * 2 + facts * 500 / 1e9)


def test_what_is_not_measured_is_said_and_never_made_up() -> None:
    nothing = Figures({})
    load = Load(players=1, scores=1, reads=1)
    for plan in plans(load, nothing):
        assert (plan.processes, plan.memory_bytes, cost(plan, Prices())) == (None, None, None)
        assert plan.notes
    assert "make bench QUESTIONS=http" in shown(load, nothing, Prices())


def test_a_figure_of_another_kind_stands_in_only_if_that_is_said() -> None:
    known = {name: value for name, value in ROUND.known.items() if name != "PostgreSQL score rate"}
    _, native, _ = plans(Load(players=1, scores=10_000, reads=0), Figures(known))
    assert native.processes == 4  # 0.1 + 1 / 3 < 0.5, and one more
    assert any("stands in" in note for note in native.notes)


def test_figures_are_read_from_the_rows_of_results(tmp_path: Path) -> None:
    rows = [
        {"what": "ready from the ledger", "figure": 50.0, "unit": "s"},
        {"what": "something else", "figure": 1.0, "unit": "s"},
    ]
    (tmp_path / "start.json").write_text(json.dumps({"players": 10, "rows": rows}))
    idle = [{"what": "memory, idle", "figure": 43.0, "unit": "MB"}]
    (tmp_path / "http.json").write_text(json.dumps({"players": 10, "rows": idle}))
    known = Figures.read(tmp_path).known
    assert known == {"replay seconds": 50.0, "replayed players": 10, "process bytes": 43e6}


@pytest.mark.parametrize("name", SOURCES)
def test_a_figure_is_looked_for_under_a_name_that_a_benchmark_writes(name: str) -> None:
    """Names that are put together while measuring are looked for by their first word."""
    source = SOURCES[name]
    text = (ROOT / "benchmarks" / f"{source.file}.py").read_text()
    assert source.row in text or source.row.split(",")[0] in text or source.row.split()[0] in text


def _commands() -> list[str]:
    fences = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    lines = [line.split("#")[0].strip() for fence in fences for line in fence.splitlines()]
    return [line for line in lines if "benchmarks.sizing" in line and "--measure" not in line]


@pytest.mark.parametrize("command", _commands())
def test_every_command_of_the_page_works(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(command)
    assert words[:3] == ["python", "-m", "benchmarks.sizing"]
    main(words[3:])
    assert "SQLite + native" in capsys.readouterr().out


def test_the_page_has_commands() -> None:
    assert len(_commands()) >= 3
