"""The requests of the API: each function returns a ``Call``, and sends nothing.

A submission without a key gets one here, before it is sent for the first time, so every retry has
the same key, and it counts once.
"""

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import islice
from time import time
from typing import Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from rankd import schemas
from rankd.client import serialization
from rankd.client.serialization import (
    body_of,
    encoded,
    encoded_scores,
    path_of,
    reader_of,
)
from rankd.errors import InvalidBoard, InvalidProfile, InvalidSubmission
from rankd.http_client import HttpResponse
from rankd.signatures import HEADER, SigningKey

PAGE_LIMIT_MAX = 1000
"""The longest page of the service."""

BATCH_SCORES = 1000
"""Submissions sent together: a few hundred kilobytes, answered in some ten milliseconds."""

BATCH_SCORES_MAX = 8192
"""The most submissions that the service accepts in one request."""

DEFINE_SECONDS = 600.0
"""Seconds without a byte that a definition may take: a ledger may have to be folded."""

T = TypeVar("T")
R = TypeVar("R")
P = TypeVar("P")

Score = int | str | Decimal | float
"""An accepted score: a whole number, or on boards with decimals text, a Decimal or a float. Text
and Decimals keep every digit; a float has fifteen."""

Item = tuple[str, Score] | Mapping[str, object]
"""A player with a score, or a mapping with the fields of a submission."""

Result = schemas.Receipt | schemas.Refusal
"""The result of one submission of a batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """One request, with the decoder of its response."""

    method: str
    path: str
    """Percent-encoded, with its query."""
    read: Callable[[HttpResponse], T]
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, object] = field(default_factory=dict)
    """The subject of the call, by the attributes of errors: board, player, window."""
    answers: frozenset[int] = frozenset()
    """Statuses from 300 on whose body is the result, not an error."""
    repeatable: bool = True
    """Whether a second time changes nothing, so that it may be sent again after it arrived."""
    timeouts: float = 0.0
    """Seconds without a byte to wait for, if more than the client's timeout."""

    @property
    def writes(self) -> bool:
        """Whether it may change anything."""
        return self.method != "GET" and not self.path.partition("?")[0].endswith(":lookup")


@dataclass(frozen=True, slots=True)
class PagedList(Generic[P, R]):
    """A list that is read page by page."""

    first: Call[P]
    rows: Callable[[P], Sequence[R]]
    following: Callable[[P], Call[P] | None]
    """Returns the call for the next page; None at the end."""


# --------------------------------------------------------------------- how it is written


def new_key() -> str:
    """Return a new, random submission key."""
    return uuid.uuid4().hex


RewardState = Literal["given", "claimed", "withdrawn"]

_read_done = reader_of(schemas.Done)
_read_page = reader_of(schemas.Page)
_read_found = reader_of(schemas.LookupResult)
_read_profile = reader_of(schemas.Profile)
_read_players = reader_of(schemas.Players)
_read_boards = reader_of(schemas.Boards)
_read_windows = reader_of(schemas.Windows)
_read_schedule = reader_of(schemas.WindowSchedule)
_read_certificate = reader_of(schemas.CertificateBody)
_read_rewards = reader_of(schemas.Rewards)
_read_claim = reader_of(schemas.RewardClaim)
_read_window_step = reader_of(schemas.WindowStep)
_read_standing = reader_of(schemas.Standing)
_read_projection = reader_of(schemas.Projection)
_read_distribution = reader_of(schemas.Distribution)
_read_everywhere = reader_of(schemas.Everywhere)
_read_history = reader_of(schemas.History)
_read_ranks = reader_of(schemas.RanksOverTime)
_read_facts = reader_of(schemas.Facts)
_read_key = reader_of(serialization.Key)
_read_keys = reader_of(serialization.Keys)
_read_webhook = reader_of(schemas.WebhookBody)
_read_webhooks = reader_of(schemas.Webhooks)
_read_deliveries = reader_of(schemas.Deliveries)
_read_health = reader_of(schemas.Health)
_read_clock = reader_of(schemas.ClockBody)
_read_correction = reader_of(schemas.Correction)
_read_board = reader_of(schemas.BoardBody)
_read_preview = reader_of(schemas.Preview)
_read_rules = reader_of(schemas.RulesPreviewed)
_read_receipt = reader_of(schemas.Receipt)
_read_run = reader_of(schemas.RunBody)

# ------------------------------------------------------------------------------- boards


def boards() -> Call[schemas.Boards]:
    """Return every board."""
    return Call(method="GET", path="/v1/boards", read=_read_boards)


