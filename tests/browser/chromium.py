"""A real browser without a driver: Chromium, spoken to through a pair of pipes.

Chromium reads commands of its DevTools protocol from descriptor 3 and writes answers and events
to descriptor 4, each a JSON text that ends in a zero byte. Nothing has to be installed beside it.
"""

import base64
import contextlib
import fcntl
import json
import os
import select
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rankd.testing import debian
from rankd.testing.servers import chromium_binary

PATIENCE_SECONDS = 60.0
"""Nothing takes this long on a machine that is merely busy."""

LOOK_AGAIN_SECONDS = 0.05

LOWEST_FREE = 10
"""Pipes are moved up here first, so that none of them is 3 or 4 itself."""

OPTIONS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",  # Tests run as root in containers, where it cannot be had.
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-breakpad",
    "--no-first-run",
    "--hide-scrollbars",
    "--window-size=1200,900",
)


class BrowserFailed(Exception):
    """The browser does not answer."""


class Page:
    """One page, and what it complained of."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._read = b""
        self._last = 0
        self._session: str | None = None
        self.complaints: list[str] = []
        """Errors of the console, of scripts, and of the content security policy."""

    def attach(self) -> None:
        """Open an empty page and listen to all it says."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and return its result. Raises BrowserFailed if nothing answers."""
        self._last += 1
        sent = {"id": self._last, "method": method, "params": params}
        if self._session is not None:
            sent["sessionId"] = self._session
        with contextlib.suppress(BrokenPipeError):  # Reading will tell.
            os.write(self._commands, json.dumps(sent).encode() + b"\0")
        while (answer := self._next()).get("id") != self._last:
            self._note(answer)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return dict(answer["result"])

    def _next(self) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE_SECONDS
        while b"\0" not in self._read:
            ready, _, _ = select.select([self._answers], [], [], max(0, until - time.monotonic()))
            part = os.read(self._answers, 1 << 16) if ready else b""
            if not part:
                raise BrowserFailed("it does not answer")
            self._read += part
        text, _, self._read = self._read.partition(b"\0")
        return dict(json.loads(text))

    def _note(self, event: dict[str, Any]) -> None:
        told = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(told["exceptionDetails"]))
            case "Log.entryAdded" if told["entry"]["level"] in ("error", "warning"):
                self.complaints.append(told["entry"]["text"])
            case "Runtime.consoleAPICalled" if told["type"] in ("error", "warning", "assert"):
                self.complaints.append(json.dumps(told["args"]))

    def open(self, url: str) -> None:
        """Go to an address."""
        self.call("Page.navigate", url=url)

    def evaluate(self, expression: str) -> Any:
        """Return what a JavaScript expression is, in the page."""
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def wait_for(self, expression: str) -> Any:
        """Return what an expression is once it is true. Fails if it never is.

        What it speaks of may not be there yet: that is not true yet either.
        """
        until = time.monotonic() + PATIENCE_SECONDS
        lenient = f"(() => {{ try {{ return {expression} }} catch {{ return false }} }})()"
        while not (value := self.evaluate(lenient)):
            shown = self.evaluate("document.body?.innerText")
            assert time.monotonic() < until, f"{expression} is never true; the page says: {shown}"
            time.sleep(LOOK_AGAIN_SECONDS)
        return value

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        self.call("Input.insertText", text=text)

    def press(self, key: str, code: int) -> None:
        """Press a key and let it go."""
        text = {"text": "\r"} if key == "Enter" else {}
        known = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", **known, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **known)

    def look_like(self, *, width: int, height: int, dark: bool = False) -> None:
        """Be a screen of a size, light or dark."""
        scale = {"deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, **scale)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self) -> bytes:
        """Return what is seen, as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])


@contextmanager
def browser() -> Iterator[Page]:
    """Start Chromium with one empty page. Raises ServerMissing or BrowserFailed."""
    program = chromium_binary()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        theirs_in, commands = _pipe()
        answers, theirs_out = _pipe()
        actions = [
            (os.POSIX_SPAWN_DUP2, theirs_in, 3),
            (os.POSIX_SPAWN_DUP2, theirs_out, 4),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ]
        arguments = [str(program), *OPTIONS, f"--user-data-dir={profile}", "about:blank"]
        given = {**os.environ, **debian.environment(program), "HOME": profile}
        started = os.posix_spawn(program, arguments, given, file_actions=actions, setpgroup=0)
        os.close(theirs_in)
        os.close(theirs_out)
        try:
            page = Page(commands, answers)
            page.attach()
            yield page
        finally:
            os.close(commands)
            os.close(answers)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(started, signal.SIGKILL)  # A group of its own: the browser and its parts.
            os.waitpid(started, 0)


def _pipe() -> tuple[int, int]:
    """Return a pipe whose ends are clear of the numbers that Chromium expects."""
    ends = os.pipe()
    high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, LOWEST_FREE) for end in ends]
    for end in ends:
        os.close(end)
    return high[0], high[1]
