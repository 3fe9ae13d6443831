"""What is packed for a script is what its prelude unpacks, and the other way round."""

import msgspec

from rankd.adapters.redis.protocol import pack, unpack


def test_strings_lie_end_to_end_beside_their_lengths() -> None:
    head, strings = pack(["text", 7, [True]], [b"\xff\0", b"", b"abc"])
    assert msgspec.msgpack.decode(head) == ["text", 7, [True], [2, 0, 3]]
    assert strings == b"\xff\0abc"


def test_an_answer_is_read_in_the_order_in_which_it_was_said() -> None:
    numbers, sizes = msgspec.msgpack.encode([1, 2**40]), msgspec.msgpack.encode([2, -1, 0, 1])
    answer = unpack([b"ok", b"18446744073709551615", numbers, sizes, b"\xff\0x", b"9"])
    assert (answer.status, answer.at, answer.pending) == ("ok", 2**64 - 1, 9)
    assert list(answer.numbers) == [1, 2**40]
    assert list(answer.strings) == [b"\xff\0", None, b"", b"x"]
    assert unpack([b"ok", b"1", numbers, sizes, b"\xff\0x", b""]).pending is None


def test_what_is_not_taken_says_why() -> None:
    answer = unpack([b"mistake", b"3", b"was never opened"])
    assert (answer.status, answer.at, answer.reason) == ("mistake", 3, "was never opened")
    assert unpack([b"gone"]).status == "gone"
