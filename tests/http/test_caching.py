"""What is told to whoever showed a key is kept by nobody who could show it to another."""

import re

import pytest
from tests.http.lanes import request, served, status
from tests.http.whole import Whole, run, whole

PATH = "/v1/boards/b/standings"
LANES = pytest.mark.parametrize("fast_lane", [True, False], ids=["fast", "asgi"])


async def kept(service: Whole, key: str | None = None, **headers: str) -> tuple[str, bool]:
    """Return what an answer says of being kept, and whether it says more to shared caches."""
    answer = await service.ask("GET", PATH, key=key, **headers)
    assert answer.status_code in (200, 304), answer.text
    return answer.headers["cache-control"].partition(",")[0], "surrogate-control" in answer.headers


@LANES
def test_a_page_is_public_until_it_takes_a_key_to_read_it(fast_lane: bool) -> None:
    async def test() -> None:
        async with whole(fast_lane=fast_lane) as service:
            await service.told("PUT", "/v1/boards/b", {})
            for _ in range(3):  # The first makes the page, the others find it.
                assert await kept(service) == ("public", True)
            key = (await service.new_key("admin"))["key"]
            for _ in range(3):
                assert await kept(service, key) == ("private", False)
            known = (await service.ask("GET", PATH, key=key)).headers["etag"]
            assert await kept(service, key, if_none_match=known) == ("private", False)
            assert (await service.ask("GET", PATH)).headers["cache-control"] == "no-store"

    run(test())


@LANES
@pytest.mark.parametrize("public", [("b",), ("a", "b"), ("*",)])
def test_a_board_that_is_set_so_stays_public(public: tuple[str, ...], fast_lane: bool) -> None:
    async def test() -> None:
        async with whole(fast_lane=fast_lane, public_pages=public) as service:
            await service.told("PUT", "/v1/boards/b", {})
            key = (await service.new_key("admin"))["key"]
            for _ in range(2):
                assert await kept(service, key) == ("public", True)
            assert (await service.ask("GET", PATH)).status_code == 401

    run(test())


# ------------------------------------------------------------------- squeezed, and as it is

LARGE = f"{PATH}?limit=1000"


def tag_of(answer: bytes) -> str:
    (found,) = re.findall(rb"\r\netag: (\S+)\r\n", answer)
    return str(found.decode())


def test_a_squeezed_page_has_a_tag_of_its_own_and_either_is_known() -> None:
    """A strong tag stands for the very bytes: a cache may put parts of such bodies together."""

    async def test() -> None:
        async with served() as service:
            crowd = [(f"{number:064}", number) for number in range(300)]
            await service.rankd.submit("b", crowd)

            async def ask(**headers: str) -> bytes:
                await service.same(request("GET", LARGE, None, **headers))
                return await service.same(request("GET", LARGE, None, **headers))

            plain, squeezed = await ask(), await ask(accept_encoding="gzip")
            assert b"\r\ncontent-encoding: gzip\r\n" in squeezed
            own, other = tag_of(plain), tag_of(squeezed)
            assert other == own[:-1] + '-gzip"'
            for takes in ({}, {"accept_encoding": "gzip"}):
                for tag in (own, other):
                    for known in (tag, f"W/{tag}", f'"x", W/{tag}'):
                        answer = await ask(if_none_match=known, **takes)
                        assert (status(answer), tag_of(answer)) == (304, tag)
                        assert answer.endswith(b"\r\n\r\n")
                for unknown in ('"x"', f"{own[:-1]}-br", "gzip", own.strip('"')):
                    assert status(await ask(if_none_match=unknown, **takes)) == 200
            small = await service.same(request("GET", PATH, None, accept_encoding="gzip"))
            assert "gzip" not in tag_of(small), "it goes out as it is"

    run(test())


def test_a_page_that_changed_is_known_by_neither_tag() -> None:
    async def test() -> None:
        async with served() as service:
            await service.rankd.submit("b", [(f"{number:064}", number) for number in range(300)])
            sent = request("GET", LARGE, None, accept_encoding="gzip")
            known = tag_of(await service.same(sent))
            await service.rankd.submit("b", [("new", 10**6)])
            both = f"{known}, {known.replace('-gzip', '')}"
            answer = await service.same(request("GET", LARGE, None, if_none_match=both))
            assert status(answer) == 200

    run(test())


@LANES
def test_whatever_a_cache_may_keep_says_that_its_encoding_was_negotiated(fast_lane: bool) -> None:
    """Small pages too: the board grows, and the next answer to the same question is squeezed."""

    async def test() -> None:
        async with whole(fast_lane=fast_lane) as service:
            await service.told("PUT", "/v1/boards/b", {})
            for path in (PATH, "/docs", "/docs.css", "/openapi.json"):
                more = ["accept"] if path == PATH else []  # Its scores may be text.
                for _ in range(3):
                    answer = await service.ask("GET", path)
                    assert answer.headers.get_list("vary") == ["accept-encoding", *more], path
            tag = (await service.ask("GET", PATH)).headers["etag"]
            known = await service.ask("GET", PATH, if_none_match=tag)
            assert known.status_code == 304
            assert known.headers.get_list("vary") == ["accept-encoding", "accept"]
            assert "vary" not in (await service.ask("GET", "/healthz")).headers

    run(test())
