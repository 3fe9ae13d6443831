"""The HTTP API in the clothes of the engine in a program, so that one machine can drive both.

Every call is one request (or, where a worker may answer that has not read the last write yet, one
that waits and one that asks). Every answer is held to the shapes of the API before anything is
made of it: all of its fields and no other, each of its type, numbers digit for digit.
"""

import http.client
import json
import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import msgspec

from rankd.core.read_engine import WindowPreview
from rankd.core.runs import StartedRun
from rankd.errors import FieldError, NotRanked, RankdError, RuleBroken
from rankd.model.facts import Position
from rankd.model.standing import Rank, Standing
from rankd.model.window import Instant

PATIENCE_SECONDS = 100
_encode = msgspec.json.Encoder(decimal_format="number").encode

# ------------------------------------------------------------------------------ shapes

NUMBER = (int, Decimal)
NUMBER_OR_NONE = (int, Decimal, type(None))
INT_OR_NONE = (int, type(None))
TEXT_OR_NONE = (str, type(None))
ANYTHING = (object,)

READ = {"as_of": int, "exactness": str, "stale": bool}
WHICH = {"board": str, "window": str, "segment": TEXT_OR_NONE, "state": str}
PAGE = {
    **WHICH,
    **READ,
    "total": int,
    "standings": list,
    "next_cursor": TEXT_OR_NONE,
    "prev_cursor": TEXT_OR_NONE,
}
ROW = {
    "rank": int,
    "player": str,
    "name": TEXT_OR_NONE,
    "score": NUMBER,
    "rank_change": INT_OR_NONE,
    "metadata": ANYTHING,
}
STANDING = {**WHICH, **READ, **ROW, "percentile": Decimal, "total": int}
FOUND = {**WHICH, **READ, "total": int, "standings": list, "not_found": list}
PROJECTION = {
    **WHICH,
    **READ,
    "total": int,
    "rank": INT_OR_NONE,
    "score": NUMBER_OR_NONE,
    "percentile": (Decimal, type(None)),
}
EVERYWHERE = {**READ, "player": str, "name": TEXT_OR_NONE, "standings": list}
ON_BOARD = {
    "board": str,
    "window": str,
    "rank": int,
    "score": NUMBER,
    "percentile": Decimal,
    "total": int,
    "state": str,
}
WINDOW = {
    "window": str,
    "name": str,
    "start": TEXT_OR_NONE,
    "end": TEXT_OR_NONE,
    "state": str,
    "total": int,
}
WINDOWS = {**READ, "board": str, "windows": list}
BOARD = {
    "name": str,
    "definition": dict,
    "windows": list,
    "next_reset": TEXT_OR_NONE,
    "total": int,
    "since": int,
    **READ,
    "server_time": str,
}
PREVIEW = {
    "board": str,
    "applied": bool,
    "changes": list,
    "windows": list,
    "position": INT_OR_NONE,
    "drops": list,
}
CHANGE = {"field": str, "before": ANYTHING, "after": ANYTHING}
WINDOW_PREVIEW = {
    "window": str,
    "total": int,
    "total_after": int,
    "top": list,
    "top_after": list,
}
PROFILE = {
    **READ,
    "player": str,
    "name": TEXT_OR_NONE,
    "attributes": dict,
    "friends": list,
    "visibility": str,
}
STATES = {"state": str, "reason": TEXT_OR_NONE, "states": list}
"""What a profile tells moderators; and everybody where there is no key."""
CORRECTED = {
    "position": INT_OR_NONE,
    "dry_run": bool,
    "submissions": int,
    "players": int,
    "changes": list,
    "more": int,
}
CHANGED = {
    "board": str,
    "player": str,
    "window": str,
    "score": NUMBER_OR_NONE,
    "previous_score": NUMBER_OR_NONE,
    "rank": INT_OR_NONE,
    "previous_rank": INT_OR_NONE,
}
REVIEW = {
    "id": str,
    "board": str,
    "player": str,
    "score": NUMBER_OR_NONE,
    "delta": NUMBER_OR_NONE,
    "position": int,
    "at": str,
    "reasons": list,
    "state": str,
    "decided_by": TEXT_OR_NONE,
    "decided_at": INT_OR_NONE,
    "reason": TEXT_OR_NONE,
    "history": str,
}
REVIEWS = {**READ, "reviews": list, "open": int, "next_before": INT_OR_NONE}
HISTORY = {**READ, "board": str, "player": str, "facts": list, "next_before": INT_OR_NONE}
FACTS = {**READ, "facts": list, "next_after": INT_OR_NONE}
FACT = {
    "position": int,
    "at": str,
    "kind": str,
    "board": TEXT_OR_NONE,
    "player": TEXT_OR_NONE,
    "actor": TEXT_OR_NONE,
    "address": TEXT_OR_NONE,
    "request_id": TEXT_OR_NONE,
    "body": dict,
}
WRONG_FIELD = {"field": str, "message": str}
BROKEN_RULE = {**WRONG_FIELD, "rule": str, "observed": NUMBER, "limit": NUMBER}
STEP = {
    "board": str,
    "window": str,
    "state": str,
    "changed": bool,
    "position": int,
    "opened": (dict, type(None)),
}
RUN = {"run": str, "seed": str, "not_before": str, "expires_at": str}
RESULTS = {"results": list, "position": int}
DONE = {"position": int}
PROBLEM = {"type": str, "title": str, "status": int, "detail": str, "code": str, "request_id": str}


