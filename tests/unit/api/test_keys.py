"""Making keys."""

from hashlib import sha256
from typing import Any

import pytest

from rankd.api.keys import KEY_BOARDS_MAX, KEY_PREFIX, TITLE_LENGTH_MAX, NewKey, make_key
from rankd.errors import InvalidRequest

DAY = 86_400_000_000
NOW = 1_794_614_400_000_000
"""2026-11-14."""


def test_a_key_is_long_its_own_and_kept_nowhere() -> None:
    (fact, secret), (_, other) = [make_key(NewKey(["read"]), actor="a", now=NOW) for _ in range(2)]
    assert secret.startswith(KEY_PREFIX) and len(secret) == len(KEY_PREFIX) + 43
    assert secret != other and "." not in secret, "a key with dots could be taken for a token"
    assert fact.digest == sha256(secret.encode()).digest()
    assert secret not in repr(fact)


def test_scopes_and_boards_are_kept_once_and_in_order() -> None:
    fact, _ = make_key(NewKey(["admin", "read", "read"], ["b", "a", "b"], "t"), actor=None, now=NOW)
    assert (fact.scopes, fact.boards, fact.title) == (("read", "admin"), ("b", "a"), "t")


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"scopes": []}, "scopes"),
        ({"scopes": ["write"]}, "scopes"),
        ({"scopes": ["read"], "boards": []}, "boards"),
        ({"scopes": ["read"], "boards": ["x" * 65]}, "boards"),
        ({"scopes": ["read"], "boards": ["a/b"]}, "boards"),
        ({"scopes": ["read"], "boards": ["a"] * (KEY_BOARDS_MAX + 1)}, "boards"),
        ({"scopes": ["read"], "title": ""}, "title"),
        *(
            ({"scopes": ["read"], "expires": wrong}, "expires")
            for wrong in (
                "",
                "soon",
                "0d",
                "-1d",
                "2026-11-14",
                "2026-11-13T23:59:59Z",
                "2027-13-01",
            )
        ),
        ({"scopes": ["read"], "expires": "2027-01-01T00:00:00"}, "expires"),
        ({"scopes": ["read"], "expires": "9" * 30 + "d"}, "expires"),
        ({"scopes": ["read"], "title": "a\nb"}, "title"),
        ({"scopes": ["read"], "title": "x" * (TITLE_LENGTH_MAX + 1)}, "title"),
    ],
)
def test_what_a_key_cannot_be_is_refused(asked: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        make_key(NewKey(**asked), actor=None, now=NOW)
    assert [wrong.field for wrong in raised.value.errors] == [field]


@pytest.mark.parametrize(
    ("text", "expires"),
    [
        ("90d", NOW + 90 * DAY),
        ("36h", NOW + DAY + DAY // 2),
        ("2026-11-15", NOW + DAY),
        ("2026-11-14T06:00:00Z", NOW + DAY // 4),
        ("2026-11-14t06:00:00.5+01:00", NOW + DAY // 24 * 5 + 500_000),
    ],
)
def test_a_key_expires_after_a_duration_or_at_a_time(text: str, expires: int) -> None:
    fact, _ = make_key(NewKey(["read"], expires=text), actor=None, now=NOW)
    assert fact.expiry == expires
    assert fact.kind == "key_created.2", "an older version must not read past it"


def test_a_key_that_never_expires_is_recorded_as_it_always_was() -> None:
    fact, _ = make_key(NewKey(["read"]), actor=None, now=NOW)
    assert (fact.kind, fact.expiry) == ("key_created.1", None)
