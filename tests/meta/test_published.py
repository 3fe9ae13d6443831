"""What the pages say was measured is what the runs found."""

from pathlib import Path

import pytest
from benchmarks.published import PAGES, RESULTS, ROOT, Measured, made, ratio, rounded


@pytest.mark.parametrize("page", PAGES)
def test_a_page_says_what_was_measured_last(page: str) -> None:
    text = (ROOT / page).read_text()
    assert made(page, text, Measured(RESULTS)) == text, "python -m benchmarks.published"


@pytest.mark.parametrize("page", PAGES)
def test_a_page_without_its_marks_is_noticed(page: str) -> None:
    with pytest.raises(KeyError, match="marks"):
        made(page, "# A page\n", Measured(RESULTS))


def test_a_figure_that_was_not_measured_is_not_made_up(tmp_path: Path) -> None:
    (tmp_path / "http.json").write_text('{"rows": []}')
    with pytest.raises(KeyError, match="memory, idle"):
        Measured(tmp_path).of("http", "memory, idle")


@pytest.mark.parametrize(
    ("figure", "said"),
    [
        (139_624.8, "140,000"),
        (18_498.0, "18,500"),
        (1_234.0, "1,230"),
        (512.4, "512"),
        (43.52, "43.5"),
        (1.064, "1.1"),
        (0.594, "0.59"),
    ],
)
def test_a_figure_has_as_many_digits_as_it_is_worth(figure: float, said: str) -> None:
    assert rounded(figure) == said


def test_a_ratio_near_one_is_told_to_a_hundredth() -> None:
    assert [ratio(times) for times in (0.987, 1.034, 4.29, 45.9)] == ["0.99", "1.03", "4.29", "46"]
