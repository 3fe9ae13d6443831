"""The interface of the ``leaderboard`` package by Agora Games, version 3.7, over rankd.

A program that ranks by that package goes on with the same names, over an engine in its process or a
service. Each leaderboard is a board; ``docs/compat-agoragames.md`` tells where the two differ.
"""

import atexit
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from pathlib import Path
from typing import Any, ClassVar

import rankd
from rankd.client import Client
from rankd.compat.stores import TOGETHER_MAX, BoardStore, EngineStore, Member, ServiceStore
from rankd.embedded import Ranks
from rankd.errors import UnknownBoard

Score = int | float | Decimal
MemberRow = dict[str, Any]
"""A member as it is returned: under ``MEMBER_KEY``, ``RANK_KEY`` and ``SCORE_KEY``."""

Where = Ranks | Client | str | Path | None
"""An open engine or client; or the folder of an engine, or the URL of a service, to be opened."""

DECIMALS = 3
"""The decimals of a new board. With three every whole number that a double holds has its place."""

_REMOVED = "removed by remove_member"
_AGGREGATES: Mapping[str, Callable[[Iterable[Decimal]], Decimal]] = {
    "SUM": lambda scores: sum(scores, Decimal(0)),
    "MIN": min,
    "MAX": max,
}


# ------------------------------------------------------------------ engines and services


