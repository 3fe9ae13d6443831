"""The tables of the archive, as Arrow schemas, and their columns made of facts and standings.

Scores are exact decimals of one type for all boards, so that files of a board whose decimals were
raised agree with each other and with those of other boards.
"""

import json
from array import array
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import chain
from typing import Any, NamedTuple

import pyarrow as pa
from msgspec import json as text_of
from msgspec import to_builtins

from rankd.core.reader import Page
from rankd.model.board import DECIMALS_MAX
from rankd.model.facts import Attributes, Recorded, ScoreSubmitted, encode
from rankd.model.receipt import InWindow, Receipt
from rankd.model.window import Instant

SCORE = pa.decimal128(19 + DECIMALS_MAX, DECIMALS_MAX)
"""Every score of every board: nineteen digits before the point, and the most decimals behind it."""

TIME = pa.timestamp("us", tz="UTC")
TEXTS = pa.map_(pa.string(), pa.string())

OUTCOME = pa.struct(
    [
        ("name", pa.string()),
        ("window_id", pa.string()),
        ("verdict", pa.string()),
        ("score", SCORE),
        ("rank", pa.int64()),
        ("previous_rank", pa.int64()),
        ("total", pa.int64()),
    ]
)

FACTS = pa.schema(
    [
        ("position", pa.int64()),
        ("recorded_at", TIME),
        ("day", pa.date32()),
        ("board", pa.string()),
        ("player", pa.string()),
        ("kind", pa.string()),
        ("fact", pa.string()),
        ("body", pa.binary()),
    ]
)
"""Every fact: as JSON and, where no field is secret, as the bytes that the ledger has."""

SUBMISSIONS = pa.schema(
    [
        ("position", pa.int64()),
        ("recorded_at", TIME),
        ("day", pa.date32()),
        ("board", pa.string()),
        ("player", pa.string()),
        ("verdict", pa.string()),
        ("code", pa.string()),
        ("submitted", SCORE),
        ("delta", SCORE),
        ("score", SCORE),
        ("previous_score", SCORE),
        ("rank", pa.int64()),
        ("previous_rank", pa.int64()),
        ("total", pa.int64()),
        ("window_id", pa.string()),
        ("outcomes", pa.list_(OUTCOME)),
        ("columns", pa.list_(SCORE)),
        ("region", pa.string()),
        ("attributes", TEXTS),
        ("key", pa.string()),
        ("build", pa.string()),
        ("run", pa.string()),
        ("actor", pa.string()),
        ("client_at", TIME),
        ("metadata", pa.string()),
        ("adjustment", pa.bool_()),
        ("direction", pa.string()),
    ]
)
"""Every submission and adjustment, with its verdict and ranks at that time: in the window that
speaks for the board, and in each of ``outcomes``."""

STANDINGS = pa.schema(
    [
        ("board", pa.string()),
        ("window_id", pa.string()),
        ("edition", pa.int32()),
        ("recorded_at", TIME),
        ("day", pa.date32()),
        ("as_of", pa.int64()),
        ("place", pa.int64()),
        ("rank", pa.int64()),
        ("player", pa.string()),
        ("name", pa.string()),
        ("score", SCORE),
        ("columns", pa.list_(SCORE)),
        ("total", pa.int64()),
        ("metadata", pa.string()),
    ]
)
"""The standings of each closed window, when it was sealed and after each correction of it."""

TABLES: Mapping[str, pa.Schema] = {
    "facts": FACTS,
    "submissions": SUBMISSIONS,
    "standings": STANDINGS,
}

_EPOCH = date(1970, 1, 1)
_DAY = 86_400_000_000


