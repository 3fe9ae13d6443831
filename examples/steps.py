"""A fitness challenge: steps added up week by week, for everybody and for each region.

    python examples/steps.py

A walk is submitted under a key of its own: a phone that sends it twice counts it once.
"""

import tempfile

import rankd

WALKS = [
    ("walk-1", "ann", 4_000, "north"),
    ("walk-2", "bob", 7_500, "south"),
    ("walk-3", "ann", 5_200, "north"),
    ("walk-3", "ann", 5_200, "north"),  # sent again: the answer had been lost
    ("walk-4", "cyd", 8_000, "north"),
    ("walk-5", "bob", 2_500, "south"),
]


def main() -> None:
    """Submit every walk, and print this week's tables."""
    with rankd.open(tempfile.mkdtemp()) as ranks:
        board = ranks.board(
            "steps",
            rule="sum",
            windows=["weekly", "all"],
            segments=["region"],
            time_zone="Europe/Berlin",
        )
        for key, player, steps, region in WALKS:
            receipt = board.submit(player, steps, key=key, attributes={"region": region})
            print(f"{player} now has {receipt.score} steps this week: rank {receipt.rank}")
        for segment in (None, "region:north", "region:south"):
            print(f"\n{segment or 'everybody'}")
            for standing in board.top(window="weekly", segment=segment):
                print(f"{standing.rank}  {standing.player}  {standing.scores[0]:>6}")


if __name__ == "__main__":
    main()
