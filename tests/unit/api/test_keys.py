"""Making keys."""

from hashlib import sha256
from typing import Any

import pytest

from rankd.api.keys import KEY_BOARDS_MAX, KEY_PREFIX, TITLE_LENGTH_MAX, NewKey, make_key, show_key
from rankd.errors import InvalidRequest


def test_a_key_is_long_its_own_and_kept_nowhere() -> None:
    (fact, secret), (_, other) = [make_key(NewKey(["read"]), actor="a") for _ in range(2)]
    assert secret.startswith(KEY_PREFIX) and len(secret) == len(KEY_PREFIX) + 43
    assert secret != other and "." not in secret, "a key with dots could be taken for a token"
    assert fact.digest == sha256(secret.encode()).digest()
    assert secret not in repr(fact)
    assert show_key(fact).key is None and show_key(fact, secret).key == secret


def test_scopes_and_boards_are_kept_once_and_in_order() -> None:
    fact, _ = make_key(NewKey(["admin", "read", "read"], ["b", "a", "b"], "t"), actor=None)
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
        ({"scopes": ["read"], "title": "a\nb"}, "title"),
        ({"scopes": ["read"], "title": "x" * (TITLE_LENGTH_MAX + 1)}, "title"),
    ],
)
def test_what_a_key_cannot_be_is_refused(asked: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        make_key(NewKey(**asked), actor=None)
    assert [wrong.field for wrong in raised.value.errors] == [field]
