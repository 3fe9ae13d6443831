"""Handlers of ledger time: read the clock and confirm a step of it."""

from typing import Annotated

import msgspec

from rankd import schemas
from rankd.api.context import ServiceContext, show_time
from rankd.api.messages import Request, Response, decode_body
from rankd.api.routing import Route
from rankd.core.steady_clock import ClockOffset
from rankd.core.time_correction import Corrected
from rankd.errors import FieldError, InvalidProfile, InvalidRequest
from rankd.model.facts import Position, WindowsCorrected
from rankd.model.profile import read_reason

AHEAD_SECONDS_MAX = 300 * 365 * 86_400
"""Three hundred years; clocks end before."""

_MICROSECONDS = 1_000_000


async def get_clock(service: ServiceContext, request: Request) -> Response:
    """Return ledger time, the machine's clock, and a step of it that is not yet accepted."""
    service.auth.admit(request, "admin")
    return Response(schemas.encode(_shown(service)))


async def confirm_clock(service: ServiceContext, request: Request) -> Response:
    """Accept a step of the clock now instead of once it has lasted.

    Without such a step nothing is changed. Each node has a clock of its own to confirm.
    """
    service.auth.admit(request, "admin")
    step = service.writer.confirm_clock()
    return Response(schemas.encode(_shown(service, confirmed=step)))


class ClockCorrection(msgspec.Struct, forbid_unknown_fields=True):
    """From which position on the time was wrong, and by how much."""

    first: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """The first fact that is later than the clock if it is absent."""
    ahead_seconds: float | None = None
    """The jump of the time at that position if it is absent."""
    reason: str | None = None
    dry_run: bool = False


async def correct_clock(service: ServiceContext, request: Request) -> Response:
    """Undo the effects of a wrong time on windows, from a position on.

    The clock must be right again. Submissions recorded since then count in the windows of their
    right time, windows that retention dropped come back, and ledger time goes on from the clock.
    """
    actor = service.auth.admit(request, "admin")
    asked = decode_body(request, ClockCorrection)
    first = None if asked.first is None else Position(asked.first)
    ahead = None if asked.ahead_seconds is None else _microseconds(asked.ahead_seconds)
    rankd, reason = service.writer, read_reason(asked.reason)
    if asked.dry_run:
        done = await rankd.preview_correction(first=first, ahead=ahead)
    else:
        done = await rankd.correct_time(first=first, ahead=ahead, actor=actor.name, reason=reason)
    return Response(schemas.encode(await _correction(service, done)))


def _microseconds(seconds: float) -> int:
    if not 0 <= seconds <= AHEAD_SECONDS_MAX:
        message = f"must be from 0 to {AHEAD_SECONDS_MAX}"
        raise InvalidRequest([FieldError("ahead_seconds", message)])
    return round(seconds * _MICROSECONDS)


async def _correction(service: ServiceContext, done: Corrected) -> schemas.Correction:
    first = done.wrong.first
    facts = await service.ledger.read(after=Position(max(first - 2, 0)), limit=2)
    return schemas.Correction(
        dry_run=done.position is None,
        first=first,
        first_time=show_time(facts[-1].at) or "",
        previous_time=show_time(facts[0].at) if first > 1 else None,
        ahead_seconds=done.wrong.ahead / _MICROSECONDS,
        submissions=done.submissions,
        boards=[_board(fact) for fact in done.boards],
        position=done.position,
    )


def _board(fact: WindowsCorrected) -> schemas.CorrectedBoard:
    return schemas.CorrectedBoard(
        fact.board,
        [window.window for window in fact.windows],
        [window.window for window in fact.closed],
        list(fact.removed),
    )


def _shown(service: ServiceContext, confirmed: ClockOffset | None = None) -> schemas.ClockBody:
    view, clock = service.rankd, service.rankd.clock
    time, step = view.ledger_time, clock.step
    return schemas.ClockBody(
        ledger_time=show_time(time) or "",
        machine_time=show_time(clock.wall.now()) or "",
        offset_seconds=view.clock_offset / _MICROSECONDS,
        step=None if step is None else _step(step, clock.doubted_seconds(), clock.lasting_seconds),
        problem=view.clock_problem,
        confirmed_seconds=None if confirmed is None else confirmed.offset / _MICROSECONDS,
    )


def _step(step: ClockOffset, seen_seconds: float, lasting_seconds: float) -> schemas.ClockStep:
    return schemas.ClockStep(step.offset / _MICROSECONDS, seen_seconds, lasting_seconds)


ROUTES = (
    Route(
        method="GET",
        path="/v1/clock",
        operation="get_clock",
        handler=get_clock,
        scope="admin",
        responses={200: schemas.ClockBody},
    ),
    Route(
        method="POST",
        path="/v1/clock:confirm",
        operation="confirm_clock",
        handler=confirm_clock,
        scope="admin",
        writes=True,
        responses={200: schemas.ClockBody},
    ),
    Route(
        method="POST",
        path="/v1/clock:correct",
        operation="correct_clock",
        handler=correct_clock,
        scope="admin",
        body=ClockCorrection,
        writes=True,
        responses={200: schemas.Correction},
        errors=(InvalidProfile,),
    ),
)
