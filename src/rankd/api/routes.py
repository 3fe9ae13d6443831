"""The table of all routes, for the router, the fast lane, the documentation and the tests."""

from rankd import schemas
from rankd.api import (
    audit,
    boards,
    clock,
    compat,
    corrections,
    health,
    keys,
    openapi,
    players,
    rank_history,
    reviews,
    rewards,
    runs,
    scores,
    standings,
    stream_routes,
    webhooks,
    windows,
)
from rankd.api.routing import NUMBERS, Param, Route
from rankd.core.distribution import BUCKETS_DEFAULT, BUCKETS_MAX
from rankd.core.rank_history import GRAIN_DEFAULT, GRAINS
from rankd.errors import (
    BoardDiffers,
    DropsScores,
    IndexBehind,
    InvalidBoard,
    InvalidCursor,
    InvalidPage,
    InvalidProfile,
    InvalidSubmission,
    NotRanked,
    Overloaded,
    PastOutOfReach,
    ScoreOutOfBounds,
    SubmissionKeyReused,
    SubmissionRejected,
    TooOld,
    UnknownBoard,
    UnknownPlayer,
    UnknownWindow,
)
from rankd.model.board import SCORE_TEXT_LENGTH_MAX
from rankd.model.facts import KINDS
from rankd.model.profile import REASON_LENGTH_MAX
from rankd.model.standing import (
    CURSOR_LENGTH_MAX,
    NEIGHBOURS_DEFAULT,
    NEIGHBOURS_MAX,
    PAGE_LIMIT_DEFAULT,
    PAGE_LIMIT_MAX,
    Absent,
)

BATCH_BYTES_MAX = 8 << 20
"""8,192 submissions of a kilobyte each."""

FACTS_LIMIT_DEFAULT = 100

_POSITION_MAX = 2**63 - 1

WHICH = (
    Param(name="window", doc="all, daily (today's), daily:2026-11-14 (a past one), daily:-1"),
    Param(name="segment", doc="an attribute and its value, as region:eu; all players if absent"),
    Param(
        name="min_position",
        kind=int,
        low=0,
        high=_POSITION_MAX,
        doc="wait, for a bounded time, until the answer is true at this position",
    ),
    NUMBERS,
)
RANKING = (UnknownBoard, UnknownWindow, IndexBehind)
"""Errors of a ranking that does not exist, or is behind ``min_position``."""

SUBMITTING = (
    UnknownBoard,
    InvalidSubmission,
    ScoreOutOfBounds,
    SubmissionRejected,
    SubmissionKeyReused,
    *runs.ERRORS,
)

BETWEEN = (
    Param(name="since", time=True, doc="recorded at this time or later, as 2026-11-14T09:30:00Z"),
    Param(name="until", time=True, doc="recorded before this time"),
)

EDITION = Param(
    name="edition",
    kind=int,
    low=1,
    high=_POSITION_MAX,
    doc="a closed window as it was before later corrections, counted from 1; the present one if "
    "absent",
)

THEN = (
    Param(
        name="as_of",
        kind=int,
        low=0,
        high=_POSITION_MAX,
        doc="the standings as they were at this position",
    ),
    Param(name="at", time=True, doc="the standings as they were at this time"),
)
BASELINE = Param(
    name="baseline",
    doc="what rank_change is against: a window (daily:-1), a duration (24h) or a position; the "
    "start of the day if absent",
)
PAST = (TooOld, PastOutOfReach, InvalidPage)
"""Errors of past standings."""

REASON = Param(name="reason", length_max=REASON_LENGTH_MAX, doc="kept in the audit trail")


def _limit(default: int, doc: str) -> Param:
    return Param(name="limit", kind=int, default=default, low=1, high=PAGE_LIMIT_MAX, doc=doc)


def _neighbours(name: str, doc: str) -> Param:
    return Param(
        name=name, kind=int, default=NEIGHBOURS_DEFAULT, low=0, high=NEIGHBOURS_MAX, doc=doc
    )