class _Opened:
    """The engines and clients that leaderboards opened, each once in a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stores: dict[str | None, BoardStore] = {}
        self._closing: list[Callable[[], None]] = []

    def store(self, where: str | Path | None) -> BoardStore:
        name = None if where is None else str(where)
        with self._lock:
            known = self._stores.get(name)
            if known is None:
                known = self._stores[name] = self._open(name)
            return known

    def _open(self, name: str | None) -> BoardStore:
        if name is not None and name.startswith(("http://", "https://")):
            client = Client(name)
            self._closing.append(client.close)
            return ServiceStore(client)
        ranks = rankd.open(name)
        self._closing.append(ranks.close)
        return EngineStore(ranks)

    def close(self) -> None:
        with self._lock:
            while self._closing:
                self._closing.pop()()
            self._stores.clear()


_opened = _Opened()


def close() -> None:
    """Close the engines and clients that leaderboards opened. Also done when the program ends."""
    _opened.close()


atexit.register(close)


def _store_of(where: Where) -> BoardStore:
    if isinstance(where, Ranks):
        return EngineStore(where)
    if isinstance(where, Client):
        return ServiceStore(where)
    return _opened.store(where)


def board_name(leaderboard_name: str) -> str:
    """Return the name of a leaderboard's board.

    Letters, digits, ``_`` and ``-`` stay; of every other character there are a point and two
    hexadecimal digits for each byte, so that ``scores:2026`` is ``scores.3a2026``.
    """
    plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
    return "".join(
        one if one in plain else "".join(f".{byte:02x}" for byte in one.encode())
        for one in leaderboard_name
    )


# ----------------------------------------------------------------------------- numbers


def _scaled(score: object, decimals: int, rounding: str = ROUND_HALF_EVEN) -> Decimal:
    number = score if isinstance(score, Decimal) else Decimal(str(score))
    return number.quantize(Decimal(1).scaleb(-decimals), rounding)


def _bound(score: object, decimals: int, rounding: str) -> Decimal | None:
    """Return the end of a range of scores; None for an infinite one."""
    number = Decimal(str(score))
    return None if number.is_infinite() else _scaled(number, decimals, rounding)


class Leaderboard:
    """A leaderboard whose members have ranks of their own."""

    DEFAULT_PAGE_SIZE = 25
    ASC, DESC = "asc", "desc"
    MEMBER_KEY = "member"
    MEMBER_DATA_KEY = "member_data"
    SCORE_KEY = "score"
    RANK_KEY = "rank"
    ties: ClassVar[str] = "ordinal"
    """How equal scores share ranks, as a board's definition says it."""

    def __init__(
        self,
        leaderboard_name: str,
        ranks: Where = None,
        *,
        page_size: int = DEFAULT_PAGE_SIZE,
        order: str = DESC,
        decimals: int = DECIMALS,
    ) -> None:
        """Use a leaderboard; its board is made by the first write.

        ``ranks`` is an open engine or client, a folder or a URL; without it, the leaderboard is in
        memory. ``decimals`` is for a new board: floats are rounded to so many.
        """
        self.leaderboard_name = leaderboard_name
        self.page_size = page_size if page_size >= 1 else self.DEFAULT_PAGE_SIZE
        self._order = self._checked(order)
        self.decimals = decimals
        self._store = _store_of(ranks)

    # ---------------------------------------------------------------------- the board

    @property
    def order(self) -> str:
        """``desc`` where the highest score is first, ``asc`` where the lowest is.

        Setting it turns the board around, for all programs that use it.
        """
        return self._order

    @order.setter
    def order(self, order: str) -> None:
        self._order = self._checked(order)
        board = board_name(self.leaderboard_name)
        direction = self._definition()["direction"]
        try:
            turned = self._store.definition(board)["direction"] != direction
        except UnknownBoard:
            return
        if turned:
            self._store.change(board, direction=direction)

    def _checked(self, order: str) -> str:
        if order.lower() not in (self.ASC, self.DESC):
            raise ValueError(f"order must be {self.ASC} or {self.DESC}")
        return order.lower()

    def _definition(self) -> dict[str, object]:
        direction = "higher" if self.order == self.DESC else "lower"
        return {
            "rule": "latest",
            "direction": direction,
            "decimals": self.decimals,
            "ties": self.ties,
        }

    def _made(self, name: str) -> tuple[str, int]:
        """Return the board of a leaderboard, made if it is not there, and its decimals."""
        found = self._found(name)
        if found is None:
            self._store.define(board_name(name), self._definition())
            return board_name(name), self.decimals
        return found

    def _found(self, name: str) -> tuple[str, int] | None:
        """Return the board of a leaderboard and its decimals; None if it is not there."""
        board = board_name(name)
        try:
            definition = self._store.definition(board)
        except UnknownBoard:
            return None
        wanted = self._definition()
        for field in ("direction", "ties"):
            if definition[field] != wanted[field]:
                known = definition[field]
                raise ValueError(f"the board {board} has {field} {known!r}, not {wanted[field]!r}")
        return board, int(definition["decimals"])

    def delete_leaderboard(self) -> None:
        """Retire the board. Its name is free for a new one."""
        self.delete_leaderboard_named(self.leaderboard_name)

    def delete_leaderboard_named(self, leaderboard_name: str) -> None:
        """Retire the board of a named leaderboard, if it is there."""
        if (found := self._found(leaderboard_name)) is not None:
            self._store.retire(found[0])

    def expire_leaderboard(self, seconds: float) -> None:
        """Have the board retired after so many seconds."""
        self.expire_leaderboard_for(self.leaderboard_name, seconds)

    def expire_leaderboard_for(self, leaderboard_name: str, seconds: float) -> None:
        """Have the board of a named leaderboard retired after so many seconds."""
        self.expire_leaderboard_at_for(leaderboard_name, time.time() + seconds)

    def expire_leaderboard_at(self, timestamp: float) -> None:
        """Have the board retired at a Unix time; at once if that is over."""
        self.expire_leaderboard_at_for(self.leaderboard_name, timestamp)

    def expire_leaderboard_at_for(self, leaderboard_name: str, timestamp: float) -> None:
        """Have the board of a named leaderboard retired at a Unix time."""
        found = self._found(leaderboard_name)
        if found is None:
            return
        if timestamp <= time.time():
            self._store.retire(found[0])
            return
        at = datetime.fromtimestamp(timestamp, UTC).isoformat()
        self._store.change(found[0], expires=at)

    # ------------------------------------------------------------------------ ranking

    def rank_member(self, member: str, score: Score, member_data: object = None) -> None:
        """Give a member a score."""
        self.rank_member_in(self.leaderboard_name, member, score, member_data)

    def rank_member_in(
        self, leaderboard_name: str, member: str, score: Score, member_data: object = None
    ) -> None:
        """Give a member a score in a named leaderboard. Member data stays unless it is given."""
        self._rank(leaderboard_name, [(member, score)], member_data)

    def rank_member_across(
        self, leaderboards: Iterable[str], member: str, score: Score, member_data: object = None
    ) -> None:
        """Give a member a score in several leaderboards."""
        for name in leaderboards:
            self.rank_member_in(name, member, score, member_data)

    def rank_member_if(
        self,
        rank_conditional: Callable[..., bool],
        member: str,
        score: Score,
        member_data: object = None,
    ) -> None:
        """Give a member a score if a function of it and of the score before returns True."""
        self.rank_member_if_in(self.leaderboard_name, rank_conditional, member, score, member_data)

    def rank_member_if_in(
        self,
        leaderboard_name: str,
        rank_conditional: Callable[..., bool],
        member: str,
        score: Score,
        member_data: object = None,
    ) -> None:
        """Give a member a score in a named leaderboard on a condition.

        The function gets this object, the member, its score so far or None, the new score, the
        data, and ``{"reverse": order}``.
        """
        known = self.score_for_in(leaderboard_name, member)
        if rank_conditional(self, member, known, score, member_data, {"reverse": self.order}):
            self.rank_member_in(leaderboard_name, member, score, member_data)

    def rank_members(self, members_and_scores: Sequence[Any]) -> None:
        """Give many members scores: a flat list of members and scores in turn."""
        self.rank_members_in(self.leaderboard_name, members_and_scores)

    def rank_members_in(self, leaderboard_name: str, members_and_scores: Sequence[Any]) -> None:
        """Give many members scores in a named leaderboard."""
        pairs = list(zip(members_and_scores[::2], members_and_scores[1::2], strict=True))
        for start in range(0, len(pairs), TOGETHER_MAX):
            self._rank(leaderboard_name, pairs[start : start + TOGETHER_MAX], None)

    def _rank(self, name: str, members: Sequence[tuple[str, Any]], member_data: object) -> None:
        board, decimals = self._made(name)
        data = _text_of(member_data)
        kept = (
            {}
            if data is not None
            else {
                one: row.data
                for one, row in self._rows(board, [member for member, _ in members]).items()
            }
        )
        self._store.submit(
            board,
            [
                {
                    "player": member,
                    "score": _scaled(score, decimals),
                    "metadata": data if data is not None else kept.get(member),
                }
                for member, score in members
            ],
        )

    def change_score_for(self, member: str, delta: Score, member_data: object = None) -> None:
        """Add to a member's score, or to 0 if it has none."""
        self.change_score_for_member_in(self.leaderboard_name, member, delta, member_data)

    def change_score_for_member_in(
        self, leaderboard_name: str, member: str, delta: Score, member_data: object = None
    ) -> None:
        """Add to a member's score in a named leaderboard."""
        board, decimals = self._made(leaderboard_name)
        data = _text_of(member_data)
        if data is None:
            known = self._rows(board, [member]).get(member)
            data = None if known is None else known.data
        change = {"player": member, "delta": _scaled(delta, decimals), "metadata": data}
        self._store.submit(board, [change])

    # ---------------------------------------------------------------------- removing

    def remove_member(self, member: str) -> None:
        """Remove a member: its submissions are retracted, and stay in the record."""
        self.remove_member_from(self.leaderboard_name, member)

    def remove_member_from(self, leaderboard_name: str, member: str) -> None:
        """Remove a member from a named leaderboard."""
        found = self._found(leaderboard_name)
        if found is not None and member in self._rows(found[0], [member]):
            self._store.remove(found[0], [member], _REMOVED)

    def remove_members_in_score_range(self, min_score: Score, max_score: Score) -> None:
        """Remove the members with scores of a range, both ends included."""
        self.remove_members_in_score_range_in(self.leaderboard_name, min_score, max_score)

    def remove_members_in_score_range_in(
        self, leaderboard_name: str, min_score: Score, max_score: Score
    ) -> None:
        """Remove the members with scores of a range from a named leaderboard."""
        gone = [one.player for one in self._between(leaderboard_name, min_score, max_score)]
        self._remove(leaderboard_name, gone)

    def remove_members_outside_rank(self, rank: int) -> int:
        """Remove the members after the first so many; return how many those were."""
        return self.remove_members_outside_rank_in(self.leaderboard_name, rank)

    def remove_members_outside_rank_in(self, leaderboard_name: str, rank: int) -> int:
        """Remove the members after the first so many from a named leaderboard."""
        gone = [one.player for one in self._walk(leaderboard_name, max(rank, 0), None)]
        return self._remove(leaderboard_name, gone)

    def _remove(self, name: str, members: Sequence[str]) -> int:
        if members:
            self._store.remove(board_name(name), members, _REMOVED)
        return len(members)

    # -------------------------------------------------------------------- member data

    def member_data_for(self, member: str) -> Any:
        """Return the data of a member; None if there is none."""
        return self.member_data_for_in(self.leaderboard_name, member)

    def member_data_for_in(self, leaderboard_name: str, member: str) -> Any:
        """Return the data of a member of a named leaderboard."""
        return self.members_data_for_in(leaderboard_name, [member])[0]

    def members_data_for(self, members: Sequence[str]) -> list[Any]:
        """Return the data of some members, in their order."""
        return self.members_data_for_in(self.leaderboard_name, members)

    def members_data_for_in(self, leaderboard_name: str, members: Sequence[str]) -> list[Any]:
        """Return the data of some members of a named leaderboard."""
        rows = self._entries(leaderboard_name, members)
        return [rows[one].data if one in rows else None for one in members]

    def update_member_data(self, member: str, member_data: object) -> None:
        """Give a ranked member other data. Raises NotRanked for any other."""
        self.update_member_data_in(self.leaderboard_name, member, member_data)

    def update_member_data_in(
        self, leaderboard_name: str, member: str, member_data: object
    ) -> None:
        """Give a ranked member of a named leaderboard other data."""
        board, _ = self._made(leaderboard_name)
        self._store.set_data(board, member, _text_of(member_data))

    def remove_member_data(self, member: str) -> None:
        """Remove the data of a member, if there is any."""
        self.remove_member_data_in(self.leaderboard_name, member)

    def remove_member_data_in(self, leaderboard_name: str, member: str) -> None:
        """Remove the data of a member of a named leaderboard."""
        if self.member_data_for_in(leaderboard_name, member) is not None:
            self._store.set_data(board_name(leaderboard_name), member, None)

    # ------------------------------------------------------------------------- totals

    def total_members(self) -> int:
        """Return how many members there are."""
        return self.total_members_in(self.leaderboard_name)

    def total_members_in(self, leaderboard_name: str) -> int:
        """Return how many members a named leaderboard has."""
        found = self._found(leaderboard_name)
        return 0 if found is None else self._store.page(found[0], 0, 1)[1]

    def total_pages(self, page_size: int | None = None) -> int:
        """Return how many pages there are."""
        return self.total_pages_in(self.leaderboard_name, page_size)

    def total_pages_in(self, leaderboard_name: str, page_size: int | None = None) -> int:
        """Return how many pages a named leaderboard has."""
        return math.ceil(self.total_members_in(leaderboard_name) / (page_size or self.page_size))

    def total_members_in_score_range(self, min_score: Score, max_score: Score) -> int:
        """Return how many members have scores of a range, both ends included."""
        return self.total_members_in_score_range_in(self.leaderboard_name, min_score, max_score)

    def total_members_in_score_range_in(
        self, leaderboard_name: str, min_score: Score, max_score: Score
    ) -> int:
        """Return how many members of a named leaderboard have scores of a range."""
        found = self._found(leaderboard_name)
        if found is None or float(min_score) > float(max_score):
            return 0
        board, decimals = found
        low, high = _span(min_score, max_score, decimals)
        if low is None and high is None:
            return self.total_members_in(leaderboard_name)
        return self._store.between(board, low, high, 0, 1)[1]

    def total_scores(self) -> float:
        """Return the sum of all scores."""
        return self.total_scores_in(self.leaderboard_name)

    def total_scores_in(self, leaderboard_name: str) -> float:
        """Return the sum of all scores in a named leaderboard."""
        rows = self._walk(leaderboard_name, 0, None)
        return float(sum((Decimal(row.score) for row in rows), Decimal(0)))

    # --------------------------------------------------------------------- one member

    def check_member(self, member: str) -> bool:
        """Tell whether a member is ranked."""
        return self.check_member_in(self.leaderboard_name, member)

    def check_member_in(self, leaderboard_name: str, member: str) -> bool:
        """Tell whether a member is ranked in a named leaderboard."""
        return self._entry(leaderboard_name, member) is not None

    def rank_for(self, member: str) -> int | None:
        """Return the rank of a member; None if it has none."""
        return self.rank_for_in(self.leaderboard_name, member)

    def rank_for_in(self, leaderboard_name: str, member: str) -> int | None:
        """Return the rank of a member in a named leaderboard."""
        row = self._entry(leaderboard_name, member)
        return None if row is None else row.rank

    def score_for(self, member: str) -> float | None:
        """Return the score of a member; None if it has none."""
        return self.score_for_in(self.leaderboard_name, member)

    def score_for_in(self, leaderboard_name: str, member: str) -> float | None:
        """Return the score of a member in a named leaderboard."""
        row = self._entry(leaderboard_name, member)
        return None if row is None else float(row.score)

    def score_and_rank_for(self, member: str) -> MemberRow:
        """Return a member with its score and rank, both None if it is not ranked."""
        return self.score_and_rank_for_in(self.leaderboard_name, member)

    def score_and_rank_for_in(self, leaderboard_name: str, member: str) -> MemberRow:
        """Return a member of a named leaderboard with its score and rank."""
        return self._row(member, self._entry(leaderboard_name, member))

    def page_for(self, member: str, page_size: int = DEFAULT_PAGE_SIZE) -> int:
        """Return the page that a member is on; 0 if it is not ranked."""
        return self.page_for_in(self.leaderboard_name, member, page_size)

    def page_for_in(
        self, leaderboard_name: str, member: str, page_size: int = DEFAULT_PAGE_SIZE
    ) -> int:
        """Return the page of a named leaderboard that a member is on."""
        row = self._entry(leaderboard_name, member)
        return 0 if row is None else math.ceil(row.place / page_size)

    def percentile_for(self, member: str) -> int | None:
        """Return the share of members that a member is ahead of, in percent, rounded up."""
        return self.percentile_for_in(self.leaderboard_name, member)

    def percentile_for_in(self, leaderboard_name: str, member: str) -> int | None:
        """Return the percentile of a member in a named leaderboard."""
        row = self._entry(leaderboard_name, member)
        if row is None:
            return None
        total = self.total_members_in(leaderboard_name)
        if self.order == self.ASC:
            return 100 - math.ceil((row.place - 1) / total * 100)
        return math.ceil((total - row.place) / total * 100)

    def score_for_percentile(self, percentile: float) -> float | None:
        """Return the score at a percentile, between two scores by interpolation."""
        return self.score_for_percentile_in(self.leaderboard_name, percentile)

    def score_for_percentile_in(self, leaderboard_name: str, percentile: float) -> float | None:
        """Return the score at a percentile of a named leaderboard."""
        total = self.total_members_in(leaderboard_name)
        if not 0 <= percentile <= 100 or total < 1:
            return None
        last = (total - 1) * (1 - percentile / 100)
        first = math.floor(last)
        rows = list(self._walk(leaderboard_name, first, 2))
        if len(rows) == 1 or last == first:
            return float(rows[0].score)
        above, below = float(rows[0].score), float(rows[1].score)
        return above + (last - first) * (below - above)

    # -------------------------------------------------------------------------- pages

    def leaders(self, current_page: int, **options: Any) -> list[MemberRow]:
        """Return a page, counted from 1.

        Options of every list: ``page_size``, ``with_member_data``, ``members_only``, ``sort_by``
        (``rank`` or ``score``) and ``include_missing``.
        """
        return self.leaders_in(self.leaderboard_name, current_page, **options)

    def leaders_in(
        self, leaderboard_name: str, current_page: int, **options: Any
    ) -> list[MemberRow]:
        """Return a page of a named leaderboard."""
        size = options.get("page_size", self.page_size)
        offset = (max(int(current_page), 1) - 1) * size
        return self._listed(self._walk(leaderboard_name, offset, size), **options)

    members = leaders
    members_in = leaders_in

    def all_leaders(self, **options: Any) -> list[MemberRow]:
        """Return all members."""
        return self.all_leaders_from(self.leaderboard_name, **options)

    def all_leaders_from(self, leaderboard_name: str, **options: Any) -> list[MemberRow]:
        """Return all members of a named leaderboard."""
        return self._listed(self._walk(leaderboard_name, 0, None), **options)

    all_members = all_leaders
    all_members_from = all_leaders_from

    def members_from_score_range(
        self, minimum_score: Score, maximum_score: Score, **options: Any
    ) -> list[MemberRow]:
        """Return the members with scores of a range, both ends included."""
        return self.members_from_score_range_in(
            self.leaderboard_name, minimum_score, maximum_score, **options
        )

    def members_from_score_range_in(
        self, leaderboard_name: str, minimum_score: Score, maximum_score: Score, **options: Any
    ) -> list[MemberRow]:
        """Return the members of a named leaderboard with scores of a range."""
        return self._listed(
            self._between(leaderboard_name, minimum_score, maximum_score), **options
        )

    def members_from_rank_range(
        self, starting_rank: int, ending_rank: int, **options: Any
    ) -> list[MemberRow]:
        """Return the members from one place to another, both included."""
        return self.members_from_rank_range_in(
            self.leaderboard_name, starting_rank, ending_rank, **options
        )

    def members_from_rank_range_in(
        self, leaderboard_name: str, starting_rank: int, ending_rank: int, **options: Any
    ) -> list[MemberRow]:
        """Return the members of a named leaderboard from one place to another."""
        first = max(starting_rank, 1)
        found = self._walk(leaderboard_name, first - 1, max(ending_rank - first + 1, 0))
        return self._listed(found, **options)

    def top(self, number: int, **options: Any) -> list[MemberRow]:
        """Return the first so many members."""
        return self.top_in(self.leaderboard_name, number, **options)

    def top_in(self, leaderboard_name: str, number: int, **options: Any) -> list[MemberRow]:
        """Return the first so many members of a named leaderboard."""
        return self.members_from_rank_range_in(leaderboard_name, 1, number, **options)

    def member_at(self, position: int, **options: Any) -> MemberRow | None:
        """Return the member at a place; None if there is none."""
        return self.member_at_in(self.leaderboard_name, position, **options)

    def member_at_in(
        self, leaderboard_name: str, position: int, **options: Any
    ) -> MemberRow | None:
        """Return the member at a place of a named leaderboard."""
        found = self.members_from_rank_range_in(leaderboard_name, position, position, **options)
        return found[0] if found and position >= 1 else None

    def around_me(self, member: str, **options: Any) -> list[MemberRow]:
        """Return a page with a member in its middle; an empty one if it is not ranked."""
        return self.around_me_in(self.leaderboard_name, member, **options)

    def around_me_in(self, leaderboard_name: str, member: str, **options: Any) -> list[MemberRow]:
        """Return a page of a named leaderboard with a member in its middle."""
        row = self._entry(leaderboard_name, member)
        if row is None:
            return []
        size = options.get("page_size", self.page_size)
        offset = max(row.place - 1 - size // 2, 0)
        return self._listed(self._walk(leaderboard_name, offset, size), **options)

    def ranked_in_list(self, members: Sequence[str], **options: Any) -> list[MemberRow]:
        """Return some members in their order; without ``include_missing`` the ranked ones only."""
        return self.ranked_in_list_in(self.leaderboard_name, members, **options)

    def ranked_in_list_in(
        self, leaderboard_name: str, members: Sequence[str], **options: Any
    ) -> list[MemberRow]:
        """Return some members of a named leaderboard."""
        rows = self._entries(leaderboard_name, members)
        if not options.get("include_missing", True):
            members = [one for one in members if one in rows]
        return self._sorted([(one, rows.get(one)) for one in members], **options)

    # ------------------------------------------------------------- several leaderboards

    def merge_leaderboards(
        self, destination: str, keys: Sequence[str], aggregate: str = "SUM"
    ) -> None:
        """Make a leaderboard of the members of this one and of others."""
        self._combine(destination, keys, aggregate, lambda sets: set().union(*sets))

    def intersect_leaderboards(
        self, destination: str, keys: Sequence[str], aggregate: str = "SUM"
    ) -> None:
        """Make a leaderboard of the members that this one and all others have."""
        self._combine(destination, keys, aggregate, lambda sets: set.intersection(*sets))

    def _combine(
        self,
        destination: str,
        keys: Sequence[str],
        aggregate: str,
        chosen: Callable[[Sequence[set[str]]], set[str]],
    ) -> None:
        combine = _AGGREGATES[aggregate.upper()]
        every = [
            {row.player: Decimal(row.score) for row in self._walk(name, 0, None)}
            for name in (self.leaderboard_name, *keys)
        ]
        self.delete_leaderboard_named(destination)
        flat: list[Any] = []
        for member in sorted(chosen([set(scores) for scores in every])):
            flat += [member, combine(scores[member] for scores in every if member in scores)]
        self.rank_members_in(destination, flat)

    # ------------------------------------------------------------------------ reading

    def _walk(self, name: str, offset: int, limit: int | None) -> Iterator[Member]:
        """Yield the entries of a leaderboard from an offset on, so many or all."""
        found = self._found(name)
        while found is not None and limit != 0:
            together = TOGETHER_MAX if limit is None else min(limit, TOGETHER_MAX)
            rows, _ = self._store.page(found[0], offset, together)
            yield from rows
            if len(rows) < together:
                return
            offset += len(rows)
            limit = None if limit is None else limit - len(rows)

    def _between(self, name: str, minimum: Score, maximum: Score) -> Iterator[Member]:
        found = self._found(name)
        if found is None or float(minimum) > float(maximum):
            return
        board, decimals = found
        low, high = _span(minimum, maximum, decimals)
        offset = 0
        while True:
            rows, _ = self._store.between(board, low, high, offset, TOGETHER_MAX)
            yield from rows
            if len(rows) < TOGETHER_MAX:
                return
            offset += len(rows)

    def _entry(self, name: str, member: str) -> Member | None:
        return self._entries(name, [member]).get(member)

    def _entries(self, name: str, members: Sequence[str]) -> dict[str, Member]:
        found = self._found(name)
        return {} if found is None else self._rows(found[0], members)

    def _rows(self, board: str, members: Sequence[str]) -> dict[str, Member]:
        distinct = list(dict.fromkeys(members))
        rows: dict[str, Member] = {}
        for start in range(0, len(distinct), TOGETHER_MAX):
            some = distinct[start : start + TOGETHER_MAX]
            rows |= {row.player: row for row in self._store.find(board, some)}
        return rows

    def _listed(
        self, rows: Iterable[Member], *, members_only: bool = False, **options: Any
    ) -> list[MemberRow]:
        if members_only:
            return [{self.MEMBER_KEY: row.player} for row in rows]
        return self._sorted([(row.player, row) for row in rows], **options)

    def _sorted(
        self,
        members: Iterable[tuple[str, Member | None]],
        *,
        with_member_data: bool = False,
        sort_by: str | None = None,
        **_options: Any,
    ) -> list[MemberRow]:
        rows = []
        for member, entry in members:
            row = self._row(member, entry)
            if with_member_data:
                row[self.MEMBER_DATA_KEY] = None if entry is None else entry.data
            rows.append(row)
        if sort_by in (self.RANK_KEY, self.SCORE_KEY):
            missing = -math.inf if self.order == self.ASC else math.inf
            rows.sort(key=lambda row: missing if row[sort_by] is None else row[sort_by])
        return rows

    def _row(self, member: str, entry: Member | None) -> MemberRow:
        return {
            self.MEMBER_KEY: member,
            self.SCORE_KEY: None if entry is None else float(entry.score),
            self.RANK_KEY: None if entry is None else entry.rank,
        }


def _span(minimum: Score, maximum: Score, decimals: int) -> tuple[Decimal | None, Decimal | None]:
    return _bound(minimum, decimals, ROUND_CEILING), _bound(maximum, decimals, ROUND_FLOOR)


def _text_of(member_data: object) -> str | None:
    """Return member data as it is kept: text, as the other library keeps it."""
    return str(member_data) if member_data else None


class TieRankingLeaderboard(Leaderboard):
    """A leaderboard where equal scores share a rank, and the next one follows: 1-1-2."""

    ties: ClassVar[str] = "dense"


class CompetitionRankingLeaderboard(Leaderboard):
    """A leaderboard where equal scores share a rank, and the next ones are left out: 1-1-3."""

    ties: ClassVar[str] = "standard"
