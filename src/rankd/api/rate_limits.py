"""Rate limits: token buckets for keys, for players and for addresses.

A bucket holds up to ``burst`` requests and refills at the configured rate. It is created at the
first request, and the least recently used are evicted: an evicted client starts with a full bucket,
like a new one.

The address is that of the connection. If that is a trusted proxy, it is taken from X-Forwarded-For,
read from the right, because a client can forge all entries further left.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

import msgspec

from rankd.errors import FieldError, InvalidRequest, InvalidSetting, RateLimited
from rankd.settings import Settings

BUCKETS_MAX = 100_000
"""Buckets of each kind, some 20 MB. Beyond it the least recently used bucket is evicted."""

FORWARDED_MAX = 16
"""Entries of X-Forwarded-For that are read: more than any chain of proxies has."""

ADDRESSES_MAX = 16_384
"""Cached addresses by connection and header: some 10 MB."""

IPV6_PREFIX = 64
"""One household or one rented server has all addresses of such a network, and can switch at will.
"""

RETRY_AFTER_SECONDS_MAX = 3600
"""The upper bound of Retry-After, however slow a rate is."""

PLAYER_FIELDS = ("player", "player_id", "user_id")
"""The fields with the player of a submission."""

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address


class TokenBuckets:
    """Token buckets of one kind, by name."""

    __slots__ = ("_buckets", "_buckets_max", "_burst", "_now", "_rate")

    def __init__(
        self,
        *,
        rate: float,
        burst: int,
        now: Callable[[], float],
        buckets_max: int = BUCKETS_MAX,
    ) -> None:
        assert rate > 0 and burst >= 1 and buckets_max >= 1
        self._rate, self._burst, self._now = rate, burst, now
        self._buckets_max = buckets_max
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """The level of each bucket, and the time of that level."""

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, names: Iterable[str], count: int = 1) -> None:
        """Take ``count`` requests out of each bucket, or out of none. Raises RateLimited.

        A ``count`` above the burst never succeeds.
        """
        now = self._now()
        held = {name: self._held(name, now) for name in names}
        lowest = min(held.values(), default=float(count))
        if lowest < count:
            seconds = math.ceil((count - lowest) / self._rate)
            raise RateLimited(retry_after_seconds=min(max(seconds, 1), RETRY_AFTER_SECONDS_MAX))
        for name, level in held.items():
            self._buckets[name] = (level - count, now)
            self._buckets.move_to_end(name)
        while len(self._buckets) > self._buckets_max:
            self._buckets.popitem(last=False)

    def take_one(self, name: str) -> None:
        """Take one request out of one bucket. Raises RateLimited."""
        now = self._now()
        level = self._held(name, now)
        if level < 1:
            self.take([name])  # Raises.
        buckets = self._buckets
        buckets[name] = (level - 1, now)
        buckets.move_to_end(name)
        if len(buckets) > self._buckets_max:
            buckets.popitem(last=False)

    def _held(self, name: str, now: float) -> float:
        known = self._buckets.get(name)
        if known is None:
            return float(self._burst)
        level, at = known
        return min(self._burst, level + max(0.0, now - at) * self._rate)


class RateLimits:
    """The three kinds of buckets; a kind without a rate is not counted."""

    def __init__(self, settings: Settings, *, now: Callable[[], float]) -> None:
        def buckets(rate: float) -> TokenBuckets | None:
            return TokenBuckets(rate=rate, burst=settings.rate_burst, now=now) if rate else None

        self._keys = buckets(settings.rate_per_key)
        self._players = buckets(settings.rate_per_player)
        self._addresses = buckets(settings.rate_per_address)
        self._proxies = read_networks(settings.trusted_proxies)
        self._burst = settings.rate_burst

    def take_address(self, client: str, forwarded_for: bytes | None) -> None:
        """Count a request for its address, before its credentials are checked."""
        if self._addresses is not None:
            self._addresses.take_one(address_of(client, forwarded_for, self._proxies))

    def take_key(self, id: str) -> None:
        """Count a request for its key."""
        if self._keys is not None:
            self._keys.take_one(id)

    def take_player(self, player: str, scores: int = 1) -> None:
        """Count a request, or each score of a batch, for the player of its token.

        Raises InvalidRequest for more scores than the burst, because waiting would not help.
        """
        if self._players is None:
            return
        if scores > self._burst:
            message = f"must be at most {self._burst} at once with a player's token"
            raise InvalidRequest([FieldError("scores", message)])
        self._players.take([player], scores)

    def take_players(self, players: Sequence[str]) -> None:
        """Count a submission once for each of its players."""
        if self._players is None:
            return
        if len(players) == 1:
            self._players.take_one(players[0])
        else:
            self._players.take(players)


def limits_of(settings: Settings, *, now: Callable[[], float]) -> RateLimits | None:
    """Return the configured rate limits; None if there are none. Raises InvalidSetting."""
    rates = (settings.rate_per_key, settings.rate_per_player, settings.rate_per_address)
    read_networks(settings.trusted_proxies)
    return RateLimits(settings, now=now) if any(rates) else None


def players_of(body: bytes, board: str | None) -> list[str]:
    """Return the distinct players a body submits for on a board; none if it cannot be decoded."""
    try:
        decoded = msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return []  # The handler decodes it again, and reports the error.
    if not isinstance(decoded, dict):
        return []
    many = decoded.get("scores")
    if not isinstance(many, list):
        return _named(decoded)
    items = [item for item in many if isinstance(item, dict) and item.get("board") == board]
    return list(dict.fromkeys(name for item in items for name in _named(item)))


def _named(item: Mapping[str, Any]) -> list[str]:
    for field in PLAYER_FIELDS:
        if isinstance(name := item.get(field), str | int):
            return [str(name)]
    return []


# --------------------------------------------------------------------------- addresses


def read_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Return the networks of trusted proxies. Raises InvalidSetting."""
    try:
        return tuple(ip_network(text, strict=False) for text in texts)
    except ValueError:
        raise InvalidSetting(
            setting="trusted_proxies",
            source="the settings",
            problem="takes addresses and networks such as 10.0.0.5 or 10.0.0.0/8",
        ) from None


