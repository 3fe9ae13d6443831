"""Handlers for operators: liveness, readiness and metrics."""

from collections.abc import Iterator

from rankd import schemas
from rankd.api.context import ServiceContext
from rankd.api.messages import Request, Response
from rankd.api.metrics import scrape
from rankd.api.routing import INGEST, QUERY, Route

METRICS_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


async def healthz(service: ServiceContext, request: Request) -> Response:
    """Return 200: the process answers."""
    del request
    return _health(service, "ok", 200)


async def readyz(service: ServiceContext, request: Request) -> Response:
    """Return 200 if requests should be sent here, else 503 with the problem."""
    del request
    if service.stopping():
        return _health(service, "stopping", 503, "the service is stopping")
    if service.rankd.ended:
        problem = f"the ledger failed ({service.rankd.ledger_failure}); restart to recover"
        return _health(service, "failed", 503, problem)
    failing = service.rankd.loop_problems
    problems = [*_problems(service), *failing]
    if not problems:
        return _health(service, "ready", 200)
    if failing or not _answers(service):
        return _health(service, "unavailable", 503, "; ".join(problems))
    return _health(service, "degraded", 200, "; ".join(problems))


def _answers(service: ServiceContext) -> bool:
    """Whether this node still answers reads or writes that its role includes."""
    reads = service.rankd.readable and service.role != INGEST
    return reads or (service.writable and service.role != QUERY)


def _problems(service: ServiceContext) -> Iterator[str]:
    """Yield each failure: the part, the reason and the effect on requests."""
    view = service.rankd
    if (lost := view.ledger_failure) is not None:
        yield f"the ledger is lost ({lost}): {_writes(service)}, and reads may be stale"
    if (lost := view.index_failure) is not None:
        means = [] if view.readable else ["reads are refused"]
        if view.ledger_failure is None:
            means.insert(0, "scores are recorded, and counted when it is back")
        shown = f": {', '.join(means)}" if means else ""
        yield f"the index is lost or behind ({lost}){shown}"
    if (wrong := view.clock_problem) is not None:
        yield wrong


def _writes(service: ServiceContext) -> str:
    """Return the effect of a lost ledger on writes."""
    if not service.writable:
        return "writes are refused"
    spooled = service.rankd.spooled
    now = "" if spooled is None else f" ({spooled.waiting:,} now)"
    return f"scores wait on this node's disk{now}, other writes are refused"


def _health(
    service: ServiceContext, status: str, code: int, problem: str | None = None
) -> Response:
    notes = None if service.engine is None else list(service.engine.notes) or None
    body = schemas.Health(status, service.rankd.position, service.durable, problem, notes)
    return Response(schemas.encode(body), code)


async def metrics(service: ServiceContext, request: Request) -> Response:
    """Return the metrics of all processes, for Prometheus."""
    del request
    return Response(await scrape(service), content_type=METRICS_TYPE)


ROUTES = (
    Route(
        method="GET",
        path="/healthz",
        operation="healthz",
        handler=healthz,
        responses={200: schemas.Health},
    ),
    Route(
        method="GET",
        path="/readyz",
        operation="readyz",
        handler=readyz,
        responses={200: schemas.Health, 503: schemas.Health},
    ),
    Route(method="GET", path="/metrics", operation="metrics", handler=metrics, gathers=True),
)
