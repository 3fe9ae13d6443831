"""A transport that asks a function instead of a network."""

from collections.abc import Callable

from rankd.http_client import HttpRequest, HttpResponse

Answer = Callable[[HttpRequest], HttpResponse]


class StandIn:
    """Answers every request by a function, which may raise TransportError."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def send(self, request: HttpRequest) -> HttpResponse:
        return self._answer(request)

    def close(self) -> None:
        """Nothing is open."""


class AsyncStandIn:
    """The same for tasks."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    async def send(self, request: HttpRequest) -> HttpResponse:
        return self._answer(request)

    async def close(self) -> None:
        """Nothing is open."""


def ok(body: bytes, status: int = 200) -> HttpResponse:
    return HttpResponse(status, {}, body)


def sent_json(request: HttpRequest) -> bytes:
    assert request.body is not None
    return request.body
