"""Rendering of standings, pages, projections and receipts for the wire.

A page in columns, and a receipt in columns (``core.receipts``), is rendered from them by a
template, without the objects in between, of which a receipt has several for each window.

A JavaScript number is exact up to 2**53. A client that sends ``?numbers=string``, or ``Accept:
application/json; numbers=string``, gets every score as JSON text with the same digits. A response
is rendered with numbers first and converted once, behind both lanes and every cache.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha1
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from rankd import schemas
from rankd.api.context import show_time
from rankd.api.messages import JSON, Header, Response, detail_of, wrong_fields
from rankd.api.routing import NUMBERS
from rankd.core.board_state import BoardState
from rankd.core.distribution import ScoreDistribution
from rankd.core.reader import FoundStandings, LookupColumns, Page, Projected, RankingView
from rankd.core.receipts import VERDICT_NAMES, JudgedRun, ReceiptView, RunReceipts
from rankd.core.visibility import ANONYMOUS
from rankd.core.writer import WriteResult, WriteResults
from rankd.errors import RankdError
from rankd.model.board import Board
from rankd.model.facts import Position, ScoreSubmitted
from rankd.model.receipt import InWindow, Receipt
from rankd.model.standing import Rank, Standing, TieRule, percentile, shown_score
from rankd.model.window import Instant, WindowState, show_instant
from rankd.ports import Places, Ranked, Ranking
from rankd.templates import Form, PlaceholderKind, parts_of, placeholder

BY_ACCEPT: Header = (b"vary", b"accept")
"""Sent with cacheable responses that have scores."""

SCORES = frozenset(
    (
        *("score", "raw_score", "previous_score", "new_score", "delta", "raw_delta"),
        *("columns", "previous_columns", "scores", "raw_scores"),
        *("score_min", "score_max", "gain_per_minute_max"),
        *("observed", "limit", "quantiles"),
    )
)
"""Fields that hold a score, or a list or an object of scores."""

OPAQUE = frozenset(("metadata", "attributes"))
"""Fields with arbitrary values from clients."""

BY_NAME = frozenset(("windows",))
"""Fields whose objects have names chosen by boards as keys."""

_ACCEPTED = re.compile(
    rb'application/json\s*;[^,]*\bnumbers="?string"?\s*(?:[;,]|$)', re.IGNORECASE
)

_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_items = msgspec.json.Decoder(list[Raw]).decode


def wants_text(query: Mapping[str, Any], headers: Mapping[bytes, bytes]) -> bool:
    """Whether scores are requested as text. The query takes precedence over Accept."""
    if NUMBERS.name not in query:
        return False  # The route has no scores, or the query was refused.
    asked = query[NUMBERS.name]
    if asked is not None:
        return bool(asked == "string")
    return _ACCEPTED.search(headers.get(b"accept", b"")) is not None


def text_tag(etag: bytes) -> bytes:
    """Return the ETag of a body with scores as text."""
    return etag[:-1] + b'-text"'


def with_text(response: Response) -> Response:
    """Return a response with its scores as text; a 304 and an error have none."""
    if response.content_type != JSON:
        return response
    headers = tuple(
        (name, text_tag(value) if name == b"etag" else value) for name, value in response.headers
    )
    body = convert(response.body)
    return msgspec.structs.replace(response, body=body, headers=headers)


def convert(body: bytes) -> bytes:
    """Return JSON with every score as text. All other bytes stay the same."""
    match body[:1]:
        case b"{":
            return _object({name: _field(name, value) for name, value in _fields(body).items()})
        case b"[":
            return b"[%b]" % b",".join(convert(bytes(item)) for item in _items(body))
        case _:
            return body


def _field(name: str, value: Raw) -> bytes:
    text = bytes(value)
    if name in OPAQUE:
        return text
    if name in SCORES:
        return _quote(text)
    if name in BY_NAME and text[:1] == b"{":
        return _object({each: convert(bytes(one)) for each, one in _fields(text).items()})
    return convert(text)


def _quote(text: bytes) -> bytes:
    match text[:1]:
        case b"{":
            return _object({name: _quote(bytes(value)) for name, value in _fields(text).items()})
        case b"[":
            return b"[%b]" % b",".join(_quote(bytes(item)) for item in _items(text))
        case b'"' | b"n" | b"t" | b"f":
            return text
        case _:
            return b'"%b"' % text


def _object(fields: Mapping[str, bytes]) -> bytes:
    return schemas.encode({name: Raw(value) for name, value in fields.items()})


Columns = tuple[Any, ...]
"""The columns of a template."""

FORMS_MAX = 1024
"""Cached templates: one for each ranking, or for each board and set of open windows."""

TAG_DIGITS = 24
"""Hex digits of a page's ETag: 96 bits, so that collisions are negligible."""


