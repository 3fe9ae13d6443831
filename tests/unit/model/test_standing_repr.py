"""What is printed says what a person wants to know, and leaves out what goes without saying."""

from rich.pretty import pretty_repr

from rankd.model.facts import Position
from rankd.model.receipt import NOWHERE, InWindow, Receipt
from rankd.model.standing import Rank, ReprMixin, Standing, Words


class Cup(ReprMixin):
    def __init__(self, holder: str | None, size: int = 1) -> None:
        self.holder, self.size = holder, size

    def _words(self) -> Words:
        yield "holder", self.holder
        yield "size", self.size, 1


def test_a_value_that_goes_without_saying_is_left_out() -> None:
    assert repr(Cup("ann")) == "Cup(holder='ann')"
    assert repr(Cup(None, 0)) == "Cup(holder=None, size=0)"


def test_rich_prints_the_same_words() -> None:
    for cup in (Cup("ann"), Cup(None, 2)):
        assert pretty_repr(cup, max_width=200) == repr(cup)


def test_a_standing_tells_its_rank_and_its_score_as_people_see_it() -> None:
    plain = Standing(Rank(2), "ann", (61_250,), 4, Position(9), 3)
    told = "rank=2, player='ann', score=Decimal('61.250'), total=4, percentile=75.0, as_of=9"
    assert repr(plain) == f"Standing({told})"
    rich = Standing(
        Rank(1), "ann", (5, 9), 4, Position(9), 0, "Ann", b'{"car":"red"}', Rank(1), True
    )
    assert repr(rich) == (
        "Standing(rank=1, place=1, player='ann', name='Ann', score=5, scores=(5, 9), total=4, "
        "percentile=100.0, metadata={'car': 'red'}, as_of=9, stale=True)"
    )
    assert pretty_repr(rich, max_width=200) == repr(rich)


def test_a_receipt_tells_the_verdict_the_ranks_and_the_scores() -> None:
    all_time = InWindow("all", "counted", (9500,), (4300,), Rank(1), Rank(3), 4)
    receipt = Receipt("global", "p42", Position(7), 0, {"all": all_time})
    told = (
        "board='global', player='p42', verdict='counted', score=9500, previous_score=4300, "
        "rank=1, previous_rank=3, rank_change=2, total=4, percentile=100.0, position=7"
    )
    assert repr(receipt) == f"Receipt({told})"
    today = InWindow("daily:2026-11-14", "counted", (9500,), None, Rank(1), None, 1)
    windows = {"all": all_time, "daily": today}
    assert repr(Receipt("global", "p42", Position(7), 0, windows, duplicate=True)) == (
        f"Receipt({told}, duplicate=True, windows={windows!r})"
    )
    assert repr(today) == (
        "InWindow(window='daily:2026-11-14', verdict='counted', scores=(9500,), "
        "previous_scores=None, rank=1, previous_rank=None, total=1)"
    )


def test_a_receipt_tells_every_column_where_there_are_several() -> None:
    windows = {"all": InWindow("all", "counted", (5, 90), None, Rank(1), None, 1)}
    assert repr(Receipt("lap", "ann", Position(7), 0, windows)).endswith(f"windows={windows!r})")


def test_a_receipt_of_what_counts_nowhere_is_printed_too() -> None:
    receipt = Receipt("cup", "ann", Position(7), 0, {}, rejected=True)
    assert "verdict='rejected', score=None" in repr(receipt)
    assert "code='no_window'" in repr(NOWHERE)
