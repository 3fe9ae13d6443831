"""Facts outlive the program that wrote them: their bytes are pinned, old kinds readable."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from rankd.errors import Corrupt, UnknownFact, UnreadableFact
from rankd.model import facts
from rankd.model.facts import (
    FACTS,
    FINGERPRINT_BYTES,
    AttributesSet,
    AuditedFact,
    BoardDefined,
    BoardExpired,
    BoardRedefined,
    BoardRelearned,
    BoardRetired,
    ClosedWindow,
    Codec,
    DeliveryRecord,
    Edition,
    ExpiringKeyCreated,
    ExpiringScoreSubmitted,
    Fact,
    FactsRedacted,
    FriendsSet,
    Identity,
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
    RedactedPart,
    RequestOrigin,
    RetractionUndone,
    ReviewDecided,
    RewardClaimed,
    RewardsGiven,
    RewardsWithdrawn,
    ScoreAdjusted,
    ScoresExpired,
    ScoresRetracted,
    ScoreSubmitted,
    SettledStandings,
    SigningKeyCreated,
    TimeCorrected,
    Upcaster,
    VisibilitySet,
    WebhookProgress,
    WebhookRemoved,
    WebhookRewound,
    WebhookSet,
    WebhooksSent,
    WindowDropped,
    WindowEnded,
    WindowFact,
    WindowFrozen,
    WindowOpened,
    WindowPrepared,
    WindowsCorrected,
    WindowSealed,
    WindowSettled,
    WrongTime,
    decode,
    encode,
    shared_attributes,
)

FULL = ScoreSubmitted(
    board="global",
    player="éz",
    delta=-64,
    key="k",
    metadata=b'{"a":1}',
    attributes={"region": "eu", "level": 7, "vip": True},
    build="1.2",
    at=1794648600000000,
    run="run",
    actor="key-1",
)

# What ledgers in the world hold. Add to these tables; never change a line of them.

# From before a field was added at the end: read for ever, and written no more.
OUTLIVED: list[tuple[str, str, Fact]] = [
    (
        "score_submitted.1",
        "9ba6676c6f62616ca370343291cd1194c0a66d3a39393831c0c0c0c0c0c0",
        ScoreSubmitted("global", "p42", (4500,), key="m:9981"),
    ),
    (
        "score_submitted.1",
        "9ba3637570a370343292d3800000000000000001c0c0c0c0c0c0c0c0",
        ScoreSubmitted("cup", "p42", (-(2**63), 1)),
    ),
    (
        "score_submitted.1",
        (
            "9ba6676c6f62616ca3c3a97ac0d0c0a16bc4077b2261223a317d83a56c6576656c07a6726567696f6ea26575"
            "a3766970c3a3312e32cf00066039304cb600a372756ea56b65792d31"
        ),
        FULL,
    ),
]

GOLDEN: list[tuple[str, str, Fact]] = [
    (
        "score_submitted.1",
        "9ca6676c6f62616ca370343291cd1194c0a66d3a39393831c0c0c0c0c0c0c0",
        ScoreSubmitted("global", "p42", (4500,), key="m:9981"),
    ),
    (
        "score_submitted.1",
        "9ca3637570a370343292d3800000000000000001c0c0c0c0c0c0c0c0c0",
        ScoreSubmitted("cup", "p42", (-(2**63), 1)),
    ),
    (
        "score_submitted.1",
        (
            "9ca6676c6f62616ca3c3a97ac0d0c0a16bc4077b2261223a317d83a56c6576656c07a6726567696f6ea26575"
            "a3766970c3a3312e32cf00066039304cb600a372756ea56b65792d31c0"
        ),
        FULL,
    ),
    (
        "score_submitted.1",
        "9ca167a1709101c0c0c0c0c0c0c0c0cd1194",
        ScoreSubmitted("g", "p", (1,), defined=Position(4500)),
    ),
    (
        "board_defined.1",
        (
            "96a6676c6f62616c85a8646563696d616c7302a66c696d69747381a973636f72655f6d696ea4302e3530a5"
            "7072697a65c2a57469746c65c0a777696e646f777391a3616c6ca561646d696e90c0c0"
        ),
        BoardDefined(
            "global",
            {
                "windows": ["all"],
                "title": None,
                "prize": False,
                "limits": {"score_min": "0.50"},
                "decimals": 2,
            },
            "admin",
        ),
    ),
    (
        "board_defined.1",
        (
            "96a6676c6f62616c81a8646563696d616c7302a561646d696e9293b06461696c793a323032362d31312d31"
            "34cf0006603139d22000cf0006604557a9800093a3616c6cc0c0c0c0"
        ),
        BoardDefined(
            "global",
            {"decimals": 2},
            "admin",
            (
                OpenWindow("daily:2026-11-14", 1794614400000000, 1794700800000000),
                OpenWindow("all"),
            ),
        ),
    ),
    (
        "board_defined.2",
        "98a6676c6f62616c81a8646563696d616c7302a561646d696e90c0c09090",
        BoardRedefined("global", {"decimals": 2}, "admin"),
    ),
    (
        "board_defined.3",
        "98a6676c6f62616c81a8646563696d616c7302a561646d696e90c0c09090",
        BoardRelearned("global", {"decimals": 2}, "admin"),
    ),
    (
        "time_corrected.1",
        "95950309050607a561646d696ea661206c656170c0c0",
        TimeCorrected(WrongTime(Position(3), Position(9), 5, 6, 7), "admin", "a leap"),
    ),
    (
        "windows_corrected.1",
        (
            "9aa6676c6f62616c03cf0006603139d220009193b06461696c793a323032362d31312d3134cf0006603139"
            "d22000cf0006604557a9800091a3616c6c9195b06461696c793a323032362d31312d31330102040391b064"
            "61696c793a323033362d31312d3134a561646d696ec0c0"
        ),
        WindowsCorrected(
            "global",
            Position(3),
            1794614400000000,
            (OpenWindow("daily:2026-11-14", 1794614400000000, 1794700800000000),),
            ("all",),
            (ClosedWindow("daily:2026-11-13", 1, 2, Position(4), 3),),
            ("daily:2036-11-14",),
            "admin",
        ),
    ),
    (
        "board_retired.1",
        "95a6676c6f62616ca561646d696ea46f766572c0c0",
        BoardRetired("global", "admin", "over"),
    ),
    (
        "board_retired.2",
        "96a6676c6f62616cc0a46f766572cd012cc0c0",
        BoardExpired("global", None, "over", Position(300)),
    ),
    (
        "window_opened.1",
        (
            "95a6676c6f62616cb06461696c793a323032362d31312d3134cf0006603139d22000cf0006604557a980"
            "0007"
        ),
        WindowOpened("global", "daily:2026-11-14", 1794614400000000, 1794700800000000, Position(7)),
    ),
    ("window_opened.1", "95a6676c6f62616ca3616c6cc0c000", WindowOpened("global", "all")),
    (
        "window_prepared.1",
        "95a6676c6f62616cb06c617374373a323032362d31312d3135cf00065fcca49d4000cf000660597580e00007",
        WindowPrepared(
            "global", "last7:2026-11-15", 1794182400000000, 1794787200000000, Position(7)
        ),
    ),
    (
        "window_sealed.1",
        ("97a6676c6f62616cb06461696c793a323032362d31312d3134a561646d696ea46f766572cd012cc0c0"),
        WindowSealed("global", "daily:2026-11-14", "admin", "over", Position(300)),
    ),
    (
        "player_profiled.1",
        "96a3703432a341646181a6726567696f6ea26575c0c0c0",
        PlayerProfiled("p42", "Ada", {"region": "eu"}),
    ),
    ("name_set.1", "95a3703432a3416461a561646d696ec0c0", NameSet("p42", "Ada", "admin")),
    ("name_set.1", "95a3703432c0c0c0c0", NameSet("p42")),
    (
        "attributes_set.1",
        "96a3703432c081a6726567696f6ea26575c0c0c0",
        AttributesSet("p42", attributes={"region": "eu"}),
    ),
    ("friends_set.1", "95a370343292a27031a27032c0c0c0", FriendsSet("p42", ("p1", "p2"))),
    ("player_erased.1", "95a3703432c0a561736b6564c0c0", PlayerErased("p42", None, "asked")),
    (
        "window_dropped.1",
        "93a6676c6f62616cb06461696c793a323032362d31312d313407",
        WindowDropped("global", "daily:2026-11-14", Position(7)),
    ),
    (
        "key_created.1",
        (
            "98a26b31c420000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f92a4726561"
            "64a67375626d697491a6676c6f62616ca87468652067616d65a561646d696ec0c0"
        ),
        KeyCreated(
            "k1", bytes(range(32)), ("read", "submit"), ("global",), title="the game", actor="admin"
        ),
    ),
    ("key_revoked.1", "94a26b31a561646d696ec0c0", KeyRevoked("k1", "admin")),
    (
        "key_created.2",
        "99a26b31c402000191a472656164c0c0c0cf0006603139d22000c0c0",
        ExpiringKeyCreated("k1", b"\0\1", ("read",), expires=1794614400000000),
    ),
    ("keys_used.1", "9181a26b31cf0006603139d22000", KeysUsed({"k1": 1794614400000000})),
    (
        "score_adjusted.1",
        ("9fa6676c6f62616ca3703432c0fba56669783a31c0c0c0c0c0a561646d696ec0a661207479706fc0c0"),
        ScoreAdjusted("global", "p42", None, -5, "fix:1", actor="admin", reason="a typo"),
    ),
    (
        "score_submitted.2",
        "9da6676c6f62616ca3703432910ac0c0c0c0c0c0c0c0c0cf000000141dd76000",
        ExpiringScoreSubmitted("global", "p42", (10,), lives=86_400_000_000),
    ),
    (
        "scores_expired.1",
        "93a6676c6f62616ca37034329207cd012c",
        ScoresExpired("global", "p42", (Position(7), Position(300))),
    ),
    (
        "metadata_set.1",
        "96a6676c6f62616ca3703432c4097b22636172223a317da561646d696ec0c0",
        MetadataSet("global", "p42", b'{"car":1}', "admin"),
    ),
    (
        "scores_retracted.1",
        (
            "9ca6676c6f62616ca37034329207cd012ca5312e322e3305cd0190a561646d696ea7636865617465649192"
            "a6676c6f62616cb06461696c793a323032362d31312d313490c0c0"
        ),
        ScoresRetracted(
            "global",
            "p42",
            (Position(7), Position(300)),
            "1.2.3",
            Position(5),
            Position(400),
            "admin",
            "cheated",
            (Edition("global", "daily:2026-11-14"),),
        ),
    ),
    (
        "scores_retracted.1",
        "9cc0c090a5312e322e33c0c0c0c09090c0c0",
        ScoresRetracted(build="1.2.3"),
    ),
    (
        "retraction_undone.1",
        (
            "98a6676c6f62616ccd012da3703432a561646d696ea6686f6e6573749192a6676c6f62616ca76461696c79"
            "3a31c0c0"
        ),
        RetractionUndone(
            "global", Position(301), "p42", "admin", "honest", (Edition("global", "daily:1"),)
        ),
    ),
    (
        "review_decided.1",
        (
            "99a6676c6f62616ca3703432cd012cc3a561646d696ea47365656e9192a6676c6f62616ca76461696c793a"
            "31c0c0"
        ),
        ReviewDecided(
            "global", "p42", Position(300), True, "admin", "seen", (Edition("global", "daily:1"),)
        ),
    ),
    (
        "visibility_set.1",
        "95a3703432a9616e6f6e796d6f7573a561646d696ec0c0",
        VisibilitySet("p42", "anonymous", "admin"),
    ),
    (
        "player_state_set.1",
        (
            "99a3703432a662616e6e656491a6676c6f62616ccf0006603139d2200009a561646d696ea56120626f74c0"
            "c0"
        ),
        PlayerStateSet(
            "p42", "banned", ("global",), 1794614400000000, Position(9), "admin", "a bot"
        ),
    ),
    (
        "signing_key_created.1",
        (
            "99a46b316633a4686d6163c40673656372657491a6676c6f62616ca6636c69656e74a561646d696ecf0006"
            "603139d22000c0c0"
        ),
        SigningKeyCreated(
            "k1f3", "hmac", b"secret", ("global",), "client", "admin", 1794614400000000
        ),
    ),
    (
        "signing_key_created.1",
        ("99a46b316633a7776562686f6f6bc40e77687365635f6332566a636d5630c0c0c0c0c0c0"),
        SigningKeyCreated("k1f3", "webhook", b"whsec_c2VjcmV0"),
    ),
    (
        "window_ended.1",
        "93a6676c6f62616cb06461696c793a323032362d31312d313409",
        WindowEnded("global", "daily:2026-11-14", Position(9)),
    ),
    (
        "window_frozen.1",
        (
            "99a6676c6f62616cb06461696c793a323032362d31312d3134cf0006603139d22000c0a561646d696eae61"
            "2062726f6b656e206275696c6409c0c0"
        ),
        WindowFrozen(
            "global",
            "daily:2026-11-14",
            1794614400000000,
            None,
            "admin",
            "a broken build",
            Position(9),
        ),
    ),
    (
        "window_settled.1",
        (
            "dc0010a6676c6f62616ca36375700203cd0384c405636861696ecd020028c406646967657374a561646d"
            "696ea47061696409c0c000c400"
        ),
        WindowSettled(
            "global",
            "cup",
            2,
            Position(3),
            Position(900),
            b"chain",
            512,
            40,
            b"digest",
            "admin",
            "paid",
            Position(9),
        ),
    ),
    (
        "window_settled.1",
        (
            "dc0010a6676c6f62616ca36375700203cd0384c405636861696ecd020028c406646967657374a561646d"
            "696ea47061696409c0c003c40772657761726473"
        ),
        WindowSettled(
            "global",
            "cup",
            2,
            Position(3),
            Position(900),
            b"chain",
            512,
            40,
            b"digest",
            "admin",
            "paid",
            Position(9),
            rewards=3,
            rewards_digest=b"rewards",
        ),
    ),
    (
        "board_defined.2",
        (
            "98a6676c6f62616c81a8646563696d616c7302a561646d696e90c0c091b06461696c793a323032362d31"
            "312d313491af7765656b6c793a323032362d573436"
        ),
        BoardRedefined(
            "global",
            {"decimals": 2},
            "admin",
            opened=("daily:2026-11-14",),
            closed=("weekly:2026-W46",),
        ),
    ),
    (
        "rewards_given.1",
        (
            "9ba6676c6f62616ca363757002000192a3616e6ea3626f62920202c40a7b22676f6c64223a317d92cd0d"
            "06cd0d050209"
        ),
        RewardsGiven(
            "global",
            "cup",
            2,
            0,
            1,
            ("ann", "bob"),
            (2, 2),
            b'{"gold":1}',
            (3334, 3333),
            2,
            Position(9),
        ),
    ),
    (
        "rewards_withdrawn.1",
        "96a6676c6f62616ca363757002cd038492000709",
        RewardsWithdrawn("global", "cup", 2, Position(900), (0, 7), Position(9)),
    ),
    (
        "reward_claimed.1",
        "98a6676c6f62616ca3616e6ea3637570cd038407a473686f70c0c0",
        RewardClaimed("global", "ann", "cup", Position(900), 7, "shop"),
    ),
    (
        "webhook_set.1",
        (
            "98a7646973636f7264b968747470733a2f2f67616d652e6578616d706c652f686f6f6b91ad77696e646f"
            "772e7365616c656491a6676c6f62616cc40e77687365635f6332566a636d5630a561646d696ec0c0"
        ),
        WebhookSet(
            "discord",
            "https://game.example/hook",
            ("window.sealed",),
            ("global",),
            b"whsec_c2VjcmV0",
            "admin",
        ),
    ),
    ("webhook_removed.1", "94a7646973636f7264a561646d696ec0c0", WebhookRemoved("discord", "admin")),
    (
        "webhook_rewound.1",
        "95a7646973636f7264cd012ca561646d696ec0c0",
        WebhookRewound("discord", Position(300), "admin"),
    ),
    (
        "webhooks_sent.1",
        "94a36f6e65cf0006603139d2200081a7646973636f72649509cd012ccf0006603139d22000c392000080",
        WebhooksSent(
            "one",
            1794614400000000,
            {"discord": WebhookProgress(Position(9), Position(300), 1794614400000000, True)},
        ),
    ),
    (
        "webhooks_sent.1",
        (
            "94a36f6e65cf0006603139d2200081a7646973636f72649509cd012cc0c292cd012d0481a7646973"
            "636f7264919a09ad77696e646f772e7365616c6564a6676c6f62616cc0a87265747279696e6701cd"
            "01f4a577726f6e67cf0006603139d22000cf0006603139d22005"
        ),
        WebhooksSent(
            "one",
            1794614400000000,
            {"discord": WebhookProgress(Position(9), Position(300), part=(Position(301), 4))},
            {
                "discord": (
                    DeliveryRecord(
                        Position(9),
                        "window.sealed",
                        "global",
                        None,
                        "retrying",
                        1,
                        500,
                        "wrong",
                        1794614400000000,
                        1794614400000005,
                    ),
                )
            },
        ),
    ),
    (
        "player_erased.2",
        "95a3703432a561646d696ea861736b656420746fc0c0",
        PersonErased("p42", "admin", "asked to"),
    ),
    (
        "facts_redacted.1",
        "95a3703432cd012c9193ccc8c40401010101c40402020202c3a561646d696e",
        FactsRedacted(
            "p42",
            Position(300),
            (RedactedPart(Position(200), b"\x01" * 4, b"\x02" * 4),),
            complete=True,
            actor="admin",
        ),
    ),
]

# What was written before a kind had its last fields. It is read for ever, and written no more.
SHORTER: list[tuple[str, str, Fact]] = [
    (
        "webhooks_sent.1",
        "93a36f6e65cf0006603139d2200081a7646973636f72649409cd012ccf0006603139d22000c3",
        WebhooksSent(
            "one",
            1794614400000000,
            {"discord": WebhookProgress(Position(9), Position(300), 1794614400000000, True)},
        ),
    ),
    (
        "board_defined.2",
        "96a6676c6f62616c81a8646563696d616c7302a561646d696e90c0c0",
        BoardRedefined("global", {"decimals": 2}, "admin"),
    ),
    (
        "window_settled.1",
        (
            "9ea6676c6f62616ca36375700203cd0384c405636861696ecd020028c406646967657374a561646d696ea4"
            "7061696409c0c0"
        ),
        WindowSettled(
            "global",
            "cup",
            2,
            Position(3),
            Position(900),
            b"chain",
            512,
            40,
            b"digest",
            "admin",
            "paid",
            Position(9),
        ),
    ),
    (
        "board_defined.1",
        "93a6676c6f62616c81a8646563696d616c7302a561646d696e",
        BoardDefined("global", {"decimals": 2}, "admin"),
    ),
    (
        "window_opened.1",
        ("94a6676c6f62616cb06461696c793a323032362d31312d3134cf0006603139d22000cf0006604557a98000"),
        WindowOpened("global", "daily:2026-11-14", 1794614400000000, 1794700800000000),
    ),
    ("window_opened.1", "94a6676c6f62616ca3616c6cc0c0", WindowOpened("global", "all")),
    (
        "window_sealed.1",
        "94a6676c6f62616cb06461696c793a323032362d31312d3134a561646d696ea46f766572",
        WindowSealed("global", "daily:2026-11-14", "admin", "over"),
    ),
]


@pytest.mark.parametrize(("kind", "body", "fact"), [*GOLDEN, *SHORTER, *OUTLIVED])
def test_bytes_written_once_are_read_for_ever(kind: str, body: str, fact: Fact) -> None:
    assert decode(kind, bytes.fromhex(body)) == fact


@pytest.mark.parametrize(("kind", "body", "fact"), GOLDEN)
def test_the_same_fact_is_always_the_same_bytes(kind: str, body: str, fact: Fact) -> None:
    assert encode(fact) == (kind, bytes.fromhex(body))


AUDITED = [
    *{one[0]: one for one in reversed(GOLDEN) if "address" in one[2].__struct_fields__}.values()
]


def request_place(fact: Fact) -> int:
    """Return where the two fields of the request begin."""
    return fact.__struct_fields__.index("request_id")


@pytest.mark.parametrize(("kind", "body", "fact"), AUDITED)
def test_facts_of_older_versions_tell_of_no_request(kind: str, body: str, fact: Fact) -> None:
    fields, place = msgspec.msgpack.decode(bytes.fromhex(body)), request_place(fact)
    assert fields[place : place + 2] == [None, None]
    assert decode(kind, msgspec.msgpack.encode(fields[:place])) == fact


@pytest.mark.parametrize(("kind", "fact"), [(kind, fact) for kind, _, fact in AUDITED])
def test_audited_facts_end_with_their_request(kind: str, fact: Fact) -> None:
    asked = fact.requested_by(RequestOrigin("00112233", "203.0.113.7"))
    address = None if kind.startswith("player_erased") else "203.0.113.7"
    encoded = encode(asked)
    fields, place = msgspec.msgpack.decode(encoded[1]), request_place(fact)
    assert fields[place : place + 2] == ["00112233", address]
    assert decode(*encoded) == asked != fact


def test_every_fact_with_an_actor_is_audited_but_submissions_and_redactions() -> None:
    audited = {kind for kind, _, _ in AUDITED}
    told = {fact.kind for fact in FACTS if "actor" in fact.__struct_fields__}
    assert told - audited == {"score_submitted.1", "score_submitted.2", "facts_redacted.1"}


def test_every_kind_has_its_golden_bytes() -> None:
    assert {kind for kind, _, _ in GOLDEN} == {fact.kind for fact in FACTS}


def test_every_fact_of_this_module_is_listed() -> None:
    extended = (
        ScoreSubmitted,
        PlayerProfiled,
        BoardDefined,
        BoardRedefined,
        BoardRetired,
        KeyCreated,
        PlayerErased,
        WindowFact,
        AuditedFact,
        SettledStandings,
    )
    further = {kind for one in extended for kind in one.__subclasses__()}
    kinds = {*Fact.__subclasses__(), *further} - {WindowFact, AuditedFact, SettledStandings}
    assert set(FACTS) == {kind for kind in kinds if kind.__module__ == "rankd.model.facts"}


def test_a_flag_does_not_come_back_as_a_number() -> None:
    again = decode(*encode(FULL))
    assert isinstance(again, ScoreSubmitted)
    assert again.attributes is not None
    assert again.attributes["vip"] is True
    assert again.attributes["level"] == 7


def test_a_field_added_last_reads_as_its_default_in_older_bytes() -> None:
    assert decode("score_submitted.1", bytes.fromhex("92a167a170")) == ScoreSubmitted("g", "p")


def test_a_fact_has_its_place_and_its_time() -> None:
    recorded = Recorded(Position(7), 1794614400000000, FULL)
    assert (recorded.position, recorded.at, recorded.fact) == (7, 1794614400000000, FULL)


# ------------------------------------------------------------------------ what is damaged


def test_a_kind_from_the_future_is_not_guessed_at() -> None:
    with pytest.raises(UnknownFact) as caught:
        decode("score_submitted.999", b"\x90")
    assert caught.value.kind == "score_submitted.999"
    assert isinstance(caught.value, Corrupt)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        b"\x92\xa1g",  # cut short
        b"\x91\xa1g",  # a field missing
        b"\x92\xa1g\x01",  # a field of another type
        b"\x92\xa1g\xa1\xff",  # not UTF-8
        b"\x92\xa1g\xa1p\x00",  # something behind it
    ],
)
def test_damaged_bytes_are_corrupt_and_nothing_else(body: bytes) -> None:
    with pytest.raises(UnreadableFact) as caught:
        decode("score_submitted.1", body)
    assert caught.value.kind == "score_submitted.1"


# ------------------------------------------------------------------------- versions


class NamedTwice(Fact, frozen=True):
    """A kind in its third version: 1 had a single name, 2 split it, 3 added a title in front."""

    kind = "named.3"

    title: str
    first: str
    last: str


def split(fields: list[Any]) -> list[Any]:
    return [*fields[0].split(" ")]


CHAIN = {
    "named.1": Upcaster("named.2", split),
    "named.2": Upcaster("named.3", lambda fields: ["", *fields]),
}


@pytest.mark.parametrize(
    ("kind", "fields", "fact"),
    [
        ("named.1", ["Ada Lovelace"], NamedTwice("", "Ada", "Lovelace")),
        ("named.2", ["Ada", "Lovelace"], NamedTwice("", "Ada", "Lovelace")),
        ("named.3", ["Lady", "Ada", "Lovelace"], NamedTwice("Lady", "Ada", "Lovelace")),
    ],
)
def test_an_old_kind_is_read_as_if_it_were_new(kind: str, fields: list[str], fact: Fact) -> None:
    codec = Codec([NamedTwice], CHAIN)
    assert codec.decode(kind, msgspec.msgpack.encode(fields)) == fact
    assert codec.encode(fact)[0] == "named.3"


def test_an_old_kind_that_is_damaged_is_corrupt_too() -> None:
    codec = Codec([NamedTwice], CHAIN)
    with pytest.raises(UnreadableFact):
        codec.decode("named.1", b"\x93")
    with pytest.raises(UnreadableFact):
        codec.decode("named.2", msgspec.msgpack.encode(["Ada"]))


@pytest.mark.parametrize(
    ("upcasters", "complaint"),
    [
        ({"named.3": Upcaster("named.4", split)}, "current"),
        ({"named.1": Upcaster("named.2", split)}, "nowhere"),
        ({"named.4": Upcaster("named.3", split)}, "backwards"),
        ({"named.1": Upcaster("named.1", split)}, "backwards"),
    ],
)
def test_a_chain_of_versions_ends_at_the_current_one(
    upcasters: dict[str, Upcaster], complaint: str
) -> None:
    with pytest.raises(AssertionError, match=complaint):
        Codec([NamedTwice], upcasters)


# ------------------------------------------------------------------------------ keys


def test_a_submission_is_counted_once_by_its_own_key() -> None:
    assert FULL.identity() == Identity(FULL.board, "k")
    assert ScoreSubmitted("g", "p", (1,)).identity() is None


def test_a_window_opens_once_and_is_sealed_once() -> None:
    opened, sealed = WindowOpened("g", "daily:1"), WindowSealed("g", "daily:1", "admin", "early")
    keys = [
        opened.identity(),
        sealed.identity(),
        WindowOpened("g", "daily:2").identity(),
        WindowSealed("g", "daily:2").identity(),
    ]
    keys += [WindowDropped("g", "daily:1").identity(), WindowDropped("g", "daily:2").identity()]
    assert len(set(keys)) == 6
    assert sealed.identity() == WindowSealed("g", "daily:1").identity()


@pytest.mark.parametrize("kind", [WindowOpened, WindowSealed, WindowDropped])
def test_a_window_of_a_board_that_began_anew_is_another(kind: Callable[..., Fact]) -> None:
    assert kind("g", "daily:1", since=3).identity() != kind("g", "daily:1", since=9).identity()


def test_no_client_can_send_the_key_of_a_window() -> None:
    identity = WindowOpened("g", "daily:1").identity()
    assert identity is not None
    assert not identity.key.isprintable()


def test_what_may_be_said_again_has_no_key() -> None:
    assert FriendsSet("p", ()).identity() is None


# ----------------------------------------------------------------------- fingerprints


def test_a_fingerprint_is_the_same_in_every_version_of_the_program() -> None:
    """Stored beside keys: a change here would turn honest retries into reused keys."""
    fact = ScoreSubmitted("global", "p42", (4500,), key="m:9981")
    assert fact.fingerprint().hex() == "f79e2f6665c9f7dc8d97803198de7c71"
    assert len(fact.fingerprint()) == FINGERPRINT_BYTES


@pytest.mark.parametrize(
    "change",
    [
        {"board": "other"},
        {"player": "other"},
        {"scores": (-64,), "delta": None},
        {"delta": -65},
        {"metadata": None},
        {"metadata": b'{"a":2}'},
        {"attributes": {"region": "us", "level": 7, "vip": True}},
        {"build": "1.3"},
        {"run": None},
    ],
)
def test_another_body_has_another_fingerprint(change: dict[str, Any]) -> None:
    assert msgspec.structs.replace(FULL, **change).fingerprint() != FULL.fingerprint()


@pytest.mark.parametrize(
    "change",
    [
        {"key": "another"},
        {"actor": "another"},
        {"attributes": {"vip": True, "level": 7, "region": "eu"}},
        {"at": 1794648600000001},
        {"at": None},
    ],
)
def test_who_carried_it_when_and_under_which_key_leaves_no_print(change: dict[str, Any]) -> None:
    assert msgspec.structs.replace(FULL, **change).fingerprint() == FULL.fingerprint()


def test_a_fingerprint_from_before_is_known_still() -> None:
    """Ledgers keep some in which the client's time is a part."""
    fact = ScoreSubmitted("global", "p42", (4500,), key="m", build="1", at=5, run="r")
    kept = bytes.fromhex("6cb5c7fc55c3ffe583e09b49a9d87b0d")
    assert fact.fingerprint() != kept
    assert fact.fingerprints() == (fact.fingerprint(), kept)
    assert kept not in msgspec.structs.replace(fact, at=6).fingerprints()
    untimed = msgspec.structs.replace(fact, at=None)
    assert untimed.fingerprints() == (fact.fingerprint(),)


