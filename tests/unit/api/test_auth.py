"""Who is let in; what no request over HTTP can tell apart is told here."""

import contextlib
from hashlib import sha256
from typing import Any

import pytest

from rankd.api import auth
from rankd.api.auth import AUTHORIZATION_BYTES_MAX, KEY_SECONDS_MAX, Actor, Authenticator
from rankd.api.messages import Request
from rankd.api.rate_limits import RateLimits
from rankd.core.state import State
from rankd.errors import Forbidden, RateLimited, Unauthenticated
from rankd.model.facts import ExpiringKeyCreated, KeyCreated, KeyRevoked, Position, Recorded
from rankd.model.window import Instant
from rankd.settings import Settings


def state(*keys: KeyCreated) -> State:
    made = State()
    for place, key in enumerate(keys, start=1):
        made.note(Recorded(Position(place), Instant(0), key))
    return made


def key(secret: str, *scopes: str, boards: tuple[str, ...] | None = None) -> KeyCreated:
    return KeyCreated(f"id-{secret}", sha256(secret.encode()).digest(), scopes, boards)


def request(authorization: bytes | None = None, body: bytes = b"", **headers: bytes) -> Request:
    shown = {name.replace("_", "-").encode(): value for name, value in headers.items()}
    if authorization is not None:
        shown[b"authorization"] = authorization
    return Request("GET", "/", {}, {}, shown, body, "203.0.113.9")


def authenticator(*keys: KeyCreated, **more: Any) -> Authenticator:
    made = state(*keys)
    return Authenticator(lambda: made, **{"loopback": True, **more})


def test_a_key_is_known_by_the_scheme_in_any_case_and_by_all_of_its_bytes() -> None:
    door = authenticator(key("secret", "read"))
    for shown in (b"Bearer secret", b"bearer secret", b"BEARER  secret "):
        assert door.admit(request(shown), "read") == Actor("id-secret")
    for shown in (b"Bearer secre", b"Bearer secrets", b"secret", b"Bearersecret", b"Bearer", b""):
        with pytest.raises(Unauthenticated):
            door.admit(request(shown), "read")


def test_more_than_the_longest_token_is_not_looked_at() -> None:
    def read(token: bytes) -> Actor:
        raise AssertionError("it was looked at")

    with pytest.raises(Unauthenticated):
        authenticator(token=read).admit(
            request(b"Bearer a.b." + b"c" * AUTHORIZATION_BYTES_MAX), "read"
        )


def test_a_gate_without_tokens_takes_one_for_an_unknown_key() -> None:
    with pytest.raises(Unauthenticated):
        authenticator(key("secret", "read")).admit(request(b"Bearer a.b.c"), "read")


def test_a_wrong_key_is_not_better_than_none_while_the_service_is_open() -> None:
    door = authenticator()
    assert door.open
    assert door.admit(request(), "admin").name is None
    with pytest.raises(Unauthenticated):
        door.admit(request(b"Bearer nonsense"), "read")


def test_who_may_bring_boards_into_being() -> None:
    assert Actor(None).may_create
    assert Actor("key").may_create
    assert not Actor("key", limited=True).may_create
    assert not Actor("player:p1", "p1").may_create


def test_a_key_for_boards_opens_nothing_that_is_about_no_board() -> None:
    door = authenticator(key("k", "admin", boards=("one",)))
    assert door.admit(request(b"Bearer k"), "admin", "one").limited
    for board in (None, "", "two", "One"):
        with pytest.raises(Forbidden):
            door.admit(request(b"Bearer k"), "read", board)


def test_strangers_are_known_before_a_body_is_read() -> None:
    def read(token: bytes) -> Actor:
        return Actor("player:p1", "p1")

    shut = authenticator(key("k", "read"), token=read)
    shut.check_known(request(b"Bearer k"))
    shut.check_known(request(b"Bearer a.b.c"))
    authenticator().check_known(request())
    for stranger in (request(), request(b"Bearer x"), request(b"Basic k")):
        with pytest.raises(Unauthenticated):
            shut.check_known(stranger)


# ------------------------------------------------------------------------------ times


