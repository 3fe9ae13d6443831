"""Progress is told to whoever was named, and drawn so that it can be read."""

import io
import os
import sys
from types import SimpleNamespace

import pytest

from rankd.ports import Progress
from rankd.progress import (
    BAR_CELLS_MAX,
    BYTE,
    RATE_SECONDS_MIN,
    REDRAWN_SECONDS,
    ProgressBar,
    showing,
)


class Terminal(io.StringIO):
    """Where a bar is redrawn in place."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time a bar goes by, in its only item."""
    time = [1000.0]
    clock = SimpleNamespace(monotonic=lambda: time[0])
    monkeypatch.setattr("rankd.progress.time", clock)
    return time


def bar(full: int) -> str:
    return "#" * full + "." * (BAR_CELLS_MAX - full)


def test_a_bar_is_redrawn_in_place_and_ended_with_a_line(now: list[float]) -> None:
    out = Terminal()
    drawing = ProgressBar(out)
    drawing.tell(Progress(1000, 2000, "folding"))
    now[0] += 1
    drawing.tell(Progress(2000, 2000, "folding"))
    drawing.tell(None)
    half = f"[{bar(BAR_CELLS_MAX // 2)}]  50% 1,000"
    whole = f"[{bar(BAR_CELLS_MAX)}] 100% 2,000, 1,000/s"
    drawn = [f"folding        {half}", *[f"folding        {whole}"] * 2]
    assert out.getvalue() == "".join(f"\r{each}" for each in drawn) + "\n"


@pytest.mark.parametrize(
    ("first", "then", "shown"),
    [
        (
            Progress(1_000, 9_000, "x", "fact"),
            Progress(3_000, 9_000, "x", "fact"),
            "]  33% 3,000 facts, 1,000/s, 6 s left",
        ),
        (
            Progress(0, 4, "x", "fact"),
            Progress(1, 4, "x", "fact"),
            "]  25% 1 fact, 0.5/s, 6 s left",
        ),
        (
            Progress(0, 2 * 10**9, "x", BYTE),
            Progress(5 * 10**6, 2 * 10**9, "x", BYTE),
            "]   0% 5.0 MB, 2.5 MB/s, 14 min left",
        ),
        (
            Progress(0, 2 * 10**9, "x", "row"),
            Progress(10**5, 2 * 10**9, "x", "row"),
            "]   0% 100,000 rows, 50,000/s, 12 h left",
        ),
        (
            Progress(0, 9_000, "x", BYTE),
            Progress(999, 9_000, "x", BYTE),
            "]  11% 999 bytes, 500 bytes/s, 17 s left",
        ),
        (
            Progress(0, 3 * 10**9, "x", BYTE),
            Progress(2 * 10**9, 3 * 10**9, "x", BYTE),
            "]  67% 2.0 GB, 1.0 GB/s, 1 s left",
        ),
        (Progress(0, 0, "x", "row"), Progress(5_000, 0, "x", "row"), " 5,000 rows, 2,500/s"),
        (Progress(7, 9, "x", "fact"), Progress(7, 9, "x", "fact"), "]  78% 7 facts"),
        (Progress(0, 9, "x", "fact"), Progress(9, 9, "x", "fact"), "] 100% 9 facts, 4.5/s"),
    ],
)
def test_rate_and_time_left_are_those_of_the_stage(
    now: list[float], first: Progress, then: Progress, shown: str
) -> None:
    out = Terminal()
    drawing = ProgressBar(out)
    drawing.tell(Progress(5, 5, "before"))
    drawing.tell(first)
    now[0] += 2
    drawing.tell(then)
    assert out.getvalue().rsplit("\r", 1)[-1].rstrip().endswith(shown)
    drawing.tell(None)


def test_nothing_is_told_of_a_rate_before_there_is_one(now: list[float]) -> None:
    out = Terminal()
    drawing = ProgressBar(out)
    drawing.tell(Progress(0, 10, "x", "fact"))
    now[0] += RATE_SECONDS_MIN / 2
    drawing.tell(Progress(5, 10, "x", "fact"))
    assert out.getvalue().endswith("50% 5 facts")
    drawing.tell(None)


def test_it_is_drawn_no_more_often_than_can_be_read(now: list[float]) -> None:
    out = Terminal()
    drawing = ProgressBar(out)
    for done in range(100):
        drawing.tell(Progress(done, 100, "folding"))
    assert out.getvalue().count("\r") == 1
    now[0] += REDRAWN_SECONDS
    drawing.tell(Progress(100, 100, "folding"))
    assert out.getvalue().count("\r") == 2


