"""python -m tests.http.fuzz --requests N --seed S: any bytes get a clean answer, whoever gives it.

Method: requests are mutated (bytes changed, cut out, doubled, pieces of others put in, cut into
several writes) and sent over real sockets to two servers, one with the fast lane and one without.
Each must answer or close; what they say must be equal but for dates and request ids, complete, and
never a 5xx. The same seed sends the same bytes, so a failure prints the command that repeats it.

The requests are those of the corpus, to routes made for it; with ``--whole`` those of the API, to
the whole service over an engine: then also what answers known requests by their bytes is met, with
bytes that are nearly known, and both engines must come to the same ranks.
"""

import argparse
import asyncio
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.http.corpus import CORPUS, LIMITS, PATIENT, get, post
from tests.http.running import Client, running
from tests.http.whole import whole
from tests.http.wire import statuses, without_what_varies

from rankd.api.server import new_event_loop

HANG_SECONDS = 60
"""A client that waited so long waits for ever."""

# Those that fail on purpose would hide a failure that is none.
_TOYS = [entry.sent for entry in CORPUS.values() if not any(code >= 500 for code in entry.statuses)]
_BOARD = b"/v1/boards/global"
_BATCH = (
    b'{"scores":[{"board":"global","player":"p1","score":7},{"board":"b","player":"p2","score":1}]}'
)
_WEBHOOK = b'{"url":"https://game.example/hook","events":["window.sealed"],"boards":["none"]}'
"""Of a board without events: a delivery would come to its end at any time."""