def board(board: str) -> Call[schemas.BoardBody]:
    """Return a board: its definition, its windows, and its next reset."""
    path = path_of("/v1/boards/{}", board)
    return Call(method="GET", path=path, read=_read_board, names={"board": board})


def define(
    board: str,
    definition: Mapping[str, object] | None = None,
    *,
    apply: bool = False,
    drop_scores: bool = False,
) -> Call[schemas.BoardBody | schemas.Preview]:
    """Define a board; return it, or a preview of the changes to an existing one.

    An existing board is changed only with ``apply`` and, if scores can no longer be ranked, with
    ``drop_scores``, too. The definition must be complete: missing fields get their defaults.
    """
    return Call(
        method="PUT",
        path=path_of("/v1/boards/{}", board, apply=apply or None, drop_scores=drop_scores or None),
        body=encoded(definition or {}, InvalidBoard),
        read=_read_defined,
        names={"board": board},
        timeouts=DEFINE_SECONDS,
    )


def preview_rules(board: str, definition: Mapping[str, object]) -> Call[schemas.RulesPreviewed]:
    """Return the past submissions that the rules of a definition would have caught."""
    return Call(
        method="PUT",
        path=path_of("/v1/boards/{}", board, preview="rules"),
        body=encoded(definition, InvalidBoard),
        read=_read_rules,
        names={"board": board},
        timeouts=DEFINE_SECONDS,
    )


def _read_defined(answer: HttpResponse) -> schemas.BoardBody | schemas.Preview:
    fields = msgspec.json.decode(answer.body, type=dict[str, msgspec.Raw])
    return _read_preview(answer) if "changes" in fields else _read_board(answer)


def retire(board: str, *, reason: str | None = None) -> Call[schemas.Done]:
    """Take a board out of use. Its facts stay in the ledger."""
    path = path_of("/v1/boards/{}", board, reason=reason)
    # A repetition would be refused though the first had succeeded.
    return Call(
        method="DELETE", path=path, read=_read_done, names={"board": board}, repeatable=False
    )


def windows(board: str) -> Call[schemas.Windows]:
    """Return a board's windows, newest first: scheduled, open and sealed."""
    path = path_of("/v1/boards/{}/windows", board)
    return Call(method="GET", path=path, read=_read_windows, names={"board": board})


def schedule(board: str, *, next: int | None = None) -> Call[schemas.WindowSchedule]:
    """Return the coming openings and closings of a board's windows, the earliest first."""
    path = path_of("/v1/boards/{}/schedule", board, next=next)
    return Call(method="GET", path=path, read=_read_schedule, names={"board": board})


def reset_window(board: str, window: str, *, reason: str) -> Call[schemas.WindowStep]:
    """Close a window now, and open the next one at the same position."""
    return _window_step("/v1/boards/{}:reset", board, window, reason)


def freeze_window(board: str, window: str, *, reason: str) -> Call[schemas.WindowStep]:
    """Let a window take no more scores until its time is over."""
    return _window_step("/v1/boards/{}:freeze", board, window, reason)


def settle_window(board: str, window: str, *, reason: str) -> Call[schemas.WindowStep]:
    """Declare the standings of a window final, sealing it first if need be."""
    return _window_step("/v1/boards/{}:settle", board, window, reason)


def certificate(board: str, window: str) -> Call[schemas.CertificateBody]:
    """Return the certificate of a settled window."""
    path = path_of("/v1/boards/{}/windows/{}/certificate", board, window)
    return Call(method="GET", path=path, read=_read_certificate, names={"board": board})


def rewards(
    board: str,
    window: str,
    *,
    player: str | None = None,
    state: RewardState | None = None,
    cursor: str | None = None,
    limit: int | None = None,
) -> Call[schemas.Rewards]:
    """Return the rewards of a settled window, band by band, the best first."""
    path = path_of(
        "/v1/boards/{}/windows/{}/rewards",
        board,
        window,
        player=player,
        state=state,
        cursor=cursor,
        limit=limit,
    )
    return Call(method="GET", path=path, read=_read_rewards, names={"board": board})


def walk_rewards(
    board: str,
    window: str,
    *,
    state: RewardState | None = None,
    limit: int = PAGE_LIMIT_MAX,
) -> PagedList[schemas.Rewards, schemas.Reward]:
    """Yield all rewards of a settled window."""

    def from_there(cursor: str | None) -> Call[schemas.Rewards]:
        return rewards(board, window, state=state, cursor=cursor, limit=limit)

    def following(found: schemas.Rewards) -> Call[schemas.Rewards] | None:
        return None if found.next_cursor is None else from_there(found.next_cursor)

    return PagedList(from_there(None), lambda found: found.rewards, following)