def row(standing: Standing, board: Board) -> schemas.Row:
    """Return a standing as a row of a list."""
    beside = standing.metadata_json
    return schemas.Row(
        standing.rank,
        standing.player or None,
        standing.name,
        shown_score(standing.scores[0], standing.decimals),
        standing.rank_change,
        None if beside is None else Raw(beside),
        standing.new or UNSET,
        columns_of(standing.scores, board, standing.decimals),
        UNSET if standing.place is None else standing.place,
        ordinal_of(standing),
        _anonymous(standing.player),
        raw_of(standing.raw, standing.decimals),
    )


def _anonymous(player: str) -> bool | UnsetType:
    return True if player == ANONYMOUS else UNSET


def raw_of(raw: int | None, decimals: int) -> schemas.Score | UnsetType:
    """Return a score as it was recorded, on boards with decay, else UNSET."""
    return UNSET if raw is None else shown_score(raw, decimals)


def server_time(at: Instant | None) -> str | UnsetType:
    """Return the time whose scores are shown, on boards with decay, else UNSET."""
    return UNSET if at is None else show_instant(at)


def ordinal_of(standing: Standing) -> int | UnsetType:
    """Return the unique place of a standing if its rank may be shared, else UNSET."""
    return UNSET if standing.ordinal is None else standing.ordinal


def columns_of(
    scores: Sequence[int], board: Board, decimals: int
) -> dict[str, schemas.Score] | UnsetType:
    """Return all columns of a score by name; UNSET if there is one."""
    if len(scores) == 1:
        return UNSET
    names = [column.name for column in board.columns]
    if len(names) != len(scores):  # A window that was closed under another definition.
        names = [f"column_{number}" for number in range(1, len(scores) + 1)]
    shown = [shown_score(score, decimals) for score in scores]
    return dict(zip(names, shown, strict=True))


def page(found: Page, board: Board, *, stale: bool = False) -> bytes:
    """Return a page as JSON."""
    return _fill_page(found, rows_of(found, board), stale or found.stale)


def page_and_tag(found: Page, board: Board, *, stale: bool = False) -> tuple[bytes, bytes]:
    """Return a page as JSON, and a hash of all of it except the position."""
    rows, stale = rows_of(found, board), stale or found.stale
    cursors, opening = (found.next_cursor, found.prev_cursor), (found.state, found.opens_at)
    rest = f"{found.ranking} {found.total} {stale} {cursors} {opening}"
    if found.in_range is not None:
        rest += f" {found.in_range}"
    if found.edition is not None:
        rest += f" edition {found.edition}"
    tag = sha1(rows + rest.encode(), usedforsecurity=False).hexdigest()[:TAG_DIGITS].encode()
    return _fill_page(found, rows, stale), tag


def _fill_page(found: Page, rows: bytes, stale: bool) -> bytes:
    counted = found.in_range is not None
    decays = found.at is not None
    form = _page_form(found.ranking, found.state, found.opens_at, counted, found.edition, decays)
    cursors = found.next_cursor, found.prev_cursor
    columns: Columns = (found.total, found.as_of, _BOOLEANS[stale], rows, *cursors)
    if found.at is not None:
        return form.fill_one((*columns, found.in_range, show_instant(found.at)))
    return form.fill_one((*columns, found.in_range) if counted else columns)


