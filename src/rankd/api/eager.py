"""Eager tasks: a handler runs without an asyncio task, which would cost more than most handlers.

An ``EagerTask`` starts a coroutine in place. Most finish there. If it waits for a future, as a
write does for its commit, the future's callback resumes it. In the words of asyncio's manual this
is a "third-party task": while it runs it is the current task, so ``asyncio.timeout`` and
``asyncio.wait_for`` work in a handler. It is not in ``asyncio.all_tasks()``, so the caller must
hold a reference to one that waits.
"""

import asyncio
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Callable, Coroutine, Generator
from typing import Any


class EagerTask:
    """Runs one coroutine. If ``start`` returns False, ``on_done`` is called at its end.

    It may be reused for the next coroutine if the last one never waited: then nothing refers to it.
    """

    __slots__ = (
        "__weakref__",
        "_cancel_wanted",
        "_cancels",
        "_coroutine",
        "_loop",
        "_waits_for",
        "error",
        "on_done",
        "result",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._coroutine: Coroutine[Any, Any, Any]
        self._waits_for: asyncio.Future[Any] | None = None
        self._cancels = 0
        self._cancel_wanted = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.on_done: Callable[[EagerTask], None] | None = None

    def start(self, coroutine: Coroutine[Any, Any, Any]) -> bool:
        """Run until the coroutine ends (True; see ``result`` and ``error``) or waits (False)."""
        self._coroutine = coroutine
        return self._step(None)

    def _step(self, error: BaseException | None) -> bool:
        loop = self._loop
        _enter_task(loop, self)  # type: ignore[arg-type]
        try:
            if error is None:
                waits_for = self._coroutine.send(None)
            else:
                waits_for = self._coroutine.throw(error)
        except StopIteration as done:
            self.result, self.error = done.value, None
            return True
        except (Exception, asyncio.CancelledError) as exc:
            self.result, self.error = None, exc
            return True
        finally:
            _leave_task(loop, self)  # type: ignore[arg-type]
        self._wait_for(waits_for)
        return False

    def _wait_for(self, waits_for: Any) -> None:
        """Resume when the yielded future is done; after a bare yield, in the next iteration."""
        if waits_for is None:
            self._loop.call_soon(self._go_on, None)
            return
        assert getattr(waits_for, "_asyncio_future_blocking", False), "handlers wait on futures"
        waits_for._asyncio_future_blocking = False
        self._waits_for = waits_for
        waits_for.add_done_callback(self._go_on)
        if self._cancel_wanted and waits_for.cancel():
            self._cancel_wanted = False

    def _go_on(self, _future: asyncio.Future[Any] | None) -> None:
        self._waits_for = None
        error = None
        if self._cancel_wanted:
            self._cancel_wanted, error = False, asyncio.CancelledError()
        # The future raises its own error where the coroutine awaits it.
        if self._step(error) and self.on_done is not None:
            self.on_done(self)

    # The interface of a task that asyncio.timeout, TaskGroup and a stopping server use.

    def cancel(self, msg: object = None) -> bool:
        """Cancel the coroutine, through the future it waits for."""
        self._cancels += 1
        if self._waits_for is None or not self._waits_for.cancel(msg=msg):
            self._cancel_wanted = True
        return True

    def cancelling(self) -> int:
        """Return the number of cancellations that were not taken back."""
        return self._cancels

    def uncancel(self) -> int:
        """Take back one cancellation, and return how many are left."""
        self._cancels = max(0, self._cancels - 1)
        return self._cancels

    def done(self) -> bool:
        """Whether the coroutine has ended."""
        return self.result is not None or self.error is not None

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop it runs on."""
        return self._loop

    def get_coro(self) -> Generator[Any, Any, Any] | Coroutine[Any, Any, Any]:
        """Return the coroutine."""
        return self._coroutine

    def get_name(self) -> str:
        """Return its name in logs."""
        return "rankd-drive"
