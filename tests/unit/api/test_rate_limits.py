"""How often somebody may ask."""

import pytest

from rankd.api.rate_limits import (
    BUCKETS_MAX,
    FORWARDED_MAX,
    RateLimits,
    TokenBuckets,
    address_of,
    limits_of,
    players_of,
    read_networks,
)
from rankd.errors import InvalidRequest, InvalidSetting, RateLimited
from rankd.settings import Settings


class Time:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


# ----------------------------------------------------------------------------- buckets


def taken(buckets: TokenBuckets, name: str = "a") -> int:
    """How many requests are let through before the first that is not."""
    for count in range(1000):
        try:
            buckets.take([name]) if count % 2 else buckets.take_one(name)
        except RateLimited:
            return count
    raise AssertionError("nothing stops it")


def test_a_burst_is_let_through_and_then_the_rate_holds() -> None:
    time = Time()
    buckets = TokenBuckets(rate=2, burst=5, now=time)
    assert taken(buckets) == 5
    assert taken(buckets) == 0
    time.seconds += 1.5
    assert taken(buckets) == 3
    time.seconds += 3600
    assert taken(buckets) == 5, "a bucket holds no more than a burst"


def test_each_name_has_a_bucket_of_its_own() -> None:
    buckets = TokenBuckets(rate=1, burst=3, now=Time())
    assert (taken(buckets, "a"), taken(buckets, "b"), taken(buckets, "a")) == (3, 3, 0)


@pytest.mark.parametrize(("rate", "seconds"), [(10, 1), (1, 1), (0.5, 2), (0.1, 10), (1e-6, 3600)])
def test_whoever_is_refused_is_told_how_long_to_wait(rate: float, seconds: int) -> None:
    time = Time()
    buckets = TokenBuckets(rate=rate, burst=1, now=time)
    buckets.take(["a"])
    with pytest.raises(RateLimited) as refused:
        buckets.take(["a"])
    assert refused.value.retry_after_seconds == seconds
    if seconds < 3600:
        time.seconds += seconds
        buckets.take(["a"])


def test_many_are_taken_together_or_not_at_all() -> None:
    buckets = TokenBuckets(rate=1, burst=2, now=Time())
    buckets.take(["a"])
    buckets.take(["a"])
    with pytest.raises(RateLimited):
        buckets.take(["b", "a"])
    assert taken(buckets, "b") == 2, "whoever was with somebody refused has lost nothing"


def test_several_are_taken_for_one_name_or_none_is() -> None:
    time = Time()
    buckets = TokenBuckets(rate=0.5, burst=5, now=time)
    buckets.take(["a"], 3)
    with pytest.raises(RateLimited) as refused:
        buckets.take(["a"], 4)
    assert refused.value.retry_after_seconds == 4
    time.seconds += 4
    buckets.take(["a"], 4)
    assert taken(buckets) == 0


def test_of_more_than_a_burst_nobody_is_told_to_wait() -> None:
    limits = RateLimits(Settings(rate_per_player=1, rate_burst=3), now=Time())
    with pytest.raises(InvalidRequest):
        limits.take_player("p1", 4)
    limits.take_player("p1", 3)
    RateLimits(Settings(rate_per_key=1, rate_burst=3), now=Time()).take_player("p1", 4)


def test_the_least_recently_used_is_forgotten_first() -> None:
    buckets = TokenBuckets(rate=1, burst=2, now=Time(), buckets_max=2)
    for name in ("a", "b", "b", "a", "c"):
        buckets.take([name])
    assert len(buckets) == 2
    with pytest.raises(RateLimited):
        buckets.take(["a"])
    buckets.take(["b"])  # Forgotten, and so a stranger with a full bucket.
    assert BUCKETS_MAX >= 1000


def test_a_clock_that_goes_back_gives_nothing_away() -> None:
    time = Time()
    buckets = TokenBuckets(rate=1, burst=2, now=time)
    assert taken(buckets) == 2
    time.seconds -= 100
    assert taken(buckets) == 0


