"""What those ask who run it: is it alive, can it answer, how is it doing, what can be asked."""

from rankd import wire
from rankd.api.exchange import HTML, Request, Response
from rankd.api.metrics import render
from rankd.api.openapi import DOCS_PAGE, document
from rankd.api.routes import Route
from rankd.api.service import Service
from rankd.errors import IndexUnavailable, RankdError

METRICS_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


async def healthz(service: Service, request: Request) -> Response:
    """Say that the process answers."""
    del request
    return _health(service, "ok", 200)


async def readyz(service: Service, request: Request) -> Response:
    """Say whether requests should be sent here."""
    del request
    if service.stopping():
        return _health(service, "stopping", 503, "the service is stopping")
    if service.engine is not None and service.engine.ended:
        return _health(service, "failed", 503, "the ledger failed; restart to recover")
    if service.rankd.failure is not None:
        return _health(service, "degraded", 200, _problem(service.rankd.failure))
    return _health(service, "ready", 200)


def _problem(failure: RankdError) -> str:
    if isinstance(failure, IndexUnavailable):
        return "the index cannot be reached: scores are recorded, and counted when it is back"
    return "the ledger cannot be reached: writes are refused, and reads may be stale"


def _health(service: Service, status: str, code: int, problem: str | None = None) -> Response:
    body = wire.Health(status, service.rankd.position, service.durable, problem)
    return Response(wire.encode(body), code)


async def metrics(service: Service, request: Request) -> Response:
    """Return figures for Prometheus."""
    del request
    return Response(render(service), content_type=METRICS_TYPE)


async def openapi(service: Service, request: Request) -> Response:
    """Return the description of every route."""
    del service, request
    return Response(document(), cache_control=b"public, max-age=300")


async def docs(service: Service, request: Request) -> Response:
    """Return the description of every route as a page that needs nothing from elsewhere."""
    del service, request
    return Response(DOCS_PAGE(), content_type=HTML, cache_control=b"public, max-age=300")


ROUTES = (
    Route(
        method="GET",
        path="/healthz",
        operation="healthz",
        handler=healthz,
        responses={200: wire.Health},
    ),
    Route(
        method="GET",
        path="/readyz",
        operation="readyz",
        handler=readyz,
        responses={200: wire.Health, 503: wire.Health},
    ),
    Route(method="GET", path="/metrics", operation="metrics", handler=metrics),
    Route(method="GET", path="/openapi.json", operation="openapi", handler=openapi),
    Route(method="GET", path="/docs", operation="docs", handler=docs),
)
