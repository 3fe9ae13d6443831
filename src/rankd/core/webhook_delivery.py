"""Delivery of events: posted to webhooks at least once, in order, from the ledger.

The state has the places of events; their facts are read from the ledger when their turn comes. So
nothing is lost while a receiver, or this process, is down. Each webhook is one stream: an event is
tried until it is taken, then the next one, so the order holds for each board.

How far each stream got is recorded now and then (``WebhooksSent``). Events that were delivered
after that are delivered again after a crash, under the same id. Among nodes the one that holds the
lease delivers for all; it renews the lease while there is something to deliver, and when it dies
another one takes it and goes on from the recorded positions.
"""

import asyncio
import inspect
import logging
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeGuard

import msgspec

from rankd.core.events import EventReader, Occurrence
from rankd.core.state import State
from rankd.core.webhooks import DELIVERIES_KEPT_MAX, EVENTS, HELD_EVENT, Event, Webhook
from rankd.core.writer import Writer
from rankd.errors import FieldError, InvalidRequest, RankdError, UnknownWebhook
from rankd.model.board import BOARD_NAME_LENGTH_MAX, NAME
from rankd.model.facts import (
    DeliveryRecord,
    DeliveryState,
    Position,
    WebhookProgress,
    WebhookRemoved,
    WebhookRewound,
    WebhookSet,
    WebhooksSent,
)
from rankd.model.urls import URL_FORM, valid_url
from rankd.model.window import Instant
from rankd.ports import Ledger, Message, MessageSender
from rankd.signatures import new_webhook_secret

WEBHOOKS_MAX = 100

WEBHOOK_BOARDS_MAX = 100
"""Names of boards that one webhook may have; ``*`` stands for all."""

LOOK_SECONDS = 0.5

SEND_SECONDS_MAX = 15.0
"""Until an answer is complete; after that the event is tried again."""

RETRY_SECONDS_MIN, RETRY_SECONDS_MAX = 5.0, 3600.0
"""How soon an event is tried again: doubled each time."""

GIVE_UP_SECONDS = 3 * 86_400
"""How long every try may fail until a webhook is given up."""

LEASE_SECONDS = 30.0
"""How long after the death of a node another one delivers in its place."""

RECORD_SECONDS, RECORD_SECONDS_MIN = 10.0, 1.0
"""The interval at which progress is recorded while there is more to deliver, and at the end."""

STOP_SECONDS = 2.0
"""How long the last progress may take to be recorded at the end."""

DELIVERIES_RECORDED_MAX = 20
"""Tries of each webhook that one record has, for the other nodes: the last ones."""

_log = logging.getLogger(__name__)

_encode = msgspec.json.Encoder(decimal_format="number").encode


@dataclass(slots=True)
class Delivery:
    """An event on its way to a webhook, or delivered."""

    event: Event
    state: DeliveryState = "retrying"
    attempts: int = 0
    status: int | None = None
    """The status of the last answer; None if there was none."""
    problem: str | None = None
    tried_at: Instant = 0
    next_try: Instant | None = None

    @classmethod
    def of(cls, record: DeliveryRecord) -> "Delivery":
        """Return a delivery as a node has recorded it."""
        event = Event(record.position, record.event, record.board, record.row)
        tried = (record.status, record.problem, record.tried_at, record.next_try)
        return cls(event, record.state, record.attempts, *tried)

    def record(self) -> DeliveryRecord:
        """Return it to be recorded."""
        position, name, board, row = self.event
        tried = (self.status, self.problem, self.tried_at, self.next_try)
        return DeliveryRecord(position, name, board, row, self.state, self.attempts, *tried)