def claim_reward(board: str, window: str, id: str) -> Call[schemas.RewardClaim]:
    """Claim a reward of a settled window. A second time nothing changes."""
    path = path_of("/v1/boards/{}/windows/{}/rewards/{}:claim", board, window, id)
    return Call(method="POST", path=path, read=_read_claim, names={"board": board})


def _window_step(path: str, board: str, window: str, reason: str) -> Call[schemas.WindowStep]:
    return Call(
        method="POST",
        path=path_of(path, board),
        body=body_of(window=window, reason=reason),
        read=_read_window_step,
        names={"board": board},
        timeouts=DEFINE_SECONDS,
    )


# ------------------------------------------------------------------------------- scores


def submit(  # noqa: PLR0913 - the fields of a submission
    board: str,
    player: str,
    score: Score | None = None,
    *,
    delta: Score | None = None,
    key: str | None = None,
    columns: Mapping[str, Score] | None = None,
    metadata: object = None,
    attributes: Mapping[str, str | int | bool] | None = None,
    build: str | None = None,
    at: str | None = None,
    run: str | None = None,
    lives: str | None = None,
    signing: SigningKey | None = None,
) -> Call[schemas.Receipt]:
    """Submit a score and return its receipt.

    On return it is on stable storage. It counts once, however often it was sent: without a ``key``
    it gets a random one. With ``lives``, such as ``24h``, it counts for so
    long. With ``signing`` the request is signed.
    """
    key = new_key() if key is None else key
    body = body_of(
        InvalidSubmission,
        player=player,
        score=score,
        delta=delta,
        key=key,
        columns=columns,
        metadata=metadata,
        attributes=attributes,
        build=build,
        at=at,
        run=run,
        lives=lives,
    )
    path = path_of("/v1/boards/{}/scores", board)
    return Call(
        method="POST",
        path=path,
        body=body,
        headers=_signed(signing, path, body),
        read=_read_receipt,
        names={"board": board, "player": player, "key": key},
    )


def _signed(signing: SigningKey | None, path: str, body: bytes) -> dict[str, str]:
    """Return the header that signs a request, once for all its retries."""
    if signing is None:
        return {}
    return {HEADER: signing.header("POST", path, body, time=int(time()))}


def start_run(board: str, player: str) -> Call[schemas.RunBody]:
    """Start a run: return a token that one submission of this player may use within its time."""
    return Call(
        method="POST",
        path=path_of("/v1/boards/{}/runs", board),
        body=body_of(player=player),
        read=_read_run,
        names={"board": board, "player": player},
    )


def submit_batch(
    items: Iterable[Item], *, board: str | None = None, signing: SigningKey | None = None
) -> Call[list[Result]]:
    """Submit up to BATCH_SCORES_MAX scores in one commit; return their receipts or refusals."""
    return _batch(items, board, signing=signing)


def _batch(
    items: Iterable[Item],
    board: str | None,
    *,
    first: int = 0,
    signing: SigningKey | None = None,
) -> Call[list[Result]]:
    path = "/v1/scores:batch"
    body = encoded_scores([_submission(item, board) for item in items], first=first)
    return Call(
        method="POST",
        path=path,
        body=body,
        headers=_signed(signing, path, body),
        read=_read_results,
        names={"board": board} if board else {},
    )


def batches(
    items: Iterable[Item], *, board: str | None = None, batch: int = BATCH_SCORES
) -> Iterator[Call[list[Result]]]:
    """Yield the calls that submit any number of scores, ``batch`` at a time."""
    if not 1 <= batch <= BATCH_SCORES_MAX:
        raise ValueError(f"batch must lie between 1 and {BATCH_SCORES_MAX}")
    if isinstance(items, Sequence):
        _look_through(items, batch)
    left, first = iter(items), 0
    while some := list(islice(left, batch)):
        yield _batch(some, board, first=first)
        first += len(some)


def _look_through(items: Sequence[Item], batch: int) -> None:
    """Refuse the whole list if any value cannot be sent, before the first batch is.

    Otherwise the corrected list could not be sent again: part of it would count twice.
    """
    for first in range(0, len(items), batch):
        some = items[first : first + batch]
        encoded_scores([_said(item) for item in some], first=first)


