"""How often somebody may ask: token buckets for keys, for players and for addresses.

A bucket holds up to ``burst`` requests and is filled at the rate that is set. Buckets are made when
somebody asks for the first time and the least recently used are forgotten: whoever is forgotten
begins with a full one, which is what a stranger gets too.

Who asks is known by the address at the other end of the connection, unless that is a proxy of ours:
then the header it adds tells, read from the right, because everything further left was written by
whoever is being counted.
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
"""Of each kind; some 20 MB. Beyond it the least recently used bucket is forgotten."""

FORWARDED_MAX = 16
"""Addresses of X-Forwarded-For that are looked at: more proxies than stand in any row."""

ADDRESSES_MAX = 16_384
"""Addresses kept as they were read, with the header that told them: some 10 MB."""

IPV6_PREFIX = 64
"""One household or one rented server has all of these addresses, and may change at will."""

RETRY_AFTER_SECONDS_MAX = 3600
"""However slow a rate is, nobody is told to stay away for longer."""

PLAYER_FIELDS = ("player", "player_id", "user_id")
"""What the fields are called that say for whom a score is submitted."""

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address


class Buckets:
    """Buckets of one kind, by name."""

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
        """What each held, and when that was."""

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, names: Iterable[str], count: int = 1) -> None:
        """Take so many requests out of each bucket, or none out of any. Raises RateLimited.

        Of more than a burst nobody ever gets so many at once.
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
            self.take([name])  # Which refuses.
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


class Limits:
    """The three kinds of buckets; those without a rate do not exist."""

    def __init__(self, settings: Settings, *, now: Callable[[], float]) -> None:
        def buckets(rate: float) -> Buckets | None:
            return Buckets(rate=rate, burst=settings.rate_burst, now=now) if rate else None

        self._keys = buckets(settings.rate_per_key)
        self._players = buckets(settings.rate_per_player)
        self._addresses = buckets(settings.rate_per_address)
        self._proxies = read_networks(settings.trusted_proxies)
        self._burst = settings.rate_burst

    def take_address(self, client: str, forwarded_for: bytes | None) -> None:
        """Count a request for where it comes from, before anything of it is believed."""
        if self._addresses is not None:
            self._addresses.take_one(address_of(client, forwarded_for, self._proxies))

    def take_key(self, id: str) -> None:
        """Count a request for the key it shows."""
        if self._keys is not None:
            self._keys.take_one(id)

    def take_player(self, player: str, scores: int = 1) -> None:
        """Count a request, or each score of a batch, for the player whose token it shows.

        Raises InvalidRequest where waiting would not help: no player ever has so many at once.
        """
        if self._players is None:
            return
        if scores > self._burst:
            message = f"must be at most {self._burst} at once with a player's token"
            raise InvalidRequest([FieldError("scores", message)])
        self._players.take([player], scores)

    def take_players(self, players: Sequence[str]) -> None:
        """Count a submission for each player it is made for, once."""
        if self._players is None:
            return
        if len(players) == 1:
            self._players.take_one(players[0])
        else:
            self._players.take(players)


def limits_of(settings: Settings, *, now: Callable[[], float]) -> Limits | None:
    """Return the limits that are set; None if none is, so that nothing is spent on them."""
    rates = (settings.rate_per_key, settings.rate_per_player, settings.rate_per_address)
    read_networks(settings.trusted_proxies)
    return Limits(settings, now=now) if any(rates) else None


def players_of(body: bytes, board: str | None) -> list[str]:
    """Return for whom a body submits to a board, each once. What cannot be read is for nobody."""
    try:
        decoded = msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return []  # Whoever reads it next says what is wrong with it.
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
    """Return the networks of the proxies that are trusted. Raises InvalidSetting."""
    try:
        return tuple(ip_network(text, strict=False) for text in texts)
    except ValueError:
        raise InvalidSetting(
            setting="trusted_proxies",
            source="the settings",
            problem="takes addresses and networks such as 10.0.0.5 or 10.0.0.0/8",
        ) from None


def address_of(client: str, forwarded_for: bytes | None, proxies: tuple[Network, ...]) -> str:
    """Return where a request comes from, as far as that can be trusted; of IPv6 the network."""
    return _addresses(client, forwarded_for if proxies else None, proxies)[1]


def client_of(client: str, forwarded_for: bytes | None, proxies: tuple[Network, ...]) -> str:
    """Return the address that a request comes from, as far as that can be trusted."""
    return _addresses(client, forwarded_for if proxies else None, proxies)[0]


@lru_cache(ADDRESSES_MAX)
def _addresses(
    client: str, forwarded_for: bytes | None, proxies: tuple[Network, ...]
) -> tuple[str, str]:
    """Return the address of a client, and the one that is counted."""
    found = _read_address(client)
    if found is not None and forwarded_for is not None and _is_one_of(found, proxies):
        found = _behind(found, forwarded_for, proxies)
    return (client, client) if found is None else (str(found), _household(found))


def _behind(proxy: Address, forwarded: bytes, proxies: tuple[Network, ...]) -> Address:
    """Return the address nearest to us that is not a proxy of ours; in doubt the last proxy's."""
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
