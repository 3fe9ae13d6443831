"""Ranks worked out from counts made before are those that sorting at each move gives."""

import random

import pytest

from rankd.adapters.redis.reads import place_of
from rankd.adapters.redis.writes import BatchRanks, DistinctScore, floor_of
from rankd.model.order import score_part
from rankd.model.standing import Rank, TieRule
from rankd.ports import STAY, Move, Moved, Ranking

HERE = Ranking("b", "w")
KEYS = [score.to_bytes(8, "big") + tie.to_bytes(8, "big") for score in (1, 2, 9) for tie in (0, 1)]
PLAYERS = ["a", "b", "ba", "é", "\U00010000"]


def counted(entries: dict[str, bytes], place: bytes) -> int:
    return sum(place_of(key, player) < place for player, key in entries.items())


def shown(entries: dict[str, bytes], player: str, ties: TieRule) -> Rank | None:
    key = entries.get(player)
    if key is None:
        return None
    if ties is TieRule.DENSE:
        return Rank(len({score_part(k) for k in entries.values() if k[:8] < key[:8]}) + 1)
    place = place_of(key, player) if ties is TieRule.ORDINAL else floor_of(key)
    return Rank(counted(entries, place) + 1)


def tally_of(entries: dict[str, bytes]) -> BatchRanks:
    places = [place_of(key, player) for key in KEYS for player in PLAYERS] + [
        floor_of(key) for key in KEYS
    ]
    scores = {
        score_part(key): DistinctScore(
            len({k[:8] for k in entries.values() if k[:8] < key[:8]}),
            sum(k[:8] == key[:8] for k in entries.values()),
        )
        for key in KEYS
    }
    known = {player: entries.get(player) for player in PLAYERS}
    return BatchRanks(len(entries), known, {p: counted(entries, p) for p in places}, scores)


@pytest.mark.parametrize("seed", range(60))
def test_each_move_is_told_what_sorting_tells(seed: int) -> None:
    dice = random.Random(seed)
    entries = {player: dice.choice(KEYS) for player in PLAYERS if dice.random() < 0.6}
    entries |= {f"x{n}": dice.choice(KEYS) for n in range(6)}  # Who stays where they are.
    tally = tally_of(entries)
    for _ in range(30):
        player, key = dice.choice(PLAYERS), dice.choice([None, STAY, *KEYS])
        ties = dice.choice(list(TieRule))
        before = shown(entries, player, ties)
        if key is None:
            entries.pop(player, None)
        elif key != STAY:
            entries[player] = key
        expected = Moved(before, shown(entries, player, ties), len(entries))
        assert tally.take(Move(HERE, player, key, None, ties)) == expected
