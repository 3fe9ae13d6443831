"""Webhooks: handlers that set and list them, show their deliveries, and replay events."""

import msgspec
from msgspec import UNSET

from rankd import schemas
from rankd.api.context import ServiceContext, show_time
from rankd.api.messages import Request, Response, decode_body
from rankd.api.routing import Route
from rankd.core.engine import Engine
from rankd.core.webhook_delivery import Delivery
from rankd.core.webhooks import Webhook
from rankd.errors import FieldError, InvalidRequest, LedgerUnavailable, UnknownWebhook
from rankd.model.facts import Position


class WebhookRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Where events are posted to, and which."""

    url: str
    events: list[str]
    boards: list[str] | None = None


class ReplayRequest(msgspec.Struct, forbid_unknown_fields=True, rename={"first": "from"}):
    """From which position on events are delivered again."""

    first: int


def show_webhook(webhook: Webhook, secret: str | None = None) -> schemas.WebhookBody:
    """Return a webhook as answers show it."""
    state = "failing" if webhook.stopped else "delivering"
    if webhook.failing_since is not None and not webhook.stopped:
        state = "retrying"
    return schemas.WebhookBody(
        name=webhook.name,
        url=webhook.url,
        events=list(webhook.events),
        boards=["*"] if webhook.boards is None else list(webhook.boards),
        state=state,
        failing_since=show_time(webhook.failing_since),
        delivered_through=webhook.cursor,
        secret=UNSET if secret is None else secret,
    )


async def put_webhook(service: ServiceContext, request: Request) -> Response:
    """Post events of boards to an address from now on, or to another one than before.

    The answer that creates a webhook has its secret, which is not shown again. A webhook that is
    there keeps its secret and goes on where it is; one that was given up is tried again.
    """
    actor = service.auth.admit(request, "admin")
    asked = decode_body(request, WebhookRequest)
    webhook, secret = await service.writer.webhooks.set(
        request.params["webhook"],
        url=asked.url,
        events=asked.events,
        boards=asked.boards,
        actor=actor.name,
    )
    body = schemas.encode(show_webhook(webhook, secret))
    return Response(body, 200 if secret is None else 201)


async def get_webhook(service: ServiceContext, request: Request) -> Response:
    """Return a webhook, without its secret."""
    service.auth.admit(request, "admin")
    name = request.params["webhook"]
    webhook = service.rankd.state.webhooks.get(name)
    if webhook is None:
        raise UnknownWebhook(name)
    return Response(schemas.encode(show_webhook(webhook)))


async def list_webhooks(service: ServiceContext, request: Request) -> Response:
    """Return all webhooks, without their secrets."""
    service.auth.admit(request, "admin")
    known = sorted(service.rankd.state.webhooks.values(), key=lambda one: one.name)
    return Response(schemas.encode(schemas.Webhooks([show_webhook(one) for one in known])))


async def delete_webhook(service: ServiceContext, request: Request) -> Response:
    """Remove a webhook: nothing is posted for it any more."""
    actor = service.auth.admit(request, "admin")
    name = request.params["webhook"]
    position = await service.writer.webhooks.remove(name, actor=actor.name)
    return Response(schemas.encode(schemas.Done(position)))


async def replay_webhook(service: ServiceContext, request: Request) -> Response:
    """Deliver the events from a position on again, and those that were given up.

    They have the ids that they had. Those of before the webhook was created are delivered, too.
    """
    actor = service.auth.admit(request, "admin")
    first = decode_body(request, ReplayRequest).first
    if not 1 <= first <= service.writer.position + 1:
        message = f"must be a position, from 1 to {service.writer.position + 1}"
        raise InvalidRequest([FieldError("from", message)])
    name, after = request.params["webhook"], Position(first - 1)
    position = await service.writer.webhooks.rewind(name, after, actor=actor.name)
    return Response(schemas.encode(schemas.Done(position)))


async def list_deliveries(service: ServiceContext, request: Request) -> Response:
    """Return the last deliveries of a webhook, newest first.

    The node that delivers has those of the moment, the others those that it has recorded, which it
    does every ten seconds. After a start of a single node the list is empty.
    """
    service.auth.admit(request, "admin")
    if not isinstance(service.engine, Engine):
        raise LedgerUnavailable("the process that delivers cannot be asked", applied="no")
    found = service.engine.webhooks.deliveries(request.params["webhook"])
    return Response(schemas.encode(schemas.Deliveries([show_delivery(one) for one in found])))


def show_delivery(delivery: Delivery) -> schemas.DeliveryItem:
    """Return a delivery as answers show it."""
    return schemas.DeliveryItem(
        id=delivery.event.id,
        type=delivery.event.name,
        board=delivery.event.board,
        position=delivery.event.position,
        state=delivery.state,
        attempts=delivery.attempts,
        status=delivery.status,
        problem=delivery.problem,
        tried_at=show_time(delivery.tried_at) or "",
        next_try=show_time(delivery.next_try),
    )


_PATH = "/v1/webhooks/{webhook}"

ROUTES = (
    Route(
        method="PUT",
        path=_PATH,
        operation="put_webhook",
        handler=put_webhook,
        scope="admin",
        body=WebhookRequest,
        writes=True,
        responses={200: schemas.WebhookBody, 201: schemas.WebhookBody},
    ),
    Route(
        method="GET",
        path=_PATH,
        operation="get_webhook",
        handler=get_webhook,
        scope="admin",
        responses={200: schemas.WebhookBody},
        errors=(UnknownWebhook,),
    ),
    Route(
        method="DELETE",
        path=_PATH,
        operation="delete_webhook",
        handler=delete_webhook,
        scope="admin",
        writes=True,
        responses={200: schemas.Done},
        errors=(UnknownWebhook,),
    ),
    Route(
        method="GET",
        path="/v1/webhooks",
        operation="list_webhooks",
        handler=list_webhooks,
        scope="admin",
        responses={200: schemas.Webhooks},
    ),
    Route(
        method="GET",
        path=f"{_PATH}/deliveries",
        operation="list_deliveries",
        handler=list_deliveries,
        scope="admin",
        gathers=True,
        responses={200: schemas.Deliveries},
        errors=(UnknownWebhook,),
    ),
    Route(
        method="POST",
        path=f"{_PATH}:replay",
        operation="replay_webhook",
        handler=replay_webhook,
        scope="admin",
        body=ReplayRequest,
        writes=True,
        responses={200: schemas.Done},
        errors=(UnknownWebhook,),
    ),
)