def check(found: Any, shape: Mapping[str, Any], *optional: str) -> Any:
    """Hold an object to its shape: every field and no other, each of its type; return it."""
    assert isinstance(found, dict), found
    if found.get("state") == "scheduled" and "state" in shape:
        shape = {**shape, "opens_at": str}
    assert set(found) - set(optional) == set(shape), (sorted(found), sorted(shape))
    for name, kind in shape.items():
        kinds = kind if isinstance(kind, tuple) else (kind,)
        value = found[name]
        right = isinstance(value, kinds) and (not isinstance(value, bool) or bool in kinds)
        assert right or object in kinds, (name, value, kinds)
    if "exactness" in shape:
        assert (found["exactness"], found["stale"]) == ("exact", False)
    return found


def same(found: Any, expected: Any) -> bool:
    """Whether two values are the same JSON, down to the last zero of a number."""
    if isinstance(expected, dict):
        return (
            isinstance(found, dict)
            and found.keys() == expected.keys()
            and all(same(found[name], expected[name]) for name in expected)
        )
    if isinstance(expected, list):
        return (
            isinstance(found, list)
            and len(found) == len(expected)
            and all(map(same, found, expected))
        )
    return type(found) is type(expected) and str(found) == str(expected)


def shown(scaled: int, decimals: int) -> int | Decimal:
    """A score as the wire has it: whole, or with exactly so many decimals."""
    return scaled if decimals == 0 else Decimal(scaled).scaleb(-decimals)


def decimals_of(score: int | Decimal) -> int:
    exponent = score.as_tuple().exponent if isinstance(score, Decimal) else 0
    assert isinstance(exponent, int)
    return -exponent


def scores_of(row: Mapping[str, Any]) -> tuple[int, ...]:
    """Every column in smallest units. One column is told by the score alone."""
    columns = row.get("columns")
    if columns is None:
        return (_scaled(row["score"]),)
    assert len(columns) > 1
    assert same(next(iter(columns.values())), row["score"])
    assert len({decimals_of(value) for value in columns.values()}) == 1
    return tuple(_scaled(value) for value in columns.values())


def _scaled(score: int | Decimal) -> int:
    return int(score.scaleb(decimals_of(score))) if isinstance(score, Decimal) else score


def percentile_of(rank: int, total: int) -> Decimal:
    """The percentile with the digits that JSON has for it."""
    return Decimal(repr(round((total - rank + 1) / total * 100, 2)))


# ------------------------------------------------------------------------------ asking


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: Any