def _said(item: Item) -> dict[str, object]:
    if isinstance(item, tuple):
        item = dict(zip(("player", "score"), item, strict=True))
    return {name: value for name, value in item.items() if value is not None}


def _submission(item: Item, board: str | None) -> dict[str, object]:
    made: dict[str, object] = {} if board is None else {"board": board}
    made |= _said(item)
    if "key" not in made:
        made["key"] = new_key()
    return made


class _Results(msgspec.Struct):
    results: list[msgspec.Raw]


_decode_results = msgspec.json.Decoder(_Results).decode
_decode_receipt = msgspec.json.Decoder(schemas.Receipt).decode
_decode_refusal = msgspec.json.Decoder(schemas.Refusal).decode


def _read_results(answer: HttpResponse) -> list[Result]:
    return [_read_result(raw) for raw in _decode_results(answer.body).results]


def _read_result(raw: msgspec.Raw) -> Result:
    try:
        return _decode_receipt(raw)
    except msgspec.ValidationError:
        return _decode_refusal(raw)


# ---------------------------------------------------------------------------- standings


def top(  # noqa: PLR0913 - which ranking, and when
    board: str,
    count: int = 10,
    *,
    window: str | None = None,
    segment: str | None = None,
    min_position: int | None = None,
    as_of: int | None = None,
    at: str | None = None,
    baseline: int | str | None = None,
) -> Call[schemas.Page]:
    """Return the best standings, also as they were at a position or a time."""
    return page(
        board,
        limit=count,
        window=window,
        segment=segment,
        min_position=min_position,
        as_of=as_of,
        at=at,
        baseline=baseline,
    )


def page(  # noqa: PLR0913 - which part of which ranking
    board: str,
    *,
    limit: int | None = None,
    offset: int | None = None,
    from_rank: int | None = None,
    cursor: str | None = None,
    score_min: Score | None = None,
    score_max: Score | None = None,
    window: str | None = None,
    segment: str | None = None,
    edition: int | None = None,
    min_position: int | None = None,
    as_of: int | None = None,
    at: str | None = None,
    baseline: int | str | None = None,
) -> Call[schemas.Page]:
    """Return a page that begins at a rank, an offset or a cursor.

    With ``score_min`` or ``score_max``, both inclusive, it is one of the entries whose first column
    lies between them; its ``count`` tells how many these are. ``edition`` names an earlier edition
    of a closed window, counted from 1; ``as_of`` and ``at`` name a past position or time.
    """
    path = path_of(
        "/v1/boards/{}/standings",
        board,
        limit=limit,
        offset=offset,
        from_rank=from_rank,
        cursor=cursor,
        score_min=score_min,
        score_max=score_max,
        window=window,
        segment=segment,
        edition=edition,
        min_position=min_position,
        as_of=as_of,
        at=at,
        baseline=baseline,
    )
    return Call(method="GET", path=path, read=_read_page, names={"board": board, "window": window})


def poll(
    board: str,
    *,
    etag: str | None = None,
    limit: int | None = None,
    window: str | None = None,
    segment: str | None = None,
) -> Call[serialization.PolledPage]:
    """Return the best standings, or no page if they have not changed since ``etag``."""
    path = path_of("/v1/boards/{}/standings", board, limit=limit, window=window, segment=segment)
    headers = {} if etag is None else {"if-none-match": etag}
    names = {"board": board, "window": window}
    return Call(method="GET", path=path, read=_read_polled, headers=headers, names=names)


def _read_polled(answer: HttpResponse) -> serialization.PolledPage:
    found = None if answer.status == 304 else _read_page(answer)
    return serialization.PolledPage(found, answer.headers.get("etag"))


def standing(  # noqa: PLR0913 - which ranking, and when
    board: str,
    player: str,
    *,
    window: str | None = None,
    segment: str | None = None,
    edition: int | None = None,
    min_position: int | None = None,
    as_of: int | None = None,
    at: str | None = None,
    baseline: int | str | None = None,
) -> Call[schemas.Standing]:
    """Return a player's standing, also in an earlier ``edition`` of a closed window.

    Raises NotRanked.
    """
    path = path_of(
        "/v1/boards/{}/standings/{}",
        board,
        player,
        window=window,
        segment=segment,
        edition=edition,
        min_position=min_position,
        as_of=as_of,
        at=at,
        baseline=baseline,
    )
    names = {"board": board, "player": player, "window": window}
    return Call(method="GET", path=path, read=_read_standing, names=names)


