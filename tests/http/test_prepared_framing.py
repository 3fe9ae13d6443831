"""A known request begins and ends where HTTP says, however its bytes come.

Whoever answers without the parser must find the same requests in a stream of bytes as the parser
does: cut anywhere, many in one read, behind blank lines, or as the rest of another one.
"""

import pytest
from tests.http.lanes import (
    AROUND,
    PLAIN,
    STANDING,
    fill,
    get,
    keyed,
    post,
    ranking,
    served,
    status,
    told,
)
from tests.http.running import run

# ---------------------------------------------------------------------------------- reads


@pytest.mark.parametrize("ask", [STANDING, "{}/around?above=1"])
def test_a_known_request_may_come_cut_anywhere(ask: str) -> None:
    async def cut() -> None:
        async with served() as service:
            await fill(service.rankd)
            sent = get("p4", ask, accept="*/*")
            line = await service.know(sent)
            whole = await line.ask(sent)
            assert status(whole) == 200
            for at in range(1, len(sent)):
                assert await line.ask(sent[:at], sent[at:]) == whole, at
            assert await line.ask(*(bytes([byte]) for byte in sent)) == whole
            assert await line.ask(sent) == whole

    run(cut())


def test_what_is_asked_in_one_read_is_answered_in_order() -> None:
    async def crowd() -> None:
        async with served() as service:
            await fill(service.rankd)
            asked = [get(f"p{number % 14}", (STANDING, AROUND)[number % 2]) for number in range(80)]
            line = service.fast.connect()
            for sent in asked[:2]:
                await line.ask(sent)
            await line.send(b"".join(asked))
            answers = [await line.answer() for _ in asked]
            assert answers == [await service.other.ask(sent) for sent in asked]
            for sent in asked[:2]:  # And what comes alone behind all that.
                assert await line.ask(sent) == await service.other.ask(sent)

    run(crowd())


BLANKS = [b"\r", b"\n", b"\r\n", b"\r\n\r", b" "]
"""What may come before a request, and what may not."""


def test_half_a_request_is_not_completed_by_a_known_one() -> None:
    """Bytes that look like a whole request may be the rest of another one."""

    async def smuggle() -> None:
        async with served() as service:
            await fill(service.rankd)
            known, score = get("p1"), keyed("p1", 1)
            await service.other.ask(score)
            for begun, rest in (
                (b"GET /v1/boards/b/standings/p2 HTTP/1.1\r\nhost: localhost\r\nx-more: ", known),
                (b"GET /v1/boards/b/standings/p2 HTTP/1.1\r\nx-more: ", known),
                (post(b"x" * len(known))[: -len(known)], known),
                (post(b"x" * len(score))[: -len(score)], score),
                *((begun, rest) for begun in BLANKS for rest in (known, score)),
            ):
                line, other = service.fast.connect(), service.other.connect()
                for sent in (known, score):
                    await line.ask(sent)
                assert await line.ask(begun, rest) == await other.ask(begun, rest)

    run(smuggle())


def test_blank_lines_before_a_known_request_count_for_it_alone() -> None:
    """Whoever answers without the parser must leave to it what the parser has begun to count."""

    async def pad() -> None:
        async with served(request_head_bytes_max=1024) as service:
            known, score, placeholder = get("p1"), keyed("p1", 1), b"\r\n" * 100
            lines = [lane.connect() for lane in (service.fast, service.other)]
            for sent in (score, known):
                await lines[0].ask(sent)
            for sent in (score, known) * 4:
                fast, other = [await line.ask(placeholder, placeholder, sent) for line in lines]
                assert (fast, status(fast)) == (other, 200)

    run(pad())


# ---------------------------------------------------------------------------- submissions


def test_a_known_submission_may_come_cut_anywhere() -> None:
    async def cut() -> None:
        async with served() as service:
            sent = post({"player": "p1", "score": 5, "key": "k"})
            line = await service.know(sent)
            whole = await line.ask(sent)
            assert told(whole)["duplicate"] is True
            for at in range(1, len(sent)):
                assert await line.ask(sent[:at], sent[at:]) == whole, at
            assert await line.ask(sent) == whole

    run(cut())


def test_a_body_that_is_not_as_long_as_its_head_says_is_read_as_http_reads_it() -> None:
    async def compare() -> None:
        sent = post(PLAIN)
        async with served() as one, served() as twin:
            await one.know(sent)
            await twin.other.ask(sent)
            fast, other = one.fast.connect(), twin.other.connect()
            for line in (fast, other):
                await line.send(sent[:-1])
                await line.send(sent[-1:] + sent)
            assert [await fast.answer() for _ in range(2)] == [
                await other.answer() for _ in range(2)
            ]
            for line in (fast, other):
                await line.send(sent + b" ")
            assert await fast.rest() == await other.rest()
            assert await ranking(one) == await ranking(twin)

    run(compare())


def test_writes_and_reads_on_one_connection_are_answered_in_order() -> None:
    async def mix() -> None:
        async with served() as one, served() as twin:
            asked = [
                sent
                for number in range(20)
                for sent in (post({"player": "p1", "score": 10 + number}), get("p1"))
            ]
            fast, other = one.fast.connect(), twin.other.connect()
            for together in (1, 2, 3, 40):
                batches = [asked[at : at + together] for at in range(0, 40, together)]
                for line in (fast, other):
                    for some in batches:
                        await line.send(b"".join(some))
                answers = [await fast.answer() for _ in asked]
                assert answers == [await other.answer() for _ in asked]
                assert [told(answer)["player"] for answer in answers] == ["p1"] * 40
            assert one.looked["submit_score"] < 4 * 20

    run(mix())
