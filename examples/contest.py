"""A coding contest: most problems solved wins; among equals, the least penalty time.

    python examples/contest.py

Two columns, compared as a whole: a run with more problems beats any with fewer, however quick.
"""

import tempfile

import rankd

RUNS = [
    ("lambda", 3, 190),
    ("ringzero", 4, 312),
    ("overflow", 4, 298),
    ("lambda", 4, 298),
    ("ringzero", 5, 420),
    ("overflow", 3, 100),
]


def main() -> None:
    """Submit every run, and print the standings."""
    with rankd.open(tempfile.mkdtemp()) as ranks:
        board = ranks.board(
            "contest",
            columns=[
                {"name": "solved", "direction": "higher"},
                {"name": "penalty", "direction": "lower"},
            ],
            ties="standard",
        )
        for team, solved, penalty in RUNS:
            receipt = board.submit(team, columns={"solved": solved, "penalty": penalty})
            print(f"{team:<9} {solved} in {penalty:>3}: {receipt.verdict}, rank {receipt.rank}")
        print()
        for standing in board.top():
            solved, penalty = standing.scores
            print(f"{standing.rank}  {standing.player:<9} {solved} solved, {penalty} minutes")


if __name__ == "__main__":
    main()