_BOOLEANS = (b"false", b"true")


@lru_cache(maxsize=FORMS_MAX)
def _page_form(
    ranking: Ranking,
    state: WindowState,
    opens_at: Instant | None,
    counted: bool,
    edition: int | None,
    decays: bool,
) -> Form:
    shape = schemas.Page(
        ranking.board,
        ranking.window,
        ranking.shown_segment,
        placeholder(PlaceholderKind.NUMBER, 0),
        placeholder(PlaceholderKind.NUMBER, 1),
        "exact",
        placeholder(PlaceholderKind.RAW, 2),
        placeholder(PlaceholderKind.RAW, 3),
        placeholder(PlaceholderKind.TEXT, 4),
        placeholder(PlaceholderKind.TEXT, 5),
        state,
        opening(opens_at),
        placeholder(PlaceholderKind.NUMBER, 6) if counted else UNSET,
        UNSET if edition is None else edition,
        placeholder(PlaceholderKind.TEXT, 7) if decays else UNSET,
    )
    return Form(parts_of(shape))


def opening(at: Instant | None) -> str | UnsetType:
    """Return the opening time of a scheduled window, else UNSET."""
    return show_time(at) or UNSET


def array_of(items: bytes) -> bytes:
    """Return a JSON array of items that are joined by commas.

    Formatting by ``%`` copies a text byte by byte: 275 us for a batch of a thousand, not 7.
    """
    return b"".join((b"[", items, b"]"))


def rows_of(found: Page, board: Board) -> bytes:
    """Return the entries of a page as JSON, the same as of ``row``."""
    order, count = found.order, len(found.players)
    whole = found.decimals == 0 and len(order.directions) == 1 and found.at is None
    if found.hides_players or not whole or not count:
        return schemas.encode(_rows(found, board))
    counted, beside = isinstance(found.ranks, range), found.metadata is not None
    ranks = found.ranks[0] if counted else found.ranks
    ordinal, place, before = None, None, found.ranks_before
    if found.ordinals is not None:
        ordinal, place = PlaceholderKind.COUNT, found.ordinals[0]
    if before is not None:
        counted, ranks = False, list(found.ranks)
    columns: Columns = (ranks, found.players, found.names, found.order_keys, found.metadata)
    columns = (*columns, None, place, *_moved(before, found.metadata))
    moved = before is not None
    form = _row_form(order.masks[0], order.key_bytes, counted, beside, False, ordinal, moved)
    return array_of(form.fill(columns, 0, count))


_NEW = b',"new":true'


def _moved(
    before: Sequence[int] | None, metadata: Sequence[bytes | None] | None
) -> tuple[Sequence[int] | None, Sequence[bytes | None] | None]:
    """Return the columns of a template that tell movement: ranks before, and metadata with new."""
    if before is None:
        return None, None
    if metadata is None:
        return list(before), [None if rank else b"null" + _NEW for rank in before]
    beside = [
        data if rank else (data or b"null") + _NEW
        for rank, data in zip(before, metadata, strict=True)
    ]
    return list(before), beside


@lru_cache(maxsize=FORMS_MAX)
def _row_form(  # noqa: PLR0913 - the fields of a row
    mask: int,
    key_bytes: int,
    counted: bool,
    beside: bool,
    placed: bool,
    ordinal: PlaceholderKind | None,
    moved: bool,
) -> Form:
    metadata = placeholder(PlaceholderKind.RAW, 4) if beside else None
    shape = schemas.Row(
        placeholder(PlaceholderKind.COUNT if counted else PlaceholderKind.NUMBER, 0),
        placeholder(PlaceholderKind.TEXT, 1),
        placeholder(PlaceholderKind.TEXT, 2),
        placeholder(PlaceholderKind.MASKED, 3, every=key_bytes, mask=mask),
        placeholder(PlaceholderKind.CHANGE, 7, other=0) if moved else None,
        placeholder(PlaceholderKind.RAW, 8) if moved else metadata,
        place=placeholder(PlaceholderKind.COUNT, 5) if placed else UNSET,
        ordinal=UNSET if ordinal is None else placeholder(ordinal, 6),
    )
    return Form(parts_of(shape))


