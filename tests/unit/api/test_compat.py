"""From the words of the texts to ours and back; the routes are replayed in tests/http."""

import pytest

from rankd.api.compat import SPELLINGS, WINDOWS, match_key, number_or_text, read_submission
from rankd.errors import InvalidRequest
from rankd.model.submission import SUBMISSION_KEY_BYTES_MAX


@pytest.mark.parametrize(
    ("player", "shown"),
    [
        ("12345", 12345),
        ("0", 0),
        ("-7", -7),
        (str(2**63 - 1), 2**63 - 1),
        (str(2**63), str(2**63)),
        ("007", "007"),
        ("-0", "-0"),
        ("+1", "+1"),
        ("1.0", "1.0"),
        ("1e3", "1e3"),
        (" 1", " 1"),
        ("\u0661", "\u0661"),
        ("p:42", "p:42"),
    ],
)
def test_an_id_is_a_number_only_if_it_can_have_been_given_as_that_number(
    player: str, shown: int | str
) -> None:
    assert number_or_text(player) == shown
    assert str(number_or_text(player)) == player


def test_a_submission_is_read_out_of_the_words_of_each_text() -> None:
    asked = read_submission(
        {"player_id": 12345, "score": 1500, "leaderboard_type": "regional", "game_id": "abc123"}
    )
    assert (asked.board, asked.id, asked.match_id) == ("regional", 12345, None)
    assert asked.body == {
        "player": "12345",
        "score": 1500,
        "delta": None,
        "at": None,
        "metadata": {"game_id": "abc123"},
    }
    match = read_submission(
        {"player_id": "p:42", "score": 4500, "match_id": "m:9981", "ts": 1743120000}
    )
    assert (match.board, match.id, match.match_id) == ("global", "p:42", "m:9981")
    assert match.body["key"] == "match/m:9981/p:42"
    assert match.body["at"] == "2025-03-28T00:00:00Z"


def test_everything_that_is_wrong_is_named_at_once() -> None:
    with pytest.raises(InvalidRequest) as raised:
        read_submission({"ts": True, "type": "", "match_id": [], "x": 1, "<b>": 1})
    fields = [wrong.field for wrong in raised.value.errors]
    assert fields == ["x", "?", "player_id", "score", "leaderboard_type", "timestamp", "match_id"]


def test_no_match_and_player_have_the_key_of_two_others() -> None:
    pairs = [("a", "b/c"), ("a/b", "c"), ("a%2Fb", "c"), ("", "a/b/c"), ("a", "b"), ("b", "a")]
    keys = {match_key(match, player=player) for match, player in pairs}
    assert len(keys) == len(pairs)


def test_a_long_match_and_player_still_have_a_key_of_their_own() -> None:
    players = ["x" * 255 + end for end in "ab"]
    keys = {match_key("m" * 200, player=player) for player in players}
    assert len(keys) == 2
    assert all(len(key.encode()) <= SUBMISSION_KEY_BYTES_MAX for key in keys)


def test_every_spelling_is_of_a_window_that_a_new_board_has() -> None:
    assert set(SPELLINGS.values()) == set(WINDOWS)
