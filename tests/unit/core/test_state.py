"""The state: it remembers what a fact says, and nothing that no fact said."""

from collections.abc import Iterator
from itertools import count

import pytest

from rankd.core.board_state import name_of_window
from rankd.core.state import Savepoint, State, segments_of
from rankd.core.state_codec import VERSION, Heading, read_notes, take_notes
from rankd.model.board import Board
from rankd.model.facts import (
    FACTS,
    Attributes,
    AttributesSet,
    BoardDefined,
    BoardExpired,
    BoardRedefined,
    BoardRelearned,
    BoardRetired,
    ClosedWindow,
    DeliveryRecord,
    Edition,
    ExpiringKeyCreated,
    ExpiringScoreSubmitted,
    Fact,
    FactsRedacted,
    FriendsSet,
    KeyCreated,
    KeyRevoked,
    KeysUsed,
    MetadataSet,
    NameSet,
    OpenWindow,
    PersonErased,
    PlayerErased,
    PlayerProfiled,
    PlayerStateSet,
    Position,
    Profile,
    ProfileChange,
    Recorded,
    RetractionUndone,
    ReviewDecided,
    RewardClaimed,
    RewardsGiven,
    RewardsWithdrawn,
    ScoreAdjusted,
    ScoresExpired,
    ScoresRetracted,
    ScoreSubmitted,
    SigningKeyCreated,
    TimeCorrected,
    VisibilitySet,
    WebhookProgress,
    WebhookRemoved,
    WebhookRewound,
    WebhookSet,
    WebhooksSent,
    WindowDropped,
    WindowEnded,
    WindowFrozen,
    WindowOpened,
    WindowPrepared,
    WindowsCorrected,
    WindowSealed,
    WindowSettled,
    WrongTime,
    shared_attributes,
)
from rankd.model.runs import RunId
from rankd.ports import Ranking

DAY = 86_400_000_000


def book_of(*facts: Fact) -> State:
    state = State()
    for number, fact in enumerate(facts, start=1):
        state.note(Recorded(Position(number), number, fact))
    return state


def defined(*windows: str) -> BoardDefined:
    definition = Board.define("b", {"rule": "sum", "windows": ["all", "daily"]}).definition()
    return BoardDefined("b", definition, None, tuple(OpenWindow(id, 0, DAY) for id in windows))


def test_a_window_is_open_until_a_fact_closes_it_and_there_until_one_drops_it() -> None:
    page = book_of(defined("daily:1")).page("b")
    assert (list(page.windows), list(page.sealed)) == (["daily"], [])
    page = book_of(defined("daily:1"), WindowSealed("b", "daily:1")).page("b")
    assert (list(page.windows), list(page.sealed)) == ([], ["daily:1"])
    assert (page.sealed["daily:1"].through, page.sealed["daily:1"].at) == (2, 2)
    dropped = WindowDropped("b", "daily:1")
    page = book_of(defined("daily:1"), WindowSealed("b", "daily:1"), dropped).page("b")
    assert (list(page.windows), list(page.sealed)) == ([], [])


def test_an_open_window_cannot_be_dropped_nor_another_be_sealed() -> None:
    page = book_of(
        defined("daily:1"), WindowDropped("b", "daily:1"), WindowSealed("b", "daily:2")
    ).page("b")
    assert (list(page.windows), list(page.sealed)) == (["daily"], [])


def test_windows_keep_the_order_of_the_definition() -> None:
    state = book_of(defined("daily:1"), WindowOpened("b", "all"))
    assert list(state.page("b").windows) == ["all", "daily"]
    assert [opened.ranking for opened in state.page("b").windows.values()] == [
        Ranking("b", "all"),
        Ranking("b", "daily:1"),
    ]


def test_facts_about_a_board_that_is_gone_are_no_mistake() -> None:
    gone = [WindowOpened("b", "all"), WindowSealed("b", "all"), WindowDropped("b", "all")]
    state = book_of(defined("all"), BoardRetired("b"), *gone, BoardRetired("b"))
    assert state.boards == {}


def test_a_new_definition_closes_what_it_does_not_go_on_with() -> None:
    page = book_of(defined("all", "daily:1"), defined("all", "daily:2")).page("b")
    assert [opened.window.id for opened in page.windows.values()] == ["all", "daily:2"]
    assert list(page.sealed) == ["daily:1"]
    assert (page.since, page.defined_at) == (1, 2)
    assert page.board_at(Position(1)) is page.earlier[0][1]
    assert page.board_at(Position(2)) is page.board