def asked(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: Any = None,
    **headers: str,
) -> Answer:
    """One request, and its answer read as JSON: numbers with a point as they were written."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    content = None
    if body is not None:
        content, sent["content-type"] = _encode(body), "application/json"
    connection.request(method, path, content, sent)
    answer = connection.getresponse()
    read = answer.read()
    found = {name.lower(): value for name, value in answer.getheaders()}
    kind = found.get("content-type", "")
    return Answer(
        answer.status, found, json.loads(read, parse_float=Decimal) if "json" in kind else read
    )


def pid_of(connection: http.client.HTTPConnection) -> int:
    """Which process answers on a connection: the one that holds its other end."""
    asked(connection, "GET", "/healthz")
    inode = _inode_of_peer(connection.sock)
    for opened in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):  # Closed meanwhile, or another user's.
            if str(opened.readlink()) == f"socket:[{inode}]":
                return int(opened.parts[2])
    raise AssertionError("no process holds the other end")


def _inode_of_peer(sock: socket.socket) -> str:
    here, there = sock.getsockname()[1], sock.getpeername()[1]
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        ports = [int(address.partition(":")[2], 16) for address in fields[1:3]]
        if ports == [there, here]:
            return fields[9]
    raise AssertionError("the connection is gone")


def connections(port: int, processes: int) -> list[http.client.HTTPConnection]:
    """Open connections until so many processes answer; keep two of each, or one of one."""
    found: dict[int, list[http.client.HTTPConnection]] = {}
    wanted = 1 if processes == 1 else 2
    while len(found) < processes or any(len(some) < wanted for some in found.values()):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
        known = found.setdefault(pid_of(connection), [])
        known.append(connection) if len(known) < wanted else connection.close()
    return [connection for some in zip(*found.values(), strict=True) for connection in some]


def broken_rules(errors: Sequence[Mapping[str, Any]]) -> list[tuple[str, Any, Any]]:
    """The rules that a refusal names, each with the number observed and the limit."""
    return [(each["rule"], each["observed"], each["limit"]) for each in errors]


class Api:
    """Asks each connection in turn, and knows how far the last write came."""

    def __init__(self, port: int, *, processes: int, figures: Counter[str]) -> None:
        self.figures = figures
        self._connections = connections(port, processes)
        self._turn = 0
        self._known = {id(connection): 0 for connection in self._connections}
        """How far each connection's process is known to have come."""
        self._position: int | None = None
        self._etags: dict[bytes, str] = {}

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    def turn(self, of: int) -> int:
        """Count, for whatever is to be spelt in several ways."""
        self._turn += 1
        return self._turn % of

    def _next(self) -> http.client.HTTPConnection:
        return self._connections[self.turn(len(self._connections))]

    # ...... writes

    def write(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Ask for a write, of any process."""
        self._position = None
        answer = asked(self._next(), method, path, body, **headers)
        self.figures["writes"] += 1
        assert answer.headers["cache-control"] == "no-store"
        if answer.status >= 400:
            self._raise(answer, applied="no")
        assert answer.headers["content-type"] == "application/json"
        return answer

    @property
    def position(self) -> int:
        """The last position there is. A batch of which nothing can be recorded asks the writer."""
        if self._position is None:
            answer = asked(self._next(), "POST", "/v1/scores:batch", {"scores": [{"board": ""}]})
            assert answer.status == 200, answer
            self._position = answer.body["position"]
        return self._position

    def _ask_again(self) -> None:
        """Know no last position any more: something came that was no write from here."""
        self._position = None

    # ...... reads

    def read(self, path: str, query: Mapping[str, Any], body: Any = None, **headers: str) -> Answer:
        """Ask for a read of any process, true at the last write.

        The only process there is answers so without being told to wait, and by other ways.
        """
        given = {name: value for name, value in query.items() if value is not None}
        if len(self._connections) > 1 or self.turn(3) == 0:
            given["min_position"] = self.position
        connection, method = self._next(), "GET" if body is None else "POST"
        answer = asked(connection, method, f"{path}?{urlencode(given)}", body, **headers)
        return self._checked(answer)

    def read_plain(self, path: str, **query: Any) -> Answer:
        """The same where a route cannot wait: whoever answers is made to wait before."""
        connection = self._next()
        if self._known[id(connection)] < self.position:
            waiting = f"/v1/players/nobody/standings?min_position={self.position}"
            assert asked(connection, "GET", waiting).status == 200
            self._known[id(connection)] = self.position
        given = {name: value for name, value in query.items() if value is not None}
        return self._checked(asked(connection, "GET", f"{path}?{urlencode(given)}"))

    def _checked(self, answer: Answer) -> Answer:
        self.figures["reads"] += 1
        if answer.status == 304:
            return answer
        if answer.status >= 400:
            self._raise(answer, applied=None)
        assert answer.status == 200
        if "as_of" in answer.body:
            as_of = answer.body["as_of"]
            if as_of > self.position:
                self._ask_again()  # After a start windows turn by themselves, at any moment.
            assert as_of == self.position, (as_of, self.position)
        return answer

    def _raise(self, answer: Answer, *, applied: str | None) -> None:
        """Raise the error that a problem tells of, once it is one as RFC 9457 and we have it."""
        self.figures["refusals"] += 1
        body = answer.body
        assert answer.headers["content-type"] == "application/problem+json"
        check(body, PROBLEM, "applied", "errors")
        assert body["status"] == answer.status
        assert body["type"] == f"urn:rankd:error:{body['code']}"
        assert body.get("applied") == applied
        kind = RankdError._taken[body["code"]]
        error = kind.__new__(kind)
        if "errors" in body:
            assert answer.status == 422
            shape = BROKEN_RULE if kind is RuleBroken else WRONG_FIELD
            wrong = [check(each, shape) for each in body["errors"]]
            fields = [FieldError(each["field"], each["message"]) for each in wrong]
            error.errors = tuple(fields)  # type: ignore[attr-defined]
            if kind is RuleBroken:
                error.reasons = broken_rules(wrong)  # type: ignore[attr-defined]
        raise error

    # ...... pages are known again

    def page(self, path: str, query: Mapping[str, Any]) -> dict[str, Any]:
        """Read a page; whoever has it already is told so, and no other page has its tag."""
        answer = self.read(path, query)
        etag, body = answer.headers["etag"], answer.body
        seen = _encode([value for name, value in body.items() if name != "as_of"])
        assert self._etags.setdefault(seen, etag) == etag
        assert len(set(self._etags.values())) == len(self._etags)
        if self.turn(5) == 0:
            again = self.read(path, query, if_none_match=f'"other", W/{etag}')
            assert (again.status, again.body, again.headers["etag"]) == (304, b"", etag)
            changed = self.read(path, query, if_none_match='"other"')
            assert changed.body == body
            self.figures["pages known again"] += 1
        in_range = query.get("score_min") is not None or query.get("score_max") is not None
        edition = query.get("edition")
        shape = PAGE if edition is None else {**PAGE, "edition": int}
        found: dict[str, Any] = check(body, {**shape, "count": int} if in_range else shape)
        assert found.get("edition") == edition
        return found


# ------------------------------------------------------------------------------ boards


@dataclass(frozen=True)
class Page:
    total: int
    as_of: int
    standings: list[Standing]
    next_cursor: str | None
    prev_cursor: str | None
    in_range: int | None


@dataclass(frozen=True)
class Found:
    total: int
    as_of: int
    standings: list[Standing]
    not_found: list[str]


@dataclass(frozen=True)
class Projected:
    rank: int | None
    scores: tuple[int, ...] | None
    total: int


@dataclass(frozen=True)
class Change:
    field: str
    before: Any
    after: Any


@dataclass(frozen=True)
class Preview:
    changes: list[Change]
    windows: list[WindowPreview]
    drops: list[str]


@dataclass(frozen=True)
class SeenWindow:
    id: str
    start: Instant | None
    end: Instant | None
    state: str


class WindowStep(NamedTuple):
    """A window after a step that was taken."""

    position: int
    changed: bool
    window: SeenWindow
    opened: SeenWindow | None


def instant_of(text: str | None) -> Instant | None:
    """Microseconds of a time such as 2026-11-16T12:00:00.000001Z."""
    if text is None:
        return None
    from datetime import UTC, datetime, timedelta

    assert text.endswith("Z")
    since = datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(microseconds=1)


def standing_of(
    row: Mapping[str, Any], *, total: int, as_of: int, shape: Mapping[str, Any] = ROW
) -> Standing:
    check(row, shape, "columns", "place", "ordinal")
    assert row["rank_change"] is None
    beside = row["metadata"]
    return Standing(
        Rank(row["rank"]),
        row["player"],
        scores_of(row),
        total,
        Position(as_of),
        decimals_of(row["score"]),
        row["name"],
        None if beside is None else _encode(beside),
        row.get("place"),
        ordinal=row.get("ordinal"),
    )


def page_of(body: dict[str, Any]) -> Page:
    total, as_of = body["total"], body["as_of"]
    standings = [standing_of(row, total=total, as_of=as_of) for row in body["standings"]]
    cursors = body["next_cursor"], body["prev_cursor"]
    return Page(total, as_of, standings, *cursors, body.get("count"))


class Corrected(NamedTuple):
    """The effect of a correction."""

    position: int | None
    submissions: int
    changes: list[tuple[Any, ...]]
    """Each with board, player, window, scores and ranks, before and after."""
    more: int


def corrected(body: dict[str, Any]) -> Corrected:
    check(body, CORRECTED)
    changes = [changed(each) for each in body["changes"]]
    return Corrected(body["position"], body["submissions"], changes, body["more"])


def changed(row: dict[str, Any]) -> tuple[Any, ...]:
    """A changed entry, in the order of the fields."""
    check(row, CHANGED, "columns", "previous_columns")
    before = {"score": row["previous_score"], "columns": row.get("previous_columns")}
    after = {"score": row["score"], "columns": row.get("columns")}
    scores = [None if each["score"] is None else scores_of(each) for each in (after, before)]
    return (row["board"], row["player"], row["window"], *scores, row["rank"], row["previous_rank"])


class HttpBoard:
    """One board of a service."""

    def __init__(self, api: Api, name: str) -> None:
        self.name = name
        self._api = api
        self._path = f"/v1/boards/{name}"

    # ...... definitions

    def shown(self) -> dict[str, Any]:
        """The board as the service tells it."""
        found: dict[str, Any] = check(self._api.read_plain(self._path).body, BOARD)
        for window in found["windows"]:
            check(window, WINDOW, "edition")
        return found

    @property
    def definition(self) -> dict[str, Any]:
        found: dict[str, Any] = self.shown()["definition"]
        return found

    def preview(self, **words: Any) -> Preview:
        return self._put(self._changed(words), applied=False)

    def redefine(self, *, drop_scores: bool = False, **words: Any) -> Preview:
        return self._put(self._changed(words), applied=True, drop_scores=drop_scores)

    def _changed(self, words: dict[str, Any]) -> dict[str, Any]:
        now = self.definition
        if "direction" in words:
            first, *others = now["columns"]
            words = {**words, "columns": [{**first, "direction": words["direction"]}, *others]}
            del words["direction"]
        now.pop("direction", None)
        now.pop("name", None)
        return {**now, **words}

    def _put(
        self, definition: dict[str, Any], *, applied: bool, drop_scores: bool = False
    ) -> Preview:
        path = f"{self._path}?apply=true" if applied else self._path
        path += "&drop_scores=true" if drop_scores else ""
        answer = self._api.write("PUT", path, definition)
        assert answer.status == 200
        if "definition" in answer.body:  # Nothing would change.
            check(answer.body, BOARD)
            return Preview([], [], [])
        body = check(answer.body, PREVIEW)
        assert (body["board"], body["applied"]) == (self.name, applied)
        as_of = self._api.position
        changes = [Change(**check(change, CHANGE)) for change in body["changes"]]
        windows = [self._previewed(each, as_of) for each in body["windows"]]
        return Preview(changes, windows, body["drops"])

    def _previewed(self, body: dict[str, Any], as_of: int) -> WindowPreview:
        check(body, WINDOW_PREVIEW)
        total, after = body["total"], body["total_after"]
        return WindowPreview(
            body["window"],
            total,
            after,
            [standing_of(row, total=total, as_of=as_of) for row in body["top"]],
            [standing_of(row, total=after, as_of=as_of) for row in body["top_after"]],
        )

    def adjust(self, player: str, score: Any = None, **more: Any) -> dict[str, Any]:
        body = self._spelt({"player": player, "score": score, **more})
        found: dict[str, Any] = self._api.write("POST", f"{self._path}/adjustments", body).body
        return found

    def set_metadata(self, player: str, metadata: Any) -> int:
        path, body = f"{self._path}/standings/{quote(player)}", {"metadata": metadata}
        told = self._api.write("PATCH", path, body).body
        position: int = told.pop("position")
        assert told == {"board": self.name, "player": player, **body}
        return position

    def retract(self, *, dry_run: bool = False, **asked: Any) -> Corrected:
        return retracted(self._api, self._path, dry_run, asked)

    def undo_retraction(self, position: int) -> Corrected:
        path = f"{self._path}/retractions/{position}"
        return corrected(self._api.write("DELETE", path).body)

    def retire(self, *, reason: str) -> None:
        check(self._api.write("DELETE", f"{self._path}?reason={quote(reason)}").body, DONE)

    def windows(self) -> list[SeenWindow]:
        """The sealed ones, oldest first, then open and scheduled, as the engine in a program."""
        told = self.told_windows()
        closed = [each for each in reversed(told) if each["state"] not in ("open", "scheduled")]
        opened = [each for each in told if each["state"] == "open"]
        coming = [each for each in told if each["state"] == "scheduled"]
        assert told == [*coming, *opened, *reversed(closed)]
        return [
            SeenWindow(
                each["window"], instant_of(each["start"]), instant_of(each["end"]), each["state"]
            )
            for each in [*closed, *opened, *coming]
        ]

    def reset_window(self, window: str, *, reason: str) -> WindowStep:
        return self._step("reset", window, reason)

    def freeze_window(self, window: str, *, reason: str) -> WindowStep:
        return self._step("freeze", window, reason)

    def settle_window(self, window: str, *, reason: str) -> WindowStep:
        return self._step("settle", window, reason)

    def _step(self, verb: str, window: str, reason: str) -> WindowStep:
        body = {"window": window, "reason": reason}
        told = check(self._api.write("POST", f"{self._path}:{verb}", body).body, STEP)
        assert told["board"] == self.name
        opened = None
        if told["opened"] is not None:
            one = check(told["opened"], WINDOW)
            opened = SeenWindow(
                one["window"], instant_of(one["start"]), instant_of(one["end"]), one["state"]
            )
        after = SeenWindow(told["window"], None, None, told["state"])
        return WindowStep(told["position"], told["changed"], after, opened)

    def told_windows(self) -> list[dict[str, Any]]:
        body = check(self._api.read_plain(f"{self._path}/windows").body, WINDOWS)
        assert body["board"] == self.name
        return [check(each, WINDOW, "edition") for each in body["windows"]]

    # ...... submissions

    def start_run(self, player: str) -> StartedRun:
        body = check(self._api.write("POST", f"{self._path}/runs", {"player": player}).body, RUN)
        times = [instant_of(body[name]) or 0 for name in ("not_before", "expires_at")]
        return StartedRun(body["run"], body["seed"], *times)

    def submit(self, player: str, score: Any = None, **more: Any) -> dict[str, Any]:
        """Submit; return the receipt as it came."""
        body, headers = self._spelt({"player": player, "score": score, **more}), {}
        if "key" in body and self._api.turn(2):
            headers["idempotency_key"] = body["key"]
            if self._api.turn(2):
                del body["key"]
        answer = self._api.write("POST", f"{self._path}/scores", body, **headers)
        found: dict[str, Any] = answer.body
        assert answer.status == (202 if found["verdict"] == "held" else 200)
        return found

    def _spelt(self, body: dict[str, Any]) -> dict[str, Any]:
        """The same with its numbers as numbers or as text, and nothing or null for nothing."""
        return spelt(body, as_text=self._api.turn(3) == 0, nulls=self._api.turn(4) == 0)

    # ...... reads

    def page(self, **query: Any) -> Page:
        body = self._api.page(f"{self._path}/standings", query)
        self._check_which(body, query)
        return page_of(body)

    def top(self, limit: int = 10, **which: Any) -> list[Standing]:
        return self.page(limit=limit, **which).standings

    def standing(self, player: str, **which: Any) -> Standing | None:
        try:
            body = self._api.read(f"{self._path}/standings/{quote(player)}", which).body
        except NotRanked:
            return None
        self._check_which(body, which)
        assert same(body["percentile"], percentile_of(body["rank"], body["total"]))
        return standing_of(body, total=body["total"], as_of=body["as_of"], shape=STANDING)

    def around(self, player: str, *, above: int, below: int, **which: Any) -> list[Standing]:
        path = f"{self._path}/standings/{quote(player)}/around"
        return self._near(path, {**which, "above": above, "below": below})

    def around_rank(self, rank: int, *, reach: int, **which: Any) -> list[Standing]:
        return self._near(f"{self._path}/around/{rank}", {**which, "range": reach})

    def _near(self, path: str, query: dict[str, Any]) -> list[Standing]:
        body = check(self._api.read(path, query).body, PAGE)
        self._check_which(body, query)
        return page_of(body).standings

    def lookup(self, players: Sequence[str], **which: Any) -> Found:
        path = f"{self._path}/standings:lookup"
        body = self._api.read(path, which, {"players": players}).body
        return self._found(body, which)

    def ranks(self, players: Sequence[str], **which: Any) -> list[int | None]:
        ranks = {each.player: each.rank for each in self.lookup(players, **which).standings}
        return [ranks.get(player) for player in players]

    def friends(self, player: str, **which: Any) -> Found:
        return self._found(
            self._api.read(f"{self._path}/friends/{quote(player)}", which).body, which
        )

    def _found(self, body: dict[str, Any], which: dict[str, Any]) -> Found:
        check(body, FOUND)
        self._check_which(body, which)
        total, as_of = body["total"], body["as_of"]
        standings = [standing_of(row, total=total, as_of=as_of) for row in body["standings"]]
        return Found(total, as_of, standings, body["not_found"])

    def rank_for(self, *, columns: Sequence[Any], **which: Any) -> Projected:
        score = ",".join(str(number) for number in columns)
        return self._projected({**which, "score": score})

    def score_for(self, **query: Any) -> Projected:
        return self._projected(query)

    def _projected(self, query: dict[str, Any]) -> Projected:
        body = self._api.read(f"{self._path}/projection", query).body
        check(body, PROJECTION, "columns")
        self._check_which(body, query)
        rank, total = body["rank"], body["total"]
        held = rank is not None and rank <= total
        assert same(body["percentile"], percentile_of(rank, total) if held else None)
        scores = None if body["score"] is None else scores_of(body)
        return Projected(rank, scores, total)

    def _check_which(self, body: dict[str, Any], query: Mapping[str, Any]) -> None:
        assert body["board"] == self.name
        assert body["segment"] == query.get("segment")
        asked_for = query.get("window")
        if asked_for is not None and ":" in asked_for and ":-" not in asked_for:
            assert body["window"] == asked_for

    def history(self, player: str, *, limit: int) -> list[dict[str, Any]]:
        """All of it, page by page."""
        facts: list[dict[str, Any]] = []
        before = None
        while True:
            path = f"{self._path}/history/{quote(player)}"
            body = check(self._api.read_plain(path, limit=limit, before=before).body, HISTORY)
            assert (body["board"], body["player"]) == (self.name, player)
            assert len(body["facts"]) <= limit
            facts += body["facts"]
            before = body["next_before"]
            if before is None:
                return facts


class HttpRanks:
    """A service."""

    def __init__(self, api: Api) -> None:
        self.api = api

    @property
    def position(self) -> int:
        return self.api.position

    def board(self, name: str, **definition: Any) -> HttpBoard:
        """Define a board, or have one that is defined already."""
        board = HttpBoard(self.api, name)
        if definition:
            answer = self.api.write("PUT", f"/v1/boards/{name}", definition)
            assert answer.status == 201
            assert answer.body["as_of"] == self.position
            assert check(answer.body, BOARD) == {
                **board.shown(),
                "server_time": answer.body["server_time"],
            }
        return board

    def boards(self) -> list[str]:
        shape = {**READ, "boards": list, "server_time": str}
        body = check(self.api.read_plain("/v1/boards").body, shape)
        return [check(each, BOARD)["name"] for each in body["boards"]]

    def batch(self, items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Submit many; return one result each, as they came."""
        turn = self.api.turn
        bodies = [spelt(item, as_text=turn(3) == 0, nulls=turn(4) == 0) for item in items]
        body = check(self.api.write("POST", "/v1/scores:batch", {"scores": bodies}).body, RESULTS)
        assert body["position"] == self.position
        results: list[dict[str, Any]] = body["results"]
        return results

    # ...... players

    def profile(self, player: str, *, name: str | None, attributes: Any) -> int:
        return self._player("", player, {"name": name, "attributes": attributes})

    def change_profile(self, player: str, **said: Any) -> int:
        """Say some of it, and leave the rest."""
        return self._player("", player, said)

    def set_friends(self, player: str, friends: Sequence[str]) -> int:
        return self._player("/friends", player, {"friends": friends})

    def _player(self, path: str, player: str, body: Any) -> int:
        answer = self.api.write("PUT", f"/v1/players/{quote(player)}{path}", body)
        told, now = check(answer.body, PROFILE), self.player(player)
        assert told["as_of"] <= now["as_of"]
        assert {**told, "as_of": now["as_of"]} == {name: now[name] for name in now if name in told}
        return self.position

    def player(self, player: str) -> dict[str, Any]:
        found: dict[str, Any] = check(
            self.api.read_plain(f"/v1/players/{quote(player)}").body, {**PROFILE, **STATES}
        )
        return found

    def ban(self, player: str, **given: Any) -> int:
        return self._set_state("ban", player, given)

    def hide(self, player: str, **given: Any) -> int:
        return self._set_state("hide", player, given)

    def shadow(self, player: str, **given: Any) -> int:
        return self._set_state("shadow", player, given)

    def restore(self, player: str, **given: Any) -> int:
        return self._set_state("restore", player, given)

    def _set_state(self, verb: str, player: str, given: dict[str, Any]) -> int:
        answer = self.api.write("POST", f"/v1/players/{quote(player)}:{verb}", given)
        position: int = answer.body["position"]
        return position

    def erase(self, player: str, *, reason: str) -> int:
        path = f"/v1/players/{quote(player)}?reason={quote(reason)}"
        position: int = check(self.api.write("DELETE", path).body, DONE)["position"]
        return position

    def standings(self, player: str) -> dict[str, Standing]:
        body = self.api.read(f"/v1/players/{quote(player)}/standings", {}).body
        check(body, EVERYWHERE)
        assert body["player"] == player
        return {
            each["board"]: self._on_board(each, player, body["name"], body["as_of"])
            for each in body["standings"]
        }

    def _on_board(self, row: dict[str, Any], player: str, name: str | None, as_of: int) -> Standing:
        """Fill in what this list leaves out from the standing itself."""
        check(row, ON_BOARD, "ordinal")
        assert same(row["percentile"], percentile_of(row["rank"], row["total"]))
        one = HttpBoard(self.api, row["board"]).standing(player, window=row["window"])
        assert one is not None
        assert (one.rank, one.total, one.as_of) == (row["rank"], row["total"], as_of)
        assert one.ordinal == row.get("ordinal")
        assert one.name == name
        assert same(shown(one.scores[0], one.decimals), row["score"])
        return one

    # ...... corrections

    def retract(self, *, dry_run: bool = False, **asked: Any) -> Corrected:
        return retracted(self.api, "/v1", dry_run, asked)

    def undo_retraction(self, position: int) -> Corrected:
        return corrected(self.api.write("DELETE", f"/v1/retractions/{position}").body)

    def approve_review(self, id: str, *, reason: str) -> Corrected:
        return self._decide(id, "approve", reason)

    def reject_review(self, id: str, *, reason: str) -> Corrected:
        return self._decide(id, "reject", reason)

    def _decide(self, id: str, verb: str, reason: str) -> Corrected:
        body = self.api.write("POST", f"/v1/reviews/{id}:{verb}", {"reason": reason}).body
        check(body, {**REVIEW, "changes": list, "more": int}, "columns")
        assert (body["id"], body["reason"]) == (id, reason)
        changes = [changed(each) for each in body["changes"]]
        return Corrected(body["decided_at"], 1, changes, body["more"])

    def reviews(self, board: str) -> list[dict[str, Any]]:
        """Those of a board, page by page."""
        reviews: list[dict[str, Any]] = []
        before: int | None = None
        while True:
            body = self.api.read_plain("/v1/reviews", board=board, limit=20, before=before).body
            reviews += [check(each, REVIEW, "columns") for each in check(body, REVIEWS)["reviews"]]
            before = body["next_before"]
            if before is None:
                return reviews

    # ...... the audit trail

    def facts(self, *, limit: int, **query: Any) -> list[dict[str, Any]]:
        """All of it, page by page."""
        facts: list[dict[str, Any]] = []
        after: int | None = 0
        while after is not None:
            body = self.api.read_plain("/v1/facts", limit=limit, after=after, **query).body
            check(body, FACTS)
            assert len(body["facts"]) <= limit
            facts += [check(fact, FACT) for fact in body["facts"]]
            after = body["next_after"]
        return facts


def retracted(api: Api, path: str, dry_run: bool, asked: dict[str, Any]) -> Corrected:
    """Retract submissions to a board, or to all; return the effect."""
    query = "?dry_run=true" if dry_run else ""
    body = check(api.write("POST", f"{path}/retractions{query}", asked).body, CORRECTED)
    assert body["dry_run"] is dry_run
    return corrected(body)


def spelt(body: dict[str, Any], *, as_text: bool, nulls: bool) -> dict[str, Any]:
    """A submission in one of the ways to say the same."""
    said = {name: value for name, value in body.items() if nulls or value is not None}
    if as_text:
        for name in ("score", "delta"):
            if said.get(name) is not None:
                said[name] = str(said[name])
        if said.get("columns") is not None:
            said["columns"] = {name: str(value) for name, value in said["columns"].items()}
    return said