def address_of(client: str, forwarded_for: bytes | None, proxies: tuple[Network, ...]) -> str:
    """Return the trustworthy client address of a request; of IPv6 its /64 network."""
    return _addresses(client, forwarded_for if proxies else None, proxies)[1]


def client_of(client: str, forwarded_for: bytes | None, proxies: tuple[Network, ...]) -> str:
    """Return the trustworthy client address of a request."""
    return _addresses(client, forwarded_for if proxies else None, proxies)[0]


@lru_cache(ADDRESSES_MAX)
def _addresses(
    client: str, forwarded_for: bytes | None, proxies: tuple[Network, ...]
) -> tuple[str, str]:
    """Return a client's address, and the name of its bucket."""
    found = _read_address(client)
    if found is not None and forwarded_for is not None and _is_one_of(found, proxies):
        found = _behind(found, forwarded_for, proxies)
    return (client, client) if found is None else (str(found), _household(found))


def _behind(proxy: Address, forwarded: bytes, proxies: tuple[Network, ...]) -> Address:
    """Return the nearest address that is no trusted proxy; at an invalid entry, the one before."""
    nearest = proxy
    for part in reversed(forwarded.rsplit(b",", FORWARDED_MAX)[-FORWARDED_MAX:]):
        found = _read_address(part.decode("latin-1").strip())
        if found is None:
            return nearest
        nearest = found
        if not _is_one_of(found, proxies):
            return nearest
    return nearest


def _read_address(text: str) -> Address | None:
    try:
        found = ip_address(text)
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return mapped or found


def _is_one_of(address: Address, networks: tuple[Network, ...]) -> bool:
    return any(address in network for network in networks)


def _household(address: Address) -> str:
    if isinstance(address, IPv4Address):
        return str(address)
    return str(IPv6Network((int(address), IPV6_PREFIX), strict=False))