def test_each_stage_has_a_line_of_its_own(now: list[float]) -> None:
    out = Terminal()
    drawing = ProgressBar(out)
    drawing.tell(Progress(1, 2, "reading"))
    drawing.tell(Progress(2, 2, "reading"))
    drawing.tell(Progress(0, 4, "folding"))
    drawing.tell(None)
    lines = [line.rsplit("\r", 1)[-1] for line in out.getvalue().split("\n")]
    assert [line.split()[0] for line in lines if line] == ["reading", "folding"]
    assert "100% 2" in lines[0], "a stage ends with the last that was told of it"
    assert "0% 0" in lines[1]


def test_where_nothing_can_be_redrawn_nothing_is_drawn() -> None:
    out = io.StringIO()
    drawing = ProgressBar(out)
    for done in (1, 2, 3):
        drawing.tell(Progress(done, 3, "checking"))
    drawing.tell(Progress(1, 3, "folding"))
    drawing.tell(None)
    assert out.getvalue() == ""


@pytest.mark.parametrize(
    ("progress", "shown"),
    [
        (Progress(0, 0), f"working        [{bar(BAR_CELLS_MAX)}] 100% 0"),
        (Progress(7_000, 0, "importing"), "importing      7,000"),
        (Progress(7, 5), f"working        [{bar(BAR_CELLS_MAX)}] 100% 7"),
        (Progress(0, 5), f"working        [{bar(0)}]   0% 0"),
    ],
)
def test_odd_totals_are_shown_as_well_as_they_can_be(progress: Progress, shown: str) -> None:
    out = Terminal()
    drawing = ProgressBar(out)
    drawing.tell(progress)
    drawing.tell(None)
    assert out.getvalue() == f"\r{shown}\r{shown}\n"


@pytest.mark.parametrize("width", [10, 25, 40, 60, 80, 200])
@pytest.mark.parametrize("total", [0, 10**12])
def test_a_bar_fits_a_terminal(
    width: int, total: int, now: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is too wide goes on in the next line, and each redrawing leaves one behind."""
    monkeypatch.setattr("os.get_terminal_size", lambda _: os.terminal_size((width, 24)))
    out = Terminal()
    monkeypatch.setattr(out, "fileno", lambda: 2)
    drawing = ProgressBar(out)
    drawing.tell(Progress(0, total, "copying receipts", "receipt"))
    now[0] += 10
    drawing.tell(Progress(10**11, total, "copying receipts", "receipt"))
    drawing.tell(None)
    lines = out.getvalue().removesuffix("\n").split("\r")
    assert all(len(line) < width for line in lines)
    assert lines[-1].startswith("copying"[: width - 1])


def test_a_terminal_that_is_made_narrower_is_drawn_over(
    now: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    widths = [80, 60, 80]
    monkeypatch.setattr("os.get_terminal_size", lambda _: os.terminal_size((widths.pop(0), 24)))
    out = Terminal()
    monkeypatch.setattr(out, "fileno", lambda: 2)
    drawing = ProgressBar(out)
    drawing.tell(Progress(10**12, 10**12, "folding"))
    now[0] += REDRAWN_SECONDS
    drawing.tell(Progress(1, 10**12, "folding"))
    wide, narrow = out.getvalue().split("\r")[1:]
    assert len(narrow) == 59 < len(wide), "the rest of the longer line is blanked"
    drawing.tell(None)


# ------------------------------------------------------------------------- who is told


def test_a_function_is_told_of_steps_and_not_of_the_end() -> None:
    told: list[Progress] = []
    with showing(told.append) as tell:
        tell(Progress(1, 2, "x"))
        tell(None)
    assert told == [Progress(1, 2, "x")]


@pytest.mark.parametrize("nobody", [None, False])
def test_nobody_is_told_nothing(nobody: bool | None, capsys: pytest.CaptureFixture[str]) -> None:
    with showing(nobody) as tell:
        tell(Progress(1, 2, "x"))
        tell(None)
    assert capsys.readouterr() == ("", "")


def test_true_draws_on_the_standard_error_and_ends_the_line_when_work_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stderr", out := Terminal())
    with pytest.raises(RuntimeError), showing(True) as tell:
        tell(Progress(1, 2, "folding"))
        raise RuntimeError
    drawn = f"\rfolding        [{bar(BAR_CELLS_MAX // 2)}]  50% 1"
    assert out.getvalue() == f"{drawn}{drawn}\n"