def test_a_profile_is_replaced_whole_and_a_person_is_forgotten() -> None:
    state = book_of(
        PlayerProfiled("p", "Ann", {"region": "eu"}), FriendsSet("p", ("q",)), PlayerProfiled("p")
    )
    assert state.profile("p").attributes == {}
    assert state.profile("p").friends == ("q",)
    state.change_profile(ProfileChange("p", attributes={"level": 3}, merges=True))
    state.note(Recorded(Position(4), 4, PlayerErased("p")))
    assert (state.profiles, state.profiled_at) == ({}, 4)


def test_a_profile_may_be_changed_in_part() -> None:
    state = book_of(PlayerProfiled("p", "Ann", {"region": "eu"}))
    told: tuple[tuple[Fact, tuple[str | None, Attributes]], ...] = (
        (NameSet("p", "Eve"), ("Eve", {"region": "eu"})),
        (AttributesSet("p", attributes={"level": 3}), ("Eve", {"level": 3})),
        (NameSet("p"), (None, {"level": 3})),
        (AttributesSet("p", attributes={}), (None, {})),
    )
    for position, (fact, profile) in enumerate(told, start=2):
        state.note(Recorded(Position(position), position, fact))
        assert (state.profile("p"), state.profiled_at) == (Profile(*profile), position)
    assert book_of(NameSet("q", "Bob")).profile("q") == ("Bob", {}, ())
    assert book_of(AttributesSet("q", attributes={"a": 1})).profile("q") == (None, {"a": 1}, ())


def test_segments_are_drawn_from_attributes() -> None:
    board = Board.define("b", {"rule": "sum", "windows": ["all"], "segments": ["vip", "level"]})
    assert segments_of(board, {"vip": True, "level": 3, "other": "x"}) == ["vip:true", "level:3"]
    assert segments_of(board, {}) == []


def test_a_window_is_named_after_its_recurrence() -> None:
    assert [name_of_window(id) for id in ("all", "all~2", "daily:2026-11-14~3")] == [
        "all",
        "all",
        "daily",
    ]


def test_the_revision_tells_whether_anything_about_boards_or_keys_was_noted_since() -> None:
    """Whoever keeps what a question meant goes by it; what players are called means nothing."""
    counted = (
        defined("daily:1"),
        WindowSealed("b", "daily:1"),
        WindowOpened("b", "daily:2", DAY, 2 * DAY),
        WindowDropped("b", "daily:1"),
        KeyCreated("k", b"digest", ("read",)),
        KeysUsed({"k": 1}),
        KeyRevoked("k"),
        defined("daily:2"),
        BoardRetired("b"),
    )
    others = (
        PlayerProfiled("p", "Ann"),
        NameSet("p", "Eve"),
        AttributesSet("p", attributes={"level": 3}),
        FriendsSet("p", ("q",)),
        PlayerErased("p"),
    )
    state, positions = State(), count(1)
    for number, fact in enumerate(counted, start=1):
        for noted in (fact, *others):
            position = next(positions)
            state.note(Recorded(Position(position), position, noted))
        assert state.revision == number, fact


FIRST_RETRACTION = 31
LAST = {"name": "last", "rolling": "7d"}
AFTER_ALL = Position(1_000)