def found_now(where: RankingView, found: LookupColumns) -> bytes | None:
    """Return looked-up players as JSON; None if a template cannot render them."""
    order = where.terms.order
    if where.terms.board.decimals or len(order.directions) > 1 or order.decays:
        return None
    players, names, (ranks, keys, beside, total, as_of), ranked, ordinals, before = found
    ordinal = None if ordinals is None else PlaceholderKind.NUMBER
    columns: Columns = (ranks, players, names, keys, beside, 1, ordinals, *_moved(before, beside))
    form = _row_form(
        order.masks[0],
        order.key_bytes,
        False,
        beside is not None,
        True,
        ordinal,
        before is not None,
    )
    missing: list[str] = []
    if len(ranked) < len(players):
        there = set(ranked)
        missing = [player for row, player in enumerate(players) if row not in there]
    rows = form.fill_rows(columns, ranked)
    return _found_form(where.ranking).fill_one(
        (total, as_of, array_of(rows), schemas.encode(missing))
    )


@lru_cache(maxsize=FORMS_MAX)
def _found_form(ranking: Ranking) -> Form:
    shape = schemas.LookupResult(
        board=ranking.board,
        window=ranking.window,
        segment=ranking.shown_segment,
        total=placeholder(PlaceholderKind.NUMBER, 0),
        as_of=placeholder(PlaceholderKind.NUMBER, 1),
        stale=False,
        standings=placeholder(PlaceholderKind.RAW, 2),
        not_found=placeholder(PlaceholderKind.RAW, 3),
    )
    return Form(parts_of(shape))


def _rows(found: Page, board: Board) -> list[schemas.Row]:
    decimals = found.decimals
    beside: Sequence[Raw | None] = [None] * len(found.players)
    if found.metadata is not None:
        beside = [None if one is None else Raw(one) for one in found.metadata]
    places: Sequence[int | UnsetType] = found.ordinals or [UNSET] * len(found.players)
    before = found.ranks_before or [-1] * len(found.players)
    scores = zip(found.scores, found.raw_scores, strict=True)
    rows = found.ranks, found.players, found.names, scores, beside, places, before
    columns = zip(*rows, strict=True)
    return [
        schemas.Row(
            rank,
            player or None,
            name,
            shown_score(scores[0], decimals),
            previous - rank if previous > 0 else None,
            under,
            True if previous == 0 else UNSET,
            columns_of(scores, board, decimals),
            UNSET,
            place,
            _anonymous(player),
            raw_of(raw, decimals),
        )
        for rank, player, name, (scores, raw), under, place, previous in columns
    ]


def one(standing: Standing, where: RankingView) -> schemas.Standing:
    """Return one player's standing."""
    ranking, beside = where.ranking, standing.metadata_json
    return schemas.Standing(
        ranking.board,
        ranking.window,
        ranking.shown_segment,
        standing.player,
        standing.name,
        standing.rank,
        shown_score(standing.scores[0], standing.decimals),
        standing.rank_change,
        standing.percentile,
        standing.total,
        None if beside is None else Raw(beside),
        standing.as_of,
        stale=standing.stale,
        columns=columns_of(standing.scores, where.terms.board, standing.decimals),
        state=where.holding(standing.total).state,
        new=standing.new or UNSET,
        ordinal=ordinal_of(standing),
        raw_score=raw_of(standing.raw, standing.decimals),
        server_time=server_time(standing.at),
    )