def day_of(at: Instant) -> date:
    """Return the day of a moment, in UTC."""
    return _EPOCH + timedelta(days=at // _DAY)


def facts_table(facts: Sequence[Recorded]) -> pa.Table:
    """Return facts as rows of ``facts``."""
    encoded = [encode(recorded.fact) for recorded in facts]
    return pa.table(
        [
            [recorded.position for recorded in facts],
            pa.array([recorded.at for recorded in facts], pa.int64()).cast(TIME),
            [day_of(recorded.at) for recorded in facts],
            [getattr(recorded.fact, "board", None) for recorded in facts],
            [getattr(recorded.fact, "player", None) for recorded in facts],
            [kind for kind, _ in encoded],
            [_json_of(recorded) for recorded in facts],
            [
                None if recorded.fact.hidden else body
                for recorded, (_, body) in zip(facts, encoded, strict=True)
            ],
        ],
        schema=FACTS,
    )


def _json_of(recorded: Recorded) -> str:
    """Return the fields of a fact that are set, by their names; without secrets."""
    fact = recorded.fact
    names = [name for name in fact.__struct_fields__ if name not in fact.hidden]
    fields = {name: getattr(fact, name) for name in names}
    said = {name: _plain(value) for name, value in fields.items() if value is not None}
    return text_of.encode(to_builtins(said, builtin_types=(bytes,))).decode()


def _plain(value: object) -> object:
    if not isinstance(value, bytes):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value.hex()


class Outcome(NamedTuple):
    """A submission with the outcome that the fold gave it."""

    recorded: Recorded
    fact: ScoreSubmitted
    receipt: Receipt | None
    """None if its board was retired before its turn."""
    attributes: Attributes
    decimals: int
    """Of the board, where there is no receipt to tell them."""
    direction: str
    """``higher`` or ``lower``: the better scores of the board."""

    @property
    def scale(self) -> int:
        """The decimals of its scores."""
        return self.decimals if self.receipt is None else self.receipt.decimals


def submissions_table(outcomes: Sequence[Outcome]) -> pa.Table:
    """Return submissions to one board as rows of ``submissions``."""
    facts = [outcome.fact for outcome in outcomes]
    firsts = [None if one.receipt is None else one.receipt.first for one in outcomes]
    scales = [outcome.scale for outcome in outcomes]
    at = [outcome.recorded.at for outcome in outcomes]
    columns: dict[str, Any] = {
        "position": [outcome.recorded.position for outcome in outcomes],
        "recorded_at": pa.array(at, pa.int64()).cast(TIME),
        "day": [day_of(each) for each in at],
        "board": [fact.board for fact in facts],
        "player": [fact.player for fact in facts],
        "verdict": [verdict or "rejected" for verdict in _each(firsts, "verdict")],
        "code": _each(firsts, "code"),
        "submitted": _decimals([_first(fact.scores) for fact in facts], scales),
        "delta": _decimals([fact.delta for fact in facts], scales),
        "score": _decimals([_first(scores) for scores in _each(firsts, "scores")], scales),
        "previous_score": _decimals(
            [_first(scores) for scores in _each(firsts, "previous_scores")], scales
        ),
        "rank": _each(firsts, "rank"),
        "previous_rank": _each(firsts, "previous_rank"),
        "total": _each(firsts, "total"),
        "window_id": [(one and one.window) or None for one in firsts],
        "outcomes": _outcomes(outcomes),
        "columns": _lists(_each(firsts, "scores"), scales),
        "region": [_text(outcome.attributes.get("region")) for outcome in outcomes],
        "attributes": _maps([outcome.attributes for outcome in outcomes]),
        "key": [fact.key for fact in facts],
        "build": [fact.build for fact in facts],
        "run": [fact.run for fact in facts],
        "actor": [fact.actor for fact in facts],
        "client_at": pa.array([fact.at for fact in facts], pa.int64()).cast(TIME),
        "metadata": [fact.metadata and fact.metadata.decode() for fact in facts],
        "adjustment": [fact.correction for fact in facts],
        "direction": [outcome.direction for outcome in outcomes],
    }
    return pa.table([columns[name] for name in SUBMISSIONS.names], schema=SUBMISSIONS)


def _each(rows: Sequence[InWindow | None], field: str) -> list[Any]:
    """Return a field of each row that is there, None for the others."""
    return [None if row is None else getattr(row, field) for row in rows]


def _first(scores: tuple[int, ...] | None) -> int | None:
    return scores[0] if scores else None


def _outcomes(outcomes: Sequence[Outcome]) -> pa.Array:
    """Return the outcomes in all windows, a list for each submission."""
    windows = [{} if one.receipt is None else one.receipt.windows for one in outcomes]
    each = [(name, found) for some in windows for name, found in some.items()]
    scales = [one.scale for one, some in zip(outcomes, windows, strict=True) for _ in some]
    fields = [
        pa.array([name for name, _ in each], pa.string()),
        pa.array([found.window for _, found in each], pa.string()),
        pa.array([found.verdict for _, found in each], pa.string()),
        _decimals([_first(found.scores) for _, found in each], scales),
        pa.array([found.rank for _, found in each], pa.int64()),
        pa.array([found.previous_rank for _, found in each], pa.int64()),
        pa.array([found.total for _, found in each], pa.int64()),
    ]
    structs = pa.StructArray.from_arrays(fields, fields=list(OUTCOME))
    return pa.ListArray.from_arrays(_offsets(windows), structs)


def _lists(rows: Sequence[tuple[int, ...] | None], scales: Sequence[int]) -> pa.Array:
    """Return the scores of all columns, a list for each row."""
    lists = [row or () for row in rows]
    each = [scale for row, scale in zip(lists, scales, strict=True) for _ in row]
    return pa.ListArray.from_arrays(_offsets(lists), _decimals([*chain(*lists)], each))


def _maps(rows: Sequence[Attributes]) -> pa.Array:
    return pa.array([[(name, _text(value)) for name, value in row.items()] for row in rows], TEXTS)


def _offsets(rows: Iterable[Any]) -> pa.Array:
    offsets = [0]
    for row in rows:
        offsets.append(offsets[-1] + len(row))
    return pa.array(offsets, pa.int32())


def _text(value: object) -> str | None:
    """Return an attribute's value as segments are named: true, and not True."""
    return value if isinstance(value, str) or value is None else json.dumps(value)


def _decimals(units: Sequence[int | None], scales: Sequence[int]) -> pa.Array:
    """Return scores in smallest units as decimals; a board's decimals mostly stay the same."""
    if len(set(scales)) <= 1:
        return _scaled(units, scales[0] if scales else 0)
    parts = [_scaled([unit], scale) for unit, scale in zip(units, scales, strict=True)]
    return pa.concat_arrays(parts)


def _scaled(units: Sequence[int | None], decimals: int) -> pa.Array:
    """Return 64-bit numbers as decimals: their 128 bits are put together without an object each."""
    values = [unit or 0 for unit in units]
    words = array("q", chain.from_iterable((value, value >> 63) for value in values))
    exact = pa.decimal128(19, decimals)
    mask = pa.array([unit is not None for unit in units], pa.bool_()).buffers()[1]
    found = pa.Array.from_buffers(exact, len(values), [mask, pa.py_buffer(words)])
    return found.cast(SCORE)


class StandingsOf(NamedTuple):
    """The closed window that some standings belong to."""

    board: str
    window: str
    edition: int
    at: Instant


def standings_table(of: StandingsOf, page: Page) -> pa.Table:
    """Return a page of a closed window as rows of ``standings``."""
    rows = len(page.players)
    places = page.ranks if page.ordinals is None else page.ordinals
    metadata = [None] * rows if page.metadata is None else page.metadata
    scores, scales = page.scores, [page.decimals] * rows
    moment = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=of.at)
    columns: dict[str, Any] = {
        "board": [of.board] * rows,
        "window_id": [of.window] * rows,
        "edition": [of.edition] * rows,
        "recorded_at": [moment] * rows,
        "day": [day_of(of.at)] * rows,
        "as_of": [page.as_of] * rows,
        "place": list(places),
        "rank": list(page.ranks),
        "player": list(page.players),
        "name": list(page.names),
        "score": _decimals([_first(one) for one in scores], scales),
        "columns": _lists(scores, scales),
        "total": [page.total] * rows,
        "metadata": [one and one.decode() for one in metadata],
    }
    return pa.table([columns[name] for name in STANDINGS.names], schema=STANDINGS)
