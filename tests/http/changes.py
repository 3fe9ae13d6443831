"""Everything that may change between two requests for one standing, and what the second is told."""

import json
from collections.abc import Awaitable, Callable

from tests.http.lanes import BOARD, RICH, Served, new_key, request, status
from tests.unit.core.doubles import DAY

Change = Callable[[Served], Awaitable[object]]


async def renamed(service: Served) -> None:
    await service.rankd.profile("p1", {"name": "Bob", "attributes": {"region": "eu"}})


async def erased(service: Served) -> None:
    await service.rankd.erase("p1")


async def moved(service: Served) -> None:
    await service.rankd.submit("b", [("p1", 1000)])


async def elsewhere(service: Served) -> None:
    await service.rankd.define("c", {})


async def told_where_it_is(service: Served) -> None:
    attributes = {"region": "us"}
    await service.rankd.submit("b", [{"player": "p1", "score": 1, "attributes": attributes}])


async def turned(service: Served) -> None:
    service.clock.time += DAY
    await service.rankd.sealer.turn()


async def turned_by_a_write(service: Served) -> None:
    service.clock.time += DAY
    await moved(service)


async def redefined(service: Served) -> None:
    await service.rankd.redefine("b", {**RICH, "decimals": 2})


async def turned_round(service: Served) -> None:
    definition = json.dumps({**RICH, "direction": "lower"}).encode()
    put = request("PUT", f"{BOARD}?apply=true", definition, content_type="application/json")
    assert status(await service.fast.ask(put)) == 200


async def retitled(service: Served) -> None:
    await service.rankd.redefine("b", {**RICH, "title": "Best of all"})


async def retired(service: Served) -> None:
    await service.rankd.retire("b")


async def begun_anew(service: Served) -> None:
    await service.rankd.retire("b")
    await service.rankd.define("b", RICH)
    await service.rankd.submit("b", [{"player": "p1", "score": 7, "attributes": {"region": "eu"}}])


async def rebuilt(service: Served) -> None:
    async for _ in service.rankd.rebuild():
        pass
    await moved(service)


async def locked(service: Served) -> None:
    await new_key(service.rankd, "admin")


CHANGES: dict[str, tuple[Change, int]] = {
    "renamed": (renamed, 200),
    "erased": (erased, 200),
    "moved": (moved, 200),
    "elsewhere": (elsewhere, 200),
    "another segment": (told_where_it_is, 200),
    "turned": (turned, 200),
    "turned by a write": (turned_by_a_write, 200),
    "redefined": (redefined, 200),
    "turned round": (turned_round, 200),
    "retitled": (retitled, 200),
    "retired": (retired, 404),
    "begun anew": (begun_anew, 200),
    "rebuilt": (rebuilt, 200),
    "locked": (locked, 401),
}