def ranked(  # noqa: PLR0913 - the fields of a standing
    place: Ranked,
    where: RankingView,
    player: str,
    name: str | None,
    shared: int | None,
    at: Instant | None,
    before: int | None = None,
) -> schemas.Standing:
    """Return the same as ``one``, directly from the index's result.

    ``shared`` is the rank if the board shares ranks; ``at`` the time of the score, under decay;
    ``before`` the rank at the baseline, if known.
    """
    ordinal, order_key, beside, total, as_of = place
    rank = Rank(ordinal if shared is None else shared)
    terms, ranking = where.terms, where.ranking
    board, entry = terms.board, terms.order.scores(order_key)
    scores, decimals = terms.order.shown(entry, at or 0), board.decimals
    return schemas.Standing(
        ranking.board,
        ranking.window,
        ranking.shown_segment,
        player,
        name,
        rank,
        shown_score(scores[0], decimals),
        before - rank if before else None,
        percentile(rank, total),
        total,
        None if beside is None else Raw(beside),
        as_of,
        columns=columns_of(scores, board, decimals),
        state=where.holding(total).state,
        new=True if before == 0 else UNSET,
        ordinal=UNSET if shared is None else ordinal,
        raw_score=raw_of(terms.order.recorded(entry), decimals),
        server_time=server_time(at),
    )


def each_ranked(  # noqa: PLR0913 - their columns
    places: Places,
    where: RankingView,
    players: Sequence[str],
    names: Sequence[str | None] | None,
    shared: Sequence[int] | None,
    at: Instant | None,
    before: Sequence[int] | None,
) -> list[bytes]:
    """Return ``ranked`` of each player as JSON."""
    keys = where.terms.order.parted(places.order_keys)
    nothing: Sequence[None] = [None] * len(players)
    beside, total, as_of = places.metadata or nothing, places.total, places.as_of
    found = [
        Ranked(Rank(place), key, under, total, as_of)
        for place, key, under in zip(places.ranks, keys, beside, strict=True)
    ]
    columns = found, players, names or nothing, shared or nothing, before or nothing
    return [
        schemas.encode(ranked(place, where, player, name, rank, at, previous))
        for place, player, name, rank, previous in zip(*columns, strict=True)
    ]


def standing_states(where: RankingView, before: Sequence[int]) -> list[bytes]:
    """Return the column of ``ranked_form`` with the window's state, and whether a player is new."""
    state = schemas.encode(where.state)
    both = state + _NEW, state
    return [both[rank > 0] for rank in before]


def ranked_form(where: RankingView, *, moved: bool = False) -> Form | None:
    """Return a template that renders ``ranked`` as JSON for any player of a ranking.

    Its columns are the players, their names and the fields of ``Places``, and behind them the
    shared ranks if there are any; with ``moved``, the ranks at the baseline and
    ``standing_states``. None for decimals, decay or several columns, which it cannot render.
    """
    terms, ranking = where.terms, where.ranking
    order, shared = terms.order, terms.board.ties is not TieRule.ORDINAL
    rank = 7 if shared else 2
    if terms.board.decimals or len(order.directions) > 1 or order.decays:
        return None
    shape = schemas.Standing(
        ranking.board,
        ranking.window,
        ranking.shown_segment,
        placeholder(PlaceholderKind.TEXT, 0),
        placeholder(PlaceholderKind.TEXT, 1),
        placeholder(PlaceholderKind.NUMBER, rank),
        placeholder(PlaceholderKind.MASKED, 3, every=order.key_bytes, mask=order.masks[0]),
        placeholder(PlaceholderKind.CHANGE, 8, other=rank) if moved else None,
        placeholder(PlaceholderKind.SHARE, rank, other=5),
        placeholder(PlaceholderKind.NUMBER, 5),
        placeholder(PlaceholderKind.RAW, 4),
        placeholder(PlaceholderKind.NUMBER, 6),
        state=placeholder(PlaceholderKind.RAW, 9) if moved else where.state,
        ordinal=placeholder(PlaceholderKind.NUMBER, 2) if shared else UNSET,
    )
    return Form(parts_of(shape))


