"""A game's high scores: play, submit, and show the player where it stands.

    python examples/game.py

Give open() a folder of your own, and the table goes on where it was.
"""

import random
import tempfile

import rankd

ROUNDS = 200
PLAYERS = ["ada", "bob", "cyd", "dee", "eve", "fay", "gus", "hal"]


def main() -> None:
    """Play some rounds, and print the table."""
    dice = random.Random(7)
    with rankd.open(tempfile.mkdtemp()) as ranks:
        board = ranks.board("arcade", rule="best", windows=["all", "daily"])
        for _ in range(ROUNDS):
            player = dice.choice(PLAYERS)
            receipt = board.submit(player, dice.randrange(10_000))
            if receipt.rank == 1 and receipt.rank_change:
                print(f"{player} takes the lead with {receipt.score}")
        print()
        for standing in board.top(5):
            print(f"{standing.rank:>2}  {standing.player:<4} {standing.scores[0]:>6}")
        print("\naround hal:")
        for standing in board.around("hal", above=1, below=1):
            print(f"{standing.rank:>2}  {standing.player:<4} {standing.scores[0]:>6}")


if __name__ == "__main__":
    main()
