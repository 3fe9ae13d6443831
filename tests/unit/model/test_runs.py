"""Runs: their ids, and the tokens that only one board and one player can use."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankd.model.runs import (
    HOUR,
    RUN_LATE_SECONDS,
    RUN_SECONDS_MAX,
    RunId,
    RunToken,
    elapsed_of_run,
    forgotten_before,
    hour_of,
    read_run_id,
    read_run_token,
    run_token,
)

SECRET = b"a secret of the tests"
KEY = "3f0c9ab1d2e4"
RUN = RunId(1_794_830_400_000_000, 30, 3600, b"12345678")
TOKEN = run_token(RUN, key=KEY, secret=SECRET, board="b", player="p")

RUNS = st.builds(
    RunId,
    st.integers(0, 2**62),
    st.integers(0, RUN_SECONDS_MAX),
    st.integers(1, RUN_SECONDS_MAX),
    st.binary(min_size=8, max_size=8),
)


class Submitted(NamedTuple):
    run: str | None


def read(text: str) -> RunToken:
    token = read_run_token(text)
    assert token is not None
    return token


def test_a_run_has_its_times_and_a_seed_of_its_own() -> None:
    assert (RUN.not_before - RUN.started, RUN.expires - RUN.started) == (30_000_000, 3600_000_000)
    assert len(RUN.text) == 32 and len(RUN.seed) == 16
    assert RUN._replace(nonce=b"12345679").seed != RUN.seed


def test_a_token_keeps_its_bytes() -> None:
    """Tokens outlive an upgrade, and ids are in the ledger for ever."""
    assert RUN.text == "AAZgY4RskAAAAAAeAAAOEDEyMzQ1Njc4"
    assert RUN.seed == "cf5f7ab7f61abbc3"
    assert TOKEN.startswith(f"{KEY}.{RUN.text}.")


@given(RUNS)
def test_an_id_is_read_as_it_was_written(run: RunId) -> None:
    assert read_run_id(run.text) == run == RunId.unpacked(run.packed)


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)


@given(RUNS, NAMES, NAMES)
def test_a_token_is_good_for_its_board_and_player(run: RunId, board: str, player: str) -> None:
    token = read(run_token(run, key=KEY, secret=SECRET, board=board, player=player))
    assert (token.key, token.run) == (KEY, run)
    assert token.is_signed(SECRET, board=board, player=player)
    assert not token.is_signed(SECRET + b"!", board=board, player=player)
    assert not token.is_signed(SECRET, board=board + "x", player=player)
    assert not token.is_signed(SECRET, board=board, player=player + "x")


@given(st.integers(0, len(TOKEN) - 1), st.characters(codec="ascii"))
def test_a_token_with_one_character_changed_is_none(place: int, other: str) -> None:
    changed = TOKEN[:place] + other + TOKEN[place + 1 :]
    token = read_run_token(changed)
    if changed == TOKEN:
        assert token == read(TOKEN)
    elif token is not None and place > len(KEY):
        assert not token.is_signed(SECRET, board="b", player="p")


@given(st.text())
def test_no_other_text_is_a_token_or_an_id(text: str) -> None:
    assert read_run_token(text) is None
    found = read_run_id(text)
    assert found is None or found.text == text


@pytest.mark.parametrize(
    "text", [TOKEN + "=", TOKEN[:-1], f" {TOKEN}", TOKEN + "\n", TOKEN.upper()]
)
def test_a_token_has_one_spelling(text: str) -> None:
    token = read_run_token(text)
    assert token is None or not token.is_signed(SECRET, board="b", player="p")


def test_bits_that_decoding_drops_make_no_second_spelling() -> None:
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    same = [TOKEN[:-1] + letter for letter in letters if read_run_token(TOKEN[:-1] + letter)]
    good = [one for one in same if read(one).is_signed(SECRET, board="b", player="p")]
    assert good == [TOKEN]


def test_the_time_of_a_run_is_counted_from_its_start() -> None:
    assert elapsed_of_run(Submitted(RUN.text), RUN.started + 2_000_000) == 2_000_000
    assert elapsed_of_run(Submitted(RUN.text), RUN.started) == 1, "it is divided by"
    assert elapsed_of_run(Submitted(None), RUN.started) is None
    assert elapsed_of_run(Submitted("bogus"), RUN.started) is None


@given(RUNS, st.integers(0, RUN_LATE_SECONDS * 1_000_000))
def test_a_used_run_is_remembered_as_long_as_it_could_be_recorded(run: RunId, late: int) -> None:
    assert forgotten_before(run.expires + late) <= hour_of(run)
    assert forgotten_before(run.expires + RUN_LATE_SECONDS * 1_000_000 + HOUR) > hour_of(run)
