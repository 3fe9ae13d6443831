"""The promise that personal data leaves a ledger, and that any other change is found.

A part of ``LedgerContract``.
"""

from collections.abc import Sequence

import pytest

from rankd.errors import RankdError
from rankd.model.facts import (
    Fact,
    FactsRedacted,
    FriendsSet,
    MetadataSet,
    NameSet,
    PlayerErased,
    PlayerProfiled,
    Position,
    RedactedPart,
    ScoreSubmitted,
)
from rankd.model.window import Instant
from rankd.ports import Ledger

NOW = Instant(1_763_000_000_000_000)


def personal_facts() -> list[Fact]:
    """Return facts of two players, of which Ann's have data of hers."""
    return [
        PlayerProfiled("ann", "Ann Secret", {"town": "Secretville"}),
        ScoreSubmitted("b", "bob", (5,), metadata=b'{"is":"bob"}', attributes={"town": "Rome"}),
        ScoreSubmitted(
            "b",
            "ann",
            (7,),
            key="k",
            metadata=b'{"note":"Secret ' + b"x" * 300 + b'"}',
            attributes={"town": "Secretville", "age": 44},
            build="1.2",
            at=NOW,
            run="r",
            actor="server",
        ),
        FriendsSet("ann", ("bob", "Secret friend")),
        NameSet("ann", "Another Secret"),
        MetadataSet("b", "ann", b'{"Secret":1}'),
        ScoreSubmitted("b", "ann", delta=3, attributes={}),
    ]


async def redact(
    ledger: Ledger, positions: Sequence[Position], *, through: Position, complete: bool = True
) -> tuple[RedactedPart, ...]:
    """Redact Ann's facts at some positions."""
    parts = await ledger.redacted_parts(positions, player="ann", through=through)
    await ledger.append([FactsRedacted("ann", through, parts, complete)], now=NOW)
    return parts


class RedactionContract:
    """Facts without personal data, in the place of those with it."""

    async def test_redacted_facts_have_no_personal_data(self, ledger: Ledger) -> None:
        facts = personal_facts()
        await ledger.append(facts[:2], now=NOW)
        await ledger.append(facts[2:], now=NOW)
        links = [await ledger.link_at(Position(2)), await ledger.link_at(Position(7))]
        await ledger.append([PlayerErased("ann")], now=NOW)
        await redact(ledger, [Position(1), Position(3), Position(6)], through=Position(8))
        found = [one.fact for one in await ledger.read(after=Position(0), limit=100)][:7]
        expected = [one.redacted() if one.is_about("ann") else one for one in facts]
        assert found == expected
        assert "Secret" not in repr(found)
        assert "Rome" in repr(found), "of another player"
        assert [await ledger.link_at(Position(2)), await ledger.link_at(Position(7))] == links
        of_ann = await ledger.facts_of(board=None, player="ann", before=None, limit=100)
        assert [one.position for one in of_ann] == [9, 8, 7, 6, 5, 4, 3, 1]
        assert [one async for one in ledger.verify()]

    async def test_facts_after_the_erasure_stay_as_they_are(self, ledger: Ledger) -> None:
        again = NameSet("ann", "Ann Again")
        await ledger.append([NameSet("ann", "Ann"), PlayerErased("ann"), again], now=NOW)
        await redact(ledger, [Position(1)], through=Position(2))
        found = await ledger.read(after=Position(0), limit=3)
        assert [one.fact for one in found] == [NameSet("ann"), PlayerErased("ann"), again]
        assert [one async for one in ledger.verify()]

    async def test_a_key_keeps_its_place_when_its_fact_is_redacted(self, ledger: Ledger) -> None:
        first = ScoreSubmitted("b", "ann", (7,), key="k", metadata=b'"Secret"')
        await ledger.append([first, PlayerErased("ann")], now=NOW)
        await redact(ledger, [Position(1)], through=Position(2))
        use = await ledger.first_use(board="b", key="k")
        assert use is not None
        assert (use.position, use.fingerprint) == (1, first.redacted().fingerprint())
        again = await ledger.append([first], now=NOW)
        assert again.first_uses[0].fingerprint == first.redacted().fingerprint()
        assert [one async for one in ledger.verify()]

    async def test_one_part_is_redacted_for_one_player_after_another(self, ledger: Ledger) -> None:
        facts = [NameSet("ann", "Ann"), NameSet("bob", "Bob"), NameSet("cyd", "Cyd")]
        await ledger.append([*facts, PlayerErased("ann")], now=NOW)
        await redact(ledger, [Position(1)], through=Position(4))
        await ledger.append([PlayerErased("bob")], now=NOW)
        parts = await ledger.redacted_parts([Position(2)], player="bob", through=Position(6))
        await ledger.append([FactsRedacted("bob", Position(6), parts, complete=True)], now=NOW)
        found = await ledger.read(after=Position(0), limit=3)
        assert [one.fact for one in found] == [NameSet("ann"), NameSet("bob"), facts[2]]
        assert [one async for one in ledger.verify()]

    async def test_parts_that_were_changed_meanwhile_are_not_redacted(self, ledger: Ledger) -> None:
        if not ledger.durable:
            return  # In memory nothing can come between.
        await ledger.append([NameSet("ann", "Ann"), PlayerErased("ann")], now=NOW)
        parts = await ledger.redacted_parts([Position(1)], player="ann", through=Position(2))
        wrong = (RedactedPart(parts[0].last, parts[0].link, bytes(32)),)
        with pytest.raises(RankdError) as refused:
            await ledger.append([FactsRedacted("ann", Position(2), wrong, complete=True)], now=NOW)
        assert getattr(refused.value, "applied", None) == "no"
        assert await ledger.head() == 2
        assert (await ledger.read(after=Position(0), limit=1))[0].fact == NameSet("ann", "Ann")
