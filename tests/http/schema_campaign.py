"""Requests made up from the description of the API, sent to a real service.

What comes back must be described too, and nothing may be a mistake of ours.

    python -m tests.http.schema_campaign --examples 1000

runs as many examples for each operation as are wanted, from a new seed, and prints the counts.
"""

import argparse
import asyncio
import json
import os
import secrets
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from tests.http.whole import Whole, whole

from rankd.api import standings
from rankd.api.server import new_event_loop

CHECKS = (
    *("status_code_conformance", "content_type_conformance"),
    *("response_headers_conformance", "response_schema_conformance", "negative_data_rejection"),
    *("missing_required_header", "unsupported_method", "allow_header_conformance"),
    *("ignored_auth", "use_after_free", "ensure_resource_availability", "no_mistake_of_ours"),
    "told_by_its_own_status",
)
"""All but three, one of our own for the first of them, and one more. Positive data is not always
accepted: whether a score fits is for its board to say, and no schema can. And whose objects are
whose is the matter of the authorisation matrix."""

PATHS_OF_TWO = tuple(f"{verb}_player" for verb in ("ban", "hide", "shadow", "restore"))
"""Operations whose paths are those of players with colons in their ids, too."""

OF_ONE_PATH = ("unsupported_method", "allow_header_conformance")
"""Checks that hold for a path that means one thing."""

BOARDS: dict[str, dict[str, Any]] = {
    "global": {"windows": ["all", "daily"], "segments": ["region"]},
    "times": {"columns": [{"name": "laps"}, {"name": "ms", "direction": "lower"}], "decimals": 2},
    "sums": {"rule": "sum", "ties": "dense", "limits": {"score_min": 0, "score_max": 1000}},
    "held": {
        "windows": ["all", {"name": "daily", "grace": "10m"}],
        "rules": [
            {"rule": "first_score", "max": 100, "then": "hold"},
            {"rule": "gain_per_minute", "max": 10, "then": "flag"},
        ],
        "runs": {"seconds_min": 0, "seconds_max": 3600},
        "public_corrections": True,
    },
}
WAIT_SECONDS = 0.01
"""How long a read waits for a position that never comes: made-up ones are mostly such."""

PLAYERS = ("p1", "p2", "0", "ü")


class Outcome(NamedTuple):
    """What a campaign found."""

    code: int
    text: str
    report: dict[str, Any]


async def fill(service: Whole) -> str:
    """Fill a service with a little of everything; return its key."""
    key: str = (await service.new_key("admin"))["key"]
    for board, definition in BOARDS.items():
        await service.told("PUT", f"/v1/boards/{board}", definition, key=key)
    for number, player in enumerate(PLAYERS):
        profile = {"name": "Ada", "attributes": {"region": "eu"}, "friends": ["p1"]}
        await service.told("PUT", f"/v1/players/{player}", profile, key=key)
        for board in ("global", "sums"):
            body = {"player": player, "score": number, "metadata": {"level": number}}
            await service.told("POST", f"/v1/boards/{board}/scores", body, key=key)
    await correct(service, key)
    return key


async def correct(service: Whole, key: str) -> None:
    """Leave reviews, corrections, states of players, settled windows and a webhook."""
    for player, score in (("p1", 500), ("p2", 20), ("p2", 90), ("ü", 700)):
        body = {"player": player, "score": score, "lives": "24h"}
        await service.told("POST", "/v1/boards/held/scores", body, key=key)
    hook = {"url": "https://game.example", "events": ["window.sealed"], "boards": ["none"]}
    asked: list[tuple[str, str, dict[str, Any]]] = [
        ("POST", "/v1/boards/sums/adjustments", {"player": "p1", "delta": 3, "reason": "a"}),
        ("POST", "/v1/boards/sums/retractions", {"player": "p2", "reason": "a"}),
        ("POST", "/v1/players/ü:shadow", {"reason": "a", "boards": ["sums"]}),
        ("POST", "/v1/boards/held:settle", {"window": "daily", "reason": "a"}),
        ("POST", "/v1/boards/held/runs", {"player": "p1"}),
        ("PUT", "/v1/webhooks/hook", hook),
    ]
    for method, path, content in asked:
        await service.told(method, path, content, key=key)


async def campaign(
    *, examples: int, seed: int | None, folder: Path, operations: tuple[str, ...] = ()
) -> Outcome:
    """Run schemathesis, in a process of its own, against a service in this one.

    Without a seed it makes up the same requests each time. Without operations named it tries all.
    """
    which = [f"--include-operation-id={one}" for one in operations]
    which += [f"--exclude-operation-id={one}" for one in PATHS_OF_TWO]
    with mock.patch.object(standings, "MIN_POSITION_SECONDS_MAX", WAIT_SECONDS):
        found = await _campaign(examples, seed, folder, which, CHECKS)
        if operations or found.code:
            return found
        which = [f"--include-operation-id={one}" for one in PATHS_OF_TWO]
        checks = tuple(check for check in CHECKS if check not in OF_ONE_PATH)
        more = await _campaign(examples, seed, folder, which, checks)
        return Outcome(more.code, found.text + more.text, found.report)


async def _campaign(
    examples: int, seed: int | None, folder: Path, which: list[str], checks: tuple[str, ...]
) -> Outcome:
    async with whole() as service:
        key = await fill(service)
        report = folder / "report.json"
        started = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{service.address}/openapi.json"),
            *("--header", f"Authorization: Bearer {key}", "--checks", ",".join(checks)),
            *("--phases", "examples,coverage,fuzzing,stateful", "--mode", "all"),
            *("--max-examples", str(examples)),
            *(["--generation-deterministic"] if seed is None else ["--seed", str(seed)]),
            *which,
            *("--workers", "1", "--no-color"),
            *("--suppress-health-check", "all", "--warnings", "off"),
            *("--report-json-path", str(report)),
            env={**os.environ, "SCHEMATHESIS_HOOKS": "tests.http.schema_checks"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            said, _ = await started.communicate()
        finally:
            if started.returncode is None:
                started.kill()
                await started.wait()
        # Had a made-up request revoked the key, all behind it would have been refused.
        assert (await service.ask("GET", "/v1/keys", key=key)).status_code == 200
        made = json.loads(report.read_text()) if report.exists() else {}
        return Outcome(started.returncode or 0, said.decode(), made)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=100, help="for each operation")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**32))
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        asyncio.Runner(loop_factory=new_event_loop) as runner,
    ):
        found = runner.run(campaign(examples=asked.examples, seed=asked.seed, folder=Path(folder)))
    sys.stdout.write(f"{found.text}\nseed {asked.seed}, exit {found.code}\n")
    return found.code


if __name__ == "__main__":
    sys.exit(main())