def around(  # noqa: PLR0913 - which part of which ranking
    board: str,
    player: str,
    *,
    above: int | None = None,
    below: int | None = None,
    absent: str | None = None,
    window: str | None = None,
    segment: str | None = None,
    min_position: int | None = None,
    as_of: int | None = None,
    at: str | None = None,
    baseline: int | str | None = None,
) -> Call[schemas.Page]:
    """Return a player's neighbourhood, filled up at the edges.

    A player without an entry raises NotRanked or, with ``absent`` ``top`` or ``bottom``, gets the
    neighbourhood of the first or the last one.
    """
    path = path_of(
        "/v1/boards/{}/standings/{}/around",
        board,
        player,
        above=above,
        below=below,
        absent=absent,
        window=window,
        segment=segment,
        min_position=min_position,
        as_of=as_of,
        at=at,
        baseline=baseline,
    )
    names = {"board": board, "player": player, "window": window}
    return Call(method="GET", path=path, read=_read_page, names=names)


def around_rank(  # noqa: PLR0913 - which ranking, and when
    board: str,
    rank: int,
    *,
    reach: int | None = None,
    window: str | None = None,
    segment: str | None = None,
    min_position: int | None = None,
    as_of: int | None = None,
    at: str | None = None,
    baseline: int | str | None = None,
) -> Call[schemas.Page]:
    """Return the standings from ``rank - reach`` to ``rank + reach``."""
    path = path_of(
        "/v1/boards/{}/around/{}",
        board,
        rank,
        range=reach,
        window=window,
        segment=segment,
        min_position=min_position,
        as_of=as_of,
        at=at,
        baseline=baseline,
    )
    return Call(method="GET", path=path, read=_read_page, names={"board": board, "window": window})


def lookup(  # noqa: PLR0913 - which ranking, and when
    board: str,
    players: Sequence[str],
    *,
    window: str | None = None,
    segment: str | None = None,
    min_position: int | None = None,
    as_of: int | None = None,
    at: str | None = None,
    baseline: int | str | None = None,
) -> Call[schemas.LookupResult]:
    """Return some players' standings, ranked among themselves, and the players without one."""
    path = path_of(
        "/v1/boards/{}/standings:lookup",
        board,
        window=window,
        segment=segment,
        min_position=min_position,
        as_of=as_of,
        at=at,
        baseline=baseline,
    )
    body = body_of(players=list(players))
    names = {"board": board, "window": window}
    return Call(method="POST", path=path, body=body, read=_read_found, names=names)


def friends(  # noqa: PLR0913 - which ranking, and when
    board: str,
    player: str,
    *,
    window: str | None = None,
    segment: str | None = None,
    min_position: int | None = None,
    as_of: int | None = None,
    at: str | None = None,
    baseline: int | str | None = None,
) -> Call[schemas.LookupResult]:
    """Return a player and its friends, ranked among themselves."""
    path = path_of(
        "/v1/boards/{}/friends/{}",
        board,
        player,
        window=window,
        segment=segment,
        min_position=min_position,
        as_of=as_of,
        at=at,
        baseline=baseline,
    )
    names = {"board": board, "player": player, "window": window}
    return Call(method="GET", path=path, read=_read_found, names=names)


def projection(  # noqa: PLR0913 - three kinds of query
    board: str,
    *,
    score: Score | Sequence[Score] | None = None,
    rank: int | None = None,
    percentile: float | None = None,
    window: str | None = None,
    segment: str | None = None,
    min_position: int | None = None,
    as_of: int | None = None,
    at: str | None = None,
) -> Call[schemas.Projection]:
    """Return the rank a score would get, or the score that a rank or a percentile needs.

    Several columns are given as a sequence.
    """
    if isinstance(score, list | tuple):
        score = ",".join(map(str, score))
    path = path_of(
        "/v1/boards/{}/projection",
        board,
        score=score,
        rank=rank,
        percentile=percentile,
        window=window,
        segment=segment,
        min_position=min_position,
        as_of=as_of,
        at=at,
    )
    names = {"board": board, "window": window}
    return Call(method="GET", path=path, read=_read_projection, names=names)


def distribution(  # noqa: PLR0913 - which ranking, and when
    board: str,
    *,
    buckets: int | None = None,
    window: str | None = None,
    segment: str | None = None,
    min_position: int | None = None,
    as_of: int | None = None,
    at: str | None = None,
) -> Call[schemas.Distribution]:
    """Return the scores of a ranking as a histogram with counts and quantiles."""
    path = path_of(
        "/v1/boards/{}/distribution",
        board,
        buckets=buckets,
        window=window,
        segment=segment,
        min_position=min_position,
        as_of=as_of,
        at=at,
    )
    names = {"board": board, "window": window}
    return Call(method="GET", path=path, read=_read_distribution, names=names)