_API = [
    *(get(_BOARD + b"/standings/p%d" % number) for number in range(4)),
    *(get(_BOARD + b"/standings/p%d/around?above=1" % number) for number in range(3)),
    get(_BOARD + b"/standings/p1?window=daily&segment=region:eu"),
    get(_BOARD + b"/standings?limit=3"),
    get(_BOARD + b"/standings?limit=2&from_rank=2", b"If-None-Match: *"),
    get(_BOARD + b"/around/2?range=1"),
    get(_BOARD + b"/friends/p1"),
    get(_BOARD + b"/projection?score=5"),
    get(_BOARD + b"/distribution?buckets=3"),
    get(_BOARD + b"/history/p1/ranks?grain=hour"),
    get(_BOARD + b"/standings?as_of=3"),
    get(_BOARD + b"/windows"),
    get(b"/v1/players/p1/standings"),
    get(b"/v1/players/p1/standings?window=daily"),
    get(b"/v1/players?query=p"),
    get(b"/v1/facts?since=2026-11-14T00:00:00Z"),
    get(b"/api/v1/leaderboard/rank/p1"),
    get(b"/top/3"),
    *(
        post(_BOARD + b"/scores", b'{"player":"p%d","score":%d}' % (number, 10**number))
        for number in range(4)
    ),
    post(_BOARD + b"/scores", b'{"player":"p1","score":9,"key":"k1"}'),
    post(_BOARD + b"/scores", b'{"player":"p2","delta":3,"attributes":{"region":"eu"}}'),
    post(b"/v1/scores:batch", _BATCH),
    post(_BOARD + b"/standings:lookup", b'{"players":["p1","p9"]}'),
    post(b"/v1/players/p1", b'{"name":"Ada","friends":["p2"]}', method=b"PUT"),
    post(b"/v1/players/p1", b'{"attributes":{"region":null,"level":3}}', method=b"PATCH"),
    post(b"/v1/boards/b", b'{"ties":"dense"}', method=b"PUT"),
    post(b"/ingest/score", b'{"player_id":"p1","score":4}'),
    post(_BOARD + b"/scores", b'{"player":"p3","score":70,"lives":"24h"}'),
    post(_BOARD + b"/scores", b'{"player":"p1","score":900001}'),  # Held by a rule.
    post(_BOARD + b"/adjustments", b'{"player":"p1","delta":5,"reason":"a test"}'),
    post(_BOARD + b"/retractions", b'{"player":"p2","reason":"a test"}'),
    post(_BOARD + b"/retractions?dry_run=true", b'{"build":"1.2","since":"2026-11-14T00:00:00Z"}'),
    post(b"/v1/retractions", b'{"players":["p3"]}'),
    post(b"/v1/retractions?dry_run=true", b'{"until":"2026-11-17T00:00:00Z"}'),
    get(_BOARD + b"/retractions/9?dry_run=true", method=b"DELETE"),
    get(b"/v1/retractions/9", method=b"DELETE"),
    get(_BOARD + b"/corrections?limit=2"),
    post(b"/v1/operations/1:wait", b""),
    post(_BOARD + b"/standings/p1", b'{"metadata":{"car":"red"}}', method=b"PATCH"),
    get(_BOARD + b"/standings/p3?reason=a%20test", method=b"DELETE"),
    *(
        post(b"/v1/players/p%d:%b" % (number, verb), b'{"reason":"a test","boards":["global"]}')
        for number, verb in enumerate((b"ban", b"hide", b"shadow", b"restore"))
    ),
    get(b"/v1/reviews?board=global&state=held&limit=3"),
    get(b"/v1/reviews/12"),
    post(b"/v1/reviews/12:approve", b'{"reason":"a test"}'),
    post(b"/v1/reviews/13:reject", b"{}"),
    post(_BOARD + b"/runs", b'{"player":"p1"}'),
    post(_BOARD + b"/scores", b'{"player":"p1","score":9,"run":"0000"}'),
    *(
        post(_BOARD + b":" + verb, b'{"window":"daily","reason":"a test"}')
        for verb in (b"reset", b"freeze", b"settle")
    ),
    get(_BOARD + b"/windows/daily:-1/certificate"),
    get(_BOARD + b"/schedule?next=3"),
    get(_BOARD + b"/standings?score_min=1&score_max=9&edition=1"),
    post(b"/v1/webhooks/hook", _WEBHOOK, method=b"PUT"),
    get(b"/v1/webhooks/hook"),
    get(b"/v1/webhooks"),
    get(b"/v1/webhooks/hook/deliveries?limit=2"),
    post(b"/v1/webhooks/hook:replay", b'{"position":1}'),
    get(b"/v1/webhooks/hook", method=b"DELETE"),
    get(b"/v1/facts?administrative=true&actor=a&kind=score_retracted"),
]
_INTERESTING = [
    *(b"\r\n", b"\r\n\r\n", b"\n", b"\r", b" ", b"\t", b"\x00", b"\xff", b"%", b"%00", b"%2f"),
    *(b":", b"/", b"?", b"&", b"#", b"..", b"HTTP/1.1", b"HTTP/1.0", b"HEAD ", b"OPTIONS "),
    *(b"Content-Length: 5\r\n", b"Content-Length: 99999999999\r\n", b"Host: u\r\n"),
    *(b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n", b"Expect: 100-continue\r\n"),
    *(b"Connection: upgrade\r\n", b"Upgrade: websocket\r\n", b"0\r\n\r\n", b"ffffffff\r\n"),
    *(b"-1", b"{", b'{"a":', b"[" * 50, b'"\\ud800"', b"1e400", b"NaN"),
    *(b"Origin: https://game.example\r\n", b"Accept-Encoding: gzip\r\n"),
    b"X: " + b"a" * 200 + b"\r\n",
]


class Server(NamedTuple):
    """A server that takes connections."""

    host: str
    port: int

    async def connect(self) -> Client:
        return Client(*await asyncio.open_connection(self.host, self.port))


@asynccontextmanager
async def toys(**given: Any) -> AsyncIterator[Server]:
    async with running(**LIMITS, **given) as server:
        yield Server(server.host, server.port)
        assert not server.serving.done()


@asynccontextmanager
async def api(**given: Any) -> AsyncIterator[Server]:
    async with whole(**given) as service:
        rules = [
            {"rule": "first_score", "max": 1000, "then": "hold"},
            {"rule": "gain_per_minute", "max": 100_000, "then": "hold"},
        ]
        definition = {"windows": ["all", "daily"], "segments": ["region"], "rules": rules}
        await service.told("PUT", "/v1/boards/global", definition)
        address = urlsplit(service.address)
        yield Server(address.hostname or "", address.port or 0)
        assert (await service.http.get("/readyz")).status_code == 200


class What(NamedTuple):
    """What is fuzzed, and with what it begins."""

    server: Callable[..., AbstractAsyncContextManager[Server]]
    seeds: list[bytes]


TOYS = What(toys, _TOYS)
API = What(api, [sent.replace(b"Host: t", b"Host: localhost") for sent in _API])
"""A service without keys serves only who asks for it by the name of this machine."""


def mutated(dice: random.Random, seeds: list[bytes]) -> list[bytes]:
    """Return the writes of one connection."""
    data = bytearray(b"".join(dice.choices(seeds, k=dice.choice([1, 1, 1, 2, 3]))))
    for _ in range(dice.choice([0, 1, 1, 2, 3, 8])):
        _mutate(data, dice, seeds)
    cuts = sorted(dice.randrange(len(data) + 1) for _ in range(dice.choice([0, 0, 0, 1, 3])))
    ends = [*cuts, len(data)]
    return [bytes(data[a:b]) for a, b in zip([0, *cuts], ends, strict=True) if a < b]


def _mutate(data: bytearray, dice: random.Random, seeds: list[bytes]) -> None:
    at = dice.randrange(len(data) + 1)
    end = min(len(data), at + dice.choice([1, 1, 2, 8, 64]))
    match dice.randrange(6):
        case 0:
            data[at:end] = bytes(dice.randrange(256) for _ in range(end - at))
        case 1:
            del data[at:end]
        case 2:
            data[at:at] = data[at:end]
        case 3:
            data[at:at] = dice.choice(_INTERESTING)
        case 4:
            other = dice.choice(seeds)
            start = dice.randrange(len(other))
            data[at:end] = other[start : start + dice.choice([1, 4, 16, 64])]
        case _:
            if at < len(data):
                data[at] ^= 1 << dice.randrange(8)


async def ask(server: Server, writes: list[bytes]) -> bytes:
    """Send the writes, close for writing, and return what comes until the server closes."""
    async with asyncio.timeout(HANG_SECONDS), await server.connect() as client:
        for write in writes:
            client.send(write)
            await asyncio.sleep(0)
        client.end()
        return await client.rest()


def check(writes: list[bytes], fast: bytes, other: bytes) -> Counter[int]:
    """Compare the two answers and return the statuses in them."""
    assert without_what_varies(fast) == without_what_varies(other), "the lanes differ"
    # Where HEAD was asked the bodies are missing, and lengths cannot be followed.
    heads = any(b"HEAD" in write for write in [b"".join(writes)])
    if heads:
        return Counter()
    found = statuses(fast, heads=False)
    assert all(code < 500 for code in found), found
    return Counter(found)


async def campaign(what: What, *, requests: int, seed: int) -> Counter[int]:
    """Send so many mutated connections and return the statuses that were answered."""
    met: Counter[int] = Counter()
    given = {**PATIENT, "cors_origins": ("https://game.example",)}
    async with what.server(**given) as fast, what.server(fast_lane=False, **given) as other:
        for number in range(requests):
            writes = mutated(random.Random(f"{seed}/{number}"), what.seeds)
            try:
                met += check(writes, await ask(fast, writes), await ask(other, writes))
            except BaseException as exc:
                exc.add_note(f"seed {seed}, number {number}: {writes!r}")
                raise
    return met


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.http.fuzz", description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--whole", action="store_true", help="the API over an engine")
    options = parser.parse_args()
    began = time.monotonic()
    what = API if options.whole else TOYS
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        met = runner.run(campaign(what, requests=options.requests, seed=options.seed))
    seconds = time.monotonic() - began
    told = ", ".join(f"{code}: {count}" for code, count in sorted(met.items()))
    sys.stdout.write(
        f"{options.requests} connections on each lane, seed {options.seed}, {seconds:.0f} s;"
        f" no 5xx, no hang, no difference. Answers: {told}\n"
    )


if __name__ == "__main__":
    main()