_ONE = "/v1/boards/{board}"
_PLAYER = "/v1/players/{player}"

ROUTES: tuple[Route, ...] = (
    Route(
        method="PUT",
        path=_ONE,
        operation="put_board",
        handler=boards.put_board,
        scope="admin",
        params=(
            Param(name="apply", kind=bool, default=False, doc="make the change"),
            Param(
                name="drop_scores",
                kind=bool,
                default=False,
                doc="make it also where scores cannot be ranked any more",
            ),
            Param(
                name="preview",
                choices=("rules",),
                doc="tell which past submissions the rules would have caught; change nothing",
            ),
            NUMBERS,
        ),
        body=dict,
        writes=True,
        responses={
            200: (schemas.Preview, schemas.BoardBody, schemas.RulesPreviewed),
            201: schemas.BoardBody,
            202: schemas.RunningOperation,
        },
        errors=(InvalidBoard, BoardDiffers, DropsScores),
    ),
    Route(
        method="GET",
        path="/v1/boards",
        operation="list_boards",
        handler=boards.list_boards,
        params=(NUMBERS,),
        scope="read",
        responses={200: schemas.Boards},
    ),
    Route(
        method="GET",
        path=_ONE,
        operation="get_board",
        handler=boards.get_board,
        params=(NUMBERS,),
        scope="read",
        responses={200: schemas.BoardBody},
        errors=(UnknownBoard,),
    ),
    Route(
        method="DELETE",
        path=_ONE,
        operation="retire_board",
        handler=boards.retire_board,
        scope="admin",
        params=(REASON,),
        writes=True,
        responses={200: schemas.Done},
        errors=(UnknownBoard, InvalidProfile),
    ),
    Route(
        method="POST",
        path=f"{_ONE}/scores",
        operation="submit_score",
        handler=scores.submit_score,
        plan=scores.plan_submission,
        params=(NUMBERS,),
        scope="submit",
        hot=True,
        body=dict,
        writes=True,
        responses={200: schemas.Receipt, 202: schemas.Receipt},
        errors=SUBMITTING,
    ),
    Route(
        method="POST",
        path="/v1/scores:batch",
        operation="submit_scores",
        handler=scores.submit_scores,
        params=(NUMBERS,),
        scope="submit",
        hot=True,
        body=schemas.Batch,
        body_bytes_max=BATCH_BYTES_MAX,
        writes=True,
        responses={200: schemas.Results},
    ),
    Route(
        method="GET",
        path=f"{_ONE}/standings",
        operation="list_standings",
        handler=standings.list_standings,
        quick=standings.standings_now,
        plan=standings.plan_page,
        scope="read",
        hot=True,
        params=(
            *WHICH,
            _limit(PAGE_LIMIT_DEFAULT, "how many"),
            Param(name="offset", kind=int, low=0, doc="how many to leave out; counts from 0"),
            Param(
                name="from_rank",
                kind=int,
                low=1,
                doc="the place of the first, from 1; counts every entry, also among ties",
            ),
            Param(name="cursor", length_max=CURSOR_LENGTH_MAX, doc="next_cursor or prev_cursor"),
            Param(
                name="score_min",
                length_max=SCORE_TEXT_LENGTH_MAX,
                doc="only standings whose score, in the first column, is this or more",
            ),
            Param(
                name="score_max",
                length_max=SCORE_TEXT_LENGTH_MAX,
                doc="only standings whose score, in the first column, is this or less",
            ),
            EDITION,
            *THEN,
            BASELINE,
        ),
        responses={200: schemas.Page, 304: None},
        errors=(*RANKING, *PAST, InvalidCursor),
    ),
    Route(
        method="GET",
        path=f"{_ONE}/standings/{{player}}",
        operation="get_standing",
        handler=standings.get_standing,
        quick=standings.standing_now,
        plan=standings.plan_standing,
        scope="read",
        hot=True,
        params=(*WHICH, EDITION, *THEN, BASELINE),
        responses={200: schemas.Standing},
        errors=(*RANKING, *PAST, NotRanked),
    ),
    Route(
        method="GET",
        path=f"{_ONE}/standings/{{player}}/around",
        operation="around_player",
        handler=standings.around_player,
        plan=standings.plan_around,
        scope="read",
        hot=True,
        params=(
            *WHICH,
            _neighbours("above", "how many"),
            _neighbours("below", "how many"),
            Param(
                name="absent",
                choices=tuple(Absent),
                doc="for a player without an entry, this end of the ranking instead of 404",
            ),
            *THEN,
            BASELINE,
        ),
        responses={200: schemas.Page},
        errors=(*RANKING, *PAST, NotRanked),
    ),
    Route(
        method="GET",
        path=f"{_ONE}/around/{{rank}}",
        operation="around_rank",
        handler=standings.around_rank,
        scope="read",
        hot=True,
        params=(*WHICH, _neighbours("range", "how many either side"), *THEN, BASELINE),
        responses={200: schemas.Page},
        errors=(*RANKING, *PAST),
    ),
    Route(
        method="POST",
        path=f"{_ONE}/standings:lookup",
        operation="lookup_standings",
        handler=standings.lookup_standings,
        quick=standings.lookup_now,
        scope="read",
        hot=True,
        params=(*WHICH, *THEN, BASELINE),
        body=schemas.Lookup,
        responses={200: schemas.LookupResult},
        errors=(*RANKING, *PAST),
    ),
    Route(
        method="GET",
        path=f"{_ONE}/friends/{{player}}",
        operation="list_friends",
        handler=standings.list_friends,
        scope="read",
        params=(*WHICH, *THEN, BASELINE),
        responses={200: schemas.LookupResult},
        errors=(*RANKING, *PAST),
    ),
    Route(
        method="GET",
        path=f"{_ONE}/projection",
        operation="get_projection",
        handler=standings.get_projection,
        scope="read",
        params=(
            *WHICH,
            Param(name="score", doc="which rank would it get? several columns parted by commas"),
            Param(
                name="rank",
                kind=int,
                low=1,
                doc="which score holds it? Counts every entry; the answer's rank is by the ties",
            ),
            Param(name="percentile", length_max=32, doc="which score reaches it? up to 100"),
            *THEN,
        ),
        responses={200: schemas.Projection},
        errors=(*RANKING, *PAST),
    ),
    Route(
        method="GET",
        path=f"{_ONE}/distribution",
        operation="get_distribution",
        handler=standings.get_distribution,
        scope="read",
        params=(
            *WHICH,
            Param(
                name="buckets",
                kind=int,
                default=BUCKETS_DEFAULT,
                low=1,
                high=BUCKETS_MAX,
                doc="ranges of scores in the histogram, of equal width",
            ),
            *THEN,
        ),
        responses={200: schemas.Distribution},
        errors=(*RANKING, *PAST),
    ),
    Route(
        method="GET",
        path=f"{_ONE}/windows",
        operation="list_windows",
        handler=boards.list_windows,
        scope="read",
        responses={200: schemas.Windows},
        errors=(UnknownBoard,),
    ),
    Route(
        method="GET",
        path=f"{_ONE}/history/{{player}}",
        operation="player_history",
        handler=audit.player_history,
        scope="read",
        params=(
            _limit(FACTS_LIMIT_DEFAULT, "how many"),
            Param(name="before", kind=int, low=1, doc="next_before of the page before"),
            *BETWEEN,
            NUMBERS,
        ),
        responses={200: schemas.History},
        errors=(UnknownBoard, InvalidProfile),
    ),
    Route(
        method="GET",
        path=f"{_ONE}/history/{{player}}/ranks",
        operation="player_ranks",
        handler=rank_history.player_ranks,
        scope="read",
        params=(
            WHICH[0],
            WHICH[2],
            Param(
                name="grain",
                choices=tuple(GRAINS),
                default=GRAIN_DEFAULT,
                doc="of what each point is the end, in the zone of the board",
            ),
            NUMBERS,
        ),
        responses={200: schemas.RanksOverTime},
        errors=(*RANKING, *PAST, InvalidProfile, Overloaded),
    ),
    Route(
        method="GET",
        path=f"{_PLAYER}/standings",
        operation="player_standings",
        handler=standings.player_standings,
        scope="read",
        params=(
            Param(
                name="window",
                doc="as of one board, such as daily; boards without it are left out. "
                "If absent, each board's own: all, or its first",
            ),
            WHICH[2],
            NUMBERS,
        ),
        responses={200: schemas.Everywhere},
        errors=(IndexBehind,),
    ),
    Route(
        method="PUT",
        path=_PLAYER,
        operation="put_player",
        handler=players.put_player,
        scope="submit",
        body=dict,
        writes=True,
        responses={200: schemas.Profile},
        errors=(InvalidProfile,),
    ),
    Route(
        method="PATCH",
        path=_PLAYER,
        operation="patch_player",
        handler=players.patch_player,
        scope="submit",
        body=dict,
        writes=True,
        responses={200: schemas.Profile},
        errors=(InvalidProfile,),
    ),
    Route(
        method="GET",
        path="/v1/players",
        operation="find_players",
        handler=players.find_players,
        scope="read",
        params=(
            Param(
                name="query",
                required=True,
                doc="how the name or the id begins; capitals are as small letters in names",
            ),
            _limit(PAGE_LIMIT_DEFAULT, "how many"),
            Param(name="after", doc="next_after of the page before"),
        ),
        responses={200: schemas.Players},
        errors=(InvalidPage, Overloaded),
    ),
    Route(
        method="POST",
        path="/v1/players:lookup",
        operation="lookup_players",
        handler=players.lookup_players,
        scope="read",
        body=schemas.Lookup,
        responses={200: schemas.Players},
        errors=(InvalidPage,),
    ),
    Route(
        method="GET",
        path=_PLAYER,
        operation="get_player",
        handler=players.get_player,
        scope="read",
        responses={200: schemas.Profile},
        errors=(UnknownPlayer,),
    ),
    Route(
        method="DELETE",
        path=_PLAYER,
        operation="erase_player",
        handler=players.erase_player,
        scope="moderate",
        params=(
            REASON,
            Param(name="unfriend", kind=bool, doc="whether friends of others name it no more"),
        ),
        writes=True,
        responses={200: schemas.Done},
        errors=(InvalidProfile,),
    ),
    Route(
        method="PUT",
        path=f"{_PLAYER}/friends",
        operation="put_friends",
        handler=players.put_friends,
        scope="submit",
        body=dict,
        writes=True,
        responses={200: schemas.Profile},
        errors=(InvalidProfile,),
    ),
    Route(
        method="GET",
        path="/v1/facts",
        operation="list_facts",
        handler=audit.list_facts,
        scope="admin",
        params=(
            Param(name="after", kind=int, default=0, low=0, doc="the position before the first"),
            _limit(FACTS_LIMIT_DEFAULT, "how many"),
            Param(name="kind", choices=KINDS, doc="such as score_submitted"),
            Param(name="board"),
            Param(name="player"),
            Param(name="actor", doc="the id of the key that wrote it"),
            Param(
                name="administrative",
                kind=bool,
                default=False,
                doc="leave out scores, profiles and metadata",
            ),
            *BETWEEN,
            NUMBERS,
        ),
        responses={200: schemas.Facts},
    ),
    *stream_routes.ROUTES,
    *runs.ROUTES,
    *keys.ROUTES,
    *clock.ROUTES,
    *corrections.ROUTES,
    *windows.ROUTES,
    *rewards.ROUTES,
    *webhooks.ROUTES,
    *reviews.ROUTES,
    *compat.ROUTES,
    *health.ROUTES,
    *openapi.ROUTES,
)
