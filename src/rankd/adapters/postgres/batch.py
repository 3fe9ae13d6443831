"""Arguments of an append to the server, and its reply.

Facts are sent as columns, one array each. Of several facts with one key only the first is sent, and
the others get its result.
"""

import os
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from rankd.adapters.postgres.rows import (
    SCORE_RANGE,
    change_text,
    checksum,
    digest,
    is_plain,
    row_of,
    without_nul,
)
from rankd.model.facts import Fact, Position, ScoreSubmitted, encode
from rankd.model.window import Instant
from rankd.ports import Appended, FirstUse, StoredReceipt

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def as_time(at: Instant) -> datetime:
    """Return an instant as the driver takes it."""
    return _EPOCH + timedelta(microseconds=at)


def as_instant(at: datetime) -> Instant:
    """Return a time of the driver as an instant, exactly."""
    return Instant((at - _EPOCH) // _MICROSECOND)


def append_id() -> UUID:
    """Return a unique id for an append. Later ids sort after earlier ones, for the index."""
    return UUID(bytes=(time.time_ns() // 1_000_000).to_bytes(6, "big") + os.urandom(10))


class AppendBatch(NamedTuple):
    """Facts of one append, and the columns that are sent."""

    facts: Sequence[Fact]
    """All facts of the append, those not sent included."""
    repeats: Mapping[int, int]
    """Index of each fact whose key came before in the same append, with the index of the first fact
    that has the key. These facts are not sent."""
    columns: Sequence[Any]
    """Arguments of ``rankd.append_facts``, from the digest to the changes of players."""
    boards: Sequence[str | None] | None
    keys: Sequence[str | None] | None


def prepared(facts: Sequence[Fact]) -> AppendBatch:
    """Encode facts for an append. Raises UnicodeError for text that PostgreSQL cannot store."""
    names = [fact.identity() for fact in facts]
    repeats = _repeats(names)
    sent = [fact for place, fact in enumerate(facts) if place not in repeats] if repeats else facts
    encoded = [encode(fact) for fact in sent]
    kinds, bodies = [kind for kind, _ in encoded], [body for _, body in encoded]
    keys, fingerprints = None, None
    if any(name is not None for name in names):
        kept = [name for place, name in enumerate(names) if place not in repeats]
        keys = [None if name is None else name[1] for name in kept]
        fingerprints = [
            None if name is None else fact.fingerprint()
            for name, fact in zip(kept, sent, strict=True)
        ]
    readable = _readable(sent)
    changes = [change_text(fact.profile_change()) for fact in sent]
    columns = (
        digest(kinds, bodies),
        kinds,
        bodies,
        readable.boards,
        readable.players,
        without_nul(keys) if keys else None,
        fingerprints,
        readable.scores,
        readable.deltas,
        readable.windows,
        readable.actors,
        readable.details,
        _unless_empty(changes),
    )
    return AppendBatch(facts, repeats, columns, readable.boards, keys)


def _repeats(names: Sequence[tuple[str, str] | None]) -> dict[int, int]:
    first: dict[tuple[str, str], int] = {}
    repeats: dict[int, int] = {}
    for place, name in enumerate(names):
        if name is not None and first.setdefault(name, place) != place:
            repeats[place] = first[name]
    return repeats


class _OptionalColumns(NamedTuple):
    """Readable columns; an optional one is None if all of its values are."""

    boards: Sequence[str | None]
    players: Sequence[str | None]
    scores: Sequence[str | None]
    deltas: Sequence[int | None] | None
    windows: Sequence[str | None] | None
    actors: Sequence[str | None] | None
    details: Sequence[str | None] | None


def _readable(facts: Sequence[Fact]) -> _OptionalColumns:
    if all(map(is_plain, facts)):
        return _plain(facts)  # type: ignore[arg-type]
    rows = [row_of(fact) for fact in facts]
    return _OptionalColumns(
        without_nul([row.board for row in rows]),
        without_nul([row.player for row in rows]),
        [_array(row.scores) for row in rows],
        _unless_empty([_in_range(row.delta) for row in rows]),
        _unless_empty(without_nul([row.window for row in rows])),
        _unless_empty(without_nul([row.actor for row in rows])),
        _unless_empty([row.details for row in rows]),
    )


def _plain(facts: Sequence[ScoreSubmitted]) -> _OptionalColumns:
    """Return the same columns faster, for plain submissions, which nearly all facts are."""
    return _OptionalColumns(
        without_nul([fact.board for fact in facts]),
        without_nul([fact.player for fact in facts]),
        [_array(fact.scores) for fact in facts],
        _unless_empty([_in_range(fact.delta) for fact in facts]),
        None,
        _unless_empty(without_nul([fact.actor for fact in facts])),
        None,
    )


def _array(scores: tuple[int, ...] | None) -> str | None:
    """Format an array as a PostgreSQL literal: rows of an array of arrays must have one length."""
    if scores is None:
        return None
    if len(scores) == 1:  # The usual case.
        assert scores[0] in SCORE_RANGE, "a score has 64 bits"
        return f"{{{scores[0]}}}"
    assert all(score in SCORE_RANGE for score in scores), "a score has 64 bits"
    return f"{{{','.join(map(str, scores))}}}"


def _in_range(delta: int | None) -> int | None:
    assert delta is None or delta in SCORE_RANGE, "a delta has 64 bits"
    return delta


def _unless_empty(column: Sequence[Any]) -> Sequence[Any] | None:
    return None if column.count(None) == len(column) else column


def receipt_columns(receipts: Sequence[StoredReceipt]) -> Sequence[Any]:
    """Return receipts as the last arguments of ``rankd.append_facts``."""
    if not receipts:
        return None, None, None
    return (
        [kept.position for kept in receipts],
        [kept.receipt for kept in receipts],
        [checksum(kept.position, kept.receipt) for kept in receipts],
    )


# ------------------------------------------------------------------------------- answer


class _AppendResult(msgspec.Struct):
    """Reply of ``rankd.append_facts`` and ``rankd.settle``."""

    first: Position
    last: Position
    at: Instant
    link: bytes
    uses: list[tuple[int, Position, bytes, bytes | None]]
    """For each sent fact whose key was used before: its index, and the position, fingerprint and
    receipt of the first use."""


_answer = msgspec.json.Decoder(_AppendResult).decode


def appended(batch: AppendBatch, told: str) -> Appended:
    """Return the result of an append from the server's reply."""
    answer = _answer(told)
    if not answer.uses and not batch.repeats:
        positions: Sequence[Position] = range(answer.first, answer.last + 1)  # type: ignore[assignment]
        assert len(positions) == len(batch.facts), "each fact has a position"
        return Appended(positions, {}, answer.at, answer.link)
    return _with_care(batch, answer)


def _with_care(batch: AppendBatch, answer: _AppendResult) -> Appended:
    uses = {
        place: FirstUse(position, fingerprint, receipt)
        for place, position, fingerprint, receipt in answer.uses
    }
    positions: list[Position] = []
    first_uses: dict[int, FirstUse] = {}
    sent, fresh = 0, answer.first
    for place in range(len(batch.facts)):
        before = batch.repeats.get(place)
        if before is not None:
            use = first_uses.get(before) or _in_this_append(batch, before, positions[before])
        else:
            found = uses.get(sent)
            sent += 1
            if found is None:
                positions.append(fresh)
                fresh = Position(fresh + 1)
                continue
            use = found
        first_uses[place] = use
        positions.append(use.position)
    assert fresh == answer.last + 1, "each fresh fact has a position"
    return Appended(positions, first_uses, answer.at, answer.link)


def _in_this_append(batch: AppendBatch, place: int, position: Position) -> FirstUse:
    return FirstUse(position, batch.facts[place].fingerprint(), None)