# --------------------------------------------------------------------- which are there


def test_limits_that_are_not_set_do_not_exist() -> None:
    assert limits_of(Settings(), now=Time()) is None
    assert isinstance(limits_of(Settings(rate_per_key=1), now=Time()), RateLimits)


def test_only_what_is_set_is_counted() -> None:
    limits = RateLimits(Settings(rate_per_key=1, rate_burst=1), now=Time())
    for _ in range(3):
        limits.take_address("203.0.113.9", None)
        limits.take_player("p1")
    limits.take_key("k")
    with pytest.raises(RateLimited):
        limits.take_key("k")


def test_a_submission_counts_for_each_of_its_players_once() -> None:
    limits = RateLimits(Settings(rate_per_player=1, rate_burst=1), now=Time())
    batch = (
        b'{"scores":[{"board":"a","player":"p1"},{"board":"a","player":"p1"},'
        b'{"board":"b","player":"p2"}]}'
    )
    limits.take_players(players_of(batch, "a"))
    limits.take_players(["p2"])
    for players in (["p1"], ["p2"], ["p1", "p3"]):
        with pytest.raises(RateLimited):
            limits.take_players(players)
    limits.take_players(["p3"])


@pytest.mark.parametrize(
    ("body", "players"),
    [
        (b'{"player":"p1","score":1}', ["p1"]),
        (b'{"player_id":12345}', ["12345"]),
        (b'{"user_id":"u"}', ["u"]),
        (b'{"scores":[{"board":"a","player":"x"},7,{"board":"b","player":"y"}]}', ["x"]),
        (b'{"player":["p1"]}', []),
        (b"[]", []),
        (b"{", []),
        (b"", []),
        (b"\xff", []),
        (b"[" * 100_000, []),
    ],
)
def test_whom_a_body_is_for(body: bytes, players: list[str]) -> None:
    assert players_of(body, "a") == players


# --------------------------------------------------------------------------- addresses

PROXIES = read_networks(["10.0.0.0/8", "2001:db8::1"])


@pytest.mark.parametrize(
    ("client", "forwarded", "address"),
    [
        ("203.0.113.9", None, "203.0.113.9"),
        ("203.0.113.9", "198.51.100.1", "203.0.113.9"),
        ("10.0.0.1", None, "10.0.0.1"),
        ("10.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "6.6.6.6, 198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "6.6.6.6, 198.51.100.1, 10.0.0.2", "198.51.100.1"),
        ("10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ("10.0.0.1", "198.51.100.1, nonsense", "10.0.0.1"),
        ("10.0.0.1", "nonsense, 10.0.0.2", "10.0.0.2"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("::ffff:10.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("2001:db8::1", "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", None, "2001:db8:1:2::/64"),
        ("", None, ""),
    ],
)
def test_where_a_request_comes_from(client: str, forwarded: str | None, address: str) -> None:
    header = None if forwarded is None else forwarded.encode()
    assert address_of(client, header, PROXIES) == address


def test_without_proxies_nothing_that_is_forwarded_is_believed() -> None:
    assert address_of("10.0.0.1", b"198.51.100.1", ()) == "10.0.0.1"


def test_a_header_without_end_is_read_from_its_end_and_no_further() -> None:
    endless = "6.6.6.6, " + ", ".join(["10.0.0.2"] * FORWARDED_MAX)
    assert address_of("10.0.0.1", endless.encode(), PROXIES) == "10.0.0.2"


@pytest.mark.parametrize("text", ["proxy.example", "10.0.0.0/33", "300.1.1.1"])
def test_a_proxy_that_is_no_address_is_refused_at_the_start(text: str) -> None:
    with pytest.raises(InvalidSetting, match="trusted_proxies"):
        limits_of(Settings(trusted_proxies=(text,)), now=Time())