def found(some: FoundStandings, board: Board) -> schemas.LookupResult:
    """Return the result of a lookup."""
    return schemas.LookupResult(
        board=some.ranking.board,
        window=some.ranking.window,
        segment=some.ranking.shown_segment,
        total=some.total,
        as_of=some.as_of,
        stale=some.stale,
        standings=[row(standing, board) for standing in some.standings],
        not_found=list(some.not_found),
        state=some.state,
        opens_at=opening(some.opens_at),
        server_time=server_time(some.at),
    )


def projection(what: Projected, board: Board) -> schemas.Projection:
    """Return a rank and the score that belongs to it."""
    rank, scores, total = what.rank, what.scores, what.total
    held = rank is not None and rank <= total
    return schemas.Projection(
        board=what.ranking.board,
        window=what.ranking.window,
        segment=what.ranking.shown_segment,
        total=total,
        as_of=what.as_of,
        stale=what.stale,
        rank=rank,
        score=None if scores is None else shown_score(scores[0], what.decimals),
        percentile=percentile(rank, total) if held and rank is not None else None,
        columns=UNSET if scores is None else columns_of(scores, board, what.decimals),
        state=what.state,
        opens_at=opening(what.opens_at),
        server_time=server_time(what.at),
    )


def distribution(found: ScoreDistribution) -> schemas.Distribution:
    """Return the distribution of the scores of a ranking."""
    scores, decimals = found.histogram, found.decimals
    return schemas.Distribution(
        board=found.ranking.board,
        window=found.ranking.window,
        segment=found.ranking.segment,
        total=found.total,
        as_of=found.as_of,
        stale=found.stale,
        score_min=None if scores is None else shown_score(scores.score_min, decimals),
        score_max=None if scores is None else shown_score(scores.score_max, decimals),
        buckets=[
            schemas.ScoreRange(
                shown_score(bucket.score_min, decimals),
                shown_score(bucket.score_max, decimals),
                bucket.players,
            )
            for bucket in ([] if scores is None else scores.buckets)
        ],
        quantiles={
            quantile: shown_score(score, decimals)
            for quantile, score in ({} if scores is None else scores.quantiles).items()
        },
        state=found.state,
        opens_at=opening(found.opens_at),
        server_time=server_time(found.at),
    )


def refusal(error: RankdError) -> schemas.Refusal:
    """Return the refusal of one submission of a batch, worded as for a single submission."""
    applied = getattr(error, "applied", "no")
    return schemas.Refusal(
        error.code, detail_of(error), applied, errors=wrong_fields(error) or UNSET
    )


# ---------------------------------------------------------------------------- receipts

SHOWN_TOGETHER = 64
"""Rows of a run rendered at once when one of them is read: the others soon will be."""


def receipt(outcome: Receipt, board: Board | None = None) -> schemas.Receipt:
    """Return a receipt for the wire; with ``board``, as defined at the time, also its columns."""
    speaks = outcome.first
    return schemas.Receipt(
        outcome.board,
        outcome.player,
        speaks.verdict,
        outcome.shown(speaks.scores),
        outcome.shown(speaks.previous_scores),
        speaks.rank,
        speaks.previous_rank,
        speaks.rank_change,
        speaks.total,
        speaks.percentile,
        outcome.position,
        {name: _in_window(outcome, each, board) for name, each in outcome.windows.items()},
        True if outcome.duplicate else UNSET,
        _columns_of(outcome, speaks, board),
        outcome.review or UNSET,
        UNSET if outcome.expires is None else show_instant(outcome.expires),
        raw_of(speaks.raw, outcome.decimals),
    )


def is_final(outcome: Receipt) -> bool:
    """Whether the verdict is final, not held for review."""
    return not outcome.reasons or outcome.verdict != "held"


