"""Rewards: the bands of a definition, and the players of a settled window that each band is for.

A band is a range of ranks, or the best part of the ranking in percent, and a gift: any JSON, an
amount, or both. ``Allotment`` decides which entries a band is for, and how much each gets. It is
arithmetic on ranks alone, so every node and every check of a certificate comes to the same rewards.

An amount is a whole number in the smallest unit that the definition writes: ``"100.00"`` is 10,000
hundredths. Where tied players share it, the parts add up to it exactly.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from math import ceil, isfinite
from typing import Any, NamedTuple, Protocol

import msgspec

from rankd.model.standing import TieRule

REWARD_BANDS_MAX = 64
"""Bands of one definition, which every settlement compares each of the best entries with."""

GIVE_BYTES_MAX = 2048
"""Of one gift as JSON, as much as metadata: it is in every answer that lists a reward."""

BANDS_BYTES_MAX = 16_384
"""Of all gifts of a definition: a snapshot has the definition of every closed window."""

REWARDS_MAX = 1_000_000
"""Rewards of one settlement, which are recorded in one append: ten percent of 10 M players."""

AMOUNT_DECIMALS_MAX = 9
PERCENT_DECIMALS_MAX = 6
"""Digits after the point. A millionth of a percent of 100 M players is one player."""

_AMOUNT_MAX = 2**63 - 1
_NUMBER = re.compile(r"(0|[1-9][0-9]*)(\.[0-9]+)?", re.ASCII)
_NUMBER_LENGTH_MAX = 32
"""Nineteen digits and a point fit well."""

_FIELDS = ("ranks", "top_percent", "give", "amount", "share", "window")


class RewardBand(NamedTuple):
    """The places of a ranking that get one gift."""

    first: int = 1
    last: int = 0
    """Ranks, both inclusive; 0 where ``top_percent`` is given."""
    top_percent: Decimal | None = None
    give: bytes | None = None
    """Any JSON."""
    amount: int | None = None
    """Of each place, in smallest units."""
    decimals: int = 0
    """Of the amount."""
    share: bool = False
    """Whether tied players share the amounts of the places that they take together."""
    window: str | None = None
    """The name of the recurrence whose windows it is for; None for all."""

    def last_rank(self, total: int) -> int:
        """Return the last rank of the band in a ranking of so many entries.

        The best percent are those that fewer than so many percent of all entries are ahead of: at
        least one entry of any ranking.
        """
        if self.top_percent is None:
            return self.last
        return ceil(total * self.top_percent / 100)

    def definition(self) -> dict[str, Any]:
        """Return the band as a definition spells it."""
        shown: dict[str, Any] = {}
        if self.top_percent is None:
            shown["ranks"] = [self.first, self.last]
        else:
            percent = self.top_percent
            shown["top_percent"] = int(percent) if percent == int(percent) else float(percent)
        if self.give is not None:
            shown["give"] = msgspec.json.decode(self.give)
        if self.amount is not None:
            shown["amount"] = show_amount(self.amount, self.decimals)
        if self.share:
            shown["share"] = True
        if self.window is not None:
            shown["window"] = self.window
        return shown


def show_amount(amount: int, decimals: int) -> str:
    """Return an amount as text, with all of its digits: money is no binary fraction."""
    return f"{Decimal(amount).scaleb(-decimals):f}"


class TiedGroup(NamedTuple):
    """Consecutive entries of one shown rank; of boards without shared ranks a single one."""

    place: int
    """The unique place of the first of them, counted from 1."""
    rank: int
    players: Sequence[str]
    """In the order of their places."""


class Allotted(NamedTuple):
    """A reward before it is recorded."""

    band: int
    """The place of the band in the definition, counted from 0."""
    player: str
    rank: int
    amount: int | None


class Allotment:
    """The decision which entries of one ranking get which rewards."""

    def __init__(self, bands: Sequence[RewardBand], window: str, ties: TieRule, total: int) -> None:
        """Take the bands of a definition that are for windows of this name."""
        self._dense = ties is TieRule.DENSE
        self._bands = [
            (number, band, band.last_rank(total))
            for number, band in enumerate(bands)
            if band.window in (None, window)
        ]

    def is_past(self, group: TiedGroup) -> bool:
        """Whether neither a group nor any behind it gets a reward."""
        return all(self._key(band, group) > last for _, band, last in self._bands)

    def rewards_of(self, group: TiedGroup) -> Iterator[Allotted]:
        """Yield the rewards of a group, at most one for each player and band."""
        for number, band, last in self._bands:
            key = self._key(band, group)
            if band.share:
                places = self._places(band, group, key, last)
                if places:
                    yield from _shared(number, band, group, places)
            elif band.first <= key <= last:
                for player in group.players:
                    yield Allotted(number, player, group.rank, band.amount)

    def _key(self, band: RewardBand, group: TiedGroup) -> int:
        """Return the rank that a band is compared with.

        Percentages go by the number of entries ahead, on boards with dense ranks, too.
        """
        return group.place if band.top_percent is not None else group.rank

    def _places(self, band: RewardBand, group: TiedGroup, key: int, last: int) -> int:
        """Return how many places of a band a group takes: of dense ranks one for all of it."""
        if self._dense and band.top_percent is None:
            return int(band.first <= key <= last)
        end = group.place + len(group.players) - 1
        return max(0, min(end, last) - max(group.place, band.first) + 1)


def _shared(number: int, band: RewardBand, group: TiedGroup, places: int) -> Iterator[Allotted]:
    """Split the amounts of some places among a group; the rest goes to the first ones."""
    assert band.amount is not None
    part, left = divmod(band.amount * places, len(group.players))
    for place, player in enumerate(group.players):
        yield Allotted(number, player, group.rank, part + (place < left))


# ------------------------------------------------------------- reading a definition


class BandReader(Protocol):
    """The reader of a definition, which remembers every fault that it finds."""

    def refuse(self, path: str, message: str) -> None:
        """Remember a fault."""

    def mapping(
        self, path: str, value: object, known: Sequence[str] | None
    ) -> Mapping[str, object]:
        """Return an object with known fields; an empty one in place of anything else."""

    def items(self, path: str, value: object, *, low: int, high: int) -> Sequence[object]:
        """Return a list of so many items; an empty one in place of anything else."""

    def flag(self, path: str, value: object) -> bool:
        """Return true or false; false in place of anything else."""

    def json(self, path: str, value: object, *, bytes_max: int) -> bytes | None:
        """Return any JSON as bytes; None in place of anything else."""


def read_rewards(read: BandReader, given: object, windows: Sequence[str]) -> tuple[RewardBand, ...]:
    """Return the bands of a definition in its order; ``windows`` are the names it defines."""
    if given is None:
        return ()
    items = read.items("rewards", given, low=0, high=REWARD_BANDS_MAX)
    bands = tuple(
        _read_band(read, f"rewards[{number}]", item, windows) for number, item in enumerate(items)
    )
    if sum(len(band.give or b"") for band in bands) > BANDS_BYTES_MAX:
        read.refuse("rewards", f"must have at most {BANDS_BYTES_MAX} bytes of give in all")
    return bands


def _read_band(read: BandReader, path: str, item: object, windows: Sequence[str]) -> RewardBand:
    fields = read.mapping(path, item, _FIELDS)
    if not isinstance(item, Mapping):
        return RewardBand()
    ranks, percent = fields.get("ranks"), fields.get("top_percent")
    first, last, top = 1, 0, None
    if (ranks is None) == (percent is None):
        read.refuse(path, "must have either ranks or top_percent")
    elif ranks is not None:
        first, last = _read_ranks(read, f"{path}.ranks", ranks)
    else:
        top = _read_percent(read, f"{path}.top_percent", percent)
    amount, decimals = _read_amount(read, f"{path}.amount", fields.get("amount"))
    give, share = fields.get("give"), read.flag(f"{path}.share", fields.get("share"))
    if give is None and fields.get("amount") is None:
        read.refuse(path, "must have give, amount, or both")
    if share and fields.get("amount") is None:
        read.refuse(f"{path}.share", "needs an amount: only that can be shared")
    window = fields.get("window")
    if window is not None and window not in windows:
        read.refuse(f"{path}.window", "must be the name of a window of this board")
        window = None
    encoded = None
    if give is not None:
        encoded = read.json(f"{path}.give", give, bytes_max=GIVE_BYTES_MAX)
    name = None if window is None else str(window)
    return RewardBand(first, last, top, encoded, amount, decimals, share, name)


def _read_ranks(read: BandReader, path: str, given: object) -> tuple[int, int]:
    match given:
        case [int() as first, int() as last] if (
            not isinstance(first, bool)
            and not isinstance(last, bool)
            and 1 <= first <= last <= REWARDS_MAX
        ):
            return first, last
    read.refuse(path, f"must be [first, last], two ranks from 1 to {REWARDS_MAX}")
    return 1, 0


def _read_percent(read: BandReader, path: str, given: object) -> Decimal | None:
    percent = _decimal(given)
    if percent is None or not 0 < percent <= 100 or _digits(percent) > PERCENT_DECIMALS_MAX:
        least = f"at most {PERCENT_DECIMALS_MAX} digits after the point"
        read.refuse(path, f"must be a number above 0 and up to 100, with {least}")
        return Decimal(1)
    return percent.normalize()


def _read_amount(read: BandReader, path: str, given: object) -> tuple[int | None, int]:
    if given is None:
        return None, 0
    amount = _decimal(given)
    decimals = 0 if amount is None else _digits(amount)
    if amount is not None and amount > 0 and decimals <= AMOUNT_DECIMALS_MAX:
        scaled = int(amount.scaleb(decimals))
        if scaled <= _AMOUNT_MAX:
            return scaled, decimals
    read.refuse(
        path,
        f"must be a number, or text of one, above 0, with at most {AMOUNT_DECIMALS_MAX} digits "
        "after the point and 64 bits in all",
    )
    return None, 0


def _decimal(given: object) -> Decimal | None:
    """Return a number exactly as it is written, a whole one without a point; None for others."""
    match given:
        case bool():
            return None
        case float():
            text = f"{Decimal(repr(given)):f}".removesuffix(".0") if isfinite(given) else ""
        case int() | str():
            text = str(given) if isinstance(given, str) or abs(given) <= _AMOUNT_MAX else ""
        case Decimal():
            text = (
                f"{given:f}"
                if given.is_finite() and abs(given.adjusted()) < _NUMBER_LENGTH_MAX
                else ""
            )
        case _:
            return None
    return Decimal(text) if len(text) <= _NUMBER_LENGTH_MAX and _NUMBER.fullmatch(text) else None


def _digits(number: Decimal) -> int:
    """Return how many digits are after the point."""
    exponent = number.as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0
