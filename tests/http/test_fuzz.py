"""A short run of the fuzzer, and the proof that it can fail."""

from random import Random

import pytest
from tests.http.fuzz import API, TOYS, What, campaign, check, mutated
from tests.http.running import run

REQUESTS = 300


@pytest.mark.parametrize("what", [TOYS, API], ids=["toys", "api"])
def test_any_bytes_get_a_clean_answer_from_both_lanes(what: What) -> None:
    met = run(campaign(what, requests=REQUESTS, seed=1))
    assert met[200] > 0 and met[400] > 0


def test_the_same_seed_sends_the_same_bytes() -> None:
    once, again = [mutated(Random("1/7"), API.seeds) for _ in range(2)]
    assert once == again


@pytest.mark.parametrize(
    ("fast", "other"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", b""),
        (b"HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n",) * 2,
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabc",) * 2,
    ],
    ids=["a difference", "a 5xx", "a cut"],
)
def test_the_fuzzer_sees_what_it_is_for(fast: bytes, other: bytes) -> None:
    with pytest.raises(AssertionError):
        check([b""], fast, other)
