"""docs/cors.md: the preflight that it prints is the one that is answered."""

import re
from pathlib import Path

from tests.http.whole import run, whole

PAGE = (Path(__file__).parents[2] / "docs" / "cors.md").read_text()
MESSAGE = re.compile(r"```http\n(.*?)\n(.*?)```", re.DOTALL)


def headers_of(text: str) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in text.splitlines())


def test_the_preflight_is_answered_as_printed() -> None:
    (line, asked), (status, printed) = MESSAGE.findall(PAGE)
    method, target, _ = line.split()

    async def preflight(origin: str) -> dict[str, str]:
        async with whole(cors_origins=("https://game.example",)) as service:
            answer = await service.http.request(
                method, target, headers={**headers_of(asked), "Origin": origin}
            )
        assert status == f"HTTP/1.1 {answer.status_code} {answer.reason_phrase}"
        return dict(answer.headers)

    allowed = run(preflight("https://game.example"))
    assert headers_of(printed).items() <= allowed.items()
    refused = run(preflight("https://game.example/"))
    assert not [name for name in refused if name.startswith("access-control")]