class WebhookStream:
    """How far one webhook got in this process."""

    def __init__(self, webhook: Webhook, deliveries: deque[Delivery]) -> None:
        self.webhook = webhook
        self.deliveries = deliveries
        self.tried: dict[str, Delivery] = {}
        """Deliveries that were tried since the last record, by the ids of their events."""
        self.cursor = webhook.cursor
        self.part = webhook.part
        """A position behind the cursor, and the row before which its events were delivered."""
        self.seen = webhook.cursor
        """No event that it wants is between the cursor and here."""
        self.failing_since, self.stopped = webhook.failing_since, webhook.stopped
        self.pause, self.due = 0.0, 0.0
        """The pause before the next try, and its time by the loop's clock."""
        self.task: asyncio.Task[None] | None = None

    @property
    def progress(self) -> WebhookProgress:
        """How far it got, to be recorded."""
        changed, failing = self.webhook.changed, self.failing_since
        part = self.part if self.part[0] > self.cursor else (Position(0), 0)
        return WebhookProgress(changed, self.cursor, failing, self.stopped, part)

    @property
    def start(self) -> Position:
        """The position after which its next event is looked for."""
        return max(self.cursor, self.seen)

    def is_done(self, event: Event) -> bool:
        """Whether an event behind the cursor was delivered."""
        position, row = self.part
        return event.position == position and (event.row or 0) < row

    def advance(self, occurrence: Occurrence) -> None:
        """Note that an event was delivered."""
        event = occurrence.event
        if occurrence.last:
            self.cursor = event.position
        else:
            self.part = event.position, (event.row or 0) + 1

    def delivery_of(self, event: Event) -> Delivery:
        """Return the delivery of an event, which goes on if it was tried before."""
        if (
            not self.deliveries
            or self.deliveries[-1].event != event
            or (self.deliveries[-1].state == "delivered")
        ):
            self.deliveries.append(Delivery(event))
        self.tried[event.id] = self.deliveries[-1]
        return self.deliveries[-1]


def progress_of(webhook: Webhook) -> WebhookProgress:
    """Return the recorded progress of a webhook."""
    changed, failing = webhook.changed, webhook.failing_since
    return WebhookProgress(changed, webhook.cursor, failing, webhook.stopped, webhook.part)