EVERYTHING: tuple[Fact, ...] = (
    defined("daily:1", "all"),
    ScoreSubmitted("b", "p", (1,), attributes={"region": "eu"}),
    ScoreSubmitted("b", "q", (1,), attributes={"region": "us"}),
    PlayerProfiled("p", "Ann", {"region": "us"}),
    FriendsSet("p", ("q",)),
    KeyCreated("k", b"digest", ("read",)),
    WindowSealed("b", "daily:1"),
    WindowOpened("b", "daily:2", DAY, 2 * DAY),
    ScoreSubmitted("b", "p", (1,), attributes={"level": 3}),
    WindowDropped("b", "daily:1"),
    KeysUsed({"k": 5}),
    ExpiringKeyCreated("l", b"other", ("read",), expires=9),
    KeysUsed({"k": 3, "l": 7, "gone": 8}),
    KeyRevoked("k"),
    BoardDefined("c", defined().definition),
    FriendsSet("p", ()),
    NameSet("p", "Eve"),
    AttributesSet("q", attributes={"level": 4}),
    PlayerErased("p"),
    TimeCorrected(WrongTime(Position(8), Position(17), 5, 1, 2)),
    WindowsCorrected(
        "b",
        Position(8),
        18,
        (OpenWindow("daily:1"), OpenWindow("all")),
        closed=(ClosedWindow("daily:0", 0, DAY, Position(9), 9),),
        removed=("daily:2",),
    ),
    NameSet("p", "Ann"),
    AttributesSet("r", attributes={}),
    defined("daily:2"),
    BoardRedefined("b", defined().definition, windows=(OpenWindow("daily:2"),)),
    PlayerProfiled("p", "Bob"),
    ScoreAdjusted("b", "p", (1,), attributes={"region": "eu"}),
    MetadataSet("b", "p", b"1"),
    PlayerStateSet("p", "banned", until=40),
    PlayerStateSet("p", "hidden", ("b",)),
    ScoresRetracted("b", "p", (Position(2),), editions=(Edition("b", "daily:1"),)),
    RetractionUndone("b", Position(FIRST_RETRACTION), "p"),
    ReviewDecided("b", "p", Position(2), approved=True),
    PlayerStateSet("p", "active", ends=Position(FIRST_RETRACTION - 2)),
    BoardRetired("b"),
    defined("daily:3"),
    BoardDefined(
        "r",
        Board.define("r", {"rule": "sum", "windows": [LAST]}).definition(),
        windows=(OpenWindow("last:1970-01-01", 0, DAY),),
    ),
    WindowPrepared("r", "last:1970-01-02", 0, 2 * DAY),
    WindowSealed("r", "last:1970-01-01"),
    WindowOpened("r", "last:1970-01-02", 0, 2 * DAY),
)
EVERYTHING = (
    *EVERYTHING,
    BoardExpired("b", since=Position(1)),
    BoardExpired("b", since=Position(len(EVERYTHING))),
    PersonErased("p", "admin"),
    FactsRedacted("p", Position(len(EVERYTHING)), complete=True),
    defined("daily:4"),
    *(SigningKeyCreated(f"run {number}", "run", b"secret") for number in range(6)),
    SigningKeyCreated("hmac", "hmac", b"secret"),
    KeysUsed({"hmac": 7}),
    ScoreSubmitted("b", "p", (1,), run=RunId(0, 0, 1, b"nonce..1").text),
    ScoreSubmitted("b", "p", (1,), run=RunId(0, 0, 1, b"nonce..1").text),
    ScoreSubmitted("b", "p", (1,), run=RunId(0, 0, 4_000, b"nonce..2").text),
    ScoreSubmitted("b", "p", (1,), run=RunId(0, 0, 1, b"nonce..3").text),
    ScoreSubmitted("b", "p", (1,), run="bogus"),
    KeyRevoked("hmac"),
    WindowFrozen("b", "daily:4", 3 * DAY, 4 * DAY, reason="a bug", since=AFTER_ALL),
    WindowEnded("b", "daily:4", since=AFTER_ALL),
    WindowSealed("b", "daily:4", since=AFTER_ALL),
    WindowSettled("b", "daily:4", since=AFTER_ALL),
)
REWARDED = Position(len(EVERYTHING) + 1)
EVERYTHING = (
    *EVERYTHING,
    RewardsGiven("b", "daily:4", 1, 0, 0, ("p", "q", "r"), (1, 2, 3), b"1", since=AFTER_ALL),
    RewardsGiven("b", "daily:4", 2, 0, 0, ("p",), (1,), b"1", since=AFTER_ALL),
    RewardClaimed("b", "p", "daily:4", REWARDED, 0),
    RewardClaimed("b", "p", "daily:4", REWARDED, 9),
    RewardsWithdrawn("b", "daily:4", 1, REWARDED, (0, 1), AFTER_ALL),
    RewardClaimed("b", "q", "daily:4", REWARDED, 1),
)
EVERYTHING = (
    *EVERYTHING,
    ExpiringScoreSubmitted("b", "p", (1,), lives=5),
    ExpiringScoreSubmitted("b", "q", (1,), lives=9),
    ScoresExpired("b", "p", (Position(len(EVERYTHING) + 1),)),
    VisibilitySet("p", "friends"),
    VisibilitySet("q", "anonymous"),
    PersonErased("q"),
    VisibilitySet("p"),
    VisibilitySet("r", "anonymous"),
)
TRIED = DeliveryRecord(Position(9), "window.sealed", "b", None, "retrying", 1, 500, "wrong", 80, 90)
FIRST_WEBHOOK = Position(len(EVERYTHING) + 1)
EVERYTHING = (
    *EVERYTHING,
    WebhookSet("hook", "https://game.example/", ("window.sealed",), None, b"secret"),
    WebhooksSent("one", 90, {"hook": WebhookProgress(FIRST_WEBHOOK, Position(FIRST_WEBHOOK + 1))}),
    WebhooksSent("one", 91, {}, {"hook": (TRIED, TRIED), "gone": (TRIED,)}),
    WebhooksSent("other", 99, {"hook": WebhookProgress(FIRST_WEBHOOK, Position(1))}),
    WebhookSet("hook", "https://game.example/new", ("window.opened",), ("b",), b"another"),
    WebhookRewound("hook", Position(3)),
    WebhooksSent("one", 99, {"hook": WebhookProgress(FIRST_WEBHOOK, Position(9))}),
    WebhookRemoved("hook"),
    BoardRelearned("b", defined().definition, windows=(OpenWindow("daily:2"),)),
)


