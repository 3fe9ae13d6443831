"""As much of Redis' protocol as is needed, and no more trust than it deserves."""

import io

import pytest

from rankd.cli import resp
from rankd.cli.output import CommandFailed
from rankd.cli.resp import RespConnection, place_of


class Recorded(io.BytesIO):
    """Answers that were written down, and what was sent."""

    def __init__(self, answers: bytes) -> None:
        super().__init__(answers)
        self.sent = b""

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.sent += data
        return len(data)


def test_a_sorted_set_is_walked_to_its_end() -> None:
    stream = Recorded(
        b"*2\r\n$1\r\n7\r\n*4\r\n$3\r\nann\r\n$2\r\n10\r\n$3\r\nbob\r\n$4\r\n2.50\r\n"
        b"*2\r\n$1\r\n0\r\n*2\r\n$2\r\nx\n\r\n$2\r\n-1\r\n"
    )
    found = list(resp.members(RespConnection(stream), "key"))
    assert found == [(b"ann", b"10"), (b"bob", b"2.50"), (b"x\n", b"-1")]
    assert stream.sent.count(b"ZSCAN") == 2
    assert b"$3\r\nkey\r\n$1\r\n7\r\n" in stream.sent


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        (b"-WRONGTYPE Operation\r\n", "Redis refuses: WRONGTYPE"),
        (b"HTTP/1.1 400 Bad Request\r\n", "not RespConnection"),
        (b"*2\r\n$1\r\n0\r\n", "closed"),
        (b"", "closed"),
        (b"$99999999999\r\n", "too large"),
        (b"*99999999999\r\n", "too long"),
        (b":1\r\n", "not RespConnection"),
        (b"*" + b"1" * 100_000, "closed"),
    ],
)
def test_what_is_not_a_sorted_set_is_told(answers: bytes, why: str) -> None:
    with pytest.raises(CommandFailed, match=why):
        list(resp.members(RespConnection(Recorded(answers)), "key"))


def test_a_set_that_is_not_there_is_told() -> None:
    with pytest.raises(CommandFailed, match="no sorted set 'key'"):
        resp.count(RespConnection(Recorded(b":0\r\n")), "key")


def test_an_address_names_a_key_and_never_repeats_a_password() -> None:
    place = place_of("rediss://me:se%40cret@host:7000/3/a%20b/c")
    assert place[:4] == ("host", 7000, 3, "a b/c")
    assert (place.user, place.password, place.tls) == ("me", "se@cret", True)
    assert place.source == "redis://host:7000/3/a b/c"
    assert place_of("redis://host/scores")[:4] == ("host", 6379, 0, "scores")
    assert place_of("redis://host/game/scores")[:4] == ("host", 6379, 0, "game/scores")


@pytest.mark.parametrize("url", ["redis://", "redis://host", "redis://host/", "redis://h:x/k"])
def test_an_address_without_a_key_is_refused(url: str) -> None:
    with pytest.raises(CommandFailed, match="redis://HOST:PORT/DATABASE/KEY"):
        place_of(url)
