"""The examples of docs/http.md: each is sent to a service, and the answers printed are its own."""

import json
import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.http.whole import run, whole

PAGE = Path(__file__).parents[2] / "docs" / "http.md"
EXAMPLE = re.compile(r"```sh\n(curl .*?)```\n(?:\n```json\n(.*?)```)?", re.DOTALL)


class Call(NamedTuple):
    """What a line of curl sends."""

    method: str
    target: str
    headers: dict[str, str]
    body: str | None


def read_curl(line: str) -> Call:
    words = iter(shlex.split(line.replace("\\\n", " ")))
    assert next(words) == "curl"
    method, target, headers, body = None, "", dict[str, str](), None
    for word in words:
        if word == "-X":
            method = next(words)
        elif word == "-H":
            name, _, value = next(words).partition(": ")
            headers[name] = value
        elif word == "-d":
            body = next(words)
        else:
            url = urlsplit(word)
            assert url.netloc == "127.0.0.1:8700", word
            target = url.path + (f"?{url.query}" if url.query else "")
    return Call(method or ("GET" if body is None else "POST"), target, headers, body)


def settled(answer: Any) -> Any:
    """An answer without what is different each time."""
    if isinstance(answer, dict):
        return {name: value for name, value in answer.items() if name != "request_id"}
    return answer


async def answers() -> list[tuple[str, int, Any, Any]]:
    """Send every example in turn; return the line, the status, the answer and the one printed."""
    found = []
    async with whole() as service:
        for line, printed in EXAMPLE.findall(PAGE.read_text()):
            call = read_curl(line)
            answer = await service.http.request(
                call.method, call.target, content=call.body, headers=call.headers
            )
            found.append(
                (line, answer.status_code, answer.json(), json.loads(printed) if printed else None)
            )
    return found


def test_every_example_is_answered_as_printed() -> None:
    found = run(answers())
    assert len(found) > 10
    for line, status, answer, printed in found:
        assert status < 400 or printed is not None, (line, answer)
        if printed is not None:
            assert settled(answer) == settled(printed), line