def test_the_fingerprint_covers_every_field_that_the_caller_sent() -> None:
    covered = set(facts._Body.__struct_fields__)
    assert covered == set(ScoreSubmitted.__struct_fields__) - {"key", "actor", "defined"}


# ------------------------------------------------------------------------------ profiles

ADA = Profile("Ada", {"level": 1}, ("bob",))


@pytest.mark.parametrize(
    ("change", "fresh", "known"),
    [
        (ProfileChange("p"), Profile(None, {}), ADA),
        (ProfileChange("p", erases=True), None, None),
        (ProfileChange("p", names=True), Profile(None, {}), ADA._replace(name=None)),
        (ProfileChange("p", name="Eve"), Profile(None, {}), ADA),
        (
            ProfileChange("p", names=True, name="Eve", attributes={}),
            Profile("Eve", {}),
            Profile("Eve", {}, ("bob",)),
        ),
        (
            ProfileChange("p", attributes={"region": "eu"}),
            Profile(None, {"region": "eu"}),
            Profile("Ada", {"region": "eu"}, ("bob",)),
        ),
        (
            ProfileChange("p", attributes={"region": "eu"}, merges=True),
            Profile(None, {"region": "eu"}),
            Profile("Ada", {"level": 1, "region": "eu"}, ("bob",)),
        ),
        (ProfileChange("p", friends=()), Profile(None, {}), Profile("Ada", {"level": 1})),
    ],
)
def test_a_change_of_a_profile_leaves_the_rest_as_it_is(
    change: ProfileChange, fresh: Profile | None, known: Profile | None
) -> None:
    assert change.applied(None) == fresh
    assert change.applied(ADA) == known
    assert change.attributes_after(ADA.attributes) == (known.attributes if known else {})
    assert Profile("Ada", {"level": 1}, ("bob",)) == ADA


def test_equal_attributes_of_text_are_one_object() -> None:
    one = shared_attributes({"region": "eu", "platform": "ios"})
    assert shared_attributes({"region": "eu", "platform": "ios"}) is one
    assert shared_attributes({"region": "us", "platform": "ios"}) != one
    merged = ProfileChange("p", attributes={"platform": "ios"}, merges=True)
    after = merged.applied(Profile("Ada", {"region": "eu", "platform": "web"}))
    assert after is not None and after.attributes is one


def test_attributes_that_are_equal_in_python_alone_are_apart() -> None:
    for values in ([True, 1], [0, False]):
        for value in values:
            found = shared_attributes({"vip": value})["vip"]
            assert (found, type(found)) == (value, type(value))
