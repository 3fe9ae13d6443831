"""The moment that a read is of: the present, a past position, or a past time."""

from collections.abc import Mapping
from typing import TypedDict

from rankd.core.read_engine import ReadEngine
from rankd.core.reader import Reader
from rankd.errors import FieldError, InvalidPage
from rankd.model.submission import A_TIME, read_instant
from rankd.model.window import Instant


class Then(TypedDict, total=False):
    """A past moment: one of a position and a time; the present without either."""

    as_of: int | None
    at: str | None


class Compared(Then, total=False):
    """The same, and a baseline: a position, a duration as ``24h``, or a window as ``daily:-1``."""

    baseline: int | str | None


async def past_reader(
    rankd: ReadEngine,
    board: str,
    moment: Mapping[str, object],
    window: str | None,
    segment: str | None,
) -> Reader:
    """Return a reader of one ranking as it was. Raises InvalidPage, TooOld and PastOutOfReach."""
    as_of = moment.get("as_of")
    if as_of is not None and (not isinstance(as_of, int) or isinstance(as_of, bool)):
        raise InvalidPage([FieldError("as_of", "must be a position, a whole number")])
    found = await rankd.past.moment(as_of, _time(moment.get("at")))
    return await rankd.past.reader(board, found, window=window, segment=segment)


def _time(at: object) -> Instant | None:
    if at is None:
        return None
    try:
        return read_instant(str(at))
    except ValueError:
        raise InvalidPage([FieldError("at", f"must be {A_TIME}")]) from None
