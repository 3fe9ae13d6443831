"""The plot of a player's rank over time."""

from rankd.cli.rank_plot import HEIGHT, plot


def test_the_best_rank_is_highest() -> None:
    lines = plot([None, 9, 5, 1])
    assert len(lines) == HEIGHT + 1
    assert lines[0] == "1 ┤   █"
    assert lines[HEIGHT - 1] == "9 ┤ ▁██"
    assert lines[-1] == "  └────"
    assert [line[3:] for line in lines[1:4]] == ["   █"] * 3


def test_one_rank_all_the_time_is_the_best() -> None:
    assert plot([7, 7])[0] == "7 ┤██"
