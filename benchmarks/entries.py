"""Players and scores for benchmarks: made up, the same on every run, in blocks of bounded size.

Ids have 16 characters, of which the last 12 are a number, because that is what redis-benchmark can
produce too. Scores are uniform and have nine digits, so that no side parses shorter text.
"""

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rankd.model.board import Direction, TieBreak
from rankd.model.facts import Position
from rankd.model.order import Order

Numbers: TypeAlias = NDArray[np.uint32]
Text: TypeAlias = NDArray[np.uint8]

ID_PREFIX = "play"
ID_DIGITS = 12
ID_BYTES = len(ID_PREFIX) + ID_DIGITS

SCORE_MIN = 100_000_000
SCORE_END = 1_000_000_000
SCORE_DIGITS = 9

BLOCK_ENTRIES = 1 << 18  # A few megabytes: small beside any list worth measuring.

_HIGHER_WINS = np.uint64((1 << 63) - 1)  # As in rankd.model.order; confirm_keys() compares.
_LOW_HALF = np.uint64(0xFFFF_FFFF)
_HALF_BITS = np.uint64(32)


def random_entries(rng: np.random.Generator, players: int, count: int) -> tuple[Numbers, Numbers]:
    """Return random players out of so many, and a new score for each."""
    return (
        rng.integers(0, players, count, dtype=np.uint32),
        rng.integers(SCORE_MIN, SCORE_END, count, dtype=np.uint32),
    )


def moving(rng: np.random.Generator, players: int, moves: int) -> Iterator[tuple[Numbers, Numbers]]:
    """Yield so many random moves in blocks."""
    for start in range(0, moves, BLOCK_ENTRIES):
        yield random_entries(rng, players, min(BLOCK_ENTRIES, moves - start))


def arriving(rng: np.random.Generator, players: int) -> Iterator[tuple[Numbers, Numbers]]:
    """Yield every player once, in the order of their numbers, with a random score."""
    for start in range(0, players, BLOCK_ENTRIES):
        block = np.arange(start, min(start + BLOCK_ENTRIES, players), dtype=np.uint32)
        yield block, rng.integers(SCORE_MIN, SCORE_END, len(block), dtype=np.uint32)


def best_first(rng: np.random.Generator, players: int) -> Iterator[tuple[Numbers, Numbers]]:
    """Yield every player once, best score first; of equal scores the lower number first.

    Only the shuffled numbers are held as a whole (4 bytes a player): each block draws its scores
    from its own stretch of the range and sorts them.
    """
    shuffled = np.arange(players, dtype=np.uint32)
    rng.shuffle(shuffled)
    starts = range(0, players, BLOCK_ENTRIES)
    edges = np.linspace(0, SCORE_END - SCORE_MIN, len(starts) + 1).astype(np.uint64)
    for start, low, high in zip(starts, edges[:-1], edges[1:], strict=True):
        block = shuffled[start : start + BLOCK_ENTRIES].astype(np.uint64)
        below_best = rng.integers(low, high, len(block), dtype=np.uint64)
        both = np.sort(below_best << _HALF_BITS | block)
        scores = np.uint64(SCORE_END - 1) - (both >> _HALF_BITS)
        yield (both & _LOW_HALF).astype(np.uint32), scores.astype(np.uint32)


def keys(scores: Numbers, positions: NDArray[Any]) -> Text:
    """Return the order keys, end to end: 8 bytes of score, higher first, and 8 of position."""
    words = np.empty((len(scores), 2), dtype=">u8")
    words[:, 0] = scores.astype(np.uint64) ^ _HIGHER_WINS
    words[:, 1] = positions
    return words.view(np.uint8).reshape(-1)


def confirm_keys() -> None:
    """Assert that keys() makes what the model makes."""
    order = Order(directions=(Direction.HIGHER,), tie_break=TieBreak.FIRST)
    made = keys(np.array([SCORE_MIN + 7], dtype=np.uint32), np.array([9], dtype=np.uint64))
    assert made.tobytes() == order.key((SCORE_MIN + 7,), Position(9))


def ids(players: Numbers) -> list[str]:
    """Return the players' ids as strings."""
    return [f"{ID_PREFIX}{number:0{ID_DIGITS}d}" for number in players.tolist()]


def packed_ids(players: Numbers) -> Text:
    """Return the players' ids end to end."""
    return rows(len(players), ID_PREFIX.encode(), digits(players, ID_DIGITS)).reshape(-1)


def digits(numbers: Numbers, width: int) -> Text:
    """Return one row per number: its decimal digits, with zeros in front."""
    table = np.empty((len(numbers), width), dtype=np.uint8)
    rest = numbers
    for column in reversed(range(width)):
        shorter = rest // np.uint32(10)
        table[:, column] = rest - shorter * np.uint32(10) + np.uint32(ord("0"))
        rest = shorter
    return table


def rows(count: int, *parts: bytes | Text) -> Text:
    """Return rows put together from parts: text that is the same in all, or a row for each."""
    columns = [
        np.broadcast_to(np.frombuffer(part, dtype=np.uint8), (count, len(part)))
        if isinstance(part, bytes)
        else part
        for part in parts
    ]
    return np.concatenate(columns, axis=1)