def standings(
    player: str, *, window: str | None = None, min_position: int | None = None
) -> Call[schemas.Everywhere]:
    """Return a player's standings on every board, or on those that have the window."""
    path = path_of("/v1/players/{}/standings", player, window=window, min_position=min_position)
    return Call(method="GET", path=path, read=_read_everywhere, names={"player": player})


def walk(
    board: str,
    *,
    window: str | None = None,
    segment: str | None = None,
    score_min: Score | None = None,
    score_max: Score | None = None,
    limit: int = PAGE_LIMIT_MAX,
) -> PagedList[schemas.Page, schemas.Row]:
    """Yield every standing of a ranking or of a range of scores, best first.

    They are read ``limit`` at a time. A player that does not move meanwhile is returned exactly
    once.
    """
    which = {"limit": limit, "segment": segment, "score_min": score_min, "score_max": score_max}

    def following(found: schemas.Page) -> Call[schemas.Page] | None:
        if found.next_cursor is None:
            return None
        # By its id, so that the walk stays in its window when it rolls over.
        return page(board, cursor=found.next_cursor, window=found.window, **which)  # type: ignore[arg-type]

    first = page(board, window=window, **which)  # type: ignore[arg-type]
    return PagedList(first, lambda found: found.standings, following)


# ------------------------------------------------------------------------ the audit trail


def history(
    board: str,
    player: str,
    *,
    limit: int | None = None,
    before: int | None = None,
    since: str | None = None,
    until: str | None = None,
) -> Call[schemas.History]:
    """Return a player's submissions to a board, newest first.

    ``since`` (inclusive) and ``until`` (exclusive) are RFC 3339 times of recording.
    """
    path = path_of(
        "/v1/boards/{}/history/{}",
        board,
        player,
        limit=limit,
        before=before,
        since=since,
        until=until,
    )
    names = {"board": board, "player": player}
    return Call(method="GET", path=path, read=_read_history, names=names)


def rank_history(
    board: str,
    player: str,
    *,
    window: str | None = None,
    grain: str | None = None,
    min_position: int | None = None,
) -> Call[schemas.RanksOverTime]:
    """Return a player's rank over time, oldest first: at the end of each ``day``, and now.

    ``grain`` may also be ``hour`` or ``week``.
    """
    path = path_of(
        "/v1/boards/{}/history/{}/ranks",
        board,
        player,
        window=window,
        grain=grain,
        min_position=min_position,
    )
    names = {"board": board, "player": player, "window": window}
    return Call(method="GET", path=path, read=_read_ranks, names=names)


def walk_history(
    board: str,
    player: str,
    *,
    limit: int = PAGE_LIMIT_MAX,
    since: str | None = None,
    until: str | None = None,
) -> PagedList[schemas.History, schemas.HistoryItem]:
    """Yield all of a player's submissions to a board, newest first."""

    def from_there(before: int | None) -> Call[schemas.History]:
        return history(board, player, limit=limit, before=before, since=since, until=until)

    def following(found: schemas.History) -> Call[schemas.History] | None:
        return None if found.next_before is None else from_there(found.next_before)

    return PagedList(from_there(None), lambda found: found.facts, following)


def facts(  # noqa: PLR0913 - the filters of facts
    *,
    after: int | None = None,
    limit: int | None = None,
    kind: str | None = None,
    board: str | None = None,
    player: str | None = None,
    actor: str | None = None,
    administrative: bool | None = None,
    since: str | None = None,
    until: str | None = None,
) -> Call[schemas.Facts]:
    """Return the audit trail from a position on.

    ``since`` (inclusive) and ``until`` (exclusive) are RFC 3339 times of recording.
    ``administrative`` leaves out scores, profiles and metadata.
    """
    path = path_of(
        "/v1/facts",
        after=after,
        limit=limit,
        kind=kind,
        board=board,
        player=player,
        actor=actor,
        administrative=administrative,
        since=since,
        until=until,
    )
    return Call(method="GET", path=path, read=_read_facts)


