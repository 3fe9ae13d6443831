"""Every error this package raises, and what a caller can do about it.

RankdError
├── Refused        understood, and will not be done: do not retry         (4xx)
│   └── InvalidBoard
├── Unavailable    may succeed later: retry with back-off, same key       (503)
└── Corrupt        a promise does not hold: stop and tell a human         (500)

Programming mistakes are not in this tree. They are assertions, and are never caught.
"""

from typing import ClassVar


class RankdError(Exception):
    """Base of everything above."""

    code: ClassVar[str]
    _taken: ClassVar[dict[str, type["RankdError"]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if (code := cls.__dict__.get("code")) is not None:
            assert code not in RankdError._taken, f"error code {code!r} is taken"
            RankdError._taken[code] = cls


class Refused(RankdError):
    """The request was understood and will not be done."""


class Unavailable(RankdError):
    """The request may succeed later: retry with back-off and the same submission key."""


class Corrupt(RankdError):
    """A promise does not hold. Stop, and tell a human."""
