"""A fact's row says to people what its bytes say, whatever is in it."""

import msgspec
import pytest

from rankd.adapters.postgres.batch import prepared
from rankd.adapters.postgres.rows import FactRow, digest, is_plain, row_of
from rankd.model.facts import (
    FACTS,
    AttributesSet,
    BoardDefined,
    BoardExpired,
    BoardRedefined,
    BoardRelearned,
    BoardRetired,
    ClosedWindow,
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
    RedactedPart,
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
    encode,
)
from rankd.model.window import Instant

AT = Instant(1_763_000_000_000_000)
EVERY_KIND: list[tuple[Fact, FactRow]] = [
    (
        ScoreSubmitted("b", "p", scores=(1, -2), key="k", actor="server"),
        FactRow("b", "p", "k", (1, -2), actor="server"),
    ),
    (ScoreSubmitted("b", "p", delta=-5), FactRow("b", "p", delta=-5)),
    (
        ScoreSubmitted(
            "b", "p", scores=(1,), metadata=b'{"a": [1]}', attributes={"z": 1, "a": True},
            build="1.2", at=AT, run="r",
        ),
        FactRow("b", "p", scores=(1,), details=(
            '{"at":1763000000000000,"attributes":{"a":true,"z":1},"build":"1.2",'
            '"metadata":{"a":[1]},"run":"r"}'
        )),
    ),
    (
        BoardDefined("b", {"name": "b"}, "admin", (OpenWindow("forever"), OpenWindow("d", AT))),
        FactRow("b", actor="admin", details=(
            '{"definition":{"name":"b"},"windows":[{"end":null,"start":null,"window":"forever"},'
            '{"end":null,"start":1763000000000000,"window":"d"}]}'
        )),
    ),
    (
        BoardRedefined("b", {"name": "b"}, "admin"),
        FactRow("b", actor="admin", details='{"definition":{"name":"b"}}'),
    ),
    (
        BoardRelearned("b", {"name": "b"}, "admin"),
        FactRow("b", actor="admin", details='{"definition":{"name":"b"}}'),
    ),
    (BoardRetired("b", "admin", "old"), FactRow("b", actor="admin", details='{"reason":"old"}')),
    (
        WindowOpened("b", "d", Instant(0), AT, since=Position(3)),
        FactRow("b", window="d", details='{"end":1763000000000000,"since":3,"start":0}'),
    ),
    (WindowSealed("b", "d", "admin"), FactRow("b", window="d", actor="admin")),
    (WindowDropped("b", "d", Position(3)), FactRow("b", window="d", details='{"since":3}')),
    (
        PlayerProfiled("p", "Ada", {"region": "eu"}),
        FactRow(player="p", details='{"attributes":{"region":"eu"},"name":"Ada"}'),
    ),
    (FriendsSet("p", ("q", "r")), FactRow(player="p", details='{"friends":["q","r"]}')),
    (FriendsSet("p", ()), FactRow(player="p", details='{"friends":[]}')),
    (NameSet("p", "Ada"), FactRow(player="p", details='{"name":"Ada"}')),
    (NameSet("p"), FactRow(player="p")),
    (
        AttributesSet("p", attributes={"a": 1}),
        FactRow(player="p", details='{"attributes":{"a":1}}'),
    ),
    (
        PlayerErased("p", "me", "asked"),
        FactRow(None, "p", actor="me", details='{"reason":"asked"}'),
    ),
    (
        KeyCreated("id", b"\0" * 32, ("read",), None, "A key", "admin"),
        FactRow(actor="admin", details='{"id":"id","scopes":["read"],"title":"A key"}'),
    ),
    (
        TimeCorrected(WrongTime(Position(3), Position(9), 5, Instant(6), AT), "admin"),
        FactRow(actor="admin", details=(
            '{"wrong":{"ahead":5,"earliest":6,"first":3,"last":9,"latest":1763000000000000}}'
        )),
    ),
    (
        WindowsCorrected(
            "b", Position(3), AT, (OpenWindow("d", AT),), ("all",),
            (ClosedWindow("c", Instant(0), AT, Position(4), AT),), ("x",), "admin",
        ),
        FactRow("b", actor="admin", details=(
            '{"closed":[{"at":1763000000000000,"end":1763000000000000,"start":0,"through":4,'
            '"window":"c"}],"kept":["all"],"removed":["x"],"since":3,"time":1763000000000000,'
            '"windows":[{"end":null,"start":1763000000000000,"window":"d"}]}'
        )),
    ),
    (KeyRevoked("id", "admin"), FactRow(actor="admin", details='{"id":"id"}')),
    (
        ExpiringKeyCreated("id", b"\0" * 32, ("read",), expires=AT),
        FactRow(details='{"expires":1763000000000000,"id":"id","scopes":["read"]}'),
    ),
    (
        ScoreAdjusted("b", "p", delta=5, actor="mod", reason="late run"),
        FactRow("b", "p", delta=5, actor="mod", details='{"reason":"late run"}'),
    ),
    (
        MetadataSet("b", "p", b'{"car":7}', "mod"),
        FactRow("b", "p", actor="mod", details='{"metadata":{"car":7}}'),
    ),
    (
        ScoresRetracted(
            "b", build="1.2", first=Position(3), last=Position(9), actor="mod", reason="bug",
            editions=(Edition("b", "d"),),
        ),
        FactRow("b", actor="mod", details=(
            '{"build":"1.2","editions":[{"board":"b","window":"d"}],"first":3,"last":9,'
            '"reason":"bug"}'
        )),
    ),
    (
        RetractionUndone("b", Position(3), "p", "mod", "honest"),
        FactRow("b", "p", actor="mod", details='{"reason":"honest","retraction":3}'),
    ),
    (
        ReviewDecided("b", "p", Position(3), True, "mod", "seen"),
        FactRow("b", "p", actor="mod", details=(
            '{"approved":true,"reason":"seen","submission":3}'
        )),
    ),
    (
        PlayerStateSet("p", "banned", ("b",), AT, None, "mod", "cheats"),
        FactRow(player="p", actor="mod", details=(
            '{"boards":["b"],"reason":"cheats","state":"banned","until":1763000000000000}'
        )),
    ),
    (WindowEnded("b", "d", Position(3)), FactRow("b", window="d", details='{"since":3}')),
    (
        WindowFrozen("b", "d", Instant(0), AT, "mod", "a bug", Position(3)),
        FactRow("b", window="d", actor="mod", details=(
            '{"end":1763000000000000,"reason":"a bug","since":3,"start":0}'
        )),
    ),
    (
        WindowSettled("b", "d", 2, Position(3), Position(9), b"c", 5, 4, b"s", "mod", "paid"),
        FactRow("b", window="d", actor="mod", details=(
            '{"edition":2,"first":3,"last":9,"players":4,"reason":"paid","submissions":5}'
        )),
    ),
    (BoardExpired("b", since=Position(3)), FactRow("b", details='{"since":3}')),
    (
        ExpiringScoreSubmitted("b", "p", scores=(1,), lives=5),
        FactRow("b", "p", scores=(1,), details='{"lives":5}'),
    ),
    (ScoresExpired("b", "p", (Position(3),)), FactRow("b", "p", details='{"positions":[3]}')),
    (
        PersonErased("p", "me", "asked"),
        FactRow(None, "p", actor="me", details='{"reason":"asked"}'),
    ),
    (
        FactsRedacted("p", Position(9), (RedactedPart(Position(4), b"\1", b"\2"),), True, "me"),
        FactRow(player="p", actor="me", details=(
            '{"complete":true,"parts":[{"digest":"Ag==","last":4,"link":"AQ=="}],"through":9}'
        )),
    ),
    (
        SigningKeyCreated("id", "hmac", b"s" * 32, ("b",), "A key", "admin", AT),
        FactRow(actor="admin", details=(
            '{"algorithm":"hmac","boards":["b"],"expires":1763000000000000,"id":"id",'
            '"title":"A key"}'
        )),
    ),
    (KeysUsed({"id": AT}), FactRow(details='{"used":{"id":1763000000000000}}')),
    (
        VisibilitySet("p", "friends", "a"),
        FactRow(player="p", actor="a", details='{"visibility":"friends"}'),
    ),
    (
        WebhookSet("w", "https://h/x", ("window.opened",), ("b",), b"s" * 24, "a"),
        FactRow(actor="a", details=(
            '{"boards":["b"],"events":["window.opened"],"name":"w","url":"https://h/x"}'
        )),
    ),
    (WebhookRemoved("w", "a"), FactRow(actor="a", details='{"name":"w"}')),
    (
        WebhookRewound("w", Position(3), "a"),
        FactRow(actor="a", details='{"after":3,"name":"w"}'),
    ),
    (
        WebhooksSent("n", AT, {"w": WebhookProgress(Position(1), Position(2))}),
        FactRow(details=(
            '{"deliveries":{},"node":"n","progress":{"w":[1,2,null,false,[0,0]]},'
            '"until":1763000000000000}'
        )),
    ),
    (
        WindowPrepared("b", "last7:2026-11-20", AT, AT + 1),
        FactRow("b", window="last7:2026-11-20", details=(
            '{"end":1763000000000001,"start":1763000000000000}'
        )),
    ),
    (
        RewardsGiven("b", "cup", 1, 0, 0, ("p",), (1,), b'{"gold":1}', (5,), 2),
        FactRow("b", window="cup", details=(
            '{"amounts":[5],"band":0,"decimals":2,"edition":1,"give":{"gold":1},"number":0,'
            '"players":["p"],"ranks":[1]}'
        )),
    ),
    (
        RewardsWithdrawn("b", "cup", 2, Position(3), (0,)),
        FactRow("b", window="cup", details='{"edition":2,"given":3,"rows":[0]}'),
    ),
    (
        RewardClaimed("b", "p", "cup", Position(3), 0, "a"),
        FactRow("b", "p", window="cup", actor="a", details='{"given":3,"row":0}'),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("fact", "row"), EVERY_KIND, ids=lambda each: type(each).__name__)
def test_a_row_shows_what_a_fact_says(fact: Fact, row: FactRow) -> None:
    assert row_of(fact) == row


def test_every_kind_is_tried() -> None:
    assert {type(fact) for fact, _ in EVERY_KIND} == set(FACTS)


@pytest.mark.parametrize(
    "metadata",
    [b"", b"{", b"\xff", b'"\\ud800"', b"1e999", b"[" * 5_000, b"NaN", b'{"a":1}x'],
    ids=repr,
)
def test_metadata_that_is_no_json_is_not_shown(metadata: bytes) -> None:
    """A board's rules keep such things out; the ledger must not fall over one that came in."""
    assert row_of(ScoreSubmitted("b", "p", scores=(1,), metadata=metadata)).details is None


def test_what_no_text_can_hold_is_shown_as_something_else() -> None:
    fact = ScoreSubmitted(
        "b", "p", scores=(1,), metadata=b'{"a":"\\u0000"}', attributes={"x": "a\0b"}
    )
    details = row_of(fact).details
    assert details is not None
    assert msgspec.json.decode(details) == {
        "metadata": {"a": "\ufffd"},
        "attributes": {"x": "a\ufffdb"},
    }


@pytest.mark.parametrize(
    "fact",
    [
        ScoreSubmitted("b\0", "p", scores=(1,)),
        ScoreSubmitted("b", "p\0", scores=(1,)),
        ScoreSubmitted("b", "p", scores=(1,), key="k\0"),
        ScoreSubmitted("b", "p", scores=(1,), actor="a\0"),
        WindowSealed("b", "w\0"),
    ],
)
def test_a_name_that_no_text_can_hold_is_refused_before_it_is_sent(fact: Fact) -> None:
    with pytest.raises(UnicodeError):
        prepared([ScoreSubmitted("b", "p", scores=(1,)), fact])


def test_the_columns_of_an_append_are_those_of_its_rows() -> None:
    """Plain submissions take a shorter way, and come to the same."""
    plain: list[Fact] = [
        ScoreSubmitted("b", "p", scores=(1, 2), key="k", actor="a"),
        ScoreSubmitted("c", "q", delta=3),
    ]
    for facts in (plain, [*plain, *(fact for fact, _ in EVERY_KIND[1:])]):
        sent = prepared(facts).columns
        _, kinds, bodies, boards, players, _, _, scores, deltas, windows, actors, details, _ = sent
        assert list(zip(kinds, bodies, strict=True)) == [encode(fact) for fact in facts]
        rows = [row_of(fact) for fact in facts]
        assert list(boards) == [row.board for row in rows]
        assert list(players) == [row.player for row in rows]
        assert scores == [row.scores and "{" + ",".join(map(str, row.scores)) + "}" for row in rows]
        assert deltas == [row.delta for row in rows]
        assert (windows or [None] * len(rows)) == [row.window for row in rows]
        assert actors == [row.actor for row in rows]
        assert (details or [None] * len(rows)) == [row.details for row in rows]


def test_facts_that_run_together_are_hashed_apart() -> None:
    told = {
        digest(kinds, bodies)
        for kinds, bodies in [
            ([], []),
            (["a"], [b"bc"]),
            (["ab"], [b"c"]),
            (["a", "b"], [b"", b"c"]),
            (["a", "b"], [b"c", b""]),
            (["a", "b", "c"], [b"", b"", b""]),
        ]
    }
    assert len(told) == 6


def test_what_every_submission_has_makes_none_of_them_less_plain() -> None:
    fact = ScoreSubmitted("b", "p", (1,), defined=Position(3))
    assert is_plain(fact) and row_of(fact).details is None