def walk_facts(  # noqa: PLR0913 - the filters of facts
    *,
    after: int = 0,
    limit: int = PAGE_LIMIT_MAX,
    kind: str | None = None,
    board: str | None = None,
    player: str | None = None,
    actor: str | None = None,
    administrative: bool | None = None,
    since: str | None = None,
    until: str | None = None,
) -> PagedList[schemas.Facts, schemas.FactItem]:
    """Yield the audit trail from a position on, to its end."""

    def from_there(position: int) -> Call[schemas.Facts]:
        return facts(
            after=position,
            limit=limit,
            kind=kind,
            board=board,
            player=player,
            actor=actor,
            administrative=administrative,
            since=since,
            until=until,
        )

    def following(found: schemas.Facts) -> Call[schemas.Facts] | None:
        return None if found.next_after is None else from_there(found.next_after)

    return PagedList(from_there(after), lambda found: found.facts, following)


# ------------------------------------------------------------------------------ players


def profile(player: str) -> Call[schemas.Profile]:
    """Return a player's profile."""
    path = path_of("/v1/players/{}", player)
    return Call(method="GET", path=path, read=_read_profile, names={"player": player})


def set_profile(
    player: str,
    *,
    name: str | UnsetType | None = UNSET,
    attributes: Mapping[str, str | int | bool] | UnsetType | None = UNSET,
    friends: Sequence[str] | UnsetType | None = UNSET,
    visibility: schemas.Visibility | UnsetType | None = UNSET,
) -> Call[schemas.Profile]:
    """Set a player's name, attributes, friends or visibility.

    An argument that is not given changes nothing; None deletes the value. Attributes and friends
    are replaced as a whole; ``merge_profile`` changes single attributes.
    """
    given = {"name": name, "attributes": attributes, "friends": friends, "visibility": visibility}
    return _profiled("PUT", player, given)


def merge_profile(
    player: str,
    *,
    name: str | UnsetType | None = UNSET,
    attributes: Mapping[str, str | int | bool | None] | UnsetType | None = UNSET,
    friends: Sequence[str] | UnsetType | None = UNSET,
    visibility: schemas.Visibility | UnsetType | None = UNSET,
) -> Call[schemas.Profile]:
    """Set a player's name, friends or visibility, and change single attributes; the others stay.

    An attribute that is None is deleted.
    """
    given = {"name": name, "attributes": attributes, "friends": friends, "visibility": visibility}
    return _profiled("PATCH", player, given)


def _profiled(method: str, player: str, given: Mapping[str, object]) -> Call[schemas.Profile]:
    said = {field: value for field, value in given.items() if value is not UNSET}
    return Call(
        method=method,
        path=path_of("/v1/players/{}", player),
        body=encoded(said, InvalidProfile),
        read=_read_profile,
        names={"player": player},
    )


def players(
    query: str, *, limit: int | None = None, after: str | None = None
) -> Call[schemas.Players]:
    """Return players whose name or id begins with ``query``, ordered by id."""
    path = path_of("/v1/players", query=query, limit=limit, after=after)
    return Call(method="GET", path=path, read=_read_players)


def walk_players(
    query: str, *, limit: int = PAGE_LIMIT_MAX
) -> PagedList[schemas.Players, schemas.PlayerItem]:
    """Yield every player whose name or id begins with ``query``, ordered by id."""

    def following(found: schemas.Players) -> Call[schemas.Players] | None:
        after = found.next_after
        return None if after is None else players(query, limit=limit, after=after)

    return PagedList(players(query, limit=limit), lambda found: found.players, following)


def lookup_players(players: Sequence[str]) -> Call[schemas.Players]:
    """Return the names and attributes of up to 1,000 players, in the given order."""
    body = body_of(players=list(players))
    return Call(method="POST", path="/v1/players:lookup", body=body, read=_read_players)


def set_friends(player: str, friends: Sequence[str]) -> Call[schemas.Profile]:
    """Replace a player's friends."""
    return Call(
        method="PUT",
        path=path_of("/v1/players/{}/friends", player),
        body=body_of(friends=list(friends)),
        read=_read_profile,
        names={"player": player},
    )


def erase(
    player: str, *, reason: str | None = None, unfriend: bool | None = None
) -> Call[schemas.Done]:
    """Erase a player's data, from the ledger too; its entries keep their ranks, without a name.

    With ``unfriend`` other players' lists of friends name it no more.
    """
    path = path_of("/v1/players/{}", player, reason=reason, unfriend=unfriend)
    return Call(method="DELETE", path=path, read=_read_done, names={"player": player})


# -------------------------------------------------------------------- keys and operations


