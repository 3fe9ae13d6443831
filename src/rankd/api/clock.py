"""Handlers of ledger time: read the clock and confirm a step of it."""

from rankd import wire
from rankd.api.exchange import Request, Response
from rankd.api.routes import Route
from rankd.api.service import Service, show_time
from rankd.core.steady_clock import Step

_MICROSECONDS = 1_000_000


async def get_clock(service: Service, request: Request) -> Response:
    """Return ledger time, the machine's clock, and a step of it that is not yet accepted."""
    service.gate.admit(request, "admin")
    return Response(wire.encode(_shown(service)))


async def confirm_clock(service: Service, request: Request) -> Response:
    """Accept a step of the clock now instead of once it has lasted.

    Without such a step nothing is changed. Each node has a clock of its own to confirm.
    """
    service.gate.admit(request, "admin")
    step = service.writer.confirm_clock()
    return Response(wire.encode(_shown(service, confirmed=step)))


def _shown(service: Service, confirmed: Step | None = None) -> wire.ClockBody:
    view, clock = service.rankd, service.rankd.clock
    time, step = view.ledger_time, clock.step
    return wire.ClockBody(
        ledger_time=show_time(time) or "",
        machine_time=show_time(clock.wall.now()) or "",
        offset_seconds=view.clock_offset / _MICROSECONDS,
        step=None if step is None else _step(step, clock.doubted_seconds(), clock.lasting_seconds),
        problem=view.clock_problem,
        confirmed_seconds=None if confirmed is None else confirmed.offset / _MICROSECONDS,
    )


def _step(step: Step, seen_seconds: float, lasting_seconds: float) -> wire.ClockStep:
    return wire.ClockStep(step.offset / _MICROSECONDS, seen_seconds, lasting_seconds)


ROUTES = (
    Route(
        method="GET",
        path="/v1/clock",
        operation="get_clock",
        handler=get_clock,
        scope="admin",
        responses={200: wire.ClockBody},
    ),
    Route(
        method="POST",
        path="/v1/clock:confirm",
        operation="confirm_clock",
        handler=confirm_clock,
        scope="admin",
        writes=True,
        responses={200: wire.ClockBody},
    ),
)