def as_json(outcome: Receipt, boards: Mapping[str, BoardState]) -> bytes:
    """Return a receipt as JSON."""
    in_columns = type(outcome.windows) is ReceiptView and not outcome.reasons
    if not in_columns or outcome.decimals or outcome.duplicate:
        return schemas.encode(receipt(outcome, _board_of(outcome, boards)))
    assert isinstance(outcome.windows, ReceiptView), "its receipt is in columns"
    judged, row = outcome.windows.source
    chunk, place = divmod(row, SHOWN_TOGETHER)
    some = judged.shown.get(chunk)
    if some is None:
        start = chunk * SHOWN_TOGETHER
        end = min(start + SHOWN_TOGETHER, len(judged.run.players))
        some = judged.shown[chunk] = _form_of(judged).fill_each(_columns(judged), start, end)
    return some[place]


def all_as_json(answers: Sequence[WriteResult], boards: Mapping[str, BoardState]) -> bytes | None:
    """Return many receipts as JSON, joined by commas.

    None if one is rejected, held or a duplicate.
    """
    if isinstance(answers, WriteResults) and isinstance(answers.receipts, RunReceipts):
        return _run_as_json(answers.receipts, answers.positions)
    runs: list[bytes] = []
    start = 0
    while start < len(answers):
        receipt = answers[start].receipt
        if receipt is None or receipt.rejected or receipt.reasons or answers[start].duplicate:
            return None
        if type(receipt.windows) is not ReceiptView or receipt.decimals:
            runs.append(as_json(receipt, boards))
            start += 1
            continue
        judged, row = receipt.windows.source
        count = min(len(judged.run.players) - row, len(answers) - start)
        if not judged.all_final or not _in_a_row(answers, start, judged, row, count):
            return None
        runs.append(_form_of(judged).fill(_columns(judged), row, row + count))
        start += count
    return b",".join(runs)


def each_as_json(answers: Sequence[WriteResult]) -> list[bytes] | None:
    """Return each receipt as JSON; None unless all are new and of one run, and none is barred."""
    if not (isinstance(answers, WriteResults) and isinstance(answers.receipts, RunReceipts)):
        return None
    rows = _rows_at(answers.receipts, answers.positions)
    if rows is None:
        return None
    judged = answers.receipts.judged
    return _form_of(judged).fill_each(_columns(judged), rows.start, rows.stop)


def _run_as_json(receipts: RunReceipts, positions: Sequence[Position]) -> bytes | None:
    """Return the receipts of one run, joined by commas, without building an object for any."""
    rows = _rows_at(receipts, positions)
    if rows is None:
        return None
    return _form_of(receipts.judged).fill(_columns(receipts.judged), rows.start, rows.stop)


def _rows_at(receipts: RunReceipts, positions: Sequence[Position]) -> range | None:
    """Return the rows of a run at these positions; None if a template cannot render them."""
    judged = receipts.judged
    if not positions or not judged.all_final or judged.run.board.decimals:
        return None
    try:
        first = receipts.row_of(positions[0])
    except KeyError:
        return None
    rows = range(first, first + len(positions))
    found = judged.run.positions[rows.start : rows.stop].tolist()
    return rows if found == list(positions) else None


def _came_before(answer: WriteResult) -> bool:
    return answer.duplicate or answer.receipt is None


def _in_a_row(
    answers: Sequence[WriteResult], start: int, judged: JudgedRun, row: int, count: int
) -> bool:
    """Whether so many answers are new, and the rows of a run one after another."""
    rows = judged.run.positions[row : row + count]
    if isinstance(answers, WriteResults):
        return rows.tolist() == list(answers.positions[start : start + count])
    some = answers[start : start + count]
    if any(map(_came_before, some)):
        return False
    return rows.tolist() == [answer.position for answer in some]


# ------------------------------------------------------- templates of receipts


def _columns(judged: JudgedRun) -> tuple[Any, ...]:
    """Return a run's columns: player, position, six for each window, further scores.

    The scores of a row are adjacent, so a further column is the same array from a later start.
    """
    further = [
        verdicts.scores[column:]
        for verdicts in judged.verdicts
        for column in range(1, judged.width)
    ]
    return (*judged.columns(), *further)


