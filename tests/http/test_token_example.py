"""The example of docs/keys.md: a secret, the settings, a token, and a score that it lets in.

Each block of the page is run as it stands, in a folder of its own.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import httpx
import pytest
from tests.http.test_examples import Call, read_curl
from tests.http.whole import run, whole

from rankd.api.jwt import reading_tokens
from rankd.settings import Settings

PAGE = Path(__file__).parents[2] / "docs" / "keys.md"
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)


def blocks() -> list[tuple[str, str]]:
    _, _, example = PAGE.read_text().partition("### A whole example")
    return BLOCK.findall(example.partition("\n## ")[0])


def in_shell(line: str, folder: Path) -> str:
    ours = line.replace("python3", sys.executable)
    done = subprocess.run(ours, shell=True, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_the_example_works_as_it_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (_, make_key), (_, settings), (_, script), *asked = blocks()
    in_shell(make_key, tmp_path)
    assert (tmp_path / "players.key").read_bytes().endswith(b"\n")
    (tmp_path / "make_token.py").write_text(script)
    token = in_shell("python3 make_token.py", tmp_path)
    define, submit = [
        read_curl(line.replace("$(python3 make_token.py)", token)) for _, line in asked
    ]
    monkeypatch.chdir(tmp_path)
    given = Settings(**tomllib.loads(settings))

    async def test() -> None:
        async with (
            reading_tokens(given, now=lambda: 0.0) as read,
            whole(token=read) as service,
        ):

            async def send(call: Call) -> httpx.Response:
                return await service.http.request(
                    call.method, call.target, content=call.body, headers=call.headers
                )

            assert (await send(define)).is_success
            assert (await send(submit)).json()["player"] == "ada"
            other = submit._replace(body=str(submit.body).replace("ada", "eve"))
            assert (await send(other)).status_code == 403

    run(test())