def create_key(
    scopes: Sequence[str] = (),
    *,
    boards: Sequence[str] | None = None,
    title: str | None = None,
    expires: str | None = None,
    signing: str | None = None,
    public_key: str | None = None,
) -> Call[serialization.Key]:
    """Create a key. Only this response contains the secret.

    ``expires`` is a duration (``90d``), a date or a time; without it the key never expires. A key
    with ``signing``, ``hmac`` or ``ed25519``, has no scopes and signs submissions.
    """
    body = body_of(
        scopes=list(scopes) or None,
        boards=None if boards is None else list(boards),
        title=title,
        expires=expires,
        signing=signing,
        public_key=public_key,
    )
    # A repetition would create a second key.
    return Call(method="POST", path="/v1/keys", body=body, read=_read_key, repeatable=False)


def keys() -> Call[serialization.Keys]:
    """Return all keys, without their secrets."""
    return Call(method="GET", path="/v1/keys", read=_read_keys)


def revoke_key(id: str) -> Call[schemas.Done]:
    """Revoke a key."""
    return Call(
        method="DELETE",
        path=path_of("/v1/keys/{}", id),
        read=_read_done,
        names={"id": id},
        repeatable=False,
    )


def put_webhook(
    name: str, url: str, events: Sequence[str], *, boards: Sequence[str] | None = None
) -> Call[schemas.WebhookBody]:
    """Post events of boards to an address from now on; all boards if none are named.

    Only the response that creates a webhook has its ``secret``.
    """
    body = body_of(url=url, events=list(events), boards=None if boards is None else list(boards))
    path = path_of("/v1/webhooks/{}", name)
    # A repetition would not be answered the secret.
    names = {"name": name}
    return Call(
        method="PUT", path=path, body=body, read=_read_webhook, names=names, repeatable=False
    )


def webhooks() -> Call[schemas.Webhooks]:
    """Return all webhooks, without their secrets."""
    return Call(method="GET", path="/v1/webhooks", read=_read_webhooks)


def webhook(name: str) -> Call[schemas.WebhookBody]:
    """Return a webhook, without its secret."""
    path = path_of("/v1/webhooks/{}", name)
    return Call(method="GET", path=path, read=_read_webhook, names={"name": name})


def delete_webhook(name: str) -> Call[schemas.Done]:
    """Remove a webhook."""
    path, names = path_of("/v1/webhooks/{}", name), {"name": name}
    return Call(method="DELETE", path=path, read=_read_done, names=names, repeatable=False)


def deliveries(name: str) -> Call[schemas.Deliveries]:
    """Return the last deliveries of a webhook by the node that answers, newest first."""
    path = path_of("/v1/webhooks/{}/deliveries", name)
    return Call(method="GET", path=path, read=_read_deliveries, names={"name": name})


def replay_webhook(name: str, position: int) -> Call[schemas.Done]:
    """Deliver the events from a position on again."""
    path, body = path_of("/v1/webhooks/{}:replay", name), body_of(**{"from": position})
    return Call(method="POST", path=path, body=body, read=_read_done, names={"name": name})


def clock() -> Call[schemas.ClockBody]:
    """Return ledger time, the machine's clock, and a step that is not accepted yet."""
    return Call(method="GET", path="/v1/clock", read=_read_clock)


def confirm_clock() -> Call[schemas.ClockBody]:
    """Accept a step of the clock now instead of after it has lasted."""
    return Call(method="POST", path="/v1/clock:confirm", read=_read_clock)


def correct_clock(
    *,
    first: int | None = None,
    ahead_seconds: float | None = None,
    reason: str | None = None,
    dry_run: bool = False,
) -> Call[schemas.Correction]:
    """Undo the effects of a wrong time on windows, from a position on.

    Without ``first``, from the first fact that is later than the clock.
    """
    body = body_of(first=first, ahead_seconds=ahead_seconds, reason=reason, dry_run=dry_run)
    return Call(method="POST", path="/v1/clock:correct", body=body, read=_read_correction)


def health() -> Call[schemas.Health]:
    """Return the health of a service that answers, with its position."""
    return Call(method="GET", path="/healthz", read=_read_health)


def ready() -> Call[schemas.Health]:
    """Return the health of a service that accepts requests. Raises Unavailable otherwise."""
    return Call(method="GET", path="/readyz", read=_read_health)


def status() -> Call[schemas.Health]:
    """Return whether the service accepts requests and, if it answers that it does not, why."""
    return Call(method="GET", path="/readyz", read=_read_health, answers=frozenset({503}))