def _form_of(judged: JudgedRun) -> Form:
    board = judged.run.board
    columns = tuple(column.name for column in board.columns)
    return _form(board.name, judged.names, judged.ids, judged.speaks, columns)


@lru_cache(maxsize=FORMS_MAX)
def _form(
    board: str, names: Sequence[str], ids: Sequence[str], speaks: int, columns: Sequence[str]
) -> Form:
    """Return the template of a board's receipts for one set of open windows."""
    width = len(columns)
    windows = [
        _window_form(id, place, columns, further=_places_of(len(ids)).start + place * (width - 1))
        for place, id in enumerate(ids)
    ]
    first = windows[speaks]
    _, _, before, rank, previous, total = _places_of(speaks)
    shape = schemas.Receipt(
        board,
        placeholder(PlaceholderKind.TEXT, 0),
        first.verdict,
        first.score,
        placeholder(PlaceholderKind.GUARDED, before, other=previous, every=width),
        first.rank,
        first.previous_rank,
        first.rank_change,
        first.total,
        placeholder(PlaceholderKind.SHARE, rank, other=total),
        placeholder(PlaceholderKind.NUMBER, 1),
        dict(zip(names, windows, strict=True)),
        columns=first.columns,
    )
    return Form(parts_of(shape))


def _places_of(window: int) -> range:
    """Return the column numbers of a window, in the order of ``Verdicts``."""
    return range(2 + 6 * window, 2 + 6 * (window + 1))


def _window_form(id: str, place: int, columns: Sequence[str], *, further: int) -> schemas.InWindow:
    """Return the template of one window; its further scores start at column ``further``."""
    verdict, score, _, rank, previous, total = _places_of(place)
    scores = [
        placeholder(PlaceholderKind.GUARDED, at, other=rank, every=len(columns))
        for at in (score, *range(further, further + len(columns) - 1))
    ]
    return schemas.InWindow(
        id,
        scores[0],
        placeholder(PlaceholderKind.OPTIONAL, rank),
        placeholder(PlaceholderKind.OPTIONAL, previous),
        placeholder(PlaceholderKind.CHANGE, previous, other=rank),
        placeholder(PlaceholderKind.NUMBER, total),
        placeholder(PlaceholderKind.CHOICE, verdict, texts=_VERDICTS),
        dict(zip(columns, scores, strict=True)) if len(columns) > 1 else UNSET,
    )


_VERDICTS = tuple(map(schemas.encode, VERDICT_NAMES))


# --------------------------------------------------------- receipts as objects


def _board_of(outcome: Receipt, boards: Mapping[str, BoardState]) -> Board | None:
    """Return the board as defined when the submission was judged."""
    if type(outcome.windows) is ReceiptView:
        judged, _ = outcome.windows.source
        return judged.run.board
    page = boards.get(outcome.board)
    return None if page is None else page.board_at(outcome.position)


def _columns_of(
    outcome: Receipt, each: InWindow, board: Board | None
) -> Mapping[str, schemas.Score | None] | UnsetType:
    if board is None:
        return UNSET
    if each.scores is not None:
        return columns_of(each.scores, board, outcome.decimals)
    return UNSET if board.width == 1 else dict.fromkeys(column.name for column in board.columns)


def _in_window(outcome: Receipt, each: InWindow, board: Board | None) -> schemas.InWindow:
    return schemas.InWindow(
        each.window,
        outcome.shown(each.scores),
        each.rank,
        each.previous_rank,
        each.rank_change,
        each.total,
        each.verdict,
        _columns_of(outcome, each, board),
        raw_of(each.raw, outcome.decimals),
    )


def accepted(fact: ScoreSubmitted, position: Position, *, duplicate: bool) -> schemas.Receipt:
    """Return the receipt of a recorded submission whose outcome is not known yet."""
    return schemas.Receipt(
        fact.board,
        fact.player,
        "accepted",
        None,
        None,
        None,
        None,
        None,
        None,
        None,
        position or None,
        {},
        True if duplicate else UNSET,
    )