class WebhookDelivery:
    """Sets webhooks, and delivers their events."""

    def __init__(self, ledger: Ledger, writer: Writer, node: str | None = None) -> None:
        self._ledger, self._writer = ledger, writer
        self.reader = EventReader(ledger, lambda: self._state, lambda: writer.projector.checkpoint)
        self.node = node or secrets.token_hex(8)
        """Of this process: nodes may have the same name."""
        self.sender: MessageSender | None = None
        """None to deliver nothing."""
        self.delivered = self.failed = 0
        """Tries that succeeded and that did not, since the start."""
        self._streams: dict[str, WebhookStream] = {}
        self._leads = not ledger.shared
        self._recorded_at = 0.0
        self._woken = asyncio.Event()

    @property
    def _state(self) -> State:
        return self._writer.projector.state

    # ------------------------------------------------------------------- definition

    async def set(
        self,
        name: str,
        *,
        url: object,
        events: object,
        boards: object = None,
        actor: str | None = None,
    ) -> tuple[Webhook, str | None]:
        """Define a webhook; return it, with its secret if it is new. Raises InvalidRequest."""
        read = self._read(name, url, events, boards)
        known = self._state.webhooks.get(name)
        if known is not None and not known.stopped and _fields(known) == read:
            return known, None
        secret = new_webhook_secret() if known is None else None
        fact = WebhookSet(name, *read, None if secret is None else secret.encode(), actor)
        await self._writer.put([fact])
        known = await self._folded(name)
        mine = secret is not None and known.secret == secret.encode()
        return known, secret if mine else None

    async def _folded(self, name: str) -> Webhook:
        while (known := self._state.webhooks.get(name)) is None:
            await self._writer.see_others()  # The index is out of reach, or behind.
            await asyncio.sleep(0)
        return known

    def _read(
        self, name: str, url: object, events: object, boards: object
    ) -> tuple[str, tuple[str, ...], tuple[str, ...] | None]:
        errors = list(self._errors(name, url, events, boards))
        if errors:
            raise InvalidRequest(errors)
        assert isinstance(url, str) and isinstance(events, list | tuple)
        assert boards is None or isinstance(boards, list | tuple)
        chosen = tuple(event for event in EVENTS if event in events)
        every = boards is None or "*" in boards
        return url, chosen, None if every else tuple(dict.fromkeys(boards or ()))

    def _errors(
        self, name: str, url: object, events: object, boards: object
    ) -> Iterator[FieldError]:
        if not _is_name(name):
            message = f"must be 1 to {BOARD_NAME_LENGTH_MAX} letters, digits, and . _ -"
            yield FieldError("name", message)
        if name not in self._state.webhooks and len(self._state.webhooks) >= WEBHOOKS_MAX:
            yield FieldError("", f"there may be at most {WEBHOOKS_MAX} webhooks")
        if not valid_url(url):
            yield FieldError("url", URL_FORM)
        elif self.sender is not None and (problem := self.sender.problem(str(url))):
            yield FieldError("url", problem)
        if not _are_texts(events) or any(one not in EVENTS for one in events):
            yield FieldError("events", f"must be some of {', '.join(EVENTS)}")
        if boards is not None and not _are_boards(boards):
            message = f'must be 1 to {WEBHOOK_BOARDS_MAX} names of boards, or ["*"] for all'
            yield FieldError("boards", message)

    async def remove(self, name: str, *, actor: str | None = None) -> Position:
        """Remove a webhook. Raises UnknownWebhook."""
        self.known(name)
        (answer,) = await self._writer.put([WebhookRemoved(name, actor)])
        return answer.position

    async def rewind(self, name: str, after: Position, *, actor: str | None = None) -> Position:
        """Deliver the events after a position again. Raises UnknownWebhook."""
        self.known(name)
        (answer,) = await self._writer.put([WebhookRewound(name, after, actor)])
        self._woken.set()
        return answer.position

    def known(self, name: str) -> Webhook:
        """Return a webhook. Raises UnknownWebhook."""
        if (webhook := self._state.webhooks.get(name)) is None:
            raise UnknownWebhook(name)
        return webhook

    def deliveries(self, name: str) -> list[Delivery]:
        """Return the last deliveries of a webhook, newest first. Raises UnknownWebhook.

        Those of other nodes as far as they are recorded.
        """
        self.known(name)
        stream = self._streams.get(name)
        if stream is not None and self._leads:
            return list(reversed(stream.deliveries))
        return [Delivery.of(one) for one in reversed(self._state.deliveries.get(name, ()))]

    def is_waiting(self, webhook: Webhook) -> bool:
        """Whether there are events that it did not get yet."""
        stream = self._streams.get(webhook.name)
        ours = stream is not None and stream.webhook.changed == webhook.changed
        return self._has_more(webhook, stream.start if ours and stream else webhook.cursor)

    def _has_more(self, webhook: Webhook, cursor: Position) -> bool:
        return self.reader.has_more(cursor, webhook.wants, HELD_EVENT in webhook.events)

    # --------------------------------------------------------------------- delivery

    async def run(self) -> None:
        """Deliver until the engine stops."""
        try:
            while True:
                self._woken.clear()
                try:
                    await self._step()
                except RankdError as exc:
                    _log.debug("progress of webhooks cannot be recorded yet: %s", exc)
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._woken.wait()
        finally:
            await self._pause()
            await self._release()

    async def _pause(self) -> None:
        tasks = [stream.task for stream in self._streams.values() if stream.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _release(self) -> None:
        """Record the last progress, and leave delivery to other nodes."""
        if self._leads and (self._unrecorded() or self._ledger.shared):
            with suppress(RankdError, TimeoutError):
                async with asyncio.timeout(STOP_SECONDS):
                    await self._record(seconds=0)

    async def _step(self) -> None:
        self._follow_state()
        busy = [stream for stream in self._streams.values() if self._is_busy(stream)]
        if self._ledger.shared and not await self._lead(wanted=bool(busy)):
            await self._pause()
            return
        time = asyncio.get_running_loop().time()
        for stream in busy:
            if stream.task is None and time >= stream.due:
                stream.task = asyncio.create_task(self._deliver(stream))
        pause = RECORD_SECONDS if busy else RECORD_SECONDS_MIN
        if time - self._recorded_at >= pause and (self._unrecorded() or self._tried()):
            await self._record()

    def _is_busy(self, stream: WebhookStream) -> bool:
        """Whether a stream has events to deliver."""
        if stream.stopped:
            return False
        checkpoint = self.reader.checkpoint()
        if self._has_more(stream.webhook, stream.start):
            return True
        stream.seen = max(stream.seen, checkpoint)
        return False

    def _follow_state(self) -> None:
        """Have a stream for each webhook, from where it was recorded if others deliver."""
        for name in self._streams.keys() - self._state.webhooks.keys():
            self._drop(self._streams.pop(name))
        for name, webhook in self._state.webhooks.items():
            stream = self._streams.get(name)
            if stream is not None and self._leads and stream.webhook.changed == webhook.changed:
                continue
            recorded = map(Delivery.of, self._state.deliveries.get(name, ()))
            kept = deque(recorded, maxlen=DELIVERIES_KEPT_MAX)
            if stream is not None:
                self._drop(stream)
                kept = stream.deliveries
            self._streams[name] = WebhookStream(webhook, kept)

    def _drop(self, stream: WebhookStream) -> None:
        if stream.task is not None:
            stream.task.cancel()

    async def _lead(self, *, wanted: bool) -> bool:
        """Whether this node delivers; take the lease, or renew it, if that is wanted."""
        lease, now = self._state.webhook_lease, self._writer.now()
        mine = lease is not None and lease.node == self.node
        left = 0.0 if lease is None else (lease.until - now) / 1_000_000
        if wanted and (left <= 0 or (mine and left < LEASE_SECONDS - RECORD_SECONDS)):
            self._leads = self._leads and mine
            await self._record()
        led, self._leads = self._leads, self._holds()
        if self._leads and not led:  # The streams begin where the node before has come to.
            for stream in self._streams.values():
                self._drop(stream)
            self._streams.clear()
            self._woken.set()
        return self._leads and led

    def _holds(self) -> bool:
        """Whether no other node may deliver before a try would be over."""
        if not self._ledger.shared:
            return True
        lease = self._state.webhook_lease
        if lease is None or lease.node != self.node:
            return False
        return (lease.until - self._writer.now()) / 1_000_000 >= SEND_SECONDS_MAX

    def _unrecorded(self) -> dict[str, WebhookProgress]:
        known = self._state.webhooks
        return {
            name: stream.progress
            for name, stream in self._streams.items()
            if name in known and stream.progress != progress_of(known[name])
        }

    def _tried(self) -> dict[str, tuple[DeliveryRecord, ...]]:
        """Return the last tries that are not recorded yet, for other nodes."""
        if not (self._ledger.shared and self._leads):
            return {}
        return {
            name: tuple(
                one.record() for one in list(stream.tried.values())[-DELIVERIES_RECORDED_MAX:]
            )
            for name, stream in self._streams.items()
            if stream.tried and name in self._state.webhooks
        }

    async def _record(self, seconds: float = LEASE_SECONDS) -> None:
        self._recorded_at = asyncio.get_running_loop().time()
        until = self._writer.now() + int(seconds * 1_000_000) if self._ledger.shared else 0
        progress = self._unrecorded() if self._leads else {}
        tried = self._tried()
        for stream in self._streams.values():
            stream.tried.clear()
        await self._writer.put([WebhooksSent(self.node, until, progress, tried)])

    async def _deliver(self, stream: WebhookStream) -> None:
        try:
            found, through = await self.reader.next(stream.start, stream.webhook.wants)
            for occurrence in found:
                if stream.is_done(occurrence.event):
                    continue
                if not self._holds() or not await self._post(stream, occurrence):
                    return
                stream.advance(occurrence)
            stream.cursor = max(stream.cursor, through)
        except RankdError as exc:
            stream.due = asyncio.get_running_loop().time() + LOOK_SECONDS
            _log.debug("events of webhook %s cannot be read yet: %s", stream.webhook.name, exc)
        finally:
            stream.task = None
            self._woken.set()

    async def _post(self, stream: WebhookStream, occurrence: Occurrence) -> bool:
        """Try to deliver an event; return whether it was taken."""
        assert self.sender is not None
        webhook, event, now = stream.webhook, occurrence.event, self._writer.now()
        body = _encode(await self.reader.message(occurrence))
        message = Message(webhook.url, event.id, body, webhook.secret.decode())
        time = now // 1_000_000
        result = await self.sender.send(message, time=time, seconds_max=SEND_SECONDS_MAX)
        taken = result.status is not None and 200 <= result.status < 300
        problem = result.problem
        if not taken and problem is None:
            problem = f"the answer has the status {result.status}, not one of success"
        delivery = stream.delivery_of(event)
        delivery.attempts, delivery.tried_at = delivery.attempts + 1, now
        delivery.status, delivery.problem = result.status, problem
        delivery.next_try = None
        if taken:
            delivery.state = "delivered"
            self.delivered += 1
            stream.failing_since, stream.pause, stream.due = None, 0.0, 0.0
        else:
            self._fail(stream, delivery, now)
        return taken

    def _fail(self, stream: WebhookStream, delivery: Delivery, now: Instant) -> None:
        self.failed += 1
        if stream.failing_since is None:
            stream.failing_since = now
        stream.pause = min(max(2 * stream.pause, RETRY_SECONDS_MIN), RETRY_SECONDS_MAX)
        stream.due = asyncio.get_running_loop().time() + stream.pause
        name, problem = stream.webhook.name, delivery.problem
        if now - stream.failing_since >= GIVE_UP_SECONDS * 1_000_000:
            stream.stopped, delivery.state = True, "stopped"
            _log.error("webhook %s is given up: %s", name, problem)
            return
        delivery.next_try = now + int(stream.pause * 1_000_000)
        _log.warning("webhook %s is tried again in %g s: %s", name, stream.pause, problem)


def _fields(webhook: Webhook) -> tuple[str, tuple[str, ...], tuple[str, ...] | None]:
    return webhook.url, webhook.events, webhook.boards


def _are_texts(given: object) -> TypeGuard[Sequence[str]]:
    return (
        isinstance(given, list | tuple)
        and bool(given)
        and all(isinstance(one, str) for one in given)
    )


def _is_name(text: str) -> bool:
    usable = len(text) <= BOARD_NAME_LENGTH_MAX and text not in (".", "..")
    return usable and NAME.fullmatch(text) is not None


def _are_boards(given: object) -> bool:
    if not _are_texts(given):
        return False
    return len(given) <= WEBHOOK_BOARDS_MAX and all(one == "*" or _is_name(one) for one in given)


Callback = Callable[[Mapping[str, Any]], Awaitable[None] | None]


class EventCallbacks:
    """Functions of this program that are called for events, from when they were added on."""

    def __init__(self, reader: EventReader) -> None:
        self._reader = reader
        self._functions: dict[int, tuple[str, Callback]] = {}
        self._cursor = Position(0)
        self._number = 0

    def add(self, event: str, function: Callback) -> Callable[[], None]:
        """Call a function for each event of a name; return a function that ends it.

        Raises ValueError for an unknown name.
        """
        if event not in EVENTS:
            raise ValueError(f"the events are {', '.join(EVENTS)}")
        if not self._functions:
            self._cursor = self._reader.checkpoint()
        self._number += 1
        number = self._number
        self._functions[number] = event, function
        return lambda: self._functions.pop(number, None) and None

    async def run(self) -> None:
        """Call functions until the engine stops."""
        more = False
        while True:
            await asyncio.sleep(0 if more else LOOK_SECONDS)
            more = False
            if not self._functions:
                continue
            try:
                found, self._cursor = await self._reader.next(self._cursor, self._wants)
            except RankdError as exc:
                _log.debug("events cannot be read yet: %s", exc)
                continue
            for occurrence in found:
                await self._call(occurrence)
            more = bool(found)

    def _wants(self, event: str, _board: str) -> bool:
        return any(event == name for name, _ in self._functions.values())

    async def _call(self, occurrence: Occurrence) -> None:
        event = occurrence.event
        message = {"id": event.id, **await self._reader.message(occurrence)}
        for name, function in list(self._functions.values()):
            if name != event.name:
                continue
            try:
                if inspect.iscoroutinefunction(function):
                    await function(message)
                else:
                    await asyncio.to_thread(function, message)
            except Exception:  # Of the function: a program of somebody else's.
                _log.exception("a callback for %s failed", event.name)
