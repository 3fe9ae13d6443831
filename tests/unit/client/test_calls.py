"""A call is one row of the service's own table, and a submission never goes without a key."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from rankd import schemas
from rankd.api.routes import ROUTES
from rankd.api.routing import RouteMatch, Router
from rankd.client import calls, corrections
from rankd.client.calls import Call
from rankd.http_client import HttpResponse

ROUTER = Router(ROUTES)

WHICH: dict[str, Any] = {"window": "daily:-1", "segment": "region:eu", "min_position": 7}

BETWEEN: dict[str, Any] = {"since": "2026-11-14T09:30:00+01:00", "until": "2026-11-15T00:00:00Z"}
RUNNING = schemas.RunningOperation("abc", "running", "", 0, 0, "fact")
EVERY: list[tuple[str, Call[Any]]] = [
    ("put_board", calls.define("b", {"rule": "sum"}, apply=True)),
    ("put_board", calls.define("b", {"rule": "sum"}, apply=True, drop_scores=True)),
    ("put_board", calls.define("b")),
    ("put_board", calls.preview_rules("b", {"rules": []})),
    ("list_boards", calls.boards()),
    ("get_board", calls.board("b")),
    ("retire_board", calls.retire("b", reason="over")),
    ("submit_score", calls.submit("b", "p", 1)),
    ("submit_scores", calls.submit_batch([("p", 1)], board="b")),
    ("list_standings", calls.top("b", 3, **WHICH)),
    ("list_standings", calls.page("b", limit=3, offset=2, **WHICH)),
    ("list_standings", calls.page("b", score_min=-1, score_max="2.5", **WHICH)),
    ("list_standings", calls.poll("b", etag='"x"', limit=3)),
    ("get_standing", calls.standing("b", "p", **WHICH)),
    ("get_standing", calls.standing("b", "p", edition=1, **WHICH)),
    ("list_standings", calls.page("b", edition=2, **WHICH)),
    ("around_player", calls.around("b", "p", above=1, below=2, **WHICH)),
    ("around_player", calls.around("b", "p", absent="top")),
    ("around_rank", calls.around_rank("b", 7, reach=2, **WHICH)),
    ("lookup_standings", calls.lookup("b", ["p", "q"], **WHICH)),
    ("list_friends", calls.friends("b", "p", **WHICH)),
    ("get_projection", calls.projection("b", score=[1, 2], **WHICH)),
    ("list_windows", calls.windows("b")),
    ("player_ranks", calls.rank_history("b", "p", window="daily", grain="hour", min_position=5)),
    ("player_history", calls.history("b", "p", limit=3, before=9, **BETWEEN)),
    ("player_standings", calls.standings("p", window="daily", min_position=7)),
    ("put_player", calls.set_profile("p", name="Ann", friends=["q"])),
    ("patch_player", calls.merge_profile("p", attributes={"region": "eu", "guild": None})),
    ("put_player", calls.set_profile("p", visibility="friends")),
    ("patch_player", calls.merge_profile("p", visibility=None)),
    ("find_players", calls.players("an", limit=3, after="ann")),
    ("lookup_players", calls.lookup_players(["p", "q"])),
    ("get_player", calls.profile("p")),
    ("erase_player", calls.erase("p", reason="asked")),
    ("put_friends", calls.set_friends("p", ["q"])),
    (
        "list_facts",
        calls.facts(
            after=1, limit=2, kind="score_submitted", board="b", player="p", actor="a", **BETWEEN
        ),
    ),
    ("adjust_score", corrections.adjust("b", "p", 1, reason="r")),
    ("adjust_score", corrections.adjust("b", "p", delta=1, key="k")),
    ("patch_standing", corrections.set_metadata("b", "p", None)),
    ("retract_scores", corrections.retract("b", player="p", **BETWEEN).first),
    ("retract_scores", corrections.retract("b", score_min=1, window="all", dry_run=True).first),
    ("retract_everywhere", corrections.retract(positions=[1, 2], dry_run=True).first),
    ("undo_retraction", corrections.undo_retraction(7, board="b", reason="r").first),
    ("undo_retraction_everywhere", corrections.undo_retraction(7, dry_run=True).first),
    ("remove_player", corrections.remove("b", "p", reason="r").first),
    ("wait_operation", corrections.remove("b", "p").following(RUNNING)),
    ("list_reviews", corrections.reviews(board="b", state="held", limit=5, before=9)),
    ("get_review", corrections.review("7")),
    ("approve_review", corrections.approve_review("7", reason="r")),
    ("reject_review", corrections.reject_review("7")),
    ("list_corrections", corrections.board_corrections("b", after=3, limit=2)),
    ("ban_player", corrections.ban("p", reason="r", until=BETWEEN["until"], boards=["b"])),
    ("hide_player", corrections.hide("p")),
    ("shadow_player", corrections.shadow("p", boards=("b",))),
    ("restore_player", corrections.restore("p", reason="r")),
    ("create_key", calls.create_key(["read"], boards=["b"], title="t")),
    ("list_keys", calls.keys()),
    ("revoke_key", calls.revoke_key("abc")),
    ("get_clock", calls.clock()),
    ("confirm_clock", calls.confirm_clock()),
    ("correct_clock", calls.correct_clock(first=3, ahead_seconds=1.5, reason="r", dry_run=True)),
    ("healthz", calls.health()),
    ("readyz", calls.ready()),
    ("readyz", calls.status()),
]


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({}, b"{}"),
        ({"name": "Ann"}, b'{"name":"Ann"}'),
        ({"name": None, "friends": ()}, b'{"name":null,"friends":[]}'),
        ({"attributes": None, "friends": None}, b'{"attributes":null,"friends":null}'),
    ],
)
def test_what_is_not_said_of_a_player_is_not_sent(given: dict[str, Any], sent: bytes) -> None:
    """It stays as it is; None forgets it."""
    assert calls.set_profile("p", **given).body == sent


def found_by(call: Call[Any]) -> RouteMatch:
    return ROUTER.find(call.method, call.path.partition("?")[0])


@pytest.mark.parametrize(("operation", "call"), EVERY, ids=lambda value: str(value)[:20])
def test_every_call_is_a_row_of_the_table_with_a_query_it_takes(
    operation: str, call: Call[Any]
) -> None:
    route = found_by(call).route
    assert route.operation == operation
    route.read_query(call.path.partition("?")[2])
    assert route.writes == call.writes
    assert (call.body is not None) == (route.body is not None)


def test_query_values_arrive_as_they_were_given() -> None:
    call = calls.standing("b", "p", **WHICH)
    query = found_by(call).route.read_query(call.path.partition("?")[2])
    assert {name: query[name] for name in WHICH} == WHICH


@pytest.mark.parametrize("player", ["a/b", "a:ban", "..", ".", "%2F", "a b?c#d", "ü", "a%"])
def test_a_name_stays_one_segment_whatever_it_says(player: str) -> None:
    call = calls.standing("bo/ard", player)
    assert found_by(call).params == {"board": "bo/ard", "player": player}
    assert "/../" not in call.path
    assert not call.path.endswith(("/..", "/."))


# ------------------------------------------------------------------------------- keys


def sent(call: Call[Any]) -> dict[str, Any]:
    assert call.body is not None
    body: dict[str, Any] = msgspec.json.decode(call.body)
    return body


def test_a_submission_without_a_key_is_given_one_of_its_own() -> None:
    first, second = sent(calls.submit("b", "p", 1)), sent(calls.submit("b", "p", 1))
    assert first["key"]
    assert first["key"] != second["key"]


def test_a_key_that_is_given_is_kept() -> None:
    assert sent(calls.submit("b", "p", 1, key="mine"))["key"] == "mine"


def test_every_submission_of_a_batch_has_a_key() -> None:
    scores = sent(
        calls.submit_batch([("p", 1), {"player": "q", "delta": 2, "key": "k"}], board="b")
    )
    first, second = scores["scores"]
    assert first["key"]
    assert second == {"board": "b", "player": "q", "delta": 2, "key": "k"}


def test_batches_take_all_and_no_more_at_a_time_than_they_are_told() -> None:
    def players() -> Iterator[tuple[str, int]]:
        yield from ((f"p{n}", n) for n in range(7))

    made = list(calls.batches(players(), board="b", batch=3))
    assert [len(sent(call)["scores"]) for call in made] == [3, 3, 1]


def test_a_batch_larger_than_the_service_takes_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(ValueError, match="8192"):
        next(calls.batches([], batch=10_000))


# ----------------------------------------------------------------------------- reading


def read(call: Call[calls.T], shape: object, status: int = 200) -> calls.T:
    return call.read(HttpResponse(status, {"etag": '"e"'}, schemas.encode(shape)))


PAGE = schemas.Page("b", "all", None, 1, 5, "exact", False, [], None, None)


def test_scores_and_metadata_are_read_digit_for_digit() -> None:
    row = schemas.Row(1, "p", None, Decimal("12.50"), None, {"lap": Decimal("1.10")})
    page = read(calls.top("b"), msgspec.structs.replace(PAGE, standings=[row]))
    assert page.standings[0].score == Decimal("12.50")
    assert str(page.standings[0].metadata["lap"]) == "1.10"


def test_defining_tells_a_board_from_what_would_change() -> None:
    board = schemas.BoardBody(
        name="b", definition={}, windows=[], next_reset=None, total=0, as_of=1, server_time=""
    )
    assert read(calls.define("b"), board, 201) == board
    preview = schemas.Preview("b", False, [schemas.Change("rule", "best", "sum")], [])
    assert read(calls.define("b"), preview) == preview


def test_a_batch_tells_receipts_from_refusals() -> None:
    receipt = schemas.Receipt("b", "p", "counted", 1, None, 1, None, None, 1, 100.0, 9, {})
    refusal = schemas.Refusal("unknown_board", "there is no board", "no")
    results = schemas.Results([receipt, refusal], 9)
    assert read(calls.submit_batch([]), results) == [receipt, refusal]


def test_a_poll_tells_a_page_that_is_known_from_a_new_one() -> None:
    new = read(calls.poll("b"), PAGE)
    assert (new.page, new.etag) == (PAGE, '"e"')
    assert read(calls.poll("b", etag='"e"'), PAGE, 304).page is None
    assert calls.poll("b", etag='"e"').headers == {"if-none-match": '"e"'}


# ----------------------------------------------------------------------------- walking


def test_a_walk_goes_on_by_cursor_in_the_window_it_began_in() -> None:
    pages = calls.walk("b", window="daily", segment="region:eu", limit=2)
    page = msgspec.structs.replace(PAGE, window="daily:2026-11-14", next_cursor="c")
    following = pages.following(page)
    assert following is not None
    query = found_by(following).route.read_query(following.path.partition("?")[2])
    assert (query["cursor"], query["window"]) == ("c", "daily:2026-11-14")
    assert (query["limit"], query["segment"]) == (2, "region:eu")
    assert pages.following(PAGE) is None


def test_history_and_facts_go_on_where_they_are_told() -> None:
    history = calls.walk_history("b", "p", limit=2)
    some = schemas.History(board="b", player="p", facts=[], next_before=4, as_of=9)
    following = history.following(some)
    assert following is not None
    assert "before=4" in following.path
    assert history.following(msgspec.structs.replace(some, next_before=None)) is None

    facts = calls.walk_facts(board="b")
    trail = schemas.Facts(facts=[], next_after=4, as_of=9)
    next_facts = facts.following(trail)
    assert next_facts is not None
    assert "after=4" in next_facts.path
    assert "board=b" in next_facts.path
    assert facts.following(msgspec.structs.replace(trail, next_after=None)) is None


def test_a_walk_in_a_range_of_time_stays_in_it() -> None:
    some = schemas.History(board="b", player="p", facts=[], next_before=4, as_of=9)
    trail = schemas.Facts(facts=[], next_after=4, as_of=9)
    for following in (
        calls.walk_history("b", "p", **BETWEEN).following(some),
        calls.walk_facts(**BETWEEN).following(trail),
    ):
        assert following is not None
        query = found_by(following).route.read_query(following.path.partition("?")[2])
        assert query["since"] == 1_794_645_000_000_000
        assert query["until"] == 1_794_700_800_000_000


def test_players_go_on_behind_the_last_of_a_page() -> None:
    found = schemas.Players(players=[], next_after="p 1", as_of=9)
    pages = calls.walk_players("p", limit=2)
    following = pages.following(found)
    assert following is not None
    query = found_by(following).route.read_query(following.path.partition("?")[2])
    assert (query["query"], query["after"], query["limit"]) == ("p", "p 1", 2)
    assert pages.following(msgspec.structs.replace(found, next_after=None)) is None
