"""Blocks: the bytes of facts, many at a time, and their links."""

import hashlib

import msgspec
import pytest

from rankd.adapters.sqlite.blocks import (
    BLOCK_FACTS_MAX,
    GENESIS,
    Block,
    follows,
    pick,
    seal,
    unpack,
)
from rankd.errors import LedgerCorrupt, UnknownFact
from rankd.model.facts import FACTS as KINDS
from rankd.model.facts import (
    BoardDefined,
    Codec,
    Fact,
    FriendsSet,
    Position,
    ScoreSubmitted,
    Upcaster,
    WindowSealed,
    encode,
)
from rankd.model.window import Instant

AT = Instant(1_763_000_000_000_000)
FACTS: list[Fact] = [
    ScoreSubmitted("b", "p", scores=(7,), key="k", attributes={"z": 1, "a": "x"}),
    ScoreSubmitted("b", "q", delta=-1, metadata=b"{}"),
    BoardDefined("b", {"z": 1, "a": [1, 2]}),
    FriendsSet("p", ("q", "r")),
    ScoreSubmitted("b", "p", scores=(8,)),
]


def sealed(facts: list[Fact], first: int = 1, previous: bytes = GENESIS) -> Block:
    return seal(facts, first=Position(first), at=AT, previous_link=previous)


def test_what_was_sealed_comes_back_in_its_places() -> None:
    block = sealed(FACTS, first=10)
    assert (block.first, block.last, block.at) == (10, 14, AT)
    assert unpack(block) == FACTS
    assert pick(block, [10, 12, 12, 14]) == [FACTS[0], FACTS[2], FACTS[2], FACTS[4]]


def test_a_body_in_a_block_is_the_body_of_the_fact() -> None:
    """Many facts are encoded in one go; byte for byte it is what each would be alone."""
    runs = msgspec.msgpack.decode(sealed(FACTS).facts, type=list[tuple[str, list[msgspec.Raw]]])
    found = [(kind, bytes(body)) for kind, bodies in runs for body in bodies]
    assert found == [encode(fact) for fact in FACTS]
    assert [kind for kind, _ in runs] == [
        "score_submitted.1",
        "board_defined.1",
        "friends_set.1",
        "score_submitted.1",
    ]


def test_the_bytes_of_a_block_and_its_link_never_change() -> None:
    block = sealed([WindowSealed("b", "forever"), ScoreSubmitted("b", "p", scores=(7,), key="k")])
    golden = bytes.fromhex(
        "9292af77696e646f775f7365616c65642e319197a162a7666f7265766572c0c000c0c092b173636f72655f7375"
        "626d69747465642e31919ca162a1709107c0a16bc0c0c0c0c0c0c0"
    )
    assert block.facts == golden
    place = (1).to_bytes(8, "big") + (2).to_bytes(8, "big") + AT.to_bytes(8, "big")
    assert block.link == hashlib.sha256(bytes(32) + place + golden).digest()


def test_a_block_from_before_a_field_was_added_is_read_and_holds_in_its_chain() -> None:
    facts: list[Fact] = [ScoreSubmitted("b", "p", scores=(7,), key="k")]
    older = bytes.fromhex(
        "9192b173636f72655f7375626d69747465642e31919ba162a1709107c0a16bc0c0c0c0c0c0"
    )
    place = (1).to_bytes(8, "big") * 2 + AT.to_bytes(8, "big")
    link = hashlib.sha256(GENESIS + place + older).digest()
    block = Block(Position(1), Position(1), AT, older, link)
    assert follows(block, GENESIS)
    assert unpack(block) == facts
    assert pick(block, [1]) == facts


def test_a_link_covers_all_that_the_block_says_and_the_link_before() -> None:
    block = sealed(FACTS)
    assert follows(block, GENESIS)
    assert not follows(block, b"\x01" + GENESIS[1:])
    for changed in (
        block._replace(first=Position(2)),
        block._replace(last=Position(6)),
        block._replace(at=Instant(AT + 1)),
        block._replace(facts=block.facts[:-1]),
        block._replace(link=GENESIS),
    ):
        assert not follows(changed, GENESIS)


@pytest.mark.parametrize("facts", [b"", b"\xc1", b"\x93", b"\x91\x92\xa1\xff\x90", b"\x01"])
def test_bytes_that_are_no_block_are_called_so(facts: bytes) -> None:
    with pytest.raises(LedgerCorrupt) as corrupt:
        list(unpack(sealed(FACTS)._replace(facts=facts)))
    assert corrupt.value.position == 1


def test_a_block_with_too_few_facts_is_called_so() -> None:
    with pytest.raises(LedgerCorrupt):
        list(unpack(sealed(FACTS)._replace(last=Position(6))))


def test_a_kind_from_the_future_is_named() -> None:
    block = sealed([ScoreSubmitted("b", "p", scores=(1,))])
    newer = block.facts.replace(b"score_submitted.1", b"score_submitted.9")
    with pytest.raises(UnknownFact, match=r"score_submitted\.9"):
        list(unpack(block._replace(facts=newer)))


def test_a_block_is_never_longer_than_its_bound() -> None:
    with pytest.raises(AssertionError):
        sealed([FACTS[0]] * (BLOCK_FACTS_MAX + 1))


@pytest.mark.parametrize("before", [[], [BoardDefined("b", {})]], ids=["alone", "mixed"])
def test_a_fact_that_cannot_be_read_is_named_by_its_position(before: list[Fact]) -> None:
    facts = [*before, *(ScoreSubmitted("b", f"player-{n}", scores=(n,)) for n in range(5))]
    block = sealed(facts, first=10)
    damaged = block._replace(facts=block.facts.replace(b"player-3", b"player\xff3"))
    with pytest.raises(LedgerCorrupt) as corrupt:
        unpack(damaged)
    assert corrupt.value.position == 10 + len(before) + 3


@pytest.mark.parametrize("tail", [b"", b"\xc0", b"\x81\xc0\xc0"], ids=["cut", "nil", "map"])
def test_a_list_of_submissions_that_is_none_is_called_so(tail: bytes) -> None:
    block = sealed([ScoreSubmitted("b", "p", scores=(1,))], first=10)
    start = block.facts.index(b"score_submitted.1") + len(b"score_submitted.1")
    for read in (unpack, lambda block: pick(block, [10])):
        with pytest.raises(LedgerCorrupt) as corrupt:
            read(block._replace(facts=block.facts[:start] + tail))
        assert corrupt.value.position == 10


def test_an_outlived_kind_is_read_as_the_one_that_followed_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    upcasters = {"friends_set.0": Upcaster("friends_set.1", lambda fields: [*fields, ["q"]])}
    monkeypatch.setattr("rankd.adapters.sqlite.blocks.decode", Codec(KINDS, upcasters).decode)
    runs = [("score_submitted.1", [["b", "p"]]), ("friends_set.0", [["p"], ["r"]])]
    block = sealed(FACTS[:3])._replace(facts=msgspec.msgpack.encode(runs))
    expected = [ScoreSubmitted("b", "p"), FriendsSet("p", ("q",)), FriendsSet("r", ("q",))]
    assert unpack(block) == expected
    assert pick(block, [1, 3]) == [expected[0], expected[2]]
