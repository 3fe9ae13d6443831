"""Handlers of the audit trail: a player's history, and all facts."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import islice, takewhile
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec import Raw

from rankd import schemas
from rankd.api.auth import Actor
from rankd.api.context import ServiceContext, show_time
from rankd.api.messages import Request, Response
from rankd.api.render import columns_of
from rankd.core.board_state import BoardState
from rankd.core.state import State
from rankd.model.board import Board
from rankd.model.facts import (
    FEW,
    Fact,
    Position,
    Recorded,
    ScoreSubmitted,
    is_submission,
    right_time,
)
from rankd.model.profile import check_player
from rankd.model.standing import shown_score
from rankd.model.window import Instant

SCANNED_FACTS_MAX = 65_536
"""Facts read for one response; the next page of rare facts may need several calls."""

READ_FACTS = 8_192
"""Facts read at once."""

Wanted = Callable[[Fact], bool]
"""Whether a fact is asked for."""


class ReadAfter(Protocol):
    """Reads facts of a ledger, oldest first."""

    def __call__(self, *, after: Position) -> Awaitable[Sequence[Recorded]]:
        """Return the next facts."""


async def player_history(service: ServiceContext, request: Request) -> Response:
    """Return a player's submissions to a board, newest first.

    Those of a player that is not ranked there are shown to itself and to moderators.
    """
    board, player = request.params["board"], check_player(request.params["player"])
    actor = service.auth.admit(request, "read", board)
    page = service.rankd.state.page(board)
    shown = shows_history(service, request, actor, board, player)
    before, limit = request.query["before"], request.query["limit"]
    as_of = service.rankd.position  # The ledger grows while it is read.
    earlier, last = await _between(service, request.query, as_of)
    # Submissions to an earlier, retired board of this name do not belong to this one.
    first = Position(max(page.since, earlier + 1))
    end = Position(last + 1 if before is None else min(before, last + 1))
    found: list[schemas.HistoryItem] = []
    scanned = 0
    end = end if shown else first
    while end > first and len(found) < limit and scanned < SCANNED_FACTS_MAX:
        wanted = limit - len(found)
        facts = await service.ledger.facts_of(
            board=board, player=player, after=Position(first - 1), before=end, limit=wanted
        )
        scanned += len(facts)
        items = (history_item(service, page, recorded) for recorded in facts)
        found += [item for item in items if item is not None]
        end = facts[-1].position if len(facts) == wanted else first
    body = schemas.History(
        board=board,
        player=player,
        facts=found,
        next_before=end if end > first else None,
        as_of=as_of,
        stale=service.rankd.stale,
    )
    return Response(schemas.encode(body))


def shows_history(
    service: ServiceContext, request: Request, actor: Actor, board: str, player: str
) -> bool:
    """Whether an actor may see a player's submissions to a board."""
    viewer = service.viewer(actor)
    if viewer is not None and viewer.hides(player):
        return False
    if player == actor.player or service.rankd.state.player_state(player, board) is None:
        return True
    return service.auth.admission(request, "moderate", board) is not None


async def _between(
    service: ServiceContext, query: Mapping[str, Any], through: Position
) -> tuple[Position, Position]:
    """Return the last position before ``since``, and the last one before ``until``."""
    since, until = query["since"], query["until"]
    earlier = Position(0) if since is None else await _last_before(service, since, through)
    return earlier, through if until is None else await _last_before(service, until, through)