def whole(state: State) -> object:
    """Return everything a state says, but for its revision, which only ever grows."""
    frames = take_notes(state, Heading(VERSION, Position(0), 0, b"", state.profiled_at, {}))
    noted = read_notes(frames).state
    return list(noted.boards), list(take_notes_sorted(noted)), state.profiled_at


def take_notes_sorted(state: State) -> Iterator[bytes]:
    state.profiles = dict(sorted(state.profiles.items()))
    state.living._scores = dict(sorted(state.living._scores.items()))
    return take_notes(state, Heading(VERSION, Position(0), 0, b"", Position(0), {}))


def note_like_a_fold(state: State, recorded: Recorded) -> None:
    fact = recorded.fact
    if isinstance(fact, ScoreSubmitted):
        change = fact.profile_change()
        if change is not None:
            state.change_profile(change)
        if (page := state.boards.get(fact.board)) is not None:
            state.admit(page, fact, recorded)
            state.note_term(fact, recorded)
    else:
        state.note(recorded)


def test_a_copy_of_the_state_keeps_the_visibility_of_its_moment() -> None:
    state = State()
    state.note(Recorded(Position(1), 0, VisibilitySet("p", "friends")))
    before = state.copy()
    state.note(Recorded(Position(2), 0, VisibilitySet("p", "anonymous")))
    state.note(Recorded(Position(3), 0, VisibilitySet("q", "anonymous")))
    assert before.visibility == {"p": "friends"}


def test_every_kind_of_fact_is_undone() -> None:
    assert isinstance(EVERYTHING[FIRST_RETRACTION - 1], ScoresRetracted)
    assert {type(fact) for fact in EVERYTHING} == set(FACTS)


@pytest.mark.parametrize("start", range(len(EVERYTHING)))
def test_a_state_goes_back_to_its_savepoint_after_any_facts(start: int) -> None:
    history = [Recorded(Position(at), at, fact) for at, fact in enumerate(EVERYTHING, start=1)]
    for end in range(start, len(history) + 1):
        state = State()
        for recorded in history[:start]:
            note_like_a_fold(state, recorded)
        before, mark = whole(state), Savepoint(state)
        for recorded in history[start:end]:
            note_like_a_fold(state, recorded)
        mark.go_back()
        assert whole(state) == before, (start, end)


def test_players_with_news_are_those_whose_profile_a_fact_may_change() -> None:
    state, told = State(), shared_attributes({"region": "eu"})
    state.profiles = {"ann": Profile(None, told), "bob": Profile("Bob", {"region": "eu"})}
    facts: list[Fact] = [
        ScoreSubmitted("b", "ann", scores=(1,), attributes=told),
        ScoreSubmitted("b", "bob", scores=(1,), attributes=told),
        ScoreSubmitted("b", "cat", scores=(1,)),
    ]
    assert state.players_with_news(facts) == set()
    facts += [
        ScoreSubmitted("b", "cat", scores=(1,), attributes=told),
        ScoreSubmitted("b", "bob", scores=(1,), attributes={"region": "us"}),
        PlayerErased("dan"),
    ]
    assert state.players_with_news(facts) == {"bob", "cat", "dan"}
