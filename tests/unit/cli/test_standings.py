"""Who moved since the list changed last."""

from rankd.cli.standings import movements
from rankd.schemas import Row


def rows(*players: str) -> list[Row]:
    return [Row(rank, player, None, 0, None, None) for rank, player in enumerate(players, 1)]


def test_marks_tell_how_far_each_moved() -> None:
    before, now = rows("a", "b", "c"), rows("c", "b", "a", "d")
    assert movements(before, now) == ["▲2", "", "▼2", "new"]


def test_the_first_list_has_no_marks() -> None:
    assert movements(None, rows("a", "b")) == ["", ""]