async def _last_before(service: ServiceContext, time: Instant, through: Position) -> Position:
    """Return the last position whose fact was recorded before a time; 0 if none was.

    A binary search of some thirty reads: facts are in the order of their right times.
    """
    ledger, wrong_times = service.ledger, service.rankd.state.wrong_times
    low, high = Position(0), through
    while low < high:
        middle = Position((low + high + 1) // 2)
        facts = await ledger.read(after=Position(middle - 1), limit=1)
        if facts and facts[0].position <= high and right_time(facts[0], wrong_times) < time:
            low = facts[0].position
        else:
            high = Position(middle - 1)
    return low


def _terms(page: BoardState | None, position: Position, fact: ScoreSubmitted) -> Board | None:
    """Return the definition that a submission was read under.

    None if the board was retired since, because its definition is no longer in the state.
    """
    since = fact.defined or position
    return None if page is None or since < page.since else page.board_at(since)


def history_item(
    service: ServiceContext, page: BoardState, recorded: Recorded
) -> schemas.HistoryItem | None:
    """Return a submission at its right time; None if it does not belong to the board of today."""
    fact = recorded.fact
    if not is_submission(fact):
        return None
    terms = _terms(page, recorded.position, fact)
    if terms is None:
        return None
    at = right_time(recorded, service.rankd.state.wrong_times)
    item = _item(Recorded(recorded.position, at, fact), fact, terms)
    item.status = _status(service.rankd.state, recorded, fact.board)
    return item


def _status(state: State, recorded: Recorded, board: str) -> schemas.SubmissionStatus:
    """Return whether rules, reviews or corrections leave a submission out."""
    position, reviews = recorded.position, state.reviews
    if position in state.refused:
        return "refused"
    if reviews.is_out(position):
        return "held" if position not in reviews.decisions else "rejected"
    retractions = (
        one
        for one in state.retractions.values()
        if one.in_force and one.fact.board in (None, board) and position < one.position
    )
    if any(one.fact.selects(recorded) for one in retractions):
        return "retracted"
    return "recorded"


def _item(recorded: Recorded, fact: ScoreSubmitted, board: Board) -> schemas.HistoryItem:
    """Return a submission, with scores by the board's definition at that time."""
    scores, decimals = fact.scores, board.decimals
    columns = None if scores is None else columns_of(scores, board, decimals)
    return schemas.HistoryItem(
        recorded.position,
        show_time(recorded.at) or "",
        fact.kind.partition(".")[0],
        None if scores is None else shown_score(scores[0], decimals),
        None if fact.delta is None else shown_score(fact.delta, decimals),
        columns if isinstance(columns, dict) else None,
        fact.key,
        fact.build,
        None if fact.metadata is None else Raw(fact.metadata),
        show_time(fact.at),
    )


async def list_facts(service: ServiceContext, request: Request) -> Response:
    """Return the audit trail from a position on."""
    service.auth.admit(request, "admin")
    query, limit = request.query, request.query["limit"]
    as_of = service.rankd.position  # The ledger may be further, and grows while it is read.
    earlier, last = await _between(service, query, as_of)
    span = LedgerSpan(service, Position(max(query["after"], earlier)), last)
    wanted = partial(_wanted, query=query)
    if _is_indexed(query):
        found, following = await span.indexed(
            wanted,
            limit,
            kinds=None if query["kind"] is None else {query["kind"]},
            boards=None if query["board"] is None else {query["board"]},
            actor=query["actor"],
        )
    elif query["player"] is None:
        found, following = await span.scanned(wanted, limit)
    else:
        of_player = partial(
            service.ledger.facts_of,
            board=query["board"],
            player=query["player"],
            before=Position(last + 1),
            limit=limit,
            newest_first=False,
        )
        found, following = await span.scanned(wanted, limit, read=of_player)
    body = schemas.Facts(
        facts=[_shown(recorded, service.rankd.state) for recorded in found],
        next_after=following,
        as_of=as_of,
        stale=service.rankd.stale,
    )
    return Response(schemas.encode(body))


def _is_indexed(query: Mapping[str, Any]) -> bool:
    """Whether the index has all facts that are asked for. A player's own are found without it."""
    return query["player"] is None and (query["administrative"] or query["kind"] in FEW)


FactsPage = tuple[Sequence[Recorded], Position | None]
"""Facts, and the position from which on there may be more; None if there are none."""


class LedgerSpan(NamedTuple):
    """The facts between two positions, of which a page is read."""

    service: ServiceContext
    after: Position
    last: Position

    async def indexed(self, wanted: Wanted, limit: int, **names: Any) -> FactsPage:
        """Return the facts with these names in the index, as ``AuditIndex.find`` takes them.

        Before the index begins the ledger is scanned, up to there.
        """
        index = self.service.rankd.state.audit
        if self.after < index.since and self.after < self.last:
            before = self._replace(last=min(index.since, self.last))
            found, following = await before.scanned(wanted, limit)
            if following is not None or index.since >= self.last:
                return found, following
            if len(found) == limit:
                return found, index.since
            later = self._replace(after=index.since)
            more, following = await later.indexed(wanted, limit - len(found), **names)
            return [*found, *more], following
        positions = index.find(after=self.after, **names)
        several = list(islice(takewhile(lambda one: one <= self.last, positions), limit + 1))
        facts = await self.service.ledger.read_at(several[:limit]) if several else ()
        following = several[limit - 1] if len(several) > limit else None
        return [recorded for recorded in facts if wanted(recorded.fact)], following

    async def scanned(self, wanted: Wanted, limit: int, read: ReadAfter | None = None) -> FactsPage:
        """Return the wanted facts among the next SCANNED_FACTS_MAX, or those that are read."""
        read = read or partial(self.service.ledger.read, limit=READ_FACTS)
        found: list[Recorded] = []
        after, scanned = self.after, 0
        while after < self.last and scanned < SCANNED_FACTS_MAX:
            facts = [one for one in await read(after=after) if one.position <= self.last]
            for recorded in facts:
                after, scanned = recorded.position, scanned + 1
                if wanted(recorded.fact):
                    found.append(recorded)
                    if len(found) == limit:
                        return found, after if after < self.last else None
            if not facts:
                return found, None
        return found, after if after < self.last else None


def _wanted(fact: Fact, *, query: Mapping[str, Any]) -> bool:
    if query["administrative"] and fact.numerous:
        return False
    asked = {
        "kind": fact.kind.partition(".")[0],
        "board": getattr(fact, "board", None),
        "player": getattr(fact, "player", None),
        "actor": getattr(fact, "actor", None),
    }
    return all(query[name] in (None, value) for name, value in asked.items())


def _shown(recorded: Recorded, state: State) -> schemas.FactItem:
    fact = recorded.fact
    body = {
        name: _plain(fact, name)
        for name in fact.__struct_fields__
        if name not in _OF_REQUEST and getattr(fact, name) is not None
    }
    if is_submission(fact):
        body |= _scores(fact, _terms(state.boards.get(fact.board), recorded.position, fact), body)
    return schemas.FactItem(
        recorded.position,
        show_time(recorded.at) or "",
        fact.kind.partition(".")[0],
        getattr(fact, "board", None),
        getattr(fact, "player", None),
        getattr(fact, "actor", None),
        getattr(fact, "request_id", None),
        getattr(fact, "address", None),
        body,
    )


def _scores(fact: ScoreSubmitted, board: Board | None, body: dict[str, Any]) -> dict[str, Any]:
    """Remove the scores from a body, and return them with the decimals of their board.

    Without a known board they are returned as ``raw_scores`` and ``raw_delta``, lest they be
    misread.
    """
    numbers = {name: body.pop(name) for name in ("scores", "delta") if name in body}
    if board is None:
        return {f"raw_{name}": value for name, value in numbers.items()}
    shown: dict[str, Any] = {}
    if fact.scores is not None:
        shown["scores"] = [shown_score(score, board.decimals) for score in fact.scores]
    if fact.delta is not None:
        shown["delta"] = shown_score(fact.delta, board.decimals)
    return shown


_OF_REQUEST = ("request_id", "address")
_TIMES = frozenset({"until", "at", "start", "end", "expires", "time", "earliest", "latest"})
_TIMES_BY_ID = frozenset({"used"})


def _plain(fact: Fact, name: str) -> Any:
    value = getattr(fact, name)
    if name == "metadata":
        return Raw(value)
    if name in _TIMES:
        return show_time(value)
    if name in _TIMES_BY_ID:
        return {id: show_time(at) for id, at in value.items()}
    if isinstance(value, msgspec.Struct):
        return _fields(value)
    if isinstance(value, tuple) and value and isinstance(value[0], msgspec.Struct):
        return [_fields(each) for each in value]
    if name in fact.hidden:
        if name == "material":
            return "hidden"  # It is a secret as it stands, not the digest of one.
        return value.hex()[:8]  # Enough to distinguish keys, too little to test guesses.
    return msgspec.to_builtins(value)


def _fields(part: msgspec.Struct) -> dict[str, Any]:
    """Show a window or a stretch of the ledger that a fact tells of."""
    fields = msgspec.structs.asdict(part)
    if "ahead" in fields:
        fields["ahead_seconds"] = fields.pop("ahead") / 1_000_000
    return {name: show_time(one) if name in _TIMES else one for name, one in fields.items()}