def expiring(secret: str, expires: float) -> ExpiringKeyCreated:
    digest = sha256(secret.encode()).digest()
    return ExpiringKeyCreated(f"id-{secret}", digest, ("read",), expires=int(expires * 1_000_000))


def test_a_key_opens_until_it_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000.0
    monkeypatch.setattr(auth, "time", lambda: now)
    door, shown = authenticator(expiring("k", 1_100), key("never", "read")), request(b"Bearer k")
    assert door.admit(shown, "read").name == "id-k"
    admission = door.admission(shown, "read")
    assert admission is not None and admission.until == now + KEY_SECONDS_MAX
    now = 1_099.0
    admission = door.admission(shown, "read")
    assert admission is not None and admission.until == 1_100
    now = 1_100.0
    assert door.admission(shown, "read") is None
    for ask in (lambda: door.admit(shown, "read"), lambda: door.check_known(shown)):
        with pytest.raises(Unauthenticated, match="the key has expired"):
            ask()
    assert door.admit(request(b"Bearer never"), "read").name == "id-never"
    assert not authenticator(expiring("k", 1_100)).open, "that all keys have expired opens nothing"


def test_last_uses_are_of_keys_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 5.0
    monkeypatch.setattr(auth, "time", lambda: now)
    made = state(key("k", "read"), key("l", "read"), expiring("m", 1))
    door = Authenticator(lambda: made, loopback=True)
    assert door.used == {}
    for shown in (b"Bearer k", b"Bearer l", b"Bearer m", b"Bearer unknown"):
        with contextlib.suppress(Unauthenticated):
            door.admit(request(shown), "read")
    assert door.used == {"id-k": 5_000_000, "id-l": 5_000_000}
    with pytest.raises(Forbidden):
        door.admit(request(b"Bearer k"), "admin")
    door.note_uses({"id-k": 4_000_000, "id-l": 6_000_000, "id-gone": 1})
    assert door.used == {"id-k": 5_000_000, "id-l": 6_000_000}
    made.note(Recorded(Position(9), Instant(0), KeyRevoked("id-k")))
    assert door.used == {"id-l": 6_000_000}


# ------------------------------------------------------------------------------ limits


def limited(*keys: KeyCreated, **rates: float) -> Authenticator:
    settings = Settings(rate_burst=2, **rates)  # type: ignore[arg-type]
    return authenticator(*keys, limits=RateLimits(settings, now=lambda: 0.0))


def test_a_key_that_asks_too_often_is_refused_also_for_what_it_may_not() -> None:
    door = limited(key("k", "read"), key("other", "read"), rate_per_key=1)
    with pytest.raises(Forbidden):
        door.admit(request(b"Bearer k"), "admin")
    door.admit(request(b"Bearer k"), "read")
    with pytest.raises(RateLimited):
        door.admit(request(b"Bearer k"), "read")
    door.admit(request(b"Bearer other"), "read")


def test_guessing_keys_is_counted_for_the_address() -> None:
    door = limited(key("k", "read"), rate_per_address=1)
    for _ in range(2):
        with pytest.raises(Unauthenticated):
            door.admit(request(b"Bearer guess"), "read")
    with pytest.raises(RateLimited):
        door.admit(request(b"Bearer k"), "read")


def test_a_player_is_counted_by_its_token_and_by_what_is_submitted_for_it() -> None:
    def read(token: bytes) -> Actor:
        return Actor("player:p1", "p1")

    settings = Settings(rate_burst=2, rate_per_player=1)
    door = authenticator(
        key("k", "submit"), token=read, limits=RateLimits(settings, now=lambda: 0.0)
    )
    score = b'{"player":"p1","score":1}'
    door.admit(request(b"Bearer a.b.c"), "read")
    door.admit(request(b"Bearer k", score), "submit", "one")
    with pytest.raises(RateLimited):
        door.admit(request(b"Bearer a.b.c"), "read")
    with pytest.raises(RateLimited):
        door.count_scores(door.admit(request(b"Bearer a.b.c", score), "submit", "one"))
    door.admit(request(b"Bearer k", b'{"player":"p2"}'), "submit", "one")
